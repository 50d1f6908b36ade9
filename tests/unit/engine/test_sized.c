/*
 * test_sized.c - every public call that takes or gives a struct with a size is called as an older
 * and as a newer program would call it (docs/abi.md).
 *
 * The calls that exist are read from the public headers, so a call that is added without a row here
 * fails the test.
 */
#include "twt.h"

#include "pair.h"

#include <dirent.h>
#include <string.h>

#include <towline/towline.h>

#include "diag/base/sized.h"

#define MS    1000000ull
#define EXTRA 16u /* bytes that the newer header has behind the struct of this library */

static struct tow_runtime *runtime;
static struct tow_endpoint *left, *right;
static struct tow_peer *client, *server;
static struct tow_group *group;
static struct tow_device *device;
static struct tow_device_memory *memory;
static struct tow_op *stream_call, *echo_call, *op;
static struct tow_call_in *held;
static char room[64], text[128];
static const struct tow_part part = { room, 8 };

static void hold(struct tow_call_in *call, void *user)
{
	(void)user;
	held = call;
}

static void echo(struct tow_call_in *call, void *user)
{
	(void)user;
	assert_int_equal(tow_reply_start(call, 0, "e", 1, NULL, NULL), TOW_OK);
}

/* Ends an operation that a start has left, if it has left one; gives the start's status. */
static int over(int status, struct tow_op **started)
{
	assert_true(status == TOW_OK || *started == NULL);
	if (status < 0)
		return status;
	tow_op_cancel(*started);
	assert_int_not_equal(tow_op_wait(*started, 5000 * MS), TOW_ETIMEDOUT);
	tow_op_release(*started);
	*started = NULL;
	return status;
}

/* The same for a collective, which must not be canceled: its group would be broken. */
static int finished(int status, struct tow_op **started)
{
	if (status == TOW_OK) {
		assert_int_equal(tow_op_wait(*started, 5000 * MS), TOW_OK);
		tow_op_release(*started);
	}
	*started = NULL;
	return status;
}

#define OPEN_OF(name)                                                                              \
	static int name##_runtime(void *options)                                                   \
	{                                                                                          \
		struct tow_runtime *other;                                                         \
		int status = tow_runtime_##name(options, &other);                                  \
                                                                                                   \
		if (status == TOW_OK)                                                              \
			tow_runtime_close(other);                                                  \
		return status;                                                                     \
	}
OPEN_OF(open)
OPEN_OF(share)

/* A call that takes the struct and starts an operation, which is then over with. */
#define STARTS(name, arg, ...)                                                                     \
	static int name(void *arg)                                                                 \
	{                                                                                          \
		return over(__VA_ARGS__, &op);                                                     \
	}

STARTS(connect_start, options, tow_connect_start(left, "loop://nobody", options, &op))
STARTS(accept_start, options, tow_accept_start(right, options, &op))
STARTS(send_start, options, tow_send_start(client, room, 8, 77, options, &op))
STARTS(recv_start, options, tow_recv_start(client, room, 8, 78, options, &op))
STARTS(recv_view_start, options, tow_recv_view_start(client, 79, options, &op))
STARTS(recv_match, match, tow_recv_match_start(left, match, &part, 1, NULL, &op))
STARTS(send_parts, options, tow_send_parts_start(client, &part, 1, 79, options, &op))
static int recv_match_op(void *options)
{
	struct tow_match match = TOW_MATCH_INIT;

	match.peer = client;
	match.tag = 78;
	return over(tow_recv_match_start(left, &match, &part, 1, options, &op), &op);
}

static int probe_match(void *match)
{
	struct tow_result result = TOW_RESULT_INIT;

	return tow_probe(left, match, &result);
}

static int probe_result(void *row)
{
	struct tow_match match = TOW_MATCH_INIT;

	match.peer = client;
	match.tag = 80; /* of a message that waits */
	return tow_probe(left, &match, row);
}

static int group_open(void *options)
{
	struct tow_group *again;

	return tow_group_open(runtime, options, &again);
}

static int group_open_start(void *options)
{
	struct tow_group *again;

	return over(tow_group_open_start(runtime, options, NULL, &again, &op), &op);
}

static int group_open_start_op(void *options)
{
	struct tow_group *again;

	return over(tow_group_open_start(runtime, NULL, options, &again, &op), &op);
}

