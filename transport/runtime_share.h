/*
 * runtime_share.h - the runtime that several parts of a process share: each has a hold on it, the
 * first opens it, and the last closes it.
 */
#ifndef TWI_RUNTIME_SHARE_H
#define TWI_RUNTIME_SHARE_H

#include <stdbool.h>

struct tow_runtime;

/* One who has it closes it. True when others have it still; false: it is to be closed. */
bool twi_share_leave(struct tow_runtime *runtime);

#endif
