/*
 * test_coll_failures.c - collectives of ranks that disagree, do not come, stop, die, cancel, close.
 * Every other rank is told in time, by name, and the group refuses to go on.
 */
#include "beside.h"
#include "coll_job.h"
#include "lane_pair.h"

#define COUNT 1000u
#define LARGE (1u << 20) /* elements: 4 MiB */

#define LANES        ((size_t)TWT_LANE_ROWS_ALWAYS)
#define EACH_LANE(i) for (size_t i = 0; i < LANES; i++)
/* Jobs at once, of those that mostly wait. */
#define AT_ONCE 4

static int32_t *in, *out;

static void make_buffers(const struct twt_job *job, uint64_t count)
{
	in = calloc(count, 4);
	out = calloc(count, 4);
	twt_must(in != NULL && out != NULL);
}

static struct tow_op *reduce(const struct twt_job *job, uint64_t count, uint64_t timeout_ns)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *op;

	options.timeout_ns = timeout_ns;
	twt_must(tow_coll_all_reduce_start(job->group, in, out, count, TOW_S32, TOW_SUM, &options,
					   &op) == TOW_OK);
	return op;
}

/* One that goes well. What fails later ends all that is under way, so that is awaited. */
static void sum_first(const struct twt_job *job)
{
	twt_job_sum(job, job->group, COUNT);
	twt_job_mark(job, 1);
	twt_must(twt_job_reached((1u << job->size) - 1, 1));
}

/* A group that has failed once fails at once from then on. */
static void must_be_broken(const struct twt_job *job)
{
	struct tow_op *op = NULL;

	twt_must(tow_coll_barrier_start(job->group, NULL, &op) == TOW_EPEER);
	twt_must(op == NULL && strstr(tow_error_message(), "the group is broken: ") != NULL);
}

static int count_of(const char *text, const char *words)
{
	int count = 0;

	for (; (text = strstr(text, words)) != NULL; text += strlen(words))
		count++;
	return count;
}

/* --- ranks that disagree --- */

enum change { KIND, TYPE, NUMBER, OPERATOR, ROOT, PLAN, CHANGES };

struct mismatch {
	enum change change;
	bool first; /* no collective before it */
};

static int call(const struct twt_job *job, const struct mismatch *plan, struct tow_op **op)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	bool odd = job->rank == job->size - 1;

	options.timeout_ns = TWT_JOB_WAIT_NS / 2;
	if (plan->change == PLAN)
		options.plan = odd ? "ring" : "direct";
	if (plan->change == ROOT)
		return tow_coll_reduce_start(job->group, in, out, COUNT, TOW_S32, TOW_SUM,
					     odd ? 1 : 0, &options, op);
	if (plan->change == KIND && odd)
		return tow_coll_all_gather_start(job->group, in, out, 4, TOW_S32, &options, op);
	return tow_coll_all_reduce_start(
		job->group, in, out, plan->change == NUMBER && odd ? COUNT - 1 : COUNT,
		plan->change == TYPE && odd ? TOW_F32 : TOW_S32,
		plan->change == OPERATOR && odd ? TOW_MAX : TOW_SUM, &options, op);
}

static void play_mismatch(struct twt_job *job, const void *arg)
{
	const struct mismatch *plan = arg;
	struct tow_op *op = NULL;
	char text[512];
	int status;

	make_buffers(job, COUNT);
	if (!plan->first)
		sum_first(job);
	status = call(job, plan, &op);
	snprintf(text, sizeof(text), "%s", tow_error_message());
	if (status < 0) /* the others have fallen out before this one came */
		twt_must(status == TOW_EPEER && op == NULL);
	else if ((status = twt_job_end(job, op, text)) < 0)
		twt_must(status == TOW_EMISMATCH);
	else /* whose part does not depend on the others' is done */
		twt_must(plan->change == ROOT);
	if (status < 0) {
		twt_must(strstr(text, "rank 2") != NULL);
		twt_must(count_of(text, "rank ") >= 2);
		/* Both call sites: the program's name is in each. */
		twt_must(count_of(text, "coll_failures") == 2);
		must_be_broken(job);
	}
	twt_job_mark(job, 2);
	twt_must(twt_job_reached(7, 2));
}

static void mismatches(void **state)
{
	(void)state;
	EACH_LANE(i)
	{
		for (int change = 0; change < CHANGES; change++) {
			const struct mismatch plans[] = { { change, false }, { change, true } };

			twt_job_run(twt_lane_rows[i].name, 3, 0, play_mismatch, &plans[change % 2],
				    NULL);
		}
		twt_job_run(twt_lane_rows[i].name, 3, 0, play_mismatch,
			    &(struct mismatch){ NUMBER, true }, NULL);
		twt_job_run(twt_lane_rows[i].name, 3, 0, play_mismatch,
			    &(struct mismatch){ TYPE, false }, NULL);
	}
}

