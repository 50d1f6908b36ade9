/*
 * test_shm.c - the shm lane between two runtimes of one process: each way a large message travels,
 * taking back at every stage, credit, extents that come later, and the end.
 */
#include "shm_pair.h"

#define LARGE  (3u << 20)
#define MIDDLE (100u << 10)

/* One message, wherever its memory lies; returns the receiver's result. */
static void exchange(void *out, void *in, uint64_t bytes, bool early)
{
	struct tow_result result;
	struct tow_op *send, *recv = NULL;

	twt_fill(out, bytes, bytes);
	memset(in, 0, bytes);
	if (early)
		recv = twt_shm_recv(1, in, bytes, 5);
	send = twt_shm_send(0, out, bytes, 5);
	twt_shm_settle();
	if (!early)
		recv = twt_shm_recv(1, in, bytes, 5);
	assert_int_equal(twt_shm_finish(recv, &result, false), TOW_OK);
	assert_int_equal(result.bytes, bytes);
	assert_true(twt_same(in, bytes, bytes));
	assert_int_equal(twt_shm_finish(send, &result, false), TOW_OK);
	assert_int_equal(result.bytes, bytes);
}

static void test_ways(void **state)
{
	uint8_t *pool[2] = { twt_shm_take(0, LARGE), twt_shm_take(1, LARGE) };
	uint8_t *heap[2] = { malloc(LARGE), malloc(LARGE) };
	uint64_t remote;

	(void)state;
	twt_shm_inside(1)->helps = false; /* test_shm_help.c has those that both sides move */
	for (int early = 0; early < 2; early++) {
		exchange(pool[0], pool[1], LARGE, early);
		exchange(pool[0], heap[1], LARGE - 1, early);
		exchange(pool[0] + 1, pool[1] + 3, MIDDLE, early);
		assert_int_equal(twt_shm_reasons(1, TWI_R_remote_memory), early == 0 ? 0 : remote);
		exchange(heap[0], pool[1], LARGE, early);
		exchange(heap[0] + 7, heap[1], MIDDLE + 1, early);
		remote = twt_shm_reasons(1, TWI_R_remote_memory);
		assert_true(remote >= 2);
		assert_int_equal(twt_shm_reasons(0, TWI_R_unregistered_send), 0);
	}
	twt_shm_inside(1)->helps = true;
	twt_shm_inside(0)->remote_mine = false; /* as where process_vm_readv is forbidden */
	for (int early = 0; early < 2; early++) {
		exchange(heap[0], pool[1], LARGE, early);
		exchange(heap[0] + 7, heap[1], MIDDLE + 1, early);
	}
	assert_int_equal(twt_shm_reasons(1, TWI_R_remote_memory), remote);
	assert_true(twt_shm_reasons(0, TWI_R_unregistered_send) > 0);
	twt_shm_inside(0)->remote_mine = true; /* the sender believes it; the receiver finds out */
	twt_shm_inside(1)->pid = 0x7fffffff;
	exchange(heap[0], pool[1], LARGE, true);
	assert_int_equal(twi_runtime_engine(twt_shm.runtime[0])->staging.free_count,
			 twi_runtime_engine(twt_shm.runtime[0])->staging.chunks);
	for (int i = 0; i < 2; i++) {
		TWT_OK(tow_free(twt_shm.runtime[i], pool[i]));
		free(heap[i]);
	}
}

static uint64_t leased(int i)
{
	struct twi_pool_stats stats;

	twi_pool_stats(twi_runtime_engine(twt_shm.runtime[i])->pool, &stats);
	return stats.leased;
}

