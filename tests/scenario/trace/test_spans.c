/*
 * test_spans.c - two ranks exchange messages and collectives while each records a trace: both sides
 * tell the same of every message, collective and step, in the same order, and the clocks agree.
 * Without a recording, small messages are passed over, the same ones on both sides, and counted.
 */
#include "coll_team.h"

#include <sys/mman.h>
#include <time.h>

#include <towline/step.h>
#include <towline/trace.h>

#include "diag/record/diag.h"
#include "diag/record/tag.h"
#include "diag/trace/export/export.h"
#include "diag/trace/trace.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/op_span.h"

#define SPANS  4096u
#define ROUNDS 40u
#define COLLS  5u
#define SMALL  2560u /* messages each way that are sampled */
#define LARGE  300000u

/* What one rank has to say of one recording; ranks and parent share it. */
struct record {
	size_t count;
	struct twi_span spans[SPANS];
	uint32_t peer; /* the number that it has for the other rank */
	int64_t offset_ns;
	uint64_t error_ns, lost, sampled_out;
};

struct board {
	struct record whole[2], sampled[2];
	uint32_t measured, sampled_tag; /* tags, set before the ranks part */
};

static struct board *board;
static const uint64_t sizes[] = { 8, 3000, LARGE };

static struct twi_diag *diag_of(struct twt_rank *rank)
{
	return twi_runtime_engine(rank->runtime)->diag;
}

static int compare_spans(const void *a, const void *b)
{
	const struct twi_span *one = a, *other = b;

	if (one->start_ns != other->start_ns)
		return one->start_ns < other->start_ns ? -1 : 1;
	return one->id < other->id ? -1 : one->id > other->id;
}

static void take(const struct twi_trace *trace, uint32_t other, struct record *out)
{
	const struct twi_trace_rank *rank = &trace->ranks[0];

	TWT_TRUE(trace->rank_count == 1 && rank->rank == 1 - (int64_t)other && rank->world == 2);
	out->offset_ns = rank->clock_offset_ns;
	out->error_ns = rank->clock_error_ns;
	out->sampled_out = rank->sampled_out;
	for (size_t i = 0; i < rank->peer_count; i++) {
		if (rank->peers[i].rank == (int64_t)other)
			out->peer = (uint32_t)i + 1;
	}
	for (size_t t = 0; t < rank->thread_count; t++) {
		out->lost += rank->threads[t].lost;
		for (size_t i = 0; i < rank->threads[t].span_count; i++) {
			TWT_TRUE(out->count < SPANS);
			out->spans[out->count++] = rank->threads[t].spans[i];
		}
	}
	/* Each thread's stand together, and what the library's own has ended is its. */
	qsort(out->spans, out->count, sizeof(out->spans[0]), compare_spans);
}

static struct tow_peer *connect_other(struct twt_rank *rank)
{
	struct tow_peer *peer;
	struct tow_op *op;

	TWT_OK(tow_group_connect_start(rank->group, 1 - rank->rank, NULL, &op));
	TWT_OK(twt_coll_end(op));
	TWT_OK(tow_group_peer(rank->group, 1 - rank->rank, &peer));
	return peer;
}

/* `rounds` messages each way at once. */
static void exchange(struct tow_peer *peer, uint8_t *out, uint8_t *in, uint64_t bytes,
		     unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		struct tow_op *send, *recv;

		TWT_OK(tow_recv_start(peer, in, bytes, bytes, NULL, &recv));
		TWT_OK(tow_send_start(peer, out, bytes, bytes, NULL, &send));
		TWT_OK(twt_coll_end(recv));
		TWT_OK(twt_coll_end(send));
	}
}

/* Clocks are compared when a connection comes up, and now and then after it. */
static void await_clock(struct twt_rank *rank)
{
	for (int turn = 0; turn < 2000; turn++) {
		struct twi_trace trace;
		bool known;

		TWT_OK(twi_trace_read(diag_of(rank), UINT64_MAX, &trace));
		known = trace.ranks[0].clock_error_ns != UINT64_MAX;
		twi_trace_fini(&trace);
		if (known)
			return;
		tow_progress(rank->runtime);
		usleep(5000);
	}
	fprintf(stderr, "rank %u: the clock of rank 0 is not found out\n", rank->rank);
	abort();
}

