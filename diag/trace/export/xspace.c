/* xspace.c - writes an XSpace. See xspace.h. */
#include "diag/trace/export/xspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/trace/export/clean.h"
#include "diag/trace/export/export.h"
#include "diag/trace/export/protobuf_lazy.h"

int twi_xspace_ready(void)
{
	return twi_protobuf_load();
}

const char *twi_stat_name(enum twi_stat stat)
{
	static const char *const names[] = { "",
#define STAT_NAME(id, name) name,
					     TWI_STAT_MAP(STAT_NAME)
#undef STAT_NAME
	};

	return names[stat];
}

static Twi__XStat *next_stat(struct twi_stats *s, enum twi_stat stat)
{
	Twi__XStat *row = &s->rows[s->count];

	twi_assert(s->count < TWI_LINE_STATS);
	twi__xstat__init(row);
	row->metadata_id = stat;
	s->pointers[s->count++] = row;
	return row;
}

void twi_stats_u64(struct twi_stats *s, enum twi_stat stat, uint64_t value)
{
	Twi__XStat *row = next_stat(s, stat);

	row->value_case = TWI__XSTAT__VALUE_UINT64_VALUE;
	row->uint64_value = value;
}

void twi_stats_i64(struct twi_stats *s, enum twi_stat stat, int64_t value)
{
	Twi__XStat *row = next_stat(s, stat);

	row->value_case = TWI__XSTAT__VALUE_INT64_VALUE;
	row->int64_value = value;
}

void twi_stats_text(struct twi_stats *s, enum twi_stat stat, const char *text)
{
	Twi__XStat *row;

	if (text == NULL)
		return;
	row = next_stat(s, stat);
	row->value_case = TWI__XSTAT__VALUE_STR_VALUE;
	row->str_value = twi_packed_text(text);
}

void twi_stats_bytes(struct twi_stats *s, enum twi_stat stat, const struct twi_packed *bytes)
{
	Twi__XStat *row = next_stat(s, stat);

	row->value_case = TWI__XSTAT__VALUE_BYTES_VALUE;
	row->bytes_value.data = bytes->at;
	row->bytes_value.len = bytes->count;
}

void twi_plane_init(struct twi_plane *plane, int64_t id, const char *name)
{
	Twi__XPlane head = TWI__XPLANE__INIT;

	*plane = (struct twi_plane){ 0 };
	head.id = id;
	head.name = twi_packed_text(name);
	twi_packed_add(&plane->out, &head.base);
}

void twi_plane_fini(struct twi_plane *plane)
{
	twi_names_fini(&plane->names);
	twi_packed_fini(&plane->out);
	twi_packed_fini(&plane->line);
	*plane = (struct twi_plane){ 0 };
}

static void use_stats(struct twi_plane *plane, const struct twi_stats *stats)
{
	for (size_t i = 0; stats != NULL && i < stats->count; i++)
		plane->used[stats->rows[i].metadata_id] = true;
}

int64_t twi_plane_event_name(struct twi_plane *plane, const struct twi_event_name *name)
{
	Twi__XPlane part = TWI__XPLANE__INIT;
	Twi__XEventMetadataEntry entry = TWI__XEVENT_METADATA_ENTRY__INIT, *entries = &entry;
	Twi__XEventMetadata value = TWI__XEVENT_METADATA__INIT;
	uint32_t number;
	bool is_new;

	number = twi_names_number(&plane->names, name->name, &is_new);
	if (number == 0)
		plane->out.failed = true;
	if (!is_new)
		return number;
	entry.key = value.id = number;
	entry.value = &value;
	value.name = twi_packed_text(name->name);
	if (name->display_name != NULL)
		value.display_name = twi_packed_text(name->display_name);
	if (name->stats != NULL) {
		value.n_stats = name->stats->count;
		value.stats = (Twi__XStat **)(uintptr_t)name->stats->pointers;
		use_stats(plane, name->stats);
	}
	part.n_event_metadata = 1;
	part.event_metadata = &entries;
	twi_packed_add(&plane->out, &part.base);
	return number;
}

void twi_plane_stat(struct twi_plane *plane, const struct twi_stats *stats)
{
	Twi__XPlane part = TWI__XPLANE__INIT;

	part.n_stats = stats->count;
	part.stats = (Twi__XStat **)(uintptr_t)stats->pointers;
	twi_packed_add(&plane->out, &part.base);
	use_stats(plane, stats);
}

void twi_plane_line_begin(struct twi_plane *plane, int64_t id, const char *name,
			  const char *display_name, int64_t start_ns)
{
	Twi__XLine head = TWI__XLINE__INIT;

	twi_packed_clear(&plane->line);
	plane->line_start_ns = start_ns;
	head.id = head.display_id = id;
	head.name = twi_packed_text(name);
	if (display_name != NULL)
		head.display_name = twi_packed_text(display_name);
	head.timestamp_ns = start_ns;
	twi_packed_add(&plane->line, &head.base);
}

/* Picoseconds hold at most 106 days; a longer time becomes the maximum. */
static int64_t ps_of(uint64_t ns)
{
	return ns > INT64_MAX / 1000 ? INT64_MAX : (int64_t)ns * 1000;
}

