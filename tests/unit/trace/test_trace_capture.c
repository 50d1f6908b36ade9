/*
 * test_trace_capture.c - captures: what they hold, what they count, their bound, their source, and
 * the one that a signal begins.
 */
#include "twt.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towline/towline.h>
#include <towline/trace.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "diag/serve/http.h"
#include "diag/trace/capture/trace_capture.h"
#include "diag/trace/capture/trace_signal.h"
#include "diag/trace/capture/trace_writer.h"
#include "diag/trace/export/export.h"

static struct twi_diag *diag;

static int setup(void **state)
{
	(void)state;
	twi_clock_init();
	return twi_diag_create(&diag);
}

static int teardown(void **state)
{
	(void)state;
	twi_diag_destroy(diag);
	return 0;
}

static void record(uint64_t id)
{
	struct twi_span span = { .id = id, .start_ns = id, .end_ns = id + 1 };

	twi_span_record(diag, &span);
}

static uint64_t spans_of(const struct twi_trace *trace, uint64_t *lost_out)
{
	uint64_t count = 0;

	*lost_out = 0;
	for (size_t t = 0; t < trace->ranks[0].thread_count; t++) {
		const struct twi_trace_thread *thread = &trace->ranks[0].threads[t];

		count += thread->span_count;
		*lost_out += thread->lost;
		for (size_t i = 1; i < thread->span_count; i++)
			assert_true(thread->spans[i - 1].id < thread->spans[i].id);
	}
	return count;
}

/* What was there before is not of it; what is passed over always is written meanwhile. */
static void window(void **state)
{
	struct twi_trace_capture *capture;
	struct twi_trace trace;
	uint64_t lost;

	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		record(i);
	assert_true(twi_span_wanted(diag, 8));
	assert_false(twi_span_wanted(diag, 8));
	assert_int_equal(twi_trace_capture_start(diag, &capture), TOW_OK);
	assert_true(twi_span_wanted(diag, 8));
	assert_true(twi_span_chosen(diag, 8, 1));
	for (uint64_t i = 10; i < 15; i++)
		record(i);
	assert_int_equal(twi_trace_capture_finish(capture, &trace), TOW_OK);
	assert_int_equal(spans_of(&trace, &lost), 5);
	assert_int_equal(lost, 0);
	assert_int_equal(trace.ranks[0].threads[0].spans[0].id, 10);
	assert_int_equal(trace.ranks[0].sampled_out, 0);
	assert_true(trace.ranks[0].begin_ns <= trace.ranks[0].end_ns);
	assert_false(twi_span_chosen(diag, 8, 1));
	twi_trace_fini(&trace);
	assert_int_equal(twi_trace_capture_start(diag, &capture), TOW_OK);
	assert_int_equal(twi_trace_capture_finish(capture, NULL), TOW_OK);
}

#define MANY (40 * (uint64_t)TWI_SPAN_ROWS)

static void *write_many(void *arg)
{
	(void)arg;
	for (uint64_t i = 0; i < MANY; i++)
		record(i);
	return NULL;
}

/* More than the rings hold, by threads that come meanwhile: read and lost are all of it. */
static void many(void **state)
{
	struct twi_trace_capture *captures[2];
	pthread_t threads[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(twi_trace_capture_start(diag, &captures[i]), TOW_OK);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_many, NULL), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct twi_trace trace;
		uint64_t count, lost, before = twi_counter_sum(diag, TWI_C_spans_lost);

		assert_int_equal(twi_trace_capture_finish(captures[i], &trace), TOW_OK);
		count = spans_of(&trace, &lost);
		assert_int_equal(count + lost, 2 * MANY);
		assert_true(count >= TWI_SPAN_ROWS);
		assert_int_equal(twi_counter_sum(diag, TWI_C_spans_lost) - before, lost);
		twi_trace_fini(&trace);
	}
}

