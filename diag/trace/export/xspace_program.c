/*
 * xspace_program.c - writes the program that a rank "runs" to the plane /host:metadata. There XProf
 * looks up to what an op belongs, its kind of transfer, and its size.
 *
 *	ENTRY main: for each rendezvous n
 *	  p.n = u8[bytes] parameter(n - 1)
 *	  send.n = (u8[bytes], u32[], token[]) send(p.n, token), channel_id=n
 *	  send-done.n = token[] send-done(send.n)
 *	  recv.n = (u8[bytes], u32[], token[]) recv(token)
 *	  recv-done.n = (u8[bytes], token[]) recv-done(recv.n)
 *	  wait.n = token[] send-done(send.n)
 *
 * `wait` is a further piece of a collective's time. XProf adds it up like a send-done. Megascale
 * Viewer joins a send to one send-done, and ignores `wait` by its name. Bytes are the result's.
 */
#include <stdio.h>

#include <internal/base.h>

#include "diag/record/coll_kind.h"
#include "diag/trace/export/xspace.h"

/* PrimitiveType of XLA. */
enum { TYPE_U8 = 6, TYPE_U32 = 8, TYPE_TUPLE = 13, TYPE_TOKEN = 17 };
/* More than any memory holds. XLA multiplies sizes without a check. */
#define BYTES_MAX ((int64_t)1 << 50)

/* The shapes of ops; the array's size changes. */
struct shapes {
	Twi__Shape array, number, token, empty, start, done;
	Twi__Shape *start_parts[3], *done_parts[2];
	Twi__Layout array_layout, number_layout;
	int64_t bytes, zero;
	protobuf_c_boolean no;
};

static void make_shapes(struct shapes *s)
{
	twi__shape__init(&s->array);
	s->number = s->token = s->empty = s->start = s->done = s->array;
	twi__layout__init(&s->array_layout);
	s->array_layout.tail_padding_alignment_in_elements = 1;
	s->number_layout = s->array_layout;
	s->zero = 0;
	s->no = 0;
	s->array_layout.n_minor_to_major = 1;
	s->array_layout.minor_to_major = &s->zero;
	s->array.element_type = TYPE_U8;
	s->array.n_dimensions = s->array.n_is_dynamic_dimension = 1;
	s->array.dimensions = &s->bytes;
	s->array.is_dynamic_dimension = &s->no;
	s->array.layout = &s->array_layout;
	s->number.element_type = TYPE_U32;
	s->number.layout = &s->number_layout;
	s->token.element_type = TYPE_TOKEN;
	s->empty.element_type = s->start.element_type = s->done.element_type = TYPE_TUPLE;
	s->start_parts[0] = s->done_parts[0] = &s->array;
	s->start_parts[1] = &s->number;
	s->start_parts[2] = s->done_parts[1] = &s->token;
	s->start.n_tuple_shapes = 3;
	s->start.tuple_shapes = s->start_parts;
	s->done.n_tuple_shapes = 2;
	s->done.tuple_shapes = s->done_parts;
}

static void add_row(struct twi_packed *computation, Twi__HloInstruction *row)
{
	Twi__HloComputation part = TWI__HLO_COMPUTATION__INIT;

	part.n_instructions = 1;
	part.instructions = &row;
	twi_packed_add(computation, &part.base);
}

/* An op of the program; `operands` are ids of earlier ops. */
struct op {
	const char *what; /* its name */
	Twi__Shape *shape;
	int64_t id, number;
	int64_t operands[2];
	size_t operand_count;
	const char *opcode; /* NULL: the same as its name */
};

static void add_op(struct twi_packed *computation, const struct op *op,
		   const struct twi_rendezvous *rendezvous)
{
	Twi__HloInstruction row = TWI__HLO_INSTRUCTION__INIT;
	Twi__FrontendAttributes attributes = TWI__FRONTEND_ATTRIBUTES__INIT;
	Twi__StringPair pairs[2] = { TWI__STRING_PAIR__INIT, TWI__STRING_PAIR__INIT };
	Twi__StringPair *pointers[2] = { &pairs[0], &pairs[1] };
	char name[48], rendezvous_key[] = "_xla_host_transfer_rendezvous",
		       transfer_key[] = "_xla_megascale_transfer_type";

	snprintf(name, sizeof(name), "%s.%lld", op->what, (long long)op->number);
	row.name = name;
	row.opcode = twi_packed_text(op->opcode != NULL ? op->opcode : op->what);
	row.shape = op->shape;
	row.id = op->id;
	row.n_operand_ids = op->operand_count;
	row.operand_ids = (int64_t *)(uintptr_t)op->operands;
	row.frontend_attributes = &attributes;
	if (rendezvous != NULL) {
		row.channel_id = op->number;
		row.is_host_transfer = 1;
		pairs[0].key = rendezvous_key;
		pairs[0].value = twi_packed_text(rendezvous->name);
		pairs[1].key = transfer_key;
		pairs[1].value = twi_packed_text(twi_rendezvous_transfer(rendezvous));
		attributes.n_map = 2;
		attributes.map = pointers;
	}
	add_row(computation, &row);
}

/* Ids: 0 is the token, 1 the root; then each rendezvous has six. */
enum { ID_TOKEN, ID_ROOT, ID_FIRST, ID_EACH = 6 };

