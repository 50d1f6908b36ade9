/*
 * test_exchange_note.c - the value of the caller's exchange: there and back, and everything that
 * others may have put in its place.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "transport/job/bootstrap_exchange.h"

#define HEX "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static struct twi_exchange_note expected(void)
{
	struct twi_exchange_note note = { .restarts = 3 };

	snprintf(note.job, sizeof(note.job), "towline/torchrun-7");
	return note;
}

static int take(const char *text, struct twi_exchange_note *note)
{
	*note = expected();
	return twi_exchange_note_take(text, strlen(text), note);
}

static void whole(void **state)
{
	struct twi_exchange_note note = expected(), back;
	char value[TWI_EXCHANGE_VALUE];
	size_t bytes;

	(void)state;
	snprintf(note.store, sizeof(note.store), "10.0.0.1:4000,[::1]:4000");
	for (int keyed = 0; keyed < 2; keyed++) {
		note.key.set = keyed;
		for (uint8_t i = 0; i < TWI_JOB_KEY_BYTES; i++)
			note.key.bytes[i] = i;
		bytes = twi_exchange_note_put(&note, value);
		assert_true((strstr(value, "\nkey " HEX "\n") != NULL) == (keyed == 1));
		back = expected();
		assert_int_equal(twi_exchange_note_take(value, bytes, &back), TOW_OK);
		assert_string_equal(back.store, note.store);
		assert_int_equal(back.key.set, keyed);
		if (keyed)
			assert_memory_equal(back.key.bytes, note.key.bytes, TWI_JOB_KEY_BYTES);
		/* Every beginning of it is not whole. */
		for (size_t i = 0; i < bytes; i++) {
			back = expected();
			assert_true(twi_exchange_note_take(value, i, &back) < 0);
		}
	}
	/* The longest of all fits. */
	memset(note.job, 'j', sizeof(note.job) - 1);
	memset(note.store, 's', sizeof(note.store) - 1);
	bytes = twi_exchange_note_put(&note, value);
	back = expected();
	memset(back.job, 'j', sizeof(back.job) - 1);
	assert_int_equal(twi_exchange_note_take(value, bytes, &back), TOW_OK);
	note = (struct twi_exchange_note){ .failed = -1 };
	memset(note.why, 'w', sizeof(note.why) - 1);
	bytes = twi_exchange_note_put(&note, value);
	assert_int_equal(twi_exchange_note_take(value, bytes, &back), TOW_EINVAL);
}

/* A launcher's number of the job that is no text, such as of torchrun --rdzv-id. */
static void odd_job(void **state)
{
	struct twi_exchange_note note = { .restarts = 3, .job = "a/torchrun-sp\xc3\xa4ter\n7" };
	struct twi_exchange_note back = note, other = { .restarts = 3, .job = "a/torchrun-8" };
	char value[TWI_EXCHANGE_VALUE];
	size_t bytes;

	(void)state;
	snprintf(note.store, sizeof(note.store), "10.0.0.1:4000");
	bytes = twi_exchange_note_put(&note, value);
	assert_int_equal(twi_exchange_note_take(value, bytes, &back), TOW_OK);
	assert_string_equal(back.store, note.store);
	assert_int_equal(twi_exchange_note_take(value, bytes, &other), TOW_EMISMATCH);
}

/* A message that quotes what is no text arrives all the same, with '?' in the place of that. */
static void failure_quotes(void **state)
{
	struct twi_exchange_note note = { .failed = TOW_EINVAL,
					  .why = "TOW_STORE is 'a\nb\xc3"
						 "c\x7f'" };
	struct twi_exchange_note back = expected();
	char value[TWI_EXCHANGE_VALUE];
	size_t bytes = twi_exchange_note_put(&note, value);

	(void)state;
	assert_int_equal(twi_exchange_note_take(value, bytes, &back), TOW_EINVAL);
	assert_string_equal(tow_error_message(), "TOW_STORE is 'a?b?c?'");
}

static void failures(void **state)
{
	struct twi_exchange_note note = { .failed = TOW_EBUSY, .why = "rank 0 has failed: so" };
	char value[TWI_EXCHANGE_VALUE];
	size_t bytes = twi_exchange_note_put(&note, value);
	struct twi_exchange_note back = expected();

	(void)state;
	assert_int_equal(twi_exchange_note_take(value, bytes, &back), TOW_EBUSY);
	assert_string_equal(tow_error_message(), "rank 0 has failed: so");
	assert_int_equal(take("towline 1\nfailed 5\nx\n", &back), TOW_EPROTOCOL);
	assert_int_equal(take("towline 1\nfailed -1x\nx\n", &back), TOW_EPROTOCOL);
	assert_int_equal(take("towline 1\nfailed -2000\nx\n", &back), TOW_EPROTOCOL);
	assert_int_equal(take("towline 1\nfailed \nx\n", &back), TOW_EPROTOCOL);
	assert_int_equal(take("towline 1\nfailed -1\nx", &back), TOW_EPROTOCOL);
	assert_int_equal(take("towline 1\nfailed -1\nx\ny\n", &back), TOW_EPROTOCOL);
}

