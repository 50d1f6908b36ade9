/*
 * test_calls.c - calls in a simulated world, by seed: both directions at once, sizes from 0 to 4
 * MiB, deadlines, cancels, handlers that answer at once, later or never in time, streams, peers
 * that are closed, and networks that delay, stall and cut. Against a plain model: every call ends
 * exactly once, with a status that something has given cause for; a good answer is the right one; a
 * handler sees each call at most once, and its request as it was sent.
 *
 *	TOW_SIM_SEEDS=10000   how many seeds (100; sanitized 50)
 *	TOW_TEST_SEED=S       that seed alone
 */
#include "sim_calls.h"

static void maybe_release(struct call *call)
{
	if (!call->ended || call->released || call->operations > 0)
		return;
	call->released = true;
	CHECK(tow_op_release(call->op) == TOW_OK, "release: %s", tow_error_message());
}

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	struct call *call = result->user;

	call->op = op;
	call_ended(call, result->status);
	if (chance(500))
		maybe_release(call);
}

/* Streams: the client pushes pieces, the server gives each one back. */

static uint64_t piece_id(const struct call *call, int index)
{
	return call->id * 1000 + (uint64_t)index;
}

static void client_moves(struct call *call);

static void on_client_pushed(struct tow_op *op, const struct tow_result *result)
{
	struct piece *piece = result->user;
	struct call *call = NULL;

	CHECK(piece->open, "a piece ended twice");
	piece->open = false;
	free(piece->data);
	piece->data = NULL;
	tow_op_release(op);
	for (int i = 0; i < world.call_count && call == NULL; i++) {
		if (piece >= world.calls[i].pieces && piece < world.calls[i].pieces + PIECES)
			call = &world.calls[i];
	}
	call->operations--;
	client_moves(call);
}

static void on_client_pulled(struct tow_op *op, const struct tow_result *result)
{
	struct call *call = result->user;

	call->operations--;
	call->pull_open = false;
	if (result->status == TOW_OK && result->bytes == 0) {
		call->end_seen = true;
	} else if (result->status == TOW_OK) {
		CHECK(call->pulled < call->piece_count &&
			      result->bytes == call->pieces[call->pulled].bytes &&
			      same(result->data, result->bytes, piece_id(call, call->pulled), 0),
		      "call %llu: piece %d came back as another", (unsigned long long)call->id,
		      call->pulled);
		call->pulled++;
	} else {
		call->end_seen = true;
	}
	tow_op_release(op);
	client_moves(call);
}

static void client_moves(struct call *call)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;

	options.done = on_client_pushed;
	while (!call->ended && call->pushed < call->piece_count && chance(700)) {
		struct piece *piece = &call->pieces[call->pushed];

		piece->data = buffer(piece->bytes);
		fill(piece->data, piece->bytes, piece_id(call, call->pushed), 0);
		piece->open = true;
		options.user = piece;
		call->operations++;
		call->pushed++;
		CHECK(tow_stream_push_start(call->stream, piece->data, piece->bytes, &options,
					    &op) == TOW_OK,
		      "push: %s", tow_error_message());
	}
	if (!call->ended && call->pushed == call->piece_count)
		CHECK(tow_stream_end(call->stream) == TOW_OK, "%s", tow_error_message());
	if (!call->pull_open && !call->end_seen && !call->released) {
		options.done = on_client_pulled;
		options.user = call;
		call->pull_open = true;
		call->operations++;
		CHECK(tow_stream_pull_start(call->stream, NULL, 0, &options, &op) == TOW_OK,
		      "pull: %s", tow_error_message());
	}
}

static void server_moves(struct served *served);
static void on_server_pushed(struct tow_op *op, const struct tow_result *result)
{
	struct served *served = result->user;

	served->pushing--;
	tow_op_release(op);
	server_moves(served);
}

