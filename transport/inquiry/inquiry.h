/*
 * inquiry.h - one rank asks the others for their states, and judges the answers (verdict.h).
 *
 *	/v1/verdict, a long wait, SIGQUIT          the other ranks
 *	     |                                          |
 *	     v          ASK, twice, 400 ms apart        v
 *	  a round  ----------------------------->  the driver there, or the library's own thread,
 *	     |     <-----------------------------  answers with its state (made anew at most
 *	     v          STATE                      once in 50 ms; else a copy)
 *	  950 ms later: twi_verdict_judge
 *
 * There is one round at a time. A request during a round shares it, and a round that has ended
 * serves for a second. Messages go over the connections that ranks have, in TWI_SPACE_LINK with a
 * tag of their own, behind all that is under way. Their number is bounded, and nothing waits for
 * them. In a job that is small enough (ASK_MAX) a round connects to ranks without a connection.
 *
 * One rank makes a round by itself each verdict_interval_ns, and keeps a history (inquiry_looks.c).
 * It is the lowest rank, as far as the others know. Such a *look* makes no connections.
 *
 * Each rank identifies its process and host once on each connection. So a rank on the same host can
 * read /proc for one that does not answer any more.
 *
 *	offset  0      4       8        12         16
 *	        | type | round | sample | reserved | sent_ns | a state, an identity, news,
 *	                                                         or the rank that it lost
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

/* A finding of a look that the previous look did not have (inquiry_news.c). */
struct twi_inquiry_news {
	uint64_t unix_s;
	enum twi_cause cause;
	uint32_t rank, peer; /* for a link its two ends; else peer is UINT32_MAX */
};

/* The rank for which another rank has failed, by its own report (inquiry_gone.c). */
#define TWI_INQUIRY_WHY 160u
struct twi_inquiry_gone {
	uint32_t rank; /* rank in the job: the first that was lost */
	uint64_t at_ns;
	char why[TWI_INQUIRY_WHY]; /* "": there is no report */
};

#define TWI_INQUIRY_HEAD   24u
#define TWI_INQUIRY_GONE   (8u + TWI_INQUIRY_WHY) /* most bytes of GONE, without its head */
#define TWI_INQUIRY_NEWS   24u                    /* bytes of NEWS, without its head */
#define TWI_INQUIRY_SAMPLE 400000000ull           /* ns between the two samples */
#define TWI_INQUIRY_KEEP   1000000000ull

struct twi_inquiry_entry {
	uint32_t rank;
	struct twi_inquiry_line *line;
	uint64_t asked_ns[2];
	bool dialed; /* there was no connection, so a dial was begun */
	int64_t offset_ns;
	uint64_t error_ns;
	struct twi_rank_state *states[2];
};

/* One round. Its last user frees it. */
struct twi_inquiry_round {
	uint32_t users, id;
	bool closed;   /* nothing is added any more */
	bool connects; /* the round connects to ranks without a connection */
	uint64_t begun_ns;
	unsigned sample;
	uint32_t count;
	struct twi_inquiry_entry entries[];
};

/* The inquiry of a runtime, from its open to its close. The engine is held for all of it. */
struct twi_inquiry {
	struct twi_engine *engine;
	struct twi_list lines;
	struct twi_inquiry_round *round; /* the round under way, or the last; NULL: none yet */
	uint32_t rounds;
	struct tow_op timer;
	bool timed;
	uint32_t timed_id;          /* the round for which the timer was set */
	struct twi_rank_state *own; /* state of this rank, as made last */
	uint64_t own_ns;
	struct twi_inquiry_thread *thread; /* NULL: nothing needs a thread */
	bool over;                         /* no thread may be started any more */
	uint64_t lower_ns;                 /* when a lower rank last asked; 0: never */
	struct twi_inquiry_looks *looks;   /* NULL: this rank makes no looks */
	struct tow_op news_op;             /* makes the driver send the news to the others, */
	bool news_op_used;                 /* while this is set */
	struct twi_inquiry_news news;
	struct tow_op gone_op; /* makes the driver send the rank that was lost, */
	bool gone_due;         /* while this is set */
	struct twi_inquiry_gone gone;
	_Atomic bool flight_due;           /* the flight recorder's file is due: flight_file.c */
	_Atomic uint64_t flight_failed_ns; /* time of the last failure */
	struct twi_held_log held;          /* times when the process was held from outside */
	char flight_home[256];             /* default folder of files; "": none */
};

