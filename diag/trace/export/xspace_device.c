/*
 * xspace_device.c - writes a plane /device:TPU:<n> for each rank, in the trace's order: Steps, XLA
 * Modules, XLA Ops (ops.h). The module is a rank's program, from its first op to its last: XProf
 * ignores ops outside of modules.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/trace/export/xspace.h"

enum { LINE_STEPS = 1, LINE_MODULES, LINE_OPS };

/* XProf's code for an op. Further pieces count as send-done. */
static const char *op_code(const struct twi_op *op)
{
	return twi_op_what_name(op->what == TWI_OP_WAIT ? TWI_OP_SEND_DONE : op->what);
}

/* Writes an op as XProf prints HLO; XProf finds the rendezvous in this text. */
static void long_name(const struct twi_op *op, const struct twi_rendezvous *rendezvous, char *out,
		      size_t out_size)
{
	const char *what = twi_op_what_name(op->what);

	snprintf(out, out_size,
		 "%%%s.%u = %s, channel_id=%u, is_host_transfer=true, frontend_attributes="
		 "{_xla_host_transfer_rendezvous=\"%s\",_xla_megascale_transfer_type=\"%s\"}",
		 what, op->rendezvous, op_code(op), op->rendezvous, rendezvous->name,
		 twi_rendezvous_transfer(rendezvous));
}

/* Writes the participants (DcnCollectiveInfo). XProf uses only their number. */
static void collective_info(const struct twi_rendezvous *rendezvous, struct twi_packed *out)
{
	enum { RANKS_MAX = 65536 };
	Twi__DcnCollectiveInfo info = TWI__DCN_COLLECTIVE_INFO__INIT;
	Twi__Empty empty = TWI__EMPTY__INIT, *endpoint = &empty;
	Twi__DcnEndpoints part = TWI__DCN_ENDPOINTS__INIT;
	struct twi_packed group = { 0 };
	uint32_t ranks = twi_min(rendezvous->ranks, (uint32_t)RANKS_MAX);

	part.n_endpoints = 1;
	part.endpoints = &endpoint;
	for (uint32_t i = 0; i < ranks; i++)
		twi_packed_add(&group, &part.base);
	if (strcmp(twi_rendezvous_transfer(rendezvous), "ONE_TO_ONE") == 0) {
		info.participants_case = TWI__DCN_COLLECTIVE_INFO__PARTICIPANTS_ONE_TO_ONE;
		info.one_to_one = &empty;
	} else {
		info.participants_case = TWI__DCN_COLLECTIVE_INFO__PARTICIPANTS_ENDPOINTS;
		info.endpoints = twi_packed_field(out, &group);
	}
	twi_packed_add(out, &info.base);
	twi_packed_fini(&group);
}

/* The number of an op's name. The first use makes the name. */
static int64_t op_name(struct twi_plane *plane, const struct twi_rendezvous *rendezvous,
		       const struct twi_op *op)
{
	char text[TWI_RENDEZVOUS_BYTES + 224], shown[32], category[32];
	struct twi_stats common;
	struct twi_event_name name = { .name = text, .display_name = shown, .stats = &common };
	struct twi_packed info = { 0 };
	int64_t number;

	common.count = 0;
	long_name(op, rendezvous, text, sizeof(text));
	snprintf(shown, sizeof(shown), "%s.%u", twi_op_what_name(op->what), op->rendezvous);
	snprintf(category, sizeof(category), "host %s", op_code(op));
	twi_stats_text(&common, TWI_STAT_HLO_CATEGORY, category);
	twi_stats_u64(&common, TWI_STAT_PROGRAM_ID, TWI_XSPACE_PROGRAM_ID);
	if (op->what == TWI_OP_SEND) {
		collective_info(rendezvous, &info);
		twi_stats_bytes(&common, TWI_STAT_DCN_INFO, &info);
	}
	number = twi_plane_event_name(plane, &name);
	if (info.failed)
		plane->out.failed = true;
	twi_packed_fini(&info);
	return number;
}

static void add_ops(struct twi_plane *plane, const struct twi_ops *ops, size_t r, int64_t begin_ns,
		    int64_t shift_ns)
{
	int64_t *names = calloc((ops->rendezvous_count + 1) * TWI_OP_WHATS, sizeof(*names));
	struct twi_stats none;

	none.count = 0;
	if (names == NULL)
		plane->out.failed = true;
	twi_plane_line_begin(plane, LINE_OPS, "XLA Ops", NULL, begin_ns);
	for (size_t i = 0; names != NULL && i < ops->ranks[r].op_count; i++) {
		const struct twi_op *op = &ops->ranks[r].ops[i];
		int64_t *name = &names[op->rendezvous * TWI_OP_WHATS + op->what];
		int64_t start_ns, end_ns;

		if (*name == 0)
			*name = op_name(plane, &ops->rendezvous[op->rendezvous], op);
		start_ns = twi_show_at(op->start_ns, shift_ns);
		end_ns = twi_show_at(op->end_ns, shift_ns);
		twi_plane_event(plane, *name, start_ns, (uint64_t)(end_ns - start_ns), &none);
	}
	twi_plane_line_end(plane);
	free(names);
}

