/*
 * twmpi.h - MPI over Towline: what stands behind the handles, and what the files share.
 *
 *	handle.h     handles and objects          error.c     codes, texts, error handlers
 *	job.c        Init, Finalize, Abort        members.c   MPI's groups: lists of ranks
 *	comm.c       communicators                make.c      communicators made of others
 *	type.c       datatypes                    op.c        operators; fold.c computes them
 *	request.c    what was started             waits.c     waits for several
 *	collect.c    moving collectives           reduce.c    those that compute; scans
 *	message.c    point to point               persist.c   what is started again and again
 *	matched.c    matched probes
 *	buffer.c     buffered sends               attribute.c values of the program's
 *	info.c       hints of the program's       constant.c  the ABI's constants
 *	absent.c     what is not here, by name
 *
 * A communicator is a group of the library, with tags and collectives of its own. Functions that
 * return an int return one of MPI's codes, and leave a text for twmpi_end when it is a failure.
 */
#ifndef TOWLINE_PLUGINS_MPI_TWMPI_H
#define TOWLINE_PLUGINS_MPI_TWMPI_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <towline/towline.h>

#include "plugins/mpi/type.h"

#define TWMPI_NO_RANK UINT32_MAX
#define TWMPI_MAKE_NS 600000000000u /* how long the members of a new communicator wait for each */
#define TWMPI_END_NS  30000000000u  /* other; and how long MPI_Finalize and MPI_Comm_free do */

/* MPI's group: ranks of MPI_COMM_WORLD, in order. It never changes. */
struct twmpi_members {
	_Atomic uint32_t holders;
	uint32_t size;
	uint32_t self; /* this process' place; TWMPI_NO_RANK: it has none */
	uint32_t ranks[];
};

struct twmpi_errhandler {
	_Atomic uint32_t holders;
	MPIABI_Comm_errhandler_function *function;
};

struct twmpi_comm {
	_Atomic uint32_t holders; /* its handle, requests, calls that make others of it */
	MPIABI_Comm handle;
	struct tow_group *group;
	struct twmpi_members *members;
	uint32_t rank, size;
	uint64_t label; /* the same at all members, and of no other communicator of theirs */
	pthread_mutex_t lock;
	uint32_t made;                        /* communicators made of it; under the lock */
	bool making;                          /* a thread makes one; likewise */
	MPIABI_Errhandler handler;            /* likewise */
	struct twmpi_errhandler *own_handler; /* of a handler of the program's; likewise */
	struct twmpi_attribute *attributes;   /* attribute.c */
	struct twmpi_info *info;              /* hints; NULL: none; under the lock */
	char name[TWMPI_OBJECT_NAME];         /* MPI_Comm_set_name's; under the lock */
	char shown[TOW_GROUP_LABEL_MAX];      /* likewise: the label of the group, or what it was */
};

/* What is left to compute where the library has gathered the parts: out = part 0 op part 1 ... */
struct twmpi_fold {
	const uint8_t *parts;
	uint32_t count; /* of parts; 0: none, out stays as it is */
	uint64_t elements, part_bytes;
	void *out;
	struct twmpi_type *type;
	struct twmpi_op *op;
};

/* How a message is sent. */
enum twmpi_mode {
	TWMPI_STANDARD,
	TWMPI_SYNCHRONOUS, /* it ends when the other rank has received it */
	TWMPI_BUFFERED,    /* it ends at once: the message is copied */
};

/* A message to a rank or from one, as the caller has put it. */
struct twmpi_message {
	void *data; /* of a send it is only read */
	uint64_t bytes;
	int rank, tag;
	bool receives;
	enum twmpi_mode mode;
};

/* One call that was started: a blocking one lives in its function, others behind a handle. */
struct twmpi_request {
	const char *name; /* of the call, "MPI_Iallreduce" */
	MPIABI_Request handle;
	struct twmpi_comm *comm; /* held */
	struct tow_op *op;       /* NULL: it has ended, or there was nothing to do */
	struct tow_op *then;     /* what is to end after it; NULL: nothing */
	int code;                /* how it has ended */
	int (*finish)(struct twmpi_request *request); /* what is left when op has ended; or NULL */
	struct twmpi_fold fold;
	void *move_to; /* the result lies elsewhere: finish moves it */
	const void *move_from;
	uint64_t move_bytes;
	void *scratch; /* memory of the pool, until the end */
	bool is_message;
	struct twmpi_message message;
	bool persistent, active; /* MPI_Start makes a persistent one active */
	MPIABI_Status status;
};

/* What the process has between MPI_Init and MPI_Finalize. */
struct twmpi_job {
	struct tow_runtime *runtime;
	struct twmpi_comm *world, *self;
};

/* The job, or NULL before MPI_Init and after MPI_Finalize, with a text. */
const struct twmpi_job *twmpi_job(void);
bool twmpi_job_over(void);

/* error.c */
int twmpi_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The code nearest to a status of the library, whose message becomes the text. */
int twmpi_failed(int status);
/* Ends a function: a failure goes to comm's handler, or MPI_COMM_WORLD's (NULL). Gives the code. */
int twmpi_end(struct twmpi_comm *comm, const char *name, int code);
void twmpi_handler_take(struct twmpi_comm *comm, const struct twmpi_comm *from);
void twmpi_handler_drop(struct twmpi_comm *comm);
/* Says it on stderr, tells the other ranks, and ends the process. */
__attribute__((noreturn)) void twmpi_abort(int exit_code, const char *text);

