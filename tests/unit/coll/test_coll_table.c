/*
 * test_coll_table.c - files of measured choices: each malformed line is refused, with its number;
 * of good ones the first that matches is taken.
 */
#include "twt.h"

#include <string.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "transport/coll/coll_table.h"
#include "transport/engine/engine.h"

static char path[64];

static int load(const char *text, size_t bytes, struct twi_coll_table **out)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
	return twi_coll_table_load(path, out);
}

static void refused(const char *text, size_t bytes, const char *words)
{
	struct twi_coll_table *table = (void *)path;
	int status = load(text, bytes, &table);

	if (status != TOW_EINVAL || table != NULL || strstr(tow_error_message(), words) == NULL)
		fail_msg("status %d, \"%s\"; wanted \"%s\" of:\n%s", status, tow_error_message(),
			 words, text);
}

static void test_wrong(void **state)
{
	static const struct {
		const char *line, *words;
	} rows[] = {
		{ "all-reduce", "fewer than five fields" },
		{ "all-reduce shm 2 16384", "fewer than five fields" },
		{ "all-reduce shm 2 16384 local more", "more than five fields" },
		{ "all-reduce shm 2 16384 local # why", "more than five fields" },
		{ "allreduce shm 2 16384 local", "first field" },
		{ "All-reduce shm 2 16384 local", "first field" },
		{ "all-reduce host 2 16384 local", "second field" },
		{ "all-reduce tcp 2 16384 ring", "second field" },
		{ "all-reduce shm 0 16384 local", "third field" },
		{ "all-reduce shm -2 16384 local", "third field" },
		{ "all-reduce shm +2 16384 local", "third field" },
		{ "all-reduce shm 2x 16384 local", "third field" },
		{ "all-reduce shm inf 16384 local", "third field" },
		{ "all-reduce shm 4294967296 16384 local", "third field" },
		{ "all-reduce shm 2 16k local", "fourth field" },
		{ "all-reduce shm 2 -1 local", "fourth field" },
		{ "all-reduce shm 2 0x10 local", "fourth field" },
		{ "all-reduce shm 2 18446744073709551616 local", "fourth field" },
		{ "all-reduce shm 2 infinite local", "fourth field" },
		{ "all-reduce shm 2 16384 locals", "fifth field is no plan" },
		{ "all-reduce shm 2 16384 local\r", "fifth field is no plan" },
		{ "barrier net 2 inf ring", "does not serve" },
		{ "broadcast shm 2 inf local-all", "does not serve" },
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* Behind lines that are right, with an end of line and without. */
		int bytes =
			snprintf(text, sizeof(text),
				 "# head\n\n  \t\nall-reduce shm 2 1 local\n%s\n", rows[i].line);

		refused(text, (size_t)bytes, rows[i].words);
		refused(text, (size_t)bytes, ":5: ");
		refused(text, (size_t)bytes - 1, rows[i].words);
		refused(text, (size_t)bytes - 1, ":5:");
	}
}

static void test_long(void **state)
{
	static char text[1 << 20];
	size_t used = 0;

	(void)state;
	memset(text, 'a', 300);
	text[300] = '\n';
	refused(text, 301, ":1 is too long");
	memset(text, '#', 300); /* not even as a remark */
	refused(text, 301, ":1 is too long");
	memcpy(text, "all-reduce shm 2 1 lo\0al\n", 25);
	refused(text, 25, ":1");
	for (int i = 0; i < 4097; i++)
		used += (size_t)sprintf(text + used, "all-reduce shm 2 %d local\n", i);
	refused(text, used, "more than 4096 rows");
}

static void test_none(void **state)
{
	struct twi_coll_table *table = (void *)path;

	(void)state;
	assert_int_equal(twi_coll_table_load(NULL, &table), TOW_OK);
	assert_null(table);
	assert_int_equal(twi_coll_table_load("", &table), TOW_OK);
	assert_null(table);
	assert_int_equal(twi_coll_table_load("/nowhere/at/all", &table), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "/nowhere/at/all"));
	assert_int_equal(twi_coll_table_load("/", &table), TOW_ESYSTEM);
	assert_null(table);
	twi_coll_table_free(NULL);
}

/* The plan for `bytes` among so many ranks, all on one host, each alone, or in pairs. */
static const char *plan_for(struct twi_coll_table *table, uint32_t ranks, uint32_t hosts,
			    uint64_t bytes)
{
	static struct twi_engine engine;
	struct twi_coll_group coll = {
		.engine = &engine, .size = ranks, .hosts_n = hosts, .all_local = hosts == 1
	};
	const struct twi_coll_call call = { .kind = TWI_COLL_ALL_REDUCE,
					    .type = TOW_U8,
					    .count = bytes };
	const struct twi_plan_row *row;

	engine.coll_table = table;
	row = twi_coll_table_find(&coll, &call);
	return row == NULL ? "none" : row->name;
}

static void test_find(void **state)
{
	static const char text[] = "# first match\n"
				   "all-reduce shm 2 100 local-cell\n"
				   "\tall-reduce  shm\t2 100 local\n"
				   "all-reduce shm 2 inf local-all\n"
				   "all-reduce shm 4 8 local\n"
				   "all-reduce mixed 4 inf hierarchical\n"
				   "broadcast net 4 inf direct\n"
				   "all-reduce net 4 18446744073709551615 ring";
	struct twi_coll_table *table;

	(void)state;
	assert_int_equal(load(text, sizeof(text) - 1, &table), TOW_OK);
	assert_string_equal(plan_for(table, 2, 1, 0), "local-cell");
	assert_string_equal(plan_for(table, 2, 1, 100), "local-cell");
	assert_string_equal(plan_for(table, 2, 1, 101), "local-all");
	assert_string_equal(plan_for(table, 2, 1, UINT32_MAX), "local-all");
	assert_string_equal(plan_for(table, 3, 1, 1), "none");
	assert_string_equal(plan_for(table, 4, 1, 8), "local");
	assert_string_equal(plan_for(table, 4, 1, 9), "none");
	assert_string_equal(plan_for(table, 4, 2, 9), "hierarchical");
	assert_string_equal(plan_for(table, 4, 4, 9), "ring");
	assert_string_equal(plan_for(table, 4, 0, 9), "ring");
	assert_string_equal(plan_for(NULL, 2, 1, 1), "none");
	twi_coll_table_free(table);
}

static int setup(void **state)
{
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/twt-coll-table-XXXXXX");
	fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