STARTS(group_connect_start, options, tow_group_connect_start(group, 0, options, &op))
/* The group is of one rank, which reaches itself. */
STARTS(group_send, options, tow_group_send_start(group, 0, "to myself", 9, 81, options, &op))
STARTS(group_recv, options, tow_group_recv_start(group, 0, part.data, part.bytes, 82, options, &op))
STARTS(group_recv_match, match, tow_group_recv_match_start(group, match, &part, 1, NULL, &op))
static int group_recv_match_op(void *options)
{
	struct tow_group_match match = TOW_GROUP_MATCH_INIT;

	return over(tow_group_recv_match_start(group, &match, &part, 1, options, &op), &op);
}

static int group_probe_match(void *match)
{
	struct tow_result result = TOW_RESULT_INIT;

	return tow_group_probe(group, match, &result);
}

static int group_probe_result(void *row)
{
	struct tow_group_match match = TOW_GROUP_MATCH_INIT;

	match.tag = 83;
	(void)tow_send(group, 0, "waits", 5, 83, TOW_FOREVER);
	return tow_group_probe(group, &match, row);
}

STARTS(barrier_start, options, tow_group_barrier_start(group, options, &op))
static int method_register(void *options)
{
	int status = tow_method_register(runtime, "again", echo, NULL, options);

	if (status == TOW_OK)
		tow_method_deregister(runtime, "again");
	return status;
}

STARTS(call_start, options, tow_call_start(client, "echo", "x", 1, room, 8, options, &op))
static int reply_start(void *options)
{
	struct tow_op *call;
	int status;

	held = NULL;
	assert_int_equal(tow_call_start(client, "hold", "x", 1, room, 8, NULL, &call), TOW_OK);
	while (held == NULL)
		tow_progress(runtime);
	status = over(tow_reply_start(held, 0, "y", 1, options, &op), &op);
	if (status < 0)
		tow_reply_start(held, 0, "y", 1, NULL, NULL);
	assert_int_equal(tow_op_wait(call, 5000 * MS), TOW_OK);
	tow_op_release(call);
	return status;
}

STARTS(push_start, options,
       tow_stream_push_start(tow_call_stream(stream_call), "z", 1, options, &op))
static int pull_start(void *options)
{
	return over(tow_stream_pull_start(tow_call_stream(stream_call), room, 8, options, &op),
		    &op);
}

static int copy_start(void *options)
{
	int status = tow_device_copy_start(device, TOW_TO_DEVICE, memory, 0, room, 8, options, &op);

	assert_true(status != TOW_OK || tow_op_wait(op, 5000 * MS) >= 0); /* all is counted then */
	return over(status, &op);
}

