/* nccl_events.c - events of a profiler of NCCL's. */
#include "nccl_events.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

void twt_np_nap(unsigned us)
{
	const struct timespec nap = { .tv_nsec = us * 1000 };

	nanosleep(&nap, NULL);
}

void *twt_np_symbol(const char *name)
{
	const char *build = getenv("TOW_TEST_BUILD");
	char path[512];
	void *module, *found;

	snprintf(path, sizeof(path), "%s/plugins/nccl/libnccl-net-towline.so",
		 build != NULL ? build : ".");
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (module == NULL)
		fprintf(stderr, "%s\n", dlerror());
	TWT_MUST(module != NULL);
	found = dlsym(module, name);
	TWT_MUST(found != NULL);
	return found;
}

struct twt_np twt_np_load(int version)
{
	struct twt_np out = { .version = version };
	char symbol[32];

	snprintf(symbol, sizeof(symbol), "ncclProfiler_v%d", version);
	out.v4 = twt_np_symbol(symbol);
	out.v5 = (const void *)out.v4;
	return out;
}

void twt_np_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	va_list arguments;

	(void)level, (void)flags, (void)file, (void)line;
	if (getenv("TOW_TEST_NCCL_LOG") == NULL)
		return;
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
}

int twt_np_init(const struct twt_np *p, void **context, int *mask, const char *name, uint64_t id,
		int ranks, int rank)
{
	if (p->version == 4)
		return p->v4->init(context, mask, name, id, 1, ranks, rank, twt_np_log);
	return p->v5->init(context, id, mask, name, 1, ranks, rank, twt_np_log);
}

/* Version 4 writes one byte of the type; what stands behind it is arbitrary. */
void *twt_np_start(const struct twt_np *p, void *context, uint64_t type,
		   struct nccl_event_descriptor what)
{
	void *event = (void *)(uintptr_t)1;

	if (p->version == 4) {
		what.type = UINT64_MAX;
		what.type_v4 = (uint8_t)type;
	} else {
		what.type = type;
	}
	TWT_MUST(p->v4->start(context, &event, &what) == 0);
	return event;
}

void *twt_np_coll(const struct twt_np *p, void *context, const char *function)
{
	struct nccl_event_descriptor what = { .rank = 0 };

	what.coll.function = function;
	what.coll.count = NP_COUNT;
	what.coll.type = "ncclFloat32";
	what.coll.channels = NP_CHANNELS;
	what.coll.algorithm = "RING";
	what.coll.protocol = "SIMPLE";
	return twt_np_start(p, context, NCCL_EVENT_COLL, what);
}

void *twt_np_op(const struct twt_np *p, void *context, void *parent, int peer, int sends)
{
	struct nccl_event_descriptor what = { .parent = parent };

	what.op.pid = (int32_t)getpid();
	what.op.peer = peer;
	what.op.steps = NP_STEPS;
	what.op.chunk_bytes = 1 << 19;
	what.op.sends = sends;
	return twt_np_start(p, context, NCCL_EVENT_PROXY_OP, what);
}

void *twt_np_step(const struct twt_np *p, void *context, void *op, int number)
{
	struct nccl_event_descriptor what = { .parent = op };

	what.step.step = number;
	return twt_np_start(p, context, NCCL_EVENT_PROXY_STEP, what);
}

void twt_np_state(const struct twt_np *p, void *event, int state, size_t bytes)
{
	union nccl_state_arguments arguments = { .step_bytes = bytes };

	TWT_MUST(p->v4->state(event, state, &arguments) == 0);
}

void twt_np_stop(const struct twt_np *p, void *event)
{
	TWT_MUST(p->v4->stop(event) == 0);
}

/* What the proxy does: a send and a receive of each channel, each state of all steps in turn. */
void twt_np_proxy(const struct twt_np *p, const struct twt_fj *job, uint32_t rank,
		  const struct twt_np_times *times, void *context, void *coll)
{
	void *ops[NP_CHANNELS][2], *steps[NP_CHANNELS][2];

	for (int c = 0; c < NP_CHANNELS; c++) {
		ops[c][0] =
			twt_np_op(p, context, coll, (int)((rank + job->ranks - 1) % job->ranks), 0);
		ops[c][1] = twt_np_op(p, context, coll, (int)((rank + 1) % job->ranks), 1);
		twt_np_state(p, ops[c][0], NCCL_STATE_OP_IN_PROGRESS, 0);
	}
	for (int n = 0; n < NP_STEPS; n++) {
		for (int c = 0; c < NP_CHANNELS; c++) {
			steps[c][0] = twt_np_step(p, context, ops[c][0], n);
			steps[c][1] = twt_np_step(p, context, ops[c][1], n);
			twt_np_state(p, steps[c][0], NCCL_STATE_RECV_WAIT, 0);
			twt_np_state(p, steps[c][1], NCCL_STATE_SEND_GPU_WAIT, 0);
		}
		if (n == 0)
			twt_fj_dawdle(job, rank); /* the device of a late one has nothing yet */
		twt_np_nap(times->send_gpu);
		for (int c = 0; c < NP_CHANNELS; c++)
			for (int again = 0; again < 5; again++) /* as often as the proxy looks */
				twt_np_state(p, steps[c][1], NCCL_STATE_SEND_PEER_WAIT, 0);
		twt_np_nap(times->send_peer);
		for (int c = 0; c < NP_CHANNELS; c++)
			twt_np_state(p, steps[c][1], NCCL_STATE_SEND_WAIT, 1 << 19);
		twt_np_nap(times->send_wire);
		if (n == 0 && job->fault == FJ_LATE && (rank + 1) % job->ranks == job->victim)
			twt_np_nap(FJ_LATE_MS * 1000); /* who is late takes nothing */
		for (int c = 0; c < NP_CHANNELS; c++)
			twt_np_stop(p, steps[c][1]);
		if (times->recv_wire > times->send_wire)
			twt_np_nap(times->recv_wire - times->send_wire);
		for (int c = 0; c < NP_CHANNELS; c++) {
			twt_np_state(p, steps[c][0], NCCL_STATE_RECV_FLUSH_WAIT, 1 << 19);
			twt_np_state(p, steps[c][0], NCCL_STATE_RECV_GPU_WAIT, 1 << 19);
		}
		twt_np_nap(times->recv_gpu);
		for (int c = 0; c < NP_CHANNELS; c++)
			twt_np_stop(p, steps[c][0]);
	}
	for (int c = 0; c < NP_CHANNELS; c++) {
		twt_np_stop(p, ops[c][1]);
		twt_np_stop(p, ops[c][0]);
	}
}
