/*
 * token.h - checks the token of a client over TCP, and counts wrong tokens by address.
 *
 * A token has 16 to 128 characters of A-Z a-z 0-9 . _ ~ - so that it needs no escape in a URL. The
 * time of a comparison does not depend on where the texts differ.
 *
 * Wrong tokens are throttled by address: TWI_THROTTLE_BURST at once, then one a second. Beyond
 * that, a request without the right token gets 429 and not 401. The right token is accepted at any
 * time, even from a throttled address. The unix socket has no throttle.
 */
#ifndef TWI_TOKEN_H
#define TWI_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWI_TOKEN_MIN 16
#define TWI_TOKEN_MAX 128

struct twi_token {
	char text[TWI_TOKEN_MAX + 1]; /* zeros follow it */
};

/*
 * Takes the token from the knobs stats_token and stats_token_file: the first that is not empty.
 * TOW_EINVAL: both are empty, or the text is not a token; TOW_EPERM: others may read the file;
 * TOW_ESYSTEM.
 */
int twi_token_load(const char *text, const char *file, struct twi_token *out);

/* Is `given` the token? NULL is not. */
bool twi_token_same(const struct twi_token *token, const char *given);

/* The token after "Bearer " in a header Authorization; NULL: it has another scheme. */
const char *twi_token_bearer(const char *authorization);

/*
 * Decodes the token of a query, ?token=, into `out`, as browsers write %7E for ~ there (RFC 3986,
 * 2.1: both are the same). A token that is too long remains too long. NULL remains NULL.
 */
#define TWI_TOKEN_PARAM_BYTES (TWI_TOKEN_MAX + 2)
const char *twi_token_param(const char *escaped, char out[TWI_TOKEN_PARAM_BYTES]);

#define TWI_THROTTLE_BURST     10
#define TWI_THROTTLE_REFILL_NS 1000000000ull
#define TWI_THROTTLE_ADDRESSES 16 /* the one whose last wrong token is oldest gives way */

struct twi_throttle {
	struct {
		uint8_t address[16];
		uint64_t wrong_ns; /* the time of its last wrong token; 0: the row is free */
		unsigned left;     /* wrong tokens that it still had at wrong_ns */
	} rows[TWI_THROTTLE_ADDRESSES];
};

/* Has the address used up its wrong tokens? */
bool twi_throttle_refuses(const struct twi_throttle *throttle, const uint8_t address[16],
			  uint64_t now_ns);

/* Counts a wrong token from the address. */
void twi_throttle_wrong(struct twi_throttle *throttle, const uint8_t address[16], uint64_t now_ns);

#endif
