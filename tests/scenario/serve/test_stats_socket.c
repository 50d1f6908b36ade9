/* test_stats_socket.c - the stats socket as a client on the same machine sees it. */
#include "twt.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/stats.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "diag/serve/socket.h"

static char dir[64];

struct fixture {
	struct twi_diag *diag;
	struct twi_socket *socket;
};

static int setup(void **state)
{
	static struct fixture fixture;

	snprintf(dir, sizeof(dir), "/tmp/twt-stats-XXXXXX");
	if (mkdtemp(dir) == NULL || twi_diag_create(&fixture.diag) < 0)
		return -1;
	*state = &fixture;
	return twi_socket_open(fixture.diag, dir, "test", 3, &fixture.socket);
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	twi_socket_close(fixture->socket);
	fixture->socket = NULL;
	twi_diag_destroy(fixture->diag);
	return rmdir(dir); /* nothing may be left in it */
}

static int dial(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Sends `request`, returns all that comes until the other side hangs up, NUL-terminated. */
static char *talk(const char *path, const char *request, size_t *bytes_out)
{
	size_t room = 1 << 20, bytes = 0;
	char *text = malloc(room);
	int fd = dial(path);
	ssize_t got;

	assert_non_null(text);
	assert_true(fd >= 0);
	assert_true(send(fd, request, strlen(request), MSG_NOSIGNAL) >= 0);
	while ((got = recv(fd, text + bytes, room - 1 - bytes, 0)) > 0)
		bytes += (size_t)got;
	text[bytes] = '\0';
	if (bytes_out != NULL)
		*bytes_out = bytes;
	close(fd);
	return text;
}

static char *request(const char *socket_path, const char *method, const char *path)
{
	char head[512];

	snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nHost: towline\r\nConnection: close\r\n\r\n",
		 method, path);
	return talk(socket_path, head, NULL);
}

/* By a client's header. */
static char *metrics_as(const char *socket_path, const char *accept)
{
	char head[512];

	snprintf(
		head, sizeof(head),
		"GET /metrics HTTP/1.1\r\nHost: towline\r\nAccept: %s\r\nConnection: close\r\n\r\n",
		accept);
	return talk(socket_path, head, NULL);
}

static const char *body_of(const char *answer)
{
	const char *body = strstr(answer, "\r\n\r\n");

	assert_non_null(body);
	return body + 4;
}

static void gets_every_path(void **state)
{
	struct fixture *fixture = *state;
	const char *path = twi_socket_path(fixture->socket);
	char *answer = request(path, "GET", "/v1");
	json_t *root = json_loads(body_of(answer), 0, NULL), *row;
	size_t index;

	assert_non_null(root);
	assert_true(json_array_size(json_object_get(root, "paths")) >= 4);
	json_array_foreach(json_object_get(root, "paths"), index, row)
	{
		const char *name = json_string_value(json_object_get(row, "path"));
		char *text = request(path, "GET", name);

		assert_true(strncmp(text, "HTTP/1.1 200 ", 13) == 0);
		if (strcmp(name, "/metrics") == 0) {
			assert_non_null(strstr(text, "application/openmetrics-text"));
			assert_non_null(strstr(body_of(text), "\n# EOF\n"));
		} else {
			json_t *document = json_loads(body_of(text), 0, NULL);

			assert_non_null(strstr(text, "application/json"));
			assert_non_null(document);
			json_decref(document);
		}
		free(text);
	}
	json_decref(root);
	free(answer);
	assert_true(twi_counter_sum(fixture->diag, TWI_C_stats_requests) >= 5);
}

static void head_has_no_body(void **state)
{
	struct fixture *fixture = *state;
	char *answer = request(twi_socket_path(fixture->socket), "HEAD", "/v1/counters");

	assert_true(strncmp(answer, "HTTP/1.1 200 ", 13) == 0);
	assert_non_null(strstr(answer, "Content-Length: "));
	assert_string_equal(body_of(answer), "");
	free(answer);
}

