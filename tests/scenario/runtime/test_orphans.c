/*
 * test_orphans.c - a process that was killed while another one, a child that it had forked, holds
 * all of its descriptors: its connections do not end, and whoever waits for it is told all the
 * same, even while a thread of it is not through. What it had sent before still comes. Over each
 * lane that joins processes, by both pollers, in each way of driving; and in a collective. No
 * silence ends anything here: peer_timeout_ns is long.
 */
#include <poll.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "twt.h"

#include "beside.h"
#include "coll_job.h"
#include "lane_pair.h"

#define POOL     (4 << 20)
#define TEXT     "the last words"
#define LONG_NS  (3600 * TWT_SECOND)
#define HOLDER_S 90 /* who holds the descriptors ends by itself then */

enum drive { BY_WAIT, BY_TEST, BY_PROGRESS, BY_CALLBACK, BY_FD, DRIVES };

struct hello {
	char where[TOW_ADDRESS_MAX];
	pid_t thread; /* another one than that which is killed */
};

struct words {
	pid_t holder;
	char text[sizeof(TEXT)];
};

static void *tell_and_stay(void *arg)
{
	atomic_store((_Atomic pid_t *)arg, (pid_t)syscall(SYS_gettid));
	for (;;)
		pause();
	return NULL;
}

static pid_t start_thread(void)
{
	static _Atomic pid_t tid;
	pthread_t thread;

	if (pthread_create(&thread, NULL, tell_and_stay, &tid) != 0)
		abort();
	while (atomic_load(&tid) == 0)
		usleep(100);
	return atomic_load(&tid);
}

/* A process that holds what this one has, and does nothing. */
static pid_t fork_holder(void)
{
	pid_t holder;

	fflush(NULL);
	holder = fork();
	if (holder == 0) {
		alarm(HOLDER_S);
		for (;;)
			pause();
	}
	if (holder < 0)
		abort();
	return holder;
}

