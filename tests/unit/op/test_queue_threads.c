/*
 * test_queue_threads.c - many threads with one completion queue: each result is taken exactly once,
 * nobody sleeps on the descriptor while there is one, and whoever only sleeps and takes is served
 * by the library's own thread, or by a thread that progresses elsewhere.
 */
#include "twt.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>

#include "lane_pair.h"

#define POSTERS 6u
#define TAKERS  20u
#ifdef TWT_SANITIZED
#define EACH 400u
#else
#define EACH 4000u
#endif
#define ALL  (POSTERS * EACH)
#define ROOM 100u

static struct twt_lane_pair pair;
static struct tow_queue *queue; /* of side 1, which receives */
static _Atomic unsigned char seen[ALL];
static _Atomic unsigned taken, full, in_vain;
static _Atomic bool over;
static uint64_t words[ALL];

/* In any thread. */
static void must(bool is_so)
{
	if (!is_so)
		abort();
}

/* Receives, by the queue, one after the other; where it is full, again. */
static void *post(void *arg)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	uint64_t from = (uintptr_t)arg * EACH;
	int status;

	options.queue = queue;
	for (uint64_t i = from; i < from + EACH; i++) {
		options.user = (void *)(uintptr_t)i;
		while ((status = tow_recv_start(pair.peer[1], &words[i], 8, 1, &options, NULL)) ==
		       TOW_EBUSY) {
			atomic_fetch_add(&full, 1);
			usleep(100);
		}
		TWT_OK(status);
	}
	return NULL;
}

/* And sees to it that what it has sent goes out. */
static void *send_all(void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < ALL; i++) {
		struct tow_op *op;

		TWT_OK(tow_send_start(pair.peer[0], &i, 8, 1, NULL, &op));
		TWT_OK(tow_op_wait(op, TWT_FINISH_NS));
		TWT_OK(tow_op_release(op));
	}
	while (!atomic_load(&over)) {
		(void)tow_progress(pair.runtime[0]);
		usleep(50);
	}
	return NULL;
}

/* Sleeps on the descriptor and takes: nothing else. By poll, or by an epoll of its own. */
static void *take(void *arg)
{
	struct tow_result results[7];
	struct pollfd fd = { .events = POLLIN };
	struct epoll_event event = { .events = EPOLLIN };
	int set = epoll_create1(EPOLL_CLOEXEC);
	size_t count;

	TWT_OK(tow_queue_fd(queue, &fd.fd));
	must(epoll_ctl(set, EPOLL_CTL_ADD, fd.fd, &event) == 0);
	while (!atomic_load(&over)) {
		int ready = (uintptr_t)arg % 2 == 0 ? poll(&fd, 1, 100)
						    : epoll_wait(set, &event, 1, 100);

		if (ready != 1)
			continue;
		for (size_t i = 0; i < 7; i++)
			results[i].size = sizeof(results[i]);
		if (tow_queue_take(queue, results, 1 + (uintptr_t)arg % 7, &count) != TOW_OK) {
			atomic_fetch_add(&in_vain, 1);
			continue;
		}
		for (size_t i = 0; i < count; i++) {
			must(results[i].status == TOW_OK);
			atomic_fetch_add(&seen[(uintptr_t)results[i].user], 1);
		}
		atomic_fetch_add(&taken, (unsigned)count);
	}
	close(set);
	return NULL;
}

/* Each number was received once, by any of the receives, and each receive had its result. */
static void check_words(void)
{
	static bool there[ALL];

	memset(there, 0, sizeof(there));
	for (uint64_t i = 0; i < ALL; i++) {
		assert_int_equal(atomic_load(&seen[i]), 1);
		assert_true(words[i] < ALL && !there[words[i]]);
		there[words[i]] = true;
	}
}

static void *progress(void *arg)
{
	(void)arg;
	while (!atomic_load(&over))
		if (tow_progress(pair.runtime[1]) == TOW_AGAIN)
			usleep(50);
	return NULL;
}

static void run_crowd(bool background)
{
	pthread_t takers[TAKERS], posters[POSTERS], sender, driver;
	uint64_t until = twi_now_ns() + TWT_FINISH_NS;
	struct pollfd fd = { .events = POLLIN };

	memset((void *)seen, 0, sizeof(seen));
	taken = full = in_vain = 0;
	over = false;
	for (uintptr_t i = 0; i < TAKERS; i++)
		assert_int_equal(pthread_create(&takers[i], NULL, take, (void *)i), 0);
	for (uintptr_t i = 0; i < POSTERS; i++)
		assert_int_equal(pthread_create(&posters[i], NULL, post, (void *)i), 0);
	assert_int_equal(pthread_create(&sender, NULL, send_all, NULL), 0);
	if (!background)
		assert_int_equal(pthread_create(&driver, NULL, progress, NULL), 0);
	while (atomic_load(&taken) < ALL && twi_now_ns() < until)
		usleep(1000);
	assert_int_equal(atomic_load(&taken), ALL);
	for (unsigned i = 0; i < POSTERS; i++)
		pthread_join(posters[i], NULL);
	usleep(10000);
	TWT_OK(tow_queue_fd(queue, &fd.fd));
	assert_int_equal(poll(&fd, 1, 0), 0); /* whatever raced, it is not left readable */
	atomic_store(&over, true);
	pthread_join(sender, NULL);
	for (unsigned i = 0; i < TAKERS; i++)
		pthread_join(takers[i], NULL);
	if (!background)
		pthread_join(driver, NULL);
	check_words();
	printf("%s, %s: %u starts found it full, %u takes found nothing\n", pair.lane->name,
	       background ? "the library drives" : "a thread progresses", full, in_vain);
}

