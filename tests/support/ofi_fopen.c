/*
 * ofi_fopen.c - what makes libfabric cheap in every test program, and in those that tests start as
 * ranks (tests/meson.build).
 *
 * libfabric looks through all of the kernel's symbols, twice, when it is loaded: 75 of the 100 ms
 * that a process needs for it. It is told that there are none.
 *
 * And its provider rxm, which ofi://tcp is, clears receive buffers for 128 messages of 16 KiB at
 * each opening. It is told to have 16. How long the messages are that go by them stays as it was.
 * Benches and examples, and Python, still have 128.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* What the environment has already stands. */
__attribute__((constructor)) static void twt_ofi_few_buffers(void)
{
	setenv("FI_OFI_RXM_MSG_RX_SIZE", "16", 0);
}
