/*
 * collect.c - collectives that move bytes. MPI's counts are elements of a datatype. The library's
 * are bytes, because the types of the two sides may differ.
 */
#include "plugins/mpi/twmpi.h"

#include <stdlib.h>
#include <string.h>

/* The arguments of the library's all-to-all with parts of any length. */
struct v_args {
	uint64_t *numbers; /* counts and offsets of both sides */
	struct tow_coll_parts send, receive;
};

static int check_root(const struct twmpi_request *call, int root)
{
	if (root >= 0 && (uint32_t)root < call->comm->size)
		return MPI_SUCCESS;
	return twmpi_fail(MPI_ERR_ROOT, "%d is not a rank of %u", root, call->comm->size);
}

static int check_buffer(const void *buffer, uint64_t bytes)
{
	if (bytes == 0 || buffer != NULL)
		return MPI_SUCCESS;
	return twmpi_fail(MPI_ERR_BUFFER, "a buffer of %llu bytes is NULL",
			  (unsigned long long)bytes);
}

static int span_buffer(const void *buffer, int count, MPIABI_Datatype datatype, uint64_t *bytes_out)
{
	int code = twmpi_span(count, datatype, bytes_out);

	return code == MPI_SUCCESS && buffer != MPI_IN_PLACE ? check_buffer(buffer, *bytes_out)
							     : code;
}

static bool is_root(const struct twmpi_request *call, int root)
{
	return call->comm->rank == (uint32_t)root;
}

static int start_barrier(struct twmpi_request *call)
{
	struct tow_coll_options options;
	int status;

	twmpi_options(call, &options);
	pthread_mutex_lock(&call->comm->lock);
	status = tow_coll_barrier_start(call->comm->group, &options, &call->op);
	pthread_mutex_unlock(&call->comm->lock);
	return status < 0 ? twmpi_failed(status) : MPI_SUCCESS;
}

TWMPI_BOTH(Barrier, Ibarrier, (MPIABI_Comm comm), start_barrier(call))

static int start_broadcast(struct twmpi_request *call, void *data, int count,
			   MPIABI_Datatype datatype, int root)
{
	uint64_t bytes;
	int code = span_buffer(data, count, datatype, &bytes);

	if (code == MPI_SUCCESS)
		code = check_root(call, root);
	if (code != MPI_SUCCESS)
		return code;
	return TWMPI_START(call, tow_coll_broadcast_start, data, bytes, TOW_U8, (uint32_t)root);
}

TWMPI_BOTH(Bcast, Ibcast,
	   (void *buffer, int count, MPIABI_Datatype datatype, int root, MPIABI_Comm comm),
	   start_broadcast(call, buffer, count, datatype, root))

static int start_gather(struct twmpi_request *call, const void *in, int in_count,
			MPIABI_Datatype in_type, void *out, int out_count, MPIABI_Datatype out_type,
			int root)
{
	uint64_t bytes = 0;
	int code = check_root(call, root);

	if (code == MPI_SUCCESS && in != MPI_IN_PLACE)
		code = span_buffer(in, in_count, in_type, &bytes);
	if (code == MPI_SUCCESS && is_root(call, root))
		code = span_buffer(out, out_count, out_type, &bytes);
	else if (code == MPI_SUCCESS && in == MPI_IN_PLACE)
		code = twmpi_fail(MPI_ERR_BUFFER, "MPI_IN_PLACE is for the root alone");
	if (code != MPI_SUCCESS)
		return code;
	if (in == MPI_IN_PLACE)
		in = (const uint8_t *)out + call->comm->rank * bytes;
	return TWMPI_START(call, tow_coll_gather_start, in, is_root(call, root) ? out : NULL, bytes,
			   TOW_U8, (uint32_t)root);
}

TWMPI_BOTH(Gather, Igather,
	   (const void *sendbuf, int sendcount, MPIABI_Datatype sendtype, void *recvbuf,
	    int recvcount, MPIABI_Datatype recvtype, int root, MPIABI_Comm comm),
	   start_gather(call, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root))

