/*
 * job.c - the process as a rank. It opens a runtime and the group of all ranks by the launcher's
 * variables (docs/bootstrap.md), and closes them.
 */
#include "plugins/mpi/twmpi.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum phase { BEFORE, RUNNING, OVER };

static struct twmpi_job the_job;
static _Atomic(enum phase) the_phase = BEFORE;
static pthread_mutex_t phase_lock = PTHREAD_MUTEX_INITIALIZER;

const struct twmpi_job *twmpi_job(void)
{
	return atomic_load_explicit(&the_phase, memory_order_acquire) == RUNNING ? &the_job : NULL;
}

bool twmpi_job_over(void)
{
	return atomic_load_explicit(&the_phase, memory_order_acquire) == OVER;
}

static int find_jaxlib(struct dl_phdr_info *info, size_t size, void *user)
{
	(void)size;
	(void)user;
	return info->dlpi_name != NULL && strstr(info->dlpi_name, "/jaxlib/") != NULL;
}

/*
 * A process without a launcher is a job of its own, as in MPI. A process of JAX is an exception: it
 * gets its rank in arguments that only JAX sees, so it would silently reduce over itself alone.
 */
static int check_launcher(struct tow_runtime *runtime)
{
	struct tow_job_info info = TOW_JOB_INFO_INIT;
	int status = tow_job_info(runtime, &info);

	if (status < 0)
		return twmpi_failed(status);
	if (strcmp(info.launcher, "single") != 0 || dl_iterate_phdr(find_jaxlib, NULL) == 0)
		return MPI_SUCCESS;
	return twmpi_fail(MPI_ERR_OTHER,
			  "no launcher says which rank this process of JAX is; start it by towrun, "
			  "torchrun, mpirun or srun, or set TOW_RANK, TOW_WORLD_SIZE and "
			  "TOW_STORE=HOST:PORT (a port of rank 0's host) for each process");
}

/*
 * Attaches the runtime, because the preload does not see one that is opened behind RTLD_DEEPBIND.
 */
static void attach_preload(struct tow_runtime *runtime)
{
	int (*attach)(struct tow_runtime * runtime);

	*(void **)&attach = dlsym(RTLD_DEFAULT, "towline_malloc_attach");
	if (attach != NULL)
		attach(runtime);
}

static void detach_preload(struct tow_runtime *runtime)
{
	void (*detach)(struct tow_runtime * runtime);

	*(void **)&detach = dlsym(RTLD_DEFAULT, "towline_malloc_detach");
	if (detach != NULL)
		detach(runtime);
}

static int make_comm_self(struct twmpi_comm *world, struct twmpi_comm **self_out)
{
	struct tow_group *group;
	int status =
		tow_group_create(world->group, &world->rank, 1, "mpi-self", TWMPI_MAKE_NS, &group);

	if (status < 0)
		return twmpi_failed(status);
	return twmpi_comm_new(group, twmpi_members_new(&world->rank, 1), 2, NULL, self_out);
}

static int make_comm_world(struct tow_group *group, struct twmpi_comm **world_out)
{
	uint32_t size = tow_group_size(group);
	uint32_t *ranks = calloc(size, sizeof(*ranks));
	struct twmpi_members *members;

	for (uint32_t r = 0; ranks != NULL && r < size; r++)
		ranks[r] = r;
	members = ranks != NULL ? twmpi_members_new(ranks, size) : NULL;
	free(ranks);
	if (members != NULL)
		members->self = tow_group_rank(group);
	return twmpi_comm_new(group, members, 1, NULL, world_out);
}

static int name_comm(struct twmpi_comm *comm, MPIABI_Comm handle, const char *name)
{
	comm->handle = handle;
	snprintf(comm->name, sizeof(comm->name), "%s", name);
	twmpi_comm_show(comm, name);
	if (twmpi_handle_set(TWMPI_Comm, handle, comm))
		return MPI_SUCCESS;
	return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a communicator");
}

