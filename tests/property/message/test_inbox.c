/*
 * The inbox of a peer against a plain model: two lists that are walked from their oldest entry.
 * Small messages whole and in parts, good, corrupt and too long; offers that are fetched, refused,
 * taken back by their sender before and after a receive has met them; receives canceled at each of
 * their stages; receives of one tag, of some, of any. Once with a sender that keeps account of the
 * credit (as streams and ofi), once without (as shm). TOW_TEST_SEED replays a run.
 */
#include "inbox_model.h"
#include "lone_peer.h"
#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "diag/base/checksum.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/lane.h"
#include "transport/message/inbox.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/op.h"
#include "transport/wire/frame.h"
#include "transport/wire/rule.h"

#define ROUNDS     1500
#define TAGS       4u
#define MESSAGES   TWT_INBOX_STEPS
#define RECEIVES   TWT_INBOX_STEPS
#define OFFERS_MAX 64u
#define CREDIT     4096u

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_peer *peer;
static struct twi_inbox inbox;
static bool masks;
static uint8_t rule;
static uint64_t seed, rng;

static struct twt_sent messages[MESSAGES];
static struct twt_asked receives[RECEIVES];
static unsigned message_count, receive_count;
static struct twt_sent *coming; /* the one that comes in parts */
static uint64_t coming_left;

static uint64_t rnd(uint64_t bound)
{
	return twt_random_below(&rng, bound);
}

static uint8_t byte_of(uint64_t seq, uint64_t at)
{
	return (uint8_t)(seq * 37 + at * 11 + 1);
}

static struct twt_asked *receiver_of(const struct twt_sent *message)
{
	for (unsigned i = 0; i < receive_count; i++) {
		if (receives[i].at == TWT_MET && receives[i].met == message)
			return &receives[i];
	}
	return NULL;
}

/* --- the lane: its rows are the model's messages --- */

static struct twi_unexpected rows[OFFERS_MAX];
static bool row_used[OFFERS_MAX];

static void row_free(struct twi_unexpected *row)
{
	assert_true(row_used[row - rows]);
	row_used[row - rows] = false;
}

static void lane_matched(struct twi_inbox *of, struct tow_op *op, struct twi_unexpected *offer)
{
	assert_ptr_equal(of, &inbox);
	assert_true(offer->bytes <= op->bytes || op->truncate);
	op->stage = TWI_STAGE_GRANTED;
}

static void lane_refuse(struct twi_inbox *of, struct tow_op *op, struct twi_unexpected *offer,
			int status)
{
	row_free(offer);
	twi_inbox_end(of, op, status, offer->bytes);
}

static void lane_forget(struct twi_inbox *of, struct twi_unexpected *offer)
{
	(void)of;
	row_free(offer);
}

static void lane_credit(struct twi_inbox *of)
{
	of->credit.reported = of->credit.given;
}

static const struct twi_inbox_ops ops = { .matched = lane_matched,
					  .refuse = lane_refuse,
					  .forget = lane_forget,
					  .credit_due = lane_credit };

/* --- steps --- */

static void step_post(void)
{
	struct twt_asked *recv = &receives[receive_count++];

	*recv = (struct twt_asked){ .tag = rnd(TAGS),
				    .mask = masks && rnd(3) == 0 ? rnd(TAGS) : UINT64_MAX,
				    .started = receive_count,
				    .room = rnd(4) == 0 ? rnd(TWT_INBOX_BYTES) : TWT_INBOX_BYTES,
				    .truncate = rnd(3) == 0 };
	recv->op = twi_op_acquire(engine, &twi_recv_ops, NULL);
	assert_non_null(recv->op);
	recv->op->peer = peer;
	recv->op->data = recv->memory;
	recv->op->bytes = recv->room;
	recv->op->tag = recv->tag & recv->mask;
	recv->op->match.wild = recv->mask != UINT64_MAX;
	recv->op->match.tag_mask = recv->mask;
	if (recv->op->match.wild)
		twi_match_go_wild(&inbox.match);
	recv->op->truncate = recv->truncate;
	twt_inbox_post(recv);
	twi_inbox_recv(&inbox, recv->op);
}

/* The next message, if the credit has room for it; its number is not taken yet. */
static struct twt_sent *next_message(bool offered)
{
	struct twt_sent *message = &messages[message_count];

	*message = (struct twt_sent){ .seq = inbox.seq_received + 1,
				      .tag = rnd(TAGS),
				      .bytes = rnd(8) == 0 ? 0 : rnd(TWT_INBOX_BYTES),
				      .offered = offered,
				      .whole = true };
	if (offered)
		message->bytes++;
	if (twt_inbox.credit_out + twi_frame_cost(offered ? 0 : (uint32_t)message->bytes) > CREDIT)
		return NULL;
	return message;
}

