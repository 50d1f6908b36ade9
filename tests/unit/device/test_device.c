/*
 * test_device.c - devices by their fake, on a virtual clock: what is mapped goes straight and what
 * is not is staged and counted; pieces end in order and in the time that the spec says; every
 * failure that a spec can ask for comes out as its status and leaves nothing behind.
 */
#include "device_rig.h"

#include <jansson.h>

#define MIB ((uint64_t)1 << 20)

/* The device itself, without what protects it: it refuses what is not inside one mapping. */
static void fake_refuses_what_is_unmapped(void **state)
{
	static uint8_t host[8192];
	struct twi_device_copy copy = { .direction = TOW_TO_DEVICE, .host = host, .bytes = 64 };
	struct tow_options options = twt_rig_options();
	const struct twi_device_ops *ops = &twi_device_fake;
	struct twi_device *device;
	struct twt_rig rig;
	uint64_t taken;

	(void)state;
	twt_rig_runtime(&rig, &options, true);
	twt_rig_ok(ops->open(rig.engine, "", &device));
	twt_rig_ok(ops->alloc(device, 8192, &copy.memory));
	assert_int_equal(ops->copy(device, &copy, &taken), TOW_EDEVICE);
	twt_rig_ok(ops->map(device, host, 4096));
	twt_rig_ok(ops->copy(device, &copy, &taken));
	assert_int_equal(taken, 64);
	assert_int_equal(ops->query(device, TOW_TO_DEVICE, 0), TOW_OK);
	copy.host = host + 4096 - 32; /* half of it outside */
	assert_int_equal(ops->copy(device, &copy, &taken), TOW_EDEVICE);
	twt_rig_ok(ops->map(device, host + 4096, 4096)); /* two mappings do not make one */
	assert_int_equal(ops->copy(device, &copy, &taken), TOW_EDEVICE);
	ops->unmap(device, host, 4096);
	copy.host = host;
	assert_int_equal(ops->copy(device, &copy, &taken), TOW_EDEVICE);
	assert_int_equal(twi_fake_seen(device)->refused_addresses, 4);
	assert_int_equal(twi_fake_seen(device)->bytes[TOW_TO_DEVICE], 64);
	ops->unmap(device, host + 4096, 4096);
	ops->free(device, copy.memory);
	ops->close(device);
	twt_rig_close(&rig);
}

static void mapped_memory_goes_straight(void **state)
{
	struct tow_device_info info = { .size = sizeof(info) };
	struct tow_device_memory *memory;
	struct tow_result result;
	uint8_t *to, *from;
	struct twt_rig rig;

	(void)state;
	twt_rig_open(&rig, "fake", true);
	memory = twt_rig_memory(&rig, 3 * MIB);
	to = twt_rig_alloc(&rig, 3 * MIB);
	from = twt_rig_alloc(&rig, 3 * MIB);
	twt_rig_fill(to, 3 * MIB, 7);
	assert_int_equal(
		twt_rig_end(twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, to, 3 * MIB), &result),
		TOW_OK);
	assert_int_equal(result.bytes, 3 * MIB);
	assert_int_equal(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, from, 3 * MIB), TOW_OK);
	twt_rig_check(from, 3 * MIB, 7);
	assert_int_equal(twt_rig_count(&rig, TWI_C_fallback_copies), 0);
	assert_int_equal(twt_rig_count(&rig, TWI_C_necessary_copies), 0);
	assert_int_equal(twt_rig_count(&rig, TWI_C_device_copies), 2);
	assert_int_equal(twt_rig_count(&rig, TWI_C_device_to_bytes), 3 * MIB);
	assert_int_equal(twt_rig_count(&rig, TWI_C_device_from_bytes), 3 * MIB);
	twt_rig_ok(tow_device_info(rig.device, &info));
	assert_int_equal(info.mapped_bytes, 16 * MIB);
	assert_int_equal(info.allocated_bytes, 3 * MIB);
	assert_int_equal(info.staged_bytes, 0);
	assert_int_equal(info.in_flight, 0);
	assert_string_equal(info.unmapped_because, "");
	twt_rig_ok(tow_device_free(memory));
	twt_rig_ok(tow_free(rig.runtime, to));
	twt_rig_ok(tow_free(rig.runtime, from));
	twt_rig_close(&rig);
}

