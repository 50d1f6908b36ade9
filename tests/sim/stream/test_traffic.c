/*
 * Random traffic over the simulated network, by seed: endpoints in one runtime send, receive,
 * cancel, run into deadlines, close and vanish, in any order; what comes out is compared with a
 * plain reference (sim.h, sim_verdict.h).
 *
 * A third of the seeds has a network without faults: there nothing may be lost at all, and what is
 * left over at the end must be what has nobody to meet.
 *
 *	TOW_SIM_SEEDS=10000   how many seeds (300)
 *	TOW_SIM_FIRST=5000    from this one on (1)
 *	TOW_TEST_SEED=S       that seed alone
 */
#include "sim_verdict.h"

#include "transport/op/message.h"
#include "transport/op/op_table.h"

#define MS 1000000ull

static struct sim_world *world;

static void start(int conn, int side, bool send, uint64_t tag, uint64_t bytes);

static uint64_t random_bytes(void)
{
	switch (sim_below(world, 10)) {
	case 0:
		return 0;
	case 1:
	case 2:
		return sim_below(world, 64);
	case 3:
	case 4:
		return world->eager_max - twi_min(world->eager_max, 2) + sim_below(world, 5);
	case 5:
	case 6:
		return sim_below(world, 5000);
	default:
		return sim_below(world, world->bytes_max);
	}
}

/* A callback may start, cancel and release operations. */
static void on_done(struct tow_op *handle, const struct tow_result *result)
{
	struct sim_op *op = result->user;

	SIM_CHECK(world, op->op == NULL || op->op == handle, "a callback for another operation");
	sim_ended(op, result);
	if (op->op != NULL && sim_chance(world, 500))
		sim_release(op);
	if (world->callbacks_start && !world->closing && sim_chance(world, 300) &&
	    !world->conns[op->conn].closed[op->side])
		start(op->conn, op->side, sim_chance(world, 500), op->tag, random_bytes());
}

/* The user's own calls, or the library's with another space. */
static int start_message(struct sim_op *op, const struct tow_op_options *options)
{
	struct tow_peer *peer = world->conns[op->conn].peers[op->side];
	const struct twi_message message = {
		.kind = op->send ? TWI_OP_SEND : TWI_OP_RECV,
		.space = TWI_SPACE_GROUP,
		.data = op->data,
		.bytes = op->bytes,
		.tag = op->tag,
	};

	if (op->space != 0)
		return twi_message_start(peer, &message, options, &op->op);
	return op->send ? tow_send_start(peer, op->data, op->bytes, op->tag, options, &op->op)
			: sim_recv_start(op, options);
}

static void start_in(int conn, int side, bool send, uint64_t tag, uint64_t bytes, uint8_t space)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct sim_op *op = &world->ops[world->op_count];
	int status;

	if (world->op_count == SIM_OPS)
		return;
	*op = (struct sim_op){ .world = world, .conn = conn, .side = side, .send = send };
	op->space = space;
	op->id = (uint64_t)world->op_count++;
	op->tag = tag;
	op->bytes = bytes;
	op->deadline_ns = UINT64_MAX;
	op->callback = sim_chance(world, 500);
	op->truncate = !send && space == 0 && world->cuts && sim_chance(world, 400);
	op->wild = !send && space == 0 && world->masks && sim_chance(world, 400);
	op->any = op->wild && sim_chance(world, 500);
	op->mask = op->wild ? sim_below(world, 4) : UINT64_MAX;
	sim_buffer(world, op);
	if (send)
		sim_fill(op->data, bytes, op->id);
	options.user = op;
	options.flags = op->truncate ? TOW_OP_TRUNCATE : 0;
	options.done = op->callback ? on_done : NULL;
	if (world->deadlines && sim_chance(world, 150) && !world->draining) {
		options.timeout_ns = sim_below(world, 3 * MS);
		op->timed = true;
		op->deadline_ns = world->engine->virtual_ns + options.timeout_ns;
	}
	status = start_message(op, &options);
	if (status == TOW_EBUSY && op->id + 1 == (uint64_t)world->op_count) {
		world->op_count--;
		world->busy = true; /* whoever waits may lack its receive in the end */
		sim_buffer_end(op);
		return;
	}
	SIM_CHECK(world, status == TOW_OK, "start: %s", tow_error_message());
	if (op->callback && op->op != NULL && sim_chance(world, 150))
		sim_release(op);
	else if (world->unknowns && !op->callback && op->end == SIM_OPEN && bytes >= 8 &&
		 sim_chance(world, 60)) {
		op->end = SIM_UNKNOWN;
		sim_release(op);
	}
}

