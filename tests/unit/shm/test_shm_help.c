/*
 * test_shm_help.c - large messages out of memory outside the pool, which both sides move together
 * (shm_help.c): every way in which the two meet, a sender that does not come, one that may not, one
 * whose memory is bad, reads that fail, receives that are taken back in the middle.
 *
 *	TOW_TEST_SEED=S   who has how many turns
 */
#include "shm_pair.h"

#include <sys/mman.h>

#define LARGE (6u << 20)
#define PAGE  4096u

static uint8_t *out, *in;

static int set_up(void **state)
{
	out = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	in = malloc(LARGE);
	assert_true(out != MAP_FAILED);
	assert_int_equal(twt_shm_open(state), 0);
	twt_shm_inside(1)->read_cost = UINT32_MAX / 4; /* help pays, whatever it costs */
	return 0;
}

static int tear_down(void **state)
{
	const struct twi_staging *staging = &twi_runtime_engine(twt_shm.runtime[0])->staging;

	twt_shm_settle();
	assert_int_equal(staging->free_count, staging->chunks);
	assert_true(twi_list_empty(&twt_shm_inside(1)->helped));
	assert_int_equal(twt_shm_inside(0)->offer_count, 0);
	assert_int_equal(twt_shm_inside(1)->expecting, 0);
	munmap(out, LARGE);
	free(in);
	return twt_shm_close(state);
}

static void drive(int i, unsigned turns)
{
	for (unsigned n = 0; n < turns; n++)
		(void)tow_progress(twt_shm.runtime[i]);
}

static uint64_t helped_bytes(void)
{
	return twt_shm_reasons(0, TWI_R_unregistered_send);
}

static uint64_t read_bytes(void)
{
	return twt_shm_reasons(1, TWI_R_remote_memory);
}

static struct twi_shm_incoming *first_incoming(void)
{
	return &twt_shm_inside(1)->incoming[0];
}

/* A slot that is free still has the count of its last message. */
static bool some_came(void)
{
	return first_incoming()->used && first_incoming()->came_bytes > 0;
}

/* Starts both, and has some pieces come, but not all. False: the receive has ended before. */
static bool begins(struct tow_op **send_out, struct tow_op **recv_out, uint64_t timeout_ns)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	options.timeout_ns = timeout_ns;
	memset(in, 0, LARGE);
	twt_fill(out, LARGE, 7);
	TWT_OK(tow_recv_start(twt_shm.peer[1], in, LARGE, 1, &options, recv_out));
	*send_out = twt_shm_send(0, out, LARGE, 1);
	for (int n = 0; n < 100 && !some_came(); n++)
		twt_shm_turn();
	return tow_op_test(*recv_out) == TOW_AGAIN;
}

static void begin(struct tow_op **send_out, struct tow_op **recv_out)
{
	assert_true(begins(send_out, recv_out, TOW_FOREVER) && some_came());
	assert_in_range(first_incoming()->came_bytes, 1, LARGE - 1);
}

static void must_arrive(struct tow_op *send, struct tow_op *recv, uint64_t bytes, uint64_t seed)
{
	struct tow_result result;

	assert_int_equal(twt_shm_finish(recv, &result, false), TOW_OK);
	assert_int_equal(result.bytes, bytes);
	assert_int_equal(twt_check(in, bytes, seed), 0);
	assert_int_equal(twt_shm_finish(send, &result, false), TOW_OK);
	assert_int_equal(result.bytes, bytes);
}

static void test_sizes(void **state)
{
	static const uint64_t sizes[] = { 65536, 65537, 131071, 300001, 1 << 20, LARGE - 3, LARGE };

	(void)state;
	for (size_t i = 0; i < twi_array_count(sizes); i++) {
		for (int early = 0; early < 2; early++) {
			uint64_t bytes = sizes[i], helped = helped_bytes();
			struct tow_op *send, *recv = NULL;

			memset(in, 0, LARGE);
			twt_fill(out, bytes, i);
			if (early)
				recv = twt_shm_recv(1, in, LARGE, 1);
			send = twt_shm_send(0, out, bytes, 1);
			drive(0, 4);
			if (!early)
				recv = twt_shm_recv(1, in, LARGE, 1);
			must_arrive(send, recv, bytes, i);
			assert_true(early || bytes < LARGE / 2 || helped_bytes() > helped);
		}
	}
}

