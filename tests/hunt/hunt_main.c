/*
 * hunt_main.c - a rank: opens the runtime and the group, lets the sides play for some seconds, and
 * looks that nothing is left.
 *
 *	hunt SEED SECONDS ACTS [dying]
 *
 * ACTS has a letter for each side: m messages, c collectives, b barriers, r calls, g groups,
 * p peers of its own, d a device, a memory, f another library's collectives, q questions, t traces,
 * k forks; and s, once, for collectives that go on with those who live.
 */
#include "hunt.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const struct act {
	char letter;
	const char *name;
	hunt_round round;
	bool alone; /* the ranks need not agree */
} acts[] = {
	{ 'm', "messages", hunt_messages, false },  { 'c', "collectives", hunt_colls, false },
	{ 'b', "barriers", hunt_barriers, false },  { 'r', "calls", hunt_calls, true },
	{ 'g', "groups", hunt_groups, false },      { 'd', "device", hunt_devices, true },
	{ 'a', "memory", hunt_memory, true },       { 'f', "foreign", hunt_foreign, true },
	{ 'q', "questions", hunt_questions, true }, { 'k', "forks", hunt_forks, true },
	{ 'p', "peers", hunt_peers, false },        { 's', "survivors", hunt_survivors, true },
	{ 't', "traces", hunt_traces, true },
};

static struct hunt_side sides[HUNT_SIDES];
static const struct act *act_of[HUNT_SIDES];

/* Whether all ranks play on: rank 0 says it to each. */
static bool goes_on(struct hunt_side *side)
{
	struct hunt *hunt = side->hunt;
	uint8_t word = hunt_now() < hunt->end_ns;
	uint64_t tag = 0x600000 + side->index;

	side->what = "whether to go on";
	if (act_of[side->index]->alone)
		return word != 0;
	if (hunt->rank != 0) {
		if (!hunt_said(side,
			       tow_recv(hunt->all, 0, &word, 1, tag, HUNT_BOUND_S * HUNT_NS, NULL),
			       "word"))
			return false;
		return word != 0;
	}
	for (uint32_t to = 1; to < hunt->ranks; to++)
		if (!hunt_said(side, tow_send(hunt->all, to, &word, 1, tag, HUNT_BOUND_S * HUNT_NS),
			       "word"))
			return false;
	return word != 0;
}

static void *play(void *argument)
{
	struct hunt_side *side = argument;
	const struct act *act = act_of[side->index];

	do {
		for (int i = 0; i < HUNT_BATCH && !side->lost; i++) {
			side->round++;
			act->round(side);
			atomic_fetch_add(&side->beat, 1);
		}
	} while (!side->lost && goes_on(side));
	/* Others of the side may wait for this rank. */
	if (side->lost)
		tow_group_abort(side->group, "a rank has died");
	return NULL;
}

/* Ends the process where a side stands still. */
static void *watch(void *argument)
{
	struct hunt *hunt = argument;
	uint64_t beats[HUNT_SIDES] = { 0 }, since[HUNT_SIDES];

	for (uint32_t i = 0; i < hunt->sides; i++)
		since[i] = hunt_now();
	while (!atomic_load(&hunt->over)) {
		struct timespec nap = { .tv_nsec = 100000000 };

		nanosleep(&nap, NULL);
		for (uint32_t i = 0; i < hunt->sides; i++) {
			uint64_t beat = atomic_load(&sides[i].beat);

			if (beat != beats[i] || beat == UINT64_MAX)
				since[i] = hunt_now();
			beats[i] = beat;
			if (hunt_now() - since[i] > (HUNT_BOUND_S + 10) * HUNT_NS)
				hunt_bad(&sides[i], "it stands still");
		}
	}
	return NULL;
}

static void need(int status, const char *what)
{
	if (status >= 0)
		return;
	fprintf(stderr, "hunt: %s: %s: %s\n", what, tow_status_name(status), tow_error_message());
	_exit(1);
}

