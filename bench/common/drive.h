/*
 * drive.h - how a bench drives an operation to its end: by a wait, or by tests in a loop.
 */
#ifndef BENCH_DRIVE_H
#define BENCH_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

struct tow_op;

/* Returns as tow_op_wait does. */
int bench_drive(struct tow_op *op, bool tests, uint64_t timeout_ns);

#endif
