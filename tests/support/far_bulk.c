/* far_bulk.c - the bulk channels of the far side. */
#include "far_bulk.h"

int twt_far_feed_on(unsigned channel, const uint8_t *at, size_t n, size_t step)
{
	while (n > 0) {
		struct iovec parts[2];
		int count = twi_session_bulk_want(twt_far.session, channel, step, parts);
		size_t done = 0;
		int status;

		assert_true(count > 0);
		for (int i = 0; i < count && done < twi_min(n, step); i++) {
			size_t part = twi_min(twi_min(n, step) - done, parts[i].iov_len);

			memcpy(parts[i].iov_base, at + done, part);
			done += part;
		}
		status = twi_session_bulk_in(twt_far.session, channel, done);
		if (status < 0)
			return status;
		at += done;
		n -= done;
	}
	return TOW_OK;
}

int twt_far_feed(const uint8_t *at, size_t n, size_t step)
{
	return twt_far_feed_on(0, at, n, step);
}

int twt_far_say_data_on(unsigned channel, uint64_t seq, uint64_t offset, uint32_t n, uint8_t flags,
			uint32_t sum)
{
	struct twi_frame frame = {
		.type = TWI_FRAME_DATA, .flags = flags, .payload_bytes = n, .seq = seq
	};
	uint8_t head[TWI_FRAME_BYTES];
	int status;

	frame.tag = sum;
	frame.value = offset;
	twi_frame_put(head, &frame);
	status = twt_far_feed_on(channel, head, sizeof(head), 7);
	return status < 0 ? status : twt_far_feed_on(channel, twt_far.bytes + offset, n, 1000);
}

int twt_far_say_data(uint64_t seq, uint64_t offset, uint32_t n, uint8_t flags)
{
	return twt_far_say_data_on(0, seq, offset, n, flags, 0);
}

size_t twt_far_drink_on(unsigned channel, uint8_t *to, size_t n)
{
	struct twi_bulk_out out;
	size_t done = 0;

	while (done < n && twi_session_bulk_out(twt_far.session, channel, n, &out)) {
		size_t before = done;

		for (int i = 0; i < out.count && done < n; i++) {
			size_t part = twi_min(n - done, out.parts[i].iov_len);

			memcpy(to + done, out.parts[i].iov_base, part);
			done += part;
		}
		twi_session_bulk_sent(twt_far.session, channel, done - before);
	}
	return done;
}

size_t twt_far_drink(uint8_t *to, size_t n)
{
	return twt_far_drink_on(0, to, n);
}

void twt_far_drink_head(unsigned channel, uint64_t seq, uint8_t flags, uint64_t offset, uint32_t n)
{
	const struct twi_frame_limits limits = { .hello_done = true };
	uint8_t wire[TWI_FRAME_BYTES];
	enum twi_frame_fault fault;
	struct twi_frame frame;

	assert_int_equal(twt_far_drink_on(channel, wire, TWI_FRAME_BYTES), TWI_FRAME_BYTES);
	assert_int_equal(twi_frame_get(wire, &limits, &frame, &fault), TOW_OK);
	assert_int_equal(frame.seq, seq);
	assert_int_equal(frame.flags, flags);
	assert_int_equal(frame.value, offset);
	assert_int_equal(frame.payload_bytes, n);
}

void twt_far_drink_data(uint64_t seq, uint8_t flags, uint64_t offset, uint32_t n)
{
	twt_far_drink_head(0, seq, flags, offset, n);
}

struct tow_op *twt_far_granted(void)
{
	struct tow_op *op = twt_far_send_op(LARGE, 1);

	twt_far_expect(TWI_FRAME_RTS, op->seq);
	assert_int_equal(twt_far_say(TWI_FRAME_CTS, op->seq, 0, LARGE), TOW_OK);
	return op;
}

struct tow_op *twt_far_asked(uint64_t seq)
{
	struct tow_op *op = twt_far_recv_op(LARGE, 1);

	assert_int_equal(twt_far_say(TWI_FRAME_RTS, seq, 1, LARGE), TOW_OK);
	twt_far_expect(TWI_FRAME_CTS, seq);
	return op;
}