static void sample(struct twt_rank *rank, struct tow_peer *peer, uint8_t *out, uint8_t *in)
{
	uint64_t before = twi_counter_sum(diag_of(rank), TWI_C_spans_sampled_out);
	uint64_t begin_ns = twi_now_ns();
	struct twi_trace trace;

	TWT_OK(tow_tag_set("sampled"));
	exchange(peer, out, in, 8, SMALL);
	TWT_OK(tow_tag_set(NULL));
	TWT_OK(twi_trace_read(diag_of(rank), begin_ns, &trace));
	trace.ranks[0].sampled_out -= before;
	take(&trace, 1 - rank->rank, &board->sampled[rank->rank]);
	twi_trace_fini(&trace);
}

static void run(struct twt_rank *rank)
{
	struct tow_peer *peer = connect_other(rank);
	struct tow_trace *trace;
	uint8_t *memory;
	struct tow_op *op;

	TWT_OK(tow_alloc(rank->runtime, 2 * LARGE, 0, (void **)&memory));
	memset(memory, 1, 2 * LARGE);
	await_clock(rank);
	TWT_OK(tow_group_barrier(rank->group, TOW_FOREVER));
	sample(rank, peer, memory, memory + LARGE);
	TWT_OK(tow_trace_begin(rank->runtime));
	TWT_OK(tow_group_barrier(rank->group, TOW_FOREVER));
	TWT_OK(tow_step_begin(rank->runtime, 7));
	TWT_OK(tow_span_begin(rank->runtime, "measured"));
	TWT_OK(tow_tag_set("measured"));
	for (unsigned i = 0; i < 3; i++)
		exchange(peer, memory, memory + LARGE, sizes[i], ROUNDS);
	for (unsigned i = 0; i < COLLS; i++) {
		TWT_OK(tow_coll_all_reduce_start(rank->group, memory, memory, LARGE / 4, TOW_S32,
						 TOW_SUM, NULL, &op));
		TWT_OK(twt_coll_end(op));
	}
	TWT_OK(tow_tag_set(NULL));
	TWT_OK(tow_span_end(rank->runtime));
	TWT_OK(tow_step_end(rank->runtime, 7));
	TWT_OK(tow_group_barrier(rank->group, TOW_FOREVER));
	TWT_OK(tow_trace_end(rank->runtime, &trace));
	take(&trace->trace, 1 - rank->rank, &board->whole[rank->rank]);
	tow_trace_release(trace);
}

static const struct twi_span *find(const struct record *record, enum twi_span_kind kind,
				   uint64_t id, uint32_t name)
{
	const struct twi_span *found = NULL;

	for (size_t i = 0; i < record->count; i++) {
		const struct twi_span *span = &record->spans[i];

		if (span->kind != kind || span->id != id || span->name != name)
			continue;
		assert_null(found);
		found = span;
	}
	return found;
}

static unsigned count(const struct record *record, enum twi_span_kind kind, uint32_t name)
{
	unsigned n = 0;

	for (size_t i = 0; i < record->count; i++)
		n += record->spans[i].kind == kind && record->spans[i].name == name;
	return n;
}

/* What two processes of one host read at a moment differs by about half of that (clock.h). */
#define SHARED_NS 2000

/* Each send of one side is a receive of the other, which did not end before it was begun. */
static void check_messages(const struct record *from, const struct record *to, uint32_t name,
			   unsigned wanted, enum twi_lane_id lane)
{
	uint64_t last_id = 0, last_start = 0;
	unsigned found = 0;

	for (size_t i = 0; i < from->count; i++) {
		const struct twi_span *send = &from->spans[i], *recv;

		if (send->kind != TWI_SPAN_SEND || send->name != name || send->parent != 0)
			continue;
		recv = find(to, TWI_SPAN_RECV, send->id, name);
		if (recv == NULL)
			fail_msg("message %llu has no receive", (unsigned long long)send->id);
		assert_int_equal(send->bytes, recv->bytes);
		assert_int_equal(send->lane, lane);
		assert_int_equal(recv->lane, lane);
		assert_int_equal(send->status, TOW_OK);
		assert_int_equal(recv->status, TOW_OK);
		assert_int_equal(send->peer, from->peer);
		assert_int_equal(recv->peer, to->peer);
		assert_true(send->end_ns >= send->start_ns && recv->end_ns >= recv->start_ns);
		assert_true(send->queue_ns + (uint64_t)send->wire_ns <=
			    send->end_ns - send->start_ns);
		assert_true((int64_t)recv->end_ns + to->offset_ns + (int64_t)to->error_ns +
				    SHARED_NS >=
			    (int64_t)send->start_ns + from->offset_ns - (int64_t)from->error_ns);
		assert_true(found == 0 || (send->id > last_id && send->start_ns >= last_start));
		last_id = send->id;
		last_start = send->start_ns;
		found++;
	}
	assert_int_equal(found, wanted);
}

