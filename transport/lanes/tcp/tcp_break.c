/*
 * tcp_break.c - lines that broke, and peers that are silent.
 *
 *	UP --stream ends without BYE--> BROKEN --dial--> trial --resume records--> UP
 *	                                  ^                |
 *	                                  +--- back-off ---+      10 ms, doubling to 1 s, next rail
 *
 * The side that connected the session dials after the first back-off. The other side waits 100 ms
 * longer, because it is being dialed. Then it dials too, if the peer has sent it an address. A peer
 * is lost when
 *
 *	- no process listens any more at its address: refused three times in a row over 100 ms; or
 *	  its session is not known there: three times over half a second. The process was killed;
 *	- a line stays broken for peer_timeout_ns. The host has vanished, or the network is parted;
 *	- its process, of this host, has ended, and nothing has come since for a tenth of a second,
 *	  even if other processes still hold its sockets;
 *	- it has sent BYE;
 *	- a line is resumed again and again, and nothing moves on it: the cause is not the network.
 *
 * Silence while something is awaited: the lane sends a ping after heartbeat_ns. After a third of
 * peer_timeout_ns it makes new connections, because a route may have failed without an error. After
 * all of peer_timeout_ns, the peer is lost. Silence is counted only while this side looks. If a
 * program does not drive its runtime for a minute, the peers are not silent for that time.
 */
#include <stdio.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/tcp/tcp.h"
#include "transport/lanes/tcp/tcp_break.h"

#define MS_NS          (1000ull * 1000)
#define BACKOFF_MIN_NS (10 * MS_NS)
#define BACKOFF_MAX_NS (1000 * MS_NS)
#define ACCEPTOR_NS    (100 * MS_NS) /* how long the acceptor waits to be dialed */
#define REFUSALS       3u
#define NOBODY_NS      (100 * MS_NS)
#define UNKNOWN_NS     (500 * MS_NS)
#define ORPHAN_NS      (100 * MS_NS)
#define FRUITLESS      10u /* resumes in a row without progress: 4 s of back-off */

static uint64_t timeout_of(const struct twi_engine *engine)
{
	return engine->knobs.peer_timeout_ns;
}

static void note_error(struct twi_tcp_line *line)
{
	snprintf(line->error, sizeof(line->error), "%s", tow_error_message());
}

static const char *line_name(unsigned line, char text[16])
{
	if (line == 0)
		return "control";
	snprintf(text, 16, "bulk %u", line - 1);
	return text;
}

/*
 * Ends the line's stream, and informs the session. No byte of the stream counts any more. The break
 * is not counted yet.
 */
static void cut_line(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line)
{
	if (peer->lines[line].stream != NULL)
		twi_tcp_stream_destroy(lane, peer->lines[line].stream);
	if (line == 0)
		twi_session_control_broken(&peer->session);
	else
		twi_session_bulk_broken(&peer->session, line - 1);
	peer->lines[line].counted = false;
}

/*
 * Counts a break when the lane acts on it. A peer that closes ends its streams one after another,
 * and its BYE may be read last; those ends are no breaks.
 */
static void count_break(struct twi_tcp_lane *lane, struct twi_tcp_line *line)
{
	if (line->counted)
		return;
	line->counted = true;
	line->breaks++;
	twi_count(lane->base.engine->diag, TWI_C_connections_broken, 1);
}

void twi_tcp_line_superseded(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line)
{
	snprintf(peer->lines[line].error, sizeof(peer->lines[line].error),
		 "the other side dialed anew");
	cut_line(lane, peer, line);
}

