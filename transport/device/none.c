/*
 * none.c - a device that does not exist, for runtimes whose configuration has a spec but that have
 * no accelerator. It can be opened, and has no memory.
 */
#include "diag/base/error.h"
#include "transport/device/device.h"
#include <towline/status.h>

static const struct twi_device_facts facts = { .name = "none", .chunk_bytes = UINT64_MAX };
static struct twi_device device = { .ops = &twi_device_none };

static int none_probe(const char *spec)
{
	if (spec[0] == '\0')
		return TOW_OK;
	return twi_error(TOW_EINVAL, "device none takes nothing behind its name: \"%.60s\"", spec);
}

static int none_open(struct twi_engine *engine, const char *spec, struct twi_device **out)
{
	int status = none_probe(spec);

	(void)engine;
	*out = status == TOW_OK ? &device : NULL;
	return status;
}

static void none_close(struct twi_device *dev)
{
	(void)dev;
}

static const struct twi_device_facts *none_facts(const struct twi_device *dev)
{
	(void)dev;
	return &facts;
}

static int none_map(struct twi_device *dev, void *base, uint64_t bytes)
{
	(void)dev;
	(void)base;
	(void)bytes;
	return twi_error(TOW_ENOTSUP, "there is no device");
}

static void none_unmap(struct twi_device *dev, void *base, uint64_t bytes)
{
	(void)dev;
	(void)base;
	(void)bytes;
}

static int none_alloc(struct twi_device *dev, uint64_t bytes, void **memory_out)
{
	(void)dev;
	(void)bytes;
	*memory_out = NULL;
	return twi_error(TOW_ENOTSUP, "there is no device, and so no device memory");
}

static void none_free(struct twi_device *dev, void *memory)
{
	(void)dev;
	(void)memory;
}

static int none_copy(struct twi_device *dev, const struct twi_device_copy *copy,
		     uint64_t *taken_out)
{
	(void)dev;
	(void)copy;
	*taken_out = 0;
	return twi_error(TOW_ENOTSUP, "there is no device");
}

static int none_query(struct twi_device *dev, enum tow_direction direction, unsigned slot)
{
	(void)dev;
	(void)direction;
	(void)slot;
	return TOW_OK;
}

static uint64_t none_deadline_ns(struct twi_device *dev)
{
	(void)dev;
	return UINT64_MAX;
}

static void none_describe(struct twi_device *dev, struct twi_emit *emit)
{
	(void)dev;
	(void)emit;
}

const struct twi_device_ops twi_device_none = {
	.kind = "none",
	.help = "none",
	.probe = none_probe,
	.open = none_open,
	.close = none_close,
	.facts = none_facts,
	.map = none_map,
	.unmap = none_unmap,
	.alloc = none_alloc,
	.free = none_free,
	.copy = none_copy,
	.query = none_query,
	.deadline_ns = none_deadline_ns,
	.describe = none_describe,
};
