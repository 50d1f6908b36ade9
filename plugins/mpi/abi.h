/*
 * abi.h - MPItrampoline's ABI 2.10 (github.com/eschnett/MPItrampoline), written down by us: its
 * types, the constants as enumerators MPI_..., and the functions of this library, MPIABI_....
 *
 * A program does not include this file: it is compiled with MPItrampoline's own mpi.h.
 */
#ifndef TOWLINE_PLUGINS_MPI_ABI_H
#define TOWLINE_PLUGINS_MPI_ABI_H

#include <stddef.h>
#include <stdint.h>

#define TWMPI_ABI_MAJOR      2
#define TWMPI_ABI_MINOR      10
#define TWMPI_ABI_PATCH      0
#define TWMPI_ERROR_STRING   1024 /* bytes with the NUL; the caller's buffer */
#define TWMPI_OBJECT_NAME    128
#define TWMPI_INFO_KEY       256
#define TWMPI_INFO_VALUE     1024
#define TWMPI_PROCESSOR_NAME 256
#define TWMPI_LIBRARY_STRING 8192

typedef intptr_t MPIABI_Aint;
typedef int64_t MPIABI_Count;
typedef int64_t MPIABI_Offset;
typedef int MPIABI_Fint;

/* A handle: its kind from bit 24 on, and a number below (handle.h). */
typedef uintptr_t MPIABI_Comm;
typedef uintptr_t MPIABI_Datatype;
typedef uintptr_t MPIABI_Errhandler;
typedef uintptr_t MPIABI_File;
typedef uintptr_t MPIABI_Group;
typedef uintptr_t MPIABI_Info;
typedef uintptr_t MPIABI_Message;
typedef uintptr_t MPIABI_Op;
typedef uintptr_t MPIABI_Request;
typedef uintptr_t MPIABI_Win;

/* In the ABI, three words for the program follow 24 bytes for the library. */
typedef struct {
	uint64_t bytes; /* of the message */
	uint32_t canceled;
	uint32_t unused[3];
	int MPI_SOURCE;
	int MPI_TAG;
	int MPI_ERROR;
} MPIABI_Status;

_Static_assert(sizeof(MPIABI_Status) == 40 && offsetof(MPIABI_Status, MPI_SOURCE) == 24,
	       "as the ABI has it");

typedef void MPIABI_User_function(void *in, void *in_out, int *count, MPIABI_Datatype *datatype);
typedef void MPIABI_Comm_errhandler_function(MPIABI_Comm *comm, int *code, ...);
typedef int MPIABI_Comm_copy_attr_function(uintptr_t object, int keyval, void *extra, void *in,
					   void *out, int *flag);
typedef int MPIABI_Comm_delete_attr_function(uintptr_t object, int keyval, void *value,
					     void *extra);
typedef MPIABI_Comm_copy_attr_function MPIABI_Copy_function;
typedef MPIABI_Comm_copy_attr_function MPIABI_Type_copy_attr_function;
typedef MPIABI_Comm_copy_attr_function MPIABI_Win_copy_attr_function;
typedef MPIABI_Comm_delete_attr_function MPIABI_Delete_function;
typedef MPIABI_Comm_delete_attr_function MPIABI_Type_delete_attr_function;
typedef MPIABI_Comm_delete_attr_function MPIABI_Win_delete_attr_function;
typedef int MPIABI_Datarep_conversion_function(void *user, MPIABI_Datatype datatype, int count,
					       void *file, MPIABI_Offset position, void *extra);

/* The kinds of handles. Each handle contains its kind. */
enum twmpi_kind {
	TWMPI_Comm = 1,
	TWMPI_Datatype,
	TWMPI_Errhandler,
	TWMPI_File,
	TWMPI_Group,
	TWMPI_Info,
	TWMPI_Message,
	TWMPI_Op,
	TWMPI_Request,
	TWMPI_Win,
	TWMPI_KINDS
};

#define TWMPI_HANDLE_OF(kind, number) (((int)(kind) << 24) | (int)(number))

enum {
#define TWMPI_INTEGER(name, value)        MPI_##name = value,
#define TWMPI_HANDLE(kind, name, number)  MPI_##name = TWMPI_HANDLE_OF(TWMPI_##kind, number),
#define TWMPI_OFFSET(name, value)         MPI_##name = value,
#define TWMPI_POINTER(type, name, value)  /* an enumerator cannot be a pointer */
#define TWMPI_FUNCTION(type, name, value) /* nor a function */
#define TWMPI_TYPE(number, name, c, base, bytes)                                                   \
	MPI_##name = TWMPI_HANDLE_OF(TWMPI_Datatype, number),
#define TWMPI_ERROR(name, value, text) MPI_##name = value,
#include "plugins/mpi/constant.def"
#include "plugins/mpi/error.def"
#include "plugins/mpi/type.def"
#undef TWMPI_INTEGER
#undef TWMPI_HANDLE
#undef TWMPI_OFFSET
#undef TWMPI_POINTER
#undef TWMPI_FUNCTION
#undef TWMPI_TYPE
#undef TWMPI_ERROR
};

#define MPI_IN_PLACE        ((void *)(intptr_t)-1)
#define MPI_STATUS_IGNORE   ((MPIABI_Status *)0)
#define MPI_STATUSES_IGNORE ((MPIABI_Status *)0)

#define TWMPI_WRITTEN(result, name, parameters)   result MPIABI_##name parameters;
#define TWMPI_EXTENSION(name)                     int MPIXABI_##name(void);
#define TWMPI_ABSENT_OF(name, parameters, handle) int MPIABI_##name parameters;
#define TWMPI_ABSENT(name)                        int MPIABI_##name(void);
#include "plugins/mpi/function.def"
#undef TWMPI_WRITTEN
#undef TWMPI_EXTENSION
#undef TWMPI_ABSENT_OF
#undef TWMPI_ABSENT

#endif
