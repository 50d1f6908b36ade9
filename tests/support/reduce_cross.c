/*
 * reduce_cross.c - the cases of reduce_case.h without cmocka, for another machine's emulator.
 *
 *	reduce_cross SEED CASES
 */
#include "reduce_case.h"

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t cases = argc > 2 ? strtoull(argv[2], NULL, 0) : 100;
	int wrong = 0;

	for (uint64_t i = 0; i < cases; i++)
		wrong += twt_reduce_run(seed + i);
	for (unsigned v = 0; v < twi_reduce_variant_count; v++)
		printf("%s: %s\n", twi_reduce_variants[v]->name,
		       twi_reduce_variants[v]->usable() ? "compared" : "not of this machine");
	printf("%llu cases, %d wrong\n", (unsigned long long)cases, wrong);
	return wrong != 0;
}
