/*
 * device_object.c - the public calls on devices: open and close, memory, and information. Also the
 * device as a registrar of the pool, and /v1/devices. Copies start in device_start.c.
 *
 * Each device is a registrar of the pool, and gets every extent and every region that the user
 * registers. A device that refuses the pool maps only the staging part, which is small. It stays
 * usable then, at the price of a counted copy.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/cancel.h"
#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/base/sized.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/device/device_copy.h"
#include "transport/engine/background.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/runtime.h"

bool twi_device_mapped(struct tow_device *device, const void *p, uint64_t bytes)
{
	bool found = false;

	pthread_mutex_lock(&device->maps_lock);
	for (uint32_t i = 0; i < device->map_count && !found; i++) {
		uint64_t offset = (uint64_t)((uintptr_t)p - device->maps[i].base);

		/* below base the difference wraps around and is too large, too */
		found = offset < device->maps[i].bytes && bytes <= device->maps[i].bytes - offset;
	}
	pthread_mutex_unlock(&device->maps_lock);
	return found;
}

static int note_map(struct tow_device *device, void *base, uint64_t bytes, bool own)
{
	int status = TOW_OK;

	pthread_mutex_lock(&device->maps_lock);
	if (device->map_count == device->map_room) {
		uint32_t room = device->map_room ? device->map_room * 2 : 8;
		struct twi_device_map *more = realloc(device->maps, room * sizeof(*more));

		if (more == NULL) {
			status = twi_error(TOW_ENOMEM, "%s: no memory for a table of %u mappings",
					   device->label, room);
		} else {
			device->maps = more;
			device->map_room = room;
		}
	}
	if (status == TOW_OK) {
		device->maps[device->map_count++] =
			(struct twi_device_map){ (uintptr_t)base, bytes, own };
		device->mapped_bytes += bytes;
	}
	pthread_mutex_unlock(&device->maps_lock);
	return status;
}

static bool forget_map(struct tow_device *device, const void *base, bool own)
{
	bool found = false;

	pthread_mutex_lock(&device->maps_lock);
	for (uint32_t i = 0; i < device->map_count && !found; i++) {
		found = device->maps[i].base == (uintptr_t)base && device->maps[i].own == own;
		if (found) {
			device->mapped_bytes -= device->maps[i].bytes;
			device->maps[i] = device->maps[--device->map_count];
		}
	}
	pthread_mutex_unlock(&device->maps_lock);
	return found;
}

static int map_memory(struct tow_device *device, void *base, uint64_t bytes, bool own)
{
	int status;

	pthread_mutex_lock(&device->lock);
	if (device->backend == NULL) {
		status = twi_error(TOW_ENOTSUP, "%s: the device is lost", device->label);
	} else {
		status = device->backend->ops->map(device->backend, base, bytes);
		if (status == TOW_OK) {
			status = note_map(device, base, bytes, own);
			if (status < 0)
				device->backend->ops->unmap(device->backend, base, bytes);
		}
	}
	pthread_mutex_unlock(&device->lock);
	return status;
}

static void unmap_memory(struct tow_device *device, void *base, uint64_t bytes, bool own)
{
	pthread_mutex_lock(&device->lock);
	if (forget_map(device, base, own) && device->backend != NULL)
		device->backend->ops->unmap(device->backend, base, bytes);
	pthread_mutex_unlock(&device->lock);
}

/* The pool calls this with its control lock held. */
static int registrar_add(void *ctx, const struct twi_region *region)
{
	struct tow_device *device = ctx;
	int status = map_memory(device, region->base, region->bytes, false);

	if (status < 0 && region->kind == TWI_REGION_EXTENT)
		snprintf(device->unmapped_because, sizeof(device->unmapped_because), "%s",
			 tow_error_message());
	/* For the pool a device that fails to map has no mapping; the pool goes on without it. */
	return status == TOW_EDEVICE ? TOW_ENOTSUP : status;
}

static void registrar_remove(void *ctx, const struct twi_region *region)
{
	unmap_memory(ctx, region->base, region->bytes, false);
}

