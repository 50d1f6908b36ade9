/*
 * trust.h - whose socket a path leads to, and whether a tool may believe what answers there.
 *
 * Directories such as /tmp/towline-NAME can be made by anybody, and what lies there says what it
 * likes under the name of anybody's job. So a tool believes the sockets of its own user alone, also
 * when that user is root; those of others only when it is asked to (--all-users), and then it says
 * whose they are.
 */
#ifndef TOWSTAT_TRUST_H
#define TOWSTAT_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Whether `path` is a socket in a directory in which nobody but its owner (and root) can have put
 * it. uid_out: its owner.
 */
bool trust_owner(const char *path, uid_t *uid_out);

/* The same, and whether that owner is to be believed. */
bool trust_socket(const char *path, bool all_users, uid_t *uid_out);

/* Whether the process at the other end of a connection to `path` is its owner's. */
bool trust_peer(int fd, const char *path);

/* The user's name, or its number where it has none; printable. */
void trust_name(uid_t uid, char *out, size_t size);

#endif