static void add_parameter(struct twi_packed *computation, struct shapes *s, int64_t id, size_t n)
{
	Twi__HloInstruction row = TWI__HLO_INSTRUCTION__INIT;
	char name[32], opcode[] = "parameter";

	snprintf(name, sizeof(name), "p.%zu", n);
	row.name = name;
	row.opcode = opcode;
	row.shape = &s->array;
	row.id = id;
	row.parameter_number = (int64_t)n - 1;
	add_row(computation, &row);
}

static void add_rendezvous(struct twi_packed *computation, struct shapes *s, size_t n,
			   const struct twi_rendezvous *rendezvous)
{
	int64_t id = ID_FIRST + ID_EACH * ((int64_t)n - 1), number = (int64_t)n;
	struct op send = { "send", &s->start, id + 1, number, { id, ID_TOKEN }, 2, NULL };
	struct op send_done = { "send-done", &s->token, id + 2, number, { id + 1, 0 }, 1, NULL };
	struct op recv = { "recv", &s->start, id + 3, number, { ID_TOKEN, 0 }, 1, NULL };
	struct op recv_done = { "recv-done", &s->done, id + 4, number, { id + 3, 0 }, 1, NULL };
	struct op wait = { "wait", &s->token, id + 5, number, { id + 1, 0 }, 1, "send-done" };

	add_parameter(computation, s, id, n);
	add_op(computation, &send, rendezvous);
	add_op(computation, &send_done, rendezvous);
	add_op(computation, &recv, rendezvous);
	add_op(computation, &recv_done, rendezvous);
	add_op(computation, &wait, rendezvous);
}

/* Adds the parameter of rendezvous n to the program's shape. */
static void add_shape(struct twi_packed *shape, struct shapes *s, size_t n)
{
	Twi__ProgramShape part = TWI__PROGRAM_SHAPE__INIT;
	Twi__Shape *parameters = &s->array;
	char name[32], *names = name;

	snprintf(name, sizeof(name), "p.%zu", n);
	part.n_parameters = part.n_parameter_names = 1;
	part.parameters = &parameters;
	part.parameter_names = &names;
	twi_packed_add(shape, &part.base);
}

/* A rank gets only its part of a reduce-scatter's bytes. */
static int64_t bytes_of(const struct twi_rendezvous *rendezvous)
{
	uint64_t bytes = rendezvous->bytes;

	if (rendezvous->collective && rendezvous->kind == TWI_COLL_REDUCE_SCATTER)
		bytes /= twi_max(rendezvous->ranks, 1u);
	return bytes < (uint64_t)BYTES_MAX ? (int64_t)bytes : BYTES_MAX;
}

static void make_module(const struct twi_ops *ops, struct twi_packed *out)
{
	struct op token = { .what = "after-all", .id = ID_TOKEN };
	struct op root = { .what = "tuple", .id = ID_ROOT };
	Twi__HloComputation head = TWI__HLO_COMPUTATION__INIT;
	Twi__ProgramShape result = TWI__PROGRAM_SHAPE__INIT;
	Twi__HloModule module = TWI__HLO_MODULE__INIT;
	struct twi_packed computation = { 0 }, shape = { 0 };
	char entry[] = "main";
	struct shapes s;

	make_shapes(&s);
	token.shape = &s.token;
	root.shape = &s.empty;
	add_op(&computation, &token, NULL);
	for (size_t n = 1; n <= ops->rendezvous_count; n++) {
		s.bytes = bytes_of(&ops->rendezvous[n]);
		add_rendezvous(&computation, &s, n, &ops->rendezvous[n]);
		add_shape(&shape, &s, n);
	}
	add_op(&computation, &root, NULL);
	result.result = &s.empty;
	twi_packed_add(&shape, &result.base);
	head.name = entry;
	head.program_shape = twi_packed_field(&computation, &shape);
	head.root_id = ID_ROOT;
	twi_packed_add(&computation, &head.base);
	module.name = twi_packed_text(TWI_XSPACE_PROGRAM);
	module.entry_computation_name = entry;
	module.computations = twi_packed_field(out, &computation);
	module.host_program_shape = twi_packed_field(out, &shape);
	twi_packed_add(out, &module.base);
	twi_packed_fini(&computation);
	twi_packed_fini(&shape);
}

void twi_xspace_program(const struct twi_ops *ops, struct twi_packed *space)
{
	char name[48];
	struct twi_event_name event = { .name = name };
	Twi__HloProto part = TWI__HLO_PROTO__INIT;
	struct twi_packed module = { 0 }, proto = { 0 };
	struct twi_plane plane;
	struct twi_stats stats;

	make_module(ops, &module);
	part.hlo_module = twi_packed_field(&proto, &module);
	twi_packed_add(&proto, &part.base);
	twi_plane_init(&plane, 4, "/host:metadata");
	snprintf(name, sizeof(name), "%s(%d)", TWI_XSPACE_PROGRAM, TWI_XSPACE_PROGRAM_ID);
	stats.count = 0;
	twi_stats_bytes(&stats, TWI_STAT_HLO_PROTO, &proto);
	twi_stats_u64(&stats, TWI_STAT_PROGRAM_ID, TWI_XSPACE_PROGRAM_ID);
	event.stats = &stats;
	twi_plane_event_name(&plane, &event);
	if (proto.failed)
		plane.out.failed = true;
	twi_plane_end(&plane, space);
	twi_plane_fini(&plane);
	twi_packed_fini(&module);
	twi_packed_fini(&proto);
}
