/*
 * loop_link.c - a link of the loop lane: two sessions, and how a side ends. The sessions move bytes
 * into and out of the pipes between them, as the tcp lane does with sockets (tcp_io.c).
 *
 * A side ends with its control stream: the end comes after all that was written there. A closed
 * side writes what it still has, and drops arrivals. It waits for the other side's end for
 * TWI_LOOP_LINGER_NS at most.
 */
#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/loop/loop.h"
#include "transport/op/lane_host.h"

/* Reads of one stream in one round: other streams have their turn, too. */
#define ROUNDS 16

static struct twi_loop_pipe *out_pipe(struct twi_loop_peer *peer, unsigned stream)
{
	return &peer->link->pipes[peer->side][stream];
}

static struct twi_loop_pipe *in_pipe(struct twi_loop_peer *peer, unsigned stream)
{
	return &peer->link->pipes[1 - peer->side][stream];
}

void twi_loop_activate(struct twi_loop_lane *lane, struct twi_loop_link *link)
{
	if (twi_list_empty(&link->active))
		twi_list_push_back(&lane->active, &link->active);
	/* A thread that sleeps does not know of these bytes: it must look again. */
	lane->base.engine->armed_since_enter = true;
}

void twi_loop_talks(struct twi_loop_lane *lane, struct twi_loop_peer *peer)
{
	if (twi_list_empty(&peer->to_flush))
		twi_list_push_back(&lane->to_flush, &peer->to_flush);
}

static bool stream_up(const struct twi_loop_peer *peer, unsigned stream)
{
	return twi_loop_wire_up(peer->link, stream, peer->side);
}

/* A write took what->bytes: the session learns of it now, or later. */
static int note_written(struct twi_loop_lane *lane, struct twi_loop_peer *peer, unsigned stream,
			const struct twi_loop_late *what)
{
	struct twi_session *session = &peer->session;

	if (what->bytes > 0 && twi_loop_chance(lane, lane->config.late)) {
		peer->late[stream] = *what;
		peer->late[stream].pending = true;
		peer->late[stream].due_ns = twi_engine_now(lane->base.engine) + 1 +
					    twi_loop_below(lane, lane->config.late_ns);
		return TOW_OK;
	}
	if (stream != TWI_LOOP_CONTROL)
		return twi_session_bulk_sent(session, stream - TWI_LOOP_BULK, what->bytes);
	if (what->bytes > 0)
		twi_session_control_sent(session, what->bytes);
	return TOW_OK;
}

/*
 * Reports a late write. Until now the write may have read the memory. So the memory is read once
 * more: a tool that watches memory then sees whether it was given back too early.
 */
static int tell_written(struct twi_loop_peer *peer, unsigned stream)
{
	struct twi_loop_late *late = &peer->late[stream];

	late->pending = false;
	if (late->payload_bytes > 0) {
		(void)late->payload[0];
		(void)late->payload[late->payload_bytes - 1];
	}
	if (stream != TWI_LOOP_CONTROL)
		return twi_session_bulk_sent(&peer->session, stream - TWI_LOOP_BULK, late->bytes);
	twi_session_control_sent(&peer->session, late->bytes);
	return TOW_OK;
}

bool twi_loop_tell(struct twi_loop_lane *lane, struct twi_loop_peer *peer, uint64_t now_ns)
{
	for (unsigned i = 0; i < peer->link->streams; i++) {
		int status = TOW_OK;

		if (peer->late[i].pending && peer->late[i].due_ns <= now_ns)
			status = tell_written(peer, i);
		if (status < 0) {
			twi_loop_protocol_error(lane, peer, status);
			return false;
		}
	}
	return true;
}

