/*
 * figures.h - the state of the maps: off with a reason, or on with enrolled sockets and figures.
 *
 * A lock of its own guards it. The lock is never held during calls to others, so documents may ask
 * at any time.
 */
#ifndef TWI_BPF_FIGURES_H
#define TWI_BPF_FIGURES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "diag/bpf/map.h"

struct twi_diag;
struct twi_emit;

/* Descriptors from here on are not enrolled. */
#define TWI_BPF_FDS_MAX (1u << 20)

struct twi_bpf_figures {
	struct twi_diag *diag;
	pthread_mutex_t lock;  /* guards all below */
	uint64_t *sockets;     /* a bit for each descriptor that is a socket of ours */
	uint32_t sockets_room; /* in bits */
	bool on, ever;
	pid_t helper;
	uint32_t slot, programs, enrolled, missed;
	struct twi_bpf_maps maps;
	/* The slot when the helper came; the process's counts since then; the host's counts. */
	struct twi_bpf_slot before, last, host;
	uint64_t library_before, library_last; /* zerocopy_kernel_copy_bytes then, and since then */
	char why[TWI_BPF_TEXT_BYTES];
	char reasons[TWI_BPF_REASONS][TWI_BPF_REASON_BYTES];
};

void twi_bpf_figures_init(struct twi_bpf_figures *figures, struct twi_diag *diag);
void twi_bpf_figures_fini(struct twi_bpf_figures *figures);

/* Takes fds, and enrols process and sockets. TOW_OK, too, for a hello that only says why not. */
int twi_bpf_figures_start(struct twi_bpf_figures *figures, const struct twi_bpf_hello *hello,
			  const int fds[TWI_BPF_MAPS], pid_t helper, uint32_t *enrolled_out);

/* Call it when the helper has gone. */
void twi_bpf_figures_stop(struct twi_bpf_figures *figures, const char *why);

void twi_bpf_figures_socket(struct twi_bpf_figures *figures, int fd, bool comes);

/* The count since the helper came. False: unknown, as the counter's program is not attached. */
bool twi_bpf_figure(struct twi_bpf_figures *figures, enum twi_bpf_counter counter,
		    uint64_t *value_out);

/* Reads the maps into `last` and `host`. The lock is held. Does nothing when off. */
void twi_bpf_figures_refresh(struct twi_bpf_figures *figures);

/* Write the document /v1/bpf, and the member of /v1/info. */
void twi_bpf_figures_report(void *figures, struct twi_emit *e);
void twi_bpf_figures_info(void *figures, struct twi_emit *e);

struct twi_bpf_counter_info {
	const char *name, *unit, *help;
	enum twi_bpf_program program;
};

const struct twi_bpf_counter_info *twi_bpf_counter_describe(enum twi_bpf_counter counter);

#endif
