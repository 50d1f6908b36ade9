/*
 * The outbox of a peer against a plain model: a list of sends, of which the first may go when the
 * lane has room for it and the other side credit. Small messages and offers; acknowledgements with
 * credit, true and false ones; offers that arrive, are refused or taken back; sends canceled at
 * each of their stages, and a peer that goes. TOW_TEST_SEED replays a run.
 */
#include "lone_peer.h"
#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "diag/record/counter.h"
#include "diag/record/latency.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/lane.h"
#include "transport/message/channel.h"
#include "transport/message/inbox.h"
#include "transport/message/outbox.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"
#include "transport/op/op.h"
#include "transport/wire/frame.h"
#include "transport/wire/rule.h"

#define ROUNDS 600
#define STEPS  600
#define EAGER  500u

enum sent_at { QUEUED, OFFERED, HELD, OVER }; /* HELD: the peer has gone, others have its memory */

/* A send as the model has it. */
struct send {
	struct tow_op *op;
	enum sent_at at;
	uint64_t bytes, seq;
	bool row; /* the lane has a row for it */
	int status;
	uint64_t result_bytes;
};

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_peer *peer;
static struct twi_outbox outbox;
static uint64_t seed, rng;

static struct send sends[STEPS];
static struct send *queued[STEPS]; /* the model's, in order */
static unsigned send_count, queued_count;
static uint64_t seq_sent, seq_acked, credit_out, stalls, smalls, offers, onces, sent_bytes;
static uint64_t credit;
static unsigned lazy;         /* so many acknowledgements are left out for one that comes */
static unsigned room;         /* of the lane: messages */
static unsigned rows;         /* of the lane, in use */
static bool timed[STEPS + 1]; /* by number: small, and not acknowledged */
static uint8_t payload[2 * EAGER];

static uint64_t rnd(uint64_t bound)
{
	return twt_random_below(&rng, bound);
}

/* --- the lane --- */

static bool lane_write(const struct twi_outbox *of, uint64_t seq)
{
	assert_ptr_equal(of, &outbox);
	assert_int_equal(seq, of->seq_sent + 1);
	if (room == 0)
		return false;
	room--;
	return true;
}

static bool lane_small(struct twi_outbox *of, const struct twi_outbound *out)
{
	uint32_t sum = 0;

	assert_true(out->bytes <= EAGER);
	assert_ptr_equal(out->data, payload);
	assert_int_equal(twi_outbox_sum(of, out, &sum), twi_outbox_sums(of, out->seq));
	assert_int_equal(sum, twi_outbox_sums(of, out->seq) ? twi_checksum(0, out->data, out->bytes)
							    : 0);
	return lane_write(of, out->seq);
}

static bool lane_offer(struct twi_outbox *of, struct tow_op *op)
{
	uint32_t sum = 0;

	assert_true(op->bytes > EAGER);
	assert_int_equal(op->stage, TWI_STAGE_OFFERED);
	assert_int_equal(twi_outbox_sum_offer(of, op, &sum), twi_outbox_sums(of, op->seq));
	if (!lane_write(of, op->seq))
		return false;
	if (op->seq % 2 == 0) {
		op->lane_state = sends;
		rows++;
	}
	return true;
}

static bool lane_take_back(struct twi_outbox *of, struct tow_op *op, int status, bool force)
{
	assert_int_equal(op->stage, TWI_STAGE_OFFERED);
	if (!force)
		return false;
	twi_outbox_end(of, op, status, 0);
	return true;
}

static bool lane_lost(struct twi_outbox *of, struct tow_op *op, int status)
{
	(void)of;
	assert_int_equal(status, TOW_EPEER);
	return op->seq % 4 != 0;
}

static void lane_forget(struct twi_outbox *of, struct tow_op *op)
{
	(void)of;
	assert_ptr_equal(op->lane_state, sends);
	rows--;
}

static const struct twi_outbox_ops ops = { .small = lane_small,
					   .offer = lane_offer,
					   .take_back = lane_take_back,
					   .lost = lane_lost,
					   .forget = lane_forget };

