/*
 * absent.c - the functions of MPI that this library does not have. Each names itself, and calls the
 * error handler. Callers pass more arguments than the functions of TWMPI_ABSENT declare; none is
 * read.
 */
#include "plugins/mpi/twmpi.h"

static int end_absent(struct twmpi_comm *comm, const char *name)
{
	return twmpi_end(
		comm, name,
		twmpi_fail(MPI_ERR_UNSUPPORTED_OPERATION,
			   "Towline does not have this function (docs/mpi.md lists those that "
			   "it has)"));
}

#define TWMPI_WRITTEN(result, name, parameters) /* elsewhere */
#define TWMPI_EXTENSION(name)                   /* elsewhere, too */
#define TWMPI_ABSENT(name)                                                                         \
	TWMPI_PUBLIC int MPIABI_##name(void)                                                       \
	{                                                                                          \
		return end_absent(NULL, "MPI_" #name);                                             \
	}
#define TWMPI_ABSENT_OF(name, parameters, handle)                                                  \
	TWMPI_PUBLIC int MPIABI_##name parameters                                                  \
	{                                                                                          \
		return end_absent(twmpi_object(TWMPI_Comm, handle), "MPI_" #name);                 \
	}
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "plugins/mpi/function.def"
