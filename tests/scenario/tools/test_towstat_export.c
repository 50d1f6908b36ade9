/*
 * test_towstat_export.c - towstat export over good ranks and bad ones: who is up, what the official
 * parser says, that a bad one costs one bounded time; who owns an address, and who takes it over.
 */
#include "twt.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "diag/record/diag.h"
#include "diag/serve/socket.h"

#define HEAD "HTTP/1.1 200 OK\r\n\r\n"

static char dir[64];
static struct twi_diag *diags[2];
static struct twi_socket *sockets[2];
static struct twt_command *command;
static atomic_bool stop;

/* A socket that answers whatever is asked with `text`: its body once, for ever, byte by byte. */
struct liar {
	const char *name, *text;
	enum { ONCE, ENDLESS, SLOWLY, DEAF } kind; /* DEAF: it never accepts */
	int fd;
	pthread_t thread;
};

static struct liar liars[] = {
	{ "html.0", HEAD "<html>\n", ONCE, -1, 0 },
	{ "cut.0", HEAD "# TYPE a gauge\na 1\n", ONCE, -1, 0 },
	{ "short.0", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", ONCE, -1, 0 },
	{ "types.0", HEAD "# TYPE towline_sends gauge\ntowline_sends 1\n# EOF\n", ONCE, -1, 0 },
	{ "huge.0", HEAD "{\"a\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}", ENDLESS, -1, 0 },
	{ "deep.0", HEAD "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", ENDLESS, -1, 0 },
	{ "slow.0", HEAD "# TYPE a gauge\n", SLOWLY, -1, 0 },
	{ "deaf.0", HEAD, DEAF, -1, 0 },
};
#define LIARS (sizeof(liars) / sizeof(liars[0]))

/* The same body for ever, in large pieces. */
static void tell_endless(int fd, const char *body)
{
	static const size_t room = 1 << 16;
	char *text = malloc(room);
	size_t bytes = strlen(body);
	ssize_t sent = 0;

	assert_non_null(text);
	for (size_t at = 0; at < room; at++)
		text[at] = body[at % bytes];
	while (!atomic_load(&stop) && (sent >= 0 || errno == EAGAIN)) {
		sent = send(fd, text, room, MSG_NOSIGNAL | MSG_DONTWAIT);
		usleep(1000);
	}
	free(text);
}

static void tell_slowly(int fd, const char *body)
{
	ssize_t sent = 1;

	for (size_t at = 0; !atomic_load(&stop) && sent > 0; at = (at + 1) % strlen(body)) {
		sent = send(fd, body + at, 1, MSG_NOSIGNAL);
		usleep(20000);
	}
}

static void tell(const struct liar *liar, int fd)
{
	const char *body = strstr(liar->text, "\r\n\r\n") + 4;
	size_t head = (size_t)(body - liar->text);
	char request[512];

	recv(fd, request, sizeof(request), 0);
	send(fd, liar->text, liar->kind == ONCE ? strlen(liar->text) : head, MSG_NOSIGNAL);
	if (liar->kind == ENDLESS)
		tell_endless(fd, body);
	else if (liar->kind == SLOWLY)
		tell_slowly(fd, body);
}

static void *lie(void *arg)
{
	struct liar *liar = arg;

	while (!atomic_load(&stop)) {
		struct pollfd polled = { liar->fd, POLLIN, 0 };
		int fd;

		if (poll(&polled, 1, 20) <= 0)
			continue;
		fd = accept4(liar->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		tell(liar, fd);
		close(fd);
	}
	return NULL;
}

static int bind_at(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s.sock", dir, name);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void start_liar(struct liar *liar)
{
	liar->fd = bind_at(liar->name);
	assert_int_equal(listen(liar->fd, 16), 0);
	if (liar->kind != DEAF)
		assert_int_equal(pthread_create(&liar->thread, NULL, lie, liar), 0);
}

static int setup(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		if (twi_diag_create(&diags[i]) < 0 ||
		    twi_socket_open(diags[i], dir, "job", i, &sockets[i]) < 0)
			return -1;
		twi_count(diags[i], TWI_C_sends, 10 + (uint64_t)i);
	}
	for (int i = 0; i < 100; i++)
		twi_latency_record(diags[1], TWI_LANE_TCP, 1ull << i % 20, 1ull << i % 30);
	/* Another lane's socket, and a dead rank's: neither is told of. */
	close(bind_at("shm-1-2"));
	close(bind_at("dead.0"));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		twi_socket_close(sockets[i]);
		twi_diag_destroy(diags[i]);
	}
	return 0;
}

static int start_liars(void **state)
{
	(void)state;
	atomic_store(&stop, false);
	for (size_t i = 0; i < LIARS; i++)
		start_liar(&liars[i]);
	return 0;
}

static int end_liars(void **state)
{
	char path[128];

	(void)state;
	atomic_store(&stop, true);
	for (size_t i = 0; i < LIARS; i++) {
		if (liars[i].kind != DEAF)
			pthread_join(liars[i].thread, NULL);
		close(liars[i].fd);
		snprintf(path, sizeof(path), "%s/%s.sock", dir, liars[i].name);
		unlink(path);
	}
	return 0;
}

/* --- an exporter --- */

struct exporter {
	pid_t pid;
	FILE *output;
	char line[256]; /* the last that was read */
};

static void export_line(struct exporter *exporter)
{
	assert_non_null(fgets(exporter->line, sizeof(exporter->line), exporter->output));
}

static void export_open(struct exporter *exporter, const char *listen, const char *last)
{
	const char *build = getenv("TOW_TEST_BUILD");
	char program[256];
	int pipes[2];

	snprintf(program, sizeof(program), "%s/tools/towstat/towstat", build != NULL ? build : ".");
	assert_int_equal(pipe(pipes), 0);
	fflush(stdout);
	exporter->pid = fork();
	if (exporter->pid == 0) {
		alarm(60);
		dup2(pipes[1], 1);
		close(pipes[0]);
		close(pipes[1]);
		execl(program, program, "export", "--listen", listen, "--timeout", "1",
		      "--lock-dir", dir, last, NULL);
		_exit(127);
	}
	close(pipes[1]);
	exporter->output = fdopen(pipes[0], "r");
	assert_non_null(exporter->output);
	export_line(exporter);
}

static int export_end(struct exporter *exporter, int number)
{
	int status = 0;

	kill(exporter->pid, number);
	for (int i = 0; i < 1000 && waitpid(exporter->pid, &status, WNOHANG) == 0; i++)
		usleep(10000);
	fclose(exporter->output);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* "towstat: serves http://127.0.0.1:PORT/metrics" */
static const char *url_of(struct exporter *exporter)
{
	char *url = strstr(exporter->line, "http://");

	if (url == NULL)
		fail_msg("%s", exporter->line);
	url[strcspn(url, "\n")] = '\0';
	return url;
}

static void scrape(struct exporter *exporter, const char *options)
{
	char line[512];

	snprintf(line, sizeof(line), "curl -s --max-time 20 %s %s", options, url_of(exporter));
	twt_command(line, command);
}

static void tells_who_is_up(void **state)
{
	struct exporter exporter;

	(void)state;
	export_open(&exporter, "127.0.0.1:0", NULL);
	for (int i = 0; i < 2; i++) {
		scrape(&exporter, "-D -");
		twt_command_expect(command, 0, "application/openmetrics-text; version=1.0.0", 1);
		twt_command_expect(command, 0, "\ntowline_up{tow_job=\"job\",rank=\"0\"} 1", 1);
		twt_command_expect(command, 0, "\ntowline_up{tow_job=\"job\",rank=\"1\"} 1", 1);
		twt_command_expect(command, 0, "\ntowline_up{tow_job=\"slow\",rank=\"0\"} 0", 1);
		twt_command_expect(command, 0, "\ntowline_up{tow_job=\"deaf\",rank=\"0\"} 0", 1);
		twt_command_expect(command, 0, "\ntowline_up{tow_job=\"huge\",rank=\"0\"} 0", 1);
		twt_command_expect(command, 0, "\ntowline_up{tow_job=\"cut\",rank=\"0\"} 0", 1);
		twt_command_expect(command, 0, "\ntowline_up{tow_job=\"short\",rank=\"0\"} 0", 1);
		twt_command_expect(command, 0, "\ntowline_up{tow_job=\"types\",rank=\"0\"} 1", 1);
		twt_command_expect(command, 0, "\ntowline_up{", 10); /* no shm, no dead one */
		twt_command_expect(command, 0, "# TYPE towline_sends ", 1);
		twt_command_expect(command, 0,
				   "\ntowline_sends_total{tow_job=\"job\",rank=\"1\"} 11", 1);
		twt_command_expect(command, 0, "\ntowline_sends{", 0);
		twt_command_expect(command, 0, "\n# EOF\n", 1);
	}
	scrape(&exporter, "-D - -H 'Accept: text/plain'");
	twt_command_expect(command, 0, "text/plain; version=0.0.4", 1);
	twt_command_expect(command, 0, "\n# TYPE towline_sends_total counter\n", 1);
	twt_command_expect(command, 0, "\n# EOF\n", 0);
	twt_command_expect(command, 0, "\n# UNIT ", 0);
	twt_command_expect(command, 0, " # {", 0);
	twt_command_expect(command, 0, "\ntowline_up{", 10);
	scrape(&exporter, "-o /dev/null -w '%{http_code}' -X POST -d x");
	assert_string_equal(command->text, "405");
	scrape(&exporter, "-o /dev/null -w '%{http_code}' -I");
	assert_string_equal(command->text, "200");
	scrape(&exporter,
	       "-o /dev/null -w '%{http_code}' --path-as-is -G --data-urlencode x=/../..");
	assert_string_equal(command->text, "200");
	assert_int_equal(export_end(&exporter, SIGTERM), 0);
}

/* The official parser reads it, where a Python has it. */
static void passes_the_parser(void **state)
{
	struct exporter exporter;
	char line[1024];
	int found = 0;

	(void)state;
	export_open(&exporter, "127.0.0.1:0", NULL);
	for (int i = 0; i < 2 && found == 0; i++) {
		const char *python = i == 0 ? "python3" : "/usr/bin/python3";

		snprintf(line, sizeof(line),
			 "%s -c 'import prometheus_client.openmetrics.parser' 2>/dev/null", python);
		twt_command(line, command);
		if (command->status != 0)
			continue;
		found = 1;
		snprintf(line, sizeof(line),
			 "curl -s --max-time 20 %s | %s -c 'import sys\n"
			 "from prometheus_client.openmetrics.parser import "
			 "text_string_to_metric_families as p\n"
			 "f = list(p(sys.stdin.read()))\n"
			 "ranks = {s.labels.get(\"rank\") for m in f for s in m.samples}\n"
			 "print(len(f) > 20, sorted(ranks, key=str))'",
			 url_of(&exporter), python);
		twt_command(line, command);
		twt_command_expect(command, 0, "True ['0', '1', None]", 1);
	}
	assert_int_equal(export_end(&exporter, SIGINT), 0);
	if (found == 0) {
		print_message("skip: no python3 with prometheus_client\n");
		skip();
	}
}

/* Many at once share readings, and all are answered; clients that say nothing are no matter. */
static void serves_many(void **state)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct exporter exporter;
	char line[512];
	int silent[8];

	(void)state;
	export_open(&exporter, "127.0.0.1:0", NULL);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons((uint16_t)atoi(strrchr(url_of(&exporter), ':') + 1));
	for (size_t i = 0; i < 8; i++) {
		silent[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(silent[i], (struct sockaddr *)&address, sizeof(address)),
				 0);
		if (i % 2 == 0) /* asks, and does not read */
			assert_true(send(silent[i], "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 34,
					 MSG_NOSIGNAL) == 34);
	}
	snprintf(line, sizeof(line),
		 "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do "
		 "curl -s --max-time 20 %s | grep -c '^# EOF' & done; wait",
		 url_of(&exporter));
	twt_command(line, command);
	twt_command_expect(command, 0, "1\n", 12);
	for (size_t i = 0; i < 8; i++)
		close(silent[i]);
	scrape(&exporter, "");
	twt_command_expect(command, 0, "\n# EOF\n", 1);
	assert_int_equal(export_end(&exporter, SIGTERM), 0);
}

static int free_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	close(fd);
	return ntohs(address.sin_port);
}

