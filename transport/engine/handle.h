/*
 * handle.h - objects that users hold, and how a call recognizes a closed one: runtimes, endpoints,
 * peers, groups, channels and queues.
 *
 * Each object begins with a struct twi_handle, in memory with pages of its own. While the object
 * may be used, its word has its kind and a number that no other object has. When the object is
 * closed, by its user or with its runtime, the word is 0. When the library does not need the object
 * any more, its pages go back to the system, except the first. On that page only the handle is
 * left: the *husk*, so that a late call still reads a 0. The last TWI_HUSKS_KEPT husks of the
 * process are kept (a page each), and older ones are freed.
 *
 *	alloc -> open --close--> closing --free--> husk --TWI_HUSKS_KEPT later ones--> gone
 *
 * A check is one load of a cache line that the call needs anyway. Another thread may close what a
 * call uses. So the call checks again when it holds the engine, under which handles are closed.
 * What it reads in between, to find the engine, stands in the first TWI_HANDLE_LINE_BYTES.
 */
#ifndef TWI_HANDLE_H
#define TWI_HANDLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <internal/base.h>
#include <internal/list.h>
#include <towline/status.h>

#define TWI_HUSKS_KEPT        256
#define TWI_HANDLE_LINE_BYTES 64 /* bytes that a husk keeps as they were: the path to the engine */

/* An object of up to this size has no pages of its own: a peer may have thousands of channels. */
#define TWI_HANDLE_SMALL_BYTES 256

enum twi_handle_kind {
	TWI_HANDLE_RUNTIME = 1,
	TWI_HANDLE_ENDPOINT,
	TWI_HANDLE_PEER,
	TWI_HANDLE_GROUP,
	TWI_HANDLE_CHANNEL,
	TWI_HANDLE_QUEUE,
	TWI_HANDLE_FOREIGN, /* a group of another library */
	TWI_HANDLE_REMAINS, /* a closed runtime whose pool still has allocations */
};

struct twi_handle {
	_Atomic uint64_t word; /* number << 8 | enum twi_handle_kind; 0: closed */
	uint64_t bytes;        /* size of its memory: whole lines if small, else whole pages */
	struct twi_list link;  /* of a husk: on the list of those that are kept */
};

/* Allocates zeroed memory for an object, whose handle stands first and is open. NULL: no memory. */
void *twi_handle_alloc(enum twi_handle_kind kind, size_t bytes);

/* The user has closed it: calls are refused from now on. */
void twi_handle_close(struct twi_handle *handle);

/*
 * remain: the user has closed it, but one kind of call must still find it, as TWI_HANDLE_REMAINS.
 * hollow: gives its memory back, except what a husk has. bury: makes it a husk.
 */
void twi_handle_remain(struct twi_handle *handle);
void twi_handle_hollow(struct twi_handle *handle);
void twi_handle_bury(struct twi_handle *handle);

/*
 * Frees an object that is not needed any more. A husk stays if a user has `seen` it. NULL is legal.
 */
void twi_handle_free(struct twi_handle *handle, bool seen);

/*
 * Is `object`, which begins with a handle, open? relaxed: the rest of it is read under the engine,
 * or does not change while it is open.
 */
static inline bool twi_handle_is(const void *object, enum twi_handle_kind kind)
{
	struct twi_handle *handle = (struct twi_handle *)(uintptr_t)object;

	return (atomic_load_explicit(&handle->word, memory_order_relaxed) & 0xff) == kind;
}

/*
 * Reports to the caller of `call` why the object is refused: TOW_EINVAL for NULL, else TOW_ECLOSED.
 */
int twi_handle_refuse(const void *object, enum twi_handle_kind kind, const char *call);

/* TOW_OK, TOW_EINVAL for NULL, TOW_ECLOSED. */
static inline int twi_handle_check(const void *object, enum twi_handle_kind kind, const char *call)
{
	if (twi_likely(object != NULL && twi_handle_is(object, kind)))
		return TOW_OK;
	return twi_handle_refuse(object, kind, call);
}

#endif
