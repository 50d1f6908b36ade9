/* coll_sim.c - random collectives among simulated ranks. */
#include "coll_sim.h"

uint64_t twt_sim_below(struct twt_coll_sim *sim, uint64_t bound)
{
	return twt_random_below(&sim->random, bound);
}

void twt_sim_network(struct twt_coll_sim *sim)
{
	struct twi_loop_config *net = &sim->network;

	*net = (struct twi_loop_config){ .pipe_bytes = 4096u << twt_sim_below(sim, 5) };
	if (twt_sim_below(sim, 4))
		net->delay_min_ns = 1 + twt_sim_below(sim, 50000);
	net->delay_max_ns = net->delay_min_ns;
	if (sim->n > 32)
		return;
	if (net->delay_min_ns)
		net->delay_max_ns += twt_sim_below(sim, 200000);
	net->channels = 1 + (unsigned)twt_sim_below(sim, 2);
	net->announce = twt_sim_below(sim, 2);
	if (twt_sim_below(sim, 3) == 0)
		return;
	net->stall_ns = 1 + twt_sim_below(sim, 100000);
	net->stall = (uint32_t)twt_sim_below(sim, 200);
	net->short_write = (uint32_t)twt_sim_below(sim, 500);
	net->short_read = (uint32_t)twt_sim_below(sim, 500);
	net->break_bytes = 1ull << (10 + twt_sim_below(sim, 12));
	net->reopen_ns = 1 + twt_sim_below(sim, 1000000);
}

void twt_sim_knobs(struct twt_coll_sim *sim)
{
	static const int64_t eager[] = { 0, 64, 1000, 4096, 16384 };
	static const int64_t segments[] = { 4096, 8192, 65536, 1 << 20 };
	struct tow_options *options = &sim->options;

	*options = (struct tow_options)TOW_OPTIONS_INIT;
	options->premap_memory_bytes = 1 << 20;
	options->premap_limit_bytes = 1 << 30;
	options->huge_pages = 0;
	options->stats = 0;
	/* All ranks connect at once, to all others where they are few. */
	options->max_ops = 4096 + (sim->n <= TWT_COLL_FEW ? 8ll * sim->n * sim->n : 128ll * sim->n);
	options->eager_max_bytes = eager[twt_sim_below(sim, 5)];
	options->credit_bytes = 65536ll << 2 * twt_sim_below(sim, 2);
	options->bulk_chunk_bytes = 4096ll << twt_sim_below(sim, 5);
	options->coll_segment_bytes = segments[twt_sim_below(sim, 4)];
	options->coll_depth = 1 + (int64_t)twt_sim_below(sim, 5);
	options->reproducible = sim->n <= TWT_COLL_FEW && twt_sim_below(sim, 4) == 0;
	if (sim->n <= TWT_COLL_FEW && twt_sim_below(sim, 4) == 0)
		options->coll_plan = twi_plan_rows[twt_sim_below(sim, twi_plan_row_count)].name;
}

static void twt_sim_list(struct twt_coll_sim *sim, uint32_t color, uint32_t n)
{
	struct twt_coll_list *list = &sim->batch.lists[sim->batch.lists_n];

	list->seed = twt_coll_hash(sim->seed, 1000 + sim->batch.lists_n++);
	list->world =
		(struct twt_coll_world){ .n = n,
					 .reproducible = sim->options.reproducible == 1,
					 .segment_bytes = (uint64_t)sim->options.coll_segment_bytes,
					 .depth = (uint32_t)sim->options.coll_depth,
					 .bytes_max = sim->n > 100 ? 1 << 20 : 2 << 20 };
	list->members = twt_coll_array(n, sizeof(*list->members));
	list->groups = twt_coll_array(n, sizeof(struct tow_group *));
	for (uint32_t r = 0; r < sim->n; r++) {
		if (color > 0 && r % sim->colors + 1 != color)
			continue;
		list->members[list->here] = list->here;
		list->groups[list->here++] = color == 0 ? sim->world[r] : sim->part[r];
	}
}

/* Ranks of one colour, by remainder, in ascending order. */
static void twt_sim_split(struct twt_coll_sim *sim)
{
	uint32_t *members = twt_coll_array(sim->n, sizeof(*members));

	for (uint32_t color = 0; color < sim->colors; color++) {
		uint32_t n = 0;

		for (uint32_t r = color; r < sim->n; r += sim->colors)
			members[n++] = r;
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(twi_group_split_sim(sim->world[members[i]], color + 1,
							     members, n, &sim->part[members[i]]),
					 TOW_OK);
		twt_sim_list(sim, color + 1, n);
	}
	free(members);
}

void twt_sim_open(struct twt_coll_sim *sim)
{
	struct twt_coll_batch *batch = &sim->batch;

	sim->addresses = twt_coll_array(sim->n, sizeof(*sim->addresses));
	sim->world = twt_coll_array(sim->n, sizeof(struct tow_group *));
	sim->part = twt_coll_array(sim->n, sizeof(struct tow_group *));
	if (twi_runtime_open_sim(&sim->options, &batch->runtime) != TOW_OK) {
		fprintf(stderr, "open: %s\n", tow_error_message());
		abort();
	}
	twi_loop_configure(twi_runtime_engine(batch->runtime), &sim->network);
	for (uint32_t r = 0; r < sim->n; r++)
		snprintf(sim->addresses[r], TOW_ADDRESS_MAX, "loop://rank%u", r);
	for (uint32_t r = 0; r < sim->n; r++)
		assert_int_equal(twi_group_open_sim(batch->runtime, r, sim->n, sim->addresses,
						    &sim->world[r]),
				 TOW_OK);
	twt_sim_list(sim, 0, sim->n);
	if (sim->colors > 0)
		twt_sim_split(sim);
}

void twt_sim_close(struct twt_coll_sim *sim)
{
	for (uint32_t l = 0; l < sim->batch.lists_n; l++) {
		free(sim->batch.lists[l].members);
		free(sim->batch.lists[l].groups);
	}
	assert_int_equal(tow_runtime_close(sim->batch.runtime), TOW_OK);
	free(sim->addresses);
	free(sim->world);
	free(sim->part);
}
