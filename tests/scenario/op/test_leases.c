/*
 * test_leases.c - memory in flight: what is sent out of new extents, who waits for what, what a
 * slow peer may hold back, and when it all comes back.
 */
#include "own_pair.h"

#include <jansson.h>
#include <pthread.h>

#include "transport/engine/poller.h"

static uint64_t fill_pool(void **memory, uint64_t most, uint64_t bytes)
{
	uint64_t count = 0;

	while (count < most && tow_alloc(twt_own.runtime, bytes, 0, &memory[count]) == TOW_OK)
		count++;
	return count;
}

static void send_zerocopy(uint8_t *out, uint64_t bytes)
{
	uint64_t before = twt_own_counter(TWI_C_fixed_sends),
		 asked = twt_own_counter(TWI_C_zerocopy_send_bytes);
	uint8_t *in = malloc(bytes);
	struct tow_op *send, *recv;

	twt_fill(out, bytes, 1);
	TWT_OK(tow_recv_start(twt_own.to[0], in, bytes, 1, NULL, &recv));
	TWT_OK(tow_send_start(twt_own.from[0], out, bytes, 1, NULL, &send));
	TWT_OK(twt_finish(send, NULL));
	TWT_OK(twt_finish(recv, NULL));
	twt_own_check(in, bytes, 1);
	free(in);
	assert_true(twt_own_counter(TWI_C_fixed_sends) > before);
	assert_true(twt_own_counter(TWI_C_zerocopy_send_bytes) - asked >= bytes);
}

/* A registered buffer of io_uring spans 1 GiB: what lies across such a border goes in two sends. */
static void test_across_a_border(void **state)
{
	struct tow_options options = twt_own_options("fail");
	const struct twi_extent *extent;
	uint8_t *border;
	void *memory;

	(void)state;
	options.premap_memory_bytes = 1040 * (int64_t)TWT_MIB;
	options.zerocopy_min_bytes = 1; /* what a send cut short leaves may be small */
	twt_own_open(&options);
	TWT_OK(tow_alloc(twt_own.runtime, 1032 * TWT_MIB, 0, &memory));
	extent = twi_pool_find(twt_own.engine->pool, memory, 1);
	assert_int_equal(extent->region.slots, 2);
	border = (uint8_t *)extent->base + TWI_REGION_PIECE;
	send_zerocopy(border - 3 * TWT_MIB - 4096 - 8, 7 * TWT_MIB);
	twt_own_no_copies();
	TWT_OK(tow_free(twt_own.runtime, memory));
	twt_own_close();
}

static pthread_barrier_t ready, grown;

static void *drive_before_and_after(void *arg)
{
	tow_progress(twt_own.runtime); /* this thread's ring is older than the extent */
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&grown);
	send_zerocopy(arg, TWT_MIB);
	return NULL;
}

/* What has been grown by is sent as the rest is, also by threads that drove before it was there. */
static void test_grown_is_registered(void **state)
{
	struct tow_options options = twt_own_options("grow");
	const struct twi_extent *extent;
	void *memory[16];
	pthread_t thread;
	uint64_t count;

	(void)state;
	options.premap_limit_bytes = 32 * TWT_MIB;
	options.zerocopy_min_bytes = 1;
	twt_own_open(&options);
	pthread_barrier_init(&ready, NULL, 2);
	pthread_barrier_init(&grown, NULL, 2);
	count = fill_pool(memory, 3, TWT_MIB);
	TWT_OK(tow_alloc(twt_own.runtime, 2 * TWT_MIB, 0, &memory[count++]));
	extent = twi_pool_find(twt_own.engine->pool, memory[count - 1], 2 * TWT_MIB);
	assert_non_null(extent);
	assert_int_equal(extent->slot, 1);
	assert_int_equal(pthread_create(&thread, NULL, drive_before_and_after, memory[count - 1]),
			 0);
	pthread_barrier_wait(&ready);
	TWT_OK(tow_alloc(twt_own.runtime, 5 * TWT_MIB, 0, &memory[count++]));
	extent = twi_pool_find(twt_own.engine->pool, memory[count - 1], 5 * TWT_MIB);
	assert_non_null(extent);
	assert_int_equal(extent->slot, 2);
	send_zerocopy(memory[count - 1], 5 * TWT_MIB);
	pthread_barrier_wait(&grown);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < TWI_RINGS_MAX; i++)
		assert_true(twt_own.engine->rings[i] == NULL ||
			    twi_ring_has(twt_own.engine->rings[i], &extent->region));
	twt_own_no_copies();
	for (uint64_t i = 0; i < count; i++)
		TWT_OK(tow_free(twt_own.runtime, memory[i]));
	pthread_barrier_destroy(&ready);
	pthread_barrier_destroy(&grown);
	twt_own_close();
}

static void *free_soon(void *arg)
{
	usleep(30000);
	TWT_OK(tow_free(twt_own.runtime, arg));
	return NULL;
}

