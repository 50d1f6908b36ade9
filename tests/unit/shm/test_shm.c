/*
 * test_shm.c - the shm lane between two runtimes of one process: each way a large message travels,
 * views, taking back at every stage, credit, extents that come later, and the end.
 */
#include "shm_pair.h"

#define LARGE  (3u << 20)
#define MIDDLE (100u << 10)

/* One message, wherever its memory lies; returns the receiver's result. */
static void exchange(void *out, void *in, uint64_t bytes, bool early)
{
	struct tow_result result;
	struct tow_op *send, *recv = NULL;

	shm_fill(out, bytes, bytes);
	memset(in, 0, bytes);
	if (early)
		recv = start_recv(1, in, bytes, 5);
	send = start_send(0, out, bytes, 5);
	settle();
	if (!early)
		recv = start_recv(1, in, bytes, 5);
	assert_int_equal(finish(recv, &result, false), TOW_OK);
	assert_int_equal(result.bytes, bytes);
	assert_true(shm_same(in, bytes, bytes));
	assert_int_equal(finish(send, &result, false), TOW_OK);
	assert_int_equal(result.bytes, bytes);
}

static void test_ways(void **state)
{
	uint8_t *pool[2] = { take(0, LARGE), take(1, LARGE) };
	uint8_t *heap[2] = { malloc(LARGE), malloc(LARGE) };
	uint64_t remote;

	(void)state;
	for (int early = 0; early < 2; early++) {
		exchange(pool[0], pool[1], LARGE, early);
		exchange(pool[0], heap[1], LARGE - 1, early);
		exchange(pool[0] + 1, pool[1] + 3, MIDDLE, early);
		assert_int_equal(reason_count(1, TWI_R_remote_memory), early == 0 ? 0 : remote);
		exchange(heap[0], pool[1], LARGE, early);
		exchange(heap[0] + 7, heap[1], MIDDLE + 1, early);
		remote = reason_count(1, TWI_R_remote_memory);
		assert_true(remote >= 2);
		assert_int_equal(reason_count(0, TWI_R_unregistered_send), 0);
	}
	inside(0)->remote_mine = false; /* as where process_vm_readv is forbidden */
	for (int early = 0; early < 2; early++) {
		exchange(heap[0], pool[1], LARGE, early);
		exchange(heap[0] + 7, heap[1], MIDDLE + 1, early);
	}
	assert_int_equal(reason_count(1, TWI_R_remote_memory), remote);
	assert_true(reason_count(0, TWI_R_unregistered_send) > 0);
	inside(0)->remote_mine = true; /* the sender believes it; the receiver finds out */
	inside(1)->pid = 0x7fffffff;
	exchange(heap[0], pool[1], LARGE, true);
	assert_int_equal(twi_runtime_engine(side[0].runtime)->staging.free_count,
			 twi_runtime_engine(side[0].runtime)->staging.chunks);
	for (int i = 0; i < 2; i++) {
		OK(tow_free(side[i].runtime, pool[i]));
		free(heap[i]);
	}
}

static uint64_t leased(int i)
{
	struct twi_pool_stats stats;

	twi_pool_stats(twi_runtime_engine(side[i].runtime)->pool, &stats);
	return stats.leased;
}

/* A view is the sender's memory itself, which stays leased until it is given back. */
static void test_view(void **state)
{
	uint8_t *out = take(0, LARGE);
	struct tow_result result;
	struct tow_op *send, *view;
	uint64_t copied = counted(1, TWI_C_necessary_copy_bytes);

	(void)state;
	shm_fill(out, LARGE, 9);
	send = start_send(0, out, LARGE, 1);
	view = start_view(1, 1);
	assert_int_equal(finish(view, &result, true), TOW_OK);
	assert_int_equal(result.bytes, LARGE);
	assert_true(shm_same(result.data, LARGE, 9));
	/* the library's own messages, which tell the time, are small */
	assert_true(counted(1, TWI_C_necessary_copy_bytes) - copied < 4096);
	assert_int_equal(finish(send, NULL, false), TOW_OK);
	assert_true(leased(0) > 0);
	OK(tow_free(side[0].runtime, out)); /* deferred */
	assert_true(shm_same(result.data, LARGE, 9));
	OK(tow_view_release(view));
	settle();
	assert_int_equal(leased(0), 0);
	assert_int_equal(inside(0)->offer_count, 0);
}

