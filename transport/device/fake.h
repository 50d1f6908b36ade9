/*
 * fake.h - a software DMA engine, for tests, benches and machines without an accelerator.
 *
 * It has a translation table and refuses memory that is not inside one entry of the table. So a
 * copy that should have been staged fails here, and not first on a real accelerator. Each direction
 * is a wire with a bandwidth, followed by a latency. Bytes move when their chunk ends. The device's
 * thread moves them, or under a virtual clock the thread that drives.
 *
 *	chunk 1  |== on the wire ==|----latency----> its bytes move, it has ended
 *	chunk 2                    |== on the wire ==|----latency---->
 *
 * Spec: "fake:name=value,...". N counts from 1.
 *
 *	memory=64MiB     of the device (256MiB)        latency=10us      of a copy (0)
 *	bandwidth=10GB   a second, each way (no bound) chunk=256KiB      cut copies to this (1MiB)
 *	any              takes unmapped memory         nomap             map: TOW_ENOTSUP
 *	maps=64MiB       the most that may be mapped   fail_map=N|all    the Nth map is refused
 *	fail_alloc=N     the Nth alloc is refused      refuse_copy=N     the Nth chunk is not taken
 *	fail_copy=N      the Nth chunk fails           die_copy=N        from there on all fail
 *	hang_copy=N      from there on nothing ends    name=TEXT
 */
#ifndef TWI_FAKE_H
#define TWI_FAKE_H

#include <pthread.h>

#include "transport/device/device.h"

#define TWI_FAKE_MAPS 4096
#define TWI_FAKE_LOG  4096
#define TWI_FAKE_ALL  UINT64_MAX

struct twi_fake_options {
	char name[64];
	uint64_t memory_bytes, latency_ns, bandwidth, chunk_bytes, maps_bytes;
	uint64_t fail_map, fail_alloc, refuse_copy, fail_copy, die_copy, hang_copy;
	bool any, nomap;
};

/* Returns TOW_OK, or TOW_EINVAL with a message that names the fault. */
int twi_fake_options(const char *spec, struct twi_fake_options *out);

/* A chunk as the device got it, whatever its result. */
struct twi_fake_entry {
	enum tow_direction direction;
	bool ended_well;
	void *memory;
	uint64_t offset;
	void *host;
	uint64_t bytes;
	uint64_t start_ns, end_ns;
};

/* Records of the device. `entry` has the last TWI_FAKE_LOG chunks; chunk n is n % TWI_FAKE_LOG. */
struct twi_fake_seen {
	uint64_t maps, unmaps, refused_addresses;
	uint64_t chunks;
	uint64_t bytes[TWI_DEVICE_STREAMS]; /* bytes moved */
	struct twi_fake_entry entry[TWI_FAKE_LOG];
};

/* For tests; nothing may be in flight. */
const struct twi_fake_seen *twi_fake_seen(const struct twi_device *device);

#endif
