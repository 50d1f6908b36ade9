/*
 * test_nccl_net.c - plugins/nccl over each table, by each lane, between two processes and two
 * threads of one: what a network plugin owes NCCL, as the functional tests of aws-ofi-nccl hold
 * other plugins to it (connections, messages in any order and longer than their receive, a ring, a
 * listen that is used again, groups of receives, messages before their receives, closes in flight).
 */
#include "twt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nccl_pair.h"

#define MANY    NCCL_MAX_REQUESTS
#define LARGEST (300u << 10)
#define GROUP   8

static uint64_t seed;

/* The sizes that matter: none, small, both sides of the border of small and large, odd. */
static size_t some_bytes(uint64_t *random)
{
	static const size_t border[] = { 0, 1, 8, 4096, 16383, 16384, 16385, 65536, 131072 };

	if (twt_random_below(random, 2) == 0)
		return border[twt_random_below(random, sizeof(border) / sizeof(border[0]))];
	return twt_random_below(random, LARGEST);
}

static bool connections(struct twt_nccl_side *side)
{
	void *send[4], *recv[4];
	char out = 'a', in = 0;

	for (int i = 0; i < 4; i++)
		TWT_NEED(side, twt_nccl_connect(side, &send[i], &recv[i]));
	for (int i = 3; i >= 0; i--) {
		void *sent = twt_nccl_post_send(side, send[i], &out, 1, 0);

		TWT_NEED(side,
			 twt_nccl_wait(side, twt_nccl_post_recv(side, recv[i], &in, 1, 0), NULL));
		TWT_NEED(side, twt_nccl_wait(side, sent, NULL) && in == 'a');
	}
	for (int i = 0; i < 4; i++)
		TWT_NEED(side, twt_nccl_close(side, send[i], recv[i]));
	return true;
}

/* Tests what is left in an order of chance, a step each, until all are done. */
static bool finish_all(struct twt_nccl_side *side, void *requests[], int sizes[], int count)
{
	double begin = twt_nccl_now();
	int left = count;

	while (left > 0) {
		int i = (int)twt_random_below(&side->random, (uint64_t)count), done = 0;

		if (requests[i] == NULL)
			continue;
		TWT_NEED(side, net_test(&side->net, requests[i], &done, &sizes[i]) == 0);
		TWT_NEED(side, twt_nccl_now() - begin < TWT_NCCL_WAIT_S);
		if (done) {
			requests[i] = NULL;
			left--;
		}
	}
	return true;
}

/* All are posted, in both directions, and tested in any order; side 1 posts its receives late. */
static bool messages(struct twt_nccl_side *side, void *send, void *recv, uint64_t round)
{
	char *out = malloc((size_t)MANY * LARGEST), *in = malloc((size_t)MANY * LARGEST);
	uint64_t lengths = side->seed + round;
	void *requests[2 * MANY];
	int sizes[2 * MANY] = { 0 };
	size_t bytes[MANY];

	for (int i = 0; i < MANY; i++) {
		bytes[i] = some_bytes(&lengths);
		twt_nccl_fill(out + (size_t)i * LARGEST, bytes[i], round + (uint64_t)i);
	}
	for (int half = 0; half < 2; half++)
		for (int i = 0; i < MANY; i++) {
			char *at = (half == side->side ? in : out) + (size_t)i * LARGEST;

			if (half == side->side)
				requests[MANY + i] = twt_nccl_post_recv(side, recv, at, LARGEST, 3);
			else
				requests[i] = twt_nccl_post_send(side, send, at, bytes[i], 3);
		}
	TWT_NEED(side, finish_all(side, requests, sizes, 2 * MANY));
	for (int i = 0; i < MANY; i++) {
		TWT_NEED(side, sizes[MANY + i] == (int)bytes[i]);
		TWT_NEED(side,
			 twt_nccl_is(in + (size_t)i * LARGEST, bytes[i], round + (uint64_t)i));
	}
	free(out);
	free(in);
	return true;
}

