/*
 * test_full_process.c - a process whose libraries have used up the static TLS that glibc keeps free
 * for those that are loaded late: all but 128 bytes, which is what libtowline.so may take. Then a
 * library that is linked to it must load, and messages must go through it on each lane.
 *
 * How much is free depends on what the process has loaded already. So copies of a library that
 * takes 64 bytes are loaded until one fails, in a process of its own; then in another one all of
 * these but two.
 */
#include "twt.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "talker.h"

#define EATER_BYTES 64
#define LEFT_BYTES  128 /* what tests/check/static_tls.py allows */
#define EATERS_MAX  200
#define COUNT       "--count-the-eaters"
#define TALK        "--talk-beside-eaters"

static char folder[64];

union symbol {
	void *found;
	char *(*memory)(void);
};

static void copy_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	char bytes[4096];
	ssize_t got;

	assert_true(in >= 0 && out >= 0);
	while ((got = read(in, bytes, sizeof(bytes))) > 0)
		assert_int_equal(write(out, bytes, (size_t)got), got);
	close(in);
	close(out);
}

/* The loader takes a library for one that it has when the file is the same. */
static bool load_eater(int number)
{
	char path[512], copy[128];
	union symbol symbol;
	void *eater;

	twt_module_path("tls_eater", path, sizeof(path));
	snprintf(copy, sizeof(copy), "%s/eater_%d_%d.so", folder, (int)getpid(), number);
	copy_file(path, copy);
	eater = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
	unlink(copy);
	if (eater == NULL)
		return false;
	symbol.found = dlsym(eater, "tls_eater_memory");
	assert_non_null(symbol.found);
	memset(symbol.memory(), number, EATER_BYTES);
	return true;
}

static int eaters_until_none_fits(void)
{
	int count = 0;

	while (count < EATERS_MAX && load_eater(count))
		count++;
	return count;
}

/* What is left is more than LEFT_BYTES by less than an eater. */
static int talk_beside(int eaters)
{
	struct tow_options used = TOW_OPTIONS_INIT;
	struct twt_talker talker;

	for (int i = 0; i < eaters; i++)
		assert_true(load_eater(i));
	used.premap_memory_bytes = 8 << 20;
	return twt_talker_load(&talker) && twt_talk_on_lanes(&talker, &used) ? 0 : 1;
}

static int run_self(const char *what, const char *number)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		execl("/proc/self/exe", "test_full_process", what, folder, number, (char *)NULL);
		_exit(255);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void static_tls_is_nearly_gone(void **state)
{
	int most = run_self(COUNT, "0"), beside;
	char number[16];

	(void)state;
	assert_in_range(most, LEFT_BYTES / EATER_BYTES + 1, EATERS_MAX - 1);
	beside = most - LEFT_BYTES / EATER_BYTES;
	printf("%d libraries of %d bytes fit; the library is loaded beside %d\n", most, EATER_BYTES,
	       beside);
	snprintf(number, sizeof(number), "%d", beside);
	assert_int_equal(run_self(TALK, number), 0);
}

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/twt-full-XXXXXX");
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
		cmocka_unit_test(static_tls_is_nearly_gone),
	};

	if (argc == 4) {
		snprintf(folder, sizeof(folder), "%s", argv[2]);
		return strcmp(argv[1], COUNT) == 0 ? eaters_until_none_fits()
						   : talk_beside(atoi(argv[3]));
	}
#ifdef TWT_SANITIZED
	printf("a sanitizer has its own static TLS in the process and in the library\n");
	return 77;
#endif
	return cmocka_run_group_tests(tests, setup, teardown);
}
