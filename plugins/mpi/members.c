/*
 * members.c - MPI's groups: lists of ranks of MPI_COMM_WORLD. All work is local to the process.
 */
#include "plugins/mpi/twmpi.h"

#include <stdlib.h>
#include <string.h>

struct twmpi_members *twmpi_members_new(const uint32_t *ranks, uint32_t size)
{
	const struct twmpi_job *job = twmpi_job();
	struct twmpi_members *members = calloc(1, sizeof(*members) + size * sizeof(*ranks));

	if (members == NULL)
		return NULL;
	members->holders = 1;
	members->size = size;
	for (uint32_t i = 0; i < size; i++)
		members->ranks[i] = ranks[i];
	members->self = TWMPI_NO_RANK;
	if (job != NULL)
		members->self = twmpi_members_place(members, job->world->rank);
	return members;
}

struct twmpi_members *twmpi_members_hold(struct twmpi_members *members)
{
	atomic_fetch_add(&members->holders, 1);
	return members;
}

void twmpi_members_drop(struct twmpi_members *members)
{
	if (members != NULL && atomic_fetch_sub(&members->holders, 1) == 1)
		free(members);
}

uint32_t twmpi_members_place(const struct twmpi_members *members, uint32_t world_rank)
{
	for (uint32_t i = 0; i < members->size; i++)
		if (members->ranks[i] == world_rank)
			return i;
	return TWMPI_NO_RANK;
}

int twmpi_members_compare(const struct twmpi_members *a, const struct twmpi_members *b)
{
	bool same = true;

	if (a->size != b->size)
		return MPI_UNEQUAL;
	for (uint32_t i = 0; i < a->size; i++) {
		if (twmpi_members_place(b, a->ranks[i]) == TWMPI_NO_RANK)
			return MPI_UNEQUAL;
		same = same && a->ranks[i] == b->ranks[i];
	}
	return same ? MPI_IDENT : MPI_SIMILAR;
}

int twmpi_members_find(MPIABI_Group group, struct twmpi_members **members_out)
{
	static struct twmpi_members nobody = { .holders = 1, .self = TWMPI_NO_RANK };

	*members_out = group == MPI_GROUP_EMPTY ? &nobody : twmpi_object(TWMPI_Group, group);
	if (*members_out != NULL)
		return MPI_SUCCESS;
	return twmpi_fail(MPI_ERR_GROUP, "%#lx is not a group", (unsigned long)group);
}

/* Consumes new members, and returns a handle for them. The empty group has a constant handle. */
static int make_group_handle(struct twmpi_members *members, MPIABI_Group *group_out)
{
	if (members != NULL && members->size == 0) {
		twmpi_members_drop(members);
		*group_out = MPI_GROUP_EMPTY;
		return MPI_SUCCESS;
	}
	if (members != NULL && twmpi_handle_new(TWMPI_Group, members, group_out))
		return MPI_SUCCESS;
	twmpi_members_drop(members);
	return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a group");
}

TWMPI_PUBLIC int MPIABI_Comm_group(MPIABI_Comm comm, MPIABI_Group *group)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS)
		code = make_group_handle(twmpi_members_hold(c->members), group);
	return twmpi_end(c, "MPI_Comm_group", code);
}

TWMPI_PUBLIC int MPIABI_Group_size(MPIABI_Group group, int *size)
{
	struct twmpi_members *members;
	int code = twmpi_members_find(group, &members);

	if (code == MPI_SUCCESS)
		*size = (int)members->size;
	return twmpi_end(NULL, "MPI_Group_size", code);
}

TWMPI_PUBLIC int MPIABI_Group_rank(MPIABI_Group group, int *rank)
{
	struct twmpi_members *members;
	int code = twmpi_members_find(group, &members);

	if (code == MPI_SUCCESS)
		*rank = members->self != TWMPI_NO_RANK ? (int)members->self : MPI_UNDEFINED;
	return twmpi_end(NULL, "MPI_Group_rank", code);
}

static int check_rank(const struct twmpi_members *members, int rank)
{
	if (rank >= 0 && (uint32_t)rank < members->size)
		return MPI_SUCCESS;
	return twmpi_fail(MPI_ERR_RANK, "%d is not a rank of a group of %u", rank, members->size);
}

