/*
 * memreg_json.c - prints a sizing as one JSON document; docs/sizing.md explains each field.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "bench/memreg/memreg_size.h"

static json_t *number_json(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *text_or_null(const char *text)
{
	return text[0] != '\0' ? json_string(text) : json_null();
}

static json_t *run_json(const struct memreg_sizing *sizing, const struct memreg_run *run)
{
	json_t *json = json_object();
	const char *role = run->bytes == sizing->named        ? "named"
			   : run->bytes == sizing->smallest   ? "smallest"
			   : run->bytes == sizing->below_step ? "below"
							      : "curve";

	json_object_set_new(json, "premap_memory_bytes", number_json(run->bytes));
	json_object_set_new(json, "percent",
			    json_real(100.0 * (double)run->bytes / (double)sizing->named));
	json_object_set_new(json, "role", json_string(role));
	json_object_set_new(json, "ran", json_boolean(run->ran));
	json_object_set_new(json, "reason", text_or_null(run->why));
	if (!run->ran)
		return json;
	json_object_set_new(json, "clean", json_boolean(memreg_run_clean(run)));
	json_object_set_new(json, "late_registrations", number_json(run->late));
	json_object_set_new(json, "late_registration_bytes", number_json(run->late_bytes));
	json_object_set_new(json, "fallback_copies", number_json(run->fallback));
	json_object_set_new(json, "fallback_copy_bytes", number_json(run->fallback_bytes));
	json_object_set_new(json, "fallback_copy_bytes_per_step",
			    number_json(run->fallback_bytes / (run->steps ? run->steps : 1)));
	json_object_set_new(json, "pool_exhausted", number_json(run->refused));
	json_object_set_new(json, "pool_grown", number_json(run->grown));
	json_object_set_new(json, "pool_overflow_allocs", number_json(run->overflowed));
	json_object_set_new(json, "pool_waits", number_json(run->waited));
	json_object_set_new(json, "steps", number_json(run->steps));
	json_object_set_new(json, "sent_bytes", number_json(run->sent_bytes));
	json_object_set_new(json, "cut_short", json_boolean(run->cut));
	json_object_set_new(json, "open_ms", json_real(run->open_ms));
	json_object_set_new(json, "first_step_us", json_real(run->first_step_us));
	json_object_set_new(json, "step_us", json_real(run->step_us));
	return json;
}

static json_t *runs_json(const struct memreg_sizing *sizing)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < sizing->runs; i++)
		json_array_append_new(array, run_json(sizing, &sizing->run[i]));
	return array;
}

static json_t *shadow_json(const struct memreg_sizing *sizing)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < sizing->shadows; i++)
		json_array_append_new(array,
				      json_pack("{s:o, s:o, s:o}", "premap_memory_bytes",
						number_json(sizing->shadow[i].bytes),
						"requests_without_room",
						number_json(sizing->shadow[i].missed), "bytes",
						number_json(sizing->shadow[i].missed_bytes)));
	return array;
}

static json_t *budget_json(const struct twi_budget *budget)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < budget->count; i++)
		json_array_append_new(array,
				      json_pack("{s:s, s:o, s:s}", "name", budget->line[i].name,
						"bytes", number_json(budget->line[i].bytes), "why",
						budget->line[i].why));
	return array;
}

static json_t *rows_json(const struct memreg_rows *rows, const char *table)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < rows->count; i++) {
		const struct memreg_row *row = &rows->row[i];

		if (strcmp(row->table, table) != 0)
			continue;
		json_array_append_new(
			array, json_pack("{s:s, s:o, s:i, s:o, s:o}", "what", row->what, "bytes",
					 number_json(row->bytes), "threads", row->threads, "ns",
					 row->why[0] ? json_null() : json_real(row->ns), "reason",
					 text_or_null(row->why)));
	}
	return array;
}

static json_t *log_json(const struct memreg_job *job)
{
	const struct twi_replay *replay = job->replay;

	return json_pack(
		"{s:o, s:o, s:o, s:i, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
		"s:o}",
		"events", number_json(replay->count), "allocations", number_json(replay->allocs),
		"steps", number_json(replay->steps), "threads", (int)replay->threads, "one_of",
		job->sampled, "lost", number_json(job->lost), "unmatched_frees",
		number_json(replay->unmatched_frees), "never_freed",
		number_json(replay->never_freed), "double_frees", number_json(replay->double_frees),
		"never_freed_bytes", number_json(replay->never_freed_bytes),
		"growth_bytes_per_step", number_json(replay->step_growth_bytes), "largest_bytes",
		number_json(replay->largest_bytes), "gaps", number_json(job->gaps.count),
		"left_events", number_json(job->gaps.events), "left_steps",
		number_json(job->gaps.steps));
}

/* The tag's name, as in the text; null: there is no tag. */
static json_t *tag_json(const struct memreg_job *job, const struct twi_replay_group *group)
{
	struct twi_replay_group tag = { .tag = group->tag };
	char name[2 * MEMREG_NAME_ROOM];

	memreg_group_text(job, &tag, name, sizeof(name));
	return tag.tag != 0 || job->strategy[0] != '\0' ? json_string(name) : json_null();
}

