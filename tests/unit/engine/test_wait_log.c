/*
 * test_wait_log.c - for how long a thread was blocked: of which thread, since when, for what and
 * for whom; and what peers' messages took on the wire.
 */
#include <string.h>

#include "twt.h"

#include "transport/engine/carried.h"
#include "transport/engine/step.h"
#include "transport/engine/wait_log.h"

#define MS     1000000ull
#define S      (1000 * MS)
#define THREAD 7

static struct twi_wait_log log_;
static struct twi_step step;
static struct twi_rank_state told;
static char peers[TWI_WAIT_LOG_PEERS + 4];

static uint32_t rank_of(const void *arg, const void *peer)
{
	(void)arg;
	return (uint32_t)((const char *)peer - peers);
}

static void tell(uint64_t now_ns, uint64_t open_ns)
{
	const struct twi_wait_log_ask ask = { .now_ns = now_ns,
					      .open_ns = open_ns,
					      .open_kind = TWI_WAITED_COLL,
					      .step = &step,
					      .rank_of = rank_of };

	told = (struct twi_rank_state){ 0 };
	twi_wait_log_tell(&log_, &ask, &told);
}

static int begin(void **state)
{
	(void)state;
	memset(&log_, 0, sizeof(log_));
	memset(&step, 0, sizeof(step));
	return 0;
}

static void test_nothing(void **state)
{
	(void)state;
	twi_wait_log_note(&log_, THREAD, TWI_WAITED_SEND, &peers[0], S); /* it is not followed */
	tell(10 * S, 0);
	assert_int_equal(told.lately.window_ns, 0);
	twi_wait_log_mark(&log_, THREAD, &step, 10 * S);
	twi_wait_log_note(&log_, THREAD + 1, TWI_WAITED_SEND, &peers[0], S); /* nor is that */
	twi_wait_log_note(&log_, THREAD, TWI_WAITED_SEND, &peers[0], TWI_WAIT_LOG_LEAST - 1);
	tell(11 * S, 0);
	assert_int_equal(told.lately.window_ns, S);
	assert_int_equal(told.lately.ns[TWI_WAITED_SEND], 0);
	assert_int_equal(told.lately.waits, 0);
}

/* A second of each two is waited, by turns for two things; from 20 s on all of it. */
static void test_windows(void **state)
{
	(void)state;
	for (uint64_t s = 1; s <= 30; s++) {
		twi_wait_log_mark(&log_, THREAD, &step, s * S);
		twi_step_took(&step, 900 * MS);
		if (s >= 20)
			twi_wait_log_note(&log_, THREAD, TWI_WAITED_COLL, NULL, 1000 * MS);
		else if (s % 2 == 0)
			twi_wait_log_note(&log_, THREAD, TWI_WAITED_RECV, &peers[3], 1000 * MS);
	}
	tell(31 * S, 0);
	/* Since 29 s, and since the oldest mark that there is, of 19 s. */
	assert_int_equal(told.lately.window_ns, 2 * S);
	assert_int_equal(told.lately.ns[TWI_WAITED_COLL], 2 * S);
	assert_int_equal(told.lately.ns[TWI_WAITED_RECV], 0);
	assert_int_equal(told.lately.steps, 2);
	assert_int_equal(told.lately.step_ns, 1800 * MS);
	assert_int_equal(told.longer.window_ns, 12 * S);
	assert_int_equal(told.longer.ns[TWI_WAITED_COLL], 11 * S);
	assert_int_equal(told.longer.waits, 11);
	assert_int_equal(told.longer.awaited_count, 0);
	/* One that is under way counts, for no longer than the window. */
	tell(31 * S, 500 * MS);
	assert_int_equal(told.lately.ns[TWI_WAITED_COLL], 2 * S + 500 * MS);
	tell(31 * S, 100 * S);
	assert_int_equal(told.lately.ns[TWI_WAITED_COLL], 4 * S);
}

/* More peers than have a row: those that are waited for most come first. */
static void test_peers(void **state)
{
	(void)state;
	twi_wait_log_mark(&log_, THREAD, &step, S);
	for (uint32_t i = 0; i < TWI_WAIT_LOG_PEERS + 4; i++)
		twi_wait_log_note(&log_, THREAD, TWI_WAITED_RECV, &peers[i], (i + 1) * MS);
	tell(2 * S, 0);
	assert_int_equal(told.longer.awaited_count, TWI_STATE_AWAITED);
	for (uint32_t i = 0; i < TWI_STATE_AWAITED; i++) {
		assert_int_equal(told.longer.awaited[i].rank, TWI_WAIT_LOG_PEERS - 1 - i);
		assert_int_equal(told.longer.awaited[i].ns, (TWI_WAIT_LOG_PEERS - i) * MS);
	}
	/* Who is waited for no more gives its row to another. */
	for (uint64_t s = 2; s < 20; s++) {
		twi_wait_log_mark(&log_, THREAD, &step, s * S);
		twi_wait_log_note(&log_, THREAD, TWI_WAITED_RECV, &peers[TWI_WAIT_LOG_PEERS + 2],
				  10 * MS);
	}
	tell(20 * S, 0);
	assert_int_equal(told.lately.awaited[0].rank, TWI_WAIT_LOG_PEERS + 2);
}

static void test_carried(void **state)
{
	struct twi_carried carried = { 0 };
	struct twi_state_carried some;

	(void)state;
	assert_int_equal(twi_carried_tell(&carried, 5 * S).window_ms, 0);
	for (uint64_t ms = 3000; ms < 13000; ms += 100)
		twi_carried_note(&carried, ms * MS, 10, ms < 8000 ? 5 : 50);
	some = twi_carried_tell(&carried, 13 * S);
	/* Marks at 3, 5, 7, 9 and 11 s: since 9 s. */
	assert_int_equal(some.window_ms, 4000);
	assert_int_equal(some.messages, 40);
	assert_int_equal(some.bytes, 400);
	assert_int_equal(some.wire_ns, 2000);
	assert_int_equal(twi_carried_tell(&carried, S).window_ms, 0); /* a clock that is behind */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_nothing, begin),
		cmocka_unit_test_setup(test_windows, begin),
		cmocka_unit_test_setup(test_peers, begin),
		cmocka_unit_test(test_carried),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
