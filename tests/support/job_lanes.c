/* job_lanes.c - lanes that ranks of a job can have. */
#include "job_lanes.h"

void twt_job_lane_options(unsigned lane, struct tow_options *options)
{
	if (twt_lanes[lane].poller != NULL)
		options->poller = twt_lanes[lane].poller;
	options->encrypt = twt_lanes[lane].encrypted;
}

bool twt_job_lane(unsigned lane)
{
	const struct twt_place place = { .lane = lane, .which = TWT_COLLECTIVES };
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_endpoint *endpoint;
	struct tow_runtime *runtime;
	int status;

	if (twt_nonsense_of(&place) != NULL)
		return false;
	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	options.job_key = "0123456789abcdef0123456789abcdef";
	twt_job_lane_options(lane, &options);
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	status = tow_endpoint_open(runtime, twt_lanes[lane].address[0], &endpoint);
	if (status < 0)
		printf("%s is not here: %s\n", twt_lanes[lane].name, tow_error_message());
	assert_true(status == TOW_OK || status == TOW_ENOTSUP || status == TOW_EPERM);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	return status == TOW_OK;
}
