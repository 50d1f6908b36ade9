/*
 * slack_program.c - two ranks whose collectives have planted slack: `slack_program FOLDER`, under
 * towrun. FOLDER/{ready,go,done,leave} as in latency_program.c.
 *
 * Rank 0 starts collectives alone, one over another, fused and in a batch, sleeps ("computes"),
 * says so in FOLDER/turn and waits. Rank 1 starts its part only then, and late, so that none is
 * over before rank 0 waits for it. What rank 0 did is in FOLDER/truth.json, by its own clock:
 *
 *	outside_ns	slept between the start of a collective and the wait for it
 *	calls_ns	what start calls took meanwhile, its own included
 *	woken_ns	from the end of a collective to the return of the wait for it, at most
 *	least_ns	from start to the end of the wait, at least, as the library's clock is read
 *			somewhere within the calls; most_ns: at most
 *	early		how many were over before the wait all the same: then nothing can be said
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#define LIMIT_NS (20ull * 1000000000)
#define STEPS    8
#define LATE_MS  2
#define ROOM     (1u << 20)
#define BUFFERS  3

enum { ALONE, MIXED_4, MIXED_8, OUTER, INNER, FUSED, BIG, TWINS, DENSE, ROWS };

/* What XProf is to say of it: `bytes` are those on the network. */
static struct row {
	const char *name, *transfer;
	uint64_t bytes;
	bool only; /* nothing else is under way */
	uint64_t count, outside_ns, calls_ns, woken_ns, least_ns, most_ns, early;
} rows[ROWS] = {
	[ALONE] = { "alone", "ALL_REDUCE", 96 << 10, true, 0, 0, 0, 0, 0, 0, 0 },
	[MIXED_4] = { "mixed-all-reduce-4KiB", "ALL_REDUCE", 4 << 10, true, 0, 0, 0, 0, 0, 0, 0 },
	[MIXED_8] = { "mixed-all-reduce-8KiB", "ALL_REDUCE", 8 << 10, true, 0, 0, 0, 0, 0, 0, 0 },
	[OUTER] = { "all-gather-128KiB", "ALL_GATHER", 64 << 10, false, 0, 0, 0, 0, 0, 0, 0 },
	[INNER] = { "reduce-scatter-32KiB", "REDUCE_SCATTER", 16 << 10, false, 0, 0, 0, 0, 0, 0,
		    0 },
	[FUSED] = { "all-reduce-9KiB-3_combined", "ALL_REDUCE", 9 << 10, true, 0, 0, 0, 0, 0, 0,
		    0 },
	[BIG] = { "big", "ALL_REDUCE", 1 << 20, false, 0, 0, 0, 0, 0, 0, 0 },
	[TWINS] = { "all-reduce-512KiB", "ALL_REDUCE", 512 << 10, false, 0, 0, 0, 0, 0, 0, 0 },
	[DENSE] = { "all-reduce-300KiB", "ALL_REDUCE", 300 << 10, false, 0, 0, 0, 0, 0, 0, 0 },
};

struct flying {
	struct tow_op *op;
	uint64_t outside_ns, calls_ns, woken_ns; /* of spent, when it began */
	uint64_t began_ns, called_ns, wait_ns;
};

static struct {
	uint64_t outside_ns, calls_ns, woken_ns, waits_ns, at_ns;
} spent;

static struct tow_group *group;
static uint8_t *in[BUFFERS], *out[BUFFERS];
static _Atomic uint64_t *turn;
static uint64_t turns;
static uint32_t rank;

static void check(int status, const char *what)
{
	if (status >= 0)
		return;
	fprintf(stderr, "slack_program: %s: %s: %s\n", what, tow_status_name(status),
		tow_error_message());
	exit(EXIT_FAILURE);
}

static void nap_us(long us)
{
	nanosleep(&(struct timespec){ us / 1000000, us % 1000000 * 1000 }, NULL);
}

static uint64_t now_ns(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

/* The time since the last call of this was spent so. */
static void pass(uint64_t *where)
{
	uint64_t now = now_ns();

	*where += now - spent.at_ns;
	spent.at_ns = now;
}

/* --- a collective --- */

enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER };

