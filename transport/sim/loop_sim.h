/*
 * loop_sim.h - makes the loop lane of a runtime a simulated network, and counts its faults.
 */
#ifndef TWI_LOOP_SIM_H
#define TWI_LOOP_SIM_H

#include "transport/lanes/loop/loop.h"

/* Applies to links that are made, and bytes that are written, from now on. The engine is free. */
void twi_loop_configure(struct twi_engine *engine, const struct twi_loop_config *config);

/* Links that have gone dark or were cut so far: a test may explain TOW_EPEER with them. */
uint64_t twi_loop_faults(struct twi_engine *engine);

/* Bytes that were changed on their way, and streams that broke and were opened again. */
uint64_t twi_loop_corrupted(struct twi_engine *engine);
uint64_t twi_loop_breaks(struct twi_engine *engine);

/* Answers that arrived before the lane had reported the write that they answer. */
uint64_t twi_loop_early(struct twi_engine *engine);

#endif
