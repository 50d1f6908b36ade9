/*
 * towstat_explain.c - answers in one list why a job is slow or stuck: the verdict, copies and
 * registrations, counters, the host, and current rates.
 *
 * It has no knowledge of its own. It asks what verdict, why, towdoctor and top ask, and puts the
 * results in one order (explain_rows.h). The counters are read at both ends of a window. The rest
 * is asked meanwhile, so the answer takes little longer than the window.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/http_unix.h"
#include "tools/common/words.h"
#include "tools/towstat/explain_host.h"
#include "tools/towstat/explain_rows.h"
#include "tools/towstat/explain_window.h"
#include "tools/towstat/towstat.h"

#define ROWS_SHOWN     8
#define EVIDENCE_SHOWN 3

struct explain {
	const char *socket_path, *name;
	double seconds;
	long count;
	int json, no_host;
};

/* All results, collected before anything is printed. */
struct answer {
	json_t *verdict; /* NULL: no rank has given one */
	json_t *ranks;   /* see explain_rows.h */
	json_t *silent;  /* names of ranks without an answer */
	json_t *checks, *rows, *window;
	char no_checks[160]; /* why there are no checks of the host */
};

static const char usage[] =
	"towstat explain - why a job is slow, or does not go on: one answer, the worst first\n"
	"\n"
	"  towstat explain [JOB|JOB.RANK|SOCKET] [OPTION...]\n"
	"\n"
	"It asks the verdict (towstat verdict), why the job copies and registers (towstat why), "
	"what\n"
	"the counters of all its ranks say, and what of this host bears on it (towdoctor, which "
	"reads\n"
	"files alone here, with the limits and CPUs of the job's first rank). It watches the job\n"
	"meanwhile: steps, messages, bytes, and how long its ranks waited. Each finding has its "
	"cure.\n"
	"Without a name it is about the only job that lives here.\n"
	"\n"
	"  -i, --interval S    for how long the job is watched, from 0.1 to 60 (default 3)\n"
	"  -n, --count N       shows N findings (default 8)\n"
	"      --no-host       leaves the host out\n"
	"  -s, --socket PATH   a runtime's stats socket, instead of a name\n"
	"      --all-users     also runtimes of other users\n"
	"      --json          as JSON, all there is\n"
	"  -h, --help          this text\n"
	"\n"
	"Status: 1 failed, 2 wrong usage; else that of the verdict\n"
#define ROW(status, name, says) "  " #status "  " says "\n"
	VERDICT_STATUS_MAP(ROW)
#undef ROW
	;

static void answer_fini(struct answer *answer)
{
	json_decref(answer->verdict);
	json_decref(answer->ranks);
	json_decref(answer->silent);
	json_decref(answer->checks);
	json_decref(answer->rows);
	json_decref(answer->window);
}

/* --- questions --- */

/*
 * Whether a rank has copied, registered late, or had a pool that was too small. Others are not
 * asked.
 */
static int has_reasons(const json_t *counters)
{
	static const char *const names[] = { "fallback_copies", "late_registrations",
					     "pool_exhausted", "pool_grown" };
	const json_t *all = json_object_get(counters, "counters");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (json_integer_value(json_object_get(all, names[i])) > 0)
			return 1;
	}
	return 0;
}

static void ask_why(const struct runtime_list *live, struct answer *answer)
{
	for (size_t i = 0; i < live->count; i++) {
		json_t *rank = json_array_get(answer->ranks, i);

		if (has_reasons(json_object_get(rank, "before")))
			json_object_set_new(rank, "why", fetch_why(live->rows[i].path, 0));
	}
}

static bool has_network(const struct runtime_list *live)
{
	json_t **all = fetch_all(live, "/v1/peers"), *peer;
	bool found = false;
	size_t i;

	for (size_t r = 0; all != NULL && r < live->count; r++) {
		json_array_foreach(json_object_get(all[r], "peers"), i, peer)
		{
			const char *lane = json_string_value(json_object_get(peer, "lane"));

			found = found || (lane != NULL && strcmp(lane, "tcp") == 0);
		}
	}
	fetched_free(all, live->count);
	return found;
}

/*
 * Asks with the first rank's process and knobs. Ranks of one job on one host usually have the same.
 */
