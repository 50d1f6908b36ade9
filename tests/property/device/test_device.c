/*
 * test_device.c - random copies against a shadow: whatever the sizes, places, directions, mapping
 * and order of completion, content is right, each byte that had to be copied is counted once, and
 * the device was given exactly the addresses that it may see.
 */
#include "device_rig.h"

#include <poll.h>
#include <pthread.h>

#define MEMORY_BYTES ((uint64_t)3 << 20)
#define OPS          24
#define HEAP_BYTES   ((uint64_t)2 << 20)

/* Memories that never overlap in flight: each op of a batch has its own part of everything. */
struct copy {
	enum tow_direction direction;
	uint64_t offset, bytes; /* in the device's memory, and in the shadow */
	bool pool;
	uint8_t *host;
	struct tow_op *op;
};

struct world {
	struct twt_rig rig;
	uint64_t random;
	struct tow_device_memory *memory;
	uint8_t *shadow, *pool, *heap;
	uint64_t staged_bytes, moved[2];
};

/* The device saw no address but those of the pool: its own log, not the library's word. */
static void judge_log(struct world *world, uint64_t from)
{
	const struct twi_fake_seen *seen = twi_fake_seen(world->rig.device->backend);
	const struct twi_staging *staging = &world->rig.engine->staging;
	uint64_t staged = 0;

	assert_true(seen->chunks - from <= TWI_FAKE_LOG);
	for (uint64_t i = from; i < seen->chunks; i++) {
		const struct twi_fake_entry *entry = &seen->entry[i % TWI_FAKE_LOG];
		uint64_t at = (uint64_t)((uintptr_t)entry->host - (uintptr_t)staging->memory);

		assert_true(entry->ended_well);
		assert_non_null(twi_pool_find(world->rig.engine->pool, entry->host, entry->bytes));
		if (at < staging->bytes)
			staged += entry->bytes;
		world->moved[entry->direction] += entry->bytes;
	}
	world->staged_bytes += staged;
	assert_int_equal(seen->refused_addresses, 0);
}

static void start(struct world *world, struct copy *copy, unsigned index)
{
	uint64_t *random = &world->random, part = MEMORY_BYTES / OPS, room = HEAP_BYTES / OPS;
	uint64_t most = twi_min(part, room);

	copy->direction = (enum tow_direction)twt_random_below(random, 2);
	copy->pool = twt_random_below(random, 2);
	copy->bytes = twt_random_below(random, 4) ? 1 + twt_random_below(random, most) : 0;
	copy->offset = index * part + twt_random_below(random, part - copy->bytes + 1);
	copy->host = (copy->pool ? world->pool : world->heap) + index * room +
		     twt_random_below(random, room - copy->bytes + 1);
	if (copy->direction == TOW_TO_DEVICE) {
		twt_rig_fill(copy->host, copy->bytes, twt_random(random));
		for (uint64_t i = 0; i < copy->bytes; i++)
			world->shadow[copy->offset + i] = copy->host[i];
	}
	copy->op = twt_rig_start(&world->rig, copy->direction, world->memory, copy->offset,
				 copy->host, copy->bytes);
}

static void copy_end(struct world *world, struct copy *copy)
{
	int status = twt_rig_end(copy->op, NULL);

	assert_int_equal(status, copy->pool || copy->bytes == 0 ? TOW_OK : TOW_COPIED);
	if (copy->direction == TOW_FROM_DEVICE)
		assert_memory_equal(copy->host, world->shadow + copy->offset, copy->bytes);
}

static void run_seed(uint64_t seed, const char *spec)
{
	struct world world = { .random = seed };
	struct copy copies[OPS];
	struct twi_reason_sum sum;
	uint64_t unmapped = 0;

	twt_rig_open(&world.rig, spec, true);
	world.memory = twt_rig_memory(&world.rig, MEMORY_BYTES);
	world.shadow = calloc(1, MEMORY_BYTES);
	world.heap = malloc(HEAP_BYTES);
	world.pool = twt_rig_alloc(&world.rig, HEAP_BYTES);
	for (uint64_t at = 0; at < MEMORY_BYTES; at += HEAP_BYTES) {
		uint64_t bytes = twi_min(HEAP_BYTES, MEMORY_BYTES - at);

		memset(world.pool, 0, bytes);
		assert_int_equal(twt_rig_copy(&world.rig, TOW_TO_DEVICE, world.memory, at,
					      world.pool, bytes),
				 TOW_OK);
	}
	judge_log(&world, 0);
	for (unsigned batch = 0; batch < 12; batch++) {
		uint64_t from = twi_fake_seen(world.rig.device->backend)->chunks;

		for (unsigned i = 0; i < OPS; i++) {
			start(&world, &copies[i], i);
			unmapped += copies[i].pool ? 0 : copies[i].bytes;
		}
		for (unsigned i = 0; i < OPS; i++)
			copy_end(&world, &copies[(i * 7 + batch) % OPS]);
		judge_log(&world, from);
	}
	twi_reason_sum(world.rig.engine->diag, TWI_R_device_unmapped, &sum);
	assert_int_equal(sum.bytes, unmapped);
	assert_int_equal(world.staged_bytes, unmapped);
	assert_int_equal(twt_rig_count(&world.rig, TWI_C_fallback_copy_bytes), unmapped);
	assert_int_equal(twt_rig_count(&world.rig, TWI_C_device_to_bytes), world.moved[0]);
	assert_int_equal(twt_rig_count(&world.rig, TWI_C_device_from_bytes), world.moved[1]);
	assert_int_equal(world.rig.engine->staging.free_count, world.rig.engine->staging.chunks);
	twt_rig_ok(tow_device_free(world.memory));
	free(world.shadow);
	free(world.heap);
	twt_rig_close(&world.rig);
}