/* After a failure, opened objects stay open, because the process ends. */
static int open_job(struct twmpi_job *job)
{
	struct tow_group *group;
	int code, status = tow_runtime_share(NULL, &job->runtime);

	if (status < 0)
		return twmpi_failed(status);
	code = check_launcher(job->runtime);
	if (code != MPI_SUCCESS)
		return code;
	attach_preload(job->runtime);
	status = tow_group_open(job->runtime, NULL, &group);
	if (status < 0)
		return twmpi_failed(status);
	code = make_comm_world(group, &job->world);
	if (code == MPI_SUCCESS)
		code = make_comm_self(job->world, &job->self);
	if (code == MPI_SUCCESS)
		code = name_comm(job->world, MPI_COMM_WORLD, "MPI_COMM_WORLD");
	if (code == MPI_SUCCESS)
		code = name_comm(job->self, MPI_COMM_SELF, "MPI_COMM_SELF");
	if (code == MPI_SUCCESS)
		job->self->members->self = 0;
	return code;
}

/*
 * XLA ignores the result of MPI_Init. A process that continued would fail later without a message.
 */
static int init_job(const char *name, int *provided)
{
	char text[TWMPI_ERROR_STRING];
	int code = MPI_SUCCESS, length;

	pthread_mutex_lock(&phase_lock);
	if (atomic_load(&the_phase) != BEFORE)
		code = twmpi_fail(MPI_ERR_OTHER, "MPI was initialised before");
	else
		code = open_job(&the_job);
	if (code == MPI_SUCCESS)
		atomic_store(&the_phase, RUNNING);
	pthread_mutex_unlock(&phase_lock);
	if (provided != NULL)
		*provided = MPI_THREAD_MULTIPLE;
	if (code == MPI_SUCCESS)
		return code;
	if (twmpi_job() == NULL) {
		MPIABI_Error_string(code, text, &length);
		fprintf(stderr, "%s: %s\n", name, text);
		fflush(stderr);
		_exit(1);
	}
	return twmpi_end(NULL, name, code);
}

TWMPI_PUBLIC int MPIABI_Init(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return init_job("MPI_Init", NULL);
}

TWMPI_PUBLIC int MPIABI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	(void)argc;
	(void)argv;
	(void)required; /* any number of threads may call at any time */
	return init_job("MPI_Init_thread", provided);
}

static void free_comms(void)
{
	struct twmpi_comm *comm;
	uint32_t at = TWMPI_DYNAMIC;

	while ((comm = twmpi_handle_next(TWMPI_Comm, &at)) != NULL)
		twmpi_comm_end(comm);
	twmpi_comm_end(the_job.self);
	twmpi_comm_end(the_job.world);
}

/* Waits for the other ranks up to a limit, and not for lost ones. */
TWMPI_PUBLIC int MPIABI_Finalize(void)
{
	bool running;

	pthread_mutex_lock(&phase_lock);
	running = atomic_load(&the_phase) == RUNNING;
	if (running) {
		/* Attributes end first: their delete functions may still use MPI. */
		twmpi_attributes_end(the_job.self);
		tow_group_barrier(the_job.world->group, TWMPI_END_NS);
		atomic_store(&the_phase, OVER);
		free_comms();
		detach_preload(the_job.runtime);
		tow_runtime_close(the_job.runtime);
	}
	pthread_mutex_unlock(&phase_lock);
	if (running)
		return MPI_SUCCESS;
	return twmpi_end(NULL, "MPI_Finalize",
			 twmpi_fail(MPI_ERR_OTHER, "MPI is not initialised, or finalised already"));
}

