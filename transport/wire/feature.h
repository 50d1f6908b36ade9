/*
 * feature.h - what two sides of a connection agree on before the first message. Pure.
 *
 * Each side says one word of 64 bits in its HELLO, on every lane:
 *
 *	63                   32 31                    0
 *	+----------------------+----------------------+
 *	| required             | offered              |      bit n and bit 32 + n: feature n
 *	+----------------------+----------------------+
 *
 * A feature that both offer is agreed, and is in use. A feature that one side requires and the
 * other does not offer, or has never heard of, ends the handshake; both sides compute the same from
 * the same two words, so both say which one it was. A feature that a reader does not know and that
 * nobody requires means nothing. feature.def is the list.
 */
#ifndef TWI_FEATURE_H
#define TWI_FEATURE_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/lane_id.h"

struct twi_emit;

enum twi_feature {
#define TWI_FEATURE(bit, name, lanes, built) TWI_FEATURE_##name = (bit),
#include "transport/wire/feature.def"
#undef TWI_FEATURE
};

#define TWI_FEATURE_BIT(name) (1u << TWI_FEATURE_##name)

/* The bits of one side, or of what both have agreed on (required is 0 then). */
struct twi_features {
	uint32_t offered, required; /* required is a part of offered */
};

/* One side of a handshake: its word, and the version of the lane's greeting that it speaks. */
struct twi_feature_side {
	uint64_t word;
	uint16_t major, minor;
};

/* What this version has built, of all lanes; it requires nothing. */
struct twi_features twi_features_built(void);

/*
 * The word that a lane says: of `mine` all that is no other lane's, without those of `lacks`, bits
 * of features that this machine or its knobs do not allow.
 */
uint64_t twi_features_word(struct twi_features mine, enum twi_lane_id lane, uint32_t lacks);

/* A word in which a feature is required that is not offered is none. */
static inline bool twi_features_valid(uint64_t word)
{
	return ((uint32_t)(word >> 32) & ~(uint32_t)word) == 0;
}

/*
 * What this side and the peer at `address` agree on. TOW_OK and the bits in *agreed_out; or
 * TOW_EPROTOCOL, with a message that names the feature, its number and the versions of both sides.
 */
int twi_features_agree(const char *address, const struct twi_feature_side *ours,
		       const struct twi_feature_side *theirs, uint32_t *agreed_out);

/* The name of feature `bit`, static; "unknown" for one that is not in the list. */
const char *twi_feature_name(unsigned bit);

/* A member of one object of /v1/peers: the names of the agreed ones. */
void twi_features_describe(uint32_t agreed, struct twi_emit *emit);

#endif
