/*
 * profile_xla.c - writes a profile in XLA's formats (docs/scheduler-profile.md).
 *
 * XLA stores a collective's rate, as bytes of its larger side in a second, and computes a time from
 * that again. The result is the median of the row, without the wait for the last rank.
 *
 * Each message is packed as soon as it is made (packed.h), so only the packed bytes are in memory.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/trace/export/packed.h"
#include "diag/trace/export/protobuf_lazy.h"
#include "tools/trace/profile_make.h"
#include <tools/trace/xla_profile.pb-c.h>

#define RANKS_MOST 4096u /* ranks with pairs of a permute */

/* The numbers of xla.PrimitiveType. */
static const struct {
	const char *name;
	int32_t number;
} types[] = {
	{ "f32", 11 }, { "f64", 12 },    { "f16", 10 }, { "bf16", 16 }, { "f8e4m3", 20 },
	{ "s8", 2 },   { "f8e5m2", 19 }, { "s16", 3 },  { "s32", 4 },   { "s64", 5 },
	{ "u8", 6 },   { "u16", 7 },     { "u32", 8 },  { "u64", 9 },   { "bool", 1 },
	{ "c64", 15 }, { "c128", 18 },
};

static int32_t type_number(const char *name)
{
	for (size_t i = 0; i < twi_array_count(types); i++) {
		if (strcmp(types[i].name, name) == 0)
			return types[i].number;
	}
	return 0;
}

/* XLA's name of a kind, and the fields of its instruction. */
static const struct opcode {
	const char *kind, *name;
	bool split;      /* its result is one rank's part of the size */
	bool dimensions; /* has the dimension on which it works */
	bool global;     /* has use_global_device_ids */
	bool pairs;      /* has pairs, and no groups */
} opcodes[] = {
	{ "all-reduce", "all-reduce", false, false, true, false },
	{ "all-gather", "all-gather", false, true, true, false },
	{ "reduce-scatter", "reduce-scatter", true, true, true, false },
	{ "all-to-all", "all-to-all", false, true, false, false },
	{ "permute", "collective-permute", false, false, false, true },
};

static const struct opcode *find_opcode(const char *kind)
{
	for (size_t i = 0; i < twi_array_count(opcodes); i++) {
		if (strcmp(opcodes[i].kind, kind) == 0)
			return &opcodes[i];
	}
	return NULL;
}

/* Returns the elements of the result; 0: XLA's table cannot hold the row. */
static uint64_t elements_of(const struct tool_profile_row *row)
{
	const struct opcode *opcode = find_opcode(row->kind);
	uint64_t width = tool_profile_type_bytes(row->type), parts = 1;

	if (opcode == NULL || row->ranks < 2 || width == 0 || !(row->moving.median_us > 0))
		return 0;
	if (opcode->pairs)
		return row->ring && row->ranks <= RANKS_MOST && row->bytes % width == 0
			       ? row->bytes / width
			       : 0;
	if (strcmp(row->kind, "all-reduce") != 0)
		parts = row->ranks;
	if (row->bytes % width != 0 || row->bytes / width % parts != 0)
		return 0;
	return row->bytes / width / (opcode->split ? parts : 1);
}

/* Pairs each rank with the next. False: no memory. */
static bool make_pairs(Twi__XlaInstruction *instruction, uint32_t ranks)
{
	Twi__XlaPair *pairs = calloc(ranks, sizeof(*pairs));

	instruction->source_target_pairs = calloc(ranks, sizeof(void *));
	if (pairs == NULL || instruction->source_target_pairs == NULL) {
		free(pairs);
		free(instruction->source_target_pairs);
		return false;
	}
	for (uint32_t r = 0; r < ranks; r++) {
		twi__xla_pair__init(&pairs[r]);
		pairs[r].source = r;
		pairs[r].target = (r + 1) % ranks;
		instruction->source_target_pairs[r] = &pairs[r];
	}
	instruction->n_source_target_pairs = ranks;
	return true;
}

