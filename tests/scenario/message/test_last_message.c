/*
 * test_last_message.c - ranks in a ring, each of which sends to the next one, a message or a call's
 * request or response. A rank that has nothing more to do closes its peers at once, and at the end
 * its runtime, too. The operations of the others end well all the same, over every lane that joins
 * processes: what a side has acknowledged is not taken back by its good-bye. There are more ranks
 * than cores, so that a side often finds all of that at once. TOW_TEST_SEED replays what is sent.
 */
#include <stdatomic.h>
#include <sys/mman.h>

#include <towline/match.h>
#include <towline/rpc.h>

#include "bytes.h"
#include "coll_team.h"
#include "diag/base/clock.h"
#include "job_lanes.h"
#include "pair.h"
#include "twt.h"
#include "twt_random.h"

#define RANKS  3u
#define ROUNDS 100u /* in a job */
#ifdef TWT_SANITIZED
#define JOBS 1u
#else
#define JOBS 2u
#endif
#define MOST (1u << 20)

enum kind { PLAIN, PARTS, VIEW, REQUEST, RESPONSE, KINDS };
enum memory { OF_MALLOC, OF_POOL, READ_ONLY, MEMORIES }; /* that is sent */

static unsigned lane;
static uint64_t seed;
static _Atomic(struct tow_call_in *) asked, taken; /* calls of methods that are to be answered */

/* What a rank sends in a round. */
struct message {
	uint64_t round, bytes;
	uint32_t sender;
	enum kind kind;
	enum memory memory;
};

struct player {
	struct twt_rank *rank;
	struct tow_endpoint *endpoint;
	char addresses[RANKS][TOW_ADDRESS_MAX];
	uint8_t *sends[MEMORIES], *receives[MEMORIES];
};

static struct message draw_message(uint64_t *rng, uint64_t round, uint32_t sender)
{
	static const uint64_t sizes[] = { 0, 8, 4000, 20000, 70001, 300000, 300000, MOST };

	return (struct message){ .round = round,
				 .bytes = sizes[twt_random_below(rng, 8)],
				 .sender = sender,
				 .kind = (enum kind)twt_random_below(rng, KINDS),
				 .memory = (enum memory)twt_random_below(rng, MEMORIES) };
}

/* What is read-only has the same bytes in every round. */
static uint64_t seed_of(const struct message *message)
{
	return 1 + message->sender + (message->memory != READ_ONLY ? RANKS + message->round : 0);
}

static void end_well(const struct message *message, const char *what, struct tow_op *op)
{
	int status = op != NULL ? twt_wait_for(op, NULL) : TOW_OK;

	if (status < 0)
		fprintf(stderr, "round %llu, %s of kind %u and %llu bytes, sent by rank %u: %s\n",
			(unsigned long long)message->round, what, (unsigned)message->kind,
			(unsigned long long)message->bytes, message->sender, tow_error_message());
	TWT_TRUE(status >= 0);
}

static void note_call(struct tow_call_in *call, void *user)
{
	_Atomic(struct tow_call_in *) *noted = user;

	atomic_store(noted, call);
}

static struct tow_call_in *await_call(const struct player *player,
				      _Atomic(struct tow_call_in *) *noted)
{
	uint64_t until = twi_now_ns() + TWT_FINISH_NS;
	struct tow_call_in *call;

	while ((call = atomic_exchange(noted, NULL)) == NULL) {
		TWT_TRUE(tow_progress(player->rank->runtime) >= 0);
		TWT_TRUE(twi_now_ns() < until);
	}
	return call;
}

static void split(uint8_t *data, const struct message *message, struct tow_part parts[2])
{
	parts[0] = (struct tow_part){ data, message->bytes / 3 };
	parts[1] =
		(struct tow_part){ data + message->bytes / 3, message->bytes - message->bytes / 3 };
}

/* Starts to receive `in`. Returns NULL for a request, which comes to a method. */
static struct tow_op *start_receive(const struct player *player, struct tow_peer *before,
				    const struct message *in)
{
	uint8_t *to = player->receives[in->memory];
	struct tow_match match = TOW_MATCH_INIT;
	struct tow_part parts[2];
	struct tow_op *op = NULL;

	match.peer = before;
	match.tag = 1;
	split(to, in, parts);
	if (in->kind == PLAIN)
		TWT_OK(tow_recv_start(before, to, in->bytes, 1, NULL, &op));
	if (in->kind == PARTS)
		TWT_OK(tow_recv_match_start(player->endpoint, &match, parts, 2, NULL, &op));
	if (in->kind == VIEW)
		TWT_OK(tow_recv_view_start(before, 1, NULL, &op));
	if (in->kind == RESPONSE)
		TWT_OK(tow_call_start(before, "ask", NULL, 0, to, in->bytes, NULL, &op));
	return op;
}

static struct tow_op *start_send(const struct player *player, struct tow_peer *next,
				 const struct message *out)
{
	uint8_t *from = player->sends[out->memory];
	struct tow_part parts[2];
	struct tow_op *op = NULL;

	if (out->memory != READ_ONLY)
		twt_fill(from, out->bytes, seed_of(out));
	split(from, out, parts);
	if (out->kind == PLAIN || out->kind == VIEW)
		TWT_OK(tow_send_start(next, from, out->bytes, 1, NULL, &op));
	if (out->kind == PARTS)
		TWT_OK(tow_send_parts_start(next, parts, 2, 1, NULL, &op));
	if (out->kind == REQUEST)
		TWT_OK(tow_call_start(next, "take", from, out->bytes, NULL, 0, NULL, &op));
	if (out->kind == RESPONSE)
		TWT_OK(tow_reply_start(await_call(player, &asked), 0, from, out->bytes, NULL, &op));
	return op;
}

