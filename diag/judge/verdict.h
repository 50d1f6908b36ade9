/*
 * verdict.h - why a job is stuck or slow: a pure function of what its ranks report of themselves.
 *
 *	states of ranks, twice -----+
 *	of silent ones: process,    +--> twi_verdict_judge --> findings: cause, culprits,
 *	connections                 |                          confidence, evidence
 *	clocks ---------------------+
 *
 * Each rank is asked twice, some tenths of a second apart. The difference shows what moves: time in
 * the run queue, retransmissions, a collective under way. A rank that has not answered is judged by
 * what the other ranks know of it.
 *
 * The judge looks for causes, not for victims. A rank is never accused because it waits, nor
 * because it is behind while another rank holds it up.
 */
#ifndef TWI_VERDICT_H
#define TWI_VERDICT_H

#include "diag/base/identity.h"
#include "diag/judge/rank_state.h"

struct twi_emit;

/*
 * X(name in capitals, name, what is wrong with the culprit, what mends it). New causes go to the
 * end, because ranks send each other the numbers of causes.
 */
#define TWI_CAUSE_MAP(X)                                                                           \
	X(DEAD, "dead", "has ended",                                                               \
	  "look at how the process ended (exit status, kernel log for out-of-memory kills)")       \
	X(STOPPED, "stopped", "is stopped",                                                        \
	  "continue the process (kill -CONT), or find who stopped it: a debugger, a batch system") \
	X(SILENT, "silent", "does not answer",                                                     \
	  "see where its threads are (towstat stacks); with background=0 it answers only "         \
	  "while it calls the library")                                                            \
	X(OTHER_OPERATION, "other_operation", "has started another operation",                     \
	  "make all ranks start the same operations of a group in the same order")                 \
	X(LINK, "link", "gets nothing through",                                                    \
	  "look at that direction of the path: cable, switch, firewall, routes")                   \
	X(PACKET_LOSS, "packet_loss", "loses packets",                                             \
	  "look at that direction of the path: errors and drops of the interfaces, MTU, queues")   \
	X(MTU, "mtu", "lets small packets through, and no large ones",                             \
	  "find the MTU of the path (ping -M do -s 1472), and set it on the interfaces, or let "   \
	  "ICMP 'fragmentation needed' pass; net.ipv4.tcp_mtu_probing=1 goes around it")           \
	X(POOL, "pool", "has too little room in its pool",                                         \
	  "raise premap_memory_bytes to what /v1/pool recommends there at least, or free buffers " \
	  "earlier")                                                                               \
	X(DEVICE, "device", "waits for its device",                                                \
	  "look at the device (/v1/devices there, the driver's log)")                              \
	X(CREDIT, "credit", "does not receive what was sent to it",                                \
	  "post the receives that are missing there, or raise credit_bytes")                       \
	X(TCP_BUFFERS, "tcp_buffers", "has socket buffers that are too small",                     \
	  "leave socket_buffer_bytes at 0, and raise net.ipv4.tcp_rmem and tcp_wmem there "        \
	  "(towdoctor says to what)")                                                              \
	X(SLOW_LINK, "slow_link", "is slower than the others",                                     \
	  "look at that direction of the path: rate of the port, errors, what else goes there")    \
	X(SLOW_STAGE, "slow_stage", "takes longest, and all others wait for it",                   \
	  "see what that rank does between its messages, and give it less work: its stage, "       \
	  "shard or worker may be larger than the others")                                         \
	X(SLOW_SERVER, "slow_server", "is slow to answer calls",                                   \
	  "see in /v1/rpc there which method takes the time, and whether in its handler (serve) "  \
	  "or before it (match, the queue): give it more threads, or less to do")                  \
	X(INPUT, "input", "waits for storage",                                                     \
	  "read ahead of the step (more loader threads, a larger cache), or put its data on a "    \
	  "faster disk; vmtouch and iostat there show what is read")                               \
	X(THROTTLED, "throttled", "uses up its quota of CPU time",                                 \
	  "raise the quota of its container or control group (cpu.max; docker --cpus, "            \
	  "Kubernetes limits), or give it whole CPUs instead (cpuset)")                            \
	X(CPU, "cpu", "does not get the CPU",                                                      \
	  "find what else runs on its cores; pin the ranks, or give them cores of their own")      \
	X(LATE, "late", "comes late",                                                              \
	  "see what that rank does between collectives: input, imbalance, a slow device")          \
	X(NEVER_ENTERED, "never_entered", "has not entered",                                       \
	  "see what that rank does instead (towstat stacks): it is not in the operation that the " \
	  "others wait in")                                                                        \
	X(DEADLOCK, "deadlock", "waits in a circle",                                               \
	  "start receives before waiting (tow_recv_start), or let one of these ranks go first")    \
	X(OTHER_TAG, "other_tag", "does not agree on a tag",                                       \
	  "give the message and its receive the same tag, mask, channel and group")                \
	X(ABSENT, "absent", "does nothing for the ranks that wait for it",                         \
	  "see what that rank does instead (towstat stacks): its side of the message, call or "    \
	  "stream "                                                                                \
	  "has not been started")                                                                  \
	X(NOT_COME, "not_come", "has not come",                                                    \
	  "see whether its process was started (the launcher's log), whether it calls "            \
	  "tow_group_open, and whether it reaches rank 0's store")                                 \
	X(HELD, "held", "is held from outside again and again",                                    \
	  "find what stops and continues the process: cpulimit, a debugger or a profiler that "    \
	  "attaches, a batch system, a freezer of its control group; the network need not be "     \
	  "the cause")