static void start(int conn, int side, bool send, uint64_t tag, uint64_t bytes)
{
	uint8_t space = world->spaces && sim_chance(world, 300) ? 1 : 0;

	start_in(conn, side, send, tag, bytes, space);
}

static struct sim_op *random_op(void)
{
	for (int i = 0; i < 8 && world->op_count > 0; i++) {
		struct sim_op *op = &world->ops[sim_below(world, (uint64_t)world->op_count)];

		if (op->op != NULL && op->end == SIM_OPEN)
			return op;
	}
	return NULL;
}

static void cancel(void)
{
	struct sim_op *op = random_op();

	if (op == NULL || !world->cancels)
		return;
	op->asked_cancel = true;
	SIM_CHECK(world, tow_op_cancel(op->op) == TOW_OK, "cancel: %s", tow_error_message());
}

static void close_peer(int conn, int side)
{
	struct sim_conn *c = &world->conns[conn];

	if (c->closed[side])
		return;
	c->closed[side] = true;
	sim_log(world, 77);
	SIM_CHECK(world, tow_peer_close(c->peers[side]) == TOW_OK, "%s", tow_error_message());
}

static void traffic(void)
{
	int conn = (int)sim_below(world, (uint64_t)world->conn_count);
	int side = (int)sim_below(world, 2);
	bool send = sim_chance(world, 500);
	/* receives tend to be large enough */
	uint64_t bytes = send || sim_chance(world, 200) ? random_bytes() : world->bytes_max;

	if (!world->conns[conn].closed[side])
		start(conn, side, send, sim_below(world, SIM_TAGS), bytes);
}

/* More large messages at once than may be granted. */
static void burst(void)
{
	int conn = (int)sim_below(world, (uint64_t)world->conn_count),
	    side = (int)sim_below(world, 2);
	int count = 60 + (int)sim_below(world, 60);

	for (int i = 0; i < count; i++) {
		bool send = sim_chance(world, 500);
		uint64_t bytes = world->eager_max + 1 + sim_below(world, 500);

		if (!world->conns[conn].closed[send ? side : 1 - side])
			start(conn, send ? side : 1 - side, send, sim_below(world, SIM_TAGS),
			      send ? bytes : world->eager_max + 600);
		if (sim_chance(world, 200))
			cancel();
	}
}

static void act(void)
{
	struct sim_op *op;

	switch (sim_below(world, 20)) {
	case 0:
		tow_progress(world->runtime);
		break;
	case 1:
		sim_sleep(world, 1 + sim_below(world, MS));
		break;
	case 2:
		tow_flush(world->runtime);
		break;
	case 3:
		cancel();
		break;
	case 4:
		op = random_op();
		if (op != NULL)
			tow_op_wait(op->op, sim_below(world, MS));
		break;
	case 5:
		op = random_op();
		if (op != NULL)
			tow_op_test(op->op);
		break;
	case 6:
		if (world->closes && sim_chance(world, 100))
			close_peer((int)sim_below(world, (uint64_t)world->conn_count),
				   (int)sim_below(world, 2));
		break;
	case 7:
		sim_reap(world);
		break;
	case 8:
		if (world->bursts && sim_chance(world, 200))
			burst();
		break;
	default:
		traffic();
	}
	sim_check_credit(world);
}

