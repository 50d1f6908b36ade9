/*
 * test_verdict_waits.c - jobs in which ranks wait for each other by messages, for real: every rank
 * asks until its verdict is the right one. What hangs stands, so nothing here is a matter of time;
 * after 20 s of wrong verdicts the test has failed. Healthy jobs are asked twice, and name nobody.
 *
 * A run plays a third of its jobs, by its seed: TOW_TEST_SEED=n. TOW_TEST_WAITS=all plays all.
 */
#include "beside.h"
#include "client.h"
#include "coll_team.h"
#include "job_lanes.h"
#include "stuck.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include <jansson.h>
#include <towline/group_message.h>
#include <towline/rpc.h>

#define WARM_UP    20 /* exchanges: something is known of how long they take */
#define LARGE      (1u << 20)
#define MORE       6 /* messages of a pipeline */
#define SMALL_POOL (8u << 20)
#define LIMIT_S    20
#define ASK_TIMES  2 /* of a healthy job */
/* Between two questions of a job that hangs: it is seen to hang after seconds. */
#define ASK_AGAIN_US 20000
#define AT_ONCE      3 /* jobs */

enum way { BY_WAIT, BY_TEST, BY_CALLBACK, BY_FD };
static const char *const ways[] = { "wait", "test", "callback", "fd" };

struct scene {
	const char *name;
	uint32_t ranks;
	void (*hang)(struct twt_rank *rank);
	const char *cause; /* NULL: nobody is named */
	uint32_t named;    /* ranks, by bit */
	const char *words; /* that stand in the evidence */
};

/* Shared by the ranks of a job. */
static struct marks {
	_Atomic uint32_t right; /* ranks that have had the verdict, by bit */
	_Atomic int ready;      /* that have come to the fault */
	_Atomic int over, wrong;
} * marks;

static const struct scene *scene;
static enum way way;
static unsigned lane;
static char folder[32];      /* of the stats sockets */
static _Atomic int finished; /* this rank hangs no more */

static void nap(void)
{
	usleep(2000);
}

/* --- operations, in each way --- */

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	atomic_store((_Atomic int *)result->user, 1);
}

/* What an operation is started with: a callback, if that is the way. */
static const struct tow_op_options *options_for(_Atomic int *done)
{
	static __thread struct tow_op_options options;

	options = (struct tow_op_options)TOW_OP_OPTIONS_INIT;
	atomic_store(done, 0);
	options.done = way == BY_CALLBACK ? on_done : NULL;
	options.user = done;
	return &options;
}

static void drive(struct twt_rank *rank, struct tow_op *op, const _Atomic int *done)
{
	struct pollfd fd = { .events = POLLIN };

	if (way == BY_FD)
		TWT_OK(tow_fd(rank->runtime, &fd.fd));
	while (way == BY_TEST && tow_op_test(op) == TOW_AGAIN)
		nap();
	while (way == BY_CALLBACK && atomic_load(done) == 0)
		nap();
	while (way == BY_FD && tow_op_test(op) == TOW_AGAIN) {
		poll(&fd, 1, 100);
		tow_progress(rank->runtime);
	}
}

/* To its end, or until the test is over. */
static int finish(struct twt_rank *rank, struct tow_op *op, _Atomic int *done)
{
	int status;

	twt_stuck_set(op);
	drive(rank, op, done);
	status = tow_op_wait(op, TOW_FOREVER);
	twt_stuck_set(NULL);
	TWT_TRUE(status == TOW_OK || (atomic_load(&marks->over) != 0 && status < 0));
	tow_op_release(op);
	return status;
}

static int send_to(struct twt_rank *rank, uint32_t to, void *data, uint64_t bytes, uint64_t tag)
{
	_Atomic int done;
	struct tow_op *op;

	TWT_OK(tow_group_send_start(rank->group, to, data, bytes, tag, options_for(&done), &op));
	return finish(rank, op, &done);
}

static int receive_from(struct twt_rank *rank, uint32_t from, void *data, uint64_t bytes,
			uint64_t tag)
{
	_Atomic int done;
	struct tow_op *op;

	TWT_OK(tow_group_recv_start(rank->group, from, data, bytes, tag, options_for(&done), &op));
	return finish(rank, op, &done);
}