static void content_and_counts_hold(void **state)
{
	static const char *const specs[] = { "fake", "fake:latency=3us,chunk=100000",
					     "fake:bandwidth=2GB,latency=50us,chunk=4096" };
	uint64_t seed = twt_seed();

	(void)state;
	for (unsigned i = 0; i < 9; i++)
		run_seed(seed + i, specs[i % 3]);
}

#define THREADS 4

struct worker {
	struct twt_rig *rig;
	uint64_t random;
	unsigned index;
};

static void *work(void *arg)
{
	enum { BYTES = 300000 };
	struct worker *worker = arg;
	struct twt_rig *rig = worker->rig;

	for (unsigned i = 0; i < 40; i++) {
		bool pool = twt_random_below(&worker->random, 2);
		uint64_t bytes = 1 + twt_random_below(&worker->random, BYTES);
		struct tow_device_memory *memory = twt_rig_memory(rig, BYTES);
		uint8_t *host = pool ? twt_rig_alloc(rig, BYTES) : malloc(BYTES);
		int status = pool ? TOW_OK : TOW_COPIED;

		twt_rig_fill(host, bytes, worker->index + i);
		assert_int_equal(
			twt_rig_copy(rig, TOW_TO_DEVICE, memory, BYTES - bytes, host, bytes),
			status);
		memset(host, 0, bytes);
		assert_int_equal(
			twt_rig_copy(rig, TOW_FROM_DEVICE, memory, BYTES - bytes, host, bytes),
			status);
		twt_rig_check(host, bytes, worker->index + i);
		if (pool)
			twt_rig_ok(tow_free(rig->runtime, host));
		else
			free(host);
		twt_rig_ok(tow_device_free(memory));
	}
	return NULL;
}

/* Real time, the device's own thread, and waiters that sleep at once: nobody is left asleep. */
static void threads_share_a_device(void **state)
{
	struct tow_options options = twt_rig_options();
	struct worker worker[THREADS];
	pthread_t thread[THREADS];
	uint64_t seed = twt_seed();
	struct twt_rig rig;

	(void)state;
	options.spin_ns = 0;
	twt_rig_runtime(&rig, &options, false);
	twt_rig_ok(tow_device_open(rig.runtime, "fake:latency=20us,chunk=64KiB", &rig.device));
	for (unsigned i = 0; i < THREADS; i++) {
		worker[i] = (struct worker){ &rig, seed + i, i * 1000 };
		assert_int_equal(pthread_create(&thread[i], NULL, work, &worker[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(twt_rig_count(&rig, TWI_C_device_copies), THREADS * 80);
	twt_rig_close(&rig);
}

/* A thread with an event loop of its own is told by its descriptor that a copy has ended. */
static void the_descriptor_tells(void **state)
{
	struct tow_device_memory *memory;
	struct pollfd fd = { .events = POLLIN };
	struct tow_op *op;
	struct twt_rig rig;
	void *host;

	(void)state;
	twt_rig_open(&rig, "fake:latency=5ms", false);
	memory = twt_rig_memory(&rig, 4096);
	host = twt_rig_alloc(&rig, 4096);
	twt_rig_ok(tow_fd(rig.runtime, &fd.fd));
	for (unsigned i = 0; i < 5; i++) {
		int status = TOW_AGAIN;

		op = twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, host, 4096);
		/* Readable while the device's thread holds the engine: no bound on rounds. */
		while (status == TOW_AGAIN) {
			assert_int_equal(poll(&fd, 1, 10000), 1);
			tow_progress(rig.runtime);
			status = tow_op_test(op);
		}
		assert_int_equal(status, TOW_OK);
		twt_rig_ok(tow_op_release(op));
	}
	twt_rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(content_and_counts_hold),
		cmocka_unit_test(threads_share_a_device),
		cmocka_unit_test(the_descriptor_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