/* The sender has started it and does not come back: it holds nobody up. */
static void test_absent(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		uint64_t until = twi_now_ns() + 10 * TWT_SECOND;
		struct tow_op *send, *recv;

		twt_fill(out, LARGE, i);
		recv = twt_shm_recv(1, in, LARGE, 1);
		send = twt_shm_send(0, out, LARGE, 1);
		while (tow_op_test(recv) == TOW_AGAIN && twi_now_ns() < until)
			drive(1, 1);
		/* After the first, one goes without a question; it is answered late, in vain. */
		assert_int_equal(first_incoming()->used, false);
		must_arrive(send, recv, LARGE, i);
		assert_int_equal(helped_bytes(), 0);
	}
	assert_int_equal(twt_shm_inside(1)->help_misses, 2);
	assert_true(read_bytes() > 0);
}

/* Each has some turns, then the other; whoever has none does not hold up the message. */
static void test_any_turns(void **state)
{
	uint64_t random = twt_seed();

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		uint64_t bytes = 65536 + twt_random_below(&random, LARGE - 65536);
		uint64_t room = i % 4 == 0 ? bytes / 2 : bytes;
		struct tow_op_options options = TOW_OP_OPTIONS_INIT;
		struct tow_op *send, *recv;
		struct tow_result result;

		options.flags = TOW_OP_TRUNCATE;
		twt_fill(out, bytes, i);
		memset(in, 0, LARGE);
		TWT_OK(tow_recv_start(twt_shm.peer[1], in, room, 1, &options, &recv));
		send = twt_shm_send(0, out, bytes, 1);
		while (tow_op_test(recv) == TOW_AGAIN)
			drive(twt_random_below(&random, 3) == 0 ? 0 : 1,
			      1 + (unsigned)twt_random_below(&random, 30));
		assert_int_equal(twt_shm_finish(recv, &result, false), TOW_OK);
		assert_int_equal(twt_check(in, room, i), 0);
		assert_true(room == LARGE || in[room] == 0);
		(void)twt_shm_finish(send, NULL, false);
	}
	assert_true(helped_bytes() > 0 && read_bytes() > 0);
}

/* What may not, or cannot, be staged is read: nothing of it is copied at the sender. */
static void test_unhelped(void **state)
{
	struct twi_engine *engine = twi_runtime_engine(twt_shm.runtime[0]);
	const uint32_t chunks = engine->staging.chunks;

	(void)state;
	for (int way = 0; way < 3; way++) {
		struct tow_op *send, *recv;

		engine->knobs.require_zero_copy = way == 0;
		engine->staging.chunks = way == 1 ? 0 : chunks;
		twt_shm_inside(1)->helps = way != 2; /* a side of an older version */
		twt_fill(out, LARGE, 1);
		recv = twt_shm_recv(1, in, LARGE, 1);
		send = twt_shm_send(0, out, LARGE, 1);
		must_arrive(send, recv, LARGE, 1);
		assert_int_equal(helped_bytes(), 0);
	}
	engine->staging.chunks = chunks;
}

/* Nobody is asked before it is known what reading costs, nor while pieces cost more than that. */
static void test_costs(void **state)
{
	struct twi_shm_peer *peer = twt_shm_inside(1);

	(void)state;
	peer->read_cost = 0;
	for (unsigned i = 0; i < 4; i++) {
		uint64_t helped = helped_bytes();
		struct tow_op *send, *recv;

		if (i == 2) {
			peer->read_cost = 16;
			peer->piece_cost = UINT32_MAX / 4;
			peer->help_unasked = 0;
		} else if (i > 0 && i < 3) {
			peer->read_cost = UINT32_MAX / 4;
		}
		twt_fill(out, LARGE, i);
		recv = twt_shm_recv(1, in, LARGE, 1);
		send = twt_shm_send(0, out, LARGE, 1);
		must_arrive(send, recv, LARGE, i);
		assert_int_equal(helped_bytes() > helped, i == 1 || i == 2);
		if (i == 0) {
			assert_in_range(peer->read_cost, 16, UINT32_MAX / 4);
			assert_int_equal(peer->piece_cost, 0);
		} else if (i == 1) {
			assert_in_range(peer->piece_cost, 16, UINT32_MAX / 4);
		}
	}
	assert_int_equal(peer->help_unasked, 254);
	assert_int_equal(peer->piece_cost, 0);
}

