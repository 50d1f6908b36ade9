/*
 * test_profile.c - profiles for schedulers: what a trace of known numbers gives, JSON read again,
 * XLA's formats read again by protobuf-c, and what is refused of a stranger's JSON.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "diag/record/coll_kind.h"
#include "diag/record/lane_id.h"
#include "diag/trace/export/export.h"
#include "tools/profile/profile.h"
#include "tools/trace/document.h"
#include "tools/trace/profile_make.h"
#include "traces.h"

static char why[TOOL_PROFILE_WHY];

static struct tool_profile_row make_row(const char *kind, uint64_t bytes, uint32_t ranks,
					const char *lane, double us)
{
	struct tool_profile_row row = { .bytes = bytes, .ranks = ranks, .hosts = 1, .count = 9 };

	snprintf(row.kind, sizeof(row.kind), "%s", kind);
	snprintf(row.type, sizeof(row.type), "f32");
	snprintf(row.lane, sizeof(row.lane), "%s", lane);
	row.latency = (struct tool_profile_times){ us + 2, us + 1, us + 3 };
	row.moving = (struct tool_profile_times){ us + 1, us, us + 2 };
	return row;
}

static void add(struct tool_profile *profile, struct tool_profile_row row, const char *name)
{
	snprintf(row.name, sizeof(row.name), "%s", name);
	assert_int_equal(tool_profile_add(profile, &row, why), 0);
}

static void quantiles_are_values(void **state)
{
	double values[] = { 5, 1, 4, 2, 3, 10, 9, 8, 7, 6 };
	struct tool_profile_times times = tool_profile_times_of(values, 10);

	(void)state;
	assert_true(times.median_us == 5 && times.p90_us == 9);
	assert_true(times.mean_us > 5.49 && times.mean_us < 5.51);
	times = tool_profile_times_of(values, 1);
	assert_true(times.median_us == 1 && times.p90_us == 1 && times.mean_us == 1);
}

#ifndef TWI_XSPACE_OFF

#include <tools/trace/xla_profile.pb-c.h>

/* The profile of a trace, by way of a file's bytes, as towtrace has it. */
static void profile_trace(const struct twi_trace *trace, struct tool_profile *out)
{
	struct trace_document *document;
	char *bytes;
	size_t count;

	*out = (struct tool_profile){ 0 };
	assert_int_equal(twi_export_xspace(trace, &bytes, &count), TOW_OK);
	if (trace_document_load(bytes, count, &document) < 0)
		fail_msg("%s", tow_error_message());
	assert_int_equal(trace_document_profile(document, out), TOW_OK);
	trace_document_release(document);
	free(bytes);
}

static void expect_row(const struct tool_profile_row *row, const char *lane, uint32_t hosts,
		       uint64_t count)
{
	assert_string_equal(row->kind, "all-reduce");
	assert_string_equal(row->type, "");
	assert_string_equal(row->lane, lane);
	assert_int_equal(row->hosts, hosts);
	assert_int_equal(row->count, count);
	assert_int_equal(row->ranks, 2);
}

/* Rank 0 takes 4000 us, and has come 300 us before rank 1, which takes 3700. */
static void a_trace_gives_its_times(void **state)
{
	struct tool_profile profile;
	struct twi_trace pair;

	(void)state;
	twt_trace_pair(&pair);
	profile_trace(&pair, &profile);
	assert_int_equal(profile.collectives.count, 1);
	assert_int_equal(profile.names.count, 1);
	expect_row(&profile.collectives.rows[0], "tcp", 2, 2 * TWT_PAIR_STEPS);
	assert_int_equal(profile.collectives.rows[0].bytes, 8u << 20);
	assert_string_equal(profile.names.rows[0].name, "grads");
	assert_true(profile.collectives.rows[0].latency.median_us == 3700);
	assert_true(profile.collectives.rows[0].latency.p90_us == 4000);
	assert_true(profile.collectives.rows[0].latency.mean_us == 3850);
	assert_true(profile.collectives.rows[0].moving.mean_us == 3700);
	assert_true(profile.collectives.rows[0].moving.p90_us == 3700);
	tool_profile_fini(&profile);
	/* Of one rank alone it is not known where the other one was. */
	pair.rank_count = 1;
	profile_trace(&pair, &profile);
	pair.rank_count = 2;
	expect_row(&profile.collectives.rows[0], "tcp", 0, TWT_PAIR_STEPS);
	assert_true(profile.collectives.rows[0].moving.median_us == 4000);
	tool_profile_fini(&profile);
	twi_trace_fini(&pair);
}