/* What rank 0 sends to rank 1 is not what that expects. */
static void play_parts(struct twt_job *job, const void *arg)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	uint64_t send[3] = { 10, 10, 10 }, receive[3] = { 10, 10, 10 };
	const struct tow_coll_parts send_parts = { send, NULL }, receive_parts = { receive, NULL };
	const int *off = arg;
	struct tow_op *op;
	char text[512];
	int status;

	make_buffers(job, COUNT);
	options.timeout_ns = TWT_JOB_WAIT_NS / 2;
	if (job->rank == 0)
		send[1] += (uint64_t)*off;
	twt_must(tow_coll_all_to_all_v_start(job->group, in, &send_parts, out, &receive_parts,
					     TOW_S32, &options, &op) == TOW_OK);
	status = twt_job_end(job, op, text);
	twt_must(status == TOW_EMISMATCH || (status == TOW_OK && job->rank != 1));
	if (status < 0)
		twt_must(strstr(text, "rank 0") != NULL && strstr(text, "rank 1") != NULL);
	if (job->rank == 1)
		must_be_broken(job);
	twt_job_mark(job, 1);
	twt_must(twt_job_reached(7, 1));
}

static void parts(void **state)
{
	const int offs[] = { 3, -3 };

	(void)state;
	EACH_LANE(i)
	{
		twt_job_run(twt_lane_rows[i].name, 3, 0, play_parts, &offs[0], NULL);
		twt_job_run(twt_lane_rows[i].name, 3, 0, play_parts, &offs[1], NULL);
	}
}

/* --- ranks that do not come --- */

#define LATE_NS 500000000u

static void play_absent(struct twt_job *job, const void *arg)
{
	const bool *first = arg;
	char text[512];

	make_buffers(job, COUNT);
	if (!*first)
		sum_first(job);
	if (job->rank != 2) {
		twt_must(twt_job_end(job, reduce(job, COUNT, LATE_NS), text) == TOW_EDEADLINE);
		/* Behind it may stand why, with those who wait. */
		twt_must(strstr(text, ": rank 2 never entered") != NULL);
		must_be_broken(job);
		twt_job_mark(job, 2);
	}
	twt_must(twt_job_reached(3, 2));
}

static void run_absent(size_t which)
{
	twt_job_run(twt_lane_rows[which % LANES].name, 3, 0, play_absent, &(bool){ which >= LANES },
		    NULL);
}

static void absent(void **state)
{
	(void)state;
	twt_beside(2 * LANES, AT_ONCE, run_absent);
}

static void play_stopped(struct twt_job *job, const void *arg)
{
	char text[512];

	(void)arg;
	make_buffers(job, COUNT);
	twt_job_sum(job, job->group, COUNT);
	twt_job_mark(job, 1);
	if (job->rank == 2) {
		twt_must(twt_job_reached(7, 2)); /* it is stopped here */
		return;
	}
	twt_must(twt_job_reached(4, 2));
	twt_must(twt_job_end(job, reduce(job, COUNT, LATE_NS), text) == TOW_EDEADLINE);
	twt_must(strstr(text, "no answer from rank 2") != NULL);
	must_be_broken(job);
	twt_job_mark(job, 3);
}

static void stop_last(const pid_t *pids, const void *arg)
{
	int how;

	(void)arg;
	assert_true(twt_job_reached(7, 1));
	kill(pids[2], SIGSTOP);
	assert_int_equal(waitpid(pids[2], &how, WUNTRACED), pids[2]);
	assert_true(WIFSTOPPED(how));
	atomic_store(&twt_marks->at[2], 2);
	twt_job_reached(3, 3);
	atomic_store(&twt_marks->at[0], 3);
	atomic_store(&twt_marks->at[1], 3);
	kill(pids[2], SIGCONT);
}

static void run_stopped(size_t which)
{
	twt_job_run(twt_lane_rows[which].name, 3, 0, play_stopped, NULL, stop_last);
}

static void stopped(void **state)
{
	(void)state;
	twt_beside(LANES, AT_ONCE, run_stopped);
}

/* --- ranks that die --- */

