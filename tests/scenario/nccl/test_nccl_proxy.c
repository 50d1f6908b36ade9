/*
 * test_nccl_proxy.c - plugins/nccl as NCCL's proxy uses it: in each process one thread connects,
 * registers and closes while another one keeps 8 messages under way on each communicator and tests
 * the oldest; many communicators over few descriptors; the other process killed; no descriptors.
 */
#include "twt.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "nccl_pair.h"

#define SLOTS    8
#define COMMS    4
#define MESSAGES 200
#define LARGEST  (200u << 10)
#define MANY     200

static uint64_t seed;

/* One direction of a communicator, as the progress thread has it. */
struct flow {
	void *comm, *requests[SLOTS];
	char *memory;
	bool sends;
	uint64_t which, sizes; /* of the data; the same random sizes on both sides */
	size_t bytes[SLOTS];
	int posted, done;
};

struct progress {
	struct twt_nccl_side *side;
	struct flow flows[2 * COMMS];
	bool good;
};

static bool flow_post(struct twt_nccl_side *side, struct flow *flow)
{
	int slot = flow->posted % SLOTS, tag = 9;
	void *at = flow->memory + (size_t)slot * LARGEST, *region = NULL;
	void *request = NCCL_OPTIONAL_COMPLETION;
	uint64_t sizes = flow->sizes;
	size_t room = LARGEST;

	flow->bytes[slot] = twt_random_below(&sizes, 3) == 0 ? twt_random_below(&sizes, LARGEST)
							     : twt_random_below(&sizes, 300);
	if (flow->sends)
		twt_nccl_fill(at, flow->bytes[slot], flow->which + (uint64_t)flow->posted);
	TWT_NEED(side, (flow->sends ? net_send(&side->net, flow->comm, at, flow->bytes[slot], tag,
					       NULL, &request)
				    : net_recv(&side->net, flow->comm, 1, &at, &room, &tag, &region,
					       &request)) == NCCL_SUCCESS);
	if (request == NULL)
		return true; /* busy: the sizes stay where they are */
	flow->requests[slot] = request;
	flow->sizes = sizes;
	flow->posted++;
	return true;
}

static bool flow_turn(struct twt_nccl_side *side, struct flow *flow)
{
	int slot = flow->done % SLOTS, done = 0, bytes = -1;

	if (flow->posted < MESSAGES && flow->posted - flow->done < SLOTS)
		TWT_NEED(side, flow_post(side, flow));
	if (flow->done == flow->posted)
		return true;
	TWT_NEED(side, net_test(&side->net, flow->requests[slot], &done, &bytes) == NCCL_SUCCESS);
	if (!done)
		return true;
	TWT_NEED(side, bytes == (int)flow->bytes[slot]);
	if (!flow->sends)
		TWT_NEED(side, twt_nccl_is(flow->memory + (size_t)slot * LARGEST, (size_t)bytes,
					   flow->which + (uint64_t)flow->done));
	flow->done++;
	return true;
}

static bool flows_run(struct progress *progress)
{
	struct twt_nccl_side *side = progress->side;
	double begin = twt_nccl_now();
	int left = 1;

	while (left > 0) {
		left = 0;
		for (int i = 0; i < 2 * COMMS; i++) {
			TWT_NEED(side, flow_turn(side, &progress->flows[i]));
			left += progress->flows[i].done < MESSAGES;
		}
		TWT_NEED(side, twt_nccl_now() - begin < 2 * TWT_NCCL_WAIT_S);
	}
	return true;
}

static void *progress_thread(void *arg)
{
	struct progress *progress = arg;

	progress->good = flows_run(progress);
	return NULL;
}

/* What the service thread does meanwhile: memory comes and goes, communicators too. */
static bool serve(struct twt_nccl_side *side, struct progress *progress)
{
	for (int i = 0; i < 5; i++) {
		struct flow *flow = &progress->flows[i % (2 * COMMS)];
		void *send, *recv, *region, *again, *memory = malloc(1 << 20);

		TWT_NEED(side, net_register(&side->net, flow->comm, memory, 1 << 20,
					    NCCL_POINTER_HOST, &region) == NCCL_SUCCESS);
		TWT_NEED(side, net_register(&side->net, flow->comm, memory, 1 << 20,
					    NCCL_POINTER_HOST, &again) == NCCL_SUCCESS);
		TWT_NEED(side, net_deregister(&side->net, flow->comm, region) == NCCL_SUCCESS);
		TWT_NEED(side, twt_nccl_connect(side, &send, &recv));
		TWT_NEED(side, net_deregister(&side->net, send, again) == NCCL_SUCCESS);
		free(memory);
		TWT_NEED(side, twt_nccl_close(side, send, recv));
	}
	return true;
}

