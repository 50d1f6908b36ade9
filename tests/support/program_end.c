/*
 * program_end.c - the end of a program: whatever waits is received, the rest is taken back and
 * closed in some order, and nothing may be left.
 */
#include "program.h"

#include "transport/message/inbox.h"
#include "transport/op/op.h"
#include "transport/op/op_table.h"

#define BATCH 16

static bool is_open(const struct twt_program_op *op)
{
	return op->end == TWT_PROGRAM_OPEN;
}

/* Views are given back: what waits for room in a pool has it now. */
static void release_views(struct twt_program *program)
{
	for (int i = 0; i < program->op_count; i++) {
		if (program->ops[i].shown != NULL && program->ops[i].op != NULL)
			twt_program_release(&program->ops[i]);
	}
}

/* Has the rank a connection that has failed? What is under way there may wait until the end. */
static bool is_stuck(const struct twt_program *program, int rank)
{
	for (int i = 0; i < program->ranks; i++) {
		if (i != rank && twt_program_down(program, rank, i))
			return true;
	}
	return false;
}

/*
 * All is at rest: what was sent has come, and receives that were cancelled have ended. (Of a large
 * send the payload may have been on its way unasked, and have been refused since.)
 */
static void check_rest(struct twt_program *program)
{
	program->rests++;
	for (int i = 0; i < program->op_count; i++) {
		struct twt_program_op *op = &program->ops[i];

		op->came |= op->what.send && op->end == TWT_PROGRAM_ENDED && op->status >= 0 &&
			    op->what.bytes <= program->eager_max &&
			    !twt_program_down(program, op->what.rank, op->what.peer);
		twt_program_check(
			program, !is_open(op) || !op->cancelled || is_stuck(program, op->what.rank),
			"op %d was cancelled and goes on", i);
	}
}

void twt_program_rest(struct twt_program *program)
{
	uint64_t before;

	for (int i = 0; i < 400; i++) {
		before = program->log;
		release_views(program);
		twt_program_pass(program, program->stage->rest_ns);
		release_views(program);
		if (program->log != before)
			continue;
		if (program->stage->patience == 0)
			check_rest(program);
		return;
	}
	twt_program_fault(program, "it does not come to rest");
}

/* A receive of whatever comes, in one of its forms. */
static struct twt_program_op *receive_rest(struct twt_program *program, int rank, int peer)
{
	struct twt_program_start what = {
		.rank = rank, .peer = peer, .channel = program->swept, .plain = true
	};

	what.bytes = twi_max(program->bytes_max, program->eager_max + 400);
	if (program->with.huge)
		what.bytes = twi_max(what.bytes, program->pool_bytes + 100000);
	return twt_program_begin(program, &what);
}

/* Is there a message for the rank of which nobody knows that it has been received? */
static int count_left(struct twt_program *program, int rank)
{
	int left = 0;

	twt_program_meet(program);
	for (int i = 0; i < program->op_count; i++) {
		const struct twt_program_op *op = &program->ops[i];

		left += op->what.send && op->what.peer == rank && op->end == TWT_PROGRAM_ENDED &&
			op->status >= 0 && op->met == NULL && op->what.channel == program->swept &&
			!program->shut[rank][op->what.rank][op->what.channel] &&
			!twt_program_down(program, op->what.rank, rank);
	}
	return left;
}

/* Is there a message for the rank that has not come, on a connection that is whole? */
static bool is_owed(struct twt_program *program, int rank, int peer)
{
	twt_program_meet(program);
	for (int i = 0; i < program->op_count; i++) {
		const struct twt_program_op *op = &program->ops[i];

		if (op->what.send && op->what.peer == rank && op->met == NULL &&
		    op->what.channel == program->swept && op->end != TWT_PROGRAM_VOID &&
		    (op->end != TWT_PROGRAM_ENDED || op->status >= 0) &&
		    (peer < 0 || peer == op->what.rank) &&
		    !twt_program_off(program, op->what.rank, rank, op->what.channel))
			return true;
	}
	return false;
}

/* Those that have not ended; or -1: one has failed that had met nothing, so there is no more. */
static int count_open(struct twt_program_op *const *batch, int count)
{
	int open = 0;

	for (int i = 0; i < count; i++) {
		if (!is_open(batch[i]) && batch[i]->status < 0 && batch[i]->rpc == 0)
			return -1;
		open += is_open(batch[i]);
	}
	return open;
}