/* The bound: what comes beyond is counted. */
static void bound(void **state)
{
	struct twi_trace_capture *capture;
	struct twi_trace trace;
	uint64_t written = TWI_TRACE_SPANS_MAX + 3 * TWI_SPAN_ROWS, lost, count;

	(void)state;
	assert_int_equal(twi_trace_capture_start(diag, &capture), TOW_OK);
	for (uint64_t i = 0; i < written; i++)
		record(i);
	assert_int_equal(twi_trace_capture_finish(capture, &trace), TOW_OK);
	count = spans_of(&trace, &lost);
	assert_true(count <= TWI_TRACE_SPANS_MAX);
	assert_int_equal(count + lost, written);
	twi_trace_fini(&trace);
}

static void source(void **state)
{
	static const char *const names[] = {
		[TOW_TRACE_XSPACE] = "xspace", [TOW_TRACE_JSON] = "json"
	};
	struct twi_capture capture;

	(void)state;
	assert_int_equal(twi_trace_source_add(diag), TOW_OK);
	assert_true(twi_registry_capture_find(diag, "/v1/trace", &capture));
	for (unsigned i = 0; i < twi_array_count(names); i++) {
		uint64_t wait_ns;
		size_t count = 0;
		char *bytes = NULL;
		void *session;
		int status;

		assert_string_equal(capture.formats[i].name, names[i]);
		assert_int_equal(
			capture.start(capture.arg, i % 2 == 0 ? -1 : 0, &session, &wait_ns),
			TOW_OK);
		assert_int_equal(wait_ns, i % 2 == 0 ? 1000000000 : 0);
		record(i);
		status = capture.choose(capture.arg, session, i);
		if (status == TOW_OK)
			status = capture.finish(capture.arg, session, &bytes, &count);
		else
			capture.finish(capture.arg, session, NULL, NULL);
		assert_true(status == TOW_OK || status == TOW_ENOTSUP);
		assert_int_equal(count > 0, status == TOW_OK);
		free(bytes);
	}
	assert_null(capture.formats[twi_array_count(names)].name);
	twi_trace_source_remove(diag);
	assert_false(twi_registry_capture_find(diag, "/v1/trace", &capture));
}

/* Who asks for a format that the tools make is told which command does. */
static void formats_of_tools(void **state)
{
	static const char *const names[] = { "perfetto", "chrome", "html" };
	struct twi_capture capture;

	(void)state;
	assert_int_equal(twi_trace_source_add(diag), TOW_OK);
	assert_true(twi_registry_capture_find(diag, "/v1/trace", &capture));
	for (unsigned i = 0; i < twi_array_count(names); i++) {
		struct twi_http_query query = { .count = 1 };
		struct twi_http_answer answer;
		struct twi_http_wish wish;

		query.params[0] = (struct twi_http_param){ "format", names[i] };
		assert_int_equal(twi_http_wish(&query, &capture, &wish, &answer), -1);
		assert_int_equal(answer.status, 400);
		assert_non_null(strstr(answer.text, "one of xspace, json; towtrace convert makes"));
		assert_non_null(strstr(answer.text, names[i]));
		free(answer.text);
	}
	twi_trace_source_remove(diag);
}

/* tow_trace_begin and tow_trace_end, and every misuse. */
static void calls(void **state)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	struct tow_trace *trace;

	(void)state;
	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	assert_int_equal(tow_trace_begin(NULL), TOW_EINVAL);
	assert_int_equal(tow_trace_end(runtime, NULL), TOW_EINVAL);
	assert_int_equal(tow_trace_end(runtime, &trace), TOW_EINVAL);
	assert_non_null(strstr(tow_error_message(), "no trace is being recorded"));
	assert_int_equal(tow_trace_begin(runtime), TOW_OK);
	assert_int_equal(tow_trace_begin(runtime), TOW_EBUSY);
	assert_int_equal(tow_step_begin(runtime, 4), TOW_OK);
	assert_int_equal(tow_step_end(runtime, 4), TOW_OK);
	assert_int_equal(tow_trace_end(runtime, &trace), TOW_OK);
	assert_int_equal(trace->trace.ranks[0].threads[0].spans[0].kind, TWI_SPAN_STEP);
	tow_trace_release(trace);
	assert_int_equal(tow_trace_begin(runtime), TOW_OK);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

