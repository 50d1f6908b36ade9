/*
 * tcp_greet.h - the exchange that opens a connection, and its memory.
 *
 *	connector                                  acceptor
 *	AUTH messages (auth.h)       <---------->  nothing else is parsed before they are through
 *	HELLO, tail                   ---------->
 *	                             <----------   HELLO, tail
 *
 *	tail:  length (4 bytes), then ADDRESS (control) or nothing (bulk); if the HELLO has
 *	       RESUME, the sender's role (4 bytes: 1, the connector of the session; 2, its
 *	       acceptor) and a resume record
 *
 * With encryption, the HELLO and the tail of each side are one sealed record.
 *
 * The acceptor's state lies in one of TWI_HANDSHAKES_MAX slots, which are made with the lane.
 * Nothing else is kept for a client that has not shown the job's key: a *stranger*. When all slots
 * are in use, the oldest stranger of over TWI_STRANGER_NS gives way. TWI_STRANGER_RATE bounds how
 * many clients a second are admitted; others wait in the kernel's queue. A proven member uses
 * nothing of that rate.
 */
#ifndef TWI_TCP_GREET_H
#define TWI_TCP_GREET_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/lanes/tcp/tcp_name.h"
#include "transport/security/auth.h"
#include "transport/security/cipher.h"
#include "transport/stream/session.h"
#include "transport/wire/frame.h"

#define TWI_HELLO_FRAME (TWI_FRAME_BYTES + TWI_HELLO_BYTES)
#define TWI_TAIL_MAX    (4u + TWI_RESUME_MAX) /* an ADDRESS record is smaller */
#define TWI_GREET_PLAIN (TWI_HELLO_FRAME + 4u + TWI_TAIL_MAX)
#define TWI_GREET_MAX   (TWI_GREET_PLAIN + TWI_CIPHER_OVERHEAD)

#define TWI_STRANGER_NS    (50ull * 1000 * 1000)
#define TWI_STRANGER_RATE  2000u /* a second */
#define TWI_STRANGER_BURST 256u
#define TWI_ACCEPTS_A_TURN 16u

/*
 * Sent instead of all else by a side that has no descriptor left. It is not authenticated, and
 * taken as a reason only.
 */
#define TWI_TCP_FULL       "TOWFULL"
#define TWI_TCP_FULL_BYTES sizeof(TWI_TCP_FULL)

struct twi_tcp_greet {
	struct twi_auth auth;
	bool said;       /* our HELLO is out */
	bool member;     /* the other side has shown the job's key */
	bool own_memory; /* allocated by itself, not one of the slots */
	uint32_t index;  /* of the slot */
	uint32_t fill;
	uint8_t in[TWI_GREET_MAX];
};

/* The HELLO and the tail of one side. */
struct twi_tcp_words {
	struct twi_hello hello;
	size_t tail_bytes;
	uint8_t tail[TWI_TAIL_MAX];
};

/* The slots, and the limits for strangers. */
struct twi_tcp_door {
	struct twi_tcp_greet *slots;
	uint32_t *free; /* stack of indices */
	uint32_t free_count;
	uint32_t tokens;    /* handshakes that may begin now */
	uint64_t filled_ns; /* when tokens were last added */
	uint64_t said_ns;   /* when a refusal was last logged */
	uint64_t unsaid;    /* refusals since that were not logged */
	uint64_t short_ns;  /* since when descriptors are short; 0: they are not */
	int spare_fd;       /* closed to accept a client and refuse it; -1: none */
};

struct twi_tcp_lane;
struct twi_tcp_stream;

int twi_tcp_door_init(struct twi_tcp_door *door);
void twi_tcp_door_fini(struct twi_tcp_door *door);

/* Logs a refusal, at most one a second, with the number of those that were not logged. */
void twi_tcp_refusal(struct twi_tcp_lane *lane, const char *text);

/* The connection is there: the exchange begins. False: it failed, and the stream is gone. */
bool twi_tcp_greet_start(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
/* Gives the memory back. */
void twi_tcp_greet_end(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);

/*
 * prove: TOW_OK: the other side belongs to the job. hear: TOW_OK: its HELLO and tail have come.
 * Both: TOW_AGAIN: a poll for more is armed; TOW_EREFUSED: the other side ended it; TOW_EAUTH;
 * TOW_EPROTOCOL. say: TOW_OK, TOW_EPEER.
 */
int twi_tcp_greet_prove(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);
int twi_tcp_greet_hear(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
		       struct twi_tcp_words *out);
int twi_tcp_greet_say(struct twi_tcp_stream *stream, const struct twi_tcp_words *words);

#endif
