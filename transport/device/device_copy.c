/*
 * device_copy.c - copies between host and device: cut into chunks, staged if necessary, ended in
 * order. See device_copy.h.
 *
 * Data path: it allocates nothing. It takes no lock but the staging's, and only for bytes that are
 * copied anyway. It makes no system call but the driver's.
 */
#include "transport/device/device_copy.h"

#include <time.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/op/failure.h"
#include "transport/op/path.h"

#define STARVED_RETRY_NS 1000000u /* the return of a staging chunk sends no signal */
#define DRAIN_NAP_NS     20000

/* Returns the reason for staging. */
static enum twi_reason staging_reason(const struct tow_op *op)
{
	return op->claim.kind == TWI_CLAIM_OUTSIDE ? TWI_R_pool_exhausted : TWI_R_device_unmapped;
}

static struct tow_op *op_of(struct twi_list *link)
{
	return twi_container_of(link, struct tow_op, link);
}

/* Completes an operation that has no chunk in flight any more. */
static void finish_copy(struct tow_op *op)
{
	struct tow_device *device = op->copy.device;
	struct twi_engine *engine = op->engine;
	int status = op->copy.ending < 0 ? op->copy.ending : op->copy.staged ? TOW_COPIED : TOW_OK;

	twi_assert(op->copy.in_flight == 0);
	twi_claim_drop(engine, &op->claim);
	atomic_fetch_sub_explicit(&op->copy.memory->uses, 1, memory_order_release);
	device->copies++;
	device->failed += status < 0;
	twi_count(engine->diag, TWI_C_device_copies, 1);
	twi_count(engine->diag,
		  op->copy.direction == TOW_TO_DEVICE ? TWI_C_device_to_bytes
						      : TWI_C_device_from_bytes,
		  op->copy.landed);
	twi_op_complete(op, status, op->copy.landed);
}

/* The first operation that still has bytes to start, or NULL. */
static struct tow_op *next_op(struct twi_device_queue *queue)
{
	for (struct twi_list *at = queue->ops.next; at != &queue->ops; at = at->next) {
		struct tow_op *op = op_of(at);

		if (op->copy.ending == 0 && op->moved < op->bytes)
			return op;
	}
	return NULL;
}

/* Starts the next chunk of `op`. TOW_OK; TOW_AGAIN: no staging is free; a failure of the device. */
static int start_chunk(struct tow_device *device, struct twi_device_queue *queue, struct tow_op *op)
{
	struct twi_engine *engine = device->engine;
	unsigned slot = (queue->head + queue->count) % TWI_DEVICE_CHUNKS;
	struct twi_device_chunk *chunk = &queue->chunk[slot];
	struct twi_device_copy copy = {
		.direction = (enum tow_direction)op->copy.direction,
		.slot = slot,
		.memory = op->copy.memory->backend,
		.offset = op->copy.offset + op->moved,
		.host = (uint8_t *)op->data + op->moved,
		.bytes = twi_min(op->bytes - op->moved, device->facts.chunk_bytes),
	};
	int status;

	*chunk = (struct twi_device_chunk){ op, NULL, copy.host, 0 };
	if (op->copy.staged) {
		chunk->staging = twi_staging_acquire(&engine->staging);
		if (chunk->staging == NULL)
			return TOW_AGAIN;
		copy.host = chunk->staging;
		copy.bytes = twi_min(copy.bytes, (uint64_t)engine->staging.chunk_bytes);
		if (copy.direction == TOW_TO_DEVICE)
			twi_path_copy_fallback(engine, staging_reason(op), chunk->staging,
					       chunk->user, copy.bytes, op->site);
	}
	status = device->backend->ops->copy(device->backend, &copy, &chunk->bytes);
	if (status < 0) {
		if (chunk->staging != NULL)
			twi_staging_release(&engine->staging, chunk->staging);
		return status;
	}
	op->moved += chunk->bytes;
	op->copy.in_flight++;
	if (queue->count++ == 0)
		queue->busy_since_ns = twi_engine_now(engine);
	return TOW_OK;
}

static unsigned pump_queue(struct tow_device *device, struct twi_device_queue *queue)
{
	unsigned events = 0;

	queue->starved = false;
	while (queue->count < TWI_DEVICE_CHUNKS && device->backend != NULL) {
		struct tow_op *op = next_op(queue);
		int status;

		if (op == NULL)
			break;
		status = start_chunk(device, queue, op);
		if (status == TOW_AGAIN) {
			queue->starved = true;
			break;
		}
		events++;
		if (status < 0) {
			twi_failure_note(op, status);
			twi_copy_abort(op, status);
		}
	}
	return events;
}

