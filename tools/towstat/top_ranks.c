/*
 * top_ranks.c - see top_ranks.h.
 */
#include "tools/towstat/top_ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/http_unix.h"
#include "tools/common/trust.h"
#include "tools/common/words.h"
#include "tools/towstat/top_verdicts.h"
#include "tools/towstat/towstat.h"

#define LOOK_MS   2000  /* between two looks for new sockets */
#define GONE_MS   15000 /* how long an ended rank is shown */
#define BYTES_MAX (4u << 20)

enum document { DOC_PATHS, DOC_INFO, DOC_COUNTERS, DOC_LATENCY, DOC_POOL, DOC_COLL, DOC_VERDICT };
#define DOC_COUNT 7

static const char *const paths[DOC_COUNT] = {
	"/v1", "/v1/info", "/v1/counters", "/v1/latency", "/v1/pool", "/v1/coll", "/v1/verdict",
};

struct rank {
	char path[256];
	char user[32]; /* "USER:" in front of its names; "": our own user */
	struct top_row row;
	bool seen;           /* its first round has ended, so it is shown */
	bool has[DOC_COUNT]; /* it has the document */
	bool asking;
	enum document document; /* of the ask under way */
	long long deadline_ms, state_ms;
	struct http_ask ask;
	struct reading *last, *next; /* last->at_s 0: no reading */
};

struct top_ranks {
	struct top_ranks_options options;
	long long look_ms;
	size_t count, room, missed;
	size_t cursor, pending; /* next rank to begin; ranks left in this round */
	struct rank **all;
	struct top_row *rows;
	struct top_verdicts *verdicts;
};

struct top_ranks *top_ranks_open(const struct top_ranks_options *options)
{
	struct top_ranks *ranks = calloc(1, sizeof(*ranks));

	if (ranks == NULL)
		return NULL;
	ranks->options = *options;
	ranks->verdicts = top_verdicts_open();
	if (ranks->verdicts == NULL) {
		free(ranks);
		return NULL;
	}
	return ranks;
}

static void rank_close(struct rank *rank)
{
	http_ask_fini(&rank->ask);
	free(rank->last);
	free(rank->next);
	free(rank);
}

void top_ranks_close(struct top_ranks *ranks)
{
	if (ranks == NULL)
		return;
	for (size_t i = 0; i < ranks->count; i++)
		rank_close(ranks->all[i]);
	free(ranks->all);
	free(ranks->rows);
	top_verdicts_close(ranks->verdicts);
	free(ranks);
}

/* --- the ranks --- */

static struct rank *find_rank(const struct top_ranks *ranks, const char *path)
{
	for (size_t i = 0; i < ranks->count; i++) {
		if (strcmp(ranks->all[i]->path, path) == 0)
			return ranks->all[i];
	}
	return NULL;
}

/*
 * Copies printable text. With --all-users it is "USER:TEXT", so that equal names of two users
 * differ.
 */
static void copy_name(const struct rank *rank, char out[TOP_NAME_BYTES], const char *text)
{
	size_t used = strlen(rank->user);

	snprintf(out, TOP_NAME_BYTES, "%s", rank->user);
	words_clean(out + used, TOP_NAME_BYTES - used, text);
}

/* The names from the socket file, until /v1/info has better ones. */
static void name_of(struct rank *rank, const struct runtime_entry *entry)
{
	struct runtime_name parts;

	runtime_name_of(entry->name, &parts);
	if (finds_all_users()) {
		trust_name(entry->uid, rank->user, sizeof(rank->user) - 1);
		strcat(rank->user, ":");
	}
	copy_name(rank, rank->row.name, entry->name);
	copy_name(rank, rank->row.job, parts.job);
	rank->row.rank = parts.rank;
}

static bool is_wanted(const struct top_ranks *ranks, const struct runtime_entry *entry)
{
	struct runtime_name parts;

	runtime_name_of(entry->name, &parts);
	return ranks->options.job == NULL || strcmp(parts.job, ranks->options.job) == 0;
}

static void add_rank(struct top_ranks *ranks, const struct runtime_entry *entry)
{
	struct rank *rank;

	if (!is_wanted(ranks, entry) || find_rank(ranks, entry->path) != NULL)
		return;
	if (ranks->count == ranks->room) {
		size_t room = ranks->room == 0 ? 64 : ranks->room * 2;
		struct rank **all = realloc(ranks->all, room * sizeof(struct rank *));

		if (all == NULL)
			return;
		ranks->all = all;
		ranks->room = room;
	}
	rank = calloc(1, sizeof(*rank));
	if (rank == NULL)
		return;
	snprintf(rank->path, sizeof(rank->path), "%s", entry->path);
	name_of(rank, entry);
	rank->last = calloc(1, sizeof(*rank->last));
	rank->next = calloc(1, sizeof(*rank->next));
	if (rank->last == NULL || rank->next == NULL) {
		rank_close(rank);
		return;
	}
	rank->has[DOC_PATHS] = true;
	ranks->all[ranks->count++] = rank;
}

