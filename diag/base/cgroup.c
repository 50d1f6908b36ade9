/*
 * cgroup.c - see cgroup.h. Linux describes the files and units: of version 2 (cpu.stat) in
 * Documentation/admin-guide/cgroup-v2.rst, of version 1 in Documentation/scheduler/sched-bwc.rst.
 */
#include "diag/base/cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/cancel.h"

#define PATH  512u
#define DEPTH 32u

#define PERIOD_MAX_US 1000000 /* the kernel's own bound */

/* Reads a small file as text; text that does not fit is left out. */
static bool read_text(const char *path, char *out, size_t room)
{
	TWI_UNCANCELED;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, out, room - 1);
	close(fd);
	out[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Is `name` in the list `names`, which is separated by commas and ends at a colon? */
static bool has_name(const char *names, const char *name)
{
	size_t bytes = strlen(name);

	for (;;) {
		size_t word = strcspn(names, ",:\n");

		if (word == bytes && strncmp(names, name, bytes) == 0)
			return true;
		if (names[word] != ',')
			return false;
		names += word + 1;
	}
}

bool twi_cgroup_path(const char *text, const char *controller, char *out, size_t room)
{
	/* Each line is "number:controllers:path". */
	for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
		const char *names, *path;
		int n;

		line += *line == '\n';
		names = strchr(line, ':');
		path = names != NULL ? strchr(names + 1, ':') : NULL;
		if (path == NULL)
			return false;
		if (!has_name(names + 1, controller))
			continue;
		path++;
		n = snprintf(out, room, "%.*s", (int)strcspn(path, "\n"), path);
		return n > 0 && (size_t)n < room;
	}
	return false;
}

/* Reads the number after `key` and a space, at the start of a line. */
static bool number_of(const char *text, const char *key, uint64_t *out)
{
	size_t bytes = strlen(key);

	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, bytes) != 0 || line[bytes] != ' ')
			continue;
		*out = strtoull(line + bytes + 1, NULL, 10);
		return true;
	}
	return false;
}

static bool read_file(const char *folder, const char *file, char *out, size_t room)
{
	char path[PATH + 32];

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	return read_text(path, out, room);
}

/* The ns of each period that the quota of a group withholds on one CPU; 0: there is no quota. */
static uint64_t withheld_ns(const char *folder)
{
	char text[128], period[64];
	long long quota_us, period_us;

	if (read_file(folder, "cpu.max", text, sizeof(text))) {
		if (sscanf(text, "%lld %lld", &quota_us, &period_us) != 2)
			return 0; /* "max 100000" */
	} else {
		if (!read_file(folder, "cpu.cfs_quota_us", text, sizeof(text)) ||
		    !read_file(folder, "cpu.cfs_period_us", period, sizeof(period)))
			return 0;
		quota_us = strtoll(text, NULL, 10);
		period_us = strtoll(period, NULL, 10);
	}
	if (quota_us <= 0 || period_us <= quota_us || period_us > PERIOD_MAX_US)
		return 0;
	return (uint64_t)(period_us - quota_us) * 1000;
}

/*
 * The kernel adds the throttled time only when the group gets the CPU again. A group that has used
 * far more than its quota waits for many periods. nr_throttled counts these as they pass, so the
 * larger of both figures is taken.
 */
static bool throttled_of(const char *folder, uint64_t *ns_out)
{
	uint64_t periods, withheld;
	char text[1024];

	if (!read_file(folder, "cpu.stat", text, sizeof(text)))
		return false;
	if (number_of(text, "throttled_usec", ns_out))
		*ns_out *= 1000;
	else if (!number_of(text, "throttled_time", ns_out))
		return false;
	if (!number_of(text, "nr_throttled", &periods) || periods == 0)
		return true;
	withheld = withheld_ns(folder);
	if (withheld != 0 && periods < UINT64_MAX / withheld)
		*ns_out = twi_max(*ns_out, periods * withheld);
	return true;
}

/* Adds the time of the group at `path` below `base` and of all groups above it. */
static bool add_up(const char *base, const char *path, uint64_t *ns_out)
{
	char folder[PATH];
	size_t top = strlen(base);
	bool any = false;
	int n = snprintf(folder, sizeof(folder), "%s%s", base, path);

	if (n < 0 || (size_t)n >= sizeof(folder) || (path[0] != '/' && path[0] != '\0'))
		return false;
	for (unsigned i = 0; i < DEPTH; i++) {
		char *slash;
		uint64_t ns;

		if (throttled_of(folder, &ns)) {
			*ns_out += ns;
			any = true;
		}
		slash = strrchr(folder, '/');
		if (strlen(folder) <= top || slash == NULL)
			break;
		*slash = '\0';
	}
	return any;
}

bool twi_cgroup_throttled(const char *root, uint64_t *ns_out)
{
	/* Version 1 names its folder after all controllers that are mounted there. */
	static const char *const bases[][2] = { { "", "/sys/fs/cgroup" },
						{ "", "/sys/fs/cgroup/unified" },
						{ "cpu", "/sys/fs/cgroup/cpu" },
						{ "cpu", "/sys/fs/cgroup/cpu,cpuacct" } };
	char text[4096], path[PATH], base[PATH];

	*ns_out = 0;
	snprintf(base, sizeof(base), "%s/proc/self/cgroup", root);
	if (!read_text(base, text, sizeof(text)))
		return false;
	for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		if (!twi_cgroup_path(text, bases[i][0], path, sizeof(path)))
			continue;
		snprintf(base, sizeof(base), "%s%s", root, bases[i][1]);
		if (add_up(base, strcmp(path, "/") == 0 ? "" : path, ns_out))
			return true;
	}
	return false;
}
