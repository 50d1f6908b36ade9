/*
 * test_rpc_usual.c - what of a call's time on the way was waiting at its server: a server that is
 * busy, a network that is slow, both, and what is usual.
 */
#include "twt.h"

#include "transport/rpc/rpc_usual.h"

#define US 1000ull
#define MS 1000000ull
#define S  1000000000ull

static struct twi_rpc_usual usual;
static uint64_t now_ns;

static int set_up(void **state)
{
	(void)state;
	usual = (struct twi_rpc_usual){ 0 };
	now_ns = 5 * S;
	return 0;
}

/* Without clocks. */
static uint64_t wait_of(uint64_t wire_ns, uint64_t unread_ns)
{
	const struct twi_rpc_way way = { .at_ns = now_ns += MS,
					 .bytes = 8,
					 .wire_ns = wire_ns,
					 .unread_ns = unread_ns,
					 .error_ns = UINT64_MAX };

	return twi_rpc_usual_wait(&usual, &way);
}

static uint64_t clocked_wait(uint64_t wire_ns, uint64_t unread_ns, int64_t request_ns,
			     uint64_t error_ns)
{
	const struct twi_rpc_way way = { .at_ns = now_ns += MS,
					 .bytes = 8,
					 .wire_ns = wire_ns,
					 .unread_ns = unread_ns,
					 .request_ns = request_ns,
					 .answer_ns = (int64_t)wire_ns - request_ns,
					 .error_ns = error_ns };

	return twi_rpc_usual_wait(&usual, &way);
}

static void test_busy_server(void **state)
{
	(void)state;
	assert_int_equal(wait_of(100 * US, 2 * US), 0);
	for (unsigned i = 1; i < 32; i++)
		assert_int_equal(wait_of(i * MS + 100 * US, i * MS + 20 * US), i * MS);
	/* what it cannot have waited is the network's */
	assert_int_equal(wait_of(9 * MS, 4 * MS), 4 * MS);
}

static void test_slow_network(void **state)
{
	(void)state;
	assert_int_equal(wait_of(100 * US, 2 * US), 0);
	assert_int_equal(wait_of(20 * MS, 3 * US), 3 * US);
	assert_int_equal(wait_of(20 * MS, 0), 0);
	assert_int_equal(wait_of(90 * US, 3 * US), 0);
}

/* The answer was late, and the request was not: the clocks tell. */
static void test_clocks(void **state)
{
	(void)state;
	assert_int_equal(clocked_wait(100 * US, 2 * US, 50 * (int64_t)US, 0), 0);
	assert_int_equal(clocked_wait(10 * MS, 8 * MS, 3 * (int64_t)MS, 0), 3 * MS - 50 * US);
	assert_int_equal(clocked_wait(10 * MS, 8 * MS, 40 * (int64_t)US, 0), 0);
	/* within their error nothing is claimed: it may be all of it */
	assert_int_equal(clocked_wait(10 * MS, 8 * MS, -9 * (int64_t)MS, 20 * MS), 8 * MS);
	/* without clocks this once */
	assert_int_equal(clocked_wait(10 * MS, 8 * MS, 0, UINT64_MAX), 8 * MS);
}

/* A server that is never idle does not make its queue usual, however long that goes on. */
static void test_never_idle(void **state)
{
	(void)state;
	assert_int_equal(wait_of(100 * US, 2 * US), 0);
	for (unsigned i = 0; i < 100; i++) {
		now_ns += 7 * S;
		assert_int_equal(wait_of(20 * MS, 25 * MS), 20 * MS - 100 * US);
	}
	/* nor if it never was: the smallest of all is what there is */
	set_up(NULL);
	assert_int_equal(wait_of(20 * MS, 25 * MS), 0);
	assert_int_equal(wait_of(30 * MS, 35 * MS), 10 * MS);
	assert_int_equal(wait_of(5 * MS, 35 * MS), 0);
	assert_int_equal(wait_of(30 * MS, 35 * MS), 25 * MS);
}

