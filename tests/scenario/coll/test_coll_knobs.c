/*
 * test_coll_knobs.c - one rank of a job has a knob that the others do not have. What it starts ends
 * right, or fails at all ranks as they disagree. It never gives wrong bytes. Each knob is played
 * over the first two lanes, which join processes.
 */
#include <string.h>

#include <towline/coll.h>

#include "coll_team.h"
#include "job_lanes.h"
#include "twt.h"
#include <internal/base.h>

#define ODD  1u /* the rank */
#define MOST (300u << 10)

static void cut_small(struct tow_options *options)
{
	options->coll_segment_bytes = 4096;
}

static void cut_large(struct tow_options *options)
{
	options->coll_segment_bytes = 64 << 20;
}

static void go_one_by_one(struct tow_options *options)
{
	options->coll_depth = 1;
}

static void go_deep(struct tow_options *options)
{
	options->coll_depth = 16;
}

static void fuse_all(struct tow_options *options)
{
	options->combine = 1;
}

static void fuse_none(struct tow_options *options)
{
	options->combine_threshold_bytes = 0;
}

static void reproduce(struct tow_options *options)
{
	options->reproducible = 1;
}

static void keep_pool(struct tow_options *options)
{
	options->shm_peer_writes = 0;
}

static void go_round(struct tow_options *options)
{
	options->coll_plan = "ring";
}

static void send_in_place(struct tow_options *options)
{
	options->eager_max_bytes = 0;
}

static void use_epoll(struct tow_options *options)
{
	options->poller = "epoll";
}

static void have_no_thread(struct tow_options *options)
{
	options->background = 0;
}

static const struct knob {
	const char *name;
	void (*set)(struct tow_options *options);
	bool disagrees; /* else it is nobody else's matter */
} knobs[] = {
	{ "coll_segment_bytes=4KiB", cut_small, true },
	{ "coll_segment_bytes=64MiB", cut_large, true },
	{ "coll_plan=ring", go_round, true },
	{ "coll_depth=1", go_one_by_one, false },
	{ "coll_depth=16", go_deep, false },
	{ "combine=1", fuse_all, true },
	{ "combine_threshold_bytes=0", fuse_none, true },
	{ "reproducible=1", reproduce, true },
	{ "shm_peer_writes=0", keep_pool, false },
	{ "eager_max_bytes=0", send_in_place, false },
	{ "poller=epoll", use_epoll, false },
	{ "background=0", have_no_thread, false },
};

static const struct knob *knob;
static unsigned lane;

static void set_options(struct tow_options *options)
{
	twt_job_lane_options(lane, options);
	if (options->rank == ODD)
		knob->set(options);
}

static uint32_t value(uint32_t rank, uint64_t i)
{
	return (uint32_t)(rank * 7919 + i * 31) % 1000003;
}

/* True: it has ended right, and the job goes on. */
static bool has_ended(int status, struct tow_op *op)
{
	if (status >= 0)
		status = twt_coll_end(op);
	if (status >= 0)
		return true;
	TWT_TRUE(knob->disagrees && (status == TOW_EMISMATCH || status == TOW_EPEER));
	TWT_TRUE(strstr(tow_error_message(), "at 0x0") == NULL); /* the library's own has no site */
	return false;
}

static bool gather_all(struct twt_rank *rank, uint32_t *in, uint32_t *out, uint64_t count)
{
	struct tow_op *op = NULL;
	int status;

	for (uint64_t i = 0; i < count; i++)
		in[i] = value(rank->rank, i);
	status = tow_coll_all_gather_start(rank->group, in, out, count, TOW_U32, NULL, &op);
	if (!has_ended(status, op))
		return false;
	for (uint64_t i = 0; i < count * rank->ranks; i++)
		TWT_TRUE(out[i] == value((uint32_t)(i / count), i % count));
	return true;
}

/* Several at once, in a batch or not. */
static bool sum_all(struct twt_rank *rank, uint32_t *in, uint32_t *out, uint64_t count, bool batch)
{
	struct tow_op *ops[4] = { NULL };
	bool fine = true;
	int status[4];

	for (uint64_t i = 0; i < count * 4; i++)
		in[i] = value(rank->rank, i);
	if (batch && tow_coll_batch_begin(rank->group) < 0)
		return false;
	for (unsigned k = 0; k < 4; k++)
		status[k] = tow_coll_all_reduce_start(rank->group, in + k * count, out + k * count,
						      count, TOW_U32, TOW_SUM, NULL, &ops[k]);
	if (batch)
		(void)tow_coll_batch_end(rank->group);
	for (unsigned k = 0; k < 4; k++)
		fine &= has_ended(status[k], ops[k]);
	for (uint64_t i = 0; i < count * 4 && fine; i++) {
		uint32_t sum = 0;

		for (uint32_t r = 0; r < rank->ranks; r++)
			sum += value(r, i);
		TWT_TRUE(out[i] == sum);
	}
	return fine;
}

static bool play_all(struct twt_rank *rank, uint32_t *in, uint32_t *out)
{
	static const uint64_t counts[] = { 1, 1000, 16 << 10, MOST / 4 };

	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		uint64_t few = twi_min(counts[i], (uint64_t)MOST / 16);

		if (!gather_all(rank, in, out, counts[i]) || !sum_all(rank, in, out, few, true) ||
		    !sum_all(rank, in, out, few, false))
			return false;
	}
	return true;
}

static void play(struct twt_rank *rank)
{
	void *in, *out;
	bool fine;

	TWT_OK(tow_alloc(rank->runtime, 4 * MOST, 64, &in));
	TWT_OK(tow_alloc(rank->runtime, 4 * MOST, 64, &out));
	memset(in, 0, 4 * MOST);
	memset(out, 0, 4 * MOST);
	fine = play_all(rank, in, out);
	TWT_TRUE(fine || knob->disagrees);
	TWT_OK(tow_free(rank->runtime, in));
	TWT_OK(tow_free(rank->runtime, out));
}

static void test_knobs(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * sizeof(knobs) / sizeof(knobs[0]); i++) {
		lane = i % 2;
		knob = &knobs[i / 2];
		if (!twt_job_lane(lane))
			continue;
		print_message("%s over %s\n", knob->name, twt_lanes[lane].name);
		twt_ranks(&(struct twt_job){ .ranks = 3,
					     .lane = twt_lanes[lane].address[0],
					     .run = play,
					     .options = set_options });
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_knobs) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
