/*
 * tcp_hello.c - the meaning of a HELLO: a new peer, one more line of it, or a line to resume.
 *
 *	connector                                acceptor
 *	HELLO(control, S), ADDRESS      ---->    makes the peer, token T
 *	               <----  HELLO(control, S, T), ADDRESS
 *	HELLO(bulk i, S, T), each       ---->    finds the peer by (S, T)
 *	               <----  HELLO(bulk i, S, T), each: with the last one the peer is up, or is
 *	                      refused by FULL, because no more peers may wait to be accepted
 *
 *	HELLO(RESUME, S, T), record     ---->    finds the peer, drops the line's old stream
 *	               <----  HELLO(RESUME, S, T), record: the line goes on, on both sides
 *
 * tcp_resume.c has what a stream that resumes a line says.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/tcp/tcp.h"
#include "transport/lanes/tcp/tcp_break.h"
#include "transport/lanes/tcp/tcp_resume.h"
#include "transport/op/lane_host.h"

uint64_t twi_tcp_random_id(void)
{
	uint64_t id = 0;

	while (id == 0) {
		if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
			id = twi_now_ns();
	}
	return id;
}

static uint64_t features_of(const struct twi_tcp_peer *peer)
{
	return twi_features_word(peer->base.engine->features, TWI_LANE_TCP, 0);
}

/* Our HELLO of this stream, without the parts that depend on the kind of handshake. */
static void hello_of(const struct twi_tcp_stream *stream, struct twi_tcp_words *words)
{
	const struct twi_tcp_peer *peer = stream->peer;
	const struct twi_knobs *knobs = &peer->base.engine->knobs;

	words->hello = (struct twi_hello){
		.kind = stream->line > 0 ? TWI_STREAM_BULK : TWI_STREAM_CONTROL,
		.session = peer->session_id,
		.token = peer->token,
	};
	words->tail_bytes = 0;
	if (stream->line > 0) {
		words->hello.channel = stream->line - 1;
		return;
	}
	words->hello.bulk_count =
		(uint8_t)(peer->line_count > 1 ? peer->line_count - 1 : knobs->bulk_streams);
	words->hello.eager_max_bytes = knobs->eager_max_bytes;
	words->hello.credit_bytes = knobs->credit_bytes;
	words->hello.features = features_of(peer);
}

/* Adds the ADDRESS record: the addresses of this side. */
static void add_address(struct twi_tcp_lane *lane, const struct twi_tcp_stream *stream,
			struct twi_tcp_words *words)
{
	struct twi_tcp_advertised advertised = { 0 };
	struct twi_tcp_address local;

	twi_tcp_refresh_interfaces(lane);
	if (stream->peer->listener->endpoint != NULL && twi_tcp_local(stream->fd, &local))
		twi_tcp_tell(&lane->have, &stream->peer->listener->at, &local, &advertised);
	twi_tcp_advertised_put(words->tail, &advertised);
	words->tail_bytes = TWI_TCP_ADVERTISED_BYTES;
}

/* Sends the connector's HELLO and tail, unless the knob `require` refuses the stream. */
static int hello_send(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_tcp_words words;
	int status = twi_tcp_meet(stream->peer, stream);

	if (status < 0)
		return status;
	hello_of(stream, &words);
	if (stream->redial)
		twi_tcp_resume_put(stream, &words);
	else if (stream->line == 0)
		add_address(lane, stream, &words);
	stream->greet->said = true;
	return twi_tcp_greet_say(stream, &words);
}

static int take_address(const struct twi_tcp_stream *stream, struct twi_tcp_peer *peer,
			const struct twi_tcp_words *words)
{
	struct twi_tcp_address here, there;
	bool local;

	/* It may have been reset since this was read: then it has no addresses. */
	if (!twi_tcp_local(stream->fd, &here) || !twi_tcp_remote(stream->fd, &there))
		return twi_error_errno(TOW_EPEER, errno, "the connection broke");
	local = twi_tcp_same_host(&here, &there) ||
		(twi_tcp_loopback(&here) && twi_tcp_loopback(&there));
	if (words->tail_bytes != TWI_TCP_ADVERTISED_BYTES)
		return twi_error(TOW_EPROTOCOL, "handshake: the ADDRESS record is missing");
	return twi_tcp_advertised_get(words->tail, local, &peer->advertised);
}