/* A message longer than its receive fills it; what comes next is whole. */
static bool truncation(struct twt_nccl_side *side, void *send, void *recv)
{
	static const size_t sent[] = { 100, 20000, 200000, 64 };
	static const size_t room[] = { 60, 1, 150001, 64 };
	char *out[4], *in[4];
	void *requests[8];
	int sizes[8] = { 0 };

	for (int i = 0; i < 4; i++) {
		in[i] = malloc(room[i]); /* so that ASan sees a byte too many */
		out[i] = malloc(sent[i]);
		twt_nccl_fill(out[i], sent[i], (uint64_t)i);
		requests[i] = twt_nccl_post_recv(side, recv, in[i], room[i], 1);
		requests[4 + i] = twt_nccl_post_send(side, send, out[i], sent[i], 1);
	}
	TWT_NEED(side, finish_all(side, requests, sizes, 8));
	for (int i = 0; i < 4; i++) {
		TWT_NEED(side, sizes[i] == (int)room[i]);
		TWT_NEED(side, twt_nccl_is(in[i], room[i], (uint64_t)i));
		free(in[i]);
		free(out[i]);
	}
	return true;
}

/* Groups of 1 to 8 receives; the sends come by other orders of their tags, some tags twice. */
static bool groups(struct twt_nccl_side *side, void *send, void *recv, bool sends_first)
{
	char *out = malloc(GROUP * LARGEST), *in = malloc(GROUP * LARGEST);

	for (int count = 1; count <= GROUP; count++) {
		void *data[GROUP], *regions[GROUP] = { NULL }, *group = NULL, *sent[GROUP];
		uint64_t random = side->seed + (uint64_t)count;
		int tags[GROUP], sizes[GROUP] = { 0 };
		size_t bytes[GROUP], room[GROUP];

		for (int i = 0; i < count; i++) {
			tags[i] = i % 5; /* so 0 to 2 are there twice in groups of 8 */
			bytes[i] = some_bytes(&random);
			room[i] = bytes[i] + twt_random_below(&random, 100);
			data[i] = in + (size_t)i * LARGEST;
			twt_nccl_fill(out + (size_t)i * LARGEST, bytes[i], (uint64_t)i);
		}
		for (int step = 0; step < 2; step++)
			if ((step == 0) == sends_first)
				for (int t = 4; t >= 0; t--)
					for (int i = t; i < count; i += 5)
						sent[i] = twt_nccl_post_send(
							side, send, out + (size_t)i * LARGEST,
							bytes[i], tags[i]);
			else
				TWT_NEED(side, net_recv(&side->net, recv, count, data, room, tags,
							regions, &group) == NCCL_SUCCESS &&
						       group != NULL);
		TWT_NEED(side, twt_nccl_wait(side, group, sizes));
		for (int i = 0; i < count; i++) {
			TWT_NEED(side, sizes[i] == (int)bytes[i]);
			TWT_NEED(side, twt_nccl_is(data[i], bytes[i], (uint64_t)i));
			TWT_NEED(side, twt_nccl_wait(side, sent[i], NULL));
		}
	}
	free(out);
	free(in);
	return true;
}

/* More than may be in flight: the comm is busy, and takes more when something has ended. */
static bool busy(struct twt_nccl_side *side, void *send, void *recv)
{
	void *requests[2 * MANY] = { NULL }, *region = NULL, *data;
	char in[2 * MANY], out[2 * MANY];
	int count = 0, tag = 0;
	size_t one = 1;

	for (; count < 2 * MANY; count++) {
		data = &in[count];
		TWT_NEED(side, net_recv(&side->net, recv, 1, &data, &one, &tag, &region,
					&requests[count]) == NCCL_SUCCESS);
		if (requests[count] == NULL)
			break;
	}
	TWT_NEED(side, count >= MANY && count < 2 * MANY);
	for (int i = 0; i < 2 * MANY; i++) {
		out[i] = (char)i;
		TWT_NEED(side,
			 twt_nccl_wait(side, twt_nccl_post_send(side, send, &out[i], 1, 0), NULL));
	}
	for (int i = 0; i < 2 * MANY; i++) {
		if (i >= count)
			requests[i] = twt_nccl_post_recv(side, recv, &in[i], 1, 0);
		TWT_NEED(side, twt_nccl_wait(side, requests[i], NULL));
		TWT_NEED(side, in[i] == (char)i);
	}
	return true;
}

