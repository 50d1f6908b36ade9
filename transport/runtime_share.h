/*
 * runtime_share.h - the runtime that several parts of a process share. Each part has a reference to
 * it; the first opens it, and the last closes it.
 */
#ifndef TWI_RUNTIME_SHARE_H
#define TWI_RUNTIME_SHARE_H

#include <stdbool.h>

struct tow_runtime;

/* A user closes it. True: others still have it. False: the caller has to close it. */
bool twi_share_leave(struct tow_runtime *runtime);

#endif