static void hostile(void **state)
{
	static const struct {
		const char *text;
		int status;
		const char *words;
	} rows[] = {
		{ "", TOW_EPROTOCOL, "where a line 'towline ...' was expected" },
		{ "127.0.0.1:4000", TOW_EPROTOCOL, "holds '127.0.0.1:4000'" },
		{ "towline 2\njob x\n", TOW_EMISMATCH, "holds version 2" },
		{ "towline 1\njob other\nrestarts 3\nstore s\nkey -\n", TOW_EMISMATCH,
		  "the address of job 'other', this is job 'towline/torchrun-7'" },
		{ "towline 1\njob towline/torchrun-7\nrestarts 2\nstore s\nkey -\n", TOW_EMISMATCH,
		  "of restart 2 of the job, this is restart 3" },
		{ "towline 1\njob towline/torchrun-7\nrestarts 3\nstore \nkey -\n", TOW_EPROTOCOL,
		  "not valid" },
		{ "towline 1\njob towline/torchrun-7\nrestarts 3\nstore s\nkey \n", TOW_EPROTOCOL,
		  "not valid" },
		{ "towline 1\njob towline/torchrun-7\nrestarts 3\nstore s\nkey " HEX "0\n",
		  TOW_EPROTOCOL, "not valid" },
		{ "towline 1\njob towline/torchrun-7\nrestarts 3\nstore s\nkey g" HEX "\n",
		  TOW_EPROTOCOL, "not valid" },
		{ "towline 1\njob towline/torchrun-7\nrestarts 3\nstore s\nkey -\nmore\n",
		  TOW_EPROTOCOL, "not valid" },
		{ "towline 1\njob towline/torchrun-7\nrestarts x\nstore s\nkey -\n", TOW_EPROTOCOL,
		  "not valid" },
		{ "towline 1\njob towline/torchrun-7\nstore s\n", TOW_EPROTOCOL, "'restarts ...'" },
		{ "towline 1\njob towline/torchrun-7\r\n", TOW_EPROTOCOL, "holds byte 13" },
		{ "towline 1\njob towline/torchrun-7\nrestarts 3\nstore \xc3\xa4\nkey -\n",
		  TOW_EPROTOCOL, "holds byte 195" },
	};
	struct twi_exchange_note note = expected();
	static char long_one[TWI_EXCHANGE_VALUE + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(take(rows[i].text, &note), rows[i].status);
		if (strstr(tow_error_message(), rows[i].words) == NULL)
			fail_msg("'%s' is not in: %s", rows[i].words, tow_error_message());
	}
	note = expected();
	assert_int_equal(twi_exchange_note_take("towline 1\n\0job", 14, &note), TOW_EPROTOCOL);
	memset(long_one, 'x', sizeof(long_one));
	assert_int_equal(twi_exchange_note_take(long_one, sizeof(long_one), &note), TOW_EPROTOCOL);
	assert_non_null(strstr(tow_error_message(), "holds 2049 bytes, expected fewer than 2048"));
	assert_int_equal(twi_exchange_note_take(long_one, SIZE_MAX, &note), TOW_EPROTOCOL);
}

/* Any change of any byte is refused, or changes nothing but what it stands for. */
static void changed(void **state)
{
	uint64_t random = twt_seed();
	struct twi_exchange_note note = expected(), back;
	char value[TWI_EXCHANGE_VALUE], other[TWI_EXCHANGE_VALUE];
	size_t bytes;

	(void)state;
	snprintf(note.store, sizeof(note.store), "10.0.0.1:4000");
	note.key.set = true;
	bytes = twi_exchange_note_put(&note, value);
	for (int turn = 0; turn < 20000; turn++) {
		size_t at = twt_random(&random) % bytes;
		int status;

		memcpy(other, value, bytes);
		other[at] = (char)twt_random(&random);
		back = expected();
		status = twi_exchange_note_take(other, bytes, &back);
		assert_true(status <= TOW_OK);
		if (status == TOW_OK) {
			assert_true(strlen(back.store) == strlen(note.store) && back.key.set);
			assert_string_equal(back.job, note.job);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole),          cmocka_unit_test(failures),
		cmocka_unit_test(failure_quotes), cmocka_unit_test(odd_job),
		cmocka_unit_test(hostile),        cmocka_unit_test(changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
