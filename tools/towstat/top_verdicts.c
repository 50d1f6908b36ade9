/*
 * top_verdicts.c - see top_verdicts.h.
 */
#include "tools/towstat/top_verdicts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/http_unix.h"

#define JOBS_MAX    32
#define EVERY_MS    5000
#define DEADLINE_MS 4000 /* the rank asks other ranks, and waits for stuck ones */
#define BYTES_MAX   (1u << 20)

struct job {
	char name[TOP_NAME_BYTES];
	long long asked_ms;
	struct http_ask ask;
	struct verdict verdict;
};

struct top_verdicts {
	size_t count;
	struct job jobs[JOBS_MAX];
};

struct top_verdicts *top_verdicts_open(void)
{
	return calloc(1, sizeof(struct top_verdicts));
}

void top_verdicts_close(struct top_verdicts *verdicts)
{
	for (size_t i = 0; verdicts != NULL && i < verdicts->count; i++)
		http_ask_fini(&verdicts->jobs[i].ask);
	free(verdicts);
}

static struct job *find_job(const struct top_verdicts *verdicts, const char *name)
{
	for (size_t i = 0; i < verdicts->count; i++) {
		if (strcmp(verdicts->jobs[i].name, name) == 0)
			return (struct job *)&verdicts->jobs[i];
	}
	return NULL;
}

/* Adds a job. When there is no room, it replaces the job that was asked the longest ago. */
static struct job *make_job(struct top_verdicts *verdicts, const char *name)
{
	struct job *job = &verdicts->jobs[0];

	if (verdicts->count < JOBS_MAX) {
		job = &verdicts->jobs[verdicts->count++];
	} else {
		for (size_t i = 1; i < JOBS_MAX; i++) {
			if (verdicts->jobs[i].asked_ms < job->asked_ms)
				job = &verdicts->jobs[i];
		}
		http_ask_fini(&job->ask);
	}
	*job = (struct job){ 0 };
	snprintf(job->name, sizeof(job->name), "%s", name);
	return job;
}

void top_verdicts_ask(struct top_verdicts *verdicts, const struct top_row *row,
		      const char *socket_path)
{
	struct job *job = find_job(verdicts, row->job);
	long long now = http_now_ms();

	if (job == NULL)
		job = make_job(verdicts, row->job);
	if (job->ask.state != HTTP_IDLE || (job->asked_ms != 0 && now - job->asked_ms < EVERY_MS))
		return;
	job->asked_ms = now;
	http_ask_start(&job->ask, socket_path, "/v1/verdict", now + DEADLINE_MS, BYTES_MAX);
}

size_t top_verdicts_poll(const struct top_verdicts *verdicts, struct pollfd *out, size_t room)
{
	size_t count = 0;
	short events;

	for (size_t i = 0; i < verdicts->count && count < room; i++) {
		const struct http_ask *ask = &verdicts->jobs[i].ask;

		if (http_ask_waits(ask, &events))
			out[count++] = (struct pollfd){ ask->fd, events, 0 };
	}
	return count;
}

/* Without an answer nothing is known: an old verdict would be misleading. */
static void take_verdict(struct job *job)
{
	const struct http_answer *answer = &job->ask.answer;
	json_t *document = NULL;

	if (job->ask.state == HTTP_DONE && answer->status == 200)
		document = json_loadb(answer->body, answer->bytes, 0, NULL);
	reading_verdict(document, &job->verdict);
	json_decref(document);
	http_ask_fini(&job->ask);
}

size_t top_verdicts_step(struct top_verdicts *verdicts)
{
	size_t under_way = 0;
	short events;

	for (size_t i = 0; i < verdicts->count; i++) {
		struct job *job = &verdicts->jobs[i];

		http_ask_step(&job->ask);
		if (http_ask_waits(&job->ask, &events))
			under_way++;
		else if (job->ask.state != HTTP_IDLE)
			take_verdict(job);
	}
	return under_way;
}

long long top_verdicts_deadline(const struct top_verdicts *verdicts)
{
	long long first = 0;
	short events;

	for (size_t i = 0; i < verdicts->count; i++) {
		const struct http_ask *ask = &verdicts->jobs[i].ask;

		if (http_ask_waits(ask, &events) && (first == 0 || ask->deadline_ms < first))
			first = ask->deadline_ms;
	}
	return first;
}

/* Writes "slow: rank 2 is late". A healthy job, or one without text, has only its state. */
static void tell_job(const struct verdict *verdict, struct top_row *row)
{
	if (verdict->state[0] == '\0')
		snprintf(row->verdict, sizeof(row->verdict), "%s",
			 verdict->text[0] != '\0' ? verdict->text : "not known");
	else if (strcmp(verdict->state, verdict->text) == 0 || verdict->text[0] == '\0')
		snprintf(row->verdict, sizeof(row->verdict), "%s", verdict->state);
	else
		snprintf(row->verdict, sizeof(row->verdict), "%s: %.*s", verdict->state,
			 (int)(sizeof(row->verdict) - sizeof(verdict->state) - 3), verdict->text);
}

void top_verdicts_tell(const struct top_verdicts *verdicts, struct top_row *row)
{
	static const struct verdict unknown;
	const struct job *job = find_job(verdicts, row->job);
	const struct verdict *verdict = job != NULL ? &job->verdict : &unknown;

	row->accused = false;
	for (size_t i = 0; i < verdict->rank_count; i++)
		row->accused = row->accused || verdict->ranks[i] == row->rank;
	row->healthy = strcmp(verdict->state, "healthy") == 0;
	tell_job(verdict, row);
	snprintf(row->says, sizeof(row->says), "%s",
		 row->accused && verdict->cause[0] != '\0' ? verdict->cause
		 : verdict->state[0] != '\0'               ? verdict->state
							   : "?");
}