static void unmapped_memory_is_staged_and_counted(void **state)
{
	static uint8_t to[3 << 20], from[3 << 20];
	struct tow_device_info info = { .size = sizeof(info) };
	struct twi_reason_sum sum;
	struct tow_device_memory *memory;
	struct twt_rig rig;

	(void)state;
	twt_rig_open(&rig, "fake", true);
	memory = twt_rig_memory(&rig, sizeof(to));
	twt_rig_fill(to, sizeof(to), 9);
	assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, to, sizeof(to)), TOW_COPIED);
	assert_int_equal(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, from, sizeof(from)),
			 TOW_COPIED);
	twt_rig_check(from, sizeof(from), 9);
	twi_reason_sum(rig.engine->diag, TWI_R_device_unmapped, &sum);
	assert_int_equal(sum.bytes, sizeof(to) + sizeof(from));
	assert_int_equal(sum.count, 2 * (3 * MIB / TWI_STAGING_CHUNK));
	assert_int_equal(twt_rig_count(&rig, TWI_C_fallback_copy_bytes), sum.bytes);
	twt_rig_ok(tow_device_info(rig.device, &info));
	assert_int_equal(info.staged_bytes, sum.bytes);
	assert_int_equal(rig.engine->staging.free_count, rig.engine->staging.chunks);
	twt_rig_close(&rig);
}

static void zero_copy_can_be_required(void **state)
{
	static uint8_t host[4096];
	struct tow_options options = twt_rig_options();
	struct tow_device_memory *memory;
	struct tow_op *op = (void *)1;
	struct twt_rig rig;
	void *pool;

	(void)state;
	options.require_zero_copy = 1;
	twt_rig_runtime(&rig, &options, true);
	twt_rig_ok(tow_device_open(rig.runtime, "fake", &rig.device));
	memory = twt_rig_memory(&rig, sizeof(host));
	assert_int_equal(tow_device_copy_start(rig.device, TOW_TO_DEVICE, memory, 0, host,
					       sizeof(host), NULL, &op),
			 TOW_EZEROCOPY);
	assert_null(op);
	assert_non_null(strstr(tow_error_message(), "require_zero_copy"));
	assert_int_equal(twt_rig_count(&rig, TWI_C_zero_copy_refusals), 1);
	assert_int_equal(twt_rig_count(&rig, TWI_C_fallback_copies), 0);
	pool = twt_rig_alloc(&rig, sizeof(host));
	assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, pool, sizeof(host)), TOW_OK);
	twt_rig_ok(tow_device_free(memory)); /* the refused one holds nothing */
	twt_rig_close(&rig);
}

/* 1 GB/s is a byte per ns: 4 pieces of 256 KiB leave one after the other, each 10 us later seen. */
static void pieces_end_in_order_and_in_time(void **state)
{
	const uint64_t piece = 256 << 10;
	const struct twi_fake_seen *seen;
	struct tow_device_memory *memory;
	struct tow_result result;
	struct twt_rig rig;
	void *host;

	(void)state;
	twt_rig_open(&rig, "fake:latency=10us,bandwidth=1GB,chunk=256KiB", true);
	memory = twt_rig_memory(&rig, 4 * piece);
	host = twt_rig_alloc(&rig, 4 * piece);
	assert_int_equal(twt_rig_end(twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, host, 4 * piece),
				     &result),
			 TOW_OK);
	assert_int_equal(result.latency_ns, 4 * piece + 10000);
	seen = twi_fake_seen(rig.device->backend);
	assert_int_equal(seen->chunks, 4);
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(seen->entry[i].offset, i * piece);
		assert_int_equal(seen->entry[i].start_ns, seen->entry[0].start_ns);
		assert_int_equal(seen->entry[i].end_ns,
				 seen->entry[0].start_ns + (i + 1) * piece + 10000);
	}
	twt_rig_close(&rig);
}

