/*
 * top_screen.c - the picture of towstat top and its keys. See top_screen.h.
 *
 *	gpt2: slow: rank 2 is late
 *	12:00:01  host  job: gpt2  3 of 4 ranks  telemetry lost: 0
 *	RANK       VERDICT  IN/s  OUT/s ...
 *	gpt2.0    ...
 *	total of 3
 *	(blank)
 *	the keys, a prompt, or an error message
 */
#include "tools/towstat/top_screen.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/words.h"
#include "tools/towstat/terminal.h"

/* --- data --- */

void top_screen_take(struct top_screen *screen, struct top_row *rows, size_t count, size_t missed)
{
	time_t now = time(NULL);
	size_t shown = 0;
	struct tm parts;

	screen->rows = rows;
	screen->count = count;
	screen->missed = missed;
	for (size_t i = 0; i < count; i++) {
		struct top_row row = rows[i];

		if (!top_filter_passes(&screen->filter, &row))
			continue;
		rows[i] = rows[shown];
		rows[shown++] = row;
	}
	screen->shown = shown;
	top_sort(rows, shown, screen->sorted, screen->reverse);
	top_total(rows, shown, &screen->total);
	screen->host[0] = '\0';
	gethostname(screen->host, sizeof(screen->host) - 1);
	screen->host[sizeof(screen->host) - 1] = '\0';
	screen->clock[0] = '\0';
	if (localtime_r(&now, &parts) != NULL)
		strftime(screen->clock, sizeof(screen->clock), "%H:%M:%S", &parts);
}

static bool job_seen(const struct top_screen *screen, size_t before)
{
	for (size_t i = 0; i < before; i++) {
		if (strcmp(screen->rows[i].job, screen->rows[before].job) == 0)
			return true;
	}
	return false;
}

/* "gpt2, bert, t5 and 3 more" */
static void job_names(const struct top_screen *screen, char *out, size_t size)
{
	size_t jobs = 0, used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < screen->shown; i++) {
		if (job_seen(screen, i))
			continue;
		jobs++;
		if (jobs <= 3 && used < size)
			used += (size_t)snprintf(out + used, size - used, "%s%.40s",
						 jobs > 1 ? ", " : "", screen->rows[i].job);
	}
	if (jobs > 3 && used < size)
		snprintf(out + used, size - used, " and %zu more", jobs - 3);
}

static void put_title(struct top_line *out, const struct top_screen *screen)
{
	char jobs[160], lost[WORDS_BYTES], missed[48] = "";
	int bytes;

	job_names(screen, jobs, sizeof(jobs));
	words_count(screen->total.lost, lost);
	if (screen->missed > 0)
		snprintf(missed, sizeof(missed), "  not looked at: %zu", screen->missed);
	*out = (struct top_line){ 0 };
	bytes = snprintf(out->text, sizeof(out->text),
			 "%s  %s  %s%s  %zu of %zu ranks  telemetry lost: %s%s%s%s", screen->clock,
			 screen->host, jobs[0] != '\0' ? "job: " : "no job", jobs, screen->shown,
			 screen->count, lost, missed,
			 screen->filter.kind != TOP_ALL ? "  filter: " : "",
			 screen->filter.kind != TOP_ALL ? screen->filter_text : "");
	out->bytes = bytes < (int)sizeof(out->text) ? (size_t)bytes : sizeof(out->text) - 1;
	if (screen->total.lost > 0 || screen->missed > 0) {
		out->marks[out->mark_count].first = 0;
		out->marks[out->mark_count].end = out->bytes;
		out->marks[out->mark_count++].mark = TOP_WARN;
	}
}

#define VERDICTS_SHOWN 3

/* The verdict on the next job from row *at on; *at moves on. Returns false when there is none. */
static bool next_verdict(const struct top_screen *screen, size_t *at, struct top_line *out)
{
	while (*at < screen->shown && job_seen(screen, *at))
		(*at)++;
	if (*at >= screen->shown)
		return false;
	top_line_verdict(out, &screen->rows[(*at)++]);
	return true;
}

