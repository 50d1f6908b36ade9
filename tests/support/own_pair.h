/*
 * own_pair.h - one runtime that is connected to itself over tcp, twice, with zero-copy sends always
 * (so leases outlive their operations until the notification); what its counters say; and that all
 * memory comes back.
 */
#ifndef TWT_OWN_PAIR_H
#define TWT_OWN_PAIR_H

#include "duo.h"

#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/endpoint.h"

#define TWT_MIB       ((uint64_t)1 << 20)
#define TWT_OWN_PAIRS 2

/* The one that is open. */
struct twt_own {
	struct tow_runtime *runtime;
	struct twi_engine *engine;
	struct tow_peer *from[TWT_OWN_PAIRS], *to[TWT_OWN_PAIRS];
};

extern struct twt_own twt_own;

/* 4 MiB of pool, and what a full one does. */
struct tow_options twt_own_options(const char *exhaust);

void twt_own_open(const struct tow_options *options);

/* All memory must be back first. */
void twt_own_close(void);

uint64_t twt_own_counter(enum twi_counter id);

struct twi_reason_sum twt_own_reason(enum twi_reason id);

/* When all is freed, and the notifications have come, nothing is left. */
void twt_own_all_back(void);

/* Ends the program if it is not what twt_fill wrote. */
void twt_own_check(const uint8_t *at, uint64_t bytes, uint64_t seed);

/* Sends of pool memory never need a copy, whatever extent it is in. */
void twt_own_no_copies(void);

#endif
