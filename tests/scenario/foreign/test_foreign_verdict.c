/*
 * test_foreign_verdict.c - ranks that say what another library does, with faults planted: towstat's
 * verdict names cause, culprit and communicator, and of healthy jobs nobody. With no group that
 * joins the ranks, when towstat asks them all; and within one, when any rank can be asked.
 */
#include "twt.h"

#include <string.h>
#include <unistd.h>

#include "beside.h"
#include "command.h"
#include "foreign_job.h"

#define CASES   (2 * FJ_FAULTS + 2)
#define AT_ONCE 4 /* they mostly sleep */

static uint64_t seed;

static void say_messages(const struct twt_fj *job, uint32_t rank, struct tow_foreign_group *group,
			 uint64_t seq)
{
	struct tow_foreign_message message = TOW_FOREIGN_MESSAGE_INIT;
	bool victim = rank == job->victim;

	for (int i = 0; i < 8; i++) {
		message.seq = seq;
		message.bytes = 512 << 10;
		message.end_ns = tow_foreign_clock();
		message.start_ns = message.end_ns - 2 * FJ_SLOW_NS;
		message.sends = 1;
		message.peer = (rank + 1) % job->ranks;
		message.device_ns = 100000;
		message.wire_ns = victim && job->fault == FJ_LINK ? FJ_SLOW_NS : 200000;
		TWT_MUST(tow_foreign_message(group, &message) == TOW_OK);
		message.sends = 0;
		message.peer = (rank + job->ranks - 1) % job->ranks;
		message.device_ns = victim && job->fault == FJ_DEVICE ? FJ_SLOW_NS : 100000;
		message.wire_ns = 300000;
		TWT_MUST(tow_foreign_message(group, &message) == TOW_OK);
	}
}

static void play(struct twt_fj *job, uint32_t rank)
{
	struct tow_foreign_options options = TOW_FOREIGN_OPTIONS_INIT;
	struct tow_options runtime_options = TOW_OPTIONS_INIT;
	struct tow_foreign_coll coll = TOW_FOREIGN_COLL_INIT;
	struct tow_foreign_group *group;
	struct tow_runtime *runtime;
	uint64_t seq;

	TWT_MUST(tow_runtime_share(&runtime_options, &runtime) == TOW_OK);
	options.name = FJ_NAME;
	options.id = 0x1234567890abcdefu;
	options.rank = rank;
	options.ranks = job->ranks;
	TWT_MUST(tow_foreign_open(runtime, &options, &group) == TOW_OK);
	coll.bytes = 4 << 20;
	coll.type = TOW_F32;
	coll.reduce = TOW_SUM;
	while (twt_fj_step(job, rank)) {
		TWT_MUST(tow_foreign_coll_begin(group, &coll, &seq) == TOW_OK);
		twt_fj_dawdle(job, rank);
		TWT_MUST(tow_foreign_coll_enter(group, seq, 0) == TOW_OK);
		say_messages(job, rank, group, seq);
		if (!twt_fj_meet(job))
			break;
		TWT_MUST(tow_foreign_coll_end(group, seq, 0, TOW_OK) == TOW_OK);
	}
	tow_foreign_close(group);
	TWT_MUST(tow_runtime_close(runtime) == TOW_OK);
}

static void play_case(size_t which)
{
	uint64_t state = seed + which;
	struct twt_fj job = { .fault = (enum twt_fj_fault)(which % FJ_FAULTS),
			      .grouped = which / FJ_FAULTS % 2 == 1,
			      .play = play };

	if (!twt_case_drawn(seed, which))
		return;
	job.ranks = 2 + (uint32_t)twt_random_below(&state, FJ_RANKS - 1);
	job.victim = (uint32_t)twt_random_below(&state, job.ranks);
	twt_fj_begin(&job);
	twt_fj_expect(&job);
	twt_fj_end(&job);
}

/* A rank that says less of itself is understood, and judged by that. */
static void older_rank(void)
{
	struct twt_fj job = { .fault = FJ_LATE, .ranks = 3, .victim = 2, .play = play };

	job.grouped = job.old = true;
	twt_fj_begin(&job);
	twt_fj_expect(&job);
	twt_fj_end(&job);
}

/* For people: the same in words, and the tables of collectives. */
static void say_words(void)
{
	struct twt_fj job = { .fault = FJ_LATE, .ranks = 3, .victim = 2, .play = play };
	static struct twt_command command;

	twt_fj_begin(&job);
	setenv("TOW_FJ_JOB", job.name, 1);
	twt_command("@/tools/towstat/towstat verdict $TOW_FJ_JOB", &command);
	twt_command_expect(&command, 3, "slow: 3 of 3 ranks of this host answered", 1);
	twt_command_expect(&command, 3, "rank 2: late, comes late", 1);
	twt_command_expect(&command, 3, "collectives of communicator " FJ_NAME, 1);
	twt_command("@/tools/towstat/towstat get coll $TOW_FJ_JOB.1", &command);
	twt_command_expect(&command, 0, "communicator " FJ_NAME ": rank 1 of 3", 1);
	twt_command_expect(&command, 0, "all-reduce", 1);
	twt_command_expect(&command, 0, "ON DEVICE", 1);
	twt_fj_end(&job);
}

/* Those beyond the cases with a fault are the last; ranks that do not come take the longest. */
static void play_one(size_t which)
{
	if (which < CASES)
		play_case(which);
	else if (which == CASES)
		older_rank();
	else
		say_words();
}

static void faults_are_named(void **state)
{
	(void)state;
	twt_beside(CASES + 2, AT_ONCE, play_one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_are_named),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
