/* test_workload.c - the reader of tensor lists, with files that are right and that are not. */
#include "twt.h"

#include <string.h>

#include "bench/workloads/workload.h"

#define HEADER "name\tshape\tdtype\tbytes\n"

static int read_text(const char *text, size_t bytes, uint64_t limit, struct workload *work,
		     char *error, size_t error_size)
{
	/* fmemopen refuses an empty buffer: one that is at its end is the same. */
	FILE *file = fmemopen((void *)(uintptr_t)(bytes ? text : " "), bytes ? bytes : 1, "r");
	int rc;

	assert_non_null(file);
	if (bytes == 0)
		(void)getc(file);
	rc = workload_read(file, "f.tsv", limit, work, error, error_size);
	fclose(file);
	return rc;
}

static void good(void **state)
{
	static const char text[] = HEADER "a.weight\t2x3\tf32\t24\na.bias\t7\tbf16\t14";
	struct workload work;
	char error[512];

	(void)state;
	assert_int_equal(read_text(text, strlen(text), 0, &work, error, sizeof(error)), 0);
	assert_int_equal(work.count, 2);
	assert_int_equal(work.bytes, 38);
	assert_string_equal(work.tensors[0].name, "a.weight");
	assert_int_equal(work.tensors[0].dims, 2);
	assert_int_equal(work.tensors[0].extent[1], 3);
	assert_int_equal(work.tensors[1].element_bytes, 2);
	workload_free(&work);
	assert_int_equal(read_text(text, strlen(text), 1, &work, error, sizeof(error)), 0);
	assert_int_equal(work.count, 1);
	workload_free(&work);
}

/* What is wrong, and what the message must say. */
static const struct {
	const char *text, *words;
} bad[] = {
	{ "", "no tensors" },
	{ HEADER, "no tensors" },
	{ "a\t1\tf32\t4\n", "f.tsv:1: the header" },
	{ HEADER "a\t1\tf32\n", "f.tsv:2: 3 columns" },
	{ HEADER "a\t1\tf32\t4\t5\n", "f.tsv:2: 5 columns" },
	{ HEADER "a\t1\tf32\t4\n\n", "f.tsv:3: 1 columns" },
	{ HEADER "a\t1\tf32\t4\nb\t0\tf32\t4\n", "f.tsv:3: shape '0'" },
	{ HEADER "a\t2x\tf32\t4\n", "f.tsv:2: shape '2x'" },
	{ HEADER "a\t1x1x1x1x1x1x1x1x1\tf32\t4\n", "f.tsv:2: shape" },
	{ HEADER "a\t-1\tf32\t4\n", "f.tsv:2: shape '-1'" },
	{ HEADER "a\t1\tf33\t4\n", "f.tsv:2: dtype 'f33'" },
	{ HEADER "a\t1\tf32\t-4\n", "f.tsv:2: bytes '-4'" },
	{ HEADER "a\t1\tf32\t0\n", "f.tsv:2: bytes '0'" },
	{ HEADER "a\t1\tf32\t4 \n", "f.tsv:2: bytes '4 '" },
	{ HEADER "a\t1\tf32\t99999999999999999999999\n", "f.tsv:2: bytes" },
	{ HEADER "a\t3\tf32\t16\n", "f.tsv:2: 'a' has 12 bytes" },
	{ HEADER "a\t1000000x1000000x1000000x1000000\tf32\t4\n", "more than 2^40 bytes" },
	{ HEADER "\t1\tf32\t4\n", "f.tsv:2: the name has 0 characters" },
	{ HEADER "a b\t1\tf32\t4\n", "f.tsv:2: the name has a character" },
	{ HEADER "a\t1\tf32\t4\r\n", "f.tsv:2: bytes" },
};

static void refused(void **state)
{
	char error[512];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct workload work;

		error[0] = '\0';
		if (read_text(bad[i].text, strlen(bad[i].text), 0, &work, error, sizeof(error)) !=
			    -1 ||
		    strstr(error, bad[i].words) == NULL)
			fail_msg("case %zu: wanted \"%s\", got \"%s\"", i, bad[i].words, error);
		assert_null(work.tensors);
	}
}

static void refused_bytes(void **state)
{
	static const char zero[] = HEADER "a\t1\0\tf32\t4\n";
	struct workload work;
	char error[64], *text = malloc(4000);

	(void)state;
	assert_int_equal(read_text(zero, sizeof(zero) - 1, 0, &work, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "f.tsv:2: a zero byte"));
	assert_non_null(text);
	memset(text, 'x', 4000);
	memcpy(text, HEADER, strlen(HEADER));
	assert_int_equal(read_text(text, 4000, 0, &work, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "f.tsv:2: longer than"));
	free(text);
	/* A message that does not fit is cut, not written past its end. */
	assert_int_equal(read_text("x", 1, 0, &work, error, 8), -1);
	assert_int_equal(strlen(error), 7);
}

/* Whatever bytes come: an answer, and with a refusal its reason. */
static void any_bytes(void **state)
{
	static const char piece[] = "0123456789x\t\t\t\nabf32.bf16-\r\0";
	uint64_t random = twt_seed();

	(void)state;
	for (int round = 0; round < 3000; round++) {
		char text[256], error[256] = "";
		size_t bytes = strlen(HEADER);
		struct workload work;

		memcpy(text, HEADER, bytes);
		if (twt_random_below(&random, 4) == 0)
			bytes = 0;
		while (bytes < 250 && twt_random_below(&random, 60) != 0)
			text[bytes++] = piece[twt_random_below(&random, sizeof(piece))];
		if (read_text(text, bytes, 0, &work, error, sizeof(error)) != 0)
			assert_true(error[0] != '\0');
		workload_free(&work);
	}
}

static void splits(void **state)
{
	char name[64];

	(void)state;
	assert_string_equal(workload_split("gpt2:fsdp", name, sizeof(name)), "fsdp");
	assert_string_equal(name, "gpt2");
	assert_null(workload_split("gpt2", name, sizeof(name)));
	assert_string_equal(name, "gpt2");
	assert_null(workload_split("/tmp/a:b/c.tsv", name, sizeof(name)));
	assert_string_equal(name, "/tmp/a:b/c.tsv");
	assert_string_equal(workload_split("a:b:pipeline", name, sizeof(name)), "pipeline");
	assert_string_equal(name, "a:b");
}

static void finds(void **state)
{
	static const char *const models[] = { "gpt2",      "resnet50",  "llama3-8b",
					      "gpt2-124m", "resnet-50", "llama-3-8b.tsv" };
	struct workload work;
	char path[4096], error[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		assert_int_equal(workload_find(models[i], path, sizeof(path), error, sizeof(error)),
				 0);
		assert_int_equal(workload_load(path, 0, &work, error, sizeof(error)), 0);
		assert_true(work.count > 100);
		workload_free(&work);
	}
	assert_int_equal(workload_find("no-such", path, sizeof(path), error, sizeof(error)), -1);
	assert_non_null(strstr(error, "no-such"));
	assert_int_equal(workload_load("/no/such", 0, &work, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "/no/such"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good),          cmocka_unit_test(refused),
		cmocka_unit_test(refused_bytes), cmocka_unit_test(any_bytes),
		cmocka_unit_test(splits),        cmocka_unit_test(finds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
