/*
 * The codec under random input. What we write we read back; what we accept is canonical and within
 * the limits, whatever bytes come. TOW_TEST_SEED replays a run.
 */
#include "twt.h"

#include <string.h>

#include "transport/wire/frame.h"

#define ROUNDS 400000

static uint64_t seed, rng;

static uint64_t rnd(void)
{
	return twt_random(&rng);
}

/* A number of any size: as likely of 3 bits as of 60. */
static uint64_t rnd_sized(void)
{
	return rnd() >> (rnd() % 64);
}

static uint64_t rnd_in(uint64_t min, uint64_t max)
{
	const uint64_t span = max - min;

	switch (rnd() % 8) {
	case 0:
		return min;
	case 1:
		return max;
	default:
		return min + (span == UINT64_MAX ? rnd_sized() : rnd_sized() % (span + 1));
	}
}

static uint8_t rnd_control_type(void)
{
	uint8_t type;

	do
		type = (uint8_t)rnd_in(TWI_FRAME_EAGER, TWI_FRAME_TYPE_END - 1);
	while (type == TWI_FRAME_DATA);
	return type;
}

/* A chunk, a commit with a checksum or without, or an abort. */
static void rnd_data(struct twi_frame *f)
{
	f->flags = rnd() % 3;
	if (f->flags == TWI_FRAME_LAST) {
		f->value = rnd_in(1, INT64_MAX);
		f->flags |= rnd() & 1 ? TWI_FRAME_SUM : 0;
		f->tag = f->flags & TWI_FRAME_SUM ? rnd_in(0, UINT32_MAX) : 0;
	} else if (f->flags == TWI_FRAME_ABORT) {
		f->value = rnd_in(0, TWI_BACK_END - 1);
	}
	if (f->flags)
		return;
	f->payload_bytes = (uint32_t)rnd_in(1, TWI_WIRE_CHUNK_MAX);
	f->value = rnd_in(0, (uint64_t)INT64_MAX - f->payload_bytes);
}

/* Whether it can be of a channel. */
static bool of_messages(uint8_t type)
{
	return type == TWI_FRAME_EAGER || type == TWI_FRAME_RTS || type == TWI_FRAME_ANNOUNCE ||
	       type == TWI_FRAME_READ || type == TWI_FRAME_WRITE;
}

static struct twi_frame rnd_frame(const struct twi_frame_limits *limits)
{
	struct twi_frame f = { .seq = rnd_in(1, INT64_MAX) };

	if (!limits->hello_done)
		return (struct twi_frame){ .type = TWI_FRAME_HELLO, .payload_bytes = 64 };
	f.type = limits->control ? rnd_control_type() : TWI_FRAME_DATA;
	switch (f.type) {
	case TWI_FRAME_EAGER:
		f.tag = rnd_sized();
		f.payload_bytes = (uint32_t)rnd_in(0, limits->eager_max_bytes);
		f.flags = rnd() % 8;
		f.value = f.flags & TWI_FRAME_SUM ? rnd_in(0, UINT32_MAX) : 0;
		break;
	case TWI_FRAME_RTS:
		f.flags = rnd() % 16;
		f.tag = rnd_sized();
		/* fall through */
	case TWI_FRAME_CTS:
		f.value = rnd_in(1, INT64_MAX);
		break;
	case TWI_FRAME_ACK:
		f.tag = rnd_in(0, INT64_MAX);
		/* fall through */
	case TWI_FRAME_DONE:
		f.value = rnd_in(0, TWI_WIRE_HOLD_MAX_NS);
		break;
	case TWI_FRAME_CANCEL:
		f.value = rnd_in(0, TWI_BACK_END - 1);
		break;
	case TWI_FRAME_REFUSE:
		f.value = rnd_in(1, TWI_REFUSE_END - 1);
		break;
	case TWI_FRAME_RECEIVED:
	case TWI_FRAME_PING:
	case TWI_FRAME_PONG:
		f.seq = 0;
		f.value = rnd_in(0, INT64_MAX);
		break;
	case TWI_FRAME_ANNOUNCE:
		f.flags = rnd() % 4;
		f.seq = rnd_in(0, INT64_MAX);
		f.tag = rnd_sized();
		f.value = rnd_in(1, INT64_MAX);
		break;
	case TWI_FRAME_READ:
	case TWI_FRAME_WRITE:
		f.payload_bytes = TWI_REMOTE_BYTES;
		f.tag = rnd_in(0, INT64_MAX);
		f.value = rnd_in(1, INT64_MAX);
		break;
	case TWI_FRAME_BYE:
		f.seq = 0;
		f.value = rnd_in(0, TWI_WIRE_STATUS_MAX);
		break;
	case TWI_FRAME_DATA:
		rnd_data(&f);
		break;
	}
	return f;
}

