/*
 * frame.c - reads frames from a peer that may be hostile.
 *
 * A table says which frames are legal. It has a row for each type, and for DATA a row for each kind
 * of it. A row has a range for every field, and [0,0] for a field that is not used. Reading
 * compares fields with ranges. Three checks are not in the table: the payload of EAGER against the
 * reader's limit, its checksum, and the end of a chunk, where two fields bound each other.
 */
#include "transport/wire/frame.h"

#include "transport/wire/feature.h"

#define ON_CONTROL 0x1u
#define ON_BULK    0x2u

struct frame_rule {
	const char *name;
	uint8_t streams; /* 0: there is no such type */
	uint8_t flags;   /* flags that it may have; DATA: see data_rules */
	bool channel;    /* it may name a channel; other frames are of a message, or of none */
	uint32_t payload_min, payload_max;
	uint64_t seq_min, seq_max;
	uint64_t tag_max;
	uint64_t value_min, value_max;
};

/* Every message has a seq of at least 1, so that 0 can mean "none". */
#define SEQ .seq_min = 1, .seq_max = TWI_WIRE_U63_MAX

static const struct frame_rule frame_rules[TWI_FRAME_TYPE_END] = {
	[TWI_FRAME_HELLO] = { .name = "HELLO",
			      .streams = ON_CONTROL | ON_BULK,
			      .payload_min = TWI_HELLO_BYTES,
			      .payload_max = TWI_HELLO_BYTES },
	[TWI_FRAME_EAGER] = { .name = "EAGER",
			      .channel = true,
			      .streams = ON_CONTROL,
			      .payload_max = TWI_WIRE_EAGER_MAX,
			      .flags = TWI_FRAME_SPACE | TWI_FRAME_SUM,
			      SEQ,
			      .tag_max = UINT64_MAX }, /* with SUM the value is a crc32c */
	[TWI_FRAME_RTS] = { .name = "RTS",
			    .channel = true,
			    .streams = ON_CONTROL,
			    .flags = TWI_FRAME_SPACE | TWI_FRAME_SUM | TWI_FRAME_READY,
			    SEQ,
			    .tag_max = UINT64_MAX,
			    .value_min = 1,
			    .value_max = TWI_WIRE_U63_MAX },
	[TWI_FRAME_CTS] = { .name = "CTS",
			    .streams = ON_CONTROL,
			    SEQ,
			    .value_min = 1,
			    .value_max = TWI_WIRE_U63_MAX },
	[TWI_FRAME_DONE] = { .name = "DONE",
			     .streams = ON_CONTROL,
			     SEQ,
			     .value_max = TWI_WIRE_HOLD_MAX_NS },
	[TWI_FRAME_ACK] = { .name = "ACK",
			    .streams = ON_CONTROL,
			    SEQ,
			    .tag_max = TWI_WIRE_U63_MAX,
			    .value_max = TWI_WIRE_HOLD_MAX_NS },
	[TWI_FRAME_CANCEL] = { .name = "CANCEL",
			       .streams = ON_CONTROL,
			       SEQ,
			       .value_max = TWI_BACK_END - 1 },
	[TWI_FRAME_REFUSE] = { .name = "REFUSE",
			       .streams = ON_CONTROL,
			       SEQ,
			       .value_min = 1,
			       .value_max = TWI_REFUSE_END - 1 },
	[TWI_FRAME_BYE] = { .name = "BYE",
			    .streams = ON_CONTROL,
			    .value_max = TWI_WIRE_STATUS_MAX },
	[TWI_FRAME_DATA] = { .name = "DATA", .streams = ON_BULK }, /* the rest: data_rules */
	[TWI_FRAME_RECEIVED] = { .name = "RECEIVED",
				 .streams = ON_CONTROL,
				 .value_max = TWI_WIRE_U63_MAX },
	[TWI_FRAME_PING] = { .name = "PING", .streams = ON_CONTROL, .value_max = TWI_WIRE_U63_MAX },
	[TWI_FRAME_PONG] = { .name = "PONG", .streams = ON_CONTROL, .value_max = TWI_WIRE_U63_MAX },
	[TWI_FRAME_ANNOUNCE] = { .name = "ANNOUNCE",
				 .channel = true,
				 .streams = ON_CONTROL,
				 .flags = TWI_FRAME_SPACE,
				 .seq_max = TWI_WIRE_U63_MAX,
				 .tag_max = UINT64_MAX,
				 .value_min = 1,
				 .value_max = TWI_WIRE_U63_MAX },
	[TWI_FRAME_READ] = { .name = "READ",
			     .channel = true,
			     .streams = ON_CONTROL,
			     .payload_min = TWI_REMOTE_BYTES,
			     .payload_max = TWI_REMOTE_BYTES,
			     SEQ,
			     .tag_max = TWI_WIRE_U63_MAX,
			     .value_min = 1,
			     .value_max = TWI_WIRE_U63_MAX },
	[TWI_FRAME_WRITE] = { .name = "WRITE",
			      .channel = true,
			      .streams = ON_CONTROL,
			      .payload_min = TWI_REMOTE_BYTES,
			      .payload_max = TWI_REMOTE_BYTES,
			      SEQ,
			      .tag_max = TWI_WIRE_U63_MAX,
			      .value_min = 1,
			      .value_max = TWI_WIRE_U63_MAX },
};

