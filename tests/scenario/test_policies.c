/*
 * test_policies.c - what a full pool does while several threads allocate, send, receive and free;
 * what a slow peer may hold back; when memory in flight comes back.
 *
 * One runtime, connected to itself over tcp, with zero-copy sends always: so leases outlive their
 * operations until the notification.
 */
#include "twt.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "diag/counter.h"
#include "diag/diag.h"
#include "memreg/pool.h"
#include "transport/endpoint.h"
#include "transport/engine.h"
#include "transport/runtime.h"
#include "transport/uring/ring.h"

#define SECOND  1000000000ull
#define MIB     ((uint64_t)1 << 20)
#define THREADS 5
#define HELD    12
#define ROUNDS  250
#define PAIRS   2

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

static int finish(struct tow_op *op, struct tow_result *out)
{
	struct tow_result result = { .size = sizeof(result) };
	int status = tow_op_wait(op, 20 * SECOND);

	if (status == TOW_AGAIN) {
		fprintf(stderr, "an operation does not end\n");
		abort();
	}
	OK(tow_op_result(op, &result));
	OK(tow_op_release(op));
	if (out != NULL)
		*out = result;
	return status;
}

static void join(struct tow_endpoint *here, struct tow_endpoint *there, int pair)
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

static struct tow_options options_of(const char *exhaust)
{
	struct tow_options options = TOW_OPTIONS_DEFAULT;

	options.premap_memory_bytes = 4 * MIB;
	options.staging_bytes = 0;
	options.stats = 0;
	options.max_ops = 1024;
	options.exhaust = exhaust;
	options.zerocopy = "always";
	return options;
}

static void open_with(const struct tow_options *options)
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

static uint64_t counter(enum twi_counter id)
{
	return twi_counter_sum(engine->diag, id);
}

static struct twi_reason_sum reason(enum twi_reason id)
{
	struct twi_reason_sum sum;

	twi_reason_sum(engine->diag, id, &sum);
	return sum;
}

/* When all is freed, and the notifications have come, nothing is left. */
static void check_all_back(void)
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

static void close_all(void)
{
	check_all_back();
	OK(tow_runtime_close(runtime));
}

struct worker {
	pthread_t thread;
	uint64_t tag, random;
	void *held[HELD];
	uint64_t full; /* allocations that found no room */
};

static void fill(uint8_t *at, uint64_t bytes, uint64_t seed)
{
	for (uint64_t i = 0; i + 8 <= bytes; i += 8)
		*(uint64_t *)(void *)(at + i) = seed * 0x9e3779b97f4a7c15ull + i;
}

static void check(const uint8_t *at, uint64_t bytes, uint64_t seed)
{
	for (uint64_t i = 0; i + 8 <= bytes; i += 8)
		if (*(const uint64_t *)(const void *)(at + i) != seed * 0x9e3779b97f4a7c15ull + i) {
			fprintf(stderr, "byte %llu of message %llu is wrong\n",
				(unsigned long long)i, (unsigned long long)seed);
			abort();
		}
}

/* An allocation, giving back what this thread holds until there is room. */
static uint8_t *take(struct worker *worker, uint64_t bytes)
{
	void *memory;
	int status;

	for (int i = 0;; i++) {
		status = tow_alloc(runtime, bytes, 0, &memory);
		if (status != TOW_EEXHAUSTED)
			break;
		worker->full++;
		OK(tow_free(runtime, worker->held[i % HELD]));
		worker->held[i % HELD] = NULL;
		if (i >= HELD) /* others hold the rest: theirs comes back */
			tow_progress(runtime);
		if (i > 1000000) {
			fprintf(stderr, "no room, for ever\n");
			abort();
		}
	}
	OK(status);
	return memory;
}

/* A message from this thread to itself; the sender frees while it is on its way. */
static void exchange(struct worker *worker, uint64_t seed)
{
	uint64_t bytes = 8 * (1 + twt_random_below(&worker->random, 40000));
	unsigned pair = (unsigned)twt_random_below(&worker->random, PAIRS);
	uint8_t *out = take(worker, bytes), *in = take(worker, bytes);
	struct tow_op *send, *recv;
	struct tow_result result;
	int status;

	fill(out, bytes, seed);
	OK(tow_recv_start(to[pair], in, bytes, worker->tag, NULL, &recv));
	while ((status = tow_send_start(from[pair], out, bytes, worker->tag, NULL, &send)) ==
	       TOW_EBUSY)
		tow_progress(runtime);
	OK(status);
	OK(tow_free(runtime, out));
	OK(finish(recv, &result));
	assert_int_equal(result.bytes, bytes);
	check(in, bytes, seed);
	OK(finish(send, NULL));
	OK(tow_free(runtime, in));
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		unsigned at = (unsigned)twt_random_below(&worker->random, HELD);

		OK(tow_free(runtime, worker->held[at]));
		worker->held[at] = NULL;
		worker->held[at] = take(worker, 1 + twt_random_below(&worker->random, MIB / 4));
		exchange(worker, worker->tag << 32 | i);
	}
	for (int i = 0; i < HELD; i++)
		OK(tow_free(runtime, worker->held[i]));
	return NULL;
}

