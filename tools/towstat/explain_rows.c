/*
 * explain_rows.c - see explain_rows.h.
 */
#include "tools/towstat/explain_rows.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/towline.h>

#include "tools/common/words.h"
#include "tools/towstat/documents.h"
#include "tools/towstat/why_merge.h"

#define RUNNING_SHARE 1e-3 /* share of the window; smaller costs are not worth a warning */

enum tier {
#define X(tier, severity) TIER_##tier,
	EXPLAIN_TIERS(X)
#undef X
};

static const char *const severities[] = {
#define X(tier, severity) severity,
	EXPLAIN_TIERS(X)
#undef X
};

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static double number_of(const json_t *object, const char *key)
{
	double value = json_number_value(json_object_get(object, key));

	return value > 0 ? value : 0;
}

/* The largest number that is written. Numbers come from runtimes, and some fit no integer. */
#define NUMBER_MAX 9e18
static double bound_number(double value)
{
	return value > 0 ? value < NUMBER_MAX ? value : NUMBER_MAX : 0;
}

/* Inserts a row behind those that are graver, and those of its tier that cost as much or more. */
static json_t *add_row(json_t *rows, const char *from, enum tier tier, double cost_ns, json_t *row)
{
	size_t at = json_array_size(rows);

	if (row == NULL)
		return NULL;
	json_object_set_new(row, "from", json_string(from));
	json_object_set_new(row, "severity", json_string(severities[tier]));
	json_object_set_new(row, "running", json_boolean(tier == TIER_RUNNING));
	json_object_set_new(row, "cost_ns", json_integer((json_int_t)bound_number(cost_ns)));
	json_object_set_new(row, "tier", json_integer(tier));
	while (at > 0) {
		const json_t *other = json_array_get(rows, at - 1);
		json_int_t grave = json_integer_value(json_object_get(other, "tier"));

		if (grave < (json_int_t)tier ||
		    (grave == (json_int_t)tier && number_of(other, "cost_ns") >= cost_ns))
			break;
		at--;
	}
	json_array_insert_new(rows, at, row);
	return row;
}

/* --- verdict --- */

static void add_findings(json_t *rows, const json_t *document)
{
	json_t *finding;
	size_t i;

	json_array_foreach(json_object_get(document, "findings"), i, finding)
	{
		add_row(rows, "verdict", TIER_VERDICT, 0,
			json_pack("{s:s, s:s, s:O?, s:O?, s:O}", "text",
				  text_of(finding, "says") != NULL ? text_of(finding, "says") : "",
				  "cure",
				  text_of(finding, "cure") != NULL ? text_of(finding, "cure") : "",
				  "ranks", json_object_get(finding, "ranks"), "evidence",
				  json_object_get(finding, "evidence"), "finding", finding));
	}
}

/*
 * A slow job without findings: the verdict says how much of its time it waits, and names no rank.
 */
static void add_blocked(json_t *rows, const json_t *document)
{
	const json_t *blocked = json_object_get(document, "blocked");
	const char *state = text_of(document, "state"), *says = text_of(blocked, "says"),
		   *cure = text_of(blocked, "cure");

	if (json_array_size(json_object_get(document, "findings")) > 0 || state == NULL ||
	    strcmp(state, "slow") != 0 || says == NULL)
		return;
	add_row(rows, "verdict", TIER_VERDICT, 0,
		json_pack("{s:s, s:s}", "text", says, "cure", cure != NULL ? cure : ""));
}

static void add_verdict(json_t *rows, const json_t *verdict)
{
	json_t *row;
	size_t i;

	if (!json_is_array(verdict)) {
		add_findings(rows, verdict);
		add_blocked(rows, verdict);
	}
	json_array_foreach(verdict, i, row)
	{
		add_findings(rows, json_object_get(row, "document"));
		add_blocked(rows, json_object_get(row, "document"));
	}
}

/* --- copies and registrations --- */

struct cost {
	double count, bytes, ns;
};

static void add_growth(struct cost *into, const json_t *reasons, const char *name, double sign)
{
	json_t *row;
	size_t i;

	json_array_foreach(reasons, i, row)
	{
		const char *called = text_of(row, "name");

		if (called == NULL || strcmp(called, name) != 0)
			continue;
		into->count += sign * number_of(row, "count");
		into->bytes += sign * number_of(row, "bytes");
		into->ns += sign * number_of(row, "ns");
	}
}

static bool names_rank(const json_t *list, const json_t *rank)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		if (json_equal(one, rank) == 1)
			return true;
	}
	return false;
}

/*
 * The most that a site can have cost in the window. It is the growth of the site's reason at its
 * ranks, but no more bytes and time than the site has in all.
 */
