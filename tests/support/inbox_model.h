/*
 * inbox_model.h - what an inbox (transport/message/inbox.h) has to do, by two lists that are walked
 * from their oldest entry on: which receive meets which message, and what each ends with.
 */
#ifndef TWT_INBOX_MODEL_H
#define TWT_INBOX_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct tow_op;
struct twi_unexpected;

#define TWT_INBOX_STEPS 400
#define TWT_INBOX_BYTES 300u /* of the longest message */
#define TWT_INBOX_GUARD 8u   /* behind the memory of a receive */

enum twt_sent_at { TWT_WAITS, TWT_MET, TWT_OVER };

/* A message as the model has it. */
struct twt_sent {
	uint64_t seq, tag, bytes;
	enum twt_sent_at at;
	bool offered, whole, corrupt;
	bool charged; /* its credit is out */
	struct twi_unexpected *row;
};

/* A receive as the model has it. */
struct twt_asked {
	struct tow_op *op;
	uint64_t tag, mask, room; /* mask: which bits of the tag count */
	uint64_t started;         /* receives are numbered from the oldest on */
	uint64_t met_tag;         /* of the message that it has met last */
	uint8_t memory[TWT_INBOX_BYTES + TWT_INBOX_GUARD];
	enum twt_sent_at at;
	struct twt_sent *met;
	bool truncate;
	int status; /* TWT_OVER: what it must have ended with */
	uint64_t bytes, dropped;
};

struct twt_inbox_model {
	struct twt_sent *waiting[TWT_INBOX_STEPS]; /* from the oldest on */
	struct twt_asked *posted[TWT_INBOX_STEPS];
	unsigned waiting_count, posted_count;
	uint64_t credit_out;
};
extern struct twt_inbox_model twt_inbox;

/* Entry `at` leaves a list of `count`. */
void twt_inbox_take_out(void *list, unsigned *count, unsigned at);

/* The credit of a message, if any is out, comes back. */
void twt_inbox_credit_back(struct twt_sent *message);

/* A receive has ended so. */
void twt_inbox_over(struct twt_asked *recv, int status, uint64_t bytes);

/* It has ended well, with a message of `bytes` or with what it has room for. */
void twt_inbox_over_well(struct twt_asked *recv, uint64_t bytes);

/* All of a small message is there, and this receive has met it. */
void twt_inbox_deliver(struct twt_asked *recv, struct twt_sent *message);

/* Does it take messages of that tag? */
bool twt_inbox_takes(const struct twt_asked *recv, uint64_t tag);

/* A receive, a message comes, or is there again: what was started or sent first is met first. */
void twt_inbox_post(struct twt_asked *recv);
void twt_inbox_arrive(struct twt_sent *message);

#endif
