/*
 * bpf.h - gets what the kernel counts for this process, if a privileged helper allows it.
 *
 * The library cannot load programs and does not try. towbpf can (docs/bpf.md). It finds our socket
 * beside the stats socket and sends descriptors of maps. Through them we enrol our process and
 * sockets, and read the counters. Nothing of this is on the data path: a connection costs a bit in
 * a table, and one system call while a helper is connected.
 *
 *	<dir>/<job>.<rank>.bpf	mode 0600; only root and the same user are accepted
 *
 * There is one helper at a time. When it goes, for any reason, the last figures stay.
 */
#ifndef TWI_BPF_BPF_H
#define TWI_BPF_BPF_H

struct twi_bpf;
struct twi_diag;

/*
 * Listens beside the stats socket at `stats_path`, in a thread of its own. Adds /v1/bpf, and a
 * member to /v1/info. TOW_ENOMEM; TOW_EINVAL: not a stats socket's path; TOW_ESYSTEM: no socket or
 * no thread.
 */
int twi_bpf_open(struct twi_diag *diag, const char *stats_path, struct twi_bpf **out);

/* Call it before the diag is destroyed. NULL is legal. */
void twi_bpf_close(struct twi_bpf *bpf);

/* A socket of ours is open; remove it before its descriptor is closed. bpf NULL is legal. */
void twi_bpf_socket_add(struct twi_bpf *bpf, int fd);
void twi_bpf_socket_remove(struct twi_bpf *bpf, int fd);

#endif
