/*
 * test_plan_faults.c - the Nth allocation of a builder fails: TOW_ENOMEM and a message, for every
 * row and kind, and the next build works. What a failed build leaves behind, the heap's size would
 * tell.
 */
#include "twt.h"

#include "fault.h"

#include <malloc.h>
#include <string.h>

#include <towline/status.h>

#include "transport/coll/plan/plan.h"

#define RANKS 40u

static uint64_t counts[RANKS];
static uint32_t hosts[RANKS], locals[RANKS];

static struct twi_plan_case a_case(const struct twi_plan_row *row, int kind)
{
	uint32_t here = row->local ? RANKS : RANKS / 2;
	struct twi_plan_case what = { .kind = (enum twi_coll_kind)kind,
				      .type = TOW_F32,
				      .ranks = RANKS,
				      .count = 100,
				      .target = 1,
				      .source = 1,
				      .send_counts = counts,
				      .recv_counts = counts,
				      .locals = locals,
				      .locals_n = here,
				      .hosts = hosts,
				      .hosts_n = 2,
				      .cell_bytes = 1 << 20,
				      .segment_bytes = 1000,
				      .depth = 2 };

	for (uint32_t r = 0; r < RANKS; r++) {
		counts[r] = r;
		locals[r] = r;
		hosts[r] = r >= RANKS / 2;
	}
	return what;
}

/* How many allocations a build has; each of them fails once. */
static int fail_each(const struct twi_plan_row *row, const struct twi_plan_case *what)
{
	int nth = 0;
	bool hit;

	do {
		struct twi_plan *plan = NULL;
		int status;

		twt_fault_arm(TWT_CALLOC, ++nth);
		status = twi_plan_build(row, what, &plan);
		hit = twt_fault_off();
		assert_int_equal(status, hit ? TOW_ENOMEM : TOW_OK);
		assert_true(hit == (plan == NULL));
		if (hit)
			assert_non_null(strstr(tow_error_message(), "no memory for a plan"));
		twi_plan_free(plan);
		assert_true(nth < 100);
	} while (hit);
	return nth - 1;
}

static void every_allocation(void **state)
{
	int built = 0;

	(void)state;
#ifdef TWT_SANITIZED
	print_message("sanitizers keep calloc for themselves: it never fails here\n");
	skip();
#endif
	for (unsigned i = 0; i < twi_plan_row_count; i++) {
		for (int kind = 0; kind < TWI_COLL_KINDS; kind++) {
			struct twi_plan_case what = a_case(&twi_plan_rows[i], kind);
			size_t before;

			if (!twi_plan_fits(&twi_plan_rows[i], &what))
				continue;
			/* Until the allocator's own caches are full. */
			for (int warm = 0; warm < 10; warm++)
				assert_true(fail_each(&twi_plan_rows[i], &what) >= 4);
			before = mallinfo2().uordblks;
			fail_each(&twi_plan_rows[i], &what);
			assert_int_equal(mallinfo2().uordblks, before);
			built++;
		}
	}
	assert_true(built > 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
