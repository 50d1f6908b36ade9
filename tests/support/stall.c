/*
 * stall.c - makes a machine stand still now and then, as hosts of virtual machines do: one
 * real-time thread on each core takes it for a while, so that nothing else runs there.
 *
 *	stall SECONDS [IDLE_MS [BUSY_MS]]
 *
 * A core is left alone for up to IDLE_MS (600) and then taken for up to BUSY_MS (250), at random
 * and each by itself; after SECONDS it ends. The times replay from TOW_TEST_SEED. It needs the
 * right to real-time scheduling.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_MS     1000000ull
#define SECONDS_MOST  3600
#define MS_MOST       10000
#define IDLE_LEAST_MS 10u

static uint64_t end_ns;
static unsigned idle_ms = 600, busy_ms = 250, seed;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *take_a_core(void *arg)
{
	unsigned cpu = (unsigned)(uintptr_t)arg, random = seed + cpu * 7919;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	while (now_ns() < end_ns) {
		unsigned idle = IDLE_LEAST_MS + (unsigned)rand_r(&random) % idle_ms;
		uint64_t until_ns;

		nanosleep(&(struct timespec){ idle / 1000, idle % 1000 * (long)NS_PER_MS }, NULL);
		until_ns = now_ns() + (uint64_t)rand_r(&random) % busy_ms * NS_PER_MS;
		while (now_ns() < until_ns)
			;
	}
	return NULL;
}

/* `text` as a number of 1 to `most`, else the program ends. */
static unsigned number(const char *text, unsigned most)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text >= '0' && *text <= '9' && *end == '\0' && value > 0 && value <= most)
		return (unsigned)value;
	fprintf(stderr, "stall: '%s' is no number of 1 to %u\n", text, most);
	exit(2);
}

int main(int argc, char **argv)
{
	const struct sched_param first = { .sched_priority = 1 };
	const char *given = getenv("TOW_TEST_SEED");
	cpu_set_t set;

	if (argc < 2 || argc > 4) {
		fputs("usage: stall SECONDS [IDLE_MS [BUSY_MS]]\n", stderr);
		return 2;
	}
	end_ns = now_ns() + 1000 * NS_PER_MS * number(argv[1], SECONDS_MOST);
	idle_ms = argc > 2 ? number(argv[2], MS_MOST) : idle_ms;
	busy_ms = argc > 3 ? number(argv[3], MS_MOST) : busy_ms;
	if (sched_setscheduler(0, SCHED_FIFO, &first) != 0 ||
	    sched_getaffinity(0, sizeof(set), &set) != 0) {
		fprintf(stderr, "stall: no real-time scheduling: %s\n", strerror(errno));
		return 1;
	}
	seed = given != NULL ? number(given, UINT32_MAX) : (unsigned)time(NULL);
	printf("TOW_TEST_SEED=%u\n", seed);
	fflush(stdout);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		pthread_t thread;

		if (CPU_ISSET(cpu, &set) &&
		    pthread_create(&thread, NULL, take_a_core, (void *)(uintptr_t)cpu) != 0)
			return 1;
	}
	pthread_exit(NULL);
}
