/*
 * test_share.c - parts of a process that know nothing of each other share a runtime: two plugins
 * that are loaded with dlopen, and threads that open and close it at once. Options that contradict
 * what is there are refused by name, and the last close ends all.
 */
#include "pair.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#include "lane_pair.h"
#include "sharer.h"
#include "talker.h"

#define POOL    (32 << 20)
#define BYTES   ((size_t)64 << 10)
#define THREADS 6
#define ROUNDS  25

static struct tow_options small_options(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = POOL;
	options.stats = 0;
	return options;
}

static struct twt_sharer load_sharer(const char *name)
{
	struct twt_sharer sharer;
	char path[512];
	void *library, *found;

	twt_module_path(name, path, sizeof(path));
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		fail_msg("%s", dlerror());
#define FIND(function, type, parameters)                                                           \
	found = dlsym(library, "sharer_" #function);                                               \
	assert_non_null(found);                                                                    \
	memcpy(&sharer.function, &found, sizeof(found));
	TWT_SHARER_MAP(FIND)
#undef FIND
	return sharer;
}

static int pools(void)
{
	return twt_map_count("memfd:");
}

/* What one allocates the other one sends and frees; the lane is any of them. */
static void talk(const struct twt_sharer *one, const struct twt_sharer *two,
		 const struct twt_lane_row *lane)
{
	struct tow_endpoint *from, *to;
	char address[2][TOW_ADDRESS_MAX];
	struct tow_peer *there, *here;
	struct tow_op *accept, *receive;
	uint8_t *out, *in;
	int status = one->listen(lane->address[0], &from, address[0]);

	if (status == TOW_ENOTSUP) {
		printf("%s: %s\n", lane->name, one->message());
		return;
	}
	assert_int_equal(status, TOW_OK);
	assert_int_equal(two->listen(lane->address[1], &to, address[1]), TOW_OK);
	assert_int_equal(two->accept(to, &accept), TOW_OK);
	assert_int_equal(one->connect(from, address[1], &there), TOW_OK);
	assert_int_equal(two->finish(accept, &here), TOW_OK);
	out = two->alloc(BYTES, 7);
	in = one->alloc(BYTES, 0);
	assert_true(out != NULL && in != NULL);
	assert_int_equal(two->receive_start(here, in, BYTES, &receive), TOW_OK);
	assert_true(one->send(there, out, BYTES) >= 0);
	assert_true(two->finish(receive, NULL) >= 0);
	assert_memory_equal(in, out, BYTES);
	assert_int_equal(one->free(out), TOW_OK);
	assert_int_equal(two->free(in), TOW_OK);
	assert_int_equal(one->hush(to), TOW_OK);
	assert_int_equal(two->hush(from), TOW_OK);
}

static void test_plugins(void **state)
{
	struct tow_options options = small_options();
	struct twt_sharer one = load_sharer("sharer_one"), two = load_sharer("sharer_two");
	struct tow_runtime *first, *second;
	uint8_t *kept;
	int fds;

	(void)state;
	assert_ptr_not_equal((void *)(uintptr_t)one.open, (void *)(uintptr_t)two.open);
	assert_int_equal(one.open(&options, &first), TOW_OK); /* what a process has once is there */
	assert_int_equal(one.close(), TOW_OK);
	fds = twt_fd_count();
	assert_int_equal(pools(), 0);
	assert_int_equal(one.open(&options, &first), TOW_OK);
	assert_int_equal(two.open(NULL, &second), TOW_OK);
	assert_ptr_equal(first, second);
	assert_int_equal(pools(), 1);
	for (int i = 0; i < TWT_LANE_ROWS; i++)
		talk(&one, &two, &twt_lane_rows[i]);
	kept = one.alloc(BYTES, 3);
	/* The first has gone; all that the second has goes on. */
	assert_int_equal(one.close(), TOW_OK);
	talk(&two, &two, &twt_lane_rows[TWT_LANE_ROW_SHM]);
	assert_int_equal(two.close(), TOW_OK);
	assert_int_equal(two.close(), TOW_ECLOSED);
	assert_int_equal(twt_fd_count(), fds);
	assert_int_equal(kept[BYTES - 1], 3);
	assert_int_equal(two.free(kept), TOW_OK);
	assert_int_equal(pools(), 0);
	/* and there can be another one, with other options */
	options.premap_memory_bytes = 2 * POOL;
	assert_int_equal(two.open(&options, &second), TOW_OK);
	assert_int_equal(two.close(), TOW_OK);
}

static void check_refused(const struct tow_options *options, const char *const words[3])
{
	struct tow_runtime *runtime = (void *)(uintptr_t)8;

	assert_int_equal(tow_runtime_share(options, &runtime), TOW_EINVAL);
	assert_null(runtime);
	for (int i = 0; i < 3 && words[i] != NULL; i++) {
		if (strstr(tow_error_message(), words[i]) == NULL)
			fail_msg("'%s' is not in: %s", words[i], tow_error_message());
	}
	assert_null(strstr(tow_error_message(), "secret of"));
}

static void log_nothing(void *user, int level, const char *text)
{
	(void)user, (void)level, (void)text;
}

static void test_contradictions(void **state)
{
	const char *const none[3] = { NULL };
	struct tow_options options = small_options(), other;
	struct tow_runtime *runtime, *again;
	void *memory;

	(void)state;
	options.job_key = "the secret of this job";
	options.numa = "";
	options.exhaust = "copy";
	TWT_OK(tow_runtime_share(&options, &runtime));
#define REFUSED(member, value, here, there)                                                        \
	do {                                                                                       \
		other = (struct tow_options)TOW_OPTIONS_INIT;                                      \
		other.member = value;                                                              \
		check_refused(&other, (const char *const[3]){ #member, here, there });             \
	} while (0)
	REFUSED(premap_memory_bytes, 2 * POOL, "64MiB", "32MiB");
	REFUSED(stats, 1, "stats", NULL);
	REFUSED(max_ops, 1000, "1000", "65536");
	REFUSED(exhaust, "grow", "grow", "copy");
	REFUSED(lanes, "tcp", "tcp", NULL);
	REFUSED(rank, 3, "3", NULL);
	REFUSED(spin_ns, 0, "0", NULL);
	REFUSED(job_key, "the secret of another job", NULL, NULL);
	REFUSED(stats_token, "the secret of the stats page", NULL, NULL);
	REFUSED(log_callback, log_nothing, NULL, NULL);
	REFUSED(max_ops, 3, "3", "16"); /* out of its range, as where it is opened */
	other = (struct tow_options)TOW_OPTIONS_INIT;
	other.size = 12;
	check_refused(&other, none);
	assert_int_equal(tow_runtime_share(NULL, NULL), TOW_EINVAL);
	/* The same, or nothing said, is no contradiction. */
	TWT_OK(tow_runtime_share(&options, &again));
	assert_ptr_equal(again, runtime);
	other = (struct tow_options)TOW_OPTIONS_INIT;
	other.exhaust = "copy";
	other.max_ops = 65536;
	TWT_OK(tow_runtime_share(&other, &again));
	assert_ptr_equal(again, runtime);
	/* Of the refused none has a hold on it. */
	TWT_OK(tow_runtime_close(runtime));
	TWT_OK(tow_runtime_close(runtime));
	TWT_OK(tow_alloc(runtime, 8, 0, &memory));
	TWT_OK(tow_free(runtime, memory));
	TWT_OK(tow_runtime_close(runtime));
	assert_int_equal(tow_runtime_close(runtime), TOW_ECLOSED);
}

/* One that cannot be opened leaves nothing, and one of tow_runtime_open is not shared. */
static void test_opening(void **state)
{
	struct tow_options options = small_options();
	struct tow_runtime *shared, *own;

	(void)state;
	options.interfaces = "nothere0";
	assert_int_equal(tow_runtime_share(&options, &shared), TOW_EINVAL);
	assert_null(shared);
	options = small_options();
	TWT_OK(tow_runtime_open(&options, &own));
	TWT_OK(tow_runtime_share(&options, &shared));
	assert_ptr_not_equal(own, shared);
	TWT_OK(tow_runtime_close(shared));
	TWT_OK(tow_runtime_close(own));
}

static void share_in_progress(void *user, uint64_t done_bytes, uint64_t total_bytes)
{
	struct tow_runtime *runtime;

	(void)done_bytes, (void)total_bytes;
	*(int *)user = tow_runtime_share(NULL, &runtime);
}

/* Who would wait for itself is told. */
static void test_within_itself(void **state)
{
	struct tow_options options = small_options();
	struct tow_runtime *runtime;
	int status = TOW_OK;

	(void)state;
	options.premap_progress = share_in_progress;
	options.premap_progress_user = &status;
	TWT_OK(tow_runtime_share(&options, &runtime));
	assert_int_equal(status, TOW_EBUSY);
	TWT_OK(tow_runtime_close(runtime));
}

/* A forked child opens one of its own. */
static void test_forked(void **state)
{
	struct tow_options options = small_options();
	struct tow_runtime *runtime, *own;
	int status;
	pid_t child;

	(void)state;
	TWT_OK(tow_runtime_share(&options, &runtime));
	fflush(stdout);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		bool good = tow_runtime_close(runtime) == TOW_EFORKED;

		options.max_ops = 128;
		good = good && tow_runtime_share(&options, &own) == TOW_OK && own != runtime;
		_exit(good && tow_runtime_close(own) == TOW_OK ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	TWT_OK(tow_runtime_close(runtime));
	assert_int_equal(tow_runtime_close(runtime), TOW_ECLOSED);
}

struct crowd {
	pthread_barrier_t begin;
	uint64_t seed;
};

static void *share_often(void *arg)
{
	struct crowd *crowd = arg;
	struct tow_options options = small_options();
	uint64_t random = crowd->seed + (uint64_t)pthread_self();

	pthread_barrier_wait(&crowd->begin);
	for (int i = 0; i < ROUNDS; i++) {
		struct tow_runtime *runtime;
		void *memory;

		TWT_OK(tow_runtime_share(&options, &runtime));
		TWT_OK(tow_alloc(runtime, 1 + twt_random_below(&random, BYTES), 0, &memory));
		memset(memory, i, 1);
		if (twt_random_below(&random, 2) == 0) {
			TWT_OK(tow_free(runtime, memory));
			TWT_OK(tow_runtime_close(runtime));
		} else {
			TWT_OK(tow_runtime_close(runtime));
			TWT_OK(tow_free(runtime, memory));
		}
	}
	return NULL;
}

/* Some open it, some have it, and some are the last that do. */
static void test_threads(void **state)
{
	struct crowd crowd = { .seed = twt_seed() };
	pthread_t threads[THREADS];

	(void)state;
	assert_int_equal(pthread_barrier_init(&crowd.begin, NULL, THREADS), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, share_often, &crowd), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&crowd.begin);
	assert_int_equal(pools(), 0);
}

/* A second copy of the library, from another file, is one by itself: nothing is shared with it. */
static void test_second_copy(void **state)
{
	const char *build = getenv("TOW_TEST_BUILD");
	struct tow_options options = small_options();
	int (*share)(const struct tow_options *, struct tow_runtime **);
	int (*close_it)(struct tow_runtime *);
	struct tow_runtime *first, *second;
	struct twt_sharer one = load_sharer("sharer_one");
	char command[600], copy[] = "/tmp/twt-copy-XXXXXX";
	void *library, *found;
	int fd = mkstemp(copy);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	snprintf(command, sizeof(command), "cp %s/libtowline.so %s", build != NULL ? build : ".",
		 copy);
	assert_int_equal(system(command), 0);
	library = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
	unlink(copy);
	assert_non_null(library);
	found = dlsym(library, "tow_runtime_share");
	memcpy(&share, &found, sizeof(found));
	found = dlsym(library, "tow_runtime_close");
	memcpy(&close_it, &found, sizeof(found));
	assert_int_equal(one.open(&options, &first), TOW_OK);
	options.max_ops = 128; /* of the other copy it would be a contradiction */
	assert_int_equal(share(&options, &second), TOW_OK);
	assert_ptr_not_equal(first, second);
	assert_int_equal(pools(), 2);
	assert_int_equal(close_it(second), TOW_OK);
	talk(&one, &one, &twt_lane_rows[TWT_LANE_ROW_SHM]);
	assert_int_equal(one.close(), TOW_OK);
	assert_int_equal(pools(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plugins),     cmocka_unit_test(test_contradictions),
		cmocka_unit_test(test_opening),     cmocka_unit_test(test_within_itself),
		cmocka_unit_test(test_forked),      cmocka_unit_test(test_threads),
		cmocka_unit_test(test_second_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
