/*
 * test_verdict_words.c - what is said without the stats socket: in the message of a long wait, on
 * stderr after SIGQUIT, and in the flight recorder's document and files.
 */
#include "coll_team.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include <jansson.h>

#include "diag/record/span.h"

static _Atomic int *waited; /* by rank 0, long enough: shared by all */
static char folder[64];

static void with_sigquit(struct tow_options *options)
{
	options->verdict_on_sigquit = 1;
}

static void start_sum(const struct twt_rank *rank, float *data, struct tow_op **op_out)
{
	TWT_OK(tow_coll_all_reduce_start(rank->group, data, data, 1024, TOW_F32, TOW_SUM, NULL,
					 op_out));
}

static void sum(const struct twt_rank *rank, float *data)
{
	struct tow_op *op;

	start_sum(rank, data, &op);
	TWT_OK(tow_op_wait(op, TOW_FOREVER));
	tow_op_release(op);
}

/* All that was written to `fd`, once `text` is among it, within 20 s. */
static bool written(int fd, const char *text)
{
	static char all[65536];

	for (int turn = 0; turn < 2000; turn++) {
		ssize_t n = pread(fd, all, sizeof(all) - 1, 0);

		all[n > 0 ? n : 0] = '\0';
		if (strstr(all, text) != NULL)
			return true;
		usleep(10000);
	}
	fprintf(stdout, "what was written: %s\n", all);
	fflush(stdout);
	return false;
}

static json_t *flight(const struct twt_rank *rank)
{
	json_t *root;
	char *text;

	TWT_OK(tow_stats_get(rank->runtime, "/v1/flight", &text));
	root = json_loads(text, 0, NULL);
	TWT_TRUE(root != NULL);
	tow_stats_release(text);
	return root;
}

