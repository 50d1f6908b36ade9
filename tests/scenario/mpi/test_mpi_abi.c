/*
 * test_mpi_abi.c - plugins/mpi as MPItrampoline loads it: every name of the ABI is there, and what
 * stands behind it is what the ABI says. That the lists of the plugin are complete is judged by
 * counts and sums of MPItrampoline's own lists of version 2.10: names, hashed, in no order.
 */
#include "twt.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "plugins/mpi/abi.h"

#define CONSTANTS     260u
#define CONSTANTS_SUM 0x416e9b505fe04216u
#define FUNCTIONS     375u
#define FUNCTIONS_SUM 0xa9a52825688c4f04u

struct name {
	const char *text;
	bool is_handle; /* of a value that no other of its kind has */
};

static const struct name constants[] = {
#define TWMPI_INTEGER(name, value)               { "MPIABI_" #name, false },
#define TWMPI_HANDLE(kind, name, number)         { "MPIABI_" #name, true },
#define TWMPI_OFFSET(name, value)                { "MPIABI_" #name, false },
#define TWMPI_POINTER(type, name, value)         { "MPIABI_" #name, false },
#define TWMPI_FUNCTION(type, name, value)        { "MPIABI_" #name, false },
#define TWMPI_ERROR(name, value, text)           { "MPIABI_" #name, false },
#define TWMPI_TYPE(number, name, c, base, bytes) { "MPIABI_" #name, true },
#include "plugins/mpi/constant.def"
#include "plugins/mpi/error.def"
#include "plugins/mpi/type.def"
};

static const struct name functions[] = {
#define TWMPI_WRITTEN(result, name, parameters)   { "MPIABI_" #name, false },
#define TWMPI_EXTENSION(name)                     { "MPIXABI_" #name, false },
#define TWMPI_ABSENT_OF(name, parameters, handle) { "MPIABI_" #name, false },
#define TWMPI_ABSENT(name)                        { "MPIABI_" #name, false },
#include "plugins/mpi/function.def"
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void *library;

static uint64_t hash_name(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *text != '\0'; text++)
		hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
	return hash;
}

static void *find_symbol(const char *name)
{
	void *symbol = dlsym(library, name);

	if (symbol == NULL)
		fail_msg("%s is not there", name);
	return symbol;
}

static void names(void **state)
{
	uint64_t sum = 0;

	(void)state;
	assert_int_equal(COUNT(constants), CONSTANTS);
	for (size_t i = 0; i < COUNT(constants); i++) {
		sum += hash_name(constants[i].text);
		find_symbol(constants[i].text);
	}
	assert_int_equal(sum, CONSTANTS_SUM);
	sum = 0;
	assert_int_equal(COUNT(functions), FUNCTIONS);
	for (size_t i = 0; i < COUNT(functions); i++) {
		sum += hash_name(functions[i].text);
		find_symbol(functions[i].text);
	}
	assert_int_equal(sum, FUNCTIONS_SUM);
}

static int version_of(const char *name)
{
	return *(const int *)find_symbol(name);
}

static void versions(void **state)
{
	void (*export_constants)(void);

	(void)state;
	assert_int_equal(version_of("mpiabi_version_major"), 2);
	assert_true(version_of("mpiabi_version_minor") >= 9); /* what jaxlib 0.10 asks for */
	assert_int_equal(version_of("mpiabi_version_patch"), 0);
	version_of("mpiwrapper_version_major");
	version_of("mpiwrapper_version_minor");
	version_of("mpiwrapper_version_patch");
	*(void **)&export_constants = find_symbol("mpiwrapper_export_fortran_constants_");
	export_constants();
}

/* Handles are told from each other, and fit into Fortran's integers. */
static void values(void **state)
{
	uintptr_t one, other;

	(void)state;
	for (size_t i = 0; i < COUNT(constants); i++) {
		if (!constants[i].is_handle)
			continue;
		one = *(const uintptr_t *)find_symbol(constants[i].text);
		assert_true(one > 0 && one <= INT32_MAX);
		for (size_t j = 0; j < i; j++) {
			if (!constants[j].is_handle)
				continue;
			other = *(const uintptr_t *)find_symbol(constants[j].text);
			if (one == other)
				fail_msg("%s is %s", constants[i].text, constants[j].text);
		}
	}
	assert_int_equal(version_of("MPIABI_SUCCESS"), 0);
	assert_true(version_of("MPIABI_ERR_LASTCODE") >= version_of("MPIABI_ERR_WIN"));
}

/* Before MPI is initialised few may be called; those of an absent function end the process. */
static void early(void **state)
{
	int (*initialized)(int *flag), (*query)(void), flag = 1;
	int (*type_size)(uintptr_t datatype, int *size), size = 0;

	(void)state;
	*(void **)&initialized = find_symbol("MPIABI_Initialized");
	*(void **)&query = find_symbol("MPIXABI_Query_cuda_support");
	*(void **)&type_size = find_symbol("MPIABI_Type_size");
	assert_int_equal(initialized(&flag), 0);
	assert_int_equal(flag, 0);
	assert_int_equal(query(), 0);
	assert_int_equal(type_size(*(const uintptr_t *)find_symbol("MPIABI_DOUBLE_INT"), &size), 0);
	assert_int_equal(size, 12);
}

static int setup(void **state)
{
	int flags = RTLD_LAZY | RTLD_LOCAL;
	char path[512];

	(void)state;
#ifndef TWT_SANITIZED /* which RTLD_DEEPBIND would pass by */
	flags |= RTLD_DEEPBIND;
#endif
	snprintf(path, sizeof(path), "%s/plugins/mpi/libmpiwrapper-towline.so",
		 getenv("TOW_TEST_BUILD"));
	library = dlopen(path, flags);
	if (library == NULL)
		printf("%s\n", dlerror());
	return library == NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(versions),
		cmocka_unit_test(values),
		cmocka_unit_test(early),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
