/* test_registry.c - documents are put together from their sources, and end with them. */
#include "twt.h"

#include <jansson.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "diag/serve/render.h"

static json_t *render(struct twi_diag *diag, const char *path)
{
	struct twi_emit e = { 0 };
	json_error_t error;
	json_t *root;

	assert_int_equal(twi_registry_render(diag, path, &e), TOW_OK);
	root = json_loadb(e.text, e.bytes, 0, &error);
	if (root == NULL)
		fail_msg("%s in %s", error.text, e.text);
	twi_emit_fini(&e);
	return root;
}

static void say(void *arg, struct twi_emit *e)
{
	twi_emit_bool(e, arg, true);
}

static int setup(void **state)
{
	return twi_diag_create((struct twi_diag **)state);
}

static int teardown(void **state)
{
	twi_diag_destroy(*state);
	return 0;
}

static void sources_share_a_path(void **state)
{
	struct twi_diag *diag = *state;
	char one[] = "one", two[] = "two";
	const struct twi_source first = { "/v1/info", "x", say, one };
	const struct twi_source second = { "/v1/info", "y", say, two };
	json_t *root;

	assert_int_equal(twi_registry_add(diag, &first), TOW_OK);
	assert_int_equal(twi_registry_add(diag, &second), TOW_OK);
	root = render(diag, "/v1/info");
	assert_true(json_is_true(json_object_get(root, "one")));
	assert_true(json_is_true(json_object_get(root, "two")));
	assert_true(json_is_string(json_object_get(root, "version")));
	json_decref(root);
	twi_registry_remove(diag, "/v1/info", one);
	root = render(diag, "/v1/info");
	assert_null(json_object_get(root, "one"));
	assert_true(json_is_true(json_object_get(root, "two")));
	json_decref(root);
}

static void lists_each_path_once(void **state)
{
	struct twi_diag *diag = *state;
	char name[] = "x";
	const struct twi_source a = { "/v1/own", "own", say, name };
	const struct twi_source b = { "/v1/own", "own again", say, diag };
	json_t *root, *entry;
	size_t index, own = 0, info = 0, count;

	assert_int_equal(twi_registry_add(diag, &a), TOW_OK);
	assert_int_equal(twi_registry_add(diag, &b), TOW_OK);
	root = render(diag, "/v1");
	count = json_array_size(json_object_get(root, "paths"));
	json_array_foreach(json_object_get(root, "paths"), index, entry)
	{
		const char *path = json_string_value(json_object_get(entry, "path"));

		own += strcmp(path, "/v1/own") == 0;
		info += strcmp(path, "/v1/info") == 0;
		assert_true(strlen(json_string_value(json_object_get(entry, "help"))) > 0);
	}
	assert_int_equal(own, 1);
	assert_int_equal(info, 1);
	assert_int_equal(count, 9);
	json_decref(root);
	root = render(diag, "/");
	assert_int_equal(json_array_size(json_object_get(root, "paths")), count);
	json_decref(root);
}

static void refuses(void **state)
{
	struct twi_diag *diag = *state;
	struct twi_source source = { "/other", "x", say, NULL };
	struct twi_emit e = { 0 };

	assert_int_equal(twi_registry_add(diag, &source), TOW_EINVAL);
	assert_int_equal(twi_registry_render(diag, "/v1/nothing", &e), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "/v1/nothing"));
	assert_null(e.text);
	source.path = "/v1/x";
	for (int i = 0; i < TWI_REGISTRY_SOURCES; i++)
		assert_int_equal(twi_registry_add(diag, &source), TOW_OK);
	assert_int_equal(twi_registry_add(diag, &source), TOW_EBUSY);
	twi_registry_remove(diag, "/v1/x", NULL);
	assert_int_equal(twi_registry_render(diag, "/v1/x", &e), TOW_EINVAL);
}

static uint64_t seven(void *arg)
{
	(void)arg;
	return 7;
}

