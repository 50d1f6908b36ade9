/* lab_colls.c - steps of collectives: some in flight at once, fused, out of blocks of the pool. */
#include "lab.h"

#include <stdio.h>
#include <string.h>

#define OPEN_NS 30000000000u

static uint64_t bucket_count(const struct lab *lab, int bucket)
{
	uint64_t bytes = (uint64_t)lab->bytes >> (lab->equal != 0 ? 0 : bucket);

	return bytes < 64 ? 16 : bytes / sizeof(float);
}

/* Calls one bucket's all-reduce, or what a rank with a fault calls in its place. */
static int start_bucket(struct lab *lab, int bucket, struct tow_op **op_out)
{
	struct tow_coll_options options = lab_coll_options(lab);
	uint64_t count = bucket_count(lab, bucket);
	float *data = lab->buffers[bucket];
	char name[24];

	snprintf(name, sizeof(name), "bucket%d", bucket);
	options.name = name;
	if (bucket == 0 && lab_has(lab, "heap"))
		data = lab->heap;
	if (bucket == 0 && lab_once(lab, "size"))
		count /= 2;
	if (bucket == 0 && lab_once(lab, "kind"))
		return tow_coll_broadcast_start(lab->group, data, count, TOW_F32, 0, &options,
						op_out);
	return tow_coll_all_reduce_start(lab->group, data, data, count, TOW_F32, TOW_MAX, &options,
					 op_out);
}

/* The broadcast that ends a step. */
static int start_last(struct lab *lab, struct tow_op **op_out)
{
	struct tow_coll_options options = lab_coll_options(lab);
	uint32_t root = lab_once(lab, "root") ? 1 : 0;

	options.name = "weights";
	return tow_coll_broadcast_start(lab->group, lab->buffers[0], 16, TOW_F32, root, &options,
					op_out);
}

/* Which bucket is the turn's; one rank may take the first two the other way round. */
static int bucket_of(int turn, bool swapped)
{
	return swapped && turn < 2 ? !turn : turn;
}

static int start_all(struct lab *lab, struct tow_op **ops, int *count_out)
{
	bool swapped = lab_once(lab, "order"), skips = lab_once(lab, "skip");
	int count = 0, status = TOW_OK;

	if (lab->spread == 0)
		lab_compute(lab, lab->step_us);
	for (int turn = 0; status >= 0 && turn < lab->buckets; turn++) {
		if (lab->spread != 0)
			lab_compute(lab, lab->step_us / lab->buckets);
		if (turn == 0 && skips)
			continue;
		status = start_bucket(lab, bucket_of(turn, swapped), &ops[count]);
		count += status >= 0;
		if (turn + 1 < lab->buckets)
			lab_sleep(lab->gap_us);
	}
	if (status >= 0 && lab->root != 0) {
		status = start_last(lab, &ops[count]);
		count += status >= 0;
	}
	*count_out = count;
	return status;
}

/* Waits in one group, then in the other; one rank has them the other way round. */
static int both_groups(struct lab *lab)
{
	struct tow_coll_options options = lab_coll_options(lab);
	bool swapped = lab_once(lab, "groups");
	int status = TOW_OK;

	for (int i = 0; status >= 0 && i < 2; i++) {
		struct tow_group *group = swapped == (i == 0) ? lab->other_group : lab->group;
		struct tow_op *op;

		status = tow_coll_all_reduce_start(group, lab->buffers[0], lab->buffers[0], 16,
						   TOW_F32, TOW_MAX, &options, &op);
		if (status >= 0)
			status = lab_finish(lab, &op, 1);
	}
	return status;
}

static int coll_open(struct lab *lab)
{
	return lab->groups == 0
		       ? TOW_OK
		       : tow_group_split(lab->group, 0, lab->me, OPEN_NS, &lab->other_group);
}

static int coll_step(struct lab *lab, uint64_t n)
{
	struct tow_op *ops[LAB_BUFFERS + 1];
	int count, status = lab->input_kib > 0 ? lab_input_read(lab) : TOW_OK, ended;

	(void)n;
	if (status < 0)
		return status;
	status = start_all(lab, ops, &count);
	ended = lab_finish(lab, ops, count);
	status = status < 0 ? status : ended;
	return status >= 0 && lab->groups != 0 ? both_groups(lab) : status;
}

static int fused_step(struct lab *lab, uint64_t n)
{
	struct tow_op *ops[LAB_BUFFERS];
	int count = 0, status, ended;

	(void)n;
	lab_compute(lab, lab->step_us);
	status = tow_coll_batch_begin(lab->group);
	if (status < 0)
		return status;
	for (int i = 0; status >= 0 && i < lab->buckets; i++) {
		status = start_bucket(lab, i, &ops[count]);
		count += status >= 0;
	}
	ended = tow_coll_batch_end(lab->group);
	status = status < 0 ? status : ended;
	ended = lab_finish(lab, ops, count);
	return status < 0 ? status : ended;
}

/* Blocks that live for a step; one rank may forget to give them back. */
static int pool_step(struct lab *lab, uint64_t n)
{
	bool keeps = lab_has(lab, "leak");
	int status = TOW_OK, blocks = 0;
	struct tow_op *op;
	void *memory;

	(void)n;
	lab_compute(lab, lab->step_us);
	for (int i = 0; status >= 0 && i < lab->buckets; i++) {
		status = tow_alloc(lab->runtime, (size_t)lab->bytes, 64, &memory);
		if (status < 0)
			break;
		lab->buffers[i] = memory;
		memset(memory, 0, (size_t)lab->bytes);
		blocks++;
		status = start_bucket(lab, i, &op);
		if (status >= 0)
			status = lab_finish(lab, &op, 1);
	}
	for (int i = keeps ? 1 : 0; i < blocks; i++)
		tow_free(lab->runtime, lab->buffers[i]);
	return status;
}

const struct lab_shape lab_coll = { .name = "coll", .open = coll_open, .step = coll_step };
const struct lab_shape lab_fused = { .name = "fused", .step = fused_step };
const struct lab_shape lab_pool = { .name = "pool", .step = pool_step };
