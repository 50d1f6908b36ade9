/*
 * unfinished.c - see unfinished.h.
 */
#include "diag/trace/unfinished.h"

#include <stdio.h>
#include <string.h>

#include <internal/base.h>
#include <towline/status.h>

#include "diag/base/emit.h"
#include "diag/base/words.h"
#include "diag/record/coll_kind.h"
#include "diag/trace/trace_view.h"

#define LONGER 3u /* so many times as long as any case of its kind that has ended */

/*
 * What a rank has ended: the longest wait for each kind of operation, and when any span ended last.
 * For collectives, their own spans count, too.
 */
struct past {
	uint64_t longest_ns[TWI_SPAN_KINDS], last_ns;
};

static struct past past_of(const struct twi_trace_rank *rank)
{
	struct past past = { .last_ns = 0 };

	for (size_t t = 0; t < rank->thread_count; t++) {
		for (size_t i = 0; i < rank->threads[t].span_count; i++) {
			const struct twi_span *span = &rank->threads[t].spans[i];

			past.last_ns = twi_max(past.last_ns, span->end_ns);
			unsigned kind = span->kind == TWI_SPAN_WAIT ? span->detail : span->kind;

			/* a wait that reached its deadline has not seen the end of its operation */
			if (kind < TWI_SPAN_KINDS && span->status == TOW_OK &&
			    (span->kind == TWI_SPAN_WAIT || span->kind == TWI_SPAN_COLL))
				past.longest_ns[kind] =
					twi_max(past.longest_ns[kind], twi_span_ns(span));
		}
	}
	return past;
}

/* Is the collective, or the wait for another operation, unusual? */
static bool stands_out(const struct twi_trace_rank *rank, const struct past *past,
		       const struct twi_span *span)
{
	uint64_t window = rank->end_ns - twi_min(rank->begin_ns, rank->end_ns);
	uint64_t least = twi_min((uint64_t)TWI_STUCK_NS, window / 2), age = twi_span_ns(span);
	unsigned kind = span->kind == TWI_SPAN_WAIT ? span->detail : span->kind;

	if (kind >= TWI_SPAN_KINDS ||
	    (span->kind != TWI_SPAN_WAIT && span->kind != TWI_SPAN_COLL) ||
	    age < twi_max(least, (uint64_t)TWI_STUCK_LEAST) ||
	    age / LONGER < past->longest_ns[kind])
		return false;
	return kind == TWI_SPAN_COLL || past->last_ns <= span->start_ns;
}

/* The rank's unfinished span of that collective; NULL: there is none. */
static const struct twi_span *begun_coll(const struct twi_trace_rank *rank, uint64_t id)
{
	for (size_t i = 0; i < rank->unfinished_count; i++) {
		if (rank->unfinished[i].kind == TWI_SPAN_COLL && rank->unfinished[i].id == id)
			return &rank->unfinished[i];
	}
	return NULL;
}

static bool waits_for_coll(const struct twi_trace_rank *rank, const struct twi_span *span)
{
	return span->detail == TWI_SPAN_COLL && begun_coll(rank, span->id) != NULL;
}

static bool has_ended(const struct twi_trace_rank *rank, uint64_t id)
{
	for (size_t t = 0; t < rank->thread_count; t++) {
		for (size_t i = 0; i < rank->threads[t].span_count; i++) {
			if (rank->threads[t].spans[i].kind == TWI_SPAN_COLL &&
			    rank->threads[t].spans[i].id == id)
				return true;
		}
	}
	return false;
}

/* Counts the ranks of the trace that have come to the collective, and those that have not. */
static void look_around(const struct twi_trace *trace, struct twi_stuck *stuck)
{
	stuck->known = stuck->span->ranks == trace->rank_count;
	for (size_t r = 0; r < trace->rank_count; r++) {
		if (begun_coll(&trace->ranks[r], stuck->span->id) != NULL) {
			stuck->waiting++;
		} else if (!has_ended(&trace->ranks[r], stuck->span->id)) {
			if (stuck->missing++ == 0)
				stuck->first_missing = r;
		}
	}
}

static bool is_told(const struct twi_stuck *rows, size_t count, const struct twi_span *coll)
{
	for (size_t i = 0; i < count; i++) {
		if (rows[i].span->kind == TWI_SPAN_COLL && rows[i].span->id == coll->id)
			return true;
	}
	return false;
}

static void keep_stuck(struct twi_stuck *rows, size_t room, size_t *count,
		       const struct twi_stuck *stuck)
{
	size_t at = *count;

	if (at == room && (room == 0 || rows[room - 1].age_ns >= stuck->age_ns))
		return;
	if (at == room)
		at--;
	else
		++*count;
	for (; at > 0 && rows[at - 1].age_ns < stuck->age_ns; at--)
		rows[at] = rows[at - 1];
	rows[at] = *stuck;
}

