/*
 * test_resume.c - connections that break, and sessions that go on: resets every 25 ms under mixed
 * traffic, a bulk stream cut in the middle of a message, a black hole that heals and one that does
 * not, an endpoint that was closed, a process that was killed. Nothing is lost, doubled or changed.
 *
 * TOW_RESUME_MIB sets how much goes through them (1024, less in a sanitized build; half of that
 * over one connection); TOW_TEST_SEED replays the moments.
 */
#include <fcntl.h>

#include "twt.h"

#include "beside.h"
#include "duo.h"

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/tcp/tcp.h"

#define MIB (1ull << 20)

static uint64_t seed;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TWT_SECOND + (uint64_t)ts.tv_nsec;
}

static uint64_t counter(const struct twt_duo *duo, enum twi_counter id)
{
	return twi_counter_sum(twi_runtime_engine(duo->side.runtime)->diag, id);
}

static struct twi_tcp_peer *tcp_of(const struct twt_duo *duo)
{
	return (struct twi_tcp_peer *)(void *)duo->side.peer;
}

static uint64_t reset_mib(void)
{
	const char *text = getenv("TOW_RESUME_MIB");

#ifdef TWT_SANITIZED
	return text != NULL ? strtoull(text, NULL, 0) : 256;
#else
	return text != NULL ? strtoull(text, NULL, 0) : 1024;
#endif
}

static uint64_t traffic_mib;
static uint64_t next_cut_ns, cut_every_ns;
static uint64_t moments;

/* Some messages each way: after them both sides know that they are connected. */
static int warm_up(struct twt_duo *duo)
{
	return twt_duo_traffic(duo, MIB, NULL);
}

static int child_traffic(struct twt_duo *duo)
{
	return twt_duo_traffic(duo, traffic_mib * MIB, NULL);
}

/* Ends one of this side's connections, or all of them, by a reset or by an end of the stream. */
static void break_own(struct twt_duo *duo)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	const struct twi_tcp_peer *peer = tcp_of(duo);
	bool all = twt_random_below(&moments, 3) == 0, reset = twt_random_below(&moments, 2) == 0;
	unsigned one = (unsigned)twt_random_below(&moments, peer->line_count);
	struct twi_engine *engine = twi_runtime_engine(duo->side.runtime);

	twi_engine_enter(engine);
	for (unsigned line = 0; line < peer->line_count; line++) {
		const struct twi_tcp_stream *stream = peer->lines[line].stream;

		if (stream == NULL || (line != one && !all))
			continue;
		if (reset)
			(void)connect(stream->fd, &none, sizeof(none));
		else
			(void)shutdown(stream->fd, SHUT_RDWR);
	}
	twi_engine_leave(engine);
}

/*
 * One connection, or all of them. Most of those that took the place of others do not go through the
 * proxy.
 */
static void cut_now_and_then(struct twt_duo *duo)
{
	if (now_ns() < next_cut_ns)
		return;
	next_cut_ns = now_ns() + twt_random_below(&moments, cut_every_ns);
	if (!duo->proxied || twt_random_below(&moments, 2) == 0)
		break_own(duo);
	else if (twt_random_below(&moments, 2) == 0)
		twt_proxy_cut(&duo->proxy, TWT_PROXY_ALL);
	else
		twt_proxy_cut(&duo->proxy, atomic_load(&duo->proxy.came) - 1 -
						   (int)twt_random_below(&moments, 3));
}

/* The child breaks connections, too. What comes last is not cut: an end waits for it in vain. */
static int child_resets(struct twt_duo *duo)
{
	moments = seed ^ 1;
	return twt_duo_traffic(duo, traffic_mib * MIB, cut_now_and_then) != 0 ? 1 : warm_up(duo);
}

static void resets(unsigned bulk_streams, const char *key, uint64_t mib)
{
	struct twt_duo duo;

	traffic_mib = mib;
	cut_every_ns = TWT_SECOND / 20;
	next_cut_ns = now_ns() + cut_every_ns;
	moments = seed;
	twt_duo_init(&duo);
	duo.proxied = true;
	duo.parent.bulk_streams = duo.child.bulk_streams = bulk_streams;
	duo.parent.job_key = duo.child.job_key = key;
	duo.parent.encrypt = key[0] != '\0';
	twt_duo_open(&duo, child_resets);
	assert_int_equal(twt_duo_traffic(&duo, traffic_mib * MIB, cut_now_and_then), 0);
	assert_int_equal(warm_up(&duo), 0);
	printf("%u bulk streams%s: %llu MiB each way, %llu connections broken, %llu resumed\n",
	       bulk_streams, key[0] != '\0' ? ", encrypted" : "", (unsigned long long)mib,
	       (unsigned long long)counter(&duo, TWI_C_connections_broken),
	       (unsigned long long)counter(&duo, TWI_C_connections_resumed));
	assert_true(counter(&duo, TWI_C_connections_broken) > 0);
	assert_int_equal(twt_duo_end(&duo), 0);
}

