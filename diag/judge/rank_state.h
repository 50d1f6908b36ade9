/*
 * rank_state.h - what one rank knows of itself at a moment, small enough to be sent to another that
 * asks why the job does not go on (verdict.h judges what has come).
 *
 * All times are of the rank's own clock. Text and counts of others' records are checked when they
 * are read: what was decoded holds only what can be printed, and no count beyond its array.
 */
#ifndef TWI_RANK_STATE_H
#define TWI_RANK_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/group.h>

#include "diag/judge/state_process.h"
#include "diag/judge/state_ways.h"

#define TWI_TELLS_MESSAGES 1u /* bits of `tells`: what stands here is known, with strays */
#define TWI_TELLS_WAITED   2u /* `waited` of collectives' heads: 0 says that it has not */
#define TWI_STATE_GROUPS   6u
#define TWI_STATE_PAST     16u /* collectives of a group */
#define TWI_STATE_HEADS    32u /* and of them, further back, the first of each burst */
#define TWI_STATE_LONGS    8u  /* and bursts that took far longer than usual */
#define TWI_STATE_WAITS    4u
#define TWI_STATE_LINKS    12u
#define TWI_STATE_CPUS     8u /* points of a thread's time on CPUs */
#define TWI_STATE_HOST     64u
#define TWI_STATE_FABRIC   64u
#define TWI_STATE_WHY      200u
#define TWI_STATE_FLOWS    16u /* of groups of other libraries */
#define TWI_STATE_NAME     48u /* of such a group, with the NUL */
#define TWI_STATE_LOCALS   16u /* ranks of such a group in one process that are told */
#define TWI_STATE_LABEL    TOW_GROUP_LABEL_MAX
#define TWI_STATE_CALL     32u
#define TWI_STATE_BYTES    16320u /* the longest there is, encoded, without long bursts */
#define TWI_STATE_NAMED    10240u /* the same without heads of bursts */
#define TWI_STATE_BARE     8192u  /* and without names, and what is foreign */
#define TWI_STATE_NO_RANK  UINT32_MAX
#define TWI_STATE_MESSAGES 8u  /* the user's, under way */
#define TWI_STATE_STRAYS   6u  /* that have come, and nobody receives */
#define TWI_STATE_AWAITED  4u  /* ranks that it waited for most */
#define TWI_STATE_HELD     16u /* seconds of which it is told whether it stood still */

/*
 * A group has up to two rows: of its collectives, and of its barriers (tow_group_barrier), which
 * are counted by themselves. The context of the latter is the group's with this bit.
 */
#define TWI_STATE_BARRIERS 0x80000000u

/* The context of a group of another library (<towline/foreign.h>) has this bit. */
#define TWI_STATE_FOREIGN 0x40000000u

/* One collective, or barrier, as this rank has called it. */
struct twi_state_past {
	uint64_t seq, signature, bytes;
	uint64_t start_ns, done_ns; /* 0: it is under way */
	uint32_t name;              /* a hash of what the user calls it; 0: nothing is known */
	uint8_t kind, type;
	int8_t status;
};

/*
 * One that this rank began while none other of the group was under way there: what it did before is
 * its own doing, whatever it began a moment later while the first one waited.
 */
struct twi_state_head {
	uint64_t seq, start_ns;
	uint64_t idle_ns; /* since when none was under way; 0: it was the first of all */
	uint8_t waited;   /* a thread was in a wait until then: it did nothing else */
};

struct twi_state_group {
	uint32_t ctx, rank, size;
	int32_t broken;
	uint32_t in_flight;
	uint64_t last_seq;   /* begun here */
	uint64_t broken_seq; /* at which it broke; 0: it is whole */
	char why[TWI_STATE_WHY];
	char label[TWI_STATE_LABEL]; /* the group's; "": none */
	/* The user's name of a call: of the oldest under way, or of that at which it broke. */
	uint64_t call_seq; /* 0: none */
	char call[TWI_STATE_CALL];
	uint32_t past_count;
	struct twi_state_past past[TWI_STATE_PAST]; /* newest first */
	uint32_t head_count;
	struct twi_state_head heads[TWI_STATE_HEADS]; /* newest first */
	uint32_t long_count;
	struct twi_state_head longs[TWI_STATE_LONGS]; /* newest first, some of them heads as well */
	char name[TWI_STATE_NAME];                    /* of a foreign one; else "" */
	/*
	 * Of a foreign one: how many of its ranks this process is, and which, `rank` among them;
	 * 0: that one alone. Then it has entered what all of them have.
	 */
	uint32_t local_count;
	uint32_t locals[TWI_STATE_LOCALS];
};

/*
 * Messages of a foreign group, to or from one of its ranks, in the last seconds: how many, and what
 * all of them together waited for.
 */
struct twi_state_flow {
	uint32_t ctx, peer; /* peer: rank in the group */
	uint8_t sends;
	uint64_t window_ns; /* how long that was */
	uint64_t messages, bytes;
	uint64_t device_ns, peer_ns, wire_ns; /* as <towline/foreign.h> says */
};

