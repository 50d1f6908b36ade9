/*
 * test_messages.c - messages between two processes, over tcp and over shm: sizes, order,
 * cancel, deadlines, close with operations in flight, callbacks, the pollable descriptor, threads,
 * fork. (What does not fit, tags and ids: tests/conformance.)
 */
#include "pair.h"
#include "twt.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>

#define POOL       (16 << 20) /* a quarter of it holds what is freed early */
#define LARGE_POOL (48 << 20) /* for `sizes`, both ways */

static const char *lane_at = "tcp://127.0.0.1:0"; /* the lane under test */

static const size_t sizes[] = { 0,       1,       7,     8,       63,
				64,      65,      4096,  16383,   16384,
				16385,   65536,   65537, 1 << 20, (1 << 20) + 1,
				5000001, 16 << 20 };

static void *take(struct twt_side *side, size_t bytes)
{
	void *memory;

	TWT_OK(tow_alloc(side->runtime, bytes, 0, &memory));
	return memory;
}

static int echo_sizes(struct twt_side *side, void *arg)
{
	int in_pool = *(int *)arg;
	void *memory = in_pool ? take(side, 16 << 20) : malloc(16 << 20);
	struct tow_result result;
	struct tow_op *op;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		TWT_OK(tow_recv_start(side->peer, memory, 16 << 20, i, NULL, &op));
		TWT_OK(twt_finish(op, &result));
		if (result.bytes != sizes[i] || twt_check(memory, sizes[i], i) != 0)
			return 1;
		TWT_OK(tow_send_start(side->peer, memory, sizes[i], i, NULL, &op));
		TWT_OK(twt_finish(op, NULL));
	}
	if (in_pool)
		TWT_OK(tow_free(side->runtime, memory));
	else
		free(memory);
	return 0;
}

static void run_sizes(const char *address, int in_pool)
{
	struct tow_op *send, *recv;
	struct tow_result result;
	struct twt_side side;
	uint8_t *out, *in;

	twt_pair(&side, address, LARGE_POOL, echo_sizes, &in_pool);
	out = in_pool ? take(&side, 16 << 20) : malloc(16 << 20);
	in = in_pool ? take(&side, 16 << 20) : malloc(16 << 20);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t id;

		twt_fill(out, sizes[i], i);
		memset(in, 0xee, sizes[i]);
		TWT_OK(tow_send_start(side.peer, out, sizes[i], i, NULL, &send));
		TWT_OK(tow_recv_start(side.peer, in, sizes[i], i, NULL, &recv));
		TWT_OK(twt_finish(send, &result));
		assert_int_equal(result.bytes, sizes[i]);
		id = result.rpc_id;
		TWT_OK(twt_finish(recv, &result));
		assert_int_equal(result.bytes, sizes[i]);
		assert_true(result.rpc_id != id && result.rpc_id != 0);
		assert_int_equal(twt_check(in, sizes[i], i), 0);
	}
	if (in_pool) {
		TWT_OK(tow_free(side.runtime, out));
		TWT_OK(tow_free(side.runtime, in));
	} else {
		free(out);
		free(in);
	}
	assert_int_equal(twt_pair_end(&side), 0);
}

static void test_sizes_pool(void **state)
{
	(void)state;
	run_sizes(lane_at, 1);
}

static void test_sizes_heap(void **state)
{
	(void)state;
	run_sizes(lane_at, 0);
}

static void test_sizes_ipv6(void **state)
{
	FILE *file = fopen("/proc/net/if_inet6", "re");

	(void)state;
	if (file == NULL)
		skip();
	fclose(file);
	run_sizes("tcp://[::1]:0", 1);
}

/*
 * `bytes` of address space that are one window of `span`, again and again: room for a huge one. Its
 * pages are mapped all at once: to fault in a million of them takes the kernel four times as long.
 */