static int start_scatter(struct twmpi_request *call, const void *in, int in_count,
			 MPIABI_Datatype in_type, void *out, int out_count,
			 MPIABI_Datatype out_type, int root)
{
	uint64_t bytes = 0;
	int code = check_root(call, root);

	if (code == MPI_SUCCESS && out != MPI_IN_PLACE)
		code = span_buffer(out, out_count, out_type, &bytes);
	if (code == MPI_SUCCESS && is_root(call, root))
		code = span_buffer(in, in_count, in_type, &bytes);
	else if (code == MPI_SUCCESS && out == MPI_IN_PLACE)
		code = twmpi_fail(MPI_ERR_BUFFER, "MPI_IN_PLACE is for the root alone");
	if (code != MPI_SUCCESS)
		return code;
	if (out == MPI_IN_PLACE) /* the library does not write to it */
		out = (uint8_t *)(uintptr_t)in + call->comm->rank * bytes;
	return TWMPI_START(call, tow_coll_scatter_start, is_root(call, root) ? in : NULL, out,
			   bytes, TOW_U8, (uint32_t)root);
}

TWMPI_BOTH(Scatter, Iscatter,
	   (const void *sendbuf, int sendcount, MPIABI_Datatype sendtype, void *recvbuf,
	    int recvcount, MPIABI_Datatype recvtype, int root, MPIABI_Comm comm),
	   start_scatter(call, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root))

static int start_all_gather(struct twmpi_request *call, const void *in, int in_count,
			    MPIABI_Datatype in_type, void *out, int out_count,
			    MPIABI_Datatype out_type)
{
	uint64_t bytes, mine;
	int code = span_buffer(out, out_count, out_type, &bytes);

	if (code == MPI_SUCCESS && in != MPI_IN_PLACE)
		code = span_buffer(in, in_count, in_type, &mine);
	if (code == MPI_SUCCESS && in != MPI_IN_PLACE && mine != bytes)
		code = twmpi_fail(MPI_ERR_COUNT,
				  "%llu bytes are sent, and %llu received of each rank",
				  (unsigned long long)mine, (unsigned long long)bytes);
	if (code != MPI_SUCCESS)
		return code;
	if (in == MPI_IN_PLACE)
		in = (const uint8_t *)out + call->comm->rank * bytes;
	return TWMPI_START(call, tow_coll_all_gather_start, in, out, bytes, TOW_U8);
}

TWMPI_BOTH(Allgather, Iallgather,
	   (const void *sendbuf, int sendcount, MPIABI_Datatype sendtype, void *recvbuf,
	    int recvcount, MPIABI_Datatype recvtype, MPIABI_Comm comm),
	   start_all_gather(call, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype))

static int start_all_to_all(struct twmpi_request *call, const void *in, int in_count,
			    MPIABI_Datatype in_type, void *out, int out_count,
			    MPIABI_Datatype out_type)
{
	uint64_t bytes, mine;
	int code = span_buffer(out, out_count, out_type, &bytes);

	if (code == MPI_SUCCESS && in != MPI_IN_PLACE)
		code = span_buffer(in, in_count, in_type, &mine);
	if (code == MPI_SUCCESS && in != MPI_IN_PLACE && mine != bytes)
		code = twmpi_fail(MPI_ERR_COUNT,
				  "%llu bytes go to each rank, and %llu come from it",
				  (unsigned long long)mine, (unsigned long long)bytes);
	if (code != MPI_SUCCESS)
		return code;
	return TWMPI_START(call, tow_coll_all_to_all_start, in == MPI_IN_PLACE ? out : in, out,
			   bytes, TOW_U8);
}

TWMPI_BOTH(Alltoall, Ialltoall,
	   (const void *sendbuf, int sendcount, MPIABI_Datatype sendtype, void *recvbuf,
	    int recvcount, MPIABI_Datatype recvtype, MPIABI_Comm comm),
	   start_all_to_all(call, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype))

/* Sets the bytes and the offset of part `at`. step: 1 for a type for each part, 0 for one type. */
static int set_part(const int *counts, const int *places, const MPIABI_Datatype *types, int step,
		    uint32_t at, uint64_t *bytes_out, uint64_t *offset_out)
{
	MPIABI_Datatype datatype = types[at * (uint32_t)step];
	struct twmpi_type *type;
	int code = twmpi_span(counts[at], datatype, bytes_out);

	if (code == MPI_SUCCESS)
		code = twmpi_type_find(datatype, &type);
	if (code == MPI_SUCCESS && places[at] < 0)
		code = twmpi_fail(MPI_ERR_ARG, "the displacement of rank %u is %d", at, places[at]);
	if (code == MPI_SUCCESS) /* MPI_Alltoallw counts them in bytes */
		*offset_out = (uint64_t)places[at] * (step != 0 ? 1 : type->extent);
	return code;
}