static void on_server_pulled(struct tow_op *op, const struct tow_result *result)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct served *served = result->user;
	struct call *call = served->call;
	struct tow_op *push;

	served->pull_open = false;
	if (result->status < 0 || result->bytes == 0) {
		served->end_seen = true;
	} else {
		int index = served->pulled++;

		CHECK(index < call->piece_count && result->bytes == call->pieces[index].bytes &&
			      same(result->data, result->bytes, piece_id(call, index), 0),
		      "call %llu: piece %d arrived as another", (unsigned long long)call->id,
		      index);
		served->echo[index] = buffer(result->bytes);
		fill(served->echo[index], result->bytes, piece_id(call, index), 0);
		options.done = on_server_pushed;
		options.user = served;
		served->pushing++;
		CHECK(tow_stream_push_start(served->stream, served->echo[index], result->bytes,
					    &options, &push) == TOW_OK,
		      "push back: %s", tow_error_message());
	}
	tow_op_release(op);
	server_moves(served);
}

static void server_moves(struct served *served)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;

	if (!served->used)
		return;
	if (served->end_seen) {
		if (served->pushing == 0 && !served->replied) {
			served->replied = true;
			served->due_ns = world.engine->virtual_ns + below(2 * MS);
		}
		return;
	}
	if (served->pull_open)
		return;
	served->pull_open = true;
	options.done = on_server_pulled;
	options.user = served;
	CHECK(tow_stream_pull_start(served->stream, NULL, 0, &options, &op) == TOW_OK, "pull: %s",
	      tow_error_message());
}

static struct served *note(struct tow_call_in *in, enum method method)
{
	uint64_t bytes, id;
	const uint8_t *request = tow_call_request(in, &bytes);
	struct served *served = world.served;
	struct call *call;

	CHECK(bytes >= 16, "a request of %llu bytes", (unsigned long long)bytes);
	id = word(request);
	CHECK(id < (uint64_t)world.call_count, "a request of nobody");
	call = &world.calls[id];
	CHECK(call->method == method && call->bytes == bytes &&
		      same(request, bytes, id, call->answer_bytes),
	      "call %llu arrived as another", (unsigned long long)id);
	CHECK(call->served++ == 0, "call %llu was served twice", (unsigned long long)id);
	CHECK(tow_call_peer(in) == world.conns[call->conn].peers[1 - call->side],
	      "call %llu comes from another peer", (unsigned long long)id);
	while (served->used)
		served++;
	*served = (struct served){ .in = in, .call = call, .used = true };
	return served;
}

static void on_replied(struct tow_op *op, const struct tow_result *result)
{
	free(result->user);
	tow_op_release(op);
}

static void answer(struct served *served)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct call *call = served->call;
	uint8_t *data = buffer(call->answer_bytes);
	struct tow_op *op;

	served->used = false;
	for (int i = 0; i < served->pulled; i++)
		free(served->echo[i]);
	fill(data, call->answer_bytes, call->id, call->answer_bytes);
	options.done = on_replied;
	options.user = data;
	if (world.deadlines && chance(50))
		options.timeout_ns = below(2 * MS);
	if (options.timeout_ns != TOW_FOREVER)
		call->asked_cancel = true; /* the server gives up */
	if (call->method == FAIL)
		CHECK(tow_reply_start(served->in, (int32_t)(call->id % 100) + 1, "as it was asked",
				      15, &options, &op) == TOW_OK,
		      "reply: %s", tow_error_message());
	else
		CHECK(tow_reply_start(served->in, 0, data, call->answer_bytes, &options, &op) ==
			      TOW_OK,
		      "reply: %s", tow_error_message());
}

static void at_once(struct tow_call_in *in, void *user)
{
	answer(note(in, (enum method)(uintptr_t)user));
}

static void in_time(struct tow_call_in *in, void *user)
{
	struct served *served = note(in, (enum method)(uintptr_t)user);

	served->due_ns = world.engine->virtual_ns + below(3 * MS);
}

static void with_stream(struct tow_call_in *in, void *user)
{
	struct served *served = note(in, (enum method)(uintptr_t)user);

	served->due_ns = UINT64_MAX;
	served->stream = tow_call_in_stream(in);
	CHECK(served->stream != NULL, "a call without its stream");
	server_moves(served);
}

