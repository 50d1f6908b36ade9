/*
 * ring_regions.c - the pool's regions in a ring's table of registered buffers.
 *
 *	slot:   region->slot + piece of 1 GiB      (the same in every ring)
 *	have[]: generation of the region in the slot
 *
 * A registration walks the pages of its memory. A second ring need not pay for that again: it
 * clones the table of a ring that has it (Linux 6.12; single slots 6.13). It registers itself only
 * where that cannot be done. The ring's own thread writes have[] under the pool's control lock, or
 * without it when a region has gone. Other rings' threads read it to find the ring to clone from.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/pool_regions.h"
#include "transport/engine/engine.h"
#include "transport/engine/uring/ring.h"

/* From the kernel's io_uring.h of 6.12 and 6.13; liburing 2.3 does not have them. */
#define REGISTER_CLONE_BUFFERS 30
#define CLONE_DST_REPLACE      2u

struct clone_buffers {
	uint32_t src_fd, flags, src_off, dst_off, nr, pad[3];
};

static void set_have(struct twi_uring *ring, const struct twi_region *region, uint64_t generation)
{
	for (uint32_t i = 0; i < region->slots; i++)
		atomic_store_explicit(&ring->have[region->slot + i], generation,
				      memory_order_relaxed);
}

static bool clone_slots(struct twi_uring *ring, const struct twi_uring *other,
			const struct twi_region *region)
{
	struct clone_buffers arg = {
		.src_fd = (uint32_t)other->uring.ring_fd,
		.flags = CLONE_DST_REPLACE,
		.src_off = region->slot,
		.dst_off = region->slot,
		.nr = region->slots,
	};

	return syscall(SYS_io_uring_register, ring->uring.ring_fd, REGISTER_CLONE_BUFFERS, &arg,
		       1) == 0;
}

/* Clones the region from another ring of the runtime that has it. False: that was not possible. */
static bool borrow_region(struct twi_uring *ring, const struct twi_region *region)
{
	for (unsigned i = 0; i < TWI_RINGS_MAX; i++) {
		struct twi_ring *base = ring->base.engine->rings[i];
		const struct twi_uring *other = twi_uring_of(base);

		if (base != NULL && other != ring && base->poller == ring->base.poller &&
		    other->table && twi_ring_has(base, region))
			return clone_slots(ring, other, region);
	}
	return false;
}

static int registration_error(int err, uint64_t bytes)
{
	if ((err == ENOMEM || err == EPERM) && bytes == 0)
		return twi_error_errno(TOW_ENOMEM, err,
				       "io_uring refuses a table of %u buffers; raise "
				       "RLIMIT_MEMLOCK, or let seccomp pass io_uring_register",
				       TWI_REGION_SLOTS);
	if (err == ENOMEM || err == EPERM)
		return twi_error_errno(
			TOW_ENOMEM, err,
			"cannot pin %llu bytes for io_uring; raise "
			"RLIMIT_MEMLOCK (ulimit -l unlimited, LimitMEMLOCK=infinity) "
			"or give CAP_IPC_LOCK",
			(unsigned long long)bytes);
	if (err == EFAULT)
		return twi_error_errno(TOW_EINVAL, err,
				       "io_uring cannot pin %llu bytes: it pins memory that can be "
				       "written, and no shared mapping of a file on a disk; use "
				       "such memory without registering it",
				       (unsigned long long)bytes);
	return twi_error_errno(TOW_ESYSTEM, err, "io_uring_register of %llu bytes",
			       (unsigned long long)bytes);
}

static int table_create(struct twi_uring *ring)
{
	int err;

	if (ring->table)
		return TOW_OK;
	err = -io_uring_register_buffers_sparse(&ring->uring, TWI_REGION_SLOTS);
	if (err != 0)
		return registration_error(err, 0);
	ring->table = true;
	return TOW_OK;
}

