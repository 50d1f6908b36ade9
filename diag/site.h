/*
 * site.h - who asked: the place in the user's program that caused a copy or a late registration.
 *
 * It is taken in the public call (the address it returns to, and the calling thread's tag) and
 * travels with the operation, so that what happens later, in whatever thread, still names it.
 */
#ifndef TWI_SITE_H
#define TWI_SITE_H

#include <stdint.h>

struct twi_site {
	const void *caller; /* return address in the user's program; NULL: not known */
	uint32_t tag;       /* the thread's tag then (tow_tag_set); 0: none */
};

#define TWI_SITE_NONE ((struct twi_site){ 0 })

/* In a public function: the place that called it. */
#define TWI_SITE_HERE ((struct twi_site){ .caller = __builtin_return_address(0) })

#endif
