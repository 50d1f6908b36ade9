/*
 * map.h - checks, maps and writes the maps, by plain system calls. It needs no library.
 */
#ifndef TWI_BPF_MAP_H
#define TWI_BPF_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "diag/bpf/abi/share.h"

/* The three maps, as descriptors that we own; all -1 when there are none. */
struct twi_bpf_maps {
	int fds[TWI_BPF_MAPS];
	const struct twi_bpf_slot *slots; /* mapped, with TWI_BPF_SLOTS rows */
	size_t mapped_bytes;
};

/*
 * Takes the descriptors, whatever it returns. They come from outside. So each must be a map of its
 * kind and size, and only the programs may be able to write the counters. TOW_EINVAL: the message
 * names the wrong one; TOW_ESYSTEM.
 */
int twi_bpf_maps_take(const int fds[TWI_BPF_MAPS], struct twi_bpf_maps *out);
void twi_bpf_maps_give(struct twi_bpf_maps *maps);

/* Enrol this process, or a socket. TOW_ESYSTEM: the message has the kernel's reason. */
int twi_bpf_enrol_process(const struct twi_bpf_maps *maps, uint32_t slot);
int twi_bpf_enrol_socket(const struct twi_bpf_maps *maps, uint32_t slot, int fd);

#endif
