/*
 * towstat_top.c - shows all ranks of this host at intervals: as a screen on a terminal, else as
 * lines.
 *
 * One loop polls the keyboard, signals and every rank's socket. It never waits for one of them
 * alone, so a stuck rank delays neither a key nor the other ranks.
 */
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/http_unix.h"
#include "tools/towstat/terminal.h"
#include "tools/towstat/top_ranks.h"
#include "tools/towstat/top_screen.h"
#include "tools/towstat/towstat.h"

#define POLLED_MAX (HTTP_ASKS_MAX + 64)
#define DRAW_MS    100 /* between two pictures, unless a key was pressed */

struct top {
	struct top_ranks_options options;
	bool plain, once;
	long count;
	struct top_screen screen;
	struct top_ranks *ranks;
	bool changed, pressed; /* since the last picture */
	long long round_ms, drawn_ms;
};

static const char usage[] =
	"towstat top - all ranks of this host\n"
	"\n"
	"  towstat top [OPTION...]\n"
	"\n"
	"  -i, --interval S   seconds between readings, from 0.1 to 60 (default 1)\n"
	"      --job JOB      the ranks of this job alone\n"
	"      --all-users    also of other users, as USER:JOB.RANK\n"
	"  -f, --filter TEXT  job=NAME, rank=N, or a regular expression over name, state and "
	"verdict\n"
	"      --sort KEY     name verdict in out msgs wait slack p50 p99 copy pool late copied\n"
	"  -r, --reverse      the other way around\n"
	"      --plain        lines instead of a screen; always so where there is no terminal\n"
	"      --once         lines of one interval, and the end\n"
	"  -n, --count N      lines of N intervals, and the end\n"
	"      --timeout S    how long a rank may take to answer, from 0.1 to 30 (default 2)\n"
	"  -h, --help         this text\n"
	"\n"
	"On a terminal the key ? lists the keys. NO_COLOR in the environment leaves colours out.\n"
	"Status: 0 done, 1 no rank was seen, 2 wrong usage.\n";

static void take_rows(struct top *top)
{
	struct top_row *rows;
	size_t count;

	rows = top_ranks_rows(top->ranks, &count);
	top_screen_take(&top->screen, rows, count, top_ranks_missed(top->ranks));
}

static void draw_top(struct top *top)
{
	size_t columns, lines, bytes;
	char *text;

	take_rows(top);
	terminal_size(&columns, &lines);
	text = top_screen_draw(&top->screen, columns, lines, &bytes);
	if (text != NULL)
		terminal_write(text, bytes);
	free(text);
	top->changed = top->pressed = false;
	top->drawn_ms = http_now_ms();
}

/* Waits for a key, a signal, an answer, the next deadline or `until_ms`, whichever comes first. */
static void wait_once(struct top *top, long long until_ms)
{
	struct pollfd polled[POLLED_MAX];
	long long deadline = top_ranks_deadline(top->ranks), left;
	size_t count = 0;

	if (deadline != 0 && deadline < until_ms)
		until_ms = deadline;
	if (!top->plain) {
		polled[count++] = (struct pollfd){ STDIN_FILENO, POLLIN, 0 };
		polled[count++] = (struct pollfd){ terminal_wake_fd(), POLLIN, 0 };
	}
	count += top_ranks_poll(top->ranks, polled + count, POLLED_MAX - count);
	left = until_ms - http_now_ms();
	/* At least a millisecond, so that a rank at its deadline does not make the loop spin. */
	poll(polled, count, left > 0 ? (int)left : 1);
	if (!top->plain && polled[1].revents != 0)
		top->pressed = true; /* resized or continued: draw at once */
	for (size_t i = top->plain ? 0 : 2; i < count; i++)
		top->changed = top->changed || polled[i].revents != 0;
}

/* --- on a terminal --- */

/* Returns false when the program is to end. */
static bool read_keys(struct top *top)
{
	bool gone;
	int key;

	while ((key = terminal_key(&gone)) != KEY_NONE) {
		top->pressed = true;
		if (key == KEY_STOP && !top->screen.typing)
			terminal_stop();
		else if (!top_screen_key(&top->screen, key))
			return false;
	}
	return !gone;
}

static long long interval_ms(const struct top *top)
{
	return (long long)(top->screen.interval_s * 1e3);
}

static bool top_turn(struct top *top)
{
	long long now = http_now_ms(), until;

	if (now >= top->round_ms + interval_ms(top)) {
		top_ranks_round(top->ranks);
		top->round_ms = now;
		top->changed = true;
	}
	if (top->pressed || (top->changed && now - top->drawn_ms >= DRAW_MS))
		draw_top(top);
	until = top->round_ms + interval_ms(top);
	if (top->changed && top->drawn_ms + DRAW_MS < until)
		until = top->drawn_ms + DRAW_MS;
	wait_once(top, until);
	top_ranks_step(top->ranks);
	if (terminal_signal() != 0)
		return false;
	terminal_wake_clear();
	return read_keys(top);
}

