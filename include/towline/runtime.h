/*
 * runtime.h - a runtime: one pool, its lanes, its stats socket; and the knobs it is opened with.
 *
 * A process opens one runtime (more are legal), allocates from its pool, opens endpoints on it,
 * says with tow_runtime_seal that start-up is over, and closes it. Each knob is a field of
 * struct tow_options, an environment variable (TOW_ and the field's name in capitals) and a row of
 * the knob table. A field that is set wins over the environment, the environment over the default.
 *
 * Every call with a runtime, endpoint, peer or group that was closed, or whose runtime was, returns
 * TOW_ECLOSED and does nothing else; tow_runtime_close says for how long that holds.
 *
 * No call is a cancellation point: pthread_cancel ends a thread before or after a call, however
 * long it waits there. Asynchronous cancellation (PTHREAD_CANCEL_ASYNCHRONOUS) is not supported.
 */
#ifndef TOWLINE_RUNTIME_H
#define TOWLINE_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tow_runtime;

/*
 * Every struct with a `size` may be of an older or a newer header than the library (docs/abi.md):
 * begin with its TOW_..._INIT, and set members afterwards. In C these are designated initialisers;
 * C++ has them since C++20 alone, so there the same values stand in the order of the members.
 */
#ifdef __cplusplus
#define TOW_MEMBER(name, value) value
#else
#define TOW_MEMBER(name, value) .name = value
#endif

/*
 * A line of the log, for programs that have a log of their own. `level` is 1 for an error, 2 for a
 * warning, 3 for information; `text` is printable ASCII without an end of line, valid within the
 * call. It is called by one thread of the library's that does nothing else, one line at a time,
 * also while tow_runtime_open and tow_runtime_close are under way, and never after the latter has
 * returned (or the former has failed): tow_runtime_close waits for it. No lock is held, so it may
 * take its time, and call the library, but with nothing of this runtime, which may be closing
 * (tow_runtime_close in it is TOW_EINVAL). Of lines that differ in numbers alone it gets one in
 * 10 s.
 */
typedef void (*tow_log_callback)(void *user, int level, const char *text);

/*
 * How to open a runtime. Begin with TOW_OPTIONS_INIT or tow_options_init: -1 and NULL mean "not set
 * here". What each knob means, its unit, default and range: docs/knobs.md, `towstat knobs`,
 * tow_knob_info.
 */
