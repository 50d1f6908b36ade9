/*
 * test_store_serve.c - the store's thread and its clients over real sockets: many at once, cut
 * connections, strangers, late names. Threads stand for ranks, so that TSan sees all sides.
 */
#include "beside.h"
#include "twt.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <towline/status.h>

#include "diag/record/diag.h"
#include "diag/record/log.h"
#include "transport/job/bootstrap.h"
#include "transport/job/store_client.h"
#include "transport/job/store_server.h"

#define RANKS 8

/* Names that are not there yet: so often getaddrinfo knows nobody. */
static _Atomic int late_answers;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **out)
{
	struct addrinfo *found = calloc(1, sizeof(*found) + sizeof(struct sockaddr_in));
	struct sockaddr_in *at = (struct sockaddr_in *)(void *)(found + 1);

	(void)hints;
	if (atomic_load(&late_answers) > 0 && strcmp(node, "late.host") == 0) {
		atomic_fetch_sub(&late_answers, 1);
		free(found);
		return EAI_AGAIN;
	}
	if (strcmp(node, "late.host") == 0)
		node = "127.0.0.1";
	at->sin_family = AF_INET;
	at->sin_port = htons((uint16_t)atoi(service));
	if (inet_pton(AF_INET, node, &at->sin_addr) != 1) {
		free(found);
		return EAI_NONAME;
	}
	found->ai_family = AF_INET;
	found->ai_addr = (struct sockaddr *)at;
	found->ai_addrlen = sizeof(*at);
	*out = found;
	return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
	free(found);
}

static struct twi_job_key key = { .set = true, .bytes = { 1, 2, 3 } };
static char addresses[TWI_STORE_BYTES];

static struct twi_until seconds(double count)
{
	return (struct twi_until){ twi_net_now() + (uint64_t)(count * 1e9), -1, NULL };
}

static struct twi_diag *diag; /* of the next store; NULL: none */

static struct twi_store_server *serve(uint32_t world)
{
	const struct twi_store_serve how = { .address = TWI_NET_LOOPBACK,
					     .world_size = world,
					     .job = "job",
					     .key = &key,
					     .diag = diag };
	const struct twi_until until = seconds(10);
	struct twi_store_server *server;

	assert_int_equal(twi_store_server_start(&how, &until, &server), TOW_OK);
	twi_host_port_put("127.0.0.1", twi_store_server_port(server), addresses, sizeof(addresses));
	return server;
}

static int join(uint32_t rank, uint32_t world, const struct twi_job_key *with, double limit,
		struct twi_store_client **out)
{
	const struct twi_store_join how = { .addresses = addresses,
					    .job = "job",
					    .rank = rank,
					    .world_size = world,
					    .instance = 100 + rank,
					    .key = with };
	const struct twi_until until = seconds(limit);

	return twi_store_client_open(&how, &until, out);
}

static int sum_up(void *arg, uint32_t index, const uint8_t *value, uint32_t bytes)
{
	uint64_t *sum = arg;

	(void)index;
	for (uint32_t i = 0; i < bytes; i++)
		*sum += value[i];
	return TOW_OK;
}

/* What each rank does; its result is read after its thread. */
struct actor {
	pthread_t thread;
	uint32_t rank;
	int wrong; /* line of the first thing that was not so */
};
#define must(actor, truth)                                                                         \
	do {                                                                                       \
		if (!(truth) && (actor)->wrong == 0)                                               \
			(actor)->wrong = __LINE__;                                                 \
	} while (0)

static void *act(void *arg)
{
	struct actor *actor = arg;
	const struct twi_until until = seconds(60);
	struct twi_store_client *client = NULL;
	char name[32], big[4096];
	uint32_t bytes = 0;

	must(actor, join(actor->rank, RANKS, &key, 30, &client) == TOW_OK);
	for (uint32_t round = 0; round < 20 && actor->wrong == 0; round++) {
		uint8_t mine = (uint8_t)(actor->rank + round);
		uint64_t sum = 0, got = 0;
		struct twi_gather gather = { .key = "round",
					     .index = actor->rank,
					     .members = RANKS,
					     .generation = round,
					     .value = &mine,
					     .bytes = 1,
					     .each = sum_up,
					     .arg = &sum };

		snprintf(name, sizeof(name), "%u of %u", round, actor->rank);
		memset(big, (int)actor->rank, sizeof(big));
		must(actor, twi_store_set(client, name, big, sizeof(big), &until) == TOW_OK);
		snprintf(name, sizeof(name), "%u of %u", round, (actor->rank + 1) % RANKS);
		must(actor,
		     twi_store_get(client, name, big, sizeof(big), &bytes, &until) == TOW_OK);
		must(actor, bytes == sizeof(big) && big[77] == (char)((actor->rank + 1) % RANKS));
		must(actor, twi_store_add(client, "n", 1, &got, &until) == TOW_OK && got > 0);
		must(actor, twi_store_gather(client, &gather, &until) == TOW_OK);
		must(actor, sum == RANKS * (RANKS - 1) / 2 + RANKS * round);
	}
	twi_store_client_close(client, 1000000000);
	return NULL;
}