static int make_v_args(struct twmpi_request *call, struct v_args *args)
{
	uint32_t n = call->comm->size;

	args->numbers = calloc(4 * (size_t)n, sizeof(*args->numbers));
	if (args->numbers == NULL)
		return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for %u counts", n);
	args->send = (struct tow_coll_parts){ args->numbers, args->numbers + n };
	args->receive = (struct tow_coll_parts){ args->numbers + 2 * n, args->numbers + 3 * n };
	return MPI_SUCCESS;
}

static int set_parts(struct twmpi_request *call, const struct tow_coll_parts *parts,
		     const int *counts, const int *places, const MPIABI_Datatype *types, int step)
{
	int code = MPI_SUCCESS;

	if (counts == NULL || places == NULL)
		return twmpi_fail(MPI_ERR_ARG, "the counts or the displacements are NULL");
	for (uint32_t r = 0; code == MPI_SUCCESS && r < call->comm->size; r++)
		code = set_part(counts, places, types, step, r, (uint64_t *)&parts->counts[r],
				(uint64_t *)&parts->offsets[r]);
	return code;
}

static int start_v_args(struct twmpi_request *call, const void *in, void *out,
			const struct v_args *args)
{
	return TWMPI_START(call, tow_coll_all_to_all_v_start, in, &args->send, out, &args->receive,
			   TOW_U8);
}

/* Only the root receives. In place, its own part is in the buffer already. */
static int start_gather_v(struct twmpi_request *call, const void *in, int in_count,
			  MPIABI_Datatype in_type, void *out, const int *counts, const int *places,
			  MPIABI_Datatype out_type, int root)
{
	struct v_args args;
	uint64_t bytes = 0;
	int code = check_root(call, root);

	if (code == MPI_SUCCESS && in != MPI_IN_PLACE)
		code = span_buffer(in, in_count, in_type, &bytes);
	else if (code == MPI_SUCCESS && !is_root(call, root))
		code = twmpi_fail(MPI_ERR_BUFFER, "MPI_IN_PLACE is for the root alone");
	if (code == MPI_SUCCESS)
		code = make_v_args(call, &args);
	if (code != MPI_SUCCESS)
		return code;
	((uint64_t *)args.send.counts)[root] = bytes;
	if (is_root(call, root))
		code = set_parts(call, &args.receive, counts, places, &out_type, 0);
	if (in == MPI_IN_PLACE)
		((uint64_t *)args.receive.counts)[root] = 0;
	if (code == MPI_SUCCESS)
		code = start_v_args(call, in == MPI_IN_PLACE ? NULL : in,
				    is_root(call, root) ? out : NULL, &args);
	free(args.numbers);
	return code;
}

TWMPI_BOTH(Gatherv, Igatherv,
	   (const void *sendbuf, int sendcount, MPIABI_Datatype sendtype, void *recvbuf,
	    const int *recvcounts, const int *displs, MPIABI_Datatype recvtype, int root,
	    MPIABI_Comm comm),
	   start_gather_v(call, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype,
			  root))

static int start_scatter_v(struct twmpi_request *call, const void *in, const int *counts,
			   const int *places, MPIABI_Datatype in_type, void *out, int out_count,
			   MPIABI_Datatype out_type, int root)
{
	struct v_args args;
	uint64_t bytes = 0;
	int code = check_root(call, root);

	if (code == MPI_SUCCESS && out != MPI_IN_PLACE)
		code = span_buffer(out, out_count, out_type, &bytes);
	else if (code == MPI_SUCCESS && !is_root(call, root))
		code = twmpi_fail(MPI_ERR_BUFFER, "MPI_IN_PLACE is for the root alone");
	if (code == MPI_SUCCESS)
		code = make_v_args(call, &args);
	if (code != MPI_SUCCESS)
		return code;
	((uint64_t *)args.receive.counts)[root] = bytes;
	if (is_root(call, root))
		code = set_parts(call, &args.send, counts, places, &in_type, 0);
	if (out == MPI_IN_PLACE)
		((uint64_t *)args.send.counts)[root] = 0;
	if (code == MPI_SUCCESS)
		code = start_v_args(call, is_root(call, root) ? in : NULL,
				    out == MPI_IN_PLACE ? NULL : out, &args);
	free(args.numbers);
	return code;
}

TWMPI_BOTH(Scatterv, Iscatterv,
	   (const void *sendbuf, const int *sendcounts, const int *displs, MPIABI_Datatype sendtype,
	    void *recvbuf, int recvcount, MPIABI_Datatype recvtype, int root, MPIABI_Comm comm),
	   start_scatter_v(call, sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount,
			   recvtype, root))