static struct twi_frame rnd_legal(const struct twi_frame_limits *limits)
{
	struct twi_frame f = rnd_frame(limits);

	if (of_messages(f.type))
		f.channel = rnd() % 2 ? (uint16_t)rnd() : 0;
	return f;
}

static struct twi_frame_limits rnd_limits(void)
{
	return (struct twi_frame_limits){
		.eager_max_bytes = (uint32_t)rnd_in(0, TWI_WIRE_EAGER_MAX),
		.control = rnd() & 1,
		.hello_done = rnd() % 8 != 0,
	};
}

static void test_round_trips(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		const struct twi_frame_limits limits = rnd_limits();
		const struct twi_frame f = rnd_legal(&limits);
		uint8_t bytes[TWI_FRAME_BYTES];
		struct twi_frame out;
		enum twi_frame_fault fault;

		twi_frame_put(bytes, &f);
		assert_int_equal(twi_frame_get(bytes, &limits, &out, &fault), TOW_OK);
		assert_int_equal(fault, TWI_FAULT_NONE);
		assert_true(out.type == f.type && out.flags == f.flags && out.seq == f.seq);
		assert_true(out.payload_bytes == f.payload_bytes && out.tag == f.tag);
		assert_int_equal(out.value, f.value);
		assert_int_equal(out.channel, f.channel);
	}
}

/* Random bytes alone are nearly never legal: often begin with a legal frame and spoil it. */
static void rnd_bytes(uint8_t *bytes, const struct twi_frame_limits *limits)
{
	const uint64_t how = rnd() % 4;

	for (unsigned int i = 0; i < TWI_FRAME_BYTES; i++)
		bytes[i] = (uint8_t)rnd();
	if (how > 0) {
		const struct twi_frame f = rnd_legal(limits);

		twi_frame_put(bytes, &f);
	}
	for (uint64_t i = 1; i < how; i++)
		bytes[rnd() % TWI_FRAME_BYTES] ^= (uint8_t)(1u << (rnd() % 8));
}

static void check_data(const struct twi_frame *f)
{
	switch (f->flags) {
	case 0:
		assert_true(f->payload_bytes >= 1 && f->payload_bytes <= TWI_WIRE_CHUNK_MAX &&
			    f->value + f->payload_bytes <= INT64_MAX);
		break;
	case TWI_FRAME_LAST:
		assert_true(f->payload_bytes == 0 && f->value >= 1 && f->tag == 0);
		break;
	case TWI_FRAME_LAST | TWI_FRAME_SUM:
		assert_true(f->payload_bytes == 0 && f->value >= 1 && f->tag <= UINT32_MAX);
		break;
	case TWI_FRAME_ABORT:
		assert_true(f->payload_bytes == 0 && f->value < TWI_BACK_END);
		break;
	default:
		fail();
	}
}

static unsigned int known_flags(uint8_t type)
{
	switch (type) {
	case TWI_FRAME_EAGER:
		return TWI_FRAME_SPACE | TWI_FRAME_SUM;
	case TWI_FRAME_RTS:
		return TWI_FRAME_SPACE | TWI_FRAME_SUM | TWI_FRAME_READY;
	case TWI_FRAME_ANNOUNCE:
		return TWI_FRAME_SPACE;
	case TWI_FRAME_DATA:
		return TWI_FRAME_LAST | TWI_FRAME_ABORT | TWI_FRAME_SUM;
	default:
		return 0;
	}
}

/* Whether frames of this type are about a message. */
static bool numbered(uint8_t type)
{
	return (type >= TWI_FRAME_EAGER && type <= TWI_FRAME_DATA && type != TWI_FRAME_BYE) ||
	       type == TWI_FRAME_READ || type == TWI_FRAME_WRITE;
}

