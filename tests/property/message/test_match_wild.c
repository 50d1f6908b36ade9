/*
 * Receives of one tag, of some tags and of any peer, over the tables of a few peers, against plain
 * arrays that are searched from end to end: who meets whom, what is kept back by receives that are
 * held, and what is settled when they are held no longer. TOW_TEST_SEED replays a run.
 */
#include "twt.h"

#include <string.h>

#include "transport/message/match.h"

#define ROUNDS   300
#define STEPS    300
#define PEERS    3u
#define TAGS     4u
#define RECVS    24u
#define MESSAGES 24u
#define ANY      PEERS

static struct twi_match tables[PEERS];
static struct twi_list any;
static uint64_t rng, started, sent;

static struct recv {
	struct twi_match_entry entry;
	unsigned peer; /* where it is posted; ANY: in the list of any */
	bool any;      /* it was started for any */
	bool posted, held;
} recvs[RECVS];

static struct message {
	struct twi_match_message message;
	unsigned peer;
	bool waits;
} messages[MESSAGES];

static uint64_t rnd(uint64_t bound)
{
	return twt_random_below(&rng, bound);
}

static bool takes(const struct recv *recv, const struct message *message)
{
	const uint64_t mask = recv->entry.wild ? recv->entry.tag_mask : UINT64_MAX;

	return ((recv->entry.tag ^ message->message.entry.tag) & mask) == 0 &&
	       (recv->peer == message->peer || recv->peer == ANY);
}

/* The oldest receive that takes it. */
static struct recv *recv_for(const struct message *message)
{
	struct recv *best = NULL;

	for (unsigned i = 0; i < RECVS; i++) {
		if (recvs[i].posted && takes(&recvs[i], message) &&
		    (best == NULL || recvs[i].entry.order < best->entry.order))
			best = &recvs[i];
	}
	return best;
}

/* The oldest message of a peer that it takes. */
static struct message *message_for(const struct recv *recv, unsigned peer)
{
	struct message *best = NULL;

	for (unsigned i = 0; i < MESSAGES; i++) {
		struct message *message = &messages[i];

		if (message->waits && message->peer == peer && takes(recv, message) &&
		    (best == NULL || message->message.entry.order < best->message.entry.order))
			best = message;
	}
	return best;
}

/* What a receive that comes, or comes back, gets of a peer. */
static struct message *meets(const struct recv *recv, unsigned peer)
{
	struct message *message = message_for(recv, peer);
	const struct recv *other = message == NULL ? NULL : recv_for(message);

	return other != NULL && other->entry.order < recv->entry.order ? NULL : message;
}

static bool is_next(const struct recv *recv, const struct message *message)
{
	const struct message *older = message_for(recv, message->peer);

	return !recv->held &&
	       (older == NULL || older->message.entry.order >= message->message.entry.order);
}

static struct twi_match_entry *entry_of(struct message *message)
{
	return message == NULL ? NULL : &message->message.entry;
}

/* They have met: sometimes the receive cannot have it now, and both wait. */
static void met(struct recv *recv, struct message *message)
{
	const unsigned peer = message->peer;

	recv->posted = message->waits = false;
	recv->peer = peer;
	if (rnd(3) != 0)
		return;
	twi_match_hold(&tables[peer], &recv->entry);
	assert_null(twi_match_arrive_first(&tables[peer], &message->message.entry));
	recv->posted = recv->held = message->waits = true;
}

/* What the table settles must be what the arrays say, from the oldest message on. */
static void settle(unsigned peer)
{
	struct twi_match *table = &tables[peer];
	struct twi_match_entry *got = NULL, *recv = NULL;
	uint64_t from = 0;

	if (table->kept_back) {
		table->kept_back = false;
		got = twi_match_settle(table, &from, &recv);
	}
	for (;;) {
		struct message *next = NULL;
		struct recv *taker = NULL;

		for (unsigned i = 0; i < MESSAGES; i++) {
			struct message *message = &messages[i];
			struct recv *other =
				message->waits && message->peer == peer ? recv_for(message) : NULL;

			if (other != NULL && is_next(other, message) &&
			    (next == NULL ||
			     message->message.entry.order < next->message.entry.order)) {
				next = message;
				taker = other;
			}
		}
		assert_ptr_equal(got, entry_of(next));
		if (next == NULL)
			return;
		assert_ptr_equal(recv, &taker->entry);
		met(taker, next);
		got = twi_match_settle(table, &from, &recv);
	}
}

/* A receive of any peer, on no list, looks at the peers from `first` on. */
static void look_around(struct recv *recv, unsigned first)
{
	recv->peer = ANY;
	for (unsigned i = 0; i < PEERS; i++) {
		const unsigned peer = (first + i) % PEERS;
		struct message *message = meets(recv, peer);

		assert_ptr_equal(twi_match_meets(&tables[peer], &recv->entry), entry_of(message));
		if (message == NULL)
			continue;
		assert_true(twi_match_remove_unexpected(&tables[peer], entry_of(message)));
		met(recv, message);
		return;
	}
	twi_match_put_wild(&any, &recv->entry);
	recv->posted = true;
}

