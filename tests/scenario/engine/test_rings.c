/*
 * test_rings.c - operations taken back while their bytes are in a ring, and more threads than there
 * are rings: those without one still start, take back and close.
 */
#include "pair.h"

#include <pthread.h>
#include <semaphore.h>

#include "transport/engine/engine.h"
#include "transport/engine/poller.h"
#include "transport/engine/runtime.h"

#define POOL  (16 << 20)
#define BYTES (8 << 20)

static pthread_barrier_t ready, over;

static void *hold_ring(void *arg)
{
	static pthread_mutex_t one_by_one = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&one_by_one); /* progress gives way to a thread that drives */
	tow_progress(arg);
	pthread_mutex_unlock(&one_by_one);
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&over);
	return NULL;
}

/* Gives `count` rings to threads that live until give_rings. */
static void take_rings(struct tow_runtime *runtime, pthread_t *threads, unsigned count)
{
	pthread_barrier_init(&ready, NULL, count + 1);
	pthread_barrier_init(&over, NULL, count + 1);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hold_ring, runtime), 0);
	pthread_barrier_wait(&ready);
}

static void give_rings(pthread_t *threads, unsigned count)
{
	pthread_barrier_wait(&over);
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&ready);
	pthread_barrier_destroy(&over);
}

static int receive_until_gone(struct twt_side *side, void *arg)
{
	void *memory = malloc(BYTES);
	struct tow_op *op;
	int status;

	(void)arg;
	do {
		TWT_OK(tow_recv_start(side->peer, memory, BYTES, 1, NULL, &op));
		status = twt_finish(op, NULL);
	} while (status == TOW_OK);
	free(memory);
	return status == TOW_EPEER ? 0 : 1;
}

static void *take_back(void *arg)
{
	TWT_OK(tow_op_cancel(arg));
	return NULL;
}

/* A send is taken back by a thread without a ring, while the last driver's sends are unreaped. */
static void test_cancel_without_ring(void **state)
{
	pthread_t threads[TWI_RINGS_MAX], other;
	struct tow_op *op, *last;
	struct twt_side side;
	uint8_t *memory;

	(void)state;
	twt_pair(&side, "tcp://127.0.0.1:0", POOL, receive_until_gone, NULL);
	memory = calloc(1, BYTES);
	take_rings(side.runtime, threads, TWI_RINGS_MAX - 1); /* the last one is this thread's */
	for (int i = 0; i < 200; i++) {
		TWT_OK(tow_send_start(side.peer, memory, BYTES, 1, NULL, &op));
		for (int j = 0; j < i % 40; j++)
			tow_progress(side.runtime);
		assert_int_equal(pthread_create(&other, NULL, take_back, op), 0);
		pthread_join(other, NULL);
		(void)twt_finish(op, NULL);
	}
	TWT_OK(tow_send_start(side.peer, memory, BYTES, 1, NULL, &last));
	TWT_OK(twt_finish(last, NULL));
	give_rings(threads, TWI_RINGS_MAX - 1);
	free(memory);
	assert_int_equal(twt_pair_end(&side), 0);
}