static void stay_away(void)
{
	while (atomic_load(&marks->over) == 0)
		nap();
}

/* --- the scenes; `data` is of the pool, and large --- */

static void *data;

static void all_receive_first(struct twt_rank *rank)
{
	uint32_t from = (rank->rank + 1) % rank->ranks;

	receive_from(rank, from, data, 64, 7);
}

static void send_other_tag(struct twt_rank *rank, uint64_t bytes)
{
	if (rank->rank == 0)
		receive_from(rank, 1, data, bytes, 7);
	else if (rank->rank == 1)
		send_to(rank, 0, data, bytes, 8);
	stay_away();
}

static void small_other_tag(struct twt_rank *rank)
{
	send_other_tag(rank, 64);
}

static void large_other_tag(struct twt_rank *rank)
{
	send_other_tag(rank, LARGE);
}

/* A tag that no number of a reader with signed 64 bits holds. */
static void huge_tag(struct twt_rank *rank)
{
	if (rank->rank == 0)
		receive_from(rank, 1, data, 64, UINT64_MAX - 1);
	stay_away();
}

/* Heap memory is sent, so the view needs room on each lane; who receives it holds its pool. */
static void view_without_room(struct twt_rank *rank)
{
	void *heap = calloc(1, LARGE), *most;
	uint64_t bytes = rank->rank == 1 ? SMALL_POOL : 0;
	_Atomic int done;
	struct tow_peer *peer;
	struct tow_op *op;

	TWT_OK(tow_group_connect(rank->group, 1 - rank->rank, 20 * TWT_SECOND, &peer));
	while (bytes > 0 && tow_alloc(rank->runtime, bytes, 64, &most) < 0)
		bytes -= LARGE / 4;
	if (rank->rank == 1)
		TWT_OK(tow_recv_view_start(peer, 7, options_for(&done), &op));
	else
		TWT_OK(tow_send_start(peer, heap, LARGE, 7, options_for(&done), &op));
	finish(rank, op, &done);
	stay_away();
	free(heap);
}

/* Several fused, of which one rank has none. */
static void missing_batch(struct twt_rank *rank)
{
	struct tow_op *ops[2];
	float *at = data;

	if (rank->rank == 1) {
		stay_away();
		return;
	}
	TWT_OK(tow_coll_batch_begin(rank->group));
	for (int i = 0; i < 2; i++)
		TWT_OK(tow_coll_all_reduce_start(rank->group, at + 64 * i, at + 64 * i, 64, TOW_F32,
						 TOW_MAX, NULL, &ops[i]));
	TWT_OK(tow_coll_batch_end(rank->group));
	for (int i = 0; i < 2; i++) {
		twt_stuck_set(ops[i]);
		TWT_TRUE(tow_op_wait(ops[i], TOW_FOREVER) < 0);
		twt_stuck_set(NULL);
		tow_op_release(ops[i]);
	}
}

static void missing_send(struct twt_rank *rank)
{
	if (rank->rank == 0)
		receive_from(rank, 1, data, 64, 7);
	stay_away();
}

static void message_and_collective(struct twt_rank *rank)
{
	struct tow_op *op;

	if (rank->rank == 0) {
		receive_from(rank, 1, data, 64, 7);
		return;
	}
	TWT_OK(tow_coll_barrier_start(rank->group, NULL, &op));
	twt_stuck_set(op);
	TWT_TRUE(tow_op_wait(op, TOW_FOREVER) < 0);
	twt_stuck_set(NULL);
	tow_op_release(op);
}

/* Stages of a pipeline, of which the third hangs in code of its own. */
static void hung_stage(struct twt_rank *rank)
{
	int status = TOW_OK;

	for (int i = 0; i < MORE && status == TOW_OK; i++) {
		if (rank->rank > 0)
			status = receive_from(rank, rank->rank - 1, data, LARGE, 30);
		if (rank->rank == 2 && i == 2)
			stay_away();
		if (rank->rank + 1 < rank->ranks && status == TOW_OK)
			status = send_to(rank, rank->rank + 1, data, LARGE, 30);
	}
	stay_away();
}

static struct tow_call_in *_Atomic kept;