/* Waits for another thread's free; for a lease that this thread must end itself; in vain. */
static void test_wait_for(void **state)
{
	struct tow_options options = twt_own_options("wait");
	struct tow_op *send, *recv;
	uint8_t *in = malloc(TWT_MIB);
	void *memory[8], *more;
	pthread_t thread;
	uint64_t count;
	bool at_once;

	(void)state;
	options.exhaust_wait_ns = 5 * TWT_SECOND;
	options.background = 0; /* nobody but the caller is to drive */
	twt_own_open(&options);
	count = fill_pool(memory, 3, TWT_MIB);
	TWT_OK(tow_alloc(twt_own.runtime, TWT_MIB / 2, 0, &memory[count++]));
	assert_int_equal(pthread_create(&thread, NULL, free_soon, memory[0]), 0);
	TWT_OK(tow_alloc(twt_own.runtime, TWT_MIB, 0, &more));
	pthread_join(thread, NULL);
	assert_int_equal(twt_own_counter(TWI_C_pool_waits), 1);
	memory[0] = more;
	twt_fill(more, TWT_MIB, 3);
	TWT_OK(tow_recv_start(twt_own.to[0], in, TWT_MIB, 1, NULL, &recv));
	TWT_OK(tow_send_start(twt_own.from[0], more, TWT_MIB, 1, NULL, &send));
	TWT_OK(tow_free(twt_own.runtime, more));
	/* nobody else drives: the room comes because this call does, if not with the post itself */
	at_once = (atomic_load(&send->wait.state) & TWI_OP_DONE) != 0;
	TWT_OK(tow_alloc(twt_own.runtime, TWT_MIB, 0, &memory[0]));
	memset(memory[0], 0xee, TWT_MIB);
	TWT_OK(twt_finish(recv, NULL));
	TWT_OK(twt_finish(send, NULL));
	twt_own_check(in, TWT_MIB, 3);
	assert_int_equal(twt_own_counter(TWI_C_pool_waits), at_once ? 1 : 2);
	assert_int_equal(twt_own_counter(TWI_C_pool_wait_timeouts), 0);
	twt_own.engine->knobs.exhaust_wait_ns = 3000000;
	assert_int_equal(tow_alloc(twt_own.runtime, TWT_MIB, 0, &more), TOW_EEXHAUSTED);
	assert_null(more);
	assert_int_equal(twt_own_counter(TWI_C_pool_wait_timeouts), 1);
	for (uint64_t i = 0; i < count; i++)
		TWT_OK(tow_free(twt_own.runtime, memory[i]));
	free(in);
	twt_own_close();
}

static int status_in_callback;

static void alloc_in_callback(struct tow_op *op, const struct tow_result *result)
{
	void *memory;

	(void)op, (void)result;
	status_in_callback = tow_alloc(twt_own.runtime, 3 * TWT_MIB, 0, &memory);
}

/* A callback holds the engine: it gets its answer at once. */
static void test_no_wait_in_callback(void **state)
{
	struct tow_op_options with_callback = TOW_OP_OPTIONS_INIT;
	struct tow_options options = twt_own_options("wait");
	struct tow_op *send, *recv;
	void *memory, *word;

	(void)state;
	options.exhaust_wait_ns = 5 * TWT_SECOND;
	twt_own_open(&options);
	TWT_OK(tow_alloc(twt_own.runtime, 3 * TWT_MIB, 0, &memory));
	TWT_OK(tow_alloc(twt_own.runtime, 64, 0, &word));
	with_callback.done = alloc_in_callback;
	status_in_callback = TOW_OK;
	TWT_OK(tow_recv_start(twt_own.to[0], word, 8, 1, &with_callback, &recv));
	TWT_OK(tow_send_start(twt_own.from[0], memory, 8, 1, NULL, &send));
	TWT_OK(twt_finish(recv, NULL));
	TWT_OK(twt_finish(send, NULL));
	assert_int_equal(status_in_callback, TOW_EEXHAUSTED);
	assert_int_equal(twt_own_counter(TWI_C_pool_waits), 0);
	TWT_OK(tow_free(twt_own.runtime, memory));
	TWT_OK(tow_free(twt_own.runtime, word));
	twt_own_close();
}

/* A member of a peer of /v1/peers. */
static uint64_t peer_member(const struct tow_peer *peer, const char *name)
{
	json_t *root, *one;
	uint64_t value = UINT64_MAX;
	json_error_t error;
	size_t i;
	char *text;

	TWT_OK(tow_stats_get(twt_own.runtime, "/v1/peers", &text));
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

		TWT_OK(tow_alloc(twt_own.runtime, SLOW_BYTES, 0, &memory));
		twt_fill(memory, SLOW_BYTES, (uint64_t)i);
		status = tow_send_start(twt_own.from[0], memory, SLOW_BYTES, 7, NULL, &ops[i]);
		TWT_OK(tow_free(twt_own.runtime, memory));
		if (status == TOW_EBUSY)
			return i;
		TWT_OK(status);
	}
	return most;
}

