/*
 * test_coll_report.c - what /v1/coll and towstat say of collectives that have run: plans and why,
 * who shares memory, what was moved, and the times of the last ones.
 */
#include "coll_team.h"

#include <jansson.h>
#include <time.h>

#include "command.h"

#define DELAY_NS 50000000ull
#define COUNT    4096u

static json_t *document(struct twt_rank *rank)
{
	char *text;
	json_t *coll;

	TWT_OK(tow_stats_get(rank->runtime, "/v1/coll", &text));
	coll = json_loads(text, 0, NULL);
	TWT_TRUE(coll != NULL);
	tow_stats_release(text);
	return coll;
}

static json_t *get(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	if (value == NULL) {
		fprintf(stderr, "there is no \"%s\"\n", key);
		abort();
	}
	return value;
}

static uint64_t number(json_t *object, const char *key)
{
	TWT_TRUE(json_is_integer(get(object, key)));
	return (uint64_t)json_integer_value(get(object, key));
}

static const char *text(json_t *object, const char *key)
{
	TWT_TRUE(json_is_string(get(object, key)));
	return json_string_value(get(object, key));
}

/* The only one of an array whose member `key` is `value`. */
static json_t *only(json_t *array, const char *key, const char *value)
{
	json_t *row, *found = NULL;
	size_t i;

	json_array_foreach(array, i, row)
	{
		const char *its = json_string_value(json_object_get(row, key));

		if (its == NULL || strcmp(its, value) != 0)
			continue;
		TWT_TRUE(found == NULL);
		found = row;
	}
	TWT_TRUE(found != NULL);
	return found;
}

static void nap(uint64_t ns)
{
	struct timespec ts = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	nanosleep(&ts, NULL);
}

/* One named all-reduce; `late` after its start it is waited for. plan NULL: the best. */
static void reduce(struct twt_rank *rank, float *data, const char *name, const char *plan,
		   uint64_t late)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *op;

	options.name = name;
	options.plan = plan;
	for (uint32_t i = 0; i < COUNT; i++)
		data[i] = 1;
	TWT_OK(tow_coll_all_reduce_start(rank->group, data, data, COUNT, TOW_F32, TOW_SUM, &options,
					 &op));
	if (late > 0)
		nap(late);
	TWT_OK(twt_coll_end(op));
	TWT_TRUE(data[COUNT - 1] == (float)rank->ranks);
}

static float *pool_data(struct twt_rank *rank)
{
	void *memory;

	TWT_OK(tow_alloc(rank->runtime, COUNT * sizeof(float), 0, &memory));
	return memory;
}

static void check_group(struct twt_rank *rank, json_t *group, bool shm)
{
	TWT_TRUE(strcmp(text(group, "state"), "ready") == 0);
	TWT_TRUE(number(group, "rank") == rank->rank && number(group, "size") == rank->ranks);
	TWT_TRUE(json_is_null(get(group, "broken")) && json_is_null(get(group, "broken_why")));
	TWT_TRUE(json_array_size(get(group, "hosts")) == rank->ranks);
	TWT_TRUE(json_is_true(get(group, "shares_memory")) == shm);
	TWT_TRUE(json_is_true(get(group, "peers_write")) == shm);
	TWT_TRUE(json_is_null(get(group, "shares_memory_why_not")) == shm);
	TWT_TRUE(json_array_size(get(group, "local_ranks")) == (shm ? rank->ranks : 1));
	TWT_TRUE(number(group, "in_flight") == 0);
	TWT_TRUE(json_array_size(get(group, "members")) == rank->ranks);
	TWT_TRUE(json_integer_value(json_array_get(get(group, "members"), 1)) == 1);
	TWT_TRUE(number(get(group, "begun"), "all-reduce") == 3);
}