#define COLLECTIVE(name, ...)                                                                      \
	static int name(void *options)                                                             \
	{                                                                                          \
		return finished(tow_coll_##name##_start(group, __VA_ARGS__, options, &op), &op);   \
	}
static const uint64_t ones[1] = { 1 };
static float in[4], out[4];
static const struct tow_coll_pair pair = { 0, 0 };
static const struct tow_coll_parts parts = { ones, NULL };

COLLECTIVE(all_reduce, in, out, 4, TOW_F32, TOW_SUM)
COLLECTIVE(reduce_scatter, in, out, 4, TOW_F32, TOW_SUM)
COLLECTIVE(all_gather, in, out, 4, TOW_F32)
COLLECTIVE(broadcast, in, 4, TOW_F32, 0)
COLLECTIVE(reduce, in, out, 4, TOW_F32, TOW_SUM, 0)
COLLECTIVE(all_to_all, in, out, 4, TOW_F32)
COLLECTIVE(gather, in, out, 4, TOW_F32, 0)
COLLECTIVE(scatter, in, out, 4, TOW_F32, 0)
COLLECTIVE(all_gather_v, in, out, ones, NULL, TOW_F32)
COLLECTIVE(all_to_all_v, in, &parts, out, &parts, TOW_F32)
COLLECTIVE(permute, in, out, 4, TOW_F32, &pair, 1)
COLLECTIVE(send_receive, in, 0, out, 0, 4, TOW_F32)

static int barrier_coll(void *options)
{
	return finished(tow_coll_barrier_start(group, options, &op), &op);
}

static int op_result(void *row)
{
	return tow_op_result(echo_call, row);
}

static int call_result(void *row)
{
	return tow_call_result(echo_call, row);
}

static int call_whole(void *row)
{
	return tow_call(client, "echo", "x", 1, text, 8, 5000 * MS, row);
}

#define ROW_OF(name, ...)                                                                          \
	static int name##_info(void *row)                                                          \
	{                                                                                          \
		return tow_##name##_info(__VA_ARGS__, row);                                        \
	}
ROW_OF(job, runtime)
ROW_OF(device, device)
ROW_OF(interface, runtime, 0)

ROW_OF(knob, 1)
ROW_OF(counter, 1)
ROW_OF(reason, 1)
ROW_OF(status, 1)
ROW_OF(lane, 1)

/* One row for each struct that a public call takes or gives. */
static const struct row {
	const char *call; /* as the header has it */
	enum twi_sized what;
	int (*run)(void *the_struct);
	bool out;
} rows[] = {
#define IN(call, type, run)                                                                        \
	{                                                                                          \
#call, TWI_SIZED_##type, run, false                                                \
	}
#define OUT(call, type, run)                                                                       \
	{                                                                                          \
#call, TWI_SIZED_##type, run, true                                                 \
	}
	IN(tow_runtime_open, tow_options, open_runtime),
	IN(tow_runtime_share, tow_options, share_runtime),
	IN(tow_connect_start, tow_op_options, connect_start),
	IN(tow_accept_start, tow_op_options, accept_start),
	IN(tow_send_start, tow_op_options, send_start),
	IN(tow_recv_start, tow_op_options, recv_start),
	IN(tow_recv_view_start, tow_op_options, recv_view_start),
	IN(tow_send_parts_start, tow_op_options, send_parts),
	IN(tow_recv_match_start, tow_match, recv_match),
	IN(tow_recv_match_start, tow_op_options, recv_match_op),
	IN(tow_probe, tow_match, probe_match),
	IN(tow_group_open, tow_group_options, group_open),
	IN(tow_group_open_start, tow_group_options, group_open_start),
	IN(tow_group_open_start, tow_op_options, group_open_start_op),
	IN(tow_group_connect_start, tow_op_options, group_connect_start),
	IN(tow_group_barrier_start, tow_op_options, barrier_start),
	IN(tow_group_send_start, tow_op_options, group_send),
	IN(tow_group_recv_start, tow_op_options, group_recv),
	IN(tow_group_recv_match_start, tow_group_match, group_recv_match),
	IN(tow_group_recv_match_start, tow_op_options, group_recv_match_op),
	IN(tow_group_probe, tow_group_match, group_probe_match),
	IN(tow_method_register, tow_method_options, method_register),
	IN(tow_call_start, tow_call_options, call_start),
	IN(tow_reply_start, tow_op_options, reply_start),
	IN(tow_stream_push_start, tow_op_options, push_start),
	IN(tow_stream_pull_start, tow_op_options, pull_start),
	IN(tow_device_copy_start, tow_op_options, copy_start),
	IN(tow_coll_all_reduce_start, tow_coll_options, all_reduce),
	IN(tow_coll_reduce_scatter_start, tow_coll_options, reduce_scatter),
	IN(tow_coll_all_gather_start, tow_coll_options, all_gather),
	IN(tow_coll_broadcast_start, tow_coll_options, broadcast),
	IN(tow_coll_reduce_start, tow_coll_options, reduce),
	IN(tow_coll_all_to_all_start, tow_coll_options, all_to_all),
	IN(tow_coll_gather_start, tow_coll_options, gather),
	IN(tow_coll_scatter_start, tow_coll_options, scatter),
	IN(tow_coll_all_gather_v_start, tow_coll_options, all_gather_v),
	IN(tow_coll_all_to_all_v_start, tow_coll_options, all_to_all_v),
	IN(tow_coll_permute_start, tow_coll_options, permute),
	IN(tow_coll_send_receive_start, tow_coll_options, send_receive),
	IN(tow_coll_barrier_start, tow_coll_options, barrier_coll),
	OUT(tow_op_result, tow_result, op_result),
	OUT(tow_probe, tow_result, probe_result),
	OUT(tow_group_probe, tow_result, group_probe_result),
	OUT(tow_call_result, tow_call_result, call_result),
	OUT(tow_call, tow_call_result, call_whole),
	OUT(tow_job_info, tow_job_info, job_info),
	OUT(tow_device_info, tow_device_info, device_info),
	OUT(tow_knob_info, tow_knob_info, knob_info),
	OUT(tow_counter_info, tow_counter_info, counter_info),
	OUT(tow_reason_info, tow_reason_info, reason_info),
	OUT(tow_status_info, tow_status_info, status_info),
	OUT(tow_lane_info, tow_lane_info, lane_info),
	OUT(tow_interface_info, tow_interface_info, interface_info),
};

/* A struct of `size` bytes in memory of its own, so that ASan sees what reads or writes past it. */
static unsigned char *make(const struct row *row, size_t size, int fill)
{
	const struct twi_sized_info *info = twi_sized_describe(row->what);
	unsigned char *bytes = malloc(size);

	assert_non_null(bytes);
	memset(bytes, fill, size);
	if (info->initial != NULL)
		memcpy(bytes, info->initial, size < info->bytes ? size : info->bytes);
	memcpy(bytes, &size, sizeof(size));
	return bytes;
}

static int run(const struct row *row, unsigned char *bytes)
{
	int status = row->run(bytes);

	free(bytes);
	return status;
}

/* A size that no header has is told before anything else happens. */
static void refuse_sizes(const struct row *row)
{
	static const size_t wrong[] = { 0, 4, 7, 9, 65544, SIZE_MAX };
	const struct twi_sized_info *info = twi_sized_describe(row->what);

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		unsigned char *bytes = make(row, info->bytes, 0);

		memcpy(bytes, &wrong[i], sizeof(wrong[i]));
		assert_int_equal(run(row, bytes), TOW_EINVAL);
		assert_non_null(strstr(tow_error_message(), info->init));
	}
}