/* Receives of this peer, or of any, until they get no more. The first is told what it must get. */
static void sweep_link(struct twt_program *program, int rank, int peer,
		       const struct tow_result *found, int from)
{
	for (int size = 1;; size = twi_min(2 * size, BATCH)) {
		struct twt_program_op *batch[BATCH];
		int open = 0, count = 0;

		for (; count < size; count++) {
			batch[count] = receive_rest(program, rank, peer);
			program->unswept |= batch[count] == NULL;
			if (batch[count] == NULL)
				break;
			batch[count]->promised = from >= 0;
			batch[count]->promised_from = from;
			batch[count]->promised_rpc = found->rpc_id;
			from = -1;
		}
		for (int i = 0; i <= program->stage->patience; i++) {
			twt_program_rest(program);
			open = count_open(batch, count);
			if (open < count || !is_owed(program, rank, peer))
				break;
		}
		if (count == 0 || open < 0 || open == count ||
		    (open > 0 && !is_owed(program, rank, peer)))
			return;
	}
}

/*
 * Does a receive of this peer get what has come, and end when there is nothing more? Where the rank
 * does not know yet that the connection has failed, it waits for the bytes of large messages.
 */
static bool can_hear(const struct twt_program *program, int rank, int peer)
{
	return rank != peer && twt_program_linked(program, rank, peer) &&
	       (!twt_program_down(program, rank, peer) || program->peers[rank][peer]->ended != 0);
}

/*
 * At rest: receives of any tag and peer get all that waits on a channel, and a probe knows whether
 * there is.
 */
static void sweep_channel(struct twt_program *program, int rank)
{
	const struct twt_program_start any = { .rank = rank,
					       .peer = TWT_PROGRAM_ANY,
					       .channel = program->swept };
	struct tow_result found = TOW_RESULT_INIT;
	int status, from = -1, turn = 0;

	do {
		if (turn > 0)
			twt_program_pass(program, program->stage->rest_ns);
		status = twt_program_probe(program, &any, &found);
	} while (status != TOW_OK && turn++ < program->stage->patience &&
		 count_left(program, rank) > 0);
	twt_program_check(program, status == TOW_OK || count_left(program, rank) == 0,
			  "rank %d: a probe finds nothing at rest, and %d messages are left", rank,
			  count_left(program, rank));
	for (int i = 0; i < program->ranks && status == TOW_OK; i++) {
		if (program->peers[rank][i] == found.peer)
			from = i;
	}
	sweep_link(program, rank, TWT_PROGRAM_ANY, &found, from);
	/* Those of any peer may all hang on a connection that has failed. */
	for (int i = 0; i < program->ranks && is_stuck(program, rank); i++) {
		if (can_hear(program, rank, i) &&
		    (program->swept == 0 || program->channels[rank][i][program->swept] != NULL))
			sweep_link(program, rank, i, &found, -1);
	}
}

static void sweep_rank(struct twt_program *program, int rank)
{
	const unsigned channels = program->with.channels ? TWT_PROGRAM_CHANNELS : 1;

	for (program->swept = 0; program->swept < channels; program->swept++)
		sweep_channel(program, rank);
	program->swept = 0;
}

/* On a connection that is whole every send has ended. */
static void check_sends(struct twt_program *program)
{
	for (int i = 0; i < program->op_count; i++) {
		const struct twt_program_op *op = &program->ops[i];

		twt_program_check(program,
				  !op->what.send || !is_open(op) ||
					  twt_program_off(program, op->what.rank, op->what.peer,
							  op->what.channel),
				  "send %d hangs: rank %d has received all", i, op->what.peer);
	}
}

/* What waits for room beside memory of sends may wait for ever, and receives of any tag with it. */
static void cancel_views(struct twt_program *program)
{
	for (int i = 0; i < program->op_count; i++) {
		struct twt_program_op *op = &program->ops[i];

		if (op->what.view && is_open(op) && op->op != NULL)
			twt_program_cancel(op);
	}
	twt_program_rest(program);
}

void twt_program_sweep(struct twt_program *program)
{
	program->ending = true;
	twt_program_lighten(program);
	twt_program_rest(program);
	cancel_views(program);
	for (int i = 0; i < program->ranks; i++)
		sweep_rank(program, i);
	if (!program->unswept)
		check_sends(program);
}

/* --- nothing is left --- */

