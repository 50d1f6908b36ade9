/*
 * test_foreign.c - what another library has done: what is refused, what /v1/coll, traces, slack and
 * the state of a rank say of it, what is bounded, and several threads at once.
 */
#include "twt.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <towline/towline.h>

#include "foreign_group.h"
#include "pair.h"

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "diag/trace/export/export.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/foreign/foreign.h"
#include "transport/inquiry/inquiry.h"

static struct tow_runtime *runtime;

static int setup(void **state)
{
	(void)state;
	return twt_fg_runtime(&runtime);
}

static int teardown(void **state)
{
	(void)state;
	tow_runtime_close(runtime);
	return 0;
}

/* Groups of /v1/coll; goes to json_decref with its document. */
static json_t *ask(json_t **document_out)
{
	char *text;

	TWT_OK(tow_stats_get(runtime, "/v1/coll", &text));
	*document_out = json_loads(text, 0, NULL);
	assert_non_null(*document_out);
	tow_stats_release(text);
	return json_object_get(*document_out, "foreign_groups");
}

static json_int_t number(json_t *object, const char *key)
{
	assert_true(json_is_integer(json_object_get(object, key)));
	return json_integer_value(json_object_get(object, key));
}

static const char *text_of(json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static uint64_t counted(enum twi_counter counter)
{
	return twi_counter_sum(twi_runtime_engine(runtime)->diag, counter);
}

static void refusals(void **state)
{
	struct tow_foreign_options options = TOW_FOREIGN_OPTIONS_INIT;
	struct tow_foreign_message message = twt_fg_sent(1, 1);
	struct tow_foreign_coll coll = twt_fg_all_reduce(1, 0);
	struct tow_foreign_group *group, *other = (void *)1;
	uint64_t seq;

	(void)state;
	assert_int_equal(tow_foreign_open(runtime, NULL, &group), TOW_EINVAL);
	assert_int_equal(tow_foreign_open(runtime, &options, NULL), TOW_EINVAL);
	assert_int_equal(tow_foreign_open(NULL, &options, &group), TOW_EINVAL);
	options.ranks = 0;
	assert_int_equal(tow_foreign_open(runtime, &options, &other), TOW_EINVAL); /* 0 of 0 */
	assert_null(other);
	group = twt_fg_open(runtime, "a", 7, 0, 2);
	options.id = 7;
	options.ranks = 2;
	assert_int_equal(tow_foreign_open(runtime, &options, &other), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "rank 0 of the group 0000000000000007"));
	assert_int_equal(tow_foreign_coll_begin(NULL, &coll, &seq), TOW_EINVAL);
	assert_int_equal(tow_foreign_coll_begin(group, NULL, &seq), TOW_EINVAL);
	assert_int_equal(tow_foreign_coll_begin(group, &coll, NULL), TOW_EINVAL);
	coll.kind = TOW_FOREIGN_KINDS;
	assert_int_equal(tow_foreign_coll_begin(group, &coll, &seq), TOW_EINVAL);
	coll = twt_fg_all_reduce(1, 0);
	coll.type = TOW_TYPE_COUNT;
	assert_int_equal(tow_foreign_coll_begin(group, &coll, &seq), TOW_EINVAL);
	coll = twt_fg_all_reduce(1, 0);
	coll.reduce = -2;
	assert_int_equal(tow_foreign_coll_begin(group, &coll, &seq), TOW_EINVAL);
	assert_int_equal(tow_foreign_coll_enter(group, 1, 0), TOW_EINVAL); /* none was begun */
	assert_int_equal(tow_foreign_coll_end(group, 1, 0, TOW_OK), TOW_EINVAL);
	coll = twt_fg_all_reduce(1, 0);
	TWT_OK(tow_foreign_coll_begin(group, &coll, &seq));
	assert_int_equal(seq, 1);
	assert_int_equal(tow_foreign_coll_end(group, 0, 0, TOW_OK), TOW_EINVAL);
	assert_int_equal(tow_foreign_coll_end(group, 1, 0, 1), TOW_EINVAL);
	message.peer = 0;
	assert_int_equal(tow_foreign_message(group, &message), TOW_EINVAL); /* itself */
	message.peer = 2;
	assert_int_equal(tow_foreign_message(group, &message), TOW_EINVAL);
	assert_int_equal(tow_foreign_message(group, NULL), TOW_EINVAL);
	tow_foreign_close(group);
	assert_int_equal(tow_foreign_coll_end(group, 1, 0, TOW_OK), TOW_ECLOSED);
	assert_non_null(strstr(tow_error_message(), "the foreign group was closed"));
	tow_foreign_close(group);
	tow_foreign_close(NULL);
}