/* Small messages, and ones that are not in the pool, have memory of the receiver's pool. */
static void test_view_copied(void **state)
{
	static const uint64_t sizes[] = { 0, 1, 40, 41, 5000, MIDDLE };
	uint8_t *heap = malloc(MIDDLE);
	struct tow_result result;

	(void)state;
	for (size_t i = 0; i < twi_array_count(sizes); i++) {
		for (int way = 0; way < 3; way++) {
			struct tow_op *send, *view;

			inside(0)->remote_mine = way != 2;
			shm_fill(heap, sizes[i], i);
			view = way != 0 ? start_view(1, 1) : NULL;
			send = start_send(0, heap, sizes[i], 1);
			settle();
			view = view != NULL ? view : start_view(1, 1);
			assert_int_equal(finish(view, &result, true), TOW_OK);
			assert_int_equal(finish(send, NULL, false), TOW_OK);
			assert_int_equal(result.bytes, sizes[i]);
			memset(heap, 0, sizes[i]);
			assert_true(shm_same(result.data, sizes[i], i));
			OK(tow_view_release(view));
		}
	}
	free(heap);
}

/* The sender closes with a view out: the view's bytes can be read until its release. */
static void test_view_outlives_peer(void **state)
{
	uint8_t *out = take(0, LARGE);
	struct tow_result result;
	struct tow_op *send, *view;

	(void)state;
	shm_fill(out, LARGE, 9);
	send = start_send(0, out, LARGE, 1);
	view = start_view(1, 1);
	assert_int_equal(finish(view, &result, true), TOW_OK);
	assert_int_equal(finish(send, NULL, false), TOW_OK);
	OK(tow_peer_close(side[0].peer));
	assert_int_equal(leased(0), 0);
	settle();
	assert_int_equal(inside(1)->failed, TOW_EPEER);
	OK(tow_peer_close(side[1].peer));
	assert_true(shm_same(result.data, LARGE, 9));
	OK(tow_view_release(view));
	assert_true(twi_list_empty(&twi_shm_lane_of(twi_runtime_engine(side[1].runtime))->links));
	OK(tow_free(side[0].runtime, out));
}

/* A view that is out when its runtime closes goes with it. */
static void test_view_at_close(void **state)
{
	uint8_t *out = take(0, LARGE);
	struct tow_op *send, *view;

	(void)state;
	send = start_send(0, out, LARGE, 1);
	view = start_view(1, 1);
	assert_int_equal(finish(view, NULL, true), TOW_OK);
	assert_int_equal(finish(send, NULL, false), TOW_OK);
	OK(tow_free(side[0].runtime, out));
}

/* A send that is taken back before, while and after its receiver looks at it. */
static void test_withdraw(void **state)
{
	uint8_t *out = take(0, LARGE), *in = take(1, LARGE);
	struct tow_result result;
	struct tow_op *send, *recv;

	(void)state;
	send = start_send(0, out, LARGE, 1);
	OK(tow_op_cancel(send));
	assert_int_equal(finish(send, NULL, false), TOW_ECANCELED);
	settle();
	assert_int_equal(inside(0)->offer_count, 0);
	assert_int_equal(inside(1)->match.unexpected_count, 0);
	assert_int_equal(leased(0), 0);

	send = start_send(0, out, LARGE, 1); /* the receiver knows of it */
	settle();
	assert_int_equal(inside(1)->match.unexpected_count, 1);
	OK(tow_op_cancel(send));
	assert_int_equal(finish(send, NULL, false), TOW_ECANCELED);
	recv = start_recv(1, in, LARGE, 1); /* meets it before the withdrawal is read */
	shm_fill(out, LARGE, 4);
	send = start_send(0, out, LARGE, 1);
	assert_int_equal(finish(recv, &result, false), TOW_OK);
	assert_true(shm_same(in, LARGE, 4));
	assert_int_equal(finish(send, NULL, false), TOW_OK);

	recv = start_recv(1, in, LARGE, 1); /* half of it is copied */
	send = start_send(0, out, LARGE, 1);
	for (int i = 0; i < 3; i++)
		(void)tow_progress(side[1].runtime);
	assert_true(tow_op_test(recv) == TOW_AGAIN);
	OK(tow_op_cancel(send));
	assert_int_equal(finish(send, NULL, false), TOW_ECANCELED);
	settle();
	assert_true(tow_op_test(recv) == TOW_AGAIN); /* it waits on */
	shm_fill(out, MIDDLE, 6);
	send = start_send(0, out, MIDDLE, 1);
	assert_int_equal(finish(recv, &result, false), TOW_OK);
	assert_int_equal(result.bytes, MIDDLE);
	assert_true(shm_same(in, MIDDLE, 6));
	assert_int_equal(finish(send, NULL, false), TOW_OK);
	settle();
	assert_int_equal(inside(0)->offer_count, 0);
	OK(tow_free(side[0].runtime, out));
	OK(tow_free(side[1].runtime, in));
}

