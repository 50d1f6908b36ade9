/*
 * rpc_usual.h - how much of a call's time on the way its request lay at the server, which did not
 * read it: the server's thread was in another handler, or the program did not drive. Pure.
 *
 *	 sent              it is there           the server reads it             its answer is here
 *	  |---- request ----|------- server queue -------|.. match, serve ..|---- answer ----|
 *	            |<----------- unread -------------->|
 *	     the server looked last, and found nothing
 *
 * Nobody has seen the request arrive. It came after the server had looked in vain, so it can have
 * waited `unread` at most, which the server tells. And it was on its way for as long as requests
 * are when nothing is in their way, at least: what a call took beyond its peer's usual time is at
 * most the wait. The smaller of the two is taken. What a slow network adds while the server looks
 * all the time stays the network's, since then unread is next to nothing; what it adds while the
 * server is busy cannot be told from waiting, unless the clocks tell how long the request alone
 * took: then only what that was longer than usual counts.
 *
 * Usual is the smallest of the last USUAL_NS to twice as long, of calls of that size, and only of
 * those that cannot have waited for much of their time: a server that is never idle would make its
 * queue usual. While there was none of these, the smallest of all.
 */
#ifndef TWI_RPC_USUAL_H
#define TWI_RPC_USUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/hist.h"

#define TWI_RPC_USUAL_NS 10000000000ull

/* What was smallest; all zero: nothing was yet. */
struct twi_rpc_least {
	bool known, request_known;
	uint64_t wire_ns;
	int64_t request_ns; /* less the error of the clocks: what it took at least */
};

/* Of one peer, by size; all zero is a fresh one. */
struct twi_rpc_usual {
	uint64_t since_ns; /* when `now` began */
	struct twi_rpc_least now[TWI_SIZE_CLASSES], before[TWI_SIZE_CLASSES];
	struct twi_rpc_least all[TWI_SIZE_CLASSES]; /* those that waited, too */
};

/* One call on its way, there and back. */
struct twi_rpc_way {
	uint64_t at_ns; /* when its answer was here */
	uint64_t bytes;
	uint64_t wire_ns;   /* both ways, with what it waited */
	uint64_t unread_ns; /* it can have waited so long */
	int64_t request_ns; /* the way there alone, by the clocks, */
	uint64_t error_ns;  /* within this of the truth; UINT64_MAX: not known */
};

/* Takes a call in, and says for how long it waited: at most its unread_ns and its wire_ns. */
uint64_t twi_rpc_usual_wait(struct twi_rpc_usual *usual, const struct twi_rpc_way *way);

#endif
