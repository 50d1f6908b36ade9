/*
 * Fuzzes the DPDK telemetry: the input is a request, and, as a document, what pages are cut from.
 *
 * A reply is valid JSON of at most the promised length, an object with one member. Pages of any
 * text end, keep to their room, and where the text is JSON each is JSON again.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/record/diag.h"
#include "diag/serve/dpdk_reply.h"

#define ROOM 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct twi_diag *diag;
static char out[TWI_DPDK_OUTPUT_MAX];

static void expect_at(int truth, int line)
{
	if (truth)
		return;
	fprintf(stderr, "fuzz_dpdk.c:%d: not so\n", line);
	abort();
}
#define expect(truth) expect_at(truth, __LINE__)

static void stop(void)
{
	twi_diag_destroy(diag);
}

static void request(const uint8_t *data, size_t size)
{
	size_t bytes = twi_dpdk_reply(diag, (const char *)data, size, out);
	json_t *root;

	expect(bytes > 0 && bytes <= sizeof(out));
	root = json_loadb(out, bytes, 0, NULL);
	expect(root != NULL && json_object_size(root) == 1);
	json_decref(root);
}

/* Without spaces, as emit.h writes: json_dumps does the same. */
static void pages(const char *text, int is_json)
{
	char *page = malloc(TWI_DPDK_OUTPUT_MAX);
	int more = 1;

	expect(page != NULL);
	for (unsigned i = 0; more && i < 1000; i++) {
		long bytes = twi_dpdk_page(text, "a", i, ROOM, page, &more);

		expect(bytes < TWI_DPDK_OUTPUT_MAX);
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

	if (diag == NULL) {
		expect(twi_diag_create(&diag) == 0);
		atexit(stop);
	}
	if (size > 1u << 16)
		return 0;
	request(data, size);
	text = malloc(size + 1);
	expect(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	pages(text, 0);
	root = json_loads(text, 0, NULL);
	compact = json_is_object(root) ? json_dumps(root, JSON_COMPACT) : NULL;
	if (compact != NULL)
		pages(compact, 1);
	free(compact);
	json_decref(root);
	free(text);
	return 0;
}
