/*
 * test_hung_capture.c - a capture of a job that hangs: rank 1 does not make the call that rank 0
 * waits in. The traces of both name it, over tcp and shm; so does what the rings hold. And a
 * capture does not wait for a handler that never returns.
 */
#include "coll_job.h"

#include <pthread.h>

#include "diag/record/coll_kind.h"
#include "diag/trace/export/export.h"
#include "diag/trace/unfinished.h"
#include "tools/trace/formats.h"

#define READY    1
#define CAPTURED 2
#define TAG      7

struct waiter {
	struct twt_job *job;
	struct tow_op *op;
	int status;
};

static struct tow_peer *peer_of(struct twt_job *job)
{
	uint32_t other = 1 - (uint32_t)job->rank;
	struct tow_peer *peer;
	struct tow_op *op;
	char text[512];

	twt_must(tow_group_connect_start(job->group, other, NULL, &op) == TOW_OK);
	twt_must(twt_job_end(job, op, text) == TOW_OK);
	twt_must(tow_group_peer(job->group, other, &peer) == TOW_OK);
	return peer;
}

static void *wait_on(void *arg)
{
	struct waiter *waiter = arg;

	waiter->status = tow_op_wait(waiter->op, TWT_JOB_WAIT_NS);
	return NULL;
}

/* What tow_trace_end gives, and an XSpace of it read again. */
static struct twi_trace taken_trace(struct twt_job *job)
{
	struct tow_trace *trace;
	struct twi_trace back;
	size_t count;
	void *bytes;

	twt_must(tow_trace_begin(job->runtime) == TOW_OK);
	usleep(400000);
	twt_must(tow_trace_end(job->runtime, &trace) == TOW_OK);
	twt_must(tow_trace_encode(trace, TOW_TRACE_XSPACE, &bytes, &count) == TOW_OK);
	tow_trace_release(trace);
	twt_must(twi_import_xspace(bytes, count, &back) == TOW_OK);
	tow_trace_bytes_release(bytes);
	twt_must(back.rank_count == 1 && back.ranks[0].rank == job->rank);
	return back;
}

static const struct twi_span *unfinished_of(const struct twi_trace *trace, enum twi_span_kind kind)
{
	const struct twi_trace_rank *rank = &trace->ranks[0];

	for (size_t i = 0; i < rank->unfinished_count; i++) {
		if (rank->unfinished[i].kind == kind)
			return &rank->unfinished[i];
	}
	return NULL;
}

static void check_hung(struct twt_job *job, uint64_t begun_ns)
{
	struct twi_trace trace = taken_trace(job);
	const struct twi_trace_rank *rank = &trace.ranks[0];
	const struct twi_span *coll = unfinished_of(&trace, TWI_SPAN_COLL);
	const struct twi_span *wait = unfinished_of(&trace, TWI_SPAN_WAIT);
	const struct twi_span *recv = unfinished_of(&trace, TWI_SPAN_RECV);
	struct twi_stuck stuck;
	char text[TWI_STUCK_TEXT];

	twt_must(coll != NULL && coll->detail == TWI_COLL_ALL_REDUCE && coll->ranks == 2);
	twt_must(coll->status == TOW_AGAIN && coll->end_ns == rank->end_ns);
	twt_must(coll->start_ns >= begun_ns && coll->start_ns < rank->begin_ns);
	twt_must(coll->name > 0 && strncmp(rank->names[coll->name - 1], "stuck", 5) == 0);
	twt_must(wait != NULL && wait->detail == TWI_SPAN_COLL && wait->id == coll->id);
	/* of the whole wait, which the library cuts to ask the others and to write to the log */
	twt_must(wait->start_ns >= coll->start_ns &&
		 (wait->start_ns - begun_ns) * 2 < rank->begin_ns - begun_ns);
	twt_must(recv != NULL && recv->bytes == 64 && recv->peer > 0);
	twt_must(twi_unfinished_find(&trace, &stuck, 1) == 1);
	twi_unfinished_say(&trace, &stuck, text);
	twt_must(strstr(text, "Rank 0 waits in all-reduce") != NULL &&
		 strstr(text, "\"stuck") != NULL);
	twi_trace_fini(&trace);
}

/* What is asked of the stats without a capture: the rings, and what is under way. */
static void check_rings(struct twt_job *job)
{
	struct tow_trace *trace;
	struct twi_trace none;

	twt_must(tow_trace_begin(job->runtime) == TOW_OK);
	twt_must(tow_trace_end(job->runtime, &trace) == TOW_OK); /* no time at all */
	none = trace->trace;
	twt_must(none.rank_count == 1 && unfinished_of(&none, TWI_SPAN_COLL) != NULL);
	tow_trace_release(trace);
}

static void hang_here(struct twt_job *job)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct waiter waiter = { .job = job };
	struct tow_peer *peer;
	struct tow_op *recv;
	uint64_t begun_ns;
	pthread_t thread;
	void *memory;
	float *data;
	char text[512], word[64];

	twt_must(tow_alloc(job->runtime, 4096, 64, &memory) == TOW_OK);
	data = memory;
	memset(data, 0, 4096);
	peer = peer_of(job);
	twt_must(tow_recv_start(peer, word, sizeof(word), TAG, NULL, &recv) == TOW_OK);
	options.name = "stuck";
	begun_ns = twt_job_now();
	twt_must(tow_coll_all_reduce_start(job->group, data, data, 1024, TOW_F32, TOW_SUM, &options,
					   &waiter.op) == TOW_OK);
	twt_must(pthread_create(&thread, NULL, wait_on, &waiter) == 0);
	usleep(1500000);
	check_hung(job, begun_ns);
	check_rings(job);
	twt_job_mark(job, CAPTURED);
	pthread_join(thread, NULL);
	twt_must(waiter.status == TOW_OK);
	twt_must(tow_op_release(waiter.op) == TOW_OK);
	twt_must(twt_job_end(job, recv, text) == TOW_OK);
	twt_must(tow_free(job->runtime, memory) == TOW_OK);
}

