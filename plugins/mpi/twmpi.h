/*
 * twmpi.h - MPI over Towline: the objects behind the handles, and the functions that the files
 * share.
 *
 *	handle.h     handles and objects          error.c     codes, texts, error handlers
 *	job.c        Init, Finalize, Abort        members.c   MPI's groups: lists of ranks
 *	comm.c       communicators                make.c      communicators made of others
 *	type.c       datatypes                    op.c        operators; fold.c computes them
 *	request.c    started calls                waits.c     waits for several requests
 *	collect.c    moving collectives           reduce.c    computing collectives; scans
 *	message.c    point to point               persist.c   persistent requests
 *	matched.c    matched probes
 *	buffer.c     buffered sends               attribute.c values of the program
 *	info.c       hints of the program         constant.c  the ABI's constants
 *	absent.c     missing functions, by name
 *
 * A communicator is a group of the library, with its own tags and collectives. A function that
 * returns int returns one of MPI's codes. After a failure it leaves a text for twmpi_end.
 */
#ifndef TOWLINE_PLUGINS_MPI_TWMPI_H
#define TOWLINE_PLUGINS_MPI_TWMPI_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <towline/towline.h>

#include "plugins/mpi/type.h"

#define TWMPI_NO_RANK UINT32_MAX
#define TWMPI_MAKE_NS 600000000000u /* limit for the members of a new communicator to meet */
#define TWMPI_END_NS  30000000000u  /* limit of the barrier in MPI_Finalize and MPI_Comm_free */

/* A group of MPI: ranks of MPI_COMM_WORLD, in order. It never changes. */
struct twmpi_members {
	_Atomic uint32_t holders;
	uint32_t size;
	uint32_t self; /* rank of this process in it; TWMPI_NO_RANK: none */
	uint32_t ranks[];
};

struct twmpi_errhandler {
	_Atomic uint32_t holders;
	MPIABI_Comm_errhandler_function *function;
};

struct twmpi_comm {
	_Atomic uint32_t holders; /* its handle, requests, and calls that make others of it */
	MPIABI_Comm handle;
	struct tow_group *group;
	struct twmpi_members *members;
	uint32_t rank, size;
	uint64_t label; /* the same at all members; their other communicators have others */
	pthread_mutex_t lock;
	uint32_t made;                        /* communicators made of it; under the lock */
	bool making;                          /* a thread is making one; under the lock */
	MPIABI_Errhandler handler;            /* under the lock */
	struct twmpi_errhandler *own_handler; /* of a program's handler; under the lock */
	struct twmpi_attribute *attributes;   /* attribute.c */
	struct twmpi_info *info;              /* hints; NULL: none; under the lock */
	char name[TWMPI_OBJECT_NAME];         /* set by MPI_Comm_set_name; under the lock */
	char shown[TOW_GROUP_LABEL_MAX];      /* label of the group, now or last; under the lock */
};

/*
 * The computation that is left when the library has gathered the parts: out = part 0 op part 1 ...
 */
struct twmpi_fold {
	const uint8_t *parts;
	uint32_t count; /* number of parts; 0: none, and out stays as it is */
	uint64_t elements, part_bytes;
	void *out;
	struct twmpi_type *type;
	struct twmpi_op *op;
};

/* How a message is sent. */
enum twmpi_mode {
	TWMPI_STANDARD,
	TWMPI_SYNCHRONOUS, /* ends when the other rank has received the message */
	TWMPI_BUFFERED,    /* ends at once: the message is copied */
};

/* A message to or from a rank, as the caller describes it. */
struct twmpi_message {
	void *data; /* only read by a send */
	uint64_t bytes;
	int rank, tag;
	bool receives;
	enum twmpi_mode mode;
};

/* A started call. A blocking call keeps it on the stack; other calls have a handle for it. */
struct twmpi_request {
	const char *name; /* of the call, "MPI_Iallreduce" */
	MPIABI_Request handle;
	struct twmpi_comm *comm; /* held */
	struct tow_op *op;       /* NULL: it has ended, or there was nothing to do */
	struct tow_op *then;     /* an operation that has to end after op; NULL: none */
	int code;                /* its result */
	char *text;              /* of a failure that a wait or a test reports; NULL: none */
	int (*finish)(struct twmpi_request *request); /* called when op has ended; NULL: none */
	struct twmpi_fold fold;
	void *move_to; /* where finish moves the result; unused without finish */
	const void *move_from;
	uint64_t move_bytes;
	void *scratch;        /* freed at the end */
	bool scratch_outside; /* malloc's memory, and not the pool's */
	bool is_message;
	struct twmpi_message message;
	bool persistent, active; /* MPI_Start makes a persistent one active */
	MPIABI_Status status;
};