static unsigned send_control(struct twi_loop_lane *lane, struct twi_loop_peer *peer)
{
	struct twi_session *session = &peer->session;
	struct iovec out;
	size_t n;

	peer->blocked[TWI_LOOP_CONTROL] = false;
	if (!stream_up(peer, TWI_LOOP_CONTROL) || peer->late[TWI_LOOP_CONTROL].pending ||
	    !twi_session_control_out(session, &out))
		return 0;
	n = twi_loop_write(lane, peer->link, peer->side, TWI_LOOP_CONTROL, &out, 1, -1);
	note_written(lane, peer, TWI_LOOP_CONTROL, &(struct twi_loop_late){ .bytes = n });
	twi_count(lane->base.engine->diag, TWI_C_control_batches_sent, n > 0);
	/* sending may have made room for messages that waited for it */
	peer->blocked[TWI_LOOP_CONTROL] =
		!peer->late[TWI_LOOP_CONTROL].pending && twi_session_control_out(session, &out);
	return n > 0;
}

/*
 * May the payload be read? This wire is a copy in user space, where bad memory would end the
 * process.
 */
static bool can_read(struct twi_loop_peer *peer, unsigned stream, const struct twi_bulk_out *out)
{
	const struct tow_op *op = out->op;

	return op == NULL || out->payload_part < 0 ||
	       twi_access_check(&peer->readable[stream], op->seq,
				out->parts[out->payload_part].iov_base, out->payload_bytes,
				twi_op_end_of(op, out->parts[out->payload_part].iov_base), false);
}

static bool can_write(struct twi_loop_peer *peer, unsigned stream, const struct tow_op *op,
		      struct iovec part)
{
	return op == NULL || twi_access_check(&peer->writable[stream], op->seq, part.iov_base,
					      part.iov_len, twi_op_end_of(op, part.iov_base), true);
}

/* The payload among the first `bytes` of what goes out, unless a chunk has staged it. */
static struct twi_loop_late late_of(const struct twi_bulk_out *out, size_t bytes, bool staged)
{
	struct twi_loop_late late = { .bytes = bytes };

	if (out->payload_part < 0 || staged)
		return late;
	late.payload = out->parts[out->payload_part].iov_base;
	for (int i = 0; i < out->payload_part; i++)
		bytes -= twi_min(bytes, out->parts[i].iov_len);
	late.payload_bytes = twi_min(bytes, out->parts[out->payload_part].iov_len);
	return late;
}

static unsigned send_bulk(struct twi_loop_lane *lane, struct twi_loop_peer *peer, unsigned stream)
{
	struct twi_session *session = &peer->session;
	uint64_t most = lane->base.engine->knobs.bulk_chunk_bytes;
	struct twi_loop_pipe *pipe = out_pipe(peer, stream);
	unsigned c = stream - TWI_LOOP_BULK;
	struct twi_engine *engine = lane->base.engine;
	struct twi_loop_late late;
	struct twi_bulk_out out;
	enum twi_nic verdict;
	void *chunk;
	unsigned writes = 0;
	size_t n;

	peer->blocked[stream] = false;
	while (!peer->base.closed && stream_up(peer, stream) && !peer->late[stream].pending &&
	       twi_session_bulk_out(session, c, most, &out)) {
		if (twi_unlikely(!can_read(peer, stream, &out)) &&
		    twi_session_out_faulted(session, c))
			continue;
		chunk = NULL;
		verdict = lane->nic == NULL ? TWI_NIC_GO
					    : lane->nic->out(engine, lane->nic, &out,
							     pipe->room - pipe->fill, &chunk);
		n = verdict == TWI_NIC_GO ? twi_loop_write(lane, peer->link, peer->side, stream,
							   out.parts, out.count, out.payload_part)
					  : 0;
		if (chunk != NULL)
			twi_staging_release(&engine->staging, chunk);
		if (verdict == TWI_NIC_REFUSED)
			peer->refused = true;
		late = late_of(&out, n, chunk != NULL);
		if (note_written(lane, peer, stream, &late) < 0)
			peer->peer_broke_protocol = true;
		if (n == 0 || ++writes == ROUNDS) {
			peer->blocked[stream] = !peer->late[stream].pending;
			break;
		}
	}
	return writes;
}