/* All threads at once; returns how often they found no room. */
static uint64_t load(void)
{
	struct worker workers[THREADS] = { 0 };
	uint64_t full = 0, random = twt_seed();

	for (uint64_t i = 0; i < THREADS; i++) {
		workers[i].tag = i;
		workers[i].random = twt_random(&random);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		full += workers[i].full;
	}
	assert_true(counter(TWI_C_pool_exhausted) > 0);
	assert_true(counter(TWI_C_deferred_frees) > 0);
	return full;
}

/* Sends of pool memory never need a copy, whatever extent it is in. */
static void check_no_copies(void)
{
	assert_int_equal(reason(TWI_R_pool_unpinned).count, 0);
	assert_int_equal(reason(TWI_R_unregistered_send).count, 0);
	assert_int_equal(reason(TWI_R_pool_exhausted).count, 0);
	assert_int_equal(counter(TWI_C_unregistered_sends), 0);
	assert_true(counter(TWI_C_fixed_sends) > 0);
}

static void test_grow(void **state)
{
	struct tow_options options = options_of("grow");
	struct twi_pool_stats stats;
	uint64_t extents;

	(void)state;
	options.premap_limit_bytes = 10 * MIB;
	open_with(&options);
	load();
	twi_pool_stats(engine->pool, &stats);
	extents = atomic_load(&((struct twi_extent_table *)(void *)engine->pool)->count);
	assert_true(extents > 1 && stats.mapped <= 10 * MIB);
	assert_int_equal(counter(TWI_C_pool_grown), extents - 1);
	assert_int_equal(reason(TWI_R_late_extent).count, extents - 1);
	assert_int_equal(reason(TWI_R_late_extent).bytes, stats.mapped - 4 * MIB);
	assert_int_equal(counter(TWI_C_pool_grown_bytes), stats.grown);
	assert_int_equal(counter(TWI_C_pool_overflow_allocs), 0);
	check_no_copies();
	close_all();
}

static void test_copy(void **state)
{
	struct tow_options options = options_of("copy");
	struct twi_pool_stats stats;

	(void)state;
	options.premap_limit_bytes = 6 * MIB;
	open_with(&options);
	load();
	twi_pool_stats(engine->pool, &stats);
	assert_int_equal(stats.mapped, 4 * MIB);
	assert_true(stats.overflow_peak > 0 && stats.overflow_peak <= 2 * MIB);
	assert_true(counter(TWI_C_pool_overflow_allocs) > 0);
	assert_int_equal(counter(TWI_C_pool_grown), 0);
	assert_true(reason(TWI_R_pool_exhausted).bytes > 0);
	assert_int_equal(reason(TWI_R_pool_unpinned).count, 0);
	assert_int_equal(reason(TWI_R_unregistered_send).count, 0);
	close_all();
}

static void test_wait(void **state)
{
	struct tow_options options = options_of("wait");
	uint64_t full;

	(void)state;
	options.exhaust_wait_ns = 2000000;
	open_with(&options);
	full = load();
	assert_true(counter(TWI_C_pool_waits) > 0);
	assert_int_equal(counter(TWI_C_pool_wait_timeouts), full);
	assert_true(counter(TWI_C_pool_wait_ns) >= full * 2000000);
	assert_int_equal(counter(TWI_C_pool_exhausted), counter(TWI_C_pool_waits));
	check_no_copies();
	close_all();
}

static void test_fail(void **state)
{
	struct tow_options options = options_of("fail");
	struct twi_pool_stats stats;
	uint64_t full;

	(void)state;
	open_with(&options);
	full = load();
	assert_int_equal(counter(TWI_C_pool_exhausted), full);
	twi_pool_stats(engine->pool, &stats);
	assert_int_equal(stats.exhausted, full);
	assert_true(stats.recommended > 4 * MIB);
	assert_int_equal(stats.mapped, 4 * MIB);
	check_no_copies();
	close_all();
}

