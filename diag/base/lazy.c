/*
 * lazy.c - dlopen and dlsym, until they have succeeded for a library. See lazy.h.
 */
#include "diag/base/lazy.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "diag/base/error.h"

#define FAILURE_BYTES 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool open_library(struct twi_lazy *lazy, char failure[FAILURE_BYTES])
{
	void *library = dlopen(lazy->file, RTLD_NOW | RTLD_LOCAL);

	if (library == NULL) {
		snprintf(failure, FAILURE_BYTES, "%s", dlerror());
		return false;
	}
	for (unsigned i = 0; i < lazy->symbol_count; i++) {
		void *found = dlsym(library, lazy->symbols[i].name);

		if (found == NULL) {
			snprintf(failure, FAILURE_BYTES, "it has no %s", lazy->symbols[i].name);
			dlclose(library);
			return false;
		}
		/* POSIX guarantees that a pointer from dlsym can be a function pointer. */
		memcpy(lazy->symbols[i].place, &found, sizeof(found));
	}
	return true;
}

int twi_lazy_load(struct twi_lazy *lazy)
{
	char failure[FAILURE_BYTES] = "";
	/* acquire: pairs with the release below; after it, pointers do not change */
	bool loaded = atomic_load_explicit(&lazy->loaded, memory_order_acquire);

	if (!loaded) {
		pthread_mutex_lock(&lock);
		loaded = atomic_load_explicit(&lazy->loaded, memory_order_relaxed) ||
			 open_library(lazy, failure);
		atomic_store_explicit(&lazy->loaded, loaded, memory_order_release);
		pthread_mutex_unlock(&lock);
	}
	if (loaded)
		return TOW_OK;
	return twi_error(TOW_ENOTSUP, "%s needs %s, which cannot be loaded: %.200s", lazy->use,
			 lazy->file, failure);
}
