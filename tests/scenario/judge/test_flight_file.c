/*
 * test_flight_file.c - the last word of a rank: its group breaks, it hears of that and is gone in
 * the same moment, by _exit, by exit, or by closing its runtime, also while a look at the job is
 * under way: the flight recorder's file is there, whole, with what the rank knew.
 *
 * A rank waits for its file for 100 ms and no longer. Where it was gone later than that behind the
 * failure there may be none: then that is played again. Each of three jobs that run beside each
 * other mostly waits.
 */
#include "beside.h"
#include "lane_pair.h"
#include "store_port.h"

#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/towline.h>

#define RANKS     3
#define HANGS     2 /* this one never comes */
#define FAILED    9
#define TRIES     10
#define LIMIT_S   60
#define COUNT     256u
#define TIMEOUT   300000000
#define WAITS_NS  100000000ull /* for the file */
#define LOOKS_US  1100000      /* the first look has begun then, and takes 0.95 s */
#define JOB       "last-word"
#define AT_ONCE   3
#define MUST(say) must((say), #say)

enum leaving { BY_WAIT, IN_LOOK, BY_TEST, BY_QUEUE, BY_BARRIER, BY_CALLBACK, BY_CLOSE, WAYS };
#define CELLS ((unsigned)WAYS * TWT_LANE_ROWS_ALWAYS)

static char folder[64], store[64];
static const char *address;
static _Atomic uint64_t *starts; /* of each rank, by CLOCK_MONOTONIC: the call that fails */

static void must(bool truth, const char *what)
{
	if (truth)
		return;
	fprintf(stderr, "not so: %s; last error: %s\n", what, tow_error_message());
	_exit(1);
}

static _Atomic int heard;

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	tow_op_release(op);
	atomic_store(&heard, result->status);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * TWT_SECOND + (uint64_t)now.tv_nsec;
}

static void open_rank(int rank, enum leaving way, struct tow_runtime **runtime,
		      struct tow_group **group)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_group_options where = TOW_GROUP_OPTIONS_INIT;

	options.premap_memory_bytes = 4 << 20;
	options.job = JOB;
	options.rank = rank;
	options.stats_dir = folder;
	options.flight_dir = folder;
	options.coll_timeout_ns = TIMEOUT;
	options.verdict_interval_ns = way == IN_LOOK ? 1 : 0;
	where.rank = rank;
	where.world_size = RANKS;
	where.store = store;
	where.address = address;
	MUST(tow_runtime_open(&options, runtime) == TOW_OK);
	MUST(tow_group_open(*runtime, &where, group) == TOW_OK);
	MUST(tow_group_barrier(*group, TOW_FOREVER) == TOW_OK);
}

static struct tow_op *start(struct tow_group *group, float *data, enum leaving way,
			    struct tow_queue *queue)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *op;

	if (way == BY_CALLBACK)
		options.done = on_done;
	options.queue = queue;
	MUST(tow_coll_all_reduce_start(group, data, data, COUNT, TOW_F32, TOW_SUM, &options, &op) ==
	     TOW_OK);
	return op;
}

static void take_failure(struct tow_queue *queue)
{
	struct tow_result result = TOW_RESULT_INIT;
	size_t count = 0;

	while (tow_queue_take(queue, &result, 1, &count) == TOW_AGAIN)
		continue;
	MUST(count == 1 && result.status < 0);
}

/* Fails, and is gone. */
static void rank_main(int rank, enum leaving way)
{
	struct tow_runtime *runtime;
	struct tow_queue *queue = NULL;
	struct tow_group *group;
	struct tow_op *op;
	void *data;
	int status;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(LIMIT_S);
	open_rank(rank, way, &runtime, &group);
	MUST(tow_alloc(runtime, COUNT * sizeof(float), 64, &data) == TOW_OK);
	memset(data, 0, COUNT * sizeof(float));
	if (rank == HANGS) {
		pause();
		_exit(1);
	}
	if (way == IN_LOOK)
		usleep(LOOKS_US);
	atomic_store(&starts[rank], now_ns());
	if (way == BY_BARRIER) {
		MUST(tow_group_barrier(group, TIMEOUT) == TOW_EDEADLINE);
		_exit(FAILED);
	}
	if (way == BY_QUEUE)
		MUST(tow_queue_open(runtime, 4, &queue) == TOW_OK);
	op = start(group, data, way, queue);
	if (way == BY_QUEUE) {
		take_failure(queue);
		_exit(FAILED);
	}
	if (way == BY_CALLBACK) {
		while (atomic_load(&heard) == 0)
			usleep(100);
		exit(FAILED);
	}
	if (way == BY_WAIT || way == IN_LOOK) {
		status = tow_op_wait(op, TOW_FOREVER);
		_exit(status < 0 ? FAILED : 1);
	}
	while ((status = tow_op_test(op)) == TOW_AGAIN)
		continue;
	MUST(status < 0);
	if (way == BY_TEST)
		_exit(FAILED);
	tow_op_release(op);
	tow_group_close(group);
	tow_runtime_close(runtime);
	_exit(FAILED);
}