/* It has come. */
static void admit(struct twt_sent *message)
{
	uint32_t cost = message->offered ? 0 : (uint32_t)message->bytes;

	message_count++;
	assert_int_equal(twi_inbox_admit(&inbox, message->seq, cost, 0, 0), TOW_OK);
	message->charged = true;
	twt_inbox.credit_out += twi_frame_cost(cost);
}

static struct twi_inbound inbound_of(struct twt_sent *message, const uint8_t *payload)
{
	uint32_t sum = twi_checksum(0, payload, message->bytes);
	bool summed = rnd(3) == 0;

	message->corrupt = summed && message->bytes > 0 && rnd(3) == 0;
	return (struct twi_inbound){ .payload = payload,
				     .seq = message->seq,
				     .tag = message->tag,
				     .bytes = message->bytes,
				     .sum = message->corrupt ? ~sum : sum,
				     .summed = summed };
}

static uint8_t payload[TWT_INBOX_BYTES + 1];

static void fill_payload(const struct twt_sent *message)
{
	for (uint64_t i = 0; i < message->bytes; i++)
		payload[i] = byte_of(message->seq, i);
}

static void step_small(void)
{
	struct twt_sent *message = next_message(false);
	struct twi_inbound in;

	if (message == NULL || coming != NULL)
		return;
	fill_payload(message);
	in = inbound_of(message, payload);
	admit(message);
	twt_inbox_arrive(message);
	assert_int_equal(twi_inbox_small(&inbox, &in), TOW_OK);
}

static void step_begin(void)
{
	struct twt_sent *message;
	struct twi_inbound in;

	if (coming != NULL || (message = next_message(false)) == NULL)
		return;
	fill_payload(message);
	in = inbound_of(message, payload);
	admit(message);
	message->whole = message->bytes == 0;
	twt_inbox_arrive(message);
	assert_int_equal(twi_inbox_begin(&inbox, &in), TOW_OK);
	if (message->bytes == 0)
		return;
	coming = message;
	coming_left = message->bytes;
}

static void step_fill(void)
{
	struct twt_sent *message = coming;
	struct twt_asked *recv;
	uint64_t n;

	if (message == NULL)
		return;
	n = rnd(2) == 0 ? coming_left : rnd(coming_left + 1);
	fill_payload(message);
	if (n == coming_left) {
		coming = NULL;
		message->whole = true;
		recv = receiver_of(message);
		if (recv != NULL)
			twt_inbox_deliver(recv, message);
		else if (message->at == TWT_OVER)
			twt_inbox_credit_back(message);
	}
	assert_int_equal(twi_inbox_fill(&inbox, payload + message->bytes - coming_left, n), n);
	coming_left -= n;
}

static void step_offer(void)
{
	struct twt_sent *message = next_message(true);
	struct tow_op *op;
	unsigned at = 0;

	while (at < OFFERS_MAX && row_used[at])
		at++;
	if (message == NULL || coming != NULL || at == OFFERS_MAX)
		return;
	row_used[at] = true;
	message->row = &rows[at];
	admit(message);
	rows[at] = (struct twi_unexpected){ .match = { .tag = message->tag },
					    .seq = message->seq,
					    .bytes = message->bytes,
					    .offered = true };
	twt_inbox_arrive(message);
	op = rnd(2) == 0 ? twi_inbox_take_posted(&inbox, message->tag, 0, message->bytes) : NULL;
	if (op != NULL)
		twi_inbox_meet(&inbox, op, &rows[at]);
	else
		twi_inbox_wait(&inbox, &rows[at]);
}

/* An offer whose receive has met it: it is fetched, or its sender takes it back. */
static void step_met(void)
{
	struct twt_asked *recv;
	struct twt_sent *message;

	if (receive_count == 0)
		return;
	recv = &receives[rnd(receive_count)];
	message = recv->met;
	if (recv->at != TWT_MET || !message->offered)
		return;
	row_free(message->row);
	message->at = TWT_OVER;
	if (rnd(3) == 0) {
		twt_inbox_post(recv);
		twi_inbox_repost(&inbox, recv->op);
		return;
	}
	for (uint64_t i = 0; i < message->bytes && i < recv->room; i++)
		recv->memory[i] = byte_of(message->seq, i);
	twt_inbox_over_well(recv, message->bytes);
	twi_inbox_received(&inbox, recv->op, message->bytes);
}