/* The receiver has it, and its word has not been read yet: then the send has worked. */
static void test_withdraw_too_late(void **state)
{
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	uint8_t *out = take(0, MIDDLE), *in = take(1, MIDDLE);
	struct tow_op *send, *recv, *view;

	(void)state;
	soon.timeout_ns = SECOND / 50;
	for (int way = 0; way < 2; way++) {
		view = recv = NULL;
		if (way == 0)
			recv = start_recv(1, in, MIDDLE, 1);
		else
			view = start_view(1, 1);
		OK(tow_send_start(side[0].peer, out, MIDDLE, 1, &soon, &send));
		for (int i = 0; i < 10; i++)
			(void)tow_progress(side[1].runtime);
		OK(tow_op_cancel(send)); /* no: it is complete, and will say so */
		assert_int_equal(inside(0)->offer_count, 1);
		usleep(30000);
		/* the deadline comes before the note */
		assert_int_equal(finish(send, NULL, false), TOW_OK);
		if (way == 0)
			assert_int_equal(finish(recv, NULL, false), TOW_OK);
		else
			assert_int_equal(finish(view, NULL, false), TOW_OK);
		if (way != 0)
			OK(tow_view_release(NULL));
	}
	settle();
	OK(tow_free(side[0].runtime, out));
	OK(tow_free(side[1].runtime, in));
}

/* A receive that is taken back in the middle leaves the message whole for the next one. */
static void test_abort_recv(void **state)
{
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	uint8_t *out = take(0, LARGE), *in = take(1, LARGE);
	struct tow_op *send, *recv;

	(void)state;
	soon.timeout_ns = SECOND / 100;
	shm_fill(out, LARGE, 8);
	send = start_send(0, out, LARGE, 1);
	settle();
	recv = start_recv(1, in, LARGE, 1);
	OK(tow_op_cancel(recv)); /* matched, nothing copied */
	assert_int_equal(finish(recv, NULL, false), TOW_ECANCELED);
	OK(tow_recv_start(side[1].peer, in, LARGE, 1, &soon, &recv));
	(void)tow_progress(side[1].runtime);
	assert_true(inside(1)->incoming[0].copied > 0 || inside(1)->incoming[0].op == NULL);
	usleep(20000);
	assert_int_equal(finish(recv, NULL, false), TOW_EDEADLINE);
	memset(in, 0, LARGE);
	recv = start_recv(1, in, LARGE, 1);
	assert_int_equal(finish(recv, NULL, false), TOW_OK);
	assert_true(shm_same(in, LARGE, 8));
	assert_int_equal(finish(send, NULL, false), TOW_OK);
	OK(tow_free(side[0].runtime, out));
	OK(tow_free(side[1].runtime, in));
}

