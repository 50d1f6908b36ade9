/*
 * frame.h - the codec of the wire: it says which frames are legal. No I/O, no allocation, no state.
 * docs/wire.md says the same in prose.
 *
 * A stream is a sequence of frames: a header of 32 little-endian bytes, then payload_bytes bytes:
 *
 *      0      1      2             4                           8
 *      +------+------+-------------+---------------------------+
 *    0 | type | flags| channel     | payload_bytes             |
 *      +------+------+-------------+---------------------------+
 *    8 | seq                                                   |
 *      +-------------------------------------------------------+
 *   16 | tag                                                   |
 *      +-------------------------------------------------------+
 *   24 | value                                                 |
 *      +-------------------------------------------------------+
 *
 * The payload of HELLO is a body of 64 bytes, of the same shape in every version:
 *
 *    0 | magic "TOWLINE\0"                                     |
 *      +-------------+-------------+------+--------------------+
 *    8 | major       | minor       | kind | flags| bulk | chan |
 *      +-------------+-------------+------+------+------+------+
 *   16 | session                                               |
 *   24 | token                                                 |
 *      +---------------------------+---------------------------+
 *   32 | eager_max_bytes           | 0                         |
 *      +---------------------------+---------------------------+
 *   40 | credit_bytes                                          |
 *   48 | features: offered (u32), required (u32)               |
 *   56 | 0                                                     |
 *      +-------------------------------------------------------+
 *
 * Invariant: a header that twi_frame_get accepts is canonical. Every field that its type uses is in
 * bounds, and every other field is zero. So twi_frame_put gives back the same bytes, and arithmetic
 * on accepted fields (offset + payload_bytes, cost) cannot overflow. The session checks the facts
 * that depend on earlier frames: whether there is such a seq, or that much credit.
 */
#ifndef TWI_FRAME_H
#define TWI_FRAME_H

#include <internal/base.h>

#include <towline/status.h>

#define TWI_FRAME_BYTES  32
#define TWI_REMOTE_BYTES 32 /* struct tow_remote_memory, little-endian */
#define TWI_HELLO_BYTES  64

#define TWI_BULK_MAX 4 /* bulk streams of one peer */

#define TWI_WIRE_MAGIC 0x00454e494c574f54ull /* "TOWLINE\0" in wire order */
#define TWI_WIRE_MAJOR 2
#define TWI_WIRE_MINOR 1

/* The most for sequence numbers, lengths, offsets and credit sums: two of them fit into 64 bits. */
#define TWI_WIRE_U63_MAX     ((uint64_t)INT64_MAX)
#define TWI_WIRE_CHUNK_MAX   (1u << 30)   /* the most payload of one DATA */
#define TWI_WIRE_EAGER_MAX   (16u << 20)  /* the largest eager_max_bytes of a HELLO */
#define TWI_WIRE_CREDIT_MAX  (1ull << 40) /* the largest credit_bytes of a HELLO */
#define TWI_WIRE_HOLD_MAX_NS (1ull << 56) /* two years; senders clamp */
#define TWI_WIRE_STATUS_MAX  255u         /* the most value of BYE, with a status or a rule */

enum twi_frame_type {
	TWI_FRAME_HELLO = 1,  /* opens a stream */
	TWI_FRAME_EAGER = 2,  /* a small message: seq, tag, payload */
	TWI_FRAME_RTS = 3,    /* a large message is ready: seq, tag, value = its bytes */
	TWI_FRAME_CTS = 4,    /* a receive is posted for it: seq, value = bytes accepted */
	TWI_FRAME_DONE = 5,   /* it has arrived as a whole: seq, value = hold_ns */
	TWI_FRAME_ACK = 6,    /* seq = highest received, tag = credit returned, value = hold_ns */
	TWI_FRAME_CANCEL = 7, /* the sender withdraws an RTS: seq, value = why */
	TWI_FRAME_REFUSE = 8, /* the receiver refuses an RTS: seq, value = enum twi_refusal */
	TWI_FRAME_BYE = 9,    /* the last frame: value = minus the status, or a rule (rule.h) */
	TWI_FRAME_DATA = 10,  /* bulk stream: seq; the flags say which kind */
	TWI_FRAME_RECEIVED = 11, /* value = bytes of the control stream that have been read */
	TWI_FRAME_PING = 12,     /* asks for a PONG; value as in RECEIVED */
	TWI_FRAME_PONG = 13,     /* value as in RECEIVED */
	TWI_FRAME_ANNOUNCE =
		14, /* a large receive is posted: seq received so far, tag, value = room */
	/* On exported memory: payload = its descriptor, tag = offset, value = bytes. */
	TWI_FRAME_READ = 15,  /* requests these bytes: seq */
	TWI_FRAME_WRITE = 16, /* bytes for that memory are ready: seq, as in RTS */
	TWI_FRAME_TYPE_END    /* one past the largest; never sent */
};

