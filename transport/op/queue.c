/*
 * queue.c - the calls of completion queues, and the part of operations in them. See queue.h.
 */
#include "transport/op/queue.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/base/sized.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/runtime.h"
#include "transport/op/op.h"
#include "transport/op/op_table.h"
#include "transport/op/polled.h"

#define CHUNK 32u /* the most results that one move of the head takes */

/* Reads the head first, as it never passes the tail. */
static bool queue_is_empty(struct tow_queue *queue)
{
	uint64_t head = atomic_load_explicit(&queue->head, memory_order_seq_cst);

	return head == atomic_load_explicit(&queue->tail, memory_order_seq_cst);
}

static void drain_fd(int fd)
{
	TWI_UNCANCELED;
	uint64_t drained;

	(void)!read(fd, &drained, sizeof(drained));
}

static void raise_fd(int fd)
{
	TWI_UNCANCELED;
	const uint64_t one = 1;

	(void)!write(fd, &one, sizeof(one));
}

/*
 * Makes the descriptor readable if and only if there is a result. `clears`: the caller has emptied
 * the ring, or may have. Any threads may call this at the same time.
 *
 * A thread that reads sets `told` to 0 after its read and looks again; a thread that writes looks
 * again after its write. So the last of them has seen the final state. If a read takes back another
 * thread's write, the reader makes up for that, since it looks after the read. seq_cst: tail and
 * `told` are each written by one side and read by the other, as in Dekker's algorithm.
 */
static void update_fd(struct tow_queue *queue, bool clears)
{
	for (;;) {
		if (queue_is_empty(queue)) {
			if (!clears)
				return;
			drain_fd(queue->fd);
			atomic_store_explicit(&queue->told, 0, memory_order_seq_cst);
			clears = false;
		} else {
			if (atomic_load_explicit(&queue->told, memory_order_seq_cst) != 0 ||
			    atomic_exchange_explicit(&queue->told, 1, memory_order_seq_cst) != 0)
				return;
			raise_fd(queue->fd);
			clears = true;
		}
	}
}

/* --- the part of operations --- */

int twi_queue_check(const struct tow_queue *queue, const struct twi_engine *engine,
		    tow_op_callback done, const char *call)
{
	int status = twi_handle_check(queue, TWI_HANDLE_QUEUE, call);

	if (status < 0)
		return status;
	if (queue->engine != engine)
		return twi_error(TOW_EINVAL,
				 "%s: options->queue belongs to another "
				 "runtime",
				 call);
	if (done != NULL)
		return twi_error(TOW_EINVAL,
				 "%s: options->done and options->queue are both set: set only "
				 "one of them",
				 call);
	return TOW_OK;
}

bool twi_queue_join(struct tow_queue *queue, struct tow_op *op)
{
	uint64_t head;

	twi_assert_held(op->engine);
	if (twi_unlikely(!twi_handle_is(queue, TWI_HANDLE_QUEUE))) {
		twi_op_forget(op);
		return true;
	}
	/* acquire: the slots of results that were taken have been read */
	head = atomic_load_explicit(&queue->head, memory_order_acquire);
	if (queue->started - head >= queue->room) {
		twi_error(TOW_EBUSY,
			  "the queue is full: all %u places belong to operations in flight, or "
			  "to results that were not taken",
			  queue->room);
		return false;
	}
	queue->started++;
	op->queue = queue;
	twi_told_start(op->engine, op->start_ns);
	atomic_store_explicit(&op->wait.state, TWI_OP_USED | TWI_OP_QUEUED, memory_order_relaxed);
	return true;
}

void twi_queue_leave(struct tow_op *op)
{
	twi_assert_held(op->engine);
	op->queue->started--;
	op->queue = NULL;
}

void twi_queue_put(struct tow_op *op)
{
	struct tow_queue *queue = op->queue;
	uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);

	twi_assert_held(op->engine);
	twi_assert(tail - atomic_load_explicit(&queue->head, memory_order_relaxed) < queue->room);
	atomic_store_explicit(&queue->slots[tail % queue->room], op, memory_order_relaxed);
	atomic_store_explicit(&queue->tail, tail + 1, memory_order_seq_cst);
	update_fd(queue, false);
}

/* --- opening and closing --- */

