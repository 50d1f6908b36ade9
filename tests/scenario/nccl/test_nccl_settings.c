/*
 * test_nccl_settings.c - plugins/nccl: which interfaces it takes, what it says of them, what it
 * refuses and how, that its last user leaves nothing behind, and what its file exports.
 */
#include "twt.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include "command.h"
#include "nccl_pair.h"

#define LINES 65536

static char lines[LINES]; /* what the plugin has logged in this process */

__attribute__((format(printf, 5, 6))) static void
keep_line(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	size_t used = strlen(lines);
	va_list arguments;

	(void)file, (void)line, (void)flags, (void)level;
	va_start(arguments, format);
	if (used + 2 < LINES)
		vsnprintf(lines + used, LINES - used, format, arguments);
	va_end(arguments);
}

static bool play(twt_nccl_part part, int version, const char *lane, const char *interface,
		 bool bare)
{
	struct twt_nccl_run run = { .part = part,
				    .version = version,
				    .lane = lane,
				    .interface = interface,
				    .bare = bare,
				    .logger = keep_line,
				    .seed = 1 };

	return twt_nccl_run(&run);
}

static bool takes_lo_alone(struct twt_nccl_side *side)
{
	struct net_properties properties;
	int count = 0;

	TWT_NEED(side, net_init(&side->net, &side->context, 1, keep_line) == NCCL_SUCCESS);
	TWT_NEED(side, net_devices(&side->net, &count) == NCCL_SUCCESS && count == 1);
	TWT_NEED(side, net_get_properties(&side->net, 0, &properties) == NCCL_SUCCESS);
	TWT_NEED(side, strcmp(properties.name, "lo") == 0 && strstr(lines, "lo at") != NULL);
	TWT_NEED(side, net_get_properties(&side->net, 1, &properties) == NCCL_INVALID_ARGUMENT);
	TWT_NEED(side, net_get_properties(&side->net, -1, &properties) == NCCL_INVALID_ARGUMENT);
	return net_finalize(&side->net, side->context) == NCCL_SUCCESS;
}

static bool takes_nothing(struct twt_nccl_side *side)
{
	TWT_NEED(side, net_init(&side->net, &side->context, 1, keep_line) == NCCL_INTERNAL_ERROR);
	TWT_NEED(side, side->context == NULL);
	return strstr(lines, side->run->interface) != NULL;
}

/* Whatever there is; without another interface there is none. */
static bool takes_all_but_lo(struct twt_nccl_side *side)
{
	struct net_properties properties;
	int count = 0;

	if (net_init(&side->net, &side->context, 1, keep_line) != NCCL_SUCCESS)
		return strstr(lines, "no interface") != NULL;
	TWT_NEED(side, net_devices(&side->net, &count) == NCCL_SUCCESS && count > 0);
	for (int i = 0; i < count; i++) {
		TWT_NEED(side, net_get_properties(&side->net, i, &properties) == NCCL_SUCCESS);
		TWT_NEED(side, strcmp(properties.name, "lo") != 0);
	}
	return net_finalize(&side->net, side->context) == NCCL_SUCCESS;
}

static void interfaces(void **state)
{
	static const struct {
		const char *list;
		twt_nccl_part part;
	} cases[] = {
		{ "lo", takes_lo_alone },        { "=lo", takes_lo_alone },
		{ "nosuch,lo", takes_lo_alone }, { "=nosuch,lo", takes_lo_alone },
		{ "=l", takes_nothing },         { "nosuch", takes_nothing },
		{ "lox", takes_nothing },        { "^lo", takes_all_but_lo },
		{ "^=lo", takes_all_but_lo },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!play(cases[i].part, NET_VERSION_LAST, "auto", cases[i].list, true))
			fail_msg("NCCL_SOCKET_IFNAME=%s", cases[i].list);
	setenv("TOW_INTERFACES", "^lo", 1);
	assert_true(play(takes_nothing, NET_VERSION_LAST, "auto", "lo", true));
	unsetenv("TOW_INTERFACES");
}