static void test_resets(void **state)
{
	(void)state;
	resets(1, "", reset_mib() / 2);
}

static void test_resets_of_many(void **state)
{
	(void)state;
	resets(4, "", reset_mib() / 4);
	resets(2, "a key that both sides have", reset_mib() / 8);
}

#define LARGE (256 * MIB)

static int child_large(struct twt_duo *duo)
{
	uint8_t *data = malloc(LARGE);
	struct tow_op *op;
	int status;

	twt_fill(data, LARGE, 77);
	TWT_OK(tow_send_start(duo->side.peer, data, LARGE, 1, NULL, &op));
	status = twt_finish(op, NULL);
	free(data);
	return status == TOW_OK ? 0 : 1;
}

/* The bulk stream breaks with half of a message on it, three times. */
static void test_cut_in_the_middle(void **state)
{
	uint8_t *data = malloc(LARGE);
	struct tow_result result;
	struct twt_duo duo;
	struct tow_op *op;
	int number = 1, cuts = 0, came;

	(void)state;
	twt_duo_init(&duo);
	duo.proxied = true;
	twt_duo_open(&duo, child_large);
	tcp_of(&duo)->advertised.count = 0; /* the proxy is the only way */
	TWT_OK(tow_recv_start(duo.side.peer, data, LARGE, 1, NULL, &op));
	for (uint64_t until = now_ns() + 60 * TWT_SECOND; cuts < 3 && now_ns() < until;) {
		tow_op_test(op);
		if (twt_proxy_bytes(&duo.proxy, number) < 40 * MIB)
			continue;
		/* What takes its place is the next that comes, perhaps before the cut is over. */
		came = atomic_load(&duo.proxy.came);
		assert_true(twt_proxy_cut(&duo.proxy, number));
		cuts++;
		number = came;
	}
	assert_int_equal(cuts, 3);
	assert_int_equal(twt_finish(op, &result), TOW_OK);
	assert_int_equal(result.bytes, LARGE);
	assert_int_equal(twt_check(data, LARGE, 77), 0);
	assert_true(tcp_of(&duo)->lines[1].breaks >= 3);
	assert_int_equal(tcp_of(&duo)->lines[0].breaks, 0);
	free(data);
	assert_int_equal(twt_duo_end(&duo), 0);
}

/* A network that takes nothing for 3 s; with heartbeat and time-out that would notice it. */
static void *heal(void *arg)
{
	struct twt_duo *duo = arg;

	usleep(200000);
	twt_proxy_stall(&duo->proxy, true);
	usleep(3000000);
	twt_proxy_stall(&duo->proxy, false);
	return NULL;
}

static void test_black_hole_heals(void **state)
{
	pthread_t healer;
	struct twt_duo duo;
	uint64_t start;

	(void)state;
	for (int impatient = 0; impatient < 2; impatient++) {
		traffic_mib = reset_mib() / 2;
		twt_duo_init(&duo);
		duo.proxied = true;
		/* The impatient side gives its connections up after 2 s, and dials anew in vain. */
		duo.parent.peer_timeout_ns = duo.child.peer_timeout_ns =
			(impatient != 0 ? 6 : 30) * (int64_t)TWT_SECOND;
		duo.parent.heartbeat_ns = duo.child.heartbeat_ns = (int64_t)TWT_SECOND / 2;
		start = now_ns();
		twt_duo_open(&duo, child_traffic);
		assert_int_equal(pthread_create(&healer, NULL, heal, &duo), 0);
		assert_int_equal(twt_duo_traffic(&duo, traffic_mib * MIB, NULL), 0);
		pthread_join(healer, NULL);
		printf("through a black hole of 3 s in %llu ms, %llu connections broken\n",
		       (unsigned long long)((now_ns() - start) / 1000000),
		       (unsigned long long)counter(&duo, TWI_C_connections_broken));
		assert_int_equal(twt_duo_end(&duo), 0);
	}
}

