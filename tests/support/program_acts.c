/*
 * program_acts.c - what a program does: the kinds of its actions, and how each draws what it needs.
 * A new kind is a row of the table; a new kind of message is drawn in start_send.
 */
#include "program.h"

#define MS 1000000ull

uint64_t twt_program_random_bytes(struct twt_program *program)
{
	switch (twt_program_below(program, 10)) {
	case 0:
		return 0;
	case 1:
	case 2:
		return twt_program_below(program, 64);
	case 3:
	case 4:
		return program->eager_max - twi_min(program->eager_max, 2) +
		       twt_program_below(program, 5);
	case 5:
	case 6:
		return twt_program_below(program, 5000);
	default:
		if (program->with.huge && twt_program_chance(program, 100))
			return program->pool_bytes + twt_program_below(program, 100000);
		return twt_program_below(program, program->bytes_max);
	}
}

/* A connection that the rank has open. False: it has none. */
static bool random_link(struct twt_program *program, int *rank_out, int *peer_out)
{
	*rank_out = (int)twt_program_below(program, (uint64_t)program->ranks);
	*peer_out = (int)twt_program_below(program, (uint64_t)program->ranks);
	return twt_program_linked(program, *rank_out, *peer_out);
}

static uint64_t random_tag(struct twt_program *program)
{
	return twt_program_below(program, (uint64_t)program->tags);
}

/* One that is open, or of any peer, where a program has channels; often the peer itself. */
static unsigned random_channel(struct twt_program *program, int rank, int peer)
{
	unsigned channel = 0;

	if (program->with.channels && twt_program_chance(program, 600))
		channel = (unsigned)twt_program_below(program, TWT_PROGRAM_CHANNELS);
	return channel == 0 || peer < 0 || program->channels[rank][peer][channel] != NULL ? channel
											  : 0;
}

static void start_send(struct twt_program *program)
{
	struct twt_program_start what = { .send = true, .mask = UINT64_MAX };

	if (!random_link(program, &what.rank, &what.peer))
		return;
	what.channel = random_channel(program, what.rank, what.peer);
	what.tag = random_tag(program);
	what.bytes = twt_program_random_bytes(program);
	what.lends = program->with.views && twt_program_chance(program, 500);
	(void)twt_program_begin(program, &what);
}

static void choose_match(struct twt_program *program, struct twt_program_start *what)
{
	what->tag = random_tag(program);
	what->mask = UINT64_MAX;
	if (program->with.masks && twt_program_chance(program, 350))
		what->mask = twt_program_below(program, 4);
	if (program->with.any && twt_program_chance(program, 350))
		what->peer = TWT_PROGRAM_ANY;
}

/* Of receives that are to have room for most messages: for all, if they are not huge. */
static uint64_t long_room(const struct twt_program *program)
{
	return twi_max(program->bytes_max, program->eager_max + 400);
}

static void start_recv(struct twt_program *program)
{
	struct twt_program_start what = { .send = false };

	if (!random_link(program, &what.rank, &what.peer))
		return;
	choose_match(program, &what);
	what.channel = random_channel(program, what.rank, what.peer);
	what.view = program->with.views && twt_program_chance(program, 300);
	what.truncate = program->with.truncates && twt_program_chance(program, 400);
	what.bytes = program->with.short_rooms && twt_program_chance(program, 400)
			     ? twt_program_random_bytes(program)
			     : long_room(program);
	if (what.view)
		what.bytes = 0;
	(void)twt_program_begin(program, &what);
}

void twt_program_traffic(struct twt_program *program)
{
	if (twt_program_chance(program, 500))
		start_send(program);
	else
		start_recv(program);
}

/* Many sends to one rank, so that credit runs out, and grants. */
static void act_burst(struct twt_program *program)
{
	struct twt_program_start what = { .send = true, .mask = UINT64_MAX };
	int count = 10 + (int)twt_program_below(program, 70);

	if (!program->with.bursts || !random_link(program, &what.rank, &what.peer))
		return;
	what.channel = random_channel(program, what.rank, what.peer);
	for (int i = 0; i < count; i++) {
		what.tag = random_tag(program);
		what.bytes = twt_program_chance(program, 500)
				     ? program->eager_max
				     : program->eager_max + twt_program_below(program, 300);
		(void)twt_program_begin(program, &what);
	}
}

int twt_program_probe(struct twt_program *program, const struct twt_program_start *what,
		      struct tow_result *result)
{
	struct tow_match match = TOW_MATCH_INIT;
	const int rank = what->rank, peer = what->peer;
	const uint64_t tag = what->tag, mask = what->mask;
	int status;

	match.peer = peer >= 0 ? program->peers[rank][peer] : NULL;
	match.tag = tag;
	match.tag_mask = mask;
	match.channel = what->channel;
	status = tow_probe(program->endpoint[rank], &match, result);
	twt_program_note(program, "rank %d probes %d, channel %u, for %llu/%llx: %s, rpc %llx",
			 rank, peer, what->channel, (unsigned long long)tag,
			 (unsigned long long)mask, tow_status_name(status),
			 (unsigned long long)result->rpc_id);
	twt_program_check(program,
			  status == TOW_OK || status == TOW_AGAIN ||
				  (status == TOW_EPEER && peer >= 0 &&
				   twt_program_off(program, rank, peer, what->channel)),
			  "the probe says %s: %s", tow_status_name(status), tow_error_message());
	twt_program_check(program, status != TOW_OK || ((result->tag ^ tag) & mask) == 0,
			  "a probe has found tag %llu", (unsigned long long)result->tag);
	return status;
}

