/*
 * coll_kept.c - see coll_kept.h.
 */
#include "transport/coll/coll_kept.h"

#include <stdlib.h>

#include "memreg/pool/pool.h"
#include "transport/coll/coll_local.h"
#include "transport/engine/engine.h"
#include "transport/job/group.h"

struct kept_region {
	struct twi_list link; /* of ranks->kept */
	struct twi_coll_region *region;
	uint32_t ctx, count;
	uint32_t readers[]; /* `count` ranks of the job that have not left */
};

static bool may_read(const struct twi_coll_local *local)
{
	return !local->self && !local->gone && !local->left;
}

void twi_coll_region_end(struct twi_coll_group *coll)
{
	struct kept_region *kept;
	uint32_t count = 0;

	twi_assert_held(coll->engine);
	for (uint32_t i = 0; coll->left && i < coll->locals_n; i++)
		count += may_read(&coll->locals[i]);
	if (count == 0) {
		twi_pool_free(coll->engine->pool, coll->region);
		return;
	}
	kept = malloc(sizeof(*kept) + count * sizeof(kept->readers[0]));
	if (kept == NULL)
		return; /* it stays until the runtime is closed, rather than fail others */
	*kept = (struct kept_region){ .region = coll->region, .ctx = coll->ctx };
	for (uint32_t i = 0; i < coll->locals_n; i++) {
		if (may_read(&coll->locals[i]))
			kept->readers[kept->count++] = coll->members[coll->locals[i].rank];
	}
	twi_list_init(&kept->link);
	twi_list_push_back(&coll->ranks->kept, &kept->link);
}

static void drop_reader(struct twi_ranks *ranks, struct kept_region *kept, uint32_t job_rank)
{
	for (uint32_t i = 0; i < kept->count; i++) {
		if (kept->readers[i] == job_rank) {
			kept->readers[i] = kept->readers[--kept->count];
			break;
		}
	}
	if (kept->count > 0)
		return;
	twi_pool_free(ranks->engine->pool, kept->region);
	twi_list_remove(&kept->link);
	free(kept);
}

void twi_coll_region_left(struct twi_ranks *ranks, uint32_t ctx, uint32_t job_rank)
{
	struct twi_list *pos, *next;

	twi_assert_held(ranks->engine);
	twi_list_for_each_safe (pos, next, &ranks->kept) {
		struct kept_region *kept = twi_container_of(pos, struct kept_region, link);

		if (kept->ctx == ctx)
			drop_reader(ranks, kept, job_rank);
	}
}

void twi_coll_region_lost(struct twi_ranks *ranks, uint32_t job_rank)
{
	struct twi_list *pos, *next;

	twi_assert_held(ranks->engine);
	twi_list_for_each_safe (pos, next, &ranks->kept)
		drop_reader(ranks, twi_container_of(pos, struct kept_region, link), job_rank);
}

void twi_coll_regions_end(struct twi_ranks *ranks)
{
	struct twi_list *entry;

	twi_assert_held(ranks->engine);
	while ((entry = twi_list_first(&ranks->kept)) != NULL) {
		twi_list_remove(entry);
		free(twi_container_of(entry, struct kept_region, link));
	}
}
