/*
 * test_group_exchange.c - jobs that find rank 0 by an exchange of their own: files in a folder.
 * From one to eight ranks, over each lane; rank 0 that fails, early and late; ranks that do not
 * come or have another key; functions that fail, never return, or hand out what somebody else has
 * put.
 */
#include "beside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/towline.h>

#define RANKS_MAX 8
#define LONG_NS   20000000000ull
#define SHORT_NS  3000000000ull /* long enough for the store to say who is missing */
#define AT_ONCE   4
#define OWN_KEY   "a key of this test, of more than 16 bytes"

struct lane {
	const char *name, *address, *poller;
	bool encrypted, one_runtime;
};

static const struct lane lanes[] = {
#define TWT_LANE(name, near, far, one, pair)      { name, near, NULL, false, one },
#define TWT_VARIANT(name, near, far, poller, key) { name, near, poller, key, false },
#include "lanes.def"
#undef TWT_LANE
#undef TWT_VARIANT
};

#define LANES (sizeof(lanes) / sizeof(lanes[0]))

struct rank {
	const struct lane *lane;
	char folder[64];
	int rank, size;
	struct tow_options options;
	struct tow_group_options where;
	struct tow_runtime *runtime;
	struct tow_group *group;
	int puts, gets;
};

#define must(truth)                                                                                \
	do {                                                                                       \
		if (!(truth)) {                                                                    \
			fprintf(stderr, "%s:%d: rank %d of %d, %s: not so: %s; last error: %s\n",  \
				__FILE__, __LINE__, rank->rank, rank->size, rank->lane->name,      \
				#truth, tow_error_message());                                      \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void path_of(const struct rank *rank, const char *key, char out[256])
{
	snprintf(out, 256, "%s/%s", rank->folder, key);
	for (char *at = out + strlen(rank->folder) + 1; *at != '\0'; at++) {
		if (*at == '/')
			*at = '_';
	}
}

static int file_put(void *user, const char *key, const void *value, size_t bytes)
{
	struct rank *rank = user;
	char path[256], draft[300];
	int fd;

	rank->puts++;
	path_of(rank, key, path);
	snprintf(draft, sizeof(draft), "%s.draft", path);
	fd = open(draft, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, value, bytes) != (ssize_t)bytes)
		return TOW_ESYSTEM;
	close(fd);
	return rename(draft, path) == 0 ? TOW_OK : TOW_ESYSTEM;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int file_get(void *user, const char *key, void *value_out, size_t room, size_t *bytes_out,
		    uint64_t timeout_ns)
{
	struct rank *rank = user;
	char path[256];
	ssize_t got;
	int fd;

	rank->gets++;
	path_of(rank, key, path);
	for (uint64_t until_ns = now_ns() + timeout_ns; now_ns() < until_ns;) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0) {
			got = read(fd, value_out, room);
			close(fd);
			*bytes_out = (size_t)got;
			return got < 0 ? TOW_ESYSTEM : TOW_OK;
		}
		usleep(2000);
	}
	return TOW_EDEADLINE;
}

static int open_group(struct rank *rank)
{
	must(tow_runtime_open(&rank->options, &rank->runtime) == TOW_OK);
	return tow_group_open(rank->runtime, &rank->where, &rank->group);
}

static void close_all(struct rank *rank)
{
	must(tow_group_close(rank->group) == TOW_OK);
	must(tow_runtime_close(rank->runtime) == TOW_OK);
}

static void must_fail(struct rank *rank, int status, const char *words)
{
	must(open_group(rank) == status);
	must(rank->group == NULL);
	must(strstr(tow_error_message(), words) != NULL);
	must(tow_runtime_close(rank->runtime) == TOW_OK);
}

/* What the exchange holds; "": nothing. */
static void read_note(const struct rank *rank, char out[4096])
{
	char path[256];
	ssize_t got = 0;
	int fd;

	path_of(rank, "towline/store", path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, out, 4095);
		close(fd);
	}
	out[got < 0 ? 0 : got] = '\0';
}

/* An endpoint of ofi takes 2 MiB of it; to fault in and pin more is most of what a rank does. */
static int64_t pool_of(const struct lane *lane)
{
	return strncmp(lane->address, "ofi", 3) == 0 ? 4 << 20 : 1 << 20;
}

