/*
 * test_doctor.c - towdoctor over hosts that are made up of files (doctor_*.h): every check
 * where all is well and where something is not; what it prints and ends with; and over this host,
 * as an ordinary user. What limits a path is judged from measurements that are made up as well.
 */
#include "command.h"
#include "doctor_hosts.h"
#include "doctor_nets.h"

#include <errno.h>
#include <ftw.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#define AS_NOBODY "setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs "

static char root[] = "/tmp/towdoctor-XXXXXX";

static void write_file(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *at = full + sizeof(root); (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		if (mkdir(full, 0755) != 0 && errno != EEXIST)
			fail_msg("%s: %s", full, strerror(errno));
		*at = '/';
	}
	file = fopen(full, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* A file, or an empty folder. */
static void remove_path(const char *path)
{
	char full[512];

	snprintf(full, sizeof(full), "%s%s", root, path);
	assert_true(remove(full) == 0 || errno == ENOENT);
}

static int remove_entry(const char *path, const struct stat *state, int kind, struct FTW *walk)
{
	(void)state;
	(void)kind;
	(void)walk;
	return remove(path);
}

static int make_good(void **state)
{
	(void)state;
	nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	if (mkdir(root, 0755) != 0)
		return -1;
	for (size_t i = 0; i < DT_GOOD; i++)
		write_file(dt_good[i].path, dt_good[i].text);
	return 0;
}

static int end(void **state)
{
	(void)state;
	nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}

static json_t *run_json(const char *arguments, int *status_out)
{
	static struct twt_command command;
	char line[512];
	json_t *document;

	snprintf(line, sizeof(line), "@/tools/towdoctor/towdoctor --json %s", arguments);
	twt_command(line, &command);
	document = json_loads(command.text, 0, NULL);
	if (document == NULL)
		fail_msg("%s: status %d, no JSON:\n%s", line, command.status, command.text);
	*status_out = command.status;
	return document;
}

static const char *text_of(json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

static int status_for(const char *severity)
{
	return strcmp(severity, "error") == 0 ? 3 : strcmp(severity, "warning") == 0;
}

/* What is no more than a note needs no mending line; what costs something names it. */
static void judge_row(json_t *row, const char *severity, const char *words)
{
	const char *found = text_of(row, "found"), *effect = text_of(row, "effect");
	const char *mend = text_of(row, "mend");

	if (strcmp(text_of(row, "severity"), severity) != 0 ||
	    (strstr(found, words) == NULL && strstr(effect, words) == NULL &&
	     strstr(mend, words) == NULL))
		fail_msg("%s: wanted %s with \"%s\"; is %s\nfound %s\neffect %s\nmend %s",
			 text_of(row, "name"), severity, words, text_of(row, "severity"), found,
			 effect, mend);
	assert_true(found[0] != '\0' && text_of(row, "wanted")[0] != '\0');
	if (strcmp(severity, "ok") != 0 && strcmp(severity, "note") != 0)
		assert_true(effect[0] != '\0' && mend[0] != '\0');
}

static void test_a_good_host(void **state)
{
	char arguments[256];
	json_t *document, *rows, *row;
	int status;
	size_t i;

	(void)state;
	snprintf(arguments, sizeof(arguments), "--root %s", root);
	document = run_json(arguments, &status);
	rows = json_object_get(document, "checks");
	json_array_foreach(rows, i, row) judge_row(row, "ok", "");
	assert_int_equal(status, 0);
	assert_string_equal(text_of(document, "worst"), "ok");
	json_decref(document);
}

/* Nothing of a host is there: every check says so, none falls. */
static void test_an_empty_host(void **state)
{
	char arguments[256];
	json_t *document;
	int status;

	(void)state;
	nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	assert_int_equal(mkdir(root, 0755), 0);
	snprintf(arguments, sizeof(arguments), "--root %s", root);
	document = run_json(arguments, &status);
	assert_true(json_array_size(json_object_get(document, "checks")) > 30);
	json_decref(document);
	make_good(NULL);
}

/* Changes the good host as a case says, or back. */
static void change(const struct dt_case *row, bool back)
{
	for (size_t i = 0; i < DT_FILES && row->files[i].path != NULL; i++) {
		const struct dt_file *file = &row->files[i];
		const char *text = file->text;

		for (size_t k = 0; back && k < DT_GOOD; k++) {
			if (strcmp(dt_good[k].path, file->path) == 0)
				write_file(file->path, dt_good[k].text);
		}
		if (!back && text == NULL)
			remove_path(file->path);
		else if (!back)
			write_file(file->path, text);
	}
}

static bool is_good(const char *path)
{
	for (size_t i = 0; i < DT_GOOD; i++) {
		if (strcmp(dt_good[i].path, path) == 0)
			return true;
	}
	return false;
}

static void try_case(const struct dt_case *row)
{
	char arguments[256];
	json_t *document;
	bool fresh = false;
	int status;

	change(row, false);
	snprintf(arguments, sizeof(arguments), "--root %s --only %s", root, row->check);
	document = run_json(arguments, &status);
	judge_row(json_array_get(json_object_get(document, "checks"), 0), row->severity,
		  row->words);
	assert_int_equal(status, status_for(row->severity));
	json_decref(document);
	change(row, true);
	for (size_t i = 0; i < DT_FILES && row->files[i].path != NULL; i++)
		fresh |= !is_good(row->files[i].path);
	if (fresh)
		make_good(NULL);
}

static void test_hosts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(dt_hosts) / sizeof(dt_hosts[0]); i++)
		try_case(&dt_hosts[i]);
}

static void test_nets(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(dt_nets) / sizeof(dt_nets[0]); i++)
		try_case(&dt_nets[i]);
}

