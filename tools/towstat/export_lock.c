/*
 * export_lock.c - see export_lock.h.
 */
#include "tools/towstat/export_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towline/towline.h>

/* Below /tmp another user may have made the folder first. */
static int take_dir(const char *dir, char *error_out, size_t error_size)
{
	struct stat st;

	if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
		snprintf(error_out, error_size, "%s: %s", dir, strerror(errno));
		return -1;
	}
	if (lstat(dir, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 022) != 0) {
		snprintf(error_out, error_size,
			 "%s is no directory that belongs to this user alone; --lock-dir names "
			 "another",
			 dir);
		return -1;
	}
	return 0;
}

static void read_owner(struct export_lock *lock)
{
	ssize_t got = pread(lock->fd, lock->owner, sizeof(lock->owner) - 1, 0);

	lock->owner[got > 0 ? got : 0] = '\0';
	lock->owner[strcspn(lock->owner, "\n")] = '\0';
}

static int write_owner(const struct export_lock *lock)
{
	char text[64];
	int bytes = snprintf(text, sizeof(text), "process %ld\n", (long)getpid());

	return ftruncate(lock->fd, 0) == 0 && pwrite(lock->fd, text, (size_t)bytes, 0) == bytes
		       ? 0
		       : -1;
}

int export_lock_take(struct export_lock *out, const char *dir, const char *address, char *error_out,
		     size_t error_size)
{
	char own[256];

	*out = (struct export_lock){ .fd = -1 };
	if (dir == NULL) {
		if (tow_stats_dir(own, sizeof(own)) < 0) {
			snprintf(error_out, error_size, "%s", tow_error_message());
			return -1;
		}
		dir = own;
	}
	if (take_dir(dir, error_out, error_size) != 0)
		return -1;
	if (snprintf(out->path, sizeof(out->path), "%s/export-%s.lock", dir, address) >=
	    (int)sizeof(out->path)) {
		snprintf(error_out, error_size, "%.100s: too long a name", dir);
		return -1;
	}
	out->fd = open(out->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (out->fd < 0) {
		snprintf(error_out, error_size, "%s: %s", out->path, strerror(errno));
		return -1;
	}
	if (flock(out->fd, LOCK_EX | LOCK_NB) == 0) {
		if (write_owner(out) == 0)
			return 0;
	} else if (errno == EWOULDBLOCK) {
		read_owner(out);
		export_lock_drop(out);
		return 1;
	}
	snprintf(error_out, error_size, "%s: %s", out->path, strerror(errno));
	export_lock_drop(out);
	return -1;
}

void export_lock_drop(struct export_lock *lock)
{
	if (lock->fd >= 0)
		close(lock->fd);
	lock->fd = -1;
}