void twi_plane_event(struct twi_plane *plane, int64_t name, int64_t start_ns, uint64_t took_ns,
		     const struct twi_stats *stats)
{
	Twi__XLine part = TWI__XLINE__INIT;
	Twi__XEvent event = TWI__XEVENT__INIT, *events = &event;

	event.metadata_id = name;
	event.data_case = TWI__XEVENT__DATA_OFFSET_PS;
	event.offset_ps = start_ns < plane->line_start_ns
				  ? 0
				  : ps_of((uint64_t)start_ns - (uint64_t)plane->line_start_ns);
	event.duration_ps = ps_of(took_ns);
	event.n_stats = stats->count;
	event.stats = (Twi__XStat **)(uintptr_t)stats->pointers;
	use_stats(plane, stats);
	part.n_events = 1;
	part.events = &events;
	twi_packed_add(&plane->line, &part.base);
}

void twi_plane_line_end(struct twi_plane *plane)
{
	Twi__XPlanePart part = TWI__XPLANE_PART__INIT;

	part.lines = twi_packed_field(&plane->out, &plane->line);
	twi_packed_add(&plane->out, &part.base);
}

void twi_plane_end(struct twi_plane *plane, struct twi_packed *space)
{
	Twi__XSpacePart space_part = TWI__XSPACE_PART__INIT;

	for (int stat = 1; stat < TWI_STAT_COUNT; stat++) {
		Twi__XPlane part = TWI__XPLANE__INIT;
		Twi__XStatMetadataEntry entry = TWI__XSTAT_METADATA_ENTRY__INIT, *entries = &entry;
		Twi__XStatMetadata value = TWI__XSTAT_METADATA__INIT;

		if (!plane->used[stat])
			continue;
		entry.key = value.id = stat;
		entry.value = &value;
		value.name = twi_packed_text(twi_stat_name((enum twi_stat)stat));
		part.n_stat_metadata = 1;
		part.stat_metadata = &entries;
		twi_packed_add(&plane->out, &part.base);
	}
	space_part.planes = twi_packed_field(space, &plane->out);
	twi_packed_add(space, &space_part.base);
}

/* Adds a warning, which XProf shows on its overview. */
static void add_warning(struct twi_packed *space, char *text)
{
	Twi__XSpace part = TWI__XSPACE__INIT;

	part.n_warnings = 1;
	part.warnings = &text;
	twi_packed_add(space, &part.base);
}

/* Explains why ranks appear as devices: XProf looks for slack only there. */
static void warn_no_device(struct twi_packed *space)
{
	char text[] =
		"Towline: a device here is a rank, of which its calls for the network and its "
		"steps are known, but no computation. Step times are measured; duty cycle, idle "
		"time, and the shares of compute, input and output are not, and 0 % says nothing. "
		"See Trace Viewer and Megascale Stats.";

	add_warning(space, text);
}

/* Counts what XProf's views leave out. The spans themselves are all there. */
static void warn_left_out(const struct twi_ops *ops, struct twi_packed *space)
{
	char text[160];

	if (ops->left_out == 0)
		return;
	snprintf(text, sizeof(text),
		 "Towline: %llu operations are not among the XLA Ops, which had no room for more "
		 "than %u names",
		 (unsigned long long)ops->left_out, TWI_RENDEZVOUS_MAX);
	add_warning(space, text);
}

static void add_hosts(const struct twi_trace *trace, struct twi_packed *space)
{
	for (size_t i = 0; i < trace->rank_count; i++) {
		Twi__XSpace part = TWI__XSPACE__INIT;
		bool said = false;

		for (size_t j = 0; j < i && !said; j++)
			said = strcmp(trace->ranks[i].host, trace->ranks[j].host) == 0;
		if (said)
			continue;
		part.n_hostnames = 1;
		part.hostnames = &trace->ranks[i].host;
		twi_packed_add(space, &part.base);
	}
}

int twi_export_xspace(const struct twi_trace *trace, char **bytes_out, size_t *count_out)
{
	struct twi_deliveries deliveries = { 0 };
	struct twi_packed space = { 0 };
	struct twi_trace view;
	struct twi_ops ops = { 0 };
	int status;

	*bytes_out = NULL;
	*count_out = 0;
	status = twi_protobuf_load();
	if (status == TOW_OK)
		status = twi_clean_make(trace, &view);
	if (status < 0)
		return status;
	status = twi_deliveries_make(&view, &deliveries);
	if (status == TOW_OK)
		status = twi_ops_make(&view, &ops);
	if (status == TOW_OK) {
		twi_xspace_host(&view, &deliveries, &space);
		twi_xspace_devices(&view, &ops, &space);
		twi_xspace_megascale(&view, &ops, &deliveries, &space);
		twi_xspace_program(&ops, &space);
		twi_xspace_ranks(&view, &space);
		twi_xspace_time(&view, &space);
		warn_no_device(&space);
		warn_left_out(&ops, &space);
		add_hosts(&view, &space);
		twi_ops_fini(&ops);
		status = twi_packed_take(&space, bytes_out, count_out);
	}
	twi_deliveries_fini(&deliveries);
	twi_clean_fini(&view);
	return status;
}
