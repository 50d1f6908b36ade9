/*
 * test_coll_pipeline.c - collectives of one host on memory outside the pool, piece by piece: what
 * is copied and counted, that a pool much smaller than the vector is enough, ranks whose memory
 * differs, and a rank that is killed in the middle. test_coll.c (property) plays random cases.
 */
#include "beside.h"
#include "coll_job.h"

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

#define BYTES (24u << 20) /* of a vector: three pools of a rank */
#define COUNT (BYTES / 4)

/* Copies that `reason` stands for, in bytes. */
static uint64_t copied(const struct twt_job *job, enum twi_reason reason)
{
	struct twi_reason_sum sum;

	twi_reason_sum(twi_runtime_engine(job->runtime)->diag, reason, &sum);
	return sum.bytes;
}

static int32_t *outside(uint64_t bytes)
{
	int32_t *data = malloc(bytes);

	if (data == NULL)
		abort();
	return data;
}

static void fill(int32_t *data, uint64_t count, int rank)
{
	for (uint64_t i = 0; i < count; i++)
		data[i] = (int32_t)((uint32_t)i * 7 + (uint32_t)rank * 1000003);
}

/* Are these elements from `first` on of that rank? */
static bool is_of(const int32_t *data, uint64_t first, uint64_t count, int rank)
{
	for (uint64_t i = 0; i < count; i++) {
		if (data[i] != (int32_t)((uint32_t)(first + i) * 7 + (uint32_t)rank * 1000003))
			return false;
	}
	return true;
}

/* Are these elements from `first` on of the sum of all ranks? */
static bool is_sum(const struct twt_job *job, const int32_t *data, uint64_t first, uint64_t count)
{
	uint32_t size = (uint32_t)job->size, all = size * (size - 1) / 2 * 1000003;

	for (uint64_t i = 0; i < count; i++) {
		if (data[i] != (int32_t)(size * (uint32_t)(first + i) * 7 + all))
			return false;
	}
	return true;
}

/* Of a start, and of what it has started. */
static int end(const struct twt_job *job, int status, struct tow_op **op)
{
	char text[512];

	return status == TOW_OK ? twt_job_end(job, *op, text) : status;
}

static int all_reduce(const struct twt_job *job, const int32_t *in, int32_t *out)
{
	struct tow_op *op = NULL;

	return end(
		job,
		tow_coll_all_reduce_start(job->group, in, out, COUNT, TOW_S32, TOW_SUM, NULL, &op),
		&op);
}

/* Memory that fills a rank's pool. */
struct used {
	void *at[512];
	int n;
};

/* Leaves `kept` blocks of 16 KiB. The groups are set up by then, as in a job that has run. */
static void use_pool(const struct twt_job *job, struct used *used, int kept)
{
	for (size_t bytes = 512 << 10; bytes >= 16 << 10; bytes /= 2)
		while (used->n < 512 &&
		       tow_alloc(job->runtime, bytes, 0, &used->at[used->n]) == TOW_OK)
			used->n++;
	twt_must(used->n > 4 && used->n < 512);
	for (int i = 0; i < kept; i++)
		twt_must(tow_free(job->runtime, used->at[--used->n]) == TOW_OK);
}

static void give_pool(const struct twt_job *job, struct used *used)
{
	while (used->n > 0)
		twt_must(tow_free(job->runtime, used->at[--used->n]) == TOW_OK);
}

/* The most that the pool has had in use. */
static uint64_t most_used(const struct twt_job *job)
{
	struct twi_pool_stats stats;

	twi_pool_stats(twi_runtime_engine(job->runtime)->pool, &stats);
	return stats.allocated_peak + stats.overflow_peak;
}

/* Each byte of an input is copied once, and no result is; the pool is smaller than the vector. */
static void play_counts(struct twt_job *job, const void *arg)
{
	int32_t *in = outside(BYTES), *out = outside(BYTES);

	(void)arg;
	fill(in, COUNT, job->rank);
	twt_must(all_reduce(job, in, out) == TOW_OK && is_sum(job, out, 0, COUNT));
	twt_must(copied(job, TWI_R_unregistered_send) == BYTES);
	twt_must(copied(job, TWI_R_unregistered_recv) == 0);
	twt_must(is_of(in, 0, COUNT, job->rank));
	twt_must(all_reduce(job, in, in) == TOW_OK && is_sum(job, in, 0, COUNT));
	twt_must(copied(job, TWI_R_unregistered_send) == 2 * BYTES);
	twt_must(most_used(job) < 8u << 20);
	free(in);
	free(out);
}

