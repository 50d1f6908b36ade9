/*
 * nccl_events.h - events of a profiler of NCCL's, as NCCL tells of them, through the table of one
 * version of plugins/nccl.
 */
#ifndef TWT_NCCL_EVENTS_H
#define TWT_NCCL_EVENTS_H

#include "foreign_job.h"

#include "plugins/nccl/nccl_profiler_abi.h"

#define NP_CHANNELS 2
#define NP_STEPS    3
#define NP_COUNT    (1u << 20) /* elements of a collective, f32 */

/* The table of one version, called alike. */
struct twt_np {
	int version;
	const struct nccl_profiler_v4 *v4;
	const struct nccl_profiler_v5 *v5;
};

/* What of a step is slow at this rank, in turn: state by state, us. */
struct twt_np_times {
	unsigned send_gpu, send_peer, send_wire, recv_wire, recv_gpu;
};

/* The table of that version of the plugin that was built. */
struct twt_np twt_np_load(int version);

/* Another table of the same file. */
void *twt_np_symbol(const char *name);

int twt_np_init(const struct twt_np *p, void **context, int *mask, const char *name, uint64_t id,
		int ranks, int rank);

/* Lines of the plugin, where TOW_TEST_NCCL_LOG says that somebody wants to see them. */
void twt_np_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* What startEvent gives, which must succeed. */
void *twt_np_start(const struct twt_np *p, void *context, uint64_t type,
		   struct nccl_event_descriptor what);
void *twt_np_coll(const struct twt_np *p, void *context, const char *function);
void *twt_np_op(const struct twt_np *p, void *context, void *parent, int peer, int sends);
void *twt_np_step(const struct twt_np *p, void *context, void *op, int number);
void twt_np_state(const struct twt_np *p, void *event, int state, size_t bytes);
void twt_np_stop(const struct twt_np *p, void *event);

/*
 * What the proxy tells of a collective: in each channel of a ring a send and a receive of NP_STEPS
 * steps, whose states really take these times. A rank that is to come late does before its first.
 */
void twt_np_proxy(const struct twt_np *p, const struct twt_fj *job, uint32_t rank,
		  const struct twt_np_times *times, void *context, void *coll);

void twt_np_nap(unsigned us);

#endif
