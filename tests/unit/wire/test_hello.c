/*
 * The HELLO of the wire, field by field: what it says goes round, every bound holds at both its
 * ends, and another version is told by its numbers whatever else it has changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "transport/wire/frame.h"

#define EAGER_MAX 4096u

static const struct twi_hello control_hello = {
	.version_major = TWI_WIRE_MAJOR,
	.version_minor = TWI_WIRE_MINOR,
	.kind = TWI_STREAM_CONTROL,
	.bulk_count = 2,
	.session = 0x1122334455667788,
	.token = 0,
	.eager_max_bytes = EAGER_MAX,
	.credit_bytes = 1 << 20,
};

static const struct twi_hello bulk_hello = {
	.version_major = TWI_WIRE_MAJOR,
	.version_minor = TWI_WIRE_MINOR,
	.kind = TWI_STREAM_BULK,
	.channel = 1,
	.session = 0x1122334455667788,
	.token = 5,
};

static enum twi_frame_fault hello_fault(const struct twi_hello *hello, bool from_acceptor)
{
	uint8_t bytes[TWI_HELLO_BYTES];
	struct twi_hello out = { 0 };
	enum twi_frame_fault fault = TWI_FAULT_COUNT;
	int status;

	twi_hello_put(bytes, hello);
	status = twi_hello_get(bytes, from_acceptor, &out, &fault);
	assert_int_equal(status, fault == TWI_FAULT_NONE ? TOW_OK : TOW_EPROTOCOL);
	if (status < 0)
		return fault;
	assert_int_equal(out.version_major, TWI_WIRE_MAJOR);
	assert_int_equal(out.version_minor, TWI_WIRE_MINOR);
	assert_int_equal(out.kind, hello->kind);
	assert_int_equal(out.flags, hello->flags);
	assert_int_equal(out.bulk_count, hello->bulk_count);
	assert_int_equal(out.channel, hello->channel);
	assert_int_equal(out.session, hello->session);
	assert_int_equal(out.token, hello->token);
	assert_int_equal(out.eager_max_bytes, hello->eager_max_bytes);
	assert_int_equal(out.credit_bytes, hello->credit_bytes);
	assert_int_equal(out.features, hello->features);
	return fault;
}

static void test_hello_round_trip(void **state)
{
	struct twi_hello answer = control_hello;

	(void)state;
	answer.token = UINT64_MAX;
	assert_int_equal(hello_fault(&control_hello, false), TWI_FAULT_NONE);
	assert_int_equal(hello_fault(&answer, true), TWI_FAULT_NONE);
	assert_int_equal(hello_fault(&bulk_hello, false), TWI_FAULT_NONE);
	assert_int_equal(hello_fault(&bulk_hello, true), TWI_FAULT_NONE);
}

static void test_hello_identity(void **state)
{
	struct twi_hello h = control_hello;

	(void)state;
	assert_int_equal(hello_fault(&h, true), TWI_FAULT_TOKEN);
	h.token = 1;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_TOKEN);
	h = bulk_hello;
	h.token = 0;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_TOKEN);
	assert_int_equal(hello_fault(&h, true), TWI_FAULT_TOKEN);
	h = control_hello;
	h.session = 0;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_SESSION);
	h = control_hello;
	for (unsigned int kind = TWI_STREAM_KIND_END; kind < 256; kind++) {
		h.kind = (uint8_t)kind;
		assert_int_equal(hello_fault(&h, false), TWI_FAULT_KIND);
	}
}

static void test_hello_streams(void **state)
{
	struct twi_hello h = control_hello;

	(void)state;
	for (unsigned int n = 0; n < 256; n++) {
		h.bulk_count = (uint8_t)n;
		assert_int_equal(hello_fault(&h, false), n >= 1 && n <= TWI_BULK_MAX
								 ? TWI_FAULT_NONE
								 : TWI_FAULT_BULK_COUNT);
	}
	h = control_hello;
	h.channel = 1;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_CHANNEL);
	h = bulk_hello;
	h.bulk_count = 1;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_BULK_COUNT);
	h = bulk_hello;
	for (unsigned int n = 0; n < 256; n++) {
		h.channel = (uint8_t)n;
		assert_int_equal(hello_fault(&h, false),
				 n < TWI_BULK_MAX ? TWI_FAULT_NONE : TWI_FAULT_CHANNEL);
	}
	/* Who resumes knows the token, on every stream. */
	h = control_hello;
	h.flags = TWI_HELLO_RESUME;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_TOKEN);
	h.token = 7;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_NONE);
	assert_int_equal(hello_fault(&h, true), TWI_FAULT_NONE);
	for (unsigned int bit = 1; bit < 8; bit++) {
		h.flags = (uint8_t)(TWI_HELLO_RESUME | 1u << bit);
		assert_int_equal(hello_fault(&h, false), TWI_FAULT_HELLO_FLAGS);
	}
}

