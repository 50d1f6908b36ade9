/*
 * ofi_pair.h - two processes joined by the ofi lane, for each provider of libfabric's that there
 * is. Builds upon pair.h; ofi_run.h runs scenarios of them.
 */
#ifndef TWT_OFI_PAIR_H
#define TWT_OFI_PAIR_H

#include "pair.h"

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/ofi/ofi.h"

#ifdef TWI_HAVE_OFI

#define TWT_OFI_MISSING 77

/* What the program, and then the process of a scenario, is about. */
struct twt_ofi {
	uint64_t seed;
	const char *provider;
	bool slow; /* sockets and udp: the same with less of it */
	int64_t pool_bytes;
	/* Which ways the scenario leaves. */
	bool read, tagged;
	int prefers_tagged; /* -1: as it is */
};
extern struct twt_ofi twt_ofi;

uint64_t twt_ofi_now_ns(void);

/* Leaves its ports the ways of twt_ofi. */
void twt_ofi_restrict_ways(struct tow_runtime *runtime);

/* Ends a process where leaks are looked for, but not those of libfabric's net provider: it loses an
 * fi_info for each endpoint, and for each connection that it tries in vain. */
void twt_ofi_leave(int status);

/* The parent's runtime and endpoint; a provider that is not there ends the process. */
void twt_ofi_open_listener(struct twt_side *side);

/* As twt_pair, with the provider's address and the scenario's ways. */
void twt_ofi_open_pair(struct twt_side *side, int (*child)(struct twt_side *side, void *arg));

/* Both processes must end well. */
void twt_ofi_close_pair(struct twt_side *side);

/* Each until its operation has ended; how many bytes came. */
void twt_ofi_send_wait(struct twt_side *side, const void *data, uint64_t bytes, uint64_t tag);
uint64_t twt_ofi_recv_wait(struct twt_side *side, void *data, uint64_t bytes, uint64_t tag);

/* Both sides go on when both are here. */
void twt_ofi_meet(struct twt_side *side);

#endif
#endif
