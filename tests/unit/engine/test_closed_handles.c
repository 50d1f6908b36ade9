/*
 * test_closed_handles.c - every public call that takes a runtime, an endpoint, a peer or a group
 * answers TOW_ECLOSED for one that was closed, by its user or with its runtime, on every lane, at
 * once and when the lane has let go of it. The headers are read, so that no call is forgotten.
 */
#include "twt.h"

#include <ctype.h>
#include <malloc.h>
#include <string.h>

#include "lane_pair.h"

#include "transport/engine/handle.h"

static struct twt_lane_pair pair;

union handle {
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	struct tow_group *group;
};

/* What the calls are given beside the handle; none of it is to be touched. */
static char data[64];
static uint64_t counts[4] = { 1, 1, 1, 1 };
static const struct tow_coll_parts parts = { counts, NULL };
static const struct tow_coll_pair pairs[1] = { { 0, 0 } };
static const struct tow_match match = TOW_MATCH_INIT;
static const struct tow_part piece = { data, sizeof(data) };
static struct tow_result result = TOW_RESULT_INIT;
static struct tow_op *op;
static struct tow_endpoint *endpoint_out;
static struct tow_peer *peer_out;
static struct tow_group *group_out;
static const uint32_t one_rank[] = { 0 };
static struct tow_device *device_out;
static struct tow_queue *queue_out;
static const struct tow_foreign_options foreign_options = TOW_FOREIGN_OPTIONS_INIT;
static struct tow_foreign_group *foreign_out;
static struct tow_trace *trace_out;
static struct tow_job_info info = { .size = sizeof(info) };
static void *memory_out;
static uint64_t number;
static size_t bytes_out;
static char *text_out;
static int fd;

static void handler(struct tow_call_in *call, void *user)
{
	(void)call;
	(void)user;
}

#define WORD TOW_S32