static _Atomic int seen;

static void handler(int number)
{
	(void)number;
	atomic_fetch_add(&seen, 1);
}

/* The only entry of a directory, its path in `path`. False: there is none yet. */
static bool descend(char *path, size_t room)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	bool found = false;

	while (dir != NULL && !found && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path + strlen(path), room - strlen(path), "/%s", entry->d_name);
		found = true;
	}
	if (dir != NULL)
		closedir(dir);
	return found;
}

/* A signal, and a file is there that is read back; our handler runs too and is put back. */
static void by_signal(void **state)
{
	char dir[] = "/tmp/twt-trace-XXXXXX", path[2048];
	struct twi_trace_writer_options options = { .seconds = 1, .dir = dir };
	struct twi_trace_writer *writer;
	struct sigaction action = { .sa_handler = handler }, now;
	struct twi_trace_signal *first, *second;
	struct stat info;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
	assert_int_equal(twi_trace_writer_open(diag, &options, &writer), TOW_OK);
	assert_int_equal(twi_trace_signal_open(writer, SIGUSR2, &first), TOW_OK);
	assert_int_equal(twi_trace_signal_open(writer, SIGUSR2, &second), TOW_EBUSY);
	assert_int_equal(kill(getpid(), SIGUSR2), 0);
	for (unsigned i = 0; i < 200 && (record(i), true); i++) {
		snprintf(path, sizeof(path), "%s/plugins/profile", dir);
		if (descend(path, sizeof(path)) && descend(path, sizeof(path)) &&
		    strstr(path, ".pb.") == NULL && stat(path, &info) == 0)
			break;
		usleep(50000);
	}
	assert_int_equal(atomic_load(&seen), 1);
	twi_trace_signal_close(first);
	assert_int_equal(sigaction(SIGUSR2, NULL, &now), 0);
	assert_true(now.sa_handler == handler);
	assert_int_equal(twi_trace_signal_open(writer, SIGKILL, &second), TOW_EINVAL);
	twi_trace_writer_close(writer);
	if (twi_xspace_ready() == TOW_OK) {
		assert_non_null(strstr(path, "--1.xplane.pb"));
		assert_true(info.st_size > 100);
		assert_int_equal(unlink(path), 0);
	}
	snprintf(path, sizeof(path), "rm -r %s", dir);
	assert_int_equal(system(path), 0);
	signal(SIGUSR2, SIG_DFL);
}

/* A handler that returns from one of these would run the fault again, for ever. */
static void fault_signals(void **state)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
	const struct twi_trace_writer_options options = { .seconds = 1, .dir = "" };
	struct twi_trace_writer *writer;

	(void)state;
	assert_int_equal(twi_trace_writer_open(diag, &options, &writer), TOW_OK);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct twi_trace_signal *refused;
		struct sigaction before, now;
		char number[32];

		assert_int_equal(sigaction(faults[i], NULL, &before), 0);
		assert_int_equal(twi_trace_signal_open(writer, faults[i], &refused), TOW_EINVAL);
		assert_null(refused);
		snprintf(number, sizeof(number), "trace_signal = %d ", faults[i]);
		assert_non_null(strstr(tow_error_message(), number));
		assert_int_equal(sigaction(faults[i], NULL, &now), 0);
		assert_true(now.sa_handler == before.sa_handler);
	}
	twi_trace_writer_close(writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(window, setup, teardown),
		cmocka_unit_test_setup_teardown(many, setup, teardown),
		cmocka_unit_test_setup_teardown(bound, setup, teardown),
		cmocka_unit_test_setup_teardown(source, setup, teardown),
		cmocka_unit_test_setup_teardown(formats_of_tools, setup, teardown),
		cmocka_unit_test_setup_teardown(calls, setup, teardown),
		cmocka_unit_test_setup_teardown(by_signal, setup, teardown),
		cmocka_unit_test_setup_teardown(fault_signals, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
