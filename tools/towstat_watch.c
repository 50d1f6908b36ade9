/*
 * towstat_watch.c - rates of one rank: the difference of two readings, divided by the time between
 * them. See reading.h.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "http_unix.h"
#include "reading.h"
#include "towstat.h"

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

static int take(const char *socket_path, struct reading *out)
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

/* In microseconds; "-" when nothing ended in the interval. */
static void micros(double ns, char *out, size_t size)
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
	micros(figures.p50_ns, p50, sizeof(p50));
	micros(figures.p99_ns, p99, sizeof(p99));
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

int watch(const char *socket_path, const struct watch_options *options)
{
	struct reading *readings = calloc(2, sizeof(*readings));
	int status = 0;

	if (readings == NULL || take(socket_path, &readings[0]) != 0) {
		free(readings);
		return 1;
	}
	for (long line = 0; status == 0 && (options->count == 0 || line < options->count); line++) {
		if (line % 20 == 0)
			print_columns();
		nap(options->seconds);
		status = take(socket_path, &readings[(line + 1) % 2]) != 0;
		if (status == 0)
			print_line(&readings[line % 2], &readings[(line + 1) % 2]);
	}
	free(readings);
	return status;
}
