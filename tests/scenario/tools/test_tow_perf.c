/*
 * test_tow_perf.c - tow-perf as its users call it: a side that listens without an argument, for one
 * client after another; HOST and HOST:PORT; a line for each interval, whose numbers fit together;
 * and what a command line that means nothing says.
 */
#include "command.h"
#include "store_port.h"

#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#define PERF "@/bench/tow-perf --no-pin "

static struct twt_command command;

/* A free port, as digits. */
static const char *free_port(void)
{
	static char text[64];
	int fd = twt_store_port(text, sizeof(text));

	assert_true(fd >= 0);
	close(fd);
	return strrchr(text, ':') + 1;
}

/* A server in the background and these clients, each tried until it listens. */
static void serve(const char *server, const char *port, const char *clients)
{
	char line[1024];

	snprintf(line, sizeof(line),
		 PERF "%s -p %s --timeout 30 >server.$$.txt 2>&1 & s=$!; "
		      "try() { for i in 1 2 3 4 5 6 7 8 9 10 11 12; do \"$@\" 2>errors.$$.txt && "
		      "return 0; sleep 0.25; done; cat errors.$$.txt; return 9; }; "
		      "%s; rc=$?; kill $s 2>/dev/null; wait $s; echo server ended with $?; "
		      "cat server.$$.txt; rm -f server.$$.txt errors.$$.txt; exit $rc",
		 server, port, clients);
	twt_command(line, &command);
}

static void test_one_client(void **state)
{
	const char *port = free_port();
	char clients[512];

	(void)state;
	snprintf(clients, sizeof(clients),
		 "try " PERF "127.0.0.1:%s --op latency,bw --bytes 64,64K --iters 5 && sleep 0.5",
		 port);
	serve("-1", port, clients);
	twt_command_expect(&command, 0, "payload verified in all 4 measurements", 1);
	twt_command_expect(&command, 0, "server ended with 0", 1);
	twt_command_expect(&command, 0, "a client is through\n", 1);
}

/* The port of a host without one is that of --port; names and whole addresses will do. */
static void test_clients_in_turn(void **state)
{
	const char *port = free_port();
	char clients[1024];

	(void)state;
	snprintf(clients, sizeof(clients),
		 "try " PERF "localhost -p %s --op latency --bytes 8 --iters 5 --plain && "
		 "try " PERF "tcp://127.0.0.1:%s --op latency --bytes 8 --iters 5 --plain && "
		 "try " PERF
		 "--connect tcp://127.0.0.1:%s --op latency --bytes 8 --iters 5 --plain",
		 port, port, port);
	serve("", port, clients);
	twt_command_expect(&command, 0, "towline remote lat 8 p50_us", 3);
	twt_command_expect(&command, 0, "server ended with 143", 1);
}

static bool has_six(void)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;

	if (fd >= 0)
		close(fd);
	return has;
}

/* A server that was given no address is there at those of IPv6, too. */
static void test_six(void **state)
{
	const char *port = free_port();
	char clients[512];

	(void)state;
	if (!has_six()) {
		printf("this host has no ::1\n");
		skip();
	}
	snprintf(clients, sizeof(clients),
		 "try " PERF "::1 -p %s --op latency --bytes 8 --iters 5 --plain && "
		 "try " PERF "127.0.0.1 -p %s --op latency --bytes 8 --iters 5 --plain",
		 port, port);
	serve("", port, clients);
	twt_command_expect(&command, 0, "towline remote lat 8 p50_us", 2);
}

static double number_at(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	if (!json_is_number(value))
		fail_msg("there is no number %s:\n%s", key, command.text);
	return json_number_value(value);
}

/* One begins where the one before it ends; rates are messages by time; the last may be short. */
static void check_intervals(json_t *result, bool timed)
{
	json_t *rows = json_object_get(result, "intervals"), *row;
	double bytes = number_at(result, "bytes"), at = 0;
	size_t i;

	assert_true(json_array_size(rows) >= 2);
	json_array_foreach(rows, i, row)
	{
		double took = number_at(row, "to_s") - number_at(row, "from_s");
		double messages = number_at(row, "messages");

		if (strcmp(json_string_value(json_object_get(result, "op")), "rate") == 0)
			bytes = 8;
		assert_true(number_at(row, "from_s") >= at - 1e-6 &&
			    number_at(row, "from_s") <= at + 1e-6);
		at = number_at(row, "to_s");
		assert_true(took > 0 && messages > 0);
		if (i + 1 < json_array_size(rows))
			assert_true(took >= 0.0499);
		if (took > 0.01) { /* both are rounded */
			double rate = messages / took / number_at(row, "msgps");
			double mbps = messages * bytes / took / 1e6 / number_at(row, "MBps");

			assert_true(rate > 0.99 && rate < 1.01 && mbps > 0.99 && mbps < 1.01);
		}
		assert_int_equal(json_object_get(row, "mean_us") != NULL, timed);
		if (timed)
			assert_true(number_at(row, "mean_us") > 0 &&
				    number_at(row, "mean_us") <= number_at(row, "max_us") * 1.001);
	}
}

static void test_intervals(void **state)
{
	json_t *document, *result;
	size_t i;

	(void)state;
	twt_command(PERF "--lane shm --op latency,bw,rate --bytes 64K --seconds 0.8 -i 0.05 "
			 "--json 2>/dev/null",
		    &command);
	assert_int_equal(command.status, 0);
	document = json_loads(command.text, 0, NULL);
	assert_non_null(document);
	assert_int_equal(json_array_size(json_object_get(document, "results")), 3);
	json_array_foreach(json_object_get(document, "results"), i, result)
		check_intervals(result, i < 2);
	json_decref(document);
	/* Whoever says how often needs no time: there is one short interval. */
	twt_command(PERF "--lane shm --op latency --bytes 8 --iters 10 --interval 5 --plain",
		    &command);
	twt_command_expect(&command, 0, "#interval shm lat 8 0.000 ", 1);
	twt_command_expect(&command, 0, "#interval ", 1);
	twt_command(PERF "--lane shm --op latency --bytes 8 --iters 10 --plain", &command);
	twt_command_expect(&command, 0, "#interval", 0);
}

static void test_usage(void **state)
{
	(void)state;
	twt_command(PERF "here there", &command);
	twt_command_expect(&command, 2, "one address at most: 'there'", 1);
	twt_command(PERF "--listen tcp://127.0.0.1:0 127.0.0.1", &command);
	twt_command_expect(&command, 2, "the side that listens takes no address to connect to", 1);
	twt_command(PERF "--one --op bw", &command);
	twt_command_expect(&command, 2, "--one is for a side that listens by itself", 1);
	twt_command(PERF "-i 0 --op bw", &command);
	twt_command_expect(&command, 2, "--interval takes 0.01 to 3600, not '0'", 1);
	twt_command(PERF "-p 70000", &command);
	twt_command_expect(&command, 2, "--port takes 1 to 65535, not '70000'", 1);
	twt_command(PERF "::1 -p 9 --timeout 2 --op latency", &command);
	twt_command_expect(&command, 2, "tcp://[::1]:9", 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_client), cmocka_unit_test(test_clients_in_turn),
		cmocka_unit_test(test_six),        cmocka_unit_test(test_intervals),
		cmocka_unit_test(test_usage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
