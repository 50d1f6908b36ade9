/* test_dpdk_reply.c - DPDK's telemetry: what a request gets, and documents cut into pages. */
#include "twt.h"

#include <jansson.h>
#include <string.h>

#include "diag/base/emit.h"
#include "tools/towstat/dpdk_reply.h"

#define LIST                                                                                       \
	"{\"paths\":[{\"path\":\"/metrics\",\"help\":\"m\"},"                                      \
	"{\"path\":\"/v1/counters\",\"help\":\"all counters\"},{\"path\":\"/v1/info\"},"           \
	"{\"path\":\"/v1/verdict\",\"help\":\"v\",\"capture\":true},"                              \
	"{\"path\":\"/v1/no-command\",\"help\":\"n\"},{\"path\":7},5]}\n"
#define INFO     "{\"version\":\"0.1.0\",\"pid\":4711}\n"
#define COUNTERS "{\"counters\":{\"sends\":7},\"reasons\":[]}\n"

static char out[DPDK_OUTPUT_MAX];
static struct dpdk_documents documents;

static int setup(void **state)
{
	(void)state;
	return dpdk_documents_read(LIST, strlen(LIST), &documents) ? 0 : -1;
}

/* What a runtime has at the request's path. */
static const char *document_at(const char *path)
{
	if (strcmp(path, "/v1/info") == 0)
		return INFO;
	if (strcmp(path, "/v1/counters") == 0)
		return COUNTERS;
	return strcmp(path, DPDK_LIST_PATH) == 0 ? LIST : NULL;
}

static json_t *json_of(size_t bytes)
{
	json_error_t error;
	json_t *root;

	assert_in_range(bytes, 1, DPDK_OUTPUT_MAX);
	root = json_loadb(out, bytes, 0, &error);
	if (root == NULL)
		fail_msg("%s in %.*s", error.text, (int)bytes, out);
	return root;
}

static json_t *ask_bytes(const char *text, size_t bytes)
{
	struct dpdk_request request;
	const char *document;
	json_t *root;

	memset(out, 'x', sizeof(out));
	dpdk_request_parse(text, bytes, &request);
	document = document_at(request.path);
	root = json_of(dpdk_reply(&request, &documents, document,
				  document != NULL ? strlen(document) : 0, out));
	assert_int_equal(json_object_size(root), 1);
	return root;
}

static json_t *ask(const char *text)
{
	return ask_bytes(text, strlen(text));
}

static void is_null(const char *request, const char *key)
{
	json_t *root = ask(request);

	if (!json_is_null(json_object_get(root, key)) || json_object_get(root, key) == NULL)
		fail_msg("no null at %s", key);
	json_decref(root);
}

static void is_greeting(const json_t *self)
{
	assert_string_equal(json_string_value(json_object_get(self, "version")), "towline 0.1.0");
	assert_int_equal(json_integer_value(json_object_get(self, "pid")), 4711);
	assert_int_equal(json_integer_value(json_object_get(self, "max_output_len")),
			 DPDK_OUTPUT_MAX);
	assert_int_equal(json_object_size(self), 3);
}

static void commands(void **state)
{
	static const char *const all[] = { "/", "/help", "/info", "/towline/counters",
					   "/towline/info" };
	struct dpdk_request request;
	json_t *root, *list;

	(void)state;
	dpdk_request_greeting(&request);
	assert_string_equal(request.path, "/v1/info");
	root = json_of(dpdk_reply(&request, &documents, INFO, strlen(INFO), out));
	is_greeting(root);
	json_decref(root);
	root = ask("/info");
	is_greeting(json_object_get(root, "/info"));
	json_decref(root);
	root = ask("/");
	list = json_object_get(root, "/");
	assert_int_equal(json_array_size(list), 5);
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(json_string_value(json_array_get(list, i)), all[i]);
	json_decref(root);
	root = ask("/help,/towline/counters");
	list = json_object_get(root, "/help");
	assert_string_equal(json_string_value(json_object_get(list, "/towline/counters")),
			    "all counters");
	json_decref(root);
	root = ask("/help");
	assert_true(json_is_string(json_object_get(json_object_get(root, "/help"), "/help")));
	json_decref(root);
	root = ask("/towline/counters");
	list = json_object_get(root, "/towline/counters");
	assert_int_equal(json_integer_value(json_object_get(list, "sends")), 7);
	json_decref(root);
}

