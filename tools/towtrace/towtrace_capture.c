/*
 * towtrace_capture.c - captures all ranks of a job on this host at once, through their stats
 * sockets. One thread for each rank asks and waits, so that all have the same window.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/status.h>

#include "tools/common/http_unix.h"
#include "tools/common/runtimes.h"
#include "tools/common/words.h"
#include "tools/towtrace/towtrace.h"

/* Time beyond the window, in which a runtime writes its answer. */
#define PATIENCE_MS     30000
#define TRACE_BYTES_MAX ((size_t)1 << 30)
#define STACK_BYTES     (256 << 10)

struct ask {
	pthread_t thread;
	int running;
	const char *socket_path;
	long seconds;
	struct trace_document *trace; /* NULL: see error */
	char error[1024];
};

/* Stores the first line of the runtime's error message. */
static void say_refused(struct ask *ask, struct http_answer *answer)
{
	char said[512];

	answer->body[strcspn(answer->body, "\r\n")] = '\0';
	words_clean(said, sizeof(said), answer->body);
	snprintf(ask->error, sizeof(ask->error), "%s answers %d: %s", ask->socket_path,
		 answer->status, said);
}

static void *ask_one(void *arg)
{
	struct ask *ask = arg;
	struct http_limits limits = { PATIENCE_MS + ask->seconds * 1000, TRACE_BYTES_MAX };
	struct http_answer answer;
	char path[80];

	snprintf(path, sizeof(path), "/v1/trace?seconds=%ld&format=xspace", ask->seconds);
	if (http_get_within(ask->socket_path, path, &limits, &answer, ask->error,
			    sizeof(ask->error)) != 0)
		return NULL;
	if (answer.status != 200)
		say_refused(ask, &answer);
	else if (trace_document_load(answer.body, answer.bytes, &ask->trace) < 0)
		snprintf(ask->error, sizeof(ask->error), "%s: %s", ask->socket_path,
			 tow_error_message());
	http_answer_fini(&answer);
	return NULL;
}

static void start_ask(struct ask *ask, const char *socket_path, long seconds)
{
	pthread_attr_t attributes;

	*ask = (struct ask){ .socket_path = socket_path, .seconds = seconds };
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	ask->running = pthread_create(&ask->thread, &attributes, ask_one, ask) == 0;
	pthread_attr_destroy(&attributes);
	if (!ask->running)
		snprintf(ask->error, sizeof(ask->error), "%s: no thread can be started for it",
			 socket_path);
}

static struct trace_document *collect_traces(struct ask *asks, size_t count, size_t *missed_out)
{
	struct trace_document *all = NULL;

	*missed_out = 0;
	for (size_t i = 0; i < count; i++) {
		struct ask *ask = &asks[i];

		if (ask->running)
			pthread_join(ask->thread, NULL);
		if (ask->trace != NULL && all == NULL) {
			all = ask->trace;
			continue;
		}
		if (ask->trace != NULL && trace_document_merge(all, ask->trace) < 0) {
			snprintf(ask->error, sizeof(ask->error), "%s: %s", ask->socket_path,
				 tow_error_message());
			trace_document_release(ask->trace);
			ask->trace = NULL;
		} else if (ask->trace != NULL) {
			trace_document_release(ask->trace);
			continue;
		}
		++*missed_out;
		fprintf(stderr, "towtrace: %s\n", ask->error);
	}
	return all;
}

/*
 * Length of "job" in "job.7" or "job.7-1234". A job's name may have dots; the last one begins the
 * rank.
 */
static size_t job_length(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot != NULL ? (size_t)(dot - name) : strlen(name);
}

static int same_job(const char *name, const char *job, size_t length)
{
	return job_length(name) == length && strncmp(name, job, length) == 0;
}

/*
 * Finds the live runtimes of one job. Returns -1 after a message if there is none, or more than one
 * job.
 */
static int choose_sockets(const struct runtime_list *list, const char *job, const char **sockets,
			  size_t *count_out)
{
	size_t length = job != NULL ? strlen(job) : 0;

	*count_out = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct runtime_entry *row = &list->rows[i];

		if (row->live != 1)
			continue;
		if (job == NULL) {
			job = row->name;
			length = job_length(job);
		} else if (!same_job(row->name, job, length)) {
			if (job[length] == '\0')
				continue;
			fprintf(stderr,
				"towtrace: several jobs run here, such as those of %s and %s; "
				"name one with --job\n",
				job, row->name);
			return -1;
		}
		if (same_job(row->name, job, length))
			sockets[(*count_out)++] = row->path;
	}
	if (*count_out > 0)
		return 0;
	if (job != NULL)
		fprintf(stderr, "towtrace: no live runtime is of the job %s\n", job);
	else
		fprintf(stderr, "towtrace: there is no live runtime here that you may see; is "
				"TOW_STATS_DIR set as it is for the program?\n");
	return -1;
}

static struct trace_document *capture_sockets(const char *const *sockets, size_t count,
					      long seconds, size_t *missed_out)
{
	struct ask *asks = calloc(count + 1, sizeof(*asks));
	struct trace_document *trace;

	if (asks == NULL) {
		fprintf(stderr, "towtrace: no memory\n");
		return NULL;
	}
	for (size_t i = 0; i < count; i++)
		start_ask(&asks[i], sockets[i], seconds);
	trace = collect_traces(asks, count, missed_out);
	free(asks);
	return trace;
}

struct trace_document *capture(const struct capture_options *options, size_t *missed_out)
{
	struct runtime_list list = { 0 };
	const char **found;
	size_t count = options->socket_count;
	struct trace_document *trace = NULL;

	*missed_out = 0;
	if (count > 0)
		return capture_sockets(options->sockets, count, options->seconds, missed_out);
	if (find_runtimes(&list) != 0)
		return NULL;
	found = calloc(list.count + 1, sizeof(*found));
	if (found != NULL && choose_sockets(&list, options->job, found, &count) == 0)
		trace = capture_sockets(found, count, options->seconds, missed_out);
	free(found);
	runtime_list_fini(&list);
	return trace;
}
