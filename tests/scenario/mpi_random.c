/*
 * mpi_random.c - collectives of MPI with random kinds, types, operators, counts, roots, in place or
 * not, at once or started. All ranks draw the same numbers, so each knows what every rank gives,
 * and computes the result by itself, in 64-bit integers that each type holds.
 */
#include "mpi_program.h"

#include "twt_random.h"

#define COUNT_MAX 300u
#define GUARD     64u

/* An element: one number, or two (of a complex number, or a pair). */
struct element {
	int64_t a, b;
};

enum family { WHOLE, REAL, COMPLEX, FLAG, OCTET, PAIR };

/* X(name, C type, family) */
#define TYPES(X)                                                                                   \
	X(SIGNED_CHAR, signed char, WHOLE)                                                         \
	X(INT8_T, int8_t, WHOLE)                                                                   \
	X(UINT8_T, uint8_t, WHOLE)                                                                 \
	X(SHORT, short, WHOLE)                                                                     \
	X(UNSIGNED_SHORT, unsigned short, WHOLE)                                                   \
	X(INT, int, WHOLE)                                                                         \
	X(UINT32_T, uint32_t, WHOLE)                                                               \
	X(LONG, long, WHOLE)                                                                       \
	X(UNSIGNED_LONG_LONG, unsigned long long, WHOLE)                                           \
	X(FLOAT, float, REAL)                                                                      \
	X(DOUBLE, double, REAL)                                                                    \
	X(LONG_DOUBLE, long double, REAL)                                                          \
	X(C_FLOAT_COMPLEX, float _Complex, COMPLEX)                                                \
	X(C_DOUBLE_COMPLEX, double _Complex, COMPLEX)                                              \
	X(C_LONG_DOUBLE_COMPLEX, long double _Complex, COMPLEX)                                    \
	X(C_BOOL, _Bool, FLAG)                                                                     \
	X(LOGICAL, int32_t, FLAG)                                                                  \
	X(BYTE, uint8_t, OCTET)                                                                    \
	X(SHORT_INT, struct short_int, PAIR)                                                       \
	X(2INT, struct int_int, PAIR)                                                              \
	X(LONG_INT, struct long_int, PAIR)                                                         \
	X(FLOAT_INT, struct float_int, PAIR)                                                       \
	X(DOUBLE_INT, struct double_int, PAIR)                                                     \
	X(LONG_DOUBLE_INT, struct long_double_int, PAIR)

#define PAIRS(X)                                                                                   \
	X(short_int, short)                                                                        \
	X(int_int, int)                                                                            \
	X(long_int, long)                                                                          \
	X(float_int, float)                                                                        \
	X(double_int, double)                                                                      \
	X(long_double_int, long double)
#define PAIR_STRUCT(name, c)                                                                       \
	struct name {                                                                              \
		c value;                                                                           \
		int place;                                                                         \
	};
PAIRS(PAIR_STRUCT)

/* By family: a value of the C type, and back. */
#define PUT_WHOLE(c, x)   (c)(x).a
#define PUT_REAL(c, x)    (c)(x).a
#define PUT_COMPLEX(c, x) (c)(x).a + (c)(x).b *(c) __extension__ 1.0i
#define PUT_FLAG(c, x)    (c)((x).a != 0)
#define PUT_OCTET(c, x)   (c)(x).a
#define PUT_PAIR(c, x)                                                                             \
	{                                                                                          \
		.value = (short)(x).a, .place = (int)(x).b                                         \
	}
#define GET_WHOLE(v)                                                                               \
	{                                                                                          \
		(int64_t)(v), 0                                                                    \
	}
#define GET_REAL(v)                                                                                \
	{                                                                                          \
		(int64_t)(v), 0                                                                    \
	}
#define GET_COMPLEX(v)                                                                             \
	{                                                                                          \
		(int64_t)(__real__(v)), (int64_t)(__imag__(v))                                     \
	}
#define GET_FLAG(v)                                                                                \
	{                                                                                          \
		(v) != 0, 0                                                                        \
	}
#define GET_OCTET(v)                                                                               \
	{                                                                                          \
		(int64_t)(v), 0                                                                    \
	}
#define GET_PAIR(v)                                                                                \
	{                                                                                          \
		(int64_t)(v).value, (v).place                                                      \
	}

