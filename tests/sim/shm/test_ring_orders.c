/*
 * test_ring_orders.c - the shared rings, the word of an offer and the bell, in every order of the
 * two sides' steps and with every value that C11 lets them read, within bounds (explore.h).
 */
#include "twt.h"

#include <string.h>

#include "explore.h"

#include <towline/status.h>

#include "transport/lanes/shm/shm.h"

#define MESSAGES   5u
#define LONG_BYTES (20u << 10)
#define BELL       7

static const struct twi_shm_shape shape = { .slots = 4, .area_bytes = TWI_SHM_AREA_MIN };
static const struct twi_shm_limits limits = { .eager_max = 64u << 10 };
static struct twi_engine engine;
static struct twi_shm_lane lane;
/* Of the writer, and of the reader. */
static struct twi_shm_peer near, far;
static void *memory[2];
static bool fenced;
static unsigned accepted, taken_back;
static _Atomic uint32_t payload; /* of the offer, which stands elsewhere */
static uint32_t settled;         /* written by the sender of one that was accepted */

/* The bell's deputies: nothing is queued here. */
bool twi_shm_send_ready(struct twi_shm_peer *peer)
{
	(void)peer;
	return false;
}

/* What the cases write of a box is as it was made. */
static void clear_box(const struct twi_shm_box *box)
{
	memset(box->head, 0, sizeof(*box->head));
	memset(box->offers, 0, sizeof(box->offers[0]));
	memset(box->slots, 0, shape.slots * sizeof(box->slots[0]));
	memset(box->notes, 0, TWI_SHM_NOTES * sizeof(box->notes[0]));
}

static void begin(void)
{
	struct twi_shm_box near_box, far_box;

	twi_shm_out_fini(&near.out);
	twi_shm_box_init(&near_box, memory[0], &shape);
	twi_shm_box_init(&far_box, memory[1], &shape);
	clear_box(&near_box);
	clear_box(&far_box);
	assert_int_equal(twi_shm_out_init(&near.out, &near_box, &far_box), TOW_OK);
	twi_shm_in_init(&near.in, &near_box, &far_box);
	far.out.box = far_box;
	twi_shm_in_init(&far.in, &far_box, &near_box);
	near.notes_out = (struct twi_shm_notes){ .notes = near_box.notes,
						 .taken = &far_box.head->notes_taken };
	far.notes_in = near.notes_out;
	near.fenced = fenced;
	near.socket.fd = BELL;
	twi_list_init(&far.copying);
	twi_list_init(&far.helped);
	lane.barriers = !fenced;
	accepted = taken_back = settled = 0;
	payload = 0;
}

/* --- slots and the area --- */

static uint8_t byte_of(unsigned message)
{
	return (uint8_t)(message * 37 + 11);
}

/* The first and the last word of what a message has: the rest is as theirs. */
static void fill(uint8_t *data, uint64_t bytes, unsigned message)
{
	memset(data, byte_of(message), 8);
	memset(data + bytes - 8, byte_of(message), 8);
}

static void judge(const uint8_t *data, uint64_t bytes, unsigned message)
{
	twt_explore_check(data[0] == byte_of(message));
	twt_explore_check(data[bytes - 1] == byte_of(message));
}

static bool put(unsigned message, uint32_t bytes)
{
	struct twi_shm_slot *slot = twi_shm_slot_room(&near.out);
	uint64_t where = 0;

	if (slot != NULL && bytes > TWI_SHM_INLINE)
		where = twi_shm_area_room(&near.out, bytes);
	if (slot == NULL || where == UINT64_MAX)
		return false;
	atomic_store_explicit(&slot->tag, message, memory_order_relaxed);
	if (bytes <= TWI_SHM_INLINE) {
		fill(slot->data, bytes, message);
		twi_shm_slot_put(&near.out, slot, TWI_SHM_INLINED, 0, (uint16_t)bytes);
	} else {
		fill(near.out.box.area + where, bytes, message);
		atomic_store_explicit(&slot->bytes, bytes, memory_order_relaxed);
		atomic_store_explicit(&slot->where, where, memory_order_relaxed);
		twi_shm_slot_put(&near.out, slot, TWI_SHM_IN_AREA, 0, 0);
	}
	twi_shm_wrote(&near);
	return true;
}

