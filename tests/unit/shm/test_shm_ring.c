/*
 * test_shm_ring.c - the shared rings: wrap, full, what a reader tells, and values that no honest
 * side writes.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "transport/lanes/shm/shm_ring.h"
#include "transport/op/match_entry.h"

static const struct twi_shm_shape shape = { .slots = 16, .area_bytes = TWI_SHM_AREA_MIN };
static const uint64_t extents[] = { 4096, 1 << 20 };
static const struct twi_shm_limits limits = { .eager_max = 8192,
					      .extent_count = 2,
					      .extent_bytes = extents };
static void *memory[2];
static struct twi_shm_box box[2];
static struct twi_shm_out out;
static struct twi_shm_in in;
static struct twi_shm_notes notes_out, notes_in;

static int set_up(void **state)
{
	uint64_t bytes = twi_shm_box_bytes(&shape);

	(void)state;
	assert_true(twi_shm_shape_valid(&shape));
	for (int i = 0; i < 2; i++) {
		memory[i] = aligned_alloc(4096, bytes);
		assert_non_null(memory[i]);
		memset(memory[i], 0, bytes);
		twi_shm_box_init(&box[i], memory[i], &shape);
		assert_true(box[i].area + shape.area_bytes <= (uint8_t *)memory[i] + bytes);
	}
	assert_int_equal(twi_shm_out_init(&out, &box[0], &box[1]), TOW_OK);
	twi_shm_in_init(&in, &box[1], &box[0]);
	notes_out =
		(struct twi_shm_notes){ .notes = box[0].notes, .taken = &box[1].head->notes_taken };
	notes_in =
		(struct twi_shm_notes){ .notes = box[0].notes, .taken = &box[1].head->notes_taken };
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	twi_shm_out_fini(&out);
	free(memory[0]);
	free(memory[1]);
	return 0;
}

static bool put(uint64_t tag, uint32_t bytes)
{
	struct twi_shm_slot *slot = twi_shm_slot_room(&out);
	uint64_t where;

	if (slot == NULL)
		return false;
	slot->tag = tag;
	if (bytes <= TWI_SHM_INLINE) {
		memset(slot->data, (int)tag, bytes);
		twi_shm_slot_put(&out, slot, TWI_SHM_INLINED, 0, (uint16_t)bytes);
		return true;
	}
	where = twi_shm_area_room(&out, bytes);
	if (where == UINT64_MAX)
		return false;
	memset(box[0].area + where, (int)tag, bytes);
	slot->bytes = bytes;
	slot->where = where;
	twi_shm_slot_put(&out, slot, TWI_SHM_IN_AREA, 1, 0);
	return true;
}

static bool get(struct twi_shm_message *message)
{
	uint64_t word = twi_shm_slot_peek(&in);

	if (word == 0)
		return false;
	assert_int_equal(twi_shm_slot_get(&in, word, &limits, message), TWI_SHM_FAULT_NONE);
	for (uint64_t i = 0; i < message->bytes; i++)
		assert_int_equal(message->payload[i], (uint8_t)message->tag);
	twi_shm_slot_take(&in, message);
	return true;
}

/* Any mixture of sizes and of who is ahead: what goes in comes out, in order, many times around. */
static void test_order(void **state)
{
	static uint32_t sizes[1 << 16];
	struct twi_shm_message message;
	uint64_t random = twt_seed(), sent = 0, got = 0;

	(void)state;
	while (got < 20000) {
		uint64_t burst = twt_random_below(&random, 40);

		for (uint64_t i = 0; i < burst && sent < 20000; i++) {
			uint32_t bytes = (uint32_t)twt_random_below(
				&random, twt_random_below(&random, 4) == 0 ? 8193 : 80);

			if (!put(sent, bytes))
				break;
			sizes[sent++] = bytes;
		}
		burst = twt_random_below(&random, 40);
		for (uint64_t i = 0; i < burst && get(&message); i++) {
			assert_int_equal(message.tag, got);
			assert_int_equal(message.bytes, sizes[got]);
			got++;
		}
		assert_false(out.broken);
	}
}