static int start_all_gather_v(struct twmpi_request *call, const void *in, int in_count,
			      MPIABI_Datatype in_type, void *out, const int *counts,
			      const int *places, MPIABI_Datatype out_type)
{
	struct v_args args = { 0 };
	uint64_t bytes = 0, mine;
	int code = MPI_SUCCESS;

	if (in != MPI_IN_PLACE)
		code = span_buffer(in, in_count, in_type, &bytes);
	if (code == MPI_SUCCESS)
		code = make_v_args(call, &args);
	if (code != MPI_SUCCESS)
		return code;
	code = set_parts(call, &args.receive, counts, places, &out_type, 0);
	mine = args.receive.counts[call->comm->rank];
	if (in == MPI_IN_PLACE)
		in = (const uint8_t *)out + args.receive.offsets[call->comm->rank];
	else if (code == MPI_SUCCESS && bytes != mine)
		code = twmpi_fail(MPI_ERR_COUNT,
				  "%llu bytes are sent, and %llu received of this rank",
				  (unsigned long long)bytes, (unsigned long long)mine);
	if (code == MPI_SUCCESS)
		code = TWMPI_START(call, tow_coll_all_gather_v_start, in, out, args.receive.counts,
				   args.receive.offsets, TOW_U8);
	free(args.numbers);
	return code;
}

TWMPI_BOTH(Allgatherv, Iallgatherv,
	   (const void *sendbuf, int sendcount, MPIABI_Datatype sendtype, void *recvbuf,
	    const int *recvcounts, const int *displs, MPIABI_Datatype recvtype, MPIABI_Comm comm),
	   start_all_gather_v(call, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
			      recvtype))

/* In place: copies the parts to send into scratch, one behind the other. */
static int copy_aside(struct twmpi_request *call, const void *out, struct v_args *args)
{
	uint64_t *counts = (uint64_t *)args->send.counts, *offsets = (uint64_t *)args->send.offsets;
	uint64_t end = 0;
	int code;

	for (uint32_t r = 0; r < call->comm->size; r++) {
		counts[r] = args->receive.counts[r];
		offsets[r] = end;
		end += counts[r];
	}
	code = twmpi_scratch(call, end);
	for (uint32_t r = 0; code == MPI_SUCCESS && r < call->comm->size; r++)
		if (counts[r] > 0)
			memcpy((uint8_t *)call->scratch + offsets[r],
			       (const uint8_t *)out + args->receive.offsets[r], counts[r]);
	return code;
}

/* step: for both lists of types, as in set_part. */
static int start_all_to_all_v(struct twmpi_request *call, const void *in, const int *in_counts,
			      const int *in_places, const MPIABI_Datatype *in_types, void *out,
			      const int *out_counts, const int *out_places,
			      const MPIABI_Datatype *out_types, int step)
{
	struct v_args args;
	int code = make_v_args(call, &args);

	if (code != MPI_SUCCESS)
		return code;
	code = set_parts(call, &args.receive, out_counts, out_places, out_types, step);
	if (code == MPI_SUCCESS && in == MPI_IN_PLACE)
		code = copy_aside(call, out, &args);
	else if (code == MPI_SUCCESS)
		code = set_parts(call, &args.send, in_counts, in_places, in_types, step);
	if (code == MPI_SUCCESS)
		code = start_v_args(call, in == MPI_IN_PLACE ? call->scratch : in, out, &args);
	free(args.numbers);
	return code;
}

TWMPI_BOTH(Alltoallv, Ialltoallv,
	   (const void *sendbuf, const int *sendcounts, const int *sdispls,
	    MPIABI_Datatype sendtype, void *recvbuf, const int *recvcounts, const int *rdispls,
	    MPIABI_Datatype recvtype, MPIABI_Comm comm),
	   start_all_to_all_v(call, sendbuf, sendcounts, sdispls, &sendtype, recvbuf, recvcounts,
			      rdispls, &recvtype, 0))

TWMPI_BOTH(Alltoallw, Ialltoallw,
	   (const void *sendbuf, const int *sendcounts, const int *sdispls,
	    const MPIABI_Datatype *sendtypes, void *recvbuf, const int *recvcounts,
	    const int *rdispls, const MPIABI_Datatype *recvtypes, MPIABI_Comm comm),
	   start_all_to_all_v(call, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts,
			      rdispls, recvtypes, 1))
