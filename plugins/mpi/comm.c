/*
 * comm.c - communicators: their properties and their end. make.c makes them.
 */
#include "plugins/mpi/twmpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int twmpi_comm_find(MPIABI_Comm handle, struct twmpi_comm **comm_out)
{
	*comm_out = NULL;
	if (twmpi_job() == NULL)
		return twmpi_fail(MPI_ERR_OTHER, twmpi_job_over() ? "MPI_Finalize was called before"
								  : "MPI_Init was not called");
	*comm_out = twmpi_object(TWMPI_Comm, handle);
	if (*comm_out != NULL)
		return MPI_SUCCESS;
	if (handle == MPI_COMM_NULL)
		return twmpi_fail(MPI_ERR_COMM, "the communicator is MPI_COMM_NULL");
	return twmpi_fail(MPI_ERR_COMM, "%#lx is not a communicator, or was freed",
			  (unsigned long)handle);
}

int twmpi_comm_new(struct tow_group *group, struct twmpi_members *members, uint64_t label,
		   const struct twmpi_comm *like, struct twmpi_comm **comm_out)
{
	struct twmpi_comm *comm = members != NULL ? calloc(1, sizeof(*comm)) : NULL;

	*comm_out = NULL;
	if (comm == NULL) {
		twmpi_members_drop(members);
		tow_group_close(group);
		return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a communicator");
	}
	pthread_mutex_init(&comm->lock, NULL);
	comm->holders = 1;
	comm->group = group;
	comm->members = members;
	comm->rank = tow_group_rank(group);
	comm->size = tow_group_size(group);
	comm->label = label;
	comm->handle = MPI_COMM_NULL;
	twmpi_handler_take(comm, like);
	*comm_out = comm;
	return MPI_SUCCESS;
}

struct twmpi_comm *twmpi_comm_hold(struct twmpi_comm *comm)
{
	atomic_fetch_add(&comm->holders, 1);
	return comm;
}

void twmpi_comm_drop(struct twmpi_comm *comm)
{
	if (comm == NULL || atomic_fetch_sub(&comm->holders, 1) != 1)
		return;
	tow_group_close(comm->group);
	twmpi_members_drop(comm->members);
	twmpi_handler_drop(comm);
	twmpi_info_free(comm->info);
	pthread_mutex_destroy(&comm->lock);
	free(comm);
}

void twmpi_comm_end(struct twmpi_comm *comm)
{
	twmpi_attributes_end(comm);
	twmpi_handle_end(TWMPI_Comm, comm->handle);
	twmpi_comm_drop(comm);
}

TWMPI_PUBLIC int MPIABI_Comm_rank(MPIABI_Comm comm, int *rank)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS)
		*rank = (int)c->rank;
	return twmpi_end(c, "MPI_Comm_rank", code);
}

TWMPI_PUBLIC int MPIABI_Comm_size(MPIABI_Comm comm, int *size)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS)
		*size = (int)c->size;
	return twmpi_end(c, "MPI_Comm_size", code);
}

TWMPI_PUBLIC int MPIABI_Comm_test_inter(MPIABI_Comm comm, int *flag)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	*flag = 0;
	return twmpi_end(c, "MPI_Comm_test_inter", code);
}

/* No process has spawned this one, and no communicator has a topology. */
TWMPI_PUBLIC int MPIABI_Comm_get_parent(MPIABI_Comm *parent)
{
	*parent = MPI_COMM_NULL;
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Topo_test(MPIABI_Comm comm, int *status)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	*status = MPI_UNDEFINED;
	return twmpi_end(c, "MPI_Topo_test", code);
}

TWMPI_PUBLIC int MPIABI_Comm_compare(MPIABI_Comm comm1, MPIABI_Comm comm2, int *result)
{
	struct twmpi_comm *a, *b;
	int code = twmpi_comm_find(comm1, &a);

	if (code == MPI_SUCCESS)
		code = twmpi_comm_find(comm2, &b);
	if (code == MPI_SUCCESS) {
		*result = twmpi_members_compare(a->members, b->members);
		if (*result == MPI_IDENT && a != b)
			*result = MPI_CONGRUENT;
	}
	return twmpi_end(a, "MPI_Comm_compare", code);
}

TWMPI_PUBLIC int MPIABI_Comm_get_name(MPIABI_Comm comm, char *comm_name, int *resultlen)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS) {
		pthread_mutex_lock(&c->lock);
		*resultlen = snprintf(comm_name, TWMPI_OBJECT_NAME, "%s", c->name);
		pthread_mutex_unlock(&c->lock);
	}
	return twmpi_end(c, "MPI_Comm_get_name", code);
}

