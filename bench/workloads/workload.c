/*
 * workload.c - reads a list of tensors, strictly; workload.h has the concept.
 */
#include "bench/workloads/workload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TENSORS_MAX 100000
#define BYTES_MAX   (UINT64_C(1) << 40)
#define LINE_MAX_   1024
#define COLUMNS     4

static const char header[] = "name\tshape\tdtype\tbytes";

static const struct {
	const char *name;
	uint32_t bytes;
} dtypes[] = { { "f64", 8 },  { "f32", 4 },    { "tf32", 4 },   { "f16", 2 },
	       { "bf16", 2 }, { "f8e4m3", 1 }, { "f8e5m2", 1 }, { "i64", 8 },
	       { "u64", 8 },  { "i32", 4 },    { "u32", 4 },    { "i16", 2 },
	       { "u16", 2 },  { "i8", 1 },     { "u8", 1 },     { "bool", 1 } };

/* Where an error message about the file goes. */
struct report {
	const char *path;
	unsigned int line;
	char *text;
	size_t size;
};

static int report_failed(struct report *report, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static int report_failed(struct report *report, const char *fmt, ...)
{
	int used = report->line > 0 ? snprintf(report->text, report->size, "%s:%u: ", report->path,
					       report->line)
				    : snprintf(report->text, report->size, "%s: ", report->path);
	va_list arguments;

	if (used >= 0 && (size_t)used < report->size) {
		va_start(arguments, fmt);
		vsnprintf(report->text + used, report->size - (size_t)used, fmt, arguments);
		va_end(arguments);
	}
	return -1;
}

/* Reads digits and nothing else, from 1 to max. */
static bool parse_u64(const char *text, const char *end, uint64_t max, uint64_t *out)
{
	uint64_t value = 0;

	if (text == end)
		return false;
	for (; text < end; text++) {
		if (*text < '0' || *text > '9' || value > (max - (uint64_t)(*text - '0')) / 10)
			return false;
		value = value * 10 + (uint64_t)(*text - '0');
	}
	*out = value;
	return value > 0;
}

static int parse_shape(struct report *report, const char *text, struct workload_tensor *tensor)
{
	const char *at = text;

	for (tensor->dims = 0; tensor->dims < WORKLOAD_DIMS_MAX; tensor->dims++) {
		const char *end = at + strcspn(at, "x");

		if (!parse_u64(at, end, BYTES_MAX, &tensor->extent[tensor->dims]))
			break;
		if (*end == '\0') {
			tensor->dims++;
			return 0;
		}
		at = end + 1;
	}
	return report_failed(report, "shape '%.40s' is not 1 to %d extents such as 768x2304", text,
			     WORKLOAD_DIMS_MAX);
}

static int parse_dtype(struct report *report, const char *text, struct workload_tensor *tensor)
{
	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
		if (strcmp(text, dtypes[i].name) == 0) {
			tensor->element_bytes = dtypes[i].bytes;
			return 0;
		}
	return report_failed(report,
			     "dtype '%.40s' is not known (f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 ...)",
			     text);
}

/* The bytes must match shape and dtype. A column that is shifted by one line shows here. */
static int check_bytes(struct report *report, const struct workload_tensor *tensor)
{
	uint64_t product = tensor->element_bytes;

	for (uint32_t i = 0; i < tensor->dims; i++) {
		if (product > BYTES_MAX / tensor->extent[i])
			return report_failed(report, "'%s' would have more than 2^40 bytes",
					     tensor->name);
		product *= tensor->extent[i];
	}
	if (product != tensor->bytes)
		return report_failed(report,
				     "'%s' has %" PRIu64 " bytes by its shape and dtype, %" PRIu64
				     " by its column",
				     tensor->name, product, tensor->bytes);
	return 0;
}

static int parse_name(struct report *report, const char *text, struct workload_tensor *tensor)
{
	size_t length = strlen(text);

	if (length == 0 || length >= sizeof(tensor->name))
		return report_failed(report, "the name has %zu characters, not 1 to %zu", length,
				     sizeof(tensor->name) - 1);
	for (size_t i = 0; i < length; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return report_failed(report,
					     "the name has a character that is not printable "
					     "ASCII");
	memcpy(tensor->name, text, length + 1);
	return 0;
}

static int parse_line(struct report *report, char *line, struct workload_tensor *tensor)
{
	char *field[COLUMNS], *rest = line;
	int columns = 0;

	for (char *at = strsep(&rest, "\t"); at != NULL; at = strsep(&rest, "\t")) {
		if (columns < COLUMNS)
			field[columns] = at;
		columns++;
	}
	if (columns != COLUMNS)
		return report_failed(report, "%d columns, not the 4 of name, shape, dtype, bytes",
				     columns);
	*tensor = (struct workload_tensor){ .bytes = 0 };
	if (parse_name(report, field[0], tensor) != 0 ||
	    parse_shape(report, field[1], tensor) != 0 ||
	    parse_dtype(report, field[2], tensor) != 0)
		return -1;
	if (!parse_u64(field[3], field[3] + strlen(field[3]), UINT64_MAX / 16, &tensor->bytes))
		return report_failed(report, "bytes '%.40s' is no whole number above 0", field[3]);
	return check_bytes(report, tensor);
}

static int append_tensor(struct report *report, struct workload *work,
			 const struct workload_tensor *tensor)
{
	/*
	 * The array grows when the count is a power of two; there are hundreds of tensors, not
	 * millions.
	 */
	if ((work->count & (work->count - 1)) == 0) {
		uint64_t room = work->count == 0 ? 1 : work->count * 2;
		void *grown = realloc(work->tensors, room * sizeof(*tensor));

		if (grown == NULL)
			return report_failed(report, "no memory for %" PRIu64 " tensors", room);
		work->tensors = grown;
	}
	if (work->count == TENSORS_MAX)
		return report_failed(report, "more than %d tensors", TENSORS_MAX);
	work->tensors[work->count++] = *tensor;
	work->bytes += tensor->bytes;
	return 0;
}

/* Reads one line without its end. Returns 1; 0 at the end of the file; -1 when it is no text. */
static int next_line(struct report *report, FILE *file, char *line)
{
	size_t length = 0;
	int c;

	report->line++;
	while ((c = getc(file)) != EOF && c != '\n') {
		if (c == '\0')
			return report_failed(report, "a zero byte: this is no text");
		if (length == LINE_MAX_ - 1)
			return report_failed(report, "longer than %d characters", LINE_MAX_ - 1);
		line[length++] = (char)c;
	}
	line[length] = '\0';
	if (ferror(file)) {
		report->line = 0;
		return report_failed(report, "%s", strerror(errno));
	}
	return c != EOF || length > 0;
}

static int read_lines(struct report *report, FILE *file, uint64_t limit, struct workload *work)
{
	struct workload_tensor tensor;
	char line[LINE_MAX_];
	int more = next_line(report, file, line);

	if (more > 0 && strcmp(line, header) != 0)
		return report_failed(report,
				     "the header is not 'name<tab>shape<tab>dtype<tab>bytes'");
	while (more > 0 && (more = next_line(report, file, line)) > 0) {
		if (parse_line(report, line, &tensor) != 0)
			return -1;
		if ((limit == 0 || work->count < limit) &&
		    append_tensor(report, work, &tensor) != 0)
			return -1;
	}
	if (more < 0)
		return -1;
	report->line = 0;
	return work->count == 0 ? report_failed(report, "there are no tensors in it") : 0;
}

int workload_read(FILE *file, const char *path, uint64_t limit, struct workload *out, char *error,
		  size_t error_size)
{
	struct report report = { path, 0, error, error_size };
	int rc;

	*out = (struct workload){ NULL, 0, 0 };
	rc = read_lines(&report, file, limit, out);
	if (rc != 0)
		workload_free(out);
	return rc;
}

int workload_load(const char *path, uint64_t limit, struct workload *out, char *error,
		  size_t error_size)
{
	struct report report = { path, 0, error, error_size };
	FILE *file = fopen(path, "re");
	int rc;

	*out = (struct workload){ NULL, 0, 0 };
	if (file == NULL)
		return report_failed(&report, "%s", strerror(errno));
	rc = workload_read(file, path, limit, out, error, error_size);
	fclose(file);
	return rc;
}

void workload_free(struct workload *work)
{
	free(work->tensors);
	*work = (struct workload){ NULL, 0, 0 };
}

/* Short names of the models, and the file of each. */
static const char *const short_names[][2] = {
	{ "gpt2", "gpt2-124m" },       { "gpt2-small", "gpt2-124m" }, { "resnet50", "resnet-50" },
	{ "llama3-8b", "llama-3-8b" }, { "llama3", "llama-3-8b" },    { "mixtral", "mixtral-8x7b" },
	{ "gemma2-2b", "gemma-2-2b" }, { "gemma2", "gemma-2-2b" },
};

static bool file_exists(const char *directory, const char *name, const char *suffix, char *path,
			size_t size)
{
	int length =
		snprintf(path, size, "%s%s%s%s", directory, *directory ? "/" : "", name, suffix);

	return length > 0 && (size_t)length < size && access(path, R_OK) == 0;
}

int workload_find(const char *name, char *path_out, size_t path_size, char *error,
		  size_t error_size)
{
	const char *places[] = { getenv("TOW_WORKLOADS"), BENCH_DATA_DIR, BENCH_SOURCE_DIR };
	const char *model = name;

	if (file_exists("", name, "", path_out, path_size))
		return 0;
	for (size_t i = 0; i < sizeof(short_names) / sizeof(short_names[0]); i++)
		if (strcmp(name, short_names[i][0]) == 0)
			model = short_names[i][1];
	for (size_t i = 0; i < 3 && strchr(name, '/') == NULL; i++)
		if (places[i] != NULL &&
		    (file_exists(places[i], model, ".tsv", path_out, path_size) ||
		     file_exists(places[i], model, "", path_out, path_size)))
			return 0;
	snprintf(error, error_size,
		 "%s: no such file, nor a workload in %s (models there: gpt2, resnet50, llama3-8b, "
		 "mixtral, gemma2-2b; "
		 "another place: TOW_WORKLOADS)",
		 name, places[0] != NULL ? places[0] : BENCH_DATA_DIR);
	return -1;
}

const char *workload_split(const char *argument, char *name, size_t name_size)
{
	const char *colon = strrchr(argument, ':');

	if (colon != NULL && (strchr(colon, '/') != NULL || access(argument, R_OK) == 0))
		colon = NULL;
	snprintf(name, name_size, "%.*s",
		 colon != NULL ? (int)(colon - argument) : (int)strlen(argument), argument);
	return colon != NULL ? colon + 1 : NULL;
}
