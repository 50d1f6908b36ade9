/*
 * pjrt_api.h - our own declaration of the part of the PJRT C API that is used here.
 *
 * A plugin exports GetPjrtApi, which returns a table: its size, its version, and functions. New
 * functions are only appended. So a function is identified by its number, and exists if the table
 * is long enough. Each function takes one structure that begins with its size, and returns NULL or
 * an error object. The numbers and layouts are those of PJRT 0.67 to 0.115 (major version 0). A
 * plugin of another major version is refused.
 *
 *	PJRT_Api: | size | extensions | version: size ext major minor | fn 0 | fn 1 | ... |
 *	            0      8            16                               40     48
 */
#ifndef TWI_PJRT_API_H
#define TWI_PJRT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum twi_pjrt_function {
	TWI_PJRT_ERROR_DESTROY = 0,
	TWI_PJRT_ERROR_MESSAGE = 1,
	TWI_PJRT_ERROR_GET_CODE = 2,
	TWI_PJRT_PLUGIN_INITIALIZE = 3,
	TWI_PJRT_EVENT_DESTROY = 5,
	TWI_PJRT_EVENT_IS_READY = 6,
	TWI_PJRT_EVENT_ERROR = 7,
	TWI_PJRT_EVENT_ON_READY = 9,
	TWI_PJRT_CLIENT_CREATE = 10,
	TWI_PJRT_CLIENT_DESTROY = 11,
	TWI_PJRT_CLIENT_PLATFORM_NAME = 12,
	TWI_PJRT_CLIENT_ADDRESSABLE_DEVICES = 16,
	TWI_PJRT_BUFFER_FROM_HOST_BUFFER = 22,
	TWI_PJRT_BUFFER_DESTROY = 58,
	TWI_PJRT_BUFFER_TO_HOST_BUFFER = 70,
	TWI_PJRT_BUFFER_READY_EVENT = 72,
	TWI_PJRT_BUFFER_COPY_RAW_TO_HOST = 100,
	TWI_PJRT_CLIENT_DMA_MAP = 110,
	TWI_PJRT_CLIENT_DMA_UNMAP = 111,
};

enum {
	TWI_PJRT_CODE_PERMISSION_DENIED = 7,
	TWI_PJRT_CODE_RESOURCE_EXHAUSTED = 8,
	TWI_PJRT_CODE_UNIMPLEMENTED = 12,

	TWI_PJRT_TYPE_U8 = 6,
	TWI_PJRT_IMMUTABLE_UNTIL_TRANSFER_COMPLETES = 1,
};

/* The head of every argument structure. */
struct twi_pjrt_head {
	size_t struct_size;
	void *extension;
};

typedef void *(*twi_pjrt_call)(void *arguments); /* returns an error object or NULL */

struct twi_pjrt_table {
	size_t struct_size;
	void *extension;
	struct {
		size_t struct_size;
		void *extension;
		int major, minor;
	} version;
	twi_pjrt_call function[];
};

/* Arguments with one object, in or out: for destroy, error, and, without object, initialise. */
struct twi_pjrt_object_args {
	struct twi_pjrt_head head;
	void *object;
};

struct twi_pjrt_error_message_args {
	struct twi_pjrt_head head;
	const void *error;
	const char *text; /* out */
	size_t bytes;     /* out */
};

struct twi_pjrt_error_code_args {
	struct twi_pjrt_head head;
	const void *error;
	int code; /* out */
};

struct twi_pjrt_ready_args {
	struct twi_pjrt_head head;
	void *event;
	bool ready; /* out */
};

struct twi_pjrt_on_ready_args {
	struct twi_pjrt_head head;
	void *event;
	void (*callback)(void *error, void *argument); /* the callee owns the error */
	void *argument;
};

struct twi_pjrt_client_create_args {
	struct twi_pjrt_head head;
	const void *options;
	size_t option_count;
	void *kv_get, *kv_get_arg, *kv_put, *kv_put_arg;
	void *client; /* out */
	void *kv_try_get, *kv_try_get_arg;
};

struct twi_pjrt_name_args {
	struct twi_pjrt_head head;
	void *client;
	const char *text; /* out */
	size_t bytes;     /* out */
};

struct twi_pjrt_devices_args {
	struct twi_pjrt_head head;
	void *client;
	void *const *devices; /* out */
	size_t count;         /* out */
};

struct twi_pjrt_dma_map_args {
	struct twi_pjrt_head head;
	void *client;
	void *data;
	size_t bytes; /* not in DmaUnmap */
};

struct twi_pjrt_from_host_args {
	struct twi_pjrt_head head;
	void *client;
	const void *data;
	int type;
	const int64_t *dims;
	size_t dim_count;
	const int64_t *strides;
	size_t stride_count;
	int semantics;
	void *device;
	void *memory;
	void *layout;
	void *done_with_host; /* out: an event */
	void *buffer;         /* out */
};

struct twi_pjrt_to_host_args {
	struct twi_pjrt_head head;
	void *buffer;
	void *layout;
	void *to;
	size_t bytes;
	void *event; /* out */
};

struct twi_pjrt_copy_raw_args {
	struct twi_pjrt_head head;
	void *buffer;
	void *to;
	int64_t offset;
	int64_t bytes;
	void *event; /* out */
};

struct twi_pjrt_buffer_event_args {
	struct twi_pjrt_head head;
	void *buffer;
	void *event; /* out */
};

/* DmaUnmap's structure ends before `bytes`. A plugin may check that the size is not larger. */
#define TWI_PJRT_DMA_UNMAP_BYTES offsetof(struct twi_pjrt_dma_map_args, bytes)

/* A loaded plugin. */
struct twi_pjrt {
	const struct twi_pjrt_table *table;
	char path[512];
};

/*
 * Loads a plugin, checks its table and initialises it once in a process. The plugin stays loaded
 * forever, because plugins leave threads behind. TOW_OK; TOW_ENOTSUP with what is missing or wrong;
 * TOW_EDEVICE.
 */
int twi_pjrt_load(const char *path, struct twi_pjrt *out);

/* Returns whether the plugin's table has that function. */
bool twi_pjrt_has(const struct twi_pjrt *pjrt, enum twi_pjrt_function function);

/*
 * Calls a function. TOW_OK; TOW_ENOTSUP if the plugin lacks it or says "unimplemented"; TOW_EPERM;
 * TOW_ENOMEM; TOW_EDEVICE, with the plugin's message. `what` names the call in messages.
 */
int twi_pjrt_call_named(const struct twi_pjrt *pjrt, enum twi_pjrt_function function, void *args,
			size_t bytes, const char *what);
#define twi_pjrt_do(pjrt, function, args, what)                                                    \
	twi_pjrt_call_named(pjrt, function, args, sizeof(*(args)), what)

/* Calls a function that destroys an object. No caller could handle its failure. */
void twi_pjrt_destroy(const struct twi_pjrt *pjrt, enum twi_pjrt_function function, void *object);

/* Destroys an error object of the plugin. NULL is legal. */
void twi_pjrt_error_destroy(const struct twi_pjrt *pjrt, void *error);

#endif
