/*
 * test_ofi_lane.c - the ofi lane over each provider of libfabric's that this machine has: every
 * size, many at once, taken back, too late, unexpected, as views, and by each way that a large
 * message can go. test_ofi_ends.c has the ends of peers.
 */
#include "twt.h"

#include "ofi_run.h"

#ifdef TWI_HAVE_OFI

#define LARGEST (16 << 20)

static const uint64_t sizes[] = { 0,     1,     8,     79,      80,      81,      207,    208,
				  209,   1208,  4047,  4048,    4049,    16335,   16336,  16337,
				  16384, 16385, 65536, 1000000, 4194304, 8388609, LARGEST };

static uint64_t size_count(void)
{
	return twt_ofi.slow ? 20 : sizeof(sizes) / sizeof(sizes[0]);
}

/* Every size to the other side and back, from the pool and from memory of the user's. */
static int echo_sizes(struct twt_side *side, void *arg)
{
	uint8_t *data;

	(void)arg;
	TWT_OK(tow_alloc(side->runtime, LARGEST, 0, (void **)&data));
	for (uint64_t i = 0; i < 2 * size_count(); i++) {
		uint64_t bytes = twt_ofi_recv_wait(side, data, LARGEST, i);

		twt_ofi_send_wait(side, data, bytes, i);
	}
	TWT_OK(tow_free(side->runtime, data));
	return 0;
}

static void test_sizes(void)
{
	uint8_t *pool, *heap;
	struct twt_side side;

	twt_ofi.pool_bytes = LARGEST + (6 << 20);
	twt_ofi_open_pair(&side, echo_sizes);
	heap = malloc(LARGEST);
	TWT_OK(tow_alloc(side.runtime, LARGEST, 0, (void **)&pool));
	for (uint64_t i = 0; i < 2 * size_count(); i++) {
		uint64_t bytes = sizes[i / 2];
		uint8_t *data = i % 2 == 0 ? pool : heap;

		twt_fill(data, bytes, twt_ofi.seed + i);
		twt_ofi_send_wait(&side, data, bytes, i);
		memset(data, 0, bytes);
		assert_int_equal(twt_ofi_recv_wait(&side, data, bytes, i), bytes);
		assert_int_equal(twt_check(data, bytes, twt_ofi.seed + i), 0);
	}
	TWT_OK(tow_free(side.runtime, pool));
	twt_ofi_close_pair(&side);
	free(heap);
}

/* Many in flight both ways, large and small mixed, few tags: order within a tag is kept. */
#define CROWD 192
#define SLOT  100000u

static uint64_t crowd_bytes(uint64_t i, int from)
{
	uint64_t state = twt_ofi.seed * 3 + i * 2 + (uint64_t)from;

	return twt_random(&state) % (i % 4 == 0 ? SLOT : 3000);
}

static int crowd(struct twt_side *side, void *arg)
{
	struct tow_op *sends[CROWD], *recvs[CROWD];
	int me = side->child != 0, wrong = 0;
	struct tow_result result;
	uint8_t *out, *in;

	(void)arg;
	TWT_OK(tow_alloc(side->runtime, CROWD * SLOT / 2, 0, (void **)&in));
	out = malloc((size_t)CROWD * SLOT);
	for (int round = 0; round < (twt_ofi.slow ? 1 : 4); round++) {
		/* halves: what is sent in the second has nobody waiting yet */
		for (uint64_t half = 0; half < 2; half++) {
			for (uint64_t i = half * CROWD / 2; i < (half + 1) * CROWD / 2; i++) {
				uint64_t bytes = crowd_bytes(i, me);

				twt_fill(out + i * SLOT, bytes, twt_ofi.seed + i);
				TWT_OK(tow_send_start(side->peer, out + i * SLOT, bytes, i % 7,
						      NULL, &sends[i]));
			}
			for (uint64_t i = half * CROWD / 2; i < (half + 1) * CROWD / 2; i++)
				TWT_OK(tow_recv_start(side->peer, in + i % (CROWD / 2) * SLOT, SLOT,
						      i % 7, NULL, &recvs[i]));
			for (uint64_t i = half * CROWD / 2; i < (half + 1) * CROWD / 2; i++) {
				TWT_OK(twt_finish(recvs[i], &result));
				wrong |= result.bytes != crowd_bytes(i, !me);
				wrong |= twt_check(in + i % (CROWD / 2) * SLOT, result.bytes,
						   twt_ofi.seed + i) != 0;
				TWT_OK(twt_finish(sends[i], NULL));
			}
		}
		twt_ofi_meet(side);
	}
	free(out);
	TWT_OK(tow_free(side->runtime, in));
	return wrong;
}