/* EAGER, RTS and ANNOUNCE: the space of the tag (enum twi_space). */
#define TWI_FRAME_SPACE 0x03u
/*
 * The frame has a checksum (crc32c): EAGER in its value, the commit of a stripe in its tag. In RTS
 * it says that the commits of the message will have one.
 */
#define TWI_FRAME_SUM   0x04u
#define TWI_FRAME_READY 0x08u /* RTS: the data follows at once, without a CTS */

/*
 * DATA is a chunk of a large message, or ends one. Without a flag it has a payload, and value = its
 * offset in the message. With one of these two flags it has no payload; they are never set
 * together. A stripe counts only with its commit, so a sender can withdraw it until the commit is
 * out. With SUM a commit has a checksum.
 */
#define TWI_FRAME_LAST  0x01u /* the commit, behind a stripe's last chunk: value = its end */
#define TWI_FRAME_ABORT 0x02u /* the sender has withdrawn the message: value = why */

enum twi_refusal {
	TWI_REFUSE_TRUNCATED = 1, /* the posted buffer is too small */
	TWI_REFUSE_CANCELED = 2,  /* the receive was withdrawn: canceled, or past its deadline */
	TWI_REFUSE_CORRUPT = 3,   /* it arrived as a whole, with other bytes than were sent */
	TWI_REFUSE_NOT_READY = 4, /* of an RTS with READY: no receive waits; a CTS comes later */
	TWI_REFUSE_FAULT = 5,     /* the memory of the receive cannot be written */
	TWI_REFUSE_END
};

/* Why a sender withdraws a message: the value of ABORT and CANCEL. */
enum twi_back {
	TWI_BACK_WISHED = 0, /* canceled, past its deadline: the receive waits for the next one */
	TWI_BACK_FAULT = 1,  /* its memory cannot be read: the receive ends */
	TWI_BACK_END
};

/* Flags of a HELLO. */
#define TWI_HELLO_RESUME 0x01u /* the stream replaces one that broke */
#define TWI_HELLO_FULL   0x02u /* bulk, from the acceptor: it takes no more peers for now */

enum twi_stream_kind { TWI_STREAM_CONTROL = 0, TWI_STREAM_BULK = 1, TWI_STREAM_KIND_END };

/* X(name, what is wrong with the bytes) */
#define TWI_FRAME_FAULT_MAP(X)                                                                     \
	X(NONE, "nothing")                                                                         \
	X(RESERVED, "a reserved field is not zero")                                                \
	X(TYPE, "the frame type is unknown")                                                       \
	X(FLAGS, "the flags are not ones that this frame type can have")                           \
	X(STREAM, "the frame type does not belong on this stream")                                 \
	X(ORDER, "the stream does not begin with one HELLO, or has a second")                      \
	X(PAYLOAD, "the payload length is out of bounds")                                          \
	X(SEQ, "the sequence number is out of bounds")                                             \
	X(TAG, "the tag field is out of bounds")                                                   \
	X(VALUE, "the value field is out of bounds")                                               \
	X(MAGIC, "the HELLO is not Towline's")                                                     \
	X(VERSION, "the peer speaks another major version of the protocol")                        \
	X(KIND, "the stream kind of the HELLO is unknown")                                         \
	X(SESSION, "the session id of the HELLO is zero")                                          \
	X(HELLO_FLAGS, "the flags of the HELLO are unknown")                                       \
	X(BULK_COUNT, "the number of bulk streams in the HELLO is out of bounds")                  \
	X(CHANNEL, "the channel number in the HELLO is out of bounds")                             \
	X(TOKEN, "the token of the HELLO is missing, or is there too early")                       \
	X(EAGER_MAX, "eager_max_bytes of the HELLO is out of bounds")                              \
	X(CREDIT, "credit_bytes of the HELLO is out of bounds")                                    \
	X(FEATURES, "the features of the HELLO are out of place, or required and not offered")

enum twi_frame_fault {
#define TWI_FRAME_FAULT_ENUM(name, text) TWI_FAULT_##name,
	TWI_FRAME_FAULT_MAP(TWI_FRAME_FAULT_ENUM)
#undef TWI_FRAME_FAULT_ENUM
		TWI_FAULT_COUNT
};

struct twi_frame {
	uint8_t type; /* enum twi_frame_type */
	uint8_t flags;
	uint16_t channel;       /* of messages; 0: the peer itself */
	uint32_t payload_bytes; /* bytes that follow the header on this stream */
	uint64_t seq, tag, value;
};

/* The state of the reader of a stream, which decides which frames are legal there. */
struct twi_frame_limits {
	uint32_t eager_max_bytes; /* the limit that the reader sent in its own HELLO */
	bool control;             /* a control stream; false: bulk. Ignored for HELLO */
	bool hello_done;          /* the stream's HELLO has been read */
};

