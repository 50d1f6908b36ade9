/*
 * error.c - codes, their texts, and error handlers. A code is an error class. The details are in
 * the text of the thread, which MPI_Error_string returns for the last code.
 */
#include "plugins/mpi/twmpi.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local char thread_text[TWMPI_ERROR_STRING];
static _Thread_local int thread_code;

static const char *const class_texts[] = {
#define TWMPI_ERROR(name, value, text) [value] = text,
#include "plugins/mpi/error.def"
#undef TWMPI_ERROR
};

/* X(status, code): the class nearest to a status. Other statuses are MPI_ERR_INTERN. */
#define STATUS_MAP(X)                                                                              \
	X(TOW_EINVAL, MPI_ERR_ARG)                                                                 \
	X(TOW_ENOMEM, MPI_ERR_NO_MEM)                                                              \
	X(TOW_EEXHAUSTED, MPI_ERR_NO_MEM)                                                          \
	X(TOW_ENOTSUP, MPI_ERR_UNSUPPORTED_OPERATION)                                              \
	X(TOW_EFOREIGN, MPI_ERR_BASE)                                                              \
	X(TOW_EFREED, MPI_ERR_BASE)                                                                \
	X(TOW_EBUSY, MPI_ERR_OTHER)                                                                \
	X(TOW_EPEER, MPI_ERR_OTHER)                                                                \
	X(TOW_EDEADLINE, MPI_ERR_OTHER)                                                            \
	X(TOW_ECANCELED, MPI_ERR_OTHER)                                                            \
	X(TOW_ECLOSED, MPI_ERR_OTHER)                                                              \
	X(TOW_EABORTED, MPI_ERR_OTHER)                                                             \
	X(TOW_ETRUNCATED, MPI_ERR_TRUNCATE)                                                        \
	X(TOW_EMISMATCH, MPI_ERR_NOT_SAME)                                                         \
	X(TOW_EFAULT, MPI_ERR_BUFFER)

int twmpi_fail(int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(thread_text, sizeof(thread_text), format, arguments);
	va_end(arguments);
	thread_code = code;
	return code;
}

int twmpi_failed(int status)
{
	int code = MPI_ERR_INTERN;

#define STATUS_CASE(name, nearest)                                                                 \
	if (status == name)                                                                        \
		code = nearest;
	STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
	return twmpi_fail(code, "%s: %s", tow_status_name(status), tow_error_message());
}

char *twmpi_text_copy(void)
{
	return strdup(thread_text);
}

void twmpi_fail_again(int code, const char *text)
{
	twmpi_fail(code, "%s", text != NULL ? text : class_texts[code]);
}

void twmpi_abort(int exit_code, const char *text)
{
	const struct twmpi_job *job = twmpi_job();
	struct timespec moment = { .tv_nsec = 50000000 };

	fflush(stdout);
	fprintf(stderr, "%s\n", text);
	fflush(stderr);
	if (job != NULL && tow_group_abort(job->world->group, text) == TOW_OK)
		nanosleep(&moment, NULL); /* the library's thread informs the others */
	_exit(exit_code);
}

/* Returns the program's handler, held. NULL: *handle_out is MPI_ERRORS_RETURN or _ARE_FATAL. */
static struct twmpi_errhandler *find_handler(struct twmpi_comm *comm, MPIABI_Errhandler *handle_out)
{
	struct twmpi_errhandler *own = NULL;

	*handle_out = MPI_ERRORS_ARE_FATAL;
	if (comm == NULL)
		return NULL;
	pthread_mutex_lock(&comm->lock);
	*handle_out = comm->handler;
	own = comm->own_handler;
	if (own != NULL)
		atomic_fetch_add(&own->holders, 1);
	pthread_mutex_unlock(&comm->lock);
	return own;
}

static void drop_handler(struct twmpi_errhandler *own)
{
	if (own != NULL && atomic_fetch_sub(&own->holders, 1) == 1)
		free(own);
}

/* Calls the handler with a code and its text. */
static int raise_code(struct twmpi_comm *comm, int code)
{
	MPIABI_Errhandler handle;
	struct twmpi_errhandler *own = find_handler(comm, &handle);
	MPIABI_Comm its_comm = comm != NULL ? comm->handle : (MPIABI_Comm)MPI_COMM_NULL;
	char text[TWMPI_ERROR_STRING];

	if (own != NULL) {
		own->function(&its_comm, &code);
		drop_handler(own);
	} else if (handle == MPI_ERRORS_ARE_FATAL) {
		memcpy(text, thread_text, sizeof(text));
		twmpi_abort(1, text);
	}
	return code;
}

int twmpi_end(struct twmpi_comm *comm, const char *name, int code)
{
	const struct twmpi_job *job = twmpi_job_over() ? NULL : twmpi_job();
	char text[TWMPI_ERROR_STRING];

	if (code == MPI_SUCCESS)
		return code;
	if (comm == NULL && job != NULL)
		comm = job->world;
	memcpy(text, thread_text, sizeof(text));
	if (comm != NULL)
		twmpi_fail(code, "%s, rank %u of %u of %s: %.900s", name, comm->rank, comm->size,
			   comm->shown, text);
	else
		twmpi_fail(code, "%s: %.900s", name, text);
	return raise_code(comm, code);
}

