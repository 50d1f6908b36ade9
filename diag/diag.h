/* diag.h - stand-in until the diag layer is merged. */
#ifndef TWI_DIAG_H
#define TWI_DIAG_H

#include <stdatomic.h>
#include <stdint.h>

#include "diag/registry.h"

enum twi_counter { TWI_C_pool_exhausted, TWI_C_COUNT };
enum twi_reason { TWI_R_late_registrar, TWI_R_COUNT };

struct twi_diag {
	_Atomic uint64_t counter[TWI_C_COUNT];
	_Atomic uint64_t late[TWI_R_COUNT];
	struct twi_source source[4];
	struct twi_gauge gauge[32];
	int sources, gauges;
};

int twi_diag_create(struct twi_diag **out);
void twi_diag_destroy(struct twi_diag *diag);

static inline void twi_count(struct twi_diag *diag, enum twi_counter counter, uint64_t n)
{
	atomic_fetch_add(&diag->counter[counter], n);
}

uint64_t twi_counter_sum(struct twi_diag *diag, enum twi_counter counter);
void twi_late_record(struct twi_diag *diag, enum twi_reason reason, uint64_t bytes, uint64_t ns);
void twi_log(struct twi_diag *diag, int level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