/* The other kinds, of 2 MiB for each rank. */
#define PART (512u << 10)

static void play_kinds(struct twt_job *job, const void *arg)
{
	uint64_t size = (uint64_t)job->size, mine = (uint64_t)job->rank * PART;
	int32_t *one = outside(4 * PART), *in = outside(4 * size * PART);
	int32_t *out = outside(4 * size * PART);
	struct tow_group *group = job->group;
	struct tow_op *op = NULL;

	(void)arg;
	fill(one, PART, job->rank);
	fill(in, size * PART, job->rank);
	twt_must(end(job, tow_coll_all_gather_start(group, one, out, PART, TOW_S32, NULL, &op),
		     &op) == TOW_OK);
	for (int i = 0; i < job->size; i++)
		twt_must(is_of(out + (uint64_t)i * PART, 0, PART, i));
	twt_must(end(job,
		     tow_coll_reduce_scatter_start(group, in, one, PART, TOW_S32, TOW_SUM, NULL,
						   &op),
		     &op) == TOW_OK);
	twt_must(is_sum(job, one, mine, PART));
	twt_must(end(job, tow_coll_all_to_all_start(group, in, out, PART, TOW_S32, NULL, &op),
		     &op) == TOW_OK);
	for (int i = 0; i < job->size; i++)
		twt_must(is_of(out + (uint64_t)i * PART, mine, PART, i));
	fill(one, PART, job->rank);
	twt_must(end(job, tow_coll_broadcast_start(group, one, PART, TOW_S32, 1, NULL, &op), &op) ==
		 TOW_OK);
	twt_must(is_of(one, 0, PART, 1));
	free(one);
	free(in);
	free(out);
}

/*
 * One rank's memory is of the pool, in place and not; the others' is not. It does without a ring
 * where its pool is in use.
 */
static void play_mixed(struct twt_job *job, const void *arg)
{
	const bool *is_used = arg;
	uint64_t bytes = 1u << 20, count = bytes / 4;
	struct tow_op *op = NULL;
	struct used used = { .n = 0 };
	void *at[2];

	for (int i = 0; i < 2; i++) {
		if (job->rank == 1)
			twt_must(tow_alloc(job->runtime, bytes, 0, &at[i]) == TOW_OK);
		else
			at[i] = outside(bytes);
	}
	twt_job_sum(job, job->group, 1);
	if (*is_used && job->rank == 1)
		use_pool(job, &used, 0);
	for (int i = 0; i < 4; i++) {
		fill(at[0], count, job->rank);
		twt_must(end(job,
			     tow_coll_all_reduce_start(job->group, at[0], at[i & 1], count, TOW_S32,
						       TOW_SUM, NULL, &op),
			     &op) == TOW_OK);
		twt_must(is_sum(job, at[i & 1], 0, count));
	}
	if (job->rank == 1)
		twt_must(copied(job, TWI_R_unregistered_send) == 0);
	give_pool(job, &used);
	for (int i = 0; i < 2; i++) {
		if (job->rank == 1)
			twt_must(tow_free(job->runtime, at[i]) == TOW_OK);
		else
			free(at[i]);
	}
}

/* What each rank of play_full has. */
struct full {
	uint64_t part; /* elements */
	uint32_t own, root;
	int32_t *one, *all;
};

static void play_rooted(struct twt_job *job, const struct full *full)
{
	struct tow_group *group = job->group;
	uint64_t part = full->part;
	uint32_t root = full->root;
	struct tow_op *op = NULL;

	fill(full->one, part, job->rank);
	twt_must(end(job,
		     tow_coll_gather_start(group, full->one, full->all, part, TOW_S32, root, NULL,
					   &op),
		     &op) == TOW_OK);
	for (int i = 0; full->own == root && i < job->size; i++)
		twt_must(is_of(full->all + (uint64_t)i * part, 0, part, i));
	fill(full->all, (uint64_t)job->size * part, job->rank);
	twt_must(end(job,
		     tow_coll_scatter_start(group, full->all, full->one, part, TOW_S32, root, NULL,
					    &op),
		     &op) == TOW_OK);
	twt_must(is_of(full->one, full->own * part, part, (int)root));
	fill(full->one, part, job->rank);
	twt_must(end(job,
		     tow_coll_reduce_start(group, full->one, full->all, part, TOW_S32, TOW_SUM,
					   root, NULL, &op),
		     &op) == TOW_OK);
	twt_must(full->own != root || is_sum(job, full->all, 0, part));
}

