/*
 * asker.c - see asker.h.
 */
#include "twt.h"

#include "asker.h"

#include <sched.h>
#include <signal.h>
#include <sys/socket.h>

#include "diag/base/clock.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/tcp/tcp.h"

uint64_t twt_asker_seed;

struct tow_queue *twt_idle_queue;

uint64_t twt_side_counter(const struct twt_side *side, enum twi_counter id)
{
	return twi_counter_sum(twi_runtime_engine(side->runtime)->diag, id);
}

static struct twi_tcp_stream *control_of(const struct twt_side *side)
{
	return ((struct twi_tcp_peer *)(void *)side->peer)->lines[0].stream;
}

bool twt_is_direct(const struct twt_side *side)
{
	return control_of(side) != NULL && control_of(side)->direct;
}

static void put(uint8_t *at, const struct twt_word *word)
{
	memcpy(at, word, sizeof(*word));
	twt_fill(at + sizeof(*word), word->bytes - sizeof(*word), word->number);
}

static bool take(const uint8_t *at, uint64_t bytes, struct twt_word *word_out)
{
	memcpy(word_out, at, sizeof(*word_out));
	return bytes == word_out->bytes &&
	       twt_check(at + sizeof(*word_out), bytes - sizeof(*word_out), word_out->number) == 0;
}

/* ---- the child ---- */

bool twt_look(const struct twt_side *side, struct tow_op *op, enum twt_drive drive)
{
	struct tow_result result = TOW_RESULT_INIT;
	size_t count;

	if (drive == TWT_BY_WAIT)
		return true;
	if (drive == TWT_BY_TEST)
		return tow_op_test(op) != TOW_AGAIN;
	if (drive == TWT_BY_PROGRESS)
		assert_true(tow_progress(side->runtime) >= 0);
	else
		assert_int_equal(tow_queue_take(twt_idle_queue, &result, 1, &count), TOW_AGAIN);
	return tow_op_result(op, &result) != TOW_AGAIN;
}

/* By a wait, or without one. */
static void end(const struct twt_side *side, struct tow_op *op, enum twt_drive drive,
		struct tow_result *result_out)
{
	uint64_t until = twi_now_ns() + TWT_ASK_BOUND_NS;

	while (!twt_look(side, op, drive)) {
		if (twi_now_ns() > until) {
			fprintf(stderr, "an operation does not end by looking alone\n");
			abort(); /* in the child, too */
		}
		sched_yield(); /* whoever is to answer may have no core */
	}
	TWT_OK(twt_finish(op, result_out));
}

static bool take_burst(const struct twt_side *side, const struct twt_word *word)
{
	static uint8_t in[TWT_ASK_MOST];

	usleep((useconds_t)word->pause_us);
	for (uint64_t i = 0; i < word->burst; i++) {
		struct tow_result result;
		struct tow_op *op;

		TWT_OK(tow_recv_start(side->peer, in, sizeof(in), 3, NULL, &op));
		end(side, op, word->tests != 0 ? TWT_BY_TEST : TWT_BY_WAIT, &result);
		if (result.bytes != word->bytes ||
		    twt_check(in, result.bytes, word->number * 1000 + i) != 0)
			return false;
	}
	return true;
}

static bool take_large(const struct twt_side *side, const struct twt_word *word)
{
	static uint8_t in[TWT_ASK_LARGE];
	struct tow_result result;
	struct tow_op *op;

	TWT_OK(tow_recv_start(side->peer, in, sizeof(in), 4, NULL, &op));
	TWT_OK(twt_finish(op, &result));
	return result.bytes == TWT_ASK_LARGE && twt_check(in, TWT_ASK_LARGE, word->number) == 0;
}

int twt_asker_serve_one(struct twt_side *side, bool *over)
{
	static uint8_t in[TWT_ASK_MOST], out[TWT_ASK_MOST];
	struct tow_result result;
	struct twt_word word;
	struct tow_op *op;

	TWT_OK(tow_recv_start(side->peer, in, sizeof(in), 1, NULL, &op));
	TWT_OK(twt_finish(op, &result));
	if (!take(in, result.bytes, &word))
		return 1;
	*over = word.command == TWT_SAY_STOP;
	if (word.command == TWT_SAY_LATE)
		usleep((useconds_t)word.pause_us);
	if (word.command == TWT_SAY_AGAIN && !take_burst(side, &word))
		return 2;
	if (word.command == TWT_SAY_LARGER && !take_large(side, &word))
		return 3;
	if (word.command == TWT_SAY_BREAK || word.command == TWT_SAY_DIE)
		shutdown(control_of(side)->fd, SHUT_RDWR);
	if (word.command == TWT_SAY_DIE)
		raise(SIGKILL);
	word.receives = twt_side_counter(side, TWI_C_direct_receives);
	word.sends = twt_side_counter(side, TWI_C_direct_sends);
	put(out, &word);
	TWT_OK(tow_send_start(side->peer, out, word.bytes, 2, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	return 0;
}

int twt_asker_serve(struct twt_duo *duo)
{
	bool over = false;
	int bad = 0;

	while (!over && bad == 0)
		bad = twt_asker_serve_one(&duo->side, &over);
	return bad;
}

/* ---- the parent ---- */

struct twt_asker *twt_asker_open(const struct tow_options *options, int (*child)(struct twt_duo *))
{
	struct twt_asker *a = calloc(1, sizeof(*a));

	twt_duo_init(&a->duo);
	if (options != NULL)
		a->duo.parent = a->duo.child = *options;
	twt_duo_open(&a->duo, child);
	a->side = &a->duo.side;
	a->random = twt_asker_seed;
	return a;
}

void twt_ask(struct twt_asker *a, struct twt_word word)
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

void twt_hear(struct twt_asker *a)
{
	struct tow_result result;

	end(a->side, a->recv, a->drive, &result);
	a->recv = NULL;
	assert_true(take(a->in, result.bytes, &a->theirs));
	assert_int_equal(a->theirs.number, a->number);
}

void twt_converse(struct twt_asker *a, unsigned times)
{
	while (times-- > 0) {
		twt_ask(a, (struct twt_word){ .command = TWT_SAY_ECHO });
		twt_hear(a);
	}
}

void twt_converse_until_direct(struct twt_asker *a)
{
	uint64_t receives = twt_side_counter(a->side, TWI_C_direct_receives),
		 sends = twt_side_counter(a->side, TWI_C_direct_sends),
		 until = twi_now_ns() + TWT_ASK_BOUND_NS;
	struct twt_word before;

	twt_converse(a, 1);
	before = a->theirs;
	do {
		twt_converse(a, 20);
		assert_true(twi_now_ns() < until);
	} while (twt_side_counter(a->side, TWI_C_direct_receives) == receives ||
		 twt_side_counter(a->side, TWI_C_direct_sends) == sends ||
		 a->theirs.receives == before.receives || a->theirs.sends == before.sends);
}

void twt_be_direct_now(struct twt_asker *a)
{
	uint64_t until = twi_now_ns() + TWT_ASK_BOUND_NS;

	while (!twt_is_direct(a->side)) {
		twt_converse(a, 1);
		assert_true(twi_now_ns() < until);
	}
}

void twt_asker_close(struct twt_asker *a)
{
	twt_ask(a, (struct twt_word){ .command = TWT_SAY_STOP });
	twt_hear(a);
	assert_int_equal(twt_duo_end(&a->duo), 0);
	free(a);
}
