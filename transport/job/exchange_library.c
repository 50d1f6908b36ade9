/*
 * exchange_library.c - libpmix and libpmi2, loaded when a launcher serves them.
 *
 * Their headers are not needed: the few types that are passed are declared here, by their stable
 * ABIs.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "transport/job/bootstrap_exchange.h"

#define KEY "towline-store"

/* PMIx 2 and later. */
#define PMIX_STRING        3
#define PMIX_UINT32        14
#define PMIX_GLOBAL        3
#define PMIX_RANK_WILDCARD (UINT32_MAX - 1)

struct pmix_proc {
	char nspace[256];
	uint32_t rank;
};

struct pmix_value {
	uint16_t type;
	union {
		char *string;
		uint32_t u32;
		uint64_t room[8]; /* larger than any member of theirs */
	} data;
};

struct pmix {
	void *library;
	struct pmix_proc self;
	int (*init)(struct pmix_proc *self, void *info, size_t count);
	int (*finalize)(const void *info, size_t count);
	int (*put)(uint8_t scope, const char *key, struct pmix_value *value);
	int (*commit)(void);
	int (*fence)(const struct pmix_proc *procs, size_t count, const void *info, size_t infos);
	int (*get)(const struct pmix_proc *of, const char *key, const void *info, size_t count,
		   struct pmix_value **value_out);
	const char *(*error_string)(int status);
};

/* ISO C has no cast from the result of dlsym to a function. */
static bool find_symbol(void *library, const char *name, void *function_out)
{
	void **out = function_out;

	*out = dlsym(library, name);
	return *out != NULL;
}

static int load_library(const char *const *names, const char *what, void **library_out)
{
	for (; *names != NULL; names++) {
		*library_out = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
		if (*library_out != NULL)
			return TOW_OK;
	}
	return twi_error(TOW_ENOTSUP, "%s cannot be loaded (%.160s); install it, or set TOW_STORE",
			 what, dlerror());
}

static int pmix_failed(const struct pmix *pmix, const char *call, int code)
{
	return twi_error(TOW_ESYSTEM, "%s: %s (%d)", call, pmix->error_string(code), code);
}

/*
 * How often this library has initialized PMIx. PMIx counts as well, so the program may do so, too.
 */
static _Atomic unsigned pmix_opened;

static int pmix_open(struct pmix *pmix)
{
	static const char *const names[] = { "libpmix.so.2", "libpmix.so", NULL };
	int status = load_library(names, "libpmix.so.2", &pmix->library), code;

	if (status < 0)
		return status;
	if (!find_symbol(pmix->library, "PMIx_Init", &pmix->init) ||
	    !find_symbol(pmix->library, "PMIx_Finalize", &pmix->finalize) ||
	    !find_symbol(pmix->library, "PMIx_Put", &pmix->put) ||
	    !find_symbol(pmix->library, "PMIx_Commit", &pmix->commit) ||
	    !find_symbol(pmix->library, "PMIx_Fence", &pmix->fence) ||
	    !find_symbol(pmix->library, "PMIx_Get", &pmix->get) ||
	    !find_symbol(pmix->library, "PMIx_Error_string", &pmix->error_string))
		return twi_error(TOW_ENOTSUP, "libpmix lacks a function: %.160s", dlerror());
	code = pmix->init(&pmix->self, NULL, 0);
	if (code != 0)
		return pmix_failed(pmix, "PMIx_Init", code);
	atomic_fetch_add(&pmix_opened, 1);
	return TOW_OK;
}

static int pmix_get(const struct pmix *pmix, uint32_t rank, const char *key, uint16_t type,
		    struct pmix_value **out)
{
	struct pmix_proc of = pmix->self;
	int code;

	of.rank = rank;
	*out = NULL;
	code = pmix->get(&of, key, NULL, 0, out);
	if (code != 0 || *out == NULL)
		return pmix_failed(pmix, "PMIx_Get", code);
	if ((*out)->type != type)
		return twi_error(TOW_EPROTOCOL, "PMIx_Get: %s is of type %u, expected %u", key,
				 (*out)->type, type);
	return TOW_OK;
}

/*
 * PMIx stays initialized until twi_pmix_finish. After finalize no fence waits for the process any
 * more, and other ranks still ask for rank 0's value.
 */