static void no_more_than_eight_are_in_flight(void **state)
{
	struct tow_device_info info = { .size = sizeof(info) };
	struct tow_device_memory *memory;
	struct tow_op *op[2];
	struct twt_rig rig;
	void *host;

	(void)state;
	twt_rig_open(&rig, "fake:latency=1ms,chunk=4KiB", true);
	memory = twt_rig_memory(&rig, MIB);
	host = twt_rig_alloc(&rig, MIB);
	op[0] = twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, host, MIB);
	op[1] = twt_rig_start(&rig, TOW_FROM_DEVICE, memory, 0, host, MIB);
	twt_rig_ok(tow_device_info(rig.device, &info));
	assert_int_equal(info.in_flight, 2 * TWI_DEVICE_CHUNKS);
	assert_int_equal(tow_device_free(memory), TOW_EBUSY);
	assert_int_equal(twt_rig_end(op[0], NULL), TOW_OK);
	assert_int_equal(twt_rig_end(op[1], NULL), TOW_OK);
	twt_rig_ok(tow_device_free(memory));
	twt_rig_close(&rig);
}

static void memory_is_leased_until_the_device_lets_go(void **state)
{
	struct tow_device_memory *memory;
	struct twi_pool_stats stats;
	struct tow_op *op;
	struct twt_rig rig;
	uint8_t *host, back[4096];

	(void)state;
	twt_rig_open(&rig, "fake:latency=1ms", true);
	memory = twt_rig_memory(&rig, 4096);
	host = twt_rig_alloc(&rig, 4096);
	twt_rig_fill(host, 4096, 3);
	op = twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, host, 4096);
	twt_rig_ok(tow_free(rig.runtime, host));
	assert_int_equal(tow_free(rig.runtime, host), TOW_EFREED);
	twi_pool_stats(rig.engine->pool, &stats);
	assert_int_equal(stats.leased, 4096);
	assert_int_equal(twt_rig_end(op, NULL), TOW_OK);
	twi_pool_stats(rig.engine->pool, &stats);
	assert_int_equal(stats.leased, 0);
	assert_int_equal(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, back, 4096), TOW_COPIED);
	twt_rig_check(back, 4096, 3);
	assert_int_equal(
		tow_device_copy_start(rig.device, TOW_TO_DEVICE, memory, 0, host, 4096, NULL, &op),
		TOW_EFREED);
	twt_rig_close(&rig);
}

static void arguments_are_judged(void **state)
{
	const enum tow_direction to = TOW_TO_DEVICE;
	struct tow_device_memory *memory, *others;
	struct tow_device *other;
	struct tow_op *op;
	struct twt_rig rig;
	uint8_t host[64];

	(void)state;
	twt_rig_open(&rig, "fake:name=first,memory=1MiB", true);
	twt_rig_ok(tow_device_open(rig.runtime, "fake:name=second", &other));
	memory = twt_rig_memory(&rig, 4096);
	twt_rig_ok(tow_device_alloc(other, 4096, &others));
#define REFUSED(device, direction, memory, offset, host, bytes)                                    \
	assert_int_equal(                                                                          \
		tow_device_copy_start(device, direction, memory, offset, host, bytes, NULL, &op),  \
		TOW_EINVAL)
	REFUSED(NULL, to, memory, 0, host, 64);
	REFUSED(rig.device, to, NULL, 0, host, 64);
	REFUSED(rig.device, to, memory, 0, NULL, 64);
	REFUSED(rig.device, (enum tow_direction)2, memory, 0, host, 64);
	REFUSED(rig.device, to, others, 0, host, 64);
	REFUSED(rig.device, to, memory, 4033, host, 64);
	REFUSED(rig.device, to, memory, UINT64_MAX, host, 64);
	REFUSED(rig.device, to, memory, 64, host, UINT64_MAX);
#undef REFUSED
	assert_int_equal(tow_device_copy_start(rig.device, to, memory, 0, host, 64, NULL, NULL),
			 TOW_EINVAL);
	assert_int_equal(twt_rig_copy(&rig, to, memory, 4096, NULL, 0), TOW_OK);
	assert_int_equal(tow_device_alloc(rig.device, 0, &others), TOW_EINVAL);
	assert_int_equal(tow_device_alloc(rig.device, 2 * MIB, &others), TOW_ENOMEM);
	assert_int_equal(tow_device_alloc(NULL, 1, &others), TOW_EINVAL);
	assert_int_equal(tow_device_free(NULL), TOW_OK);
	assert_int_equal(tow_device_close(NULL), TOW_EINVAL);
	twt_rig_ok(tow_device_close(other));
	twt_rig_close(&rig);
}