static void drop_gone(struct top_ranks *ranks, long long now)
{
	size_t kept = 0;

	for (size_t i = 0; i < ranks->count; i++) {
		struct rank *rank = ranks->all[i];
		bool gone = rank->row.state == TOP_GONE &&
			    (!rank->seen || now - rank->state_ms > GONE_MS);

		if (gone)
			rank_close(rank);
		else
			ranks->all[kept++] = rank;
	}
	ranks->count = kept;
}

static void look_for_ranks(struct top_ranks *ranks, long long now)
{
	struct runtime_list list;

	drop_gone(ranks, now);
	if (find_sockets(&list) != 0)
		return;
	for (size_t i = 0; i < list.count; i++)
		add_rank(ranks, &list.rows[i]);
	ranks->missed = list.missed;
	runtime_list_fini(&list);
}

/* --- their documents --- */

static void set_state(struct rank *rank, enum top_state state)
{
	if (rank->row.state != state || !rank->seen)
		rank->state_ms = http_now_ms();
	rank->row.state = state;
}

/* A restarted process has the file name of the old one, and counts from 0. */
static void forget_past(struct rank *rank)
{
	rank->last->at_s = 0;
	rank->row.known = false;
	memset(rank->has, 0, sizeof(rank->has));
	rank->has[DOC_PATHS] = true;
}

static void take_paths(struct rank *rank, const json_t *document)
{
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(document, "paths"), i, row)
	{
		const char *path = json_string_value(json_object_get(row, "path"));

		for (unsigned j = 0; j < DOC_COUNT && path != NULL; j++)
			rank->has[j] = rank->has[j] || strcmp(path, paths[j]) == 0;
	}
	rank->has[DOC_PATHS] = false; /* once is enough */
}

static void take_info(struct rank *rank, const json_t *document)
{
	const char *job = json_string_value(json_object_get(document, "job"));
	const json_t *number = json_object_get(document, "rank");

	if (job != NULL)
		copy_name(rank, rank->row.job, job);
	if (json_is_integer(number))
		rank->row.rank = json_integer_value(number);
	rank->has[DOC_INFO] = false;
}

static void take_document(struct rank *rank, const json_t *document)
{
	switch (rank->document) {
	case DOC_PATHS:
		take_paths(rank, document);
		break;
	case DOC_INFO:
		take_info(rank, document);
		break;
	case DOC_COUNTERS:
		rank->next->at_s = http_now_s();
		reading_counters(rank->next, document);
		break;
	case DOC_LATENCY:
		reading_latency(rank->next, document);
		break;
	case DOC_POOL:
		reading_pool(rank->next, document);
		break;
	case DOC_COLL:
		reading_colls(rank->next, document);
		break;
	default:
		break;
	}
}

static void end_round(struct rank *rank)
{
	struct reading *last = rank->last, *next = rank->next;
	struct top_row *row = &rank->row;

	rank->asking = false;
	if (!(next->at_s > 0)) { /* it lists no /v1/counters */
		set_state(rank, TOP_WRONG);
		rank->seen = true;
		return;
	}
	set_state(rank, last->at_s > 0 ? TOP_LIVE : TOP_NEW);
	rank->seen = true;
	row->known = last->at_s > 0;
	if (row->known)
		figures_between(last, next, &row->figures);
	row->copied_bytes = next->counters.fallback_copy_bytes;
	row->late_count = next->counters.late_registrations;
	row->lost = next->counters.telemetry_lost;
	row->pool_used_bytes = next->pool_used_bytes;
	row->pool_bytes = next->pool_bytes;
	rank->last = next;
	rank->next = last;
}

/* Asks for the next document from number `from` on, or ends the round. */
static void ask_from(struct rank *rank, unsigned from)
{
	while (from < DOC_VERDICT && !rank->has[from])
		from++;
	if (from == DOC_VERDICT) {
		end_round(rank);
		return;
	}
	rank->document = (enum document)from;
	http_ask_start(&rank->ask, rank->path, paths[from], rank->deadline_ms, BYTES_MAX);
}

static void fail_rank(struct rank *rank)
{
	int error = rank->ask.error;
	bool shown = rank->seen;

	rank->asking = false;
	if (http_ask_is_gone(&rank->ask)) {
		set_state(rank, TOP_GONE); /* a rank never seen alive is dropped and not shown */
		forget_past(rank);
		return;
	}
	/* The rank closed the connection. If it has ended, the next round is refused. */
	if ((error == EPIPE || error == ECONNRESET) && shown && rank->row.state <= TOP_LIVE)
		return;
	set_state(rank, error == ETIMEDOUT || error == EAGAIN ? TOP_SILENT : TOP_WRONG);
	rank->seen = true;
}