static void put_collectives(struct twi_trace_rank *rank, bool sends)
{
	struct twi_trace_thread *thread;

	twt_trace_add_thread(rank, "main", 7);
	twt_trace_add_thread(rank, "tow", 8);
	thread = &rank->threads[0];

	for (uint64_t i = 1; i <= 3; i++) {
		struct twi_span *span =
			twt_trace_add_span(thread, TWI_SPAN_COLL, i * 1000, i * 1000 + 500);

		span->id = UINT64_C(5) << 32 | i;
		span->bytes = 4096;
		span->ranks = 2;
		span->detail = TWI_COLL_ALL_REDUCE;
		span->status = (int8_t)(i == 3 ? TOW_EPEER : TOW_OK);
	}
	for (uint64_t i = 0; sends && i < 2; i++) {
		struct twi_span *span =
			twt_trace_add_span(&rank->threads[1], TWI_SPAN_SEND, 1100, 1200);

		span->parent = UINT64_C(5) << 32 | 1;
		span->lane = i == 0 ? TWI_LANE_TCP : TWI_LANE_SHM;
	}
}

/* Without messages it was in shared memory; with those of two lanes, mixed. One has failed. */
static void lanes_are_told_by_messages(void **state)
{
	struct twi_trace trace = { 0 };
	struct tool_profile profile;

	(void)state;
	put_collectives(twt_trace_add_rank(&trace, "one", 0), false);
	put_collectives(twt_trace_add_rank(&trace, "one", 1), true);
	profile_trace(&trace, &profile);
	assert_int_equal(profile.collectives.count, 2);
	assert_int_equal(profile.names.count, 0);
	expect_row(&profile.collectives.rows[0], "shm", 1, 2);
	expect_row(&profile.collectives.rows[1], "mixed", 1, 2);
	assert_true(profile.collectives.rows[0].latency.median_us == 0.5);
	assert_true(profile.collectives.rows[0].moving.median_us == 0.5);
	tool_profile_fini(&profile);
	/* Rank 1 comes later, so nothing moves before that: by clocks, and without those, too. */
	for (size_t i = 0; i < 3; i++)
		trace.ranks[1].threads[0].spans[i].start_ns += 200;
	trace.ranks[0].threads[0].spans[0].end_ns += 50;
	for (size_t turn = 0; turn < 2; turn++) {
		profile_trace(&trace, &profile);
		assert_true(profile.collectives.rows[1].latency.p90_us == 0.55);
		assert_true(profile.collectives.rows[1].moving.p90_us == (turn ? 0.3 : 0.35));
		assert_true(profile.collectives.rows[1].moving.median_us == 0.3);
		tool_profile_fini(&profile);
		trace.ranks[1].clock_error_ns = UINT64_MAX;
	}
	/* Where a rank may be done before others have come, nothing is known of that. */
	for (size_t i = 0; i < 6; i++)
		trace.ranks[i / 3].threads[0].spans[i % 3].detail = TWI_COLL_BROADCAST;
	profile_trace(&trace, &profile);
	assert_true(profile.collectives.rows[0].moving.p90_us == 0.5);
	tool_profile_fini(&profile);
	/* Small messages may have been passed over. */
	trace.ranks[0].sampled_out = trace.ranks[1].sampled_out = 1;
	profile_trace(&trace, &profile);
	assert_string_equal(profile.collectives.rows[profile.collectives.count - 1].lane, "mixed");
	assert_string_equal(profile.collectives.rows[0].lane, "");
	tool_profile_fini(&profile);
	twi_trace_fini(&trace);
}

static void any_trace_is_taken(void **state)
{
	struct tool_profile profile;
	struct twi_trace trace;

	(void)state;
	for (uint64_t seed = 0; seed < 50; seed++) {
		struct trace_document *document;
		char *bytes;
		size_t count;

		twt_trace_random(seed, &trace);
		profile = (struct tool_profile){ 0 };
		assert_int_equal(twi_export_xspace(&trace, &bytes, &count), TOW_OK);
		if (trace_document_load(bytes, count, &document) == TOW_OK) {
			assert_int_equal(trace_document_profile(document, &profile), TOW_OK);
			trace_document_release(document);
		}
		free(bytes);
		tool_profile_fini(&profile);
		twi_trace_fini(&trace);
	}
}