static void play_in(const struct row *row)
{
	const struct twi_sized_info *info = twi_sized_describe(row->what);
	int usual = run(row, make(row, info->bytes, 0));

	for (size_t size = 8; size < info->bytes; size += 8)
		assert_int_equal(run(row, make(row, size, 0)), usual);
	assert_int_equal(run(row, make(row, info->bytes + EXTRA, 0)), usual);
	assert_int_equal(run(row, make(row, info->bytes + EXTRA, 0xff)), usual);
	for (size_t at = 0; at < EXTRA; at += 4) {
		unsigned char *bytes = make(row, info->bytes + EXTRA, 0);

		bytes[info->bytes + at] = 42;
		assert_int_equal(run(row, bytes), TOW_EINVAL);
		assert_non_null(strstr(tow_error_message(), info->name));
		assert_non_null(strstr(tow_error_message(), "newer"));
	}
}

static bool is_padding(const struct row *row, size_t at)
{
	return (row->what == TWI_SIZED_tow_result &&
		at >= offsetof(struct tow_result, status) + sizeof(int) &&
		at < offsetof(struct tow_result, bytes)) ||
	       (row->what == TWI_SIZED_tow_status_info &&
		at >= offsetof(struct tow_status_info, value) + sizeof(int));
}

static void play_out(const struct row *row)
{
	const struct twi_sized_info *info = twi_sized_describe(row->what);
	unsigned char *whole = make(row, info->bytes, 0xa5);

	assert_int_equal(row->run(whole), TOW_OK);
	for (size_t size = 8; size <= info->bytes + EXTRA; size += 8) {
		unsigned char *bytes = make(row, size, 0xa5);
		size_t kept;

		assert_int_equal(row->run(bytes), TOW_OK);
		memcpy(&kept, bytes, sizeof(kept));
		assert_int_equal(kept, size);
		/* A call that is made anew has other times; those stand behind its text. */
		for (size_t at = 8; at < size && at < info->bytes; at++) {
			if (row->run != call_whole && !is_padding(row, at))
				assert_int_equal(bytes[at], whole[at]);
		}
		for (size_t at = info->bytes; at < size; at++)
			assert_int_equal(bytes[at], 0);
		free(bytes);
	}
	free(whole);
	assert_int_equal(row->run(NULL), row->run == call_whole ? TOW_OK : TOW_EINVAL);
}

static void test_older_and_newer(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		printf("%s: %s\n", rows[i].call, twi_sized_describe(rows[i].what)->name);
		fflush(stdout);
		refuse_sizes(&rows[i]);
		(rows[i].out ? play_out : play_in)(&rows[i]);
	}
}

/* Declared and not built: test_planned. An array of results, of which one is too old:
 * test_queue_kinds. Of other libraries: test_foreign. */
static const char *const elsewhere[] = { "tow_queue_take",         "tow_read_start",
					 "tow_write_start",        "tow_foreign_open",
					 "tow_foreign_coll_begin", "tow_foreign_message" };

/* Whether there is a row of this call and struct, or none is needed. */
static bool known(const char *declaration, const char *type)
{
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
		if (strncmp(declaration, elsewhere[i], strlen(elsewhere[i])) == 0)
			return true;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t n = strlen(rows[i].call);

		if (strncmp(declaration, rows[i].call, n) == 0 && declaration[n] == '(' &&
		    strcmp(twi_sized_describe(rows[i].what)->name, type) == 0)
			return true;
	}
	return false;
}

