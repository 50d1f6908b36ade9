/*
 * group_open.c - tow_group_open_start.
 *
 * The join blocks, so it runs in a thread of the library, and an operation stands for it. All waits
 * of the thread poll a descriptor. Cancel, deadline and the end of the runtime reach the thread by
 * it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/base/thread.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/job/group.h"
#include "transport/op/op_options.h"

struct open {
	struct twi_list link; /* on job->opens, until its thread has been joined */
	struct tow_runtime *runtime;
	struct tow_op *op;
	struct tow_group **group_out;
	pthread_t thread;
	int cancel_fd;
	int aborted; /* with the engine held: the status to end with; 0: none */
	bool over;   /* under the job's lock: the thread has nothing more to do */
	struct tow_group_options options;
	struct twi_until until;
	char store[TWI_STORE_BYTES], address[TOW_ADDRESS_MAX];
};

static void signal_end(struct open *open)
{
	uint64_t one = 1;

	while (write(open->cancel_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* The operation ends only when the thread has seen the abort: until then it is still at work. */
static void abort_open(struct tow_op *op, int status)
{
	struct open *open = op->owner;

	if (open->aborted == 0) {
		open->aborted = status;
		signal_end(open);
	}
}

static const struct twi_op_ops open_ops = { .kind = TWI_OP_CALL,
					    .noun = "opening of a group",
					    .span = TWI_SPAN_CALL,
					    .abort = abort_open };

static void *open_run(void *arg)
{
	struct open *open = arg;
	struct twi_engine *engine = twi_runtime_engine(open->runtime);
	struct twi_job *job = twi_runtime_job(open->runtime);
	struct tow_group *group = NULL;
	int status = twi_group_open(open->runtime, &open->options, &open->until, &group);

	if (status < 0)
		twi_log(engine->diag, 1, "tow_group_open_start: %.200s", tow_error_message());
	twi_group_enter(engine);
	if (status == TOW_ECANCELED)
		status = open->aborted < 0 ? open->aborted : TOW_ECLOSED;
	if (status == TOW_OK)
		*open->group_out = group;
	twi_op_complete(open->op, status, 0);
	twi_engine_leave(engine);
	pthread_mutex_lock(&job->lock);
	open->over = true;
	pthread_mutex_unlock(&job->lock);
	return NULL;
}

static void free_open(struct open *open)
{
	close(open->cancel_fd);
	free(open);
}

/* Joins the threads that have ended, or all. */
static void join_opens(struct twi_job *job, bool all)
{
	struct twi_list *pos, *next, done;

	twi_list_init(&done);
	pthread_mutex_lock(&job->lock);
	twi_list_for_each_safe (pos, next, &job->opens) {
		if (!all && !twi_container_of(pos, struct open, link)->over)
			continue;
		twi_list_remove(pos);
		twi_list_push_back(&done, pos);
	}
	pthread_mutex_unlock(&job->lock);
	while ((pos = twi_list_first(&done)) != NULL) {
		struct open *open = twi_container_of(pos, struct open, link);

		twi_list_remove(pos);
		pthread_join(open->thread, NULL);
		free_open(open);
	}
}

void twi_job_end_opens(struct twi_job *job)
{
	struct twi_list *pos, *next;

	pthread_mutex_lock(&job->lock);
	twi_list_for_each_safe (pos, next, &job->opens)
		signal_end(twi_container_of(pos, struct open, link));
	pthread_mutex_unlock(&job->lock);
	join_opens(job, true);
}

static struct open *make_open(struct tow_runtime *runtime, const struct tow_group_options *options,
			      struct tow_group **group_out)
{
	struct open *open = calloc(1, sizeof(*open));

	if (open == NULL)
		return NULL;
	open->cancel_fd = twi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (open->cancel_fd < 0) {
		free(open);
		return NULL;
	}
	twi_list_init(&open->link);
	open->runtime = runtime;
	open->group_out = group_out;
	open->options = *options;
	if (options->store != NULL) {
		snprintf(open->store, sizeof(open->store), "%s", options->store);
		open->options.store = open->store;
	}
	if (options->address != NULL) {
		snprintf(open->address, sizeof(open->address), "%s", options->address);
		open->options.address = open->address;
	}
	open->until = (struct twi_until){ UINT64_MAX, open->cancel_fd, NULL };
	if (options->timeout_ns < UINT64_MAX - twi_net_now())
		open->until.deadline_ns = twi_net_now() + options->timeout_ns;
	return open;
}

static int start_thread(struct open *open)
{
	int err = twi_thread_start(&open->thread, NULL, 0, open_run, open);

	return err == 0 ? TOW_OK
			: twi_error_errno(TOW_ESYSTEM, err, "a thread to open the group in");
}

static int start_open(struct open *open, const struct tow_op_options *op_options,
		      struct tow_op **op_out)
{
	struct twi_engine *engine = twi_runtime_engine(open->runtime);
	struct twi_job *job = twi_runtime_job(open->runtime);
	int status;

	twi_group_enter(engine);
	open->op = twi_op_acquire(engine, &open_ops, op_options);
	if (open->op == NULL) {
		twi_engine_leave(engine);
		return TOW_EBUSY;
	}
	open->op->owner = open;
	twi_op_watch(open->op);
	*op_out = open->op; /* before the operation can end */
	pthread_mutex_lock(&job->lock);
	status = start_thread(open);
	if (status == TOW_OK)
		twi_list_push_back(&job->opens, &open->link);
	pthread_mutex_unlock(&job->lock);
	if (status < 0) {
		twi_op_unwatch(open->op);
		twi_op_discard(open->op);
		*op_out = NULL;
	}
	twi_engine_leave(engine);
	return status;
}

TOW_PUBLIC int tow_group_open_start(struct tow_runtime *runtime,
				    const struct tow_group_options *options,
				    const struct tow_op_options *op_options,
				    struct tow_group **group_out, struct tow_op **op_out)
{
	TWI_UNCANCELED;
	struct tow_group_options given;
	struct tow_op_options known;
	struct tow_op *unused;
	struct open *open;
	int status = twi_runtime_check(runtime, "tow_group_open_start");

	if (status == TOW_OK)
		status = twi_group_options(options, &given);
	if (status == TOW_OK)
		status = twi_op_options_in(twi_runtime_engine(runtime), "tow_group_open_start",
					   &op_options, &known);
	if (status < 0)
		return status;
	op_out = twi_op_place(op_out, &unused, op_options);
	if (group_out == NULL || op_out == NULL)
		return twi_error(TOW_EINVAL, "tow_group_open_start: an argument is NULL");
	*group_out = NULL;
	*op_out = NULL;
	if ((given.store != NULL && strlen(given.store) >= TWI_STORE_BYTES) ||
	    (given.address != NULL && strlen(given.address) >= TOW_ADDRESS_MAX))
		return twi_error(TOW_EINVAL, "tow_group_open_start: store or address is too long");
	join_opens(twi_runtime_job(runtime), false);
	open = make_open(runtime, &given, group_out);
	if (open == NULL)
		return twi_error(TOW_ENOMEM, "no memory or descriptor to open a group");
	status = start_open(open, op_options, op_out);
	if (status < 0)
		free_open(open);
	return status;
}
