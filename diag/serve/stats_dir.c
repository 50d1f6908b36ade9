/*
 * stats_dir.c - the default directories of stats sockets, and whether a directory is safe for them.
 */
#include "diag/serve/stats_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <internal/base.h>
#include <towline/stats.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/base/folder.h"
#include "diag/record/diag.h"

#define DIR_MEND "; set stats_dir (TOW_STATS_DIR) to a directory of your own, or stats=0"

TOW_PUBLIC int tow_stats_dir(char *path_out, size_t path_size)
{
	TWI_UNCANCELED;
	const char *base = secure_getenv("XDG_RUNTIME_DIR");
	int bytes;

	if (path_out == NULL || path_size == 0)
		return twi_error(TOW_EINVAL, "tow_stats_dir: path_out is NULL or has no room");
	if (base != NULL && base[0] == '/')
		bytes = snprintf(path_out, path_size, "%s/towline", base);
	else if (geteuid() == 0)
		bytes = snprintf(path_out, path_size, "/run/towline");
	else
		bytes = snprintf(path_out, path_size, "/tmp/towline-%u", (unsigned)geteuid());
	if (bytes < 0 || (size_t)bytes >= path_size)
		return twi_error(TOW_EINVAL,
				 "tow_stats_dir: the path has %d bytes, path_size is %zu", bytes,
				 path_size);
	return TOW_OK;
}

static int judge_dir(const char *dir, const struct stat *st)
{
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return twi_error(
			TOW_EPERM,
			"stats_dir '%s' belongs to user %u, who could forge sockets" DIR_MEND, dir,
			(unsigned)st->st_uid);
	if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0 && (st->st_mode & S_ISVTX) == 0)
		return twi_error(TOW_EPERM,
				 "stats_dir '%s' can be written by others (mode %o): chmod 0700 it",
				 dir, (unsigned)st->st_mode & 07777u);
	return TOW_OK;
}

/* Another user may have taken a default name: it must be ours alone, in a folder that keeps it. */
static int judge_default(const char *dir, const struct stat *st)
{
	struct stat parent;
	char above[300];

	if (st->st_uid != geteuid() || (st->st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return twi_error(TOW_EPERM,
				 "stats_dir '%s' belongs to user %u with mode %o, and not to this "
				 "user alone",
				 dir, (unsigned)st->st_uid, (unsigned)st->st_mode & 07777u);
	snprintf(above, sizeof(above), "%s/..", dir);
	if (stat(above, &parent) != 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "stat of '%s'", above);
	return judge_dir(above, &parent);
}

static int open_dir(const char *dir, int (*check)(const char *dir, const struct stat *st),
		    int *fd_out)
{
	struct stat st;
	int fd, status, err = twi_folder_make(dir);

	*fd_out = -1;
	if (err != 0)
		return twi_error_errno(err == EACCES || err == EPERM || err == EROFS ? TOW_EPERM
										     : TOW_ESYSTEM,
				       err, "cannot make stats_dir '%s'" DIR_MEND, dir);
	fd = twi_fd_high(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
	if (fd < 0 &&
	    (errno == ELOOP || (errno == ENOTDIR && lstat(dir, &st) == 0 && S_ISLNK(st.st_mode))))
		return twi_error(TOW_EPERM,
				 "stats_dir '%s' is a symbolic link; name the directory itself",
				 dir);
	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		return twi_fd_error(errno, dir);
	if (fd < 0)
		return twi_error_errno(errno == EACCES ? TOW_EPERM : TOW_ESYSTEM, errno,
				       "cannot open stats_dir '%s'" DIR_MEND, dir);
	if (fstat(fd, &st) != 0)
		status = twi_error_errno(TOW_ESYSTEM, errno, "fstat of stats_dir '%s'", dir);
	else
		status = check(dir, &st);
	if (status < 0) {
		close(fd);
		return status;
	}
	*fd_out = fd;
	return TOW_OK;
}

int twi_stats_dir_open(const char *dir, int *fd_out)
{
	return open_dir(dir, judge_dir, fd_out);
}

/* The default directory number `index`. False: there are no more. */
static bool default_dir(unsigned index, char *out, size_t bytes)
{
	unsigned user = (unsigned)geteuid();
	int used;

	switch (index) {
	case 0:
		return tow_stats_dir(out, bytes) == TOW_OK;
	case 1: /* only root can make it */
		used = snprintf(out, bytes, "/run/towline");
		break;
	case 2:
		used = snprintf(out, bytes, "/tmp/towline-%u", user);
		break;
	case 3:
		used = snprintf(out, bytes, "/dev/shm/towline-%u", user);
		break;
	default:
		return false;
	}
	return used > 0 && (size_t)used < bytes;
}

/* Logs which directory was skipped, and why: that is the thread's error. */
static void warn_passed_over(struct twi_diag *diag)
{
	if (diag != NULL)
		twi_log(diag, 2, "%.200s; trying another", tow_error_message());
}

int twi_stats_dir_find(struct twi_diag *diag, unsigned *index, char *out, size_t bytes)
{
	TWI_UNCANCELED;
	int status = TOW_EPERM, fd;
	char first[300] = "";

	for (; default_dir(*index, out, bytes); ++*index) {
		/* Skip a name that comes twice, or that is root's alone. */
		if (*index > 0 && default_dir(0, first, sizeof(first)) && strcmp(first, out) == 0)
			continue;
		if (*index == 1 && geteuid() != 0)
			continue;
		status = open_dir(out, judge_default, &fd);
		if (status == TOW_OK) {
			close(fd);
			return TOW_OK;
		}
		/* Without descriptors nothing is known of it. Other processes use this one. */
		if (status == TOW_EBUSY)
			return status;
		warn_passed_over(diag);
	}
	return status;
}
