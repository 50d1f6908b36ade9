/*
 * endpoint.h - the part that the endpoints and peers of all lanes have in common.
 *
 * An endpoint keeps two queues, of which one is always empty: accept operations that wait for a
 * peer, and peers that wait for an accept. The second is bounded, and a lane refuses further peers.
 * A peer belongs to the user from the moment it is in a result until tow_peer_close. After that it
 * belongs to its lane, until the lane has let go of it.
 */
#ifndef TWI_ENDPOINT_H
#define TWI_ENDPOINT_H

#include <internal/list.h>
#include <stdio.h>
#include <towline/endpoint.h>

#include "transport/engine/carried.h"
#include "transport/engine/engine.h"
#include "transport/engine/handle.h"
#include "transport/engine/require.h"
#include "transport/op/claim.h"
#include "transport/op/op.h"
#include "transport/wire/feature.h"

#define TWI_READY_PEERS_MAX 64

struct twi_ranks;
struct twi_state_dial;

struct tow_endpoint {
	struct twi_handle handle;
	struct twi_engine *engine;
	struct twi_lane *lane;
	struct twi_list link;        /* on engine->endpoints */
	struct twi_list accepts;     /* tow_op.link */
	struct twi_list ready;       /* tow_peer.ready_link */
	struct tow_endpoint *parent; /* of a sub-endpoint: where its peers go; else NULL */
	struct twi_list peers;       /* tow_peer.home_link: the peers that the user has */
	struct twi_list any;         /* receives of any peer of it, the oldest first (match.h) */
	bool wild;                   /* there have been such receives */
	unsigned ready_count;
	char address[TOW_ADDRESS_MAX];
	/* Of a group: a new peer may be the second connection of two ranks. Else NULL. */
	const struct twi_ranks *ranks;
};

struct tow_peer {
	struct twi_handle handle;
	struct twi_engine *engine;
	struct twi_lane *lane;
	struct twi_list link;            /* on engine->peers */
	struct twi_list ready_link;      /* on tow_endpoint.ready */
	struct tow_endpoint *waiting_at; /* the endpoint whose ready queue it is on, or NULL */
	struct twi_list home_link;       /* on tow_endpoint.peers */
	struct tow_endpoint *home;       /* its endpoint, while the user has both open; else NULL */
	struct twi_inbox *inbox;         /* the messages that arrive from it (message/inbox.h) */
	struct twi_outbox *outbox;       /* the messages that go to it */
	struct twi_channels *channels;   /* message/channel.h; NULL: it has had none yet */
	bool shown;                      /* it has been up: the user knows it, or will */
	bool closed;                     /* tow_peer_close was called */
	bool passing; /* between ranks, and perhaps the second connection: its end is no loss */
	char address[TOW_ADDRESS_MAX];  /* of the other side, for people to read */
	char why[448];                  /* why this lane, what was refused; "": no choice */
	struct twi_way way;             /* the properties of the connection (twi_peer_meet) */
	bool unmet;                     /* this side refused it: the knob `require` */
	int ended;                      /* the status that ended its operations; 0: it is up */
	char ended_why[384];            /* the message of that status */
	uint64_t id;                    /* unique within the runtime */
	uint32_t span_peer;             /* its number in spans (op_span.h); 0: none yet */
	uint32_t eager_bytes;           /* a message to it of at most this size is small */
	int64_t job_rank;               /* -1: not known */
	struct twi_feature_side theirs; /* the features that the other side has sent */
	uint32_t features;              /* the features that both sides have: bits of feature.h */
	struct twi_peer_claims claims;
	struct twi_latency_row *latency_row; /* the row that counts its latencies; NULL: none yet */
	struct twi_carried carried_out, carried_in; /* sums of its messages, by direction */
	struct twi_state_called called;             /* sums of this side's answered calls */
	struct twi_link *link_state; /* the library's own exchange; NULL: not up yet */
	uint64_t link_due_ns;        /* when traffic continues that exchange; UINT64_MAX: never */
	/* Messages by space, except the user's: those are the rest of the messages' numbers. */
	uint64_t sent[TWI_SPACE_COUNT], received[TWI_SPACE_COUNT];
	bool connector; /* this side has dialed */
	bool said_bye;  /* the other side has announced its end */
};

