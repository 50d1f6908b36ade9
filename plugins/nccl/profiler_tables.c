/*
 * profiler_tables.c - the tables of versions 4 to 6, which call the core. They differ in the order
 * of the arguments of init, and in the width of the event type.
 */
#include "plugins/nccl/profiler.h"

#define PUBLIC __attribute__((visibility("default")))
#define NAME   "Towline"

static int profiler_init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes,
			    int ranks, int rank, nccl_logger logger)
{
	(void)nodes;
	return (int)twp_init(context, mask, name, hash, ranks, rank, logger);
}

static int profiler_init_v5(void **context, uint64_t id, int *mask, const char *name, int nodes,
			    int ranks, int rank, nccl_logger logger)
{
	(void)nodes;
	return (int)twp_init(context, mask, name, id, ranks, rank, logger);
}

static int event_start_v4(void *context, void **event, struct nccl_event_descriptor *what)
{
	return (int)twp_start(context, event, what != NULL ? what->type_v4 : 0, what);
}

static int event_start_v5(void *context, void **event, struct nccl_event_descriptor *what)
{
	return (int)twp_start(context, event, what != NULL ? what->type : 0, what);
}

static int event_stop(void *event)
{
	return (int)twp_stop(event);
}

static int event_state(void *event, int state, union nccl_state_arguments *arguments)
{
	return (int)twp_state(event, state, arguments);
}

static int profiler_finalize(void *context)
{
	return (int)twp_finalize(context);
}

#define TABLE(version, layout)                                                                     \
	extern const struct nccl_profiler_##layout ncclProfiler_v##version PUBLIC;                 \
	const struct nccl_profiler_##layout ncclProfiler_v##version = {                            \
		.name = NAME,                                                                      \
		.init = profiler_init_##layout,                                                    \
		.start = event_start_##layout,                                                     \
		.stop = event_stop,                                                                \
		.state = event_state,                                                              \
		.finalize = profiler_finalize,                                                     \
	}

TABLE(4, v4);
TABLE(5, v5);
TABLE(6, v5);
