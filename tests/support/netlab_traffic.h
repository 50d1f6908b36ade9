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
enum twt_nl_came { NL_AWAITED, NL_POSTED, NL_RECEIVED, NL_WITHDRAWN };

struct twt_nl_send {
	struct tow_op *op;
	uint8_t *data;
	uint64_t number, bytes, cancel_ns;
};

struct twt_nl_traffic {
	struct twt_nl_job *job;
	const struct twt_nl_plan *plan;
	struct twt_nl_count *count;
	int side;
	uint64_t random;
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	struct twt_nl_send send[NL_WINDOW], receive[NL_WINDOW];
	uint64_t next_send, next_receive;
	uint8_t *came;       /* of each message to come: enum twt_nl_came */
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
bool twt_nl_fail(struct twt_nl_traffic *t, const char *what, uint64_t number, int status);

struct tow_op_options twt_nl_options(const struct twt_nl_traffic *t);

/* Starting fails only with a peer that is gone, and then the operation need not be there. */
bool twt_nl_started(struct twt_nl_traffic *t, const char *what, uint64_t number, int status);

/* Is this how an operation ends whose peer has gone? */
bool twt_nl_excused(const struct twt_nl_traffic *t, int status);

bool twt_nl_say(struct twt_nl_traffic *t, const void *data, uint64_t bytes, uint64_t tag,
		struct tow_op **op_out);

bool twt_nl_hear(struct twt_nl_traffic *t, void *data, uint64_t bytes, uint64_t tag,
		 struct tow_op **op_out);

/*
 * Has this operation ended? Gives it back then, with its status, and says when the peer has gone;
 * false while it goes on, or is none.
 */
bool twt_nl_ended(struct twt_nl_traffic *t, struct tow_op **op, int *status_out,
		  uint64_t *bytes_out);

#endif