static int open_queue(struct twi_engine *engine, uint32_t room, struct tow_queue **queue_out)
{
	struct tow_queue *queue;
	int err;

	/* Each slot is for an operation, and the table has no more of them. */
	room = twi_min(room, engine->ops->count);
	queue = twi_handle_alloc(TWI_HANDLE_QUEUE, sizeof(*queue) + room * sizeof(queue->slots[0]));
	if (queue == NULL)
		return twi_error(TOW_ENOMEM, "tow_queue_open: no memory for %u results", room);
	queue->engine = engine;
	queue->room = room;
	queue->fd = twi_fd_high(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (queue->fd < 0) {
		err = errno;
		twi_handle_free(&queue->handle, false);
		return twi_error_errno(TOW_ESYSTEM, err, "tow_queue_open: eventfd");
	}
	twi_list_push_back(&engine->queues, &queue->link);
	*queue_out = queue;
	return TOW_OK;
}

TOW_PUBLIC int tow_queue_open(struct tow_runtime *runtime, uint32_t room,
			      struct tow_queue **queue_out)
{
	TWI_UNCANCELED;
	struct twi_engine *engine;
	int status;

	if (queue_out == NULL)
		return twi_error(TOW_EINVAL, "tow_queue_open: queue_out is NULL");
	*queue_out = NULL;
	if (room == 0)
		return twi_error(TOW_EINVAL, "tow_queue_open: room is 0");
	status = twi_runtime_check(runtime, "tow_queue_open");
	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	twi_engine_enter(engine);
	if (engine->failing)
		status = twi_error(TOW_ECLOSED, "tow_queue_open: the runtime is being closed");
	else
		status = open_queue(engine, room, queue_out);
	twi_engine_leave(engine);
	return status;
}

/* Forgets the queue's operations in flight, and frees those that have ended. */
static void drop_ops(struct tow_queue *queue)
{
	struct twi_op_table *ops = queue->engine->ops;

	for (uint32_t i = 0; i < ops->made; i++) {
		struct tow_op *op = &ops->rows[i];
		uint32_t state = atomic_load_explicit(&op->wait.state, memory_order_relaxed);

		if ((state & TWI_OP_QUEUED) != 0 && op->queue == queue)
			twi_op_orphan(op);
	}
}

static void end_queue(struct tow_queue *queue)
{
	close(queue->fd);
	twi_list_remove(&queue->link);
	twi_handle_free(&queue->handle, true);
}

void twi_queues_end(struct twi_engine *engine)
{
	struct twi_list *entry;

	while ((entry = twi_list_first(&engine->queues)) != NULL)
		end_queue(twi_container_of(entry, struct tow_queue, link));
}

static int check_queue(const struct tow_queue *queue, const char *call)
{
	int status = twi_handle_check(queue, TWI_HANDLE_QUEUE, call);

	if (status == TOW_OK && twi_engine_forked(queue->engine))
		return twi_error(TOW_EFORKED, "%s: this process is a forked child", call);
	return status;
}

TOW_PUBLIC int tow_queue_close(struct tow_queue *queue)
{
	TWI_UNCANCELED;
	int status = check_queue(queue, "tow_queue_close");
	struct twi_engine *engine;

	if (status < 0)
		return status;
	engine = queue->engine;
	twi_engine_enter(engine);
	status = twi_handle_check(queue, TWI_HANDLE_QUEUE, "tow_queue_close");
	if (status == TOW_OK) {
		drop_ops(queue);
		end_queue(queue);
	}
	twi_engine_leave(engine);
	return status;
}

TOW_PUBLIC int tow_queue_fd(struct tow_queue *queue, int *fd_out)
{
	int status = check_queue(queue, "tow_queue_fd");

	if (status < 0)
		return status;
	if (fd_out == NULL)
		return twi_error(TOW_EINVAL, "tow_queue_fd: fd_out is NULL");
	*fd_out = queue->fd;
	return TOW_OK;
}

/* --- taking --- */

/* The i-th of the caller's results, each of which is as large as the first. */
static struct tow_result *result_at(struct tow_result *results, size_t i)
{
	return (struct tow_result *)(void *)((char *)results + i * results->size);
}

static int check_results(const struct tow_queue *queue, struct tow_result *results, size_t room,
			 const size_t *count_out)
{
	int status = check_queue(queue, "tow_queue_take");

	if (status < 0)
		return status;
	if (room == 0 || count_out == NULL)
		return twi_error(TOW_EINVAL, "tow_queue_take: %s",
				 room == 0 ? "room is 0" : "count_out is NULL");
	status = twi_sized_check_out(TWI_SIZED_tow_result, "tow_queue_take", results);
	if (status == TOW_OK && results->size < offsetof(struct tow_result, op) + sizeof(void *))
		return twi_error(TOW_EINVAL,
				 "tow_queue_take: results_out->size is %zu, of a struct "
				 "tow_result without the member op",
				 results->size);
	return status;
}

/* How many of `room` results, at most CHUNK, have the size of the first. */
static size_t count_alike(struct tow_result *results, size_t from, size_t room)
{
	size_t n = 0;

	while (n < room && result_at(results, from + n)->size == results->size)
		n++;
	return n;
}

/* Moves the head past at most `room` operations. Returns how many. */
static size_t take_ops(struct tow_queue *queue, struct tow_op *ops[CHUNK], size_t room)
{
	/* acquire, also of the tail: the results that were put before are seen */
	uint64_t head = atomic_load_explicit(&queue->head, memory_order_acquire);
	size_t n;

	do {
		uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);

		n = (size_t)twi_min(tail - head, (uint64_t)room);
		for (size_t i = 0; i < n; i++)
			ops[i] = atomic_load_explicit(&queue->slots[(head + i) % queue->room],
						      memory_order_relaxed);
	} while (n > 0 && !atomic_compare_exchange_weak_explicit(&queue->head, &head, head + n,
								 memory_order_seq_cst,
								 memory_order_acquire));
	return n;
}