static void refuses_the_rest(void **state)
{
	static const struct {
		const char *method, *path, *status;
	} rows[] = {
		{ "GET", "/v1/none", " 404 " },  { "HEAD", "/v1/none", " 404 " },
		{ "POST", "/v1/info", " 405 " }, { "DELETE", "/metrics", " 405 " },
		{ "PUT", "/v1/none", " 405 " },  { "OPTIONS", "*", " 405 " },
		{ "GET", "/v1/%00", " 404 " },
	};
	struct fixture *fixture = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *answer =
			request(twi_socket_path(fixture->socket), rows[i].method, rows[i].path);
		const char *body = body_of(answer);
		json_t *root = json_loads(body, 0, NULL);

		if (strstr(answer, rows[i].status) == NULL)
			fail_msg("%s %s: %s", rows[i].method, rows[i].path, answer);
		if (strcmp(rows[i].method, "HEAD") != 0)
			assert_true(json_is_string(json_object_get(root, "error")));
		if (strcmp(rows[i].status, " 405 ") == 0)
			assert_non_null(strstr(answer, "Allow: GET, HEAD"));
		if (strcmp(rows[i].status, " 404 ") == 0 && *body)
			assert_true(json_array_size(json_object_get(root, "paths")) >= 4);
		json_decref(root);
		free(answer);
	}
}

static void body_of_a_post_is_dropped(void **state)
{
	struct fixture *fixture = *state;
	char *answer = talk(twi_socket_path(fixture->socket),
			    "POST /v1/info HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
			    "Content-Length: 5\r\n\r\nhello",
			    NULL);

	assert_non_null(strstr(answer, " 405 "));
	free(answer);
}

static void still_works(struct fixture *fixture)
{
	char *answer = request(twi_socket_path(fixture->socket), "GET", "/v1/info");

	assert_true(strncmp(answer, "HTTP/1.1 200 ", 13) == 0);
	free(answer);
}

static void survives_garbage(void **state)
{
	static const char *const rows[] = {
		"\r\n\r\n",
		"nonsense\r\n\r\n",
		"GET\r\n\r\n",
		"GET / HTTP/9.9\r\n\r\n",
		"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
		"\xff\xfe\x01\x02\r\n\r\n",
		"GET /v1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	};
	struct fixture *fixture = *state;
	const char *path = twi_socket_path(fixture->socket);
	char *big = malloc(1 << 20);

	assert_non_null(big);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int fd = dial(path);

		assert_true(send(fd, rows[i], strlen(rows[i]), MSG_NOSIGNAL) > 0);
		shutdown(fd, SHUT_WR);
		while (recv(fd, big, 1 << 20, 0) > 0)
			continue;
		close(fd);
	}
	memset(big, 'a', 1 << 20);
	big[(1 << 20) - 1] = '\0';
	memcpy(big, "GET /", 5);
	free(talk(path, big, NULL)); /* a head without end is cut off, not stored */
	free(big);
	still_works(fixture);
}

static void silent_clients_are_hung_up(void **state)
{
	struct fixture *fixture = *state;
	struct pollfd silent = { .fd = dial(twi_socket_path(fixture->socket)), .events = POLLIN };
	char byte;

	still_works(fixture); /* it holds up nobody */
	assert_int_equal(poll(&silent, 1, (TWI_SOCKET_TIMEOUT_S + 5) * 1000), 1);
	while (recv(silent.fd, &byte, 1, 0) > 0)
		continue;
	close(silent.fd);
}

static void *quick_client(void *arg)
{
	for (int i = 0; i < 25; i++) {
		char *answer = request(arg, "GET", "/v1/counters");

		assert_true(strncmp(answer, "HTTP/1.1 200 ", 13) == 0);
		free(answer);
	}
	return NULL;
}

/* More connections at once than are served at once: the rest waits, none is lost. */
static void many_clients(void **state)
{
	struct fixture *fixture = *state;
	char *path = strdup(twi_socket_path(fixture->socket));
	pthread_t threads[4];
	int held[TWI_SOCKET_CONNECTIONS + 8], fds;

	assert_non_null(path);
	still_works(fixture);
	fds = twt_fd_count();
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, quick_client, path), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < TWI_SOCKET_CONNECTIONS + 8; i++)
		held[i] = dial(path);
	for (int i = 0; i < TWI_SOCKET_CONNECTIONS + 8; i++) {
		assert_true(held[i] >= 0);
		close(held[i]);
	}
	still_works(fixture);
	for (int i = 0; i < 100 && twt_fd_count() > fds; i++)
		usleep(10000);
	assert_true(twt_fd_count() <= fds);
	free(path);
}