/* Ends the pipe of a closed side whose last bytes are in it. */
static void finish_closing(struct twi_loop_lane *lane, struct twi_loop_peer *peer)
{
	struct twi_loop_pipe *pipe = out_pipe(peer, TWI_LOOP_CONTROL);

	if (!peer->base.closed || pipe->ended || peer->blocked[TWI_LOOP_CONTROL] ||
	    peer->late[TWI_LOOP_CONTROL].pending || !stream_up(peer, TWI_LOOP_CONTROL))
		return;
	twi_loop_pipe_end(lane, pipe);
}

unsigned twi_loop_flush(struct twi_loop_lane *lane, struct twi_loop_peer *peer, bool acks_too)
{
	struct twi_session *session = &peer->session;
	unsigned writes;
	struct iovec out;
	bool blocked;

	if (peer->link == NULL)
		return 0;
	if (acks_too || session->urgent || twi_session_control_out(session, &out))
		twi_session_ack(session);
	writes = send_control(lane, peer);
	if (!twi_session_control_out(session, &out))
		session->urgent = false;
	blocked = peer->blocked[TWI_LOOP_CONTROL] || peer->late[TWI_LOOP_CONTROL].pending;
	for (unsigned i = TWI_LOOP_BULK; i < peer->link->streams; i++) {
		writes += send_bulk(lane, peer, i);
		blocked = blocked || peer->blocked[i] || peer->late[i].pending;
	}
	finish_closing(lane, peer);
	if (writes > 0 || blocked)
		twi_loop_activate(lane, peer->link);
	return writes;
}

/* Takes the side off the link. The other side reads what is there already, and then the end. */
static void detach_side(struct twi_loop_lane *lane, struct twi_loop_peer *peer)
{
	struct twi_loop_link *link = peer->link;

	for (unsigned i = 0; i < link->streams; i++) {
		twi_loop_pipe_end(lane, out_pipe(peer, i));
		in_pipe(peer, i)->sunk = true;
		twi_loop_pipe_clear(in_pipe(peer, i));
		peer->late[i].pending = false;
	}
	if (link->wires[TWI_LOOP_CONTROL].broken &&
	    !link->wires[TWI_LOOP_CONTROL].ends[peer->side].said)
		lane->faults++; /* what it had still to send again is lost */
	link->sides[peer->side] = NULL;
	peer->link = NULL;
	twi_list_remove(&peer->to_flush);
	twi_loop_activate(lane, link);
}

void twi_loop_peer_free(struct twi_loop_lane *lane, struct twi_loop_peer *peer)
{
	if (peer->link != NULL)
		detach_side(lane, peer);
	twi_peer_teardown(&peer->base);
	twi_session_fini(&peer->session);
	twi_peer_free(&peer->base);
}

void twi_loop_peer_lost(struct twi_loop_lane *lane, struct twi_loop_peer *peer, int status)
{
	twi_peer_ended(&peer->base, status);
	detach_side(lane, peer);
	if (!peer->base.closed)
		twi_peer_tell_lost(&peer->base, tow_error_message());
	twi_session_fail(&peer->session, status);
	if (peer->base.closed)
		twi_loop_peer_free(lane, peer);
}

/* Sends why this side ends, as far as the pipe takes it at once. */
static void send_reason(struct twi_loop_lane *lane, struct twi_loop_peer *peer, int status)
{
	twi_peer_ended(&peer->base, status);
	twi_session_fail(&peer->session, status);
	twi_session_bye(&peer->session);
	for (int i = 0; i < ROUNDS; i++) {
		if (peer->late[TWI_LOOP_CONTROL].pending)
			tell_written(peer, TWI_LOOP_CONTROL);
		if (send_control(lane, peer) == 0)
			return;
	}
}

void twi_loop_protocol_error(struct twi_loop_lane *lane, struct twi_loop_peer *peer, int status)
{
	twi_count(lane->base.engine->diag, TWI_C_protocol_errors, status == TOW_EPROTOCOL);
	if (peer->session.rule != 0)
		send_reason(lane, peer, status);
	twi_loop_peer_lost(lane, peer, status);
}

