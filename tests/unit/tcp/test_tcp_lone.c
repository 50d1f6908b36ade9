/*
 * test_tcp_lone.c - messages that are longer than small ones and go as they do, when nothing else
 * is on its way and their sender allows it: which go so and which do not, and what their receivers
 * see. Both sides are driven by this thread alone.
 */
#include "beside.h"
#include "lane_pair.h"

#include "diag/record/counter.h"
#include "transport/lanes/tcp/tcp.h"

#define EAGER (16u << 10) /* the knob's initial value */
#define LONE  (64u << 10)
#define LARGE (1u << 20)
#define TAG   7

struct couple {
	struct twt_lane_pair pair;
	uint8_t out[LARGE], in[LARGE];
	uint64_t random, number;
};

static uint64_t seed;

static struct couple *open_with(const struct tow_options *options, uint32_t lacks)
{
	struct couple *c = calloc(1, sizeof(*c));

	c->random = seed;
	twt_lane_init(&c->pair, &twt_lane_rows[0]);
	assert_string_equal(twt_lane_rows[0].name, "tcp");
	for (int i = 0; i < 2; i++) {
		if (options != NULL)
			c->pair.options[i] = *options;
		c->pair.options[i].background = 0;
		c->pair.options[i].span_sample = 1 << 20; /* what has a span is an operation */
	}
	assert_true(twt_lane_open(&c->pair));
	twi_runtime_engine(c->pair.runtime[1])->features.offered &= ~lacks;
	twt_lane_join(&c->pair);
	return c;
}

static struct couple *open_couple(void)
{
	return open_with(NULL, 0);
}

static void close_couple(struct couple *c)
{
	twt_lane_close(&c->pair);
	free(c);
}

static uint64_t rendezvous(const struct couple *c)
{
	return twi_counter_sum(twi_runtime_engine(c->pair.runtime[0])->diag,
			       TWI_C_rendezvous_sends);
}

static struct tow_op *post(struct couple *c, uint64_t room, uint64_t flags)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;

	options.flags = flags;
	memset(c->in, 0, room);
	TWT_OK(tow_recv_start(c->pair.peer[1], c->in, room, TAG, &options, &op));
	return op;
}

/* Sends from side 0; NULL: it was complete at once. */
static struct tow_op *start(struct couple *c, uint64_t bytes, uint64_t flags)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op = NULL;

	options.flags = flags;
	twt_fill(c->out, bytes, ++c->number);
	TWT_OK(tow_send_start(c->pair.peer[0], c->out, bytes, TAG, &options, &op));
	return op;
}

static void expect_number(struct couple *c, struct tow_op *recv, uint64_t bytes, uint64_t number)
{
	struct tow_result result = twt_lane_finish(&c->pair, recv);

	assert_int_equal(result.status, TOW_OK);
	assert_int_equal(result.bytes, bytes);
	assert_int_equal(twt_check(c->in, bytes, number), 0);
}

/*
 * The receiver has said that those which went so are there, and nothing else makes it speak. What
 * this side has to say has left, too: behind a backlog none goes so.
 */
static void until_acknowledged(struct couple *c)
{
	const struct twi_session *session = twi_session_of(c->pair.peer[0]);
	uint64_t until = twi_now_ns() + TWT_FINISH_NS;

	while (session->outbox.seq_acked < session->lone_seqs[1] ||
	       session->tx_tail != session->tx_head) {
		twt_lane_turn(&c->pair);
		assert_true(twi_now_ns() < until);
	}
}

/* One message to a receive that is posted before or after it. Was it complete at once? */
static bool pass(struct couple *c, uint64_t bytes, uint64_t flags, bool posted)
{
	struct tow_op *recv = posted ? post(c, LARGE, 0) : NULL;
	struct tow_op *send = start(c, bytes, flags);
	bool at_once = send == NULL;

	if (!posted) {
		twt_lane_drive(&c->pair, 200000);
		recv = post(c, LARGE, 0);
	}
	expect_number(c, recv, bytes, c->number);
	if (send != NULL)
		assert_int_equal(twt_lane_finish(&c->pair, send).status, TOW_OK);
	until_acknowledged(c);
	return at_once;
}

/* The first and the last length that goes, and those beside them. */
static void lengths_of(struct couple *c)
{
	static const struct {
		uint32_t bytes;
		bool goes;
	} rows[] = { { EAGER, true }, { EAGER + 1, true }, { 40000, true },  { LONE - 1, true },
		     { LONE, true },  { LONE + 1, false }, { LARGE, false }, { 3 * EAGER, true } };
	uint64_t random;

	for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t bytes = rows[i / 2].bytes;

		assert_int_equal(pass(c, bytes, TOW_OP_AT_ONCE, i % 2 == 0), rows[i / 2].goes);
		/* Who has not allowed it has an operation, that ends when the receiver has all. */
		random = rendezvous(c);
		assert_false(pass(c, bytes, 0, i % 2 == 0));
		assert_int_equal(rendezvous(c) - random, bytes > EAGER);
	}
	for (int i = 0; i < 60; i++) {
		uint64_t bytes = EAGER + 1 + twt_random_below(&c->random, LONE - EAGER);

		assert_true(pass(c, bytes, TOW_OP_AT_ONCE, twt_random_below(&c->random, 2) == 0));
	}
}

