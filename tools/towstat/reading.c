/*
 * reading.c - see reading.h.
 *
 * A quantile is the upper edge of its bucket, as in /v1/latency. Time spent waiting for several
 * collectives at once counts once: the exposed share is of the union of the waits.
 */
#include "tools/towstat/reading.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/words.h"

static uint64_t number_of(const json_t *object, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? (uint64_t)value : 0;
}

void reading_counters(struct reading *out, const json_t *document)
{
	const json_t *counters = json_object_get(document, "counters");

#define X(name) out->counters.name = number_of(counters, #name);
	READING_COUNTERS(X)
#undef X
}

static int by_edge(const void *a, const void *b)
{
	const struct reading_bucket *left = a, *right = b;

	return (left->upper_ns > right->upper_ns) - (left->upper_ns < right->upper_ns);
}

static void fold_equal(struct reading *out)
{
	size_t kept = 0;

	qsort(out->buckets, out->bucket_count, sizeof(out->buckets[0]), by_edge);
	for (size_t i = 0; i < out->bucket_count; i++) {
		if (kept > 0 && out->buckets[kept - 1].upper_ns == out->buckets[i].upper_ns)
			out->buckets[kept - 1].count += out->buckets[i].count;
		else
			out->buckets[kept++] = out->buckets[i];
	}
	out->bucket_count = kept;
}

static void add_latencies(struct reading *out, const json_t *rows)
{
	json_t *row, *bucket;
	size_t i, j;

	json_array_foreach(rows, i, row)
	{
		json_array_foreach(json_object_get(row, "buckets"), j, bucket)
		{
			json_int_t upper = json_integer_value(json_array_get(bucket, 0));
			json_int_t count = json_integer_value(json_array_get(bucket, 1));

			if (out->bucket_count == READING_BUCKETS)
				fold_equal(out);
			if (upper > 0 && count > 0 && out->bucket_count < READING_BUCKETS)
				out->buckets[out->bucket_count++] =
					(struct reading_bucket){ (uint64_t)upper, (uint64_t)count };
		}
	}
	fold_equal(out);
}

void reading_add(struct reading *into, const struct reading *from)
{
#define X(name) into->counters.name += from->counters.name;
	READING_COUNTERS(X)
#undef X
	into->at_s = from->at_s;
	for (size_t i = 0; i < from->bucket_count; i++) {
		if (into->bucket_count == READING_BUCKETS)
			fold_equal(into);
		if (into->bucket_count < READING_BUCKETS)
			into->buckets[into->bucket_count++] = from->buckets[i];
	}
	fold_equal(into);
}

void reading_latency(struct reading *out, const json_t *document)
{
	out->bucket_count = 0;
	add_latencies(out, json_object_get(document, "rpcs"));
	add_latencies(out, json_object_get(document, "calls"));
	add_latencies(out, json_object_get(document, "colls"));
}

void reading_pool(struct reading *out, const json_t *document)
{
	out->pool_bytes = number_of(document, "mapped_bytes");
	out->pool_used_bytes = number_of(document, "allocated_bytes");
}

/* The bytes of an entry are those of one call. */
static void add_in_place(struct reading *out, const json_t *document)
{
	json_t *group, *entry;
	size_t i, j;

	out->read_bytes = out->written_bytes = 0;
	json_array_foreach(json_object_get(document, "groups"), i, group)
	{
		json_array_foreach(json_object_get(group, "entries"), j, entry)
		{
			uint64_t calls = number_of(entry, "calls");

			out->read_bytes += calls * number_of(entry, "in_place_read_bytes");
			out->written_bytes += calls * number_of(entry, "in_place_written_bytes");
		}
	}
}

static int64_t slack_of(const json_t *row)
{
	const char *kind = json_string_value(json_object_get(row, "kind"));
	const json_t *slack = json_object_get(row, "slack_ns");
	bool barrier = kind != NULL && strcmp(kind, "barrier") == 0;

	return json_is_integer(slack) && !barrier ? json_integer_value(slack) : -1;
}

