/*
 * tcp_zerocopy.c - sends large payload by zero-copy from registered buffers. A notification tells
 * when the kernel has let go of the memory, and whether it copied after all.
 *
 *	send_zerocopy: record --- a share of the operation's lease
 *	   first completion: the stream goes on; the operation may end
 *	   notification: the lease is dropped, the route learns, the lag between the two is noted
 *
 * Only the thread that sent gets the notification, and only when it drives again. So while another
 * thread drives, it asks the socket which bytes the peer's TCP has acknowledged. The kernel does
 * not read these any more, so their lease is dropped before the notification comes.
 *
 * Until the notification, the kernel reads the memory whenever it sends a packet again. If a
 * message ends well, the peer has all of it, and drops packets that come twice. A message may also
 * end by its deadline with all of it on its way. It could still arrive, with the content that its
 * memory has by then. So the connections that carry it are cut and resumed, and the resume tells
 * that the message was taken back.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/tcp/tcp.h"
#include "transport/lanes/tcp/tcp_break.h"
#include "transport/op/lane_host.h"

#define LET_GO_NS  1000000u  /* for packets in a driver; queued ones are dropped at once */
#define ASK_NS     1000000u  /* before sockets are asked for the first time */
#define ASK_MAX_NS 64000000u /* longest pause between two times */

/*
 * The slot of the payload in this ring's buffer table. 0: also if the ring needs none. -1: it is
 * not registered. Payload that continues in the next slot is cut at the border, and the rest is
 * sent by itself.
 */
static int fixed_slot(const struct twi_ring *ring, const struct twi_region *region,
		      struct twi_bulk_out *out)
{
	struct iovec *payload = &out->parts[out->payload_part];
	uint64_t offset, left;

	if (ring->any_memory)
		return 0;
	if (region == NULL || !twi_ring_has(ring, region))
		return -1;
	offset = (uint64_t)((const uint8_t *)payload->iov_base - (const uint8_t *)region->base);
	left = TWI_REGION_PIECE - offset % TWI_REGION_PIECE;
	if (payload->iov_len > left) {
		payload->iov_len = left;
		out->payload_bytes = left;
		out->count = out->payload_part + 1;
	}
	return (int)(region->slot + (offset >> TWI_REGION_PIECE_SHIFT));
}

/*
 * Sends `part` by zero-copy from the buffer in `slot`. False: no record is free, or no ring room.
 */
static bool send_zerocopy(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			  struct twi_claim *claim, struct iovec part, int slot)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_ring *ring = engine->ring;
	struct twi_tcp_zc *record;

	if (lane->zc_free == 0 || ring == NULL)
		return false;
	record = &lane->zc[lane->zc_free - 1];
	if (!ring->poller->send_zerocopy(
		    ring, stream->fd, part.iov_base, part.iov_len, slot,
		    twi_tcp_tag(ring, TWI_TCP_SEND_ZC, 0, (uint32_t)(record - lane->zc))))
		return false;
	lane->zc_free = record->next_free;
	*record = (struct twi_tcp_zc){
		.bytes = part.iov_len,
		.peer_id = stream->peer->base.id,
		.slot = stream->slot,
		.generation = stream->generation,
		.ring = (uint8_t)ring->index,
		.used = true,
	};
	ring->notices++;
	engine->notices++;
	twi_claim_share(claim, part.iov_base, part.iov_len, engine, &record->claim);
	stream->tx_busy = true;
	twi_count_two(engine->diag, TWI_C_zerocopy_sends, 1, TWI_C_zerocopy_send_bytes,
		      part.iov_len);
	twi_count(engine->diag, TWI_C_fixed_sends, !ring->any_memory);
	return true;
}

bool twi_tcp_zerocopy_wants(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			    struct twi_bulk_out *out, int *slot_out)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_tcp_peer *peer = stream->peer;
	const struct tow_op *op = out->op;

	stream->tx_missed.bytes = 0;
	if (op == NULL || out->payload_part < 0 || engine->ring == NULL ||
	    !twi_path_eligible(engine, &peer->route, out->payload_bytes))
		return false;
	*slot_out = fixed_slot(engine->ring, out->claim->region, out);
	if (*slot_out >= 0)
		return twi_path_choose(engine, &peer->route, out->payload_bytes) != TWI_PATH_PLAIN;
	if (twi_path_pays(engine, &peer->route, out->payload_bytes)) {
		struct twi_tcp_missed *missed = &stream->tx_missed;

		*missed = (struct twi_tcp_missed){
			.reason = twi_claim_reason(out->claim, true),
			.bytes = out->payload_bytes,
			.site = op->site,
		};
		for (int i = 0; i < out->payload_part; i++)
			missed->ahead += out->parts[i].iov_len;
	}
	return false;
}

