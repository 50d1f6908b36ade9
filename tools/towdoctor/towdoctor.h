/*
 * towdoctor.h - looks at a host before a job does: what was found, what it costs, the line that
 * mends it. It changes nothing, needs no privilege, and waits for nothing without a bound.
 *
 * A check is a row of DOCTOR_CHECKS and a function that fills one finding. It reads files below the
 * doctor's root by root_text() and what lies beside it, and asks what no file tells by ask(). With
 * --root the files are another host's, copied or made up, and the answers stand in
 * ROOT/towdoctor.answers: so every check runs on trees that a test makes.
 */
#ifndef TOWDOCTOR_H
#define TOWDOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum severity {
	SEVERITY_OK,
	SEVERITY_NOTE,    /* worth knowing; costs nothing by itself, or could not be looked at */
	SEVERITY_WARNING, /* slower than this host could be */
	SEVERITY_ERROR,   /* jobs fail */
	SEVERITY_COUNT
};

#define FOUND_BYTES 768

struct finding {
	enum severity severity;
	char found[FOUND_BYTES];
	char wanted[256];
	char effect[FOUND_BYTES]; /* what it costs */
	char mend[FOUND_BYTES];   /* a command or the line of a file; "" where there is none */
};

struct doctor {
	const char *root; /* "" for this host */
	bool live;        /* this host: it can be asked and measured */
	bool probe;       /* take the time to measure */
	long pid;         /* whose limits, groups and CPUs count; 0: its own */
	uint64_t pool_bytes;
};

/* X(name, title): check_<name> looks at it. The order is that of the report. */
#define DOCTOR_CHECKS(X)                                                                           \
	X(memlock, "memory that a process may lock")                                               \
	X(cgroup_memory, "memory limit of the control group")                                      \
	X(free_memory, "memory that is free")                                                      \
	X(hugepages, "huge pages for the pool")                                                    \
	X(shmem_thp, "transparent huge pages in shared memory")                                    \
	X(thp, "transparent huge pages")                                                           \
	X(numa, "memory nodes")                                                                    \
	X(dev_shm, "size of /dev/shm")                                                             \
	X(pool, "a pool, opened as a job opens it")                                                \
	X(io_uring, "leave to use io_uring")                                                       \
	X(seccomp, "system call filter")                                                           \
	X(cma, "reading another rank's memory")                                                    \
	X(files, "files that a process may open")                                                  \
	X(cpu_quota, "CPU quota of the control group")                                             \
	X(cpuset, "CPUs that may be used")                                                         \
	X(autogroup, "sessions as groups of the scheduler")                                        \
	X(governor, "CPU frequency governor")                                                      \
	X(clock, "clock source")                                                                   \
	X(tcp_rmem, "TCP receive buffer")                                                          \
	X(tcp_wmem, "TCP send buffer")                                                             \
	X(socket_buffers, "socket buffers that may be asked for")                                  \
	X(congestion, "TCP congestion control")                                                    \
	X(window_scaling, "TCP window scaling")                                                    \
	X(timestamps, "TCP timestamps")                                                            \
	X(sack, "TCP selective acknowledgements")                                                  \
	X(slow_start, "TCP slow start after idle")                                                 \
	X(mtu_probing, "TCP path MTU probing")                                                     \
	X(listen_backlog, "backlog of listening sockets")                                          \
	X(device_backlog, "backlog of received packets")                                           \
	X(ports, "ports for outgoing connections")                                                 \
	X(hosts, "address of the host's own name")                                                 \
	X(interfaces, "network interfaces that are used")                                          \
	X(routes, "routes")                                                                        \
	X(mtu, "largest packet")                                                                   \
	X(offloads, "segmentation offloads")                                                       \
	X(libfabric, "libfabric providers")                                                        \
	X(gpus, "GPUs")                                                                            \
	X(loopback, "two processes of this host, measured")

#define DOCTOR_DECLARE(name, title) void check_##name(struct doctor *doctor, struct finding *out);
DOCTOR_CHECKS(DOCTOR_DECLARE)
#undef DOCTOR_DECLARE

const char *severity_name(enum severity severity);