/* Of two ranks, in place: each reads the other's half and writes it; or sends and receives it. */
static void check_entry(json_t *entry, bool shm)
{
	uint64_t bytes = COUNT * sizeof(float);
	json_t *lane;

	TWT_TRUE(number(entry, "count") == COUNT && number(entry, "bytes") == bytes);
	TWT_TRUE(strcmp(text(entry, "plan"), shm ? "local" : "ring") == 0);
	TWT_TRUE(strcmp(text(entry, "why"), "the call asks for it") == 0);
	TWT_TRUE(number(entry, "calls") == 3);
	TWT_TRUE(number(get(entry, "latency_ns"), "count") == 3);
	TWT_TRUE(number(get(entry, "skew_ns"), "count") == 3);
	TWT_TRUE(json_array_size(get(entry, "fallback_copies")) == 0);
	TWT_TRUE(number(entry, "reduced_bytes") == bytes);
	if (shm) {
		TWT_TRUE(number(entry, "in_place_read_bytes") == bytes / 2);
		TWT_TRUE(number(entry, "in_place_written_bytes") == bytes / 2);
		TWT_TRUE(number(entry, "messages_sent") == 0);
		TWT_TRUE(json_array_size(get(entry, "lanes")) == 0);
		return;
	}
	lane = only(get(entry, "lanes"), "lane", "tcp");
	TWT_TRUE(number(lane, "sent_bytes") == bytes && number(lane, "received_bytes") == bytes);
	TWT_TRUE(number(entry, "messages_sent") == 2 && number(entry, "messages_received") == 2);
	TWT_TRUE(number(entry, "in_place_read_bytes") == 0);
}

static void check_times(json_t *row, const char *plan)
{
	uint64_t start = number(row, "start_ns"), done = number(row, "done_ns");

	TWT_TRUE(strcmp(text(row, "plan"), plan) == 0);
	TWT_TRUE(strcmp(text(row, "status"), "TOW_OK") == 0);
	TWT_TRUE(strcmp(text(row, "kind"), "all-reduce") == 0);
	TWT_TRUE(number(row, "seq") > 0 && number(row, "bytes") == COUNT * sizeof(float));
	TWT_TRUE(start <= number(row, "moving_ns") && number(row, "moving_ns") <= done);
	TWT_TRUE(start <= number(row, "entered_ns") && number(row, "entered_ns") <= done);
	TWT_TRUE(start <= number(row, "wait_ns"));
	TWT_TRUE(number(row, "skew_ns") == number(row, "entered_ns") - start);
}

/* The value of the one sample of /metrics with this name and these labels; -1: there is none. */
static double sample(struct twt_rank *rank, const char *name, const char *labels)
{
	char line[200], *metrics, *found;
	double value = -1;

	snprintf(line, sizeof(line), "\n%s{%s} ", name, labels);
	TWT_OK(tow_stats_get(rank->runtime, "/metrics", &metrics));
	found = strstr(metrics, line);
	if (found != NULL)
		value = strtod(found + strlen(line), NULL);
	tow_stats_release(metrics);
	return value;
}

/* What a lane has carried of a call: in memory a byte counts at the rank that moves it. */
static void check_lane(struct twt_rank *rank, const char *lane, uint64_t bytes)
{
	char labels[120];

	snprintf(labels, sizeof(labels), "collective=\"all-reduce\",lane=\"%s\",direction=\"sent\"",
		 lane);
	TWT_TRUE(sample(rank, "towline_coll_bytes_total", labels) == (double)bytes);
	snprintf(labels, sizeof(labels),
		 "collective=\"all-reduce\",lane=\"%s\",direction=\"received\"", lane);
	TWT_TRUE(sample(rank, "towline_coll_bytes_total", labels) == (double)bytes);
}