/* Waits until `in` has come, answers it if it is a request, and checks its bytes. */
static void end_receive(const struct player *player, const struct message *in,
			struct tow_op *received)
{
	const void *data = player->receives[in->memory];
	struct tow_result result = TOW_RESULT_INIT;
	uint64_t bytes = in->bytes;

	end_well(in, "a receive", received);
	if (in->kind == REQUEST) {
		struct tow_call_in *call = await_call(player, &taken);

		data = tow_call_request(call, &bytes);
		TWT_TRUE(bytes == in->bytes && twt_same(data, bytes, seed_of(in)));
		TWT_OK(tow_reply_start(call, 0, NULL, 0, NULL, &received));
		end_well(in, "a reply", received);
	} else {
		TWT_OK(tow_op_result(received, &result));
		data = in->kind == VIEW ? result.data : data;
		TWT_TRUE(result.bytes == bytes && twt_same(data, bytes, seed_of(in)));
	}
	if (in->kind == VIEW)
		TWT_OK(tow_view_release(received));
	else
		tow_op_release(received);
}

/* A rank whose receive and send have ended closes at once. */
static void exchange(const struct player *player, struct tow_peer *before, struct tow_peer *next,
		     const struct message *in, const struct message *out)
{
	struct tow_op *received = start_receive(player, before, in), *ready, *told, *sent;

	TWT_OK(tow_recv_start(next, NULL, 0, 2, NULL, &told));
	TWT_OK(tow_send_start(before, NULL, 0, 2, NULL, &ready));
	end_well(out, "a word", told);
	tow_op_release(told);
	sent = start_send(player, next, out);
	end_well(in, "a word", ready);
	tow_op_release(ready);
	end_receive(player, in, received);
	end_well(out, "a send", sent);
	tow_op_release(sent);
	TWT_OK(tow_peer_close(before));
	TWT_OK(tow_peer_close(next));
}

static void play_round(const struct player *player, const struct message *in,
		       const struct message *out)
{
	const char *address = player->addresses[(player->rank->rank + 1) % RANKS];
	struct tow_op *accepted, *connected;
	struct tow_peer *before, *next;

	TWT_OK(tow_accept_start(player->endpoint, NULL, &accepted));
	TWT_OK(tow_connect_start(player->endpoint, address, NULL, &connected));
	before = twt_finish_peer(accepted);
	next = twt_finish_peer(connected);
	exchange(player, before, next, in, out);
}

static void open_endpoint(struct player *player)
{
	struct twt_rank *rank = player->rank;
	char own[TOW_ADDRESS_MAX];
	struct tow_op *op;

	TWT_OK(tow_method_register(rank->runtime, "ask", note_call, &asked, NULL));
	TWT_OK(tow_method_register(rank->runtime, "take", note_call, &taken, NULL));
	TWT_OK(tow_endpoint_open(rank->runtime, twt_lanes[lane].address[0], &player->endpoint));
	TWT_OK(tow_endpoint_address(player->endpoint, own, sizeof(own)));
	TWT_OK(tow_coll_all_gather_start(rank->group, own, player->addresses, sizeof(own), TOW_U8,
					 NULL, &op));
	TWT_TRUE(twt_coll_end(op) >= 0);
}

static void open_memory(struct player *player)
{
	const struct message any = { .sender = player->rank->rank, .memory = READ_ONLY };
	struct tow_runtime *runtime = player->rank->runtime;
	uint8_t *all[] = { malloc(2 * (size_t)MOST), NULL };
	void *read_only =
		mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *pooled;

	TWT_OK(tow_alloc(runtime, 2 * (size_t)MOST, 0, &pooled));
	TWT_TRUE(all[0] != NULL && read_only != MAP_FAILED);
	all[1] = pooled;
	for (enum memory memory = OF_MALLOC; memory <= OF_POOL; memory++) {
		player->sends[memory] = all[memory];
		player->receives[memory] = all[memory] + MOST;
	}
	twt_fill(read_only, MOST, seed_of(&any));
	TWT_TRUE(mprotect(read_only, MOST, PROT_READ) == 0);
	player->sends[READ_ONLY] = read_only;
	player->receives[READ_ONLY] = player->receives[OF_MALLOC];
}

static void close_memory(const struct player *player)
{
	free(player->sends[OF_MALLOC]);
	TWT_OK(tow_free(player->rank->runtime, player->sends[OF_POOL]));
	munmap(player->sends[READ_ONLY], MOST);
}

static void play(struct twt_rank *rank)
{
	struct player player = { .rank = rank };
	uint32_t before = (rank->rank + RANKS - 1) % RANKS;
	uint64_t rng = seed;

	open_memory(&player);
	open_endpoint(&player);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct message messages[RANKS];

		for (uint32_t k = 0; k < RANKS; k++)
			messages[k] = draw_message(&rng, i, k);
		play_round(&player, &messages[before], &messages[rank->rank]);
	}
	TWT_OK(tow_endpoint_close(player.endpoint));
	close_memory(&player);
}

static void set_options(struct tow_options *options)
{
	twt_job_lane_options(lane, options);
}

static void test_last_message(void **state)
{
	(void)state;
	seed = twt_seed();
	for (lane = 0; lane < TWT_LANES; lane++) {
		if (!twt_job_lane(lane))
			continue;
		print_message("%s\n", twt_lanes[lane].name);
		for (unsigned i = 0; i < JOBS; i++) {
			seed++;
			twt_ranks(&(struct twt_job){ .ranks = RANKS,
						     .lane = twt_lanes[lane].address[0],
						     .run = play,
						     .pool_bytes = 16 << 20,
						     .options = set_options });
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_last_message) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
