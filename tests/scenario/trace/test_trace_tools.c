/*
 * test_trace_tools.c - what XProf, jax.profiler and Perfetto make of a trace is what the model
 * says, and its latencies are those of /v1/latency.
 *
 * Needs TOW_TEST_PYTHON to name a Python that has xprof, jax and perfetto (tests/fetch_python makes
 * one); skipped without it. The work is in trace_tools.py; here the files are written, and what is
 * expected of them, reckoned from the same trace (diag/trace/slack.h).
 */
#include "capture_job.h"

#include <jansson.h>
#include <unistd.h>

#include <towline/status.h>

#include "diag/record/coll_kind.h"
#include "diag/trace/export/export.h"
#include "diag/trace/slack.h"
#include "tools/trace/formats.h"
#include "traces.h"

static char folder[] = "/tmp/tow-trace-tools-XXXXXX";

static void write_bytes(const char *name, const void *bytes, size_t count)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	assert_int_equal(fclose(file), 0);
}

typedef int (*export_fn)(const struct twi_trace *trace, char **bytes_out, size_t *count_out);

static void write_trace(const struct twi_trace *trace, export_fn export, const char *name)
{
	size_t count;
	char *bytes;

	assert_int_equal(export(trace, &bytes, &count), TOW_OK);
	write_bytes(name, bytes, count);
	free(bytes);
}

static const char *transfer_of(unsigned kind)
{
	switch (kind) {
	case TWI_COLL_ALL_REDUCE:
		return "ALL_REDUCE";
	case TWI_COLL_REDUCE_SCATTER:
		return "REDUCE_SCATTER";
	case TWI_COLL_ALL_GATHER:
		return "ALL_GATHER";
	case TWI_COLL_ALL_TO_ALL:
		return "ALL_TO_ALL";
	case TWI_COLL_PERMUTE:
		return "ONE_TO_ONE";
	case TWI_COLL_BARRIER:
		return "BARRIER";
	default:
		return "BROADCAST";
	}
}

static json_t *ms(uint64_t ns)
{
	return json_real((double)ns / 1e6);
}

/* XProf shows the first device. */
static json_t *expected_slack(const struct twi_trace *trace)
{
	struct twi_trace first = { .rank_count = 1, .ranks = trace->ranks };
	json_t *rows = json_array();
	struct twi_slack slack;

	assert_int_equal(twi_slack_make(&first, &slack), TOW_OK);
	for (size_t i = 0; i < slack.group_count; i++) {
		const struct twi_slack_group *group = &slack.groups[i];
		json_t *row = json_object();
		char name[64];

		/* What has no name is told by kind and size, which are all of whole KiB here. */
		snprintf(name, sizeof(name), "%s-%lluKiB", twi_coll_kind_name(group->kind),
			 (unsigned long long)group->bytes / 1024);
		json_object_set_new(row, "name", json_string(group->name[0] ? group->name : name));
		json_object_set_new(row, "transfer", json_string(transfer_of(group->kind)));
		json_object_set_new(row, "occurrences",
				    json_integer((json_int_t)group->occurrences));
		json_object_set_new(row, "slack_ms", ms(group->slack.mean));
		json_object_set_new(row, "observed_ms", ms(group->observed.mean));
		json_object_set_new(row, "stall_ms", ms(group->stall.mean));
		json_object_set_new(row, "wire_bytes", json_integer((json_int_t)group->wire_bytes));
		json_object_set_new(row, "required_gbps",
				    group->required_bps == TWI_SLACK_UNBOUNDED
					    ? json_null()
					    : json_real((double)group->required_bps / 1e9));
		json_array_append_new(rows, row);
	}
	twi_slack_fini(&slack);
	return rows;
}

struct counts {
	json_int_t copies, registrations, flows;
};

/* What the sender of a received message has of it in the trace: of a kind; NULL: nothing. */
static const struct twi_span *sender_has(const struct twi_trace *trace,
					 const struct twi_trace_rank *rank,
					 const struct twi_span *received, enum twi_span_kind kind)
{
	int64_t from = rank->peers[received->peer - 1].rank;

	for (size_t r = 0; r < trace->rank_count; r++) {
		const struct twi_trace_rank *other = &trace->ranks[r];

		for (size_t t = 0; t < other->thread_count && other->rank == from; t++)
			for (size_t i = 0; i < other->threads[t].span_count; i++) {
				const struct twi_span *span = &other->threads[t].spans[i];

				if (span->kind == kind && span->id == received->id && span->peer &&
				    other->peers[span->peer - 1].rank == rank->rank)
					return span;
			}
	}
	return NULL;
}