/* Each rank passes its vector on to the next; the first of a permutation gets zeros. */
static void play_ring(struct twt_job *job, const struct full *full)
{
	int size = job->size, before = (job->rank + size - 1) % size;
	struct tow_coll_pair pairs[8];
	struct tow_op *op = NULL;

	for (uint32_t i = 0; i < (uint32_t)size; i++)
		pairs[i] = (struct tow_coll_pair){ i, (i + 1) % (uint32_t)size };
	twt_must(end(job,
		     tow_coll_permute_start(job->group, full->one, full->all, full->part, TOW_S32,
					    pairs, (uint32_t)size - 1, NULL, &op),
		     &op) == TOW_OK);
	for (uint64_t i = 0; job->rank == 0 && i < full->part; i++)
		twt_must(full->all[i] == 0);
	twt_must(job->rank == 0 || is_of(full->all, 0, full->part, before));
	twt_must(end(job,
		     tow_coll_send_receive_start(job->group, full->one, (job->rank + 1) % size,
						 full->all, before, full->part, TOW_S32, NULL, &op),
		     &op) == TOW_OK);
	twt_must(is_of(full->all, 0, full->part, before));
}

static void play_whole(struct twt_job *job, const struct full *full)
{
	struct tow_coll_options twice = TOW_COLL_OPTIONS_INIT;
	uint64_t counts[8], offsets[8], part = full->part;
	struct tow_group *group = job->group;
	struct tow_op *op = NULL;

	for (uint32_t i = 0; i < (uint32_t)job->size; i++) {
		counts[i] = i % 2 == 0 ? part : part / 3;
		offsets[i] = i * part;
	}
	twt_must(end(job,
		     tow_coll_all_reduce_start(group, full->one, full->all, part, TOW_S32, TOW_SUM,
					       NULL, &op),
		     &op) == TOW_OK);
	twt_must(is_sum(job, full->all, 0, part));
	twt_must(end(job,
		     tow_coll_all_gather_v_start(group, full->one, full->all, counts, offsets,
						 TOW_S32, NULL, &op),
		     &op) == TOW_OK);
	for (int i = 0; i < job->size; i++)
		twt_must(is_of(full->all + offsets[i], 0, counts[i], i));
	twice.scale = 2;
	for (uint64_t i = 0; i < (uint64_t)job->size * part; i++)
		((float *)full->all)[i] = (float)job->rank;
	twt_must(end(job,
		     tow_coll_reduce_scatter_start(group, full->all, full->one, part, TOW_F32,
						   TOW_SUM, &twice, &op),
		     &op) == TOW_OK);
	for (uint64_t i = 0; i < part; i++)
		twt_must(((float *)full->one)[i] == (float)(job->size * (job->size - 1)));
}

/*
 * Every kind, of more than the pool has room for; or of less, where one rank's pool is in use, so
 * that the others have staged all when they hear of it.
 */
static void play_full(struct twt_job *job, const void *arg)
{
	const bool *is_used = arg;
	uint64_t part = *is_used ? 1u << 17 : 1u << 20;
	struct full full = { .part = part,
			     .own = (uint32_t)job->rank,
			     .root = (uint32_t)job->size - 1,
			     .one = outside(4 * part),
			     .all = outside(4 * (uint64_t)job->size * part) };
	struct used used = { .n = 0 };

	twt_job_sum(job, job->group, 1);
	if (*is_used && job->rank == 1)
		use_pool(job, &used, 2); /* 32 KiB, for a ring of small pieces */
	play_rooted(job, &full);
	play_ring(job, &full);
	play_whole(job, &full);
	give_pool(job, &used);
	free(full.one);
	free(full.all);
}

/*
 * More in flight than the pool has room for: later ones wait for earlier ones. Where pools have no
 * room at all, each of two groups has what it keeps for its oldest one.
 */
#define MANY 12

