/*
 * test_absent_libraries.c - what only some processes need of other libraries is loaded when it is
 * first used. A process that uses none of it has none of them. In one from which they are hidden
 * (no_library.so, preloaded) messages go through each lane; the feature that lacks its library is
 * off and names it, and nothing else is.
 */
#include "twt.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "talker.h"

/* Each begins the name of a library. */
#define HIDDEN "libmicrohttpd. libsodium. libprotobuf-c. libfabric."
#define KEY    "a secret of many characters"
#ifdef TWI_XSPACE_OFF
#define NO_XSPACE TWI_XSPACE_OFF /* why this build has none */
#else
#define NO_XSPACE "libprotobuf-c.so"
#endif
#define UNUSED "--without-use"
#define ABSENT "--without-them"

static char folder[64];

static bool is_mapped(const char *name)
{
	return twt_map_count(name) > 0;
}

static bool same(const char *what, bool is, bool wanted)
{
	if (is != wanted)
		printf("%s: %s\n", what, is ? "yes" : "no");
	return is == wanted;
}

static struct tow_options small_options(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 8 << 20;
	return options;
}

/* Libraries are there. They are loaded by the first use of each, and by nothing before it. */
static int without_use(void)
{
	struct tow_options options = small_options();
	struct twt_talker talker;
	char said[512];
	bool good;

	if (!twt_talker_load(&talker))
		return 1;
	options.stats = 0;
	good = twt_talk_on_lanes(&talker, &options);
	good = same("microhttpd mapped at first", is_mapped("libmicrohttpd"), false) && good;
	good = same("gnutls mapped at first", is_mapped("libgnutls"), false) && good;
	good = same("sodium mapped at first", is_mapped("libsodium"), false) && good;
	good = same("protobuf-c mapped at first", is_mapped("libprotobuf-c"), false) && good;
	options.stats = 1;
	good = talker.open(&options, said, sizeof(said)) == TOW_OK && good;
	good = same("microhttpd mapped", is_mapped("libmicrohttpd"), true) && good;
	good = same("sodium mapped by stats", is_mapped("libsodium"), false) && good;
	options.job_key = KEY;
	good = twt_talk_on_lanes(&talker, &options) && good;
	return same("sodium mapped", is_mapped("libsodium"), true) && good ? 0 : 1;
}

static void keep_line(void *user, int level, const char *text)
{
	(void)level;
	if (strstr(text, "no stats are served: the stats server needs libmicrohttpd.so") != NULL)
		*(bool *)user = true;
}

static bool refuses(const char *what, int status, const char *said, const char *name)
{
	bool good = status == TOW_ENOTSUP && strstr(said, name) != NULL;

	if (!good)
		printf("%s: %s: %s\n", what, tow_status_name(status), said);
	return good;
}

/* None of the libraries is there. */
static int without_them(void)
{
	struct tow_options options = small_options();
	struct twt_talker talker;
	char said[512];
	bool good, told = false;

	if (!twt_talker_load(&talker))
		return 1;
	options.log_callback = keep_line;
	options.log_user = &told;
	good = twt_talk_on_lanes(&talker, &options);
	good = same("the log tells of the stats", told, true) && good;
	good = talker.trace(&options, TOW_TRACE_JSON, said, sizeof(said)) == TOW_OK && good;
	good = refuses("an XSpace", talker.trace(&options, TOW_TRACE_XSPACE, said, sizeof(said)),
		       said, NO_XSPACE) &&
	       good;
	options.job_key = KEY;
	good = refuses("a job key", talker.open(&options, said, sizeof(said)), said,
		       "a job key needs libsodium.so") &&
	       good;
	for (int i = 0; i < 2; i++) {
		static const char *const names[] = { "libmicrohttpd", "libsodium" };

		good = same(names[i], is_mapped(names[i]), false) && good;
	}
	return good ? 0 : 1;
}

static void run_self(const char *what, bool hide)
{
	char module[512];
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		twt_module_path("no_library", module, sizeof(module));
		if (hide &&
		    (setenv("LD_PRELOAD", module, 1) != 0 || setenv("TWT_HIDDEN", HIDDEN, 1) != 0))
			_exit(254);
		execl("/proc/self/exe", "test_absent_libraries", what, (char *)NULL);
		_exit(255);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void what_nobody_uses_is_not_loaded(void **state)
{
	(void)state;
	run_self(UNUSED, false);
}

static void what_is_absent_is_off(void **state)
{
	(void)state;
#ifdef TWT_SANITIZED
	printf("skipped: a sanitizer must come before what is preloaded\n");
	skip();
#endif
	run_self(ABSENT, true);
}

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/twt-absent-XXXXXX");
	return mkdtemp(folder) != NULL ? setenv("TOW_STATS_DIR", folder, 1) : -1;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_nobody_uses_is_not_loaded),
		cmocka_unit_test(what_is_absent_is_off),
	};

	if (argc == 2)
		return strcmp(argv[1], UNUSED) == 0 ? without_use() : without_them();
	return cmocka_run_group_tests(tests, setup, teardown);
}