#define ACCESS(name, c, family)                                                                    \
	static void put_##name(void *at, struct element x)                                         \
	{                                                                                          \
		c v = PUT_##family(c, x);                                                          \
                                                                                                   \
		memcpy(at, &v, sizeof(v));                                                         \
	}                                                                                          \
                                                                                                   \
	static struct element get_##name(const void *at)                                           \
	{                                                                                          \
		c v;                                                                               \
                                                                                                   \
		memcpy(&v, at, sizeof(v));                                                         \
		return (struct element)GET_##family(v);                                            \
	}
TYPES(ACCESS)

static const struct type {
	MPIABI_Datatype handle;
	enum family family;
	size_t bytes;
	void (*put)(void *at, struct element x);
	struct element (*get)(const void *at);
	const char *name;
} types[] = {
#define ROW(name, c, family) { MPI_##name, family, sizeof(c), put_##name, get_##name, #name },
	TYPES(ROW)
};
#define TYPE_COUNT (sizeof(types) / sizeof(*types))

static const struct {
	MPIABI_Op handle;
	uint32_t families;
} ops[] = {
	{ MPI_SUM, 1 << WHOLE | 1 << REAL | 1 << COMPLEX },
	{ MPI_PROD, 1 << WHOLE | 1 << REAL | 1 << COMPLEX },
	{ MPI_MIN, 1 << WHOLE | 1 << REAL },
	{ MPI_MAX, 1 << WHOLE | 1 << REAL },
	{ MPI_LAND, 1 << WHOLE | 1 << FLAG },
	{ MPI_LOR, 1 << WHOLE | 1 << FLAG },
	{ MPI_LXOR, 1 << WHOLE | 1 << FLAG },
	{ MPI_BAND, 1 << WHOLE | 1 << OCTET },
	{ MPI_BOR, 1 << WHOLE | 1 << OCTET },
	{ MPI_BXOR, 1 << WHOLE | 1 << OCTET },
	{ MPI_MINLOC, 1 << PAIR },
	{ MPI_MAXLOC, 1 << PAIR },
};
#define OP_COUNT (sizeof(ops) / sizeof(*ops))

static struct element combine(MPIABI_Op op, enum family family, struct element x, struct element y)
{
	switch (op) {
	case MPI_SUM:
		return (struct element){ x.a + y.a, x.b + y.b };
	case MPI_PROD:
		if (family == COMPLEX)
			return (struct element){ x.a * y.a - x.b * y.b, x.a * y.b + x.b * y.a };
		return (struct element){ x.a * y.a, 0 };
	case MPI_MIN:
		return x.a < y.a ? x : y;
	case MPI_MAX:
		return x.a > y.a ? x : y;
	case MPI_LAND:
		return (struct element){ x.a && y.a, 0 };
	case MPI_LOR:
		return (struct element){ x.a || y.a, 0 };
	case MPI_LXOR:
		return (struct element){ !x.a != !y.a, 0 };
	case MPI_BAND:
		return (struct element){ x.a & y.a, 0 };
	case MPI_BOR:
		return (struct element){ x.a | y.a, 0 };
	case MPI_BXOR:
		return (struct element){ x.a ^ y.a, 0 };
	case MPI_MINLOC:
		return x.a < y.a || (x.a == y.a && x.b < y.b) ? x : y;
	default: /* MPI_MAXLOC */
		return x.a > y.a || (x.a == y.a && x.b < y.b) ? x : y;
	}
}

/* The case that is played: the same at all ranks, but for the fields of this one. */
static struct play {
	uint64_t key; /* of the values */
	const struct type *type;
	MPIABI_Op op;
	MPIABI_Comm comm;
	int rank, size, root, count;
	bool in_place, started;
	int counts[8], places[8], all; /* of the v-variants */
	uint8_t *in, *out;
} play;

/* What rank r gives at place i. */
static struct element value_of(int r, int i)
{
	uint64_t state = play.key ^ (uint64_t)r << 40 ^ (uint64_t)i;
	uint64_t word = twt_random(&state);

	return (struct element){ (int64_t)(word & 7), (int64_t)(word >> 8 & 7) };
}

static void put(uint8_t *buffer, int place, struct element x)
{
	play.type->put(buffer + (size_t)place * play.type->bytes, x);
}

