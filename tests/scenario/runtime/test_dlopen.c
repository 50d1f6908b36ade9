/*
 * test_dlopen.c - a process that knows nothing of Towline loads a library that is linked to it, as
 * ML runtimes load their plugins: RTLD_NOW | RTLD_LOCAL, used, closed, ten times.
 *
 * Once as it is, when the pool has our own arena; and, in a process of its own, with jemalloc
 * preloaded, when the pool must have a jemalloc arena.
 */
#include "twt.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS         10
#define SKIP           77
#define JEMALLOC       "libjemalloc.so.2"
#define TLS_MAX        128 /* of some 1,600 bytes that all late libraries share */
#define CHILD_ARGUMENT "--load-the-plugin"

extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));

static char stats_dir[64];

/* ISO C has no cast from what dlsym returns to a function. */
union symbol {
	void *found;
	int (*use)(char *arena_out, size_t room);
	char *(*memory)(void);
};

static void *load(const char *name)
{
	const char *build = getenv("TOW_TEST_BUILD");
	char path[512];
	void *module;

	snprintf(path, sizeof(path), "%s/tests/%s.so", build != NULL ? build : ".", name);
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (module == NULL)
		printf("dlopen: %s\n", dlerror());
	return module;
}

/* Loads, uses, closes. False after saying why. */
static bool one_round(char *arena_out, size_t room)
{
	union symbol symbol;
	void *module = load("plugin");
	bool used;

	if (module == NULL)
		return false;
	symbol.found = dlsym(module, "plugin_use");
	used = symbol.found != NULL && symbol.use(arena_out, room) == 0;
	return dlclose(module) == 0 && used;
}

static bool all_rounds(const char *arena)
{
	int fds = 0, maps = 0;

	for (int i = 0; i < ROUNDS; i++) {
		char name[16] = "";

		if (!one_round(name, sizeof(name)) || strcmp(name, arena) != 0) {
			printf("round %d: arena '%s', not '%s'\n", i, name, arena);
			return false;
		}
		/* After the first: what libraries keep for ever is there then. */
		if (i == 0) {
			fds = twt_fd_count();
			maps = twt_map_count("memfd:");
		}
		if (twt_fd_count() != fds || twt_map_count("memfd:") != maps) {
			printf("round %d: something is left open\n", i);
			return false;
		}
	}
	return true;
}

static void ten_times(void **state)
{
	(void)state;
	assert_true(all_rounds(mallctl != NULL ? "jemalloc" : "pagerun"));
}

static int visit(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	uint64_t *tls_bytes_out = arg;

	(void)bytes;
	if (info->dlpi_name == NULL || strstr(info->dlpi_name, "libtowline.so") == NULL)
		return 0;
	*tls_bytes_out = 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			*tls_bytes_out = info->dlpi_phdr[i].p_memsz;
	return 1;
}

/* Other libraries have taken of the static TLS before us, and ours must still fit. */
static void among_users_of_static_tls(void **state)
{
	uint64_t tls_bytes = UINT64_MAX;
	char name[16];
	union symbol symbol;
	void *user = load("tls_user");

	(void)state;
	assert_non_null(user);
	symbol.found = dlsym(user, "tls_user_memory");
	assert_non_null(symbol.found);
	memset(symbol.memory(), 1, 512);
	assert_true(one_round(name, sizeof(name)));
	/* It stays loaded after its last dlclose (-z nodelete), so it can be looked at. */
	dl_iterate_phdr(visit, &tls_bytes);
	assert_true(tls_bytes != UINT64_MAX);
	printf("libtowline.so has %llu bytes of TLS\n", (unsigned long long)tls_bytes);
#ifndef TWT_SANITIZED
	assert_true(tls_bytes <= TLS_MAX);
#endif
	dlclose(user);
}

/* What the preloaded process does: see main. */
static int child(void)
{
	if (dlsym(RTLD_DEFAULT, "mallctl") == NULL)
		return SKIP;
	return all_rounds("jemalloc") ? 0 : 1;
}

static void with_jemalloc_preloaded(void **state)
{
	int status;
	pid_t pid;

	(void)state;
#ifdef TWT_SANITIZED
	printf("skipped: a sanitizer and jemalloc cannot both be malloc\n");
	skip();
#endif
	fflush(stdout);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		setenv("LD_PRELOAD", JEMALLOC, 1);
		execl("/proc/self/exe", "test_dlopen", CHILD_ARGUMENT, (char *)NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIP) {
		printf("skipped: there is no " JEMALLOC " on this machine\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int setup(void **state)
{
	(void)state;
	snprintf(stats_dir, sizeof(stats_dir), "/tmp/twt-dlopen-XXXXXX");
	return mkdtemp(stats_dir) != NULL ? setenv("TOW_STATS_DIR", stats_dir, 1) : -1;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(stats_dir);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		/* The neighbour must be loaded before libtowline.so is. */
		cmocka_unit_test(among_users_of_static_tls),
		cmocka_unit_test(ten_times),
		cmocka_unit_test(with_jemalloc_preloaded),
	};

	if (argc == 2 && strcmp(argv[1], CHILD_ARGUMENT) == 0)
		return child();
	return cmocka_run_group_tests(tests, setup, teardown);
}