static void test_slow_peer(void **state)
{
	struct tow_options options = twt_own_options("fail");
	uint8_t *in = malloc(SLOW_BYTES);
	struct twi_pool_stats stats;
	struct tow_op *ops[64], *recv;
	int sent;

	(void)state;
	options.peer_lease_bytes = SLOW_CAP;
	twt_own_open(&options);
	sent = send_till_busy(ops, 64);
	/* the first that finds more than the cap held back is refused */
	assert_int_equal(sent, SLOW_CAP / SLOW_BYTES + 1);
	assert_non_null(strstr(tow_error_message(), "peer_lease_bytes"));
	assert_int_equal(twt_own_counter(TWI_C_peer_lease_refusals), 1);
	assert_int_equal(peer_member(twt_own.from[0], "leased_bytes"), sent * SLOW_BYTES);
	assert_int_equal(peer_member(twt_own.from[0], "lease_refusals"), 1);
	assert_int_equal(peer_member(twt_own.from[1], "leased_bytes"), 0);
	twi_pool_stats(twt_own.engine->pool, &stats);
	assert_int_equal(stats.deferred, sent * SLOW_BYTES);
	assert_int_equal(twt_own_counter(TWI_C_deferred_frees), sent);
	for (int i = 0; i < 20; i++) { /* the other peer goes on */
		struct tow_op *send;
		void *memory;

		TWT_OK(tow_alloc(twt_own.runtime, SLOW_BYTES, 0, &memory));
		twt_fill(memory, SLOW_BYTES, 99);
		TWT_OK(tow_recv_start(twt_own.to[1], in, SLOW_BYTES, 7, NULL, &recv));
		TWT_OK(tow_send_start(twt_own.from[1], memory, SLOW_BYTES, 7, NULL, &send));
		TWT_OK(tow_free(twt_own.runtime, memory));
		TWT_OK(twt_finish(send, NULL));
		TWT_OK(twt_finish(recv, NULL));
		twt_own_check(in, SLOW_BYTES, 99);
	}
	for (int i = 0; i < sent; i++) { /* the slow one wakes up */
		TWT_OK(tow_recv_start(twt_own.to[0], in, SLOW_BYTES, 7, NULL, &recv));
		TWT_OK(twt_finish(recv, NULL));
		twt_own_check(in, SLOW_BYTES, (uint64_t)i);
		TWT_OK(twt_finish(ops[i], NULL));
	}
	twt_own_all_back();
	assert_int_equal(send_till_busy(ops, 1), 1);
	TWT_OK(tow_recv_start(twt_own.to[0], in, SLOW_BYTES, 7, NULL, &recv));
	TWT_OK(twt_finish(recv, NULL));
	TWT_OK(twt_finish(ops[0], NULL));
	free(in);
	twt_own_close();
}

/* What a peer holds is counted once, while its pieces are with the kernel too. */
static void test_leases_of_a_peer(void **state)
{
	struct tow_options options = twt_own_options("fail");
	struct twi_latency_sum lag;
	struct twi_pool_stats stats;
	void *memory;

	(void)state;
	options.premap_memory_bytes = 16 * TWT_MIB;
	options.bulk_chunk_bytes = 256 << 10;
	twt_own_open(&options);
	TWT_OK(tow_alloc(twt_own.runtime, 8 * TWT_MIB, 0, &memory));
	send_zerocopy(memory, 8 * TWT_MIB);
	TWT_OK(tow_free(twt_own.runtime, memory));
	twt_own_all_back();
	assert_int_equal(peer_member(twt_own.from[0], "leased_peak_bytes"), 8 * TWT_MIB);
	assert_int_equal(peer_member(twt_own.from[0], "leased_bytes"), 0);
	twi_pool_stats(twt_own.engine->pool, &stats);
	assert_int_equal(stats.leased_peak, 8 * TWT_MIB);
	assert_true(twi_latency_read(twt_own.engine->notify_lag, &lag));
	assert_true(lag.count >= 8 * TWT_MIB / (256 << 10));
	twt_own_close();
}

static void *send_and_end(void *arg)
{
	send_zerocopy(arg, TWT_MIB);
	return NULL; /* notifications may still be on their way to this thread's ring */
}

/* A thread that ends leaves no leases behind, and its successors find room for their sends. */
static void test_threads_that_end(void **state)
{
	struct tow_options options = twt_own_options("fail");
	pthread_t thread;
	void *memory;

	(void)state;
	options.bulk_chunk_bytes = 16 << 10;
	options.zerocopy_min_bytes = 4096;
	twt_own_open(&options);
	for (int i = 0; i < 40; i++) {
		TWT_OK(tow_alloc(twt_own.runtime, TWT_MIB, 0, &memory));
		assert_int_equal(pthread_create(&thread, NULL, send_and_end, memory), 0);
		pthread_join(thread, NULL);
		TWT_OK(tow_free(twt_own.runtime, memory));
		if (i % 8 == 7)
			twt_own_all_back();
	}
	twt_own_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_across_a_border),  cmocka_unit_test(test_grown_is_registered),
		cmocka_unit_test(test_wait_for),         cmocka_unit_test(test_no_wait_in_callback),
		cmocka_unit_test(test_slow_peer),        cmocka_unit_test(test_leases_of_a_peer),
		cmocka_unit_test(test_threads_that_end),
	};

	alarm(200);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
