/* test_dpdk.c - the DPDK telemetry socket as its clients see it, good ones and bad ones. */
#include "twt.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/latency.h"
#include "diag/serve/dpdk.h"
#include "diag/serve/dpdk_reply.h"

static char dir[64];

struct fixture {
	struct twi_diag *diag;
	struct twi_dpdk *dpdk;
	const char *path;
};

static int setup(void **state)
{
	static struct fixture fixture;

	snprintf(dir, sizeof(dir), "/tmp/twt-dpdk-XXXXXX");
	if (mkdtemp(dir) == NULL || twi_diag_create(&fixture.diag) < 0)
		return -1;
	*state = &fixture;
	if (twi_dpdk_open(fixture.diag, "auto", dir, "test", 2, &fixture.dpdk) < 0)
		return -1;
	fixture.path = twi_dpdk_path(fixture.dpdk);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	twi_dpdk_close(fixture->dpdk);
	twi_diag_destroy(fixture->diag);
	return rmdir(dir);
}

static json_t *reply_of(int fd)
{
	char text[TWI_DPDK_OUTPUT_MAX + 1];
	ssize_t bytes = recv(fd, text, sizeof(text), 0);
	json_t *root;

	assert_in_range(bytes, 1, TWI_DPDK_OUTPUT_MAX);
	root = json_loadb(text, (size_t)bytes, 0, NULL);
	assert_non_null(root);
	return root;
}

/* A client that has been greeted; -1: it was refused. */
static int greeted(const struct fixture *fixture)
{
	char text[1024];
	int fd = twt_dial(fixture->path, SOCK_SEQPACKET);

	assert_true(fd >= 0);
	if (recv(fd, text, sizeof(text), 0) > 0)
		return fd;
	close(fd);
	return -1;
}

static void ask(int fd, const char *request)
{
	json_t *root;

	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
	root = reply_of(fd);
	assert_int_equal(json_object_size(root), 1);
	json_decref(root);
}

static void fill_latencies(struct twi_diag *diag)
{
	struct twi_latency_row *row = NULL;
	char name[32];

	for (unsigned i = 0; i < 100; i++) {
		const struct twi_latency_reading reading = { .lane = TWI_LANE_TCP,
							     .id = i,
							     .bytes = 1ull << i % 25,
							     .parts_ns = { 1000 + i, 0, 1000 + i, 0,
									   TWI_LATENCY_UNKNOWN } };

		snprintf(name, sizeof(name), "tcp://\"%u\"", i);
		twi_latency_note(diag, &row, name, &reading);
		twi_latency_leave(diag, &row);
	}
}

