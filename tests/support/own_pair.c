/* own_pair.c - one runtime that is connected to itself over tcp, twice. */
#include "own_pair.h"

struct twt_own twt_own;

static void join(struct tow_endpoint *here, struct tow_endpoint *there, int pair)
{
	struct tow_op *connect, *accept;
	char address[TOW_ADDRESS_MAX];
	struct tow_result result;

	TWT_OK(tow_endpoint_address(there, address, sizeof(address)));
	TWT_OK(tow_accept_start(there, NULL, &accept));
	TWT_OK(tow_connect_start(here, address, NULL, &connect));
	TWT_OK(twt_finish(connect, &result));
	twt_own.from[pair] = result.peer;
	TWT_OK(twt_finish(accept, &result));
	twt_own.to[pair] = result.peer;
}

struct tow_options twt_own_options(const char *exhaust)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 4 * TWT_MIB;
	options.staging_bytes = 0;
	options.stats = 0;
	options.max_ops = 1024;
	options.exhaust = exhaust;
	options.zerocopy = "always";
	return options;
}

void twt_own_open(const struct tow_options *options)
{
	struct tow_endpoint *here, *there;

	TWT_OK(tow_runtime_open(options, &twt_own.runtime));
	twt_own.engine = twi_runtime_engine(twt_own.runtime);
	TWT_OK(tow_endpoint_open(twt_own.runtime, "tcp://127.0.0.1:0", &here));
	TWT_OK(tow_endpoint_open(twt_own.runtime, "tcp://127.0.0.1:0", &there));
	for (int i = 0; i < TWT_OWN_PAIRS; i++)
		join(here, there, i);
	TWT_OK(tow_runtime_seal(twt_own.runtime));
}

uint64_t twt_own_counter(enum twi_counter id)
{
	return twi_counter_sum(twt_own.engine->diag, id);
}

struct twi_reason_sum twt_own_reason(enum twi_reason id)
{
	struct twi_reason_sum sum;

	twi_reason_sum(twt_own.engine->diag, id, &sum);
	return sum;
}

void twt_own_all_back(void)
{
	struct twi_pool_stats stats;

	for (int i = 0; i < 200; i++) {
		twi_pool_stats(twt_own.engine->pool, &stats);
		if (stats.leased == 0 && stats.allocations == 0)
			break;
		tow_progress(twt_own.runtime);
		usleep(10000);
	}
	assert_int_equal(stats.leased, 0);
	assert_int_equal(stats.deferred, 0);
	assert_int_equal(stats.overflow, 0);
	assert_int_equal(stats.allocations, 0);
	assert_int_equal(stats.allocated, 0);
	for (int i = 0; i < TWT_OWN_PAIRS; i++) {
		assert_int_equal(twt_own.from[i]->claims.bytes, 0);
		assert_int_equal(twt_own.to[i]->claims.bytes, 0);
	}
}

void twt_own_close(void)
{
	twt_own_all_back();
	TWT_OK(tow_runtime_close(twt_own.runtime));
}

void twt_own_check(const uint8_t *at, uint64_t bytes, uint64_t seed)
{
	if (twt_check(at, bytes, seed) != 0) {
		fprintf(stderr, "message %llu is wrong\n", (unsigned long long)seed);
		abort();
	}
}

void twt_own_no_copies(void)
{
	assert_int_equal(twt_own_reason(TWI_R_pool_unpinned).count, 0);
	assert_int_equal(twt_own_reason(TWI_R_unregistered_send).count, 0);
	assert_int_equal(twt_own_reason(TWI_R_pool_exhausted).count, 0);
	assert_int_equal(twt_own_counter(TWI_C_unregistered_sends), 0);
	assert_true(twt_own_counter(TWI_C_fixed_sends) > 0);
}