static int check_forked(const struct twi_engine *engine, const char *call)
{
	if (twi_engine_forked(engine))
		return twi_error(TOW_EFORKED, "%s: this process is a forked child", call);
	return TOW_OK;
}

static struct tow_device *device_new(struct twi_engine *engine)
{
	struct tow_device *device = calloc(1, sizeof(*device));

	if (device == NULL) {
		twi_error(TOW_ENOMEM, "no memory for a device");
		return NULL;
	}
	device->engine = engine;
	device->drain_by_ns = UINT64_MAX;
	twi_list_init(&device->link);
	twi_list_init(&device->memories);
	for (unsigned i = 0; i < TWI_DEVICE_STREAMS; i++)
		twi_list_init(&device->queue[i].ops);
	pthread_mutex_init(&device->lock, NULL);
	pthread_mutex_init(&device->maps_lock, NULL);
	return device;
}

static void device_delete(struct tow_device *device)
{
	pthread_mutex_destroy(&device->lock);
	pthread_mutex_destroy(&device->maps_lock);
	free(device->maps);
	free(device);
}

/* If the pool was refused, maps the staging part alone, so that copies can go through it. */
static void map_staging(struct tow_device *device)
{
	const struct twi_staging *staging = &device->engine->staging;
	uint64_t start_ns = twi_now_ns();

	if (staging->memory == NULL || twi_device_takes(device, staging->memory, staging->bytes))
		return;
	if (map_memory(device, staging->memory, staging->bytes, true) < 0) {
		twi_log(device->engine->diag, 2, "%s: the staging part is not mapped either: %s",
			device->label, tow_error_message());
		return;
	}
	if (twi_pool_sealed(device->engine->pool))
		twi_late_record(device->engine->diag, TWI_R_late_registrar, staging->bytes,
				twi_now_ns() - start_ns, TWI_SITE_NONE);
}

static int map_pool(struct tow_device *device)
{
	struct twi_pool *pool = device->engine->pool;
	int status;

	device->registrar =
		(struct twi_registrar){ device->label, registrar_add, registrar_remove };
	status = twi_pool_registrar_add(pool, &device->registrar, device);
	if (status < 0)
		return status;
	device->registrar_added = true;
	map_staging(device);
	return TOW_OK;
}

/* Frees everything but the queues, which are empty. The engine need not be held. */
static void take_down(struct tow_device *device)
{
	const struct twi_staging *staging = &device->engine->staging;
	struct twi_list *entry;

	if (device->registrar_added)
		twi_pool_registrar_remove(device->engine->pool, &device->registrar, device);
	if (staging->memory != NULL)
		unmap_memory(device, staging->memory, staging->bytes, true);
	while ((entry = twi_list_first(&device->memories)) != NULL) {
		struct tow_device_memory *memory =
			twi_container_of(entry, struct tow_device_memory, link);

		if (device->backend != NULL)
			device->backend->ops->free(device->backend, memory->backend);
		twi_list_remove(entry);
		free(memory);
	}
	if (device->backend != NULL)
		device->backend->ops->close(device->backend);
	device_delete(device);
}

static void close_device(struct tow_device *device)
{
	twi_device_drain(device);
	twi_list_remove(&device->link);
	take_down(device);
}

void twi_devices_close(struct twi_engine *engine, struct twi_list *devices)
{
	struct twi_list *entry;

	twi_assert_held(engine);
	while ((entry = twi_list_first(devices)) != NULL)
		close_device(twi_container_of(entry, struct tow_device, link));
	twi_engine_run_callbacks(engine);
}

static int open_device(struct tow_runtime *runtime, const char *spec,
		       struct tow_device **device_out)
{
	const struct twi_device_ops *ops;
	struct twi_engine *engine;
	struct tow_device *device;
	const char *rest;
	bool started;
	int status;

