/*
 * program.h - names the program that a process runs, for lists of processes; its environment.
 */
#ifndef TWI_PROGRAM_H
#define TWI_PROGRAM_H

#include <stddef.h>

#define TWI_PROGRAM_BYTES 64u

/*
 * Names the program of a command line from /proc, which has `bytes` and a NUL after each argument.
 * The name has no folders. For an interpreter (python3, sh, perl, julia ...) it is the script or
 * module that the interpreter runs. Other arguments are left out, as they may be secrets.
 * Characters that are not printable ASCII become '?'.
 */
void twi_program_from(const char *line, size_t bytes, char out[TWI_PROGRAM_BYTES]);

/* Names this process's program; "" where /proc cannot be read. */
void twi_program_self(char out[TWI_PROGRAM_BYTES]);

/*
 * The environment, as in environ. If the program itself uses environ, it has a copy of the
 * variable, and the loader sets only that copy. A library that was opened with RTLD_DEEPBIND, as
 * MPItrampoline opens ours, sees the C library's variable, which stays NULL. Debian's python3 is
 * such a program.
 */
char **twi_program_environ(void);

#endif
