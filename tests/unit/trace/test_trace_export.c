/*
 * test_trace_export.c - traces for users (trace.h), and what an XSpace says, by hand.
 */
#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "diag/record/coll_kind.h"
#include "diag/trace/export/clean.h"
#include "diag/trace/export/export.h"
#include "diag/trace/export/ops.h"
#include "diag/trace/export/show.h"
#include "tools/trace/formats.h"
#include "traces.h"

#define SKIP_WITHOUT_XSPACE()                                                                      \
	do {                                                                                       \
		if (twi_xspace_ready() < 0)                                                        \
			skip();                                                                    \
	} while (0)

static void wrong_arguments_are_refused(void **state)
{
	struct tow_trace trace = { 0 };
	size_t count;
	void *bytes;

	(void)state;
	assert_int_equal(tow_trace_encode(NULL, TOW_TRACE_JSON, &bytes, &count), TOW_EINVAL);
	assert_int_equal(tow_trace_encode(&trace, TOW_TRACE_JSON, NULL, &count), TOW_EINVAL);
	assert_int_equal(tow_trace_encode(&trace, TOW_TRACE_JSON, &bytes, NULL), TOW_EINVAL);
	/* As a format that the library does not write: what writes it is named. */
	assert_int_equal(tow_trace_encode(&trace, (enum tow_trace_format)2, &bytes, &count),
			 TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "towtrace convert"));
	tow_trace_release(NULL);
	tow_trace_bytes_release(NULL);
}

static void a_trace_is_encoded_in_both_formats(void **state)
{
	struct tow_trace trace;
	size_t count;
	void *bytes;
	int status;

	(void)state;
	twt_trace_pair(&trace.trace);
	assert_int_equal(tow_trace_encode(&trace, TOW_TRACE_JSON, &bytes, &count), TOW_OK);
	assert_non_null(memmem(bytes, count, "\"timeline\"", 10));
	tow_trace_bytes_release(bytes);
	status = tow_trace_encode(&trace, TOW_TRACE_XSPACE, &bytes, &count);
	assert_int_equal(status, twi_xspace_ready() == TOW_OK ? TOW_OK : TOW_ENOTSUP);
	assert_int_equal(count > 1000, status == TOW_OK);
	tow_trace_bytes_release(bytes);
	twi_trace_fini(&trace.trace);
}

/* Rank 1's clock is 4 s ahead; on the axis of the trace the ranks' steps begin together. */
static void clocks_are_put_on_one_axis(void **state)
{
	struct twi_trace pair;
	const struct twi_trace_rank *ranks;

	(void)state;
	twt_trace_pair(&pair);
	ranks = pair.ranks;
	assert_int_equal((int64_t)ranks[0].begin_ns + twi_show_unix_ns(&pair, &ranks[0]),
			 (int64_t)ranks[1].begin_ns + twi_show_unix_ns(&pair, &ranks[1]));
	pair.ranks[1].unix_ns += 500; /* its host's time of day is wrong, which does not matter */
	assert_int_equal((int64_t)ranks[0].begin_ns + twi_show_unix_ns(&pair, &ranks[0]),
			 (int64_t)ranks[1].begin_ns + twi_show_unix_ns(&pair, &ranks[1]));
	pair.ranks[1].clock_error_ns = UINT64_MAX; /* until it is all that is known */
	assert_int_equal((int64_t)ranks[0].begin_ns + twi_show_unix_ns(&pair, &ranks[0]) + 500,
			 (int64_t)ranks[1].begin_ns + twi_show_unix_ns(&pair, &ranks[1]));
	twi_trace_fini(&pair);
}

static void ops_are_what_calls_and_waits_were(void **state)
{
	struct twi_trace pair;
	struct twi_ops ops;
	const struct twi_op *op;

	(void)state;
	twt_trace_pair(&pair);
	assert_int_equal(twi_ops_make(&pair, &ops), TOW_OK);
	/* Each step: four of the collective, and at rank 0 two waits, at rank 1 one. */
	assert_int_equal(ops.ranks[0].op_count, TWT_PAIR_STEPS * 6);
	assert_int_equal(ops.ranks[1].op_count, TWT_PAIR_STEPS * 5);
	op = &ops.ranks[0].ops[0];
	assert_int_equal(op->what, TWI_OP_SEND);
	assert_int_equal(op->end_ns - op->start_ns, 20000);
	assert_int_equal(op[1].what, TWI_OP_RECV);
	assert_int_equal(op[2].what, TWI_OP_SEND_DONE);
	assert_int_equal(op[3].what, TWI_OP_RECV_DONE);
	assert_int_equal(op[3].start_ns - op->start_ns, 3500000);
	assert_int_equal(op[3].end_ns - op[3].start_ns, 520000);
	assert_string_equal(ops.rendezvous[op->rendezvous].name, "grads_1");
	assert_string_equal(twi_rendezvous_transfer(&ops.rendezvous[op->rendezvous]), "ALL_REDUCE");
	assert_int_equal(ops.ranks[1].ops[0].rendezvous, op->rendezvous);
	assert_int_equal(ops.left_out, 0);
	twi_ops_fini(&ops);
	twi_trace_fini(&pair);
}

