/*
 * alloclog_read.h - reads the file of an allocation log, which a runtime only writes.
 *
 * The reader accepts any bytes as input. It takes memory only for what it has read, checks every
 * field, and reports what is wrong at which byte.
 */
#ifndef TWI_ALLOCLOG_READ_H
#define TWI_ALLOCLOG_READ_H

#include <stdio.h>

#include "memreg/alloclog/alloclog_file.h"
#include "memreg/alloclog/alloclog_names.h"

/*
 * Reads to the end of `file`. TOW_EINVAL names the byte offset and what is wrong. TOW_ENOMEM.
 * TOW_ESYSTEM: the file cannot be read. After a failure *out is empty.
 */
int twi_alloclog_read(FILE *file, struct twi_alloc_trace *out);

/*
 * Does the same without keeping the events. `visit` gets them in batches, in their order. From the
 * first batch on, *out has the fields of the header. A negative result of `visit` ends the scan. A
 * log that is damaged further on is only found out at the end.
 */
typedef int (*twi_alloclog_visit)(void *arg, const struct twi_alloc_event *event, size_t count);
int twi_alloclog_scan(FILE *file, struct twi_alloc_trace *out, twi_alloclog_visit visit, void *arg);

#endif
