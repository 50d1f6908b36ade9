/*
 * rank_state.h - what one rank knows of itself at one moment. It is small enough to be sent to
 * another rank that asks why the job does not go on; verdict.h judges the states.
 *
 * All times are of the rank's own clock. Text and counts are checked when a state is decoded. So a
 * decoded state holds only printable text, and no count is larger than its array.
 */
#ifndef TWI_RANK_STATE_H
#define TWI_RANK_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/group.h>

#include "diag/judge/state_process.h"
#include "diag/judge/state_ways.h"

#define TWI_TELLS_MESSAGES 1u /* bits of `tells`: messages and strays are known */
#define TWI_TELLS_WAITED   2u /* `waited` of heads is known: 0 means that the rank has not */
#define TWI_STATE_GROUPS   6u
#define TWI_STATE_PAST     16u /* newest calls of a group */
#define TWI_STATE_HEADS    32u /* first calls of bursts, which reach further back */
#define TWI_STATE_LONGS    8u  /* bursts that took far longer than usual */
#define TWI_STATE_WAITS    4u
#define TWI_STATE_LINKS    12u
#define TWI_STATE_CPUS     8u /* moments for which the CPU time of a thread is known */
#define TWI_STATE_HOST     64u
#define TWI_STATE_FABRIC   64u
#define TWI_STATE_WHY      200u
#define TWI_STATE_FLOWS    16u /* messages of groups of other libraries */
#define TWI_STATE_NAME     48u /* name of such a group, with the NUL */
#define TWI_STATE_LOCALS   16u /* ranks of such a group that are in one process */
#define TWI_STATE_LABEL    TOW_GROUP_LABEL_MAX
#define TWI_STATE_CALL     32u
#define TWI_STATE_BYTES    16320u /* fits any encoded state of form WAITED */
#define TWI_STATE_NAMED    10240u /* fits any of form NAMED */
#define TWI_STATE_BARE     8192u  /* fits any of form BARE */
#define TWI_STATE_NO_RANK  UINT32_MAX
#define TWI_STATE_MESSAGES 8u  /* messages of the user that are under way */
#define TWI_STATE_STRAYS   6u  /* messages that have come, and that no receive takes */
#define TWI_STATE_AWAITED  4u  /* ranks that it waited for most */
#define TWI_STATE_HELD     16u /* seconds for which it is known whether the process was held */

/*
 * A group has up to two rows: one for its collectives, and one for its barriers
 * (tow_group_barrier), which have numbers of their own. The context of the row of barriers is that
 * of the group with this bit.
 */
#define TWI_STATE_BARRIERS 0x80000000u

/* The context of a group of another library (<towline/foreign.h>) has this bit. */
#define TWI_STATE_FOREIGN 0x40000000u

/* One collective or barrier that this rank has called. */
struct twi_state_past {
	uint64_t seq, signature, bytes;
	uint64_t start_ns, done_ns; /* done_ns 0: it is under way */
	uint32_t name;              /* hash of the user's name for it; 0: not known */
	uint8_t kind, type;
	int8_t status;
};

/*
 * The first call of a burst: this rank began it while no other call of the group was under way
 * here. The time before such a call is the own doing of the rank. That is not so for calls that it
 * began a moment later, while the first one waited.
 */
struct twi_state_head {
	uint64_t seq, start_ns;
	uint64_t idle_ns; /* when the last call before ended; 0: this is the first of all */
	uint8_t waited;   /* the caller was blocked in the burst before, so it did nothing else */
};

struct twi_state_group {
	uint32_t ctx, rank, size;
	int32_t broken;
	uint32_t in_flight;
	uint64_t last_seq;   /* newest call begun here */
	uint64_t broken_seq; /* the call at which the group broke; 0: it is whole */
	char why[TWI_STATE_WHY];
	char label[TWI_STATE_LABEL]; /* of the group; "": none */
	/* The user's name of one call: the oldest under way, or that at which the group broke. */
	uint64_t call_seq; /* 0: none */
	char call[TWI_STATE_CALL];
	uint32_t past_count;
	struct twi_state_past past[TWI_STATE_PAST]; /* newest first */
	uint32_t head_count;
	struct twi_state_head heads[TWI_STATE_HEADS]; /* newest first */
	uint32_t long_count;
	struct twi_state_head longs[TWI_STATE_LONGS]; /* newest first; some are in heads as well */
	char name[TWI_STATE_NAME];                    /* of a foreign group; else "" */
	/*
	 * Of a foreign group: how many of its ranks are in this process, and which; `rank` is one
	 * of them. 0: only `rank`. All of these ranks have entered what this row says.
	 */
	uint32_t local_count;
	uint32_t locals[TWI_STATE_LOCALS];
};

