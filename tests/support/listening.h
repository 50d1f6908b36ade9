/*
 * listening.h - the listening sockets of a process, by their inodes: whether the kernel still has
 * them when the process has ended. With an io_uring they may outlive it by many seconds on a busy
 * machine (docs/testing.md). Until then they take connects that nobody answers.
 */
#ifndef TWT_LISTENING_H
#define TWT_LISTENING_H

#include <stdbool.h>
#include <stdint.h>

#define TWT_LISTENING_MAX 16

struct twt_listening {
	_Atomic uint64_t inodes[TWT_LISTENING_MAX];
};

/* Those of the calling process. */
void twt_listening_find(struct twt_listening *out);

/* Is one of them there, in the caller's network namespace, that the caller has not itself? */
bool twt_listening_held(const struct twt_listening *sockets);

#endif
