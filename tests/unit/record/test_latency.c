/* test_latency.c - latencies by peer and part: bounded, never lost, the worst remembered. */
#include "twt.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/latency.h"
#include "diag/record/span.h"
#include "diag/serve/render.h"

static int setup(void **state)
{
	return twi_diag_create((struct twi_diag **)state);
}

static int teardown(void **state)
{
	twi_diag_destroy(*state);
	return 0;
}

static json_t *latency_of(struct twi_diag *diag)
{
	struct twi_emit e = { 0 };
	json_error_t error;
	json_t *root;

	assert_int_equal(twi_registry_render(diag, "/v1/latency", &e), TOW_OK);
	root = json_loadb(e.text, e.bytes, 0, &error);
	if (root == NULL)
		fail_msg("%s in %s", error.text, e.text);
	twi_emit_fini(&e);
	return root;
}

static char *metrics_of(struct twi_diag *diag)
{
	struct twi_emit e = { 0 };
	char *text;

	assert_int_equal(twi_registry_render(diag, "/metrics", &e), TOW_OK);
	assert_int_equal(twi_emit_take(&e, &text), TOW_OK);
	return text;
}

/* A message of some bytes that took `ns`, a tenth of it queued and a fifth unmatched. */
static void note(struct twi_diag *diag, struct twi_latency_row **row, const char *name, uint64_t id,
		 uint64_t bytes, uint64_t ns)
{
	const struct twi_latency_reading reading = {
		.lane = TWI_LANE_TCP,
		.id = id,
		.bytes = bytes,
		.end_ns = twi_now_ns(),
		.parts_ns = { [TWI_LATENCY_TOTAL] = ns,
			      [TWI_LATENCY_QUEUE] = ns / 10,
			      [TWI_LATENCY_SERVER_QUEUE] = TWI_LATENCY_UNKNOWN,
			      [TWI_LATENCY_WIRE] = ns - ns / 10 - ns / 5,
			      [TWI_LATENCY_MATCH] = ns / 5,
			      [TWI_LATENCY_SERVE] = TWI_LATENCY_UNKNOWN },
	};

	twi_latency_note(diag, row, name, &reading);
}

static json_int_t number(const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	if (!json_is_integer(value))
		fail_msg("no number at %s", key);
	return json_integer_value(value);
}

static const json_t *peer_in(const json_t *row, const char *name)
{
	const json_t *peer;
	size_t i;

	json_array_foreach(json_object_get(row, "peers"), i, peer)
	{
		if (strcmp(json_string_value(json_object_get(peer, "peer")), name) == 0)
			return peer;
	}
	return NULL;
}

static void sums_agree(const json_t *row)
{
	json_int_t count = 0, most = 0;
	const json_t *peer;
	size_t i;

	json_array_foreach(json_object_get(row, "peers"), i, peer)
	{
		count += number(peer, "count");
		most = number(peer, "max") > most ? number(peer, "max") : most;
	}
	assert_int_equal(count, number(row, "count"));
	assert_int_equal(most, number(row, "max"));
}

