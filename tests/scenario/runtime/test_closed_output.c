/*
 * test_closed_output.c - a program without standard input, output and error, as some daemons are,
 * that prints all the same: over every lane, with each poller and encrypted, nothing of the library
 * has the numbers 0, 1 and 2. So what is printed meets neither the pool nor a connection.
 *
 * With stats, and over libfabric, other libraries make descriptors. There the three are /dev/null.
 */
#include "twt.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "child.h"
#include "lane_pair.h"

#define LARGE   300000u
#define LIMIT_S 60

static const struct way {
	const char *poller;
	bool encrypt, stats;
} ways[] = {
	{ NULL, false, false },
	{ "epoll", false, false },
	{ NULL, true, false },
	{ NULL, false, true },
};

static struct twt_lane_pair pair;
static int report; /* the output that the test has, at a high number */

static void close_low(void)
{
	for (int fd = 0; fd < 3; fd++)
		close(fd);
}

/* Whether 0, 1 and 2 are closed; or `null`: whether they are /dev/null. */
static bool low_is_free(bool null, const char *when)
{
	bool good = true;

	for (int fd = 0; fd < 3; fd++) {
		struct stat st;
		bool open = fstat(fd, &st) == 0;

		if (open == null && (!open || (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))))
			continue;
		dprintf(report, "%s, %s: descriptor %d is %s\n", pair.lane->name, when, fd,
			open ? "the library's" : "closed");
		good = false;
	}
	return good;
}

static void print_much(void)
{
	char text[5000];

	memset(text, 'x', sizeof(text));
	for (int fd = 0; fd < 3; fd++) {
		if (write(fd, text, sizeof(text)) < 0)
			continue; /* it is closed, as it was before */
	}
}

static bool exchange(unsigned from, uint64_t bytes, uint64_t seed)
{
	void *out = NULL, *in = NULL;
	struct tow_result result;
	struct tow_op *send, *recv;
	bool same;

	TWT_OK(tow_alloc(pair.runtime[from], bytes, 0, &out));
	TWT_OK(tow_alloc(pair.runtime[1 - from], bytes, 0, &in));
	twt_fill(out, bytes, seed);
	print_much();
	TWT_OK(tow_recv_start(pair.peer[1 - from], in, bytes, seed, NULL, &recv));
	TWT_OK(tow_send_start(pair.peer[from], out, bytes, seed, NULL, &send));
	print_much();
	result = twt_lane_finish(&pair, recv);
	(void)twt_lane_finish(&pair, send);
	same = result.status >= TOW_OK && twt_same(in, bytes, seed) && twt_same(out, bytes, seed);
	if (!same)
		dprintf(report, "%s: a message of %llu bytes is not what was sent\n",
			pair.lane->name, (unsigned long long)bytes);
	TWT_OK(tow_free(pair.runtime[from], out));
	TWT_OK(tow_free(pair.runtime[1 - from], in));
	return same;
}

/* What else makes descriptors. */
static void use_others(void)
{
	struct tow_queue *queue;
	struct tow_trace *trace;
	int fd;

	TWT_OK(tow_fd(pair.runtime[0], &fd));
	TWT_OK(tow_queue_open(pair.runtime[0], 16, &queue));
	TWT_OK(tow_trace_begin(pair.runtime[0]));
	TWT_OK(tow_trace_end(pair.runtime[0], &trace));
	tow_trace_release(trace);
	TWT_OK(tow_queue_close(queue));
}

/* 0: all is well; 1: a fault; 2: the lane is not there. */
static int play(const struct twt_lane_row *lane, const struct way *way)
{
	bool null = way->stats || strncmp(lane->address[0], "ofi", 3) == 0;
	bool good = true;

	twt_lane_init(&pair, lane);
	for (int i = 0; i < 2; i++) {
		pair.options[i].poller = way->poller;
		pair.options[i].stats = way->stats;
		pair.options[i].encrypt = way->encrypt;
		pair.options[i].job_key = way->encrypt ? "a key of 32 bytes for this test." : NULL;
	}
	close_low();
	if (!twt_lane_open(&pair))
		return 2;
	for (int round = 0; round < 2 && good; round++) {
		twt_lane_join(&pair);
		use_others();
		good = low_is_free(null, round == 0 ? "first" : "after a close") &&
		       exchange(0, 8, 1) && exchange(1, LARGE, 2) && exchange(0, LARGE, 3);
		if (round == 0 && !null)
			close_low();
	}
	twt_lane_close(&pair);
	return good ? 0 : 1;
}

struct turn {
	const struct twt_lane_row *lane;
	const struct way *way;
};

static int in_child(const void *arg)
{
	const struct turn *turn = arg;

	report = fcntl(1, F_DUPFD_CLOEXEC, 10);
	return play(turn->lane, turn->way);
}

static void prints_into_nothing(void **state)
{
	unsigned played = 0;

	(void)state;
	for (unsigned i = 0; i < TWT_LANE_ROWS; i++) {
		for (size_t k = 0; k < sizeof(ways) / sizeof(ways[0]); k++) {
			const struct turn turn = { &twt_lane_rows[i], &ways[k] };
			char name[64];

			snprintf(name, sizeof(name), "%s, way %zu", turn.lane->name, k);
			played += twt_child_plays(name, LIMIT_S, in_child, &turn);
		}
	}
	assert_in_range(played, TWT_LANE_ROWS_ALWAYS * 3, UINT32_MAX);
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(prints_into_nothing) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
