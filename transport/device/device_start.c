/*
 * device_start.c - starts a copy: checks its arguments and decides how its host memory is used.
 *
 *	pool, mapped                   leased, in place
 *	pool, not mapped; outside      leased, staged
 *	registered, mapped             its region is held, in place
 *	else                           registered late and held, or staged
 */
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/pool_regions.h"
#include "transport/device/device_copy.h"
#include "transport/engine/engine.h"
#include "transport/op/op_options.h"

/* Returns whether the region, which is held, is mapped for the device. */
static bool region_mapped(struct tow_device *device, const struct twi_region *region)
{
	return region != NULL && twi_device_mapped(device, region->base, region->bytes);
}

/*
 * Holds the region of host memory outside the pool, if it is registered with this device or can be
 * registered late. Only memory larger than one staging chunk is registered late, because a copy of
 * less is faster than a mapping.
 */
static bool hold_region(struct tow_op *op)
{
	struct twi_engine *engine = op->engine;
	const struct twi_region *region =
		twi_pool_region_acquire(engine->pool, op->data, op->bytes);

	if (region == NULL && op->bytes > TWI_STAGING_CHUNK && !engine->knobs.require_zero_copy &&
	    twi_pool_region_late(engine->pool, op->data, op->bytes, op->site, &region) < 0)
		region = NULL;
	if (region != NULL && !region_mapped(op->copy.device, region)) {
		twi_pool_region_release(engine->pool, region);
		region = NULL;
	}
	if (region == NULL)
		return false;
	op->claim.region = region;
	op->claim.kind = TWI_CLAIM_REGISTERED;
	return true;
}

static int refuse_staging(const struct tow_op *op)
{
	const struct tow_device *device = op->copy.device;
	bool pool = op->claim.kind == TWI_CLAIM_POOL;

	twi_count(op->engine->diag, TWI_C_zero_copy_refusals, 1);
	return twi_error(TOW_EZEROCOPY,
			 "%s: require_zero_copy: host memory at %p is not mapped for it%s%s; "
			 "allocate it with tow_alloc or register it with tow_mem_register",
			 device->label, op->data, pool ? ": " : "",
			 pool ? device->unmapped_because : "");
}

/* Decides whether host memory is used in place. User memory needs a hold, or it may be unmapped. */
static bool in_place(struct tow_op *op)
{
	struct tow_device *device = op->copy.device;

	if (device->facts.takes_any)
		return true;
	if (op->claim.kind == TWI_CLAIM_POOL)
		return twi_device_mapped(device, op->data, op->bytes);
	return op->claim.kind == TWI_CLAIM_UNREGISTERED && hold_region(op);
}

/* Leases the host memory, and decides whether it is used in place or staged. */
static int hold_host(struct tow_op *op)
{
	struct tow_device *device = op->copy.device;
	struct twi_engine *engine = op->engine;
	const struct twi_staging *staging = &engine->staging;
	int status = op->bytes > 0 ? twi_claim_memory(op) : TOW_OK;

	if (op->bytes == 0 || status < 0)
		return status;
	op->copy.staged = !in_place(op);
	if (!op->copy.staged)
		return TOW_OK;
	if (engine->knobs.require_zero_copy)
		return refuse_staging(op);
	if (staging->memory == NULL)
		return twi_error(TOW_EEXHAUSTED,
				 "%s: host memory at %p is not mapped for it and needs staging, "
				 "and staging_bytes is 0",
				 device->label, op->data);
	if (!twi_device_takes(device, staging->memory, staging->bytes))
		return twi_error(TOW_ENOTSUP,
				 "%s: host memory at %p is not mapped for it, and neither is the "
				 "staging part of the pool: %s",
				 device->label, op->data, device->unmapped_because);
	return TOW_OK;
}

static int check_copy(const struct tow_device *device, enum tow_direction direction,
		      const struct tow_device_memory *memory, uint64_t offset, const void *host,
		      uint64_t bytes, const struct tow_op_options **options_io,
		      struct tow_op_options *known)
{
	const char *call = "tow_device_copy_start";

	if (device == NULL || memory == NULL || (host == NULL && bytes > 0))
		return twi_error(TOW_EINVAL, "%s: an argument is NULL", call);
	if (direction != TOW_TO_DEVICE && direction != TOW_FROM_DEVICE)
		return twi_error(TOW_EINVAL, "%s: direction is %d", call, (int)direction);
	if (memory->device != device)
		return twi_error(TOW_EINVAL, "%s: device_memory is another device's", call);
	if (offset > memory->bytes || bytes > memory->bytes - offset)
		return twi_error(
			TOW_EINVAL,
			"%s: device_offset %llu and bytes %llu reach past the memory's %llu", call,
			(unsigned long long)offset, (unsigned long long)bytes,
			(unsigned long long)memory->bytes);
	if (twi_engine_forked(device->engine))
		return twi_error(TOW_EFORKED, "%s: this process is a forked child", call);
	return twi_op_options_in(device->engine, call, options_io, known);
}

static const struct twi_op_ops copy_ops = { .kind = TWI_OP_COPY,
					    .noun = "device copy",
					    .span = TWI_SPAN_DEVICE,
					    .wait_kind = TWI_WAITED_COPY,
					    .abort = twi_copy_abort };

TOW_PUBLIC int tow_device_copy_start(struct tow_device *device, enum tow_direction direction,
				     struct tow_device_memory *device_memory,
				     uint64_t device_offset, void *host_memory, uint64_t bytes,
				     const struct tow_op_options *options, struct tow_op **op_out)
{
	struct tow_op_options known;
	int status = check_copy(device, direction, device_memory, device_offset, host_memory, bytes,
				&options, &known);
	struct twi_engine *engine;
	struct tow_op *op, *unused;

	if (op_out != NULL)
		*op_out = NULL;
	if (status < 0)
		return status;
	op_out = twi_op_place(op_out, &unused, options);
	if (op_out == NULL)
		return twi_error(TOW_EINVAL, "tow_device_copy_start: op_out is NULL");
	engine = device->engine;
	twi_engine_enter(engine);
	op = twi_op_acquire(engine, &copy_ops, options);
	if (op == NULL) {
		twi_engine_leave(engine);
		return TOW_EBUSY;
	}
	op->copy = (struct twi_copy){ .device = device,
				      .memory = device_memory,
				      .offset = device_offset,
				      .direction = (uint8_t)direction };
	op->data = host_memory;
	op->bytes = bytes;
	op->site = TWI_SITE_HERE;
	if (device->backend == NULL)
		status = twi_error(TOW_EDEVICE, "%s: the device is lost", device->label);
	else
		status = hold_host(op);
	if (status == TOW_OK) {
		*op_out = op;
		atomic_fetch_add_explicit(&device_memory->uses, 1, memory_order_relaxed);
		twi_op_watch(op);
		twi_copy_queue(op);
		engine->armed_since_enter = true; /* it must be polled, so a thread must poll */
	} else {
		twi_claim_drop(engine, &op->claim);
		twi_op_discard(op);
	}
	twi_engine_leave(engine);
	return status;
}
