/*
 * site_report.c - the documents of copies and late registrations. See site_report.h.
 *
 * The sums come by reason, call site, tag and size class. A call site is shown once, with its size
 * classes inside. Only call sites that are shown are looked up.
 */
#include "diag/record/site_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>
#include <towline/status.h>

#include "diag/base/emit.h"
#include "diag/base/place.h"
#include "diag/base/words.h"
#include "diag/record/diag.h"

#define SENTENCE_BYTES 512

/* One call site of one reason, with all its size classes, which are adjacent among the sums. */
struct group {
	const struct twi_site_sum *first;
	size_t count;
	struct twi_site_sum total;
};

struct groups {
	struct twi_site_sum *sums;
	struct group *rows;
	size_t count;
};

/* The dearest first. Equal costs stay in the order of the sums, so that two readings agree. */
static int by_cost(const struct twi_site_sum *left, const struct twi_site_sum *right)
{
	if (left->ns != right->ns)
		return left->ns > right->ns ? -1 : 1;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	if (left->count != right->count)
		return left->count > right->count ? -1 : 1;
	return 0;
}

static int groups_by_cost(const void *a, const void *b)
{
	const struct group *left = a, *right = b;
	int order = by_cost(&left->total, &right->total);

	return order != 0 ? order : (left->first > right->first) - (left->first < right->first);
}

static int sums_by_cost(const void *a, const void *b)
{
	const struct twi_site_sum *left = a, *right = b;
	int order = by_cost(left, right);

	return order != 0 ? order : (int)left->reason - (int)right->reason;
}

static void add_sum(struct twi_site_sum *into, const struct twi_site_sum *sum)
{
	into->first_ns = into->count == 0 ? sum->first_ns : twi_min(into->first_ns, sum->first_ns);
	into->last_ns = twi_max(into->last_ns, sum->last_ns);
	into->max_ns = twi_max(into->max_ns, sum->max_ns);
	into->count += sum->count;
	into->bytes += sum->bytes;
	into->ns += sum->ns;
}

static bool same_place(const struct twi_site_sum *left, const struct twi_site_sum *right)
{
	return left->reason == right->reason && left->other == right->other &&
	       left->site.caller == right->site.caller && left->site.tag == right->site.tag;
}

static bool is_kind(enum twi_reason reason, const char *kind)
{
	return strcmp(twi_reason_describe(reason)->kind, kind) == 0;
}

/* Reads the call sites of one kind, the dearest first. */
static int read_groups(struct twi_diag *diag, const char *kind, struct groups *out)
{
	size_t sums;
	int status = twi_site_sums(diag, &out->sums, &sums);

	out->rows = NULL;
	out->count = 0;
	if (status < 0)
		return status;
	out->rows = calloc(sums + 1, sizeof(*out->rows));
	if (out->rows == NULL) {
		free(out->sums);
		return TOW_ENOMEM;
	}
	for (size_t i = 0; i < sums; i++) {
		const struct twi_site_sum *sum = &out->sums[i];
		struct group *last = &out->rows[out->count - (out->count > 0)];

		if (!is_kind(sum->reason, kind))
			continue;
		if (out->count == 0 || !same_place(last->first, sum)) {
			last = &out->rows[out->count++];
			*last = (struct group){ .first = sum,
						.total = { .site = sum->site,
							   .reason = sum->reason,
							   .other = sum->other } };
		}
		last->count++;
		add_sum(&last->total, sum);
	}
	qsort(out->rows, out->count, sizeof(*out->rows), groups_by_cost);
	return TOW_OK;
}

static void groups_fini(struct groups *groups)
{
	free(groups->rows);
	free(groups->sums);
}

