/* size_play.c - what a thread of the job can do. */
#include "size_job.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TOUCHED 64
#define METHOD  "echo"
#define NAP_NS  20000

static void nap_ns(uint64_t ns)
{
	nanosleep(&(struct timespec){ (time_t)(ns / 1000000000), (long)(ns % 1000000000) }, NULL);
}

static void play_alloc(struct size_thread *thread, const struct size_act *act)
{
	void **slot = &thread->job->slot[act->number[0]];
	size_t align = act->number[2] != 0 ? (size_t)1 << act->number[2] : 0;

	if (*slot != NULL)
		size_fail("a", "the slot is in use");
	size_check(tow_alloc(thread->job->runtime, act->number[1], align, slot), "tow_alloc");
	memset(*slot, 0, act->number[1] < TOUCHED ? act->number[1] : TOUCHED);
}

static void play_free(struct size_thread *thread, const struct size_act *act)
{
	void **slot = &thread->job->slot[act->number[0]];

	if (*slot == NULL)
		size_fail("f", "the slot is free");
	size_check(tow_free(thread->job->runtime, *slot), "tow_free");
	*slot = NULL;
}

static void play_hop(const struct size_act *act)
{
	unsigned cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(act->number[0] % (cpus > 0 ? cpus : 1), &set);
	(void)sched_setaffinity(0, sizeof(set), &set); /* a container may forbid that one */
}

static void play_tag(const struct size_act *act)
{
	char name[16];

	snprintf(name, sizeof(name), "part%u", (unsigned)act->number[0]);
	size_check(tow_tag_set(name), "tow_tag_set");
}

/* One hand-over of a slot is taken before the next; with a limit, as its thread may have failed. */
static void play_take(struct size_thread *thread, const struct size_act *act)
{
	_Atomic uint32_t *handed = &thread->job->handed[act->number[0]];

	for (uint64_t ns = 0; atomic_load(handed) == 0; ns += NAP_NS) {
		if (ns > SIZE_LIMIT_NS)
			size_fail("q", "nobody hands the slot over");
		nap_ns(NAP_NS);
	}
	atomic_fetch_sub(handed, 1);
}

static struct tow_op **next_op(struct size_thread *thread)
{
	if (thread->flying == SIZE_FLIGHT)
		size_fail("job", "too much is in flight");
	return &thread->op[thread->flying++];
}

static void play_exchange(struct size_thread *thread, const struct size_act *act)
{
	struct size_job *job = thread->job;
	uint64_t tag = act->number[3] * SIZE_THREADS + thread->index;

	size_check(tow_recv_start(job->peer, job->slot[act->number[1]], act->number[2], tag, NULL,
				  next_op(thread)),
		   "tow_recv_start");
	size_check(tow_send_start(job->peer, job->slot[act->number[0]], act->number[2], tag, NULL,
				  next_op(thread)),
		   "tow_send_start");
}

static void play_view(struct size_thread *thread, const struct size_act *act)
{
	struct size_job *job = thread->job;
	uint64_t tag = act->number[2] * SIZE_THREADS + thread->index;

	if (thread->views == SIZE_FLIGHT)
		size_fail("v", "too many views");
	size_check(tow_recv_view_start(job->peer, tag, NULL, &thread->view[thread->views++]),
		   "tow_recv_view_start");
	size_check(tow_send_start(job->peer, job->slot[act->number[0]], act->number[1], tag, NULL,
				  next_op(thread)),
		   "tow_send_start");
}

static void play_call(struct size_thread *thread, const struct size_act *act)
{
	struct size_job *job = thread->job;

	size_check(tow_call(job->peer, METHOD, job->slot[act->number[0]], act->number[2],
			    job->slot[act->number[1]], act->number[2], SIZE_LIMIT_NS, NULL),
		   "tow_call");
}

static void answer_call(struct tow_call_in *call, void *user)
{
	uint64_t bytes;
	const void *request = tow_call_request(call, &bytes);

	(void)user;
	size_check(tow_reply_start(call, 0, request, bytes, NULL, NULL), "tow_reply_start");
}

void size_serve(struct size_job *job)
{
	size_check(tow_method_register(job->runtime, METHOD, answer_call, job, NULL),
		   "tow_method_register");
}

static void play_collect(struct size_thread *thread, const struct size_act *act)
{
	struct size_job *job = thread->job;
	void *in = job->slot[act->number[1]], *out = job->slot[act->number[2]];
	uint64_t count = act->number[3];
	struct tow_op **op = next_op(thread);
	int status;

	if (act->number[0] == 0)
		status = tow_coll_all_reduce_start(job->group, in, out, count, TOW_F32, TOW_SUM,
						   NULL, op);
	else if (act->number[0] == 1)
		status = tow_coll_all_gather_start(job->group, in, out, count, TOW_F32, NULL, op);
	else
		status = tow_coll_reduce_scatter_start(job->group, in, out, count, TOW_F32, TOW_SUM,
						       NULL, op);
	size_check(status, "a collective");
}

static void play_wait(struct size_thread *thread)
{
	for (uint32_t i = 0; i < thread->flying; i++) {
		size_check(tow_op_wait(thread->op[i], SIZE_LIMIT_NS), "an operation");
		tow_op_release(thread->op[i]);
	}
	thread->flying = 0;
	for (uint32_t i = 0; i < thread->views; i++)
		size_check(tow_op_wait(thread->view[i], SIZE_LIMIT_NS), "a view");
}

static void play_unview(struct size_thread *thread)
{
	for (uint32_t i = 0; i < thread->views; i++)
		size_check(tow_view_release(thread->view[i]), "tow_view_release");
	thread->views = 0;
}

void size_play(struct size_thread *thread, const struct size_act *act, uint64_t step)
{
	struct size_job *job = thread->job;

	switch (act->letter) {
	case 'a':
		play_alloc(thread, act);
		break;
	case 'f':
		play_free(thread, act);
		break;
	case 'n':
		nap_ns(act->number[0] * 1000);
		break;
	case 'h':
		play_hop(act);
		break;
	case 't':
		play_tag(act);
		break;
	case 's':
		size_check(tow_step_begin(job->runtime, step + 1), "tow_step_begin");
		break;
	case 'S':
		size_check(tow_step_end(job->runtime, step + 1), "tow_step_end");
		break;
	case 'p':
		atomic_fetch_add(&job->handed[act->number[0]], 1);
		break;
	case 'q':
		play_take(thread, act);
		break;
	case 'x':
		play_exchange(thread, act);
		break;
	case 'v':
		play_view(thread, act);
		break;
	case 'V':
		play_unview(thread);
		break;
	case 'c':
		play_call(thread, act);
		break;
	case 'r':
		play_collect(thread, act);
		break;
	case 'b':
		size_check(tow_coll_batch_begin(job->group), "tow_coll_batch_begin");
		break;
	case 'e':
		size_check(tow_coll_batch_end(job->group), "tow_coll_batch_end");
		break;
	case 'w':
		play_wait(thread);
		break;
	default:
		size_fail("job", "a thread is to do what it cannot");
	}
}