static bool finds(const struct dt_case *cases, size_t count, const char *check)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(cases[i].check, check) == 0 && strcmp(cases[i].severity, "ok") != 0)
			return true;
	}
	return false;
}

/* A check without a case that is not ok would be a check that nobody has seen find something. */
static void test_no_check_is_left_out(void **state)
{
	json_t *rows, *row;
	int status;
	size_t i;

	(void)state;
	rows = run_json("--list", &status);
	assert_int_equal(status, 0);
	json_array_foreach(rows, i, row)
	{
		const char *name = text_of(row, "name");

		if (!finds(dt_hosts, sizeof(dt_hosts) / sizeof(dt_hosts[0]), name) &&
		    !finds(dt_nets, sizeof(dt_nets) / sizeof(dt_nets[0]), name))
			fail_msg("%s has no case in which it finds something", name);
	}
	json_decref(rows);
}

/* With --pid the limits and CPUs of that process count, and those of no other. */
static void test_another_process(void **state)
{
	static struct twt_command command;
	char line[256];

	(void)state;
	write_file("/proc/4711/limits", DT_LIMITS DT_OPEN("100"));
	write_file("/proc/4711/status", DT_STATUS("0000000000000000", "2", "0"));
	snprintf(line, sizeof(line), "@/tools/towdoctor/towdoctor --root %s --only files,cpuset",
		 root);
	twt_command(line, &command);
	twt_command_expect(&command, 0, "2 ok\n", 1);
	snprintf(line, sizeof(line),
		 "@/tools/towdoctor/towdoctor --root %s --pid 4711 --only files,cpuset", root);
	twt_command(line, &command);
	twt_command_expect(&command, 3, "error: files: ", 1);
	twt_command_expect(&command, 3, "warning: cpuset: ", 1);
	snprintf(line, sizeof(line), "@/tools/towdoctor/towdoctor --root %s --pid 4712", root);
	twt_command(line, &command);
	twt_command_expect(&command, 2, "no process of that number can be seen: 4712", 1);
	twt_command("@/tools/towdoctor/towdoctor --pid 12x", &command);
	twt_command_expect(&command, 2, "--pid is the number of a process: 12x", 1);
	make_good(NULL);
}

/* Hostile bytes from files do not reach a terminal, and wrong usage is told from findings. */
static void test_words_and_usage(void **state)
{
	static struct twt_command command;
	char line[256];

	(void)state;
	/* The last is a control code, too, in one byte more: U+009B. */
	write_file("/proc/sys/net/ipv4/tcp_congestion_control", "\033[2Jx\xc2\x9b");
	snprintf(line, sizeof(line), "@/tools/towdoctor/towdoctor --root %s --only congestion",
		 root);
	twt_command(line, &command);
	twt_command_expect(&command, 0, "note: congestion: TCP congestion control\n", 1);
	twt_command_expect(&command, 0, "    found   ?[2Jx??", 1);
	twt_command_expect(&command, 0, "0 error, 0 warning, 1 note, 0 ok\n", 1);
	strcat(line, " --json");
	twt_command(line, &command);
	twt_command_expect(&command, 0, "\\u001B[2Jx\\u009B", 1);
	twt_command("@/tools/towdoctor/towdoctor --only nothing", &command);
	twt_command_expect(&command, 2, "no such check, see --list: nothing", 1);
	twt_command("@/tools/towdoctor/towdoctor --root /nowhere", &command);
	twt_command_expect(&command, 2, "no folder that can be read: /nowhere", 1);
	twt_command("@/tools/towdoctor/towdoctor --serve 70000", &command);
	twt_command_expect(&command, 2, "--serve takes a port: 70000", 1);
	twt_command("@/tools/towdoctor/towdoctor --serve --list", &command);
	twt_command_expect(&command, 2, "one of --peer", 1);
	twt_command("@/tools/towdoctor/towdoctor extra", &command);
	twt_command_expect(&command, 2, "no such argument: extra", 1);
	make_good(NULL);
}

