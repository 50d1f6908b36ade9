/*
 * sweep.c - removes the stats sockets of ended processes; see sweep.h.
 *
 * The library does the same in the directory of a runtime that opens (diag/serve/sweep.h). Without
 * the tool, the files stay until then.
 */
#include "tools/common/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/http_unix.h"
#include "tools/common/runtimes.h"

#define LOCK_TRIES    50
#define LOCK_PAUSE_NS 10000000
#define NAPS_MAX      50 /* for ranks that are about to end */
#define NAP_NS        20000000

static bool lock_dir(int dir_fd)
{
	const struct timespec pause = { 0, LOCK_PAUSE_NS };

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(dir_fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		if (errno != EWOULDBLOCK)
			return false;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* Removes the socket at `path` if no process listens. dir_fd: its directory. */
static bool remove_dead(int dir_fd, const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode) &&
	       st.st_uid == geteuid() && http_is_live(path) == 0 && unlinkat(dir_fd, name, 0) == 0;
}

/*
 * Removes a stats socket, and the one beside it at which towbpf calls. It holds the lock that
 * opening runtimes take: a socket that is bound but does not listen yet looks dead.
 */
static bool remove_both(const char *path)
{
	const size_t bytes = strlen(path) - strlen(".sock");
	const char *slash = strrchr(path, '/');
	char dir[256], beside[256];
	bool gone = false;
	int dir_fd;

	if (slash == path || (size_t)(slash - path) >= sizeof(dir) || bytes + 5 > sizeof(beside))
		return false;
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	snprintf(beside, sizeof(beside), "%.*s.bpf", (int)bytes, path);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return false;
	if (lock_dir(dir_fd)) {
		gone = remove_dead(dir_fd, path);
		if (gone)
			remove_dead(dir_fd, beside);
	}
	close(dir_fd); /* also ends the lock */
	return gone;
}

/* A runtime of unknown state may live. */
static bool job_lives(const struct runtime_list *list, const char *job)
{
	struct runtime_name name;

	for (size_t i = 0; i < list->count; i++) {
		runtime_name_of(list->rows[i].name, &name);
		if (list->rows[i].live != 0 && strcmp(name.job, job) == 0)
			return true;
	}
	return false;
}

/* True: the arguments of the sweep include the row. */
static int is_wanted(const struct runtime_entry *row, const struct runtime_name *name,
		     const char *job, long ranks)
{
	return row->uid == geteuid() && (job == NULL || strcmp(name->job, job) == 0) &&
	       (ranks <= 0 || name->rank < ranks);
}

/* *living_out: number of included runtimes that live. Returns the number of removed files. */
static size_t sweep_once(const char *job, long ranks, size_t *living_out)
{
	struct runtime_list list;
	size_t gone = 0;

	*living_out = 0;
	if (find_runtimes(&list) != 0)
		return 0;
	for (size_t i = 0; i < list.count; i++) {
		const struct runtime_entry *row = &list.rows[i];
		struct runtime_name name;

		runtime_name_of(row->name, &name);
		if (!is_wanted(row, &name, job, ranks))
			continue;
		*living_out += row->live == 1;
		if (row->live == 0 && !job_lives(&list, name.job))
			gone += remove_both(row->path);
	}
	runtime_list_fini(&list);
	return gone;
}

size_t sweep_sockets(const char *job, long ranks)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	size_t living, gone = sweep_once(job, ranks, &living);

	for (int naps = 0; ranks > 0 && living > 0 && naps < NAPS_MAX; naps++) {
		nanosleep(&nap, NULL);
		gone += sweep_once(job, ranks, &living);
	}
	return gone;
}
