/*
 * why_merge.c - see why_merge.h.
 */
#include "tools/towstat/why_merge.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/words.h"

static json_int_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static bool same_value(const json_t *a, const json_t *b, const char *key)
{
	return json_equal(json_object_get(a, key), json_object_get(b, key)) == 1;
}

/*
 * Whether two sites are of one line, or of one address in one module in two processes. A site
 * without both stays alone, because a missing member equals nothing.
 */
static bool same_place(const json_t *a, const json_t *b)
{
	bool line = same_value(a, b, "file") && same_value(a, b, "line");
	bool code = json_is_string(json_object_get(a, "build_id")) &&
		    same_value(a, b, "build_id") &&
		    json_is_integer(json_object_get(a, "module_offset")) &&
		    same_value(a, b, "module_offset");

	return (line || code) && same_value(a, b, "reason") && same_value(a, b, "tag");
}

/* Adds as the runtime does: modulo 2^64, for any value that another process has written. */
static void add_amount(json_t *into, const json_t *from, const char *key)
{
	unsigned long long sum =
		(unsigned long long)number_of(into, key) + (unsigned long long)number_of(from, key);

	json_object_set_new(into, key, json_integer((json_int_t)sum));
}

static void take_if(json_t *into, const json_t *from, const char *key, bool wanted)
{
	if (wanted)
		json_object_set(into, key, json_object_get(from, key));
}

static void add_cost(json_t *into, const json_t *from)
{
	add_amount(into, from, "count");
	add_amount(into, from, "bytes");
	add_amount(into, from, "ns");
}

static json_t *find_size(json_t *sizes, const json_t *like)
{
	json_t *size;
	size_t i;

	json_array_foreach(sizes, i, size)
	{
		if (same_value(size, like, "bytes_min"))
			return size;
	}
	return NULL;
}

/* Adds each size class of `from` to its like, or behind the others. */
static void add_sizes(json_t *into, const json_t *from)
{
	json_t *sizes = json_object_get(into, "sizes"), *size, *like;
	size_t i;

	json_array_foreach(json_object_get(from, "sizes"), i, size)
	{
		like = find_size(sizes, size);
		if (like != NULL)
			add_cost(like, size);
		else
			json_array_append(sizes, size);
	}
}

/* Adds the ranks of a site, where it has them. */
static void add_ranks(json_t *into, const json_t *from)
{
	json_t *ranks = json_object_get(into, "ranks"), *rank, *known;
	size_t i, j;

	json_array_foreach(json_object_get(from, "ranks"), i, rank)
	{
		bool there = false;

		json_array_foreach(ranks, j, known) there = there || json_equal(known, rank) == 1;
		if (!there)
			json_array_append(ranks, rank);
	}
}

static void fold_site(json_t *into, json_t *from)
{
	const json_t *most = json_object_get(into, "bytes_max");
	json_t *addresses = json_object_get(into, "addresses");

	if (addresses == NULL) {
		addresses = json_array();
		json_array_append(addresses, json_object_get(into, "address"));
		json_object_set_new(into, "addresses", addresses);
	}
	json_array_append(addresses, json_object_get(from, "address"));
	add_cost(into, from);
	add_ranks(into, from);
	take_if(into, from, "max_ns", number_of(from, "max_ns") > number_of(into, "max_ns"));
	take_if(into, from, "first_at_ns",
		number_of(from, "first_at_ns") < number_of(into, "first_at_ns"));
	take_if(into, from, "last_at_ns",
		number_of(from, "last_at_ns") > number_of(into, "last_at_ns"));
	take_if(into, from, "bytes_min",
		number_of(from, "bytes_min") < number_of(into, "bytes_min"));
	/* null means no bound */
	take_if(into, from, "bytes_max",
		json_is_integer(most) && (json_is_null(json_object_get(from, "bytes_max")) ||
					  number_of(from, "bytes_max") > json_integer_value(most)));
	add_sizes(into, from);
}

/* Replaces the amount, which stands before the first ": " of a sentence. */
static json_t *with_amount(const char *amount, const json_t *sentence)
{
	const char *rest = strstr(json_string_value(sentence), ": ");

	return rest != NULL ? json_sprintf("%s%s", amount, rest) : NULL;
}

static void rewrite_amounts(json_t *site, const char *one, const char *many)
{
	json_t *parts = json_object_get(site, "text_parts"), *text;
	char count[WORDS_BYTES], bytes[WORDS_BYTES], time[WORDS_BYTES], amount[160];

	words_count((unsigned long long)number_of(site, "count"), count);
	words_bytes((unsigned long long)number_of(site, "bytes"), bytes);
	words_ns((unsigned long long)number_of(site, "ns"), time);
	snprintf(amount, sizeof(amount), "%s %s, %s, %s", count,
		 number_of(site, "count") == 1 ? one : many, bytes, time);
	text = json_object_get(site, "text");
	if (json_is_string(text) && (text = with_amount(amount, text)) != NULL)
		json_object_set_new(site, "text", text);
	text = json_array_get(parts, 0);
	if (json_is_string(text) && (text = with_amount(amount, text)) != NULL)
		json_array_set_new(parts, 0, text);
}

static bool costs_more(const json_t *a, const json_t *b)
{
	json_int_t a_ns = number_of(a, "ns"), b_ns = number_of(b, "ns");

	return a_ns != b_ns ? a_ns > b_ns : number_of(a, "bytes") > number_of(b, "bytes");
}

/* Insertion sort: it keeps equal sites in order, and there are some dozens at most. */
static void sort_sites(json_t *sites)
{
	for (size_t i = 1; i < json_array_size(sites); i++) {
		json_t *site = json_incref(json_array_get(sites, i));
		size_t at = i;

		while (at > 0 && costs_more(site, json_array_get(sites, at - 1)))
			at--;
		if (at < i) {
			json_array_remove(sites, i);
			json_array_insert(sites, at, site);
		}
		json_decref(site);
	}
}

size_t merge_sites(json_t *document, const char *one, const char *many)
{
	json_t *sites = json_object_get(document, "sites"), *into;
	size_t gone = 0, i;

	json_array_foreach(sites, i, into)
	{
		size_t folded = 0;

		for (size_t j = i + 1; j < json_array_size(sites);) {
			json_t *from = json_array_get(sites, j);

			if (!same_place(into, from)) {
				j++;
				continue;
			}
			fold_site(into, from);
			json_array_remove(sites, j);
			folded++;
		}
		if (folded > 0)
			rewrite_amounts(into, one, many);
		gone += folded;
	}
	sort_sites(sites);
	return gone;
}