/*
 * Messages of a foreign group to or from one of its ranks in the last seconds: how many there were,
 * and sums of their waits.
 */
struct twi_state_flow {
	uint32_t ctx, peer; /* peer: rank in the group */
	uint8_t sends;
	uint64_t window_ns; /* length of that time */
	uint64_t messages, bytes;
	uint64_t device_ns, peer_ns, wire_ns; /* as <towline/foreign.h> says */
};

/* A wait of a thread; or a message under way, whether a thread waits for it or not. */
struct twi_state_wait {
	uint8_t kind;  /* enum twi_op_kind, or enum twi_state_kind */
	uint8_t stage; /* enum twi_op_stage; of a collective, enum twi_coll_state */
	uint32_t ctx;  /* of a collective or barrier; of a message, its channel */
	uint32_t rank; /* number in the job of the other end of a message */
	uint64_t seq, tag, bytes, moved;
	uint64_t since_ns;
};
/* Kinds of waits: X(name in capitals, number, name). Numbers up to 4 are of enum twi_op_kind. */
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

/* Stages of enum twi_op_stage in which a message waits for the user of the other side. */
#define TWI_STATE_QUEUED  1u /* a send without credit, or without room */
#define TWI_STATE_OFFERED 2u /* a send: no receive on the other side takes it */
#define TWI_STATE_POSTED  5u /* a receive: nothing has come */

/* A message that has come or is offered, and that no receive of this rank takes. */
struct twi_state_stray {
	uint32_t rank, channel;
	uint64_t seq, tag, bytes;
};

#define TWI_LINK_UP        1u
#define TWI_LINK_BROKEN    2u  /* a connection has ended, and a new one is being made */
#define TWI_LINK_LOST      4u  /* the link will not come back */
#define TWI_LINK_BYE       8u  /* the other side has closed in order */
#define TWI_LINK_TCP       16u /* the figures of TCP_INFO are there */
#define TWI_LINK_NO_CREDIT 32u /* sends wait until the other side receives what it holds */
#define TWI_LINK_FABRIC    64u /* of libfabric, whose TCP_INFO cannot be read */

/* At least half of the other side's credit is used up by messages not received here. */
#define TWI_LINK_HOLDS 128u

/* One stream gets nothing through after several retransmissions, and another stream does. */
#define TWI_LINK_STREAM_STUCK 256u