/* What a probe has found is what a receive with the same match gets. */
static void act_probe(struct twt_program *program)
{
	struct tow_result result = TOW_RESULT_INIT;
	struct twt_program_start what = { .plain = true };
	struct twt_program_op *op;
	int from = -1;

	if (!program->with.probes || !random_link(program, &what.rank, &what.peer))
		return;
	choose_match(program, &what);
	what.channel = random_channel(program, what.rank, what.peer);
	if (twt_program_probe(program, &what, &result) != TOW_OK ||
	    twt_program_chance(program, 300))
		return;
	for (int i = 0; i < program->ranks; i++) {
		if (program->peers[what.rank][i] == result.peer)
			from = i;
	}
	twt_program_check(program, from >= 0 && (what.peer < 0 || from == what.peer),
			  "a probe has found a message of rank %d", from);
	what.bytes = program->with.short_rooms ? result.bytes : long_room(program);
	op = twt_program_begin(program, &what);
	if (op == NULL)
		return;
	op->promised = true;
	op->promised_from = from;
	op->promised_rpc = result.rpc_id;
	twt_program_counts.promised++;
	twt_program_counts.shared_promised += what.channel > 0;
}

/* Some of those that are open; rather those that were started last, which are on their way. */
static void act_cancel(struct twt_program *program)
{
	int last = program->op_count,
	    first = last > 8 && twt_program_chance(program, 600) ? last - 8 : 0;

	for (int i = (int)twt_program_below(program, 3);
	     i >= 0 && program->with.cancels && last > 0; i--) {
		struct twt_program_op *op =
			&program->ops[first +
				      (int)twt_program_below(program, (uint64_t)(last - first))];

		if (op->op != NULL && op->end == TWT_PROGRAM_OPEN)
			twt_program_cancel(op);
	}
}

static void act_test(struct twt_program *program)
{
	struct twt_program_op *op = twt_program_random_open(program);

	if (op != NULL)
		(void)tow_op_test(op->op);
}

static void act_wait(struct twt_program *program)
{
	struct twt_program_op *op = program->with.waits ? twt_program_random_open(program) : NULL;

	if (op != NULL)
		(void)tow_op_wait(op->op, twt_program_below(program, MS));
}

static void act_pass(struct twt_program *program)
{
	program->stage->pass(program, 1 + twt_program_below(program, MS));
}

static void act_progress(struct twt_program *program)
{
	(void)tow_progress(program->runtime[twt_program_below(program, (uint64_t)program->ranks)]);
}

static void act_flush(struct twt_program *program)
{
	(void)tow_flush(program->runtime[twt_program_below(program, (uint64_t)program->ranks)]);
}

static void act_show(struct twt_program *program)
{
	for (int i = 0; i < program->op_count; i++) {
		struct twt_program_op *op = &program->ops[i];

		if (op->shown != NULL && op->op != NULL && twt_program_chance(program, 500))
			twt_program_release(op);
	}
}

void twt_program_lighten(struct twt_program *program)
{
	for (int i = 0; i < program->ranks * TWT_PROGRAM_BALLAST; i++) {
		int rank = i / TWT_PROGRAM_BALLAST;
		void **at = &program->ballast[rank][i % TWT_PROGRAM_BALLAST];

		if (*at != NULL)
			assert_int_equal(tow_free(program->runtime[rank], *at), TOW_OK);
		*at = NULL;
	}
}

/* The pool of a rank is full, or no pool is any more. */
static void act_ballast(struct twt_program *program)
{
	int rank = (int)twt_program_below(program, (uint64_t)program->ranks), count = 0;
	uint64_t least = 256ull << twt_program_below(program, 8);

	if (!program->with.ballast || !program->with.views)
		return;
	twt_program_lighten(program);
	if (twt_program_chance(program, 350))
		return;
	for (uint64_t bytes = program->pool_bytes; bytes >= least; bytes /= 2) {
		while (count < TWT_PROGRAM_BALLAST &&
		       tow_alloc(program->runtime[rank], bytes, 0,
				 &program->ballast[rank][count]) == TOW_OK)
			count++;
	}
}

static void act_close(struct twt_program *program)
{
	int rank, peer;

	if (program->with.closes && twt_program_chance(program, 150) &&
	    random_link(program, &rank, &peer))
		twt_program_close_peer(program, rank, peer);
}

/* One of a channel: receives of any peer wait on for the others. */
static void act_shut(struct twt_program *program)
{
	int rank, peer;
	unsigned channel;

	if (!program->with.shuts || !random_link(program, &rank, &peer))
		return;
	channel = random_channel(program, rank, peer);
	if (channel > 0)
		twt_program_close_channel(program, rank, peer, channel);
}

struct program_act {
	const char *name;
	unsigned weight;
	void (*run)(struct twt_program *program);
};

static const struct program_act acts[] = {
	{ "send", 28, start_send },       { "receive", 30, start_recv },
	{ "burst", 1, act_burst },        { "probe", 6, act_probe },
	{ "cancel", 7, act_cancel },      { "test", 4, act_test },
	{ "wait", 4, act_wait },          { "pass", 5, act_pass },
	{ "progress", 5, act_progress },  { "flush", 2, act_flush },
	{ "release views", 4, act_show }, { "close", 2, act_close },
	{ "rest", 2, twt_program_rest },  { "ballast", 4, act_ballast },
	{ "shut", 2, act_shut },
};

void twt_program_act(struct twt_program *program)
{
	uint64_t sum = 0, at;

	for (unsigned i = 0; i < twi_array_count(acts); i++)
		sum += acts[i].weight;
	at = twt_program_below(program, sum);
	for (unsigned i = 0; i < twi_array_count(acts); i++) {
		if (at < acts[i].weight) {
			twt_program_note(program, "-- %s", acts[i].name);
			acts[i].run(program);
			break;
		}
		at -= acts[i].weight;
	}
	twt_program_reap(program);
}