static void peers_and_parts(void **state)
{
	struct twi_latency_row *rows[2] = { NULL, NULL };
	json_t *root, *row;
	const json_t *peer, *parts;

	for (uint64_t i = 1; i <= 100; i++) {
		note(*state, &rows[0], "tcp://a", i, 100, i * 1000);
		note(*state, &rows[1], "tcp://b", i, 100, 5000);
	}
	twi_span_peer(*state, "tcp://a", 3);
	twi_span_peer(*state, "tcp://b", -1);
	twi_latency_record(*state, TWI_LANE_TCP, 100, 7000); /* nobody knows with whom */
	root = latency_of(*state);
	assert_int_equal(json_array_size(json_object_get(root, "rpcs")), 1);
	row = json_array_get(json_object_get(root, "rpcs"), 0);
	assert_int_equal(number(row, "count"), 201);
	sums_agree(row);
	peer = peer_in(row, "tcp://a");
	assert_non_null(peer);
	assert_int_equal(number(peer, "count"), 100);
	assert_in_range(number(peer, "p50"), 50000, 54000);
	assert_int_equal(number(peer, "p9999"), 100000);
	assert_true(json_is_true(json_object_get(peer, "connected")));
	parts = json_object_get(peer, "parts");
	assert_in_range(number(json_object_get(parts, "queue"), "p50"), 5000, 5400);
	assert_in_range(number(json_object_get(parts, "match"), "max"), 20000, 20000);
	assert_in_range(number(json_object_get(parts, "wire"), "max"), 70000, 70000);
	assert_null(json_object_get(parts, "serve"));
	assert_int_equal(number(peer_in(row, "(other)"), "count"), 1);
	/* What is not known to have queued was timed where it arrived. */
	assert_int_equal(number(peer, "bytes"), 100 * 100);
	assert_int_equal(number(peer, "received"), 0);
	assert_int_equal(number(peer_in(row, "(other)"), "received"), 1);
	assert_int_equal(number(row, "bytes"), 201 * 100);
	assert_int_equal(number(row, "received"), 1);
	assert_int_equal(number(peer, "rank"), 3);
	assert_true(json_is_null(json_object_get(peer_in(row, "tcp://b"), "rank")));
	json_decref(root);
	twi_latency_leave(*state, &rows[1]);
	assert_null(rows[1]);
	root = latency_of(*state);
	row = json_array_get(json_object_get(root, "rpcs"), 0);
	assert_true(json_is_false(json_object_get(peer_in(row, "tcp://b"), "connected")));
	json_decref(root);
	twi_latency_leave(*state, &rows[0]);
}

/* One that comes again is the same peer; two connections to it share its row. */
static void same_peer_same_row(void **state)
{
	struct twi_latency_row *first = NULL, *second = NULL;

	note(*state, &first, "tcp://a", 1, 8, 1000);
	note(*state, &second, "tcp://a", 2, 8, 1000);
	assert_ptr_equal(first, second);
	twi_latency_leave(*state, &first);
	twi_latency_leave(*state, &second);
	note(*state, &first, "tcp://a", 3, 8, 1000);
	twi_latency_leave(*state, &first);
}

/* Any number of peers, and every reading is in the sums. */
static void peers_have_a_bound(void **state)
{
	struct twi_latency_row *rows[200] = { NULL };
	struct twi_diag *diag = *state;
	json_t *root, *row;
	char name[32];

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 200; i++) {
			snprintf(name, sizeof(name), "tcp://%u.%u", round, i);
			note(diag, &rows[i], name, i, 100, 1000);
			note(diag, &rows[i], name, i, 100000, 2000);
		}
		/* the first ones have rows of their own, all others share one */
		assert_non_null(rows[0]);
		assert_null(rows[199]);
		for (unsigned i = 0; i < 200; i++)
			twi_latency_leave(diag, &rows[i]);
	}
	root = latency_of(diag);
	assert_int_equal(json_array_size(json_object_get(root, "rpcs")), 2);
	for (unsigned i = 0; i < 2; i++) {
		row = json_array_get(json_object_get(root, "rpcs"), i);
		assert_int_equal(number(row, "count"), 600);
		assert_int_equal(json_array_size(json_object_get(row, "peers")),
				 TWI_LATENCY_PEERS + 1);
		assert_non_null(peer_in(row, "tcp://2.0"));
		assert_null(peer_in(row, "tcp://0.0"));
		assert_int_equal(number(peer_in(row, "(other)"), "count"), 600 - TWI_LATENCY_PEERS);
		assert_int_equal(
			number(json_object_get(json_object_get(row, "parts"), "queue"), "count"),
			600);
		sums_agree(row);
	}
	json_decref(root);
}

/* When a peer goes, one that was crowded out gets its row. */
static void crowd_ends(void **state)
{
	struct twi_latency_row *rows[TWI_LATENCY_PEERS] = { NULL }, *late = NULL;
	char name[32];

	for (unsigned i = 0; i < TWI_LATENCY_PEERS; i++) {
		snprintf(name, sizeof(name), "tcp://%u", i);
		note(*state, &rows[i], name, i, 8, 1000);
	}
	note(*state, &late, "tcp://late", 1, 8, 1000);
	assert_null(late);
	twi_latency_leave(*state, &rows[17]);
	note(*state, &late, "tcp://late", 2, 8, 1000);
	assert_non_null(late);
}