/* X(kind, name, arguments): `h` is the handle. */
#define CALLS(X)                                                                                   \
	X(runtime, tow_runtime_seal, h)                                                            \
	X(runtime, tow_runtime_close, h)                                                           \
	X(runtime, tow_progress, h)                                                                \
	X(runtime, tow_fd, h, &fd)                                                                 \
	X(runtime, tow_flush, h)                                                                   \
	X(runtime, tow_queue_open, h, 8, &queue_out)                                               \
	X(runtime, tow_alloc, h, 64, 0, &memory_out)                                               \
	X(runtime, tow_free, h, data)                                                              \
	X(runtime, tow_mem_register, h, data, sizeof(data), &number)                               \
	X(runtime, tow_mem_deregister, h, 1)                                                       \
	X(runtime, tow_endpoint_open, h, "loop://closed", &endpoint_out)                           \
	X(runtime, tow_method_register, h, "m", handler, NULL, NULL)                               \
	X(runtime, tow_method_deregister, h, "m")                                                  \
	X(runtime, tow_stats_get, h, "/v1/info", &text_out)                                        \
	X(runtime, tow_foreign_open, h, &foreign_options, &foreign_out)                            \
	X(runtime, tow_step_begin, h, 1)                                                           \
	X(runtime, tow_step_end, h, 1)                                                             \
	X(runtime, tow_span_begin, h, "part")                                                      \
	X(runtime, tow_span_end, h)                                                                \
	X(runtime, tow_trace_begin, h)                                                             \
	X(runtime, tow_trace_end, h, &trace_out)                                                   \
	X(runtime, tow_device_open, h, "none", &device_out)                                        \
	X(runtime, tow_job_info, h, &info)                                                         \
	X(runtime, tow_group_open, h, NULL, &group_out)                                            \
	X(runtime, tow_group_open_start, h, NULL, NULL, &group_out, &op)                           \
	X(endpoint, tow_endpoint_address, h, data, sizeof(data))                                   \
	X(endpoint, tow_endpoint_close, h)                                                         \
	X(endpoint, tow_connect_start, h, "tcp://127.0.0.1:9", NULL, &op)                          \
	X(endpoint, tow_accept_start, h, NULL, &op)                                                \
	X(endpoint, tow_recv_match_start, h, &match, &piece, 1, NULL, &op)                         \
	X(endpoint, tow_probe, h, &match, &result)                                                 \
	X(peer, tow_peer_close, h)                                                                 \
	X(peer, tow_send_start, h, data, sizeof(data), 1, NULL, &op)                               \
	X(peer, tow_recv_start, h, data, sizeof(data), 1, NULL, &op)                               \
	X(peer, tow_recv_view_start, h, 1, NULL, &op)                                              \
	X(peer, tow_call_start, h, "m", data, 8, data, 8, NULL, &op)                               \
	X(peer, tow_call, h, "m", data, 8, data, 8, TWT_SECOND, NULL)                              \
	X(group, tow_group_address, h, 0, data, sizeof(data))                                      \
	X(group, tow_group_connect_start, h, 1, NULL, &op)                                         \
	X(group, tow_group_peer, h, 1, &peer_out)                                                  \
	X(group, tow_group_connect, h, 1, TWT_SECOND, &peer_out)                                   \
	X(group, tow_send, h, 1, data, 8, 1, TWT_SECOND)                                           \
	X(group, tow_recv, h, 1, data, 8, 1, TWT_SECOND, NULL)                                     \
	X(group, tow_group_barrier_start, h, NULL, &op)                                            \
	X(group, tow_group_barrier, h, TWT_SECOND)                                                 \
	X(group, tow_group_split, h, 0, 0, TWT_SECOND, &group_out)                                 \
	X(group, tow_group_create, h, one_rank, 1, NULL, TWT_SECOND, &group_out)                   \
	X(group, tow_group_set_label, h, "label")                                                  \
	X(group, tow_group_label, h, data)                                                         \
	X(group, tow_group_set, h, "key", data, 8, TWT_SECOND)                                     \
	X(group, tow_group_get, h, "key", data, 8, &bytes_out, TWT_SECOND)                         \
	X(group, tow_group_abort, h, "reason")                                                     \
	X(group, tow_group_close, h)                                                               \
	X(group, tow_group_shrink, h, TWT_SECOND, &group_out)                                      \
	X(group, tow_coll_all_reduce_start, h, data, data, 1, WORD, TOW_SUM, NULL, &op)            \
	X(group, tow_coll_reduce_scatter_start, h, data, data, 1, WORD, TOW_SUM, NULL, &op)        \
	X(group, tow_coll_all_gather_start, h, data, data, 1, WORD, NULL, &op)                     \
	X(group, tow_coll_all_gather_v_start, h, data, data, counts, NULL, WORD, NULL, &op)        \
	X(group, tow_coll_broadcast_start, h, data, 1, WORD, 0, NULL, &op)                         \
	X(group, tow_coll_reduce_start, h, data, data, 1, WORD, TOW_SUM, 0, NULL, &op)             \
	X(group, tow_coll_gather_start, h, data, data, 1, WORD, 0, NULL, &op)                      \
	X(group, tow_coll_scatter_start, h, data, data, 1, WORD, 0, NULL, &op)                     \
	X(group, tow_coll_all_to_all_start, h, data, data, 1, WORD, NULL, &op)                     \
	X(group, tow_coll_all_to_all_v_start, h, data, &parts, data, &parts, WORD, NULL, &op)      \
	X(group, tow_coll_permute_start, h, data, data, 1, WORD, pairs, 1, NULL, &op)              \
	X(group, tow_coll_barrier_start, h, NULL, &op)                                             \
	X(group, tow_coll_send_receive_start, h, data, 0, data, 0, 1, WORD, NULL, &op)             \
	X(group, tow_coll_batch_begin, h)                                                          \
	X(group, tow_coll_batch_end, h)

/* These return no status. */
static int stats_socket(struct tow_runtime *h)
{
	return tow_stats_socket(h)[0] == '\0' ? TOW_ECLOSED : TOW_OK;
}

static int group_rank(struct tow_group *h)
{
	return tow_group_rank(h) == UINT32_MAX ? TOW_ECLOSED : TOW_OK;
}

static int group_size(struct tow_group *h)
{
	return tow_group_size(h) == 0 ? TOW_ECLOSED : TOW_OK;
}

#define CALL(kind, name, ...)                                                                      \
	static int do_##name(union handle of)                                                      \
	{                                                                                          \
		struct tow_##kind *h = of.kind;                                                    \
                                                                                                   \
		return name(__VA_ARGS__);                                                          \
	}
CALLS(CALL)
#undef CALL

static int do_stats_socket(union handle of)
{
	return stats_socket(of.runtime);
}

static int do_group_rank(union handle of)
{
	return group_rank(of.group);
}

static int do_group_size(union handle of)
{
	return group_size(of.group);
}

