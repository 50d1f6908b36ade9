/*
 * mpi_coll.c - collectives of float32, out of place. The size is
 *
 *	allreduce, reduce, bcast  that of the vector of a rank
 *	allgather, gather         that of a rank's part of the input
 *	reduce_scatter, scatter   that of a rank's part of the result
 *	alltoall                  that of all that a rank sends, itself included
 *
 * The time is the mean of the slowest rank over calls without a barrier between them.
 */
#include <mpi.h>
#include <stdlib.h>

#include "bench/peers/programs/mpi.h"

struct coll_call {
	enum peer_coll coll;
	float *in, *out;
	int count; /* elements of the size */
};

static void call_once(const struct coll_call *call)
{
	int part = call->count / mpi_place.ranks;

	switch (call->coll) {
	case PEER_ALLREDUCE:
		MPI_Allreduce(call->in, call->out, call->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		break;
	case PEER_ALLGATHER:
		MPI_Allgather(call->in, call->count, MPI_FLOAT, call->out, call->count, MPI_FLOAT,
			      MPI_COMM_WORLD);
		break;
	case PEER_REDUCE_SCATTER:
		MPI_Reduce_scatter_block(call->in, call->out, call->count, MPI_FLOAT, MPI_SUM,
					 MPI_COMM_WORLD);
		break;
	case PEER_ALLTOALL:
		MPI_Alltoall(call->in, part, MPI_FLOAT, call->out, part, MPI_FLOAT, MPI_COMM_WORLD);
		break;
	case PEER_REDUCE:
		MPI_Reduce(call->in, call->out, call->count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
		break;
	case PEER_GATHER:
		MPI_Gather(call->in, call->count, MPI_FLOAT, call->out, call->count, MPI_FLOAT, 0,
			   MPI_COMM_WORLD);
		break;
	case PEER_SCATTER:
		MPI_Scatter(call->in, call->count, MPI_FLOAT, call->out, call->count, MPI_FLOAT, 0,
			    MPI_COMM_WORLD);
		break;
	default:
		MPI_Bcast(call->in, call->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
	}
}

/* Runs so many calls. Returns the seconds of one of them, on this rank. */
static double time_calls(const struct coll_call *call, unsigned calls)
{
	double begin_s;

	MPI_Barrier(MPI_COMM_WORLD);
	begin_s = peer_now_s();
	for (unsigned i = 0; i < calls; i++)
		call_once(call);
	return (peer_now_s() - begin_s) / calls;
}

/* Every element was 1, so each sum is the number of ranks. */
static void check_sum(const struct coll_call *call)
{
	bool sums = call->coll == PEER_ALLREDUCE || call->coll == PEER_REDUCE_SCATTER ||
		    (call->coll == PEER_REDUCE && mpi_place.rank == 0);

	for (int i = 0; sums && i < call->count; i++)
		if (call->out[i] < (float)mpi_place.ranks || call->out[i] > (float)mpi_place.ranks)
			peer_end(1, "%s: element %d is %g, not %d", peer_coll_names[call->coll], i,
				 (double)call->out[i], mpi_place.ranks);
}

void mpi_time_coll(enum peer_coll coll, uint64_t bytes)
{
	uint64_t all_bytes = bytes * (uint64_t)mpi_place.ranks;
	bool parts = coll == PEER_REDUCE_SCATTER || coll == PEER_SCATTER;
	uint64_t in_bytes = parts ? all_bytes : bytes;
	struct coll_call call = { .coll = coll, .count = (int)(bytes / sizeof(float)) };
	double each_s, slowest_s, used_s, all_s = 0;
	unsigned calls;

	call.in = peer_memory(in_bytes);
	call.out = peer_memory(coll == PEER_ALLGATHER || coll == PEER_GATHER ? all_bytes : bytes);
	for (uint64_t i = 0; i < in_bytes / sizeof(float); i++)
		call.in[i] = 1.0f;
	call_once(&call);
	check_sum(&call);
	each_s = time_calls(&call, 3);
	MPI_Allreduce(&each_s, &slowest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	calls = peer_calls(slowest_s); /* the same at all ranks */
	used_s = peer_cpu_s();
	each_s = time_calls(&call, calls);
	used_s = peer_cpu_s() - used_s;
	MPI_Reduce(&each_s, &slowest_s, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Reduce(&used_s, &all_s, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (mpi_place.rank == 0)
		peer_print_coll(coll, mpi_place.ranks, bytes, calls, slowest_s, all_s);
	free(call.in);
	free(call.out);
}
