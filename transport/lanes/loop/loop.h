/*
 * loop.h - the loop lane: peers within one runtime, joined by pipes of bytes in memory. With a
 * configuration (transport/sim/loop_sim.h) it is a simulated network, which is slow, stalls and
 * fails as drawn from a seed.
 *
 *	      side 0                     link                      side 1
 *	    tow_peer  --- control --> [ pipe: bytes with the time ] --->  tow_peer
 *	    session   --- bulk 0 ---> [ at which each is due      ] --->  session
 *	              ...             [                           ]
 *	              <-- control --- [                           ] ----
 *	              <-- bulk 0 ---- [                           ] ----
 *
 * A link belongs to the lane, a side to its peer. A link ends when both sides have gone. A side
 * that goes leaves the bytes that it wrote, and an end behind them, in its outgoing control pipe.
 *
 * Invariant: the bytes of a pipe arrive whole, in order and once, or the pipe ends, as with TCP.
 * Faults may cut writes and reads short, delay them, or end a link at any byte. They may make a
 * link dark: it takes bytes and never delivers any again, as when a host has vanished.
 *
 * A *break* is less: one stream of a link loses what is on its way, in both directions. After a
 * while an exchange of records opens the stream again and resumes it (loop_wire.c). A break must
 * change nothing for sends and receives. *Corrupt* changes a byte of bulk payload.
 *
 * A write can be *late*: its bytes are on their way, and its writer learns of that only after a
 * while. The same happens to a thread that submits a send, and looks at the completion when it
 * drives again. Until then the side writes nothing more on that stream, and the other side's answer
 * may come first.
 *
 * Without delay everything arrives within the sending call, so nothing waits in a pipe when the
 * engine is given back.
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
#define TWI_LOOP_BREAKS_MAX     24u /* of one stream, which must get on in the end */

/* The simulated network. All zero: no faults and no delay. Chances are in 1/1000. */
struct twi_loop_config {
	uint64_t seed;
	uint64_t delay_min_ns, delay_max_ns; /* of every write */
	uint32_t pipe_bytes;                 /* room of a pipe; 0: TWI_LOOP_PIPE_BYTES */
	uint32_t short_write;                /* of a write: only a part is taken */
	uint32_t short_read;                 /* of a read: only a part is given */
	uint32_t stall;                      /* of a write: nothing is taken for up to stall_ns */
	uint64_t stall_ns;
	uint32_t late; /* of a write: the writer learns of it up to late_ns later */
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
	bool slices;           /* a large message goes in slices to the stream that is free */
	bool announce;
	bool lone; /* a message may go alone with its header: session_lone.c */
};

/* The answer of a NIC to the payload of a large message. */
enum twi_nic { TWI_NIC_GO, TWI_NIC_WAIT, TWI_NIC_REFUSED };

/*
 * A NIC between the lane and the payload, which must have registered the payload's memory. A
 * runtime has none; tests attach one (transport/sim/loop_nic.h). The engine is held; `nic` is the
 * table.
 */
struct twi_loop_nic {
	/*
	 * Payload of `out` is about to be written, up to `room` bytes of it. Payload that must be
	 * staged is copied now, as much as fits, and `out` names the copy. *chunk_out is to be
	 * released after the write; NULL: there is none.
	 */
	enum twi_nic (*out)(struct twi_engine *engine, struct twi_loop_nic *nic,
			    struct twi_bulk_out *out, size_t room, void **chunk_out);
	/* *n bytes at `from` have come for `op`, and go to `to`. *n: how many of them went. */
	enum twi_nic (*in)(struct twi_engine *engine, struct twi_loop_nic *nic,
			   const struct tow_op *op, void *to, const void *from, size_t *n);
	void (*close)(struct twi_engine *engine, struct twi_loop_nic *nic);
};

/* The rest is shared by the files of the lane, and with transport/sim. */

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
	uint64_t last_due_ns;  /* of all that was written so far: the order is kept */
	uint64_t stall_end_ns; /* no write before this time */
	bool ended;            /* nothing will be written any more; seen once the bytes are read */
	bool sunk;             /* no side reads: what is written vanishes */
};

/* A write that has not been reported to the session yet. */
struct twi_loop_late {
	bool pending;
	size_t bytes;
	uint64_t due_ns;
	const volatile uint8_t *payload; /* NULL: none. Read once more at the report. */
	size_t payload_bytes;
};