/* Puts `count` slots of the region, from its first on, into the table, or empties them. */
static int update_slots(struct twi_uring *ring, const struct twi_region *region, uint32_t count,
			bool fill)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t offset = (uint64_t)i << TWI_REGION_PIECE_SHIFT;
		struct iovec part = { NULL, 0 };
		__u64 tag = 0;
		int n;

		if (fill)
			part = (struct iovec){
				(uint8_t *)region->base + offset,
				twi_min(TWI_REGION_PIECE, region->bytes - offset),
			};
		n = io_uring_register_buffers_update_tag(&ring->uring, region->slot + i, &part,
							 &tag, 1);
		if (n >= 0)
			continue;
		if (fill && i > 0)
			update_slots(ring, region, i, false);
		return registration_error(-n, region->bytes);
	}
	return TOW_OK;
}

static int take_slots(struct twi_uring *ring, const struct twi_region *region, bool held)
{
	int status = table_create(ring);

	twi_assert_hot(!held || twi_engine_held(ring->base.engine));
	/* Other rings may be looked at only while the engine is held. */
	if (status == TOW_OK && !(held && borrow_region(ring, region)))
		status = update_slots(ring, region, region->slots, true);
	if (status == TOW_OK)
		set_have(ring, region, region->generation);
	return status;
}

static bool own_thread(const struct twi_uring *ring)
{
	return ring->base.mark == twi_thread_mark();
}

static int registrar_add(void *ctx, const struct twi_region *region)
{
	struct twi_uring *ring = ctx;

	/*
	 * The engine is held while a ring that is being set up becomes a registrar. Later a view
	 * that makes the pool grow holds it; tow_alloc and tow_mem_register do not.
	 */
	return own_thread(ring) ? take_slots(ring, region, !ring->base.registrar) : TOW_OK;
}

static void registrar_remove(void *ctx, const struct twi_region *region)
{
	struct twi_uring *ring = ctx;

	/*
	 * No thread uses the region any more. If this is not the ring's thread, that one empties
	 * the slots when it drives again, or the end of the ring does.
	 */
	if (!own_thread(ring) || !twi_ring_has(&ring->base, region))
		return;
	update_slots(ring, region, region->slots, false);
	set_have(ring, region, 0);
}

const struct twi_registrar twi_uring_registrar = {
	.name = "io_uring",
	.add = registrar_add,
	.remove = registrar_remove,
};

/* The generations that the slots of all live regions should have. */
struct live {
	uint64_t generation[TWI_REGION_SLOTS];
};

static void note_region(void *arg, const struct twi_region *region)
{
	struct live *live = arg;

	for (uint32_t i = 0; i < region->slots; i++)
		live->generation[region->slot + i] = region->generation;
}

/*
 * Registers a region with the ring. One that cannot be registered goes by plain sends, each
 * counted.
 */
static void take_region(void *arg, const struct twi_region *region)
{
	struct twi_uring *ring = arg;

	if (!twi_ring_has(&ring->base, region) && take_slots(ring, region, true) < 0)
		twi_log(ring->base.engine->diag, 2, "a late region is not registered: %s",
			tow_error_message());
}

static void empty_slot(struct twi_uring *ring, uint32_t slot)
{
	struct iovec nothing = { NULL, 0 };
	__u64 tag = 0;

	io_uring_register_buffers_update_tag(&ring->uring, slot, &nothing, &tag, 1);
	atomic_store_explicit(&ring->have[slot], 0, memory_order_relaxed);
}

void twi_uring_sync(struct twi_ring *base)
{
	struct twi_uring *ring = twi_uring_of(base);
	struct twi_pool *pool = ring->base.engine->pool;
	uint64_t version = twi_pool_regions_version(pool);
	struct live *live;

	if (!ring->base.registrar || !ring->table) {
		ring->base.regions_version = version;
		return;
	}
	live = calloc(1, sizeof(*live));
	if (live == NULL)
		return; /* tried again when the thread drives next */
	/* Regions that have gone are let go first, so their pins never add to those of new ones. */
	twi_pool_regions_each(pool, note_region, live);
	for (uint32_t i = 0; i < TWI_REGION_SLOTS; i++) {
		uint64_t have = atomic_load_explicit(&ring->have[i], memory_order_relaxed);

		if (have != 0 && have != live->generation[i])
			empty_slot(ring, i);
	}
	twi_pool_regions_each(pool, take_region, ring);
	ring->base.regions_version = version;
	free(live);
}
