/*
 * memreg_several_report.c - prints one size for several logs, as text and as JSON.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "bench/memreg/memreg_several.h"

static void print_premap(const struct memreg_several *all)
{
	printf("premap_memory_bytes=%" PRIu64 " fits %" PRIu32 " of %" PRIu32 " logs\n", all->named,
	       all->fits, all->count);
	for (uint32_t i = 0; i < all->count; i++)
		printf("  %s: %s\n", all->log[i].job.source,
		       all->log[i].verified ? "enough" : all->log[i].verified_why);
}

static void print_proof(const struct memreg_several *all)
{
	if (!all->verified)
		return;
	printf("  a run of each of %" PRIu32
	       " logs at this size has 0 late registrations and 0 fallback copies; ",
	       all->count);
	if (all->below_bytes > 0)
		printf("one of %s with %s has not\n", all->log[all->below_log].job.source,
		       memreg_as_text(all->below_bytes).text);
	else
		printf("no pool is smaller\n");
}

static void print_shares(const struct memreg_several *all)
{
	printf("\nsmaller sizes, by replay of the logs as they were recorded\n");
	for (uint32_t k = 0; k < all->candidates; k++)
		printf("  %14s  fits %" PRIu32 " of %" PRIu32 "\n",
		       memreg_as_text(all->candidate[k].bytes).text, all->candidate[k].fits,
		       all->count);
	if (all->candidates == 0)
		printf("  none: no log needs less\n");
	printf("\nwhat each log needs alone\n");
	for (uint32_t i = 0; i < all->count; i++) {
		const struct memreg_sizing *log = &all->log[i];

		printf("  %14s  %s%s  %s\n", memreg_as_text(log->named).text,
		       log->verified ? "verified" : "not verified: ",
		       log->verified ? "" : log->verified_why, log->job.source);
	}
}

void memreg_several_report(const struct memreg_several *all)
{
	if (all->options->premap > 0) {
		print_premap(all);
		return;
	}
	printf("premap_memory_bytes=%" PRIu64 "  (%s), %s%s\n", all->named,
	       memreg_as_text(all->named).text,
	       all->verified ? "verified" : "named, not verified: ", all->verified_why);
	print_proof(all);
	printf("  headroom: %s for other orders of the threads; arena %s\n",
	       memreg_as_text(all->named - all->smallest).text, all->log[all->worst].own.arena);
	if (all->any_order > 0)
		printf("  any order of the threads: at most %s are live at once (%s), "
		       "staging included; free pieces between blocks are not\n",
		       memreg_as_text(all->any_order).text,
		       all->log[all->any_order_log].job.source);
	print_shares(all);
	fflush(stdout);
}

static json_t *number_json(uint64_t value)
{
	return json_integer((json_int_t)value);
}

/* A file name may be invalid UTF-8, which JSON does not allow. */
static json_t *name_json(const char *text)
{
	json_t *json = json_string(text);

	return json != NULL ? json : json_string("(a name that is not UTF-8)");
}

static json_t *log_json(const struct memreg_several *all, uint32_t i)
{
	const struct memreg_sizing *log = &all->log[i];
	json_t *json = json_object();
	bool is_premap = all->options->premap > 0;

	json_object_set_new(json, "file", name_json(log->job.source));
	if (!is_premap)
		json_object_set_new(json, "needs_bytes", number_json(log->named));
	json_object_set_new(json, is_premap ? "fits" : "verified", json_boolean(log->verified));
	json_object_set_new(json, is_premap ? "reason" : "verified_reason",
			    log->verified ? json_null() : name_json(log->verified_why));
	if (!is_premap)
		json_object_set_new(json, "clean",
				    all->run[i].ran ? json_boolean(memreg_run_clean(&all->run[i]))
						    : json_null());
	return json;
}

static void add_answer(const struct memreg_several *all, json_t *root)
{
	json_t *sizes = json_array();

	for (uint32_t k = 0; k < all->candidates; k++)
		json_array_append_new(sizes, json_pack("{s:o, s:i, s:i}", "premap_memory_bytes",
						       number_json(all->candidate[k].bytes), "fits",
						       (int)all->candidate[k].fits, "of",
						       (int)all->count));
	json_object_set_new(root, "verified_reason",
			    all->verified ? json_null() : name_json(all->verified_why));
	json_object_set_new(root, "smallest_bytes", number_json(all->smallest));
	json_object_set_new(root, "step_bytes", number_json(all->step_bytes));
	json_object_set_new(root, "below_bytes",
			    all->below_bytes > 0 ? number_json(all->below_bytes) : json_null());
	json_object_set_new(root, "below_file",
			    all->below_bytes > 0 ? name_json(all->log[all->below_log].job.source)
						 : json_null());
	json_object_set_new(root, "arena", json_string(all->log[all->worst].own.arena));
	json_object_set_new(root, "any_order_bytes",
			    all->any_order > 0 ? number_json(all->any_order) : json_null());
	json_object_set_new(root, "smaller", sizes);
}

int memreg_several_json(const struct memreg_several *all)
{
	json_t *root = json_object(), *logs = json_array();
	int rc;

	json_object_set_new(root, "premap_memory_bytes", number_json(all->named));
	json_object_set_new(root, "verified", json_boolean(all->verified));
	if (all->options->premap > 0)
		json_object_set_new(root, "fits", number_json(all->fits));
	else
		add_answer(all, root);
	for (uint32_t i = 0; i < all->count; i++)
		json_array_append_new(logs, log_json(all, i));
	json_object_set_new(root, "logs", logs);
	rc = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(root);
	return rc == 0 && fflush(stdout) == 0 ? 0 : MEMREG_FAULT;
}