/* Runs ranks as processes; `absent`: bits of those that do not come. */
static void run_job(const struct lane *lane, int size, unsigned absent,
		    void (*play)(struct rank *rank))
{
	char folder[64] = "/tmp/towline-exchange-XXXXXX", path[256];
	pid_t pids[RANKS_MAX];
	bool good = true;

	assert_non_null(mkdtemp(folder));
	fflush(NULL);
	for (int i = 0; i < size; i++) {
		pids[i] = (absent >> i & 1) != 0 ? 0 : fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0 && (absent >> i & 1) == 0) {
			static struct rank rank;

			rank = (struct rank){ .lane = lane,
					      .rank = i,
					      .size = size,
					      .options = TOW_OPTIONS_INIT,
					      .where = TOW_GROUP_OPTIONS_INIT };
			alarm(100);
			snprintf(rank.folder, sizeof(rank.folder), "%s", folder);
			rank.options.premap_memory_bytes = pool_of(lane);
			rank.options.stats = 0;
			rank.options.poller = lane->poller;
			if (lane->encrypted) {
				rank.options.job_key = OWN_KEY;
				rank.options.encrypt = 1;
			}
			rank.where.rank = i;
			rank.where.world_size = size;
			rank.where.address = lane->address;
			rank.where.timeout_ns = LONG_NS;
			rank.where.put = file_put;
			rank.where.get = file_get;
			rank.where.user = &rank;
			play(&rank);
			_exit(0);
		}
	}
	for (int i = 0; i < size; i++) {
		int how = 0;

		if (pids[i] > 0 && waitpid(pids[i], &how, 0) == pids[i])
			good &= WIFEXITED(how) && WEXITSTATUS(how) == 0;
	}
	snprintf(path, sizeof(path), "%s/towline_store", folder);
	unlink(path);
	rmdir(folder);
	if (!good)
		fail_msg("a job of %d ranks over %s went wrong", size, lane->name);
}

/* Somebody who has the address, and no key. */
static void try_stranger(struct rank *rank)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	char address[TOW_ADDRESS_MAX];
	struct tow_op *op;
	int status;

	options.premap_memory_bytes = pool_of(rank->lane);
	options.stats = 0;
	options.poller = rank->lane->poller;
	must(tow_group_address(rank->group, 0, address, sizeof(address)) == TOW_OK);
	must(tow_runtime_open(&options, &runtime) == TOW_OK);
	must(tow_endpoint_open(runtime, rank->lane->address, &endpoint) == TOW_OK);
	must(tow_connect_start(endpoint, address, NULL, &op) == TOW_OK);
	status = tow_op_wait(op, LONG_NS);
	must(status == TOW_EAUTH || status == TOW_EREFUSED);
	must(tow_op_release(op) == TOW_OK);
	must(tow_runtime_close(runtime) == TOW_OK);
}

static void play_well(struct rank *rank)
{
	char note[4096], mine[32];
	size_t bytes;
	int status = open_group(rank);

	if (status == TOW_ENOTSUP || status == TOW_EPERM) {
		fprintf(stderr, "not here: %s: %s\n", rank->lane->name, tow_error_message());
		_exit(0);
	}
	must(status == TOW_OK);
	must(tow_group_rank(rank->group) == (uint32_t)rank->rank);
	must(tow_group_size(rank->group) == (uint32_t)rank->size);
	must(rank->puts == (rank->rank == 0 && rank->size > 1));
	must(rank->gets == (rank->rank > 0));
	read_note(rank, note);
	/* A random key of 64 digits, or none where one is set. */
	must(rank->size == 1 || (strstr(note, "\nkey -\n") != NULL) == rank->lane->encrypted);
	must(strstr(note, OWN_KEY) == NULL);
	must(tow_group_barrier(rank->group, LONG_NS) == TOW_OK);
	for (uint32_t i = 0; i < (uint32_t)rank->size; i++) {
		if (i != (uint32_t)rank->rank)
			must(tow_group_connect(rank->group, i, LONG_NS, NULL) == TOW_OK);
	}
	must(tow_group_barrier(rank->group, LONG_NS) == TOW_OK);
	if (rank->size == 2 && rank->rank == 1)
		try_stranger(rank);
	if (rank->size > 1 && rank->rank == rank->size - 1)
		must(tow_group_set(rank->group, "k", "last", 5, LONG_NS) == TOW_OK);
	if (rank->size > 1)
		must(tow_group_get(rank->group, "k", mine, sizeof(mine), &bytes, LONG_NS) ==
			     TOW_OK &&
		     strcmp(mine, "last") == 0);
	must(tow_group_barrier(rank->group, LONG_NS) == TOW_OK);
	close_all(rank);
}

