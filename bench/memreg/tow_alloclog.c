/*
 * tow_alloclog.c - reads a saved allocation log, and prints it as JSON or as a summary.
 *
 *	tow-alloclog [--summary] FILE        FILE may be - for the standard input
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/status.h>
#include <towline/version.h>

#include "memreg/sizing/alloclog_read.h"

#define EXIT_USAGE  2
#define SHOWN_NAMES 8 /* names of each kind in a summary */

static const char usage[] =
	"tow-alloclog - an allocation log as JSON\n"
	"\n"
	"  tow-alloclog [--summary] FILE     FILE from `towstat alloclog -o FILE`; - reads stdin\n"
	"\n"
	"      --summary   a few lines instead: how long, how many, the most that was live,\n"
	"                  and which tags and callers had the most of it\n"
	"  -h, --help      this text\n"
	"      --version   the version\n"
	"\n"
	"Status: 0 done, 1 failed (no such file, no log, a damaged log), 2 wrong usage.\n";

static const char *kind_name(const struct twi_alloc_event *event)
{
	static const char *const names[] = { "", "alloc", "free", "step", "gap" };

	return names[event->kind];
}

/* A name is printable ASCII for any file. */
static void print_quoted(const char *text)
{
	putchar('"');
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

static void print_names(const struct twi_alloc_trace *t, enum twi_alloclog_named kind)
{
	struct twi_alloclog_name name;
	const char *before = "";
	size_t at = 0;

	while (twi_alloclog_names_next(t, &at, &name)) {
		if (name.kind != kind)
			continue;
		printf(kind == TWI_ALLOCLOG_NAMED_TAG ? "%s\n    {\"tag\": %" PRIu64
						      : "%s\n    {\"caller\": \"0x%" PRIx64 "\"",
		       before, name.key);
		printf(", \"name\": ");
		print_quoted(name.text);
		printf("}");
		before = ",";
	}
}

static void print_head(const struct twi_alloc_trace *t)
{
	printf("{\n  \"version\": 1,\n  \"start_realtime_ns\": %" PRIu64 ",\n"
	       "  \"start_monotonic_ns\": %" PRIu64 ",\n  \"duration_ns\": %" PRIu64 ",\n",
	       t->start_realtime_ns, t->start_monotonic_ns, t->duration_ns);
	printf("  \"from_open\": %s,\n  \"pid\": %" PRIu32 ",\n"
	       "  \"kept_of_addresses_1_in\": %" PRIu64 ",\n  \"lost\": %" PRIu64 ",\n",
	       t->from_open ? "true" : "false", t->pid, (uint64_t)1 << t->sampling_shift, t->lost);
	printf("  \"live_bytes_at_start\": %" PRIu64 ",\n"
	       "  \"live_allocations_at_start\": %" PRIu64 ",\n  \"unknown_frees\": %" PRIu64 ",\n"
	       "  \"pool_bytes\": %" PRIu64 ",\n  \"page_bytes\": %" PRIu64 ",\n",
	       t->live_bytes_at_start, t->live_allocations_at_start, t->unknown_frees,
	       t->pool_bytes, t->page_bytes);
	printf("  \"taken_bytes_at_start\": %" PRIu64 ",\n  \"taken_peak_bytes\": %" PRIu64 ",\n",
	       t->taken_bytes_at_start, t->taken_peak_bytes);
	printf("  \"spread_bytes\": %" PRIu64 ",\n", t->spread_bytes);
	if (t->arena[0] != '\0')
		printf("  \"arena\": \"%s\",\n  \"staging_bytes\": %" PRIu64 ",\n", t->arena,
		       t->staging_bytes);
	printf("  \"gaps\": %" PRIu64 ",\n  \"left_events\": %" PRIu64 ",\n"
	       "  \"left_steps\": %" PRIu64 ",\n  \"gap_peak_bytes\": %" PRIu64 ",\n",
	       t->gaps, t->left_events, t->left_steps, t->gap_peak_bytes);
	printf("  \"tag_names\": [");
	print_names(t, TWI_ALLOCLOG_NAMED_TAG);
	printf("],\n  \"caller_names\": [");
	print_names(t, TWI_ALLOCLOG_NAMED_CALLER);
	printf("],\n  \"events\": [");
}

static void print_gap(const struct twi_alloc_event *e)
{
	printf(", \"length_ns\": %" PRIu64 ", \"left_events\": %" PRIu64
	       ", \"left_steps\": %" PRIu64 "}",
	       e->bytes, e->caller, e->id);
}

/* Members that a kind does not use are left out. */
static void print_event(const struct twi_alloc_event *e, const char *before)
{
	printf("%s\n    {\"ns\": %" PRIu64 ", \"kind\": \"%s\"", before, e->ns, kind_name(e));
	if (e->kind == TWI_ALLOC_GAP) {
		print_gap(e);
		return;
	}
	if (e->kind == TWI_ALLOC_STEP)
		printf(", \"step\": %" PRIu64, e->id);
	else if (e->id == 0 && e->bytes == 0)
		printf(", \"id\": null");
	else if (e->id == 0)
		printf(", \"id\": null, \"bytes\": %" PRIu64, e->bytes);
	else
		printf(", \"id\": %" PRIu64 ", \"bytes\": %" PRIu64, e->id, e->bytes);
	if (e->kind == TWI_ALLOC_ALLOC)
		printf(", \"align\": %" PRIu64, (uint64_t)1 << e->align_log2);
	printf(", \"thread\": %" PRIu32, e->thread);
	if (e->tag == TWI_ALLOC_TAG_LIBRARY)
		printf(", \"tag\": \"library\"");
	else if (e->tag == TWI_ALLOC_TAG_EARLIER)
		printf(", \"tag\": \"earlier\"");
	else
		printf(", \"tag\": %" PRIu32, e->tag);
	if (e->caller != 0)
		printf(", \"caller\": \"0x%" PRIx64 "\"", e->caller);
	printf("}");
}

static void print_json(const struct twi_alloc_trace *trace)
{
	print_head(trace);
	for (size_t i = 0; i < trace->count; i++)
		print_event(&trace->events[i], i > 0 ? "," : "");
	printf("\n  ]\n}\n");
}

static bool is_named(const struct twi_alloc_event *event, const struct twi_alloclog_name *name)
{
	return name->kind == TWI_ALLOCLOG_NAMED_TAG ? event->tag == name->key
						    : event->caller == name->key;
}

/*
 * Counts the most that was live at once of the name's allocations. `made` has allocations by their
 * id. Returns false when the name has allocated nothing, and only freed or begun steps.
 */
static bool count_named(const struct twi_alloc_trace *t, const struct twi_alloc_event *const *made,
			const struct twi_alloclog_name *name, uint64_t *most_out,
			uint64_t *allocs_out)
{
	uint64_t live = 0;

	*most_out = *allocs_out = 0;
	for (size_t i = 0; i < t->count; i++) {
		const struct twi_alloc_event *e = &t->events[i];

		if (e->kind == TWI_ALLOC_ALLOC && is_named(e, name)) {
			live += e->bytes;
			++*allocs_out;
		} else if (e->kind == TWI_ALLOC_FREE && e->id != 0 &&
			   is_named(made[e->id - 1], name)) {
			live -= e->bytes;
		}
		*most_out = live > *most_out ? live : *most_out;
	}
	return *allocs_out > 0;
}

/* The names stand in the file in the order of the most that they had live. */
static void print_largest(const struct twi_alloc_trace *t, enum twi_alloclog_named kind,
			  const char *title)
{
	const struct twi_alloc_event **made = calloc(t->count + 1, sizeof(*made));
	struct twi_alloclog_name name;
	size_t at = 0, allocs = 0;
	int seen = 0;

	for (size_t i = 0; made != NULL && i < t->count; i++) {
		if (t->events[i].kind == TWI_ALLOC_ALLOC)
			made[allocs++] = &t->events[i];
	}
	while (made != NULL && seen < SHOWN_NAMES && twi_alloclog_names_next(t, &at, &name)) {
		uint64_t most, count;

		if (name.kind != kind)
			continue;
		if (seen++ == 0)
			printf("%s\n", title);
		if (count_named(t, made, &name, &most, &count))
			printf("  %s: at most %" PRIu64 " bytes live, %" PRIu64 " allocations\n",
			       name.text, most, count);
	}
	free(made);
}

static void print_summary(const struct twi_alloc_trace *t)
{
	uint64_t live = 0, most = 0, at_ns = 0, counts[5] = { 0 };

	for (size_t i = 0; i < t->count; i++) {
		const struct twi_alloc_event *e = &t->events[i];

		counts[e->kind]++;
		live += e->kind == TWI_ALLOC_ALLOC ? e->bytes : 0;
		live -= e->kind == TWI_ALLOC_FREE && e->id != 0 ? e->bytes : 0;
		if (live > most) {
			most = live;
			at_ns = e->ns;
		}
	}
	printf("%.3f s: %" PRIu64 " allocations, %" PRIu64 " frees, %" PRIu64 " steps\n",
	       (double)t->duration_ns / 1e9, counts[TWI_ALLOC_ALLOC], counts[TWI_ALLOC_FREE],
	       counts[TWI_ALLOC_STEP]);
	printf("at the start: %" PRIu64 " bytes in %" PRIu64 " allocations; %" PRIu64
	       " frees of such\n",
	       t->live_bytes_at_start, t->live_allocations_at_start, t->unknown_frees);
	printf("the most that was live of what was allocated in it: %" PRIu64 " bytes, at %.3f s\n",
	       most, (double)at_ns / 1e9);
	printf("pool: %" PRIu64 " bytes on pages of %" PRIu64 "%s%s\n", t->pool_bytes,
	       t->page_bytes, t->arena[0] != '\0' ? ", arena " : "", t->arena);
	if (t->gaps > 0)
		printf("left out: %" PRIu64 " events and %" PRIu64 " of %" PRIu64
		       " steps, in %" PRIu64 " gaps; at most %" PRIu64
		       " bytes were taken of the pool in them\n",
		       t->left_events, t->left_steps, t->left_steps + counts[TWI_ALLOC_STEP],
		       t->gaps, t->gap_peak_bytes);
	if (t->sampling_shift > 0)
		printf("sampled: one address in %" PRIu64
		       " is in it; raise alloclog_events or capture for a shorter time\n",
		       (uint64_t)1 << t->sampling_shift);
	if (t->lost > 0)
		printf("lost: %" PRIu64 " events for want of room; raise alloclog_events\n",
		       t->lost);
	print_largest(t, TWI_ALLOCLOG_NAMED_TAG, "tags:");
	print_largest(t, TWI_ALLOCLOG_NAMED_CALLER, "callers:");
}

static int fail_file(const char *path, const char *what)
{
	fprintf(stderr, "tow-alloclog: %s: %s\n", path, what);
	return 1;
}

static int convert_file(const char *path, int summary)
{
	struct twi_alloc_trace trace;
	FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
	int status;

	if (file == NULL)
		return fail_file(path, strerror(errno));
	status = twi_alloclog_read(file, &trace);
	if (file != stdin)
		fclose(file);
	if (status < 0)
		return fail_file(path, tow_error_message());
	if (summary)
		print_summary(&trace);
	else
		print_json(&trace);
	twi_alloc_trace_fini(&trace);
	if (fflush(stdout) != 0 || ferror(stdout))
		return fail_file("cannot write", strerror(errno));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "summary", no_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ NULL, 0, NULL, 0 },
	};
	int option, summary = 0;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 's':
			summary = 1;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'v':
			printf("tow-alloclog %s\n", TOW_VERSION);
			return 0;
		default:
			fputs("see tow-alloclog --help\n", stderr);
			return EXIT_USAGE;
		}
	}
	if (argc - optind != 1) {
		fprintf(stderr, "tow-alloclog: %s; see tow-alloclog --help\n",
			argc == optind ? "a file is missing" : "one file at a time");
		return EXIT_USAGE;
	}
	return convert_file(argv[optind], summary);
}
