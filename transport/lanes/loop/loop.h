/*
 * loop.h - the loop lane: peers within one runtime, joined by pipes of bytes in memory. With a
 * configuration (transport/sim/loop_sim.h) it is the simulated network: slow, stubborn, and
 * mortal, all by seed.
 *
 *	      side 0                     link                      side 1
 *	    tow_peer  --- control --> [ pipe: bytes with the time ] --->  tow_peer
 *	    session   --- bulk 0 ---> [ at which each is due      ] --->  session
 *	              ...             [                           ]
 *	              <-- control --- [                           ] ----
 *	              <-- bulk 0 ---- [                           ] ----
 *
 * A link belongs to the lane, a side to its peer; a link ends when both sides have gone. A side
 * that goes leaves the bytes that it wrote, and an end behind them, in its outgoing control pipe.
 *
 * Invariant: bytes of one pipe arrive whole, in order and once, or the pipe ends; as TCP has it.
 * What faults may do is to cut writes and reads short, to hold them up, to end a link at any byte,
 * and to make a link dark: it takes bytes and never gives one again, as when a host has vanished.
 *
 * A *break* is less: one stream of a link loses what is on its way, in both directions, and is
 * opened again after a while by the exchange of records that resumes it (loop_wire.c). It must
 * change nothing for those who send and receive. And *corrupt* changes a byte of bulk payload.
 *
 * A write can be *late*: its bytes are on their way, and its writer hears of that only after a
 * while, as a thread does that submits a send and looks at the completion when it drives again.
 * Until then it writes nothing more on that stream, and the other side's answer may come first.
 *
 * Without delay whatever is sent arrives within the sending call, so that nothing waits in a pipe
 * when the engine is given back.
 */
#ifndef TWI_LOOP_H
#define TWI_LOOP_H

#include <stddef.h>

#include "transport/lanes/lane.h"
#include "transport/op/lane_host.h"
#include "transport/stream/session.h"

#define TWI_LOOP_LINGER_NS      (1000ull * 1000 * 1000)
#define TWI_LOOP_PIPE_BYTES     (256u << 10)
#define TWI_LOOP_PIPE_BYTES_MAX (16u << 20)
#define TWI_LOOP_SEGMENTS       64u
#define TWI_LOOP_BREAKS_MAX     24u /* of one stream: it must get on in the end */

/* What the network is like. All zero: perfect, and at once. Chances are in 1/1000. */
struct twi_loop_config {
	uint64_t seed;
	uint64_t delay_min_ns, delay_max_ns; /* of every write */
	uint32_t pipe_bytes;                 /* room of a pipe; 0: TWI_LOOP_PIPE_BYTES */
	uint32_t short_write;                /* of a write: only a part is taken */
	uint32_t short_read;                 /* of a read: only a part is given */
	uint32_t stall;                      /* of a write: nothing is taken for up to stall_ns */
	uint64_t stall_ns;
	uint32_t late; /* of a write: the writer hears of it up to late_ns later */
	uint64_t late_ns;
	uint32_t refuse;       /* of a connect: refused */
	uint32_t dark;         /* of a link: goes dark at some byte */
	uint32_t disconnect;   /* of a link: is cut at some byte */
	uint32_t lossy;        /* of a cut: what was on its way is lost */
	uint64_t fault_bytes;  /* the byte at which a link goes dark or is cut is below this */
	uint32_t corrupt;      /* of a write with bulk payload: one byte of it changes */
	uint64_t break_bytes;  /* a stream breaks within so many bytes, and again; 0: never */
	uint64_t reopen_ns;    /* each step of opening it again takes up to this */
	unsigned channels;     /* bulk streams; 0: one */
	uint64_t stripe_bytes; /* 0: as on the wire */
	bool slices;           /* of a large message go to the stream that is free */
	bool announce;
	bool lone; /* a message may go alone with its header: session_lone.c */
};

/* What it means for the payload of a large message to go through a NIC. */
enum twi_nic { TWI_NIC_GO, TWI_NIC_WAIT, TWI_NIC_REFUSED };

/*
 * A NIC between the lane and payload: it must have registered the memory. There is none in a
 * runtime, tests attach one (transport/sim/loop_nic.h). The engine is held; `nic` is the table.
 */
struct twi_loop_nic {
	/*
	 * Payload of `out` is about to be written, of which there is `room` for. Where it must be
	 * staged it is copied now, as much as fits, and out says so; the chunk is to be released
	 * after the write, NULL: there is none.
	 */
	enum twi_nic (*out)(struct twi_engine *engine, struct twi_loop_nic *nic,
			    struct twi_bulk_out *out, size_t room, void **chunk_out);
	/* n bytes at `from` have come for op, whose memory begins at `to`. */
	enum twi_nic (*in)(struct twi_engine *engine, struct twi_loop_nic *nic,
			   const struct tow_op *op, void *to, const void *from, size_t *n);
	void (*close)(struct twi_engine *engine, struct twi_loop_nic *nic);
};

/* What is below is shared by the files of the lane, and with transport/sim. */

/* Streams of a link, by number: control, then the bulk channels. */
#define TWI_LOOP_CONTROL 0u
#define TWI_LOOP_BULK    1u
#define TWI_LOOP_STREAMS (TWI_LOOP_BULK + TWI_BULK_MAX)

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

/* A write of which the session has not been told yet. */
struct twi_loop_late {
	bool pending;
	size_t bytes;
	uint64_t due_ns;
	const volatile uint8_t *payload; /* NULL: none. Read once more when it is told. */
	size_t payload_bytes;
};

