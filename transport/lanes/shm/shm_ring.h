/*
 * shm_ring.h - the memory that two processes share, and the two rings in it. This code is pure: it
 * makes no system call, allocates nothing but `after`, and does not use the engine.
 *
 * Each side of a link has a shared segment (struct twi_shm_box), a memfd of its own that both map:
 *
 *	| head | offers: a state word each | slots: 64 B each | records: 32 B each | area |
 *
 *	slots    messages of the owner. A small one has its bytes in the slot or in the area; a
 *	         large one is an offer, which says where the bytes lie
 *	records  the owner's control records about offers, its own and the other side's
 *	head     how many slots and records of the other side the owner has taken; whether the
 *	         owner sleeps
 *	offers   one word each, the only memory that both sides write (shm_offer.h)
 *	area     bytes of small messages that are too long for a slot
 *
 * The owner alone writes everything else in its segment, and reads none of it back: it keeps its
 * state in its own memory. The exception is `asleep`, which the side that wakes the owner clears.
 * The owner reads each value of the other segment once, into a local variable, and checks it. So a
 * peer that writes nonsense harms only itself. Assertions are about a side's own memory, never
 * about the other segment.
 *
 * A slot is present when the low 16 bits of its first word are the number of the lap. A control
 * record is present when the low 32 bits are. So one cache line brings both the signal and the
 * message. First words are never payload, so old bytes cannot look like a new message.
 */
#ifndef TWI_SHM_RING_H
#define TWI_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <internal/base.h>

#include "transport/lanes/shm/shm_offer.h"

#define TWI_SHM_OFFERS 512u
#ifndef TWI_SHM_NOTES       /* few in test_ring_orders, so that the ring fills up */
#define TWI_SHM_NOTES 4096u /* an offer has at most 7 unread ones */
#endif
#define TWI_SHM_INLINE     40u /* bytes of payload in a slot */
#define TWI_SHM_SLOTS      1024u
#define TWI_SHM_SLOTS_MAX  65536u
#define TWI_SHM_AREA_MIN   (64u << 10)
#define TWI_SHM_AREA_MAX   (16u << 20)
#define TWI_SHM_AREA_ALIGN 64u

enum twi_shm_type {
	TWI_SHM_INLINED = 1, /* arg: bytes */
	TWI_SHM_IN_AREA,     /* where: offset in the area */
	TWI_SHM_IN_POOL,     /* arg: offer; extent and where: in the sender's pool */
	TWI_SHM_REMOTE,      /* arg: offer; where: address in the sender's memory */
	TWI_SHM_STAGED,      /* arg: offer; comes in pieces when it is wanted */
	TWI_SHM_LENT,        /* as IN_POOL; its sender does not write to it while viewed */
	TWI_SHM_WITHDRAWN,   /* arg: offer, whose state is to be read */
	TWI_SHM_TYPES
};

#define TWI_SHM_SUMMED 0x80u /* beside the type: sent_ns is the payload's crc32c */

enum twi_shm_note_kind {
	/* sent by the receiver of an offer */
	TWI_SHM_DONE = 1,
	TWI_SHM_VIEWED,    /* matched with a view: complete, but the memory is in use */
	TWI_SHM_RELEASED,  /* the view was released */
	TWI_SHM_TRUNCATED, /* the receive was too small */
	TWI_SHM_CANCELED,  /* the receive was canceled */
	TWI_SHM_GONE,      /* the withdrawal was seen */
	TWI_SHM_WANTED,    /* wants pieces; also if the receiver cannot read it; bytes: HELP */
	TWI_SHM_TAKEN,     /* one piece was copied */
	/* sent by the sender of an offer */
	TWI_SHM_PIECE, /* extent, where, bytes: the next bytes of a staged offer, in its pool */
	/* sent by the receiver */
	TWI_SHM_CORRUPT,    /* the received bytes have another checksum */
	TWI_SHM_BAD_MEMORY, /* the receive's memory cannot be written */
	TWI_SHM_NOTE_KINDS
};

struct twi_shm_slot {
	_Atomic uint64_t word; /* [arg: 16][space: 8][type: 8][channel: 16][lap: 16] */
	_Atomic uint64_t tag;
	_Atomic uint64_t sent_ns;
	union {
		uint8_t data[TWI_SHM_INLINE];
		struct {
			_Atomic uint64_t bytes;
			_Atomic uint64_t where;
			_Atomic uint64_t more; /* [generation: 32][extent: 32] */
		};
	};
};