struct tow_options {
	size_t size; /* sizeof(struct tow_options) of the caller */
	int64_t premap_memory_bytes;
	int64_t huge_pages;         /* 0 never, 1 where to be had */
	int64_t strict_premap;      /* 1: open fails where the pool would be smaller or unpinned */
	int64_t eager_max_bytes;    /* larger messages go by rendezvous */
	int64_t credit_bytes;       /* bound of unexpected messages, for each peer */
	int64_t max_ops;            /* operations that may exist at once */
	int64_t spin_ns;            /* how long a wait polls before it sleeps */
	int64_t gather_ns;          /* small messages this close together share a system call */
	int64_t bulk_chunk_bytes;   /* the most that one system call moves of a large message */
	int64_t zerocopy_min_bytes; /* payloads from here up may go by zero-copy send; 0: never */
	int64_t connect_timeout_ns; /* a handshake that takes longer has failed */
	int64_t stats;              /* 0: no stats socket */
	int64_t log_level;          /* 0 silent, 1 errors, 2 warnings, 3 information */
	const char *job;            /* name of the job, in the stats socket's name */
	int64_t rank;               /* rank of this process, likewise */
	const char *stats_dir;      /* directory of the stats socket */
	const char *stats_listen;   /* ADDRESS:PORT of the stats over TCP; empty: none */
	const char *stats_token;    /* who has it may ask there */
	const char *stats_token_file; /* the file that it stands in */
	const char *exhaust;          /* what a full pool does: grow, copy, wait, fail */
	int64_t premap_limit_bytes; /* the pool grows up to this; 0: four times its size at open */
	int64_t exhaust_wait_ns;   /* how long tow_alloc waits for room (exhaust=wait), or a view */
	int64_t require_zero_copy; /* 1: an operation that would be copied or wait for a late
				       registration fails, and says why */
	int64_t staging_bytes;     /* part of the pool kept for copies that cannot be avoided */
	const char *zerocopy;      /* zero-copy sends: auto, always, never */
	int64_t late_cache_bytes;  /* memory of the user's that may stay registered; 0: none */
	int64_t late_cache_entries; /* pieces of it */
	int64_t peer_lease_bytes;   /* of freed memory that one peer may hold back; 0: a quarter */
	const char *numa;           /* node of the pool: "", local, interleave, a number */
	int64_t alloclog;           /* 1: record allocations from the start */
	int64_t alloclog_events;    /* the most that are kept */
	const char *lanes;          /* that may be used: "shm,tcp"; empty: all */
	int64_t bulk_streams;       /* connections for large messages, for each peer */
	int64_t peer_timeout_ns;    /* a peer that is silent or away for longer is gone */
	int64_t heartbeat_ns;       /* a silent connection is asked for a sign of life */
	const char *congestion;     /* TCP congestion control */
	int64_t socket_buffer_bytes;
	int64_t busy_poll_ns;
	const char *interfaces;   /* network interfaces that lanes may use */
	const char *ofi_provider; /* of the ofi lane */
	int64_t checksum_all;     /* 1: of every message; 0: of one in 1024 */
	const char *job_key;      /* the job's secret */
	const char *job_key_file; /* the file that it stands in */
	int64_t encrypt;          /* 1: encrypt traffic on the network */
	int64_t background;       /* 1: a thread moves operations while nobody waits */
	int64_t world_size;       /* ranks in the job; 0: the launcher says */
	const char *store;        /* HOST:PORT of rank 0's store; empty: the launcher says */
	int64_t shm_peer_writes;  /* 1: ranks of this host may write into the pool in collectives */
	int64_t coll_timeout_ns;  /* deadline of a collective that has none of its own */
	const char *coll_plan;    /* plan of every collective that it can serve */
	const char *coll_table;   /* file of measured choices */
	int64_t coll_segment_bytes;
	int64_t coll_depth;
	int64_t combine_threshold_bytes;
	int64_t combine;      /* 1: fuse all-reduces that follow each other */
	int64_t reproducible; /* 1: the same bits on every lane and with every plan */
	int64_t span_sample;  /* of small messages one in so many is in traces; 1: all */
	int64_t trace_signal; /* that begins a capture; 0: none */
	int64_t trace_seconds;
	const char *trace_dir;
	int64_t verdict_on_sigquit; /* 1: SIGQUIT asks why the job does not go on */
	const char *flight_dir;     /* of the flight recorder's files; "none": there are none */
	int64_t flight_files;
	/*
	 * Called while the pool is faulted in, by the thread that opens, about ten times a second:
	 * how much of it is there. NULL: only the log tells.
	 */
	void (*premap_progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
	void *premap_progress_user;
	const char *poller; /* what moves connections: auto, io_uring, epoll */
	const char *log; /* where the log is shown: stderr, none, a file; "": a terminal's stderr */
	int64_t log_wait_ns; /* who waits so long for other ranks says so in the log */
	/* Called with each line of the log that is shown; NULL: none (tow_log_callback). */
	tow_log_callback log_callback;
	void *log_user;
	int64_t shm_polled_peers;  /* connections over shm that are polled though they are quiet */
	int64_t place_least_bytes; /* memory of the program's that is put into the pool (place.h) */
	int64_t place_share;       /* how much of the pool that may take, in percent */
	int64_t verdict_interval_ns; /* how often one rank asks all how they are; 0: never */
	int64_t stacks_signal;       /* by which threads are asked where they are; 0: none */
	/* A step that takes more than so many percent of the median begins a capture; 0: none. */
	int64_t trace_on_slow_step;
	int64_t trace_on_verdict; /* 1: so does what such a look newly finds */
	const char *require;      /* what a connection must be like, else it is refused */
};

/* The initial value of struct tow_options. */
#define TOW_OPTIONS_INIT                                                                           \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_options)), TOW_MEMBER(premap_memory_bytes, -1), \
			TOW_MEMBER(huge_pages, -1), TOW_MEMBER(strict_premap, -1),                 \
			TOW_MEMBER(eager_max_bytes, -1), TOW_MEMBER(credit_bytes, -1),             \
			TOW_MEMBER(max_ops, -1), TOW_MEMBER(spin_ns, -1),                          \
			TOW_MEMBER(gather_ns, -1), TOW_MEMBER(bulk_chunk_bytes, -1),               \
			TOW_MEMBER(zerocopy_min_bytes, -1), TOW_MEMBER(connect_timeout_ns, -1),    \
			TOW_MEMBER(stats, -1), TOW_MEMBER(log_level, -1), TOW_MEMBER(job, NULL),   \
			TOW_MEMBER(rank, -1), TOW_MEMBER(stats_dir, NULL),                         \
			TOW_MEMBER(stats_listen, NULL), TOW_MEMBER(stats_token, NULL),             \
			TOW_MEMBER(stats_token_file, NULL), TOW_MEMBER(exhaust, NULL),             \
			TOW_MEMBER(premap_limit_bytes, -1), TOW_MEMBER(exhaust_wait_ns, -1),       \
			TOW_MEMBER(require_zero_copy, -1), TOW_MEMBER(staging_bytes, -1),          \
			TOW_MEMBER(zerocopy, NULL), TOW_MEMBER(late_cache_bytes, -1),              \
			TOW_MEMBER(late_cache_entries, -1), TOW_MEMBER(peer_lease_bytes, -1),      \
			TOW_MEMBER(numa, NULL), TOW_MEMBER(alloclog, -1),                          \
			TOW_MEMBER(alloclog_events, -1), TOW_MEMBER(lanes, NULL),                  \
			TOW_MEMBER(bulk_streams, -1), TOW_MEMBER(peer_timeout_ns, -1),             \
			TOW_MEMBER(heartbeat_ns, -1), TOW_MEMBER(congestion, NULL),                \
			TOW_MEMBER(socket_buffer_bytes, -1), TOW_MEMBER(busy_poll_ns, -1),         \
			TOW_MEMBER(interfaces, NULL), TOW_MEMBER(ofi_provider, NULL),              \
			TOW_MEMBER(checksum_all, -1), TOW_MEMBER(job_key, NULL),                   \
			TOW_MEMBER(job_key_file, NULL), TOW_MEMBER(encrypt, -1),                   \
			TOW_MEMBER(background, -1), TOW_MEMBER(world_size, -1),                    \
			TOW_MEMBER(store, NULL), TOW_MEMBER(shm_peer_writes, -1),                  \
			TOW_MEMBER(coll_timeout_ns, -1), TOW_MEMBER(coll_plan, NULL),              \
			TOW_MEMBER(coll_table, NULL), TOW_MEMBER(coll_segment_bytes, -1),          \
			TOW_MEMBER(coll_depth, -1), TOW_MEMBER(combine_threshold_bytes, -1),       \
			TOW_MEMBER(combine, -1), TOW_MEMBER(reproducible, -1),                     \
			TOW_MEMBER(span_sample, -1), TOW_MEMBER(trace_signal, -1),                 \
			TOW_MEMBER(trace_seconds, -1), TOW_MEMBER(trace_dir, NULL),                \
			TOW_MEMBER(verdict_on_sigquit, -1), TOW_MEMBER(flight_dir, NULL),          \
			TOW_MEMBER(flight_files, -1), TOW_MEMBER(premap_progress, NULL),           \
			TOW_MEMBER(premap_progress_user, NULL), TOW_MEMBER(poller, NULL),          \
			TOW_MEMBER(log, NULL), TOW_MEMBER(log_wait_ns, -1),                        \
			TOW_MEMBER(log_callback, NULL), TOW_MEMBER(log_user, NULL),                \
			TOW_MEMBER(shm_polled_peers, -1), TOW_MEMBER(place_least_bytes, -1),       \
			TOW_MEMBER(place_share, -1), TOW_MEMBER(verdict_interval_ns, -1),          \
			TOW_MEMBER(stacks_signal, -1), TOW_MEMBER(trace_on_slow_step, -1),         \
			TOW_MEMBER(trace_on_verdict, -1), TOW_MEMBER(require, NULL)                \
	}