size_t twi_unfinished_find(const struct twi_trace *trace, struct twi_stuck *out, size_t room)
{
	size_t count = 0;

	for (size_t r = 0; r < trace->rank_count; r++) {
		const struct twi_trace_rank *rank = &trace->ranks[r];
		struct past past = past_of(rank);

		for (size_t i = 0; i < rank->unfinished_count; i++) {
			const struct twi_span *span = &rank->unfinished[i];
			struct twi_stuck stuck = { .rank = r,
						   .span = span,
						   .age_ns = twi_span_ns(span) };
			bool is_coll = span->kind == TWI_SPAN_COLL;

			if (!stands_out(rank, &past, span) ||
			    (is_coll ? is_told(out, count, span) : waits_for_coll(rank, span)))
				continue;
			if (is_coll)
				look_around(trace, &stuck);
			else
				stuck.waiting = 1;
			keep_stuck(out, room, &count, &stuck);
		}
	}
	return count;
}

static void say_who(const struct twi_trace *trace, const struct twi_stuck *stuck, char *out,
		    size_t room)
{
	long long rank = (long long)trace->ranks[stuck->rank].rank;

	if (stuck->waiting > 2)
		snprintf(out, room, "Rank %lld and %zu others wait", rank, stuck->waiting - 1);
	else if (stuck->waiting == 2)
		snprintf(out, room, "Rank %lld and another one wait", rank);
	else
		snprintf(out, room, "Rank %lld waits", rank);
}

void twi_unfinished_say(const struct twi_trace *trace, const struct twi_stuck *stuck,
			char out[TWI_STUCK_TEXT])
{
	const struct twi_trace_rank *rank = &trace->ranks[stuck->rank];
	const struct twi_span *span = stuck->span;
	const struct twi_trace_peer *peer = twi_view_peer(rank, span);
	const char *name = twi_view_name(rank, span);
	char who[64], from[64] = "", age[TWI_WORDS_BYTES];

	say_who(trace, stuck, who, sizeof(who));
	twi_words_ns(stuck->age_ns, age);
	if (peer != NULL && peer->rank >= 0)
		snprintf(from, sizeof(from), " with rank %lld", (long long)peer->rank);
	else if (peer != NULL)
		snprintf(from, sizeof(from), " with %.40s", peer->name);
	if (span->kind == TWI_SPAN_COLL)
		snprintf(out, TWI_STUCK_TEXT, "%s in %s %u%s%.60s%s since %s", who,
			 span->detail < TWI_COLL_KINDS
				 ? twi_coll_kind_name((enum twi_coll_kind)span->detail)
				 : "collective",
			 (unsigned)span->id, name[0] != '\0' ? " \"" : "", name,
			 name[0] != '\0' ? "\"" : "", age);
	else
		snprintf(out, TWI_STUCK_TEXT, "%s for a %s%s%s%.60s%s since %s", who,
			 twi_span_kind_name((enum twi_span_kind)span->detail), from,
			 name[0] != '\0' ? " \"" : "", name, name[0] != '\0' ? "\"" : "", age);
}

static void emit_one(const struct twi_trace_rank *rank, const struct twi_span *span,
		     struct twi_emit *e)
{
	const struct twi_trace_peer *peer = twi_view_peer(rank, span);
	bool coll = span->kind == TWI_SPAN_COLL && span->detail < TWI_COLL_KINDS;

	twi_emit_object_begin(e, NULL);
	twi_emit_i64(e, "rank", rank->rank);
	twi_emit_str(e, "kind", twi_span_kind_name((enum twi_span_kind)span->kind));
	if (coll)
		twi_emit_str(e, "collective", twi_coll_kind_name((enum twi_coll_kind)span->detail));
	if (span->kind == TWI_SPAN_WAIT && span->detail < TWI_SPAN_KINDS)
		twi_emit_str(e, "waits_for", twi_span_kind_name((enum twi_span_kind)span->detail));
	twi_emit_str(e, "name", twi_view_name(rank, span));
	twi_emit_u64(e, "id", span->id);
	twi_emit_u64(e, "bytes", span->bytes);
	twi_emit_u64(e, "age_ns", twi_span_ns(span));
	if (peer != NULL)
		twi_emit_str(e, "peer", peer->name);
	if (peer != NULL && peer->rank >= 0)
		twi_emit_i64(e, "peer_rank", peer->rank);
	twi_emit_object_end(e);
}

void twi_unfinished_emit(const struct twi_trace *trace, struct twi_emit *e)
{
	uint64_t left_out = 0;

	twi_emit_array_begin(e, "unfinished");
	for (size_t r = 0; r < trace->rank_count; r++) {
		const struct twi_trace_rank *rank = &trace->ranks[r];
		size_t shown = twi_min(rank->unfinished_count, (size_t)TWI_UNFINISHED_SHOWN);

		for (size_t i = 0; i < shown; i++)
			emit_one(rank, &rank->unfinished[i], e);
		left_out += rank->unfinished_count - shown;
	}
	twi_emit_array_end(e);
	twi_emit_u64(e, "unfinished_left_out", left_out);
}
