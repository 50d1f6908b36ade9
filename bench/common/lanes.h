/*
 * lanes.h - the lanes on a command line: --lane takes the names that `towstat lanes` prints, and
 * LANE:REST for the address LANE://REST, such as ofi:PROVIDER.
 */
#ifndef BENCH_LANES_H
#define BENCH_LANES_H

#include <stdbool.h>
#include <stddef.h>

#include <towline/towline.h>

#define BENCH_LANES_HELP_BYTES 256

/*
 * What an endpoint opens for others on this host to connect to. False: `lane` is no lane, or one
 * that joins no two processes.
 */
bool bench_lane_address(const char *lane, char out[TOW_ADDRESS_MAX]);

/* What an endpoint opens that only connects to `address`, of this or of another host. */
void bench_lane_connecting(const char *address, char out[TOW_ADDRESS_MAX]);

/* Does it join processes of one host alone? */
bool bench_lane_is_host(const char *lane);

/* "tcp, shm, ...": the lanes that bench_lane_address takes. */
void bench_lane_names(char out[BENCH_LANES_HELP_BYTES]);

#endif