struct twi_loop_peer {
	struct tow_peer base; /* first, with the session: struct twi_stream_peer */
	struct twi_session session;
	struct twi_list to_flush;   /* on lane->to_flush: its session may have something to send */
	struct twi_loop_link *link; /* NULL: lost */
	unsigned side;
	bool blocked[TWI_LOOP_STREAMS]; /* more is to be written than the pipe took */
	bool refused;                   /* the NIC was given an address that it does not know */
	bool peer_broke_protocol;       /* the other side has broken the protocol */
	struct twi_loop_late late[TWI_LOOP_STREAMS];
	uint64_t deadline_ns; /* closing: lets go at this time at the latest */
	struct twi_access_checked readable[TWI_LOOP_STREAMS], writable[TWI_LOOP_STREAMS];
};

_Static_assert(offsetof(struct twi_loop_peer, session) == offsetof(struct twi_stream_peer, session),
	       "twi_session_of finds it");

/* The steps that one side has taken to open a broken stream again. */
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
	bool struck; /* it has broken, and no side has noticed yet */
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
	struct twi_list links, active, dials, to_flush;
	struct twi_loop_config config;
	uint64_t random;
	uint64_t faults, corrupted, breaks, early;
	struct twi_loop_nic *nic; /* NULL: payload needs no registration */
};

/* loop_pipe.c: a pipe and its faults. */
int twi_loop_pipe_init(struct twi_loop_pipe *pipe, uint32_t room);
void twi_loop_pipe_fini(struct twi_loop_pipe *pipe);
uint64_t twi_loop_below(struct twi_loop_lane *lane, uint64_t bound);
bool twi_loop_chance(struct twi_loop_lane *lane, uint32_t permille);
uint64_t twi_loop_delay(struct twi_loop_lane *lane);

/*
 * Writes as much of `parts` as the pipe of that side and stream, and the network, take. Returns the
 * bytes. parts[payload_part] is what corruption may change; -1: nothing.
 */
size_t twi_loop_write(struct twi_loop_lane *lane, struct twi_loop_link *link, unsigned side,
		      unsigned stream, const struct iovec *parts, int count, int payload_part);

/*
 * How many bytes are due and lie in one piece, at *at_out; 0: none. They stay until twi_loop_taken.
 */
size_t twi_loop_readable(struct twi_loop_lane *lane, struct twi_loop_pipe *pipe,
			 const uint8_t **at_out);
void twi_loop_taken(struct twi_loop_pipe *pipe, size_t bytes);

/* Nothing more will be written. The end travels like bytes do. */
void twi_loop_pipe_end(struct twi_loop_lane *lane, struct twi_loop_pipe *pipe);

/* Drops what is in the pipe. */
void twi_loop_pipe_clear(struct twi_loop_pipe *pipe);

/* Has the end been reached? Then every byte before it has been read. */
bool twi_loop_pipe_over(const struct twi_loop_pipe *pipe, uint64_t now_ns);

/* When the pipe's reader has something to do again; UINT64_MAX: not by itself. */
uint64_t twi_loop_pipe_due(const struct twi_loop_pipe *pipe);

/*
 * loop_wire.c: breaks. draw: sets when the stream breaks next. strike: counts written bytes, and
 * breaks the stream when it is time. move: takes the steps that are due on all streams, and returns
 * how many there were. up: may the side read and write? due: when its next step is due.
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

/* Writes what a side has to send; returns the number of writes that took something. */
unsigned twi_loop_flush(struct twi_loop_lane *lane, struct twi_loop_peer *peer, bool acks_too);

/*
 * Tells the side's session of its late writes that were due at `now_ns`. False when the side was
 * lost by it.
 */
bool twi_loop_tell(struct twi_loop_lane *lane, struct twi_loop_peer *peer, uint64_t now_ns);

/* The other side's bytes break the protocol: it is sent the reason, and the side is lost. */
void twi_loop_protocol_error(struct twi_loop_lane *lane, struct twi_loop_peer *peer, int status);

/* Ends the side's operations with `status` and takes it off the link; frees it if it was closed. */
void twi_loop_peer_lost(struct twi_loop_lane *lane, struct twi_loop_peer *peer, int status);
void twi_loop_peer_free(struct twi_loop_lane *lane, struct twi_loop_peer *peer);
void twi_loop_activate(struct twi_loop_lane *lane, struct twi_loop_link *link);

/* Something has happened to the side's session: the next flush asks it what to send. */
void twi_loop_talks(struct twi_loop_lane *lane, struct twi_loop_peer *peer);

#endif