/* Into a field of a finding: SAY(out->found, "%d", n). */
#define SAY(field, ...) say(field, sizeof(field), __VA_ARGS__)
/* The same behind what it says already. */
#define SAY_MORE(field, ...) say_more(field, sizeof(field), __VA_ARGS__)
void say(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
void say_more(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Raises the severity, never lowers it. */
void raise_to(struct finding *out, enum severity severity);
/* A note that it cannot be looked at here. */
void not_known(struct finding *out, const char *what);
/* A string for JSON, also of bytes that are not UTF-8. */
json_t *json_text(const char *value);
/* Prints a document, and drops it. */
void print_json(json_t *document);
/* How large the pool of a job is that starts here: the knob, as far as the doctor needs it. */
uint64_t job_pool_bytes(void);

/* ---- files below the root (towdoctor_root.c) ---- */

/* The first bytes of a file, without newlines at the end; false when it cannot be read. */
bool root_text(const struct doctor *doctor, char *out, size_t size, const char *path, ...)
	__attribute__((format(printf, 4, 5)));
/* A file that is one number; "max" and "unlimited" are INT64_MAX. */
bool root_number(const struct doctor *doctor, int64_t *out, const char *path, ...)
	__attribute__((format(printf, 3, 4)));
/* The number behind `key` in a file of lines "key number" or "key: number". */
bool root_value(const struct doctor *doctor, const char *path, const char *key, int64_t *out);
bool root_exists(const struct doctor *doctor, const char *path, ...)
	__attribute__((format(printf, 2, 3)));

#define NAMES_MAX  256
#define NAME_BYTES 64

struct names {
	size_t count;
	char rows[NAMES_MAX][NAME_BYTES];
};

/* What lies in a folder, sorted, without dots. */
bool root_names(const struct doctor *doctor, const char *path, struct names *out);

/* The soft limit of a row of /proc/self/limits, INT64_MAX for none. */
bool root_limit(const struct doctor *doctor, const char *name, int64_t *out);
/* Whether this process has a capability; false where that cannot be read. */
bool root_capable(const struct doctor *doctor, unsigned number);
/* Where a control group's files lie: /sys/fs/cgroup/..., of version 2 or of a v1 controller. */
bool root_cgroup(const struct doctor *doctor, const char *controller, char *out, size_t size,
		 bool *v2_out);
/* Whether a list like "0-3,8" holds the number; how many it holds. */
bool list_holds(const char *list, long number);
long list_count(const char *list);

/* ---- what no file tells (towdoctor_ask.c) ---- */

/*
 * Asks the system, or ROOT/towdoctor.answers ("key answer", one a line):
 *   io_uring_setup, process_vm_readv   the errno, 0 when it is allowed
 *   clock_ns                           what reading the clock takes
 *   ethtool.NAME.{tso,gso,gro}         0 or 1
 *   library.{pool,ofi,gpu}             what the library says (towdoctor_library.c)
 *   lane.LANE                          "uses ADDRESS" or "none: WHY": an endpoint of that lane
 *   loopback.LANE                      "p50_ns=N p99_ns=N there=BYTES_PER_S back=BYTES_PER_S"
 */
bool ask(const struct doctor *doctor, const char *key, char *out, size_t size);
bool ask_number(const struct doctor *doctor, const char *key, int64_t *out);

/*
 * Runs a function in a child that has timeout_ms, and gives what it wrote to fd; false when it
 * ended otherwise than with status 0 or not at all. What could hang or crash runs so.
 */
bool in_child(int (*run)(int fd, void *arg), void *arg, unsigned timeout_ms, char *out,
	      size_t size);
int library_pool(int fd, void *arg);
int library_ofi(int fd, void *arg);
int library_lane(int fd, void *arg); /* arg: its name */
/* A runtime with such a pool; NULL, and to fd "failed: WHY". Only who asks about memory has 64 MiB
 * faulted in for it.
 */
#define PROBE_POOL ((int64_t)64 << 20)
#define LEAST_POOL ((int64_t)4 << 20)
struct tow_runtime *open_probe(int fd, int64_t pool_bytes);
int library_gpu(int fd, void *arg);

/* ---- interfaces (towdoctor_net.c) ---- */

struct interface {
	char name[NAME_BYTES];
	bool up, loopback, wanted; /* wanted: the knob interfaces allows it */
	bool real;                 /* a device, not a bridge or a tunnel */
	int64_t mtu, speed_mbps;   /* 0: not known */
};

struct interfaces {
	size_t count;
	struct interface rows[NAMES_MAX];
};

/* Those that the library would use: up, allowed, loopback only when there is no other. */
void used_interfaces(const struct doctor *doctor, struct interfaces *out);

/* ---- the two ends of a path (towdoctor_serve.c, towdoctor_peer.c, towdoctor_socket.c) ---- */

#define CHUNK_BYTES ((size_t)2 << 20) /* the most that one call of the measurement carries */
#define CHUNKS      8                 /* calls at once */
#define PATH_POOL   ((int64_t)64 << 20)
#define METHOD_INFO "towdoctor.info" /* what the other end sees of the path */
#define METHOD_ECHO "towdoctor.echo"
#define METHOD_TAKE "towdoctor.take" /* bytes there */
#define METHOD_GIVE "towdoctor.give" /* and back */
#define LEAVING_TAG 1                /* nobody sends it: its receive ends when the peer goes */

struct serve_options {
	const char *address;
	unsigned idle_ms; /* ends after so long without a peer */
	int announce_fd;  /* its address goes there, as a line */
	bool once;        /* ends when the first peer has gone */
};

/* Serves measurements until nobody comes any more; the exit status. */
int serve(const struct serve_options *options);

struct measure_options {
	const char *address;
	unsigned latency_ms, phase_ms; /* how long each part takes */
	unsigned patience_ms;          /* how long nobody need listen there yet */
};

/*
 * The measurement of the path to a peer: {"address", "latency_ns", "one_way_ns",
 * "bandwidth_bytes_per_s", "here", "there"}. NULL with the reason in error_out.
 */
json_t *measure(const struct measure_options *options, char *error_out, size_t error_size);
/* What a measurement says limits the path, one finding for each direction; pure. */
#define DIRECTIONS 2
void judge_path(json_t *measured, struct finding out[DIRECTIONS]);

/* This end as it is now: host, interface, CPU time, and TCP_INFO of the busiest connection. */
json_t *describe_end(void);
/* A child of in_child(): measures two processes of this host, on the lane that arg names. */
int loopback_probe(int fd, void *arg);

#endif