static void worst_are_kept(void **state)
{
	struct twi_latency_row *row = NULL;
	uint64_t seed = twt_seed(), ids[1000], most[TWI_LATENCY_WORST] = { 0 };
	struct twi_exemplars *found = calloc(1, sizeof(*found));
	uint64_t random = seed;

	assert_non_null(found);
	assert_false(twi_latencies_exemplars(((struct twi_diag *)*state)->latencies,
					     TWI_LATENCY_MESSAGES, TWI_LANE_TCP, 0, found));
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t ns = 1000 + twt_random_below(&random, 10000000);
		unsigned at = TWI_LATENCY_WORST;

		ids[i] = ns;
		note(*state, &row, "tcp://a", i, 8, ns);
		while (at > 0 && most[at - 1] < ns) {
			if (at < TWI_LATENCY_WORST)
				most[at] = most[at - 1];
			at--;
		}
		if (at < TWI_LATENCY_WORST)
			most[at] = ns;
	}
	assert_true(twi_latencies_exemplars(((struct twi_diag *)*state)->latencies,
					    TWI_LATENCY_MESSAGES, TWI_LANE_TCP, 0, found));
	assert_int_equal(found->worst_count, TWI_LATENCY_WORST);
	for (unsigned i = 0; i < TWI_LATENCY_WORST; i++) {
		const struct twi_exemplar *one = &found->worst[i];

		assert_int_equal(one->parts_ns[TWI_LATENCY_TOTAL], most[i]);
		assert_int_equal(ids[one->id], most[i]);
		assert_string_equal(one->peer, "tcp://a");
		assert_int_equal(one->bytes, 8);
	}
	for (unsigned i = 0; i < TWI_LATENCY_EDGES; i++) {
		uint64_t ns = found->recent[i].parts_ns[TWI_LATENCY_TOTAL];

		if (found->recent[i].unix_ns != 0)
			assert_int_equal(twi_latency_edge_of(ns), i);
		for (unsigned j = 0; j < 1000; j++) {
			if (twi_latency_edge_of(ids[j]) == i)
				assert_true(ids[j] <= ns);
		}
	}
	twi_latency_leave(*state, &row);
	free(found);
}

/* The bucket is reckoned, not looked for: it is the first whose edge is not below the reading's. */
static void edges_are_reckoned(void **state)
{
	(void)state;
	for (unsigned edge = 0; edge < TWI_LATENCY_EDGES - 1; edge++) {
		uint64_t ns = twi_latency_edge_ns(edge);

		for (uint64_t at = ns - 3; at <= ns + ns / 16; at += 1 + ns / 4096) {
			uint64_t upper = twi_hist_upper(twi_hist_index(at));
			unsigned want = 0;

			while (upper > twi_latency_edge_ns(want))
				want++;
			assert_int_equal(twi_latency_edge_of(at), want);
		}
	}
	assert_int_equal(twi_latency_edge_of(0), 0);
	assert_int_equal(twi_latency_edge_of(UINT64_MAX), TWI_LATENCY_EDGES - 1);
}

/* After a minute any reading takes the place of an old one. */
static void recent_grow_old(void **state)
{
	struct twi_latencies *latencies = ((struct twi_diag *)*state)->latencies;
	struct twi_latency_reading reading = {
		.lane = TWI_LANE_SHM,
		.id = 1,
		.bytes = 8,
		.end_ns = 1000,
		.parts_ns = { [TWI_LATENCY_TOTAL] = 3000, [TWI_LATENCY_WIRE] = 3000 }
	};
	struct twi_exemplars *found = calloc(1, sizeof(*found));
	struct twi_latency_row *row = NULL;

	assert_non_null(found);
	twi_latency_note(*state, &row, "shm://a", &reading);
	reading.id = 2;
	reading.parts_ns[TWI_LATENCY_TOTAL] = 2000;
	reading.end_ns += TWI_LATENCY_RECENT_NS;
	twi_latency_note(*state, &row, "shm://a", &reading);
	assert_true(twi_latencies_exemplars(latencies, 0, TWI_LANE_SHM, 0, found));
	assert_int_equal(found->recent[twi_latency_edge_of(2000)].id, 1);
	reading.id = 3;
	reading.end_ns++;
	twi_latency_note(*state, &row, "shm://a", &reading);
	assert_true(twi_latencies_exemplars(latencies, 0, TWI_LANE_SHM, 0, found));
	assert_int_equal(found->recent[twi_latency_edge_of(2000)].id, 3);
	assert_int_equal(found->worst[0].id, 1);
	twi_latency_leave(*state, &row);
	free(found);
}