/* A page in the middle cannot be read, or is not there, or the file is shorter. */
static void test_bad_memory(void **state)
{
	(void)state;
	for (int way = 0; way < 3; way++) {
		int fd = memfd_create("short", MFD_CLOEXEC);
		struct tow_op *send, *recv;

		twt_fill(out, LARGE, 1);
		if (way == 0) {
			assert_int_equal(mprotect(out + LARGE / 2, PAGE, PROT_NONE), 0);
		} else if (way == 1) {
			assert_int_equal(munmap(out + LARGE / 2, PAGE), 0);
		} else {
			assert_int_equal(ftruncate(fd, PAGE), 0);
			assert_true(mmap(out, LARGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) ==
				    out);
		}
		recv = twt_shm_recv(1, in, LARGE, 1);
		send = twt_shm_send(0, out, LARGE, 1);
		assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_EFAULT);
		assert_int_equal(twt_shm_finish(send, NULL, false), TOW_EFAULT);
		assert_true(mmap(out, LARGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == out);
		close(fd);
	}
}

/* The receiver's memory is bad: at its end, where the receiver reads, or at its beginning. */
static void test_bad_receive(void **state)
{
	uint8_t *bad =
		mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	for (int way = 0; way < 4; way++) {
		uint8_t *page = way % 2 == 0 ? bad + LARGE - PAGE : bad;
		struct tow_op *send, *recv;

		assert_int_equal(mprotect(page, PAGE, PROT_NONE), 0);
		recv = twt_shm_recv(1, bad, LARGE, 1);
		send = twt_shm_send(0, out, LARGE, 1);
		while (way < 2 && tow_op_test(recv) == TOW_AGAIN)
			drive(1, 1);
		assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_EFAULT);
		assert_int_equal(twt_shm_finish(send, NULL, false), TOW_EFAULT);
		assert_int_equal(mprotect(page, PAGE, PROT_READ | PROT_WRITE), 0);
	}
	munmap(bad, LARGE);
}

/* Neither side can move it: the send ends with the cause, and the receive has the next message. */
static void test_no_way(void **state)
{
	struct twi_engine *engine = twi_runtime_engine(twt_shm.runtime[0]);
	const uint32_t chunks = engine->staging.chunks;
	pid_t pid = twt_shm_inside(1)->pid;
	struct tow_op *send, *recv;

	(void)state;
	engine->staging.chunks = 0;
	twt_shm_inside(1)->pid = 0x7fffffff;
	for (int bad = 0; bad < 2; bad++) {
		recv = twt_shm_recv(1, in, LARGE, 1);
		if (bad)
			assert_int_equal(mprotect(out, PAGE, PROT_NONE), 0);
		send = twt_shm_send(0, out, LARGE, 1);
		assert_int_equal(twt_shm_finish(send, NULL, false),
				 bad ? TOW_EFAULT : TOW_EEXHAUSTED);
		if (bad) {
			assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_EFAULT);
			continue;
		}
		assert_non_null(strstr(tow_error_message(), "staging_bytes is 0"));
		assert_int_equal(tow_op_test(recv), TOW_AGAIN);
		send = twt_shm_send(0, "small", 6, 1);
		assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_OK);
		assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
		assert_string_equal((char *)in, "small");
	}
	engine->staging.chunks = chunks;
	twt_shm_inside(1)->pid = pid;
}