static int connection_end(struct tow_op *op, struct tow_peer **peer_out)
{
	struct tow_result result = { .size = sizeof(result) };
	int status = tow_op_wait(op, 50 * MS);

	if (status == TOW_ETIMEDOUT) {
		tow_op_cancel(op);
		status = tow_op_wait(op, MS);
	}
	SIM_CHECK(world, status != TOW_ETIMEDOUT, "connecting does not end");
	SIM_CHECK(world, tow_op_result(op, &result) == TOW_OK, "no result");
	SIM_CHECK(world, tow_op_release(op) == TOW_OK, "no release");
	*peer_out = result.peer;
	return status;
}

static void connect_one(void)
{
	struct tow_endpoint *from =
		world->endpoints[sim_below(world, (uint64_t)world->endpoint_count)];
	struct tow_endpoint *to =
		world->endpoints[sim_below(world, (uint64_t)world->endpoint_count)];
	struct sim_conn *conn = &world->conns[world->conn_count];
	char address[TOW_ADDRESS_MAX];
	struct tow_op *connect, *accept;
	bool accept_first = sim_chance(world, 500);
	int status, other;

	assert_int_equal(tow_endpoint_address(to, address, sizeof(address)), TOW_OK);
	if (accept_first)
		assert_int_equal(tow_accept_start(to, NULL, &accept), TOW_OK);
	assert_int_equal(tow_connect_start(from, address, NULL, &connect), TOW_OK);
	status = connection_end(connect, &conn->peers[0]);
	if (!accept_first)
		assert_int_equal(tow_accept_start(to, NULL, &accept), TOW_OK);
	other = connection_end(accept, &conn->peers[1]);
	SIM_CHECK(world, status == TOW_OK ? other == TOW_OK : other == TOW_ECANCELED,
		  "connect %s, accept %s", tow_status_name(status), tow_status_name(other));
	SIM_CHECK(world, status == TOW_OK || status == TOW_EREFUSED, "connect: %s",
		  tow_status_name(status));
	conn->endpoints[0] = from;
	conn->endpoints[1] = to;
	conn->closed[0] = conn->closed[1] = false;
	world->conn_count += status == TOW_OK;
}

static void choose_network(struct twi_loop_config *config)
{
	*config = (struct twi_loop_config){ .seed = twt_random(&world->random) };
	if (sim_chance(world, 700)) {
		config->delay_min_ns = sim_below(world, 50000);
		config->delay_max_ns = config->delay_min_ns + sim_below(world, 200000);
	}
	if (sim_chance(world, 500))
		config->pipe_bytes =
			(world->bytes_max > 40000 ? 1000 : 16) + (uint32_t)sim_below(world, 20000);
	config->channels =
		sim_chance(world, 400) ? 1 : 1 + (unsigned)sim_below(world, TWI_BULK_MAX);
	config->stripe_bytes = 1 + sim_below(world, sim_chance(world, 500) ? 500 : 20000);
	config->slices = sim_chance(world, 500);
	config->announce = sim_chance(world, 500);
	if (sim_chance(world, 500)) {
		config->break_bytes = 1ull << (6 + sim_below(world, 14));
		config->reopen_ns = 1 + sim_below(world, MS);
	}
	if (sim_chance(world, 500)) {
		config->late = 1 + (uint32_t)sim_below(world, 1000);
		config->late_ns = 1 + sim_below(world, 300000);
	}
	config->corrupt = world->corrupts ? 1 + (uint32_t)sim_below(world, 100) : 0;
	if (world->seed % 3 == 0)
		return;
	config->stall_ns = 1 + sim_below(world, 100000);
	config->short_write = sim_chance(world, 500) ? (uint32_t)sim_below(world, 800) : 0;
	config->short_read = sim_chance(world, 500) ? (uint32_t)sim_below(world, 800) : 0;
	config->stall = sim_chance(world, 300) ? (uint32_t)sim_below(world, 300) : 0;
	config->refuse = sim_chance(world, 100) ? 300 : 0;
	config->dark = sim_chance(world, 150) ? 500 : 0;
	config->disconnect = sim_chance(world, 250) ? 500 : 0;
	config->lossy = 500;
	config->fault_bytes = 1ull << (4 + sim_below(world, 17));
}

