/*
 * test_require_lanes.c - the knob `require` over each lane, set at the side that connects or at the
 * one that accepts: who does not meet it is refused with the word and why, in the connector's
 * message or in the acceptor's log; who meets it is connected, and /v1/peers says what it is.
 */
#include "twt.h"

#include <jansson.h>
#include <pthread.h>
#include <string.h>

#include "lane_pair.h"

#include "diag/record/counter.h"
#include "transport/lanes/tcp/tcp.h"

#define LONG_NS (300 * 1000 * 1000ull)

/* The library's thread writes the log. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char logged[4096];

static void keep_log(void *user, int level, const char *text)
{
	(void)user, (void)level;
	pthread_mutex_lock(&log_lock);
	snprintf(logged + strlen(logged), sizeof(logged) - strlen(logged), "%s\n", text);
	pthread_mutex_unlock(&log_lock);
}

static void log_read(char out[sizeof(logged)])
{
	pthread_mutex_lock(&log_lock);
	snprintf(out, sizeof(logged), "%s", logged);
	pthread_mutex_unlock(&log_lock);
}

static void says(const char *text, const char *part)
{
	if (strstr(text, part) == NULL)
		fail_msg("'%s' does not say '%s'", text, part);
}

static const struct twt_lane_row *row_of(const char *name)
{
	for (int i = 0; i < TWT_LANE_ROWS; i++) {
		if (strcmp(twt_lane_rows[i].name, name) == 0)
			return &twt_lane_rows[i];
	}
	fail_msg("there is no lane %s", name);
	return NULL;
}

/* Sooner or later the log has it. */
static void log_says(struct twt_lane_pair *pair, const char *part)
{
	uint64_t until = twi_now_ns() + TWT_FINISH_NS / 6;
	char text[sizeof(logged)];

	do {
		twt_lane_drive(pair, LONG_NS / 100);
		log_read(text);
	} while (strstr(text, part) == NULL && twi_now_ns() < until);
	says(text, part);
}

/* False: this build has not got the lane. */
static bool open_pair(struct twt_lane_pair *pair, const char *lane, int side, const char *require)
{
	twt_lane_init(pair, row_of(lane));
	pthread_mutex_lock(&log_lock);
	logged[0] = '\0';
	pthread_mutex_unlock(&log_lock);
	pair->options[side].require = require;
	pair->options[side].log_callback = keep_log;
	return twt_lane_open(pair);
}

static struct tow_op *dial(struct twt_lane_pair *pair)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_op *op;

	TWT_OK(tow_endpoint_address(pair->endpoint[1], address, sizeof(address)));
	TWT_OK(tow_connect_start(pair->endpoint[0], address, NULL, &op));
	return op;
}

/* The connect is refused; nobody is accepted. */
static void must_refuse(const char *lane, int side, const char *require, const char *why)
{
	struct twt_lane_pair pair;
	struct tow_result result;
	struct tow_op *accept, *op;

	if (!open_pair(&pair, lane, side, require))
		return;
	TWT_OK(tow_accept_start(pair.endpoint[1], NULL, &accept));
	op = dial(&pair);
	result = twt_lane_wait(&pair, op);
	if (result.status != TOW_EREFUSED)
		fail_msg("%s, %s at side %d: %s", lane, require, side,
			 tow_status_name(result.status));
	assert_int_equal(tow_op_test(op), TOW_EREFUSED);
	if (side == 0)
		says(tow_error_message(), why);
	else
		says(tow_error_message(), "require");
	TWT_OK(tow_op_release(op));
	log_says(&pair, why);
	assert_int_equal(tow_op_test(accept), TOW_AGAIN);
	TWT_OK(tow_op_cancel(accept));
	(void)twt_lane_finish(&pair, accept);
	twt_lane_close(&pair);
}

/* Both sides part while both are driven: a runtime that closes alone waits for the other. */
static void end_joined(struct twt_lane_pair *pair)
{
	for (int i = 0; i < 2; i++)
		TWT_OK(tow_peer_close(pair->peer[i]));
	twt_lane_drive(pair, LONG_NS / 10);
	twt_lane_close(pair);
}

