/*
 * runtime_hooks.c - the table of what rooms ask of rooms above them, for every runtime
 * (engine/hooks.h).
 */
#include "transport/coll/coll.h"
#include "transport/engine/hooks.h"
#include "transport/inquiry/inquiry.h"
#include "transport/job/group_message.h"
#include "transport/message/any_peer.h"
#include "transport/op/op.h"
#include "transport/rpc/rpc_link.h"
#include "transport/tracing.h"

const struct twi_hooks twi_runtime_hooks = { .op = &twi_op_hooks,
					     .match = &twi_any_hooks,
					     .inquiry = &twi_inquiry_hooks,
					     .link = &twi_link_hooks,
					     .coll = &twi_coll_hooks,
					     .group = &twi_group_hooks,
					     .ranks = { &twi_coll_rank_hooks,
							&twi_inquiry_rank_hooks },
					     .trace = &twi_trace_hooks };