/* In pieces there is no way back: the sender hears of it. */
static void test_abort_staged(void **state)
{
	uint8_t *out = malloc(LARGE), *in = malloc(LARGE);
	struct twi_engine *engine = twi_runtime_engine(side[0].runtime);
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	struct tow_op *send, *recv;

	(void)state;
	soon.timeout_ns = SECOND / 100;
	inside(0)->remote_mine = false;
	for (int i = 0; i < 3; i++) {
		OK(tow_recv_start(side[1].peer, in, LARGE, 1, &soon, &recv));
		send = start_send(0, out, LARGE, 1);
		for (int k = 0; k <= i; k++)
			turn();
		usleep(20000);
		assert_int_equal(finish(recv, NULL, false), TOW_EDEADLINE);
		assert_int_equal(finish(send, NULL, false), TOW_ECANCELED);
		settle();
	}
	/* And the sender's deadline: the receive waits for the next. */
	recv = start_recv(1, in, LARGE, 1);
	OK(tow_send_start(side[0].peer, out, LARGE, 1, &soon, &send));
	turn();
	turn();
	usleep(20000);
	assert_int_equal(finish(send, NULL, false), TOW_EDEADLINE);
	shm_fill(out, LARGE, 3);
	send = start_send(0, out, LARGE, 1);
	assert_int_equal(finish(recv, NULL, false), TOW_OK);
	assert_true(shm_same(in, LARGE, 3));
	assert_int_equal(finish(send, NULL, false), TOW_OK);
	settle();
	assert_int_equal(engine->staging.free_count, engine->staging.chunks);
	assert_int_equal(inside(0)->offer_count, 0);
	assert_int_equal(inside(1)->expecting, 0);
	free(out);
	free(in);
}

/* Too small a receive: both sides hear of it, and the next message is not harmed. */
static void test_truncated(void **state)
{
	uint8_t *out = take(0, MIDDLE), *heap = malloc(MIDDLE), in[64];
	struct tow_result result;
	struct tow_op *send, *recv;

	(void)state;
	for (int way = 0; way < 3; way++) {
		inside(0)->remote_mine = way != 2;
		recv = start_recv(1, in, sizeof(in), 1);
		send = start_send(0, way == 0 ? out : heap, MIDDLE, 1);
		assert_int_equal(finish(recv, &result, false), TOW_ETRUNCATED);
		assert_int_equal(result.bytes, MIDDLE);
		assert_int_equal(finish(send, NULL, false), TOW_ETRUNCATED);
		recv = start_recv(1, in, 10, 1);
		send = start_send(0, out, 50, 1);
		assert_int_equal(finish(recv, &result, false), TOW_ETRUNCATED);
		assert_int_equal(result.bytes, 50);
		assert_int_equal(finish(send, NULL, false), TOW_OK);
	}
	OK(tow_free(side[0].runtime, out));
	free(heap);
}

#define FLOOD 4000

/* What nobody receives is bounded; what comes behind it, and replies, still pass. */
static void test_credit(void **state)
{
	struct tow_op **sends = calloc(FLOOD, sizeof(sends[0]));
	uint8_t *big = take(1, MIDDLE), *in = take(0, MIDDLE), small[2000];
	struct tow_result result;
	struct tow_op *send, *recv;

	(void)state;
	for (int i = 0; i < FLOOD; i++) {
		shm_fill(small, sizeof(small), (uint64_t)i);
		sends[i] = start_send(0, small, sizeof(small), 7);
		if (tow_op_test(sends[i]) == TOW_AGAIN) { /* it is not complete: keep its bytes */
			OK(tow_op_cancel(sends[i]));
			assert_int_equal(finish(sends[i], NULL, false), TOW_ECANCELED);
			sends[i] = NULL;
			break;
		}
		OK(tow_op_release(sends[i]));
		turn();
	}
	settle();
	assert_true(inside(1)->stalled);
	assert_true(inside(1)->unexpected_bytes <= (2u << 20));
	send = start_send(1, big, MIDDLE, 1); /* the other way is open, replies and all */
	recv = start_recv(0, in, MIDDLE, 1);
	assert_int_equal(finish(recv, NULL, false), TOW_OK);
	assert_int_equal(finish(send, NULL, false), TOW_OK);
	for (int i = 0; i < FLOOD && sends[i] != NULL; i++) {
		recv = start_recv(1, small, sizeof(small), 7);
		assert_int_equal(finish(recv, &result, false), TOW_OK);
		assert_true(shm_same(small, sizeof(small), (uint64_t)i));
	}
	assert_int_equal(inside(1)->unexpected_bytes, 0);
	assert_true(reason_count(1, TWI_R_unexpected_arrival) > 0);
	OK(tow_free(side[1].runtime, big));
	OK(tow_free(side[0].runtime, in));
	free(sends);
}