/* Receives in flight that nobody can take back, as their handle was given back. */
static uint32_t count_unheld(const struct twt_program *program, int rank)
{
	uint32_t count = 0;

	for (int i = 0; i < program->op_count; i++) {
		const struct twt_program_op *op = &program->ops[i];

		count += is_open(op) && !op->what.send && op->what.rank == rank && op->op == NULL;
	}
	return count;
}

static void check_inboxes(struct twt_program *program)
{
	for (int i = 0; i < program->ranks * program->ranks; i++) {
		int rank = i / program->ranks, peer = i % program->ranks;
		const struct twi_inbox *inbox;
		uint32_t waiting, posted;

		if (rank == peer || twt_program_down(program, rank, peer) || program->unswept)
			continue;
		inbox = program->peers[rank][peer]->inbox;
		waiting = twi_match_count_unexpected(&inbox->match, TWI_SPACE_USER);
		posted = twi_match_count_posted(&inbox->match, TWI_SPACE_USER);
		twt_program_check(
			program,
			inbox->kept_bytes == 0 && waiting == 0 &&
				posted <= count_unheld(program, rank),
			"rank %d keeps %llu bytes in %u messages of rank %d, and %u receives", rank,
			(unsigned long long)inbox->kept_bytes, waiting, peer, posted);
		twt_program_check(program, inbox->credit.charged == inbox->credit.given,
				  "rank %d owes rank %d credit", rank, peer);
	}
}

static void take_back(struct twt_program *program)
{
	for (int i = 0; i < program->op_count; i++) {
		struct twt_program_op *op = &program->ops[i];

		if (is_open(op) && op->op != NULL)
			twt_program_cancel(op);
	}
	twt_program_rest(program);
	for (int i = 0; i < program->op_count; i++) {
		const struct twt_program_op *op = &program->ops[i];

		twt_program_check(
			program, !is_open(op) || op->op == NULL || is_stuck(program, op->what.rank),
			"op %d was cancelled and goes on", i);
	}
}

static void check_leases(struct twt_program *program)
{
	for (int i = 0; i < program->ranks; i++) {
		struct twi_pool_stats stats;

		twi_pool_stats(twi_runtime_engine(program->runtime[i])->pool, &stats);
		twt_program_check(program, stats.leased == 0, "rank %d: %llu bytes are lent", i,
				  (unsigned long long)stats.leased);
	}
}

static void check_rows(struct twt_program *program)
{
	for (int i = 0; i < program->ranks; i++) {
		const struct twi_op_table *table = twi_runtime_engine(program->runtime[i])->ops;

		for (uint32_t j = 0; j < table->made; j++)
			twt_program_check(program, table->rows[j].wait.state == 0,
					  "rank %d: row %u is in use", i, j);
	}
}

static void close_all(struct twt_program *program)
{
	bool endpoints_first = twt_program_chance(program, 500);

	program->closing = true;
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < program->ranks; i++) {
			if ((turn == 0) == endpoints_first)
				assert_int_equal(tow_endpoint_close(program->endpoint[i]), TOW_OK);
			for (int j = 0; j < program->ranks && (turn == 1) == endpoints_first; j++)
				twt_program_close_peer(program, i, j);
		}
		twt_program_reap(program);
	}
	for (int i = 0; i < 8; i++) {
		twt_program_pass(program, program->stage->rest_ns);
		release_views(program);
	}
}

/* Of operations of which nobody has heard. */
static void free_rest(struct twt_program *program)
{
	for (int i = 0; i < program->op_count; i++) {
		struct twt_program_op *op = &program->ops[i];

		if (op->data == NULL || op->freed)
			continue;
		if (op->pool)
			assert_int_equal(tow_free(program->runtime[op->what.rank], op->data),
					 TOW_OK);
		else
			free(op->data);
		op->data = NULL;
	}
}

void twt_program_take_down(struct twt_program *program)
{
	if (twt_program_chance(program, 700)) {
		take_back(program);
		check_inboxes(program);
	}
	for (int i = 0; i < program->ranks * program->ranks; i++) {
		int a = i / program->ranks, b = i % program->ranks;

		program->failed[a][b] = a == b || twt_program_down(program, a, b);
		program->hears[a][b] = can_hear(program, a, b);
	}
	close_all(program);
	for (int i = 0; i < program->op_count; i++)
		twt_program_check(program, !is_open(&program->ops[i]) && program->ops[i].op == NULL,
				  "op %d did not end with its peer", i);
	if (program->stage->let_go != NULL)
		program->stage->let_go(program);
	check_rows(program);
	check_leases(program);
	free_rest(program);
	program->stage->close(program);
}
