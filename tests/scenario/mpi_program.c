/*
 * mpi_program.c - what test_mpi runs as ranks: one part a run, named by the first argument. Ends
 * with 0 when the rank saw what it should see.
 */
#include "mpi_program.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

int world_rank, world_size;

void expect_at(bool truth, const char *what, const char *file, int line)
{
	if (truth)
		return;
	printf("%s:%d: rank %d: not so: %s\n", file, line, world_rank, what);
	fflush(stdout);
	_exit(3);
}

void expect_error(int code, int wanted, const char *words, int line)
{
	char text[TWMPI_ERROR_STRING];
	int class, length;

	CALL(MPIABI_Error_class(code, &class));
	CALL(MPIABI_Error_string(code, text, &length));
	if (class == wanted && strstr(text, words) != NULL && (size_t)length == strlen(text))
		return;
	printf("mpi_program.c:%d: rank %d: class %d and not %d: %s\n", line, world_rank, class,
	       wanted, text);
	fflush(stdout);
	_exit(3);
}

static void compare_comms(MPIABI_Comm a, MPIABI_Comm b, int wanted)
{
	int result;

	CALL(MPIABI_Comm_compare(a, b, &result));
	expect(result == wanted);
}

/* It works: the sum of the members' world ranks. */
static void use_comm(MPIABI_Comm comm, int wanted)
{
	int sum;

	CALL(MPIABI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, comm));
	expect(sum == wanted);
}

static int sum_below(int n)
{
	return n * (n - 1) / 2;
}

static void name_comms(void)
{
	char name[TWMPI_OBJECT_NAME], wide[300];
	int length;

	CALL(MPIABI_Comm_get_name(MPI_COMM_WORLD, name, &length));
	expect(strcmp(name, "MPI_COMM_WORLD") == 0 && length == 14);
	memset(wide, 'w', sizeof(wide));
	wide[sizeof(wide) - 1] = '\0';
	CALL(MPIABI_Comm_set_name(MPI_COMM_SELF, wide));
	CALL(MPIABI_Comm_get_name(MPI_COMM_SELF, name, &length));
	expect(strlen(name) == TWMPI_OBJECT_NAME - 1);
	FAILS(MPIABI_Comm_free(&(MPIABI_Comm){ MPI_COMM_SELF }), MPI_ERR_COMM, "cannot be freed");
}

