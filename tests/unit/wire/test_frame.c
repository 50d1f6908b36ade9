/*
 * The codec of the wire, field by field: every type goes round, every bound holds at both its ends,
 * every reserved field must be zero. Works on one good frame of each type, and of each thing that
 * DATA can be, and spoils it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "transport/wire/frame.h"

#define EAGER_MAX 4096u

static const struct twi_frame good[] = {
	{ .type = TWI_FRAME_HELLO, .payload_bytes = TWI_HELLO_BYTES },
	{ .type = TWI_FRAME_EAGER, .payload_bytes = 100, .seq = 7, .tag = UINT64_MAX },
	{ .type = TWI_FRAME_RTS, .seq = 8, .tag = 1, .value = 1 << 20 },
	{ .type = TWI_FRAME_CTS, .seq = 8, .value = 1 << 20 },
	{ .type = TWI_FRAME_DONE, .seq = 8, .value = 1500 },
	{ .type = TWI_FRAME_ACK, .seq = 8, .tag = 256, .value = 10 },
	{ .type = TWI_FRAME_CANCEL, .seq = 9 },
	{ .type = TWI_FRAME_REFUSE, .seq = 9, .value = TWI_REFUSE_TRUNCATED },
	{ .type = TWI_FRAME_BYE, .value = 15 },
	{ .type = TWI_FRAME_DATA, .payload_bytes = 4096, .seq = 8, .value = 1 << 19 },
	{ .type = TWI_FRAME_RECEIVED, .value = 1 << 16 },
	{ .type = TWI_FRAME_PING, .value = 1 << 16 },
	{ .type = TWI_FRAME_PONG, .value = 1 << 16 },
	{ .type = TWI_FRAME_ANNOUNCE, .flags = 1, .seq = 3, .tag = 5, .value = 1 << 20 },
	{ .type = TWI_FRAME_READ, .payload_bytes = 32, .seq = 4, .tag = 4096, .value = 100 },
	{ .type = TWI_FRAME_WRITE, .payload_bytes = 32, .seq = 5, .tag = 4096, .value = 100 },
	{ .type = TWI_FRAME_DATA, .flags = TWI_FRAME_LAST, .seq = 8, .value = 1 << 20 },
	{ .type = TWI_FRAME_DATA,
	  .flags = TWI_FRAME_LAST | TWI_FRAME_SUM,
	  .seq = 8,
	  .tag = UINT32_MAX,
	  .value = 1 << 20 },
	{ .type = TWI_FRAME_EAGER,
	  .flags = TWI_FRAME_SUM | 2,
	  .payload_bytes = 100,
	  .seq = 7,
	  .tag = UINT64_MAX,
	  .value = UINT32_MAX },
	{ .type = TWI_FRAME_RTS,
	  .flags = TWI_FRAME_SUM | TWI_FRAME_READY | 3,
	  .seq = 8,
	  .tag = 1,
	  .value = 1 << 20 },
	{ .type = TWI_FRAME_DATA, .flags = TWI_FRAME_ABORT, .seq = 8 },
};

/* The limits under which a frame of this type is legal. */
static struct twi_frame_limits limits_of(uint8_t type)
{
	return (struct twi_frame_limits){
		.eager_max_bytes = EAGER_MAX,
		.control = type != TWI_FRAME_DATA,
		.hello_done = type != TWI_FRAME_HELLO,
	};
}

static enum twi_frame_fault fault_under(const struct twi_frame *frame,
					const struct twi_frame_limits *limits)
{
	uint8_t bytes[TWI_FRAME_BYTES];
	struct twi_frame out;
	enum twi_frame_fault fault = TWI_FAULT_COUNT;
	int status;

	twi_frame_put(bytes, frame);
	status = twi_frame_get(bytes, limits, &out, &fault);
	assert_int_equal(status, fault == TWI_FAULT_NONE ? TOW_OK : TOW_EPROTOCOL);
	if (status < 0)
		return fault;
	assert_int_equal(out.type, frame->type);
	assert_int_equal(out.flags, frame->flags);
	assert_int_equal(out.channel, frame->channel);
	assert_int_equal(out.payload_bytes, frame->payload_bytes);
	assert_int_equal(out.seq, frame->seq);
	assert_int_equal(out.tag, frame->tag);
	assert_int_equal(out.value, frame->value);
	return fault;
}

static enum twi_frame_fault fault_of(const struct twi_frame *frame)
{
	const struct twi_frame_limits limits = limits_of(frame->type);

	return fault_under(frame, &limits);
}

static void test_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < twi_array_count(good); i++) {
		if (i + 1 < TWI_FRAME_TYPE_END)
			assert_int_equal(good[i].type, i + 1);
		assert_int_equal(fault_of(&good[i]), TWI_FAULT_NONE);
	}
}

