/*
 * towdoctor.h - checks a host before a job runs: the finding, its cost, and the command that mends
 * it. The doctor changes nothing, needs no privilege, and bounds each wait.
 *
 * A check is a row of DOCTOR_CHECKS and a function that fills one finding. It reads files below the
 * doctor's root with root_text() and its relatives, and asks with ask() what no file has. With
 * --root, the files are copied from another host or made up, and the answers are in
 * ROOT/towdoctor.answers. So each check runs on trees that a test makes.
 */
#ifndef TOWDOCTOR_H
#define TOWDOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum severity {
	SEVERITY_OK,
	SEVERITY_NOTE,    /* worth knowing; costs nothing alone, or could not be checked */
	SEVERITY_WARNING, /* slower than this host could be */
	SEVERITY_ERROR,   /* jobs fail */
	SEVERITY_COUNT
};

#define FOUND_BYTES 768

struct finding {
	enum severity severity;
	char found[FOUND_BYTES];
	char wanted[256];
	char effect[FOUND_BYTES]; /* the cost */
	char mend[FOUND_BYTES];   /* a command or the line of a file; "": none */
};

struct doctor {
	const char *root; /* "": this host */
	bool live;        /* this host: the doctor may ask and measure it */
	bool probe;       /* the checks may take time to measure */
	long pid;         /* whose limits, groups and CPUs to check; 0: its own */
	uint64_t pool_bytes;
};

/* X(name, title): check_<name> does the check. The report has this order. */
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

