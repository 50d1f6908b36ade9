/*
 * op.c - operators: those of MPI, most of which the library's collectives have, and the program's.
 */
#include "plugins/mpi/twmpi.h"

#include <stdlib.h>

#define OF(family) (1u << TWMPI_##family)

/* MPI's operators: the families that they accept, and the library's operator, if it has one. */
static const struct {
	uint32_t families;
	const char *name;
	bool direct;
	enum tow_reduce reduce;
} rows[] = {
	[MPI_SUM & 0xff] = { OF(INTEGER) | OF(REAL) | OF(COMPLEX), "MPI_SUM", true, TOW_SUM },
	[MPI_PROD & 0xff] = { OF(INTEGER) | OF(REAL) | OF(COMPLEX), "MPI_PROD", true, TOW_PROD },
	[MPI_MIN & 0xff] = { OF(INTEGER) | OF(REAL), "MPI_MIN", true, TOW_MIN },
	[MPI_MAX & 0xff] = { OF(INTEGER) | OF(REAL), "MPI_MAX", true, TOW_MAX },
	[MPI_LAND & 0xff] = { OF(INTEGER) | OF(LOGICAL), "MPI_LAND", false, TOW_AND },
	[MPI_LOR & 0xff] = { OF(INTEGER) | OF(LOGICAL), "MPI_LOR", false, TOW_OR },
	[MPI_LXOR & 0xff] = { OF(INTEGER) | OF(LOGICAL), "MPI_LXOR", false, TOW_XOR },
	[MPI_BAND & 0xff] = { OF(INTEGER) | OF(BYTES), "MPI_BAND", true, TOW_AND },
	[MPI_BOR & 0xff] = { OF(INTEGER) | OF(BYTES), "MPI_BOR", true, TOW_OR },
	[MPI_BXOR & 0xff] = { OF(INTEGER) | OF(BYTES), "MPI_BXOR", true, TOW_XOR },
	[MPI_MINLOC & 0xff] = { OF(PAIR), "MPI_MINLOC", false, TOW_MIN },
	[MPI_MAXLOC & 0xff] = { OF(PAIR), "MPI_MAXLOC", false, TOW_MAX },
	[MPI_REPLACE & 0xff] = { 0, "MPI_REPLACE", false, TOW_SUM },
	[MPI_NO_OP & 0xff] = { 0, "MPI_NO_OP", false, TOW_SUM },
};

#define ROWS (sizeof(rows) / sizeof(*rows))

static struct twmpi_op predefined[ROWS];

int twmpi_op_find(MPIABI_Op handle, struct twmpi_op **op_out)
{
	uintptr_t number = handle ^ (uintptr_t)MPI_OP_NULL;

	*op_out = twmpi_object(TWMPI_Op, handle);
	if (*op_out == NULL && number > 0 && number < ROWS)
		*op_out = &predefined[number];
	if (*op_out != NULL)
		return MPI_SUCCESS;
	if (handle == MPI_OP_NULL)
		return twmpi_fail(MPI_ERR_OP, "the operator is MPI_OP_NULL");
	return twmpi_fail(MPI_ERR_OP, "%#lx is not an operator, or was freed",
			  (unsigned long)handle);
}

static size_t find_row(const struct twmpi_op *op)
{
	return (size_t)(op - predefined);
}

struct twmpi_op *twmpi_op_hold(struct twmpi_op *op)
{
	if (op->function != NULL)
		atomic_fetch_add(&op->holders, 1);
	return op;
}

void twmpi_op_drop(struct twmpi_op *op)
{
	if (op != NULL && op->function != NULL && atomic_fetch_sub(&op->holders, 1) == 1)
		free(op);
}

bool twmpi_library_op(const struct twmpi_op *op, enum twmpi_base base, enum tow_reduce *out)
{
	size_t row = op->function == NULL ? find_row(op) : 0;

	*out = rows[row].reduce;
	if (op->function != NULL || twmpi_library_type(base) == TWMPI_NO_TYPE)
		return false;
	/* For bool, the library's AND, OR and XOR are the logical operators. */
	return rows[row].direct || base == TWMPI_BASE_BOOL;
}

