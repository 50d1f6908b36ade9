/*
 * tcp_zerocopy.h - zero-copy sends of the tcp lane, and what is kept of each until the kernel has
 * let go of its memory.
 */
#ifndef TWI_TCP_ZEROCOPY_H
#define TWI_TCP_ZEROCOPY_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/counter.h"
#include "diag/record/site.h"
#include "transport/op/lane_host.h"
#include "transport/stream/session.h"

#define TWI_ZC_RECORDS 1024u

struct twi_tcp_lane;
struct twi_tcp_peer;
struct twi_tcp_stream;

/* Payload on its way by a plain send that would have gone by zero-copy, were it registered. */
struct twi_tcp_missed {
	enum twi_reason reason;
	uint64_t ahead, bytes; /* of the send: what stands before the payload, and the payload */
	struct twi_site site;
};

/* A zero-copy send whose notification is still to come: the lease of its memory. */
struct twi_tcp_zc {
	struct twi_claim claim;
	uint64_t sent_ns; /* when the first completion came; 0: not yet */
	uint64_t bytes;
	uint64_t end;     /* the stream's tx_bytes behind it */
	uint64_t gone_ns; /* when the stream was found closed; 0: not yet */
	uint64_t peer_id;
	uint32_t slot; /* of the stream */
	uint16_t generation;
	uint8_t ring; /* whose thread alone can fetch the notification */
	bool used;
	bool let_go; /* the peer's TCP has it all: the claim is dropped */
	uint32_t next_free;
};

/*
 * tcp_zerocopy.c. wants: whether the payload of `out` goes by zero-copy send, in one piece of a
 * registered buffer, whose slot is written and at whose end it is cut; where it would if it were
 * registered, that is noted in the stream. missed: `bytes` of the noted send are out, and the
 * kernel's copy is counted with its reason. go: sends parts[0] by zero-copy; false when it cannot
 * be done now.
 */
bool twi_tcp_zerocopy_wants(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			    struct twi_bulk_out *out, int *slot_out);
void twi_tcp_zerocopy_missed(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			     uint64_t bytes);
bool twi_tcp_zerocopy_go(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			 const struct twi_bulk_out *out, int slot);
void twi_tcp_zerocopy_sent(struct twi_tcp_lane *lane, uint32_t index, int res, uint32_t flags);
/*
 * holds: whether the kernel may still read [memory, memory + bytes), or, when that is NULL,
 * anything that `stream` (NULL: any) was given. It may send it again as long as the peer has not
 * said to have it, and reads it then. recall: the connections that do end at once, and their bytes
 * with them, so that nothing that is written there later is sent; waits a millisecond at most. cut:
 * before `stream` is closed.
 */
bool twi_tcp_zerocopy_holds(const struct twi_tcp_lane *lane, const struct twi_tcp_stream *stream,
			    const void *memory, uint64_t bytes);
void twi_tcp_zerocopy_recall(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer,
			     const struct tow_op *op);
void twi_tcp_zerocopy_cut(const struct twi_tcp_lane *lane, const struct twi_tcp_stream *stream);
/*
 * ask: looks what has been acknowledged of the sends of threads that do not drive, and drops its
 * claims; returns when to call it next, UINT64_MAX: when somebody else drives. ask_later: somebody
 * else does from now on.
 */
uint64_t twi_tcp_zerocopy_ask(struct twi_tcp_lane *lane, uint64_t now_ns);
void twi_tcp_zerocopy_ask_later(struct twi_tcp_lane *lane, uint64_t now_ns);
/* The ring is given up: its notifications will never be seen. */
void twi_tcp_zerocopy_ring_gone(struct twi_tcp_lane *lane, unsigned ring);

#endif