/* Through the type, as a number that wraps does. */
static void check(int place, struct element wanted)
{
	_Alignas(16) uint8_t narrow[32];
	struct element x = play.type->get(play.out + (size_t)place * play.type->bytes);

	play.type->put(narrow, wanted);
	wanted = play.type->get(narrow);
	if (x.a == wanted.a && x.b == wanted.b)
		return;
	printf("%s, op %#lx, rank %d of %d, root %d, count %d, in place %d, started %d: place %d "
	       "has "
	       "%ld,%ld and not %ld,%ld\n",
	       play.type->name, (long)play.op, play.rank, play.size, play.root, play.count,
	       play.in_place, play.started, place, (long)x.a, (long)x.b, (long)wanted.a,
	       (long)wanted.b);
	expect(false);
}

/* The reduction of place i over ranks first to last. */
static struct element reduced(int first, int last, int i)
{
	struct element x = value_of(first, i);

	for (int r = first + 1; r <= last; r++)
		x = combine(play.op, play.type->family, x, value_of(r, i));
	return x;
}

static uint8_t *fresh(size_t elements)
{
	uint8_t *memory = malloc(elements * play.type->bytes + GUARD);

	expect(memory != NULL);
	memset(memory, 0xa5, elements * play.type->bytes + GUARD);
	return memory;
}

static void check_guard(const uint8_t *memory, size_t elements)
{
	for (unsigned i = 0; i < GUARD; i++)
		expect(memory[elements * play.type->bytes + i] == 0xa5);
}

/* What this rank gives, from place `from` of buffer on: its values of `first` and further. */
static void fill(uint8_t *buffer, int from, int first, int count)
{
	for (int i = 0; i < count; i++)
		put(buffer, from + i, value_of(play.rank, first + i));
}

static void finish(int code, MPIABI_Request *request)
{
	MPIABI_Status status;
	int flag = 0;

	expect(code == MPI_SUCCESS);
	if (!play.started)
		return;
	if (play.key % 3 == 0)
		while (!flag)
			CALL(MPIABI_Test(request, &flag, &status));
	else
		CALL(MPIABI_Wait(request, MPI_STATUS_IGNORE));
	expect(*request == MPI_REQUEST_NULL);
}

/* Calls one or the other, and waits. */
#define RUN(name, iname, ...)                                                                      \
	do {                                                                                       \
		MPIABI_Request request = MPI_REQUEST_NULL;                                         \
		finish(play.started ? MPIABI_##iname(__VA_ARGS__, play.comm, &request)             \
				    : MPIABI_##name(__VA_ARGS__, play.comm),                       \
		       &request);                                                                  \
	} while (0)

#define TYPE    play.type->handle
#define IS_ROOT (play.rank == play.root)

static void play_broadcast(void)
{
	play.out = fresh((size_t)play.count);
	if (IS_ROOT)
		fill(play.out, 0, 0, play.count);
	RUN(Bcast, Ibcast, play.out, play.count, TYPE, play.root);
	for (int i = 0; i < play.count; i++)
		check(i, value_of(play.root, i));
	check_guard(play.out, (size_t)play.count);
}

/* Which ranks' values come to this one: all of them, those up to it, or those below it. */
static void play_reduction(unsigned kind)
{
	int last = kind == 2 ? play.rank : kind == 3 ? play.rank - 1 : play.size - 1;
	bool mine = kind != 1 || IS_ROOT;

	play.out = fresh((size_t)play.count);
	play.in = fresh((size_t)play.count);
	play.in_place = play.in_place && mine;
	fill(play.in_place ? play.out : play.in, 0, 0, play.count);
	const void *in = play.in_place ? MPI_IN_PLACE : play.in;

	if (kind == 0)
		RUN(Allreduce, Iallreduce, in, play.out, play.count, TYPE, play.op);
	else if (kind == 1)
		RUN(Reduce, Ireduce, in, play.out, play.count, TYPE, play.op, play.root);
	else if (kind == 2)
		RUN(Scan, Iscan, in, play.out, play.count, TYPE, play.op);
	else
		RUN(Exscan, Iexscan, in, play.out, play.count, TYPE, play.op);
	for (int i = 0; mine && last >= 0 && i < play.count; i++)
		check(i, reduced(0, last, i));
	check_guard(play.out, (size_t)play.count);
}