static void test_hello_bounds(void **state)
{
	struct twi_hello h = control_hello;

	(void)state;
	h.credit_bytes = TWI_WIRE_CREDIT_MAX;
	h.eager_max_bytes = TWI_WIRE_EAGER_MAX;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_NONE);
	h.eager_max_bytes++;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_EAGER_MAX);
	h.eager_max_bytes = UINT32_MAX;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_EAGER_MAX);
	h.eager_max_bytes = 65;
	h.credit_bytes = TWI_WIRE_CREDIT_MAX + 1;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_CREDIT);
	h.credit_bytes = 192;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_NONE);
	h.credit_bytes = 191;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_CREDIT);
	h.credit_bytes = 0;
	h.eager_max_bytes = 0;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_CREDIT);
	h = bulk_hello;
	h.eager_max_bytes = 1;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_EAGER_MAX);
	h = bulk_hello;
	h.credit_bytes = 1;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_CREDIT);
}

static enum twi_frame_fault hello_spoiled(unsigned int offset, uint8_t value, struct twi_hello *out)
{
	uint8_t bytes[TWI_HELLO_BYTES];
	enum twi_frame_fault fault;
	int status;

	twi_hello_put(bytes, &control_hello);
	bytes[offset] = value;
	status = twi_hello_get(bytes, false, out, &fault);
	assert_int_equal(status, fault == TWI_FAULT_NONE ? TOW_OK : TOW_EPROTOCOL);
	return fault;
}

static void test_hello_magic_and_reserved(void **state)
{
	static const uint8_t reserved[] = { 36, 37, 38, 39, 56, 57, 58, 59, 60, 61, 62, 63 };
	struct twi_hello out;

	(void)state;
	for (unsigned int i = 0; i < 8; i++)
		assert_int_equal(hello_spoiled(i, 0xff, &out), TWI_FAULT_MAGIC);
	for (size_t i = 0; i < twi_array_count(reserved); i++) {
		assert_int_equal(hello_spoiled(reserved[i], 1, &out), TWI_FAULT_RESERVED);
		assert_int_equal(hello_spoiled(reserved[i], 0x80, &out), TWI_FAULT_RESERVED);
	}
}

static void test_hello_versions(void **state)
{
	struct twi_hello out = { .session = 42 };
	uint8_t bytes[TWI_HELLO_BYTES];
	enum twi_frame_fault fault;

	(void)state;
	assert_int_equal(hello_spoiled(8, 0, &out), TWI_FAULT_VERSION);
	assert_int_equal(hello_spoiled(8, TWI_WIRE_MAJOR + 1, &out), TWI_FAULT_VERSION);
	assert_int_equal(out.version_major, TWI_WIRE_MAJOR + 1);
	assert_int_equal(out.session, 42);
	assert_int_equal(hello_spoiled(9, 1, &out), TWI_FAULT_VERSION);
	/* Another major version is said to be that, whatever else it has changed. */
	memset(bytes, 0xff, sizeof(bytes));
	twi_put_le64(bytes, TWI_WIRE_MAGIC);
	assert_int_equal(twi_hello_get(bytes, false, &out, &fault), TOW_EPROTOCOL);
	assert_int_equal(fault, TWI_FAULT_VERSION);
	/* A newer minor version is welcome, with what it puts into reserved fields. */
	twi_hello_put(bytes, &control_hello);
	twi_put_le16(bytes + 10, TWI_WIRE_MINOR + 1);
	bytes[36] = 1;
	bytes[56] = 1;
	assert_int_equal(twi_hello_get(bytes, false, &out, &fault), TOW_OK);
	assert_int_equal(out.version_minor, TWI_WIRE_MINOR + 1);
	/* An older one had nothing there, and offers nothing. */
	twi_hello_put(bytes, &control_hello);
	twi_put_le16(bytes + 10, 0);
	assert_int_equal(twi_hello_get(bytes, false, &out, &fault), TOW_OK);
	assert_int_equal(out.features, 0);
}

/* Features are said once for a session, and only what is offered can be required. */
static void test_hello_features(void **state)
{
	struct twi_hello h = control_hello;

	(void)state;
	h.features = UINT64_MAX;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_NONE);
	h.features = 1u << 31;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_NONE);
	h.features = 1ull << 63 | 1u << 30;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_FEATURES);
	h.features = 1;
	h.flags = TWI_HELLO_RESUME;
	h.token = 5;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_FEATURES);
	h = bulk_hello;
	h.features = 1;
	assert_int_equal(hello_fault(&h, false), TWI_FAULT_FEATURES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello_round_trip),
		cmocka_unit_test(test_hello_identity),
		cmocka_unit_test(test_hello_streams),
		cmocka_unit_test(test_hello_bounds),
		cmocka_unit_test(test_hello_magic_and_reserved),
		cmocka_unit_test(test_hello_versions),
		cmocka_unit_test(test_hello_features),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