/* --- XLA --- */

static Twi__XlaTable *read_table(const struct tool_profile *profile, size_t left)
{
	size_t count, left_out;
	Twi__XlaTable *table;
	char *bytes;

	assert_int_equal(profile_xla_table(profile, "sm_90", &bytes, &count, &left_out), TOW_OK);
	assert_int_equal(left_out, left);
	table = twi__xla_table__unpack(NULL, count, (const uint8_t *)bytes);
	assert_non_null(table);
	free(bytes);
	assert_int_equal(table->n_entries, 1);
	assert_string_equal(table->entries[0]->key, "sm_90");
	return table;
}

static void expect_entry(const Twi__XlaProfile *entry, const char *opcode, int64_t elements,
			 uint64_t bytes, double us)
{
	double rate = (double)entry->network_throughput_bytes_per_sec;
	double again = (double)bytes / rate * 1e6; /* as XLA makes a time of it */

	assert_string_equal(entry->instruction->opcode, opcode);
	assert_int_equal(entry->instruction->shape->n_dimensions, 1);
	assert_int_equal(entry->instruction->shape->dimensions[0], elements);
	assert_int_equal(entry->instruction->shape->element_type, 11);
	assert_true(again > us * 0.999999 && again < us * 1.000001);
}

static void a_table_is_read_again(void **state)
{
	struct tool_profile profile = { 0 };
	struct tool_profile_row ring = make_row("permute", 4096, 3, "shm", 6);
	const Twi__XlaProfiles *list;
	Twi__XlaTable *table;

	(void)state;
	ring.ring = true;
	add(&profile, make_row("reduce-scatter", 8192, 4, "shm", 50), "");
	add(&profile, make_row("all-reduce", 1 << 20, 4, "shm", 700), "");
	add(&profile, make_row("all-gather", 8192, 4, "shm", 40), "");
	add(&profile, make_row("all-to-all", 8192, 4, "tcp", 30), "");
	add(&profile, ring, "");
	/* No place for: no opcode, pairs not known, not whole, one rank, no bytes, no time. */
	add(&profile, make_row("barrier", 0, 4, "shm", 3), "");
	add(&profile, make_row("permute", 4096, 4, "shm", 6), "");
	add(&profile, make_row("all-gather", 8196, 4, "shm", 40), "");
	add(&profile, make_row("all-reduce", 64, 1, "shm", 40), "");
	add(&profile, make_row("all-reduce", 0, 4, "shm", 40), "");
	add(&profile, make_row("all-reduce", 128, 4, "shm", 0), "");
	table = read_table(&profile, 6);
	list = table->entries[0]->value;
	assert_int_equal(list->n_entries, 5);
	expect_entry(list->entries[0], "all-gather", 2048, 8192, 40);
	expect_entry(list->entries[1], "all-reduce", 262144, 1 << 20, 700);
	expect_entry(list->entries[2], "all-to-all", 2048, 8192, 30);
	expect_entry(list->entries[3], "collective-permute", 1024, 4096, 6);
	expect_entry(list->entries[4], "reduce-scatter", 512, 8192, 50);
	assert_int_equal(
		list->entries[1]->instruction->iota_collective_device_list->num_devices_per_group,
		4);
	assert_int_equal(list->entries[3]->instruction->n_source_target_pairs, 3);
	assert_int_equal(list->entries[3]->instruction->source_target_pairs[2]->source, 2);
	assert_int_equal(list->entries[3]->instruction->source_target_pairs[2]->target, 0);
	twi__xla_table__free_unpacked(table, NULL);
	tool_profile_fini(&profile);
}

static void a_table_has_no_lanes(void **state)
{
	struct tool_profile profile = { 0 };
	size_t count, left;
	char *bytes;

	(void)state;
	assert_int_equal(profile_xla_table(&profile, "sm_90", &bytes, &count, &left), TOW_EINVAL);
	add(&profile, make_row("all-reduce", 4096, 4, "shm", 7), "");
	add(&profile, make_row("all-reduce", 4096, 4, "tcp", 70), "");
	assert_int_equal(profile_xla_table(&profile, "sm_90", &bytes, &count, &left), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "choose with --lane"));
	tool_profile_fini(&profile);
}

