/*
 * verdict_ask.h - asks all ranks of a job at once, through their stats sockets, and looks whether
 * what they say is what was planted.
 */
#ifndef TWT_VERDICT_ASK_H
#define TWT_VERDICT_ASK_H

#include "verdict_job.h"

#include <jansson.h>
#include <sys/un.h>

struct twt_vj_asked {
	int fd;
	size_t bytes;
	char text[256 << 10];
	uint64_t took_ns;
};

/* Asks the ranks in the bits of `who` at once. */
void twt_vj_ask(const struct twt_vj_job *job, unsigned who, const char *path,
		struct twt_vj_asked *asked);

/* What a rank has answered, to be given to json_decref; NULL: nothing of use. */
json_t *twt_vj_document(const struct twt_vj_asked *asked);

/* Whether a finding is the planted one. */
bool twt_vj_is_planted(const struct twt_vj_job *job, const json_t *finding);

/* One rank's verdict: it names the planted fault and nothing else. */
bool twt_vj_right(const struct twt_vj_job *job, int rank, const struct twt_vj_asked *asked);

#endif