struct twi_loop_peer {
	struct tow_peer base; /* first, with the session: struct twi_stream_peer */
	struct twi_session session;
	struct twi_list talking;    /* on lane->talking: its session may have something to say */
	struct twi_loop_link *link; /* NULL: lost */
	unsigned side;
	bool blocked[TWI_LOOP_STREAMS]; /* more is to be written than the pipe took */
	bool refused;                   /* the NIC was given an address that it does not know, */
	bool lied_to;                   /* or the other side has lied: it is lost, soon */
	struct twi_loop_late late[TWI_LOOP_STREAMS];
	uint64_t deadline_ns; /* closing: lets go at this time at the latest */
	struct twi_reached readable[TWI_LOOP_STREAMS], writable[TWI_LOOP_STREAMS];
};

_Static_assert(offsetof(struct twi_loop_peer, session) == offsetof(struct twi_stream_peer, session),
	       "twi_session_of finds it");

/* What one side has done to open a broken stream again. */
struct twi_loop_end {
	bool said, up;   /* its record is written; it has read the other's */
	uint64_t due_ns; /* of its next step */
	size_t bytes;
	uint8_t record[TWI_RESUME_MAX];
};

/* The connection under one stream of a link, both directions. */
struct twi_loop_wire {
	uint64_t written, break_at; /* bytes; UINT64_MAX: never */
	unsigned breaks;
	bool struck; /* it has broken, and nobody has noticed yet */
	bool broken;
	struct twi_loop_end ends[2];
};

struct twi_loop_link {
	struct twi_list link;   /* on lane->links */
	struct twi_list active; /* on lane->active: bytes wait in a pipe or for one */
	struct twi_loop_peer *sides[2];
	unsigned streams;
	struct twi_loop_pipe pipes[2][TWI_LOOP_STREAMS]; /* [writing side][stream] */
	struct twi_loop_wire wires[TWI_LOOP_STREAMS];
	uint64_t written;         /* bytes, on all pipes */
	uint64_t dark_at, cut_at; /* in `written`; UINT64_MAX: never */
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
	struct twi_list links, active, dials, talking;
	struct twi_loop_config config;
	uint64_t random;
	uint64_t faults, corrupted, breaks, early;
	struct twi_loop_nic *nic; /* NULL: payload needs no registration */
};

/* loop_pipe.c: a pipe and what can happen to it. */
int twi_loop_pipe_init(struct twi_loop_pipe *pipe, uint32_t room);
void twi_loop_pipe_fini(struct twi_loop_pipe *pipe);
uint64_t twi_loop_below(struct twi_loop_lane *lane, uint64_t bound);
bool twi_loop_chance(struct twi_loop_lane *lane, uint32_t permille);
uint64_t twi_loop_delay(struct twi_loop_lane *lane);

/*
 * Takes as much of parts as the pipe of that side and stream and the network are willing to;
 * returns the bytes. parts[payload_part] is what corruption may strike; -1: nothing.
 */
size_t twi_loop_write(struct twi_loop_lane *lane, struct twi_loop_link *link, unsigned side,
		      unsigned stream, const struct iovec *parts, int count, int payload_part);

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

/*
 * loop_wire.c: breaks. draw: when the stream breaks next. move: takes the steps that are due on all
 * streams; false when a side was lost by it. up: the side may read and write. due: its next step.
 */
void twi_loop_wire_draw(struct twi_loop_lane *lane, struct twi_loop_wire *wire);
void twi_loop_wire_strike(struct twi_loop_lane *lane, struct twi_loop_link *link, unsigned stream,
			  size_t bytes);
unsigned twi_loop_wires_move(struct twi_loop_lane *lane, struct twi_loop_link *link);
bool twi_loop_wire_up(const struct twi_loop_link *link, unsigned stream, unsigned side);
uint64_t twi_loop_wire_due(const struct twi_loop_link *link, unsigned stream, unsigned side);

/* loop_link.c: links and their sides. */
int twi_loop_read(struct twi_loop_lane *lane, struct twi_loop_peer *peer, unsigned stream,
		  unsigned *events);
int twi_loop_link_create(struct twi_loop_lane *lane, const struct twi_loop_dial *dial,
			 struct twi_loop_link **link_out);
unsigned twi_loop_link_move(struct twi_loop_lane *lane, struct twi_loop_link *link);
uint64_t twi_loop_link_due(const struct twi_loop_link *link, uint64_t now_ns);
void twi_loop_link_free(struct twi_loop_link *link);

/* Writes what a side has to say; returns the number of writes that took something. */
unsigned twi_loop_flush(struct twi_loop_lane *lane, struct twi_loop_peer *peer, bool acks_too);

/*
 * Tells the side's session of its late writes that were due at `now_ns`. False when the side was
 * lost by it.
 */
bool twi_loop_tell(struct twi_loop_lane *lane, struct twi_loop_peer *peer, uint64_t now_ns);

/* The other side's bytes are not what they may be: it is told why, and the side is lost. */
void twi_loop_protocol_error(struct twi_loop_lane *lane, struct twi_loop_peer *peer, int status);

/* Ends the side's operations with `status` and takes it off the link; frees it if it was closed. */
void twi_loop_peer_lost(struct twi_loop_lane *lane, struct twi_loop_peer *peer, int status);
void twi_loop_peer_free(struct twi_loop_lane *lane, struct twi_loop_peer *peer);
void twi_loop_activate(struct twi_loop_lane *lane, struct twi_loop_link *link);

/* Something has happened to the side's session: the next flush asks it for words. */
void twi_loop_talks(struct twi_loop_lane *lane, struct twi_loop_peer *peer);

#endif
