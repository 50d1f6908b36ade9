/*
 * test_capture.c - captures over the stats socket: others are served meanwhile, there are only so
 * many at once, who hangs up ends his, and a socket that closes ends all.
 */
#include "twt.h"

#include <jansson.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/serve/captures.h"
#include "diag/serve/socket.h"

#define MS 1000000u

static char dir[64];
static struct twi_diag *diag;
static struct twi_socket *server;
static atomic_int under_way, finished, abandoned;
static atomic_int finish_status;

/* Takes as many milliseconds as seconds are asked for, but for 60, which is for ever. */
static int start(void *arg, int64_t seconds, void **session_out, uint64_t *wait_ns_out)
{
	(void)arg;
	*session_out = &under_way;
	*wait_ns_out = seconds == 60 ? (uint64_t)600 * 1000 * MS
				     : (uint64_t)(seconds < 0 ? 0 : seconds) * MS;
	atomic_fetch_add(&under_way, 1);
	return TOW_OK;
}

static int finish(void *arg, void *session, char **bytes_out, size_t *count_out)
{
	(void)arg;
	assert_ptr_equal(session, &under_way);
	atomic_fetch_sub(&under_way, 1);
	atomic_fetch_add(bytes_out != NULL ? &finished : &abandoned, 1);
	if (bytes_out == NULL || atomic_load(&finish_status) < 0)
		return atomic_load(&finish_status);
	*bytes_out = malloc(100000);
	*count_out = 100000;
	memset(*bytes_out, 0, 100000);
	return TOW_OK;
}

static const struct twi_capture source = { .path = "/v1/long",
					   .help = "takes time",
					   .content_type = "application/octet-stream",
					   .seconds_max = 60,
					   .start = start,
					   .finish = finish };

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-capture-XXXXXX");
	atomic_store(&finished, 0);
	atomic_store(&abandoned, 0);
	atomic_store(&finish_status, TOW_OK);
	if (mkdtemp(dir) == NULL || twi_diag_create(&diag) < 0 ||
	    twi_registry_capture(diag, &source) < 0)
		return -1;
	return twi_socket_open(diag, dir, "test", 0, &server);
}

static int teardown(void **state)
{
	(void)state;
	twi_socket_close(server);
	server = NULL;
	twi_registry_capture_remove(diag, source.path, NULL);
	twi_diag_destroy(diag);
	return atomic_load(&under_way) != 0 ? -1 : rmdir(dir);
}

/* Sends a request and leaves it at that. */
static int ask(const char *method, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char head[512];

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", twi_socket_path(server));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
		 method, path);
	assert_int_equal(send(fd, head, strlen(head), MSG_NOSIGNAL), strlen(head));
	return fd;
}

/* All that comes; the caller's to free. */
static char *hear(int fd, size_t *bytes_out)
{
	size_t room = 1 << 18, bytes = 0;
	char *text = malloc(room);
	ssize_t got;

	assert_non_null(text);
	while ((got = recv(fd, text + bytes, room - 1 - bytes, 0)) > 0)
		bytes += (size_t)got;
	text[bytes] = '\0';
	close(fd);
	if (bytes_out != NULL)
		*bytes_out = bytes;
	return text;
}

static void expect(const char *method, const char *path, const char *status, const char *words)
{
	char *text = hear(ask(method, path), NULL);

	if (strncmp(text, "HTTP/1.1 ", 9) != 0 || strncmp(text + 9, status, 3) != 0 ||
	    strstr(text, words) == NULL)
		fail_msg("%s %s: wanted %s with %s:\n%s", method, path, status, words, text);
	free(text);
}

/* Until `counter` is `value`; the test's own alarm ends a wait that is in vain. */
static void await_value(atomic_int *counter, int value)
{
	alarm(20);
	while (atomic_load(counter) != value)
		usleep(1000);
	alarm(0);
}

static void answers_bytes(void **state)
{
	static const char *const paths[] = { "/v1/long", "/v1/long?seconds=0",
					     "/v1/long?seconds=50" };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		size_t bytes;
		char *text = hear(ask("GET", paths[i]), &bytes);
		char *body = strstr(text, "\r\n\r\n");

		assert_true(strncmp(text, "HTTP/1.1 200 ", 13) == 0);
		assert_non_null(strstr(text, "application/octet-stream"));
		assert_non_null(strstr(text, "Content-Length: 100000\r\n"));
		assert_non_null(body);
		assert_int_equal(bytes - (size_t)(body + 4 - text), 100000);
		free(text);
	}
	assert_int_equal(finished, 3);
	expect("GET", "/v1", "200", "\"/v1/long\"");
}

