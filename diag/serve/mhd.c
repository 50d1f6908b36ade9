/*
 * mhd.c - finds the functions of libmicrohttpd. See mhd.h.
 */
#include "diag/serve/mhd.h"

#include <internal/base.h>

#include "diag/base/lazy.h"

struct twi_mhd twi_mhd;

int twi_mhd_load(void)
{
#define SYMBOL(name) { "MHD_" #name, &twi_mhd.name },
	static const struct twi_lazy_symbol symbols[] = { TWI_MHD_MAP(SYMBOL) };
#undef SYMBOL
	static struct twi_lazy library = {
		.file = TWI_MHD_FILE,
		.use = "the stats server",
		.symbols = symbols,
		.symbol_count = twi_array_count(symbols),
	};

	return twi_lazy_load(&library);
}
