/*
 * reduce.c - collectives that compute. If the library has the type and the operator, it does all of
 * the work. Otherwise it gathers the parts, and they are folded here, in the order of the ranks.
 */
#include "plugins/mpi/twmpi.h"

#include <stdlib.h>

/* The arguments of a reduction. */
struct reduction {
	struct twmpi_type *type;
	struct twmpi_op *op;
	uint64_t count, bytes;
	bool direct; /* the library computes it, by the next two: */
	enum tow_type library_type;
	enum tow_reduce reduce;
};

static int make_reduction(struct reduction *what, uint64_t count, MPIABI_Datatype datatype,
			  MPIABI_Op op)
{
	int code = twmpi_type_find(datatype, &what->type);

	if (code == MPI_SUCCESS)
		code = twmpi_op_find(op, &what->op);
	if (code == MPI_SUCCESS)
		code = twmpi_op_check(what->op, what->type);
	if (code != MPI_SUCCESS)
		return code;
	what->count = count;
	what->bytes = count * what->type->extent;
	what->library_type = twmpi_library_type(what->type->base);
	what->direct = twmpi_library_op(what->op, what->type->base, &what->reduce);
	return MPI_SUCCESS;
}

static int check_reduction(struct reduction *what, const void *in, const void *out, int count,
			   MPIABI_Datatype datatype, MPIABI_Op op)
{
	if (count < 0)
		return twmpi_fail(MPI_ERR_COUNT, "the count is %d", count);
	if (count > 0 && (in == NULL || out == NULL))
		return twmpi_fail(MPI_ERR_BUFFER, "a buffer of %d elements is NULL", count);
	return make_reduction(what, (uint64_t)count, datatype, op);
}

/* Folds the first `count` parts in scratch into out when the operation has ended. */
static void fold_later(struct twmpi_request *call, const struct reduction *what, uint32_t count,
		       void *out)
{
	call->fold = (struct twmpi_fold){ .parts = call->scratch,
					  .count = count,
					  .elements = what->count,
					  .part_bytes = what->bytes,
					  .out = out,
					  .type = twmpi_type_hold(what->type),
					  .op = twmpi_op_hold(what->op) };
	call->finish = twmpi_finish_fold;
}

/* Gathers all parts at all ranks. This rank folds the first `count` of them. */
static int gather_parts(struct twmpi_request *call, const struct reduction *what, const void *in,
			void *out, uint32_t count)
{
	int code = twmpi_scratch(call, what->bytes * call->comm->size);

	if (code != MPI_SUCCESS)
		return code;
	fold_later(call, what, count, out);
	return TWMPI_START(call, tow_coll_all_gather_start, in, call->scratch, what->bytes, TOW_U8);
}

static int start_all_reduce(struct twmpi_request *call, const void *in, void *out, int count,
			    MPIABI_Datatype datatype, MPIABI_Op op)
{
	struct reduction what;
	int code = check_reduction(&what, in, out, count, datatype, op);

	if (code != MPI_SUCCESS)
		return code;
	if (in == MPI_IN_PLACE)
		in = out;
	if (!what.direct)
		return gather_parts(call, &what, in, out, call->comm->size);
	return TWMPI_START(call, tow_coll_all_reduce_start, in, out, what.count, what.library_type,
			   what.reduce);
}

TWMPI_BOTH(Allreduce, Iallreduce,
	   (const void *sendbuf, void *recvbuf, int count, MPIABI_Datatype datatype, MPIABI_Op op,
	    MPIABI_Comm comm),
	   start_all_reduce(call, sendbuf, recvbuf, count, datatype, op))

static int start_reduce(struct twmpi_request *call, const void *in, void *out, int count,
			MPIABI_Datatype datatype, MPIABI_Op op, int root)
{
	bool is_root = call->comm->rank == (uint32_t)root;
	struct reduction what;
	int code;

	if (root < 0 || (uint32_t)root >= call->comm->size)
		return twmpi_fail(MPI_ERR_ROOT, "%d is not a rank of %u", root, call->comm->size);
	if (in == MPI_IN_PLACE && !is_root)
		return twmpi_fail(MPI_ERR_BUFFER, "MPI_IN_PLACE is for the root alone");
	code = check_reduction(&what, in, is_root ? out : in, count, datatype, op);
	if (code != MPI_SUCCESS)
		return code;
	if (in == MPI_IN_PLACE)
		in = out;
	if (what.direct)
		return TWMPI_START(call, tow_coll_reduce_start, in, is_root ? out : NULL,
				   what.count, what.library_type, what.reduce, (uint32_t)root);
	if (is_root) {
		code = twmpi_scratch(call, what.bytes * call->comm->size);
		if (code != MPI_SUCCESS)
			return code;
		fold_later(call, &what, call->comm->size, out);
	}
	return TWMPI_START(call, tow_coll_gather_start, in, call->scratch, what.bytes, TOW_U8,
			   (uint32_t)root);
}

TWMPI_BOTH(Reduce, Ireduce,
	   (const void *sendbuf, void *recvbuf, int count, MPIABI_Datatype datatype, MPIABI_Op op,
	    int root, MPIABI_Comm comm),
	   start_reduce(call, sendbuf, recvbuf, count, datatype, op, root))