static json_t *owner_json(const struct memreg_job *job, const struct twi_replay_group *group)
{
	bool known = group->caller != 0 && group->caller != TWI_REPLAY_REST;
	bool number = known && group->caller < MEMREG_CALLER_FIRST;
	char name[MEMREG_NAME_ROOM], address[32];

	memreg_caller_text(job, group->caller, name, sizeof(name));
	snprintf(address, sizeof(address), "0x%" PRIx64, group->caller);
	return json_pack("{s:o, s:o, s:o, s:o}", "caller",
			 group->caller != 0 ? json_string(name) : json_null(), "address",
			 number ? json_string(address) : json_null(), "bytes",
			 number_json(group->bytes), "blocks", number_json(group->allocations));
}

static json_t *sites_json(const struct memreg_sizing *sizing)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < sizing->sites; i++)
		json_array_append_new(array, owner_json(&sizing->job, &sizing->site[i]));
	return array;
}

static json_t *leak_json(const struct memreg_job *job, const struct twi_replay_group *group)
{
	json_t *json = group->bytes > 0 ? owner_json(job, group) : json_null();

	if (group->bytes > 0)
		json_object_set_new(json, "tag", tag_json(job, group));
	return json;
}

static json_t *peak_json(const struct memreg_sizing *sizing)
{
	const struct twi_replay_result *peak = &sizing->peak;

	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:f}", "asked_bytes",
		number_json(sizing->job.replay->peak_bytes), "allocated_bytes",
		number_json(peak->allocated_bytes), "waste_bytes", number_json(peak->waste_bytes),
		"free_bytes", number_json(peak->free_bytes), "largest_free_bytes",
		number_json(peak->largest_free_bytes), "fragmentation",
		peak->free_bytes ? 1 - (double)peak->largest_free_bytes / (double)peak->free_bytes
				 : 0.0);
}

static json_t *assumptions_json(const struct strategy_plan *plan)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < plan->assumption_count; i++)
		json_array_append_new(array, json_pack("{s:s, s:o, s:s}", "name",
						       plan->assumptions[i].name, "value",
						       number_json(plan->assumptions[i].value),
						       "meaning", plan->assumptions[i].meaning));
	return array;
}

int memreg_json(const struct memreg_sizing *s)
{
	json_t *root = json_object();
	int rc;

	json_object_set_new(root, "source", json_string(s->job.source));
	json_object_set_new(root, "strategy", text_or_null(s->job.strategy));
	json_object_set_new(root, "lane", text_or_null(s->job.lane));
	json_object_set_new(root, "premap_memory_bytes", number_json(s->named));
	json_object_set_new(root, "verified", json_boolean(s->verified));
	json_object_set_new(root, "verified_reason", text_or_null(s->verified_why));
	json_object_set_new(root, "runs", runs_json(s));
	json_object_set_new(root, "log", log_json(&s->job));
	json_object_set_new(root, "never_freed_most", leak_json(&s->job, &s->leaks.left));
	json_object_set_new(root, "growth_most",
			    s->job.replay->step_growth_bytes > 0
				    ? leak_json(&s->job, &s->leaks.grown)
				    : json_null());
	json_object_set_new(root, "call_sites", sites_json(s));
	json_object_set_new(root, "peak", peak_json(s));
	json_object_set_new(root, "arena", json_string(s->own.arena));
	json_object_set_new(root, "runtime_own_bytes", number_json(s->own.bytes));
	if (s->options->premap == 0) {
		json_object_set_new(root, "smallest_bytes", number_json(s->smallest));
		json_object_set_new(root, "step_bytes", number_json(s->found.step_bytes));
		json_object_set_new(
			root, "headroom",
			json_pack("{s:o, s:i, s:b, s:o}", "bytes", number_json(s->headroom),
				  "orders_tried", (int)s->orders, "cap_reached", s->capped,
				  "free_at_peak_bytes", number_json(s->peak.free_bytes)));
		json_object_set_new(root, "any_order_bytes",
				    memreg_any_order(s) > 0 ? number_json(memreg_any_order(s))
							    : json_null());
		json_object_set_new(root, "budget", budget_json(&s->budget));
		json_object_set_new(root, "replayed", shadow_json(s));
		json_object_set_new(root, "sizes_tried", number_json(s->found.tried));
		json_object_set_new(root, "sizes_above_that_do_not_fit",
				    number_json(s->found.above_missed));
		json_object_set_new(root, "clean_at_90_percent", json_boolean(s->clean_at_90));
		json_object_set_new(root, "assumptions", assumptions_json(&s->job.plan));
		json_object_set_new(root, "premap", rows_json(&s->rows, "premap"));
		json_object_set_new(root, "late_registration", rows_json(&s->rows, "late"));
	}
	rc = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(root);
	return rc == 0 && fflush(stdout) == 0 ? 0 : MEMREG_FAULT;
}