static void test_lengths(void **state)
{
	struct couple *c = open_couple();

	(void)state;
	lengths_of(c);
	close_couple(c);
}

static void test_encrypted(void **state)
{
	struct couple *c = open_couple();
	struct tow_options options = c->pair.options[0];

	(void)state;
	close_couple(c);
	options.job_key = "a secret of this job: 8d2c9f";
	options.encrypt = 1;
	c = open_with(&options, 0);
	lengths_of(c);
	close_couple(c);
}

/* Two may be unacknowledged; then they ask, in order, until the other side has said something. */
static void test_two_at_a_time(void **state)
{
	struct couple *c = open_couple();
	struct tow_op *ops[4];
	int second = 0;

	(void)state;
	for (int round = 0; round < 5; round++) {
		uint64_t first = c->number + 1;

		for (int i = 0; i < 4; i++) {
			uint8_t *data = c->out + (size_t)i * LONE;
			struct tow_op_options options = TOW_OP_OPTIONS_INIT;

			options.flags = TOW_OP_AT_ONCE;
			twt_fill(data, LONE, ++c->number);
			ops[i] = NULL;
			TWT_OK(tow_send_start(c->pair.peer[0], data, LONE, TAG, &options, &ops[i]));
			/* The second one asks where the first has not left this process yet. */
			if (i != 1)
				assert_int_equal(ops[i] == NULL, i == 0);
			second += i == 1 && ops[i] == NULL;
		}
		for (uint64_t i = 0; i < 4; i++)
			expect_number(c, post(c, LONE, 0), LONE, first + i);
		for (int i = 1; i < 4; i++)
			if (ops[i] != NULL)
				assert_int_equal(twt_lane_finish(&c->pair, ops[i]).status, TOW_OK);
		until_acknowledged(c);
	}
	assert_true(second > 0);
	close_couple(c);
}

/* Beside a large message, offered or on its way, none goes so. */
static void test_beside_a_large_one(void **state)
{
	struct couple *c = open_couple();
	static uint8_t large[LARGE];
	struct tow_op *op, *send;

	(void)state;
	twt_fill(large, LARGE, 99);
	TWT_OK(tow_send_start(c->pair.peer[0], large, LARGE, TAG, NULL, &op));
	twt_lane_drive(&c->pair, 200000);
	send = start(c, LONE, TOW_OP_AT_ONCE);
	assert_non_null(send);
	expect_number(c, post(c, LARGE, 0), LARGE, 99);
	expect_number(c, post(c, LARGE, 0), LONE, c->number);
	assert_int_equal(twt_lane_finish(&c->pair, op).status, TOW_OK);
	assert_int_equal(twt_lane_finish(&c->pair, send).status, TOW_OK);
	until_acknowledged(c);
	assert_true(pass(c, LONE, TOW_OP_AT_ONCE, true));
	close_couple(c);
}

/* The receiver alone hears of what is too long for it, as of a small message. */
static void test_short_receives(void **state)
{
	struct couple *c = open_couple();
	struct tow_result result;

	(void)state;
	for (int posted = 0; posted < 2; posted++) {
		struct tow_op *recv = posted ? post(c, 1000, 0) : NULL;

		assert_null(start(c, LONE, TOW_OP_AT_ONCE));
		twt_lane_drive(&c->pair, 200000);
		result = twt_lane_finish(&c->pair, posted ? recv : post(c, 1000, 0));
		assert_int_equal(result.status, TOW_ETRUNCATED);
		until_acknowledged(c);
		recv = posted ? post(c, 30000, TOW_OP_TRUNCATE) : NULL;
		assert_null(start(c, LONE, TOW_OP_AT_ONCE));
		twt_lane_drive(&c->pair, 200000);
		result = twt_lane_finish(&c->pair, posted ? recv : post(c, 30000, TOW_OP_TRUNCATE));
		assert_int_equal(result.status, TOW_OK);
		assert_int_equal(result.bytes, 30000);
		assert_int_equal(result.dropped_bytes, LONE - 30000);
		until_acknowledged(c);
		assert_true(pass(c, LONE, TOW_OP_AT_ONCE, posted));
	}
	close_couple(c);
}

