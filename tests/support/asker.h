/*
 * asker.h - a conversation of two processes over tcp: the parent asks, the child does what it was
 * told and answers, with its own counters of what it has read and sent directly. Every wait is
 * bounded.
 */
#ifndef TWT_ASKER_H
#define TWT_ASKER_H

#include <towline/queue.h>

#include "diag/record/counter.h"
#include "duo.h"

#define TWT_ASK_MOST     (16 << 10) /* goes on control, as all that is not larger */
#define TWT_ASK_LARGE    (4 << 20)
#define TWT_ASK_BOUND_NS (60 * TWT_SECOND)

enum twt_command {
	TWT_SAY_ECHO,
	TWT_SAY_LATE,   /* after a while */
	TWT_SAY_AGAIN,  /* a burst follows: read it after a while, verify it, then answer */
	TWT_SAY_LARGER, /* receive a large message, then answer */
	TWT_SAY_BREAK,  /* end the control connection, then answer */
	TWT_SAY_DIE,    /* end the control connection, and by SIGKILL */
	TWT_SAY_STOP,
};

struct twt_word {
	uint64_t number;
	uint32_t command, bytes; /* of the word, and of each message of a burst */
	uint64_t burst, pause_us;
	uint64_t tests;           /* who reads the burst never sleeps, and so acknowledges late */
	uint64_t receives, sends; /* direct ones, of who answers */
};

/* How whoever asks gets its answer. */
enum twt_drive { TWT_BY_WAIT, TWT_BY_TEST, TWT_BY_PROGRESS, TWT_BY_QUEUE };

struct twt_asker {
	struct twt_duo duo;
	struct twt_side *side;
	uint64_t random, number;
	enum twt_drive drive;
	struct twt_word theirs;
	uint8_t out[TWT_ASK_MOST], in[TWT_ASK_MOST];
	struct tow_op *recv;
};

/* Of the lengths of what is asked. */
extern uint64_t twt_asker_seed;

/* A queue of completions that stays empty, of whoever takes from it to move the runtime. */
extern struct tow_queue *twt_idle_queue;

/* The options of both sides, or NULL; `child`: twt_asker_serve, or one that calls _serve_one. */
struct twt_asker *twt_asker_open(const struct tow_options *options,
				 int (*child)(struct twt_duo *duo));
void twt_asker_close(struct twt_asker *a);
int twt_asker_serve(struct twt_duo *duo);
int twt_asker_serve_one(struct twt_side *side, bool *over);

void twt_ask(struct twt_asker *a, struct twt_word word);
void twt_hear(struct twt_asker *a);
void twt_converse(struct twt_asker *a, unsigned times);
/* Until both sides have received and sent directly, from now on. */
void twt_converse_until_direct(struct twt_asker *a);
/* Until the parent's control stream is direct now. */
void twt_be_direct_now(struct twt_asker *a);

uint64_t twt_side_counter(const struct twt_side *side, enum twi_counter id);
/* Only where nobody else drives: background = 0. */
bool twt_is_direct(const struct twt_side *side);
/* One turn of a caller that never waits. True: the operation has ended. */
bool twt_look(const struct twt_side *side, struct tow_op *op, enum twt_drive drive);

#endif
