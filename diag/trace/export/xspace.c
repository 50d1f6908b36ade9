/* xspace.c - an XSpace is written. */
#include "diag/trace/export/xspace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/trace/export/clean.h"
#include "diag/trace/export/export.h"

/* Numbers of the fields of XSpace, XPlane and XLine that are written piece by piece. */
enum { SPACE_PLANES = 1, SPACE_WARNINGS = 3, SPACE_HOSTNAMES = 4 };
enum { PLANE_ID = 1, PLANE_NAME, PLANE_LINES, PLANE_EVENT_NAMES, PLANE_STAT_NAMES, PLANE_STATS };
enum {
	LINE_ID = 1,
	LINE_NAME = 2,
	LINE_START = 3,
	LINE_EVENTS = 4,
	LINE_DISPLAY_ID = 10,
	LINE_DISPLAY_NAME = 11
};

const char *twi_xspace_off(void)
{
	return NULL;
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

void twi_pb_message(struct twi_pb *w, uint32_t field, const ProtobufCMessage *message)
{
	size_t count = protobuf_c_message_get_packed_size(message);
	uint8_t *at;

	twi_pb_head(w, field, count);
	at = twi_pb_room(w, count);
	if (at != NULL)
		protobuf_c_message_pack(message, at);
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
	row->str_value = (char *)(uintptr_t)text;
}

void twi_stats_bytes(struct twi_stats *s, enum twi_stat stat, const struct twi_pb *bytes)
{
	Twi__XStat *row = next_stat(s, stat);

	row->value_case = TWI__XSTAT__VALUE_BYTES_VALUE;
	row->bytes_value.data = bytes->at;
	row->bytes_value.len = bytes->count;
}

void twi_plane_init(struct twi_plane *plane, int64_t id, const char *name)
{
	*plane = (struct twi_plane){ 0 };
	twi_pb_u64(&plane->out, PLANE_ID, (uint64_t)id);
	twi_pb_text(&plane->out, PLANE_NAME, name);
}

void twi_plane_fini(struct twi_plane *plane)
{
	twi_names_fini(&plane->names);
	twi_pb_fini(&plane->out);
	twi_pb_fini(&plane->line);
	*plane = (struct twi_plane){ 0 };
}

static void use_stats(struct twi_plane *plane, const struct twi_stats *stats)
{
	for (size_t i = 0; stats != NULL && i < stats->count; i++)
		plane->used[stats->rows[i].metadata_id] = true;
}

int64_t twi_plane_event_name(struct twi_plane *plane, const struct twi_event_name *name)
{
	Twi__XEventMetadataEntry entry = TWI__XEVENT_METADATA_ENTRY__INIT;
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
	entry.value = &value;
	value.name = (char *)(uintptr_t)name->name;
	if (name->display_name != NULL)
		value.display_name = (char *)(uintptr_t)name->display_name;
	if (name->stats != NULL) {
		value.n_stats = name->stats->count;
		value.stats = (Twi__XStat **)(uintptr_t)name->stats->pointers;
		use_stats(plane, name->stats);
	}
	twi_pb_message(&plane->out, PLANE_EVENT_NAMES, &entry.base);
	return number;
}

void twi_plane_stat(struct twi_plane *plane, const struct twi_stats *stats)
{
	for (size_t i = 0; i < stats->count; i++)
		twi_pb_message(&plane->out, PLANE_STATS, &stats->rows[i].base);
	use_stats(plane, stats);
}

void twi_plane_line_begin(struct twi_plane *plane, int64_t id, const char *name,
			  const char *display_name, int64_t start_ns)
{
	twi_pb_clear(&plane->line);
	plane->line_start_ns = start_ns;
	twi_pb_u64(&plane->line, LINE_ID, (uint64_t)id);
	twi_pb_u64(&plane->line, LINE_DISPLAY_ID, (uint64_t)id);
	twi_pb_text(&plane->line, LINE_NAME, name);
	if (display_name != NULL)
		twi_pb_text(&plane->line, LINE_DISPLAY_NAME, display_name);
	twi_pb_u64(&plane->line, LINE_START, (uint64_t)start_ns);
}

/* What cannot be said in picoseconds (106 days and more) is said as the most that can. */
static int64_t ps_of(uint64_t ns)
{
	return ns > INT64_MAX / 1000 ? INT64_MAX : (int64_t)ns * 1000;
}

void twi_plane_event(struct twi_plane *plane, int64_t name, int64_t start_ns, uint64_t took_ns,
		     const struct twi_stats *stats)
{
	Twi__XEvent event = TWI__XEVENT__INIT;

	event.metadata_id = name;
	event.data_case = TWI__XEVENT__DATA_OFFSET_PS;
	event.offset_ps = start_ns < plane->line_start_ns
				  ? 0
				  : ps_of((uint64_t)start_ns - (uint64_t)plane->line_start_ns);
	event.duration_ps = ps_of(took_ns);
	event.n_stats = stats->count;
	event.stats = (Twi__XStat **)(uintptr_t)stats->pointers;
	use_stats(plane, stats);
	twi_pb_message(&plane->line, LINE_EVENTS, &event.base);
}

void twi_plane_line_end(struct twi_plane *plane)
{
	twi_pb_nested(&plane->out, PLANE_LINES, &plane->line);
}

void twi_plane_end(struct twi_plane *plane, struct twi_pb *space)
{
	for (int stat = 1; stat < TWI_STAT_COUNT; stat++) {
		Twi__XStatMetadataEntry entry = TWI__XSTAT_METADATA_ENTRY__INIT;
		Twi__XStatMetadata value = TWI__XSTAT_METADATA__INIT;

		if (!plane->used[stat])
			continue;
		entry.key = value.id = stat;
		entry.value = &value;
		value.name = (char *)(uintptr_t)twi_stat_name((enum twi_stat)stat);
		twi_pb_message(&plane->out, PLANE_STAT_NAMES, &entry.base);
	}
	twi_pb_nested(space, SPACE_PLANES, &plane->out);
}

/* What the views for XProf leave out; the spans themselves are all there. */
static void warn_left_out(const struct twi_ops *ops, struct twi_pb *space)
{
	char text[160];

	if (ops->left_out == 0)
		return;
	snprintf(text, sizeof(text),
		 "Towline: %llu operations are not among the XLA Ops, which had no room for more "
		 "than %u names",
		 (unsigned long long)ops->left_out, TWI_RENDEZVOUS_MAX);
	twi_pb_text(space, SPACE_WARNINGS, text);
}

static void add_hosts(const struct twi_trace *trace, struct twi_pb *space)
{
	for (size_t i = 0; i < trace->rank_count; i++) {
		bool said = false;

		for (size_t j = 0; j < i && !said; j++)
			said = strcmp(trace->ranks[i].host, trace->ranks[j].host) == 0;
		if (!said)
			twi_pb_text(space, SPACE_HOSTNAMES, trace->ranks[i].host);
	}
}

int twi_export_xspace(const struct twi_trace *trace, char **bytes_out, size_t *count_out)
{
	struct twi_deliveries deliveries = { 0 };
	struct twi_pb space = { 0 };
	struct twi_trace view;
	struct twi_ops ops = { 0 };
	int status;

	*bytes_out = NULL;
	*count_out = 0;
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
		warn_left_out(&ops, &space);
		add_hosts(&view, &space);
		twi_ops_fini(&ops);
		status = twi_pb_take(&space, bytes_out, count_out);
	}
	twi_deliveries_fini(&deliveries);
	twi_clean_fini(&view);
	return status;
}
