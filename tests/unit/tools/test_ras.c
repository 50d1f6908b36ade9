/*
 * test_ras.c - towstat ras without a rank: each line of the protocol; reports made of documents by
 * hand, as JSON and as text; of documents that lie, too; and clients that there is no descriptor
 * for, or that do not read.
 */
#include "twt.h"

#include <jansson.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/towstat/ras_line.h"
#include "tools/towstat/ras_report.h"
#include "tools/towstat/ras_server.h"

/* --- lines --- */

static void answers_lines(void **state)
{
	static const struct {
		const char *line, *reply; /* NULL: the report */
	} rows[] = {
		{ "CLIENT PROTOCOL 2", "SERVER PROTOCOL 2\n" },
		{ "client protocol 99", "SERVER PROTOCOL 2\n" },
		{ "TIMEOUT 8", "OK\n" },
		{ "timeout 0", "OK\n" },
		{ "timeout -1", "ERROR: " },
		{ "timeout 1x", "ERROR: " },
		{ "timeout ", "ERROR: " },
		{ "timeout 99999999999999999999", "ERROR: " },
		{ "SET FORMAT json", "OK\n" },
		{ "set format TEXT", "OK\n" },
		{ "set format xml", "ERROR: " },
		{ "monitor", "OK\n" },
		{ "MONITOR lifecycle,TRACE", "OK\n" },
		{ "monitor all", "OK\n" },
		{ "monitor ,", "ERROR: " },
		{ "monitor lifecycles", "ERROR: " },
		{ "monitor lifecycle,", "OK\n" },
		{ "STATUS", NULL },
		{ "Verbose Status", NULL },
		{ "status ", "ERROR: " },
		{ "", "ERROR: " },
		{ "\x1b[2J\xff", "ERROR: no such command: ?[2J?\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ras_session session;
		char reply[256] = "";

		ras_session_init(&session);
		if ((ras_line_take(&session, rows[i].line, reply, sizeof(reply)) == RAS_REPORTS) !=
		    (rows[i].reply == NULL))
			fail_msg("%s", rows[i].line);
		if (rows[i].reply != NULL &&
		    strncmp(reply, rows[i].reply, strlen(rows[i].reply)) != 0)
			fail_msg("%s: %s", rows[i].line, reply);
		if (rows[i].reply != NULL)
			assert_string_equal(reply + strlen(reply) - 1, "\n");
	}
}

static void remembers(void **state)
{
	struct ras_session session;
	char reply[256], long_line[RAS_LINE_BYTES];

	(void)state;
	ras_session_init(&session);
	assert_int_equal(session.timeout_s, 5);
	ras_line_take(&session, "timeout 9", reply, sizeof(reply));
	ras_line_take(&session, "set format json", reply, sizeof(reply));
	ras_line_take(&session, "monitor", reply, sizeof(reply));
	assert_int_equal(session.events, RAS_LIFECYCLE);
	ras_line_take(&session, "monitor trace", reply, sizeof(reply));
	assert_int_equal(session.events, RAS_TRACE);
	ras_line_take(&session, "timeout x", reply, sizeof(reply));
	ras_line_take(&session, "verbose status", reply, sizeof(reply));
	assert_int_equal(session.timeout_s, 9);
	assert_true(session.json && session.verbose);
	memset(long_line, 'a', sizeof(long_line) - 1);
	long_line[sizeof(long_line) - 1] = '\0';
	ras_line_take(&session, long_line, reply, sizeof(reply));
	assert_true(strlen(reply) < sizeof(reply));
}

/* --- reports --- */

static json_t *parse(const char *text)
{
	char *copy = strdup(text);
	json_t *root;

	assert_non_null(copy);
	for (char *at = copy; *at != '\0'; at++)
		*at = *at == '\'' ? '"' : *at;
	root = json_loads(copy, 0, NULL);
	if (root == NULL)
		fail_msg("%s", copy);
	free(copy);
	return root;
}

/* What rank `rank` of three says of the world; broken: its status, or null. */
static json_t *coll_of(int rank, int begun, const char *broken)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "{'groups':[{'group':0,'label':'world','rank':%d,'size':3,'members':[0,1,2],"
		 "'started':%d,'begun':{'all-reduce':%d,'broadcast':1},'broken':%s}]}",
		 rank, begun + 1, begun, broken);
	return parse(text);
}

