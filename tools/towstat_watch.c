/*
 * towstat_watch.c - rates: the difference of two readings, divided by the time between them.
 *
 * The quantiles of the interval come from the difference of the histograms' buckets, all lanes and
 * sizes together: /v1/latency's own p50 and p99 are those since the start.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http_unix.h"
#include "towstat.h"

#define BUCKETS_MAX 1024

struct bucket {
	json_int_t upper_ns, count;
};

struct reading {
	double at_s;
	json_t *counters;
	size_t bucket_count;
	struct bucket buckets[BUCKETS_MAX]; /* by upper_ns */
};

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

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

static void add_bucket(struct reading *reading, json_int_t upper_ns, json_int_t count)
{
	size_t at = 0;

	while (at < reading->bucket_count && reading->buckets[at].upper_ns < upper_ns)
		at++;
	if (at < reading->bucket_count && reading->buckets[at].upper_ns == upper_ns) {
		reading->buckets[at].count += count;
		return;
	}
	if (reading->bucket_count == BUCKETS_MAX)
		return;
	memmove(&reading->buckets[at + 1], &reading->buckets[at],
		(reading->bucket_count - at) * sizeof(reading->buckets[0]));
	reading->buckets[at] = (struct bucket){ upper_ns, count };
	reading->bucket_count++;
}

static int take(const char *socket_path, struct reading *out)
{
	json_t *counters = fetch_json(socket_path, "/v1/counters"), *latency, *row, *bucket;
	size_t i, j;

	*out = (struct reading){ .at_s = now_s() };
	if (counters == NULL)
		return -1;
	out->counters = json_incref(json_object_get(counters, "counters"));
	json_decref(counters);
	latency = fetch_json(socket_path, "/v1/latency");
	if (latency == NULL) {
		json_decref(out->counters);
		out->counters = NULL;
		return -1;
	}
	json_array_foreach(json_object_get(latency, "rpcs"), i, row)
	{
		json_array_foreach(json_object_get(row, "buckets"), j, bucket)
			add_bucket(out, json_integer_value(json_array_get(bucket, 0)),
				   json_integer_value(json_array_get(bucket, 1)));
	}
	json_decref(latency);
	return 0;
}

static double rate(const struct reading *from, const struct reading *to, const char *name)
{
	json_int_t was = json_integer_value(json_object_get(from->counters, name));
	json_int_t is = json_integer_value(json_object_get(to->counters, name));

	return (double)(is - was) / (to->at_s - from->at_s);
}

static json_int_t count_before(const struct reading *from, json_int_t upper_ns)
{
	for (size_t i = 0; i < from->bucket_count; i++) {
		if (from->buckets[i].upper_ns == upper_ns)
			return from->buckets[i].count;
	}
	return 0;
}

/* In microseconds; "-" when nothing ended in the interval. */
static void quantile(const struct reading *from, const struct reading *to, double q, char *out,
		     size_t size)
{
	json_int_t total = 0, seen = 0;

	for (size_t i = 0; i < to->bucket_count; i++)
		total += to->buckets[i].count - count_before(from, to->buckets[i].upper_ns);
	snprintf(out, size, "-");
	for (size_t i = 0; i < to->bucket_count && total > 0; i++) {
		seen += to->buckets[i].count - count_before(from, to->buckets[i].upper_ns);
		if ((double)seen > q * (double)total || seen == total) {
			snprintf(out, size, "%.1f", (double)to->buckets[i].upper_ns / 1e3);
			return;
		}
	}
}

static void print_line(const struct reading *from, const struct reading *to)
{
	char p50[32], p99[32], clock[16] = "";
	time_t now = time(NULL);
	struct tm parts;

	if (localtime_r(&now, &parts) != NULL)
		strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
	quantile(from, to, 0.5, p50, sizeof(p50));
	quantile(from, to, 0.99, p99, sizeof(p99));
	printf("%-8s %10.1f %10.1f %10.0f %10.0f %10.1f %10.1f %9s %9s\n", clock,
	       rate(from, to, "send_bytes") / 1e6, rate(from, to, "recv_bytes") / 1e6,
	       rate(from, to, "sends"), rate(from, to, "recvs"),
	       rate(from, to, "fallback_copy_bytes") / 1e6,
	       rate(from, to, "late_registration_bytes") / 1e6, p50, p99);
	fflush(stdout);
}

static void print_columns(void)
{
	printf("%-8s %10s %10s %10s %10s %10s %10s %9s %9s\n", "time", "send MB/s", "recv MB/s",
	       "sends/s", "recvs/s", "copy MB/s", "late MB/s", "p50 us", "p99 us");
}

static void nap(double seconds)
{
	struct timespec left = { (time_t)seconds,
				 (long)((seconds - (double)(time_t)seconds) * 1e9) };

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		continue;
}

int watch(const char *socket_path, const struct watch_options *options)
{
	struct reading *readings = calloc(2, sizeof(*readings));
	struct reading *from, *to;
	int status = 0;

	if (readings == NULL || take(socket_path, &readings[0]) != 0) {
		free(readings);
		return 1;
	}
	for (long line = 0; status == 0 && (options->count == 0 || line < options->count); line++) {
		from = &readings[line % 2];
		to = &readings[(line + 1) % 2];
		if (line % 20 == 0)
			print_columns();
		nap(options->seconds);
		status = take(socket_path, to) != 0;
		if (status == 0)
			print_line(from, to);
		json_decref(from->counters);
		from->counters = NULL;
	}
	json_decref(readings[0].counters);
	json_decref(readings[1].counters);
	free(readings);
	return status;
}