/* By the handle it cannot be seen, so by the log: the device is at ::1. */
static bool is_at_six(struct twt_nccl_side *side)
{
	void *send, *recv;
	char byte = 1;

	if (strstr(lines, "no interface") != NULL)
		return true;
	TWT_NEED(side, strstr(lines, "lo at ::1") != NULL);
	TWT_NEED(side, twt_nccl_connect(side, &send, &recv));
	TWT_NEED(side, twt_nccl_post_send(side, send, &byte, 1, 0) != NULL);
	TWT_NEED(side, twt_nccl_wait(side, twt_nccl_post_recv(side, recv, &byte, 1, 0), NULL));
	return twt_nccl_close(side, send, recv);
}

static void families(void **state)
{
	FILE *file = fopen("/proc/net/if_inet6", "r");

	(void)state;
	if (file == NULL)
		skip(); /* this host has no IPv6 */
	fclose(file);
	setenv("NCCL_SOCKET_FAMILY", "AF_INET6", 1);
	assert_true(play(is_at_six, NET_VERSION_LAST, "tcp", "lo", false));
	assert_true(play(is_at_six, NET_VERSION_LAST, "auto", "lo", false));
	setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
	assert_true(play(takes_lo_alone, NET_VERSION_LAST, "tcp", "lo", true));
	unsetenv("NCCL_SOCKET_FAMILY");
}

static bool describes(struct twt_nccl_side *side)
{
	struct net_properties is;

	TWT_NEED(side, strcmp(net_name(&side->net), "Towline") == 0);
	TWT_NEED(side, net_get_properties(&side->net, 0, &is) == NCCL_SUCCESS);
	TWT_NEED(side, is.ptr_support == NCCL_POINTER_HOST && is.reg_is_global == 1);
	TWT_NEED(side, is.max_recvs == 8 && is.speed > 0 && is.device_type == 0);
	TWT_NEED(side, is.max_comms > 1000 && is.pci_path == NULL);
	if (side->net.version >= 9)
		TWT_NEED(side, is.members == 1 && is.max_p2p_bytes == 1 << 30 &&
				       is.max_coll_bytes > 0 &&
				       is.max_coll_bytes <= NCCL_SIZE_LIMIT);
	if (side->net.version >= 11)
		TWT_NEED(side, is.max_multi_request == 1);
	if (side->net.version >= 12)
		TWT_NEED(side, is.rail_id == -1);
	return true;
}

static void descriptions(void **state)
{
	(void)state;
	for (int version = NET_VERSION_FIRST; version <= NET_VERSION_LAST; version++)
		assert_true(play(describes, version, "auto", "lo", false));
}

static bool refuses_handles(struct twt_nccl_side *side)
{
	char handle[NCCL_HANDLE_BYTES] = { 0 }, bad[NCCL_HANDLE_BYTES];
	void *listening, *send = NULL;

	TWT_NEED(side,
		 net_connect(&side->net, side->context, 0, handle, &send) == NCCL_INVALID_USAGE);
	TWT_NEED(side, strstr(lines, "handle is from another plugin") != NULL);
	TWT_NEED(side, net_listen(&side->net, side->context, 0, handle, &listening) == 0);
	for (size_t at = 0; at < 6; at++) { /* magic, kind, length */
		memcpy(bad, handle, sizeof(bad));
		bad[at] = (char)(bad[at] ^ 0xf0);
		TWT_NEED(side, net_connect(&side->net, side->context, 0, bad, &send) != 0);
	}
	/* A stage that nobody has set is none. */
	memcpy(bad, handle, sizeof(bad));
	memset(bad + 16, 0x5a, 8);
	TWT_NEED(side, net_connect(&side->net, side->context, 0, bad, &send) == NCCL_SUCCESS);
	TWT_NEED(side,
		 net_connect(&side->net, side->context, 5, handle, &send) == NCCL_INVALID_ARGUMENT);
	TWT_NEED(side, net_listen(&side->net, side->context, -1, handle, &listening) ==
			       NCCL_INVALID_ARGUMENT);
	return net_close_listen(&side->net, listening) == NCCL_SUCCESS;
}