static json_t *path_of(struct tow_runtime *runtime, json_t **document_out)
{
	char *text;

	TWT_OK(tow_stats_get(runtime, "/v1/peers", &text));
	*document_out = json_loads(text, 0, NULL);
	tow_stats_release(text);
	return json_object_get(json_array_get(json_object_get(*document_out, "peers"), 0), "path");
}

/* It is connected, and said to be so. */
static void must_take(const char *lane, int side, const char *require, const char *iface)
{
	struct twt_lane_pair pair;
	json_t *document, *path;

	if (!open_pair(&pair, lane, side, require))
		return;
	twt_lane_join(&pair);
	path = path_of(pair.runtime[side], &document);
	assert_string_equal(json_string_value(json_object_get(path, "require")), require);
	assert_string_equal(json_string_value(json_object_get(document, "require")), require);
	if (iface != NULL)
		assert_string_equal(json_string_value(json_object_get(path, "iface")), iface);
	json_decref(document);
	end_joined(&pair);
}

static void test_lane_names(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		must_refuse("tcp", side, "lane:shm", "require=lane:shm: this is lane tcp");
		must_refuse("shm", side, "lane:tcp|ofi", "require=lane:tcp|ofi: this is lane shm");
		must_refuse("ofi-tcp", side, "lane:tcp", "require=lane:tcp: this is lane ofi");
		must_take("tcp", side, "lane:tcp|shm", NULL);
		must_take("shm", side, "lane:shm", NULL);
		must_take("ofi-tcp", side, "lane:ofi", NULL);
	}
	must_refuse("loop", 0, "lane:tcp", "require=lane:tcp: this is lane loop");
	must_take("loop", 0, "lane:loop", NULL);
}

/* libfabric chooses it: over which interface it goes here. False: there is no such lane. */
static bool ofi_iface(char out[64])
{
	struct twt_lane_pair pair;
	json_t *document;

	if (!open_pair(&pair, "ofi-tcp", 0, NULL))
		return false;
	twt_lane_join(&pair);
	snprintf(out, 64, "iface:%s",
		 json_string_value(json_object_get(path_of(pair.runtime[0], &document), "iface")));
	json_decref(document);
	end_joined(&pair);
	return true;
}

static void test_interfaces(void **state)
{
	char iface[64];

	(void)state;
	for (int side = 0; side < 2; side++) {
		must_refuse("tcp", side, "iface:ib0", "require=iface:ib0: it goes over lo");
		must_refuse("shm", side, "iface:lo", "require=iface:lo: no interface is known");
		must_refuse("ofi-tcp", side, "iface:ib0", "require=iface:ib0: it goes over ");
		must_take("tcp", side, "iface:ib0|lo", "lo");
		if (ofi_iface(iface))
			must_take("ofi-tcp", side, iface, iface + strlen("iface:"));
	}
	must_refuse("loop", 0, "iface:lo", "it goes over no interface");
}

static void test_copies(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		must_refuse(
			"tcp", side, "zero_copy",
			"require=zero_copy: the kernel copies payload for a receiver on this host");
		must_refuse("ofi-tcp", side, "zero_copy", "carries it over sockets or memory");
		must_take("shm", side, "zero_copy", NULL);
	}
	must_refuse("loop", 0, "zero_copy", "it copies within the process");
}

static void test_encryption(void **state)
{
	static const char key[] = "a secret of this test alone";
	struct twt_lane_pair pair;
	json_t *document, *path;

	(void)state;
	for (int side = 0; side < 2; side++) {
		must_refuse("tcp", side, "encrypted", "require=encrypted: it is not encrypted");
		must_refuse("shm", side, "encrypted", "require=encrypted: it is not encrypted");
		must_refuse("ofi-tcp", side, "encrypted", "require=encrypted: it is not encrypted");
	}
	twt_lane_init(&pair, row_of("tcp"));
	pair.options[0].require = "encrypted";
	pair.options[1].encrypt = 1;
	pair.options[0].job_key = pair.options[1].job_key = key;
	assert_true(twt_lane_open(&pair));
	twt_lane_join(&pair);
	path = path_of(pair.runtime[0], &document);
	assert_true(json_is_true(json_object_get(path, "encrypted")));
	assert_true(json_is_false(json_object_get(path, "zero_copy")));
	says(json_string_value(json_object_get(path, "zero_copy_not")), "encrypted");
	json_decref(document);
	end_joined(&pair);
}

