/*
 * tow_info.c - the program tow-info: what Towline is and would use on this host, on one screen.
 *
 * It shows what exists, and why something is missing. Costs and remedies are the part of towdoctor.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <towline/towline.h>

#include "tools/common/words.h"
#include "tools/towdoctor/tow_info.h"

#define LABEL_COLUMNS 11
#define CUT_COLUMNS   96 /* of a text; --json has the full text */

static const char usage[] =
	"tow-info - what Towline is and would use on this host, on one screen\n"
	"\n"
	"  tow-info             version, build, lanes and why not, limits, kernel, memory, "
	"devices,\n"
	"                       interfaces, variables that are set; what a runtime logs as it "
	"opens\n"
	"      --json           the same, in full, as JSON\n"
	"      --no-probe       reads files alone: opens no runtime, so lanes and interfaces are "
	"not\n"
	"                       known\n"
	"  -h, --help           this text\n"
	"      --version        the version\n"
	"\n"
	"A line with ! in front is one of which towdoctor says what it costs and what mends it.\n"
	"Status: 0; 1 no runtime opens here; 2 wrong usage, or the output cannot be written.\n";

static const char *text_at(json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

/* Prints the start of a line: the label, if a group begins, and a mark. */
static void print_label(const char *label, bool marked)
{
	printf("%-*s%s ", LABEL_COLUMNS, label, marked ? "!" : " ");
}

static void print_cut(const char *text)
{
	char part[CUT_COLUMNS + 1];

	words_clean(part, sizeof(part), text);
	printf("%s%s", part, strlen(text) > CUT_COLUMNS ? " ..." : "");
}

static void print_head(json_t *document)
{
	json_t *library = json_object_get(document, "library");
	const char *version = text_at(library, "version");

	print_label("towline", strcmp(version, text_at(document, "version")) != 0);
	printf("%s, ", version);
	print_cut(text_at(library, "file"));
	if (strcmp(version, text_at(document, "version")) != 0)
		printf("; tow-info is of %s", text_at(document, "version"));
	putchar('\n');
}

static void print_build(json_t *build)
{
	json_t *row;
	size_t i;

	print_label("build", false);
	printf("%s, %s", text_at(build, "compiler"), text_at(build, "buildtype"));
	if (strcmp(text_at(build, "sanitize"), "none") != 0)
		printf(", sanitizer %s", text_at(build, "sanitize"));
	json_array_foreach(json_object_get(build, "options"), i, row)
	{
		if (json_is_true(json_object_get(row, "there")))
			printf(", %s", text_at(row, "name"));
	}
	putchar('\n');
	json_array_foreach(json_object_get(build, "options"), i, row)
	{
		if (json_is_true(json_object_get(row, "there")))
			continue;
		print_label("", true);
		printf("no %s: %s\n", text_at(row, "name"), text_at(row, "why"));
	}
}

static void print_runtime(json_t *runtime)
{
	json_t *opens = json_object_get(runtime, "opens");

	print_label("runtime", json_is_false(opens));
	if (!json_is_true(opens)) {
		printf(json_is_false(opens) ? "does not open: " : "");
		print_cut(text_at(runtime, "why"));
	} else {
		printf("opens; %s moves bytes (", text_at(runtime, "poller"));
		print_cut(text_at(runtime, "poller_why"));
		putchar(')');
	}
	putchar('\n');
}

static void print_lanes(json_t *lanes)
{
	json_t *row;
	size_t i;

	json_array_foreach(lanes, i, row)
	{
		json_t *there = json_object_get(row, "there");

		print_label(i == 0 ? "lanes" : "", json_is_false(there));
		printf("%-5s %-8s ", text_at(row, "name"), text_at(row, "reach"));
		if (json_is_null(there))
			print_cut("not asked");
		else
			print_cut(text_at(row, json_is_true(there) ? "address" : "why"));
		putchar('\n');
	}
}

/* Prints the requirements for each connection, and the lanes that never meet them. */
static void print_require(json_t *runtime)
{
	json_t *row;
	size_t i;

	if (!json_is_string(json_object_get(runtime, "require")))
		return;
	print_label("require", false);
	print_cut(text_at(runtime, "require"));
	putchar('\n');
	json_array_foreach(json_object_get(runtime, "refused_lanes"), i, row)
	{
		print_label("", true);
		printf("%-5s refused: ", text_at(row, "lane"));
		print_cut(text_at(row, "why"));
		putchar('\n');
	}
}

static void print_host(json_t *rows)
{
	const char *group = "";
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		const char *severity = text_at(row, "severity");

		print_label(strcmp(group, text_at(row, "group")) != 0 ? text_at(row, "group") : "",
			    strcmp(severity, "warning") == 0 || strcmp(severity, "error") == 0);
		group = text_at(row, "group");
		printf("%-14s ", text_at(row, "name"));
		print_cut(text_at(row, "found"));
		putchar('\n');
	}
}

