/*
 * ras_gather.h - the ranks of a job on this host, which towstat ras reads again for each report.
 *
 * A rank that has been seen stays in the table as dead when its socket goes, because other ranks
 * still have it in their groups. Only a verdict knows of ranks on other hosts, and a verdict takes
 * a second. So it is fetched in the background while the groups have ranks that no rank here knows.
 * Until it comes, the last verdict is used.
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
	json_t *info, *coll; /* coll: only during a look; NULL: no answer */
};

struct ras_gather {
	char job[128], host[64];
	bool fixed; /* no rank is added later, as two jobs have the name */
	size_t count, living;
	struct ras_peer *peers;
	json_t *verdict;
	double verdict_s;    /* when it came; 0: never */
	struct http_ask ask; /* for the next verdict */
	/* Called for each rank whose state has changed in a look. */
	void (*changed)(void *arg, const struct ras_peer *peer, enum ras_peer_state before);
	void *arg;
};

/* Begins with these runtimes, which are of one job. -1: no memory. */
int ras_gather_open(struct ras_gather *gather, const struct runtime_list *targets, bool fixed);
void ras_gather_close(struct ras_gather *gather);

/* Reads all ranks within timeout_ms, and makes the report. -1: no memory. */
int ras_gather_look(struct ras_gather *gather, long long timeout_ms, struct ras_report *out);

/* For the verdict under way: the descriptor to poll (fd -1: none), and the step after the poll. */
void ras_gather_polls(const struct ras_gather *gather, struct pollfd *out);
void ras_gather_turn(struct ras_gather *gather);

#endif
