/*
 * test_crowd.c - 24 threads on one runtime at once: they allocate and free, send and receive,
 * register and deregister memory of their own, and send memory that is registered late and unmap it
 * afterwards. For TOW_CROWD_SECONDS (2).
 *
 * At most 16 threads may drive a runtime, so only the first ones wait; the others post, free,
 * register, unmap, and look whether what they have posted is done. Whoever comes first gets a ring,
 * posting threads too, so those who will wait are made to come first.
 */
#include "twt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towline/towline.h>

#include "pair.h"

#include "diag/base/clock.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/endpoint.h"

#define SECOND  1000000000ull
#define MIB     ((uint64_t)1 << 20)
#define THREADS 24
#define DRIVERS 12
#define PAIRS   3
#define MOST    (160u << 10)
#define PAGE    4096u

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_peer *from[PAIRS], *to[PAIRS];
static _Atomic bool over;
static _Atomic int at_work;
static pthread_barrier_t rings_taken;
static _Atomic uint64_t messages, allocations, registrations, mapped, busy;

struct worker {
	pthread_t thread;
	uint64_t tag, random;
	bool drives;
};

enum kind { IN_POOL, MAPPED, REGISTERED, KINDS };

struct buffer {
	enum kind kind;
	uint8_t *at;
	uint64_t bytes, handle;
};

static uint64_t below(struct worker *worker, uint64_t bound)
{
	return twt_random_below(&worker->random, bound);
}

/* Waits, or without a ring sleeps until those who drive are through with it. */
static int worker_finish(const struct worker *worker, struct tow_op *op, struct tow_result *out)
{
	struct tow_result result = { .size = sizeof(result) };
	uint64_t until = twi_now_ns() + 60 * SECOND;
	int status = TOW_AGAIN;

	while ((status == TOW_AGAIN || status == TOW_ETIMEDOUT) && twi_now_ns() < until) {
		status = worker->drives ? tow_op_wait(op, SECOND) : tow_op_result(op, &result);
		if (status == TOW_AGAIN && !worker->drives)
			usleep(200);
	}
	if (status == TOW_AGAIN || status == TOW_ETIMEDOUT) {
		fprintf(stderr, "thread %llu: an operation does not end within a minute\n",
			(unsigned long long)worker->tag);
		abort();
	}
	TWT_OK(tow_op_result(op, &result));
	TWT_OK(tow_op_release(op));
	if (out != NULL)
		*out = result;
	return result.status;
}

static uint64_t word(uint64_t seed, uint64_t i)
{
	return seed * 0x9e3779b97f4a7c15ull + i * 0xd6e8feb86659fd93ull;
}

static void fill(const struct buffer *buffer, uint64_t seed)
{
	for (uint64_t i = 0; i < buffer->bytes / 8; i++)
		((uint64_t *)(void *)buffer->at)[i] = word(seed, i);
}

static void check(const struct buffer *buffer, uint64_t seed)
{
	for (uint64_t i = 0; i < buffer->bytes / 8; i++)
		if (((const uint64_t *)(const void *)buffer->at)[i] != word(seed, i)) {
			fprintf(stderr, "word %llu of %llu of message %llx is wrong (kind %d)\n",
				(unsigned long long)i, (unsigned long long)buffer->bytes / 8,
				(unsigned long long)seed, (int)buffer->kind);
			abort();
		}
}

static bool take(struct worker *worker, enum kind kind, uint64_t bytes, struct buffer *out)
{
	void *at = NULL;
	int status;

	*out = (struct buffer){ .kind = kind, .bytes = bytes };
	if (kind == IN_POOL) {
		status = tow_alloc(runtime, bytes, below(worker, 4) == 0 ? PAGE : 0, &at);
		if (status == TOW_EEXHAUSTED)
			return false;
		TWT_OK(status);
		atomic_fetch_add(&allocations, 1);
	} else {
		at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED)
			abort();
		atomic_fetch_add(&mapped, 1);
	}
	out->at = at;
	if (kind == REGISTERED) {
		TWT_OK(tow_mem_register(runtime, at, bytes, &out->handle));
		atomic_fetch_add(&registrations, 1);
	}
	return true;
}