/* inquiry.c: rounds. open: TOW_OK, TOW_ENOMEM, TOW_ESYSTEM. close: the engine is not held. */
int twi_inquiry_open(struct twi_engine *engine);
void twi_inquiry_close(struct twi_engine *engine);
/*
 * Begins a round, unless one is under way or fresh enough. Returns when it can be judged; 0: never.
 * The engine is held.
 */
uint64_t twi_inquiry_begin(struct twi_engine *engine);
/* Does the same for a round that makes no connections. *id_out is the round's number. */
uint64_t twi_inquiry_begin_quietly(struct twi_engine *engine, uint32_t *id_out);
/* Judges that round. False: it is gone, or has not asked its ranks twice. */
bool twi_inquiry_judge_round(struct twi_engine *engine, uint32_t id, struct twi_verdict *out);
/* Tests for a round within the last 30 s. The engine is not held. */
bool twi_inquiry_is_fresh(struct twi_engine *engine);
/* Judges the answers so far, with the engine held or not. False: there was no round. */
bool twi_inquiry_judge(struct twi_engine *engine, struct twi_verdict *out);
/* Does the same and returns a JSON object, which goes to free(). */
int twi_inquiry_document(struct twi_engine *engine, char **bytes_out, size_t *count_out);
/* The calls that lower rooms make (engine/hooks.h). */
extern const struct twi_inquiry_hooks twi_inquiry_hooks;
/* Writes the verdict in one line, behind `prefix`. "": there is no finding. */
void twi_inquiry_short(struct twi_engine *engine, const char *prefix, char *out, size_t room);

/* inquiry_line.c: messages between ranks. The engine is held, except where stated. */
struct twi_inquiry_line {
	struct twi_list link;    /* on inquiry->lines, until the ranks end */
	struct twi_rank_ear ear; /* its peer is NULL when the connection has gone */
	uint32_t rank;
	bool known;                   /* the identity has come */
	struct twi_identity identity; /* as the rank has reported */
	struct twi_inquiry_gone gone; /* as the rank has reported */
	bool missed;                  /* operations with the rank failed, and others know */
	uint8_t in[TWI_INQUIRY_HEAD + TWI_STATE_BYTES];
};

/* Sends a report of a lost rank. False: it cannot be sent. */
bool twi_inquiry_tell_gone(struct twi_inquiry_line *line, const struct twi_inquiry_gone *gone);
/*
 * Returns the bytes, without the head, of a message GONE that was received but whose callback has
 * not run yet. 0: there is none.
 */
size_t twi_inquiry_unread_gone(const struct twi_inquiry_line *line);

/* Called for each connection to a rank: this rank identifies itself, and starts to receive. */
extern const struct twi_rank_hooks twi_inquiry_rank_hooks;
/* Returns the line of a rank, with or without its connection; NULL: there was none. */
struct twi_inquiry_line *twi_inquiry_line_of(struct twi_inquiry *inquiry, uint32_t rank);
/* Returns the line's peer, while the peer may be used; else NULL. */
struct tow_peer *twi_inquiry_line_peer(const struct twi_inquiry_line *line);
bool twi_inquiry_ask(struct twi_inquiry_line *line, uint32_t round, uint32_t sample);
bool twi_inquiry_tell(struct twi_inquiry_line *line, const struct twi_inquiry_news *news);
/* inquiry.c. forget: the line is being freed. heard: a state has come. */
void twi_inquiry_forget(struct twi_inquiry *inquiry, const struct twi_inquiry_line *line);
void twi_inquiry_heard(struct twi_inquiry *inquiry, const struct twi_inquiry_line *line,
		       uint32_t round, uint32_t sample, uint64_t sent_ns, const uint8_t *state,
		       size_t bytes);

