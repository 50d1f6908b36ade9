/*
 * test_nccl_profiler_edges.c - the profiler of plugins/nccl in one process, through each table:
 * what is counted, several communicators, settings, bounds, threads, and sequences of events that
 * no NCCL would make.
 */
#include "twt.h"

#include <dlfcn.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl_events.h"

static uint64_t seed;

static const struct twt_np_times quick = { 50, 10, 100, 100, 50 };

/* A child plays `run` with a plugin of its own, and must end well. */
static void in_child(int version, void (*run)(const struct twt_np *p))
{
	int how;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		struct twt_np p = twt_np_load(version);

		signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the next test in here */
		setenv("TOW_PREMAP_MEMORY_BYTES", "4194304", 1);
		alarm(60);
		run(&p);
		exit(0);
	}
	assert_int_equal(waitpid(pid, &how, 0), pid);
	if (!WIFEXITED(how) || WEXITSTATUS(how) != 0)
		fail_msg("version %d ended with %#x", version, (unsigned)how);
}

/* Of the library that the plugin was loaded with, as the test has one of its own inside. */
static void *own_symbol(const char *name)
{
	void *library = dlopen("libtowline.so.0", RTLD_NOW | RTLD_NOLOAD), *found;

	TWT_MUST(library != NULL);
	found = dlsym(library, name);
	TWT_MUST(found != NULL);
	return found;
}

/* A document of the runtime that the plugin has. */
static char *own_document(const char *path)
{
	int (*share)(const struct tow_options *, struct tow_runtime **);
	int (*get)(struct tow_runtime *, const char *, char **);
	int (*give)(struct tow_runtime *);
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	char *text;

	*(void **)&share = own_symbol("tow_runtime_share");
	*(void **)&get = own_symbol("tow_stats_get");
	*(void **)&give = own_symbol("tow_runtime_close");
	TWT_MUST(share(&options, &runtime) == TOW_OK);
	TWT_MUST(get(runtime, path, &text) == TOW_OK);
	TWT_MUST(give(runtime) == TOW_OK);
	return text;
}

static json_t *own_groups(json_t **root_out)
{
	char *text = own_document("/v1/coll");

	*root_out = json_loads(text, 0, NULL);
	free(text);
	return json_object_get(*root_out, "foreign_groups");
}

