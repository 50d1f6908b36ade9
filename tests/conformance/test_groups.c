/*
 * test_groups.c - groups in every cell of the conformance suite (conform.h), of two ranks that are
 * threads: who is who, connections by number, messages, barriers, parts of the group, values, a
 * member that leaves.
 */
#include "cell_bad.h"
#include "conform.h"

#define LARGE    (1048576 + 3)
#define SHORT    50000000ull /* a deadline that passes */
#define BARRIERS 20

static const uint32_t sizes[] = { 0, 8, 1024, 4096, 65536, LARGE };

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static const char *name_of(int status)
{
	return tow_status_name(status);
}

static uint32_t other_of(const struct twt_end *end)
{
	return 1 - (uint32_t)end->which;
}

static void who_is_who(struct twt_end *end)
{
	struct tow_job_info info = TOW_JOB_INFO_INIT;
	char address[TOW_ADDRESS_MAX], scheme[16];
	struct tow_peer *peer;
	struct tow_op *op;

	snprintf(scheme, sizeof(scheme), "%.*s",
		 (int)(strstr(end->cell->lane->address[0], "://") - end->cell->lane->address[0]),
		 end->cell->lane->address[0]);
	twt_say(end, "rank %u of %u", tow_group_rank(end->group), tow_group_size(end->group));
	twt_ok(end, tow_group_address(end->group, other_of(end), address, sizeof(address)));
	twt_say(end, "the other's address is %s",
		strncmp(address, scheme, strlen(scheme)) == 0 ? "of the lane" : address);
	twt_say(end, "room for no address: %s",
		name_of(tow_group_address(end->group, other_of(end), address, 3)));
	twt_say(end, "address of nobody: %s",
		name_of(tow_group_address(end->group, 2, address, sizeof(address))));
	twt_say(end, "connect to itself: %s",
		name_of(tow_group_connect_start(end->group, (uint32_t)end->which, NULL, &op)));
	twt_say(end, "connect to nobody: %s",
		name_of(tow_group_connect_start(end->group, 2, NULL, &op)));
	twt_say(end, "peer of nobody: %s", name_of(tow_group_peer(end->group, 2, &peer)));
	twt_ok(end, tow_job_info(end->runtime, &info));
	twt_say(end, "rank %lld of %lld by the runtime", (long long)info.rank,
		(long long)info.world_size);
	twt_meet(end);
}

/* Both at once: each pair has one connection. */
static void connect_both(struct twt_end *end)
{
	struct tow_result result;
	struct twt_doing doing;
	struct tow_peer *peer;

	for (int i = 0; i < 2; i++) {
		twt_ok(end,
		       tow_group_connect_start(end->group, other_of(end),
					       twt_begin(end, &doing, TOW_FOREVER), &doing.op));
		twt_say(end, "connect: %s", name_of(twt_await(end, &doing, &result)));
		twt_ok(end, tow_group_peer(end->group, other_of(end), &peer));
		twt_say(end, "peer: %s", peer == result.peer ? "the result's" : "ANOTHER");
		twt_meet(end);
	}
}