/* A struct of `bytes` with `size` in front, all else as `known` has it, and `last` at the end. */
static void *resized(const void *known, size_t known_bytes, size_t bytes, unsigned char last)
{
	unsigned char *made = calloc(1, bytes);

	memcpy(made, known, known_bytes < bytes ? known_bytes : bytes);
	memcpy(made, &bytes, sizeof(bytes));
	made[bytes - 1] = last;
	return made;
}

/* A call with such a struct; frees it. */
static int call_with(unsigned which, struct tow_foreign_group *group, void *made)
{
	struct tow_foreign_group *other = NULL;
	uint64_t seq;
	int status = which == 0   ? tow_foreign_open(runtime, made, &other)
		     : which == 1 ? tow_foreign_coll_begin(group, made, &seq)
				  : tow_foreign_message(group, made);

	tow_foreign_close(other);
	free(made);
	return status;
}

/* The house's rule for structs with a size: older callers, newer ones, and no size at all. */
static void sizes(void **state)
{
	struct tow_foreign_group *group = twt_fg_open(runtime, "sizes", 70, 1, 2);
	const struct tow_foreign_options options = TOW_FOREIGN_OPTIONS_INIT;
	const struct tow_foreign_coll coll = TOW_FOREIGN_COLL_INIT;
	const struct tow_foreign_message message = TOW_FOREIGN_MESSAGE_INIT;
	const struct {
		const void *known;
		size_t bytes;
	} structs[] = { { &options, sizeof(options) },
			{ &coll, sizeof(coll) },
			{ &message, sizeof(message) } };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		const void *known = structs[i].known;
		size_t bytes = structs[i].bytes;

		assert_int_equal(call_with(i, group, resized(known, bytes, 8, 0)), TOW_OK);
		assert_int_equal(call_with(i, group, resized(known, bytes, bytes + 16, 0)), TOW_OK);
		assert_int_equal(call_with(i, group, resized(known, bytes, bytes + 16, 1)),
				 TOW_EINVAL);
		assert_int_equal(call_with(i, group, resized(known, bytes, bytes + 3, 0)),
				 TOW_EINVAL);
	}
	tow_foreign_close(group);
}

/* One collective from begin to end, and one that is under way: as the document has them. */
static void document(void **state)
{
	struct tow_foreign_group *group = twt_fg_open(runtime, "dp\n0", 0xabc, 1, 4);
	uint64_t now = tow_foreign_clock(), seq;
	struct tow_foreign_coll coll = twt_fg_all_reduce(4096, now - 50 * FG_MS);
	json_t *root, *row, *last;

	(void)state;
	TWT_OK(tow_foreign_coll_begin(group, &coll, &seq));
	TWT_OK(tow_foreign_coll_enter(group, seq, now - 40 * FG_MS));
	TWT_OK(tow_foreign_coll_enter(group, seq, now - 10 * FG_MS)); /* the first counts */
	TWT_OK(tow_foreign_coll_end(group, seq, now - 10 * FG_MS, TOW_OK));
	TWT_OK(tow_foreign_coll_end(group, seq, now, TOW_EPEER));
	coll.kind = TOW_FOREIGN_BROADCAST;
	coll.reduce = coll.type = -1;
	coll.plan = NULL;
	TWT_OK(tow_foreign_coll_begin(group, &coll, &seq));
	assert_int_equal(seq, 2);
	row = json_array_get(ask(&root), 0);
	assert_string_equal(text_of(row, "name"), "dp?0");
	assert_string_equal(text_of(row, "id"), "0000000000000abc");
	assert_int_equal(number(row, "rank"), 1);
	assert_int_equal(number(row, "size"), 4);
	assert_int_equal(number(row, "started"), 2);
	assert_int_equal(number(row, "last_entered"), 1);
	assert_int_equal(number(row, "in_flight"), 1);
	last = json_object_get(row, "last");
	assert_int_equal(json_array_size(last), 2);
	last = json_array_get(last, 0);
	assert_string_equal(text_of(last, "plan"), "ring/simple");
	assert_string_equal(text_of(last, "type"), "f32");
	assert_string_equal(text_of(last, "reduce"), "sum");
	assert_string_equal(text_of(last, "status"), "TOW_OK");
	assert_int_equal(number(last, "entered_ns") - number(last, "start_ns"), 10 * FG_MS);
	assert_int_equal(number(last, "done_ns") - number(last, "entered_ns"), 30 * FG_MS);
	last = json_array_get(json_object_get(row, "last"), 1);
	assert_string_equal(text_of(last, "kind"), "broadcast");
	assert_true(json_is_null(json_object_get(last, "status")));
	assert_true(json_is_null(json_object_get(last, "entered_ns")));
	row = json_array_get(json_object_get(row, "kinds"), 0);
	assert_int_equal(number(row, "calls"), 1);
	assert_int_equal(number(json_object_get(row, "latency_ns"), "mean"), 30 * FG_MS);
	assert_int_equal(number(row, "queue_mean_ns"), 10 * FG_MS);
	json_decref(root);
	tow_foreign_close(group);
	assert_int_equal(json_array_size(ask(&root)), 0);
	json_decref(root);
	group = twt_fg_open(runtime, NULL, 0xabc, 1, 4); /* a made name; its number is free again */
	assert_string_equal(text_of(json_array_get(ask(&root), 0), "name"), "0000000000000abc");
	json_decref(root);
	tow_foreign_close(group);
}