static void play_reduce_scatter(bool block)
{
	int first = block ? play.rank * play.count : play.places[play.rank];
	int all = block ? play.size * play.count : play.all;
	int mine = block ? play.count : play.counts[play.rank];

	play.out = fresh((size_t)(play.in_place ? all : mine));
	play.in = fresh((size_t)all);
	fill(play.in_place ? play.out : play.in, 0, 0, all);
	const void *in = play.in_place ? MPI_IN_PLACE : play.in;

	if (block)
		RUN(Reduce_scatter_block, Ireduce_scatter_block, in, play.out, play.count, TYPE,
		    play.op);
	else
		RUN(Reduce_scatter, Ireduce_scatter, in, play.out, play.counts, TYPE, play.op);
	for (int i = 0; i < mine; i++)
		check(i, reduced(0, play.size - 1, first + i));
	for (int i = mine; play.in_place && i < all; i++) /* what is behind it stays */
		check(i, value_of(play.rank, i));
	check_guard(play.out, (size_t)(play.in_place ? all : mine));
}

/* Each rank's part of all, at a place of the v-variant or one after another; `v`: with places. */
static void play_gather(bool v, bool to_all)
{
	int count = v ? play.counts[play.rank] : play.count;
	int place = v ? play.places[play.rank] : play.rank * play.count;
	int all = v ? play.all : play.size * play.count;
	bool mine = to_all || IS_ROOT;

	play.in_place = play.in_place && mine;
	play.out = fresh((size_t)all);
	play.in = fresh((size_t)count);
	fill(play.in_place ? play.out : play.in, play.in_place ? place : 0, 0, count);
	const void *in = play.in_place ? MPI_IN_PLACE : play.in;

	if (v && to_all)
		RUN(Allgatherv, Iallgatherv, in, count, TYPE, play.out, play.counts, play.places,
		    TYPE);
	else if (v)
		RUN(Gatherv, Igatherv, in, count, TYPE, play.out, play.counts, play.places, TYPE,
		    play.root);
	else if (to_all)
		RUN(Allgather, Iallgather, in, count, TYPE, play.out, count, TYPE);
	else
		RUN(Gather, Igather, in, count, TYPE, play.out, count, TYPE, play.root);
	for (int r = 0; mine && r < play.size; r++)
		for (int i = 0; i < (v ? play.counts[r] : count); i++)
			check((v ? play.places[r] : r * count) + i, value_of(r, i));
	check_guard(play.out, (size_t)all);
}

/* The root's values, part by part; in place its own stays where it is. */
static void play_scatter(bool v)
{
	int count = v ? play.counts[play.rank] : play.count;
	int place = v ? play.places[play.rank] : play.rank * play.count;
	int all = v ? play.all : play.size * play.count;

	play.in_place = play.in_place && IS_ROOT;
	play.out = fresh((size_t)count);
	play.in = fresh((size_t)all);
	if (IS_ROOT)
		fill(play.in, 0, 0, all);
	void *out = play.in_place ? MPI_IN_PLACE : play.out;

	if (v)
		RUN(Scatterv, Iscatterv, play.in, play.counts, play.places, TYPE, out, count, TYPE,
		    play.root);
	else
		RUN(Scatter, Iscatter, play.in, count, TYPE, out, count, TYPE, play.root);
	for (int i = 0; !play.in_place && i < count; i++)
		check(i, value_of(play.root, place + i));
	check_guard(play.out, (size_t)count);
}

/* kind 0: alltoall, 1: alltoallv, 2: alltoallw. From r to p go counts[(r + p) % size]. */
static void play_all_to_all(unsigned kind)
{
	int counts[8], places[8], byte_places[8], all = 0;
	MPIABI_Datatype handles[8];

	for (int r = 0; r < play.size; r++) {
		counts[r] = kind == 0 ? play.count : play.counts[(r + play.rank) % play.size];
		places[r] = all;
		byte_places[r] = all * (int)play.type->bytes;
		all += counts[r];
		handles[r] = TYPE;
	}
	play.out = fresh((size_t)all);
	play.in = fresh((size_t)all);
	for (int r = 0; r < play.size; r++)
		fill(play.in_place ? play.out : play.in, places[r], r << 16, counts[r]);
	const void *in = play.in_place ? MPI_IN_PLACE : play.in;

	if (kind == 0)
		RUN(Alltoall, Ialltoall, in, play.count, TYPE, play.out, play.count, TYPE);
	else if (kind == 1)
		RUN(Alltoallv, Ialltoallv, in, counts, places, TYPE, play.out, counts, places,
		    TYPE);
	else
		RUN(Alltoallw, Ialltoallw, in, counts, byte_places, handles, play.out, counts,
		    byte_places, handles);
	for (int r = 0; r < play.size; r++)
		for (int i = 0; i < counts[r]; i++)
			check(places[r] + i, value_of(r, (play.rank << 16) + i));
	check_guard(play.out, (size_t)all);
}

