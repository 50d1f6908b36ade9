/*
 * test_towtrace.c - the program: a job's ranks captured at once, files merged and converted, and
 * what it says of files and calls that are wrong.
 */
#include "capture_job.h"

#include <unistd.h>

#include <towline/status.h>

#include "diag/trace/export/export.h"
#include "traces.h"

static char folder[] = "/tmp/tow-towtrace-XXXXXX";

/* Runs a command line in the folder. */
static void run(const char *line, struct twt_command *out)
{
	char full[1024];

	snprintf(full, sizeof(full), "cd %s && %s", folder, line);
	twt_command(full, out);
}

static void expect(const char *line, int status, const char *words)
{
	static struct twt_command done;

	run(line, &done);
	if (done.status != status || strstr(done.text, words) == NULL)
		fail_msg("%s: status %d, wanted %d and \"%s\":\n%s", line, done.status, status,
			 words, done.text);
}

/* A file with ranks first to last of the pair. */
static void write_ranks(const char *name, size_t first, size_t count)
{
	struct twi_trace pair, part;
	char path[128], *bytes;
	size_t length;
	FILE *file;

	twt_trace_pair(&pair);
	part = (struct twi_trace){ .ranks = pair.ranks + first, .rank_count = count };
	assert_int_equal(twi_export_xspace(&part, &bytes, &length), TOW_OK);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	fclose(file);
	free(bytes);
	twi_trace_fini(&pair);
}

static void wrong_calls_are_told(void **state)
{
	(void)state;
	expect("@/tools/towtrace/towtrace", 2, "what to do");
	expect("@/tools/towtrace/towtrace dance", 2, "no such command: dance");
	expect("@/tools/towtrace/towtrace convert", 2, "which FILE");
	expect("@/tools/towtrace/towtrace convert a b -o c", 2, "merge takes several");
	expect("@/tools/towtrace/towtrace merge a b", 2, "one of --output and --logdir");
	expect("@/tools/towtrace/towtrace merge a -o b --logdir c", 2,
	       "one of --output and --logdir");
	expect("@/tools/towtrace/towtrace convert a -f pdf -o b", 2, "\"pdf\" is none of");
	expect("@/tools/towtrace/towtrace convert a -f chrome --logdir b", 2, "xspace only");
	expect("@/tools/towtrace/towtrace capture --seconds 61 -o a", 2, "from 0 to 60");
	expect("@/tools/towtrace/towtrace --help", 0, "towtrace capture");
}

static void wrong_files_are_told(void **state)
{
	(void)state;
	expect("@/tools/towtrace/towtrace show nowhere", 1, "nowhere: No such file");
	expect("echo hello | @/tools/towtrace/towtrace show -", 1, "it is no XSpace");
	expect(": >empty; @/tools/towtrace/towtrace convert empty -o x", 1, "another program's");
	expect("head -c 2000 both >cut; @/tools/towtrace/towtrace show cut", 1,
	       "cut: not a trace of Towline");
	expect("@/tools/towtrace/towtrace merge both one -o x", 1, "rank 1 is in both");
	expect("@/tools/towtrace/towtrace convert both -o nowhere/x", 1,
	       "nowhere/x.part: No such file");
	expect("@/tools/towtrace/towtrace capture nowhere.sock -o x", 1, "nowhere.sock");
	expect("test -e x", 1, ""); /* nothing is left of any of it */
}

static void files_are_merged_and_converted(void **state)
{
	(void)state;
	expect("@/tools/towtrace/towtrace merge one zero -o merged && cmp merged both", 0, "bytes");
	expect("@/tools/towtrace/towtrace show merged", 0,
	       "job rank 1 of 2 on host-b: 50 spans in 0.050 s; "
	       "clock -4000000000 ns from rank 0's, within 2000");
	expect("@/tools/towtrace/towtrace merge zero one --logdir log --run r && "
	       "cmp log/plugins/profile/r/host-a.xplane.pb both",
	       0, "bytes");
	expect("@/tools/towtrace/towtrace convert both -f chrome -o - 2>/dev/null", 0,
	       "\"traceEvents\"");
	expect("@/tools/towtrace/towtrace convert both -f perfetto -o - | grep -ac 'rank 1 "
	       "(host-b'",
	       0, "1");
	expect("@/tools/towtrace/towtrace report both -o report.html && head -c 100 report.html", 0,
	       "<!DOCTYPE html>");
	expect("@/tools/towtrace/towtrace convert both -f json -o - 2>/dev/null | head -c 1", 0,
	       "{");
}

/* It reads documents, so it is of use on a machine that has no Towline. */
static void it_needs_no_library(void **state)
{
	(void)state;
	expect("cp @/tools/towtrace/towtrace alone && LD_LIBRARY_PATH= ./alone show both", 0,
	       "job rank 1 of 2 on host-b");
}

static void a_job_is_captured(void **state)
{
	static struct twt_command done;

	(void)state;
	/* By name, and by sockets, one of them dead: what came is written, the status says it. */
	twt_capture_job(
		folder, "cap",
		"timeout 60 @/tools/towtrace/towtrace capture --job cap --seconds 0 -o all && "
		"@/tools/towtrace/towtrace show all; "
		"timeout 60 @/tools/towtrace/towtrace capture --seconds 1 s/cap.1.sock s/gone.sock "
		"-o some",
		&done);
	twt_command_expect(&done, 1, "cap rank 0 of 2 on ", 2);
	twt_command_expect(&done, 1, "cap rank 1 of 2 on ", 3);
	twt_command_expect(&done, 1, "gone.sock: there is no such socket", 1);
	expect("@/tools/towtrace/towtrace show some", 0, "cap rank 1 of 2");
	expect("TOW_STATS_DIR=$PWD/s timeout 60 @/tools/towtrace/towtrace capture --job cap -o x",
	       1, "no live runtime is of the job cap");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_calls_are_told),
		cmocka_unit_test(wrong_files_are_told),
		cmocka_unit_test(files_are_merged_and_converted),
		cmocka_unit_test(it_needs_no_library),
		cmocka_unit_test(a_job_is_captured),
	};
	char line[64];
	int failed;

	if (twi_xspace_ready() < 0) {
		printf("skipped: %s\n", tow_error_message());
		return 77;
	}
	if (mkdtemp(folder) == NULL)
		return 1;
	write_ranks("both", 0, 2);
	write_ranks("zero", 0, 1);
	write_ranks("one", 1, 1);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(line, sizeof(line), "rm -rf %s", folder);
	return system(line) == 0 ? failed : 1;
}
