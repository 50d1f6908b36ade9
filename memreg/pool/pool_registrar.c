/*
 * pool_registrar.c - which registrars know which regions, since when, and at what cost.
 *
 * One function registers every region, and one ends every registration. Invariant: a registrar that
 * is listed as registered knows every live extent and user region. One that is listed as not
 * registered knows none, and its reason is kept for /v1/pool. A registrar may lack a cached region
 * whose registration failed. A bit for each region records what the registrar knows, so that no
 * registration is undone twice, or undone without having been made.
 *
 * All of this runs under the control lock. The list and the bits change under regions.lock as well,
 * so that twi_pool_region_known needs only that lock.
 */
#include "memreg/pool/pool_regions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"
#include "diag/record/tag.h"
#include "memreg/pool/pool_impl.h"
#include <internal/base.h>

static struct twi_registration **find_entry(struct twi_pool *pool,
					    const struct twi_registrar *registrar, void *ctx)
{
	struct twi_registration **at = &pool->registrations;

	while (*at != NULL && ((*at)->registrar != registrar || (*at)->ctx != ctx))
		at = &(*at)->next;
	return at;
}

static bool is_known(const struct twi_registration *entry, const struct twi_region *region)
{
	return entry->known[region->slot / 64] >> region->slot % 64 & 1;
}

/* Records that the registrar knows the region, or no longer knows it. */
static void set_known(struct twi_pool *pool, struct twi_registration *entry,
		      const struct twi_region *region, bool known)
{
	int64_t sign = known ? 1 : -1;

	pthread_mutex_lock(&pool->regions.lock);
	twi_assert(is_known(entry, region) != known);
	entry->known[region->slot / 64] ^= (uint64_t)1 << region->slot % 64;
	pthread_mutex_unlock(&pool->regions.lock);
	entry->known_count += (uint64_t)sign;
	entry->known_bytes += (uint64_t)sign * region->bytes;
	if (region->kind == TWI_REGION_EXTENT)
		entry->extent_bytes += (uint64_t)sign * region->bytes;
}

/* Records a span of a timely registration. A late one gets its span in twi_late_record. */
static void record_span(struct twi_pool *pool, const struct twi_registration *entry,
			const struct twi_region *region, uint64_t ns)
{
	struct twi_span span = { .end_ns = twi_now_ns(),
				 .bytes = region->bytes,
				 .kind = TWI_SPAN_REGISTER,
				 .lane = TWI_SPAN_NO_LANE,
				 .detail = TWI_R_COUNT };

	if (region->kind == TWI_REGION_CACHED ||
	    atomic_load_explicit(&pool->sealed, memory_order_relaxed))
		return;
	span.start_ns = span.end_ns - ns;
	span.name = twi_tag_name(entry->registrar->name);
	twi_span_record(pool->diag, &span);
}

static int tell_region(struct twi_pool *pool, struct twi_registration *entry,
		       const struct twi_region *region)
{
	uint64_t ns = twi_now_ns();
	int status = entry->registrar->add(entry->ctx, region);

	ns = twi_now_ns() - ns;
	if (status < 0) {
		entry->failures++;
		return status;
	}
	entry->count++;
	entry->bytes += region->bytes;
	entry->ns += ns;
	entry->last_bytes = region->bytes;
	entry->last_ns = ns;
	entry->max_ns = twi_max(entry->max_ns, ns);
	set_known(pool, entry, region, true);
	record_span(pool, entry, region, ns);
	return TOW_OK;
}

static void untell_region(struct twi_pool *pool, struct twi_registration *entry,
			  const struct twi_region *region)
{
	if (!is_known(entry, region))
		return;
	/* Clears the bit first: a thread that asks now must not begin to use the registration. */
	set_known(pool, entry, region, false);
	entry->registrar->remove(entry->ctx, region);
}

void twi_pool_forget(struct twi_pool *pool, const struct twi_region *region)
{
	for (struct twi_registration *r = pool->registrations; r != NULL; r = r->next)
		untell_region(pool, r, region);
}

int twi_pool_announce(struct twi_pool *pool, const struct twi_region *region, uint64_t *ns_out)
{
	uint64_t start = twi_now_ns();

	*ns_out = 0;
	for (struct twi_registration *r = pool->registrations; r != NULL; r = r->next) {
		int status = r->registered ? tell_region(pool, r, region) : TOW_OK;

		if (status < 0) {
			twi_pool_forget(pool, region);
			return status;
		}
	}
	*ns_out = twi_now_ns() - start;
	return TOW_OK;
}

int twi_pool_pinning(const struct twi_pool *pool)
{
	const struct twi_registration *refused = NULL;

	for (const struct twi_registration *r = pool->registrations; r != NULL; r = r->next) {
		if (r->registered)
			return TOW_OK;
		if (r->status == TOW_EPERM || r->status == TOW_ENOMEM)
			refused = r;
	}
	return refused != NULL
		       ? twi_error(refused->status,
				   "register: no memory can be pinned, and the pool was not "
				   "either: %s; mend it: %s",
				   refused->reason, refused->mend)
		       : TOW_OK;
}

