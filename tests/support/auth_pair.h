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
static inline struct twi_job_key twt_job_key(unsigned how, uint8_t number)
{
	struct twi_job_key key = { .set = how != 0, .encrypt = how == ENCRYPTED };

	if (key.set)
		memset(key.bytes, number, sizeof(key.bytes));
	return key;
}

static inline void twt_auth_open(struct twt_auth_pair *p, const struct twi_job_key *connector,
				 const struct twi_job_key *acceptor)
{
	memset(p, 0xa5, sizeof(*p));
	memset(p->wire, 0, sizeof(p->wire));
	twi_auth_start(&p->auth[0], connector, true, "tcp");
	twi_auth_start(&p->auth[1], acceptor, false, "tcp");
	p->status[0] = p->status[1] = TOW_AGAIN;
}

/* Side `who` says what it has to say. */
static inline void twt_auth_speak(struct twt_auth_pair *p, int who)
{
	uint8_t out[TWI_AUTH_OUT_MAX];
	size_t bytes = twi_auth_out(&p->auth[who], out);

	assert_true(p->wire[who].said + bytes <= sizeof(p->wire[who].bytes));
	memcpy(p->wire[who].bytes + p->wire[who].said, out, bytes);
	p->wire[who].said += bytes;
}

/* Side `who` hears at most `step` bytes of what the other has said; false: there was nothing. */
static inline bool twt_auth_hear(struct twt_auth_pair *p, int who, size_t step)
{
	struct twt_said *from = &p->wire[!who];
	size_t bytes = from->said - from->heard, used;

	if (bytes == 0 || p->status[who] != TOW_AGAIN)
		return false;
	bytes = bytes < step ? bytes : step;
	p->status[who] = twi_auth_in(&p->auth[who], from->bytes + from->heard, bytes, &used);
	assert_true(used <= bytes);
	if (p->status[who] == TOW_AGAIN)
		assert_int_equal(used, bytes);
	from->heard += used;
	return true;
}

/* Goes on until neither has anything to say to one that listens. */
static inline void twt_auth_run(struct twt_auth_pair *p, size_t step)
{
	bool moved = true;

	while (moved) {
		twt_auth_speak(p, 0);
		twt_auth_speak(p, 1);
		moved = twt_auth_hear(p, 1, step);
		moved |= twt_auth_hear(p, 0, step);
	}
}

#endif
