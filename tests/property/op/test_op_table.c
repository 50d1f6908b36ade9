/*
 * test_op_table.c - which rows of operations are free, against a plain list of those in use.
 *
 * A row in use is never handed out; a start fails only when all are in use, however they came to be
 * free; and a program that keeps few operations uses few rows. unit/op_rows has other threads that
 * release them.
 */
#include "twt.h"

#include <stdbool.h>

#include <towline/towline.h>

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/op_table.h"

#define MOST  2048 /* the table starts with 512 rows, and a ring for as many */
#define STEPS 400000
#define PHASE 5000 /* steps that fill the table, then as many that empty it */

enum row_is { FREE, STARTED, PUBLISHED };

struct world {
	struct tow_runtime *runtime;
	struct twi_op_table *table;
	uint64_t random;
	uint32_t room; /* rows that are the test's */
	enum row_is is[MOST];
	struct tow_op *used[MOST]; /* in no order */
	uint32_t used_count;
};

static struct world world;

static void open_table(uint32_t max_ops)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct twi_engine *engine;

	world = (struct world){ .random = twt_seed() };
	options.premap_memory_bytes = 2 << 20;
	options.staging_bytes = 0;
	options.stats = 0;
	options.max_ops = max_ops;
	assert_int_equal(twi_runtime_open_sim(&options, &world.runtime), TOW_OK);
	engine = twi_runtime_engine(world.runtime);
	twi_engine_enter(engine);
	world.table = engine->ops;
	world.room = max_ops;
	for (uint32_t i = 0; i < world.table->made; i++)
		world.room -= atomic_load(&world.table->rows[i].wait.state) != 0;
}

static void close_table(void)
{
	twi_engine_leave(twi_runtime_engine(world.runtime));
	assert_int_equal(tow_runtime_close(world.runtime), TOW_OK);
}

static bool start(void)
{
	struct tow_op *op = twi_op_table_take(world.table);

	if (op == NULL)
		return false;
	assert_true(op->index < world.table->count);
	assert_int_equal(world.is[op->index], FREE);
	assert_int_equal(atomic_load(&op->wait.state), 0);
	world.is[op->index] = STARTED;
	atomic_store(&op->wait.state, TWI_OP_USED);
	world.used[world.used_count++] = op;
	return true;
}

static void publish(struct tow_op *op)
{
	twi_op_table_put_ended(world.table, op);
	atomic_store(&op->wait.state, TWI_OP_USED | TWI_OP_DONE);
	world.is[op->index] = PUBLISHED;
}

static void end(uint32_t at)
{
	struct tow_op *op = world.used[at];

	if (world.is[op->index] == PUBLISHED)
		twi_op_table_release(world.table, op);
	else
		twi_op_table_put_free(world.table, op);
	world.is[op->index] = FREE;
	world.used[at] = world.used[--world.used_count];
}

static void end_all(void)
{
	while (world.used_count > 0)
		end(0);
}

static void do_step(unsigned fills, uint32_t room)
{
	uint32_t before = world.used_count, at;

	if (twt_random_below(&world.random, 10) < fills && before < twi_min(room, world.room)) {
		assert_true(start());
		if (twt_random_below(&world.random, 8) != 0)
			publish(world.used[before]);
		return;
	}
	if (before == world.room)
		assert_false(start());
	if (before == 0)
		return;
	at = (uint32_t)twt_random_below(&world.random, before);
	if (world.is[world.used[at]->index] == STARTED && twt_random_below(&world.random, 8) != 0)
		publish(world.used[at]);
	else
		end(at);
}

/*
 * The rows of the beginning turn in the ring first, so that it grows wherever it begins; later
 * phases fill the table or empty it.
 */
static void random_rows(uint32_t max_ops)
{
	open_table(max_ops);
	for (int i = 0; i < STEPS; i++)
		do_step(i / PHASE % 2 == 0 ? 9 : 3, i < PHASE * 4 ? 500 : max_ops);
	end_all();
	for (uint32_t i = 0; i < world.room; i++)
		assert_true(start());
	assert_false(start());
	end_all();
	close_table();
}

static void small(void **state)
{
	(void)state;
	random_rows(16);
}

static void large(void **state)
{
	(void)state;
	random_rows(MOST);
}

/* A window that slides over thousands of messages, beside some that are kept for ever. */
static void few_rows(void **state)
{
	struct tow_op *window[64];

	(void)state;
	open_table(MOST);
	for (int kept = 0; kept < 100; kept++) {
		assert_true(start());
		publish(world.used[world.used_count - 1]);
	}
	for (int i = 0; i < 20000; i++) {
		if (i >= 64)
			twi_op_table_release(world.table, window[i % 64]);
		window[i % 64] = twi_op_table_take(world.table);
		assert_non_null(window[i % 64]);
		atomic_store(&window[i % 64]->wait.state, TWI_OP_USED);
		publish(window[i % 64]);
	}
	assert_in_range(world.table->made, 512, 516);
	for (int i = 0; i < 64; i++)
		twi_op_table_release(world.table, window[i]);
	end_all();
	close_table();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small),
		cmocka_unit_test(large),
		cmocka_unit_test(few_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