/* A ring that is full says so, and has room again once its reader has read all of it. */
static void test_full(void **state)
{
	struct twi_shm_message message;
	unsigned count = 0;

	(void)state;
	for (int around = 0; around < 3; around++) {
		for (count = 0; put(count, 8); count++)
			;
		assert_int_equal(count, shape.slots);
		for (unsigned i = 0; i < count; i++)
			assert_true(get(&message));
		assert_false(get(&message));
		for (count = 0; put(count, 8192); count++)
			;
		assert_int_equal(count, shape.area_bytes / 8192);
		for (unsigned i = 0; i < count; i++)
			assert_true(get(&message));
		assert_false(get(&message));
	}
}

/* The other side says that it has read what was never written, or less than before. */
static void test_liar_taken(void **state)
{
	(void)state;
	for (unsigned i = 0; i < shape.slots; i++)
		assert_true(put(i, 8));
	box[1].head->slots_taken = 1000;
	assert_false(put(1, 8));
	assert_true(out.broken);
	out.broken = false;
	box[1].head->slots_taken = 4;
	assert_true(put(1, 8));
	box[1].head->slots_taken = 3;
	while (put(1, 8))
		;
	assert_true(out.broken);
}

/* Payload that looks like a slot's first word is never taken for one. */
static void test_lap(void **state)
{
	struct twi_shm_message message;

	(void)state;
	assert_int_equal(twi_shm_slot_peek(&in), 0);
	for (uint32_t n = 0; n < 3 * shape.slots; n++) {
		struct twi_shm_slot *slot = twi_shm_slot_room(&out);

		for (unsigned i = 0; i < TWI_SHM_INLINE; i++)
			slot->data[i] = (uint8_t)(n / shape.slots + 2);
		slot->tag = n / shape.slots + 2;
		twi_shm_slot_put(&out, slot, TWI_SHM_INLINED, 0, 8);
		assert_true(get(&message));
		assert_int_equal(twi_shm_slot_peek(&in), 0);
	}
}

static enum twi_shm_fault judge(uint8_t type, uint8_t space, uint16_t arg, uint64_t bytes,
				uint64_t where, uint64_t more)
{
	struct twi_shm_slot *slot = twi_shm_slot_room(&out);
	struct twi_shm_message message = { 0 };
	enum twi_shm_fault fault;

	slot->bytes = bytes;
	slot->where = where;
	slot->more = more;
	twi_shm_slot_put(&out, slot, (enum twi_shm_type)type, space, arg);
	fault = twi_shm_slot_get(&in, twi_shm_slot_peek(&in), &limits, &message);
	assert_true(strlen(twi_shm_fault_text(fault)) > 0);
	twi_shm_slot_take(&in, &message);
	return fault;
}