void twi_tcp_line_broken(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line,
			 uint64_t since_ns)
{
	struct twi_tcp_line *at = &peer->lines[line];
	uint64_t now = twi_engine_now(lane->base.engine);
	unsigned fruitless = twi_session_fruitless(&peer->session, line);
	char text[16], rank[TWI_PEER_RANK];

	note_error(at);
	if (twi_unlikely(at->trial != NULL && at->stream != NULL)) /* over a path it had left */
		twi_tcp_stream_destroy(lane, at->trial);
	snprintf(at->why, sizeof(at->why), "%s", tow_error_message());
	twi_log(lane->base.engine->diag, 3, "peer %s: %s connection: %s", peer->base.address,
		line_name(line, text), at->error);
	cut_line(lane, peer, line);
	if (peer->parting && line > 0)
		return;
	at->broken_ns = since_ns != 0 ? since_ns : now;
	at->attempts = 0;
	at->refusals = 0;
	if (fruitless >= FRUITLESS) {
		twi_error(TOW_EPEER,
			  "peer %s%s is gone: its %s connection was resumed %u times in a row, "
			  "and broke each time before anything had moved (%s)",
			  peer->base.address, twi_peer_rank(&peer->base, rank),
			  line_name(line, text), fruitless, at->why);
		twi_tcp_peer_lost(peer, peer->base.closed ? TOW_ECLOSED : TOW_EPEER);
		return;
	}
	at->backoff_ns = twi_min(BACKOFF_MIN_NS << fruitless, BACKOFF_MAX_NS);
	at->redial_ns = now + at->backoff_ns + (peer->base.connector ? 0 : ACCEPTOR_NS);
	if (twi_list_empty(&peer->troubled))
		twi_list_push_back(&lane->troubled, &peer->troubled);
	twi_tcp_due(lane, at->redial_ns);
	twi_tcp_due(lane, at->broken_ns + timeout_of(lane->base.engine));
}

void twi_tcp_line_returns(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line)
{
	static const char why[] = "the path that it had left works again";
	struct twi_tcp_line *at = &peer->lines[line];

	snprintf(at->why, sizeof(at->why), "%s", why);
	snprintf(at->error, sizeof(at->error), "%s", why);
	cut_line(lane, peer, line);
	at->broken_ns = twi_engine_now(lane->base.engine);
	at->attempts = at->refusals = 0;
	at->backoff_ns = BACKOFF_MIN_NS;
	at->redial_ns = at->broken_ns; /* if this attempt fails */
	if (twi_list_empty(&peer->troubled))
		twi_list_push_back(&lane->troubled, &peer->troubled);
	twi_tcp_due(lane, at->broken_ns + timeout_of(lane->base.engine));
}

void twi_tcp_line_mended(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line)
{
	struct twi_tcp_line *at = &peer->lines[line];
	bool troubled = false;
	char text[16];

	count_break(lane, at);
	at->broken_ns = 0;
	at->attempts = 0;
	at->refusals = 0;
	twi_tcp_stall_mended(lane, peer, line);
	at->resumes++;
	twi_tcp_stall_ways(peer);
	peer->heard_ns = twi_engine_now(lane->base.engine);
	for (unsigned i = 0; i < peer->line_count; i++)
		troubled = troubled || peer->lines[i].broken_ns != 0;
	if (!troubled)
		twi_list_remove(&peer->troubled);
	twi_count(lane->base.engine->diag, TWI_C_connections_resumed, 1);
	twi_log(lane->base.engine->diag, 3, "peer %s: %s connection resumed", peer->base.address,
		line_name(line, text));
	twi_tcp_mark_dirty(peer);
}

static void line_gone(struct twi_tcp_peer *peer, const struct twi_tcp_line *line, uint64_t now_ns,
		      const char *how)
{
	uint64_t ms = (now_ns - line->broken_ns) / MS_NS;
	char rank[TWI_PEER_RANK];

	twi_error(TOW_EPEER,
		  "peer %s%s is gone: %s; its connection broke %llu.%03llu s ago (%s), and %u "
		  "attempts to dial it failed; the last error: %.90s",
		  peer->base.address, twi_peer_rank(&peer->base, rank), how,
		  (unsigned long long)ms / 1000, (unsigned long long)ms % 1000, line->why,
		  line->attempts, line->error);
	twi_tcp_peer_lost(peer, peer->base.closed ? TOW_ECLOSED : TOW_EPEER);
}

bool twi_tcp_attempt_failed(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line,
			    enum twi_tcp_denial denial)
{
	struct twi_tcp_line *at = &peer->lines[line];
	uint64_t now = twi_engine_now(lane->base.engine);