/*
 * Sets every member of the caller's struct tow_options to "not set here", so that environment and
 * defaults decide; for languages that cannot use TOW_OPTIONS_INIT, and for memory of the heap.
 * `size` is sizeof(struct tow_options) as the caller knows it.
 * Ownership: options_out is the caller's, of `size` bytes.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for NULL or a size that no header has.
 */
int tow_options_init(struct tow_options *options_out, size_t size);

/*
 * Opens a runtime: reads the knobs, maps premap_memory_bytes, faults them in on all cores, pins and
 * registers them with io_uring where that is to be had, opens the stats socket. options may be
 * NULL.
 * Ownership: *runtime_out is the caller's until tow_runtime_close; options is only read.
 * Copies: none.
 * Blocks: for the time it takes to fault the pool in (about 0.5 s a GiB on base pages).
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL naming the knob, its value and its range; TOW_ENOMEM when the pool
 * cannot be mapped, or with strict_premap not wholly pinned; TOW_ENOTSUP and TOW_EPERM without
 * io_uring where poller=io_uring or strict_premap asks for it; TOW_EBUSY when the process has no
 * descriptor left for the stats; TOW_ESYSTEM naming the system call.
 */
int tow_runtime_open(const struct tow_options *options, struct tow_runtime **runtime_out);

/*
 * The runtime that parts of a process share which know nothing of each other, as two plugins do:
 * the first call opens it as tow_runtime_open does, each further one gives the same. Options that
 * are set must be so in it; those that are not set take what is there. Options of the further calls
 * that only report (premap_progress) are not used. A runtime of tow_runtime_open is never shared.
 * Ownership: each call is to be followed by one tow_runtime_close; the last of these closes it.
 * Copies: none.
 * Blocks: as tow_runtime_open, also while another thread opens it.
 * Threads: any; not from a callback of the library.
 * Returns: as tow_runtime_open; TOW_EINVAL, too, where an option contradicts those in force, which
 * the message names with both values; TOW_EBUSY in a callback while it is being opened.
 */