/* By the flags of DATA: a chunk, a commit without and with a checksum, an abort. */
static const struct frame_rule data_rules[] = {
	[0] = { .payload_min = 1,
		.payload_max = TWI_WIRE_CHUNK_MAX,
		SEQ,
		.value_max = TWI_WIRE_U63_MAX },
	[TWI_FRAME_LAST] = { SEQ, .value_min = 1, .value_max = TWI_WIRE_U63_MAX },
	[TWI_FRAME_LAST | TWI_FRAME_SUM] = { SEQ, .tag_max = UINT32_MAX, .value_min = 1,
					     .value_max = TWI_WIRE_U63_MAX },
	[TWI_FRAME_ABORT] = { SEQ, .value_max = TWI_BACK_END - 1 },
};

/* The ranges of a frame of a known type, or NULL when it cannot have these flags. */
static const struct frame_rule *ranges_of(const struct twi_frame *f)
{
	if (f->type == TWI_FRAME_DATA)
		return f->flags < twi_array_count(data_rules) && data_rules[f->flags].seq_max != 0
			       ? &data_rules[f->flags]
			       : NULL;
	return f->flags & ~frame_rules[f->type].flags ? NULL : &frame_rules[f->type];
}

/* Whether a frame of this type may come at this point of this stream. */
static enum twi_frame_fault check_place(const struct frame_rule *rule, const struct twi_frame *f,
					const struct twi_frame_limits *limits)
{
	const bool hello = f->type == TWI_FRAME_HELLO;

	if (hello == limits->hello_done)
		return TWI_FAULT_ORDER;
	if (!(rule->streams & (limits->control ? ON_CONTROL : ON_BULK)))
		return TWI_FAULT_STREAM;
	return TWI_FAULT_NONE;
}

static enum twi_frame_fault check_ranges(const struct frame_rule *rule, const struct twi_frame *f,
					 const struct twi_frame_limits *limits)
{
	if (f->payload_bytes < rule->payload_min || f->payload_bytes > rule->payload_max)
		return TWI_FAULT_PAYLOAD;
	if (f->type == TWI_FRAME_EAGER && f->payload_bytes > limits->eager_max_bytes)
		return TWI_FAULT_PAYLOAD;
	if (f->seq < rule->seq_min || f->seq > rule->seq_max)
		return TWI_FAULT_SEQ;
	if (f->tag > rule->tag_max)
		return TWI_FAULT_TAG;
	if (f->type == TWI_FRAME_EAGER && (f->flags & TWI_FRAME_SUM))
		return f->value > UINT32_MAX ? TWI_FAULT_VALUE : TWI_FAULT_NONE;
	if (f->value < rule->value_min || f->value > rule->value_max)
		return TWI_FAULT_VALUE;
	/* Both are in bounds, so the sum does not wrap; the chunk must end in bounds too. */
	if (f->type == TWI_FRAME_DATA && f->value + f->payload_bytes > TWI_WIRE_U63_MAX)
		return TWI_FAULT_VALUE;
	return TWI_FAULT_NONE;
}

static int frame_refuse(enum twi_frame_fault fault, enum twi_frame_fault *fault_out)
{
	*fault_out = fault;
	return TOW_EPROTOCOL;
}

int twi_frame_get(const uint8_t in[TWI_FRAME_BYTES], const struct twi_frame_limits *limits,
		  struct twi_frame *out, enum twi_frame_fault *fault_out)
{
	const struct twi_frame f = {
		.type = in[0],
		.flags = in[1],
		.channel = twi_get_le16(in + 2),
		.payload_bytes = twi_get_le32(in + 4),
		.seq = twi_get_le64(in + 8),
		.tag = twi_get_le64(in + 16),
		.value = twi_get_le64(in + 24),
	};
	const struct frame_rule *ranges;
	enum twi_frame_fault fault;

	if (f.type >= TWI_FRAME_TYPE_END || !frame_rules[f.type].streams)
		return frame_refuse(TWI_FAULT_TYPE, fault_out);
	if (f.channel && !frame_rules[f.type].channel)
		return frame_refuse(TWI_FAULT_RESERVED, fault_out);
	ranges = ranges_of(&f);
	if (ranges == NULL)
		return frame_refuse(TWI_FAULT_FLAGS, fault_out);
	fault = check_place(&frame_rules[f.type], &f, limits);
	if (!fault)
		fault = check_ranges(ranges, &f, limits);
	if (fault)
		return frame_refuse(fault, fault_out);
	*out = f;
	*fault_out = TWI_FAULT_NONE;
	return TOW_OK;
}