/* Packs the instruction and the rate of a row as one entry of the list. */
static void pack_row(struct twi_packed *list, const struct tool_profile_row *row,
		     Twi__XlaInstruction *instruction)
{
	double rate = (double)row->bytes / row->moving.median_us * 1e6;
	Twi__XlaProfile profile = TWI__XLA_PROFILE__INIT, *one = &profile;
	Twi__XlaProfiles part = TWI__XLA_PROFILES__INIT;

	profile.instruction = instruction;
	profile.network_throughput_bytes_per_sec = rate < 1      ? 1
						   : rate > 9e18 ? INT64_MAX
								 : (int64_t)rate;
	part.n_entries = 1;
	part.entries = &one;
	twi_packed_add(list, &part.base);
}

static int add_row(struct twi_packed *list, const struct tool_profile_row *row)
{
	const struct opcode *opcode = find_opcode(row->kind);
	int64_t zero = 0, dimension = (int64_t)elements_of(row), ranks = row->ranks;
	int32_t identity = 0;
	protobuf_c_boolean is_dynamic = 0;
	Twi__XlaLayout layout = TWI__XLA_LAYOUT__INIT;
	Twi__XlaShape shape = TWI__XLA_SHAPE__INIT;
	Twi__XlaGroups groups = TWI__XLA_GROUPS__INIT;
	Twi__XlaInstruction instruction = TWI__XLA_INSTRUCTION__INIT;

	layout.n_minor_to_major = 1;
	layout.minor_to_major = &zero;
	layout.tail_padding_alignment_in_elements = 1;
	shape.element_type = type_number(row->type);
	shape.n_dimensions = shape.n_is_dynamic_dimension = 1;
	shape.dimensions = &dimension;
	shape.is_dynamic_dimension = &is_dynamic;
	shape.layout = &layout;
	groups.num_replica_groups = 1;
	groups.num_devices_per_group = ranks;
	groups.n_iota_reshape_dims = groups.n_iota_transpose_perm = 1;
	groups.iota_reshape_dims = &ranks;
	groups.iota_transpose_perm = &identity;
	instruction.name = instruction.opcode = twi_packed_text(opcode->name);
	instruction.shape = &shape;
	instruction.channel_id = instruction.id = 1;
	instruction.use_global_device_ids = opcode->global;
	instruction.n_dimensions = opcode->dimensions;
	instruction.dimensions = &zero;
	if (!opcode->pairs)
		instruction.iota_collective_device_list = &groups;
	else if (!make_pairs(&instruction, row->ranks))
		return twi_error(TOW_ENOMEM, "no memory for the pairs of %u ranks", row->ranks);
	pack_row(list, row, &instruction);
	if (opcode->pairs) {
		free(instruction.source_target_pairs[0]);
		free(instruction.source_target_pairs);
	}
	return TOW_OK;
}

/* Compares the fields by which XLA tells rows apart; 0: they are equal. */
static int compare_places(const void *a, const void *b)
{
	const struct tool_profile_row *const *left = a, *const *right = b;
	const struct tool_profile_row *l = *left, *r = *right;
	int order = strcmp(l->kind, r->kind);

	if (order == 0)
		order = strcmp(l->type, r->type);
	if (order == 0)
		order = (l->ranks > r->ranks) - (l->ranks < r->ranks);
	return order != 0 ? order : (l->bytes > r->bytes) - (l->bytes < r->bytes);
}

static int complain_twice(const struct tool_profile_row *a, const struct tool_profile_row *b)
{
	return twi_error(TOW_EINVAL,
			 "%s of %" PRIu64 " bytes on %u ranks is there of two lanes or numbers of "
			 "hosts (%s on %u, %s on %u), which XLA's table does not tell apart: "
			 "choose with --lane",
			 a->kind, a->bytes, a->ranks, a->lane[0] != '\0' ? a->lane : "unknown",
			 a->hosts, b->lane[0] != '\0' ? b->lane : "unknown", b->hosts);
}

static int pack_table(const char *device, const struct tool_profile_row **rows, size_t count,
		      struct twi_packed *out)
{
	struct twi_packed list = { 0 };
	Twi__XlaTablePart table = TWI__XLA_TABLE_PART__INIT;
	Twi__XlaTableEntryPart entry = TWI__XLA_TABLE_ENTRY_PART__INIT, *one = &entry;
	int status = TOW_OK;