static void give(struct buffer *buffer)
{
	uint64_t until = twi_now_ns() + 60 * SECOND;
	int status = TOW_OK;

	if (buffer->kind == IN_POOL) {
		TWT_OK(tow_free(runtime, buffer->at));
		return;
	}
	while (buffer->handle != 0 && twi_now_ns() < until) {
		status = tow_mem_deregister(runtime, buffer->handle);
		if (status != TOW_EBUSY)
			break;
		/* its notification is still to come, to the thread that sent it */
		atomic_fetch_add(&busy, 1);
		if (tow_progress(runtime) != TOW_OK)
			usleep(200);
	}
	TWT_OK(status);
	munmap(buffer->at, buffer->bytes);
}

/* From this thread to itself; what is sent out of the pool is freed on its way. */
static void exchange(struct worker *worker, uint64_t seed)
{
	uint64_t bytes = 8 * (1 + below(worker, below(worker, 3) == 0 ? 1000 : MOST / 8));
	unsigned pair = (unsigned)below(worker, PAIRS);
	struct tow_op *send = NULL, *recv;
	struct tow_result result;
	struct buffer out, in;
	int status;

	if (!take(worker, (enum kind)below(worker, KINDS), bytes, &out))
		return;
	if (!take(worker, (enum kind)below(worker, KINDS), bytes, &in)) {
		give(&out);
		return;
	}
	fill(&out, seed);
	memset(in.at, 0, bytes);
	TWT_OK(tow_recv_start(to[pair], in.at, bytes, worker->tag, NULL, &recv));
	while ((status = tow_send_start(from[pair], out.at, bytes, worker->tag, NULL, &send)) ==
	       TOW_EBUSY)
		usleep(100);
	TWT_OK(status);
	if (out.kind == IN_POOL)
		give(&out);
	TWT_OK(worker_finish(worker, recv, &result));
	assert_int_equal(result.bytes, bytes);
	check(&in, seed);
	TWT_OK(worker_finish(worker, send, NULL));
	if (out.kind != IN_POOL)
		give(&out);
	give(&in);
	atomic_fetch_add(&messages, 1);
}

/* Allocations that nobody sends, freed in another order. */
static void churn(struct worker *worker)
{
	struct buffer held[16];
	unsigned count = 0;

	while (count < 16 && take(worker, IN_POOL, 1 + below(worker, MOST), &held[count])) {
		memset(held[count].at, (int)worker->tag, 64 < held[count].bytes ? 64 : 1);
		count++;
	}
	while (count > 0) {
		unsigned at = (unsigned)below(worker, count);

		give(&held[at]);
		held[at] = held[--count];
	}
}

/* A large message is offered and taken back. */
static void offer_and_cancel(struct worker *worker)
{
	struct tow_op *send;
	struct buffer out;
	int status;

	if (!take(worker, IN_POOL, MOST, &out))
		return;
	status = tow_send_start(from[0], out.at, MOST, 1000 + worker->tag, NULL, &send);
	give(&out);
	if (status == TOW_EBUSY)
		return;
	TWT_OK(status);
	TWT_OK(tow_op_cancel(send));
	assert_int_equal(worker_finish(worker, send, NULL), TOW_ECANCELED);
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	if (worker->drives)
		while (tow_flush(runtime) == TOW_AGAIN)
			;
	pthread_barrier_wait(&rings_taken);
	for (uint64_t i = 0; !atomic_load(&over); i++) {
		struct buffer own;

		switch (below(worker, 8)) {
		case 0:
			churn(worker);
			break;
		case 1:
			take(worker, REGISTERED, MOST, &own);
			give(&own);
			break;
		case 2:
			offer_and_cancel(worker);
			break;
		default:
			exchange(worker, worker->tag << 40 | i);
		}
	}
	atomic_fetch_sub(&at_work, 1);
	return NULL;
}

