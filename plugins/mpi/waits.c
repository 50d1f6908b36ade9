/*
 * waits.c - waits and tests of several requests. The status of a request has its failure, and the
 * call returns MPI_ERR_IN_STATUS. Without statuses, the call returns the code of the first failure.
 */
#include "plugins/mpi/twmpi.h"

#include <stdlib.h>

/* The first failure among several requests. */
struct failures {
	struct twmpi_comm *comm; /* held */
	int code;
	char *text; /* NULL: that of the code's class */
};

static MPIABI_Status *status_at(MPIABI_Status *statuses, int at)
{
	return statuses != MPI_STATUSES_IGNORE ? &statuses[at] : MPI_STATUS_IGNORE;
}

/* Ends a request whose operation has ended, and records its failure. */
static void end_listed(struct twmpi_request *call, MPIABI_Request *request, MPIABI_Status *status,
		       struct failures *failures)
{
	if (call != NULL && call->code != MPI_SUCCESS && failures->code == MPI_SUCCESS) {
		failures->comm = twmpi_comm_hold(call->comm);
		failures->code = call->code;
		failures->text = call->text;
		call->text = NULL;
	}
	twmpi_request_end(call, request, status);
}

static int end_failures(struct failures *failures, const char *name, MPIABI_Status *statuses)
{
	int code = failures->code;

	if (code != MPI_SUCCESS)
		twmpi_fail_again(code, failures->text);
	free(failures->text);
	if (code != MPI_SUCCESS && statuses != MPI_STATUSES_IGNORE)
		code = MPI_ERR_IN_STATUS;
	code = twmpi_end(failures->comm, name, code);
	twmpi_comm_drop(failures->comm);
	return code;
}

/* Checks all requests before anything is done with one of them. */
static int check_requests(int count, const MPIABI_Request *requests, const char *name)
{
	struct twmpi_request *call;
	int code = MPI_SUCCESS;

	if (count < 0 || (count > 0 && requests == NULL))
		code = twmpi_fail(MPI_ERR_ARG, "the number of requests is %d", count);
	for (int i = 0; code == MPI_SUCCESS && i < count; i++)
		code = twmpi_request_find(requests[i], &call);
	return twmpi_end(NULL, name, code);
}

static struct twmpi_request *request_at(const MPIABI_Request *requests, int at)
{
	struct twmpi_request *call;

	twmpi_request_find(requests[at], &call);
	return call;
}

TWMPI_PUBLIC int MPIABI_Waitall(int count, MPIABI_Request *array_of_requests,
				MPIABI_Status *array_of_statuses)
{
	struct failures failures = { 0 };
	struct twmpi_request *call;
	int code = check_requests(count, array_of_requests, "MPI_Waitall");

	if (code != MPI_SUCCESS)
		return code;
	for (int i = 0; i < count; i++) {
		call = request_at(array_of_requests, i);
		twmpi_request_wait(call);
		end_listed(call, &array_of_requests[i], status_at(array_of_statuses, i), &failures);
	}
	return end_failures(&failures, "MPI_Waitall", array_of_statuses);
}

TWMPI_PUBLIC int MPIABI_Testall(int count, MPIABI_Request *array_of_requests, int *flag,
				MPIABI_Status *array_of_statuses)
{
	struct failures failures = { 0 };
	int code = check_requests(count, array_of_requests, "MPI_Testall");

	*flag = code == MPI_SUCCESS;
	for (int i = 0; *flag && i < count; i++)
		*flag = twmpi_request_test(request_at(array_of_requests, i));
	if (!*flag)
		return code;
	for (int i = 0; i < count; i++)
		end_listed(request_at(array_of_requests, i), &array_of_requests[i],
			   status_at(array_of_statuses, i), &failures);
	return end_failures(&failures, "MPI_Testall", array_of_statuses);
}

/* Returns the index of the first ended request. *live_out: number of active requests seen. */
static int find_ended(int count, const MPIABI_Request *requests, int *live_out)
{
	struct twmpi_request *call;

	*live_out = 0;
	for (int i = 0; i < count; i++) {
		call = request_at(requests, i);
		if (call == NULL)
			continue;
		++*live_out;
		if (twmpi_request_test(call))
			return i;
	}
	return MPI_UNDEFINED;
}

