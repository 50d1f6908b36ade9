/*
 * A peer that says anything at all, in any order: frames that are legal one by one and lie about
 * the rest, on every stream, with breaks and resumes in between, while this side sends, receives
 * and takes back. Nothing may crash or end twice, and no bound be passed; the peer is given up when
 * it is caught.
 */
#include "far_bulk.h"

#define ROUNDS 1000
#define STEPS  300
#define OPS    64

static uint64_t rng;
static struct tow_op *ops[OPS];
static uint64_t next_seq;
static unsigned faults, resumed;
static uint64_t steps;

static uint64_t below(uint64_t bound)
{
	return twt_random_below(&rng, bound);
}

/* A seq that may be about something: of the last few. */
static uint64_t some_seq(uint64_t last)
{
	uint64_t back = below(4);

	return below(20) == 0 ? 1 + below(1000) : last > back ? last - back : 1;
}

static uint64_t some_length(void)
{
	static const uint64_t lengths[] = { 1, 100, EAGER, EAGER + 1, LARGE, 3 * LARGE };

	return lengths[below(twi_array_count(lengths))];
}

static bool lies(void)
{
	return below(40) == 0;
}

/* The seq of a message that is at this stage; any, when there is none or it is a lie. */
static uint64_t seq_at(enum twi_op_stage stage, uint64_t *bytes_out)
{
	unsigned from = (unsigned)below(OPS);

	*bytes_out = LARGE;
	for (unsigned i = 0; i < OPS && !lies(); i++) {
		const struct tow_op *op = ops[(from + i) % OPS];

		if (op == NULL || twt_far_status_of(op) != TOW_AGAIN || op->kind != TWI_OP_SEND ||
		    op->stage != stage)
			continue;
		*bytes_out = op->bytes;
		return op->seq;
	}
	return lies() ? some_seq(twt_far.session->outbox.seq_sent) : 0;
}

static bool has_credit(void)
{
	return twt_far.session->inbox.credit.charged - twt_far.session->inbox.credit.given + 300 <
		       CREDIT ||
	       lies();
}

/* What the other side may answer about this side's messages. */
static int answer_something(void)
{
	uint64_t n, seq = seq_at(below(2) ? TWI_STAGE_OFFERED : TWI_STAGE_SENT, &n);
	struct twi_grant *send;

	if (seq == 0)
		return TOW_OK;
	send = twi_session_send_find(twt_far.session, seq);
	if (below(8) == 0)
		return twt_far_say(TWI_FRAME_REFUSE, seq, 0,
				   send != NULL && send->ready ? 1 + below(4) : 1 + below(2));
	if (send == NULL || lies())
		return twt_far_say(TWI_FRAME_CTS, seq, 0, n);
	return twt_far_say(TWI_FRAME_DONE, seq, 0, 0);
}

static int say_something(void)
{
	uint8_t flags = (uint8_t)below(3);
	uint64_t seq = some_seq(twt_far.session->outbox.seq_sent);

	switch (below(12)) {
	case 0:
		if (!has_credit())
			return TOW_OK;
		return twt_far_say_summed(next_seq++, below(2), (uint32_t)below(100),
					  flags | (below(2) ? TWI_FRAME_SUM : 0), 0, 1 + below(50));
	case 1:
	case 2:
		if (!has_credit())
			return TOW_OK;
		if (twt_far.session->config.announce &&
		    twt_far.session->ready_grants < TWI_READY_MAX)
			flags |= below(2) ? TWI_FRAME_READY : 0;
		flags |= below(4) == 0 ? TWI_FRAME_SUM : 0;
		return twt_far_say_flags(TWI_FRAME_RTS, flags, next_seq++, below(2), some_length());
	case 3:
	case 4:
	case 5:
		return answer_something();
	case 6:
		if (twt_far.session->outbox.seq_sent == 0)
			return TOW_OK;
		return twt_far_say(TWI_FRAME_ACK, twt_far.session->outbox.seq_sent,
				   twt_far.session->outbox.credit.used, 0);
	case 7:
		return lies() ? twt_far_say(TWI_FRAME_CANCEL, some_seq(next_seq), 0, 0) : TOW_OK;
	case 8:
		return lies() ? twt_far_say(TWI_FRAME_REFUSE, seq, 0, 1 + below(TWI_REFUSE_END - 1))
			      : TOW_OK;
	case 9:
		return twt_far_say(TWI_FRAME_RECEIVED, 0, 0,
				   lies() ? below(100000) : twt_far.session->tx_head);
	case 10:
		return twt_far_say(below(2) ? TWI_FRAME_PING : TWI_FRAME_PONG, 0, 0, 0);
	default:
		return twt_far_say_flags(TWI_FRAME_ANNOUNCE, flags,
					 twt_far.session->outbox.seq_sent -
						 (below(2) && twt_far.session->outbox.seq_sent > 0),
					 below(2), some_length());
	}
}

/* Where the next slice begins that a channel may be given; a wrong one at times. */
static uint64_t some_slice(const struct twi_grant *grant)
{
	unsigned next = 0;

	for (unsigned c = grant->first; c < (unsigned)grant->first + grant->count; c++)
		next += (unsigned)__builtin_popcountll(grant->given[c]);
	return (lies() ? below(grant->slices + 2) : next) * grant->slice_bytes;
}

