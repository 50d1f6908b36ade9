/*
 * Fuzzes what a peer can write into the memory that it shares with us. The input is one byte of
 * circumstances and then what stands in its box:
 *
 *   bits 0-1  slots, of 64 bytes each: 4 << bits of them; their lap is written over, so that each
 *             is read
 *   bits 2-3  how many extents were announced: of 4096 bytes, 64 KiB and 1 MiB
 *   bits 4-7  the largest small message is 0 for 0, else 1 << (bits + 1)
 *   rest      slots, then notes of 32 bytes, as far as the input goes
 *
 * Then the number of slots that we have taken, as the peer sees it, is played by the last 8 bytes.
 * What is accepted must lie inside the area or an extent.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/lanes/shm/shm_ring.h"
#include "transport/message/match.h"
#include "transport/wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint64_t extents[] = { 4096, 64 << 10, 1 << 20 };

static void expect_true(bool truth)
{
	if (!truth)
		abort();
}

static void expect_range(const struct twi_shm_limits *limits, uint32_t extent, uint64_t where,
			 uint64_t bytes)
{
	expect_true(extent < limits->extent_count);
	expect_true(bytes <= extents[extent] && where <= extents[extent] - bytes);
}

static void expect_message(const struct twi_shm_limits *limits,
			   const struct twi_shm_message *message)
{
	volatile uint8_t sum = 0;

	expect_true(message->space < TWI_SPACE_COUNT);
	if (message->type <= TWI_SHM_IN_AREA) {
		expect_true(message->bytes <= TWI_SHM_INLINE ||
			    message->bytes <= limits->eager_max);
		for (uint64_t i = 0; i < message->bytes; i++)
			sum = (uint8_t)(sum + message->payload[i]);
		return;
	}
	expect_true(message->offer < TWI_SHM_OFFERS && message->payload == NULL);
	if (message->type == TWI_SHM_WITHDRAWN)
		return;
	expect_true(message->bytes > 0 && message->bytes <= TWI_WIRE_U63_MAX);
	if (message->type == TWI_SHM_IN_POOL || message->type == TWI_SHM_LENT)
		expect_range(limits, message->extent, message->where, message->bytes);
	else if (message->type == TWI_SHM_REMOTE)
		expect_true(message->where + message->bytes >= message->where);
}

static void read_slots(struct twi_shm_in *in, const struct twi_shm_limits *limits)
{
	struct twi_shm_message message;

	for (uint32_t i = 0; i < in->box.shape.slots; i++) {
		_Atomic uint64_t *word = &in->box.slots[i].word;
		enum twi_shm_fault fault;

		*word = (*word & ~0xffffffffull) | 1;
		fault = twi_shm_slot_get(in, twi_shm_slot_peek(in), limits, &message);
		expect_true(fault < TWI_SHM_FAULTS && strlen(twi_shm_fault_text(fault)) > 0);
		if (fault == TWI_SHM_FAULT_NONE)
			expect_message(limits, &message);
		else
			message.type = TWI_SHM_INLINED;
		twi_shm_slot_take(in, &message);
	}
}

static void read_notes(struct twi_shm_notes *notes, unsigned count,
		       const struct twi_shm_limits *limits)
{
	struct twi_shm_remark remark;

	for (unsigned i = 0; i < count; i++) {
		_Atomic uint64_t *word = &notes->notes[i].word;
		enum twi_shm_fault fault;

		*word = (*word & ~0xffffffffull) | 1;
		expect_true(twi_shm_note_there(notes));
		fault = twi_shm_note_get(notes, limits, &remark);
		expect_true(fault < TWI_SHM_FAULTS);
		if (fault != TWI_SHM_FAULT_NONE)
			continue;
		expect_true(remark.kind > 0 && remark.kind < TWI_SHM_NOTE_KINDS);
		expect_true(remark.offer < TWI_SHM_OFFERS);
		if (remark.kind == TWI_SHM_PIECE)
			expect_range(limits, remark.extent, remark.where, remark.bytes);
	}
}

/* A writer whose reader says that it has taken `taken`: it never writes over what is not read. */
static void write_slots(struct twi_shm_box *mine, struct twi_shm_box *theirs, uint64_t taken)
{
	struct twi_shm_out out;
	uint64_t written = 0;

	if (twi_shm_out_init(&out, mine, theirs) < 0)
		return;
	for (unsigned i = 0; i < 3 * mine->shape.slots; i++) {
		struct twi_shm_slot *slot;
		uint64_t where;

		if (i == mine->shape.slots)
			theirs->head->slots_taken = taken;
		slot = twi_shm_slot_room(&out);
		if (slot == NULL)
			break;
		where = twi_shm_area_room(&out, 1000 + i);
		if (where == UINT64_MAX)
			break;
		expect_true(where + 1000 + i <= mine->shape.area_bytes);
		twi_shm_slot_put(&out, slot, TWI_SHM_IN_AREA, 0, 0);
		written++;
	}
	expect_true(written <= 2 * (uint64_t)mine->shape.slots + 1);
	twi_shm_out_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void *memory[2];
	struct twi_shm_shape shape = { .slots = 4, .area_bytes = TWI_SHM_AREA_MIN };
	struct twi_shm_limits limits = { .extent_bytes = extents };
	struct twi_shm_notes notes = { .notes = NULL };
	struct twi_shm_box box[2];
	struct twi_shm_in in;
	uint64_t taken = 0;
	size_t part;

	if (size < 1)
		return 0;
	shape.slots = 4u << (data[0] & 3);
	limits.extent_count = data[0] >> 2 & 3;
	limits.eager_max = data[0] >> 4 ? 2ull << (data[0] >> 4) : 0;
	data++;
	size--;
	for (int i = 0; i < 2; i++) {
		if (memory[i] == NULL)
			memory[i] = aligned_alloc(4096, 1 << 20);
		if (memory[i] == NULL || twi_shm_box_bytes(&shape) > 1 << 20)
			return 0;
		memset(memory[i], 0, 1 << 20);
		twi_shm_box_init(&box[i], memory[i], &shape);
	}
	part = twi_min(size, shape.slots * sizeof(struct twi_shm_slot));
	memcpy(box[0].slots, data, part);
	data += part;
	size -= part;
	if (size >= 8)
		memcpy(&taken, data + size - 8, 8);
	part = twi_min(size, TWI_SHM_NOTES * sizeof(struct twi_shm_note));
	memcpy(box[0].notes, data, part);
	twi_shm_in_init(&in, &box[1], &box[0]);
	read_slots(&in, &limits);
	notes.notes = box[0].notes;
	notes.taken = &box[1].head->notes_taken;
	read_notes(&notes, (unsigned)(part / sizeof(struct twi_shm_note)), &limits);
	write_slots(&box[1], &box[0], taken);
	return 0;
}
