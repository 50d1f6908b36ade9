/*
 * shm_ring.c - writes and reads the shared rings. See shm_ring.h.
 *
 * The reader reports what it has taken only once for each quarter of the ring. So the cache line of
 * that number rarely moves between processors. A writer that finds no room still gets some, because
 * a full ring always holds more than a quarter.
 */
#include "transport/lanes/shm/shm_ring.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "transport/message/match.h"
#include "transport/wire/frame.h"

#define LINE 128u

struct twi_shm_shape twi_shm_shape_for(uint64_t eager_max)
{
	struct twi_shm_shape shape = { .slots = TWI_SHM_SLOTS, .area_bytes = 256u << 10 };

	while (shape.area_bytes < 8 * eager_max && shape.area_bytes < TWI_SHM_AREA_MAX)
		shape.area_bytes *= 2;
	return shape;
}

bool twi_shm_shape_valid(const struct twi_shm_shape *shape)
{
	return twi_is_power_of_two(shape->slots) && shape->slots >= 4 &&
	       shape->slots <= TWI_SHM_SLOTS_MAX && twi_is_power_of_two(shape->area_bytes) &&
	       shape->area_bytes >= TWI_SHM_AREA_MIN && shape->area_bytes <= TWI_SHM_AREA_MAX;
}

static uint64_t slots_at(void)
{
	return twi_align_up(sizeof(struct twi_shm_head) +
				    TWI_SHM_OFFERS * sizeof(struct twi_shm_offer_word),
			    LINE);
}

uint64_t twi_shm_box_bytes(const struct twi_shm_shape *shape)
{
	uint64_t bytes = slots_at() + (uint64_t)shape->slots * sizeof(struct twi_shm_slot) +
			 TWI_SHM_NOTES * sizeof(struct twi_shm_note) + shape->area_bytes;

	return twi_align_up(bytes, 4096);
}

void twi_shm_box_init(struct twi_shm_box *box, void *memory, const struct twi_shm_shape *shape)
{
	uint8_t *at = memory;

	box->shape = *shape;
	box->head = memory;
	box->offers = (void *)(at + sizeof(struct twi_shm_head));
	at += slots_at();
	box->slots = (void *)at;
	at += (uint64_t)shape->slots * sizeof(struct twi_shm_slot);
	box->notes = (void *)at;
	at += TWI_SHM_NOTES * sizeof(struct twi_shm_note);
	box->area = at;
}

int twi_shm_out_init(struct twi_shm_out *out, const struct twi_shm_box *mine,
		     const struct twi_shm_box *theirs)
{
	*out = (struct twi_shm_out){ .box = *mine, .taken = &theirs->head->slots_taken };
	out->after = calloc(mine->shape.slots, sizeof(out->after[0]));
	return out->after != NULL ? TOW_OK
				  : twi_error(TOW_ENOMEM, "no memory for a ring of %u slots",
					      mine->shape.slots);
}

void twi_shm_out_fini(struct twi_shm_out *out)
{
	free(out->after);
	out->after = NULL;
}

void twi_shm_in_init(struct twi_shm_in *in, const struct twi_shm_box *mine,
		     const struct twi_shm_box *theirs)
{
	*in = (struct twi_shm_in){ .box = *theirs, .taken = &mine->head->slots_taken };
}

bool twi_shm_out_refresh(struct twi_shm_out *out)
{
	/* acquire: pairs with the release in twi_shm_slot_take; only then are slots reused */
	uint64_t taken = atomic_load_explicit(out->taken, memory_order_acquire);

	if (taken - out->taken_seen > out->next - out->taken_seen) {
		out->broken = true;
		return false;
	}
	if (taken != out->taken_seen)
		out->area_free = out->after[(taken - 1) & (out->box.shape.slots - 1)];
	out->taken_seen = taken;
	return true;
}

/* Where a piece of `need` bytes begins: at the next byte, or at the start if it would not fit. */
static uint64_t area_begin(const struct twi_shm_out *out, uint32_t need)
{
	uint64_t size = out->box.shape.area_bytes, at = out->area_next & (size - 1);

	return at + need > size ? out->area_next + (size - at) : out->area_next;
}

uint64_t twi_shm_area_room(struct twi_shm_out *out, uint32_t bytes)
{
	uint32_t need = (uint32_t)twi_align_up(bytes, TWI_SHM_AREA_ALIGN);
	uint64_t size = out->box.shape.area_bytes, begin = area_begin(out, need);

	if (begin + need - out->area_free > size &&
	    (!twi_shm_out_refresh(out) || begin + need - out->area_free > size))
		return UINT64_MAX;
	out->area_next = begin + need;
	twi_assert_hot(out->area_next - out->area_free <= size);
	return begin & (size - 1);
}