/* DPDK's own client, or what behaves as it does. */
static void its_client_is_content(void **state)
{
	const struct fixture *fixture = *state;
	int status;

	fill_latencies(fixture->diag); /* so that there are many pages */
	status = twt_python("dpdk_client.py", fixture->path, NULL);
	if (status == 77) {
		print_message("skip: no python3, or TOW_TEST_SOURCE is not set\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void names(void **state)
{
	const struct fixture *fixture = *state;
	struct twi_dpdk *other, *third;
	struct stat st;
	char path[256];

	snprintf(path, sizeof(path), "%s/test.2.dpdk", dir);
	assert_string_equal(fixture->path, path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(twi_dpdk_open(fixture->diag, "auto", dir, "test", 2, &other), TOW_OK);
	snprintf(path, sizeof(path), "%s/test.2-2.dpdk", dir);
	assert_string_equal(twi_dpdk_path(other), path);
	twi_dpdk_close(other);
	assert_int_equal(access(path, F_OK), -1);
	snprintf(path, sizeof(path), "%s/dpdk_telemetry.v2", dir);
	assert_int_equal(twi_dpdk_open(fixture->diag, path, "", "test", 2, &other), TOW_OK);
	assert_string_equal(twi_dpdk_path(other), path);
	assert_int_equal(twi_dpdk_open(fixture->diag, path, "", "test", 2, &third), TOW_OK);
	strcat(path, ":1");
	assert_string_equal(twi_dpdk_path(third), path);
	twi_dpdk_close(third);
	twi_dpdk_close(other);
	assert_int_equal(twi_dpdk_open(fixture->diag, "relative", "", "test", 2, &other),
			 TOW_EINVAL);
	assert_int_equal(twi_dpdk_open(fixture->diag, "/tmp/", "", "test", 2, &other), TOW_EINVAL);
	assert_int_equal(twi_dpdk_open(fixture->diag, "auto", dir, "../x", 2, &other), TOW_EINVAL);
	assert_null(other);
	assert_string_equal(twi_dpdk_path(NULL), "");
	twi_dpdk_close(NULL);
}

static void clients_have_a_bound(void **state)
{
	const struct fixture *fixture = *state;
	int fds[TWI_DPDK_CLIENTS];

	for (unsigned i = 0; i < TWI_DPDK_CLIENTS; i++) {
		fds[i] = greeted(fixture);
		assert_true(fds[i] >= 0);
	}
	assert_int_equal(greeted(fixture), -1);
	assert_int_equal(twi_counter_sum(fixture->diag, TWI_C_dpdk_refused), 1);
	for (unsigned i = 0; i < TWI_DPDK_CLIENTS; i++)
		ask(fds[i], "/info");
	close(fds[4]);
	for (unsigned i = 0; i < 1000; i++) { /* it takes the thread a moment to notice */
		fds[4] = greeted(fixture);
		if (fds[4] >= 0)
			break;
		usleep(1000);
	}
	ask(fds[4], "/");
	for (unsigned i = 0; i < TWI_DPDK_CLIENTS; i++)
		close(fds[i]);
}

static void hostile_packets(void **state)
{
	const struct fixture *fixture = *state;
	uint64_t random = twt_seed();
	char packet[3000];
	json_t *root;
	int fd = greeted(fixture);

	for (unsigned i = 0; i < 500; i++) {
		size_t bytes = 1 + twt_random_below(&random, sizeof(packet));

		for (size_t j = 0; j < bytes; j++)
			packet[j] = (char)twt_random(&random);
		if (i % 2 == 0)
			memcpy(packet, "/towline/x,", twi_min(bytes, (size_t)11));
		assert_int_equal(send(fd, packet, bytes, MSG_NOSIGNAL), bytes);
		root = reply_of(fd);
		json_decref(root);
	}
	assert_int_equal(send(fd, packet, 0, MSG_NOSIGNAL), 0); /* empty: goodbye */
	assert_int_equal(recv(fd, packet, sizeof(packet), 0), 0);
	close(fd);
	fd = greeted(fixture);
	ask(fd, "/info");
	close(fd);
}

/* Who does not read is given a little time, served when he does, hung up on when he does not. */
static void stuck_readers(void **state)
{
	const struct fixture *fixture = *state;
	int slow = greeted(fixture), stuck = greeted(fixture), good = greeted(fixture);
	unsigned asked = 0;
	char text[64];

	while (asked < 5000 && send(slow, "/towline/counters", 17, MSG_DONTWAIT) == 17)
		asked++;
	for (unsigned i = 0; i < 5000; i++)
		send(stuck, "/towline/counters", 17, MSG_DONTWAIT | MSG_NOSIGNAL);
	for (unsigned i = 0; i < 100; i++)
		ask(good, "/towline/counters");
	for (unsigned i = 0; i < asked; i++)
		json_decref(reply_of(slow));
	ask(slow, "/info");
	for (unsigned i = 0; i < 100 && twi_counter_sum(fixture->diag, TWI_C_dpdk_dropped) == 0;
	     i++)
		usleep(100000);
	assert_int_equal(twi_counter_sum(fixture->diag, TWI_C_dpdk_dropped), 1);
	ask(good, "/info");
	while (recv(stuck, text, sizeof(text), 0) > 0)
		continue;
	close(slow);
	close(stuck);
	close(good);
}

/* Clients that vanish with their replies on the way. */
static void vanishing_readers(void **state)
{
	const struct fixture *fixture = *state;
	int fd;

	for (unsigned i = 0; i < 200; i++) {
		fd = twt_dial(fixture->path, SOCK_SEQPACKET);
		assert_true(fd >= 0);
		send(fd, "/towline/latency", 16, MSG_NOSIGNAL);
		close(fd);
	}
	for (unsigned i = 0; i < 1000; i++) {
		fd = greeted(fixture);
		if (fd >= 0)
			break;
		usleep(1000);
	}
	ask(fd, "/towline/counters");
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(its_client_is_content), TEST(names),         TEST(clients_have_a_bound),
		TEST(hostile_packets),       TEST(stuck_readers), TEST(vanishing_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