/* --- lines --- */

void top_screen_print(const struct top_screen *screen, FILE *file)
{
	const struct top_layout layout = { top_name_width(screen->rows, screen->shown), TOP_FIRST,
					   0 };
	struct top_line line;
	size_t at = 0;

	while (next_verdict(screen, &at, &line))
		fprintf(file, "%.*s\n", (int)line.bytes, line.text);
	put_title(&line, screen);
	fprintf(file, "%.*s\n", (int)line.bytes, line.text);
	top_line_head(&line, &layout, screen->sorted, screen->reverse);
	fprintf(file, "%.*s\n", (int)line.bytes, line.text);
	for (size_t i = 0; i < screen->shown; i++) {
		top_line_row(&line, &layout, &screen->rows[i]);
		fprintf(file, "%.*s\n", (int)line.bytes, line.text);
	}
	top_line_row(&line, &layout, &screen->total);
	fprintf(file, "%.*s\n\n", (int)line.bytes, line.text);
	fflush(file);
}

/* --- a picture --- */

struct picture {
	char *text;
	size_t bytes, room, columns, lines, at; /* at: lines so far */
	bool colours, failed;
};

static void add_bytes(struct picture *out, const char *text, size_t bytes)
{
	if (out->failed)
		return;
	if (out->room - out->bytes < bytes) {
		size_t room = (out->room + bytes) * 2;
		char *more = realloc(out->text, room);

		out->failed = more == NULL;
		if (out->failed)
			return;
		out->text = more;
		out->room = room;
	}
	memcpy(out->text + out->bytes, text, bytes);
	out->bytes += bytes;
}

static void add_text(struct picture *out, const char *text)
{
	add_bytes(out, text, strlen(text));
}

static const char *mark_text(const struct picture *out, enum top_mark mark)
{
	switch (mark) {
	case TOP_HEAD:
		return "\033[7m";
	case TOP_DIM:
		return "\033[2m";
	case TOP_WARN:
		return out->colours ? "\033[33m" : "\033[1m";
	case TOP_ALARM:
		return out->colours ? "\033[1;31m" : "\033[1m";
	default:
		return "";
	}
}

/* Writes a line with its position, so that a line that fills the screen does not scroll it. */
static void add_line(struct picture *out, const struct top_line *line)
{
	size_t at = 0, end = line->bytes < out->columns ? line->bytes : out->columns;
	char where[32];

	if (out->at >= out->lines)
		return;
	snprintf(where, sizeof(where), "\033[%zu;1H", ++out->at);
	add_text(out, where);
	for (size_t i = 0; i < line->mark_count && line->marks[i].first < end; i++) {
		size_t last = line->marks[i].end < end ? line->marks[i].end : end;

		add_bytes(out, line->text + at, line->marks[i].first - at);
		add_text(out, mark_text(out, line->marks[i].mark));
		add_bytes(out, line->text + line->marks[i].first, last - line->marks[i].first);
		if (line->marks[i].mark == TOP_HEAD && end < out->columns)
			add_text(out, "\033[K"); /* the bar goes on to the right edge */
		add_text(out, "\033[0m");
		at = last;
	}
	add_bytes(out, line->text + at, end - at);
	if (end < out->columns && (line->mark_count == 0 || line->marks[0].mark != TOP_HEAD))
		add_text(out, "\033[K");
}

