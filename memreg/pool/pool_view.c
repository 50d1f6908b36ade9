/*
 * pool_view.c - reads the kernel's view of the pool, and reports it in /v1/pool and in gauges.
 *
 * The threads that ask run this code (the stats thread, tow_stats_get), never the data path.
 */
#include "memreg/pool/pool_view.h"

#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "diag/base/clock.h"
#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/registry.h"
#include "memreg/pool/pool_impl.h"
#include "memreg/pool/pool_regions.h"
#include <internal/base.h>

#define CHEAP_NS 10000000u /* a cheaper look is not kept for a caller that wants a new one */
/* Gauges may use 1 / GAUGE_KEEP_COST of a CPU, because /metrics may be read continuously. */
#define GAUGE_KEEP_COST 500u
#define GAUGE_NS        1000000000u /* age limit of a view for gauges: /metrics reads each gauge */
#define KEEP_COST       20u

struct keeper {
	struct twi_pool_view view; /* first: pool->view points here */
	pthread_mutex_t lock;
};

static struct keeper *keeper_of(struct twi_pool *pool)
{
	return (struct keeper *)(void *)pool->view;
}

int twi_pool_view_create(struct twi_pool *pool)
{
	struct keeper *keeper = calloc(1, sizeof(*keeper));

	if (keeper == NULL)
		return twi_error(TOW_ENOMEM, "pool: no memory for the kernel's view of it");
	pthread_mutex_init(&keeper->lock, NULL);
	pool->view = &keeper->view;
	return TOW_OK;
}

void twi_pool_view_destroy(struct twi_pool *pool)
{
	if (pool->view == NULL)
		return;
	pthread_mutex_destroy(&keeper_of(pool)->lock);
	free(keeper_of(pool));
	pool->view = NULL;
}

/* CPU time of this thread: the cost of a look, however busy the machine is. */
static uint64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* All memory of this runtime: the extents, and behind them the user's registered memory. */
struct ours {
	struct twi_address_range span[TWI_EXTENTS_MAX + TWI_REGION_SLOTS];
	uint64_t pinned_bytes[TWI_EXTENTS_MAX + TWI_REGION_SLOTS];
	uint32_t count;
};

static void add_region(void *arg, const struct twi_region *region)
{
	struct ours *ours = arg;

	if (region->kind == TWI_REGION_EXTENT)
		return;
	ours->span[ours->count].begin = (uintptr_t)region->base;
	ours->span[ours->count].end = (uintptr_t)region->base + region->bytes;
	ours->count++;
}