static void split_comms(void)
{
	MPIABI_Comm comm, other;
	int rank, size;

	/* All, in the other order. */
	CALL(MPIABI_Comm_split(MPI_COMM_WORLD, 7, -world_rank, &comm));
	CALL(MPIABI_Comm_rank(comm, &rank));
	CALL(MPIABI_Comm_size(comm, &size));
	expect(rank == world_size - 1 - world_rank && size == world_size);
	compare_comms(comm, MPI_COMM_WORLD, world_size > 1 ? MPI_SIMILAR : MPI_CONGRUENT);
	use_comm(comm, sum_below(world_size));
	/* Even and odd ones of it; 1 is in none. */
	CALL(MPIABI_Comm_split(comm, world_rank == 1 ? MPI_UNDEFINED : world_rank % 2, 0, &other));
	expect((other == MPI_COMM_NULL) == (world_rank == 1));
	if (other != MPI_COMM_NULL) {
		compare_comms(other, comm, world_size > 1 ? MPI_UNEQUAL : MPI_CONGRUENT);
		use_comm(other, world_rank % 2 == 1 ? world_rank : world_size > 2 ? 2 : 0);
		CALL(MPIABI_Comm_free(&other));
	}
	CALL(MPIABI_Comm_free(&comm));
	expect(comm == MPI_COMM_NULL);
	CALL(MPIABI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
	compare_comms(comm, MPI_COMM_WORLD, MPI_CONGRUENT); /* one host */
	CALL(MPIABI_Comm_free(&comm));
	FAILS(MPIABI_Comm_split_type(MPI_COMM_WORLD, 77, 0, MPI_INFO_NULL, &comm), MPI_ERR_ARG,
	      "77 is not a type of split");
	FAILS(MPIABI_Comm_split(MPI_COMM_WORLD, -5, 0, &comm), MPI_ERR_ARG, "color -5");
}

static void create_comms(void)
{
	MPIABI_Group world, some, rest, none;
	MPIABI_Comm comm, twice;
	int ranks[2] = { world_size - 1, 0 }, n = world_size > 1 ? 2 : 1, size, rank, result;
	int mine = 0, theirs = -1;

	CALL(MPIABI_Comm_group(MPI_COMM_WORLD, &world));
	CALL(MPIABI_Group_incl(world, n, ranks, &some));
	CALL(MPIABI_Group_excl(world, n, ranks, &rest));
	CALL(MPIABI_Group_size(rest, &size));
	CALL(MPIABI_Group_rank(some, &rank));
	expect(size == world_size - n);
	expect(rank == (world_rank == world_size - 1 ? 0 : world_rank == 0 ? 1 : MPI_UNDEFINED));
	CALL(MPIABI_Group_translate_ranks(some, 1, &mine, world, &theirs));
	expect(theirs == world_size - 1);
	CALL(MPIABI_Group_intersection(some, rest, &none));
	expect(none == MPI_GROUP_EMPTY);
	CALL(MPIABI_Group_union(rest, some, &none));
	CALL(MPIABI_Group_compare(none, world, &result));
	expect(result == (world_size > 1 ? MPI_SIMILAR : MPI_IDENT));
	CALL(MPIABI_Group_free(&none));
	/* Both at once: each rank is in one of them. */
	CALL(MPIABI_Comm_create(MPI_COMM_WORLD, rank != MPI_UNDEFINED ? some : rest, &comm));
	use_comm(comm,
		 rank != MPI_UNDEFINED ? world_size - 1 : sum_below(world_size) - (world_size - 1));
	/* The members alone, twice with one tag. */
	if (rank != MPI_UNDEFINED) {
		CALL(MPIABI_Comm_create_group(MPI_COMM_WORLD, some, 4, &twice));
		compare_comms(comm, twice, MPI_CONGRUENT);
		use_comm(twice, world_size - 1);
		CALL(MPIABI_Comm_free(&twice));
		CALL(MPIABI_Comm_create_group(MPI_COMM_WORLD, some, 4, &twice));
		CALL(MPIABI_Comm_free(&twice));
	}
	CALL(MPIABI_Comm_free(&comm));
	CALL(MPIABI_Group_free(&some));
	CALL(MPIABI_Group_free(&world));
	if (rest != MPI_GROUP_EMPTY)
		CALL(MPIABI_Group_free(&rest));
	FAILS(MPIABI_Group_size(world, &size), MPI_ERR_GROUP, "is not a group");
}

static void range_groups(void)
{
	int ranges[2][3] = { { world_size - 1, 0, -1 }, { 0, world_size, 1 } }, size, result;
	int zeros[2] = { 0 };
	MPIABI_Group world, turned;

	CALL(MPIABI_Comm_group(MPI_COMM_WORLD, &world));
	CALL(MPIABI_Group_range_incl(world, 1, ranges, &turned));
	CALL(MPIABI_Group_size(turned, &size));
	CALL(MPIABI_Group_compare(world, turned, &result));
	expect(size == world_size && result == (world_size > 1 ? MPI_SIMILAR : MPI_IDENT));
	CALL(MPIABI_Group_free(&turned));
	FAILS(MPIABI_Group_incl(world, 2, zeros, &turned), MPI_ERR_RANK, "rank 0 is listed twice");
	FAILS(MPIABI_Group_range_incl(world, 2, ranges, &turned), MPI_ERR_RANK, "listed twice");
	FAILS(MPIABI_Group_range_incl(world, 1, &ranges[1], &turned), MPI_ERR_RANK,
	      "is not a rank");
	CALL(MPIABI_Group_free(&world));
}

static void part_comms(void)
{
	MPIABI_Comm dup;
	int *value, flag;

	name_comms();
	split_comms();
	create_comms();
	range_groups();
	use_attributes();
	use_infos();
	CALL(MPIABI_Comm_dup(MPI_COMM_WORLD, &dup));
	compare_comms(dup, MPI_COMM_WORLD, MPI_CONGRUENT);
	compare_comms(dup, dup, MPI_IDENT);
	use_comm(dup, sum_below(world_size));
	use_comm(MPI_COMM_SELF, world_rank);
	CALL(MPIABI_Comm_free(&dup));
	CALL(MPIABI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
	expect(flag && *value == INT32_MAX);
	CALL(MPIABI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag));
	expect(flag && *value == world_size);
	CALL(MPIABI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag));
	expect(!flag);
	expect(MPIABI_Comm_f2c(MPIABI_Comm_c2f(MPI_COMM_SELF)) == MPI_COMM_SELF);
}