/* More offers than there are numbers for, and more than the ring holds. */
static void test_many_offers(void **state)
{
	enum { MANY = 3 * TWI_SHM_OFFERS };
	struct tow_op **sends = calloc(MANY, sizeof(sends[0]));
	uint8_t *out = take(0, MIDDLE), *in = take(1, MIDDLE);
	struct tow_op *recv;

	(void)state;
	for (int i = 0; i < MANY; i++)
		sends[i] = start_send(0, out, MIDDLE - (uint64_t)i, (uint64_t)i);
	OK(tow_op_cancel(sends[MANY - 1]));
	assert_int_equal(finish(sends[MANY - 1], NULL, false), TOW_ECANCELED);
	for (int i = MANY - 2; i >= 0; i -= 2) { /* every second is taken back, the rest received */
		OK(tow_op_cancel(sends[i]));
		assert_int_equal(finish(sends[i], NULL, false), TOW_ECANCELED);
	}
	for (int i = 1; i < MANY - 1; i += 2) {
		struct tow_result result;

		recv = start_recv(1, in, MIDDLE, (uint64_t)i);
		assert_int_equal(finish(recv, &result, false), TOW_OK);
		assert_int_equal(result.bytes, MIDDLE - (uint64_t)i);
		assert_int_equal(finish(sends[i], NULL, false), TOW_OK);
	}
	settle();
	assert_int_equal(inside(0)->offer_count, 0);
	OK(tow_free(side[0].runtime, out));
	OK(tow_free(side[1].runtime, in));
	free(sends);
}

/* The pool grows: its new extent is announced before it is used. */
static void test_grown(void **state)
{
	const uint64_t bytes = 40u << 20; /* more than the first extent has */
	uint8_t *out = take(0, bytes), *in = malloc(bytes);
	uint32_t before = inside(1)->shared->extent_count;
	struct tow_result result;
	struct tow_op *send, *view;

	(void)state;
	exchange(out, in, bytes, true);
	assert_int_equal(inside(1)->shared->extent_count, before + 1);
	assert_int_equal(reason_count(1, TWI_R_remote_memory), 0);
	send = start_send(0, out, bytes, 1);
	view = start_view(1, 1);
	assert_int_equal(finish(view, &result, true), TOW_OK);
	assert_true(shm_same(result.data, bytes, bytes));
	OK(tow_view_release(view));
	assert_int_equal(finish(send, NULL, false), TOW_OK);
	OK(tow_free(side[0].runtime, out));
	free(in);
}

static void test_require_zero_copy(void **state)
{
	uint8_t *heap = malloc(MIDDLE);
	struct tow_op *send;

	(void)state;
	twi_runtime_engine(side[0].runtime)->knobs.require_zero_copy = 1;
	inside(0)->remote_mine = false;
	send = start_send(0, heap, MIDDLE, 1);
	assert_int_equal(finish(send, NULL, false), TOW_EZEROCOPY);
	twi_runtime_engine(side[0].runtime)->knobs.require_zero_copy = 0;
	free(heap);
}

