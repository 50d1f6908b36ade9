/*
 * store_greet.c - decides which process may be which rank at the store. See store_table.h.
 */
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "transport/job/store_table.h"

int twi_store_judge_hello(const struct twi_store *store, const struct twi_store_frame *frame)
{
	const struct twi_store_config *config = &store->config;
	uint32_t rank = (uint32_t)frame->a, world = (uint32_t)(frame->a >> 32);
	uint32_t version, restarts;
	int status = twi_store_hello_take(frame, &version, &restarts);

	if (status < 0)
		return status;
	if (version != TWI_STORE_VERSION)
		return twi_error(TOW_EMISMATCH,
				 "rank %u speaks version %u of the store's protocol, rank 0 "
				 "version %u; use one build of Towline",
				 rank, version, TWI_STORE_VERSION);
	if (frame->key_bytes != strlen(config->job) ||
	    memcmp(frame->key, config->job, frame->key_bytes) != 0)
		return twi_error(TOW_EMISMATCH, "rank %u says job '%.*s', rank 0 says '%.128s'",
				 rank, (int)twi_min(frame->key_bytes, 128u), frame->key,
				 config->job);
	if (restarts != config->restarts)
		return twi_error(TOW_EMISMATCH,
				 "rank %u says restart %u of the job, rank 0 says %u", rank,
				 restarts, config->restarts);
	if (world != config->world_size)
		return twi_error(TOW_EMISMATCH, "rank %u says world_size %u, rank 0 says %u", rank,
				 world, config->world_size);
	if (rank >= world)
		return twi_error(TOW_EMISMATCH,
				 "a process claims to be rank %u, and rank 0 "
				 "says world_size %u",
				 rank, world);
	if (frame->b == 0)
		return twi_error(TOW_EPROTOCOL,
				 "store: the greeting of rank %u has no "
				 "instance",
				 rank);
	return TOW_OK;
}

/*
 * The rank is another process's. Where that one has left the job, or has gone, the new one is of a
 * later start of the job, whose store is not there yet: it is to try again, as if nobody listened.
 */
static int refuse_other(const struct twi_store *store, uint32_t number)
{
	const struct twi_store_rank *rank = &store->ranks[number];

	if (rank->left || rank->gone_ns != 0)
		return twi_error(TOW_EREFUSED,
				 "an earlier start of the job, which rank %u has left, has not "
				 "ended yet at rank 0",
				 number);
	return twi_error(TOW_EMISMATCH,
			 "two processes claim to be rank %u of %u; give each process a rank of its "
			 "own",
			 number, store->config.world_size);
}

int twi_store_claim(struct twi_store *store, uint32_t index)
{
	struct twi_store_connection *client = &store->clients[index];
	struct twi_store_rank *rank = &store->ranks[client->rank];

	if (rank->instance != 0 && rank->instance != client->instance)
		return refuse_other(store, client->rank);
	client->member = true;
	rank->instance = client->instance;
	rank->clients++;
	if (rank->gone_ns != 0) {
		rank->gone_ns = 0;
		store->gone--;
	}
	return TOW_OK;
}
