/*
 * test_job_key.c - where the secret may come from, what is refused, and that nobody can read it
 * back: not from a message, not from a page, not from the runtime's memory.
 */
#include "twt.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towline/towline.h>

#include "diag/knob/knob.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/security/job_key.h"

#define SECRET "correct-horse-battery-staple"

static char folder[] = "/tmp/towline-key-XXXXXX";
static char path[64], other[64];

static int load(const char *secret, const char *file, int64_t encrypt, struct twi_job_key *key)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct twi_knobs knobs;

	options.job_key = secret;
	options.job_key_file = file;
	options.encrypt = encrypt;
	assert_int_equal(twi_knob_resolve(&options, &knobs), TOW_OK);
	memset(key, 0xff, sizeof(*key));
	return twi_job_key_load(&knobs, key);
}

static void write_file(const char *content, size_t bytes, mode_t mode)
{
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, bytes), (ssize_t)bytes);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void expect_refused(int status, int expected, const struct twi_job_key *key,
			   const char *text)
{
	static const struct twi_job_key none;

	assert_int_equal(status, expected);
	if (strstr(tow_error_message(), text) == NULL)
		fail_msg("'%s' is not in '%s'", text, tow_error_message());
	assert_null(strstr(tow_error_message(), "orrect-horse"));
	assert_memory_equal(key->bytes, none.bytes, sizeof(none.bytes));
	assert_false(key->set || key->encrypt);
}

/* The environment and a file with the same secret make the same key. */
static void test_sources(void **state)
{
	struct twi_job_key by_option, by_file, by_environment, another;

	(void)state;
	assert_int_equal(load("", "", 0, &another), TOW_OK);
	assert_false(another.set || another.encrypt);
	assert_int_equal(load(SECRET, "", 1, &by_option), TOW_OK);
	assert_true(by_option.set && by_option.encrypt);
	write_file(SECRET "\n", sizeof(SECRET), 0600);
	assert_int_equal(load("", path, 0, &by_file), TOW_OK);
	assert_true(by_file.set && !by_file.encrypt);
	assert_memory_equal(by_file.bytes, by_option.bytes, 32);
	write_file(SECRET, sizeof(SECRET) - 1, 0400);
	assert_int_equal(load("", path, 0, &by_file), TOW_OK);
	assert_memory_equal(by_file.bytes, by_option.bytes, 32);
	setenv("TOW_JOB_KEY", SECRET, 1);
	assert_int_equal(load(NULL, path, 0, &by_environment), TOW_OK);
	unsetenv("TOW_JOB_KEY");
	assert_memory_equal(by_environment.bytes, by_option.bytes, 32);
	/* one more character is another key; only one newline is taken away */
	assert_int_equal(load(SECRET "!", "", 0, &another), TOW_OK);
	assert_memory_not_equal(another.bytes, by_option.bytes, 32);
	write_file(SECRET "\n\n", sizeof(SECRET) + 1, 0600);
	assert_int_equal(load("", path, 0, &another), TOW_OK);
	assert_memory_not_equal(another.bytes, by_option.bytes, 32);
	twi_job_key_wipe(&by_option);
	assert_false(by_option.set);
}

static void test_refused_secrets(void **state)
{
	static char large[TWI_JOB_KEY_FILE_MAX + 1];
	struct twi_job_key key;

	(void)state;
	expect_refused(load("correct-horse-b", "", 0, &key), TOW_EINVAL, &key,
		       "job_key has 15 characters");
	assert_int_equal(load("correct-horse-ba", "", 0, &key), TOW_OK);
	expect_refused(load("", "", 1, &key), TOW_EINVAL, &key, "encrypt=1 needs a job key");
	write_file("", 0, 0600);
	expect_refused(load("", path, 0, &key), TOW_EINVAL, &key, "has 0 characters");
	write_file("\n", 1, 0600);
	expect_refused(load("", path, 1, &key), TOW_EINVAL, &key, path);
	write_file(large, sizeof(large), 0600);
	expect_refused(load("", path, 0, &key), TOW_EINVAL, &key, "4097 bytes, more than 4096");
	write_file(large, sizeof(large) - 1, 0600);
	assert_int_equal(load("", path, 0, &key), TOW_OK);
}