/* Reads what is due on the control stream. Returns TOW_OK or the session's failure. */
static int read_control(struct twi_loop_lane *lane, struct twi_loop_peer *peer, unsigned *events)
{
	struct twi_loop_pipe *pipe = in_pipe(peer, TWI_LOOP_CONTROL);
	const uint8_t *at;
	size_t n = twi_loop_readable(lane, pipe, &at);
	int status = TOW_OK;

	if (n == 0)
		return TOW_OK;
	++*events;
	if (!peer->base.closed) {
		unsigned early = peer->session.early_count;

		status = twi_session_control_in(&peer->session, at, n);
		if (peer->session.early_count > early)
			lane->early += peer->session.early_count - early;
	}
	twi_loop_taken(pipe, n);
	return status;
}

static enum twi_nic payload_in(struct twi_loop_lane *lane, const struct tow_op *op, void *to,
			       const void *from, size_t *n)
{
	if (lane->nic != NULL)
		return lane->nic->in(lane->base.engine, lane->nic, op, to, from, n);
	twi_path_wire(to, from, *n);
	return TWI_NIC_GO;
}

/*
 * Copies up to *n bytes at `at` to where the session wants them; *n becomes how many it took.
 * Payload of an operation goes through the NIC, where there is one.
 */
static enum twi_nic scatter_bytes(struct twi_loop_lane *lane, struct twi_loop_peer *peer,
				  unsigned stream, const uint8_t *at, size_t *n)
{
	struct twi_session *session = &peer->session;
	struct twi_engine *engine = lane->base.engine;
	uint64_t most = engine->knobs.bulk_chunk_bytes;
	unsigned c = stream - TWI_LOOP_BULK;
	struct tow_op *op = twi_session_bulk_op(session, c);
	struct iovec parts[2];
	int count = twi_session_bulk_want(session, c, most, parts);
	enum twi_nic verdict;
	size_t done = 0;

	if (count > 0 && twi_unlikely(!can_write(peer, stream, op, parts[0])) &&
	    twi_session_in_faulted(session, c)) {
		op = NULL;
		count = twi_session_bulk_want(session, c, most, parts);
	}
	verdict = count > 0 ? TWI_NIC_GO : TWI_NIC_WAIT;

	for (int i = 0; i < count && done < *n; i++) {
		size_t part = twi_min(*n - done, parts[i].iov_len), moved = part;

		if (i == 0 && op != NULL)
			verdict = payload_in(lane, op, parts[i].iov_base, at + done, &moved);
		else
			twi_path_wire(parts[i].iov_base, at + done, part);
		if (verdict != TWI_NIC_GO)
			break;
		done += moved;
		if (moved < part)
			break;
	}
	*n = done;
	return verdict;
}

static int read_bulk(struct twi_loop_lane *lane, struct twi_loop_peer *peer, unsigned stream,
		     unsigned *events)
{
	struct twi_loop_pipe *pipe = in_pipe(peer, stream);
	unsigned c = stream - TWI_LOOP_BULK;
	enum twi_nic verdict;
	const uint8_t *at;
	size_t n;

	for (int i = 0; i < ROUNDS && (n = twi_loop_readable(lane, pipe, &at)) > 0; i++) {
		int status;

		if (peer->base.closed) {
			++*events;
			twi_loop_taken(pipe, n);
			continue;
		}
		verdict = scatter_bytes(lane, peer, stream, at, &n);
		if (verdict == TWI_NIC_WAIT)
			return TOW_OK;
		++*events;
		status = verdict == TWI_NIC_GO ? twi_session_bulk_in(&peer->session, c, n)
					       : TOW_EPROTOCOL;
		twi_loop_taken(pipe, n);
		if (status < 0)
			return status;
	}
	return TOW_OK;
}

