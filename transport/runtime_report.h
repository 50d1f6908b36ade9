/*
 * runtime_report.h - what a runtime reports in /v1: its connections, its knobs, its rings. These
 * are sources of the registry; `arg` is the engine, which is not held.
 */
#ifndef TWI_RUNTIME_REPORT_H
#define TWI_RUNTIME_REPORT_H

struct twi_emit;

/* Connections and endpoints. */
void twi_peers_describe(void *arg, struct twi_emit *emit);

/* How long the kernel keeps the memory of zero-copy sends, beyond the send's completion. */
void twi_lag_describe(void *arg, struct twi_emit *emit);

/* The job, the kernel, the knobs that it runs with, and what its rings can do. */
void twi_runtime_describe(void *arg, struct twi_emit *emit);

#endif
