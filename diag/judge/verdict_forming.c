/*
 * verdict_forming.c - ranks that have not come to a job that is not whole yet. A rank that waits in
 * tow_group_open gets them from rank 0's store, about once a second (store_client.h). A rank that
 * cannot reach the store can only suspect rank 0.
 */
#include "diag/judge/verdict_parts.h"

#include <internal/base.h>

#define PATIENCE_NS 2000000000ull /* a launcher does not start all processes at the same moment */

static void blame_absent(struct twi_judge *judge, const struct twi_verdict_forming *forming,
			 const char *time)
{
	struct twi_verdict_finding *finding = twi_judge_finding(judge, TWI_CAUSE_NOT_COME, 0.95);
	uint32_t count = twi_min(forming->rank_count, TWI_FORMING_RANKS);

	for (uint32_t i = 0; i < count && finding->rank_count < TWI_FINDING_RANKS; i++)
		finding->ranks[finding->rank_count++] = forming->ranks[i];
	twi_judge_add(judge, TWI_CAUSE_NOT_COME,
		      "rank %u has waited for %s for %s to open the group; %u of %u ranks have "
		      "come to rank 0's store at %s",
		      forming->rank, time, forming->missing == 1 ? "it" : "them",
		      forming->size - forming->missing, forming->size, forming->store);
	if (forming->missing > finding->rank_count)
		twi_judge_add(judge, TWI_CAUSE_NOT_COME, "%u more have not come",
			      forming->missing - finding->rank_count);
	if (forming->refused > 0)
		twi_judge_add(judge, TWI_CAUSE_NOT_COME, "rank 0's store says: %s", forming->text);
}

void twi_judge_forming(struct twi_judge *judge)
{
	const struct twi_verdict_forming *forming = &judge->what->forming;
	struct twi_verdict *out = judge->out;
	uint64_t waited_ns = twi_since(judge->what->now_ns, forming->since_ns);
	char time[24];

	if (judge->what->world > out->ranks)
		out->missing = judge->what->world - out->ranks;
	if (forming->size == 0)
		return;
	out->forming = true;
	if (forming->unreached[0] == '\0' && forming->missing > 0 &&
	    forming->missing < forming->size)
		out->missing = forming->missing;
	if (waited_ns < PATIENCE_NS)
		return;
	twi_judge_time(waited_ns, time);
	if (forming->unreached[0] != '\0' && forming->rank != 0)
		twi_judge_blame(judge, TWI_CAUSE_NOT_COME, 0, 0.6,
				"rank %u has waited for %s for rank 0's store%s%s: %s; rank 0 "
				"has not started, or cannot be reached from that rank",
				forming->rank, time, forming->store[0] != '\0' ? " at " : "",
				forming->store, forming->unreached);
	else if (forming->rank_count > 0 && forming->missing < forming->size)
		blame_absent(judge, forming, time);
}