static void open_rows(const struct twt_lane_row *row, bool background)
{
	twt_lane_init(&pair, row);
	pair.options[0].background = pair.options[1].background = background;
	assert_true(twt_lane_open(&pair));
	twt_lane_join(&pair);
	TWT_OK(tow_queue_open(pair.runtime[1], ROOM, &queue));
}

static void test_exactly_once(void **state)
{
	(void)state;
	for (size_t i = 0; i < TWT_LANE_ROWS_ALWAYS; i++) {
		for (int background = 0; background < 2; background++) {
			open_rows(&twt_lane_rows[i], background != 0);
			run_crowd(background != 0);
			twt_lane_close(&pair);
		}
	}
}

/* Takes in vain leave the driving to the library's thread, which would nap for them. */
static void takes_do_not_drive(void)
{
	_Atomic uint64_t *drives = &twi_runtime_engine(pair.runtime[1])->drives;
	struct tow_result result = TOW_RESULT_INIT;
	uint64_t before;
	size_t count;

	usleep(20000);
	before = atomic_load(drives);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(tow_queue_take(queue, &result, 1, &count), TOW_AGAIN);
	assert_true(atomic_load(drives) - before < 500); /* of the thread's own a few */
}

/* One at a time, over every lane: whoever sleeps on the descriptor alone has each in time. */
static void test_only_sleeps(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_result result = TOW_RESULT_INIT;
	struct pollfd fd = { .events = POLLIN };
	struct tow_op *op;
	size_t count;

	(void)state;
	for (size_t i = 0; i < TWT_LANE_ROWS; i++) {
		twt_lane_init(&pair, &twt_lane_rows[i]);
		pair.options[0].background = pair.options[1].background = 1;
		if (!twt_lane_open(&pair))
			continue;
		twt_lane_join(&pair);
		TWT_OK(tow_queue_open(pair.runtime[1], ROOM, &queue));
		TWT_OK(tow_queue_fd(queue, &fd.fd));
		options.queue = queue;
		for (uint64_t turn = 0; turn < 50; turn++) {
			uint64_t word = turn;

			TWT_OK(tow_recv_start(pair.peer[1], words, 8, 1, &options, NULL));
			usleep(turn % 10 * 1000);
			TWT_OK(tow_send_start(pair.peer[0], &word, 8, 1, NULL, &op));
			assert_int_equal(poll(&fd, 1, 10000), 1);
			TWT_OK(tow_queue_take(queue, &result, 1, &count));
			assert_int_equal(words[0], turn);
			assert_int_equal(tow_queue_take(queue, &result, 1, &count), TOW_AGAIN);
			TWT_OK(tow_op_release(op));
		}
		takes_do_not_drive();
		twt_lane_close(&pair);
	}
}

/* Without the library's thread: a loop over both descriptors, or takes alone. */
static void test_by_oneself(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_result result = TOW_RESULT_INIT;
	struct pollfd fds[2] = { { .events = POLLIN }, { .events = POLLIN } };
	size_t count;

	(void)state;
	for (size_t i = 0; i < TWT_LANE_ROWS_ALWAYS; i++) {
		pthread_t sender;
		uint64_t until = twi_now_ns() + TWT_FINISH_NS;

		open_rows(&twt_lane_rows[i], false);
		TWT_OK(tow_fd(pair.runtime[1], &fds[0].fd));
		TWT_OK(tow_queue_fd(queue, &fds[1].fd));
		options.queue = queue;
		over = false;
		assert_int_equal(pthread_create(&sender, NULL, send_all, NULL), 0);
		for (uint64_t turn = 0; turn < ALL;) {
			bool takes = turn < ALL / 2; /* alone: they drive */

			options.user = (void *)(uintptr_t)turn;
			TWT_OK(tow_recv_start(pair.peer[1], &words[0], 8, 1, &options, NULL));
			for (count = 0; count == 0;) {
				if (!takes && poll(fds, 2, 5000) == 0)
					fail_msg("%s: neither descriptor tells", pair.lane->name);
				if (!takes && fds[0].revents != 0)
					(void)tow_progress(pair.runtime[1]);
				if (takes || fds[1].revents != 0)
					(void)tow_queue_take(queue, &result, 1, &count);
				assert_true(twi_now_ns() < until);
			}
			assert_int_equal((uintptr_t)result.user, turn);
			assert_int_equal(words[0], turn);
			turn++;
		}
		over = true;
		pthread_join(sender, NULL);
		twt_lane_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exactly_once),
		cmocka_unit_test(test_only_sleeps),
		cmocka_unit_test(test_by_oneself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
