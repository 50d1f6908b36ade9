/*
 * malloc_program.h - what the files of malloc_program share.
 */
#ifndef MALLOC_PROGRAM_H
#define MALLOC_PROGRAM_H

#include "../support/must.h"

#include <stdbool.h>

#define MIB ((size_t)1 << 20)

/* The preload's; weak, so that the program runs without it as well. */
extern size_t towline_malloc_placed(const void *memory) __attribute__((weak));
extern int towline_malloc_attach(struct tow_runtime *) __attribute__((weak));
extern void towline_malloc_detach(struct tow_runtime *) __attribute__((weak));

/* The runtime that open_runtime has opened last. */
extern struct tow_runtime *runtime;
void open_runtime(void);
void close_runtime(void);
bool is_placed(const void *memory);

/* malloc_swaps.c */
void swap_runtimes(void);

#endif
