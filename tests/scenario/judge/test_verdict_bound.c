/*
 * test_verdict_bound.c - jobs that go on, and wait for much of their time: a pipeline with a stage
 * that takes four times as long, a ring with such a rank, a server that is slow, exchanges without
 * anything else; and healthy ones of the same shapes. Every rank asks.
 *
 * What is slow is so by far, and sleeps, so that a busy machine makes none of it look otherwise.
 * The other way round it may: so of the healthy ones only that nobody is named.
 *
 * A run plays each over one lane, which the seed says; TOW_TEST_BOUND=all: over both.
 */
#include "beside.h"
#include "client.h"
#include "coll_team.h"
#include "job_lanes.h"

#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include <jansson.h>
#include <pthread.h>
#include <towline/group_message.h>
#include <towline/rpc.h>
#include <towline/step.h>

#define LIMIT_S  25
#define ASK_FROM 3 /* seconds after the start: some are known then */
#define STAGE_US 4000
#define BYTES    4096u
#define AT_ONCE  3
#define STAGES   4u

struct scene {
	const char *name;
	uint32_t ranks;
	void (*step)(struct twt_rank *rank, uint64_t number);
	bool steps;        /* it tells of them */
	const char *state; /* NULL: any */
	const char *cause; /* NULL: nobody is named */
	uint32_t named;    /* the rank */
};

static struct marks {
	_Atomic uint32_t right; /* ranks that have had the verdict, by bit */
	_Atomic int wrong;
	_Atomic uint64_t last; /* the number of the last step; 0: it is not known yet */
} * marks;

static const struct scene *scene;
static unsigned lane;
static char folder[32];
static void *data;

static void twt_end(struct tow_op *op)
{
	TWT_OK(tow_op_wait(op, LIMIT_S * 1000000000ull));
	tow_op_release(op);
}

static void send_to(struct twt_rank *rank, uint32_t to, uint64_t tag)
{
	struct tow_op *op;

	TWT_OK(tow_group_send_start(rank->group, to, data, BYTES, tag, NULL, &op));
	twt_end(op);
}

static void receive_from(struct twt_rank *rank, uint32_t from, uint64_t tag)
{
	struct tow_op *op;

	TWT_OK(tow_group_recv_start(rank->group, from, data, BYTES, tag, NULL, &op));
	twt_end(op);
}

/* Down and up again; a stage that waits does so by a receive. */
static void pass_through(struct twt_rank *rank, uint64_t number, unsigned times)
{
	uint32_t next = rank->rank + 1, last = rank->rank - 1;

	for (unsigned i = 0; i < 3; i++) {
		if (rank->rank > 0)
			receive_from(rank, last, number);
		usleep(STAGE_US * times);
		if (next < rank->ranks)
			send_to(rank, next, number);
	}
	for (unsigned i = 0; i < 3; i++) {
		if (next < rank->ranks)
			receive_from(rank, next, number);
		usleep(STAGE_US * times);
		if (rank->rank > 0)
			send_to(rank, last, number);
	}
}

static void slow_stage(struct twt_rank *rank, uint64_t number)
{
	pass_through(rank, number, rank->rank == 2 ? 4 : 1);
}

static void even_stages(struct twt_rank *rank, uint64_t number)
{
	pass_through(rank, number, 1);
}

/* Each hands on to its right; what it has from its left was on its way meanwhile. */
static void slow_neighbour(struct twt_rank *rank, uint64_t number)
{
	uint32_t right = (rank->rank + 1) % rank->ranks;
	uint32_t left = (rank->rank + rank->ranks - 1) % rank->ranks;
	struct tow_op *op;

	usleep(STAGE_US * (rank->rank == 2 ? 5 : 1));
	TWT_OK(tow_group_recv_start(rank->group, left, data, BYTES, number, NULL, &op));
	send_to(rank, right, number);
	twt_end(op);
}

