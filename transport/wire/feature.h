/*
 * feature.h - the features that two sides of a connection agree on before the first message. Pure.
 *
 * Each side sends one word of 64 bits in its HELLO, on every lane:
 *
 *	63                   32 31                    0
 *	+----------------------+----------------------+
 *	| required             | offered              |      bit n and bit 32 + n: feature n
 *	+----------------------+----------------------+
 *
 * A feature that both sides offer is agreed, and is in use. If one side requires a feature that the
 * other does not offer, or does not know, the handshake ends. Both sides compute this from the same
 * two words, so both report the same feature. A feature that a reader does not know, and that no
 * side requires, has no effect. feature.def is the list.
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

/* The features of one side, or those that both have agreed on (required is 0 then). */
struct twi_features {
	uint32_t offered, required; /* required is a part of offered */
};

/* One side of a handshake: its word, and the version of its lane's greeting. */
struct twi_feature_side {
	uint64_t word;
	uint16_t major, minor;
};

/* The features that this version has built, for all lanes. It requires none. */
struct twi_features twi_features_built(void);

/*
 * Makes the word that a lane sends: the features of `mine` without those of other lanes. `lacks`
 * has the bits of features that this machine or its knobs do not allow; the word is without them.
 */
uint64_t twi_features_word(struct twi_features mine, enum twi_lane_id lane, uint32_t lacks);

/* Whether the word is valid: it offers all features that it requires. */
static inline bool twi_features_valid(uint64_t word)
{
	return ((uint32_t)(word >> 32) & ~(uint32_t)word) == 0;
}

/*
 * Computes the features that this side and the peer at `address` agree on. TOW_OK, and the bits in
 * *agreed_out; TOW_EPROTOCOL, with a message that names the feature, its number, and the versions
 * of both sides.
 */
int twi_features_agree(const char *address, const struct twi_feature_side *ours,
		       const struct twi_feature_side *theirs, uint32_t *agreed_out);

/* The name of feature `bit`, static; "unknown" for a feature that is not in the list. */
const char *twi_feature_name(unsigned bit);

/* Writes a member of one object of /v1/peers: the names of the agreed features. */
void twi_features_describe(uint32_t agreed, struct twi_emit *emit);

#endif
