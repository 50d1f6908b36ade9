/*
 * device.c - the list of backends, and the parser of their specs. See device.h.
 */
#include "transport/device/device.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/ascii.h"
#include "diag/base/error.h"
#include "transport/engine/background.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"

static const struct twi_device_ops *const backends[] = {
	&twi_device_none,
	&twi_device_fake,
	&twi_device_cuda,
	&twi_device_pjrt,
};

int twi_device_find(const char *spec, const struct twi_device_ops **ops_out, const char **rest_out)
{
	size_t length = strcspn(spec, ":");
	char list[256] = "";

	for (unsigned i = 0; i < twi_array_count(backends); i++) {
		size_t used = strlen(list);

		if (strlen(backends[i]->kind) == length &&
		    strncmp(spec, backends[i]->kind, length) == 0) {
			*ops_out = backends[i];
			*rest_out = spec[length] == ':' ? spec + length + 1 : "";
			return TOW_OK;
		}
		snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "",
			 backends[i]->help);
	}
	return twi_error(TOW_EINVAL, "device \"%.100s\" is of no known kind; known are %s", spec,
			 list);
}

static void take_text(char *to, size_t room, const char *from, size_t bytes)
{
	snprintf(to, room, "%.*s", (int)bytes, from);
}

bool twi_spec_next(const char **rest, struct twi_spec_item *item)
{
	size_t length = strcspn(*rest, ","), name;

	if (**rest == '\0')
		return false;
	name = strcspn(*rest, "=,");
	take_text(item->name, sizeof(item->name), *rest, name);
	item->value[0] = '\0';
	if (name < length)
		take_text(item->value, sizeof(item->value), *rest + name + 1, length - name - 1);
	*rest += length;
	*rest += **rest == ',';
	return true;
}

static int refuse_item(const struct twi_spec_item *item, const char *what)
{
	return twi_error(TOW_EINVAL, "device: %s=%.60s is not %s", item->name, item->value, what);
}

/* Parses a number, maybe with a fraction, and a unit of the table. Returns false if it is bad. */
static bool scaled_number(const char *text, const char *const *unit, const double *factor,
			  uint64_t *out)
{
	char *end;
	double value;

	if (!isdigit((unsigned char)text[0]))
		return false; /* no sign, no infinity, no NaN */
	value = twi_ascii_number(text, &end);
	for (unsigned i = 0; unit[i] != NULL; i++) {
		if (strcmp(end, unit[i]) == 0) {
			value *= factor[i];
			*out = (uint64_t)value;
			return value < 9e18;
		}
	}
	return false;
}

int twi_spec_bytes(const struct twi_spec_item *item, uint64_t *out)
{
	static const char *const unit[] = { "",    "B",   "KB", "MB", "GB", "TB", "KiB",
					    "MiB", "GiB", "K",  "M",  "G",  NULL };
	static const double factor[] = { 1,      1,      1e3,    1e6,    1e9,    1e12,
					 0x1p10, 0x1p20, 0x1p30, 0x1p10, 0x1p20, 0x1p30 };

	return scaled_number(item->value, unit, factor, out)
		       ? TOW_OK
		       : refuse_item(item, "a number of bytes (64MiB)");
}

int twi_spec_ns(const struct twi_spec_item *item, uint64_t *out)
{
	static const char *const unit[] = { "", "ns", "us", "ms", "s", NULL };
	static const double factor[] = { 1, 1, 1e3, 1e6, 1e9 };

	return scaled_number(item->value, unit, factor, out) ? TOW_OK
							     : refuse_item(item, "a time (10us)");
}

static bool has_sleeper(const struct twi_engine *engine)
{
	return atomic_load_explicit(&engine->sleepers, memory_order_seq_cst) > 0 ||
	       atomic_load_explicit(&engine->background_asleep, memory_order_seq_cst) ==
		       TWI_BG_ASLEEP;
}

void twi_device_signal(struct twi_engine *engine, const _Atomic bool *stop)
{
	/*
	 * seq_cst, as in sleep_once of engine_drive.c: either this thread sees the sleeper, or the
	 * sleeper sees the signal.
	 */
	atomic_store_explicit(&engine->device_signal, 1, memory_order_seq_cst);
	while (has_sleeper(engine) &&
	       atomic_load_explicit(&engine->device_signal, memory_order_seq_cst) != 0 &&
	       !atomic_load_explicit(stop, memory_order_acquire)) {
		/* Only the holder may use the table of rings. A holder will poll, or leave soon. */
		if (twi_engine_try_enter(engine)) {
			twi_engine_wake(engine);
			twi_background_wake(engine);
			twi_engine_leave(engine);
			return;
		}
		sched_yield();
	}
}
