/*
 * test_tcp_routes.c - what a connection's route is taken for, as /v1/peers says it: within the
 * host, short, or long; and what that does to the socket: its congestion control, and how much of
 * what is not sent yet waits in the kernel.
 */
#include "netlab.h"

#include "duo.h"

#include <jansson.h>
#include <netinet/tcp.h>

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/tcp/tcp.h"

#define SHORT_UNSENT (128 << 10)
#define PORT         4711

#ifndef SO_BUF_LOCK /* Linux 5.14 */
#define SO_BUF_LOCK 72
#endif
#define SEND_BUFFER_FIXED 1 /* of its bits */

/* What the socket says; `name` if that is not NULL is set before. "": it is refused. */
static void congestion_of(int fd, const char *name, char out[16])
{
	socklen_t size = 15;

	memset(out, 0, 16);
	if (name == NULL ||
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0)
		getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, out, &size);
}

/* What a socket of no particular route has here; `name`: when it is asked for that. */
static void usual(const char *name, char out[16])
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	congestion_of(fd, name, out);
	if (out[0] == '\0')
		congestion_of(fd, NULL, out);
	close(fd);
}

static int wrong(const char *what, const char *is, const char *wanted)
{
	fprintf(stderr, "%s is %s, not %s\n", what, is, wanted);
	return 1;
}

/* Page and socket of one stream fit each other, and the route is one of `routes`. */
static int check_stream(json_t *row, int fd, const char *routes, const char *knob)
{
	const char *route = json_string_value(json_object_get(row, "route")),
		   *said = json_string_value(json_object_get(row, "congestion"));
	char is[16], wanted[16];
	int unsent = 0, fixed = 0;
	socklen_t size = sizeof(int);

	if (route == NULL || said == NULL || strstr(routes, route) == NULL)
		return wrong("the route", route == NULL ? "nothing" : route, routes);
	usual(knob != NULL ? knob : strcmp(route, "long") == 0 ? NULL : "cubic", wanted);
	congestion_of(fd, NULL, is);
	if (strcmp(is, wanted) != 0 || strcmp(said, wanted) != 0)
		return wrong(route, is, wanted);
	getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, &size);
	if ((strcmp(route, "short") == 0) != (unsent == SHORT_UNSENT))
		return wrong("what waits to be sent", unsent == SHORT_UNSENT ? "bounded" : "free",
			     route);
	/* A round trip may grow: the kernel's tuning of the buffer must go on, on each route. */
	getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &fixed, &size);
	if ((fixed & SEND_BUFFER_FIXED) != 0)
		return wrong("the send buffer", "fixed", "tuned");
	return 0;
}

static int check_routes(const struct twt_side *side, const char *routes, const char *knob)
{
	const struct twi_tcp_peer *peer = (const void *)side->peer;
	json_t *root, *streams;
	char *text;
	int bad;

	TWT_OK(tow_stats_get(side->runtime, "/v1/peers", &text));
	root = json_loads(text, 0, NULL);
	tow_stats_release(text);
	streams = json_object_get(json_array_get(json_object_get(root, "peers"), 0), "streams");
	bad = json_array_size(streams) != peer->line_count;
	for (unsigned i = 0; i < peer->line_count && bad == 0; i++)
		bad = check_stream(json_array_get(streams, i), peer->lines[i].stream->fd, routes,
				   knob);
	json_decref(root);
	return bad;
}

/* A word each way: nobody closes while the other still looks. */
static int exchange(struct twt_side *side)
{
	uint64_t out = 1, in = 0;
	struct tow_op *send, *recv;
	int status;

	TWT_OK(tow_recv_start(side->peer, &in, 8, 1, NULL, &recv));
	TWT_OK(tow_send_start(side->peer, &out, 8, 1, NULL, &send));
	status = twt_finish(recv, NULL);
	return status == TOW_OK ? twt_finish(send, NULL) : status;
}

static int child_within(struct twt_duo *duo)
{
	return check_routes(&duo->side, "host", duo->child.congestion) | exchange(&duo->side);
}

