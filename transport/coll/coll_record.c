/*
 * coll_record.c - the records of collectives. See coll_report.h.
 *
 * Budget: some forty plain stores a collective. A thread that waits for one that has ended already
 * reads the clock once. The first collective of a kind in a group allocates its histograms.
 */
#include <stdlib.h>
#include <string.h>

#include "diag/record/span.h"
#include "diag/record/tag.h"
#include "transport/coll/coll_account.h"
#include "transport/coll/coll_batch.h"
#include "transport/coll/coll_report.h"
#include "transport/engine/engine.h"
#include "transport/op/op_span.h"
#include "transport/op/path.h"
#include "transport/op/polled.h"

#define NS_BITS 48
#define NS_MAX  ((1ull << NS_BITS) - 1)

/* Never 0, so an empty value belongs to no collective. */
static uint64_t mark_of(uint64_t id)
{
	return (id / TWI_COLL_RECORDS % 0xffff + 1) << NS_BITS;
}

void twi_coll_log_make(struct twi_engine *engine)
{
	twi_assert_held(engine);
	if (engine->coll_log != NULL)
		return;
	engine->coll_log = aligned_alloc(64, sizeof(*engine->coll_log));
	/* release: a reader that finds the account reads at least its zeros */
	if (atomic_load_explicit(&engine->coll_account, memory_order_relaxed) == NULL)
		atomic_store_explicit(&engine->coll_account, twi_coll_account_make(),
				      memory_order_release);
	if (engine->coll_log != NULL)
		memset(engine->coll_log, 0, sizeof(*engine->coll_log));
}

void twi_coll_record_begin(struct twi_coll_group *coll, const struct twi_coll_call *call,
			   const char *name, struct tow_op *op)
{
	struct twi_coll_log *log = coll->engine->coll_log;
	struct twi_coll_record *record;

	twi_assert_held(coll->engine);
	op->span_parent = twi_step_number(&coll->engine->step);
	if (twi_unlikely(log == NULL))
		return;
	log->last++;
	record = &log->rows[log->last % TWI_COLL_RECORDS];
	record->id = log->last;
	record->seq = record->bytes = 0;
	record->start_ns = op->start_ns;
	record->moving_ns = record->entered_ns = record->done_ns = 0;
	atomic_store_explicit(&record->waited, 0, memory_order_relaxed);
	atomic_store_explicit(&record->slack, 0, memory_order_relaxed);
	record->plan = NULL;
	record->ctx = coll->ctx;
	record->status = TOW_OK;
	record->kind = (uint8_t)call->kind;
	record->way = TWI_COLL_WAYS;
	record->type = (uint8_t)call->type;
	record->reduce = (uint8_t)call->reduce;
	record->ended = record->combined = false;
	record->named = name[0] != '\0';
	if (record->named)
		twi_path_copy_own(record->name, name, sizeof(record->name));
	op->stamp.record = record;
	op->stamp.id = log->last;
	op->stamp.thread = twi_thread_mark();
	op->stamp.blocked_ns = twi_op_blocked_ns;
}

/* Describes the calling thread, as it begins a collective. */
static struct twi_series_caller find_caller(const struct twi_engine *engine)
{
	const struct twi_polled *polled = twi_polled_mine();
	const struct twi_told *told = &engine->told;
	struct twi_series_caller caller = { .blocked_ns = twi_polled_blocked(engine) };

	if (polled == NULL)
		return caller;
	caller.thread = twi_thread_mark();
	caller.heard = polled->colls;
	if (atomic_load_explicit(&told->thread, memory_order_relaxed) == twi_self.tid) {
		caller.heard += atomic_load_explicit(&told->colls, memory_order_relaxed);
		caller.doubts = atomic_load_explicit(&told->doubts, memory_order_relaxed);
	}
	return caller;
}

