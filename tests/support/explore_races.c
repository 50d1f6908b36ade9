/*
 * explore_races.c - who accessed each byte last, and how. See explore_races.h.
 */
#include "explore_races.h"

#include <string.h>

#include "explore_memory.h"

#define WORDS  16384u /* of eight bytes */
#define GUARDS 8u

enum kind { PLAIN_READ, PLAIN_WRITE, ATOMIC_READ, ATOMIC_WRITE, KINDS };

/* When each thread accessed each byte last, in its own time; 0: never. */
struct word {
	uintptr_t number; /* its address by eight */
	uint32_t at[KINDS][TWT_EXPLORE_THREADS][8];
	const void *code[KINDS][TWT_EXPLORE_THREADS]; /* of the last */
};

static struct word words[WORDS];
static unsigned used[WORDS], used_count;
static struct {
	uintptr_t from;
	size_t bytes;
} guarded[GUARDS];
static unsigned guard_count;

void twt_explore_guard(const volatile void *memory, size_t bytes)
{
	if (guard_count == GUARDS)
		twt_explore_fault("more than %u guarded ranges", GUARDS);
	guarded[guard_count].from = (uintptr_t)memory;
	guarded[guard_count++].bytes = bytes;
}

static bool is_guarded(uintptr_t address)
{
	for (unsigned i = 0; i < guard_count; i++) {
		if (address - guarded[i].from < guarded[i].bytes)
			return true;
	}
	return false;
}

void twt_races_begin(void)
{
	for (unsigned i = 0; i < used_count; i++)
		memset(&words[used[i]], 0, sizeof(words[0]));
	used_count = 0;
}

static struct word *word_of(uintptr_t number)
{
	unsigned at = (unsigned)(number * 0x9e3779b97f4a7c15u >> 40) % WORDS;

	while (words[at].number != 0 && words[at].number != number)
		at = (at + 1) % WORDS;
	if (words[at].number == 0) {
		if (used_count == WORDS / 2)
			twt_explore_fault("more than %u words of memory", WORDS / 2);
		words[at].number = number;
		used[used_count++] = at;
	}
	return &words[at];
}

static const char *kind_text(enum kind kind)
{
	static const char *const texts[] = {
		[PLAIN_READ] = "plain read",
		[PLAIN_WRITE] = "plain write",
		[ATOMIC_READ] = "atomic load",
		[ATOMIC_WRITE] = "atomic store",
	};

	return texts[kind];
}

/* Two atomic accesses are no race, nor are two reads. */
static bool may_race(enum kind a, enum kind b)
{
	bool plain = a <= PLAIN_WRITE || b <= PLAIN_WRITE;
	bool writes =
		a == PLAIN_WRITE || a == ATOMIC_WRITE || b == PLAIN_WRITE || b == ATOMIC_WRITE;

	return plain && writes;
}

static void judge_byte(const struct word *word, unsigned byte, const struct twt_place *place,
		       const struct twt_clock *before, enum kind kind)
{
	for (enum kind other = 0; other < KINDS; other++) {
		if (!may_race(kind, other))
			continue;
		for (unsigned t = 0; t < TWT_EXPLORE_THREADS; t++) {
			if (t != place->thread && word->at[other][t][byte] > before->at[t])
				twt_explore_fault(
					"race: a %s by thread %u at %p and a %s by thread "
					"%u at %p of address %p",
					kind_text(other), t, twt_explore_code(word->code[other][t]),
					kind_text(kind), place->thread,
					twt_explore_code(place->code),
					(void *)(word->number * 8 + byte));
		}
	}
}

/* Some bytes of one word. */
static void access_word(const struct twt_place *place, const struct twt_clock *before,
			enum kind kind, uint32_t now, uintptr_t from, uintptr_t end)
{
	struct word *word = word_of(from / 8);

	for (uintptr_t at = from; at < end; at++) {
		uint32_t *mine = &word->at[kind][place->thread][at % 8];

		if (*mine == now)
			continue; /* it was judged, and nobody who came since could be ordered */
		judge_byte(word, at % 8, place, before, kind);
		*mine = now;
	}
	word->code[kind][place->thread] = place->code;
}

static void access_bytes(const struct twt_place *place, const struct twt_clock *before,
			 enum kind kind, uint32_t now)
{
	uintptr_t end = place->address + place->bytes, next;

	for (uintptr_t at = place->address; at < end; at = next) {
		next = (at | 7) + 1;
		access_word(place, before, kind, now, at, next < end ? next : end);
	}
}

void twt_races_atomic(const struct twt_place *place, enum twt_order order,
		      const struct twt_clock *before, bool write)
{
	if (order == TWT_RELAXED && is_guarded(place->address))
		access_bytes(place, before, write ? PLAIN_WRITE : PLAIN_READ,
			     before->at[place->thread]);
	else
		access_bytes(place, before, write ? ATOMIC_WRITE : ATOMIC_READ,
			     before->at[place->thread]);
}

void twt_races_plain(const struct twt_place *place, const struct twt_clock *before, bool write)
{
	/* The next atomic access is the first that may tell others of it. */
	access_bytes(place, before, write ? PLAIN_WRITE : PLAIN_READ,
		     before->at[place->thread] + 1);
}
