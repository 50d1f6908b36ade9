/*
 * test_pages.c - the report and the live page in a real browser: nothing on its console, something
 * on its screen, and the live page asks for what it shows, with its token.
 *
 * On a machine that is very busy a browser may not come up at all; each has a second chance.
 * TOW_PAGES_KEEP names a folder where the pictures are to stay.
 */
#include "twt.h"

#include <string.h>
#include <unistd.h>

#include <towline/stats.h>

#include "bridge.h"
#include "command.h"
#include "diag/base/clock.h"
#include "diag/base/emit.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "diag/record/span.h"
#include "diag/serve/socket.h"
#include "tools/trace/formats.h"
#include "traced_job.h"

/* Debian has the browser without a window as a package of its own, which starts faster. */
#define BROWSER                                                                                    \
	"timeout 45 $(command -v chromium-headless-shell || echo chromium --headless) "            \
	"--no-sandbox --disable-gpu --hide-scrollbars --no-first-run --disable-extensions "        \
	"--disable-background-networking --disable-component-update --disable-sync "               \
	"--enable-logging=stderr "
#define TOKEN "s3cret-token_of~the.test"
#define ASKED "s3cret-token_of%%7Ethe.test" /* as browsers write it; of a format */
/* Of a picture: its width, its height, and how many of its rows differ. */
#define LOOK                                                                                       \
	"python3 -c '\n"                                                                           \
	"import struct, sys, zlib\n"                                                               \
	"data, at, packed = open(sys.argv[1], \"rb\").read(), 8, b\"\"\n"                          \
	"while at < len(data):\n"                                                                  \
	"    size, kind = struct.unpack(\">I4s\", data[at:at + 8])\n"                              \
	"    packed += data[at + 8:at + 8 + size] if kind == b\"IDAT\" else b\"\"\n"               \
	"    at += size + 12\n"                                                                    \
	"width, height = struct.unpack(\">II\", data[16:24])\n"                                    \
	"raw = zlib.decompress(packed)\n"                                                          \
	"row = len(raw) // height\n"                                                               \
	"print(width, height, len({raw[i * row:i * row + row] for i in range(height)}))' "

static struct {
	struct twi_diag *diag;
	struct twi_socket *socket;
	struct twt_bridge bridge;
	struct twt_build build;
	pthread_t job;
	atomic_bool done;
	char dir[64];
	struct twt_command command;
} fixture;

static uint32_t named(const char *text)
{
	uint32_t tag;

	if (text[0] == '\0' || tow_tag_set(text) < 0)
		return 0;
	tag = twi_tag_current;
	tow_tag_set(NULL);
	return tag;
}

/* A made-up rank's spans into this thread's ring, as if they had ended a moment ago. */
static void record(const struct twi_trace_rank *rank)
{
	uint64_t shift = twi_now_ns() - rank->end_ns;

	for (size_t t = 0; t < rank->thread_count; t++) {
		for (size_t i = 0; i < rank->threads[t].span_count; i++) {
			struct twi_span span = rank->threads[t].spans[i];
			const struct twi_trace_peer *peer = &rank->peers[span.peer - 1];

			span.start_ns += shift;
			span.end_ns += shift;
			span.name = named(span.name ? rank->names[span.name - 1] : "");
			span.peer =
				span.peer ? twi_span_peer(fixture.diag, peer->name, peer->rank) : 0;
			twi_span_record(fixture.diag, &span);
		}
	}
}

/*
 * The job goes on for as long as somebody may look: the live page shows the last TWI_ANALYSIS_NS,
 * and on a busy machine a browser can take longer than that to come up.
 */
static void *job_run(void *arg)
{
	(void)arg;
	while (!atomic_load(&fixture.done)) {
		record(&fixture.build.trace.ranks[0]);
		usleep(700000);
	}
	return NULL;
}

/* As the verdict of a stuck job begins (docs/verdict.md). */
static void stuck(void *arg, struct twi_emit *e)
{
	(void)arg;
	twi_emit_str(e, "state", "stuck");
	twi_emit_u64(e, "ranks_in_job", 4);
	twi_emit_u64(e, "ranks_answered", 3);
	twi_emit_array_begin(e, "findings");
	twi_emit_object_begin(e, NULL);
	twi_emit_str(e, "cause", "stopped");
	twi_emit_str(e, "says", "is stopped");
	twi_emit_json(e, "ranks", "[2]");
	twi_emit_json(e, "links", "[]");
	twi_emit_f64(e, "confidence", 0.99);
	twi_emit_json(e, "evidence", "[\"its process 7 is stopped <b>(state T)</b>\"]");
	twi_emit_str(e, "cure", "continue the process");
	twi_emit_object_end(e);
	twi_emit_array_end(e);
}

static const struct twi_source verdict = { "/v1/verdict", "who holds up the job", stuck, NULL };

