/*
 * test_bursts.c - large messages in rows over tcp, both ways at once, of sizes around every limit,
 * with silence behind each row: the last bytes of a row, its answers, and a header that was read
 * together with the commit before it must not wait for what does not come.
 *
 * Both sides make the same rows from TOW_TEST_SEED. Nothing is due by the clock for minutes, so
 * that no heartbeat helps what is stuck.
 */
#include "twt.h"

#include "duo.h"

#include <netinet/tcp.h>

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/tcp/tcp.h"

#define ROW     40 /* more than the answers that share a packet */
#define EAGER   ((size_t)16 << 10)
#define CHUNK   ((size_t)1 << 20)
#define LARGEST (TWI_CHUNK_BYTES + 1)
/* About, in a row. Sanitizers look at every word. */
#ifdef TWT_SANITIZED
#define BYTES ((size_t)2 << 20)
#else
#define BYTES ((size_t)12 << 20)
#endif
#define DEADLINE (15 * TWT_SECOND)

enum patience { WAITS, TESTS, POSTS_LATE, PATIENCES };

static uint64_t seed;
static unsigned rows;
static size_t chunk; /* knob bulk_chunk_bytes */

struct message {
	size_t bytes;
	uint8_t *out, *in;
	struct tow_op *send, *recv;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TWT_SECOND + (uint64_t)ts.tv_nsec;
}

/* Around the limits: of eager messages, of one system call, of a DATA frame, of a segment. */
static size_t size_of(uint64_t *random)
{
	const size_t at[] = { 0,     1,           EAGER,          EAGER + 1, EAGER + 32,
			      chunk, 3 * chunk,   CHUNK,          65536,     20001,
			      21845, 3 * 65483ul, TWI_CHUNK_BYTES };
	uint64_t kind = twt_random_below(random, 26);
	size_t bytes = kind < 13 ? at[kind] : EAGER + 1 + twt_random_below(random, 300000);

	bytes += twt_random_below(random, 3);
	bytes -= bytes > 0 && twt_random_below(random, 2) == 0;
	return bytes < LARGEST ? bytes : LARGEST;
}

/* Ends, by waits or by tests alone; false: it hangs, or is not OK. */
static bool ended(struct tow_op *op, enum patience patience, uint64_t *bytes_out)
{
	struct tow_result result = { .size = sizeof(result) };
	uint64_t until = now_ns() + DEADLINE;
	int status;

	if (patience == TESTS) {
		while (tow_op_test(op) == TOW_AGAIN && now_ns() < until)
			;
	}
	status = patience == TESTS ? tow_op_test(op) : tow_op_wait(op, DEADLINE);
	if (status != TOW_OK) {
		fprintf(stderr, "an operation: %s\n", tow_status_name(status));
		return false;
	}
	TWT_OK(tow_op_result(op, &result));
	TWT_OK(tow_op_release(op));
	*bytes_out = result.bytes;
	return true;
}

/* What the kernel says of the bulk streams, once nothing more is to go on them. */
static bool uncorked(const struct twt_side *side)
{
	const struct twi_tcp_peer *peer = (const void *)side->peer;
	uint64_t until = now_ns() + DEADLINE;

	for (unsigned line = 1; line < peer->line_count; line++) {
		int corked = 1;

		while (corked != 0) {
			socklen_t size = sizeof(corked);

			if (getsockopt(peer->lines[line].stream->fd, IPPROTO_TCP, TCP_CORK, &corked,
				       &size) != 0 ||
			    now_ns() > until)
				return false;
			tow_progress(side->runtime);
		}
	}
	return true;
}

static void post(struct twt_side *side, struct message *m, uint64_t key, bool recvs)
{
	int mine = side->child == 0;

	m->in = malloc(m->bytes + 1);
	m->out = malloc(m->bytes + 1);
	twt_fill(m->out, m->bytes, 2 * key + (uint64_t)mine);
	if (recvs)
		TWT_OK(tow_recv_start(side->peer, m->in, m->bytes, 1, NULL, &m->recv));
	TWT_OK(tow_send_start(side->peer, m->out, m->bytes, 1, NULL, &m->send));
}