static bool get(unsigned message)
{
	struct twi_shm_message what;
	uint64_t word = twi_shm_slot_peek(&far.in);

	if (word == 0)
		return false;
	twt_explore_check(twi_shm_slot_get(&far.in, word, &limits, &what) == TWI_SHM_FAULT_NONE);
	twt_explore_check(what.tag == message);
	judge(what.payload, what.bytes, message);
	twi_shm_slot_take(&far.in, &what);
	return true;
}

static void write_all(uint32_t odd_bytes, uint32_t even_bytes)
{
	for (unsigned i = 0; i < MESSAGES; i++) {
		while (!put(i, i % 2 != 0 ? odd_bytes : even_bytes))
			twt_explore_yield();
	}
	twt_explore_check(!near.out.broken);
}

static void read_all(void)
{
	for (unsigned i = 0; i < MESSAGES; i++) {
		while (!get(i))
			twt_explore_yield();
	}
}

static void thread_slots(unsigned number)
{
	if (number == 0)
		write_all(TWI_SHM_INLINE, TWI_SHM_INLINE);
	else
		read_all();
}

static void thread_area(unsigned number)
{
	if (number == 0)
		write_all(LONG_BYTES, LONG_BYTES);
	else
		read_all();
}

/* Words of slots that were payload before, and the other way round. */
static void thread_both(unsigned number)
{
	if (number == 0)
		write_all(LONG_BYTES, TWI_SHM_INLINE);
	else
		read_all();
}

/* --- notes --- */

static void thread_notes(unsigned number)
{
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct twi_shm_remark remark = { .kind = TWI_SHM_DONE,
						 .offer = (uint16_t)(i + 1),
						 .generation = i + 7 };

		if (number == 0) {
			while (!twi_shm_note_put(&near.notes_out, &remark))
				twt_explore_yield();
			continue;
		}
		while (!twi_shm_note_there(&far.notes_in))
			twt_explore_yield();
		twt_explore_check(twi_shm_note_get(&far.notes_in, &limits, &remark) ==
				  TWI_SHM_FAULT_NONE);
		twt_explore_check(remark.offer == i + 1 && remark.generation == i + 7);
	}
}

/* --- the word of an offer: taken or taken back, never both --- */

static void thread_sender(void)
{
	uint64_t found;

	atomic_store_explicit(&payload, 1, memory_order_relaxed);
	atomic_store_explicit(&near.out.box.offers[0].word, twi_shm_state_word(3, TWI_SHM_OFFERED),
			      memory_order_relaxed);
	while (!put(0, 8))
		twt_explore_yield();
	if (twi_shm_offer_decide(&near.out.box.offers[0], 3, TWI_SHM_TAKEN_BACK, &found))
		taken_back++;
	else
		settled = 1;
	/* Its owner has the memory again, either way. */
	atomic_store_explicit(&payload, 2, memory_order_relaxed);
}

static void thread_offer(unsigned number)
{
	uint32_t copied;
	uint64_t found;

	if (number == 0) {
		thread_sender();
		return;
	}
	while (!get(0))
		twt_explore_yield();
	/* The receiver copies first, and believes in what it has only if it decides. */
	copied = atomic_load_explicit(&payload, memory_order_relaxed);
	twt_explore_check(settled == 0);
	if (twi_shm_offer_decide(&far.in.box.offers[0], 3, TWI_SHM_ACCEPTED, &found)) {
		accepted++;
		twt_explore_check(copied == 1);
	} else {
		twt_explore_check(found == twi_shm_state_word(3, TWI_SHM_TAKEN_BACK));
	}
}

static void end_offer(void)
{
	twt_explore_check(accepted + taken_back == 1);
}