/* What a thread waits for, or a message that is under way whether one waits for it or not. */
struct twi_state_wait {
	uint8_t kind;  /* enum twi_op_kind, or enum twi_state_kind */
	uint8_t stage; /* enum twi_op_stage; of a collective: enum twi_coll_state */
	uint32_t ctx;  /* of a collective or a barrier; of a message its channel */
	uint32_t rank; /* of the job, at the other end of a message */
	uint64_t seq, tag, bytes, moved;
	uint64_t since_ns;
};
/* Kinds of waits: X(name in capitals, number, name). Up to 4 they are those of enum twi_op_kind. */
#define TWI_STATE_KIND_MAP(X)                                                                      \
	X(SEND, 2u, "send")                                                                        \
	X(RECV, 3u, "receive")                                                                     \
	X(COPY, 4u, "copy")                                                                        \
	X(CALL_OP, 6u, "call")                                                                     \
	X(PUSH, 7u, "push")                                                                        \
	X(PULL, 8u, "pull")                                                                        \
	X(COLL, 255u, "collective")
enum twi_state_kind {
#define TWI_STATE_KIND_ENUM(id, number, name) TWI_STATE_##id = number,
	TWI_STATE_KIND_MAP(TWI_STATE_KIND_ENUM)
#undef TWI_STATE_KIND_ENUM
};
const char *twi_wait_kind_name(uint8_t kind);

/* Stages of messages in which the other side's user is waited for: of enum twi_op_stage. */
#define TWI_STATE_QUEUED  1u /* a send: it has no credit, or no room */
#define TWI_STATE_OFFERED 2u /* a send: nobody there has a receive for it */
#define TWI_STATE_POSTED  5u /* a receive: nothing has come */

/* A message that has come, or is offered, and that no receive of this rank takes. */
struct twi_state_stray {
	uint32_t rank, channel;
	uint64_t seq, tag, bytes;
};

#define TWI_LINK_UP        1u
#define TWI_LINK_BROKEN    2u  /* a connection has gone, and a new one is being made */
#define TWI_LINK_LOST      4u  /* it will not come back */
#define TWI_LINK_BYE       8u  /* the other side has closed in order */
#define TWI_LINK_TCP       16u /* what TCP_INFO says is there */
#define TWI_LINK_NO_CREDIT 32u /* sends wait for the other side to receive what it holds */
#define TWI_LINK_FABRIC    64u /* libfabric's: what its TCP_INFO says cannot be had */

/* At least half of the other side's credit is used up by what nobody here has received. */
#define TWI_LINK_HOLDS 128u

/* One of its streams gets nothing through, sent again several times, and another does. */
#define TWI_LINK_STREAM_STUCK 256u

/* A connection to another rank. What TCP says is of all its streams together. */
struct twi_state_link {
	uint32_t rank, flags;
	uint8_t lane;
	uint64_t unsent_bytes, unacked_bytes; /* of the control stream, as the session counts */
	uint32_t waiting_sends;
	uint32_t pending_ops;    /* of libfabric's: sends that wait, or are not acknowledged */
	uint64_t silent_ns;      /* since something came from there */
	uint64_t stuck_ns;       /* since when nothing that was sent is acknowledged; 0: all is */
	uint32_t heard_segments; /* that have come since then */
	uint32_t backoffs;       /* of the retransmission timer, in a row */
	uint32_t retransmits, spurious, segments_out, segments_in;
	uint32_t rtt_us; /* the least so far */
	uint32_t send_window, send_buffer, receive_buffer;
	uint64_t busy_us, rwnd_limited_us, sndbuf_limited_us;
	/* Messages to it and, of those that are timed where they arrive, from it. */
	struct twi_state_carried carried_out, carried_in;
	struct twi_state_called called; /* from here to there, and answered */
	uint64_t starved_ns;            /* for which sends have waited for credit, so far */
};

/* What a thread can be blocked for: X(name in capitals, name) */
#define TWI_WAITED_MAP(X)                                                                          \
	X(OTHER, "others")                                                                         \
	X(COLL, "collectives")                                                                     \
	X(SEND, "sends")                                                                           \
	X(RECV, "receives")                                                                        \
	X(CALL, "calls")                                                                           \
	X(STREAM, "streams")                                                                       \
	X(COPY, "copies")

enum twi_waited {
#define TWI_WAITED_ENUM(id, name) TWI_WAITED_##id,
	TWI_WAITED_MAP(TWI_WAITED_ENUM)
#undef TWI_WAITED_ENUM
		TWI_WAITED_KINDS
};
const char *twi_waited_name(enum twi_waited kind);

/*
 * For how long the thread that waits was blocked in the last `window_ns` (0: nothing is known of
 * it), for what, and for which ranks most; what the process did meanwhile.
 */
struct twi_state_waited {
	uint64_t window_ns;
	uint64_t ns[TWI_WAITED_KINDS];
	uint32_t waits; /* of a microsecond and more */
	uint32_t steps; /* that have ended (tow_step_end) */
	uint64_t step_ns;
	uint64_t major_faults, read_bytes; /* from storage */
	uint32_t awaited_count;
	struct {
		uint32_t rank;
		uint64_t ns; /* by sends, receives, calls and streams */
	} awaited[TWI_STATE_AWAITED];
};