static void test_bytes_on_the_wire(void **state)
{
	static const uint8_t expect[TWI_FRAME_BYTES] = {
		10, 0, 0, 0, 0x04, 0x03, 0x02, 0x01, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
		0,  0, 0, 0, 0,    0,    0,    0,    0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,
	};
	const struct twi_frame frame = {
		.type = TWI_FRAME_DATA,
		.payload_bytes = 0x01020304,
		.seq = 0x1112131415161718,
		.value = 0x2122232425262728,
	};
	uint8_t bytes[TWI_FRAME_BYTES];

	(void)state;
	twi_frame_put(bytes, &frame);
	assert_memory_equal(bytes, expect, sizeof(expect));
	assert_int_equal(fault_of(&frame), TWI_FAULT_NONE);
	twi_frame_put(bytes, &good[twi_array_count(good) - 1]);
	assert_int_equal(bytes[1], 2);
}

static void test_unknown_types(void **state)
{
	(void)state;
	for (unsigned int type = 0; type < 256; type++) {
		const struct twi_frame frame = { .type = (uint8_t)type };

		if (type == 0 || type >= TWI_FRAME_TYPE_END)
			assert_int_equal(fault_of(&frame), TWI_FAULT_TYPE);
		else
			assert_int_not_equal(fault_of(&frame), TWI_FAULT_TYPE);
	}
}

/* All flags that a type can have; of DATA not in every combination. */
static unsigned int known_flags(uint8_t type)
{
	switch (type) {
	case TWI_FRAME_EAGER:
		return 7;
	case TWI_FRAME_RTS:
		return 15;
	case TWI_FRAME_ANNOUNCE:
		return 3;
	case TWI_FRAME_DATA:
		return 7;
	default:
		return 0;
	}
}

/* Frames that can be of a channel: the others are about a message by its number, or about none. */
static bool has_channel(uint8_t type)
{
	return type == TWI_FRAME_EAGER || type == TWI_FRAME_RTS || type == TWI_FRAME_ANNOUNCE ||
	       type == TWI_FRAME_READ || type == TWI_FRAME_WRITE;
}

static void test_reserved_and_flags(void **state)
{
	(void)state;
	for (size_t i = 0; i < twi_array_count(good); i++) {
		const struct twi_frame_limits limits = limits_of(good[i].type);
		const unsigned int known = known_flags(good[i].type);
		uint8_t bytes[TWI_FRAME_BYTES];
		struct twi_frame out;
		enum twi_frame_fault fault;

		for (unsigned int bit = 0; bit < 16; bit++) {
			const bool channel = has_channel(good[i].type);

			twi_frame_put(bytes, &good[i]);
			bytes[2 + bit / 8] |= (uint8_t)(1u << (bit % 8));
			assert_int_equal(twi_frame_get(bytes, &limits, &out, &fault),
					 channel ? TOW_OK : TOW_EPROTOCOL);
			assert_int_equal(fault, channel ? TWI_FAULT_NONE : TWI_FAULT_RESERVED);
			if (channel)
				assert_int_equal(out.channel, 1u << bit);
		}
		for (unsigned int flags = 0; flags < 256; flags++) {
			struct twi_frame frame = good[i];

			frame.flags = (uint8_t)flags;
			if (flags == good[i].flags)
				assert_int_equal(fault_of(&frame), TWI_FAULT_NONE);
			else if (flags & ~known)
				assert_int_equal(fault_of(&frame), TWI_FAULT_FLAGS);
			else if (frame.type == TWI_FRAME_DATA && (flags & 3) == 3)
				assert_int_equal(fault_of(&frame), TWI_FAULT_FLAGS);
			else if (good[i].flags == TWI_FRAME_LAST && flags == 5 && frame.value > 0 &&
				 frame.type == TWI_FRAME_DATA) /* a checksum may be 0 */
				assert_int_equal(fault_of(&frame), TWI_FAULT_NONE);
			else if (frame.type ==
				 TWI_FRAME_DATA) /* other bounds hold, and not these */
				assert_int_not_equal(fault_of(&frame), TWI_FAULT_NONE);
			else if (frame.type == TWI_FRAME_EAGER && !(flags & TWI_FRAME_SUM))
				assert_int_equal(fault_of(&frame),
						 frame.value ? TWI_FAULT_VALUE : TWI_FAULT_NONE);
			else
				assert_int_equal(fault_of(&frame), TWI_FAULT_NONE);
		}
	}
}