void reading_colls(struct reading *out, const json_t *document)
{
	const json_t *last = json_object_get(document, "last");
	size_t count = json_array_size(last);
	size_t first = count > READING_COLLS ? count - READING_COLLS : 0;

	out->colls_at_ns = number_of(document, "now_ns");
	out->coll_count = 0;
	add_in_place(out, document);
	for (size_t i = first; i < count; i++) {
		const json_t *row = json_array_get(last, i);

		out->colls[out->coll_count++] = (struct reading_coll){
			.group = number_of(row, "group"),
			.seq = number_of(row, "seq"),
			.wait_ns = number_of(row, "wait_ns"),
			.done_ns = number_of(row, "done_ns"),
			.slack_ns = slack_of(row),
		};
	}
}

/* A healthy verdict without all ranks is only partial. */
static void tell_partial(const json_t *document, struct verdict *out)
{
	unsigned long long answered = number_of(document, "ranks_answered");
	unsigned long long all = number_of(document, "ranks_in_job");
	unsigned long long missing = number_of(document, "ranks_missing");

	if (strcmp(out->state, "healthy") != 0 || (answered >= all && missing == 0))
		return;
	snprintf(out->state, sizeof(out->state), "partial");
	snprintf(out->text, sizeof(out->text),
		 "healthy, as far as is known: %llu of %llu ranks answered", answered,
		 all + missing);
}

void reading_verdict(const json_t *document, struct verdict *out)
{
	const json_t *first = json_array_get(json_object_get(document, "findings"), 0);
	const char *text = json_string_value(json_object_get(document, "short"));
	json_t *rank;
	size_t i;

	out->rank_count = 0;
	if (text == NULL)
		text = json_string_value(json_object_get(first, "cause"));
	if (text == NULL)
		text = json_string_value(json_object_get(document, "state"));
	words_clean(out->text, sizeof(out->text), text);
	words_clean(out->state, sizeof(out->state),
		    json_string_value(json_object_get(document, "state")));
	words_clean(out->cause, sizeof(out->cause),
		    json_string_value(json_object_get(first, "cause")));
	tell_partial(document, out);
	json_array_foreach(json_object_get(first, "ranks"), i, rank)
	{
		if (json_is_integer(rank) && out->rank_count < VERDICT_RANKS)
			out->ranks[out->rank_count++] = json_integer_value(rank);
	}
}

/* The growth of a counter. A counter that is smaller than before belongs to a new process. */
static uint64_t grown_by(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

static uint64_t count_at(const struct reading *reading, uint64_t upper_ns)
{
	const struct reading_bucket key = { upper_ns, 0 };
	const struct reading_bucket *found =
		bsearch(&key, reading->buckets, reading->bucket_count, sizeof(key), by_edge);

	return found != NULL ? found->count : 0;
}

static double quantile_between(const struct reading *from, const struct reading *to, double q)
{
	double total = 0, seen = 0;

	for (size_t i = 0; i < to->bucket_count; i++)
		total += (double)grown_by(count_at(from, to->buckets[i].upper_ns),
					  to->buckets[i].count);
	for (size_t i = 0; i < to->bucket_count && total > 0; i++) {
		seen += (double)grown_by(count_at(from, to->buckets[i].upper_ns),
					 to->buckets[i].count);
		if (seen > q * total || seen >= total)
			return (double)to->buckets[i].upper_ns;
	}
	return UNKNOWN;
}

static int by_value(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static double slack_p50(const struct reading *from, const struct reading *to)
{
	int64_t slacks[READING_COLLS];
	size_t count = 0;

	for (size_t i = 0; i < to->coll_count; i++) {
		const struct reading_coll *coll = &to->colls[i];

		if (coll->done_ns > from->colls_at_ns && coll->slack_ns >= 0)
			slacks[count++] = coll->slack_ns;
	}
	if (count == 0)
		return UNKNOWN;
	qsort(slacks, count, sizeof(slacks[0]), by_value);
	return (double)slacks[(count - 1) / 2];
}

static int by_wait(const void *a, const void *b)
{
	const struct reading_coll *left = a, *right = b;

	return (left->wait_ns > right->wait_ns) - (left->wait_ns < right->wait_ns);
}

/*
 * The start of the time that the list of collectives covers. The list is bounded and may not reach
 * back to the earlier reading. The share is then that of the covered time.
 */
static uint64_t covered_from(const struct reading *from, const struct reading *to)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < to->coll_count; i++) {
		if (to->colls[i].done_ns != 0 && to->colls[i].done_ns < first)
			first = to->colls[i].done_ns;
		if (to->colls[i].done_ns != 0 && to->colls[i].done_ns <= from->colls_at_ns)
			return from->colls_at_ns;
	}
	/* All of them ended after the earlier reading, so older ones may be missing. */
	if (to->coll_count < from->coll_count || from->coll_count == 0)
		return from->colls_at_ns;
	return first != UINT64_MAX ? first : from->colls_at_ns;
}

