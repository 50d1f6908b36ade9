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

	snprintf(line, sizeof(line), "rm -rf %s/*", dir);
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
#define MESSAGE(name, number, group)                                                               \
	"{\"profiling_name\":\"towline:" name "\",\"p2p_seq_id\":" #number                         \
	",\"process_group\":[\"messages\",\"messages\"],\"is_p2p\":true" group "}"
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

/* A message is told with its ranks, and with its group if that is known. */
static void messages_too(void **state)
{
	(void)state;
	empty_folder();
	put("flight.m.0.0.json", 0,
	    "{" GROUPS(0) ENTRIES(MESSAGE("recv 0<-1", 3, ",\"group\":\"dp\"")) "}");
	put("flight.m.1.0.json", 0, "{" GROUPS(0) ENTRIES(MESSAGE("send 1->0", 4, "")) "}");
	put("flight.m.2.0.json", 0, "{" GROUPS(0) ENTRIES("") "}");
	from("", VERDICT_NOBODY);
	says("rank 0: towline:recv 0<-1 3 of dp: under way\n");
	says("rank 1: towline:send 1->0 4 of no group: under way\n");
}

/* Nobody had asked: who is behind is named by what the files say together. */
static void who_is_behind(void **state)
{
	(void)state;
	empty_folder();
	put("flight.job.0.0.json", 0, "{" GROUPS(7) ENTRIES(ENTRY("all_reduce", 7, FAILED)) "}");
	put("flight.job.1.0.json", 0, "{" GROUPS(6) ENTRIES(ENTRY("all_reduce", 6, OK_STATUS)) "}");
	from("", VERDICT_FOUND);
	says("rank 1: no operation has failed there, and none was in flight\n");
	says("rank 1 has begun 6 operations of group 0, others 7\n");
	is_silent_of("rank 0 has begun");
	put("flight.job.1.0.json", 0, "{" GROUPS(7) ENTRIES(ENTRY("all_reduce", 7, FAILED)) "}");
	from("job", VERDICT_PARTIAL);
	says("no file of rank 2\n");
	/* Of a rank that has left none this time: an earlier run's. */
	put("flight.job.2.0.json", -700, "{" GROUPS(9) ENTRIES("") "}");
	from("job", VERDICT_PARTIAL);
	says("towstat: 1 files of ");
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

/* What Python reads of rank_N is what stands in the file, but for what fr_trace.c says. */
static void is_read_by_python(const char *file, const char *expression)
{
	char line[2048];

	snprintf(line, sizeof(line),
		 "python3 -c 'import json, pickle, sys\n"
		 "was = json.load(open(sys.argv[1]))\n"
		 "now = pickle.load(open(sys.argv[2], \"rb\"))\n"
		 "names = [one[\"profiling_name\"] for one in now[\"entries\"]]\n"
		 "numbers = [one[\"p2p_seq_id\"] for one in now[\"entries\"] if one[\"is_p2p\"]]\n"
		 "records = [one.get(\"record_id\") for one in now[\"entries\"]]\n"
		 "rest = {key: now[key] == was[key] for key in was if key != \"entries\"}\n"
		 "assert set(was) == set(now) and all(rest.values()), rest\n"
		 "print(names, numbers)\n"
		 "assert %s, (names, numbers)' %s/%s %s/out/rank_0",
		 expression, dir, file, dir);
	twt_command(line, &command);
	if (command.status != 0)
		fail_msg("%s", command.text);
}

static void make_out(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/out", dir);
	assert_int_equal(mkdir(path, 0700), 0);
}

/* Every kind of value that JSON has; two groups whose members are told. */
#define VALUES                                                                                     \
	"\"numbers\":[0,-1,127,-128,65536,2147483647,-2147483648,2147483648,-2147483649,"          \
	"9223372036854775807,-9223372036854775808,1795709849914478458],"                           \
	"\"reals\":[0.0,-1.5,1e300,5e-324,0.1],\"rest\":[null,true,false,\"\",{},[],"              \
	"{\"a\":{\"b\":[[{}]]}},\"\\u00e9\\u20ac\\ud83d\\ude00\\u0001\"],"
#define MEMBERS                                                                                    \
	"\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"dp\",\"ranks\":\"[0, 1]\"},"              \
	"\"messages\":{\"name\":\"messages\",\"desc\":\"messages\",\"ranks\":\"[0, 1]\"}},"

static void for_pytorch(void **state)
{
	static const char *const messages[] = {
		"send 0->1", "recv 0<-1",  "recv 0<-?", /* the others do not name both ranks */
		"send 0->?", "send",       "send ->1",  "send 0->1x",
		"send 0-",   "send 0-> 1", "send a->1", "send 0->12345678901",
	};
	char text[4096], line[256];
	size_t used;

	(void)state;
	empty_folder();
	make_out();
	used = (size_t)snprintf(text, sizeof(text), "{" VALUES MEMBERS "\"entries\":[");
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "{\"profiling_name\":\"towline:%s\",\"is_p2p\":true,"
					 "\"p2p_seq_id\":0,\"process_group\":[\"messages\",\"\"]},",
					 messages[i]);
	snprintf(text + used, sizeof(text) - used,
		 ENTRY("all_reduce", 1,
		       "") ",3,{\"profiling_name\":7},{\"process_group\":[\"9\"]}]}");
	put("flight.t.0.0.json", 0, text);
	snprintf(line, sizeof(line), "--fr-trace %s/out", dir);
	from(line, 0);
	says("1 of 1 ranks: python -m torch.distributed.flight_recorder.fr_trace ");
	says("11 entries are left out, which do not name both ranks or a group that is known\n");
	is_read_by_python("flight.t.0.0.json",
			  "names == [\"nccl:send 0->1\", \"nccl:recv 0<-1\", \"nccl:recv 0<-?\", "
			  "\"nccl:all_reduce\"] and numbers == [1, 2, 3]");
}

