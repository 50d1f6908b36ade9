/*
 * sweep.c - see sweep.h.
 */
#include "diag/serve/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/serve/listen.h"

struct left {
	struct sockaddr_un at;
	size_t job_at, job_bytes; /* in the path */
	bool dead;
};

/* The bytes of the job in "<job>.<rank>.sock" or ".bpf"; 0: the name is not of this form. */
static size_t job_of(const char *name)
{
	static const char *const ends[] = { ".sock", ".bpf" };
	size_t bytes = strlen(name), stem = 0, at;

	for (unsigned i = 0; i < twi_array_count(ends); i++) {
		size_t end = strlen(ends[i]);

		if (bytes > end && strcmp(name + bytes - end, ends[i]) == 0)
			stem = bytes - end;
	}
	for (at = stem; at > 0 && name[at - 1] != '.'; at--) {
		if (strchr("0123456789-", name[at - 1]) == NULL)
			return 0;
	}
	return at > 1 && at < stem ? at - 1 : 0;
}

/* Checks our own sockets only: users may share the directory, and their sockets are theirs. */
static bool look_at_socket(int dir_fd, const char *dir, const char *name, struct left *out)
{
	struct stat st;
	int bytes;

	out->job_bytes = job_of(name);
	out->job_at = strlen(dir) + 1;
	if (out->job_bytes == 0 || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
	    !S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
		return false;
	out->at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	bytes = snprintf(out->at.sun_path, sizeof(out->at.sun_path), "%s/%s", dir, name);
	if (bytes < 0 || (size_t)bytes >= sizeof(out->at.sun_path))
		return false;
	out->dead = twi_listen_is_dead(&out->at);
	return true;
}

static bool same_job(const struct left *a, const struct left *b)
{
	return a->job_bytes == b->job_bytes &&
	       memcmp(a->at.sun_path + a->job_at, b->at.sun_path + b->job_at, a->job_bytes) == 0;
}

static bool job_lives(const struct left *all, size_t count, const struct left *one)
{
	for (size_t i = 0; i < count; i++) {
		if (!all[i].dead && same_job(&all[i], one))
			return true;
	}
	return false;
}

static size_t collect_left(DIR *list, int dir_fd, const char *dir, struct left *out)
{
	const struct dirent *entry;
	size_t count = 0;

	while (count < TWI_SWEEP_MAX && (entry = readdir(list)) != NULL)
		count += look_at_socket(dir_fd, dir, entry->d_name, &out[count]);
	return count;
}

void twi_sweep(int dir_fd, const char *dir)
{
	struct left *found = calloc(TWI_SWEEP_MAX, sizeof(*found));
	DIR *list = opendir(dir);
	size_t count = 0;

	if (found != NULL && list != NULL)
		count = collect_left(list, dir_fd, dir, found);
	for (size_t i = 0; i < count; i++) {
		if (found[i].dead && !job_lives(found, count, &found[i]))
			unlink(found[i].at.sun_path);
	}
	if (list != NULL)
		closedir(list);
	free(found);
}