static void run_well(size_t which)
{
	static const int sizes[] = { 1, 2, 3, 8 };

	if (!lanes[which % LANES].one_runtime)
		run_job(&lanes[which % LANES], sizes[which / LANES], 0, play_well);
}

static void well(void **state)
{
	(void)state;
	twt_beside(4 * LANES, AT_ONCE, run_well);
}

/* --- rank 0 fails --- */

/* When its address has been put, and the others wait at its store. */
static void play_late(struct rank *rank)
{
	if (rank->rank == 0)
		rank->where.address = "nonsense://x";
	must_fail(rank, TOW_EINVAL, "nonsense");
	must(rank->rank == 0 || strncmp(tow_error_message(), "rank 0 has failed: ", 19) == 0);
}

/* All of its addresses are none that others can use. */
static void play_wildcard(struct rank *rank)
{
	if (rank->rank == 0)
		rank->where.address = "tcp://0.0.0.0:0";
	must_fail(rank, TOW_EINVAL, "other ranks cannot connect to that");
}

/* Before it knows that it is rank 0 of how many: the option says rank 0. */
static void play_unknown(struct rank *rank)
{
	if (rank->rank == 0)
		rank->where.world_size = -1;
	must_fail(rank, TOW_EINVAL, "nothing says of how many");
}

/* Canceled: that is rank 0's affair, to the others it has failed. */
static void play_canceled(struct rank *rank)
{
	struct tow_op *op;

	if (rank->rank != 0) {
		must_fail(rank, TOW_EPEER, "rank 0 has failed: ");
		return;
	}
	rank->where.timeout_ns = TOW_FOREVER;
	must(tow_runtime_open(&rank->options, &rank->runtime) == TOW_OK);
	must(tow_group_open_start(rank->runtime, &rank->where, NULL, &rank->group, &op) == TOW_OK);
	usleep(300000);
	must(tow_op_cancel(op) == TOW_OK);
	must(tow_op_wait(op, LONG_NS) == TOW_ECANCELED);
	must(tow_op_release(op) == TOW_OK);
	must(tow_runtime_close(rank->runtime) == TOW_OK);
}

/* --- ranks that do not come, or with another key --- */

static void play_absent(struct rank *rank)
{
	rank->where.timeout_ns = SHORT_NS;
	must_fail(rank, TOW_EDEADLINE, "1 of 3 ranks have not come to 'open'");
	must(strstr(tow_error_message(), " ms: 2") != NULL);
}

static void play_no_zero(struct rank *rank)
{
	rank->where.timeout_ns = SHORT_NS;
	must_fail(rank, TOW_EDEADLINE, "rank 0 has not put 'towline/store' in time");
}

/* Rank 0 has no key of its own, rank 1 has. */
static void play_keyed(struct rank *rank)
{
	rank->where.timeout_ns = 2 * SHORT_NS;
	if (rank->rank == 1) {
		rank->options.job_key = OWN_KEY;
		must_fail(rank, TOW_EAUTH, "rank 0 has no job key of its own, and rank 1 has one");
	} else {
		must_fail(rank, TOW_EDEADLINE, " ms: 1");
	}
}

/* Rank 0 has one, rank 1 has none, rank 2 another one. */
static void play_other_keys(struct rank *rank)
{
	char note[4096];

	rank->where.timeout_ns = 2 * SHORT_NS;
	if (rank->rank != 1)
		rank->options.job_key = rank->rank == 0 ? OWN_KEY : "another key, of 16 bytes too";
	if (rank->rank == 0)
		must_fail(rank, TOW_EDEADLINE, "2 of 3 ranks have not come to 'open'");
	else
		must_fail(rank, TOW_EAUTH,
			  rank->rank == 1 ? "rank 0 has a job key of its own, and rank 1 has none"
					  : "");
	read_note(rank, note);
	must(strstr(note, "\nkey -\n") != NULL);
}

/* --- functions that fail --- */

static int never_get(void *user, const char *key, void *value_out, size_t room, size_t *bytes_out,
		     uint64_t timeout_ns)
{
	(void)user;
	(void)key;
	(void)timeout_ns;
	sleep(60);
	memset(value_out, 'x', room);
	*bytes_out = room;
	return TOW_OK;
}

static int never_put(void *user, const char *key, const void *value, size_t bytes)
{
	(void)user;
	(void)key;
	(void)value;
	(void)bytes;
	sleep(60);
	return TOW_OK;
}

