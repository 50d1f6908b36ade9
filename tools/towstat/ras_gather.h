/*
 * ras_gather.h - the ranks of a job on this host, as towstat ras looks at them again and again.
 *
 * A rank that has been seen stays in the table when its socket goes, as one that has died: other
 * ranks still have it in their groups. Of ranks on other hosts a verdict tells, which takes a
 * second: it is asked beside, while the groups have ranks of which nobody here knows, and what it
 * said last is used meanwhile.
 */
#ifndef TOWSTAT_RAS_GATHER_H
#define TOWSTAT_RAS_GATHER_H

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>

#include "tools/common/http_unix.h"
#include "tools/common/runtimes.h"
#include "tools/towstat/ras_report.h"

#define RAS_PEERS_MAX RUNTIMES_MAX

enum ras_peer_state { RAS_PEER_NEW, RAS_PEER_UP, RAS_PEER_SLOW, RAS_PEER_DEAD };

struct ras_peer {
	char path[256];
	long long rank;
	long pid;
	enum ras_peer_state state;
	json_t *info, *coll; /* coll: during a look; NULL: it did not answer */
};

struct ras_gather {
	char job[128], host[64];
	bool fixed; /* the ranks are those of the beginning: two jobs have the name */
	size_t count, living;
	struct ras_peer *peers;
	json_t *verdict;
	double verdict_s;    /* when it came; 0: never */
	struct http_ask ask; /* for the next */
	/* Somebody has changed: told after each look. */
	void (*changed)(void *arg, const struct ras_peer *peer, enum ras_peer_state before);
	void *arg;
};

/* The job of these runtimes. -1: no memory. */
int ras_gather_open(struct ras_gather *gather, const struct runtime_list *targets, bool fixed);
void ras_gather_close(struct ras_gather *gather);

/* Looks at all ranks, for no longer than that, and makes the report. -1: no memory. */
int ras_gather_look(struct ras_gather *gather, long long timeout_ms, struct ras_report *out);

/* The verdict that is on its way: what to poll (fd -1: nothing), and what came of it. */
void ras_gather_polls(const struct ras_gather *gather, struct pollfd *out);
void ras_gather_turn(struct ras_gather *gather);

#endif