/* One row each way, and then nothing. */
static int row(struct twt_side *side, uint64_t *random, enum patience patience)
{
	unsigned count = 1 + (unsigned)twt_random_below(random, ROW);
	uint64_t key = twt_random(random) >> 8, bytes, total = 0;
	static struct message messages[ROW];
	int theirs = side->child != 0;

	for (unsigned i = 0; i < count; i++) {
		messages[i].bytes = size_of(random);
		total += messages[i].bytes;
		if (total > BYTES)
			count = i + 1;
		post(side, &messages[i], key + i, patience != POSTS_LATE);
	}
	for (unsigned i = 0; i < count; i++) {
		struct message *m = &messages[i];

		if (patience == POSTS_LATE)
			TWT_OK(tow_recv_start(side->peer, m->in, m->bytes, 1, NULL, &m->recv));
		if (!ended(m->recv, patience, &bytes) || bytes != m->bytes ||
		    twt_check(m->in, bytes, 2 * (key + i) + (uint64_t)theirs) != 0) {
			fprintf(stderr, "message %u of %u, %zu bytes, %d\n", i, count, m->bytes,
				(int)patience);
			return 1;
		}
	}
	for (unsigned i = 0; i < count; i++) {
		if (!ended(messages[i].send, patience, &bytes)) {
			fprintf(stderr, "send %u of %u, %zu bytes, %d\n", i, count,
				messages[i].bytes, (int)patience);
			return 2;
		}
		free(messages[i].in);
		free(messages[i].out);
	}
	return uncorked(side) ? 0 : 3;
}

/* Side `speaker` says a word, the other waits for it: all that it has to say has been said. */
static int word(struct twt_side *side, bool speaker, enum patience patience)
{
	uint64_t value = 0, bytes;
	struct tow_op *op;

	if (speaker)
		TWT_OK(tow_send_start(side->peer, &value, 8, 2, NULL, &op));
	else
		TWT_OK(tow_recv_start(side->peer, &value, 8, 2, NULL, &op));
	return ended(op, patience, &bytes) ? 0 : 4;
}

static int child_rows(struct twt_duo *duo)
{
	uint64_t random = seed;
	int bad = 0;

	for (unsigned i = 0; i < rows && bad == 0; i++) {
		bad = row(&duo->side, &random, i % PATIENCES);
		if (bad == 0)
			bad = word(&duo->side, i % 2 == 0, i / 2 % 2 == 0 ? WAITS : TESTS);
	}
	return bad != 0 ? bad : word(&duo->side, true, WAITS);
}

static void run(struct twt_duo *duo)
{
	uint64_t random = seed;

	chunk = (size_t)duo->parent.bulk_chunk_bytes;
	duo->parent.heartbeat_ns = duo->child.heartbeat_ns = 300 * (int64_t)TWT_SECOND;
	duo->parent.peer_timeout_ns = duo->child.peer_timeout_ns = 3000 * (int64_t)TWT_SECOND;
	twt_duo_open(duo, child_rows);
	for (unsigned i = 0; i < rows; i++) {
		assert_int_equal(row(&duo->side, &random, (i / 3) % PATIENCES), 0);
		assert_int_equal(word(&duo->side, i % 2 != 0, i % 3 == 0 ? TESTS : WAITS), 0);
	}
	assert_int_equal(word(&duo->side, false, WAITS), 0); /* it is still looking */
	assert_int_equal(twt_duo_end(duo), 0);
}

static struct twt_duo duo_with(int64_t chunk_bytes, int64_t streams, int64_t background)
{
	struct twt_duo duo;

	twt_duo_init(&duo);
	duo.parent.bulk_chunk_bytes = chunk_bytes;
	duo.parent.bulk_streams = streams;
	duo.parent.background = background;
	duo.child = duo.parent;
	return duo;
}