static void answer_due(bool all)
{
	for (size_t i = 0; i < twi_array_count(world.served); i++) {
		struct served *served = &world.served[i];

		if (served->used && (served->due_ns <= world.engine->virtual_ns ||
				     (all && served->due_ns != UINT64_MAX)))
			answer(served);
	}
}

static void reap(void)
{
	for (int i = 0; i < world.call_count; i++) {
		struct call *call = &world.calls[i];
		struct tow_result result = { .size = sizeof(result) };

		if (call->released)
			continue;
		if (!call->ended && !call->callback && tow_op_result(call->op, &result) == TOW_OK)
			call_ended(call, result.status);
		if (call->stream != NULL && !call->ended)
			client_moves(call);
		maybe_release(call);
	}
}

static void pass(uint64_t ns)
{
	CHECK(tow_op_wait(world.clock, ns) == TOW_ETIMEDOUT, "the clock has ended");
	answer_due(false);
	reap();
}

static void start(void)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	struct call *call = &world.calls[world.call_count];
	int conn = (int)below((uint64_t)world.conn_count), side = (int)below(2), status;

	if (world.call_count == CALLS || world.conns[conn].closed[side])
		return;
	*call = (struct call){ .conn = conn, .side = side, .id = (uint64_t)world.call_count };
	call->method = (enum method)below(METHODS);
	call->bytes = random_bytes(16);
	call->answer_bytes = call->method == ECHO ? call->bytes : random_bytes(0);
	call->view = chance(400);
	call->room = chance(50) ? below(call->answer_bytes + 1) : call->answer_bytes;
	call->request = buffer(call->bytes);
	call->response = buffer(call->room);
	fill(call->request, call->bytes, call->id, call->answer_bytes);
	call->callback = chance(500);
	options.flags =
		(call->view ? TOW_CALL_VIEW : 0) | (call->method == STREAM ? TOW_CALL_STREAM : 0);
	options.done = call->callback ? on_done : NULL;
	options.user = call;
	if (world.deadlines && chance(300)) {
		options.timeout_ns = below(5 * MS);
		call->timed = true;
		call->deadline_ns = world.engine->virtual_ns + options.timeout_ns;
	}
	world.call_count++;
	status = tow_call_start(world.conns[conn].peers[side], names[call->method], call->request,
				call->bytes, call->view ? NULL : call->response,
				call->view ? 0 : call->room, &options, &call->op);
	if (status == TOW_EBUSY) { /* streams, or all records */
		world.call_count--;
		free(call->request);
		free(call->response);
		return;
	}
	CHECK(status == TOW_OK, "start: %s", tow_error_message());
	if (call->method == STREAM && !call->released) {
		call->stream = tow_call_stream(call->op);
		CHECK(call->stream != NULL, "no stream");
		call->piece_count = (int)below(PIECES);
		for (int i = 0; i < call->piece_count; i++)
			call->pieces[i].bytes = random_bytes(1);
		client_moves(call);
	}
}

/* Messages of the user's with the tags that calls use, in between: neither sees the other's. */
struct note {
	uint64_t got;
};

static void on_note(struct tow_op *op, const struct tow_result *result)
{
	struct note *note = result->user;

	CHECK(result->status != TOW_OK ||
		      (result->bytes == 8 && note->got == 0x7077656900000000ull),
	      "a message of the user's is none");
	free(note);
	tow_op_release(op);
}

static void message(void)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	int conn = (int)below((uint64_t)world.conn_count), side = (int)below(2);
	struct note *note;
	struct tow_op *op;
	static const uint64_t word = 0x7077656900000000ull;
	uint64_t tag = below(4);

	if (world.conns[conn].closed[0] || world.conns[conn].closed[1])
		return;
	note = calloc(1, sizeof(*note));
	CHECK(note != NULL, "no memory for a test");
	options.done = on_note;
	options.user = note;
	CHECK(tow_recv_start(world.conns[conn].peers[1 - side], &note->got, 8, tag, &options,
			     &op) == TOW_OK,
	      "recv: %s", tow_error_message());
	CHECK(tow_send_start(world.conns[conn].peers[side], &word, 8, tag, NULL, &op) == TOW_OK,
	      "send: %s", tow_error_message());
	tow_op_release(op);
}

