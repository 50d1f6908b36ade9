/*
 * test_tcp_direct.c - control streams that a spinning waiter reads itself: when they become direct,
 * when they never do, and what must work all the same when the waiter sleeps, a descriptor is
 * opened, the socket is full, the line breaks or the peer dies. The parent asks, the child answers
 * with what it was told to do and with its own counters.
 */
#include "twt.h"

#include "duo.h"

#include <poll.h>
#include <sched.h>

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/tcp/tcp.h"

#define BIG      (16 << 10) /* goes on control, as all that is not larger */
#define BOUND_NS (60 * TWT_SECOND)
#define BURST    24

/* Sanitized, each byte takes many times as long. */
#ifdef TWT_SANITIZED
#define BURSTS   4
#define TIMES(n) (((n) + 2) / 3)
#else
#define BURSTS   12
#define TIMES(n) (n)
#endif
#define SOME TIMES(300) /* round trips that would make a stream direct many times over */

enum command {
	ECHO,
	LATE,  /* after a while */
	AGAIN, /* a burst follows: read it after a while, verify it, then answer */
	BREAK, /* end the control connection, then answer */
	DIE,   /* end the control connection, and by SIGKILL */
	STOP,
};

struct word {
	uint64_t number;
	uint32_t command, bytes; /* of the word, and of each message of a burst */
	uint64_t burst, pause_us;
	uint64_t tests;           /* who reads the burst never sleeps, and so acknowledges late */
	uint64_t receives, sends; /* direct ones, of who answers */
};

static uint64_t seed;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TWT_SECOND + (uint64_t)ts.tv_nsec;
}

static uint64_t counter(const struct twt_side *side, enum twi_counter id)
{
	return twi_counter_sum(twi_runtime_engine(side->runtime)->diag, id);
}

static struct twi_tcp_stream *control_of(const struct twt_side *side)
{
	return ((struct twi_tcp_peer *)(void *)side->peer)->lines[0].stream;
}

/* Only where nobody else drives: background = 0. */
static bool is_direct(const struct twt_side *side)
{
	return control_of(side) != NULL && control_of(side)->direct;
}

static void put(uint8_t *at, const struct word *word)
{
	memcpy(at, word, sizeof(*word));
	twt_fill(at + sizeof(*word), word->bytes - sizeof(*word), word->number);
}

static bool take(const uint8_t *at, uint64_t bytes, struct word *word_out)
{
	memcpy(word_out, at, sizeof(*word_out));
	return bytes == word_out->bytes &&
	       twt_check(at + sizeof(*word_out), bytes - sizeof(*word_out), word_out->number) == 0;
}

/* ---- the child ---- */

/* By tow_op_test alone, or by a wait. */
static void end(struct tow_op *op, bool tests, struct tow_result *result_out)
{
	uint64_t until = now_ns() + BOUND_NS;

	while (tests && tow_op_test(op) == TOW_AGAIN) {
		if (now_ns() > until) {
			fprintf(stderr, "an operation does not end by tests alone\n");
			abort(); /* in the child, too */
		}
		sched_yield(); /* whoever is to answer may have no core */
	}
	TWT_OK(twt_finish(op, result_out));
}

static bool take_burst(const struct twt_side *side, const struct word *word)
{
	static uint8_t in[BIG];

	usleep((useconds_t)word->pause_us);
	for (uint64_t i = 0; i < word->burst; i++) {
		struct tow_result result;
		struct tow_op *op;

		TWT_OK(tow_recv_start(side->peer, in, sizeof(in), 3, NULL, &op));
		end(op, word->tests != 0, &result);
		if (result.bytes != word->bytes ||
		    twt_check(in, result.bytes, word->number * 1000 + i) != 0)
			return false;
	}
	return true;
}

