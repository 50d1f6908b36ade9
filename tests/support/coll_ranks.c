/* coll_ranks.c - random collectives among processes. */
#include "coll_ranks.h"

static uint64_t twt_ranks_below(struct twt_ranks *ranks, uint64_t bound)
{
	return twt_random_below(&ranks->random, bound);
}

void twt_ranks_knobs(struct twt_ranks *ranks)
{
	static const int64_t segments[] = { 4096, 20000, 65536, 1 << 20 };
	struct tow_options *options = &ranks->options;

	*options = (struct tow_options)TOW_OPTIONS_INIT;
	options->premap_memory_bytes = 4 << 20;
	options->premap_limit_bytes = 256 << 20;
	options->huge_pages = 0;
	options->stats = 0;
	options->max_ops = 4096;
	options->shm_peer_writes = (int64_t)twt_ranks_below(ranks, 2);
	options->background = (int64_t)twt_ranks_below(ranks, 2);
	options->coll_segment_bytes = segments[twt_ranks_below(ranks, 4)];
	options->coll_depth = 1 + (int64_t)twt_ranks_below(ranks, 5);
	options->reproducible = twt_ranks_below(ranks, 4) == 0;
	if (twt_ranks_below(ranks, 3) == 0)
		options->coll_plan = twi_plan_rows[twt_ranks_below(ranks, twi_plan_row_count)].name;
}

void twt_ranks_init(struct twt_ranks *ranks, uint64_t seed, struct twt_ranks_shared *shared)
{
	*ranks = (struct twt_ranks){ .seed = seed, .random = seed, .shared = shared };
	ranks->lanes = (enum twt_lanes)twt_ranks_below(ranks, TWT_LANES_COUNT);
	ranks->n = 1 + (uint32_t)twt_ranks_below(ranks, 4);
	if (twt_ranks_below(ranks, 4) == 0)
		ranks->n = 5 + (uint32_t)twt_ranks_below(ranks, 4);
	ranks->colors = twt_ranks_below(ranks, 2) ? 0 : 1 + (uint32_t)twt_ranks_below(ranks, 3);
	ranks->windows = 1 + (uint32_t)twt_ranks_below(ranks, 5);
	for (uint32_t r = 0; r < TWT_RANKS_MAX; r++)
		ranks->only_tcp[r] = ranks->lanes == TWT_LANES_MIXED && twt_ranks_below(ranks, 2);
	twt_ranks_knobs(ranks);
}

const char *twt_ranks_lanes(enum twt_lanes lanes)
{
	static const char *const names[] = {
#define TWT_LANES_NAME(name, address) #name,
		TWT_LANES(TWT_LANES_NAME)
#undef TWT_LANES_NAME
	};

	return names[lanes];
}

void twt_ranks_ok(const struct twt_ranks *ranks, const char *what, int status)
{
	if (status == TOW_OK)
		return;
	fprintf(stderr, "rank %u: %s: %s: %s\n", ranks->rank, what, tow_status_name(status),
		tow_error_message());
	_exit(1);
}

void twt_ranks_result(struct twt_coll_batch *batch, const struct twt_coll_case *c, uint32_t rank,
		      uint64_t digest)
{
	struct twt_ranks *ranks = batch->user;
	uint32_t *count = &ranks->shared->ranks[ranks->rank].count;

	(void)rank;
	if (*count >= TWT_RANKS_RESULTS)
		abort();
	ranks->shared->ranks[ranks->rank].results[(*count)++] =
		(struct twt_ranks_result){ c->seed, digest,
					   c->ranks[0].kind == TWI_COLL_ALL_REDUCE };
}

static void twt_ranks_list(struct twt_ranks *ranks, struct tow_group *group, uint32_t color)
{
	struct twt_coll_list *list = &ranks->batch.lists[ranks->batch.lists_n++];

	list->seed = twt_coll_hash(ranks->seed, 1000 + color);
	list->world = (struct twt_coll_world){
		.n = tow_group_size(group),
		.one_host = ranks->lanes == TWT_LANES_SHM || ranks->lanes == TWT_LANES_TOW,
		.reproducible = ranks->options.reproducible == 1,
		.segment_bytes = (uint64_t)ranks->options.coll_segment_bytes,
		.depth = (uint32_t)ranks->options.coll_depth,
		.bytes_max = twt_coll_hash(ranks->seed, 5) % 8 ? 256 << 10 : 8 << 20,
	};
	list->here = 1;
	list->members = twt_coll_array(1, sizeof(*list->members));
	list->groups = twt_coll_array(1, sizeof(struct tow_group *));
	list->members[0] = tow_group_rank(group);
	list->groups[0] = group;
}

