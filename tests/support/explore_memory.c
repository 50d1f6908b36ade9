/*
 * explore_memory.c - locations, clocks, and what a load may return. See explore_memory.h.
 */
#include "explore_memory.h"

#include <string.h>

#include "explore.h"
#include "explore_races.h"

#define HISTORY   8u /* stores of a location that a load may return: older ones are forgotten */
#define LOCATIONS 4096u

/* What a thread knows: see explore_memory.h. */
struct view {
	struct twt_clock before;
	struct twt_clock floor;
};

struct message {
	uint64_t value;
	struct view view; /* of whoever acquires it */
};

/* A thread has stored or read the message of that number at that time of its own. */
struct sighting {
	uint64_t number;
	uint32_t at;
};

struct location {
	uintptr_t address;
	bool known; /* else its value is what the memory holds */
	uint64_t newest, oldest;
	uint64_t seq_cst_store;               /* the newest by a store that is seq_cst */
	uint64_t hidden[TWT_EXPLORE_THREADS]; /* by thread: what is older, a fence hides */
	struct message messages[HISTORY];     /* by number */
	struct sighting sightings[TWT_EXPLORE_THREADS][HISTORY];
	unsigned sighting_count[TWT_EXPLORE_THREADS];
};

struct actor {
	struct view now;
	struct view released; /* at its last fence that releases: for relaxed stores */
	struct view pending;  /* of messages that it has read relaxed: for a fence that acquires */
};

static struct actor actors[TWT_EXPLORE_THREADS];
static unsigned actor_count;
static struct twt_clock fences; /* what seq_cst fences have told */
static struct location locations[LOCATIONS];
static unsigned used[LOCATIONS], used_count;

static void clock_join(struct twt_clock *to, const struct twt_clock *from)
{
	for (unsigned i = 0; i < TWT_EXPLORE_THREADS; i++)
		to->at[i] = from->at[i] > to->at[i] ? from->at[i] : to->at[i];
}

static void view_join(struct view *to, const struct view *from)
{
	clock_join(&to->before, &from->before);
	clock_join(&to->floor, &from->floor);
}

static bool acquires(enum twt_order order)
{
	return order != TWT_RELAXED && order != TWT_RELEASE;
}

static bool releases(enum twt_order order)
{
	return order >= TWT_RELEASE;
}

void twt_memory_begin(unsigned threads)
{
	for (unsigned i = 0; i < used_count; i++)
		locations[used[i]].address = 0;
	used_count = 0;
	memset(actors, 0, sizeof(actors));
	memset(&fences, 0, sizeof(fences));
	actor_count = threads;
	twt_races_begin();
}

static uint64_t memory_get(const struct twt_place *place)
{
	uint64_t value = 0;

	memcpy(&value, (const void *)place->address, place->bytes);
	return value;
}

static void memory_set(const struct twt_place *place, uint64_t value)
{
	memcpy((void *)place->address, &value, place->bytes);
}

/* Its slot in the table, or that where it would be. */
static struct location *location_at(uintptr_t address)
{
	unsigned at = (unsigned)(address * 0x9e3779b97f4a7c15u >> 40) % LOCATIONS;

	while (locations[at].address != 0 && locations[at].address != address)
		at = (at + 1) % LOCATIONS;
	return &locations[at];
}

/* Its first message is what stands in memory: everybody has seen what comes before. */
static void location_learn(struct location *location, const struct twt_place *place)
{
	location->known = true;
	location->newest++;
	location->oldest = location->newest;
	location->seq_cst_store = 0;
	memset(location->hidden, 0, sizeof(location->hidden));
	memset(location->sighting_count, 0, sizeof(location->sighting_count));
	location->messages[location->newest % HISTORY] =
		(struct message){ .value = memory_get(place) };
}

static struct location *location_of(const struct twt_place *place)
{
	struct location *location = location_at(place->address);

	if (location->address == 0) {
		if (used_count == LOCATIONS / 2)
			twt_explore_fault("more than %u atomic locations", LOCATIONS / 2);
		used[used_count++] = (unsigned)(location - locations);
		location->address = place->address;
		location->known = false;
		location->newest = 0;
	}
	if (!location->known)
		location_learn(location, place);
	return location;
}

static void saw(struct location *location, unsigned thread, uint64_t number)
{
	struct sighting *list = location->sightings[thread];
	unsigned *count = &location->sighting_count[thread], kept = 0;

	for (unsigned i = 0; i < *count; i++) {
		if (list[i].number >= location->oldest)
			list[kept++] = list[i];
	}
	*count = kept;
	if (kept == 0 || list[kept - 1].number < number)
		list[(*count)++] =
			(struct sighting){ number, actors[thread].now.before.at[thread] };
}