static void test_crowd(void)
{
	struct twt_side side;

	twt_ofi.pool_bytes = (int64_t)CROWD * SLOT / 2 + (6 << 20);
	twt_ofi_open_pair(&side, crowd);
	assert_int_equal(crowd(&side, NULL), 0);
	twt_ofi_close_pair(&side);
}

/* Taken back on either side, past its deadline, too long: what comes after it is unharmed. */
static int taken_back_child(struct twt_side *side, void *arg)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;
	uint8_t *data, small[100];

	(void)arg;
	TWT_OK(tow_alloc(side->runtime, 1 << 20, 0, (void **)&data));
	twt_ofi_meet(side); /* the other's offers have come and were withdrawn */
	if (twt_ofi_recv_wait(side, data, 1 << 20, 7) != 1 << 20 ||
	    twt_check(data, 1 << 20, 42) != 0)
		return 1;
	/* a receive that is taken back leaves the message for the next */
	TWT_OK(tow_recv_start(side->peer, data, 1 << 20, 8, NULL, &op));
	TWT_OK(tow_op_cancel(op));
	if (twt_finish(op, NULL) != TOW_ECANCELED)
		return 2;
	options.timeout_ns = TWT_SECOND / 20;
	TWT_OK(tow_recv_start(side->peer, data, 1 << 20, 8, &options, &op));
	if (twt_finish(op, NULL) != TOW_EDEADLINE)
		return 3;
	twt_ofi_meet(side);
	if (twt_ofi_recv_wait(side, data, 1 << 20, 8) != 500000 || twt_check(data, 500000, 43) != 0)
		return 4;
	/* too long for the buffer, small and large */
	for (uint64_t tag = 9; tag < 11; tag++) {
		TWT_OK(tow_recv_start(side->peer, small, sizeof(small), tag, NULL, &op));
		if (twt_finish(op, NULL) != TOW_ETRUNCATED)
			return 5;
	}
	if (twt_ofi_recv_wait(side, data, 1 << 20, 11) != 70000 || twt_check(data, 70000, 44) != 0)
		return 6;
	twt_ofi_meet(side);
	TWT_OK(tow_free(side->runtime, data));
	return 0;
}

static void test_taken_back(void)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct twt_side side;
	struct tow_op *op, *late;
	uint8_t *data;

	twt_ofi_open_pair(&side, taken_back_child);
	TWT_OK(tow_alloc(side.runtime, 1 << 20, 0, (void **)&data));
	options.timeout_ns = TWT_SECOND / 10;
	TWT_OK(tow_send_start(side.peer, data, 1 << 20, 7, NULL, &op));
	TWT_OK(tow_send_start(side.peer, data, 900000, 7, &options, &late));
	TWT_OK(tow_op_cancel(op));
	assert_int_equal(twt_finish(op, NULL), TOW_ECANCELED);
	assert_int_equal(twt_finish(late, NULL), TOW_EDEADLINE);
	twt_ofi_meet(&side);
	twt_fill(data, 1 << 20, 42);
	twt_ofi_send_wait(&side, data, 1 << 20, 7);
	twt_ofi_meet(&side);
	twt_fill(data, 500000, 43);
	twt_ofi_send_wait(&side, data, 500000, 8);
	twt_ofi_send_wait(&side, data, 200, 9);
	TWT_OK(tow_send_start(side.peer, data, 100000, 10, NULL, &op));
	assert_int_equal(twt_finish(op, NULL), TOW_ETRUNCATED);
	twt_fill(data, 70000, 44);
	twt_ofi_send_wait(&side, data, 70000, 11);
	twt_ofi_meet(&side);
	TWT_OK(tow_free(side.runtime, data));
	twt_ofi_close_pair(&side);
}