void twt_ranks_open(struct twt_ranks *ranks)
{
	static const char *const addresses[] = {
#define TWT_LANES_ADDRESS(name, address) address,
		TWT_LANES(TWT_LANES_ADDRESS)
#undef TWT_LANES_ADDRESS
	};
	struct tow_group_options options = TOW_GROUP_OPTIONS_INIT;
	uint32_t color = ranks->rank % (ranks->colors ? ranks->colors : 1);

	if (ranks->only_tcp[ranks->rank])
		ranks->options.lanes = "tcp";
	twt_ranks_ok(ranks, "runtime", tow_runtime_open(&ranks->options, &ranks->batch.runtime));
	options.rank = ranks->rank;
	options.world_size = ranks->n;
	options.store = ranks->store;
	options.address = addresses[ranks->lanes];
	options.timeout_ns = TWT_RANKS_WAIT_NS;
	twt_ranks_ok(ranks, "group", tow_group_open(ranks->batch.runtime, &options, &ranks->world));
	twt_ranks_list(ranks, ranks->world, 0);
	if (ranks->colors == 0)
		return;
	twt_ranks_ok(ranks, "split",
		     tow_group_split(ranks->world, color, -(int64_t)ranks->rank, TWT_RANKS_WAIT_NS,
				     &ranks->part));
	twt_ranks_list(ranks, ranks->part, 1 + color);
}

/* The life of one rank. */
static int twt_ranks_live(struct twt_ranks *ranks, uint32_t rank, uint64_t order)
{
	alarm(TWT_RANKS_ALARM_S);
	signal(SIGSEGV, SIG_DFL); /* cmocka's would go on with the next test */
	ranks->rank = rank;
	ranks->batch.seed = ranks->seed;
	ranks->batch.order = twt_coll_hash(ranks->seed, order * 100 + rank);
	ranks->batch.result = twt_ranks_result;
	ranks->batch.user = ranks;
	twt_ranks_open(ranks);
	for (uint32_t i = 0; i < ranks->windows; i++) {
		uint32_t cases = 1 + (uint32_t)twt_ranks_below(ranks, TWT_COLL_WINDOW);

		if (twt_batch_below(&ranks->batch, 3) == 0)
			usleep((useconds_t)twt_batch_below(&ranks->batch, 3000));
		if (!twt_batch_window(&ranks->batch, cases, TWT_RANKS_WAIT_NS))
			_exit(1);
	}
	for (uint32_t l = 0; l < ranks->batch.lists_n; l++) {
		free(ranks->batch.lists[l].members);
		free(ranks->batch.lists[l].groups);
	}
	twt_ranks_ok(ranks, "close", tow_group_close(ranks->part));
	twt_ranks_ok(ranks, "close", tow_group_close(ranks->world));
	twt_ranks_ok(ranks, "close", tow_runtime_close(ranks->batch.runtime));
	return 0;
}

bool twt_ranks_run(struct twt_ranks *ranks, uint64_t order)
{
	int fd = twt_store_port(ranks->store, sizeof(ranks->store));
	pid_t children[TWT_RANKS_MAX];
	bool well = true;

	memset(ranks->shared, 0, sizeof(*ranks->shared));
	fflush(NULL);
	for (uint32_t r = 0; r < ranks->n; r++) {
		children[r] = fork();
		if (children[r] < 0)
			abort();
		if (children[r] == 0)
			exit(twt_ranks_live(ranks, r, order));
	}
	for (uint32_t r = 0; r < ranks->n; r++) {
		int status = 0;

		if (waitpid(children[r], &status, 0) != children[r] || status != 0) {
			fprintf(stderr, "rank %u ended with %#x\n", r, (unsigned)status);
			well = false;
		}
	}
	close(fd);
	return well;
}
