/*
 * ofi_fopen.h - replaces fopen in the program that includes it (and which exports it, see
 * tests/meson.build): include it in one file.
 *
 * libfabric looks through all of the kernel's symbols, twice, when it is loaded: a third of the
 * time of a scenario. It is told that there are none.
 */
#ifndef TWT_OFI_FOPEN_H
#define TWT_OFI_FOPEN_H

#include "twt.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#if defined(TWI_HAVE_OFI) && !defined(TWT_SANITIZED)
/* By its name in the library: stdio.h renames it where files have 64-bit offsets. */
__attribute__((visibility("default"))) FILE *twt_ofi_fopen(const char *path,
							   const char *mode) __asm__("fopen");

FILE *twt_ofi_fopen(const char *path, const char *mode)
{
	union {
		void *found;
		FILE *(*call)(const char *path, const char *mode);
	} real = { .found = dlsym(RTLD_NEXT, "fopen") };

	if (strcmp(path, "/proc/kallsyms") == 0) {
		errno = ENOENT;
		return NULL;
	}
	return real.call(path, mode);
}
#endif

#endif