static void add_words(struct picture *out, enum top_mark mark, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void add_words(struct picture *out, enum top_mark mark, const char *format, ...)
{
	struct top_line line = { 0 };
	va_list args;
	int bytes;

	va_start(args, format);
	bytes = vsnprintf(line.text, sizeof(line.text), format, args);
	va_end(args);
	line.bytes = bytes < (int)sizeof(line.text) ? (size_t)bytes : sizeof(line.text) - 1;
	if (mark != TOP_PLAIN) {
		line.marks[0].end = line.bytes;
		line.marks[0].mark = mark;
		line.mark_count = 1;
	}
	add_line(out, &line);
}

static void add_help(struct picture *out)
{
	static const char *const text[] = {
		"q           quit",
		"s, S        sort by the next or previous column; r  the other way around",
		"/           filter: job=NAME, rank=N, or a regular expression over name, state",
		"            and verdict; an empty one shows all; Escape leaves it as it was",
		"up, down    scroll the ranks; page keys, Home, End",
		"left, right scroll the columns",
		"+, -        longer or shorter intervals",
		"?           this text; any key closes it",
		"",
		"IN/s OUT/s  payload received and sent, and what collectives read and write in",
		"            place; all figures are of the last interval, COPIED and LATE in all",
		"P50 P99     latency of the RPCs that ended",
		"POOL        allocated of what is mapped",
		"COPY/s      bytes copied that need not be; COPIED the sum. towstat why says why",
		"LATE        registrations after the seal, or of memory at its first use",
		"SLACK       median of the collectives that ended: time between start and first",
		"            need, less what the calls between took; the least is the worst",
		"WAIT        share of the time in which a thread waited for a collective",
		"VERDICT     of the job, from one of its ranks: above in full, here what concerns",
		"            the rank, and stands out where it names it; ? is not known",
	};

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		add_words(out, TOP_PLAIN, "%s", text[i]);
}

/*
 * The verdicts come first, to be visible at any width. On a low screen the ranks take their lines.
 */
static void add_verdicts(struct picture *out, const struct top_screen *screen)
{
	struct top_line line;
	size_t at = 0, shown = 0;

	while (out->lines > 6 + shown && next_verdict(screen, &at, &line)) {
		if (shown++ == VERDICTS_SHOWN) {
			add_words(out, TOP_WARN, "further jobs: job=NAME as filter shows one");
			break;
		}
		add_line(out, &line);
	}
}

static void add_rows(struct picture *out, struct top_screen *screen)
{
	const struct top_layout layout = { top_name_width(screen->rows, screen->shown),
					   screen->first, out->columns };
	/* The lines of head, total, an empty line and the foot. */
	size_t room = out->lines > out->at + 4 ? out->lines - out->at - 4 : 1, most;
	struct top_line line;

	most = screen->shown > room ? screen->shown - room : 0;
	if (screen->scrolled > most)
		screen->scrolled = most;
	top_line_head(&line, &layout, screen->sorted, screen->reverse);
	add_line(out, &line);
	screen->visible = screen->shown < room ? screen->shown : room;
	for (size_t i = 0; i < screen->visible; i++) {
		top_line_row(&line, &layout, &screen->rows[screen->scrolled + i]);
		add_line(out, &line);
	}
	top_line_row(&line, &layout, &screen->total);
	add_line(out, &line);
	if (screen->shown == 0)
		add_words(out, TOP_PLAIN,
			  screen->count == 0 ? "there is no live runtime here that you may see; "
					       "is TOW_STATS_DIR set as it is for the program?"
					     : "no rank passes the filter");
}

static void add_foot(struct picture *out, const struct top_screen *screen)
{
	out->at = out->lines > 0 ? out->lines - 1 : 0;
	if (screen->typing)
		add_words(out, TOP_PLAIN, "filter: %s_", screen->prompt);
	else if (screen->message[0] != '\0')
		add_words(out, TOP_ALARM, "%s", screen->message);
	else
		add_words(
			out, TOP_DIM,
			"every %.2g s  sorted by %s%s  %zu-%zu of %zu    q quit  s sort  r reverse"
			"  / filter  arrows  ? help",
			screen->interval_s, top_column_name(screen->sorted),
			screen->reverse ? ", reversed" : "",
			screen->shown > 0 ? screen->scrolled + 1 : 0,
			screen->shown > 0 ? screen->scrolled + screen->visible : 0, screen->shown);
}

char *top_screen_draw(struct top_screen *screen, size_t columns, size_t lines, size_t *bytes_out)
{
	struct picture out = { .columns = columns, .lines = lines, .colours = screen->colours };
	struct top_line line;

	add_verdicts(&out, screen);
	put_title(&line, screen);
	add_line(&out, &line);
	if (screen->help)
		add_help(&out);
	else
		add_rows(&out, screen);
	add_text(&out, "\033[J");
	add_foot(&out, screen);
	if (out.failed) {
		free(out.text);
		return NULL;
	}
	*bytes_out = out.bytes;
	return out.text;
}

/* --- keys --- */

static void apply_filter(struct top_screen *screen)
{
	struct top_filter filter;
	char why[100];

	screen->typing = false;
	if (top_filter_init(&filter, screen->prompt, why, sizeof(why)) != 0) {
		snprintf(screen->message, sizeof(screen->message), "no filter: %s", why);
		return;
	}
	top_filter_fini(&screen->filter);
	screen->filter = filter;
	snprintf(screen->filter_text, sizeof(screen->filter_text), "%s", screen->prompt);
	screen->scrolled = 0;
}

static void type_key(struct top_screen *screen, int key)
{
	size_t bytes = strlen(screen->prompt);

	if (key == KEY_ENTER) {
		apply_filter(screen);
	} else if (key == KEY_ESCAPE || key == KEY_INTERRUPT) {
		screen->typing = false;
	} else if (key == KEY_BACKSPACE && bytes > 0) {
		screen->prompt[bytes - 1] = '\0';
	} else if (key >= 0x20 && key < 0x7f && bytes + 1 < sizeof(screen->prompt)) {
		screen->prompt[bytes] = (char)key;
		screen->prompt[bytes + 1] = '\0';
	}
}

static void scroll_rows(struct top_screen *screen, long rows)
{
	if (rows < 0 && screen->scrolled < (size_t)-rows)
		screen->scrolled = 0;
	else
		screen->scrolled = (size_t)((long)screen->scrolled + rows);
	if (screen->scrolled > screen->shown)
		screen->scrolled = screen->shown;
}

static bool command_key(struct top_screen *screen, int key)
{
	unsigned sorted = (unsigned)screen->sorted;

	switch (key) {
	case 's':
		screen->sorted = (enum top_column)((sorted + 1) % TOP_COLUMN_COUNT);
		break;
	case 'S':
		screen->sorted =
			(enum top_column)((sorted + TOP_COLUMN_COUNT - 1) % TOP_COLUMN_COUNT);
		break;
	case 'r':
		screen->reverse = !screen->reverse;
		break;
	case '/':
		screen->typing = true;
		screen->prompt[0] = '\0';
		break;
	case '?':
		screen->help = true;
		break;
	case '+':
		screen->interval_s = screen->interval_s < 30 ? screen->interval_s * 2 : 60;
		break;
	case '-':
		screen->interval_s = screen->interval_s > 0.2 ? screen->interval_s / 2 : 0.1;
		break;
	case 'q':
	case KEY_INTERRUPT:
		return false;
	default:
		break;
	}
	return true;
}

static void move_key(struct top_screen *screen, int key)
{
	switch (key) {
	case KEY_UP:
		scroll_rows(screen, -1);
		break;
	case KEY_DOWN:
		scroll_rows(screen, 1);
		break;
	case KEY_PAGE_UP:
		scroll_rows(screen, -10);
		break;
	case KEY_PAGE_DOWN:
		scroll_rows(screen, 10);
		break;
	case KEY_HOME:
		screen->scrolled = 0;
		break;
	case KEY_END:
		screen->scrolled = screen->shown;
		break;
	case KEY_LEFT:
		if (screen->first > TOP_FIRST)
			screen->first = (enum top_column)(screen->first - 1);
		break;
	default:
		if (screen->first < TOP_LAST)
			screen->first = (enum top_column)(screen->first + 1);
		break;
	}
}

bool top_screen_key(struct top_screen *screen, int key)
{
	screen->message[0] = '\0';
	if (screen->typing) {
		type_key(screen, key);
		return true;
	}
	if (screen->help && key != 'q' && key != KEY_INTERRUPT) {
		screen->help = false;
		return true;
	}
	if (key >= KEY_UP && key <= KEY_PAGE_DOWN) {
		move_key(screen, key);
		return true;
	}
	return command_key(screen, key);
}