void twi_coll_series_enter(const struct twi_engine *engine, struct twi_series *series, uint64_t seq,
			   uint64_t start_ns)
{
	struct twi_series_caller caller;
	bool brief = twi_series_is_brief(series, start_ns);

	if (!brief)
		caller = find_caller(engine);
	twi_series_enter(series, seq, start_ns, brief ? NULL : &caller);
}

/* The row of the operation, if no other collective has taken it. */
static struct twi_coll_record *record_of(const struct tow_op *op)
{
	struct twi_coll_record *record = op->stamp.record;

	return record != NULL && record->id == op->stamp.id ? record : NULL;
}

void twi_coll_record_undo(struct tow_op *op)
{
	struct twi_coll_record *record = record_of(op);

	twi_assert_held(op->engine);
	if (record == NULL)
		return;
	record->id = 0;
	op->stamp.record = NULL;
}

void twi_coll_record_fail(struct tow_op *op, int status)
{
	struct twi_coll_record *record = record_of(op);

	twi_assert_held(op->engine);
	if (record == NULL || record->ended)
		return;
	record->status = status;
	record->done_ns = twi_engine_batch_now(op->engine);
	record->ended = true;
}

void twi_coll_waited(struct tow_op *op, uint64_t now_ns)
{
	struct twi_coll_record *record = op->stamp.record;
	uint64_t mark = mark_of(op->stamp.id), since, slack;

	/* Only the first wait or test counts. */
	if (atomic_load_explicit(&record->waited, memory_order_relaxed) >> NS_BITS ==
	    mark >> NS_BITS)
		return;
	since = slack = now_ns > op->start_ns ? now_ns - op->start_ns : 0;
	if (op->stamp.thread == twi_thread_mark()) {
		uint64_t blocked = twi_op_blocked_ns - op->stamp.blocked_ns;

		slack -= twi_min(slack, blocked);
	}
	atomic_store_explicit(&record->slack, mark | twi_min(slack, NS_MAX), memory_order_relaxed);
	atomic_store_explicit(&record->waited, mark | twi_min(since, NS_MAX), memory_order_relaxed);
}

bool twi_coll_record_word(const struct twi_coll_record *record, const _Atomic uint64_t *word,
			  uint64_t *ns_out)
{
	uint64_t value = atomic_load_explicit(word, memory_order_relaxed);

	*ns_out = value & NS_MAX;
	return (value & ~NS_MAX) == mark_of(record->id);
}

/* `waited` is stored last, but without ordering: a reader may see it before `slack`. */
bool twi_coll_record_waited(const struct twi_coll_record *record, uint64_t *waited_ns_out,
			    uint64_t *slack_ns_out)
{
	uint64_t waited = atomic_load_explicit(&record->waited, memory_order_relaxed);
	uint64_t slack = atomic_load_explicit(&record->slack, memory_order_relaxed);

	*waited_ns_out = waited & NS_MAX;
	*slack_ns_out = slack & NS_MAX;
	return waited != 0 && (waited ^ slack) >> NS_BITS == 0 &&
	       (waited & ~NS_MAX) == mark_of(record->id);
}

static void spread_add(struct twi_coll_spread *spread, uint64_t ns)
{
	spread->min_ns = spread->count == 0 ? ns : twi_min(spread->min_ns, ns);
	spread->max_ns = twi_max(spread->max_ns, ns);
	spread->sum_ns += ns;
	spread->count++;
}

/* Adds up the times of a run that has succeeded. */
static void measure_run(struct twi_coll_run *run, uint64_t now)
{
	uint64_t latency = now - twi_min(run->start_ns, now);
	bool met = run->entered_ns != 0;
	uint64_t skew = met ? run->entered_ns - twi_min(run->start_ns, run->entered_ns) : 0;

	spread_add(&run->entry->latency, latency);
	if (met)
		spread_add(&run->entry->skew, skew);
	twi_coll_account_run(run, latency, skew, met);
}

/*
 * A small collective in the memory of one host takes less time than some spans do. Of those, one in
 * a fixed number is recorded, the same at all ranks.
 */
