/*
 * towstat_coll.c - prints /v1/coll as tables: the plan of each call with its reason, and the last
 * collectives.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/words.h"
#include "tools/towstat/towstat.h"

#define LAST_SHOWN 16
#define TEXT_BYTES 416 /* the longest text is why a group is broken */

static json_t *member_of(json_t *object, const char *key)
{
	return json_object_get(object, key);
}

static unsigned long long number_of(json_t *object, const char *key)
{
	return (unsigned long long)json_number_value(member_of(object, key));
}

/* Names come from another process, so bytes that control a terminal are not printed. */
static const char *clean_name(json_t *object, const char *key, const char *none,
			      char out[TEXT_BYTES])
{
	const char *text = json_string_value(member_of(object, key));

	words_clean(out, TEXT_BYTES, text != NULL ? text : none);
	return out;
}

/* A time, or "-" while it is not known. */
static const char *time_of(json_t *object, const char *key, char out[WORDS_BYTES])
{
	if (json_is_number(member_of(object, key)))
		words_ns(number_of(object, key), out);
	else
		snprintf(out, WORDS_BYTES, "-");
	return out;
}

static const char *bytes_of(unsigned long long bytes, char out[WORDS_BYTES])
{
	if (bytes == 0)
		snprintf(out, WORDS_BYTES, "-");
	else
		words_bytes(bytes, out);
	return out;
}

static void print_group(json_t *group)
{
	char state[TEXT_BYTES], why[TEXT_BYTES], label[TEXT_BYTES + 4];

	snprintf(label, sizeof(label), json_is_string(member_of(group, "label")) ? " \"%s\"" : "%s",
		 clean_name(group, "label", "", why));
	printf("group %llu%s: rank %llu of %llu, %s, %llu started, %llu in flight, %llu held "
	       "back\n",
	       number_of(group, "group"), label, number_of(group, "rank"), number_of(group, "size"),
	       clean_name(group, "state", "?", state), number_of(group, "started"),
	       number_of(group, "in_flight"), number_of(group, "held_back"));
	if (json_is_string(member_of(group, "broken_why")))
		printf("  broken: %s: %s\n", clean_name(group, "broken", "?", state),
		       clean_name(group, "broken_why", "?", why));
	if (json_is_true(member_of(group, "shares_memory")))
		printf("  shares memory with %zu of its host; peers write: %s\n",
		       json_array_size(member_of(group, "local_ranks")) - 1,
		       json_is_true(member_of(group, "peers_write"))
			       ? "yes"
			       : clean_name(group, "peers_write_why_not", "no", why));
	else
		printf("  shares no memory: %s\n",
		       clean_name(group, "shares_memory_why_not", "not set up yet", why));
}

/* "sum f32", "u8". */
static void print_what(json_t *entry)
{
	char type[TEXT_BYTES], reduce[TEXT_BYTES], both[2 * TEXT_BYTES];

	clean_name(entry, "reduce", "", reduce);
	clean_name(entry, "type", "?", type);
	snprintf(both, sizeof(both), "%s%s%s", reduce, reduce[0] != '\0' ? " " : "", type);
	printf("%-12s ", both);
}

static unsigned long long sum_lanes(json_t *entry, const char *key)
{
	unsigned long long sum = 0;
	json_t *lane;
	size_t i;

	json_array_foreach(member_of(entry, "lanes"), i, lane) sum += number_of(lane, key);
	return sum;
}

static unsigned long long sum_copies(json_t *entry)
{
	unsigned long long sum = 0;
	json_t *copy;
	size_t i;

	json_array_foreach(member_of(entry, "fallback_copies"), i, copy) sum +=
		number_of(copy, "bytes");
	return sum;
}

static void print_entry(json_t *entry)
{
	char text[TEXT_BYTES], a[WORDS_BYTES], b[WORDS_BYTES], c[WORDS_BYTES], d[WORDS_BYTES];

	printf("  %-14s ", clean_name(entry, "kind", "?", text));
	print_what(entry);
	printf("%10s ", bytes_of(number_of(entry, "bytes"), a));
	printf("%-13s ", clean_name(entry, "plan", "?", text));
	printf("%8llu %5llu %10s %10s %10s %9s ", number_of(entry, "calls"),
	       number_of(entry, "messages_sent"), bytes_of(sum_lanes(entry, "sent_bytes"), a),
	       bytes_of(number_of(entry, "in_place_read_bytes") +
				number_of(entry, "in_place_written_bytes"),
			b),
	       bytes_of(sum_copies(entry), c), time_of(member_of(entry, "latency_ns"), "mean", d));
	printf("%9s  ", time_of(member_of(entry, "skew_ns"), "mean", a));
	printf("%s%s\n", clean_name(entry, "why", "?", text),
	       json_is_true(member_of(entry, "combined")) ? ", combined" : "");
}