int twmpi_op_check(const struct twmpi_op *op, const struct twmpi_type *type)
{
	size_t row;

	if (op->function != NULL)
		return MPI_SUCCESS;
	row = find_row(op);
	if (type->elements == 1 && (rows[row].families & 1u << twmpi_family(type->base)) != 0)
		return MPI_SUCCESS;
	return twmpi_fail(MPI_ERR_OP, "%s is not for %s", rows[row].name,
			  type->name[0] != '\0' ? type->name : "a datatype of the program");
}

void twmpi_op_apply(struct twmpi_op *op, struct twmpi_type *type, const void *in, void *in_out,
		    uint64_t count)
{
	MPIABI_Datatype handle = type->handle;
	int n = (int)count;

	if (count == 0)
		return;
	if (op->function != NULL)
		op->function((void *)in, in_out, &n, &handle);
	else
		twmpi_fold_find((MPIABI_Op)MPI_OP_NULL | find_row(op), type->base)(in, in_out,
										   count);
}

TWMPI_PUBLIC int MPIABI_Op_create(MPIABI_User_function *user_fn, int commute, MPIABI_Op *op)
{
	struct twmpi_op *made = calloc(1, sizeof(*made));
	int code = MPI_SUCCESS;

	if (user_fn == NULL)
		code = twmpi_fail(MPI_ERR_ARG, "the function is NULL");
	else if (made == NULL || !twmpi_handle_new(TWMPI_Op, made, op))
		code = twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for an operator");
	if (code != MPI_SUCCESS) {
		free(made);
		return twmpi_end(NULL, "MPI_Op_create", code);
	}
	made->holders = 1;
	made->handle = *op;
	made->function = user_fn;
	made->commutes = commute != 0;
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Op_free(MPIABI_Op *op)
{
	struct twmpi_op *o;
	int code = twmpi_op_find(*op, &o);

	if (code == MPI_SUCCESS && o->function == NULL)
		code = twmpi_fail(MPI_ERR_OP, "%s cannot be freed", rows[find_row(o)].name);
	if (code == MPI_SUCCESS) {
		twmpi_handle_end(TWMPI_Op, *op);
		twmpi_op_drop(o);
		*op = MPI_OP_NULL;
	}
	return twmpi_end(NULL, "MPI_Op_free", code);
}

TWMPI_PUBLIC int MPIABI_Op_commutative(MPIABI_Op op, int *commute)
{
	struct twmpi_op *o;
	int code = twmpi_op_find(op, &o);

	if (code == MPI_SUCCESS)
		*commute = o->function == NULL || o->commutes;
	return twmpi_end(NULL, "MPI_Op_commutative", code);
}

TWMPI_PUBLIC int MPIABI_Reduce_local(const void *inbuf, void *inoutbuf, int count,
				     MPIABI_Datatype datatype, MPIABI_Op op)
{
	struct twmpi_type *type;
	struct twmpi_op *o;
	uint64_t bytes;
	int code = twmpi_span(count, datatype, &bytes);

	if (code == MPI_SUCCESS)
		code = twmpi_type_find(datatype, &type);
	if (code == MPI_SUCCESS)
		code = twmpi_op_find(op, &o);
	if (code == MPI_SUCCESS)
		code = twmpi_op_check(o, type);
	if (code == MPI_SUCCESS && bytes > 0 && (inbuf == NULL || inoutbuf == NULL))
		code = twmpi_fail(MPI_ERR_BUFFER, "a buffer is NULL");
	if (code == MPI_SUCCESS)
		twmpi_op_apply(o, type, inbuf, inoutbuf, (uint64_t)count);
	return twmpi_end(NULL, "MPI_Reduce_local", code);
}
