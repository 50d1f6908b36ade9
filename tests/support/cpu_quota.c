/* cpu_quota.c - see cpu_quota.h. */
#include "cpu_quota.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag/base/cgroup.h"

#define PERIOD_US 100000u

static bool put(const char *folder, const char *file, const char *text)
{
	char path[600];
	bool well;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	well = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return well;
}

/* Below this process's own. Of version 2 it has CPUs to share only where the host has said so. */
static bool make(struct twt_quota *quota, const char *base, const char *controller)
{
	char text[4096] = "", path[256], parent[400];
	FILE *file = fopen("/proc/self/cgroup", "re");
	size_t bytes = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (file != NULL)
		fclose(file);
	text[bytes] = '\0';
	if (!twi_cgroup_path(text, controller, path, sizeof(path)))
		return false;
	snprintf(parent, sizeof(parent), "%s%s", base, strcmp(path, "/") == 0 ? "" : path);
	snprintf(quota->folder, sizeof(quota->folder), "%s/tow-quota-%d", parent, (int)getpid());
	if (mkdir(quota->folder, 0755) == 0)
		return true;
	quota->folder[0] = '\0';
	return false;
}

static bool limit(const struct twt_quota *quota, unsigned percent)
{
	char text[64];

	snprintf(text, sizeof(text), "%u %u", percent * (PERIOD_US / 100), PERIOD_US);
	if (put(quota->folder, "cpu.max", text))
		return true;
	*strchr(text, ' ') = '\0';
	return put(quota->folder, "cpu.cfs_quota_us", text);
}

bool twt_quota_begin(struct twt_quota *quota, pid_t pid, unsigned percent)
{
	/* Of version 2 the first may be a plain folder, where version 1 is mounted beside it. */
	static const char *const bases[][2] = { { "/sys/fs/cgroup", "" },
						{ "/sys/fs/cgroup/cpu", "cpu" } };
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		*quota = (struct twt_quota){ .folder = "" };
		if (make(quota, bases[i][0], bases[i][1]) && limit(quota, percent) &&
		    put(quota->folder, "cgroup.procs", text))
			return true;
		twt_quota_end(quota);
	}
	return false;
}

void twt_quota_end(struct twt_quota *quota)
{
	/* Who has just ended may still be in it for a moment. */
	for (int turn = 0; quota->folder[0] != '\0' && turn < 1000; turn++) {
		if (rmdir(quota->folder) == 0)
			quota->folder[0] = '\0';
		else
			usleep(1000);
	}
}
