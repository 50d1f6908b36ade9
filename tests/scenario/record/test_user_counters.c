/*
 * test_user_counters.c - counters, latencies and rows of /v1/peers have what the user did and no
 * more, on every lane: two ranks that only connect, then barriers, messages, collectives and calls,
 * each looked at by the difference that it made.
 */
#include "coll_job.h"

#include <jansson.h>

#define SMALL 3
#define LARGE (1u << 20)
#define NEXT  64

/* What none but messages of the user may change. */
static const char *const of_messages[] = {
	"sends",
	"recvs",
	"send_bytes",
	"recv_bytes",
	"eager_sends",
	"rendezvous_sends",
	"unexpected_messages",
	"unexpected_bytes",
	"credit_stalls",
};

static json_t *document(const struct twt_job *job, const char *path)
{
	char *text;
	json_t *json;

	twt_must(tow_stats_get(job->runtime, path, &text) == TOW_OK);
	json = json_loads(text, 0, NULL);
	twt_must(json != NULL);
	tow_stats_release(text);
	return json;
}

static uint64_t number(const struct twt_job *job, const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_integer(value))
		fprintf(stderr, "there is no number \"%s\"\n", key);
	twt_must(json_is_integer(value));
	return (uint64_t)json_integer_value(value);
}

static uint64_t counter(const struct twt_job *job, const char *name)
{
	json_t *json = document(job, "/v1/counters");
	uint64_t value =
		number(job,
		       json_object_get(json, "counters") != NULL ? json_object_get(json, "counters")
								 : json,
		       name);

	json_decref(json);
	return value;
}

static void sum_is(const struct twt_job *job, const char *name, uint64_t wanted)
{
	uint64_t found = counter(job, name);

	if (found != wanted)
		fprintf(stderr, "%s: %s is %llu, not %llu\n", job->lane, name,
			(unsigned long long)found, (unsigned long long)wanted);
	twt_must(found == wanted);
}

/* How many messages or calls /v1/latency tells of in an array. */
static uint64_t timed(const struct twt_job *job, const char *array)
{
	json_t *json = document(job, "/v1/latency"), *row;
	uint64_t sum = 0;
	size_t i;

	json_array_foreach(json_object_get(json, array), i, row) sum += number(job, row, "count");
	json_decref(json);
	return sum;
}

/* Of the only peer. */
static uint64_t of_peer(const struct twt_job *job, const char *name)
{
	json_t *json = document(job, "/v1/peers");
	json_t *peers = json_object_get(json, "peers");
	uint64_t value;

	twt_must(json_array_size(peers) == 1);
	value = number(job, json_array_get(peers, 0), name);
	json_decref(json);
	return value;
}

static void no_messages(const struct twt_job *job)
{
	for (size_t i = 0; i < sizeof(of_messages) / sizeof(of_messages[0]); i++)
		sum_is(job, of_messages[i], 0);
	twt_must(timed(job, "rpcs") == 0);
	twt_must(of_peer(job, "messages_sent") == 0 && of_peer(job, "messages_received") == 0);
	twt_must(of_peer(job, "receives_posted") == 0);
}

/* Both are there; what is moved meanwhile is the library's own, by memory that both look at. */
static void meet(const struct twt_job *job, int value)
{
	twt_job_mark(job, value);
	for (int turn = 0; turn < 20000 && atomic_load(&twt_marks->at[1 - job->rank]) < value;
	     turn++) {
		twt_must(tow_progress(job->runtime) >= 0);
		usleep(500);
	}
	twt_must(atomic_load(&twt_marks->at[1 - job->rank]) >= value);
}

/* Exchanges of clocks at the first traffic, and what else comes by itself. */
static void linger(const struct twt_job *job)
{
	for (int i = 0; i < 100; i++) {
		usleep(2000);
		twt_must(tow_progress(job->runtime) >= 0);
	}
}

