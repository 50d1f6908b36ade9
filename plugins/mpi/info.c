/*
 * info.c - info objects: hints of the program, as pairs of key and value, in the order of their
 * setting. The library needs none of them, and keeps those of communicators.
 */
#include "plugins/mpi/twmpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct twmpi_info {
	uint32_t count;
	struct row {
		char *key, *value;
	} * rows;
};

/* One lock for all info objects: they are small and seldom used. */
static pthread_mutex_t info_lock = PTHREAD_MUTEX_INITIALIZER;
static struct twmpi_info environment; /* MPI_INFO_ENV: always empty */

static int no_memory(void)
{
	return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for an info object");
}

static int find_info(MPIABI_Info handle, struct twmpi_info **info_out)
{
	*info_out = handle == MPI_INFO_ENV ? &environment : twmpi_object(TWMPI_Info, handle);
	if (*info_out != NULL)
		return MPI_SUCCESS;
	if (handle == MPI_INFO_NULL)
		return twmpi_fail(MPI_ERR_INFO, "the info object is MPI_INFO_NULL");
	return twmpi_fail(MPI_ERR_INFO, "%#lx is not an info object, or was freed",
			  (unsigned long)handle);
}

/* Finds an info object that the program may change. */
static int find_own(MPIABI_Info handle, struct twmpi_info **info_out)
{
	int code = find_info(handle, info_out);

	if (code == MPI_SUCCESS && *info_out == &environment)
		code = twmpi_fail(MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed or freed");
	return code;
}

static int check_key(const char *key)
{
	if (key == NULL || *key == '\0')
		return twmpi_fail(MPI_ERR_INFO_KEY, "the key is empty");
	if (strlen(key) >= TWMPI_INFO_KEY)
		return twmpi_fail(MPI_ERR_INFO_KEY, "the key has %zu bytes, and at most %d can be",
				  strlen(key), TWMPI_INFO_KEY - 1);
	return MPI_SUCCESS;
}

/* The functions on rows need the lock. NULL: there is no such key. */
static struct row *find_row(const struct twmpi_info *info, const char *key)
{
	for (uint32_t i = 0; i < info->count; i++) {
		if (strcmp(info->rows[i].key, key) == 0)
			return &info->rows[i];
	}
	return NULL;
}

static bool row_add(struct twmpi_info *info, char *key, char *value)
{
	struct row *rows = NULL;

	if (key != NULL && value != NULL)
		rows = realloc(info->rows, (info->count + 1u) * sizeof(*rows));
	if (rows == NULL) {
		free(key);
		free(value);
		return false;
	}
	info->rows = rows;
	rows[info->count++] = (struct row){ key, value };
	return true;
}

static bool row_set(struct twmpi_info *info, const char *key, const char *value)
{
	struct row *row = find_row(info, key);
	char *text;

	if (row == NULL)
		return row_add(info, strdup(key), strdup(value));
	text = strdup(value);
	if (text == NULL)
		return false;
	free(row->value);
	row->value = text;
	return true;
}

static void row_drop(struct twmpi_info *info, struct row *row)
{
	free(row->key);
	free(row->value);
	info->count--;
	memmove(row, row + 1, (size_t)(info->rows + info->count - row) * sizeof(*row));
}

void twmpi_info_free(struct twmpi_info *info)
{
	if (info == NULL)
		return;
	while (info->count > 0)
		row_drop(info, &info->rows[info->count - 1]);
	free(info->rows);
	free(info);
}

static struct twmpi_info *copy_rows(const struct twmpi_info *from)
{
	struct twmpi_info *info = calloc(1, sizeof(*info));

	for (uint32_t i = 0; info != NULL && i < from->count; i++) {
		if (row_add(info, strdup(from->rows[i].key), strdup(from->rows[i].value)))
			continue;
		twmpi_info_free(info);
		info = NULL;
	}
	return info;
}

int twmpi_info_copy(const struct twmpi_info *from, struct twmpi_info **info_out)
{
	const struct twmpi_info none = { .count = 0 };

	pthread_mutex_lock(&info_lock);
	*info_out = copy_rows(from != NULL ? from : &none);
	pthread_mutex_unlock(&info_lock);
	return *info_out != NULL ? MPI_SUCCESS : no_memory();
}

int twmpi_info_take(MPIABI_Info handle, struct twmpi_info **info_out)
{
	struct twmpi_info *info = NULL;
	int code = handle == MPI_INFO_NULL ? MPI_SUCCESS : find_info(handle, &info);

	*info_out = NULL;
	return code == MPI_SUCCESS ? twmpi_info_copy(info, info_out) : code;
}

int twmpi_info_check(MPIABI_Info handle)
{
	struct twmpi_info *info;

	return handle == MPI_INFO_NULL ? MPI_SUCCESS : find_info(handle, &info);
}

int twmpi_info_show(const struct twmpi_info *from, MPIABI_Info *handle_out)
{
	struct twmpi_info *info;
	int code = twmpi_info_copy(from, &info);

	*handle_out = MPI_INFO_NULL;
	if (code == MPI_SUCCESS && !twmpi_handle_new(TWMPI_Info, info, handle_out)) {
		twmpi_info_free(info);
		code = no_memory();
	}
	return code;
}

TWMPI_PUBLIC int MPIABI_Info_create(MPIABI_Info *info)
{
	return twmpi_end(NULL, "MPI_Info_create", twmpi_info_show(NULL, info));
}

TWMPI_PUBLIC int MPIABI_Info_dup(MPIABI_Info info, MPIABI_Info *newinfo)
{
	struct twmpi_info *from;
	int code = find_info(info, &from);

	if (code == MPI_SUCCESS)
		code = twmpi_info_show(from, newinfo);
	return twmpi_end(NULL, "MPI_Info_dup", code);
}

TWMPI_PUBLIC int MPIABI_Info_free(MPIABI_Info *info)
{
	struct twmpi_info *own;
	int code = find_own(*info, &own);

	if (code == MPI_SUCCESS) {
		twmpi_handle_end(TWMPI_Info, *info);
		twmpi_info_free(own);
		*info = MPI_INFO_NULL;
	}
	return twmpi_end(NULL, "MPI_Info_free", code);
}

TWMPI_PUBLIC int MPIABI_Info_set(MPIABI_Info info, const char *key, const char *value)
{
	struct twmpi_info *own;
	int code = find_own(info, &own);
	bool done;

	if (code == MPI_SUCCESS)
		code = check_key(key);
	if (code == MPI_SUCCESS && (value == NULL || strlen(value) >= TWMPI_INFO_VALUE))
		code = twmpi_fail(MPI_ERR_INFO_VALUE,
				  "the value of '%s' is NULL, or has more than %d bytes", key,
				  TWMPI_INFO_VALUE - 1);
	if (code == MPI_SUCCESS) {
		pthread_mutex_lock(&info_lock);
		done = row_set(own, key, value);
		pthread_mutex_unlock(&info_lock);
		code = done ? MPI_SUCCESS : no_memory();
	}
	return twmpi_end(NULL, "MPI_Info_set", code);
}

TWMPI_PUBLIC int MPIABI_Info_delete(MPIABI_Info info, const char *key)
{
	struct twmpi_info *own;
	int code = find_own(info, &own);
	struct row *row;

	if (code == MPI_SUCCESS)
		code = check_key(key);
	if (code == MPI_SUCCESS) {
		pthread_mutex_lock(&info_lock);
		row = find_row(own, key);
		if (row != NULL)
			row_drop(own, row);
		pthread_mutex_unlock(&info_lock);
		if (row == NULL)
			code = twmpi_fail(MPI_ERR_INFO_NOKEY, "there is no key '%s'", key);
	}
	return twmpi_end(NULL, "MPI_Info_delete", code);
}

/*
 * Returns the length of a value, and the part of the value that fits into `room` bytes and a NUL.
 */
static int look_up(MPIABI_Info handle, const char *key, int room, char *value, int *length_out,
		   int *flag)
{
	struct twmpi_info *info;
	int code = find_info(handle, &info);
	const struct row *row;

	if (code == MPI_SUCCESS)
		code = check_key(key);
	if (code == MPI_SUCCESS && room < 0)
		code = twmpi_fail(MPI_ERR_ARG, "the room for the value is %d", room);
	if (code != MPI_SUCCESS)
		return code;
	pthread_mutex_lock(&info_lock);
	row = find_row(info, key);
	*flag = row != NULL;
	if (row != NULL && length_out != NULL)
		*length_out = (int)strlen(row->value);
	if (row != NULL && value != NULL)
		snprintf(value, (size_t)room + 1, "%s", row->value);
	pthread_mutex_unlock(&info_lock);
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Info_get(MPIABI_Info info, const char *key, int valuelen, char *value,
				 int *flag)
{
	return twmpi_end(NULL, "MPI_Info_get", look_up(info, key, valuelen, value, NULL, flag));
}

TWMPI_PUBLIC int MPIABI_Info_get_valuelen(MPIABI_Info info, const char *key, int *valuelen,
					  int *flag)
{
	return twmpi_end(NULL, "MPI_Info_get_valuelen",
			 look_up(info, key, 0, NULL, valuelen, flag));
}

TWMPI_PUBLIC int MPIABI_Info_get_nkeys(MPIABI_Info info, int *nkeys)
{
	struct twmpi_info *found;
	int code = find_info(info, &found);

	if (code == MPI_SUCCESS) {
		pthread_mutex_lock(&info_lock);
		*nkeys = (int)found->count;
		pthread_mutex_unlock(&info_lock);
	}
	return twmpi_end(NULL, "MPI_Info_get_nkeys", code);
}

TWMPI_PUBLIC int MPIABI_Info_get_nthkey(MPIABI_Info info, int n, char *key)
{
	struct twmpi_info *found;
	int code = find_info(info, &found);
	uint32_t count = 0;

	if (code == MPI_SUCCESS) {
		pthread_mutex_lock(&info_lock);
		count = found->count;
		if (n >= 0 && (uint32_t)n < count)
			snprintf(key, TWMPI_INFO_KEY, "%s", found->rows[n].key);
		pthread_mutex_unlock(&info_lock);
		if (n < 0 || (uint32_t)n >= count)
			code = twmpi_fail(MPI_ERR_ARG, "the key number %d of %u", n, count);
	}
	return twmpi_end(NULL, "MPI_Info_get_nthkey", code);
}

/* Sets the hints of a communicator; duplicates inherit them. */
TWMPI_PUBLIC int MPIABI_Comm_set_info(MPIABI_Comm comm, MPIABI_Info info)
{
	struct twmpi_info *taken, *before;
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS)
		code = twmpi_info_take(info, &taken);
	if (code == MPI_SUCCESS) {
		pthread_mutex_lock(&c->lock);
		before = c->info;
		c->info = taken;
		pthread_mutex_unlock(&c->lock);
		twmpi_info_free(before);
	}
	return twmpi_end(c, "MPI_Comm_set_info", code);
}

TWMPI_PUBLIC int MPIABI_Comm_get_info(MPIABI_Comm comm, MPIABI_Info *info)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS) {
		pthread_mutex_lock(&c->lock);
		code = twmpi_info_show(c->info, info);
		pthread_mutex_unlock(&c->lock);
	}
	return twmpi_end(c, "MPI_Comm_get_info", code);
}