/* Two of one name under way at once need two rendezvous, as XProf keeps one state for each. */
static void what_overlaps_has_its_own_rendezvous(void **state)
{
	struct twi_trace trace = { 0 };
	struct twi_trace_rank *rank = twt_trace_add_rank(&trace, "h", 0);
	struct twi_trace_thread *thread = twt_trace_add_thread(rank, "t", 1);
	const struct twi_op_coll *colls;
	struct twi_ops ops;

	(void)state;
	for (uint64_t i = 0; i < 6; i++) {
		struct twi_span *span = twt_trace_add_span(thread, TWI_SPAN_COLL, 1000 * i,
							   1000 * i + (i < 4 ? 1500 : 500));

		span->id = i + 1;
		span->detail = TWI_COLL_ALL_REDUCE;
		span->ranks = 2;
	}
	assert_int_equal(twi_ops_make(&trace, &ops), TOW_OK);
	colls = ops.ranks[0].colls;
	assert_int_not_equal(colls[0].rendezvous, colls[1].rendezvous);
	assert_int_equal(colls[0].rendezvous, colls[2].rendezvous);
	assert_int_equal(colls[1].rendezvous, colls[3].rendezvous);
	assert_int_equal(colls[0].rendezvous, colls[5].rendezvous);
	assert_int_equal(ops.rendezvous_count, 2);
	twi_ops_fini(&ops);
	twi_trace_fini(&trace);
}

/* What nobody has named is told by kind and size; each size in one way, and no two alike. */
static void names_tell_kind_and_size(void **state)
{
	static const struct {
		const char *user;
		unsigned kind;
		uint64_t bytes;
		const char *want;
	} rows[] = {
		{ NULL, TWI_COLL_ALL_REDUCE, 0, "all-reduce-0B_1" },
		{ NULL, TWI_COLL_ALL_REDUCE, 1000, "all-reduce-1000B_1" },
		{ "", TWI_COLL_ALL_REDUCE, 1000, "all-reduce-1000B_2" },
		{ NULL, TWI_COLL_ALL_GATHER, 1000, "all-gather-1000B_1" },
		{ NULL, TWI_COLL_ALL_REDUCE, 1024, "all-reduce-1KiB_1" },
		{ NULL, TWI_COLL_ALL_REDUCE, 1025, "all-reduce-1025B_1" },
		{ NULL, TWI_COLL_ALL_REDUCE, 1536, "all-reduce-1.5KiB_1" },
		{ NULL, TWI_COLL_ALL_REDUCE, 2359296, "all-reduce-2.25MiB_1" },
		{ NULL, TWI_COLL_ALL_REDUCE, 154389504, "all-reduce-150771KiB_1" },
		{ NULL, TWI_COLL_ALL_REDUCE, (1ull << 40) * 21 / 20, NULL },
		{ NULL, TWI_COLL_ALL_REDUCE, (1ull << 30) / 25 * 25, NULL },
		{ NULL, TWI_COLL_REDUCE_SCATTER, UINT64_MAX,
		  "reduce-scatter-18446744073709551615B_1" },
		{ NULL, TWI_COLL_BARRIER, 0, "barrier_1" },
		{ NULL, TWI_COLL_KINDS, 3 << 20, "collective-3MiB_1" },
		{ "one", TWI_COLL_ALL_REDUCE, 77, "one_1" },
		{ "one", TWI_COLL_ALL_REDUCE, 77, "one_2" },
		{ "two", TWI_COLL_ALL_REDUCE, 1024, "two-all-reduce-1KiB_1" },
		{ "two", TWI_COLL_ALL_REDUCE, 2048, "two-all-reduce-2KiB_1" },
		{ "a=b c", TWI_COLL_ALL_REDUCE, 9, "a_b_c_1" },
		{ "a b=c", TWI_COLL_ALL_REDUCE, 9, "a_b_c_2" },
		{ "3 combined", TWI_COLL_ALL_REDUCE, 9216, "all-reduce-9KiB-3_combined_1" },
		{ "3 combined of dp", TWI_COLL_ALL_REDUCE, 9216,
		  "all-reduce-9KiB-3_combined_of_dp_1" },
		{ "3 combinedx", TWI_COLL_ALL_REDUCE, 9216, "3_combinedx_1" },
		{ "combined", TWI_COLL_ALL_REDUCE, 9216, "combined_1" },
	};
	char out[TWI_RENDEZVOUS_BYTES], before[TWI_RENDEZVOUS_BYTES] = "";
	struct twi_op_names names;

	(void)state;
	assert_true(twi_op_names_init(&names));
	for (size_t i = 0; i < twi_array_count(rows); i++)
		twi_op_names_see(&names, rows[i].user, rows[i].kind, rows[i].bytes);
	for (size_t i = 0; i < twi_array_count(rows); i++) {
		assert_true(
			twi_op_names_make(&names, rows[i].user, rows[i].kind, rows[i].bytes, out));
		assert_string_not_equal(out, before);
		strcpy(before, out);
		if (rows[i].want != NULL)
			assert_string_equal(out, rows[i].want);
	}
	assert_true(twi_op_names_plain(&names, "", out));
	assert_string_equal(out, "op_1");
	twi_op_names_fini(&names);
}

