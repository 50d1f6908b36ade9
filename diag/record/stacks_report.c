/* stacks_report.c - /v1/stacks: where each thread of the process is. See stacks.h. */
#include <stdio.h>

#include <internal/base.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/base/place.h"
#include "diag/record/stacks.h"

/* Why the thread has no stack; NULL: it has one. */
static const char *why_none(const struct twi_stacks *stacks, const struct twi_stacks_thread *row)
{
	switch (row->answer) {
	case TWI_STACKS_ANSWERED:
		return NULL;
	case TWI_STACKS_BLOCKED:
		return "it blocks the signal";
	case TWI_STACKS_SILENT:
		return "it has not answered within 500 ms";
	case TWI_STACKS_OFF:
		break;
	}
	return stacks->taken ? "the program has since given the signal to another handler"
			     : "the knob stacks_signal is 0";
}

static void emit_frames(struct twi_emit *e, const struct twi_stacks_thread *row)
{
	char text[TWI_PLACE_TEXT_BYTES];

	twi_emit_array_begin(e, "frames");
	for (unsigned i = 0; i < row->depth; i++) {
		struct twi_place place;

		twi_place_find(row->frames[i], &place);
		twi_place_text(&place, text, sizeof(text));
		twi_emit_object_begin(e, NULL);
		twi_emit_str(e, "place", text);
		twi_place_emit(e, &place);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
}

static void emit_thread(struct twi_emit *e, const struct twi_stacks *stacks,
			const struct twi_stacks_thread *row)
{
	const char state[2] = { row->state, '\0' };

	twi_emit_object_begin(e, NULL);
	twi_emit_i64(e, "tid", row->tid);
	twi_emit_str(e, "name", row->name);
	twi_emit_str(e, "state", state);
	twi_emit_str(e, "kernel", row->kernel[0] != '\0' ? row->kernel : NULL);
	twi_emit_u64(e, "cpu_ns", row->cpu_ns);
	twi_emit_str(e, "why_none", why_none(stacks, row));
	emit_frames(e, row);
	twi_emit_object_end(e);
}

void twi_stacks_describe(void *unused, struct twi_emit *e)
{
	struct twi_stacks stacks;
	int status = twi_stacks_ask(&stacks);

	(void)unused;
	twi_emit_i64(e, "signal", stacks.signal);
	twi_emit_str(e, "error", status < 0 ? tow_error_message() : NULL);
	twi_emit_array_begin(e, "threads");
	for (size_t i = 0; i < stacks.count; i++)
		emit_thread(e, &stacks, &stacks.rows[i]);
	twi_emit_array_end(e);
	twi_emit_u64(e, "threads_left_out", stacks.left_out);
	twi_stacks_free(&stacks);
}