/* The newest message that is stored or read by what `floor` has. */
static uint64_t seen_within(const struct location *location, const struct twt_clock *floor)
{
	uint64_t number = location->oldest;

	for (unsigned t = 0; t < actor_count; t++) {
		const struct sighting *list = location->sightings[t];

		for (unsigned i = 0; i < location->sighting_count[t]; i++) {
			if (list[i].at <= floor->at[t] && list[i].number > number)
				number = list[i].number;
		}
	}
	return number;
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The oldest message that a load may return. */
static uint64_t load_floor(const struct location *location, unsigned thread, enum twt_order order)
{
	struct twt_clock floor = actors[thread].now.floor;
	uint64_t number = max_of(location->oldest, location->hidden[thread]);

	if (order == TWT_SEQ_CST) {
		clock_join(&floor, &fences);
		number = max_of(number, location->seq_cst_store);
	}
	return max_of(number, seen_within(location, &floor));
}

/* One more atomic access of the thread's: what it did before has an earlier time. */
static struct actor *tick(unsigned thread)
{
	struct actor *actor = &actors[thread];

	actor->now.before.at[thread]++;
	actor->now.floor.at[thread] = actor->now.before.at[thread];
	return actor;
}

static void receive(struct actor *actor, const struct message *message, enum twt_order order)
{
	view_join(&actor->pending, &message->view);
	if (acquires(order))
		view_join(&actor->now, &message->view);
}

/* `joins`: the message that an update replaces, whose release it continues. */
static void append(struct location *location, const struct twt_place *place, enum twt_order order,
		   uint64_t value, const struct message *joins)
{
	const struct actor *actor = &actors[place->thread];
	struct message message = { .value = value,
				   .view = releases(order) ? actor->now : actor->released };

	if (joins != NULL)
		view_join(&message.view, &joins->view);
	location->newest++;
	if (location->newest - location->oldest == HISTORY)
		location->oldest++;
	location->messages[location->newest % HISTORY] = message;
	if (order == TWT_SEQ_CST)
		location->seq_cst_store = location->newest;
	saw(location, place->thread, location->newest);
	memory_set(place, value);
}

uint64_t twt_memory_load(const struct twt_place *place, enum twt_order order)
{
	struct location *location = location_of(place);
	struct actor *actor = tick(place->thread);
	uint64_t oldest = load_floor(location, place->thread, order);
	uint64_t number = location->newest -
			  twt_explore_choose_store((unsigned)(location->newest - oldest) + 1);
	const struct message *message = &location->messages[number % HISTORY];

	twt_races_atomic(place, order, &actor->now.before, false);
	receive(actor, message, order);
	saw(location, place->thread, number);
	return message->value;
}

void twt_memory_store(const struct twt_place *place, enum twt_order order, uint64_t value)
{
	struct location *location = location_of(place);
	struct actor *actor = tick(place->thread);

	twt_races_atomic(place, order, &actor->now.before, true);
	append(location, place, order, value, NULL);
}

static uint64_t updated(enum twt_update update, uint64_t value, uint64_t operand)
{
	switch (update) {
	case TWT_EXCHANGE:
		return operand;
	case TWT_ADD:
		return value + operand;
	case TWT_SUB:
		return value - operand;
	case TWT_AND:
		return value & operand;
	case TWT_OR:
		return value | operand;
	case TWT_XOR:
		return value ^ operand;
	case TWT_NAND:
		break;
	}
	return ~(value & operand);
}

static uint64_t within(uint64_t value, unsigned bytes)
{
	return bytes == 8 ? value : value & ((1ull << 8 * bytes) - 1);
}

/* An update reads the last message, whatever others may still read. */
static uint64_t replace(struct location *location, const struct twt_place *place,
			enum twt_order order, uint64_t value)
{
	struct message last = location->messages[location->newest % HISTORY];

	receive(&actors[place->thread], &last, order);
	append(location, place, order, within(value, place->bytes), &last);
	return last.value;
}

uint64_t twt_memory_update(const struct twt_place *place, enum twt_order order,
			   enum twt_update update, uint64_t operand)
{
	struct location *location = location_of(place);
	struct actor *actor = tick(place->thread);
	uint64_t value = location->messages[location->newest % HISTORY].value;

	twt_races_atomic(place, order, &actor->now.before, true);
	return replace(location, place, order, updated(update, value, operand));
}

bool twt_memory_compare(const struct twt_place *place, enum twt_order order, enum twt_order failing,
			uint64_t *expected, uint64_t value)
{
	struct location *location = location_of(place);
	struct actor *actor = tick(place->thread);
	const struct message *last = &location->messages[location->newest % HISTORY];
	bool equal = last->value == *expected;

	twt_races_atomic(place, order, &actor->now.before, equal);
	if (equal) {
		(void)replace(location, place, order, value);
		return true;
	}
	*expected = last->value;
	receive(actor, last, failing);
	saw(location, place->thread, location->newest);
	return false;
}

/* What seq_cst fences before this one have told, and seq_cst stores, is seen behind it. */
static void pass_seq_cst(unsigned thread)
{
	clock_join(&actors[thread].now.floor, &fences);
	for (unsigned i = 0; i < used_count; i++) {
		struct location *location = &locations[used[i]];

		location->hidden[thread] =
			max_of(location->hidden[thread], location->seq_cst_store);
	}
}

void twt_memory_fence(unsigned thread, enum twt_order order)
{
	struct actor *actor = tick(thread);

	if (acquires(order))
		view_join(&actor->now, &actor->pending);
	if (order == TWT_SEQ_CST) {
		pass_seq_cst(thread);
		clock_join(&fences, &actor->now.floor);
	}
	if (releases(order))
		actor->released = actor->now;
}

void twt_memory_fence_all(void)
{
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < actor_count; i++)
			twt_memory_fence(i, TWT_SEQ_CST);
	}
}

void twt_memory_plain(const struct twt_place *place, bool write)
{
	twt_races_plain(place, &actors[place->thread].now.before, write);
	if (!write)
		return;
	/* An atomic location among them has no history any more. */
	for (uintptr_t at = place->address & ~(uintptr_t)7; at < place->address + place->bytes;
	     at++) {
		struct location *location = location_at(at);

		if (location->address != 0)
			location->known = false;
	}
}