static void keep_call(struct tow_call_in *call, void *user)
{
	(void)user;
	atomic_store(&kept, call);
}

/* What has been called answers at last. */
static void answer_late(void)
{
	struct tow_op *op;

	stay_away();
	if (atomic_load(&kept) == NULL)
		return;
	TWT_OK(tow_reply_start(atomic_load(&kept), 0, NULL, 0, NULL, &op));
	tow_op_wait(op, TOW_FOREVER);
	tow_op_release(op);
}

static void no_answer(struct twt_rank *rank)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	struct tow_peer *peer;
	_Atomic int done = 0;
	struct tow_op *op;

	TWT_OK(tow_group_peer(rank->group, 1 - rank->rank, &peer));
	if (rank->rank == 0) {
		options.done = way == BY_CALLBACK ? on_done : NULL;
		options.user = &done;
		TWT_OK(tow_call_start(peer, "never", data, 64, data, 64, &options, &op));
		finish(rank, op, &done);
	}
	answer_late();
}

/* Pieces until none is taken any more. */
static void no_reader(struct twt_rank *rank)
{
	struct tow_call_options options = TOW_CALL_OPTIONS_INIT;
	struct tow_op *call, *op;
	struct tow_peer *peer;
	_Atomic int done;
	int status = TOW_OK;

	TWT_OK(tow_group_peer(rank->group, 1 - rank->rank, &peer));
	if (rank->rank == 0) {
		options.flags = TOW_CALL_STREAM;
		TWT_OK(tow_call_start(peer, "never", data, 64, data, 64, &options, &call));
		while (status == TOW_OK) {
			TWT_OK(tow_stream_push_start(tow_call_stream(call), data, 64,
						     options_for(&done), &op));
			status = finish(rank, op, &done);
		}
		tow_op_wait(call, TOW_FOREVER);
		tow_op_release(call);
	}
	answer_late();
}

/* The first of the two sends and is answered, again and again. */
static void exchange(struct twt_rank *rank, uint32_t with, bool first)
{
	int status = TOW_OK;

	for (uint64_t tag = 100; status == TOW_OK && atomic_load(&marks->over) == 0; tag++) {
		status = first ? send_to(rank, with, data, 64, tag)
			       : receive_from(rank, with, data, 64, tag);
		if (status == TOW_OK)
			status = first ? receive_from(rank, with, data, 64, tag)
				       : send_to(rank, with, data, 64, tag);
		usleep(5000);
	}
}

/* One serves and waits; the others exchange, and owe it nothing. */
static void server(struct twt_rank *rank)
{
	if (rank->rank == 0)
		receive_from(rank, 1, data, 64, 7);
	else
		exchange(rank, 3 - rank->rank, rank->rank == 1);
}

/* Receives that are posted long before anybody sends, in a job that goes on. */
static void posted_ahead(struct twt_rank *rank)
{
	struct tow_op *op;

	TWT_OK(tow_group_recv_start(rank->group, 1 - rank->rank, data, 64, 7, NULL, &op));
	exchange(rank, 1 - rank->rank, rank->rank == 0);
	TWT_OK(tow_op_cancel(op));
	tow_op_wait(op, TOW_FOREVER);
	tow_op_release(op);
}

/* --- asking --- */

static bool is_named(const json_t *finding)
{
	json_t *ranks = json_object_get(finding, "ranks"), *evidence, *entry;
	uint32_t named = 0;
	bool said = false;
	size_t i;

	json_array_foreach(ranks, i, entry) named |= 1u << json_integer_value(entry);
	evidence = json_object_get(finding, "evidence");
	json_array_foreach(evidence, i, entry)
	{
		said |= strstr(json_string_value(entry), scene->words) != NULL;
	}
	return named == scene->named && said &&
	       strcmp(json_string_value(json_object_get(finding, "cause")), scene->cause) == 0;
}