const char *twi_shm_fault_text(enum twi_shm_fault fault)
{
	static const char *const texts[] = {
		[TWI_SHM_FAULT_NONE] = "nothing",
		[TWI_SHM_FAULT_TYPE] = "a message of an unknown type",
		[TWI_SHM_FAULT_SPACE] = "a tag of an unknown space",
		[TWI_SHM_FAULT_INLINE] = "more bytes than a slot has",
		[TWI_SHM_FAULT_AREA] = "bytes outside of the area",
		[TWI_SHM_FAULT_EAGER] = "a small message that is too large",
		[TWI_SHM_FAULT_OFFER] = "the number of an offer that cannot be",
		[TWI_SHM_FAULT_EXTENT] = "an extent that was not announced",
		[TWI_SHM_FAULT_RANGE] = "bytes outside of an extent",
		[TWI_SHM_FAULT_BYTES] = "a length that cannot be",
		[TWI_SHM_FAULT_KIND] = "a note of an unknown kind",
		[TWI_SHM_FAULT_CHANNEL] = "a channel where there is none",
	};

	return fault < TWI_SHM_FAULTS ? texts[fault] : "?";
}

static enum twi_shm_fault check_range(const struct twi_shm_limits *limits, uint32_t extent,
				      uint64_t where, uint64_t bytes)
{
	if (extent >= limits->extent_count)
		return TWI_SHM_FAULT_EXTENT;
	if (where > limits->extent_bytes[extent] || bytes > limits->extent_bytes[extent] - where)
		return TWI_SHM_FAULT_RANGE;
	return TWI_SHM_FAULT_NONE;
}

static enum twi_shm_fault check_area(const struct twi_shm_in *in,
				     const struct twi_shm_limits *limits,
				     struct twi_shm_message *message)
{
	if (message->bytes > limits->eager_max)
		return TWI_SHM_FAULT_EAGER;
	if (message->where > in->box.shape.area_bytes ||
	    message->bytes > in->box.shape.area_bytes - message->where)
		return TWI_SHM_FAULT_AREA;
	message->payload = in->box.area + message->where;
	return TWI_SHM_FAULT_NONE;
}

static enum twi_shm_fault check_offer(const struct twi_shm_limits *limits,
				      const struct twi_shm_message *message)
{
	if (message->offer >= TWI_SHM_OFFERS)
		return TWI_SHM_FAULT_OFFER;
	if (message->type == TWI_SHM_WITHDRAWN)
		return message->channel == 0 ? TWI_SHM_FAULT_NONE : TWI_SHM_FAULT_CHANNEL;
	if (message->bytes == 0 || message->bytes > TWI_WIRE_U63_MAX)
		return TWI_SHM_FAULT_BYTES;
	if (message->type == TWI_SHM_IN_POOL || message->type == TWI_SHM_LENT)
		return check_range(limits, message->extent, message->where, message->bytes);
	if (message->type == TWI_SHM_REMOTE && message->where > UINT64_MAX - message->bytes)
		return TWI_SHM_FAULT_RANGE;
	return TWI_SHM_FAULT_NONE;
}

enum twi_shm_fault twi_shm_slot_get(const struct twi_shm_in *in, uint64_t word,
				    const struct twi_shm_limits *limits,
				    struct twi_shm_message *out)
{
	const struct twi_shm_slot *slot = &in->box.slots[in->next & (in->box.shape.slots - 1)];
	uint64_t more;

	/* Each word is read once, so the value that is checked is the value that is used. */
	out->type = (enum twi_shm_type)(word >> 32 & 0x7f);
	out->summed = (word >> 32 & TWI_SHM_SUMMED) != 0;
	out->space = (uint8_t)(word >> 40);
	out->channel = (uint16_t)(word >> 16);
	out->offer = (uint16_t)(word >> 48);
	out->tag = atomic_load_explicit(&slot->tag, memory_order_relaxed);
	out->sent_ns = atomic_load_explicit(&slot->sent_ns, memory_order_relaxed);
	out->sum = (uint32_t)out->sent_ns;
	if (twi_unlikely(out->type == 0 || out->type >= TWI_SHM_TYPES))
		return TWI_SHM_FAULT_TYPE;
	if (twi_unlikely(out->space >= TWI_SPACE_COUNT))
		return TWI_SHM_FAULT_SPACE;
	if (twi_likely(out->type == TWI_SHM_INLINED)) {
		out->bytes = out->offer;
		out->payload = slot->data;
		return out->bytes <= TWI_SHM_INLINE ? TWI_SHM_FAULT_NONE : TWI_SHM_FAULT_INLINE;
	}
	out->bytes = atomic_load_explicit(&slot->bytes, memory_order_relaxed);
	out->where = atomic_load_explicit(&slot->where, memory_order_relaxed);
	more = atomic_load_explicit(&slot->more, memory_order_relaxed);
	out->extent = (uint32_t)more;
	out->generation = (uint32_t)(more >> 32);
	out->payload = NULL;
	return out->type == TWI_SHM_IN_AREA ? check_area(in, limits, out)
					    : check_offer(limits, out);
}

