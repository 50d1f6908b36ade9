/*
 * Fuzzes the reader of allocation logs. Whatever it accepts keeps the promises that replays rely on
 * (the order of times, ids in pairs), and comes back the same when it is written and read again.
 *
 * The last 12 bytes of what is meant to be whole are a checksum and a length, which a fuzzer cannot
 * guess: an input that opens with '!' gets right ones first.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "memreg/alloclog/alloclog_file.h"
#include "memreg/alloclog/alloclog_names.h"
#include "memreg/sizing/alloclog_read.h"

#define INPUT_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_at(int truth, int line)
{
	if (truth)
		return;
	fprintf(stderr, "fuzz_alloclog.c:%d: not so (%s)\n", line, tow_error_message());
	abort();
}
#define expect(truth) expect_at(truth, __LINE__)

static int read_bytes(const void *bytes, size_t count, struct twi_alloc_trace *out)
{
	FILE *file = fmemopen((void *)(uintptr_t)bytes, count, "rb");
	int status;

	expect(file != NULL);
	status = twi_alloclog_read(file, out);
	fclose(file);
	return status;
}

/* Bit by bit, so that it is not the table under test that judges itself. */
static uint32_t crc32_of(const uint8_t *p, size_t bytes)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < bytes; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

static void put_word(uint8_t *p, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(value >> 8 * i);
}

static void names_can_be_shown(const struct twi_alloc_trace *t)
{
	struct twi_alloclog_name name;
	size_t at = 0;

	while (twi_alloclog_names_next(t, &at, &name)) {
		expect(name.text[0] != '\0');
		for (const char *c = name.text; *c != '\0'; c++)
			expect(*c >= ' ' && *c <= '~');
	}
	expect(at <= t->names_bytes);
}

static void keeps_promises(const struct twi_alloc_trace *t)
{
	uint64_t last = 0, allocs = 0;

	names_can_be_shown(t);
	for (size_t i = 0; i < t->count; i++) {
		const struct twi_alloc_event *e = &t->events[i];

		expect(e->ns >= last && e->ns <= t->duration_ns);
		expect(e->kind >= TWI_ALLOC_ALLOC && e->kind <= TWI_ALLOC_GAP);
		if (e->kind == TWI_ALLOC_ALLOC)
			expect(e->id == ++allocs);
		if (e->kind == TWI_ALLOC_FREE)
			expect(e->id <= allocs);
		last = e->ns;
	}
}

static void comes_back(const struct twi_alloc_trace *t)
{
	struct twi_alloc_trace again;
	char *bytes;
	size_t count;

	expect(twi_alloclog_encode(t, &bytes, &count) == TOW_OK);
	expect(read_bytes(bytes, count, &again) == TOW_OK);
	expect(again.count == t->count && again.lost == t->lost && again.pid == t->pid &&
	       again.unknown_frees == t->unknown_frees && again.duration_ns == t->duration_ns);
	expect(again.names_bytes == t->names_bytes &&
	       memcmp(again.names, t->names, t->names_bytes) == 0);
	for (size_t i = 0; i < t->count; i++)
		expect(memcmp(&again.events[i].ns, &t->events[i].ns, sizeof(uint64_t)) == 0 &&
		       again.events[i].id == t->events[i].id &&
		       again.events[i].bytes == t->events[i].bytes &&
		       again.events[i].caller == t->events[i].caller);
	twi_alloc_trace_fini(&again);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct twi_alloc_trace trace;
	uint8_t *copy = NULL;

	if (size == 0 || size > INPUT_MAX)
		return 0;
	if (data[0] == '!' && size > TWI_ALLOCLOG_END_BYTES + 1) {
		size--;
		copy = malloc(size);
		expect(copy != NULL);
		memcpy(copy, data + 1, size);
		put_word(copy + size - 12, crc32_of(copy, size - 16), 4);
		put_word(copy + size - 8, size, 8);
		data = copy;
	}
	if (read_bytes(data, size, &trace) == TOW_OK) {
		keeps_promises(&trace);
		comes_back(&trace);
	} else {
		expect(trace.events == NULL && trace.count == 0);
		expect(strstr(tow_error_message(), "allocation log: ") != NULL);
	}
	twi_alloc_trace_fini(&trace);
	free(copy);
	return 0;
}
