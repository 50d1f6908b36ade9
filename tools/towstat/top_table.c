/*
 * top_table.c - see top_table.h.
 */
#include "tools/towstat/top_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/words.h"

#define NAME_WIDTH_MAX 28
#define POOL_NEARLY    0.95

static const struct {
	const char *name, *title;
	int width;
} columns[TOP_COLUMN_COUNT] = {
#define X(name, title, width) { #name, title, width },
	TOP_COLUMNS(X)
#undef X
};

const char *top_column_name(enum top_column column)
{
	return columns[column].name;
}

int top_column_find(const char *name, enum top_column *out)
{
	for (unsigned i = 0; i < TOP_COLUMN_COUNT; i++) {
		if (strcmp(columns[i].name, name) == 0) {
			*out = (enum top_column)i;
			return 0;
		}
	}
	return -1;
}

/* --- filter --- */

static const char *const states[] = { "new", "", "not answering", "not understood", "gone" };

int top_filter_init(struct top_filter *out, const char *text, char *error_out, size_t error_size)
{
	char *end;
	int wrong;

	*out = (struct top_filter){ .kind = TOP_ALL };
	if (text[0] == '\0')
		return 0;
	if (strncmp(text, "job=", 4) == 0) {
		out->kind = TOP_JOB;
		snprintf(out->job, sizeof(out->job), "%s", text + 4);
		return 0;
	}
	if (strncmp(text, "rank=", 5) == 0) {
		out->rank = strtoll(text + 5, &end, 10);
		if (text[5] == '\0' || *end != '\0') {
			snprintf(error_out, error_size, "rank=%s is no number", text + 5);
			return -1;
		}
		out->kind = TOP_RANK;
		return 0;
	}
	wrong = regcomp(&out->regex, text, REG_EXTENDED | REG_ICASE | REG_NOSUB);
	if (wrong != 0) {
		regerror(wrong, &out->regex, error_out, error_size);
		return -1;
	}
	out->kind = TOP_REGEX;
	return 0;
}

void top_filter_fini(struct top_filter *filter)
{
	if (filter->kind == TOP_REGEX)
		regfree(&filter->regex);
	filter->kind = TOP_ALL;
}

bool top_filter_passes(const struct top_filter *filter, const struct top_row *row)
{
	switch (filter->kind) {
	case TOP_JOB:
		return strcmp(filter->job, row->job) == 0;
	case TOP_RANK:
		return filter->rank == row->rank;
	case TOP_REGEX:
		return regexec(&filter->regex, row->name, 0, NULL, 0) == 0 ||
		       regexec(&filter->regex, states[row->state], 0, NULL, 0) == 0 ||
		       regexec(&filter->regex, row->verdict, 0, NULL, 0) == 0;
	default:
		return true;
	}
}

/* --- order --- */

/* The sort value of a row; the larger comes first. UNKNOWN is below all known values. */
static double value_of(const struct top_row *row, enum top_column key)
{
	const struct figures *f = &row->figures;

	if (key == TOP_verdict)
		return row->accused || row->state > TOP_LIVE ? 1 : 0;
	if (!row->known)
		return UNKNOWN;
	switch (key) {
	case TOP_in:
		return f->in_bytes;
	case TOP_out:
		return f->out_bytes;
	case TOP_msgs:
		return f->sends + f->recvs;
	case TOP_p50:
		return f->p50_ns;
	case TOP_p99:
		return f->p99_ns;
	case TOP_pool:
		return f->pool_share;
	case TOP_copy:
		return f->copied_bytes;
	case TOP_copied:
		return (double)row->copied_bytes;
	case TOP_late:
		return (double)row->late_count;
	case TOP_slack:
		return f->slack_p50_ns;
	default:
		return f->exposed_share;
	}
}

static int by_name(const struct top_row *a, const struct top_row *b)
{
	int jobs = strcmp(a->job, b->job);

	if (jobs != 0)
		return jobs;
	if (a->rank != b->rank)
		return a->rank > b->rank ? 1 : -1;
	return strcmp(a->name, b->name);
}

struct order {
	enum top_column key;
	int sign;
};

static int compare_rows(const void *a, const void *b, void *arg)
{
	const struct top_row *left = a, *right = b;
	const struct order *order = arg;
	double x, y;

	if (order->key == TOP_name)
		return order->sign * by_name(left, right);
	x = value_of(left, order->key);
	y = value_of(right, order->key);
	if (x != y)
		return order->sign * (x < y ? 1 : -1);
	return by_name(left, right);
}

void top_sort(struct top_row *rows, size_t count, enum top_column key, bool reverse)
{
	struct order order = { key, reverse ? -1 : 1 };

	qsort_r(rows, count, sizeof(rows[0]), compare_rows, &order);
}

static double worse_of(double a, double b)
{
	return a > b ? a : b;
}