/* A send that is taken back before, while and after its receiver looks at it. */
static void test_withdraw(void **state)
{
	uint8_t *out = twt_shm_take(0, LARGE), *in = twt_shm_take(1, LARGE);
	struct tow_result result;
	struct tow_op *send, *recv;

	(void)state;
	send = twt_shm_send(0, out, LARGE, 1);
	TWT_OK(tow_op_cancel(send));
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_ECANCELED);
	twt_shm_settle();
	assert_int_equal(twt_shm_inside(0)->offer_count, 0);
	assert_int_equal(twt_shm_inside(1)->inbox.match.unexpected_count, 0);
	assert_int_equal(leased(0), 0);

	send = twt_shm_send(0, out, LARGE, 1); /* the receiver knows of it */
	twt_shm_settle();
	assert_int_equal(twt_shm_inside(1)->inbox.match.unexpected_count, 1);
	TWT_OK(tow_op_cancel(send));
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_ECANCELED);
	recv = twt_shm_recv(1, in, LARGE, 1); /* meets it before the withdrawal is read */
	twt_fill(out, LARGE, 4);
	send = twt_shm_send(0, out, LARGE, 1);
	assert_int_equal(twt_shm_finish(recv, &result, false), TOW_OK);
	assert_true(twt_same(in, LARGE, 4));
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);

	recv = twt_shm_recv(1, in, LARGE, 1); /* half of it is copied */
	send = twt_shm_send(0, out, LARGE, 1);
	for (int i = 0; i < 3; i++)
		(void)tow_progress(twt_shm.runtime[1]);
	assert_true(tow_op_test(recv) == TOW_AGAIN);
	TWT_OK(tow_op_cancel(send));
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_ECANCELED);
	twt_shm_settle();
	assert_true(tow_op_test(recv) == TOW_AGAIN); /* it waits on */
	twt_fill(out, MIDDLE, 6);
	send = twt_shm_send(0, out, MIDDLE, 1);
	assert_int_equal(twt_shm_finish(recv, &result, false), TOW_OK);
	assert_int_equal(result.bytes, MIDDLE);
	assert_true(twt_same(in, MIDDLE, 6));
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
	twt_shm_settle();
	assert_int_equal(twt_shm_inside(0)->offer_count, 0);
	TWT_OK(tow_free(twt_shm.runtime[0], out));
	TWT_OK(tow_free(twt_shm.runtime[1], in));
}

/* The receiver has it, and its word has not been read yet: then the send has worked. */
static void test_withdraw_too_late(void **state)
{
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	uint8_t *out = twt_shm_take(0, MIDDLE), *in = twt_shm_take(1, MIDDLE);
	struct tow_op *send, *recv, *view;

	(void)state;
	soon.timeout_ns = TWT_SECOND / 50;
	for (int way = 0; way < 2; way++) {
		view = recv = NULL;
		if (way == 0)
			recv = twt_shm_recv(1, in, MIDDLE, 1);
		else
			view = twt_shm_view(1, 1);
		soon.flags = way == 1 ? TOW_OP_LEND : 0;
		TWT_OK(tow_send_start(twt_shm.peer[0], out, MIDDLE, 1, &soon, &send));
		for (int i = 0; i < 10; i++)
			(void)tow_progress(twt_shm.runtime[1]);
		TWT_OK(tow_op_cancel(send)); /* no: it is complete, and will say so */
		assert_int_equal(twt_shm_inside(0)->offer_count, 1);
		usleep(30000);
		/* the deadline comes before the note */
		assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
		if (way == 0)
			assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_OK);
		else
			assert_int_equal(twt_shm_finish(view, NULL, false), TOW_OK);
		if (way != 0)
			TWT_OK(tow_view_release(NULL));
	}
	twt_shm_settle();
	TWT_OK(tow_free(twt_shm.runtime[0], out));
	TWT_OK(tow_free(twt_shm.runtime[1], in));
}

/* A receive that is taken back in the middle leaves the message whole for the next one. */
static void test_abort_recv(void **state)
{
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	uint8_t *out = twt_shm_take(0, LARGE), *in = twt_shm_take(1, LARGE);
	struct tow_op *send, *recv;

	(void)state;
	soon.timeout_ns = TWT_SECOND / 100;
	twt_fill(out, LARGE, 8);
	send = twt_shm_send(0, out, LARGE, 1);
	twt_shm_settle();
	recv = twt_shm_recv(1, in, LARGE, 1);
	TWT_OK(tow_op_cancel(recv)); /* matched, nothing copied */
	assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_ECANCELED);
	TWT_OK(tow_recv_start(twt_shm.peer[1], in, LARGE, 1, &soon, &recv));
	(void)tow_progress(twt_shm.runtime[1]);
	assert_true(twt_shm_inside(1)->incoming[0].copied > 0 ||
		    twt_shm_inside(1)->incoming[0].op == NULL);
	usleep(20000);
	assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_EDEADLINE);
	memset(in, 0, LARGE);
	recv = twt_shm_recv(1, in, LARGE, 1);
	assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_OK);
	assert_true(twt_same(in, LARGE, 8));
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
	TWT_OK(tow_free(twt_shm.runtime[0], out));
	TWT_OK(tow_free(twt_shm.runtime[1], in));
}