static void set_up(uint64_t seed)
{
	static const uint64_t eager[] = { 0, 64, 1000, 4096, 16384 };
	struct tow_options options = TOW_OPTIONS_INIT;
	struct twi_loop_config config;
	char address[32];

	*world = (struct sim_world){ .seed = seed, .random = seed * 0x2545f4914f6cdd1dull };
	world->eager_max = eager[sim_below(world, twi_array_count(eager))];
	world->credit = 65536ull << 2 * sim_below(world, 2);
	world->bytes_max = sim_chance(world, 200) ? 400000 : 40000;
	world->cancels = sim_chance(world, 500);
	world->deadlines = sim_chance(world, 400);
	world->bursts = sim_chance(world, 150);
	world->closes = sim_chance(world, 300);
	world->unknowns = sim_chance(world, 200);
	world->callbacks_start = sim_chance(world, 300);
	options.premap_memory_bytes = 1 << 20;
	options.huge_pages = 0;
	options.max_ops = seed % 4 == 0 ? 512 : SIM_OPS + 8;
	options.eager_max_bytes = (int64_t)world->eager_max;
	options.credit_bytes = (int64_t)world->credit;
	options.bulk_chunk_bytes = (int64_t)(4096ull << sim_below(world, 7));
	world->spaces = sim_chance(world, 300);
	world->corrupts = sim_chance(world, 100);
	world->masks = sim_chance(world, 300);
	/* Of what is cut no checksum is compared. */
	world->cuts = !world->corrupts && sim_chance(world, 400);
	options.checksum_all = world->corrupts || sim_chance(world, 300);
	SIM_CHECK(world, twi_runtime_open_sim(&options, &world->runtime) == TOW_OK, "open: %s",
		  tow_error_message());
	world->engine = twi_runtime_engine(world->runtime);
	choose_network(&config);
	twi_loop_configure(world->engine, &config);
	world->endpoint_count = 2 + (int)sim_below(world, SIM_ENDPOINTS - 1);
	for (int i = 0; i < world->endpoint_count; i++) {
		snprintf(address, sizeof(address), "loop://n%d", i);
		assert_int_equal(tow_endpoint_open(world->runtime, address, &world->endpoints[i]),
				 TOW_OK);
	}
	assert_int_equal(tow_endpoint_open(world->runtime, "loop://nowhere", &world->nowhere),
			 TOW_OK);
	assert_int_equal(tow_accept_start(world->nowhere, NULL, &world->clock), TOW_OK);
	for (int i = 1 + (int)sim_below(world, SIM_CONNS); i > 0; i--)
		connect_one();
}

static bool is_open(const struct sim_op *op, bool send)
{
	const struct sim_conn *conn = &world->conns[op->conn];

	return op->end == SIM_OPEN && op->send == send && !conn->closed[0] && !conn->closed[1];
}

/* Posts a large receive for every send there was: whatever waits has somebody to meet now. */
static void receive_all(void)
{
	int count = world->op_count;

	for (int i = 0; i < count && world->op_count < SIM_OPS; i++) {
		const struct sim_op *op = &world->ops[i];

		if (op->send && !world->conns[op->conn].closed[1 - op->side] &&
		    (op->end == SIM_OPEN || op->status == TOW_OK) && op->met == NULL)
			start_in(op->conn, 1 - op->side, false, op->tag, world->bytes_max + 64,
				 op->space);
		if (i % 32 == 0)
			sim_sleep(world, MS / 10);
	}
}