/* The next live region to give to a new registrar, in the order of slots. */
static struct twi_region_entry *next_live(struct twi_pool *pool, uint32_t *slot)
{
	struct twi_regions *regions = &pool->regions;
	struct twi_region_entry *entry;

	pthread_mutex_lock(&regions->lock);
	do {
		entry = twi_regions_next(regions, *slot);
		if (entry != NULL)
			*slot = entry->region.slot + 1;
	} while (entry != NULL && entry->state != TWI_REGION_LIVE);
	pthread_mutex_unlock(&regions->lock);
	return entry;
}

static void untell_all(struct twi_pool *pool, struct twi_registration *entry)
{
	for (uint32_t slot = 0; slot < TWI_REGION_SLOTS; slot++) {
		if (entry->known[slot / 64] >> slot % 64 & 1)
			untell_region(pool, entry, &pool->regions.entry[slot].region);
	}
}

/* Gives the registrar all regions, or none. */
static void tell_all(struct twi_pool *pool, struct twi_registration *entry)
{
	struct twi_region_entry *live;

	for (uint32_t slot = 0; (live = next_live(pool, &slot)) != NULL;) {
		int status = tell_region(pool, entry, &live->region);

		/* A cached region's memory may be gone by now; the registrar then lacks it. */
		if (status < 0 && live->region.kind != TWI_REGION_CACHED) {
			entry->status = status;
			untell_all(pool, entry);
			break;
		}
	}
	entry->registered = entry->status >= 0;
	entry->late = atomic_load_explicit(&pool->sealed, memory_order_relaxed);
}

/* Stores the registrar's failure, with the limit that most often causes it. */
static int refused_status(struct twi_pool *pool, struct twi_registration *entry)
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

/* Gives the registrar all regions, and lists it unless that is an error. */
static int list_entry(struct twi_pool *pool, struct twi_registration *entry)
{
	int status = TOW_OK;

	tell_all(pool, entry);
	if (entry->registered && entry->late)
		twi_late_record(pool->diag, TWI_R_late_registrar, entry->bytes, entry->ns,
				TWI_SITE_NONE);
	if (!entry->registered)
		status = refused_status(pool, entry);
	if (status < 0)
		return status;
	pthread_mutex_lock(&pool->regions.lock);
	*find_entry(pool, entry->registrar, entry->ctx) = entry;
	pthread_mutex_unlock(&pool->regions.lock);
	return TOW_OK;
}

int twi_pool_registrar_add(struct twi_pool *pool, const struct twi_registrar *registrar, void *ctx)
{
	struct twi_registration *entry;
	int status;

	if (registrar == NULL)
		return twi_error(TOW_EINVAL, "pool: registrar is NULL");
	entry = calloc(1, sizeof(*entry));
	if (entry == NULL)
		return twi_error(TOW_ENOMEM, "pool: no memory to list registrar %s",
				 registrar->name);
	entry->registrar = registrar;
	entry->ctx = ctx;
	pthread_mutex_lock(&pool->control);
	if (*find_entry(pool, registrar, ctx) != NULL)
		status = twi_error(TOW_EINVAL, "pool: registrar %s is there already",
				   registrar->name);
	else
		status = list_entry(pool, entry);
	pthread_mutex_unlock(&pool->control);
	if (status < 0)
		free(entry);
	return status;
}

static void drop_entry(struct twi_pool *pool, struct twi_registration **at)
{
	struct twi_registration *entry = *at;

	pthread_mutex_lock(&pool->regions.lock);
	*at = entry->next;
	pthread_mutex_unlock(&pool->regions.lock);
	untell_all(pool, entry);
	free(entry);
}

void twi_pool_registrar_remove(struct twi_pool *pool, const struct twi_registrar *registrar,
			       void *ctx)
{
	struct twi_registration **at;

	pthread_mutex_lock(&pool->control);
	at = find_entry(pool, registrar, ctx);
	if (*at != NULL)
		drop_entry(pool, at);
	pthread_mutex_unlock(&pool->control);
}

bool twi_pool_registered(struct twi_pool *pool, const struct twi_registrar *registrar, void *ctx)
{
	struct twi_registration *entry;
	bool registered;

	pthread_mutex_lock(&pool->control);
	entry = *find_entry(pool, registrar, ctx);
	registered = entry != NULL && entry->registered;
	pthread_mutex_unlock(&pool->control);
	return registered;
}

void twi_pool_registrars_clear(struct twi_pool *pool)
{
	pthread_mutex_lock(&pool->control);
	while (pool->registrations != NULL)
		drop_entry(pool, &pool->registrations);
	pthread_mutex_unlock(&pool->control);
}

bool twi_pool_region_known(struct twi_pool *pool, const struct twi_region *region,
			   const struct twi_registrar *registrar, void *ctx)
{
	const struct twi_registration *entry;
	bool known;

	pthread_mutex_lock(&pool->regions.lock);
	entry = *find_entry(pool, registrar, ctx);
	known = entry != NULL && is_known(entry, region);
	pthread_mutex_unlock(&pool->regions.lock);
	return known;
}
