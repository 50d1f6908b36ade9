/*
 * guard.h - keeps the program's signal actions unchanged while libfabric is loaded and set up.
 *
 * Libraries behind libfabric install handlers. libinfinipath, which psm needs, installs six as soon
 * as it is loaded. libfabric's shm provider installs four when an endpoint is opened. Then the
 * program's own handler of SIGTERM would never run again, and a crash would end in exit(1) without
 * a core file.
 *
 *	caller --- waits -------------------------------------+--> goes on
 *	   |                                                  |
 *	   +--> a thread, sealed: rt_sigaction is refused --> call(arg), ends
 *
 * The call runs in a thread of its own that gives itself a seccomp filter. In that thread, and in
 * all threads that libfabric starts meanwhile, changing an action fails with EPERM. So no action
 * ever changes, not even for a moment. Other threads of the program change their actions freely.
 * The thread's signals are blocked, so none of the program's handlers runs in it. The filter ends
 * with the thread.
 *
 * If the kernel has no filters or a sandbox forbids them, the call runs in the caller with signals
 * blocked. Afterwards, actions that have become handlers of these libraries are restored. That
 * method has race windows, which docs/ofi.md names. twi_ofi_guard_weak reports that it was used.
 */
#ifndef TWI_OFI_GUARD_H
#define TWI_OFI_GUARD_H

/*
 * Runs call(arg) and returns its status, with its message. Calls are serialized, and each blocks
 * for as long as its call takes. A thread that is loading a library must not call it: the new
 * thread would wait for that load to end. TOW_ENOMEM: nothing has run.
 */
int twi_ofi_guarded(int (*call)(void *arg), void *arg);

/* Names a library whose handlers are put back: the one that `function` is in. */
void twi_ofi_guard_library(const void *function);

/* Returns NULL if no call has run unsealed, else why the last such call did. */
const char *twi_ofi_guard_weak(void);

#endif