/* Starts no more chunks. Those in flight have a bounded time to end. */
static void end_early(struct tow_op *op, int status)
{
	struct tow_device *device = op->copy.device;

	op->copy.ending = status;
	if (op->copy.in_flight > 0 && device->drain_by_ns == UINT64_MAX)
		device->drain_by_ns = twi_engine_now(op->engine) + TWI_DEVICE_DRAIN_NS;
}

/* Hands the chunk's bytes to the user. A copy that ends early writes no more to his memory. */
static void land_chunk(struct tow_device *device, struct twi_device_queue *queue,
		       struct twi_device_chunk *chunk, int status)
{
	struct twi_engine *engine = device->engine;
	struct tow_op *op = chunk->op;
	bool from = op->copy.direction == TOW_FROM_DEVICE, given = status == TOW_OK;

	if (chunk->staging != NULL) {
		given = given && (!from || op->copy.ending == 0);
		if (given)
			device->staged_bytes += chunk->bytes;
		if (given && from)
			twi_path_copy_fallback(engine, staging_reason(op), chunk->user,
					       chunk->staging, chunk->bytes, op->site);
		twi_staging_release(&engine->staging, chunk->staging);
	}
	if (status == TOW_OK)
		queue->bytes += chunk->bytes;
	op->copy.in_flight--;
	if (given)
		op->copy.landed += chunk->bytes;
	if (status < 0 && op->copy.ending == 0) {
		twi_failure_note(op, status);
		end_early(op, status);
	}
	if (op->copy.in_flight == 0 && (op->copy.ending < 0 || op->copy.landed == op->bytes))
		finish_copy(op);
}

/* Ends the oldest chunk of a queue. */
static void end_chunk(struct tow_device *device, struct twi_device_queue *queue, int status)
{
	struct twi_device_chunk chunk = queue->chunk[queue->head];

	queue->head = (queue->head + 1) % TWI_DEVICE_CHUNKS;
	if (--queue->count == 0)
		queue->busy_ns += twi_engine_now(device->engine) - queue->busy_since_ns;
	land_chunk(device, queue, &chunk, status);
}

static unsigned reap_chunks(struct tow_device *device, unsigned direction)
{
	struct twi_device_queue *queue = &device->queue[direction];
	unsigned events = 0;

	while (queue->count > 0 && device->backend != NULL) {
		int status = device->backend->ops->query(
			device->backend, (enum tow_direction)direction, queue->head);

		if (status == TOW_AGAIN)
			break;
		if (status < 0)
			twi_log(device->engine->diag, 1, "%s: a copy has failed: %s", device->label,
				tow_error_message());
		end_chunk(device, queue, status);
		events++;
	}
	return events;
}

unsigned twi_device_poll(struct tow_device *device)
{
	unsigned events = 0;

	twi_assert_held(device->engine);
	for (unsigned i = 0; i < TWI_DEVICE_STREAMS; i++) {
		struct twi_device_queue *queue = &device->queue[i];

		if (queue->count > 0)
			events += reap_chunks(device, i);
		if (!twi_list_empty(&queue->ops))
			events += pump_queue(device, queue);
	}
	if (twi_unlikely(device->drain_by_ns != UINT64_MAX)) {
		if (device->queue[0].count + device->queue[1].count == 0)
			device->drain_by_ns = UINT64_MAX;
		else if (twi_engine_now(device->engine) >= device->drain_by_ns)
			twi_device_lose(device, "the device has not ended a copy within a "
						"second");
	}
	return events;
}

static unsigned poll_all(struct twi_engine *engine, struct twi_list *devices)
{
	struct twi_list *pos, *next;
	unsigned events = 0;

	twi_assert_held(engine);
	if (atomic_load_explicit(&engine->device_signal, memory_order_relaxed) != 0)
		atomic_store_explicit(&engine->device_signal, 0, memory_order_seq_cst);
	twi_list_for_each_safe (pos, next, devices) {
		events += twi_device_poll(twi_container_of(pos, struct tow_device, link));
	}
	return events;
}