	if (spec == NULL || device_out == NULL)
		return twi_error(TOW_EINVAL, "tow_device_open: an argument is NULL");
	*device_out = NULL;
	status = twi_runtime_check(runtime, "tow_device_open");
	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	status = twi_device_find(spec, &ops, &rest);
	if (status < 0)
		return status;
	if (twi_engine_in_callback(engine))
		return twi_error(TOW_EINVAL, "tow_device_open in a completion callback");
	device = device_new(engine);
	if (device == NULL)
		return TOW_ENOMEM;
	device->kind = ops->kind;
	status = ops->open(engine, rest, &device->backend);
	if (status < 0) {
		device_delete(device);
		return status;
	}
	device->facts = *ops->facts(device->backend);
	snprintf(device->label, sizeof(device->label), "%s %s", ops->kind, device->facts.name);
	status = map_pool(device);
	if (status < 0) {
		take_down(device);
		return status;
	}
	twi_engine_enter(engine);
	twi_part_add(engine, TWI_PART_DEVICES, &twi_device_part, &device->link);
	started = twi_background_start(engine); /* there may be no endpoint */
	twi_engine_leave(engine);
	if (started)
		twi_background_settle(engine);
	*device_out = device;
	return TOW_OK;
}

TOW_PUBLIC int tow_device_open(struct tow_runtime *runtime, const char *spec,
			       struct tow_device **device_out)
{
	TWI_UNCANCELED;
	struct twi_error_kept kept;

	twi_error_keep(&kept); /* keeps it: unmappable memory is staged, no failure of the call */
	return twi_error_settle(&kept, open_device(runtime, spec, device_out));
}

TOW_PUBLIC int tow_device_close(struct tow_device *device)
{
	TWI_UNCANCELED;
	struct twi_engine *engine;
	int status;

	if (device == NULL)
		return twi_error(TOW_EINVAL, "tow_device_close: device is NULL");
	engine = device->engine;
	status = check_forked(engine, "tow_device_close");
	if (status < 0)
		return status;
	if (twi_engine_in_callback(engine))
		return twi_error(TOW_EINVAL, "tow_device_close in a completion callback");
	twi_engine_enter(engine);
	close_device(device);
	twi_engine_leave(engine);
	return TOW_OK;
}

TOW_PUBLIC int tow_device_info(struct tow_device *device, struct tow_device_info *info_out)
{
	struct twi_engine *engine;
	struct tow_device_info info;
	int status;

	if (device == NULL)
		return twi_error(TOW_EINVAL, "tow_device_info: device is NULL");
	engine = device->engine;
	status = check_forked(engine, "tow_device_info");
	if (status < 0)
		return status;
	twi_engine_enter(engine);
	pthread_mutex_lock(&device->maps_lock);
	info = (struct tow_device_info){
		.size = sizeof(info),
		.kind = device->kind,
		.name = device->facts.name,
		.memory_bytes = device->facts.memory_bytes,
		.allocated_bytes =
			atomic_load_explicit(&device->allocated_bytes, memory_order_relaxed),
		.mapped_bytes = device->mapped_bytes,
		.copies = device->copies,
		.to_bytes = device->queue[TOW_TO_DEVICE].bytes,
		.from_bytes = device->queue[TOW_FROM_DEVICE].bytes,
		.staged_bytes = device->staged_bytes,
		.in_flight = device->queue[0].count + device->queue[1].count,
		.unmapped_because = device->unmapped_because,
	};
	pthread_mutex_unlock(&device->maps_lock);
	twi_engine_leave(engine);
	return TWI_SIZED_OUT(tow_device_info, "tow_device_info", &info, info_out);
}

TOW_PUBLIC int tow_device_alloc(struct tow_device *device, uint64_t bytes,
				struct tow_device_memory **memory_out)
{
	TWI_UNCANCELED;
	struct tow_device_memory *memory;
	int status;

	if (device == NULL || memory_out == NULL)
		return twi_error(TOW_EINVAL, "tow_device_alloc: device or memory_out is NULL");
	*memory_out = NULL;
	status = check_forked(device->engine, "tow_device_alloc");
	if (status < 0)
		return status;
	if (bytes == 0)
		return twi_error(TOW_EINVAL, "tow_device_alloc: bytes is 0");
	memory = calloc(1, sizeof(*memory));
	if (memory == NULL)
		return twi_error(TOW_ENOMEM, "no memory to list memory of a device");
	memory->device = device;
	memory->bytes = bytes;
	pthread_mutex_lock(&device->lock);
	if (device->backend == NULL)
		status = twi_error(TOW_EDEVICE, "%s: the device is lost", device->label);
	else
		status = device->backend->ops->alloc(device->backend, bytes, &memory->backend);
	if (status == TOW_OK) {
		twi_list_push_back(&device->memories, &memory->link);
		atomic_fetch_add_explicit(&device->allocated_bytes, bytes, memory_order_relaxed);
	}
	pthread_mutex_unlock(&device->lock);
	if (status < 0)
		free(memory);
	else
		*memory_out = memory;
	return status;
}