/* By blocking calls, there and back. */
static void send_by_rank(struct twt_end *end)
{
	struct tow_group *group = end->group;
	uint64_t bytes;

	for (unsigned i = 0; i < SIZES; i++) {
		for (int turn = 0; turn < 2; turn++) {
			int status;

			bytes = sizes[i];
			if (end->which == turn) {
				twt_data_fill(end->out, bytes, 2 * i + (unsigned)turn);
				status = tow_send(group, other_of(end), end->out, bytes, i,
						  TWT_CELL_NS);
				twt_say(end, "%u bytes sent: %s", sizes[i], name_of(status));
				continue;
			}
			memset(end->in, 0, bytes);
			status = tow_recv(group, other_of(end), end->in, bytes, i, TWT_CELL_NS,
					  &bytes);
			twt_say(end, "%u bytes received: %s %llu %s", sizes[i], name_of(status),
				(unsigned long long)bytes,
				twt_data_judge(end->in, sizes[i], 2 * i + (unsigned)turn));
		}
	}
	twt_say(end, "nothing came: %s",
		name_of(tow_recv(group, other_of(end), end->in, 8, 99, SHORT, &bytes)));
	bytes = 0;
	twt_data_fill(end->out, 8, 40);
	twt_say(end, "to itself: %s",
		name_of(tow_send(group, (uint32_t)end->which, end->out, 8, 1, TWT_CELL_NS)));
	twt_say(end, "from itself: %s",
		name_of(tow_recv(group, (uint32_t)end->which, end->in, 8, 1, TWT_CELL_NS, &bytes)));
	twt_say(end, "%llu bytes, %s", (unsigned long long)bytes, twt_data_judge(end->in, 8, 40));
	twt_meet(end);
}

static void say_message(struct twt_end *end, struct tow_group *group, struct twt_doing *doing,
			uint32_t bytes, unsigned fill)
{
	struct tow_result result;
	int status = twt_await(end, doing, &result);

	twt_say(end, "%s: %s %llu, tag %llu of rank %u%s%s", fill == 0 ? "sent" : "received",
		name_of(status), (unsigned long long)result.bytes, (unsigned long long)result.tag,
		tow_group_peer_rank(group, result.peer), fill == 0 ? "" : ", ",
		fill == 0 ? "" : twt_data_judge(end->in, bytes, fill));
}

/* In a group's own tags: of a rank, of any, to oneself, beside the same tag of the peer itself. */
static void group_messages(struct twt_end *end)
{
	struct tow_group_match match = TOW_GROUP_MATCH_INIT;
	struct twt_doing send, recv, other;
	struct tow_part part = { end->in, LARGE };
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_group *group;
	struct tow_peer *peer;

	twt_ok(end, tow_group_split(end->group, 1, end->which, TWT_CELL_NS, &group));
	twt_ok(end, tow_group_peer(end->group, other_of(end), &peer));
	twt_ok(end,
	       tow_recv_start(peer, end->in, 8, 7, twt_begin(end, &other, TOW_FOREVER), &other.op));
	for (unsigned i = 0; i < 3 * SIZES; i++) {
		uint32_t bytes = sizes[i / 3],
			 to = i % 3 == 2 ? (uint32_t)end->which : other_of(end);

		match.rank = i % 3 == 1 ? TOW_RANK_ANY : to;
		match.tag = 7;
		match.tag_mask = i % 2 == 0 ? UINT64_MAX : 0xff;
		memset(end->in, 0, bytes);
		twt_data_fill(end->out, bytes, i + 1);
		twt_ok(end,
		       tow_group_recv_match_start(group, &match, &part, 1,
						  twt_begin(end, &recv, TOW_FOREVER), &recv.op));
		twt_ok(end, tow_group_send_start(group, to, end->out, bytes, 7,
						 twt_begin(end, &send, TOW_FOREVER), &send.op));
		say_message(end, group, &recv, bytes, i + 1);
		say_message(end, group, &send, bytes, 0);
		twt_meet(end);
	}
	twt_say(end, "probe: %s", name_of(tow_group_probe(group, &match, &result)));
	twt_ok(end, tow_send(end->group, other_of(end), end->out, 8, 7, TWT_CELL_NS));
	twt_meet(end);
	twt_ok(end, tow_op_cancel(other.op));
	twt_say(end, "the peer's own: %s", name_of(twt_await(end, &other, &result)));
	twt_ok(end, tow_recv(end->group, other_of(end), end->in, 8, 7, TWT_CELL_NS, NULL));
	twt_ok(end, tow_group_close(group));
	twt_meet(end);
}

