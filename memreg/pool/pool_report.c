/*
 * pool_report.c - reports the pool in /v1/pool and in gauges, with reasons and remedies.
 *
 * The stats thread calls these functions. They read figures that the pool keeps anyway, so the data
 * path does no extra work for them.
 */
#include <stddef.h>

#include "diag/base/emit.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "memreg/pool/pool_impl.h"
#include "memreg/pool/pool_regions.h"
#include "memreg/pool/pool_view.h"
#include <internal/base.h>
#include <towline/status.h>

#define POOL_PATH "/v1/pool"

/* Bytes that every registrar knows. 0: there is no registrar, or one refused. A registrar that
 * needs no registration (TOW_ENOTSUP) does not count. */
static uint64_t registered_bytes(struct twi_pool *pool)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&pool->control);
	for (struct twi_registration *r = pool->registrations; r != NULL; r = r->next) {
		if (!r->registered && r->status == TOW_ENOTSUP)
			continue;
		bytes = r->extent_bytes;
		if (!r->registered)
			break;
	}
	pthread_mutex_unlock(&pool->control);
	return bytes;
}

/*
 * Pool size with which all memory allocated outside the first extent would have fitted behind it,
 * less the space that was free at its end. The sum of allocations would be too small, because the
 * first extent is fragmented. 0: nothing was allocated outside.
 */
static uint64_t with_outside(struct twi_pool *pool, uint64_t outside)
{
	uint64_t spare = atomic_load_explicit(&pool->spare_bytes, memory_order_relaxed);

	if (outside == 0)
		return 0;
	return twi_align_up(pool->extents.extent[0]->bytes + outside - twi_min(spare, outside),
			    TWI_HUGE_BYTES);
}

/*
 * Recommends a sixteenth more than the peak demand, and room for every request that found none. If
 * every request found room, the pool was large enough, so the result is at most its size.
 */
static uint64_t recommend_bytes(struct twi_pool *pool, uint64_t demand, uint64_t outside)
{
	const struct twi_extent *first = pool->extents.extent[0];
	uint64_t enough = atomic_load_explicit(&pool->enough_bytes, memory_order_relaxed);
	uint64_t spared = twi_align_up(demand + demand / 16, TWI_HUGE_BYTES);

	if (first != NULL && outside == 0 &&
	    atomic_load_explicit(&pool->exhausted, memory_order_relaxed) == 0)
		return twi_min(spared, first->bytes);
	return twi_max(twi_max(enough, with_outside(pool, outside)), spared);
}

void twi_pool_stats(struct twi_pool *pool, struct twi_pool_stats *out)
{
	uint32_t count = atomic_load_explicit(&pool->extents.count, memory_order_acquire);
	int64_t leased = atomic_load_explicit(&pool->leased_bytes, memory_order_relaxed);
	int64_t peak = atomic_load_explicit(&pool->leased_peak_bytes, memory_order_relaxed);
	uint64_t outside = pool->overflow.peak_bytes;

	*out = (struct twi_pool_stats){ .asked = pool->asked_bytes };
	for (uint32_t i = 0; i < count; i++) {
		const struct twi_extent *extent = pool->extents.extent[i];
		struct twi_arena_stats arena;

		pool->ops->stats(pool->arena[i], &arena);
		out->mapped += extent->bytes;
		out->mlocked += extent->mlocked ? extent->bytes : 0;
		out->allocated += arena.allocated_bytes;
		out->allocated_peak += arena.peak_bytes;
		outside += i > 0 ? arena.peak_bytes : 0;
		out->spread += arena.total_bytes - arena.least_largest_bytes;
		out->waste += arena.waste_bytes;
		out->free += arena.free_bytes;
		out->largest_free = twi_max(out->largest_free, arena.largest_free_bytes);
		out->allocations += arena.allocations;
	}
	out->registered = registered_bytes(pool);
	out->deferred = twi_pool_deferred(pool);
	out->own = atomic_load_explicit(&pool->own_bytes, memory_order_relaxed);
	out->placed = atomic_load_explicit(&pool->placed_bytes, memory_order_relaxed);
	out->own_allocations = atomic_load_explicit(&pool->own_allocations, memory_order_relaxed);
	out->grown = out->mapped - (count > 0 ? pool->extents.extent[0]->bytes : 0);
	out->overflow = atomic_load_explicit(&pool->overflow.bytes, memory_order_relaxed);
	out->overflow_peak = pool->overflow.peak_bytes;
	out->leased = (uint64_t)twi_max(leased, 0);
	out->leased_peak = (uint64_t)peak;
	out->demand = twi_max(out->allocated_peak,
			      atomic_load_explicit(&pool->demand_bytes, memory_order_relaxed));
	out->recommended = recommend_bytes(pool, out->demand, outside);
	out->exhausted = atomic_load_explicit(&pool->exhausted, memory_order_relaxed);
}