/* Computes what both sides can do. Both get the same result from the same two sets of features. */
static int agree_features(struct twi_tcp_peer *peer, const struct twi_hello *hello)
{
	const struct twi_feature_side ours = { features_of(peer), TWI_WIRE_MAJOR, TWI_WIRE_MINOR };

	peer->base.theirs = (struct twi_feature_side){ hello->features, hello->version_major,
						       hello->version_minor };
	return twi_features_agree(peer->base.address, &ours, &peer->base.theirs,
				  &peer->base.features);
}

static int start_session(struct twi_tcp_peer *peer, const struct twi_hello *hello)
{
	/* The session begins before agree_features, so the agreement is computed here. */
	const uint64_t agreed = hello->features & features_of(peer);
	const bool lone = (agreed & TWI_FEATURE_BIT(tcp_lone)) != 0;
	const struct twi_knobs *knobs = &peer->base.engine->knobs;
	struct twi_session_config config = {
		.lane = TWI_LANE_TCP,
		.local_credit_bytes = knobs->credit_bytes,
		.remote_credit_bytes = hello->credit_bytes,
		.eager_max_bytes = twi_min(knobs->eager_max_bytes, hello->eager_max_bytes),
		.bulk_count = peer->line_count - 1,
		.checksum_all = knobs->checksum_all,
		.slices = (agreed & TWI_FEATURE_BIT(tcp_slices)) != 0,
	};
	int status;

	config.lone_bytes = lone ? twi_session_lone(config.eager_max_bytes) : 0;
	status = twi_session_init(&peer->session, peer->base.engine, &peer->base, &config);
	peer->session_up = status == TOW_OK;
	return status;
}

/* If all lines are greeted, the peer is up and goes to the user. */
static void peer_up(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer)
{
	struct tow_op *op = peer->dial;

	for (unsigned i = 0; i < peer->line_count; i++) {
		if (peer->lines[i].stream == NULL ||
		    peer->lines[i].stream->state != TWI_TCP_PAIRING)
			return; /* one is still to come */
	}
	for (unsigned i = 0; i < peer->line_count; i++) {
		if (peer->lines[i].stream->seal != NULL)
			peer->route.sealed = true;
		twi_tcp_stream_up(lane, peer->lines[i].stream);
	}
	peer->up = true;
	twi_tcp_stall_ways(peer);
	peer->heard_ns = twi_engine_now(lane->base.engine);
	twi_tcp_beat_start(lane);
	twi_count(lane->base.engine->diag, TWI_C_peers_connected, 1);
	twi_log(lane->base.engine->diag, 3, "peer %s is up", peer->base.address);
	if (op != NULL) {
		peer->dial = NULL;
		op->lane_state = NULL;
		op->peer = &peer->base;
		peer->base.shown = true;
		twi_op_complete(op, TOW_OK, 0);
		return;
	}
	twi_endpoint_ready(&peer->listener->endpoint->base, &peer->base);
}

/* The stream waits for the peer's other streams. Its memory for the handshake is given back. */
static void stream_greeted(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	stream->state = TWI_TCP_PAIRING;
	twi_tcp_greet_end(lane, stream);
}

/*
 * Is there room for one more peer whose bulk streams have not come? Without a job key, any client
 * may come so far and cost a session's memory. So TWI_HANDSHAKES_MAX may wait. The oldest gives way
 * after TWI_STRANGER_NS.
 */
static bool room_to_pair(struct twi_tcp_lane *lane)
{
	struct twi_tcp_stream *oldest = NULL;
	struct twi_list *pos, *next;
	unsigned pairing = 0;

	if (lane->base.engine->job_key.set)
		return true;
	twi_list_for_each_safe (pos, next, &lane->handshakes) {
		struct twi_tcp_stream *stream = twi_container_of(pos, struct twi_tcp_stream, link);

		if (stream->ours || stream->state != TWI_TCP_PAIRING || stream->line > 0)
			continue;
		pairing++;
		if (oldest == NULL)
			oldest = stream;
	}
	if (pairing < TWI_HANDSHAKES_MAX)
		return true;
	if (twi_engine_now(lane->base.engine) - oldest->start_ns < TWI_STRANGER_NS)
		return false;
	twi_count(lane->base.engine->diag, TWI_C_handshakes_evicted, 1);
	twi_tcp_peer_free(oldest->peer);
	return true;
}