/* members.c */
struct twmpi_members *twmpi_members_new(const uint32_t *ranks, uint32_t size);
struct twmpi_members *twmpi_members_hold(struct twmpi_members *members);
void twmpi_members_drop(struct twmpi_members *members);
uint32_t twmpi_members_place(const struct twmpi_members *members, uint32_t world_rank);
/* MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL. */
int twmpi_members_compare(const struct twmpi_members *a, const struct twmpi_members *b);
int twmpi_members_find(MPIABI_Group group, struct twmpi_members **members_out);

/* comm.c */
int twmpi_comm_find(MPIABI_Comm handle, struct twmpi_comm **comm_out);
/* What people see of it, here and in the library's diagnostics: a label of its group (group.h). */
void twmpi_comm_show(struct twmpi_comm *comm, const char *as);
/* Takes the group and the members, whatever comes of it. */
int twmpi_comm_new(struct tow_group *group, struct twmpi_members *members, uint64_t label,
		   const struct twmpi_comm *like, struct twmpi_comm **comm_out);
struct twmpi_comm *twmpi_comm_hold(struct twmpi_comm *comm);
void twmpi_comm_drop(struct twmpi_comm *comm);
/* Its handle ends; the group does when nobody holds it. */
void twmpi_comm_end(struct twmpi_comm *comm);

/* attribute.c: of the program's own. All at the end; those that are copied to a duplicate. */
void twmpi_attributes_end(struct twmpi_comm *comm);
int twmpi_attributes_copy(struct twmpi_comm *from, struct twmpi_comm *to);
/* false: there is no such key. */
bool twmpi_attribute_get(struct twmpi_comm *comm, int number, void **value_out, int *flag_out);

/* info.c. The lists of hints are the caller's. Copies, NULL being an empty one. */
int twmpi_info_copy(const struct twmpi_info *from, struct twmpi_info **info_out);
/* What a handle has, which may be MPI_INFO_NULL. */
int twmpi_info_take(MPIABI_Info handle, struct twmpi_info **info_out);
int twmpi_info_check(MPIABI_Info handle);
/* A handle of a copy. */
int twmpi_info_show(const struct twmpi_info *from, MPIABI_Info *handle_out);
void twmpi_info_free(struct twmpi_info *info);

/* request.c */
int twmpi_call_begin(struct twmpi_request *call, const char *name, MPIABI_Comm comm);
/* The same with a handle; *call_out is NULL after a failure. */
int twmpi_call_new(struct twmpi_request **call_out, const char *name, MPIABI_Comm comm);
/* Waits for what was started (if code says it was), and ends the call. */
int twmpi_call_end(struct twmpi_request *call, int code);
/* Ends the function that has started it; *request is its handle. */
int twmpi_call_started(struct twmpi_request *call, int code, MPIABI_Request *request);
/* Memory for parts, until the request ends. */
int twmpi_scratch(struct twmpi_request *call, uint64_t bytes);
/* Sets the options of a collective, whose name is the call's. */
void twmpi_options(const struct twmpi_request *call, struct tow_coll_options *options_out);
/* message.c: starts request->message. */
int twmpi_message_start(struct twmpi_request *request);
/* Describes it: checks the arguments, of which message.receives is set already. */
int twmpi_message_set(struct twmpi_request *call, const void *data, int count,
		      MPIABI_Datatype datatype, int rank, int tag);
/* Whether a rank and a tag are such as a send or a receive may name. */
int twmpi_partner_check(const struct twmpi_comm *comm, int rank, int tag, bool receives);
/* Starts to receive a message where it lies. */
int twmpi_view_start(struct twmpi_comm *comm, int rank, int tag, struct tow_op **op_out);
/* What a result says of a message. */
void twmpi_status_set(const struct twmpi_comm *comm, const struct tow_result *result,
		      MPIABI_Status *status);
/* buffer.c */
int twmpi_buffer_send(struct twmpi_comm *comm, const struct twmpi_message *message);
/* What the receive has got, when its operation has ended; gives its code. */
int twmpi_message_received(struct twmpi_request *request, int status);
/*
 * NULL for MPI_REQUEST_NULL, and for a persistent one that is not active: these have ended well,
 * for the next three, too.
 */
int twmpi_request_find(MPIABI_Request handle, struct twmpi_request **out);
/* Waits for it, and gives its code, which has left its text if this call has found it so. */
int twmpi_request_wait(struct twmpi_request *call);
/* Whether it has ended; drives the runtime once. */
bool twmpi_request_test(struct twmpi_request *call);
/* Gives back what has ended, and sets its handle to MPI_REQUEST_NULL; a persistent one stays. */
void twmpi_request_end(struct twmpi_request *call, MPIABI_Request *request, MPIABI_Status *status);
int twmpi_finish_fold(struct twmpi_request *request);
int twmpi_finish_move(struct twmpi_request *request);

/*
 * Starts a collective of the library for `call`, in order, and gives MPI's code:
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

/* Defines MPI_name and MPI_Iname by what starts them, in which `call` is the request. */
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