	for (size_t i = 0; i < count && status == TOW_OK; i++) {
		if (i > 0 && compare_places(&rows[i - 1], &rows[i]) == 0)
			status = complain_twice(rows[i - 1], rows[i]);
		else
			status = add_row(&list, rows[i]);
	}
	entry.key = twi_packed_text(device);
	entry.value = twi_packed_field(out, &list);
	table.n_entries = 1;
	table.entries = &one;
	if (status == TOW_OK)
		twi_packed_add(out, &table.base);
	twi_packed_fini(&list);
	return status;
}

int profile_xla_table(const struct tool_profile *profile, const char *device, char **bytes_out,
		      size_t *count_out, size_t *left_out)
{
	const struct tool_profile_list *list = &profile->collectives;
	const struct tool_profile_row **rows = calloc(list->count + 1, sizeof(*rows));
	struct twi_packed out = { 0 };
	size_t count = 0;
	int status = twi_protobuf_load();

	if (rows == NULL)
		return twi_error(TOW_ENOMEM, "no memory for %zu rows", list->count);
	for (size_t i = 0; i < list->count; i++) {
		if (elements_of(&list->rows[i]) != 0)
			rows[count++] = &list->rows[i];
	}
	*left_out = list->count - count;
	qsort(rows, count, sizeof(*rows), compare_places);
	if (status == TOW_OK && count == 0)
		status = twi_error(TOW_EINVAL, "XLA's table has no place for any of %zu rows",
				   list->count);
	if (status == TOW_OK)
		status = pack_table(device, rows, count, &out);
	if (status == TOW_OK)
		status = twi_packed_take(&out, bytes_out, count_out);
	twi_packed_fini(&out);
	free(rows);
	return status;
}

/* --- costs of instructions --- */

/*
 * Copies the name of the call without the label of its group ("psum.1 of dp"). False: no
 * instruction can have this name, because it has spaces.
 */
static bool copy_instruction(const struct tool_profile_row *row, char out[TOOL_PROFILE_NAME])
{
	char *label;

	snprintf(out, TOOL_PROFILE_NAME, "%s", row->name);
	label = strstr(out, " of ");
	if (label != NULL)
		*label = '\0';
	return out[0] != '\0' && strpbrk(out, " \t") == NULL;
}

static void add_cost(struct twi_packed *out, const struct tool_profile_row *row, char *name)
{
	Twi__XlaCost cost = TWI__XLA_COST__INIT, *one = &cost;
	Twi__XlaCosts costs = TWI__XLA_COSTS__INIT;

	cost.name = name;
	cost.cost_us = row->moving.median_us;
	costs.n_costs = 1;
	costs.costs = &one;
	twi_packed_add(out, &costs.base);
}

/* True: no other row has this name. An instruction has one cost only. */
static bool is_alone(const struct tool_profile_list *list, size_t i, char name[TOOL_PROFILE_NAME])
{
	char other[TOOL_PROFILE_NAME];

	if (!copy_instruction(&list->rows[i], name))
		return false;
	if (i > 0 && copy_instruction(&list->rows[i - 1], other) && strcmp(other, name) == 0)
		return false;
	return i + 1 == list->count || !copy_instruction(&list->rows[i + 1], other) ||
	       strcmp(other, name) != 0;
}

int profile_xla_costs(const struct tool_profile *profile, char **bytes_out, size_t *count_out,
		      size_t *left_out)
{
	const struct tool_profile_list *list = &profile->names;
	struct twi_packed out = { 0 };
	char name[TOOL_PROFILE_NAME];
	int status = twi_protobuf_load();
	size_t added = 0;

	for (size_t i = 0; i < list->count && status == TOW_OK; i++) {
		if (!is_alone(list, i, name) || !(list->rows[i].moving.median_us > 0))
			continue;
		add_cost(&out, &list->rows[i], name);
		added++;
	}
	*left_out = list->count - added;
	if (status == TOW_OK && added == 0)
		status = twi_error(TOW_EINVAL,
				   "none of %zu named collectives has a name of its own that can "
				   "be an instruction's",
				   list->count);
	if (status == TOW_OK)
		status = twi_packed_take(&out, bytes_out, count_out);
	twi_packed_fini(&out);
	return status;
}
