/*
 * explain_window.c - see explain_window.h.
 *
 * Rates are sums over the ranks, except those of steps and collectives, which all ranks make
 * together. The time that a rank waited for collectives is given for each rank: the others wait for
 * the rank that waits least.
 */
#include "tools/towstat/explain_window.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/common/http_unix.h"
#include "tools/common/words.h"
#include "tools/towstat/reading.h"
#include "tools/towstat/towstat.h"

struct window {
	const struct runtime_list *targets;
	struct reading *readings; /* two for each target */
};

/* `when` is "before" or "after". at_s is 0 where a rank lacks it. */
static void take_readings(struct window *window, const json_t *ranks, size_t which,
			  const char *when)
{
	json_t **colls = fetch_all(window->targets, "/v1/coll");
	double now = http_now_s();

	for (size_t i = 0; i < window->targets->count; i++) {
		struct reading *reading = &window->readings[2 * i + which];
		const json_t *counters = json_object_get(json_array_get(ranks, i), when);

		if (counters == NULL)
			continue;
		reading->at_s = now;
		reading_counters(reading, counters);
		if (colls != NULL && colls[i] != NULL)
			reading_colls(reading, colls[i]);
	}
	fetched_free(colls, window->targets->count);
}

struct window *window_open(const struct runtime_list *targets, const json_t *ranks)
{
	struct window *window = calloc(1, sizeof(*window));

	if (window == NULL)
		return NULL;
	window->targets = targets;
	window->readings = calloc(2 * targets->count, sizeof(*window->readings));
	if (window->readings == NULL) {
		free(window);
		return NULL;
	}
	take_readings(window, ranks, 0, "before");
	return window;
}

void window_wait(const struct window *window, double seconds)
{
	double left = window->readings[0].at_s + seconds - http_now_s();

	if (left > 0)
		nap(left);
}

/*
 * Steps a second, of those that began in the window; UNKNOWN: fewer than two did. A timeline has a
 * rank's last steps, by the rank's own clock.
 */
static double steps_of(const json_t *timeline, double seconds)
{
	const json_t *steps = json_object_get(timeline, "steps");
	double end_s = json_number_value(json_object_get(timeline, "end_ns")) / 1e9;
	double first_s = 0, last_s = 0;
	size_t count = 0, i;
	json_t *step;

	json_array_foreach(steps, i, step)
	{
		double at_s = json_number_value(json_object_get(step, "start_ns")) / 1e9;

		if (at_s < end_s - seconds)
			continue;
		first_s = count == 0 || at_s < first_s ? at_s : first_s;
		last_s = count == 0 || at_s > last_s ? at_s : last_s;
		count++;
	}
	return count > 1 && last_s > first_s ? (double)(count - 1) / (last_s - first_s) : UNKNOWN;
}

static json_t *real_or_null(double value)
{
	return value >= 0 && isfinite(value) ? json_real(value) : json_null();
}

struct rates {
	double seconds, out_bytes, in_bytes, messages, copied_bytes;
	double colls; /* of the rank with the most */
	uint64_t late_count;
	json_t *ranks;
};

static void add_rank(struct rates *into, const struct reading *from, const struct reading *to,
		     const json_t *rank)
{
	double seconds = to->at_s - from->at_s, colls;
	struct figures figures;

	if (!(to->at_s > 0) || !(seconds > 0))
		return;
	figures_between(from, to, &figures);
	colls = to->counters.colls_completed > from->counters.colls_completed
			? (double)(to->counters.colls_completed - from->counters.colls_completed) /
				  seconds
			: 0;
	into->seconds = seconds;
	into->out_bytes += figures.out_bytes;
	into->in_bytes += figures.in_bytes;
	into->messages += figures.sends;
	into->copied_bytes += figures.copied_bytes;
	into->late_count += figures.late_count;
	into->colls = colls > into->colls ? colls : into->colls;
	json_array_append_new(
		into->ranks,
		json_pack("{s:O, s:f, s:f, s:o}", "rank", json_object_get(rank, "rank"),
			  "sent_bytes_per_second", figures.out_bytes, "received_bytes_per_second",
			  figures.in_bytes, "wait_share", real_or_null(figures.exposed_share)));
}

void window_free(struct window *window)
{
	free(window->readings);
	free(window);
}

json_t *window_close(struct window *window, const json_t *ranks)
{
	struct rates rates = { .ranks = json_array() };
	json_t *timeline, *document;

	take_readings(window, ranks, 1, "after");
	for (size_t i = 0; i < window->targets->count; i++)
		add_rank(&rates, &window->readings[2 * i], &window->readings[2 * i + 1],
			 json_array_get(ranks, i));
	timeline = fetch_json(window->targets->rows[0].path, "/v1/timeline");
	document = json_pack(
		"{s:f, s:o, s:f, s:f, s:f, s:f, s:f, s:I, s:o}", "seconds", rates.seconds,
		"steps_per_second", real_or_null(steps_of(timeline, rates.seconds)),
		"collectives_per_second", rates.colls, "messages_per_second", rates.messages,
		"sent_bytes_per_second", rates.out_bytes, "received_bytes_per_second",
		rates.in_bytes, "copied_bytes_per_second", rates.copied_bytes, "late_registrations",
		(json_int_t)rates.late_count, "ranks", rates.ranks);
	json_decref(timeline);
	window_free(window);
	return document;
}

static double number_of(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static void bytes_text(const json_t *document, const char *key, char out[WORDS_BYTES])
{
	double value = number_of(document, key);

	words_bytes(value > 0 && value < 1.8e19 ? (unsigned long long)value : 0, out);
}

/* Prints which ranks waited most and least. Prints nothing when no rank waited for a collective. */
static void print_waits_of(const json_t *ranks)
{
	const json_t *least = NULL, *most = NULL;
	json_t *rank;
	size_t i;

	json_array_foreach(ranks, i, rank)
	{
		if (!json_is_real(json_object_get(rank, "wait_share")))
			continue;
		if (least == NULL || number_of(rank, "wait_share") < number_of(least, "wait_share"))
			least = rank;
		if (most == NULL || number_of(rank, "wait_share") > number_of(most, "wait_share"))
			most = rank;
	}
	if (least == NULL)
		return;
	printf("waited for collectives: %.0f %% of the time (rank %.0f)",
	       100 * number_of(most, "wait_share"), number_of(most, "rank"));
	if (least != most)
		printf(", %.0f %% (rank %.0f)", 100 * number_of(least, "wait_share"),
		       number_of(least, "rank"));
	printf("\n");
}

void print_window(const json_t *document)
{
	char sent[WORDS_BYTES], received[WORDS_BYTES], copied[WORDS_BYTES];

	if (!(number_of(document, "seconds") > 0)) {
		printf("the present rates are not known: no rank has answered twice\n");
		return;
	}
	bytes_text(document, "sent_bytes_per_second", sent);
	bytes_text(document, "received_bytes_per_second", received);
	bytes_text(document, "copied_bytes_per_second", copied);
	printf("watched for %.1f s: ", number_of(document, "seconds"));
	if (json_is_real(json_object_get(document, "steps_per_second")))
		printf("%.3g steps/s, ", number_of(document, "steps_per_second"));
	printf("%.3g collectives/s, %.3g messages/s,\n",
	       number_of(document, "collectives_per_second"),
	       number_of(document, "messages_per_second"));
	printf("sent %s/s, received %s/s, copied %s/s, %.0f late registrations\n", sent, received,
	       copied, number_of(document, "late_registrations"));
	print_waits_of(json_object_get(document, "ranks"));
}