static void add_figures(struct figures *sum, const struct figures *f)
{
	sum->in_bytes += f->in_bytes;
	sum->out_bytes += f->out_bytes;
	sum->sends += f->sends;
	sum->recvs += f->recvs;
	sum->copied_bytes += f->copied_bytes;
	sum->late_bytes += f->late_bytes;
	sum->late_count += f->late_count;
	sum->p50_ns = worse_of(sum->p50_ns, f->p50_ns);
	sum->p99_ns = worse_of(sum->p99_ns, f->p99_ns);
	sum->exposed_share = worse_of(sum->exposed_share, f->exposed_share);
	sum->pool_share = worse_of(sum->pool_share, f->pool_share);
	/* The least slack is the worst. */
	if (f->slack_p50_ns >= 0 && (sum->slack_p50_ns < 0 || f->slack_p50_ns < sum->slack_p50_ns))
		sum->slack_p50_ns = f->slack_p50_ns;
}

void top_total(const struct top_row *rows, size_t count, struct top_row *out)
{
	size_t live = 0;

	*out = (struct top_row){ .rank = -1, .state = TOP_LIVE };
	out->figures = (struct figures){ .p50_ns = UNKNOWN,
					 .p99_ns = UNKNOWN,
					 .slack_p50_ns = UNKNOWN,
					 .exposed_share = UNKNOWN,
					 .pool_share = UNKNOWN };
	for (size_t i = 0; i < count; i++) {
		live += rows[i].state == TOP_LIVE;
		out->lost += rows[i].lost;
		out->copied_bytes += rows[i].copied_bytes;
		out->late_count += rows[i].late_count;
		out->pool_used_bytes += rows[i].pool_used_bytes;
		out->pool_bytes += rows[i].pool_bytes;
		if (!rows[i].known)
			continue;
		out->known = true;
		add_figures(&out->figures, &rows[i].figures);
	}
	snprintf(out->name, sizeof(out->name), "total of %zu", count);
	snprintf(out->says, sizeof(out->says), live < count ? "%zu up" : "-", live);
	out->accused = live < count;
}

/* --- lines --- */

static void mark_cell(struct top_line *line, size_t first, enum top_mark kind)
{
	if (line->mark_count == TOP_MARKS || line->bytes == first)
		return;
	line->marks[line->mark_count].first = first;
	line->marks[line->mark_count].end = line->bytes;
	line->marks[line->mark_count++].mark = kind;
}

static void put_text(struct top_line *line, int width, bool left, const char *text)
{
	int room = (int)(sizeof(line->text) - line->bytes), used;

	used = snprintf(line->text + line->bytes, (size_t)room, left ? "%-*.*s" : "%*.*s", width,
			width > 0 ? width : TOP_LINE_BYTES, text);
	line->bytes += (size_t)(used < room ? used : room - 1);
}

static void put_cell(struct top_line *line, int width, bool left, const char *text,
		     enum top_mark kind)
{
	size_t first;

	if (line->bytes > 0)
		put_text(line, 1, true, " ");
	first = line->bytes;
	put_text(line, width, left, text);
	if (kind != TOP_PLAIN)
		mark_cell(line, first, kind);
}

/* "3.1G", "12M": at most three characters and a unit, for columns. */
static void short_bytes(double bytes, char out[WORDS_BYTES])
{
	static const char units[] = "BKMGTPE";
	size_t unit = 0;

	while (bytes >= 999.5 && unit + 2 < sizeof(units)) {
		bytes /= 1024;
		unit++;
	}
	snprintf(out, WORDS_BYTES, unit > 0 && bytes < 9.95 ? "%.1f%c" : "%.0f%c", bytes,
		 units[unit]);
}

static void short_count(double count, char out[WORDS_BYTES])
{
	static const char units[] = " kMGTPE";
	size_t unit = 0;

	while (count >= 9999.5 && unit + 2 < sizeof(units)) {
		count /= 1000;
		unit++;
	}
	if (unit == 0)
		snprintf(out, WORDS_BYTES, "%.0f", count);
	else
		snprintf(out, WORDS_BYTES, count < 99.95 ? "%.1f%c" : "%.0f%c", count, units[unit]);
}

static void short_ns(double ns, char out[WORDS_BYTES])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	size_t unit = 0;

	if (ns < 0) {
		snprintf(out, WORDS_BYTES, "-");
		return;
	}
	while (ns >= 999.5 && unit < 3) {
		ns /= 1000;
		unit++;
	}
	snprintf(out, WORDS_BYTES, unit > 0 && ns < 99.95 ? "%.1f%s" : "%.0f%s", ns, units[unit]);
}

static void share_text(double part, char out[WORDS_BYTES])
{
	if (part < 0)
		snprintf(out, WORDS_BYTES, "-");
	else
		snprintf(out, WORDS_BYTES, "%.0f%%", part * 100);
}

static void pool_text(const struct top_row *row, char out[WORDS_BYTES])
{
	char used[WORDS_BYTES], size[WORDS_BYTES];

	short_bytes((double)row->pool_used_bytes, used);
	short_bytes((double)row->pool_bytes, size);
	if (row->pool_bytes == 0)
		snprintf(out, WORDS_BYTES, "-");
	else
		snprintf(out, WORDS_BYTES, "%.12s/%.12s", used, size);
}

