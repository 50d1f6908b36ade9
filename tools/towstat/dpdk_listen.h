/*
 * dpdk_listen.h - a socket at the path that clients of DPDK's telemetry look for:
 *
 *	DIR/dpdk/PREFIX/dpdk_telemetry.v2      and :1, :2, ... behind it while a living one has it
 *
 * DIR is the one that these clients use: $RUNTIME_DIRECTORY, else /var/run for root, else
 * $XDG_RUNTIME_DIR, else /tmp. PREFIX is what they call a file prefix; their default is "rte".
 *
 * Missing folders below DIR are made with mode 0700. A folder that another user owns or can write
 * to is refused, as that user could put another socket there.
 */
#ifndef TOWSTAT_DPDK_LISTEN_H
#define TOWSTAT_DPDK_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

#define DPDK_INSTANCES 64

struct dpdk_listener {
	int fd; /* -1: none */
	dev_t device;
	ino_t inode; /* of the file, so that only our own is removed */
	bool made;   /* the folder was made here and is removed with the file */
	char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/* The folder that clients look in, for this environment and user. */
const char *dpdk_default_dir(void);

/* Returns 0, or -1 with the reason in error_out. */
int dpdk_listen(const char *dir, const char *prefix, struct dpdk_listener *out, char *error_out,
		size_t error_size);

/*
 * Removes the file, unless another process has replaced it, and an empty folder that was made here.
 */
void dpdk_listener_close(struct dpdk_listener *listener);

#endif