/* A masked receive, a view, and one of several parts. */
static void test_other_receives(void **state)
{
	struct couple *c = open_couple();
	const struct tow_part whole = { c->in, LONE };
	const struct tow_part parts[3] = { { c->in, 5000 },
					   { c->in + 5000, 1 },
					   { c->in + 5001, LONE } };
	struct tow_match match = TOW_MATCH_INIT;
	struct tow_result result;
	struct tow_op *op;

	(void)state;
	match.peer = c->pair.peer[1];
	match.tag_mask = 0;
	for (int i = 0; i < 4; i++) {
		TWT_OK(tow_recv_match_start(c->pair.endpoint[1], &match, &whole, 1, NULL, &op));
		assert_null(start(c, LONE, TOW_OP_AT_ONCE));
		expect_number(c, op, LONE, c->number);
		until_acknowledged(c);
		TWT_OK(tow_recv_match_start(c->pair.endpoint[1], &match, parts, 3, NULL, &op));
		assert_null(start(c, LONE, TOW_OP_AT_ONCE));
		expect_number(c, op, LONE, c->number);
		until_acknowledged(c);
		TWT_OK(tow_recv_view_start(c->pair.peer[1], TAG, NULL, &op));
		assert_null(start(c, LONE, TOW_OP_AT_ONCE));
		result = twt_lane_wait(&c->pair, op);
		assert_int_equal(result.status, TOW_OK);
		assert_int_equal(result.bytes, LONE);
		assert_int_equal(twt_check(result.data, LONE, c->number), 0);
		TWT_OK(tow_view_release(op));
		until_acknowledged(c);
	}
	close_couple(c);
}

/* A receive is taken back at any moment of its message's way: that is for the next one. */
static void test_taken_back(void **state)
{
	struct couple *c = open_couple();

	(void)state;
	for (int i = 0; i < 60; i++) {
		struct tow_op *recv = post(c, LONE, 0);
		uint64_t turns = twt_random_below(&c->random, 4);
		struct tow_result result;

		assert_null(start(c, LONE, TOW_OP_AT_ONCE));
		while (turns-- > 0)
			tow_progress(c->pair.runtime[1]);
		TWT_OK(tow_op_cancel(recv));
		result = twt_lane_finish(&c->pair, recv);
		if (result.status == TOW_ECANCELED)
			expect_number(c, post(c, LONE, 0), LONE, c->number);
		else
			assert_int_equal(twt_check(c->in, LONE, c->number), 0);
		until_acknowledged(c);
	}
	close_couple(c);
}

/* Where the knobs leave no room for it: small messages of none, or credit for less. */
static void test_knobs(void **state)
{
	struct couple *c = open_couple();
	struct tow_options options = c->pair.options[0];

	(void)state;
	close_couple(c);
	options.eager_max_bytes = 0;
	c = open_with(&options, 0);
	assert_false(pass(c, 1, TOW_OP_AT_ONCE, true));
	assert_false(pass(c, EAGER, TOW_OP_AT_ONCE, true));
	close_couple(c);
	options.eager_max_bytes = 1000;
	c = open_with(&options, 0);
	assert_true(pass(c, 4000, TOW_OP_AT_ONCE, true));
	assert_false(pass(c, 4001, TOW_OP_AT_ONCE, true));
	close_couple(c);
	options.eager_max_bytes = EAGER;
	options.credit_bytes = LONE;
	c = open_with(&options, 0);
	for (int i = 0; i < 20; i++)
		assert_false(pass(c, LONE, TOW_OP_AT_ONCE, true));
	close_couple(c);
	options.eager_max_bytes = 1 << 20; /* more than the control buffer has room for */
	options.credit_bytes = 16 << 20;
	c = open_with(&options, 0);
	assert_true(pass(c, LONE, TOW_OP_AT_ONCE, true));
	assert_false(pass(c, 500000, TOW_OP_AT_ONCE, true));
	close_couple(c);
}

/* An older version, which has not got the feature: all of it is as ever, in both directions. */
static void test_older_peer(void **state)
{
	struct couple *c = open_with(NULL, TWI_FEATURE_BIT(tcp_lone));

	(void)state;
	assert_true(pass(c, EAGER, TOW_OP_AT_ONCE, true));
	assert_false(pass(c, EAGER + 1, TOW_OP_AT_ONCE, true));
	assert_false(pass(c, LONE, TOW_OP_AT_ONCE, false));
	assert_int_equal(twi_session_of(c->pair.peer[0])->config.lone_bytes, EAGER);
	assert_int_equal(twi_session_of(c->pair.peer[1])->config.lone_bytes, EAGER);
	close_couple(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),        cmocka_unit_test(test_encrypted),
		cmocka_unit_test(test_two_at_a_time),  cmocka_unit_test(test_beside_a_large_one),
		cmocka_unit_test(test_short_receives), cmocka_unit_test(test_other_receives),
		cmocka_unit_test(test_taken_back),     cmocka_unit_test(test_knobs),
		cmocka_unit_test(test_older_peer),
	};

	seed = twt_seed();
	return twt_beside_tests(tests, sizeof(tests) / sizeof(tests[0]), 1, 4);
}