/* Data of what was asked for, mostly in its place. */
static int send_something(void)
{
	const struct twi_grant *grant = &twt_far.session->grants[below(4)];
	unsigned c = (unsigned)below(twt_far.session->config.bulk_count);
	struct iovec parts[2];
	uint64_t left, place;

	if (!grant->used || !twi_stripe_on(grant, c) ||
	    twi_session_bulk_want(twt_far.session, c, 1, parts) == 0 ||
	    twt_far.session->channels[c].in_fill > 0 || twt_far.session->channels[c].in_left > 0)
		return TOW_OK;
	place = twi_stripe_at(grant, c, grant->at[c], &left);
	if (below(10) == 0)
		return twt_far_say_data_on(c, grant->seq, 0, 0, TWI_FRAME_ABORT, 0);
	if (left == 0 && !twi_stripes_final(grant)) {
		place = some_slice(grant);
		left = grant->bytes > place ? twi_min(grant->slice_bytes, grant->bytes - place) : 1;
	}
	if (left == 0 || lies())
		return twt_far_say_data_on(c, grant->seq, place, 0,
					   TWI_FRAME_LAST | (grant->sum ? TWI_FRAME_SUM : 0),
					   grant->sum && below(8) ? grant->crc[c] : 0);
	return twt_far_say_data_on(c, grant->seq, place, (uint32_t)(1 + below(left)), 0, 0);
}

static int break_something(void)
{
	uint8_t record[TWI_RESUME_MAX] = { 16 };
	unsigned c = (unsigned)below(twt_far.session->config.bulk_count), count = 0;
	size_t used;
	int status;

	if (below(4) == 0) {
		twi_session_control_broken(twt_far.session);
		twi_session_control_resume_put(twt_far.session, record);
		twi_put_le64(record + 8, twt_far.session->tx_acked +
						 below(twt_far.session->tx_handed -
						       twt_far.session->tx_acked + lies() + 1));
		return twi_session_control_resume(twt_far.session, record, 16, &used);
	}
	twi_session_bulk_broken(twt_far.session, c);
	twi_session_bulk_resume_put(twt_far.session, c, record);
	for (unsigned i = 0; i < TWI_LARGE_MAX; i++) {
		const struct twi_grant *send = &twt_far.session->sends[i];

		if (!send->used || !twi_stripe_on(send, c) ||
		    ((send->open & 1u << c) == 0 && below(4)) || (send->at[c] == 0 && below(2)) ||
		    lies())
			continue;
		twi_put_le64(record + 16 + count * 16, send->seq);
		twi_put_le64(record + 24 + count++ * 16,
			     below(send->at[c] + 1) | (send->ready ? 1ull << 63 : 0));
	}
	twi_put_le32(record, 16 + count * 16);
	twi_put_le16(record + 6, (uint16_t)count);
	twi_put_le64(record + 8, some_seq(twt_far.session->outbox.seq_sent));
	status = twi_session_bulk_resume(twt_far.session, c, record, 16 + count * 16, &used);
	resumed += status == TOW_OK;
	return status;
}

static void act(void)
{
	struct tow_op **op = &ops[below(OPS)];
	uint8_t sink[2000];
	struct iovec out;

	if (*op != NULL && twt_far_status_of(*op) == TOW_AGAIN && below(3) == 0)
		twi_session_abort(twt_far.session, *op, TOW_ECANCELED, below(2));
	if (*op != NULL && twt_far_status_of(*op) != TOW_AGAIN) {
		tow_op_release(*op);
		*op = NULL;
	}
	if (*op == NULL)
		*op = below(2) ? twt_far_send_op(some_length(), below(2))
			       : twt_far_recv_op(some_length(), below(2));
	if (below(2))
		twt_far_drink_on((unsigned)below(twt_far.session->config.bulk_count), sink,
				 below(sizeof(sink)));
	if (below(4) && twi_session_control_out(twt_far.session, &out))
		twi_session_control_sent(twt_far.session, 1 + below(out.iov_len));
}

static void check_bounds(void)
{
	assert_true(twt_far.session->grant_count <= TWI_GRANTS_MAX);
	assert_true(twt_far.session->send_count <= TWI_GRANTS_MAX);
	assert_true(twt_far.session->ready_grants <= TWI_READY_MAX);
	assert_true(twt_far.session->ready_sends <= TWI_READY_MAX);
	assert_true(twt_far.session->inbox.credit.charged - twt_far.session->inbox.credit.given <=
		    CREDIT);
	assert_true(twt_far.session->tx_acked <= twt_far.session->tx_handed);
	assert_true(twt_far.session->tx_handed <= twt_far.session->tx_tail);
}

static void one_peer(void)
{
	struct twi_session_config config = twt_far_config();
	int status = TOW_OK;

	twt_far_close_session();
	config.bulk_count = 1 + (unsigned)below(TWI_BULK_MAX);
	config.stripe_bytes = 500;
	config.slices = below(2);
	config.announce = below(4) > 0;
	config.checksum_all = below(4) == 0;
	twt_far_open_session_with(&config);
	next_seq = 1;
	for (int i = 0; i < STEPS && status == TOW_OK; i++) {
		act();
		steps++;
		switch (below(10)) {
		case 0:
			status = break_something();
			break;
		case 1:
		case 2:
		case 3:
			status = send_something();
			break;
		default:
			status = say_something();
		}
		check_bounds();
	}
	assert_true(status == TOW_OK || status == TOW_EPROTOCOL || status == TOW_EPEER);
	faults += status != TOW_OK;
	twi_session_fail(twt_far.session, TOW_EPROTOCOL);
	for (int i = 0; i < OPS; i++) {
		if (ops[i] == NULL)
			continue;
		assert_int_not_equal(twt_far_status_of(ops[i]), TOW_AGAIN);
		tow_op_release(ops[i]);
		ops[i] = NULL;
	}
}

static void test_storm(void **state)
{
	(void)state;
	rng = twt_seed();
	for (int i = 0; i < ROUNDS; i++)
		one_peer();
	printf("%u of %u peers were caught, %u channels resumed, %llu steps\n", faults, ROUNDS,
	       resumed, (unsigned long long)steps);
	assert_true(faults > ROUNDS / 10 && resumed > ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