static void take_answer(struct rank *rank)
{
	const struct http_answer *answer = &rank->ask.answer;
	json_t *document;

	if (rank->ask.state == HTTP_FAILED) {
		fail_rank(rank);
		return;
	}
	document = answer->status == 200 ? json_loadb(answer->body, answer->bytes, 0, NULL) : NULL;
	if (json_is_object(document))
		take_document(rank, document);
	else if (rank->document <= DOC_COUNTERS) {
		rank->ask.error = EBADMSG;
		json_decref(document);
		fail_rank(rank);
		return;
	}
	json_decref(document);
	ask_from(rank, (unsigned)rank->document + 1);
}

static void begin_round(struct rank *rank, long long deadline_ms)
{
	rank->deadline_ms = deadline_ms;
	rank->asking = true;
	rank->next->at_s = 0;
	rank->next->bucket_count = rank->next->coll_count = 0;
	rank->next->colls_at_ns = 0;
	ask_from(rank, 0);
}

void top_ranks_round(struct top_ranks *ranks)
{
	long long now = http_now_ms();

	if (ranks->look_ms == 0 || now - ranks->look_ms >= LOOK_MS) {
		look_for_ranks(ranks, now);
		ranks->look_ms = now;
	}
	for (size_t i = 0; i < ranks->count; i++) {
		const struct rank *rank = ranks->all[i];

		if (rank->has[DOC_VERDICT] && rank->row.state <= TOP_LIVE)
			top_verdicts_ask(ranks->verdicts, &rank->row, rank->path);
	}
	ranks->pending = ranks->count;
	top_ranks_step(ranks);
}

size_t top_ranks_poll(const struct top_ranks *ranks, struct pollfd *out, size_t room)
{
	size_t count = top_verdicts_poll(ranks->verdicts, out, room);
	short events;

	for (size_t i = 0; i < ranks->count && count < room; i++) {
		const struct http_ask *ask = &ranks->all[i]->ask;

		if (ranks->all[i]->asking && http_ask_waits(ask, &events))
			out[count++] = (struct pollfd){ ask->fd, events, 0 };
	}
	return count;
}

/* Takes one more document of a rank, if it has come. */
static bool advance_rank(struct rank *rank)
{
	short events;

	if (!rank->asking)
		return false;
	http_ask_step(&rank->ask);
	if (http_ask_waits(&rank->ask, &events))
		return false;
	take_answer(rank);
	return true;
}

/* Begins as many ranks as may be open at a time. The others begin when these are done. */
static size_t begin_more(struct top_ranks *ranks, size_t under_way)
{
	while (ranks->pending > 0 && under_way < HTTP_ASKS_MAX) {
		struct rank *rank = ranks->all[ranks->cursor++ % ranks->count];

		ranks->pending--;
		if (rank->asking)
			continue;
		begin_round(rank, http_now_ms() + ranks->options.timeout_ms);
		under_way += rank->asking;
	}
	return under_way;
}

size_t top_ranks_step(struct top_ranks *ranks)
{
	size_t under_way = 0;

	for (size_t i = 0; i < ranks->count; i++) {
		for (unsigned j = 0; j < DOC_COUNT && advance_rank(ranks->all[i]); j++)
			continue;
		under_way += ranks->all[i]->asking;
	}
	under_way = begin_more(ranks, under_way);
	return under_way + top_verdicts_step(ranks->verdicts);
}

long long top_ranks_deadline(const struct top_ranks *ranks)
{
	long long first = top_verdicts_deadline(ranks->verdicts);

	for (size_t i = 0; i < ranks->count; i++) {
		const struct rank *rank = ranks->all[i];

		if (rank->asking && (first == 0 || rank->deadline_ms < first))
			first = rank->deadline_ms;
	}
	return first;
}

struct top_row *top_ranks_rows(struct top_ranks *ranks, size_t *count_out)
{
	struct top_row *rows = realloc(ranks->rows, (ranks->count + 1) * sizeof(*rows));
	long long now = http_now_ms();
	size_t count = 0;

	*count_out = 0;
	if (rows == NULL)
		return NULL;
	ranks->rows = rows;
	for (size_t i = 0; i < ranks->count; i++) {
		struct rank *rank = ranks->all[i];

		if (!rank->seen)
			continue;
		rank->row.state_s = (double)(now - rank->state_ms) / 1e3;
		rows[count] = rank->row;
		top_verdicts_tell(ranks->verdicts, &rows[count++]);
	}
	*count_out = count;
	return rows;
}

size_t top_ranks_missed(const struct top_ranks *ranks)
{
	return ranks->missed;
}