static json_int_t member(json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static json_int_t in_flight(void)
{
	json_t *root;
	json_int_t count = json_integer_value(
		json_object_get(json_array_get(own_groups(&root), 0), "in_flight"));

	json_decref(root);
	return count;
}

/* A collective is over when a channel has run and nothing is under way; not before. */
static void when_it_is_over(const struct twt_np *p)
{
	struct nccl_event_descriptor kernel = { .parent = NULL };
	void *context, *coll, *channel, *op;
	int mask;

	TWT_MUST(twt_np_init(p, &context, &mask, "a", 1, 2, 0) == 0);
	kernel.parent = coll = twt_np_coll(p, context, "AllReduce");
	channel = twt_np_start(p, context, NCCL_EVENT_KERNEL, kernel);
	op = twt_np_op(p, context, coll, 1, 1);
	twt_np_stop(p, op);
	twt_np_stop(p, coll);
	TWT_MUST(in_flight() == 1); /* the channel still runs */
	twt_np_stop(p, channel);
	TWT_MUST(in_flight() == 0);
	kernel.parent = coll = twt_np_coll(p, context, "AllReduce");
	twt_np_stop(p, coll);
	op = twt_np_op(p, context, coll, 1, 1);
	twt_np_stop(p, op);
	TWT_MUST(in_flight() == 1); /* its channels are to come */
	channel = twt_np_start(p, context, NCCL_EVENT_KERNEL, kernel);
	op = twt_np_op(p, context, coll, 1, 1);
	twt_np_stop(p, channel);
	TWT_MUST(in_flight() == 1); /* an operation is under way */
	twt_np_stop(p, op);
	TWT_MUST(in_flight() == 0);
	coll = twt_np_coll(p, context, "AllReduce");
	twt_np_stop(p, coll);
	kernel.parent = twt_np_coll(p, context, "AllReduce");
	TWT_MUST(in_flight() == 2);
	TWT_MUST(p->v4->finalize(context) == 0);
}

/* What is counted: calls, bytes, messages by peer, kinds, and what is none of them. */
static void count_all(const struct twt_np *p)
{
	struct twt_fj job = { .ranks = 3, .fault = FJ_HEALTHY };
	struct nccl_event_descriptor what = { .rank = 0 };
	json_t *root, *group, *row;
	void *context, *event;
	int mask;

	TWT_MUST(twt_np_init(p, &context, &mask, "named", 5, 3, 1) == 0);
	for (int i = 0; i < 3; i++) {
		event = twt_np_coll(p, context, i == 2 ? "AllGather" : "AllReduce");
		TWT_MUST(event != NULL);
		twt_np_stop(p, event);
		twt_np_proxy(p, &job, 1, &quick, context, event);
	}
	TWT_MUST(twt_np_coll(p, context, "Unheard") == NULL);
	what.p2p.function = "Send";
	event = twt_np_start(p, context, NCCL_EVENT_P2P, what);
	TWT_MUST(event != NULL);
	twt_np_stop(p, event);
	twt_np_proxy(p, &job, 1, &quick, context, event);
	group = json_array_get(own_groups(&root), 0);
	TWT_MUST(strcmp(json_string_value(json_object_get(group, "name")), "named") == 0);
	TWT_MUST(member(group, "started") == 3 && member(group, "in_flight") == 0);
	TWT_MUST(member(group, "last_entered") == 3);
	row = json_array_get(json_object_get(group, "kinds"), 0);
	TWT_MUST(member(row, "calls") == 2 && member(row, "bytes") == 2 * 4 * (json_int_t)NP_COUNT);
	row = json_array_get(json_object_get(group, "kinds"), 1);
	TWT_MUST(member(row, "calls") == 1 && member(row, "bytes") == 3 * 4 * (json_int_t)NP_COUNT);
	TWT_MUST(json_array_size(json_object_get(group, "peers")) == 2);
	for (size_t i = 0; i < 2; i++) {
		row = json_array_get(json_object_get(group, "peers"), i);
		TWT_MUST(member(row, "messages") == 4 * NP_CHANNELS * NP_STEPS);
		TWT_MUST(member(row, "bytes") == (json_int_t)4 * NP_CHANNELS * NP_STEPS << 19);
		TWT_MUST(member(row, "peer") ==
			 (json_is_true(json_object_get(row, "sends")) ? 2 : 0));
		TWT_MUST(member(row, "wire_ns") > 0 && member(row, "device_ns") > 0);
	}
	row = json_array_get(json_object_get(group, "last"), 0);
	TWT_MUST(strcmp(json_string_value(json_object_get(row, "plan")), "RING/SIMPLE") == 0);
	TWT_MUST(strcmp(json_string_value(json_object_get(row, "type")), "f32") == 0);
	json_decref(root);
	TWT_MUST(p->v4->finalize(context) == 0);
}

/* Two communicators, one without a name; a second life of the first one's row. */
static void several_communicators(const struct twt_np *p)
{
	void *first, *second, *third, *coll;
	json_t *root, *groups;
	int mask;

	TWT_MUST(twt_np_init(p, &first, &mask, NULL, 0xabc, 2, 0) == 0);
	TWT_MUST(twt_np_init(p, &second, &mask, "other", 0xdef, 2, 1) == 0);
	coll = twt_np_coll(p, first, "AllReduce");
	groups = own_groups(&root);
	TWT_MUST(json_array_size(groups) == 2);
	TWT_MUST(strcmp(json_string_value(json_object_get(json_array_get(groups, 0), "name")),
			"nccl-0000000000000abc") == 0);
	json_decref(root);
	TWT_MUST(p->v4->finalize(first) == 0);
	TWT_MUST(p->v4->finalize(first) != 0);
	TWT_MUST(twt_np_init(p, &third, &mask, "third", 0x123, 2, 0) == 0);
	TWT_MUST(third != first);
	twt_np_stop(p, coll); /* of a communicator that is over: nobody's */
	TWT_MUST(twt_np_coll(p, first, "AllReduce") == NULL);
	TWT_MUST(twt_np_op(p, third, coll, 1, 1) != NULL);
	groups = own_groups(&root);
	TWT_MUST(json_array_size(groups) == 2);
	TWT_MUST(member(json_array_get(groups, 1), "in_flight") == 0);
	json_decref(root);
	TWT_MUST(p->v4->finalize(third) == 0);
	TWT_MUST(p->v4->finalize(second) == 0);
}

/* What init refuses, and what TOW_NCCL_EVENTS asks for. */
static void settings(const struct twt_np *p)
{
	void *context;
	int mask;

	TWT_MUST(twt_np_init(p, NULL, &mask, "a", 1, 2, 0) != 0);
	TWT_MUST(twt_np_init(p, &context, NULL, "a", 1, 2, 0) != 0);
	TWT_MUST(twt_np_init(p, &context, &mask, "a", 1, 2, 2) != 0);
	TWT_MUST(twt_np_init(p, &context, &mask, "a", 1, 2, -1) != 0);
	TWT_MUST(twt_np_init(p, &context, &mask, "a", 1, 0, 0) != 0);
	setenv("TOW_NCCL_EVENTS", "none", 1);
	TWT_MUST(twt_np_init(p, &context, &mask, "a", 1, 2, 0) == 0 && mask == 0);
	TWT_MUST(p->v4->finalize(context) == 0);
	setenv("TOW_NCCL_EVENTS", "network", 1);
	TWT_MUST(twt_np_init(p, &context, &mask, "a", 1, 2, 0) == 0 &&
		 (mask & NCCL_EVENT_KERNEL) == 0 && (mask & NCCL_EVENT_PROXY_STEP) != 0);
	TWT_MUST(p->v4->finalize(context) == 0);
	setenv("TOW_NCCL_EVENTS", "device", 1);
	TWT_MUST(twt_np_init(p, &context, &mask, "a", 1, 2, 0) == 0 &&
		 (mask & NCCL_EVENT_KERNEL) != 0 && (mask & NCCL_EVENT_PROXY_OP) == 0);
	TWT_MUST(p->v4->finalize(context) == 0);
	setenv("TOW_NCCL_EVENTS", "everything", 1);
	TWT_MUST(twt_np_init(p, &context, &mask, "a", 1, 2, 0) == 0 &&
		 (mask & NCCL_EVENT_PROXY_STEP) != 0);
	TWT_MUST(p->v4->finalize(context) == 0);
}

#define KEPT 64

/* A random event, with random parents, of random contexts; null where that can be. */
static void *random_start(const struct twt_np *p, uint64_t *random, void **contexts, void **kept)
{
	void *parent = kept[twt_random_below(random, KEPT)];
	void *context = contexts[twt_random_below(random, 3)];
	struct nccl_event_descriptor what = { .parent = parent };

	switch (twt_random_below(random, 7)) {
	case 0:
		return twt_np_coll(p, context, twt_random_below(random, 4) == 0 ? NULL : "Reduce");
	case 1:
		return twt_np_start(p, context, NCCL_EVENT_P2P, what);
	case 2:
		return twt_np_op(p, context, parent, (int)twt_random_below(random, 7) - 1,
				 (int)twt_random_below(random, 2));
	case 3:
		return twt_np_step(p, context, parent, (int)twt_random_below(random, 9));
	case 4:
		return twt_np_start(p, context, NCCL_EVENT_KERNEL, what);
	case 5: /* of another process: its context is no pointer here */
		what.op.pid = (int32_t)getpid() + 1;
		return twt_np_start(p, (void *)(uintptr_t)twt_random(random), NCCL_EVENT_PROXY_OP,
				    what);
	default:
		return twt_np_start(p, context, 1u << twt_random_below(random, 15), what);
	}
}

/* Anything in any order: stops twice, states of what has ended, parents of another kind. */
static void hostile(const struct twt_np *p)
{
	void *kept[KEPT] = { NULL }, *contexts[3], *event;
	uint64_t random = seed;
	json_t *root;
	int mask;

	TWT_MUST(twt_np_init(p, &contexts[0], &mask, "a", 1, 4, 0) == 0);
	TWT_MUST(twt_np_init(p, &contexts[1], &mask, "b", 2, 4, 3) == 0);
	contexts[2] = NULL;
	p->v4->start(contexts[0], NULL, NULL);
	p->v4->stop(NULL);
	p->v4->state(NULL, 8, NULL);
	for (int i = 0; i < 60000; i++) {
		size_t at = twt_random_below(&random, KEPT);

		switch (twt_random_below(&random, 4)) {
		case 0:
			kept[at] = random_start(p, &random, contexts, kept);
			break;
		case 1:
			p->v4->stop(kept[at]);
			break;
		case 2:
			p->v4->state(kept[at], (int)twt_random_below(&random, 26), NULL);
			break;
		default: /* a bit of a handle is another one */
			event = (void *)((uintptr_t)kept[at] ^
					 (uintptr_t)1 << twt_random_below(&random, 64));
			if (twt_random_below(&random, 2) == 0)
				p->v4->stop(event);
			else
				twt_np_state(p, event, (int)twt_random_below(&random, 26), 77);
		}
	}
	TWT_MUST(json_array_size(own_groups(&root)) == 2);
	json_decref(root);
	TWT_MUST(p->v4->finalize(contexts[0]) == 0);
	TWT_MUST(p->v4->finalize(contexts[1]) == 0);
}

/* More steps than there is room for: the others are counted, and what ended gives room again. */
static void bounded(const struct twt_np *p)
{
	static void *steps[6000];
	void *context, *op;
	unsigned got = 0;
	int mask;

	TWT_MUST(twt_np_init(p, &context, &mask, "a", 1, 2, 0) == 0);
	op = twt_np_op(p, context, twt_np_coll(p, context, "AllReduce"), 1, 1);
	for (unsigned i = 0; i < 6000; i++) {
		steps[i] = twt_np_step(p, context, op, (int)i);
		got += steps[i] != NULL;
	}
	TWT_MUST(got == 4095);
	twt_np_stop(p, op); /* before its steps */
	for (unsigned i = 0; i < 6000; i++)
		twt_np_stop(p, steps[i]);
	op = twt_np_op(p, context, NULL, 1, 1);
	TWT_MUST(op != NULL && twt_np_step(p, context, op, 0) != NULL);
	for (unsigned i = 0; i < 600; i++) /* calls that never stop */
		TWT_MUST(twt_np_coll(p, context, "AllReduce") != NULL);
	TWT_MUST(p->v4->finalize(context) == 0);
}

static json_int_t messages_so_far(void)
{
	json_t *root, *peers = json_object_get(json_array_get(own_groups(&root), 0), "peers");
	json_int_t count = member(json_array_get(peers, 0), "messages");

	json_decref(root);
	return count;
}

/* What has stopped is not what has its room now; and what another process owns gets no event. */
static void stale(const struct twt_np *p)
{
	struct nccl_event_descriptor what = { .rank = 0 };
	void *context, *op, *first, *second;
	int mask;

	TWT_MUST(twt_np_init(p, &context, &mask, "a", 1, 2, 0) == 0);
	op = twt_np_op(p, context, NULL, 1, 1);
	first = twt_np_step(p, context, op, 0);
	twt_np_stop(p, first);
	second = twt_np_step(p, context, op, 1);
	TWT_MUST(second != NULL && second != first && messages_so_far() == 1);
	twt_np_stop(p, first);
	twt_np_state(p, first, NCCL_STATE_SEND_WAIT, 5);
	TWT_MUST(messages_so_far() == 1);
	twt_np_stop(p, second);
	twt_np_stop(p, second);
	TWT_MUST(messages_so_far() == 2);
	what.op.pid = (int32_t)getpid() + 1;
	what.op.peer = 1;
	TWT_MUST(twt_np_start(p, context, NCCL_EVENT_PROXY_OP, what) == NULL);
	what.op.pid = (int32_t)getpid();
	TWT_MUST(twt_np_start(p, context, NCCL_EVENT_PROXY_OP, what) != NULL);
	TWT_MUST(p->v4->finalize(context) == 0);
}

struct crowd {
	const struct twt_np *p;
	void *context;
	bool launches;
};

static void *crowd_run(void *arg)
{
	struct twt_fj job = { .ranks = 4, .fault = FJ_HEALTHY };
	const struct crowd *crowd = arg;

	for (int i = 0; i < 40; i++) {
		void *coll = twt_np_coll(crowd->p, crowd->context, "AllReduce");

		twt_np_stop(crowd->p, coll);
		if (!crowd->launches)
			twt_np_proxy(crowd->p, &job, 0, &quick, crowd->context, coll);
	}
	return NULL;
}

static void several_threads(const struct twt_np *p)
{
	struct crowd crowd[4];
	pthread_t threads[4];
	void *context;
	json_t *root;
	int mask;

	TWT_MUST(twt_np_init(p, &context, &mask, "crowd", 1, 4, 0) == 0);
	for (int i = 0; i < 4; i++) {
		crowd[i] = (struct crowd){ p, context, i % 2 == 0 };
		TWT_MUST(pthread_create(&threads[i], NULL, crowd_run, &crowd[i]) == 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	TWT_MUST(member(json_array_get(own_groups(&root), 0), "started") == 160);
	json_decref(root);
	TWT_MUST(p->v4->finalize(context) == 0);
}

/* A message of the network half, within the process. */
static void send_to_self(void *net_context)
{
	const struct nccl_net_v11 *net = twt_np_symbol("ncclNetPlugin_v11");
	char handle[NCCL_HANDLE_BYTES] = { 0 };
	void *listening, *sending = NULL, *receiving = NULL, *requests[2] = { NULL, NULL };
	void *nobody;
	size_t bytes = 1000;
	void *room = calloc(1, bytes), *payload = calloc(1, bytes);
	int tag = 0, done;

	TWT_MUST(net->listen(net_context, 0, handle, &listening) == 0);
	while (sending == NULL || receiving == NULL) {
		if (sending == NULL)
			TWT_MUST(net->connect(net_context, 0, handle, &sending, NULL) == 0);
		if (receiving == NULL)
			TWT_MUST(net->accept(listening, &receiving, NULL) == 0);
	}
	while (requests[0] == NULL)
		TWT_MUST(net->isend(sending, payload, bytes, 0, NULL, NULL, &requests[0]) == 0);
	for (int i = 0; i < 300; i++) { /* it has come before somebody wants it: it is copied */
		done = 0;
		if (requests[0] != NULL)
			TWT_MUST(net->test(requests[0], &done, NULL) == 0);
		requests[0] = done ? NULL : requests[0];
		twt_np_nap(100);
		TWT_MUST(net->accept(listening, &nobody, NULL) == 0 && nobody == NULL);
	}
	while (requests[1] == NULL)
		TWT_MUST(net->irecv(receiving, 1, &room, &bytes, &tag, NULL, NULL, &requests[1]) ==
			 0);
	while (requests[0] != NULL || requests[1] != NULL)
		for (int i = 0; i < 2; i++) {
			done = 0;
			if (requests[i] != NULL)
				TWT_MUST(net->test(requests[i], &done, NULL) == 0);
			requests[i] = done ? NULL : requests[i];
		}
	TWT_MUST(net->close_send(sending) == 0 && net->close_recv(receiving) == 0);
	TWT_MUST(net->close_listen(listening) == 0);
	free(room);
	free(payload);
}

/* Whether the copies that a message costs are told by that name. */
static bool is_named(void *net_context, const char *name)
{
	char *text;
	bool found;

	send_to_self(net_context);
	text = own_document("/v1/copies");
	found = strstr(text, name) != NULL;
	if (getenv("TOW_TEST_NCCL_LOG") != NULL)
		fprintf(stderr, "%s\n", text);
	free(text);
	return found;
}

/* The network half knows its communicator by the number that both inits are given. */
static void net_has_names(const struct twt_np *p)
{
	const struct nccl_net_v11 *net = twt_np_symbol("ncclNetPlugin_v11");
	struct nccl_net_config config = { .traffic_class = -1 };
	void *context, *contexts[2];
	int mask;

	setenv("NCCL_SOCKET_IFNAME", "lo", 1);
	setenv("TOW_NCCL_LANE", "tcp", 1);
	TWT_MUST(twt_np_init(p, &context, &mask, "zebra\tdp", 77, 2, 0) == 0);
	TWT_MUST(net->init(&contexts[0], 77, &config, twt_np_log, NULL) == 0);
	TWT_MUST(net->init(&contexts[1], 78, &config, twt_np_log, NULL) == 0);
	TWT_MUST(!is_named(contexts[1], "zebra")); /* of one that nobody has named */
	TWT_MUST(is_named(contexts[0], "zebra?dp"));
	TWT_MUST(p->v4->finalize(context) == 0); /* the network goes on */
	send_to_self(contexts[0]);
	TWT_MUST(net->finalize(contexts[0]) == 0 && net->finalize(contexts[1]) == 0);
}

static void one_process(void **state)
{
	static void (*const runs[])(const struct twt_np *) = {
		count_all, when_it_is_over, several_communicators, settings,     hostile,
		bounded,   stale,           several_threads,       net_has_names
	};

	(void)state;
	for (int version = 4; version <= 6; version++)
		for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
			in_child(version, runs[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_process),
	};

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
