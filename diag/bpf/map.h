/*
 * map.h - the maps, by plain system calls: checked, mapped, written. No library is needed.
 */
#ifndef TWI_BPF_MAP_H
#define TWI_BPF_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "diag/bpf/abi/share.h"

/* The three maps, as descriptors of ours; all -1 when there are none. */
struct twi_bpf_maps {
	int fds[TWI_BPF_MAPS];
	const struct twi_bpf_slot *slots; /* mapped, TWI_BPF_SLOTS of them */
	size_t mapped_bytes;
};

/*
 * Takes the descriptors, whatever it returns. They come from outside: each must be a map of its
 * kind and size, and the counters such that nobody can write them but the programs. TOW_EINVAL
 * names the one that is not; TOW_ESYSTEM.
 */
int twi_bpf_maps_take(const int fds[TWI_BPF_MAPS], struct twi_bpf_maps *out);
void twi_bpf_maps_give(struct twi_bpf_maps *maps);

/* This process; a socket. TOW_ESYSTEM says what the kernel says. */
int twi_bpf_enrol_process(const struct twi_bpf_maps *maps, uint32_t slot);
int twi_bpf_enrol_socket(const struct twi_bpf_maps *maps, uint32_t slot, int fd);

#endif
