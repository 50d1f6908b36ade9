/*
 * runtime.h - the inside of a runtime: its engine and other parts; for tests and benches also a
 * simulated runtime.
 */
#ifndef TWI_RUNTIME_H
#define TWI_RUNTIME_H

#include <towline/runtime.h>

#include "memreg/pool/pool.h"

struct twi_bootstrap;
struct twi_engine;
struct twi_job;
struct twi_tracing;

/*
 * Opens a runtime whose time is virtual. It has no ring and no stats socket, only the loop lane,
 * and a pool that is not pinned. A thread that waits makes the time pass.
 */
int twi_runtime_open_sim(const struct tow_options *options, struct tow_runtime **runtime_out);

/*
 * Does the knob coll_plan name a plan? TOW_OK, or TOW_EINVAL: the message names the plans that
 * there are.
 */
int twi_runtime_words(const struct twi_engine *engine);

/*
 * Takes the knobs of the log. TOW_OK, TOW_EINVAL, or TOW_ESYSTEM: the message names the file that
 * cannot be used.
 */
int twi_runtime_log(struct twi_engine *engine, const struct twi_bootstrap *bootstrap);

struct twi_engine *twi_runtime_engine(struct tow_runtime *runtime);

/* Its part that concerns ranks (group.h). */
struct twi_job *twi_runtime_job(struct tow_runtime *runtime);

/* Its part that concerns traces (tracing.h). */
struct twi_tracing *twi_runtime_tracing(struct tow_runtime *runtime);

/* TOW_OK, TOW_EINVAL for NULL, TOW_EFORKED; `call` is named in the message. */
int twi_runtime_check(struct tow_runtime *runtime, const char *call);

#endif