bool twi_coll_span_wanted(const struct twi_coll_run *run)
{
	const struct twi_coll_entry *entry = run->entry;

	twi_assert_held(run->coll->engine);
	return entry->plan->syncs == 0 ||
	       twi_span_chosen(run->coll->engine->diag, twi_max(entry->in_bytes, entry->out_bytes),
			       run->seq);
}

struct twi_span twi_coll_span(const struct twi_coll_run *run, uint64_t end_ns, int status)
{
	const struct twi_coll_entry *entry = run->entry;
	struct twi_span span = {
		.start_ns = run->start_ns,
		.end_ns = end_ns,
		.id = twi_coll_span_id(run->coll, run->seq),
		.parent = run->step,
		.bytes = twi_max(entry->in_bytes, entry->out_bytes),
		.queue_ns = twi_span_between(run->start_ns,
					     run->called_ns != 0 ? run->called_ns : end_ns),
		.ranks = run->coll->size,
		.match_ns = twi_span_between(run->start_ns, run->entered_ns),
		.name = run->site.tag,
		.kind = TWI_SPAN_COLL,
		.lane = TWI_SPAN_NO_LANE,
		.detail = (uint8_t)entry->call.kind,
		.status = (int8_t)status,
	};

	if (run->name[0] != '\0')
		span.name = twi_tag_name(run->name);
	return span;
}

static void record_span(const struct twi_coll_run *run, uint64_t end_ns, int status)
{
	const struct twi_span span = twi_coll_span(run, end_ns, status);

	twi_span_record(run->coll->engine->diag, &span);
}

struct end {
	struct twi_coll_run *run;
	uint64_t now_ns;
	int status;
	bool combined;
};

static void fill_record(void *arg, struct tow_op *op)
{
	const struct end *end = arg;
	const struct twi_coll_run *run = end->run;
	struct twi_coll_record *record = record_of(op);

	op->seq = twi_coll_span_id(run->coll, run->seq); /* the number by which waits name it */
	if (twi_unlikely(record == NULL))
		return;
	record->seq = run->seq;
	record->bytes =
		end->combined ? op->bytes : twi_max(run->entry->in_bytes, run->entry->out_bytes);
	record->plan = run->entry->plan->name;
	record->way = run->entry->moves.known ? run->entry->moves.way : TWI_COLL_WAYS;
	record->moving_ns = run->moving_ns;
	record->entered_ns = run->entered_ns;
	record->done_ns = end->now_ns;
	record->status = end->status;
	record->ended = true;
	record->combined = end->combined;
}

/* The next row has left the nearest cache since its last use. */
static void fetch_next(const struct twi_coll_log *log)
{
	const struct twi_coll_record *next;

	if (twi_unlikely(log == NULL))
		return;
	next = &log->rows[(log->last + 1) % TWI_COLL_RECORDS];
	__builtin_prefetch(next, 1);
	__builtin_prefetch((const uint8_t *)next + 64, 1);
}

void twi_coll_record_end(struct twi_coll_run *run, struct tow_op *op, int status)
{
	struct end end = { run, twi_engine_batch_now(run->coll->engine), status, false };

	twi_assert_held(run->coll->engine);
	if (op == NULL)
		return;
	if (status < 0 || twi_coll_span_wanted(run))
		record_span(run, end.now_ns, status);
	if (run->staged_in)
		run->entry->staged_in_bytes +=
			run->outside ? run->staged_bytes : run->entry->in_bytes;
	if (run->staged_out && !run->outside && status >= 0)
		run->entry->staged_out_bytes += run->entry->out_bytes;
	if (status >= 0)
		measure_run(run, end.now_ns);
	if (twi_likely(!op->embedded)) {
		fill_record(&end, op);
		fetch_next(run->coll->engine->coll_log);
	} else {
		end.combined = true;
		twi_coll_batch_parts(op, fill_record, &end);
	}
	twi_coll_account_tell(run->coll->engine);
}
