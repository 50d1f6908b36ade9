/* test_stats_listen.c - the stats over TCP: nothing without the token, and nothing harms. */
#include "twt.h"

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include <towline/towline.h>

#include "client.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "diag/serve/socket.h"
#include "diag/serve/token.h"

#define DRIPS 40
#define TOKEN "s3cret-token_of~the.test"

static char dir[64];

struct fixture {
	struct twi_diag *diag;
	struct twi_socket *socket;
	const char *address;
};

static int setup(void **state)
{
	static struct fixture fixture;

	snprintf(dir, sizeof(dir), "/tmp/twt-listen-XXXXXX");
	if (mkdtemp(dir) == NULL || twi_diag_create(&fixture.diag) < 0 ||
	    twi_socket_open(fixture.diag, dir, "test", 0, &fixture.socket) < 0)
		return -1;
	*state = &fixture;
	if (twi_socket_listen(fixture.socket, "127.0.0.1:0", TOKEN, "") < 0)
		return -1;
	fixture.address = twi_socket_address(fixture.socket);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	twi_socket_close(fixture->socket);
	twi_diag_destroy(fixture->diag);
	return rmdir(dir);
}

static char *get(const struct fixture *fixture, const char *path, const char *headers)
{
	char request[1024];

	snprintf(request, sizeof(request),
		 "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n", path, headers);
	return twt_talk(twt_dial_tcp(fixture->address), request);
}

static int status_of(const struct fixture *fixture, const char *path, const char *headers)
{
	char *answer = get(fixture, path, headers);
	int status = twt_http_status(answer);

	assert_null(strstr(answer, TOKEN));
	if (status != 200)
		assert_null(strstr(answer, "\"counters\""));
	free(answer);
	return status;
}

static uint64_t counter(const struct fixture *fixture, enum twi_counter which)
{
	return twi_counter_sum(fixture->diag, which);
}

static void token_opens(void **state)
{
	const struct fixture *fixture = *state;
	char *answer = get(fixture, "/v1/counters", "Authorization: Bearer " TOKEN "\r\n");
	json_t *root = json_loads(twt_body(answer), 0, NULL);

	assert_int_equal(twt_http_status(answer), 200);
	assert_true(json_is_object(json_object_get(root, "counters")));
	json_decref(root);
	free(answer);
	assert_int_equal(status_of(fixture, "/v1/counters?token=" TOKEN, ""), 200);
	assert_int_equal(status_of(fixture, "/metrics?token=" TOKEN, ""), 200);
	assert_int_equal(status_of(fixture, "/v1/none?token=" TOKEN, ""), 404);
	assert_int_equal(counter(fixture, TWI_C_stats_token_refused), 0);
	assert_int_equal(counter(fixture, TWI_C_stats_requests), 4);
	/* the unix socket needs none */
	answer = twt_talk(twt_dial(twi_socket_path(fixture->socket), SOCK_STREAM),
			  "GET /v1/counters HTTP/1.0\r\n\r\n");
	assert_int_equal(twt_http_status(answer), 200);
	free(answer);
}

static void nothing_without(void **state)
{
	static const char *const paths[] = { "/",
					     "/v1/counters",
					     "/metrics",
					     "/v1/counters?token=",
					     "/v1/counters?token=wrong",
					     "/v1/counters?token=" TOKEN "x",
					     "/v1/counters?token",
					     "/v1/counters?x=1&token=s3cret-token_of~the.tes" };
	const struct fixture *fixture = *state;
	char *answer;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		assert_int_equal(status_of(fixture, paths[i], ""), 401);
	/* a header counts more than the URL */
	assert_int_equal(status_of(fixture, "/v1?token=" TOKEN, "Authorization: Bearer x\r\n"),
			 401);
	assert_int_equal(status_of(fixture, "/v1?token=" TOKEN, "Authorization: Basic eA==\r\n"),
			 401);
	assert_int_equal(counter(fixture, TWI_C_stats_token_refused), 10);
	assert_int_equal(counter(fixture, TWI_C_stats_requests), 0);
	answer = get(fixture, "/v1", "");
	assert_non_null(strstr(answer, "WWW-Authenticate: Bearer"));
	free(answer);
	/* what is no GET is refused as well, before its body is read */
	answer = twt_talk(twt_dial_tcp(fixture->address),
			  "POST /v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc");
	assert_int_equal(twt_http_status(answer), 401);
	free(answer);
}

static void guessers_wait(void **state)
{
	const struct fixture *fixture = *state;
	char *answer;
	int refused = 0;

	for (unsigned i = 0; i < TWI_THROTTLE_BURST; i++)
		assert_int_equal(status_of(fixture, "/v1?token=0123456789abcdef", ""), 401);
	for (unsigned i = 0; i < 20 && refused != 429; i++)
		refused = status_of(fixture, "/v1?token=0123456789abcdef", "");
	assert_int_equal(refused, 429);
	assert_true(counter(fixture, TWI_C_stats_throttled) >= 1);
	answer = get(fixture, "/v1", "");
	if (twt_http_status(answer) == 429)
		assert_non_null(strstr(answer, "Retry-After: "));
	free(answer);
	/* Who knows the token is not kept out by who guesses behind the same address. */
	for (unsigned i = 0; i < 50; i++) {
		status_of(fixture, "/v1?token=0123456789abcdef", "");
		assert_int_equal(status_of(fixture, "/v1?token=" TOKEN, ""), 200);
	}
}