static void begin_one(struct flying *f, enum kind kind, const char *name, uint64_t floats, int n)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;

	options.name = name;
	pass(&spent.outside_ns);
	*f = (struct flying){ .outside_ns = spent.outside_ns,
			      .calls_ns = spent.calls_ns,
			      .woken_ns = spent.woken_ns,
			      .began_ns = spent.at_ns };
	if (kind == ALL_REDUCE)
		check(tow_coll_all_reduce_start(group, in[n], out[n], floats, TOW_F32, TOW_SUM,
						&options, &f->op),
		      "all-reduce");
	else if (kind == ALL_GATHER)
		check(tow_coll_all_gather_start(group, in[n], out[n], floats, TOW_F32, &options,
						&f->op),
		      "all-gather");
	else
		check(tow_coll_reduce_scatter_start(group, in[n], out[n], floats, TOW_F32, TOW_SUM,
						    &options, &f->op),
		      "reduce-scatter");
	pass(&spent.calls_ns);
	f->called_ns = spent.at_ns;
}

/* The collectives of a batch start here: what passed between their calls is no slack of theirs. */
static void batch_end(struct flying *f, int count)
{
	pass(&spent.outside_ns);
	for (int i = 0; i < count; i++)
		f[i].outside_ns = spent.outside_ns;
	check(tow_coll_batch_end(group), "batch");
	pass(&spent.calls_ns);
	for (int i = 0; i < count; i++)
		f[i].called_ns = spent.at_ns;
}

/* Its slack ends: from here on the rank waits. */
static void note_slack(struct flying *f, struct row *row)
{
	pass(&spent.outside_ns);
	f->wait_ns = spent.at_ns;
	row->count++;
	row->outside_ns += spent.outside_ns - f->outside_ns;
	row->calls_ns += spent.calls_ns - f->calls_ns;
	row->woken_ns += spent.woken_ns - f->woken_ns;
}

/* Row NULL: it is a part of what has a row. */
static void end_one(struct flying *f, struct row *row, bool must_wait)
{
	struct tow_result result = TOW_RESULT_INIT;
	uint64_t ended_ns, from_ns = spent.at_ns;

	check(tow_op_wait(f->op, LIMIT_NS), "wait");
	pass(&spent.waits_ns);
	check(tow_op_result(f->op, &result), "result");
	ended_ns = f->began_ns + result.latency_ns;
	spent.woken_ns += spent.at_ns - (ended_ns > from_ns ? ended_ns : from_ns);
	check(tow_op_release(f->op), "release");
	if (row == NULL)
		return;
	row->least_ns += f->wait_ns - f->called_ns;
	row->most_ns += spent.at_ns - f->began_ns;
	row->early += must_wait && f->began_ns + result.latency_ns < f->wait_ns;
}

/* Rank 1 goes on when rank 0 is about to wait, and late. */
static void take_turn(void)
{
	turns++;
	if (rank == 0) {
		atomic_store(turn, turns);
		return;
	}
	for (int i = 0; i < 200000 && atomic_load(turn) < turns; i++)
		nap_us(100);
	nap_us(LATE_MS * 1000);
}

/* What rank 0 does between its start and its turn; rank 1 does that after it. */
static void compute(long us)
{
	if (rank == 0 && us > 0)
		nap_us(us);
}

/* --- what is played --- */

static void play_alone(const char *name, uint64_t bytes, long us, struct row *row)
{
	struct flying one;

	if (rank == 1)
		take_turn();
	begin_one(&one, ALL_REDUCE, name, bytes / sizeof(float), 0);
	compute(us);
	note_slack(&one, row);
	if (rank == 0)
		take_turn();
	end_one(&one, row, true);
}

/* The wait for the outer one is no slack of the inner one. */
static void play_two(void)
{
	struct flying outer, inner;

	if (rank == 1)
		take_turn();
	begin_one(&outer, ALL_GATHER, NULL, 16 << 10, 0);
	compute(2000);
	if (rank == 0)
		begin_one(&inner, REDUCE_SCATTER, NULL, 4 << 10, 1);
	compute(1000);
	note_slack(&outer, &rows[OUTER]);
	if (rank == 0)
		take_turn();
	end_one(&outer, &rows[OUTER], true);
	compute(4000);
	if (rank == 1) {
		take_turn();
		begin_one(&inner, REDUCE_SCATTER, NULL, 4 << 10, 1);
	}
	note_slack(&inner, &rows[INNER]);
	if (rank == 0)
		take_turn();
	end_one(&inner, &rows[INNER], true);
}

static void play_batch(const uint64_t bytes[BUFFERS], const char *name, long us,
		       struct row *row_of[BUFFERS])
{
	struct flying all[BUFFERS];