static void run_actors(struct actor *actors)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		actors[i] = (struct actor){ .rank = i };
		assert_int_equal(pthread_create(&actors[i].thread, NULL, act, &actors[i]), 0);
	}
	for (uint32_t i = 0; i < RANKS; i++) {
		pthread_join(actors[i].thread, NULL);
		if (actors[i].wrong != 0)
			fail_msg("rank %u: line %d was not so", i, actors[i].wrong);
	}
}

static void crowd(void **state)
{
	struct actor actors[RANKS];

	(void)state;
	for (int sealed = 0; sealed < 2; sealed++) {
		struct twi_store_server *server = serve(RANKS);
		int fds = twt_fd_count();

		key.encrypt = sealed != 0;
		run_actors(actors);
		twi_store_server_stop(server, 5000000000); /* over at once: all said goodbye */
		assert_true(twt_fd_count() < fds);
	}
	key.encrypt = false;
}

/* A proxy in front of the store that cuts every connection after so many bytes. */
struct proxy {
	pthread_t thread;
	int listen_fd;
	uint16_t to;
	_Atomic int cuts;
	_Atomic bool stop;
};

static void pump(struct proxy *proxy, int a, int b)
{
	char bytes[512];
	int moved = 0;

	while (moved < 3000 && !atomic_load(&proxy->stop)) {
		for (int i = 0; i < 2; i++) {
			ssize_t got = recv(i ? b : a, bytes, sizeof(bytes), MSG_DONTWAIT);

			if (got == 0)
				return;
			if (got > 0 && send(i ? a : b, bytes, (size_t)got, MSG_NOSIGNAL) != got)
				return;
			moved += got > 0 ? (int)got : 0;
		}
		usleep(200);
	}
	atomic_fetch_add(&proxy->cuts, 1);
}

static void *run_proxy(void *arg)
{
	struct proxy *proxy = arg;
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(proxy->to),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	while (!atomic_load(&proxy->stop)) {
		int a = accept(proxy->listen_fd, NULL, NULL), b;

		if (a < 0)
			continue;
		b = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(b, (struct sockaddr *)&at, sizeof(at)) == 0)
			pump(proxy, a, b);
		close(a);
		close(b);
	}
	return NULL;
}