/* Waits until one of the requests has ended. */
static int await_one(int count, const MPIABI_Request *requests)
{
	struct tow_op **ops = calloc((size_t)count, sizeof(*ops));
	struct twmpi_request *call;
	size_t at = SIZE_MAX;
	int status;

	if (ops == NULL)
		return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for %d requests", count);
	for (int i = 0; i < count; i++) {
		call = request_at(requests, i);
		ops[i] = call != NULL ? call->op : NULL;
	}
	status = tow_wait_any(ops, (size_t)count, TOW_FOREVER, &at);
	free(ops);
	return at == SIZE_MAX && status < 0 ? twmpi_failed(status) : MPI_SUCCESS;
}

/*
 * Ends one request. wait: waits for it, else tests. *index: MPI_UNDEFINED if no request is active,
 * or if a test finds none that has ended.
 */
static int end_any(const char *name, bool wait, int count, MPIABI_Request *requests, int *index,
		   int *flag, MPIABI_Status *status)
{
	struct failures failures = { 0 };
	int code = check_requests(count, requests, name), live = 0;

	*index = MPI_UNDEFINED;
	*flag = 0;
	if (code != MPI_SUCCESS)
		return code;
	*index = find_ended(count, requests, &live);
	while (wait && *index == MPI_UNDEFINED && live > 0 && code == MPI_SUCCESS) {
		code = await_one(count, requests);
		if (code == MPI_SUCCESS)
			*index = find_ended(count, requests, &live);
	}
	if (code != MPI_SUCCESS)
		return twmpi_end(NULL, name, code);
	*flag = *index != MPI_UNDEFINED || live == 0;
	if (*index != MPI_UNDEFINED)
		end_listed(request_at(requests, *index), &requests[*index], status, &failures);
	else if (*flag)
		twmpi_request_end(NULL, &(MPIABI_Request){ MPI_REQUEST_NULL }, status);
	return end_failures(&failures, name, MPI_STATUSES_IGNORE);
}

TWMPI_PUBLIC int MPIABI_Waitany(int count, MPIABI_Request *array_of_requests, int *index,
				MPIABI_Status *status)
{
	int flag;

	return end_any("MPI_Waitany", true, count, array_of_requests, index, &flag, status);
}

TWMPI_PUBLIC int MPIABI_Testany(int count, MPIABI_Request *array_of_requests, int *index, int *flag,
				MPIABI_Status *status)
{
	return end_any("MPI_Testany", false, count, array_of_requests, index, flag, status);
}

/* Waits or tests until some requests have ended, and ends all of these. */
static int end_some(const char *name, bool wait, int count, MPIABI_Request *requests, int *outcount,
		    int *indices, MPIABI_Status *statuses)
{
	struct failures failures = { 0 };
	struct twmpi_request *call;
	int code = check_requests(count, requests, name), live = 0;

	*outcount = MPI_UNDEFINED;
	if (code != MPI_SUCCESS)
		return code;
	while (find_ended(count, requests, &live) == MPI_UNDEFINED && live > 0 && wait) {
		code = await_one(count, requests);
		if (code != MPI_SUCCESS)
			return twmpi_end(NULL, name, code);
	}
	if (live > 0)
		*outcount = 0;
	for (int i = 0; i < count; i++) {
		call = request_at(requests, i);
		if (call == NULL || !twmpi_request_test(call))
			continue;
		end_listed(call, &requests[i], status_at(statuses, *outcount), &failures);
		indices[(*outcount)++] = i;
	}
	return end_failures(&failures, name, statuses);
}

TWMPI_PUBLIC int MPIABI_Waitsome(int incount, MPIABI_Request *array_of_requests, int *outcount,
				 int *array_of_indices, MPIABI_Status *array_of_statuses)
{
	return end_some("MPI_Waitsome", true, incount, array_of_requests, outcount,
			array_of_indices, array_of_statuses);
}

TWMPI_PUBLIC int MPIABI_Testsome(int incount, MPIABI_Request *array_of_requests, int *outcount,
				 int *array_of_indices, MPIABI_Status *array_of_statuses)
{
	return end_some("MPI_Testsome", false, incount, array_of_requests, outcount,
			array_of_indices, array_of_statuses);
}
