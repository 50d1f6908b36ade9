/*
 * fake_hijack.c - a library that takes all signals for itself: when it is loaded, when it is
 * called, and from a thread that it starts. It stands for those behind libfabric.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#define FAKE __attribute__((visibility("default")))

FAKE void hijack_again(void);
FAKE unsigned hijack_refused(void);

static atomic_uint refused;

static void taken(int sig)
{
	(void)sig;
}

static void take_all(void)
{
	struct sigaction mine = { .sa_handler = taken };

	for (int sig = 1; sig < NSIG; sig++) {
		if (sig != SIGKILL && sig != SIGSTOP && sigaction(sig, &mine, NULL) != 0)
			atomic_fetch_add(&refused, 1);
	}
}

__attribute__((constructor)) static void loaded(void)
{
	take_all();
}

static void *take_in_thread(void *arg)
{
	take_all();
	return arg;
}

void hijack_again(void)
{
	pthread_t thread;

	take_all();
	if (pthread_create(&thread, NULL, take_in_thread, NULL) == 0)
		pthread_join(thread, NULL);
}

/* How often it was not let. */
unsigned hijack_refused(void)
{
	return atomic_load(&refused);
}