/* Awaits a word, which in most tests does not come; the status the receive got, made positive. */
static int await_word(struct twt_duo *duo)
{
	uint64_t word;
	struct tow_op *op;
	int status;

	TWT_OK(tow_recv_start(duo->side.peer, &word, 8, 3, NULL, &op));
	status = twt_finish(op, NULL);
	if (status == TOW_EPEER)
		fprintf(stderr, "as it should: %s\n", tow_error_message());
	return -status;
}

static int child_vanish(struct twt_duo *duo)
{
	return warm_up(duo) != 0 ? 1 : await_word(duo);
}

/* The host is not there any more, and says nothing: both sides know within a few time-outs. */
static void test_vanish(void **state)
{
	struct twt_duo duo;
	uint64_t start;
	int how;

	(void)state;
	twt_duo_init(&duo);
	duo.proxied = true;
	duo.parent.peer_timeout_ns = duo.child.peer_timeout_ns = (int64_t)TWT_SECOND;
	duo.parent.heartbeat_ns = duo.child.heartbeat_ns = (int64_t)TWT_SECOND / 10;
	twt_duo_open(&duo, child_vanish);
	/* The proxy is the only way: the acceptor forgets what it was told. */
	tcp_of(&duo)->advertised.count = 0;
	assert_int_equal(warm_up(&duo), 0);
	for (uint64_t until = now_ns() + TWT_SECOND / 2; now_ns() < until;)
		tow_progress(duo.side.runtime); /* pings go to and fro */
	assert_int_equal(counter(&duo, TWI_C_peers_lost), 0);
	twt_proxy_stall(&duo.proxy, true);
	start = now_ns();
	assert_int_equal(await_word(&duo), -TOW_EPEER);
	printf("the acceptor knew after %llu ms\n",
	       (unsigned long long)((now_ns() - start) / 1000000));
	how = twt_pair_end(&duo.side); /* the child waits for its own time-out */
	twt_proxy_close(&duo.proxy);
	assert_true(WIFEXITED(how));
	assert_int_equal(WEXITSTATUS(how), -TOW_EPEER);
}

/* Deadlines and cancels are kept while the connection is broken; new operations are taken. */
static int child_broken(struct twt_duo *duo)
{
	return warm_up(duo) != 0 ? 1 : twt_duo_traffic(duo, 8 * MIB, NULL);
}

static void test_operations_while_broken(void **state)
{
	struct tow_op_options limit = TOW_OP_OPTIONS_INIT;
	struct tow_op *send, *recv, *large;
	static uint8_t data[1 << 20];
	uint64_t word = 1, start;
	struct twt_duo duo;

	(void)state;
	twt_duo_init(&duo);
	duo.proxied = true;
	twt_duo_open(&duo, child_broken);
	tcp_of(&duo)->advertised.count = 0;
	assert_int_equal(warm_up(&duo), 0);
	twt_proxy_stall(&duo.proxy, true);
	twt_proxy_cut(&duo.proxy, TWT_PROXY_ALL);
	for (uint64_t until = now_ns() + 5 * TWT_SECOND;
	     now_ns() < until && counter(&duo, TWI_C_connections_broken) < 2;)
		tow_progress(duo.side.runtime);
	assert_int_equal(counter(&duo, TWI_C_connections_broken), 2);
	limit.timeout_ns = TWT_SECOND / 5;
	start = now_ns();
	TWT_OK(tow_send_start(duo.side.peer, &word, 8, 99, NULL, &send)); /* taken */
	TWT_OK(tow_send_start(duo.side.peer, data, sizeof(data), 98, &limit, &large));
	TWT_OK(tow_recv_start(duo.side.peer, &word, 8, 99, NULL, &recv));
	assert_int_equal(twt_finish(send, NULL), TOW_OK);
	assert_int_equal(twt_finish(large, NULL), TOW_EDEADLINE);
	TWT_OK(tow_op_cancel(recv));
	assert_int_equal(twt_finish(recv, NULL), TOW_ECANCELED);
	assert_true(now_ns() - start < 10 * TWT_SECOND);
	twt_proxy_stall(&duo.proxy, false);
	assert_int_equal(twt_duo_traffic(&duo, 8 * MIB, NULL), 0);
	assert_int_equal(twt_duo_end(&duo), 0);
}