/* --- the model --- */

static void model_over(struct send *send, int status, uint64_t bytes)
{
	send->at = OVER;
	send->status = status;
	send->result_bytes = bytes;
}

/* Does the first message go? A new one that credit holds up is counted. */
static bool model_put(struct send *send, unsigned *model_room, bool new)
{
	bool small = send->bytes <= EAGER;
	uint32_t cost = twi_frame_cost(small ? (uint32_t)send->bytes : 0);

	if (credit_out + cost > credit) {
		stalls += new;
		return false;
	}
	if (*model_room == 0)
		return false;
	*model_room -= 1;
	credit_out += cost;
	send->seq = ++seq_sent;
	if (small) {
		smalls++;
		sent_bytes += send->bytes;
		timed[send->seq] = true;
		model_over(send, TOW_OK, send->bytes);
	} else {
		offers++;
		send->at = OFFERED;
		send->row = send->seq % 2 == 0;
	}
	return true;
}

static unsigned model_drain(unsigned most)
{
	unsigned count = 0, left = room;

	while (count < most && queued_count > 0 && model_put(queued[0], &left, false)) {
		memmove(queued, queued + 1, --queued_count * sizeof(queued[0]));
		count++;
	}
	return count;
}

/* --- steps --- */

static struct send *begin_send(void)
{
	struct send *send = &sends[send_count++];

	*send = (struct send){ .bytes = rnd(rnd(2) == 0 ? 9 : sizeof(payload)), .at = QUEUED };
	send->op = twi_op_acquire(engine, &twi_send_ops, NULL);
	assert_non_null(send->op);
	send->op->peer = peer;
	send->op->data = payload;
	send->op->bytes = send->bytes;
	return send;
}

static void step_send(void)
{
	struct send *send = begin_send();
	unsigned left = room;

	if (queued_count > 0 || !model_put(send, &left, true))
		queued[queued_count++] = send;
	twi_outbox_send(&outbox, send->op);
	assert_int_equal(room, left);
}

/* One without an operation: it goes now, or nothing happens. */
static void step_at_once(void)
{
	struct twi_outbound out = { .data = payload, .bytes = rnd(sizeof(payload)) };
	struct send send = { .bytes = out.bytes };
	unsigned left = room;
	bool goes = queued_count == 0 && out.bytes <= EAGER &&
		    !twi_span_chosen(engine->diag, out.bytes, seq_sent + 1) &&
		    model_put(&send, &left, false);

	onces += goes;
	assert_int_equal(twi_outbox_at_once(&outbox, &out), goes);
	assert_int_equal(room, left);
}

static void step_room(void)
{
	unsigned most = rnd(2) == 0 ? UINT32_MAX : (unsigned)rnd(4), count;

	room += (unsigned)rnd(4);
	count = model_drain(most);
	assert_int_equal(twi_outbox_drain(&outbox, most), count);
}

static void step_ack(void)
{
	uint64_t seq = seq_acked + rnd((seq_sent - seq_acked) / 2 + 2), back = rnd(credit_out + 1);
	uint8_t rule = 0;

	if (rnd(lazy + 1) > 0)
		return;
	seq = twi_min(seq, seq_sent);
	for (; seq_acked < seq; seq_acked++)
		timed[seq_acked + 1] = false;
	credit_out -= back;
	assert_int_equal(
		twi_outbox_acked(&outbox, seq, outbox.credit.returned + back, rnd(100), &rule),
		TOW_OK);
	assert_int_equal(rule, 0);
	model_drain(UINT32_MAX);
	twi_outbox_drain(&outbox, UINT32_MAX);
}