/* The state of the process between MPI_Init and MPI_Finalize. */
struct twmpi_job {
	struct tow_runtime *runtime;
	struct twmpi_comm *world, *self;
};

/* Returns the job. NULL: it is before MPI_Init or after MPI_Finalize. */
const struct twmpi_job *twmpi_job(void);
bool twmpi_job_over(void);

/* error.c */
int twmpi_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the code nearest to a status of the library, whose message becomes the text. */
int twmpi_failed(int status);
/* Returns a copy of the text for a later twmpi_fail_again, which the caller frees; NULL: none. */
char *twmpi_text_copy(void);
/* Makes the code and its text those of the thread's last failure. NULL: the text of the class. */
void twmpi_fail_again(int code, const char *text);
/*
 * Ends a function, and returns the code. A failure goes to comm's handler; NULL: MPI_COMM_WORLD's.
 */
int twmpi_end(struct twmpi_comm *comm, const char *name, int code);
void twmpi_handler_take(struct twmpi_comm *comm, const struct twmpi_comm *from);
void twmpi_handler_drop(struct twmpi_comm *comm);
/* Prints the text to stderr, reports it to the other ranks, and ends the process. */
__attribute__((noreturn)) void twmpi_abort(int exit_code, const char *text);

/* members.c */
struct twmpi_members *twmpi_members_new(const uint32_t *ranks, uint32_t size);
struct twmpi_members *twmpi_members_hold(struct twmpi_members *members);
void twmpi_members_drop(struct twmpi_members *members);
uint32_t twmpi_members_place(const struct twmpi_members *members, uint32_t world_rank);
/* Returns MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL. */
int twmpi_members_compare(const struct twmpi_members *a, const struct twmpi_members *b);
int twmpi_members_find(MPIABI_Group group, struct twmpi_members **members_out);

/* comm.c */
int twmpi_comm_find(MPIABI_Comm handle, struct twmpi_comm **comm_out);
/* Sets the name for messages and the library's diagnostics: the label of its group (group.h). */
void twmpi_comm_show(struct twmpi_comm *comm, const char *as);
/* Consumes the group and the members, even if it fails. */
int twmpi_comm_new(struct tow_group *group, struct twmpi_members *members, uint64_t label,
		   const struct twmpi_comm *like, struct twmpi_comm **comm_out);
struct twmpi_comm *twmpi_comm_hold(struct twmpi_comm *comm);
void twmpi_comm_drop(struct twmpi_comm *comm);
/* Ends the handle of the communicator. The group ends with the last holder. */
void twmpi_comm_end(struct twmpi_comm *comm);

/*
 * attribute.c: attributes of the program. end deletes all, and returns the code of the last
 * failure; copy gives a duplicate its own.
 */
int twmpi_attributes_end(struct twmpi_comm *comm);
int twmpi_attributes_copy(struct twmpi_comm *from, struct twmpi_comm *to);
/* False: there is no such key. */
bool twmpi_attribute_get(struct twmpi_comm *comm, int number, void **value_out, int *flag_out);

/* info.c: the caller owns the lists. Returns a copy; from == NULL: an empty list. */
int twmpi_info_copy(const struct twmpi_info *from, struct twmpi_info **info_out);
/* Returns a copy of the list of a handle, which may be MPI_INFO_NULL. */
int twmpi_info_take(MPIABI_Info handle, struct twmpi_info **info_out);
int twmpi_info_check(MPIABI_Info handle);
/* Returns a handle of a copy. */
int twmpi_info_show(const struct twmpi_info *from, MPIABI_Info *handle_out);
void twmpi_info_free(struct twmpi_info *info);