/* Peers of an endpoint that was closed are resumed all the same; nobody new comes in. */
static void test_endpoint_closed(void **state)
{
	struct tow_op_options limit = TOW_OP_OPTIONS_INIT;
	struct tow_endpoint *other;
	char where[TOW_ADDRESS_MAX];
	struct twt_duo duo;
	struct tow_op *op;

	(void)state;
	traffic_mib = 256;
	cut_every_ns = TWT_SECOND / 20;
	next_cut_ns = 0;
	moments = seed;
	twt_duo_init(&duo);
	duo.proxied = true;
	twt_duo_open(&duo, child_traffic);
	TWT_OK(tow_endpoint_address(duo.side.endpoint, where, sizeof(where)));
	TWT_OK(tow_endpoint_close(duo.side.endpoint));
	TWT_OK(tow_endpoint_open(duo.side.runtime, "tcp://127.0.0.1:0", &other));
	limit.timeout_ns = 10 * TWT_SECOND;
	TWT_OK(tow_connect_start(other, where, &limit, &op));
	assert_int_equal(twt_finish(op, NULL), TOW_EREFUSED);
	assert_int_equal(twt_duo_traffic(&duo, traffic_mib * MIB, cut_now_and_then), 0);
	assert_true(counter(&duo, TWI_C_connections_broken) > 0);
	assert_int_equal(twt_duo_end(&duo), 0);
}

/* The other side's session is gone, its process is not: no time-out is waited for. */
static int child_forgets(struct twt_duo *duo)
{
	uint64_t word = 9;
	struct tow_op *op;

	if (warm_up(duo) != 0)
		return 2;
	TWT_OK(tow_send_start(duo->side.peer, &word, 8, 3, NULL, &op));
	if (twt_finish(op, NULL) != TOW_OK)
		return 3;
	TWT_OK(tow_recv_start(duo->side.peer, &word, 8, 1, NULL, &op));
	return twt_finish(op, NULL) == TOW_EPEER ? 0 : 1;
}

static void progress_for(struct twt_duo *duo, uint64_t ns)
{
	for (uint64_t until = now_ns() + ns; now_ns() < until; usleep(1000))
		tow_progress(duo->side.runtime);
}

static void test_session_forgotten(void **state)
{
	struct twt_duo duo;
	uint64_t start = now_ns();

	(void)state;
	twt_duo_init(&duo);
	duo.proxied = true;
	twt_duo_open(&duo, child_forgets);
	assert_int_equal(warm_up(&duo), 0);
	assert_int_equal(await_word(&duo), TOW_OK); /* the child has all of its messages, too */
	/* The BYE does not get through, nor what would resume the stream for it. */
	twt_proxy_stall(&duo.proxy, true);
	TWT_OK(tow_peer_close(duo.side.peer));
	progress_for(&duo, 2 * TWT_SECOND);
	twt_proxy_cut(&duo.proxy, TWT_PROXY_ALL);
	twt_proxy_stall(&duo.proxy, false);
	progress_for(&duo, 3 * TWT_SECOND);
	assert_int_equal(twt_duo_end(&duo), 0);
	assert_true(now_ns() - start < 20 * TWT_SECOND);
}

#define LAST_MESSAGES 20u

static int lines[2][2]; /* pipes: to the child, from the child */

static bool await_byte(int fd)
{
	struct pollfd one = { .fd = fd, .events = POLLIN };
	char byte;

	return poll(&one, 1, 20 * 1000) == 1 && read(fd, &byte, 1) == 1;
}

static bool write_byte(int fd)
{
	return write(fd, "!", 1) == 1;
}

/* Says its last words, closes, and drives for as long as the BYE needs to go. */
static void say_and_close(struct twt_duo *duo)
{
	uint8_t data[100];
	struct tow_op *op;

	for (unsigned i = 0; i < LAST_MESSAGES; i++) {
		memset(data, (int)i, sizeof(data));
		TWT_OK(tow_send_start(duo->side.peer, data, sizeof(data), i, NULL, &op));
		assert_int_equal(twt_finish(op, NULL), TOW_OK);
	}
	TWT_OK(tow_peer_close(duo->side.peer));
	progress_for(duo, TWT_SECOND / 10);
}

/* All of them come, and then the end. */
static int hear_all(struct twt_duo *duo)
{
	uint8_t data[100] = { 0 };
	struct tow_op *op;

	for (unsigned i = 0; i < LAST_MESSAGES; i++) {
		TWT_OK(tow_recv_start(duo->side.peer, data, sizeof(data), i, NULL, &op));
		if (twt_finish(op, NULL) != TOW_OK || data[99] != i) {
			fprintf(stderr, "message %u: %s\n", i, tow_error_message());
			return 1;
		}
	}
	if (tow_recv_start(duo->side.peer, data, sizeof(data), LAST_MESSAGES, NULL, &op) < 0)
		return 0;
	return twt_finish(op, NULL) == TOW_EPEER ? 0 : 2;
}

