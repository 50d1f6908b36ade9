/*
 * inquiry.h - one rank asks the others how they are, and judges what comes back (verdict.h).
 *
 *	/v1/verdict, a long wait, SIGQUIT          the other ranks
 *	     |                                          |
 *	     v          ASK, twice, 400 ms apart        v
 *	  a round  ----------------------------->  who drives there, or the library's own thread,
 *	     |     <-----------------------------  answers with its state (at most one in 50 ms is
 *	     v          STATE                      made anew; more are copies)
 *	  950 ms later: twi_verdict_judge
 *
 * There is one round at a time; who asks while one is under way shares it, and one that has ended
 * serves for a second. Messages go over the connections that ranks have, in TWI_SPACE_LINK with a
 * tag of their own, behind whatever is on the way; they are bounded, and nothing waits for them. A
 * rank without a connection is connected to, if the job is small enough (ASK_MAX).
 *
 * One rank looks by itself each verdict_interval_ns, and keeps what it has seen (inquiry_looks.c):
 * the lowest that others hear of. Such a round connects to nobody.
 *
 * With its connection each rank hears once who is at the other end (process, host): so that of one
 * that has fallen silent, and is of this host, /proc can be asked.
 *
 *	offset  0      4       8        12         16
 *	        | type | round | sample | reserved | sent_ns | a state, who it is, news, |
 *	                                                         or whom it lost
 */
#ifndef TWI_INQUIRY_H
#define TWI_INQUIRY_H

#include <stdatomic.h>

#include <internal/list.h>

#include "diag/base/identity.h"
#include "diag/judge/verdict.h"
#include "transport/inquiry/inquiry_held.h"
#include "transport/job/rank_words.h"
#include "transport/op/op.h"

struct tow_runtime;
struct twi_coll_group;
struct twi_history_finding;
struct twi_emit;
struct twi_engine;
struct twi_inquiry_line;
struct twi_inquiry_looks;
struct twi_inquiry_thread;
struct twi_ranks;

/* What a look has found that the one before had not: of inquiry_news.c. */
struct twi_inquiry_news {
	uint64_t unix_s;
	enum twi_cause cause;
	uint32_t rank, peer; /* of a link its two ends; else peer is UINT32_MAX */
};

/* For whom a rank has failed, as it says itself: of inquiry_gone.c. */
#define TWI_INQUIRY_WHY 160u
struct twi_inquiry_gone {
	uint32_t rank; /* of the job: the first of all */
	uint64_t at_ns;
	char why[TWI_INQUIRY_WHY]; /* "": it has said nothing */
};

#define TWI_INQUIRY_HEAD   24u
#define TWI_INQUIRY_GONE   (8u + TWI_INQUIRY_WHY) /* bytes of that word, at most, likewise: */
#define TWI_INQUIRY_NEWS   24u          /* bytes of the word that tells of them, behind its head */
#define TWI_INQUIRY_SAMPLE 400000000ull /* between the two looks, ns */
#define TWI_INQUIRY_KEEP   1000000000ull

struct twi_inquiry_entry {
	uint32_t rank;
	struct twi_inquiry_line *line;
	uint64_t asked_ns[2];
	bool dialed; /* there was no connection, and one was begun */
	int64_t offset_ns;
	uint64_t error_ns;
	struct twi_rank_state *states[2];
};

/* One round; freed by its last user. */
struct twi_inquiry_round {
	uint32_t users, id;
	bool closed;   /* nothing is added any more */
	bool connects; /* to those that are asked and have no connection yet */
	uint64_t begun_ns;
	unsigned sample;
	uint32_t count;
	struct twi_inquiry_entry entries[];
};