/* Three all-reduces as run_times has them, in /metrics and in the totals of /v1/coll. */
static void check_account(struct twt_rank *rank, json_t *coll, bool shm)
{
	const char *lane = shm ? "shm" : "tcp";
	uint64_t bytes = COUNT * sizeof(float), moved = 3 * (shm ? bytes / 2 : bytes);
	json_t *total = only(get(coll, "totals"), "kind", "all-reduce"), *row;
	char labels[80];
	double most;

	TWT_TRUE(strcmp(text(total, "lane"), lane) == 0);
	TWT_TRUE(number(get(total, "latency_ns"), "count") == 3);
	TWT_TRUE(number(get(total, "skew_ns"), "count") == 3);
	TWT_TRUE(number(total, "slack_mean_ns") >= DELAY_NS / 3 &&
		 number(total, "waited_for") == 3);
	row = only(get(total, "lanes"), "lane", lane);
	TWT_TRUE(number(row, "sent_bytes") == moved && number(row, "received_bytes") == moved);
	check_lane(rank, lane, moved);
	snprintf(labels, sizeof(labels), "collective=\"all-reduce\",lane=\"%s\"", lane);
	TWT_TRUE(sample(rank, "towline_coll_seconds_count", labels) == 3);
	TWT_TRUE(sample(rank, "towline_coll_skew_seconds_count", labels) == 3);
	most = sample(rank, "towline_coll_wait_seconds_total", labels);
	if (rank->rank == 0) { /* for rank 1, which came late */
		TWT_TRUE(sample(rank, "towline_coll_skew_seconds_sum", labels) >=
			 (double)DELAY_NS / 2e9);
		TWT_TRUE(most >= (double)DELAY_NS / 2e9);
	}
	TWT_TRUE(most >= 0 && most <= sample(rank, "towline_coll_seconds_sum", labels));
	TWT_TRUE(sample(rank, "towline_coll_slack_seconds_sum", labels) >= (double)DELAY_NS / 1e9);
}

/* Three of them: at once; rank 1 comes late; all wait late. */
static void run_times(struct twt_rank *rank)
{
	bool shm = *(const bool *)rank->arg;
	const char *plan = shm ? "local" : "ring";
	float *data = pool_data(rank);
	json_t *coll, *group, *last, *row;

	twt_coll_meet(rank);
	reduce(rank, data, "first", plan, 0);
	twt_coll_meet(rank);
	if (rank->rank == 1)
		nap(DELAY_NS);
	reduce(rank, data, "uneven", plan, 0);
	twt_coll_meet(rank);
	reduce(rank, data, "awaited late", plan, DELAY_NS);
	twt_coll_meet(rank);

	coll = document(rank);
	group = json_array_get(get(coll, "groups"), 0);
	check_group(rank, group, shm);
	check_entry(only(get(group, "entries"), "kind", "all-reduce"), shm);
	row = only(get(group, "kinds"), "kind", "all-reduce");
	TWT_TRUE(number(get(row, "latency_ns"), "count") == 3);
	last = get(coll, "last");
	check_times(only(last, "name", "first"), plan);
	row = only(last, "name", "uneven");
	check_times(row, plan);
	if (rank->rank == 0)
		TWT_TRUE(number(row, "skew_ns") >= DELAY_NS / 2);
	row = only(last, "name", "awaited late");
	check_times(row, plan);
	TWT_TRUE(number(row, "slack_ns") >= DELAY_NS);
	TWT_TRUE(number(row, "slack_ns") == number(row, "wait_ns") - number(row, "start_ns"));
	check_account(rank, coll, shm);
	json_decref(coll);
	twt_coll_meet(rank);
}

static void test_times(void **state)
{
	static bool yes = true, no;

	(void)state;
	twt_ranks(
		&(struct twt_job){ .ranks = 2, .lane = "shm://*", .run = run_times, .arg = &yes });
	twt_ranks(&(struct twt_job){
		.ranks = 2, .lane = "tcp://127.0.0.1:0", .run = run_times, .arg = &no });
}

