/*
 * test_small_stack.c - threads with small stacks call the library: 64 KiB serve for messages over
 * every lane, from the opening to the close, and 256 KiB for documents and traces
 * (docs/embedding.md, "Stacks").
 */
#include "twt.h"

#include <pthread.h>
#include <unistd.h>

#include "child.h"
#include "lane_pair.h"

#define CALLS_BYTES  (64u << 10)
#define REPORT_BYTES (256u << 10)
#define LARGE        300000u
#define LIMIT_S      60

struct work {
	const struct twt_lane_row *lane;
	bool there;
};

static struct twt_lane_pair pair;

static void send_one(unsigned from, uint64_t bytes)
{
	void *out = NULL, *in = NULL;
	struct tow_op *send, *recv;

	TWT_OK(tow_alloc(pair.runtime[from], bytes, 0, &out));
	TWT_OK(tow_alloc(pair.runtime[1 - from], bytes, 0, &in));
	twt_fill(out, bytes, bytes);
	TWT_OK(tow_recv_start(pair.peer[1 - from], in, bytes, 1, NULL, &recv));
	TWT_OK(tow_send_start(pair.peer[from], out, bytes, 1, NULL, &send));
	if (twt_lane_finish(&pair, recv).status < 0 || twt_lane_finish(&pair, send).status < 0)
		abort();
	TWT_OK(twt_check(in, bytes, bytes));
	TWT_OK(tow_free(pair.runtime[from], out));
	TWT_OK(tow_free(pair.runtime[1 - from], in));
}

static void *pass_messages(void *arg)
{
	struct work *work = arg;

	twt_lane_init(&pair, work->lane);
	work->there = twt_lane_open(&pair);
	if (!work->there)
		return NULL;
	twt_lane_join(&pair);
	for (unsigned i = 0; i < 2; i++) {
		send_one(i, 1);
		send_one(i, LARGE);
	}
	twt_lane_close(&pair);
	return NULL;
}

static void *take_reports(void *arg)
{
	static const char *const paths[] = { "/v1/info",  "/metrics", "/v1/latency", "/v1/pool",
					     "/v1/peers", "/v1/coll", "/v1/flight" };
	struct work *work = arg;
	struct tow_trace *trace;

	twt_lane_init(&pair, work->lane);
	work->there = twt_lane_open(&pair);
	if (!work->there)
		return NULL;
	twt_lane_join(&pair);
	TWT_OK(tow_trace_begin(pair.runtime[0]));
	send_one(0, LARGE);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		char *text;

		TWT_OK(tow_stats_get(pair.runtime[0], paths[i], &text));
		tow_stats_release(text);
	}
	TWT_OK(tow_trace_end(pair.runtime[0], &trace));
	for (int format = TOW_TRACE_XSPACE; format <= TOW_TRACE_JSON; format++) {
		void *bytes;
		size_t count;
		int status = tow_trace_encode(trace, (enum tow_trace_format)format, &bytes, &count);

		if (status == TOW_ENOTSUP)
			continue;
		TWT_OK(status);
		tow_trace_bytes_release(bytes);
	}
	tow_trace_release(trace);
	twt_lane_close(&pair);
	return NULL;
}

struct turn {
	const struct twt_lane_row *lane;
	size_t stack;
	void *(*run)(void *);
};

/* A thread that needs more ends the child. */
static int play_turn(const void *arg)
{
	const struct turn *turn = arg;
	struct work work = { .lane = turn->lane };
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	if (pthread_attr_setstacksize(&attr, turn->stack) != 0 ||
	    pthread_create(&thread, &attr, turn->run, &work) != 0 ||
	    pthread_join(thread, NULL) != 0)
		return 1;
	return work.there ? 0 : TWT_CHILD_ABSENT;
}

static bool play(const struct twt_lane_row *lane, size_t stack, void *(*run)(void *))
{
	const struct turn turn = { lane, stack, run };
	char name[64];

	snprintf(name, sizeof(name), "%s in %zu bytes", lane->name, stack);
	return twt_child_plays(name, LIMIT_S, play_turn, &turn);
}

static void small_stacks(void **state)
{
	unsigned played = 0;

	(void)state;
	for (unsigned i = 0; i < TWT_LANE_ROWS; i++) {
		played += play(&twt_lane_rows[i], CALLS_BYTES, pass_messages);
		played += play(&twt_lane_rows[i], REPORT_BYTES, take_reports);
	}
	assert_in_range(played, 2 * TWT_LANE_ROWS_ALWAYS, 2 * TWT_LANE_ROWS);
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(small_stacks) };

#ifdef TWT_SANITIZED
	printf("left out: with a sanitizer each function takes more of the stack\n");
	return 77;
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
