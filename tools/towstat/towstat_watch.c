/*
 * towstat_watch.c - prints rates of one rank, or of all ranks of a job together.
 *
 * A rate is the difference of two readings, divided by the time between them. See reading.h. A rank
 * that has ended leaves the sum with all of its counts. So a line is about the ranks that answered
 * at both its beginning and its end.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tools/common/http_unix.h"
#include "tools/towstat/reading.h"
#include "tools/towstat/towstat.h"

#define ALL_TIMEOUT_MS 2000
#define ALL_BYTES_MAX  (4u << 20)

json_t *fetch_json(const char *socket_path, const char *path)
{
	struct http_answer answer;
	json_error_t wrong;
	char error[512];
	json_t *root;

	if (http_get(socket_path, path, &answer, error, sizeof(error)) != 0) {
		fprintf(stderr, "towstat: %s\n", error);
		return NULL;
	}
	root = answer.status == 200 ? json_loadb(answer.body, answer.bytes, 0, &wrong) : NULL;
	if (root == NULL)
		fprintf(stderr, "towstat: %s: %s answers %d and no JSON\n", socket_path, path,
			answer.status);
	http_answer_fini(&answer);
	return root;
}

json_t **fetch_all(const struct runtime_list *targets, const char *path)
{
	const struct http_limits limits = { ALL_TIMEOUT_MS, ALL_BYTES_MAX };
	struct http_ask_of *asks = calloc(targets->count + 1, sizeof(*asks));
	json_t **all = calloc(targets->count + 1, sizeof(json_t *));

	if (asks == NULL || all == NULL) {
		free(asks);
		free(all);
		return NULL;
	}
	for (size_t i = 0; i < targets->count; i++)
		asks[i].socket_path = targets->rows[i].path;
	http_ask_all(asks, targets->count, path, &limits);
	for (size_t i = 0; i < targets->count; i++) {
		const struct http_answer *answer = &asks[i].ask.answer;

		if (asks[i].ask.state == HTTP_DONE && answer->status == 200)
			all[i] = json_loadb(answer->body, answer->bytes, 0, NULL);
		http_ask_fini(&asks[i].ask);
	}
	free(asks);
	return all;
}

void fetched_free(json_t **all, size_t count)
{
	for (size_t i = 0; all != NULL && i < count; i++)
		json_decref(all[i]);
	free(all);
}

static int take_reading(const char *socket_path, struct reading *out)
{
	json_t *counters = fetch_json(socket_path, "/v1/counters"), *latency;

	if (counters == NULL)
		return -1;
	out->at_s = http_now_s();
	reading_counters(out, counters);
	json_decref(counters);
	latency = fetch_json(socket_path, "/v1/latency");
	if (latency == NULL)
		return -1;
	reading_latency(out, latency);
	json_decref(latency);
	return 0;
}

/* Writes microseconds; "-" when nothing ended in the interval. */
static void micros_text(double ns, char *out, size_t size)
{
	if (ns < 0)
		snprintf(out, size, "-");
	else
		snprintf(out, size, "%.1f", ns / 1e3);
}

static void print_line(const struct reading *from, const struct reading *to)
{
	char p50[32], p99[32], clock[16] = "";
	time_t now = time(NULL);
	struct figures figures;
	struct tm parts;

	if (localtime_r(&now, &parts) != NULL)
		strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
	figures_between(from, to, &figures);
	micros_text(figures.p50_ns, p50, sizeof(p50));
	micros_text(figures.p99_ns, p99, sizeof(p99));
	printf("%-8s %10.1f %10.1f %10.0f %10.0f %10.1f %10.1f %9s %9s\n", clock,
	       figures.out_bytes / 1e6, figures.in_bytes / 1e6, figures.sends, figures.recvs,
	       figures.copied_bytes / 1e6, figures.late_bytes / 1e6, p50, p99);
	fflush(stdout);
}

static void print_columns(void)
{
	printf("%-8s %10s %10s %10s %10s %10s %10s %9s %9s\n", "time", "send MB/s", "recv MB/s",
	       "sends/s", "recvs/s", "copy MB/s", "late MB/s", "p50 us", "p99 us");
}

void nap(double seconds)
{
	struct timespec left = { (time_t)seconds,
				 (long)((seconds - (double)(time_t)seconds) * 1e9) };

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		continue;
}

struct watched {
	struct reading readings[2];
	int answers; /* it has answered every time */
};

/* Reads all ranks that have answered so far. Returns how many still do. */
static size_t take_all(const struct runtime_list *targets, struct watched *watched, size_t which)
{
	size_t count = 0;

	for (size_t i = 0; i < targets->count; i++) {
		struct watched *one = &watched[i];

		one->answers = one->answers &&
			       take_reading(targets->rows[i].path, &one->readings[which]) == 0;
		count += (size_t)one->answers;
	}
	return count;
}

static void sum_up(const struct runtime_list *targets, const struct watched *watched, size_t which,
		   struct reading *out)
{
	*out = (struct reading){ 0 };
	for (size_t i = 0; i < targets->count; i++) {
		if (watched[i].answers)
			reading_add(out, &watched[i].readings[which]);
	}
}

static int watch_all(const struct runtime_list *targets, const struct watch_options *options,
		     struct watched *watched, struct reading *sums)
{
	size_t last = 0, left;

	for (size_t i = 0; i < targets->count; i++)
		watched[i].answers = 1;
	left = take_all(targets, watched, 0);
	if (left > 0 && targets->count > 1)
		printf("%zu ranks together\n", left);
	for (long line = 0; left > 0 && (options->count == 0 || line < options->count); line++) {
		if (line % 20 == 0)
			print_columns();
		nap(options->seconds);
		left = take_all(targets, watched, 1 - last);
		sum_up(targets, watched, last, &sums[0]);
		sum_up(targets, watched, 1 - last, &sums[1]);
		if (left > 0)
			print_line(&sums[0], &sums[1]);
		last = 1 - last;
	}
	return left == 0;
}

int watch(const struct runtime_list *targets, const struct watch_options *options)
{
	struct watched *watched = calloc(targets->count, sizeof(*watched));
	struct reading *sums = calloc(2, sizeof(*sums));
	int status = 1;

	if (watched == NULL || sums == NULL)
		fprintf(stderr, "towstat: no memory\n");
	else
		status = watch_all(targets, options, watched, sums);
	free(watched);
	free(sums);
	return status;
}
