/*
 * Large messages whose slices go to the channel that is free, against one session: which channel
 * gets which, what a receiver takes and what it refuses, channels that break in the middle.
 */
#include "far_bulk.h"

#include "diag/base/checksum.h"
#include "transport/op/message.h"
#include "transport/stream/stripe.h"

#define STRIPE 1000u
#define SLICE  310u /* a quarter of STRIPE, in steps of a sixteenth */
#define SLICES ((LARGE + SLICE - 1) / SLICE)
#define LAST   (LARGE - (SLICES - 1) * SLICE)

_Static_assert(LARGE > 3 * STRIPE && SLICES <= TWI_SLICES_MAX, "each channel has several");

static void open_channels(unsigned count, bool sums)
{
	struct twi_session_config config = twt_far_config();

	twt_far_close_session();
	config.bulk_count = count;
	config.stripe_bytes = STRIPE;
	config.slices = true;
	config.checksum_all = sums;
	twt_far_open_session_with(&config);
}

/* All that the grant's channels carry, when they take slices in an order by chance. */
static void take_all(struct twi_grant *grant, uint64_t seed)
{
	uint64_t sum = 0, end = 0, left;
	unsigned c = 0;

	while (!twi_stripes_final(grant)) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		c = (unsigned)(seed >> 60) % grant->count;
		assert_true(twi_stripe_take(grant, c));
	}
	for (c = 0; c < grant->count; c++) {
		assert_false(twi_stripe_take(grant, c));
		for (uint64_t at = 0; at < twi_stripe_bytes(grant, c); at += left) {
			uint64_t place = twi_stripe_at(grant, c, at, &left), rest;

			assert_int_equal(place % grant->slice_bytes, 0);
			assert_true(left > 0 && place + left <= grant->bytes);
			assert_int_equal(twi_stripe_at(grant, c, at + left / 2, &rest),
					 place + left / 2);
			assert_int_equal(rest, left - left / 2);
			sum += left;
		}
		end = twi_max(end, twi_stripe_at(grant, c, twi_stripe_bytes(grant, c), &left));
		assert_int_equal(left, 0);
	}
	assert_int_equal(sum, grant->bytes);
	assert_int_equal(end, grant->bytes);
}

static void test_cut(void **state)
{
	struct twi_session_config config = { .slices = true };

	(void)state;
	for (config.bulk_count = 2; config.bulk_count <= TWI_BULK_MAX; config.bulk_count++) {
		for (config.stripe_bytes = 1; config.stripe_bytes < 2000;
		     config.stripe_bytes += 1 + config.stripe_bytes / 7) {
			uint64_t least = config.bulk_count * config.stripe_bytes;

			for (uint64_t n = least; n < 200 * least; n += 1 + n / 5) {
				struct twi_grant grant = { .seq = n, .bytes = n };

				twi_stripes_cut(&config, &grant);
				assert_int_equal(grant.count, config.bulk_count);
				assert_true(grant.slices >= grant.count);
				assert_true(grant.slices <= TWI_SLICES_MAX);
				take_all(&grant, n);
			}
		}
	}
}

/* Equal parts: each channel that has a stripe has one slice, which is not empty. */
static void test_parts(void **state)
{
	struct twi_session_config config = { .slices = false };

	(void)state;
	for (config.bulk_count = 2; config.bulk_count <= TWI_BULK_MAX; config.bulk_count++) {
		for (config.stripe_bytes = 1; config.stripe_bytes < 40; config.stripe_bytes++) {
			uint64_t least = config.bulk_count * config.stripe_bytes;

			for (uint64_t n = least; n < 20 * least; n++) {
				struct twi_grant grant = { .seq = n, .bytes = n };

				twi_stripes_cut(&config, &grant);
				assert_int_equal(grant.slices, grant.count);
				assert_in_range(grant.count, 1, config.bulk_count);
				assert_true(twi_stripes_final(&grant));
				if (grant.count > 1)
					take_all(&grant, n);
			}
		}
	}
}

/* A whole slice with its header goes out. */
static void drink_slice(unsigned c, unsigned i)
{
	static uint8_t wire[SLICE];
	uint32_t n = i == SLICES - 1 ? LAST : SLICE;

	twt_far_drink_head(c, 1, 0, i * SLICE, n);
	assert_int_equal(twt_far_drink_on(c, wire, n), n);
	assert_memory_equal(wire, twt_far.bytes + i * SLICE, n);
}

