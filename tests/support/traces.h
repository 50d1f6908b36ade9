/*
 * traces.h - traces without a job: one whose every number is known, and random ones.
 *
 * Memory is malloc's, as the trace owns it: twi_trace_fini ends each.
 */
#ifndef TWT_TRACES_H
#define TWT_TRACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/trace/trace.h"

/*
 * Two ranks of one job, on two hosts whose clocks differ, with TWT_PAIR_STEPS steps of 10 ms. In
 * each step, times in us from the step's beginning by rank 0's clock:
 *
 *	thread "main"	USER "compute" 100..4000, DEVICE from 4000..4200, WAIT for the collective
 *			4500..5020, USER "update" 5100..6000, DEVICE to 6000..6150,
 *			point to point: rank 0 SENDs 1 MiB "activations" to rank 1 6200..7200 and
 *			WAITs 6300..7200; rank 1 RECVs it 6150..7250 and WAITs 6900..7250;
 *			CALL of rank 0 7300..7900, WAIT 7310..7900; STEP 0..9900
 *	thread "tow"	COLL all-reduce "grads" 1000..5000 of 8 MiB (20 us within the call), of it
 *			a SEND and a RECV of 4 MiB each way; SERVE at rank 1 once
 *			REGISTER in time before all; late at rank 0 in step 2; COPY at rank 1 in
 *			step 1
 *
 * Rank 1 does all of the collective TWT_PAIR_LATE_US later than rank 0.
 */
#define TWT_PAIR_STEPS   4u
#define TWT_PAIR_LATE_US 300u
void twt_trace_pair(struct twi_trace *out);

/* Any numbers that the model can hold; what it may not hold (kinds, indexes) is kept. */
void twt_trace_random(uint64_t seed, struct twi_trace *out);

/* Whether they are the same in every word; `why` says where not. */
bool twt_trace_same(const struct twi_trace *a, const struct twi_trace *b, char *why,
		    size_t why_size);

/* To build one by hand: ranks first, then threads, then spans; returned pointers end with the next
 * thread or span of the same rank or thread. Numbers of names and peers are 1, 2, ... */
struct twi_trace_rank *twt_trace_add_rank(struct twi_trace *trace, const char *host, int64_t rank);
struct twi_trace_thread *twt_trace_add_thread(struct twi_trace_rank *rank, const char *name,
					      int64_t tid);
uint32_t twt_trace_add_name(struct twi_trace_rank *rank, const char *name);
uint32_t twt_trace_add_peer(struct twi_trace_rank *rank, const char *name, int64_t number);
struct twi_span *twt_trace_add_span(struct twi_trace_thread *thread, enum twi_span_kind kind,
				    uint64_t start_ns, uint64_t end_ns);
/* What was under way at the rank's end_ns, in the order of their starts. */
struct twi_span *twt_trace_add_unfinished(struct twi_trace_rank *rank, enum twi_span_kind kind,
					  uint64_t start_ns);

#endif
