/*
 * far_bulk.h - the bulk channels of the far side (far_side.h): feeds and drinks them in pieces of
 * any size.
 */
#ifndef TWT_FAR_BULK_H
#define TWT_FAR_BULK_H

#include "far_side.h"

/* Gives bytes of a bulk channel, `step` at a time. */
static inline int feed_on(unsigned channel, const uint8_t *at, size_t n, size_t step)
{
	while (n > 0) {
		struct iovec parts[2];
		int count = twi_session_bulk_want(session, channel, step, parts);
		size_t done = 0;
		int status;

		assert_true(count > 0);
		for (int i = 0; i < count && done < twi_min(n, step); i++) {
			size_t part = twi_min(twi_min(n, step) - done, parts[i].iov_len);

			memcpy(parts[i].iov_base, at + done, part);
			done += part;
		}
		status = twi_session_bulk_in(session, channel, done);
		if (status < 0)
			return status;
		at += done;
		n -= done;
	}
	return TOW_OK;
}

static inline int feed(const uint8_t *at, size_t n, size_t step)
{
	return feed_on(0, at, n, step);
}

/* flags with SUM: the commit's checksum is `sum`. */
static inline int say_data_on(unsigned channel, uint64_t seq, uint64_t offset, uint32_t n,
			      uint8_t flags, uint32_t sum)
{
	struct twi_frame frame = {
		.type = TWI_FRAME_DATA, .flags = flags, .payload_bytes = n, .seq = seq
	};
	uint8_t head[TWI_FRAME_BYTES];
	int status;

	frame.tag = sum;
	frame.value = offset;
	twi_frame_put(head, &frame);
	status = feed_on(channel, head, sizeof(head), 7);
	return status < 0 ? status : feed_on(channel, bytes + offset, n, 1000);
}

static inline int say_data(uint64_t seq, uint64_t offset, uint32_t n, uint8_t flags)
{
	return say_data_on(0, seq, offset, n, flags, 0);
}

/* Takes up to n bytes of a bulk channel into `to`; returns how many there were. */
static inline size_t drink_on(unsigned channel, uint8_t *to, size_t n)
{
	struct twi_bulk_out out;
	size_t done = 0;

	while (done < n && twi_session_bulk_out(session, channel, n, &out)) {
		size_t before = done;

		for (int i = 0; i < out.count && done < n; i++) {
			size_t part = twi_min(n - done, out.parts[i].iov_len);

			memcpy(to + done, out.parts[i].iov_base, part);
			done += part;
		}
		twi_session_bulk_sent(session, channel, done - before);
	}
	return done;
}

static inline size_t drink(uint8_t *to, size_t n)
{
	return drink_on(0, to, n);
}

/* The next header on a channel is this; its payload is left there. */
static inline void drink_head(unsigned channel, uint64_t seq, uint8_t flags, uint64_t offset,
			      uint32_t n)
{
	const struct twi_frame_limits limits = { .hello_done = true };
	uint8_t wire[TWI_FRAME_BYTES];
	enum twi_frame_fault fault;
	struct twi_frame frame;

	assert_int_equal(drink_on(channel, wire, TWI_FRAME_BYTES), TWI_FRAME_BYTES);
	assert_int_equal(twi_frame_get(wire, &limits, &frame, &fault), TOW_OK);
	assert_int_equal(frame.seq, seq);
	assert_int_equal(frame.flags, flags);
	assert_int_equal(frame.value, offset);
	assert_int_equal(frame.payload_bytes, n);
}

static inline void drink_data(uint64_t seq, uint8_t flags, uint64_t offset, uint32_t n)
{
	drink_head(0, seq, flags, offset, n);
}

/* A large message that has been offered and granted. */
static inline struct tow_op *granted(void)
{
	struct tow_op *op = send_op(LARGE, 1);

	expect(TWI_FRAME_RTS, op->seq);
	assert_int_equal(say(TWI_FRAME_CTS, op->seq, 0, LARGE), TOW_OK);
	return op;
}

/* A receive whose large message has been offered and asked for. */
static inline struct tow_op *asked(uint64_t seq)
{
	struct tow_op *op = recv_op(LARGE, 1);

	assert_int_equal(say(TWI_FRAME_RTS, seq, 1, LARGE), TOW_OK);
	expect(TWI_FRAME_CTS, seq);
	return op;
}

#endif
