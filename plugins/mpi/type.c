/*
 * type.c - datatypes: those of type.def, and contiguous sequences of one type. Types with gaps or
 * another order are absent (docs/mpi.md), because they would have to be packed.
 */
#include "plugins/mpi/twmpi.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static struct twmpi_type predefined[] = {
#define TWMPI_TYPE(number, text, c, row, data)                                                     \
	[number] = { .handle = MPI_##text,                                                         \
		     .base = TWMPI_BASE_##row,                                                     \
		     .elements = 1,                                                                \
		     .bytes = data,                                                                \
		     .extent = sizeof(c),                                                          \
		     .name = "MPI_" #text },
#include "plugins/mpi/type.def"
#undef TWMPI_TYPE
};

static const struct {
	enum twmpi_family family;
	enum tow_type type;
	size_t bytes;
} bases[] = {
#define TWMPI_BASE(name, c, family, type) { TWMPI_##family, type, sizeof(c) },
#include "plugins/mpi/base.def"
#undef TWMPI_BASE
};

/* Each type of C has the size of the base that stands for it. */
#define WIDTH(name) sizeof(((struct twmpi_widths *)0)->name)
struct twmpi_widths {
#define TWMPI_BASE(name, c, family, type) c name;
#include "plugins/mpi/base.def"
#undef TWMPI_BASE
};
#define TWMPI_TYPE(number, text, c, row, data)                                                     \
	_Static_assert(sizeof(c) == WIDTH(row) && (data) <= sizeof(c), #text);
#include "plugins/mpi/type.def"
#undef TWMPI_TYPE

enum twmpi_family twmpi_family(enum twmpi_base base)
{
	return bases[base].family;
}

enum tow_type twmpi_library_type(enum twmpi_base base)
{
	return bases[base].type;
}

int twmpi_type_find(MPIABI_Datatype handle, struct twmpi_type **type_out)
{
	uintptr_t number = handle ^ (uintptr_t)MPI_DATATYPE_NULL;

	*type_out = twmpi_object(TWMPI_Datatype, handle);
	if (*type_out == NULL && number > 0 && number < sizeof(predefined) / sizeof(*predefined))
		*type_out = &predefined[number];
	if (*type_out != NULL)
		return MPI_SUCCESS;
	if (handle == MPI_DATATYPE_NULL)
		return twmpi_fail(MPI_ERR_TYPE, "the datatype is MPI_DATATYPE_NULL");
	return twmpi_fail(MPI_ERR_TYPE, "%#lx is not a datatype, or was freed",
			  (unsigned long)handle);
}

int twmpi_span(int count, MPIABI_Datatype datatype, uint64_t *bytes_out)
{
	struct twmpi_type *type;
	int code = twmpi_type_find(datatype, &type);

	*bytes_out = 0;
	if (code == MPI_SUCCESS && count < 0)
		code = twmpi_fail(MPI_ERR_COUNT, "the count is %d", count);
	if (code == MPI_SUCCESS && __builtin_mul_overflow((uint64_t)count, type->extent, bytes_out))
		code = twmpi_fail(MPI_ERR_COUNT, "%d of %s are too many bytes", count, type->name);
	return code;
}

struct twmpi_type *twmpi_type_hold(struct twmpi_type *type)
{
	if (type->holders > 0)
		atomic_fetch_add(&type->holders, 1);
	return type;
}

void twmpi_type_drop(struct twmpi_type *type)
{
	if (type != NULL && type->holders > 0 && atomic_fetch_sub(&type->holders, 1) == 1)
		free(type);
}

static int make_type(int count, MPIABI_Datatype oldtype, MPIABI_Datatype *type_out)
{
	struct twmpi_type *old, *type;
	int code = twmpi_type_find(oldtype, &old);
	uint64_t ignored;

	if (code == MPI_SUCCESS)
		code = twmpi_span(count, oldtype, &ignored);
	if (code != MPI_SUCCESS)
		return code;
	type = calloc(1, sizeof(*type));
	if (type == NULL || !twmpi_handle_new(TWMPI_Datatype, type, type_out)) {
		free(type);
		return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a datatype");
	}
	type->holders = 1;
	type->handle = *type_out;
	type->base = old->base;
	type->elements = old->elements * (uint64_t)count;
	type->bytes = old->bytes * (uint64_t)count;
	type->extent = old->extent * (uint64_t)count;
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Type_contiguous(int count, MPIABI_Datatype oldtype,
					MPIABI_Datatype *newtype)
{
	return twmpi_end(NULL, "MPI_Type_contiguous", make_type(count, oldtype, newtype));
}

TWMPI_PUBLIC int MPIABI_Type_dup(MPIABI_Datatype oldtype, MPIABI_Datatype *newtype)
{
	return twmpi_end(NULL, "MPI_Type_dup", make_type(1, oldtype, newtype));
}

TWMPI_PUBLIC int MPIABI_Type_commit(MPIABI_Datatype *datatype)
{
	struct twmpi_type *type;

	return twmpi_end(NULL, "MPI_Type_commit", twmpi_type_find(*datatype, &type));
}

TWMPI_PUBLIC int MPIABI_Type_free(MPIABI_Datatype *datatype)
{
	struct twmpi_type *type;
	int code = twmpi_type_find(*datatype, &type);

	if (code == MPI_SUCCESS && type->holders == 0)
		code = twmpi_fail(MPI_ERR_TYPE, "%s cannot be freed", type->name);
	if (code == MPI_SUCCESS) {
		twmpi_handle_end(TWMPI_Datatype, *datatype);
		twmpi_type_drop(type);
		*datatype = MPI_DATATYPE_NULL;
	}
	return twmpi_end(NULL, "MPI_Type_free", code);
}

TWMPI_PUBLIC int MPIABI_Type_size(MPIABI_Datatype datatype, int *size)
{
	struct twmpi_type *type;
	int code = twmpi_type_find(datatype, &type);

	if (code == MPI_SUCCESS)
		*size = type->bytes <= INT_MAX ? (int)type->bytes : MPI_UNDEFINED;
	return twmpi_end(NULL, "MPI_Type_size", code);
}

TWMPI_PUBLIC int MPIABI_Type_size_x(MPIABI_Datatype datatype, MPIABI_Count *size)
{
	struct twmpi_type *type;
	int code = twmpi_type_find(datatype, &type);

	if (code == MPI_SUCCESS)
		*size = (MPIABI_Count)type->bytes;
	return twmpi_end(NULL, "MPI_Type_size_x", code);
}

/* Returns the extent for all four functions. The lower bound is always 0. */
static int give_extent(const char *name, MPIABI_Datatype datatype, bool true_one, int64_t *lb,
		       int64_t *extent)
{
	struct twmpi_type *type;
	int code = twmpi_type_find(datatype, &type);

	if (code == MPI_SUCCESS) {
		*lb = 0;
		/* The true extent excludes the gap behind the last value. */
		*extent = (int64_t)type->extent;
		if (true_one && type->elements == 1 && type->base == TWMPI_BASE_LONG_DOUBLE_PAIR)
			*extent = (int64_t)(offsetof(struct twmpi_long_double_int, place) +
					    sizeof(int));
		else if (true_one && type->elements == 1 &&
			 (type->base == TWMPI_BASE_LONG_PAIR ||
			  type->base == TWMPI_BASE_DOUBLE_PAIR))
			*extent = (int64_t)(offsetof(struct twmpi_double_int, place) + sizeof(int));
	}
	return twmpi_end(NULL, name, code);
}

TWMPI_PUBLIC int MPIABI_Type_get_extent(MPIABI_Datatype datatype, MPIABI_Aint *lb,
					MPIABI_Aint *extent)
{
	return give_extent("MPI_Type_get_extent", datatype, false, lb, extent);
}

TWMPI_PUBLIC int MPIABI_Type_get_extent_x(MPIABI_Datatype datatype, MPIABI_Count *lb,
					  MPIABI_Count *extent)
{
	return give_extent("MPI_Type_get_extent_x", datatype, false, lb, extent);
}

TWMPI_PUBLIC int MPIABI_Type_get_true_extent(MPIABI_Datatype datatype, MPIABI_Aint *true_lb,
					     MPIABI_Aint *true_extent)
{
	return give_extent("MPI_Type_get_true_extent", datatype, true, true_lb, true_extent);
}

TWMPI_PUBLIC int MPIABI_Type_get_true_extent_x(MPIABI_Datatype datatype, MPIABI_Count *true_lb,
					       MPIABI_Count *true_extent)
{
	return give_extent("MPI_Type_get_true_extent_x", datatype, true, true_lb, true_extent);
}

TWMPI_PUBLIC int MPIABI_Type_get_name(MPIABI_Datatype datatype, char *type_name, int *resultlen)
{
	struct twmpi_type *type;
	int code = twmpi_type_find(datatype, &type);

	if (code == MPI_SUCCESS)
		*resultlen = snprintf(type_name, TWMPI_OBJECT_NAME, "%s", type->name);
	return twmpi_end(NULL, "MPI_Type_get_name", code);
}

TWMPI_PUBLIC int MPIABI_Type_set_name(MPIABI_Datatype datatype, const char *type_name)
{
	struct twmpi_type *type;
	int code = twmpi_type_find(datatype, &type);

	if (code == MPI_SUCCESS && type_name == NULL)
		code = twmpi_fail(MPI_ERR_ARG, "the name is NULL");
	if (code == MPI_SUCCESS)
		snprintf(type->name, sizeof(type->name), "%s", type_name);
	return twmpi_end(NULL, "MPI_Type_set_name", code);
}

TWMPI_PUBLIC int MPIABI_Get_address(const void *location, MPIABI_Aint *address)
{
	*address = (MPIABI_Aint)location;
	return MPI_SUCCESS;
}

TWMPI_PUBLIC MPIABI_Aint MPIABI_Aint_add(MPIABI_Aint base, MPIABI_Aint disp)
{
	return (MPIABI_Aint)((uintptr_t)base + (uintptr_t)disp);
}

TWMPI_PUBLIC MPIABI_Aint MPIABI_Aint_diff(MPIABI_Aint addr1, MPIABI_Aint addr2)
{
	return (MPIABI_Aint)((uintptr_t)addr1 - (uintptr_t)addr2);
}

/*
 * Counts the values of the type in a message. of_base: counts the elements of the base instead,
 * because a value may have come in part.
 */
static int count_elements(const MPIABI_Status *status, MPIABI_Datatype datatype, bool of_base,
			  MPIABI_Count *count_out)
{
	struct twmpi_type *type;
	int code = twmpi_type_find(datatype, &type);
	uint64_t unit;

	if (code != MPI_SUCCESS)
		return code;
	unit = of_base ? bases[type->base].bytes : type->extent;
	*count_out = 0;
	if (unit > 0)
		*count_out = status->bytes % unit == 0 ? (MPIABI_Count)(status->bytes / unit)
						       : MPI_UNDEFINED;
	if (of_base && *count_out > 0 && bases[type->base].family == TWMPI_PAIR)
		*count_out *= 2;
	return MPI_SUCCESS;
}

static int as_int(MPIABI_Count count)
{
	return count <= INT_MAX ? (int)count : MPI_UNDEFINED;
}

TWMPI_PUBLIC int MPIABI_Get_count(const MPIABI_Status *status, MPIABI_Datatype datatype, int *count)
{
	MPIABI_Count wide = 0;
	int code = count_elements(status, datatype, false, &wide);

	*count = as_int(wide);
	return twmpi_end(NULL, "MPI_Get_count", code);
}

TWMPI_PUBLIC int MPIABI_Get_elements(const MPIABI_Status *status, MPIABI_Datatype datatype,
				     int *count)
{
	MPIABI_Count wide = 0;
	int code = count_elements(status, datatype, true, &wide);

	*count = as_int(wide);
	return twmpi_end(NULL, "MPI_Get_elements", code);
}

TWMPI_PUBLIC int MPIABI_Get_elements_x(const MPIABI_Status *status, MPIABI_Datatype datatype,
				       MPIABI_Count *count)
{
	return twmpi_end(NULL, "MPI_Get_elements_x", count_elements(status, datatype, true, count));
}

static int set_elements(MPIABI_Status *status, MPIABI_Datatype datatype, MPIABI_Count count)
{
	struct twmpi_type *type;
	int code = twmpi_type_find(datatype, &type);

	if (code == MPI_SUCCESS)
		status->bytes = (uint64_t)count * bases[type->base].bytes /
				(bases[type->base].family == TWMPI_PAIR ? 2 : 1);
	return code;
}

TWMPI_PUBLIC int MPIABI_Status_set_elements(MPIABI_Status *status, MPIABI_Datatype datatype,
					    int count)
{
	return twmpi_end(NULL, "MPI_Status_set_elements", set_elements(status, datatype, count));
}

TWMPI_PUBLIC int MPIABI_Status_set_elements_x(MPIABI_Status *status, MPIABI_Datatype datatype,
					      MPIABI_Count count)
{
	return twmpi_end(NULL, "MPI_Status_set_elements_x", set_elements(status, datatype, count));
}

TWMPI_PUBLIC int MPIABI_Status_set_cancelled(MPIABI_Status *status, int flag)
{
	status->canceled = flag != 0;
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Test_cancelled(const MPIABI_Status *status, int *flag)
{
	*flag = status->canceled != 0;
	return MPI_SUCCESS;
}
