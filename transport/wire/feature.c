/*
 * feature.c - see feature.h.
 */
#include "transport/wire/feature.h"

#include <internal/base.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"

#define LANES_ALL UINT32_MAX
enum {
#define TWI_LANE(id, ...) LANES_##id = 1 << TWI_LANE_##id,
#include "diag/record/lane.def"
#undef TWI_LANE
};

static const struct {
	const char *name;
	uint32_t lanes;
	bool built;
} features[32] = {
#define TWI_FEATURE(bit, name, lanes, built) [bit] = { #name, LANES_##lanes, built },
#include "transport/wire/feature.def"
#undef TWI_FEATURE
};

struct twi_features twi_features_built(void)
{
	struct twi_features built = { 0 };

	for (unsigned bit = 0; bit < twi_array_count(features); bit++) {
		if (features[bit].built)
			built.offered |= 1u << bit;
	}
	return built;
}

uint64_t twi_features_word(struct twi_features mine, enum twi_lane_id lane, uint32_t lacks)
{
	uint32_t offered = mine.offered & ~lacks;

	for (unsigned bit = 0; bit < twi_array_count(features); bit++) {
		if (features[bit].name != NULL && (features[bit].lanes & 1u << lane) == 0)
			offered &= ~(1u << bit);
	}
	return (uint64_t)(mine.required & offered) << 32 | offered;
}

const char *twi_feature_name(unsigned bit)
{
	return bit < twi_array_count(features) && features[bit].name != NULL ? features[bit].name
									     : "unknown";
}

/* The lowest feature that `asking` requires and `other` does not offer, or -1. */
static int missing_feature(uint64_t asking, uint64_t other)
{
	uint32_t lacks = (uint32_t)(asking >> 32) & ~(uint32_t)other;

	return lacks == 0 ? -1 : __builtin_ctz(lacks);
}

int twi_features_agree(const char *address, const struct twi_feature_side *ours,
		       const struct twi_feature_side *theirs, uint32_t *agreed_out)
{
	int bit = missing_feature(theirs->word, ours->word);

	if (bit >= 0)
		return twi_error(TOW_EPROTOCOL,
				 "peer %s, which speaks version %u.%u, requires feature %d (%s), "
				 "which this side, which speaks %u.%u, does not offer",
				 address, theirs->major, theirs->minor, bit,
				 twi_feature_name((unsigned)bit), ours->major, ours->minor);
	bit = missing_feature(ours->word, theirs->word);
	if (bit >= 0)
		return twi_error(TOW_EPROTOCOL,
				 "this side, which speaks version %u.%u, requires feature %d (%s), "
				 "which peer %s, which speaks %u.%u, does not offer",
				 ours->major, ours->minor, bit, twi_feature_name((unsigned)bit),
				 address, theirs->major, theirs->minor);
	*agreed_out = (uint32_t)ours->word & (uint32_t)theirs->word;
	return TOW_OK;
}

void twi_features_describe(uint32_t agreed, struct twi_emit *emit)
{
	twi_emit_array_begin(emit, "features");
	for (; agreed != 0; agreed &= agreed - 1)
		twi_emit_str(emit, NULL, twi_feature_name((unsigned)__builtin_ctz(agreed)));
	twi_emit_array_end(emit);
}
