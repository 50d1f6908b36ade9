/*
 * path.h - how payload travels: in place, by zero-copy send, or by a copy that is counted.
 *
 * This is the only part of the library that may copy payload; a check enforces that. So each copied
 * byte is in a counter. It is `necessary` if the lane's design needs the copy: a small message is
 * copied into and out of the connection's buffers. Otherwise it is `fallback`, with a reason.
 *
 * Zero-copy sends are tried before they are used. IORING_SEND_ZC_REPORT_USAGE says for each send
 * whether the kernel has copied after all (it always does on loopback and veth). After a trial that
 * was copied, a route sends plainly, which is cheaper than a copied zero-copy send. It tries again
 * after a pause, which doubles each time.
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

/* The state of zero-copy sends to one peer. */
struct twi_route {
	enum twi_route_state state;
	bool able;   /* the ring has the operation */
	bool sealed; /* encrypted: what is sent is not the payload itself */
	uint64_t retry_ns;
	uint64_t pause_ns;
	uint64_t trials;
	uint64_t sends;
	uint64_t copied;
	uint64_t least_bytes; /* the smallest send that the kernel did not copy; 0: none yet */
};

/*
 * A copy of a small message of `space` that the lane's design needs. It is counted if it is
 * the user's payload.
 */
void twi_path_copy_small(const struct twi_engine *engine, uint8_t space, void *to, const void *from,
			 size_t bytes);

/* A copy that the lane's design needs. */
void twi_path_copy_eager(const struct twi_engine *engine, void *to, const void *from, size_t bytes);

/*
 * A copy of a piece of a large message of `whole` bytes, out of another process's memory that is
 * mapped here. The `first` piece counts the copy. If the message is larger than the caches can
 * hold, the stores go around them.
 */
void twi_path_copy_large(struct twi_diag *diag, void *to, const void *from, size_t bytes,
			 uint64_t whole, bool first);

/*
 * The same for memory that is not mapped here, by process_vm_readv. That is a system call, so it is
 * counted with its reason. Returns the bytes copied, at least one, or -1 with errno.
 */
ssize_t twi_path_copy_remote(struct twi_engine *engine, pid_t from_pid, void *to, uint64_t from,
			     size_t bytes, struct twi_site site);

/* A copy that the lane's design does not need: timed, and counted by reason, unless it is empty. */
void twi_path_copy_fallback(struct twi_engine *engine, enum twi_reason reason, void *to,
			    const void *from, size_t bytes, struct twi_site site);

/*
 * Learns what a copy of `bytes` costs, in ps a KiB; 0: not known yet. The cost moves by a sixteenth
 * towards each sample, so that a lost CPU counts as one sample of many.
 */
void twi_path_learn(uint32_t *cost, uint64_t ns, uint64_t bytes);

/*
 * A copy of a piece of a collective's input to memory that other cores read next. It stays in the
 * caches, unless twi_path_piece_read has found that a line which one core has written reaches
 * another core more slowly than memory does. If the input is `outside` the pool this is a fallback
 * copy, with the reason unregistered_send; otherwise it is necessary.
 */
void twi_path_copy_piece(struct twi_engine *engine, bool outside, void *to, const void *from,
			 size_t bytes, struct twi_site site);

/* `bytes` of such a piece of another rank's have been read in so long a time. */
void twi_path_piece_read(struct twi_engine *engine, uint64_t ns, uint64_t bytes);

/*
 * Copies between one piece of memory and a message of parts (parts.h), from byte `at` of the
 * message on. Each call is one fallback copy, counted by its reason. twi_path_scatter_small is for
 * a user's small message, whose copy is necessary.
 */
void twi_path_gather(struct twi_engine *engine, enum twi_reason reason, void *to,
		     struct twi_parts *parts, uint64_t at, uint64_t bytes, struct twi_site site);
void twi_path_scatter(struct twi_engine *engine, enum twi_reason reason, struct twi_parts *parts,
		      uint64_t at, const void *from, uint64_t bytes, struct twi_site site);
void twi_path_scatter_small(const struct twi_engine *engine, struct twi_parts *parts, uint64_t at,
			    const void *from, uint64_t bytes);

/* A copy out of a decrypted record to its destination: one of the copies that encryption costs. */
void twi_path_copy_opened(struct twi_diag *diag, void *to, const void *from, size_t bytes);

/* A copy of the library's own bytes: it is in no counter. */
void twi_path_copy_own(void *to, const void *from, size_t bytes);

/*
 * Moves bytes onto or off the simulated wire of the loop lane. This copy stands for the transfer
 * itself, which is the work of a kernel and a network on other lanes. So it is not counted.
 */
void twi_path_wire(void *to, const void *from, size_t bytes);

void twi_route_init(struct twi_route *route, bool able);

/* Whether registered payload of that size may go by zero-copy send on this route. */
bool twi_path_eligible(const struct twi_engine *engine, const struct twi_route *route,
		       uint64_t bytes);

/*
 * Whether it does: the kernel was seen not to copy, or the knob says zerocopy=always. A plain send
 * then adds a copy.
 */
bool twi_path_pays(const struct twi_engine *engine, const struct twi_route *route, uint64_t bytes);

/*
 * Chooses how the next `bytes` of registered payload go. The caller that makes a TRIAL reports it
 * with twi_path_tried.
 */
enum twi_path twi_path_choose(struct twi_engine *engine, struct twi_route *route, uint64_t bytes);
void twi_path_tried(struct twi_engine *engine, struct twi_route *route);

/*
 * Takes the kernel's report on a zero-copy send of which it took `bytes`: whether it has `copied`
 * them. When it took none it reports `copied`, which means nothing.
 */
void twi_path_report(struct twi_engine *engine, struct twi_route *route, uint64_t bytes,
		     bool copied);

void twi_route_describe(const struct twi_engine *engine, const struct twi_route *route,
			struct twi_emit *emit);

#endif
