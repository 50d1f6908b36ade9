/*
 * export_scrape.c - see export_scrape.h.
 *
 * towline_up is 1 for a rank whose metrics are in the text. It is 0 for a living rank that did not
 * answer, and for a rank that was seen alive and died without removing its socket. A rank that
 * ended normally has no row.
 *
 * A rank that did not answer gets a quarter of the timeout in the next scrapes, until it answers
 * again. So a stopped rank makes one scrape slow, not all.
 */
#include "tools/towstat/export_scrape.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/http_unix.h"
#include "tools/common/trust.h"
#include "tools/towstat/metrics_merge.h"
#include "tools/towstat/towstat.h"

#define LABELS_BYTES 1024

struct seen {
	char path[256];
	double at_s; /* when it was last seen alive */
	bool slow;   /* it did not answer the last time */
};

struct scraper {
	long long timeout_ms;
	size_t count, room;
	struct seen *seen;
};

struct target {
	struct runtime_entry entry;
	char labels[LABELS_BYTES];
	int up; /* -1: no row */
};

struct scrape {
	struct runtime_list list;
	struct target *targets;
	struct http_ask_of *asks;
	struct metrics_merge *merge;
	double started_s;
	size_t refused; /* texts that were not understood */
};

struct scraper *scraper_create(long long timeout_ms)
{
	struct scraper *scraper = calloc(1, sizeof(*scraper));

	if (scraper != NULL)
		scraper->timeout_ms = timeout_ms;
	return scraper;
}

void scraper_destroy(struct scraper *scraper)
{
	if (scraper != NULL)
		free(scraper->seen);
	free(scraper);
}

static struct seen *recall_rank(const struct scraper *scraper, const char *path)
{
	for (size_t i = 0; i < scraper->count; i++) {
		if (strcmp(scraper->seen[i].path, path) == 0)
			return &scraper->seen[i];
	}
	return NULL;
}

static void remember_rank(struct scraper *scraper, const char *path, bool slow)
{
	struct seen *seen = recall_rank(scraper, path);

	if (seen == NULL && scraper->count == scraper->room) {
		size_t room = scraper->room == 0 ? 64 : scraper->room * 2;
		struct seen *more = realloc(scraper->seen, room * sizeof(*more));

		if (more == NULL)
			return;
		scraper->seen = more;
		scraper->room = room;
	}
	if (seen == NULL) {
		seen = &scraper->seen[scraper->count++];
		snprintf(seen->path, sizeof(seen->path), "%s", path);
	}
	seen->at_s = http_now_s();
	seen->slow = slow;
}

static void forget_old(struct scraper *scraper)
{
	double now_s = http_now_s();
	size_t kept = 0;

	for (size_t i = 0; i < scraper->count; i++) {
		if (now_s - scraper->seen[i].at_s < SCRAPE_MEMORY_S)
			scraper->seen[kept++] = scraper->seen[i];
	}
	scraper->count = kept;
}

/*
 * --- labels ---
 *
 * The label is not `job`, because Prometheus puts its own label of that name on all metrics.
 */

static void label_target(struct target *target)
{
	struct runtime_name parts;
	char job[260];
	size_t bytes;

	runtime_name_of(target->entry.name, &parts);
	metrics_escape(job, sizeof(job), parts.job);
	snprintf(target->labels, sizeof(target->labels), "tow_job=\"%s\",rank=\"%lld\"", job,
		 parts.rank);
	bytes = strlen(target->labels);
	if (finds_all_users()) {
		char user[64], name[130];

		trust_name(target->entry.uid, user, sizeof(user));
		metrics_escape(name, sizeof(name), user);
		snprintf(target->labels + bytes, sizeof(target->labels) - bytes, ",user=\"%s\"",
			 name);
		bytes = strlen(target->labels);
	}
	if (parts.runtime[0] != '\0') /* digits and "-" only */
		snprintf(target->labels + bytes, sizeof(target->labels) - bytes, ",runtime=\"%s\"",
			 parts.runtime);
}

/* Files in two directories can have the same name, but their series must differ. */
static void label_all(struct scrape *scrape)
{
	for (size_t i = 0; i < scrape->list.count; i++) {
		struct target *target = &scrape->targets[i];
		size_t bytes;
		char path[520];

		target->entry = scrape->list.rows[i];
		label_target(target);
		bytes = strlen(target->labels);
		for (size_t j = 0; j < i; j++) {
			if (strcmp(scrape->targets[j].labels, target->labels) != 0)
				continue;
			metrics_escape(path, sizeof(path), target->entry.path);
			snprintf(target->labels + bytes, sizeof(target->labels) - bytes,
				 ",socket=\"%s\"", path);
			break;
		}
	}
}

/* --- one reading --- */

