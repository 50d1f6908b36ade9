/*
 * netlab_messages.h - the messages of a side, and the notices of those that will not come. See
 * netlab_traffic.h.
 */
#ifndef TWT_NETLAB_MESSAGES_H
#define TWT_NETLAB_MESSAGES_H

#include "netlab_traffic.h"

bool twt_nl_step_send(struct twt_nl_traffic *t, struct twt_nl_send *slot);

bool twt_nl_step_receive(struct twt_nl_traffic *t, struct twt_nl_send *slot);

bool twt_nl_idle(const struct twt_nl_send *slots);

bool twt_nl_step_notices_out(struct twt_nl_traffic *t);

bool twt_nl_step_notices_in(struct twt_nl_traffic *t);

#endif
