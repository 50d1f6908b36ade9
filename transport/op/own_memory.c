/*
 * own_memory.c - takes pool memory for the library, with a record in the allocation log.
 */
#include "transport/op/own_memory.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "memreg/alloclog/alloclog.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include <towline/status.h>

static void log_take(struct twi_engine *engine, const void *memory, size_t bytes, size_t align,
		     struct twi_site site)
{
	site.tag = TWI_ALLOC_TAG_LIBRARY;
	if (engine->alloclog != NULL)
		twi_alloclog_alloc(engine->alloclog, memory, bytes, align, site);
}

int twi_own_take(struct twi_engine *engine, size_t bytes, size_t align, struct twi_site site,
		 void **out)
{
	int status = twi_pool_alloc_at(engine->pool, bytes, align, site, out);

	if (status >= 0)
		log_take(engine, *out, bytes, align, site);
	return status;
}

int twi_own_share(struct twi_engine *engine, size_t bytes, size_t align, struct twi_site site,
		  void **out)
{
	int status = twi_own_take(engine, bytes, align, site, out);

	if (status < 0 || twi_pool_find(engine->pool, *out, bytes) != NULL)
		return status;
	twi_own_give(engine, *out);
	return twi_error(TOW_EEXHAUSTED,
			 "pool: no room for %zu bytes that other processes are to see, for which "
			 "memory outside the pool will not do; raise premap_memory_bytes",
			 bytes);
}

int twi_own_take_any(struct twi_engine *engine, size_t bytes, size_t align, struct twi_site site,
		     struct twi_own_any *out)
{
	int status = twi_own_take(engine, bytes, align, site, &out->memory);

	out->heap = false;
	if (status != TOW_EEXHAUSTED || engine->knobs.require_zero_copy)
		return status;
	out->memory = aligned_alloc(align, twi_align_up(bytes, align));
	out->heap = out->memory != NULL;
	return out->heap ? TOW_OK : status;
}

void twi_own_give_any(struct twi_engine *engine, struct twi_own_any *any)
{
	if (any->heap)
		free(any->memory);
	else
		twi_own_give(engine, any->memory);
	*any = (struct twi_own_any){ NULL, false };
}

int twi_own_try(struct twi_engine *engine, size_t bytes, size_t align, void **out)
{
	int status = twi_pool_try(engine->pool, bytes, align, out);

	if (status >= 0)
		log_take(engine, *out, bytes, align, TWI_SITE_NONE);
	return status;
}

int twi_own_need(struct twi_engine *engine, size_t bytes, size_t align, struct twi_site site,
		 void **out)
{
	int status = twi_own_try(engine, bytes, align, out);

	if (status != TOW_EEXHAUSTED || !twi_pool_degrades(engine->pool))
		return status;
	return twi_own_take(engine, bytes, align, site, out);
}

void twi_own_give(struct twi_engine *engine, void *memory)
{
	struct twi_alloclog_begun begun = { 0, 0 };
	struct twi_site site = TWI_SITE_NONE;
	bool leased;

	if (memory == NULL)
		return;
	if (engine->alloclog != NULL)
		begun = twi_alloclog_begin(engine->alloclog, memory);
	if (twi_pool_free_at(engine->pool, memory, &leased) < 0 || leased)
		return;
	site.tag = TWI_ALLOC_TAG_LIBRARY;
	if (engine->alloclog != NULL)
		twi_alloclog_free(engine->alloclog, memory, begun, site);
}