#define runtime_KIND  TWI_HANDLE_RUNTIME
#define endpoint_KIND TWI_HANDLE_ENDPOINT
#define peer_KIND     TWI_HANDLE_PEER
#define group_KIND    TWI_HANDLE_GROUP

static const struct {
	enum twi_handle_kind kind;
	const char *name;
	int (*call)(union handle of);
} calls[] = {
#define ROW(kind, name, ...) { kind##_KIND, #name, do_##name },
	CALLS(ROW)
#undef ROW
		{ TWI_HANDLE_RUNTIME, "tow_stats_socket", do_stats_socket },
	{ TWI_HANDLE_GROUP, "tow_group_rank", do_group_rank },
	{ TWI_HANDLE_GROUP, "tow_group_size", do_group_size },
};

#define CALL_COUNT (sizeof(calls) / sizeof(calls[0]))

static void check_closed(enum twi_handle_kind kind, union handle of, const char *when)
{
	for (size_t i = 0; i < CALL_COUNT; i++) {
		int status;

		if (calls[i].kind != kind)
			continue;
		status = calls[i].call(of);
		if (status != TOW_ECLOSED)
			fail_msg("%s, %s: %s is %s: %s", pair.lane != NULL ? pair.lane->name : "-",
				 when, calls[i].name, tow_status_name(status), tow_error_message());
		assert_non_null(strstr(tow_error_message(), calls[i].name));
	}
}

/* A declaration in a public header: does it take a handle, and is it in the table? */
static void check_declaration(const char *text)
{
	static const char *const types[] = { "struct tow_runtime *", "struct tow_endpoint *",
					     "struct tow_peer *", "struct tow_group *" };
	const char *open = strchr(text, '('), *name = open;
	bool takes = false, known = false;
	char word[64];

	if (open == NULL || strncmp(text, "typedef", 7) == 0)
		return;
	while (name > text && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
		name--;
	snprintf(word, sizeof(word), "%.*s", (int)(open - name), name);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const char *at = strstr(open, types[i]);

		takes |= at != NULL && at[strlen(types[i])] != '*';
	}
	for (size_t i = 0; i < CALL_COUNT; i++)
		known |= strcmp(calls[i].name, word) == 0;
	if (strncmp(word, "tow_", 4) == 0 && takes != known)
		fail_msg("%s takes a handle and is not in the table of this test, or the reverse",
			 word);
}

static void test_table_is_whole(void **state)
{
	static const char *const headers[] = { "runtime", "endpoint", "rpc",   "group", "coll",
					       "device",  "pool",     "stats", "step",  "trace" };
	const char *source = getenv("TOW_TEST_SOURCE");
	unsigned declarations = 0;

	(void)state;
	if (source == NULL)
		skip();
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		char path[4096], line[256], text[2048] = "";
		FILE *file;

		snprintf(path, sizeof(path), "%s/include/towline/%s.h", source, headers[i]);
		file = fopen(path, "re");
		assert_non_null(file);
		while (fgets(line, sizeof(line), file) != NULL) {
			size_t fill = strlen(text);

			line[strcspn(line, "\n")] = '\0';
			if (fill == 0 && (strstr(line, "tow_") == NULL || line[0] == ' ' ||
					  line[0] == '/' || line[0] == '#' || line[0] == '\t'))
				continue;
			snprintf(text + fill, sizeof(text) - fill, "%s ", line);
			if (strchr(line, ';') == NULL && strchr(line, '{') == NULL)
				continue;
			check_declaration(text);
			declarations++;
			text[0] = '\0';
		}
		fclose(file);
	}
	assert_true(declarations > CALL_COUNT);
}

