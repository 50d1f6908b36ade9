/*
 * mpi_infos.c - what mpi_program's part "comms" holds info objects and attributes to.
 */
#include "mpi_program.h"

static void expect_value(MPIABI_Info info, const char *key, int room, const char *wanted)
{
	char value[TWMPI_INFO_VALUE];
	int flag, length;

	CALL(MPIABI_Info_get(info, key, room, value, &flag));
	expect(flag == (wanted != NULL));
	expect(wanted == NULL || strcmp(value, wanted) == 0);
	length = -1;
	CALL(MPIABI_Info_get_valuelen(info, key, &length, &flag));
	expect(flag == (wanted != NULL) && (wanted != NULL) == (length >= 0));
}

/* What mpi4py's test_info asks, and what is refused. */
static void set_infos(void)
{
	char key[TWMPI_INFO_KEY], wide[TWMPI_INFO_VALUE + 1];
	MPIABI_Info info, copy;
	int count, flag, length;

	CALL(MPIABI_Info_create(&info));
	CALL(MPIABI_Info_get_nkeys(info, &count));
	expect(count == 0 && info != MPI_INFO_NULL);
	CALL(MPIABI_Info_set(info, "first", "1"));
	CALL(MPIABI_Info_set(info, "second", "two"));
	CALL(MPIABI_Info_set(info, "third", ""));
	CALL(MPIABI_Info_dup(info, &copy));
	CALL(MPIABI_Info_set(info, "second", "another"));
	expect_value(info, "second", 100, "another");
	expect_value(copy, "second", 100, "two");
	expect_value(info, "second", 3, "ano");
	expect_value(info, "third", 0, "");
	CALL(MPIABI_Info_get_valuelen(info, "second", &length, &flag));
	expect(flag && length == 7);
	expect_value(info, "fourth", 100, NULL);
	CALL(MPIABI_Info_delete(info, "first"));
	CALL(MPIABI_Info_get_nkeys(info, &count));
	CALL(MPIABI_Info_get_nthkey(info, 0, key));
	expect(count == 2 && strcmp(key, "second") == 0);
	CALL(MPIABI_Info_get_nthkey(info, 1, key));
	expect(strcmp(key, "third") == 0);
	FAILS(MPIABI_Info_get_nthkey(info, 2, key), MPI_ERR_ARG, "number 2 of 2");
	FAILS(MPIABI_Info_get_nthkey(info, -1, key), MPI_ERR_ARG, "number -1");
	FAILS(MPIABI_Info_delete(info, "first"), MPI_ERR_INFO_NOKEY, "no key 'first'");
	memset(wide, 'w', sizeof(wide) - 1);
	wide[sizeof(wide) - 1] = '\0';
	FAILS(MPIABI_Info_set(info, "key", wide), MPI_ERR_INFO_VALUE, "more than 1023 bytes");
	CALL(MPIABI_Info_set(info, "key", wide + 1));
	expect_value(info, "key", TWMPI_INFO_VALUE - 1, wide + 1);
	wide[TWMPI_INFO_KEY] = '\0';
	FAILS(MPIABI_Info_set(info, wide, "v"), MPI_ERR_INFO_KEY, "the key has 256 bytes");
	CALL(MPIABI_Info_set(info, wide + 1, "v"));
	FAILS(MPIABI_Info_set(info, "", "v"), MPI_ERR_INFO_KEY, "empty");
	FAILS(MPIABI_Info_get(info, "key", -1, wide, &flag), MPI_ERR_ARG, "room");
	CALL(MPIABI_Info_free(&info));
	expect(info == MPI_INFO_NULL);
	FAILS(MPIABI_Info_free(&info), MPI_ERR_INFO, "MPI_INFO_NULL");
	expect_value(copy, "first", 100, "1");
	info = copy;
	CALL(MPIABI_Info_free(&copy));
	FAILS(MPIABI_Info_get_nkeys(info, &count), MPI_ERR_INFO, "was freed");
	CALL(MPIABI_Info_get_nkeys(MPI_INFO_ENV, &count));
	expect(count == 0);
	FAILS(MPIABI_Info_set(MPI_INFO_ENV, "key", "v"), MPI_ERR_INFO, "MPI_INFO_ENV");
	FAILS(MPIABI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, info,
				     &(MPIABI_Comm){ 0 }),
	      MPI_ERR_INFO, "was freed");
}

/* Hints of a communicator are its duplicates', unless these are given others. */
static void keep_infos(void)
{
	MPIABI_Info info, got;
	MPIABI_Comm first, dup, other;

	CALL(MPIABI_Info_create(&info));
	CALL(MPIABI_Info_set(info, "hint", "a"));
	CALL(MPIABI_Comm_dup_with_info(MPI_COMM_WORLD, info, &first));
	CALL(MPIABI_Info_set(info, "hint", "b"));
	CALL(MPIABI_Comm_dup(first, &dup));
	CALL(MPIABI_Comm_dup_with_info(first, MPI_INFO_NULL, &other));
	CALL(MPIABI_Comm_set_info(first, info));
	CALL(MPIABI_Info_free(&info));
	CALL(MPIABI_Comm_get_info(first, &got));
	expect_value(got, "hint", 10, "b");
	CALL(MPIABI_Info_free(&got));
	CALL(MPIABI_Comm_get_info(dup, &got));
	expect_value(got, "hint", 10, "a");
	CALL(MPIABI_Info_free(&got));
	CALL(MPIABI_Comm_get_info(other, &got));
	expect_value(got, "hint", 10, NULL);
	CALL(MPIABI_Info_free(&got));
	CALL(MPIABI_Barrier(other));
	CALL(MPIABI_Comm_free(&first));
	CALL(MPIABI_Comm_free(&dup));
	CALL(MPIABI_Comm_free(&other));
}