static atomic_bool dripping;

/* One byte of a head on each, again and again, so that none is ever idle for long. */
static void *drip(void *arg)
{
	const int *fds = arg;

	while (atomic_load(&dripping)) {
		for (int i = 0; i < DRIPS; i++)
			send(fds[i], "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		usleep(100000);
	}
	return NULL;
}

/* More than there are places for, who never end their heads: scrapes come through, each time. */
static void slow_heads(void **state)
{
	const struct fixture *fixture = *state;
	static int fds[DRIPS];
	pthread_t thread;

	for (int i = 0; i < DRIPS; i++) {
		fds[i] = twt_dial_tcp(fixture->address);
		send(fds[i], "GET /v1 HTTP/1.1\r\nX: ", 22, MSG_NOSIGNAL);
	}
	atomic_store(&dripping, true);
	assert_int_equal(pthread_create(&thread, NULL, drip, fds), 0);
	for (int i = 0; i < 30; i++) {
		uint64_t start = twi_now_ns();

		assert_int_equal(status_of(fixture, "/v1?token=" TOKEN, ""), 200);
		assert_true(twi_now_ns() - start < TWI_SOCKET_TIMEOUT_S * 1000000000ull / 2);
	}
	atomic_store(&dripping, false);
	pthread_join(thread, NULL);
	for (int i = 0; i < DRIPS; i++)
		close(fds[i]);
}

/* One that is not kept within a request does not come in by the next one on the same connection. */
static void each_request_is_judged(void **state)
{
	const struct fixture *fixture = *state;
	char *answer = twt_talk(twt_dial_tcp(fixture->address),
				"GET /v1/counters?token=" TOKEN " HTTP/1.1\r\nHost: x\r\n\r\n"
				"GET /v1/counters HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
				"\r\n");
	const char *second = strstr(answer + 1, "HTTP/1.1 ");

	assert_int_equal(twt_http_status(answer), 200);
	assert_non_null(second);
	assert_int_equal(twt_http_status(second), 401);
	free(answer);
}

/* Readers that do not read, or vanish while they are answered: others are served all the same. */
static void bad_readers(void **state)
{
	static const char request[] = "GET /metrics?token=" TOKEN " HTTP/1.1\r\nHost: x\r\n\r\n";
	const struct fixture *fixture = *state;
	const struct linger reset = { 1, 0 };
	int stuck[8];

	for (unsigned i = 0; i < 8; i++) {
		stuck[i] = twt_dial_tcp(fixture->address);
		for (unsigned j = 0; j < 200; j++)
			send(stuck[i], request, sizeof(request) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	for (unsigned i = 0; i < 50; i++) {
		int fd = twt_dial_tcp(fixture->address);

		assert_true(fd >= 0);
		assert_true(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(fd); /* with a reset, in the middle of the answer or before it */
	}
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(status_of(fixture, "/v1/counters?token=" TOKEN, ""), 200);
	for (unsigned i = 0; i < 8; i++)
		close(stuck[i]);
}

static void bad_addresses(void **state)
{
	const struct fixture *fixture = *state;
	struct twi_socket *other;

	assert_int_equal(twi_socket_listen(fixture->socket, "127.0.0.1:0", TOKEN, ""), TOW_EINVAL);
	assert_int_equal(twi_socket_open(fixture->diag, dir, "other", 0, &other), TOW_OK);
	assert_int_equal(twi_socket_listen(other, "127.0.0.1:0", "", ""), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "token"));
	assert_int_equal(twi_socket_listen(other, "nowhere", TOKEN, ""), TOW_EINVAL);
	assert_int_equal(twi_socket_listen(other, fixture->address, TOKEN, ""), TOW_EBUSY);
	assert_non_null(strstr(tow_error_message(), fixture->address));
	assert_string_equal(twi_socket_address(other), "");
	assert_string_equal(twi_socket_address(NULL), "");
	twi_socket_close(other);
}

/* By the knobs, as a user sets them; the token is told to nobody. */
static void by_the_knobs(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	struct fixture fixture = { 0 };
	char *text;
	json_t *root;
	int fds;

	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-listen-XXXXXX");
	assert_non_null(mkdtemp(dir));
	options.premap_memory_bytes = 4 << 20;
	options.stats_dir = dir;
	options.stats_listen = "127.0.0.1:0";
	fds = twt_fd_count();
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "stats_token"));
	assert_int_equal(twt_fd_count(), fds);
	options.stats_token = TOKEN;
	options.stats = 0;
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_EINVAL);
	options.stats = 1;
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	assert_int_equal(tow_stats_get(runtime, "/v1/info", &text), TOW_OK);
	assert_null(strstr(text, TOKEN));
	root = json_loads(text, 0, NULL);
	fixture.address =
		json_string_value(json_object_get(json_object_get(root, "stats"), "listen"));
	assert_non_null(fixture.address);
	assert_int_equal(status_of(&fixture, "/v1/info?token=" TOKEN, ""), 200);
	assert_int_equal(status_of(&fixture, "/v1/info", ""), 401);
	json_decref(root);
	tow_stats_release(text);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	assert_int_equal(twt_fd_count(), fds);
	assert_int_equal(rmdir(dir), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(token_opens),   TEST(nothing_without),          TEST(guessers_wait),
		TEST(slow_heads),    TEST(each_request_is_judged),   TEST(bad_readers),
		TEST(bad_addresses), cmocka_unit_test(by_the_knobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