static int by_begin(const void *a, const void *b)
{
	const struct twi_address_range *x = a, *y = b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Merges the user's regions, which may overlap; spans must not overlap. */
static void join_regions(struct ours *ours, uint32_t extents)
{
	uint32_t last = extents;

	qsort(ours->span + extents, ours->count - extents, sizeof(ours->span[0]), by_begin);
	for (uint32_t i = extents + 1; i < ours->count; i++) {
		if (ours->span[i].begin > ours->span[last].end)
			ours->span[++last] = ours->span[i];
		else if (ours->span[i].end > ours->span[last].end)
			ours->span[last].end = ours->span[i].end;
	}
	if (ours->count > extents)
		ours->count = last + 1;
}

static void look_at_pool(struct twi_pool *pool, struct twi_pool_view *view, uint32_t count)
{
	struct ours *ours = calloc(1, sizeof(*ours));
	struct twi_pool_stats stats;

	view->extents = count;
	view->known = view->nodes_known = false;
	if (ours == NULL) {
		view->extents = 0;
		return;
	}
	twi_pool_stats(pool, &stats);
	for (uint32_t i = 0; i < count; i++) {
		const struct twi_extent *extent = pool->extents.extent[i];

		ours->span[i].begin = (uintptr_t)extent->base;
		ours->span[i].end = ours->span[i].begin + extent->bytes;
		view->extent[i] = (struct twi_range_view){ 0 };
	}
	ours->count = count;
	view->known = twi_ranges_read_smaps(ours->span, view->extent, count);
	view->nodes_known = twi_ranges_read_nodes(ours->span, view->extent, count);
	twi_pool_regions_each(pool, add_region, ours);
	join_regions(ours, count);
	twi_pinned_read(ours->span, ours->count, stats.registered, &view->process,
			ours->pinned_bytes);
	for (uint32_t i = 0; i < count; i++)
		view->pinned_bytes[i] = ours->pinned_bytes[i];
	free(ours);
}

const struct twi_pool_view *twi_pool_view_acquire(struct twi_pool *pool, uint64_t old_ns)
{
	uint32_t count = atomic_load_explicit(&pool->extents.count, memory_order_acquire);
	struct twi_pool_view *view = pool->view;
	uint64_t now, start;

	pthread_mutex_lock(&keeper_of(pool)->lock);
	now = twi_now_ns();
	if (old_ns >= GAUGE_NS)
		old_ns = twi_max(old_ns, GAUGE_KEEP_COST * view->cost_ns);
	else if (view->cost_ns >= CHEAP_NS)
		old_ns = twi_max(old_ns, KEEP_COST * view->cost_ns);
	if (view->at_ns != 0 && view->extents == count && now - view->at_ns < old_ns)
		return view;
	start = cpu_ns();
	look_at_pool(pool, view, count);
	view->at_ns = now;
	view->cost_ns = cpu_ns() - start;
	return view;
}

void twi_pool_view_release(struct twi_pool *pool)
{
	pthread_mutex_unlock(&keeper_of(pool)->lock);
}

void twi_pool_view_node(struct twi_pool *pool, const struct twi_pool_view *view, unsigned node,
			struct twi_pool_node *out)
{
	*out = (struct twi_pool_node){ 0 };
	for (uint32_t i = 0; i < view->extents; i++) {
		const struct twi_extent *extent = pool->extents.extent[i];
		uint64_t bytes = view->extent[i].node[node];

		out->resident += bytes;
		/* A locked or pinned extent is wholly in memory, so `bytes` are its part here. */
		out->mlocked += extent->mlocked ? bytes : 0;
		out->pinned += view->pinned_bytes[i] == extent->bytes ? bytes : 0;
	}
}

/* Sums the resident, locked and pinned bytes of the pool. */
static void sum_up(const struct twi_pool_view *view, uint64_t *resident, uint64_t *locked,
		   uint64_t *pinned)
{
	*resident = *locked = *pinned = 0;
	for (uint32_t i = 0; i < view->extents; i++) {
		*resident += twi_pool_view_resident(view, i);
		*locked += view->extent[i].locked;
		*pinned += view->pinned_bytes[i];
	}
}

/* Figures that exist only for the whole pool are emitted if all of it lies on this node. */
static void emit_node(struct twi_pool *pool, const struct twi_pool_view *view, unsigned node,
		      uint64_t resident, struct twi_emit *e)
{
	struct twi_pool_node part;
	struct twi_pool_stats stats;

	twi_pool_view_node(pool, view, node, &part);
	if (!part.resident)
		return;
	twi_emit_object_begin(e, NULL);
	twi_emit_u64(e, "node", node);
	twi_emit_u64(e, "resident_bytes", part.resident);
	twi_emit_u64(e, "mlocked_bytes", part.mlocked);
	twi_emit_u64(e, "pinned_bytes", part.pinned);
	if (part.resident == resident) {
		twi_pool_stats(pool, &stats);
		twi_emit_u64(e, "asked_bytes", stats.asked);
		twi_emit_u64(e, "mapped_bytes", stats.mapped);
		twi_emit_u64(e, "leased_bytes", stats.leased);
		twi_emit_u64(e, "leased_peak_bytes", stats.leased_peak);
		twi_emit_u64(e, "waste_bytes", stats.waste);
	}
	twi_emit_object_end(e);
}

static void emit_nodes(struct twi_pool *pool, const struct twi_pool_view *view, uint64_t resident,
		       struct twi_emit *e)
{
	const struct twi_extent *first = pool->extents.extent[0];
	uint64_t beyond = 0;

	twi_emit_object_begin(e, "numa");
	twi_emit_str(e, "mode", twi_numa_mode_name(first->numa.mode));
	twi_emit_bool(e, "bound", first->numa.mode != TWI_NUMA_ANY && !first->numa_reason[0]);
	twi_emit_str(e, "reason", first->numa_reason);
	twi_emit_str(e, "mend", first->numa_mend);
	twi_emit_bool(e, "nodes_known", view->nodes_known);
	twi_emit_array_begin(e, "nodes");
	for (unsigned node = 0; node < TWI_NODES_MAX; node++)
		emit_node(pool, view, node, resident, e);
	twi_emit_array_end(e);
	for (uint32_t i = 0; i < view->extents; i++)
		beyond += view->extent[i].node_beyond;
	twi_emit_u64(e, "other_nodes_resident_bytes", beyond);
	twi_emit_object_end(e);
}

static void emit_process(const struct twi_pinned *process, struct twi_emit *e)
{
	twi_emit_object_begin(e, "process");
	twi_emit_bool(e, "pinned_known", process->known);
	twi_emit_bool(e, "pinned_exact", process->exact);
	twi_emit_u64(e, "pinned_total_bytes", process->total);
	twi_emit_u64(e, "pinned_by_towline_bytes", process->by_towline);
	twi_emit_u64(e, "pinned_by_others_bytes", process->by_others);
	twi_emit_u64(e, "locked_bytes", process->locked);
	twi_emit_array_begin(e, "rings");
	for (uint32_t i = 0; i < process->rings; i++) {
		const struct twi_pinned_ring *ring = &process->ring[i];

		twi_emit_object_begin(e, NULL);
		twi_emit_i64(e, "fd", ring->fd);
		twi_emit_bool(e, "listed", ring->listed);
		twi_emit_u64(e, "slots", ring->slots);
		twi_emit_u64(e, "buffers", ring->buffers);
		twi_emit_u64(e, "bytes", ring->bytes);
		twi_emit_u64(e, "pool_bytes", ring->here_bytes);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
	twi_emit_u64(e, "rings_left_out", process->rings_left_out);
	twi_emit_object_end(e);
}

void twi_pool_view_emit(struct twi_pool *pool, const struct twi_pool_view *view, struct twi_emit *e)
{
	uint64_t resident, locked, pinned;

	sum_up(view, &resident, &locked, &pinned);
	twi_emit_u64(e, "resident_bytes", resident);
	twi_emit_u64(e, "kernel_locked_bytes", locked);
	twi_emit_u64(e, "pinned_bytes", pinned);
	twi_emit_bool(e, "resident_known", view->known);
	emit_nodes(pool, view, resident, e);
	emit_process(&view->process, e);
	twi_emit_u64(e, "view_age_ns", twi_now_ns() - view->at_ns);
	twi_emit_u64(e, "view_cost_ns", view->cost_ns);
}

void twi_pool_view_emit_extent(const struct twi_pool_view *view, uint32_t index, struct twi_emit *e)
{
	const struct twi_range_view *extent = &view->extent[index];

	twi_emit_u64(e, "resident_bytes", twi_pool_view_resident(view, index));
	twi_emit_u64(e, "pinned_bytes", view->pinned_bytes[index]);
	twi_emit_object_begin(e, "kernel");
	twi_emit_u64(e, "rss_bytes", extent->rss);
	twi_emit_u64(e, "hugetlb_bytes", extent->hugetlb);
	twi_emit_u64(e, "thp_bytes", extent->thp);
	twi_emit_u64(e, "locked_bytes", extent->locked);
	twi_emit_object_end(e);
	twi_emit_array_begin(e, "nodes");
	for (unsigned node = 0; node < TWI_NODES_MAX; node++) {
		if (!extent->node[node])
			continue;
		twi_emit_object_begin(e, NULL);
		twi_emit_u64(e, "node", node);
		twi_emit_u64(e, "resident_bytes", extent->node[node]);
		twi_emit_object_end(e);
	}
	twi_emit_array_end(e);
}

static uint64_t resident_of(const struct twi_pool_view *view)
{
	uint64_t resident, locked, pinned;

	sum_up(view, &resident, &locked, &pinned);
	return resident;
}

static uint64_t pinned_of(const struct twi_pool_view *view)
{
	uint64_t resident, locked, pinned;

	sum_up(view, &resident, &locked, &pinned);
	return pinned;
}

static uint64_t total_of(const struct twi_pool_view *view)
{
	return view->process.total;
}

static uint64_t towline_of(const struct twi_pool_view *view)
{
	return view->process.by_towline;
}

static uint64_t others_of(const struct twi_pool_view *view)
{
	return view->process.by_others;
}

static const struct {
	const char *name, *help;
	uint64_t (*value)(const struct twi_pool_view *view);
} gauges[TWI_POOL_VIEW_GAUGES] = {
	{ "pool_resident", "Bytes of the pool that are in memory", resident_of },
	{ "pool_pinned", "Bytes of the pool that are registered with some io_uring", pinned_of },
	{ "process_pinned", "VmPin: bytes pinned in this process by anyone", total_of },
	{ "process_pinned_by_towline", "Of these: Towline's", towline_of },
	{ "process_pinned_by_others",
	  "Part of VmPin: bytes pinned by other code in the "
	  "process",
	  others_of },
};

/* The offset of a view gauge is its row. */
static uint64_t gauge_value(void *arg)
{
	const struct twi_pool_gauge *gauge = arg;
	uint64_t value = gauges[gauge->offset].value(twi_pool_view_acquire(gauge->pool, GAUGE_NS));

	twi_pool_view_release(gauge->pool);
	return value;
}

int twi_pool_view_gauges_add(struct twi_pool *pool)
{
	int status = TOW_OK;

	for (size_t i = 0; status == TOW_OK && i < TWI_POOL_VIEW_GAUGES; i++) {
		struct twi_gauge gauge = { .name = gauges[i].name,
					   .unit = "bytes",
					   .help = gauges[i].help,
					   .value = gauge_value,
					   .arg = &pool->view_gauge[i] };

		pool->view_gauge[i] = (struct twi_pool_gauge){ pool, i };
		status = twi_registry_gauge(pool->diag, &gauge);
	}
	return status;
}

void twi_pool_view_gauges_remove(struct twi_pool *pool)
{
	for (size_t i = 0; i < TWI_POOL_VIEW_GAUGES; i++)
		twi_registry_gauge_remove(pool->diag, gauges[i].name, &pool->view_gauge[i]);
}
