/*
 * test_flood.c - strangers at the port of a job that has a key: garbage, silence, half-spoken
 * handshakes, wrong keys, resets, as fast as two processes can, while two members exchange
 * messages. Every operation of the members succeeds, nobody is let in, a late member is; memory and
 * log of the process stay as large as they were. What it costs the members is printed, and not
 * judged.
 *
 * TOW_FLOOD_SECONDS (3) is how long it lasts; with TOW_FLOOD_RATES=1 each second prints its rates:
 * that is the benchmark.
 */
#include "twt.h"

#include "duo.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/security/auth.h"

#define KEY       "the key that only the members have"
#define FLOODERS  2
#define HELD      200
#define LARGE     (256u << 10)
#define STOP      UINT64_MAX
#define GROWTH_KB 8192

enum stranger { GARBAGE, SILENT, HALF, WRONG_KEY, NO_KEY, BAD_PROOF, RESET, STRANGERS };

static const char *const stranger_names[STRANGERS] = { "garbage",   "silent", "half-spoken",
						       "wrong key", "no key", "bad proof",
						       "reset" };

/* Shared by all processes of the test. */
struct flood {
	_Atomic int port; /* 0: wait; -1: it is over */
	_Atomic uint64_t connections[STRANGERS];
	_Atomic uint64_t failed; /* to connect */
};

static struct flood *flood;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TWT_SECOND + (uint64_t)ts.tv_nsec;
}

static int stranger_connect(int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval patience = { .tv_usec = 100000 };

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	atomic_fetch_add(&flood->failed, 1);
	return -1;
}

/* Speaks as a member would, with the key that it has, until it is refused. */
static void shake_hands(int fd, const struct twi_job_key *key, bool spoil)
{
	uint8_t out[TWI_AUTH_OUT_MAX], in[256];
	struct twi_auth auth;
	size_t bytes, used;
	ssize_t got;

	twi_auth_start(&auth, key, true, "tcp");
	for (int turn = 0; turn < 4; turn++) {
		bytes = twi_auth_out(&auth, out);
		if (spoil && turn > 0)
			out[8] ^= 1;
		if (bytes > 0 && send(fd, out, bytes, MSG_NOSIGNAL) < 0)
			return;
		got = recv(fd, in, sizeof(in), 0);
		if (got <= 0 || twi_auth_in(&auth, in, (size_t)got, &used) != TOW_AGAIN)
			return;
	}
}

static void play(enum stranger kind, int fd, uint64_t *random)
{
	const struct linger now = { .l_onoff = 1 };
	struct twi_job_key key = { .set = kind != NO_KEY };
	uint8_t noise[300];

	memset(key.bytes, kind, sizeof(key.bytes));
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)twt_random(random);
	switch (kind) {
	case GARBAGE:
		send(fd, noise, 1 + twt_random_below(random, sizeof(noise)), MSG_NOSIGNAL);
		break;
	case HALF:
		memcpy(noise, "TOWAUTH", 8);
		send(fd, noise, 1 + twt_random_below(random, 90), MSG_NOSIGNAL);
		break;
	case WRONG_KEY:
	case NO_KEY:
	case BAD_PROOF:
		shake_hands(fd, &key, kind == BAD_PROOF);
		break;
	case RESET:
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		break;
	default:
		break;
	}
}

/* A process of strangers. Those who say nothing, or half a word, are kept open by the hundred. */
static void be_strangers(uint64_t seed)
{
	int held[HELD], next = 0, port;
	uint64_t random = seed;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memset(held, -1, sizeof(held));
	while ((port = atomic_load(&flood->port)) == 0)
		usleep(1000);
	while ((port = atomic_load(&flood->port)) > 0) {
		enum stranger kind = twt_random_below(&random, STRANGERS);
		int fd = stranger_connect(port);

		if (fd < 0) {
			usleep(1000);
			continue;
		}
		atomic_fetch_add(&flood->connections[kind], 1);
		play(kind, fd, &random);
		if (kind != SILENT && kind != HALF) {
			close(fd);
			continue;
		}
		if (held[next] >= 0)
			close(held[next]);
		held[next] = fd;
		next = (next + 1) % HELD;
	}
	_exit(0);
}