/* inquiry_self.c: returns this rank's state, at most 50 ms old. The engine is held. */
const struct twi_rank_state *twi_inquiry_self(struct twi_inquiry *inquiry);

/*
 * inquiry_waits.c: adds waits, messages under way and messages without a receive. The engine is
 * held.
 */
void twi_inquiry_waits(const struct twi_engine *engine, const struct twi_ranks *ranks,
		       struct twi_rank_state *out);

/*
 * inquiry_serve.c: /v1/verdict, /v1/flight; a thread for SIGQUIT and files, where knobs ask for it.
 */
int twi_inquiry_sources_add(struct twi_engine *engine);
void twi_inquiry_sources_remove(struct twi_engine *engine);
int twi_inquiry_thread_start(struct twi_engine *engine);
void twi_inquiry_thread_stop(struct twi_engine *engine);
/* There is a connection to a rank, so looks may begin. The engine is held. */
void twi_inquiry_thread_want(struct twi_engine *engine);
/* Makes the thread of that eventfd write the file that is due at once. */
void twi_inquiry_hurry(int event_fd);
/*
 * A group has failed: the flight recorder's file is due. The engine is held; the thread writes it.
 */
void twi_inquiry_failed(struct twi_engine *engine);

/*
 * inquiry_looks.c: looks that this rank makes by itself. open: TOW_OK, TOW_ENOMEM. start: there are
 * other ranks now; true at the first call. The engine is held.
 */
int twi_inquiry_looks_open(struct twi_inquiry *inquiry);
void twi_inquiry_looks_close(struct twi_inquiry *inquiry);
bool twi_inquiry_looks_start(struct twi_inquiry *inquiry);
/*
 * Returns when the next look is due, by the engine's clock. UINT64_MAX: never. The engine is not
 * held.
 */
uint64_t twi_inquiry_look_due(struct twi_inquiry *inquiry);
/* Begin a look, and end it when *judged_ns_out has come. False: there is none to end. */
bool twi_inquiry_look_begin(struct twi_inquiry *inquiry, uint64_t *judged_ns_out);
void twi_inquiry_look_end(struct twi_inquiry *inquiry);
/*
 * inquiry_news.c: captures that a verdict begins (trace_on_verdict). tell: a look here has found
 * it. This rank captures, and tells all ranks that it is connected to. The engine is not held.
 */
void twi_inquiry_news_tell(struct twi_inquiry *inquiry, const struct twi_history_finding *found);
void twi_inquiry_news_close(struct twi_inquiry *inquiry);
/* heard: rank `from` has sent news. The engine is held. */
void twi_inquiry_news_heard(struct twi_inquiry *inquiry, uint32_t from, const uint8_t *in,
			    size_t bytes);
/* Encode and decode news. read accepts any bytes; false: they are no news. Pure. */
void twi_inquiry_news_write(const struct twi_inquiry_news *news, uint8_t out[TWI_INQUIRY_NEWS]);
bool twi_inquiry_news_read(const uint8_t *in, size_t bytes, uint64_t now_unix_s,
			   struct twi_inquiry_news *out);
/*
 * inquiry_gone.c. suffered: a user's operation has failed, as the rank at its other end has gone.
 * Appends the reason why that rank has failed, if it has reported one, to the text. Then it reports
 * the failure to other ranks.
 */
void twi_inquiry_suffered(const struct tow_op *op, char *text, size_t room);
void twi_inquiry_gone_heard(struct twi_inquiry_line *line, const uint8_t *in, size_t bytes);
void twi_inquiry_gone_close(struct twi_inquiry *inquiry);
/* Encode and decode a report. write returns its bytes. read accepts any bytes; false: no report. */
uint32_t twi_inquiry_gone_write(const struct twi_inquiry_gone *gone, uint8_t out[TWI_INQUIRY_GONE]);
bool twi_inquiry_gone_read(const uint8_t *in, size_t bytes, uint32_t ranks,
			   struct twi_inquiry_gone *out);
/* The sources of /v1/verdicts and /metrics. */
void twi_inquiry_looks_describe(void *arg, struct twi_emit *emit);
void twi_inquiry_looks_metrics(void *arg, struct twi_emit *emit);

#endif
