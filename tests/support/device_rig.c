/* device_rig.c - a runtime over a device, and copies that are looked at. */
#include "device_rig.h"

#include "bytes.h"
#include "pair.h"

struct tow_options twt_rig_options(void)
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

void twt_rig_runtime(struct twt_rig *rig, const struct tow_options *options, bool sim)
{
	*rig = (struct twt_rig){ .runtime = NULL };
	if (sim)
		twt_rig_ok(twi_runtime_open_sim(options, &rig->runtime));
	else
		twt_rig_ok(tow_runtime_open(options, &rig->runtime));
	rig->engine = twi_runtime_engine(rig->runtime);
}

void twt_rig_open(struct twt_rig *rig, const char *spec, bool sim)
{
	struct tow_options options = twt_rig_options();

	twt_rig_runtime(rig, &options, sim);
	twt_rig_ok(tow_device_open(rig->runtime, spec, &rig->device));
}

void twt_rig_close(struct twt_rig *rig)
{
	twt_rig_ok(tow_runtime_close(rig->runtime));
}

void *twt_rig_alloc(struct twt_rig *rig, size_t bytes)
{
	void *memory;

	twt_rig_ok(tow_alloc(rig->runtime, bytes, 0, &memory));
	return memory;
}

struct tow_device_memory *twt_rig_memory(struct twt_rig *rig, uint64_t bytes)
{
	struct tow_device_memory *memory;

	twt_rig_ok(tow_device_alloc(rig->device, bytes, &memory));
	return memory;
}

struct tow_op *twt_rig_start(struct twt_rig *rig, enum tow_direction direction,
			     struct tow_device_memory *memory, uint64_t offset, void *host,
			     uint64_t bytes)
{
	struct tow_op *op;

	twt_rig_ok(tow_device_copy_start(rig->device, direction, memory, offset, host, bytes, NULL,
					 &op));
	return op;
}

int twt_rig_end(struct tow_op *op, struct tow_result *out)
{
	return twt_finish(op, out);
}

int twt_rig_copy(struct twt_rig *rig, enum tow_direction direction,
		 struct tow_device_memory *memory, uint64_t offset, void *host, uint64_t bytes)
{
	return twt_rig_end(twt_rig_start(rig, direction, memory, offset, host, bytes), NULL);
}

uint64_t twt_rig_count(struct twt_rig *rig, enum twi_counter counter)
{
	return twi_counter_sum(rig->engine->diag, counter);
}

void twt_rig_fill(void *data, size_t bytes, uint64_t seed)
{
	twt_fill(data, bytes, seed + 1); /* of seed 0 it would begin with zeros */
}

void twt_rig_check(const void *data, size_t bytes, uint64_t seed)
{
	if (twt_check(data, bytes, seed + 1) != 0)
		fail_msg("wrong bytes (seed %llu)", (unsigned long long)seed);
}
