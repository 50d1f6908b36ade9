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

/*
 * Reads to the end of `file`. TOW_EINVAL naming the byte offset and what is wrong; TOW_ENOMEM;
 * TOW_ESYSTEM when it cannot be read. After a failure *out is empty.
 */
int twi_alloclog_read(FILE *file, struct twi_alloc_trace *out);

#endif
