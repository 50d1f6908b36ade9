/*
 * test_tcp_direct.c - control streams that whoever polls reads itself: when they become direct,
 * when they never do, and what must work all the same when the waiter sleeps, a caller stops to
 * poll, a descriptor is opened, the socket is full, the line breaks or the peer dies. The parent
 * asks, the child answers with what it was told to do and with its own counters.
 */
#include "twt.h"

#include "asker.h"

#include <poll.h>
#include <sched.h>

#include "diag/base/clock.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/tcp/tcp.h"

#define BURST 24

/* Sanitized, each byte takes many times as long. */
#ifdef TWT_SANITIZED
#define BURSTS   4
#define TIMES(n) (((n) + 2) / 3)
#else
#define BURSTS   12
#define TIMES(n) (n)
#endif
#define SOME TIMES(300) /* round trips that would make a stream direct many times over */

static void assert_never(const struct twt_asker *a)
{
	assert_int_equal(twt_side_counter(a->side, TWI_C_direct_receives), 0);
	assert_int_equal(twt_side_counter(a->side, TWI_C_direct_sends), 0);
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
static void sleep_through_one(struct twt_asker *a)
{
	for (int tries = 0; tries < 50; tries++) {
		uint64_t slept = twt_side_counter(a->side, TWI_C_wait_sleeps), receives;

		twt_ask(a, (struct twt_word){ .command = TWT_SAY_LATE, .pause_us = 40000 });
		(void)tow_op_wait(a->recv, 10000000);
		receives = twt_side_counter(a->side, TWI_C_direct_receives);
		if (twt_side_counter(a->side, TWI_C_wait_sleeps) == slept ||
		    tow_op_test(a->recv) != TOW_AGAIN) {
			twt_hear(a); /* this machine was busy with others */
			continue;
		}
		twt_hear(a);
		assert_int_equal(twt_side_counter(a->side, TWI_C_direct_receives), receives);
		return;
	}
	fail_msg("the waiter never slept");
}

static void sleep_between(const struct tow_options *options)
{
	struct twt_asker *a = twt_asker_open(options, twt_asker_serve);

	for (int i = 0; i < TIMES(3); i++) {
		twt_converse_until_direct(a);
		sleep_through_one(a);
		twt_converse_until_direct(a);
		usleep(30000); /* nobody calls the library: the child sleeps in its wait */
		twt_converse(a, 3);
	}
	twt_asker_close(a);
}

static void test_sleep(void **state)
{
	struct tow_options options = alone();

	(void)state;
	sleep_between(NULL);
	sleep_between(&options);
}

/* Nothing comes for long, and whoever polls goes on: it is armed again, and direct once more. */
static void poll_in_vain(struct twt_asker *a)
{
	struct tow_op *op;

	twt_ask(a, (struct twt_word){ .command = TWT_SAY_LATE, .pause_us = 20000 });
	twt_hear(a);
	TWT_OK(tow_recv_start(a->side->peer, a->in, sizeof(a->in), 9, NULL, &op));
	for (int n = 0; n < 100000 && twt_is_direct(a->side); n++)
		assert_false(twt_look(a->side, op, a->drive));
	assert_false(twt_is_direct(a->side));
	TWT_OK(tow_op_cancel(op));
	assert_int_equal(twt_finish(op, NULL), TOW_ECANCELED);
}

/* Who never waits makes streams direct as a waiter does, however it polls. */
static void test_pollers(void **state)
{
	static const enum twt_drive drives[] = { TWT_BY_TEST, TWT_BY_PROGRESS, TWT_BY_QUEUE };
	struct tow_options options = alone();
	struct twt_asker *a = twt_asker_open(&options, twt_asker_serve);

	(void)state;
	TWT_OK(tow_queue_open(a->side->runtime, 4, &twt_idle_queue));
	for (int i = 0; i < TIMES(9); i++) {
		a->drive = drives[i % 3];
		twt_converse_until_direct(a);
		twt_be_direct_now(a);
		poll_in_vain(a);
	}
	a->drive = TWT_BY_WAIT;
	TWT_OK(tow_queue_close(twt_idle_queue));
	twt_asker_close(a);
}

/* A caller that has polled looks no more: the library's thread reads what it had read itself. */
static void test_polls_no_more(void **state)
{
	struct twt_asker *a = twt_asker_open(NULL, twt_asker_serve);

	(void)state;
	for (int i = 0; i < TIMES(6); i++) {
		struct tow_result result = TOW_RESULT_INIT;
		uint64_t until = twi_now_ns() + TWT_ASK_BOUND_NS;

		a->drive = i % 2 == 0 ? TWT_BY_TEST : TWT_BY_PROGRESS;
		twt_converse_until_direct(a);
		twt_ask(a, (struct twt_word){ .command = TWT_SAY_LATE, .pause_us = 3000 });
		while (tow_op_result(a->recv, &result) == TOW_AGAIN) { /* it moves nothing */
			assert_true(twi_now_ns() < until);
			usleep(500);
		}
		twt_hear(a);
	}
	twt_asker_close(a);
}

static bool flows(const struct twt_side *side)
{
	return twi_session_flows(twi_session_of(side->peer)) > 0;
}

/* A stream is armed again while a large message is on its way, and direct after it. */
static void test_large_message(void **state)
{
	static uint8_t out[TWT_ASK_LARGE];
	struct tow_options options = alone();
	struct twt_asker *a = twt_asker_open(&options, twt_asker_serve);

	(void)state;
	for (int i = 0; i < TIMES(6); i++) {
		unsigned turns = 0, flowing = 0;
		struct tow_op *op;

		a->drive = i % 2 == 0 ? TWT_BY_TEST : TWT_BY_WAIT;
		twt_be_direct_now(a);
		twt_ask(a, (struct twt_word){ .command = TWT_SAY_LARGER });
		twt_fill(out, TWT_ASK_LARGE, a->number);
		TWT_OK(tow_send_start(a->side->peer, out, TWT_ASK_LARGE, 4, NULL, &op));
		while (tow_op_test(op) == TOW_AGAIN) {
			flowing = flows(a->side) ? flowing + 1 : 0;
			turns += flowing > 1; /* its end may be read before it is known to flow */
			assert_false(flowing > 1 && twt_is_direct(a->side));
			sched_yield();
		}
		assert_true(turns > 0);
		TWT_OK(twt_finish(op, NULL));
		twt_hear(a);
	}
	twt_be_direct_now(a);
	a->drive = TWT_BY_WAIT;
	twt_asker_close(a);
}

/* Waits on the descriptor alone for what is asked. */
static void hear_by_fd(struct twt_asker *a, int fd)
{
	struct pollfd waiter = { .fd = fd, .events = POLLIN };

	for (int i = 0; i < 1000 && tow_op_test(a->recv) == TOW_AGAIN; i++) {
		assert_int_equal(poll(&waiter, 1, 10000), 1);
		assert_true(tow_progress(a->side->runtime) >= 0);
	}
	twt_hear(a);
}

/* Beside a descriptor nothing is direct, and what was is not any more: it says when to twt_look. */
static void test_fd(void **state)
{
	struct tow_options options = patient();
	uint64_t receives, sends;
	struct twt_asker *a;
	int fd;

	(void)state;
	for (int first = 0; first < 2; first++) {
		a = twt_asker_open(&options, twt_asker_serve);
		if (!first)
			twt_be_direct_now(a);
		twt_ask(a, (struct twt_word){ .command = TWT_SAY_LATE, .pause_us = 5000 });
		TWT_OK(tow_fd(a->side->runtime, &fd));
		assert_false(twt_is_direct(a->side));
		receives = twt_side_counter(a->side, TWI_C_direct_receives);
		sends = twt_side_counter(a->side, TWI_C_direct_sends);
		hear_by_fd(a, fd);
		for (int i = 0; i < 5; i++) {
			twt_ask(a, (struct twt_word){ .command = TWT_SAY_LATE, .pause_us = 3000 });
			TWT_OK(tow_flush(a->side->runtime));
			hear_by_fd(a, fd);
		}
		twt_converse(a, SOME);
		assert_int_equal(twt_side_counter(a->side, TWI_C_direct_receives), receives);
		assert_int_equal(twt_side_counter(a->side, TWI_C_direct_sends), sends);
		twt_asker_close(a);
	}
}

static void test_encrypted(void **state)
{
	struct tow_options options = twt_duo_options();
	struct twt_asker *a;

	(void)state;
	options.job_key = "a secret of this job: 8d2c9f";
	options.encrypt = 1;
	a = twt_asker_open(&options, twt_asker_serve);
	twt_converse(a, SOME);
	assert_never(a);
	assert_int_equal(a->theirs.receives, 0);
	assert_int_equal(a->theirs.sends, 0);
	twt_asker_close(a);
}

/* More than the socket takes goes out while it is direct: all of it arrives, in order. */
static void burst(struct twt_asker *a, uint64_t pause_us)
{
	static uint8_t out[BURST][TWT_ASK_MOST];
	struct twt_word word = { .command = TWT_SAY_AGAIN, .burst = BURST, .pause_us = pause_us };
	struct tow_op *ops[BURST];

	word.tests = a->drive == TWT_BY_TEST;
	word.bytes = (uint32_t)(TWT_ASK_MOST - twt_random_below(&a->random, 2) * 5000);
	twt_ask(a, word);
	for (uint64_t i = 0; i < BURST; i++) {
		twt_fill(out[i], word.bytes, a->number * 1000 + i);
		TWT_OK(tow_send_start(a->side->peer, out[i], word.bytes, 3, NULL, &ops[i]));
	}
	twt_hear(a); /* by tests alone, or by a wait that may sleep */
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
		struct twt_asker *a;

		options.socket_buffer_bytes = buffers[b];
		a = twt_asker_open(&options, twt_asker_serve);
		for (int i = 0; i < BURSTS; i++) {
			twt_be_direct_now(a);
			sends = twt_side_counter(a->side, TWI_C_direct_sends);
			a->drive = i % 2 == 0 ? TWT_BY_TEST : TWT_BY_WAIT;
			burst(a, twt_random_below(&a->random, 800));
			a->drive = TWT_BY_WAIT;
			assert_true(twt_side_counter(a->side, TWI_C_direct_sends) > sends);
		}
		twt_asker_close(a);
	}
}