static struct cost cost_in_window(const struct explain_input *input, const json_t *site,
				  const struct cost *ever)
{
	const char *reason = text_of(site, "reason");
	struct cost cost = { 0, 0, 0 };
	json_t *one;
	size_t i;

	json_array_foreach(input->ranks, i, one)
	{
		json_t *after = json_object_get(one, "after"),
		       *before = json_object_get(one, "before");

		if (reason == NULL || after == NULL || before == NULL ||
		    !names_rank(json_object_get(site, "ranks"), json_object_get(one, "rank")))
			continue;
		add_growth(&cost, json_object_get(after, "reasons"), reason, 1);
		add_growth(&cost, json_object_get(before, "reasons"), reason, -1);
	}
	cost.bytes = cost.bytes < ever->bytes ? cost.bytes : ever->bytes;
	cost.ns = cost.ns < ever->ns ? cost.ns : ever->ns;
	return cost;
}

static const json_t *find_reason(const struct explain_input *input, const char *document,
				 const char *name)
{
	json_t *one, *row;
	size_t i, j;

	json_array_foreach(input->ranks, i, one)
	{
		const json_t *all = json_object_get(
			json_object_get(json_object_get(one, "why"), document), "reasons");

		json_array_foreach(all, j, row)
		{
			const char *called = text_of(row, "name");

			if (called != NULL && name != NULL && strcmp(called, name) == 0)
				return row;
		}
	}
	return NULL;
}

/* Cuts the cure from the end of a sentence. The cure has a line of its own here. */
static json_t *without_cure(const char *text, const char *cure)
{
	size_t bytes = strlen(text), tail = strlen(cure);

	if (tail > 0 && bytes > tail + 2 && strcmp(text + bytes - tail, cure) == 0 &&
	    strncmp(text + bytes - tail - 2, "; ", 2) == 0)
		bytes -= tail + 2;
	return json_sprintf("%.*s", (int)bytes, text);
}

static bool is_worth_telling(const struct cost *cost)
{
	return cost->ns >= REASON_NS_FLOOR || cost->bytes >= REASON_BYTES_FLOOR;
}

static void add_site(json_t *rows, const struct explain_input *input, const char *document,
		     json_t *site)
{
	const struct cost all = { number_of(site, "count"), number_of(site, "bytes"),
				  number_of(site, "ns") };
	struct cost now = cost_in_window(input, site, &all);
	const char *cure = text_of(find_reason(input, document, text_of(site, "reason")), "cure");
	const char *text = text_of(site, "text");
	bool running = now.count > 0 && (now.ns >= RUNNING_SHARE * input->seconds * 1e9 ||
					 now.bytes >= REASON_BYTES_FLOOR);

	if (text == NULL || (!running && !is_worth_telling(&all)))
		return;
	if (cure == NULL)
		cure = "";
	add_row(rows, document, running ? TIER_RUNNING : TIER_BEFORE, running ? now.ns : all.ns,
		json_pack("{s:o, s:s, s:O}", "text", without_cure(text, cure), "cure", cure,
			  "ranks", json_object_get(site, "ranks")));
}

/* The call sites of all ranks, as one document in which equal sites are merged. */
static void add_sites(json_t *rows, const struct explain_input *input, const char *document,
		      const char *one_event, const char *many_events)
{
	json_t *all = json_array(), *whole = json_pack("{s:O}", "sites", all), *one, *site;
	size_t i, j;

	json_array_foreach(input->ranks, i, one)
	{
		const json_t *said = json_object_get(
			json_object_get(json_object_get(one, "why"), document), "sites");

		json_array_foreach(said, j, site)
		{
			json_t *copy = json_deep_copy(site);

			json_object_set_new(copy, "ranks",
					    json_pack("[O]", json_object_get(one, "rank")));
			json_array_append_new(all, copy);
		}
	}
	merge_sites(whole, one_event, many_events);
	json_array_foreach(all, i, site) add_site(rows, input, document, site);
	json_decref(all);
	json_decref(whole);
}

/* --- counters --- */

static double counter_at(const json_t *rank, const char *when, const char *name)
{
	const json_t *counters = json_object_get(json_object_get(rank, when), "counters");

	return number_of(counters, name);
}

/* The counter of one rank, less the parts that other counters cover or that do not matter. */
static double judged_at(const json_t *rank, const char *when, const struct judged_counter *counter)
{
	double value = counter_at(rank, when, counter->name);

	for (size_t i = 0; i < 2 && counter->less[i] != NULL; i++)
		value -= counter_at(rank, when, counter->less[i]);
	return value > 0 ? value : 0;
}