/* The analyzer leaves out what has a lower record_id than the first entry of any rank. */
static void under_way_for_pytorch(void **state)
{
#define RECORD_OF_MESSAGE(record, ended)                                                           \
	"{\"profiling_name\":\"towline:recv "                                                      \
	"0<-1\",\"is_p2p\":true,\"p2p_seq_id\":0,\"retired\":" ended ",\"record_id\":" record      \
	",\"process_group\":[\"messages\",\"\"]},"
#define RECORD_OF_CALL(record)                                                                     \
	"{\"profiling_name\":\"towline:all_reduce\",\"is_p2p\":false,\"retired\":false,"           \
	"\"record_id\":" record ",\"process_group\":[\"0\",\"\"]}"
	char lines[256];

	(void)state;
	empty_folder();
	make_out();
	put("flight.t.0.0.json", 0,
	    "{" VALUES MEMBERS "\"entries\":[" RECORD_OF_MESSAGE("0", "false") RECORD_OF_CALL(
		    "300") "," RECORD_OF_CALL("301") "," RECORD_OF_MESSAGE("0", "true")
		    RECORD_OF_MESSAGE("0", "false") RECORD_OF_MESSAGE("5", "false")
			    RECORD_OF_CALL("7") "]}");
	snprintf(lines, sizeof(lines), "--fr-trace %s/out", dir);
	from(lines, 0);
	is_read_by_python("flight.t.0.0.json", "records == [0, 300, 301, 0, 301, 301, 7]");
#undef RECORD_OF_MESSAGE
#undef RECORD_OF_CALL
}

static void not_for_pytorch(void **state)
{
	char text[256] = "{\"deep\":", line[256];

	(void)state;
	empty_folder();
	make_out();
	for (int i = 0; i < 100; i++)
		strcat(text, "[");
	for (int i = 0; i < 100; i++)
		strcat(text, "]");
	strcat(text, "}");
	put("flight.t.0.0.json", 0, text);
	snprintf(line, sizeof(line), "--fr-trace %s/out", dir);
	from(line, 1);
	says("rank 0: its document is too deep, or there is no memory\n");
	put("flight.t.0.0.json", 0, "{}");
	snprintf(line, sizeof(line), "--fr-trace %s/none", dir);
	from(line, 1);
	says("/none/rank_0");
	put("flight.t.0.0.json", 0, "{");
	snprintf(line, sizeof(line), "--fr-trace %s/out", dir);
	from(line, 1);
	from("--json --fr-trace x", 2);
	twt_command("@/tools/towstat/towstat verdict --fr-trace x", &command);
	assert_int_equal(command.status, 2);
	says("--fr-trace goes with --from");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdict_is_kept), cmocka_unit_test(messages_too),
		cmocka_unit_test(who_is_behind),   cmocka_unit_test(what_is_none),
		cmocka_unit_test(for_pytorch),     cmocka_unit_test(under_way_for_pytorch),
		cmocka_unit_test(not_for_pytorch),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
