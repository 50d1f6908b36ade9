/*
 * dpdk_listen.h - a socket where clients of DPDK's telemetry look for one:
 *
 *	DIR/dpdk/PREFIX/dpdk_telemetry.v2      and :1, :2, ... behind it while a living one has it
 *
 * DIR is what those clients take: $RUNTIME_DIRECTORY, else /var/run for root, else
 * $XDG_RUNTIME_DIR, else /tmp. PREFIX is what they call a file prefix, "rte" where none is said.
 *
 * The folders below DIR are made, with mode 0700, where they are missing. One that another user
 * could have made or can write to is refused: who owns it could put a socket of his own there.
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
	ino_t inode; /* of the file, so that only our own is ever taken away */
	bool made;   /* the folder, which goes with it */
	char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/* Where clients look, as this environment and user have it. */
const char *dpdk_default_dir(void);

/* 0, or -1 with why not in error_out. */
int dpdk_listen(const char *dir, const char *prefix, struct dpdk_listener *out, char *error_out,
		size_t error_size);

/* Takes the file away, unless it is another's by now, and a folder of ours that is empty. */
void dpdk_listener_close(struct dpdk_listener *listener);

#endif