static bool one_pair(struct twt_nccl_side *side)
{
	void *send, *recv;

	TWT_NEED(side, twt_nccl_connect(side, &send, &recv));
	TWT_NEED(side, messages(side, send, recv, 0) && messages(side, send, recv, 1000));
	TWT_NEED(side, truncation(side, send, recv));
	TWT_NEED(side, groups(side, send, recv, false));
	TWT_NEED(side, groups(side, send, recv, true));
	TWT_NEED(side, busy(side, send, recv));
	return twt_nccl_close(side, send, recv);
}

/* What goes round comes back as it was, with a mark of each side's. */
static bool ring(struct twt_nccl_side *side)
{
	uint32_t value[1000];
	void *send, *recv;

	TWT_NEED(side, twt_nccl_connect(side, &send, &recv));
	memset(value, 0, sizeof(value));
	for (uint32_t round = 1; round <= 20; round++) {
		for (int turn = 0; turn < 2; turn++) {
			if (turn == side->side) {
				for (size_t i = 0; i < 1000; i++)
					value[i] += (uint32_t)i + (uint32_t)side->side;
				TWT_NEED(side, twt_nccl_wait(side,
							     twt_nccl_post_send(side, send, value,
										sizeof(value), 2),
							     NULL));
			} else {
				TWT_NEED(side, twt_nccl_wait(side,
							     twt_nccl_post_recv(side, recv, value,
										sizeof(value), 2),
							     NULL));
			}
		}
		for (uint32_t i = 0; i < 1000; i++)
			TWT_NEED(side, value[i] == round * (2 * i + 1));
	}
	return twt_nccl_close(side, send, recv);
}

/* Side 1 connects again and again to one listen of side 0's, at last three times at once. */
static bool same_listen(struct twt_nccl_side *side)
{
	char handle[NCCL_HANDLE_BYTES] = { 0 }, theirs[NCCL_HANDLE_BYTES], again[NCCL_HANDLE_BYTES];
	void *listening = NULL, *comms[3] = { NULL };

	TWT_NEED(side, net_listen(&side->net, side->context, 0, handle, &listening) == 0);
	TWT_NEED(side, twt_nccl_exchange(side, handle, theirs, sizeof(handle)));
	for (int round = 0; round < 10; round++) {
		int count = round == 9 ? 3 : 1;

		for (int i = 0; i < count; i++) {
			double begin = twt_nccl_now();
			char byte = (char)round;

			memcpy(again, theirs, sizeof(again));
			for (comms[i] = NULL; comms[i] == NULL;) {
				TWT_NEED(side,
					 (side->side == 0
						  ? net_accept(&side->net, listening, &comms[i])
						  : net_connect(&side->net, side->context, 0, again,
								&comms[i])) == NCCL_SUCCESS);
				TWT_NEED(side, twt_nccl_now() - begin < TWT_NCCL_WAIT_S);
				if (comms[i] == NULL)
					twt_nccl_give_way();
			}
			TWT_NEED(side,
				 twt_nccl_wait(
					 side,
					 side->side == 0
						 ? twt_nccl_post_recv(side, comms[i], &byte, 1, 0)
						 : twt_nccl_post_send(side, comms[i], &byte, 1, 0),
					 NULL));
			TWT_NEED(side, byte == (char)round);
		}
		TWT_NEED(side, twt_nccl_meet(side));
		for (int i = 0; i < count; i++)
			TWT_NEED(side,
				 (side->side == 0 ? net_close_recv(&side->net, comms[i])
						  : net_close_send(&side->net, comms[i])) == 0);
	}
	TWT_NEED(side, net_close_listen(&side->net, listening) == NCCL_SUCCESS);
	return true;
}

