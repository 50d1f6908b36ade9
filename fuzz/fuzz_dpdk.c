/*
 * Fuzzes the DPDK telemetry of `towstat dpdk`: the input is a request, and, as what a runtime
 * answers, a document that pages are cut from, a list of documents, and who it is.
 *
 * A reply is valid JSON of at most the promised length, an object with one member; a greeting has
 * three, or there is none. Pages of any text end, keep to their room, and where the text is JSON
 * each is JSON again.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/towstat/dpdk_reply.h"

#define ROOM 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct dpdk_documents documents;
static char out[DPDK_OUTPUT_MAX];

static void expect_at(int truth, int line)
{
	if (truth)
		return;
	fprintf(stderr, "fuzz_dpdk.c:%d: not so\n", line);
	abort();
}
#define expect(truth) expect_at(truth, __LINE__)

#define LIST "{\"paths\":[{\"path\":\"/v1/counters\",\"help\":\"h\"},{\"path\":\"/v1/a\"}]}"

static void check_reply(const struct dpdk_request *request, const char *text, size_t bytes)
{
	size_t size = dpdk_reply(request, &documents, text, bytes, out);
	json_t *root;

	expect(size <= sizeof(out));
	if (request->kind == DPDK_GREETING && size == 0)
		return;
	root = json_loadb(out, size, 0, NULL);
	expect(root != NULL &&
	       json_object_size(root) == (request->kind == DPDK_GREETING ? 3u : 1u));
	json_decref(root);
}

/* Any request with a good list; then any text as an answer, and as the list. */
static void check_requests(const uint8_t *data, size_t size, const char *text)
{
	static const char *const asked[] = { "/",
					     "/help,/towline/a",
					     "/info",
					     "/towline/a",
					     "/towline/a,1",
					     "/towline/counters",
					     "/towline/a,000",
					     "/towline/counters," };
	struct dpdk_request request;

	expect(dpdk_documents_read(LIST, strlen(LIST), &documents));
	dpdk_request_parse((const char *)data, size, &request);
	check_reply(&request, NULL, 0);
	check_reply(&request, "{\"a\":{\"b\":1}}", 15);
	for (int round = 0; round < 2; round++) {
		dpdk_request_greeting(&request);
		check_reply(&request, text, size);
		for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
			dpdk_request_parse(asked[i], strlen(asked[i]), &request);
			check_reply(&request, text, size);
		}
		dpdk_documents_read(text, size, &documents);
		expect(documents.count <= DPDK_DOCUMENTS_MAX);
	}
}

/* Without spaces, as emit.h writes: json_dumps does the same. */
static void read_pages(const char *text, int is_json)
{
	char *page = malloc(DPDK_OUTPUT_MAX);
	int more = 1;

	expect(page != NULL);
	for (unsigned i = 0; more && i < 1000; i++) {
		long bytes = dpdk_page(text, "a", i, ROOM, page, &more);

		expect(bytes < DPDK_OUTPUT_MAX);
		if (bytes < 0)
			break;
		if (is_json) {
			char *whole = malloc((size_t)bytes + 3);
			json_t *root;

			expect(whole != NULL);
			snprintf(whole, (size_t)bytes + 3, "{%.*s}", (int)bytes, page);
			root = json_loads(whole, 0, NULL);
			expect(root != NULL);
			json_decref(root);
			free(whole);
		}
	}
	free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *compact;
	json_t *root;

	if (size > 1u << 16)
		return 0;
	text = malloc(size + 1);
	expect(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	check_requests(data, size, text);
	read_pages(text, 0);
	root = json_loads(text, 0, NULL);
	compact = json_is_object(root) ? json_dumps(root, JSON_COMPACT) : NULL;
	if (compact != NULL)
		read_pages(compact, 1);
	free(compact);
	json_decref(root);
	free(text);
	return 0;
}