/* Both sides of a link at rest have nothing left of any message. */
static void check_rest(void)
{
	if (world->busy || twi_loop_faults(world->engine) > 0)
		return;
	sim_sleep(world, 1000 * MS); /* what was taken back is ended on the streams, too */
	if (twi_loop_faults(world->engine) > 0)
		return; /* the clocks' exchange goes on, and has met one */
	for (int i = 0; i < 2 * world->conn_count; i++) {
		const struct sim_conn *conn = &world->conns[i / 2];
		const struct twi_session *session;

		if (conn->closed[0] || conn->closed[1])
			continue;
		session = twi_session_of(conn->peers[i % 2]);
		SIM_CHECK(world,
			  session->send_count == 0 && session->ready_sends == 0 &&
				  session->grant_count == 0 && session->ready_grants == 0 &&
				  session->owed_count == 0 && !session->control_broken,
			  "conn %d side %d keeps rows of messages that have ended", i / 2, i % 2);
	}
}

/* On links without faults all sends end, and no receive waits beside a message for it. */
static void drain(void)
{
	int left = 1;
	bool no_rows;

	world->callbacks_start = false;
	world->draining = true; /* what is posted now waits for as long as it takes */
	for (int i = 0; i < 50 && left > 0; i++) {
		if (i < 4)
			receive_all();
		sim_sleep(world, i < 10 ? 5 * MS : 1000 * MS);
		left = 0;
		for (int j = 0; j < world->op_count; j++)
			left += is_open(&world->ops[j], true);
		if (left > 0 && twi_loop_faults(world->engine) > 0 && i == 20)
			break;
	}
	/* There were no rows left for receives of all that waits (seed 29219). */
	no_rows = world->op_count == SIM_OPS;
	for (int i = 0; i < world->op_count; i++) {
		const struct sim_op *op = &world->ops[i];

		SIM_CHECK(world,
			  !is_open(op, true) || world->busy || no_rows ||
				  twi_loop_faults(world->engine) > 0,
			  "send %d (tag %llu, %llu bytes, conn %d side %d, stage %d) hangs", i,
			  (unsigned long long)op->tag, (unsigned long long)op->bytes, op->conn,
			  op->side, op->op != NULL ? op->op->stage : -1);
	}
	check_rest();
}

/* Ends what is left in different ways, and gives the runtime back. */
static void tear_down(void)
{
	struct twi_pool_stats stats;

	if (sim_chance(world, 700)) {
		for (int i = 0; i < 2 * world->conn_count; i++) {
			if (sim_chance(world, 800))
				close_peer(i / 2, i % 2);
		}
		sim_sleep(world, 1 + sim_below(world, 2 * TWI_LOOP_LINGER_NS));
	}
	for (int i = 0; i < world->endpoint_count; i++) {
		if (world->masks || sim_chance(world, 500)) /* what waits for any peer ends so */
			assert_int_equal(tow_endpoint_close(world->endpoints[i]), TOW_OK);
	}
	sim_reap(world);
	world->closing = true;
	for (int i = 0; i < world->conn_count * 2; i++)
		close_peer(i / 2, i % 2);
	sim_sleep(world, 3 * TWI_LOOP_LINGER_NS);
	for (int i = 0; i < world->op_count; i++)
		SIM_CHECK(world, world->ops[i].end != SIM_OPEN && world->ops[i].op == NULL,
			  "op %d did not end with its peer", i);
	assert_int_equal(tow_op_release(world->clock), TOW_OK);
	assert_int_equal(tow_endpoint_close(world->nowhere), TOW_OK);
	for (uint32_t i = 0; i < world->engine->ops->made; i++)
		SIM_CHECK(world, world->engine->ops->rows[i].wait.state == 0, "row %u is in use",
			  i);
	twi_pool_stats(world->engine->pool, &stats);
	SIM_CHECK(world, stats.leased == 0, "leases are left");
	SIM_CHECK(world, twi_list_empty(&world->engine->peers), "a peer does not go");
}

