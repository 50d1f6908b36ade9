/*
 * test_rails.c - one to four bulk connections, IPv6 (also link-local, with its scope), sockets'
 * knobs, several interfaces: what is connected to what, and that messages of all sizes come whole.
 */
#include "twt.h"

#include "duo.h"

#include <net/if.h>
#include <sched.h>

#include "transport/engine.h"
#include "transport/runtime.h"
#include "transport/uring/tcp.h"

#define TRAFFIC (48ull << 20)

static int child_traffic(struct twt_duo *duo)
{
	return twt_duo_traffic(duo, TRAFFIC, NULL);
}

static const struct twi_tcp_peer *tcp_of(const struct twt_duo *duo)
{
	return (const struct twi_tcp_peer *)(const void *)duo->side.peer;
}

static uint64_t counter(const struct twt_duo *duo, enum twi_counter id)
{
	return twi_counter_sum(twi_runtime_engine(duo->side.runtime)->diag, id);
}

/* The smaller of the two numbers counts, and every channel carries bytes. */
static void test_bulk_streams(void **state)
{
	static const int numbers[][3] = { { 1, 1, 1 }, { 2, 2, 2 }, { 3, 3, 3 },
					  { 4, 4, 4 }, { 4, 2, 2 }, { 1, 3, 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct twt_duo duo;

		twt_duo_init(&duo);
		duo.proxied = true;
		duo.parent.bulk_streams = numbers[i][0];
		duo.child.bulk_streams = numbers[i][1];
		twt_duo_open(&duo, child_traffic);
		assert_int_equal(tcp_of(&duo)->line_count, 1 + numbers[i][2]);
		assert_int_equal(twt_duo_traffic(&duo, TRAFFIC, NULL), 0);
		for (int n = 1; n <= numbers[i][2]; n++)
			assert_true(twt_proxy_bytes(&duo.proxy, n) > 1 << 20);
		assert_int_equal(atomic_load(&duo.proxy.came), 1 + numbers[i][2]);
		assert_int_equal(counter(&duo, TWI_C_connections_broken), 0);
		assert_int_equal(twt_duo_end(&duo), 0);
	}
}

static void test_ipv6(void **state)
{
	struct twt_duo duo;

	(void)state;
	twt_duo_init(&duo);
	duo.address = "tcp://[::1]:0";
	duo.parent.bulk_streams = duo.child.bulk_streams = 2;
	twt_duo_open(&duo, child_traffic);
	assert_non_null(strstr(duo.side.peer->address, "tcp://[::1]:"));
	assert_int_equal(twt_duo_traffic(&duo, TRAFFIC, NULL), 0);
	assert_int_equal(twt_duo_end(&duo), 0);
}

/* A wildcard endpoint of IPv6 takes IPv4, and says where else it can be reached. */
static void test_dual_stack(void **state)
{
	struct tow_options options = twt_duo_options();
	struct tow_endpoint *endpoint, *other;
	struct tow_op *connect, *accept;
	char where[TOW_ADDRESS_MAX], to[TOW_ADDRESS_MAX];
	struct tow_runtime *runtime;
	struct tow_result result;
	struct tow_peer *peer;

	(void)state;
	TWT_OK(tow_runtime_open(&options, &runtime));
	TWT_OK(tow_endpoint_open(runtime, "tcp://[::]:0", &endpoint));
	TWT_OK(tow_endpoint_open(runtime, "tcp://localhost:0", &other)); /* a name */
	TWT_OK(tow_endpoint_address(endpoint, where, sizeof(where)));
	snprintf(to, sizeof(to), "tcp://127.0.0.1%s", strrchr(where, ':'));
	TWT_OK(tow_accept_start(endpoint, NULL, &accept));
	TWT_OK(tow_connect_start(other, to, NULL, &connect));
	TWT_OK(twt_finish(connect, &result));
	peer = result.peer;
	assert_string_equal(peer->address, to);
	TWT_OK(twt_finish(accept, &result));
	assert_non_null(strstr(result.peer->address, "tcp://127.0.0.1:"));
	assert_int_equal(((struct twi_tcp_peer *)(void *)peer)->told.count, 1);
	TWT_OK(tow_runtime_close(runtime));
}

/* Each knob is at the socket; what the kernel refuses is said once, and everything goes on. */
static void test_socket_knobs(void **state)
{
	struct twt_duo duo;
	int value = 0;
	socklen_t bytes = sizeof(value);
	char name[32] = "";
	const struct twi_tcp_stream *stream;

	(void)state;
	twt_duo_init(&duo);
	duo.parent.congestion = duo.child.congestion = "reno";
	duo.parent.socket_buffer_bytes = 256 << 10;
	duo.parent.heartbeat_ns = 2 * (int64_t)TWT_SECOND;
	duo.parent.peer_timeout_ns = 12 * (int64_t)TWT_SECOND;
	duo.parent.busy_poll_ns = 50000;
	duo.child.congestion = "no_such_thing";
	twt_duo_open(&duo, child_traffic);
	stream = tcp_of(&duo)->lines[1].stream;
	assert_int_equal(getsockopt(stream->fd, SOL_SOCKET, SO_KEEPALIVE, &value, &bytes), 0);
	assert_int_equal(value, 1);
	getsockopt(stream->fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, &bytes);
	assert_int_equal(value, 2);
	getsockopt(stream->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &bytes);
	assert_int_equal(value, 4000);
	getsockopt(stream->fd, SOL_SOCKET, SO_RCVBUF, &value, &bytes);
	assert_true(value >= 256 << 10);
	bytes = sizeof(name);
	getsockopt(stream->fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes);
	if (strcmp(name, "reno") != 0)
		printf("this kernel refuses reno (it is %s)\n", name);
	assert_int_equal(twt_duo_traffic(&duo, TRAFFIC, NULL), 0);
	assert_int_equal(twt_duo_end(&duo), 0);
}

static void test_bad_interfaces(void **state)
{
	static const char *const bad[] = { "nothere0", "lo,", ",lo", "lo,nothere0",
					   "a_name_that_is_much_too_long_for_one" };
	struct tow_options options = twt_duo_options();
	struct tow_runtime *runtime;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		options.interfaces = bad[i];
		assert_int_equal(tow_runtime_open(&options, &runtime), TOW_EINVAL);
		assert_non_null(strstr(tow_error_message(), "interfaces"));
	}
	options.interfaces = "^nothere0";
	TWT_OK(tow_runtime_open(&options, &runtime));
	TWT_OK(tow_runtime_close(runtime));
}

