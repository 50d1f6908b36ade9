/*
 * The memory of a send that was taken back is its owner's as soon as the send has ended: here it is
 * unmapped then, and whoever still reads it crashes. This is so over every lane, for memory that is
 * registered and memory that is not, canceled, past a deadline and with its peer closed, in any
 * order with the receive and with what either side has seen by then. The receive gets that message
 * or the next one. A peer that is closed in the middle leaves the endpoint as it was for others.
 */
#include "lane_pair.h"

#include <sys/mman.h>

#define ROUNDS 40
#define ROOM   (4u << 20)
#define TAG    77

static unsigned arrived;

struct round {
	struct twt_lane_pair *pair;
	uint64_t random;
	uint8_t *memory, *room;
	size_t mapped, bytes;
	uint64_t handle; /* of its registration, where it has one */
	bool registered, pool;
	struct tow_op *recv;
};

static uint64_t below(struct round *round, uint64_t bound)
{
	return twt_random_below(&round->random, bound);
}

/* Either side looks a few times, or not at all. */
static void look_about(struct round *round)
{
	for (uint64_t i = below(round, 5); i > 0; i--)
		(void)tow_progress(round->pair->runtime[below(round, 2)]);
}

static void map_message(struct round *round)
{
	static const size_t sizes[] = { 18918, 70000, 300000, 3u << 20 };

	round->bytes = sizes[below(round, twi_array_count(sizes))];
	round->registered = false;
	round->pool = below(round, 4) == 0;
	if (round->pool) {
		void *memory;

		TWT_OK(tow_alloc(round->pair->runtime[0], round->bytes, 0, &memory));
		round->memory = memory;
		memset(memory, (int)(round->random & 0x7f) + 1, round->bytes);
		return;
	}
	round->mapped = (round->bytes + 4095) & ~(size_t)4095;
	round->memory = mmap(NULL, round->mapped, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(round->memory != MAP_FAILED);
	memset(round->memory, (int)(round->random & 0x7f) + 1, round->mapped);
	round->registered = below(round, 2) == 0;
	if (round->registered)
		TWT_OK(tow_mem_register(round->pair->runtime[0], round->memory, round->mapped,
					&round->handle));
}

static void unmap_message(struct round *round)
{
	if (round->pool) {
		TWT_OK(tow_free(round->pair->runtime[0], round->memory));
		return;
	}
	/* The kernel may still have a part of it that was on its way. */
	while (round->registered) {
		int status = tow_mem_deregister(round->pair->runtime[0], round->handle);

		round->registered = status == TOW_EBUSY;
		if (round->registered)
			twt_lane_turn(round->pair);
		else
			TWT_OK(status);
	}
	assert_int_equal(munmap(round->memory, round->mapped), 0);
}

static void post_receive(struct round *round, bool now)
{
	if (now && round->recv == NULL)
		TWT_OK(tow_recv_start(round->pair->peer[1], round->room, ROOM, TAG, NULL,
				      &round->recv));
}

/* Starts the send, ends it early somehow, and takes its memory away. How it has ended. */
static int take_back(struct round *round)
{
	struct twt_lane_pair *pair = round->pair;
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	bool late = below(round, 4) == 0;
	struct tow_op *send;
	int status;

	if (late)
		options.timeout_ns = 1 + below(round, 100000);
	post_receive(round, below(round, 3) == 0);
	TWT_OK(tow_send_start(pair->peer[0], round->memory, round->bytes, TAG, &options, &send));
	look_about(round);
	post_receive(round, below(round, 3) == 0);
	look_about(round);
	if (!late)
		TWT_OK(tow_op_cancel(send));
	post_receive(round, below(round, 2) == 0);
	look_about(round);
	if (tow_op_test(send) == TOW_AGAIN)
		post_receive(round, late && below(round, 2) == 0);
	status = twt_lane_finish(pair, send).status;
	assert_true(status == TOW_OK || status == (late ? TOW_EDEADLINE : TOW_ECANCELED));
	unmap_message(round);
	return status;
}

static void play_round(struct round *round)
{
	static const uint8_t next[100];
	struct tow_result result;
	struct tow_op *send;
	uint8_t first;
	bool came;
	int status;

	map_message(round);
	first = round->memory[0];
	memset(round->room, 0, ROOM);
	status = take_back(round);
	TWT_OK(tow_send_start(round->pair->peer[0], next, sizeof(next), TAG, NULL, &send));
	post_receive(round, true);
	result = twt_lane_finish(round->pair, round->recv);
	round->recv = NULL;
	TWT_OK(result.status);
	/* One that is past its deadline may have come all the same, as it may with any peer. */
	came = result.bytes == round->bytes;
	assert_true(status == TOW_EDEADLINE || came == (status == TOW_OK));
	arrived += came;
	if (came) {
		for (size_t i = 0; i < round->bytes; i++)
			assert_int_equal(round->room[i], first);
		post_receive(round, true);
		result = twt_lane_finish(round->pair, round->recv);
		round->recv = NULL;
		TWT_OK(result.status);
	}
	assert_int_equal(result.bytes, sizeof(next));
	TWT_OK(twt_lane_finish(round->pair, send).status);
}

static void test_unmapped_at_once(void **state)
{
	uint64_t seed = twt_seed();

	(void)state;
	for (unsigned i = 0; i < TWT_LANE_ROWS; i++) {
		struct twt_lane_pair pair;
		struct round round = { .pair = &pair, .random = seed };

		twt_lane_init(&pair, &twt_lane_rows[i]);
		if (!twt_lane_open(&pair))
			continue;
		twt_lane_join(&pair);
		round.room = malloc(ROOM);
		assert_non_null(round.room);
		arrived = 0;
		for (int k = 0; k < ROUNDS; k++)
			play_round(&round);
		printf("%s: %u of %u have arrived\n", pair.lane->name, arrived, ROUNDS);
		free(round.room);
		twt_lane_close(&pair);
	}
}

/* The sender closes the peer, or the receiver does, in the middle of it. */
static void part_in_the_middle(struct round *round)
{
	struct twt_lane_pair *pair = round->pair;
	unsigned who = (unsigned)below(round, 2);
	struct tow_result result;
	struct tow_op *send;

	map_message(round);
	post_receive(round, below(round, 2) == 0);
	TWT_OK(tow_send_start(pair->peer[0], round->memory, round->bytes, TAG, NULL, &send));
	look_about(round);
	post_receive(round, true);
	look_about(round);
	look_about(round);
	TWT_OK(tow_peer_close(pair->peer[who]));
	pair->peer[who] = NULL;
	result = twt_lane_finish(pair, send);
	assert_true(result.status == TOW_OK ||
		    result.status == (who == 0 ? TOW_ECLOSED : TOW_EPEER));
	arrived += result.status == TOW_OK;
	unmap_message(round);
	(void)twt_lane_finish(pair, round->recv);
	round->recv = NULL;
	twt_lane_drive(pair, 2000000);
	TWT_OK(tow_peer_close(pair->peer[1 - who]));
	pair->peer[1 - who] = NULL;
}

static void test_unmapped_when_closed(void **state)
{
	uint64_t seed = twt_seed();

	(void)state;
	for (unsigned i = 0; i < TWT_LANE_ROWS; i++) {
		struct twt_lane_pair pair;
		struct round round = { .pair = &pair, .random = seed };

		twt_lane_init(&pair, &twt_lane_rows[i]);
		if (!twt_lane_open(&pair))
			continue;
		round.room = malloc(ROOM);
		assert_non_null(round.room);
		arrived = 0;
		for (int k = 0; k < ROUNDS; k++) {
			twt_lane_join(&pair);
			part_in_the_middle(&round);
		}
		printf("%s: %u of %u have arrived\n", pair.lane->name, arrived, ROUNDS);
		free(round.room);
		twt_lane_close(&pair);
	}
}

/* Who cancels may have to wait for the receiver's answer, but not past the send's deadline. */
static void test_receiver_sleeps(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TWT_LANE_ROWS; i++) {
		struct tow_op_options options = TOW_OP_OPTIONS_INIT;
		struct twt_lane_pair pair;
		struct tow_op *send;
		void *memory;
		int status;

		twt_lane_init(&pair, &twt_lane_rows[i]);
		if (!twt_lane_open(&pair))
			continue;
		twt_lane_join(&pair);
		options.timeout_ns = TWT_SECOND / 5;
		TWT_OK(tow_alloc(pair.runtime[0], 300000, 0, &memory));
		TWT_OK(tow_send_start(pair.peer[0], memory, 300000, TAG, &options, &send));
		TWT_OK(tow_op_cancel(send));
		status = tow_op_wait(send, 5 * TWT_SECOND); /* the other side's is not driven */
		assert_true(status == TOW_ECANCELED || status == TOW_EDEADLINE);
		TWT_OK(tow_op_release(send));
		TWT_OK(tow_free(pair.runtime[0], memory));
		twt_lane_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unmapped_at_once),
		cmocka_unit_test(test_unmapped_when_closed),
		cmocka_unit_test(test_receiver_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
