/* sizes.c - see sizes.h. */
#include "bench/common/sizes.h"

#include <stdlib.h>

bool bench_parse_sizes(const char *text, uint64_t least, struct bench_sizes *out)
{
	const char *at = text;

	out->count = 0;
	do {
		char *end;
		unsigned long long value = strtoull(at, &end, 10);
		unsigned int shift = 0;

		if (*end == 'K' || *end == 'k')
			shift = 10;
		else if (*end == 'M' || *end == 'm')
			shift = 20;
		end += shift != 0;
		if (end == at || (*end != ',' && *end != '\0') || *at == '-' || value < least ||
		    value > (UINT64_C(1) << 30) >> shift || out->count == BENCH_SIZES_MAX)
			return false;
		out->bytes[out->count++] = (uint64_t)value << shift;
		at = *end == ',' ? end + 1 : end;
	} while (*at != '\0');
	return true;
}

const char *bench_env(const char *name, const char *fallback)
{
	const char *value = getenv(name);

	return value != NULL && value[0] != '\0' ? value : fallback;
}
