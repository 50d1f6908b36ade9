/*
 * alloclog_event.h - one line of an allocation log, as its readers see it.
 */
#ifndef TWI_ALLOCLOG_EVENT_H
#define TWI_ALLOCLOG_EVENT_H

#include <stdint.h>

enum twi_alloc_kind { TWI_ALLOC_EVENT_ALLOC = 1, TWI_ALLOC_EVENT_FREE, TWI_ALLOC_EVENT_STEP };

struct twi_alloc_event {
	uint64_t ns;
	uint64_t id; /* pairs an ALLOC with its FREE */
	uint64_t bytes;
	uint64_t caller;
	uint32_t thread;
	uint32_t tag;
	uint8_t kind; /* enum twi_alloc_kind */
	uint8_t align_log2;
};

#endif
