/*
 * stats.h - what happened, as text: the same documents that the stats socket serves.
 *
 * The stats socket is HTTP/1.1 on a unix socket, <stats_dir>/<job>.<rank>.sock:
 *   curl --unix-socket SOCK http://towline/metrics
 * Paths: /metrics (OpenMetrics) and /v1/info /v1/counters /v1/latency /v1/pool /v1/peers /v1/rpc
 * /v1/copies /v1/registrations /v1/devices /v1/bootstrap /v1/coll /v1/timeline /v1/slack /v1/bpf
 * /v1/flight /v1/stacks /v1/verdicts (JSON). Served there alone, not by tow_stats_get, are
 * /v1/alloclog?seconds=N (bytes, docs/alloclog.md), /v1/trace?seconds=N&format=...
 * (docs/spans.md), /v1/verdict and /v1/state (docs/verdict.md) and /ui (a page for browsers,
 * docs/analysis.md). The same over TCP, and by `towstat dpdk` for tools that speak DPDK's
 * telemetry: docs/stats.md.
 */
#ifndef TOWLINE_STATS_H
#define TOWLINE_STATS_H

#include <stddef.h>

#include <towline/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The document at `path` ("/v1/pool", "/metrics", ...), as the stats socket would serve it.
 * Ownership: *text_out is the caller's, to be given to tow_stats_release; NUL-terminated.
 * Copies: no payload.
 * Blocks: never for long; takes only the locks of the control path.
 * Threads: any; not from a completion callback.
 * Returns: TOW_OK; TOW_EINVAL for an unknown path or in a callback; TOW_ENOMEM; TOW_EFORKED.
 */
int tow_stats_get(struct tow_runtime *runtime, const char *path, char **text_out);

/*
 * Frees a text of tow_stats_get. NULL is legal.
 * Ownership: takes the text.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
void tow_stats_release(char *text);

/*
 * The path of this runtime's stats socket, "" when it has none.
 * Ownership: the runtime's, until tow_runtime_close.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
const char *tow_stats_socket(struct tow_runtime *runtime);

/*
 * The directory where runtimes of this user put their stats sockets when the knob stats_dir is not
 * set: $XDG_RUNTIME_DIR/towline, else /run/towline for root, else /tmp/towline-<uid>. A runtime
 * that cannot use it takes another (docs/stats.md); tow_stats_socket has the path.
 * Ownership: path_out is the caller's, of path_size bytes.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL when it does not fit.
 */
int tow_stats_dir(char *path_out, size_t path_size);

/*
 * Labels what the calling thread starts from now on: copies and late registrations that it causes
 * are told apart by `tag` in /v1/copies and /v1/registrations, beside the place in the program.
 * For programs whose calls all come from one place, such as a layer that hides this library. A name
 * of a place ("embedding"), not of a step: a process can have 1,024 tags and forgets none.
 * tag: 1 to 63 bytes of printable ASCII; NULL: none.
 * Ownership: the text is copied.
 * Copies: no payload.
 * Blocks: never for long; a new tag takes a lock.
 * Threads: any; each has its own tag.
 * Returns: TOW_OK; TOW_EINVAL for a text that is not legal; TOW_EBUSY when there are 1,024 others.
 * After a failure the thread's tag is as before.
 */
int tow_tag_set(const char *tag);

/* One counter: a number that only grows. */
struct tow_counter_info {
	size_t size;      /* sizeof(struct tow_counter_info) of the caller */
	const char *name; /* in /v1/counters; towline_<name>_total in /metrics, ns as seconds */
	const char *unit; /* "bytes", "ns", "count" */
	const char *help;
	/*
	 * NULL: a program counts the same, whichever lane its peers are reached by. Else the lanes
	 * ("any", or their names) that may count something else, and why.
	 */
	const char *lanes;
};

/* The initial value of struct tow_counter_info. */
#define TOW_COUNTER_INFO_INIT                                                                      \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_counter_info)), TOW_MEMBER(name, NULL),         \
			TOW_MEMBER(unit, NULL), TOW_MEMBER(help, NULL), TOW_MEMBER(lanes, NULL)    \
	}

/* One reason why bytes were copied, or memory was registered after the runtime was sealed. */
struct tow_reason_info {
	size_t size; /* sizeof(struct tow_reason_info) of the caller */
	const char *name;
	const char *kind; /* "copy", "late_registration" */
	const char *help;
	const char *cure; /* what a user can change so that it does not happen */
};

/* The initial value of struct tow_reason_info. */
#define TOW_REASON_INFO_INIT                                                                       \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_reason_info)), TOW_MEMBER(name, NULL),          \
			TOW_MEMBER(kind, NULL), TOW_MEMBER(help, NULL), TOW_MEMBER(cure, NULL)     \
	}

/* One status. */
struct tow_status_info {
	size_t size; /* sizeof(struct tow_status_info) of the caller */
	const char *name;
	const char *text; /* what it means */
	int value;
};

/* The initial value of struct tow_status_info. */
#define TOW_STATUS_INFO_INIT                                                                       \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_status_info)), TOW_MEMBER(name, NULL),          \
			TOW_MEMBER(text, NULL), TOW_MEMBER(value, 0)                               \
	}

/* One lane that the library was built with; a runtime may be kept from some (knob lanes). */
struct tow_lane_info {
	size_t size;       /* sizeof(struct tow_lane_info) of the caller */
	const char *name;  /* the scheme of its addresses: "tcp" */
	const char *reach; /* whom it joins: "process", "host", "network" */
	const char *local; /* what to open for others on this host to connect to */
	const char *help;
};

/* The initial value of struct tow_lane_info. */
#define TOW_LANE_INFO_INIT                                                                         \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_lane_info)), TOW_MEMBER(name, NULL),            \
			TOW_MEMBER(reach, NULL), TOW_MEMBER(local, NULL), TOW_MEMBER(help, NULL)   \
	}

/*
 * Row `index` of the list of counters, from 0.
 * Ownership: the strings are static; *row_out is the caller's, its size set by the caller.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for an index past the end or a NULL row_out or one whose size no
 * header has.
 */
int tow_counter_info(size_t index, struct tow_counter_info *row_out);

/*
 * Row `index` of the list of reasons, from 0.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_counter_info.
 */
int tow_reason_info(size_t index, struct tow_reason_info *row_out);

/*
 * Row `index` of the list of statuses, from 0.
 * Ownership, Copies, Blocks, Threads, Returns: as tow_counter_info.
 */
int tow_status_info(size_t index, struct tow_status_info *row_out);

/*
 * Row `index` of the list of lanes, from 0. (The addresses tow://, which lead over all of them, are
 * no row.)
 * Ownership, Copies, Blocks, Threads, Returns: as tow_counter_info.
 */
int tow_lane_info(size_t index, struct tow_lane_info *row_out);

#ifdef __cplusplus
}
#endif
#endif