static void cancel(void)
{
	struct call *call;

	if (!world.cancels || world.call_count == 0)
		return;
	call = &world.calls[below((uint64_t)world.call_count)];
	if (call->released || call->ended)
		return;
	call->asked_cancel = true;
	if (call->stream != NULL && chance(500))
		CHECK(tow_stream_abort(call->stream) == TOW_OK, "%s", tow_error_message());
	else
		CHECK(tow_op_cancel(call->op) == TOW_OK, "cancel: %s", tow_error_message());
}

static void close_peer(int conn, int side)
{
	if (world.conns[conn].closed[side])
		return;
	world.conns[conn].closed[side] = true;
	CHECK(tow_peer_close(world.conns[conn].peers[side]) == TOW_OK, "%s", tow_error_message());
}

static void act(void)
{
	switch (below(16)) {
	case 0:
		tow_progress(world.runtime);
		break;
	case 1:
	case 2:
	case 3:
		pass(1 + below(MS));
		break;
	case 4:
		cancel();
		break;
	case 5:
		if (world.closes && chance(50))
			close_peer((int)below((uint64_t)world.conn_count), (int)below(2));
		break;
	case 7:
		message();
		break;
	case 6:
		answer_due(chance(300));
		break;
	default:
		start();
	}
}

static void choose_network(void)
{
	struct twi_loop_config config = { .seed = twt_random(&world.random) };

	if (chance(700)) {
		config.delay_min_ns = below(50000);
		config.delay_max_ns = config.delay_min_ns + below(200000);
	}
	if (chance(300))
		config.pipe_bytes = 4000 + (uint32_t)below(60000);
	if (world.seed % 3 != 0) {
		config.stall_ns = 1 + below(100000);
		config.short_write = chance(500) ? (uint32_t)below(500) : 0;
		config.short_read = chance(500) ? (uint32_t)below(500) : 0;
		config.stall = chance(300) ? (uint32_t)below(300) : 0;
		config.dark = chance(150) ? 500 : 0;
		config.disconnect = chance(300) ? 500 : 0;
		config.lossy = 500;
		config.fault_bytes = 1ull << (10 + below(14));
	}
	twi_loop_configure(world.engine, &config);
}

static struct tow_peer *take(struct tow_op *op)
{
	struct tow_result result = { .size = sizeof(result) };

	CHECK(tow_op_wait(op, 50 * MS) == TOW_OK, "connecting: %s", tow_error_message());
	CHECK(tow_op_result(op, &result) == TOW_OK, "no result");
	tow_op_release(op);
	return result.peer;
}

static void connect_all(void)
{
	struct tow_endpoint *left, *right, *nowhere;
	struct tow_op *connect, *accept;

	CHECK(tow_endpoint_open(world.runtime, "loop://l", &left) == TOW_OK, "l");
	CHECK(tow_endpoint_open(world.runtime, "loop://r", &right) == TOW_OK, "r");
	CHECK(tow_endpoint_open(world.runtime, "loop://n", &nowhere) == TOW_OK, "n");
	CHECK(tow_accept_start(nowhere, NULL, &world.clock) == TOW_OK, "clock");
	for (int i = 0; i < world.conn_count; i++) {
		CHECK(tow_accept_start(right, NULL, &accept) == TOW_OK, "accept");
		CHECK(tow_connect_start(left, "loop://r", NULL, &connect) == TOW_OK, "connect");
		world.conns[i].peers[0] = take(connect);
		world.conns[i].peers[1] = take(accept);
		world.conns[i].closed[0] = world.conns[i].closed[1] = false;
	}
}