/* Of a runtime, from its open to its close. The engine is held for all of it. */
struct twi_inquiry {
	struct twi_engine *engine;
	struct twi_list lines;
	struct twi_inquiry_round *round; /* the last, or the one under way; NULL: none yet */
	uint32_t rounds;
	struct tow_op timer;
	bool timed;
	uint32_t timed_id;          /* the round for which it was set */
	struct twi_rank_state *own; /* as made last */
	uint64_t own_ns;
	struct twi_inquiry_thread *thread; /* NULL: nothing asks for it */
	bool over;                         /* there will be none any more */
	uint64_t lower_ns;                 /* when a rank below this one has asked; 0: never */
	struct twi_inquiry_looks *looks;   /* NULL: none are ever made here */
	struct tow_op herald;              /* whoever drives tells the others of the news, */
	bool heralded;                     /* while this is set */
	struct twi_inquiry_news news;
	struct tow_op gone_op; /* whoever drives tells the others whom this rank has lost, */
	bool gone_due;         /* while this is set */
	struct twi_inquiry_gone gone;
	_Atomic bool flight_due;           /* the flight recorder's file: flight_file.c */
	_Atomic uint64_t flight_failed_ns; /* since when */
	struct twi_held_log held;          /* when the process was held from outside */
	char flight_home[256];             /* where files go if nobody says; "": nowhere */
};

/* inquiry.c: rounds. open: TOW_OK, TOW_ENOMEM, TOW_ESYSTEM. close: the engine is not held. */
int twi_inquiry_open(struct twi_engine *engine);
void twi_inquiry_close(struct twi_engine *engine);
/* A round is under way, or one is fresh enough. Returns when it can be judged; 0: not at all. The
 * engine is held. */
uint64_t twi_inquiry_begin(struct twi_engine *engine);
/* The same, without connecting to anybody, and which round it is. */
uint64_t twi_inquiry_begin_quietly(struct twi_engine *engine, uint32_t *id_out);
/* Judges that round; false: it is not there any more, or its ranks have not been asked twice. */
bool twi_inquiry_judge_round(struct twi_engine *engine, uint32_t id, struct twi_verdict *out);
/* There has been a round, and not long ago. The engine is not held. */
bool twi_inquiry_is_fresh(struct twi_engine *engine);
/* Judges what has come, with the engine held or not. False: there was no round. */
bool twi_inquiry_judge(struct twi_engine *engine, struct twi_verdict *out);
/* The same as JSON, an object; goes to free(). */
int twi_inquiry_document(struct twi_engine *engine, char **bytes_out, size_t *count_out);
/* What lower rooms ask (engine/hooks.h). */
extern const struct twi_inquiry_hooks twi_inquiry_hooks;
/* The verdict in one line, behind `prefix`; "" when there is nothing to say. */
void twi_inquiry_short(struct twi_engine *engine, const char *prefix, char *out, size_t room);

/* inquiry_line.c: words between ranks. The engine is held, but where said. */
struct twi_inquiry_line {
	struct twi_list link;    /* of inquiry->lines, until the ranks end */
	struct twi_rank_ear ear; /* its peer is NULL when that has gone */
	uint32_t rank;
	bool known;                   /* who it is */
	struct twi_identity identity; /* from its own words */
	struct twi_inquiry_gone gone; /* likewise */
	bool missed;                  /* operations with it have failed, and others know */
	uint8_t in[TWI_INQUIRY_HEAD + TWI_STATE_BYTES];
};

/* False: it cannot be told. */
bool twi_inquiry_tell_gone(struct twi_inquiry_line *line, const struct twi_inquiry_gone *gone);
/* What has come, though its callback has not: the bytes behind the head; 0: not such a word. */
size_t twi_inquiry_unread_gone(const struct twi_inquiry_line *line);

/* A connection to a rank is there: it is told who this is, and listened to. */
extern const struct twi_rank_hooks twi_inquiry_rank_hooks;
/* The connection to a rank, or the one that was; NULL: there was none. */
struct twi_inquiry_line *twi_inquiry_line_of(struct twi_inquiry *inquiry, uint32_t rank);
/* Its peer, while it may be used. */
struct tow_peer *twi_inquiry_line_peer(const struct twi_inquiry_line *line);
bool twi_inquiry_ask(struct twi_inquiry_line *line, uint32_t round, uint32_t sample);
bool twi_inquiry_tell(struct twi_inquiry_line *line, const struct twi_inquiry_news *news);
/* inquiry.c: the line is freed; a state has come. */
void twi_inquiry_forget(struct twi_inquiry *inquiry, const struct twi_inquiry_line *line);
void twi_inquiry_heard(struct twi_inquiry *inquiry, const struct twi_inquiry_line *line,
		       uint32_t round, uint32_t sample, uint64_t sent_ns, const uint8_t *state,
		       size_t bytes);

