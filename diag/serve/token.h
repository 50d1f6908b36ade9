/*
 * token.h - checks the token of a client over TCP, and limits guesses for each address.
 *
 * A token is 16 to 128 characters of A-Z a-z 0-9 . _ ~ - so that it can stand in a URL as it is. It
 * is compared in a time that does not depend on where it differs. Wrong ones are throttled by the
 * address that they come from: TWI_THROTTLE_BURST at once, one more each second; in between nothing
 * from there is compared at all. A client that shares an address with a guesser is throttled as
 * well; the unix socket is not concerned.
 */
#ifndef TWI_TOKEN_H
#define TWI_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWI_TOKEN_MIN 16
#define TWI_TOKEN_MAX 128

struct twi_token {
	char text[TWI_TOKEN_MAX + 1]; /* zeros behind it */
};

/*
 * The token of the knobs stats_token and stats_token_file; the first that is not empty. TOW_EINVAL
 * when both are, or it is none; TOW_EPERM for a file that others may read; TOW_ESYSTEM.
 */
int twi_token_load(const char *text, const char *file, struct twi_token *out);

/* Whether `given` is the token. NULL is not. */
bool twi_token_same(const struct twi_token *token, const char *given);

/* The token behind "Bearer " in a header Authorization; NULL when it is another scheme. */
const char *twi_token_bearer(const char *authorization);

/*
 * The token of a query, ?token=, into `out`: browsers write %7E for ~ there (RFC 3986, 2.1: the
 * same). One that is too long stays so. NULL stays NULL.
 */
#define TWI_TOKEN_PARAM_BYTES (TWI_TOKEN_MAX + 2)
const char *twi_token_param(const char *escaped, char out[TWI_TOKEN_PARAM_BYTES]);

#define TWI_THROTTLE_BURST     10
#define TWI_THROTTLE_REFILL_NS 1000000000ull
#define TWI_THROTTLE_ADDRESSES 16 /* of more, the one that was wrong longest ago is forgotten */

struct twi_throttle {
	struct {
		uint8_t address[16];
		uint64_t wrong_ns; /* the last time that one was; 0: the row is free */
		unsigned left;     /* that may be wrong, at wrong_ns */
	} rows[TWI_THROTTLE_ADDRESSES];
};

/* Whether what comes from there is to be refused without a look. */
bool twi_throttle_refuses(const struct twi_throttle *throttle, const uint8_t address[16],
			  uint64_t now_ns);

/* One from there was wrong. */
void twi_throttle_wrong(struct twi_throttle *throttle, const uint8_t address[16], uint64_t now_ns);

#endif
