/*
 * lanes.h - the lanes on a command line.
 *
 * --lane takes the names that `towstat lanes` prints, and LANE:REST for the address LANE://REST,
 * such as ofi:PROVIDER.
 */
#ifndef BENCH_LANES_H
#define BENCH_LANES_H

#include <stdbool.h>
#include <stddef.h>

#include <towline/towline.h>

#define BENCH_LANES_HELP_BYTES 256

/*
 * The address for an endpoint to which other processes of this host connect. Returns false when
 * `lane` is no lane, or connects no two processes.
 */
bool bench_lane_address(const char *lane, char out[TOW_ADDRESS_MAX]);

/* The address for an endpoint that only connects to `address`, on this host or another. */
void bench_lane_connecting(const char *address, char out[TOW_ADDRESS_MAX]);

/* Whether the lane connects processes of one host only. */
bool bench_lane_is_host(const char *lane);

/* The lanes that bench_lane_address takes, such as "tcp, shm". */
void bench_lane_names(char out[BENCH_LANES_HELP_BYTES]);

#endif