/* What was never sent, or used, is not acknowledged, nor the same twice. */
static void step_lie(void)
{
	uint64_t seq = seq_sent + 1 + rnd(9), back = outbox.credit.used;
	int what = (int)rnd(4);
	enum twi_rule expected = TWI_RULE_ACK;
	uint8_t rule = 0;

	if (what > 0 && (seq_acked == 0 || outbox.credit.returned == 0))
		return;
	if (what == 1) {
		seq = seq_acked - 1;
	} else if (what > 1) {
		expected = TWI_RULE_CREDIT_BACK;
		seq = seq_sent;
		back = what == 2 ? back + 1 + rnd(9) : outbox.credit.returned - 1;
	}
	assert_int_equal(twi_outbox_acked(&outbox, seq, back, 0, &rule), TOW_EPROTOCOL);
	assert_int_equal(rule, expected);
	assert_int_equal(twi_outbox_acked(&outbox, seq, back, 0, &(uint8_t){ 9 }), TOW_EPROTOCOL);
}

static struct send *some_send(enum sent_at at)
{
	struct send *send = send_count > 0 ? &sends[rnd(send_count)] : NULL;

	return send != NULL && send->at == at ? send : NULL;
}

/* The other side has a large one, or does not want it. */
static void step_answer(void)
{
	struct send *send = some_send(OFFERED);

	if (send == NULL)
		return;
	assert_ptr_equal(twi_outbox_find(&outbox, send->seq), send->op);
	if (rnd(3) == 0) {
		model_over(send, TOW_ETRUNCATED, send->bytes);
	} else {
		model_over(send, TOW_OK, send->bytes);
		sent_bytes += send->bytes;
		twi_outbox_arrived(&outbox, send->op, 0, 0);
	}
	twi_outbox_end(&outbox, send->op, send->status, send->bytes);
	assert_null(twi_outbox_find(&outbox, send->seq));
}

static void step_cancel(void)
{
	struct send *send = some_send(rnd(2) == 0 ? QUEUED : OFFERED);
	bool force = rnd(2) == 0;
	unsigned at = 0;

	if (send == NULL)
		return;
	if (send->at == OFFERED) {
		if (force)
			model_over(send, TOW_ECANCELED, 0);
		assert_int_equal(twi_outbox_abort(&outbox, send->op, TOW_ECANCELED, force), force);
		return;
	}
	while (queued[at] != send)
		at++;
	memmove(queued + at, queued + at + 1, (--queued_count - at) * sizeof(queued[0]));
	model_over(send, TOW_ECANCELED, 0);
	model_drain(UINT32_MAX);
	assert_true(twi_outbox_abort(&outbox, send->op, TOW_ECANCELED, force));
}

/* --- what must hold --- */

static void check_send(struct send *send)
{
	bool done = (atomic_load(&send->op->wait.state) & TWI_OP_DONE) != 0;

	assert_int_equal(done, send->at == OVER);
	assert_int_equal(send->op->seq, send->seq);
	if (!done)
		return;
	assert_int_equal(send->op->status, send->status);
	assert_int_equal(send->op->result_bytes, send->result_bytes);
	assert_int_equal(tow_op_release(send->op), TOW_OK);
	send->op = NULL;
}

static void check_all(void)
{
	const struct twi_list *pos = outbox.queued.next;
	uint32_t times = 0, at;
	unsigned held = 0;

	for (unsigned i = 0; i < send_count; i++) {
		held += sends[i].row && sends[i].at != OVER;
		if (sends[i].op != NULL)
			check_send(&sends[i]);
	}
	assert_int_equal(rows, held);
	for (unsigned i = 0; i < queued_count; i++, pos = pos->next)
		assert_ptr_equal(twi_container_of(pos, struct tow_op, link), queued[i]->op);
	assert_ptr_equal(pos, &outbox.queued);
	assert_int_equal(twi_outbox_waiting(&outbox), twi_min(queued_count, 64u));
	assert_int_equal(outbox.seq_sent, seq_sent);
	assert_int_equal(outbox.seq_acked, seq_acked);
	assert_int_equal(outbox.credit.used - outbox.credit.returned, credit_out);
	if (outbox.failed == 0)
		assert_int_equal(outbox.starved_since_ns != 0, twi_outbox_no_credit(&outbox));
	for (uint64_t seq = seq_acked + 1; seq <= seq_sent; seq++) {
		if (!timed[seq])
			continue;
		at = (outbox.times_first + times++) & (outbox.times_room - 1);
		assert_int_equal(outbox.times[at].seq, seq);
	}
	assert_int_equal(outbox.times_count, times);
}

