/* reduce_case.c - random cases of reductions. */
#include "reduce_case.h"

static uint64_t twt_reduce_below(struct twt_reduce_case *c, uint64_t bound)
{
	return twt_random_below(&c->random, bound);
}

/* Ordinary numbers, the ends of the range, and any bits, NaNs among them. */
static void twt_reduce_element(struct twt_reduce_case *c, enum tow_type type, uint8_t *to)
{
	static const double special[] = { 0, 1, 2, 448, 464, 1e-7, 6e-8, 65504, 3.4e38, 1e-40 };
	unsigned bytes = twt_type_bytes[type];
	uint64_t bits = twt_random(&c->random), way = twt_reduce_below(c, 16);
	double value;

	if (type == TOW_BOOL) {
		bits &= 1;
	} else if (twt_is_float(type) && way > 1) {
		value = way > 4 ? ((double)(bits >> 40) - (1 << 23)) / (1 << 20)
				: special[bits % 10] * (bits >> 63 ? -1 : 1);
		if (way == 4)
			value = bits >> 62 ? value : bits & 1 ? INFINITY : -INFINITY;
		twt_store_float(type, value, to);
		return;
	} else if (way > 8) {
		bits = (bits & 7) - 4; /* few, so that products stay long in the range */
	}
	memcpy(to, &bits, bytes);
}

static uint64_t twt_reduce_count(struct twt_reduce_case *c)
{
	uint64_t way = twt_reduce_below(c, 16);

	return way < 8                           ? twt_reduce_below(c, 70)
	       : way < 15 || c->r.sources_n > 20 ? twt_reduce_below(c, 700)
						 : twt_reduce_below(c, 9000);
}

/* Boxes 0 ... sources - 1 are the sources', the others the results' that are no source. */
static void twt_reduce_place(struct twt_reduce_case *c)
{
	unsigned bytes = twt_type_bytes[c->r.type];
	uint64_t shift = twt_reduce_below(c, 64);
	bool alike = twt_reduce_below(c, 2), aliases = twt_reduce_below(c, 2);

	for (unsigned b = 0; b < c->boxes; b++) {
		uint64_t at = alike ? shift / bytes * bytes : twt_reduce_below(c, 64);
		uint8_t *box = c->memory + b * c->box_bytes + TWT_REDUCE_GUARD + at;
		unsigned m = b - c->r.sources_n;

		if (b < c->r.sources_n)
			c->sources[b] = box;
		else if (aliases && m < c->r.sources_n && twt_reduce_below(c, 2))
			c->results[m] = (void *)(uintptr_t)c->sources[m];
		else
			c->results[m] = box;
	}
}

void twt_reduce_make(struct twt_reduce_case *c, uint64_t seed)
{
	static const uint32_t ranks[] = { 8, 5000, UINT32_MAX };

	*c = (struct twt_reduce_case){ .seed = seed, .random = seed };
	do {
		c->r.type = (enum tow_type)twt_reduce_below(c, TOW_TYPE_COUNT);
		c->r.reduce = (enum tow_reduce)twt_reduce_below(c, TOW_REDUCE_COUNT);
	} while (!twi_reduce_legal(c->r.type, c->r.reduce));
	c->r.sources_n = 1 + (uint32_t)twt_reduce_below(
				     c, twt_reduce_below(c, 20) ? 20 : TWT_REDUCE_SOURCES);
	c->r.results_n = 1 + (uint32_t)twt_reduce_below(c, TWT_REDUCE_RESULTS);
	c->r.ranks = twt_reduce_below(c, 4)
			     ? 1 + (uint32_t)twt_reduce_below(c, ranks[twt_reduce_below(c, 3)])
			     : 0;
	c->r.count = twt_reduce_count(c);
	c->r.stream = twt_reduce_below(c, 2);
	c->r.sources = c->sources;
	c->r.results = c->results;
	c->bytes = c->r.count * twt_type_bytes[c->r.type];
	c->box_bytes = (c->bytes + 64 + 2 * TWT_REDUCE_GUARD + 63) / 64 * 64;
	c->boxes = c->r.sources_n + c->r.results_n;
	c->memory = aligned_alloc(64, c->boxes * c->box_bytes);
	c->before = malloc(c->boxes * c->box_bytes);
	c->want = malloc(c->bytes + 1);
	if (c->memory == NULL || c->before == NULL || c->want == NULL)
		abort();
	for (uint64_t i = 0; i < c->boxes * c->box_bytes; i++)
		c->memory[i] = (uint8_t)twt_random(&c->random);
	twt_reduce_place(c);
	for (uint64_t i = 0; i < c->r.sources_n * c->r.count; i++) {
		unsigned bytes = twt_type_bytes[c->r.type];
		uint8_t *at =
			(uint8_t *)(uintptr_t)c->sources[i / c->r.count] + i % c->r.count * bytes;

		twt_reduce_element(c, twt_part_type(c->r.type), at);
		if (twt_is_complex(c->r.type))
			twt_reduce_element(c, twt_part_type(c->r.type), at + bytes / 2);
	}
	memcpy(c->before, c->memory, c->boxes * c->box_bytes);
	for (uint64_t i = 0; i < c->r.count; i++)
		twt_model(&c->r, i, c->want + i * twt_type_bytes[c->r.type]);
}

