/*
 * sodium_lazy.c - finds the functions of libsodium. See sodium_lazy.h.
 */
#include "transport/security/sodium_lazy.h"

#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/lazy.h"

struct twi_sodium twi_sodium;

int twi_sodium_load(void)
{
#define SYMBOL(name) { #name, &twi_sodium.name },
	static const struct twi_lazy_symbol symbols[] = { TWI_SODIUM_MAP(SYMBOL) };
#undef SYMBOL
	static struct twi_lazy library = {
		.file = TWI_SODIUM_FILE,
		.use = "a job key",
		.symbols = symbols,
		.symbol_count = twi_array_count(symbols),
	};
	int status = twi_lazy_load(&library);

	/* sodium_init may be called repeatedly, and by any thread. */
	if (status == TOW_OK && twi_sodium.sodium_init() < 0)
		return twi_error(TOW_ESYSTEM, "libsodium cannot be initialised");
	return status;
}

void twi_random_bytes(void *out, size_t bytes)
{
	const int failed = getentropy(out, bytes);

	/* No kernel since 3.17 refuses this request, and without nonces nothing is safe. */
	twi_assert(failed == 0);
}
