/*
 * ras_gather.c - see ras_gather.h.
 */
#include "tools/towstat/ras_gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/towstat/towstat.h"

#define RANK_BYTES_MAX  (8u << 20)
#define VERDICT_MS      3000
#define VERDICT_AGAIN_S 5  /* between two verdicts */
#define VERDICT_AGE_S   60 /* older verdicts are not used */

static void add_peer(struct ras_gather *gather, const struct runtime_entry *entry)
{
	struct ras_peer *peer = &gather->peers[gather->count];
	struct runtime_name name;

	if (gather->count == RAS_PEERS_MAX)
		return;
	runtime_name_of(entry->name, &name);
	*peer = (struct ras_peer){ .rank = name.rank };
	snprintf(peer->path, sizeof(peer->path), "%s", entry->path);
	gather->count++;
}

static struct ras_peer *find_peer(struct ras_gather *gather, const char *path)
{
	for (size_t i = 0; i < gather->count; i++) {
		if (strcmp(gather->peers[i].path, path) == 0)
			return &gather->peers[i];
	}
	return NULL;
}

int ras_gather_open(struct ras_gather *gather, const struct runtime_list *targets, bool fixed)
{
	struct runtime_name name;

	gather->peers = calloc(RAS_PEERS_MAX, sizeof(gather->peers[0]));
	if (gather->peers == NULL)
		return -1;
	runtime_name_of(targets->rows[0].name, &name);
	snprintf(gather->job, sizeof(gather->job), "%s", name.job);
	gather->fixed = fixed;
	for (size_t i = 0; i < targets->count; i++)
		add_peer(gather, &targets->rows[i]);
	gather->living = gather->count;
	return 0;
}

static void empty_peer(struct ras_peer *peer)
{
	json_decref(peer->coll);
	peer->coll = NULL;
}

void ras_gather_close(struct ras_gather *gather)
{
	for (size_t i = 0; i < gather->count; i++) {
		empty_peer(&gather->peers[i]);
		json_decref(gather->peers[i].info);
	}
	free(gather->peers);
	json_decref(gather->verdict);
	http_ask_fini(&gather->ask);
}

/* Adds ranks that have started since. */
static void find_new(struct ras_gather *gather)
{
	struct runtime_list list;
	struct runtime_name name;

	if (gather->fixed || find_sockets(&list) != 0)
		return;
	for (size_t i = 0; i < list.count; i++) {
		runtime_name_of(list.rows[i].name, &name);
		if (strcmp(name.job, gather->job) == 0 &&
		    find_peer(gather, list.rows[i].path) == NULL)
			add_peer(gather, &list.rows[i]);
	}
	runtime_list_fini(&list);
}

/* --- one look --- */

static json_t *take_document(const struct http_ask *ask)
{
	const struct http_answer *answer = &ask->answer;

	return ask->state == HTTP_DONE && answer->status == 200
		       ? json_loadb(answer->body, answer->bytes, 0, NULL)
		       : NULL;
}

static void set_state(struct ras_gather *gather, struct ras_peer *peer, enum ras_peer_state state)
{
	enum ras_peer_state before = peer->state;

	peer->state = state;
	if (state != before && gather->changed != NULL)
		gather->changed(gather->arg, peer, before);
}

/* Identifies a rank once: the kernel names the listening process, and /v1/info has the rest. */
static void identify_peer(struct ras_peer *peer, long long timeout_ms)
{
	const struct http_limits limits = { timeout_ms, RANK_BYTES_MAX };
	struct http_ask_of one = { .socket_path = peer->path };

	peer->pid = pid_of_listener(peer->path);
	http_ask_all(&one, 1, "/v1/info", &limits);
	peer->info = take_document(&one.ask);
	http_ask_fini(&one.ask);
}

static void take_answer(struct ras_gather *gather, struct ras_peer *peer,
			const struct http_ask *ask, long long timeout_ms)
{
	peer->coll = take_document(ask);
	if (peer->coll != NULL && peer->info == NULL)
		identify_peer(peer, timeout_ms);
	if (peer->coll != NULL)
		set_state(gather, peer, RAS_PEER_UP);
	else if (http_ask_is_gone(ask))
		set_state(gather, peer, RAS_PEER_DEAD);
	else
		set_state(gather, peer, RAS_PEER_SLOW);
	gather->living += peer->state != RAS_PEER_DEAD;
}