/* Counts what the kernel took. A send may be cut short; the rest is sent, and copied, later. */
void twi_tcp_zerocopy_missed(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			     uint64_t bytes)
{
	struct twi_tcp_missed *missed = &stream->tx_missed;

	/* The kernel's copies are not timed: they happen inside a send that is needed anyway. */
	if (missed->bytes > 0 && bytes > missed->ahead)
		twi_copy_record(lane->base.engine->diag, missed->reason,
				twi_min(bytes - missed->ahead, missed->bytes), 0, missed->site);
	missed->bytes = 0;
}

bool twi_tcp_zerocopy_go(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			 const struct twi_bulk_out *out, int slot)
{
	struct twi_tcp_peer *peer = stream->peer;
	bool trial = twi_path_choose(lane->base.engine, &peer->route, out->payload_bytes) ==
		     TWI_PATH_TRIAL;

	if (!send_zerocopy(lane, stream, out->claim, out->parts[0], slot))
		return false;
	if (trial)
		twi_path_tried(lane->base.engine, &peer->route);
	return true;
}

/*
 * The message is large and goes to the kernel. On a route where zero-copy pays, it is worth a
 * registration.
 */
enum twi_need twi_tcp_need(struct tow_peer *base, const struct tow_op *op)
{
	const struct twi_engine *engine = base->engine;
	const struct twi_route *route = &((struct twi_tcp_peer *)(void *)base)->route;

	if (op->kind != TWI_OP_SEND || !twi_path_eligible(engine, route, op->bytes) ||
	    (engine->ring != NULL && engine->ring->any_memory))
		return TWI_NEED_NOTHING;
	/* Strict mode does not depend on the result of trials so far. */
	return engine->knobs.require_zero_copy || twi_path_pays(engine, route, op->bytes)
		       ? TWI_NEED_WISHED
		       : TWI_NEED_NOTHING;
}

static struct tow_peer *peer_by_id(struct twi_engine *engine, uint64_t id)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &engine->peers) {
		struct tow_peer *peer = twi_container_of(pos, struct tow_peer, link);

		if (peer->id == id)
			return peer;
	}
	return NULL;
}

/* Drops the lease: the kernel does not read the memory any more. */
static void lease_drop(struct twi_tcp_lane *lane, struct twi_tcp_zc *record)
{
	if (!record->released)
		twi_claim_drop(lane->base.engine, &record->claim);
	record->released = true;
}

static void note_lag(struct twi_tcp_lane *lane, const struct twi_tcp_zc *record)
{
	struct twi_engine *engine = lane->base.engine;

	if (!record->released)
		twi_latency_add(engine->notify_lag, twi_engine_now(engine) - record->sent_ns);
}

/* Frees a record: the notification has come, or never will. */
static void record_free(struct twi_tcp_lane *lane, struct twi_tcp_zc *record)
{
	struct twi_engine *engine = lane->base.engine;

	lease_drop(lane, record);
	twi_assert_hot(engine->rings[record->ring]->notices > 0 && engine->notices > 0);
	engine->rings[record->ring]->notices--;
	engine->notices--;
	record->used = false;
	record->next_free = lane->zc_free;
	lane->zc_free = (uint32_t)(record - lane->zc) + 1;
}

void twi_tcp_zerocopy_ring_gone(struct twi_tcp_lane *lane, unsigned ring)
{
	for (uint32_t i = 0; i < TWI_ZC_RECORDS; i++) {
		if (lane->zc[i].used && lane->zc[i].ring == ring)
			record_free(lane, &lane->zc[i]);
	}
}

/* The send's own completion (with MORE: a notification follows) comes before the notification. */
void twi_tcp_zerocopy_sent(struct twi_tcp_lane *lane, uint32_t index, int res, uint32_t flags)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_tcp_zc *record = &lane->zc[index];
	struct tow_peer *peer;

	if (index >= TWI_ZC_RECORDS || !record->used)
		return;
	peer = peer_by_id(engine, record->peer_id);
	if ((flags & TWI_DONE_NOTICE) != 0) {
		note_lag(lane, record);
		if (peer != NULL)
			twi_path_report(engine, &((struct twi_tcp_peer *)(void *)peer)->route,
					record->bytes, ((uint32_t)res & TWI_DONE_KERNEL_COPY) != 0);
	} else {
		struct twi_tcp_slot *slot = &lane->slots[record->slot];

		record->sent_ns = twi_engine_now(engine);
		/* A full socket takes less than it was given, or nothing. */
		record->bytes = res > 0 ? (uint64_t)res : 0;

		if (res == -EINVAL || res == -EOPNOTSUPP || res == -ENOMEM || res == -EFAULT) {
			/*
			 * This kernel or a limit does not allow zero-copy: plain sends from now on.
			 * If the memory was the cause, they report it.
			 */
			if (peer != NULL)
				((struct twi_tcp_peer *)(void *)peer)->route.able = false;
			res = -EAGAIN;
		}
		if (slot->stream != NULL && slot->generation == record->generation) {
			record->end = slot->stream->tx_bytes + record->bytes;
			twi_tcp_sent(lane, slot->stream, res);
		}
	}
	if ((flags & TWI_DONE_MORE) == 0)
		record_free(lane, record);
}