static const json_t *comm_of(const json_t *root, size_t index)
{
	return json_array_get(json_object_get(root, "communicators"), index);
}

static json_int_t number_at(const json_t *object, const char *key)
{
	if (!json_is_integer(json_object_get(object, key)))
		fail_msg("there is no number %s", key);
	return json_integer_value(json_object_get(object, key));
}

/* The report of these sources as JSON, as a watcher reads it, and as text. */
static json_t *report_of(const struct ras_source *sources, size_t count, const char *verdict,
			 char **text_out)
{
	struct ras_question question = { "job", "10.0.0.1", sources, count, NULL };
	json_t *said = verdict != NULL ? parse(verdict) : NULL, *root;
	struct ras_report report;
	char *text;

	question.verdict = said;
	assert_int_equal(ras_report_make(&report, &question), 0);
	text = ras_print_json(&report);
	assert_non_null(text);
	root = json_loads(text, 0, NULL);
	if (root == NULL)
		fail_msg("%s", text);
	free(text);
	*text_out = ras_print_text(&report, false);
	assert_non_null(*text_out);
	ras_report_fini(&report);
	json_decref(said);
	return root;
}

static void tells_what_is_well(void **state)
{
	struct ras_source sources[3];
	json_t *info = parse("{'version':'1.2.3','pid':7}"), *root;
	const json_t *comm, *rank, *status;
	char *text;

	(void)state;
	for (int i = 0; i < 3; i++)
		sources[i] =
			(struct ras_source){ i, 100 + i, true, false, coll_of(i, 9, "null"), info };
	root = report_of(sources, 3, NULL, &text);
	assert_string_equal(json_string_value(json_object_get(root, "nccl_version")),
			    "Towline 1.2.3");
	assert_int_equal(strlen(json_string_value(json_object_get(root, "timestamp"))), 19);
	assert_int_equal(number_at(root, "communicators_count"), 1);
	comm = comm_of(root, 0);
	assert_int_equal(strncmp(json_string_value(json_object_get(comm, "hash")), "0x", 2), 0);
	assert_string_equal(json_string_value(json_object_get(comm, "name")), "world");
	assert_int_equal(number_at(comm, "size"), 3);
	assert_int_equal(number_at(comm, "ranks_count"), 3);
	assert_int_equal(number_at(comm, "missing_ranks_count"), 0);
	assert_int_equal(json_array_size(json_object_get(comm, "missing_ranks")), 0);
	rank = json_array_get(json_object_get(comm, "ranks"), 2);
	assert_int_equal(number_at(rank, "rank"), 2);
	assert_int_equal(number_at(rank, "pid"), 102);
	assert_string_equal(json_string_value(json_object_get(rank, "host")), "10.0.0.1");
	assert_int_equal(number_at(json_object_get(rank, "collective_counts"), "AllReduce"), 9);
	assert_int_equal(number_at(json_object_get(rank, "collective_counts"), "Broadcast"), 1);
	assert_int_equal(number_at(json_object_get(rank, "collective_counts"), "AllGather"), 0);
	status = json_object_get(rank, "status");
	assert_int_equal(number_at(status, "init_state"), 0);
	assert_int_equal(number_at(status, "async_error"), 0);
	assert_true(json_is_false(json_object_get(status, "abort_flag")));
	assert_true(json_is_false(json_object_get(status, "finalize_called")));
	assert_true(json_is_false(json_object_get(status, "destroy_flag")));
	assert_non_null(strstr(text, "         3         3         3   RUNNING      OK\n"));
	free(text);
	json_decref(root);
	json_decref(info);
	for (int i = 0; i < 3; i++)
		json_decref((json_t *)(uintptr_t)sources[i].coll);
}