/* A rank whose process has ended is not asked, unless another process now has its socket. */
static bool is_asked(struct ras_peer *peer)
{
	if (peer->state != RAS_PEER_DEAD)
		return true;
	if (http_is_live(peer->path) != 1)
		return false;
	json_decref(peer->info);
	peer->info = NULL;
	return true;
}

static int ask_peers(struct ras_gather *gather, long long timeout_ms)
{
	const struct http_limits limits = { timeout_ms, RANK_BYTES_MAX };
	struct http_ask_of *asks = calloc(gather->count + 1, sizeof(*asks));
	size_t *of = calloc(gather->count + 1, sizeof(*of)), count = 0;

	for (size_t i = 0; asks != NULL && of != NULL && i < gather->count; i++) {
		if (!is_asked(&gather->peers[i]))
			continue;
		asks[count].socket_path = gather->peers[i].path;
		of[count++] = i;
	}
	gather->living = 0;
	if (asks != NULL && of != NULL)
		http_ask_all(asks, count, "/v1/coll", &limits);
	for (size_t i = 0; i < count; i++) {
		take_answer(gather, &gather->peers[of[i]], &asks[i].ask, timeout_ms);
		http_ask_fini(&asks[i].ask);
	}
	count = asks != NULL && of != NULL ? 0 : 1;
	free(asks);
	free(of);
	return count == 0 ? 0 : -1;
}

static void ask_verdict(struct ras_gather *gather)
{
	double now_s = http_now_s();

	if (gather->ask.state != HTTP_IDLE ||
	    (gather->verdict_s > 0 && now_s - gather->verdict_s < VERDICT_AGAIN_S))
		return;
	for (size_t i = 0; i < gather->count; i++) {
		if (gather->peers[i].state != RAS_PEER_UP)
			continue;
		http_ask_start(&gather->ask, gather->peers[i].path, "/v1/verdict",
			       http_now_ms() + VERDICT_MS, RANK_BYTES_MAX);
		return;
	}
}

static int make_report(struct ras_gather *gather, struct ras_report *out)
{
	struct ras_source *sources = calloc(gather->count + 1, sizeof(*sources));
	struct ras_question question = {
		.job = gather->job, .host = gather->host, .sources = sources, .count = gather->count
	};
	int status;

	if (sources == NULL)
		return -1;
	for (size_t i = 0; i < gather->count; i++) {
		const struct ras_peer *peer = &gather->peers[i];

		sources[i] = (struct ras_source){ .rank = peer->rank,
						  .pid = peer->pid,
						  .answered = peer->coll != NULL,
						  .dead = peer->state == RAS_PEER_DEAD,
						  .coll = peer->coll,
						  .info = peer->info };
	}
	if (http_now_s() - gather->verdict_s < VERDICT_AGE_S)
		question.verdict = gather->verdict;
	status = ras_report_make(out, &question);
	free(sources);
	return status;
}

int ras_gather_look(struct ras_gather *gather, long long timeout_ms, struct ras_report *out)
{
	double begun_s = http_now_s();
	int status;

	find_new(gather);
	status = ask_peers(gather, timeout_ms);
	if (status == 0)
		status = make_report(gather, out);
	for (size_t i = 0; i < gather->count; i++)
		empty_peer(&gather->peers[i]); /* they are large for many ranks */
	if (status != 0)
		return -1;
	out->took_s = http_now_s() - begun_s;
	if (ras_report_lacks(out))
		ask_verdict(gather);
	return 0;
}

/* --- the verdict --- */

void ras_gather_polls(const struct ras_gather *gather, struct pollfd *out)
{
	short events = 0;

	*out = (struct pollfd){ -1, 0, 0 };
	if (http_ask_waits(&gather->ask, &events))
		*out = (struct pollfd){ gather->ask.fd, events, 0 };
}

void ras_gather_turn(struct ras_gather *gather)
{
	json_t *found;

	if (gather->ask.state == HTTP_IDLE)
		return;
	http_ask_step(&gather->ask);
	if (gather->ask.state != HTTP_DONE && gather->ask.state != HTTP_FAILED)
		return;
	found = take_document(&gather->ask);
	gather->verdict_s = http_now_s();
	if (found != NULL) {
		json_decref(gather->verdict);
		gather->verdict = found;
	}
	http_ask_fini(&gather->ask);
}