static void check_accepted(const struct twi_frame *f, const struct twi_frame_limits *limits)
{
	assert_true(f->type >= 1 && f->type < TWI_FRAME_TYPE_END);
	assert_int_equal(f->type == TWI_FRAME_HELLO, !limits->hello_done);
	if (f->type == TWI_FRAME_DATA)
		check_data(f);
	else if (f->type == TWI_FRAME_HELLO)
		assert_int_equal(f->payload_bytes, TWI_HELLO_BYTES);
	else if (f->type == TWI_FRAME_EAGER)
		assert_true(f->payload_bytes <= limits->eager_max_bytes);
	else if (f->type == TWI_FRAME_READ || f->type == TWI_FRAME_WRITE)
		assert_int_equal(f->payload_bytes, TWI_REMOTE_BYTES);
	else
		assert_int_equal(f->payload_bytes, 0);
	if (f->type != TWI_FRAME_HELLO)
		assert_int_equal(f->type == TWI_FRAME_DATA, !limits->control);
	assert_true(f->seq <= INT64_MAX && f->value <= INT64_MAX);
	assert_true((f->flags & ~known_flags(f->type)) == 0);
	if (f->type != TWI_FRAME_ANNOUNCE) /* whose seq may be either */
		assert_int_equal(!f->seq, !numbered(f->type));
	assert_true(!f->tag || f->type == TWI_FRAME_EAGER || f->type == TWI_FRAME_RTS ||
		    f->type == TWI_FRAME_ACK || f->type == TWI_FRAME_DATA ||
		    f->type == TWI_FRAME_ANNOUNCE || f->type == TWI_FRAME_READ ||
		    f->type == TWI_FRAME_WRITE);
	assert_true(f->channel == 0 || of_messages(f->type));
}

static void test_random_bytes(void **state)
{
	int accepted = 0;

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		const struct twi_frame_limits limits = rnd_limits();
		uint8_t bytes[TWI_FRAME_BYTES], again[TWI_FRAME_BYTES];
		struct twi_frame out;
		enum twi_frame_fault fault;

		rnd_bytes(bytes, &limits);
		if (twi_frame_get(bytes, &limits, &out, &fault) != TOW_OK) {
			assert_true(fault > TWI_FAULT_NONE && fault < TWI_FAULT_COUNT);
			continue;
		}
		accepted++;
		check_accepted(&out, &limits);
		twi_frame_put(again, &out);
		assert_memory_equal(bytes, again, sizeof(bytes));
	}
	assert_true(accepted > ROUNDS / 8 && accepted < ROUNDS);
}

static uint64_t rnd_features(void)
{
	const uint64_t offered = (uint32_t)rnd_sized();

	return (offered & rnd()) << 32 | offered;
}

static void test_random_hellos(void **state)
{
	int accepted = 0;

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		const bool bulk = rnd() & 1, from_acceptor = rnd() & 1;
		const bool resume = rnd() & 1, full = bulk && from_acceptor && !resume && rnd() & 1;
		const struct twi_hello h = {
			.kind = bulk,
			.flags = resume ? TWI_HELLO_RESUME
				 : full ? TWI_HELLO_FULL
					: 0,
			.bulk_count = bulk ? 0 : (uint8_t)rnd_in(1, TWI_BULK_MAX),
			.channel = bulk ? (uint8_t)rnd_in(0, TWI_BULK_MAX - 1) : 0,
			.session = rnd_in(1, UINT64_MAX),
			.token = bulk || from_acceptor || resume ? rnd_in(1, UINT64_MAX) : 0,
			.eager_max_bytes = bulk ? 0 : (uint32_t)rnd_in(0, TWI_WIRE_EAGER_MAX),
			.credit_bytes = bulk ? 0 : rnd_in(1u << 25, TWI_WIRE_CREDIT_MAX),
			.features = bulk || resume ? 0 : rnd_features(),
		};
		const unsigned int flips = rnd() % 3;
		uint8_t bytes[TWI_HELLO_BYTES], again[TWI_HELLO_BYTES];
		struct twi_hello out;
		enum twi_frame_fault fault;

		twi_hello_put(bytes, &h);
		for (unsigned int flip = 0; flip < flips; flip++)
			bytes[rnd() % TWI_HELLO_BYTES] ^= (uint8_t)(1u << (rnd() % 8));
		if (twi_hello_get(bytes, from_acceptor, &out, &fault) != TOW_OK) {
			assert_true(flips > 0);
			continue;
		}
		accepted++;
		/* Only the acceptor takes no more peers, and says so on a bulk channel. */
		assert_true((out.flags & TWI_HELLO_FULL) == 0 ||
			    (out.flags == TWI_HELLO_FULL && from_acceptor &&
			     out.kind == TWI_STREAM_BULK));
		assert_true((out.features >> 32 & ~out.features) == 0);
		assert_true(out.session && out.credit_bytes <= TWI_WIRE_CREDIT_MAX);
		assert_true(out.eager_max_bytes <= TWI_WIRE_EAGER_MAX);
		twi_hello_put(again, &out);
		if (out.version_minor == TWI_WIRE_MINOR)
			assert_memory_equal(bytes, again, sizeof(bytes));
	}
	assert_true(accepted > ROUNDS / 4);
}

static int seed_rng(void **state)
{
	(void)state;
	rng = seed;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_round_trips, seed_rng),
		cmocka_unit_test_setup(test_random_bytes, seed_rng),
		cmocka_unit_test_setup(test_random_hellos, seed_rng),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
