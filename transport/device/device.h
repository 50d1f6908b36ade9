/*
 * device.h - one kind of accelerator: this table is the specification of a device backend.
 *
 *	tow_device_*        device_object.c (open, close, memory, the registrar)
 *	     |                    |
 *	     v                    v
 *	device_copy.c  --ops-->  backend: none, fake, cuda, pjrt  --->  driver or plugin
 *	(queues, staging)
 *
 * A backend moves bytes between host memory and its own, in chunks that device_copy.c cuts. It
 * keeps no queue of its own beyond what the driver has, completes nothing and counts nothing: it
 * starts a chunk (copy) and says later whether it has ended (query).
 *
 * Threads: copy, query and deadline_ns are called by the thread that holds the engine (engine.h),
 * so never two at once for one device. open, close, map, unmap, alloc, free and describe may
 * come from any thread, at the same time as the former: a backend that keeps tables of its own
 * locks them. No call is made before open has returned or after close was called.
 *
 * Failures are born with twi_error and name the device. TOW_EDEVICE: the driver or plugin failed,
 * or refused for a reason of its own.
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
#define TWI_DEVICE_CHUNKS  8 /* in flight at most, on each stream */

/* What open finds out once. */
struct twi_device_facts {
	char name[96];         /* as the driver calls it */
	uint64_t memory_bytes; /* of the device; 0: not known */
	uint64_t chunk_bytes;  /* the most that one copy should move; UINT64_MAX: it cuts itself */
	/*
	 * copy takes any host memory, mapped or not, and does by itself what must be done to it.
	 * What it copies meanwhile cannot be seen from here.
	 */
	bool takes_any;
	char takes_any_why[160];
};

/* One chunk. */
struct twi_device_copy {
	enum tow_direction direction; /* its stream, too */
	unsigned slot;                /* of the stream, below TWI_DEVICE_CHUNKS; free until now */
	void *memory;                 /* of alloc */
	uint64_t offset;              /* in memory */
	void *host;
	uint64_t bytes; /* not 0 */
};

struct twi_device_ops {
	const char *kind; /* what stands before ':' in a spec */
	const char *help; /* the form of a spec, for messages */

	/*
	 * Says whether there is such a device, without opening one. May block while a library is
	 * loaded. TOW_OK; TOW_ENOTSUP with what is missing; TOW_EINVAL for a spec that is none.
	 * `spec` is what stands after the kind's ':', "" when nothing does.
	 */
	int (*probe)(const char *spec);

	/*
	 * Opens the device. May block for seconds (drivers start). `engine` gives the time, and may
	 * be signalled (twi_device_signal). TOW_OK; as probe; TOW_ENOMEM; TOW_EDEVICE.
	 */
	int (*open)(struct twi_engine *engine, const char *spec, struct twi_device **out);

	/*
	 * Ends the device. Everything mapped was unmapped and everything allocated was freed
	 * before, unless the device is lost. Chunks may be in flight when it did not answer for a
	 * second: when close returns, host memory is not touched any more. May block up to a
	 * second.
	 */
	void (*close)(struct twi_device *device);

	const struct twi_device_facts *(*facts)(const struct twi_device *device);

	/*
	 * Makes host memory usable for DMA, wholly or not at all. May block for as long as pinning
	 * takes. TOW_OK; TOW_EPERM and TOW_ENOMEM where pinning is refused or not affordable;
	 * TOW_ENOTSUP where the device has no such call; TOW_EDEVICE.
	 */
	int (*map)(struct twi_device *device, void *base, uint64_t bytes);

	/* Ends what map accepted, with the same base; cannot fail. Nothing in it is in flight. */
	void (*unmap)(struct twi_device *device, void *base, uint64_t bytes);

	/*
	 * Memory of the device, its content undefined. May block. TOW_OK; TOW_ENOMEM; TOW_ENOTSUP;
	 * TOW_EDEVICE. free takes what alloc gave; nothing is in flight in it.
	 */
	int (*alloc)(struct twi_device *device, uint64_t bytes, void **memory_out);
	void (*free)(struct twi_device *device, void *memory);

	/*
	 * Starts one chunk and never waits for it. Chunks of one direction end in the order in
	 * which they were started. It may take less than asked, from the start: *taken_out says how
	 * much. Until query says otherwise the device owns the host memory. TOW_OK, or a failure
	 * that has taken nothing.
	 */
	int (*copy)(struct twi_device *device, const struct twi_device_copy *copy,
		    uint64_t *taken_out);

	/*
	 * Has the chunk in that slot ended? TOW_AGAIN: not yet. TOW_OK or a failure: it has, the
	 * device has let go of the host memory, and the slot is free again. Never blocks. Whoever
	 * asks asks for the oldest of a stream first.
	 */
	int (*query)(struct twi_device *device, enum tow_direction direction, unsigned slot);

	/*
	 * When to ask again though no signal has come, in engine time; UINT64_MAX: never. Only
	 * asked while something is in flight.
	 */
	uint64_t (*deadline_ns)(struct twi_device *device);

	/* Members of the device's object in /v1/devices that only this kind has. */
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

/* The backend that a spec names and what stands after its ':'. TOW_OK; TOW_EINVAL with the list. */
int twi_device_find(const char *spec, const struct twi_device_ops **ops_out, const char **rest_out);

/*
 * Takes the next "name=value" or "name" off a spec of the form "a=1,b,c=2". False at its end. The
 * texts are cut to the room there is.
 */
struct twi_spec_item {
	char name[32];
	char value[512];
};
bool twi_spec_next(const char **rest, struct twi_spec_item *item);

/* "64MB", "64MiB", "4096" (bytes); "10us", "2ms" (ns, no unit: ns). TOW_OK; TOW_EINVAL. */
int twi_spec_bytes(const struct twi_spec_item *item, uint64_t *out);
int twi_spec_ns(const struct twi_spec_item *item, uint64_t *out);

/*
 * For a thread of a device that does not hold the engine: there is news. Wakes whoever sleeps in a
 * wait, and gives up when `*stop` is set or another has looked meanwhile.
 */
void twi_device_signal(struct twi_engine *engine, const _Atomic bool *stop);

#endif
