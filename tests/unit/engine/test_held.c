/*
 * test_held.c - our own mistakes end the process: what is for the holder of the engine alone and is
 * called by somebody else, an operation that ends twice, a list that is not one. Each is made in a
 * child process, which opens a runtime of its own and must not come back.
 */
#include "child.h"
#include "twt.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/towline.h>

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/shm/shm_ring.h"
#include "transport/op/endpoint.h"
#include "transport/op/message.h"

static struct tow_runtime *runtime;
static struct twi_engine *engine;

static bool open_sim(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	options.max_ops = 16;
	if (twi_runtime_open_sim(&options, &runtime) < 0)
		return false;
	engine = twi_runtime_engine(runtime);
	return true;
}

/* How a trap ends a process: x86, others, where the machine has none. */
static const int traps[] = { SIGILL, SIGTRAP, SIGABRT };

struct deed {
	void (*what)(void);
};

static int play_deed(const void *arg)
{
	const struct deed *deed = arg;

	prctl(PR_SET_DUMPABLE, 0); /* no core file of what is wanted */
	for (size_t i = 0; i < twi_array_count(traps); i++)
		signal(traps[i], SIG_DFL); /* cmocka's are inherited */
	if (!open_sim())
		return 1;
	deed->what();
	return 0;
}

/* How the child ends that opens a runtime and calls `what`: 0, or the signal. */
static int outcome(void (*what)(void))
{
	const struct deed deed = { what };
	int status = twt_child(60, play_deed, &deed);

	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void assert_trapped(void (*what)(void))
{
	int how = outcome(what);

	assert_true(how == traps[0] || how == traps[1] || how == traps[2]);
}

static void only_where_asked(void)
{
#ifndef TWI_DEBUG
	printf("assertions of the data path are off: only sanitized builds have them\n");
	skip();
#endif
}

static const struct twi_op_ops any_ops = { .kind = TWI_OP_CALL, .noun = "test" };

static void take_a_row(void)
{
	twi_op_discard(twi_op_acquire(engine, &any_ops, NULL));
}

static void *by_another(void *arg)
{
	(void)arg;
	take_a_row();
	return NULL;
}

static void in_time(void)
{
	twi_engine_enter(engine);
	take_a_row();
	twi_engine_leave(engine);
}

static void too_late(void)
{
	in_time();
	take_a_row();
}

static void elsewhere(void)
{
	pthread_t thread;

	twi_engine_enter(engine);
	if (pthread_create(&thread, NULL, by_another, NULL) == 0)
		pthread_join(thread, NULL);
	twi_engine_leave(engine);
}

static void not_held(void **state)
{
	(void)state;
	only_where_asked();
	assert_int_equal(outcome(in_time), 0);
	assert_trapped(too_late);
	assert_trapped(take_a_row);
	assert_trapped(elsewhere);
}

static void end_once(void)
{
	twi_engine_enter(engine);
	twi_op_complete(twi_op_acquire(engine, &any_ops, NULL), TOW_OK, 0);
	twi_engine_leave(engine);
}

static void end_twice(void)
{
	struct tow_op *op;

	twi_engine_enter(engine);
	op = twi_op_acquire(engine, &any_ops, NULL);
	twi_op_complete(op, TOW_OK, 0);
	twi_op_complete(op, TOW_ECANCELED, 0);
}

static void abort_ended(void)
{
	struct tow_op *op;

	twi_engine_enter(engine);
	op = twi_op_acquire(engine, &any_ops, NULL);
	twi_op_complete(op, TOW_OK, 0);
	op->peer = calloc(1, sizeof(*op->peer)); /* any */
	twi_message_abort(op, TOW_ECANCELED, true);
}

/* In all builds: they are no part of what every message pays, or cost nothing. */
static void ends_once(void **state)
{
	(void)state;
	assert_int_equal(outcome(end_once), 0);
	assert_trapped(end_twice);
	assert_trapped(abort_ended);
}

static void give_back_twice(void)
{
	struct tow_op *op;

	twi_engine_enter(engine);
	op = twi_op_acquire(engine, &any_ops, NULL);
	twi_op_discard(op);
	twi_op_discard(op);
}

static void put_on_two_lists(void)
{
	struct twi_list one, two, entry;

	twi_list_init(&one);
	twi_list_init(&two);
	twi_list_push_back(&one, &entry);
	twi_list_push_back(&two, &entry);
	twi_list_remove(&entry);
	twi_list_remove(one.next); /* the entry, still: it points to itself, and `one` to it */
	twi_list_remove(&one);
}

static void write_past_the_ring(void)
{
	struct twi_shm_shape shape = twi_shm_shape_for(4096);
	struct twi_shm_box mine, theirs;
	struct twi_shm_out out;
	uint64_t bytes = twi_shm_box_bytes(&shape);
	uint8_t *memory = aligned_alloc(4096, twi_align_up(bytes, 4096) * 2);

	if (memory == NULL)
		return;
	memset(memory, 0, twi_align_up(bytes, 4096) * 2);
	twi_shm_box_init(&mine, memory, &shape);
	twi_shm_box_init(&theirs, memory + twi_align_up(bytes, 4096), &shape);
	if (twi_shm_out_init(&out, &mine, &theirs) < 0)
		return;
	for (uint32_t i = 0; i <= shape.slots; i++)
		twi_shm_slot_put(&out, &out.box.slots[i % shape.slots], TWI_SHM_INLINED, 0, 0);
}

static void own_accounts(void **state)
{
	(void)state;
	only_where_asked();
	assert_trapped(give_back_twice);
	assert_trapped(put_on_two_lists);
	assert_trapped(write_past_the_ring);
}

static bool seen_in_callback;

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	(void)op, (void)result;
	seen_in_callback = twi_engine_held(engine);
}

static void *ask(void *arg)
{
	*(bool *)arg = twi_engine_held(engine);
	return NULL;
}

/* What the assertion asks is there in every build. */
static void who_holds(void **state)
{
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = TOW_FOREVER,
						.done = on_done };
	bool other = true;
	struct tow_op *op;
	pthread_t thread;

	(void)state;
	assert_true(open_sim());
	assert_false(twi_engine_held(engine));
	twi_engine_enter(engine);
	assert_true(twi_engine_held(engine));
	assert_int_equal(pthread_create(&thread, NULL, ask, &other), 0);
	pthread_join(thread, NULL);
	assert_false(other);
	op = twi_op_acquire(engine, &any_ops, &options);
	assert_non_null(op);
	twi_op_complete(op, TOW_OK, 0);
	twi_engine_leave(engine);
	assert_true(seen_in_callback);
	assert_false(twi_engine_held(engine));
	assert_int_equal(tow_op_release(op), TOW_OK);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_holds),
		cmocka_unit_test(ends_once),
		cmocka_unit_test(not_held),
		cmocka_unit_test(own_accounts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