/* Two veth-like ends would need a second host; two dummies in a namespace of our own are two nets.
 */
static bool two_nets(void)
{
	return unshare(CLONE_NEWNET) == 0 && system("ip link set lo up 2>/dev/null") == 0 &&
	       system("ip link add twa type veth peer name twb 2>/dev/null && "
		      "ip addr add 10.9.1.1/24 dev twa && ip addr add 10.9.1.2/24 dev twb && "
		      "ip link set twa up && ip link set twb up && "
		      "ip link add twc type veth peer name twd && "
		      "ip addr add 10.9.2.1/24 dev twc && ip addr add 10.9.2.2/24 dev twd && "
		      "ip link set twc up && ip link set twd up") == 0;
}

static int run_rails(void)
{
	struct twi_tcp_address at;
	struct twt_duo duo;
	unsigned nets[2] = { 0 };
	const struct twi_tcp_peer *peer;

	if (!two_nets())
		return 77;
	twt_duo_init(&duo);
	duo.address = "tcp://0.0.0.0:0";
	duo.parent.bulk_streams = duo.child.bulk_streams = 4;
	twt_duo_open(&duo, child_traffic);
	peer = tcp_of(&duo);
	if (twt_duo_traffic(&duo, TRAFFIC, NULL) != 0)
		return 1;
	for (unsigned i = 1; i < peer->line_count; i++) {
		if (!twi_tcp_local(peer->lines[i].stream->fd, &at))
			return 2;
		nets[(ntohl(at.in.sin_addr.s_addr) >> 8 & 255) == 2]++;
	}
	printf("bulk streams: %u by net 1 or loopback, %u by net 2\n", nets[0], nets[1]);
	return twt_duo_end(&duo);
}

/* In a process of its own, which may take a namespace for itself. */
static void in_namespace(int (*run)(void))
{
	pid_t pid;
	int how = 0;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(100);
		exit(run());
	}
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_true(WIFEXITED(how));
	if (WEXITSTATUS(how) == 77) {
		printf("no network namespaces here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(how), 0);
}

static void test_rails(void **state)
{
	(void)state;
	in_namespace(run_rails);
}

static int run_link_local(void)
{
	struct twt_duo duo;

	if (!two_nets() || system("ip -6 addr add fe80::77/64 dev twa nodad 2>/dev/null") != 0)
		return 77;
	twt_duo_init(&duo);
	duo.address = "tcp://[fe80::77%twa]:0";
	twt_duo_open(&duo, child_traffic);
	if (strstr(duo.side.peer->address, "%twa]") == NULL ||
	    twt_duo_traffic(&duo, TRAFFIC, NULL) != 0)
		return 1;
	return twt_duo_end(&duo);
}

static void test_link_local(void **state)
{
	(void)state;
	in_namespace(run_link_local);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bulk_streams),   cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_dual_stack),     cmocka_unit_test(test_socket_knobs),
		cmocka_unit_test(test_bad_interfaces), cmocka_unit_test(test_rails),
		cmocka_unit_test(test_link_local),
	};

	if (getenv("TWT_ONLY") != NULL)
		cmocka_set_test_filter(getenv("TWT_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