static void play_killed(struct twt_job *job, const void *arg)
{
	const uint64_t *count = arg;
	char text[512];
	int status = TOW_OK;

	make_buffers(job, *count);
	for (int i = 0; status == TOW_OK; i++) {
		struct tow_op *op = NULL;

		status = tow_coll_all_reduce_start(job->group, in, out, *count, TOW_S32, TOW_SUM,
						   NULL, &op);
		snprintf(text, sizeof(text), "%s", status < 0 ? tow_error_message() : "");
		if (status == TOW_OK)
			status = twt_job_end(job, op, text);
		twt_job_mark(job, i + 1);
	}
	twt_must(status == TOW_EPEER);
	if (strstr(text, "rank 1") == NULL)
		fprintf(stderr, "%s\n", text);
	twt_must(strstr(text, "rank 1") != NULL);
	must_be_broken(job);
}

static void kill_middle(const pid_t *pids, const void *arg)
{
	(void)arg;
	assert_true(twt_job_reached(7, 3));
	usleep((useconds_t)(twt_job_now() % 20000));
	kill(pids[1], SIGKILL);
}

static void run_killed(size_t which)
{
	static const uint64_t counts[] = { 1, COUNT, LARGE };

	twt_job_run(twt_lane_rows[which % LANES].name, 3, 2, play_killed, &counts[which / LANES],
		    kill_middle);
}

static void killed(void **state)
{
	(void)state;
	twt_beside(3 * LANES, AT_ONCE, run_killed);
}

/* --- ranks that cancel and close --- */

static void play_cancel(struct twt_job *job, const void *arg)
{
	struct tow_op *op;
	char text[512];

	(void)arg;
	make_buffers(job, COUNT);
	if (job->lane[0] == 's')
		sum_first(job);
	if (job->rank == 2) { /* never comes to it, and finds the group broken */
		twt_must(twt_job_reached(3, 3));
		for (int i = 0;
		     i < 10000 && tow_coll_barrier_start(job->group, NULL, &op) == TOW_OK; i++) {
			twt_must(twt_job_end(job, op, text) == TOW_ECANCELED);
		}
		must_be_broken(job);
		twt_job_mark(job, 3);
		return;
	}
	op = reduce(job, COUNT, TOW_FOREVER);
	twt_job_mark(job, 2);
	twt_must(twt_job_reached(3, 2));
	if (job->rank == 0)
		twt_must(tow_op_cancel(op) == TOW_OK);
	twt_must(twt_job_end(job, op, text) == TOW_ECANCELED);
	twt_must(strstr(text, "rank 0 has canceled") != NULL);
	must_be_broken(job);
	twt_job_mark(job, 3);
	twt_must(twt_job_reached(7, 3)); /* its words are not to go with it */
}

static void cancel(void **state)
{
	(void)state;
	EACH_LANE(i)
	twt_job_run(twt_lane_rows[i].name, 3, 0, play_cancel, NULL, NULL);
}

enum closing { GROUP_BUSY, RUNTIME_BUSY, RUNTIME_IDLE };

/* Rank 0 closes; with it go operations that nobody awaits, and the others hear of it. */
static void play_close(struct twt_job *job, const void *arg)
{
	const enum closing *how = arg;
	struct tow_op *ops[4];
	char text[512];

	make_buffers(job, LARGE);
	twt_job_sum(job, job->group, COUNT);
	twt_job_mark(job, 1);
	twt_must(*how == RUNTIME_IDLE || twt_job_reached(7, 1));
	if (*how == RUNTIME_IDLE) {
		job->group = NULL; /* it goes with the runtime */
		return;
	}
	if (job->rank == 2) { /* does not come until it is over */
		twt_must(twt_job_reached(1, 3));
		return;
	}
	for (int i = 0; i < 4; i++)
		ops[i] = reduce(job, i % 2 == 0 ? LARGE : 1, TOW_FOREVER);
	twt_job_mark(job, 2);
	twt_must(twt_job_reached(3, 2));
	if (job->rank == 0 && *how == RUNTIME_BUSY) {
		job->group = NULL;
		job->keep_runtime = true;
		twt_must(tow_runtime_close(job->runtime) == TOW_OK);
		twt_job_mark(job, 3);
		return;
	}
	if (job->rank == 0) {
		twt_must(tow_group_close(job->group) == TOW_OK);
		job->group = NULL;
	}
	for (int i = 0; i < 4; i++)
		twt_must(twt_job_end(job, ops[i], text) ==
			 (job->rank == 0 ? TOW_ECLOSED : TOW_EPEER));
	twt_must(strstr(text, "rank 0 has closed the group") != NULL);
	twt_job_mark(job, 3);
}