/* The other member: gives back what it gets, until it gets the last word. */
static int echo(struct twt_duo *duo)
{
	static uint8_t room[LARGE];
	struct tow_result result;
	struct tow_op *op;

	for (;;) {
		TWT_OK(tow_recv_start(duo->side.peer, room, sizeof(room), 1, NULL, &op));
		if (twt_finish(op, &result) != TOW_OK)
			return 1;
		if (result.bytes == 8 && *(uint64_t *)(void *)room == STOP)
			return 0;
		TWT_OK(tow_send_start(duo->side.peer, room, result.bytes, 2, NULL, &op));
		if (twt_finish(op, NULL) != TOW_OK)
			return 1;
	}
}

/* One message there and back, checked. */
static void exchange(struct tow_peer *peer, uint64_t i)
{
	static _Alignas(64) uint8_t out[LARGE], in[LARGE];
	const size_t bytes = i % 16 == 0 ? LARGE : i % 4 == 0 ? 5000 : 64;
	struct tow_op *sent, *came;
	struct tow_result result;

	twt_fill(out, bytes, i);
	TWT_OK(tow_recv_start(peer, in, sizeof(in), 2, NULL, &came));
	TWT_OK(tow_send_start(peer, out, bytes, 1, NULL, &sent));
	TWT_OK(twt_finish(sent, NULL));
	TWT_OK(twt_finish(came, &result));
	assert_int_equal(result.bytes, bytes);
	assert_int_equal(twt_check(in, bytes, i), 0);
}

static uint64_t strangers_so_far(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < STRANGERS; i++)
		sum += atomic_load(&flood->connections[i]);
	return sum;
}

/* Exchanges of the members for so long; returns how many a second. */
static double exchanges(struct tow_peer *peer, uint64_t for_ns, const char *what)
{
	const bool rates = getenv("TOW_FLOOD_RATES") != NULL;
	const uint64_t start = now_ns();
	uint64_t count = 0, second = start, counted = 0, strangers = strangers_so_far();

	while (now_ns() - start < for_ns) {
		exchange(peer, count++);
		if (!rates || now_ns() - second < TWT_SECOND)
			continue;
		printf("%s: %llu exchanges, %llu strangers in this second\n", what,
		       (unsigned long long)(count - counted),
		       (unsigned long long)(strangers_so_far() - strangers));
		fflush(stdout);
		counted = count;
		strangers = strangers_so_far();
		second = now_ns();
	}
	return (double)count * 1e9 / (double)(now_ns() - start);
}

/* One who has the key, in the middle of it all. It may have to knock more than once. */
static int let_in_a_late_member(struct twt_duo *duo, const char *where)
{
	struct tow_op_options limit = TOW_OP_OPTIONS_INIT;
	struct tow_options options = duo->child;
	struct tow_endpoint *here;
	struct tow_runtime *other;
	int tries = 0, status;
	struct tow_op *op;

	limit.timeout_ns = 2 * TWT_SECOND;
	TWT_OK(tow_runtime_open(&options, &other));
	TWT_OK(tow_endpoint_open(other, "tcp://127.0.0.1:0", &here));
	do {
		TWT_OK(tow_connect_start(here, where, &limit, &op));
		while (tow_op_test(op) == TOW_AGAIN)
			tow_progress(duo->side.runtime);
		status = tow_op_test(op);
		TWT_OK(tow_op_release(op));
	} while (status != TOW_OK && ++tries < 20);
	assert_int_equal(status, TOW_OK);
	TWT_OK(tow_runtime_close(other));
	return tries;
}

static long rss_anon_kb(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[128];
	long kb = -1;

	while (file != NULL && kb < 0 && fgets(line, sizeof(line), file) != NULL)
		sscanf(line, "RssAnon: %ld", &kb);
	if (file != NULL)
		fclose(file);
	return kb;
}

/* Bytes of the page that the log is part of. */
static size_t page_bytes(struct tow_runtime *runtime)
{
	char *page;
	size_t bytes;

	TWT_OK(tow_stats_get(runtime, "/v1/info", &page));
	bytes = strlen(page);
	tow_stats_release(page);
	return bytes;
}