/* Writes into a field of a finding: SAY(out->found, "%d", n). */
#define SAY(field, ...) say(field, sizeof(field), __VA_ARGS__)
/* Appends to the text of a field. */
#define SAY_MORE(field, ...) say_more(field, sizeof(field), __VA_ARGS__)
void say(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
void say_more(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Raises the severity, and never lowers it. */
void raise_to(struct finding *out, enum severity severity);
/* Makes the finding a note: `what` cannot be checked here. */
void not_known(struct finding *out, const char *what);
/* Returns a JSON string. A text that is not UTF-8 becomes a fixed one. */
json_t *json_text(const char *value);
/* Prints a document, and drops it. */
void print_json(json_t *document);
/* Returns the pool size of a job that starts here, by the knob. */
uint64_t job_pool_bytes(void);

/* ---- files below the root (towdoctor_root.c) ---- */

/* Reads the start of a file, without newlines at its end. False: it cannot be read. */
bool root_text(const struct doctor *doctor, char *out, size_t size, const char *path, ...)
	__attribute__((format(printf, 4, 5)));
/* Reads a file that holds one number; "max" and "unlimited" are INT64_MAX. */
bool root_number(const struct doctor *doctor, int64_t *out, const char *path, ...)
	__attribute__((format(printf, 3, 4)));
/* Reads the number behind `key` in a file of lines "key number" or "key: number". */
bool root_value(const struct doctor *doctor, const char *path, const char *key, int64_t *out);
bool root_exists(const struct doctor *doctor, const char *path, ...)
	__attribute__((format(printf, 2, 3)));

#define NAMES_MAX  256
#define NAME_BYTES 64

struct names {
	size_t count;
	char rows[NAMES_MAX][NAME_BYTES];
};

/* Lists a directory, sorted, without names that begin with a dot. */
bool root_names(const struct doctor *doctor, const char *path, struct names *out);

/* Reads the soft limit of a row of /proc/self/limits; INT64_MAX: none. */
bool root_limit(const struct doctor *doctor, const char *name, int64_t *out);
/* True: the process has the capability. False also if that cannot be read. */
bool root_capable(const struct doctor *doctor, unsigned number);
/*
 * Returns the directory of a control group: /sys/fs/cgroup/..., of version 2 or of a v1 controller.
 */
bool root_cgroup(const struct doctor *doctor, const char *controller, char *out, size_t size,
		 bool *v2_out);
/* list_holds: a list such as "0-3,8" has the number. list_count: how many numbers it has. */
bool list_holds(const char *list, long number);
long list_count(const char *list);

/* ---- questions that no file answers (towdoctor_ask.c) ---- */

/*
 * Asks the system, or ROOT/towdoctor.answers ("key answer", one a line):
 *   io_uring_setup, process_vm_readv   the errno; 0: allowed
 *   clock_ns                           time of one clock reading
 *   ethtool.NAME.{tso,gso,gro}         0 or 1
 *   library.{pool,ofi,gpu}             the library's answer (towdoctor_library.c)
 *   lane.LANE                          "uses ADDRESS" or "none: WHY": an endpoint of that lane
 *   loopback.LANE                      "p50_ns=N p99_ns=N there=BYTES_PER_S back=BYTES_PER_S"
 */
bool ask(const struct doctor *doctor, const char *key, char *out, size_t size);
bool ask_number(const struct doctor *doctor, const char *key, int64_t *out);

/*
 * Runs a function in a child for at most timeout_ms, and returns what it wrote to fd. False: the
 * child did not end with status 0. Code that may hang or crash runs in a child.
 */
bool in_child(int (*run)(int fd, void *arg), void *arg, unsigned timeout_ms, char *out,
	      size_t size);
int library_pool(int fd, void *arg);
int library_ofi(int fd, void *arg);
int library_lane(int fd, void *arg); /* arg: the name of the lane */
/*
 * Opens a runtime with such a pool. NULL: it writes "failed: WHY" to fd. The probes of the pool and
 * of GPUs use PROBE_POOL, all of which is faulted in. The others use LEAST_POOL.
 */
#define PROBE_POOL ((int64_t)64 << 20)
#define LEAST_POOL ((int64_t)4 << 20)
struct tow_runtime *open_probe(int fd, int64_t pool_bytes);
int library_gpu(int fd, void *arg);

/* ---- interfaces (towdoctor_net.c) ---- */

struct interface {
	char name[NAME_BYTES];
	bool up, loopback, wanted; /* wanted: allowed by the knob interfaces */
	bool real;                 /* a device, and no bridge or tunnel */
	int64_t mtu, speed_mbps;   /* 0: unknown */
};

struct interfaces {
	size_t count;
	struct interface rows[NAMES_MAX];
};

/* Lists the interfaces that the library would use: up, allowed, and loopback only if alone. */
void used_interfaces(const struct doctor *doctor, struct interfaces *out);

/* ---- the two ends of a path (towdoctor_serve.c, towdoctor_peer.c, towdoctor_socket.c) ---- */

#define CHUNK_BYTES ((size_t)2 << 20) /* the most that one call of a measurement carries */
#define CHUNKS      8                 /* calls in flight */
#define PATH_POOL   ((int64_t)64 << 20)
#define METHOD_INFO "towdoctor.info" /* the other end's view of the path */
#define METHOD_ECHO "towdoctor.echo"
#define METHOD_TAKE "towdoctor.take" /* bytes to the other end */
#define METHOD_GIVE "towdoctor.give" /* bytes from the other end */
#define LEAVING_TAG 1                /* no message has it: its receive ends when the peer goes */

struct serve_options {
	const char *address;
	unsigned idle_ms; /* time without a peer, after which it ends */
	int announce_fd;  /* gets the address as a line */
	bool once;        /* ends when the first peer has gone */
};

/* Serves measurements until no peer comes within idle_ms. Returns the exit status. */
int serve(const struct serve_options *options);

struct measure_options {
	const char *address;
	unsigned latency_ms, phase_ms; /* duration of each part */
	unsigned patience_ms;          /* time in which refused connects are tried again */
};

/*
 * Measures the path to a peer: {"address", "latency_ns", "one_way_ns", "bandwidth_bytes_per_s",
 * "ends"}. NULL: the reason is in error_out.
 */
json_t *measure(const struct measure_options *options, char *error_out, size_t error_size);
/* Judges what limits the path: one finding for each direction, from the measurement alone. */
#define DIRECTIONS 2
void judge_path(json_t *measured, struct finding out[DIRECTIONS]);

/* Describes this end now: host, CPU time, and TCP_INFO and interface of its connections. */
json_t *describe_end(void);
/* For in_child(): measures between two processes of this host, on the lane that arg names. */
int loopback_probe(int fd, void *arg);

#endif