static void ask_host(const struct runtime_list *live, struct answer *answer)
{
	json_t *info = fetch_json(live->rows[0].path, "/v1/info");
	const struct host_question question = { pid_of_listener(live->rows[0].path),
						json_object_get(info, "knobs"), has_network(live) };

	if (question.pid > 0)
		answer->checks =
			ask_doctor(&question, answer->no_checks, sizeof(answer->no_checks));
	else
		snprintf(answer->no_checks, sizeof(answer->no_checks),
			 "its process cannot be seen from here");
	json_decref(info);
}

/* Ranks that answer this first question get a row; the others are named. */
static int begin_ranks(struct runtime_list *live, struct answer *answer)
{
	json_t **all = fetch_all(live, "/v1/counters");
	size_t kept = 0;

	for (size_t i = 0; all != NULL && i < live->count; i++) {
		const struct runtime_entry entry = live->rows[i];
		json_t *row;

		if (all[i] == NULL) {
			json_array_append_new(answer->silent, json_string(entry.name));
			continue;
		}
		row = row_of_runtime(&entry);
		json_object_set(row, "before", all[i]);
		json_array_append_new(answer->ranks, row);
		live->rows[kept++] = entry;
	}
	fetched_free(all, live->count);
	live->count = kept;
	if (kept == 0)
		fprintf(stderr, "towstat: no rank of it answers\n");
	return kept == 0;
}

/* Reads the counters again. Returns how many ranks still answer. */
static size_t end_ranks(const struct runtime_list *live, struct answer *answer)
{
	json_t **all = fetch_all(live, "/v1/counters");
	size_t count = 0;

	for (size_t i = 0; all != NULL && i < live->count; i++) {
		if (all[i] == NULL)
			continue;
		json_object_set(json_array_get(answer->ranks, i), "after", all[i]);
		count++;
	}
	fetched_free(all, live->count);
	return count;
}

static int ask_all(const struct explain *explain, struct runtime_list *live, struct answer *answer)
{
	struct window *window;
	struct explain_input input;

	answer->ranks = json_array();
	answer->silent = json_array();
	if (begin_ranks(live, answer) != 0)
		return 1;
	window = window_open(live, answer->ranks);
	if (window == NULL) {
		fprintf(stderr, "towstat: no memory\n");
		return 1;
	}
	answer->verdict = find_verdict(live);
	ask_why(live, answer);
	if (!explain->no_host)
		ask_host(live, answer);
	window_wait(window, explain->seconds);
	if (end_ranks(live, answer) == 0 && answer->verdict == NULL) {
		fprintf(stderr, "towstat: the job ended while towstat read its ranks\n");
		window_free(window);
		return 1;
	}
	answer->window = window_close(window, answer->ranks);
	input = (struct explain_input){ answer->verdict, answer->ranks, answer->checks,
					json_number_value(
						json_object_get(answer->window, "seconds")) };
	answer->rows = explain_rows(&input);
	return answer->rows == NULL;
}

/* --- output --- */

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* Prints "ranks 0, 2 and 30 more"; nothing when there are none. */
static void print_ranks(const json_t *ranks)
{
	size_t count = json_array_size(ranks), shown = count > 8 ? 6 : count;

	if (count == 0)
		return;
	printf(count > 1 ? ", ranks " : ", rank ");
	for (size_t i = 0; i < shown; i++)
		printf("%s%lld", i > 0 ? ", " : "",
		       (long long)json_integer_value(json_array_get(ranks, i)));
	if (shown < count)
		printf(" and %zu more", count - shown);
}

static void print_row(size_t number, const json_t *row)
{
	json_t *evidence = json_object_get(row, "evidence"), *line;
	const json_t *finding = json_object_get(row, "finding");
	const char *cure = text_of(row, "cure");
	char head[24];
	size_t i;

	printf("\n");
	snprintf(head, sizeof(head), "%zu. ", number);
	if (finding != NULL) {
		printf("%sverdict\n", head);
		print_finding("   ", finding);
		return;
	}
	printf("%s%s", head, text_of(row, "from"));
	print_ranks(json_object_get(row, "ranks"));
	printf("%s\n   ", json_is_true(json_object_get(row, "running")) ? ", goes on" : "");
	print_clean(text_of(row, "text"));
	printf("\n");
	json_array_foreach(evidence, i, line)
	{
		if (i < EVIDENCE_SHOWN) {
			printf("       ");
			print_clean(json_string_value(line));
			printf("\n");
		}
	}
	printf("     mend: ");
	print_clean(cure != NULL && *cure != '\0' ? cure : "see docs/counters.md");
	printf("\n");
}