/* Receives without a buffer. */
static int views_child(struct twt_side *side, void *arg)
{
	static const uint64_t bytes[] = { 0, 10, 16384, 100000, 3000000 };
	struct tow_result result;
	struct tow_op *op;

	(void)arg;
	for (uint64_t i = 0; i < 10; i++) {
		if (i >= 5)
			twt_ofi_meet(side); /* these are unexpected */
		TWT_OK(tow_recv_view_start(side->peer, i, NULL, &op));
		if (tow_op_wait(op, 20 * TWT_SECOND) != TOW_OK)
			return 1;
		result.size = sizeof(result);
		TWT_OK(tow_op_result(op, &result));
		if (result.bytes != bytes[i % 5] ||
		    twt_check(result.data, result.bytes, twt_ofi.seed + i) != 0)
			return 2;
		TWT_OK(tow_view_release(op));
	}
	return 0;
}

static void test_views(void)
{
	static const uint64_t bytes[] = { 0, 10, 16384, 100000, 3000000 };
	struct tow_op *op;
	struct twt_side side;
	uint8_t *data;

	twt_ofi.pool_bytes = 16 << 20;
	twt_ofi_open_pair(&side, views_child);
	TWT_OK(tow_alloc(side.runtime, 3000000, 0, (void **)&data));
	for (uint64_t i = 0; i < 10; i++) {
		twt_fill(data, bytes[i % 5], twt_ofi.seed + i);
		TWT_OK(tow_send_start(side.peer, data, bytes[i % 5], i, NULL, &op));
		if (i >= 5)
			twt_ofi_meet(&side);
		TWT_OK(twt_finish(op, NULL));
	}
	TWT_OK(tow_free(side.runtime, data));
	twt_ofi_close_pair(&side);
}

static void test_read(void)
{
	twt_ofi.prefers_tagged = 0;
	test_sizes();
}

static void test_read_taken_back(void)
{
	twt_ofi.prefers_tagged = 0;
	test_taken_back();
}

static void test_tagged(void)
{
	twt_ofi.read = false;
	test_sizes();
}

static void test_tagged_taken_back(void)
{
	twt_ofi.read = false;
	test_taken_back();
}

static void test_pieces(void)
{
	twt_ofi.read = twt_ofi.tagged = false;
	test_sizes();
}

static void test_pieces_taken_back(void)
{
	twt_ofi.read = twt_ofi.tagged = false;
	test_taken_back();
}

static void test_checksums(void)
{
	setenv("TOW_CHECKSUM_ALL", "1", 1);
	test_crowd();
}

static void test_keyed(void)
{
	setenv("TOW_JOB_KEY", "one key for all of the job", 1);
	test_crowd();
}

/* The way that a provider takes by itself is one of the three, so it is not tried once more. */
static const struct twt_ofi_scenario table[] = {
	{ "crowd", test_crowd, false },
	{ "views", test_views, false },
	{ "read", test_read, false },
	{ "read, taken back", test_read_taken_back, false },
	{ "tagged", test_tagged, false },
	{ "tagged, taken back", test_tagged_taken_back, false },
	{ "pieces", test_pieces, false },
	{ "pieces, taken back", test_pieces_taken_back, false },
	{ "checksums", test_checksums, false },
	{ "keyed", test_keyed, false },
};

#endif

int main(void)
{
#ifdef TWI_HAVE_OFI
	twt_ofi.pool_bytes = 4 << 20; /* to fault a pool in is most of what this costs */
#endif
	return twt_ofi_main(table, sizeof(table) / sizeof(table[0]));
}
