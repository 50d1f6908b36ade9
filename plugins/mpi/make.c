/*
 * make.c - communicators made of others. For each one, its members alone create a group. Each
 * member computes the group's name from the parent's label, and from the number of communicators
 * made of the parent.
 */
#include "plugins/mpi/twmpi.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct split_row {
	int32_t color, key;
};

struct split_place {
	int32_t key;
	uint32_t rank;
};

static uint64_t mix_label(uint64_t label, uint64_t with)
{
	for (unsigned i = 0; i < 8; i++, with >>= 8)
		label = (label ^ (with & 0xff)) * 0x100000001b3u;
	return label;
}

/* Only one thread at a time makes communicators of a parent. Two threads would have no order. */
static int begin_making(struct twmpi_comm *parent, uint64_t *label_out)
{
	bool busy;

	pthread_mutex_lock(&parent->lock);
	busy = parent->making;
	if (!busy) {
		parent->making = true;
		*label_out = mix_label(parent->label, ++parent->made);
	}
	pthread_mutex_unlock(&parent->lock);
	if (!busy)
		return MPI_SUCCESS;
	return twmpi_fail(
		MPI_ERR_OTHER,
		"another thread makes a communicator of the same one; XLA does so where a "
		"process has several devices, for which MPI cannot be used: set "
		"JAX_NUM_CPU_DEVICES=1, or use gloo");
}

static void end_making(struct twmpi_comm *parent)
{
	pthread_mutex_lock(&parent->lock);
	parent->making = false;
	pthread_mutex_unlock(&parent->lock);
}

/* A communicator that is being made. All its members compute the same values. */
struct making {
	uint64_t label;
	char shown[TOW_GROUP_LABEL_MAX];
};

/* A new communicator has no name yet, so this shows "split 3 of MPI_COMM_WORLD, color 1". */
static void show_making(struct making *making, struct twmpi_comm *parent, const char *what,
			uint32_t number, const char *tail)
{
	char text[128];

	pthread_mutex_lock(&parent->lock);
	snprintf(text, sizeof(text), "%s %u of %.16s%s", what, number, parent->shown, tail);
	pthread_mutex_unlock(&parent->lock);
	snprintf(making->shown, sizeof(making->shown), "%.*s", TOW_GROUP_LABEL_MAX - 1, text);
}

/* ranks: ranks in the parent. The caller is one of them. */
static int make_comm(struct twmpi_comm *parent, const uint32_t *ranks, uint32_t count,
		     const struct making *making, MPIABI_Comm *comm_out)
{
	struct twmpi_comm *comm;
	struct twmpi_members *members;
	struct tow_group *group;
	uint32_t *world = calloc(count, sizeof(*world));
	char name[32];
	int code, status;

	if (world == NULL)
		return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a communicator");
	for (uint32_t i = 0; i < count; i++)
		world[i] = parent->members->ranks[ranks[i]];
	members = twmpi_members_new(world, count);
	free(world);
	snprintf(name, sizeof(name), "mpi-%016llx", (unsigned long long)making->label);
	status = tow_group_create(parent->group, ranks, count, name, TWMPI_MAKE_NS, &group);
	if (status < 0) {
		twmpi_members_drop(members);
		return twmpi_failed(status);
	}
	code = twmpi_comm_new(group, members, making->label, parent, &comm);
	if (code != MPI_SUCCESS)
		return code;
	twmpi_comm_show(comm, making->shown);
	if (twmpi_handle_new(TWMPI_Comm, comm, comm_out)) {
		comm->handle = *comm_out;
		return MPI_SUCCESS;
	}
	twmpi_comm_drop(comm);
	return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a communicator");
}

static int compare_places(const void *a, const void *b)
{
	const struct split_place *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank < y->rank ? -1 : 1;
}

/* Gathers the rows of all ranks, in the order of the parent's ranks. */
static int gather_rows(struct twmpi_comm *parent, const char *name, const struct split_row *mine,
		       struct split_row *rows)
{
	struct twmpi_request call = { .name = name, .comm = parent };
	int code, status;