/* One is behind, one has broken the group; then one does not answer, and one has died. */
static void tells_what_is_wrong(void **state)
{
	json_t *coll[3] = { coll_of(0, 9, "null"), coll_of(1, 8, "null"),
			    coll_of(2, 9, "'TOW_EPEER'") };
	struct ras_source sources[3] = { { 0, 100, true, false, coll[0], NULL },
					 { 1, 101, true, false, coll[1], NULL },
					 { 2, 102, true, false, coll[2], NULL } };
	const json_t *ranks, *missing;
	json_t *root;
	char *text;

	(void)state;
	root = report_of(sources, 3, NULL, &text);
	ranks = json_object_get(comm_of(root, 0), "ranks");
	assert_int_equal(
		number_at(json_object_get(json_array_get(ranks, 2), "status"), "async_error"), 6);
	assert_non_null(strstr(text, "RUNNING  ERROR,MISMATCH\n"));
	assert_non_null(
		strstr(text, "Rank 1: process 101 on 10.0.0.1, has begun 8 of 9 AllReduce"));
	assert_non_null(strstr(text, "Rank 2: process 102 on 10.0.0.1, error 6\n"));
	free(text);
	json_decref(root);

	sources[1] = (struct ras_source){ .rank = 1, .pid = 101 };
	sources[2] = (struct ras_source){ .rank = 2, .pid = 102, .dead = true };
	root = report_of(sources, 3, NULL, &text);
	assert_int_equal(number_at(comm_of(root, 0), "ranks_count"), 1);
	assert_int_equal(number_at(comm_of(root, 0), "missing_ranks_count"), 2);
	assert_int_equal(number_at(json_object_get(root, "ras"), "timeouts_count"), 1);
	missing = json_object_get(comm_of(root, 0), "missing_ranks");
	for (size_t i = 0; i < 2; i++) {
		const json_t *rank = json_array_get(missing, i);
		const json_t *status = json_object_get(rank, "status");

		assert_int_equal(number_at(rank, "pid"), 101 + (int)i);
		assert_true(json_is_true(json_object_get(status, "unresponsive")));
		assert_int_equal(json_is_true(json_object_get(status, "considered_dead")), i == 1);
		assert_null(json_object_get(rank, "collective_counts"));
	}
	assert_non_null(strstr(text, "RUNNING  INCOMPLETE\n"));
	assert_non_null(strstr(text, "Rank 1: process 101 on 10.0.0.1, does not answer\n"));
	assert_non_null(strstr(text, "Rank 2: process 102 on 10.0.0.1, has died\n"));
	free(text);
	json_decref(root);
	for (int i = 0; i < 3; i++)
		json_decref(coll[i]);
}

/*
 * Rank 1 lives on another host, and is known by a verdict: all counts are sums then. Rank 2 does
 * not answer the one that asked; it has died, as the verdict says.
 */
static void tells_of_other_hosts(void **state)
{
	static const char verdict[] = "{'state':'stuck','ranks':["
				      "{'rank':1,'answered':true,'host':'far','pid':55,'groups':["
				      "{'group':0,'of':'barriers','last_entered':3},"
				      "{'group':0,'of':'collectives','last_entered':10}]},"
				      "{'rank':2,'answered':false,'host':'further','pid':66}],"
				      "'findings':[{'cause':'dead','ranks':[2]}]}";
	json_t *coll = coll_of(0, 9, "null"), *root;
	const struct ras_source source = { 0, 100, true, false, coll, NULL };
	const json_t *comm, *rank;
	char *text;

	(void)state;
	root = report_of(&source, 1, verdict, &text);
	comm = comm_of(root, 0);
	assert_int_equal(number_at(comm, "ranks_count"), 2);
	rank = json_array_get(json_object_get(comm, "ranks"), 1);
	assert_string_equal(json_string_value(json_object_get(rank, "host")), "far");
	assert_int_equal(number_at(rank, "pid"), 55);
	for (size_t i = 0; i < 2; i++) {
		const json_t *counts = json_object_get(
			json_array_get(json_object_get(comm, "ranks"), i), "collective_counts");

		assert_int_equal(json_object_size(counts), 1);
		assert_int_equal(number_at(counts, "Collectives"), 10);
	}
	rank = json_array_get(json_object_get(comm, "missing_ranks"), 0);
	assert_string_equal(json_string_value(json_object_get(rank, "host")), "further");
	assert_true(
		json_is_true(json_object_get(json_object_get(rank, "status"), "considered_dead")));
	assert_non_null(
		strstr(text, "         2         1         3         2   RUNNING  INCOMPLETE"));
	free(text);
	json_decref(root);
	json_decref(coll);
}