static bool verdict_right(struct twt_rank *rank, bool tell)
{
	json_t *root, *findings;
	char path[96], *text;
	bool right;

	snprintf(path, sizeof(path), "%s/coll-ranks.%u.sock", folder, rank->rank);
	text = twt_talk(twt_dial(path, SOCK_STREAM),
			"GET /v1/verdict HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	root = json_loads(twt_body(text), 0, NULL);
	findings = json_object_get(root, "findings");
	right = scene->cause == NULL
			? json_array_size(findings) == 0
			: json_array_size(findings) == 1 && is_named(json_array_get(findings, 0)) &&
				  strcmp(json_string_value(json_object_get(root, "state")),
					 "stuck") == 0;
	if (!right && tell)
		fprintf(stderr, "%s, %s, by %s, asked rank %u: %s\n", scene->name,
			twt_lanes[lane].name, ways[way], rank->rank, text);
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

/* Beside the thread that hangs: asks, and ends the hang when all ranks have been told. */
static void *watch(void *arg)
{
	struct twt_rank *rank = arg;
	uint64_t until = now_s() + LIMIT_S;
	bool right = false;
	int asked = 0;

	while (atomic_load(&marks->ready) < (int)rank->ranks)
		nap();
	while (!right && now_s() < until) {
		right = verdict_right(rank, scene->cause == NULL || now_s() + 3 >= until);
		if (scene->cause == NULL && !right)
			break;
		if (scene->cause == NULL && ++asked < ASK_TIMES)
			right = false;
		if (!right && scene->cause != NULL)
			usleep(ASK_AGAIN_US);
	}
	if (!right)
		atomic_store(&marks->wrong, 1);
	atomic_fetch_or(&marks->right, 1u << rank->rank);
	while (atomic_load(&marks->right) != (1u << rank->ranks) - 1)
		nap();
	atomic_store(&marks->over, 1);
	return NULL;
}

static void *give_up(void *arg)
{
	(void)arg;
	stay_away();
	for (; atomic_load(&finished) == 0; usleep(20000))
		twt_stuck_cancel();
	return NULL;
}

static void play(struct twt_rank *rank)
{
	pthread_t asker, ender;

	TWT_OK(tow_alloc(rank->runtime, LARGE, 64, &data));
	TWT_OK(tow_method_register(rank->runtime, "never", keep_call, NULL, NULL));
	twt_coll_meet(rank);
	for (int i = 0; i < WARM_UP; i++) {
		uint32_t next = (rank->rank + 1) % rank->ranks;
		uint32_t last = (rank->rank + rank->ranks - 1) % rank->ranks;

		send_to(rank, next, data, 64, 5);
		receive_from(rank, last, data, 64, 5);
	}
	twt_coll_meet(rank);
	TWT_TRUE(pthread_create(&asker, NULL, watch, rank) == 0);
	atomic_fetch_add(&marks->ready, 1);
	TWT_TRUE(pthread_create(&ender, NULL, give_up, NULL) == 0);
	scene->hang(rank);
	atomic_store(&finished, 1);
	pthread_join(asker, NULL);
	pthread_join(ender, NULL);
	TWT_TRUE(atomic_load(&marks->wrong) == 0);
	tow_free(rank->runtime, data);
}

static void set_options(struct tow_options *options)
{
	twt_job_lane_options(lane, options);
	if (scene->hang == view_without_room)
		options->premap_memory_bytes = options->premap_limit_bytes = SMALL_POOL;
	options->stats = 1;
	options->stats_dir = folder;
}

/* --- which are played --- */

static const struct scene scenes[] = {
	{ "two receive first", 2, all_receive_first, "deadlock", 3,
	  "to receive tag 7 from rank 1; rank 1 has waited" },
	{ "three receive first", 3, all_receive_first, "deadlock", 7,
	  "to receive tag 7 from rank 2; rank 2 has waited" },
	{ "a small message of another tag", 3, small_other_tag, "other_tag", 3,
	  "to receive tag 7 from rank 1; a message of that rank with tag 8, 64 bytes, has come" },
	{ "a large message of another tag", 2, large_other_tag, "other_tag", 3,
	  "to receive tag 7 from rank 1; a message of that rank with tag 8, 1048576 bytes" },
	{ "a message is not sent", 3, missing_send, "absent", 1 << 1,
	  "to receive tag 7 from rank 1, which is in no call of the library, and has nothing" },
	{ "a huge tag", 2, huge_tag, "absent", 1 << 1,
	  "to receive tag 18446744073709551614 from rank 1, which is in no call" },
	{ "a fused collective is not entered", 3, missing_batch, "never_entered", 1 << 1,
	  "rank 1 has not entered collective" },
	{ "a stage of a pipeline hangs", 4, hung_stage, "absent", 1 << 2,
	  " rank 2, which is in no call of the library" },
	{ "a view has no room", 2, view_without_room, "pool", 1 << 1, "room in its pool" },
	{ "a call is not answered", 2, no_answer, "absent", 1 << 1,
	  "for the answer to a call of rank 1, which is in no call" },
	{ "a stream is not read", 2, no_reader, "absent", 1 << 1,
	  "for rank 1 to read from a stream, which is in no call" },
	{ "a collective and a message", 2, message_and_collective, "deadlock", 3,
	  "which rank 0 has not entered" },
	{ "a server waits", 3, server, NULL, 0, NULL },
	{ "receives are posted ahead", 2, posted_ahead, NULL, 0, NULL },
};
#define SCENES (sizeof(scenes) / sizeof(scenes[0]))

/* A scene, over a lane, in a way. */
struct cell {
	size_t scene;
	unsigned lane;
	enum way way;
};

static struct cell cells[TWT_BESIDE_MAX];
static size_t cell_count;

static void run_cell(void **state)
{
	const struct cell *cell = *state;

	scene = &scenes[cell->scene];
	lane = cell->lane;
	way = cell->way;
	twt_stuck_set(NULL);
	marks = mmap(NULL, sizeof(*marks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_true(marks != MAP_FAILED);
	if (!twt_job_lane(lane))
		skip();
	strcpy(folder, "/tmp/twt-waits-XXXXXX");
	assert_non_null(mkdtemp(folder));
	twt_ranks(&(struct twt_job){ .ranks = scene->ranks,
				     .lane = twt_lanes[lane].address[0],
				     .run = play,
				     .options = set_options });
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(munmap(marks, sizeof(*marks)), 0);
}

static void cell_add(size_t which, unsigned at, enum way how)
{
	assert_true(cell_count < TWT_BESIDE_MAX);
	cells[cell_count++] = (struct cell){ .scene = which, .lane = at, .way = how };
}

/*
 * Every scene by waits over the first two lanes, and by the other ways over one of these; circles
 * and other tags, in which states of both sides are laid beside each other, over all.
 */
static void choose_cells(void)
{
	for (size_t i = 0; i < SCENES; i++) {
		bool all = scenes[i].hang == small_other_tag || scenes[i].ranks == 2;

		for (unsigned at = 0; at < (all && i < 3 ? TWT_LANES : 2); at++)
			if (!twt_lanes[at].one_runtime) /* that joins no processes */
				cell_add(i, at, BY_WAIT);
		if (scenes[i].hang == message_and_collective || scenes[i].hang == missing_batch)
			continue;
		cell_add(i, (unsigned)(i % 2), BY_CALLBACK);
		cell_add(i, (unsigned)((i + 1) % 2), i % 2 == 0 ? BY_TEST : BY_FD);
	}
}

/* Of all of them, a third, of which a sanitized build takes a third: which, says the seed. */
static void take_third(uint64_t seed)
{
	size_t left = 0, third = 0;

	for (size_t i = 0; i < cell_count; i++)
		if ((i + seed) % 3 == 0 && twt_case_drawn(seed / 3, third++))
			cells[left++] = cells[i];
	cell_count = left;
}

int main(void)
{
	static struct CMUnitTest tests[TWT_BESIDE_MAX];
	static char names[TWT_BESIDE_MAX][80];
	const char *which = getenv("TOW_TEST_WAITS");

	choose_cells();
	if (which == NULL || strcmp(which, "all") != 0)
		take_third(twt_seed());
	for (size_t i = 0; i < cell_count; i++) {
		snprintf(names[i], sizeof(names[i]), "%s, %s, by %s", scenes[cells[i].scene].name,
			 twt_lanes[cells[i].lane].name, ways[cells[i].way]);
		tests[i] = (struct CMUnitTest){ .name = names[i],
						.test_func = run_cell,
						.initial_state = &cells[i] };
	}
	return twt_beside_tests(tests, cell_count, 1, AT_ONCE);
}