struct twi_hello {
	uint16_t version_major, version_minor; /* of the peer; twi_hello_put writes this side's */
	uint8_t kind;                          /* enum twi_stream_kind */
	uint8_t flags;      /* TWI_HELLO_RESUME, with a known token; or TWI_HELLO_FULL */
	uint8_t bulk_count; /* control: 1 to TWI_BULK_MAX, the acceptor's counts; bulk: 0 */
	uint8_t channel;    /* bulk: its index; control: 0 */
	uint64_t session;   /* random, never 0, chosen by the connector */
	uint64_t token;     /* random, never 0, chosen by the acceptor; 0 before it is known */
	uint32_t eager_max_bytes; /* control: the largest EAGER payload this side takes; bulk: 0 */
	uint64_t credit_bytes;    /* control: cost of frames that this side holds; bulk: 0 */
	uint64_t features;        /* control without RESUME: a word of feature.h; else 0 */
};

/*
 * Little-endian words at any alignment. Each access is one move, and a byte swap on a big-endian
 * machine. Shifts of single bytes mean the same, but neither gcc 12 nor clang 14 makes one move of
 * them everywhere.
 */
struct twi_unaligned16 {
	uint16_t v;
} __attribute__((packed, may_alias));

struct twi_unaligned32 {
	uint32_t v;
} __attribute__((packed, may_alias));

struct twi_unaligned64 {
	uint64_t v;
} __attribute__((packed, may_alias));

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define TWI_LE(bits, v) (v)
#else
#define TWI_LE(bits, v) __builtin_bswap##bits(v)
#endif

static inline void twi_put_le16(uint8_t *out, uint16_t v)
{
	((struct twi_unaligned16 *)(void *)out)->v = TWI_LE(16, v);
}

static inline void twi_put_le32(uint8_t *out, uint32_t v)
{
	((struct twi_unaligned32 *)(void *)out)->v = TWI_LE(32, v);
}

static inline void twi_put_le64(uint8_t *out, uint64_t v)
{
	((struct twi_unaligned64 *)(void *)out)->v = TWI_LE(64, v);
}

static inline uint16_t twi_get_le16(const uint8_t *in)
{
	return TWI_LE(16, ((const struct twi_unaligned16 *)(const void *)in)->v);
}

static inline uint32_t twi_get_le32(const uint8_t *in)
{
	return TWI_LE(32, ((const struct twi_unaligned32 *)(const void *)in)->v);
}

static inline uint64_t twi_get_le64(const uint8_t *in)
{
	return TWI_LE(64, ((const struct twi_unaligned64 *)(const void *)in)->v);
}

/* Writes a header. The fields are this side's own, and are not checked. */
static inline void twi_frame_put(uint8_t out[TWI_FRAME_BYTES], const struct twi_frame *frame)
{
	twi_put_le64(out, (uint64_t)frame->type | (uint64_t)frame->flags << 8 |
				  (uint64_t)frame->channel << 16 |
				  (uint64_t)frame->payload_bytes << 32);
	twi_put_le64(out + 8, frame->seq);
	twi_put_le64(out + 16, frame->tag);
	twi_put_le64(out + 24, frame->value);
}

/*
 * Reads and checks a header. TOW_OK; TOW_EPROTOCOL: *fault_out says why, and *out is untouched. The
 * caller makes the message, as it knows the peer.
 */
int twi_frame_get(const uint8_t in[TWI_FRAME_BYTES], const struct twi_frame_limits *limits,
		  struct twi_frame *out, enum twi_frame_fault *fault_out);

/* Writes the body of a HELLO of this version. */
void twi_hello_put(uint8_t out[TWI_HELLO_BYTES], const struct twi_hello *hello);

/*
 * Reads and checks the body of a HELLO from the acceptor or from the connector of a stream. TOW_OK;
 * TOW_EPROTOCOL: *fault_out says why, and *out is untouched, except for TWI_FAULT_VERSION. Then its
 * version fields are set, so that the message can name both versions.
 */
int twi_hello_get(const uint8_t in[TWI_HELLO_BYTES], bool from_acceptor, struct twi_hello *out,
		  enum twi_frame_fault *fault_out);

/* The text of a fault in one line, static. "unknown" for a number that is no fault. */
const char *twi_frame_fault_text(enum twi_frame_fault fault);
/* The name of a type, as "HELLO", static. "unknown" for a number that is no type. */
const char *twi_frame_type_name(uint8_t type);

/*
 * The credit that a message costs while its receiver holds it. That is 64 bytes for the record that
 * keeps it, and for EAGER, but not for RTS, its payload, rounded up to 64 bytes. Both sides must
 * count alike. payload_bytes is at most TWI_WIRE_EAGER_MAX, so the sum fits.
 */
static inline uint32_t twi_frame_cost(uint32_t payload_bytes)
{
	twi_assert_hot(payload_bytes <= TWI_WIRE_EAGER_MAX);
	return 64 + ((payload_bytes + 63) & ~63u);
}

#endif
