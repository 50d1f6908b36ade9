/*
 * coll_kept.c - keeps the regions of closed groups. See coll_kept.h.
 */
#include "transport/coll/coll_kept.h"

#include <stdlib.h>

#include "transport/coll/coll_line.h"
#include "transport/coll/coll_local.h"
#include "transport/engine/engine.h"
#include "transport/job/group.h"
#include "transport/job/rank_words.h"
#include "transport/op/own_memory.h"

struct reader {
	uint32_t rank, job_rank;
	bool over;                  /* it reads no memory of the group any more */
	struct twi_rank_post *post; /* message that this rank has left; NULL: it was sent */
};

struct twi_coll_kept {
	struct twi_list link; /* on ranks->kept */
	struct twi_coll_region *region;
	uint32_t ctx, count;
	/* `count` ranks that have the region mapped; after the group's end, those not over */
	struct reader readers[];
};

static void free_kept(struct twi_coll_kept *kept)
{
	for (uint32_t i = 0; kept != NULL && i < kept->count; i++)
		twi_rank_post_free(kept->readers[i].post);
	free(kept);
}

bool twi_coll_kept_make(struct twi_coll_group *coll, const uint32_t *near, uint32_t near_n)
{
	struct twi_coll_kept *kept = calloc(1, sizeof(*kept) + near_n * sizeof(kept->readers[0]));

	if (kept == NULL)
		return false;
	twi_list_init(&kept->link);
	for (uint32_t i = 0; i < near_n; i++) {
		struct reader *reader = &kept->readers[kept->count];

		if (near[i] == coll->rank)
			continue;
		kept->count++;
		reader->rank = near[i];
		reader->job_rank = coll->members[near[i]];
		reader->post = twi_rank_post_alloc(TWI_COLL_WORD_MAX);
		if (reader->post == NULL) {
			free_kept(kept);
			return false;
		}
	}
	coll->kept = kept;
	return true;
}

static struct reader *find_reader(struct twi_coll_group *coll, uint32_t rank)
{
	for (uint32_t i = 0; coll->kept != NULL && i < coll->kept->count; i++) {
		if (coll->kept->readers[i].rank == rank)
			return &coll->kept->readers[i];
	}
	return NULL;
}

struct twi_rank_post *twi_coll_kept_post(struct twi_coll_group *coll, uint32_t rank)
{
	struct reader *reader = find_reader(coll, rank);
	struct twi_rank_post *post = reader == NULL ? NULL : reader->post;

	if (reader != NULL)
		reader->post = NULL;
	return post;
}

void twi_coll_kept_over(struct twi_coll_group *coll, uint32_t rank)
{
	struct reader *reader = find_reader(coll, rank);

	if (reader != NULL)
		reader->over = true;
}

/*
 * May the rank read the region now? No rank comes to a collective before each rank of the host has
 * heard of the others' regions.
 */
static bool may_read(const struct twi_coll_group *coll, const struct reader *reader)
{
	return !reader->over && coll->told != NULL && coll->told[reader->rank].told;
}

void twi_coll_region_end(struct twi_coll_group *coll)
{
	struct twi_coll_kept *kept = coll->kept;
	uint32_t count = 0;

	twi_assert_held(coll->engine);
	for (uint32_t i = 0; kept != NULL && i < kept->count; i++) {
		twi_rank_post_free(kept->readers[i].post);
		kept->readers[i].post = NULL;
		if (may_read(coll, &kept->readers[i]))
			kept->readers[count++] = kept->readers[i];
	}
	coll->kept = NULL;
	if (count == 0 || coll->region == NULL) {
		twi_own_give(coll->engine, coll->region);
		free(kept);
		return;
	}
	kept->count = count;
	kept->region = coll->region;
	kept->ctx = coll->ctx;
	twi_list_push_back(&coll->ranks->kept, &kept->link);
}

static void drop_reader(struct twi_ranks *ranks, struct twi_coll_kept *kept, uint32_t job_rank)
{
	for (uint32_t i = 0; i < kept->count; i++) {
		if (kept->readers[i].job_rank == job_rank) {
			kept->readers[i] = kept->readers[--kept->count];
			break;
		}
	}
	if (kept->count > 0)
		return;
	twi_own_give(ranks->engine, kept->region);
	twi_list_remove(&kept->link);
	free(kept);
}

void twi_coll_region_left(struct twi_ranks *ranks, uint32_t ctx, uint32_t job_rank)
{
	struct twi_list *pos, *next;

	twi_assert_held(ranks->engine);
	twi_list_for_each_safe (pos, next, &ranks->kept) {
		struct twi_coll_kept *kept = twi_container_of(pos, struct twi_coll_kept, link);

		if (kept->ctx == ctx)
			drop_reader(ranks, kept, job_rank);
	}
}

void twi_coll_region_lost(struct twi_ranks *ranks, uint32_t job_rank)
{
	struct twi_list *pos, *next;

	twi_assert_held(ranks->engine);
	twi_list_for_each_safe (pos, next, &ranks->kept)
		drop_reader(ranks, twi_container_of(pos, struct twi_coll_kept, link), job_rank);
}

void twi_coll_regions_drop(struct twi_engine *engine)
{
	struct twi_coll_region *region;

	twi_assert_held(engine);
	while ((region = engine->coll_regions) != NULL) {
		engine->coll_regions = region->older;
		twi_own_give(engine, region);
	}
}

void twi_coll_regions_end(struct twi_ranks *ranks)
{
	struct twi_engine *engine = ranks->engine;
	struct twi_list *entry;

	twi_assert_held(engine);
	twi_coll_regions_drop(engine);
	while ((entry = twi_list_first(&ranks->kept)) != NULL) {
		struct twi_coll_kept *kept = twi_container_of(entry, struct twi_coll_kept, link);

		twi_list_remove(entry);
		kept->region->older = engine->coll_regions;
		engine->coll_regions = kept->region;
		free(kept);
	}
}