/* Time in which the thread was blocked for another one is no slack. */
static void run_blocked(struct twt_rank *rank)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct tow_op *first, *second;
	float data[2] = { 1, 1 };
	json_t *coll, *row;

	twt_coll_meet(rank);
	options.name = "first";
	TWT_OK(tow_coll_all_reduce_start(rank->group, data, data, 1, TOW_F32, TOW_SUM, &options,
					 &first));
	if (rank->rank == 1)
		nap(DELAY_NS);
	TWT_OK(tow_coll_all_reduce_start(rank->group, data + 1, data + 1, 1, TOW_F32, TOW_SUM, NULL,
					 &second));
	TWT_OK(twt_coll_end(second));
	TWT_OK(twt_coll_end(first));
	coll = document(rank);
	row = only(get(coll, "last"), "name", "first");
	if (rank->rank == 0) /* blocked until rank 1 came to the second */
		TWT_TRUE(number(row, "wait_ns") - number(row, "start_ns") >=
			 number(row, "slack_ns") + DELAY_NS / 2);
	else
		TWT_TRUE(number(row, "slack_ns") >= DELAY_NS);
	json_decref(coll);
	twt_coll_meet(rank);
}

static void test_blocked(void **state)
{
	(void)state;
	twt_ranks(&(struct twt_job){ .ranks = 2, .lane = "shm://*", .run = run_blocked });
}

/* --- why --- */

static char table[64];

static void knob_plan(struct tow_options *options)
{
	options->coll_plan = "exchange";
}

static void knob_table(struct tow_options *options)
{
	options->coll_table = table;
}

struct expected {
	const char *plan, *why;
};

static void run_why(struct twt_rank *rank)
{
	const struct expected *expected = rank->arg;
	float *data = pool_data(rank);
	json_t *coll, *entry;

	reduce(rank, data, NULL, NULL, 0);
	coll = document(rank);
	entry = only(get(json_array_get(get(coll, "groups"), 0), "entries"), "kind", "all-reduce");
	TWT_TRUE(strcmp(text(entry, "why"), expected->why) == 0);
	TWT_TRUE(strcmp(text(entry, "plan"), expected->plan) == 0);
	json_decref(coll);
	twt_coll_meet(rank);
}

static void test_why(void **state)
{
	struct expected by_knob = { "exchange", "knob coll_plan" },
			by_table = { "ring", "file of the knob coll_table" },
			built_in = { "local", "built-in table" };
	struct twt_job job = { .ranks = 2, .lane = "shm://*", .run = run_why };
	FILE *file;
	int fd;

	(void)state;
	snprintf(table, sizeof(table), "/tmp/twt-coll-table-XXXXXX");
	fd = mkstemp(table);
	assert_true(fd >= 0);
	file = fdopen(fd, "w");
	assert_non_null(file);
	fprintf(file, "# a machine\nall-reduce net 2 inf direct\nall-reduce shm 3 inf local\n"
		      "all-reduce shm 2 16383 local\nall-reduce shm 2 16384 ring\n");
	fclose(file);
	job.arg = &built_in;
	twt_ranks(&job);
	job.arg = &by_knob;
	job.options = knob_plan;
	twt_ranks(&job);
	job.arg = &by_table;
	job.options = knob_table;
	twt_ranks(&job);
	unlink(table);
}

/* --- copies, combined ones, what cannot be shared --- */

static const char *cure_of(const char *reason)
{
	struct tow_reason_info row = { .size = sizeof(row) };

	for (size_t i = 0; tow_reason_info(i, &row) == TOW_OK; i++) {
		if (strcmp(row.name, reason) == 0)
			return row.cure;
	}
	return "";
}

static void run_copies(struct twt_rank *rank)
{
	static float data[COUNT];
	json_t *coll, *group, *entry, *copies;
	uint64_t handle;

	reduce(rank, data, NULL, "local", 0);
	/* Registering it would be no cure, so the cure does not say that it is (reason.def). */
	TWT_OK(tow_mem_register(rank->runtime, data, sizeof(data), &handle));
	reduce(rank, data, NULL, "local", 0);
	TWT_TRUE(strstr(cure_of("unregistered_send"), "but not between processes of one "
						      "host, which share the pool alone"));
	TWT_OK(tow_mem_deregister(rank->runtime, handle));
	coll = document(rank);
	group = json_array_get(get(coll, "groups"), 0);
	entry = only(get(group, "entries"), "kind", "all-reduce");
	copies = get(entry, "fallback_copies");
	TWT_TRUE(number(only(copies, "reason", "unregistered_send"), "bytes") == 2 * sizeof(data));
	TWT_TRUE(number(only(copies, "reason", "unregistered_recv"), "bytes") == 2 * sizeof(data));
	json_decref(coll);
	twt_coll_meet(rank);
}