static int by_start(const void *a, const void *b)
{
	const struct twi_span *x = *(const struct twi_span *const *)a;
	const struct twi_span *y = *(const struct twi_span *const *)b;

	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Writes the STEP spans of all threads, in order. */
static void add_steps(struct twi_plane *plane, const struct twi_trace_rank *rank, int64_t begin_ns,
		      int64_t shift_ns)
{
	const struct twi_span **steps = NULL;
	size_t count = 0, room = 0;

	for (size_t t = 0; t < rank->thread_count; t++)
		room += rank->threads[t].span_count;
	steps = calloc(room + 1, sizeof(*steps));
	if (steps == NULL) {
		plane->out.failed = true;
		return;
	}
	for (size_t t = 0; t < rank->thread_count; t++)
		for (size_t i = 0; i < rank->threads[t].span_count; i++)
			if (rank->threads[t].spans[i].kind == TWI_SPAN_STEP)
				steps[count++] = &rank->threads[t].spans[i];
	qsort(steps, count, sizeof(*steps), by_start);
	twi_plane_line_begin(plane, LINE_STEPS, "Steps", NULL, begin_ns);
	for (size_t i = 0; i < count; i++) {
		char number[24];
		struct twi_event_name name = { .name = number };
		struct twi_stats stats;

		stats.count = 0;
		snprintf(number, sizeof(number), "%llu", (unsigned long long)steps[i]->id);
		twi_stats_i64(&stats, TWI_STAT_STEP_NUM, (int64_t)steps[i]->id);
		twi_plane_event(plane, twi_plane_event_name(plane, &name),
				twi_show_at(steps[i]->start_ns, shift_ns),
				steps[i]->end_ns - steps[i]->start_ns, &stats);
	}
	twi_plane_line_end(plane);
	free(steps);
}

static void add_module(struct twi_plane *plane, int64_t begin_ns, uint64_t last_ns,
		       int64_t shift_ns)
{
	char module[48];
	struct twi_event_name name = { .name = module };
	struct twi_stats stats;

	stats.count = 0;
	/* XProf joins a module's name and its program's id in this way. */
	snprintf(module, sizeof(module), "%s(%d)", TWI_XSPACE_PROGRAM, TWI_XSPACE_PROGRAM_ID);
	twi_stats_u64(&stats, TWI_STAT_RUN_ID, 1);
	twi_stats_u64(&stats, TWI_STAT_PROGRAM_ID, TWI_XSPACE_PROGRAM_ID);
	twi_plane_line_begin(plane, LINE_MODULES, "XLA Modules", NULL, begin_ns);
	twi_plane_event(plane, twi_plane_event_name(plane, &name), begin_ns,
			(uint64_t)(twi_show_at(last_ns, shift_ns) - begin_ns), &stats);
	twi_plane_line_end(plane);
}

void twi_xspace_devices(const struct twi_trace *trace, const struct twi_ops *ops,
			struct twi_packed *space)
{
	for (size_t r = 0; r < trace->rank_count; r++) {
		const struct twi_trace_rank *rank = &trace->ranks[r];
		const struct twi_ops_rank *own = &ops->ranks[r];
		int64_t shift_ns = twi_show_shift_ns(trace, rank), begin_ns;
		uint64_t first_ns = rank->begin_ns, last_ns = rank->end_ns;
		struct twi_plane plane;
		struct twi_stats stats;
		char name[48];

		for (size_t i = 0; i < own->op_count; i++) {
			first_ns = twi_min(first_ns, own->ops[i].start_ns);
			last_ns = twi_max(last_ns, own->ops[i].end_ns);
		}
		for (size_t t = 0; t < rank->thread_count; t++)
			if (rank->threads[t].span_count)
				first_ns = twi_min(first_ns, rank->threads[t].spans[0].start_ns);
		snprintf(name, sizeof(name), "/device:TPU:%zu", r);
		twi_plane_init(&plane, 10 + (int64_t)r, name);
		stats.count = 0;
		twi_stats_i64(&stats, TWI_STAT_RANK, rank->rank);
		twi_plane_stat(&plane, &stats);
		begin_ns = twi_show_at(first_ns, shift_ns);
		add_steps(&plane, rank, begin_ns, shift_ns);
		add_module(&plane, begin_ns, last_ns, shift_ns);
		add_ops(&plane, ops, r, begin_ns, shift_ns);
		twi_plane_end(&plane, space);
		twi_plane_fini(&plane);
	}
}