static int child_other_address(struct twt_duo *duo)
{
	return check_routes(&duo->side, "host", NULL) | exchange(&duo->side);
}

/* One address at both ends: within the host, however busy that is. */
static void test_host(void **state)
{
	static const char *const addresses[] = { "tcp://127.0.0.1:0", "tcp://[::1]:0" };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct twt_duo duo;

		twt_duo_init(&duo);
		duo.address = addresses[i % 2];
		duo.parent.bulk_streams = duo.child.bulk_streams = 2;
		if (i == 2)
			duo.parent.congestion = duo.child.congestion = "reno";
		if (i == 1 && access("/proc/net/if_inet6", F_OK) != 0)
			continue;
		twt_duo_open(&duo, child_within);
		assert_int_equal(check_routes(&duo.side, "host", i == 2 ? "reno" : NULL), 0);
		assert_int_equal(exchange(&duo.side), 0);
		assert_int_equal(twt_duo_end(&duo), 0);
	}
}

/* Another address of loopback is this host as well. */
static void test_other_address(void **state)
{
	struct twt_duo duo;

	(void)state;
	twt_duo_init(&duo);
	duo.address = "tcp://0.0.0.0:0";
	duo.dialed = "127.0.0.2";
	twt_duo_open(&duo, child_other_address);
	assert_int_equal(check_routes(&duo.side, "host", NULL), 0);
	assert_int_equal(exchange(&duo.side), 0);
	assert_int_equal(twt_duo_end(&duo), 0);
}

/* Side 1 listens; side 0 tries until it does. */
static void meet(struct twt_side *side, int which)
{
	char here[64], there[64];
	struct tow_result result = { .size = sizeof(result) };
	struct tow_op *op;
	int status = TOW_EREFUSED;

	snprintf(here, sizeof(here), "tcp://" NL_ADDRESS ":%d", which + 1, PORT);
	snprintf(there, sizeof(there), "tcp://" NL_ADDRESS ":%d", 2, PORT);
	TWT_OK(tow_endpoint_open(side->runtime, here, &side->endpoint));
	if (which == 1) {
		side->peer = twt_accept(side->endpoint);
		return;
	}
	for (int tries = 0; tries < 200 && status == TOW_EREFUSED; tries++) {
		TWT_OK(tow_connect_start(side->endpoint, there, NULL, &op));
		status = twt_finish(op, &result);
		if (status == TOW_EREFUSED)
			usleep(20000);
	}
	TWT_OK(status);
	side->peer = result.peer;
}

static int far_side(int which, void *arg)
{
	const char *routes = arg;
	struct twt_side side = { .child = 0 };
	int bad;

	side.runtime = twt_runtime(16 << 20);
	meet(&side, which);
	bad = check_routes(&side, routes, NULL) | exchange(&side);
	TWT_OK(tow_runtime_close(side.runtime));
	return bad;
}

/* Two namespaces, and a cable that this process is. */
static void test_between_hosts(void **state)
{
	static const struct {
		uint64_t delay_ns;
		char routes[16];
	} cables[] = { { 5 * NL_MS, "long" }, { 200000, "long" }, { 0, "short long" } };

	(void)state;
	for (size_t i = 0; i < sizeof(cables) / sizeof(cables[0]); i++) {
		struct twt_nl_world world;
		bool in_time;

		if (!twt_nl_world_open(&world, 1, far_side, (void *)(uintptr_t)cables[i].routes)) {
			printf("no network namespaces here: %s\n", world.reason);
			skip();
		}
		world.link.shape.delay_ns = cables[i].delay_ns;
		in_time = twt_nl_world_run(&world, 40 * NL_SECOND, NULL, NULL);
		twt_nl_world_close(&world);
		if (!in_time || world.status[0] != 0 || world.status[1] != 0)
			fail_msg("cable %zu: the sides ended with %#x and %#x", i, world.status[0],
				 world.status[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host),
		cmocka_unit_test(test_other_address),
		cmocka_unit_test(test_between_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
