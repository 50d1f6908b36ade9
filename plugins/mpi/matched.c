/*
 * matched.c - matched probes: a found message is taken out at once, as a view in the pool, so that
 * no other receive gets it. MPI_Mrecv copies it from there.
 */
#include "plugins/mpi/twmpi.h"

#include <stdlib.h>
#include <string.h>

struct matched {
	struct twmpi_comm *comm; /* held */
	struct tow_op *op;       /* the view, which has ended well */
	const void *data;
	MPIABI_Status status;
};

static void drop_matched(struct matched *matched)
{
	if (matched->op != NULL)
		tow_view_release(matched->op);
	twmpi_comm_drop(matched->comm);
	free(matched);
}

typedef int (*start_function)(struct twmpi_comm *comm, int source, int tag, struct tow_op **op_out);

/* Takes a message out. *message: MPI_MESSAGE_NULL: `start` has found none. */
static int take_message(start_function start, struct twmpi_comm *comm, int source, int tag,
			MPIABI_Message *message, MPIABI_Status *status)
{
	struct tow_result result = TOW_RESULT_INIT;
	struct matched *matched = calloc(1, sizeof(*matched));
	int code;

	*message = MPI_MESSAGE_NULL;
	if (matched == NULL)
		return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a message");
	matched->comm = twmpi_comm_hold(comm);
	code = start(comm, source, tag, &matched->op);
	if (code == MPI_SUCCESS && matched->op != NULL) {
		int ended = tow_op_wait(matched->op, TOW_FOREVER);

		code = ended < 0 ? twmpi_failed(ended) : MPI_SUCCESS;
	}
	if (code == MPI_SUCCESS && matched->op == NULL) {
		drop_matched(matched);
		return MPI_SUCCESS;
	}
	if (code == MPI_SUCCESS && !twmpi_handle_new(TWMPI_Message, matched, message))
		code = twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a handle");
	if (code != MPI_SUCCESS) {
		drop_matched(matched);
		return code;
	}
	tow_op_result(matched->op, &result);
	matched->data = result.data;
	twmpi_status_set(comm, &result, &matched->status);
	if (status != MPI_STATUS_IGNORE)
		*status = matched->status;
	return MPI_SUCCESS;
}

static int fill_no_proc(MPIABI_Message *message, MPIABI_Status *status)
{
	*message = MPI_MESSAGE_NO_PROC;
	if (status != MPI_STATUS_IGNORE)
		*status = (MPIABI_Status){ .MPI_SOURCE = MPI_PROC_NULL, .MPI_TAG = MPI_ANY_TAG };
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Mprobe(int source, int tag, MPIABI_Comm comm, MPIABI_Message *message,
			       MPIABI_Status *status)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS)
		code = twmpi_partner_check(c, source, tag, true);
	if (code == MPI_SUCCESS)
		code = source == MPI_PROC_NULL
			       ? fill_no_proc(message, status)
			       : take_message(twmpi_view_start, c, source, tag, message, status);
	return twmpi_end(c, "MPI_Mprobe", code);
}

/* Waits only for the rest of a message that has begun to come. */
TWMPI_PUBLIC int MPIABI_Improbe(int source, int tag, MPIABI_Comm comm, int *flag,
				MPIABI_Message *message, MPIABI_Status *status)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	*message = MPI_MESSAGE_NULL;
	if (code == MPI_SUCCESS)
		code = twmpi_partner_check(c, source, tag, true);
	if (code == MPI_SUCCESS)
		code = source == MPI_PROC_NULL
			       ? fill_no_proc(message, status)
			       : take_message(twmpi_view_try, c, source, tag, message, status);
	*flag = code == MPI_SUCCESS && *message != MPI_MESSAGE_NULL;
	return twmpi_end(c, "MPI_Improbe", code);
}

/* Copies the message into the buffer; a message that is too long is cut. */
static int receive_matched(struct matched *matched, void *data, int count, MPIABI_Datatype datatype,
			   MPIABI_Status *status)
{
	uint64_t room, bytes = matched->status.bytes;
	int code = twmpi_span(count, datatype, &room);

	if (code == MPI_SUCCESS && bytes > room) {
		code = twmpi_fail(
			MPI_ERR_TRUNCATE,
			"the message of rank %d with tag %d has %llu bytes, the buffer %llu",
			matched->status.MPI_SOURCE, matched->status.MPI_TAG,
			(unsigned long long)bytes, (unsigned long long)room);
		bytes = room;
	} else if (code != MPI_SUCCESS) {
		bytes = 0;
	}
	if (bytes > 0)
		memcpy(data, matched->data, bytes);
	matched->status.bytes = bytes;
	*status = matched->status;
	return code;
}

/* Ends the handle. The caller drops *comm_out. */
static int end_matched(MPIABI_Message *message, void *data, int count, MPIABI_Datatype datatype,
		       MPIABI_Status *status, struct twmpi_comm **comm_out)
{
	struct matched *matched = twmpi_object(TWMPI_Message, *message);
	int code;

	*comm_out = NULL;
	*status = (MPIABI_Status){ .MPI_SOURCE = MPI_PROC_NULL, .MPI_TAG = MPI_ANY_TAG };
	if (matched == NULL && *message != MPI_MESSAGE_NO_PROC)
		return twmpi_fail(MPI_ERR_REQUEST, "%#lx is not a message, or was received before",
				  (unsigned long)*message);
	code = MPI_SUCCESS;
	if (matched != NULL) {
		*comm_out = twmpi_comm_hold(matched->comm);
		code = receive_matched(matched, data, count, datatype, status);
		twmpi_handle_end(TWMPI_Message, *message);
		drop_matched(matched);
	}
	*message = MPI_MESSAGE_NULL;
	return code;
}

TWMPI_PUBLIC int MPIABI_Mrecv(void *buf, int count, MPIABI_Datatype datatype,
			      MPIABI_Message *message, MPIABI_Status *status)
{
	struct twmpi_comm *comm;
	MPIABI_Status own;
	int code = end_matched(message, buf, count, datatype, &own, &comm);

	own.MPI_ERROR = code;
	if (status != MPI_STATUS_IGNORE)
		*status = own;
	code = twmpi_end(comm, "MPI_Mrecv", code);
	twmpi_comm_drop(comm);
	return code;
}

/* The message has arrived already, so the returned request has ended. */
TWMPI_PUBLIC int MPIABI_Imrecv(void *buf, int count, MPIABI_Datatype datatype,
			       MPIABI_Message *message, MPIABI_Request *request)
{
	struct twmpi_request *call;
	struct twmpi_comm *comm;
	MPIABI_Status status;
	int code = end_matched(message, buf, count, datatype, &status, &comm), began;

	began = twmpi_call_new(&call, "MPI_Imrecv",
			       comm != NULL ? comm->handle : (MPIABI_Comm)MPI_COMM_SELF);
	twmpi_comm_drop(comm);
	if (began == MPI_SUCCESS) {
		call->is_message = true;
		call->status = status;
		call->code = code;
		if (code != MPI_SUCCESS)
			call->text = twmpi_text_copy();
	}
	return twmpi_call_started(call, began, request);
}