/* A connection to another rank. TCP's figures are of all its streams together. */
struct twi_state_link {
	uint32_t rank, flags;
	uint8_t lane;
	uint64_t unsent_bytes, unacked_bytes; /* of the control stream, counted by the session */
	uint32_t waiting_sends;
	uint32_t pending_ops;    /* of libfabric: sends that wait or are not acknowledged */
	uint64_t silent_ns;      /* time since something came from the other side */
	uint64_t stuck_ns;       /* for how long nothing sent has been acknowledged; 0: all is */
	uint32_t heard_segments; /* segments that have come in that time */
	uint32_t backoffs;       /* of the retransmission timer, in a row */
	uint32_t retransmits, spurious, segments_out, segments_in;
	uint32_t rtt_us; /* the least so far */
	uint32_t send_window, send_buffer, receive_buffer;
	uint64_t busy_us, rwnd_limited_us, sndbuf_limited_us;
	/* Messages to the rank; and from it, those that are timed where they arrive. */
	struct twi_state_carried carried_out, carried_in;
	struct twi_state_called called; /* calls from here to there that were answered */
	uint64_t starved_ns;            /* for how long sends have waited for credit so far */
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
 * For how long the thread that waits was blocked in the last `window_ns`, for what, and for which
 * ranks most. Other members say what the process did in that time. window_ns 0: nothing is known.
 */
struct twi_state_waited {
	uint64_t window_ns;
	uint64_t ns[TWI_WAITED_KINDS];
	uint32_t waits; /* waits of a microsecond or more */
	uint32_t steps; /* steps that have ended (tow_step_end) */
	uint64_t step_ns;
	uint64_t major_faults, read_bytes; /* read from storage */
	uint32_t awaited_count;
	struct {
		uint32_t rank;
		uint64_t ns; /* in sends, receives, calls and streams */
	} awaited[TWI_STATE_AWAITED];
};

struct twi_rank_state {
	uint32_t rank, world;
	char host[TWI_STATE_HOST];
	char fabric[TWI_STATE_FABRIC]; /* libfabric's provider and domain; "": not in use */
	uint64_t boot, pid_namespace, pid, pid_start;
	uint64_t time_namespace; /* 0: not known */
	uint64_t now_ns;
	uint64_t step; /* number of the training step; 0: not known */
	/* Time on a CPU, and waiting for one, of `thread`: the thread that waits for operations.
	 * thread 0: of all threads together. cpus: the same at earlier moments, oldest first. */
	uint64_t on_cpu_ns, run_queue_ns;
	uint32_t thread, cpu_count;
	struct twi_state_cpu cpus[TWI_STATE_CPUS];
	uint32_t waiters;                                   /* threads in a wait */
	uint64_t pool_bytes, pool_free_bytes, pool_wait_ns; /* waits so far */
	uint32_t pool_waiters;
	uint64_t pool_since_ns, pool_wanted_bytes;    /* of the longest wait for room */
	uint64_t pool_overflows, pool_overflow_bytes; /* allocations from outside the pool so far */
	uint32_t copies;                              /* copies to and from devices under way */
	uint64_t copy_since_ns;                       /* start of the oldest copy; 0: none */
	uint64_t lost;                                /* records of telemetry that were lost */
	bool cut;                                     /* some rows had no room here */
	uint8_t tells;                                /* bits, as above; 0: neither is known */
	uint64_t ended;                               /* operations of the user, so far */
	uint64_t polls;                               /* by threads of the user, so far */
	uint64_t usual_ns; /* longest duration of a recent operation; 0: none took long */
	/* Time without CPUs so far, because the quota of its control groups was used up. */
	uint64_t throttled_ns;
	/* The same some seconds ago: time, and value; 0, 0: not known. */
	uint64_t throttled_at_ns, throttled_then_ns;
	uint32_t group_count, wait_count, link_count, flow_count;
	struct twi_state_group groups[TWI_STATE_GROUPS];
	struct twi_state_wait waits[TWI_STATE_WAITS];
	struct twi_state_link links[TWI_STATE_LINKS];
	struct twi_state_flow flows[TWI_STATE_FLOWS];
	uint32_t message_count, stray_count;
	struct twi_state_wait messages[TWI_STATE_MESSAGES]; /* oldest first */
	struct twi_state_stray strays[TWI_STATE_STRAYS];
	struct twi_state_waited lately, longer; /* of some seconds; of up to twelve */
	uint32_t dial_count, stream_count;
	struct twi_state_dial dials[TWI_STATE_DIALS];       /* oldest first */
	struct twi_state_stream streams[TWI_STATE_STREAMS]; /* of the links that do most */
	/* The second of `now_ns` first, up to now, then the seconds before; 0: nothing to tell. */
	uint32_t held_count;
	struct twi_state_held held[TWI_STATE_HELD];
};

/* What the reader knows. Each form has all that the form before it has. */
enum twi_state_form {
	TWI_STATE_FORM_BARE = 2,
	TWI_STATE_FORM_NAMED,    /* names, and groups of other libraries with their messages */
	TWI_STATE_FORM_HEADS,    /* first calls of bursts, the time namespace */
	TWI_STATE_FORM_MESSAGES, /* messages under way, strays, progress, the quota of CPU */
	TWI_STATE_FORM_WAITED,   /* for how long it waited, what links carried */
	TWI_STATE_FORM_LONGS,    /* long bursts, credit, names, dials, streams */
	TWI_STATE_FORM_HELD,     /* when the process was held from outside */
};

/* Returns the bytes written; 0: there is no room. `state` is not const, but does not change. */
size_t twi_rank_state_encode(struct twi_rank_state *state, enum twi_state_form form, uint8_t *out,
			     size_t room);

/* False: the bytes are no state, or a state of another version. */
bool twi_rank_state_decode(const uint8_t *in, size_t bytes, struct twi_rank_state *out);

/* The link to `rank`, or NULL. */
const struct twi_state_link *twi_rank_state_link(const struct twi_rank_state *state, uint32_t rank);
/* How many ranks of the group are in the process; whether `rank` is one of them. */
uint32_t twi_state_group_covers(const struct twi_state_group *group);
bool twi_state_group_has(const struct twi_state_group *group, uint32_t rank);
/* The group of the context, or NULL; its collective `seq`, or NULL. */
const struct twi_state_group *twi_rank_state_group(const struct twi_rank_state *state,
						   uint32_t ctx);
const struct twi_state_past *twi_state_group_past(const struct twi_state_group *group,
						  uint64_t seq);
/* The head `seq` of the group, from heads or longs; or NULL. */
const struct twi_state_head *twi_state_group_head(const struct twi_state_group *group,
						  uint64_t seq);

#endif