static int serve_peer(struct twt_side *side, bool *over)
{
	static uint8_t in[BIG], out[BIG];
	struct tow_result result;
	struct word word;
	struct tow_op *op;

	TWT_OK(tow_recv_start(side->peer, in, sizeof(in), 1, NULL, &op));
	TWT_OK(twt_finish(op, &result));
	if (!take(in, result.bytes, &word))
		return 1;
	*over = word.command == STOP;
	if (word.command == LATE)
		usleep((useconds_t)word.pause_us);
	if (word.command == AGAIN && !take_burst(side, &word))
		return 2;
	if (word.command == BREAK || word.command == DIE)
		shutdown(control_of(side)->fd, SHUT_RDWR);
	if (word.command == DIE)
		raise(SIGKILL);
	word.receives = counter(side, TWI_C_direct_receives);
	word.sends = counter(side, TWI_C_direct_sends);
	put(out, &word);
	TWT_OK(tow_send_start(side->peer, out, word.bytes, 2, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	return 0;
}

static int serve(struct twt_duo *duo)
{
	bool over = false;
	int bad = 0;

	while (!over && bad == 0)
		bad = serve_peer(&duo->side, &over);
	return bad;
}

/* ---- the parent ---- */

struct asker {
	struct twt_duo duo;
	struct twt_side *side;
	uint64_t random, number;
	bool tests_only; /* by tow_op_test, not by tow_op_wait */
	struct word theirs;
	uint8_t out[BIG], in[BIG];
	struct tow_op *recv;
};

static struct asker *open_asker(const struct tow_options *options, int (*child)(struct twt_duo *))
{
	struct asker *a = calloc(1, sizeof(*a));

	twt_duo_init(&a->duo);
	if (options != NULL)
		a->duo.parent = a->duo.child = *options;
	twt_duo_open(&a->duo, child);
	a->side = &a->duo.side;
	a->random = seed;
	return a;
}

static void ask(struct asker *a, struct word word)
{
	struct tow_op *op;

	word.number = ++a->number;
	if (word.bytes == 0)
		word.bytes = (uint32_t)(sizeof(word) + twt_random_below(&a->random, 1500));
	put(a->out, &word);
	TWT_OK(tow_recv_start(a->side->peer, a->in, sizeof(a->in), 2, NULL, &a->recv));
	TWT_OK(tow_send_start(a->side->peer, a->out, word.bytes, 1, NULL, &op));
	TWT_OK(tow_op_release(op));
}

static void hear(struct asker *a)
{
	struct tow_result result;

	end(a->recv, a->tests_only, &result);
	a->recv = NULL;
	assert_true(take(a->in, result.bytes, &a->theirs));
	assert_int_equal(a->theirs.number, a->number);
}

static void converse(struct asker *a, unsigned times)
{
	while (times-- > 0) {
		ask(a, (struct word){ .command = ECHO });
		hear(a);
	}
}

/* Until both sides have received and sent directly, from now on. */
static void converse_until_direct(struct asker *a)
{
	uint64_t receives = counter(a->side, TWI_C_direct_receives),
		 sends = counter(a->side, TWI_C_direct_sends), until = now_ns() + BOUND_NS;
	struct word before;

	converse(a, 1);
	before = a->theirs;
	do {
		converse(a, 20);
		assert_true(now_ns() < until);
	} while (counter(a->side, TWI_C_direct_receives) == receives ||
		 counter(a->side, TWI_C_direct_sends) == sends ||
		 a->theirs.receives == before.receives || a->theirs.sends == before.sends);
}

/* Until the parent's control stream is direct now. */
static void be_direct_now(struct asker *a)
{
	uint64_t until = now_ns() + BOUND_NS;

	while (!is_direct(a->side)) {
		converse(a, 1);
		assert_true(now_ns() < until);
	}
}

static void close_asker(struct asker *a)
{
	ask(a, (struct word){ .command = STOP });
	hear(a);
	assert_int_equal(twt_duo_end(&a->duo), 0);
	free(a);
}

static void assert_never(const struct asker *a)
{
	assert_int_equal(counter(a->side, TWI_C_direct_receives), 0);
	assert_int_equal(counter(a->side, TWI_C_direct_sends), 0);
}

static struct tow_options alone(void)
{
	struct tow_options options = twt_duo_options();

	options.background = 0;
	return options;
}

/* Nothing is due by the clock, which would help along what is stuck. */
static struct tow_options patient(void)
{
	struct tow_options options = alone();

	options.heartbeat_ns = 300 * (int64_t)TWT_SECOND;
	options.peer_timeout_ns = 3000 * (int64_t)TWT_SECOND;
	return options;
}

/* An answer that comes long after the waiter has gone to sleep comes by the ring. */
static void sleep_through_one(struct asker *a)
{
	for (int tries = 0; tries < 50; tries++) {
		uint64_t slept = counter(a->side, TWI_C_wait_sleeps), receives;

		ask(a, (struct word){ .command = LATE, .pause_us = 40000 });
		(void)tow_op_wait(a->recv, 10000000);
		receives = counter(a->side, TWI_C_direct_receives);
		if (counter(a->side, TWI_C_wait_sleeps) == slept ||
		    tow_op_test(a->recv) != TOW_AGAIN) {
			hear(a); /* this machine was busy with others */
			continue;
		}
		hear(a);
		assert_int_equal(counter(a->side, TWI_C_direct_receives), receives);
		return;
	}
	fail_msg("the waiter never slept");
}

static void sleep_between(const struct tow_options *options)
{
	struct asker *a = open_asker(options, serve);

	for (int i = 0; i < TIMES(3); i++) {
		converse_until_direct(a);
		sleep_through_one(a);
		converse_until_direct(a);
		usleep(30000); /* nobody calls the library: the child sleeps in its wait */
		converse(a, 3);
	}
	close_asker(a);
}

static void test_sleep(void **state)
{
	struct tow_options options = alone();

	(void)state;
	sleep_between(NULL);
	sleep_between(&options);
}

/* One that only tests does not make a stream direct, and reads well what a waiter made direct. */
static void test_only_tests(void **state)
{
	struct tow_options options = alone();
	struct asker *a = open_asker(&options, serve);

	(void)state;
	a->tests_only = true;
	converse(a, SOME);
	assert_never(a);
	a->tests_only = false;
	for (int i = 0; i < TIMES(10); i++) {
		uint64_t receives;

		be_direct_now(a);
		a->tests_only = true;
		converse(a, 20);
		ask(a, (struct word){ .command = LATE, .pause_us = 20000 });
		hear(a);
		for (int n = 0; n < 100000 && is_direct(a->side); n++)
			tow_progress(a->side->runtime);
		assert_false(is_direct(a->side)); /* nothing has come for long */
		receives = counter(a->side, TWI_C_direct_receives);
		converse(a, 50);
		assert_int_equal(counter(a->side, TWI_C_direct_receives), receives);
		a->tests_only = false;
	}
	close_asker(a);
}

/* Waits on the descriptor alone for what is asked. */
static void hear_by_fd(struct asker *a, int fd)
{
	struct pollfd waiter = { .fd = fd, .events = POLLIN };

	for (int i = 0; i < 1000 && tow_op_test(a->recv) == TOW_AGAIN; i++) {
		assert_int_equal(poll(&waiter, 1, 10000), 1);
		assert_true(tow_progress(a->side->runtime) >= 0);
	}
	hear(a);
}

/* Beside a descriptor nothing is direct, and what was is not any more: it says when to look. */
static void test_fd(void **state)
{
	struct tow_options options = patient();
	uint64_t receives, sends;
	struct asker *a;
	int fd;

	(void)state;
	for (int first = 0; first < 2; first++) {
		a = open_asker(&options, serve);
		if (!first)
			be_direct_now(a);
		ask(a, (struct word){ .command = LATE, .pause_us = 5000 });
		TWT_OK(tow_fd(a->side->runtime, &fd));
		assert_false(is_direct(a->side));
		receives = counter(a->side, TWI_C_direct_receives);
		sends = counter(a->side, TWI_C_direct_sends);
		hear_by_fd(a, fd);
		for (int i = 0; i < 5; i++) {
			ask(a, (struct word){ .command = LATE, .pause_us = 3000 });
			TWT_OK(tow_flush(a->side->runtime));
			hear_by_fd(a, fd);
		}
		converse(a, SOME);
		assert_int_equal(counter(a->side, TWI_C_direct_receives), receives);
		assert_int_equal(counter(a->side, TWI_C_direct_sends), sends);
		close_asker(a);
	}
}

static void test_encrypted(void **state)
{
	struct tow_options options = twt_duo_options();
	struct asker *a;

	(void)state;
	options.job_key = "a secret of this job: 8d2c9f";
	options.encrypt = 1;
	a = open_asker(&options, serve);
	converse(a, SOME);
	assert_never(a);
	assert_int_equal(a->theirs.receives, 0);
	assert_int_equal(a->theirs.sends, 0);
	close_asker(a);
}

/* More than the socket takes goes out while it is direct: all of it arrives, in order. */
static void burst(struct asker *a, uint64_t pause_us)
{
	static uint8_t out[BURST][BIG];
	struct word word = { .command = AGAIN, .burst = BURST, .pause_us = pause_us };
	struct tow_op *ops[BURST];

	word.tests = a->tests_only;
	word.bytes = (uint32_t)(BIG - twt_random_below(&a->random, 2) * 5000);
	ask(a, word);
	for (uint64_t i = 0; i < BURST; i++) {
		twt_fill(out[i], word.bytes, a->number * 1000 + i);
		TWT_OK(tow_send_start(a->side->peer, out[i], word.bytes, 3, NULL, &ops[i]));
	}
	hear(a); /* by tests alone, or by a wait that may sleep */
	for (uint64_t i = 0; i < BURST; i++)
		TWT_OK(twt_finish(ops[i], NULL));
}

static void test_more_than_the_socket_takes(void **state)
{
	static const int64_t buffers[] = { 8 << 10, 40 << 10, 64 << 10, 96 << 10, 1 << 20 };

	(void)state;
	for (size_t b = 0; b < sizeof(buffers) / sizeof(buffers[0]); b++) {
		struct tow_options options = patient();
		uint64_t sends;
		struct asker *a;

		options.socket_buffer_bytes = buffers[b];
		a = open_asker(&options, serve);
		for (int i = 0; i < BURSTS; i++) {
			be_direct_now(a);
			sends = counter(a->side, TWI_C_direct_sends);
			a->tests_only = i % 2 == 0;
			burst(a, twt_random_below(&a->random, 800));
			a->tests_only = false;
			assert_true(counter(a->side, TWI_C_direct_sends) > sends);
		}
		close_asker(a);
	}
}

/* A connection that ends while it is direct is resumed, and the next one becomes direct, too. */
static void test_broken(void **state)
{
	struct tow_options options = alone();
	struct asker *a = open_asker(&options, serve);

	(void)state;
	for (uint64_t i = 1; i <= 5; i++) {
		be_direct_now(a);
		ask(a, (struct word){ .command = BREAK });
		hear(a);
		assert_int_equal(counter(a->side, TWI_C_streams_resumed), i);
		converse(a, 3);
	}
	converse_until_direct(a);
	close_asker(a);
}

static void expect_gone(struct asker *a)
{
	int how;

	assert_int_equal(twt_finish(a->recv, NULL), TOW_EPEER);
	TWT_OK(tow_recv_start(a->side->peer, a->in, sizeof(a->in), 2, NULL, &a->recv));
	assert_int_equal(twt_finish(a->recv, NULL), TOW_EPEER);
	assert_int_equal(((struct twi_tcp_lane *)(void *)a->side->peer->lane)->direct.count, 0);
	how = twt_duo_end(&a->duo);
	assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
	free(a);
}

/* kill -9 while the waiter spins: at its word, and at any moment. */
static void test_killed(void **state)
{
	struct tow_options options = alone();

	(void)state;
	for (int i = 0; i < TIMES(4); i++) {
		struct asker *a = open_asker(&options, serve);

		be_direct_now(a);
		if (i % 2 == 0) {
			ask(a, (struct word){ .command = DIE });
		} else {
			ask(a, (struct word){ .command = LATE, .pause_us = 100000 });
			kill(a->side->child, SIGKILL);
		}
		expect_gone(a);
	}
}

/* ---- more peers than can be direct ---- */

#define MANY (2 * TWI_TCP_DIRECT_MAX + 1)

static int serve_many(struct twt_duo *duo)
{
	struct twt_side sides[MANY];
	unsigned left = MANY;
	bool over;

	for (unsigned i = 0; i < MANY; i++) {
		sides[i] = duo->side;
		if (i > 0)
			sides[i].peer = twt_connect(duo->side.endpoint, duo->side.peer->address);
	}
	while (left > 0) {
		for (unsigned i = 0; i < MANY; i++) {
			int bad = serve_peer(&sides[i], &over);

			if (bad != 0)
				return bad;
			left -= over;
		}
		if (((struct twi_tcp_lane *)(void *)duo->side.peer->lane)->direct.count >
		    TWI_TCP_DIRECT_MAX)
			return 9;
	}
	return 0;
}

static void ask_all(struct asker *peers[MANY], enum command command)
{
	for (unsigned i = 0; i < MANY; i++)
		ask(peers[i], (struct word){ .command = (uint32_t)command });
	for (unsigned i = 0; i < MANY; i++)
		hear(peers[i]);
}

/* Some are direct, the others are not, and all are served. */
static void test_many_peers(void **state)
{
	struct tow_options options = alone();
	uint64_t until = now_ns() + 3 * BOUND_NS;
	const struct twi_tcp_direct *direct;
	struct asker *peers[MANY];
	struct twt_side sides[MANY];
	unsigned most = 0;

	(void)state;
	peers[0] = open_asker(&options, serve_many);
	direct = &((struct twi_tcp_lane *)(void *)peers[0]->side->peer->lane)->direct;
	for (unsigned i = 1; i < MANY; i++) {
		sides[i] = *peers[0]->side;
		sides[i].peer = twt_accept(sides[i].endpoint);
		peers[i] = calloc(1, sizeof(*peers[i]));
		peers[i]->side = &sides[i];
		peers[i]->random = seed + i;
	}
	for (unsigned rounds = 0; rounds < SOME || most < TWI_TCP_DIRECT_MAX; rounds++) {
		ask_all(peers, ECHO);
		assert_true(direct->count <= TWI_TCP_DIRECT_MAX);
		most = twi_max(most, direct->count);
		assert_true(now_ns() < until);
	}
	ask_all(peers, STOP);
	assert_int_equal(twt_duo_end(&peers[0]->duo), 0);
	for (unsigned i = 0; i < MANY; i++)
		free(peers[i]);
}

static void test_ping_pong(void **state)
{
	struct asker *a = open_asker(NULL, serve);

	(void)state;
	for (int i = 0; i < TIMES(20); i++)
		converse_until_direct(a);
	close_asker(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ping_pong),
		cmocka_unit_test(test_sleep),
		cmocka_unit_test(test_only_tests),
		cmocka_unit_test(test_fd),
		cmocka_unit_test(test_encrypted),
		cmocka_unit_test(test_more_than_the_socket_takes),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_many_peers),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
