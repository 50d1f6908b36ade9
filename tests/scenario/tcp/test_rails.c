/*
 * test_rails.c - one to four bulk connections, IPv6 (also link-local, with its scope), sockets'
 * knobs, several interfaces: what is connected to what, and that messages of all sizes come whole.
 */
#include "twt.h"

#include "duo.h"

#include <fcntl.h>
#include <sched.h>

#include "diag/judge/rank_state.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/tcp/tcp.h"

#define TRAFFIC (48ull << 20)

static int child_traffic(struct twt_duo *duo)
{
	return twt_duo_traffic(duo, TRAFFIC, NULL);
}

static int child_traffic_thrice(struct twt_duo *duo)
{
	int status = 0;

	for (int i = 0; i < 3 && status == 0; i++)
		status = twt_duo_traffic(duo, TRAFFIC, NULL);
	return status;
}

static int child_traffic_twice(struct twt_duo *duo)
{
	int status = twt_duo_traffic(duo, TRAFFIC, NULL);

	return status != 0 ? status : twt_duo_traffic(duo, TRAFFIC, NULL);
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
	assert_int_equal(((struct twi_tcp_peer *)(void *)peer)->advertised.count, 1);
	TWT_OK(tow_runtime_close(runtime));
}

/* What /v1/peers says of the connections. */
static void check_page(const struct twt_duo *duo)
{
	static const char *const words[] = {
		"\"connection\":\"up\"", "\"stream\":\"control\"",    "\"stream\":\"bulk 0\"",
		"\"rtt_us\":",           "\"cwnd_segments\":",        "\"congestion\":\"",
		"\"breaks\":0",          "\"delivery_bytes_per_s\":", "\"zerocopy_trials\":",
	};
	struct twi_emit emit;
	char *text = NULL;

	twi_emit_init(&emit);
	twi_engine_enter(twi_runtime_engine(duo->side.runtime));
	twi_emit_object_begin(&emit, NULL);
	duo->side.peer->lane->ops->peer_describe(duo->side.peer, &emit);
	twi_emit_object_end(&emit);
	twi_engine_leave(twi_runtime_engine(duo->side.runtime));
	assert_int_equal(twi_emit_take(&emit, &text), TOW_OK);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strstr(text, words[i]) == NULL)
			fail_msg("%s is not in %s", words[i], text);
	}
	free(text);
	twi_emit_fini(&emit);
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
	check_page(&duo);
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

static pid_t far_host;

/* A second host: a process in a network namespace of its own, whose end of each cable is there. */
static bool two_hosts(void)
{
	char command[512];
	int fds[2];

	if (unshare(CLONE_NEWNET) != 0 || system("ip link set lo up 2>/dev/null") != 0 ||
	    pipe(fds) != 0)
		return false;
	far_host = fork();
	if (far_host == 0) {
		bool there = unshare(CLONE_NEWNET) == 0;

		(void)!write(fds[1], &there, 1);
		alarm(100);
		for (;;)
			pause();
	}
	if (read(fds[0], command, 1) != 1 || command[0] == 0)
		return false;
	close(fds[0]);
	close(fds[1]);
	snprintf(command, sizeof(command),
		 "for i in 1 2; do "
		 "ip link add twn$i type veth peer name twf$i netns %d && "
		 "ip addr add 10.9.$i.1/24 dev twn$i && ip -6 addr add fe80::7$i/64 dev twn$i "
		 "nodad && "
		 "ip link set twn$i up && nsenter -t %d -n ip link set twf$i up && "
		 "nsenter -t %d -n ip addr add 10.9.$i.2/24 dev twf$i || exit 1; done 2>/dev/null",
		 (int)far_host, (int)far_host, (int)far_host);
	return system(command) == 0;
}

static void go_far(struct twt_duo *duo)
{
	char path[64];
	int fd;

	(void)duo;
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)far_host);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET) != 0)
		abort();
	close(fd);
}

/* Four bulk streams between the two hosts, where the far one dials by the first cable. */
static void two_rails(struct twt_duo *duo)
{
	twt_duo_init(duo);
	duo->address = "tcp://0.0.0.0:0";
	duo->dialed = "10.9.1.1";
	duo->prepare = go_far;
	duo->parent.bulk_streams = duo->child.bulk_streams = 4;
}

/* How many of the bulk streams have their near end in 10.9.`net`. */
static unsigned by_net(const struct twi_tcp_peer *peer, unsigned net)
{
	struct twi_tcp_address at;
	unsigned count = 0;

	for (unsigned i = 1; i < peer->line_count; i++) {
		if (peer->lines[i].stream != NULL &&
		    twi_tcp_local(peer->lines[i].stream->fd, &at) &&
		    (ntohl(at.in.sin_addr.s_addr) >> 8 & 255) == net)
			count++;
	}
	return count;
}