static void messages_by_peer(void **state)
{
	struct tow_foreign_group *group = twt_fg_open(runtime, "peers", 9, 0, 1000);
	uint64_t left_out = counted(TWI_C_foreign_peers_left_out);
	struct tow_foreign_message message = twt_fg_sent(1, 3);
	json_t *root, *peers, *row;

	(void)state;
	for (int i = 0; i < 10; i++)
		TWT_OK(tow_foreign_message(group, &message));
	message.sends = 0;
	message.device_ns = 2 * FG_MS;
	message.wire_ns = FG_MS;
	TWT_OK(tow_foreign_message(group, &message));
	peers = json_object_get(json_array_get(ask(&root), 0), "peers");
	assert_int_equal(json_array_size(peers), 2);
	row = json_array_get(peers, 0);
	assert_true(json_is_true(json_object_get(row, "sends")));
	assert_int_equal(number(row, "messages"), 10);
	assert_int_equal(number(row, "bytes"), 10000);
	assert_int_equal(number(row, "wire_ns"), 30 * FG_MS);
	row = json_array_get(peers, 1);
	assert_int_equal(number(row, "device_ns"), 2 * FG_MS);
	assert_int_equal(number(json_object_get(row, "recent"), "messages"), 1);
	json_decref(root);
	for (uint32_t i = 2; i < 2 + TOW_FOREIGN_PEERS; i++) {
		message = twt_fg_sent(i, 1);
		TWT_OK(tow_foreign_message(group, &message));
	}
	peers = json_object_get(json_array_get(ask(&root), 0), "peers");
	assert_int_equal(json_array_size(peers), TOW_FOREIGN_PEERS);
	json_decref(root);
	assert_int_equal(counted(TWI_C_foreign_peers_left_out) - left_out, 2);
	tow_foreign_close(group);
}

/* A row is used again while its collective is still said to be under way. */
static void rows_are_bounded(void **state)
{
	struct tow_foreign_group *group = twt_fg_open(runtime, "rows", 11, 0, 2);
	uint64_t late = counted(TWI_C_foreign_late), seq, first;
	struct tow_foreign_coll coll = twt_fg_all_reduce(64, 0);
	json_t *root;

	(void)state;
	TWT_OK(tow_foreign_coll_begin(group, &coll, &first));
	for (unsigned i = 0; i < TWI_FOREIGN_ROWS; i++) {
		TWT_OK(tow_foreign_coll_begin(group, &coll, &seq));
		TWT_OK(tow_foreign_coll_end(group, seq, 0, TOW_OK));
	}
	assert_int_equal(counted(TWI_C_foreign_late) - late, 1);
	TWT_OK(tow_foreign_coll_enter(group, first, 0));
	TWT_OK(tow_foreign_coll_end(group, first, 0, TOW_OK));
	assert_int_equal(number(json_array_get(ask(&root), 0), "in_flight"), 0);
	json_decref(root);
	tow_foreign_close(group);
}

static void traces_have_it(void **state)
{
	struct tow_foreign_group *group = twt_fg_open(runtime, "traced group", 15, 0, 2);
	struct tow_foreign_message message = twt_fg_sent(1, 2);
	struct tow_foreign_coll coll = twt_fg_all_reduce(1 << 20, 0);
	struct tow_trace *trace;
	char *text, *found;
	size_t bytes;
	uint64_t seq;
	void *out;

	(void)state;
	TWT_OK(tow_trace_begin(runtime));
	for (int i = 0; i < 3; i++) {
		TWT_OK(tow_foreign_coll_begin(group, &coll, &seq));
		message.seq = seq;
		TWT_OK(tow_foreign_message(group, &message));
		TWT_OK(tow_foreign_coll_end(group, seq, 0, TOW_OK));
	}
	TWT_OK(tow_trace_end(runtime, &trace));
	TWT_OK(tow_trace_encode(trace, TOW_TRACE_JSON, &out, &bytes));
	text = strndup(out, bytes);
	found = strstr(text, "traced group");
	assert_non_null(found);
	assert_non_null(strstr(text, "traced group/1"));
	free(text);
	tow_trace_bytes_release(out);
	tow_trace_release(trace);
	tow_foreign_close(group);
}

