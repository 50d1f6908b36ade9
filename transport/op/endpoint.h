/*
 * endpoint.h - what every lane's endpoints and peers have in common.
 *
 * An endpoint keeps two queues, of which one is always empty: accept operations that wait for a
 * peer, and peers that wait for an accept (bounded; a lane refuses more). A peer belongs to the
 * user from the moment it stands in a result until tow_peer_close, then to its lane until that has
 * let go.
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
	struct tow_endpoint *parent; /* of a sub-endpoint: its peers go there; else NULL */
	struct twi_list peers;       /* tow_peer.home_link: those that the user has */
	struct twi_list any;         /* receives of any of them, from the oldest on (match.h) */
	bool wild;                   /* there were some */
	unsigned ready_count;
	char address[TOW_ADDRESS_MAX];
	/* A group's: what comes may be the second connection of two ranks. Else NULL. */
	const struct twi_ranks *ranks;
};

struct tow_peer {
	struct twi_handle handle;
	struct twi_engine *engine;
	struct twi_lane *lane;
	struct twi_list link;            /* on engine->peers */
	struct twi_list ready_link;      /* on tow_endpoint.ready */
	struct tow_endpoint *waiting_at; /* whose ready queue it is on, or NULL */
	struct twi_list home_link;       /* on tow_endpoint.peers */
	struct tow_endpoint *home;       /* by which the user has it; NULL: it or that was closed */
	struct twi_inbox *inbox;         /* its messages on their way in (message/inbox.h) */
	struct twi_outbox *outbox;       /* and on their way out */
	struct twi_channels *channels;   /* message/channel.h; NULL: there was none yet */
	bool shown;                      /* it has been up: the user knows or will know it */
	bool closed;                     /* tow_peer_close was called */
	bool passing; /* between ranks, and not known yet to be the one: its end is no loss */
	char address[TOW_ADDRESS_MAX];  /* of the other side, for people */
	char why[448];                  /* why this lane, and what was refused; "": no choice */
	struct twi_way way;             /* what the connection is: twi_peer_meet */
	bool unmet;                     /* this side has refused it, by the knob `require` */
	int ended;                      /* the status with which its operations have; 0: it is up */
	char ended_why[384];            /* the message of that */
	uint64_t id;                    /* within the runtime */
	uint32_t span_peer;             /* op_span.h; 0: not asked for yet */
	uint32_t eager_bytes;           /* up to this a message to it is small */
	int64_t job_rank;               /* -1: not known */
	struct twi_feature_side theirs; /* what the other side has said */
	uint32_t features;              /* that both have agreed on: bits of feature.h */
	struct twi_peer_claims claims;
	struct twi_latency_row *latency_row; /* where its messages are timed; NULL: not yet */
	struct twi_carried carried_out, carried_in; /* of those, by where they were timed */
	struct twi_state_called called;             /* calls of this side's */
	struct twi_link *link_state; /* what the library has to say to it; NULL before it is up */
	uint64_t link_due_ns;        /* when traffic is to say more of it; UINT64_MAX: never */
	/* Messages that are not the user's, by space: the user's are the rest of their numbers. */
	uint64_t sent[TWI_SPACE_COUNT], received[TWI_SPACE_COUNT];
	bool connector; /* this side has dialed */
	bool said_bye;  /* the other side has said that it ends */
};

_Static_assert(offsetof(struct tow_peer, engine) + sizeof(void *) <= TWI_HANDLE_LINE_BYTES &&
		       offsetof(struct tow_endpoint, engine) + sizeof(void *) <=
			       TWI_HANDLE_LINE_BYTES,
	       "calls read the engine while the handle may be closed");

/* The peer's user is done with it, or never had it. The engine is held; the peer may be gone. */
void twi_peer_end(struct tow_peer *peer);

/* " (rank 3)", where its rank of the job is known; else "". */
#define TWI_PEER_RANK 32u
static inline const char *twi_peer_rank(const struct tow_peer *peer, char room[TWI_PEER_RANK])
{
	room[0] = '\0';
	if (peer->job_rank >= 0)
		snprintf(room, TWI_PEER_RANK, " (rank %lld)", (long long)peer->job_rank);
	return room;
}

/* The windows of its lane; NULL: none, or no peer. */
static inline const struct twi_window_ops *twi_peer_windows(const struct tow_peer *peer)
{
	return peer != NULL ? peer->lane->ops->windows : NULL;
}

/* The number of a message that both sides know it by: from its own, and from who has sent it. */
static inline uint64_t twi_peer_rpc_id(const struct tow_peer *peer, uint64_t seq, bool sent)
{
	return seq << 1 | (sent == peer->connector);
}

/* A message of `space` has its number. */
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

/* The user sends: now and then the library has something to say to the peer as well. */
static inline void twi_peer_touch(struct tow_peer *peer, uint64_t now_ns)
{
	if (twi_unlikely(now_ns >= peer->link_due_ns))
		peer->engine->hooks.link->ask(peer, now_ns);
}

/* What the operation moves goes to or comes from this peer; NULL: it has gone. */
static inline void twi_op_to_peer(struct tow_op *op, struct tow_peer *peer)
{
	op->peer = peer;
	op->wait.memory_polled = peer != NULL && peer->lane->ops->memory_polled;
}

/*
 * Starts to connect to an address without its scheme, which has been through resolve, on behalf of
 * `space`: the user, or the library itself (LINK), whose operations are in no counter. The engine
 * is held. As tow_connect_start.
 */
int twi_connect_start(struct tow_endpoint *endpoint, const char *address, enum twi_space space,
		      const struct tow_op_options *options, struct tow_op **op_out);

/* What its lane knows of a connect that is under way (lane.h). The engine is held. */
void twi_connect_measure(const struct tow_op *connect, struct twi_state_dial *out);

/* tow_connect_start and tow_accept_start on behalf of the library. */
int twi_connect_own(struct tow_endpoint *endpoint, const char *address,
		    const struct tow_op_options *options, struct tow_op **op_out);
int twi_accept_own(struct tow_endpoint *endpoint, const struct tow_op_options *options,
		   struct tow_op **op_out);

/* Ends all connects with TOW_ECLOSED: the runtime goes. The engine is held. */
void twi_connects_end(struct twi_engine *engine);

/* An object of one row of /v1/peers: what its connection is, and what was asked of it. */
void twi_way_describe(const struct tow_peer *peer, struct twi_emit *emit);

/* Ends all accepts with TOW_ECLOSED. */
void twi_endpoint_end_accepts(struct tow_endpoint *endpoint);

/* Ends all accepts with TOW_ECLOSED and closes peers nobody accepted. The engine is held. */
void twi_endpoint_drop(struct tow_endpoint *endpoint);

/* Is it of a process of its own, whose end its lane wants to hear of, and which has ended now? */
bool twi_peer_has_process(const struct tow_peer *peer);
void twi_peer_process_ended(struct tow_peer *peer);

#endif