/* A runtime that is silent, or says something else than was asked for. */
static void odd_runtimes(void **state)
{
	static const char *const odd[] = {
		"", "{", "[]", "5", "{", "null", "{\"a\":1} x", "{\"version\":7,\"pid\":\"x\"}"
	};
	struct dpdk_request request;

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		json_t *root;

		dpdk_request_greeting(&request);
		assert_int_equal(dpdk_reply(&request, &documents, odd[i], strlen(odd[i]), out), 0);
		dpdk_request_parse("/info", 5, &request);
		root = json_of(dpdk_reply(&request, &documents, odd[i], strlen(odd[i]), out));
		assert_true(json_is_null(json_object_get(root, "/info")));
		json_decref(root);
		assert_false(dpdk_documents_read(odd[i], strlen(odd[i]), &documents));
		assert_int_equal(documents.count, 0);
		setup(NULL);
		dpdk_request_parse("/towline/counters", 17, &request);
		root = json_of(dpdk_reply(&request, &documents, odd[i], strlen(odd[i]), out));
		if (i != 7 && !json_is_null(json_object_get(root, "/towline/counters")))
			fail_msg("'%s' has a page", odd[i]);
		json_decref(root);
	}
	dpdk_request_greeting(&request);
	assert_int_equal(dpdk_reply(&request, &documents, NULL, 0, out), 0);
	/* a zero in the middle */
	dpdk_request_parse("/towline/counters", 17, &request);
	json_decref(json_of(dpdk_reply(&request, &documents, "{\"a\":1}\0", 8, out)));
}

static void many_documents(void **state)
{
	struct dpdk_documents *many = calloc(1, sizeof(*many));
	json_t *root = json_object(), *list = json_array();
	struct dpdk_request request;
	char path[80], *text;

	(void)state;
	assert_non_null(many);
	for (int i = 0; i < 300; i++) {
		snprintf(path, sizeof(path), "/v1/%042d", i); /* the longest there can be, nearly */
		json_array_append_new(list, json_pack("{s:s, s:s}", "path", path, "help", path));
	}
	json_object_set_new(root, "paths", list);
	text = json_dumps(root, 0);
	json_decref(root);
	assert_true(dpdk_documents_read(text, strlen(text), many));
	assert_int_equal(many->count, DPDK_DOCUMENTS_MAX);
	free(text);
	dpdk_request_parse("/", 1, &request);
	root = json_of(dpdk_reply(&request, many, NULL, 0, out));
	assert_int_equal(json_array_size(json_object_get(root, "/")), DPDK_DOCUMENTS_MAX + 3);
	json_decref(root);
	free(many);
}

static void hostile_requests(void **state)
{
	char text[2000];

	(void)state;
	is_null("/none", "/none");
	is_null("", "");
	is_null(",", "");
	is_null("/help,/none", "/help");
	is_null("/towline/", "/towline/");
	is_null("/towline/none", "/towline/none");
	is_null("/towline/verdict", "/towline/verdict");
	is_null("/towline/counters,-1", "/towline/counters");
	is_null("/towline/counters,1x", "/towline/counters");
	is_null("/towline/counters,99999999999999999999", "/towline/counters");
	is_null("/towline/counters,5", "/towline/counters");
	is_null("/a\"\\\n", "/a\"\\\n");
	is_null("/towline/../metrics", "/towline/../metrics");
	json_decref(ask("\xff\xfe\x01"));
	memset(text, '/', sizeof(text));
	json_decref(ask_bytes(text, sizeof(text)));
	json_decref(ask_bytes(text, 55));
	json_decref(ask_bytes(text, 56));
	json_decref(ask_bytes("/\0x", 3)); /* as C sees it: "/" */
	json_decref(ask_bytes(text, 0));
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
			long bytes = dpdk_page(maker.e.text, "top3", page, room, out, &more);

			assert_in_range(bytes, 0, room);
			seen += count_page(out, bytes);
		}
		assert_int_equal(dpdk_page(maker.e.text, "top3", page, room, out, &more), -1);
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
		if (dpdk_page(broken[i], "", 0, 1000, out, &more) != -1)
			fail_msg("'%s' has a page", broken[i]);
	}
	assert_int_equal(dpdk_page("{}", "", 0, 1000, out, &more), 0);
	assert_true(dpdk_page("{\"x\":5}", "x", 0, 1000, out, &more) > 0);
	assert_string_equal(out, "\"x\":5");
	/* histograms' buckets are left out */
	assert_true(dpdk_page("{\"b\":[[1,2],[3,4]],\"c\":1}", "", 0, 1000, out, &more) > 0);
	assert_string_equal(out, "\"c\":1");
	/* what is nested too deep is left out, and what comes behind it is not */
	for (unsigned i = 0; i < 30; i++)
		strcat(deep, "{\"a\":");
	strcat(deep, "1");
	for (unsigned i = 0; i < 30; i++)
		strcat(deep, "}");
	strcat(deep, ",\"z\":2}");
	assert_true(dpdk_page(deep, "", 0, 1000, out, &more) > 0);
	assert_string_equal(out, "\"z\":2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(commands, setup),
		cmocka_unit_test_setup(odd_runtimes, setup),
		cmocka_unit_test(many_documents),
		cmocka_unit_test_setup(hostile_requests, setup),
		cmocka_unit_test(every_scalar_once),
		cmocka_unit_test(odd_documents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