int tow_runtime_share(const struct tow_options *options, struct tow_runtime **runtime_out);

/*
 * Says that start-up is over: every registration from now on is late, and is counted with its
 * reason.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK, also when sealed already; TOW_EINVAL for NULL; TOW_EFORKED.
 */
int tow_runtime_seal(struct tow_runtime *runtime);

/*
 * Closes everything the runtime owns. Operations in flight complete with TOW_ECLOSED, their
 * callbacks run, in which calls that start something get TOW_ECLOSED, and all handles of the
 * runtime (operations, peers, endpoints, groups, queues, devices) end with it. Memory of tow_alloc
 * stays as it is until tow_free; views, registrations, threads and sockets end. Calls with a
 * runtime, endpoint, peer, group or queue that ended get TOW_ECLOSED, until 256 others of the
 * process have ended after it; then its memory is given back, and using it is undefined. Calls with
 * other handles that ended are undefined at once. Of a runtime that is shared only the last close
 * does this; the others give back their hold on it, and leave their endpoints and peers to them.
 * Ownership: takes the runtime.
 * Copies: none.
 * Blocks: until the kernel has let go of the memory, at most about a second.
 * Threads: no other thread may be inside a call on this runtime, but for tow_free.
 * Returns: TOW_OK; TOW_EINVAL for NULL, or in a callback; TOW_ECLOSED; TOW_EFORKED (the parent's
 * runtime is unharmed).
 */
int tow_runtime_close(struct tow_runtime *runtime);

/*
 * Drives the runtime once without waiting: sends what is held back, reaps what has arrived, runs
 * callbacks. tow_op_test and tow_op_wait do this too; only event loops need it, and callers that
 * wait for nothing and have switched off the knob background.
 * Ownership: none passes.
 * Copies: as the operations it moves.
 * Blocks: never; in a loop of calls in vain it gives the core away, as tow_op_test does.
 * Threads: any; when another thread is driving it returns at once.
 * Returns: TOW_OK when something was done, TOW_AGAIN when there was nothing to do; TOW_EINVAL for
 * NULL; TOW_EFORKED.
 */
int tow_progress(struct tow_runtime *runtime);

/*
 * A file descriptor that polls readable when tow_progress, called from this same thread, has
 * something to do: something has come, another thread has left something, a deadline has passed, a
 * device's copy is to be looked at. Level-triggered; poll it, do not read it. The library's own
 * thread (knob background) leaves what comes to this one for a millisecond.
 * Ownership: the runtime's; valid until tow_runtime_close.
 * Copies: none.
 * Blocks: never.
 * Threads: any; each thread gets a descriptor of its own.
 * Returns: TOW_OK; TOW_EINVAL for a NULL argument; TOW_EBUSY when 16 other threads have descriptors
 * or drive just now; TOW_ESYSTEM; TOW_EFORKED.
 */
int tow_fd(struct tow_runtime *runtime, int *fd_out);

/*
 * Sends small messages that are held back to share a system call (gather_ns), now.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_AGAIN in a completion callback, or when all rings are in use: whoever drives
 * sends them; TOW_EINVAL; TOW_EFORKED.
 */
int tow_flush(struct tow_runtime *runtime);

/* One row of the knob table. */
struct tow_knob_info {
	size_t size;      /* sizeof(struct tow_knob_info) of the caller */
	const char *name; /* field of struct tow_options */
	const char *env;  /* environment variable */
	const char *unit; /* "bytes", "ns", "count", "bool", "text" */
	const char *def;  /* the default, as a user would write it */
	const char *min;  /* smallest value, "" for text */
	const char *max;  /* largest value, "" for text */
	const char *help;
};

/* The initial value of struct tow_knob_info. */
#define TOW_KNOB_INFO_INIT                                                                         \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_knob_info)), TOW_MEMBER(name, NULL),            \
			TOW_MEMBER(env, NULL), TOW_MEMBER(unit, NULL), TOW_MEMBER(def, NULL),      \
			TOW_MEMBER(min, NULL), TOW_MEMBER(max, NULL), TOW_MEMBER(help, NULL)       \
	}

/*
 * The number of knobs.
 * Ownership: none.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: the count.
 */
size_t tow_knob_count(void);

/*
 * Row `index` of the knob table.
 * Ownership: the strings are static; *knob_out is the caller's, its size set by the caller.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for an index past the end or a NULL knob_out or one whose size no
 * header has.
 */
int tow_knob_info(size_t index, struct tow_knob_info *knob_out);

#ifdef __cplusplus
}
#endif
#endif
