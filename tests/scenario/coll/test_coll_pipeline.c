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

/* One rank's memory is of the pool, in place and not; the others' is not. */
static void play_mixed(struct twt_job *job, const void *arg)
{
	uint64_t bytes = 1u << 20, count = bytes / 4;
	struct tow_op *op = NULL;
	void *at[2];

	(void)arg;
	for (int i = 0; i < 2; i++) {
		if (job->rank == 1)
			twt_must(tow_alloc(job->runtime, bytes, 0, &at[i]) == TOW_OK);
		else
			at[i] = outside(bytes);
	}
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
	for (int i = 0; i < 2; i++) {
		if (job->rank == 1)
			twt_must(tow_free(job->runtime, at[i]) == TOW_OK);
		else
			free(at[i]);
	}
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

struct row {
	void (*play)(struct twt_job *job, const void *arg);
	int size;
	unsigned victims;
};

static const struct row rows[] = {
	{ play_counts, 2, 0 },       { play_counts, 4, 0 }, { play_kinds, 2, 0 },
	{ play_kinds, 5, 0 },        { play_mixed, 2, 0 },  { play_mixed, 3, 0 },
	{ play_killed, 3, 1u << 1 },
};

static void run(size_t which)
{
	const struct row *row = &rows[which];

	twt_job_run("shm", row->size, row->victims, row->play, NULL, NULL);
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

	return cmocka_run_group_tests(tests, NULL, NULL);
}