/* Computes for ever, as far as the others can tell. */
static void stay_away(struct twt_job *job)
{
	struct twi_trace trace;
	struct tow_peer *peer;
	struct tow_op *op;
	char text[512], word[64] = "";
	void *memory;

	trace = taken_trace(job);
	twt_must(unfinished_of(&trace, TWI_SPAN_COLL) == NULL);
	twt_must(unfinished_of(&trace, TWI_SPAN_WAIT) == NULL);
	twi_trace_fini(&trace);
	twt_must(twt_job_reached(1, CAPTURED));
	twt_must(tow_alloc(job->runtime, 4096, 64, &memory) == TOW_OK);
	memset(memory, 0, 4096);
	twt_must(tow_coll_all_reduce_start(job->group, memory, memory, 1024, TOW_F32, TOW_SUM, NULL,
					   &op) == TOW_OK);
	twt_must(twt_job_end(job, op, text) == TOW_OK);
	peer = peer_of(job);
	twt_must(tow_send_start(peer, word, sizeof(word), TAG, NULL, &op) == TOW_OK);
	twt_must(twt_job_end(job, op, text) == TOW_OK);
	/* when all is over nothing is left to tell */
	trace = taken_trace(job);
	twt_must(unfinished_of(&trace, TWI_SPAN_COLL) == NULL);
	twi_trace_fini(&trace);
	twt_must(tow_free(job->runtime, memory) == TOW_OK);
}

static void play_hang(struct twt_job *job, const void *plan)
{
	(void)plan;
	twt_job_sum(job, job->group, 1024);
	if (job->rank == 0)
		hang_here(job);
	else
		stay_away(job);
	twt_job_sum(job, job->group, 16);
}

static void a_hung_job_is_named(void **state)
{
	(void)state;
	if (twi_xspace_ready() < 0)
		skip();
	setenv("TOW_LOG_WAIT_NS", "10000000", 1);
	twt_job_run("tcp", 2, 0, play_hang, NULL, NULL);
	twt_job_run("shm", 2, 0, play_hang, NULL, NULL);
}

/* --- a handler that does not return keeps the engine --- */

static _Atomic bool in_handler, leave_handler;

static void stay_in(struct tow_call_in *call, void *user)
{
	(void)user;
	atomic_store(&in_handler, true);
	while (!atomic_load(&leave_handler))
		usleep(1000);
	if (tow_reply_start(call, 0, NULL, 0, NULL, NULL) != TOW_OK)
		abort();
}

static void play_handler(struct twt_job *job, const void *plan)
{
	struct waiter waiter = { .job = job };
	struct tow_trace *trace;
	struct tow_peer *peer;
	pthread_t thread;
	uint64_t since_ns;
	char text[512], word[8];

	(void)plan;
	twt_must(tow_method_register(job->runtime, "stay", stay_in, NULL, NULL) == TOW_OK);
	twt_job_sum(job, job->group, 16);
	peer = peer_of(job);
	if (job->rank == 0) {
		struct twi_trace back;
		const struct twi_span *call;

		/* The thread that captures would run the handler, if the call came earlier. */
		twt_must(twt_job_reached(2, READY));
		twt_must(tow_call_start(peer, "stay", NULL, 0, NULL, 0, NULL, &waiter.op) ==
			 TOW_OK);
		twt_must(pthread_create(&thread, NULL, wait_on, &waiter) == 0);
		back = taken_trace(job);
		call = unfinished_of(&back, TWI_SPAN_CALL);
		twt_must(call != NULL && call->name > 0 &&
			 strcmp(back.ranks[0].names[call->name - 1], "stay") == 0);
		twi_trace_fini(&back);
		twt_job_mark(job, CAPTURED);
		pthread_join(thread, NULL);
		twt_must(waiter.status == TOW_OK);
		tow_op_release(waiter.op);
		twt_must(tow_send_start(peer, "end", 4, TAG, NULL, &waiter.op) == TOW_OK);
		twt_must(twt_job_end(job, waiter.op, text) == TOW_OK);
		return;
	}
	twt_must(tow_recv_start(peer, word, sizeof(word), TAG, NULL, &waiter.op) == TOW_OK);
	twt_must(pthread_create(&thread, NULL, wait_on, &waiter) == 0);
	twt_job_mark(job, READY);
	for (int i = 0; i < 20000 && !atomic_load(&in_handler); i++)
		usleep(1000);
	twt_must(atomic_load(&in_handler));
	since_ns = twt_job_now();
	twt_must(tow_trace_begin(job->runtime) == TOW_OK);
	twt_must(tow_trace_end(job->runtime, &trace) == TOW_OK);
	twt_must(twt_job_now() - since_ns < 10000000000u);
	tow_trace_release(trace);
	twt_must(twt_job_reached(1, CAPTURED));
	atomic_store(&leave_handler, true);
	pthread_join(thread, NULL);
	twt_must(waiter.status == TOW_OK);
	tow_op_release(waiter.op);
}

static void a_capture_does_not_wait_for_a_handler(void **state)
{
	(void)state;
	if (twi_xspace_ready() < 0)
		skip();
	twt_job_run("tcp", 2, 0, play_handler, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hung_job_is_named),
		cmocka_unit_test(a_capture_does_not_wait_for_a_handler),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