/* --- the bell --- */

static void sleep_for_bell(void)
{
	twi_shm_doze(&lane);
	if (!twi_shm_peer_ready(&far))
		twt_explore_receive(BELL);
}

static void begin_bell(void)
{
	begin();
	twi_list_init(&lane.up);
	twi_list_init(&lane.idle);
	twi_list_init(&far.link);
	twi_list_push_back(&lane.up, &far.link);
	lane.up_count = 1;
	far.idle = false;
}

static void thread_bell(unsigned number)
{
	if (number == 0) {
		for (unsigned i = 0; i < 3; i++)
			twt_explore_check(put(i, 8));
		return;
	}
	for (unsigned i = 0; i < 3; i++) {
		while (!get(i))
			sleep_for_bell();
	}
}

/* A connection that the sweep puts aside is polled no more: the bell, or the sweep, finds it. */
static void thread_sweep(unsigned number)
{
	if (number == 0) {
		twt_explore_check(put(0, 8));
		twt_explore_check(put(1, 8));
		return;
	}
	for (unsigned i = 0; i < 2; i++) {
		lane.turns = 255;
		lane.swept_ns = 0;
		far.moved = false;
		twi_shm_sweep(&lane);
		while (!far.idle && !get(i))
			sleep_for_bell();
		if (far.idle) {
			twt_explore_receive(BELL);
			twi_shm_wake(&far);
			while (!get(i))
				sleep_for_bell();
		}
	}
}

/* --- */

static void explore(const char *name, void (*thread)(unsigned number), void (*first)(void),
		    void (*end)(void), bool by_fence)
{
	const struct twt_explore_case what = { .name = name,
					       .threads = 2,
					       .begin = first,
					       .thread = thread,
					       .end = end,
					       .preemptions = 2,
					       .stale_reads = 1 };

	fenced = by_fence;
	twt_explore_all(&what);
}

static void test_slots(void **state)
{
	(void)state;
	explore("slots", thread_slots, begin, NULL, false);
}

static void test_area(void **state)
{
	(void)state;
	explore("area", thread_area, begin, NULL, false);
}

static void test_both(void **state)
{
	(void)state;
	explore("slots and area", thread_both, begin, NULL, false);
}

static void test_notes(void **state)
{
	(void)state;
	explore("notes", thread_notes, begin, NULL, false);
}

static void test_offer(void **state)
{
	(void)state;
	explore("offer", thread_offer, begin, end_offer, false);
}

static void test_bell(void **state)
{
	(void)state;
	explore("bell by membarrier", thread_bell, begin_bell, NULL, false);
	explore("bell by fences", thread_bell, begin_bell, NULL, true);
}

static void test_sweep(void **state)
{
	(void)state;
	explore("sweep by membarrier", thread_sweep, begin_bell, NULL, false);
	explore("sweep by fences", thread_sweep, begin_bell, NULL, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slots), cmocka_unit_test(test_area),
		cmocka_unit_test(test_both),  cmocka_unit_test(test_notes),
		cmocka_unit_test(test_offer), cmocka_unit_test(test_bell),
		cmocka_unit_test(test_sweep),
	};

	for (unsigned i = 0; i < 2; i++) {
		memory[i] = aligned_alloc(4096, twi_shm_box_bytes(&shape));
		if (memory[i] == NULL)
			return 1;
		memset(memory[i], 0, twi_shm_box_bytes(&shape));
	}
	twi_shm_box_init(&near.out.box, memory[0], &shape);
	twt_explore_guard(near.out.box.slots, shape.slots * sizeof(near.out.box.slots[0]));
	twt_explore_guard(near.out.box.notes, TWI_SHM_NOTES * sizeof(near.out.box.notes[0]));
	engine.lanes[TWI_LANE_SHM] = &lane.base;
	lane.base.engine = &engine;
	far.base.engine = &engine;
	twt_explore_own(&twi_self, sizeof(twi_self));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