static int translate_ranks(const struct twmpi_members *from, int n, const int *ranks1,
			   const struct twmpi_members *to, int *ranks2)
{
	int code = MPI_SUCCESS;
	uint32_t place;

	for (int i = 0; code == MPI_SUCCESS && i < n; i++) {
		ranks2[i] = MPI_PROC_NULL;
		if (ranks1[i] == MPI_PROC_NULL)
			continue;
		code = check_rank(from, ranks1[i]);
		if (code == MPI_SUCCESS) {
			place = twmpi_members_place(to, from->ranks[ranks1[i]]);
			ranks2[i] = place != TWMPI_NO_RANK ? (int)place : MPI_UNDEFINED;
		}
	}
	return code;
}

TWMPI_PUBLIC int MPIABI_Group_translate_ranks(MPIABI_Group group1, int n, const int *ranks1,
					      MPIABI_Group group2, int *ranks2)
{
	struct twmpi_members *from, *to;
	int code = twmpi_members_find(group1, &from);

	if (code == MPI_SUCCESS)
		code = twmpi_members_find(group2, &to);
	if (code == MPI_SUCCESS)
		code = translate_ranks(from, n, ranks1, to, ranks2);
	return twmpi_end(NULL, "MPI_Group_translate_ranks", code);
}

TWMPI_PUBLIC int MPIABI_Group_compare(MPIABI_Group group1, MPIABI_Group group2, int *result)
{
	struct twmpi_members *a, *b;
	int code = twmpi_members_find(group1, &a);

	if (code == MPI_SUCCESS)
		code = twmpi_members_find(group2, &b);
	if (code == MPI_SUCCESS)
		*result = twmpi_members_compare(a, b);
	return twmpi_end(NULL, "MPI_Group_compare", code);
}

/* Combines the chosen kinds: ranks of a that are in b or not, and then ranks of b alone. */
static int combine_groups(MPIABI_Group group1, MPIABI_Group group2, bool in_both, bool only_first,
			  bool only_second, MPIABI_Group *group_out)
{
	struct twmpi_members *a, *b, *made;
	uint32_t *ranks, size = 0;
	int code = twmpi_members_find(group1, &a);

	if (code == MPI_SUCCESS)
		code = twmpi_members_find(group2, &b);
	if (code != MPI_SUCCESS)
		return code;
	ranks = calloc(a->size + b->size + 1u, sizeof(*ranks));
	for (uint32_t i = 0; ranks != NULL && i < a->size; i++)
		if (twmpi_members_place(b, a->ranks[i]) != TWMPI_NO_RANK ? in_both : only_first)
			ranks[size++] = a->ranks[i];
	for (uint32_t i = 0; ranks != NULL && only_second && i < b->size; i++)
		if (twmpi_members_place(a, b->ranks[i]) == TWMPI_NO_RANK)
			ranks[size++] = b->ranks[i];
	made = ranks != NULL ? twmpi_members_new(ranks, size) : NULL;
	free(ranks);
	return make_group_handle(made, group_out);
}

TWMPI_PUBLIC int MPIABI_Group_union(MPIABI_Group group1, MPIABI_Group group2,
				    MPIABI_Group *newgroup)
{
	return twmpi_end(NULL, "MPI_Group_union",
			 combine_groups(group1, group2, true, true, true, newgroup));
}

TWMPI_PUBLIC int MPIABI_Group_intersection(MPIABI_Group group1, MPIABI_Group group2,
					   MPIABI_Group *newgroup)
{
	return twmpi_end(NULL, "MPI_Group_intersection",
			 combine_groups(group1, group2, true, false, false, newgroup));
}

TWMPI_PUBLIC int MPIABI_Group_difference(MPIABI_Group group1, MPIABI_Group group2,
					 MPIABI_Group *newgroup)
{
	return twmpi_end(NULL, "MPI_Group_difference",
			 combine_groups(group1, group2, false, true, false, newgroup));
}