/* The runtime is closed with everything in flight: callbacks run within the call. */
static void cut_off(void)
{
	world->closing = true;
	for (int i = 0; i < world->op_count; i++) {
		struct sim_op *op = &world->ops[i];

		if (op->op != NULL && (op->end == SIM_ENDED || !op->callback)) {
			op->end = op->end == SIM_OPEN ? SIM_UNKNOWN : op->end;
			sim_release(op);
		}
	}
}

static void count_network(void)
{
	struct twi_diag *diag = world->engine->diag;

	sim_breaks += twi_loop_breaks(world->engine);
	sim_early += twi_loop_early(world->engine);
	sim_corruptions += twi_loop_corrupted(world->engine);
	sim_announced += twi_counter_sum(diag, TWI_C_announced_sends);
	sim_too_early += twi_counter_sum(diag, TWI_C_announced_refusals);
}

static uint64_t run(uint64_t seed)
{
	int acts;
	bool cut;

	set_up(seed);
	acts = world->conn_count == 0 ? 0 : 20 + (int)sim_below(world, 250);
	for (int i = 0; i < acts; i++)
		act();
	cut = sim_chance(world, 150);
	if (cut) {
		cut_off();
	} else {
		drain();
		tear_down();
	}
	sim_log(world, world->engine->virtual_ns);
	count_network();
	SIM_CHECK(world, tow_runtime_close(world->runtime) == TOW_OK, "%s", tow_error_message());
	for (int i = 0; i < world->op_count; i++) {
		struct sim_op *op = &world->ops[i];

		SIM_CHECK(world, op->end != SIM_OPEN, "op %d never ended", i);
		/* A block holds the whole pool until it is freed, after a close as well. */
		if (op->data != NULL && op->pool)
			SIM_CHECK(world, tow_free(world->runtime, op->data) == TOW_OK, "op %d: %s",
				  i, tow_error_message());
		else
			free(op->data);
		op->data = NULL;
	}
	sim_judge(world);
	return world->log;
}

static void print_counts(uint64_t seeds)
{
	static const char *const kinds[] = { "recv", "send" };

	printf("%llu seeds: %llu breaks, %llu bytes corrupted, %llu sent unasked, %llu of them too "
	       "early, %llu answers ahead of what they were about, %llu messages cut, %llu met by "
	       "masks\n",
	       (unsigned long long)seeds, (unsigned long long)sim_breaks,
	       (unsigned long long)sim_corruptions, (unsigned long long)sim_announced,
	       (unsigned long long)sim_too_early, (unsigned long long)sim_early,
	       (unsigned long long)sim_dropped, (unsigned long long)sim_wild);
	for (int kind = 1; kind >= 0; kind--) {
		for (int i = 0; i < 32; i++) {
			if (sim_counts[kind][i] > 0)
				printf("  %s %-15s %llu\n", kinds[kind], tow_status_name(-i),
				       (unsigned long long)sim_counts[kind][i]);
		}
	}
}

static void test_seeds(void **state)
{
	const char *one = getenv("TOW_TEST_SEED"), *many = getenv("TOW_SIM_SEEDS");
	const char *from = one != NULL ? one : getenv("TOW_SIM_FIRST");
	uint64_t first = from != NULL ? strtoull(from, NULL, 0) : 1;
	uint64_t count = one != NULL ? 1 : many != NULL ? strtoull(many, NULL, 0) : 300;

	(void)state;
	for (uint64_t seed = first; seed < first + count; seed++)
		run(seed);
	print_counts(count);
	assert_true(count < 300 || (sim_early > 0 && sim_dropped > 0 && sim_wild > 0));
}

/* One seed, twice: every event at the same time with the same outcome. */
static void test_same_seed_same_events(void **state)
{
	(void)state;
	for (uint64_t seed = 1000; seed < 1020; seed++) {
		uint64_t once = run(seed), twice = run(seed);

		SIM_CHECK(world, once == twice, "two runs of one seed differ");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seeds),
		cmocka_unit_test(test_same_seed_same_events),
	};
	static struct sim_world the_world;

	world = &the_world;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
