/*
 * shm_window.h - the windows of the shm lane (transport/lanes/window.h). They can be written to
 * with the knob shm_peer_writes on both sides.
 */
#ifndef TWI_SHM_WINDOW_H
#define TWI_SHM_WINDOW_H

#include <sys/types.h>

#include "transport/lanes/window.h"

extern const struct twi_window_ops twi_shm_windows;

/*
 * The other side's process, for process_vm_*. 0: it is not to be had, by what was tried when they
 * met. The process can end at any time and its number be another's: what was read counts when the
 * peer is seen to be there afterwards.
 */
pid_t twi_shm_window_pid(const struct tow_peer *peer);

#endif
