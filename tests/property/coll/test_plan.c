/*
 * test_plan.c - every plan, for any case that it fits, gives what a serial loop gives: random
 * kinds, types, operators, ranks, hosts, counts, roots, segments and depths, played in random legal
 * orders.
 *
 * Floats hold small integers, whose sums are the same in any order, or any numbers: then canonical
 * plans must give the fold from the left, bit by bit, and the others the same at all ranks.
 */
#include "plan_play.h"
#include "plan_reference.h"
#include "plan_rules.h"

#include <towline/status.h>

#define CASES 2500u /* in so many each plan has its turn */
#ifdef TWT_SANITIZED
#define RUN_CASES  1000u
#define MANY_RANKS 250u /* one case of 600 took 63 s with ASan */
#else
#define RUN_CASES  CASES
#define MANY_RANKS 600u
#endif

struct job {
	uint64_t seed, random;
	uint32_t n;
	const struct twi_plan_row *row;
	struct twi_plan_case *cases;
	struct twi_plan **plans;
	struct twt_plan_image *images;
	uint64_t *counts, *offsets; /* n * n each */
	uint64_t *back_counts, *back_offsets;
	uint32_t *hosts, *locals;
	struct tow_coll_pair *pairs;
	uint32_t pair_count;
	bool exact; /* the result does not depend on the order */
};

static uint64_t below(struct job *job, uint64_t bound)
{
	return twt_random_below(&job->random, bound);
}

static void *array(uint64_t n, size_t bytes)
{
	void *made = calloc(n + 1, bytes);

	assert_non_null(made);
	return made;
}

static void shuffle(struct job *job, uint32_t *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		list[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = (uint32_t)below(job, i), was = list[k];

		list[k] = list[i - 1];
		list[i - 1] = was;
	}
}

/* One host for all, one each, equal ones, or any. */
static void choose_hosts(struct job *job)
{
	uint32_t n = job->n, way = (uint32_t)below(job, 5), hosts = 1 + (uint32_t)below(job, n);
	uint32_t used = 0, at = 0, *name = array(n, sizeof(*name));

	for (uint32_t r = 0; r < n; r++) {
		uint32_t host = way < 2    ? 0
				: way == 2 ? r / hosts
				: way == 3 ? r % hosts
					   : (uint32_t)below(job, hosts);

		if (name[host] == 0)
			name[host] = ++used;
		job->hosts[r] = name[host] - 1;
	}
	free(name);
	for (uint32_t host = 0; host < used; host++) {
		uint32_t first = at;

		for (uint32_t r = 0; r < n; r++)
			if (job->hosts[r] == host)
				job->locals[at++] = r;
		for (uint32_t r = 0; r < n; r++)
			if (job->hosts[r] == host) {
				job->cases[r].locals = job->locals + first;
				job->cases[r].locals_n = at - first;
				job->cases[r].hosts = job->hosts;
				job->cases[r].hosts_n = used;
			}
	}
}

static void choose_parts(struct job *job, enum twi_coll_kind kind)
{
	uint32_t n = job->n;
	bool gaps = below(job, 2), to_all = kind == TWI_COLL_ALL_TO_ALL_V;

	for (uint64_t i = 0; i < (uint64_t)n * n; i++) {
		uint64_t row = i / n, column = i % n;

		job->counts[i] = row && !to_all  ? job->counts[column]
				 : below(job, 3) ? below(job, 60)
						 : 0;
		job->back_counts[column * n + row] = job->counts[i];
	}
	for (uint64_t i = 0; i < n; i++) {
		uint64_t end = 0, back = 0;

		for (uint64_t k = i * n; k < (i + 1) * n; k++) {
			job->offsets[k] = end + (k % 3);
			job->back_offsets[k] = back + (k % 2);
			end = job->offsets[k] + job->counts[k];
			back = job->back_offsets[k] + job->back_counts[k];
		}
	}
	for (uint32_t r = 0; r < n; r++) {
		struct twi_plan_case *what = &job->cases[r];
		uint64_t at = to_all ? (uint64_t)r * n : 0;

		what->count = 0;
		what->recv_counts = job->counts + at;
		what->recv_offsets = gaps ? job->offsets + at : NULL;
		if (to_all) {
			what->send_counts = job->back_counts + at;
			what->send_offsets = gaps ? job->back_offsets + at : NULL;
		}
	}
}