enum twi_cause {
#define TWI_CAUSE_ENUM(id, name, says, cure) TWI_CAUSE_##id,
	TWI_CAUSE_MAP(TWI_CAUSE_ENUM)
#undef TWI_CAUSE_ENUM
		TWI_CAUSES
};

const char *twi_cause_name(enum twi_cause cause);
const char *twi_cause_says(enum twi_cause cause);
const char *twi_cause_cure(enum twi_cause cause);

struct twi_verdict_rank {
	uint32_t rank; /* number in the job */
	bool me, asked;
	bool dialed;    /* not asked: it had no connection, and got none */
	bool lost, bye; /* lost: its connection has ended; bye: the rank announced that before */
	enum twi_process process; /* if it has not answered and is on the asker's host */
	char process_state;       /* letter of /proc; 0: not known */
	uint64_t pid;
	int64_t offset_ns;                         /* its clock minus the asker's */
	uint64_t error_ns;                         /* upper bound of the error of offset_ns */
	const struct twi_rank_state *first, *last; /* NULL: no answer. last may be alone */
};

#define TWI_FORMING_RANKS 16u
#define TWI_FORMING_TEXT  200u

/* What the asker knows of the other ranks while it waits for them in tow_group_open. */
struct twi_verdict_forming {
	uint32_t rank, size; /* size 0: the asker does not wait */
	uint64_t since_ns;   /* when the wait began */
	char store[TWI_FORMING_TEXT];
	char unreached[TWI_FORMING_TEXT]; /* why rank 0's store is out of reach; "": it is not */
	/* From the last report of the store: */
	uint32_t missing; /* number of missing ranks; 0: no report yet */
	uint32_t rank_count;
	uint32_t ranks[TWI_FORMING_RANKS]; /* the first of the missing ranks */
	uint64_t refused;                  /* connections that did not belong to the job */
	char text[TWI_FORMING_TEXT];
};

struct twi_verdict_case {
	uint64_t now_ns; /* by the clock of the asker */
	uint32_t me;
	uint32_t rank_count;
	uint32_t world; /* ranks of the job by its launcher; 0: not known */
	const struct twi_verdict_rank *ranks;
	struct twi_verdict_forming forming;
	/* Names a kind of collective; NULL: the number is printed. */
	const char *(*kind_name)(unsigned kind);
};

#define TWI_FINDING_RANKS    16u
#define TWI_FINDING_LINKS    16u
#define TWI_FINDING_EVIDENCE 6u
#define TWI_FINDING_TEXT     400u

struct twi_verdict_link {
	uint32_t from, to;
};

struct twi_verdict_finding {
	enum twi_cause cause;
	double confidence; /* 0 to 1 */
	double saves;      /* share of a step, 0 to 1, saved without the cause; 0: not known */
	uint64_t step_ns;  /* length of a step; 0: not known */
	uint32_t rank_count, link_count, evidence_count;
	uint32_t ranks[TWI_FINDING_RANKS];
	struct twi_verdict_link links[TWI_FINDING_LINKS];
	char evidence[TWI_FINDING_EVIDENCE][TWI_FINDING_TEXT];
};

/* For how much of their time ranks are blocked, where that is known (rank_state.h). */
struct twi_verdict_waits {
	uint32_t ranks;              /* ranks with known figures */
	bool slow;                   /* the share is a fifth or more */
	double share;                /* median over the ranks of their blocked time, 0 to 1 */
	double of[TWI_WAITED_KINDS]; /* the share by kind, as in the sum of all ranks */
	uint64_t window_ns;          /* the longest window of a rank */
	double before_ns, behind_ns; /* in collectives: before the last arrival, and after it */
	char says[TWI_FINDING_TEXT];
	const char *mend; /* what helps if the job is slow; NULL: it is not */
};

struct twi_verdict {
	bool stuck;   /* ranks wait, and nothing went on between the two looks */
	bool forming; /* not all ranks of the job are there yet */
	uint32_t finding_count;
	struct twi_verdict_finding
		findings[TWI_CAUSES];      /* at most one of each cause; the surest first */
	uint32_t ranks, answered, unknown; /* unknown: no answer, and no other rank knows more */
	uint32_t missing;                  /* ranks of the job that have not come yet */
	bool telemetry_lost;               /* at some rank; the confidence is lower for that */
	struct twi_verdict_waits waits;
};

void twi_verdict_judge(const struct twi_verdict_case *what, struct twi_verdict *out);

/* healthy, slow or stuck. `slow`: there are findings, or ranks are blocked for long. */
const char *twi_verdict_state_name(bool stuck, bool slow);

/* Write members of one JSON object. */
void twi_verdict_emit_finding(const struct twi_verdict_finding *finding, struct twi_emit *emit);
void twi_verdict_emit_waits(const struct twi_verdict_waits *waits, struct twi_emit *emit);
void twi_verdict_emit(const struct twi_verdict *verdict, const struct twi_verdict_case *what,
		      struct twi_emit *emit);

/* One line: "rank 2 has not entered (97 %): ..."; "" if there is nothing to say. */
void twi_verdict_short(const struct twi_verdict *verdict, char *out, size_t room);

/* Writes the whole verdict as lines for a terminal. */
void twi_verdict_text(const struct twi_verdict *verdict, struct twi_emit *emit);

#endif
