/*
 * device_rig.h - a runtime with a device on it, simulated or real, and what tests ask of both.
 */
#ifndef TWT_DEVICE_RIG_H
#define TWT_DEVICE_RIG_H

#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "diag/record/diag.h"
#include "transport/device/device_copy.h"
#include "transport/device/fake.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

#define RIG_SECOND 1000000000ull

#define rig_ok(call)                                                                               \
	do {                                                                                       \
		int rig_status = (call);                                                           \
		if (rig_status != TOW_OK)                                                          \
			fail_msg("%s: %s: %s", #call, tow_status_name(rig_status),                 \
				 tow_error_message());                                             \
	} while (0)

struct rig {
	struct tow_runtime *runtime;
	struct twi_engine *engine;
	struct tow_device *device;
};

/* 16 MiB of pool, 1 MiB of it staging; the options may be changed before. */
static inline struct tow_options rig_options(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 16 << 20;
	options.staging_bytes = 1 << 20;
	options.stats = 0;
	options.late_cache_bytes = 0; /* what is not registered is staged */
	options.log_level = 0;
	options.max_ops = 256;
	return options;
}

static inline void rig_runtime(struct rig *rig, const struct tow_options *options, bool sim)
{
	*rig = (struct rig){ .runtime = NULL };
	if (sim)
		rig_ok(twi_runtime_open_sim(options, &rig->runtime));
	else
		rig_ok(tow_runtime_open(options, &rig->runtime));
	rig->engine = twi_runtime_engine(rig->runtime);
}

static inline void rig_open(struct rig *rig, const char *spec, bool sim)
{
	struct tow_options options = rig_options();

	rig_runtime(rig, &options, sim);
	rig_ok(tow_device_open(rig->runtime, spec, &rig->device));
}

static inline void rig_close(struct rig *rig)
{
	rig_ok(tow_runtime_close(rig->runtime));
}

static inline void *rig_alloc(struct rig *rig, size_t bytes)
{
	void *memory;

	rig_ok(tow_alloc(rig->runtime, bytes, 0, &memory));
	return memory;
}

static inline struct tow_device_memory *rig_memory(struct rig *rig, uint64_t bytes)
{
	struct tow_device_memory *memory;

	rig_ok(tow_device_alloc(rig->device, bytes, &memory));
	return memory;
}

static inline struct tow_op *rig_start(struct rig *rig, enum tow_direction direction,
				       struct tow_device_memory *memory, uint64_t offset,
				       void *host, uint64_t bytes)
{
	struct tow_op *op;

	rig_ok(tow_device_copy_start(rig->device, direction, memory, offset, host, bytes, NULL,
				     &op));
	return op;
}

/* Waits for the end and gives the operation back; its status. */
static inline int rig_end(struct tow_op *op, struct tow_result *out)
{
	int status = tow_op_wait(op, 30 * RIG_SECOND);

	if (out != NULL) {
		out->size = sizeof(*out);
		rig_ok(tow_op_result(op, out));
	}
	assert_int_not_equal(status, TOW_ETIMEDOUT);
	rig_ok(tow_op_release(op));
	return status;
}

static inline int rig_copy(struct rig *rig, enum tow_direction direction,
			   struct tow_device_memory *memory, uint64_t offset, void *host,
			   uint64_t bytes)
{
	return rig_end(rig_start(rig, direction, memory, offset, host, bytes), NULL);
}

static inline uint64_t rig_count(struct rig *rig, enum twi_counter counter)
{
	return twi_counter_sum(rig->engine->diag, counter);
}

static inline void rig_fill(void *data, size_t bytes, uint64_t seed)
{
	uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)((seed + i) * 0x9e3779b97f4a7c15ull >> 56);
}

static inline void rig_check(const void *data, size_t bytes, uint64_t seed)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++) {
		if (at[i] != (uint8_t)((seed + i) * 0x9e3779b97f4a7c15ull >> 56))
			fail_msg("byte %zu of %zu is wrong (seed %llu)", i, bytes,
				 (unsigned long long)seed);
	}
}

#endif