static void help_of(const char *counter, char *out, size_t size)
{
	struct tow_counter_info row = { .size = sizeof(row) };

	out[0] = '\0';
	for (size_t i = 0; tow_counter_info(i, &row) == TOW_OK; i++) {
		if (strcmp(row.name, counter) == 0)
			snprintf(out, size, "%s", row.help);
	}
}

static void amount_text(double amount, const char *counter, char out[WORDS_BYTES])
{
	size_t bytes = strlen(counter);

	if (bytes > 6 && strcmp(counter + bytes - 6, "_bytes") == 0)
		words_bytes((unsigned long long)bound_number(amount), out);
	else
		words_count((unsigned long long)bound_number(amount), out);
}

struct sum {
	double total, grown, most;
	json_t *ranks;         /* ranks with a value */
	const json_t *most_of; /* the rank with the largest one */
};

static void sum_counter(const struct explain_input *input, const struct judged_counter *counter,
			struct sum *out)
{
	json_t *one;
	size_t i;

	*out = (struct sum){ .ranks = json_array() };
	json_array_foreach(input->ranks, i, one)
	{
		double after = judged_at(one, "after", counter);
		double before = judged_at(one, "before", counter);

		if (!(after > 0))
			continue;
		out->total += after;
		out->grown += after > before ? after - before : 0;
		json_array_append(out->ranks, json_object_get(one, "rank"));
		if (after > out->most) {
			out->most = after;
			out->most_of = json_object_get(one, "rank");
		}
	}
}

static void add_counter(json_t *rows, const struct explain_input *input,
			const struct judged_counter *counter)
{
	char total[WORDS_BYTES], grown[WORDS_BYTES], most[WORDS_BYTES], whose[96] = "";
	char running[64] = "", help[512];
	struct sum sum;

	sum_counter(input, counter, &sum);
	if (sum.total > counter->floor) {
		amount_text(sum.total, counter->name, total);
		amount_text(sum.grown, counter->name, grown);
		amount_text(sum.most, counter->name, most);
		help_of(counter->name, help, sizeof(help));
		if (json_array_size(sum.ranks) > 1)
			snprintf(whose, sizeof(whose), ", %s of them at rank %lld", most,
				 (long long)json_integer_value(sum.most_of));
		if (sum.grown > 0)
			snprintf(running, sizeof(running), ", %s just now", grown);
		add_row(rows, "counters", sum.grown > 0 ? TIER_RUNNING : TIER_BEFORE, 0,
			json_pack("{s:o, s:s, s:O}", "text",
				  json_sprintf("%s %s%s%s: %s", counter->name, total, whose,
					       running, help),
				  "cure", counter->cure, "ranks", sum.ranks));
	}
	json_decref(sum.ranks);
}

static void add_counters(json_t *rows, const struct explain_input *input)
{
	const struct judged_counter *counter;

	for (size_t i = 0; (counter = documents_judged(i)) != NULL; i++) {
		if (counter->cure != NULL)
			add_counter(rows, input, counter);
	}
}

/* --- the pool --- */

int say_pool(const json_t *pool, char *out, size_t size)
{
	json_int_t times = json_integer_value(json_object_get(pool, "exhausted"));
	json_int_t grown = (json_int_t)json_array_size(json_object_get(pool, "extents")) - 1;
	char what[96];

	if (times == 0 && grown <= 0)
		return 0;
	if (times > 0)
		snprintf(what, sizeof(what), "%lld allocations found no room", (long long)times);
	else
		snprintf(what, sizeof(what), "it has grown by %lld extents", (long long)grown);
	snprintf(out, size,
		 "%s; it was opened with premap_memory_bytes=%lld, and needs at least %lld", what,
		 (long long)json_integer_value(json_object_get(pool, "asked_bytes")),
		 (long long)json_integer_value(
			 json_object_get(pool, "recommended_premap_memory_bytes")));
	return 1;
}

static bool is_refused(const json_t *registrar)
{
	return json_is_false(json_object_get(registrar, "registered")) &&
	       number_of(registrar, "failures") > 0;
}

/*
 * Each ring of io_uring is a registrar, and all are refused alike. So only the first refusal of a
 * name counts.
 */
static bool is_first_refusal(const json_t *pool, size_t at)
{
	const json_t *rows = json_object_get(pool, "registrars"), *row = json_array_get(rows, at);
	const char *name = text_of(row, "name");

	for (size_t i = 0; i < at; i++) {
		const char *other = text_of(json_array_get(rows, i), "name");

		if (name != NULL && other != NULL && strcmp(name, other) == 0 &&
		    is_refused(json_array_get(rows, i)))
			return false;
	}
	return is_refused(row);
}

