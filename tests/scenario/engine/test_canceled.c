/*
 * test_canceled.c - threads that pthread_cancel ends while they are in calls, on every lane: no
 * call is a cancellation point. The thread ends behind its call, and the runtime goes on.
 *
 * The first part looks at every cancellation point of libc that a call reaches, whether or not
 * somebody cancels; the second one cancels threads at random times.
 */
#include "twt.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cancel_points.h"
#include "lane_pair.h"

#define LARGE  (3u << 20)
#define ROUNDS 24

static struct twt_lane_pair pair;
static uint64_t rng;

/* --- every point that is reached --- */

/* Each lane, and tcp twice more: by the other poller, and encrypted. */
enum { BY_EPOLL = TWT_LANE_ROWS, ENCRYPTED, WAYS };

static bool open_pair(size_t way)
{
	bool there;

	twt_lane_init(&pair, &twt_lane_rows[way < TWT_LANE_ROWS ? way : 0]);
	for (int i = 0; i < 2; i++) {
		pair.options[i].premap_memory_bytes = 8 << 20;
		pair.options[i].background = 1;
		if (way == BY_EPOLL)
			pair.options[i].poller = "epoll";
		if (way == ENCRYPTED) {
			pair.options[i].job_key = "a key of this test, which has 32 bytes and more";
			pair.options[i].encrypt = 1;
		}
	}
	twt_points_where = pair.lane->name;
	twt_inside = true;
	there = twt_lane_open(&pair);
	if (there)
		twt_lane_join(&pair);
	twt_inside = false;
	return there;
}

static void close_pair(void)
{
	twt_inside = true;
	twt_lane_close(&pair);
	twt_inside = false;
}

/* A wait within a call: it ends within 10 s. */
static int await(struct tow_op *op)
{
	int status = tow_op_wait(op, 10 * TWT_SECOND);

	if (status < 0)
		fail_msg("%s: %s: %s", pair.lane->name, tow_status_name(status),
			 tow_error_message());
	TWT_OK(tow_op_release(op));
	return status;
}

struct errand {
	int side;
	uint8_t *data;
	size_t bytes;
	bool view;
};

static void *receive(void *arg)
{
	const struct errand *errand = arg;
	struct tow_peer *peer = pair.peer[errand->side];
	struct tow_op *op;

	twt_inside = true;
	if (errand->view)
		TWT_OK(tow_recv_view_start(peer, 5, NULL, &op));
	else
		TWT_OK(tow_recv_start(peer, errand->data, errand->bytes, 5, NULL, &op));
	await(op);
	twt_inside = false;
	return NULL;
}

/* One message to a thread that sleeps in its wait. */
static void pass_message(size_t bytes, enum twt_memory memory, bool view, bool late)
{
	uint64_t handles[2];
	uint8_t *out = twt_memory_get(pair.runtime[0], memory, bytes, &handles[0]);
	uint8_t *in = twt_memory_get(pair.runtime[1], memory, bytes, &handles[1]);
	struct errand errand = { 1, in, bytes, view };
	pthread_t thread;
	struct tow_op *op;

	assert_int_equal(pthread_create(&thread, NULL, receive, &errand), 0);
	if (late)
		usleep(3000); /* it sleeps, and is to be woken */
	twt_inside = true;
	TWT_OK(tow_send_start(pair.peer[0], out, bytes, 5, NULL, &op));
	await(op);
	twt_inside = false;
	pthread_join(thread, NULL);
	twt_memory_put(pair.runtime[0], memory, out, handles[0]);
	twt_memory_put(pair.runtime[1], memory, in, handles[1]);
}

/* What is no message. */
static void ask_and_grow(void)
{
	struct tow_trace *trace;
	void *memory;
	char *text;
	int fd;

	twt_inside = true;
	TWT_OK(tow_trace_begin(pair.runtime[0]));
	TWT_OK(tow_alloc(pair.runtime[0], 7 << 20, 0, &memory));
	TWT_OK(tow_stats_get(pair.runtime[0], "/v1/pool", &text));
	tow_stats_release(text);
	TWT_OK(tow_free(pair.runtime[0], memory));
	TWT_OK(tow_trace_end(pair.runtime[0], &trace));
	tow_trace_release(trace);
	TWT_OK(tow_fd(pair.runtime[1], &fd));
	twt_inside = false;
}

