/*
 * hunt_rest.c - acts of one rank alone, beside the others: a device, memory of all kinds, another
 * library's collectives, questions about the runtime, and children that are forked.
 */
#include "hunt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED false
#endif

void hunt_devices(struct hunt_side *side)
{
	uint64_t bytes = 1 + hunt_own(side, 600000), offset = hunt_own(side, 1000),
		 id = twt_random(&side->own);
	struct tow_device_memory *memory = NULL;
	struct hunt_memory from, to;
	struct hunt_pend pend;
	struct tow_op_options options;
	bool canceled = hunt_own(side, 6) == 0;
	int status;

	if (side->hunt->device == NULL)
		return;
	side->what = "device";
	status = tow_device_alloc(side->hunt->device, bytes + offset, &memory);
	if (!hunt_said(side, status, "device memory"))
		return;
	hunt_take(side, &from, bytes);
	hunt_take(side, &to, bytes);
	hunt_fill(from.data, bytes, id);
	hunt_way(side, &pend, true);
	options = hunt_options(side, &pend);
	hunt_started(&pend, tow_device_copy_start(side->hunt->device, TOW_TO_DEVICE, memory, offset,
						  from.data, bytes, &options, hunt_out(&pend)));
	if (canceled && pend.op != NULL)
		tow_op_cancel(pend.op);
	status = hunt_finish(side, &pend);
	if (!(canceled && status == TOW_ECANCELED))
		hunt_well(side, &pend, status, "to the device");
	hunt_drop(&pend);
	if (status >= 0) {
		hunt_way(side, &pend, true);
		options = hunt_options(side, &pend);
		hunt_started(&pend, tow_device_copy_start(side->hunt->device, TOW_FROM_DEVICE,
							  memory, offset, to.data, bytes, &options,
							  hunt_out(&pend)));
		if (hunt_well(side, &pend, hunt_finish(side, &pend), "from the device"))
			HUNT_TRUE(side, hunt_same(to.data, bytes, id));
		hunt_drop(&pend);
	}
	status = tow_device_free(memory);
	if (status != TOW_OK)
		hunt_bad(side, "device free: %s: %s (canceled %d, %s)", tow_status_name(status),
			 tow_error_message(), canceled, tow_status_name(pend.result.status));
	hunt_give(side, &from);
	hunt_give(side, &to);
}

void hunt_memory(struct hunt_side *side)
{
	struct hunt_memory held[12];
	uint32_t count = 1 + (uint32_t)hunt_own(side, 12);

	side->what = "memory";
	for (uint32_t i = 0; i < count; i++) {
		hunt_take(side, &held[i], hunt_own(side, hunt_own(side, 8) == 0 ? 3000000 : 20000));
		hunt_fill(held[i].data, held[i].bytes, side->round + i);
	}
	for (uint32_t i = 0; i < count; i++) {
		HUNT_TRUE(side, hunt_same(held[i].data, held[i].bytes, side->round + i));
		hunt_give(side, &held[i]);
	}
	atomic_fetch_add(&side->beat, 1);
}

void hunt_foreign(struct hunt_side *side)
{
	struct tow_foreign_options options = TOW_FOREIGN_OPTIONS_INIT;
	struct tow_foreign_group *group = NULL;
	uint32_t count = 1 + (uint32_t)hunt_own(side, 20);

	side->what = "another library's collectives";
	options.id = 0x7000 + side->index;
	options.rank = side->hunt->rank;
	options.ranks = side->hunt->ranks;
	options.name = "hunt";
	if (!hunt_said(side, tow_foreign_open(side->hunt->runtime, &options, &group), "open"))
		return;
	for (uint32_t i = 0; i < count; i++) {
		struct tow_foreign_coll coll = TOW_FOREIGN_COLL_INIT;
		struct tow_foreign_message message = TOW_FOREIGN_MESSAGE_INIT;
		uint64_t seq = 0;

		coll.kind = (int32_t)hunt_own(side, TOW_FOREIGN_KINDS);
		coll.bytes = hunt_own(side, 1000000);
		HUNT_TRUE(side, tow_foreign_coll_begin(group, &coll, &seq) == TOW_OK);
		HUNT_TRUE(side, seq == i + 1);
		tow_foreign_coll_enter(group, seq, 0);
		message.seq = seq;
		message.peer = (side->hunt->rank + 1) % side->hunt->ranks;
		message.start_ns = tow_foreign_clock();
		message.bytes = coll.bytes;
		message.sends = (uint32_t)hunt_own(side, 2);
		if (side->hunt->ranks > 1)
			HUNT_TRUE(side, tow_foreign_message(group, &message) == TOW_OK);
		if (hunt_own(side, 8) != 0)
			HUNT_TRUE(side, tow_foreign_coll_end(group, seq, 0, TOW_OK) == TOW_OK);
	}
	tow_foreign_close(group);
	atomic_fetch_add(&side->beat, 1);
}

