/* traced.c - traces by hand, in memory of fixed size. */
#include "twt.h"

#include "traced.h"

char *twt_build_text(const char *text)
{
	char *copy = strdup(text);

	assert_non_null(copy);
	return copy;
}

void twt_build_init(struct twt_build *b, size_t ranks, size_t threads, size_t spans_each,
		    uint64_t begin_ns, uint64_t end_ns)
{
	char text[32];

	*b = (struct twt_build){ .spans_each = spans_each };
	b->trace.rank_count = ranks;
	b->trace.ranks = calloc(ranks + 1, sizeof(*b->trace.ranks));
	assert_non_null(b->trace.ranks);
	for (size_t i = 0; i < ranks; i++) {
		struct twi_trace_rank *rank = &b->trace.ranks[i];

		snprintf(text, sizeof(text), "host%zu", i / 8);
		rank->host = twt_build_text(text);
		rank->job = twt_build_text("build");
		rank->rank = (int64_t)i;
		rank->world = (int64_t)ranks;
		rank->pid = 1000 + (int64_t)i;
		rank->begin_ns = begin_ns;
		rank->end_ns = end_ns;
		rank->unix_ns = 1700000000000000000;
		rank->thread_count = threads;
		rank->threads = calloc(threads + 1, sizeof(*rank->threads));
		rank->peer_count = ranks;
		rank->peers = calloc(ranks + 1, sizeof(*rank->peers));
		rank->names = calloc(TWT_BUILD_NAMES, sizeof(*rank->names));
		assert_true(rank->threads != NULL && rank->peers != NULL && rank->names != NULL);
		for (size_t k = 0; k < ranks; k++) {
			snprintf(text, sizeof(text), "tow://rank%zu", k);
			rank->peers[k].name = twt_build_text(text);
			rank->peers[k].rank = (int64_t)k;
		}
		for (size_t k = 0; k < threads; k++) {
			rank->threads[k].tid = 100 + (int64_t)k;
			snprintf(rank->threads[k].name, sizeof(rank->threads[k].name), "t%u",
				 (unsigned)k);
			rank->threads[k].spans = calloc(spans_each + 1, sizeof(struct twi_span));
			assert_non_null(rank->threads[k].spans);
		}
	}
}

void twt_build_fini(struct twt_build *b)
{
	for (size_t i = 0; i < b->trace.rank_count; i++) {
		struct twi_trace_rank *rank = &b->trace.ranks[i];

		for (size_t k = 0; k < rank->thread_count; k++)
			free(rank->threads[k].spans);
		for (size_t k = 0; k < rank->peer_count; k++)
			free(rank->peers[k].name);
		for (size_t k = 0; k < rank->name_count; k++)
			free(rank->names[k]);
		free(rank->threads);
		free(rank->peers);
		free(rank->names);
		free(rank->host);
		free(rank->job);
	}
	free(b->trace.ranks);
}

uint32_t twt_build_name(struct twt_build *b, size_t rank, const char *text)
{
	struct twi_trace_rank *r = &b->trace.ranks[rank];

	for (size_t i = 0; i < r->name_count; i++) {
		if (strcmp(r->names[i], text) == 0)
			return (uint32_t)i + 1;
	}
	assert_true(r->name_count < TWT_BUILD_NAMES);
	r->names[r->name_count] = twt_build_text(text);
	return (uint32_t)++r->name_count;
}

struct twi_span *twt_build_span(struct twt_build *b, size_t rank, size_t thread, unsigned kind,
				uint64_t start_ns, uint64_t end_ns)
{
	struct twi_trace_thread *t = &b->trace.ranks[rank].threads[thread];
	struct twi_span *span = &t->spans[t->span_count++];

	assert_true(t->span_count <= b->spans_each);
	*span = (struct twi_span){ .start_ns = start_ns,
				   .end_ns = end_ns,
				   .kind = (uint8_t)kind,
				   .lane = TWI_SPAN_NO_LANE };
	return span;
}

void twt_build_wait(struct twt_build *b, size_t rank, size_t thread, unsigned of, uint64_t id,
		    uint64_t start_ns, uint64_t end_ns)
{
	struct twi_span *span = twt_build_span(b, rank, thread, TWI_SPAN_WAIT, start_ns, end_ns);

	span->id = id;
	span->detail = (uint8_t)of;
}

struct twi_span *twt_build_coll(struct twt_build *b, size_t rank, size_t thread, unsigned kind,
				uint64_t id, uint64_t bytes, uint64_t start_ns, uint32_t call_ns,
				uint64_t end_ns)
{
	struct twi_span *span = twt_build_span(b, rank, thread, TWI_SPAN_COLL, start_ns, end_ns);

	span->id = id;
	span->detail = (uint8_t)kind;
	span->bytes = bytes;
	span->queue_ns = call_ns;
	span->ranks = (uint32_t)b->trace.rank_count;
	return span;
}