/* What is counted in ns is told in seconds; a unit is the end of a name, once. */
static void gauges_have_units(void **state)
{
	static const struct twi_gauge gauges[] = {
		{ "a_ns", "ns", "x", seven, NULL },        { "b", "bytes", "x", seven, NULL },
		{ "c_bytes", "bytes", "x", seven, NULL },  { "d", "count", "x", seven, NULL },
		{ "lowbytes", "bytes", "x", seven, NULL }, { "e_count", "count", "x", seven, NULL },
	};
	static const char *const lines[] = {
		"# UNIT towline_a_seconds seconds\n",
		"\ntowline_a_seconds 0.000000007\n",
		"\ntowline_b_bytes 7\n",
		"\ntowline_c_bytes 7\n",
		"\ntowline_d 7\n",
		"\ntowline_lowbytes_bytes 7\n",
		"\ntowline_e_count 7\n",
	};
	struct twi_diag *diag = *state;
	struct twi_emit e = { 0 };

	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
		assert_int_equal(twi_registry_gauge(diag, &gauges[i]), TOW_OK);
	assert_int_equal(twi_registry_render(diag, "/metrics", &e), TOW_OK);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (strstr(e.text, lines[i]) == NULL)
			fail_msg("%s is not in %s", lines[i], e.text);
	}
	twi_emit_fini(&e);
}

static void gauges_come_and_go(void **state)
{
	struct twi_diag *diag = *state;
	struct twi_gauge gauge = { "pool_mapped", "bytes", "x", seven, NULL };
	struct twi_emit e = { 0 };

	assert_int_equal(twi_registry_gauge(diag, &gauge), TOW_OK);
	gauge.arg = diag; /* a second pool: its name is there once all the same */
	assert_int_equal(twi_registry_gauge(diag, &gauge), TOW_OK);
	assert_int_equal(twi_registry_render(diag, "/metrics", &e), TOW_OK);
	assert_non_null(strstr(e.text, "\ntowline_pool_mapped_bytes 7\n# EOF\n"));
	assert_non_null(strstr(e.text, "# UNIT towline_pool_mapped_bytes bytes\n"));
	twi_registry_gauge_remove(diag, "pool_mapped", NULL);
	twi_registry_gauge_remove(diag, "pool_mapped", diag);
	assert_int_equal(twi_registry_render(diag, "/metrics", &e), TOW_OK);
	assert_null(strstr(e.text, "pool_mapped"));
	twi_emit_fini(&e);
}

static void counts_and_reasons(void **state)
{
	struct twi_diag *diag = *state;
	json_t *root, *row;

	twi_count(diag, TWI_C_sends, 3);
	twi_copy_record(diag, TWI_R_unexpected_arrival, 100, 5, TWI_SITE_NONE);
	root = render(diag, "/v1/counters");
	row = json_object_get(root, "counters");
	assert_int_equal(json_object_size(row), TWI_C_COUNT);
	assert_int_equal(json_integer_value(json_object_get(row, "sends")), 3);
	assert_int_equal(json_array_size(json_object_get(root, "reasons")), TWI_R_COUNT);
	row = json_array_get(json_object_get(root, "reasons"), TWI_R_unexpected_arrival);
	assert_int_equal(json_integer_value(json_object_get(row, "bytes")), 100);
	assert_int_equal(json_integer_value(json_object_get(row, "ns")), 5);
	assert_string_equal(json_string_value(json_object_get(row, "kind")), "copy");
	json_decref(root);
}

static void latencies_have_quantiles(void **state)
{
	struct twi_diag *diag = *state;
	json_t *root, *row, *bucket;
	json_int_t total = 0;
	size_t index;

	for (int i = 1; i <= 1000; i++)
		twi_latency_record(diag, TWI_LANE_TCP, 100, (uint64_t)i * 1000);
	root = render(diag, "/v1/latency");
	assert_int_equal(json_array_size(json_object_get(root, "rpcs")), 1);
	row = json_array_get(json_object_get(root, "rpcs"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "lane")), "tcp");
	assert_int_equal(json_integer_value(json_object_get(row, "bytes_min")), 65);
	assert_int_equal(json_integer_value(json_object_get(row, "bytes_max")), 512);
	assert_in_range(json_integer_value(json_object_get(row, "p50")), 500000, 535000);
	assert_int_equal(json_integer_value(json_object_get(row, "p999")), 1000000);
	assert_int_equal(json_integer_value(json_object_get(row, "max")), 1000000);
	json_array_foreach(json_object_get(row, "buckets"), index, bucket) total +=
		json_integer_value(json_array_get(bucket, 1));
	assert_int_equal(total, 1000);
	json_decref(root);
}

struct race {
	struct twi_diag *diag;
	atomic_int *alive;
	atomic_bool stop;
};

static void use(void *arg, struct twi_emit *e)
{
	atomic_int *alive = arg;

	assert_int_equal(atomic_load(alive), 1);
	twi_emit_u64(e, "alive", 1);
}

static void *ask(void *arg)
{
	struct race *race = arg;
	struct twi_emit e = { 0 };

	while (!atomic_load(&race->stop))
		twi_registry_render(race->diag, "/v1/race", &e);
	twi_emit_fini(&e);
	return NULL;
}