struct twi_shm_note {
	_Atomic uint64_t word; /* [offer: 16][0: 8][kind: 8][lap: 32] */
	_Atomic uint64_t more; /* [generation: 32][extent: 32] */
	_Atomic uint64_t where;
	_Atomic uint64_t bytes;
};

_Static_assert(sizeof(struct twi_shm_slot) == 64, "a slot is one cache line");
_Static_assert(sizeof(struct twi_shm_note) == 32, "two notes are one cache line");

/* Cache lines in pairs, because the processor also fetches the neighbour of a line. */
struct twi_shm_head {
	_Alignas(128) _Atomic uint64_t slots_taken;
	_Atomic uint64_t notes_taken;
	_Atomic uint32_t closed; /* by the owner: 1 in order; more: BYE's value (rule.h) */
	_Alignas(128) _Atomic uint32_t asleep;     /* the owner sleeps: wake it after writing */
	_Alignas(128) _Atomic uint64_t probe;      /* a number to be read by process_vm_readv */
	_Alignas(128) _Atomic uint64_t reserved_0; /* aligns the offers to a line */
};

/* The layout of a segment: sent in the handshake, checked, and kept in each side's own memory. */
struct twi_shm_shape {
	uint32_t slots;      /* a power of two */
	uint32_t area_bytes; /* a power of two */
};

/* Addresses of the parts of a mapped segment. */
struct twi_shm_box {
	struct twi_shm_head *head;
	struct twi_shm_offer_word *offers;
	struct twi_shm_slot *slots;
	struct twi_shm_note *notes;
	uint8_t *area;
	struct twi_shm_shape shape;
};

/* A shape whose area holds several messages of eager_max bytes. */
struct twi_shm_shape twi_shm_shape_for(uint64_t eager_max);
bool twi_shm_shape_valid(const struct twi_shm_shape *shape);
uint64_t twi_shm_box_bytes(const struct twi_shm_shape *shape);
void twi_shm_box_init(struct twi_shm_box *box, void *memory, const struct twi_shm_shape *shape);

/* The writer's state of a ring of slots and of the area behind it. */
struct twi_shm_out {
	struct twi_shm_box box;
	const _Atomic uint64_t *taken; /* in the other side's segment */
	uint64_t next, taken_seen;     /* slots since the start */
	uint64_t area_next, area_free; /* bytes since the start */
	uint64_t *after;               /* by slot: area_next when the slot was written */
	bool broken;                   /* the other side took slots that were never written */
};

/* The reader's state. `taken` is in this side's segment. */
struct twi_shm_in {
	struct twi_shm_box box;
	_Atomic uint64_t *taken;
	uint64_t next, told;
	uint64_t bytes, bytes_told; /* bytes of the area */
};

/* Returns TOW_OK or TOW_ENOMEM. */
int twi_shm_out_init(struct twi_shm_out *out, const struct twi_shm_box *mine,
		     const struct twi_shm_box *theirs);
void twi_shm_out_fini(struct twi_shm_out *out);
void twi_shm_in_init(struct twi_shm_in *in, const struct twi_shm_box *mine,
		     const struct twi_shm_box *theirs);

/* Reads what the other side has taken. Returns false if that is impossible: out->broken. */
bool twi_shm_out_refresh(struct twi_shm_out *out);

static inline uint32_t twi_shm_lap(uint64_t number, uint32_t count)
{
	return (uint32_t)(number >> __builtin_ctz(count)) + 1;
}

static inline bool twi_shm_has_slot(const struct twi_shm_out *out)
{
	return out->next - out->taken_seen < out->box.shape.slots;
}

/* The next slot to write; the caller knows that it is free. */
static inline struct twi_shm_slot *twi_shm_slot_next(const struct twi_shm_out *out)
{
	return &out->box.slots[out->next & (out->box.shape.slots - 1)];
}

/* The next slot to write, or NULL if none is free. */
static inline struct twi_shm_slot *twi_shm_slot_room(struct twi_shm_out *out)
{
	if (twi_unlikely(!twi_shm_has_slot(out)) &&
	    (!twi_shm_out_refresh(out) || !twi_shm_has_slot(out)))
		return NULL;
	return twi_shm_slot_next(out);
}

/* Reserves `bytes` of the area in one piece for the next slot. Returns its offset or UINT64_MAX. */
uint64_t twi_shm_area_room(struct twi_shm_out *out, uint32_t bytes);