static void be_silent(const struct twt_job *job)
{
	uint64_t said;

	linger(job);
	meet(job, 2);
	no_messages(job);
	sum_is(job, "call_messages", 0);
	sum_is(job, "coll_messages", 0);
	sum_is(job, "necessary_copies", 0);
	sum_is(job, "fallback_copies", 0);
	sum_is(job, "late_registrations", 0);
	sum_is(job, "unregistered_sends", 0);
	sum_is(job, "spans_sampled_out", 0);
	twt_must(timed(job, "calls") == 0 && timed(job, "colls") == 0);
	sum_is(job, "ops_completed", 1); /* the other rank was connected */
	sum_is(job, "ops_failed", 0);
	twt_must(counter(job, "internal_messages") > 0);
	twt_must(counter(job, "internal_send_bytes") > 0);
	said = of_peer(job, "internal_messages_sent"); /* more may be said meanwhile */
	twt_must(said > 0 && said <= counter(job, "internal_messages"));
	meet(job, 3);
}

static void hold_barriers(const struct twt_job *job)
{
	for (int i = 0; i < 3; i++)
		twt_must(tow_group_barrier(job->group, TWT_JOB_WAIT_NS) == TOW_OK);
	meet(job, 4);
	no_messages(job);
	sum_is(job, "coll_messages", 3);
	sum_is(job, "coll_send_bytes", 0);
	sum_is(job, "ops_completed", 4);
	sum_is(job, "fallback_copies", 0);
	meet(job, 5);
}

static void exchange(const struct twt_job *job, uint8_t *out, uint8_t *in)
{
	struct tow_op *ops[2 * (SMALL + 1)];
	struct tow_peer *peer;
	char text[512];
	int count = 0;

	twt_must(tow_group_peer(job->group, 1 - (uint32_t)job->rank, &peer) == TOW_OK);
	for (int i = 0; i <= SMALL; i++)
		twt_must(tow_recv_start(peer, in + (size_t)i * NEXT, i < SMALL ? NEXT : LARGE, 7,
					NULL, &ops[count++]) == TOW_OK);
	meet(job, 6);
	for (int i = 0; i <= SMALL; i++)
		twt_must(tow_send_start(peer, out, i < SMALL ? 8 : LARGE, 7, NULL, &ops[count++]) ==
			 TOW_OK);
	for (int i = 0; i < count; i++)
		twt_must(twt_job_end(job, ops[i], text) == TOW_OK);
	meet(job, 7);
	sum_is(job, "sends", SMALL + 1);
	sum_is(job, "recvs", SMALL + 1);
	sum_is(job, "send_bytes", 8 * SMALL + LARGE);
	sum_is(job, "recv_bytes", 8 * SMALL + LARGE);
	sum_is(job, "eager_sends", SMALL);
	sum_is(job, "rendezvous_sends", 1);
	sum_is(job, "unexpected_messages", 0);
	sum_is(job, "ops_completed", 4 + 2 * (SMALL + 1));
	twt_must(of_peer(job, "messages_sent") == SMALL + 1);
	twt_must(of_peer(job, "messages_received") == SMALL + 1);
	linger(job); /* acknowledgements come, by which some lanes time */
	twt_must(timed(job, "rpcs") > 0 && timed(job, "rpcs") <= 2 * (SMALL + 1));
	meet(job, 8);
}

static void reduce(const struct twt_job *job)
{
	twt_job_sum(job, job->group, 256);
	twt_job_sum(job, job->group, LARGE / 4);
	linger(job);
	meet(job, 9);
	sum_is(job, "sends", SMALL + 1);
	sum_is(job, "recvs", SMALL + 1);
	sum_is(job, "send_bytes", 8 * SMALL + LARGE);
	sum_is(job, "recv_bytes", 8 * SMALL + LARGE);
	sum_is(job, "colls_completed", 2);
	sum_is(job, "ops_completed", 4 + 2 * (SMALL + 1) + 2);
	sum_is(job, "call_messages", 0);
	twt_must(timed(job, "rpcs") <= 2 * (SMALL + 1)); /* the last may be timed late */
	twt_must(strcmp(job->lane, "tcp") != 0 || timed(job, "colls") > 0);
	twt_must(counter(job, "coll_send_bytes") == counter(job, "coll_recv_bytes"));
	meet(job, 10);
}