TWMPI_PUBLIC int MPIABI_Initialized(int *flag)
{
	*flag = atomic_load(&the_phase) != BEFORE;
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Finalized(int *flag)
{
	*flag = atomic_load(&the_phase) == OVER;
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Query_thread(int *provided)
{
	*provided = MPI_THREAD_MULTIPLE;
	return MPI_SUCCESS;
}

/* Each thread may do what the main thread may. XLA asks in threads of a pool, and needs a yes. */
TWMPI_PUBLIC int MPIABI_Is_thread_main(int *flag)
{
	*flag = 1;
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Abort(MPIABI_Comm comm, int errorcode)
{
	struct twmpi_comm *c = twmpi_job() != NULL ? twmpi_object(TWMPI_Comm, comm) : NULL;
	char text[128];

	if (c != NULL)
		snprintf(text, sizeof(text),
			 "MPI_Abort: rank %u of %u of %s ends the job with code %d", c->rank,
			 c->size, c->shown, errorcode);
	else
		snprintf(text, sizeof(text), "MPI_Abort: this process ends with code %d",
			 errorcode);
	/* A launcher sees the low eight bits, and ends the other ranks if they are not 0. */
	twmpi_abort((errorcode & 0xff) != 0 ? errorcode : 1, text);
}

static double seconds_of(int (*ask)(clockid_t, struct timespec *))
{
	struct timespec t = { 0 };

	ask(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

TWMPI_PUBLIC double MPIABI_Wtime(void)
{
	return seconds_of(clock_gettime);
}

TWMPI_PUBLIC double MPIABI_Wtick(void)
{
	return seconds_of(clock_getres);
}

TWMPI_PUBLIC int MPIABI_Get_processor_name(char *name, int *resultlen)
{
	if (gethostname(name, TWMPI_PROCESSOR_NAME) != 0)
		strcpy(name, "localhost");
	name[TWMPI_PROCESSOR_NAME - 1] = '\0';
	*resultlen = (int)strlen(name);
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Get_version(int *version, int *subversion)
{
	*version = 3;
	*subversion = 1;
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Get_library_version(char *version, int *resultlen)
{
	*resultlen =
		snprintf(version, TWMPI_LIBRARY_STRING, "Towline %s over MPItrampoline's ABI %d.%d",
			 tow_version(), TWMPI_ABI_MAJOR, TWMPI_ABI_MINOR);
	return MPI_SUCCESS;
}

/* Allocates memory of the pool, which moves between ranks of one host without a copy. */
TWMPI_PUBLIC int MPIABI_Alloc_mem(MPIABI_Aint size, MPIABI_Info info, void *baseptr)
{
	const struct twmpi_job *job = twmpi_job();
	int code = MPI_SUCCESS, status = TOW_OK;

	if (job == NULL)
		code = twmpi_fail(MPI_ERR_OTHER, "MPI is not initialised, or finalised already");
	else if (size < 0)
		code = twmpi_fail(MPI_ERR_ARG, "the size is %ld", (long)size);
	else
		code = twmpi_info_check(info);
	if (code == MPI_SUCCESS)
		status = tow_alloc(job->runtime, size > 0 ? (size_t)size : 1, 64, (void **)baseptr);
	if (status < 0)
		code = twmpi_failed(status);
	return twmpi_end(NULL, "MPI_Alloc_mem", code);
}

TWMPI_PUBLIC int MPIABI_Free_mem(void *base)
{
	const struct twmpi_job *job = twmpi_job();
	int code = MPI_SUCCESS, status = TOW_OK;

	if (job == NULL)
		code = twmpi_fail(MPI_ERR_OTHER, "MPI is not initialised, or finalised already");
	else
		status = tow_free(job->runtime, base);
	if (status < 0)
		code = twmpi_failed(status);
	return twmpi_end(NULL, "MPI_Free_mem", code);
}

#define TWMPI_EXTENSION(name)                                                                      \
	TWMPI_PUBLIC int MPIXABI_##name(void)                                                      \
	{                                                                                          \
		return 0; /* these calls take host memory alone */                                 \
	}
#define TWMPI_WRITTEN(result, name, parameters)
#define TWMPI_ABSENT(name)
#define TWMPI_ABSENT_OF(name, parameters, comm)
#include "plugins/mpi/function.def"

/* A handle is a number that fits into Fortran's integers. */
#define FORTRAN(kind, name)                                                                        \
	TWMPI_PUBLIC MPIABI_##kind MPIABI_##name##_f2c(MPIABI_Fint handle)                         \
	{                                                                                          \
		return (MPIABI_##kind)handle;                                                      \
	}                                                                                          \
                                                                                                   \
	TWMPI_PUBLIC MPIABI_Fint MPIABI_##name##_c2f(MPIABI_##kind handle)                         \
	{                                                                                          \
		return (MPIABI_Fint)handle;                                                        \
	}

FORTRAN(Comm, Comm)
FORTRAN(Datatype, Type)
FORTRAN(Group, Group)
FORTRAN(Request, Request)
FORTRAN(File, File)
FORTRAN(Win, Win)
FORTRAN(Op, Op)
FORTRAN(Info, Info)
FORTRAN(Errhandler, Errhandler)
FORTRAN(Message, Message)