/* One that answers, and does not name the group any more, is a member that has left. */
static void tells_who_has_left(void **state)
{
	json_t *coll[3] = { coll_of(0, 9, "null"), parse("{'groups':[]}"), coll_of(2, 9, "null") };
	const struct ras_source sources[3] = { { 0, 100, true, false, coll[0], NULL },
					       { 1, 101, true, false, coll[1], NULL },
					       { 2, 102, true, false, coll[2], NULL } };
	const json_t *status;
	json_t *root;
	char *text;

	(void)state;
	root = report_of(sources, 3, NULL, &text);
	status = json_object_get(
		json_array_get(json_object_get(comm_of(root, 0), "missing_ranks"), 0), "status");
	assert_true(json_is_false(json_object_get(status, "unresponsive")));
	assert_non_null(strstr(text, "Rank 1: process 101 on 10.0.0.1, has left the group\n"));
	free(text);
	json_decref(root);
	for (int i = 0; i < 3; i++)
		json_decref(coll[i]);
}

/* Two groups of one number, as colours of a split have it, are two communicators. */
static void tells_groups_apart(void **state)
{
	json_t *coll[2] = { parse("{'groups':[{'group':3,'rank':0,'members':[0,2]}]}"),
			    parse("{'groups':[{'group':3,'rank':0,'members':[1,3]}]}") };
	const struct ras_source sources[2] = { { 0, 100, true, false, coll[0], NULL },
					       { 1, 101, true, false, coll[1], NULL } };
	json_t *root;
	char *text;

	(void)state;
	root = report_of(sources, 2, NULL, &text);
	assert_int_equal(number_at(root, "communicators_count"), 2);
	assert_string_not_equal(json_string_value(json_object_get(comm_of(root, 0), "hash")),
				json_string_value(json_object_get(comm_of(root, 1), "hash")));
	free(text);
	json_decref(root);
	json_decref(coll[0]);
	json_decref(coll[1]);
}

/* Another process says these: nothing of it is believed beyond what is asked for. */
static void survives_lies(void **state)
{
	static const char *const colls[] = {
		"{}",
		"{'groups':7}",
		"{'groups':[null,[],'x',{}]}",
		"{'groups':[{'group':-1,'rank':-5,'members':[-1,null,'x',1e9]}]}",
		"{'groups':[{'group':0,'rank':4000000000,'members':[0]}]}",
		"{'groups':[{'group':0,'rank':0,'members':[0],'label':7,'broken':7,'begun':[]}]}",
		("{'groups':[{'group':0,'rank':0,'members':[0],'label':'\\u001b[2J\\n',"
		 "'started':-1,'begun':{'all-reduce':-7}}]}"),
	};
	static const char *const verdicts[] = {
		"{}",
		"{'ranks':{},'findings':{}}",
		("{'ranks':[null,{'rank':'0'},{'rank':1,'answered':true,'host':7,'pid':'x',"
		 "'groups':[null,{}]}],'findings':[null,{'cause':7,'ranks':[null]}]}"),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(colls) / sizeof(colls[0]); i++) {
		json_t *coll = parse(colls[i]);
		const struct ras_source source = { 0, 0, true, false, coll, coll };

		for (size_t j = 0; j < sizeof(verdicts) / sizeof(verdicts[0]); j++) {
			char *text;
			json_t *root = report_of(&source, 1, verdicts[j], &text);

			assert_null(strchr(text, '\x1b'));
			free(text);
			json_decref(root);
		}
		json_decref(coll);
	}
}

