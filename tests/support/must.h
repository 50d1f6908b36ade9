/*
 * must.h - for processes of tests that cmocka does not run: something that they cannot do without.
 */
#ifndef TWT_MUST_H
#define TWT_MUST_H

#include <stdio.h>
#include <unistd.h>

#include <towline/towline.h>

/* Ends the process, with the place and the thread's last error, if `what` does not hold. */
#define TWT_MUST(what)                                                                             \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what,     \
				tow_error_message());                                              \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#endif