static uint64_t counted(enum twi_counter id)
{
	return twi_counter_sum(engine->diag, id);
}

/* The peer goes: everything ends, but what others have the memory of. */
static void end_round(void)
{
	for (unsigned i = 0; i < send_count; i++) {
		if (sends[i].at == OFFERED && sends[i].seq % 4 == 0)
			sends[i].at = HELD;
		else if (sends[i].at != OVER)
			model_over(&sends[i], TOW_EPEER, 0);
	}
	queued_count = 0;
	twi_outbox_fail(&outbox, TOW_EPEER);
	check_all();
	for (unsigned i = 0; i < send_count; i++) {
		if (sends[i].at != HELD)
			continue;
		model_over(&sends[i], TOW_EPEER, 0);
		twi_outbox_end(&outbox, sends[i].op, TOW_EPEER, 0);
	}
	check_all();
	send_count = 0;
	assert_false(twi_outbox_at_once(&outbox, &(struct twi_outbound){ .data = payload }));
	twi_outbox_send(&outbox, begin_send()->op);
	model_over(&sends[0], TOW_EPEER, 0);
	check_send(&sends[0]);
	twi_outbox_fini(&outbox);
}

static void begin_round(uint32_t timed_every_ns, bool checksum_all)
{
	const struct twi_outbox_config config = { .credit_bytes = credit,
						  .eager_bytes = EAGER,
						  .timed_every_ns = timed_every_ns,
						  .checksum_all = checksum_all,
						  .hears = true };

	memset(&outbox, 0, sizeof(outbox));
	memset(timed, 0, sizeof(timed));
	send_count = queued_count = rows = 0;
	seq_sent = seq_acked = credit_out = 0;
	twi_outbox_init(&outbox, peer, &ops);
	twi_outbox_configure(&outbox, &config);
	assert_int_equal(outbox.eager_bytes, EAGER);
}

static void test_model(void **state)
{
	static void (*const steps[])(void) = { step_send,   step_send, step_at_once, step_room,
					       step_room,   step_room, step_ack,     step_answer,
					       step_answer, step_lie,  step_cancel,  step_cancel };
	uint64_t before[] = { counted(TWI_C_credit_stalls), counted(TWI_C_eager_sends),
			      counted(TWI_C_rendezvous_sends), counted(TWI_C_send_bytes) };

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		credit = rnd(2) == 0 ? 4096 : 65536; /* the ring of times grows with it */
		lazy = rnd(2) == 0 ? 0 : 60;
		begin_round(0, rnd(2) == 0);
		room = (unsigned)rnd(8);
		for (unsigned step = 0; step < STEPS - 1; step++) {
			steps[rnd(twi_array_count(steps))]();
			check_all();
		}
		end_round();
	}
	assert_true(stalls > 0 && onces > 0);
	assert_int_equal(counted(TWI_C_credit_stalls) - before[0], stalls);
	assert_int_equal(counted(TWI_C_eager_sends) - before[1], smalls);
	assert_int_equal(counted(TWI_C_rendezvous_sends) - before[2], offers);
	assert_int_equal(counted(TWI_C_send_bytes) - before[3], sent_bytes);
}

/* Of those that come in a burst one is timed, and the next after a while. */
static void test_bursts(void **state)
{
	(void)state;
	credit = 4096;
	begin_round(1000, false);
	room = 10;
	for (unsigned i = 0; i < 6; i++) {
		struct tow_op *op = twi_op_acquire(engine, &twi_send_ops, NULL);

		op->peer = peer;
		op->data = payload;
		op->bytes = 8;
		op->start_ns = 1000000 + i * 300ull;
		twi_outbox_send(&outbox, op);
		assert_int_equal(outbox.times_count, i < 4 ? 1 : 2);
		assert_int_equal(tow_op_release(op), TOW_OK);
	}
	assert_int_equal(outbox.times[1].seq, 5);
	twi_outbox_fini(&outbox);
}

