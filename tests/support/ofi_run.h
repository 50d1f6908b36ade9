/*
 * ofi_run.h - runs scenarios over every provider of libfabric's that there is; include twt.h first.
 *
 * Every scenario runs in a process of its own, so that libfabric is never carried over a fork.
 * TOW_TEST_OFI=PROVIDER tests that one alone, TOW_TEST_SCENARIO=NAME that scenario; a provider that
 * is not there is said and skipped.
 */
#ifndef TWT_OFI_RUN_H
#define TWT_OFI_RUN_H

#include "ofi_pair.h"

#ifdef TWI_HAVE_OFI

struct twt_ofi_scenario {
	const char *name;
	void (*run)(void);
	bool kills;
};

/* Runs the table over every provider; what a test program returns. */
int twt_ofi_main(const struct twt_ofi_scenario *table, size_t count);

#else

#define twt_ofi_main(table, count) (printf("skipped: %s\n", TWI_OFI_OFF), 77)

#endif
#endif
