/*
 * pjrt_ready.h - notification by a PJRT plugin that an event has ended, to wake a sleeping thread.
 *
 * The plugin calls back from a thread of its own, or within the call that asks. A callback cannot
 * be withdrawn, and may come after its device has been closed. So its argument lives until no
 * callback is outstanding.
 */
#ifndef TWI_PJRT_READY_H
#define TWI_PJRT_READY_H

#include <stdbool.h>

#include "transport/device/pjrt_api.h"

struct twi_engine;
struct twi_pjrt_ready;

/*
 * Returns NULL if there is no memory, or if the plugin has no such function. Then the caller must
 * query the plugin's events often.
 */
struct twi_pjrt_ready *twi_pjrt_ready_new(const struct twi_pjrt *plugin, struct twi_engine *engine);

/*
 * Asks the plugin to signal the engine (twi_device_signal) when `event` ends. The engine is held.
 * Returns false if the plugin refuses; no notification will come then.
 */
bool twi_pjrt_ready_ask(struct twi_pjrt_ready *ready, void *event);

/* The number of notifications so far; 0 for NULL. */
uint64_t twi_pjrt_ready_words(const struct twi_pjrt_ready *ready);

/* On return no further notification reaches the engine. NULL is legal. */
void twi_pjrt_ready_close(struct twi_pjrt_ready *ready);

#endif
