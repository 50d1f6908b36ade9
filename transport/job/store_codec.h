/*
 * store_codec.h - frames between a rank and the job's store, which rank 0 serves. Pure.
 *
 *	 0  u32  bytes that follow this word
 *	 4  u8   kind           5  u8  zero
 *	 6  u16  bytes of the key
 *	 8  i32  status of a reply; else zero
 *	12  u32  number of the request, which its reply repeats
 *	16  u32  milliseconds that the store may let it wait
 *	20  u64  a             28  u64  b
 *	36       key, then value
 *
 * All numbers are little-endian. A client has one request out at a time, and each request of a
 * process has the next number. So the store recognizes a request that is repeated over a new
 * connection because its reply was lost.
 *
 *	kind      key       value      a                 b                  reply
 *	HELLO     job       hello      rank, world       instance: random   a: the session, b: what
 *	                                                                    the store can do
 *	SET       name      value
 *	GET       name                                                      value, once it is there
 *	ADD       name                 what to add                          a: the sum
 *	DELETE    name                                                      a: 1 when it was there
 *	GATHER    name      own value  index, members    generation, from   values, a: next, or 0
 *	BYE
 *	MEET      group     list       index, members                       a: number of the group
 *
 * Where one field has two numbers, the first is the low half.
 *
 * GATHER waits until each member has given a value (of no bytes: a fence). Then each gets the
 * values of all, from the one of index `from` on, as many as fit. A gather is identified by key and
 * generation. A member may give its value again: before all have given, the last one counts; later
 * it is ignored. The text of a failure is the reply's value.
 *
 * So a member may wait in slices. When the time of a slice is over, TOW_EDEADLINE reports the
 * missing members. Then a is their number, and b is the number of connections refused so far.
 * Behind the text come a NUL and the first of the missing, each as a u16 of its index. The text
 * covers all slices, from the first on. A store without this would report on the last slice alone,
 * so one that can do it says so (TWI_STORE_CAN_SLICE). Only a gather without a next generation is
 * waited for in slices: else other members may be in the next one before the last slice is
 * requested.
 *
 * MEET waits until each rank of its list has come with the same key and the same list. Then it
 * answers all of them with a number that no other group has. The store keeps nothing of it for
 * long: see store_meet.h. A store that can do it says so in its reply to HELLO
 * (TWI_STORE_CAN_MEET). No client asks another store for it.
 */
#ifndef TWI_STORE_CODEC_H
#define TWI_STORE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWI_STORE_VERSION   1
#define TWI_STORE_HEAD      36u
#define TWI_STORE_KEY_MAX   256u
#define TWI_STORE_VALUE_MAX (64u << 10)
#define TWI_STORE_FRAME_MAX (TWI_STORE_HEAD + TWI_STORE_KEY_MAX + TWI_STORE_VALUE_MAX)
#define TWI_STORE_HELLO     8u /* bytes of the value of HELLO: version, restarts */

enum twi_store_kind {
	TWI_STORE_KIND_HELLO = 1,
	TWI_STORE_KIND_SET,
	TWI_STORE_KIND_GET,
	TWI_STORE_KIND_ADD,
	TWI_STORE_KIND_DELETE,
	TWI_STORE_KIND_GATHER,
	TWI_STORE_KIND_BYE,
	TWI_STORE_KIND_MEET,
	TWI_STORE_KIND_END,
	TWI_STORE_REPLY = 0x80 /* a bit beside the kind of the request */
};

/* `key` and `value` are borrowed from the caller that filled the frame. */
struct twi_store_frame {
	uint8_t kind;
	int32_t status;
	uint32_t number;
	uint32_t wait_ms;
	uint64_t a, b;
	const char *key; /* not terminated */
	uint32_t key_bytes;
	const uint8_t *value;
	uint32_t value_bytes;
};

static inline uint64_t twi_store_pair(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}

/*
 * Decodes the frame at the head of `in`. TOW_OK with *used_out; TOW_AGAIN: it is not complete yet;
 * TOW_EPROTOCOL: it is not a frame.
 */
int twi_store_decode(const uint8_t *in, size_t bytes, struct twi_store_frame *out,
		     size_t *used_out);

/*
 * Writes the frame, whose sizes are within bounds. Returns the bytes written, at most
 * TWI_STORE_FRAME_MAX.
 */
size_t twi_store_encode(const struct twi_store_frame *frame, uint8_t *out);

/* Write and read the value of HELLO. */
void twi_store_hello_put(uint8_t out[TWI_STORE_HELLO], uint32_t version, uint32_t restarts);
int twi_store_hello_take(const struct twi_store_frame *frame, uint32_t *version_out,
			 uint32_t *restarts_out);

/* Values in the reply of GATHER: each is a u16 of its bytes, then the bytes. */
#define TWI_STORE_GATHERED_MAX 1024u /* bytes that one member may give */
size_t twi_store_gathered_put(uint8_t *out, const void *value, uint32_t bytes);
/* Reads the value at *at, and moves *at behind it. TOW_OK, or TOW_EPROTOCOL when it is cut. */
int twi_store_gathered_take(const struct twi_store_frame *frame, size_t *at,
			    const uint8_t **value_out, uint32_t *bytes_out);

/* The failure of a gather with missing members: its text, and the first of these members. */
#define TWI_STORE_ABSENT_MAX 16u
/* Returns the bytes written, at most `room`. The text is cut if need be. */
size_t twi_store_absent_put(uint8_t *out, size_t room, const char *text, const uint16_t *members,
			    uint32_t count);
/*
 * Returns the number of listed members. 0 also where the list is broken: not in ascending order, or
 * with an index of `members` or more.
 */
uint32_t twi_store_absent_take(const struct twi_store_frame *reply, uint32_t members,
			       uint16_t out[TWI_STORE_ABSENT_MAX]);

/* What a store can do, in its reply to HELLO. A store that says 0 knows the kinds up to BYE. */
#define TWI_STORE_CAN_MEET  1u
#define TWI_STORE_CAN_SLICE 2u

/*
 * Writes the value of MEET: runs of ranks of the job, in the order of the new group. Each run is a
 * u16 of its first rank and a u16 of how many more follow it. Returns the bytes written; 0: `room`
 * is too small.
 */
size_t twi_store_list_put(uint8_t *out, size_t room, const uint32_t *ranks, uint32_t count);
/* Reads the value of MEET. False: it is not a list of `count` ranks. */
bool twi_store_list_take(const uint8_t *in, size_t bytes, uint16_t *ranks_out, uint32_t count);

/* Copy bytes that the store and its connections hold: names and addresses, never payload. */
void twi_store_copy(void *to, const void *from, size_t bytes);
void twi_store_move(void *to, const void *from, size_t bytes); /* the ranges may overlap */

#endif