/* A message may use half of the credit, of which more than some is not used. */
static void test_credit(void **state)
{
	struct twi_outbox_config config = { .credit_bytes = 256, .eager_bytes = EAGER };

	(void)state;
	memset(&outbox, 0, sizeof(outbox));
	twi_outbox_init(&outbox, peer, &ops);
	twi_outbox_configure(&outbox, &config);
	assert_int_equal(outbox.eager_bytes, 256 / 2 - twi_frame_cost(0));
	config.credit_bytes = 64;
	twi_outbox_configure(&outbox, &config);
	assert_int_equal(outbox.eager_bytes, 0);
	config.credit_bytes = UINT64_MAX - 1;
	twi_outbox_configure(&outbox, &config);
	assert_int_equal(outbox.credit.bytes, TWI_CREDIT_MAX);
	twi_outbox_fini(&outbox);
}

/* The other side opens the channel, and grants it credit. */
static struct twi_channel *open_channel(struct tow_channel *user)
{
	const struct twi_channel_control control = { TWI_CHANNEL_OPEN, 3, 4096 };
	const struct twi_inbound in = { .tag = twi_channel_control_put(&control),
					.space = TWI_SPACE_LINK };
	struct twi_channel *channel;
	uint8_t rule = 0;

	peer->features |= TWI_FEATURE_BIT(channels);
	assert_int_equal(twi_channels_received(peer, &in, &rule), TOW_OK);
	channel = twi_channel_find(peer, control.number);
	assert_non_null(channel);
	channel->user = user;
	return channel;
}

static struct tow_op *send_on(const struct twi_channel *channel)
{
	struct tow_op *op = twi_op_acquire(engine, &twi_send_ops, NULL);

	op->peer = peer;
	op->data = payload;
	op->bytes = 8;
	op->channel = channel->number;
	twi_list_init(&op->on_channel);
	twi_outbox_send(&outbox, op);
	return op;
}

/* A drain that ends with the last send of a channel leaves no send that waits. */
static void test_channel_drain(void **state)
{
	struct tow_channel user = { .peer = peer, .number = 3 };
	struct twi_channel *channel;
	struct tow_op *sent[4];

	(void)state;
	credit = 4096;
	begin_round(0, false);
	room = 0;
	channel = open_channel(&user);
	for (unsigned i = 0; i < 3; i++)
		sent[i] = send_on(channel);
	assert_true(twi_outbox_waits(&outbox));
	assert_int_equal(twi_outbox_waiting(&outbox), 3);
	assert_false(twi_outbox_no_credit(&outbox));
	room = 10;
	assert_int_equal(twi_outbox_drain(&outbox, 3), 3);
	assert_false(twi_outbox_waits(&outbox));
	assert_int_equal(twi_outbox_waiting(&outbox), 0);
	assert_false(twi_outbox_no_credit(&outbox));
	assert_int_equal(outbox.starved_since_ns, 0);
	channel->out.used = channel->out.returned + channel->out.bytes;
	sent[3] = send_on(channel);
	assert_true(twi_outbox_no_credit(&outbox));
	assert_int_equal(twi_outbox_waiting(&outbox), 1);
	assert_true(outbox.starved_since_ns != 0);
	twi_outbox_fail(&outbox, TOW_EPEER);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(sent[i]->status, i < 3 ? TOW_OK : TOW_EPEER);
		assert_int_equal(tow_op_release(sent[i]), TOW_OK);
	}
	channel->user = NULL;
	twi_outbox_fini(&outbox);
}

static int set_up(void **state)
{
	(void)state;
	rng = seed;
	twt_lone_open(&runtime, &engine, &peer);
	for (unsigned i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)rnd(256);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	twi_latency_leave(engine->diag, &peer->latency_row);
	return twt_lone_close(runtime, peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_model, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bursts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_credit, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_channel_drain, set_up, tear_down),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
