/* test_dpdk_reply.c - DPDK's telemetry: what a request gets, and documents cut into pages. */
#include "twt.h"

#include <jansson.h>
#include <string.h>

#include "diag/base/emit.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "diag/serve/dpdk_reply.h"

static char out[TWI_DPDK_OUTPUT_MAX];

static int setup(void **state)
{
	return twi_diag_create((struct twi_diag **)state);
}

static int teardown(void **state)
{
	twi_diag_destroy(*state);
	return 0;
}

static json_t *ask_bytes(struct twi_diag *diag, const char *request, size_t bytes)
{
	json_error_t error;
	json_t *root;

	memset(out, 'x', sizeof(out));
	bytes = twi_dpdk_reply(diag, request, bytes, out);
	assert_in_range(bytes, 1, TWI_DPDK_OUTPUT_MAX);
	root = json_loadb(out, bytes, 0, &error);
	if (root == NULL)
		fail_msg("%s in %.*s", error.text, (int)bytes, out);
	return root;
}

static json_t *ask(struct twi_diag *diag, const char *request)
{
	return ask_bytes(diag, request, strlen(request));
}

static void is_null(struct twi_diag *diag, const char *request, const char *key)
{
	json_t *root = ask(diag, request);

	assert_int_equal(json_object_size(root), 1);
	if (!json_is_null(json_object_get(root, key)) || json_object_get(root, key) == NULL)
		fail_msg("no null at %s", key);
	json_decref(root);
}

static void commands(void **state)
{
	json_t *root, *list;
	size_t bytes = twi_dpdk_greet(out);

	assert_true(bytes < 1024);
	root = json_loadb(out, bytes, 0, NULL);
	assert_int_equal(json_integer_value(json_object_get(root, "max_output_len")),
			 TWI_DPDK_OUTPUT_MAX);
	json_decref(root);
	root = ask(*state, "/");
	list = json_object_get(root, "/");
	assert_true(json_array_size(list) >= 8);
	assert_string_equal(json_string_value(json_array_get(list, 0)), "/");
	json_decref(root);
	root = ask(*state, "/help,/towline/counters");
	list = json_object_get(root, "/help");
	assert_true(json_is_string(json_object_get(list, "/towline/counters")));
	json_decref(root);
	root = ask(*state, "/help");
	assert_true(json_is_string(json_object_get(json_object_get(root, "/help"), "/help")));
	json_decref(root);
	twi_count(*state, TWI_C_sends, 7);
	root = ask(*state, "/towline/counters");
	list = json_object_get(root, "/towline/counters");
	assert_int_equal(json_integer_value(json_object_get(list, "sends")), 7);
	json_decref(root);
}

static void hostile_requests(void **state)
{
	char text[2000];
	json_t *root;

	is_null(*state, "/none", "/none");
	is_null(*state, "", "");
	is_null(*state, ",", "");
	is_null(*state, "/help,/none", "/help");
	is_null(*state, "/towline/", "/towline/");
	is_null(*state, "/towline/none", "/towline/none");
	is_null(*state, "/towline/counters,-1", "/towline/counters");
	is_null(*state, "/towline/counters,1x", "/towline/counters");
	is_null(*state, "/towline/counters,99999999999999999999", "/towline/counters");
	is_null(*state, "/towline/counters,5", "/towline/counters");
	is_null(*state, "/a\"\\\n", "/a\"\\\n");
	is_null(*state, "/towline/../metrics", "/towline/../metrics");
	json_decref(ask(*state, "\xff\xfe\x01"));
	memset(text, '/', sizeof(text));
	json_decref(ask_bytes(*state, text, sizeof(text)));
	json_decref(ask_bytes(*state, text, 55));
	json_decref(ask_bytes(*state, text, 56));
	json_decref(ask_bytes(*state, "/\0x", 3)); /* as C sees it: "/" */
	root = ask_bytes(*state, text, 0);
	json_decref(root);
}

/* --- pages: every scalar once, in order, whatever the document --- */

struct maker {
	struct twi_emit e;
	uint64_t random;
	unsigned scalars;
};

