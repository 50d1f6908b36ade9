/*
 * tls_user.c - a library with static TLS, as accelerator and OpenMP runtimes have it: it takes from
 * the little that is left for libraries that are loaded late.
 */
#define USER __attribute__((visibility("default")))

static __thread char memory[512] __attribute__((tls_model("initial-exec")));

USER char *tls_user_memory(void);

char *tls_user_memory(void)
{
	return memory;
}
