/*
 * pjrt_api.c - loads a PJRT plugin and calls it. See pjrt_api.h.
 */
#include "transport/device/pjrt_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "diag/base/error.h"
#include <internal/base.h>
#include <towline/status.h>

#define MAJOR       0
#define PLUGINS_MAX 32

_Static_assert(offsetof(struct twi_pjrt_table, function) == 40, "the layout of PJRT_Api");

/* Tables of plugins that are initialised: a plugin must not be initialised twice. */
static struct {
	pthread_mutex_t lock;
	const struct twi_pjrt_table *table[PLUGINS_MAX];
	unsigned count;
} started = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool twi_pjrt_has(const struct twi_pjrt *pjrt, enum twi_pjrt_function function)
{
	size_t end = offsetof(struct twi_pjrt_table, function) +
		     ((size_t)function + 1) * sizeof(twi_pjrt_call);

	return pjrt->table->struct_size >= end && pjrt->table->function[function] != NULL;
}

static int status_of(int code)
{
	switch (code) {
	case TWI_PJRT_CODE_PERMISSION_DENIED:
		return TOW_EPERM;
	case TWI_PJRT_CODE_RESOURCE_EXHAUSTED:
		return TOW_ENOMEM;
	case TWI_PJRT_CODE_UNIMPLEMENTED:
		return TOW_ENOTSUP;
	default:
		return TOW_EDEVICE;
	}
}

void twi_pjrt_error_destroy(const struct twi_pjrt *pjrt, void *error)
{
	struct twi_pjrt_object_args args = { .head.struct_size = sizeof(args), .object = error };

	if (error != NULL && twi_pjrt_has(pjrt, TWI_PJRT_ERROR_DESTROY))
		pjrt->table->function[TWI_PJRT_ERROR_DESTROY](&args); /* returns nothing */
}

/* Reads the plugin's error object and destroys it. */
static int pjrt_failure(const struct twi_pjrt *pjrt, void *error, const char *what)
{
	struct twi_pjrt_error_code_args code = { .head.struct_size = sizeof(code), .error = error };
	struct twi_pjrt_error_message_args message = { .head.struct_size = sizeof(message),
						       .error = error };
	int status = TOW_EDEVICE;

	if (twi_pjrt_has(pjrt, TWI_PJRT_ERROR_GET_CODE)) {
		void *second = pjrt->table->function[TWI_PJRT_ERROR_GET_CODE](&code);

		if (second == NULL)
			status = status_of(code.code);
	}
	if (twi_pjrt_has(pjrt, TWI_PJRT_ERROR_MESSAGE))
		pjrt->table->function[TWI_PJRT_ERROR_MESSAGE](&message);
	twi_error(status, "device pjrt: %s: %.*s (code %d)", what,
		  message.text == NULL ? 0 : (int)twi_min(message.bytes, 200u), message.text,
		  code.code);
	twi_pjrt_error_destroy(pjrt, error);
	return status;
}

int twi_pjrt_call_named(const struct twi_pjrt *pjrt, enum twi_pjrt_function function, void *args,
			size_t bytes, const char *what)
{
	struct twi_pjrt_head *head = args;
	void *error;

	if (!twi_pjrt_has(pjrt, function))
		return twi_error(TOW_ENOTSUP, "device pjrt: %.200s (PJRT %d.%d) has no %s",
				 pjrt->path, pjrt->table->version.major, pjrt->table->version.minor,
				 what);
	head->struct_size = bytes;
	head->extension = NULL;
	error = pjrt->table->function[function](args);
	return error == NULL ? TOW_OK : pjrt_failure(pjrt, error, what);
}

void twi_pjrt_destroy(const struct twi_pjrt *pjrt, enum twi_pjrt_function function, void *object)
{
	struct twi_pjrt_object_args args = { .object = object };

	if (object != NULL)
		(void)twi_pjrt_do(pjrt, function, &args, "destroying an object");
}

static int check_table(const struct twi_pjrt *pjrt)
{
	const struct twi_pjrt_table *table = pjrt->table;

	if (table == NULL)
		return twi_error(TOW_ENOTSUP, "device pjrt: GetPjrtApi of %.200s returned NULL",
				 pjrt->path);
	if (table->struct_size < offsetof(struct twi_pjrt_table, function) ||
	    table->version.struct_size < sizeof(table->version))
		return twi_error(TOW_ENOTSUP,
				 "device pjrt: the table of %.200s says that it has %zu bytes, and "
				 "%zu of version; that is no PJRT",
				 pjrt->path, table->struct_size, table->version.struct_size);
	if (table->version.major != MAJOR)
		return twi_error(
			TOW_ENOTSUP,
			"device pjrt: %.200s is PJRT %d.%d; only major version %d is known",
			pjrt->path, table->version.major, table->version.minor, MAJOR);
	return TOW_OK;
}

/* Initialises a plugin, unless that was done before. Holds the lock. */
static int initialise_plugin(const struct twi_pjrt *pjrt)
{
	struct twi_pjrt_object_args args = { .object = NULL };
	int status;

	for (unsigned i = 0; i < started.count; i++) {
		if (started.table[i] == pjrt->table)
			return TOW_OK;
	}
	if (started.count == PLUGINS_MAX)
		return twi_error(TOW_EBUSY, "device pjrt: more than %d plugins", PLUGINS_MAX);
	status = twi_pjrt_call_named(pjrt, TWI_PJRT_PLUGIN_INITIALIZE, &args, sizeof(args.head),
				     "PJRT_Plugin_Initialize");
	if (status == TOW_OK)
		started.table[started.count++] = pjrt->table;
	return status;
}

int twi_pjrt_load(const char *path, struct twi_pjrt *out)
{
	/* ISO C has no cast from dlsym's result to a function pointer. */
	union {
		void *object;
		const struct twi_pjrt_table *(*get)(void);
	} entry;
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int status;

	*out = (struct twi_pjrt){ .table = NULL };
	snprintf(out->path, sizeof(out->path), "%s", path);
	if (handle == NULL)
		return twi_error(TOW_ENOTSUP, "device pjrt: no plugin: %.300s", dlerror());
	entry.object = dlsym(handle, "GetPjrtApi");
	if (entry.object == NULL) {
		dlclose(handle); /* not a plugin, and not called yet */
		return twi_error(TOW_ENOTSUP, "device pjrt: %.200s has no GetPjrtApi", path);
	}
	out->table = entry.get();
	status = check_table(out);
	if (status < 0)
		return status;
	pthread_mutex_lock(&started.lock);
	status = initialise_plugin(out);
	pthread_mutex_unlock(&started.lock);
	return status;
}
