/*
 * test_ofi_parts.c - a small message of the ofi lane that comes in packets, of which the first is
 * here when its receive is given up: past its deadline that ends, and the message goes on coming,
 * for the next receive; a cancel lets it complete. Over each provider of libfabric's.
 */
#include "twt.h"

#include <sys/mman.h>

#include "ofi_run.h"

#include "diag/base/clock.h"
#include "transport/lanes/ofi/ofi_calls.h"

#ifdef TWI_HAVE_OFI

#define TOTAL 3000u
#define FIRST 100u
#define TAG   5u

static _Atomic int *phase; /* of both processes */
enum { QUIET = 1, HALF, GIVEN_UP };
static bool by_deadline;

static uint8_t byte_at(uint64_t at)
{
	return (uint8_t)(at * 7 + 3);
}

/* Drives one side alone for so long: what it has to say of what came before is out then. */
static void drive_ms(struct twt_side *side, unsigned ms)
{
	for (unsigned i = 0; i < ms; i++) {
		tow_progress(side->runtime);
		usleep(1000);
	}
}

/* One packet of the message, by hand: the lane sends all of them in one go. */
static void say_part(struct twt_side *side, uint64_t from, uint64_t bytes)
{
	struct twi_engine *engine = twi_runtime_engine(side->runtime);
	struct twi_ofi_peer *peer = twi_ofi_peer_of(side->peer);
	struct twi_ofi_packet packet = { .type = from == 0 ? TWI_OFI_EAGER : TWI_OFI_MORE,
					 .payload_bytes = (uint32_t)bytes,
					 .tag = from == 0 ? TAG : 0,
					 .value = from == 0 ? TOTAL : from };
	uint8_t data[TOTAL];
	const struct twi_ofi_load load = { .data = data, .message = true };

	for (uint64_t i = 0; i < bytes; i++)
		data[i] = byte_at(from + i);
	twi_engine_enter(engine);
	twi_engine_bind_ring(engine);
	packet.seq = peer->outbox.seq_sent + 1;
	assert_true(twi_ofi_send_packet(peer, &packet, &load, true));
	if (from > 0) {
		peer->outbox.seq_sent++;
		peer->outbox.credit.used += twi_frame_cost(TOTAL);
	}
	twi_engine_leave(engine);
	drive_ms(side, 20);
}

static int say_parts(struct twt_side *side, void *arg)
{
	uint64_t word = 77;

	(void)arg;
	twt_ofi_meet(side);
	while (atomic_load(phase) < QUIET)
		drive_ms(side, 1);
	drive_ms(side, 50);
	say_part(side, 0, FIRST);
	atomic_store(phase, HALF);
	while (atomic_load(phase) < GIVEN_UP)
		usleep(1000);
	say_part(side, FIRST, TOTAL - FIRST);
	twt_ofi_send_wait(side, &word, sizeof(word), TAG);
	twt_ofi_meet(side);
	return 0;
}

static void must_be_right(const uint8_t *data)
{
	for (uint64_t i = 0; i < TOTAL; i++)
		assert_int_equal(data[i], byte_at(i));
}

static void give_up(void)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	static uint8_t in[TOTAL], other[TOTAL];
	struct tow_result result = TOW_RESULT_INIT;
	struct twt_side side;
	uint64_t word = 0;
	struct tow_op *op;

	/* The packets can be far from each other: no heartbeat may come between them. */
	setenv("TOW_PEER_TIMEOUT_NS", "60s", 1);
	setenv("TOW_HEARTBEAT_NS", "30s", 1);
	phase = mmap(NULL, sizeof(*phase), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_true(phase != MAP_FAILED);
	twt_ofi_open_pair(&side, say_parts);
	twt_ofi_meet(&side);
	/* All that is to say of the meeting is said, and answered, before the first packet. */
	drive_ms(&side, 50);
	atomic_store(phase, QUIET);
	options.timeout_ns = by_deadline ? TWT_SECOND : TOW_FOREVER;
	TWT_OK(tow_recv_start(side.peer, in, sizeof(in), TAG, &options, &op));
	while (atomic_load(phase) < HALF)
		drive_ms(&side, 1);
	for (int i = 0; i < 200 && op->stage != TWI_STAGE_FILLING; i++)
		drive_ms(&side, 1);
	assert_int_equal(op->stage, TWI_STAGE_FILLING);
	if (by_deadline) {
		assert_int_equal(twt_finish(op, NULL), TOW_EDEADLINE);
		TWT_OK(tow_recv_start(side.peer, other, sizeof(other), TAG, NULL, &op));
	} else {
		TWT_OK(tow_op_cancel(op));
		drive_ms(&side, 20);
		assert_int_equal(tow_op_test(op), TOW_AGAIN);
	}
	atomic_store(phase, GIVEN_UP);
	TWT_OK(twt_finish(op, &result));
	assert_int_equal(result.bytes, TOTAL);
	must_be_right(by_deadline ? other : in);
	if (by_deadline) /* its own memory was let go with it */
		assert_int_equal(in[FIRST], 0);
	assert_int_equal(twt_ofi_recv_wait(&side, &word, sizeof(word), TAG), sizeof(word));
	assert_int_equal(word, 77);
	twt_ofi_meet(&side);
	twt_ofi_close_pair(&side);
}

static void test_deadline(void)
{
	by_deadline = true;
	give_up();
}

static void test_cancel(void)
{
	by_deadline = false;
	give_up();
}

static const struct twt_ofi_scenario table[] = {
	{ "past its deadline", test_deadline, false },
	{ "canceled", test_cancel, false },
};

#endif

int main(void)
{
#ifdef TWI_HAVE_OFI
	setenv("TOW_BACKGROUND", "0", 1); /* nothing is said between the packets */
#endif
	return twt_ofi_main(table, sizeof(table) / sizeof(table[0]));
}
