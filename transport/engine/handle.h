/*
 * handle.h - what users hold: runtimes, endpoints, peers, groups, channels and queues; and how a
 * call knows one that was closed.
 *
 * Each of them begins with a struct twi_handle, in memory of its own pages. While it may be used,
 * its word says its kind and a number that no other has; when it is closed, by its user or with its
 * runtime, the word is 0. When nobody inside the library needs it any more its pages go back to the
 * system but the first, of which only the handle is left: the *husk*, so that a late call still
 * reads a 0. The last TWI_HUSKS_KEPT husks of the process are kept (a page each), older ones freed.
 *
 *	alloc -> open --close--> closing --free--> husk --TWI_HUSKS_KEPT later ones--> gone
 *
 * A check is one load of a cache line that the call needs anyway. Another thread may close what a
 * call uses: so the call checks again when it holds the engine, under which handles are closed.
 * What it reads in between to find the engine stands in the first TWI_HANDLE_LINE_BYTES.
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
#define TWI_HANDLE_LINE_BYTES 64 /* of a husk that stay as they were: the way to the engine */

/* Up to this size one takes no pages of its own: a peer may have thousands of channels. */
#define TWI_HANDLE_SMALL_BYTES 256

enum twi_handle_kind {
	TWI_HANDLE_RUNTIME = 1,
	TWI_HANDLE_ENDPOINT,
	TWI_HANDLE_PEER,
	TWI_HANDLE_GROUP,
	TWI_HANDLE_CHANNEL,
	TWI_HANDLE_QUEUE,
	TWI_HANDLE_FOREIGN, /* a group of another library */
	TWI_HANDLE_REMAINS, /* a closed runtime, of whose pool there still are allocations */
};

struct twi_handle {
	_Atomic uint64_t word; /* number << 8 | enum twi_handle_kind; 0: closed */
	uint64_t bytes;        /* of its memory: whole lines of a small one, else whole pages */
	struct twi_list link;  /* husk: on the list of those that are kept */
};

/* Zeroed memory for a structure that begins with its handle, which is open; NULL: there is none. */
void *twi_handle_alloc(enum twi_handle_kind kind, size_t bytes);

/* Its user has closed it: calls are refused from now on. */
void twi_handle_close(struct twi_handle *handle);

/*
 * Its user has closed it, and one kind of call is still to find it: it is of the kind
 * TWI_HANDLE_REMAINS. hollow gives all of it back but what a husk has; bury makes it a husk.
 */
void twi_handle_remain(struct twi_handle *handle);
void twi_handle_hollow(struct twi_handle *handle);
void twi_handle_bury(struct twi_handle *handle);

/* Nobody needs it any more; a husk is left of one that a user has `seen`. NULL is legal. */
void twi_handle_free(struct twi_handle *handle, bool seen);

/*
 * Whether what `object` points to, which begins with a handle, is open. relaxed: the rest of it is
 * read under the engine, or does not change while it is open.
 */
static inline bool twi_handle_is(const void *object, enum twi_handle_kind kind)
{
	struct twi_handle *handle = (struct twi_handle *)(uintptr_t)object;

	return (atomic_load_explicit(&handle->word, memory_order_relaxed) & 0xff) == kind;
}

/* What is wrong with it, for the caller of `call`: TOW_EINVAL for NULL, else TOW_ECLOSED. */
int twi_handle_refuse(const void *object, enum twi_handle_kind kind, const char *call);

/* TOW_OK, TOW_EINVAL for NULL, TOW_ECLOSED. */
static inline int twi_handle_check(const void *object, enum twi_handle_kind kind, const char *call)
{
	if (twi_likely(object != NULL && twi_handle_is(object, kind)))
		return TOW_OK;
	return twi_handle_refuse(object, kind, call);
}

#endif