_Static_assert(offsetof(struct tow_peer, engine) + sizeof(void *) <= TWI_HANDLE_LINE_BYTES &&
		       offsetof(struct tow_endpoint, engine) + sizeof(void *) <=
			       TWI_HANDLE_LINE_BYTES,
	       "calls read the engine while the handle may be closed");

/*
 * The user is done with the peer, or never had it. The engine is held. The peer may be freed when
 * this returns.
 */
void twi_peer_end(struct tow_peer *peer);

/* Returns " (rank 3)", or "" if the peer's rank of the job is not known. */
#define TWI_PEER_RANK 32u
static inline const char *twi_peer_rank(const struct tow_peer *peer, char room[TWI_PEER_RANK])
{
	room[0] = '\0';
	if (peer->job_rank >= 0)
		snprintf(room, TWI_PEER_RANK, " (rank %lld)", (long long)peer->job_rank);
	return room;
}

/* The windows of the peer's lane. NULL: the lane has none, or peer is NULL. */
static inline const struct twi_window_ops *twi_peer_windows(const struct tow_peer *peer)
{
	return peer != NULL ? peer->lane->ops->windows : NULL;
}

/*
 * The id by which both sides know a message. It is made of the message's number, and of which side
 * has sent it.
 */
static inline uint64_t twi_peer_rpc_id(const struct tow_peer *peer, uint64_t seq, bool sent)
{
	return seq << 1 | (sent == peer->connector);
}

/* A message of `space` was given its number. */
static inline void twi_peer_sent(struct tow_peer *peer, uint8_t space)
{
	if (twi_unlikely(space != TWI_SPACE_USER))
		peer->sent[space]++;
}

static inline void twi_peer_received(struct tow_peer *peer, uint8_t space)
{
	if (twi_unlikely(space != TWI_SPACE_USER))
		peer->received[space]++;
}

/* The user sends. If it is due, the library continues its own exchange with the peer. */
static inline void twi_peer_touch(struct tow_peer *peer, uint64_t now_ns)
{
	if (twi_unlikely(now_ns >= peer->link_due_ns))
		peer->engine->hooks.link->ask(peer, now_ns);
}

/* Sets the peer that the operation sends to or receives from. NULL: that peer is gone. */
static inline void twi_op_to_peer(struct tow_op *op, struct tow_peer *peer)
{
	op->peer = peer;
	op->wait.memory_polled = peer != NULL && peer->lane->ops->memory_polled;
}

/*
 * Starts to connect for `space`: the user, or the library itself (LINK), whose operations are in no
 * counter. `address` has no scheme, and has been through resolve. The engine is held. Returns as
 * tow_connect_start does.
 */
int twi_connect_start(struct tow_endpoint *endpoint, const char *address, enum twi_space space,
		      const struct tow_op_options *options, struct tow_op **op_out);

/* Writes what the lane knows of a connect that is under way (lane.h). The engine is held. */
void twi_connect_measure(const struct tow_op *connect, struct twi_state_dial *out);

/* tow_connect_start and tow_accept_start for the library itself. */
int twi_connect_own(struct tow_endpoint *endpoint, const char *address,
		    const struct tow_op_options *options, struct tow_op **op_out);
int twi_accept_own(struct tow_endpoint *endpoint, const struct tow_op_options *options,
		   struct tow_op **op_out);

/* Ends all connects with TOW_ECLOSED when the runtime closes. The engine is held. */
void twi_connects_end(struct twi_engine *engine);

/* Writes one object of a row of /v1/peers: the connection's properties, and the knob `require`. */
void twi_way_describe(const struct tow_peer *peer, struct twi_emit *emit);

/* Ends all accepts with TOW_ECLOSED. */
void twi_endpoint_end_accepts(struct tow_endpoint *endpoint);

/*
 * Ends all accepts with TOW_ECLOSED, closes the peers that were never accepted, and lets the lane
 * free the endpoint. The engine is held.
 */
void twi_endpoint_drop(struct tow_endpoint *endpoint);

/* Whether the lane wants to hear of the end of the peer's process; reports that end to the lane. */
bool twi_peer_has_process(const struct tow_peer *peer);
void twi_peer_process_ended(struct tow_peer *peer);

#endif