void twi_site_sentence(enum twi_reason reason, const struct twi_site_sum *sum, char *before,
		       char *after, size_t bytes_each)
{
	const struct twi_reason_info *info = twi_reason_describe(reason);
	bool copy = strcmp(info->kind, "copy") == 0, one = sum->count == 1;
	char count[TWI_WORDS_BYTES], bytes[TWI_WORDS_BYTES], time[TWI_WORDS_BYTES];
	size_t comma =
		strcspn(info->help, ",:"); /* "send of x, where y": "from PLACE" belongs to x */

	twi_words_count(sum->count, count);
	twi_words_bytes(sum->bytes, bytes);
	twi_words_ns(sum->ns, time);
	snprintf(before, bytes_each, "%s %s, %s, %s: %.*s", count,
		 copy  ? one ? "copy" : "copies"
		 : one ? "late registration"
		       : "late registrations",
		 bytes, time, (int)comma, info->help);
	snprintf(after, bytes_each, "%s; %s", info->help + comma, info->cure);
}

static void emit_sum(struct twi_emit *e, const struct twi_site_sum *sum)
{
	twi_emit_u64(e, "count", sum->count);
	twi_emit_u64(e, "bytes", sum->bytes);
	twi_emit_u64(e, "ns", sum->ns);
}

static void emit_size_range(struct twi_emit *e, unsigned from_class, unsigned to_class)
{
	uint64_t most = twi_size_class_max(to_class);

	twi_emit_u64(e, "bytes_min", twi_size_class_min(from_class));
	if (most == UINT64_MAX)
		twi_emit_str(e, "bytes_max", NULL);
	else
		twi_emit_u64(e, "bytes_max", most);
}

