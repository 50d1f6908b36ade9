/*
 * request.c - started calls, and waiting for them. The thread that finds an operation ended does
 * the rest of the work (fold, move) before it reports the end.
 */
#include "plugins/mpi/twmpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reset_status(MPIABI_Status *status)
{
	*status = (MPIABI_Status){ .MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG };
}

int twmpi_call_begin(struct twmpi_request *call, const char *name, MPIABI_Comm comm)
{
	int code;

	memset(call, 0, sizeof(*call));
	call->name = name;
	call->handle = MPI_REQUEST_NULL;
	reset_status(&call->status);
	code = twmpi_comm_find(comm, &call->comm);
	if (code == MPI_SUCCESS)
		twmpi_comm_hold(call->comm);
	return code;
}

int twmpi_call_new(struct twmpi_request **call_out, const char *name, MPIABI_Comm comm)
{
	struct twmpi_request *call = calloc(1, sizeof(*call));

	*call_out = call;
	if (call == NULL)
		return twmpi_end(NULL, name,
				 twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a request"));
	return twmpi_call_begin(call, name, comm);
}

/* Frees all that the request has, except for its own memory. */
static void empty_request(struct twmpi_request *call)
{
	const struct twmpi_job *job = twmpi_job();

	tow_op_release(call->op);
	tow_op_release(call->then);
	call->op = NULL;
	call->then = NULL;
	if (call->scratch_outside)
		free(call->scratch);
	else if (call->scratch != NULL && job != NULL)
		tow_free(job->runtime, call->scratch);
	call->scratch = NULL;
	call->scratch_outside = false;
	twmpi_type_drop(call->fold.type);
	twmpi_op_drop(call->fold.op);
	call->fold.type = NULL;
	call->fold.op = NULL;
}

/* The failure may be reported after others. A call without a handle reports its own at once. */
static void keep_text(struct twmpi_request *call)
{
	if (call->handle == MPI_REQUEST_NULL)
		return;
	free(call->text);
	call->text = call->code != MPI_SUCCESS ? twmpi_text_copy() : NULL;
}

/*
 * Handles the end of an operation with this status of the library. `then` may have to end after it.
 */
static void end_operation(struct twmpi_request *call, int status)
{
	if (call->message.receives)
		call->code = twmpi_message_received(call, status);
	else if (status == TOW_ECANCELED && call->status.canceled)
		call->code = MPI_SUCCESS;
	else if (status < 0)
		call->code = twmpi_failed(status);
	else
		call->status.canceled = false;
	tow_op_release(call->op);
	call->op = call->then;
	call->then = NULL;
	if (call->op != NULL && status < 0)
		tow_op_cancel(call->op);
	else if (call->op != NULL)
		return;
	if (status >= 0 && call->finish != NULL)
		call->code = call->finish(call);
	keep_text(call);
	empty_request(call);
}

int twmpi_call_end(struct twmpi_request *call, int code)
{
	if (code == MPI_SUCCESS)
		code = twmpi_request_wait(call);
	else
		empty_request(call);
	code = twmpi_end(call->comm, call->name, code);
	twmpi_comm_drop(call->comm);
	return code;
}

static void free_request(struct twmpi_request *call)
{
	if (call->handle != MPI_REQUEST_NULL)
		twmpi_handle_end(TWMPI_Request, call->handle);
	empty_request(call);
	twmpi_comm_drop(call->comm);
	free(call->text);
	free(call);
}

int twmpi_call_started(struct twmpi_request *call, int code, MPIABI_Request *request)
{
	struct twmpi_comm *comm = call != NULL ? call->comm : NULL;

	if (call == NULL) /* the failure was raised already */
		return code;
	if (code == MPI_SUCCESS && !twmpi_handle_new(TWMPI_Request, call, &call->handle)) {
		call->handle = MPI_REQUEST_NULL;
		code = twmpi_fail(MPI_ERR_NO_MEM, "there are too many requests");
	}
	*request = call->handle;
	if (code == MPI_SUCCESS)
		return code;
	code = twmpi_end(comm, call->name, code);
	free_request(call);
	return code;
}

int twmpi_scratch(struct twmpi_request *call, uint64_t bytes)
{
	int status = tow_alloc(twmpi_job()->runtime, bytes > 0 ? bytes : 1, 64, &call->scratch);

	if (status == TOW_OK)
		return MPI_SUCCESS;
	/* The size of the pool may cost a program time, but no call. */
	call->scratch = status == TOW_EEXHAUSTED ? malloc(bytes) : NULL;
	call->scratch_outside = call->scratch != NULL;
	return call->scratch_outside ? MPI_SUCCESS : twmpi_failed(status);
}

void twmpi_options(const struct twmpi_request *call, struct tow_coll_options *options_out)
{
	*options_out = (struct tow_coll_options)TOW_COLL_OPTIONS_INIT;
	options_out->name = call->name;
}

int twmpi_finish_fold(struct twmpi_request *request)
{
	const struct twmpi_fold *fold = &request->fold;
	const uint8_t *last;

	if (fold->count == 0)
		return MPI_SUCCESS;
	last = fold->parts + (fold->count - 1) * fold->part_bytes;
	memcpy(fold->out, last, fold->elements * fold->type->extent);
	for (uint32_t i = fold->count - 1; i > 0; i--)
		twmpi_op_apply(fold->op, fold->type, fold->parts + (i - 1) * fold->part_bytes,
			       fold->out, fold->elements);
	return MPI_SUCCESS;
}

int twmpi_finish_move(struct twmpi_request *request)
{
	memmove(request->move_to, request->move_from, request->move_bytes);
	return MPI_SUCCESS;
}

static int fail_request(MPIABI_Request handle)
{
	return twmpi_fail(MPI_ERR_REQUEST, "%#lx is not a request, or has ended before",
			  (unsigned long)handle);
}

int twmpi_request_find(MPIABI_Request handle, struct twmpi_request **out)
{
	*out = twmpi_object(TWMPI_Request, handle);
	if (*out == NULL && handle != MPI_REQUEST_NULL)
		return fail_request(handle);
	if (*out != NULL && (*out)->persistent && !(*out)->active)
		*out = NULL;
	return MPI_SUCCESS;
}

static void give_status(const struct twmpi_request *call, MPIABI_Status *status)
{
	if (status == MPI_STATUS_IGNORE)
		return;
	if (call != NULL)
		*status = call->status;
	else
		reset_status(status);
	status->MPI_ERROR = call != NULL ? call->code : MPI_SUCCESS;
}

void twmpi_request_end(struct twmpi_request *call, MPIABI_Request *request, MPIABI_Status *status)
{
	give_status(call, status);
	if (call == NULL)
		return;
	call->active = false;
	if (call->persistent)
		return;
	*request = MPI_REQUEST_NULL;
	free_request(call);
}

int twmpi_request_wait(struct twmpi_request *call)
{
	if (call == NULL)
		return MPI_SUCCESS;
	while (call->op != NULL)
		end_operation(call, tow_op_wait(call->op, TOW_FOREVER));
	return call->code;
}

/* Ends a request whose operation has ended, and raises its error. */
static int end_single(struct twmpi_request *call, MPIABI_Request *request, MPIABI_Status *status)
{
	struct twmpi_comm *comm = call != NULL ? twmpi_comm_hold(call->comm) : NULL;
	const char *name = call != NULL ? call->name : "";
	int code = call != NULL ? call->code : MPI_SUCCESS;

	if (code != MPI_SUCCESS)
		twmpi_fail_again(code, call->text);
	twmpi_request_end(call, request, status);
	code = twmpi_end(comm, name, code);
	twmpi_comm_drop(comm);
	return code;
}

TWMPI_PUBLIC int MPIABI_Wait(MPIABI_Request *request, MPIABI_Status *status)
{
	struct twmpi_request *call;
	int code = twmpi_request_find(*request, &call);

	if (code != MPI_SUCCESS)
		return twmpi_end(NULL, "MPI_Wait", code);
	twmpi_request_wait(call);
	return end_single(call, request, status);
}

bool twmpi_request_test(struct twmpi_request *call)
{
	int status;

	while (call != NULL && call->op != NULL) {
		status = tow_op_test(call->op);
		if (status == TOW_AGAIN)
			return false;
		end_operation(call, status);
	}
	return true;
}

TWMPI_PUBLIC int MPIABI_Test(MPIABI_Request *request, int *flag, MPIABI_Status *status)
{
	struct twmpi_request *call;
	int code = twmpi_request_find(*request, &call);

	*flag = 0;
	if (code != MPI_SUCCESS)
		return twmpi_end(NULL, "MPI_Test", code);
	*flag = twmpi_request_test(call);
	return *flag ? end_single(call, request, status) : MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Request_get_status(MPIABI_Request request, int *flag, MPIABI_Status *status)
{
	struct twmpi_request *call;
	int code = twmpi_request_find(request, &call);

	*flag = 0;
	if (code != MPI_SUCCESS)
		return twmpi_end(NULL, "MPI_Request_get_status", code);
	*flag = twmpi_request_test(call);
	if (*flag)
		give_status(call, status);
	return MPI_SUCCESS;
}

/* The operation continues without a request, unless there is work to do at its end. */
TWMPI_PUBLIC int MPIABI_Request_free(MPIABI_Request *request)
{
	struct twmpi_request *call = twmpi_object(TWMPI_Request, *request);

	if (call == NULL)
		return twmpi_end(NULL, "MPI_Request_free", fail_request(*request));
	if (call->finish != NULL || call->scratch != NULL)
		twmpi_request_wait(call);
	*request = MPI_REQUEST_NULL;
	free_request(call);
	return MPI_SUCCESS;
}

/* The status of the request tells whether the cancel was in time: MPI_Test_cancelled. */
TWMPI_PUBLIC int MPIABI_Cancel(MPIABI_Request *request)
{
	struct twmpi_request *call = twmpi_object(TWMPI_Request, *request);
	int code = MPI_SUCCESS;

	if (call == NULL)
		code = fail_request(*request);
	else if (!call->is_message)
		code = twmpi_fail(MPI_ERR_REQUEST, "a collective cannot be canceled");
	else if (call->op != NULL) { /* else it has ended, or needs no operation */
		call->status.canceled = true;
		tow_op_cancel(call->op);
	}
	return twmpi_end(call != NULL ? call->comm : NULL, "MPI_Cancel", code);
}
