/*
 * attribute.c - attributes of communicators: values of the program under keys of its own. The
 * program's functions copy them when a communicator is duplicated, and delete them at its end.
 */
#include "plugins/mpi/twmpi.h"

#include <stdlib.h>

#define FIRST_KEY 64 /* lower keys are predefined */

struct key {
	struct key *next;
	int number;
	uint32_t uses; /* attributes with this key, and 1 until the key is freed */
	MPIABI_Comm_copy_attr_function *copy;
	MPIABI_Comm_delete_attr_function *destroy;
	void *extra;
};

struct twmpi_attribute {
	struct twmpi_attribute *next;
	struct key *key;
	void *value;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects keys and all lists */
static struct key *keys;
static int next_key = FIRST_KEY;

/* The lock is held. A freed key is not found, though attributes may still use it. */
static struct key *find_key(int number)
{
	for (struct key *key = keys; key != NULL; key = key->next)
		if (key->number == number)
			return key;
	return NULL;
}

/* The lock is held. */
static void drop_key(struct key *key)
{
	if (--key->uses == 0)
		free(key);
}

/* The lock is held. Returns the link to the attribute, or the end of the list. */
static struct twmpi_attribute **find_link(struct twmpi_comm *comm, const struct key *key)
{
	struct twmpi_attribute **at = &comm->attributes;

	while (*at != NULL && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

/* Takes an attribute out of the list, and calls the program's function to delete its value. */
static int delete_attribute(struct twmpi_comm *comm, struct key *key)
{
	struct twmpi_attribute **at, *attribute;
	int code = MPI_SUCCESS, number = key->number;

	pthread_mutex_lock(&lock);
	at = find_link(comm, key);
	attribute = *at;
	if (attribute != NULL)
		*at = attribute->next;
	pthread_mutex_unlock(&lock);
	if (attribute == NULL)
		return MPI_SUCCESS;
	if (key->destroy != NULL)
		code = key->destroy(comm->handle, number, attribute->value, key->extra);
	pthread_mutex_lock(&lock);
	drop_key(key); /* the last attribute of a freed key ends the key */
	pthread_mutex_unlock(&lock);
	free(attribute);
	if (code == MPI_SUCCESS)
		return code;
	return twmpi_fail(MPI_ERR_OTHER,
			  "the function that deletes attribute %d "
			  "returned %d",
			  number, code);
}

/* The lock is held. */
static int put_attribute(struct twmpi_comm *comm, struct key *key, void *value)
{
	struct twmpi_attribute *attribute = calloc(1, sizeof(*attribute));

	if (attribute == NULL)
		return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for an attribute");
	*attribute = (struct twmpi_attribute){ comm->attributes, key, value };
	comm->attributes = attribute;
	key->uses++;
	return MPI_SUCCESS;
}

int twmpi_attributes_end(struct twmpi_comm *comm)
{
	int code = MPI_SUCCESS, deleted;

	while (comm->attributes != NULL) {
		deleted = delete_attribute(comm, comm->attributes->key);
		if (deleted != MPI_SUCCESS)
			code = deleted;
	}
	return code;
}

int twmpi_attributes_copy(struct twmpi_comm *from, struct twmpi_comm *to)
{
	int code = MPI_SUCCESS, flag;
	void *value;

	for (struct twmpi_attribute *at = from->attributes; at != NULL; at = at->next) {
		if (at->key->copy == NULL)
			continue;
		flag = 0;
		if (at->key->copy(from->handle, at->key->number, at->key->extra, at->value, &value,
				  &flag) != MPI_SUCCESS)
			return twmpi_fail(MPI_ERR_OTHER,
					  "the function that copies attribute %d has failed",
					  at->key->number);
		pthread_mutex_lock(&lock);
		if (flag)
			code = put_attribute(to, at->key, value);
		pthread_mutex_unlock(&lock);
		if (code != MPI_SUCCESS)
			return code;
	}
	return MPI_SUCCESS;
}

bool twmpi_attribute_get(struct twmpi_comm *comm, int number, void **value_out, int *flag_out)
{
	struct twmpi_attribute *attribute = NULL;
	struct key *key;

	pthread_mutex_lock(&lock);
	key = find_key(number);
	if (key != NULL)
		attribute = *find_link(comm, key);
	*flag_out = attribute != NULL;
	if (attribute != NULL)
		*value_out = attribute->value;
	pthread_mutex_unlock(&lock);
	return key != NULL;
}

TWMPI_PUBLIC int MPIABI_Comm_create_keyval(MPIABI_Comm_copy_attr_function *comm_copy_attr_fn,
					   MPIABI_Comm_delete_attr_function *comm_delete_attr_fn,
					   int *comm_keyval, void *extra_state)
{
	struct key *key = calloc(1, sizeof(*key));

	if (key == NULL)
		return twmpi_end(NULL, "MPI_Comm_create_keyval",
				 twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a key"));
	pthread_mutex_lock(&lock);
	*key = (struct key){ keys,       next_key++, 1, comm_copy_attr_fn, comm_delete_attr_fn,
			     extra_state };
	keys = key;
	*comm_keyval = key->number;
	pthread_mutex_unlock(&lock);
	return MPI_SUCCESS;
}

static int fail_key(int number)
{
	return twmpi_fail(MPI_ERR_KEYVAL, "%d is not a key of the program, or was freed", number);
}

TWMPI_PUBLIC int MPIABI_Comm_free_keyval(int *comm_keyval)
{
	struct key **at = &keys, *key;

	pthread_mutex_lock(&lock);
	while (*at != NULL && (*at)->number != *comm_keyval)
		at = &(*at)->next;
	key = *at;
	if (key != NULL) {
		*at = key->next;
		drop_key(key);
	}
	pthread_mutex_unlock(&lock);
	if (key == NULL)
		return twmpi_end(NULL, "MPI_Comm_free_keyval", fail_key(*comm_keyval));
	*comm_keyval = MPI_KEYVAL_INVALID;
	return MPI_SUCCESS;
}

/* Returns the key without a reference: the program must not free it during the call. */
static struct key *look_up(int number)
{
	struct key *key;

	pthread_mutex_lock(&lock);
	key = find_key(number);
	pthread_mutex_unlock(&lock);
	return key;
}

TWMPI_PUBLIC int MPIABI_Comm_set_attr(MPIABI_Comm comm, int comm_keyval, void *attribute_val)
{
	struct key *key = look_up(comm_keyval);
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS && key == NULL)
		code = fail_key(comm_keyval);
	if (code == MPI_SUCCESS)
		code = delete_attribute(c, key); /* deletes the old value */
	if (code == MPI_SUCCESS) {
		pthread_mutex_lock(&lock);
		code = put_attribute(c, key, attribute_val);
		pthread_mutex_unlock(&lock);
	}
	return twmpi_end(c, "MPI_Comm_set_attr", code);
}

TWMPI_PUBLIC int MPIABI_Comm_delete_attr(MPIABI_Comm comm, int comm_keyval)
{
	struct key *key = look_up(comm_keyval);
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS && key == NULL)
		code = fail_key(comm_keyval);
	if (code == MPI_SUCCESS)
		code = delete_attribute(c, key);
	return twmpi_end(c, "MPI_Comm_delete_attr", code);
}
