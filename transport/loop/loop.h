/*
 * loop.h - the loop lane: peers within one runtime, joined by pipes of bytes in memory. With a
 * configuration it is the simulated network: slow, stubborn, and mortal, all by seed.
 *
 *	      side 0                     link                      side 1
 *	    tow_peer  --- control --> [ pipe: bytes with the time ] --->  tow_peer
 *	    session   --- bulk -----> [ at which each is due      ] --->  session
 *	              <-- control --- [                           ] ----
 *	              <-- bulk ------ [                           ] ----
 *
 * A link belongs to the lane, a side to its peer; a link ends when both sides have gone. A side
 *that goes leaves the bytes that it wrote, and an end behind them, in its outgoing control pipe.
 *
 * Invariant: bytes of one pipe arrive whole, in order and once, or the pipe ends; as TCP has it.
 *What faults may do is to cut writes and reads short, to hold them up, to end a link at any byte,
 *and to make a link dark: it takes bytes and never gives one again, as when a host has vanished.
 *
 * Without delay whatever is sent arrives within the sending call, so that nothing waits in a pipe
 * when the engine is given back.
 */
#ifndef TWI_LOOP_H
#define TWI_LOOP_H

#include "transport/endpoint.h"
#include "transport/engine.h"
#include "transport/lane.h"
#include "transport/loop/loop_nic.h"

#define TWI_LOOP_LINGER_NS      (1000ull * 1000 * 1000)
#define TWI_LOOP_PIPE_BYTES     (256u << 10)
#define TWI_LOOP_PIPE_BYTES_MAX (16u << 20)
#define TWI_LOOP_SEGMENTS       64u

/* What the network is like. All zero: perfect, and at once. Chances are in 1/1000. */
struct twi_loop_config {
	uint64_t seed;
	uint64_t delay_min_ns, delay_max_ns; /* of every write */
	uint32_t pipe_bytes;                 /* room of a pipe; 0: TWI_LOOP_PIPE_BYTES */
	uint32_t short_write;                /* of a write: only a part is taken */
	uint32_t short_read;                 /* of a read: only a part is given */
	uint32_t stall;                      /* of a write: nothing is taken for up to stall_ns */
	uint64_t stall_ns;
	uint32_t refuse;      /* of a connect: refused */
	uint32_t dark;        /* of a link: goes dark at some byte */
	uint32_t disconnect;  /* of a link: is cut at some byte */
	uint32_t lossy;       /* of a cut: what was on its way is lost */
	uint64_t fault_bytes; /* the byte at which a link goes dark or is cut is below this */
};

/* Applies to links made and bytes written from now on. The engine is not held. */
void twi_loop_configure(struct twi_engine *engine, const struct twi_loop_config *config);

/* Links that have gone dark or were cut so far: what a test may blame for TOW_EPEER. */
uint64_t twi_loop_faults(struct twi_engine *engine);

/* What is below is shared by the files of the lane alone. */

enum twi_loop_stream { TWI_LOOP_CONTROL, TWI_LOOP_BULK, TWI_LOOP_STREAMS };

/* Bytes that were written together and are due together. */
struct twi_loop_segment {
	uint32_t bytes;
	uint64_t due_ns;
};

/* One direction of one stream. `data` is a ring; its first byte belongs to segments[first]. */
struct twi_loop_pipe {
	uint8_t *data;
	uint32_t room, head, fill;
	uint32_t first, count;
	struct twi_loop_segment segments[TWI_LOOP_SEGMENTS];
	uint64_t last_due_ns;  /* of anything written so far: order is kept */
	uint64_t stall_end_ns; /* no write before */
	bool ended;            /* nothing will be written any more; seen once the bytes are read */
	bool sunk;             /* nobody reads: what is written vanishes */
};