/* A control HELLO came in on an accepted stream: this is a new peer. */
static int welcome_control(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			   const struct twi_tcp_words *words)
{
	const struct twi_hello *hello = &words->hello;
	struct twi_tcp_words answer;
	struct twi_tcp_peer *peer;
	struct twi_tcp_address remote;
	char text[TOW_ADDRESS_MAX];
	int status;

	if (stream->listener->endpoint == NULL)
		return twi_error(TOW_EREFUSED, "the endpoint is closed");
	if (!room_to_pair(lane))
		return twi_error(TOW_EBUSY, "too many peers are in their handshake");
	if (!twi_tcp_remote(stream->fd, &remote))
		return twi_error_errno(TOW_EPEER, errno, "getpeername");
	twi_tcp_format(&remote, text);
	peer = twi_tcp_peer_create(lane, text, stream->listener);
	if (peer == NULL)
		return TOW_ENOMEM;
	peer->remote = remote;
	peer->session_id = hello->session;
	peer->token = twi_tcp_random_id();
	peer->line_count =
		1 + twi_min((unsigned)hello->bulk_count, lane->base.engine->knobs.bulk_streams);
	peer->lines[0].stream = stream;
	stream->peer = peer;
	status = take_address(stream, peer, words);
	if (status == TOW_OK)
		status = start_session(peer, hello);
	if (status < 0)
		return status;
	hello_of(stream, &answer);
	add_address(lane, stream, &answer);
	/* The HELLO goes out before the check, so that a refused side can report the reason. */
	status = twi_tcp_greet_say(stream, &answer);
	if (status == TOW_OK)
		status = agree_features(peer, hello);
	if (status == TOW_OK)
		status = twi_tcp_meet(peer, stream);
	if (status == TOW_OK)
		stream_greeted(lane, stream);
	return status;
}

/*
 * The peer of the session and token in the HELLO. `connector`: this side's role in the session. The
 * role distinguishes the two ends in a runtime that is connected to itself.
 */
static struct twi_tcp_peer *find_peer(struct twi_tcp_lane *lane, const struct twi_hello *hello,
				      bool connector)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->base.engine->peers) {
		struct tow_peer *base = twi_container_of(pos, struct tow_peer, link);
		struct twi_tcp_peer *peer = (struct twi_tcp_peer *)(void *)base;

		if (base->lane == &lane->base && peer->session_up && !peer->lost &&
		    peer->base.connector == connector &&
		    ((peer->session_id ^ hello->session) | (peer->token ^ hello->token)) == 0)
			return peer;
	}
	return NULL;
}

/* Are all other lines of the peer greeted? Then it is up with this one. */
static bool is_last(const struct twi_tcp_peer *peer, unsigned line)
{
	for (unsigned i = 0; i < peer->line_count; i++) {
		if (i != line && (peer->lines[i].stream == NULL ||
				  peer->lines[i].stream->state != TWI_TCP_PAIRING))
			return false;
	}
	return true;
}

/* A bulk HELLO came in: its token tells which peer it belongs to. */
static int welcome_bulk(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			const struct twi_tcp_words *words)
{
	struct twi_tcp_peer *peer = find_peer(lane, &words->hello, false);
	unsigned line = 1u + words->hello.channel;
	struct twi_tcp_words answer;
	int status;

	if (peer == NULL || peer->up)
		return twi_error(TOW_EPROTOCOL, "a bulk stream names no peer that waits for one");
	if (line >= peer->line_count || peer->lines[line].stream != NULL || words->tail_bytes != 0)
		return twi_error(TOW_EPROTOCOL, "a bulk stream of a channel that is there already");
	/* A stream over a forbidden interface ends alone: its connector takes another rail. */
	stream->line = (uint8_t)line;
	status = twi_tcp_meet(peer, stream);
	if (status < 0)
		return status;
	stream->peer = peer;
	peer->lines[line].stream = stream;
	hello_of(stream, &answer);
	/* FULL is decided with the last answer, so that no other peer takes the place between. */
	if (is_last(peer, line) && twi_endpoint_full(&peer->listener->endpoint->base))
		answer.hello.flags = TWI_HELLO_FULL;
	status = twi_tcp_greet_say(stream, &answer);
	if (status == TOW_OK && answer.hello.flags != 0)
		status = twi_endpoint_refused(peer->listener->endpoint->base.address);
	if (status < 0)
		return status;
	stream_greeted(lane, stream);
	peer_up(lane, peer);
	return TOW_OK;
}