/* Call sites that found no row have no sizes. */
static void emit_sizes(struct twi_emit *e, const struct group *group)
{
	size_t count = group->total.other ? 0 : group->count;

	if (count > 0) {
		emit_size_range(e, group->first->size_class, group->first[count - 1].size_class);
	} else {
		twi_emit_str(e, "bytes_min", NULL);
		twi_emit_str(e, "bytes_max", NULL);
	}
	twi_emit_array_begin(e, "sizes");
	for (size_t i = 0; i < count; i++) {
		twi_emit_object_begin(e, NULL);
		emit_size_range(e, group->first[i].size_class, group->first[i].size_class);
		emit_sum(e, &group->first[i]);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
}

/* "trainer+0x1241 (tag \"embedding\")", or as much of that as is known; "" for nothing. */
static void name_place(const struct twi_site_sum *sum, const struct twi_place *place, char *out,
		       size_t bytes)
{
	const char *tag = twi_tag_text(sum->site.tag);
	size_t used;

	out[0] = '\0';
	if (sum->other)
		snprintf(out, bytes, "further places");
	else if (place->address != NULL)
		twi_place_text(place, out, bytes);
	if (tag == NULL)
		return;
	used = strlen(out);
	snprintf(out + used, bytes - used, used > 0 ? " (tag \"%s\")" : "code with the tag \"%s\"",
		 tag);
}

static void emit_text(struct twi_emit *e, const struct twi_site_sum *sum, const char *place)
{
	char before[SENTENCE_BYTES], after[SENTENCE_BYTES];
	char text[2 * SENTENCE_BYTES + TWI_PLACE_TEXT_BYTES + 8];

	twi_site_sentence(sum->reason, sum, before, after, sizeof(before));
	snprintf(text, sizeof(text), "%s%s%s%s", before, place[0] != '\0' ? " from " : "", place,
		 after);
	twi_emit_str(e, "place", place[0] != '\0' ? place : NULL);
	twi_emit_str(e, "text", text);
	twi_emit_array_begin(e, "text_parts");
	twi_emit_str(e, NULL, before);
	twi_emit_str(e, NULL, after);
	twi_emit_array_end(e);
}

static uint64_t ns_since(const struct twi_diag *diag, uint64_t ns)
{
	return ns - twi_min(ns, twi_diag_start_ns(diag));
}

static void emit_group(struct twi_emit *e, const struct twi_diag *diag, const struct group *group)
{
	char name[TWI_PLACE_TEXT_BYTES];
	struct twi_place place;

	twi_place_find(group->total.site.caller, &place);
	name_place(&group->total, &place, name, sizeof(name));
	twi_emit_object_begin(e, NULL);
	twi_emit_str(e, "reason", twi_reason_describe(group->total.reason)->name);
	emit_sum(e, &group->total);
	twi_emit_u64(e, "max_ns", group->total.max_ns);
	twi_emit_u64(e, "first_at_ns", ns_since(diag, group->total.first_ns));
	twi_emit_u64(e, "last_at_ns", ns_since(diag, group->total.last_ns));
	emit_sizes(e, group);
	twi_emit_bool(e, "further_places", group->total.other);
	twi_emit_str(e, "tag", twi_tag_text(group->total.site.tag));
	twi_place_emit(e, &place);
	emit_text(e, &group->total, name);
	twi_emit_object_end(e);
}

static void emit_reasons(struct twi_emit *e, struct twi_diag *diag, const char *kind)
{
	struct twi_site_sum sums[TWI_R_COUNT], total = { 0 };

	for (unsigned i = 0; i < TWI_R_COUNT; i++) {
		struct twi_reason_sum sum;

		twi_reason_sum(diag, i, &sum);
		sums[i] = (struct twi_site_sum){ .reason = i };
		if (!is_kind(i, kind))
			continue;
		sums[i].count = sum.count;
		sums[i].bytes = sum.bytes;
		sums[i].ns = sum.ns;
		add_sum(&total, &sums[i]);
	}
	qsort(sums, TWI_R_COUNT, sizeof(sums[0]), sums_by_cost);
	twi_emit_object_begin(e, "total");
	emit_sum(e, &total);
	twi_emit_object_end(e);
	twi_emit_array_begin(e, "reasons");
	for (unsigned i = 0; i < TWI_R_COUNT; i++) {
		const struct twi_reason_info *info = twi_reason_describe(sums[i].reason);

		if (sums[i].count == 0)
			continue;
		twi_emit_object_begin(e, NULL);
		twi_emit_str(e, "name", info->name);
		emit_sum(e, &sums[i]);
		twi_emit_str(e, "help", info->help);
		twi_emit_str(e, "cure", info->cure);
		emit_text(e, &sums[i], "");
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
}

static void render_sites(struct twi_diag *diag, struct twi_emit *e, const char *kind)
{
	struct groups groups;

	emit_reasons(e, diag, kind);
	if (read_groups(diag, kind, &groups) < 0) {
		e->status = TOW_ENOMEM;
		return;
	}
	twi_emit_u64(e, "sites_known", groups.count);
	twi_emit_array_begin(e, "sites");
	for (size_t i = 0; i < twi_min(groups.count, (size_t)TWI_SITES_SHOWN); i++)
		emit_group(e, diag, &groups.rows[i]);
	twi_emit_array_end(e);
	groups_fini(&groups);
}

/* Emits the copies that the lanes' design needs: they are no fault, and they are not timed. */
static void emit_necessary(struct twi_emit *e, struct twi_diag *diag)
{
	uint64_t count = twi_counter_sum(diag, TWI_C_necessary_copies);
	uint64_t bytes = twi_counter_sum(diag, TWI_C_necessary_copy_bytes);
	char count_text[TWI_WORDS_BYTES], bytes_text[TWI_WORDS_BYTES], text[160];

	twi_words_count(count, count_text);
	twi_words_bytes(bytes, bytes_text);
	snprintf(text, sizeof(text), "%s necessary %s, %s, which the lanes' design needs",
		 count_text, count == 1 ? "copy" : "copies", bytes_text);
	twi_emit_object_begin(e, "necessary");
	twi_emit_u64(e, "count", count);
	twi_emit_u64(e, "bytes", bytes);
	twi_emit_str(e, "text", text);
	twi_emit_object_end(e);
}

void twi_site_report_copies(struct twi_diag *diag, struct twi_emit *e)
{
	render_sites(diag, e, "copy");
	emit_necessary(e, diag);
}

void twi_site_report_registrations(struct twi_diag *diag, struct twi_emit *e)
{
	render_sites(diag, e, "late_registration");
}