static double exposed_share(const struct reading *from, const struct reading *to)
{
	struct reading_coll waits[READING_COLLS];
	uint64_t begin = covered_from(from, to), end = to->colls_at_ns, at = begin, sum = 0;
	size_t count = 0;

	if (from->colls_at_ns == 0 || end <= begin || to->coll_count == 0)
		return UNKNOWN;
	for (size_t i = 0; i < to->coll_count; i++) {
		if (to->colls[i].wait_ns != 0)
			waits[count++] = to->colls[i];
	}
	qsort(waits, count, sizeof(waits[0]), by_wait);
	for (size_t i = 0; i < count; i++) {
		uint64_t first = waits[i].wait_ns > at ? waits[i].wait_ns : at;
		uint64_t last =
			waits[i].done_ns != 0 && waits[i].done_ns < end ? waits[i].done_ns : end;

		if (last <= first)
			continue;
		sum += last - first;
		at = last;
	}
	return (double)sum / (double)(end - begin);
}

static uint64_t received_between(const struct reading *from, const struct reading *to)
{
	const struct reading_counters *a = &from->counters, *b = &to->counters;

	return grown_by(a->recv_bytes, b->recv_bytes) +
	       grown_by(a->call_recv_bytes, b->call_recv_bytes) +
	       grown_by(a->coll_recv_bytes, b->coll_recv_bytes) +
	       grown_by(from->read_bytes, to->read_bytes);
}

static uint64_t sent_between(const struct reading *from, const struct reading *to)
{
	const struct reading_counters *a = &from->counters, *b = &to->counters;

	return grown_by(a->send_bytes, b->send_bytes) +
	       grown_by(a->call_send_bytes, b->call_send_bytes) +
	       grown_by(a->coll_send_bytes, b->coll_send_bytes) +
	       grown_by(from->written_bytes, to->written_bytes);
}

void figures_between(const struct reading *from, const struct reading *to, struct figures *out)
{
	const struct reading_counters *a = &from->counters, *b = &to->counters;
	double seconds = to->at_s - from->at_s;

	if (!(seconds > 1e-6))
		seconds = 1e-6;
	*out = (struct figures){
		.in_bytes = (double)received_between(from, to) / seconds,
		.out_bytes = (double)sent_between(from, to) / seconds,
		.sends = (double)grown_by(a->sends, b->sends) / seconds,
		.recvs = (double)grown_by(a->recvs, b->recvs) / seconds,
		.copied_bytes =
			(double)grown_by(a->fallback_copy_bytes, b->fallback_copy_bytes) / seconds,
		.late_bytes =
			(double)grown_by(a->late_registration_bytes, b->late_registration_bytes) /
			seconds,
		.late_count = grown_by(a->late_registrations, b->late_registrations),
		.p50_ns = quantile_between(from, to, 0.5),
		.p99_ns = quantile_between(from, to, 0.99),
		.slack_p50_ns = slack_p50(from, to),
		.exposed_share = exposed_share(from, to),
		.pool_share = to->pool_bytes > 0
				      ? (double)to->pool_used_bytes / (double)to->pool_bytes
				      : UNKNOWN,
	};
}