static void staged_copies_that_are_canceled_leave_nothing(void **state)
{
	static uint8_t host[2 << 20];
	struct tow_device_memory *memory;
	struct tow_result result;
	struct tow_op *op;
	struct twt_rig rig;

	(void)state;
	twt_rig_open(&rig, "fake:latency=1ms", true);
	memory = twt_rig_memory(&rig, sizeof(host));
	op = twt_rig_start(&rig, TOW_FROM_DEVICE, memory, 0, host, sizeof(host));
	twt_rig_ok(tow_op_cancel(op));
	assert_int_equal(tow_op_test(op), TOW_AGAIN);
	memset(host, 0x5a, sizeof(host)); /* no piece writes to it any more */
	assert_int_equal(twt_rig_end(op, &result), TOW_ECANCELED);
	assert_int_equal(result.bytes, 0);
	for (size_t i = 0; i < sizeof(host); i++)
		assert_int_equal(host[i], 0x5a);
	/* Nothing is in flight: the device's memory can be freed, and the next goes through. */
	twt_rig_ok(tow_device_free(memory));
	memory = twt_rig_memory(&rig, sizeof(host));
	assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, host, sizeof(host)),
			 TOW_COPIED);
	twt_rig_ok(tow_device_free(memory));
	assert_int_equal(rig.engine->staging.free_count, rig.engine->staging.chunks);
	twt_rig_close(&rig);
}

static void direct_copies_end_when_the_device_has_let_go(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_device_memory *memory;
	struct tow_result result;
	struct tow_op *op;
	struct twt_rig rig;
	void *host;

	(void)state;
	twt_rig_open(&rig, "fake:latency=1ms,chunk=64KiB", true);
	memory = twt_rig_memory(&rig, 4 * MIB);
	host = twt_rig_alloc(&rig, 4 * MIB);
	options.timeout_ns = 100000;
	twt_rig_ok(tow_device_copy_start(rig.device, TOW_TO_DEVICE, memory, 0, host, 4 * MIB,
					 &options, &op));
	assert_int_equal(twt_rig_end(op, &result), TOW_EDEADLINE);
	assert_int_equal(result.latency_ns, 1000000); /* of the eight that were on their way */
	assert_int_equal(result.bytes, TWI_DEVICE_CHUNKS * (64 << 10));
	assert_int_equal(twt_rig_count(&rig, TWI_C_ops_expired), 1);
	twt_rig_ok(tow_device_free(memory));
	twt_rig_close(&rig);
}

static void a_device_that_hangs_is_lost(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_device_memory *memory;
	struct tow_result result;
	struct tow_op *op, *later;
	struct twt_rig rig;
	void *host;

	(void)state;
	twt_rig_open(&rig, "fake:hang_copy=3,chunk=64KiB", true);
	memory = twt_rig_memory(&rig, MIB);
	host = twt_rig_alloc(&rig, MIB);
	options.timeout_ns = 1000;
	twt_rig_ok(tow_device_copy_start(rig.device, TOW_TO_DEVICE, memory, 0, host, MIB, &options,
					 &op));
	later = twt_rig_start(&rig, TOW_FROM_DEVICE, memory, 0, host, MIB);
	assert_int_equal(twt_rig_end(op, &result), TOW_EDEADLINE);
	assert_in_range(result.latency_ns, TWI_DEVICE_DRAIN_NS, TWI_DEVICE_DRAIN_NS + 2000);
	assert_int_equal(twt_rig_end(later, NULL), TOW_EDEVICE);
	assert_int_equal(
		tow_device_copy_start(rig.device, TOW_TO_DEVICE, memory, 0, host, MIB, NULL, &op),
		TOW_EDEVICE);
	assert_non_null(strstr(tow_error_message(), "lost"));
	twt_rig_ok(tow_device_free(memory));
	assert_int_equal(tow_device_alloc(rig.device, 64, &memory), TOW_EDEVICE);
	twt_rig_close(&rig);
}

static void closing_ends_what_is_in_flight(void **state)
{
	static const char *const specs[] = { "fake:latency=1ms", "fake:hang_copy=1" };
	static uint8_t unmapped[MIB];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct tow_device_memory *memory;
		struct twi_pool_stats stats;
		struct tow_op *op[3];
		struct twt_rig rig;
		void *host;

		twt_rig_open(&rig, specs[i], true);
		memory = twt_rig_memory(&rig, MIB);
		host = twt_rig_alloc(&rig, MIB);
		op[0] = twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, host, MIB);
		op[1] = twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, unmapped, MIB);
		op[2] = twt_rig_start(&rig, TOW_FROM_DEVICE, memory, 0, unmapped, MIB);
		twt_rig_ok(tow_device_close(rig.device));
		for (unsigned k = 0; k < 3; k++)
			assert_int_equal(twt_rig_end(op[k], NULL), TOW_ECLOSED);
		twi_pool_stats(rig.engine->pool, &stats);
		assert_int_equal(stats.leased, 0);
		assert_int_equal(rig.engine->staging.free_count, rig.engine->staging.chunks);
		twt_rig_close(&rig);
	}
}