/* Whoever was not given the handle finds no listen: what he sends is for nobody. */
static bool refuses_strangers(struct twt_nccl_side *side)
{
	char mine[NCCL_HANDLE_BYTES] = { 0 }, theirs[NCCL_HANDLE_BYTES];
	void *listening, *send = NULL, *recv = NULL, *request = NULL;
	double begin = twt_nccl_now();
	int result = NCCL_SUCCESS, done;
	char byte = 0;

	TWT_NEED(side, net_listen(&side->net, side->context, 0, mine, &listening) == 0);
	TWT_NEED(side, twt_nccl_exchange(side, mine, theirs, sizeof(mine)));
	if (side->side == 1) {
		theirs[8] = (char)(theirs[8] + 1);
		while (send == NULL)
			TWT_NEED(side,
				 net_connect(&side->net, side->context, 0, theirs, &send) == 0);
		while (result == NCCL_SUCCESS) {
			result = net_send(&side->net, send, &byte, 1, 0, NULL, &request);
			for (done = request == NULL; result == NCCL_SUCCESS && !done;) {
				result = net_test(&side->net, request, &done, NULL);
				TWT_NEED(side, twt_nccl_now() - begin < TWT_NCCL_WAIT_S);
			}
			TWT_NEED(side, twt_nccl_now() - begin < TWT_NCCL_WAIT_S);
		}
		TWT_NEED(side, result == NCCL_REMOTE_ERROR && twt_nccl_meet(side));
		TWT_NEED(side, net_close_send(&side->net, send) == NCCL_SUCCESS);
	} else {
		struct pollfd fd = { .fd = side->fd, .events = POLLIN };

		while (poll(&fd, 1, 0) == 0) {
			TWT_NEED(side, net_accept(&side->net, listening, &recv) == NCCL_SUCCESS);
			TWT_NEED(side, recv == NULL);
		}
		TWT_NEED(side, twt_nccl_meet(side));
	}
	return net_close_listen(&side->net, listening) == NCCL_SUCCESS;
}

static bool refuses_memory(struct twt_nccl_side *side)
{
	void *send, *recv, *region = NULL, *request = &region;
	char memory[64];

	TWT_NEED(side, twt_nccl_connect(side, &send, &recv));
	TWT_NEED(side, net_register(&side->net, send, memory, sizeof(memory), NCCL_POINTER_CUDA,
				    &region) == NCCL_INVALID_USAGE);
	TWT_NEED(side, net_register_dmabuf(&side->net, send, 0, &region) == NCCL_INVALID_USAGE);
	TWT_NEED(side, strstr(lines, "dma-buf") != NULL);
	TWT_NEED(side, net_register(&side->net, send, memory, 0, NCCL_POINTER_HOST, &region) == 0);
	TWT_NEED(side, net_deregister(&side->net, send, region) == NCCL_SUCCESS);
	/* The host's memory needs no flush, so there is no request to test. */
	TWT_NEED(side, net_flush(&side->net, recv, memory, 64, NULL, &request) == NCCL_SUCCESS);
	TWT_NEED(side, request == NULL);
	TWT_NEED(side,
		 net_send(&side->net, recv, memory, 1, 0, NULL, &request) == NCCL_INVALID_ARGUMENT);
	return twt_nccl_close(side, send, recv);
}

static void refusals(void **state)
{
	(void)state;
	assert_true(play(refuses_handles, NET_VERSION_LAST, "auto", "lo", false));
	assert_true(play(refuses_memory, NET_VERSION_LAST, "auto", "lo", false));
	for (size_t lane = 0; twt_nccl_lane(lane) != NULL; lane++)
		assert_true(play(refuses_strangers, NET_VERSION_LAST, twt_nccl_lane(lane), "lo",
				 false));
}

static bool lane_is_unknown(struct twt_nccl_side *side)
{
	char handle[NCCL_HANDLE_BYTES];
	void *listening;

	TWT_NEED(side, net_listen(&side->net, side->context, 0, handle, &listening) ==
			       NCCL_INVALID_USAGE);
	return strstr(lines, "TOW_NCCL_LANE is \"smoke\"") != NULL;
}

static bool connections_are_none(struct twt_nccl_side *side)
{
	TWT_NEED(side, net_init(&side->net, &side->context, 1, keep_line) == NCCL_INVALID_USAGE);
	return strstr(lines, "TOW_NCCL_CONNECTIONS is \"") != NULL;
}

static void bad_settings(void **state)
{
	static const char *const counts[] = { "0", "65", "-1", "two", "3x" };

	(void)state;
	assert_true(play(lane_is_unknown, NET_VERSION_LAST, "smoke", "lo", false));
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		setenv("TOW_NCCL_CONNECTIONS", counts[i], 1);
		assert_true(play(connections_are_none, NET_VERSION_LAST, "auto", "lo", true));
	}
	unsetenv("TOW_NCCL_CONNECTIONS");
}