static void run_close(size_t which)
{
	static const enum closing hows[] = { GROUP_BUSY, RUNTIME_BUSY, RUNTIME_IDLE };

	twt_job_run(twt_lane_rows[which % LANES].name, 3, 0, play_close, &hows[which / LANES],
		    NULL);
}

static void close_busy(void **state)
{
	(void)state;
	twt_beside(3 * LANES, AT_ONCE, run_close);
}

/* Rank 0 closes a group while nothing is under way: what it has no part in ends at the others. */
static void play_early(struct twt_job *job, const void *arg)
{
	struct tow_group *group;
	struct tow_op *op;
	char text[512];
	int status;

	(void)arg;
	twt_must(tow_group_split(job->group, 0, job->rank, TWT_JOB_WAIT_NS, &group) == TOW_OK);
	twt_job_sum(job, group, COUNT);
	twt_job_mark(job, 1); /* the first to see it breaks what is under way */
	twt_must(twt_job_reached(7, 1));
	if (job->rank != 0) {
		status = tow_coll_barrier_start(group, NULL, &op);
		if (status == TOW_OK)
			status = twt_job_end(job, op, text);
		else
			snprintf(text, sizeof(text), "%s", tow_error_message());
		twt_must(status == TOW_EPEER);
		twt_must(strstr(text, "rank 0 has closed the group after collective 1") != NULL);
	}
	twt_must(tow_group_close(group) == TOW_OK);
	twt_job_sum(job, job->group, COUNT);
}

static void close_early(void **state)
{
	(void)state;
	EACH_LANE(i)
	twt_job_run(twt_lane_rows[i].name, 3, 0, play_early, NULL, NULL);
}

/* --- ranks that finish first --- */

#define ROUNDS 50

/* Each group is split off for a few collectives, and closed by each rank as soon as it can. */
static void play_leave(struct twt_job *job, const void *arg)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	char text[512];

	(void)arg;
	make_buffers(job, LARGE / 8);
	options.timeout_ns = TWT_JOB_WAIT_NS;
	for (int i = 0; i < ROUNDS; i++) {
		struct tow_group *group;
		struct tow_op *op;
		int status;

		twt_must(tow_group_split(job->group, 0, job->rank, TWT_JOB_WAIT_NS, &group) ==
			 TOW_OK);
		if (i % 4 == 0)
			status = tow_coll_barrier_start(group, &options, &op);
		else if (i % 4 == 1)
			status = tow_coll_broadcast_start(group, out, COUNT, TOW_S32,
							  (uint32_t)i % 3, &options, &op);
		else
			status = tow_coll_all_reduce_start(group, in, out,
							   i % 4 == 2 ? 1 : LARGE / 8, TOW_S32,
							   TOW_SUM, &options, &op);
		twt_must(status == TOW_OK);
		twt_must(twt_job_end(job, op, text) == TOW_OK);
		twt_must(tow_group_close(group) == TOW_OK);
	}
}

/* The same with the whole job, whose connections go. */
static void play_go(struct twt_job *job, const void *arg)
{
	const int *kind = arg;
	struct tow_op *op;
	char text[512];
	int status;

	make_buffers(job, LARGE);
	if (job->rank == *kind % 3)
		usleep(3000);
	if (*kind == 0)
		status = tow_coll_barrier_start(job->group, NULL, &op);
	else if (*kind == 1)
		status = tow_coll_broadcast_start(job->group, out, COUNT, TOW_S32, 0, NULL, &op);
	else
		status = tow_coll_all_reduce_start(job->group, in, out, *kind == 2 ? 1 : LARGE,
						   TOW_S32, TOW_SUM, NULL, &op);
	twt_must(status == TOW_OK);
	status = twt_job_end(job, op, text);
	if (status < 0)
		fprintf(stderr, "kind %d: %s\n", *kind, text);
	twt_must(status == TOW_OK);
}

static void leave(void **state)
{
	(void)state;
	EACH_LANE(i)
	{
		twt_job_run(twt_lane_rows[i].name, 3, 0, play_leave, NULL, NULL);
		for (int k = 0; k < 12; k++)
			twt_job_run(twt_lane_rows[i].name, 3, 0, play_go, &(int){ k % 4 }, NULL);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mismatches), cmocka_unit_test(parts),
		cmocka_unit_test(absent),     cmocka_unit_test(stopped),
		cmocka_unit_test(killed),     cmocka_unit_test(cancel),
		cmocka_unit_test(close_busy), cmocka_unit_test(close_early),
		cmocka_unit_test(leave),
	};

	if (argc > 1) /* one of them, to look at */
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