int twi_loop_read(struct twi_loop_lane *lane, struct twi_loop_peer *peer, unsigned stream,
		  unsigned *events)
{
	twi_loop_talks(lane, peer);
	return stream == TWI_LOOP_CONTROL ? read_control(lane, peer, events)
					  : read_bulk(lane, peer, stream, events);
}

/* Reads all streams. False: the peer was lost by it. */
static bool read_all(struct twi_loop_lane *lane, struct twi_loop_peer *peer, unsigned *events)
{
	for (unsigned i = 0; i < peer->link->streams; i++) {
		int status = stream_up(peer, i) ? twi_loop_read(lane, peer, i, events) : TOW_OK;

		if (status < 0) {
			twi_loop_protocol_error(lane, peer, status);
			return false;
		}
	}
	return true;
}

/*
 * Ends the side if the other side's end has come, or it has lingered for long enough. True: it has
 * ended.
 */
static bool side_over(struct twi_loop_lane *lane, struct twi_loop_peer *peer, uint64_t now_ns)
{
	if (peer->refused || peer->peer_broke_protocol) {
		twi_loop_protocol_error(lane, peer, TOW_EPROTOCOL);
		return true;
	}
	if (peer->base.closed && now_ns >= peer->deadline_ns) {
		twi_loop_peer_lost(lane, peer, TOW_ECLOSED);
		return true;
	}
	if (peer->link->dark || !twi_loop_pipe_over(in_pipe(peer, TWI_LOOP_CONTROL), now_ns))
		return false;
	/* A broken stream ends only when the side has gone that would help to open it again. */
	if (!stream_up(peer, TWI_LOOP_CONTROL) && peer->link->sides[1 - peer->side] != NULL &&
	    !peer->link->cut)
		return false;
	twi_session_gone(&peer->session);
	twi_loop_peer_lost(lane, peer, TOW_EPEER);
	return true;
}

unsigned twi_loop_link_move(struct twi_loop_lane *lane, struct twi_loop_link *link)
{
	uint64_t now = twi_engine_now(lane->base.engine);
	unsigned events = twi_loop_wires_move(lane, link);

	for (unsigned i = 0; i < 2; i++) {
		struct twi_loop_peer *peer = link->sides[i];

		if (peer == NULL)
			continue;
		if ((!link->dark && !read_all(lane, peer, &events)) ||
		    !twi_loop_tell(lane, peer, now)) {
			events++;
			continue;
		}
		if (side_over(lane, peer, now))
			events++;
		else
			events += twi_loop_flush(lane, peer, false);
	}
	return events;
}

static uint64_t side_due(const struct twi_loop_link *link, unsigned side, uint64_t now_ns)
{
	const struct twi_loop_peer *peer = link->sides[side];
	uint64_t due = UINT64_MAX;

	if (peer == NULL)
		return UINT64_MAX;
	if (peer->base.closed)
		due = peer->deadline_ns;
	for (unsigned i = 0; i < link->streams; i++) {
		const struct twi_loop_pipe *in = &link->pipes[1 - side][i];
		const struct twi_loop_pipe *out = &link->pipes[side][i];

		due = twi_min(due, twi_loop_wire_due(link, i, side));
		if (peer->late[i].pending)
			due = twi_min(due, peer->late[i].due_ns);
		if (!twi_loop_wire_up(link, i, side) && link->sides[1 - side] != NULL)
			continue;
		if (!link->dark && (i == TWI_LOOP_CONTROL || in->count > 0) &&
		    (i == TWI_LOOP_CONTROL || peer->base.closed ||
		     !peer->session.channels[i - TWI_LOOP_BULK].in_waits))
			due = twi_min(due, twi_loop_pipe_due(in));
		if (peer->blocked[i] && (link->dark || out->sunk))
			due = now_ns;
		else if (peer->blocked[i] && out->fill < out->room)
			due = twi_min(due, out->stall_end_ns);
	}
	return due;
}