/* Writes the text of one cell. Returns its mark when the cell needs attention. */
static enum top_mark cell_text(const struct top_row *row, enum top_column column,
			       char out[WORDS_BYTES])
{
	const struct figures *f = &row->figures;

	switch (column) {
	case TOP_in:
		short_bytes(f->in_bytes, out);
		return TOP_PLAIN;
	case TOP_out:
		short_bytes(f->out_bytes, out);
		return TOP_PLAIN;
	case TOP_msgs:
		short_count(f->sends + f->recvs, out);
		return TOP_PLAIN;
	case TOP_p50:
		short_ns(f->p50_ns, out);
		return TOP_PLAIN;
	case TOP_p99:
		short_ns(f->p99_ns, out);
		return TOP_PLAIN;
	case TOP_pool:
		pool_text(row, out);
		return f->pool_share >= POOL_NEARLY ? TOP_WARN : TOP_PLAIN;
	case TOP_copy:
		short_bytes(f->copied_bytes, out);
		return f->copied_bytes > 0 ? TOP_WARN : TOP_PLAIN;
	case TOP_copied:
		short_bytes((double)row->copied_bytes, out);
		return TOP_PLAIN;
	case TOP_late:
		short_count((double)row->late_count, out);
		return f->late_count > 0 ? TOP_WARN : TOP_PLAIN;
	case TOP_slack:
		short_ns(f->slack_p50_ns, out);
		return TOP_PLAIN;
	default:
		share_text(f->exposed_share, out);
		return TOP_PLAIN;
	}
}

/* The state of a rank that is not live replaces its figures, to be visible at any width. */
static void put_state(struct top_line *line, const struct top_row *row)
{
	char text[64];

	snprintf(text, sizeof(text), "  %s for %.0f s", states[row->state], row->state_s);
	put_cell(line, 0, true, text, row->state == TOP_GONE ? TOP_DIM : TOP_ALARM);
}

/* Whether a line of `line->bytes` has room for a column. */
static bool has_room(const struct top_layout *layout, const struct top_line *line, unsigned column)
{
	if (column < TOP_FIRST)
		return true;
	return column >= layout->first &&
	       (layout->room == 0 ||
		line->bytes + 1 + (size_t)columns[column].width <= layout->room);
}

static void put_figures(struct top_line *line, const struct top_layout *layout,
			const struct top_row *row)
{
	enum top_mark verdict = row->accused ? TOP_ALARM : TOP_PLAIN;
	char text[WORDS_BYTES];

	put_cell(line, columns[TOP_verdict].width, true, row->says[0] != '\0' ? row->says : "?",
		 verdict);
	for (unsigned i = layout->first; i < TOP_COLUMN_COUNT && has_room(layout, line, i); i++) {
		enum top_mark kind = TOP_PLAIN;

		snprintf(text, sizeof(text), "-");
		if (row->known)
			kind = cell_text(row, (enum top_column)i, text);
		put_cell(line, columns[i].width, false, text, kind);
	}
}

void top_line_row(struct top_line *out, const struct top_layout *layout, const struct top_row *row)
{
	out->bytes = out->mark_count = 0;
	put_cell(out, (int)layout->name_width, true, row->name,
		 row->state == TOP_GONE  ? TOP_DIM
		 : row->state > TOP_LIVE ? TOP_ALARM
					 : TOP_PLAIN);
	if (row->state > TOP_LIVE)
		put_state(out, row);
	else
		put_figures(out, layout, row);
	while (out->bytes > 0 && out->text[out->bytes - 1] == ' ')
		out->bytes--;
	out->text[out->bytes] = '\0';
}

void top_line_head(struct top_line *out, const struct top_layout *layout, enum top_column sorted,
		   bool reverse)
{
	char title[32];

	out->bytes = out->mark_count = 0;
	for (unsigned i = 0; i < TOP_COLUMN_COUNT; i++) {
		if (i >= TOP_FIRST && i < layout->first)
			continue;
		if (!has_room(layout, out, i))
			break;
		snprintf(title, sizeof(title), "%s%s", columns[i].title,
			 i != sorted ? ""
			 : reverse   ? "^"
				     : "*");
		put_cell(out, i == TOP_name ? (int)layout->name_width : columns[i].width,
			 i < TOP_FIRST, title, TOP_PLAIN);
	}
	out->text[out->bytes] = '\0';
	mark_cell(out, 0, TOP_HEAD);
}

void top_line_verdict(struct top_line *out, const struct top_row *row)
{
	out->bytes = out->mark_count = 0;
	put_text(out, 0, true, row->job);
	put_text(out, 0, true, ": ");
	put_text(out, 0, true, row->verdict);
	out->text[out->bytes] = '\0';
	if (!row->healthy)
		mark_cell(out, 0, row->says[0] == '?' ? TOP_WARN : TOP_ALARM);
}

size_t top_name_width(const struct top_row *rows, size_t count)
{
	size_t width = (size_t)columns[TOP_name].width;

	for (size_t i = 0; i < count; i++) {
		size_t bytes = strlen(rows[i].name);

		if (bytes > width)
			width = bytes;
	}
	return width < NAME_WIDTH_MAX ? width : NAME_WIDTH_MAX;
}