static int callbacks;

static void count_callback(struct tow_op *op, const struct tow_result *result)
{
	assert_ptr_equal(result->user, &callbacks);
	assert_int_equal(result->status, callbacks == 0 ? TOW_COPIED : TOW_ECLOSED);
	callbacks++;
	twt_rig_ok(tow_op_release(op));
}

static void closing_the_runtime_closes_devices(void **state)
{
	struct tow_op_options options = { .size = sizeof(options),
					  .timeout_ns = TOW_FOREVER,
					  .done = count_callback,
					  .user = &callbacks };
	struct tow_device_memory *memory;
	struct tow_op *op;
	struct twt_rig rig;
	uint8_t host[64];

	(void)state;
	callbacks = 0;
	twt_rig_open(&rig, "fake:latency=1ms", true);
	memory = twt_rig_memory(&rig, 64);
	twt_rig_ok(tow_device_copy_start(rig.device, TOW_TO_DEVICE, memory, 0, host, 64, &options,
					 &op));
	assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, host, 64), TOW_COPIED);
	assert_int_equal(callbacks, 1);
	twt_rig_ok(tow_device_copy_start(rig.device, TOW_TO_DEVICE, memory, 0, host, 64, &options,
					 &op));
	twt_rig_close(&rig);
	assert_int_equal(callbacks, 2);
}

/* All staging is in others' hands: the copy waits without holding anything up, then goes on. */
static void a_copy_waits_for_staging(void **state)
{
	static uint8_t unmapped[MIB];
	void *chunk[64] = { NULL };
	struct tow_device_memory *memory;
	uint32_t chunks;
	struct tow_op *op;
	struct twt_rig rig;
	void *host;

	(void)state;
	twt_rig_open(&rig, "fake", true);
	memory = twt_rig_memory(&rig, MIB);
	host = twt_rig_alloc(&rig, MIB);
	chunks = rig.engine->staging.chunks;
	assert_in_range(chunks, 1, 64);
	for (uint32_t i = 0; i < chunks; i++)
		chunk[i] = twi_staging_acquire(&rig.engine->staging);
	op = twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, unmapped, MIB);
	assert_int_equal(tow_op_wait(op, 10 * RIG_SECOND), TOW_ETIMEDOUT);
	assert_int_equal(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, host, MIB), TOW_OK);
	twi_staging_release(&rig.engine->staging, chunk[0]);
	assert_int_equal(twt_rig_end(op, NULL), TOW_COPIED);
	for (uint32_t i = 1; i < chunks; i++)
		twi_staging_release(&rig.engine->staging, chunk[i]);
	twt_rig_close(&rig);
}

static void without_staging_unmapped_memory_is_refused(void **state)
{
	struct tow_options options = twt_rig_options();
	struct tow_device_memory *memory;
	struct tow_op *op;
	struct twt_rig rig;
	uint8_t host[64];

	(void)state;
	options.staging_bytes = 0;
	twt_rig_runtime(&rig, &options, true);
	twt_rig_ok(tow_device_open(rig.runtime, "fake", &rig.device));
	memory = twt_rig_memory(&rig, 64);
	assert_int_equal(
		tow_device_copy_start(rig.device, TOW_TO_DEVICE, memory, 0, host, 64, NULL, &op),
		TOW_EEXHAUSTED);
	assert_non_null(strstr(tow_error_message(), "staging_bytes is 0"));
	twt_rig_close(&rig);
}

