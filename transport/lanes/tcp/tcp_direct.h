/*
 * tcp_direct.h - control streams that the polling thread reads itself.
 *
 *	armed:   multishot receive in the driver's ring; a sleeper is woken by it
 *	  |  ^
 *	  |  +-- somebody goes to sleep, another thread drives, nothing has come for long, or
 *	  |      a large message is on its way
 *	  v
 *	direct:  each poll calls recv, each flush send, without the ring between
 *
 * A receive that is armed costs a wake of the request, work that the thread must enter the kernel
 * for, and a second look at the socket that finds nothing: 0.6 us of a half round trip of 4.7, and
 * 0.2 more for a send through the queue (docs/performance.md). A caller that polls, in a wait that
 * spins, or by tests and progress, needs none of it; one that is about to sleep does. So a stream
 * that has brought something several times in a row while callers polled becomes direct, and is
 * armed again before a waiter sleeps. One who tests and then stops does not say so: the library's
 * thread arms all in its ring when it takes over, as it must do of what is armed in another's. A
 * few streams at most: a poll costs a system call for each.
 *
 * While payload flows nothing is direct: turns are many and find nothing, and the pace is that of
 * the payload. With it the bandwidth of callers that test was 5 to 15 % less.
 *
 * A descriptor of tow_fd keeps everything armed. Nothing here is used for encrypted streams.
 */
#ifndef TWI_TCP_DIRECT_H
#define TWI_TCP_DIRECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define TWI_TCP_DIRECT_MAX 2u

struct twi_tcp_lane;
struct twi_tcp_stream;

struct twi_tcp_direct {
	struct twi_tcp_stream *streams[TWI_TCP_DIRECT_MAX];
	unsigned count;
	uint32_t sleeps; /* times that all was armed again */
	uint8_t *buffer; /* what is read goes here, and is parsed at once */
};

/* Memory for what will be read, before the first: later nothing is allocated. */
int twi_tcp_direct_init(struct twi_tcp_direct *direct);

/* An armed control stream has brought something: it may become direct. */
void twi_tcp_direct_warm(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);

/*
 * A poll of a control stream says that something has come, on rings that may not receive by
 * themselves (ring.h): reads it, and arms the next poll. True when there was something; the stream
 * may be gone then.
 */
bool twi_tcp_direct_pull(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);

/* All are armed again. */
void twi_tcp_direct_end(struct twi_tcp_lane *lane);

/* The stream is about to go. */
void twi_tcp_direct_forget(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);

/* Reads what is there; returns on how many. Peers may be lost, and freed, by it. */
unsigned twi_tcp_direct_read(struct twi_tcp_lane *lane);

/*
 * Sends control bytes of any peer at once, where some stream is direct: whoever drives is quick
 * then. False: they must go through the ring, with what waits there.
 */
bool twi_tcp_direct_send(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			 struct iovec out);

void twi_tcp_direct_fini(struct twi_tcp_direct *direct);

#endif