static void choose_pairs(struct job *job)
{
	uint32_t *from = array(job->n, sizeof(*from)), *to = array(job->n, sizeof(*to));

	shuffle(job, from, job->n);
	shuffle(job, to, job->n);
	job->pair_count = (uint32_t)below(job, job->n + 1);
	for (uint32_t r = 0; r < job->n; r++)
		job->cases[r].target = job->cases[r].source = -1;
	for (uint32_t i = 0; i < job->pair_count; i++) {
		job->pairs[i] = (struct tow_coll_pair){ from[i], to[i] };
		job->cases[from[i]].target = to[i];
		job->cases[to[i]].source = from[i];
	}
	for (uint32_t r = 0; r < job->n; r++) {
		job->cases[r].pairs = job->pairs;
		job->cases[r].pair_count = job->pair_count;
	}
	free(from);
	free(to);
}

static bool is_float(enum tow_type type)
{
	return type <= TOW_F8E5M2;
}

static void choose_type(struct job *job, struct twi_plan_case *what)
{
	static const enum tow_reduce of_float[] = { TOW_SUM, TOW_PROD, TOW_MIN, TOW_MAX, TOW_AVG };

	do {
		what->type = (enum tow_type)below(job, TOW_TYPE_COUNT);
	} while (twi_coll_kind_reduces(what->kind) &&
		 (what->type >= TOW_C64 || (what->type >= TOW_F16 && what->type <= TOW_F8E5M2)));
	what->reduce = is_float(what->type) ? of_float[below(job, 5)]
					    : (enum tow_reduce)below(job, TOW_REDUCE_COUNT);
	if (what->type == TOW_BOOL)
		what->reduce = TOW_OR;
}

static uint32_t choose_ranks(struct job *job)
{
	uint64_t way = below(job, 500);

	if (way == 0)
		return 100 + (uint32_t)below(job, MANY_RANKS - 99);
	if (way < 100)
		return 1 + (uint32_t)below(job, 40);
	return 1 + (uint32_t)below(job, 9);
}

static void choose_case(struct job *job)
{
	static const uint64_t segments[] = { 1, 64, 200, 1000, 4096, 65536, 1 << 20 };
	struct twi_plan_case what = { .count = below(job, 20) };
	uint64_t size = below(job, 4);

	what.kind = (enum twi_coll_kind)below(job, TWI_COLL_KINDS);
	choose_type(job, &what);
	if (job->n < 100)
		what.count = size == 0   ? what.count
			     : size == 1 ? below(job, 3000 / job->n + 1)
					 : below(job, 300);
	what.in_place = below(job, 2) && what.kind != TWI_COLL_ALL_TO_ALL_V &&
			what.kind != TWI_COLL_PERMUTE && what.kind != TWI_COLL_SEND_RECEIVE;
	if (what.kind == TWI_COLL_BARRIER)
		what.count = 0;
	what.ranks = job->n;
	what.root = (uint32_t)below(job, job->n);
	what.peers_write = below(job, 2);
	what.cell_bytes = 64ull << below(job, 9);
	what.segment_bytes = segments[below(job, 7)];
	what.depth = 1 + (uint32_t)below(job, 5);
	for (uint32_t r = 0; r < job->n; r++) {
		job->cases[r] = what;
		job->cases[r].rank = r;
		if (what.kind != TWI_COLL_ALL_TO_ALL && what.kind != TWI_COLL_BROADCAST)
			job->cases[r].in_place = what.in_place && below(job, 4);
	}
	choose_hosts(job);
	if (what.kind == TWI_COLL_ALL_TO_ALL_V || what.kind == TWI_COLL_ALL_GATHER_V)
		choose_parts(job, what.kind);
	if (what.kind == TWI_COLL_PERMUTE || what.kind == TWI_COLL_SEND_RECEIVE)
		choose_pairs(job);
}