/* Each call finds the server in another's handler: its answer tells what the way takes. */
static void test_in_step(void **state)
{
	struct twi_rpc_way large = { .bytes = 64 << 10,
				     .wire_ns = 6 * MS,
				     .unread_ns = 8 * MS,
				     .request_ns = 6 * MS - 50 * US,
				     .answer_ns = 50 * US };

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		now_ns += 7 * S;
		assert_int_equal(clocked_wait(6 * MS, 8 * MS, 6 * MS - 50 * US, 0),
				 6 * MS - 100 * US);
	}
	/* as far as the clocks can tell; a large request may take longer than its answer */
	set_up(NULL);
	assert_int_equal(clocked_wait(6 * MS, 8 * MS, 6 * MS - 50 * US, 20 * US),
			 6 * MS - 140 * US);
	set_up(NULL);
	assert_int_equal(clocked_wait(6 * MS, 8 * MS, 6 * MS, MS), 4 * MS);
	large.at_ns = now_ns;
	assert_int_equal(twi_rpc_usual_wait(&usual, &large), 0);
}

/* The way has become longer: that is usual after a while, and not at once. */
static void test_other_route(void **state)
{
	(void)state;
	assert_int_equal(wait_of(1 * MS, 2 * US), 0);
	assert_int_equal(wait_of(6 * MS, 8 * MS), 5 * MS);
	now_ns += 10 * S;
	assert_int_equal(wait_of(5 * MS, 2 * US), 2 * US);
	assert_int_equal(wait_of(6 * MS, 8 * MS), 5 * MS);
	now_ns += 10 * S;
	assert_int_equal(wait_of(5 * MS, 2 * US), 0);
	assert_int_equal(wait_of(6 * MS, 8 * MS), 1 * MS);
}

/* What large calls take is not held against small ones, nor the other way round. */
static void test_sizes(void **state)
{
	struct twi_rpc_way large = {
		.bytes = 64 << 20, .wire_ns = 50 * MS, .at_ns = 6 * S, .error_ns = UINT64_MAX
	};

	(void)state;
	assert_int_equal(wait_of(100 * US, 2 * US), 0);
	assert_int_equal(twi_rpc_usual_wait(&usual, &large), 0);
	large.unread_ns = 50 * MS;
	large.wire_ns = 60 * MS;
	assert_int_equal(twi_rpc_usual_wait(&usual, &large), 10 * MS);
	assert_int_equal(wait_of(1100 * US, 5 * MS), MS);
}

static void test_any_numbers(void **state)
{
	uint64_t random = twt_seed();

	(void)state;
	for (unsigned i = 0; i < 200000; i++) {
		const struct twi_rpc_way way = {
			.at_ns = now_ns += twt_random_below(&random, 2 * S),
			.bytes = twt_random(&random) >> twt_random_below(&random, 64),
			.wire_ns = twt_random(&random) >> (1 + twt_random_below(&random, 63)),
			.unread_ns = twt_random(&random) >> twt_random_below(&random, 64),
			.request_ns = (int64_t)(twt_random(&random) >>
						(2 + twt_random_below(&random, 62))) -
				      (int64_t)(MS * twt_random_below(&random, 9)),
			.answer_ns = (int64_t)(twt_random(&random) >>
					       (2 + twt_random_below(&random, 62))) -
				     (int64_t)(MS * twt_random_below(&random, 9)),
			.error_ns = twt_random_below(&random, 3) == 0
					    ? UINT64_MAX
					    : twt_random_below(&random, 9 * MS),
		};
		uint64_t wait = twi_rpc_usual_wait(&usual, &way);

		assert_true(wait <= way.unread_ns && wait <= way.wire_ns);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_busy_server, set_up),
		cmocka_unit_test_setup(test_slow_network, set_up),
		cmocka_unit_test_setup(test_clocks, set_up),
		cmocka_unit_test_setup(test_never_idle, set_up),
		cmocka_unit_test_setup(test_in_step, set_up),
		cmocka_unit_test_setup(test_other_route, set_up),
		cmocka_unit_test_setup(test_sizes, set_up),
		cmocka_unit_test_setup(test_any_numbers, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