/* Chooses the listed ranks in the order of the list, or the other ranks in the group's order. */
static int choose_members(MPIABI_Group group, int n, const int *ranks, bool listed,
			  MPIABI_Group *group_out)
{
	struct twmpi_members *members, *made = NULL;
	uint32_t *kept, size = 0;
	bool *named;
	int code = twmpi_members_find(group, &members);

	if (code == MPI_SUCCESS && (n < 0 || (n > 0 && ranks == NULL)))
		code = twmpi_fail(MPI_ERR_ARG, "the number of ranks is %d", n);
	for (int i = 0; code == MPI_SUCCESS && i < n; i++)
		code = check_rank(members, ranks[i]);
	if (code != MPI_SUCCESS)
		return code;
	kept = calloc(members->size + 1u, sizeof(*kept));
	named = calloc(members->size + 1u, sizeof(*named));
	for (int i = 0; kept != NULL && named != NULL && code == MPI_SUCCESS && i < n; i++) {
		if (named[ranks[i]])
			code = twmpi_fail(MPI_ERR_RANK, "rank %d is listed twice", ranks[i]);
		named[ranks[i]] = true;
		if (listed && size < members->size)
			kept[size++] = members->ranks[ranks[i]];
	}
	for (uint32_t i = 0; kept != NULL && named != NULL && !listed && i < members->size; i++)
		if (!named[i])
			kept[size++] = members->ranks[i];
	if (kept != NULL && named != NULL && code == MPI_SUCCESS)
		made = twmpi_members_new(kept, size);
	free(kept);
	free(named);
	return code == MPI_SUCCESS ? make_group_handle(made, group_out) : code;
}

TWMPI_PUBLIC int MPIABI_Group_incl(MPIABI_Group group, int n, const int *ranks,
				   MPIABI_Group *newgroup)
{
	return twmpi_end(NULL, "MPI_Group_incl", choose_members(group, n, ranks, true, newgroup));
}

TWMPI_PUBLIC int MPIABI_Group_excl(MPIABI_Group group, int n, const int *ranks,
				   MPIABI_Group *newgroup)
{
	return twmpi_end(NULL, "MPI_Group_excl", choose_members(group, n, ranks, false, newgroup));
}

/* Chooses the ranks of ranges, each {first, last, stride}. */
static int choose_ranges(MPIABI_Group group, int n, int (*ranges)[3], bool listed,
			 MPIABI_Group *group_out)
{
	struct twmpi_members *members;
	int code = twmpi_members_find(group, &members), size = 0, *ranks;
	int64_t step, last;

	if (code != MPI_SUCCESS)
		return code;
	ranks = calloc(members->size + 1u, sizeof(*ranks));
	if (ranks == NULL)
		return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a group");
	for (int i = 0; code == MPI_SUCCESS && i < n; i++) {
		step = ranges[i][2];
		last = ranges[i][1];
		if (step == 0)
			code = twmpi_fail(MPI_ERR_ARG, "the stride of range %d is 0", i);
		for (int64_t r = ranges[i][0];
		     code == MPI_SUCCESS && (step > 0 ? r <= last : r >= last); r += step) {
			code = check_rank(members, (int)r);
			if (code == MPI_SUCCESS && (uint32_t)size == members->size)
				code = twmpi_fail(MPI_ERR_RANK, "a rank is listed twice");
			if (code == MPI_SUCCESS)
				ranks[size++] = (int)r;
		}
	}
	if (code == MPI_SUCCESS)
		code = choose_members(group, size, ranks, listed, group_out);
	free(ranks);
	return code;
}

TWMPI_PUBLIC int MPIABI_Group_range_incl(MPIABI_Group group, int n, int (*ranges)[3],
					 MPIABI_Group *newgroup)
{
	return twmpi_end(NULL, "MPI_Group_range_incl",
			 choose_ranges(group, n, ranges, true, newgroup));
}

TWMPI_PUBLIC int MPIABI_Group_range_excl(MPIABI_Group group, int n, int (*ranges)[3],
					 MPIABI_Group *newgroup)
{
	return twmpi_end(NULL, "MPI_Group_range_excl",
			 choose_ranges(group, n, ranges, false, newgroup));
}

TWMPI_PUBLIC int MPIABI_Group_free(MPIABI_Group *group)
{
	struct twmpi_members *members = twmpi_object(TWMPI_Group, *group);

	if (members == NULL && *group != MPI_GROUP_EMPTY)
		return twmpi_end(
			NULL, "MPI_Group_free",
			twmpi_fail(MPI_ERR_GROUP, "%#lx is not a group", (unsigned long)*group));
	if (members != NULL) {
		twmpi_handle_end(TWMPI_Group, *group);
		twmpi_members_drop(members);
	}
	*group = MPI_GROUP_NULL;
	return MPI_SUCCESS;
}