static uint64_t counter(const struct twt_duo *duo, enum twi_counter id)
{
	return twi_counter_sum(twi_runtime_engine(duo->side.runtime)->diag, id);
}

static void report(const struct twt_duo *duo, double quiet, double flooded, int tries)
{
	for (int i = 0; i < STRANGERS; i++)
		printf("%s %llu, ", stranger_names[i],
		       (unsigned long long)atomic_load(&flood->connections[i]));
	printf("not connected %llu; refused %llu, evicted %llu; the late member knocked %d times\n",
	       (unsigned long long)atomic_load(&flood->failed),
	       (unsigned long long)counter(duo, TWI_C_handshakes_refused),
	       (unsigned long long)counter(duo, TWI_C_handshakes_evicted), tries + 1);
	printf("members: %.0f exchanges a second without strangers, %.0f with: ratio %.2f\n", quiet,
	       flooded, flooded / quiet);
}

static void run_flood(struct twt_duo *duo, uint64_t seconds)
{
	const uint64_t half = seconds * TWT_SECOND / 2, stop = STOP;
	struct tow_runtime *runtime = duo->side.runtime;
	char where[TOW_ADDRESS_MAX];
	double quiet, flooded;
	size_t page_before;
	struct tow_op *accept, *op;
	long before;
	int tries;

	TWT_OK(tow_endpoint_address(duo->side.endpoint, where, sizeof(where)));
	quiet = exchanges(duo->side.peer, TWT_SECOND, "quiet");
	TWT_OK(tow_accept_start(duo->side.endpoint, NULL, &accept));
	atomic_store(&flood->port, atoi(strrchr(where, ':') + 1));
	/* What the first strangers make the process allocate is there before it is measured. */
	exchanges(duo->side.peer, TWT_SECOND / 2, "beginning");
	before = rss_anon_kb();
	page_before = page_bytes(runtime);
	flooded = exchanges(duo->side.peer, half, "flood");
	assert_int_equal(tow_op_test(accept), TOW_AGAIN);
	tries = let_in_a_late_member(duo, where);
	assert_int_equal(tow_op_wait(accept, 10 * TWT_SECOND), TOW_OK);
	TWT_OK(tow_op_release(accept));
	flooded = (flooded + exchanges(duo->side.peer, half, "flood")) / 2;
	printf("memory %+ld KiB, page %+ld bytes\n", rss_anon_kb() - before,
	       (long)page_bytes(runtime) - (long)page_before);
#ifndef TWT_SANITIZED
	assert_true(before > 0 && rss_anon_kb() - before < GROWTH_KB);
#endif
	assert_true(page_bytes(runtime) < page_before + (64u << 10));
	atomic_store(&flood->port, -1);
	report(duo, quiet, flooded, tries);
	assert_int_equal(counter(duo, TWI_C_peers_connected), 2);
	for (int i = 0; i < STRANGERS; i++)
		assert_true(atomic_load(&flood->connections[i]) > 0);
	TWT_OK(tow_send_start(duo->side.peer, &stop, sizeof(stop), 1, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
}

static void test_flood(void **state)
{
	const char *text = getenv("TOW_FLOOD_SECONDS");
	pid_t pids[FLOODERS];
	struct twt_duo duo;
	int how;

	(void)state;
	flood = mmap(NULL, sizeof(*flood), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_true(flood != MAP_FAILED);
	fflush(NULL);
	/* Before the runtime, whose descriptors are none of theirs. */
	for (int i = 0; i < FLOODERS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			be_strangers(1000 + (uint64_t)i);
	}
	twt_duo_init(&duo);
	duo.parent.job_key = duo.child.job_key = KEY;
	twt_duo_open(&duo, echo);
	run_flood(&duo, text != NULL ? strtoull(text, NULL, 0) : 3);
	assert_int_equal(twt_duo_end(&duo), 0);
	for (int i = 0; i < FLOODERS; i++) {
		kill(pids[i], SIGKILL);
		assert_int_equal(waitpid(pids[i], &how, 0), pids[i]);
	}
	munmap(flood, sizeof(*flood));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flood),
	};
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
	setrlimit(RLIMIT_NOFILE, &files);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