struct twi_loop_peer {
	struct tow_peer base;
	struct twi_loop_link *link; /* NULL: lost */
	unsigned side;
	bool blocked[TWI_LOOP_STREAMS]; /* more is to be written than the pipe took */
	bool refused;                   /* the NIC was given an address that it does not know */
	uint64_t deadline_ns;           /* closing: lets go at this time at the latest */
};

struct twi_loop_link {
	struct twi_list link;   /* on lane->links */
	struct twi_list active; /* on lane->active: bytes wait in a pipe or for one */
	struct twi_loop_peer *sides[2];
	struct twi_loop_pipe pipes[2][TWI_LOOP_STREAMS]; /* [writing side][stream] */
	uint64_t written;                                /* bytes, on all pipes */
	uint64_t dark_at, cut_at;                        /* in `written`; UINT64_MAX: never */
	bool dark, cut;
};

struct twi_loop_dial {
	struct twi_list link; /* on lane->dials */
	struct tow_op *op;
	uint64_t due_ns;
	bool refused;
	char from[TOW_ADDRESS_MAX], to[TOW_ADDRESS_MAX];
};

struct twi_loop_lane {
	struct twi_lane base;
	struct twi_list links, active, dials;
	struct twi_loop_config config;
	uint64_t random;
	uint64_t faults;
	struct twi_loop_nic *nic; /* NULL: payload needs no registration */
};

/* loop_pipe.c: a pipe and what can happen to it. */
int twi_loop_pipe_init(struct twi_loop_pipe *pipe, uint32_t room);
void twi_loop_pipe_fini(struct twi_loop_pipe *pipe);
uint64_t twi_loop_below(struct twi_loop_lane *lane, uint64_t bound);
bool twi_loop_chance(struct twi_loop_lane *lane, uint32_t permille);
uint64_t twi_loop_delay(struct twi_loop_lane *lane);

/* Takes as much of parts as the pipe and the network are willing to; returns the bytes. */
size_t twi_loop_write(struct twi_loop_lane *lane, struct twi_loop_link *link,
		      struct twi_loop_pipe *pipe, const struct iovec *parts, int count);

/* Bytes that are due and lie in one piece, at *at_out; 0: none. They stay until _taken. */
size_t twi_loop_readable(struct twi_loop_lane *lane, struct twi_loop_pipe *pipe,
			 const uint8_t **at_out);
void twi_loop_taken(struct twi_loop_pipe *pipe, size_t bytes);

/* Nothing more will be written. The end travels like bytes do. */
void twi_loop_pipe_end(struct twi_loop_lane *lane, struct twi_loop_pipe *pipe);

/* Drops what is in the pipe. */
void twi_loop_pipe_clear(struct twi_loop_pipe *pipe);

/* The end has been reached: every byte before it has been read. */
bool twi_loop_pipe_over(const struct twi_loop_pipe *pipe, uint64_t now_ns);

/* When the pipe's reader has something to do again; UINT64_MAX: not by itself. */
uint64_t twi_loop_pipe_due(const struct twi_loop_pipe *pipe);

/* loop_link.c: links and their sides. */
int twi_loop_link_create(struct twi_loop_lane *lane, const struct twi_loop_dial *dial,
			 struct twi_loop_link **link_out);
unsigned twi_loop_link_move(struct twi_loop_lane *lane, struct twi_loop_link *link);
uint64_t twi_loop_link_due(const struct twi_loop_link *link, uint64_t now_ns);
void twi_loop_link_free(struct twi_loop_link *link);

/* Writes what a side has to say; returns the number of writes that took something. */
unsigned twi_loop_flush(struct twi_loop_lane *lane, struct twi_loop_peer *peer, bool acks_too);

/* Ends the side's operations with `status` and takes it off the link; frees it if it was closed. */
void twi_loop_peer_lost(struct twi_loop_lane *lane, struct twi_loop_peer *peer, int status);
void twi_loop_peer_free(struct twi_loop_lane *lane, struct twi_loop_peer *peer);
void twi_loop_activate(struct twi_loop_lane *lane, struct twi_loop_link *link);

#endif