/* A peer resumes a line: then the line is broken, even if this side has not seen it. */
static int welcome_back(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			const struct twi_tcp_words *words)
{
	bool bulk = words->hello.kind == TWI_STREAM_BULK;
	bool connector;
	int status = twi_tcp_resume_speaker(words, &connector);
	struct twi_tcp_peer *peer = status < 0 ? NULL : find_peer(lane, &words->hello, !connector);
	unsigned line = bulk ? 1u + words->hello.channel : 0;
	struct twi_tcp_words answer;

	if (status == TOW_OK)
		status = peer == NULL
				 ? twi_error(TOW_EPROTOCOL,
					     "a stream resumes a session that does not exist here")
				 : twi_tcp_may_resume(peer, line, words);
	if (status == TOW_OK)
		status = twi_tcp_meet(peer, stream);
	if (status < 0) {
		twi_count(lane->base.engine->diag, TWI_C_resume_failed, 1);
		return status;
	}
	if (peer->lines[line].trial != NULL)
		twi_tcp_stream_destroy(lane, peer->lines[line].trial);
	if (peer->lines[line].stream != NULL)
		twi_tcp_line_superseded(lane, peer, line);
	stream->peer = peer;
	stream->line = (uint8_t)line;
	hello_of(stream, &answer);
	twi_tcp_resume_put(stream, &answer);
	status = twi_tcp_greet_say(stream, &answer);
	if (status < 0) {
		stream->peer = NULL; /* the line stays broken, and the peer has not changed */
		return status;
	}
	twi_tcp_resumed(lane, stream, words);
	return TOW_OK;
}

/* Handles the answer to our HELLO. */
static int hello_answered(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			  const struct twi_tcp_words *words)
{
	const struct twi_hello *hello = &words->hello;
	struct twi_tcp_peer *peer = stream->peer;
	bool bulk = hello->kind == TWI_STREAM_BULK, first = stream->line == 0 && !stream->redial;
	int status;

	if (bulk != (stream->line > 0) || hello->session != peer->session_id ||
	    (!first && hello->token != peer->token) ||
	    (bulk && hello->channel != stream->line - 1) ||
	    ((hello->flags & TWI_HELLO_RESUME) != 0) != stream->redial)
		return twi_error(TOW_EPROTOCOL, "peer %s answered for another session",
				 peer->base.address);
	if ((hello->flags & TWI_HELLO_FULL) != 0) {
		stream->full = true;
		return twi_endpoint_refused(peer->base.address);
	}
	if (stream->redial) {
		status = twi_tcp_resume_newer(peer, stream->line, words);
		if (status == TOW_OK)
			twi_tcp_resumed(lane, stream, words);
		return status;
	}
	if (!first) {
		stream_greeted(lane, stream);
		peer_up(lane, peer);
		return TOW_OK;
	}
	if (hello->bulk_count > lane->base.engine->knobs.bulk_streams)
		return twi_error(TOW_EPROTOCOL, "peer %s wants more bulk streams than were offered",
				 peer->base.address);
	peer->token = hello->token;
	peer->line_count = 1u + hello->bulk_count;
	status = agree_features(peer, hello);
	if (status == TOW_OK)
		status = take_address(stream, peer, words);
	if (status == TOW_OK)
		status = start_session(peer, hello);
	if (status < 0)
		return status;
	stream_greeted(lane, stream);
	return twi_tcp_dial_lines(lane, peer);
}