static void test_refused_files(void **state)
{
	static const mode_t open_modes[] = { 0640, 0604, 0610, 0601, 0620, 0602, 0644, 0777 };
	struct twi_job_key key;

	(void)state;
	for (size_t i = 0; i < sizeof(open_modes) / sizeof(open_modes[0]); i++) {
		write_file(SECRET, sizeof(SECRET) - 1, open_modes[i]);
		expect_refused(load("", path, 0, &key), TOW_EPERM, &key, "chmod 600");
	}
	write_file(SECRET, sizeof(SECRET) - 1, 0600);
	assert_int_equal(symlink(path, other), 0);
	expect_refused(load("", other, 0, &key), TOW_EPERM, &key, "symbolic link");
	unlink(other);
	assert_int_equal(mkfifo(other, 0600), 0);
	expect_refused(load("", other, 0, &key), TOW_EPERM, &key, "no regular file");
	unlink(other);
	expect_refused(load("", folder, 0, &key), TOW_EPERM, &key, "no regular file");
	expect_refused(load("", other, 0, &key), TOW_ESYSTEM, &key, "ENOENT");
	/* not ours: root's is, and so anyone else's takes root to make */
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 12345, 0), 0);
		expect_refused(load("", path, 0, &key), TOW_EPERM, &key, "belongs to user 12345");
	}
}

/* A secret that is too long for the knob is refused by its length, not by showing it. */
static void test_never_shown(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct twi_knobs knobs;
	char secret[300];

	(void)state;
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = "correct-horse-"[i % 14];
	secret[sizeof(secret) - 1] = '\0';
	options.job_key = secret;
	assert_int_equal(twi_knob_resolve(&options, &knobs), TOW_EINVAL);
	assert_null(strstr(tow_error_message(), "orrect-horse"));
	assert_non_null(strstr(tow_error_message(), "299 bytes, at most 255"));
	options.job_key = NULL;
	setenv("TOW_JOB_KEY", secret, 1);
	assert_int_equal(twi_knob_resolve(&options, &knobs), TOW_EINVAL);
	unsetenv("TOW_JOB_KEY");
	assert_null(strstr(tow_error_message(), "orrect-horse"));
	assert_non_null(strstr(tow_error_message(), "TOW_JOB_KEY"));
}

/* The runtime has the key, and of the secret not even the text. */
static void test_runtime(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct twi_job_key key;
	struct tow_runtime *runtime;
	struct twi_engine *engine;
	char *page = NULL;

	(void)state;
	assert_int_equal(load(SECRET, "", 0, &key), TOW_OK);
	options.premap_memory_bytes = 1 << 20;
	options.job_key = SECRET;
	assert_int_equal(twi_runtime_open_sim(&options, &runtime), TOW_OK);
	engine = twi_runtime_engine(runtime);
	assert_true(engine->job_key.set);
	assert_memory_equal(engine->job_key.bytes, key.bytes, 32);
	assert_int_equal(strspn(engine->knobs.job_key, "*"), strlen(SECRET));
	assert_int_equal(tow_stats_get(runtime, "/v1/info", &page), TOW_OK);
	assert_non_null(strstr(page, "(set)"));
	assert_null(strstr(page, "orrect-horse"));
	assert_null(strstr(page, "***"));
	tow_stats_release(page);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	options.job_key = "short";
	assert_int_equal(twi_runtime_open_sim(&options, &runtime), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "5 characters"));
	options.job_key = "";
	options.encrypt = 1;
	assert_int_equal(twi_runtime_open_sim(&options, &runtime), TOW_EINVAL);
}

static int make_folder(void **state)
{
	(void)state;
	if (mkdtemp(folder) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/key", folder);
	snprintf(other, sizeof(other), "%s/other", folder);
	return 0;
}

static int drop_folder(void **state)
{
	(void)state;
	unlink(path);
	unlink(other);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sources),       cmocka_unit_test(test_refused_secrets),
		cmocka_unit_test(test_refused_files), cmocka_unit_test(test_never_shown),
		cmocka_unit_test(test_runtime),
	};

	unsetenv("TOW_JOB_KEY");
	unsetenv("TOW_JOB_KEY_FILE");
	return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