static void emit_stats(struct twi_emit *e, const struct twi_pool_stats *stats)
{
	twi_emit_u64(e, "asked_bytes", stats->asked);
	twi_emit_u64(e, "mapped_bytes", stats->mapped);
	twi_emit_u64(e, "mlocked_bytes", stats->mlocked);
	twi_emit_u64(e, "registered_bytes", stats->registered);
	twi_emit_u64(e, "allocated_bytes", stats->allocated);
	twi_emit_u64(e, "allocated_peak_bytes", stats->allocated_peak);
	twi_emit_u64(e, "waste_bytes", stats->waste);
	twi_emit_u64(e, "free_bytes", stats->free);
	twi_emit_u64(e, "largest_free_bytes", stats->largest_free);
	twi_emit_u64(e, "allocations", stats->allocations);
	twi_emit_u64(e, "leased_bytes", stats->leased);
	twi_emit_u64(e, "leased_peak_bytes", stats->leased_peak);
	twi_emit_u64(e, "own_bytes", stats->own);
	twi_emit_u64(e, "placed_bytes", stats->placed);
	twi_emit_u64(e, "deferred_bytes", stats->deferred);
	twi_emit_u64(e, "grown_bytes", stats->grown);
	twi_emit_u64(e, "overflow_bytes", stats->overflow);
	twi_emit_u64(e, "overflow_peak_bytes", stats->overflow_peak);
	twi_emit_u64(e, "demand_bytes", stats->demand);
	twi_emit_u64(e, "recommended_premap_memory_bytes", stats->recommended);
	twi_emit_u64(e, "exhausted", stats->exhausted);
}

