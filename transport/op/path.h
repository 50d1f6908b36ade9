/*
 * path.h - how payload travels: in place, by zero-copy send, or by a copy that is counted.
 *
 * This is the only part of the library that may copy payload (a check enforces it), so that every
 * copied byte is in a counter: `necessary` where the lane's design needs the copy (a small message
 * into and out of the connection's buffers), `fallback` with a reason where it does not.
 *
 * Zero-copy sends are tried, not trusted: IORING_SEND_ZC_REPORT_USAGE says for each whether the
 * kernel copied after all (always on loopback and veth). A route whose trial was copied sends
 * plainly, which is cheaper than a copied zero-copy send, and tries again after a pause that
 * doubles each time.
 */
#ifndef TWI_PATH_H
#define TWI_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "diag/base/emit.h"
#include "diag/record/counter.h"
#include "diag/record/site.h"

struct twi_diag;
struct twi_engine;
struct twi_parts;

enum twi_path { TWI_PATH_PLAIN, TWI_PATH_ZEROCOPY, TWI_PATH_TRIAL };

enum twi_route_state { TWI_ROUTE_TRY, TWI_ROUTE_TRYING, TWI_ROUTE_PAYS, TWI_ROUTE_COPIES };

/* What is known of zero-copy sends to one peer. */
struct twi_route {
	enum twi_route_state state;
	bool able;   /* the ring has the operation */
	bool sealed; /* what goes is not the payload, but what encryption makes of it */
	uint64_t retry_ns;
	uint64_t pause_ns;
	uint64_t trials;
	uint64_t sends;
	uint64_t copied;
	uint64_t least_bytes; /* the smallest send that the kernel did not copy; 0: none yet */
};

/*
 * A copy that the lane's design needs, of a small message of `space`: counted where it is of the
 * user's payload.
 */
void twi_path_copy_small(const struct twi_engine *engine, uint8_t space, void *to, const void *from,
			 size_t bytes);

/* A copy that the lane's design needs. */
void twi_path_copy_eager(const struct twi_engine *engine, void *to, const void *from, size_t bytes);

/*
 * A piece of a large message, of `whole` bytes, out of another process's memory that is mapped
 * here; `first` piece counts the copy. Past what the caches hold the stores go around them.
 */
void twi_path_copy_large(struct twi_diag *diag, void *to, const void *from, size_t bytes,
			 uint64_t whole, bool first);

/*
 * The same from memory that is not mapped here, by process_vm_readv: a system call, so it is
 * counted with its reason. Returns the bytes, at least one, or -1 with errno.
 */
ssize_t twi_path_copy_remote(struct twi_engine *engine, pid_t from_pid, void *to, uint64_t from,
			     size_t bytes, struct twi_site site);

/* A copy that it does not need, with its reason; it is timed. One of no bytes is none. */
void twi_path_copy_fallback(struct twi_engine *engine, enum twi_reason reason, void *to,
			    const void *from, size_t bytes, struct twi_site site);

/*
 * A piece of a collective's input, to where other cores read it next. The stores go around the
 * caches, wherever those are: lines that one core has written may reach another more slowly than
 * memory does. `outside`: of the pool, a fallback (unregistered_send); else it is needed.
 */
void twi_path_copy_piece(struct twi_engine *engine, bool outside, void *to, const void *from,
			 size_t bytes, struct twi_site site);

/*
 * Bytes `at` and on of a message of parts (parts.h), to and from one piece of memory: fallbacks
 * with their reason, counted as one copy each; or, of a small message of the user's, needed.
 */
void twi_path_gather(struct twi_engine *engine, enum twi_reason reason, void *to,
		     struct twi_parts *parts, uint64_t at, uint64_t bytes, struct twi_site site);
void twi_path_scatter(struct twi_engine *engine, enum twi_reason reason, struct twi_parts *parts,
		      uint64_t at, const void *from, uint64_t bytes, struct twi_site site);
void twi_path_scatter_small(const struct twi_engine *engine, struct twi_parts *parts, uint64_t at,
			    const void *from, uint64_t bytes);

/* Out of an encrypted record to where it belongs: one of the copies that encryption costs. */
void twi_path_copy_opened(struct twi_diag *diag, void *to, const void *from, size_t bytes);

/* A copy of bytes that are the library's own: it is in no counter. */
void twi_path_copy_own(void *to, const void *from, size_t bytes);

/*
 * Bytes onto or off the simulated wire of the loop lane. Where other lanes have a kernel and a
 * network this one has a copy: it stands for the transfer itself, so it is no copy to be counted.
 */
void twi_path_wire(void *to, const void *from, size_t bytes);

void twi_route_init(struct twi_route *route, bool able);

/* Registered payload of that size may go by zero-copy send on this route. */
bool twi_path_eligible(const struct twi_engine *engine, const struct twi_route *route,
		       uint64_t bytes);

/* It does: the kernel was seen not to copy, or zerocopy=always. Then a plain send adds a copy. */
bool twi_path_pays(const struct twi_engine *engine, const struct twi_route *route, uint64_t bytes);

/* How the next `bytes` of registered payload go. A TRIAL that is made is told with _tried. */
enum twi_path twi_path_choose(struct twi_engine *engine, struct twi_route *route, uint64_t bytes);
void twi_path_tried(struct twi_engine *engine, struct twi_route *route);

/*
 * A zero-copy send was reported on: `copied` by the kernel or not, of `bytes` that it took. When it
 * took none it says copied, which means nothing.
 */
void twi_path_report(struct twi_engine *engine, struct twi_route *route, uint64_t bytes,
		     bool copied);

void twi_route_describe(const struct twi_engine *engine, const struct twi_route *route,
			struct twi_emit *emit);

#endif
