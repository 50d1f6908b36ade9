/*
 * pjrt_ready.c - notification of ended events. See pjrt_ready.h.
 */
#include "transport/device/pjrt_ready.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include <towline/status.h>

#include "transport/device/device.h"

struct twi_pjrt_ready {
	struct twi_pjrt plugin;
	struct twi_engine *engine;
	pthread_mutex_t lock;     /* held by a thread that signals: the engine lives */
	_Atomic bool stop;        /* set by close */
	_Atomic uintptr_t asking; /* the thread that calls OnReady now; 0: none */
	_Atomic uint32_t refs;    /* outstanding callbacks, and the creator */
	_Atomic uint64_t words;   /* notifications so far */
};

static uintptr_t this_thread(void)
{
	return (uintptr_t)pthread_self();
}

struct twi_pjrt_ready *twi_pjrt_ready_new(const struct twi_pjrt *plugin, struct twi_engine *engine)
{
	struct twi_pjrt_ready *ready;

	if (!twi_pjrt_has(plugin, TWI_PJRT_EVENT_ON_READY))
		return NULL;
	ready = calloc(1, sizeof(*ready));
	if (ready == NULL)
		return NULL;
	ready->plugin = *plugin;
	ready->engine = engine;
	ready->refs = 1;
	pthread_mutex_init(&ready->lock, NULL);
	return ready;
}

static void ready_unref(struct twi_pjrt_ready *ready)
{
	if (atomic_fetch_sub_explicit(&ready->refs, 1, memory_order_acq_rel) > 1)
		return;
	pthread_mutex_destroy(&ready->lock);
	free(ready);
}

/*
 * Called by the plugin. Within OnReady no thread needs a signal. It must not wait for the lock
 * there, because the lock's holder may wait for the engine, which the calling thread holds.
 */
static void event_ended(void *error, void *argument)
{
	struct twi_pjrt_ready *ready = argument;

	twi_pjrt_error_destroy(&ready->plugin, error);
	atomic_fetch_add_explicit(&ready->words, 1, memory_order_relaxed);
	if (atomic_load_explicit(&ready->asking, memory_order_relaxed) != this_thread()) {
		pthread_mutex_lock(&ready->lock);
		if (!atomic_load_explicit(&ready->stop, memory_order_acquire))
			twi_device_signal(ready->engine, &ready->stop);
		pthread_mutex_unlock(&ready->lock);
	}
	ready_unref(ready);
}

bool twi_pjrt_ready_ask(struct twi_pjrt_ready *ready, void *event)
{
	struct twi_pjrt_on_ready_args args = { .event = event,
					       .callback = event_ended,
					       .argument = ready };
	int status;

	if (ready == NULL)
		return false;
	atomic_fetch_add_explicit(&ready->refs, 1, memory_order_relaxed);
	atomic_store_explicit(&ready->asking, this_thread(), memory_order_relaxed);
	status = twi_pjrt_do(&ready->plugin, TWI_PJRT_EVENT_ON_READY, &args, "PJRT_Event_OnReady");
	atomic_store_explicit(&ready->asking, 0, memory_order_relaxed);
	if (status < 0)
		ready_unref(ready);
	return status == TOW_OK;
}

uint64_t twi_pjrt_ready_words(const struct twi_pjrt_ready *ready)
{
	return ready == NULL ? 0 : atomic_load_explicit(&ready->words, memory_order_relaxed);
}

void twi_pjrt_ready_close(struct twi_pjrt_ready *ready)
{
	if (ready == NULL)
		return;
	atomic_store_explicit(&ready->stop, true, memory_order_release);
	pthread_mutex_lock(&ready->lock); /* waits for a thread that signals */
	pthread_mutex_unlock(&ready->lock);
	ready_unref(ready);
}