static void play_kind(unsigned kind)
{
	switch (kind) {
	case 0:
		play_broadcast();
		break;
	case 1:
	case 2:
	case 3:
	case 4:
		play_reduction(kind - 1);
		break;
	case 5:
	case 6:
		play_reduce_scatter(kind == 5);
		break;
	case 7:
	case 8:
	case 9:
	case 10:
		play_gather(kind >= 9, kind % 2 == 0);
		break;
	case 11:
	case 12:
		play_scatter(kind == 12);
		break;
	default:
		play_all_to_all(kind - 13);
	}
}
#define KINDS 16u

/* Operators that the type has; a pair or a flag has few. */
static MPIABI_Op draw_op(uint64_t *state)
{
	unsigned at;

	do
		at = (unsigned)twt_random_below(state, OP_COUNT);
	while ((ops[at].families & 1u << play.type->family) == 0);
	return ops[at].handle;
}

/* The same draws at all ranks; the communicator may have some of them alone, in another order. */
static void draw_play(uint64_t *state)
{
	uint32_t top = twt_random_below(state, 20) == 0 ? 40000 : COUNT_MAX;

	play = (struct play){ .key = twt_random(state) };
	play.type = &types[twt_random_below(state, TYPE_COUNT)];
	play.op = draw_op(state);
	play.count = (int)twt_random_below(state, top);
	play.in_place = twt_random_below(state, 3) == 0;
	play.started = twt_random_below(state, 2) == 0;
	play.root = (int)twt_random_below(state, 1u << 30);
	for (int r = 0; r < 8; r++)
		play.counts[r] =
			(int)(twt_random_below(state, 4) > 0 ? twt_random_below(state, top) : 0);
}

/* The parts of the v-variants lie one after another. */
static void place_play(MPIABI_Comm comm)
{
	play.comm = comm;
	CALL(MPIABI_Comm_rank(comm, &play.rank));
	CALL(MPIABI_Comm_size(comm, &play.size));
	play.root %= play.size;
	for (int r = 0; r < play.size; r++) {
		play.places[r] = play.all;
		play.all += play.counts[r];
	}
}

/* Each kind with more bytes than the pool can have, of a type that the door folds by itself. */
void play_large(uint64_t seed, unsigned count)
{
	uint64_t state = seed;

	for (unsigned kind = 0; kind < KINDS; kind++) {
		draw_play(&state);
		play.type = &types[TYPE_COUNT - 1];
		play.op = draw_op(&state);
		play.count = (int)count;
		for (int r = 0; r < 8; r++)
			play.counts[r] = (int)twt_random_below(&state, 2 * count);
		place_play(MPI_COMM_WORLD);
		play_kind(kind);
		free(play.in);
		free(play.out);
	}
}

void play_collectives(uint64_t seed, unsigned cases)
{
	MPIABI_Comm some = MPI_COMM_NULL, comm;
	uint64_t state = seed;
	int color, key;

	for (unsigned n = 0; n < cases; n++) {
		if (n % 40 == 0) {
			if (some != MPI_COMM_NULL)
				CALL(MPIABI_Comm_free(&some));
			color = (int)(twt_random(&state) >> (world_rank + 3) & 1);
			key = (int)twt_random_below(&state, 7) - world_rank * 3 % 5;
			CALL(MPIABI_Comm_split(MPI_COMM_WORLD, color, key, &some));
		}
		draw_play(&state);
		comm = twt_random_below(&state, 2) == 0 ? (MPIABI_Comm)MPI_COMM_WORLD : some;
		place_play(comm);
		play_kind((unsigned)(n % KINDS));
		free(play.in);
		free(play.out);
	}
	if (some != MPI_COMM_NULL)
		CALL(MPIABI_Comm_free(&some));
}
