/* traces.c - traces without a job. */
#include "traces.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>
#include <towline/status.h>

#include "diag/record/diag.h"
#include "diag/record/lane_id.h"
#include "transport/coll/plan/plan.h"
#include "twt_random.h"

static void *twt_grown(void *rows, size_t count, size_t row_bytes)
{
	char *grown = realloc(rows, (count + 1) * row_bytes);

	twi_assert(grown != NULL);
	memset(grown + count * row_bytes, 0, row_bytes);
	return grown;
}

static char *twt_copy_of(const char *text)
{
	char *copy = strdup(text);

	twi_assert(copy != NULL);
	return copy;
}

struct twi_trace_rank *twt_trace_add_rank(struct twi_trace *trace, const char *host, int64_t rank)
{
	struct twi_trace_rank *out;

	trace->ranks = twt_grown(trace->ranks, trace->rank_count, sizeof(*trace->ranks));
	out = &trace->ranks[trace->rank_count++];
	out->host = twt_copy_of(host);
	out->job = twt_copy_of("job");
	out->rank = rank;
	return out;
}

struct twi_trace_thread *twt_trace_add_thread(struct twi_trace_rank *rank, const char *name,
					      int64_t tid)
{
	struct twi_trace_thread *out;

	rank->threads = twt_grown(rank->threads, rank->thread_count, sizeof(*rank->threads));
	out = &rank->threads[rank->thread_count++];
	out->tid = tid;
	snprintf(out->name, sizeof(out->name), "%s", name);
	return out;
}

uint32_t twt_trace_add_name(struct twi_trace_rank *rank, const char *name)
{
	rank->names = twt_grown(rank->names, rank->name_count, sizeof(*rank->names));
	rank->names[rank->name_count++] = twt_copy_of(name);
	return (uint32_t)rank->name_count;
}

uint32_t twt_trace_add_peer(struct twi_trace_rank *rank, const char *name, int64_t number)
{
	rank->peers = twt_grown(rank->peers, rank->peer_count, sizeof(*rank->peers));
	rank->peers[rank->peer_count].name = twt_copy_of(name);
	rank->peers[rank->peer_count++].rank = number;
	return (uint32_t)rank->peer_count;
}

struct twi_span *twt_trace_add_span(struct twi_trace_thread *thread, enum twi_span_kind kind,
				    uint64_t start_ns, uint64_t end_ns)
{
	struct twi_span *out;

	thread->spans = twt_grown(thread->spans, thread->span_count, sizeof(*thread->spans));
	out = &thread->spans[thread->span_count++];
	*out = (struct twi_span){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.kind = (uint8_t)kind,
		.lane = TWI_SPAN_NO_LANE,
	};
	return out;
}

struct twi_span *twt_trace_add_unfinished(struct twi_trace_rank *rank, enum twi_span_kind kind,
					  uint64_t start_ns)
{
	struct twi_trace_thread all = { .spans = rank->unfinished,
					.span_count = rank->unfinished_count };
	struct twi_span *span =
		twt_trace_add_span(&all, kind, start_ns, twi_max(start_ns, rank->end_ns));

	span->status = TOW_AGAIN;
	rank->unfinished = all.spans;
	rank->unfinished_count = all.span_count;
	return span;
}

/* Names of a rank of the pair, in the order in which they are added. */
enum { NAME_STEP = 1, NAME_COMPUTE, NAME_UPDATE, NAME_GRADS, NAME_ACTIVATIONS, NAME_LOOKUP };

#define PAIR_STEP_NS 10000000u
#define PAIR_BASE_NS 1000000000u
#define PAIR_GROUP   7u

/* One rank of the pair while it is being made: at 0 us of the step by its own clock. */
struct pair_rank {
	struct twi_trace_rank *rank;
	uint64_t zero_ns;
	uint64_t late_us; /* of its collectives */
	uint64_t step;
};

static struct twi_span *pair_span(const struct pair_rank *p, size_t thread, enum twi_span_kind kind,
				  uint64_t from_us, uint64_t to_us)
{
	return twt_trace_add_span(&p->rank->threads[thread], kind, p->zero_ns + from_us * 1000,
				  p->zero_ns + to_us * 1000);
}

