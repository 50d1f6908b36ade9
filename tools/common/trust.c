/*
 * trust.c - checks the owners of sockets; see trust.h.
 */
#include "tools/common/trust.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/words.h"

bool trust_owner(const char *path, uid_t *uid_out)
{
	const char *slash = strrchr(path, '/');
	struct stat st, folder;
	char dir[512];

	if (slash == NULL || (size_t)(slash - path) >= sizeof(dir))
		return false;
	snprintf(dir, sizeof(dir), "%.*s", slash == path ? 1 : (int)(slash - path), path);
	if (lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode) || stat(dir, &folder) != 0)
		return false;
	*uid_out = st.st_uid;
	/*
	 * The owner of a directory can rename its files, and so can any user with write permission.
	 */
	if (folder.st_uid != st.st_uid && folder.st_uid != 0)
		return false;
	return (folder.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (folder.st_mode & S_ISVTX) != 0;
}

bool trust_socket(const char *path, bool all_users, uid_t *uid_out)
{
	return trust_owner(path, uid_out) && (all_users || *uid_out == geteuid());
}

bool trust_peer(int fd, const char *path)
{
	struct ucred peer = { 0 };
	socklen_t bytes = sizeof(peer);
	struct stat st;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
	       lstat(path, &st) == 0 && peer.uid == st.st_uid;
}

void trust_name(uid_t uid, char *out, size_t size)
{
	char room[1024];
	struct passwd entry, *found = NULL;

	if (getpwuid_r(uid, &entry, room, sizeof(room), &found) == 0 && found != NULL)
		words_clean(out, size, found->pw_name);
	else
		snprintf(out, size, "%u", (unsigned)uid);
}
