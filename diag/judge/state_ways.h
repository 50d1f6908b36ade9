/*
 * state_ways.h - what a rank reports of its paths to other ranks (rank_state.h): parts of links,
 * connections that cannot be made, streams of links with several.
 */
#ifndef TWI_STATE_WAYS_H
#define TWI_STATE_WAYS_H

#include <stdint.h>

#define TWI_STATE_DIALS   4u
#define TWI_STATE_ADDRESS 64u
#define TWI_STATE_STREAMS 16u
#define TWI_STATE_WAY     96u
#define TWI_STATE_IF      16u

/* Messages that have been timed lately, and the sum of their times on the wire. */
struct twi_state_carried {
	uint32_t window_ms; /* length of that time; 0: no messages */
	uint32_t messages;
	uint64_t bytes, wire_ns;
};

/* Sums over the calls that have been answered so far. */
struct twi_state_called {
	uint64_t total_ns, wire_ns;
};

/*
 * A rank without a connection that this rank tries to reach, or has tried to reach in the last half
 * minute. What is known of the attempt under way comes from its lane, if the lane can follow its
 * SYNs.
 */
struct twi_state_dial {
	uint32_t rank;
	uint8_t lane;       /* lane of the attempt under way */
	uint8_t wanted;     /* the user needs it; 0: only a look at the job does */
	uint32_t attempts;  /* since the last connection, or since the last long pause */
	uint64_t since_ns;  /* start of the first attempt */
	uint64_t syn_ns;    /* start of the SYN that is not answered; 0: none */
	uint32_t syns;      /* how often that SYN was sent again */
	uint64_t failed_ns; /* when the last attempt failed; 0: none has */
	uint32_t error;     /* errno of that failure; 0: the kernel gave none */
	char address[TWI_STATE_ADDRESS]; /* address dialed; "": not known */
};

/* One of several streams that carry large messages to a rank. TCP's figures are sums so far. */
struct twi_state_stream {
	uint32_t rank;
	uint8_t stream; /* number of the stream */
	uint64_t acked_bytes, busy_us, rwnd_limited_us;
	char from_if[TWI_STATE_IF]; /* local interface; "": not known */
	char way[TWI_STATE_WAY];    /* "10.0.1.1 -> 10.0.1.2" */
};

#endif