static void make_value(struct maker *maker, const char *key, unsigned depth)
{
	unsigned kind = (unsigned)twt_random_below(&maker->random, depth < 6 ? 8 : 5);
	unsigned count = (unsigned)twt_random_below(&maker->random, 9);
	char name[64];

	if (kind >= 5) {
		if (kind == 5 && key != NULL) /* else it is a bucket */
			twi_emit_array_begin(&maker->e, key);
		else
			twi_emit_object_begin(&maker->e, key);
		for (unsigned i = 0; i < count; i++) {
			snprintf(name, sizeof(name), "k%u%s", i, i % 3 == 0 ? "\"\\,}]" : "");
			make_value(maker, kind == 5 && key != NULL ? NULL : name, depth + 1);
		}
		if (kind == 5 && key != NULL)
			twi_emit_array_end(&maker->e);
		else
			twi_emit_object_end(&maker->e);
		return;
	}
	maker->scalars++;
	if (kind == 0)
		twi_emit_bool(&maker->e, key, true);
	else if (kind == 1)
		twi_emit_str(&maker->e, key, NULL);
	else if (kind == 2)
		twi_emit_str(&maker->e, key, "a \"string\" with ,{}[]: \\ and \n");
	else
		twi_emit_u64(&maker->e, key, maker->scalars);
}

static unsigned count_page(const char *page, long bytes)
{
	char *text = malloc((size_t)bytes + 3);
	json_t *root;
	unsigned count;

	assert_non_null(text);
	sprintf(text, "{%.*s}", (int)bytes, page);
	root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	if (root == NULL)
		fail_msg("no JSON: %s", text);
	count = (unsigned)json_object_size(root);
	json_decref(root);
	free(text);
	return count;
}

static void every_scalar_once(void **state)
{
	uint64_t seed = twt_seed();

	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		struct maker maker = { .random = seed + round };
		size_t room = 300 + twt_random_below(&maker.random, 4000);
		unsigned seen = 0, page = 0;
		char key[16];
		int more = 1;

		twi_emit_object_begin(&maker.e, NULL);
		for (unsigned i = 0; i < 12; i++) {
			snprintf(key, sizeof(key), "top%u", i);
			make_value(&maker, key, 0);
		}
		twi_emit_object_end(&maker.e);
		for (; more; page++) {
			long bytes = twi_dpdk_page(maker.e.text, "top3", page, room, out, &more);

			assert_in_range(bytes, 0, room);
			seen += count_page(out, bytes);
		}
		assert_int_equal(twi_dpdk_page(maker.e.text, "top3", page, room, out, &more), -1);
		if (seen != maker.scalars)
			fail_msg("seed %llu round %u: %u of %u", (unsigned long long)seed, round,
				 seen, maker.scalars);
		twi_emit_fini(&maker.e);
	}
}

static void odd_documents(void **state)
{
	static const char *const broken[] = { "",     "[",        "{\"a\"",    "{\"a\":",
					      "[1]",  "{\"a\":{", "{\"a\":\"", "{\"a\":\"\\",
					      "null", "{\"a\":[", "{,}",       "{\"a\" 1}" };
	char deep[200] = "{\"a\":";
	int more;

	(void)state;
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		if (twi_dpdk_page(broken[i], "", 0, 1000, out, &more) != -1)
			fail_msg("'%s' has a page", broken[i]);
	}
	assert_int_equal(twi_dpdk_page("{}", "", 0, 1000, out, &more), 0);
	assert_true(twi_dpdk_page("{\"x\":5}", "x", 0, 1000, out, &more) > 0);
	assert_string_equal(out, "\"x\":5");
	/* histograms' buckets are left out */
	assert_true(twi_dpdk_page("{\"b\":[[1,2],[3,4]],\"c\":1}", "", 0, 1000, out, &more) > 0);
	assert_string_equal(out, "\"c\":1");
	/* what is nested too deep is left out, and what comes behind it is not */
	for (unsigned i = 0; i < 30; i++)
		strcat(deep, "{\"a\":");
	strcat(deep, "1");
	for (unsigned i = 0; i < 30; i++)
		strcat(deep, "}");
	strcat(deep, ",\"z\":2}");
	assert_true(twi_dpdk_page(deep, "", 0, 1000, out, &more) > 0);
	assert_string_equal(out, "\"z\":2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(commands, setup, teardown),
		cmocka_unit_test_setup_teardown(hostile_requests, setup, teardown),
		cmocka_unit_test(every_scalar_once),
		cmocka_unit_test(odd_documents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