/* Strict: nothing is degraded, whatever the policy; grow and copy say that they would have. */
static void test_strict(void **state)
{
	static const char *const policies[] = { "grow", "copy", "wait", "fail" };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct tow_options options = options_of(policies[i]);
		uint64_t full;

		options.require_zero_copy = 1;
		options.exhaust_wait_ns = 1000000;
		open_with(&options);
		full = load();
		assert_int_equal(counter(TWI_C_zero_copy_refusals), i < 2 ? full : 0);
		assert_int_equal(counter(TWI_C_pool_overflow_allocs), 0);
		assert_int_equal(counter(TWI_C_pool_grown), 0);
		assert_int_equal(counter(TWI_C_late_registrations),
				 reason(TWI_R_late_registrar).count);
		check_no_copies();
		close_all();
	}
}

static uint64_t fill_pool(void **memory, uint64_t most, uint64_t bytes)
{
	uint64_t count = 0;

	while (count < most && tow_alloc(runtime, bytes, 0, &memory[count]) == TOW_OK)
		count++;
	return count;
}

static void send_zerocopy(uint8_t *out, uint64_t bytes)
{
	uint64_t before = counter(TWI_C_fixed_sends), asked = counter(TWI_C_zerocopy_send_bytes);
	uint8_t *in = malloc(bytes);
	struct tow_op *send, *recv;

	fill(out, bytes, 1);
	OK(tow_recv_start(to[0], in, bytes, 1, NULL, &recv));
	OK(tow_send_start(from[0], out, bytes, 1, NULL, &send));
	OK(finish(send, NULL));
	OK(finish(recv, NULL));
	check(in, bytes, 1);
	free(in);
	assert_true(counter(TWI_C_fixed_sends) > before);
	assert_true(counter(TWI_C_zerocopy_send_bytes) - asked >= bytes);
}

static pthread_barrier_t ready, grown;

static void *drive_before_and_after(void *arg)
{
	tow_progress(runtime); /* this thread's ring is older than the extent */
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&grown);
	send_zerocopy(arg, MIB);
	return NULL;
}

/* What has been grown by is sent as the rest is, also by threads that drove before it was there. */
static void test_grown_is_registered(void **state)
{
	struct tow_options options = options_of("grow");
	const struct twi_extent *extent;
	void *memory[16];
	pthread_t thread;
	uint64_t count;

	(void)state;
	options.premap_limit_bytes = 32 * MIB;
	open_with(&options);
	pthread_barrier_init(&ready, NULL, 2);
	pthread_barrier_init(&grown, NULL, 2);
	count = fill_pool(memory, 3, MIB);
	OK(tow_alloc(runtime, 2 * MIB, 0, &memory[count++]));
	extent = twi_pool_find(engine->pool, memory[count - 1], 2 * MIB);
	assert_non_null(extent);
	assert_int_equal(extent->slot, 1);
	assert_int_equal(pthread_create(&thread, NULL, drive_before_and_after, memory[count - 1]),
			 0);
	pthread_barrier_wait(&ready);
	OK(tow_alloc(runtime, 5 * MIB, 0, &memory[count++]));
	extent = twi_pool_find(engine->pool, memory[count - 1], 5 * MIB);
	assert_non_null(extent);
	assert_int_equal(extent->slot, 2);
	send_zerocopy(memory[count - 1], 5 * MIB);
	pthread_barrier_wait(&grown);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < TWI_RINGS_MAX; i++)
		assert_true(engine->rings[i] == NULL ||
			    twi_ring_has(engine->rings[i], &extent->region));
	check_no_copies();
	for (uint64_t i = 0; i < count; i++)
		OK(tow_free(runtime, memory[i]));
	pthread_barrier_destroy(&ready);
	pthread_barrier_destroy(&grown);
	close_all();
}

static void *free_soon(void *arg)
{
	usleep(30000);
	OK(tow_free(runtime, arg));
	return NULL;
}

