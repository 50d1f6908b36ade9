/* test_program.c - what a process runs, of its command line. */
#include "twt.h"

#include <stdlib.h>
#include <string.h>

#include "diag/base/program.h"

static void words(void **state)
{
	static const struct {
		const char *line; /* '|' for a NUL */
		const char *program;
	} rows[] = {
		{ "/usr/bin/train|--secret=x|", "train" },
		{ "train", "train" },
		{ "./|", "./" },
		{ "", "" },
		{ "/usr/bin/python3|/a/b/train.py|--key|secret|", "train.py" },
		{ "python3.11|-u|train.py|", "train.py" },
		{ "python3|-X|dev|-W|error|train.py|", "train.py" },
		{ "/venv/bin/python|-m|torch.distributed.run|train.py|", "torch.distributed.run" },
		{ "python3|-c|import secrets|", "python3" },
		{ "python3|-|", "python3" },
		{ "python3|", "python3" },
		{ "python3|-u", "python3" },
		{ "python3|-X", "python3" },
		{ "python3|-m", "python3" },
		{ "pythonic|a.py|", "pythonic" },
		{ "sh|/opt/after.sh|python3|train.py|", "after.sh" },
		{ "shadow|x|", "shadow" },
		{ "julia|--project|train.jl|", "train.jl" },
		{ "tr\x1b[31m\xc3|", "tr?[31m?" },
	};
	char line[128], out[TWI_PROGRAM_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t bytes = strlen(rows[i].line);

		memcpy(line, rows[i].line, bytes);
		for (size_t k = 0; k < bytes; k++)
			line[k] = line[k] == '|' ? '\0' : line[k];
		twi_program_from(line, bytes, out);
		assert_string_equal(out, rows[i].program);
	}
	memset(line, 'w', sizeof(line));
	twi_program_from(line, sizeof(line), out);
	assert_int_equal(strlen(out), TWI_PROGRAM_BYTES - 1);
}

/* Whatever bytes there are: nothing is read behind them, which ASan and valgrind see. */
static void anything(void **state)
{
	uint64_t random = twt_seed();
	char out[TWI_PROGRAM_BYTES];

	(void)state;
	for (unsigned turn = 0; turn < 20000; turn++) {
		static const char some[] = "python-m-c-X/ab\0\0\0sh.3";
		size_t bytes = twt_random_below(&random, 40);
		char *line = malloc(bytes + 1);

		assert_non_null(line);
		for (size_t i = 0; i < bytes; i++)
			line[i] = some[twt_random_below(&random, sizeof(some) - 1)];
		twi_program_from(line, bytes, out);
		assert_true(strlen(out) < TWI_PROGRAM_BYTES);
		free(line);
	}
}

static void self(void **state)
{
	char out[TWI_PROGRAM_BYTES];

	(void)state;
	twi_program_self(out);
	assert_string_equal(out, "test_unit_program");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words),
		cmocka_unit_test(anything),
		cmocka_unit_test(self),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
