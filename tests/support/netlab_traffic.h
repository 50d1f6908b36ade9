/*
 * netlab_traffic.h - verified traffic of one side: messages of all sizes both ways at once, some
 * taken back by either side or given a short deadline, and questions and answers meanwhile. Both
 * sides know from the seed what is to come; each checks all that comes, and that it comes once.
 *
 *	messages  tag i             a window of sends in flight, a window of receives posted
 *	notices   tag NL_NOTICE     "message i will not come", then "that was all": in order
 *	ping      tag NL_PING/PONG  side 0 asks, side 1 answers, one at a time
 *	farewell  tag NL_FAREWELL   the last message: its sender has all that it waits for
 *
 * What is checked: a send that ended well has arrived, whole and once; one that ended canceled has
 * not, and one past its deadline has or has not (its answer may have been on its way); no other
 * status comes, but TOW_EPEER where the plan lets the peer go.
 * Every operation has a deadline, so that nothing can wait for ever.
 *
 * Here is what all of it uses; netlab_messages.h has messages and notices, netlab_side.h the rest.
 */
#ifndef TWT_NETLAB_TRAFFIC_H
#define TWT_NETLAB_TRAFFIC_H

#include "netlab_plan.h"

#define NL_WINDOW   6
#define NL_NOTICE   (1ull << 62)
#define NL_PING     (2ull << 62)
#define NL_PONG     ((2ull << 62) + 1)
#define NL_FAREWELL (3ull << 62)
#define NL_PORT     7700
#define NL_PINGS    2048u /* bytes of the largest */

/* What is known of a message that is to come. */
enum nl_came { NL_AWAITED, NL_POSTED, NL_RECEIVED, NL_WITHDRAWN };

struct nl_send {
	struct tow_op *op;
	uint8_t *data;
	uint64_t number, bytes, cancel_ns;
};

struct nl_traffic {
	struct nl_job *job;
	const struct nl_plan *plan;
	struct nl_count *count;
	int side;
	uint64_t random;
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	struct nl_send send[NL_WINDOW], receive[NL_WINDOW];
	uint64_t next_send, next_receive;
	uint8_t *came;       /* of each message to come: enum nl_came */
	uint64_t *withdrawn; /* notices to say, in order */
	uint32_t withdrawn_said, withdrawn_count;
	struct tow_op *notice_out, *notice_in, *ping_out, *ping_in, *farewell_out, *farewell_in;
	uint64_t *notice_words; /* out, in */
	uint8_t *ping_data;     /* out, in */
	uint64_t ping_number;
	bool all_said, all_heard; /* the last notice has gone, has come */
	bool pings_over, gone;
};

/* The first failure is the one that counts; it is shown by the parent. */
static inline bool nl_fail(struct nl_traffic *t, const char *what, uint64_t number, int status)
{
	if (t->count->failure[0] == '\0')
		snprintf(t->count->failure, sizeof(t->count->failure), "side %d: %s (%llu): %s: %s",
			 t->side, what, (unsigned long long)number, tow_status_name(status),
			 status < 0 ? tow_error_message() : "");
	return false;
}

static inline struct tow_op_options nl_options(const struct nl_traffic *t)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	options.timeout_ns = t->plan->deadline_ns;
	return options;
}

/* Starting fails only with a peer that is gone, and then the operation need not be there. */
static inline bool nl_started(struct nl_traffic *t, const char *what, uint64_t number, int status)
{
	return status == TOW_OK || nl_fail(t, what, number, status);
}

/* Is this how an operation ends whose peer has gone? */
static inline bool nl_excused(const struct nl_traffic *t, int status)
{
	return t->gone && status == TOW_EPEER;
}

static inline bool nl_say(struct nl_traffic *t, const void *data, uint64_t bytes, uint64_t tag,
			  struct tow_op **op_out)
{
	struct tow_op_options options = nl_options(t);

	return nl_started(t, "send", tag,
			  tow_send_start(t->peer, data, bytes, tag, &options, op_out));
}

static inline bool nl_hear(struct nl_traffic *t, void *data, uint64_t bytes, uint64_t tag,
			   struct tow_op **op_out)
{
	struct tow_op_options options = nl_options(t);

	return nl_started(t, "receive", tag,
			  tow_recv_start(t->peer, data, bytes, tag, &options, op_out));
}

/*
 * Has this operation ended? Gives it back then, with its status, and says when the peer has gone;
 * false while it goes on, or is none.
 */
static inline bool nl_ended(struct nl_traffic *t, struct tow_op **op, int *status_out,
			    uint64_t *bytes_out)
{
	struct tow_result result = { .size = sizeof(result) };

	if (*op == NULL)
		return false;
	*status_out = tow_op_test(*op);
	if (*status_out == TOW_AGAIN)
		return false;
	tow_op_result(*op, &result);
	tow_op_release(*op);
	*op = NULL;
	*bytes_out = result.bytes;
	if (*status_out == TOW_EPEER && t->plan->may_go) {
		if (t->count->gone_ns == 0)
			t->count->gone_ns = nl_now();
		t->gone = true;
		t->count->lost_after_gone++;
	}
	return true;
}

#endif
