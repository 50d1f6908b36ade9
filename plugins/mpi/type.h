/*
 * type.h - datatypes and operators: those of the library, and those that are computed here.
 */
#ifndef TOWLINE_PLUGINS_MPI_TYPE_H
#define TOWLINE_PLUGINS_MPI_TYPE_H

#include <stdatomic.h>

#include <towline/coll.h>

#include "plugins/mpi/handle.h"

#define TWMPI_NO_TYPE ((enum tow_type)TOW_TYPE_COUNT)

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

/* A datatype: elements of one base, one behind the other. */
struct twmpi_type {
	_Atomic uint32_t holders; /* 0: predefined */
	MPIABI_Datatype handle;
	enum twmpi_base base;
	uint64_t elements; /* number of elements of the base */
	uint64_t bytes;    /* of data, without gaps */
	uint64_t extent;   /* bytes from one value of the type to the next */
	char name[TWMPI_OBJECT_NAME];
};

typedef void (*twmpi_fold_function)(const void *in, void *in_out, uint64_t count);

struct twmpi_op {
	_Atomic uint32_t holders; /* 0: predefined */
	MPIABI_Op handle;
	MPIABI_User_function *function; /* the program's; NULL: predefined */
	bool commutes;
};

int twmpi_type_find(MPIABI_Datatype handle, struct twmpi_type **type_out);
enum twmpi_family twmpi_family(enum twmpi_base base);
enum tow_type twmpi_library_type(enum twmpi_base base);
/* Checks the arguments, and returns the bytes of `count` values. */
int twmpi_span(int count, MPIABI_Datatype datatype, uint64_t *bytes_out);
int twmpi_op_find(MPIABI_Op handle, struct twmpi_op **op_out);
/* Returns the library's operator that does the same for this base. False: it has none. */
bool twmpi_library_op(const struct twmpi_op *op, enum twmpi_base base, enum tow_reduce *out);
/* Fails if the operator must not be used with the type. */
int twmpi_op_check(const struct twmpi_op *op, const struct twmpi_type *type);
/* in_out = in op in_out, for `count` values of a type that has passed twmpi_op_check. */
void twmpi_op_apply(struct twmpi_op *op, struct twmpi_type *type, const void *in, void *in_out,
		    uint64_t count);
twmpi_fold_function twmpi_fold_find(MPIABI_Op op, enum twmpi_base base);
struct twmpi_type *twmpi_type_hold(struct twmpi_type *type);
void twmpi_type_drop(struct twmpi_type *type);
struct twmpi_op *twmpi_op_hold(struct twmpi_op *op);
void twmpi_op_drop(struct twmpi_op *op);

#endif
