/*
 * group_program.c - what test_group and test_launchers run as ranks: one mode a run, named by the
 * first argument. Prints what a test looks for; ends with 0 when the rank saw what it should see.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#define LIMIT_NS 30000000000u
#define RANKS    16

static struct tow_runtime *runtime;
static uint32_t rank, size;

static void expect_at(int truth, int line)
{
	if (truth)
		return;
	printf("group_program.c:%d: not so; the last error: %s\n", line, tow_error_message());
	exit(1);
}
#define expect(truth) expect_at(truth, __LINE__)

static void say(int status)
{
	printf("%s: %s\n", tow_status_name(status), status < 0 ? tow_error_message() : "");
	fflush(stdout);
}

static void nap(double seconds)
{
	struct timespec time = { (time_t)seconds,
				 (long)((seconds - (double)(time_t)seconds) * 1e9) };

	nanosleep(&time, NULL);
}

static int finish(struct tow_op *op)
{
	int status = tow_op_wait(op, LIMIT_NS);

	tow_op_release(op);
	return status;
}

static struct tow_group *open_group(void)
{
	struct tow_group *group = NULL;
	int status = tow_group_open(runtime, NULL, &group);

	if (status < 0)
		say(status);
	expect(status == TOW_OK);
	rank = tow_group_rank(group);
	size = tow_group_size(group);
	return group;
}

static void close_group(struct tow_group *group)
{
	expect(tow_group_barrier(group, LIMIT_NS) == TOW_OK);
	expect(tow_group_close(group) == TOW_OK);
}

/* Every rank dials every other at the same time, so that each pair meets half way. */
static void connect_all(struct tow_group *group)
{
	struct tow_op *ops[RANKS];
	uint32_t n = tow_group_size(group), me = tow_group_rank(group);

	for (uint32_t i = 0; i < n; i++) {
		if (i != me)
			expect(tow_group_connect_start(group, i, NULL, &ops[i]) == TOW_OK);
	}
	for (uint32_t i = 0; i < n; i++) {
		struct tow_peer *peer;

		if (i == me)
			continue;
		expect(finish(ops[i]) == TOW_OK);
		expect(tow_group_peer(group, i, &peer) == TOW_OK && peer != NULL);
	}
}

/* A message of `bytes` to each rank, and one of each; what comes says from whom, for whom. */
static void exchange(struct tow_group *group, size_t bytes)
{
	struct tow_op *in[RANKS], *out[RANKS];
	uint32_t *from[RANKS], *to[RANKS];
	uint32_t n = tow_group_size(group), me = tow_group_rank(group);

	for (uint32_t i = 0; i < n; i++) {
		struct tow_peer *peer;

		if (i == me)
			continue;
		from[i] = calloc(1, bytes);
		to[i] = calloc(1, bytes);
		expect(from[i] != NULL && to[i] != NULL);
		to[i][0] = me;
		to[i][1] = i;
		to[i][bytes / 4 - 1] = me * 1000 + i;
		expect(tow_group_peer(group, i, &peer) == TOW_OK);
		expect(tow_recv_start(peer, from[i], bytes, 5, NULL, &in[i]) == TOW_OK);
		expect(tow_send_start(peer, to[i], bytes, 5, NULL, &out[i]) == TOW_OK);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (i == me)
			continue;
		expect(finish(out[i]) >= TOW_OK && finish(in[i]) >= TOW_OK);
		expect(from[i][0] == i && from[i][1] == me);
		expect(from[i][bytes / 4 - 1] == i * 1000 + me);
		free(from[i]);
		free(to[i]);
	}
}

static void try_barriers(struct tow_group *group)
{
	struct tow_op *ops[20];

	for (int i = 0; i < 20; i++)
		expect(tow_group_barrier_start(group, NULL, &ops[i]) == TOW_OK);
	for (int i = 19; i >= 0; i--)
		expect(finish(ops[i]) == TOW_OK);
}

static void try_splits(struct tow_group *all)
{
	struct tow_group *row, *pair, *none;

	/* Backwards: the key turns the order round. */
	expect(tow_group_split(all, 0, -(int64_t)rank, LIMIT_NS, &row) == TOW_OK);
	expect(tow_group_size(row) == size && tow_group_rank(row) == size - 1 - rank);
	expect(tow_group_split(row, tow_group_rank(row) / 2, 0, LIMIT_NS, &pair) == TOW_OK);
	expect(tow_group_size(pair) <= 2);
	try_barriers(pair);
	try_barriers(row);
	if (tow_group_size(pair) == 2)
		connect_all(pair);
	exchange(pair, 64);
	expect(tow_group_split(all, rank == 0 ? 1 : TOW_GROUP_NONE, 0, LIMIT_NS, &none) == TOW_OK);
	expect((none != NULL) == (rank == 0));
	expect(tow_group_close(none) == TOW_OK);
	expect(tow_group_close(pair) == TOW_OK);
	expect(tow_group_close(row) == TOW_OK);
}

