/*
 * jemalloc_api.h - the part of jemalloc 5.3 that the library uses, declared here.
 *
 * The build needs no header of jemalloc. The symbols are weak, so they are NULL in a process
 * without jemalloc.
 */
#ifndef TWI_JEMALLOC_API_H
#define TWI_JEMALLOC_API_H

#include <stdbool.h>
#include <stddef.h>

#define TWI_JE_ARENA(index) ((int)(((index) + 1) << 20)) /* MALLOCX_ARENA */
#define TWI_JE_TCACHE_NONE  ((int)(1 << 8))              /* MALLOCX_TCACHE_NONE */

/* extent_hooks_t. A hook that returns bool returns false on success. */
struct twi_je_hooks {
	void *(*alloc)(struct twi_je_hooks *, void *, size_t, size_t, bool *, bool *, unsigned);
	bool (*dalloc)(struct twi_je_hooks *, void *, size_t, bool, unsigned);
	void (*destroy)(struct twi_je_hooks *, void *, size_t, bool, unsigned);
	bool (*commit)(struct twi_je_hooks *, void *, size_t, size_t, size_t, unsigned);
	bool (*decommit)(struct twi_je_hooks *, void *, size_t, size_t, size_t, unsigned);
	bool (*purge_lazy)(struct twi_je_hooks *, void *, size_t, size_t, size_t, unsigned);
	bool (*purge_forced)(struct twi_je_hooks *, void *, size_t, size_t, size_t, unsigned);
	bool (*split)(struct twi_je_hooks *, void *, size_t, size_t, size_t, bool, unsigned);
	bool (*merge)(struct twi_je_hooks *, void *, size_t, void *, size_t, bool, unsigned);
};

/* arena_config_t, of experimental.arenas_create_ext. */
struct twi_je_config {
	struct twi_je_hooks *hooks;
	bool metadata_use_hooks;
};

extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
extern int mallctlnametomib(const char *, size_t *, size_t *) __attribute__((weak));
extern int mallctlbymib(const size_t *, size_t, void *, size_t *, void *, size_t)
	__attribute__((weak));
extern void *mallocx(size_t, int) __attribute__((weak));
extern void dallocx(void *, int) __attribute__((weak));

#endif