static void is_private(void **state)
{
	struct fixture *fixture = *state;
	struct stat st;

	assert_int_equal(stat(twi_socket_path(fixture->socket), &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
}

/* Root is needed to be somebody else; the file is opened up so that only SO_PEERCRED is left. */
static void strangers_are_refused(void **state)
{
	struct fixture *fixture = *state;
	const char *path = twi_socket_path(fixture->socket);
	int status;
	pid_t child;

	if (geteuid() != 0) {
		print_message("skip: only root can become another user\n");
		skip();
	}
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(chmod(path, 0666), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		char byte;
		int fd = -1;

		if (setgid(65534) == 0 && setuid(65534) == 0)
			fd = dial(path);
		if (fd < 0)
			_exit(2);
		send(fd, "GET /v1 HTTP/1.0\r\n\r\n", 20, MSG_NOSIGNAL);
		_exit(recv(fd, &byte, 1, 0) > 0 ? 1 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(twi_counter_sum(fixture->diag, TWI_C_stats_refused), 1);
	assert_int_equal(chmod(dir, 0700), 0);
	still_works(fixture);
}

static void names_of_the_living_and_dead(void **state)
{
	struct fixture *fixture = *state;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct twi_socket *second, *third;
	char text[256];
	int fd;

	snprintf(text, sizeof(text), "%s/test.3.sock", dir);
	assert_string_equal(twi_socket_path(fixture->socket), text);
	assert_int_equal(twi_socket_open(fixture->diag, dir, "test", 3, &second), TOW_OK);
	snprintf(text, sizeof(text), "%s/test.3-2.sock", dir);
	assert_string_equal(twi_socket_path(second), text);
	twi_socket_close(second);
	assert_int_equal(access(text, F_OK), -1);
	/* A file that nobody listens behind, as a killed process leaves it. */
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/dead.0.sock", dir);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	assert_int_equal(twi_socket_open(fixture->diag, dir, "dead", 0, &third), TOW_OK);
	assert_string_equal(twi_socket_path(third), address.sun_path);
	free(request(address.sun_path, "GET", "/v1"));
	twi_socket_close(third);
	assert_int_equal(access(address.sun_path, F_OK), -1);
	assert_string_equal(twi_socket_path(NULL), "");
}

static void another_files_stay(void **state)
{
	struct fixture *fixture = *state;
	struct twi_socket *other;
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/file.0.sock", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	assert_int_equal(twi_socket_open(fixture->diag, dir, "file", 0, &other), TOW_OK);
	assert_non_null(strstr(twi_socket_path(other), "file.0-2.sock"));
	/* Somebody replaced our file: it is his. */
	assert_int_equal(rename(path, twi_socket_path(other)), 0);
	snprintf(path, sizeof(path), "%s", twi_socket_path(other));
	twi_socket_close(other);
	assert_int_equal(unlink(path), 0);
}

static void bad_directories(void **state)
{
	struct fixture *fixture = *state;
	struct twi_socket *other;
	char path[256];

	snprintf(path, sizeof(path), "%s/a/b", dir);
	assert_int_equal(twi_socket_open(fixture->diag, path, "x", 0, &other), TOW_ESYSTEM);
	assert_non_null(strstr(tow_error_message(), path));
	snprintf(path, sizeof(path), "%s/open", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0777), 0);
	assert_int_equal(twi_socket_open(fixture->diag, path, "x", 0, &other), TOW_EPERM);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(twi_socket_open(fixture->diag, path, "x", 0, &other), TOW_OK);
	twi_socket_close(other);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(twi_socket_open(fixture->diag, dir, "../x", 0, &other), TOW_EINVAL);
	memset(path, 'a', 200);
	memcpy(path, "/tmp/", 5);
	path[200] = '\0';
	assert_int_equal(twi_socket_open(fixture->diag, path, "x", 0, &other), TOW_EINVAL);
	rmdir(path);
}

static void default_directory(void **state)
{
	char path[256];

	(void)state;
	assert_int_equal(setenv("XDG_RUNTIME_DIR", "/some/where", 1), 0);
	assert_int_equal(tow_stats_dir(path, sizeof(path)), TOW_OK);
	assert_string_equal(path, "/some/where/towline");
	assert_int_equal(tow_stats_dir(path, 19), TOW_EINVAL);
	assert_int_equal(tow_stats_dir(NULL, 10), TOW_EINVAL);
	unsetenv("XDG_RUNTIME_DIR");
	assert_int_equal(tow_stats_dir(path, sizeof(path)), TOW_OK);
	assert_non_null(strstr(path, "/towline"));
}

static uint64_t gauge_value(void *arg)
{
	(void)arg;
	return 1;
}

/* The reference parser, where a Python has it. */
static void metrics_go_by_accept(void **state)
{
	struct fixture *fixture = *state;
	const char *path = twi_socket_path(fixture->socket);
	char *plain = metrics_as(path, "text/plain"), *open = metrics_as(path, "*/*");

	assert_non_null(strstr(plain, "Content-Type: text/plain; version=0.0.4"));
	assert_non_null(strstr(body_of(plain), "\n# TYPE towline_sends_total counter\n"));
	assert_null(strstr(body_of(plain), "# EOF"));
	assert_non_null(strstr(open, "Content-Type: application/openmetrics-text"));
	assert_non_null(strstr(body_of(open), "\n# EOF\n"));
	free(plain);
	free(open);
}

static void metrics_are_openmetrics(void **state)
{
	static const char *const pythons[] = { "python3", "/usr/bin/python3" };
	static const char probe[] = " -c 'import prometheus_client.openmetrics.parser' 2>/dev/null";
	static const char check[] =
		" -c 'import sys; from prometheus_client.openmetrics.parser import "
		"text_string_to_metric_families as p; f = list(p(sys.stdin.read())); "
		"sys.exit(0 if len(f) > 20 and all(m.documentation for m in f) else 1)'";
	struct fixture *fixture = *state;
	const struct twi_gauge gauge = { "some_room", "bytes", "h", gauge_value, NULL };
	char command[512], *answer;
	FILE *python;

	twi_registry_gauge(fixture->diag, &gauge);
	for (unsigned i = 0; i < 200; i++)
		twi_latency_record(fixture->diag, i % TWI_LANE_COUNT, 1ull << i % 30,
				   1ull << i % 41);
	twi_copy_record(fixture->diag, 0, 100, 1000, TWI_SITE_NONE);
	for (size_t i = 0; i < 2; i++) {
		snprintf(command, sizeof(command), "%s%s", pythons[i], probe);
		if (system(command) != 0)
			continue;
		snprintf(command, sizeof(command), "%s%s", pythons[i], check);
		answer = request(twi_socket_path(fixture->socket), "GET", "/metrics");
		python = popen(command, "w");
		assert_non_null(python);
		fputs(body_of(answer), python);
		assert_int_equal(pclose(python), 0);
		free(answer);
		return;
	}
	print_message("skip: no python3 with prometheus_client\n");
	skip();
}

static void closes_at_once(void **state)
{
	struct fixture *fixture = *state;
	int fd = dial(twi_socket_path(fixture->socket));
	uint64_t start = twi_now_ns();

	twi_socket_close(fixture->socket);
	fixture->socket = NULL;
	assert_true(twi_now_ns() - start < 2000000000u);
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(gets_every_path),       TEST(head_has_no_body),
		TEST(refuses_the_rest),      TEST(body_of_a_post_is_dropped),
		TEST(survives_garbage),      TEST(silent_clients_are_hung_up),
		TEST(many_clients),          TEST(is_private),
		TEST(strangers_are_refused), TEST(names_of_the_living_and_dead),
		TEST(another_files_stay),    TEST(bad_directories),
		TEST(metrics_go_by_accept),  TEST(metrics_are_openmetrics),
		TEST(closes_at_once),        cmocka_unit_test(default_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
