/*
 * lazy.h - loads optional libraries at their first use.
 *
 * Runtimes load Towline into processes that do not depend on it. If dlopen fails, they continue
 * without it. So libtowline.so names only the libraries that its data path needs
 * (tests/check/needed.py has the list). The libraries that serve statistics, write traces and
 * encrypt are loaded here. Where one is absent, only its feature is off, and the message says why.
 *
 * Until the process ends, a library stays loaded and a failure stays the same.
 */
#ifndef TWI_LAZY_H
#define TWI_LAZY_H

#include <stdatomic.h>

struct twi_lazy_symbol {
	const char *name;
	void *place; /* address of the pointer to the function */
};

/* One library. Members after the first four belong to lazy.c and begin as zeros. */
struct twi_lazy {
	const char *file; /* the loader's name for it: libNAME.so.N */
	const char *use;  /* its purpose, for messages */
	const struct twi_lazy_symbol *symbols;
	unsigned symbol_count;
	_Atomic int state;
	char failure[256];
};

/*
 * TOW_OK: the pointers are set, for every thread that has got this status. TOW_ENOTSUP: the message
 * names the library, its purpose, and the loader's reason.
 */
int twi_lazy_load(struct twi_lazy *lazy);

#endif