static void start_proxy(struct proxy *proxy, uint16_t to)
{
	const struct twi_until until = seconds(5);
	char host[TOW_ADDRESS_MAX];
	struct timeval patience = { 0, 50000 };
	uint16_t port;
	bool any;

	proxy->to = to;
	assert_int_equal(twi_net_listen(TWI_NET_LOOPBACK, &until, &proxy->listen_fd, &any), TOW_OK);
	assert_true(twi_net_local(proxy->listen_fd, host, &port));
	/* Blocking, with a look at `stop` now and then. */
	assert_int_equal(fcntl(proxy->listen_fd, F_SETFL, 0), 0);
	setsockopt(proxy->listen_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	twi_host_port_put("127.0.0.1", port, addresses, sizeof(addresses));
	assert_int_equal(pthread_create(&proxy->thread, NULL, run_proxy, proxy), 0);
}

/* Cut in the middle of requests and replies, all that is asked is done once. */
static void cut_connections(void **state)
{
	struct twi_store_server *server = serve(1);
	static struct proxy proxy;
	const struct twi_until until = seconds(60);
	struct twi_store_client *client;
	uint64_t sum = 0;
	bool was;

	(void)state;
	start_proxy(&proxy, twi_store_server_port(server));
	assert_int_equal(join(0, 1, &key, 10, &client), TOW_OK);
	for (uint64_t i = 1; i <= 300; i++) {
		assert_int_equal(twi_store_add(client, "n", 1, &sum, &until), TOW_OK);
		assert_int_equal(sum, i);
	}
	assert_true(atomic_load(&proxy.cuts) > 3);
	assert_int_equal(twi_store_delete(client, "n", &was, &until), TOW_OK);
	twi_store_client_close(client, 0);
	atomic_store(&proxy.stop, true);
	pthread_join(proxy.thread, NULL);
	close(proxy.listen_fd);
	twi_store_server_stop(server, 0);
}

static void late_names(void **state)
{
	struct twi_store_server *server = serve(1);
	struct twi_store_client *client;
	const struct twi_until until = seconds(0.2);
	int fd;
	bool any;

	(void)state;
	snprintf(addresses, sizeof(addresses), "late.host:%u", twi_store_server_port(server));
	atomic_store(&late_answers, 4);
	assert_int_equal(join(0, 1, &key, 20, &client), TOW_OK);
	assert_int_equal(atomic_load(&late_answers), 0);
	twi_store_client_close(client, 1000000000);
	atomic_store(&late_answers, 1000000);
	assert_int_equal(join(0, 1, &key, 0.2, &client), TOW_EDEADLINE);
	assert_non_null(strstr(tow_error_message(), "late.host is not known"));
	assert_int_equal(twi_net_listen("late.host:1", &until, &fd, &any), TOW_EDEADLINE);
	assert_non_null(strstr(tow_error_message(), "late.host"));
	atomic_store(&late_answers, 0);
	twi_store_server_stop(server, 0);
}

static int plain_connection(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_port = htons((uint16_t)atoi(strrchr(addresses, ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* Garbage, silence and wrong keys, more of them than may be at once: members come through. */
static void strangers(void **state)
{
	struct twi_store_server *server = serve(2);
	struct twi_job_key other = { .set = true, .bytes = { 9 } }, none = { .set = false };
	struct twi_store_client *client;
	int fds[100];

	(void)state;
	for (int i = 0; i < 100; i++) {
		fds[i] = plain_connection();
		if (i % 2 == 0)
			assert_int_equal(send(fds[i], "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL),
					 18);
	}
	assert_int_equal(join(0, 2, &key, 30, &client), TOW_OK);
	twi_store_client_close(client, 0);
	for (int i = 0; i < 100; i++)
		close(fds[i]);
	assert_int_equal(join(1, 2, &other, 5, &client), TOW_EAUTH);
	assert_int_equal(join(1, 2, &none, 5, &client), TOW_EAUTH);
	assert_int_equal(join(1, 2, &key, 5, &client), TOW_OK);
	twi_store_client_close(client, 1000000000);
	twi_store_server_stop(server, 0);
}

#define CROWD 400

/* Opens connections up to CROWD that say nothing, or, `greeting`, that greet and do no more. */
static void fill(int *fds, bool greeting)
{
	/* Of a connector without a key, for purpose "store" (docs/security.md). */
	uint8_t hello[96] = "TOWAUTH\0\2\0\0\0\0\0\0\0store";

	for (int i = 0; i < CROWD; i++) {
		fds[i] = plain_connection();
		hello[40] = (uint8_t)i; /* in the nonce */
		if (greeting)
			assert_int_equal(send(fds[i], hello, sizeof(hello), MSG_NOSIGNAL),
					 sizeof(hello));
	}
}

/*
 * Six times as many as may be at once connect and say nothing, with and without a key, or greet
 * like one of a job without a key: members are served in the time that it takes to end those, and
 * those who are in already notice nothing.
 */
static void idle_crowd(void **state)
{
	struct twi_job_key none = { .set = false }, was = key;
	static int fds[CROWD];

	(void)state;
	for (int round = 0; round < 3; round++) {
		const struct twi_until until = seconds(30);
		struct twi_store_server *server;
		struct twi_store_client *early, *late;
		uint64_t sum, start;

		key = round == 0 ? was : none;
		assert_int_equal(twi_diag_create(&diag), TOW_OK);
		server = serve(2);
		assert_int_equal(join(0, 2, &key, 10, &early), TOW_OK);
		assert_int_equal(twi_store_add(early, "n", 1, &sum, &until), TOW_OK);
		fill(fds, round == 2);
		start = twi_net_now();
		assert_int_equal(join(1, 2, &key, 30, &late), TOW_OK);
		assert_int_equal(twi_store_add(late, "n", 1, &sum, &until), TOW_OK);
		assert_int_equal(twi_store_add(early, "n", 1, &sum, &until), TOW_OK);
		assert_int_equal(sum, 3);
		if (twi_net_now() - start > TWI_STORE_STRANGER_NS)
			fail_msg("round %d: a member waited %.1f s for strangers", round,
				 (double)(twi_net_now() - start) / 1e9);
		assert_true(twi_counter_sum(diag, TWI_C_store_evicted) > 0);
		twi_store_client_close(late, 0);
		twi_store_client_close(early, 0);
		for (int i = 0; i < CROWD; i++)
			close(fds[i]);
		twi_store_server_stop(server, 0);
		twi_diag_destroy(diag);
	}
	diag = NULL;
	key = was;
}

static void keep_line(void *arg, uint64_t ns, int level, const char *text)
{
	(void)ns;
	if (level == 2)
		snprintf(arg, TWI_LOG_BYTES, "%s", text);
}

/* Of another job, of an earlier start, or a rank that is there: told why, logged, and counted. */
static void wrong_greetings(void **state)
{
	static const struct {
		const char *job;
		uint32_t rank, world, restarts;
		const char *text;
	} rows[] = {
		{ "x\x1b]0;t\x07\nfake", 1, 2, 0, "rank 1 says job 'x\\x1b]0;t\\x07\\x0afake'" },
		{ "job", 1, 2, 1, "rank 1 says restart 1 of the job, rank 0 says 0" },
		{ "job", 1, 3, 0, "rank 1 says world_size 3, rank 0 says 2" },
		{ "job", 0, 2, 0, "two processes claim to be rank 0 of 2" },
	};
	const struct twi_until until = seconds(60);
	struct twi_store_client *first, *second;
	uint64_t sum = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct twi_store_join how = { .job = rows[i].job,
					      .rank = rows[i].rank,
					      .world_size = rows[i].world,
					      .restarts = rows[i].restarts,
					      .instance = 77,
					      .key = &key };
		struct twi_store_server *server;
		char line[TWI_LOG_BYTES] = "";

		assert_int_equal(twi_diag_create(&diag), TOW_OK);
		server = serve(2);
		assert_int_equal(join(0, 2, &key, 10, &first), TOW_OK);
		assert_int_equal(twi_store_add(first, "n", 1, &sum, &until), TOW_OK);
		how.addresses = addresses;
		assert_int_equal(twi_store_client_open(&how, &until, &second), TOW_EMISMATCH);
		if (strstr(tow_error_message(), rows[i].text) == NULL)
			fail_msg("'%s' is not in: %s", rows[i].text, tow_error_message());
		/* The job goes on. */
		assert_int_equal(join(1, 2, &key, 10, &second), TOW_OK);
		assert_int_equal(twi_store_add(second, "n", 1, &sum, &until), TOW_OK);
		assert_int_equal(twi_store_add(first, "n", 1, &sum, &until), TOW_OK);
		assert_int_equal(sum, 3);
		assert_int_equal(twi_counter_sum(diag, TWI_C_store_refused), 1);
		twi_log_read(diag, keep_line, line);
		if (strstr(line, rows[i].text) == NULL || strstr(line, "127.0.0.1:") == NULL)
			fail_msg("the log says: %s", line);
		twi_store_client_close(second, 0);
		twi_store_client_close(first, 0);
		twi_store_server_stop(server, 0);
		twi_diag_destroy(diag);
	}
	diag = NULL;
}

struct waiter {
	pthread_t thread;
	struct twi_store_client *client;
	struct twi_until until;
	_Atomic int status;
};

static void *wait_for_nobody(void *arg)
{
	struct waiter *waiter = arg;
	char value[8];
	uint32_t bytes;

	atomic_store(&waiter->status, twi_store_get(waiter->client, "nobody's", value,
						    sizeof(value), &bytes, &waiter->until));
	return NULL;
}

/* A wait ends when it is canceled, when the store goes, and when time is up. */
static void waits(void **state)
{
	struct waiter waiter = { .until = seconds(30) };
	struct twi_store_server *server = serve(1);
	struct twi_until short_time;
	uint64_t one = 1;
	char value[8];
	uint32_t bytes;

	(void)state;
	assert_int_equal(join(0, 1, &key, 10, &waiter.client), TOW_OK);
	short_time = seconds(0.2);
	assert_int_equal(twi_store_get(waiter.client, "nobody's", value, 8, &bytes, &short_time),
			 TOW_EDEADLINE);
	/* If the machine stood still for more than the store's head start, the client says so. */
	assert_non_null(strstr(tow_error_message(), "'nobody's'"));
	waiter.until.cancel_fd = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(pthread_create(&waiter.thread, NULL, wait_for_nobody, &waiter), 0);
	usleep(50000);
	assert_int_equal(write(waiter.until.cancel_fd, &one, sizeof(one)), sizeof(one));
	pthread_join(waiter.thread, NULL);
	assert_int_equal(atomic_load(&waiter.status), TOW_ECANCELED);
	close(waiter.until.cancel_fd);
	waiter.until = seconds(30);
	assert_int_equal(pthread_create(&waiter.thread, NULL, wait_for_nobody, &waiter), 0);
	usleep(50000);
	twi_store_server_stop(server, 0);
	pthread_join(waiter.thread, NULL);
	assert_int_equal(atomic_load(&waiter.status), TOW_EPEER);
	twi_store_client_close(waiter.client, 1000000000);
}

static void note_absent(void *arg, const struct twi_absent *absent)
{
	unsigned *told = arg;

	++*told;
	assert_int_equal(absent->missing, 2);
	assert_int_equal(absent->count, 2);
	assert_int_equal(absent->members[1], 2);
}

/* Who waits for long hears who is missing; in the end it has waited for all of the time. */
static void slices(void **state)
{
	struct twi_store_server *server = serve(3);
	struct twi_store_client *client;
	struct twi_until until;
	unsigned told = 0;
	const struct twi_gather gather = {
		.key = "open", .members = 3, .absent = note_absent, .arg = &told
	};
	const char *text;

	(void)state;
	assert_int_equal(join(0, 3, &key, 10, &client), TOW_OK);
	until = seconds(4);
	assert_int_equal(twi_store_gather(client, &gather, &until), TOW_EDEADLINE);
	assert_in_range(told, 1, 4);
	text = strstr(tow_error_message(), "2 of 3 ranks have not come to 'open' in ");
	if (text != NULL)
		assert_in_range(atoi(strstr(text, " in ") + 4), 3000, 4000);
	else /* the machine stood still for more than the store's head start */
		assert_non_null(strstr(tow_error_message(), "'open'"));
	twi_store_client_close(client, 1000000000);
	twi_store_server_stop(server, 0);
}

/* An address in use is said to be; one that is not ours means all interfaces. */
static void listening(void **state)
{
	const struct twi_until until = seconds(0.3), enough = seconds(10);
	struct twi_store_server *server = serve(1);
	char text[64], list[TWI_STORE_BYTES];
	int fd;
	bool any;

	(void)state;
	assert_int_equal(twi_net_listen(addresses, &until, &fd, &any), TOW_EBUSY);
	assert_non_null(strstr(tow_error_message(), "in use"));
	twi_store_server_stop(server, 0);
	assert_int_equal(twi_net_listen(addresses, &enough, &fd, &any), TOW_OK);
	assert_false(any);
	close(fd);
	snprintf(text, sizeof(text), "192.0.2.77:%s", strrchr(addresses, ':') + 1);
	assert_int_equal(twi_net_listen(text, &enough, &fd, &any), TOW_OK);
	assert_true(any);
	close(fd);
	assert_int_equal(twi_net_listen("nonsense", &enough, &fd, &any), TOW_EINVAL);
	assert_true(twi_net_addresses("lo", 7, list, sizeof(list)));
	assert_non_null(strstr(list, "127.0.0.1:7"));
	assert_false(twi_net_addresses("no-such-interface", 7, list, sizeof(list)));
	assert_true(twi_net_addresses("", 7, list, sizeof(list)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crowd),      cmocka_unit_test(cut_connections),
		cmocka_unit_test(late_names), cmocka_unit_test(strangers),
		cmocka_unit_test(waits),      cmocka_unit_test(listening),
		cmocka_unit_test(idle_crowd), cmocka_unit_test(wrong_greetings),
		cmocka_unit_test(slices),
	};

	return twt_beside_tests(tests, sizeof(tests) / sizeof(tests[0]), 1, 3);
}