static void bad_queries(void **state)
{
	(void)state;
	expect("GET", "/v1/long?seconds=61", "400", "61");
	expect("GET", "/v1/long?seconds=-1", "400", "-1");
	expect("GET", "/v1/long?seconds=", "400", "seconds is ''");
	expect("GET", "/v1/long?seconds", "400", "seconds is ''");
	expect("GET", "/v1/long?seconds=1e1", "400", "1e1");
	expect("GET", "/v1/long?seconds=99999999999999999999", "400", "whole number");
	expect("GET", "/v1/long?seconds=1&seconds=1", "400", "twice");
	expect("GET", "/v1/long?format=%22", "400", "format");
	expect("GET", "/v1/long?a&b&c&d&e&f&g&h&i", "400", "more than");
	expect("HEAD", "/v1/long?x=1", "400", "Content-Type");
	expect("POST", "/v1/long", "405", "Allow");
	expect("GET", "/v1/info?x=1", "200", "version"); /* documents have no parameters */
	assert_int_equal(under_way, 0);
	assert_int_equal(finished + abandoned, 0);
}

static void head_captures_nothing(void **state)
{
	char *text = hear(ask("HEAD", "/v1/long?seconds=60"), NULL);

	(void)state;
	assert_true(strncmp(text, "HTTP/1.1 200 ", 13) == 0);
	assert_non_null(strstr(text, "application/octet-stream"));
	assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
	assert_int_equal(finished + abandoned + under_way, 0);
	free(text);
}

/* With all places taken: documents are served, a capture more is not; then one is free again. */
static void others_are_served(void **state)
{
	int held[TWI_CAPTURES_MAX];

	(void)state;
	for (int i = 0; i < TWI_CAPTURES_MAX; i++)
		held[i] = ask("GET", "/v1/long?seconds=60");
	await_value(&under_way, TWI_CAPTURES_MAX);
	for (int i = 0; i < 10; i++)
		expect("GET", "/v1/counters", "200", "counters");
	expect("GET", "/v1/long?seconds=1", "503", "Retry-After: ");
	expect("HEAD", "/v1/long", "200", "octet-stream");
	close(held[0]); /* gone: its capture ends long before its time */
	await_value(&abandoned, 1);
	for (int i = 0; i < 200; i++) {
		char *text = hear(ask("GET", "/v1/long?seconds=1"), NULL);
		bool served = strncmp(text, "HTTP/1.1 200 ", 13) == 0;

		free(text);
		if (served)
			break;
		assert_int_not_equal(i, 199);
		usleep(10000);
	}
	for (int i = 1; i < TWI_CAPTURES_MAX; i++)
		close(held[i]);
	await_value(&under_way, 0);
	assert_int_equal(abandoned, TWI_CAPTURES_MAX);
}

/* One that has ended its sending is gone, too: its capture does not wait for its time. */
static void half_closed_is_gone(void **state)
{
	int fd = ask("GET", "/v1/long?seconds=60");

	(void)state;
	shutdown(fd, SHUT_WR);
	free(hear(fd, NULL));
	await_value(&abandoned, 1);
	expect("GET", "/v1/info", "200", "version");
}

static void close_ends_all(void **state)
{
	int held[TWI_CAPTURES_MAX];

	(void)state;
	for (int i = 0; i < TWI_CAPTURES_MAX; i++)
		held[i] = ask("GET", "/v1/long?seconds=60");
	alarm(20);
	while (atomic_load(&under_way) < 2) /* the others are on their way: that is the test */
		sched_yield();
	twi_socket_close(server);
	alarm(0);
	server = NULL;
	assert_int_equal(under_way, 0);
	assert_int_equal(finished, 0);
	for (int i = 0; i < TWI_CAPTURES_MAX; i++)
		free(hear(held[i], NULL));
}

/* Opened, asked and closed at once, again and again: whatever state it is in, it ends. */
static void closes_in_any_state(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		int fd = ask("GET", i % 2 ? "/v1/long?seconds=60" : "/v1/long?seconds=2");

		usleep((useconds_t)(i % 7) * 500);
		alarm(20);
		twi_socket_close(server);
		alarm(0);
		free(hear(fd, NULL));
		assert_int_equal(under_way, 0);
		assert_int_equal(twi_socket_open(diag, dir, "test", 0, &server), TOW_OK);
	}
}

static void failed_finish_is_told(void **state)
{
	(void)state;
	atomic_store(&finish_status, TOW_ENOMEM);
	expect("GET", "/v1/long", "500", "no memory");
	atomic_store(&finish_status, TOW_OK);
	expect("GET", "/v1/long", "200", "octet-stream");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(answers_bytes),       TEST(bad_queries),           TEST(head_captures_nothing),
		TEST(others_are_served),   TEST(half_closed_is_gone),   TEST(close_ends_all),
		TEST(closes_in_any_state), TEST(failed_finish_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