static void takes_over(void **state)
{
	struct exporter first, second, third;
	char listen[32], owner[64];

	(void)state;
	snprintf(listen, sizeof(listen), "127.0.0.1:%d", free_port());
	export_open(&first, listen, NULL);
	url_of(&first);
	snprintf(owner, sizeof(owner), "process %d is the exporter", (int)first.pid);
	export_open(&second, listen, NULL);
	if (strstr(second.line, owner) == NULL)
		fail_msg("%s", second.line);
	assert_int_equal(export_end(&second, 0), 0);
	export_open(&third, listen, "--wait");
	assert_non_null(strstr(third.line, "waiting to take over"));
	assert_int_equal(export_end(&first, SIGKILL), 137);
	export_line(&third);
	url_of(&third);
	scrape(&third, "");
	twt_command_expect(command, 0, "\n# EOF\n", 1);
	assert_int_equal(export_end(&third, SIGTERM), 0);
}

/* The others that ask all: what is bad is said, nothing is harmed, and it ends. */
static void others_survive(void **state)
{
	(void)state;
	twt_command("@/tools/towstat/towstat get /v1/counters --all --timeout 1 --select "
		    "counters.sends",
		    command);
	twt_command_expect(command, 1, "\"document\": 1", 2);
	twt_command_expect(command, 1, "\"error\"", 8);
	twt_command_expect(command, 1, "no JSON", 3);
	twt_command("@/tools/towstat/towstat top --once --interval 0.1 --timeout 1", command);
	twt_command_expect(command, 0, "\njob.", 2);
	/* And those without end, unless their time is over before they are too large. */
	assert_in_range(twt_command_count(command, "not understood for"), 4, 6);
	twt_command_expect(command, 0, " 2 up ", 1);
	/* Nobody tells a verdict, and nothing looks as if somebody had. */
	twt_command_expect(command, 0, "job: not known\n", 1);
	twt_command_expect(command, 0, " ?  ", 2);
}