/* The rules of the commit and of the abort, one by one. */
static void test_commit_and_abort(void **state)
{
	struct twi_frame f = { .type = TWI_FRAME_DATA, .flags = TWI_FRAME_LAST, .seq = 1 };

	(void)state;
	assert_int_equal(fault_of(&f), TWI_FAULT_VALUE); /* a message of no bytes is an EAGER */
	f.value = 1;
	assert_int_equal(fault_of(&f), TWI_FAULT_NONE);
	f.payload_bytes = 1;
	assert_int_equal(fault_of(&f), TWI_FAULT_PAYLOAD);
	f.payload_bytes = 0;
	f.flags = TWI_FRAME_ABORT;
	assert_int_equal(fault_of(&f), TWI_FAULT_NONE); /* TWI_BACK_FAULT */
	f.value = TWI_BACK_END;
	assert_int_equal(fault_of(&f), TWI_FAULT_VALUE);
	f.value = 0;
	assert_int_equal(fault_of(&f), TWI_FAULT_NONE);
	f.payload_bytes = 1;
	assert_int_equal(fault_of(&f), TWI_FAULT_PAYLOAD);
	f.payload_bytes = 0;
	f.flags = TWI_FRAME_LAST | TWI_FRAME_ABORT;
	assert_int_equal(fault_of(&f), TWI_FAULT_FLAGS);
	f.value = 1;
	assert_int_equal(fault_of(&f), TWI_FAULT_FLAGS);
	f.flags = 0;
	f.payload_bytes = 0;
	assert_int_equal(fault_of(&f), TWI_FAULT_PAYLOAD); /* a chunk of nothing */
	/* A chunk ends where the largest message does, at the most. */
	f.payload_bytes = TWI_WIRE_CHUNK_MAX;
	f.value = TWI_WIRE_U63_MAX - TWI_WIRE_CHUNK_MAX;
	assert_int_equal(fault_of(&f), TWI_FAULT_NONE);
	f.value++;
	assert_int_equal(fault_of(&f), TWI_FAULT_VALUE);
}

static void test_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < twi_array_count(good); i++) {
		const bool hello = good[i].type == TWI_FRAME_HELLO;
		struct twi_frame_limits limits = limits_of(good[i].type);

		limits.control = !limits.control;
		assert_int_equal(fault_under(&good[i], &limits),
				 hello ? TWI_FAULT_NONE : TWI_FAULT_STREAM);
		limits.hello_done = !limits.hello_done;
		assert_int_equal(fault_under(&good[i], &limits), TWI_FAULT_ORDER);
	}
}

/* The range of each field of each type, written a second time: not the codec's own table. */
struct range {
	uint8_t type;
	uint64_t payload_min, payload_max, seq_min, seq_max, tag_max, value_min, value_max;
};

#define U63 0x7fffffffffffffffull

static const struct range ranges[] = {
	{ 1, 64, 64, 0, 0, 0, 0, 0 },
	{ 2, 0, EAGER_MAX, 1, U63, UINT64_MAX, 0, 0 },
	{ 3, 0, 0, 1, U63, UINT64_MAX, 1, U63 },
	{ 4, 0, 0, 1, U63, 0, 1, U63 },
	{ 5, 0, 0, 1, U63, 0, 0, 1ull << 56 },
	{ 6, 0, 0, 1, U63, U63, 0, 1ull << 56 },
	{ 7, 0, 0, 1, U63, 0, 0, 1 },
	{ 8, 0, 0, 1, U63, 0, 1, 5 },
	{ 9, 0, 0, 0, 0, 0, 0, 255 },
	{ 10, 1, 1u << 30, 1, U63, 0, 0, U63 - 4096 },
	{ 11, 0, 0, 0, 0, 0, 0, U63 },
	{ 12, 0, 0, 0, 0, 0, 0, U63 },
	{ 13, 0, 0, 0, 0, 0, 0, U63 },
	{ 14, 0, 0, 0, U63, UINT64_MAX, 1, U63 },
	{ 15, 32, 32, 1, U63, U63, 1, U63 },
	{ 16, 32, 32, 1, U63, U63, 1, U63 },
	{ 10, 0, 0, 1, U63, 0, 1, U63 },
	{ 10, 0, 0, 1, U63, UINT32_MAX, 1, U63 },
	{ 2, 0, EAGER_MAX, 1, U63, UINT64_MAX, 0, UINT32_MAX },
	{ 3, 0, 0, 1, U63, UINT64_MAX, 1, U63 },
	{ 10, 0, 0, 1, U63, 0, 0, 1 },
};

/* Both ends of [min, max] are legal, and the two values past them are `fault`. */
static void check_range(struct twi_frame *frame, uint64_t *field, uint64_t min, uint64_t max,
			enum twi_frame_fault fault)
{
	const uint64_t kept = *field;