static void count_span(const struct twi_trace *trace, const struct twi_trace_rank *rank,
		       const struct twi_span *span, json_t *receives, struct counts *counts)
{
	const struct twi_span *delivery;
	json_t *row;
	uint64_t ns;

	counts->copies += span->kind == TWI_SPAN_COPY;
	counts->registrations += span->kind == TWI_SPAN_REGISTER;
	if (span->kind != TWI_SPAN_RECV || span->status < 0)
		return;
	counts->flows += sender_has(trace, rank, span, TWI_SPAN_SEND) != NULL;
	row = json_object();
	json_object_set_new(row, "from", json_integer(rank->peers[span->peer - 1].rank));
	json_object_set_new(row, "to", json_integer(rank->rank));
	json_object_set_new(row, "bytes", json_integer((json_int_t)span->bytes));
	/* As its sender counted it, or since its match. None takes 0 us: that would mean that
	 * clocks are wrong. */
	delivery = sender_has(trace, rank, span, TWI_SPAN_DELIVERY);
	ns = delivery != NULL
		     ? delivery->end_ns - delivery->start_ns
		     : span->end_ns - span->start_ns -
			       twi_min(span->end_ns - span->start_ns, (uint64_t)span->queue_ns);
	json_object_set_new(row, "us", json_integer((json_int_t)twi_max((ns + 500) / 1000, 1u)));
	json_object_set_new(row, "ns", json_integer((json_int_t)(span->end_ns - span->start_ns)));
	json_array_append_new(receives, row);
}

static void write_expected(const struct twi_trace *trace)
{
	json_t *all = json_object(), *receives = json_array();
	struct counts counts = { 0 };
	char *text;

	for (size_t r = 0; r < trace->rank_count; r++)
		for (size_t t = 0; t < trace->ranks[r].thread_count; t++)
			for (size_t i = 0; i < trace->ranks[r].threads[t].span_count; i++)
				count_span(trace, &trace->ranks[r],
					   &trace->ranks[r].threads[t].spans[i], receives, &counts);
	json_object_set_new(all, "receives", receives);
	json_object_set_new(all, "slack", expected_slack(trace));
	json_object_set_new(all, "copies", json_integer(counts.copies));
	json_object_set_new(all, "registrations", json_integer(counts.registrations));
	json_object_set_new(all, "flows", json_integer(counts.flows));
	text = json_dumps(all, JSON_INDENT(1));
	assert_non_null(text);
	write_bytes("expected.json", text, strlen(text));
	free(text);
	json_decref(all);
}

/* One after another on one thread, as XProf's sums need it; sizes, kinds and times at random. */
static void add_random_collectives(uint64_t seed, struct twi_trace *trace)
{
	static const uint8_t kinds[] = { TWI_COLL_ALL_REDUCE, TWI_COLL_REDUCE_SCATTER,
					 TWI_COLL_ALL_GATHER, TWI_COLL_ALL_TO_ALL,
					 TWI_COLL_PERMUTE,    TWI_COLL_BROADCAST };
	struct twi_trace_rank *rank = &trace->ranks[0];
	uint64_t at = rank->end_ns;
	struct twi_trace_thread *thread = twt_trace_add_thread(rank, "more", 4999);
	uint32_t names[twi_array_count(kinds)];

	for (size_t i = 0; i < twi_array_count(kinds); i++) {
		char name[16];

		snprintf(name, sizeof(name), "part%zu", i);
		names[i] = twt_trace_add_name(rank, name);
	}
	for (uint64_t n = 0; n < 60; n++) {
		size_t which = n % twi_array_count(kinds);
		uint64_t called = 10000 + twt_random_below(&seed, 50000);
		uint64_t computes = 500000 + twt_random_below(&seed, 5000000);
		uint64_t waits = 200000 + twt_random_below(&seed, 3000000);
		struct twi_span *span = twt_trace_add_span(thread, TWI_SPAN_COLL, at,
							   at + called + computes + waits);

		span->id = (uint64_t)9 << 32 | (n + 1);
		span->detail = kinds[which];
		span->name = names[which];
		span->bytes = (which + 1) << 20;
		span->ranks = 2 + (uint32_t)which;
		span->queue_ns = (uint32_t)called;
		span = twt_trace_add_span(thread, TWI_SPAN_WAIT, at + called + computes,
					  at + called + computes + waits);
		span->id = (uint64_t)9 << 32 | (n + 1);
		span->detail = TWI_SPAN_COLL;
		at += called + computes + waits + 1000000;
	}
	rank->end_ns = at;
}

/* Senders have heard of every second message. */
static void add_deliveries(struct twi_trace *trace)
{
	for (size_t r = 0; r < trace->rank_count; r++) {
		struct twi_trace_rank *rank = &trace->ranks[r];
		size_t threads = rank->thread_count;

		for (size_t t = 0; t < threads; t++) {
			struct twi_trace_thread *heard =
				twt_trace_add_thread(rank, "heard", 4900 + (int64_t)t);

			for (size_t i = 0; i < rank->threads[t].span_count; i += 2) {
				struct twi_span span = rank->threads[t].spans[i];

				if (span.kind != TWI_SPAN_SEND)
					continue;
				span.kind = TWI_SPAN_DELIVERY;
				span.end_ns += 7000 + i * 1000;
				span.wire_ns = 5000;
				*twt_trace_add_span(heard, TWI_SPAN_DELIVERY, 0, 0) = span;
			}
		}
	}
}

