/*
 * memreg_machine.c - prints the cost of memory before and after the first step, on this machine.
 *
 * There are five tables, as text or JSON, measured by memreg_measure.c and memreg_alloc.c.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/memreg/tow_size.h"

static int compare_values(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double memreg_median(double *value, int count)
{
	qsort(value, (size_t)count, sizeof(*value), compare_values);
	return value[count / 2];
}

const char *memreg_bytes_text(uint64_t bytes, char *text, size_t room)
{
	static const char *unit[] = { "B", "KiB", "MiB", "GiB" };
	unsigned u = 0;

	while (u < 3 && bytes >= 1024 && bytes % 1024 == 0) {
		bytes /= 1024;
		u++;
	}
	snprintf(text, room, "%llu%s", (unsigned long long)bytes, unit[u]);
	return text;
}

static void print_row(const struct memreg_row *row)
{
	char size[32];

	printf("  %-28s %8s  %d thr", row->what, memreg_bytes_text(row->bytes, size, sizeof(size)),
	       row->threads);
	if (row->why[0] != '\0') {
		printf("   not measured: %s\n", row->why);
		return;
	}
	printf("  %14.1f ns", row->ns);
	if (row->ns >= 10000)
		printf("  (%.3f ms)", row->ns / 1e6);
	putchar('\n');
}

void memreg_rows_add(struct memreg_rows *rows, const char *table, const char *what, uint64_t bytes,
		     int threads, double ns, const char *why)
{
	struct memreg_row *row, *grown;

	grown = realloc(rows->row, (rows->count + 1) * sizeof(*grown));
	if (grown == NULL)
		return;
	rows->row = grown;
	row = &rows->row[rows->count++];
	*row = (struct memreg_row){ .bytes = bytes, .threads = threads, .ns = ns };
	snprintf(row->table, sizeof(row->table), "%s", table);
	snprintf(row->what, sizeof(row->what), "%s", what);
	snprintf(row->why, sizeof(row->why), "%s", why != NULL ? why : "");
	if (rows->print)
		print_row(row);
}

void memreg_rows_free(struct memreg_rows *rows)
{
	free(rows->row);
	rows->row = NULL;
	rows->count = 0;
}

static int print_json(const struct memreg_rows *rows)
{
	json_t *results = json_array(), *root;
	int rc;

	for (uint32_t i = 0; i < rows->count; i++) {
		const struct memreg_row *row = &rows->row[i];
		json_t *one = json_pack("{s:s, s:s, s:I, s:i, s:o}", "table", row->table, "what",
					row->what, "bytes", (json_int_t)row->bytes, "threads",
					row->threads, "median_ns",
					row->why[0] ? json_null() : json_real(row->ns));

		if (row->why[0])
			json_object_set_new(one, "reason", json_string(row->why));
		json_array_append_new(results, one);
	}
	root = json_pack("{s:i, s:o}", "rounds", rows->rounds, "results", results);
	rc = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(root);
	return rc == 0 ? 0 : MEMREG_FAULT;
}

static void print_title(const struct memreg_rows *rows, const char *text)
{
	if (rows->print)
		printf("%s\n", text);
}

int memreg_machine(const struct memreg_options *options)
{
	struct memreg_rows rows = { .print = !options->json,
				    .quick = options->quick,
				    .rounds = options->rounds };
	int rc;

	print_title(&rows, "premapping a pool");
	for (int i = 0; i < options->size_count; i++)
		memreg_measure_premap(&rows, options->sizes[i], true);
	print_title(&rows, "registering all of it with io_uring");
	for (int i = 0; i < options->size_count; i++)
		memreg_measure_register(&rows, options->sizes[i]);
	print_title(&rows, "one late registration with io_uring (base pages)");
	memreg_measure_late(&rows);
	print_title(&rows, "allocating from the pool: one alloc+free");
	rc = memreg_measure_alloc(&rows);
	if (rc == 0 && options->json)
		rc = print_json(&rows);
	memreg_rows_free(&rows);
	return rc;
}