static void write_result(struct tow_op *op, struct tow_result *out)
{
	struct twi_engine *engine = op->engine;
	struct tow_result result;

	twi_polled_ended(op);
	if (twi_unlikely(op->status < 0))
		engine->hooks.inquiry->settle(engine); /* the thread that learns of it may exit */

	if (twi_likely(out->size == sizeof(result))) {
		twi_op_take(op, out);
		return;
	}
	twi_op_take(op, &result);
	TWI_SIZED_OUT(tow_result, "tow_queue_take", &result, out);
}

/* Takes the results that are there. TOW_AGAIN: there is none. */
static int take_results(struct tow_queue *queue, struct tow_result *results, size_t room,
			size_t *count_out)
{
	struct tow_op *ops[CHUNK];
	size_t count = 0, alike, n;

	do {
		alike = count_alike(results, count, twi_min(room - count, (size_t)CHUNK));
		n = take_ops(queue, ops, alike);
		for (size_t i = 0; i < n; i++)
			write_result(ops[i], result_at(results, count + i));
		count += n;
	} while (n == CHUNK && count < room);
	if (count > 0) {
		update_fd(queue, true);
		twi_told_hears(queue->engine);
	}
	*count_out = count;
	return count > 0 ? TOW_OK : TOW_AGAIN;
}

/* Drives, as no other thread does: no result would ever come. */
static int drive_once(struct twi_engine *engine)
{
	int status;

	if (!twi_engine_try_enter(engine)) /* fails in a callback, where it is held */
		return TOW_OK;
	status = twi_engine_bind_ring(engine);
	if (status == TOW_OK)
		twi_polled_moved(twi_engine_poll(engine));
	twi_engine_leave(engine);
	return status == TOW_EBUSY ? TOW_OK : status; /* other threads drive then */
}

TOW_PUBLIC int tow_queue_take(struct tow_queue *queue, struct tow_result *results_out, size_t room,
			      size_t *count_out)
{
	int status = check_results(queue, results_out, room, count_out);
	bool backed;

	if (count_out != NULL)
		*count_out = 0;
	if (status < 0)
		return status;
	status = take_results(queue, results_out, room, count_out);
	if (status != TOW_AGAIN)
		return status;
	backed = atomic_load_explicit(&queue->engine->backed, memory_order_relaxed);
	twi_polled_begin(queue->engine);
	status = backed ? TOW_OK : drive_once(queue->engine);
	if (status >= 0)
		status = take_results(queue, results_out, room, count_out);
	if (status == TOW_AGAIN)
		twi_polled_vain(queue->engine, !backed);
	return status;
}