	*field = min;
	assert_int_equal(fault_of(frame), TWI_FAULT_NONE);
	*field = max;
	assert_int_equal(fault_of(frame), TWI_FAULT_NONE);
	if (min > 0) {
		*field = min - 1;
		assert_int_equal(fault_of(frame), fault);
		*field = 0;
		assert_int_equal(fault_of(frame), fault);
	}
	if (max < UINT64_MAX) {
		*field = max + 1;
		assert_int_equal(fault_of(frame), fault);
		*field = UINT64_MAX;
		assert_int_equal(fault_of(frame), fault);
	}
	*field = kept;
}

static void test_bounds(void **state)
{
	(void)state;
	assert_int_equal(twi_array_count(ranges), twi_array_count(good));
	for (size_t i = 0; i < twi_array_count(ranges); i++) {
		const struct range *r = &ranges[i];
		struct twi_frame f = good[i];

		assert_int_equal(f.type, r->type);
		check_range(&f, &f.seq, r->seq_min, r->seq_max, TWI_FAULT_SEQ);
		check_range(&f, &f.tag, 0, r->tag_max, TWI_FAULT_TAG);
		check_range(&f, &f.value, r->value_min, r->value_max, TWI_FAULT_VALUE);
		f.payload_bytes = (uint32_t)r->payload_min;
		assert_int_equal(fault_of(&f), TWI_FAULT_NONE);
		f.payload_bytes = (uint32_t)r->payload_max;
		assert_int_equal(fault_of(&f), TWI_FAULT_NONE);
		f.payload_bytes = (uint32_t)r->payload_max + 1;
		assert_int_equal(fault_of(&f), TWI_FAULT_PAYLOAD);
		f.payload_bytes = UINT32_MAX;
		assert_int_equal(fault_of(&f), TWI_FAULT_PAYLOAD);
		f.payload_bytes = (uint32_t)r->payload_min - 1; /* of 0: the largest there is */
		assert_int_equal(fault_of(&f), TWI_FAULT_PAYLOAD);
	}
}

static void test_eager_follows_limit(void **state)
{
	struct twi_frame_limits limits = limits_of(TWI_FRAME_EAGER);
	struct twi_frame f = { .type = TWI_FRAME_EAGER, .seq = 1 };

	(void)state;
	limits.eager_max_bytes = 0;
	assert_int_equal(fault_under(&f, &limits), TWI_FAULT_NONE);
	f.payload_bytes = 1;
	assert_int_equal(fault_under(&f, &limits), TWI_FAULT_PAYLOAD);
	/* A limit that no HELLO could have announced does not widen the wire's own. */
	limits.eager_max_bytes = UINT32_MAX;
	f.payload_bytes = TWI_WIRE_EAGER_MAX;
	assert_int_equal(fault_under(&f, &limits), TWI_FAULT_NONE);
	f.payload_bytes = TWI_WIRE_EAGER_MAX + 1;
	assert_int_equal(fault_under(&f, &limits), TWI_FAULT_PAYLOAD);
}

static void test_failure_leaves_out_alone(void **state)
{
	const struct twi_frame_limits limits = limits_of(TWI_FRAME_RTS);
	const uint8_t bytes[TWI_FRAME_BYTES] = { 0 };
	struct twi_frame out = { .type = 99, .seq = 99 };
	enum twi_frame_fault fault;

	(void)state;
	assert_int_equal(twi_frame_get(bytes, &limits, &out, &fault), TOW_EPROTOCOL);
	assert_int_equal(out.type, 99);
	assert_int_equal(out.seq, 99);
}

static void test_cost(void **state)
{
	(void)state;
	assert_int_equal(twi_frame_cost(0), 64);
	assert_int_equal(twi_frame_cost(1), 128);
	assert_int_equal(twi_frame_cost(64), 128);
	assert_int_equal(twi_frame_cost(65), 192);
	assert_int_equal(twi_frame_cost(TWI_WIRE_EAGER_MAX), TWI_WIRE_EAGER_MAX + 64);
}

static void test_texts(void **state)
{
	(void)state;
	for (int fault = 0; fault < TWI_FAULT_COUNT; fault++)
		assert_true(strlen(twi_frame_fault_text((enum twi_frame_fault)fault)) > 5);
	assert_string_equal(twi_frame_fault_text((enum twi_frame_fault)TWI_FAULT_COUNT), "unknown");
	assert_string_equal(twi_frame_type_name(0), "unknown");
	assert_string_equal(twi_frame_type_name(TWI_FRAME_HELLO), "HELLO");
	assert_string_equal(twi_frame_type_name(TWI_FRAME_DATA), "DATA");
	assert_string_equal(twi_frame_type_name(TWI_FRAME_TYPE_END), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_bytes_on_the_wire),
		cmocka_unit_test(test_unknown_types),
		cmocka_unit_test(test_reserved_and_flags),
		cmocka_unit_test(test_commit_and_abort),
		cmocka_unit_test(test_place),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_eager_follows_limit),
		cmocka_unit_test(test_failure_leaves_out_alone),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