/* NCCL opens and closes with each communicator: the last one out leaves nothing. */
static bool comes_and_goes(struct twt_nccl_side *side)
{
	int before = twt_fd_count();
	void *context[3];

	for (int round = 0; round < 3; round++) {
		char handle[NCCL_HANDLE_BYTES];
		void *listening;

		for (int i = 0; i < 3; i++)
			TWT_NEED(side, net_init(&side->net, &context[i], (uint64_t)i, keep_line) ==
					       NCCL_SUCCESS);
		TWT_NEED(side, net_listen(&side->net, context[0], 0, handle, &listening) == 0);
		for (int i = 0; i < 3; i++)
			TWT_NEED(side, net_finalize(&side->net, context[i]) == NCCL_SUCCESS);
		TWT_NEED(side, twt_fd_count() > before); /* the listen is a user, too */
		TWT_NEED(side, net_close_listen(&side->net, listening) == NCCL_SUCCESS);
		TWT_NEED(side, twt_fd_count() == before);
	}
	return true;
}

static void lives(void **state)
{
	(void)state;
	assert_true(play(comes_and_goes, NET_VERSION_LAST, "auto", "lo", true));
	assert_true(play(comes_and_goes, 11, "tcp", "lo", true));
}

/* Side 0 connects, and side 1 accepts at once. */
static bool connect_first(struct twt_nccl_side *side, void *theirs, void *listening, void **comm)
{
	char handle[NCCL_HANDLE_BYTES];
	double begin = twt_nccl_now();

	memcpy(handle, theirs, sizeof(handle));
	for (*comm = NULL; *comm == NULL; twt_nccl_give_way()) {
		TWT_NEED(side, (side->side == 1 ? net_accept(&side->net, listening, comm)
						: net_connect(&side->net, side->context, 0, handle,
							      comm)) == NCCL_SUCCESS);
		TWT_NEED(side, twt_nccl_now() - begin < TWT_NCCL_WAIT_S);
	}
	return true;
}

/* Memory of any small size that was freed before is written to. */
static void overwrite_freed(void)
{
	void *at[256];

	for (size_t i = 0; i < 256; i++) {
		at[i] = malloc(16 * (i + 1));
		if (at[i] != NULL)
			memset(at[i], 0x5a, 16 * (i + 1));
	}
	for (size_t i = 0; i < 256; i++)
		free(at[i]);
}

/*
 * A connect ends with its context while its hello waits for the other side, on a connection that
 * goes on. The hello arrives as it was, and the accepted comm fails.
 */
static bool abandons_hello(struct twt_nccl_side *side)
{
	char mine[NCCL_HANDLE_BYTES] = { 0 }, theirs[NCCL_HANDLE_BYTES], handle[NCCL_HANDLE_BYTES];
	void *listening, *first, *second = NULL, *context;
	double begin;

	TWT_NEED(side, net_listen(&side->net, side->context, 0, mine, &listening) == 0);
	TWT_NEED(side, twt_nccl_exchange(side, mine, theirs, sizeof(mine)));
	TWT_NEED(side, connect_first(side, theirs, listening, &first) && twt_nccl_meet(side));
	if (side->side == 0) {
		memcpy(handle, theirs, sizeof(handle));
		TWT_NEED(side, net_init(&side->net, &context, 8, keep_line) == NCCL_SUCCESS);
		TWT_NEED(side, net_connect(&side->net, context, 0, handle, &second) == 0);
		TWT_NEED(side, second == NULL); /* the hello is read when its receive is there */
		TWT_NEED(side, net_finalize(&side->net, context) == NCCL_SUCCESS);
		overwrite_freed();
	}
	TWT_NEED(side, twt_nccl_meet(side));
	for (begin = twt_nccl_now(); side->side == 1 && second == NULL; twt_nccl_give_way()) {
		TWT_NEED(side, net_accept(&side->net, listening, &second) == NCCL_SUCCESS);
		TWT_NEED(side, twt_nccl_now() - begin < 10);
	}
	TWT_NEED(side, twt_nccl_meet(side));
	if (side->side == 1)
		TWT_NEED(side, net_close_recv(&side->net, second) == NCCL_SUCCESS);
	TWT_NEED(side, (side->side == 0 ? net_close_send(&side->net, first)
					: net_close_recv(&side->net, first)) == NCCL_SUCCESS);
	return net_close_listen(&side->net, listening) == NCCL_SUCCESS;
}