/* Waits for another thread's free; for a lease that this thread must end itself; in vain. */
static void test_wait_for(void **state)
{
	struct tow_options options = options_of("wait");
	struct tow_op *send, *recv;
	uint8_t *in = malloc(MIB);
	void *memory[8], *more;
	pthread_t thread;
	uint64_t count;

	(void)state;
	options.exhaust_wait_ns = 5 * SECOND;
	open_with(&options);
	count = fill_pool(memory, 3, MIB);
	OK(tow_alloc(runtime, MIB / 2, 0, &memory[count++]));
	assert_int_equal(pthread_create(&thread, NULL, free_soon, memory[0]), 0);
	OK(tow_alloc(runtime, MIB, 0, &more));
	pthread_join(thread, NULL);
	assert_int_equal(counter(TWI_C_pool_waits), 1);
	memory[0] = more;
	fill(more, MIB, 3);
	OK(tow_recv_start(to[0], in, MIB, 1, NULL, &recv));
	OK(tow_send_start(from[0], more, MIB, 1, NULL, &send));
	OK(tow_free(runtime, more));
	/* nobody else drives: the room comes because this call does */
	OK(tow_alloc(runtime, MIB, 0, &memory[0]));
	memset(memory[0], 0xee, MIB);
	OK(finish(recv, NULL));
	OK(finish(send, NULL));
	check(in, MIB, 3);
	assert_int_equal(counter(TWI_C_pool_waits), 2);
	assert_int_equal(counter(TWI_C_pool_wait_timeouts), 0);
	engine->knobs.exhaust_wait_ns = 3000000;
	assert_int_equal(tow_alloc(runtime, MIB, 0, &more), TOW_EEXHAUSTED);
	assert_null(more);
	assert_int_equal(counter(TWI_C_pool_wait_timeouts), 1);
	for (uint64_t i = 0; i < count; i++)
		OK(tow_free(runtime, memory[i]));
	free(in);
	close_all();
}

static int status_in_callback;

static void alloc_in_callback(struct tow_op *op, const struct tow_result *result)
{
	void *memory;

	(void)op, (void)result;
	status_in_callback = tow_alloc(runtime, 3 * MIB, 0, &memory);
}

/* A callback holds the engine: it gets its answer at once. */
static void test_no_wait_in_callback(void **state)
{
	struct tow_op_options with_callback = TOW_OP_OPTIONS_DEFAULT;
	struct tow_options options = options_of("wait");
	struct tow_op *send, *recv;
	void *memory, *word;

	(void)state;
	options.exhaust_wait_ns = 5 * SECOND;
	open_with(&options);
	OK(tow_alloc(runtime, 3 * MIB, 0, &memory));
	OK(tow_alloc(runtime, 64, 0, &word));
	with_callback.done = alloc_in_callback;
	status_in_callback = TOW_OK;
	OK(tow_recv_start(to[0], word, 8, 1, &with_callback, &recv));
	OK(tow_send_start(from[0], memory, 8, 1, NULL, &send));
	OK(finish(recv, NULL));
	OK(finish(send, NULL));
	assert_int_equal(status_in_callback, TOW_EEXHAUSTED);
	assert_int_equal(counter(TWI_C_pool_waits), 0);
	OK(tow_free(runtime, memory));
	OK(tow_free(runtime, word));
	close_all();
}

/* A member of a peer of /v1/peers. */
static uint64_t peer_member(const struct tow_peer *peer, const char *name)
{
	json_t *root, *one;
	uint64_t value = UINT64_MAX;
	json_error_t error;
	size_t i;
	char *text;

	OK(tow_stats_get(runtime, "/v1/peers", &text));
	root = json_loads(text, 0, &error);
	tow_stats_release(text);
	assert_non_null(root);
	json_array_foreach(json_object_get(root, "peers"), i,
			   one) if ((uint64_t)json_integer_value(json_object_get(one, "id")) ==
				    peer->id) value =
		(uint64_t)json_integer_value(json_object_get(one, name));
	json_decref(root);
	return value;
}

#define SLOW_BYTES (64u << 10)
#define SLOW_CAP   (512u << 10)

/* Sends and frees until the peer holds back too much; returns how many went. */
static int send_till_busy(struct tow_op **ops, int most)
{
	for (int i = 0; i < most; i++) {
		void *memory;
		int status;

		OK(tow_alloc(runtime, SLOW_BYTES, 0, &memory));
		fill(memory, SLOW_BYTES, (uint64_t)i);
		status = tow_send_start(from[0], memory, SLOW_BYTES, 7, NULL, &ops[i]);
		OK(tow_free(runtime, memory));
		if (status == TOW_EBUSY)
			return i;
		OK(status);
	}
	return most;
}