static bool flow_open(struct twt_nccl_side *side, struct flow *flow, void *comm, bool sends,
		      uint64_t index)
{
	uint64_t from = index * 2 + (uint64_t)(sends ? side->side : 1 - side->side);

	flow->comm = comm;
	flow->sends = sends;
	flow->which = from << 32;
	flow->sizes = side->seed + from;
	flow->memory = malloc((size_t)SLOTS * LARGEST);
	return flow->memory != NULL;
}

static bool proxy(struct twt_nccl_side *side)
{
	struct progress progress = { .side = side };
	pthread_t thread;
	bool served;

	for (uint64_t i = 0; i < COMMS; i++) {
		void *send, *recv;

		TWT_NEED(side, twt_nccl_connect(side, &send, &recv));
		TWT_NEED(side, flow_open(side, &progress.flows[2 * i], send, true, i) &&
				       flow_open(side, &progress.flows[2 * i + 1], recv, false, i));
	}
	TWT_NEED(side, pthread_create(&thread, NULL, progress_thread, &progress) == 0);
	served = serve(side, &progress);
	pthread_join(thread, NULL);
	TWT_NEED(side, served && progress.good && twt_nccl_meet(side));
	for (int i = 0; i < 2 * COMMS; i++) {
		const struct flow *flow = &progress.flows[i];

		TWT_NEED(side, (flow->sends ? net_close_send(&side->net, flow->comm)
					    : net_close_recv(&side->net, flow->comm)) == 0);
		free(flow->memory);
	}
	return true;
}

/* Many communicators: descriptors and mappings are those of a few connections, and all work. */
static bool many(struct twt_nccl_side *side)
{
	static void *send[2][MANY], *recv[2][MANY]; /* of each side: they can be threads of one */
	void **sends = send[side->side], **recvs = recv[side->side];
	int before, after;

	TWT_NEED(side, twt_nccl_connect(side, &sends[0], &recvs[0]));
	before = twt_fd_count();
	for (int i = 1; i < MANY; i++)
		TWT_NEED(side, twt_nccl_connect(side, &sends[i], &recvs[i]));
	after = twt_fd_count();
	TWT_NEED(side, after - before < MANY / 4);
	for (int i = 0; i < MANY; i++) {
		int out = i, in = -1;
		void *sent = twt_nccl_post_send(side, sends[i], &out, sizeof(out), 0);

		TWT_NEED(side,
			 twt_nccl_wait(side, twt_nccl_post_recv(side, recvs[i], &in, sizeof(in), 0),
				       NULL) &&
				 in == i && twt_nccl_wait(side, sent, NULL));
	}
	for (int i = 0; i < MANY; i++)
		TWT_NEED(side, twt_nccl_close(side, sends[i], recvs[i]));
	return true;
}

/* A receive stands, and the other process is killed: NCCL is told that it was the other side. */
static bool killed(struct twt_nccl_side *side)
{
	void *send, *recv, *request;
	int result = NCCL_SUCCESS, done = 0, status;
	double begin;
	char in[8];

	TWT_NEED(side, twt_nccl_connect(side, &send, &recv) && twt_nccl_meet(side));
	if (side->side == 1) {
		kill(getpid(), SIGKILL);
		return false;
	}
	request = twt_nccl_post_recv(side, recv, in, sizeof(in), 0);
	begin = twt_nccl_now();
	while (result == NCCL_SUCCESS && request != NULL) {
		result = net_test(&side->net, request, &done, NULL);
		TWT_NEED(side, !done && twt_nccl_now() - begin < TWT_NCCL_WAIT_S);
	}
	printf("told of a killed peer after %.3f s over %s\n", twt_nccl_now() - begin,
	       side->run->lane);
	side->loose = true;
	TWT_NEED(side, request == NULL || result == NCCL_REMOTE_ERROR);
	for (int i = 0; i < 1000 && result != NCCL_REMOTE_ERROR; i++)
		result = net_send(&side->net, send, in, sizeof(in), 0, NULL, &request);
	status = net_close_send(&side->net, send);
	TWT_NEED(side, status == NCCL_SUCCESS && net_close_recv(&side->net, recv) == 0);
	return net_finalize(&side->net, side->context) == NCCL_SUCCESS;
}