static void no_writes(struct tow_options *options)
{
	options->shm_peer_writes = options->rank == 1 ? 0 : 1;
}

static void run_no_writes(struct twt_rank *rank)
{
	json_t *coll, *group;

	reduce(rank, pool_data(rank), NULL, "local", 0);
	coll = document(rank);
	group = json_array_get(get(coll, "groups"), 0);
	TWT_TRUE(json_is_true(get(group, "shares_memory")));
	TWT_TRUE(json_is_false(get(group, "peers_write")));
	TWT_TRUE(strstr(text(group, "peers_write_why_not"), "shm_peer_writes") != NULL);
	json_decref(coll);
	twt_coll_meet(rank);
}

static void run_combined(struct twt_rank *rank)
{
	static const char *const names[] = { "a", "b" };
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	float data[2][8] = { { 0 } };
	json_t *coll, *row, *entry;
	struct tow_op *ops[2];
	size_t i;

	TWT_OK(tow_coll_batch_begin(rank->group));
	for (int k = 0; k < 2; k++) {
		options.name = names[k];
		TWT_OK(tow_coll_all_reduce_start(rank->group, data[k], data[k], 4 + 4 * (uint64_t)k,
						 TOW_F32, TOW_SUM, &options, &ops[k]));
	}
	coll = document(rank);
	TWT_TRUE(number(json_array_get(get(coll, "groups"), 0), "held_back") == 2);
	TWT_TRUE(number(json_array_get(get(coll, "groups"), 0), "held_behind") == 0);
	TWT_TRUE(json_is_null(get(only(get(coll, "last"), "name", "a"), "done_ns")));
	json_decref(coll);
	TWT_OK(tow_coll_batch_end(rank->group));
	for (int k = 0; k < 2; k++)
		TWT_OK(twt_coll_end(ops[k]));
	coll = document(rank);
	row = only(get(coll, "last"), "name", "b");
	TWT_TRUE(json_is_true(get(row, "combined")) && number(row, "bytes") == 32);
	row = only(get(coll, "last"), "name", "a");
	TWT_TRUE(json_is_true(get(row, "combined")) && number(row, "bytes") == 16);
	json_array_foreach(get(json_array_get(get(coll, "groups"), 0), "entries"), i, entry)
		TWT_TRUE(strcmp(text(entry, "kind"), "all-reduce") != 0 ||
			 (json_is_true(get(entry, "combined")) && number(entry, "bytes") == 96));
	json_decref(coll);
	twt_coll_meet(rank);
}

/* As many as are kept, and of a group that is broken the reason. */
static void run_many(struct twt_rank *rank)
{
	struct tow_op *op;
	json_t *coll, *last, *group;
	float data = 0;
	int status;

	for (int i = 0; i < 300; i++)
		twt_coll_meet(rank);
	coll = document(rank);
	last = get(coll, "last");
	TWT_TRUE(json_array_size(last) == 256);
	for (size_t i = 0; i < 256; i++)
		TWT_TRUE(number(json_array_get(last, i), "seq") == 45 + i);
	json_decref(coll);
	status = tow_coll_all_reduce_start(rank->group, &data, &data, 1, TOW_F32,
					   rank->rank == 0 ? TOW_SUM : TOW_MAX, NULL, &op);
	TWT_TRUE(status == TOW_OK && twt_coll_end(op) == TOW_EMISMATCH);
	coll = document(rank);
	group = json_array_get(get(coll, "groups"), 0);
	TWT_TRUE(strcmp(text(group, "state"), "broken") == 0);
	TWT_TRUE(strcmp(text(group, "broken"), "TOW_EMISMATCH") == 0);
	TWT_TRUE(strstr(text(group, "broken_why"), "disagree") != NULL);
	last = get(coll, "last");
	TWT_TRUE(strcmp(text(json_array_get(last, 255), "status"), "TOW_EMISMATCH") == 0);
	json_decref(coll);
}

