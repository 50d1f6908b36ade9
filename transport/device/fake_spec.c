/*
 * fake_spec.c - parses the options of the fake device. See fake.h.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "transport/device/fake.h"
#include <internal/base.h>
#include <towline/status.h>

enum kind { BYTES, TIME, NTH, FLAG, TEXT };

static const struct option {
	const char *name;
	enum kind kind;
	size_t offset;
} options[] = {
#define OPTION(name, kind, field)                                                                  \
	{                                                                                          \
		name, kind, offsetof(struct twi_fake_options, field)                               \
	}
	OPTION("name", TEXT, name),
	OPTION("memory", BYTES, memory_bytes),
	OPTION("latency", TIME, latency_ns),
	OPTION("bandwidth", BYTES, bandwidth),
	OPTION("chunk", BYTES, chunk_bytes),
	OPTION("maps", BYTES, maps_bytes),
	OPTION("any", FLAG, any),
	OPTION("nomap", FLAG, nomap),
	OPTION("fail_map", NTH, fail_map),
	OPTION("fail_alloc", NTH, fail_alloc),
	OPTION("refuse_copy", NTH, refuse_copy),
	OPTION("fail_copy", NTH, fail_copy),
	OPTION("die_copy", NTH, die_copy),
	OPTION("hang_copy", NTH, hang_copy),
#undef OPTION
};

static int nth_value(const struct twi_spec_item *item, uint64_t *out)
{
	if (strcmp(item->value, "all") == 0) {
		*out = TWI_FAKE_ALL;
		return TOW_OK;
	}
	return twi_spec_bytes(item, out);
}

static int set_option(const struct option *option, const struct twi_spec_item *item,
		      struct twi_fake_options *out)
{
	void *field = (char *)out + option->offset;

	switch (option->kind) {
	case BYTES:
		return twi_spec_bytes(item, field);
	case TIME:
		return twi_spec_ns(item, field);
	case NTH:
		return nth_value(item, field);
	case FLAG:
		*(bool *)field = true;
		return TOW_OK;
	default:
		snprintf(field, sizeof(out->name), "%.60s", item->value);
		return TOW_OK;
	}
}

int twi_fake_options(const char *spec, struct twi_fake_options *out)
{
	struct twi_spec_item item;

	*out = (struct twi_fake_options){ .name = "fake",
					  .memory_bytes = 256u << 20,
					  .chunk_bytes = 1u << 20,
					  .maps_bytes = UINT64_MAX };
	while (twi_spec_next(&spec, &item)) {
		unsigned i = 0;
		int status;

		while (i < twi_array_count(options) && strcmp(options[i].name, item.name) != 0)
			i++;
		if (i == twi_array_count(options))
			return twi_error(TOW_EINVAL, "device fake has no option \"%s\"", item.name);
		status = set_option(&options[i], &item, out);
		if (status < 0)
			return status;
	}
	if (out->chunk_bytes == 0)
		return twi_error(TOW_EINVAL, "device fake: chunk is 0");
	return TOW_OK;
}