/* inquiry_self.c: this rank's state, at most 50 ms old. The engine is held. */
const struct twi_rank_state *twi_inquiry_self(struct twi_inquiry *inquiry);

/* inquiry_waits.c: what of it is waited for, and what has come in vain. The engine is held. */
void twi_inquiry_waits(const struct twi_engine *engine, const struct twi_ranks *ranks,
		       struct twi_rank_state *out);

/* inquiry_serve.c: /v1/verdict, /v1/flight; SIGQUIT and dumps by a thread, where knobs ask. */
int twi_inquiry_sources_add(struct twi_engine *engine);
void twi_inquiry_sources_remove(struct twi_engine *engine);
int twi_inquiry_thread_start(struct twi_engine *engine);
void twi_inquiry_thread_stop(struct twi_engine *engine);
/* There is a connection to a rank. The engine is held. */
void twi_inquiry_thread_want(struct twi_engine *engine);
/* The file that is due is not to wait for company: of the thread of that eventfd. */
void twi_inquiry_hurry(int event_fd);
/* A group has broken: the flight recorder's file is due. The engine is held; this writes none. */
void twi_inquiry_failed(struct twi_engine *engine);

/* inquiry_looks.c: looks that this rank makes by itself. open: TOW_OK, TOW_ENOMEM. start: there are
 * other ranks now; true for the first. The engine is held. */
int twi_inquiry_looks_open(struct twi_inquiry *inquiry);
void twi_inquiry_looks_close(struct twi_inquiry *inquiry);
bool twi_inquiry_looks_start(struct twi_inquiry *inquiry);
/* When the next one is due, by the engine's clock. UINT64_MAX: never. The engine is not held. */
uint64_t twi_inquiry_look_due(struct twi_inquiry *inquiry);
/* One look: it is begun, and, when *judged_ns_out has come, ended. False: there is none to end. */
bool twi_inquiry_look_begin(struct twi_inquiry *inquiry, uint64_t *judged_ns_out);
void twi_inquiry_look_end(struct twi_inquiry *inquiry);
/*
 * inquiry_news.c: captures begun by a verdict (trace_on_verdict). tell: a look here has found it;
 * this rank captures, and all others that it is connected to are told. The engine is not held.
 */
void twi_inquiry_news_tell(struct twi_inquiry *inquiry, const struct twi_history_finding *found);
void twi_inquiry_news_close(struct twi_inquiry *inquiry);
/* heard: rank `from` has told of it. The engine is held. */
void twi_inquiry_news_heard(struct twi_inquiry *inquiry, uint32_t from, const uint8_t *in,
			    size_t bytes);
/* As it travels. read: what a stranger may have written; false: it is none. Pure. */
void twi_inquiry_news_write(const struct twi_inquiry_news *news, uint8_t out[TWI_INQUIRY_NEWS]);
bool twi_inquiry_news_read(const uint8_t *in, size_t bytes, uint64_t now_unix_s,
			   struct twi_inquiry_news *out);
/*
 * inquiry_gone.c: an operation of the user's has failed, as the rank at its other end has gone: why
 * that one did, as far as it has said so, goes behind the text. Other ranks are told the same.
 */
void twi_inquiry_suffered(const struct tow_op *op, char *text, size_t room);
void twi_inquiry_gone_heard(struct twi_inquiry_line *line, const uint8_t *in, size_t bytes);
void twi_inquiry_gone_close(struct twi_inquiry *inquiry);
/* As it travels. write: the bytes. read: what a stranger may have written; false: it is none. */
uint32_t twi_inquiry_gone_write(const struct twi_inquiry_gone *gone, uint8_t out[TWI_INQUIRY_GONE]);
bool twi_inquiry_gone_read(const uint8_t *in, size_t bytes, uint32_t ranks,
			   struct twi_inquiry_gone *out);
/* Sources of /v1/verdicts and /metrics. */
void twi_inquiry_looks_describe(void *arg, struct twi_emit *emit);
void twi_inquiry_looks_metrics(void *arg, struct twi_emit *emit);

#endif
