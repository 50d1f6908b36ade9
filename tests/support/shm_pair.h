/*
 * shm_pair.h - two runtimes of this process, connected over shm and driven in turns; and a way into
 * the lane's own structures, to play a peer that lies. Include it in exactly one file of a program.
 */
#ifndef TWT_SHM_PAIR_H
#define TWT_SHM_PAIR_H

#include "twt.h"

#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/shm/shm.h"

#define SECOND 1000000000ull
#ifndef SHM_PAIR_POOL
#define SHM_PAIR_POOL (32 << 20)
#endif

struct shm_side {
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
};

static struct shm_side side[2];

#define OK(call)                                                                                   \
	do {                                                                                       \
		int ok_status = (call);                                                            \
		if (ok_status != TOW_OK) {                                                         \
			fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call,          \
				tow_status_name(ok_status), tow_error_message());                  \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static inline void turn(void)
{
	for (int i = 0; i < 2; i++)
		(void)tow_progress(side[i].runtime);
}

/* Drives both until the operation has ended; gives it back, unless it is a view that ended well. */
static inline int finish(struct tow_op *op, struct tow_result *out, bool keep)
{
	struct tow_result result = { .size = sizeof(result) };
	uint64_t until = twi_now_ns() + 20 * SECOND;

	while (tow_op_test(op) == TOW_AGAIN) {
		turn();
		if (twi_now_ns() > until)
			fail_msg("an operation does not end");
	}
	OK(tow_op_result(op, &result));
	if (!keep || result.status != TOW_OK)
		OK(tow_op_release(op));
	if (out != NULL)
		*out = result;
	return result.status;
}

static inline void open_side(int i, int64_t pool_bytes)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = pool_bytes;
	options.stats = 0;
	options.background = 0;
	options.max_ops = 4096;
	options.peer_lease_bytes = 1 << 30; /* views of freed memory may stay out */
	OK(tow_runtime_open(&options, &side[i].runtime));
	OK(tow_endpoint_open(side[i].runtime, "shm://*", &side[i].endpoint));
}

static inline void join_sides(void)
{
	struct tow_result result;
	struct tow_op *connect, *accept;
	char address[TOW_ADDRESS_MAX];

	OK(tow_endpoint_address(side[1].endpoint, address, sizeof(address)));
	OK(tow_accept_start(side[1].endpoint, NULL, &accept));
	OK(tow_connect_start(side[0].endpoint, address, NULL, &connect));
	OK(finish(connect, &result, false));
	side[0].peer = result.peer;
	OK(finish(accept, &result, false));
	side[1].peer = result.peer;
}

static inline int open_pair(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		open_side(i, SHM_PAIR_POOL);
	join_sides();
	return 0;
}

static inline int close_pair(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		if (side[i].runtime != NULL)
			OK(tow_runtime_close(side[i].runtime));
		side[i] = (struct shm_side){ .runtime = NULL };
	}
	return 0;
}

static inline struct twi_shm_peer *inside(int i)
{
	return (struct twi_shm_peer *)(void *)side[i].peer;
}

static inline uint64_t counted(int i, enum twi_counter counter)
{
	return twi_counter_sum(twi_runtime_engine(side[i].runtime)->diag, counter);
}

static inline uint64_t reason_count(int i, enum twi_reason reason)
{
	struct twi_reason_sum sum;

	twi_reason_sum(twi_runtime_engine(side[i].runtime)->diag, reason, &sum);
	return sum.count;
}

/* Bytes that depend on `seed` and their place. */
static inline void shm_fill(void *data, size_t bytes, uint64_t seed)
{
	uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)((seed + i) * 0x9e3779b97f4a7c15ull >> 56);
}

static inline bool shm_same(const void *data, size_t bytes, uint64_t seed)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++) {
		if (at[i] != (uint8_t)((seed + i) * 0x9e3779b97f4a7c15ull >> 56))
			return false;
	}
	return true;
}

static inline struct tow_op *start_send(int i, const void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op *op;

	OK(tow_send_start(side[i].peer, data, bytes, tag, NULL, &op));
	return op;
}

static inline struct tow_op *start_recv(int i, void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op *op;

	OK(tow_recv_start(side[i].peer, data, bytes, tag, NULL, &op));
	return op;
}

static inline struct tow_op *start_view(int i, uint64_t tag)
{
	struct tow_op *op;

	OK(tow_recv_view_start(side[i].peer, tag, NULL, &op));
	return op;
}

static inline void *take(int i, uint64_t bytes)
{
	void *memory;

	OK(tow_alloc(side[i].runtime, bytes, 0, &memory));
	return memory;
}

static inline void settle(void)
{
	for (int i = 0; i < 200; i++)
		turn();
}

#endif