/* Every field that PyTorch's tools look at is there. */
static void check_entry(const json_t *entry)
{
	static const char *const fields[] = {
		"record_id",    "pg_id",         "process_group",
		"op_id",        "p2p_seq_id",    "collective_seq_id",
		"state",        "retired",       "profiling_name",
		"is_p2p",       "frames",        "time_created_ns",
		"input_sizes",  "input_dtypes",  "time_discovered_started_ns",
		"output_sizes", "output_dtypes", "time_discovered_completed_ns",
		"timeout_ms",   "duration_ms",
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		TWT_TRUE(json_object_get(entry, fields[i]) != NULL);
}

static const char *text_of(const json_t *entry, const char *key)
{
	const char *text = json_string_value(json_object_get(entry, key));

	return text != NULL ? text : "";
}

/* A message of this size is always in the rings of spans. */
#define TOLD_BYTES (2 * TWI_SPAN_SMALL_MESSAGE)

/* From rank 0 to rank 1, which both have ended when it returns. */
static void tell(const struct twt_rank *rank, void *data)
{
	struct tow_peer *peer;
	struct tow_op *op;

	TWT_OK(tow_group_connect_start(rank->group, 1 - rank->rank, NULL, &op));
	TWT_OK(tow_op_wait(op, TOW_FOREVER));
	tow_op_release(op);
	TWT_OK(tow_group_peer(rank->group, 1 - rank->rank, &peer));
	if (rank->rank == 0)
		TWT_OK(tow_send_start(peer, data, TOLD_BYTES, 7, NULL, &op));
	else
		TWT_OK(tow_recv_start(peer, data, TOLD_BYTES, 7, NULL, &op));
	TWT_OK(tow_op_wait(op, TOW_FOREVER));
	tow_op_release(op);
}

static void check_message(const json_t *entry)
{
	check_entry(entry);
	TWT_TRUE(json_is_true(json_object_get(entry, "is_p2p")));
	TWT_TRUE(strcmp(text_of(entry, "profiling_name"), "towline:send 0->1") == 0);
	TWT_TRUE(json_integer_value(json_object_get(entry, "peer_rank")) == 1);
	TWT_TRUE(strcmp(json_string_value(
				json_array_get(json_object_get(entry, "process_group"), 0)),
			"messages") == 0);
	TWT_TRUE(strcmp(text_of(entry, "state"), "completed") == 0);
	TWT_TRUE(json_integer_value(json_array_get(
			 json_array_get(json_object_get(entry, "input_sizes"), 0), 0)) ==
		 TOLD_BYTES);
}

static void check_flight(const struct twt_rank *rank)
{
	json_t *root = flight(rank), *entries = json_object_get(root, "entries"), *entry = NULL;
	size_t i;

	TWT_TRUE(json_array_size(entries) == 5);
	check_message(json_array_get(entries, 4));
	for (i = 0; i < 4; i++) {
		entry = json_array_get(entries, i);
		check_entry(entry);
		TWT_TRUE(strcmp(text_of(entry, "profiling_name"), "towline:all_reduce") == 0);
		TWT_TRUE(json_integer_value(json_object_get(entry, "collective_seq_id")) ==
			 (json_int_t)i + 1);
		TWT_TRUE((strcmp(text_of(entry, "state"), "completed") == 0) == (i < 3));
	}
	TWT_TRUE(
		strcmp(json_string_value(json_array_get(json_object_get(entry, "input_dtypes"), 0)),
		       "Float") == 0);
	TWT_TRUE(json_integer_value(
			 json_object_get(json_object_get(json_object_get(root, "pg_status"), "0"),
					 "last_completed_collective")) == 3);
	TWT_TRUE(strcmp(text_of(json_object_get(json_object_get(root, "pg_config"), "0"), "ranks"),
			"[0, 1]") == 0);
	TWT_TRUE(strcmp(text_of(json_object_get(json_object_get(root, "pg_config"), "messages"),
				"ranks"),
			"[0, 1]") == 0);
	json_decref(root);
}

static void words(struct twt_rank *rank)
{
	int errors = dup(STDERR_FILENO), fd = memfd_create("stderr", MFD_CLOEXEC);
	bool said;
	struct tow_op *op;
	void *data;

	TWT_OK(tow_alloc(rank->runtime, TOLD_BYTES, 64, &data));
	for (int i = 0; i < 3; i++)
		sum(rank, data);
	tell(rank, data);
	while (rank->rank == 1 && atomic_load(waited) == 0)
		usleep(1000);
	if (rank->rank == 1) {
		sum(rank, data);
		return;
	}
	start_sum(rank, data, &op);
	TWT_TRUE(tow_op_wait(op, 2200000000ull) == TOW_ETIMEDOUT);
	TWT_TRUE(strstr(tow_error_message(), "rank 1: never_entered") != NULL);
	check_flight(rank);
	TWT_TRUE(dup2(fd, STDERR_FILENO) >= 0);
	kill(getpid(), SIGQUIT);
	said = written(fd, "towline: verdict: stuck") && written(fd, "rank 1: never_entered");
	TWT_TRUE(dup2(errors, STDERR_FILENO) >= 0);
	TWT_TRUE(said);
	atomic_store(waited, 1);
	TWT_OK(tow_op_wait(op, TOW_FOREVER));
	tow_op_release(op);
}

static void test_words(void **state)
{
	(void)state;
	atomic_store(waited, 0);
	/* As of a program that a shell has started in the background. */
	signal(SIGQUIT, SIG_IGN);
	twt_ranks(&(struct twt_job){
		.ranks = 2, .lane = "tcp://127.0.0.1:0", .run = words, .options = with_sigquit });
	signal(SIGQUIT, SIG_DFL);
}

/* Rank 1 comes to its second barrier only when rank 0 has given it up. */
static void barrier(struct twt_rank *rank)
{
	json_t *root, *entries, *entry;

	TWT_OK(tow_group_barrier(rank->group, TOW_FOREVER));
	while (rank->rank == 1 && atomic_load(waited) == 0)
		usleep(1000);
	if (rank->rank == 1)
		return;
	TWT_TRUE(tow_group_barrier(rank->group, 2200000000ull) == TOW_EDEADLINE);
	TWT_TRUE(strstr(tow_error_message(), "not every rank has come in time; rank 1: "
					     "never_entered") != NULL);
	root = flight(rank);
	entries = json_object_get(root, "entries");
	TWT_TRUE(json_array_size(entries) == 2);
	for (size_t i = 0; i < 2; i++) {
		entry = json_array_get(entries, i);
		check_entry(entry);
		TWT_TRUE(strcmp(text_of(entry, "profiling_name"), "towline:barrier") == 0);
		TWT_TRUE(strcmp(text_of(entry, "status"), i == 0 ? "TOW_OK" : "TOW_EDEADLINE") ==
			 0);
	}
	TWT_TRUE(strcmp(text_of(json_object_get(json_object_get(root, "pg_config"), "0.barriers"),
				"ranks"),
			"[0, 1]") == 0);
	json_decref(root);
	atomic_store(waited, 1);
}

static void test_barrier(void **state)
{
	(void)state;
	atomic_store(waited, 0);
	twt_ranks(&(struct twt_job){ .ranks = 2, .lane = "tcp://127.0.0.1:0", .run = barrier });
}

static void with_files(struct tow_options *options)
{
	options->flight_dir = folder;
	options->flight_files = 2;
	options->coll_timeout_ns = 300000000;
}

/* The file of this rank, whole, within 20 s. */
static json_t *file_of(const struct twt_rank *rank)
{
	char path[160];
	json_t *root;

	snprintf(path, sizeof(path), "%s/flight.coll-ranks.%u.0.json", folder, rank->rank);
	for (int turn = 0; turn < 2000; turn++) {
		bool there = access(path, F_OK) == 0;

		root = json_load_file(path, 0, NULL);
		if (root != NULL)
			return root;
		TWT_TRUE(!there); /* never in parts */
		usleep(10000);
	}
	return NULL;
}

static void deadline(struct twt_rank *rank)
{
	json_t *root, *entries, *last;
	struct tow_op *op;
	void *data;

	TWT_OK(tow_alloc(rank->runtime, 4096, 64, &data));
	sum(rank, data);
	if (rank->rank == 0) {
		start_sum(rank, data, &op);
		TWT_TRUE(tow_op_wait(op, TOW_FOREVER) == TOW_EDEADLINE);
		tow_op_release(op);
		atomic_store(waited, 1);
	}
	while (atomic_load(waited) == 0)
		usleep(1000);
	root = file_of(rank);
	TWT_TRUE(root != NULL);
	entries = json_object_get(root, "entries");
	last = json_array_get(entries, json_array_size(entries) - 1);
	if (rank->rank == 0)
		TWT_TRUE(strcmp(text_of(last, "status"), "TOW_EDEADLINE") == 0 ||
			 strcmp(text_of(last, "state"), "completed") != 0);
	json_decref(root);
}

static void test_files(void **state)
{
	const struct dirent *entry;
	char path[400];
	DIR *dir;

	(void)state;
	atomic_store(waited, 0);
	strcpy(folder, "/tmp/tow-flight-XXXXXX");
	assert_non_null(mkdtemp(folder));
	twt_ranks(&(struct twt_job){
		.ranks = 2, .lane = "tcp://127.0.0.1:0", .run = deadline, .options = with_files });
	dir = opendir(folder);
	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		assert_null(strstr(entry->d_name, ".part"));
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		unlink(path);
	}
	closedir(dir);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_barrier),
		cmocka_unit_test(test_files),
	};

	waited = mmap(NULL, sizeof(*waited), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (waited == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