/* However long a name is, its kind and size are told, and its number. */
static void long_names_are_cut_before_their_size(void **state)
{
	char user[400], out[TWI_RENDEZVOUS_BYTES];
	struct twi_op_names names;

	(void)state;
	memset(user, 'n', sizeof(user) - 1);
	user[sizeof(user) - 1] = '\0';
	assert_true(twi_op_names_init(&names));
	twi_op_names_see(&names, user, TWI_COLL_REDUCE_SCATTER, 1);
	twi_op_names_see(&names, user, TWI_COLL_REDUCE_SCATTER, UINT64_MAX);
	assert_true(twi_op_names_make(&names, user, TWI_COLL_REDUCE_SCATTER, UINT64_MAX, out));
	assert_non_null(strstr(out, "n-reduce-scatter-18446744073709551615B_1"));
	twi_op_names_fini(&names);
}

/* More names than there is room for: the spans are all there, the views say what they lack. */
static void too_many_names_are_told(void **state)
{
	struct twi_trace trace = { 0 }, again;
	struct twi_trace_rank *rank = twt_trace_add_rank(&trace, "h", 0);
	struct twi_trace_thread *thread = twt_trace_add_thread(rank, "t", 1);
	struct twi_ops ops;
	char *bytes, why[128];
	size_t count;

	(void)state;
	SKIP_WITHOUT_XSPACE();
	rank->clock_error_ns = UINT64_MAX;
	for (uint64_t i = 0; i < TWI_RENDEZVOUS_MAX + 10; i++) {
		struct twi_span *span =
			twt_trace_add_span(thread, TWI_SPAN_COLL, 10 * i, 10 * i + 5);

		span->id = i + 1;
		span->bytes = i;
	}
	assert_int_equal(twi_ops_make(&trace, &ops), TOW_OK);
	assert_int_equal(ops.left_out, 10);
	twi_ops_fini(&ops);
	assert_int_equal(twi_export_xspace(&trace, &bytes, &count), TOW_OK);
	assert_non_null(memmem(bytes, count, "10 operations are not among", 27));
	assert_non_null(memmem(bytes, count, "a device here is a rank", 23));
	assert_int_equal(twi_import_xspace(bytes, count, &again), TOW_OK);
	assert_true(twt_trace_same(&trace, &again, why, sizeof(why)));
	free(bytes);
	twi_trace_fini(&again);
	twi_trace_fini(&trace);
}

static void texts_are_cleaned(void **state)
{
	static const char *const dirty[][2] = {
		{ "a\nb", "a?b" },
		{ "\xff", "?" },
		{ "\xc3\xa4", "\xc3\xa4" },
		{ "\xc3", "?" },
		{ "\xe2\x82", "??" },
		{ "\xed\xa0\x80", "???" },
		{ "\xc0\xaf", "??" },
		{ "\xf4\x90\x80\x80", "????" },
		{ "\x7f", "?" },
		{ "\xf0\x9f\x9a\x80", "\xf0\x9f\x9a\x80" },
	};

	(void)state;
	for (size_t i = 0; i < twi_array_count(dirty); i++) {
		struct twi_trace trace = { 0 }, view;
		struct twi_trace_rank *rank = twt_trace_add_rank(&trace, dirty[i][0], 0);

		twt_trace_add_name(rank, dirty[i][0]);
		twt_trace_add_peer(rank, dirty[i][0], 1);
		twt_trace_add_thread(rank, dirty[i][0], 1);
		assert_int_equal(twi_clean_make(&trace, &view), TOW_OK);
		assert_string_equal(view.ranks[0].host, dirty[i][1]);
		assert_string_equal(view.ranks[0].names[0], dirty[i][1]);
		assert_string_equal(view.ranks[0].peers[0].name, dirty[i][1]);
		assert_string_equal(view.ranks[0].threads[0].name, dirty[i][1]);
		assert_true(twi_text_is_clean(dirty[i][1]));
		assert_int_equal(twi_text_is_clean(dirty[i][0]),
				 strcmp(dirty[i][0], dirty[i][1]) == 0);
		twi_clean_fini(&view);
		twi_trace_fini(&trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_arguments_are_refused),
		cmocka_unit_test(a_trace_is_encoded_in_both_formats),
		cmocka_unit_test(clocks_are_put_on_one_axis),
		cmocka_unit_test(ops_are_what_calls_and_waits_were),
		cmocka_unit_test(what_overlaps_has_its_own_rendezvous),
		cmocka_unit_test(names_tell_kind_and_size),
		cmocka_unit_test(long_names_are_cut_before_their_size),
		cmocka_unit_test(too_many_names_are_told),
		cmocka_unit_test(texts_are_cleaned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
