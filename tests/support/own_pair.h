/*
 * own_pair.h - one runtime that is connected to itself over tcp, twice, with zero-copy sends always
 * (so leases outlive their operations until the notification); what its counters say; and that all
 * memory comes back. Include it in exactly one file of a program.
 */
#ifndef TWT_OWN_PAIR_H
#define TWT_OWN_PAIR_H

#include "twt.h"

#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/endpoint.h"

#define SECOND 1000000000ull
#define MIB    ((uint64_t)1 << 20)
#define PAIRS  2

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_peer *from[PAIRS], *to[PAIRS];

#define OK(call)                                                                                   \
	do {                                                                                       \
		int ok_status = (call);                                                            \
		if (ok_status != TOW_OK) {                                                         \
			fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call,          \
				tow_status_name(ok_status), tow_error_message());                  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static inline int finish(struct tow_op *op, struct tow_result *out)
{
	struct tow_result result = { .size = sizeof(result) };
	int status = tow_op_wait(op, 20 * SECOND);

	if (status == TOW_ETIMEDOUT) {
		fprintf(stderr, "an operation does not end\n");
		abort();
	}
	OK(tow_op_result(op, &result));
	OK(tow_op_release(op));
	if (out != NULL)
		*out = result;
	return status;
}

static inline void join(struct tow_endpoint *here, struct tow_endpoint *there, int pair)
{
	struct tow_op *connect, *accept;
	char address[TOW_ADDRESS_MAX];
	struct tow_result result;

	OK(tow_endpoint_address(there, address, sizeof(address)));
	OK(tow_accept_start(there, NULL, &accept));
	OK(tow_connect_start(here, address, NULL, &connect));
	OK(finish(connect, &result));
	from[pair] = result.peer;
	OK(finish(accept, &result));
	to[pair] = result.peer;
}

static inline struct tow_options options_of(const char *exhaust)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 4 * MIB;
	options.staging_bytes = 0;
	options.stats = 0;
	options.max_ops = 1024;
	options.exhaust = exhaust;
	options.zerocopy = "always";
	return options;
}

static inline void open_with(const struct tow_options *options)
{
	struct tow_endpoint *here, *there;

	OK(tow_runtime_open(options, &runtime));
	engine = twi_runtime_engine(runtime);
	OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &here));
	OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &there));
	for (int i = 0; i < PAIRS; i++)
		join(here, there, i);
	OK(tow_runtime_seal(runtime));
}

static inline uint64_t counter(enum twi_counter id)
{
	return twi_counter_sum(engine->diag, id);
}

static inline struct twi_reason_sum reason(enum twi_reason id)
{
	struct twi_reason_sum sum;

	twi_reason_sum(engine->diag, id, &sum);
	return sum;
}

/* When all is freed, and the notifications have come, nothing is left. */
static inline void check_all_back(void)
{
	struct twi_pool_stats stats;

	for (int i = 0; i < 200; i++) {
		twi_pool_stats(engine->pool, &stats);
		if (stats.leased == 0 && stats.allocations == 0)
			break;
		tow_progress(runtime);
		usleep(10000);
	}
	assert_int_equal(stats.leased, 0);
	assert_int_equal(stats.deferred, 0);
	assert_int_equal(stats.overflow, 0);
	assert_int_equal(stats.allocations, 0);
	assert_int_equal(stats.allocated, 0);
	for (int i = 0; i < PAIRS; i++) {
		assert_int_equal(from[i]->claims.bytes, 0);
		assert_int_equal(to[i]->claims.bytes, 0);
	}
}

static inline void close_all(void)
{
	check_all_back();
	OK(tow_runtime_close(runtime));
}

static inline void fill(uint8_t *at, uint64_t bytes, uint64_t seed)
{
	for (uint64_t i = 0; i + 8 <= bytes; i += 8)
		*(uint64_t *)(void *)(at + i) = seed * 0x9e3779b97f4a7c15ull + i;
}

static inline void check(const uint8_t *at, uint64_t bytes, uint64_t seed)
{
	for (uint64_t i = 0; i + 8 <= bytes; i += 8)
		if (*(const uint64_t *)(const void *)(at + i) != seed * 0x9e3779b97f4a7c15ull + i) {
			fprintf(stderr, "byte %llu of message %llu is wrong\n",
				(unsigned long long)i, (unsigned long long)seed);
			abort();
		}
}

/* Sends of pool memory never need a copy, whatever extent it is in. */
static inline void check_no_copies(void)
{
	assert_int_equal(reason(TWI_R_pool_unpinned).count, 0);
	assert_int_equal(reason(TWI_R_unregistered_send).count, 0);
	assert_int_equal(reason(TWI_R_pool_exhausted).count, 0);
	assert_int_equal(counter(TWI_C_unregistered_sends), 0);
	assert_true(counter(TWI_C_fixed_sends) > 0);
}

#endif
