/*
 * shm_help.c - a large message out of memory outside the pool, which both sides move together.
 *
 *	sender's memory     | pieces ->                              <- process_vm_readv |
 *	                    0                     copied       read_from              takes
 *
 * The receiver asks the sender for help (WANTED with TWI_SHM_HELP). A sender that polls then copies
 * the message into its staging, piece by piece, and the receiver copies the pieces out: two cores
 * copy, through memory that stays in their caches. That takes half of the time that
 * process_vm_readv takes, which copies on one core and looks at each page. Whenever no piece has
 * come for a while, the receiver reads a part from the end by itself. So a sender that computes, or
 * has no core, holds nothing up. The message is whole when both meet.
 *
 * A sender that sleeps is not asked. One that did not help is asked less and less often. Between
 * some cores a line that one has written reaches the other so slowly that to read the memory is
 * faster. So the receiver measures what both cost it, and asks only while pieces cost less.
 */
#include "memreg/pool/staging.h"
#include "transport/lanes/shm/shm_settle.h"
#include "transport/op/lane_host.h"

#define PATIENCE_NS    4000u       /* until the receiver reads a part by itself */
#define PART_MIN_BYTES (64u << 10) /* of its first part; each later one is twice as long */
#define MISSES_MAX     5u          /* after m misses 2^m - 1 messages go without help */
#define UNHELPFUL      255u        /* messages that go without where pieces cost more */

static void be_patient(struct twi_shm_peer *peer, uint64_t now_ns)
{
	peer->help_due_ns = now_ns + PATIENCE_NS;
	peer->help_part_bytes = PART_MIN_BYTES;
}

bool twi_shm_help_ask(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming)
{
	const struct twi_shm_remark ask = { .kind = TWI_SHM_WANTED,
					    .offer = twi_shm_index_of(peer, incoming),
					    .generation = incoming->generation,
					    .bytes = TWI_SHM_HELP };

	if (!peer->helps || twi_shm_takes(incoming) < TWI_SHM_HELP_MIN_BYTES || incoming->wanted ||
	    incoming->summed || peer->read_cost == 0 || twi_op_in_parts(incoming->op) ||
	    atomic_load_explicit(&peer->in.box.head->asleep, memory_order_relaxed) != 0)
		return false;
	if (peer->help_unasked > 0) {
		peer->help_unasked--;
		return false;
	}
	incoming->wanted = true;
	incoming->helped = true;
	incoming->read_from = twi_shm_takes(incoming);
	peer->expecting++;
	if (twi_list_empty(&peer->helped))
		be_patient(peer, twi_engine_clock(peer->base.engine));
	twi_list_push_back(&peer->helped, &incoming->link);
	twi_shm_say(peer, &ask);
	twi_shm_busy(peer);
	return true;
}

void twi_shm_help_came(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming,
		       uint64_t begun_ns, uint64_t bytes)
{
	uint64_t now = twi_engine_clock(peer->base.engine);

	be_patient(peer, now);
	if (bytes > 0)
		twi_path_learn(&peer->piece_cost, now - begun_ns, bytes);
	if (incoming->copied >= incoming->read_from)
		twi_shm_help_commit(peer, incoming);
	else
		twi_shm_incoming_note(peer, incoming, TWI_SHM_TAKEN);
}

void twi_shm_help_alone(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming)
{
	incoming->pieces_only = true;
	twi_list_remove(&incoming->link);
	if (!incoming->dropping) {
		/* The message needs the pieces now, so the sender stages it or ends it. */
		twi_shm_incoming_note(peer, incoming, TWI_SHM_WANTED);
		return;
	}
	for (; incoming->unanswered > 0; incoming->unanswered--)
		twi_shm_incoming_note(peer, incoming, TWI_SHM_TAKEN);
	twi_shm_help_lost(peer, incoming);
}

void twi_shm_help_lost(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming)
{
	struct tow_op *op = incoming->op;
	uint64_t bytes = incoming->arrival.bytes;

	if (op == NULL || !incoming->pieces_only || incoming->came_bytes < bytes)
		return;
	if (!twi_shm_settle(peer, incoming, TWI_SHM_REFUSED, TWI_SHM_CANCELED))
		twi_shm_gone(peer, incoming, op);
	else
		twi_inbox_end(&peer->inbox, op,
			      twi_op_fault_theirs(op, twi_peer_rpc_id(&peer->base, op->seq, false),
						  bytes),
			      0);
}

