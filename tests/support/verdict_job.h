/*
 * verdict_job.h - a job with a fault in it: ranks in processes, one of which does what the fault
 * says after some healthy steps; the parent asks every rank for its verdict meanwhile, through the
 * stats sockets, all at once.
 *
 * Every wait is bounded. Ranks end by themselves where the fault lets them, or are killed by pid.
 */
#ifndef TWT_VERDICT_JOB_H
#define TWT_VERDICT_JOB_H

#include "netlab.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/un.h>

#include <jansson.h>
#include <towline/towline.h>

#define VJ_RANKS    4
#define VJ_HOGS     6
#define VJ_STEPS    10 /* healthy ones, before the fault */
#define VJ_LIMIT_S  60
#define VJ_NS_PER_S 1000000000ull

enum vj_fault {
	VJ_HEALTHY,
	VJ_NEVER,
	VJ_LATE,
	VJ_OTHER,
	VJ_STOPPED,
	VJ_DROPPED,
	VJ_POOL,
	VJ_BUFFERS,
	VJ_HOG,
	VJ_FAULTS
};

static const char *const vj_names[VJ_FAULTS] = { "healthy", "never enters", "enters late",
						 "other operation", "SIGSTOP",
						 "packets dropped one way", "pool exhausted",
						 "wrong TCP buffers", "CPU hog" };
static const char *const vj_causes[VJ_FAULTS] = { "",        "never_entered", "late",
						  "other_operation", "stopped", "link",
						  "pool",    "tcp_buffers",   "cpu" };

/* Shared by all processes of a job. */
struct vj_marks {
	_Atomic int steps[VJ_RANKS]; /* that a rank has ended */
	_Atomic int pids[VJ_RANKS];
	_Atomic int stop, mute, ended[VJ_RANKS];
};

struct vj_job {
	enum vj_fault fault;
	int size, victim;
	uint64_t seed;
	char name[40], dir[32], store[64];
	struct vj_marks *marks;
	pid_t pids[VJ_RANKS], hogs[VJ_HOGS], world;
	int port;
};

static inline uint64_t vj_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * VJ_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline void vj_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set); /* with fewer CPUs it stays where it may run */
}

/* --- a rank --- */

