/*
 * lazy.h - libraries that are loaded when they are first used, and that nothing else needs.
 *
 * Towline is loaded into processes that know nothing of it, by runtimes that take a failed dlopen
 * for an answer and go on without it. So libtowline.so names only what its data path needs
 * (tests/check/needed.py has the list). What serves statistics, writes traces and encrypts is found
 * here, at its first use: where it is absent, that feature alone is off, and says why.
 *
 * A library stays loaded, and a failure stays what it was, until the process ends.
 */
#ifndef TWI_LAZY_H
#define TWI_LAZY_H

#include <stdatomic.h>

struct twi_lazy_symbol {
	const char *name;
	void *place; /* of the pointer to the function */
};

/* One library. All but the first four members are lazy.c's, and begin as zeros. */
struct twi_lazy {
	const char *file; /* as the loader finds it: libNAME.so.N */
	const char *use;  /* what it is for, in messages */
	const struct twi_lazy_symbol *symbols;
	unsigned symbol_count;
	_Atomic int state;
	char failure[256];
};

/*
 * TOW_OK: the pointers are set, for every thread that has been told so. TOW_ENOTSUP: the message
 * names the library, what it is for, and what the loader says.
 */
int twi_lazy_load(struct twi_lazy *lazy);

#endif
