/*
 * dpdk_listen.c - see dpdk_listen.h.
 *
 * connect() shows whether a process listens behind a socket file. When it is refused, the process
 * is dead and the file is removed. A living process looks dead between bind and listen. So all of
 * it is done under a lock on the folder, as the library does for its stats sockets.
 */
#include "tools/towstat/dpdk_listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/http_unix.h"

#define SOCKET_NAME   "dpdk_telemetry.v2"
#define BACKLOG       16
#define LOCK_TRIES    100
#define LOCK_PAUSE_US 10000

const char *dpdk_default_dir(void)
{
	const char *dir = getenv("RUNTIME_DIRECTORY");

	if (dir != NULL && dir[0] != '\0')
		return dir;
	if (geteuid() == 0)
		return "/var/run";
	dir = getenv("XDG_RUNTIME_DIR");
	return dir != NULL && dir[0] != '\0' ? dir : "/tmp";
}

static bool good_prefix(const char *prefix)
{
	return prefix[0] != '\0' && prefix[0] != '.' &&
	       prefix[strspn(prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789-_.")] == '\0';
}

/* Makes a folder, or takes one into which no other user can have put anything. */
static int take_folder(const char *path, bool *made_out, char *error, size_t size)
{
	struct stat st;

	*made_out = mkdir(path, 0700) == 0;
	if ((!*made_out && errno != EEXIST) || lstat(path, &st) != 0) {
		snprintf(error, size, "cannot make the folder %s: %s", path, strerror(errno));
		return -1;
	}
	if (S_ISDIR(st.st_mode) && (st.st_uid == geteuid() || st.st_uid == 0) &&
	    (st.st_mode & (S_IWGRP | S_IWOTH)) == 0)
		return 0;
	snprintf(error, size, "%s is no folder of this user alone; use --dir with one that is",
		 path);
	return -1;
}

/* Returns a descriptor that has the lock until it is closed. -1: `error` has the reason. */
static int lock_folder(const char *path, char *error, size_t size)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = errno;

	for (int i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return fd;
		err = errno;
		if (err != EWOULDBLOCK)
			break;
		usleep(LOCK_PAUSE_US);
	}
	snprintf(error, size, "cannot lock the folder %s: %s", path,
		 err == EWOULDBLOCK ? "another process has the lock" : strerror(err));
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Returns 0; 1 when a living process has the name; -1 with errno. */
static int bind_name(int fd, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;

	memcpy(address.sun_path, path, strlen(path) + 1);
	for (int attempt = 0; attempt < 2; attempt++) {
		if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
			return 0;
		if (errno != EADDRINUSE)
			return -1;
		if (lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode) || http_is_live(path) != 0 ||
		    unlink(path) != 0)
			return 1;
	}
	return 1;
}

static int bind_any(struct dpdk_listener *out, char *error, size_t size)
{
	char path[sizeof(out->folder) + 32], number[8] = "";
	int had = 1;

	for (int i = 0; i < DPDK_INSTANCES && had == 1; i++) {
		if (i > 0)
			snprintf(number, sizeof(number), ":%d", i);
		snprintf(path, sizeof(path), "%s/" SOCKET_NAME "%s", out->folder, number);
		if (strlen(path) >= sizeof(out->path)) {
			snprintf(error, size, "the path %s is longer than sockets can have", path);
			return -1;
		}
		had = bind_name(out->fd, path);
	}
	if (had == 0)
		memcpy(out->path, path, strlen(path) + 1);
	else
		snprintf(error, size, "cannot bind %s: %s", path,
			 had == 1 ? "live processes have all its names" : strerror(errno));
	return had == 0 ? 0 : -1;
}

static int listen_there(struct dpdk_listener *out, char *error, size_t size)
{
	struct stat st;

	out->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Before bind, so that the file never has another mode. */
	if (out->fd < 0 || fchmod(out->fd, 0600) != 0) {
		snprintf(error, size, "no socket: %s", strerror(errno));
		return -1;
	}
	if (bind_any(out, error, size) != 0)
		return -1;
	if (chmod(out->path, 0600) == 0 && lstat(out->path, &st) == 0 &&
	    listen(out->fd, BACKLOG) == 0) {
		out->device = st.st_dev;
		out->inode = st.st_ino;
		return 0;
	}
	snprintf(error, size, "cannot listen at %s: %s", out->path, strerror(errno));
	unlink(out->path);
	return -1;
}

int dpdk_listen(const char *dir, const char *prefix, struct dpdk_listener *out, char *error_out,
		size_t error_size)
{
	char parent[sizeof(out->folder)];
	bool made = false;
	int lock, status;

	*out = (struct dpdk_listener){ .fd = -1 };
	if (!good_prefix(prefix) || (size_t)snprintf(out->folder, sizeof(out->folder), "%s/dpdk/%s",
						     dir, prefix) >= sizeof(out->folder)) {
		snprintf(error_out, error_size,
			 "'%.100s' is not a file prefix: a few letters, digits, - _ .", prefix);
		return -1;
	}
	snprintf(parent, sizeof(parent), "%.*s", (int)(strlen(out->folder) - strlen(prefix) - 1),
		 out->folder);
	if (take_folder(parent, &made, error_out, error_size) != 0 ||
	    take_folder(out->folder, &out->made, error_out, error_size) != 0)
		return -1;
	lock = lock_folder(out->folder, error_out, error_size);
	status = lock >= 0 ? listen_there(out, error_out, error_size) : -1;
	if (lock >= 0)
		close(lock);
	if (status != 0 && out->fd >= 0)
		close(out->fd);
	if (status != 0 && out->made)
		rmdir(out->folder);
	if (status != 0)
		out->fd = -1;
	return status;
}

void dpdk_listener_close(struct dpdk_listener *listener)
{
	struct stat st;

	if (listener->fd < 0)
		return;
	if (lstat(listener->path, &st) == 0 && st.st_dev == listener->device &&
	    st.st_ino == listener->inode)
		unlink(listener->path);
	if (listener->made)
		rmdir(listener->folder);
	close(listener->fd);
	listener->fd = -1;
}