#define VJ_MUST(truth)                                                                             \
	do {                                                                                       \
		if (!(truth)) {                                                                    \
			fprintf(stderr, "%s:%d: %s, rank %d: not so: %s; last error: %s\n",        \
				__FILE__, __LINE__, vj_names[job->fault], rank, #truth,            \
				tow_error_message());                                              \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static inline void vj_compute(uint64_t cpu_ns)
{
	struct timespec ts;
	uint64_t now, until = 0;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
		now = (uint64_t)ts.tv_sec * VJ_NS_PER_S + (uint64_t)ts.tv_nsec;
		until = until == 0 ? now + cpu_ns : until;
	} while (now < until);
}

static inline void vj_wait_for_stop(const struct vj_job *job)
{
	for (int i = 0; i < VJ_LIMIT_S * 1000 && atomic_load(&job->marks->stop) == 0; i++)
		usleep(1000);
}

struct vj_rank {
	const struct vj_job *job;
	struct tow_runtime *runtime;
	struct tow_group *group;
	float *data;
	uint64_t count;
	void *blocks[64];
	_Atomic bool holds;
};

/* One step; false: all have been told to stop, or the group is broken. */
static inline bool vj_step(struct vj_rank *me, int rank)
{
	const struct vj_job *job = me->job;
	struct tow_op *op;
	int status;

	for (uint64_t i = 0; i < me->count; i++)
		me->data[i] = 1;
	me->data[0] = (float)atomic_load(&job->marks->stop);
	status = tow_coll_all_reduce_start(me->group, me->data, me->data, me->count, TOW_F32,
					   TOW_SUM, NULL, &op);
	if (status < 0)
		return false;
	status = tow_op_wait(op, TOW_FOREVER);
	tow_op_release(op);
	if (status < 0)
		return false;
	VJ_MUST(me->count < 2 || me->data[1] == (float)job->size);
	atomic_fetch_add(&job->marks->steps[rank], 1);
	return me->data[0] == 0;
}

/* Takes all of the pool; frees a block when it is told to. */
static inline void *vj_free_later(void *arg)
{
	struct vj_rank *me = arg;

	vj_wait_for_stop(me->job);
	if (atomic_load(&me->holds))
		tow_free(me->runtime, me->blocks[0]);
	return NULL;
}

static inline void vj_exhaust(struct vj_rank *me, int rank)
{
	const struct vj_job *job = me->job;
	pthread_t thread;
	uint64_t bytes = 4 << 20;
	void *memory;
	int n = 0;

	/* The last that fits, by halves; the policy waits for what does not. */
	while (n < 60 && bytes >= 4096) {
		char *text, *at;
		unsigned long long largest = 0;

		VJ_MUST(tow_stats_get(me->runtime, "/v1/pool", &text) == TOW_OK);
		at = strstr(text, "\"largest_free_bytes\":");
		VJ_MUST(at != NULL);
		largest = strtoull(at + strlen("\"largest_free_bytes\":"), NULL, 10);
		tow_stats_release(text);
		if (largest < bytes) {
			bytes /= 2;
			continue;
		}
		VJ_MUST(tow_alloc(me->runtime, bytes, 64, &me->blocks[n++]) == TOW_OK);
	}
	atomic_store(&me->holds, n > 0);
	VJ_MUST(pthread_create(&thread, NULL, vj_free_later, me) == 0);
	VJ_MUST(tow_alloc(me->runtime, 2 << 20, 64, &memory) == TOW_OK);
	pthread_join(thread, NULL);
	tow_free(me->runtime, memory);
}

static inline void vj_other_operation(struct vj_rank *me)
{
	struct tow_op *op;

	if (tow_coll_broadcast_start(me->group, me->data, me->count / 2, TOW_F32, 0, NULL, &op) == TOW_OK) {
		tow_op_wait(op, TOW_FOREVER);
		tow_op_release(op);
	}
}

/* What the victim does before step `n`; false: it steps no more. */
static inline bool vj_misbehave(struct vj_rank *me, int rank, int n)
{
	switch (me->job->fault) {
	case VJ_NEVER:
		if (n == VJ_STEPS)
			vj_wait_for_stop(me->job);
		return true;
	case VJ_LATE:
		if (n >= VJ_STEPS && atomic_load(&me->job->marks->stop) == 0)
			usleep(400000);
		return true;
	case VJ_OTHER:
		if (n == VJ_STEPS)
			vj_other_operation(me);
		return n != VJ_STEPS;
	case VJ_POOL:
		if (n == VJ_STEPS)
			vj_exhaust(me, rank);
		return true;
	default:
		return true;
	}
}

static inline void vj_open(struct vj_rank *me, int rank)
{
	const struct vj_job *job = me->job;
	struct tow_group_options where = TOW_GROUP_OPTIONS_DEFAULT;
	struct tow_options options = TOW_OPTIONS_DEFAULT;
	char address[64];
	void *memory;

	options.premap_memory_bytes = 16 << 20;
	options.huge_pages = 0;
	options.max_ops = 1024;
	options.job = job->name;
	options.rank = rank;
	options.stats_dir = job->dir;
	if (job->fault == VJ_POOL) {
		options.exhaust = "wait";
		options.exhaust_wait_ns = VJ_LIMIT_S * (int64_t)VJ_NS_PER_S;
	}
	if (job->fault == VJ_BUFFERS && rank == job->victim)
		options.socket_buffer_bytes = 8 << 10;
	snprintf(address, sizeof(address), job->fault == VJ_DROPPED ? "tcp://10.77.0.%d:0"
								    : "tcp://127.0.0.%d:0",
		 job->fault == VJ_DROPPED ? 1 + (rank >= job->size / 2) : 1);
	where.rank = rank;
	where.world_size = job->size;
	where.store = job->store;
	where.address = address;
	VJ_MUST(tow_runtime_open(&options, &me->runtime) == TOW_OK);
	VJ_MUST(tow_group_open(me->runtime, &where, &me->group) == TOW_OK);
	me->count = job->fault == VJ_BUFFERS ? 64 << 10 : 1024;
	VJ_MUST(tow_alloc(me->runtime, me->count * 4, 64, &memory) == TOW_OK);
	me->data = memory;
}

static inline int vj_rank_main(const struct vj_job *job, int rank)
{
	struct vj_rank me = { .job = job };
	bool on = true;

	alarm(VJ_LIMIT_S);
	atomic_store(&job->marks->pids[rank], getpid());
	if (job->fault == VJ_HOG)
		vj_pin(rank == job->victim);
	vj_open(&me, rank);
	for (int n = 0; on; n++) {
		if (job->fault != VJ_BUFFERS) {
			uint64_t jitter = (job->seed + (uint64_t)n * 7919) % 10000;

			vj_compute(job->fault == VJ_HOG ? 15000000 : 500000);
			usleep((useconds_t)(job->fault == VJ_HOG ? jitter / 4 : 10000 + jitter));
		}
		if (rank == job->victim)
			on = vj_misbehave(&me, rank, n);
		on = on && vj_step(&me, rank);
	}
	vj_wait_for_stop(job);
	VJ_MUST(tow_group_close(me.group) == TOW_OK);
	VJ_MUST(tow_runtime_close(me.runtime) == TOW_OK);
	atomic_store(&job->marks->ended[rank], 1);
	return 0;
}

/* --- the job --- */

static inline pid_t vj_fork_rank(const struct vj_job *job, int rank)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exit(vj_rank_main(job, rank)); /* not _exit: leaks are looked for at exit */
	}
	return pid;
}