static struct twi_span *pair_user(const struct pair_rank *p, uint64_t from_us, uint64_t to_us,
				  uint32_t name)
{
	struct twi_span *span = pair_span(p, 0, TWI_SPAN_USER, from_us, to_us);

	span->id = p->step * 100 + name;
	span->parent = p->step;
	span->name = name;
	return span;
}

/* A message; queue and wire in us, match only of a receive. */
static struct twi_span *pair_message(const struct pair_rank *p, size_t thread,
				     enum twi_span_kind kind, uint64_t from_us, uint64_t to_us,
				     uint64_t id, uint64_t bytes)
{
	struct twi_span *span = pair_span(p, thread, kind, from_us, to_us);

	span->id = id;
	span->bytes = bytes;
	span->peer = 1;
	span->lane = TWI_LANE_TCP;
	span->queue_ns = 50000;
	span->wire_ns = (uint32_t)((to_us - from_us) * 1000 - 100000);
	span->match_ns = kind == TWI_SPAN_RECV ? 50000 : 0;
	return span;
}

static void pair_wait(const struct pair_rank *p, uint64_t from_us, uint64_t to_us, uint64_t id,
		      enum twi_span_kind of)
{
	struct twi_span *span = pair_span(p, 0, TWI_SPAN_WAIT, from_us, to_us);

	span->id = id;
	span->detail = (uint8_t)of;
}

static uint64_t pair_coll_id(const struct pair_rank *p)
{
	return (uint64_t)PAIR_GROUP << 32 | (p->step + 1);
}

static void pair_collective(const struct pair_rank *p)
{
	uint64_t late = p->late_us, id = 1000 + p->step * 10;
	int64_t own = p->rank->rank;
	struct twi_span *span = pair_span(p, 1, TWI_SPAN_COLL, 1000 + late, 5000);

	span->id = pair_coll_id(p);
	span->parent = p->step;
	span->bytes = 8u << 20;
	span->detail = TWI_COLL_ALL_REDUCE;
	span->queue_ns = 20000;
	span->ranks = 2;
	span->match_ns = (uint32_t)((TWT_PAIR_LATE_US - late) * 1000);
	span->name = NAME_GRADS;
	span = pair_message(p, 1, TWI_SPAN_RECV, 1030 + late, 4600, id + (own ? 0 : 1), 4u << 20);
	span->parent = pair_coll_id(p);
	span = pair_message(p, 1, TWI_SPAN_SEND, 1040 + late, 4550, id + (own ? 1 : 0), 4u << 20);
	span->parent = pair_coll_id(p);
}

static void pair_device(const struct pair_rank *p, uint64_t from_us, uint64_t to_us, uint8_t from)
{
	struct twi_span *span = pair_span(p, 0, TWI_SPAN_DEVICE, from_us, to_us);

	span->bytes = 8u << 20;
	span->detail = from;
}

/* What only one of the two does, or each does otherwise. */
static void pair_own(const struct pair_rank *p)
{
	uint64_t message = 2000 + p->step, call = 3000 + p->step;
	bool first = p->rank->rank == 0;
	struct twi_span *span;

	if (first) {
		span = pair_message(p, 0, TWI_SPAN_SEND, 6200, 7200, message, 1u << 20);
		span->name = NAME_ACTIVATIONS;
		pair_wait(p, 6300, 7200, message, TWI_SPAN_SEND);
		span = pair_message(p, 0, TWI_SPAN_CALL, 7300, 7900, call, 64);
		span->name = NAME_LOOKUP;
		pair_wait(p, 7310, 7900, call, TWI_SPAN_CALL);
	} else {
		span = pair_message(p, 0, TWI_SPAN_RECV, 6150, 7250, message, 1u << 20);
		span->name = NAME_ACTIVATIONS;
		pair_wait(p, 6900, 7250, message, TWI_SPAN_RECV);
		span = pair_message(p, 1, TWI_SPAN_SERVE, 7450, 7700, call, 64);
		span->name = NAME_LOOKUP;
	}
	if (!first && p->step == 1) {
		span = pair_span(p, 1, TWI_SPAN_COPY, 8000, 8010);
		span->bytes = 4096;
		span->detail = TWI_R_unexpected_arrival;
	}
	if (first && p->step == 2) {
		span = pair_span(p, 0, TWI_SPAN_REGISTER, 8100, 8900);
		span->bytes = 2u << 20;
		span->detail = TWI_R_late_user_memory;
	}
}

