/*
 * constant.c - the constants that MPItrampoline reads when it loads the library.
 */
#include "plugins/mpi/handle.h"

#define CONSTANT(type, name) extern TWMPI_PUBLIC type const name

/* Copies an attribute unchanged to a duplicate of a communicator. */
static int copy_attribute(uintptr_t object, int keyval, void *extra, void *in, void *out, int *flag)
{
	(void)object;
	(void)keyval;
	(void)extra;
	*(void **)out = in;
	*flag = 1;
	return MPI_SUCCESS;
}

CONSTANT(int, mpiwrapper_version_major);
CONSTANT(int, mpiwrapper_version_minor);
CONSTANT(int, mpiwrapper_version_patch);
CONSTANT(int, mpiabi_version_major);
CONSTANT(int, mpiabi_version_minor);
CONSTANT(int, mpiabi_version_patch);
int const mpiwrapper_version_major = TWMPI_ABI_MAJOR;
int const mpiwrapper_version_minor = TWMPI_ABI_MINOR;
int const mpiwrapper_version_patch = TWMPI_ABI_PATCH;
int const mpiabi_version_major = TWMPI_ABI_MAJOR;
int const mpiabi_version_minor = TWMPI_ABI_MINOR;
int const mpiabi_version_patch = TWMPI_ABI_PATCH;

#define TWMPI_INTEGER(name, value)                                                                 \
	CONSTANT(int, MPIABI_##name);                                                              \
	int const MPIABI_##name = value;
#define TWMPI_ERROR(name, value, text) TWMPI_INTEGER(name, value)
#define TWMPI_HANDLE(kind, name, number)                                                           \
	CONSTANT(MPIABI_##kind, MPIABI_##name);                                                    \
	MPIABI_##kind const MPIABI_##name = MPI_##name;
#define TWMPI_TYPE(number, name, c, base, bytes) TWMPI_HANDLE(Datatype, name, number)
#define TWMPI_OFFSET(name, value)                                                                  \
	CONSTANT(MPIABI_Offset, MPIABI_##name);                                                    \
	MPIABI_Offset const MPIABI_##name = value;
#define TWMPI_POINTER(type, name, value)                                                           \
	CONSTANT(type, MPIABI_##name);                                                             \
	type const MPIABI_##name = (type)(intptr_t)(value);
#define TWMPI_FUNCTION(type, name, value)                                                          \
	CONSTANT(type *, MPIABI_##name);                                                           \
	type *const MPIABI_##name = value;
#include "plugins/mpi/constant.def"
#include "plugins/mpi/error.def"
#include "plugins/mpi/type.def"

/* Fortran's constants are in MPItrampoline's own library; C has none to export. */
TWMPI_PUBLIC void mpiwrapper_export_fortran_constants_(void);

TWMPI_PUBLIC void mpiwrapper_export_fortran_constants_(void)
{
}