	code = TWMPI_START(&call, tow_coll_all_gather_start, mine, rows, sizeof(*mine), TOW_U8);
	if (code != MPI_SUCCESS)
		return code;
	status = tow_op_wait(call.op, TOW_FOREVER);
	if (status == TOW_EDEADLINE)
		code = twmpi_fail(
			MPI_ERR_OTHER,
			"%s. All ranks of the communicator have to call it; a JAX program on "
			"a mesh of some of the processes does not, and cannot use MPI",
			tow_error_message());
	else if (status < 0)
		code = twmpi_failed(status);
	tow_op_release(call.op);
	return code;
}

static int make_of_rows(struct twmpi_comm *parent, const struct split_row *rows, uint64_t label,
			MPIABI_Comm *comm_out)
{
	struct split_place *places = calloc(parent->size, sizeof(*places));
	uint32_t *ranks = calloc(parent->size, sizeof(*ranks)), count = 0;
	int color = rows[parent->rank].color;
	struct making making;
	char tail[24];
	int code;

	if (places == NULL || ranks == NULL) {
		free(places);
		free(ranks);
		return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a communicator");
	}
	for (uint32_t r = 0; r < parent->size; r++)
		if (rows[r].color == color)
			places[count++] = (struct split_place){ .key = rows[r].key, .rank = r };
	qsort(places, count, sizeof(*places), compare_places);
	for (uint32_t i = 0; i < count; i++)
		ranks[i] = places[i].rank;
	snprintf(tail, sizeof(tail), ", color %d", color);
	making.label = mix_label(label, (uint64_t)(uint32_t)color);
	show_making(&making, parent, "split", parent->made, tail);
	code = make_comm(parent, ranks, count, &making, comm_out);
	free(places);
	free(ranks);
	return code;
}

static int split_comm(struct twmpi_comm *parent, const char *name, int color, int key,
		      MPIABI_Comm *comm_out)
{
	struct split_row mine = { color, key };
	struct split_row *rows;
	uint64_t label = 0;
	int code;

	*comm_out = MPI_COMM_NULL;
	if (color < 0 && color != MPI_UNDEFINED)
		return twmpi_fail(MPI_ERR_ARG, "the color %d is below 0", color);
	code = begin_making(parent, &label);
	if (code != MPI_SUCCESS)
		return code;
	rows = calloc(parent->size, sizeof(*rows));
	if (rows == NULL)
		code = twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a communicator");
	if (code == MPI_SUCCESS)
		code = gather_rows(parent, name, &mine, rows);
	if (code == MPI_SUCCESS && color != MPI_UNDEFINED)
		code = make_of_rows(parent, rows, label, comm_out);
	free(rows);
	end_making(parent);
	return code;
}

TWMPI_PUBLIC int MPIABI_Comm_split(MPIABI_Comm comm, int color, int key, MPIABI_Comm *newcomm)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS)
		code = split_comm(c, "MPI_Comm_split", color, key, newcomm);
	return twmpi_end(c, "MPI_Comm_split", code);
}

/* Returns a number of 0 or more that ranks of the same boot of a host share, and hardly others. */
static int host_color(void)
{
	char text[64] = "";
	uint64_t label = 0xcbf29ce484222325u;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : 0;

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		n = gethostname(text, sizeof(text)) == 0 ? (ssize_t)strnlen(text, sizeof(text)) : 0;
	for (ssize_t i = 0; i < n; i++)
		label = mix_label(label, (uint8_t)text[i]);
	return (int)(label >> 33);
}

TWMPI_PUBLIC int MPIABI_Comm_split_type(MPIABI_Comm comm, int split_type, int key, MPIABI_Info info,
					MPIABI_Comm *newcomm)
{
	int color = split_type == MPI_UNDEFINED ? MPI_UNDEFINED : host_color();
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS)
		code = twmpi_info_check(info); /* hints may be ignored */
	if (code == MPI_SUCCESS && split_type != MPI_COMM_TYPE_SHARED &&
	    split_type != MPI_UNDEFINED)
		code = twmpi_fail(MPI_ERR_ARG, "%d is not a type of split", split_type);
	if (code == MPI_SUCCESS)
		code = split_comm(c, "MPI_Comm_split_type", color, key, newcomm);
	return twmpi_end(c, "MPI_Comm_split_type", code);
}

