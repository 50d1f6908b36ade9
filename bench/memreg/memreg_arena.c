/*
 * memreg_arena.c - chooses the arena and staging of the sized pool, which must be those of the job.
 *
 * A recording names them. A program that does not link jemalloc has page runs, whatever tow-size
 * links.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/memreg/tow_size.h"
#include "memreg/arena/arena.h"
#include <internal/base.h>
#include <towline/status.h>

#define PROBE_MORE ((uint64_t)1280 << 20)
#define PROBE_MOST ((uint64_t)4352 << 20) /* for the largest staging_bytes */

static const struct twi_arena_ops *const providers[] = { &twi_arena_pagerun, &twi_arena_jemalloc };

static const struct twi_arena_ops *find_provider(const char *name)
{
	for (size_t i = 0; i < twi_array_count(providers); i++)
		if (strcmp(providers[i]->name, name) == 0)
			return providers[i];
	return NULL;
}

static bool provider_usable(const struct twi_arena_ops *ops)
{
	return ops != &twi_arena_jemalloc || twi_arena_jemalloc_refusal() == NULL;
}

const struct twi_arena_ops *memreg_arena_ops(const struct memreg_sizing *sizing)
{
	const struct twi_arena_ops *ops = find_provider(sizing->own.arena);

	return ops != NULL ? ops : providers[0];
}

struct twi_replay_pool memreg_arena_pool(const struct memreg_sizing *sizing, uint64_t bytes)
{
	uint64_t page = twi_max(sizing->own.page_bytes, (uint64_t)4096);

	return (struct twi_replay_pool){ memreg_arena_ops(sizing), twi_align_up(bytes, page),
					 sizing->own.bytes, 0 };
}

int memreg_arena_probe(struct memreg_sizing *sizing, uint64_t bytes)
{
	int rc = memreg_probe(bytes, sizing->job.staging_bytes, &sizing->own);

	if (rc == 0 && sizing->job.page_bytes > 0)
		sizing->own.page_bytes = sizing->job.page_bytes; /* as on the job's machine */
	return rc;
}

/*
 * A pool of 32 MiB holds the runtime's own memory, unless its knobs say more. Staging gets at most
 * a quarter of the pool, so a runtime that has taken as much may need more.
 */
int memreg_arena_use(struct memreg_sizing *sizing, const struct twi_arena_ops *ops)
{
	bool is_more = getenv("TOW_STAGING_BYTES") != NULL ||
		       sizing->job.staging_bytes > (int64_t)(MEMREG_PROBE_BYTES / 4);
	uint64_t bytes = is_more ? PROBE_MORE : MEMREG_PROBE_BYTES;
	int rc;

	twi_arena_force(ops);
	memreg_progress("looking at the runtime", 0, 100);
	rc = memreg_arena_probe(sizing, bytes);
	if (rc == 0 && sizing->own.bytes >= bytes / 4 &&
	    memreg_ram_available() / 5 * 4 > PROBE_MOST)
		rc = memreg_arena_probe(sizing, PROBE_MOST);
	sizing->own_most_bytes = sizing->own.bytes;
	return rc;
}

void memreg_arena_force(const struct memreg_sizing *sizing)
{
	twi_arena_force(memreg_arena_ops(sizing));
}

int memreg_arena_at(struct memreg_sizing *sizing, uint64_t bytes)
{
	int rc = 0;

	memreg_arena_force(sizing);
	if (bytes >= MEMREG_PROBE_BYTES)
		rc = memreg_arena_use(sizing, memreg_arena_ops(sizing));
	if (rc == 0 && (bytes < MEMREG_PROBE_BYTES || sizing->own.bytes > bytes / 4))
		rc = memreg_arena_probe(sizing, bytes);
	return rc;
}

int memreg_arena_choose(struct memreg_sizing *sizing)
{
	const char *asked = sizing->options->arena;
	const char *name = asked != NULL ? asked : sizing->job.arena;
	const struct twi_arena_ops *ops = name[0] != '\0' ? find_provider(name) : providers[0];

	if (asked != NULL && (ops == NULL || !provider_usable(ops))) {
		fprintf(stderr, "tow-size: --arena %s: %s\n", asked,
			ops == NULL ? "pagerun or jemalloc" : twi_arena_jemalloc_refusal());
		return MEMREG_USAGE;
	}
	if (ops == NULL || !provider_usable(ops)) {
		snprintf(sizing->other_arena, sizeof(sizing->other_arena),
			 "the log's pool has the arena %s, which is not to be had here%s%s", name,
			 ops != NULL ? ": " : "", ops != NULL ? twi_arena_jemalloc_refusal() : "");
		ops = providers[0];
	}
	return memreg_arena_use(sizing, ops);
}

bool memreg_arena_any(const struct memreg_sizing *sizing)
{
	return sizing->options->arena == NULL && sizing->job.strategy[0] == '\0' &&
	       sizing->job.arena[0] == '\0' && provider_usable(providers[1]);
}

/* With an unknown arena the job runs in both. The result is clean only when both runs are clean. */
void memreg_arena_run(const struct memreg_sizing *sizing, uint64_t bytes, uint64_t steps,
		      double seconds, struct memreg_run *out)
{
	const struct twi_arena_ops *own = memreg_arena_ops(sizing);
	struct memreg_run other;

	memreg_run_job(&sizing->job, bytes, steps, seconds, out);
	if (!memreg_run_clean(out) || !memreg_arena_any(sizing))
		return;
	twi_arena_force(own == providers[0] ? providers[1] : providers[0]);
	memreg_run_job(&sizing->job, bytes, steps, seconds, &other);
	twi_arena_force(own);
	if (!memreg_run_clean(&other))
		*out = other;
}

bool memreg_arena_fits(const struct memreg_sizing *sizing, uint64_t bytes)
{
	struct twi_replay_pool pool[] = { memreg_arena_pool(sizing, bytes),
					  memreg_arena_pool(sizing, bytes) };
	struct twi_replay_result result[2];
	bool any = memreg_arena_any(sizing);

	if (any) {
		pool[0].ops = providers[0];
		pool[1].ops = providers[1];
	}
	return twi_replay_run_each(sizing->job.replay, pool, any ? 2 : 1, TWI_REPLAY_FITS,
				   result) == TOW_OK &&
	       twi_replay_clean(&result[0]) && (!any || twi_replay_clean(&result[1]));
}