/* Looks through one header for calls whose declaration names a struct of the list. */
static int look(const char *source)
{
	int seen = 0;

	while ((source = strstr(source, "\nint tow_")) != NULL) {
		char *declaration = strndup(source + 5, strcspn(source + 5, ";"));

		source += 5;
		for (int which = 0; which < TWI_SIZED_COUNT; which++) {
			const char *type = twi_sized_describe((enum twi_sized)which)->name;
			char mark[64];

			snprintf(mark, sizeof(mark), "struct %s *", type);
			if (strstr(declaration, mark) == NULL ||
			    strncmp(declaration, "tow_options_init(", 17) == 0)
				continue;
			if (!known(declaration, type))
				fail_msg("no row plays %s in %s", type, declaration);
			seen++;
		}
		free(declaration);
	}
	return seen;
}

static void test_no_call_is_left_out(void **state)
{
	const char *root = getenv("TOW_TEST_SOURCE");
	struct dirent *entry;
	char path[4096];
	int seen = 0;
	DIR *dir;

	(void)state;
	if (root == NULL)
		skip();
	snprintf(path, sizeof(path), "%s/include/towline", root);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		static char source[1 << 16];
		FILE *file;

		if (strchr(entry->d_name, '.') == entry->d_name)
			continue;
		snprintf(path, sizeof(path), "%s/include/towline/%s", root, entry->d_name);
		file = fopen(path, "re");
		assert_non_null(file);
		source[fread(source, 1, sizeof(source) - 1, file)] = '\0';
		fclose(file);
		seen += look(source);
	}
	closedir(dir);
	assert_true(seen >= (int)(sizeof(rows) / sizeof(rows[0])));
}

static void test_initial_options(void **state)
{
	const struct tow_options written = TOW_OPTIONS_INIT;
	struct tow_options made;

	(void)state;
	assert_int_equal(tow_options_init(NULL, sizeof(made)), TOW_EINVAL);
	assert_int_equal(tow_options_init(&made, 3), TOW_EINVAL);
	memset(&made, 0x5a, sizeof(made));
	assert_int_equal(tow_options_init(&made, 24), TOW_OK);
	assert_int_equal(made.size, 24);
	assert_int_equal(made.strict_premap, 0x5a5a5a5a5a5a5a5a);
	assert_int_equal(tow_options_init(&made, sizeof(made)), TOW_OK);
	assert_memory_equal(&made, &written, sizeof(made));
}

/* A message that a probe finds. */
static void wait_for_probed(void)
{
	struct tow_result result = TOW_RESULT_INIT;

	assert_int_equal(tow_send_start(server, room, 8, 80, NULL, &op), TOW_OK);
	assert_int_equal(tow_op_wait(op, 5000 * MS), TOW_OK);
	assert_int_equal(tow_op_release(op), TOW_OK);
	op = NULL;
	while (probe_result(&result) == TOW_AGAIN)
		;
	assert_int_equal(result.bytes, 8);
}

static int set_up(void **state)
{
	struct tow_call_options streaming = TOW_CALL_OPTIONS_INIT;
	struct tow_op *connect, *accept;

	(void)state;
	setenv("TOW_PREMAP_MEMORY_BYTES", "4MiB", 1);
	setenv("TOW_STATS", "0", 1);
	assert_int_equal(tow_runtime_open(NULL, &runtime), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "loop://left", &left), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, "loop://right", &right), TOW_OK);
	assert_int_equal(tow_accept_start(right, NULL, &accept), TOW_OK);
	assert_int_equal(tow_connect_start(left, "loop://right", NULL, &connect), TOW_OK);
	client = twt_finish_peer(connect);
	server = twt_finish_peer(accept);
	assert_int_equal(tow_group_open(runtime, NULL, &group), TOW_OK);
	assert_int_equal(tow_device_open(runtime, "fake", &device), TOW_OK);
	assert_int_equal(tow_device_alloc(device, 4096, &memory), TOW_OK);
	assert_int_equal(tow_method_register(runtime, "echo", echo, NULL, NULL), TOW_OK);
	assert_int_equal(tow_method_register(runtime, "hold", hold, NULL, NULL), TOW_OK);
	streaming.flags = TOW_CALL_STREAM;
	assert_int_equal(tow_call_start(client, "hold", "x", 1, room, 8, &streaming, &stream_call),
			 TOW_OK);
	assert_int_equal(tow_call_start(client, "echo", "x", 1, room, 8, NULL, &echo_call), TOW_OK);
	assert_int_equal(tow_op_wait(echo_call, 5000 * MS), TOW_OK);
	wait_for_probed();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tow_group_close(group);
	tow_runtime_close(runtime);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_initial_options),
		cmocka_unit_test(test_no_call_is_left_out),
		cmocka_unit_test_setup_teardown(test_older_and_newer, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
