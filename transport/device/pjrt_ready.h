/*
 * pjrt_ready.h - word from a PJRT plugin that an event has ended, so that who sleeps for it wakes.
 *
 * The plugin calls back from a thread of its own, or from within the asking; it cannot be told to
 * forget a callback, and one may come after its device has been closed. So what it is given lives
 * as long as callbacks are owed.
 */
#ifndef TWI_PJRT_READY_H
#define TWI_PJRT_READY_H

#include <stdbool.h>

#include "transport/device/pjrt_api.h"

struct twi_engine;
struct twi_pjrt_ready;

/* NULL: no memory, or the plugin has no such function; then its events must be asked often. */
struct twi_pjrt_ready *twi_pjrt_ready_new(const struct twi_pjrt *plugin, struct twi_engine *engine);

/*
 * Has the engine signalled (twi_device_signal) when `event` ends. The engine is held. False: the
 * plugin refuses, and there will be no word.
 */
bool twi_pjrt_ready_ask(struct twi_pjrt_ready *ready, void *event);

/* How often word has come; 0 of NULL. */
uint64_t twi_pjrt_ready_words(const struct twi_pjrt_ready *ready);

/* No word reaches the engine any more when this returns. NULL is legal. */
void twi_pjrt_ready_close(struct twi_pjrt_ready *ready);

#endif
