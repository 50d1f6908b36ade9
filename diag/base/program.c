/*
 * program.c - see program.h.
 */
#include "diag/base/program.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <internal/base.h>

/* Interpreters by the beginning of their name: "python3.11" counts, too. */
static const char *const interpreters[] = { "python", "pypy", "perl", "ruby", "julia",
					    "lua",    "bash", "dash", "sh" };

/* The end of the argument at `at`; `bytes` if there is none. */
static size_t argument_end(const char *line, size_t bytes, size_t at)
{
	return at < bytes ? at + strnlen(line + at, bytes - at) : bytes;
}

static size_t base_of(const char *line, size_t at, size_t end)
{
	for (size_t i = at; i + 1 < end; i++) {
		if (line[i] == '/')
			at = i + 1;
	}
	return at;
}

static bool is_interpreter(const char *name, size_t bytes)
{
	for (size_t i = 0; i < twi_array_count(interpreters); i++) {
		size_t known = strlen(interpreters[i]);
		size_t rest = known;

		if (bytes < known || memcmp(name, interpreters[i], known) != 0)
			continue;
		while (rest < bytes && strchr("0123456789.", name[rest]) != NULL)
			rest++;
		if (rest == bytes)
			return true;
	}
	return false;
}

static void copy_words(const char *from, size_t bytes, char out[TWI_PROGRAM_BYTES])
{
	size_t count = twi_min(bytes, (size_t)TWI_PROGRAM_BYTES - 1);

	for (size_t i = 0; i < count; i++)
		out[i] = from[i] >= 0x20 && from[i] <= 0x7e ? from[i] : '?';
	out[count] = '\0';
}

/*
 * Finds what an interpreter runs: its first argument after the options, or the one after -m. False:
 * its code follows -c, or comes from a terminal. The only options here with an argument of their
 * own are Python's -X and -W.
 */
static bool find_script(const char *line, size_t bytes, size_t at, size_t *from_out,
			size_t *end_out)
{
	while (at < bytes && line[at] == '-') {
		size_t end = argument_end(line, bytes, at);
		char option = end - at == 2 ? line[at + 1] : 0;

		if (option == 'c' || end - at == 1)
			return false;
		at = end + 1;
		if (option == 'm')
			break;
		if (option == 'X' || option == 'W')
			at = argument_end(line, bytes, at) + 1;
	}
	*from_out = at;
	*end_out = argument_end(line, bytes, at);
	return at<bytes && * end_out> at;
}

void twi_program_from(const char *line, size_t bytes, char out[TWI_PROGRAM_BYTES])
{
	size_t end = argument_end(line, bytes, 0), from = base_of(line, 0, end), at, script_end;

	if (is_interpreter(line + from, end - from) &&
	    find_script(line, bytes, end + 1, &at, &script_end)) {
		from = base_of(line, at, script_end);
		end = script_end;
	}
	copy_words(line + from, end - from, out);
}

void twi_program_self(char out[TWI_PROGRAM_BYTES])
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	char line[4096];
	ssize_t bytes = fd >= 0 ? read(fd, line, sizeof(line)) : -1;

	if (fd >= 0)
		close(fd);
	twi_program_from(line, bytes > 0 ? (size_t)bytes : 0, out);
}

char **twi_program_environ(void)
{
	void *program = dlopen(NULL, RTLD_NOW);
	char ***its = program != NULL ? dlsym(program, "environ") : NULL;
	char **found = its != NULL && *its != NULL ? *its : environ;

	if (program != NULL)
		dlclose(program);
	return found;
}