/*
 * How many of the bytes that the stream has sent the peer's TCP has: all except those in the
 * socket's queue. The result may be too small, because tx_bytes does not count greetings.
 */
static uint64_t acked_bytes(const struct twi_tcp_stream *stream)
{
	int queued;

	if (ioctl(stream->fd, SIOCOUTQ, &queued) != 0 || (uint64_t)queued > stream->tx_bytes)
		return 0;
	return stream->tx_bytes - (uint64_t)queued;
}

/*
 * Has the kernel let go of the record's memory? When a stream is closed, its queue is dropped, and
 * packets in a driver are out soon.
 */
static bool is_over(struct twi_tcp_lane *lane, struct twi_tcp_zc *record, uint64_t now_ns)
{
	const struct twi_tcp_slot *slot = &lane->slots[record->slot];

	if (record->sent_ns == 0)
		return false;
	if (slot->stream != NULL && slot->generation == record->generation)
		return acked_bytes(slot->stream) >= record->end;
	if (record->gone_ns == 0)
		record->gone_ns = now_ns;
	return now_ns - record->gone_ns >= LET_GO_NS;
}

void twi_tcp_zerocopy_ask_later(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	if (twi_likely(lane->base.engine->notices == 0))
		return;
	lane->zc_pause_ns = ASK_NS;
	lane->zc_ask_ns = now_ns + ASK_NS;
	twi_tcp_due(lane, lane->zc_ask_ns);
}

uint64_t twi_tcp_zerocopy_ask(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	const struct twi_ring *ring = lane->base.engine->ring;
	bool more = false;

	if (now_ns < lane->zc_ask_ns)
		return lane->zc_ask_ns;
	for (uint32_t i = 0; i < TWI_ZC_RECORDS; i++) {
		struct twi_tcp_zc *record = &lane->zc[i];

		/* This thread gets the notifications of its own sends. */
		if (!record->used || record->released ||
		    (ring != NULL && record->ring == ring->index))
			continue;
		if (!is_over(lane, record, now_ns)) {
			more = true;
			continue;
		}
		note_lag(lane, record);
		lease_drop(lane, record);
	}
	lane->zc_pause_ns = twi_min(2 * lane->zc_pause_ns, (uint64_t)ASK_MAX_NS);
	lane->zc_ask_ns = more ? now_ns + lane->zc_pause_ns : UINT64_MAX;
	return lane->zc_ask_ns;
}

bool twi_tcp_zerocopy_holds(const struct twi_tcp_lane *lane, const struct twi_tcp_stream *stream,
			    const void *memory, uint64_t bytes)
{
	const uint8_t *first = memory;

	if (twi_likely(lane->base.engine->notices == 0))
		return false;
	for (uint32_t i = 0; i < TWI_ZC_RECORDS; i++) {
		const struct twi_tcp_zc *record = &lane->zc[i];
		const uint8_t *at = record->claim.memory;

		if (!record->used || record->released ||
		    (first != NULL && (at < first || at >= first + bytes)))
			continue;
		if (stream == NULL ||
		    (record->slot == stream->slot && record->generation == stream->generation))
			return true;
	}
	return false;
}

/* Does the kernel hold some of the payload of op, all of which is on its way? */
static bool holds_payload(const struct twi_tcp_lane *lane, const struct twi_tcp_stream *stream,
			  const struct tow_op *op)
{
	uint64_t run;

	for (uint64_t at = 0; at < op->bytes; at += run) {
		const void *memory;

		run = op->bytes - at;
		memory = twi_op_at(op, at, &run);
		if (twi_tcp_zerocopy_holds(lane, stream, memory, run))
			return true;
	}
	return false;
}

void twi_tcp_zerocopy_recall(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer,
			     const struct tow_op *op)
{
	struct twi_engine *engine = lane->base.engine;
	uint64_t until_ns;
	bool any = false;

	for (unsigned line = 1; line < peer->line_count; line++) {
		const struct twi_tcp_stream *stream = peer->lines[line].stream;

		if (stream == NULL || !holds_payload(lane, stream, op))
			continue;
		twi_error(TOW_EDEADLINE,
			  "the deadline of a send of %llu bytes passed, which the kernel could "
			  "still send again from its buffer",
			  (unsigned long long)op->bytes);
		twi_tcp_line_broken(lane, peer, line, 0);
		any = true;
	}
	if (!any || engine->ring == NULL)
		return;
	until_ns = twi_engine_clock(engine) + LET_GO_NS;
	do
		twi_ring_poll(engine->ring);
	while (holds_payload(lane, NULL, op) && twi_engine_clock(engine) < until_ns);
}

void twi_tcp_zerocopy_cut(const struct twi_tcp_lane *lane, const struct twi_tcp_stream *stream)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	/* A socket that is closed still sends its queue. A socket that is disconnected drops it. */
	if (twi_tcp_zerocopy_holds(lane, stream, NULL, 0))
		(void)connect(stream->fd, &none, sizeof(none));
}
