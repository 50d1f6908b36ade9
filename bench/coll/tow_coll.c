/*
 * tow_coll.c - measures the collectives of Towline, and checks their results.
 *
 * Without a launcher this process only starts the ranks. It executes itself once for each rank,
 * with the variables that towrun sets, and waits for them. With a launcher (towrun, mpirun,
 * torchrun, ...), or as one of its own children, it is a rank.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/coll/tow_coll.h"
#include "bench/common/lanes.h"

/*
 * Pool memory beyond our buffers for the library's own: staging, and what plans keep. Small sizes
 * need little, and faulting in more than that would take most of a short run's time.
 */
#define ROOM_LEAST (UINT64_C(16) << 20)
#define ROOM_MOST  (UINT64_C(96) << 20)
#define GRACE_S    5

/* Opens a small runtime, to learn this process's rank and whether a launcher has set it. */
static int look_for_launcher(struct tow_job_info *info, bool *launched)
{
	struct coll_rank nobody = { .rank = 0 };
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	int rc;

	options.premap_memory_bytes = 1 << 20;
	options.stats = 0;
	rc = tow_runtime_open(&options, &runtime);
	if (rc < 0)
		return coll_failed(&nobody, "opening the runtime", rc);
	info->size = sizeof(*info);
	rc = tow_job_info(runtime, info);
	if (rc < 0)
		rc = coll_failed(&nobody, "who am I", rc);
	*launched = rc == 0 && strcmp(info->launcher, "single") != 0;
	info->launcher = info->job = NULL; /* their memory ends with the runtime */
	tow_runtime_close(runtime);
	return rc;
}

/* Pins the calling thread and the threads that it makes later, also those of the library. */
static void pin_thread(uint32_t rank)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(rank % (cpus > 0 ? (uint32_t)cpus : 1), &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		perror("tow-coll: not pinned: sched_setaffinity");
}

/* The bytes that the largest measurement takes. */
static uint64_t need_of(const struct coll_options *options, uint32_t ranks)
{
	uint64_t need = 0;

	for (int kind = 0; kind < COLL_KINDS; kind++) {
		for (unsigned int i = 0; options->ops[kind] && i < options->sizes[kind].count;
		     i++) {
			struct coll_case what =
				coll_case_make(options, kind, options->sizes[kind].bytes[i], ranks);
			uint64_t its = coll_case_need(&what) * options->depth;

			need = its > need ? its : need;
		}
	}
	return need;
}

static int open_group(struct coll_rank *rank)
{
	struct tow_group_options options = TOW_GROUP_OPTIONS_INIT;
	const char *lane = rank->options->lane;
	char address[TOW_ADDRESS_MAX];
	int rc;

	options.address = address;
	if (!bench_lane_address(lane, address))
		options.address = NULL;
	rc = tow_group_open(rank->runtime, &options, &rank->group);
	if (rc < 0)
		return coll_failed(rank, "opening the group", rc);
	rank->rank = tow_group_rank(rank->group);
	rank->ranks = tow_group_size(rank->group);
	return 0;
}

/* Allocates the buffers. Filling them before use faults in every byte. */
static int make_buffers(struct coll_rank *rank)
{
	uint64_t need = need_of(rank->options, rank->ranks);
	void *memory = NULL, *control = NULL;
	int rc = tow_alloc(rank->runtime, 4096, 0, &control);

	if (rc == TOW_OK && !rank->options->outside)
		rc = tow_alloc(rank->runtime, need, 4096, &memory);
	else if (rc == TOW_OK && posix_memalign(&memory, 4096, need) != 0)
		rc = TOW_ENOMEM;
	rank->control = control;
	rank->area = memory;
	return rc < 0 ? coll_failed(rank, "buffers", rc) : 0;
}