static int child_says(struct twt_duo *duo)
{
	if (warm_up(duo) != 0 || !await_byte(lines[0][0]))
		return 1;
	say_and_close(duo);
	if (!write_byte(lines[1][1]))
		return 2;
	progress_for(duo, TWT_SECOND / 2);
	return 0;
}

static int child_hears(struct twt_duo *duo)
{
	return warm_up(duo) != 0 || !await_byte(lines[0][0]) ? 3 : hear_all(duo);
}

/* The connection ends, in order, after the BYE has gone and before it has come. */
static void last_words(bool child, const char *key)
{
	struct twt_duo duo;

	for (int i = 0; i < 2; i++)
		assert_int_equal(pipe2(lines[i], O_CLOEXEC), 0);
	twt_duo_init(&duo);
	duo.proxied = true;
	duo.parent.job_key = duo.child.job_key = key;
	duo.parent.encrypt = key[0] != '\0';
	twt_duo_open(&duo, child ? child_says : child_hears);
	assert_int_equal(warm_up(&duo), 0);
	progress_for(&duo, TWT_SECOND / 10); /* nothing else is on its way */
	twt_proxy_stall(&duo.proxy, true);
	if (child) {
		assert_true(write_byte(lines[0][1]) && await_byte(lines[1][0]));
	} else {
		say_and_close(&duo);
		assert_true(write_byte(lines[0][1]));
	}
	twt_proxy_end(&duo.proxy, TWT_PROXY_ALL);
	twt_proxy_stall(&duo.proxy, false);
	if (child)
		assert_int_equal(hear_all(&duo), 0);
	else
		progress_for(&duo, TWT_SECOND / 2);
	assert_int_equal(twt_duo_end(&duo), 0);
	for (int i = 0; i < 4; i++)
		close(lines[i / 2][i % 2]);
}

static void test_last_words(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		last_words(i % 2 == 0, i < 2 ? "" : "a key for two sides");
}

static int child_in_vain(struct twt_duo *duo)
{
	uint8_t *data = calloc(1, 4 * MIB);
	struct tow_op *op;
	int status;

	assert_int_equal(await_word(duo), TOW_OK); /* the proxy is not armed before it comes */
	TWT_OK(tow_send_start(duo->side.peer, data, 4 * MIB, 1, NULL, &op));
	status = twt_finish(op, NULL);
	free(data);
	return status == TOW_EPEER ? 0 : 1;
}

/* A line that is resumed, and broken by the first payload, every time: that ends with the cause. */
static void test_resumed_in_vain(void **state)
{
	uint8_t *data = malloc(4 * MIB);
	struct twt_duo duo;
	uint64_t word = 1;
	struct tow_op *op;
	int status;

	(void)state;
	twt_duo_init(&duo);
	duo.proxied = true;
	twt_duo_open(&duo, child_in_vain);
	tcp_of(&duo)->advertised.count = 0; /* the proxy is the only way */
	atomic_store(&duo.proxy.largest, 8192);
	TWT_OK(tow_send_start(duo.side.peer, &word, 8, 3, NULL, &op));
	assert_int_equal(twt_finish(op, NULL), TOW_OK);
	TWT_OK(tow_recv_start(duo.side.peer, data, 4 * MIB, 1, NULL, &op));
	status = tow_op_wait(op, 20 * TWT_SECOND);
	assert_int_equal(status, TOW_EPEER);
	printf("%s\n", tow_error_message());
	assert_true(strstr(tow_error_message(), "times in a row") != NULL ||
		    strstr(tow_error_message(), "does not know this session") != NULL ||
		    strstr(tow_error_message(), "nothing listens") != NULL);
	TWT_OK(tow_op_release(op));
	free(data);
	assert_int_equal(twt_duo_end(&duo), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resets),
		cmocka_unit_test(test_resets_of_many),
		cmocka_unit_test(test_cut_in_the_middle),
		cmocka_unit_test(test_black_hole_heals),
		cmocka_unit_test(test_vanish),
		cmocka_unit_test(test_operations_while_broken),
		cmocka_unit_test(test_endpoint_closed),
		cmocka_unit_test(test_session_forgotten),
		cmocka_unit_test(test_resumed_in_vain),
		cmocka_unit_test(test_last_words),
	};

	seed = twt_seed();
	if (getenv("TWT_ONLY") != NULL)
		cmocka_set_test_filter(getenv("TWT_ONLY"));
	return twt_beside_tests(tests, sizeof(tests) / sizeof(tests[0]), 1, 3);
}
