/*
 * alloclog_read.h - reads the file of an allocation log. A runtime only writes them.
 *
 * The reader expects any bytes at all: it takes memory only for what it has read, checks every
 * field, and says at which byte what is wrong.
 */
#ifndef TWI_ALLOCLOG_READ_H
#define TWI_ALLOCLOG_READ_H

#include <stdio.h>

#include "memreg/alloclog/alloclog_file.h"
#include "memreg/alloclog/alloclog_names.h"

/*
 * Reads to the end of `file`. TOW_EINVAL naming the byte offset and what is wrong; TOW_ENOMEM;
 * TOW_ESYSTEM when it cannot be read. After a failure *out is empty.
 */
int twi_alloclog_read(FILE *file, struct twi_alloc_trace *out);

/*
 * The same without keeping the events: `visit` gets them a batch at a time, in their order, and
 * *out has what the header says from the first batch on. What visit returns below 0 ends it. A log
 * that is damaged further on is known to be so only in the end.
 */
typedef int (*twi_alloclog_visit)(void *arg, const struct twi_alloc_event *event, size_t count);
int twi_alloclog_scan(FILE *file, struct twi_alloc_trace *out, twi_alloclog_visit visit, void *arg);

#endif
