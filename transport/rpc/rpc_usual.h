/*
 * rpc_usual.h - estimates how long a request lay unread at the server. The server's thread was in
 * another handler, or the program did not drive. Pure.
 *
 *	 sent              it is there           the server reads it             its answer is here
 *	  |---- request ----|------- server queue -------|.. match, serve ..|---- answer ----|
 *	            |<----------- unread -------------->|
 *	     the server looked last, and found nothing
 *
 * No thread has seen the request arrive. It came after the server had looked and found nothing. So
 * it waited `unread` at most, which the server reports. Also, its way took at least the usual time
 * of requests that nothing delays. So what the call took beyond its peer's usual time bounds the
 * wait, too. The smaller of the two bounds is taken.
 *
 * While the server looks all the time, `unread` is next to nothing, so a delay of a slow network
 * counts as the network's. While the server is busy, such a delay looks like a wait. Only the
 * clocks can tell how long the request alone took; then only what exceeds the usual request time
 * counts.
 *
 * The usual time is the smallest of the last USUAL_NS to 2 * USUAL_NS, of calls of that size. It
 * uses only calls that did not wait for much of their time: for a server that is never idle, the
 * queue would become usual. If there were no such calls, it is the smallest of all calls. The calls
 * of a client may all find the server in another client's handler, and wait. But an answer waits
 * for nobody. So if the clocks tell how long an answer took, small requests take that long, too.
 */
#ifndef TWI_RPC_USUAL_H
#define TWI_RPC_USUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/record/hist.h"

#define TWI_RPC_USUAL_NS 10000000000ull

/* The smallest times; all zero: there are none yet. */
struct twi_rpc_least {
	bool known, request_known;
	uint64_t wire_ns;
	int64_t request_ns; /* minus the error of the clocks: the least that it took */
	int64_t answer_ns;  /* plus that error: no more than this; known as request_ns is */
};

/* State for one peer, by size; all zero is the initial state. */
struct twi_rpc_usual {
	uint64_t since_ns; /* when `now` began */
	struct twi_rpc_least now[TWI_SIZE_CLASSES], before[TWI_SIZE_CLASSES];
	struct twi_rpc_least all[TWI_SIZE_CLASSES]; /* also of calls that waited */
};

/* One call: its time on the way, there and back. */
struct twi_rpc_way {
	uint64_t at_ns; /* arrival of the answer */
	uint64_t bytes;
	uint64_t wire_ns;   /* both directions, with the wait */
	uint64_t unread_ns; /* bound of the wait */
	int64_t request_ns; /* of the request alone, by the clocks */
	int64_t answer_ns;  /* of the answer alone */
	uint64_t error_ns;  /* error bound of these two; UINT64_MAX: they are not known */
};

/* Adds a call, and returns how long it waited: at most its unread_ns and its wire_ns. */
uint64_t twi_rpc_usual_wait(struct twi_rpc_usual *usual, const struct twi_rpc_way *way);

#endif