int twi_pmix_size(int64_t rank, int64_t *size_out)
{
	struct pmix pmix = { 0 };
	struct pmix_value *value;
	int status = pmix_open(&pmix);

	(void)rank;
	if (status < 0)
		return status;
	status = pmix_get(&pmix, PMIX_RANK_WILDCARD, "pmix.job.size", PMIX_UINT32, &value);
	if (status == TOW_OK) {
		*size_out = value->data.u32;
		free(value);
	}
	return status;
}

static int pmix_put(const struct pmix *pmix, char *address)
{
	struct pmix_value value = { .type = PMIX_STRING, .data.string = address };
	int code = pmix->put(PMIX_GLOBAL, KEY, &value);

	if (code != 0)
		return pmix_failed(pmix, "PMIx_Put", code);
	code = pmix->commit();
	return code == 0 ? TOW_OK : pmix_failed(pmix, "PMIx_Commit", code);
}

static int pmix_take(const struct pmix *pmix, char address[TWI_STORE_BYTES])
{
	struct pmix_value *value;
	int status = pmix_get(pmix, 0, KEY, PMIX_STRING, &value);

	if (status < 0)
		return status;
	snprintf(address, TWI_STORE_BYTES, "%s", value->data.string);
	free(value->data.string);
	free(value);
	return TOW_OK;
}

int twi_pmix_exchange(int64_t rank, char address[TWI_STORE_BYTES])
{
	struct pmix pmix = { 0 };
	int status = pmix_open(&pmix), code;

	if (status == TOW_OK && rank == 0)
		status = pmix_put(&pmix, address);
	if (status < 0)
		return status;
	/* Before rank 0's put, some servers wait and others report that the value is missing. */
	code = pmix.fence(NULL, 0, NULL, 0);
	if (code != 0)
		return pmix_failed(&pmix, "PMIx_Fence", code);
	return rank == 0 ? TOW_OK : pmix_take(&pmix, address);
}

int twi_pmix_finish(void)
{
	struct pmix pmix = { 0 };
	int status = pmix_open(&pmix);

	if (status < 0)
		return status;
	for (unsigned left = atomic_exchange(&pmix_opened, 0); left > 0; left--)
		pmix.finalize(NULL, 0);
	return TOW_OK;
}

struct pmi2 {
	int (*init)(int *spawned, int *size, int *rank, int *application);
	int (*put)(const char *key, const char *value);
	int (*fence)(void);
	int (*get)(const char *job, int source, const char *key, char *value, int room,
		   int *length_out);
};

static int pmi2_open(struct pmi2 *pmi2)
{
	static const char *const names[] = { "libpmi2.so.0", "libpmi2.so", NULL };
	int spawned = 0, size = 0, rank = 0, application = 0, code;
	void *library;
	int status = load_library(names, "libpmi2.so.0", &library);

	if (status < 0)
		return status;
	if (!find_symbol(library, "PMI2_Init", &pmi2->init) ||
	    !find_symbol(library, "PMI2_KVS_Put", &pmi2->put) ||
	    !find_symbol(library, "PMI2_KVS_Fence", &pmi2->fence) ||
	    !find_symbol(library, "PMI2_KVS_Get", &pmi2->get))
		return twi_error(TOW_ENOTSUP, "libpmi2 lacks a function: %.160s", dlerror());
	code = pmi2->init(&spawned, &size, &rank, &application);
	return code == 0 ? TOW_OK : twi_error(TOW_ESYSTEM, "PMI2_Init fails with %d", code);
}

int twi_pmi2_exchange(int64_t rank, char address[TWI_STORE_BYTES])
{
	struct pmi2 pmi2 = { 0 };
	int length = 0, code;
	int status = pmi2_open(&pmi2);

	if (status < 0)
		return status;
	if (rank == 0 && (code = pmi2.put(KEY, address)) != 0)
		return twi_error(TOW_ESYSTEM, "PMI2_KVS_Put fails with %d", code);
	code = pmi2.fence();
	if (code != 0)
		return twi_error(TOW_ESYSTEM, "PMI2_KVS_Fence fails with %d", code);
	if (rank == 0)
		return TOW_OK;
	code = pmi2.get(NULL, -1, KEY, address, TWI_STORE_BYTES, &length);
	if (code != 0 || length <= 0)
		return twi_error(TOW_ESYSTEM, "PMI2_KVS_Get fails with %d", code);
	return TOW_OK;
}