static int open_rank(struct coll_rank *rank, const struct tow_job_info *info)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	uint32_t ranks = info->world_size > 0 ? (uint32_t)info->world_size : COLL_RANKS_MAX;
	uint64_t need = need_of(rank->options, ranks);
	uint64_t room = need < (ROOM_MOST - ROOM_LEAST) / 2 ? ROOM_LEAST + 2 * need : ROOM_MOST;
	int rc;

	/*
	 * A variable of the environment must win, but a field that is set here would win over it.
	 */
	if (getenv("TOW_PREMAP_MEMORY_BYTES") == NULL)
		options.premap_memory_bytes = (int64_t)(room + (rank->options->outside ? 0 : need));
	if (getenv("TOW_JOB") == NULL)
		options.job = "tow-coll";
	rc = tow_runtime_open(&options, &rank->runtime);
	if (rc < 0)
		return coll_failed(rank, "opening the runtime", rc);
	rc = open_group(rank);
	if (rc == 0)
		rc = make_buffers(rank);
	return rc;
}

static void close_rank(struct coll_rank *rank)
{
	if (rank->group != NULL)
		tow_group_close(rank->group);
	if (rank->options->outside)
		free(rank->area);
	if (rank->runtime != NULL)
		tow_runtime_close(rank->runtime);
}

/* Counts the hosts: each rank adds its share of its host. */
static int count_hosts(struct coll_rank *rank, const struct tow_job_info *info)
{
	double part = info->local_size > 0 ? 1.0 / (double)info->local_size : 1, hosts = 0;
	int rc = coll_agree(rank, part, TOW_SUM, &hosts);

	rank->hosts = (uint32_t)(hosts + 0.5);
	return rc;
}

static int run_rank(struct coll_options *options, const struct tow_job_info *info)
{
	struct coll_rank rank = { .options = options,
				  .rank = info->rank > 0 ? (uint32_t)info->rank : 0 };
	int rc, told;

	if (options->lane[0] == '\0')
		snprintf(options->lane, sizeof(options->lane), "auto");
	if (options->path == NULL)
		options->path = strcmp(options->lane, "tcp") == 0 ? "tcp-lo" : options->lane;
	if (options->pin)
		pin_thread(info->local_rank >= 0 ? (uint32_t)info->local_rank : rank.rank);
	rc = open_rank(&rank, info);
	if (rc == 0 && (rank.ranks > COLL_RANKS_MAX ||
			(options->ranks != 0 && options->ranks != rank.ranks))) {
		fprintf(stderr, "tow-coll: the job has %u ranks, not --ranks %u (at most %d)\n",
			rank.ranks, options->ranks, COLL_RANKS_MAX);
		rc = COLL_FAILED;
	}
	/* The ranks have met. From here on the failing call itself reports an error. */
	if (rc == 0)
		rc = coll_barrier(&rank);
	if (rc == 0)
		rc = count_hosts(&rank, info);
	if (rc == 0)
		rc = coll_copy_rate(&rank);
	if (rc == 0) {
		coll_report_head(&rank);
		rc = coll_run(&rank);
	}
	if (rc == 0) {
		told = coll_report_wrong(&rank);
		rc = rank.wrong != 0 ? COLL_WRONG : told;
	}
	if (rc == 0)
		rc = coll_profile_write(&rank);
	coll_profile_close(&rank);
	/* A rank that leaves first would break what the others still do with it. */
	if (rc != COLL_FAILED && coll_barrier(&rank) != 0)
		rc = COLL_FAILED;
	close_rank(&rank);
	return rc;
}

/* Chooses a free port of loopback, which stays ours while the job runs (see towrun_start.c). */
static int choose_store(char *text, size_t room)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &bytes) < 0)
		return -1;
	snprintf(text, room, "127.0.0.1:%u", ntohs(at.sin_port));
	return 0;
}

static int set_number(const char *name, uint32_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%u", value);
	return setenv(name, text, 1);
}

