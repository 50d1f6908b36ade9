/*
 * program_sim.c - programs over the simulated network: all ranks in one runtime on a virtual clock.
 * A third of the seeds has a network without faults.
 */
#include "program.h"

#include "transport/sim/loop_sim.h"

#define MS 1000000ull

/* Which nobody meets: waiting for it lets time pass. */
static struct tow_endpoint *nowhere;
static struct tow_op *clock_op;

static void choose_network(struct twt_program *program, struct twi_loop_config *config)
{
	*config = (struct twi_loop_config){ .seed = twt_random(&program->random) };
	if (twt_program_chance(program, 700)) {
		config->delay_min_ns = twt_program_below(program, 50000);
		config->delay_max_ns = config->delay_min_ns + twt_program_below(program, 300000);
	}
	if (twt_program_chance(program, 500))
		config->pipe_bytes = (program->with.huge           ? 20000
				      : program->bytes_max > 40000 ? 1000
								   : 64) +
				     (uint32_t)twt_program_below(program, 20000);
	config->channels = 1 + (unsigned)twt_program_below(program, TWI_BULK_MAX);
	config->stripe_bytes = 1 + twt_program_below(program, 20000);
	config->slices = twt_program_chance(program, 500);
	config->announce = twt_program_chance(program, 500);
	config->lone = twt_program_chance(program, 700);
	if (twt_program_chance(program, 400)) {
		config->break_bytes = 1ull << (8 + twt_program_below(program, 12));
		config->reopen_ns = 1 + twt_program_below(program, MS);
	}
	if (twt_program_chance(program, 400)) {
		config->late = 1 + (uint32_t)twt_program_below(program, 1000);
		config->late_ns = 1 + twt_program_below(program, 300000);
	}
	if (program->seed % 3 == 0)
		return;
	config->stall_ns = 1 + twt_program_below(program, 100000);
	config->short_write =
		twt_program_chance(program, 500) ? (uint32_t)twt_program_below(program, 800) : 0;
	config->short_read =
		twt_program_chance(program, 500) ? (uint32_t)twt_program_below(program, 800) : 0;
	config->stall =
		twt_program_chance(program, 300) ? (uint32_t)twt_program_below(program, 300) : 0;
	config->dark = twt_program_chance(program, 150) ? 300 : 0;
	config->disconnect = twt_program_chance(program, 200) ? 300 : 0;
	config->lossy = 500;
	config->fault_bytes = 1ull << (10 + twt_program_below(program, 10));
}

static bool open_sim(struct twt_program *program)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct twi_loop_config config;
	char address[32];

	options.premap_memory_bytes = (int64_t)program->pool_bytes;
	options.premap_limit_bytes = (int64_t)program->pool_bytes;
	options.huge_pages = 0;
	options.max_ops = program->max_ops;
	options.eager_max_bytes = (int64_t)program->eager_max;
	options.credit_bytes = (int64_t)program->credit;
	options.bulk_chunk_bytes = (int64_t)(4096ull << twt_program_below(program, 7));
	options.checksum_all = twt_program_chance(program, 300);
	twt_program_check(program, twi_runtime_open_sim(&options, &program->runtime[0]) == TOW_OK,
			  "open: %s", tow_error_message());
	choose_network(program, &config);
	twi_loop_configure(twi_runtime_engine(program->runtime[0]), &config);
	for (int i = 0; i < program->ranks; i++) {
		program->runtime[i] = program->runtime[0];
		snprintf(address, sizeof(address), "loop://n%d", i);
		assert_int_equal(
			tow_endpoint_open(program->runtime[0], address, &program->endpoint[i]),
			TOW_OK);
	}
	assert_int_equal(tow_endpoint_open(program->runtime[0], "loop://nowhere", &nowhere),
			 TOW_OK);
	assert_int_equal(tow_accept_start(nowhere, NULL, &clock_op), TOW_OK);
	return true;
}

static void pass_sim(struct twt_program *program, uint64_t ns)
{
	int status = tow_op_wait(clock_op, ns);

	twt_program_check(program, status == TOW_ETIMEDOUT, "the clock says %s",
			  tow_status_name(status));
}

static uint64_t now_sim(const struct twt_program *program)
{
	return twi_runtime_engine(program->runtime[0])->virtual_ns;
}

/* The link is dark, cut or lost. Its ends may not know yet. */
static bool down_sim(const struct twt_program *program, int a, int b)
{
	const struct twi_loop_peer *peer =
		twi_container_of(program->peers[a][b], struct twi_loop_peer, base);

	return peer->link == NULL || peer->link->dark || peer->link->cut || peer->base.ended != 0 ||
	       program->peers[b][a]->ended != 0;
}

static void let_clock_go(struct twt_program *program)
{
	(void)program;
	assert_int_equal(tow_endpoint_close(nowhere), TOW_OK);
	assert_int_equal(tow_op_release(clock_op), TOW_OK);
}

static void close_sim(struct twt_program *program)
{
	twt_program_check(program, tow_runtime_close(program->runtime[0]) == TOW_OK, "close: %s",
			  tow_error_message());
}

const struct twt_program_stage twt_program_sim = {
	.open = open_sim,
	.pass = pass_sim,
	.now = now_sim,
	.down = down_sim,
	.let_go = let_clock_go,
	.close = close_sim,
	.rest_ns = 10000 * MS,
	.acts_max = TWT_PROGRAM_ACTS,
};