static void costs_are_read_again(void **state)
{
	struct tool_profile profile = { 0 }, none = { 0 };
	size_t count, left;
	Twi__XlaCosts *costs;
	char *bytes;

	(void)state;
	assert_int_equal(profile_xla_costs(&profile, &bytes, &count, &left), TOW_EINVAL);
	add(&profile, make_row("all-reduce", 4096, 4, "shm", 7), "all-reduce-start.1 of dp");
	add(&profile, make_row("all-reduce", 8192, 4, "shm", 8.5), "all-gather-start");
	/* No instruction's: a name of two sizes, with a space. */
	add(&profile, make_row("all-reduce", 4096, 4, "shm", 7), "bucket");
	add(&profile, make_row("all-reduce", 8192, 4, "shm", 7), "bucket of dp");
	add(&profile, make_row("all-reduce", 8192, 4, "shm", 7), "3 combined");
	assert_int_equal(tool_profile_merge(&profile, &none, why), 0);
	assert_int_equal(profile_xla_costs(&profile, &bytes, &count, &left), TOW_OK);
	assert_int_equal(left, 3);
	costs = twi__xla_costs__unpack(NULL, count, (const uint8_t *)bytes);
	assert_int_equal(costs->n_costs, 2);
	assert_string_equal(costs->costs[0]->name, "all-gather-start");
	assert_true(costs->costs[0]->cost_us == 8.5);
	assert_string_equal(costs->costs[1]->name, "all-reduce-start.1");
	assert_true(costs->costs[1]->cost_us == 7);
	twi__xla_costs__free_unpacked(costs, NULL);
	free(bytes);
	tool_profile_fini(&profile);
}

#define XLA_TESTS                                                                                  \
	cmocka_unit_test(a_trace_gives_its_times), cmocka_unit_test(lanes_are_told_by_messages),   \
		cmocka_unit_test(any_trace_is_taken), cmocka_unit_test(a_table_is_read_again),     \
		cmocka_unit_test(a_table_has_no_lanes), cmocka_unit_test(costs_are_read_again),

#else

static void it_says_why_there_is_none(void **state)
{
	struct tool_profile profile = { 0 };
	size_t count, left;
	char *bytes;

	(void)state;
	assert_int_equal(profile_xla_table(&profile, "sm_90", &bytes, &count, &left), TOW_ENOTSUP);
	assert_int_equal(profile_xla_costs(&profile, &bytes, &count, &left), TOW_ENOTSUP);
	assert_non_null(strstr(tow_error_message(), TWI_XSPACE_OFF));
}

#define XLA_TESTS cmocka_unit_test(it_says_why_there_is_none),

#endif

/* --- JSON --- */

static void json_is_read_again(void **state)
{
	struct tool_profile profile = { 0 }, again, twice;
	struct tool_profile_row unknown = make_row("permute", 12, 5, "", 3);
	char *text;

	(void)state;
	memset(unknown.type, 0, sizeof(unknown.type));
	unknown.hosts = 0;
	unknown.ring = true;
	add(&profile, make_row("all-reduce", 4096, 4, "shm", 7.25), "");
	add(&profile, unknown, "");
	add(&profile, make_row("barrier", 0, 4, "tcp", 1), "a \"name\"");
	assert_int_equal(tool_profile_write(&profile, "test", &text, why), 0);
	assert_int_equal(tool_profile_read(text, strlen(text), &again, why), 0);
	assert_int_equal(again.collectives.count, 2);
	assert_int_equal(again.names.count, 1);
	assert_memory_equal(again.collectives.rows, profile.collectives.rows,
			    2 * sizeof(*again.collectives.rows));
	assert_memory_equal(again.names.rows, profile.names.rows, sizeof(*again.names.rows));
	/* Quantiles of two runs do not add up. */
	assert_int_equal(tool_profile_read(text, strlen(text), &twice, why), 0);
	assert_int_equal(tool_profile_merge(&again, &twice, why), -1);
	assert_non_null(
		strstr(why, "all-reduce of 4096 bytes on 4 ranks, lane shm, is there twice"));
	assert_int_equal(again.collectives.count, 2);
	assert_int_equal(twice.collectives.count, 2);
	tool_profile_fini(&profile);
	tool_profile_fini(&again);
	tool_profile_fini(&twice);
	free(text);
}

