/*
 * shm_window.h - the windows of the shm lane (transport/lanes/window.h). They are writable when the
 * knob shm_peer_writes is set on both sides.
 */
#ifndef TWI_SHM_WINDOW_H
#define TWI_SHM_WINDOW_H

#include <sys/types.h>

#include "transport/lanes/window.h"

extern const struct twi_window_ops twi_shm_windows;

/*
 * The other side's process, for process_vm_*. 0: the handshake found that it cannot be read. The
 * process can end at any time, and another can get its pid. So bytes that were read count only if
 * the peer is seen to exist afterwards.
 */
pid_t twi_shm_window_pid(const struct tow_peer *peer);

#endif