/* One side of the cable: half of the ranks. */
static inline int vj_side(int side, void *arg)
{
	const struct vj_job *job = arg;
	int half = job->size / 2, first = side == 0 ? 0 : half, last = side == 0 ? half : job->size;
	int how, left = last - first;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (int rank = first; rank < last; rank++)
		vj_fork_rank(job, rank);
	while (left-- > 0)
		wait(&how);
	return 0;
}

static inline void vj_script(struct nl_world *world, uint64_t elapsed_ns, void *arg)
{
	const struct vj_job *job = arg;

	(void)elapsed_ns;
	world->link.shape.mute = (unsigned)atomic_load(&job->marks->mute);
}

/* The process that is the cable. */
static inline void vj_world(struct vj_job *job)
{
	struct nl_world world;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!nl_world_open(&world, job->seed, vj_side, job)) {
		fprintf(stderr, "no network of its own: %s\n", world.reason);
		_exit(77);
	}
	nl_world_run(&world, (uint64_t)VJ_LIMIT_S * VJ_NS_PER_S, vj_script, job);
	nl_world_close(&world);
	_exit(0);
}

/* Hogs from now on: as many as there are, on the victim's CPU. */
static inline void vj_hog_main(const struct vj_job *job)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	vj_pin(1);
	alarm(VJ_LIMIT_S);
	while (atomic_load(&job->marks->stop) == 0)
		vj_compute(1000000);
	_exit(0);
}