/* Two clients ask now and then, and rank 0 answers at once. */
static void ask_seldom(struct twt_rank *rank, uint64_t number)
{
	if (rank->rank > 0) {
		usleep(20000);
		send_to(rank, 0, number);
		receive_from(rank, 0, number);
		return;
	}
	for (uint32_t client = 1; client < rank->ranks; client++) {
		receive_from(rank, client, number);
		send_to(rank, client, number);
	}
}

static void serve_slowly(struct tow_call_in *call, void *user)
{
	(void)user;
	usleep(8000);
	TWT_OK(tow_reply_start(call, 0, NULL, 0, NULL, NULL));
}

static void call_slow_server(struct twt_rank *rank, uint64_t number)
{
	struct tow_peer *peer;

	(void)number;
	if (rank->rank == 0) {
		tow_progress(rank->runtime);
		usleep(200);
		return;
	}
	TWT_OK(tow_group_peer(rank->group, 0, &peer));
	TWT_OK(tow_call(peer, "slow", data, 64, data, 64, LIMIT_S * 1000000000ull, NULL));
	usleep(2000);
}

static void exchange_only(struct twt_rank *rank, uint64_t number)
{
	struct tow_op *op;

	(void)number;
	TWT_OK(tow_coll_all_reduce_start(rank->group, data, data, 1 << 20, TOW_F32, TOW_MAX, NULL,
					 &op));
	twt_end(op);
}

/* The same by a program that does not wait: it tests, progresses until it is called, or takes. */
static void test_only(struct twt_rank *rank, uint64_t number)
{
	struct tow_op *op;
	int status;

	(void)number;
	TWT_OK(tow_coll_all_reduce_start(rank->group, data, data, 1 << 20, TOW_F32, TOW_MAX, NULL,
					 &op));
	while ((status = tow_op_test(op)) == TOW_AGAIN)
		;
	TWT_OK(status);
	tow_op_release(op);
}

static void note_end(struct tow_op *op, const struct tow_result *result)
{
	TWT_OK(result->status);
	(void)op;
	atomic_store((atomic_bool *)result->user, true);
}

/* It sleeps for a moment where there is nothing to do. */
static void progress_only(struct twt_rank *rank, uint64_t number)
{
	atomic_bool over = false; /* the library's own thread may call back while this one sleeps */
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *op;

	(void)number;
	options.done = note_end;
	options.user = &over;
	TWT_OK(tow_coll_all_reduce_start(rank->group, data, data, 1 << 20, TOW_F32, TOW_MAX,
					 &options, &op));
	while (!atomic_load(&over))
		if (tow_progress(rank->runtime) == TOW_AGAIN)
			usleep(30);
	tow_op_release(op);
}

static void take_only(struct twt_rank *rank, uint64_t number)
{
	static struct tow_queue *queue;
	struct tow_result result = { .size = sizeof(result) };
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	size_t count = 0;

	(void)number;
	if (queue == NULL)
		TWT_OK(tow_queue_open(rank->runtime, 4, &queue));
	options.queue = queue;
	TWT_OK(tow_coll_all_reduce_start(rank->group, data, data, 1 << 20, TOW_F32, TOW_MAX,
					 &options, NULL));
	while (count == 0)
		TWT_TRUE(tow_queue_take(queue, &result, 1, &count) != TOW_EINVAL);
	TWT_OK(result.status);
}

/* A queue's descriptor, or a callback of the library's thread, says when it is over. */
static void end_told(struct tow_queue *queue, sem_t *over, unsigned count)
{
	struct tow_result result = { .size = sizeof(result) };
	size_t taken;
	int fd;

	while (queue == NULL && count > 0)
		count -= sem_wait(over) == 0;
	if (queue != NULL)
		TWT_OK(tow_queue_fd(queue, &fd));
	while (count > 0) {
		struct pollfd wait = { fd, POLLIN, 0 };

		TWT_TRUE(poll(&wait, 1, LIMIT_S * 1000) == 1);
		if (tow_queue_take(queue, &result, 1, &taken) == TOW_OK)
			count -= (unsigned)taken;
	}
}

