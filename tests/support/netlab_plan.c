/* netlab_plan.c - what is sent in a run, from its seed. */
#include "netlab_plan.h"

uint64_t twt_nl_mix(uint64_t seed, int sender, uint64_t number)
{
	uint64_t state = seed * 0x2545f4914f6cdd1dull + number * 2 + (uint64_t)sender;

	twt_random(&state);
	return twt_random(&state);
}

uint64_t twt_nl_bytes(const struct twt_nl_plan *plan, int sender, uint64_t number)
{
	uint64_t r = twt_nl_mix(plan->seed, sender, number), kind = r % 10;
	uint64_t bound = kind < 5 ? 2048 : kind < 8 ? 65536 : kind < 9 ? 262144 : plan->largest;

	if (number == 0 && sender == 0 && plan->huge != 0)
		return plan->huge;
	bound = bound < plan->largest ? bound : plan->largest;
	return (r >> 8) % (bound + 1);
}

enum twt_nl_fate twt_nl_fate_of(const struct twt_nl_plan *plan, int sender, uint64_t number)
{
	uint64_t r = twt_nl_mix(plan->seed + 1, sender, number);

	if (r % 1000 >= plan->withdrawn_ppt || (number == 0 && plan->huge != 0))
		return NL_ARRIVES;
	return NL_CANCELED + (r >> 10) % 3;
}

uint64_t twt_nl_word(uint64_t key, uint64_t at)
{
	return key + at * 0x9e3779b97f4a7c15ull;
}

void twt_nl_fill(uint8_t *data, uint64_t bytes, uint64_t key)
{
	for (uint64_t at = 0; at < bytes; at += 8) {
		uint64_t word = twt_nl_word(key, at);

		memcpy(data + at, &word, bytes - at < 8 ? bytes - at : 8);
	}
}

bool twt_nl_is(const uint8_t *data, uint64_t bytes, uint64_t key)
{
	for (uint64_t at = 0; at < bytes; at += 8) {
		uint64_t word = twt_nl_word(key, at);

		if (memcmp(data + at, &word, bytes - at < 8 ? bytes - at : 8) != 0)
			return false;
	}
	return true;
}

uint64_t twt_nl_key(const struct twt_nl_plan *plan, int sender, uint64_t number)
{
	return twt_nl_mix(plan->seed + 2, sender, number);
}