static void print_known(json_t *row, const char *key, const char *before, const char *after)
{
	json_t *number = json_object_get(row, key);

	if (json_is_integer(number))
		printf(", %s%lld%s", before, (long long)json_integer_value(number), after);
}

static void print_interfaces(json_t *rows, json_t *left_out)
{
	json_t *row, *address;
	size_t i, k;

	json_array_foreach(rows, i, row)
	{
		print_label(i == 0 ? "interfaces" : "", false);
		printf("%-14s %s", text_at(row, "name"),
		       json_is_true(json_object_get(row, "up")) ? "up" : "down");
		print_known(row, "speed_mbits", "", " Mbit/s");
		print_known(row, "mtu_bytes", "packets of ", "");
		print_known(row, "numa_node", "node ", "");
		json_array_foreach(json_object_get(row, "addresses"), k, address)
		{
			printf("%s", k == 0 ? ": " : ", ");
			print_clean(json_string_value(address));
		}
		putchar('\n');
	}
	if (json_array_size(rows) == 0) {
		print_label("interfaces", !json_is_null(rows));
		puts(json_is_null(rows) ? "not asked" : "none that the knob interfaces allows");
	}
	if (json_integer_value(left_out) > 0) {
		print_label("", false);
		printf("and %lld more\n", (long long)json_integer_value(left_out));
	}
}

/* Prints what a runtime logs, for example about variables that are no knobs. */
static void print_log(json_t *log)
{
	const char *label = "log";
	json_t *row;
	size_t i;

	json_array_foreach(log, i, row)
	{
		if (strcmp(text_at(row, "level"), "info") == 0)
			continue;
		print_label(label, true);
		print_cut(text_at(row, "text"));
		putchar('\n');
		label = "";
	}
}

static void print_environment(json_t *rows)
{
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		print_label(i == 0 ? "set" : "", false);
		print_clean(text_at(row, "name"));
		putchar('=');
		print_cut(text_at(row, "value"));
		putchar('\n');
	}
	if (json_array_size(rows) == 0) {
		print_label("set", false);
		puts("no variable TOW_...");
	}
}

static void print_screen(json_t *document)
{
	json_t *runtime = json_object_get(document, "runtime");

	print_head(document);
	print_build(json_object_get(document, "build"));
	print_runtime(runtime);
	print_lanes(json_object_get(document, "lanes"));
	print_require(runtime);
	print_host(json_object_get(document, "host"));
	print_interfaces(json_object_get(document, "interfaces"),
			 json_object_get(document, "interfaces_left_out"));
	print_environment(json_object_get(document, "environment"));
	print_log(json_object_get(runtime, "log"));
}

static int misuse_of(const char *what, const char *which)
{
	fprintf(stderr, "tow-info: %s%s%s; see tow-info --help\n", what,
		which[0] != '\0' ? ": " : "", which);
	return 2;
}

enum { OPT_JSON = 256, OPT_NO_PROBE, OPT_VERSION };

/* Returns -1 to go on, else the exit status. */
static int read_options(int argc, char **argv, bool *json_out, bool *probe_out)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, OPT_JSON },
		{ "no-probe", no_argument, NULL, OPT_NO_PROBE },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, OPT_VERSION },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == OPT_JSON) {
			*json_out = true;
		} else if (option == OPT_NO_PROBE) {
			*probe_out = false;
		} else if (option == OPT_VERSION) {
			printf("tow-info %s\n", tow_version());
			return 0;
		} else if (option == 'h') {
			fputs(usage, stdout);
			return 0;
		} else {
			return misuse_of("wrong option", "");
		}
	}
	return optind < argc ? misuse_of("it takes no argument", argv[optind]) : -1;
}

static int show_info(bool json, bool probe)
{
	json_t *document = info_look(probe);
	int status;

	if (document == NULL) {
		fprintf(stderr, "tow-info: out of memory\n");
		return 2;
	}
	status = json_is_false(json_object_get(json_object_get(document, "runtime"), "opens"));
	if (json) {
		json_dumpf(document, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		putchar('\n');
	} else {
		print_screen(document);
	}
	json_decref(document);
	return status;
}

int main(int argc, char **argv)
{
	bool json = false, probe = true;
	int status = read_options(argc, argv, &json, &probe);

	if (status < 0)
		status = show_info(json, probe);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "tow-info: cannot write: %s\n", strerror(errno));
		return 2;
	}
	return status;
}