/* In pieces there is no way back: the sender hears of it. */
static void test_abort_staged(void **state)
{
	uint8_t *out = malloc(LARGE), *in = malloc(LARGE);
	struct twi_engine *engine = twi_runtime_engine(twt_shm.runtime[0]);
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	struct tow_op *send, *recv;

	(void)state;
	soon.timeout_ns = TWT_SECOND / 100;
	twt_shm_inside(0)->remote_mine = false;
	for (int i = 0; i < 3; i++) {
		TWT_OK(tow_recv_start(twt_shm.peer[1], in, LARGE, 1, &soon, &recv));
		send = twt_shm_send(0, out, LARGE, 1);
		for (int k = 0; k <= i; k++)
			twt_shm_turn();
		usleep(20000);
		assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_EDEADLINE);
		assert_int_equal(twt_shm_finish(send, NULL, false), TOW_ECANCELED);
		twt_shm_settle();
	}
	/* And the sender's deadline: the receive waits for the next. */
	recv = twt_shm_recv(1, in, LARGE, 1);
	TWT_OK(tow_send_start(twt_shm.peer[0], out, LARGE, 1, &soon, &send));
	twt_shm_turn();
	twt_shm_turn();
	usleep(20000);
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_EDEADLINE);
	twt_fill(out, LARGE, 3);
	send = twt_shm_send(0, out, LARGE, 1);
	assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_OK);
	assert_true(twt_same(in, LARGE, 3));
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
	twt_shm_settle();
	assert_int_equal(engine->staging.free_count, engine->staging.chunks);
	assert_int_equal(twt_shm_inside(0)->offer_count, 0);
	assert_int_equal(twt_shm_inside(1)->expecting, 0);
	free(out);
	free(in);
}

/* Too small a receive: both sides hear of it, and the next message is not harmed. */
static void test_truncated(void **state)
{
	uint8_t *out = twt_shm_take(0, MIDDLE), *heap = malloc(MIDDLE), in[64];
	struct tow_result result;
	struct tow_op *send, *recv;

	(void)state;
	for (int way = 0; way < 3; way++) {
		twt_shm_inside(0)->remote_mine = way != 2;
		recv = twt_shm_recv(1, in, sizeof(in), 1);
		send = twt_shm_send(0, way == 0 ? out : heap, MIDDLE, 1);
		assert_int_equal(twt_shm_finish(recv, &result, false), TOW_ETRUNCATED);
		assert_int_equal(result.bytes, MIDDLE);
		assert_int_equal(twt_shm_finish(send, NULL, false), TOW_ETRUNCATED);
		recv = twt_shm_recv(1, in, 10, 1);
		send = twt_shm_send(0, out, 50, 1);
		assert_int_equal(twt_shm_finish(recv, &result, false), TOW_ETRUNCATED);
		assert_int_equal(result.bytes, 50);
		assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
	}
	TWT_OK(tow_free(twt_shm.runtime[0], out));
	free(heap);
}

#define FLOOD 4000

/* What nobody receives is bounded; what comes behind it, and replies, still pass. */
static void test_credit(void **state)
{
	struct tow_op **sends = calloc(FLOOD, sizeof(sends[0]));
	uint8_t *big = twt_shm_take(1, MIDDLE), *in = twt_shm_take(0, MIDDLE), small[2000];
	struct tow_result result;
	struct tow_op *send, *recv;

	(void)state;
	for (int i = 0; i < FLOOD; i++) {
		twt_fill(small, sizeof(small), (uint64_t)i);
		sends[i] = twt_shm_send(0, small, sizeof(small), 7);
		if (tow_op_test(sends[i]) == TOW_AGAIN) { /* it is not complete: keep its bytes */
			TWT_OK(tow_op_cancel(sends[i]));
			assert_int_equal(twt_shm_finish(sends[i], NULL, false), TOW_ECANCELED);
			sends[i] = NULL;
			break;
		}
		TWT_OK(tow_op_release(sends[i]));
		twt_shm_turn();
	}
	twt_shm_settle();
	assert_false(
		twi_credit_has(&twt_shm_inside(0)->outbox.credit, twi_frame_cost(sizeof(small))));
	assert_true(twt_shm_inside(1)->inbox.kept_bytes <= (2u << 20));
	send = twt_shm_send(1, big, MIDDLE, 1); /* the other way is open, replies and all */
	recv = twt_shm_recv(0, in, MIDDLE, 1);
	assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_OK);
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
	for (int i = 0; i < FLOOD && sends[i] != NULL; i++) {
		recv = twt_shm_recv(1, small, sizeof(small), 7);
		assert_int_equal(twt_shm_finish(recv, &result, false), TOW_OK);
		assert_true(twt_same(small, sizeof(small), (uint64_t)i));
	}
	assert_int_equal(twt_shm_inside(1)->inbox.kept_bytes, 0);
	assert_true(twt_shm_reasons(1, TWI_R_unexpected_arrival) > 0);
	TWT_OK(tow_free(twt_shm.runtime[1], big));
	TWT_OK(tow_free(twt_shm.runtime[0], in));
	free(sends);
}

