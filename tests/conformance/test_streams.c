/*
 * test_streams.c - streams in every cell of the conformance suite (conform.h): pieces of all sizes
 * both ways, more than may be on their way, pieces that are too long, an end and a break.
 */
#include "cell_bad.h"
#include "conform.h"

#define LARGE  (1048576 + 3)
#define PIECES 40
#define STEP   50000

static const uint32_t sizes[] = { 1, 8, 1024, 4096, 65536, LARGE };

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static struct tow_call_in *_Atomic served;

static void serve(struct tow_call_in *call, void *user)
{
	(void)user;
	atomic_store(&served, call);
}

/* The call with its stream: of end 0 the operation, of end 1 what it serves. */
static struct tow_stream *open_stream(struct twt_end *end, struct twt_doing *doing)
{
	const struct tow_op_options *like = twt_begin(end, doing, TOW_FOREVER);
	const struct tow_call_options options = { .size = sizeof(options),
						  .timeout_ns = TOW_FOREVER,
						  .done = like->done,
						  .user = like->user,
						  .queue = like->queue,
						  .flags = TOW_CALL_STREAM };
	struct tow_stream *stream;

	twt_meet(end);
	if (end->which == 0) {
		twt_ok(end, tow_call_start(end->peer, "stream", "go", 2, end->in, 64, &options,
					   &doing->op));
		stream = tow_call_stream(doing->op);
	} else {
		while (atomic_load(&served) == NULL)
			twt_idle(end);
		stream = tow_call_in_stream(atomic_load(&served));
	}
	if (stream == NULL)
		twt_wrong(end->cell, "end %d has no stream", end->which);
	twt_meet(end);
	return stream;
}

/*
 * A piece that cannot be read or written ends the call. Each side hears of both, and of which one
 * first is a matter of timing: of the piece (TOW_EFAULT), or that the call is over (TOW_ECANCELED).
 */
static const char *name_of(const struct twt_end *end, int status)
{
	return end->cell->memory == TWT_UNREADABLE &&
			       (status == TOW_EFAULT || status == TOW_ECANCELED)
		       ? "over with its call"
		       : tow_status_name(status);
}

/* Both ends of the call: the answer, and what came of it. */
static void close_stream(struct twt_end *end, struct twt_doing *doing)
{
	struct tow_result result;

	if (end->which == 1) {
		twt_ok(end, tow_reply_start(atomic_load(&served), 0, "done", 4,
					    twt_begin(end, doing, TOW_FOREVER), &doing->op));
		atomic_store(&served, NULL);
	}
	twt_await(end, doing, &result);
	twt_say(end, "%s: %s", end->which == 0 ? "call" : "reply", name_of(end, result.status));
	twt_meet(end);
}

static void push(struct twt_end *end, struct tow_stream *stream, uint32_t bytes, unsigned seed)
{
	struct tow_result result;
	struct twt_doing doing;

	twt_data_fill(end->out, bytes, seed);
	twt_ok(end, tow_stream_push_start(stream, end->out, bytes,
					  twt_begin(end, &doing, TOW_FOREVER), &doing.op));
	twt_say(end, "push %u: %s", bytes, tow_status_name(twt_await(end, &doing, &result)));
}

static int pull(struct twt_end *end, struct tow_stream *stream, uint32_t room, unsigned seed)
{
	struct tow_result result;
	struct twt_doing doing;

	twt_ok(end, tow_stream_pull_start(stream, end->in, room,
					  twt_begin(end, &doing, TOW_FOREVER), &doing.op));
	twt_await(end, &doing, &result);
	twt_say(end, "pull: %s %llu %s", tow_status_name(result.status),
		(unsigned long long)result.bytes,
		result.status == TOW_OK ? twt_data_judge(end->in, result.bytes, seed) : "none");
	return result.status;
}

/* Each piece goes there and another of its size comes back; then both directions end. */
static void there_and_back(struct twt_end *end)
{
	struct twt_doing doing;
	struct tow_op *late;
	struct tow_stream *stream = open_stream(end, &doing);

	for (unsigned i = 0; i < SIZES; i++) {
		if (end->which == 0)
			push(end, stream, sizes[i], i);
		pull(end, stream, sizes[i], end->which == 0 ? 100 + i : i);
		if (end->which == 1)
			push(end, stream, sizes[i], 100 + i);
	}
	twt_ok(end, tow_stream_end(stream));
	pull(end, stream, LARGE, 0);
	twt_say(end, "push after the end: %s",
		tow_status_name(tow_stream_push_start(stream, end->out, 8, NULL, &late)));
	twt_meet(end);
	close_stream(end, &doing);
}