/* What a rank's state tells of them: how many have carried something by 10.9.`net`. */
static unsigned told_of(const struct twt_duo *duo, unsigned net)
{
	struct twi_engine *engine = twi_runtime_engine(duo->side.runtime);
	struct twi_state_stream rows[4] = { 0 };
	char way[64], name[16];
	unsigned count = 0;
	uint32_t found;

	snprintf(way, sizeof(way), "10.9.%u.1 -> 10.9.%u.2", net, net);
	snprintf(name, sizeof(name), "twn%u", net);
	twi_engine_enter(engine);
	found = duo->side.peer->lane->ops->peer_streams(duo->side.peer, rows, 4);
	twi_engine_leave(engine);
	for (uint32_t i = 0; i < found; i++)
		count += rows[i].acked_bytes > 1 << 20 && strcmp(rows[i].way, way) == 0 &&
			 strcmp(rows[i].from_if, name) == 0;
	return count;
}

/* Every bulk stream over another interface, and the other one when one is pulled. */
static int run_rails(void)
{
	const struct twi_tcp_peer *peer;
	struct twt_duo duo;
	int status = 0;

	if (!two_hosts())
		return 77;
	two_rails(&duo);
	duo.parent.peer_timeout_ns = duo.child.peer_timeout_ns = 6 * (int64_t)TWT_SECOND;
	duo.parent.heartbeat_ns = duo.child.heartbeat_ns = (int64_t)TWT_SECOND / 4;
	twt_duo_open(&duo, child_traffic_twice);
	peer = tcp_of(&duo);
	printf("bulk streams: %u by net 1, %u by net 2\n", by_net(peer, 1), by_net(peer, 2));
	if (by_net(peer, 1) != 2 || by_net(peer, 2) != 2)
		status = 1;
	if (status == 0 && twt_duo_traffic(&duo, TRAFFIC, NULL) != 0)
		status = 3;
	if (status == 0 && (told_of(&duo, 1) != 2 || told_of(&duo, 2) != 2))
		status = 6;
	if (status == 0 && system("ip link set twn2 down") != 0)
		status = 2;
	if (status == 0 && twt_duo_traffic(&duo, TRAFFIC, NULL) != 0)
		status = 3;
	if (status == 0 && counter(&duo, TWI_C_connections_resumed) < 2)
		status = 4;
	kill(far_host, SIGKILL);
	if (twt_duo_end(&duo) != 0 && status == 0)
		status = 5;
	return status;
}

/* Whose end of the second cable is pulled, and put back. */
static const char *const pulls[][2] = {
	{ "ip link set twn2 down", "ip link set twn2 up" },
	{ "nsenter -t %d -n ip link set twf2 down", "nsenter -t %d -n ip link set twf2 up" },
};

static bool with_far_host(const char *format)
{
	char command[96];

	snprintf(command, sizeof(command), format, (int)far_host);
	return system(command) == 0;
}

/* All that have left the second rail go back to it, by and by; without any traffic. */
static bool are_back(const struct twt_duo *duo)
{
	struct twi_engine *engine = twi_runtime_engine(duo->side.runtime);
	unsigned count = 0;

	for (int i = 0; i < 2000 && count != 2; i++) {
		usleep(10000);
		twi_engine_enter(engine);
		count = by_net(tcp_of(duo), 2);
		twi_engine_leave(engine);
	}
	printf("%u are back\n", count);
	return count == 2;
}

/*
 * A rail goes in the midst of traffic both ways, and by the other one all goes on at once: long
 * before the silence of a peer, or the sockets' own timeout, would say anything.
 */
static int run_cut(const char *const pull[2])
{
	uint64_t began_ns = 0;
	struct twt_duo duo;
	int status = 0;

	if (!two_hosts())
		return 77;
	two_rails(&duo);
	duo.parent.peer_timeout_ns = duo.child.peer_timeout_ns = 90 * (int64_t)TWT_SECOND;
	twt_duo_open(&duo, child_traffic_thrice);
	if (by_net(tcp_of(&duo), 2) != 2)
		status = 1;
	if (status == 0 && twt_duo_traffic(&duo, TRAFFIC, NULL) != 0)
		status = 2;
	if (status == 0 && !with_far_host(pull[0]))
		status = 3;
	began_ns = twi_now_ns();
	if (status == 0 && twt_duo_traffic(&duo, TRAFFIC, NULL) != 0)
		status = 4;
	printf("%s: %llu ms, %llu stalled here\n", pull[0],
	       (unsigned long long)((twi_now_ns() - began_ns) / 1000000),
	       (unsigned long long)counter(&duo, TWI_C_connections_stalled));
	if (status == 0 && twi_now_ns() - began_ns > 20 * (uint64_t)TWT_SECOND)
		status = 5;
	if (status == 0 && counter(&duo, TWI_C_connections_resumed) < 1)
		status = 6;
	if (status == 0 && (!with_far_host(pull[1]) || !are_back(&duo)))
		status = 7;
	if (status == 0 && twt_duo_traffic(&duo, TRAFFIC, NULL) != 0)
		status = 8;
	if (twt_duo_end(&duo) != 0 && status == 0)
		status = 9;
	kill(far_host, SIGKILL);
	return status;
}

