/*
 * guard.h - the program's signal actions stay its own while libfabric is loaded and set up.
 *
 * Libraries behind libfabric install handlers: libinfinipath, which psm needs, for six signals as
 * soon as it is loaded, libfabric's shm provider for four when an endpoint is opened. A program's
 * own handler of SIGTERM would never run again, and a crash would end in exit(1) without a core.
 *
 *	caller --- waits -------------------------------------+--> goes on
 *	   |                                                  |
 *	   +--> a thread, sealed: rt_sigaction is refused --> call(arg), ends
 *
 * The call runs in a thread of its own that gives itself a seccomp filter: there, and in all
 * threads that libfabric starts meanwhile, changing an action fails with EPERM. So no action ever
 * changes, not for a moment, and what other threads of the program do with theirs is not touched:
 * there is no window. The thread's signals are blocked, so none of the program's handlers runs in
 * it. Filter and thread end together.
 *
 * Where the kernel has no filters or a sandbox forbids them, the call runs in the caller, signals
 * blocked, and actions that have become handlers of these libraries are put back afterwards. That
 * has windows, which docs/ofi.md names; twi_ofi_guard_weak says that it came to this.
 */
#ifndef TWI_OFI_GUARD_H
#define TWI_OFI_GUARD_H

/*
 * Runs call(arg) and returns its status, with its message. Called one after the other. Blocks for
 * as long as the call takes. Not to be called while this thread loads a library: the thread would
 * wait for that to end. TOW_ENOMEM: nothing has run.
 */
int twi_ofi_guarded(int (*call)(void *arg), void *arg);

/* The library that `function` is in is one of those whose handlers are put back. */
void twi_ofi_guard_library(const void *function);

/* NULL: no call has run unsealed. Else why the last one did. */
const char *twi_ofi_guard_weak(void);

#endif