static int set_up(void **state)
{
	char path[128], *bytes;
	struct twt_build *b = &fixture.build;
	size_t count;
	FILE *file;

	(void)state;
	snprintf(fixture.dir, sizeof(fixture.dir), "/tmp/twt-pages.XXXXXX");
	assert_non_null(mkdtemp(fixture.dir));
	twi_clock_init();
	assert_int_equal(twi_diag_create(&fixture.diag), 0);
	twt_job_make(b, 7, 4, 40);
	/* Before this there was no diag, and no time in which the spans could have been. */
	fixture.diag->start_ns -= b->trace.ranks[0].end_ns - b->trace.ranks[0].begin_ns;
	assert_int_equal(pthread_create(&fixture.job, NULL, job_run, NULL), 0);
	assert_int_equal(twi_report_html(&b->trace, &bytes, &count), 0);
	snprintf(path, sizeof(path), "%s/report.html", fixture.dir);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	assert_int_equal(fclose(file), 0);
	free(bytes);
	assert_int_equal(twi_socket_open(fixture.diag, fixture.dir, "pages", 0, &fixture.socket),
			 0);
	assert_int_equal(twi_registry_add(fixture.diag, &verdict), 0);
	assert_int_equal(twi_socket_listen(fixture.socket, "127.0.0.1:0", TOKEN, ""), 0);
	twt_bridge_open(&fixture.bridge, twi_socket_address(fixture.socket));
	return 0;
}

static int tear_down(void **state)
{
	char line[256];

	(void)state;
	atomic_store(&fixture.done, true);
	pthread_join(fixture.job, NULL);
	twi_socket_close(fixture.socket);
	twi_diag_destroy(fixture.diag);
	twt_build_fini(&fixture.build);
	snprintf(line, sizeof(line), "rm -rf %s", fixture.dir);
	twt_command(line, &fixture.command);
	return 0;
}

static void look_at(const char *name)
{
	unsigned width = 0, height = 0, rows = 0;
	char line[2048];

	snprintf(line, sizeof(line), LOOK "%s/%s.png", fixture.dir, name);
	twt_command(line, &fixture.command);
	if (sscanf(fixture.command.text, "%u %u %u", &width, &height, &rows) != 3)
		fail_msg("no picture of the %s: %s", name, fixture.command.text);
	assert_int_equal(width, 1280);
	assert_int_equal(height, 800);
	if (rows < 250)
		fail_msg("the picture of the %s is all but empty: %u rows differ", name, rows);
}

/* Nothing may be on the console; whether there is a picture is looked at then. */
static void open_page(const char *name, const char *options, const char *address)
{
	char line[3072];

	snprintf(line, sizeof(line),
		 "cd %s && export HOME=%s\n"
		 "for try in 1 2; do\n"
		 "[ -s %s.png ] || " BROWSER "--user-data-dir=%s/%s$try --window-size=1280,800 %s "
		 "--screenshot=%s.png '%s' >%s.log 2>&1\n"
		 "done; grep -h CONSOLE %s.log",
		 fixture.dir, fixture.dir, name, fixture.dir, name, options, name, address, name,
		 name);
	twt_command(line, &fixture.command);
	if (fixture.command.text[0] != '\0')
		fail_msg("the browser's console is not empty:\n%s", fixture.command.text);
	look_at(name);
	if (getenv("TOW_PAGES_KEEP") != NULL) {
		snprintf(line, sizeof(line), "cp %s/%s.png %s/", fixture.dir, name,
			 getenv("TOW_PAGES_KEEP"));
		twt_command(line, &fixture.command);
	}
}

static void report(void **state)
{
	char address[128];

	(void)state;
	snprintf(address, sizeof(address), "file://%s/report.html", fixture.dir);
	open_page("report", "", address);
}

static void live(void **state)
{
	char address[128];

	(void)state;
	snprintf(address, sizeof(address), "http://127.0.0.1:%u/ui?token=" TOKEN "",
		 fixture.bridge.port);
	open_page("live", "--virtual-time-budget=2500", address);
	twt_bridge_close(&fixture.bridge);
}

static void policy(void **state)
{
	char line[512];

	(void)state;
	snprintf(line, sizeof(line), "curl -sI --unix-socket %s http://towline/ui",
		 twi_socket_path(fixture.socket));
	twt_command(line, &fixture.command);
	assert_non_null(
		strstr(fixture.command.text, "Content-Security-Policy: default-src 'none'"));
	assert_non_null(strstr(fixture.command.text, "Referrer-Policy: no-referrer\r\n"));
	assert_non_null(strstr(fixture.command.text, "X-Content-Type-Options: nosniff\r\n"));
	assert_non_null(strstr(fixture.command.text, "Content-Type: text/html"));
}

/* Everything that it shows, with its token, and nothing else; nothing was refused. */
static void what_it_asked(void **state)
{
	static const char *const paths[] = { "/v1",         "/v1/info",   "/v1/timeline",
					     "/v1/slack",   "/v1/copies", "/v1/registrations",
					     "/v1/latency", "/v1/verdict" };
	const char *at;
	unsigned asked = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		char want[96];

		snprintf(want, sizeof(want), "GET %s?token=" ASKED " HTTP/1.1\r\n", paths[i]);
		if (strstr(fixture.bridge.text, want) == NULL)
			fail_msg("the live page did not ask: %s", want);
	}
	for (at = fixture.bridge.text; (at = strstr(at, "GET ")) != NULL; at++, asked++) {
		if (strncmp(at, "GET /v1", 7) != 0 && strncmp(at, "GET /ui?", 8) != 0)
			fail_msg("the live page asked: %.60s", at);
	}
	assert_true(asked > sizeof(paths) / sizeof(paths[0]));
	assert_int_equal(twi_counter_sum(fixture.diag, TWI_C_stats_token_refused), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(report),
		cmocka_unit_test(live),
		cmocka_unit_test(what_it_asked),
		cmocka_unit_test(policy),
	};

	if (system("(command -v chromium-headless-shell || command -v chromium) >/dev/null 2>&1") !=
	    0) {
		printf("skipped: the pages need a browser, and there is no chromium-headless-shell "
		       "and no chromium\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