static void play_many(struct twt_job *job, const void *arg)
{
	const bool *is_used = arg;
	uint64_t part = 3u << 17; /* 1.5 MiB */
	struct tow_group *groups[2] = { job->group, job->group };
	struct tow_op *ops[MANY];
	int32_t *in[MANY], *out[MANY];
	struct used used = { .n = 0 };
	char text[512];

	if (*is_used) {
		twt_must(tow_group_split(job->group, 0, job->rank, TWT_JOB_WAIT_NS, &groups[1]) ==
			 TOW_OK);
		for (int i = 0; i < 2; i++)
			twt_job_sum(job, groups[i], 1);
		use_pool(job, &used, 0);
	}
	for (int i = 0; i < MANY; i++) {
		in[i] = outside(4 * part);
		out[i] = outside(4 * part * (uint64_t)job->size);
		fill(in[i], part, job->rank);
		if (i % 3 == 0)
			twt_must(tow_coll_gather_start(groups[i & 1], in[i], out[i], part, TOW_S32,
						       0, NULL, &ops[i]) == TOW_OK);
		else
			twt_must(tow_coll_all_reduce_start(groups[i & 1], in[i], out[i], part,
							   TOW_S32, TOW_SUM, NULL,
							   &ops[i]) == TOW_OK);
	}
	for (int i = MANY - 1; i >= 0; i--) {
		int status = twt_job_end(job, ops[i], text);

		if (status != TOW_OK)
			printf("%d: %s\n", i, text);
		twt_must(status == TOW_OK);
		if (i % 3 != 0)
			twt_must(is_sum(job, out[i], 0, part));
		for (int r = 0; i % 3 == 0 && job->rank == 0 && r < job->size; r++)
			twt_must(is_of(out[i] + (uint64_t)r * part, 0, part, r));
		free(in[i]);
		free(out[i]);
	}
	give_pool(job, &used);
	if (*is_used)
		twt_must(tow_group_close(groups[1]) == TOW_OK);
}

/* A rank is killed between two pieces: the others are told, and their memory is theirs again. */
static void play_killed(struct twt_job *job, const void *arg)
{
	int32_t *in = outside(BYTES), *out = outside(BYTES);
	struct tow_op *op;
	char text[512];
	int status;

	(void)arg;
	fill(in, COUNT, job->rank);
	twt_must(all_reduce(job, in, out) == TOW_OK);
	for (int i = 0;; i++) {
		status = tow_coll_all_reduce_start(job->group, in, out, COUNT, TOW_S32, TOW_SUM,
						   NULL, &op);
		if (job->rank == 1 && i == 3) {
			tow_progress(job->runtime);
			raise(SIGKILL);
		}
		if (status == TOW_OK)
			status = twt_job_end(job, op, text);
		else
			snprintf(text, sizeof(text), "%s", tow_error_message());
		if (status != TOW_OK)
			break;
	}
	twt_must(status == TOW_EPEER && strstr(text, "rank 1") != NULL);
	twt_must(is_of(in, 0, COUNT, job->rank));
	free(in);
	free(out);
}

static const bool yes = true, no = false;

struct row {
	void (*play)(struct twt_job *job, const void *arg);
	int size;
	unsigned victims;
	const void *arg;
};

static const struct row rows[] = {
	{ play_counts, 2, 0, NULL }, { play_counts, 4, 0, NULL },       { play_kinds, 2, 0, NULL },
	{ play_kinds, 5, 0, NULL },  { play_mixed, 2, 0, &no },         { play_mixed, 3, 0, &no },
	{ play_mixed, 2, 0, &yes },  { play_mixed, 3, 0, &yes },        { play_full, 2, 0, &no },
	{ play_full, 3, 0, &no },    { play_full, 5, 0, &no },          { play_full, 2, 0, &yes },
	{ play_full, 5, 0, &yes },   { play_full, 6, 0, &yes },         { play_full, 3, 0, &yes },
	{ play_many, 2, 0, &no },    { play_many, 5, 0, &no },          { play_many, 2, 0, &yes },
	{ play_many, 4, 0, &yes },   { play_killed, 3, 1u << 1, NULL },
};

static void run(size_t which)
{
	const struct row *row = &rows[which];

	twt_job_run("shm", row->size, row->victims, row->play, row->arg, NULL);
}

static void test_jobs(void **state)
{
	(void)state;
	twt_beside(sizeof(rows) / sizeof(rows[0]), 2, run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jobs),
	};

	setenv("TOW_PREMAP_LIMIT_BYTES", "8MiB", 1); /* the pool of a rank does not grow */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
