/*
 * loop_nic.c - see loop_nic.h.
 */
#include "transport/sim/loop_nic.h"

#include <pthread.h>
#include <stdlib.h>

#include "diag/base/error.h"
#include "memreg/pool/pool.h"
#include "transport/lanes/loop/loop.h"
#include "transport/op/lane_host.h"

struct loop_nic {
	struct twi_loop_nic base;                  /* the part that the lane sees */
	pthread_mutex_t lock;                      /* regions come and go without the engine */
	struct twi_region entry[TWI_REGION_SLOTS]; /* by first slot; generation 0: none */
	uint64_t refused;
	twi_loop_tap tap;
	void *arg;
};

static int nic_add(void *ctx, const struct twi_region *region)
{
	struct loop_nic *nic = ctx;

	pthread_mutex_lock(&nic->lock);
	nic->entry[region->slot] = *region;
	pthread_mutex_unlock(&nic->lock);
	return TOW_OK;
}

static void nic_remove(void *ctx, const struct twi_region *region)
{
	struct loop_nic *nic = ctx;

	pthread_mutex_lock(&nic->lock);
	if (nic->entry[region->slot].generation == region->generation)
		nic->entry[region->slot].generation = 0;
	pthread_mutex_unlock(&nic->lock);
}

static const struct twi_registrar nic_registrar = { "loop-nic", nic_add, nic_remove };

static bool nic_translates(struct loop_nic *nic, const struct twi_region *region,
			   const void *memory, size_t bytes)
{
	uint64_t offset;
	bool known;

	if (region == NULL)
		return false;
	pthread_mutex_lock(&nic->lock);
	known = nic->entry[region->slot].generation == region->generation;
	offset = (uint64_t)((uintptr_t)memory - (uintptr_t)nic->entry[region->slot].base);
	known = known && offset < nic->entry[region->slot].bytes &&
		bytes <= nic->entry[region->slot].bytes - offset;
	pthread_mutex_unlock(&nic->lock);
	return known;
}

/* Gives an address to the NIC, which must have it in the table. */
static enum twi_nic hand_memory(struct loop_nic *nic, const struct tow_op *op,
				const struct twi_region *region, const void *memory, size_t bytes)
{
	if (!nic_translates(nic, region, memory, bytes)) {
		nic->refused++;
		twi_error(TOW_EPROTOCOL, "loop: the NIC does not know %zu bytes at %p", bytes,
			  memory);
		return TWI_NIC_REFUSED;
	}
	if (nic->tap != NULL)
		nic->tap(nic->arg, op, memory, bytes);
	return TWI_NIC_GO;
}

static const struct twi_region *region_of_chunk(const struct twi_engine *engine, const void *chunk)
{
	const struct twi_extent *extent =
		twi_pool_find(engine->pool, chunk, engine->staging.chunk_bytes);

	return extent != NULL ? &extent->region : NULL;
}

static struct loop_nic *nic_of(struct twi_loop_nic *base)
{
	return (struct loop_nic *)(void *)base;
}

static void nic_close(struct twi_engine *engine, struct twi_loop_nic *base)
{
	struct loop_nic *nic = nic_of(base);

	twi_pool_registrar_remove(engine->pool, &nic_registrar, nic);
	pthread_mutex_destroy(&nic->lock);
	free(nic);
}

static enum twi_nic nic_out(struct twi_engine *engine, struct twi_loop_nic *base,
			    struct twi_bulk_out *out, size_t room, void **chunk_out)
{
	struct loop_nic *nic = nic_of(base);
	struct iovec *payload;
	size_t before = 0, n;

	*chunk_out = NULL;
	if (out->op == NULL)
		return TWI_NIC_GO;
	payload = &out->parts[out->payload_part];
	if (!out->claim->staged)
		return hand_memory(nic, out->op, out->claim->region, payload->iov_base,
				   payload->iov_len);
	for (int i = 0; i < out->payload_part; i++)
		before += out->parts[i].iov_len;
	if (room <= before)
		return TWI_NIC_WAIT;
	*chunk_out = twi_staging_acquire(&engine->staging);
	if (*chunk_out == NULL)
		return TWI_NIC_WAIT;
	n = twi_min(payload->iov_len, (size_t)engine->staging.chunk_bytes);
	n = twi_min(n, room - before);
	twi_path_copy_fallback(engine, twi_claim_reason(out->claim, true), *chunk_out,
			       payload->iov_base, n, out->op->site);
	if (n < payload->iov_len)
		out->count = out->payload_part + 1; /* the parts behind it go later */
	*payload = (struct iovec){ *chunk_out, n };
	return hand_memory(nic, out->op, region_of_chunk(engine, *chunk_out), *chunk_out, n);
}

static enum twi_nic nic_in(struct twi_engine *engine, struct twi_loop_nic *base,
			   const struct tow_op *op, void *to, const void *from, size_t *n)
{
	struct loop_nic *nic = nic_of(base);
	const struct twi_claim *claim = twi_op_claim_of(op, to);
	enum twi_nic verdict;
	void *chunk;

	if (!claim->staged) {
		verdict = hand_memory(nic, op, claim->region, to, *n);
		if (verdict == TWI_NIC_GO)
			twi_path_wire(to, from, *n);
		return verdict;
	}
	chunk = twi_staging_acquire(&engine->staging);
	if (chunk == NULL)
		return TWI_NIC_WAIT;
	*n = twi_min(*n, (size_t)engine->staging.chunk_bytes);
	verdict = hand_memory(nic, op, region_of_chunk(engine, chunk), chunk, *n);
	if (verdict == TWI_NIC_GO) {
		twi_path_wire(chunk, from, *n);
		twi_path_copy_fallback(engine, twi_claim_reason(claim, false), to, chunk, *n,
				       op->site);
	}
	twi_staging_release(&engine->staging, chunk);
	return verdict;
}

int twi_loop_nic_attach(struct twi_engine *engine, twi_loop_tap tap, void *arg)
{
	struct loop_nic *nic = calloc(1, sizeof(*nic));
	struct twi_loop_lane *lane;
	int status;

	if (nic == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the NIC of the loop lane");
	pthread_mutex_init(&nic->lock, NULL);
	nic->base = (struct twi_loop_nic){ nic_out, nic_in, nic_close };
	nic->tap = tap;
	nic->arg = arg;
	twi_engine_enter(engine);
	lane = (struct twi_loop_lane *)(void *)engine->lanes[TWI_LANE_LOOP];
	status = twi_pool_registrar_add(engine->pool, &nic_registrar, nic);
	if (status == TOW_OK)
		lane->nic = &nic->base;
	twi_engine_leave(engine);
	if (status < 0) {
		pthread_mutex_destroy(&nic->lock);
		free(nic);
	}
	return status;
}

uint64_t twi_loop_nic_refused(struct twi_engine *engine)
{
	const struct twi_loop_lane *lane =
		(struct twi_loop_lane *)(void *)engine->lanes[TWI_LANE_LOOP];

	return nic_of(lane->nic)->refused;
}
