/*
 * log_rate.c - a table of causes and of when each was last shown. See log_rate.h.
 */
#include "diag/record/log_rate.h"

#include <stddef.h>

#include <internal/base.h>

#include "diag/base/hash.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A hash of the text in which a run of digits counts as one digit. */
static uint64_t cause_of(const char *text)
{
	uint64_t hash = TWI_HASH_BASIS;

	for (; *text != '\0'; text++) {
		if (is_digit(text[0]) && is_digit(text[1]))
			continue;
		hash = twi_hash_step(hash, is_digit(*text) ? '0' : (unsigned char)*text);
	}
	return hash != 0 ? hash : 1;
}

static bool is_old(uint64_t shown_ns, uint64_t now_ns)
{
	return now_ns >= shown_ns + TWI_LOG_RATE_NS;
}

bool twi_log_rate_pass(struct twi_log_rate *rate, const char *text, uint64_t now_ns,
		       uint32_t *left_out)
{
	uint64_t cause = cause_of(text);
	size_t at = TWI_LOG_CAUSES;

	*left_out = 0;
	for (size_t i = 0; i < TWI_LOG_CAUSES; i++) {
		if (rate->rows[i].cause == cause) {
			at = i;
			break;
		}
		/* Take the oldest row that may be forgotten; a free row is older than all. */
		if ((rate->rows[i].cause == 0 || is_old(rate->rows[i].shown_ns, now_ns)) &&
		    (at == TWI_LOG_CAUSES || rate->rows[i].shown_ns < rate->rows[at].shown_ns))
			at = i;
	}
	if (at == TWI_LOG_CAUSES) {
		rate->left_out++;
		return false;
	}
	if (rate->rows[at].cause == cause) {
		if (!is_old(rate->rows[at].shown_ns, now_ns)) {
			rate->rows[at].left_out++;
			rate->left_out++;
			return false;
		}
		*left_out = rate->rows[at].left_out;
		rate->left_out -= *left_out;
	}
	rate->rows[at].cause = cause;
	rate->rows[at].shown_ns = now_ns;
	rate->rows[at].left_out = 0;
	return true;
}