static void test_slow_peer(void **state)
{
	struct tow_options options = options_of("fail");
	uint8_t *in = malloc(SLOW_BYTES);
	struct twi_pool_stats stats;
	struct tow_op *ops[64], *recv;
	int sent;

	(void)state;
	options.peer_lease_bytes = SLOW_CAP;
	open_with(&options);
	sent = send_till_busy(ops, 64);
	/* the first that finds more than the cap held back is refused */
	assert_int_equal(sent, SLOW_CAP / SLOW_BYTES + 1);
	assert_non_null(strstr(tow_error_message(), "peer_lease_bytes"));
	assert_int_equal(counter(TWI_C_peer_lease_refusals), 1);
	assert_int_equal(peer_member(from[0], "leased_bytes"), sent * SLOW_BYTES);
	assert_int_equal(peer_member(from[0], "lease_refusals"), 1);
	assert_int_equal(peer_member(from[1], "leased_bytes"), 0);
	twi_pool_stats(engine->pool, &stats);
	assert_int_equal(stats.deferred, sent * SLOW_BYTES);
	assert_int_equal(counter(TWI_C_deferred_frees), sent);
	for (int i = 0; i < 20; i++) { /* the other peer goes on */
		struct tow_op *send;
		void *memory;

		OK(tow_alloc(runtime, SLOW_BYTES, 0, &memory));
		fill(memory, SLOW_BYTES, 99);
		OK(tow_recv_start(to[1], in, SLOW_BYTES, 7, NULL, &recv));
		OK(tow_send_start(from[1], memory, SLOW_BYTES, 7, NULL, &send));
		OK(tow_free(runtime, memory));
		OK(finish(send, NULL));
		OK(finish(recv, NULL));
		check(in, SLOW_BYTES, 99);
	}
	for (int i = 0; i < sent; i++) { /* the slow one wakes up */
		OK(tow_recv_start(to[0], in, SLOW_BYTES, 7, NULL, &recv));
		OK(finish(recv, NULL));
		check(in, SLOW_BYTES, (uint64_t)i);
		OK(finish(ops[i], NULL));
	}
	check_all_back();
	assert_int_equal(send_till_busy(ops, 1), 1);
	OK(tow_recv_start(to[0], in, SLOW_BYTES, 7, NULL, &recv));
	OK(finish(recv, NULL));
	OK(finish(ops[0], NULL));
	free(in);
	close_all();
}

/* What a peer holds is counted once, while its pieces are with the kernel too. */
static void test_leases_of_a_peer(void **state)
{
	struct tow_options options = options_of("fail");
	struct twi_latency_sum lag;
	struct twi_pool_stats stats;
	void *memory;

	(void)state;
	options.premap_memory_bytes = 16 * MIB;
	options.bulk_chunk_bytes = 256 << 10;
	open_with(&options);
	OK(tow_alloc(runtime, 8 * MIB, 0, &memory));
	send_zerocopy(memory, 8 * MIB);
	OK(tow_free(runtime, memory));
	check_all_back();
	assert_int_equal(peer_member(from[0], "leased_peak_bytes"), 8 * MIB);
	assert_int_equal(peer_member(from[0], "leased_bytes"), 0);
	twi_pool_stats(engine->pool, &stats);
	assert_int_equal(stats.leased_peak, 8 * MIB);
	assert_true(twi_latency_read(&engine->notify_lag, &lag));
	assert_true(lag.count >= 8 * MIB / (256 << 10));
	close_all();
}

static void *send_and_end(void *arg)
{
	send_zerocopy(arg, MIB);
	return NULL; /* notifications may still be on their way to this thread's ring */
}

/* A thread that ends leaves no leases behind, and its successors find room for their sends. */
static void test_threads_that_end(void **state)
{
	struct tow_options options = options_of("fail");
	pthread_t thread;
	void *memory;

	(void)state;
	options.bulk_chunk_bytes = 16 << 10;
	options.zerocopy_min_bytes = 4096;
	open_with(&options);
	for (int i = 0; i < 40; i++) {
		OK(tow_alloc(runtime, MIB, 0, &memory));
		assert_int_equal(pthread_create(&thread, NULL, send_and_end, memory), 0);
		pthread_join(thread, NULL);
		OK(tow_free(runtime, memory));
		if (i % 8 == 7)
			check_all_back();
	}
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grow),
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_wait),
		cmocka_unit_test(test_fail),
		cmocka_unit_test(test_strict),
		cmocka_unit_test(test_grown_is_registered),
		cmocka_unit_test(test_wait_for),
		cmocka_unit_test(test_no_wait_in_callback),
		cmocka_unit_test(test_slow_peer),
		cmocka_unit_test(test_leases_of_a_peer),
		cmocka_unit_test(test_threads_that_end),
	};

	alarm(200);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