void hunt_questions(struct hunt_side *side)
{
	static const char *const paths[] = { "/v1/info",     "/v1/pool",    "/v1/copies",
					     "/v1/counters", "/v1/coll",    "/v1/rpc",
					     "/v1/peers",    "/v1/devices", "/v1/bootstrap",
					     "/metrics",     "/v1/nothing" };
	char *text = NULL;

	side->what = "questions";
	hunt_nap(side, 3000000);
	if (tow_stats_get(side->hunt->runtime,
			  paths[hunt_own(side, sizeof(paths) / sizeof(*paths))], &text) == TOW_OK) {
		HUNT_TRUE(side, strlen(text) > 1);
		tow_stats_release(text);
	}
	tow_tag_set(hunt_own(side, 2) == 0 ? "hunt" : NULL);
	atomic_fetch_add(&side->beat, 1);
}

/* A trace of what the others do meanwhile; one at a time in a process. */
void hunt_traces(struct hunt_side *side)
{
	struct tow_trace *trace = NULL;
	void *bytes = NULL;
	size_t count = 0;
	int status = tow_trace_begin(side->hunt->runtime);

	side->what = "trace";
	HUNT_TRUE(side, status == TOW_OK || status == TOW_EBUSY);
	tow_step_begin(side->hunt->runtime, side->round);
	tow_span_begin(side->hunt->runtime, "hunting");
	hunt_nap(side, 60000000);
	tow_span_end(side->hunt->runtime);
	tow_step_end(side->hunt->runtime, side->round);
	atomic_fetch_add(&side->beat, 1);
	if (status != TOW_OK)
		return;
	HUNT_TRUE(side, tow_trace_end(side->hunt->runtime, &trace) == TOW_OK);
	HUNT_TRUE(side, tow_trace_encode(trace, TOW_TRACE_JSON, &bytes, &count) == TOW_OK);
	HUNT_TRUE(side, count > 0);
	tow_trace_bytes_release(bytes);
	if (tow_trace_encode(trace, TOW_TRACE_XSPACE, &bytes, &count) == TOW_OK)
		tow_trace_bytes_release(bytes);
	tow_trace_release(trace);
}

void hunt_forks(struct hunt_side *side)
{
	int status = 0;
	pid_t pid;

	side->what = "fork";
	hunt_nap(side, 30000000);
	pid = fork();
	/* A sanitizer's allocator may be locked for ever in the child. */
	if (pid == 0 && SANITIZED)
		_exit(0);
	if (pid == 0) {
		void *data = NULL;
		int said = tow_alloc(side->hunt->runtime, 10, 0, &data);

		if (said != TOW_EFORKED || tow_progress(side->hunt->runtime) != TOW_EFORKED ||
		    tow_group_barrier(side->hunt->all, HUNT_NS) != TOW_EFORKED)
			_exit(1);
		_exit(0);
	}
	HUNT_TRUE(side, pid > 0);
	while (waitpid(pid, &status, 0) != pid)
		HUNT_TRUE(side, errno == EINTR);
	HUNT_TRUE(side, status == 0);
	atomic_fetch_add(&side->beat, 1);
}