static int set_common(uint32_t ranks)
{
	char store[64], job[64], key[65];
	unsigned char random[32];

	if (choose_store(store, sizeof(store)) != 0 ||
	    getrandom(random, sizeof(random), 0) != sizeof(random)) {
		fprintf(stderr, "tow-coll: no port or key for the job: %s\n", strerror(errno));
		return COLL_FAILED;
	}
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(key + 2 * i, 3, "%02x", random[i]);
	snprintf(job, sizeof(job), "tow-coll-%ld", (long)getpid());
	if (setenv("TOW_STORE", store, 1) != 0 || setenv("TOW_JOB", job, 0) != 0 ||
	    (getenv("TOW_JOB_KEY_FILE") == NULL && setenv("TOW_JOB_KEY", key, 0) != 0) ||
	    set_number("TOW_WORLD_SIZE", ranks) != 0 || set_number("TOW_LOCAL_SIZE", ranks) != 0)
		return COLL_FAILED;
	return 0;
}

/* Runs in the child: executes the same program again, as a rank. */
static _Noreturn void become_rank(uint32_t rank, pid_t parent, char **argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent && set_number("TOW_RANK", rank) == 0 &&
	    set_number("TOW_LOCAL_RANK", rank) == 0)
		execv("/proc/self/exe", argv);
	fprintf(stderr, "tow-coll: rank %u cannot be started: %s\n", rank, strerror(errno));
	_exit(COLL_FAILED);
}

static int exit_code(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : COLL_FAILED;
}

/* Waits for all ranks. When one fails, the others have GRACE_S to notice, and are then killed. */
static int reap_ranks(pid_t *children, uint32_t count)
{
	double failed_at = 0;
	uint32_t left = count;
	int rc = 0, status;

	while (left > 0) {
		for (uint32_t i = 0; i < count; i++) {
			if (children[i] <= 0 ||
			    waitpid(children[i], &status, WNOHANG) != children[i])
				continue;
			children[i] = 0;
			left--;
			rc = exit_code(status) > rc ? exit_code(status) : rc;
			if (exit_code(status) == COLL_FAILED && failed_at == 0)
				failed_at = coll_now();
		}
		for (uint32_t i = 0; i < count; i++)
			if (failed_at > 0 && coll_now() > failed_at + GRACE_S && children[i] > 0)
				kill(children[i], SIGKILL);
		usleep(5000);
	}
	return rc;
}

static int run_parent(const struct coll_options *options, char **argv)
{
	uint32_t ranks = options->ranks != 0 ? options->ranks : 2;
	pid_t children[COLL_RANKS_MAX] = { 0 }, parent = getpid();
	int rc = set_common(ranks);

	for (uint32_t i = 0; i < ranks && rc == 0; i++) {
		children[i] = fork();
		if (children[i] == 0)
			become_rank(i, parent, argv);
		if (children[i] < 0) {
			fprintf(stderr, "tow-coll: no process: %s\n", strerror(errno));
			for (uint32_t j = 0; j < i; j++)
				kill(children[j], SIGKILL);
			rc = COLL_FAILED;
			ranks = i;
		}
	}
	if (rc == COLL_FAILED && children[0] <= 0)
		return rc;
	rc = rc != 0 ? (reap_ranks(children, ranks), rc) : reap_ranks(children, ranks);
	return rc;
}

/* Adds --lane shm, as ranks that are started here are all on this host. */
static int default_lane(char ***argv, int argc)
{
	static char **longer; /* lives as long as the program, like the original argv */

	longer = calloc((size_t)argc + 3, sizeof(**argv));
	if (longer == NULL)
		return COLL_FAILED;
	memcpy(longer, *argv, (size_t)argc * sizeof(**argv));
	longer[argc] = (char *)"--lane";
	longer[argc + 1] = (char *)"shm";
	*argv = longer;
	return 0;
}

int main(int argc, char **argv)
{
	struct tow_job_info info = { .size = sizeof(info) };
	struct coll_options options;
	bool launched = false;
	int rc = coll_options_parse(&options, argc, argv);

	if (rc != 0)
		return rc < 0 ? EXIT_SUCCESS : rc;
	rc = look_for_launcher(&info, &launched);
	if (rc != 0)
		return rc;
	if (launched)
		return run_rank(&options, &info);
	if (options.lane[0] == '\0')
		rc = default_lane(&argv, argc);
	return rc != 0 ? rc : run_parent(&options, argv);
}