static void open_all(struct hunt *hunt, const char *letters)
{
	const char *device = getenv("HUNT_DEVICE");

	need(tow_runtime_open(NULL, &hunt->runtime), "runtime");
	if (device != NULL)
		need(tow_device_open(hunt->runtime, device, &hunt->device), "device");
	need(tow_group_open(hunt->runtime, NULL, &hunt->all), "group");
	hunt->rank = tow_group_rank(hunt->all);
	hunt->ranks = tow_group_size(hunt->all);
	hunt_serve(hunt);
	for (uint32_t i = 0; letters[i] != 0 && i < HUNT_SIDES; i++) {
		struct hunt_side *side = &sides[hunt->sides++];

		for (size_t a = 0; a < sizeof(acts) / sizeof(acts[0]); a++)
			if (acts[a].letter == letters[i])
				act_of[i] = &acts[a];
		if (act_of[i] == NULL)
			need(TOW_EINVAL, "a letter that is no act");
		*side = (struct hunt_side){ .hunt = hunt, .index = i, .act = act_of[i]->name };
		side->shared = hunt->seed * 1000 + i;
		side->own = hunt->seed * 1000000 + hunt->rank * 1000 + i + 77;
		need(tow_group_split(hunt->all, 1, hunt->rank, 60 * HUNT_NS, &side->group),
		     "group of a side");
		need(tow_queue_open(hunt->runtime, 128, &side->queue), "queue");
	}
	need(tow_runtime_seal(hunt->runtime), "seal");
	need(tow_group_barrier(hunt->all, 60 * HUNT_NS), "barrier");
}

/* The number behind a name in a document. */
static long number_of(struct hunt *hunt, const char *path, const char *name)
{
	char *text = NULL, *at;
	long value = -1;

	if (tow_stats_get(hunt->runtime, path, &text) != TOW_OK)
		return -1;
	at = strstr(text, name);
	if (at != NULL)
		value = strtol(at + strlen(name), NULL, 10);
	tow_stats_release(text);
	return value;
}

static void close_all(struct hunt *hunt)
{
	int status;

	if (!hunt->dying)
		need(tow_group_barrier(hunt->all, 60 * HUNT_NS), "last barrier");
	hunt_serve_end(hunt);
	for (uint32_t i = 0; i < hunt->sides; i++)
		need(tow_queue_close(sides[i].queue), "queue close");
	for (uint32_t i = 0; i < hunt->sides; i++)
		need(tow_group_close(sides[i].group), "group close");
	need(tow_group_close(hunt->all), "last group close");
	printf("hunt: rank %u leased %ld\n", hunt->rank,
	       number_of(hunt, "/v1/pool", "\"leased_bytes\":"));
	if (hunt->device != NULL)
		need(tow_device_close(hunt->device), "device close");
	status = tow_runtime_close(hunt->runtime);
	need(status, "runtime close");
}

static void woken(int signal)
{
	(void)signal;
}

/* A signal interrupts system calls all the time, as profilers do. */
static void set_alarm(void)
{
	const char *us = getenv("HUNT_ALARM_US");
	struct sigaction action = { .sa_handler = woken };
	struct itimerval every = { .it_interval.tv_usec = us != NULL ? atoi(us) : 0 };

	every.it_value = every.it_interval;
	sigaction(SIGALRM, &action, NULL);
	if (us != NULL)
		setitimer(ITIMER_REAL, &every, NULL);
}

int main(int argc, char **argv)
{
	static struct hunt hunt;
	pthread_t threads[HUNT_SIDES], watcher;
	uint64_t began;

	if (argc < 4) {
		fprintf(stderr, "usage: hunt SEED SECONDS ACTS [dying]\n");
		return 2;
	}
	hunt.seed = strtoull(argv[1], NULL, 10);
	hunt.dying = argc > 4 && strcmp(argv[4], "dying") == 0;
	hunt.tight = getenv("HUNT_TIGHT") != NULL;
	set_alarm();
	open_all(&hunt, argv[3]);
	began = hunt_now();
	hunt.end_ns = began + strtoull(argv[2], NULL, 10) * HUNT_NS;
	if (hunt.rank == 0)
		printf("hunt: begins\n");
	fflush(stdout);
	pthread_create(&watcher, NULL, watch, &hunt);
	for (uint32_t i = 0; i < hunt.sides; i++)
		pthread_create(&threads[i], NULL, play, &sides[i]);
	for (uint32_t i = 0; i < hunt.sides; i++) {
		pthread_join(threads[i], NULL);
		atomic_store(&sides[i].beat, UINT64_MAX);
	}
	printf("hunt: rank %u played %.1f s, rounds", hunt.rank,
	       (double)(hunt_now() - began) / 1e9);
	for (uint32_t i = 0; i < hunt.sides; i++)
		printf(" %c%llu%s", act_of[i]->letter, (unsigned long long)sides[i].round,
		       sides[i].lost ? "(lost)" : "");
	printf("\n");
	atomic_store(&hunt.over, true);
	pthread_join(watcher, NULL);
	close_all(&hunt);
	return 0;
}