static int run_screen(struct top *top)
{
	int number;

	top_ranks_round(top->ranks);
	top->round_ms = http_now_ms();
	/* The second reading comes early, so that rates are shown soon. */
	if (interval_ms(top) > 500)
		top->round_ms -= interval_ms(top) - 500;
	top->changed = true;
	while (top_turn(top))
		continue;
	terminal_close();
	number = terminal_signal();
	return number != 0 ? 128 + number : 0;
}

/* --- as lines --- */

/* Runs a round to its end. The round's own deadlines bound it. */
static void run_round(struct top *top)
{
	top->round_ms = http_now_ms();
	top_ranks_round(top->ranks);
	while (top_ranks_step(top->ranks) > 0)
		wait_once(top, http_now_ms() + 1000);
}

static int run_lines(struct top *top)
{
	long rounds = top->once ? 1 : top->count;

	run_round(top);
	for (long i = 0; rounds == 0 || i < rounds; i++) {
		long long until = top->round_ms + interval_ms(top);

		while (http_now_ms() < until)
			wait_once(top, until);
		run_round(top);
		take_rows(top);
		if (top->screen.count == 0)
			break;
		top_screen_print(&top->screen, stdout);
		if (ferror(stdout))
			return 1;
	}
	if (top->screen.count > 0)
		return 0;
	fprintf(stderr, "towstat: there is no live runtime here that you may see; is "
			"TOW_STATS_DIR set as it is for the program?\n");
	return 1;
}

/* --- options --- */

enum { OPT_JOB = 256, OPT_SORT, OPT_PLAIN, OPT_ONCE, OPT_TIMEOUT };

static int set_filter(struct top *top, const char *text)
{
	char why[100];

	if (top_filter_init(&top->screen.filter, text, why, sizeof(why)) != 0)
		return misuse(why, text);
	snprintf(top->screen.filter_text, sizeof(top->screen.filter_text), "%s", text);
	return 0;
}

/* Returns 0, or the exit status. */
static int take_option(struct top *top, int option)
{
	double seconds;

	switch (option) {
	case 'i':
		if (read_seconds(optarg, 0.1, 60, &top->screen.interval_s) != 0)
			return misuse("--interval is from 0.1 to 60 seconds", optarg);
		return 0;
	case OPT_TIMEOUT:
		if (read_seconds(optarg, 0.1, 30, &seconds) != 0)
			return misuse("--timeout is from 0.1 to 30 seconds", optarg);
		top->options.timeout_ms = (long long)(seconds * 1e3);
		return 0;
	case 'n':
		if (read_number(optarg, 1, 1000000000, &top->count) != 0)
			return misuse("--count is a number from 1", optarg);
		top->plain = true;
		return 0;
	case OPT_JOB:
		top->options.job = optarg;
		return 0;
	case OPT_SORT:
		if (top_column_find(optarg, &top->screen.sorted) != 0)
			return misuse("no such column to sort by", optarg);
		return 0;
	case OPT_ONCE:
		top->plain = top->once = true;
		return 0;
	case OPT_PLAIN:
		top->plain = true;
		return 0;
	case 'r':
		top->screen.reverse = true;
		return 0;
	case 'f':
		top_filter_fini(&top->screen.filter);
		return set_filter(top, optarg);
	default:
		return misuse("top: wrong option", "");
	}
}

/* Returns -1 to go on, else the exit status. */
static int read_options(struct top *top, int argc, char **argv)
{
	static const struct option options[] = {
		{ "interval", required_argument, NULL, 'i' },
		{ "job", required_argument, NULL, OPT_JOB },
		{ "filter", required_argument, NULL, 'f' },
		{ "sort", required_argument, NULL, OPT_SORT },
		{ "reverse", no_argument, NULL, 'r' },
		{ "plain", no_argument, NULL, OPT_PLAIN },
		{ "once", no_argument, NULL, OPT_ONCE },
		{ "count", required_argument, NULL, 'n' },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option, status;

	while ((option = getopt_long(argc, argv, "i:f:rn:h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		status = take_option(top, option);
		if (status != 0)
			return status;
	}
	if (optind < argc)
		return misuse("top takes options alone", argv[optind]);
	return -1;
}

int run_top(int argc, char **argv)
{
	struct top *top = calloc(1, sizeof(*top));
	const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
	int status;

	if (top == NULL)
		return 1;
	top->options.timeout_ms = 2000;
	top->screen.interval_s = 1;
	top->screen.first = TOP_FIRST;
	top->screen.colours = no_color == NULL || no_color[0] == '\0';
	status = read_options(top, argc, argv);
	if (status < 0) {
		top->ranks = top_ranks_open(&top->options);
		if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ||
		    (terminal != NULL && strcmp(terminal, "dumb") == 0))
			top->plain = true;
		if (top->ranks == NULL)
			status = 1;
		else if (top->plain || terminal_open() != 0) {
			top->plain = true;
			status = run_lines(top);
		} else {
			status = run_screen(top);
		}
	}
	top_filter_fini(&top->screen.filter);
	top_ranks_close(top->ranks);
	free(top);
	return status;
}