/* Beyond the bound of ranks groups are left out, and it is said. */
static void is_bounded(void **state)
{
	json_t *coll = json_object(), *groups = json_array(), *root;
	const struct ras_source source = { 0, 1, true, false, coll, NULL };
	char *text;

	(void)state;
	for (int i = 0; i < 3; i++) {
		json_t *group = json_object(), *members = json_array();

		for (int j = 0; j < RAS_RANKS_MAX / 2; j++)
			json_array_append_new(members, json_integer(j));
		json_object_set_new(group, "group", json_integer(i));
		json_object_set_new(group, "members", members);
		json_array_append_new(groups, group);
	}
	json_object_set_new(coll, "groups", groups);
	root = report_of(&source, 1, NULL, &text);
	assert_int_equal(number_at(root, "communicators_count"), 2);
	assert_non_null(strstr(text, "and 1 more, which do not fit here\n"));
	free(text);
	json_decref(root);
	json_decref(coll);
}

/* --- the server --- */

/* A server, and a client that has connected and is not accepted yet. Returns its end. */
static int open_server(struct ras_server *server)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t bytes = sizeof(address);

	*server = (struct ras_server){ 0 };
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(fd, RAS_CLIENTS), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&address, bytes), 0);
	ras_server_init(server, fd);
	return client;
}

/* A turn in which all that the server polls for has come. */
static void turn_server(struct ras_server *server, struct pollfd *polled)
{
	ras_server_polls(server, polled);
	for (size_t i = 0; i < 1 + RAS_CLIENTS; i++)
		polled[i].revents = polled[i].fd >= 0 ? polled[i].events : 0;
	ras_server_turn(server, polled, 0);
	ras_server_polls(server, polled);
}

/* The connection stays in the queue, so the listener rests for a turn: else the loop would spin. */
static void rests_without_descriptors(void **state)
{
	struct pollfd polled[1 + RAS_CLIENTS];
	struct rlimit limit, none;
	struct ras_server server;
	int client = open_server(&server);

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	turn_server(&server, polled);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(polled[0].fd, -1);
	turn_server(&server, polled);
	assert_int_equal(polled[0].fd, server.fd);
	assert_int_equal(server.clients[0].fd, -1);
	turn_server(&server, polled);
	assert_true(server.clients[0].fd >= 0);
	ras_server_fini(&server);
	close(client);
}

/* Who sends and never reads is not read from either, once so much waits for him. */
static void bounds_what_waits(void **state)
{
	static char lines[RAS_LINE_BYTES];
	struct pollfd polled[1 + RAS_CLIENTS];
	struct ras_server server;
	int client = open_server(&server);
	size_t left = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(lines); i++)
		lines[i] = i % 2 == 0 ? 'x' : '\n';
	turn_server(&server, polled);
	for (int i = 0; i < 10000 && (polled[1].events & POLLIN) != 0; i++) {
		send(client, lines, sizeof(lines), MSG_DONTWAIT | MSG_NOSIGNAL);
		turn_server(&server, polled);
		left = server.clients[0].out_bytes - server.clients[0].out_sent;
		assert_true(left <= 2 * RAS_EVENT_BYTES);
	}
	assert_int_equal(polled[1].events, POLLOUT);
	assert_true(left > RAS_EVENT_BYTES);
	while (recv(client, lines, sizeof(lines), MSG_DONTWAIT) > 0)
		continue;
	turn_server(&server, polled);
	assert_int_equal(polled[1].events & POLLIN, POLLIN);
	ras_server_fini(&server);
	close(client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_lines),        cmocka_unit_test(remembers),
		cmocka_unit_test(tells_what_is_well),   cmocka_unit_test(tells_what_is_wrong),
		cmocka_unit_test(tells_of_other_hosts), cmocka_unit_test(tells_who_has_left),
		cmocka_unit_test(tells_groups_apart),   cmocka_unit_test(survives_lies),
		cmocka_unit_test(is_bounded),           cmocka_unit_test(rests_without_descriptors),
		cmocka_unit_test(bounds_what_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
