/*
 * lazy.h - loads optional libraries at their first use.
 *
 * Runtimes load Towline into processes that do not depend on it. If dlopen fails, they continue
 * without it. So libtowline.so names only the libraries that its data path needs
 * (tests/check/needed.py has the list). The libraries that serve statistics, write traces and
 * encrypt are loaded here. Where one is absent, only its feature is off, and the message says why.
 *
 * Until the process ends, a library stays loaded. After a failure the next use tries again: the
 * process may have had no descriptor or memory left just then.
 */
#ifndef TWI_LAZY_H
#define TWI_LAZY_H

#include <stdatomic.h>
#include <stdbool.h>

struct twi_lazy_symbol {
	const char *name;
	void *place; /* address of the pointer to the function */
};

/* One library. The last member belongs to lazy.c, and begins as false. */
struct twi_lazy {
	const char *file; /* the loader's name for it: libNAME.so.N */
	const char *use;  /* its purpose, for messages */
	const struct twi_lazy_symbol *symbols;
	unsigned symbol_count;
	_Atomic bool loaded;
};

/*
 * TOW_OK: the pointers are set, for every thread that has got this status. TOW_ENOTSUP: the message
 * names the library, its purpose, and the loader's reason.
 */
int twi_lazy_load(struct twi_lazy *lazy);

#endif
