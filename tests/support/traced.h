/*
 * traced.h - traces by hand: ranks, threads and spans in memory of fixed size, for tests of
 * what reads traces. Include after twt.h.
 */
#ifndef TWT_TRACED_H
#define TWT_TRACED_H

#include <stdio.h>
#include <string.h>

#include "diag/trace/trace.h"

#define TWT_BUILD_NAMES 16

struct twt_build {
	struct twi_trace trace;
	size_t spans_each; /* room of a thread */
};

char *twt_build_text(const char *text);

/* Ranks 0..ranks-1 of one job, each with `threads` threads; clocks agree, with an error of 0. */
void twt_build_init(struct twt_build *b, size_t ranks, size_t threads, size_t spans_each,
		    uint64_t begin_ns, uint64_t end_ns);

void twt_build_fini(struct twt_build *b);

/* The number of a name at a rank, as span.name has it. */
uint32_t twt_build_name(struct twt_build *b, size_t rank, const char *text);

/* One span more: of that kind, from start to end; the rest is the caller's to set. */
struct twi_span *twt_build_span(struct twt_build *b, size_t rank, size_t thread, unsigned kind,
				uint64_t start_ns, uint64_t end_ns);

/* A wait for the operation `id` of that kind. */
void twt_build_wait(struct twt_build *b, size_t rank, size_t thread, unsigned of, uint64_t id,
		    uint64_t start_ns, uint64_t end_ns);

/* A collective of all ranks: `call_ns` in its start call. */
struct twi_span *twt_build_coll(struct twt_build *b, size_t rank, size_t thread, unsigned kind,
				uint64_t id, uint64_t bytes, uint64_t start_ns, uint32_t call_ns,
				uint64_t end_ns);

#endif