static void join(struct tow_endpoint *here, struct tow_endpoint *there, int at)
{
	const struct worker self = { .drives = true };
	struct tow_op *connect, *accept;
	char text[TOW_ADDRESS_MAX];
	struct tow_result result;

	TWT_OK(tow_endpoint_address(there, text, sizeof(text)));
	TWT_OK(tow_accept_start(there, NULL, &accept));
	TWT_OK(tow_connect_start(here, text, NULL, &connect));
	TWT_OK(worker_finish(&self, connect, &result));
	from[at] = result.peer;
	TWT_OK(worker_finish(&self, accept, &result));
	to[at] = result.peer;
}

/* Two connections by tcp, and one by loop. */
static void open_all(const char *exhaust)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_endpoint *endpoints[4];

	options.premap_memory_bytes = 16 * MIB;
	options.premap_limit_bytes = 32 * MIB;
	options.late_cache_bytes = 4 * MIB;
	options.late_cache_entries = 24;
	options.exhaust = exhaust;
	options.exhaust_wait_ns = 20000000;
	options.zerocopy = "always";
	options.stats = 0;
	TWT_OK(tow_runtime_open(&options, &runtime));
	engine = twi_runtime_engine(runtime);
	TWT_OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoints[0]));
	TWT_OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoints[1]));
	TWT_OK(tow_endpoint_open(runtime, "loop://one", &endpoints[2]));
	TWT_OK(tow_endpoint_open(runtime, "loop://other", &endpoints[3]));
	for (int i = 0; i < PAIRS; i++)
		join(endpoints[i / 2 * 2], endpoints[i / 2 * 2 + 1], i);
	TWT_OK(tow_runtime_seal(runtime));
}

static void check_nothing_left(void)
{
	struct twi_pool_stats stats;

	for (int i = 0; i < 500; i++) {
		twi_pool_stats(engine->pool, &stats);
		if (stats.leased == 0 && stats.allocations == 1)
			break;
		tow_progress(runtime);
		usleep(10000);
	}
	assert_int_equal(stats.leased, 0);
	assert_int_equal(stats.deferred, 0);
	assert_int_equal(stats.overflow, 0);
	assert_int_equal(stats.allocations, 1); /* staging */
	assert_true(stats.mapped <= 32 * MIB);
}

static void crowd(const char *exhaust, uint64_t ns)
{
	struct worker workers[THREADS] = { 0 };
	uint64_t random = twt_seed();
	struct twi_reason_sum late;

	open_all(exhaust);
	atomic_store(&over, false);
	atomic_store(&at_work, THREADS);
	pthread_barrier_init(&rings_taken, NULL, THREADS);
	for (uint64_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .tag = i, .drives = i < DRIVERS };
		workers[i].random = twt_random(&random);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint64_t until = twi_now_ns() + ns; twi_now_ns() < until;)
		usleep(10000);
	atomic_store(&over, true);
	/* who has a ring may be gone before who has none: somebody must drive for those */
	while (atomic_load(&at_work) > 0)
		if (tow_progress(runtime) != TOW_OK)
			usleep(100);
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_barrier_destroy(&rings_taken);
	check_nothing_left();
	twi_reason_sum(engine->diag, TWI_R_late_user_memory, &late);
	printf("%s: %llu messages, %llu allocations, %llu registrations (%llu late), %llu maps, "
	       "%llu times busy; %llu evicted, %llu invalidated\n",
	       exhaust, (unsigned long long)messages, (unsigned long long)allocations,
	       (unsigned long long)registrations, (unsigned long long)late.count,
	       (unsigned long long)mapped, (unsigned long long)busy,
	       (unsigned long long)twi_counter_sum(engine->diag, TWI_C_late_cache_evictions),
	       (unsigned long long)twi_counter_sum(engine->diag, TWI_C_late_cache_invalidations));
	fflush(stdout);
	assert_true(messages > 0 && registrations > 0);
	TWT_OK(tow_runtime_close(runtime));
}

static void test_crowd(void **state)
{
	static const char *const policies[] = { "grow", "copy", "wait", "fail" };
	const char *text = getenv("TOW_CROWD_SECONDS");
	uint64_t seconds = text != NULL ? strtoull(text, NULL, 10) : 2;

	(void)state;
	for (int i = 0; i < 4; i++)
		crowd(policies[i], seconds * SECOND / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_crowd) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
