/* traced_job.c - a random job's trace, as traced_job.h says. */
#include "twt.h"

#include "traced_job.h"

/* ns, give or take an eighth. */
static uint64_t twt_job_about(struct twt_job *job, uint64_t ns)
{
	return ns - ns / 8 + twt_random_below(&job->random, ns / 4 + 1);
}

/* A message between neighbours of the ring, as both sides saw it. */
static void twt_job_message(struct twt_job *job, size_t from, uint64_t id, uint64_t parent,
			    uint64_t bytes, uint64_t start, uint64_t ns)
{
	size_t to = (from + 1) % job->ranks;
	struct twi_span *span;

	if (from == 0)
		ns *= 3;
	ns = twt_job_about(job, ns);
	for (unsigned side = 0; side < 2; side++) {
		span = twt_build_span(job->b, side == 0 ? from : to, 1,
				      side == 0 ? TWI_SPAN_SEND : TWI_SPAN_RECV, start, start + ns);
		span->id = id;
		span->parent = parent;
		span->bytes = bytes;
		span->queue_ns = (uint32_t)(ns / 10);
		span->wire_ns = (uint32_t)(ns * 8 / 10);
		span->peer = (uint32_t)(side == 0 ? to : from) + 1;
		span->lane = TWI_LANE_TCP;
	}
}

static void twt_job_reduce(struct twt_job *job, unsigned step, unsigned bucket,
			   const uint64_t *entry, uint64_t *done)
{
	static const char *const names[] = { "gradients of the head", "gradients",
					     TWT_JOB_HOSTILE };
	static const uint64_t sizes[] = { 8u << 20, 24u << 20, 96u << 10 };
	uint64_t id = (uint64_t)1 << 32 | (step * 3 + bucket + 1), last = 0, end, moves;

	for (size_t r = 0; r < job->ranks; r++)
		last = entry[r] > last ? entry[r] : last;
	moves = twt_job_about(job, sizes[bucket] / 10 + 150000); /* 10 bytes a ns at most */
	end = last + moves;
	for (size_t r = 0; r < job->ranks; r++) {
		struct twi_span *span = twt_build_coll(job->b, r, 0, TWI_COLL_ALL_REDUCE, id,
						       sizes[bucket], entry[r], 15000, end);

		span->name = twt_build_name(job->b, r, names[bucket]);
		span->match_ns = (uint32_t)(last - entry[r]);
		twt_job_message(job, r, id << 8 | r, id,
				sizes[bucket] * (job->ranks - 1) / job->ranks, last, moves);
	}
	*done = end;
}

static void twt_job_wait(struct twt_job *job, unsigned step, unsigned bucket, size_t r,
			 uint64_t done, uint64_t *at)
{
	uint64_t from = *at;

	*at = (done > from ? done : from) + 3000;
	twt_build_wait(job->b, r, 0, TWI_SPAN_COLL, (uint64_t)1 << 32 | (step * 3 + bucket + 1),
		       from, *at);
}

static void twt_job_step(struct twt_job *job, unsigned step, uint64_t begin, uint64_t *now)
{
	uint64_t entry[64], done[3];

	for (unsigned bucket = 0; bucket < 3; bucket++) {
		for (size_t r = 0; r < job->ranks; r++) {
			uint64_t ns = twt_job_about(job, 3200000);

			now[r] += r == job->slow ? ns * 4 / 3 : ns;
			entry[r] = now[r];
			now[r] += 15000;
		}
		twt_job_reduce(job, step, bucket, entry, &done[bucket]);
	}
	for (size_t r = 0; r < job->ranks; r++) {
		for (unsigned bucket = 0; bucket < 3; bucket++)
			twt_job_wait(job, step, bucket, r, done[bucket], &now[r]);
		now[r] += twt_job_about(job, 1500000);
		for (unsigned i = 0; i < 4; i++)
			twt_job_message(job, r, (uint64_t)step << 20 | r << 4 | i, 0,
					1000u << (i * 4), now[r], 20000u << (i * 2));
		twt_build_span(job->b, r, 0, TWI_SPAN_STEP, begin, now[r])->id = step;
	}
}

/* What rank 0 does wrong. */
static void twt_job_faults(struct twt_job *job, unsigned step, uint64_t at)
{
	struct twi_span *span;

	if (step % 3 == 0) {
		span = twt_build_span(job->b, 0, 0, TWI_SPAN_COPY, at, at + 700000);
		span->bytes = 4u << 20;
		span->detail = TWI_R_unregistered_send;
	}
	if (step % 7 == 2) {
		span = twt_build_span(job->b, 0, 0, TWI_SPAN_REGISTER, at, at + 2400000);
		span->bytes = 64u << 20;
		span->detail = TWI_R_late_user_memory;
	}
}

void twt_job_make(struct twt_build *b, uint64_t seed, size_t ranks, unsigned steps)
{
	struct twt_job job = { .b = b, .random = seed, .ranks = ranks, .slow = ranks - 1 };
	uint64_t now[64];

	assert_true(ranks >= 2 && ranks <= 64);
	twt_build_init(b, ranks, 2, 64 * (size_t)steps, 5000000000,
		       5000000000 + (uint64_t)TWT_JOB_STEP_NS * steps);
	free(b->trace.ranks[0].job);
	b->trace.ranks[0].job = twt_build_text("llm-pretrain <b>7b</b>");
	for (size_t r = 0; r < ranks; r++) {
		now[r] = b->trace.ranks[r].begin_ns;
		b->trace.ranks[r].clock_error_ns = r == 0 ? 0 : 9000 + 100 * r;
	}
	for (unsigned step = 0; step < steps; step++) {
		uint64_t begin = b->trace.ranks[0].begin_ns + (uint64_t)TWT_JOB_STEP_NS * step;

		for (size_t r = 0; r < ranks; r++)
			now[r] = now[r] > begin ? now[r] : begin;
		twt_job_faults(&job, step, begin + 500000);
		twt_job_step(&job, step, begin, now);
	}
	b->trace.ranks[1].threads[0].lost = 120;
	b->trace.ranks[1].sampled_out = 4000;
}
