/*
 * test_shm_liars.c - a peer of the shm lane that writes what no honest one writes: it is ended, and
 * this process is not.
 */
#include "shm_pair.h"

#define MIDDLE (100u << 10)

static void expect_ended(int i)
{
	for (int k = 0; k < 1000 && twt_shm_inside(i)->base.ended == 0; k++)
		twt_shm_turn();
	assert_int_equal(twt_shm_inside(i)->base.ended, TOW_EPROTOCOL);
	assert_int_equal(twt_shm_counted(i, TWI_C_protocol_errors), 1);
	/* The liar hears which rule it broke. */
	for (int k = 0; k < 1000 && twt_shm_inside(1 - i)->base.ended == 0; k++)
		twt_shm_turn();
	assert_int_equal(twt_shm_inside(1 - i)->base.ended, TOW_EPEER);
	assert_non_null(strstr(twt_shm_inside(1 - i)->base.ended_why,
			       "it says that this side broke rule "));
}

static struct twi_shm_slot *forge(enum twi_shm_type type, uint16_t offer, uint64_t bytes,
				  uint64_t where, uint64_t more)
{
	struct twi_shm_out *out = &twt_shm_inside(0)->out;
	struct twi_shm_slot *slot = twi_shm_slot_room(out);

	slot->tag = 1;
	slot->bytes = bytes;
	slot->where = where;
	slot->more = more;
	twi_shm_slot_put(out, slot, type, 0, offer);
	return slot;
}

static void test_liar_range(void **state)
{
	(void)state;
	forge(TWI_SHM_IN_POOL, 3, 1 << 20, (uint32_t)twt_shm_pool_bytes - 5, 0);
	expect_ended(1);
}

static void test_liar_extent(void **state)
{
	(void)state;
	forge(TWI_SHM_IN_POOL, 3, 8, 0, 15);
	expect_ended(1);
}

static void test_liar_channel(void **state)
{
	struct twi_shm_slot *slot = forge(TWI_SHM_INLINED, 8, 0, 0, 0);

	(void)state;
	slot->word |= 7u << 16; /* nobody has read it yet: both sides are this thread's */
	expect_ended(1);
	assert_non_null(strstr(twt_shm_inside(0)->base.ended_why, twi_rule_text(TWI_RULE_CHANNEL)));
	assert_non_null(strstr(twt_shm_inside(1)->base.ended_why, "broke rule 54 "));
}

static void test_liar_twice(void **state)
{
	(void)state;
	forge(TWI_SHM_IN_POOL, 3, 1 << 20, 0, 0);
	forge(TWI_SHM_IN_POOL, 3, 1 << 20, 0, 0);
	expect_ended(1);
}

static void test_liar_withdrawal(void **state)
{
	(void)state;
	forge(TWI_SHM_IN_POOL, 3, 1 << 20, 0, 0);
	forge(TWI_SHM_WITHDRAWN, 3, 0, 0, 0); /* its word stands */
	expect_ended(1);
}

static void lie_about(enum twi_shm_note_kind kind, uint16_t offer, uint32_t generation,
		      uint64_t bytes)
{
	const struct twi_shm_remark remark = {
		.kind = kind, .offer = offer, .generation = generation, .bytes = bytes
	};

	assert_true(twi_shm_note_put(&twt_shm_inside(1)->notes_out, &remark));
}

static void lie_note(enum twi_shm_note_kind kind, uint16_t offer, uint32_t generation)
{
	lie_about(kind, offer, generation, 1);
}

/* Each note that is out of place ends the sender of it, whatever it is about. */
static void test_liar_notes(void **state)
{
	uint8_t *out = twt_shm_take(0, MIDDLE);
	struct tow_op *send = twt_shm_send(0, out, MIDDLE, 1);

	(void)state;
	switch ((*(int *)*state)) {
	case 0:
		lie_note(TWI_SHM_DONE, 9, 0); /* no such offer */
		break;
	case 1:
		lie_note(TWI_SHM_DONE, 0, 99); /* another generation */
		break;
	case 2:
		lie_note(TWI_SHM_RELEASED, 0, 1); /* never viewed */
		break;
	case 3:
		lie_note(TWI_SHM_TAKEN, 0, 1); /* no piece is out */
		break;
	case 4:
		lie_note(TWI_SHM_GONE, 0, 1); /* never withdrawn */
		break;
	case 5:
		lie_about(TWI_SHM_WANTED, 0, 1, TWI_SHM_HELP);
		lie_about(TWI_SHM_WANTED, 0, 1, 0);
		lie_about(TWI_SHM_WANTED, 0, 1, 0);
		break;
	case 6:
		lie_about(TWI_SHM_WANTED, 0, 1, 0);
		lie_about(TWI_SHM_WANTED, 0, 1, TWI_SHM_HELP);
		break;
	default:
		lie_about(TWI_SHM_WANTED, 0, 1, TWI_SHM_HELP);
		lie_about(TWI_SHM_WANTED, 0, 1, TWI_SHM_HELP);
		break;
	}
	expect_ended(0);
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_EPROTOCOL);
	TWT_OK(tow_free(twt_shm.runtime[0], out));
}