struct twi_rank_state {
	uint32_t rank, world;
	char host[TWI_STATE_HOST];
	char fabric[TWI_STATE_FABRIC]; /* libfabric's provider and domain; "": it is not in use */
	uint64_t boot, pid_namespace, pid, pid_start;
	uint64_t time_namespace; /* 0: not known */
	uint64_t now_ns;
	uint64_t step; /* number of the training step; 0: not known */
	/* On a CPU, and waiting for one: of the thread that waits for things, or, with thread 0,
	 * of all together. Of the thread there are earlier points, too, oldest first. */
	uint64_t on_cpu_ns, run_queue_ns;
	uint32_t thread, cpu_count;
	struct twi_state_cpu cpus[TWI_STATE_CPUS];
	uint32_t waiters;                                   /* threads in a wait */
	uint64_t pool_bytes, pool_free_bytes, pool_wait_ns; /* waited in all */
	uint32_t pool_waiters;
	uint64_t pool_since_ns, pool_wanted_bytes;    /* of the one that waits longest */
	uint64_t pool_overflows, pool_overflow_bytes; /* that got memory outside, so far */
	uint32_t copies;                              /* to and from devices, under way */
	uint64_t copy_since_ns;                       /* the oldest was started; 0: none */
	uint64_t lost;                                /* records of telemetry */
	bool cut;          /* there was more than there is room for here */
	uint8_t tells;     /* bits; 0: messages and strays are not known */
	uint64_t ended;    /* operations of the user's, so far */
	uint64_t polls;    /* by threads of the user's, so far */
	uint64_t usual_ns; /* the longest that an operation has taken lately; 0: none took long */
	/* Its control groups were kept off CPUs for that long so far, their quota being used up. */
	uint64_t throttled_ns;
	/* At a time some seconds ago it was so much; 0, 0: that is not known. */
	uint64_t throttled_at_ns, throttled_then_ns;
	uint32_t group_count, wait_count, link_count, flow_count;
	struct twi_state_group groups[TWI_STATE_GROUPS];
	struct twi_state_wait waits[TWI_STATE_WAITS];
	struct twi_state_link links[TWI_STATE_LINKS];
	struct twi_state_flow flows[TWI_STATE_FLOWS];
	uint32_t message_count, stray_count;
	struct twi_state_wait messages[TWI_STATE_MESSAGES]; /* the oldest first, from their start */
	struct twi_state_stray strays[TWI_STATE_STRAYS];
	struct twi_state_waited lately, longer; /* some seconds, and up to twelve */
	uint32_t dial_count, stream_count;
	struct twi_state_dial dials[TWI_STATE_DIALS];       /* the oldest first */
	struct twi_state_stream streams[TWI_STATE_STREAMS]; /* of the links that do most */
	/* The second of `now_ns` first, as far as its clock goes, then those before; none: 0. */
	uint32_t held_count;
	struct twi_state_held held[TWI_STATE_HELD];
};

/* What the reader knows: each form has all of the one before. */
enum twi_state_form {
	TWI_STATE_FORM_BARE = 2,
	TWI_STATE_FORM_NAMED,    /* names, groups of other libraries and their messages */
	TWI_STATE_FORM_HEADS,    /* heads of bursts, the time namespace */
	TWI_STATE_FORM_MESSAGES, /* messages under way, strays, what goes on, the quota of CPU */
	TWI_STATE_FORM_WAITED,   /* for how long it waited, what links carried */
	TWI_STATE_FORM_LONGS,    /* bursts that took long, credit, names, dials, streams */
	TWI_STATE_FORM_HELD,     /* when it was held from outside */
};

/* The bytes written, 0: there is no room. Members are written back as they are. */
size_t twi_rank_state_encode(struct twi_rank_state *state, enum twi_state_form form, uint8_t *out,
			     size_t room);

/* False: it is none, or of another version. */
bool twi_rank_state_decode(const uint8_t *in, size_t bytes, struct twi_rank_state *out);

/* The link to `rank`, or NULL. */
const struct twi_state_link *twi_rank_state_link(const struct twi_rank_state *state, uint32_t rank);
/* How many ranks of the group the process is; whether `rank` is one of them. */
uint32_t twi_state_group_covers(const struct twi_state_group *group);
bool twi_state_group_has(const struct twi_state_group *group, uint32_t rank);
/* The group of context `ctx`, or NULL; the collective `seq` of it, or NULL. */
const struct twi_state_group *twi_rank_state_group(const struct twi_rank_state *state,
						   uint32_t ctx);
const struct twi_state_past *twi_state_group_past(const struct twi_state_group *group,
						  uint64_t seq);
/* Its head `seq`, or that of a burst that took long; or NULL. */
const struct twi_state_head *twi_state_group_head(const struct twi_state_group *group,
						  uint64_t seq);

#endif
