/*
 * auth_pair.h - both ends of a handshake in one test, and the wire between them, which can be cut
 * into pieces of any size and tampered with.
 */
#ifndef TWT_AUTH_PAIR_H
#define TWT_AUTH_PAIR_H

#include "twt.h"

#include <string.h>

#include <towline/towline.h>

#include "transport/security/auth.h"

#define KEYED     1u
#define ENCRYPTED 3u

/* One direction of the wire: all that was said, and how much of it was heard. */
struct twt_said {
	uint8_t bytes[512];
	size_t said, heard;
};

struct twt_auth_pair {
	struct twi_auth auth[2]; /* connector, acceptor */
	struct twt_said wire[2]; /* what the connector said, the acceptor said */
	int status[2];           /* of each: TOW_AGAIN while it goes on */
};

/* A key by number; `how` is 0, KEYED or ENCRYPTED. */
struct twi_job_key twt_job_key(unsigned how, uint8_t number);

void twt_auth_open(struct twt_auth_pair *p, const struct twi_job_key *connector,
		   const struct twi_job_key *acceptor);

/* Side `who` says what it has to say. */
void twt_auth_speak(struct twt_auth_pair *p, int who);

/* Side `who` hears at most `step` bytes of what the other has said; false: there was nothing. */
bool twt_auth_hear(struct twt_auth_pair *p, int who, size_t step);

/* Goes on until neither has anything to say to one that listens. */
void twt_auth_run(struct twt_auth_pair *p, size_t step);

#endif
