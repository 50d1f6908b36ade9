/*
 * lazy.c - dlopen and dlsym, once for each library. See lazy.h.
 */
#include "diag/base/lazy.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "diag/base/error.h"

enum lazy_state { UNKNOWN, LOADED, ABSENT };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static enum lazy_state open_library(struct twi_lazy *lazy)
{
	void *library = dlopen(lazy->file, RTLD_NOW | RTLD_LOCAL);

	if (library == NULL) {
		snprintf(lazy->failure, sizeof(lazy->failure), "%s", dlerror());
		return ABSENT;
	}
	for (unsigned i = 0; i < lazy->symbol_count; i++) {
		void *found = dlsym(library, lazy->symbols[i].name);

		if (found == NULL) {
			snprintf(lazy->failure, sizeof(lazy->failure), "it has no %s",
				 lazy->symbols[i].name);
			dlclose(library);
			return ABSENT;
		}
		/* POSIX guarantees that a pointer from dlsym can be a function pointer. */
		memcpy(lazy->symbols[i].place, &found, sizeof(found));
	}
	return LOADED;
}

int twi_lazy_load(struct twi_lazy *lazy)
{
	/* acquire: pairs with the release below; after it, pointers and text do not change */
	int state = atomic_load_explicit(&lazy->state, memory_order_acquire);

	if (state == UNKNOWN) {
		pthread_mutex_lock(&lock);
		state = atomic_load_explicit(&lazy->state, memory_order_relaxed);
		if (state == UNKNOWN) {
			state = open_library(lazy);
			atomic_store_explicit(&lazy->state, state, memory_order_release);
		}
		pthread_mutex_unlock(&lock);
	}
	if (state == LOADED)
		return TOW_OK;
	return twi_error(TOW_ENOTSUP, "%s needs %s, which cannot be loaded: %.200s", lazy->use,
			 lazy->file, lazy->failure);
}
