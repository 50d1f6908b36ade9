/*
 * test_coll_early_end.c - collectives that one rank ends early, by its deadline, by tow_op_cancel
 * or by tow_group_abort, and whose buffers it writes to from then on. Nothing is written there any
 * more, and no rank that is told TOW_OK has another result than that of what the ranks began with.
 * Over each lane, of each kind of memory. TOW_TEST_SEED replays it.
 */
#include <string.h>

#include "coll_team.h"
#include "twt_random.h"

#ifdef TWT_SANITIZED
#define ROUNDS 18u
#else
#define ROUNDS 54u
#endif
#define RANKS   3u
#define COUNT   (1u << 19) /* of a rank's input; a multiple of RANKS is used */
#define PART    (COUNT / RANKS)
#define MOST_US 2000u /* a collective takes about as long */
#define LATE_US 2000u /* a rank that goes on writes within this time */
#define LATER   0xabababab
#define ROOT    (RANKS - 1)

enum kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, BROADCAST, GATHER, KINDS };
enum way { BY_DEADLINE, BY_CANCEL, BY_ABORT, WAYS };

static uint64_t seed;

struct buffers {
	uint32_t *in, *out; /* COUNT and RANKS * COUNT elements */
};

static void fill(uint32_t *data, uint64_t count, uint32_t value)
{
	for (uint64_t i = 0; i < count; i++)
		data[i] = value;
}

static bool is_all(const uint32_t *data, uint64_t count, uint32_t value)
{
	return data[0] == value && memcmp(data, data + 1, (count - 1) * sizeof(data[0])) == 0;
}

/* Rank 0 is the root of what it may end: the others have its bytes, or have none. */
static int start(struct tow_group *group, enum kind kind, const struct buffers *buffers,
		 uint64_t timeout_ns, struct tow_op **op_out)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	const uint32_t *in = buffers->in;
	uint32_t *out = buffers->out;

	options.timeout_ns = timeout_ns;
	switch (kind) {
	case ALL_REDUCE:
		return tow_coll_all_reduce_start(group, in, out, COUNT, TOW_U32, TOW_SUM, &options,
						 op_out);
	case REDUCE_SCATTER:
		return tow_coll_reduce_scatter_start(group, in, out, PART, TOW_U32, TOW_SUM,
						     &options, op_out);
	case ALL_GATHER:
		return tow_coll_all_gather_start(group, in, out, COUNT, TOW_U32, &options, op_out);
	case ALL_TO_ALL:
		return tow_coll_all_to_all_start(group, in, out, PART, TOW_U32, &options, op_out);
	case BROADCAST:
		return tow_coll_broadcast_start(group, out, COUNT, TOW_U32, 0, &options, op_out);
	default:
		return tow_coll_gather_start(group, in, out, COUNT, TOW_U32, ROOT, &options,
					     op_out);
	}
}

/* Each rank's input is its number and one more, everywhere. */
static bool is_right(enum kind kind, uint32_t rank, const uint32_t *out)
{
	const uint32_t sum = RANKS * (RANKS + 1) / 2;
	uint64_t part = kind == ALL_TO_ALL ? PART : COUNT;

	switch (kind) {
	case ALL_REDUCE:
		return is_all(out, COUNT, sum);
	case REDUCE_SCATTER:
		return is_all(out, PART, sum);
	case BROADCAST:
		return is_all(out, COUNT, 1);
	default:
		for (uint32_t i = 0; i < RANKS; i++)
			if ((kind != GATHER || rank == ROOT) &&
			    !is_all(out + i * part, part, i + 1))
				return false;
		return true;
	}
}

static int end_early(struct tow_group *group, struct tow_op *op, enum way way, uint64_t us)
{
	if (way == BY_DEADLINE)
		return twt_coll_end(op);
	usleep((useconds_t)us);
	if (way == BY_CANCEL)
		TWT_OK(tow_op_cancel(op));
	else
		TWT_OK(tow_group_abort(group, "a test"));
	return twt_coll_end(op);
}

/* One collective, in a group of its own, which breaks if rank 0 is early enough. */
static void play_round(struct twt_rank *rank, const struct buffers *buffers, unsigned round)
{
	enum kind kind = (enum kind)(round % KINDS);
	enum way way = (enum way)(round / KINDS % WAYS);
	uint64_t rng = seed + round, us = twt_random_below(&rng, MOST_US) + 20;
	uint64_t late_us = twt_random_below(&rng, MOST_US / 2);
	bool ends = rank->rank == 0;
	struct tow_group *group;
	struct tow_op *op;
	int status;

	fill(buffers->in, COUNT, rank->rank + 1);
	fill(buffers->out, RANKS * (uint64_t)COUNT, kind == BROADCAST && ends ? 1 : 0);
	TWT_OK(tow_group_split(rank->group, 0, 0, 20 * TWT_SECOND, &group));
	TWT_OK(tow_group_barrier(rank->group, 20 * TWT_SECOND));
	if (rank->rank == ROOT)
		usleep((useconds_t)late_us);
	status = start(group, kind, buffers,
		       ends && way == BY_DEADLINE ? us * 1000 : 20 * TWT_SECOND, &op);
	if (status >= 0)
		status = ends ? end_early(group, op, way, us) : twt_coll_end(op);
	if (status >= 0) {
		TWT_TRUE(is_right(kind, rank->rank, buffers->out));
	} else {
		TWT_TRUE(status == TOW_EDEADLINE || status == TOW_ECANCELED ||
			 status == TOW_EABORTED || status == TOW_EPEER);
		fill(buffers->in, COUNT, LATER);
		fill(buffers->out, RANKS * (uint64_t)COUNT, LATER);
		usleep(LATE_US);
		TWT_TRUE(is_all(buffers->in, COUNT, LATER));
		TWT_TRUE(is_all(buffers->out, RANKS * (uint64_t)COUNT, LATER));
	}
	TWT_OK(tow_group_barrier(rank->group, 20 * TWT_SECOND));
	TWT_OK(tow_group_close(group));
}

static void play(struct twt_rank *rank)
{
	struct buffers pool, plain;
	uint64_t rng = seed + rank->rank;

	TWT_OK(tow_alloc(rank->runtime, COUNT * sizeof(uint32_t), 0, (void **)&pool.in));
	TWT_OK(tow_alloc(rank->runtime, RANKS * (uint64_t)COUNT * sizeof(uint32_t), 0,
			 (void **)&pool.out));
	plain.in = malloc(COUNT * sizeof(uint32_t));
	plain.out = malloc(RANKS * (uint64_t)COUNT * sizeof(uint32_t));
	TWT_TRUE(plain.in != NULL && plain.out != NULL);
	for (unsigned i = 0; i < ROUNDS; i++) /* the other ranks may have another kind */
		play_round(rank, twt_random_below(&rng, 4) != 0 ? &pool : &plain, i);
	free(plain.in);
	free(plain.out);
	TWT_OK(tow_free(rank->runtime, pool.in));
	TWT_OK(tow_free(rank->runtime, pool.out));
}

static void test_early_end(void **state)
{
	(void)state;
	seed = twt_seed();
	twt_ranks_by_lane(&(struct twt_job){ .ranks = RANKS, .run = play, .pool_bytes = 48 << 20 });
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_early_end) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