/* The child: says its last words on both connections, and is killed. */
static int die(struct twt_side *side, void *arg)
{
	struct words words = { .text = TEXT };
	struct hello hello = { .thread = start_thread() };
	struct tow_peer *second;
	struct tow_op *op;

	(void)arg;
	TWT_OK(tow_endpoint_address(side->endpoint, hello.where, sizeof(hello.where)));
	TWT_OK(tow_send_start(side->peer, &hello, sizeof(hello), 3, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	second = twt_accept(side->endpoint);
	words.holder = fork_holder();
	TWT_OK(tow_send_start(side->peer, &words, sizeof(words), 1, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_send_start(second, &words, sizeof(words), 1, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	for (int i = 0; i < 1000; i++) { /* what is sent has left: that is not this test's matter */
		(void)tow_flush(side->runtime);
		tow_progress(side->runtime);
		usleep(100);
	}
	raise(SIGKILL);
	return 1;
}

static void on_done(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	atomic_store((_Atomic int *)result->user, 1);
}

/* Waits for the operation in that way; its status, and its message in `text`. */
static int finish(struct tow_runtime *runtime, struct tow_op *op, enum drive drive,
		  _Atomic int *seen, char text[512])
{
	struct tow_result result = { .size = sizeof(result) };
	uint64_t until = twi_now_ns() + TWT_FINISH_NS;
	int status;

	for (;;) {
		if (drive == BY_WAIT)
			status = tow_op_wait(op, TWT_FINISH_NS);
		else if (drive == BY_CALLBACK)
			status = atomic_load(seen) == 0 ? TOW_AGAIN : tow_op_test(op);
		else
			status = tow_op_test(op);
		if (status != TOW_AGAIN && status != TOW_ETIMEDOUT)
			break;
		assert_true(twi_now_ns() < until);
		if (drive == BY_PROGRESS)
			tow_progress(runtime);
		if (drive == BY_CALLBACK)
			usleep(1000);
		if (drive == BY_FD) {
			struct pollfd fd = { .events = POLLIN };

			TWT_OK(tow_fd(runtime, &fd.fd));
			(void)poll(&fd, 1, 10);
			tow_progress(runtime);
		}
	}
	TWT_OK(tow_op_result(op, &result));
	snprintf(text, 512, "%s", result.message != NULL ? result.message : "");
	TWT_OK(tow_op_release(op));
	return status;
}

static struct tow_op *receive(struct tow_peer *peer, struct words *words, uint64_t tag,
			      enum drive drive, _Atomic int *seen)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_op *op;

	atomic_store(seen, 0);
	if (drive == BY_CALLBACK) {
		options.done = on_done;
		options.user = seen;
	}
	TWT_OK(tow_recv_start(peer, words, sizeof(*words), tag, &options, &op));
	return op;
}

static bool is_zombie(pid_t pid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "r");
	if (file == NULL || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		abort();
	fclose(file);
	return state == 'Z';
}

/*
 * Whoever traces a thread is told of its end first: until it asks, the process has not ended for
 * wait(2) and its descriptor, as with a thread that the kernel cannot end yet.
 */
static void await_end(pid_t child, bool late)
{
	siginfo_t info;
	struct pollfd fd = { .events = POLLIN };

	if (!late) {
		assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
		return;
	}
	while (!is_zombie(child))
		usleep(1000);
	usleep(10000);
	fd.fd = (int)syscall(SYS_pidfd_open, child, 0);
	assert_true(fd.fd >= 0);
	assert_int_equal(poll(&fd, 1, 0), 0); /* else this test shows nothing */
	close(fd.fd);
}

/*
 * The parent: hears the last words, and then of the end, on both connections. `late`: a thread of
 * the child is not through meanwhile.
 */
static void outlive(struct twt_side *side, enum drive drive, bool late)
{
	struct tow_peer *peers[2] = { side->peer, NULL };
	struct words words[2] = { 0 }, none[2];
	struct tow_op *last[2], *never[2], *op;
	struct hello hello;
	_Atomic int seen[2][2];
	char text[512];

	TWT_OK(tow_recv_start(side->peer, &hello, sizeof(hello), 3, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	if (late)
		assert_int_equal(ptrace(PTRACE_SEIZE, hello.thread, NULL, NULL), 0);
	peers[1] = twt_connect(side->endpoint, hello.where);
	for (int i = 0; i < 2; i++) {
		last[i] = receive(peers[i], &words[i], 1, drive, &seen[i][0]);
		never[i] = receive(peers[i], &none[i], 2, drive, &seen[i][1]);
	}
	if (late || drive != BY_CALLBACK) /* nobody drives here until it is dead */
		await_end(side->child, late);
	for (int i = 0; i < 2; i++) {
		TWT_OK(finish(side->runtime, last[i], drive, &seen[i][0], text));
		assert_string_equal(words[i].text, TEXT);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(finish(side->runtime, never[i], drive, &seen[i][1], text),
				 TOW_EPEER);
		assert_non_null(strstr(text, "its process has ended"));
	}
	kill(words[0].holder, SIGKILL);
	if (late)
		assert_int_equal(waitpid(hello.thread, NULL, __WALL), hello.thread);
}

static uint64_t seed;
static const char *const pollers[] = { "io_uring", "epoll" };

#define CASES ((size_t)TWT_LANE_ROWS * DRIVES * twi_array_count(pollers))

/* Is the lane there, and does it join processes? By row, what all processes of this test know. */
static bool *has_lane;

static void look_for_lane(size_t which)
{
	const struct twt_lane_row *lane = &twt_lane_rows[which];
	struct twt_lane_pair pair;

	if (strncmp(lane->address[0], "loop:", 5) == 0)
		return;
	twt_lane_init(&pair, lane);
	has_lane[which] = twt_lane_open(&pair);
	if (has_lane[which])
		twt_lane_close(&pair);
}

static int look_for_lanes(void **state)
{
	(void)state;
	has_lane = mmap(NULL, TWT_LANE_ROWS * sizeof(has_lane[0]), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(has_lane != MAP_FAILED);
	twt_beside(TWT_LANE_ROWS, 4, look_for_lane);
	return 0;
}

static void outlive_at(size_t which, bool late)
{
	const struct twt_lane_row *lane = &twt_lane_rows[which % TWT_LANE_ROWS];
	enum drive drive = (enum drive)(which / TWT_LANE_ROWS % DRIVES);
	struct twt_pair_way way = { .parent = twt_pair_options(POOL),
				    .child = twt_pair_options(POOL),
				    .address = lane->address[0],
				    .limit_s = 100,
				    .run = die };
	struct twt_side side;
	int how;

	if (!has_lane[which % TWT_LANE_ROWS])
		return;
	way.parent.poller = pollers[which / TWT_LANE_ROWS / DRIVES];
	way.parent.background = drive == BY_CALLBACK;
	way.parent.peer_timeout_ns = way.child.peer_timeout_ns = LONG_NS;
	twt_pair_open(&side, &way);
	outlive(&side, drive, late);
	how = twt_pair_end(&side);
	assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

static void outlive_one(size_t which)
{
	if (twt_case_drawn(seed, which))
		outlive_at(which, false);
}

static void test_messages(void **state)
{
	(void)state;
	twt_beside(CASES, 4, outlive_one);
}

/* Each lane in each way of driving, with one of the pollers. */
static void outlive_late(size_t which)
{
	if (twt_case_drawn(seed, which))
		outlive_at(which + which % 2 * TWT_LANE_ROWS * DRIVES, true);
}

static void test_threads_end_late(void **state)
{
	(void)state;
	twt_beside((size_t)TWT_LANE_ROWS * DRIVES, 8, outlive_late);
}

/* What the job's processes share: the holder ends when it is over. */
struct stage {
	_Atomic int over;
};

static void play(struct twt_job *job, const void *arg)
{
	struct stage *stage = *(struct stage *const *)arg;
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *op;
	char text[512];
	int status;

	twt_job_sum(job, job->group, 1000);
	twt_job_mark(job, 1);
	twt_must(twt_job_reached(7, 1));
	if (job->rank == 1) {
		if (fork() == 0) {
			for (int i = 0; i < 100 * HOLDER_S && atomic_load(&stage->over) == 0; i++)
				usleep(10000);
			_exit(0);
		}
		raise(SIGKILL);
	}
	status = tow_coll_barrier_start(job->group, &options, &op);
	if (status == TOW_OK)
		status = twt_job_end(job, op, text);
	else
		snprintf(text, sizeof(text), "%s", tow_error_message());
	twt_must(status == TOW_EPEER && strstr(text, "rank 1") != NULL);
	atomic_store(&stage->over, 1);
}

static void test_collective(void **state)
{
	struct stage *stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(stage != MAP_FAILED);
	for (size_t i = 0; i < TWT_LANE_ROWS_ALWAYS; i++) {
		atomic_store(&stage->over, 0);
		twt_job_run(twt_lane_rows[i].name, 3, 1u << 1, play, &stage, NULL);
	}
	munmap(stage, sizeof(*stage));
}

/* --- a process whose first thread has ended --- */

static void *go_on(void *arg)
{
	struct twt_side *side = arg;
	struct tow_peer *second = twt_accept(side->endpoint);
	struct tow_op *op;
	uint64_t word;

	TWT_OK(tow_recv_start(second, &word, sizeof(word), 1, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	word++;
	TWT_OK(tow_send_start(second, &word, sizeof(word), 1, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_recv_start(second, &word, sizeof(word), 2, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_runtime_close(side->runtime));
	_exit(0);
}

static int end_first_thread(struct twt_side *side, void *arg)
{
	static struct twt_side kept;
	char where[TOW_ADDRESS_MAX] = "";
	pthread_t thread;
	struct tow_op *op;

	(void)arg;
	TWT_OK(tow_endpoint_address(side->endpoint, where, sizeof(where)));
	TWT_OK(tow_send_start(side->peer, where, sizeof(where), 3, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	kept = *side;
	if (pthread_create(&thread, NULL, go_on, &kept) != 0)
		abort();
	pthread_exit(NULL);
}

/* /proc calls it a zombie, and it is none. */
static void talk_to_zombie(size_t which)
{
	const struct twt_lane_row *lane = &twt_lane_rows[which];
	uint64_t word = 41, answer = 0;
	struct tow_peer *second;
	struct twt_side side;
	char where[TOW_ADDRESS_MAX];
	struct tow_op *op;

	if (!has_lane[which])
		return;
	twt_pair(&side, lane->address[0], POOL, end_first_thread, NULL);
	TWT_OK(tow_recv_start(side.peer, where, sizeof(where), 3, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	while (!is_zombie(side.child))
		usleep(1000);
	second = twt_connect(side.endpoint, where);
	TWT_OK(tow_send_start(second, &word, sizeof(word), 1, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	TWT_OK(tow_recv_start(second, &answer, sizeof(answer), 1, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	assert_int_equal(answer, 42);
	TWT_OK(tow_send_start(second, &word, sizeof(word), 2, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	assert_int_equal(twt_pair_end(&side), 0);
}

static void test_first_thread(void **state)
{
	(void)state;
	twt_beside(TWT_LANE_ROWS, 3, talk_to_zombie);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_threads_end_late),
		cmocka_unit_test(test_first_thread),
		cmocka_unit_test(test_collective),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, look_for_lanes, NULL);
}