static void barriers(struct twt_end *end)
{
	struct twt_doing doing[BARRIERS];
	struct tow_result result;
	unsigned right = 0;

	for (int i = 0; i < BARRIERS; i++)
		twt_ok(end,
		       tow_group_barrier_start(end->group, twt_begin(end, &doing[i], TOW_FOREVER),
					       &doing[i].op));
	for (int i = BARRIERS; i-- > 0;)
		right += twt_await(end, &doing[i], &result) == TOW_OK;
	twt_say(end, "%u of %d barriers", right, BARRIERS);
	twt_say(end, "barrier: %s", name_of(tow_group_barrier(end->group, TWT_CELL_NS)));
	twt_meet(end);
}

/* Backwards: the key turns the order round. */
static void split(struct twt_end *end)
{
	struct tow_group *group, *none;
	struct tow_peer *peer, *same;

	twt_ok(end, tow_group_split(end->group, 7, -end->which, TWT_CELL_NS, &group));
	twt_say(end, "part: rank %u of %u", tow_group_rank(group), tow_group_size(group));
	twt_ok(end, tow_group_peer(group, (uint32_t)end->which, &peer));
	twt_ok(end, tow_group_peer(end->group, other_of(end), &same));
	twt_say(end, "its connection: %s", peer == same ? "the same" : "ANOTHER");
	twt_say(end, "its barrier: %s", name_of(tow_group_barrier(group, TWT_CELL_NS)));
	twt_ok(end, tow_group_split(end->group, end->which == 0 ? 1 : TOW_GROUP_NONE, 0,
				    TWT_CELL_NS, &none));
	twt_say(end, "a part of one: %s, %u ranks", none != NULL ? "there" : "none",
		tow_group_size(none));
	twt_ok(end, tow_group_close(none));
	twt_ok(end, tow_group_close(group));
	twt_meet(end);
}

/* By members alone: both in another order, one of them, and lists that are none. */
static void create(struct twt_end *end)
{
	static const uint32_t turned[] = { 1, 0 }, twice[] = { 0, 0 };
	const uint32_t mine = (uint32_t)end->which, theirs = 1 - mine;
	struct tow_group *group, *inner, *none;
	struct tow_peer *peer, *same;

	twt_ok(end, tow_group_create(end->group, turned, 2, "turned", TWT_CELL_NS, &group));
	twt_say(end, "made: rank %u of %u", tow_group_rank(group), tow_group_size(group));
	twt_ok(end, tow_group_peer(group, mine, &peer));
	twt_ok(end, tow_group_peer(end->group, other_of(end), &same));
	twt_say(end, "its connection: %s", peer == same ? "the same" : "ANOTHER");
	twt_say(end, "its barrier: %s", name_of(tow_group_barrier(group, TWT_CELL_NS)));
	twt_ok(end, tow_group_create(group, turned, 2, NULL, TWT_CELL_NS, &inner));
	twt_say(end, "made of it: rank %u, barrier: %s", tow_group_rank(inner),
		name_of(tow_group_barrier(inner, TWT_CELL_NS)));
	twt_ok(end, tow_group_close(inner));
	twt_ok(end, tow_group_close(group));
	twt_ok(end, tow_group_create(end->group, &mine, 1, NULL, TWT_CELL_NS, &group));
	twt_say(end, "alone: rank %u of %u", tow_group_rank(group), tow_group_size(group));
	twt_ok(end, tow_group_close(group));
	twt_say(end, "without itself: %s",
		name_of(tow_group_create(end->group, &theirs, 1, NULL, TWT_CELL_NS, &none)));
	twt_say(end, "one twice: %s",
		name_of(tow_group_create(end->group, twice, 2, NULL, TWT_CELL_NS, &none)));
	if (end->which == 0)
		twt_say(end, "the other does not come: %s",
			name_of(tow_group_create(end->group, turned, 2, NULL, SHORT, &none)));
	twt_meet(end);
}

