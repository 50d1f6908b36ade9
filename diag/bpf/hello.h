/*
 * hello.h - receives and checks the one packet that a helper sends, with its descriptors.
 */
#ifndef TWI_BPF_HELLO_H
#define TWI_BPF_HELLO_H

#include "diag/bpf/abi/share.h"

/*
 * Takes the packet that waits on the connected socket `fd`. fds_out gets TWI_BPF_MAPS descriptors,
 * or -1 for all, as hello->on says. Any others are closed. Strings end with a NUL. TOW_EINVAL: the
 * message says what is wrong; TOW_ECLOSED: the helper has gone; TOW_ESYSTEM.
 */
int twi_bpf_hello_receive(int fd, struct twi_bpf_hello *out, int fds_out[TWI_BPF_MAPS]);

#endif