static void step_post(void)
{
	struct recv *recv = &recvs[rnd(RECVS)];
	struct message *message;

	if (recv->posted)
		return;
	memset(recv, 0, sizeof(*recv));
	twi_list_init(&recv->entry.link);
	recv->peer = (unsigned)rnd(PEERS);
	recv->any = rnd(4) == 0;
	recv->entry.order = ++started;
	recv->entry.tag = rnd(TAGS);
	recv->entry.any = recv->any;
	recv->entry.wild = recv->any || rnd(3) == 0;
	recv->entry.tag_mask = rnd(2) == 0 ? UINT64_MAX : rnd(TAGS);
	if (recv->entry.wild)
		recv->entry.tag &= recv->entry.tag_mask;
	if (recv->any) {
		look_around(recv, recv->peer);
		return;
	}
	message = meets(recv, recv->peer);
	assert_ptr_equal(twi_match_post(&tables[recv->peer], &recv->entry), entry_of(message));
	if (message != NULL)
		met(recv, message);
	else
		recv->posted = true;
}

static void step_arrive(void)
{
	struct message *message = &messages[rnd(MESSAGES)];
	struct twi_match_entry *entry = &message->message.entry, *got;
	struct recv *recv;

	if (message->waits)
		return;
	memset(message, 0, sizeof(*message));
	message->peer = (unsigned)rnd(PEERS);
	entry->order = ++sent;
	entry->tag = rnd(TAGS);
	recv = recv_for(message);
	if (recv != NULL && !is_next(recv, message))
		recv = NULL;
	got = rnd(2) == 0 ? twi_match_take_posted(&tables[message->peer], entry->tag, 0) : NULL;
	if (got == NULL)
		got = twi_match_arrive(&tables[message->peer], entry);
	assert_ptr_equal(got, recv == NULL ? NULL : &recv->entry);
	if (recv != NULL)
		met(recv, message);
	else
		message->waits = true;
}

/* A receive is canceled, or a message taken back. */
static void step_remove(void)
{
	struct message *message = &messages[rnd(MESSAGES)];
	struct recv *recv = &recvs[rnd(RECVS)];

	if (recv->posted && recv->peer == ANY) {
		twi_list_remove(&recv->entry.link);
		recv->posted = false;
	} else if (recv->posted) {
		assert_true(twi_match_remove_posted(&tables[recv->peer], &recv->entry));
		recv->posted = recv->held = false;
		settle(recv->peer);
	}
	if (!message->waits)
		return;
	assert_true(twi_match_remove_unexpected(&tables[message->peer], entry_of(message)));
	message->waits = false;
	settle(message->peer);
}

/* What is held and takes such a message looks for its messages again, the oldest first. */
static void step_again(void)
{
	const struct recv *some = &recvs[rnd(RECVS)];
	const unsigned peer = some->peer;
	struct message like = { .peer = peer };
	struct recv *again[RECVS];
	unsigned count = 0;

	if (!some->held)
		return;
	entry_of(&like)->tag = some->entry.tag;
	for (;;) {
		struct recv *oldest = NULL;

		for (unsigned i = 0; i < RECVS; i++) {
			if (recvs[i].held && recvs[i].peer == peer && takes(&recvs[i], &like) &&
			    (oldest == NULL || recvs[i].entry.order < oldest->entry.order))
				oldest = &recvs[i];
		}
		assert_ptr_equal(twi_match_take_held(&tables[peer], entry_of(&like)->tag, 0),
				 oldest == NULL ? NULL : &oldest->entry);
		if (oldest == NULL)
			break;
		oldest->posted = oldest->held = false;
		again[count++] = oldest;
	}
	for (unsigned i = 0; i < count; i++) {
		struct recv *recv = again[i];
		struct message *message;

		if (recv->any) {
			look_around(recv, peer);
			continue;
		}
		message = meets(recv, peer);
		assert_ptr_equal(twi_match_post_first(&tables[peer], &recv->entry),
				 entry_of(message));
		if (message != NULL)
			met(recv, message);
		else
			recv->posted = true;
	}
	settle(peer);
}

static void check_counts(void)
{
	for (unsigned p = 0; p < PEERS; p++) {
		unsigned posted = 0, held = 0, waiting = 0;

		for (unsigned i = 0; i < RECVS; i++) {
			posted += recvs[i].posted && recvs[i].peer == p;
			held += recvs[i].held && recvs[i].peer == p;
		}
		for (unsigned i = 0; i < MESSAGES; i++)
			waiting += messages[i].waits && messages[i].peer == p;
		assert_int_equal(tables[p].posted_count, posted);
		assert_int_equal(tables[p].held_count, held);
		assert_int_equal(tables[p].unexpected_count, waiting);
		assert_int_equal(twi_match_count_posted(&tables[p], 0), posted);
	}
}

static void play_round(void)
{
	static void (*const steps[])(void) = { step_post,   step_post,   step_arrive,
					       step_arrive, step_remove, step_again };

	memset(recvs, 0, sizeof(recvs));
	memset(messages, 0, sizeof(messages));
	started = sent = 0;
	twi_list_init(&any);
	for (unsigned i = 0; i < PEERS; i++) {
		twi_match_init(&tables[i]);
		tables[i].any = &any;
		twi_match_go_wild(&tables[i]);
	}
	for (unsigned i = 0; i < STEPS; i++) {
		steps[rnd(sizeof(steps) / sizeof(steps[0]))]();
		check_counts();
	}
}

static void test_against_arrays(void **state)
{
	(void)state;
	rng = twt_seed();
	for (unsigned i = 0; i < ROUNDS; i++)
		play_round();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_arrays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
