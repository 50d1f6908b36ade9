/*
 * test_towstat_texts.c - whatever bytes a rank answers, what towstat makes of them is well formed:
 * a merged text is one that merges again, and no document makes nonsense of a reading.
 */
#include "twt.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "tools/towstat/documents.h"
#include "tools/towstat/metrics_merge.h"
#include "tools/towstat/reading.h"

#define CASES 3000

static uint64_t seed;

static size_t write_text(uint64_t *random, char *out, size_t size)
{
	static const char *const types[] = { "gauge", "counter", "histogram", "info" };
	static const char *const ends[] = { "", "_total", "_count", "_info" };
	size_t used = 0, families = twt_random_below(random, 4);

	for (size_t i = 0; i < families; i++) {
		size_t type = twt_random_below(random, 4), count = twt_random_below(random, 4);
		unsigned name = (unsigned)twt_random_below(random, 6);

		used += (size_t)snprintf(out + used, size - used, "# TYPE f%u %s\n# HELP f%u x\n",
					 name, types[type], name);
		for (size_t j = 0; j < count; j++)
			used += (size_t)snprintf(out + used, size - used,
						 "f%u%s{a=\"%u\",rank=\"\\\"\"} %u%s\n", name,
						 ends[type], (unsigned)twt_random_below(random, 9),
						 (unsigned)twt_random_below(random, 99),
						 twt_random_below(random, 2) != 0 ? " 1.5" : "");
	}
	return used + (size_t)snprintf(out + used, size - used, "# EOF\n");
}

/* Some bytes become others, or it is cut. */
static size_t spoil(uint64_t *random, char *text, size_t bytes)
{
	static const char likely[] = "\n #{}\",=\\1.\xff_aE";
	size_t times = twt_random_below(random, 4);

	for (size_t i = 0; i < times; i++)
		text[twt_random_below(random, bytes)] =
			likely[twt_random_below(random, sizeof(likely))];
	return twt_random_below(random, 8) == 0 ? twt_random_below(random, bytes) : bytes;
}

static void merges_again(void **state)
{
	char text[4096], error[200];
	size_t taken = 0, refused = 0, bytes, again_bytes;

	(void)state;
	for (uint64_t i = 0; i < CASES; i++) {
		uint64_t random = seed + i;
		struct metrics_merge *merge = metrics_merge_create(1 << 20);
		struct metrics_merge *again = metrics_merge_create(1 << 20);
		char *all, *all_again;

		for (int rank = 0; rank < 3; rank++) {
			char labels[32];

			snprintf(labels, sizeof(labels), "job=\"j\",rank=\"%d\"", rank);
			bytes = write_text(&random, text, sizeof(text));
			bytes = spoil(&random, text, bytes);
			if (metrics_merge_add(merge, text, bytes, labels, error, sizeof(error)) ==
			    0)
				taken++;
			else
				refused++;
		}
		all = metrics_merge_take(merge, &bytes);
		assert_non_null(all);
		if (metrics_merge_add(again, all, bytes, "node=\"n\"", error, sizeof(error)) != 0)
			fail_msg("seed %llu: %s in\n%s", (unsigned long long)(seed + i), error,
				 all);
		all_again = metrics_merge_take(again, &again_bytes);
		assert_non_null(all_again);
		assert_true(again_bytes >= bytes);
		free(all);
		free(all_again);
		metrics_merge_destroy(merge);
		metrics_merge_destroy(again);
	}
	assert_true(taken > CASES / 4 && refused > CASES / 4);
}

/* A value of a kind that nobody asked for. */
static json_t *any(uint64_t *random, int depth)
{
	switch (twt_random_below(random, depth > 0 ? 9 : 6)) {
	case 0:
		return json_integer((json_int_t)twt_random(random));
	case 1:
		return json_real(-1e300);
	case 2:
		return json_string("\033[2Jtext");
	case 3:
		return json_null();
	case 4:
		return json_integer((json_int_t)twt_random_below(random, 100));
	case 5:
		return json_true();
	case 6:
		return json_object();
	default: {
		json_t *array = json_array();
		size_t count = twt_random_below(random, 5);

		for (size_t i = 0; i < count; i++)
			json_array_append_new(array, any(random, depth - 1));
		return array;
	}
	}
}

static json_t *any_document(uint64_t *random)
{
	static const char *const keys[] = { "counters", "rpcs",   "buckets", "last",    "groups",
					    "entries",  "now_ns", "wait_ns", "done_ns", "slack_ns",
					    "sends",    "calls",  "reasons", "name",    "count" };
	json_t *parent = json_object(), *child = json_object();

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		json_object_set_new(child, keys[i], any(random, 2));
		json_object_set_new(parent, keys[i], any(random, 2));
	}
	/* A row of the right shape with wrong values: arrays of what the child is. */
	json_object_set_new(parent, keys[1 + twt_random_below(random, 5)],
			    json_pack("[O, O]", child, child));
	json_object_set_new(parent, "counters", child);
	return parent;
}

static void reads_anything(void **state)
{
	struct reading *readings = calloc(2, sizeof(*readings));
	struct comparison *found = calloc(1, sizeof(*found));
	const struct compare_options options = { NULL, 0.1, false };
	struct verdict verdict;
	char text[64];

	(void)state;
	assert_true(readings != NULL && found != NULL);
	for (uint64_t i = 0; i < CASES; i++) {
		uint64_t random = seed + i;
		json_t *document = any_document(&random), *other = any_document(&random);
		struct reading *to = &readings[i % 2];
		struct figures f;

		to->at_s = (double)i;
		reading_counters(to, document);
		reading_latency(to, document);
		reading_pool(to, document);
		reading_colls(to, document);
		figures_between(&readings[(i + 1) % 2], to, &f);
		assert_true(isfinite(f.out_bytes) && f.out_bytes >= 0 && isfinite(f.p99_ns));
		assert_true(f.exposed_share <= 1 && isfinite(f.slack_p50_ns));
		reading_verdict(document, &verdict);
		assert_null(strchr(verdict.text, '\033'));
		assert_int_equal(
			documents_compare(document, other, &options, found, text, sizeof(text)), 0);
		for (size_t j = 0; j < found->count; j++)
			assert_true(!isnan(found->rows[j].change));
		json_decref(document);
		json_decref(other);
	}
	free(readings);
	free(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merges_again),
		cmocka_unit_test(reads_anything),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