/* Runs a script of this folder; its reason for skipping is the test's. */
static void ask(const char *script, const char *arguments)
{
	static struct twt_command done;
	char line[1024];

	snprintf(line, sizeof(line),
		 "cd %s && timeout 150 \"$TOW_TEST_PYTHON\" \"$TOW_TEST_SOURCE\"/tests/scenario/"
		 "%s %s 2>tools.log || "
		 "{ status=$?; tail -n 20 tools.log; exit $status; }",
		 folder, script, arguments);
	twt_command(line, &done);
	print_message("%s", done.text);
	if (strstr(done.text, "skipped: ") != NULL)
		skip();
	twt_command_expect(&done, 0, "all agree\n", 1);
}

static void ask_tools(const char *file)
{
	char arguments[400];

	snprintf(arguments, sizeof(arguments), "%s trace.perfetto expected.json", file);
	ask("trace_tools.py", arguments);
}

static void a_made_up_trace_agrees(void **state)
{
	struct twi_trace trace;

	(void)state;
	twt_trace_pair(&trace);
	add_random_collectives(twt_seed(), &trace);
	add_deliveries(&trace);
	write_trace(&trace, twi_export_xspace, "host-a.xplane.pb");
	write_trace(&trace, twi_export_perfetto, "trace.perfetto");
	write_expected(&trace);
	twi_trace_fini(&trace);
	ask_tools("host-a.xplane.pb");
}

/* A trace that towtrace has captured of two ranks, as the model has it. */
static void read_capture(const char *name, struct twi_trace *out)
{
	static char bytes[8 << 20];
	char path[512];
	size_t count;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "rb");
	assert_non_null(file);
	count = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	assert_int_equal(twi_import_xspace(bytes, count, out), TOW_OK);
}

static size_t spans_of(const struct twi_trace *trace, enum twi_span_kind kind)
{
	size_t count = 0;

	for (size_t r = 0; r < trace->rank_count; r++)
		for (size_t t = 0; t < trace->ranks[r].thread_count; t++)
			for (size_t i = 0; i < trace->ranks[r].threads[t].span_count; i++)
				count += trace->ranks[r].threads[t].spans[i].kind == kind;
	return count;
}

static void capture_job(void)
{
	static struct twt_command done;

	twt_capture_job(folder, "traced",
			"timeout 60 @/tools/towtrace/towtrace capture --seconds 0 s/*.sock "
			"--logdir log --run run "
			"&& cp log/plugins/profile/run/*.xplane.pb .",
			&done);
	print_message("%s", done.text);
	twt_command_expect(&done, 0, "log/plugins/profile/run/", 1);
}

/* Two ranks of a job, captured while they run. */
static void a_captured_job_agrees(void **state)
{
	static struct twt_command done;
	struct twi_trace trace;
	char file[300];

	(void)state;
	capture_job();
	snprintf(file, sizeof(file), "cd %s && ls *.xplane.pb | grep -v host-a", folder);
	twt_command(file, &done);
	snprintf(file, sizeof(file), "%.*s", (int)twi_min(strcspn(done.text, "\n"), 200u),
		 done.text);
	read_capture(file, &trace);
	assert_int_equal(trace.rank_count, 2);
	assert_int_equal(spans_of(&trace, TWI_SPAN_STEP), 2 * 6);
	assert_in_range(spans_of(&trace, TWI_SPAN_RECV), 6, 100000);
	write_expected(&trace);
	write_trace(&trace, twi_export_perfetto, "trace.perfetto");
	twi_trace_fini(&trace);
	ask_tools(file);
	ask("xprof_server.py", "log run expected.json");
}

/* What a capture says of latencies is what /v1/latency has counted: notebook.py. */
static void latencies_agree(void **state)
{
	(void)state;
	ask("notebook.py", "\"$TOW_TEST_BUILD\" . tcp shm");
}

/* XProf's slack, sizes and names of a job are what the job did: megascale.py. */
static void planted_slack_is_found(void **state)
{
	(void)state;
	ask("megascale.py", "\"$TOW_TEST_BUILD\" . tcp shm");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_made_up_trace_agrees),
		cmocka_unit_test(a_captured_job_agrees),
		cmocka_unit_test(latencies_agree),
		cmocka_unit_test(planted_slack_is_found),
	};
	char line[64];
	int failed;

	if (getenv("TOW_TEST_PYTHON") == NULL || getenv("TOW_TEST_SOURCE") == NULL) {
		printf("skipped: TOW_TEST_PYTHON names no Python with xprof, jax and perfetto "
		       "(tests/fetch_python makes one)\n");
		return 77;
	}
	if (twi_xspace_ready() < 0) {
		printf("skipped: %s\n", tow_error_message());
		return 77;
	}
	if (mkdtemp(folder) == NULL)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(line, sizeof(line), "rm -rf %s", folder);
	return system(line) == 0 ? failed : 1;
}