/* Without a descriptor a connect fails, or waits; it does not crash, and works afterwards. */
static bool no_descriptors(struct twt_nccl_side *side)
{
	char mine[NCCL_HANDLE_BYTES] = { 0 }, theirs[NCCL_HANDLE_BYTES], copy[NCCL_HANDLE_BYTES];
	struct rlimit limit, none;
	void *listening = NULL, *send = NULL, *recv = NULL;
	int result = NCCL_SUCCESS;

	TWT_NEED(side, net_listen(&side->net, side->context, 0, mine, &listening) == 0);
	TWT_NEED(side, twt_nccl_exchange(side, mine, theirs, sizeof(mine)));
	if (side->side == 1) {
		TWT_NEED(side, getrlimit(RLIMIT_NOFILE, &limit) == 0);
		none = limit;
		none.rlim_cur = 3; /* what is open stays so, and nothing else can be */
		TWT_NEED(side, setrlimit(RLIMIT_NOFILE, &none) == 0);
		memcpy(copy, theirs, sizeof(copy));
		for (int i = 0; i < 1000 && result == NCCL_SUCCESS && send == NULL; i++)
			result = net_connect(&side->net, side->context, 0, copy, &send);
		TWT_NEED(side, setrlimit(RLIMIT_NOFILE, &limit) == 0);
		TWT_NEED(side, result == NCCL_SYSTEM_ERROR && send == NULL);
	}
	TWT_NEED(side, net_close_listen(&side->net, listening) == NCCL_SUCCESS);
	TWT_NEED(side, twt_nccl_meet(side) && twt_nccl_connect(side, &send, &recv));
	return twt_nccl_close(side, send, recv);
}

static void run_part(twt_nccl_part part, bool threads, bool dies)
{
	for (size_t lane = 0; twt_nccl_lane(lane) != NULL; lane++) {
		struct twt_nccl_run run = { .part = part,
					    .version = NET_VERSION_LAST - (int)(lane % 2),
					    .lane = twt_nccl_lane(lane),
					    .threads = threads,
					    .one_may_die = dies,
					    .seed = seed };

#ifdef TWT_TSAN
		if (!threads && lane > 1)
			continue;
#endif
		if (dies && strcmp(run.lane, "ofi://shm") == 0) {
			print_message("not %s: a process that dies in libfabric's shm provider may "
				      "leave the other one turning in fi_cq_read (docs/ofi.md)\n",
				      run.lane);
			continue;
		}
		if (!twt_nccl_run(&run))
			fail_msg("over %s", run.lane);
	}
}

static void as_the_proxy(void **state)
{
	(void)state;
	run_part(proxy, false, false);
}

static void as_two_proxies_of_one_process(void **state)
{
	(void)state;
	run_part(proxy, true, false);
}

static void many_communicators(void **state)
{
	(void)state;
	run_part(many, false, false);
}

static void a_killed_peer(void **state)
{
	(void)state;
	/* Over libfabric nothing but silence tells of it. */
	setenv("TOW_PEER_TIMEOUT_NS", "1s", 1);
	run_part(killed, false, true);
	unsetenv("TOW_PEER_TIMEOUT_NS");
}

static void without_descriptors(void **state)
{
	struct twt_nccl_run run = { .part = no_descriptors,
				    .version = NET_VERSION_LAST,
				    .lane = twt_nccl_lane(0),
				    .seed = seed };

	(void)state;
	assert_true(twt_nccl_run(&run));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_proxy),
		cmocka_unit_test(as_two_proxies_of_one_process),
		cmocka_unit_test(many_communicators),
		cmocka_unit_test(a_killed_peer),
		cmocka_unit_test(without_descriptors),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