/*
 * Side 1 dies while a hello of side 0 waits. Another connect finds the connection broken first, and
 * the waiting one fails, too.
 */
static bool breaks_connection(struct twt_nccl_side *side)
{
	char mine[NCCL_HANDLE_BYTES] = { 0 }, theirs[NCCL_HANDLE_BYTES];
	char waiting[NCCL_HANDLE_BYTES], later[NCCL_HANDLE_BYTES], byte = 0;
	void *listening, *first, *second = NULL, *third = NULL, *request = NULL;
	double begin = twt_nccl_now();

	TWT_NEED(side, net_listen(&side->net, side->context, 0, mine, &listening) == 0);
	TWT_NEED(side, twt_nccl_exchange(side, mine, theirs, sizeof(mine)));
	TWT_NEED(side, connect_first(side, theirs, listening, &first) && twt_nccl_meet(side));
	if (side->side == 1) {
		twt_nccl_meet(side);
		raise(SIGKILL);
	}
	memcpy(waiting, theirs, sizeof(waiting));
	memcpy(later, theirs, sizeof(later));
	TWT_NEED(side, net_connect(&side->net, side->context, 0, waiting, &second) == 0);
	TWT_NEED(side, second == NULL && twt_nccl_meet(side));
	side->loose = true;
	while (net_send(&side->net, first, &byte, 1, 0, NULL, &request) == NCCL_SUCCESS)
		TWT_NEED(side, twt_nccl_now() - begin < TWT_NCCL_WAIT_S);
	TWT_NEED(side, net_connect(&side->net, side->context, 0, later, &third) == NCCL_SUCCESS);
	TWT_NEED(side, third == NULL); /* it opens a connection of its own */
	TWT_NEED(side,
		 net_connect(&side->net, side->context, 0, waiting, &second) == NCCL_REMOTE_ERROR);
	TWT_NEED(side, second == NULL && net_close_send(&side->net, first) == NCCL_SUCCESS);
	TWT_NEED(side, net_close_listen(&side->net, listening) == NCCL_SUCCESS);
	return net_finalize(&side->net, side->context) == NCCL_SUCCESS;
}

static void abandoned_connects(void **state)
{
	struct twt_nccl_run broken = { .part = breaks_connection,
				       .version = NET_VERSION_LAST,
				       .lane = "tcp",
				       .one_may_die = true,
				       .logger = keep_line,
				       .seed = 1 };

	(void)state;
	setenv("TOW_NCCL_CONNECTIONS", "1", 1);
	setenv("TOW_EAGER_MAX_BYTES", "0", 1); /* a hello is sent when the other side receives it */
	for (size_t lane = 0; twt_nccl_lane(lane) != NULL; lane++)
		assert_true(
			play(abandons_hello, NET_VERSION_LAST, twt_nccl_lane(lane), "lo", false));
	assert_true(twt_nccl_run(&broken));
	unsetenv("TOW_EAGER_MAX_BYTES");
	unsetenv("TOW_NCCL_CONNECTIONS");
}

/* Its tables and nothing else; and nothing of it stands in the way of other libraries. */
static void exports(void **state)
{
	static struct twt_command command;

	(void)state;
	twt_command("nm -D --defined-only @/plugins/nccl/libnccl-net-towline.so", &command);
	if (command.status == 127)
		skip(); /* binutils is missing */
	assert_int_equal(command.status, 0);
	for (int version = NET_VERSION_FIRST; version <= NET_VERSION_LAST; version++) {
		char name[32];

		snprintf(name, sizeof(name), " ncclNetPlugin_v%d\n", version);
		assert_int_equal(twt_command_count(&command, name), 1);
	}
	assert_int_equal(twt_command_count(&command, "\n"),
			 twt_command_count(&command, " nccl") + twt_command_count(&command, " __"));
	twt_command("readelf -dW @/plugins/nccl/libnccl-net-towline.so", &command);
	assert_int_equal(twt_command_count(&command, "NODELETE"), 1);
	assert_int_equal(twt_command_count(&command, "STATIC_TLS"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interfaces),   cmocka_unit_test(families),
		cmocka_unit_test(descriptions), cmocka_unit_test(refusals),
		cmocka_unit_test(bad_settings), cmocka_unit_test(lives),
		cmocka_unit_test(exports),      cmocka_unit_test(abandoned_connects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