uint64_t twi_device_deadline_ns(struct tow_device *device)
{
	uint64_t at = device->drain_by_ns;

	twi_assert_held(device->engine);
	if (device->backend == NULL)
		return UINT64_MAX;
	if (device->queue[0].count + device->queue[1].count > 0) {
		uint64_t ends = device->backend->ops->deadline_ns(device->backend);

		at = twi_min(at, ends);
	}
	/* A virtual clock need not advance for this: the holders of staging chunks advance it. */
	if ((device->queue[0].starved || device->queue[1].starved) &&
	    !device->engine->virtual_clock) {
		uint64_t again = twi_engine_now(device->engine) + STARVED_RETRY_NS;

		at = twi_min(at, again);
	}
	return at;
}

static uint64_t deadline_ns(struct twi_engine *engine, struct twi_list *devices, uint64_t next_ns)
{
	struct twi_list *pos, *next;

	twi_assert_held(engine);
	twi_list_for_each_safe (pos, next, devices) {
		uint64_t one =
			twi_device_deadline_ns(twi_container_of(pos, struct tow_device, link));

		next_ns = twi_min(next_ns, one);
	}
	return next_ns;
}

const struct twi_part_ops twi_device_part = { .poll = poll_all,
					      .deadline_ns = deadline_ns,
					      .close = twi_devices_close };

void twi_copy_queue(struct tow_op *op)
{
	struct tow_device *device = op->copy.device;
	struct twi_device_queue *queue = &device->queue[op->copy.direction];

	twi_assert_held(op->engine);
	twi_list_push_back(&queue->ops, &op->link);
	if (op->bytes == 0)
		finish_copy(op);
	else
		pump_queue(device, queue);
}

void twi_copy_abort(struct tow_op *op, int status)
{
	twi_assert_held(op->engine);
	/* Off the list of deadlines in any case, so that no deadline ends it a second time. */
	twi_op_unwatch(op);
	if (op->copy.ending < 0)
		return;
	end_early(op, status);
	if (op->copy.in_flight == 0)
		finish_copy(op);
}

static void abort_all(struct tow_device *device, int status)
{
	for (unsigned i = 0; i < TWI_DEVICE_STREAMS; i++) {
		struct twi_list *pos, *next;

		/* An abort ends only its own operation, so `next` stays valid. */
		twi_list_for_each_safe (pos, next, &device->queue[i].ops) {
			twi_copy_abort(op_of(pos), status);
		}
	}
}

void twi_device_lose(struct tow_device *device, const char *why)
{
	struct twi_device *backend = device->backend;

	twi_assert_held(device->engine);
	if (backend == NULL)
		return;
	twi_log(device->engine->diag, 1, "%s: the device is lost: %s", device->label, why);
	pthread_mutex_lock(&device->lock);
	device->backend = NULL;
	/* After close the device touches no memory of ours, so everything in flight may end. */
	backend->ops->close(backend);
	pthread_mutex_unlock(&device->lock);
	for (unsigned i = 0; i < TWI_DEVICE_STREAMS; i++) {
		while (device->queue[i].count > 0)
			end_chunk(device, &device->queue[i], TOW_EDEVICE);
	}
	abort_all(device, TOW_EDEVICE);
	device->drain_by_ns = UINT64_MAX;
}

/* Waits a little: in real time, or to the device's next event. Returns false if there is none. */
static bool device_nap(struct tow_device *device)
{
	const struct timespec a_little = { .tv_nsec = DRAIN_NAP_NS };
	struct twi_engine *engine = device->engine;
	uint64_t next;

	if (!engine->virtual_clock) {
		/* This thread polls now, so no thread of the device must wait for the engine. */
		atomic_store_explicit(&engine->device_signal, 0, memory_order_seq_cst);
		nanosleep(&a_little, NULL);
		return true;
	}
	next = device->backend->ops->deadline_ns(device->backend);
	if (next == UINT64_MAX)
		return false;
	engine->virtual_ns = twi_max(next, engine->virtual_ns + 1);
	return true;
}

void twi_device_drain(struct tow_device *device)
{
	uint64_t until = twi_engine_clock(device->engine) + TWI_DEVICE_DRAIN_NS;

	twi_assert_held(device->engine);
	abort_all(device, TOW_ECLOSED);
	while (device->backend != NULL && device->queue[0].count + device->queue[1].count > 0) {
		unsigned events =
			reap_chunks(device, TOW_TO_DEVICE) + reap_chunks(device, TOW_FROM_DEVICE);

		if (events == 0 &&
		    (twi_engine_clock(device->engine) >= until || !device_nap(device)))
			twi_device_lose(device, "the device was closed and has not ended its "
						"copies");
	}
}
