/*
 * sodium_lazy.h - libsodium, which is loaded when a job key is first used (diag/base/lazy.h).
 * Random bytes, which a connection without a key needs too, come from here without it.
 */
#ifndef TWI_SODIUM_LAZY_H
#define TWI_SODIUM_LAZY_H

#include <sodium.h>
#include <stddef.h>

/* The functions of libsodium that the library calls. */
#define TWI_SODIUM_MAP(X)                                                                          \
	X(sodium_init)                                                                             \
	X(crypto_generichash)                                                                      \
	X(crypto_generichash_init)                                                                 \
	X(crypto_generichash_update)                                                               \
	X(crypto_generichash_final)                                                                \
	X(crypto_scalarmult)                                                                       \
	X(crypto_scalarmult_base)                                                                  \
	X(crypto_secretstream_xchacha20poly1305_init_pull)                                         \
	X(crypto_secretstream_xchacha20poly1305_push)                                              \
	X(crypto_secretstream_xchacha20poly1305_pull)                                              \
	X(sodium_memcmp)

struct twi_sodium {
#define TWI_SODIUM_MEMBER(name) __typeof__(&name) name;
	TWI_SODIUM_MAP(TWI_SODIUM_MEMBER)
#undef TWI_SODIUM_MEMBER
};

/* Set once twi_sodium_load has returned TOW_OK. */
extern struct twi_sodium twi_sodium;

/* TOW_OK: it is initialised; TOW_ENOTSUP: it is absent, and the message says why; TOW_ESYSTEM. */
int twi_sodium_load(void);

/* Takes at most 256 random bytes at once from the kernel, which always has them. */
void twi_random_bytes(void *out, size_t bytes);

#endif