/* The sender takes an offer back that waits. */
static void step_withdraw(void)
{
	unsigned at = twt_inbox.waiting_count > 0 ? (unsigned)rnd(twt_inbox.waiting_count) : 0;
	struct twt_sent *message;
	struct twi_unexpected *row;

	if (twt_inbox.waiting_count == 0 || !twt_inbox.waiting[at]->offered)
		return;
	message = twt_inbox.waiting[at];
	twt_inbox_take_out(twt_inbox.waiting, &twt_inbox.waiting_count, at);
	twt_inbox_credit_back(message);
	message->at = TWT_OVER;
	row = twi_inbox_find_offer(&inbox, message->seq);
	assert_ptr_equal(row, message->row);
	twi_inbox_drop_offer(&inbox, row);
	row_free(row);
	assert_null(twi_inbox_find_offer(&inbox, message->seq));
}

static void cancel_waiting(struct twt_asked *recv)
{
	for (unsigned i = 0; i < twt_inbox.posted_count; i++) {
		if (twt_inbox.posted[i] == recv)
			twt_inbox_take_out(twt_inbox.posted, &twt_inbox.posted_count, i);
	}
	twt_inbox_over(recv, TOW_ECANCELED, 0);
	assert_true(twi_inbox_withdraw(&inbox, recv->op, TOW_ECANCELED, rnd(2) == 0));
}

/* Its message is coming in parts: taken back by force it goes on coming, in front. */
static void cancel_filling(struct twt_asked *recv)
{
	struct twt_sent *message = recv->met;
	bool fits = message->bytes <= recv->room, force = rnd(2) == 0;
	bool direct = inbox.filling.op == recv->op;

	if (!force) {
		assert_false(twi_inbox_withdraw(&inbox, recv->op, TOW_ECANCELED, false));
		return;
	}
	if (direct && !fits && !recv->truncate) {
		message->at =
			TWT_OVER; /* its bytes fall nowhere, and cost credit until they have come */
		twt_inbox_over(recv, TOW_ETRUNCATED, message->bytes);
	} else if (direct && message->bytes - coming_left >= recv->room && !fits) {
		message->at = TWT_OVER; /* what fits has come */
		twt_inbox_over_well(recv, message->bytes);
	} else {
		twt_inbox_over(recv, TOW_ECANCELED, 0);
		twt_inbox_arrive(message);
	}
	assert_true(twi_inbox_withdraw(&inbox, recv->op, TOW_ECANCELED, true));
}

static void cancel_offered(struct twt_asked *recv)
{
	struct twt_sent *message = recv->met;

	assert_false(twi_inbox_withdraw(&inbox, recv->op, TOW_ECANCELED, true));
	message->row->credited = true;
	twt_inbox_over(recv, TOW_ECANCELED, 0);
	twi_inbox_end(&inbox, recv->op, TOW_ECANCELED, 0);
	twt_inbox_arrive(message);
	twi_inbox_put_back(&inbox, message->row);
}

static void step_cancel(void)
{
	struct twt_asked *recv;

	if (receive_count == 0)
		return;
	recv = &receives[rnd(receive_count)];
	if (recv->at == TWT_WAITS)
		cancel_waiting(recv);
	else if (recv->at == TWT_MET && recv->met->offered)
		cancel_offered(recv);
	else if (recv->at == TWT_MET)
		cancel_filling(recv);
}

/* --- what must hold --- */

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
	if (recv->status == TOW_OK) {
		uint64_t seq = recv->op->seq;

		assert_int_equal(recv->op->tag, recv->met_tag);
		if (recv->op->truncate == TWI_TRUNCATE_DONE || recv->dropped > 0)
			assert_int_equal(recv->op->dropped_bytes, recv->dropped);

		for (uint64_t i = 0; i < recv->bytes; i++)
			assert_int_equal(recv->memory[i], byte_of(seq, i));
	}
	for (uint64_t i = recv->room; i < sizeof(recv->memory); i++)
		assert_int_equal(recv->memory[i], 0);
	assert_int_equal(tow_op_release(recv->op), TOW_OK);
	recv->op = NULL;
}

static void check_all(void)
{
	uint64_t kept = 0;
	unsigned used = 0, offers = 0;

	for (unsigned i = 0; i < receive_count; i++) {
		if (receives[i].op != NULL)
			check_receive(&receives[i]);
	}
	assert_int_equal(inbox.match.posted_count, twt_inbox.posted_count);
	assert_int_equal(inbox.match.unexpected_count, twt_inbox.waiting_count);
	assert_int_equal(inbox.credit.charged - inbox.credit.given, twt_inbox.credit_out);
	for (unsigned i = 0; i < OFFERS_MAX; i++)
		used += row_used[i];
	for (unsigned i = 0; i < message_count; i++)
		offers += messages[i].offered && messages[i].at != TWT_OVER;
	assert_int_equal(used, offers);
	for (unsigned i = 0; i < twt_inbox.waiting_count; i++)
		kept += twt_inbox.waiting[i]->offered ? 0 : twt_inbox.waiting[i]->bytes;
	if (inbox.filling.kept != NULL && inbox.filling.kept->waiter != NULL)
		kept += inbox.filling.bytes;
	assert_int_equal(inbox.kept_bytes, kept);
}

