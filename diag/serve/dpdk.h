/*
 * dpdk.h - the stats by DPDK's telemetry protocol, version 2, for tools that speak it.
 *
 *	<dir>/<job>.<rank>.dpdk     SOCK_SEQPACKET, mode 0600; -2.dpdk when the name is taken
 *	the knob's own path         likewise, with :1, :2 ... behind it, as DPDK does
 *
 * One thread, at most TWI_DPDK_CLIENTS clients, each of whom must be the same user or root. A
 * client has one reply under way at most: who does not read it is not heard until he does, and is
 * hung up on after TWI_DPDK_STUCK_S. When all places are taken, one that has been silent for
 * TWI_DPDK_IDLE_S gives way to a new client; if there is none, the new one is refused.
 */
#ifndef TWI_DPDK_H
#define TWI_DPDK_H

#include <stdint.h>

struct twi_diag;
struct twi_dpdk;

#define TWI_DPDK_CLIENTS 10
#define TWI_DPDK_STUCK_S 2
#define TWI_DPDK_IDLE_S  60

/*
 * where: a path, or "auto": beside the stats socket in dir ("" or NULL: tow_stats_dir()).
 * TOW_EINVAL: a bad path or job; TOW_EPERM, TOW_EBUSY, TOW_ESYSTEM, TOW_ENOMEM.
 */
int twi_dpdk_open(struct twi_diag *diag, const char *where, const char *dir, const char *job,
		  int64_t rank, struct twi_dpdk **out);

/* Ends the thread and its clients, and takes the file away. NULL is legal. */
void twi_dpdk_close(struct twi_dpdk *dpdk);

/* "" for NULL. */
const char *twi_dpdk_path(const struct twi_dpdk *dpdk);

#endif
