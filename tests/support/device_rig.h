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

#define twt_rig_ok(call)                                                                           \
	do {                                                                                       \
		int twt_rig_status = (call);                                                       \
		if (twt_rig_status != TOW_OK)                                                      \
			fail_msg("%s: %s: %s", #call, tow_status_name(twt_rig_status),             \
				 tow_error_message());                                             \
	} while (0)

struct twt_rig {
	struct tow_runtime *runtime;
	struct twi_engine *engine;
	struct tow_device *device;
};

/* 16 MiB of pool, 1 MiB of it staging; the options may be changed before. */
struct tow_options twt_rig_options(void);

void twt_rig_runtime(struct twt_rig *rig, const struct tow_options *options, bool sim);

void twt_rig_open(struct twt_rig *rig, const char *spec, bool sim);

void twt_rig_close(struct twt_rig *rig);

void *twt_rig_alloc(struct twt_rig *rig, size_t bytes);

struct tow_device_memory *twt_rig_memory(struct twt_rig *rig, uint64_t bytes);

struct tow_op *twt_rig_start(struct twt_rig *rig, enum tow_direction direction,
			     struct tow_device_memory *memory, uint64_t offset, void *host,
			     uint64_t bytes);

/* Waits for the end and gives the operation back; its status. */
int twt_rig_end(struct tow_op *op, struct tow_result *out);

int twt_rig_copy(struct twt_rig *rig, enum tow_direction direction,
		 struct tow_device_memory *memory, uint64_t offset, void *host, uint64_t bytes);

uint64_t twt_rig_count(struct twt_rig *rig, enum twi_counter counter);

void twt_rig_fill(void *data, size_t bytes, uint64_t seed);

void twt_rig_check(const void *data, size_t bytes, uint64_t seed);

#endif
