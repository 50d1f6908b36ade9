/*
 * coll_profile.c - writes the results as a profile for schedulers: docs/scheduler-profile.md.
 *
 * Quantiles are those of the slowest rank, as the table's mean is: the maximum over all ranks. Only
 * rank 0 keeps rows and writes the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/coll/tow_coll.h"
#include "tools/common/save.h"

static int complain_profile(const struct coll_rank *rank, const char *why)
{
	fprintf(stderr, "tow-coll: rank %u: --profile: %s\n", rank->rank, why);
	return COLL_FAILED;
}

int coll_profile_open(struct coll_rank *rank, uint64_t samples)
{
	if (rank->options->profile == NULL)
		return 0;
	rank->samples = calloc(samples, sizeof(*rank->samples));
	return rank->samples != NULL ? 0 : complain_profile(rank, "no memory for samples");
}

void coll_profile_close(struct coll_rank *rank)
{
	free(rank->samples);
	rank->samples = NULL;
	tool_profile_fini(&rank->profile);
}

int coll_profile_agree(struct coll_rank *rank, struct coll_result *result)
{
	struct tool_profile_times own;
	int rc;

	if (rank->samples == NULL)
		return 0;
	own = tool_profile_times_of(rank->samples, result->count);
	rc = coll_agree(rank, own.median_us, TOW_MAX, &result->median_us);
	return rc != 0 ? rc : coll_agree(rank, own.p90_us, TOW_MAX, &result->p90_us);
}

/* The bytes of a rank's result, or of its input where that is larger; of the _v kinds the mean. */
static uint64_t larger_side(const struct coll_case *what, uint32_t ranks)
{
	if (what->kind == COLL_ALL_GATHER_V || what->kind == COLL_ALL_TO_ALL_V)
		return what->count * what->width * ranks;
	return what->in_bytes > what->out_bytes ? what->in_bytes : what->out_bytes;
}

int coll_profile_add(struct coll_rank *rank, const struct coll_case *what,
		     const struct coll_result *result)
{
	struct tool_profile_row row = { .bytes = larger_side(what, rank->ranks),
					.ranks = rank->ranks,
					.hosts = rank->hosts,
					.ring = what->kind == COLL_PERMUTE,
					.count = result->count };
	char why[TOOL_PROFILE_WHY];

	if (rank->samples == NULL || rank->rank != 0)
		return 0;
	snprintf(row.kind, sizeof(row.kind), "%s", coll_library_name(what->kind));
	snprintf(row.type, sizeof(row.type), "%s", tow_type_name(rank->options->type));
	coll_report_lane(rank, what, row.lane, sizeof(row.lane));
	row.latency = (struct tool_profile_times){ result->time_s * 1e6, result->median_us,
						   result->p90_us };
	/* All ranks come at once, so the wait for the last rank is not measured apart. */
	row.moving = row.latency;
	return tool_profile_add(&rank->profile, &row, why) == 0 ? 0 : complain_profile(rank, why);
}

int coll_profile_write(const struct coll_rank *rank)
{
	char why[TOOL_PROFILE_WHY], *text = NULL;
	int rc;

	if (rank->samples == NULL || rank->rank != 0)
		return 0;
	if (tool_profile_write(&rank->profile, "tow-coll", &text, why) != 0)
		return complain_profile(rank, why);
	rc = save_file("tow-coll", rank->options->profile, text, strlen(text));
	free(text);
	return rc == 0 ? 0 : COLL_FAILED;
}