static void *map_bytes(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Posts until `count` messages of `bytes` are under way, which nobody will end. */
static bool leave_in_flight(struct twt_nccl_side *side, void *comm, bool sends, char *memory,
			    size_t bytes, void **region)
{
	TWT_NEED(side, net_register(&side->net, comm, memory, MANY * bytes, NCCL_POINTER_HOST,
				    region) == NCCL_SUCCESS);
	for (int i = 0; i < MANY; i++) {
		char *at = memory + (size_t)i * bytes;

		TWT_NEED(side, (sends ? twt_nccl_post_send(side, comm, at, bytes, 1)
				      : twt_nccl_post_recv(side, comm, at, bytes, 1)) != NULL);
	}
	return true;
}

/* Deregistered, closed and unmapped at once, while messages are under way; side 0 sends. */
static bool close_in_flight(struct twt_nccl_side *side, bool receiver_first)
{
	const size_t bytes = 1 << 20;
	char *memory = map_bytes(MANY * bytes);
	bool sends = side->side == 0;
	void *send, *recv, *comm, *region;

	TWT_NEED(side, memory != NULL && twt_nccl_connect(side, &send, &recv));
	comm = sends ? send : recv;
	if (sends || !receiver_first)
		TWT_NEED(side, leave_in_flight(side, comm, sends, memory, bytes, &region));
	else
		region = NULL;
	TWT_NEED(side, twt_nccl_meet(side)); /* all is posted */
	if (sends == receiver_first)
		TWT_NEED(side, twt_nccl_meet(side)); /* the other one has closed */
	if (region != NULL)
		TWT_NEED(side, net_deregister(&side->net, comm, region) == NCCL_SUCCESS);
	TWT_NEED(side, (sends ? net_close_send(&side->net, comm)
			      : net_close_recv(&side->net, comm)) == NCCL_SUCCESS);
	TWT_NEED(side, munmap(memory, MANY * bytes) == 0);
	if (sends != receiver_first)
		TWT_NEED(side, twt_nccl_meet(side));
	TWT_NEED(side, (sends ? net_close_recv(&side->net, recv)
			      : net_close_send(&side->net, send)) == NCCL_SUCCESS);
	return true;
}

static bool closes(struct twt_nccl_side *side)
{
	return close_in_flight(side, false) && close_in_flight(side, true);
}

/* What is in flight on a comm that the other side closes ends as a failure of the other side. */
static bool told_of_close(struct twt_nccl_side *side)
{
	void *send, *recv, *request = NULL, *region = NULL, *data;
	double begin = twt_nccl_now();
	int result, done = 0, tag = 0;
	char in[8];
	size_t bytes = sizeof(in);

	TWT_NEED(side, twt_nccl_connect(side, &send, &recv));
	if (side->side == 1) {
		TWT_NEED(side, net_close_send(&side->net, send) == NCCL_SUCCESS);
		TWT_NEED(side, twt_nccl_meet(side));
		return net_close_recv(&side->net, recv) == NCCL_SUCCESS;
	}
	data = in;
	result = net_recv(&side->net, recv, 1, &data, &bytes, &tag, &region, &request);
	while (result == NCCL_SUCCESS) {
		TWT_NEED(side, request != NULL);
		result = net_test(&side->net, request, &done, NULL);
		TWT_NEED(side, !done && twt_nccl_now() - begin < TWT_NCCL_WAIT_S);
		if (result == NCCL_SUCCESS)
			twt_nccl_give_way();
	}
	TWT_NEED(side, result == NCCL_REMOTE_ERROR);
	TWT_NEED(side, twt_nccl_meet(side));
	TWT_NEED(side, net_close_send(&side->net, send) == NCCL_SUCCESS);
	return net_close_recv(&side->net, recv) == NCCL_SUCCESS;
}

/* All of it, one after another: a runtime takes longer to open than most of them. */
static bool all_parts(struct twt_nccl_side *side)
{
	TWT_NEED(side, connections(side));
	TWT_NEED(side, one_pair(side));
	TWT_NEED(side, ring(side));
	TWT_NEED(side, same_listen(side));
	TWT_NEED(side, closes(side));
	TWT_NEED(side, told_of_close(side));
	return true;
}

/* Between processes each version over each lane; between threads, or sanitized, one over each. */
static void play(bool threads)
{
#ifdef TWT_SANITIZED
	const bool each = false;
#else
	const bool each = !threads;
#endif
	const int versions = NET_VERSION_LAST - NET_VERSION_FIRST + 1;

	for (size_t lane = 0; twt_nccl_lane(lane) != NULL; lane++)
		for (int version = NET_VERSION_FIRST; version <= NET_VERSION_LAST; version++) {
			struct twt_nccl_run run = { .part = all_parts,
						    .version = version,
						    .lane = twt_nccl_lane(lane),
						    .threads = threads,
						    .seed = seed };

			if (!each && version - NET_VERSION_FIRST != (int)lane % versions)
				continue;
			if (!twt_nccl_run(&run))
				fail_msg("table %d over %s", version, run.lane);
		}
}

/* The table of operations is full in the middle of groups: what is left of them starts later. */
static bool groups_alone(struct twt_nccl_side *side)
{
	void *send, *recv;

	TWT_NEED(side, twt_nccl_connect(side, &send, &recv));
	for (int i = 0; i < 5; i++)
		TWT_NEED(side, groups(side, send, recv, i % 2 == 0));
	return twt_nccl_close(side, send, recv);
}

/* Receives that fill the table of operations, and keep it full: a thread posts one when it can. */
struct hog {
	struct twt_nccl_side *side;
	void *comm;
	void *requests[MANY];
	char in[MANY];
	int count;
	_Atomic bool full, stop, failed;
	pthread_t thread;
};

static void *hog_run(void *arg)
{
	struct hog *hog = arg;

	while (!atomic_load(&hog->stop) && hog->count < MANY) {
		void *data = &hog->in[hog->count], *request = NULL, *region = NULL;
		size_t bytes = 1;
		int tag = 0;

		if (net_recv(&hog->side->net, hog->comm, 1, &data, &bytes, &tag, &region,
			     &request) != NCCL_SUCCESS) {
			atomic_store(&hog->failed, true);
			return NULL;
		}
		if (request != NULL)
			hog->requests[hog->count++] = request;
		else
			atomic_store(&hog->full, true);
	}
	return NULL;
}

static bool hog_start(struct hog *hog, struct twt_nccl_side *side, void *comm)
{
	double begin = twt_nccl_now();

	hog->side = side;
	hog->comm = comm;
	TWT_NEED(side, pthread_create(&hog->thread, NULL, hog_run, hog) == 0);
	while (!atomic_load(&hog->full)) {
		TWT_NEED(side, twt_nccl_now() - begin < TWT_NCCL_WAIT_S);
		twt_nccl_give_way();
	}
	return true;
}

/* The other side of the hog's comm sends what the hog waits for. */
static bool hog_end(struct hog *hog, struct twt_nccl_side *side, void *send)
{
	int count, theirs;
	char byte = 'a';

	if (hog->side != NULL) {
		atomic_store(&hog->stop, true);
		TWT_NEED(side, pthread_join(hog->thread, NULL) == 0);
		TWT_NEED(side, !atomic_load(&hog->failed) && hog->count < MANY);
	}
	count = hog->count;
	TWT_NEED(side, twt_nccl_exchange(side, &count, &theirs, sizeof(count)));
	for (int i = 0; i < theirs; i++)
		TWT_NEED(side,
			 twt_nccl_wait(side, twt_nccl_post_send(side, send, &byte, 1, 0), NULL));
	for (int i = 0; i < count; i++)
		TWT_NEED(side, twt_nccl_wait(side, hog->requests[i], NULL));
	return true;
}

/* A step of the connect and of the accept, as long as they have no comm. */
static bool connect_once(struct twt_nccl_side *side, void *listening, void *handle, void *comms[2])
{
	if (comms[0] == NULL)
		TWT_NEED(side, net_connect(&side->net, side->context, 0, handle, &comms[0]) ==
				       NCCL_SUCCESS);
	if (comms[1] == NULL)
		TWT_NEED(side, net_accept(&side->net, listening, &comms[1]) == NCCL_SUCCESS);
	twt_nccl_give_way();
	return true;
}

/* The table of one side is full as both connect: they wait, and end when it has room again. */
static bool connect_beside(struct twt_nccl_side *side, int full)
{
	char mine[NCCL_HANDLE_BYTES] = { 0 }, theirs[NCCL_HANDLE_BYTES];
	void *send, *recv, *listening, *comms[2] = { NULL, NULL };
	struct hog hog = { .count = 0 };
	double begin;

	TWT_NEED(side, twt_nccl_connect(side, &send, &recv));
	TWT_NEED(side, net_listen(&side->net, side->context, 0, mine, &listening) == 0);
	if (side->side == full)
		TWT_NEED(side, hog_start(&hog, side, recv));
	TWT_NEED(side, twt_nccl_exchange(side, mine, theirs, sizeof(mine)));
	for (int i = 0; i < 300; i++)
		TWT_NEED(side, connect_once(side, listening, theirs, comms));
	TWT_NEED(side, side->side != full || comms[0] == NULL);
	TWT_NEED(side, hog_end(&hog, side, send));
	begin = twt_nccl_now();
	while (comms[0] == NULL || comms[1] == NULL) {
		TWT_NEED(side, twt_nccl_now() - begin < TWT_NCCL_WAIT_S);
		TWT_NEED(side, connect_once(side, listening, theirs, comms));
	}
	TWT_NEED(side, net_close_listen(&side->net, listening) == NCCL_SUCCESS);
	TWT_NEED(side, groups(side, comms[0], comms[1], true));
	TWT_NEED(side, twt_nccl_close(side, comms[0], comms[1]));
	return twt_nccl_close(side, send, recv);
}

static bool connects_when_full(struct twt_nccl_side *side)
{
	for (int round = 0; round < 4; round++)
		TWT_NEED(side, connect_beside(side, round % 2));
	return true;
}

static void over_lanes(twt_nccl_part part)
{
	for (size_t lane = 0; twt_nccl_lane(lane) != NULL; lane++) {
		struct twt_nccl_run run = { .part = part,
					    .version = NET_VERSION_LAST,
					    .lane = twt_nccl_lane(lane),
					    .seed = seed };

		if (!twt_nccl_run(&run))
			fail_msg("with 16 operations over %s", run.lane);
	}
}

static void few_operations(void **state)
{
	(void)state;
	setenv("TOW_MAX_OPS", "16", 1);
	over_lanes(groups_alone);
	over_lanes(connects_when_full); /* by a connection of its own */
	setenv("TOW_NCCL_CONNECTIONS", "1", 1);
	setenv("TOW_EAGER_MAX_BYTES", "0", 1); /* a hello needs an operation, too */
	over_lanes(connects_when_full);
	unsetenv("TOW_EAGER_MAX_BYTES");
	unsetenv("TOW_NCCL_CONNECTIONS");
	unsetenv("TOW_MAX_OPS");
}

static void two_processes(void **state)
{
	(void)state;
	play(false);
}

static void two_threads(void **state)
{
	(void)state;
	play(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_processes),
		cmocka_unit_test(two_threads),
		cmocka_unit_test(few_operations),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