static void init(struct job *job, uint64_t seed)
{
	uint64_t n;

	*job = (struct job){ .seed = seed, .random = seed };
	job->n = choose_ranks(job);
	n = job->n;
	job->cases = array(n, sizeof(*job->cases));
	job->plans = array(n, sizeof(struct twi_plan *));
	job->images = array(n, sizeof(*job->images));
	job->counts = array(n * n, sizeof(uint64_t));
	job->offsets = array(n * n, sizeof(uint64_t));
	job->back_counts = array(n * n, sizeof(uint64_t));
	job->back_offsets = array(n * n, sizeof(uint64_t));
	job->hosts = array(n, sizeof(uint32_t));
	job->locals = array(n, sizeof(uint32_t));
	job->pairs = array(n, sizeof(*job->pairs));
	choose_case(job);
}

static void fini(struct job *job)
{
	free(job->cases);
	free(job->plans);
	free(job->images);
	free(job->counts);
	free(job->offsets);
	free(job->back_counts);
	free(job->back_offsets);
	free(job->hosts);
	free(job->locals);
	free(job->pairs);
}

static void fill(struct job *job, unsigned char *to, uint64_t bytes)
{
	enum tow_type type = job->cases[0].type;
	uint64_t unit = twt_plan_unit(type);

	for (uint64_t at = 0; at < bytes; at += unit) {
		uint64_t value = twt_random(&job->random);
		double number = job->exact ? (double)(value % 3) : (double)(int64_t)value * 1e-18;

		if (job->cases[0].reduce == TOW_PROD)
			number = 1 + number * 1e-3;

		if (type == TOW_F32)
			memcpy(to + at, &(float){ (float)number }, unit);
		else if (type == TOW_F64)
			memcpy(to + at, &number, unit);
		else if (type == TOW_BOOL)
			to[at] = value & 1;
		else
			for (uint64_t k = 0; k < unit; k += sizeof(value))
				memcpy(to + at + k, &value,
				       unit < sizeof(value) ? unit : sizeof(value));
	}
}

static const char *const type_names[] = {
#define NAME(name, value, bytes, text) text,
	TOW_TYPE_MAP(NAME)
#undef NAME
};

static void say(const struct job *job, uint32_t rank, const char *what)
{
	const struct twi_plan_case *of = &job->cases[rank];

	print_error("TOW_TEST_SEED=%llu: %s %s of %u %s %s, rank %u root %u count %llu in_place %d "
		    "hosts %u segment %llu depth %u: %s\n",
		    (unsigned long long)job->seed, job->row->name, twi_coll_kind_name(of->kind),
		    job->n, type_names[of->type], of->peers_write ? "peers write" : "", rank,
		    of->root, (unsigned long long)of->count, of->in_place, of->hosts_n,
		    (unsigned long long)of->segment_bytes, of->depth, what);
	fail();
}

/* Canonical plans and exact numbers: bit by bit. Else near, and the same at all ranks. */
static bool agrees(const struct job *job, const unsigned char *is, const unsigned char *must,
		   uint64_t bytes)
{
	uint64_t unit = twt_plan_unit(job->cases[0].type);

	if (job->exact || job->plans[0]->canonical)
		return memcmp(is, must, bytes) == 0;
	for (uint64_t at = 0; at < bytes; at += unit) {
		float small[2];
		double a, b, gap;

		memcpy(&small[0], is + at, 4);
		memcpy(&small[1], must + at, 4);
		a = small[0];
		b = small[1];
		if (unit == 8) {
			memcpy(&a, is + at, 8);
			memcpy(&b, must + at, 8);
		}
		gap = a > b ? a - b : b - a;
		if (!(gap <= job->n * 1e-4))
			return false;
	}
	return true;
}