static inline void vj_begin(struct vj_job *job)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t room = sizeof(at);
	static _Atomic int jobs;

	snprintf(job->name, sizeof(job->name), "v%d-%d-%d", (int)getpid(),
		 atomic_fetch_add(&jobs, 1), (int)job->fault);
	snprintf(job->dir, sizeof(job->dir), "/tmp/tow-verdict-XXXXXX");
	assert_non_null(mkdtemp(job->dir));
	job->marks = mmap(NULL, sizeof(*job->marks), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(job->marks != MAP_FAILED);
	job->port = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(setsockopt(job->port, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, 4), 0);
	assert_int_equal(bind(job->port, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(job->port, (struct sockaddr *)&at, &room), 0);
	snprintf(job->store, sizeof(job->store), "%s:%u",
		 job->fault == VJ_DROPPED ? "10.77.0.1" : "127.0.0.1", ntohs(at.sin_port));
	fflush(NULL);
	if (job->fault != VJ_DROPPED) {
		for (int i = 0; i < job->size; i++)
			job->pids[i] = vj_fork_rank(job, i);
		return;
	}
	job->world = fork();
	if (job->world == 0)
		vj_world(job);
}

static inline bool vj_reached(const struct vj_job *job, int steps)
{
	for (int turn = 0; turn < VJ_LIMIT_S * 1000; turn++) {
		bool all = true;
		int how;

		for (int i = 0; i < job->size; i++)
			all &= atomic_load(&job->marks->steps[i]) >= steps;
		if (all)
			return true;
		if (job->world != 0 && waitpid(job->world, &how, WNOHANG) == job->world)
			return false;
		usleep(1000);
	}
	return false;
}

/* Plants what is not the victim's own doing. */
static inline void vj_plant(struct vj_job *job)
{
	if (job->fault == VJ_STOPPED)
		kill(job->pids[job->victim], SIGSTOP);
	if (job->fault == VJ_DROPPED)
		atomic_store(&job->marks->mute, 1 << (job->victim >= job->size / 2));
	for (int i = 0; job->fault == VJ_HOG && i < VJ_HOGS; i++) {
		fflush(NULL);
		job->hogs[i] = fork();
		if (job->hogs[i] == 0)
			vj_hog_main(job);
	}
}

static inline void vj_kill(pid_t *pid)
{
	int how;

	if (*pid <= 0)
		return;
	kill(*pid, SIGKILL);
	waitpid(*pid, &how, 0);
	*pid = 0;
}

/* True: all ranks have ended well, but for those that a fault does not let. */
static inline bool vj_end(struct vj_job *job)
{
	bool well = true;
	int how;

	atomic_store(&job->marks->stop, 1);
	atomic_store(&job->marks->mute, 0);
	if (job->fault == VJ_STOPPED)
		kill(job->pids[job->victim], SIGCONT);
	if (job->fault == VJ_DROPPED) /* the connections would take seconds to come back */
		for (int i = 0; i < job->size; i++)
			kill(atomic_load(&job->marks->pids[i]), SIGKILL);
	for (int i = 0; i < VJ_HOGS; i++)
		vj_kill(&job->hogs[i]);
	for (int i = 0; job->fault != VJ_DROPPED && i < job->size; i++) {
		for (int turn = 0; turn < 20000 && job->pids[i] > 0; turn++) {
			if (waitpid(job->pids[i], &how, WNOHANG) == job->pids[i]) {
				well &= how == 0;
				job->pids[i] = 0;
			} else {
				usleep(1000);
			}
		}
		well &= job->pids[i] == 0;
		vj_kill(&job->pids[i]);
	}
	vj_kill(&job->world);
	close(job->port);
	munmap(job->marks, sizeof(*job->marks));
	rmdir(job->dir);
	return well;
}

/* --- asking --- */

struct vj_asked {
	int fd;
	size_t bytes;
	char text[256 << 10];
	uint64_t took_ns;
};

static inline int vj_connect(const struct vj_job *job, int rank, const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char request[128];
	int n, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s.%d.sock", job->dir, job->name, rank);
	n = snprintf(request, sizeof(request),
		     "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
	    write(fd, request, (size_t)n) != n) {
		fprintf(stderr, "%s: %s\n", at.sun_path, strerror(errno));
		close(fd);
		return -1;
	}
	return fd;
}

/* Asks the ranks in the bits of `who` at once. */
static inline void vj_ask(const struct vj_job *job, unsigned who, const char *path,
			  struct vj_asked *asked)
{
	uint64_t begun = vj_now();
	int left = 0;

	for (int i = 0; i < job->size; i++) {
		asked[i].bytes = 0;
		asked[i].took_ns = 0;
		asked[i].fd = (who >> i & 1) != 0 ? vj_connect(job, i, path) : -1;
		left += asked[i].fd >= 0;
	}
	while (left > 0 && vj_now() - begun < 10 * VJ_NS_PER_S) {
		struct pollfd fds[VJ_RANKS];

		for (int i = 0; i < job->size; i++)
			fds[i] = (struct pollfd){ .fd = asked[i].fd, .events = POLLIN };
		poll(fds, (nfds_t)job->size, 100);
		for (int i = 0; i < job->size; i++) {
			ssize_t n;

			if (asked[i].fd < 0 || fds[i].revents == 0)
				continue;
			n = read(asked[i].fd, asked[i].text + asked[i].bytes,
				 sizeof(asked[i].text) - 1 - asked[i].bytes);
			if (n > 0) {
				asked[i].bytes += (size_t)n;
				continue;
			}
			close(asked[i].fd);
			asked[i].fd = -1;
			asked[i].took_ns = vj_now() - begun;
			left--;
		}
	}
	for (int i = 0; i < job->size; i++) {
		asked[i].text[asked[i].bytes] = '\0';
		if (asked[i].fd >= 0)
			close(asked[i].fd);
	}
}

static inline json_t *vj_document(const struct vj_asked *asked)
{
	const char *body = strstr(asked->text, "\r\n\r\n");

	return body != NULL ? json_loads(body + 4, 0, NULL) : NULL;
}

/* Whether a finding is the planted one. */
static inline bool vj_is_planted(const struct vj_job *job, const json_t *finding)
{
	const char *cause = json_string_value(json_object_get(finding, "cause"));
	json_t *ranks = json_object_get(finding, "ranks"), *links, *link;
	bool side = job->victim >= job->size / 2;
	size_t i;

	if (cause == NULL || strcmp(cause, vj_causes[job->fault]) != 0)
		return false;
	if (job->fault != VJ_DROPPED)
		return json_array_size(ranks) == 1 &&
		       json_integer_value(json_array_get(ranks, 0)) == job->victim;
	links = json_object_get(finding, "links");
	json_array_foreach(links, i, link)
	{
		if ((json_integer_value(json_object_get(link, "from")) >= job->size / 2) != side ||
		    (json_integer_value(json_object_get(link, "to")) >= job->size / 2) == side)
			return false;
	}
	return json_array_size(links) > 0;
}

/* One rank's verdict: it names the planted fault and nothing else. */
static inline bool vj_right(const struct vj_job *job, int rank, const struct vj_asked *asked)
{
	json_t *document = vj_document(asked), *findings = json_object_get(document, "findings");
	size_t count = json_array_size(findings);
	bool right = document != NULL && findings != NULL;

	if (job->fault == VJ_HEALTHY)
		right = right && count == 0;
	else
		right = right && count == 1 && vj_is_planted(job, json_array_get(findings, 0));
	if (!right)
		fprintf(stderr, "%s, %d ranks, victim %d, asked rank %d (%.2f s): %s\n",
			vj_names[job->fault], job->size, job->victim, rank,
			(double)asked->took_ns / 1e9,
			document != NULL ? json_dumps(document, JSON_COMPACT) : asked->text);
	json_decref(document);
	return right;
}

#endif
