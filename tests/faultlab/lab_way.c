/*
 * lab_way.c - the ways in which a rank comes to know that its operations have ended, as programs
 * differ in them: it waits in the library, tests and yields, sleeps on the descriptor of tow_fd, or
 * on something of its own until a callback or a queue has told it.
 */
#include "lab.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ENDED_MAX   256 /* told, and not asked for yet */
#define QUEUE_ROOM  1024u
#define NAP_MS      100 /* sleeps are at most so long */
#define RESULTS_MAX 16

/* The end of an operation that a callback or the queue has told of. */
struct ended {
	struct tow_op *op;
	int status;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct ended rows[ENDED_MAX];
	int count, fd;
	struct tow_queue *queue;
} told = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

/* The row of its end is taken away. The lock is held. */
static bool take_ended(const struct tow_op *op, int *status_out)
{
	for (int i = 0; i < told.count; i++) {
		if (told.rows[i].op != op)
			continue;
		*status_out = told.rows[i].status;
		told.rows[i] = told.rows[--told.count];
		return true;
	}
	return false;
}

/* The lock is held. Shapes have fewer operations in flight than there is room for. */
static void put_ended(struct tow_op *op, int status)
{
	if (told.count < ENDED_MAX)
		told.rows[told.count++] = (struct ended){ op, status };
}

static void on_ended(struct tow_op *op, const struct tow_result *result)
{
	pthread_mutex_lock(&told.lock);
	put_ended(op, result->status);
	pthread_cond_broadcast(&told.more);
	pthread_mutex_unlock(&told.lock);
}

static uint64_t deadline_of(uint64_t within_ns)
{
	return within_ns == TOW_FOREVER ? UINT64_MAX : lab_now() + within_ns;
}

static int await_tested(struct tow_op *op, uint64_t deadline_ns)
{
	int status;

	while ((status = tow_op_test(op)) == TOW_AGAIN) {
		if (lab_now() >= deadline_ns)
			return TOW_ETIMEDOUT;
		sched_yield();
	}
	return status;
}

static int await_polled(struct lab *lab, struct tow_op *op, uint64_t deadline_ns)
{
	struct pollfd fd = { told.fd, POLLIN, 0 };
	int status;

	while ((status = tow_op_test(op)) == TOW_AGAIN) {
		if (lab_now() >= deadline_ns)
			return TOW_ETIMEDOUT;
		if (poll(&fd, 1, NAP_MS) > 0)
			tow_progress(lab->runtime);
	}
	return status;
}

static int await_called(const struct tow_op *op, uint64_t deadline_ns)
{
	int status = TOW_ETIMEDOUT;

	pthread_mutex_lock(&told.lock);
	while (!take_ended(op, &status) && lab_now() < deadline_ns) {
		struct timespec until;
		uint64_t ns = lab_now() + NAP_MS * (uint64_t)LAB_MS;

		until.tv_sec = (time_t)(ns / 1000000000u);
		until.tv_nsec = (long)(ns % 1000000000u);
		pthread_cond_timedwait(&told.more, &told.lock, &until);
	}
	pthread_mutex_unlock(&told.lock);
	return status;
}

/*
 * What the queue holds. Each result is one of those that the rank waits for, it does not matter
 * which: shapes wait for all that they have started. An operation is released as it is taken.
 */
static int take_results(void)
{
	struct tow_result results[RESULTS_MAX];
	size_t count = 0;
	int status;

	for (int i = 0; i < RESULTS_MAX; i++)
		results[i] = (struct tow_result)TOW_RESULT_INIT;
	status = tow_queue_take(told.queue, results, RESULTS_MAX, &count);
	for (size_t i = 0; i < count; i++) {
		put_ended(NULL, results[i].status);
		if (results[i].status < 0)
			lab_tell(results[i].status, results[i].message);
		tow_op_release(results[i].op);
	}
	return status;
}