/* Receivers that have asked and do not come hold no more than half of the staging. */
static void test_leaves_half(void **state)
{
	enum { MANY = 6 };
	struct twi_staging *staging = &twi_runtime_engine(twt_shm.runtime[0])->staging;
	struct tow_op *sends[MANY], *recvs[MANY];
	const uint64_t bytes = LARGE / MANY;

	(void)state;
	for (unsigned i = 0; i < MANY; i++) {
		twt_fill(out + i * bytes, bytes, i);
		recvs[i] = twt_shm_recv(1, in + i * bytes, bytes, i);
		sends[i] = twt_shm_send(0, out + i * bytes, bytes, i);
	}
	drive(1, 1);
	drive(0, 100);
	assert_in_range(staging->free_count, staging->chunks / 2, staging->chunks - 1);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(twt_shm_finish(recvs[i], NULL, false), TOW_OK);
		assert_int_equal(twt_check(in + i * bytes, bytes, i), 0);
		assert_int_equal(twt_shm_finish(sends[i], NULL, false), TOW_OK);
	}
}

/* Reading begins to fail in the middle: pieces bring the rest. */
static void test_unreadable_now(void **state)
{
	pid_t pid = twt_shm_inside(1)->pid;
	struct tow_op *send, *recv;

	(void)state;
	begin(&send, &recv);
	twt_shm_inside(1)->pid = 0x7fffffff;
	while (!first_incoming()->pieces_only && tow_op_test(recv) == TOW_AGAIN)
		drive(1, 1);
	assert_true(first_incoming()->pieces_only);
	must_arrive(send, recv, LARGE, 7);
	twt_shm_inside(1)->pid = pid;
}

/* It is over in the middle, with the message whole; the next receive has it from its first byte. */
static void take_back_in_the_middle(struct tow_op **send_out)
{
	uint64_t timeout_ns = 500 * 1000, until;
	struct tow_op *recv;

	/* A busy machine gets a longer deadline, until pieces come before it. */
	while (!begins(send_out, &recv, timeout_ns)) {
		assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_EDEADLINE);
		must_arrive(*send_out, twt_shm_recv(1, in, LARGE, 1), LARGE, 7);
		timeout_ns *= 4;
		assert_in_range(timeout_ns, 1, 20 * TWT_SECOND);
	}
	assert_true(some_came());
	assert_in_range(first_incoming()->came_bytes, 1, LARGE - 1);
	until = twi_now_ns() + timeout_ns;
	while (twi_now_ns() < until)
		continue;
	assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_EDEADLINE);
	memset(in, 0, LARGE);
}

static void test_taken_back(void **state)
{
	struct tow_op *send;

	(void)state;
	for (int way = 0; way < 2; way++) {
		struct tow_op *recv;

		take_back_in_the_middle(&send);
		drive(0, way * 100);
		recv = twt_shm_recv(1, in, LARGE, 1);
		must_arrive(send, recv, LARGE, 7);
	}
	take_back_in_the_middle(&send);
	TWT_OK(tow_op_cancel(send));
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_ECANCELED);
	twt_shm_settle();
}

/* And it can no longer be read: nobody can have it, and both are told. */
static void test_taken_back_and_unreadable(void **state)
{
	pid_t pid = twt_shm_inside(1)->pid;
	struct tow_op *send, *recv;

	(void)state;
	take_back_in_the_middle(&send);
	twt_shm_inside(1)->pid = 0x7fffffff;
	recv = twt_shm_recv(1, in, LARGE, 1);
	assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_EFAULT);
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_ECANCELED);
	twt_shm_inside(1)->pid = pid;
}

int main(void)
{
#define HELP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		HELP_TEST(test_sizes),       HELP_TEST(test_absent),
		HELP_TEST(test_any_turns),   HELP_TEST(test_unhelped),
		HELP_TEST(test_costs),       HELP_TEST(test_bad_memory),
		HELP_TEST(test_bad_receive), HELP_TEST(test_no_way),
		HELP_TEST(test_leaves_half), HELP_TEST(test_unreadable_now),
		HELP_TEST(test_taken_back),  HELP_TEST(test_taken_back_and_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