/* A label has printable bytes only. A name may contain others, or be empty. */
void twmpi_comm_show(struct twmpi_comm *comm, const char *as)
{
	char label[TOW_GROUP_LABEL_MAX];
	size_t used = 0;

	for (; *as != '\0' && used < sizeof(label) - 1; as++)
		label[used++] = *as >= 0x20 && *as <= 0x7e ? *as : '?';
	label[used] = '\0';
	pthread_mutex_lock(&comm->lock);
	snprintf(comm->shown, sizeof(comm->shown), "%s", used > 0 ? label : "no name");
	pthread_mutex_unlock(&comm->lock);
	/* Without memory, the library shows the group by its number. */
	(void)tow_group_set_label(comm->group, used > 0 ? label : NULL);
}

TWMPI_PUBLIC int MPIABI_Comm_set_name(MPIABI_Comm comm, const char *comm_name)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS && comm_name == NULL)
		code = twmpi_fail(MPI_ERR_ARG, "the name is NULL");
	if (code == MPI_SUCCESS) {
		pthread_mutex_lock(&c->lock);
		snprintf(c->name, sizeof(c->name), "%s", comm_name);
		pthread_mutex_unlock(&c->lock);
		twmpi_comm_show(c, comm_name);
	}
	return twmpi_end(c, "MPI_Comm_set_name", code);
}

/* Predefined attributes. Each value is the address of a constant. */
static const int *find_attribute(const struct twmpi_job *job, int keyval)
{
	static const int tag_ub = INT32_MAX, no_host = MPI_PROC_NULL, any_io = MPI_ANY_SOURCE;
	static const int not_global, last_code = MPI_ERR_LASTCODE;

	switch (keyval) {
	case MPI_TAG_UB:
		return &tag_ub;
	case MPI_HOST:
		return &no_host;
	case MPI_IO:
		return &any_io;
	case MPI_WTIME_IS_GLOBAL:
		return &not_global;
	case MPI_LASTUSEDCODE:
		return &last_code;
	case MPI_UNIVERSE_SIZE:
		return (const int *)&job->world->size;
	default:
		return NULL;
	}
}

TWMPI_PUBLIC int MPIABI_Comm_get_attr(MPIABI_Comm comm, int comm_keyval, void *attribute_val,
				      int *flag)
{
	const int *value = NULL;
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS && twmpi_attribute_get(c, comm_keyval, attribute_val, flag))
		return MPI_SUCCESS;
	if (code == MPI_SUCCESS && comm_keyval != MPI_APPNUM) {
		value = find_attribute(twmpi_job(), comm_keyval);
		if (value == NULL)
			code = twmpi_fail(MPI_ERR_KEYVAL, "there is no attribute %d", comm_keyval);
	}
	*flag = value != NULL;
	if (value != NULL)
		*(const int **)attribute_val = value;
	return twmpi_end(c, "MPI_Comm_get_attr", code);
}

/*
 * Waits for all members, because another member may still communicate in it. If some members do not
 * come in time, the communicator ends here all the same.
 */
static int free_comm(MPIABI_Comm *comm, const char *name)
{
	struct twmpi_comm *c;
	int code;

	if (twmpi_job_over()) { /* MPI_Finalize has ended all of them; XLA frees its own later */
		*comm = MPI_COMM_NULL;
		return MPI_SUCCESS;
	}
	code = twmpi_comm_find(*comm, &c);
	if (code == MPI_SUCCESS && c->handle < TWMPI_HANDLE_OF(TWMPI_Comm, TWMPI_DYNAMIC))
		code = twmpi_fail(MPI_ERR_COMM, "%s cannot be freed", c->name);
	if (code != MPI_SUCCESS)
		return twmpi_end(c, name, code);
	tow_group_barrier(c->group, TWMPI_END_NS);
	code = twmpi_end(c, name, twmpi_attributes_end(c));
	twmpi_comm_end(c);
	*comm = MPI_COMM_NULL;
	return code;
}

TWMPI_PUBLIC int MPIABI_Comm_free(MPIABI_Comm *comm)
{
	return free_comm(comm, "MPI_Comm_free");
}

TWMPI_PUBLIC int MPIABI_Comm_disconnect(MPIABI_Comm *comm)
{
	return free_comm(comm, "MPI_Comm_disconnect");
}