static void test_hostile_slots(void **state)
{
	const uint64_t huge = UINT64_MAX;

	(void)state;
	assert_int_equal(judge(0, 0, 0, 0, 0, 0), TWI_SHM_FAULT_TYPE);
	assert_int_equal(judge(TWI_SHM_TYPES, 0, 0, 0, 0, 0), TWI_SHM_FAULT_TYPE);
	assert_int_equal(judge(255, 0, 0, 0, 0, 0), TWI_SHM_FAULT_TYPE);
	assert_int_equal(judge(TWI_SHM_INLINED, 4, 0, 0, 0, 0), TWI_SHM_FAULT_SPACE);
	assert_int_equal(judge(TWI_SHM_INLINED, 0, 41, 0, 0, 0), TWI_SHM_FAULT_INLINE);
	assert_int_equal(judge(TWI_SHM_INLINED, 0, 40, 0, 0, 0), TWI_SHM_FAULT_NONE);
	assert_int_equal(judge(TWI_SHM_IN_AREA, 0, 0, 8193, 0, 0), TWI_SHM_FAULT_EAGER);
	assert_int_equal(judge(TWI_SHM_IN_AREA, 0, 0, huge, 0, 0), TWI_SHM_FAULT_EAGER);
	assert_int_equal(judge(TWI_SHM_IN_AREA, 0, 0, 100, shape.area_bytes - 99, 0),
			 TWI_SHM_FAULT_AREA);
	assert_int_equal(judge(TWI_SHM_IN_AREA, 0, 0, 100, huge, 0), TWI_SHM_FAULT_AREA);
	assert_int_equal(judge(TWI_SHM_IN_AREA, 0, 0, 100, shape.area_bytes - 100, 0),
			 TWI_SHM_FAULT_NONE);
	assert_int_equal(judge(TWI_SHM_IN_POOL, 0, TWI_SHM_OFFERS, 1, 0, 0), TWI_SHM_FAULT_OFFER);
	assert_int_equal(judge(TWI_SHM_IN_POOL, 0, 0, 0, 0, 0), TWI_SHM_FAULT_BYTES);
	assert_int_equal(judge(TWI_SHM_IN_POOL, 0, 0, huge, 0, 0), TWI_SHM_FAULT_BYTES);
	assert_int_equal(judge(TWI_SHM_IN_POOL, 0, 0, 1, 0, 2), TWI_SHM_FAULT_EXTENT);
	assert_int_equal(judge(TWI_SHM_IN_POOL, 0, 0, 4097, 0, 0), TWI_SHM_FAULT_RANGE);
	assert_int_equal(judge(TWI_SHM_IN_POOL, 0, 0, 4096, 1, 0), TWI_SHM_FAULT_RANGE);
	assert_int_equal(judge(TWI_SHM_IN_POOL, 0, 0, 1, huge, 0), TWI_SHM_FAULT_RANGE);
	assert_int_equal(judge(TWI_SHM_IN_POOL, 0, 0, 4096, 0, 0), TWI_SHM_FAULT_NONE);
	assert_int_equal(judge(TWI_SHM_LENT, 0, 0, 4096, 1, 0), TWI_SHM_FAULT_RANGE);
	assert_int_equal(judge(TWI_SHM_LENT, 0, 0, 4096, 0, 0), TWI_SHM_FAULT_NONE);
	assert_int_equal(judge(TWI_SHM_REMOTE, 0, 0, 10, huge - 5, 0), TWI_SHM_FAULT_RANGE);
	assert_int_equal(judge(TWI_SHM_REMOTE, 0, 0, 10, 77, 0), TWI_SHM_FAULT_NONE);
	assert_int_equal(judge(TWI_SHM_STAGED, 0, 511, 10, 0, 0), TWI_SHM_FAULT_NONE);
	assert_int_equal(judge(TWI_SHM_WITHDRAWN, 0, 512, 0, 0, 0), TWI_SHM_FAULT_OFFER);
}

/* Laps are counted in 16 bits: what lies in a slot is never taken for the lap that is next. */
static void test_laps_wrap(void **state)
{
	struct twi_shm_message message;

	(void)state;
	for (uint64_t n = 0; n < (uint64_t)shape.slots * 65540; n++) {
		struct twi_shm_slot *slot = twi_shm_slot_room(&out);

		assert_int_equal(twi_shm_slot_peek(&in), 0);
		assert_non_null(slot);
		slot->tag = n;
		twi_shm_slot_put(&out, slot, TWI_SHM_INLINED, 0, 0);
		assert_true(get(&message));
		assert_true(message.tag == n);
	}
}

static void test_channel(void **state)
{
	struct twi_shm_slot *slot = twi_shm_slot_room(&out);
	struct twi_shm_message message = { 0 };

	(void)state;
	twi_shm_slot_put(&out, slot, TWI_SHM_INLINED, twi_context_of(TWI_SPACE_USER, 0x8001), 0);
	assert_true(get(&message));
	assert_int_equal(message.channel, 0x8001);
	assert_int_equal(message.space, TWI_SPACE_USER);
	/* What takes an offer back is of none. */
	slot = twi_shm_slot_room(&out);
	twi_shm_slot_put(&out, slot, TWI_SHM_WITHDRAWN, twi_context_of(TWI_SPACE_USER, 1), 0);
	assert_int_equal(twi_shm_slot_get(&in, twi_shm_slot_peek(&in), &limits, &message),
			 TWI_SHM_FAULT_CHANNEL);
}

