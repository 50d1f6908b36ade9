/*
 * bpf.h - what the kernel counts for this process, where a privileged helper lets it.
 *
 * The library can load no program and does not try. towbpf can (docs/bpf.md); it finds our socket
 * beside the stats socket, and hands over descriptors of maps, through which we put our sockets and
 * our process in, and read. Nothing of this is on the data path: a connection costs a bit in a
 * table, and one system call while a helper is there.
 *
 *	<dir>/<job>.<rank>.bpf	mode 0600; only root and the same user are heard
 *
 * One helper at a time. When it goes, by whatever way, the figures stay as they were last.
 */
#ifndef TWI_BPF_BPF_H
#define TWI_BPF_BPF_H

struct twi_bpf;
struct twi_diag;

/*
 * Listens beside the stats socket at `stats_path`, in a thread of its own, and adds /v1/bpf and a
 * member to /v1/info. TOW_ENOMEM; TOW_ESYSTEM: the path, or no thread.
 */
int twi_bpf_open(struct twi_diag *diag, const char *stats_path, struct twi_bpf **out);

/* Before the diag goes. NULL is legal. */
void twi_bpf_close(struct twi_bpf *bpf);

/* A socket of ours has come; it goes, before its descriptor is closed. bpf NULL is legal. */
void twi_bpf_socket_add(struct twi_bpf *bpf, int fd);
void twi_bpf_socket_remove(struct twi_bpf *bpf, int fd);

#endif