static int failing_get(void *user, const char *key, void *value_out, size_t room, size_t *bytes_out,
		       uint64_t timeout_ns)
{
	const struct rank *rank = user;
	static const int answers[] = { TOW_OK, TOW_EPERM, -77, 3, TOW_OK };

	(void)key;
	(void)timeout_ns;
	memset(value_out, 'x', room);
	if (rank->rank == 4)
		*bytes_out = 100000;
	return answers[rank->rank];
}

static int failing_put(void *user, const char *key, const void *value, size_t bytes)
{
	(void)user;
	(void)key;
	(void)value;
	(void)bytes;
	return TOW_EREFUSED;
}

static void play_never(struct rank *rank)
{
	rank->where.timeout_ns = SHORT_NS;
	rank->where.get = never_get;
	if (rank->rank == 0)
		rank->where.put = never_put;
	must_fail(rank, TOW_EDEADLINE,
		  rank->rank == 0 ? "put of 'towline/store' has not returned in time"
				  : "get of 'towline/store' has not returned in time");
}

static void play_failing(struct rank *rank)
{
	static const struct {
		int status;
		const char *words;
	} rows[] = { { TOW_EREFUSED, "put of 'towline/store' has failed: TOW_EREFUSED" },
		     { TOW_EPERM, "get of 'towline/store' has failed: TOW_EPERM" },
		     { TOW_ESYSTEM, "get of 'towline/store' has failed with -77" },
		     { TOW_EINVAL, "get of 'towline/store' has returned 3" },
		     { TOW_EPROTOCOL, "the exchange holds 100000 bytes, expected fewer" } };

	rank->where.put = failing_put;
	rank->where.get = failing_get;
	must_fail(rank, rows[rank->rank].status, rows[rank->rank].words);
}

/* What somebody else has put is refused; the options must make sense. */
static void play_foreign(struct rank *rank)
{
	static const char foreign[] = "towline 1\njob other\nrestarts 0\nstore s\nkey -\n";

	if (rank->rank == 0) {
		must(file_put(rank, "towline/store", foreign, strlen(foreign)) == TOW_OK);
		rank->where.store = "127.0.0.1:1";
		must_fail(rank, TOW_EINVAL, "store is '127.0.0.1:1' and put is set");
		rank->where.store = NULL;
		rank->where.get = NULL;
		must_fail(rank, TOW_EINVAL, "put and get go together; get is NULL");
		rank->where.get = file_get;
		rank->where.put = NULL;
		must_fail(rank, TOW_EINVAL, "put and get go together; put is NULL");
		return;
	}
	must_fail(rank, TOW_EMISMATCH, "the exchange holds the address of job 'other'");
}

/* As torchrun starts them, with somebody at the port that would be guessed. */
static void play_torchrun(struct rank *rank)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char port[16], number[16];

	must(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1) == 0);
	must(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
	snprintf(port, sizeof(port), "%d", ntohs(address.sin_port) - 101);
	snprintf(number, sizeof(number), "%d", rank->rank);
	setenv("RANK", number, 1);
	setenv("WORLD_SIZE", "2", 1);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	setenv("MASTER_PORT", port, 1);
	rank->where.rank = rank->where.world_size = -1;
	must(open_group(rank) == TOW_OK);
	must(tow_group_rank(rank->group) == (uint32_t)rank->rank);
	must(tow_group_barrier(rank->group, LONG_NS) == TOW_OK);
	close_all(rank);
	close(fd);
}

static const struct {
	int size;
	unsigned absent;
	void (*play)(struct rank *rank);
} cases[] = {
	{ 3, 0, play_late },           { 2, 0, play_wildcard },     { 3, 0, play_unknown },
	{ 3, 1u << 2, play_canceled }, { 3, 1u << 2, play_absent }, { 3, 1u << 0, play_no_zero },
	{ 3, 0, play_keyed },          { 3, 0, play_other_keys },   { 3, 0, play_never },
	{ 5, 0, play_failing },        { 3, 0, play_foreign },      { 2, 0, play_torchrun },
};

static void run_case(size_t which)
{
	run_job(&lanes[0], cases[which].size, cases[which].absent, cases[which].play);
}

static void wrong(void **state)
{
	(void)state;
	twt_beside(sizeof(cases) / sizeof(cases[0]), 2 * AT_ONCE, run_case);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(well), cmocka_unit_test(wrong) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