static void post_end(struct tow_op *op, const struct tow_result *result)
{
	TWT_OK(result->status);
	TWT_OK(tow_op_release(op));
	sem_post(result->user);
}

/* Even ranks take, odd ones are called back. */
static struct tow_queue *told_by(struct twt_rank *rank, sem_t **over_out)
{
	static struct tow_queue *queue;
	static sem_t over;

	*over_out = &over;
	if (queue == NULL && rank->rank % 2 == 0)
		TWT_OK(tow_queue_open(rank->runtime, 16, &queue));
	return queue;
}

static void slow_neighbour_told(struct twt_rank *rank, uint64_t number)
{
	uint32_t right = (rank->rank + 1) % rank->ranks;
	uint32_t left = (rank->rank + rank->ranks - 1) % rank->ranks;
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;
	sem_t *over;

	options.queue = told_by(rank, &over);
	options.done = options.queue == NULL ? post_end : NULL;
	options.user = over;
	usleep(STAGE_US * (rank->rank == 2 ? 5 : 1));
	TWT_OK(tow_group_recv_start(rank->group, left, data, BYTES, number, &options,
				    options.queue == NULL ? &op : NULL));
	TWT_OK(tow_group_send_start(rank->group, right, data, BYTES, number, &options,
				    options.queue == NULL ? &op : NULL));
	end_told(options.queue, over, 2);
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* What is computed takes longer than the collectives beside it: nobody waits for anybody. */
static void overlap(struct twt_rank *rank, uint64_t number)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	uint64_t begun;
	struct tow_op *op;
	sem_t *over;

	if (number == 1)
		usleep(1000 * rank->rank);
	options.queue = told_by(rank, &over);
	options.done = options.queue == NULL ? post_end : NULL;
	options.user = over;
	begun = now_us();
	for (unsigned i = 0; i < 3; i++)
		TWT_OK(tow_coll_all_reduce_start(rank->group, data, data, 256, TOW_F32, TOW_MAX,
						 &options, options.queue == NULL ? &op : NULL));
	while (now_us() - begun < 3000)
		;
	usleep(STAGE_US * 3);
	end_told(options.queue, over, 3);
}

/* A thread of its own starts collectives, and sleeps; who has asked it sleeps until they end. */
static struct helper {
	struct twt_rank *rank;
	sem_t asked, over;
	_Atomic uint64_t returned; /* starts that it is through with */
	uint64_t wanted;
	bool runs;
} helper;

static void *start_when_asked(void *arg)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *op;

	(void)arg;
	options.done = post_end;
	options.user = &helper.over;
	for (;;) {
		while (sem_wait(&helper.asked) != 0)
			;
		TWT_OK(tow_coll_all_reduce_start(helper.rank->group, data, data, 256, TOW_F32,
						 TOW_MAX, &options, &op));
		atomic_fetch_add(&helper.returned, 1);
	}
	return NULL;
}

/* The thread ends with its process, and is in no call when the runtime is closed. */
static void late_by_helper(struct twt_rank *rank, uint64_t number)
{
	pthread_t thread;

	(void)number;
	if (!helper.runs) {
		helper.rank = rank;
		helper.runs = true;
		TWT_TRUE(pthread_create(&thread, NULL, start_when_asked, NULL) == 0);
		TWT_TRUE(pthread_detach(thread) == 0);
	}
	usleep(STAGE_US * (rank->rank == 1 ? 5 : 1));
	helper.wanted++;
	sem_post(&helper.asked);
	end_told(NULL, &helper.over, 1);
	while (atomic_load(&helper.returned) < helper.wanted)
		sched_yield();
}

static void compute_mostly(struct twt_rank *rank, uint64_t number)
{
	struct tow_op *op;

	(void)number;
	usleep(20000);
	TWT_OK(tow_coll_all_reduce_start(rank->group, data, data, 256, TOW_F32, TOW_MAX, NULL,
					 &op));
	twt_end(op);
}