/* After remove has returned, the source's memory can go. */
static void remove_waits(void **state)
{
	struct race race = { .diag = *state };
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, ask, &race), 0);
	for (int i = 0; i < 500; i++) {
		atomic_int *alive = calloc(1, sizeof(*alive));
		const struct twi_source source = { "/v1/race", "x", use, alive };

		assert_non_null(alive);
		atomic_store(alive, 1);
		assert_int_equal(twi_registry_add(*state, &source), TOW_OK);
		twi_registry_remove(*state, "/v1/race", alive);
		atomic_store(alive, 0);
		free(alive);
	}
	atomic_store(&race.stop, true);
	pthread_join(thread, NULL);
}

static pthread_mutex_t engine = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool waits;

static void take_engine(void *arg, struct twi_emit *e)
{
	(void)arg;
	atomic_store(&waits, true);
	pthread_mutex_lock(&engine);
	twi_emit_bool(e, "taken", true);
	pthread_mutex_unlock(&engine);
}

static void *ask_engine(void *arg)
{
	json_decref(render(arg, "/v1/engine"));
	return NULL;
}

/* Who holds what a source waits for may ask as well: a callback has the engine. */
static void waiting_source_blocks_nobody(void **state)
{
	const struct twi_source source = { "/v1/engine", "x", take_engine, NULL };
	pthread_t thread;

	assert_int_equal(twi_registry_add(*state, &source), TOW_OK);
	pthread_mutex_lock(&engine);
	assert_int_equal(pthread_create(&thread, NULL, ask_engine, *state), 0);
	while (!atomic_load(&waits))
		sched_yield();
	alarm(20);
	json_decref(render(*state, "/v1/info"));
	alarm(0);
	pthread_mutex_unlock(&engine);
	pthread_join(thread, NULL);
}

static int capture_start(void *arg, int64_t seconds, void **session_out, uint64_t *wait_ns_out)
{
	(void)arg, (void)seconds, (void)session_out, (void)wait_ns_out;
	return TOW_OK;
}

static int capture_finish(void *arg, void *session, char **bytes_out, size_t *count_out)
{
	(void)arg, (void)session, (void)bytes_out, (void)count_out;
	return TOW_OK;
}

static void captures_come_and_go(void **state)
{
	struct twi_diag *diag = *state;
	struct twi_capture capture = { .path = "/v1/c",
				       .help = "c",
				       .content_type = "a/b",
				       .seconds_max = 9,
				       .start = capture_start,
				       .finish = capture_finish };
	struct twi_capture found;
	struct twi_emit e = { 0 };
	json_t *root;
	size_t paths;

	root = render(diag, "/v1");
	paths = json_array_size(json_object_get(root, "paths"));
	json_decref(root);
	assert_false(twi_registry_capture_find(diag, "/v1/c", &found));
	assert_int_equal(twi_registry_capture(diag, &capture), TOW_OK);
	assert_true(twi_registry_capture_find(diag, "/v1/c", &found));
	assert_int_equal(found.seconds_max, 9);
	assert_int_equal(twi_registry_render(diag, "/v1/c", &e), TOW_EINVAL); /* no document */
	root = render(diag, "/v1");
	assert_int_equal(json_array_size(json_object_get(root, "paths")), paths + 1);
	for (size_t i = 0; i <= paths; i++) { /* it alone is said to be one; it stands last */
		const json_t *row = json_array_get(json_object_get(root, "paths"), i);

		assert_true(json_is_true(json_object_get(row, "capture")) == (i == paths));
	}
	json_decref(root);
	twi_registry_capture_remove(diag, "/v1/c", diag);
	assert_true(twi_registry_capture_find(diag, "/v1/c", &found));
	twi_registry_capture_remove(diag, "/v1/c", NULL);
	assert_false(twi_registry_capture_find(diag, "/v1/c", &found));
	for (int i = 0; i < TWI_REGISTRY_CAPTURES; i++)
		assert_int_equal(twi_registry_capture(diag, &capture), TOW_OK);
	assert_int_equal(twi_registry_capture(diag, &capture), TOW_EBUSY);
	capture.path = "/c";
	assert_int_equal(twi_registry_capture(diag, &capture), TOW_EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sources_share_a_path),
		TEST(lists_each_path_once),
		TEST(refuses),
		TEST(gauges_have_units),
		TEST(gauges_come_and_go),
		TEST(counts_and_reasons),
		TEST(latencies_have_quantiles),
		TEST(captures_come_and_go),
		TEST(remove_waits),
		TEST(waiting_source_blocks_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