	note_error(at);
	at->attempts++;
	twi_count(lane->base.engine->diag, TWI_C_resume_failed, 1);
	if (denial == TWI_TCP_NO_ANSWER)
		at->refusals = 0;
	else if (at->refusals++ == 0)
		at->refused_ns = now;
	if (at->refusals >= REFUSALS && denial == TWI_TCP_NOBODY &&
	    now - at->refused_ns >= NOBODY_NS) {
		line_gone(peer, at, now, "nothing listens at its address any more");
		return false;
	}
	if (at->refusals >= REFUSALS && denial == TWI_TCP_UNKNOWN &&
	    now - at->refused_ns >= UNKNOWN_NS) {
		line_gone(peer, at, now,
			  "the process that listens at its address does not know this session");
		return false;
	}
	at->redial_ns = now + at->backoff_ns;
	at->backoff_ns = twi_min(at->backoff_ns * 2, (uint64_t)BACKOFF_MAX_NS);
	twi_tcp_due(lane, at->redial_ns);
	return true;
}

/* Works on one line of a troubled peer. False: the peer is lost. */
static bool mend_line(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, unsigned line,
		      uint64_t now_ns)
{
	struct twi_tcp_line *at = &peer->lines[line];
	uint64_t gone_ns = at->broken_ns + timeout_of(lane->base.engine);
	enum twi_tcp_denial denial;

	if (at->broken_ns == 0)
		return true;
	if (now_ns >= gone_ns) {
		line_gone(peer, at, now_ns, "it did not come back within peer_timeout_ns");
		return false;
	}
	if (at->redial_ns <= now_ns)
		count_break(lane, at);
	if (at->trial == NULL && at->redial_ns <= now_ns &&
	    twi_tcp_dial_again(lane, peer, line, &denial) < 0 &&
	    !twi_tcp_attempt_failed(lane, peer, line, denial))
		return false;
	twi_tcp_due(lane, gone_ns);
	if (at->trial == NULL)
		twi_tcp_due(lane, at->redial_ns);
	return true;
}

static void redial_lines(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->troubled) {
		struct twi_tcp_peer *peer = twi_container_of(pos, struct twi_tcp_peer, troubled);

		for (unsigned line = 0; line < peer->line_count; line++) {
			if (!mend_line(lane, peer, line, now_ns))
				break;
		}
	}
}

/* The time between two looks at the silence of peers. */
static uint64_t beat_of(const struct twi_engine *engine)
{
	return twi_min(engine->knobs.heartbeat_ns, timeout_of(engine) / 6);
}

void twi_tcp_beat_start(struct twi_tcp_lane *lane)
{
	uint64_t now = twi_engine_now(lane->base.engine);

	if (lane->beat_ns == UINT64_MAX) {
		lane->looked_ns = now;
		lane->beat_ns = now + beat_of(lane->base.engine);
	}
	twi_tcp_due(lane, lane->beat_ns);
}

/* Nothing comes, though the connections stand: new ones may work better. */
static void break_all(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, uint64_t silent_ns)
{
	for (unsigned line = 0; line < peer->line_count; line++) {
		if (peer->lines[line].stream == NULL)
			continue;
		twi_error(TOW_EPEER, "nothing came from the peer for %llu ms",
			  (unsigned long long)(silent_ns / MS_NS));
		twi_tcp_line_broken(lane, peer, line, peer->heard_ns);
	}
}

static void look_at_peer(struct twi_tcp_lane *lane, struct twi_tcp_peer *peer, uint64_t now_ns)
{
	struct twi_session *session = &peer->session;
	uint64_t silent_ns, third = timeout_of(lane->base.engine) / 3;

	/* Silence counts from the time when something is awaited. */
	if (peer->heard ||
	    (twi_session_quiet(session) && !twi_match_awaited(&session->inbox.match))) {
		peer->heard = false;
		peer->heard_ns = now_ns;
		return;
	}
	silent_ns = now_ns - peer->heard_ns;
	if (silent_ns >= third) {
		break_all(lane, peer, silent_ns);
	} else if (silent_ns >= beat_of(lane->base.engine) && peer->lines[0].stream != NULL) {
		twi_session_ping(session);
		twi_tcp_mark_dirty(peer);
	}
}