static void pair_step(const struct pair_rank *p)
{
	struct twi_span *span = pair_span(p, 0, TWI_SPAN_STEP, 0, 9900);

	span->id = p->step;
	span->name = NAME_STEP;
	pair_user(p, 100, 4000, NAME_COMPUTE);
	pair_collective(p);
	pair_device(p, 4000, 4200, 1);
	pair_wait(p, 4500, 5020, pair_coll_id(p), TWI_SPAN_COLL);
	pair_user(p, 5100, 6000, NAME_UPDATE);
	pair_device(p, 6000, 6150, 0);
	pair_own(p);
}

static int by_start(const void *a, const void *b)
{
	const struct twi_span *one = a, *other = b;

	return (one->start_ns > other->start_ns) - (one->start_ns < other->start_ns);
}

static void pair_head(struct twi_trace_rank *rank, int64_t clock_offset_ns, uint64_t begin_ns)
{
	static const char *const names[] = { "train", "compute",     "update",
					     "grads", "activations", "lookup" };

	rank->world = 2;
	rank->pid = 4000 + rank->rank;
	rank->begin_ns = begin_ns;
	rank->end_ns = begin_ns + (TWT_PAIR_STEPS + 1) * (uint64_t)PAIR_STEP_NS;
	rank->unix_ns = 1700000000000000000 + clock_offset_ns;
	rank->clock_offset_ns = clock_offset_ns;
	rank->clock_error_ns = rank->rank ? 2000 : 0;
	rank->sampled_out = 12;
	twt_trace_add_peer(rank, rank->rank ? "10.0.0.1:7000" : "10.0.0.2:7000", !rank->rank);
	for (size_t i = 0; i < twi_array_count(names); i++)
		twt_trace_add_name(rank, names[i]);
	twt_trace_add_thread(rank, "main", 4000 + rank->rank);
	twt_trace_add_thread(rank, "tow", 4010 + rank->rank);
}

void twt_trace_pair(struct twi_trace *out)
{
	*out = (struct twi_trace){ 0 };
	for (int64_t r = 0; r < 2; r++) {
		/* Rank 1's clock is 4 s ahead of rank 0's. */
		uint64_t base_ns = PAIR_BASE_NS + (uint64_t)r * 4000000000u;
		struct pair_rank p = { .late_us = r ? TWT_PAIR_LATE_US : 0 };
		struct twi_span *span;

		p.rank = twt_trace_add_rank(out, r ? "host-b" : "host-a", r);
		pair_head(p.rank, r ? -4000000000 : 0, base_ns);
		p.zero_ns = base_ns;
		span = pair_span(&p, 0, TWI_SPAN_REGISTER, 100, 900);
		span->bytes = 64u << 20;
		span->detail = TWI_R_COUNT;
		for (p.step = 0; p.step < TWT_PAIR_STEPS; p.step++) {
			p.zero_ns = base_ns + PAIR_STEP_NS / 2 + p.step * PAIR_STEP_NS;
			pair_step(&p);
		}
		for (size_t t = 0; t < p.rank->thread_count; t++)
			qsort(p.rank->threads[t].spans, p.rank->threads[t].span_count,
			      sizeof(*p.rank->threads[t].spans), by_start);
	}
}

/* Numbers of every size: small ones, those at the ends, and all between. */
static uint64_t random_word(uint64_t *state)
{
	uint64_t word = twt_random(state);

	switch (twt_random_below(state, 8)) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX - word % 3;
	default:
		return word >> twt_random_below(state, 64);
	}
}

static void random_text(uint64_t *state, char *out, size_t size)
{
	size_t length = twt_random_below(state, size);

	for (size_t i = 0; i < length; i++)
		out[i] = (char)(' ' + twt_random_below(state, 95));
	out[length] = '\0';
}