/* A connection that ends while it is direct is resumed, and the next one becomes direct, too. */
static void test_broken(void **state)
{
	struct tow_options options = alone();
	struct twt_asker *a = twt_asker_open(&options, twt_asker_serve);

	(void)state;
	for (uint64_t i = 1; i <= 5; i++) {
		twt_be_direct_now(a);
		twt_ask(a, (struct twt_word){ .command = TWT_SAY_BREAK });
		twt_hear(a);
		assert_int_equal(twt_side_counter(a->side, TWI_C_streams_resumed), i);
		twt_converse(a, 3);
	}
	twt_converse_until_direct(a);
	twt_asker_close(a);
}

static void expect_gone(struct twt_asker *a)
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
		struct twt_asker *a = twt_asker_open(&options, twt_asker_serve);

		twt_be_direct_now(a);
		if (i % 2 == 0) {
			twt_ask(a, (struct twt_word){ .command = TWT_SAY_DIE });
		} else {
			twt_ask(a,
				(struct twt_word){ .command = TWT_SAY_LATE, .pause_us = 100000 });
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
			int bad = twt_asker_serve_one(&sides[i], &over);

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

static void ask_all(struct twt_asker *peers[MANY], enum twt_command command)
{
	for (unsigned i = 0; i < MANY; i++)
		twt_ask(peers[i], (struct twt_word){ .command = (uint32_t)command });
	for (unsigned i = 0; i < MANY; i++)
		twt_hear(peers[i]);
}

static struct twi_tcp_lane *open_many(const struct tow_options *options,
				      struct twt_asker *peers[MANY], struct twt_side sides[MANY])
{
	peers[0] = twt_asker_open(options, serve_many);
	for (unsigned i = 1; i < MANY; i++) {
		sides[i] = *peers[0]->side;
		sides[i].peer = twt_accept(sides[i].endpoint);
		peers[i] = calloc(1, sizeof(*peers[i]));
		peers[i]->side = &sides[i];
		peers[i]->random = twt_asker_seed + i;
	}
	return (struct twi_tcp_lane *)(void *)peers[0]->side->peer->lane;
}

static void close_many(struct twt_asker *peers[MANY])
{
	ask_all(peers, TWT_SAY_STOP);
	assert_int_equal(twt_duo_end(&peers[0]->duo), 0);
	for (unsigned i = 0; i < MANY; i++)
		free(peers[i]);
}

/* Some are direct, the others are not, and all are served. */
static void test_many_peers(void **state)
{
	struct tow_options options = alone();
	uint64_t until = twi_now_ns() + 3 * TWT_ASK_BOUND_NS;
	const struct twi_tcp_direct *direct;
	struct twt_asker *peers[MANY];
	struct twt_side sides[MANY];
	unsigned most = 0;

	(void)state;
	direct = &open_many(&options, peers, sides)->direct;
	for (unsigned rounds = 0; rounds < SOME || most < TWI_TCP_DIRECT_MAX; rounds++) {
		ask_all(peers, TWT_SAY_ECHO);
		assert_true(direct->count <= TWI_TCP_DIRECT_MAX);
		most = twi_max(most, direct->count);
		assert_true(twi_now_ns() < until);
	}
	close_many(peers);
}

/* Starts a small message that nobody asks for. Is it on its way when the call returns? */
static bool goes_at_once(struct twi_tcp_peer *peer, struct tow_op **op_out)
{
	static const char out[8];

	TWT_OK(tow_send_start(&peer->base, out, sizeof(out), 77, NULL, op_out));
	return twi_list_empty(&peer->dirty);
}

/* A question comes by one connection, and its answer goes by another: it is not held back. */
static void test_answers_elsewhere(void **state)
{
	struct tow_options options = alone();
	uint64_t until = twi_now_ns() + 3 * TWT_ASK_BOUND_NS, now;
	unsigned answered = 0, held = 0;
	struct twt_asker *peers[MANY];
	struct twt_side sides[MANY];
	struct twi_tcp_lane *lane;

	(void)state;
	options.gather_ns = 1000000; /* so that a small message is held back where nothing comes */
	lane = open_many(&options, peers, sides);
	while (answered < 20 || held < 20) {
		struct tow_op *ops[2];

		ask_all(peers, TWT_SAY_ECHO);
		for (unsigned i = 0; i < MANY; i++) {
			struct twi_tcp_peer *peer = (void *)peers[i]->side->peer;

			if (lane->direct.count == 0 || peer->lines[0].stream->direct ||
			    peer->words_answered == lane->words || !twi_list_empty(&peer->dirty))
				continue;
			assert_true(goes_at_once(peer, &ops[0]));
			answered++;
			now = peer->last_flush_ns;
			if (!goes_at_once(peer, &ops[1]))
				held++; /* nothing has come since, and it was soon enough */
			else
				assert_true(twi_now_ns() - now >= (uint64_t)options.gather_ns);
			TWT_OK(twt_finish(ops[0], NULL));
			TWT_OK(twt_finish(ops[1], NULL));
		}
		assert_true(twi_now_ns() < until);
	}
	close_many(peers);
}

static void test_ping_pong(void **state)
{
	struct twt_asker *a = twt_asker_open(NULL, twt_asker_serve);

	(void)state;
	for (int i = 0; i < TIMES(20); i++)
		twt_converse_until_direct(a);
	twt_asker_close(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ping_pong),
		cmocka_unit_test(test_sleep),
		cmocka_unit_test(test_pollers),
		cmocka_unit_test(test_polls_no_more),
		cmocka_unit_test(test_large_message),
		cmocka_unit_test(test_fd),
		cmocka_unit_test(test_encrypted),
		cmocka_unit_test(test_more_than_the_socket_takes),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_many_peers),
		cmocka_unit_test(test_answers_elsewhere),
	};

	twt_asker_seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