static void test_points(void **state)
{
	static const size_t sizes[] = { 8, 3000, 100000, LARGE };
	size_t way = (size_t)(uintptr_t)*state;

	if (!TWT_LOOKS_AT_POINTS || !open_pair(way))
		skip();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int how = 0; how < 2 * TWT_MEMORIES; how++)
			pass_message(sizes[i], (enum twt_memory)(how / 2), how % 2 == 1,
				     (i + (size_t)how) % 3 == 0);
	}
	ask_and_grow();
	close_pair();
	assert_int_equal(atomic_load(&twt_point_faults), 0);
	assert_true(atomic_load(&twt_points) > 20);
}

/* --- threads that are canceled --- */

static void *wait_for_it(void *arg)
{
	(void)tow_op_wait(arg, TOW_FOREVER);
	return NULL;
}

/* Exchanges with the other side, which answers, until it is canceled. */
static void *exchange(void *unused)
{
	static _Thread_local uint64_t out, in; /* the message outlives the thread's stack frame */

	(void)unused;
	for (;;) {
		struct tow_op *op;

		TWT_OK(tow_recv_start(pair.peer[0], &in, sizeof(in), 8, NULL, &op));
		TWT_OK(tow_send_start(pair.peer[0], &out, sizeof(out), 7, NULL, NULL));
		TWT_OK(tow_op_wait(op, TOW_FOREVER));
		TWT_OK(tow_op_release(op));
		pthread_testcancel();
	}
}

static void *answer(void *unused)
{
	uint64_t word = 1;

	(void)unused;
	while (word != UINT64_MAX) {
		struct tow_op *op;

		TWT_OK(tow_recv_start(pair.peer[1], &word, sizeof(word), 7, NULL, &op));
		await(op);
		TWT_OK(tow_send_start(pair.peer[1], &word, sizeof(word), 8, NULL, NULL));
	}
	return NULL;
}

static void end_thread(pthread_t thread)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	if (pthread_timedjoin_np(thread, NULL, &until) != 0)
		fail_msg("%s: the canceled thread does not end", pair.lane->name);
}

/* Its operation ends after the request, and the wait with it. */
static void cancel_waiter(void)
{
	uint64_t word = 0, value = 1 + twt_random_below(&rng, 1000);
	struct tow_op *recv, *sent;
	pthread_t thread;

	TWT_OK(tow_recv_start(pair.peer[1], &word, sizeof(word), 6, NULL, &recv));
	assert_int_equal(pthread_create(&thread, NULL, wait_for_it, recv), 0);
	usleep((useconds_t)twt_random_below(&rng, 3000));
	pthread_cancel(thread);
	usleep((useconds_t)twt_random_below(&rng, 500));
	TWT_OK(tow_send_start(pair.peer[0], &value, sizeof(value), 6, NULL, &sent));
	await(sent);
	end_thread(thread);
	await(recv);
	assert_int_equal(word, value);
}

static void cancel_exchange(void)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, exchange, NULL), 0);
	usleep((useconds_t)twt_random_below(&rng, 5000));
	pthread_cancel(thread);
	end_thread(thread);
}

static void test_cancels(void **state)
{
	size_t way = (size_t)(uintptr_t)*state;
	uint64_t last = UINT64_MAX, word;
	pthread_t mate;
	struct tow_op *op;

	if (!open_pair(way))
		skip();
	assert_int_equal(pthread_create(&mate, NULL, answer, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		cancel_waiter();
		cancel_exchange();
	}
	TWT_OK(tow_recv_start(pair.peer[0], &word, sizeof(word), 8, NULL, &op));
	TWT_OK(tow_send_start(pair.peer[0], &last, sizeof(last), 7, NULL, NULL));
	await(op);
	assert_int_equal(word, UINT64_MAX);
	pthread_join(mate, NULL);
	close_pair();
}

int main(int argc, char **argv)
{
	static char names[2 * WAYS][64];
	struct CMUnitTest tests[2 * WAYS];

	rng = twt_seed();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	alarm(300);
	for (size_t i = 0; i < 2 * WAYS; i++) {
		const char *lane = twt_lane_rows[i / 2 < TWT_LANE_ROWS ? i / 2 : 0].name;
		const char *way = i / 2 == BY_EPOLL    ? " by epoll"
				  : i / 2 == ENCRYPTED ? ", encrypted"
						       : "";

		snprintf(names[i], sizeof(names[i]), "%s%s: %s", lane, way,
			 i % 2 == 0 ? "points" : "cancels");
		tests[i] = (struct CMUnitTest){ names[i], i % 2 == 0 ? test_points : test_cancels,
						NULL, NULL, (void *)(uintptr_t)(i / 2) };
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