static void random_span(uint64_t *state, const struct twi_trace_rank *rank, struct twi_span *span)
{
	span->id = random_word(state);
	span->parent = random_word(state);
	span->bytes = random_word(state);
	span->queue_ns = (uint32_t)random_word(state);
	span->wire_ns = (uint32_t)random_word(state);
	span->match_ns = (uint32_t)random_word(state);
	span->name = (uint32_t)twt_random_below(state, rank->name_count + 1);
	span->peer = (uint32_t)twt_random_below(state, rank->peer_count + 1);
	span->lane = twt_random_below(state, 3) ? (uint8_t)twt_random_below(state, TWI_LANE_COUNT)
						: TWI_SPAN_NO_LANE;
	switch (span->kind) {
	case TWI_SPAN_COLL:
		if (twt_random_below(state, 64))
			span->ranks %= 300; /* each makes the file longer */
		span->detail = (uint8_t)twt_random_below(state, TWI_COLL_KINDS);
		break;
	case TWI_SPAN_COPY:
	case TWI_SPAN_REGISTER:
		span->detail = (uint8_t)twt_random_below(state, TWI_R_COUNT + 1);
		break;
	case TWI_SPAN_WAIT:
		span->detail = (uint8_t)twt_random_below(state, TWI_SPAN_KINDS);
		break;
	default:
		span->detail = (uint8_t)twt_random_below(state, 2);
	}
	span->status = (int8_t)(2 - (int)twt_random_below(state, 26));
}

static void random_thread(uint64_t *state, struct twi_trace_rank *rank)
{
	uint64_t at = random_word(state) >> 6, count = twt_random_below(state, 40);
	char name[16];
	struct twi_trace_thread *thread;

	random_text(state, name, sizeof(name));
	thread = twt_trace_add_thread(rank, name, (int64_t)random_word(state));
	thread->lost = random_word(state);
	for (uint64_t i = 0; i < count; i++) {
		enum twi_span_kind kind = twt_random_below(state, TWI_SPAN_KINDS);

		at += twt_random_below(state, 1000000);
		random_span(state, rank,
			    twt_trace_add_span(thread, kind, at, at + (random_word(state) >> 6)));
	}
}

static void random_unfinished(uint64_t *state, struct twi_trace_rank *rank)
{
	uint64_t at = random_word(state) >> 6, count = twt_random_below(state, 9);

	for (uint64_t i = 0; i < count; i++) {
		struct twi_span *span;

		at += twt_random_below(state, 1000000);
		span = twt_trace_add_unfinished(rank, twt_random_below(state, TWI_SPAN_KINDS), at);
		random_span(state, rank, span);
		span->status = TOW_AGAIN;
	}
}

static void random_rank(uint64_t *state, struct twi_trace *trace, int64_t number)
{
	char text[64];
	struct twi_trace_rank *rank;
	uint64_t count;

	random_text(state, text, sizeof(text));
	rank = twt_trace_add_rank(trace, text, number);
	rank->world = (int64_t)random_word(state);
	rank->pid = (int64_t)random_word(state);
	rank->begin_ns = random_word(state) >> 6;
	rank->end_ns = rank->begin_ns + (random_word(state) >> 6);
	rank->unix_ns = (int64_t)random_word(state) >> 3;
	rank->clock_offset_ns = (int64_t)random_word(state) >> 4;
	rank->clock_error_ns = random_word(state);
	rank->sampled_out = random_word(state);
	count = twt_random_below(state, 4);
	for (uint64_t i = 0; i < count; i++) {
		random_text(state, text, sizeof(text));
		twt_trace_add_name(rank, text);
	}
	count = twt_random_below(state, 4);
	for (uint64_t i = 0; i < count; i++) {
		random_text(state, text, sizeof(text));
		twt_trace_add_peer(rank, text, (int64_t)twt_random_below(state, 9) - 1);
	}
	count = twt_random_below(state, 4);
	for (uint64_t i = 0; i < count; i++)
		random_thread(state, rank);
	random_unfinished(state, rank);
}

void twt_trace_random(uint64_t seed, struct twi_trace *out)
{
	uint64_t state = seed, count = twt_random_below(&state, 5);
	int64_t number = 0;

	*out = (struct twi_trace){ 0 };
	for (uint64_t i = 0; i < count; i++) {
		random_rank(&state, out, number);
		number += 1 + (int64_t)twt_random_below(&state, 3);
	}
}

