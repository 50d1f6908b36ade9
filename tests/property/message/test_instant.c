/*
 * Receives without an operation against the inbox's model: they take what is kept, and what comes
 * while a lane looks, in the order of all receives and messages; what they cannot have (too long,
 * corrupt, with a span) stays where it is. Beside receives with operations, of one tag or of some;
 * with a sender that keeps account of the credit, and without. TOW_TEST_SEED replays a run.
 */
#include "inbox_model.h"
#include "lone_peer.h"
#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "diag/base/checksum.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/lane.h"
#include "transport/message/inbox.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/op.h"
#include "transport/wire/frame.h"

#define ROUNDS 800
#define TAGS   4u
#define CREDIT (1u << 20)

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_peer *peer;
static struct twi_inbox inbox;
static bool masks;
static uint8_t rule;
static uint64_t seed, rng;
static struct twt_sent messages[TWT_INBOX_STEPS];
static struct twt_asked receives[TWT_INBOX_STEPS];
static unsigned message_count, receive_count, kept_taken, caught, left_alone;

static uint64_t rnd(uint64_t bound)
{
	return twt_random_below(&rng, bound);
}

static uint8_t byte_of(uint64_t seq, uint64_t at)
{
	return (uint8_t)(seq * 41 + at * 7 + 3);
}

static void lane_credit(struct twi_inbox *of)
{
	of->credit.reported = of->credit.given;
}

static const struct twi_inbox_ops ops = { .credit_due = lane_credit };

static struct twt_asked *next_receive(void)
{
	struct twt_asked *recv = &receives[receive_count++];

	*recv = (struct twt_asked){ .tag = rnd(TAGS),
				    .mask = masks && rnd(2) == 0 ? rnd(TAGS) : UINT64_MAX,
				    .started = receive_count,
				    .room = rnd(3) == 0 ? rnd(TWT_INBOX_BYTES) : TWT_INBOX_BYTES,
				    .truncate = rnd(3) == 0 };
	if (recv->mask != UINT64_MAX)
		twi_match_go_wild(&inbox.match);
	return recv;
}

static void step_post(void)
{
	struct twt_asked *recv = next_receive();
	struct tow_op *op = twi_op_acquire(engine, &twi_recv_ops, NULL);

	assert_non_null(op);
	recv->op = op;
	op->peer = peer;
	op->data = recv->memory;
	op->bytes = recv->room;
	op->tag = recv->tag & recv->mask;
	op->match.wild = recv->mask != UINT64_MAX;
	op->match.tag_mask = recv->mask;
	op->truncate = recv->truncate;
	twt_inbox_post(recv);
	twi_inbox_recv(&inbox, op);
}

static uint8_t payload[TWT_INBOX_BYTES];

static struct twi_inbound make_message(struct twt_sent **out)
{
	struct twt_sent *message = &messages[message_count++];
	bool summed = rnd(3) == 0;
	uint32_t sum;

	*message = (struct twt_sent){ .seq = message_count,
				      .tag = rnd(TAGS),
				      .bytes = rnd(8) == 0 ? 0 : rnd(TWT_INBOX_BYTES),
				      .whole = true };
	for (uint64_t i = 0; i < message->bytes; i++)
		payload[i] = byte_of(message->seq, i);
	sum = twi_checksum(0, payload, message->bytes);
	message->corrupt = summed && message->bytes > 0 && rnd(3) == 0;
	*out = message;
	return (struct twi_inbound){ .payload = payload,
				     .seq = message->seq,
				     .tag = message->tag,
				     .bytes = message->bytes,
				     .sum = message->corrupt ? ~sum : sum,
				     .summed = summed };
}

static bool has_posted(uint64_t tag)
{
	for (unsigned i = 0; i < twt_inbox.posted_count; i++) {
		if (twt_inbox_takes(twt_inbox.posted[i], tag))
			return true;
	}
	return false;
}

/* It comes for good: to a receive that waits, or it is kept. */
static void arrive(struct twt_sent *message, const struct twi_inbound *in)
{
	twt_inbox_arrive(message);
	assert_int_equal(twi_inbox_small(&inbox, in), TOW_OK);
}

static void admit(struct twt_sent *message)
{
	assert_int_equal(twi_inbox_admit(&inbox, message->seq, (uint32_t)message->bytes, 0, 0),
			 TOW_OK);
	message->charged = true;
	twt_inbox.credit_out += twi_frame_cost((uint32_t)message->bytes);
}

static void step_small(void)
{
	struct twt_sent *message;
	struct twi_inbound in = make_message(&message);

	admit(message);
	arrive(message, &in);
}

static bool may_have(const struct twt_asked *recv, const struct twt_sent *message)
{
	return (message->bytes <= recv->room || recv->truncate) && !message->corrupt &&
	       !twi_span_chosen(engine->diag, message->bytes, message->seq);
}

/* It has what it was to have, and nothing beyond its room. */
static void check_taken(struct twt_asked *recv, const struct twi_instant *instant,
			struct twt_sent *message)
{
	uint64_t fits = twi_min(message->bytes, recv->room);

	assert_true(instant->taken);
	assert_int_equal(instant->message_tag, message->tag);
	assert_int_equal(instant->message_bytes, message->bytes);
	assert_int_equal(instant->seq, message->seq);
	for (uint64_t i = 0; i < fits; i++)
		assert_int_equal(recv->memory[i], byte_of(message->seq, i));
	for (uint64_t i = fits; i < sizeof(recv->memory); i++)
		assert_int_equal(recv->memory[i], 0);
	twt_inbox_credit_back(message);
	message->at = TWT_OVER;
	twt_inbox_over_well(recv, message->bytes);
}