/* More offers than there are numbers for, and more than the ring holds. */
static void test_many_offers(void **state)
{
	enum { MANY = 3 * TWI_SHM_OFFERS };
	struct tow_op **sends = calloc(MANY, sizeof(sends[0]));
	uint8_t *out = twt_shm_take(0, MIDDLE), *in = twt_shm_take(1, MIDDLE);
	struct tow_op *recv;

	(void)state;
	for (int i = 0; i < MANY; i++)
		sends[i] = twt_shm_send(0, out, MIDDLE - (uint64_t)i, (uint64_t)i);
	TWT_OK(tow_op_cancel(sends[MANY - 1]));
	assert_int_equal(twt_shm_finish(sends[MANY - 1], NULL, false), TOW_ECANCELED);
	for (int i = MANY - 2; i >= 0; i -= 2) { /* every second is taken back, the rest received */
		TWT_OK(tow_op_cancel(sends[i]));
		assert_int_equal(twt_shm_finish(sends[i], NULL, false), TOW_ECANCELED);
	}
	for (int i = 1; i < MANY - 1; i += 2) {
		struct tow_result result;

		recv = twt_shm_recv(1, in, MIDDLE, (uint64_t)i);
		assert_int_equal(twt_shm_finish(recv, &result, false), TOW_OK);
		assert_int_equal(result.bytes, MIDDLE - (uint64_t)i);
		assert_int_equal(twt_shm_finish(sends[i], NULL, false), TOW_OK);
	}
	twt_shm_settle();
	assert_int_equal(twt_shm_inside(0)->offer_count, 0);
	TWT_OK(tow_free(twt_shm.runtime[0], out));
	TWT_OK(tow_free(twt_shm.runtime[1], in));
	free(sends);
}

/* The pool grows: its new extent is announced before it is used. */
static void test_grown(void **state)
{
	const uint64_t bytes = 40u << 20; /* more than the first extent has */
	uint8_t *out = twt_shm_take(0, bytes), *in = malloc(bytes);
	uint32_t before = twt_shm_inside(1)->shared->extent_count;
	struct tow_result result;
	struct tow_op *send, *view;

	(void)state;
	exchange(out, in, bytes, true);
	assert_int_equal(twt_shm_inside(1)->shared->extent_count, before + 1);
	assert_int_equal(twt_shm_reasons(1, TWI_R_remote_memory), 0);
	send = twt_shm_lend(0, out, bytes, 1);
	view = twt_shm_view(1, 1);
	assert_int_equal(twt_shm_finish(view, &result, true), TOW_OK);
	assert_true(twt_same(result.data, bytes, bytes));
	TWT_OK(tow_view_release(view));
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
	TWT_OK(tow_free(twt_shm.runtime[0], out));
	free(in);
}

static void test_require_zero_copy(void **state)
{
	uint8_t *heap = malloc(MIDDLE);
	struct tow_op *send;

	(void)state;
	twi_runtime_engine(twt_shm.runtime[0])->knobs.require_zero_copy = 1;
	twt_shm_inside(0)->remote_mine = false;
	send = twt_shm_send(0, heap, MIDDLE, 1);
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_EZEROCOPY);
	twi_runtime_engine(twt_shm.runtime[0])->knobs.require_zero_copy = 0;
	free(heap);
}