static void try_values(struct tow_group *group)
{
	char text[64], key[32];
	size_t bytes = 0;

	if (size == 1) {
		expect(tow_group_set(group, "k", "v", 1, LIMIT_NS) == TOW_ENOTSUP);
		return;
	}
	snprintf(key, sizeof(key), "of %u", rank);
	if (rank == 0)
		nap(0.05); /* the others wait for it */
	expect(tow_group_set(group, key, key, strlen(key) + 1, LIMIT_NS) == TOW_OK);
	snprintf(key, sizeof(key), "of %u", (rank + 1) % size);
	expect(tow_group_get(group, key, text, sizeof(text), &bytes, LIMIT_NS) == TOW_OK);
	expect(strcmp(text, key) == 0 && bytes == strlen(key) + 1);
	expect(tow_group_get(group, "nobody's", text, sizeof(text), &bytes, 50000000) ==
	       TOW_EDEADLINE);
	expect(tow_group_set(group, "", "v", 1, LIMIT_NS) == TOW_EINVAL);
}

static void mode_all(void)
{
	struct tow_group *group = open_group();
	char address[TOW_ADDRESS_MAX];
	struct tow_op *op;

	expect(tow_group_barrier(group, LIMIT_NS) == TOW_OK);
	connect_all(group);
	connect_all(group); /* at once, as they are */
	exchange(group, 16);
	exchange(group, 1 << 20);
	try_barriers(group);
	try_splits(group);
	try_values(group);
	expect(tow_group_connect_start(group, rank, NULL, &op) == TOW_EINVAL);
	expect(tow_group_connect_start(group, size, NULL, &op) == TOW_EINVAL);
	expect(tow_group_address(group, size, address, sizeof(address)) == TOW_EINVAL);
	if (size > 1)
		expect(tow_group_address(group, rank, address, sizeof(address)) == TOW_OK);
	close_group(group);
	printf("all well: %u of %u\n", rank, size);
}

/* Opens and says how that went. */
static void try_open(const struct tow_group_options *options)
{
	struct tow_group *group;
	int status = tow_group_open(runtime, options, &group);

	say(status);
	if (status == TOW_OK)
		tow_group_close(group);
}

static struct tow_group_options short_options(void)
{
	struct tow_group_options options = TOW_GROUP_OPTIONS_INIT;

	options.timeout_ns = 2000000000;
	return options;
}

/* Time enough for all to have greeted, and for the store to say whom or what it has refused. */
static struct tow_group_options refusal_options(void)
{
	struct tow_group_options options = TOW_GROUP_OPTIONS_INIT;

	options.timeout_ns = 6000000000;
	return options;
}

static void mode_open(void)
{
	const struct tow_group_options options = refusal_options();

	try_open(&options);
}

/* The last rank says another size, or another rank. */
static void mode_sizes(void)
{
	struct tow_group_options options = refusal_options();
	long world = strtol(getenv("TOW_WORLD_SIZE"), NULL, 10);

	if (strtol(getenv("TOW_RANK"), NULL, 10) == world - 1)
		options.world_size = world + 4;
	try_open(&options);
}

static void mode_twice(void)
{
	struct tow_group_options options = refusal_options();

	if (strtol(getenv("TOW_RANK"), NULL, 10) == 2)
		options.rank = 1;
	try_open(&options);
}

static void mode_absent(void)
{
	const struct tow_group_options options = refusal_options();

	if (strcmp(getenv("TOW_RANK"), "2") != 0)
		try_open(&options);
}

static void mode_no_store(void)
{
	const struct tow_group_options options = short_options();

	if (strcmp(getenv("TOW_RANK"), "0") != 0)
		try_open(&options);
}

/* Rank 0 is killed while the others wait for it: at the join, or at a barrier. */
static void mode_killed_join(void)
{
	struct tow_group_options options = TOW_GROUP_OPTIONS_INIT;

	options.timeout_ns = LIMIT_NS;
	if (strcmp(getenv("TOW_RANK"), "0") == 0) {
		struct tow_group *group;
		struct tow_op *op;

		expect(tow_group_open_start(runtime, &options, NULL, &group, &op) == TOW_OK);
		nap(0.5);
		kill(getpid(), SIGKILL);
	}
	if (strcmp(getenv("TOW_RANK"), "1") == 0)
		try_open(&options);
}

static void mode_killed_barrier(void)
{
	struct tow_group *group = open_group();

	connect_all(group);
	expect(tow_group_barrier(group, LIMIT_NS) == TOW_OK);
	if (rank == 0)
		kill(getpid(), SIGKILL);
	say(tow_group_barrier(group, LIMIT_NS));
	expect(tow_group_close(group) == TOW_OK);
}

/*
 * A barrier that not everybody comes to has a deadline, and may be canceled, while the others keep
 * the group open.
 */