/* What tow_mem_register knows goes straight, and is held until the device has let go. */
static void registered_memory_goes_straight(void **state)
{
	static uint8_t host[MIB] __attribute__((aligned(4096)));
	struct tow_device_memory *memory;
	uint64_t registration;
	struct tow_op *op;
	struct twt_rig rig;

	(void)state;
	twt_rig_open(&rig, "fake:latency=1ms", true);
	memory = twt_rig_memory(&rig, MIB);
	twt_rig_ok(tow_mem_register(rig.runtime, host, sizeof(host), &registration));
	op = twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, host, MIB);
	assert_int_equal(tow_mem_deregister(rig.runtime, registration), TOW_EBUSY);
	assert_int_equal(twt_rig_end(op, NULL), TOW_OK);
	assert_int_equal(twt_rig_count(&rig, TWI_C_fallback_copies), 0);
	twt_rig_ok(tow_mem_deregister(rig.runtime, registration));
	assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, host, MIB), TOW_COPIED);
	twt_rig_close(&rig);
}

static void late_devices_are_late_registrations(void **state)
{
	struct tow_options options = twt_rig_options();
	struct twt_rig rig;

	(void)state;
	twt_rig_runtime(&rig, &options, true);
	twt_rig_ok(tow_device_open(rig.runtime, "fake:name=early", &rig.device));
	assert_int_equal(twt_rig_count(&rig, TWI_C_late_registrations), 0);
	twt_rig_ok(tow_runtime_seal(rig.runtime));
	twt_rig_ok(tow_device_open(rig.runtime, "fake:name=late", &rig.device));
	assert_int_equal(twt_rig_count(&rig, TWI_C_late_registrations), 1);
	assert_int_equal(twt_rig_count(&rig, TWI_C_late_registration_bytes), 16 * MIB);
	twt_rig_close(&rig);
}

static json_t *document(struct twt_rig *rig, const char *path)
{
	json_t *root;
	char *text;

	twt_rig_ok(tow_stats_get(rig->runtime, path, &text));
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	tow_stats_release(text);
	return root;
}

static void the_document_tells(void **state)
{
	static uint8_t unmapped[MIB];
	struct tow_device_memory *memory;
	struct twt_rig rig;
	json_t *root, *devices, *one;

	(void)state;
	twt_rig_open(&rig, "fake:name=card,bandwidth=1GB,memory=8MiB", true);
	memory = twt_rig_memory(&rig, MIB);
	assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, unmapped, MIB), TOW_COPIED);
	root = document(&rig, "/v1/devices");
	devices = json_object_get(root, "devices");
	assert_int_equal(json_array_size(devices), 1);
	one = json_array_get(devices, 0);
	assert_string_equal(json_string_value(json_object_get(one, "name")), "card");
	assert_int_equal(json_integer_value(json_object_get(one, "memory_bytes")), 8 * MIB);
	assert_int_equal(json_integer_value(json_object_get(one, "staged_bytes")), MIB);
	assert_int_equal(json_integer_value(json_object_get(one, "mapped_bytes")), 16 * MIB);
	assert_int_equal(json_integer_value(json_object_get(one, "copies")), 1);
	one = json_object_get(one, "to_device");
	assert_int_equal(json_integer_value(json_object_get(one, "bytes")), MIB);
	assert_int_equal(json_integer_value(json_object_get(one, "busy_ns")), MIB);
	assert_int_equal((int64_t)json_number_value(json_object_get(one, "bytes_per_second")),
			 1000000000);
	json_decref(root);
	twt_rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fake_refuses_what_is_unmapped),
		cmocka_unit_test(mapped_memory_goes_straight),
		cmocka_unit_test(unmapped_memory_is_staged_and_counted),
		cmocka_unit_test(zero_copy_can_be_required),
		cmocka_unit_test(pieces_end_in_order_and_in_time),
		cmocka_unit_test(no_more_than_eight_are_in_flight),
		cmocka_unit_test(memory_is_leased_until_the_device_lets_go),
		cmocka_unit_test(arguments_are_judged),
		cmocka_unit_test(staged_copies_that_are_canceled_leave_nothing),
		cmocka_unit_test(direct_copies_end_when_the_device_has_let_go),
		cmocka_unit_test(a_device_that_hangs_is_lost),
		cmocka_unit_test(closing_ends_what_is_in_flight),
		cmocka_unit_test(closing_the_runtime_closes_devices),
		cmocka_unit_test(a_copy_waits_for_staging),
		cmocka_unit_test(without_staging_unmapped_memory_is_refused),
		cmocka_unit_test(registered_memory_goes_straight),
		cmocka_unit_test(late_devices_are_late_registrations),
		cmocka_unit_test(the_document_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
