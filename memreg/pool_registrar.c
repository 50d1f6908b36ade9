/*
 * pool_registrar.c - who has been told about the pool's extents, when, and at what price.
 *
 * Invariant: a registrar that is listed as registered knows every extent; one that is listed as not
 * registered knows none, and its reason is kept for /v1/pool. All under the control lock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/clock.h"
#include "diag/diag.h"
#include "diag/error.h"
#include "memreg/pool_impl.h"

static struct twi_registration **find_entry(struct twi_pool *pool,
					    const struct twi_registrar *registrar, void *ctx)
{
	struct twi_registration **at = &pool->registrations;

	while (*at && ((*at)->registrar != registrar || (*at)->ctx != ctx))
		at = &(*at)->next;
	return at;
}

static void forget_extents(struct twi_pool *pool, struct twi_registration *entry, uint32_t count)
{
	while (count > 0)
		entry->registrar->remove(entry->ctx, &pool->extents.extent[--count]->region);
}

/* Tells the registrar of all extents, or of none. */
static void tell_extents(struct twi_pool *pool, struct twi_registration *entry)
{
	uint32_t count = atomic_load_explicit(&pool->extents.count, memory_order_acquire);
	uint64_t start = twi_now_ns();

	for (uint32_t i = 0; i < count; i++) {
		entry->status = entry->registrar->add(entry->ctx, &pool->extents.extent[i]->region);
		if (entry->status < 0) {
			forget_extents(pool, entry, i);
			entry->bytes = 0;
			break;
		}
		entry->bytes += pool->extents.extent[i]->bytes;
	}
	entry->ns = twi_now_ns() - start;
	entry->registered = entry->status >= 0;
	entry->late = atomic_load_explicit(&pool->sealed, memory_order_relaxed);
}

/* The registrar's failure, told with the limit that is most often behind it. */
static int refused(struct twi_pool *pool, struct twi_registration *entry)
{
	char limit[64];

	if (entry->status == TOW_ENOTSUP) {
		snprintf(entry->reason, sizeof(entry->reason), "%s: %.220s", entry->registrar->name,
			 tow_error_message());
		return pool->strict ? entry->status : TOW_OK;
	}
	if (entry->status != TOW_EPERM && entry->status != TOW_ENOMEM)
		return entry->status;
	twi_memlock_describe(limit, sizeof(limit), entry->mend, sizeof(entry->mend));
	snprintf(entry->reason, sizeof(entry->reason), "%s: %.160s; %s", entry->registrar->name,
		 tow_error_message(), limit);
	if (pool->strict)
		return twi_error(entry->status, "pool: not registered with %s; mend it: %s",
				 entry->reason, entry->mend);
	twi_log(pool->diag, 2, "pool: not registered with %s; mend it: %s", entry->reason,
		entry->mend);
	return TOW_OK;
}

int twi_pool_registrar_add(struct twi_pool *pool, const struct twi_registrar *registrar, void *ctx)
{
	struct twi_registration *entry;
	int status = TOW_OK;

	if (!registrar)
		return twi_error(TOW_EINVAL, "pool: registrar is NULL");
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return twi_error(TOW_ENOMEM, "pool: no memory to list registrar %s",
				 registrar->name);
	entry->registrar = registrar;
	entry->ctx = ctx;
	pthread_mutex_lock(&pool->control);
	if (*find_entry(pool, registrar, ctx)) {
		status = twi_error(TOW_EINVAL, "pool: registrar %s is there already",
				   registrar->name);
		goto out;
	}
	tell_extents(pool, entry);
	if (entry->registered && entry->late)
		twi_late_record(pool->diag, TWI_R_late_registrar, entry->bytes, entry->ns,
				TWI_SITE_NONE);
	if (!entry->registered)
		status = refused(pool, entry);
	if (status == TOW_OK) {
		*find_entry(pool, registrar, ctx) = entry;
		entry = NULL;
	}
out:
	pthread_mutex_unlock(&pool->control);
	free(entry);
	return status;
}

static void drop(struct twi_pool *pool, struct twi_registration **at)
{
	struct twi_registration *entry = *at;

	*at = entry->next;
	if (entry->registered)
		forget_extents(pool, entry,
			       atomic_load_explicit(&pool->extents.count, memory_order_acquire));
	free(entry);
}

void twi_pool_registrar_remove(struct twi_pool *pool, const struct twi_registrar *registrar,
			       void *ctx)
{
	struct twi_registration **at;

	pthread_mutex_lock(&pool->control);
	at = find_entry(pool, registrar, ctx);
	if (*at)
		drop(pool, at);
	pthread_mutex_unlock(&pool->control);
}

bool twi_pool_registered(struct twi_pool *pool, const struct twi_registrar *registrar, void *ctx)
{
	struct twi_registration *entry;
	bool registered;

	pthread_mutex_lock(&pool->control);
	entry = *find_entry(pool, registrar, ctx);
	registered = entry && entry->registered;
	pthread_mutex_unlock(&pool->control);
	return registered;
}

void twi_pool_registrars_clear(struct twi_pool *pool)
{
	pthread_mutex_lock(&pool->control);
	while (pool->registrations)
		drop(pool, &pool->registrations);
	pthread_mutex_unlock(&pool->control);
}