/* Emits for each better kind of pages why it is not used. */
static void emit_steps(struct twi_emit *e, const struct twi_extent *extent)
{
	twi_emit_array_begin(e, "steps_down");
	for (int kind = TWI_PAGES_KINDS - 1; kind > TWI_PAGES_BASE; kind--) {
		if (!extent->step[kind].reason[0])
			continue;
		twi_emit_object_begin(e, NULL);
		twi_emit_str(e, "pages", twi_page_kind_name((enum twi_page_kind)kind));
		twi_emit_str(e, "reason", extent->step[kind].reason);
		twi_emit_str(e, "mend", extent->step[kind].mend);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
}

static void emit_extent(struct twi_emit *e, const struct twi_extent *extent,
			const struct twi_pool_view *view)
{
	twi_emit_object_begin(e, NULL);
	twi_emit_u64(e, "slot", extent->slot);
	twi_emit_u64(e, "bytes", extent->bytes);
	twi_pool_view_emit_extent(view, extent->slot, e);
	twi_emit_str(e, "pages", twi_page_kind_name(extent->kind));
	twi_emit_u64(e, "page_bytes", extent->page_bytes);
	twi_emit_u64(e, "huge_bytes", extent->huge_bytes);
	twi_emit_str(e, "reason", extent->reason);
	twi_emit_str(e, "mend", extent->mend);
	emit_steps(e, extent);
	twi_emit_bool(e, "mlocked", extent->mlocked);
	twi_emit_str(e, "mlock_reason", extent->pin_reason);
	twi_emit_str(e, "mlock_mend", extent->pin_mend);
	twi_emit_u64(e, "populate_ns", extent->populate_ns);
	twi_emit_u64(e, "populate_threads", extent->populate_threads);
	twi_emit_str(e, "populated_by", extent->touched ? "touch" : "MADV_POPULATE_WRITE");
	twi_emit_object_end(e);
}

static void emit_registration(struct twi_emit *e, const struct twi_registration *r)
{
	twi_emit_object_begin(e, NULL);
	twi_emit_str(e, "name", r->registrar->name);
	twi_emit_bool(e, "registered", r->registered);
	twi_emit_bool(e, "late", r->late);
	twi_emit_u64(e, "count", r->count);
	twi_emit_u64(e, "bytes", r->bytes);
	twi_emit_u64(e, "ns", r->ns);
	twi_emit_u64(e, "last_bytes", r->last_bytes);
	twi_emit_u64(e, "last_ns", r->last_ns);
	twi_emit_u64(e, "max_ns", r->max_ns);
	twi_emit_u64(e, "failures", r->failures);
	twi_emit_u64(e, "known_regions", r->known_count);
	twi_emit_u64(e, "known_bytes", r->known_bytes);
	twi_emit_str(e, "status", tow_status_name(r->status));
	twi_emit_str(e, "reason", r->reason);
	twi_emit_str(e, "mend", r->mend);
	twi_emit_object_end(e);
}

static void emit_pool(void *arg, struct twi_emit *e)
{
	struct twi_pool *pool = arg;
	const struct twi_pool_view *view = twi_pool_view_acquire(pool, 0);
	struct twi_pool_stats stats;

	twi_pool_stats(pool, &stats);
	emit_stats(e, &stats);
	twi_pool_view_emit(pool, view, e);
	twi_emit_str(e, "arena", pool->ops->name);
	twi_emit_bool(e, "strict", pool->strict);
	twi_emit_str(e, "exhaust", twi_exhaust_name(pool->exhaust));
	twi_emit_u64(e, "limit_bytes", pool->limit_bytes);
	twi_emit_bool(e, "require_zero_copy", pool->require_zero_copy);
	twi_emit_bool(e, "sealed", atomic_load_explicit(&pool->sealed, memory_order_relaxed));
	twi_emit_array_begin(e, "extents");
	for (uint32_t i = 0; i < view->extents; i++)
		emit_extent(e, pool->extents.extent[i], view);
	twi_emit_array_end(e);
	twi_pool_view_release(pool);
	twi_emit_array_begin(e, "registrars");
	pthread_mutex_lock(&pool->control);
	for (struct twi_registration *r = pool->registrations; r != NULL; r = r->next)
		emit_registration(e, r);
	pthread_mutex_unlock(&pool->control);
	twi_emit_array_end(e);
	twi_pool_regions_describe(pool, e);
}

static const struct {
	const char *name, *help;
	size_t offset;
} gauges[TWI_POOL_GAUGES] = {
#define GAUGE(field, help) NAMED(#field, field, help)
/* Two gauges differ in name from their field, because counters in bytes have those names. */
#define NAMED(name, field, help)                                                                   \
	{                                                                                          \
		"pool_" name, help, offsetof(struct twi_pool_stats, field)                         \
	}
	GAUGE(asked, "Value of premap_memory_bytes"),
	GAUGE(mapped, "Bytes the pool has mapped"),
	GAUGE(mlocked, "Bytes of the pool that are locked in memory"),
	GAUGE(registered, "Bytes of the pool that every registrar knows"),
	GAUGE(allocated, "Bytes allocated from the pool"),
	GAUGE(allocated_peak, "Most bytes ever allocated at once"),
	GAUGE(waste, "Bytes allocated beyond the requests, by rounding up"),
	GAUGE(largest_free, "Largest block that can be allocated"),
	GAUGE(leased, "Bytes a transport still holds"),
	GAUGE(leased_peak, "Most bytes ever leased at once"),
	GAUGE(deferred, "Bytes that were freed while a transport held them"),
	NAMED("grown_now", grown, "Bytes that the pool has grown by; raise premap_memory_bytes"),
	NAMED("overflow_now", overflow, "Bytes allocated outside the pool because it was full"),
	GAUGE(demand, "Most bytes ever allocated at once, refused requests included"),
	GAUGE(recommended, "Recommended minimum of premap_memory_bytes, by the demand so far"),
#undef GAUGE
#undef NAMED
};

static uint64_t gauge_value(void *arg)
{
	const struct twi_pool_gauge *gauge = arg;
	struct twi_pool_stats stats;

	twi_pool_stats(gauge->pool, &stats);
	return *(const uint64_t *)(const void *)((const char *)&stats + gauge->offset);
}

int twi_pool_report_add(struct twi_pool *pool)
{
	struct twi_source source = { .path = POOL_PATH,
				     .help = "The pool: bytes, pages, registrations, leases",
				     .snapshot = emit_pool,
				     .arg = pool };
	int status = twi_pool_view_create(pool);

	if (status == TOW_OK)
		status = twi_registry_add(pool->diag, &source);
	pool->reported = status == TOW_OK;
	if (status == TOW_OK && pool->late != NULL)
		status = pool->late->ops->report_add(pool);
	for (size_t i = 0; status == TOW_OK && i < TWI_POOL_GAUGES; i++) {
		struct twi_gauge gauge = { .name = gauges[i].name,
					   .unit = "bytes",
					   .help = gauges[i].help,
					   .value = gauge_value,
					   .arg = &pool->gauge[i] };

		pool->gauge[i] = (struct twi_pool_gauge){ pool, gauges[i].offset };
		status = twi_registry_gauge(pool->diag, &gauge);
	}
	return status == TOW_OK ? twi_pool_view_gauges_add(pool) : status;
}

void twi_pool_report_remove(struct twi_pool *pool)
{
	if (pool->reported) {
		twi_registry_remove(pool->diag, POOL_PATH, pool);
		if (pool->late != NULL)
			pool->late->ops->report_remove(pool);
		for (size_t i = 0; i < TWI_POOL_GAUGES; i++)
			twi_registry_gauge_remove(pool->diag, gauges[i].name, &pool->gauge[i]);
		twi_pool_view_gauges_remove(pool);
	}
	twi_pool_view_destroy(pool);
}