/* The collectives of both, and of their steps on one side those that the other knows. */
static void check_colls(const struct record *a, const struct record *b, bool by_messages)
{
	unsigned found = 0, steps = 0;

	for (size_t i = 0; i < a->count; i++) {
		const struct twi_span *span = &a->spans[i], *other;

		if (span->kind != TWI_SPAN_COLL || span->name != board->measured)
			continue;
		other = find(b, TWI_SPAN_COLL, span->id, board->measured);
		assert_non_null(other);
		assert_int_equal(span->ranks, 2);
		assert_int_equal(span->parent, 7);
		assert_int_equal(span->detail, other->detail);
		assert_int_equal(span->bytes, LARGE / 4 * 4);
		assert_int_equal(other->bytes, span->bytes);
		assert_int_equal(span->status, TOW_OK);
		for (size_t m = 0; m < a->count; m++)
			steps +=
				a->spans[m].kind == TWI_SPAN_SEND && a->spans[m].parent == span->id;
		found++;
	}
	assert_int_equal(found, COLLS);
	assert_true(by_messages ? steps >= COLLS : steps == 0);
}

/* What is waited for has a span of its own, and steps and spans stand where they should. */
static void check_own(const struct record *record)
{
	const struct twi_span *step = find(record, TWI_SPAN_STEP, 7, 0), *user = NULL;

	assert_non_null(step);
	for (size_t i = 0; i < record->count; i++) {
		const struct twi_span *span = &record->spans[i];

		if (span->kind == TWI_SPAN_USER)
			user = span;
		if (span->kind != TWI_SPAN_WAIT || span->name != board->measured)
			continue;
		assert_in_range(span->detail, TWI_SPAN_SEND, TWI_SPAN_COLL);
		assert_non_null(find(record, span->detail, span->id, board->measured));
	}
	assert_non_null(user);
	assert_int_equal(user->parent, 7);
	assert_int_equal(user->name, board->measured);
	assert_true(step->start_ns <= user->start_ns && user->end_ns <= step->end_ns);
	assert_int_equal(record->lost, 0);
	assert_int_equal(record->sampled_out, 0);
	assert_true(record->error_ns != UINT64_MAX);
	assert_int_not_equal(record->peer, 0);
}

/*
 * Both sides choose by the number on the wire: a message of the connection's own (a comparison of
 * clocks) may take a chosen one away.
 */
static void check_sampled(const struct record *record)
{
	unsigned sends = count(record, TWI_SPAN_SEND, board->sampled_tag);
	unsigned recvs = count(record, TWI_SPAN_RECV, board->sampled_tag);

	assert_in_range(sends, SMALL / 256 - 1, SMALL / 256 + 1);
	assert_in_range(recvs, SMALL / 256 - 1, SMALL / 256 + 1);
	assert_true(record->sampled_out >= 2 * SMALL - sends - recvs);
	for (size_t i = 0; i < record->count; i++) {
		const struct twi_span *span = &record->spans[i];

		if (span->kind == TWI_SPAN_SEND && span->name == board->sampled_tag)
			assert_int_equal(twi_rpc_seq(span->id) % 256, 0);
	}
}

static void both_sides(const char *address, enum twi_lane_id lane)
{
	const struct twt_job job = { .lane = address, .ranks = 2, .run = run };

	memset(board->whole, 0, sizeof(board->whole));
	memset(board->sampled, 0, sizeof(board->sampled));
	twt_ranks(&job);
	for (unsigned r = 0; r < 2; r++) {
		const struct record *mine = &board->whole[r], *other = &board->whole[1 - r];

		check_own(mine);
		check_messages(mine, other, board->measured, 3 * ROUNDS, lane);
		check_colls(mine, other, lane == TWI_LANE_TCP);
		check_sampled(&board->sampled[r]);
		check_messages(&board->sampled[r], &board->sampled[1 - r], board->sampled_tag,
			       count(&board->sampled[r], TWI_SPAN_SEND, board->sampled_tag), lane);
	}
}

static void over_shm(void **state)
{
	(void)state;
	both_sides("shm://", TWI_LANE_SHM);
}

static void over_tcp(void **state)
{
	(void)state;
	both_sides("tcp://127.0.0.1:0", TWI_LANE_TCP);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(over_shm),
					    cmocka_unit_test(over_tcp) };

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (board == MAP_FAILED)
		return 1;
	board->measured = twi_tag_name("measured");
	board->sampled_tag = twi_tag_name("sampled");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
