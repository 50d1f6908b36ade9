/*
 * test_few_descriptors.c - a process has no descriptor left for a while. Over every lane what it
 * starts meanwhile ends with a status and a message that says so, and with no advice for another
 * fault; and when there are descriptors again, all goes on, also what another library is needed
 * for that could not be loaded then.
 */
#include "twt.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "child.h"
#include "lane_pair.h"

#include "diag/serve/mhd.h"
#include "diag/trace/export/protobuf_lazy.h"
#include "transport/security/sodium_lazy.h"

#define LIMIT   64
#define LIMIT_S 60
#define LARGE   100000u

static struct twt_lane_pair pair;
static int taken[LIMIT], taken_count;

static void starve(void)
{
	struct rlimit limit;
	int fd;

	TWT_OK(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = LIMIT;
	TWT_OK(setrlimit(RLIMIT_NOFILE, &limit));
	while ((fd = dup(0)) >= 0)
		taken[taken_count++] = fd;
}

static void feed(void)
{
	while (taken_count > 0)
		close(taken[--taken_count]);
}

/* Libfabric's providers have statuses of their own. */
static bool is_judged(const char *what, int status)
{
	const char *message = tow_error_message();
	bool fabric = strncmp(pair.lane->address[0], "ofi", 3) == 0;

	if (status == TOW_OK || fabric ||
	    (status == TOW_EBUSY && strstr(message, "ulimit -n") != NULL &&
	     strstr(message, "TOW_STATS_DIR") == NULL))
		return true;
	fprintf(stderr, "%s, %s: %s: %s\n", pair.lane->name, what, tow_status_name(status),
		message);
	return false;
}

/* Negative: this build or system has not got the lane. */
static int open_endpoint(int i)
{
	struct tow_endpoint *endpoint = NULL;
	const char *address = pair.lane->address[i];
	int status;

	starve();
	status = tow_endpoint_open(pair.runtime[i], address, &endpoint);
	feed();
	if (!is_judged("endpoint", status))
		return 1;
	if (status < 0)
		status = tow_endpoint_open(pair.runtime[i], address, &endpoint);
	pair.endpoint[i] = endpoint;
	if (status == TOW_ENOTSUP || status == TOW_EINVAL)
		printf("%s: left out: %s\n", pair.lane->name, tow_error_message());
	else
		TWT_OK(status);
	return status;
}

/* Starts to connect without a descriptor, and takes it back where that could be started. */
static bool connect_in_vain(void)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	char address[TOW_ADDRESS_MAX];
	struct tow_op *op = NULL;
	int status;

	options.timeout_ns = TWT_SECOND / 4;
	TWT_OK(tow_endpoint_address(pair.endpoint[1], address, sizeof(address)));
	starve();
	status = tow_connect_start(pair.endpoint[0], address, &options, &op);
	feed();
	if (!is_judged("connect", status))
		return false;
	if (status == TOW_OK) {
		struct tow_result result = twt_lane_finish(&pair, op);

		if (result.status == TOW_OK)
			TWT_OK(tow_peer_close(result.peer));
	}
	return true;
}

static bool pass_message(void)
{
	static uint8_t out[LARGE], in[LARGE];
	struct tow_op *send, *recv;
	bool good;

	twt_fill(out, LARGE, 7);
	TWT_OK(tow_recv_start(pair.peer[1], in, LARGE, 1, NULL, &recv));
	TWT_OK(tow_send_start(pair.peer[0], out, LARGE, 1, NULL, &send));
	good = twt_lane_finish(&pair, recv).status >= TOW_OK;
	return twt_lane_finish(&pair, send).status >= TOW_OK && good && twt_same(in, LARGE, 7);
}

static int play_lane(const void *arg)
{
	const struct twt_lane_row *lane = arg;
	int there = TOW_OK;

	twt_lane_init(&pair, lane);
	for (int i = 0; i < 2; i++) {
		if (i == 1 && lane->one_runtime)
			pair.runtime[1] = pair.runtime[0];
		else
			TWT_OK(tow_runtime_open(&pair.options[i], &pair.runtime[i]));
	}
	for (int i = 0; i < 2 && there == TOW_OK; i++)
		there = open_endpoint(i);
	if (there != TOW_OK)
		return there < 0 ? 2 : 1;
	if (!connect_in_vain())
		return 1;
	/* A fresh side for what is judged: the accept of the connect above may still be due. */
	TWT_OK(tow_endpoint_close(pair.endpoint[1]));
	TWT_OK(tow_endpoint_open(pair.runtime[1], lane->address[1], &pair.endpoint[1]));
	twt_lane_join(&pair);
	if (!pass_message())
		return 1;
	twt_lane_close(&pair);
	return 0;
}

static int play_libraries(const void *arg)
{
	int (*const loads[])(void) = { twi_mhd_load, twi_sodium_load, twi_protobuf_load };

	(void)arg;
	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		starve();
		if (loads[i]() != TOW_ENOTSUP)
			return 1;
		feed();
		TWT_OK(loads[i]());
	}
	return 0;
}

static void each_lane(void **state)
{
	unsigned played = 0;

	(void)state;
	for (unsigned i = 0; i < TWT_LANE_ROWS; i++)
		played += twt_child_plays(twt_lane_rows[i].name, LIMIT_S, play_lane,
					  &twt_lane_rows[i]);
	assert_in_range(played, TWT_LANE_ROWS_ALWAYS, TWT_LANE_ROWS);
}

static void libraries(void **state)
{
	(void)state;
	assert_true(twt_child_plays("libraries", LIMIT_S, play_libraries, NULL));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(libraries),
		cmocka_unit_test(each_lane),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
