/*
 * far_side.h - the other side of a session, played by a test: says and hears frames; far_bulk.h has
 * the bulk channels. One session at a time, opened and closed by CASE.
 */
#ifndef TWT_FAR_SIDE_H
#define TWT_FAR_SIDE_H

#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/op.h"
#include "transport/op/op_table.h"
#include "transport/stream/session_parts.h"

#define CREDIT (64u << 10)
#define EAGER  1000u
#define LARGE  5000u

/* The session that is open. */
struct twt_far {
	struct tow_runtime *runtime;
	struct twi_engine *engine;
	struct tow_peer *peer;
	struct twi_session *session;
	uint8_t bytes[1 << 20]; /* what messages are sent from */
	uint8_t room[1 << 20];  /* and received into */
};
extern struct twt_far twt_far;

/* A session of CREDIT and EAGER on both sides, and one that is open. */
struct twi_session_config twt_far_config(void);
void twt_far_open_session_with(const struct twi_session_config *config);
void twt_far_open_session(uint64_t credit, uint32_t eager_max);
void twt_far_close_session(void);

/* What CASE calls before and after a test: a runtime, and a session of twt_far_config. */
int twt_far_set_up(void **state);
int twt_far_tear_down(void **state);

/* This side's: a message of twt_far.bytes, a receive into twt_far.room. */
struct tow_op *twt_far_send_op(uint64_t n, uint64_t tag);
struct tow_op *twt_far_recv_op(uint64_t n, uint64_t tag);
/* TOW_AGAIN while it is in flight. */
int twt_far_status_of(const struct tow_op *op);

/* The far side says a frame; returns what the session says to it. */
int twt_far_say(uint8_t type, uint64_t seq, uint64_t tag, uint64_t value);
int twt_far_say_flags(uint8_t type, uint8_t flags, uint64_t seq, uint64_t tag, uint64_t value);
/* A small message whole, at once or `step` bytes at a time. */
int twt_far_say_eager(uint64_t seq, uint64_t tag, uint32_t n);
int twt_far_say_summed(uint64_t seq, uint64_t tag, uint32_t n, uint8_t flags, uint32_t sum,
		       size_t step);

/* The next frame that the session says, 0 when it is silent. Payload is skipped. */
uint8_t twt_far_hear(struct twi_frame *frame);
/* It is this one. */
void twt_far_expect(uint8_t type, uint64_t seq);

#define CASE(test) cmocka_unit_test_setup_teardown(test, twt_far_set_up, twt_far_tear_down)

#endif