/* Continues the handshake as far as the bytes that have come allow. */
static int handshake_continue(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	struct twi_tcp_words words;
	int status = twi_tcp_greet_prove(lane, stream);

	if (status == TOW_OK && stream->ours && !stream->greet->said)
		status = hello_send(lane, stream);
	if (status == TOW_OK)
		status = twi_tcp_greet_hear(lane, stream, &words);
	if (status != TOW_OK) /* TOW_AGAIN, too */
		return status;
	if (stream->ours)
		return hello_answered(lane, stream, &words);
	stream->resumes = (words.hello.flags & TWI_HELLO_RESUME) != 0;
	if (stream->resumes)
		return welcome_back(lane, stream, &words);
	return words.hello.kind == TWI_STREAM_BULK ? welcome_bulk(lane, stream, &words)
						   : welcome_control(lane, stream, &words);
}

/* Ends a stream that is still in its handshake, and its peer if that is not up. */
void twi_tcp_handshake_failed(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream, int status)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_tcp_peer *peer = stream->peer;

	if (peer != NULL && peer->up) { /* a redial of ours */
		unsigned line = stream->line;
		enum twi_tcp_denial denial = stream->denial;

		twi_tcp_stream_destroy(lane, stream);
		if (peer->lines[line].stream == NULL)
			twi_tcp_attempt_failed(lane, peer, line, denial);
		return; /* else the line has another stream, which goes on */
	}
	if (peer != NULL && peer->dial != NULL && twi_tcp_dial_elsewhere(lane, stream) == TOW_OK)
		return;
	if (stream->left)
		twi_count(engine->diag, TWI_C_handshakes_abandoned, 1);
	else if (!stream->resumes) /* counted in resume_failed */
		twi_count(engine->diag, TWI_C_handshakes_refused, 1);
	if (!stream->left && (peer == NULL || peer->dial == NULL || peer->base.unmet))
		twi_tcp_refusal(lane, tow_error_message());
	if (peer == NULL)
		twi_tcp_stream_destroy(lane, stream);
	else if (peer->dial != NULL)
		twi_tcp_dial_failed(peer, status);
	else
		twi_tcp_peer_free(peer); /* accepted, never shown to the user */
}

void twi_tcp_handshake_event(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream)
{
	int err = 0, status;
	socklen_t bytes = sizeof(err);

	if (stream->state == TWI_TCP_CONNECTING) {
		getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &err, &bytes);
		if (err != 0) {
			if (err != ECONNREFUSED)
				stream->denial = TWI_TCP_NO_ANSWER;
			status = twi_tcp_connect_error(stream->peer, err);
			twi_tcp_handshake_failed(lane, stream, status);
			return;
		}
		stream->denial = TWI_TCP_NO_ANSWER;
		stream->state = TWI_TCP_GREETING;
		stream->peer->dial_errno = 0;
		if (stream->redial && stream->peer->lines[stream->line].stream != NULL)
			twi_tcp_line_returns(lane, stream->peer, stream->line);
		if (!twi_tcp_greet_start(lane, stream))
			return;
	}
	if (stream->state != TWI_TCP_GREETING)
		return; /* PAIRING: nothing may come before the peer is up */
	status = handshake_continue(lane, stream);
	if (status < 0)
		twi_tcp_handshake_failed(lane, stream, status);
}

/* Has the other side closed a stream that is greeted and waits? Such a stream is not read. */
static bool has_ended(const struct twi_tcp_stream *stream)
{
	uint8_t byte;
	ssize_t n = recv(stream->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

uint64_t twi_tcp_handshake_expire(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->handshakes) {
		struct twi_tcp_stream *stream = twi_container_of(pos, struct twi_tcp_stream, link);

		if (stream->deadline_ns > now_ns) {
			next_ns = twi_min(next_ns, stream->deadline_ns);
			continue;
		}
		stream->left = stream->state == TWI_TCP_PAIRING && has_ended(stream);
		if (stream->state == TWI_TCP_CONNECTING)
			stream->peer->dial_errno = ETIMEDOUT;
		/* A redial has less time than a first connect. */
		twi_error(TOW_EDEADLINE, stream->redial ? "no answer in time"
							: "a handshake took longer than "
							  "connect_timeout_ns");
		twi_tcp_handshake_failed(lane, stream, TOW_EDEADLINE);
		next = lane->handshakes.next; /* streams of the same peer may have been freed too */
	}
	return next_ns;
}