static void print_verdict_lines(const struct answer *answer)
{
	json_t *row;
	size_t i;

	if (json_is_object(answer->verdict))
		print_verdict_head(answer->verdict);
	json_array_foreach(answer->verdict, i, row)
	{
		print_clean(text_of(row, "name"));
		printf(": ");
		print_verdict_head(json_object_get(row, "document"));
	}
	if (answer->verdict == NULL)
		printf("no verdict: none of its ranks gives one\n");
	json_array_foreach(answer->silent, i, row)
	{
		print_clean(json_string_value(row));
		printf(" does not answer: its counters are not known\n");
	}
}

static void print_answer(const struct explain *explain, const struct answer *answer)
{
	size_t most = explain->count > 0 ? (size_t)explain->count : ROWS_SHOWN;
	size_t count = json_array_size(answer->rows);

	print_clean(text_of(json_array_get(answer->ranks, 0), "job"));
	printf(": ");
	print_verdict_lines(answer);
	print_window(answer->window);
	if (!explain->no_host && answer->checks == NULL) {
		printf("the host was not looked at: ");
		print_clean(answer->no_checks);
		printf("\n");
	}
	for (size_t i = 0; i < count && i < most; i++)
		print_row(i + 1, json_array_get(answer->rows, i));
	if (count > most)
		printf("\nand %zu more (--count %zu)\n", count - most, count);
	if (count == 0 && answer->verdict != NULL)
		printf("Nothing that costs anything was found.\n");
}

static int dump_answer(const struct answer *answer, int status)
{
	json_t *ranks = json_array(), *rank, *root;
	int failed;
	size_t i;

	json_array_foreach(answer->ranks, i, rank) json_array_append_new(
		ranks,
		json_pack("{s:O, s:O, s:O}", "name", json_object_get(rank, "name"), "job",
			  json_object_get(rank, "job"), "rank", json_object_get(rank, "rank")));
	root = json_pack("{s:i, s:O?, s:O, s:O, s:O?, s:s?, s:o, s:O}", "status", status, "verdict",
			 answer->verdict, "window", answer->window, "findings", answer->rows,
			 "checks", answer->checks, "no_checks",
			 answer->no_checks[0] != '\0' ? answer->no_checks : NULL, "ranks", ranks,
			 "silent", answer->silent);
	failed = dump_json(root);
	json_decref(root);
	return failed;
}

static int run_targets(const struct explain *explain, struct runtime_list *targets)
{
	struct answer answer = { 0 };
	int status = 1;

	if (ask_all(explain, targets, &answer) == 0) {
		if (answer.verdict != NULL)
			status = (int)verdict_status_of_all(answer.verdict);
		if (!explain->json)
			print_answer(explain, &answer);
		else if (dump_answer(&answer, status) != 0)
			status = 1;
	}
	answer_fini(&answer);
	return status;
}

/* --- options --- */

enum { OPT_JSON = 256, OPT_NO_HOST };

/* Returns -1 to go on, else the exit status. */
static int read_options(struct explain *out, int argc, char **argv)
{
	static const struct option options[] = {
		{ "interval", required_argument, NULL, 'i' },
		{ "count", required_argument, NULL, 'n' },
		{ "no-host", no_argument, NULL, OPT_NO_HOST },
		{ "socket", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, OPT_JSON },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "i:n:s:h", options, NULL)) != -1) {
		switch (option) {
		case 'i':
			if (read_seconds(optarg, 0.1, 60, &out->seconds) != 0)
				return misuse("--interval is from 0.1 to 60 seconds", optarg);
			break;
		case 'n':
			if (read_number(optarg, 1, 1000000, &out->count) != 0)
				return misuse("--count is a number from 1", optarg);
			break;
		case OPT_NO_HOST:
			out->no_host = 1;
			break;
		case 's':
			out->socket_path = optarg;
			break;
		case OPT_JSON:
			out->json = 1;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			return misuse("explain: wrong option", "");
		}
	}
	if (argc - optind > 1)
		return misuse("explain takes one name or socket", argv[optind + 1]);
	out->name = argv[optind];
	return -1;
}

int run_explain(int argc, char **argv)
{
	struct explain explain = { .seconds = 3 };
	int status = read_options(&explain, argc, argv);
	struct runtime_list targets;

	if (status >= 0)
		return status;
	if (explain.name != NULL && strchr(explain.name, '/') != NULL)
		explain.socket_path = explain.name;
	if (find_targets(explain.socket_path, explain.name, &targets) != 0)
		return 1;
	status = run_targets(&explain, &targets);
	runtime_list_fini(&targets);
	return status;
}