void use_infos(void)
{
	set_infos();
	keep_infos();
}

static int deleted;

/* The copy is one more; the key's extra says what is copied at all. */
static int copy_value(uintptr_t comm, int key, void *extra, void *in, void *out, int *flag)
{
	(void)comm;
	(void)key;
	*flag = *(int *)extra;
	*(void **)out = (char *)in + 1;
	return MPI_SUCCESS;
}

static int delete_value(uintptr_t comm, int key, void *value, void *extra)
{
	(void)comm;
	(void)key;
	(void)extra;
	deleted += (int)(intptr_t)value;
	return MPI_SUCCESS;
}

static void keep_attributes(void)
{
	int key, other, flag, yes = 1, no = 0;
	MPIABI_Comm first, dup;
	intptr_t value;

	CALL(MPIABI_Comm_create_keyval(copy_value, delete_value, &key, &yes));
	CALL(MPIABI_Comm_create_keyval(copy_value, delete_value, &other, &no));
	expect(key != other);
	CALL(MPIABI_Comm_dup(MPI_COMM_WORLD, &first));
	CALL(MPIABI_Comm_get_attr(first, key, &value, &flag));
	expect(!flag);
	CALL(MPIABI_Comm_set_attr(first, key, (void *)100));
	CALL(MPIABI_Comm_set_attr(first, other, (void *)1000));
	CALL(MPIABI_Comm_dup(first, &dup));
	CALL(MPIABI_Comm_get_attr(dup, key, &value, &flag));
	expect(flag && value == 101);
	CALL(MPIABI_Comm_get_attr(dup, other, &value, &flag));
	expect(!flag);
	CALL(MPIABI_Comm_set_attr(first, key, (void *)200));
	expect(deleted == 100);
	CALL(MPIABI_Comm_free(&dup));
	expect(deleted == 201);
	int freed = other;

	CALL(MPIABI_Comm_free_keyval(&other)); /* its attribute stays until the communicator ends */
	expect(other == MPI_KEYVAL_INVALID);
	FAILS(MPIABI_Comm_set_attr(first, freed, NULL), MPI_ERR_KEYVAL, "is not a key");
	CALL(MPIABI_Comm_delete_attr(first, key));
	expect(deleted == 401);
	CALL(MPIABI_Comm_free(&first));
	expect(deleted == 1401);
	CALL(MPIABI_Comm_free_keyval(&key));
}

static int refuse_copy(uintptr_t comm, int key, void *extra, void *in, void *out, int *flag)
{
	(void)comm;
	(void)key;
	(void)extra;
	(void)in;
	(void)out;
	*flag = 1;
	return 5;
}

/* The duplicate ends with the attribute that was copied before. */
static void fail_copies(void)
{
	int good, bad, yes = 1, before = deleted;
	MPIABI_Comm first, dup = MPI_COMM_SELF;
	char words[64];

	CALL(MPIABI_Comm_create_keyval(copy_value, delete_value, &good, &yes));
	CALL(MPIABI_Comm_create_keyval(refuse_copy, NULL, &bad, NULL));
	CALL(MPIABI_Comm_dup(MPI_COMM_WORLD, &first));
	CALL(MPIABI_Comm_set_attr(first, bad, NULL));
	CALL(MPIABI_Comm_set_attr(first, good, (void *)10)); /* the newest is copied first */
	snprintf(words, sizeof(words), "that copies attribute %d has failed", bad);
	FAILS(MPIABI_Comm_dup(first, &dup), MPI_ERR_OTHER, words);
	expect(dup == MPI_COMM_NULL);
	expect(deleted == before + 11);
	CALL(MPIABI_Comm_free(&first));
	CALL(MPIABI_Comm_free_keyval(&good));
	CALL(MPIABI_Comm_free_keyval(&bad));
}

static int refuse_delete(uintptr_t comm, int key, void *value, void *extra)
{
	(void)comm;
	(void)key;
	(void)value;
	(void)extra;
	return 5;
}

/* The communicator ends all the same. Its attribute was the last user of a freed key. */
static void fail_deletes(void)
{
	MPIABI_Comm comm;
	char words[64];
	int key;

	CALL(MPIABI_Comm_create_keyval(copy_value, refuse_delete, &key, NULL));
	CALL(MPIABI_Comm_dup(MPI_COMM_WORLD, &comm));
	CALL(MPIABI_Comm_set_attr(comm, key, NULL));
	snprintf(words, sizeof(words), "that deletes attribute %d returned 5", key);
	FAILS(MPIABI_Comm_delete_attr(comm, key), MPI_ERR_OTHER, words);
	CALL(MPIABI_Comm_set_attr(comm, key, NULL));
	CALL(MPIABI_Comm_free_keyval(&key));
	FAILS(MPIABI_Comm_free(&comm), MPI_ERR_OTHER, words);
	expect(comm == MPI_COMM_NULL);
}

void use_attributes(void)
{
	keep_attributes();
	fail_copies();
	fail_deletes();
}