/* Asks the slow ranks first, with less time. */
static void ask_targets(const struct scraper *scraper, struct scrape *scrape)
{
	const struct http_limits limits = { scraper->timeout_ms, SCRAPE_RANK_BYTES_MAX };
	const struct http_limits less = { scraper->timeout_ms / 4, SCRAPE_RANK_BYTES_MAX };
	size_t slow = 0, count = scrape->list.count;

	for (size_t i = 0; i < count; i++) {
		const struct seen *seen = recall_rank(scraper, scrape->targets[i].entry.path);
		struct target target = scrape->targets[i];

		if (seen == NULL || !seen->slow)
			continue;
		memmove(&scrape->targets[slow + 1], &scrape->targets[slow],
			(i - slow) * sizeof(target));
		scrape->targets[slow++] = target;
	}
	for (size_t i = 0; i < count; i++)
		scrape->asks[i].socket_path = scrape->targets[i].entry.path;
	http_ask_all(scrape->asks, slow, "/metrics", &less);
	http_ask_all(scrape->asks + slow, count - slow, "/metrics", &limits);
}

static void take_answer(struct scraper *scraper, struct scrape *scrape, size_t index)
{
	struct target *target = &scrape->targets[index];
	const struct http_ask *ask = &scrape->asks[index].ask;
	const struct http_answer *answer = &ask->answer;
	const struct seen *seen = recall_rank(scraper, target->entry.path);
	char error[256];

	if (http_ask_is_gone(ask)) {
		target->up = seen != NULL ? 0 : -1;
		return;
	}
	remember_rank(scraper, target->entry.path, ask->state != HTTP_DONE);
	target->up = 0;
	if (ask->state != HTTP_DONE)
		return;
	if (answer->status == 200 && metrics_merge_add(scrape->merge, answer->body, answer->bytes,
						       target->labels, error, sizeof(error)) == 0)
		target->up = 1;
	else
		scrape->refused++;
}

/* Writes the exporter's own families in front of those of the ranks. */
static char *finish_scrape(const struct scrape *scrape, size_t *bytes_out)
{
	char *ranks = metrics_merge_take(scrape->merge, bytes_out), *text = NULL;
	FILE *file = ranks != NULL ? open_memstream(&text, bytes_out) : NULL;

	if (file == NULL) {
		free(ranks);
		return NULL;
	}
	fputs("# TYPE towline_up gauge\n"
	      "# HELP towline_up 1: its metrics are here; 0: it did not answer, or has died\n",
	      file);
	for (size_t i = 0; i < scrape->list.count; i++) {
		if (scrape->targets[i].up >= 0)
			fprintf(file, "towline_up{%s} %d\n", scrape->targets[i].labels,
				scrape->targets[i].up);
	}
	fprintf(file,
		"# TYPE towline_export_scrape_seconds gauge\n"
		"# UNIT towline_export_scrape_seconds seconds\n"
		"# HELP towline_export_scrape_seconds time it took to ask all ranks\n"
		"towline_export_scrape_seconds %.6f\n"
		"# TYPE towline_export_refused gauge\n"
		"# HELP towline_export_refused ranks whose metrics were not understood\n"
		"towline_export_refused %zu\n"
		"# TYPE towline_export_missed gauge\n"
		"# HELP towline_export_missed sockets for which there was no room\n"
		"towline_export_missed %zu\n%s",
		http_now_s() - scrape->started_s, scrape->refused, scrape->list.missed, ranks);
	free(ranks);
	if (fclose(file) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static char *run_scrape(struct scraper *scraper, struct scrape *scrape, size_t *bytes_out)
{
	scrape->targets = calloc(scrape->list.count + 1, sizeof(*scrape->targets));
	scrape->asks = calloc(scrape->list.count + 1, sizeof(*scrape->asks));
	scrape->merge = metrics_merge_create(SCRAPE_BYTES_MAX);
	if (scrape->targets == NULL || scrape->asks == NULL || scrape->merge == NULL)
		return NULL;
	label_all(scrape);
	ask_targets(scraper, scrape);
	for (size_t i = 0; i < scrape->list.count; i++) {
		take_answer(scraper, scrape, i);
		http_ask_fini(&scrape->asks[i].ask);
	}
	forget_old(scraper);
	return finish_scrape(scrape, bytes_out);
}

char *scraper_run(struct scraper *scraper, size_t *bytes_out)
{
	struct scrape scrape = { .started_s = http_now_s() };
	char *text;

	if (find_sockets(&scrape.list) != 0)
		return NULL;
	text = run_scrape(scraper, &scrape, bytes_out);
	for (size_t i = 0; scrape.asks != NULL && i < scrape.list.count; i++)
		http_ask_fini(&scrape.asks[i].ask);
	free(scrape.targets);
	free(scrape.asks);
	metrics_merge_destroy(scrape.merge);
	runtime_list_fini(&scrape.list);
	return text;
}
