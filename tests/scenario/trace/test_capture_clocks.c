/*
 * test_capture_clocks.c - where the clocks of two ranks may differ, they are compared at both ends
 * of a capture, and not where they are one.
 *
 * That they may differ is said to a runtime before it meets the other: a time namespace of its own.
 */
#include "must.h"
#include "twt.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/towline.h>
#include <towline/trace.h>

#include "store_port.h"

#include "diag/base/clock.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/rpc/rpc_link.h"

#define LIMIT_S 60

struct rank {
	uint32_t number;
	bool apart; /* the clocks may differ */
	struct tow_runtime *runtime;
};

static _Atomic bool *over; /* shared by both */

/* Of the connection to the other rank; 0 while there are two, as both have begun one. */
static uint64_t exchanges(struct tow_runtime *runtime)
{
	json_t *root, *peers, *clock;
	uint64_t count = 0;
	char *text;

	TWT_MUST(tow_stats_get(runtime, "/v1/peers", &text) == TOW_OK);
	root = json_loads(text, 0, NULL);
	tow_stats_release(text);
	peers = json_object_get(root, "peers");
	clock = json_object_get(json_array_get(peers, 0), "clock");
	if (json_array_size(peers) == 1)
		count = (uint64_t)json_integer_value(json_object_get(clock, "exchanges"));
	json_decref(root);
	return count;
}

/* Waits until there are so many; how many there are. */
static uint64_t await_exchanges(struct tow_runtime *runtime, uint64_t least)
{
	uint64_t now = exchanges(runtime);

	for (int i = 0; i < 1500 && now < least; i++) {
		usleep(10000);
		now = exchanges(runtime);
	}
	return now;
}

/*
 * Of itself a rank makes TWI_LINK_BURST exchanges, one more after a second, and the next after ten:
 * within the time between, what is more is a capture's.
 */
static void *capture_one(void *arg)
{
	struct rank *rank = arg;
	bool asks = rank->apart && rank->number != 0;
	uint64_t before, begun, after, began_ns, more = asks ? TWI_LINK_BURST : 0;
	struct tow_trace *trace;

	await_exchanges(rank->runtime, TWI_LINK_BURST + 1);
	began_ns = twi_now_ns();
	before = exchanges(rank->runtime);
	TWT_MUST(tow_trace_begin(rank->runtime) == TOW_OK);
	usleep(200000);
	begun = await_exchanges(rank->runtime, before + more);
	TWT_MUST(begun >= before + more);
	TWT_MUST(tow_trace_end(rank->runtime, &trace) == TOW_OK);
	tow_trace_release(trace);
	after = await_exchanges(rank->runtime, begun + more);
	TWT_MUST(after >= begun + more);
	/* On a machine that stood still for long the next one of itself may be among them. */
	TWT_MUST(after == before + 2 * more || twi_now_ns() - began_ns > TWI_LINK_EVERY_NS / 2);
	atomic_store(over, true);
	return NULL;
}

static void play(uint32_t number, uint32_t captures, bool apart, const char *store)
{
	struct tow_group_options where = TOW_GROUP_OPTIONS_INIT;
	struct tow_options options = TOW_OPTIONS_INIT;
	struct rank rank = { .number = number, .apart = apart };
	struct tow_group *group;
	uint32_t sum, end = 0;
	pthread_t thread;

	alarm(LIMIT_S);
	options.premap_memory_bytes = 8 << 20;
	options.stats = 0;
	TWT_MUST(tow_runtime_open(&options, &rank.runtime) == TOW_OK);
	if (apart)
		twi_runtime_engine(rank.runtime)->self.time_namespace += 1 + number;
	where.rank = number;
	where.world_size = 2;
	where.store = store;
	where.address = "tcp://127.0.0.1:0";
	TWT_MUST(tow_group_open(rank.runtime, &where, &group) == TOW_OK);
	if (number == captures)
		TWT_MUST(pthread_create(&thread, NULL, capture_one, &rank) == 0);
	while (end == 0) { /* both see the end in the same round */
		struct tow_op *op;

		sum = atomic_load(over) ? 1 : 0;
		TWT_MUST(tow_coll_all_reduce_start(group, &sum, &end, 1, TOW_U32, TOW_MAX, NULL,
						   &op) == TOW_OK);
		TWT_MUST(tow_op_wait(op, TOW_FOREVER) == TOW_OK);
		tow_op_release(op);
		usleep(1000);
	}
	if (number == captures)
		TWT_MUST(pthread_join(thread, NULL) == 0);
	TWT_MUST(tow_group_close(group) == TOW_OK);
	TWT_MUST(tow_runtime_close(rank.runtime) == TOW_OK);
	exit(0); /* not _exit: leaks are looked for at exit */
}

static void play_both(uint32_t captures, bool apart)
{
	char store[64];
	int port = twt_store_port(store, sizeof(store)), how;
	pid_t pids[2];

	atomic_store(over, false);
	fflush(NULL);
	for (uint32_t i = 0; i < 2; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			play(i, captures, apart, store);
	}
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(waitpid(pids[i], &how, 0), pids[i]);
		assert_int_equal(how, 0);
	}
	close(port);
}

static void both_ends_are_compared(void **state)
{
	(void)state;
	play_both(1, true);
}

static void rank_0_has_the_clock(void **state)
{
	(void)state;
	play_both(0, true);
}

static void one_clock_is_not_compared(void **state)
{
	(void)state;
	play_both(1, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_are_compared),
		cmocka_unit_test(rank_0_has_the_clock),
		cmocka_unit_test(one_clock_is_not_compared),
	};

	over = mmap(NULL, sizeof(*over), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (over == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
