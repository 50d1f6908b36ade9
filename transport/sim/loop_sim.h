/*
 * loop_sim.h - makes the loop lane of a runtime a simulated network, and asks what befell it.
 */
#ifndef TWI_LOOP_SIM_H
#define TWI_LOOP_SIM_H

#include "transport/lanes/loop/loop.h"

/* Applies to links made and bytes written from now on. The engine is not held. */
void twi_loop_configure(struct twi_engine *engine, const struct twi_loop_config *config);

/* Links that have gone dark or were cut so far: what a test may blame for TOW_EPEER. */
uint64_t twi_loop_faults(struct twi_engine *engine);

/* Bytes that were changed on their way, and streams that broke and were opened again. */
uint64_t twi_loop_corrupted(struct twi_engine *engine);
uint64_t twi_loop_breaks(struct twi_engine *engine);

/* Answers that came before the write that they were about was known to have gone. */
uint64_t twi_loop_early(struct twi_engine *engine);

#endif