bool twi_shm_slot_take(struct twi_shm_in *in, const struct twi_shm_message *message)
{
	in->next++;
	twi_assert_hot(in->next - in->told <= in->box.shape.slots);
	if (message->type == TWI_SHM_IN_AREA)
		in->bytes += message->bytes;
	if (twi_likely(in->next - in->told < in->box.shape.slots / 4 &&
		       in->bytes - in->bytes_told < in->box.shape.area_bytes / 4))
		return false;
	in->told = in->next;
	in->bytes_told = in->bytes;
	/* release: pairs with the acquire in twi_shm_out_refresh */
	atomic_store_explicit(in->taken, in->next, memory_order_release);
	return true;
}

bool twi_shm_note_put(struct twi_shm_notes *out, const struct twi_shm_remark *remark)
{
	struct twi_shm_note *note = &out->notes[out->next & (TWI_SHM_NOTES - 1)];

	if (twi_unlikely(out->next - out->taken_seen >= TWI_SHM_NOTES)) {
		/* acquire: pairs with the release in twi_shm_note_get */
		uint64_t taken = atomic_load_explicit(out->taken, memory_order_acquire);

		if (taken - out->taken_seen > out->next - out->taken_seen ||
		    out->next - taken >= TWI_SHM_NOTES)
			return false;
		out->taken_seen = taken;
	}
	atomic_store_explicit(&note->more, (uint64_t)remark->generation << 32 | remark->extent,
			      memory_order_relaxed);
	atomic_store_explicit(&note->where, remark->where, memory_order_relaxed);
	atomic_store_explicit(&note->bytes, remark->bytes, memory_order_relaxed);
	/* release: pairs with the acquire in twi_shm_note_there */
	atomic_store_explicit(&note->word,
			      (uint64_t)remark->offer << 48 | (uint64_t)remark->kind << 32 |
				      twi_shm_lap(out->next, TWI_SHM_NOTES),
			      memory_order_release);
	out->next++;
	twi_assert_hot(out->next - out->taken_seen <= TWI_SHM_NOTES);
	return true;
}

enum twi_shm_fault twi_shm_note_get(struct twi_shm_notes *in, const struct twi_shm_limits *limits,
				    struct twi_shm_remark *out)
{
	const struct twi_shm_note *note = &in->notes[in->next & (TWI_SHM_NOTES - 1)];
	uint64_t word = atomic_load_explicit(&note->word, memory_order_relaxed);
	uint64_t more = atomic_load_explicit(&note->more, memory_order_relaxed);

	out->kind = (enum twi_shm_note_kind)(uint8_t)(word >> 32);
	out->offer = (uint16_t)(word >> 48);
	out->extent = (uint32_t)more;
	out->generation = (uint32_t)(more >> 32);
	out->where = atomic_load_explicit(&note->where, memory_order_relaxed);
	out->bytes = atomic_load_explicit(&note->bytes, memory_order_relaxed);
	in->next++;
	twi_assert_hot(in->next - in->taken_seen <= TWI_SHM_NOTES);
	if (in->next - in->taken_seen >= TWI_SHM_NOTES / 4) {
		in->taken_seen = in->next;
		/* release: pairs with the acquire in twi_shm_note_put */
		atomic_store_explicit(in->taken, in->next, memory_order_release);
	}
	if (out->kind == 0 || out->kind >= TWI_SHM_NOTE_KINDS || (word >> 40 & 0xff) != 0)
		return TWI_SHM_FAULT_KIND;
	if (out->offer >= TWI_SHM_OFFERS)
		return TWI_SHM_FAULT_OFFER;
	if (out->kind != TWI_SHM_PIECE)
		return TWI_SHM_FAULT_NONE;
	return out->bytes == 0 ? TWI_SHM_FAULT_BYTES
			       : check_range(limits, out->extent, out->where, out->bytes);
}