static void say_end(struct twt_end *end, const char *what, struct twt_doing *doing)
{
	struct tow_result result;
	int status = twt_await_kept(end, doing, &result);
	const char *why = result.message == NULL ? "" : result.message;

	twt_say(end, "%s: %s, %s", what, name_of(status),
		strcmp(why, "rank 0 has aborted the group: enough") == 0 ? "with the reason"
									 : "WITHOUT THE REASON");
	twt_ok(end, tow_op_release(doing->op));
}

static struct tow_coll_options coll_options(struct twt_end *end, struct twt_doing *doing)
{
	const struct tow_op_options *like = twt_begin(end, doing, TOW_FOREVER);
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;

	options.timeout_ns = like->timeout_ns;
	options.done = like->done;
	options.queue = like->queue;
	options.user = like->user;
	return options;
}

/* Rank 0 aborts groups in which one of the two has begun something; they are shrunk then. */
static void abort_group(struct twt_end *end)
{
	struct twt_doing barriers[2], reduces[2];
	struct tow_coll_options options;
	struct tow_group *group, *made;

	for (int by = 0; by < 2; by++) {
		twt_ok(end, tow_group_split(end->group, 0, 0, TWT_CELL_NS, &group));
		twt_ok(end, tow_group_barrier(group, TWT_CELL_NS));
		for (int i = 0; i < 2 && end->which == by; i++) {
			twt_ok(end, tow_group_barrier_start(
					    group, twt_begin(end, &barriers[i], TOW_FOREVER),
					    &barriers[i].op));
			options = coll_options(end, &reduces[i]);
			twt_ok(end, tow_coll_barrier_start(group, &options, &reduces[i].op));
		}
		twt_meet(end);
		if (end->which == 0)
			twt_say(end, "abort: %s", name_of(tow_group_abort(group, "enough")));
		for (int i = 0; i < 2 && end->which == by; i++) {
			say_end(end, "barrier", &barriers[i]);
			say_end(end, "collective", &reduces[i]);
		}
		twt_meet(end);
		/* Nobody else may drive. */
		while (tow_group_set(group, "polled", "", 0, TWT_CELL_NS) == TOW_OK &&
		       tow_progress(end->runtime) >= TOW_OK)
			;
		twt_say(end, "barrier: %s", name_of(tow_group_barrier(group, TWT_CELL_NS)));
		twt_say(end, "split: %s",
			name_of(tow_group_split(group, 0, 0, TWT_CELL_NS, &made)));
		twt_say(end, "shrink: %s", name_of(tow_group_shrink(group, TWT_CELL_NS, &made)));
		twt_ok(end, tow_group_close(group));
		twt_say(end, "barrier of the rest: %s",
			name_of(tow_group_barrier(made, TWT_CELL_NS)));
		twt_ok(end, tow_group_close(made));
		twt_meet(end);
	}
	twt_say(end, "barrier of all: %s", name_of(tow_group_barrier(end->group, TWT_CELL_NS)));
}

/* A barrier to which the other does not come. */
static void vain_barriers(struct twt_end *end)
{
	struct tow_result result;
	struct twt_doing doing;
	struct tow_group *part;

	twt_ok(end, tow_group_split(end->group, 0, 0, TWT_CELL_NS, &part));
	twt_meet(end);
	if (end->which == 0) {
		twt_ok(end,
		       tow_group_barrier_start(part, twt_begin(end, &doing, SHORT), &doing.op));
		twt_say(end, "past its deadline: %s", name_of(twt_await(end, &doing, &result)));
		twt_ok(end, tow_group_barrier_start(part, twt_begin(end, &doing, TOW_FOREVER),
						    &doing.op));
		twt_ok(end, tow_op_cancel(doing.op));
		twt_say(end, "canceled: %s", name_of(twt_await(end, &doing, &result)));
	}
	twt_meet(end);
	twt_ok(end, tow_group_close(part));
	twt_meet(end);
}