/* Messages come while it looks, until one is its own. */
static void look(struct twt_asked *recv, struct twi_instant *instant)
{
	struct twt_sent *message;
	struct twi_inbound in = make_message(&message);

	inbox.instant = instant;
	admit(message);
	if (has_posted(message->tag) || !twt_inbox_takes(recv, message->tag)) {
		arrive(message, &in);
		assert_false(instant->taken);
	} else if (may_have(recv, message)) {
		assert_int_equal(twi_inbox_small(&inbox, &in), TOW_OK);
		check_taken(recv, instant, message);
		caught++;
	} else {
		assert_int_equal(twi_inbox_small(&inbox, &in), TOW_AGAIN);
		assert_false(instant->taken);
		inbox.instant = NULL;
		twi_inbox_put_off(&inbox, &in);
		assert_int_equal(twi_inbox_admit(&inbox, message->seq, (uint32_t)in.bytes, 0, 0),
				 TOW_OK);
		arrive(message, &in);
		left_alone++;
	}
	inbox.instant = NULL;
}

/* An older receive waits for what it may have; in a table of masks any that waits may be it. */
static bool is_behind(const struct twt_asked *recv)
{
	return inbox.match.wild ? twt_inbox.posted_count > 0 : has_posted(recv->tag);
}

static void step_instant(void)
{
	struct twt_asked *recv = next_receive();
	struct twi_instant instant = { .data = recv->memory,
				       .bytes = recv->room,
				       .tag = recv->tag & recv->mask,
				       .mask = recv->mask,
				       .truncate = recv->truncate };
	int status = twi_inbox_instant(&inbox, &instant);
	unsigned at = 0;

	recv->at = TWT_OVER;
	while (at < twt_inbox.waiting_count && !twt_inbox_takes(recv, twt_inbox.waiting[at]->tag))
		at++;
	if (at == twt_inbox.waiting_count && is_behind(recv)) {
		assert_int_equal(status, TOW_EBUSY);
	} else if (at == twt_inbox.waiting_count) {
		assert_int_equal(status, TOW_AGAIN);
		look(recv, &instant);
	} else if (may_have(recv, twt_inbox.waiting[at])) {
		struct twt_sent *message = twt_inbox.waiting[at];

		assert_int_equal(status, TOW_OK);
		twt_inbox_take_out(twt_inbox.waiting, &twt_inbox.waiting_count, at);
		check_taken(recv, &instant, message);
		kept_taken++;
	} else {
		assert_int_equal(status, TOW_EBUSY);
		assert_false(instant.taken);
	}
}

static bool is_done(const struct tow_op *op)
{
	return (atomic_load(&op->wait.state) & TWI_OP_DONE) != 0;
}

static void check_receive(struct twt_asked *recv)
{
	assert_int_equal(is_done(recv->op), recv->at == TWT_OVER);
	if (recv->at != TWT_OVER)
		return;
	assert_int_equal(recv->op->status, recv->status);
	assert_int_equal(recv->op->result_bytes, recv->bytes);
	for (uint64_t i = 0; recv->status == TOW_OK && i < recv->bytes; i++)
		assert_int_equal(recv->memory[i], byte_of(recv->op->seq, i));
	assert_int_equal(tow_op_release(recv->op), TOW_OK);
	recv->op = NULL;
}

static void check_all(void)
{
	uint64_t kept = 0;

	for (unsigned i = 0; i < receive_count; i++) {
		if (receives[i].op != NULL)
			check_receive(&receives[i]);
	}
	for (unsigned i = 0; i < twt_inbox.waiting_count; i++)
		kept += twt_inbox.waiting[i]->bytes;
	assert_int_equal(inbox.kept_bytes, kept);
	assert_int_equal(inbox.match.posted_count, twt_inbox.posted_count);
	assert_int_equal(inbox.match.unexpected_count, twt_inbox.waiting_count);
	assert_int_equal(inbox.credit.charged - inbox.credit.given, twt_inbox.credit_out);
}

static void play_round(void)
{
	static void (*const steps[])(void) = { step_post,  step_small,   step_small,
					       step_small, step_instant, step_instant };

	memset(&inbox, 0, sizeof(inbox));
	message_count = receive_count = twt_inbox.waiting_count = twt_inbox.posted_count = 0;
	twt_inbox.credit_out = 0;
	masks = rnd(2) == 0;
	twi_inbox_init(&inbox, peer, &ops, CREDIT, UINT64_MAX, &rule);
	for (unsigned i = 0; i < TWT_INBOX_STEPS; i++) {
		/* What waits hides what comes. */
		if (twt_inbox.waiting_count > 3)
			steps[rnd(3) == 0 ? 0 : 4]();
		else
			steps[rnd(twi_array_count(steps))]();
		check_all();
	}
	twi_inbox_fail(&inbox, TOW_EPEER);
	for (unsigned i = 0; i < receive_count; i++) {
		if (receives[i].op != NULL)
			assert_int_equal(tow_op_release(receives[i].op), TOW_OK);
	}
	twi_inbox_fini(&inbox);
}

static void test_instant(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++)
		play_round();
	print_message("%u were kept, %u caught, %u left alone\n", kept_taken, caught, left_alone);
	assert_true(kept_taken > ROUNDS && caught > ROUNDS && left_alone > ROUNDS);
}

static int set_up(void **state)
{
	(void)state;
	rng = seed;
	twt_lone_open(&runtime, &engine, &peer);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return twt_lone_close(runtime, peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_instant, set_up, tear_down),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