static void beat_peers(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	uint64_t every = beat_of(lane->base.engine), missed = 0;
	struct twi_list *pos, *next;
	bool any = false;

	if (now_ns - lane->looked_ns > 2 * every)
		missed = now_ns - lane->looked_ns - every;
	lane->looked_ns = now_ns;
	twi_list_for_each_safe (pos, next, &lane->base.engine->peers) {
		struct tow_peer *base = twi_container_of(pos, struct tow_peer, link);
		struct twi_tcp_peer *peer = (struct twi_tcp_peer *)(void *)base;

		if (base->lane != &lane->base || !peer->up || peer->lost || peer->parting)
			continue;
		any = true;
		peer->heard_ns += twi_min(missed, now_ns - peer->heard_ns);
		for (unsigned i = 0; missed > 0 && i < peer->line_count; i++) {
			if (peer->lines[i].broken_ns != 0)
				peer->lines[i].broken_ns +=
					twi_min(missed, now_ns - peer->lines[i].broken_ns);
		}
		if (twi_list_empty(&peer->troubled))
			look_at_peer(lane, peer, now_ns);
	}
	lane->beat_ns = any ? now_ns + every : UINT64_MAX;
}

/* Closes peers that still drain when their time is over. */
static void expire_dying(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->dying) {
		struct twi_tcp_peer *peer = twi_container_of(pos, struct twi_tcp_peer, dying);

		if (peer->deadline_ns > now_ns) {
			twi_tcp_due(lane, peer->deadline_ns);
			continue;
		}
		twi_error(TOW_ECLOSED, "peer %s did not close its side in time",
			  peer->base.address);
		twi_tcp_peer_lost(peer, TOW_ECLOSED);
	}
}

void twi_tcp_process_ended(struct tow_peer *base)
{
	struct twi_tcp_peer *peer = (struct twi_tcp_peer *)(void *)base;
	struct twi_tcp_lane *lane = twi_tcp_lane_of(base->engine);

	if (peer->lost || peer->parting || !twi_list_empty(&peer->orphaned))
		return;
	peer->heard = false;
	peer->orphan_ns = twi_engine_now(base->engine) + ORPHAN_NS;
	twi_list_push_back(&lane->orphans, &peer->orphaned);
	twi_tcp_due(lane, peer->orphan_ns);
}

/* Bytes of a process that has ended still come in. After them, its peer is lost. */
static void expire_orphans(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->orphans) {
		struct twi_tcp_peer *peer = twi_container_of(pos, struct twi_tcp_peer, orphaned);
		char rank[TWI_PEER_RANK];

		if (peer->orphan_ns <= now_ns && peer->heard) {
			peer->heard = false;
			peer->heard_ns = now_ns;
			peer->orphan_ns = now_ns + ORPHAN_NS;
		}
		if (peer->orphan_ns > now_ns) {
			twi_tcp_due(lane, peer->orphan_ns);
			continue;
		}
		twi_error(TOW_EPEER, "peer %s%s is gone: its process has ended", peer->base.address,
			  twi_peer_rank(&peer->base, rank));
		twi_tcp_peer_lost(peer, peer->base.closed ? TOW_ECLOSED : TOW_EPEER);
	}
}

void twi_tcp_clock(struct twi_tcp_lane *lane, uint64_t now_ns)
{
	lane->due_ns = UINT64_MAX;
	if (lane->beat_ns <= now_ns)
		beat_peers(lane, now_ns);
	twi_tcp_due(lane, lane->beat_ns);
	twi_tcp_due(lane, twi_tcp_watch_silent(lane, now_ns));
	twi_tcp_due(lane, twi_tcp_stall_look(lane, now_ns));
	twi_tcp_due(lane, twi_tcp_stall_return(lane, now_ns));
	redial_lines(lane, now_ns);
	expire_orphans(lane, now_ns);
	expire_dying(lane, now_ns);
	twi_tcp_due(lane, twi_tcp_handshake_expire(lane, now_ns));
	twi_tcp_due(lane, twi_tcp_accept_resume(lane, now_ns));
	twi_tcp_due(lane, twi_tcp_zerocopy_ask(lane, now_ns));
}