static void test_liar_note_cases(void **state)
{
	for (int i = 0; i < 8; i++) {
		void *which = &i;

		test_liar_notes(&which);
		twt_shm_close(state);
		twt_shm_open(state);
	}
}

/* The other side claims to have read what was not written. */
static void test_liar_taken(void **state)
{
	uint64_t word = 1;

	(void)state;
	twt_shm_inside(1)->out.box.head->slots_taken = 1ull << 40;
	for (int i = 0; i < 2000 && twt_shm_inside(0)->base.ended == 0; i++) {
		TWT_OK(tow_op_release(twt_shm_send(0, &word, 8, 1)));
		(void)tow_progress(twt_shm.runtime[0]);
	}
	assert_int_equal(twt_shm_inside(0)->base.ended, TOW_EPROTOCOL);
}

/* Pieces that nobody asked for, or too many of them. */
static void test_liar_pieces(void **state)
{
	struct twi_shm_remark piece = { .kind = TWI_SHM_PIECE, .offer = 0, .generation = 1 };
	uint8_t *heap = malloc(MIDDLE), *in = malloc(MIDDLE);
	struct tow_op *send, *recv;

	(void)state;
	twt_shm_inside(0)->remote_mine = false;
	recv = twt_shm_recv(1, in, MIDDLE, 1);
	send = twt_shm_send(0, heap, MIDDLE, 1);
	(void)tow_progress(twt_shm.runtime[1]);
	piece.bytes = MIDDLE + 1;
	assert_true(twi_shm_note_put(&twt_shm_inside(0)->notes_out, &piece));
	(void)tow_progress(twt_shm.runtime[1]);
	assert_int_equal(twt_shm_inside(1)->base.ended, TOW_EPROTOCOL);
	assert_int_equal(twt_shm_finish(recv, NULL, false), TOW_EPROTOCOL);
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_EPEER);
	free(heap);
	free(in);
}

/* Random words all over the box of a side that lives: the other side ends it or goes on. */
static void test_scribbles(void **state)
{
	uint64_t random = twt_seed();

	for (int round = 0; round < 40; round++) {
		uint8_t *out = twt_shm_take(0, MIDDLE), *in = twt_shm_take(1, MIDDLE);
		uint64_t *words = twt_shm_inside(0)->shared->mine;
		uint64_t count = twt_shm_inside(0)->shared->mine_bytes / 8;

		twt_shm_inside(0)
			->shared->refs++; /* the box stays when the other side ends it all */

		for (int i = 0; i < 300; i++) {
			uint64_t at = twt_random_below(&random, i % 2 ? count : 9000);
			struct tow_op *ops[2] = {
				twt_shm_recv(1, in, MIDDLE, (uint64_t)i % 3),
				twt_shm_send(0, out, (uint64_t)i * 300 % MIDDLE, (uint64_t)i % 3),
			};

			/* small numbers are nearer to what means something */
			words[at] = twt_random(&random) >> twt_random_below(&random, 64);
			twt_shm_turn();
			for (int k = 0; k < 2; k++)
				TWT_OK(tow_op_release(ops[k]));
		}
		twt_shm_close(state);
		twt_shm_open(state);
	}
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, twt_shm_open, twt_shm_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_liar_channel), CASE(test_liar_range),      CASE(test_liar_extent),
		CASE(test_liar_twice),   CASE(test_liar_withdrawal), CASE(test_liar_note_cases),
		CASE(test_liar_taken),   CASE(test_liar_pieces),     CASE(test_scribbles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