static void echo(struct tow_call_in *call, void *user)
{
	uint64_t bytes;
	const void *request = tow_call_request(call, &bytes);

	(void)user;
	tow_reply_start(call, 0, request, bytes, NULL, NULL);
}

/* Rank 0 calls rank 1. */
static void call(const struct twt_job *job, uint8_t *out, uint8_t *in)
{
	struct tow_call_result result = { .size = sizeof(result) };
	struct tow_peer *peer;

	twt_must(tow_group_peer(job->group, 1 - (uint32_t)job->rank, &peer) == TOW_OK);
	twt_must(tow_method_register(job->runtime, "echo", echo, NULL, NULL) == TOW_OK);
	meet(job, 11);
	if (job->rank == 0) {
		twt_must(tow_call(peer, "echo", out, 100, in, 100, TWT_JOB_WAIT_NS, &result) ==
			 TOW_OK);
		twt_must(tow_call(peer, "echo", out, LARGE, in, LARGE, TWT_JOB_WAIT_NS, &result) ==
			 TOW_OK);
		sum_is(job, "ops_completed", 4 + 2 * (SMALL + 1) + 2 + 2);
		twt_must(timed(job, "calls") == 2);
	}
	linger(job);
	meet(job, 12);
	sum_is(job, "sends", SMALL + 1);
	sum_is(job, "recvs", SMALL + 1);
	sum_is(job, "send_bytes", 8 * SMALL + LARGE);
	sum_is(job, "recv_bytes", 8 * SMALL + LARGE);
	twt_must(counter(job, "call_messages") >= 2);
	twt_must(counter(job, "call_send_bytes") > LARGE);
	twt_must(counter(job, "call_recv_bytes") > LARGE);
	twt_must(timed(job, "rpcs") <= 2 * (SMALL + 1)); /* the last may be timed late */
	sum_is(job, "ops_failed", 0);
	meet(job, 13);
}

static void play(struct twt_job *job, const void *plan)
{
	struct tow_op *op;
	char text[512];
	void *out, *in;

	(void)plan;
	twt_must(tow_alloc(job->runtime, LARGE, 0, &out) == TOW_OK);
	twt_must(tow_alloc(job->runtime, LARGE + SMALL * NEXT, 0, &in) == TOW_OK);
	memset(out, 1, LARGE);
	/* One after the other: connections that cross are another test's matter. */
	if (job->rank == 1)
		meet(job, 1);
	twt_must(tow_group_connect_start(job->group, 1 - (uint32_t)job->rank, NULL, &op) == TOW_OK);
	twt_must(twt_job_end(job, op, text) == TOW_OK);
	if (job->rank == 0)
		meet(job, 1);
	be_silent(job);
	hold_barriers(job);
	exchange(job, out, in);
	reduce(job);
	call(job, out, in);
	twt_must(tow_free(job->runtime, out) == TOW_OK && tow_free(job->runtime, in) == TOW_OK);
}

static void over_tcp(void **state)
{
	(void)state;
	twt_job_run("tcp", 2, 0, play, NULL, NULL);
}

static void over_shm(void **state)
{
	(void)state;
	twt_job_run("shm", 2, 0, play, NULL, NULL);
}

static void over_all(void **state)
{
	(void)state;
	twt_job_run("tow://127.0.0.1", 2, 0, play, NULL, NULL);
}

#ifdef TWI_HAVE_OFI
static void over_ofi_tcp(void **state)
{
	(void)state;
	twt_job_run("ofi://tcp", 2, 0, play, NULL, NULL);
}

static void over_ofi_shm(void **state)
{
	(void)state;
	twt_job_run("ofi://shm", 2, 0, play, NULL, NULL);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(over_tcp),     cmocka_unit_test(over_shm),
		cmocka_unit_test(over_all),
#ifdef TWI_HAVE_OFI
		cmocka_unit_test(over_ofi_tcp), cmocka_unit_test(over_ofi_shm),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
