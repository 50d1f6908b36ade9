/*
 * malloc_swaps.c - the part "swaps" of malloc_program: one thread attaches and detaches a runtime,
 * and is interrupted at any step. Another one attaches a second runtime meanwhile.
 */
#include "malloc_program.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static atomic_uint detaches, pauses;
static atomic_bool ends;

static void pause_thread(int signal)
{
	const struct timespec pause = { .tv_nsec = 50000 };

	(void)signal;
	nanosleep(&pause, NULL);
	pauses++;
}

static void *swap_runtime(void *arg)
{
	while (!ends) {
		towline_malloc_attach(arg);
		towline_malloc_detach(arg);
		detaches++;
	}
	return NULL;
}

static void *interrupt_thread(void *arg)
{
	while (!ends) {
		unsigned before = pauses;

		pthread_kill(*(pthread_t *)arg, SIGUSR1);
		while (pauses == before)
			usleep(20);
	}
	return NULL;
}

/* A runtime is attached at any step of another one's detach, and gets what is allocated then. */
void swap_runtimes(void)
{
	struct sigaction action = { .sa_handler = pause_thread };
	struct tow_runtime *other;
	pthread_t swapping, interrupting;
	unsigned before;

	open_runtime();
	other = runtime;
	open_runtime();
	TWT_MUST(sigaction(SIGUSR1, &action, NULL) == 0);
	TWT_MUST(pthread_create(&swapping, NULL, swap_runtime, other) == 0);
	TWT_MUST(pthread_create(&interrupting, NULL, interrupt_thread, &swapping) == 0);
	for (time_t end = time(NULL) + 3; time(NULL) < end;) {
		void *a;

		while (towline_malloc_attach(runtime) != TOW_OK)
			;
		before = detaches;
		while (detaches - before < 2)
			sched_yield();
		a = malloc(MIB);
		TWT_MUST(is_placed(a));
		free(a);
		towline_malloc_detach(runtime);
	}
	ends = true;
	pthread_join(interrupting, NULL);
	pthread_join(swapping, NULL);
	close_runtime();
	runtime = other;
}