static void set_up(uint64_t seed)
{
	static const tow_method_handler handlers[METHODS] = { at_once, in_time, in_time,    in_time,
							      in_time, NULL,    with_stream };
	static const int64_t eager[] = { 0, 64, 1000, 16384, 16384, 100000 };
	struct tow_options options = TOW_OPTIONS_INIT;

	memset(&world, 0, sizeof(world));
	world.seed = seed;
	world.random = seed * 0x2545f4914f6cdd1dull + 5;
	world.bytes_max = chance(50) ? 4 << 20 : chance(300) ? 200000 : 30000;
	world.deadlines = chance(500);
	world.cancels = chance(500);
	world.closes = chance(300);
	world.small_pool = chance(150);
	world.conn_count = 1 + (int)below(CONNS);
	options.premap_memory_bytes = world.small_pool ? 1 << 20 : 24 << 20;
	options.premap_limit_bytes = world.small_pool ? 1 << 20 : 4ll << 30;
	options.exhaust = world.small_pool ? "fail" : "copy";
	options.huge_pages = 0;
	options.max_ops = 16384;
	options.eager_max_bytes = eager[below(twi_array_count(eager))];
	options.credit_bytes = 1 << (17 + below(4));
	CHECK(twi_runtime_open_sim(&options, &world.runtime) == TOW_OK, "open: %s",
	      tow_error_message());
	world.engine = twi_runtime_engine(world.runtime);
	connect_all();
	choose_network();
	for (int i = 0; i < METHODS; i++) {
		struct tow_method_options limits = TOW_METHOD_OPTIONS_INIT;

		limits.in_service = i == FEW ? 3 : 0;
		if (handlers[i] != NULL)
			CHECK(tow_method_register(world.runtime, names[i], handlers[i],
						  (void *)(uintptr_t)i, &limits) == TOW_OK,
			      "register: %s", tow_error_message());
	}
}

/* What is left is served; on a link without faults it all ends. */
static void drain(void)
{
	int left = 1;

	for (int i = 0; i < 60 && left > 0; i++) {
		pass(i < 20 ? 2 * MS : 500 * MS);
		answer_due(true);
		left = 0;
		for (int j = 0; j < world.call_count; j++) {
			const struct call *call = &world.calls[j];
			const struct conn *conn = &world.conns[call->conn];

			left += !call->ended && !conn->closed[0] && !conn->closed[1];
		}
	}
	for (int i = 0; i < world.call_count && twi_loop_faults(world.engine) == 0; i++) {
		const struct call *call = &world.calls[i];
		const struct conn *conn = &world.conns[call->conn];

		CHECK(call->ended || conn->closed[0] || conn->closed[1],
		      "call %d of %s (%llu bytes, conn %d, side %d) hangs; served %d, pushed %d of "
		      "%d, pulled %d",
		      i, names[call->method], (unsigned long long)call->bytes, call->conn,
		      call->side, call->served, call->pushed, call->piece_count, call->pulled);
	}
}

static void tear_down(void)
{
	world.closing = true;
	for (int i = 0; i < 2 * world.conn_count; i++)
		close_peer(i / 2, i % 2);
	pass(3 * TWI_LOOP_LINGER_NS);
	for (int i = 0; i < 5; i++) {
		answer_due(true);
		pass(5 * MS);
	}
	for (int i = 0; i < world.call_count; i++)
		CHECK(world.calls[i].ended && world.calls[i].released,
		      "call %d did not end with its peer", i);
	check_empty();
}

static void run(uint64_t seed)
{
	int acts;

	set_up(seed);
	acts = 20 + (int)below(300);
	for (int i = 0; i < acts; i++)
		act();
	drain();
	tear_down();
	tow_op_release(world.clock);
	CHECK(tow_runtime_close(world.runtime) == TOW_OK, "close: %s", tow_error_message());
}

static void test_seeds(void **state)
{
	const char *one = getenv("TOW_TEST_SEED"), *many = getenv("TOW_SIM_SEEDS");
	uint64_t first = one != NULL ? strtoull(one, NULL, 0) : 1;
	uint64_t seeds = one != NULL ? 1 : many != NULL ? strtoull(many, NULL, 0) : SIM_CALLS_SEEDS;

	(void)state;
	for (uint64_t seed = first; seed < first + seeds; seed++)
		run(seed);
	printf("%llu seeds\n", (unsigned long long)seeds);
	for (int i = 0; i < METHODS; i++) {
		for (int j = 0; j < 32; j++) {
			if (counts[i][j] > 0)
				printf("  %-6s %-15s %llu\n", names[i], tow_status_name(-j),
				       (unsigned long long)counts[i][j]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_seeds) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