/* Finds the ranks of the members in the parent. A member then makes the communicator. */
static int make_of_members(struct twmpi_comm *parent, const struct twmpi_members *members,
			   const struct making *making, MPIABI_Comm *comm_out)
{
	uint32_t *ranks = calloc(members->size + 1u, sizeof(*ranks));
	int code = MPI_SUCCESS;

	if (ranks == NULL)
		return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a communicator");
	for (uint32_t i = 0; code == MPI_SUCCESS && i < members->size; i++) {
		ranks[i] = twmpi_members_place(parent->members, members->ranks[i]);
		if (ranks[i] == TWMPI_NO_RANK)
			code = twmpi_fail(MPI_ERR_GROUP,
					  "rank %u of the group is not in the communicator", i);
	}
	if (code == MPI_SUCCESS && members->self != TWMPI_NO_RANK)
		code = make_comm(parent, ranks, members->size, making, comm_out);
	free(ranks);
	return code;
}

static int create_comm(struct twmpi_comm *parent, const struct twmpi_members *members,
		       const char *what, MPIABI_Comm *comm_out)
{
	struct making making = { 0 };
	int code = begin_making(parent, &making.label);

	*comm_out = MPI_COMM_NULL;
	if (code != MPI_SUCCESS)
		return code;
	if (members->size > 0)
		making.label = mix_label(making.label, members->ranks[0]);
	show_making(&making, parent, what, parent->made, "");
	code = make_of_members(parent, members, &making, comm_out);
	end_making(parent);
	return code;
}

TWMPI_PUBLIC int MPIABI_Comm_create(MPIABI_Comm comm, MPIABI_Group group, MPIABI_Comm *newcomm)
{
	struct twmpi_members *members;
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS)
		code = twmpi_members_find(group, &members);
	if (code == MPI_SUCCESS)
		code = create_comm(c, members, "create", newcomm);
	return twmpi_end(c, "MPI_Comm_create", code);
}

/* Only the members call it, so the name does not depend on other communicators of the parent. */
TWMPI_PUBLIC int MPIABI_Comm_create_group(MPIABI_Comm comm, MPIABI_Group group, int tag,
					  MPIABI_Comm *newcomm)
{
	struct making making = { 0 };
	struct twmpi_members *members;
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS)
		code = twmpi_members_find(group, &members);
	if (code == MPI_SUCCESS) {
		*newcomm = MPI_COMM_NULL;
		making.label = mix_label(c->label, UINT32_MAX + (uint64_t)(uint32_t)tag + 1);
		show_making(&making, c, "create_group", (uint32_t)tag, "");
		code = make_of_members(c, members, &making, newcomm);
	}
	return twmpi_end(c, "MPI_Comm_create_group", code);
}

/* `info`: the hints of the new communicator, which takes them over. */
static int dup_with(struct twmpi_comm *c, struct twmpi_info *info, MPIABI_Comm *newcomm)
{
	struct twmpi_comm *made;
	int code = create_comm(c, c->members, "dup", newcomm);

	if (code != MPI_SUCCESS) {
		twmpi_info_free(info);
		return code;
	}
	made = twmpi_object(TWMPI_Comm, *newcomm);
	made->info = info;
	code = twmpi_attributes_copy(c, made);
	if (code != MPI_SUCCESS) { /* a program does not free what a failed call has made */
		twmpi_comm_end(made);
		*newcomm = MPI_COMM_NULL;
	}
	return code;
}

TWMPI_PUBLIC int MPIABI_Comm_dup(MPIABI_Comm comm, MPIABI_Comm *newcomm)
{
	struct twmpi_info *info = NULL;
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS) {
		pthread_mutex_lock(&c->lock);
		code = twmpi_info_copy(c->info, &info);
		pthread_mutex_unlock(&c->lock);
	}
	if (code == MPI_SUCCESS)
		code = dup_with(c, info, newcomm);
	return twmpi_end(c, "MPI_Comm_dup", code);
}

TWMPI_PUBLIC int MPIABI_Comm_dup_with_info(MPIABI_Comm comm, MPIABI_Info info, MPIABI_Comm *newcomm)
{
	struct twmpi_info *taken = NULL;
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS)
		code = twmpi_info_take(info, &taken);
	if (code == MPI_SUCCESS)
		code = dup_with(c, taken, newcomm);
	return twmpi_end(c, "MPI_Comm_dup_with_info", code);
}
