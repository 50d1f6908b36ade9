/*
 * device.h - the table of functions that a device backend implements; it is the specification of a
 * backend. A backend is one kind of accelerator.
 *
 *	tow_device_*        device_object.c (open, close, memory, the registrar)
 *	     |                    |
 *	     v                    v
 *	device_copy.c  --ops-->  backend: none, fake, cuda, pjrt  --->  driver or plugin
 *	(queues, staging)
 *
 * A backend moves bytes between host memory and its own, in chunks that device_copy.c cuts. It has
 * no queue except the driver's. It completes no operation and counts nothing: it starts a chunk
 * (copy) and reports later whether the chunk has ended (query).
 *
 * Threads: the thread that holds the engine (engine.h) calls copy, query and deadline_ns, so no two
 * of these calls overlap for one device. Any thread may call open, close, map, unmap, alloc, free
 * and describe, at the same time as the former. A backend with tables of its own locks them. No
 * call comes before open has returned or after close was called.
 *
 * A failure sets its message with twi_error and names the device. TOW_EDEVICE: the driver or plugin
 * failed, or refused for a reason of its own.
 */
#ifndef TWI_DEVICE_H
#define TWI_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <towline/device.h>

#include "diag/base/emit.h"

struct twi_device;
struct twi_engine;

#define TWI_DEVICE_STREAMS 2 /* one for each direction */
#define TWI_DEVICE_CHUNKS  8 /* most chunks in flight on each stream */

/* Properties that open reads once. */
struct twi_device_facts {
	char name[96];         /* the driver's name of the device */
	uint64_t memory_bytes; /* of the device; 0: unknown */
	uint64_t chunk_bytes;  /* most bytes of one copy; UINT64_MAX: the device cuts by itself */
	/*
	 * copy accepts any host memory, mapped or not, and prepares it by itself. Copies inside the
	 * driver cannot be seen from here.
	 */
	bool takes_any;
	char takes_any_why[160];
};

/* A chunk to copy. */
struct twi_device_copy {
	enum tow_direction direction; /* also selects the stream */
	unsigned slot;                /* of the stream, below TWI_DEVICE_CHUNKS; free until now */
	void *memory;                 /* from alloc */
	uint64_t offset;              /* in memory */
	void *host;
	uint64_t bytes; /* not 0 */
};

struct twi_device_ops {
	const char *kind; /* the part of a spec before ':' */
	const char *help; /* the form of a spec, for messages */

	/*
	 * Returns whether there is such a device, without opening it. May block while a library is
	 * loaded. `spec` is the part after the kind's ':', or "". TOW_OK; TOW_ENOTSUP with what is
	 * missing; TOW_EINVAL for a bad spec.
	 */
	int (*probe)(const char *spec);

	/*
	 * Opens the device. May block for seconds while a driver starts. `engine` gives the time,
	 * and may be signalled (twi_device_signal). Returns TOW_OK; a failure as probe; TOW_ENOMEM;
	 * TOW_EDEVICE.
	 */
	int (*open)(struct twi_engine *engine, const char *spec, struct twi_device **out);

	/*
	 * Ends the device. All mapped memory was unmapped and all allocated memory was freed
	 * before, unless the device is lost. Chunks may be in flight if the device did not answer
	 * for a second. When close returns, host memory is not touched any more. May block for up
	 * to a second.
	 */
	void (*close)(struct twi_device *device);

	const struct twi_device_facts *(*facts)(const struct twi_device *device);

	/*
	 * Makes host memory usable for DMA, either all of it or none. May block while it pins.
	 * TOW_OK; TOW_EPERM or TOW_ENOMEM if pinning is refused or too much; TOW_ENOTSUP if the
	 * device has no such call; TOW_EDEVICE.
	 */
	int (*map)(struct twi_device *device, void *base, uint64_t bytes);

	/* Undoes map for the same base; cannot fail. Nothing is in flight there. */
	void (*unmap)(struct twi_device *device, void *base, uint64_t bytes);

	/*
	 * Allocates memory of the device with undefined content. May block. TOW_OK; TOW_ENOMEM;
	 * TOW_ENOTSUP; TOW_EDEVICE. free takes memory of alloc in which nothing is in flight.
	 */
	int (*alloc)(struct twi_device *device, uint64_t bytes, void **memory_out);
	void (*free)(struct twi_device *device, void *memory);

	/*
	 * Starts one chunk and never waits for it. Chunks of one direction end in the order in
	 * which they were started. copy may take only the first *taken_out bytes of those asked
	 * for. The device owns the host memory until query reports the end. Returns TOW_OK, or a
	 * failure that has taken nothing.
	 */
	int (*copy)(struct twi_device *device, const struct twi_device_copy *copy,
		    uint64_t *taken_out);

	/*
	 * Returns whether the chunk in that slot has ended; TOW_AGAIN: not yet. On TOW_OK or a
	 * failure it has ended, the device no longer uses the host memory, and the slot is free.
	 * Never blocks. The caller asks for the oldest chunk of a stream first.
	 */
	int (*query)(struct twi_device *device, enum tow_direction direction, unsigned slot);

	/*
	 * When to query again if no signal comes, in engine time; UINT64_MAX: never. Called only
	 * while something is in flight.
	 */
	uint64_t (*deadline_ns)(struct twi_device *device);

	/* Writes the members of the device's object in /v1/devices that only this kind has. */
	void (*describe)(struct twi_device *device, struct twi_emit *emit);
};

/* Every backend's own structure begins with this. */
struct twi_device {
	const struct twi_device_ops *ops;
	struct twi_engine *engine;
};

extern const struct twi_device_ops twi_device_none;
extern const struct twi_device_ops twi_device_fake;
extern const struct twi_device_ops twi_device_cuda;
extern const struct twi_device_ops twi_device_pjrt;

/*
 * Finds the backend that a spec names, and the part after its ':'. Returns TOW_OK, or TOW_EINVAL
 * with the list of kinds.
 */
int twi_device_find(const char *spec, const struct twi_device_ops **ops_out, const char **rest_out);

/*
 * Takes the next "name=value" or "name" off a spec of the form "a=1,b,c=2". Returns false at the
 * end of the spec. The texts are cut to the size of the members.
 */
struct twi_spec_item {
	char name[32];
	char value[512];
};
bool twi_spec_next(const char **rest, struct twi_spec_item *item);

/* Parse "64MB", "64MiB", "4096" (bytes), or "10us", "2ms" (ns; no unit: ns). TOW_OK; TOW_EINVAL. */
int twi_spec_bytes(const struct twi_spec_item *item, uint64_t *out);
int twi_spec_ns(const struct twi_spec_item *item, uint64_t *out);

/*
 * A device's thread that does not hold the engine reports news, which wakes a thread that sleeps in
 * a wait. Returns early when `*stop` is set, or when another thread has polled meanwhile.
 */
void twi_device_signal(struct twi_engine *engine, const _Atomic bool *stop);

#endif
