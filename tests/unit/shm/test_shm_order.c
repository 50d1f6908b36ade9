/*
 * test_shm_order.c - what the other side says in one order is heard in that order, though messages
 * and notes lie in two rings: who has taken a large message and then answers has its taking known
 * before its answer. A stream of calls relies on it: the answer ends what is still on its way.
 */
#include "shm_pair.h"

#define LARGE 100000u
#define MANY  100u /* more than are read in one round */

static struct tow_op *ended[MANY + 1]; /* in the order in which they did */
static unsigned ended_count;
static int worst; /* the first status that was not TOW_OK */

static void note_end(struct tow_op *op, const struct tow_result *result)
{
	if (result->status != TOW_OK && worst == TOW_OK)
		worst = result->status;
	if (ended_count < twi_array_count(ended))
		ended[ended_count] = op;
	ended_count++;
}

static const struct tow_op_options noted = { .size = sizeof(noted),
					     .timeout_ns = TOW_FOREVER,
					     .done = note_end };

/*
 * Side 0 sends `count` large messages, out of its pool or not, and awaits an answer. Side 1 takes
 * them all, answers, and does nothing more, before side 0 looks once.
 */
static void play(unsigned count, bool pool, struct tow_op **sends, struct tow_op **answer_out)
{
	static uint64_t word[2];
	static uint8_t plain[LARGE], room[LARGE];
	struct tow_op *recvs[MANY], *op;
	void *data = plain;

	ended_count = 0;
	worst = TOW_OK;
	if (pool)
		TWT_OK(tow_alloc(twt_shm.runtime[0], LARGE, 0, &data));
	TWT_OK(tow_recv_start(twt_shm.peer[0], &word[0], 8, 7, &noted, answer_out));
	for (unsigned i = 0; i < count; i++) {
		TWT_OK(tow_recv_start(twt_shm.peer[1], room, LARGE, 1, NULL, &recvs[i]));
		TWT_OK(tow_send_start(twt_shm.peer[0], data, LARGE, 1, &noted, &sends[i]));
	}
	for (unsigned i = 0; i < count; i++)
		twt_finish_driving(recvs[i], NULL, &twt_shm.runtime[1], 1);
	TWT_OK(tow_send_start(twt_shm.peer[1], &word[1], 8, 7, NULL, &op));
	twt_finish_driving(op, NULL, &twt_shm.runtime[1], 1);
	assert_int_equal(ended_count, 0);
}

static void answered_last(unsigned count, bool pool)
{
	struct tow_op *sends[MANY], *answer;
	uint64_t until = twi_now_ns() + 20 * TWT_SECOND;

	play(count, pool, sends, &answer);
	while (ended_count < count + 1 && twi_now_ns() < until)
		(void)tow_progress(twt_shm.runtime[0]);
	assert_int_equal(ended_count, count + 1);
	assert_int_equal(worst, TOW_OK);
	if (ended[count] != answer)
		fail_msg("the answer came before it was known that all %u messages were taken",
			 count);
	for (unsigned i = 0; i < count; i++)
		TWT_OK(tow_op_release(sends[i]));
	TWT_OK(tow_op_release(answer));
}

static void test_answer_is_last(void **state)
{
	(void)state;
	answered_last(1, true);
	answered_last(MANY, true);
	/* Where side 1 cannot read that memory itself it needs side 0, which stands still here. */
	if (!twt_shm_inside(0)->remote_mine) {
		printf("process_vm_readv is not to be had: memory outside of the pool is not "
		       "tried\n");
		return;
	}
	answered_last(1, false);
	answered_last(MANY, false);
}

/* The same, and the other side closes then: what it has taken it has taken, however many. */
static void test_taken_then_closed(void **state)
{
	struct tow_op *sends[MANY], *answer;
	uint64_t until = twi_now_ns() + 20 * TWT_SECOND;

	(void)state;
	play(MANY, true, sends, &answer);
	TWT_OK(tow_runtime_close(twt_shm.runtime[1]));
	twt_shm.runtime[1] = NULL;
	while (ended_count < MANY + 1 && twi_now_ns() < until)
		(void)tow_progress(twt_shm.runtime[0]);
	assert_int_equal(ended_count, MANY + 1);
	if (worst != TOW_OK)
		fail_msg("one ended with %s", tow_status_name(worst));
	for (unsigned i = 0; i < MANY; i++)
		TWT_OK(tow_op_release(sends[i]));
	TWT_OK(tow_op_release(answer));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, twt_shm_open, twt_shm_close)

int main(void)
{
	const struct CMUnitTest tests[] = { CASE(test_answer_is_last),
					    CASE(test_taken_then_closed) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