uint64_t twi_loop_link_due(const struct twi_loop_link *link, uint64_t now_ns)
{
	uint64_t a = side_due(link, 0, now_ns), b = side_due(link, 1, now_ns);

	return link->sides[0] == NULL && link->sides[1] == NULL ? now_ns : twi_min(a, b);
}

void twi_loop_link_free(struct twi_loop_link *link)
{
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned j = 0; j < link->streams; j++)
			twi_loop_pipe_fini(&link->pipes[i][j]);
	}
	twi_list_remove(&link->link);
	twi_list_remove(&link->active);
	free(link);
}

static int create_side(struct twi_loop_lane *lane, struct twi_loop_link *link, unsigned side,
		       const char *address)
{
	const struct twi_knobs *knobs = &lane->base.engine->knobs;
	struct twi_session_config config = {
		.lane = TWI_LANE_LOOP,
		.local_credit_bytes = knobs->credit_bytes,
		.remote_credit_bytes = knobs->credit_bytes,
		.eager_max_bytes = knobs->eager_max_bytes,
		.bulk_count = link->streams - TWI_LOOP_BULK,
		.checksum_all = knobs->checksum_all,
		.announce = lane->config.announce,
		.lone_bytes = lane->config.lone ? twi_session_lone(knobs->eager_max_bytes) : 0,
		.stripe_bytes = lane->config.stripe_bytes,
		.slices = lane->config.slices,
	};
	struct twi_loop_peer *peer = twi_peer_alloc(sizeof(*peer));
	int status;

	if (peer == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a peer");
	status = twi_session_init(&peer->session, lane->base.engine, &peer->base, &config);
	if (status < 0) {
		twi_peer_free(&peer->base);
		return status;
	}
	twi_peer_setup(&peer->base, &lane->base, address);
	peer->base.way = (struct twi_way){ .lane = TWI_LANE_LOOP, .copied = TWI_REQUIRE_LOOP };
	/* Both sides are this runtime: they offer the same, and know it without a HELLO. */
	peer->base.features =
		(uint32_t)twi_features_word(lane->base.engine->features, TWI_LANE_LOOP, 0);
	twi_list_init(&peer->to_flush);
	peer->base.connector = side == 0;
	peer->side = side;
	peer->link = link;
	link->sides[side] = peer;
	return TOW_OK;
}

/* Draws the faults of the link. */
static void draw_fate(struct twi_loop_lane *lane, struct twi_loop_link *link)
{
	const struct twi_loop_config *config = &lane->config;

	link->dark_at = link->cut_at = UINT64_MAX;
	if (twi_loop_chance(lane, config->dark))
		link->dark_at = 1 + twi_loop_below(lane, config->fault_bytes);
	if (twi_loop_chance(lane, config->disconnect))
		link->cut_at = 1 + twi_loop_below(lane, config->fault_bytes);
	for (unsigned i = 0; i < link->streams; i++)
		twi_loop_wire_draw(lane, &link->wires[i]);
}

int twi_loop_link_create(struct twi_loop_lane *lane, const struct twi_loop_dial *dial,
			 struct twi_loop_link **link_out)
{
	struct twi_loop_link *link = calloc(1, sizeof(*link));
	uint32_t room = lane->config.pipe_bytes;
	int status = TOW_OK;

	if (link == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a connection");
	twi_list_init(&link->active);
	twi_list_push_back(&lane->links, &link->link);
	link->streams = TWI_LOOP_BULK + lane->config.channels;
	for (unsigned i = 0; i < 2 * link->streams && status == TOW_OK; i++)
		status = twi_loop_pipe_init(&link->pipes[i % 2][i / 2], room);
	if (status == TOW_OK)
		status = create_side(lane, link, 0, dial->to);
	if (status == TOW_OK)
		status = create_side(lane, link, 1, dial->from);
	if (status < 0) {
		if (link->sides[0] != NULL)
			twi_loop_peer_free(lane, link->sides[0]);
		twi_loop_link_free(link);
		return status;
	}
	draw_fate(lane, link);
	*link_out = link;
	return TOW_OK;
}