static uint8_t *window(size_t bytes, size_t span)
{
	int fd = memfd_create("window", MFD_CLOEXEC);
	uint8_t *base = mmap(NULL, bytes + span, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(fd >= 0 && base != MAP_FAILED && ftruncate(fd, (off_t)span) == 0);
	for (size_t at = 0; at < bytes; at += span)
		assert_true(mmap(base + at, span, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) != MAP_FAILED);
	close(fd);
	return base;
}

/* TSan looks at every word of a copy: it gets less than the 32 bits this is about. */
#ifdef TWT_TSAN
#define HUGE_BYTES ((64ull << 20) + 12345)
#else
#define HUGE_BYTES ((4ull << 30) + 12345)
#endif
#define HUGE_SPAN (8u << 20)

static int receive_huge(struct twt_side *side, void *arg)
{
	uint8_t *at = window(HUGE_BYTES, HUGE_SPAN);
	struct tow_result result;
	struct tow_op *op;

	(void)arg;
	memset(at, 0, HUGE_SPAN);
	TWT_OK(tow_recv_start(side->peer, at, HUGE_BYTES, 1, NULL, &op));
	TWT_OK(tow_op_wait(op, 100 * TWT_SECOND));
	TWT_OK(twt_finish(op, &result));
	if (result.bytes != HUGE_BYTES)
		return 1;
	return twt_check(at, HUGE_SPAN, 77) == 0 ? 0 : 2;
}

/* More than 32 bits of length: a message of 4 GiB and a bit. */
static void test_huge(void **state)
{
	uint8_t *at = window(HUGE_BYTES, HUGE_SPAN);
	struct tow_result result;
	struct twt_side side;
	struct tow_op *op;

	(void)state;
	twt_fill(at, HUGE_SPAN, 77);
	twt_pair(&side, lane_at, POOL, receive_huge, NULL);
	TWT_OK(tow_send_start(side.peer, at, HUGE_BYTES, 1, NULL, &op));
	TWT_OK(tow_op_wait(op, 100 * TWT_SECOND));
	TWT_OK(twt_finish(op, &result));
	assert_int_equal(result.bytes, HUGE_BYTES);
	assert_int_equal(twt_pair_end(&side), 0);
	munmap(at, HUGE_BYTES + HUGE_SPAN);
}

#define MANY 2000

static int send_many(struct twt_side *side, void *arg)
{
	static uint64_t values[MANY];
	struct tow_op *op;

	(void)arg;
	for (uint64_t i = 0; i < MANY; i++) {
		values[i] = i;
		TWT_OK(tow_send_start(side->peer, &values[i], 8, i % 3, NULL, &op));
		TWT_OK(tow_op_release(op));
	}
	/* the last word: all before it have been taken */
	TWT_OK(tow_recv_start(side->peer, values, 8, 9, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	return 0;
}

/* Messages of one tag keep their order, whether a receive waits for them or they for it. */
static void test_order(void **state)
{
	uint64_t next[3] = { 0, 1, 2 }, value;
	struct tow_result result;
	struct twt_side side;
	struct tow_op *op;

	(void)state;
	twt_pair(&side, lane_at, POOL, send_many, NULL);
	for (uint64_t i = 0; i < MANY; i++) {
		uint64_t tag = MANY / 3 * 3 <= i ? i % 3 : (i / 7) % 3;

		if (next[tag] >= MANY)
			tag = next[0] < MANY ? 0 : next[1] < MANY ? 1 : 2;
		TWT_OK(tow_recv_start(side.peer, &value, 8, tag, NULL, &op));
		TWT_OK(twt_finish(op, &result));
		assert_int_equal(value, next[tag]);
		next[tag] += 3;
	}
	TWT_OK(tow_send_start(side.peer, &value, 8, 9, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	assert_int_equal(twt_pair_end(&side), 0);
}

#define FREED       400
#define FREED_BYTES 8192

static int receive_freed(struct twt_side *side, void *arg)
{
	static uint8_t in[FREED_BYTES];
	struct tow_op *op;

	(void)arg;
	usleep(200000); /* the credit is used up, the rest waits at the sender */
	for (uint64_t i = 0; i < FREED; i++) {
		TWT_OK(tow_recv_start(side->peer, in, FREED_BYTES, 1, NULL, &op));
		TWT_OK(twt_finish(op, NULL));
		if (twt_check(in, FREED_BYTES, i) != 0)
			return 1;
	}
	return 0;
}

/* Memory that is freed while its send waits for credit is not used again before it has gone. */
static void test_freed_while_queued(void **state)
{
	struct tow_op *ops[FREED];
	struct twt_side side;

	(void)state;
	twt_pair(&side, lane_at, POOL, receive_freed, NULL);
	for (uint64_t i = 0; i < FREED; i++) {
		void *out = take(&side, FREED_BYTES);

		twt_fill(out, FREED_BYTES, i);
		TWT_OK(tow_send_start(side.peer, out, FREED_BYTES, 1, NULL, &ops[i]));
		TWT_OK(tow_free(side.runtime, out));
	}
	for (uint64_t i = 0; i < FREED; i++)
		TWT_OK(twt_finish(ops[i], NULL));
	assert_int_equal(twt_pair_end(&side), 0);
}

static int wait_for_word(struct twt_side *side, void *arg)
{
	uint64_t word = 0;
	struct tow_op *op;

	(void)arg;
	TWT_OK(tow_recv_start(side->peer, &word, 8, 99, NULL, &op));
	return twt_finish(op, NULL) == TOW_OK ? 0 : 1;
}

static void say_word(struct twt_side *side)
{
	uint64_t word = 1;
	struct tow_op *op;

	TWT_OK(tow_send_start(side->peer, &word, 8, 99, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
}

/* Deadlines and cancels of operations that the other side never answers. */
static void test_deadline_and_cancel(void **state)
{
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	struct twt_side side;
	struct tow_op *op;
	uint64_t word;
	void *big;

	(void)state;
	soon.timeout_ns = 20000000;
	twt_pair(&side, lane_at, POOL, wait_for_word, NULL);
	big = take(&side, 1 << 20);
	TWT_OK(tow_recv_start(side.peer, &word, 8, 1, &soon, &op));
	assert_int_equal(tow_op_wait(op, 1000000), TOW_ETIMEDOUT);
	assert_int_equal(twt_finish(op, NULL), TOW_EDEADLINE);
	TWT_OK(tow_send_start(side.peer, big, 1 << 20, 1, &soon, &op));
	assert_int_equal(twt_finish(op, NULL), TOW_EDEADLINE);
	TWT_OK(tow_recv_start(side.peer, &word, 8, 1, NULL, &op));
	TWT_OK(tow_op_cancel(op));
	assert_int_equal(twt_finish(op, NULL), TOW_ECANCELED);
	TWT_OK(tow_send_start(side.peer, big, 1 << 20, 1, NULL, &op));
	TWT_OK(tow_op_cancel(op));
	assert_int_equal(twt_finish(op, NULL), TOW_ECANCELED);
	say_word(&side);
	TWT_OK(tow_free(side.runtime, big));
	assert_int_equal(twt_pair_end(&side), 0);
}

static int expect_peer_gone(struct twt_side *side, void *arg)
{
	struct tow_op *small, *large, *recv;
	uint64_t word = 0;
	void *big = take(side, 1 << 20);

	(void)arg;
	TWT_OK(tow_recv_start(side->peer, &word, 8, 50, NULL, &recv));
	TWT_OK(tow_send_start(side->peer, big, 1 << 20, 51, NULL, &large));
	TWT_OK(tow_recv_start(side->peer, &word, 8, 52, NULL, &small));
	TWT_OK(twt_finish(small, NULL)); /* sent before the other side closed: it is delivered */
	if (twt_finish(recv, NULL) != TOW_EPEER || twt_finish(large, NULL) != TOW_EPEER)
		return 1;
	TWT_OK(tow_recv_start(side->peer, &word, 8, 50, NULL, &recv));
	if (twt_finish(recv, NULL) != TOW_EPEER)
		return 2;
	TWT_OK(tow_send_start(side->peer, &word, 8, 50, NULL, &recv));
	if (twt_finish(recv, NULL) != TOW_EPEER)
		return 3;
	TWT_OK(tow_peer_close(side->peer));
	return 0;
}

static void test_close_in_flight(void **state)
{
	struct tow_op *recv, *send, *word_op, *accept;
	struct twt_side side;
	uint64_t word = 5;
	void *big;

	(void)state;
	twt_pair(&side, lane_at, POOL, expect_peer_gone, NULL);
	big = take(&side, 1 << 20);
	TWT_OK(tow_recv_start(side.peer, &word, 8, 1, NULL, &recv));
	TWT_OK(tow_send_start(side.peer, big, 1 << 20, 1, NULL, &send));
	TWT_OK(tow_send_start(side.peer, &word, 8, 52, NULL, &word_op));
	TWT_OK(twt_finish(word_op, NULL));
	TWT_OK(tow_peer_close(side.peer));
	assert_int_equal(tow_op_test(recv), TOW_ECLOSED);
	assert_int_equal(tow_op_test(send), TOW_ECLOSED);
	TWT_OK(tow_op_release(recv));
	TWT_OK(tow_op_release(send));
	TWT_OK(tow_accept_start(side.endpoint, NULL, &accept));
	TWT_OK(tow_endpoint_close(side.endpoint));
	assert_int_equal(twt_finish(accept, NULL), TOW_ECLOSED);
	TWT_OK(tow_free(side.runtime, big));
	assert_int_equal(twt_pair_end(&side), 0);
}

static _Atomic unsigned calls; /* the library's own thread may be who calls */
static struct tow_runtime *callback_runtime;
static _Atomic int last_status;

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	char *text;

	last_status = result->status;
	*(uint64_t *)result->user += result->bytes;
	assert_int_equal(tow_op_wait(op, 0), TOW_EINVAL); /* a callback must not wait */
	assert_int_equal(tow_stats_get(callback_runtime, "/v1/peers", &text), TOW_EINVAL);
	assert_int_equal(tow_op_release(op), TOW_OK);
	calls++;
}

/* The callback runs once, and the descriptor says when to look. */
static void test_callback_and_fd(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct twt_side side;
	struct tow_op *op;
	uint64_t sum = 0, in = 0;
	int fd, rounds = 0;

	(void)state;
	options.done = on_done;
	options.user = &sum;
	calls = 0;
	twt_pair(&side, lane_at, LARGE_POOL, echo_sizes, &(int){ 1 });
	callback_runtime = side.runtime;
	TWT_OK(tow_fd(side.runtime, &fd));
	TWT_OK(tow_recv_start(side.peer, &in, 8, 0, &options, &op));
	TWT_OK(tow_send_start(side.peer, &in, 0, 0, &options, &op));
	while (calls < 2 && rounds++ < 1000) {
		struct pollfd waiter = { .fd = fd, .events = POLLIN };

		assert_true(tow_progress(side.runtime) >= 0);
		if (calls < 2)
			assert_int_equal(poll(&waiter, 1, 5000), 1);
	}
	assert_int_equal(calls, 2);
	assert_int_equal(last_status, TOW_OK);
	kill(side.child, SIGKILL);
	twt_pair_end(&side);
}

#define PAIRS_OF_WORDS 20

static int wait_for_words(struct twt_side *side, void *arg)
{
	int bad = 0;

	for (int i = 0; i < 2 * PAIRS_OF_WORDS; i++)
		bad |= wait_for_word(side, arg);
	return bad;
}

/* A small message that waits for company: the descriptor says that there is something to do. */
static void test_fd_of_held_back(void **state)
{
	struct pollfd waiter = { .events = POLLIN };
	struct tow_op *op;
	struct twt_side side;
	uint64_t word = 1;

	(void)state;
	setenv("TOW_GATHER_NS", "1ms", 1);
	twt_pair(&side, lane_at, POOL, wait_for_words, NULL);
	unsetenv("TOW_GATHER_NS");
	TWT_OK(tow_fd(side.runtime, &waiter.fd));
	for (int i = 0; i < PAIRS_OF_WORDS; i++) {
		usleep(2000);
		TWT_OK(tow_send_start(side.peer, &word, 8, 99, NULL, &op));
		TWT_OK(tow_op_release(op));
		usleep(400); /* the first is acknowledged meanwhile, and nothing is to come */
		while (poll(&waiter, 1, 0) == 1)
			assert_true(tow_progress(side.runtime) >= 0);
		TWT_OK(tow_send_start(side.peer, &word, 8, 99, NULL, &op));
		TWT_OK(tow_op_release(op));
		assert_int_equal(poll(&waiter, 1, 1000), 1);
		assert_true(tow_progress(side.runtime) >= 0);
	}
	assert_int_equal(twt_pair_end(&side), 0);
}

struct worker {
	struct twt_side *side;
	uint64_t tag;
	int bad;
};

static void *exchange(void *arg)
{
	struct worker *worker = arg;
	size_t bytes = worker->tag % 2 == 0 ? 64 : 100000;
	uint8_t *out = malloc(bytes), *in = malloc(bytes);

	for (uint64_t i = 0; i < 100; i++) {
		struct tow_op *send, *recv;

		twt_fill(out, bytes, worker->tag * 1000 + i);
		TWT_OK(tow_recv_start(worker->side->peer, in, bytes, worker->tag, NULL, &recv));
		TWT_OK(tow_send_start(worker->side->peer, out, bytes, worker->tag, NULL, &send));
		TWT_OK(twt_finish(send, NULL));
		TWT_OK(twt_finish(recv, NULL));
		worker->bad |= twt_check(in, bytes, worker->tag * 1000 + i);
	}
	free(out);
	free(in);
	return NULL;
}

#define WORKERS 4

static int exchange_all(struct twt_side *side, void *arg)
{
	struct worker workers[WORKERS];
	pthread_t threads[WORKERS];
	int bad = 0;

	(void)arg;
	for (uint64_t i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){ side, i, 0 };
		if (pthread_create(&threads[i], NULL, exchange, &workers[i]) != 0)
			abort();
	}
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(threads[i], NULL);
		bad |= workers[i].bad;
	}
	return bad;
}

/* Several threads post and wait on one connection, each with its own ring. */
static void test_threads(void **state)
{
	struct twt_side side;
	uint64_t word = 0;

	(void)state;
	(void)word;
	twt_pair(&side, lane_at, POOL, exchange_all, NULL);
	assert_int_equal(exchange_all(&side, NULL), 0);
	assert_int_equal(twt_pair_end(&side), 0);
}

static int forked_calls(struct twt_side *side)
{
	struct tow_op *op;
	uint64_t word;
	void *memory;

	return tow_alloc(side->runtime, 8, 0, &memory) == TOW_EFORKED &&
			       tow_recv_start(side->peer, &word, 8, 1, NULL, &op) == TOW_EFORKED &&
			       tow_progress(side->runtime) == TOW_EFORKED &&
			       tow_peer_close(side->peer) == TOW_EFORKED &&
			       tow_runtime_close(side->runtime) == TOW_EFORKED
		       ? 0
		       : 1;
}

static void test_fork(void **state)
{
	struct twt_side side;
	pid_t child;
	int how;

	(void)state;
	twt_pair(&side, lane_at, POOL, wait_for_word, NULL);
	child = fork();
	if (child == 0)
		_exit(forked_calls(&side));
	assert_int_equal(waitpid(child, &how, 0), child);
	assert_int_equal(how, 0);
	say_word(&side); /* the parent's traffic is unharmed */
	assert_int_equal(twt_pair_end(&side), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes_pool),
		cmocka_unit_test(test_sizes_heap),
		cmocka_unit_test(test_huge),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_freed_while_queued),
		cmocka_unit_test(test_deadline_and_cancel),
		cmocka_unit_test(test_close_in_flight),
		cmocka_unit_test(test_callback_and_fd),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_fork),
	};
	const struct CMUnitTest tcp_tests[] = {
		cmocka_unit_test(test_sizes_ipv6),
		cmocka_unit_test(test_fd_of_held_back),
	};
	int failed = cmocka_run_group_tests_name("tcp", tests, NULL, NULL);

	failed += cmocka_run_group_tests_name("tcp alone", tcp_tests, NULL, NULL);
	/* By epoll shm has its own tests: the lane needs a poller for its sleepers alone. */
	if (getenv("TOW_POLLER") != NULL)
		return failed;
	lane_at = "shm://*";
	failed += cmocka_run_group_tests_name("shm", tests, NULL, NULL);
	return failed;
}
