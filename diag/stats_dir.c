/*
 * stats_dir.c - where stats sockets are by default, and whether a directory is safe for them.
 */
#include "diag/stats_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <internal/base.h>
#include <towline/stats.h>

#include "diag/error.h"

#define DIR_MEND "; set stats_dir (TOW_STATS_DIR) to a directory of your own, or stats=0"

TOW_PUBLIC int tow_stats_dir(char *path_out, size_t path_size)
{
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

static int judge(const char *dir, const struct stat *st)
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

int twi_stats_dir_open(const char *dir, int *fd_out)
{
	struct stat st;
	int fd, status;

	*fd_out = -1;
	if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
		int err = errno;

		return twi_error_errno(err == EACCES || err == EPERM || err == EROFS ? TOW_EPERM
										     : TOW_ESYSTEM,
				       err, "cannot make stats_dir '%s'" DIR_MEND, dir);
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return twi_error_errno(errno == EACCES ? TOW_EPERM : TOW_ESYSTEM, errno,
				       "cannot open stats_dir '%s'" DIR_MEND, dir);
	if (fstat(fd, &st) != 0)
		status = twi_error_errno(TOW_ESYSTEM, errno, "fstat of stats_dir '%s'", dir);
	else
		status = judge(dir, &st);
	if (status < 0) {
		close(fd);
		return status;
	}
	*fd_out = fd;
	return TOW_OK;
}