static enum twi_shm_fault remark(int kind, uint16_t offer, uint32_t extent, uint64_t where,
				 uint64_t bytes)
{
	const struct twi_shm_remark said = {
		(enum twi_shm_note_kind)kind, offer, extent, 7, where, bytes
	};
	struct twi_shm_remark heard;
	enum twi_shm_fault fault;

	assert_true(twi_shm_note_put(&notes_out, &said));
	assert_true(twi_shm_note_there(&notes_in));
	fault = twi_shm_note_get(&notes_in, &limits, &heard);
	if (fault == TWI_SHM_FAULT_NONE)
		assert_true(heard.kind == said.kind && heard.offer == offer &&
			    heard.extent == extent && heard.generation == 7 &&
			    heard.where == where && heard.bytes == bytes);
	assert_false(twi_shm_note_there(&notes_in));
	return fault;
}

static void test_notes(void **state)
{
	const struct twi_shm_remark any = { .kind = TWI_SHM_DONE };
	unsigned count = 0;

	(void)state;
	assert_int_equal(remark(0, 0, 0, 0, 0), TWI_SHM_FAULT_KIND);
	assert_int_equal(remark(TWI_SHM_NOTE_KINDS, 0, 0, 0, 0), TWI_SHM_FAULT_KIND);
	assert_int_equal(remark(TWI_SHM_DONE, TWI_SHM_OFFERS, 0, 0, 0), TWI_SHM_FAULT_OFFER);
	assert_int_equal(remark(TWI_SHM_DONE, 0xffff, 0, 0, 0), TWI_SHM_FAULT_OFFER);
	assert_int_equal(remark(TWI_SHM_PIECE, 0, 2, 0, 1), TWI_SHM_FAULT_EXTENT);
	assert_int_equal(remark(TWI_SHM_PIECE, 0, 0, 4096, 1), TWI_SHM_FAULT_RANGE);
	assert_int_equal(remark(TWI_SHM_PIECE, 0, 0, 0, 0), TWI_SHM_FAULT_BYTES);
	for (unsigned i = 0; i < 3 * TWI_SHM_NOTES; i++)
		assert_int_equal(remark(TWI_SHM_PIECE, (uint16_t)(i % TWI_SHM_OFFERS), 1, i, 9),
				 TWI_SHM_FAULT_NONE);
	while (twi_shm_note_put(&notes_out, &any))
		count++;
	assert_true(count <= TWI_SHM_NOTES && count >= TWI_SHM_NOTES * 3 / 4);
	*notes_out.taken = notes_out.next + 1; /* a liar */
	assert_false(twi_shm_note_put(&notes_out, &any));
}

static void test_shapes(void **state)
{
	struct twi_shm_shape bad = shape;

	(void)state;
	for (uint64_t eager = 0; eager <= 1 << 20; eager = eager * 2 + 1) {
		struct twi_shm_shape made = twi_shm_shape_for(eager);

		assert_true(twi_shm_shape_valid(&made));
		assert_true(made.area_bytes / 8 >= eager);
	}
	bad.slots = 15;
	assert_false(twi_shm_shape_valid(&bad));
	bad.slots = 0;
	assert_false(twi_shm_shape_valid(&bad));
	bad.slots = TWI_SHM_SLOTS_MAX * 2;
	assert_false(twi_shm_shape_valid(&bad));
	bad = shape;
	bad.area_bytes = 0x80000000u;
	assert_false(twi_shm_shape_valid(&bad));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = { CASE(test_order),         CASE(test_full),
					    CASE(test_liar_taken),    CASE(test_lap),
					    CASE(test_hostile_slots), CASE(test_notes),
					    CASE(test_shapes),        CASE(test_laps_wrap),
					    CASE(test_channel) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