static void mode_barriers(void)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_group *group = open_group(), *sub;
	struct tow_op *op;
	size_t bytes;
	char tried;

	expect(tow_group_split(group, 0, 0, LIMIT_NS, &sub) == TOW_OK);
	if (rank != 0) {
		expect(tow_group_get(group, "tried", &tried, 1, &bytes, LIMIT_NS) == TOW_OK);
	} else {
		options.timeout_ns = 100000000;
		expect(tow_group_barrier_start(sub, &options, &op) == TOW_OK);
		expect(finish(op) == TOW_EDEADLINE);
		expect(tow_group_barrier_start(sub, NULL, &op) == TOW_OK);
		expect(tow_op_test(op) == TOW_AGAIN);
		expect(tow_op_cancel(op) == TOW_OK);
		expect(finish(op) == TOW_ECANCELED);
		expect(tow_group_set(group, "tried", "1", 1, LIMIT_NS) == TOW_OK);
		/* One that is under way when everything closes. */
		expect(tow_group_barrier_start(sub, NULL, &op) == TOW_OK);
		tow_op_release(op);
	}
	expect(tow_group_close(sub) == TOW_OK);
	close_group(group);
	say(TOW_OK);
}

/* The polled open: it ends well, is canceled, and has a deadline. */
static void mode_polled(void)
{
	struct tow_group_options options = TOW_GROUP_OPTIONS_INIT;
	struct tow_op_options op_options = TOW_OP_OPTIONS_INIT;
	struct tow_group *group;
	static struct tow_group *never; /* there until the runtime ends */
	struct tow_op *op;
	int status;

	expect(tow_group_open_start(runtime, &options, NULL, &group, &op) == TOW_OK);
	while ((status = tow_op_test(op)) == TOW_AGAIN)
		nap(0.001);
	expect(status == TOW_OK && group != NULL);
	tow_op_release(op);
	close_group(group);
	options.rank = 1;
	options.world_size = size;
	options.store = "127.0.0.1:9"; /* nobody is there */
	expect(tow_group_open_start(runtime, &options, NULL, &never, &op) == TOW_OK);
	nap(0.05);
	expect(tow_op_test(op) == TOW_AGAIN);
	tow_op_cancel(op);
	expect(finish(op) == TOW_ECANCELED && never == NULL);
	op_options.timeout_ns = 50000000;
	expect(tow_group_open_start(runtime, &options, &op_options, &never, &op) == TOW_OK);
	expect(finish(op) == TOW_EDEADLINE && never == NULL);
	/* One is under way when the runtime is closed. */
	expect(tow_group_open_start(runtime, &options, NULL, &never, &op) == TOW_OK);
	say(TOW_OK);
}

/* Nothing is closed by hand: the runtime's end ends the group. */
static void mode_unclosed(void)
{
	struct tow_group *group = open_group(), *half;

	connect_all(group);
	expect(tow_group_split(group, rank % 2, 0, LIMIT_NS, &half) == TOW_OK);
	expect(tow_group_barrier(group, LIMIT_NS) == TOW_OK);
	say(TOW_OK);
}

static void mode_who(void)
{
	struct tow_job_info info = { .size = sizeof(info) };
	int status = tow_job_info(runtime, &info);

	if (status < 0)
		say(status);
	else
		printf("%s %" PRId64 "/%" PRId64 " local %" PRId64 "/%" PRId64 " job %s\n",
		       info.launcher, info.rank, info.world_size, info.local_rank, info.local_size,
		       info.job);
}

/* Something to look at: all-reduces, until a signal ends it, or minutes are over. */
static void mode_reduce(void)
{
	struct tow_group *group = open_group();
	const size_t count = 16384;
	float *in, *out;
	struct tow_op *op;

	expect(tow_alloc(runtime, count * sizeof(*in), 0, (void **)&in) == TOW_OK);
	expect(tow_alloc(runtime, count * sizeof(*out), 0, (void **)&out) == TOW_OK);
	memset(in, 0, count * sizeof(*in));
	say(TOW_OK);
	for (unsigned i = 0; i < 100000; i++) {
		expect(tow_coll_all_reduce_start(group, in, out, count, TOW_F32, TOW_SUM, NULL,
						 &op) == TOW_OK);
		if (finish(op) < 0)
			exit(3); /* another rank was killed */
		nap(0.002);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} modes[] = {
	{ "reduce", mode_reduce },
	{ "all", mode_all },
	{ "open", mode_open },
	{ "sizes", mode_sizes },
	{ "twice", mode_twice },
	{ "absent", mode_absent },
	{ "no-store", mode_no_store },
	{ "killed-join", mode_killed_join },
	{ "killed-barrier", mode_killed_barrier },
	{ "barriers", mode_barriers },
	{ "polled", mode_polled },
	{ "unclosed", mode_unclosed },
	{ "who", mode_who },
};

int main(int argc, char **argv)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 16 << 20;
	options.peer_timeout_ns = 2000000000;
	expect(tow_runtime_open(&options, &runtime) == TOW_OK);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (argc > 1 && strcmp(argv[1], modes[i].name) == 0) {
			modes[i].run();
			expect(tow_runtime_close(runtime) == TOW_OK);
			return 0;
		}
	}
	fprintf(stderr, "group_program: no such mode\n");
	return 2;
}