static void test_contents(void **state)
{
	struct twt_job job = { .ranks = 2, .lane = "shm://*" };

	(void)state;
	job.run = run_copies;
	twt_ranks(&job);
	job.run = run_combined;
	twt_ranks(&job);
	job.run = run_many;
	twt_ranks(&job);
	job.run = run_no_writes;
	job.options = no_writes;
	twt_ranks(&job);
}

/* --- towstat --- */

static char dir[64];

static void with_socket(struct tow_options *options)
{
	options->stats = options->rank == 0;
	options->stats_dir = dir;
}

static void run_towstat(struct twt_rank *rank)
{
	static struct twt_command command;
	float *data = pool_data(rank);
	char line[512];

	reduce(rank, data, "gradients", "local", DELAY_NS);
	if (rank->rank == 0) {
		snprintf(line, sizeof(line), "@/tools/towstat/towstat get coll --socket %s",
			 tow_stats_socket(rank->runtime));
		twt_command(line, &command);
		if (command.status != 0 || getenv("TWT_SHOW") != NULL)
			fprintf(stderr, "%s\n", command.text);
		TWT_TRUE(command.status == 0);
		TWT_TRUE(strstr(command.text, "rank 0 of 2, ready, 1 started") != NULL);
		TWT_TRUE(strstr(command.text, "shares memory with 1 of its host; peers write: "
					      "yes") != NULL);
		TWT_TRUE(strstr(command.text, "all-reduce     sum f32          16 KiB local") !=
			 NULL);
		TWT_TRUE(strstr(command.text, "the call asks for it") != NULL);
		TWT_TRUE(strstr(command.text, "gradients") != NULL);
	}
	twt_coll_meet(rank);
}

static void test_towstat(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-coll-XXXXXX");
	assert_non_null(mkdtemp(dir));
	twt_ranks(&(struct twt_job){
		.ranks = 2, .lane = "shm://*", .run = run_towstat, .options = with_socket });
	assert_int_equal(rmdir(dir), 0);
}

/* Groups come and go; what they have counted stays, and is counted once. */
static void run_groups(struct twt_rank *rank)
{
	static const char labels[] = "collective=\"all-reduce\",lane=\"shm\"";
	struct tow_group *groups[2], *all = rank->group;
	float *data = pool_data(rank);

	for (int round = 1; round <= 4; round++) {
		for (int i = 0; i < 2; i++) {
			TWT_OK(tow_group_split(all, 1, rank->rank, 60 * 1000000000ull, &groups[i]));
			rank->group = groups[i];
			reduce(rank, data, "in a part", NULL, 0);
		}
		TWT_TRUE(sample(rank, "towline_coll_seconds_count", labels) == 2 * round);
		rank->group = all;
		for (int i = 0; i < 2; i++)
			TWT_OK(tow_group_close(groups[i]));
		TWT_TRUE(sample(rank, "towline_coll_seconds_count", labels) == 2 * round);
		TWT_TRUE(sample(rank, "towline_coll_skew_seconds_count", labels) == 2 * round);
	}
	twt_coll_meet(rank);
}

static void test_groups(void **state)
{
	(void)state;
	twt_ranks(&(struct twt_job){ .ranks = 2, .lane = "shm://*", .run = run_groups });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups),   cmocka_unit_test(test_times),
		cmocka_unit_test(test_blocked),  cmocka_unit_test(test_why),
		cmocka_unit_test(test_contents), cmocka_unit_test(test_towstat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
