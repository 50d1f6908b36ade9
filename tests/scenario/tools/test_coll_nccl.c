/*
 * test_coll_nccl.c - tow-coll --format nccl-tests: its rows have the columns of NVIDIA's
 * nccl-tests, and the numbers in them are those of that project's formulas; and what tow-coll and
 * tow-coll-tune refuse.
 */
#include "command.h"

#include <math.h>

#define BENCH "@/bench/tow-coll --no-pin --seconds 0.02 --format nccl-tests "

static struct twt_command command;

/* One form of a row. */
struct half {
	double time_us, alg, bus;
	unsigned long long wrong;
};

struct row {
	unsigned long long size, count;
	char type[16], redop[16];
	int root;
	struct half out, in;
	int fields;
};

static double bus_sum;
static unsigned bus_count;

/* Two digits behind the point, and the time has three or more in all. */
static void close_to(double got, double want, const char *what)
{
	if (fabs(got - want) > 0.006 + 0.006 * want)
		fail_msg("%s is %g, not %g:\n%s", what, got, want, command.text);
}

static void check_half(const struct row *row, const struct half *half, double factor)
{
	/* Both by the time: of a slow machine algbw itself has one digit. */
	double alg = (double)row->size / half->time_us / 1e3;

	close_to(half->alg, alg, "algbw");
	close_to(half->bus, alg * factor, "busbw");
	assert_int_equal(half->wrong, 0);
	bus_sum += half->bus;
	bus_count++;
}

static struct row row_at(const char *text)
{
	struct row row = { 0 };

	row.fields = sscanf(text, "%llu %llu %15s %15s %d %lf %lf %lf %llu %lf %lf %lf %llu",
			    &row.size, &row.count, row.type, row.redop, &row.root, &row.out.time_us,
			    &row.out.alg, &row.out.bus, &row.out.wrong, &row.in.time_us,
			    &row.in.alg, &row.in.bus, &row.in.wrong);
	return row;
}

/* The rows of one operation of three ranks and 4 MiB: what they say of it, and their sum. */
static void check_kind(const char *kind, const char *options, struct row want, double factor)
{
	char line[256];
	const char *at;
	unsigned rows = 0;
	double average = -1;

	snprintf(line, sizeof(line), BENCH "--ranks 3 --op %s --sizes 1M,2M %s 2>/dev/null", kind,
		 options);
	twt_command(line, &command);
	assert_int_equal(command.status, 0);
	bus_sum = bus_count = 0;
	for (at = command.text; *at != '\0'; at += strcspn(at, "\n") + 1) {
		struct row row;

		if (*at == '#') {
			sscanf(at, "# Avg bus bandwidth : %lf", &average);
			continue;
		}
		row = row_at(at);
		if (row.fields < 9)
			fail_msg("no row: %.100s", at);
		if (rows++ == 0) {
			assert_int_equal(row.size, want.size);
			assert_int_equal(row.count, want.count);
		}
		assert_string_equal(row.type, want.type);
		assert_string_equal(row.redop, want.redop);
		assert_int_equal(row.root, want.root);
		assert_int_equal(row.fields, want.fields);
		check_half(&row, &row.out, factor);
		if (row.fields == 13)
			check_half(&row, &row.in, factor);
	}
	assert_int_equal(rows, 2);
	close_to(average, bus_sum / bus_count, "the average");
	assert_int_equal(twt_command_count(&command, "# Out of bounds values : 0 OK\n"), 1);
}

#define QUARTER (1ull << 18) /* of a MiB */

static void test_columns(void **state)
{
	(void)state;
	check_kind("allreduce", "",
		   (struct row){ .size = 4 * QUARTER,
				 .count = QUARTER,
				 .type = "float",
				 .redop = "sum",
				 .root = -1,
				 .fields = 13 },
		   4.0 / 3);
	/* Three ranks contribute 1 MiB each; of reduce-scatter each ends up with as much. */
	check_kind("allgather", "--type s64",
		   (struct row){ .size = 12 * QUARTER,
				 .count = QUARTER / 2,
				 .type = "int64",
				 .redop = "none",
				 .root = -1,
				 .fields = 13 },
		   2.0 / 3);
	check_kind("reduce_scatter", "--reduce max",
		   (struct row){ .size = 12 * QUARTER,
				 .count = QUARTER,
				 .type = "float",
				 .redop = "max",
				 .root = -1,
				 .fields = 13 },
		   2.0 / 3);
	check_kind("bcast", "--type u8",
		   (struct row){ .size = 4 * QUARTER,
				 .count = 4 * QUARTER,
				 .type = "uint8",
				 .redop = "none",
				 .root = 0,
				 .fields = 13 },
		   1);
}

/* What has no form in place says so, and counts once in the average. */
static void test_one_form(void **state)
{
	(void)state;
	check_kind("sendrecv", "",
		   (struct row){ .size = 4 * QUARTER,
				 .count = QUARTER,
				 .type = "float",
				 .redop = "none",
				 .root = -1,
				 .fields = 9 },
		   1);
	assert_int_equal(twt_command_count(&command, "N/A"), 8);
}

static void test_words(void **state)
{
	(void)state;
	twt_command(BENCH "--ranks 2 --sizes 8", &command);
	twt_command_expect(
		&command, 0,
		"#       size         count      type   redop    root     time   algbw   "
		"busbw #wrong     time   algbw   busbw #wrong\n",
		1);
	twt_command(BENCH "--in-place", &command);
	twt_command_expect(&command, 2, "are not for --format: 'nccl-tests'", 1);
	twt_command("@/bench/tow-coll --format csv", &command);
	twt_command_expect(&command, 2, "--format is table, plain or nccl-tests: 'csv'", 1);
	twt_command("@/bench/tow-coll --no-pin --seconds 0.001 --sizes 8 --format plain", &command);
	twt_command_expect(&command, 0, "#wrong 0\n", 1);
	twt_command("@/bench/tow-coll-tune --sizes $(printf '%0600d' 8)", &command);
	twt_command_expect(&command, 2, "tow-coll-tune: the list is too long: '000", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_one_form),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
