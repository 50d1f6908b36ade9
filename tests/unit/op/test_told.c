/*
 * test_told.c - how long a thread is blocked that sleeps until it is told: by a callback on the
 * library's own thread, a queue's descriptor, or its tow_fd; over each lane. What it sleeps for
 * something else is none of it, also where its operation ends meanwhile. Never is more counted than
 * the test has seen; of what it has seen most is counted, in one of several turns at least, as a
 * busy machine has threads sleep in between. Where the thread slept for something else first, its
 * last sleep counts from when the library's thread first saw it. Who sleeps on its tow_fd and tests
 * is woken for another message before, as for each but the last of a collective.
 */
#include "twt.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "lane_pair.h"

#define COMES_US    8000  /* after which the message is sent */
#define COMES_LATE  40000 /* where it has slept for something else before, for this long: */
#define DOZE_US     2000
#define ELSE_US     25000 /* for which the thread sleeps for something else */
#define TURNS       60u
#define SLEEP_TURNS 6u
#define ENOUGH      4u /* turns of who tests: once it happens that it ends the message itself */
#define SLACK_NS    1000000u

enum way { CALLED, TAKES, DRIVES, TESTS, WAYS };
enum meanwhile { NOTHING, COMPUTES, DOZES, SLEEPS, MEANWHILES };

/* As compared with what there was. */
enum counted { LESS, MOST, MORE };

static const char *const way_names[WAYS] = { "is called", "takes", "drives", "tests" };
static const char *const meanwhile_names[MEANWHILES] = { "nothing", "work", "a short sleep",
							 "another sleep" };

static struct twt_lane_pair pair;
static struct tow_queue *queue;
static sem_t semaphore;
static atomic_bool called;
static bool driven_counted[WAYS]; /* on some lane */
static char word[8], word_before[8];

/* The library's thread counts when it has told, before it gives the engine back. */
static uint64_t blocked_ns(void)
{
	struct twi_engine *engine = twi_runtime_engine(pair.runtime[1]);

	twi_engine_enter(engine);
	twi_engine_leave(engine);
	return twi_counter_sum(engine->diag, TWI_C_wait_ns);
}

static void note_call(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	assert_int_equal(result->status, TOW_OK);
	called = true;
	sem_post(&semaphore);
}

struct later {
	useconds_t comes_us;
	bool in_two; /* and another message in the middle of that time */
};

static void send_after(useconds_t us, uint64_t tag)
{
	struct tow_op *op;
	int status;

	usleep(us);
	TWT_OK(tow_send_start(pair.peer[0], "1234567", 8, tag, NULL, &op));
	while ((status = tow_op_test(op)) == TOW_AGAIN)
		usleep(50);
	TWT_OK(status);
	TWT_OK(tow_op_release(op));
}

static void *send_later(void *arg)
{
	const struct later *later = arg;

	if (later->in_two)
		send_after(later->comes_us / 2, 2);
	send_after(later->in_two ? later->comes_us / 2 : later->comes_us, 1);
	return NULL;
}

static void await_fd(int fd)
{
	struct pollfd wait = { fd, POLLIN, 0 };

	assert_int_equal(poll(&wait, 1, 10000), 1);
}

/* Until it has come; how long that took. */
static uint64_t sleep_for_it(enum way way, struct tow_op *op, int fd)
{
	struct tow_result result = { .size = sizeof(result) };
	uint64_t from = twi_now_ns();
	size_t count = 0;

	if (way == CALLED)
		assert_int_equal(sem_wait(&semaphore), 0);
	while (way == TAKES && count == 0) {
		await_fd(fd);
		assert_true(tow_queue_take(queue, &result, 1, &count) != TOW_EINVAL);
	}
	while (way == DRIVES || way == TESTS) {
		tow_progress(pair.runtime[1]);
		if (way == DRIVES ? called : tow_op_test(op) == TOW_OK)
			break;
		await_fd(fd);
	}
	return twi_now_ns() - from;
}

static uint64_t cpu_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * TWT_SECOND + (uint64_t)now.tv_nsec;
}

/* For how long the thread had no CPU while it worked: a hypervisor takes some, too. */
static uint64_t do_meanwhile(enum meanwhile meanwhile)
{
	uint64_t from = twi_now_ns(), cpu = cpu_now();

	if (meanwhile == SLEEPS || meanwhile == DOZES)
		usleep(meanwhile == DOZES ? DOZE_US : ELSE_US);
	while (meanwhile == COMPUTES && twi_now_ns() - from < COMES_US * 500ull)
		;
	return meanwhile == COMPUTES ? twi_now_ns() - from - (cpu_now() - cpu) : 0;
}

/* One message. */
static enum counted play_turn(enum way way, enum meanwhile meanwhile, int fd)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	uint64_t before = blocked_ns(), took, counted;
	struct later later = { meanwhile == DOZES ? COMES_LATE : COMES_US, way == TESTS };
	struct tow_op *op = NULL, *first = NULL;
	pthread_t sender;

	called = false;
	options.done = way == TAKES || way == TESTS ? NULL : note_call;
	options.queue = way == TAKES ? queue : NULL;
	assert_int_equal(pthread_create(&sender, NULL, send_later, &later), 0);
	if (way == TESTS)
		TWT_OK(tow_recv_start(pair.peer[1], word_before, 8, 2, NULL, &first));
	TWT_OK(tow_recv_start(pair.peer[1], word, sizeof(word), 1, &options,
			      way == TAKES ? NULL : &op));
	took = do_meanwhile(meanwhile);
	took += sleep_for_it(way, op, fd);
	pthread_join(sender, NULL);
	if (way == DRIVES)
		sem_wait(&semaphore);
	if (way == TESTS)
		assert_int_equal(tow_op_test(first), TOW_OK);
	if (way == TESTS)
		TWT_OK(tow_op_release(first));
	if (op != NULL)
		TWT_OK(tow_op_release(op));
	counted = blocked_ns() - before;
	if (counted <= took + SLACK_NS)
		return counted * 2 >= took ? MOST : LESS;
	if (meanwhile != SLEEPS) /* a sleep that ends as the message comes may be taken for that */
		fail_msg("%s: who %s, with %s meanwhile, was blocked for %.1f ms, not for %.1f",
			 pair.lane->name, way_names[way], meanwhile_names[meanwhile],
			 (double)counted / 1e6, (double)took / 1e6);
	return MORE;
}