static void test_rows(void **state)
{
	struct twt_duo duo = duo_with(1 << 20, 1, 0);

	(void)state;
	rows = 60;
	run(&duo);
}

/* The library's thread drives where nobody does. */
static void test_rows_in_the_background(void **state)
{
	struct twt_duo duo = duo_with(1 << 20, 1, 1);

	(void)state;
	rows = 24;
	run(&duo);
}

/* Many calls for a message, several streams, stripes. */
static void test_rows_in_small_pieces(void **state)
{
	struct twt_duo duo = duo_with(64 << 10, 3, 0);

	(void)state;
	rows = 24;
	duo.parent.checksum_all = duo.child.checksum_all = 1;
	run(&duo);
}

/* A socket that takes and brings little: pieces of headers, and sends that are cut short. */
static void test_rows_through_a_small_buffer(void **state)
{
	struct twt_duo duo = duo_with(4 << 10, 1, 0);

	(void)state;
	rows = 12;
	duo.parent.socket_buffer_bytes = 16 << 10;
	duo.child.socket_buffer_bytes = 64 << 10;
	run(&duo);
}

#define ANSWERED 33

/* Receives a row, and then tests, or does nothing at all, until its word comes. */
static int receive_and_fall_silent(struct twt_duo *duo)
{
	static uint8_t in[ANSWERED][EAGER + 1];
	struct tow_op *ops[ANSWERED], *last;
	uint64_t value, bytes;
	int bad = 0;

	for (unsigned i = 0; i < rows && bad == 0; i++) {
		TWT_OK(tow_recv_start(duo->side.peer, &value, 8, 2, NULL, &last));
		for (unsigned k = 0; k < ANSWERED; k++)
			TWT_OK(tow_recv_start(duo->side.peer, in[k], sizeof(in[k]), 1, NULL,
					      &ops[k]));
		for (unsigned k = 0; k < ANSWERED; k++) {
			bad |= !ended(ops[k], TESTS, &bytes) || bytes != sizeof(in[k]) ||
			       twt_check(in[k], bytes, k) != 0;
		}
		bad |= !ended(last, i % 2 == 0 ? TESTS : WAITS, &bytes);
	}
	return bad;
}

/* A receiver that has nothing more to say, and only tests: its answers come all the same. */
static void test_answers(void **state)
{
	struct twt_duo duo = duo_with(1 << 20, 1, 0);
	static uint8_t out[ANSWERED][EAGER + 1];
	struct tow_op *ops[ANSWERED];
	uint64_t bytes;

	(void)state;
	rows = 30;
	duo.parent.heartbeat_ns = duo.child.heartbeat_ns = 300 * (int64_t)TWT_SECOND;
	duo.parent.peer_timeout_ns = duo.child.peer_timeout_ns = 3000 * (int64_t)TWT_SECOND;
	for (unsigned k = 0; k < ANSWERED; k++)
		twt_fill(out[k], sizeof(out[k]), k);
	twt_duo_open(&duo, receive_and_fall_silent);
	for (unsigned i = 0; i < rows; i++) {
		for (unsigned k = 0; k < ANSWERED; k++)
			TWT_OK(tow_send_start(duo.side.peer, out[k], sizeof(out[k]), 1, NULL,
					      &ops[k]));
		for (unsigned k = 0; k < ANSWERED; k++)
			assert_true(ended(ops[k], i / 2 % 2 == 0 ? WAITS : TESTS, &bytes));
		assert_true(uncorked(&duo.side));
		assert_int_equal(word(&duo.side, true, WAITS), 0);
	}
	assert_int_equal(twt_duo_end(&duo), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_rows_in_the_background),
		cmocka_unit_test(test_rows_in_small_pieces),
		cmocka_unit_test(test_rows_through_a_small_buffer),
		cmocka_unit_test(test_answers),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