void twt_reduce_free(struct twt_reduce_case *c)
{
	free(c->memory);
	free(c->before);
	free(c->want);
}

void twt_reduce_do(struct twt_reduce_case *c, const struct twi_reduce_variant *v)
{
	const void *sources[TWT_REDUCE_SOURCES];
	void *results[TWT_REDUCE_RESULTS];
	uint64_t done = 0, parts = 1 + twt_reduce_below(c, 3);
	unsigned bytes = twt_type_bytes[c->r.type];
	struct twi_reduction r = c->r;

	r.sources = sources;
	r.results = results;
	for (; parts != 0; parts--, done += r.count) {
		r.count = c->r.count - done;
		if (parts > 1)
			r.count = twt_reduce_below(c, r.count + 1);
		for (uint32_t s = 0; s < r.sources_n; s++)
			sources[s] = (const uint8_t *)c->sources[s] + done * bytes;
		for (uint32_t m = 0; m < r.results_n; m++)
			results[m] = (uint8_t *)c->results[m] + done * bytes;
		v->reduce(&r);
	}
}

static int twt_reduce_complain(const struct twt_reduce_case *c, const char *variant,
			       const char *what, uint64_t number)
{
	printf("seed %llu: %s %s-%s-%ux%u of %llu, ranks %u%s: %s %llu\n",
	       (unsigned long long)c->seed, variant, twt_type_names[c->r.type],
	       twt_reduce_names[c->r.reduce], c->r.sources_n, c->r.results_n,
	       (unsigned long long)c->r.count, c->r.ranks, c->r.stream ? ", streams" : "", what,
	       (unsigned long long)number);
	return 1;
}

/* Whether byte i of the memory lies in a result. */
static bool twt_reduce_is_result(const struct twt_reduce_case *c, uint64_t i)
{
	for (uint32_t m = 0; m < c->r.results_n; m++) {
		uint64_t at = (uint64_t)((const uint8_t *)c->results[m] - c->memory);

		if (i - at < c->bytes) /* without a sign */
			return true;
	}
	return false;
}

int twt_reduce_judge(struct twt_reduce_case *c, const char *variant)
{
	unsigned bytes = twt_type_bytes[c->r.type];

	for (uint32_t m = 0; m < c->r.results_n; m++) {
		for (uint64_t i = 0; i < c->r.count; i++) {
			if (!twt_same_element(c->r.type, c->want + i * bytes,
					      (uint8_t *)c->results[m] + i * bytes))
				return twt_reduce_complain(c, variant, "wrong element", i);
		}
	}
	for (uint64_t i = 0; i < c->boxes * c->box_bytes; i++) {
		if (c->memory[i] != c->before[i] && !twt_reduce_is_result(c, i))
			return twt_reduce_complain(c, variant, "overwritten byte", i);
	}
	return 0;
}

int twt_reduce_run(uint64_t seed)
{
	static const struct twi_reduce_variant called = { .name = "as called",
							  .reduce = twi_reduce };
	static struct twt_reduce_case c;
	int wrong;

	twt_reduce_make(&c, seed);
	twt_reduce_do(&c, &called); /* which takes its own way for a few numbers */
	wrong = twt_reduce_judge(&c, called.name);
	for (unsigned v = 0; v < twi_reduce_variant_count && wrong == 0; v++) {
		if (!twi_reduce_variants[v]->usable())
			continue;
		memcpy(c.memory, c.before, c.boxes * c.box_bytes);
		twt_reduce_do(&c, twi_reduce_variants[v]);
		wrong = twt_reduce_judge(&c, twi_reduce_variants[v]->name);
	}
	twt_reduce_free(&c);
	return wrong;
}
