/*
 * test_op_rows.c - other threads release the last free rows of a full table of operations, while
 * one thread takes them: none is lost, and none is given twice. ThreadSanitizer sees whether who
 * takes a row may write to it.
 */
#include "twt.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include <towline/towline.h>

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/op_table.h"

#define ROWS    16
#define THREADS 3
#define HANDED  20000

static struct tow_runtime *runtime;
static struct twi_op_table *table;
static struct tow_op *kept[ROWS];
static unsigned kept_count;

struct releaser {
	_Atomic(struct tow_op *) slot;
	uint64_t number;
};

static struct releaser releasers[THREADS];
static _Atomic bool stop;

static int set_up(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	(void)state;
	options.premap_memory_bytes = 2 << 20;
	options.staging_bytes = 0;
	options.stats = 0;
	options.max_ops = ROWS;
	assert_int_equal(twi_runtime_open_sim(&options, &runtime), TOW_OK);
	twi_engine_enter(twi_runtime_engine(runtime)); /* rows are its holder's to take */
	table = twi_runtime_engine(runtime)->ops;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	twi_engine_leave(twi_runtime_engine(runtime));
	return tow_runtime_close(runtime);
}

static struct tow_op *take_published(void)
{
	struct tow_op *op = twi_op_table_take(table);

	if (op == NULL)
		return NULL;
	op->tag = THREADS;
	atomic_store(&op->wait.state, TWI_OP_USED);
	twi_op_table_put_ended(table, op);
	atomic_store(&op->wait.state, TWI_OP_USED | TWI_OP_DONE);
	return op;
}

static void *release_handed(void *arg)
{
	struct releaser *self = arg;

	for (;;) {
		bool over = atomic_load(&stop);
		struct tow_op *op = atomic_exchange(&self->slot, NULL);

		if (op != NULL) {
			op->tag = self->number;
			twi_op_table_release(table, op);
		} else if (over) {
			return NULL;
		} else {
			sched_yield();
		}
	}
}

static void hand_out(void)
{
	for (int i = 0; i < HANDED;) {
		struct tow_op *op = take_published(), *none = NULL;

		if (op == NULL) { /* all are with the others: one of them comes back */
			sched_yield();
			continue;
		}
		if (atomic_compare_exchange_strong(&releasers[i % THREADS].slot, &none, op))
			i++;
		else
			twi_op_table_release(table, op);
	}
	atomic_store(&stop, true);
}

static unsigned take_all(void)
{
	while (kept_count < ROWS && (kept[kept_count] = take_published()) != NULL)
		kept_count++;
	return kept_count;
}

static void other_threads(void **state)
{
	pthread_t thread[THREADS];
	unsigned room = take_all();

	(void)state;
	assert_in_range(room, THREADS, ROWS);
	for (int i = 0; i < THREADS - 1; i++) /* fewer are free than there are threads */
		twi_op_table_release(table, kept[--kept_count]);
	for (int i = 0; i < THREADS; i++) {
		releasers[i].number = (uint64_t)i;
		assert_int_equal(pthread_create(&thread[i], NULL, release_handed, &releasers[i]),
				 0);
	}
	hand_out();
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(take_all(), room);
	assert_null(take_published());
	while (kept_count > 0)
		twi_op_table_release(table, kept[--kept_count]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(other_threads, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
