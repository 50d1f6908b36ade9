/*
 * program.h - what a process runs, in a word: for lists of processes; and its environment.
 */
#ifndef TWI_PROGRAM_H
#define TWI_PROGRAM_H

#include <stddef.h>

#define TWI_PROGRAM_BYTES 64u

/*
 * The program of a command line as /proc has it, `bytes` of it with a NUL after each argument:
 * without folders, and of an interpreter (python3, sh, perl, julia ...) the script or module that
 * it runs. Other arguments are left out, as they may be secrets. What is not printable ASCII
 * becomes '?'.
 */
void twi_program_from(const char *line, size_t bytes, char out[TWI_PROGRAM_BYTES]);

/* Of this process; "" where it cannot be read. */
void twi_program_self(char out[TWI_PROGRAM_BYTES]);

/*
 * The environment, as environ. A program that names environ has a copy of it, and only the copy is
 * set; a library that was opened with RTLD_DEEPBIND, as MPItrampoline opens ours, sees the C
 * library's, which stays NULL. Debian's python3 is such a program.
 */
char **twi_program_environ(void);

#endif
