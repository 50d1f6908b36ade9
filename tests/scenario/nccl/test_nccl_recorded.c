/*
 * test_nccl_recorded.c - what NCCL 2.28.9 told a profiler on a real GPU, told at the same pace to
 * plugins/nccl: towstat's verdict on that job.
 *
 * The files in recorded/ are of two ranks that shared an H100 (by NVIDIA's MPS) and whose bytes
 * this library's plugin carried over shared memory: 24 all-reduces of 4 MiB over two channels, and
 * the same with 12 ms of idling before each at rank 1. tests/support/nccl_recorder.c says what a
 * line is, and tests/runtimes/test_nccl.py makes such files.
 */
#include "twt.h"

#include "beside.h"
#include "nccl_events.h"

#include <string.h>
#include <time.h>

#define RANKS    2u
#define EVENTS   1024u
#define COMM_ID  UINT64_C(0xfeedfacecaff)
#define VERSION  5 /* of the table that NCCL 2.28.9 took */
#define LINE_MAX 128

struct record {
	FILE *file;
	uint64_t first_us; /* when its first event came */
};

static const char *folder_of(void)
{
	const char *source = getenv("TOW_TEST_SOURCE");

	return source != NULL ? source : ".";
}

static struct record open_record(const struct twt_fj *job, uint32_t rank)
{
	unsigned long long begins, after;
	struct record out;
	char path[512], line[LINE_MAX];

	snprintf(path, sizeof(path), "%s/tests/scenario/nccl/recorded/%s.%u", folder_of(),
		 twt_fj_names[job->fault], rank);
	out.file = fopen(path, "r");
	TWT_MUST(out.file != NULL);
	TWT_MUST(fgets(line, sizeof(line), out.file) != NULL);
	TWT_MUST(sscanf(line, "begins %llu", &begins) == 1);
	TWT_MUST(fgets(line, sizeof(line), out.file) != NULL);
	TWT_MUST(sscanf(line, "%*c %llu", &after) == 1);
	out.first_us = begins + after;
	return out;
}

static void sleep_until(struct timespec start, uint64_t us)
{
	uint64_t ns = (uint64_t)start.tv_nsec + us * 1000;

	start.tv_sec += (time_t)(ns / 1000000000);
	start.tv_nsec = (long)(ns % 1000000000);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &start, NULL);
}

/* --- a line each --- */

struct player {
	struct twt_np table;
	void *context;
	void *events[EVENTS];
	uint32_t read; /* lines */
};

static void **event_of(struct player *player, unsigned number)
{
	TWT_MUST(number < EVENTS);
	return &player->events[number];
}

static void start_collective(struct player *player, const char *rest, unsigned number)
{
	char function[32], type[32], algorithm[32], protocol[32];
	struct nccl_event_descriptor what = { .rank = 0 };
	unsigned channels;

	TWT_MUST(sscanf(rest, "%31s %zu %31s %u %31s %31s", function, &what.coll.count, type,
			&channels, algorithm, protocol) == 6);
	what.coll.function = function;
	what.coll.type = type;
	what.coll.channels = (uint8_t)channels;
	what.coll.algorithm = algorithm;
	what.coll.protocol = protocol;
	*event_of(player, number) =
		twt_np_start(&player->table, player->context, NCCL_EVENT_COLL, what);
}

static void start_below(struct player *player, char kind, const char *rest, unsigned number)
{
	struct nccl_event_descriptor what = { .parent = NULL };
	uint64_t type = NCCL_EVENT_PROXY_OP;
	unsigned parent, channel;
	int own, used;

	TWT_MUST(sscanf(rest, "%u%n", &parent, &used) == 1);
	what.parent = *event_of(player, parent);
	if (kind == 'O') {
		TWT_MUST(sscanf(rest + used, "%d %u %d %d %d %d", &own, &channel, &what.op.peer,
				&what.op.steps, &what.op.chunk_bytes, &what.op.sends) == 6);
		what.op.pid = own ? (int32_t)getpid() : 1;
		what.op.channel = (uint8_t)channel;
	} else if (kind == 'T') {
		type = NCCL_EVENT_PROXY_STEP;
		TWT_MUST(sscanf(rest + used, "%d", &what.step.step) == 1);
	} else {
		type = NCCL_EVENT_KERNEL;
		TWT_MUST(kind == 'K' && sscanf(rest + used, "%u", &channel) == 1);
		what.kernel.channel = (uint8_t)channel;
	}
	*event_of(player, number) = twt_np_start(&player->table, player->context, type, what);
}

static void play_line(struct player *player, char kind, const char *rest, unsigned number)
{
	size_t bytes;
	int state;

	player->read++;
	if (kind == 'C') {
		start_collective(player, rest, number);
	} else if (kind == 'S') {
		TWT_MUST(sscanf(rest, "%d %zu", &state, &bytes) == 2);
		twt_np_state(&player->table, *event_of(player, number), state, bytes);
	} else if (kind == 'E') {
		twt_np_stop(&player->table, *event_of(player, number));
	} else {
		start_below(player, kind, rest, number);
	}
}

/* Both ranks have met: the whole record of this one, each line when it was written. */
static void play_record(struct twt_fj *job, struct player *player, struct record *record,
			uint64_t first_us)
{
	unsigned long long at_us = record->first_us - first_us, after;
	struct timespec start;
	char line[LINE_MAX], kind;
	unsigned number;
	bool first = true;
	int used;

	clock_gettime(CLOCK_MONOTONIC, &start);
	rewind(record->file);
	TWT_MUST(fgets(line, sizeof(line), record->file) != NULL);
	while (fgets(line, sizeof(line), record->file) != NULL) {
		TWT_MUST(sscanf(line, "%c %llu %u%n", &kind, &after, &number, &used) == 3);
		at_us += first ? 0 : after;
		first = false;
		sleep_until(start, at_us);
		if (kind == 'C')
			atomic_fetch_add(&job->marks->steps, 1);
		play_line(player, kind, line + used, number);
	}
}

static void play(struct twt_fj *job, uint32_t rank)
{
	struct player *player = calloc(1, sizeof(*player));
	struct record own = open_record(job, rank), other = open_record(job, 1 - rank);
	int mask = 0;

	TWT_MUST(player != NULL);
	player->table = twt_np_load(VERSION);
	TWT_MUST(twt_np_init(&player->table, &player->context, &mask, FJ_NAME, COMM_ID, (int)RANKS,
			     (int)rank) == 0);
	while (twt_fj_meet(job))
		play_record(job, player, &own,
			    own.first_us < other.first_us ? own.first_us : other.first_us);
	TWT_MUST(player->read > 2000);
	TWT_MUST(player->table.v4->finalize(player->context) == 0);
	fclose(own.file);
	fclose(other.file);
	free(player);
}

static void play_case(size_t which)
{
	struct twt_fj job = { .fault = which == 1 ? FJ_LATE : FJ_HEALTHY,
			      .ranks = RANKS,
			      .victim = 1,
			      .play = play };

	twt_fj_begin(&job);
	twt_fj_expect(&job);
	twt_fj_end(&job);
}

static void verdicts_are_those_of_the_job(void **state)
{
	(void)state;
	twt_beside(2, 1, play_case); /* in turn: among others the pace would be another */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdicts_are_those_of_the_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