void twmpi_handler_take(struct twmpi_comm *comm, const struct twmpi_comm *from)
{
	struct twmpi_comm *other = (struct twmpi_comm *)from; /* only its lock changes */

	comm->handler = MPI_ERRORS_ARE_FATAL;
	if (from != NULL)
		comm->own_handler = find_handler(other, &comm->handler);
}

void twmpi_handler_drop(struct twmpi_comm *comm)
{
	drop_handler(comm->own_handler);
}

TWMPI_PUBLIC int MPIABI_Comm_create_errhandler(MPIABI_Comm_errhandler_function *comm_errhandler_fn,
					       MPIABI_Errhandler *errhandler)
{
	struct twmpi_errhandler *own = calloc(1, sizeof(*own));
	int code = MPI_SUCCESS;

	if (comm_errhandler_fn == NULL || errhandler == NULL)
		code = twmpi_fail(MPI_ERR_ARG, "the function or its handle is NULL");
	else if (own == NULL || !twmpi_handle_new(TWMPI_Errhandler, own, errhandler))
		code = twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for an error handler");
	if (code != MPI_SUCCESS) {
		free(own);
		return twmpi_end(NULL, "MPI_Comm_create_errhandler", code);
	}
	own->holders = 1;
	own->function = comm_errhandler_fn;
	return MPI_SUCCESS;
}

static int set_handler(struct twmpi_comm *comm, MPIABI_Errhandler errhandler)
{
	struct twmpi_errhandler *own = twmpi_object(TWMPI_Errhandler, errhandler), *old;

	if (own == NULL && errhandler != MPI_ERRORS_ARE_FATAL && errhandler != MPI_ERRORS_RETURN)
		return twmpi_fail(MPI_ERR_ARG, "%#lx is not an error handler",
				  (unsigned long)errhandler);
	if (own != NULL)
		atomic_fetch_add(&own->holders, 1);
	pthread_mutex_lock(&comm->lock);
	old = comm->own_handler;
	comm->own_handler = own;
	comm->handler = errhandler;
	pthread_mutex_unlock(&comm->lock);
	drop_handler(old);
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Comm_set_errhandler(MPIABI_Comm comm, MPIABI_Errhandler errhandler)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS)
		code = set_handler(c, errhandler);
	return twmpi_end(c, "MPI_Comm_set_errhandler", code);
}

/* The returned handle has to be freed, too. */
TWMPI_PUBLIC int MPIABI_Comm_get_errhandler(MPIABI_Comm comm, MPIABI_Errhandler *errhandler)
{
	struct twmpi_errhandler *own;
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS) {
		own = find_handler(c, errhandler);
		if (own != NULL && !twmpi_handle_new(TWMPI_Errhandler, own, errhandler)) {
			drop_handler(own);
			code = twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a handle");
		}
	}
	return twmpi_end(c, "MPI_Comm_get_errhandler", code);
}

TWMPI_PUBLIC int MPIABI_Errhandler_free(MPIABI_Errhandler *errhandler)
{
	struct twmpi_errhandler *own = twmpi_object(TWMPI_Errhandler, *errhandler);

	if (own == NULL && *errhandler != MPI_ERRORS_ARE_FATAL && *errhandler != MPI_ERRORS_RETURN)
		return twmpi_end(NULL, "MPI_Errhandler_free",
				 twmpi_fail(MPI_ERR_ARG, "%#lx is not an error handler",
					    (unsigned long)*errhandler));
	if (own != NULL) {
		twmpi_handle_end(TWMPI_Errhandler, *errhandler);
		drop_handler(own);
	}
	*errhandler = MPI_ERRHANDLER_NULL;
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Comm_call_errhandler(MPIABI_Comm comm, int errorcode)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code != MPI_SUCCESS)
		return twmpi_end(c, "MPI_Comm_call_errhandler", code);
	if (errorcode != thread_code)
		twmpi_fail(errorcode, "the program has called the handler with code %d", errorcode);
	raise_code(c, errorcode);
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Error_class(int errorcode, int *errorclass)
{
	if (errorcode < 0 || errorcode > MPI_ERR_LASTCODE)
		return twmpi_end(NULL, "MPI_Error_class",
				 twmpi_fail(MPI_ERR_ARG, "%d is not an error code", errorcode));
	*errorclass = errorcode;
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Error_string(int errorcode, char *string, int *resultlen)
{
	const char *text;

	if (errorcode < 0 || errorcode > MPI_ERR_LASTCODE)
		return twmpi_end(NULL, "MPI_Error_string",
				 twmpi_fail(MPI_ERR_ARG, "%d is not an error code", errorcode));
	text = errorcode == thread_code && errorcode != MPI_SUCCESS ? thread_text
								    : class_texts[errorcode];
	*resultlen = snprintf(string, TWMPI_ERROR_STRING, "%s", text);
	return MPI_SUCCESS;
}