struct team {
	struct tow_foreign_group *group;
	_Atomic bool stop;
};

static void *record_all(void *arg)
{
	struct team *team = arg;
	struct tow_foreign_coll coll = twt_fg_all_reduce(100, 0);
	struct tow_foreign_message message = twt_fg_sent(1, 1);
	uint64_t seq;

	for (int i = 0; i < 2000; i++) {
		message.peer = 1 + (uint32_t)i % 3;
		message.end_ns = 0;
		if (tow_foreign_coll_begin(team->group, &coll, &seq) < 0 ||
		    tow_foreign_coll_enter(team->group, seq, 0) < 0 ||
		    tow_foreign_message(team->group, &message) < 0 ||
		    tow_foreign_coll_end(team->group, seq, 0, TOW_OK) < 0)
			return team;
	}
	return NULL;
}

static void *read_all(void *arg)
{
	struct team *team = arg;
	char *text;

	while (!atomic_load(&team->stop)) {
		if (tow_stats_get(runtime, "/v1/coll", &text) < 0)
			return team;
		tow_stats_release(text);
	}
	return NULL;
}

static void several_threads(void **state)
{
	struct team team = { .group = twt_fg_open(runtime, "threads", 16, 0, 4) };
	pthread_t threads[4], reader;
	void *failed;
	json_t *root;

	(void)state;
	assert_int_equal(pthread_create(&reader, NULL, read_all, &team), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, record_all, &team), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	atomic_store(&team.stop, true);
	pthread_join(reader, &failed);
	assert_null(failed);
	assert_int_equal(number(json_array_get(ask(&root), 0), "started"), 8000);
	assert_int_equal(
		number(json_array_get(
			       json_object_get(
				       json_array_get(json_object_get(root, "foreign_groups"), 0),
				       "kinds"),
			       0),
		       "calls"),
		8000);
	json_decref(root);
	tow_foreign_close(team.group);
}

/* As many groups as may be; then none more; those that are left open end with their runtime. */
static void bound_of_groups(void **state)
{
	struct tow_foreign_options options = TOW_FOREIGN_OPTIONS_INIT;
	struct tow_foreign_group *group, *last = NULL;

	(void)state;
	options.ranks = 2;
	for (options.id = 1; options.id <= TOW_FOREIGN_GROUPS; options.id++)
		TWT_OK(tow_foreign_open(runtime, &options, &last));
	assert_int_equal(tow_foreign_open(runtime, &options, &group), TOW_EEXHAUSTED);
	tow_foreign_close(last);
	TWT_OK(tow_foreign_open(runtime, &options, &last));
	teardown(NULL);
	assert_int_equal(tow_foreign_coll_enter(last, 1, 0), TOW_ECLOSED);
	tow_foreign_close(last);
	assert_int_equal(setup(NULL), 0);
}

/* A collective that has not ended is in a trace as what it is. */
static void traces_have_what_hangs(void **state)
{
	struct tow_foreign_group *group = twt_fg_open(runtime, "tp", 0xdef, 0, 2);
	struct tow_foreign_coll coll = twt_fg_all_reduce(4096, tow_foreign_clock() - 50 * FG_MS);
	const struct twi_trace_rank *rank;
	struct tow_trace *trace;
	uint64_t seq;

	(void)state;
	TWT_OK(tow_foreign_coll_begin(group, &coll, &seq));
	for (int ended = 0; ended < 2; ended++) {
		TWT_OK(tow_trace_begin(runtime));
		TWT_OK(tow_trace_end(runtime, &trace));
		rank = &trace->trace.ranks[0];
		assert_int_equal(rank->unfinished_count, !ended);
		if (!ended) {
			const struct twi_span *span = rank->unfinished;

			assert_int_equal(span->kind, TWI_SPAN_COLL);
			assert_int_equal(span->status, TOW_AGAIN);
			assert_true(span->start_ns == coll.start_ns && span->bytes == 4096);
			assert_true(span->end_ns - span->start_ns >= 50 * FG_MS);
			assert_int_equal(span->ranks, 2);
		}
		tow_trace_release(trace);
		TWT_OK(tow_foreign_coll_end(group, seq, tow_foreign_clock(), TOW_OK));
	}
	tow_foreign_close(group);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusals),
		cmocka_unit_test(document),
		cmocka_unit_test(sizes),
		cmocka_unit_test(messages_by_peer),
		cmocka_unit_test(rows_are_bounded),
		cmocka_unit_test(traces_have_it),
		cmocka_unit_test(traces_have_what_hangs),
		cmocka_unit_test(several_threads),
		cmocka_unit_test(bound_of_groups),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
