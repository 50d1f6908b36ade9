/*
 * report.c - writes the figures into /v1/bpf and /v1/info.
 */
#include <stdio.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/emit.h"
#include "diag/bpf/figures.h"

static const struct {
	const char *name, *tracepoint, *help;
} programs[] = {
#define TWI_BPF_PROGRAM(name, tracepoint, help) { #name, tracepoint, help },
#include "diag/bpf/abi/bpf_program.def"
#undef TWI_BPF_PROGRAM
};

/* A copy of what a document needs, taken under the lock once. */
struct view {
	bool on, ever;
	pid_t helper;
	uint32_t programs, enrolled, missed;
	struct twi_bpf_slot own, host;
	uint64_t library_bytes;
	char why[TWI_BPF_TEXT_BYTES];
	char reasons[TWI_BPF_REASONS][TWI_BPF_REASON_BYTES];
};

static void emit_drops(const struct view *view, const struct twi_bpf_slot *slot, struct twi_emit *e)
{
	twi_emit_array_begin(e, "drops_by_reason");
	for (unsigned i = 0; i < TWI_BPF_REASONS; i++) {
		char number[32];

		if (slot->drops[i] == 0)
			continue;
		snprintf(number, sizeof(number), "reason %u", i);
		twi_emit_object_begin(e, NULL);
		twi_emit_str(e, "reason",
			     i + 1 == TWI_BPF_REASONS      ? "others"
			     : view->reasons[i][0] != '\0' ? view->reasons[i]
							   : number);
		twi_emit_u64(e, "count", slot->drops[i]);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
}

/* Only counters of events without an owner are the host's. The others belong to processes. */
static bool is_hosts(enum twi_bpf_counter counter)
{
	enum twi_bpf_program program = twi_bpf_counter_describe(counter)->program;

	return program == TWI_BPF_PROGRAM_zerocopy || program == TWI_BPF_PROGRAM_retransmit ||
	       program == TWI_BPF_PROGRAM_drop;
}

static void emit_slot(const struct view *view, const char *key, const struct twi_bpf_slot *slot,
		      bool host, struct twi_emit *e)
{
	twi_emit_object_begin(e, key);
	for (unsigned i = 0; i < TWI_BPF_COUNTERS; i++) {
		const struct twi_bpf_counter_info *info = twi_bpf_counter_describe(i);

		if (host && !is_hosts(i))
			continue;
		if ((view->programs >> info->program & 1) != 0)
			twi_emit_u64(e, info->name, slot->counters[i]);
		else
			twi_emit_str(e, info->name, NULL);
	}
	emit_drops(view, slot, e);
	twi_emit_object_end(e);
}

static void emit_programs(const struct view *view, struct twi_emit *e)
{
	twi_emit_array_begin(e, "programs");
	for (unsigned i = 0; i < TWI_BPF_PROGRAMS; i++) {
		twi_emit_object_begin(e, NULL);
		twi_emit_str(e, "name", programs[i].name);
		twi_emit_str(e, "tracepoint", programs[i].tracepoint);
		twi_emit_bool(e, "attached", view->on && (view->programs >> i & 1) != 0);
		twi_emit_str(e, "help", programs[i].help);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
}

static void emit_state(const struct view *view, struct twi_emit *e)
{
	twi_emit_str(e, "state", view->on ? "on" : "off");
	twi_emit_str(e, "why", view->why[0] != '\0' ? view->why : NULL);
}

static void take_view(struct twi_bpf_figures *figures, struct view *out)
{
	*out = (struct view){ 0 };
	pthread_mutex_lock(&figures->lock);
	twi_bpf_figures_refresh(figures);
	out->on = figures->on;
	out->ever = figures->ever;
	out->helper = figures->helper;
	out->programs = figures->programs;
	out->enrolled = figures->enrolled;
	out->missed = figures->missed;
	out->own = figures->last;
	out->host = figures->host;
	out->library_bytes = figures->library_last;
	memcpy(out->why, figures->why, sizeof(out->why));
	memcpy(out->reasons, figures->reasons, sizeof(out->reasons));
	pthread_mutex_unlock(&figures->lock);
}

void twi_bpf_figures_report(void *figures, struct twi_emit *e)
{
	struct view view;

	take_view(figures, &view);
	emit_state(&view, e);
	emit_programs(&view, e);
	if (!view.ever)
		return;
	twi_emit_i64(e, "helper_pid", view.helper);
	twi_emit_u64(e, "sockets_enrolled", view.enrolled);
	twi_emit_u64(e, "sockets_not_enrolled", view.missed);
	emit_slot(&view, "process", &view.own, false, e);
	/* The process's zerocopy_copied_bytes again, as the library itself has counted them. */
	twi_emit_u64(e, "library_zerocopy_copied_bytes", view.library_bytes);
	emit_slot(&view, "host", &view.host, true, e);
}

void twi_bpf_figures_info(void *figures, struct twi_emit *e)
{
	struct view view;

	take_view(figures, &view);
	twi_emit_object_begin(e, "bpf");
	emit_state(&view, e);
	twi_emit_object_end(e);
}
