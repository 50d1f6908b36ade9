/*
 * size_job.c - a rank of the sizing laboratory: `size_job FILE STEPS`. It plays what FILE says
 * (size_job.h), says `ready` when some steps are over and `done` with what its pool had no room for
 * after all of them, and stays, to be asked for its log, until its input ends.
 */
#include "size_job.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define WARM_STEPS 3
#define LIFE_S     120

void size_fail(const char *what, const char *why)
{
	fprintf(stderr, "size_job: %s: %s\n", what, why);
	fflush(NULL);
	_exit(2);
}

void size_check(int status, const char *what)
{
	char why[512];

	if (status >= 0)
		return;
	snprintf(why, sizeof(why), "%s: %s", tow_status_name(status), tow_error_message());
	size_fail(what, why);
}

static void *play_thread(void *arg)
{
	struct size_thread *thread = arg;

	for (uint64_t step = 0; step < thread->job->steps; step++) {
		for (uint32_t i = thread->setup; i < thread->count; i++)
			size_play(thread, &thread->act[i], step);
		if (thread->index == 0 && step + 1 == WARM_STEPS)
			puts("ready");
	}
	return NULL;
}

static void open_job(struct size_job *job)
{
	uint32_t size;

	size_check(tow_runtime_open(NULL, &job->runtime), "tow_runtime_open");
	size_check(tow_group_open(job->runtime, NULL, &job->group), "tow_group_open");
	size = tow_group_size(job->group);
	if (size > 2)
		size_fail("job", "has more than two ranks");
	job->other = 1 - tow_group_rank(job->group);
	size_serve(job);
	if (size == 2)
		size_check(tow_group_connect(job->group, job->other, SIZE_LIMIT_NS, &job->peer),
			   "tow_group_connect");
	size_check(tow_group_barrier(job->group, SIZE_LIMIT_NS), "tow_group_barrier");
}

static unsigned long long number_of(struct size_job *job, const char *path, const char *name)
{
	unsigned long long value = 0;
	char key[64], *text;
	const char *at;

	size_check(tow_stats_get(job->runtime, path, &text), path);
	snprintf(key, sizeof(key), "\"%s\":", name);
	at = strstr(text, key);
	if (at == NULL || sscanf(at + strlen(key), "%llu", &value) != 1)
		size_fail(path, "has not what is looked for");
	tow_stats_release(text);
	return value;
}

static void tell_counts(struct size_job *job)
{
	printf("done late %llu refused %llu grown %llu peak %llu\n",
	       number_of(job, "/v1/counters", "late_registrations"),
	       number_of(job, "/v1/counters", "pool_exhausted"),
	       number_of(job, "/v1/counters", "pool_grown"),
	       number_of(job, "/v1/pool", "allocated_peak_bytes"));
}

int main(int argc, char **argv)
{
	static struct size_job job;
	char byte;

	if (argc != 3)
		size_fail("size_job", "FILE STEPS");
	setvbuf(stdout, NULL, _IOLBF, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(LIFE_S);
	job.steps = strtoull(argv[2], NULL, 10);
	size_read(&job, argv[1]);
	open_job(&job);
	for (uint32_t i = 0; i < job.threads; i++)
		for (uint32_t k = 0; k < job.thread[i].setup; k++)
			size_play(&job.thread[i], &job.thread[i].act[k], 0);
	size_check(tow_runtime_seal(job.runtime), "tow_runtime_seal");
	for (uint32_t i = 1; i < job.threads; i++)
		if (pthread_create(&job.thread[i].id, NULL, play_thread, &job.thread[i]) != 0)
			size_fail("job", "no thread");
	play_thread(&job.thread[0]);
	for (uint32_t i = 1; i < job.threads; i++)
		pthread_join(job.thread[i].id, NULL);
	size_check(tow_group_barrier(job.group, SIZE_LIMIT_NS), "tow_group_barrier");
	tell_counts(&job);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	_exit(0);
}