static void test_lane(void **state)
{
	union handle peer[2], endpoint[2], runtime[2];

	twt_lane_init(&pair, *state);
	if (!twt_lane_open(&pair))
		skip();
	twt_lane_join(&pair);
	for (int i = 0; i < 2; i++) {
		peer[i].peer = pair.peer[i];
		endpoint[i].endpoint = pair.endpoint[i];
		runtime[i].runtime = pair.runtime[i];
	}
	TWT_OK(tow_peer_close(pair.peer[0]));
	check_closed(TWI_HANDLE_PEER, peer[0], "at once");
	twt_lane_drive(&pair, TWT_SECOND / 20);
	check_closed(TWI_HANDLE_PEER, peer[0], "a while later");
	/* The other side's is lost, and its user's still. */
	TWT_OK(tow_recv_start(pair.peer[1], data, sizeof(data), 1, NULL, &op));
	assert_int_equal(twt_lane_finish(&pair, op).status, TOW_EPEER);
	TWT_OK(tow_peer_close(pair.peer[1]));
	check_closed(TWI_HANDLE_PEER, peer[1], "lost, then closed");
	TWT_OK(tow_endpoint_close(pair.endpoint[0]));
	check_closed(TWI_HANDLE_ENDPOINT, endpoint[0], "at once");
	twt_lane_drive(&pair, TWT_SECOND / 100);
	check_closed(TWI_HANDLE_ENDPOINT, endpoint[0], "a while later");
	/* The last of what the user holds goes with its runtime. */
	pair.endpoint[0] = NULL;
	TWT_OK(tow_endpoint_open(pair.runtime[0], pair.lane->address[0], &pair.endpoint[0]));
	twt_lane_join(&pair);
	for (int i = 0; i < 2; i++)
		peer[i].peer = pair.peer[i];
	twt_lane_close(&pair);
	for (int i = 0; i < 2; i++) {
		check_closed(TWI_HANDLE_PEER, peer[i], "with its runtime");
		check_closed(TWI_HANDLE_ENDPOINT, endpoint[i], "with its runtime");
		check_closed(TWI_HANDLE_RUNTIME, runtime[i], "closed");
	}
}

static void test_group(void **state)
{
	union handle group, part, runtime;

	(void)state;
	twt_lane_init(&pair, &twt_lane_rows[0]);
	TWT_OK(tow_runtime_open(&pair.options[0], &runtime.runtime));
	TWT_OK(tow_group_open(runtime.runtime, NULL, &group.group));
	TWT_OK(tow_group_split(group.group, 0, 0, TWT_SECOND, &part.group));
	TWT_OK(tow_group_close(part.group));
	check_closed(TWI_HANDLE_GROUP, part, "closed");
	assert_int_equal(tow_group_size(group.group), 1);
	TWT_OK(tow_runtime_close(runtime.runtime));
	check_closed(TWI_HANDLE_GROUP, group, "with its runtime");
	check_closed(TWI_HANDLE_RUNTIME, runtime, "closed");
}

static uint64_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long all = 0, resident = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%llu %llu", &all, &resident), 2);
	fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Many more come and go: the handle is still known, and the memory of husks is bounded. */
static void test_many(void **state)
{
	union handle first;
	uint64_t before;

	(void)state;
	mallopt(M_PERTURB, 0); /* it would write to pages that were given back */
	twt_lane_init(&pair, &twt_lane_rows[4]);
	assert_true(twt_lane_open(&pair));
	twt_lane_join(&pair);
	first.peer = pair.peer[0];
	TWT_OK(tow_peer_close(pair.peer[0]));
	TWT_OK(tow_peer_close(pair.peer[1]));
	for (int i = 0; i < TWI_HUSKS_KEPT / 2 - 1; i++) {
		twt_lane_join(&pair);
		TWT_OK(tow_peer_close(pair.peer[0]));
		TWT_OK(tow_peer_close(pair.peer[1]));
		twt_lane_turn(&pair);
	}
	check_closed(TWI_HANDLE_PEER, first, "255 closed handles later");
	before = resident_bytes();
	for (int i = 0; i < 4 * TWI_HUSKS_KEPT; i++) {
		twt_lane_join(&pair);
		TWT_OK(tow_peer_close(pair.peer[0]));
		TWT_OK(tow_peer_close(pair.peer[1]));
		twt_lane_turn(&pair);
	}
#ifdef TWT_SANITIZED /* they keep what was freed */
	(void)before;
#else
	assert_true(resident_bytes() < before + (4 << 20));
#endif
	twt_lane_close(&pair);
}

int main(void)
{
	struct CMUnitTest tests[TWT_LANE_ROWS + 3] = {
		cmocka_unit_test(test_table_is_whole),
		cmocka_unit_test(test_group),
		cmocka_unit_test(test_many),
	};

	for (size_t i = 0; i < TWT_LANE_ROWS; i++) {
		void *lane = (void *)(uintptr_t)&twt_lane_rows[i];

		tests[3 + i] =
			(struct CMUnitTest){ twt_lane_rows[i].name, test_lane, NULL, NULL, lane };
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
