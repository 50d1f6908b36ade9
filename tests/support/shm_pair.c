/* shm_pair.c - the pair of lane_pair.h over shm, and what is inside. */
#include "shm_pair.h"

struct twt_lane_pair twt_shm;
int64_t twt_shm_pool_bytes = 8 << 20;

#define TAKEN_MAX 1024

/* Memory outlives its runtime: what a test has not freed by its end is freed then. */
static struct taken {
	struct tow_runtime *runtime;
	void *memory;
} taken[TAKEN_MAX];
static unsigned taken_count;

void twt_shm_turn(void)
{
	twt_lane_turn(&twt_shm);
}

int twt_shm_finish(struct tow_op *op, struct tow_result *out, bool keep)
{
	struct tow_result result = twt_lane_wait(&twt_shm, op);

	if (!keep || result.status != TOW_OK)
		TWT_OK(tow_op_release(op));
	if (out != NULL)
		*out = result;
	return result.status;
}

void twt_shm_open_side(int i, int64_t pool_bytes)
{
	if (i == 0)
		twt_lane_init(&twt_shm, &twt_lane_rows[TWT_LANE_ROW_SHM]);
	twt_shm.options[i].premap_memory_bytes = pool_bytes;
	twt_shm.options[i].premap_limit_bytes = twi_max(4 * pool_bytes, 128 << 20);
	twt_shm.options[i].peer_lease_bytes = 1 << 30; /* views of freed memory may stay out */
	TWT_OK(twt_lane_open_side(&twt_shm, i));
}

void twt_shm_join(void)
{
	twt_lane_join(&twt_shm);
}

int twt_shm_open(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		twt_shm_open_side(i, twt_shm_pool_bytes);
	twt_shm_join();
	return 0;
}

int twt_shm_close(void **state)
{
	(void)state;
	twt_lane_close(&twt_shm);
	while (taken_count > 0) {
		taken_count--;
		tow_free(taken[taken_count].runtime, taken[taken_count].memory);
	}
	return 0;
}

struct twi_shm_peer *twt_shm_inside(int i)
{
	return (struct twi_shm_peer *)(void *)twt_shm.peer[i];
}

uint64_t twt_shm_counted(int i, enum twi_counter counter)
{
	return twi_counter_sum(twi_runtime_engine(twt_shm.runtime[i])->diag, counter);
}

uint64_t twt_shm_reasons(int i, enum twi_reason reason)
{
	struct twi_reason_sum sum;

	twi_reason_sum(twi_runtime_engine(twt_shm.runtime[i])->diag, reason, &sum);
	return sum.count;
}

struct tow_op *twt_shm_send(int i, const void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op *op;

	TWT_OK(tow_send_start(twt_shm.peer[i], data, bytes, tag, NULL, &op));
	return op;
}

struct tow_op *twt_shm_lend(int i, const void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;

	options.flags = TOW_OP_LEND;
	TWT_OK(tow_send_start(twt_shm.peer[i], data, bytes, tag, &options, &op));
	return op;
}

struct tow_op *twt_shm_recv(int i, void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op *op;

	TWT_OK(tow_recv_start(twt_shm.peer[i], data, bytes, tag, NULL, &op));
	return op;
}

struct tow_op *twt_shm_view(int i, uint64_t tag)
{
	struct tow_op *op;

	TWT_OK(tow_recv_view_start(twt_shm.peer[i], tag, NULL, &op));
	return op;
}

void *twt_shm_take(int i, uint64_t bytes)
{
	void *memory;

	TWT_OK(tow_alloc(twt_shm.runtime[i], bytes, 0, &memory));
	assert_true(taken_count < TAKEN_MAX);
	taken[taken_count++] = (struct taken){ twt_shm.runtime[i], memory };
	return memory;
}

void twt_shm_settle(void)
{
	for (int i = 0; i < 200; i++)
		twt_shm_turn();
}