/* This host, measured, as a user without rights. Whatever it finds, it finds without failing. */
static void test_this_host(void **state)
{
	static struct twt_command command;
	json_t *document, *rows, *row;
	bool measured = false;
	size_t i;

	(void)state;
	/* Where others may not even enter the build folder it is looked at as who we are. */
	twt_command(AS_NOBODY "test -x @/tools/towdoctor/towdoctor", &command);
	twt_command(getuid() == 0 && command.status == 0 ? AS_NOBODY
			    "@/tools/towdoctor/towdoctor --json"
							 : "@/tools/towdoctor/towdoctor --json",
		    &command);
	if (command.status > 3 || command.status == 2)
		fail_msg("status %d: %s", command.status, command.text);
	document = json_loads(command.text, 0, NULL);
	if (document == NULL)
		fail_msg("no JSON: %s", command.text);
	rows = json_object_get(document, "checks");
	json_array_foreach(rows, i, row)
	{
		assert_true(text_of(row, "found")[0] != '\0');
		if (strcmp(text_of(row, "name"), "loopback") == 0)
			measured = strstr(text_of(row, "found"), "tcp: a call") != NULL &&
				   strstr(text_of(row, "found"), "shm: a call") != NULL;
	}
	if (!measured)
		fail_msg("nothing was measured: %s", command.text);
	json_decref(document);
}

#define END(tcp)                                                                                   \
	"{\"at_us\":1000000,\"cpu_us\":%d,\"tcp\":[{\"connection\":7,\"sent_bytes\":1000000000,"   \
	"\"received_bytes\":1000000000,\"busy_us\":1000000," tcp "}]}"
#define NONE "{\"at_us\":0,\"cpu_us\":0,\"tcp\":[]}"

/* What was measured one way: the sender's row, its CPU time, what the receiver's buffer is. */
struct measured {
	const char *severity, *words;
	const char *sender; /* members of its TCP row */
	long long rate;
	int rcvbuf, cpu_us;
};

static const struct measured measurements[] = {
	{ "ok", "nothing was found",
	  "\"rtt_us\":100,\"min_rtt_us\":50,\"mtu_bytes\":1500,\"path_mtu_bytes\":1500", 1000000000,
	  4000000, 0 },
	{ "ok", "busy for 97 %", "\"rtt_us\":100,\"min_rtt_us\":50", 1000000000, 4000000, 970000 },
	{ "warning", "tcp_rmem='4096 131072 16777216'",
	  "\"rtt_us\":20000,\"min_rtt_us\":20000,\"rwnd_limited_us\":800000", 3200000, 131072, 0 },
	{ "warning", "tcp_rmem='4096 131072 40000000'",
	  "\"rtt_us\":20000,\"min_rtt_us\":20000,\"rwnd_limited_us\":800000", 100000000, 4000000,
	  0 },
	{ "warning", "net.ipv4.tcp_wmem",
	  "\"rtt_us\":20000,\"min_rtt_us\":20000,\"sndbuf_limited_us\":800000,\"sndbuf_bytes\":"
	  "131072",
	  3200000, 4000000, 0 },
	/* A window that a busy reader leaves full on a short path is not too small. */
	{ "ok", "nothing was found", "\"rtt_us\":100,\"min_rtt_us\":50,\"rwnd_limited_us\":800000",
	  1000000000, 131072, 0 },
	{ "warning", "loses packets without being full: 1.00 %",
	  "\"rtt_us\":21000,\"min_rtt_us\":20000,\"retransmitted_bytes\":10000000,\"mss_bytes\":"
	  "1448",
	  900000, 4000000, 0 },
	/* What the receiver says it has twice is not lost. */
	{ "ok", "nothing was found",
	  "\"rtt_us\":21000,\"min_rtt_us\":20000,\"retransmitted_bytes\":1448000,\"mss_bytes\":"
	  "1448,\"duplicate_segments\":990",
	  900000, 4000000, 0 },
	{ "note", "drops what its queue does not take",
	  "\"rtt_us\":90000,\"min_rtt_us\":20000,\"retransmitted_bytes\":10000000,\"mss_bytes\":"
	  "1448",
	  900000, 4000000, 0 },
	{ "note", "its queue makes each round trip 70 ms longer",
	  "\"rtt_us\":90000,\"min_rtt_us\":20000,\"interface\":\"eth0\"", 12000000, 4000000, 0 },
	{ "ok", "96 % of what eth0 carries (10000 Mbit/s)",
	  "\"rtt_us\":900,\"min_rtt_us\":100,\"interface\":\"eth0\",\"speed_mbps\":10000",
	  1200000000, 4000000, 0 },
	{ "warning", "a hop on the way is narrower",
	  "\"rtt_us\":900,\"min_rtt_us\":100,\"mtu_bytes\":9000,\"path_mtu_bytes\":1500",
	  1200000000, 4000000, 0 },
};

