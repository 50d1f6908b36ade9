/*
 * test_verdict_from.c - towstat verdict --from: what the files of flight recorders say together, of
 * ranks that have a file, have none, are behind, or have written what is none.
 */
#include "twt.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "tools/towstat/towstat.h"

static char dir[64];
static struct twt_command command;

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-from-XXXXXX");
	return mkdtemp(dir) != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	char line[128];

	(void)state;
	snprintf(line, sizeof(line), "rm -rf %s", dir);
	twt_command(line, &command);
	return command.status;
}

/* Written so many seconds after a moment of old. */
static void put(const char *name, long seconds, const char *text)
{
	struct timespec when[2] = { { .tv_sec = 1700000000 + seconds }, { .tv_sec = 0 } };
	char path[256];
	int fd;

	when[1] = when[0];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(futimens(fd, when), 0);
	close(fd);
}

static void empty_folder(void)
{
	char line[128];

	snprintf(line, sizeof(line), "rm -f %s/*", dir);
	twt_command(line, &command);
	assert_int_equal(command.status, 0);
}

static void from(const char *arguments, int status)
{
	char line[256];

	snprintf(line, sizeof(line), "@/tools/towstat/towstat verdict --from %s %s", dir,
		 arguments);
	twt_command(line, &command);
	if (command.status != status)
		fail_msg("%s: status %d, wanted %d: %s", line, command.status, status,
			 command.text);
}

static void says(const char *words)
{
	if (strstr(command.text, words) == NULL)
		fail_msg("not said: '%s' in: %s", words, command.text);
}

static void is_silent_of(const char *words)
{
	if (strstr(command.text, words) != NULL)
		fail_msg("said: '%s' in: %s", words, command.text);
}

#define GROUPS(begun)                                                                              \
	"\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"dp\",\"ranks\":\"[0, 1, 2]\"}},"          \
	"\"pg_status\":{\"0\":{\"last_enqueued_collective\":" #begun "}},"
#define ENTRY(name, number, status)                                                                \
	"{\"profiling_name\":\"towline:" name "\",\"collective_seq_id\":" #number                  \
	",\"process_group\":[\"0\",\"dp\"],\"is_p2p\":false" status "}"
#define ENTRIES(list) "\"entries\":[" list "]"
#define OK_STATUS     ",\"status\":\"TOW_OK\""
#define FAILED        ",\"status\":\"TOW_EDEADLINE\""
#define VERDICT(answered, findings)                                                                \
	",\"towline_verdict\":{\"state\":\"stuck\",\"asked_by\":0,\"ranks_in_job\":3,"             \
	"\"ranks_answered\":" #answered ",\"findings\":[" findings "]}"
#define STOPPED                                                                                    \
	"{\"cause\":\"stopped\",\"says\":\"is stopped\",\"ranks\":[2],\"confidence\":0.99,"        \
	"\"evidence\":[],\"cure\":\"continue it\"}"

/* Two of three have left files, and one of them knew why. */
static void verdict_is_kept(void **state)
{
	(void)state;
	empty_folder();
	put("flight.train.v2.0.0.json", 0,
	    "{" GROUPS(7)
		    ENTRIES(ENTRY("all_reduce", 6, OK_STATUS) "," ENTRY("all_reduce", 7, FAILED))
			    VERDICT(2, STOPPED) "}");
	put("flight.train.v2.1.3.json", 1,
	    "{" GROUPS(7) ENTRIES(ENTRY("all_reduce", 7, "")) VERDICT(1, "") "}");
	put("flight.train.v2.1.2.json", 0, "{" GROUPS(3) ENTRIES("") "}"); /* older */
	put("flight.train.v2.1.4.json.part", 2, "{");
	put("flights.train.1.4.json", 2, "{");
	put("flight.train.v2.x.4.json", 2, "{");
	from("", VERDICT_FOUND);
	says("train.v2: files of 2 ranks\n");
	says("no file of rank 2\n");
	says("rank 0: towline:all_reduce 7 of dp: TOW_EDEADLINE\n");
	says("rank 1: towline:all_reduce 7 of dp: under way\n");
	says("the newest verdict: stuck");
	says("rank 2: stopped, is stopped (99 %)\n");
	is_silent_of("has begun");
	from("train.v2 --json", VERDICT_FOUND);
	says("\"towline_verdict\"");
	from("train", 1);
	says("has no file of a flight recorder of job train\n");
}

/* Nobody had asked: who is behind is named by what the files say together. */
static void who_is_behind(void **state)
{
	(void)state;
	empty_folder();
	put("flight.job.0.0.json", 0, "{" GROUPS(7) ENTRIES(ENTRY("all_reduce", 7, FAILED)) "}");
	put("flight.job.1.0.json", 0, "{" GROUPS(6) ENTRIES(ENTRY("all_reduce", 6, OK_STATUS)) "}");
	from("", VERDICT_FOUND);
	says("rank 1: nothing has failed there, and nothing was under way\n");
	says("rank 1 has begun 6 operations of group 0, others 7\n");
	is_silent_of("rank 0 has begun");
	put("flight.job.1.0.json", 0, "{" GROUPS(7) ENTRIES(ENTRY("all_reduce", 7, FAILED)) "}");
	from("job", VERDICT_PARTIAL);
	says("no file of rank 2\n");
	put("flight.job.2.0.json", 0, "{" GROUPS(7) ENTRIES(ENTRY("all_reduce", 7, FAILED)) "}");
	from("job", VERDICT_NOBODY);
	is_silent_of("no file");
}

static void what_is_none(void **state)
{
	(void)state;
	empty_folder();
	from("", 1);
	says("has no file of a flight recorder\n");
	put("flight.a.0.0.json", 0, "{" GROUPS(1) ENTRIES("") "}");
	put("flight.b.0.0.json", 0, "{}");
	from("", 1);
	says("has files of several jobs: name one (a, b)\n");
	put("flight.a.1.0.json", 0, "[1]");
	put("flight.a.2.0.json", 0, "{\"entries\":");
	from("a", VERDICT_PARTIAL);
	says("flight.a.1.0.json: it is no object\n");
	says("flight.a.2.0.json: ");
	says("no file of rank 1, 2\n");
	put("flight.b.0.0.json", 0,
	    "{\"entries\":[3,{\"profiling_name\":7},{\"process_group\":\"\\u001b[31m\",\"status\":"
	    "\"\\u001b[2J\"}],\"pg_config\":[],\"pg_status\":{\"0\":1},\"towline_verdict\":7}");
	from("b", VERDICT_NOBODY);
	is_silent_of("\033");
	twt_command("@/tools/towstat/towstat verdict --from /nonexistent/folder", &command);
	twt_command_expect(&command, 1, "/nonexistent/folder: No such file or directory", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdict_is_kept),
		cmocka_unit_test(who_is_behind),
		cmocka_unit_test(what_is_none),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
