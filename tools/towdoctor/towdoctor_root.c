/*
 * towdoctor_root.c - reads the files of the checks, all below the doctor's root, and their small
 * formats. The content may come from another host: lengths are bounded, and nothing is assumed to
 * be a number.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/towdoctor/towdoctor.h"

#define PATH_BYTES  512
#define LARGE_BYTES 16384

/* Builds the path below the root. /proc/self in a check stands for the checked process. */
static bool full_path(const struct doctor *doctor, char out[PATH_BYTES], const char *path,
		      va_list args)
{
	static const char self[] = "/proc/self/";
	const size_t skipped = sizeof(self) - 1;
	char below[PATH_BYTES];
	int used = vsnprintf(below, sizeof(below), path, args);

	if (used < 0 || used >= (int)sizeof(below))
		return false;
	if (doctor->pid > 0 && strncmp(below, self, skipped) == 0)
		used = snprintf(out, PATH_BYTES, "%s/proc/%ld/%s", doctor->root, doctor->pid,
				below + skipped);
	else
		used = snprintf(out, PATH_BYTES, "%s%s", doctor->root, below);
	return used >= 0 && used < PATH_BYTES;
}

static bool read_text(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t used = 0;
	ssize_t got;

	out[0] = '\0';
	if (fd < 0)
		return false;
	while (used + 1 < size) {
		got = read(fd, out + used, size - 1 - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	close(fd);
	while (used > 0 && (out[used - 1] == '\n' || out[used - 1] == ' '))
		used--;
	out[used] = '\0';
	return used > 0;
}

bool root_text(const struct doctor *doctor, char *out, size_t size, const char *path, ...)
{
	char full[PATH_BYTES];
	va_list args;
	bool fits;

	out[0] = '\0';
	va_start(args, path);
	fits = full_path(doctor, full, path, args);
	va_end(args);
	return fits && read_text(full, out, size);
}

bool root_exists(const struct doctor *doctor, const char *path, ...)
{
	char full[PATH_BYTES];
	va_list args;
	bool fits;

	va_start(args, path);
	fits = full_path(doctor, full, path, args);
	va_end(args);
	return fits && access(full, F_OK) == 0;
}

static bool number_of(const char *text, int64_t *out)
{
	char *end;

	if (strncmp(text, "max", 3) == 0 || strncmp(text, "unlimited", 9) == 0) {
		*out = INT64_MAX;
		return true;
	}
	errno = 0;
	*out = strtoll(text, &end, 10);
	return end != text && errno == 0;
}

bool root_number(const struct doctor *doctor, int64_t *out, const char *path, ...)
{
	char full[PATH_BYTES], text[64];
	va_list args;
	bool fits;

	va_start(args, path);
	fits = full_path(doctor, full, path, args);
	va_end(args);
	return fits && read_text(full, text, sizeof(text)) && number_of(text, out);
}

bool root_value(const struct doctor *doctor, const char *path, const char *key, int64_t *out)
{
	const size_t bytes = strlen(key);
	char text[LARGE_BYTES];
	bool found = false;

	if (!root_text(doctor, text, sizeof(text), "%s", path))
		return false;
	for (const char *line = text; line != NULL && !found; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, bytes) != 0 || strchr(": \t", line[bytes]) == NULL)
			continue;
		line += bytes;
		line += strspn(line, ": \t");
		found = number_of(line, out);
	}
	return found;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

bool root_names(const struct doctor *doctor, const char *path, struct names *out)
{
	char full[PATH_BYTES];
	struct dirent *entry;
	DIR *dir;

	out->count = 0;
	if (snprintf(full, sizeof(full), "%s%s", doctor->root, path) >= (int)sizeof(full))
		return false;
	dir = opendir(full);
	if (dir == NULL)
		return false;
	while (out->count < NAMES_MAX && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] != '.' && strlen(entry->d_name) < NAME_BYTES)
			say(out->rows[out->count++], NAME_BYTES, "%s", entry->d_name);
	}
	closedir(dir);
	qsort(out->rows, out->count, NAME_BYTES, by_name);
	return true;
}

bool root_limit(const struct doctor *doctor, const char *name, int64_t *out)
{
	char text[4096];
	const char *line;

	if (!root_text(doctor, text, sizeof(text), "/proc/self/limits"))
		return false;
	line = strstr(text, name);
	if (line == NULL)
		return false;
	line += strlen(name);
	line += strspn(line, " ");
	return number_of(line, out);
}

bool root_capable(const struct doctor *doctor, unsigned number)
{
	char text[8192];
	const char *line;

	if (!root_text(doctor, text, sizeof(text), "/proc/self/status"))
		return false;
	line = strstr(text, "CapEff:");
	return line != NULL && (strtoull(line + strlen("CapEff:"), NULL, 16) >> number & 1) != 0;
}

/* Returns the path of the process in the hierarchy of `controller` ("": version 2). */
static bool cgroup_path(const char *text, const char *controller, char *out, size_t size)
{
	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		const char *names, *path;
		size_t bytes = strlen(controller);

		line += *line == '\n';
		names = strchr(line, ':');
		path = names != NULL ? strchr(names + 1, ':') : NULL;
		if (path == NULL)
			return false;
		names++;
		if ((size_t)(path - names) != bytes || strncmp(names, controller, bytes) != 0)
			continue;
		path++;
		say(out, size, "%.*s", (int)strcspn(path, "\n"), path);
		return true;
	}
	return false;
}

bool root_cgroup(const struct doctor *doctor, const char *controller, char *out, size_t size,
		 bool *v2_out)
{
	static const char *const v1_names[][2] = { { "memory", "memory" },
						   { "cpu", "cpu,cpuacct" },
						   { "cpu", "cpuacct,cpu" },
						   { "cpu", "cpu" } };
	char text[4096], path[256];

	if (!root_text(doctor, text, sizeof(text), "/proc/self/cgroup"))
		return false;
	*v2_out = root_exists(doctor, "/sys/fs/cgroup/cgroup.controllers");
	if (*v2_out && cgroup_path(text, "", path, sizeof(path))) {
		say(out, size, "/sys/fs/cgroup%s", strcmp(path, "/") == 0 ? "" : path);
		return true;
	}
	*v2_out = false;
	for (size_t i = 0; i < sizeof(v1_names) / sizeof(v1_names[0]); i++) {
		if (strcmp(v1_names[i][0], controller) != 0 ||
		    !cgroup_path(text, v1_names[i][1], path, sizeof(path)))
			continue;
		say(out, size, "/sys/fs/cgroup/%s%s", controller,
		    strcmp(path, "/") == 0 ? "" : path);
		return true;
	}
	return false;
}

/* Steps through a list such as "0-3,8": the next range; NULL: the end. */
static const char *next_range(const char *at, long *first_out, long *last_out)
{
	char *end;

	if (*at == ',')
		at++;
	*first_out = *last_out = strtol(at, &end, 10);
	if (end == at)
		return NULL;
	if (*end == '-')
		*last_out = strtol(end + 1, &end, 10);
	return end;
}

bool list_holds(const char *list, long number)
{
	long first, last;

	while ((list = next_range(list, &first, &last)) != NULL) {
		if (number >= first && number <= last)
			return true;
	}
	return false;
}

long list_count(const char *list)
{
	long first, last, count = 0;

	while ((list = next_range(list, &first, &last)) != NULL)
		count += last >= first ? last - first + 1 : 0;
	return count;
}