/* Channel 1 takes all but one slice of each of the others; they go when they can. */
static void test_the_free_one_takes_more(void **state)
{
	struct tow_op *op;

	(void)state;
	open_channels(3, false);
	op = twt_far_granted();
	drink_slice(0, 0);
	drink_slice(1, 1);
	drink_slice(0, 3);
	for (unsigned i = 4; i < SLICES; i++)
		drink_slice(1, i);
	twt_far_drink_head(1, 1, TWI_FRAME_LAST, LARGE, 0);
	twt_far_drink_head(0, 1, TWI_FRAME_LAST, 4 * SLICE, 0);
	assert_int_equal(op->stage, TWI_STAGE_BULK);
	drink_slice(2, 2);
	twt_far_drink_head(2, 1, TWI_FRAME_LAST, 3 * SLICE, 0);
	assert_int_equal(op->stage, TWI_STAGE_SENT);
	assert_int_equal(op->moved, LARGE);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
}

static int say_slice(unsigned c, unsigned i)
{
	return twt_far_say_data_on(c, 1, i * SLICE, i == SLICES - 1 ? LAST : SLICE, 0, 0);
}

static void test_received(void **state)
{
	struct tow_op *op;

	(void)state;
	open_channels(3, false);
	op = twt_far_asked(1);
	memset(twt_far.room, 0, LARGE);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(say_slice(i, i), TOW_OK);
	for (unsigned i = 11; i < SLICES; i++) /* the later ones first */
		assert_int_equal(say_slice(0, i), TOW_OK);
	assert_int_equal(say_slice(2, 10), TOW_OK);
	assert_int_equal(twt_far_say_data_on(2, 1, 11 * SLICE, 0, TWI_FRAME_LAST, 0), TOW_OK);
	for (unsigned i = 3; i < 10; i++)
		assert_int_equal(say_slice(1, i), TOW_OK);
	assert_int_equal(twt_far_say_data_on(0, 1, LARGE, 0, TWI_FRAME_LAST, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
	assert_int_equal(twt_far_say_data_on(1, 1, 10 * SLICE, 0, TWI_FRAME_LAST, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_memory_equal(twt_far.room, twt_far.bytes, LARGE);
}

static void test_refused(void **state)
{
	static const struct {
		unsigned channel;
		uint64_t offset;
		uint32_t n;
		uint8_t flags;
	} wrong[] = {
		{ 0, SLICE, SLICE, 0 },              /* another's */
		{ 0, 7 * SLICE + 1, 10, 0 },         /* no slice begins there */
		{ 0, 7 * SLICE, SLICE + 1, 0 },      /* more than the slice has */
		{ 0, SLICES * SLICE, 10, 0 },        /* beyond the message */
		{ 0, 64ull * SLICE, 10, 0 },         /* further */
		{ 0, 1ull << 62, 10, 0 },            /* and far away */
		{ 0, 0, SLICE, 0 },                  /* once more */
		{ 0, 2 * SLICE, 0, TWI_FRAME_LAST }, /* it ends elsewhere */
		{ 1, SLICE, 0, TWI_FRAME_LAST },     /* it has not come */
	};

	(void)state;
	for (size_t i = 0; i < twi_array_count(wrong); i++) {
		open_channels(3, false);
		twt_far_asked(1);
		assert_int_equal(say_slice(0, 0), TOW_OK);
		assert_int_equal(twt_far_say_data_on(wrong[i].channel, 1, wrong[i].offset,
						     wrong[i].n, wrong[i].flags, 0),
				 TOW_EPROTOCOL);
	}
	open_channels(3, false); /* backwards */
	twt_far_asked(1);
	assert_int_equal(say_slice(0, 0), TOW_OK);
	assert_int_equal(say_slice(0, 9), TOW_OK);
	assert_int_equal(say_slice(0, 8), TOW_EPROTOCOL);
	open_channels(3, false); /* before what it was given first */
	twt_far_asked(1);
	assert_int_equal(say_slice(1, 4), TOW_EPROTOCOL);
}

/* Every channel has ended, and slices are missing: the message does not count. */
static void test_a_slice_is_missing(void **state)
{
	struct tow_op *op;

	(void)state;
	open_channels(2, false);
	op = twt_far_asked(1);
	for (unsigned c = 0; c < 2; c++)
		assert_int_equal(say_slice(c, c), TOW_OK);
	for (unsigned i = 2; i < SLICES - 1; i++)
		assert_int_equal(say_slice(0, i), TOW_OK);
	assert_int_equal(twt_far_say_data_on(0, 1, (SLICES - 1) * SLICE, 0, TWI_FRAME_LAST, 0),
			 TOW_OK);
	assert_int_equal(twt_far_say_data_on(1, 1, 2 * SLICE, 0, TWI_FRAME_LAST, 0), TOW_EPROTOCOL);
	assert_int_equal(twt_far_status_of(op), TOW_AGAIN);
}

/* A channel breaks in its third slice: what the receiver lacks of them comes over the next one. */
static void test_broken_while_sending(void **state)
{
	static uint8_t wire[LARGE];
	uint8_t record[32] = { 32, 0, 0, 0, TWI_STREAM_BULK, 0, 1, 0 };
	uint32_t sum = twi_checksum(0, twt_far.bytes, SLICE);
	struct tow_op *op;
	size_t used;

	(void)state;
	open_channels(2, true);
	op = twt_far_granted();
	drink_slice(0, 0);
	drink_slice(0, 2);
	twt_far_drink_head(0, 1, 0, 3 * SLICE, SLICE);
	assert_int_equal(twt_far_drink_on(0, wire, 100), 100);
	twi_session_bulk_broken(twt_far.session, 0);
	drink_slice(1, 1);
	for (unsigned i = 4; i < SLICES; i++)
		drink_slice(1, i);
	assert_int_equal(twt_far_drink_on(1, wire, 2 * TWI_FRAME_BYTES), TWI_FRAME_BYTES);
	twi_put_le64(record + 16, 1);
	twi_put_le64(record + 24, SLICE + 10);
	assert_int_equal(twi_session_bulk_resume(twt_far.session, 0, record, 32, &used), TOW_OK);
	twt_far_drink_head(0, 1, 0, 2 * SLICE + 10, SLICE - 10);
	assert_int_equal(twt_far_drink_on(0, wire, SLICE - 10), SLICE - 10);
	assert_memory_equal(wire, twt_far.bytes + 2 * SLICE + 10, SLICE - 10);
	drink_slice(0, 3);
	assert_int_equal(twt_far_drink_on(0, wire, LARGE), TWI_FRAME_BYTES);
	sum = twi_checksum(sum, twt_far.bytes + 2 * SLICE, 2 * SLICE);
	assert_int_equal(twi_get_le64(wire + 16), sum);
	assert_int_equal(twi_get_le64(wire + 24), 4 * SLICE);
	assert_int_equal(op->stage, TWI_STAGE_SENT);
	assert_int_equal(twt_far_say(TWI_FRAME_DONE, 1, 0, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
}

/* The receiver says what it has of the stripe; with the rest come slices that it has not seen. */
static void test_broken_while_receiving(void **state)
{
	uint8_t record[TWI_RESUME_MAX];
	struct tow_op *op;

	(void)state;
	open_channels(2, false);
	op = twt_far_asked(1);
	memset(twt_far.room, 0, LARGE);
	assert_int_equal(say_slice(0, 0), TOW_OK);
	assert_int_equal(twt_far_say_data_on(0, 1, 5 * SLICE, 40, 0, 0), TOW_OK);
	twi_session_bulk_broken(twt_far.session, 0);
	assert_int_equal(twi_session_bulk_resume_put(twt_far.session, 0, record), 32);
	assert_int_equal(twi_get_le64(record + 24), SLICE + 40);
	twt_far.session->channels[0].broken = false;
	assert_int_equal(twt_far_say_data_on(0, 1, 5 * SLICE + 40, SLICE - 40, 0, 0), TOW_OK);
	assert_int_equal(say_slice(1, 1), TOW_OK);
	for (unsigned i = 2; i < SLICES; i++)
		assert_int_equal(i == 5 ? TOW_OK : say_slice(i < 5 ? 1 : 0, i), TOW_OK);
	assert_int_equal(twt_far_say_data_on(0, 1, LARGE, 0, TWI_FRAME_LAST, 0), TOW_OK);
	assert_int_equal(twt_far_say_data_on(1, 1, 5 * SLICE, 0, TWI_FRAME_LAST, 0), TOW_OK);
	assert_int_equal(twt_far_status_of(op), TOW_OK);
	assert_memory_equal(twt_far.room, twt_far.bytes, LARGE);
}

/*
 * A channel breaks behind a slice, and others have no channel yet: its commit was not sent. So the
 * receiver cannot be through with it, and the message can still be taken back.
 */
static void test_broken_between_slices(void **state)
{
	uint8_t record[16] = { 16, 0, 0, 0, TWI_STREAM_BULK };
	struct tow_op *op;
	size_t used;

	(void)state;
	for (unsigned back = 0; back < 2; back++) {
		open_channels(2, false);
		op = twt_far_granted();
		drink_slice(1, 1);
		drink_slice(0, 0);
		twi_session_bulk_broken(twt_far.session, 0);
		if (back == 0) {
			assert_int_equal(
				twi_session_bulk_resume(twt_far.session, 0, record, 16, &used),
				TOW_EPROTOCOL);
			continue;
		}
		drink_slice(1, 2);
		assert_true(twi_session_abort(twt_far.session, op, TOW_EDEADLINE, true));
		twt_far_drink_head(1, 1, TWI_FRAME_ABORT, 0, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_cut),
		CASE(test_parts),
		CASE(test_the_free_one_takes_more),
		CASE(test_received),
		CASE(test_refused),
		CASE(test_a_slice_is_missing),
		CASE(test_broken_while_sending),
		CASE(test_broken_while_receiving),
		CASE(test_broken_between_slices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
