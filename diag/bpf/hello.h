/*
 * hello.h - the one packet that a helper sends: received with its descriptors, and checked.
 */
#ifndef TWI_BPF_HELLO_H
#define TWI_BPF_HELLO_H

#include "diag/bpf/abi/share.h"

/*
 * Takes the packet that waits on the connected socket `fd`. Descriptors go to fds_out, TWI_BPF_MAPS
 * or none (-1) as hello->on says; whatever else came with it is closed. Strings end. TOW_EINVAL:
 * what is wrong with it; TOW_ECLOSED: the helper has gone; TOW_ESYSTEM.
 */
int twi_bpf_hello_receive(int fd, struct twi_bpf_hello *out, int fds_out[TWI_BPF_MAPS]);

#endif