/* One rank of the job is asked, and what it says stands beside all of them. */
static void tells_verdicts(void **state)
{
	static struct liar judge = {
		"judge.3",
		HEAD "{\"paths\":[{\"path\":\"/v1/counters\"},{\"path\":\"/v1/verdict\"}],"
		     "\"counters\":{\"sends\":1},\"state\":\"stuck\",\"short\":\"rank 3 never "
		     "entered\",\"findings\":[{\"ranks\":[3]}]}",
		ONCE, -1, 0
	};
	char path[128];

	(void)state;
	atomic_store(&stop, false);
	start_liar(&judge);
	twt_command("@/tools/towstat/towstat top --once --interval 0.1 --filter 'never entered'",
		    command);
	twt_command_expect(command, 0, "judge: stuck: rank 3 never entered\n", 1);
	twt_command_expect(command, 0, "\njudge.3    stuck ", 1);
	atomic_store(&stop, true);
	pthread_join(judge.thread, NULL);
	close(judge.fd);
	snprintf(path, sizeof(path), "%s/judge.3.sock", dir);
	unlink(path);
}

static void misuse(void **state)
{
	static const char *const wrong[] = { "9464", "host:x",          "127.0.0.1:",
					     ":1",   "127.0.0.1:65536", "../x:1" };
	char line[256];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(line, sizeof(line), "@/tools/towstat/towstat export --listen %s",
			 wrong[i]);
		twt_command(line, command);
		twt_command_expect(command, 2, "ADDRESS:PORT", 1);
	}
	twt_command(
		"@/tools/towstat/towstat export --listen no.such.host:1 --lock-dir $TOW_STATS_DIR",
		command);
	twt_command_expect(command, 1, "not a numeric address", 1);
	twt_command("@/tools/towstat/towstat export --listen 127.0.0.1:1 --lock-dir /tmp", command);
	twt_command_expect(command, 1, "belongs to this user alone", 1);
	twt_command("@/tools/towstat/towstat export --timeout 0", command);
	twt_command_expect(command, 2, "--timeout", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(tells_who_is_up, start_liars, end_liars),
		cmocka_unit_test_setup_teardown(others_survive, start_liars, end_liars),
		cmocka_unit_test(passes_the_parser),
		cmocka_unit_test(serves_many),
		cmocka_unit_test(takes_over),
		cmocka_unit_test(tells_verdicts),
		cmocka_unit_test(misuse),
	};
	int failed;

	signal(SIGPIPE, SIG_IGN);
	command = malloc(sizeof(*command));
	snprintf(dir, sizeof(dir), "/tmp/twt-export-XXXXXX");
	if (command == NULL || mkdtemp(dir) == NULL)
		return 1;
	setenv("TOW_STATS_DIR", dir, 1);
	failed = cmocka_run_group_tests(tests, setup, teardown);
	free(command);
	if (fork() == 0)
		execlp("rm", "rm", "-rf", dir, NULL);
	wait(NULL);
	return failed;
}
