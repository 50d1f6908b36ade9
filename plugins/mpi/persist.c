/*
 * persist.c - persistent requests: a message that is described once, and may be started many times.
 */
#include "plugins/mpi/twmpi.h"

static int describe_message(struct twmpi_request *call, bool receives, enum twmpi_mode mode,
			    const void *data, int count, MPIABI_Datatype datatype, int rank,
			    int tag)
{
	call->persistent = true;
	call->message.receives = receives;
	call->message.mode = mode;
	return twmpi_message_set(call, data, count, datatype, rank, tag);
}

#define DESCRIBE(name, receives, mode, constant)                                                   \
	TWMPI_PUBLIC int MPIABI_##name(constant void *buf, int count, MPIABI_Datatype datatype,    \
				       int rank, int tag, MPIABI_Comm comm,                        \
				       MPIABI_Request *request)                                    \
	{                                                                                          \
		struct twmpi_request *call;                                                        \
		int code = twmpi_call_new(&call, "MPI_" #name, comm);                              \
                                                                                                   \
		if (code == MPI_SUCCESS)                                                           \
			code = describe_message(call, receives, mode, buf, count, datatype, rank,  \
						tag);                                              \
		return twmpi_call_started(call, code, request);                                    \
	}

DESCRIBE(Send_init, false, TWMPI_STANDARD, const)
DESCRIBE(Rsend_init, false, TWMPI_STANDARD, const)
DESCRIBE(Ssend_init, false, TWMPI_SYNCHRONOUS, const)
DESCRIBE(Bsend_init, false, TWMPI_BUFFERED, const)
DESCRIBE(Recv_init, true, TWMPI_STANDARD, )

static int start_again(MPIABI_Request handle, struct twmpi_comm **comm_out)
{
	struct twmpi_request *call = twmpi_object(TWMPI_Request, handle);
	int code;

	if (call == NULL || !call->persistent)
		return twmpi_fail(MPI_ERR_REQUEST, "%#lx is not a persistent request",
				  (unsigned long)handle);
	*comm_out = call->comm;
	if (call->active)
		return twmpi_fail(MPI_ERR_REQUEST, "the request is active already");
	code = twmpi_message_start(call);
	call->active = code == MPI_SUCCESS;
	return code;
}

TWMPI_PUBLIC int MPIABI_Start(MPIABI_Request *request)
{
	struct twmpi_comm *comm = NULL;
	int code = start_again(*request, &comm);

	return twmpi_end(comm, "MPI_Start", code);
}

TWMPI_PUBLIC int MPIABI_Startall(int count, MPIABI_Request *array_of_requests)
{
	struct twmpi_comm *comm = NULL;
	int code = MPI_SUCCESS;

	for (int i = 0; code == MPI_SUCCESS && i < count; i++)
		code = start_again(array_of_requests[i], &comm);
	return twmpi_end(comm, "MPI_Startall", code);
}
