/* test_tag.c - tags: what is legal, one number for each text, threads, fork, and a full table. */
#include "twt.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/towline.h>

#include "diag/record/site.h"

#define THREADS 8
#define SHARED  100

static void legal(void **state)
{
	char longest[TWI_TAG_BYTES];
	uint32_t first;

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(twi_tag_current, 0);
	assert_null(twi_tag_text(0));
	assert_int_equal(tow_tag_set("embedding"), TOW_OK);
	first = twi_tag_current;
	assert_string_equal(twi_tag_text(first), "embedding");
	assert_int_equal(tow_tag_set(longest), TOW_OK);
	assert_string_equal(twi_tag_text(twi_tag_current), longest);
	assert_int_not_equal(twi_tag_current, first);
	assert_int_equal(tow_tag_set(" ~\"\\"), TOW_OK);
	assert_int_equal(tow_tag_set("embedding"), TOW_OK);
	assert_int_equal(twi_tag_current, first);
	assert_int_equal(tow_tag_set(NULL), TOW_OK);
	assert_int_equal(twi_tag_current, 0);
	assert_null(twi_tag_text(UINT32_MAX));
}

/* A refused text changes nothing, and says why. */
static void illegal(void **state)
{
	static const struct {
		const char *text, *words;
	} rows[] = {
		{ "", "empty" },
		{ "a\nb", "byte 1 of the tag is 0x0a" },
		{ "caf\xc3\xa9", "byte 3 of the tag is 0xc3" },
		{ "\x7f", "0x7f" },
		{ "1234567890123456789012345678901234567890123456789012345678901234", "63 bytes" },
	};

	(void)state;
	assert_int_equal(tow_tag_set("kept"), TOW_OK);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(tow_tag_set(rows[i].text), TOW_EINVAL);
		assert_non_null(strstr(tow_error_message(), rows[i].words));
		assert_string_equal(twi_tag_text(twi_tag_current), "kept");
	}
}

static uint32_t numbers[THREADS][SHARED];

/* Every thread makes the same tags, each beginning at another. */
static void *make_tags(void *arg)
{
	uint32_t *mine = arg;
	size_t start = (size_t)(mine - numbers[0]) / SHARED * 13;

	for (size_t i = 0; i < SHARED; i++) {
		size_t which = (start + i) % SHARED;
		char text[32];

		snprintf(text, sizeof(text), "shared %zu", which);
		if (tow_tag_set(text) == TOW_OK && strcmp(twi_tag_text(twi_tag_current), text) == 0)
			mine[which] = twi_tag_current;
	}
	return NULL;
}

static void threads_agree(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	assert_int_equal(tow_tag_set("mine"), TOW_OK);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, make_tags, numbers[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (size_t which = 0; which < SHARED; which++) {
		assert_int_not_equal(numbers[0][which], 0);
		for (int i = 1; i < THREADS; i++)
			assert_int_equal(numbers[i][which], numbers[0][which]);
	}
	assert_string_equal(twi_tag_text(twi_tag_current), "mine"); /* each its own */
}

static __attribute__((noinline)) struct twi_site here(void)
{
	return TWI_SITE_HERE;
}

static void site_carries_it(void **state)
{
	struct twi_site first, second;

	(void)state;
	assert_int_equal(tow_tag_set("carried"), TOW_OK);
	first = here();
	assert_int_equal(tow_tag_set(NULL), TOW_OK);
	second = here();
	assert_string_equal(twi_tag_text(first.tag), "carried");
	assert_int_equal(second.tag, 0);
	assert_true((const char *)second.caller > (const char *)first.caller);
}

/* Runs last: tags are never forgotten. A child can still find those there are, and add none. */
static void full(void **state)
{
	unsigned made = 0;
	char text[32];
	int status = TOW_OK;
	pid_t child;

	(void)state;
	assert_int_equal(tow_tag_set("before"), TOW_OK);
	for (; status == TOW_OK && made <= TWI_TAGS_MAX; made++) {
		snprintf(text, sizeof(text), "filler %u", made);
		status = tow_tag_set(text);
	}
	assert_int_equal(status, TOW_EBUSY);
	assert_non_null(strstr(tow_error_message(), "name places"));
	snprintf(text, sizeof(text), "filler %u", made - 2);
	assert_string_equal(twi_tag_text(twi_tag_current), text);
	assert_int_equal(twi_tag_current, TWI_TAGS_MAX);
	assert_null(twi_tag_text(TWI_TAGS_MAX + 1));
	child = fork();
	if (child == 0)
		_exit(tow_tag_set("before") == TOW_OK && tow_tag_set("new") == TOW_EBUSY ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(legal),         cmocka_unit_test(illegal),
		cmocka_unit_test(threads_agree), cmocka_unit_test(site_carries_it),
		cmocka_unit_test(full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
