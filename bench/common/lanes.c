/*
 * lanes.c - see lanes.h.
 */
#include "bench/common/lanes.h"

#include <stdio.h>
#include <string.h>

/*
 * Finds the row of the lane with which `lane` begins. *rest_out is the text behind its colon, or
 * NULL.
 */
static bool find_lane(const char *lane, struct tow_lane_info *row, const char **rest_out)
{
	size_t bytes = strcspn(lane, ":");

	for (size_t i = 0; tow_lane_info(i, row) == TOW_OK; i++) {
		if (strlen(row->name) == bytes && strncmp(row->name, lane, bytes) == 0) {
			*rest_out = lane[bytes] == ':' ? lane + bytes + 1 : NULL;
			return true;
		}
	}
	return false;
}

bool bench_lane_is_host(const char *lane)
{
	struct tow_lane_info row = TOW_LANE_INFO_INIT;
	const char *rest;

	return find_lane(lane, &row, &rest) && strcmp(row.reach, "host") == 0;
}

bool bench_lane_address(const char *lane, char out[TOW_ADDRESS_MAX])
{
	struct tow_lane_info row = TOW_LANE_INFO_INIT;
	const char *rest;

	if (!find_lane(lane, &row, &rest) || strcmp(row.reach, "process") == 0)
		return false;
	if (rest != NULL)
		snprintf(out, TOW_ADDRESS_MAX, "%s://%s", row.name, rest);
	else
		snprintf(out, TOW_ADDRESS_MAX, "%s", row.local);
	return true;
}

void bench_lane_connecting(const char *address, char out[TOW_ADDRESS_MAX])
{
	struct tow_lane_info row = TOW_LANE_INFO_INIT;
	const char *rest;

	if (!find_lane(address, &row, &rest) || rest == NULL)
		snprintf(out, TOW_ADDRESS_MAX, "tow://");
	else if (strcmp(row.reach, "network") != 0)
		snprintf(out, TOW_ADDRESS_MAX, "%s", row.local);
	else if (strstr(row.local, "://127.") != NULL) /* HOST:PORT: the same address family */
		snprintf(out, TOW_ADDRESS_MAX, "%s://%s", row.name,
			 strchr(address, '[') != NULL ? "[::]:0" : "0.0.0.0:0");
	else /* the same provider */
		snprintf(out, TOW_ADDRESS_MAX, "%s://%.*s", row.name, (int)strcspn(rest + 2, "/@"),
			 rest + 2);
}

void bench_lane_names(char out[BENCH_LANES_HELP_BYTES])
{
	struct tow_lane_info row = TOW_LANE_INFO_INIT;
	size_t fill = 0;

	out[0] = '\0';
	for (size_t i = 0; tow_lane_info(i, &row) == TOW_OK && fill < BENCH_LANES_HELP_BYTES; i++) {
		if (strcmp(row.reach, "process") != 0)
			fill += (size_t)snprintf(out + fill, BENCH_LANES_HELP_BYTES - fill, "%s%s",
						 fill > 0 ? ", " : "", row.name);
	}
}