/* Pieces from one place, which is written anew when each is out, and looked at together. */
static void look_at_pieces(struct twt_end *end)
{
	enum { COUNT = 3 };
	struct twt_doing call, doing[COUNT];
	struct tow_stream *stream = open_stream(end, &call);
	struct tow_result results[COUNT];

	for (unsigned i = 0; i < COUNT; i++) {
		if (end->which == 0) {
			push(end, stream, LARGE, 80 + i);
			continue;
		}
		twt_ok(end,
		       tow_stream_pull_start(stream, NULL, LARGE,
					     twt_begin(end, &doing[i], TOW_FOREVER), &doing[i].op));
		twt_await_kept(end, &doing[i], &results[i]);
	}
	if (end->which == 0)
		twt_data_fill(end->out, LARGE, 80 + COUNT);
	twt_meet(end);
	for (unsigned i = 0; end->which == 1 && i < COUNT; i++) {
		twt_say(end, "piece %u, a view: %s, data %s", i, tow_status_name(results[i].status),
			twt_data_judge(results[i].data, results[i].bytes, 80 + i));
		twt_ok(end, tow_op_release(doing[i].op));
	}
	twt_meet(end);
	close_stream(end, &call);
}

/* More pieces than may be with the other side: they wait, and come in order. */
static void many(struct twt_end *end)
{
	struct twt_doing call, doing[PIECES];
	struct tow_stream *stream = open_stream(end, &call);
	struct tow_result result;
	unsigned right = 0;
	bool good;

	for (unsigned i = 0; i < PIECES; i++) {
		uint32_t bytes = i % 5 == 0 ? 40000 + i : 100 + i;

		if (end->which == 0) {
			uint8_t *at = end->out + (size_t)i * STEP;

			twt_data_fill(at, bytes, i);
			twt_ok(end, tow_stream_push_start(stream, at, bytes,
							  twt_begin(end, &doing[i], TOW_FOREVER),
							  &doing[i].op));
		} else {
			twt_ok(end, tow_stream_pull_start(stream, end->in + (size_t)i * STEP, STEP,
							  twt_begin(end, &doing[i], TOW_FOREVER),
							  &doing[i].op));
		}
	}
	for (unsigned i = 0; i < PIECES; i++) {
		twt_await(end, &doing[i], &result);
		good = result.status == TOW_OK &&
		       (end->which == 0 ||
			*twt_data_judge(end->in + (size_t)i * STEP, result.bytes, i) == 'r');
		right += good;
		if (!good)
			twt_say(end, "piece %u: %s %llu", i, tow_status_name(result.status),
				(unsigned long long)result.bytes);
	}
	twt_say(end, "%u of %d pieces", right, PIECES);
	/*
	 * The answer comes after the last push has ended: one that overtakes the word that a large
	 * piece was taken ends that push with TOW_ECLOSED on shm, and with TOW_OK elsewhere.
	 */
	twt_meet(end);
	close_stream(end, &call);
}

static void too_long(struct twt_end *end)
{
	struct twt_doing doing;
	struct tow_stream *stream = open_stream(end, &doing);

	if (end->which == 0) {
		push(end, stream, 100, 1);
		push(end, stream, 100, 2);
	} else {
		pull(end, stream, 50, 1);
		pull(end, stream, 100, 2);
	}
	close_stream(end, &doing);
}

/* End 0 breaks it off; the server answers all the same. */
static void break_off(struct twt_end *end)
{
	struct twt_doing doing, piece;
	struct tow_stream *stream = open_stream(end, &doing);
	struct tow_result result;

	twt_ok(end, tow_stream_pull_start(stream, end->in + 100, 100,
					  twt_begin(end, &piece, TOW_FOREVER), &piece.op));
	twt_meet(end);
	if (end->which == 0)
		twt_ok(end, tow_stream_abort(stream));
	twt_await(end, &piece, &result);
	twt_say(end, "pull of a stream that is broken off: %s", tow_status_name(result.status));
	twt_meet(end);
	close_stream(end, &doing);
}

static void play(struct twt_end *end)
{
	if (end->which == 1)
		twt_ok(end, tow_method_register(end->runtime, "stream", serve, end, NULL));
	twt_meet(end);
	there_and_back(end);
	look_at_pieces(end);
	many(end);
	too_long(end);
	break_off(end);
}

static void bad_piece(struct twt_end *end, enum twt_bad bad, bool receives)
{
	uint8_t *good = end->which == 0 ? end->out : end->in, *at = good;
	struct twt_doing call, piece;
	struct tow_stream *stream = open_stream(end, &call);
	bool mine = end->which == receives;
	struct tow_result result;

	if (mine)
		at = twt_bad_take(end, bad, receives);
	if (end->which == 0)
		twt_ok(end, tow_stream_push_start(stream, at, TWT_BAD_BYTES - 1,
						  twt_begin(end, &piece, TOW_FOREVER), &piece.op));
	else
		twt_ok(end, tow_stream_pull_start(stream, at, TWT_BAD_BYTES - 1,
						  twt_begin(end, &piece, TOW_FOREVER), &piece.op));
	twt_await(end, &piece, &result);
	twt_say(end, "%s at who %s: %s", twt_bad_names[bad], receives ? "pulls" : "pushes",
		name_of(end, result.status));
	if (mine)
		twt_bad_give(at, bad);
	twt_meet(end);
	close_stream(end, &call);
}

static void play_bad(struct twt_end *end)
{
	end->timed = "ops_canceled";
	if (end->which == 1)
		twt_ok(end, tow_method_register(end->runtime, "stream", serve, end, NULL));
	twt_meet(end);
	twt_bad_each(end, bad_piece);
	there_and_back(end);
}

int main(void)
{
	return twt_conform(TWT_STREAMS, play, play_bad);
}