json_t *unregistered_of(const json_t *pool, size_t n)
{
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(pool, "registrars"), i, row)
	{
		if (is_first_refusal(pool, i) && n-- == 0)
			return row;
	}
	return NULL;
}

/*
 * The refusals of the first rank that has any stand for all ranks, as limits are those of a host.
 */
static void add_registrars(json_t *rows, const struct explain_input *input)
{
	json_t *one, *ranks = json_array();
	const json_t *shown = NULL, *row;
	size_t i;

	json_array_foreach(input->ranks, i, one)
	{
		const json_t *pool = json_object_get(json_object_get(one, "why"), "pool");

		if (unregistered_of(pool, 0) == NULL)
			continue;
		shown = shown == NULL ? pool : shown;
		json_array_append(ranks, json_object_get(one, "rank"));
	}
	for (i = 0; (row = unregistered_of(shown, i)) != NULL; i++) {
		const char *reason = text_of(row, "reason");
		const char *mend = text_of(row, "mend");

		add_row(rows, "registrations", TIER_BEFORE, 0,
			json_pack("{s:o, s:s, s:O}", "text",
				  json_sprintf("the pool could not be registered: %s",
					       reason != NULL ? reason : "nobody says why"),
				  "cure", mend != NULL ? mend : "", "ranks", ranks));
	}
	json_decref(ranks);
}

/* Adds one row for all ranks, with a size that is enough for each of them. */
static void add_pools(json_t *rows, const struct explain_input *input)
{
	static const struct judged_counter full = { .name = "pool_exhausted" },
					   grown = { .name = "pool_grown" };
	json_t *one, *ranks = json_array();
	json_int_t enough = 0;
	char text[256] = "";
	bool running = false;
	size_t i;

	json_array_foreach(input->ranks, i, one)
	{
		const json_t *pool = json_object_get(json_object_get(one, "why"), "pool");
		json_int_t wanted = json_integer_value(
			json_object_get(pool, "recommended_premap_memory_bytes"));
		char said[sizeof(text)];

		if (!say_pool(pool, said, sizeof(said)))
			continue;
		json_array_append(ranks, json_object_get(one, "rank"));
		running = running ||
			  judged_at(one, "after", &full) > judged_at(one, "before", &full) ||
			  judged_at(one, "after", &grown) > judged_at(one, "before", &grown);
		if (wanted >= enough) {
			enough = wanted;
			memcpy(text, said, sizeof(text));
		}
	}
	if (json_array_size(ranks) > 0)
		add_row(rows, "pool", running ? TIER_RUNNING : TIER_BEFORE, 0,
			json_pack("{s:o, s:o, s:O}", "text",
				  json_sprintf("the pool was too small: %s", text), "cure",
				  json_sprintf("premap_memory_bytes=%lld (TOW_PREMAP_MEMORY_BYTES) "
					       "at least; tow-size finds the size for a log",
					       (long long)enough),
				  "ranks", ranks));
	json_decref(ranks);
}

/* --- the host --- */

static void add_checks(json_t *rows, const json_t *checks)
{
	json_t *row;
	size_t i;

	json_array_foreach(checks, i, row)
	{
		const char *severity = text_of(row, "severity"), *title = text_of(row, "title");
		const char *found = text_of(row, "found"), *effect = text_of(row, "effect");
		const char *mend = text_of(row, "mend");
		bool error = severity != NULL && strcmp(severity, "error") == 0;

		if (severity == NULL || (!error && strcmp(severity, "warning") != 0))
			continue;
		add_row(rows, "host", error ? TIER_HOST_ERROR : TIER_HOST_WARNING, 0,
			json_pack("{s:o, s:s, s:[], s:[s]}", "text",
				  json_sprintf("%s: %s", title != NULL ? title : "?",
					       found != NULL ? found : "?"),
				  "cure", mend != NULL ? mend : "", "ranks", "evidence",
				  effect != NULL ? effect : ""));
	}
}

json_t *explain_rows(const struct explain_input *input)
{
	json_t *rows = json_array(), *row;
	size_t i;

	if (rows == NULL)
		return NULL;
	add_verdict(rows, input->verdict);
	add_checks(rows, input->checks);
	add_sites(rows, input, "copies", "copy", "copies");
	add_sites(rows, input, "registrations", "late registration", "late registrations");
	add_pools(rows, input);
	add_registrars(rows, input);
	add_counters(rows, input);
	json_array_foreach(rows, i, row) json_object_del(row, "tier");
	return rows;
}
