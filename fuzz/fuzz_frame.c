/*
 * Fuzzes what a peer's bytes go through first. The input is one byte of circumstances and then a
 * stream:
 *
 *   bit 0    the stream is a bulk stream
 *   bit 1    the bytes come from the acceptor
 *   bit 2    the stream's HELLO has been read before
 *   bits 3-7 eager_max_bytes that we announced is 0 for 0, else 1 << (bits - 1), at most 16 MiB
 *
 * What is accepted must be canonical, and walking on by the accepted lengths must stay in bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_true(bool truth)
{
	if (!truth)
		abort();
}

/* DATA is one of four things, and a reader acts on each without looking at it again. */
static void check_data(const struct twi_frame *frame)
{
	expect_true(frame->flags <= TWI_FRAME_ABORT ||
		    frame->flags == (TWI_FRAME_LAST | TWI_FRAME_SUM));
	expect_true(frame->tag <= (frame->flags & TWI_FRAME_SUM ? UINT32_MAX : 0));
	expect_true((frame->payload_bytes == 0) == (frame->flags != 0));
	expect_true(frame->value + frame->payload_bytes <= TWI_WIRE_U63_MAX);
	expect_true(!(frame->flags & TWI_FRAME_LAST) || frame->value);
	expect_true(frame->flags != TWI_FRAME_ABORT || frame->value < TWI_BACK_END);
}

static bool get_header(const uint8_t *in, const struct twi_frame_limits *limits,
		       struct twi_frame *out)
{
	enum twi_frame_fault fault = TWI_FAULT_COUNT;
	uint8_t again[TWI_FRAME_BYTES];
	const int status = twi_frame_get(in, limits, out, &fault);

	expect_true(fault < TWI_FAULT_COUNT && twi_frame_fault_text(fault) != NULL);
	expect_true((status == TOW_OK) == (fault == TWI_FAULT_NONE));
	if (status < 0)
		return false;
	twi_frame_put(again, out);
	expect_true(memcmp(again, in, sizeof(again)) == 0);
	expect_true(out->payload_bytes <= TWI_WIRE_CHUNK_MAX);
	expect_true(out->type != TWI_FRAME_EAGER || out->payload_bytes <= limits->eager_max_bytes);
	if (out->type == TWI_FRAME_DATA)
		check_data(out);
	else
		expect_true(!(out->flags & ~(TWI_FRAME_SPACE | TWI_FRAME_SUM | TWI_FRAME_READY)));
	expect_true(out->value <= TWI_WIRE_U63_MAX && out->seq <= TWI_WIRE_U63_MAX);
	return true;
}

static bool get_hello(const uint8_t *in, bool from_acceptor, struct twi_hello *out)
{
	enum twi_frame_fault fault = TWI_FAULT_COUNT;
	uint8_t again[TWI_HELLO_BYTES];
	const int status = twi_hello_get(in, from_acceptor, out, &fault);

	expect_true(fault < TWI_FAULT_COUNT);
	expect_true((status == TOW_OK) == (fault == TWI_FAULT_NONE));
	if (status < 0)
		return false;
	expect_true(out->version_major == TWI_WIRE_MAJOR && out->session);
	expect_true(out->kind == TWI_STREAM_BULK ||
		    out->credit_bytes >= twi_frame_cost(out->eager_max_bytes));
	expect_true((out->features >> 32 & ~out->features) == 0);
	twi_hello_put(again, out);
	if (out->version_minor == TWI_WIRE_MINOR)
		expect_true(memcmp(again, in, sizeof(again)) == 0);
	return true;
}

/* As a session reads: header, payload, header, ..., until the bytes end or break the rules. */
static void walk_frames(const uint8_t *data, size_t size, struct twi_frame_limits limits,
			bool from_acceptor)
{
	struct twi_frame frame;
	struct twi_hello hello;
	uint64_t credit_used = 0;

	while (size >= TWI_FRAME_BYTES) {
		if (!get_header(data, &limits, &frame))
			return;
		data += TWI_FRAME_BYTES;
		size -= TWI_FRAME_BYTES;
		if (frame.payload_bytes > size)
			return;
		if (frame.type == TWI_FRAME_HELLO) {
			if (!get_hello(data, from_acceptor, &hello))
				return;
			limits.hello_done = true;
			limits.control = hello.kind == TWI_STREAM_CONTROL;
		} else if (frame.type == TWI_FRAME_EAGER || frame.type == TWI_FRAME_RTS) {
			credit_used += twi_frame_cost(frame.payload_bytes);
			expect_true(credit_used >= 64);
		}
		data += frame.payload_bytes;
		size -= frame.payload_bytes;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct twi_frame_limits limits = { 0 };
	struct twi_hello hello;
	uint8_t how;

	if (size < 1)
		return 0;
	how = data[0];
	limits.control = !(how & 1);
	limits.hello_done = how & 4;
	if (how >> 3)
		limits.eager_max_bytes = twi_min(1u << ((how >> 3) - 1), TWI_WIRE_EAGER_MAX);
	walk_frames(data + 1, size - 1, limits, how & 2);
	if (size - 1 >= TWI_HELLO_BYTES)
		get_hello(data + 1, how & 2, &hello);
	return 0;
}
