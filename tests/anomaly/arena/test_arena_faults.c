/*
 * test_arena_faults.c - the Nth mapping or heap allocation fails while an arena is made or used.
 *
 * N grows until it is no longer reached. Each time the arena either works or says TOW_ENOMEM or
 * TOW_EEXHAUSTED, and no mapping of its extent's side tables stays behind. jemalloc's own mappings
 * fail for want of address space (RLIMIT_AS), in steps of 256 KiB.
 */
#include "twt.h"

#include "fault.h"

#include <sys/resource.h>

#include "memreg/arena/arena.h"
#include "memreg/region/lease.h"
#include <towline/status.h>

#define BYTES ((uint64_t)64 << 20)

static char *extent;

/* Makes an arena, uses it, ends it; the first failure. */
static int use(const struct twi_arena_ops *ops)
{
	static const size_t size[] = { 64, 5000, 14000, 1 << 20 };
	struct twi_arena_stats stats;
	struct twi_block block;
	void *arena, *p;
	int status = ops->create(extent, BYTES, &arena);

	if (status != TOW_OK) {
		assert_null(arena);
		return status;
	}
	for (size_t i = 0; status == TOW_OK && i < sizeof(size) / sizeof(size[0]); i++) {
		status = ops->alloc(arena, size[i], 64, &p);
		if (status != TOW_OK)
			break;
		assert_int_equal(ops->find(arena, (char *)p + size[i] - 1, &block), TOW_OK);
		assert_ptr_equal(block.base, p);
		twi_hold_free(block.hold);
		ops->give(arena, p);
	}
	ops->stats(arena, &stats);
	assert_int_equal(stats.largest_free_bytes, BYTES);
	ops->destroy(arena);
	return status;
}

static void every_nth(const struct twi_arena_ops *ops, enum twt_fault call)
{
	int nth = 1, maps;

	assert_int_equal(use(ops), TOW_OK);
	maps = twt_map_count("");
	for (bool hit = true; hit; nth++) {
		int status;

		assert_true(nth < 1000);
		twt_fault_arm(call, nth);
		status = use(ops);
		hit = twt_fault_off();
		assert_true(status == TOW_OK ||
			    (hit && (status == TOW_ENOMEM || status == TOW_EEXHAUSTED)));
	}
	printf("%s: %d calls were made to fail\n", ops->name, nth - 2);
	assert_int_equal(use(ops), TOW_OK);
	/* The heap behind may have taken a mapping or two for itself. */
	assert_true(twt_map_count("") <= maps + 2);
}

static void pagerun_calloc(void **state)
{
	(void)state;
	every_nth(&twi_arena_pagerun, TWT_CALLOC);
}

static void skip_without_jemalloc(void)
{
	if (twi_arena_jemalloc_refusal() == NULL)
		return;
	printf("skipped: %s\n", twi_arena_jemalloc_refusal());
	skip();
}

static void jemalloc_calloc(void **state)
{
	(void)state;
	skip_without_jemalloc();
	every_nth(&twi_arena_jemalloc, TWT_CALLOC);
}

static void jemalloc_mmap(void **state)
{
	(void)state;
	skip_without_jemalloc();
	every_nth(&twi_arena_jemalloc, TWT_MMAP);
}

/* Bytes of address space this process has. */
static uint64_t address_space(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%llu", &pages), 1);
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void jemalloc_little_address_space(void **state)
{
	const struct twi_arena_ops *ops = &twi_arena_jemalloc;
	struct rlimit before, limit;
	int status = TOW_ENOMEM, refused = 0;

	(void)state;
	skip_without_jemalloc();
	assert_int_equal(use(ops), TOW_OK);
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	for (uint64_t more = 0; status != TOW_OK; more += 256 << 10) {
		assert_true(more < BYTES);
		limit = before;
		limit.rlim_cur = address_space() + more;
		assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
		status = use(ops);
		assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
		assert_true(status == TOW_OK || status == TOW_ENOMEM);
		refused += status != TOW_OK;
	}
	printf("%s: %d times there was too little\n", ops->name, refused);
	assert_true(refused > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pagerun_calloc),
		cmocka_unit_test(jemalloc_calloc),
		cmocka_unit_test(jemalloc_mmap),
		cmocka_unit_test(jemalloc_little_address_space),
	};
	char *memory = mmap(NULL, BYTES + TWI_ALIGN_MAX, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	/* Never touched: no provider needs to. */
	if (memory == MAP_FAILED)
		return 1;
	extent = (char *)(((uintptr_t)memory + TWI_ALIGN_MAX - 1) & ~(TWI_ALIGN_MAX - 1));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