void twi_shm_help_commit(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming)
{
	/* A part that was read from a process that has ended may be another process's. */
	if (incoming->read_from < twi_shm_takes(incoming) && !twi_shm_is_alive(peer)) {
		twi_shm_help_alone(peer, incoming);
		return;
	}
	if (incoming->came_bytes > 0)
		peer->help_misses = 0;
	else if (peer->help_misses < MISSES_MAX)
		peer->help_misses++;
	peer->help_unasked = (uint16_t)((1u << peer->help_misses) - 1);
	if (incoming->came_bytes > 0 && peer->piece_cost >= peer->read_cost) {
		peer->help_unasked = UNHELPFUL;
		peer->piece_cost = 0; /* it may be another one then */
	}
	twi_shm_commit(peer, incoming);
}

/* Reads the last part that is missing. */
static void read_part(struct twi_shm_peer *peer, struct twi_shm_incoming *incoming)
{
	struct tow_op *op = incoming->op;
	uint64_t bytes =
		twi_min((uint64_t)peer->help_part_bytes, incoming->read_from - incoming->copied);
	uint64_t at = incoming->read_from - bytes, run = bytes;
	void *to = twi_op_at(op, at, &run);
	uint64_t begun_ns = twi_engine_clock(peer->base.engine);
	ssize_t n = twi_path_copy_remote(peer->base.engine, peer->pid, to, incoming->where + at,
					 bytes, op->site);

	if (n == (ssize_t)bytes)
		twi_path_learn(&peer->read_cost, twi_engine_clock(peer->base.engine) - begun_ns,
			       bytes);
	peer->help_part_bytes = twi_min(2 * peer->help_part_bytes, TWI_SHM_CHUNK);
	if (n == (ssize_t)bytes) {
		incoming->read_from = at;
		if (at <= incoming->copied)
			twi_shm_help_commit(peer, incoming);
		return;
	}
	at += n > 0 ? (uint64_t)n : 0;
	if (twi_op_reach(op, at, incoming->read_from - at, true) < incoming->read_from - at)
		twi_shm_unwritable(peer, incoming, at);
	else
		twi_shm_help_alone(peer, incoming);
}

unsigned twi_shm_help_work(struct twi_shm_peer *peer)
{
	struct twi_list *entry = twi_list_first(&peer->helped);

	if (entry == NULL || twi_engine_clock(peer->base.engine) < peer->help_due_ns)
		return 0;
	read_part(peer, twi_container_of(entry, struct twi_shm_incoming, link));
	return 1;
}

bool twi_shm_help_give(struct twi_shm_peer *peer, struct twi_shm_offer *offer,
		       const struct twi_shm_remark *remark)
{
	const struct twi_engine *engine = peer->base.engine;
	bool optional = remark->bytes == TWI_SHM_HELP;

	if (offer->wanted || offer->asked) {
		if (optional || !offer->asked)
			return false;
		offer->asked = false;
		if (offer->wanted)
			return true; /* it goes on */
	}
	offer->asked = optional;
	offer->plain =
		!twi_op_in_parts(offer->op) &&
		twi_reach_plain(twi_shm_lane_of(engine)->maps, offer->op->data, offer->op->bytes);
	/* A look at each page would take as long as the copy: the receiver may as well read it. */
	if (optional &&
	    (!offer->plain || engine->knobs.require_zero_copy || engine->staging.chunks == 0))
		return true;
	if (engine->staging.chunks == 0) {
		if (!offer->plain &&
		    twi_op_reach(offer->op, 0, offer->op->bytes, false) < offer->op->bytes)
			twi_shm_unreadable(peer, offer);
		else
			twi_shm_unstaged(peer, offer);
		return true;
	}
	offer->wanted = true;
	twi_list_push_back(&peer->staging, &offer->link);
	twi_shm_busy(peer);
	return true;
}
