/* coll_case.c - random cases of collectives. */
#include "coll_case.h"

static uint64_t twt_coll_below(struct twt_coll_case *c, uint64_t bound)
{
	return twt_random_below(&c->random, bound);
}

uint64_t twt_coll_hash(uint64_t a, uint64_t b)
{
	uint64_t state = a * 0x9e3779b97f4a7c15ull ^ b;

	return twt_random(&state);
}

void *twt_coll_array(uint64_t n, size_t bytes)
{
	void *made = calloc(n + 1, bytes);

	assert_non_null(made);
	return made;
}

/* Plans that make a connection of each pair. */
static bool twt_coll_crowds(const struct twi_plan_row *row, enum twi_coll_kind kind)
{
	bool pairs = strcmp(row->name, "direct") == 0 || strcmp(row->name, "exchange") == 0;

	return pairs && (kind == TWI_COLL_ALL_REDUCE || kind == TWI_COLL_REDUCE_SCATTER ||
			 kind == TWI_COLL_ALL_GATHER || kind == TWI_COLL_ALL_GATHER_V);
}

static void twt_coll_choose_kind(struct twt_coll_case *c, struct twi_plan_case *what)
{
	static const enum tow_reduce of_float[] = { TOW_SUM, TOW_PROD, TOW_MIN, TOW_MAX, TOW_AVG };
	bool pairs;

	do {
		what->kind = (enum twi_coll_kind)twt_coll_below(c, TWI_COLL_KINDS);
		if (twt_coll_below(c, 4) == 0)
			what->kind = TWI_COLL_ALL_REDUCE;
		pairs = what->kind == TWI_COLL_ALL_TO_ALL || what->kind == TWI_COLL_ALL_TO_ALL_V ||
			what->kind == TWI_COLL_ALL_GATHER_V;
	} while (pairs && c->n > TWT_COLL_FEW);
	what->type = (enum tow_type)twt_coll_below(c, TOW_TYPE_COUNT);
	do {
		what->reduce = (enum tow_reduce)twt_coll_below(c, TOW_REDUCE_COUNT);
		if (twt_is_float(what->type))
			what->reduce = of_float[twt_coll_below(c, 5)];
	} while (!twi_reduce_legal(what->type, what->reduce));
	c->wild = twt_is_float(what->type) && twt_coll_below(c, 2) &&
		  (what->reduce == TOW_SUM || what->reduce == TOW_AVG);
}

/* Sums that must be exact have factors of one size; of products only the sign may change. */
static void twt_coll_choose_scales(struct twt_coll_case *c, const struct twi_plan_case *what)
{
	static const double exact[] = { 0.5, 2, 1 }, wild[] = { 0.1, -3, 0, 1, 0.001, 0.7 };
	double size = exact[twt_coll_below(c, 3)];

	if (!twi_coll_kind_reduces(what->kind) || !twi_reduce_scales(what->type) ||
	    twt_coll_below(c, 3) != 0)
		return;
	c->scales = twt_coll_array(c->n, sizeof(*c->scales));
	for (uint32_t r = 0; r < c->n; r++) {
		if (c->wild)
			c->scales[r] = wild[twt_coll_below(c, 6)];
		else
			c->scales[r] = (twt_coll_below(c, 2) ? -1 : 1) *
				       (what->reduce == TOW_PROD ? 1 : size);
	}
}

/* 0, 1, odd, a few, or up to what fits into bytes_max. */
static uint64_t twt_coll_choose_count(struct twt_coll_case *c, const struct twt_coll_world *world,
				      const struct twi_plan_case *what)
{
	bool parts = what->kind == TWI_COLL_REDUCE_SCATTER || what->kind == TWI_COLL_ALL_GATHER ||
		     what->kind == TWI_COLL_ALL_TO_ALL;
	uint64_t most = world->bytes_max / c->n / (parts ? c->n : 1) / twt_plan_unit(what->type);
	uint64_t count;

	if (what->kind == TWI_COLL_BARRIER)
		return 0;
	switch (twt_coll_below(c, 8)) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		count = 1 + twt_coll_below(c, 2 * (uint64_t)c->n + 2);
		break;
	case 3:
	case 4:
		count = 1 + 2 * twt_coll_below(c, 500);
		break;
	case 5:
	case 6:
		count = twt_coll_below(c, most / 16 + 2);
		break;
	default:
		count = twt_coll_below(c, most + 2);
	}
	return count < most ? count : most + (most == 0);
}

static void twt_coll_choose_parts(struct twt_coll_case *c, enum twi_coll_kind kind)
{
	uint64_t n = c->n, *counts = c->counts, *offsets = counts + n * n;
	uint64_t *back = offsets + n * n, *back_offsets = back + n * n;
	uint64_t most = twt_coll_below(c, 4) ? 60 : 3000 / n;
	bool gaps = twt_coll_below(c, 2), to_all = kind == TWI_COLL_ALL_TO_ALL_V;

	for (uint64_t i = 0; i < n * n; i++) {
		counts[i] = i >= n && !to_all      ? counts[i % n]
			    : twt_coll_below(c, 3) ? twt_coll_below(c, most)
						   : 0;
		back[i % n * n + i / n] = counts[i];
	}
	for (uint64_t i = 0; i < n; i++) {
		uint64_t end = 0, back_end = 0;

		for (uint64_t k = i * n; k < (i + 1) * n; k++) {
			offsets[k] = end + k % 3;
			back_offsets[k] = back_end + k % 2;
			end = offsets[k] + counts[k];
			back_end = back_offsets[k] + back[k];
		}
	}
	for (uint32_t r = 0; r < n; r++) {
		struct twi_plan_case *what = &c->ranks[r];
		uint64_t at = to_all ? (uint64_t)r * n : 0;

		what->count = 0;
		what->recv_counts = counts + at;
		what->recv_offsets = gaps ? offsets + (to_all ? at : 0) : NULL;
		what->send_counts = to_all ? back + at : NULL;
		what->send_offsets = to_all && gaps ? back_offsets + at : NULL;
	}
}