/* The same by the thread that drives: sends that it left unreaped are counted first. */
static void test_cancel_on_its_way(void **state)
{
	struct twt_side side;
	struct tow_op *op;
	uint8_t *memory;

	(void)state;
	twt_pair(&side, "tcp://127.0.0.1:0", POOL, receive_until_gone, NULL);
	memory = calloc(1, BYTES);
	for (int i = 0; i < 400; i++) {
		TWT_OK(tow_send_start(side.peer, memory, BYTES, 1, NULL, &op));
		for (int j = 0; j < i % 8; j++) {
			usleep(100);
			tow_progress(side.runtime);
		}
		TWT_OK(tow_op_cancel(op));
		(void)twt_finish(op, NULL);
	}
	TWT_OK(tow_send_start(side.peer, memory, BYTES, 1, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	free(memory);
	assert_int_equal(twt_pair_end(&side), 0);
}

static void *close_runtime(void *arg)
{
	TWT_OK(tow_runtime_close(arg));
	return NULL;
}

static int linger(struct twt_side *side, void *arg)
{
	(void)side, (void)arg;
	usleep(1500000); /* drives nothing: the other side's end is not answered */
	return 0;
}

/* The thread that closes a runtime need not have a ring. */
static void test_close_without_ring(void **state)
{
	pthread_t threads[TWI_RINGS_MAX], other;
	struct twt_side side;
	int how;

	(void)state;
	twt_pair(&side, "tcp://127.0.0.1:0", POOL, linger, NULL);
	take_rings(side.runtime, threads, TWI_RINGS_MAX - 1);
	TWT_OK(tow_peer_close(side.peer));
	assert_int_equal(pthread_create(&other, NULL, close_runtime, side.runtime), 0);
	pthread_join(other, NULL);
	give_rings(threads, TWI_RINGS_MAX - 1);
	assert_int_equal(waitpid(side.child, &how, 0), side.child);
	assert_int_equal(how, 0);
}

#define LATE 60u

struct late {
	struct tow_runtime *runtime;
	struct twi_engine *engine;
	unsigned took, refused; /* rings; and those that could be taken but for the pause */
	sem_t looked;
	pthread_barrier_t over;
};

/* A thread more than there are rings, when all of them have been idle for long enough. */
static void *come_late(void *arg)
{
	struct late *late = arg;
	struct twi_engine *engine = late->engine;
	uint64_t binding = engine->binding, again = engine->take_again_ns;

	usleep(1200);
	tow_progress(late->runtime);
	if (twi_engine_clock(engine) < again) { /* and it was so all the time */
		assert_int_equal(engine->binding, binding);
		late->refused++;
	} else if (engine->binding != binding) {
		assert_true(engine->take_again_ns > again);
		late->took++;
	}
	sem_post(&late->looked);
	pthread_barrier_wait(&late->over);
	return NULL;
}

/*
 * Without the library's thread a ring may be taken that was idle for a millisecond, which is about
 * what making one costs. Threads in turns must not spend all their time on that: behind each there
 * is a pause of several times what it has cost.
 */
static void test_taking_pauses(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	pthread_t threads[TWI_RINGS_MAX], others[LATE];
	struct late late = { 0 };
	bool costly;

	(void)state;
	options.premap_memory_bytes = POOL;
	options.background = 0;
	TWT_OK(tow_runtime_open(&options, &late.runtime));
	late.engine = twi_runtime_engine(late.runtime);
	sem_init(&late.looked, 0, 0);
	pthread_barrier_init(&late.over, NULL, LATE + 1);
	take_rings(late.runtime, threads, TWI_RINGS_MAX);
	costly = strcmp(late.engine->rings[0]->poller->name, "io_uring") == 0;
	for (unsigned i = 0; i < LATE; i++) { /* one after the other; all live on */
		assert_int_equal(pthread_create(&others[i], NULL, come_late, &late), 0);
		sem_wait(&late.looked);
	}
	printf("%u took a ring, %u came in a pause\n", late.took, late.refused);
	assert_true(late.took > 0);
	if (costly) /* an epoll set costs some 20 us: the pause is over when the next one comes */
		assert_true(late.refused > 0);
	pthread_barrier_wait(&late.over);
	for (unsigned i = 0; i < LATE; i++)
		pthread_join(others[i], NULL);
	give_rings(threads, TWI_RINGS_MAX);
	pthread_barrier_destroy(&late.over);
	sem_destroy(&late.looked);
	TWT_OK(tow_runtime_close(late.runtime));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cancel_on_its_way),
		cmocka_unit_test(test_cancel_without_ring),
		cmocka_unit_test(test_close_without_ring),
		cmocka_unit_test(test_taking_pauses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