static void judge(struct job *job, struct twt_play *play)
{
	for (uint32_t r = 0; r < job->n; r++) {
		const struct twt_plan_memory *memory = &play->ranks[r].memory;
		uint64_t bytes = job->images[r].out_bytes;
		unsigned char *must = array(bytes, 1);

		memcpy(must, job->images[r].out, bytes);
		twt_plan_expect(job->cases, r, job->images, must);
		if (!agrees(job, memory->at[TWI_PLAN_OUT], must, bytes))
			say(job, r, "OUT is wrong");
		if (job->cases[r].kind == TWI_COLL_ALL_REDUCE &&
		    memcmp(memory->at[TWI_PLAN_OUT], play->ranks[0].memory.at[TWI_PLAN_OUT],
			   bytes) != 0)
			say(job, r, "OUT is not that of rank 0");
		if (!twt_plan_in_kept(&job->cases[r], memory, &job->images[r]))
			say(job, r, "IN was written");
		free(must);
	}
}

static void play_row(struct job *job)
{
	struct twt_play play;

	for (uint32_t r = 0; r < job->n; r++) {
		const char *broken;

		if (!twi_plan_fits(job->row, &job->cases[r]))
			say(job, r, "fits rank 0 but not this one");
		if (twi_plan_build(job->row, &job->cases[r], &job->plans[r]) != TOW_OK)
			say(job, r, tow_error_message());
		broken = twt_plan_rules(job->cases, r, job->plans[r], job->plans[0]);
		if (broken != NULL)
			say(job, r, broken);
	}
	job->exact = !is_float(job->cases[0].type) || !twi_coll_kind_reduces(job->cases[0].kind) ||
		     (job->cases[0].reduce != TOW_PROD && below(job, 2));
	twt_play_init(&play, job->cases, job->plans, job->n, twt_random(&job->random));
	for (uint32_t r = 0; r < job->n; r++) {
		struct twt_plan_memory *memory = &play.ranks[r].memory;

		/* The smaller one last: in place it is part of the other. */
		fill(job, memory->at[TWI_PLAN_OUT], memory->bytes[TWI_PLAN_OUT]);
		fill(job, memory->at[TWI_PLAN_IN], memory->bytes[TWI_PLAN_IN]);
	}
	for (uint32_t r = 0; r < job->n; r++)
		twt_plan_image_init(&job->images[r], &play.ranks[r].memory);
	if (!twt_play_run(&play))
		say(job, 0, play.wrong);
	judge(job, &play);
	twt_play_fini(&play);
	for (uint32_t r = 0; r < job->n; r++) {
		twt_plan_image_fini(&job->images[r]);
		twi_plan_free(job->plans[r]);
	}
}

/* Shared memory of hundreds of ranks is nothing to play byte by byte. */
static bool too_large(const struct job *job)
{
	return job->n > 100 && job->cases[0].locals_n > 100;
}

static uint32_t played[64];

static void one_case(uint64_t seed)
{
	struct job job;

	init(&job, seed);
	for (unsigned i = 0; i < twi_plan_row_count; i++) {
		job.row = &twi_plan_rows[i];
		if (!twi_plan_fits(job.row, &job.cases[0]) || (job.row->local && too_large(&job)))
			continue;
		played[i]++;
		play_row(&job);
	}
	fini(&job);
}

static void any_case(void **state)
{
	bool given = getenv("TOW_TEST_SEED") != NULL;
	const char *text = getenv("TOW_PLAN_CASES");
	uint64_t seed = twt_seed(), random = seed;
	uint64_t cases = text != NULL ? strtoull(text, NULL, 0) : RUN_CASES, plays = 0;

	(void)state;
	if (given && text == NULL) {
		one_case(seed);
		return;
	}
	for (uint64_t i = 0; i < cases; i++)
		one_case(twt_random(&random));
	for (unsigned i = 0; i < twi_plan_row_count; i++) {
		printf("%s: %u\n", twi_plan_rows[i].name, played[i]);
		assert_int_not_equal(cases >= CASES && played[i] == 0, 1);
		plays += played[i];
	}
	assert_true(plays > cases);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_case),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