/* Bytes that change on their way, of a message of each kind. */
static void spoil_one(int way, uint64_t bytes, bool early, bool view)
{
	uint8_t *pool = twt_shm_take(0, MIDDLE), *heap = malloc(MIDDLE), *in = malloc(MIDDLE);
	uint8_t *out = way == 0 ? pool : heap;
	struct twi_shm_out *ring = &twt_shm_inside(0)->out;
	struct tow_op *send, *recv = NULL;
	struct twi_shm_slot *slot;

	twt_shm_inside(0)->remote_mine = way != 2;
	twt_fill(out, bytes, 1);
	slot = twi_shm_slot_room(ring);
	if (early)
		recv = view ? twt_shm_view(1, 1) : twt_shm_recv(1, in, MIDDLE, 1);
	send = view ? twt_shm_lend(0, out, bytes, 1) : twt_shm_send(0, out, bytes, 1);
	if (bytes <= TWI_SHM_INLINE)
		slot->data[bytes / 2] ^= 1;
	else if (bytes <= twt_shm_inside(0)->outbox.eager_bytes)
		ring->box.area[slot->where + bytes / 2] ^= 1;
	else
		out[bytes / 2] ^= 1;
	twt_shm_settle();
	if (!early)
		recv = view ? twt_shm_view(1, 1) : twt_shm_recv(1, in, MIDDLE, 1);
	assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_ECORRUPT);
	assert_non_null(strstr(tow_error_message(), "rpc id"));
	assert_int_equal(twt_shm_finish(send, NULL, false),
			 bytes <= twt_shm_inside(0)->outbox.eager_bytes ? TOW_OK : TOW_ECORRUPT);
	TWT_OK(tow_free(twt_shm.runtime[0], pool));
	free(heap);
	free(in);
}

static void test_checksums(void **state)
{
	static const uint64_t sizes[] = { 8, 40, 5000, MIDDLE };
	uint8_t *heap[2] = { malloc(LARGE), malloc(LARGE) }, *pool = twt_shm_take(0, LARGE);
	unsigned spoiled = 0;

	(void)state;
	twt_shm_inside(0)->outbox.checksum_all = true;
	for (int early = 0; early < 2; early++) {
		for (size_t i = 0; i < twi_array_count(sizes); i++)
			exchange(heap[0], heap[1], sizes[i], early);
		exchange(heap[0], heap[1], LARGE, early);
		exchange(pool, heap[1], LARGE, early);
		twt_shm_inside(0)->remote_mine = false;
		exchange(heap[0], heap[1], LARGE, early);
	}
	/* 14 of these, and what the library says of its own, at its own times */
	assert_true(twt_shm_counted(1, TWI_C_checksums_checked) >= 14);
	assert_int_equal(twt_shm_counted(1, TWI_C_checksum_mismatches), 0);
	for (size_t i = 0; i < twi_array_count(sizes); i++) {
		for (int kind = 0; kind < 12; kind++, spoiled++)
			spoil_one(kind / 4, sizes[i], kind & 1, kind & 2);
	}
	assert_int_equal(twt_shm_counted(1, TWI_C_checksum_mismatches), spoiled);
	assert_int_equal(twt_shm_inside(0)->offer_count, 0);
	free(heap[0]);
	free(heap[1]);
	TWT_OK(tow_free(twt_shm.runtime[0], pool));
}

/* Closing: what was complete is delivered, the rest has its status on both sides. */
static void test_close(void **state)
{
	uint8_t *out = twt_shm_take(0, MIDDLE);
	struct tow_op *small[10], *large, *posted, *recv;
	uint64_t word = 5, in;

	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		small[i] = twt_shm_send(0, &word, 8, 1);
	large = twt_shm_send(0, out, MIDDLE, 2);
	posted = twt_shm_recv(1, &in, 8, 3);
	TWT_OK(tow_peer_close(twt_shm.peer[0]));
	assert_int_equal(twt_shm_finish(large, NULL, false), TOW_ECLOSED);
	assert_int_equal(twt_shm_finish(posted, NULL, false), TOW_EPEER);
	assert_non_null(strstr(tow_error_message(), "closed the connection"));
	for (uint64_t i = 0; i < 10; i++) {
		assert_int_equal(twt_shm_finish(small[i], NULL, false), TOW_OK);
		recv = twt_shm_recv(1, &in, 8, 1);
		assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_OK);
	}
	recv = twt_shm_recv(1, &in, 8, 1);
	assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_EPEER);
	recv = twt_shm_send(1, &in, 8, 1);
	assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_EPEER);
	assert_int_equal(leased(0), 0);
	TWT_OK(tow_free(twt_shm.runtime[0], out));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, twt_shm_open, twt_shm_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_ways),
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
