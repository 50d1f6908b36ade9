/*
 * state_ways.h - what a rank tells of its ways to others: parts of its links (rank_state.h),
 * connections that do not come about, and each stream where a peer has several.
 */
#ifndef TWI_STATE_WAYS_H
#define TWI_STATE_WAYS_H

#include <stdint.h>

#define TWI_STATE_DIALS   4u
#define TWI_STATE_ADDRESS 64u
#define TWI_STATE_STREAMS 16u
#define TWI_STATE_WAY     96u
#define TWI_STATE_IF      16u

/* Messages that have been timed lately, and how long they were on the wire, all together. */
struct twi_state_carried {
	uint32_t window_ms; /* how long that was; 0: there were none */
	uint32_t messages;
	uint64_t bytes, wire_ns;
};

/* Calls that have been answered, so far. */
struct twi_state_called {
	uint64_t total_ns, wire_ns;
};

/*
 * A rank that this one has no connection to, and tries to reach, or has tried in the last half
 * minute. Of the attempt under way what its lane says, if that knows what its SYNs come to.
 */
struct twi_state_dial {
	uint32_t rank;
	uint8_t lane;       /* of the attempt under way */
	uint8_t wanted;     /* something of the user's is for it, not a look alone */
	uint32_t attempts;  /* since it was last connected, or given up for long */
	uint64_t since_ns;  /* the first of them */
	uint64_t syn_ns;    /* since when a SYN is not answered; 0: none is under way */
	uint32_t syns;      /* how often that was sent again */
	uint64_t failed_ns; /* when an attempt failed last; 0: none has */
	uint32_t error;     /* that one's errno; 0: it failed by other words than the kernel's */
	char address[TWI_STATE_ADDRESS]; /* dialed; "": not known */
};

/* One of several streams by which large messages go to a rank; what TCP says, so far. */
struct twi_state_stream {
	uint32_t rank;
	uint8_t stream; /* its number */
	uint64_t acked_bytes, busy_us, rwnd_limited_us;
	char from_if[TWI_STATE_IF]; /* by which interface of this side it goes; "": not known */
	char way[TWI_STATE_WAY];    /* "10.0.1.1 -> 10.0.1.2" */
};

#endif