/* The first difference is the one that is told. */
#define SAME(a, b, what)                                                                           \
	do {                                                                                       \
		if ((a) != (b)) {                                                                  \
			snprintf(why, why_size, "%s: %" PRIi64 " and %" PRIi64, what,              \
				 (int64_t)(a), (int64_t)(b));                                      \
			return false;                                                              \
		}                                                                                  \
	} while (0)
#define SAME_TEXT(a, b, what)                                                                      \
	do {                                                                                       \
		if (strcmp(a, b)) {                                                                \
			snprintf(why, why_size, "%s: \"%s\" and \"%s\"", what, a, b);              \
			return false;                                                              \
		}                                                                                  \
	} while (0)

static bool same_thread(const struct twi_trace_thread *a, const struct twi_trace_thread *b,
			char *why, size_t why_size)
{
	SAME(a->tid, b->tid, "tid");
	SAME_TEXT(a->name, b->name, "thread name");
	SAME(a->lost, b->lost, "lost");
	SAME(a->span_count, b->span_count, "span_count");
	for (size_t i = 0; i < a->span_count; i++) {
		const struct twi_span *one = &a->spans[i], *other = &b->spans[i];

		SAME(one->start_ns, other->start_ns, "start_ns");
		SAME(one->end_ns, other->end_ns, "end_ns");
		SAME(one->id, other->id, "id");
		SAME(one->parent, other->parent, "parent");
		SAME(one->bytes, other->bytes, "bytes");
		SAME(one->queue_ns, other->queue_ns, "queue_ns");
		SAME(one->wire_ns, other->wire_ns, "wire_ns");
		SAME(one->match_ns, other->match_ns, "match_ns");
		SAME(one->name, other->name, "name");
		SAME(one->peer, other->peer, "peer");
		SAME(one->kind, other->kind, "kind");
		SAME(one->lane, other->lane, "lane");
		SAME(one->detail, other->detail, "detail");
		SAME(one->status, other->status, "status");
	}
	return true;
}

static bool same_unfinished(const struct twi_trace_rank *a, const struct twi_trace_rank *b,
			    char *why, size_t why_size)
{
	const struct twi_trace_thread left = { .spans = a->unfinished,
					       .span_count = a->unfinished_count };
	const struct twi_trace_thread right = { .spans = b->unfinished,
						.span_count = b->unfinished_count };

	return same_thread(&left, &right, why, why_size);
}

static bool same_rank(const struct twi_trace_rank *a, const struct twi_trace_rank *b, char *why,
		      size_t why_size)
{
	SAME_TEXT(a->host, b->host, "host");
	SAME_TEXT(a->job, b->job, "job");
	SAME(a->rank, b->rank, "rank");
	SAME(a->world, b->world, "world");
	SAME(a->pid, b->pid, "pid");
	SAME(a->begin_ns, b->begin_ns, "begin_ns");
	SAME(a->end_ns, b->end_ns, "end_ns");
	SAME(a->unix_ns, b->unix_ns, "unix_ns");
	SAME(a->clock_offset_ns, b->clock_offset_ns, "clock_offset_ns");
	SAME(a->clock_error_ns, b->clock_error_ns, "clock_error_ns");
	SAME(a->sampled_out, b->sampled_out, "sampled_out");
	SAME(a->name_count, b->name_count, "name_count");
	SAME(a->peer_count, b->peer_count, "peer_count");
	SAME(a->thread_count, b->thread_count, "thread_count");
	for (size_t i = 0; i < a->name_count; i++)
		SAME_TEXT(a->names[i], b->names[i], "name");
	for (size_t i = 0; i < a->peer_count; i++) {
		SAME_TEXT(a->peers[i].name, b->peers[i].name, "peer");
		SAME(a->peers[i].rank, b->peers[i].rank, "peer's rank");
	}
	for (size_t i = 0; i < a->thread_count; i++)
		if (!same_thread(&a->threads[i], &b->threads[i], why, why_size))
			return false;
	return same_unfinished(a, b, why, why_size);
}

bool twt_trace_same(const struct twi_trace *a, const struct twi_trace *b, char *why,
		    size_t why_size)
{
	SAME(a->rank_count, b->rank_count, "rank_count");
	for (size_t i = 0; i < a->rank_count; i++)
		if (!same_rank(&a->ranks[i], &b->ranks[i], why, why_size))
			return false;
	return true;
}