	if (rank == 1)
		take_turn();
	check(tow_coll_batch_begin(group), "batch");
	for (int i = 0; i < BUFFERS; i++)
		begin_one(&all[i], ALL_REDUCE, i == 0 ? name : NULL, bytes[i] / sizeof(float), i);
	batch_end(all, BUFFERS);
	compute(us);
	for (int i = 0; i < BUFFERS; i++)
		if (row_of[i] != NULL)
			note_slack(&all[i], row_of[i]);
	if (rank == 0)
		take_turn();
	for (int i = 0; i < BUFFERS; i++)
		end_one(&all[i], row_of[i], i == 0);
}

static void play_step(int step)
{
	struct row *mixed = &rows[step % 2 ? MIXED_8 : MIXED_4];

	play_alone("alone", 96 << 10, 3000, &rows[ALONE]);
	play_alone("mixed", step % 2 ? 8 << 10 : 4 << 10, 2000, mixed);
	play_two();
	play_batch((uint64_t[BUFFERS]){ 3072, 3072, 3072 }, "part", 5000,
		   (struct row *[BUFFERS]){ &rows[FUSED], NULL, NULL });
	play_batch((uint64_t[BUFFERS]){ 1 << 20, 512 << 10, 512 << 10 }, "big", 4000,
		   (struct row *[BUFFERS]){ &rows[BIG], &rows[TWINS], &rows[TWINS] });
	/* Without any slack: what is subtracted once too often shows. */
	play_batch((uint64_t[BUFFERS]){ 300 << 10, 300 << 10, 300 << 10 }, NULL, 0,
		   (struct row *[BUFFERS]){ &rows[DENSE], &rows[DENSE], &rows[DENSE] });
}

static void write_truth(const char *folder)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/truth.json", folder);
	file = fopen(path, "w");
	if (file == NULL)
		exit(EXIT_FAILURE);
	for (int i = 0; i < ROWS; i++)
		fprintf(file,
			"%s{\"name\": \"%s\", \"transfer\": \"%s\", \"bytes\": %llu, "
			"\"only\": %s,\n\"count\": %llu, \"outside_ns\": %llu, \"calls_ns\": %llu, "
			"\"woken_ns\": "
			"%llu, \"least_ns\": %llu, \"most_ns\": %llu, \"early\": %llu}",
			i ? ",\n" : "[", rows[i].name, rows[i].transfer,
			(unsigned long long)rows[i].bytes, rows[i].only ? "true" : "false",
			(unsigned long long)rows[i].count, (unsigned long long)rows[i].outside_ns,
			(unsigned long long)rows[i].calls_ns, (unsigned long long)rows[i].woken_ns,
			(unsigned long long)rows[i].least_ns, (unsigned long long)rows[i].most_ns,
			(unsigned long long)rows[i].early);
	if (fprintf(file, "]\n") < 0 || fclose(file) != 0)
		exit(EXIT_FAILURE);
}

static void tell(const char *folder, const char *what)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s.%u", folder, what, rank);
	file = fopen(path, "w");
	if (file == NULL || fclose(file) != 0)
		exit(EXIT_FAILURE);
}

static void await(const char *folder, const char *what)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, what);
	for (int i = 0; i < 6000 && access(path, F_OK) != 0; i++)
		nap_us(10000);
}

static void map_turn(const char *folder)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/turn", folder);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*turn)) != 0)
		exit(EXIT_FAILURE);
	turn = mmap(NULL, sizeof(*turn), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (turn == MAP_FAILED)
		exit(EXIT_FAILURE);
	close(fd);
}

int main(int argc, char **argv)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;

	if (argc != 2)
		return 2;
	map_turn(argv[1]);
	options.premap_memory_bytes = 32 << 20;
	check(tow_runtime_open(&options, &runtime), "runtime");
	check(tow_group_open(runtime, NULL, &group), "group");
	rank = tow_group_rank(group);
	for (int i = 0; i < BUFFERS; i++) {
		check(tow_alloc(runtime, ROOM, 0, (void **)&in[i]), "alloc");
		check(tow_alloc(runtime, ROOM, 0, (void **)&out[i]), "alloc");
		memset(in[i], 0, ROOM);
	}
	check(tow_group_barrier(group, LIMIT_NS), "barrier");
	tell(argv[1], "ready");
	await(argv[1], "go");
	spent.at_ns = now_ns();
	for (int step = 0; step < STEPS; step++)
		play_step(step);
	if (rank == 0)
		write_truth(argv[1]);
	tell(argv[1], "done");
	await(argv[1], "leave");
	check(tow_group_close(group), "close");
	check(tow_runtime_close(runtime), "close");
	return EXIT_SUCCESS;
}