static void print_entries(json_t *group)
{
	json_t *entry;
	size_t i;

	if (json_array_size(member_of(group, "entries")) == 0)
		return;
	printf("  %-14s %-12s %10s %-13s %8s %5s %10s %10s %10s %9s %9s  %s\n", "KIND", "WHAT",
	       "BYTES", "PLAN", "CALLS", "SENDS", "SENT", "IN PLACE", "FALLBACK", "MEAN", "SKEW",
	       "WHY");
	json_array_foreach(member_of(group, "entries"), i, entry) print_entry(entry);
}

/* The time between two members of a row; "-" while one is not known. */
static const char *span_of(json_t *row, const char *from, const char *to, char out[WORDS_BYTES])
{
	unsigned long long a = number_of(row, from), b = number_of(row, to);

	if (json_is_number(member_of(row, to)) && b >= a)
		words_ns(b - a, out);
	else
		snprintf(out, WORDS_BYTES, "-");
	return out;
}

static void print_last(json_t *last)
{
	size_t count = json_array_size(last), first = count > LAST_SHOWN ? count - LAST_SHOWN : 0;
	char text[TEXT_BYTES], a[WORDS_BYTES], b[WORDS_BYTES], c[WORDS_BYTES], d[WORDS_BYTES];
	char seq[24];

	if (count == 0)
		return;
	printf("last %zu\n  %5s %8s %-14s %10s %-13s %9s %9s %9s  %-12s %s\n", count - first,
	       "GROUP", "SEQ", "KIND", "BYTES", "PLAN", "TIME", "SKEW", "SLACK", "STATUS", "NAME");
	for (size_t i = first; i < count; i++) {
		json_t *row = json_array_get(last, i);

		snprintf(seq, sizeof(seq), json_is_number(member_of(row, "seq")) ? "%llu" : "-",
			 number_of(row, "seq"));
		printf("  %5llu %8s %-14s ", number_of(row, "group"), seq,
		       clean_name(row, "kind", "?", text));
		printf("%10s %-13s %9s %9s %9s  ", bytes_of(number_of(row, "bytes"), a),
		       clean_name(row, "plan", "-", text), span_of(row, "start_ns", "done_ns", b),
		       time_of(row, "skew_ns", c), time_of(row, "slack_ns", d));
		printf("%-12s ", clean_name(row, "status", "in flight", text));
		printf("%s\n", clean_name(row, "name", "-", text));
	}
}

/* Totals by kind and lane since the start, over all groups. */
static void print_totals(json_t *totals)
{
	char text[TEXT_BYTES], lane[TEXT_BYTES], a[WORDS_BYTES], b[WORDS_BYTES], c[WORDS_BYTES];
	json_t *row;
	size_t i;

	if (json_array_size(totals) == 0)
		return;
	printf("since the start\n  %-14s %-6s %9s %9s %9s %9s %9s %9s %10s %10s\n", "KIND", "LANE",
	       "CALLS", "P50", "P99", "SKEW P99", "SLACK", "WAIT", "SENT", "RECEIVED");
	json_array_foreach(totals, i, row)
	{
		json_t *latency = member_of(row, "latency_ns");

		printf("  %-14s %-6s %9llu ", clean_name(row, "kind", "?", text),
		       clean_name(row, "lane", "?", lane), number_of(latency, "count"));
		printf("%9s %9s ", time_of(latency, "p50", a), time_of(latency, "p99", b));
		printf("%9s %9s %9s ", time_of(member_of(row, "skew_ns"), "p99", a),
		       time_of(row, "slack_mean_ns", b), time_of(row, "wait_ns", c));
		printf("%10s %10s\n", bytes_of(sum_lanes(row, "sent_bytes"), a),
		       bytes_of(sum_lanes(row, "received_bytes"), b));
	}
}

static int show_one(const char *socket_path)
{
	json_t *document = fetch_json(socket_path, "/v1/coll"), *group;
	size_t i;

	if (document == NULL)
		return 1;
	json_array_foreach(member_of(document, "groups"), i, group)
	{
		print_group(group);
		print_entries(group);
	}
	if (json_array_size(member_of(document, "groups")) == 0 &&
	    json_array_size(member_of(document, "foreign_groups")) == 0)
		printf("no groups\n");
	print_foreign_groups(document);
	print_totals(member_of(document, "totals"));
	print_last(member_of(document, "last"));
	json_decref(document);
	return 0;
}

int show_collectives(const struct runtime_list *targets)
{
	int failed = 0;

	for (size_t i = 0; i < targets->count; i++) {
		print_heading(targets, i);
		fflush(stdout);
		failed |= show_one(targets->rows[i].path);
	}
	return failed;
}
