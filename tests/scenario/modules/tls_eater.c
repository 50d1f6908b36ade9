/*
 * tls_eater.c - a library that takes 64 bytes of static TLS. test_full_process loads copies of it
 * until the loader has none left.
 */
#define EATER __attribute__((visibility("default")))

static __thread char memory[64] __attribute__((tls_model("initial-exec"), aligned(64)));

EATER char *tls_eater_memory(void);

char *tls_eater_memory(void)
{
	return memory;
}
