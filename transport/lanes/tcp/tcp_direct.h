/*
 * tcp_direct.h - control streams that the polling thread reads itself.
 *
 *	armed:   multishot receive in the driver's ring; it wakes a sleeper
 *	  |  ^
 *	  |  +-- a caller goes to sleep, another thread drives, nothing has come for long, or
 *	  |      a large message is on its way
 *	  v
 *	direct:  each poll calls recv, each flush send, without the ring
 *
 * An armed receive costs three things. It wakes the request. The thread must enter the kernel for
 * that work. And the kernel looks at the socket a second time, and finds nothing. This takes 0.6 us
 * of a half round trip of 4.7 us, and a send through the queue takes 0.2 us more
 * (docs/performance.md). A caller that polls, in a wait that spins or by tests and progress, does
 * not need it. A caller that is about to sleep does.
 *
 * So a stream becomes direct when it has brought bytes several times in a row while callers polled.
 * It is armed again before a waiter sleeps. A caller that tests and then stops does not report
 * that. So the library's thread arms all streams in its ring when it takes over, as it must do for
 * streams that are armed in another ring. Only a few streams are direct, because a poll costs a
 * system call for each.
 *
 * While payload flows, no stream is direct. Turns are many and find nothing, and the payload sets
 * the pace. With direct streams, the bandwidth of callers that test was 5 to 15 % less.
 *
 * A descriptor of tow_fd keeps everything armed. Encrypted streams are never direct.
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
	uint32_t sleeps; /* times that all streams were armed again */
	uint8_t *buffer; /* receives the bytes, which are parsed at once */
};

/* Allocates the buffer before the first read; later nothing is allocated. */
int twi_tcp_direct_init(struct twi_tcp_direct *direct);

/* An armed control stream has brought bytes: it may become direct. */
void twi_tcp_direct_warm(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);

/*
 * For rings that may not receive by themselves (ring.h): a poll of a control stream reports bytes.
 * Reads them, and arms the next poll. True: there were some; the stream may be gone then.
 */
bool twi_tcp_direct_pull(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);

/* Arms all streams again. */
void twi_tcp_direct_end(struct twi_tcp_lane *lane);

/* The stream is about to be freed. */
void twi_tcp_direct_forget(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream);

/* Reads bytes that have come; returns on how many streams. Peers may be lost, and freed, by it. */
unsigned twi_tcp_direct_read(struct twi_tcp_lane *lane);

/*
 * Sends control bytes of any peer at once, if some stream is direct: then the driver is quick.
 * False: they must go through the ring, behind the requests that wait there.
 */
bool twi_tcp_direct_send(struct twi_tcp_lane *lane, struct twi_tcp_stream *stream,
			 struct iovec out);

void twi_tcp_direct_fini(struct twi_tcp_direct *direct);

#endif
