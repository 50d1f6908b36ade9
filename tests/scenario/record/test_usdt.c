/*
 * test_usdt.c - a tracer that attaches to our probes sees every RPC, copy and late registration,
 * with its figures, and none once it has gone. Needs what uprobes need (CAP_SYS_ADMIN).
 */
#include "twt.h"

#include "command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"

#define RPCS   1000
#define COPIES 100
#define LATE   10

struct tracer {
	pid_t pid;
	int in, out;
	char text[8192];
	size_t bytes;
};

static const char *example_path(void)
{
	static char path[512];
	const char *build = getenv("TOW_TEST_BUILD");

	snprintf(path, sizeof(path), "%s/examples/example_08_probes", build != NULL ? build : ".");
	return path;
}

static void tracer_start(struct tracer *tracer)
{
	int in[2], out[2];
	char pid[16];

	*tracer = (struct tracer){ 0 };
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	tracer->pid = fork();
	assert_true(tracer->pid >= 0);
	if (tracer->pid == 0) {
		char file[64];

		snprintf(file, sizeof(file), "/proc/%s/exe", pid);
		dup2(in[0], 0);
		dup2(out[1], 1);
		dup2(out[1], 2);
		alarm(60);
		execl(example_path(), "08_probes", pid, file, NULL);
		_exit(97);
	}
	close(in[0]);
	close(out[1]);
	tracer->in = in[1];
	tracer->out = out[0];
}

/* Until `words` have come, or its end; at most 20 s. */
static bool tracer_says(struct tracer *tracer, const char *words)
{
	struct pollfd fd = { .fd = tracer->out, .events = POLLIN };

	while (words == NULL || strstr(tracer->text, words) == NULL) {
		ssize_t got;

		if (poll(&fd, 1, 20000) <= 0)
			return false;
		got = read(tracer->out, tracer->text + tracer->bytes,
			   sizeof(tracer->text) - 1 - tracer->bytes);
		if (got <= 0)
			return words == NULL;
		tracer->bytes += (size_t)got;
	}
	return true;
}

static void tracer_end(struct tracer *tracer)
{
	close(tracer->in);
	assert_true(tracer_says(tracer, NULL));
	close(tracer->out);
	assert_int_equal(waitpid(tracer->pid, NULL, 0), tracer->pid);
}

static void record(struct twi_diag *diag)
{
	for (uint64_t i = 0; i < RPCS; i++)
		twi_latency_record(diag, TWI_LANE_TCP, 4096, 2000);
	for (uint64_t i = 0; i < COPIES; i++)
		twi_copy_record(diag, TWI_R_pool_exhausted, 100, 70, TWI_SITE_NONE);
	for (uint64_t i = 0; i < LATE; i++)
		twi_late_record(diag, TWI_R_late_extent, 1 << 20, 5000, TWI_SITE_NONE);
}

/* A row of it: probe, what, count, bytes, ns each. */
static void check_row(const struct tracer *tracer, const char *probe, const char *name,
		      unsigned long long count, unsigned long long bytes, unsigned long long ns)
{
	unsigned long long is[3] = { 0 };
	const char *line = strstr(tracer->text, probe);
	const char *at = line != NULL ? strstr(line, name) : NULL;

	assert_non_null(at);
	assert_int_equal(sscanf(at + strlen(name), "%llu %llu bytes %llu", &is[0], &is[1], &is[2]),
			 3);
	assert_int_equal(is[0], count);
	assert_int_equal(is[1], bytes);
	assert_int_equal(is[2], ns);
}

static bool not_here;

static void every_one_is_seen(void **state)
{
	struct tracer tracer;
	struct twi_diag *diag;
	char lane[16];

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	record(diag); /* before it came: not seen */
	tracer_start(&tracer);
	if (!tracer_says(&tracer, "attached")) {
		printf("skipped: %s\n", tracer.text);
		tracer_end(&tracer);
		twi_diag_destroy(diag);
		not_here = true;
		return;
	}
	record(diag);
	tracer_end(&tracer);
	snprintf(lane, sizeof(lane), "lane %d ", TWI_LANE_TCP);
	check_row(&tracer, "rpc_done", lane, RPCS, RPCS * 4096ull, 2000);
	check_row(&tracer, "copy", "pool_exhausted", COPIES, COPIES * 100ull, 70);
	check_row(&tracer, "late_registration", "late_extent", LATE, LATE * (1ull << 20), 5000);
	record(diag); /* the nops are back: nothing breaks */
	assert_int_equal(twi_counter_sum(diag, TWI_C_fallback_copies), 3 * COPIES);
	twi_diag_destroy(diag);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_one_is_seen) };
	int failed;

#ifndef TWI_HAVE_USDT
	printf("skipped: there are no probes in this build\n");
	return 77;
#endif
	if (access(example_path(), X_OK) != 0) {
		printf("skipped: there is no example_08_probes (feature bpf is off)\n");
		return 77;
	}
	if (geteuid() != 0) {
		printf("skipped: uprobes need CAP_SYS_ADMIN\n");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return not_here && failed == 0 ? 77 : failed;
}