/* Composes maps x -> x a + b: associative, and the order matters. */
static void compose_maps(void *in, void *in_out, int *count, MPIABI_Datatype *datatype)
{
	uint32_t *f = in, *g = in_out;

	(void)datatype;
	for (int i = 0; i < *count; i++, f += 2, g += 2) {
		g[1] = f[1] * g[0] + g[1];
		g[0] = f[0] * g[0];
	}
}

static void part_types(void)
{
	uint32_t map[2][2] = { { 3 + (uint32_t)world_rank, 5 }, { 7, 11 + (uint32_t)world_rank } };
	uint32_t all[2][2], wanted[2][2], next[2][2];
	MPIABI_Datatype pair, bad;
	MPIABI_Aint lb, extent;
	MPIABI_Op op;
	int size, two = 2;

	CALL(MPIABI_Type_contiguous(2, MPI_UINT32_T, &pair));
	CALL(MPIABI_Type_commit(&pair));
	CALL(MPIABI_Type_size(pair, &size));
	CALL(MPIABI_Type_get_extent(pair, &lb, &extent));
	expect(size == 8 && lb == 0 && extent == 8);
	CALL(MPIABI_Op_create(compose_maps, 0, &op));
	FAILS(MPIABI_Allreduce(map, all, 2, pair, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_OP,
	      "MPI_SUM is not");
	CALL(MPIABI_Allreduce(map, all, 2, pair, op, MPI_COMM_WORLD));
	for (int r = world_size - 1; r >= 0; r--) {
		memcpy(next, map, sizeof(next));
		next[0][0] = 3 + (uint32_t)r;
		next[1][1] = 11 + (uint32_t)r;
		if (r < world_size - 1)
			compose_maps(next, wanted, &two, NULL);
		else
			memcpy(wanted, next, sizeof(wanted));
	}
	expect(memcmp(all, wanted, sizeof(all)) == 0);
	CALL(MPIABI_Reduce(map, all, 2, pair, op, 0, MPI_COMM_WORLD));
	expect(world_rank != 0 || memcmp(all, wanted, sizeof(all)) == 0);
	CALL(MPIABI_Op_free(&op));
	CALL(MPIABI_Type_free(&pair));
	expect(op == MPI_OP_NULL && pair == MPI_DATATYPE_NULL);
	CALL(MPIABI_Type_size(MPI_DOUBLE_INT, &size));
	CALL(MPIABI_Type_get_extent(MPI_DOUBLE_INT, &lb, &extent));
	expect(size == 12 && extent == 16);
	FAILS(MPIABI_Type_vector(), MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Type_vector");
	FAILS(MPIABI_Type_contiguous(-1, MPI_INT, &bad), MPI_ERR_COUNT, "-1");
	FAILS(MPIABI_Type_free(&(MPIABI_Datatype){ MPI_INT }), MPI_ERR_TYPE,
	      "MPI_INT cannot be freed");
}

static MPIABI_Comm handled_comm;
static int handled_code;

static void handle_error(MPIABI_Comm *comm, int *code, ...)
{
	handled_comm = *comm;
	handled_code = *code;
}

static void own_handler(void)
{
	MPIABI_Errhandler handler, same;
	MPIABI_Comm dup;

	CALL(MPIABI_Comm_create_errhandler(handle_error, &handler));
	CALL(MPIABI_Comm_dup(MPI_COMM_WORLD, &dup));
	CALL(MPIABI_Comm_set_errhandler(dup, handler));
	CALL(MPIABI_Comm_get_errhandler(dup, &same));
	CALL(MPIABI_Errhandler_free(&handler));
	CALL(MPIABI_Errhandler_free(&same));
	expect(handler == MPI_ERRHANDLER_NULL);
	FAILS(MPIABI_Bcast(NULL, 1, MPI_INT, 99, dup), MPI_ERR_BUFFER, "4 bytes is NULL");
	expect(handled_comm == dup && handled_code == MPI_ERR_BUFFER);
	FAILS(MPIABI_Cart_get(dup, 0, NULL, NULL, NULL), MPI_ERR_UNSUPPORTED_OPERATION,
	      "MPI_Cart_get");
	expect(handled_code == MPI_ERR_UNSUPPORTED_OPERATION);
	CALL(MPIABI_Comm_call_errhandler(dup, MPI_ERR_TOPOLOGY));
	expect(handled_code == MPI_ERR_TOPOLOGY);
	CALL(MPIABI_Comm_free(&dup));
}

/* Every rank makes the same mistakes, at which nobody waits. */
static void part_errors(void)
{
	int data[4] = { 0 }, out[64], flag, length, minus[8] = { -1, -1, -1, -1, -1, -1, -1, -1 };
	char text[TWMPI_ERROR_STRING];
	MPIABI_Request request = MPI_REQUEST_NULL,
		       made_up = (MPIABI_Request)MPI_REQUEST_NULL + 4000;
	MPIABI_Comm gone;

	FAILS(MPIABI_Bcast(data, 1, MPI_INT, world_size, MPI_COMM_WORLD), MPI_ERR_ROOT,
	      "not a rank of");
	FAILS(MPIABI_Bcast(data, -3, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "the count is -3");
	FAILS(MPIABI_Bcast(data, 1, MPI_INT, 0, MPI_COMM_NULL), MPI_ERR_COMM, "MPI_COMM_NULL");
	FAILS(MPIABI_Bcast(data, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "NULL");
	FAILS(MPIABI_Bcast(data, 1, MPI_SUM, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "is not a datatype");
	FAILS(MPIABI_Allreduce(data, out, 1, MPI_FLOAT, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP,
	      "MPI_BAND is not for MPI_FLOAT");
	FAILS(MPIABI_Allreduce(data, out, 1, MPI_C_COMPLEX, MPI_MAX, MPI_COMM_WORLD), MPI_ERR_OP,
	      "MPI_MAX is not for MPI_C_COMPLEX");
	FAILS(MPIABI_Allreduce(data, out, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP,
	      "MPI_OP_NULL");
	FAILS(MPIABI_Allreduce(NULL, out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_BUFFER,
	      "NULL");
	FAILS(MPIABI_Allgatherv(data, 1, MPI_INT, out, minus, minus, MPI_INT, MPI_COMM_WORLD),
	      MPI_ERR_COUNT, "-1");
	FAILS(MPIABI_Reduce_scatter(data, out, minus, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
	      MPI_ERR_COUNT, "the count of rank 0 is -1");
	FAILS(MPIABI_Iallreduce(data, out, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request),
	      MPI_ERR_COUNT, "MPI_Iallreduce");
	expect(request == MPI_REQUEST_NULL);
	CALL(MPIABI_Wait(&request, MPI_STATUS_IGNORE));
	FAILS(MPIABI_Wait(&made_up, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "is not a request");
	FAILS(MPIABI_Test(&made_up, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "is not a request");
	FAILS(MPIABI_File_open(MPI_COMM_WORLD, "x", 0, MPI_INFO_NULL, NULL),
	      MPI_ERR_UNSUPPORTED_OPERATION, "MPI_File_open");
	FAILS(MPIABI_Win_fence(), MPI_ERR_UNSUPPORTED_OPERATION, "MPI_Win_fence");
	own_handler();
	CALL(MPIABI_Comm_dup(MPI_COMM_WORLD, &gone));
	MPIABI_Comm was = gone;

	CALL(MPIABI_Comm_free(&gone));
	FAILS(MPIABI_Barrier(was), MPI_ERR_COMM, "is not a communicator, or was freed");
	CALL(MPIABI_Error_string(MPI_ERR_WIN, text, &length));
	expect(strcmp(text, "the window is not valid") == 0);
	CALL(MPIABI_Barrier(MPI_COMM_WORLD));
}

static void part_mismatch(void)
{
	int data[8] = { 0 };
	int code = MPIABI_Bcast(data, world_rank == 0 ? 4 : 5, MPI_INT, 0, MPI_COMM_WORLD);

	FAILS(code, MPI_ERR_NOT_SAME, "rank 0: broadcast of 16 u8");
	FAILS(code, MPI_ERR_NOT_SAME, "named MPI_Bcast");
	FAILS(code, MPI_ERR_NOT_SAME, "(group 0 \"MPI_COMM_WORLD\")");
}

/* Many requests at once, ended in every way. */
static void part_requests(void)
{
	enum { N = 12 };
	MPIABI_Request requests[N + 1];
	MPIABI_Status statuses[N + 1];
	int in[N], out[N], index, flag, done = 0, count, indices[N + 1];

	for (unsigned way = 0; way < 6; way++) {
		requests[N] = MPI_REQUEST_NULL;
		for (int i = 0; i < N; i++) {
			in[i] = i + world_rank;
			CALL(MPIABI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
					       &requests[i]));
		}
		for (done = 0, flag = 0;
		     done < N && !(way == 0 && done > 0) && !(way == 1 && flag);) {
			if (way == 0) {
				CALL(MPIABI_Waitall(N + 1, requests, statuses));
				done = N;
			} else if (way == 1) {
				CALL(MPIABI_Testall(N + 1, requests, &flag, MPI_STATUSES_IGNORE));
			} else if (way == 2) {
				CALL(MPIABI_Waitany(N + 1, requests, &index, &statuses[0]));
				expect(requests[index] == MPI_REQUEST_NULL);
				done++;
			} else if (way == 3) {
				CALL(MPIABI_Testany(N + 1, requests, &index, &flag, &statuses[0]));
				done += flag && index != MPI_UNDEFINED;
				flag = 0;
			} else {
				CALL((way == 4 ? MPIABI_Waitsome : MPIABI_Testsome)(
					N + 1, requests, &count, indices, statuses));
				expect(count != MPI_UNDEFINED);
				done += count;
			}
		}
		for (int i = 0; i < N; i++)
			expect(requests[i] == MPI_REQUEST_NULL &&
			       out[i] == world_size * i + sum_below(world_size));
		CALL(MPIABI_Waitany(N + 1, requests, &index, statuses));
		expect(index == MPI_UNDEFINED);
		CALL(MPIABI_Testsome(N + 1, requests, &count, indices, statuses));
		expect(count == MPI_UNDEFINED);
	}
}

/* A thread's own communicator, and what it computes there. */
static void *run_thread(void *of)
{
	MPIABI_Comm comm = *(MPIABI_Comm *)of;
	double x, sum;

	for (int i = 0; i < 200; i++) {
		x = i * (world_rank + 1);
		CALL(MPIABI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, comm));
		expect(sum == (double)i * (sum_below(world_size) + world_size));
	}
	return NULL;
}

static void part_threads(void)
{
	enum { N = 6 };
	MPIABI_Comm comms[N];
	pthread_t threads[N];
	int provided, flag;

	CALL(MPIABI_Query_thread(&provided));
	CALL(MPIABI_Is_thread_main(&flag));
	expect(provided == MPI_THREAD_MULTIPLE && flag);
	for (int i = 0; i < N; i++)
		CALL(MPIABI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
	for (int i = 0; i < N; i++)
		expect(pthread_create(&threads[i], NULL, run_thread, &comms[i]) == 0);
	for (int i = 0; i < N; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < N; i++)
		CALL(MPIABI_Comm_free(&comms[i]));
}

/* The last rank dies; the others say so, and end. */
static void part_killed(void)
{
	int sum = 0;

	CALL(MPIABI_Barrier(MPI_COMM_WORLD));
	if (world_rank == world_size - 1)
		raise(SIGKILL);
	MPIABI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("that was no error\n"); /* MPI_ERRORS_ARE_FATAL */
}

static void part_abort(void)
{
	int sum = 0;

	CALL(MPIABI_Barrier(MPI_COMM_WORLD));
	if (world_rank == 1)
		MPIABI_Abort(MPI_COMM_WORLD, 42);
	MPIABI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("that was no error\n");
}

/* Of the malloc preload; weak, as it is there in one part alone. */
extern size_t towline_malloc_placed(const void *memory) __attribute__((weak));

/* With the preload what is allocated after MPI_Init lies in the pool, and may outlive MPI. */
static void part_placed(void)
{
	enum { N = 1 << 18 };
	float *in = malloc(N * sizeof(*in)), *out = malloc(N * sizeof(*out));

	for (int i = 0; i < N; i++)
		in[i] = (float)(i % 1000 + world_rank);
	expect(towline_malloc_placed != NULL && towline_malloc_placed(in) >= N * sizeof(*in));
	CALL(MPIABI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
	for (int i = 0; i < N; i++)
		expect(out[i] == (float)(i % 1000 * world_size + sum_below(world_size)));
	free(in);
	CALL(MPIABI_Finalize());
	out[0] = 1;
	free(out);
	exit(0);
}

static void part_memory(void)
{
	float *pool, out[1000];

	CALL(MPIABI_Alloc_mem(sizeof(out), MPI_INFO_NULL, &pool));
	for (int i = 0; i < 1000; i++)
		pool[i] = (float)(i + world_rank);
	CALL(MPIABI_Allreduce(pool, out, 1000, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD));
	for (int i = 0; i < 1000; i++)
		expect(out[i] == (float)(i + world_size - 1));
	CALL(MPIABI_Free_mem(pool));
	FAILS(MPIABI_Free_mem(out), MPI_ERR_BASE, "");
}

/* `collectives SEED CASES` and `random SEED ROUNDS`, of messages. */
static bool play_part(char **arguments)
{
	uint64_t seed = strtoull(arguments[1], NULL, 0);
	unsigned many = (unsigned)atoi(arguments[2]);

	if (strcmp(arguments[0], "collectives") == 0)
		play_collectives(seed, many);
	else if (strcmp(arguments[0], "large") == 0)
		play_large(seed, many);
	else if (strcmp(arguments[0], "random") == 0)
		play_messages(seed, many);
	else
		return false;
	return true;
}

static const struct {
	const char *name;
	void (*run)(void);
	bool fatal;
} parts[] = {
	{ "comms", part_comms, false },       { "types", part_types, false },
	{ "errors", part_errors, false },     { "mismatch", part_mismatch, false },
	{ "requests", part_requests, false }, { "threads", part_threads, false },
	{ "killed", part_killed, true },      { "abort", part_abort, true },
	{ "memory", part_memory, false },     { "messages", part_messages, false },
	{ "placed", part_placed, false },     { "late", part_late, false },
	{ "probes", part_probes, false },
};

int main(int argc, char **argv)
{
	bool known = false, fatal;
	char text[TWMPI_LIBRARY_STRING];
	int flag, length;

	CALL(MPIABI_Initialized(&flag));
	expect(!flag);
	CALL(MPIABI_Init(&argc, &argv));
	CALL(MPIABI_Comm_rank(MPI_COMM_WORLD, &world_rank));
	CALL(MPIABI_Comm_size(MPI_COMM_WORLD, &world_size));
	CALL(MPIABI_Get_library_version(text, &length));
	expect(strstr(text, "Towline") != NULL && MPIABI_Wtime() > 0 && MPIABI_Wtick() > 0);
	if (argc == 4)
		known = play_part(argv + 1);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		if (argc != 2 || strcmp(argv[1], parts[i].name) != 0)
			continue;
		fatal = parts[i].fatal;
		known = true;
		if (!fatal) {
			CALL(MPIABI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
			CALL(MPIABI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
		}
		parts[i].run();
	}
	expect(known);
	CALL(MPIABI_Finalize());
	CALL(MPIABI_Finalized(&flag));
	expect(flag);
	CALL(MPIABI_Comm_free(&(MPIABI_Comm){ MPI_COMM_WORLD })); /* as XLA does */
	return 0;
}