/*
 * In place, the result has to be at the start of the buffer, and the rest of the buffer must not
 * change. The library can only write to this rank's own part. So the result goes to memory of the
 * pool first.
 */
static int scatter_alike(struct twmpi_request *call, const struct reduction *what, const void *in,
			 void *out, bool in_place)
{
	bool moved = in_place && call->comm->rank > 0;
	int code = moved ? twmpi_scratch(call, what->bytes) : MPI_SUCCESS;

	if (code != MPI_SUCCESS)
		return code;
	if (moved) {
		call->move_to = out;
		call->move_from = call->scratch;
		call->move_bytes = what->bytes;
		call->finish = twmpi_finish_move;
		out = call->scratch;
	}
	return TWMPI_START(call, tow_coll_reduce_scatter_start, in, out, what->count,
			   what->library_type, what->reduce);
}

/*
 * Each rank receives its part from every rank, and folds these. what: describes this rank's part.
 */
static int scatter_parts(struct twmpi_request *call, const struct reduction *what, const void *in,
			 void *out, const int *counts, int count)
{
	uint32_t n = call->comm->size;
	uint64_t *words = calloc(2 * (size_t)n, sizeof(*words));
	struct tow_coll_parts send = { words, NULL }, receive = { words + n, NULL };
	int code = words != NULL
			   ? twmpi_scratch(call, what->bytes * n)
			   : twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for %u counts", n);

	for (uint32_t r = 0; code == MPI_SUCCESS && r < n; r++) {
		words[r] = (uint64_t)(counts != NULL ? counts[r] : count) * what->type->extent;
		words[n + r] = what->bytes;
	}
	if (code == MPI_SUCCESS) {
		fold_later(call, what, n, out);
		code = TWMPI_START(call, tow_coll_all_to_all_v_start, in, &send, call->scratch,
				   &receive, TOW_U8);
	}
	free(words);
	return code;
}

/* counts == NULL: each rank has `count` elements. */
static int start_reduce_scatter(struct twmpi_request *call, const void *in, void *out,
				const int *counts, int count, MPIABI_Datatype datatype,
				MPIABI_Op op)
{
	struct reduction what;
	bool in_place = in == MPI_IN_PLACE, alike = true;
	int code = MPI_SUCCESS, all = 0;

	for (uint32_t r = 0; code == MPI_SUCCESS && r < call->comm->size; r++) {
		int part = counts != NULL ? counts[r] : count;

		alike = alike && (counts == NULL || part == counts[0]);
		if (part < 0)
			code = twmpi_fail(MPI_ERR_COUNT, "the count of rank %u is %d", r, part);
		else if (__builtin_add_overflow(all, part, &all))
			all = INT32_MAX; /* only tells whether a buffer is needed */
	}
	if (code == MPI_SUCCESS)
		code = check_reduction(&what, in_place ? out : in,
				       all > 0 && out == NULL ? in : out, all, datatype, op);
	if (code != MPI_SUCCESS)
		return code;
	what.count = (uint64_t)(counts != NULL ? counts[call->comm->rank] : count);
	what.bytes = what.count * what.type->extent;
	if (what.count > 0 && out == NULL)
		return twmpi_fail(MPI_ERR_BUFFER, "the buffer for the result is NULL");
	if (in_place)
		in = out;
	if (what.direct && alike)
		return scatter_alike(call, &what, in, out, in_place);
	return scatter_parts(call, &what, in, out, counts, count);
}

TWMPI_BOTH(Reduce_scatter, Ireduce_scatter,
	   (const void *sendbuf, void *recvbuf, const int *recvcounts, MPIABI_Datatype datatype,
	    MPIABI_Op op, MPIABI_Comm comm),
	   recvcounts == NULL
		   ? twmpi_fail(MPI_ERR_ARG, "the counts are NULL")
		   : start_reduce_scatter(call, sendbuf, recvbuf, recvcounts, 0, datatype, op))

TWMPI_BOTH(Reduce_scatter_block, Ireduce_scatter_block,
	   (const void *sendbuf, void *recvbuf, int recvcount, MPIABI_Datatype datatype,
	    MPIABI_Op op, MPIABI_Comm comm),
	   start_reduce_scatter(call, sendbuf, recvbuf, NULL, recvcount, datatype, op))

/* Folds the parts of the ranks below this one. own: also the part of this rank. */
static int start_scan(struct twmpi_request *call, const void *in, void *out, int count,
		      MPIABI_Datatype datatype, MPIABI_Op op, bool own)
{
	struct reduction what;
	int code = check_reduction(&what, in, out, count, datatype, op);

	if (code != MPI_SUCCESS)
		return code;
	return gather_parts(call, &what, in == MPI_IN_PLACE ? out : in, out,
			    call->comm->rank + (own ? 1u : 0u));
}

TWMPI_BOTH(Scan, Iscan,
	   (const void *sendbuf, void *recvbuf, int count, MPIABI_Datatype datatype, MPIABI_Op op,
	    MPIABI_Comm comm),
	   start_scan(call, sendbuf, recvbuf, count, datatype, op, true))

TWMPI_BOTH(Exscan, Iexscan,
	   (const void *sendbuf, void *recvbuf, int count, MPIABI_Datatype datatype, MPIABI_Op op,
	    MPIABI_Comm comm),
	   start_scan(call, sendbuf, recvbuf, count, datatype, op, false))