/* The labels of an exemplar have at most 128 characters, whatever the peer is called. */
static void exemplars_are_short(void **state)
{
	struct twi_latency_row *row = NULL;
	char name[300], *text, *at, *end;

	memset(name, '"', sizeof(name));
	memcpy(name, "tcp://\n\\\xff", 9);
	name[299] = '\0';
	note(*state, &row, name, UINT64_MAX, 8, 1000000);
	text = metrics_of(*state);
	at = strstr(text, " # {rpc_id=\"18446744073709551615\",peer="
			  "\"tcp://__\xef\xbf\xbd_");
	assert_non_null(at);
	end = strstr(at, "\"} 0.001 ");
	assert_non_null(end);
	assert_true(end - at <= 3 + 128);
	assert_null(memchr(at, '\n', (size_t)(end - at)));
	/* the whole name, escaped, is a label of the peer's own histogram */
	assert_non_null(
		strstr(text, "towline_peer_latency_seconds_count{lane=\"tcp\",peer=\"tcp:"));
	free(text);
	twi_latency_leave(*state, &row);
}

/* Where the rank is known it is the label, and stays it when the rank connects from elsewhere. */
static void peers_are_told_by_rank(void **state)
{
	static const char *const names[] = { "tcp://a:1", "tcp://a:2", "tcp://b:1" };
	struct twi_latency_row *rows[3] = { NULL };
	char *text;

	assert_true(twi_span_peer(*state, names[0], 7) > 0);
	assert_true(twi_span_peer(*state, names[1], 7) > 0);
	for (unsigned i = 0; i < 3; i++)
		note(*state, &rows[i], names[i], i, 8, 1000000);
	text = metrics_of(*state);
	assert_non_null(strstr(
		text, "\ntowline_peer_latency_seconds_count{lane=\"tcp\",peer_rank=\"7\"} 2\n"));
	assert_non_null(strstr(text, "\ntowline_peer_latency_seconds_count{lane=\"tcp\",peer="
				     "\"tcp://b:1\"} 1\n"));
	assert_null(strstr(text, "lane=\"tcp\",peer=\"tcp://a"));
	free(text);
	for (unsigned i = 0; i < 3; i++)
		twi_latency_leave(*state, &rows[i]);
}

struct race {
	struct twi_diag *diag;
	atomic_bool stop;
};

static void *read_on(void *arg)
{
	struct race *race = arg;

	while (!atomic_load(&race->stop)) {
		free(metrics_of(race->diag));
		json_decref(latency_of(race->diag));
	}
	return NULL;
}

/* The writer waits for nobody, and what it could not place at once is in the sums all the same. */
static void readers_lose_nothing(void **state)
{
	struct race race = { .diag = *state };
	struct twi_latency_row *row = NULL;
	pthread_t thread;
	json_t *root;
	char name[32];

	assert_int_equal(pthread_create(&thread, NULL, read_on, &race), 0);
	for (unsigned i = 0; i < 4000; i++) {
		snprintf(name, sizeof(name), "tcp://%u", i / 10);
		note(*state, &row, name, i, 8, 1000 + i);
		if (i % 10 == 9)
			twi_latency_leave(*state, &row);
	}
	atomic_store(&race.stop, true);
	pthread_join(thread, NULL);
	root = latency_of(*state);
	assert_int_equal(number(json_array_get(json_object_get(root, "rpcs"), 0), "count"), 4000);
	sums_agree(json_array_get(json_object_get(root, "rpcs"), 0));
	json_decref(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(peers_and_parts, setup, teardown),
		cmocka_unit_test_setup_teardown(same_peer_same_row, setup, teardown),
		cmocka_unit_test_setup_teardown(peers_have_a_bound, setup, teardown),
		cmocka_unit_test_setup_teardown(crowd_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(worst_are_kept, setup, teardown),
		cmocka_unit_test(edges_are_reckoned),
		cmocka_unit_test_setup_teardown(recent_grow_old, setup, teardown),
		cmocka_unit_test_setup_teardown(exemplars_are_short, setup, teardown),
		cmocka_unit_test_setup_teardown(peers_are_told_by_rank, setup, teardown),
		cmocka_unit_test_setup_teardown(readers_lose_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
