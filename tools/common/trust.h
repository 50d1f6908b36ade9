/*
 * trust.h - the owner of the socket at a path, and whether a tool may believe the answers there.
 *
 * Any user can make a directory such as /tmp/towline-NAME, and a process there can answer in the
 * name of any job. So a tool believes only the sockets of its own user, also when that user is
 * root. With --all-users it believes those of other users, too, and shows their owners.
 */
#ifndef TOWSTAT_TRUST_H
#define TOWSTAT_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * True: `path` is a socket, and only its owner and root can have put it into its directory.
 * uid_out: its owner.
 */
bool trust_owner(const char *path, uid_t *uid_out);

/* The same, and the tool may believe that owner. */
bool trust_socket(const char *path, bool all_users, uid_t *uid_out);

/* True: the process at the other end of a connection to `path` runs as the owner of `path`. */
bool trust_peer(int fd, const char *path);

/* Writes the name of a user, or the number if there is no name; printable. */
void trust_name(uid_t uid, char *out, size_t size);

#endif