/* Bytes that change on their way, of a message of each kind. */
static void spoil_one(int way, uint64_t bytes, bool early, bool view)
{
	uint8_t *pool = take(0, MIDDLE), *heap = malloc(MIDDLE), *in = malloc(MIDDLE);
	uint8_t *out = way == 0 ? pool : heap;
	struct twi_shm_out *ring = &inside(0)->out;
	struct tow_op *send, *recv = NULL;
	struct twi_shm_slot *slot;

	inside(0)->remote_mine = way != 2;
	shm_fill(out, bytes, 1);
	slot = twi_shm_slot_room(ring);
	if (early)
		recv = view ? start_view(1, 1) : start_recv(1, in, MIDDLE, 1);
	send = start_send(0, out, bytes, 1);
	if (bytes <= TWI_SHM_INLINE)
		slot->data[bytes / 2] ^= 1;
	else if (bytes <= inside(0)->eager_max)
		ring->box.area[slot->where + bytes / 2] ^= 1;
	else
		out[bytes / 2] ^= 1;
	settle();
	if (!early)
		recv = view ? start_view(1, 1) : start_recv(1, in, MIDDLE, 1);
	assert_int_equal(finish(recv, NULL, false), TOW_ECORRUPT);
	assert_non_null(strstr(tow_error_message(), "rpc id"));
	assert_int_equal(finish(send, NULL, false),
			 bytes <= inside(0)->eager_max ? TOW_OK : TOW_ECORRUPT);
	OK(tow_free(side[0].runtime, pool));
	free(heap);
	free(in);
}

static void test_checksums(void **state)
{
	static const uint64_t sizes[] = { 8, 40, 5000, MIDDLE };
	uint8_t *heap[2] = { malloc(LARGE), malloc(LARGE) }, *pool = take(0, LARGE);
	unsigned spoiled = 0;

	(void)state;
	twi_runtime_engine(side[0].runtime)->knobs.checksum_all = 1;
	for (int early = 0; early < 2; early++) {
		for (size_t i = 0; i < twi_array_count(sizes); i++)
			exchange(heap[0], heap[1], sizes[i], early);
		exchange(heap[0], heap[1], LARGE, early);
		exchange(pool, heap[1], LARGE, early);
		inside(0)->remote_mine = false;
		exchange(heap[0], heap[1], LARGE, early);
	}
	/* 14 of these, and what the library says of its own, at its own times */
	assert_true(counted(1, TWI_C_checksums_checked) >= 14);
	assert_int_equal(counted(1, TWI_C_checksum_mismatches), 0);
	for (size_t i = 0; i < twi_array_count(sizes); i++) {
		for (int kind = 0; kind < 12; kind++, spoiled++)
			spoil_one(kind / 4, sizes[i], kind & 1, kind & 2);
	}
	assert_int_equal(counted(1, TWI_C_checksum_mismatches), spoiled);
	assert_int_equal(inside(0)->offer_count, 0);
	free(heap[0]);
	free(heap[1]);
	OK(tow_free(side[0].runtime, pool));
}

/* Closing: what was complete is delivered, the rest has its status on both sides. */
static void test_close(void **state)
{
	uint8_t *out = take(0, MIDDLE);
	struct tow_op *small[10], *large, *posted, *recv;
	uint64_t word = 5, in;

	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		small[i] = start_send(0, &word, 8, 1);
	large = start_send(0, out, MIDDLE, 2);
	posted = start_recv(1, &in, 8, 3);
	OK(tow_peer_close(side[0].peer));
	assert_int_equal(finish(large, NULL, false), TOW_ECLOSED);
	assert_int_equal(finish(posted, NULL, false), TOW_EPEER);
	assert_non_null(strstr(tow_error_message(), "closed the connection"));
	for (uint64_t i = 0; i < 10; i++) {
		assert_int_equal(finish(small[i], NULL, false), TOW_OK);
		recv = start_recv(1, &in, 8, 1);
		assert_int_equal(finish(recv, NULL, false), TOW_OK);
	}
	recv = start_recv(1, &in, 8, 1);
	assert_int_equal(finish(recv, NULL, false), TOW_EPEER);
	recv = start_send(1, &in, 8, 1);
	assert_int_equal(finish(recv, NULL, false), TOW_EPEER);
	assert_int_equal(leased(0), 0);
	OK(tow_free(side[0].runtime, out));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_pair, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_ways),
		CASE(test_view),
		CASE(test_view_copied),
		CASE(test_view_outlives_peer),
		CASE(test_view_at_close),
		CASE(test_withdraw),
		CASE(test_withdraw_too_late),
		CASE(test_abort_recv),
		CASE(test_abort_staged),
		CASE(test_truncated),
		CASE(test_credit),
		CASE(test_many_offers),
		CASE(test_grown),
		CASE(test_require_zero_copy),
		CASE(test_checksums),
		CASE(test_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