/* --- asking --- */

static bool is_right(const json_t *root)
{
	const json_t *findings = json_object_get(root, "findings");
	const json_t *finding = json_array_get(findings, 0);
	const char *state = json_string_value(json_object_get(root, "state"));

	if (state == NULL || (scene->state != NULL && strcmp(state, scene->state) != 0))
		return false;
	/*
	 * Jobs that must be slow by nobody's fault do nothing but collectives. Who waits for what
	 * another thread starts has no share.
	 */
	if (strcmp(state, "slow") == 0 && scene->step != late_by_helper &&
	    json_number_value(json_object_get(
		    json_object_get(root, "blocked"),
		    scene->state != NULL && scene->cause == NULL ? "collectives" : "share")) < 0.15)
		return false;
	if (scene->cause == NULL)
		return json_array_size(findings) == 0;
	return json_array_size(findings) == 1 &&
	       strcmp(json_string_value(json_object_get(finding, "cause")), scene->cause) == 0 &&
	       json_array_size(json_object_get(finding, "ranks")) == 1 &&
	       json_integer_value(json_array_get(json_object_get(finding, "ranks"), 0)) ==
		       (json_int_t)scene->named;
}

static bool verdict_right(struct twt_rank *rank, bool tell)
{
	char path[96], *text;
	json_t *root;
	bool right;

	snprintf(path, sizeof(path), "%s/coll-ranks.%u.sock", folder, rank->rank);
	text = twt_talk(twt_dial(path, SOCK_STREAM),
			"GET /v1/verdict HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	root = json_loads(twt_body(text), 0, NULL);
	right = is_right(root);
	if (!right && tell)
		fprintf(stderr, "%s, %s, asked rank %u: %s\n", scene->name, twt_lanes[lane].name,
			rank->rank, text);
	free(text);
	json_decref(root);
	return right;
}

static uint64_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

/*
 * A job of which somebody is to be named is asked until they are, from early on; one of which
 * nobody is, twice.
 */
static void *watch(void *arg)
{
	struct twt_rank *rank = arg;
	uint64_t until = now_s() + LIMIT_S;
	bool right = false;

	sleep(scene->cause != NULL ? 1 : ASK_FROM);
	if (scene->cause == NULL && scene->state == NULL)
		right = verdict_right(rank, true) && verdict_right(rank, true);
	while (!right && now_s() < until && (scene->cause != NULL || scene->state != NULL))
		right = verdict_right(rank, false);
	if (!right && (scene->cause != NULL || scene->state != NULL))
		right = verdict_right(rank, true);
	if (!right)
		atomic_store(&marks->wrong, 1);
	atomic_fetch_or(&marks->right, 1u << rank->rank);
	return NULL;
}

/* All ranks make as many steps: when all have been told, rank 0 says which is the last. */
static bool goes_on(struct twt_rank *rank, uint64_t number)
{
	uint64_t last = atomic_load(&marks->last);

	if (last == 0 && rank->rank == 0 && atomic_load(&marks->right) == (1u << rank->ranks) - 1) {
		last = number + 20; /* none is so far ahead */
		atomic_store(&marks->last, last);
	}
	return last == 0 || number < last;
}

/* The server of a job makes turns, not steps: it ends as the others have. */
static void play(struct twt_rank *rank)
{
	bool serves = scene->step == call_slow_server;
	uint64_t number = 1;
	pthread_t asker;

	TWT_OK(tow_alloc(rank->runtime, 4 << 20, 64, &data));
	memset(data, 0, 4 << 20);
	TWT_OK(tow_method_register(rank->runtime, "slow", serve_slowly, NULL, NULL));
	twt_coll_meet(rank);
	TWT_TRUE(pthread_create(&asker, NULL, watch, rank) == 0);
	for (;
	     serves ? atomic_load(&marks->right) != (1u << rank->ranks) - 1 : goes_on(rank, number);
	     number++) {
		if (scene->steps)
			TWT_OK(tow_step_begin(rank->runtime, number));
		scene->step(rank, number);
		if (scene->steps)
			TWT_OK(tow_step_end(rank->runtime, number));
	}
	pthread_join(asker, NULL);
	TWT_TRUE(atomic_load(&marks->wrong) == 0);
	twt_coll_meet(rank);
	tow_free(rank->runtime, data);
}

static void set_options(struct tow_options *options)
{
	twt_job_lane_options(lane, options);
	options->stats = 1;
	options->stats_dir = folder;
}

static const struct scene scenes[] = {
	{ "a stage is slow", STAGES, slow_stage, true, "slow", "slow_stage", 2 },
	{ "stages are alike", STAGES, even_stages, true, NULL, NULL, 0 },
	{ "workers wait for requests", STAGES, even_stages, false, "healthy", NULL, 0 },
	{ "a neighbour is slow", 4, slow_neighbour, false, "slow", "slow_stage", 2 },
	{ "clients ask seldom", 3, ask_seldom, false, "healthy", NULL, 0 },
	{ "a server is slow", 3, call_slow_server, false, "slow", "slow_server", 0 },
	{ "nothing but exchanges", 2, exchange_only, false, "slow", NULL, 0 },
	{ "exchanges that are tested", 2, test_only, false, "slow", NULL, 0 },
	{ "exchanges that call back", 2, progress_only, false, "slow", NULL, 0 },
	{ "exchanges to a queue", 2, take_only, false, "slow", NULL, 0 },
	{ "a neighbour is slow, ends are told", 4, slow_neighbour_told, false, "slow", "slow_stage",
	  2 },
	{ "a thread starts what another waits for", 3, late_by_helper, false, "slow", "late", 1 },
	/* On a busy machine a rank may be late to them for a while: healthy in the end. */
	{ "collectives beside computing", 3, overlap, true, "healthy", NULL, 0 },
	{ "steps that compute", 3, compute_mostly, true, NULL, NULL, 0 },
};
#define SCENES (sizeof(scenes) / sizeof(scenes[0]))

struct cell {
	size_t scene;
	unsigned lane;
};

static struct cell cells[TWT_BESIDE_MAX];

static void run_cell(void **state)
{
	const struct cell *cell = *state;

	scene = &scenes[cell->scene];
	lane = cell->lane;
	marks = mmap(NULL, sizeof(*marks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_true(marks != MAP_FAILED);
	if (!twt_job_lane(lane))
		skip();
	strcpy(folder, "/tmp/twt-bound-XXXXXX");
	assert_non_null(mkdtemp(folder));
	twt_ranks(&(struct twt_job){ .ranks = scene->ranks,
				     .lane = twt_lanes[lane].address[0],
				     .run = play,
				     .options = set_options });
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(munmap(marks, sizeof(*marks)), 0);
}

/*
 * Each scene over one of the first two lanes, which join processes: the seed says over which, and
 * which scenes, where a sanitizer has the program.
 */
int main(void)
{
	static struct CMUnitTest tests[TWT_BESIDE_MAX];
	static char names[TWT_BESIDE_MAX][80];
	const char *which = getenv("TOW_TEST_BOUND");
	uint64_t seed = twt_seed();
	size_t count = 0;

	for (size_t i = 0; i < 2 * SCENES; i++) {
		if ((which == NULL || strcmp(which, "all") != 0) && (i / 2 + i + seed) % 2 != 0)
			continue;
		if (which == NULL && !twt_case_drawn(seed / 2, i / 2))
			continue;
		cells[i] = (struct cell){ .scene = i / 2, .lane = (unsigned)(i % 2) };
		snprintf(names[i], sizeof(names[i]), "%s, %s", scenes[i / 2].name,
			 twt_lanes[i % 2].name);
		tests[count++] = (struct CMUnitTest){ .name = names[i],
						      .test_func = run_cell,
						      .initial_state = &cells[i] };
	}
	return twt_beside_tests(tests, count, 1, AT_ONCE);
}