static void twt_coll_choose_pairs(struct twt_coll_case *c)
{
	uint32_t n = c->n, *from = twt_coll_array(n, sizeof(*from));
	uint32_t *to = twt_coll_array(n, sizeof(*to));

	for (uint32_t i = 0; i < n; i++)
		from[i] = to[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = (uint32_t)twt_coll_below(c, i), l = (uint32_t)twt_coll_below(c, i);
		uint32_t was = from[k], other = to[l];

		from[k] = from[i - 1];
		from[i - 1] = was;
		to[l] = to[i - 1];
		to[i - 1] = other;
	}
	c->pair_count = (uint32_t)twt_coll_below(c, n + 1);
	for (uint32_t r = 0; r < n; r++)
		c->ranks[r].target = c->ranks[r].source = TOW_GROUP_NONE;
	for (uint32_t i = 0; i < c->pair_count; i++) {
		c->pairs[i] = (struct tow_coll_pair){ from[i], to[i] };
		c->ranks[from[i]].target = to[i];
		c->ranks[to[i]].source = from[i];
	}
	for (uint32_t r = 0; r < n; r++) {
		c->ranks[r].pairs = c->pairs;
		c->ranks[r].pair_count = c->pair_count;
	}
	free(from);
	free(to);
}

/* One of those that can serve it; or none, and the library chooses. */
static void twt_coll_choose_plan(struct twt_coll_case *c, const struct twt_coll_world *world)
{
	const struct twi_plan_case *what = &c->ranks[0];
	bool reduces = twi_coll_kind_reduces(what->kind);
	unsigned first = (unsigned)twt_coll_below(c, twi_plan_row_count);

	if (twt_coll_below(c, 3) == 0)
		return;
	for (unsigned i = 0; i < twi_plan_row_count && c->forced == NULL; i++) {
		const struct twi_plan_row *row = &twi_plan_rows[(first + i) % twi_plan_row_count];

		if (twi_plan_fits(row, what) && (!row->local || world->one_host || c->n == 1) &&
		    (!reduces || !world->reproducible || row->canonical) &&
		    (c->n <= TWT_COLL_FEW || !twt_coll_crowds(row, what->kind)))
			c->forced = row;
	}
}

static bool twt_coll_may_join(enum twi_coll_kind kind)
{
	return kind != TWI_COLL_ALL_TO_ALL_V && kind != TWI_COLL_PERMUTE &&
	       kind != TWI_COLL_SEND_RECEIVE && kind != TWI_COLL_BARRIER;
}

void twt_coll_case_init(struct twt_coll_case *c, uint64_t seed, const struct twt_coll_world *world)
{
	uint32_t n = world->n;
	struct twi_plan_case what = { .ranks = n, .cell_bytes = 2032, .peers_write = true };
	bool v, joined;

	*c = (struct twt_coll_case){ .seed = seed, .random = seed, .n = n };
	twt_coll_choose_kind(c, &what);
	what.count = twt_coll_choose_count(c, world, &what);
	what.root = (uint32_t)twt_coll_below(c, n);
	what.segment_bytes = world->segment_bytes;
	what.depth = world->depth;
	joined = twt_coll_below(c, 2) && twt_coll_may_join(what.kind);
	v = what.kind == TWI_COLL_ALL_TO_ALL_V || what.kind == TWI_COLL_ALL_GATHER_V;
	c->priority = twt_coll_below(c, 3) ? 0 : (int32_t)twt_coll_below(c, 5) - 2;
	c->ranks = twt_coll_array(n, sizeof(*c->ranks));
	c->pairs = twt_coll_array(n, sizeof(*c->pairs));
	c->counts = twt_coll_array(v ? 4 * (uint64_t)n * n : 0, sizeof(uint64_t));
	c->locals = twt_coll_array(n, sizeof(uint32_t));
	c->hosts = twt_coll_array(n, sizeof(uint32_t));
	for (uint32_t r = 0; r < n; r++) {
		c->ranks[r] = what;
		c->ranks[r].rank = c->locals[r] = r;
		c->ranks[r].in_place =
			joined && (what.kind == TWI_COLL_ALL_TO_ALL || twt_coll_below(c, 4));
		if (world->one_host) {
			c->ranks[r].locals = c->locals;
			c->ranks[r].locals_n = n;
			c->ranks[r].hosts = c->hosts;
			c->ranks[r].hosts_n = 1;
		}
	}
	if (v)
		twt_coll_choose_parts(c, what.kind);
	if (what.kind == TWI_COLL_PERMUTE || what.kind == TWI_COLL_SEND_RECEIVE)
		twt_coll_choose_pairs(c);
	twt_coll_choose_plan(c, world);
	twt_coll_choose_scales(c, &what);
}

void twt_coll_case_fini(struct twt_coll_case *c)
{
	free(c->ranks);
	free(c->pairs);
	free(c->counts);
	free(c->locals);
	free(c->hosts);
	free(c->scales);
}