/* request.c */
int twmpi_call_begin(struct twmpi_request *call, const char *name, MPIABI_Comm comm);
/* The same for a call with a handle. *call_out is NULL if there is no memory. */
int twmpi_call_new(struct twmpi_request **call_out, const char *name, MPIABI_Comm comm);
/* Waits for the call if code is MPI_SUCCESS, ends it, and returns its code. */
int twmpi_call_end(struct twmpi_request *call, int code);
/* Ends the function that has started the call; *request becomes its handle. */
int twmpi_call_started(struct twmpi_request *call, int code, MPIABI_Request *request);
/* Gets memory, of the pool if that has room for it, which lives until the request ends. */
int twmpi_scratch(struct twmpi_request *call, uint64_t bytes);
/* Sets the options of a collective, with the name of the call. */
void twmpi_options(const struct twmpi_request *call, struct tow_coll_options *options_out);
/* message.c: starts request->message. */
int twmpi_message_start(struct twmpi_request *request);
/* Checks the arguments, and describes the message. message.receives is set already. */
int twmpi_message_set(struct twmpi_request *call, const void *data, int count,
		      MPIABI_Datatype datatype, int rank, int tag);
/* Checks that a send or a receive may name this rank and tag. */
int twmpi_partner_check(const struct twmpi_comm *comm, int rank, int tag, bool receives);
/* Starts the receive of a message as a view, without a copy. */
int twmpi_view_start(struct twmpi_comm *comm, int rank, int tag, struct tow_op **op_out);
/* Starts it if a message waits that it gets. *op_out: NULL: none does. */
int twmpi_view_try(struct twmpi_comm *comm, int rank, int tag, struct tow_op **op_out);
/* Sets the status from the result of a message. */
void twmpi_status_set(const struct twmpi_comm *comm, const struct tow_result *result,
		      MPIABI_Status *status);
/* buffer.c */
int twmpi_buffer_send(struct twmpi_comm *comm, const struct twmpi_message *message);
/* Sets the status from the ended operation of the receive, and returns the code. */
int twmpi_message_received(struct twmpi_request *request, int status);
/*
 * *out is NULL for MPI_REQUEST_NULL and for an inactive persistent request. The next three
 * functions take NULL as a request that has ended well.
 */
int twmpi_request_find(MPIABI_Request handle, struct twmpi_request **out);
/* Waits for the call, and returns its code. A failure that is found here leaves its text. */
int twmpi_request_wait(struct twmpi_request *call);
/* True: the call has ended. Drives the runtime once. */
bool twmpi_request_test(struct twmpi_request *call);
/* Frees an ended request, and sets its handle to MPI_REQUEST_NULL. A persistent request stays. */
void twmpi_request_end(struct twmpi_request *call, MPIABI_Request *request, MPIABI_Status *status);
int twmpi_finish_fold(struct twmpi_request *request);
int twmpi_finish_move(struct twmpi_request *request);

/*
 * Starts a collective of the library for `call` under the lock, which keeps the order. Returns
 * MPI's code.
 *	return TWMPI_START(call, tow_coll_broadcast_start, data, bytes, TOW_U8, root);
 */
#define TWMPI_START(call, start, ...)                                                              \
	__extension__({                                                                            \
		struct tow_coll_options options_;                                                  \
		int status_;                                                                       \
                                                                                                   \
		twmpi_options(call, &options_);                                                    \
		pthread_mutex_lock(&(call)->comm->lock);                                           \
		status_ = start((call)->comm->group, __VA_ARGS__, &options_, &(call)->op);         \
		pthread_mutex_unlock(&(call)->comm->lock);                                         \
		status_ < 0 ? twmpi_failed(status_) : MPI_SUCCESS;                                 \
	})

/* Defines MPI_name and MPI_Iname. `start` is an expression that starts the request `call`. */
#define TWMPI_LIST(...) __VA_ARGS__
#define TWMPI_BOTH(name, iname, parameters, start)                                                 \
	TWMPI_PUBLIC int MPIABI_##name(TWMPI_LIST parameters)                                      \
	{                                                                                          \
		struct twmpi_request own, *call = &own;                                            \
		int code = twmpi_call_begin(call, "MPI_" #name, comm);                             \
                                                                                                   \
		if (code == MPI_SUCCESS)                                                           \
			code = start;                                                              \
		return twmpi_call_end(call, code);                                                 \
	}                                                                                          \
                                                                                                   \
	TWMPI_PUBLIC int MPIABI_##iname(TWMPI_LIST parameters, MPIABI_Request *request)            \
	{                                                                                          \
		struct twmpi_request *call;                                                        \
		int code = twmpi_call_new(&call, "MPI_" #iname, comm);                             \
                                                                                                   \
		if (code == MPI_SUCCESS)                                                           \
			code = start;                                                              \
		return twmpi_call_started(call, code, request);                                    \
	}

#endif
