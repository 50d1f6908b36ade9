/*
 * test_abandoned.c - a connection whose other side closes it before or in its handshake has not
 * been refused by anybody: a probe of the port, a connect that is given up, a peer that closes. It
 * is counted as abandoned, on every lane and with both pollers; what is refused still counts as
 * that.
 */
#include "lane_pair.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "diag/record/counter.h"
#include "transport/lanes/shm/shm.h"

static uint64_t counted(const struct twt_lane_pair *pair, int side, enum twi_counter id)
{
	return twi_counter_sum(twi_runtime_engine(pair->runtime[side])->diag, id);
}

/* Drives both sides until so many have gone again, at most 20 s. */
static void expect_abandoned(struct twt_lane_pair *pair, int side, uint64_t count)
{
	uint64_t until = twi_now_ns() + 20 * TWT_SECOND;

	while (counted(pair, side, TWI_C_handshakes_abandoned) < count && twi_now_ns() < until)
		twt_lane_turn(pair);
	if (counted(pair, side, TWI_C_handshakes_abandoned) != count)
		fail_msg("%s: %llu were abandoned, not %llu", pair->lane->name,
			 (unsigned long long)counted(pair, side, TWI_C_handshakes_abandoned),
			 (unsigned long long)count);
	assert_int_equal(counted(pair, side, TWI_C_handshakes_refused), 0);
}

static int probe_tcp(const char *address)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	at.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void probes_of_a_port(const char *poller)
{
	const struct linger at_once = { .l_onoff = 1 };
	char address[TOW_ADDRESS_MAX];
	struct twt_lane_pair pair;
	uint64_t until;
	int fd;

	twt_lane_init(&pair, &twt_lane_rows[0]);
	pair.options[1].poller = poller;
	assert_true(twt_lane_open(&pair));
	TWT_OK(tow_endpoint_address(pair.endpoint[1], address, sizeof(address)));
	close(probe_tcp(address));
	expect_abandoned(&pair, 1, 1);
	fd = probe_tcp(address);
	twt_lane_drive(&pair, TWT_SECOND / 50); /* it is in its handshake */
	close(fd);
	expect_abandoned(&pair, 1, 2);
	fd = probe_tcp(address); /* half a greeting */
	assert_int_equal(send(fd, "TOWAUTH", 8, 0), 8);
	twt_lane_drive(&pair, TWT_SECOND / 50);
	close(fd);
	expect_abandoned(&pair, 1, 3);
	fd = probe_tcp(address);
	twt_lane_drive(&pair, TWT_SECOND / 50);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
	close(fd);
	expect_abandoned(&pair, 1, 4);
	/* What is no greeting at all is refused, as it was. */
	fd = probe_tcp(address);
	for (int i = 0; i < 16; i++)
		assert_int_equal(send(fd, "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL), 16);
	until = twi_now_ns() + 20 * TWT_SECOND;
	while (counted(&pair, 1, TWI_C_handshakes_refused) == 0 && twi_now_ns() < until)
		twt_lane_turn(&pair);
	assert_int_equal(counted(&pair, 1, TWI_C_handshakes_refused), 1);
	assert_int_equal(counted(&pair, 1, TWI_C_handshakes_abandoned), 4);
	close(fd);
	twt_lane_close(&pair);
}

static void test_probes_of_a_port(void **state)
{
	(void)state;
	probes_of_a_port("auto");
	probes_of_a_port("epoll");
}

static void test_probe_of_a_socket_file(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char address[TOW_ADDRESS_MAX], path[108];
	struct twt_lane_pair pair;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)state;
	twt_lane_init(&pair, &twt_lane_rows[1]);
	assert_true(twt_lane_open(&pair));
	TWT_OK(tow_endpoint_address(pair.endpoint[1], address, sizeof(address)));
	assert_int_equal(twi_shm_path(twi_runtime_engine(pair.runtime[1]), address + 6, path),
			 TOW_OK);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	close(fd);
	expect_abandoned(&pair, 1, 1);
	twt_lane_close(&pair);
}

/*
 * A connect that is given up after so many turns of both sides, wherever the handshake is by then:
 * nobody has refused anything. True: it was too late, they were connected.
 */
static bool given_up(struct twt_lane_pair *pair, int turns)
{
	uint64_t before[2] = { counted(pair, 0, TWI_C_handshakes_refused),
			       counted(pair, 1, TWI_C_handshakes_refused) };
	uint64_t start = twi_now_ns();
	char address[TOW_ADDRESS_MAX];
	struct tow_op *op;
	bool late, stood_still;

	TWT_OK(tow_endpoint_address(pair->endpoint[1], address, sizeof(address)));
	TWT_OK(tow_connect_start(pair->endpoint[0], address, NULL, &op));
	for (int i = 0; i < turns; i++)
		twt_lane_turn(pair);
	tow_op_cancel(op);
	late = twt_lane_finish(pair, op).status == TOW_OK;
	for (int i = 0; i < 4; i++)
		twt_lane_turn(pair);
	/* Then the other side's time was over before it could hear of the end. */
	stood_still = twi_now_ns() - start > TWT_SECOND / 40;
	twt_lane_drive(pair, TWT_SECOND / 10); /* longer than the other side waits */
	for (int side = 0; side < 2 && !stood_still; side++) {
		if (counted(pair, side, TWI_C_handshakes_refused) != before[side])
			fail_msg("%s: given up after %d turns, side %d has refused it",
				 pair->lane->name, turns, side);
	}
	return late;
}

static void test_connects_given_up(void **state)
{
	(void)state;
	for (size_t i = 0; i < TWT_LANE_ROWS; i++) {
		struct twt_lane_pair pair;

		twt_lane_init(&pair, &twt_lane_rows[i]);
		/* A connection that has ended is found so when its time is over; over libfabric
		 * there are none, and who falls silent has refused. */
		if (strncmp(pair.lane->address[0], "ofi", 3) != 0)
			pair.options[1].connect_timeout_ns = (int64_t)TWT_SECOND / 20;
		if (!twt_lane_open(&pair))
			continue;
		for (int turns = 0; turns < 12 && !given_up(&pair, turns); turns++)
			;
		twt_lane_close(&pair);
	}
}

/* The endpoint's runtime closes while somebody connects: that one has not been refused either. */
static void test_listener_closes(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) { /* ofi has no connection that could end */
		char address[TOW_ADDRESS_MAX];
		struct twt_lane_pair pair;
		struct tow_result result;
		struct tow_op *op;

		twt_lane_init(&pair, &twt_lane_rows[i]);
		assert_true(twt_lane_open(&pair));
		TWT_OK(tow_endpoint_address(pair.endpoint[1], address, sizeof(address)));
		TWT_OK(tow_connect_start(pair.endpoint[0], address, NULL, &op));
		assert_int_equal(tow_op_test(op), TOW_AGAIN);
		TWT_OK(tow_runtime_close(pair.runtime[1]));
		pair.runtime[1] = NULL;
		result = twt_lane_finish(&pair, op);
		assert_int_equal(result.status, TOW_EREFUSED);
		expect_abandoned(&pair, 0, 1);
		twt_lane_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_probes_of_a_port),
		cmocka_unit_test(test_probe_of_a_socket_file),
		cmocka_unit_test(test_connects_given_up),
		cmocka_unit_test(test_listener_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