/* False: there is none, and there need not be one, as the rank was gone `late`. */
static bool check_file(int rank, const char *what, bool late)
{
	char path[160];
	json_error_t error;
	json_t *root;

	snprintf(path, sizeof(path), "%s/flight." JOB ".%d.0.json", folder, rank);
	root = json_load_file(path, 0, &error);
	if (root == NULL && late)
		return false;
	if (root == NULL)
		fail_msg("%s: rank %d has left no file: %s", what, rank, error.text);
	assert_true(json_array_size(json_object_get(root, "entries")) > 0);
	assert_int_equal(json_integer_value(json_object_get(
				 json_object_get(root, "towline_counters"), "coll_groups_broken")),
			 strcmp(what, "barrier") != 0);
	json_decref(root);
	snprintf(path, sizeof(path), "%s/flight." JOB ".%d.0.json.part", folder, rank);
	assert_int_not_equal(access(path, F_OK), 0);
	snprintf(path, sizeof(path), "%s/flight." JOB ".%d.0.json", folder, rank);
	unlink(path);
	return true;
}

/* The group broke when the time of the first call was over, or later. */
static bool is_late(void)
{
	uint64_t first = UINT64_MAX;

	for (int rank = 0; rank < HANGS; rank++)
		first = atomic_load(&starts[rank]) < first ? atomic_load(&starts[rank]) : first;
	return now_ns() >= first + TIMEOUT + WAITS_NS;
}

/* False: it has to be played again. */
static bool run_once(enum leaving way, const char *what)
{
	pid_t pids[RANKS];
	int port = twt_store_port(store, sizeof(store)), how;
	bool late[RANKS] = { false }, whole = true;

	for (int rank = 0; rank < RANKS; rank++) {
		fflush(NULL);
		pids[rank] = fork();
		if (pids[rank] == 0)
			rank_main(rank, way);
	}
	for (int rank = 0; rank < RANKS; rank++) {
		if (rank == HANGS)
			kill(pids[rank], SIGKILL);
		assert_int_equal(waitpid(pids[rank], &how, 0), pids[rank]);
		late[rank] = is_late();
		assert_true(rank == HANGS || (WIFEXITED(how) && WEXITSTATUS(how) == FAILED));
	}
	close(port);
	for (int rank = 0; rank < RANKS; rank++)
		if (rank != HANGS)
			whole &= check_file(rank, what, late[rank]);
	return whole;
}

static void run_way(enum leaving way, const char *what)
{
	for (int i = 0; i < TRIES; i++) {
		char line[128];

		if (run_once(way, what))
			return;
		printf("%s, %s: a rank was gone 100 ms behind its failure, without a file; again\n",
		       what, address);
		snprintf(line, sizeof(line), "rm -f %s/*", folder);
		assert_int_equal(system(line), 0);
	}
	fail_msg("%s, %s: no file within 100 ms, %d times", what, address, TRIES);
}

/* One way, over one lane. */
static void last_word(void **state)
{
	static const char *const names[WAYS] = { "wait",    "wait in a look", "test", "queue",
						 "barrier", "callback",       "close" };
	const unsigned *cell = *state;
	char line[128];

	snprintf(folder, sizeof(folder), "/tmp/twt-flight-XXXXXX");
	assert_non_null(mkdtemp(folder));
	starts = mmap(NULL, RANKS * sizeof(*starts), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(starts != MAP_FAILED);
	address = twt_lane_rows[*cell % TWT_LANE_ROWS_ALWAYS].address[0];
	run_way((enum leaving)(*cell / TWT_LANE_ROWS_ALWAYS), names[*cell / TWT_LANE_ROWS_ALWAYS]);
	snprintf(line, sizeof(line), "rm -rf %s", folder);
	assert_int_equal(system(line), 0);
}

int main(void)
{
	struct CMUnitTest tests[CELLS];
	unsigned cells[CELLS];

	for (unsigned i = 0; i < CELLS; i++) {
		cells[i] = i;
		tests[i] = (struct CMUnitTest){ "last_word", last_word, NULL, NULL, &cells[i] };
	}
	return twt_beside_tests(tests, CELLS, 1, AT_ONCE);
}