static void values(struct twt_end *end)
{
	char text[64] = "", key[32];
	size_t bytes = 0;
	int status;

	snprintf(key, sizeof(key), "of %d", end->which);
	twt_say(end, "set: %s",
		name_of(tow_group_set(end->group, key, key, strlen(key) + 1, TWT_CELL_NS)));
	snprintf(key, sizeof(key), "of %d", 1 - end->which);
	status = tow_group_get(end->group, key, text, sizeof(text), &bytes, TWT_CELL_NS);
	twt_say(end, "get: %s \"%s\" %zu", name_of(status), text, bytes);
	status = tow_group_get(end->group, key, text, 2, &bytes, TWT_CELL_NS);
	twt_say(end, "get with little room: %s %zu", name_of(status), bytes);
	twt_say(end, "nobody's: %s",
		name_of(tow_group_get(end->group, "nobody's", text, sizeof(text), &bytes, SHORT)));
	twt_say(end, "set without a key: %s",
		name_of(tow_group_set(end->group, "", "v", 1, TWT_CELL_NS)));
	twt_meet(end);
}

/* Rank 1 leaves while rank 0 waits for a message and at a barrier. */
static void leave(struct twt_end *end)
{
	struct twt_doing message, barrier;
	struct tow_result result;
	struct tow_peer *peer;

	twt_ok(end, tow_group_peer(end->group, other_of(end), &peer));
	if (end->which == 0) {
		twt_ok(end, tow_recv_start(peer, end->in, 64, 20,
					   twt_begin(end, &message, TOW_FOREVER), &message.op));
		twt_ok(end,
		       tow_group_barrier_start(end->group, twt_begin(end, &barrier, TOW_FOREVER),
					       &barrier.op));
	}
	twt_meet(end);
	if (end->which == 1) {
		twt_say(end, "close: %s", name_of(tow_group_close(end->group)));
		end->group = NULL;
		return;
	}
	twt_say(end, "receive from who has gone: %s", name_of(twt_await(end, &message, &result)));
	twt_say(end, "barrier: %s", name_of(twt_await(end, &barrier, &result)));
	twt_say(end, "send: %s", name_of(tow_send(end->group, 1, end->out, 8, 21, TWT_CELL_NS)));
}

/* Blocking calls of two threads, and who dials: which of them comes first is a matter of timing. */
static void play(struct twt_end *end)
{
	end->timed = "unexpected_messages,peers_connected";
	who_is_who(end);
	connect_both(end);
	send_by_rank(end);
	barriers(end);
	split(end);
	group_messages(end);
	create(end);
	vain_barriers(end);
	values(end);
	abort_group(end);
	leave(end);
}

/* A message whose memory cannot be read or written, and one behind it. */
static void bad_message(struct twt_end *end, enum twt_bad bad, bool receives)
{
	uint8_t *good = end->which == 0 ? end->out : end->in, *at = good;
	uint64_t bytes = TWT_BAD_BYTES - 1;
	int status;

	if (end->which == receives)
		at = twt_bad_take(end, bad, receives);
	if (end->which == 0)
		status = tow_send(end->group, 1, at, bytes, 3, TWT_CELL_NS);
	else
		status = tow_recv(end->group, 0, at, bytes, 3, TWT_CELL_NS, &bytes);
	twt_say(end, "%s at who %s: %s", twt_bad_names[bad], receives ? "receives" : "sends",
		name_of(status));
	if (end->which == 0)
		status = tow_send(end->group, 1, good, 100, 3, TWT_CELL_NS);
	else
		status = tow_recv(end->group, 0, good, 100, 3, TWT_CELL_NS, &bytes);
	twt_say(end, "after it: %s", name_of(status));
	if (at != good)
		twt_bad_give(at, bad);
}

static void play_bad(struct twt_end *end)
{
	end->timed = "unexpected_messages";
	twt_group_connect(end);
	twt_bad_each(end, bad_message);
	barriers(end);
}

int main(void)
{
	return twt_conform(TWT_GROUPS, play, play_bad);
}
