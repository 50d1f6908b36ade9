/*
 * twmpi.h - MPI over Towline: what stands behind the handles, and what the files share.
 *
 *	handle.h     handles and objects          error.c     codes, texts, error handlers
 *	job.c        Init, Finalize, Abort        members.c   MPI's groups: lists of ranks
 *	comm.c       communicators                make.c      communicators made of others
 *	type.c       datatypes                    op.c        operators; fold.c computes them
 *	request.c    what was started             waits.c     waits for several
 *	collect.c    moving collectives           reduce.c    those that compute; scans
 *	absent.c     what is not here, by name    constant.c  the ABI's constants
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

#include "plugins/mpi/handle.h"

#define TWMPI_NO_TYPE ((enum tow_type)TOW_TYPE_COUNT)
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
	char name[TWMPI_OBJECT_NAME];         /* likewise */
	char shown[16];                       /* in diagnostics, after the name of the call */
};

/* Rows of base.def. */
enum twmpi_base {
#define TWMPI_BASE(name, c, family, type) TWMPI_BASE_##name,
#include "plugins/mpi/base.def"
#undef TWMPI_BASE
	TWMPI_BASES
};

enum twmpi_family {
	TWMPI_INTEGER,
	TWMPI_REAL,
	TWMPI_COMPLEX,
	TWMPI_LOGICAL,
	TWMPI_BYTES,
	TWMPI_OPAQUE,
	TWMPI_PAIR,
};

struct twmpi_short_int {
	short value;
	int place;
};
struct twmpi_int_int {
	int value, place;
};
struct twmpi_long_int {
	long value;
	int place;
};
struct twmpi_float_int {
	float value;
	int place;
};
struct twmpi_double_int {
	double value;
	int place;
};
struct twmpi_long_double_int {
	long double value;
	int place;
};
struct twmpi_two_floats {
	float value, place;
};
struct twmpi_two_doubles {
	double value, place;
};
struct twmpi_wide {
	uint64_t words[2];
};
struct twmpi_two_wide {
	uint64_t words[4];
};

/* A datatype: so many elements of one base, one behind the other. */
struct twmpi_type {
	_Atomic uint32_t holders; /* of one that was made */
	MPIABI_Datatype handle;
	enum twmpi_base base;
	uint64_t elements; /* of the base */
	uint64_t bytes;    /* of data, without gaps */
	uint64_t extent;   /* from one to the next */
	char name[TWMPI_OBJECT_NAME];
};

typedef void (*twmpi_fold_function)(const void *in, void *in_out, uint64_t count);

struct twmpi_op {
	_Atomic uint32_t holders; /* of one that was made */
	MPIABI_Op handle;
	MPIABI_User_function *function; /* the program's; NULL: predefined */
	bool commutes;
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

/* One call that was started: a blocking one lives in its function, others behind a handle. */
struct twmpi_request {
	const char *name; /* of the call, "MPI_Iallreduce" */
	MPIABI_Request handle;
	struct twmpi_comm *comm; /* held */
	struct tow_op *op;       /* NULL: it has ended, or there was nothing to do */
	int code;                /* how it has ended */
	int (*finish)(struct twmpi_request *request); /* what is left when op has ended; or NULL */
	struct twmpi_fold fold;
	void *move_to; /* the result lies elsewhere: finish moves it */
	const void *move_from;
	uint64_t move_bytes;
	void *scratch; /* memory of the pool, until the end */
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
/* Takes the group and the members, whatever comes of it. */
int twmpi_comm_new(struct tow_group *group, struct twmpi_members *members, uint64_t label,
		   const struct twmpi_comm *like, struct twmpi_comm **comm_out);
struct twmpi_comm *twmpi_comm_hold(struct twmpi_comm *comm);
void twmpi_comm_drop(struct twmpi_comm *comm);
/* Its handle ends; the group does when nobody holds it. */
void twmpi_comm_end(struct twmpi_comm *comm);

/* type.c, op.c, fold.c */
int twmpi_type_find(MPIABI_Datatype handle, struct twmpi_type **type_out);
enum twmpi_family twmpi_family(enum twmpi_base base);
enum tow_type twmpi_library_type(enum twmpi_base base);
/* The bytes of `count` of them, which are checked. */
int twmpi_span(int count, MPIABI_Datatype datatype, uint64_t *bytes_out);
int twmpi_op_find(MPIABI_Op handle, struct twmpi_op **op_out);
/* The operator of the library that is the same for this base; false: it has none. */
bool twmpi_library_op(const struct twmpi_op *op, enum twmpi_base base, enum tow_reduce *out);
/* Whether the operator may be used with the type at all. */
int twmpi_op_check(const struct twmpi_op *op, const struct twmpi_type *type);
/* in_out = in op in_out, of `count` of a type that twmpi_op_check has let pass. */
void twmpi_op_apply(struct twmpi_op *op, struct twmpi_type *type, const void *in, void *in_out,
		    uint64_t count);
twmpi_fold_function twmpi_fold_find(MPIABI_Op op, enum twmpi_base base);
struct twmpi_type *twmpi_type_hold(struct twmpi_type *type);
void twmpi_type_drop(struct twmpi_type *type);
struct twmpi_op *twmpi_op_hold(struct twmpi_op *op);
void twmpi_op_drop(struct twmpi_op *op);

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
/* Sets the options of a collective, whose name tells the call and the communicator. */
void twmpi_options(const struct twmpi_request *call, struct tow_coll_options *options_out,
		   char name_out[32]);
/* NULL for MPI_REQUEST_NULL, which has ended well: so have the next three. */
int twmpi_request_find(MPIABI_Request handle, struct twmpi_request **out);
/* Waits for it, and gives its code, which has left its text if this call has found it so. */
int twmpi_request_wait(struct twmpi_request *call);
/* Whether it has ended; drives the runtime once. */
bool twmpi_request_test(struct twmpi_request *call);
/* Gives back what has ended, and sets its handle to MPI_REQUEST_NULL. */
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
		char name_[32];                                                                    \
		int status_;                                                                       \
                                                                                                   \
		twmpi_options(call, &options_, name_);                                             \
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
