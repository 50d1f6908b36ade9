/*
 * flight_home.c - the folder of the flight recorder's files. See flight_home.h.
 */
#include "transport/inquiry/flight_home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/base/folder.h"
#include "transport/engine/engine.h"
#include "transport/inquiry/flight.h"
#include "transport/inquiry/inquiry.h"

#define SWEEPS_MAX 64u /* most files deleted at once; later calls delete the rest */
#define LOOKED_MAX 4096u

void twi_flight_set_home(struct twi_engine *engine, const char *path)
{
	const char *end = path != NULL ? strrchr(path, '/') : NULL;

	if (engine->inquiry == NULL || end == NULL)
		return;
	snprintf(engine->inquiry->flight_home, sizeof(engine->inquiry->flight_home), "%.*s/flight",
		 (int)(end - path), path);
}

const char *twi_flight_folder(const struct twi_engine *engine)
{
	const char *named = engine->knobs.flight_dir;

	if (named[0] != '\0')
		return strcmp(named, "none") != 0 ? named : NULL;
	if (engine->inquiry == NULL || engine->inquiry->flight_home[0] == '\0')
		return NULL;
	return engine->inquiry->flight_home;
}

/* True for flight.<job>.<rank>.<n>.json, and for one that was not completed. */
static bool is_ours(const char *name)
{
	return strncmp(name, "flight.", 7) == 0 && strstr(name, ".json") != NULL;
}

static bool is_older(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Returns the number of files, and the name of the oldest; "": there is none. */
static unsigned look_at_files(DIR *dir, char oldest[256])
{
	struct timespec when = { 0 };
	const struct dirent *entry;
	unsigned count = 0;
	struct stat about;

	oldest[0] = '\0';
	rewinddir(dir);
	while (count < LOOKED_MAX && (entry = readdir(dir)) != NULL) {
		if (!is_ours(entry->d_name) ||
		    fstatat(dirfd(dir), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		count++;
		if (oldest[0] != '\0' && !is_older(&about.st_mtim, &when))
			continue;
		when = about.st_mtim;
		snprintf(oldest, 256, "%.255s", entry->d_name);
	}
	return count;
}

/* Deletes the oldest files. Other processes may delete the same ones, which is harmless. */
static void make_room(DIR *dir)
{
	char oldest[256];

	for (unsigned i = 0; i < SWEEPS_MAX; i++) {
		if (look_at_files(dir, oldest) < TWI_FLIGHT_HOME_FILES || oldest[0] == '\0')
			return;
		if (unlinkat(dirfd(dir), oldest, 0) != 0 && errno != ENOENT)
			return;
	}
}

int twi_flight_home_open(const char *folder)
{
	struct stat about;
	DIR *dir;
	int fd, made = twi_folder_make(folder);

	if (made != 0)
		return twi_error_errno(TOW_ESYSTEM, made, "cannot make %s, for the flight recorder",
				       folder);
	fd = twi_fd_high(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
	if (fd < 0 || fstat(fd, &about) != 0) {
		int err = errno;

		if (fd >= 0)
			close(fd);
		return twi_error_errno(TOW_ESYSTEM, err, "cannot open %s, for the flight recorder",
				       folder);
	}
	if (about.st_uid != geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
		close(fd);
		return twi_error(TOW_EPERM,
				 "%s, for the flight recorder, is not this user's alone; name "
				 "another folder (flight_dir)",
				 folder);
	}
	dir = fdopendir(fd);
	if (dir == NULL) {
		int err = errno;

		close(fd);
		return twi_error_errno(TOW_ESYSTEM, err, "cannot read %s", folder);
	}
	make_room(dir);
	closedir(dir);
	return TOW_OK;
}