/*
 * What it slept for something else is not told from what it slept for this. And of the operations
 * of a thread with a tow_fd the library's own may be the first to hear, as both are woken: so of
 * these it is asked of all lanes together.
 */
static void expect_counted(enum way way, enum meanwhile meanwhile, int fd)
{
	unsigned turns = meanwhile == SLEEPS ? SLEEP_TURNS : TURNS, more = 0, most = 0;

	for (unsigned i = 0; i < turns; i++) {
		enum counted counted = play_turn(way, meanwhile, fd);

		more += counted == MORE;
		most += counted == MOST && i > 0;
		if (most < (way == TESTS ? ENOUGH : 1) || meanwhile == SLEEPS)
			continue;
		driven_counted[way] = true;
		return;
	}
	if (more == turns || (meanwhile != SLEEPS && way < DRIVES))
		fail_msg("%s: who %s, with %s meanwhile, is %s blocked", pair.lane->name,
			 way_names[way], meanwhile_names[meanwhile], more > 0 ? "always" : "never");
}

/*
 * Who was woken by a message that it asks for later computes beside what it starts then, and asks
 * for that in between: the sleep was before it. Less than half of that time is to count; of a turn
 * in which the thread had no CPU for much of the time nothing is said.
 */
static enum counted started_later(int fd)
{
	struct later later = { COMES_US * 2, true };
	struct tow_op *first, *op;
	uint64_t from, before, cpu;
	pthread_t sender;
	int status;

	TWT_OK(tow_recv_start(pair.peer[1], word_before, 8, 2, NULL, &first));
	assert_int_equal(pthread_create(&sender, NULL, send_later, &later), 0);
	while (tow_progress(pair.runtime[1]) != TOW_OK)
		await_fd(fd);
	from = twi_now_ns();
	cpu = cpu_now();
	before = blocked_ns();
	TWT_OK(tow_recv_start(pair.peer[1], word, sizeof(word), 1, NULL, &op));
	do {
		for (uint64_t at = twi_now_ns(); twi_now_ns() - at < 100000;)
			;
		status = tow_op_test(op);
	} while (status == TOW_AGAIN);
	TWT_OK(status);
	from = twi_now_ns() - from;
	cpu = cpu_now() - cpu;
	before = blocked_ns() - before;
	pthread_join(sender, NULL);
	while ((status = tow_op_test(first)) == TOW_AGAIN)
		usleep(50);
	TWT_OK(status);
	TWT_OK(tow_op_release(first));
	TWT_OK(tow_op_release(op));
	if (cpu * 10 < from * 9)
		return MOST;
	return before * 2 < from ? LESS : MORE;
}

static void expect_later(int fd)
{
	unsigned right = 0, wrong = 0;

	for (unsigned i = 0; i < TURNS && right < 3; i++) {
		enum counted counted = started_later(fd);

		wrong += counted == MORE;
		right = counted == MORE ? 0 : right + (counted == LESS);
	}
	if (right < 3 && wrong > 0)
		fail_msg("%s: a sleep counts for what was started after it, %u times",
			 pair.lane->name, wrong);
}

static void play_lane(enum way way)
{
	int fd = -1;

	if (way == TAKES)
		TWT_OK(tow_queue_fd(queue, &fd));
	if (way >= DRIVES)
		TWT_OK(tow_fd(pair.runtime[1], &fd));
	for (enum meanwhile meanwhile = 0; meanwhile < MEANWHILES; meanwhile++) {
		if (way < DRIVES || meanwhile != DOZES) /* of which nothing is known */
			expect_counted(way, meanwhile, fd);
	}
	if (way == TESTS)
		expect_later(fd);
}

static void test_lane(void **state)
{
	twt_lane_init(&pair, *state);
	pair.options[0].background = pair.options[1].background = 1;
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	assert_int_equal(sem_init(&semaphore, 0, 0), 0);
	TWT_OK(tow_queue_open(pair.runtime[1], 4, &queue));
	for (enum way way = 0; way < WAYS; way++)
		play_lane(way);
	TWT_OK(tow_queue_close(queue));
	sem_destroy(&semaphore);
	twt_lane_close(&pair);
}

static void test_driven(void **state)
{
	(void)state;
	assert_true(driven_counted[DRIVES]);
	assert_true(driven_counted[TESTS]);
}

int main(void)
{
	struct CMUnitTest tests[TWT_LANE_ROWS + 1];
	size_t count = 0;

	for (size_t i = 0; i < TWT_LANE_ROWS; i++) {
		/* The simulator's clock stands still; sides of one runtime have one thread. */
		if (strcmp(twt_lane_rows[i].name, "loop") == 0 || twt_lane_rows[i].one_runtime)
			continue;
		tests[count++] = (struct CMUnitTest){ twt_lane_rows[i].name, test_lane, NULL, NULL,
						      (void *)(uintptr_t)&twt_lane_rows[i] };
	}
	tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_driven);
	return _cmocka_run_group_tests("told", tests, count, NULL, NULL);
}
