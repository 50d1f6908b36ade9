/*
 * test_any_killed.c - three processes send to one that receives of any peer; two are killed one
 * after the other at random moments. Receives that had met a message of theirs end with TOW_EPEER,
 * all others go on, and what the third sends comes whole and in order. TOW_TEST_SEED replays the
 * moments.
 */
#include "twt.h"

#include "lane_pair.h"

#define CHILDREN  3u
#define IN_FLIGHT 8u
#define LARGEST   400000u
#define AFTER     60u /* messages of the last one */

static uint64_t rng;

struct child {
	pid_t pid;
	int address; /* where it reads the address from */
};

static size_t size_of(uint64_t n)
{
	return n % 4 == 0 ? LARGEST - n % 1000 : n % 4 == 1 ? 20000 + n % 100 : n % 4 == 2 ? 0 : 64;
}

/* Messages of all sizes, for ever; the tag says whose each one is, and which. */
static void run_child(uint64_t which, const char *lane, int address_fd)
{
	struct tow_runtime *runtime = twt_runtime(8 << 20);
	char address[TOW_ADDRESS_MAX] = "";
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	uint8_t *data = malloc(LARGEST);

	assert_non_null(data);
	if (read(address_fd, address, sizeof(address)) <= 0)
		_exit(2);
	TWT_OK(tow_endpoint_open(runtime, lane, &endpoint));
	peer = twt_connect(endpoint, address);
	for (uint64_t n = 0;; n++) {
		const uint64_t tag = which << 32 | n;
		struct tow_op *op;

		twt_fill(data, size_of(n), tag);
		TWT_OK(tow_send_start(peer, data, size_of(n), tag, NULL, &op));
		if (twt_finish(op, NULL) != TOW_OK)
			_exit(1);
	}
}

static struct child start_child(unsigned which, const char *lane)
{
	struct child child;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	fflush(NULL);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0) {
		alarm(100);
		run_child(which, lane, fds[0]);
	}
	close(fds[0]);
	child.address = fds[1];
	return child;
}

static void kill_child(struct child *child)
{
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
}

static struct tow_endpoint *here;
static struct tow_peer *peers[CHILDREN]; /* by the child that its messages name */
static uint64_t next_of[CHILDREN];       /* the lowest number that may come now */
static uint64_t from[CHILDREN], lost;

static struct tow_op *receive(uint8_t *room)
{
	const struct tow_part part = { room, LARGEST };
	struct tow_match any = TOW_MATCH_INIT;
	struct tow_op *op;

	any.tag_mask = 0;
	TWT_OK(tow_recv_match_start(here, &any, &part, 1, NULL, &op));
	return op;
}

/* In the order in which they were started: so the messages of each child are in order, too. */
static void judge(struct tow_op *op, const uint8_t *room, unsigned killed)
{
	struct tow_result result = TOW_RESULT_INIT;
	int status = twt_finish(op, &result);
	uint64_t which = result.tag >> 32, n = result.tag & UINT32_MAX;

	if (status == TOW_EPEER) {
		assert_non_null(result.peer);
		assert_true(peers[CHILDREN - 1] != result.peer);
		assert_true(++lost <= killed * IN_FLIGHT);
		return;
	}
	assert_int_equal(status, TOW_OK);
	assert_true(which < CHILDREN);
	assert_true(peers[which] == NULL || peers[which] == result.peer);
	peers[which] = result.peer;
	assert_true(n >= next_of[which]);
	next_of[which] = n + 1;
	from[which]++;
	assert_int_equal(result.bytes, size_of(n));
	assert_int_equal(twt_check(room, result.bytes, result.tag), 0);
}

static void run_lane(const char *lane)
{
	static uint8_t rooms[IN_FLIGHT][LARGEST];
	struct child children[CHILDREN];
	struct tow_op *ops[IN_FLIGHT];
	struct tow_runtime *runtime;
	char address[TOW_ADDRESS_MAX];
	unsigned killed = 0;
	uint64_t until = UINT64_MAX, wait = 0;

	for (unsigned i = 0; i < CHILDREN; i++) {
		children[i] = start_child(i, lane);
		peers[i] = NULL;
		next_of[i] = from[i] = 0;
	}
	lost = 0;
	runtime = twt_runtime(16 << 20);
	TWT_OK(tow_endpoint_open(runtime, lane, &here));
	TWT_OK(tow_endpoint_address(here, address, sizeof(address)));
	for (unsigned i = 0; i < IN_FLIGHT; i++)
		ops[i] = receive(rooms[i]);
	for (unsigned i = 0; i < CHILDREN; i++) {
		assert_int_equal(write(children[i].address, address, sizeof(address)),
				 sizeof(address));
		close(children[i].address);
		twt_accept(here);
	}
	wait = twt_random_below(&rng, 100);
	for (uint64_t i = 0; from[CHILDREN - 1] < until; i++) {
		judge(ops[i % IN_FLIGHT], rooms[i % IN_FLIGHT], killed);
		ops[i % IN_FLIGHT] = receive(rooms[i % IN_FLIGHT]);
		if (killed < CHILDREN - 1 && i >= wait) {
			kill_child(&children[killed++]);
			wait = i + twt_random_below(&rng, 100);
			if (killed == CHILDREN - 1)
				until = from[CHILDREN - 1] + AFTER;
		}
	}
	printf("%s: %llu, %llu and %llu messages, %llu receives lost\n", lane,
	       (unsigned long long)from[0], (unsigned long long)from[1],
	       (unsigned long long)from[2], (unsigned long long)lost);
	kill_child(&children[CHILDREN - 1]);
	TWT_OK(tow_runtime_close(runtime));
}

static void test_killed(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		for (int row = 0; row < TWT_LANE_ROWS_ALWAYS; row++)
			run_lane(twt_lane_rows[row].address[1]);
		run_lane("tow://127.0.0.1");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed),
	};

	rng = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