#define TIMES "\"latency_us\":{\"mean\":1,\"median\":1,\"p90\":1}"
#define MOVES "\"moving_us\":{\"mean\":1,\"median\":1,\"p90\":1}"
#define ROW(kind, numbers, times)                                                                  \
	"{\"kind\":" kind ",\"hosts\":null," numbers "," times "," MOVES "}"
#define DOCUMENT(version, row)                                                                     \
	"{\"schema\":\"towline-collective-profile\",\"version\":" version ",\"collectives\":[" row \
	"],\"names\":[]}"
#define GOOD "\"bytes\":8,\"ranks\":2,\"count\":1"

static void wrong_json_is_told(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "", "line 1: it is no JSON" },
		{ "{\n\"a\":", "line 2: it is no JSON" },
		{ "[]", "its \"schema\" is not" },
		{ "{}", "its \"schema\" is not" },
		{ DOCUMENT("2", ""), "its \"version\" is not 1" },
		{ DOCUMENT("1.0", ""), "its \"version\" is not 1" },
		{ "{\"schema\":\"towline-collective-profile\",\"version\":1}",
		  "it has no list \"collectives\"" },
		{ DOCUMENT("1", "7"), "\"collectives\" row 0: it is no object" },
		{ DOCUMENT("1", ROW("\"dance\"", GOOD, TIMES)),
		  "\"kind\" is not the name of a collective" },
		{ DOCUMENT("1", ROW("7", GOOD, TIMES)), "\"kind\" is no text" },
		{ DOCUMENT("1", ROW("\"barrier\",\"type\":\"f31\"", GOOD, TIMES)),
		  "\"type\" is not the name of a type" },
		{ DOCUMENT("1", ROW("\"barrier\",\"name\":\"x\"", GOOD, TIMES)),
		  "it has a \"name\"" },
		{ DOCUMENT("1", ROW("\"barrier\"", "\"bytes\":-1,\"ranks\":2,\"count\":1", TIMES)),
		  "\"bytes\" is no whole number from 0" },
		{ DOCUMENT("1", ROW("\"barrier\"", "\"bytes\":8,\"ranks\":0,\"count\":1", TIMES)),
		  "\"ranks\" is no whole number from 1" },
		{ DOCUMENT("1", ROW("\"barrier\"", "\"bytes\":8,\"ranks\":2,\"count\":1.5", TIMES)),
		  "\"count\" is no whole number" },
		{ DOCUMENT("1", ROW("\"barrier\"", GOOD, "\"latency_us\":{\"mean\":-1}")),
		  "\"latency_us\" has no time \"mean\"" },
		{ DOCUMENT("1", ROW("\"barrier\"", GOOD, "\"latency_us\":7")),
		  "\"latency_us\" has no time \"mean\"" },
		{ DOCUMENT("1",
			   ROW("\"barrier\"", GOOD, TIMES) "," ROW("\"barrier\"", GOOD, TIMES)),
		  "barrier of 8 bytes on 2 ranks, lane unknown, is there twice" },
	};
	static const char good[] = DOCUMENT("1", ROW("\"barrier\"", GOOD, TIMES));
	struct tool_profile out;

	(void)state;
	assert_int_equal(tool_profile_read(good, sizeof(good) - 1, &out, why), 0);
	tool_profile_fini(&out);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(tool_profile_read(cases[i].text, strlen(cases[i].text), &out, why),
				 -1);
		if (strstr(why, cases[i].words) == NULL)
			fail_msg("case %zu says \"%s\", not \"%s\"", i, why, cases[i].words);
		assert_null(out.collectives.rows);
	}
	/* Each place cut off is told, and none is taken. */
	for (size_t count = 0; count < sizeof(good) - 1; count++)
		assert_int_equal(tool_profile_read(good, count, &out, why), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(quantiles_are_values),
					    XLA_TESTS cmocka_unit_test(json_is_read_again),
					    cmocka_unit_test(wrong_json_is_told) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