TOW_PUBLIC int tow_device_free(struct tow_device_memory *memory)
{
	TWI_UNCANCELED;
	struct tow_device *device;
	int status;

	if (memory == NULL)
		return TOW_OK;
	device = memory->device;
	status = check_forked(device->engine, "tow_device_free");
	if (status < 0)
		return status;
	/* acquire: pairs with the releases in device_copy.c; the last copy has ended before */
	if (atomic_load_explicit(&memory->uses, memory_order_acquire) != 0)
		return twi_error(TOW_EBUSY, "%s: a copy with this memory is in flight; wait for it",
				 device->label);
	pthread_mutex_lock(&device->lock);
	if (device->backend != NULL)
		device->backend->ops->free(device->backend, memory->backend);
	twi_list_remove(&memory->link);
	atomic_fetch_sub_explicit(&device->allocated_bytes, memory->bytes, memory_order_relaxed);
	pthread_mutex_unlock(&device->lock);
	free(memory);
	return TOW_OK;
}

static void describe_queue(const struct twi_device_queue *queue, const char *name,
			   struct twi_emit *emit)
{
	twi_emit_object_begin(emit, name);
	twi_emit_u64(emit, "bytes", queue->bytes);
	twi_emit_u64(emit, "busy_ns", queue->busy_ns);
	twi_emit_f64(emit, "bytes_per_second",
		     queue->busy_ns == 0 ? 0 : (double)queue->bytes * 1e9 / (double)queue->busy_ns);
	twi_emit_u64(emit, "in_flight", queue->count);
	twi_emit_bool(emit, "waits_for_staging", queue->starved);
	twi_emit_object_end(emit);
}

static void describe_device(struct tow_device *device, struct twi_emit *emit)
{
	struct tow_device_info info = { .size = sizeof(info) };

	if (tow_device_info(device, &info) < 0)
		return;
	twi_emit_object_begin(emit, NULL);
	twi_emit_str(emit, "kind", info.kind);
	twi_emit_str(emit, "name", info.name);
	twi_emit_bool(emit, "lost", device->backend == NULL);
	twi_emit_u64(emit, "memory_bytes", info.memory_bytes);
	twi_emit_u64(emit, "allocated_bytes", info.allocated_bytes);
	twi_emit_u64(emit, "mapped_bytes", info.mapped_bytes);
	twi_emit_str(emit, "unmapped_because", info.unmapped_because);
	twi_emit_str(emit, "takes_any_memory_because", device->facts.takes_any_why);
	twi_emit_u64(emit, "copies", info.copies);
	twi_emit_u64(emit, "failed", device->failed);
	twi_emit_u64(emit, "staged_bytes", info.staged_bytes);
	twi_emit_u64(emit, "in_flight", info.in_flight);
	describe_queue(&device->queue[TOW_TO_DEVICE], "to_device", emit);
	describe_queue(&device->queue[TOW_FROM_DEVICE], "from_device", emit);
	pthread_mutex_lock(&device->lock);
	if (device->backend != NULL)
		device->backend->ops->describe(device->backend, emit);
	pthread_mutex_unlock(&device->lock);
	twi_emit_object_end(emit);
}

void twi_devices_describe(void *arg, struct twi_emit *emit)
{
	struct twi_engine *engine = arg;
	struct twi_list *devices = twi_part_items(engine->parts, TWI_PART_DEVICES);
	struct twi_list *pos, *next;

	twi_engine_enter(engine);
	twi_emit_array_begin(emit, "devices");
	twi_list_for_each_safe (pos, next, devices) {
		describe_device(twi_container_of(pos, struct tow_device, link), emit);
	}
	twi_emit_array_end(emit);
	twi_engine_leave(engine);
}