static int await_queued(uint64_t deadline_ns)
{
	struct pollfd fd = { told.fd, POLLIN, 0 };
	int status, took;

	while (!take_ended(NULL, &status)) {
		if (lab_now() >= deadline_ns)
			return TOW_ETIMEDOUT;
		took = take_results();
		if (took < 0)
			return took;
		if (took == TOW_AGAIN)
			poll(&fd, 1, NAP_MS);
	}
	return status;
}

static bool is_way(const struct lab *lab, const char *name)
{
	return strcmp(lab->way, name) == 0;
}

bool lab_way_known(const struct lab *lab)
{
	return is_way(lab, "wait") || is_way(lab, "test") || is_way(lab, "fd") ||
	       is_way(lab, "call") || is_way(lab, "queue");
}

int lab_way_open(struct lab *lab)
{
	pthread_condattr_t attributes;
	int status = TOW_OK;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&told.more, &attributes);
	if (is_way(lab, "fd"))
		return tow_fd(lab->runtime, &told.fd);
	if (is_way(lab, "queue"))
		status = tow_queue_open(lab->runtime, QUEUE_ROOM, &told.queue);
	return status < 0 || !is_way(lab, "queue") ? status : tow_queue_fd(told.queue, &told.fd);
}

struct tow_op_options lab_op_options(const struct lab *lab)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	options.done = is_way(lab, "call") ? on_ended : NULL;
	options.queue = told.queue;
	return options;
}

struct tow_coll_options lab_coll_options(const struct lab *lab)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;

	options.done = is_way(lab, "call") ? on_ended : NULL;
	options.queue = told.queue;
	return options;
}

struct tow_call_options lab_call_options(const struct lab *lab)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;

	options.done = is_way(lab, "call") ? on_ended : NULL;
	options.queue = told.queue;
	return options;
}

int lab_await(struct lab *lab, struct tow_op *op, uint64_t within_ns)
{
	uint64_t deadline_ns = deadline_of(within_ns);

	if (is_way(lab, "test"))
		return await_tested(op, deadline_ns);
	if (is_way(lab, "fd"))
		return await_polled(lab, op, deadline_ns);
	if (is_way(lab, "call"))
		return await_called(op, deadline_ns);
	if (is_way(lab, "queue"))
		return await_queued(deadline_ns);
	return tow_op_wait(op, within_ns);
}

int lab_finish(struct lab *lab, struct tow_op **ops, int count)
{
	int status, first = TOW_OK;

	for (int i = 0; i < count; i++) {
		struct tow_result result = TOW_RESULT_INIT;

		status = lab_await(lab, ops[i], TOW_FOREVER);
		if (status < 0 && first == TOW_OK) {
			first = status;
			/* The release may change what was said of it. */
			if (told.queue == NULL) {
				tow_op_result(ops[i], &result);
				lab_tell(status, result.message);
			}
		}
		if (told.queue == NULL)
			tow_op_release(ops[i]);
	}
	return first;
}

static int tell_failure(int status)
{
	if (status < 0)
		lab_tell(status, NULL);
	return status;
}

int lab_send(struct lab *lab, uint32_t to, const void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op_options options = lab_op_options(lab);
	struct tow_op *op;
	int status;

	if (is_way(lab, "wait"))
		return tell_failure(tow_send(lab->group, to, data, bytes, tag, TOW_FOREVER));
	status = tow_group_send_start(lab->group, to, data, bytes, tag, &options, &op);
	return status < 0 ? status : lab_finish(lab, &op, 1);
}

int lab_recv(struct lab *lab, uint32_t from, void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op_options options = lab_op_options(lab);
	struct tow_op *op;
	int status;

	if (is_way(lab, "wait"))
		return tell_failure(
			tow_recv(lab->group, from, data, bytes, tag, TOW_FOREVER, NULL));
	status = tow_group_recv_start(lab->group, from, data, bytes, tag, &options, &op);
	return status < 0 ? status : lab_finish(lab, &op, 1);
}