/* The peer goes: what waits ends, whole messages are still to be had. */
static void end_round(void)
{
	struct twt_sent *left[MESSAGES];
	unsigned left_count = 0;

	twi_inbox_fail(&inbox, TOW_EPEER);
	for (unsigned i = 0; i < receive_count; i++) {
		struct twt_asked *recv = &receives[i];

		if (recv->at == TWT_OVER)
			continue;
		if (recv->at == TWT_MET && recv->met->offered) { /* the lane's to end */
			row_free(recv->met->row);
			twi_inbox_end(&inbox, recv->op, TOW_EPEER, 0);
		}
		twt_inbox_over(recv, TOW_EPEER, 0);
	}
	twt_inbox.posted_count = 0;
	for (unsigned i = 0; i < twt_inbox.waiting_count; i++) {
		if (!twt_inbox.waiting[i]->offered && twt_inbox.waiting[i]->whole)
			left[left_count++] = twt_inbox.waiting[i];
	}
	memcpy(twt_inbox.waiting, left, left_count * sizeof(left[0]));
	twt_inbox.waiting_count = left_count;
	for (unsigned i = 0; i < OFFERS_MAX; i++)
		assert_false(row_used[i]);
	assert_int_equal(inbox.match.posted_count, 0);
	assert_int_equal(inbox.match.unexpected_count, twt_inbox.waiting_count);
	for (unsigned i = 0; i < receive_count; i++) {
		if (receives[i].op != NULL)
			check_receive(&receives[i]);
	}
	receive_count = 0;
	for (unsigned i = 0; i < TAGS; i++) { /* one more of each tag */
		step_post();
		if (receives[i].at == TWT_WAITS) {
			twt_inbox_take_out(twt_inbox.posted, &twt_inbox.posted_count, 0);
			twt_inbox_over(&receives[i], TOW_EPEER, 0);
		}
		check_receive(&receives[i]);
	}
	twi_inbox_fini(&inbox);
	assert_int_equal(inbox.match.unexpected_count, 0);
	assert_int_equal(inbox.kept_bytes, 0);
}

static void play_round(void)
{
	static void (*const steps[])(void) = { step_post,     step_post,  step_post, step_small,
					       step_small,    step_begin, step_fill, step_fill,
					       step_offer,    step_offer, step_met,  step_met,
					       step_withdraw, step_cancel };

	memset(&inbox, 0, sizeof(inbox));
	message_count = receive_count = twt_inbox.waiting_count = twt_inbox.posted_count = 0;
	coming = NULL;
	masks = rnd(2) == 0;
	twt_inbox.credit_out = 0;
	twi_inbox_init(&inbox, peer, &ops, CREDIT, UINT64_MAX, &rule);
	for (unsigned i = 0; i < TWT_INBOX_STEPS - TAGS; i++) {
		steps[rnd(twi_array_count(steps))]();
		check_all();
	}
	end_round();
}

static void test_rounds(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++)
		play_round();
}

/* A sender must not send out of order, more than its credit, or on a channel nobody has opened. */
static void test_rules(void **state)
{
	uint64_t seq = 0;

	(void)state;
	memset(&inbox, 0, sizeof(inbox));
	rule = 0;
	twi_inbox_init(&inbox, peer, &ops, CREDIT, UINT64_MAX, &rule);
	assert_int_equal(twi_inbox_admit(&inbox, 2, 0, 0, 0), TOW_EPROTOCOL);
	assert_int_equal(rule, TWI_RULE_MESSAGE_ORDER);
	rule = 0;
	assert_int_equal(twi_inbox_admit(&inbox, 1, 0, 0, 7), TOW_EPROTOCOL);
	assert_int_equal(rule, TWI_RULE_CHANNEL);
	rule = 0;
	while (inbox.credit.charged + twi_frame_cost(0) <= CREDIT)
		assert_int_equal(twi_inbox_admit(&inbox, ++seq, 0, 0, 0), TOW_OK);
	assert_int_equal(rule, 0);
	assert_int_equal(twi_inbox_admit(&inbox, ++seq, 0, 0, 0), TOW_EPROTOCOL);
	assert_int_equal(rule, TWI_RULE_CREDIT);
	twi_inbox_fini(&inbox);
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
		cmocka_unit_test_setup_teardown(test_rounds, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_rules, set_up, tear_down),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
