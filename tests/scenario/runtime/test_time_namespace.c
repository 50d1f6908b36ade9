/*
 * test_time_namespace.c - two processes of one host whose clocks differ, as in containers with time
 * namespaces of their own: over each lane they talk, also after the looks at each other's process,
 * and the end of one is seen by the other.
 */
#include "twt.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "lane_pair.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

#define LARGE    300000u
#define ROUNDS   3
#define LIMIT_S  60
#define LONGEST  50      /* tag of the time that the child has counted */
#define LOOKS_US 1200000 /* processes are looked at once a second */

static const char *const offsets[] = { "monotonic 100000 0\nboottime 100000 0\n",
				       "monotonic -1 0\nboottime -1 0\n" };
static const char *offset;

/* Puts this process, which has one thread, into a time namespace of its own. An errno value. */
static int enter_namespace(const char *text)
{
	int fd, err = 0;

	if (unshare(CLONE_NEWTIME) != 0)
		return errno;
	fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err = errno;
	close(fd);
	fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (err == 0 && setns(fd, CLONE_NEWTIME) != 0)
		err = errno;
	close(fd);
	return err;
}

static bool can_enter(void)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(enter_namespace(offsets[0]));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status == 0)
		return true;
	printf("left out: no time namespace is to be had here: %s\n",
	       strerror(WEXITSTATUS(status)));
	return false;
}

static void prepare(struct twt_pair_way *way)
{
	(void)way;
	TWT_OK(enter_namespace(offset));
}

/* The longest time that the side has counted for a message. */
static uint64_t longest_ns(struct twt_side *side)
{
	static const char key[] = "\"total_ns\":";
	uint64_t longest = 0;
	char *text;

	TWT_OK(tow_stats_get(side->runtime, "/v1/latency", &text));
	for (const char *at = strstr(text, key); at != NULL; at = strstr(at, key)) {
		uint64_t ns;

		at += sizeof(key) - 1;
		ns = strtoull(at, NULL, 10);
		longest = ns > longest ? ns : longest;
	}
	tow_stats_release(text);
	return longest;
}

static int echo(struct twt_side *side, void *arg)
{
	static uint8_t in[LARGE];
	struct tow_op *op;

	(void)arg;
	for (uint64_t i = 0; i < 2 * ROUNDS; i++) {
		struct tow_result result;

		TWT_OK(tow_recv_start(side->peer, in, LARGE, i, NULL, &op));
		TWT_OK(twt_finish(op, &result));
		TWT_OK(tow_send_start(side->peer, in, result.bytes, i, NULL, &op));
		TWT_OK(twt_finish(op, NULL));
	}
	*(uint64_t *)(void *)in = longest_ns(side);
	TWT_OK(tow_send_start(side->peer, in, sizeof(uint64_t), LONGEST, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
	pause();
	return 0;
}

static void talk(struct twt_side *side)
{
	static uint8_t out[LARGE], in[LARGE];
	struct tow_op *recv, *send;
	uint64_t theirs = 0;

	for (uint64_t i = 0; i < 2 * ROUNDS; i++) {
		uint64_t bytes = i % 2 == 0 ? 8 : LARGE;

		twt_fill(out, bytes, i + 1);
		TWT_OK(tow_recv_start(side->peer, in, LARGE, i, NULL, &recv));
		TWT_OK(tow_send_start(side->peer, out, bytes, i, NULL, &send));
		TWT_OK(twt_finish(send, NULL));
		TWT_OK(twt_finish(recv, NULL));
		assert_int_equal(twt_check(in, bytes, i + 1), 0);
		if (i == 1)
			usleep(LOOKS_US);
	}
	TWT_OK(tow_recv_start(side->peer, &theirs, sizeof(theirs), LONGEST, NULL, &recv));
	TWT_OK(twt_finish(recv, NULL));
	assert_in_range(theirs, 1, LIMIT_S * TWT_SECOND);
	assert_in_range(longest_ns(side), 1, LIMIT_S * TWT_SECOND);
	TWT_OK(tow_recv_start(side->peer, in, LARGE, 99, NULL, &recv));
	kill(side->child, SIGKILL);
	assert_int_equal(twt_finish(recv, NULL), TOW_EPEER);
}

/* 0; 2: the lane is not there. */
static int play(const struct twt_lane_row *lane, const char *text)
{
	struct twt_pair_way way = { .parent = twt_pair_options(8 << 20),
				    .child = twt_pair_options(8 << 20),
				    .address = lane->address[0],
				    .limit_s = LIMIT_S,
				    .prepare = prepare,
				    .run = echo };
	struct twt_lane_pair here;
	struct twt_side side;

	offset = text;
	if (text == NULL) {
		twt_lane_init(&here, lane);
		if (!twt_lane_open(&here))
			return 2;
		twt_lane_close(&here);
		return 0;
	}
	twt_pair_open(&side, &way);
	talk(&side);
	(void)twt_pair_end(&side); /* the child was killed */
	return 0;
}

struct turn {
	const struct twt_lane_row *lane;
	const char *offset;
};

static int play_turn(const void *arg)
{
	const struct turn *turn = arg;

	return play(turn->lane, turn->offset);
}

/* In a process that has not read the clock: the library's follows the one that it read first. */
static bool in_child(const struct twt_lane_row *lane, const char *text)
{
	const struct turn turn = { lane, text };

	return twt_child_plays(lane->name, LIMIT_S, play_turn, &turn);
}

static void each_lane(void **state)
{
	unsigned played = 0;

	(void)state;
	if (!can_enter())
		skip();
	for (unsigned i = 0; i < TWT_LANE_ROWS; i++) {
		const struct twt_lane_row *lane = &twt_lane_rows[i];

		if (lane->one_runtime || !in_child(lane, NULL))
			continue;
		for (size_t k = 0; k < sizeof(offsets) / sizeof(offsets[0]); k++)
			played += in_child(lane, offsets[k]);
	}
	assert_in_range(played, 2 * TWT_LANE_ROWS_ALWAYS, 2 * TWT_LANE_ROWS);
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(each_lane) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