static void test_what_limits(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(measurements) / sizeof(measurements[0]); i++) {
		const struct measured *m = &measurements[i];
		char text[4096], arguments[128];
		json_t *document, *rows;
		int status;

		snprintf(text, sizeof(text),
			 "{\"bandwidth_bytes_per_s\":{\"there\":%lld,\"back\":5},\"ends\":{"
			 "\"there\":"
			 "{\"here\":{\"before\":" NONE
			 ",\"after\":" END("%s") "},\"there\":{\"before\":" NONE
						 ",\"after\":" END("\"rcvbuf_bytes\":%d") "}}}}",
			 m->rate, m->cpu_us, m->sender, 0, m->rcvbuf);
		write_file("/measured.json", text);
		snprintf(arguments, sizeof(arguments), "--judge %s/measured.json", root);
		document = run_json(arguments, &status);
		rows = json_object_get(document, "checks");
		judge_row(json_array_get(rows, 0), m->severity, m->words);
		judge_row(json_array_get(rows, 1), "ok", "not by TCP");
		assert_int_equal(status, status_for(m->severity));
		json_decref(document);
	}
}

/* What is no measurement is refused, with its name. */
static void test_wrong_measurements(void **state)
{
	static const struct {
		const char *text, *words;
	} rows[] = { { "{", "measured.json: line 1" },
		     { "\xc2\x9b", "near '??" },
		     { "{}", "no measurement of --peer --json" },
		     { "[1]", "no measurement of --peer --json" },
		     { "{\"ends\":7}", "no measurement of --peer --json" } };
	static struct twt_command command;
	char line[128];

	(void)state;
	snprintf(line, sizeof(line), "@/tools/towdoctor/towdoctor --judge %s/measured.json", root);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		write_file("/measured.json", rows[i].text);
		twt_command(line, &command);
		twt_command_expect(&command, 2, rows[i].words, 1);
	}
	write_file("/measured.json", "{\"ends\":{\"there\":{\"here\":[],\"there\":{\"after\":"
				     "{\"tcp\":[1,null,{\"received_bytes\":-5}]}}}}}");
	twt_command(line, &command);
	twt_command_expect(&command, 0, "not by TCP", 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_good_host),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_nets),
		cmocka_unit_test(test_no_check_is_left_out),
		cmocka_unit_test(test_an_empty_host),
		cmocka_unit_test(test_another_process),
		cmocka_unit_test(test_words_and_usage),
		cmocka_unit_test(test_what_limits),
		cmocka_unit_test(test_wrong_measurements),
		cmocka_unit_test(test_this_host),
	};
	static const char *const knobs[] = { "TOW_PREMAP_MEMORY_BYTES", "TOW_INTERFACES",
					     "TOW_NUMA", "TOW_SOCKET_BUFFER_BYTES" };

	for (size_t i = 0; i < sizeof(knobs) / sizeof(knobs[0]); i++)
		unsetenv(knobs[i]);
	if (mkdtemp(root) == NULL)
		return 1;
	return cmocka_run_group_tests(tests, make_good, end);
}
