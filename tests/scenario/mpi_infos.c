/*
 * mpi_infos.c - what mpi_program's part "comms" holds info objects to.
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