void twi_hello_put(uint8_t out[TWI_HELLO_BYTES], const struct twi_hello *hello)
{
	twi_put_le64(out, TWI_WIRE_MAGIC);
	twi_put_le16(out + 8, TWI_WIRE_MAJOR);
	twi_put_le16(out + 10, TWI_WIRE_MINOR);
	twi_put_le32(out + 12, (uint32_t)hello->kind | (uint32_t)hello->flags << 8 |
				       (uint32_t)hello->bulk_count << 16 |
				       (uint32_t)hello->channel << 24);
	twi_put_le64(out + 16, hello->session);
	twi_put_le64(out + 24, hello->token);
	twi_put_le32(out + 32, hello->eager_max_bytes);
	twi_put_le32(out + 36, 0);
	twi_put_le64(out + 40, hello->credit_bytes);
	twi_put_le64(out + 48, hello->features);
	twi_put_le64(out + 56, 0);
}

/* A newer minor version may use the reserved fields; they are not checked then. */
static bool hello_reserved_clear(const uint8_t *in)
{
	return !twi_get_le32(in + 36) && !twi_get_le64(in + 56);
}

static enum twi_frame_fault hello_check(const struct twi_hello *h, bool from_acceptor)
{
	const bool control = h->kind == TWI_STREAM_CONTROL;
	/* Only the connector's first HELLO is sent before the acceptor has chosen the token. */
	const bool token_expected = from_acceptor || !control || (h->flags & TWI_HELLO_RESUME) != 0;

	if (h->kind >= TWI_STREAM_KIND_END)
		return TWI_FAULT_KIND;
	if (!h->session)
		return TWI_FAULT_SESSION;
	if ((h->token != 0) != token_expected)
		return TWI_FAULT_TOKEN;
	if (h->flags != 0 && h->flags != TWI_HELLO_RESUME &&
	    (h->flags != TWI_HELLO_FULL || control || !from_acceptor))
		return TWI_FAULT_HELLO_FLAGS;
	if (control ? h->bulk_count < 1 || h->bulk_count > TWI_BULK_MAX : h->bulk_count != 0)
		return TWI_FAULT_BULK_COUNT;
	if (h->channel > (control ? 0 : TWI_BULK_MAX - 1))
		return TWI_FAULT_CHANNEL;
	if (h->eager_max_bytes > (control ? TWI_WIRE_EAGER_MAX : 0))
		return TWI_FAULT_EAGER_MAX;
	if (h->credit_bytes > (control ? TWI_WIRE_CREDIT_MAX : 0))
		return TWI_FAULT_CREDIT;
	/* With less credit, the largest eager message would wait for ever. */
	if (control && h->credit_bytes < twi_frame_cost(h->eager_max_bytes))
		return TWI_FAULT_CREDIT;
	/* Features are agreed on once for a session, by the first HELLO of each direction. */
	if (h->features != 0 && (!control || (h->flags & TWI_HELLO_RESUME) != 0))
		return TWI_FAULT_FEATURES;
	return twi_features_valid(h->features) ? TWI_FAULT_NONE : TWI_FAULT_FEATURES;
}

int twi_hello_get(const uint8_t in[TWI_HELLO_BYTES], bool from_acceptor, struct twi_hello *out,
		  enum twi_frame_fault *fault_out)
{
	const struct twi_hello h = {
		.version_major = twi_get_le16(in + 8),
		.version_minor = twi_get_le16(in + 10),
		.kind = in[12],
		.flags = in[13],
		.bulk_count = in[14],
		.channel = in[15],
		.session = twi_get_le64(in + 16),
		.token = twi_get_le64(in + 24),
		.eager_max_bytes = twi_get_le32(in + 32),
		.credit_bytes = twi_get_le64(in + 40),
		.features = twi_get_le64(in + 48),
	};
	enum twi_frame_fault fault;

	if (twi_get_le64(in) != TWI_WIRE_MAGIC)
		return frame_refuse(TWI_FAULT_MAGIC, fault_out);
	if (h.version_major != TWI_WIRE_MAJOR) {
		out->version_major = h.version_major;
		out->version_minor = h.version_minor;
		return frame_refuse(TWI_FAULT_VERSION, fault_out);
	}
	if (h.version_minor <= TWI_WIRE_MINOR && !hello_reserved_clear(in))
		return frame_refuse(TWI_FAULT_RESERVED, fault_out);
	fault = hello_check(&h, from_acceptor);
	if (fault)
		return frame_refuse(fault, fault_out);
	*out = h;
	*fault_out = TWI_FAULT_NONE;
	return TOW_OK;
}

const char *twi_frame_fault_text(enum twi_frame_fault fault)
{
	static const char *const texts[TWI_FAULT_COUNT] = {
#define FAULT_TEXT(name, text) [TWI_FAULT_##name] = (text),
		TWI_FRAME_FAULT_MAP(FAULT_TEXT)
#undef FAULT_TEXT
	};

	return (unsigned int)fault < TWI_FAULT_COUNT ? texts[fault] : "unknown";
}

const char *twi_frame_type_name(uint8_t type)
{
	if (type >= TWI_FRAME_TYPE_END || frame_rules[type].name == NULL)
		return "unknown";
	return frame_rules[type].name;
}