static int run_cut_near(void)
{
	return run_cut(pulls[0]);
}

static int run_cut_far(void)
{
	return run_cut(pulls[1]);
}

/* The peer's process stands still for half a second, once. */
static void stop_peer(struct twt_duo *duo)
{
	static bool stopped;
	char command[96];

	if (stopped)
		return;
	stopped = true;
	kill(duo->side.child, SIGSTOP);
	snprintf(command, sizeof(command), "(sleep 0.5; kill -CONT %d) &", (int)duo->side.child);
	assert_int_equal(system(command), 0);
}

/* Its kernel acknowledges what comes all the same: no rail was cut, and none is left. */
static int run_stopped(void)
{
	struct twt_duo duo;
	int status = 0;

	if (!two_hosts())
		return 77;
	two_rails(&duo);
	twt_duo_open(&duo, child_traffic);
	if (twt_duo_traffic(&duo, TRAFFIC, stop_peer) != 0)
		status = 1;
	if (status == 0 && counter(&duo, TWI_C_connections_broken) != 0)
		status = 2;
	if (twt_duo_end(&duo) != 0 && status == 0)
		status = 3;
	kill(far_host, SIGKILL);
	return status;
}

/* The knob leaves only the second interface, which is not the way that the kernel would choose. */
static int run_interfaces(void)
{
	struct twt_duo duo;
	int status = 0;

	if (!two_hosts())
		return 77;
	twt_duo_init(&duo);
	duo.address = "tcp://0.0.0.0:0";
	duo.dialed = "10.9.2.1";
	duo.prepare = go_far;
	duo.child.interfaces = "^lo,twf1";
	duo.parent.interfaces = "twn2";
	duo.parent.bulk_streams = duo.child.bulk_streams = 2;
	twt_duo_open(&duo, child_traffic);
	if (by_net(tcp_of(&duo), 2) != 2)
		status = 1;
	if (twt_duo_traffic(&duo, TRAFFIC, NULL) != 0)
		status = 2;
	kill(far_host, SIGKILL);
	if (twt_duo_end(&duo) != 0 && status == 0)
		status = 3;
	return status;
}

/* Where one side requires an interface all bulk streams go over it, whichever side that is. */
static int run_required(void)
{
	struct twt_duo duo;
	int status = 0;

	if (!two_hosts())
		return 77;
	for (int side = 0; side < 2 && status == 0; side++) {
		two_rails(&duo);
		duo.parent.require = side == 0 ? "iface:twn1" : NULL;
		duo.child.require = side == 1 ? "iface:ib0|twf1" : NULL;
		twt_duo_open(&duo, child_traffic);
		if (by_net(tcp_of(&duo), 1) != 4)
			status = 1;
		if (twt_duo_traffic(&duo, TRAFFIC, NULL) != 0)
			status = 2;
		if (twt_duo_end(&duo) != 0 && status == 0)
			status = 3;
	}
	kill(far_host, SIGKILL);
	return status;
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

static void test_cut(void **state)
{
	(void)state;
	in_namespace(run_cut_near);
	in_namespace(run_cut_far);
}

static void test_stopped(void **state)
{
	(void)state;
	in_namespace(run_stopped);
}

static void test_interfaces(void **state)
{
	(void)state;
	in_namespace(run_interfaces);
}

static void test_required(void **state)
{
	(void)state;
	in_namespace(run_required);
}

static int run_link_local(void)
{
	struct twt_duo duo;
	int how;

	if (!two_hosts())
		return 77;
	twt_duo_init(&duo);
	duo.address = "tcp://[fe80::71%twn1]:0";
	twt_duo_open(&duo, child_traffic);
	if (strstr(duo.side.peer->address, "%twn1]") == NULL ||
	    twt_duo_traffic(&duo, TRAFFIC, NULL) != 0)
		return 1;
	how = twt_duo_end(&duo);
	kill(far_host, SIGKILL);
	return how;
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
		cmocka_unit_test(test_interfaces),     cmocka_unit_test(test_link_local),
		cmocka_unit_test(test_required),       cmocka_unit_test(test_cut),
		cmocka_unit_test(test_stopped),
	};

	if (getenv("TWT_ONLY") != NULL)
		cmocka_set_test_filter(getenv("TWT_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
