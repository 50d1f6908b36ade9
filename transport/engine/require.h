/*
 * require.h - the knob `require`: what a connection must be like, or it is refused. Pure.
 *
 *	require=zero_copy,lane:ofi|tcp,iface:ib0
 *
 * Commas separate the words, and a connection must meet all of them. A word that takes names is met
 * by any of its names, which | separates.
 *
 * A lane asks on both sides, when its handshake has shown what the connection is (twi_peer_meet).
 * tow:// asks before that what a lane can be at all (twi_require_lane), and leaves out the lanes
 * that cannot meet the knob.
 */
#ifndef TWI_REQUIRE_H
#define TWI_REQUIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "diag/record/lane_id.h"

struct sockaddr;
struct twi_lane_ops;

/* X(ID, word, whether names follow behind a colon): docs/lanes.md says what each means. */
#define TWI_REQUIRE_MAP(X)                                                                         \
	X(ZERO_COPY, "zero_copy", false)                                                           \
	X(LANE, "lane", true)                                                                      \
	X(IFACE, "iface", true)                                                                    \
	X(ENCRYPTED, "encrypted", false)

#define TWI_REQUIRE_WHY 200u
#define TWI_IFACE_BYTES 40u

/* Why a lane within one process is never free of copies. */
#define TWI_REQUIRE_LOOP "it copies within the process"

/* A connection, as far as its lane knows it before the first message. */
struct twi_way {
	enum twi_lane_id lane;
	char iface[TWI_IFACE_BYTES]; /* that carries the connection; "": none, or not known */
	char also[TWI_IFACE_BYTES];  /* another name of it, as a device's; "": none */
	const char *copied; /* why a large message would be copied; static; NULL: it would not */
	bool encrypted;
};

/* TOW_OK, or TOW_EINVAL: the message names the word that is none, and all that there are. */
int twi_require_check(const char *knob);

/* Does the knob name interfaces? If not, none is looked up. */
bool twi_require_names_iface(const char *knob);

/* Does the connection meet all words? `why`: the first word that it does not meet, and why. */
bool twi_require_meets(const char *knob, const struct twi_way *way, char why[TWI_REQUIRE_WHY]);

/* The same for what a connection over this lane is in the best case. */
bool twi_require_lane(const char *knob, const struct twi_lane_ops *ops, char why[TWI_REQUIRE_WHY]);

/* Is it a message of a connection that this knob has refused, here or at the other side? */
bool twi_require_said(const char *message);

/* The interface of this host that has the address; "": none. */
void twi_iface_of(const struct sockaddr *address, char out[TWI_IFACE_BYTES]);

#endif
