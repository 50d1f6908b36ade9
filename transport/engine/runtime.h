/*
 * runtime.h - inside of a runtime, for tests and benches: the simulated one, and its engine.
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
 * Opens a runtime whose time is virtual: it has no ring and no stats socket, only the loop lane,
 * and a pool that is not pinned. Whoever waits makes the time pass.
 */
int twi_runtime_open_sim(const struct tow_options *options, struct tow_runtime **runtime_out);

/* Whether the knob coll_plan names a plan. TOW_OK; TOW_EINVAL naming the plans that there are. */
int twi_runtime_words(const struct twi_engine *engine);

/* Takes the knobs of the log. TOW_EINVAL, TOW_ESYSTEM naming a file that cannot be used. */
int twi_runtime_log(struct twi_engine *engine, const struct twi_bootstrap *bootstrap);

struct twi_engine *twi_runtime_engine(struct tow_runtime *runtime);

/* Its part that concerns ranks (group.h). */
struct twi_job *twi_runtime_job(struct tow_runtime *runtime);

/* Its part that concerns traces (tracing.h). */
struct twi_tracing *twi_runtime_tracing(struct tow_runtime *runtime);

/* TOW_OK, TOW_EINVAL for NULL, TOW_EFORKED; `call` is named in the message. */
int twi_runtime_check(struct tow_runtime *runtime, const char *call);

#endif
