#ifndef TWI_OFI_OPEN_AUTH_H
#define TWI_OFI_OPEN_AUTH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <towline/status.h>
#define TWI_AUTH_OUT_MAX 256
struct twi_job_key { bool set, encrypt; uint8_t bytes[32]; };
struct twi_auth { bool connector, out, done; };
static inline void twi_auth_start(struct twi_auth *a, const struct twi_job_key *k, bool connector, const char *p) { (void)k; (void)p; a->connector = connector; a->out = connector; a->done = false; }
static inline size_t twi_auth_out(struct twi_auth *a, uint8_t *out) { if (!a->out) return 0; a->out = false; out[0] = 1; return 1; }
static inline int twi_auth_in(struct twi_auth *a, const uint8_t *d, size_t n, size_t *used) { if (n < 1) return TOW_AGAIN; *used = 1; if (d[0] != 1) return TOW_EAUTH; if (!a->connector) a->out = true; a->done = true; return TOW_OK; }
static inline bool twi_auth_done(const struct twi_auth *a) { return a->done; }
static inline bool twi_auth_encrypts(const struct twi_auth *a) { (void)a; return false; }
#endif