/* tow:// takes the first lane that meets it, and says what the others are refused for. */
static void test_all_lanes(void **state)
{
	struct twt_lane_pair pair;
	json_t *document;
	const char *why;

	(void)state;
	for (int side = 0; side < 2; side++) {
		assert_true(open_pair(&pair, "tow", side, "lane:tcp"));
		twt_lane_join(&pair);
		(void)path_of(pair.runtime[0], &document);
		why = json_string_value(json_object_get(
			json_array_get(json_object_get(document, "peers"), 0), "lane"));
		assert_string_equal(why, "tcp");
		why = json_string_value(json_object_get(
			json_array_get(json_object_get(document, "peers"), 0), "why"));
		says(why, side == 0 ? "shm: require=lane:tcp: this is lane shm"
				    : "shm: not in the other side's address");
		json_decref(document);
		end_joined(&pair);
	}
	must_refuse("tow", 0, "iface:ib0", "shm: require=iface:ib0: it goes over no interface");
	must_refuse("tow", 0, "iface:ib0", "tcp: require=iface:ib0: it goes over lo");
	must_refuse("tow", 0, "encrypted", "tcp: require=encrypted: it is not encrypted");
}

/* Where no lane can meet it no endpoint is opened, and a word that is none opens no runtime. */
static void test_nothing_left(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_endpoint *endpoint;
	struct tow_runtime *runtime;

	(void)state;
	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	options.require = "lane:tcp,lane:shm";
	TWT_OK(tow_runtime_open(&options, &runtime));
	assert_int_equal(tow_endpoint_open(runtime, "tow://127.0.0.1", &endpoint), TOW_ENOTSUP);
	says(tow_error_message(), "require");
	TWT_OK(tow_runtime_close(runtime));
	options.require = "lane:tcp,quick";
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_EINVAL);
	says(tow_error_message(), "require = 'lane:tcp,quick': 'quick' is none of zero_copy");
}

static uint64_t count_of(struct tow_runtime *runtime, enum twi_counter counter)
{
	return twi_counter_sum(twi_runtime_engine(runtime)->diag, counter);
}

/* A line that breaks goes on only by a way that meets it: here there is none. */
static void break_with(int side, const char *require, bool resumes)
{
	struct twt_lane_pair pair;
	uint64_t mended = 0;

	twt_lane_init(&pair, row_of("tcp"));
	assert_true(twt_lane_open(&pair));
	twt_lane_join(&pair);
	twi_runtime_engine(pair.runtime[side])->knobs.require = require;
	for (int i = 0; i < 2; i++) {
		struct twi_tcp_peer *peer = (struct twi_tcp_peer *)(void *)pair.peer[i];

		shutdown(peer->lines[1].stream->fd, SHUT_RDWR);
	}
	for (int turn = 0; turn < 400 && mended < 2; turn++) {
		twt_lane_drive(&pair, LONG_NS / 10);
		mended = count_of(pair.runtime[0], TWI_C_streams_resumed) +
			 count_of(pair.runtime[1], TWI_C_streams_resumed);
		if (!resumes && count_of(pair.runtime[0], TWI_C_resume_failed) +
						count_of(pair.runtime[1], TWI_C_resume_failed) >=
					2)
			break;
	}
	assert_int_equal(mended > 0, resumes);
	end_joined(&pair);
}

static void test_resumed(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		break_with(side, "iface:lo,lane:tcp", true);
		break_with(side, "iface:ib0", false);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lane_names), cmocka_unit_test(test_interfaces),
		cmocka_unit_test(test_copies),     cmocka_unit_test(test_encryption),
		cmocka_unit_test(test_all_lanes),  cmocka_unit_test(test_nothing_left),
		cmocka_unit_test(test_resumed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