/* Publishes a slot that was written: the other side may read it. `context`: see match_entry.h. */
static inline void twi_shm_slot_put(struct twi_shm_out *out, struct twi_shm_slot *slot,
				    unsigned type, uint32_t context, uint16_t arg)
{
	twi_assert_hot(twi_shm_has_slot(out));
	out->after[out->next & (out->box.shape.slots - 1)] = out->area_next;
	/* release: pairs with the acquire in twi_shm_slot_peek; the message is written before it */
	atomic_store_explicit(&slot->word,
			      (uint64_t)arg << 48 | (uint64_t)(uint8_t)context << 40 |
				      (uint64_t)type << 32 | (uint64_t)(context >> 8) << 16 |
				      (uint16_t)twi_shm_lap(out->next, out->box.shape.slots),
			      memory_order_release);
	out->next++;
}

/* Returns the first word of the next slot, or 0 if the slot is not present yet. */
static inline uint64_t twi_shm_slot_peek(const struct twi_shm_in *in)
{
	const struct twi_shm_slot *slot = &in->box.slots[in->next & (in->box.shape.slots - 1)];
	/* acquire: pairs with the release in twi_shm_slot_put */
	uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);

	/* An old slot has the previous lap, or zeros before the first. 16 bits tell them apart. */
	return (uint16_t)word == (uint16_t)twi_shm_lap(in->next, in->box.shape.slots) ? word : 0;
}

/* The contents of a slot, in the reader's own memory. */
struct twi_shm_message {
	enum twi_shm_type type;
	uint8_t space;
	uint16_t channel, offer;
	uint32_t extent, generation;
	uint64_t tag, sent_ns, bytes, where;
	bool summed;
	uint32_t sum;
	const uint8_t *payload; /* INLINED, IN_AREA: shared memory, copied once */
};

/* The reader's limits for the other side. Everything in a slot is checked against them. */
struct twi_shm_limits {
	uint64_t eager_max;
	uint32_t extent_count;
	const uint64_t *extent_bytes;
};

enum twi_shm_fault {
	TWI_SHM_FAULT_NONE,
	TWI_SHM_FAULT_TYPE,
	TWI_SHM_FAULT_SPACE,
	TWI_SHM_FAULT_INLINE,
	TWI_SHM_FAULT_AREA,
	TWI_SHM_FAULT_EAGER,
	TWI_SHM_FAULT_OFFER,
	TWI_SHM_FAULT_EXTENT, /* not announced, as far as the limits say */
	TWI_SHM_FAULT_RANGE,
	TWI_SHM_FAULT_BYTES,
	TWI_SHM_FAULT_KIND,
	TWI_SHM_FAULT_CHANNEL,
	TWI_SHM_FAULTS
};

const char *twi_shm_fault_text(enum twi_shm_fault fault);

/* Reads the next slot, whose first word was `word`. The slot stays until twi_shm_slot_take. */
enum twi_shm_fault twi_shm_slot_get(const struct twi_shm_in *in, uint64_t word,
				    const struct twi_shm_limits *limits,
				    struct twi_shm_message *out);

/* Removes the message's slot. Returns true when it has reported free room to the other side. */
bool twi_shm_slot_take(struct twi_shm_in *in, const struct twi_shm_message *message);

/* The state of the writer, or of the reader, of a ring of control records. */
struct twi_shm_notes {
	struct twi_shm_note *notes;
	_Atomic uint64_t *taken; /* out: in the other side's segment; in: in this side's */
	uint64_t next, taken_seen;
};

#define TWI_SHM_HELP 1u /* bytes of WANTED: the receiver can read the memory by itself, too */

struct twi_shm_remark {
	enum twi_shm_note_kind kind;
	uint16_t offer;
	uint32_t extent, generation;
	uint64_t where, bytes;
};

/* Returns false if there is no room, which never happens with an honest reader. */
bool twi_shm_note_put(struct twi_shm_notes *out, const struct twi_shm_remark *remark);

static inline bool twi_shm_note_there(const struct twi_shm_notes *in)
{
	/* acquire: pairs with the release in twi_shm_note_put */
	return (uint32_t)atomic_load_explicit(&in->notes[in->next & (TWI_SHM_NOTES - 1)].word,
					      memory_order_acquire) ==
	       twi_shm_lap(in->next, TWI_SHM_NOTES);
}

/* Reads and takes the next record, which is present. Returns FAULT_NONE, or what is wrong. */
enum twi_shm_fault twi_shm_note_get(struct twi_shm_notes *in, const struct twi_shm_limits *limits,
				    struct twi_shm_remark *out);

#endif
