/*
 * device_copy.h - an open device, and the copies between it and host memory.
 *
 *	to device    op -> op -> op      first in, first out; cut into chunks
 *	               |    |
 *	             [c][c][c][c][ ][ ][ ][ ]   at most TWI_DEVICE_CHUNKS in flight, ended in order
 *	from device  the same again, independent of the other
 *
 * Direct: the host memory is mapped for the device, and the device copies it in place. Staged: the
 * memory is not mapped, so each chunk goes through a chunk of the engine's staging, which is
 * mapped. That is a counted copy. An operation that finds no free staging chunk stays at the head
 * of its queue and is tried again at each poll.
 *
 * Ownership: the queues, chunks and operations belong to the holder of the engine. `maps` has a
 * short lock of its own, because the pool registers memory from any thread. `lock` is for backend
 * calls that may block. It is taken after the engine or the pool's control lock, never before.
 *
 * An operation ends when its last chunk has ended; until then the device may touch the user's
 * memory and its own, also when the operation ends early (cancel, deadline, close). Then it starts
 * no more chunks, and waits for those in flight, at most TWI_DEVICE_DRAIN_NS. A device that has not
 * answered by then is lost: it is closed, all of its copies end, and later calls fail.
 */
#ifndef TWI_DEVICE_COPY_H
#define TWI_DEVICE_COPY_H

#include <pthread.h>

#include <internal/list.h>

#include "memreg/region/registrar.h"
#include "transport/device/device.h"
#include "transport/op/op.h"

#define TWI_DEVICE_DRAIN_NS 1000000000ull

struct twi_engine;

/* A block of host memory that the device has mapped. */
struct twi_device_map {
	uintptr_t base;
	uint64_t bytes;
	bool own; /* staging, mapped here because the pool was refused */
};

struct tow_device_memory {
	struct twi_list link;
	struct tow_device *device;
	void *backend;
	uint64_t bytes;
	_Atomic uint32_t uses; /* operations in flight */
};

struct twi_device_chunk {
	struct tow_op *op;
	void *staging; /* NULL: the chunk uses the user's memory */
	void *user;    /* where the chunk begins in the user's memory */
	uint64_t bytes;
};

struct twi_device_queue {
	struct twi_list ops; /* by op->link; an operation stays until it ends */
	struct twi_device_chunk chunk[TWI_DEVICE_CHUNKS];
	unsigned head, count; /* chunks in flight */
	bool starved;         /* the first operation waits for a staging chunk */
	uint64_t busy_since_ns, busy_ns;
	uint64_t bytes;
};

struct tow_device {
	struct twi_list link; /* of the engine's part */
	struct twi_engine *engine;
	struct twi_device *backend; /* NULL: lost */
	struct twi_device_facts facts;
	const char *kind;
	char label[128]; /* "cuda NVIDIA ...": the registrar's name */
	struct twi_registrar registrar;
	bool registrar_added;
	pthread_mutex_t lock; /* for backend calls, and for `memories` */
	struct twi_list memories;
	pthread_mutex_t maps_lock;
	struct twi_device_map *maps;
	uint32_t map_count, map_room;
	_Atomic uint64_t allocated_bytes; /* changed under `lock`, read without */
	uint64_t mapped_bytes;
	char unmapped_because[256];
	struct twi_device_queue queue[TWI_DEVICE_STREAMS];
	uint64_t drain_by_ns; /* UINT64_MAX: no ended operation waits for its chunks */
	uint64_t copies, staged_bytes, failed;
};

/* What the engine calls for all devices: poll, deadline and close. */
extern const struct twi_part_ops twi_device_part;

/* Closes all devices that are left. The engine is held, as in all that follows unless noted. */
void twi_devices_close(struct twi_engine *engine, struct twi_list *devices);

/* Writes the document /v1/devices. Takes the engine itself. */
void twi_devices_describe(void *arg, struct twi_emit *emit);

/* Queues a copy whose members are set, and starts as many chunks as possible. */
void twi_copy_queue(struct tow_op *op);

/* Ends a copy early, now or when its chunks have ended (see above). */
void twi_copy_abort(struct tow_op *op, int status);

/* poll: ends and starts chunks of one device. */
unsigned twi_device_poll(struct tow_device *device);
uint64_t twi_device_deadline_ns(struct tow_device *device);

/* Ends every operation with TOW_ECLOSED and waits for chunks, at most TWI_DEVICE_DRAIN_NS. */
void twi_device_drain(struct tow_device *device);

/* Closes the backend of a device that does not answer, and ends everything in flight. */
void twi_device_lose(struct tow_device *device, const char *why);

/* Returns whether [p, p + bytes) is inside one mapping of the device. Any thread may call it. */
bool twi_device_mapped(struct tow_device *device, const void *p, uint64_t bytes);

static inline bool twi_device_takes(struct tow_device *device, const void *p, uint64_t bytes)
{
	return device->facts.takes_any || twi_device_mapped(device, p, bytes);
}

#endif
