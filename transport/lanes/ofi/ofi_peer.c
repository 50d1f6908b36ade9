/*
 * ofi_peer.c - creates and ends peers, and ends their operations. See ofi.h.
 *
 * A peer that breaks is only marked at first, because its caller may still be using it.
 * twi_ofi_bury ends it at the next progress.
 */
#include "transport/lanes/ofi/ofi_calls.h"
#include "transport/message/waiting.h"

#ifdef TWI_HAVE_OFI

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/op/lane_host.h"

#define INDEX_BITS 16

static int take_index(struct twi_ofi_port *port, uint32_t *index_out)
{
	uint32_t room = port->peer_room, more = room == 0 ? 16 : room * 2;
	struct twi_ofi_peer **peers;

	for (uint32_t i = 0; i < room; i++) {
		if (port->peers[i] == NULL) {
			*index_out = i;
			return TOW_OK;
		}
	}
	if (room >= TWI_OFI_PEERS_MAX)
		return twi_error(TOW_EBUSY, "an ofi endpoint has at most %u peers",
				 TWI_OFI_PEERS_MAX);
	peers = realloc(port->peers, more * sizeof(struct twi_ofi_peer *));
	if (peers == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a peer");
	for (uint32_t i = room; i < more; i++)
		peers[i] = NULL;
	port->peers = peers;
	port->peer_room = more;
	*index_out = room;
	return TOW_OK;
}

static void init_lists(struct twi_ofi_peer *peer)
{
	twi_list_init(&peer->blocked);
	twi_list_init(&peer->stalled);
	twi_list_init(&peer->ailing);
	twi_list_init(&peer->pending);
	twi_list_init(&peer->matched);
	twi_list_init(&peer->pulls);
	twi_list_init(&peer->early);
}

struct twi_ofi_peer *twi_ofi_peer_create(struct twi_ofi_port *port, const struct twi_ofi_name *name,
					 const char *address)
{
	struct twi_engine *engine = port->lane->base.engine;
	struct twi_ofi_peer *peer;
	uint64_t random = 0;
	uint32_t index = 0;

	if (take_index(port, &index) < 0)
		return NULL;
	peer = twi_peer_alloc(sizeof(*peer));
	if (peer == NULL || getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
		twi_peer_free(&peer->base);
		twi_error(TOW_ENOMEM, "no memory for a peer, or no random numbers");
		return NULL;
	}
	init_lists(peer);
	peer->port = port;
	peer->name = *name;
	peer->here = (random | 1) << INDEX_BITS | index; /* never 0 */
	snprintf(peer->base.address, sizeof(peer->base.address), "%s", address);
	if (twi_ofi_av_add(peer) < 0) {
		twi_peer_free(&peer->base);
		return NULL;
	}
	twi_inbox_init(&peer->inbox, &peer->base, &twi_ofi_inbox, engine->knobs.credit_bytes,
		       UINT64_MAX, &peer->rule);
	twi_outbox_init(&peer->outbox, &peer->base, &twi_ofi_outbox);
	peer->heard_ns = twi_engine_now(engine);
	peer->deadline_ns = peer->heard_ns + engine->knobs.connect_timeout_ns;
	port->peers[index] = peer;
	port->peer_count++;
	port->strangers++;
	port->timer_ns = twi_min(port->timer_ns, peer->deadline_ns);
	twi_peer_setup(&peer->base, &port->lane->base, address);
	return peer;
}

struct twi_ofi_peer *twi_ofi_peer_find(const struct twi_ofi_port *port, uint64_t session)
{
	uint64_t index = session & ((1u << INDEX_BITS) - 1);
	struct twi_ofi_peer *peer = index < port->peer_room ? port->peers[index] : NULL;

	return peer != NULL && peer->here == session ? peer : NULL;
}

void twi_ofi_peer_free(struct twi_ofi_peer *peer)
{
	struct twi_ofi_port *port = peer->port;
	struct twi_list *entry;

	bool in_order = peer->state == TWI_OFI_CLOSING || peer->heard_bye;

	twi_assert(peer->held == 0);
	peer->broken = peer->broken != 0 ? peer->broken : TOW_ECLOSED;
	twi_ofi_unblock(peer); /* frees slots that were never sent */
	for (uint32_t i = 0; peer->slots > 0 && i < TWI_OFI_SMALL_SLOTS + TWI_OFI_BIG_SLOTS; i++) {
		if (port->slots[i].peer == peer) {
			port->slots[i].peer = NULL;
			peer->slots--;
		}
	}
	while ((entry = twi_list_first(&peer->early)) != NULL) {
		twi_list_remove(entry);
		free(twi_container_of(entry, struct twi_ofi_early, link));
	}
	twi_inbox_fini(&peer->inbox);
	twi_outbox_fini(&peer->outbox);
	twi_ofi_av_remove(peer, in_order);
	twi_list_remove(&peer->blocked);
	twi_list_remove(&peer->stalled);
	twi_list_remove(&peer->ailing);
	twi_peer_teardown(&peer->base);
	port->peers[peer->here & ((1u << INDEX_BITS) - 1)] = NULL;
	port->peer_count--;
	if (peer->state == TWI_OFI_GREETING)
		port->strangers--;
	if (peer->state == TWI_OFI_CLOSING)
		port->closing--;
	twi_auth_wipe(&peer->auth);
	free(peer->owed);
	twi_peer_free(&peer->base);
}

void twi_ofi_break(struct twi_ofi_peer *peer, int status)
{
	struct twi_ofi_packet bye = { .type = TWI_OFI_BYE, .value = twi_rule_bye(peer->rule) };
	char fault[sizeof(peer->fault)];

	if (peer->broken != 0)
		return;
	snprintf(fault, sizeof(fault), "%s", tow_error_message());
	/*
	 * Sends the reason to the peer, if that is possible at once. A failure of this send may
	 * itself break the peer.
	 */
	if (status == TOW_EPROTOCOL && peer->rule != 0 && peer->state == TWI_OFI_UP)
		twi_ofi_send_packet(peer, &bye, &twi_ofi_no_load, true);
	if (peer->broken == 0)
		twi_list_push_back(&peer->port->ailing, &peer->ailing);
	peer->broken = peer->outbox.failed = status;
	snprintf(peer->fault, sizeof(peer->fault), "%s", fault);
	peer->base.engine->armed_since_enter = true;
}

/* Ends receives that wait, with their offers, for a pull. */
static void end_matched(struct twi_ofi_peer *peer, int status)
{
	struct twi_list *entry;

	while ((entry = twi_list_first(&peer->matched)) != NULL) {
		struct tow_op *op = twi_container_of(entry, struct tow_op, link);

		free(op->lane_state);
		op->lane_state = NULL;
		twi_inbox_end(&peer->inbox, op, status, 0);
	}
}

static void end_receives(struct twi_ofi_peer *peer, int status)
{
	struct twi_list *pos, *next;

	twi_inbox_fail(&peer->inbox, status);
	end_matched(peer, status);
	twi_list_for_each_safe (pos, next, &peer->pulls) {
		struct twi_ofi_pull *pull = twi_container_of(pos, struct twi_ofi_pull, link);

		if (pull->in_flight == 0) {
			struct tow_op *op = pull->op;

			twi_ofi_pull_end(pull);
			twi_inbox_end(&peer->inbox, op, status, 0);
			continue;
		}
		if (pull->ending == 0)
			pull->ending = status;
		twi_op_unwatch(pull->op);
		/* After a BYE of either side, what was not withdrawn is on its way. */
		if (pull->way == TWI_OFI_TAGGED && peer->broken != 0 && !peer->heard_bye)
			fi_cancel(&peer->port->ep->fid, &pull->reqs[0].ctx);
	}
}

static void end_operations(struct twi_ofi_peer *peer, int status)
{
	twi_outbox_fail(&peer->outbox, status);
	end_receives(peer, status);
	if (peer->held > 0 && peer->port->let_go_ns == 0) {
		peer->port->let_go_ns = twi_engine_now(peer->base.engine) + TWI_OFI_LET_GO_NS;
		peer->port->timer_ns = twi_min(peer->port->timer_ns,
					       peer->port->let_go_ns - TWI_OFI_LET_GO_NS / 2);
	}
}

/* Strangers can fail as often as they like, so only one line a second is logged. */
static void peer_refused(struct twi_ofi_peer *peer)
{
	struct twi_engine *engine = peer->base.engine;
	uint64_t now = twi_engine_now(engine);

	if (peer->left) {
		twi_count(engine->diag, TWI_C_handshakes_abandoned, 1);
		return;
	}
	twi_count(engine->diag, TWI_C_handshakes_refused, 1);
	if (now - peer->port->logged_ns < 1000ull * 1000 * 1000)
		return;
	peer->port->logged_ns = now;
	twi_log(engine->diag, 2, "%s", peer->fault);
}

static void end_broken_peer(struct twi_ofi_peer *peer)
{
	int status = peer->broken;

	twi_error(status, "%s", peer->fault);
	if (peer->state == TWI_OFI_GREETING) {
		struct tow_op *op = peer->dial;

		peer_refused(peer);
		twi_ofi_peer_free(peer);
		if (op != NULL) {
			op->lane_state = NULL;
			twi_op_complete(op, status, 0);
		}
		return;
	}
	twi_ofi_unblock(peer);
	if (peer->state == TWI_OFI_UP && !peer->base.closed)
		twi_peer_tell_lost(&peer->base, peer->fault);
	if (peer->state == TWI_OFI_CLOSING)
		peer->port->closing--;
	peer->state = TWI_OFI_LOST;
	peer->owed_count = 0;
	if (status != TOW_EPROTOCOL && status != TOW_ECORRUPT)
		peer->broken = TOW_EPEER;
	twi_peer_ended(&peer->base, peer->broken);
	end_operations(peer, peer->broken);
	twi_ofi_peer_let_go(peer);
}

unsigned twi_ofi_bury(struct twi_ofi_port *port)
{
	struct twi_list *entry;
	unsigned count = 0;

	while ((entry = twi_list_first(&port->ailing)) != NULL) {
		twi_list_remove(entry);
		end_broken_peer(twi_container_of(entry, struct twi_ofi_peer, ailing));
		count++;
	}
	return count;
}

/* Returns whether this side reads nothing from the other, and all its withdrawals are answered. */
static bool has_settled(const struct twi_ofi_peer *peer)
{
	for (struct twi_list *pos = peer->pulls.next; pos != &peer->pulls; pos = pos->next) {
		const struct twi_ofi_pull *pull = twi_container_of(pos, struct twi_ofi_pull, link);

		if (pull->way == TWI_OFI_READ && pull->in_flight > 0)
			return false;
	}
	return !twi_ofi_awaits_answer(peer);
}

static void say_bye(struct twi_ofi_peer *peer)
{
	peer->said_bye = true;
	twi_ofi_say(peer, TWI_OFI_BYE, 0, 0, 0);
}

void twi_ofi_peer_let_go(struct twi_ofi_peer *peer)
{
	if (peer->state == TWI_OFI_CLOSING && !peer->said_bye && has_settled(peer))
		say_bye(peer);
	if (peer->held > 0 || !peer->base.closed)
		return;
	if (peer->state == TWI_OFI_LOST || (peer->state == TWI_OFI_CLOSING && peer->said_bye &&
					    peer->slots == 0 && peer->owed_count == 0))
		twi_ofi_peer_free(peer);
}

void twi_ofi_peer_close(struct tow_peer *base)
{
	struct twi_ofi_peer *peer = twi_ofi_peer_of(base);
	struct twi_engine *engine = base->engine;
	struct twi_ofi_port *port = peer->port;

	if (peer->broken == 0 && peer->state == TWI_OFI_UP) {
		twi_error(TOW_ECLOSED, "peer %s was closed on this side", base->address);
		end_operations(peer, TOW_ECLOSED);
		peer->state = TWI_OFI_CLOSING;
		port->closing++;
		peer->deadline_ns = twi_engine_now(engine) + TWI_OFI_LINGER_NS;
		port->timer_ns = twi_min(port->timer_ns, peer->deadline_ns);
		if (has_settled(peer))
			say_bye(peer);
		engine->armed_since_enter = true;
		return;
	}
	if (peer->state == TWI_OFI_LOST)
		twi_ofi_peer_let_go(peer);
}

void twi_ofi_port_kill(struct twi_ofi_port *port)
{
	fi_close(&port->ep->fid);
	port->ep = NULL;
	port->dead = true;
	for (uint32_t i = 0; i < port->peer_room; i++) {
		if (port->peers[i] != NULL)
			twi_ofi_break(port->peers[i], TOW_EPEER);
	}
	for (uint32_t i = 0; i < TWI_OFI_GIVES; i++) {
		if (port->gives[i].req.busy)
			twi_ofi_give_done(&port->gives[i], FI_ECANCELED);
	}
	for (uint32_t i = 0; i < TWI_OFI_PULLS; i++) {
		for (unsigned j = 0; j < TWI_OFI_READS; j++) {
			if (port->pulls[i].reqs[j].busy)
				twi_ofi_pull_done(&port->pulls[i].reqs[j], FI_ECANCELED, 0);
		}
	}
	port->in_flight = 0;
	port->wait_fd = -1;
}

/* libfabric still holds memory of operations of a lost peer: closes the endpoint. */
static void close_stuck_port(struct twi_ofi_port *port)
{
	twi_error(TOW_EPEER,
		  "libfabric: %s held memory of a lost peer for over %llu ms; the endpoint %s was "
		  "closed",
		  port->provider, TWI_OFI_LET_GO_NS / 1000000,
		  port->endpoint != NULL ? port->endpoint->address : "");
	twi_log(port->lane->base.engine->diag, 1, "%s", tow_error_message());
	twi_ofi_port_kill(port);
}

void twi_ofi_port_end(struct twi_ofi_port *port)
{
	twi_error(TOW_ECLOSED, "the runtime is being closed");
	if (!port->dead)
		twi_ofi_port_kill(port);
	twi_ofi_bury(port);
	for (uint32_t i = 0; i < port->peer_room; i++) {
		if (port->peers[i] != NULL)
			twi_ofi_peer_free(port->peers[i]);
	}
	twi_ofi_port_close(port);
}

static uint64_t check_peer(struct twi_ofi_peer *peer, uint64_t now_ns)
{
	if (peer->broken != 0)
		return UINT64_MAX;
	if (peer->state == TWI_OFI_UP)
		return twi_ofi_listen(peer, now_ns);
	if (peer->deadline_ns > now_ns)
		return peer->deadline_ns;
	if (peer->state == TWI_OFI_CLOSING && !peer->said_bye)
		say_bye(peer);
	twi_error(TOW_EPEER, "peer %s did not answer in time (%s)", peer->base.address,
		  peer->state == TWI_OFI_CLOSING ? "it was closed" : "connect_timeout_ns");
	twi_ofi_break(peer, peer->base.connector ? TOW_EREFUSED : TOW_EPEER);
	return UINT64_MAX;
}

/*
 * Cancels tagged receives that a BYE has promised and that have not come. This happens before the
 * endpoint is closed. So a peer that says BYE and sends nothing costs no other peer anything.
 */
static void cancel_tagged(struct twi_ofi_port *port)
{
	for (uint32_t i = 0; i < TWI_OFI_PULLS; i++) {
		struct twi_ofi_pull *pull = &port->pulls[i];

		if (pull->op != NULL && pull->ending != 0 && pull->way == TWI_OFI_TAGGED &&
		    pull->in_flight > 0)
			fi_cancel(&port->ep->fid, &pull->reqs[0].ctx);
	}
}

/* Checks the requests of peers that have gone. Returns when to check again. */
static uint64_t check_held(struct twi_ofi_port *port, uint64_t now_ns)
{
	uint64_t cancel_ns = port->let_go_ns - TWI_OFI_LET_GO_NS / 2;

	if (port->let_go_ns == 0 || port->dead)
		return UINT64_MAX;
	if (port->let_go_ns <= now_ns) {
		close_stuck_port(port);
		return UINT64_MAX;
	}
	if (cancel_ns > now_ns)
		return cancel_ns;
	cancel_tagged(port);
	return port->let_go_ns;
}

void twi_ofi_timers(struct twi_ofi_port *port, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;
	bool held = false;

	for (uint32_t i = 0; i < port->peer_room; i++) {
		struct twi_ofi_peer *peer = port->peers[i];

		if (peer == NULL)
			continue;
		next = twi_min(next, check_peer(peer, now_ns));
		held |= peer->held > 0 && peer->state != TWI_OFI_UP;
	}
	if (!held)
		port->let_go_ns = 0;
	else
		next = twi_min(next, check_held(port, now_ns));
	port->timer_ns = next;
}

/* Returns whether a large message is being moved. Its next step takes less time than a sleep. */
static bool port_moving(const struct twi_ofi_port *port)
{
	for (uint32_t i = 0; i < port->peer_room; i++) {
		const struct twi_ofi_peer *peer = port->peers[i];

		if (peer != NULL && (peer->gives > 0 || !twi_list_empty(&peer->pulls)))
			return true;
	}
	return false;
}

/* Returns whether libfabric does not take buffers or give completions: a poll tries again. */
static bool port_ails(const struct twi_ofi_port *port)
{
	return port->unposted > 0 || port->deaf_tries > 0;
}

/* Returns whether an operation or handshake waits for something here. */
static bool port_busy(const struct twi_ofi_port *port)
{
	if (port->in_flight > 0 || port->strangers > 0 || port->closing > 0 || port_ails(port))
		return true;
	for (uint32_t i = 0; i < port->peer_room; i++) {
		const struct twi_ofi_peer *peer = port->peers[i];

		if (peer != NULL && peer->state == TWI_OFI_UP &&
		    (twi_match_awaited(&peer->inbox.match) || !twi_list_empty(&peer->pulls) ||
		     twi_outbox_waits(&peer->outbox) || peer->gives > 0))
			return true;
	}
	return false;
}

/*
 * Without a descriptor the queue is polled at growing intervals. A waiter that has polled in vain
 * for spin_ns first sleeps for 20 us, and doubles that while nothing comes. While a large message
 * is on its way, the waiter goes on polling for TWI_OFI_QUIET_NS (500 us). Otherwise a sleep within
 * 80 us of copying would cost 250 us (measured, 1 MiB over shm).
 */
uint64_t twi_ofi_due(struct twi_ofi_port *port, uint64_t now_ns)
{
	uint64_t due = port->timer_ns, most;

	if (!twi_list_empty(&port->ailing))
		return now_ns;
	if (port->dead)
		return due;
	if (port->wait_fd >= 0 && !port->asleep_ok)
		return now_ns;
	if (port->wait_fd >= 0 && !port->driven && twi_list_empty(&port->blocked) &&
	    twi_list_empty(&port->retry) && twi_list_empty(&port->sending) && !port_ails(port))
		return due;
	if (port->quiet_ns == 0)
		port->quiet_ns = now_ns;
	if (port->wait_fd < 0 && now_ns - port->quiet_ns < TWI_OFI_QUIET_NS && port_moving(port))
		return now_ns;
	most = port_busy(port) ? TWI_OFI_BUSY_NS : TWI_OFI_IDLE_NS;
	port->nap_ns = twi_min(twi_max(port->nap_ns * 2, TWI_OFI_NAP_NS), most);
	return twi_min(due, now_ns + port->nap_ns);
}

static void describe_candidates(const struct twi_ofi_port *port, struct twi_emit *emit)
{
	const char *last = "";

	twi_emit_array_begin(emit, "providers");
	for (unsigned i = 0; i < port->candidates->count; i++) {
		const struct twi_ofi_candidate *c = &port->candidates->entry[i];

		if (!c->taken && strcmp(c->offer.provider, last) == 0)
			continue; /* listed once for each interface */
		last = c->offer.provider;
		twi_emit_object_begin(emit, NULL);
		twi_emit_str(emit, "provider", c->offer.provider);
		twi_emit_str(emit, "domain", c->offer.domain);
		twi_emit_bool(emit, "taken", c->taken);
		twi_emit_str(emit, "why", c->why);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}

void twi_ofi_peer_describe(struct tow_peer *base, struct twi_emit *emit)
{
	const struct twi_ofi_peer *peer = twi_ofi_peer_of(base);
	const struct twi_ofi_port *port = peer->port;

	twi_emit_str(emit, "state",
		     peer->broken != 0                ? tow_status_name(peer->broken)
		     : peer->state == TWI_OFI_CLOSING ? "closing"
						      : "up");
	twi_peer_messages_describe(&peer->base, peer->outbox.seq_sent, peer->inbox.seq_received,
				   &peer->inbox.match, emit);
	twi_outbox_describe(&peer->outbox, emit);
	twi_emit_u64(emit, "eager_max_bytes", peer->outbox.eager_bytes);
	twi_emit_u64(emit, "unexpected_bytes", peer->inbox.kept_bytes);
	twi_emit_u64(emit, "packets_waiting", peer->slots);
	twi_emit_u64(emit, "held_by_libfabric", peer->held);
	twi_ofi_domain_describe(port->domain, emit);
	twi_emit_bool(emit, "remote_reads", port->reads);
	twi_emit_bool(emit, "tagged_preferred", port->prefers_tagged);
	twi_emit_bool(emit, "sleeps_on_descriptor", port->wait_fd >= 0);
	describe_candidates(port, emit);
}

#endif
