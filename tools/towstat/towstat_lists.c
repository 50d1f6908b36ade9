/*
 * towstat_lists.c - prints the library's own lists as text, markdown or a man page.
 *
 * docs/knobs.md and docs/counters.md are this output, and a test compares them.
 */
#include <stdio.h>
#include <string.h>

#include <towline/towline.h>

#include "tools/towstat/towstat.h"

static const char generated[] = "<!-- Printed by `towstat %s --markdown`: do not edit. -->\n\n";

/* Prints a cell of a table. A | is escaped, as it would end the cell. */
static void print_cell(const char *text)
{
	putchar(' ');
	for (; *text != '\0'; text++) {
		if (*text == '|')
			putchar('\\');
		if (*text == '<')
			fputs("&lt;", stdout);
		else
			putchar(*text);
	}
	fputs(" |", stdout);
}

static void print_row(const char *const *cells, size_t count)
{
	putchar('|');
	for (size_t i = 0; i < count; i++)
		print_cell(cells[i]);
	putchar('\n');
}

static void print_head(const char *const *cells, size_t count)
{
	print_row(cells, count);
	putchar('|');
	for (size_t i = 0; i < count; i++)
		fputs(" --- |", stdout);
	putchar('\n');
}

/* Prints roff. A backslash is an escape there, and a dot or quote in front is a request. */
static void print_roff(const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", stdout);
	for (; *text != '\0'; text++) {
		if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '-')
			fputs("\\-", stdout);
		else
			putchar(*text);
	}
}

static const char *text_or_none(const char *text)
{
	return text[0] != '\0' ? text : "(empty)";
}

static void print_knob_man(const struct tow_knob_info *knob)
{
	printf(".TP\n.B ");
	print_roff(knob->name);
	printf("\n");
	print_roff(knob->help);
	printf(".\n.br\nEnvironment: ");
	print_roff(knob->env);
	printf("; type: %s; default: ", knob->unit);
	print_roff(text_or_none(knob->def));
	if (knob->min[0] != '\0' && strcmp(knob->unit, "bool") != 0) {
		printf("; from ");
		print_roff(knob->min);
		printf(" to ");
		print_roff(knob->max);
	}
	printf(".\n");
}

static void print_knob(const struct tow_knob_info *knob, enum list_style style)
{
	char range[128] = "";
	char name[96];

	if (style == LIST_MAN) {
		print_knob_man(knob);
		return;
	}
	if (strcmp(knob->unit, "bool") == 0)
		snprintf(range, sizeof(range), "0, 1");
	else if (knob->min[0] != '\0')
		snprintf(range, sizeof(range), "%s .. %s", knob->min, knob->max);
	if (style == LIST_MARKDOWN) {
		const char *const cells[] = { name,  knob->env, knob->unit, text_or_none(knob->def),
					      range, knob->help };

		snprintf(name, sizeof(name), "`%s`", knob->name);
		print_row(cells, 6);
		return;
	}
	printf("%s (%s)\n    %s; default %s%s%s\n    %s\n", knob->name, knob->env, knob->unit,
	       text_or_none(knob->def), range[0] != '\0' ? "; " : "", range, knob->help);
}

void print_knobs(enum list_style style)
{
	static const char *const head[] = { "Knob",    "Environment", "Type",
					    "Default", "Range",       "What it is" };

	if (style == LIST_MARKDOWN) {
		printf("# Knobs\n\n");
		printf(generated, "knobs");
		printf("Each knob is a field of `struct tow_options` and an environment variable. "
		       "A field that is set\nwins over the environment, the environment over the "
		       "default. Values may have a suffix:\n`64KiB`, `2GiB`, `10us`, `5s`, `1k`, "
		       "`true`.\n\n"
		       "A variable TOW_... that is no knob, nor one of launchers, tests or "
		       "plugins\n"
		       "(`diag/knob/environment.def`), is a warning in the log of "
		       "`/v1/info`, with the knob\nthat is spelt most like it.\n\n");
		print_head(head, 6);
	} else if (style == LIST_MAN) {
		printf(".TH TOWLINE\\-KNOBS 7 \"\" \"Towline %s\"\n.SH NAME\n"
		       "towline\\-knobs \\- the knobs of a Towline runtime\n.SH DESCRIPTION\n"
		       "Each knob is a field of struct tow_options and an environment variable.\n"
		       "A field that is set wins over the environment, the environment over the "
		       "default.\nValues may have a suffix: 64KiB, 2GiB, 10us, 5s, 1k, true.\n"
		       ".SH KNOBS\n",
		       tow_version());
	}
	for (size_t i = 0; i < tow_knob_count(); i++) {
		struct tow_knob_info knob = { .size = sizeof(knob) };

		if (tow_knob_info(i, &knob) == TOW_OK)
			print_knob(&knob, style);
	}
	if (style == LIST_MAN)
		puts(".SH SEE ALSO\n.BR tow_options (3type),\n.BR tow_knob_info (3),\n"
		     ".BR towstat (1),\n.BR towline (7)");
}

size_t print_knobs_like(const char *part)
{
	size_t shown = 0;

	for (size_t i = 0; i < tow_knob_count(); i++) {
		struct tow_knob_info knob = { .size = sizeof(knob) };

		if (tow_knob_info(i, &knob) < 0 ||
		    (strcasestr(knob.name, part) == NULL && strcasestr(knob.env, part) == NULL))
			continue;
		print_knob(&knob, LIST_PLAIN);
		shown++;
	}
	return shown;
}

static void print_counter_rows(enum list_style style)
{
	static const char *const head[] = { "Counter", "Unit", "What it counts",
					    "Lanes that may differ" };
	struct tow_counter_info row = { .size = sizeof(row) };
	char name[96];

	if (style == LIST_MARKDOWN) {
		printf("## Counters\n\nIn `/v1/counters` by these names, in `/metrics` as "
		       "`towline_<name>_total`; those in ns are\nseconds there, "
		       "`wait_ns` is `towline_wait_seconds_total`. They only grow. What has no "
		       "lane in the last\ncolumn is the same on every lane for the same program. "
		       "Whose traffic a counter has, the user's, that\nof calls, of collectives, "
		       "or the library's own, its text says; copies and registrations are those "
		       "of the\nuser's payload, whatever carries it.\n\n");
		print_head(head, 4);
	} else {
		printf("COUNTERS\n");
	}
	for (size_t i = 0; tow_counter_info(i, &row) == TOW_OK; i++) {
		const char *const cells[] = { name, row.unit, row.help,
					      row.lanes != NULL ? row.lanes : "" };

		snprintf(name, sizeof(name), "`%s`", row.name);
		if (style == LIST_MARKDOWN)
			print_row(cells, 4);
		else if (row.lanes == NULL)
			printf("  %s (%s)\n      %s\n      same on every lane\n", row.name,
			       row.unit, row.help);
		else
			printf("  %s (%s)\n      %s\n      may differ: %s\n", row.name, row.unit,
			       row.help, row.lanes);
	}
}

static void print_reason_rows(enum list_style style)
{
	static const char *const head[] = { "Reason", "Of a", "What happened", "Cure" };
	struct tow_reason_info row = { .size = sizeof(row) };
	char name[96];

	if (style == LIST_MARKDOWN) {
		printf("\n## Reasons\n\nWhy bytes were copied though the lane's design needs no "
		       "copy, or memory was registered after\n`tow_runtime_seal`. The list is "
		       "closed: there are no other reasons.\n\n");
		print_head(head, 4);
	} else {
		printf("\nREASONS\n");
	}
	for (size_t i = 0; tow_reason_info(i, &row) == TOW_OK; i++) {
		const char *kind = strcmp(row.kind, "copy") == 0 ? "copy" : "late registration";
		const char *const cells[] = { name, kind, row.help, row.cure };

		snprintf(name, sizeof(name), "`%s`", row.name);
		if (style == LIST_MARKDOWN)
			print_row(cells, 4);
		else
			printf("  %s (%s)\n      %s\n      cure: %s\n", row.name, kind, row.help,
			       row.cure);
	}
}

static void print_status_rows(enum list_style style)
{
	static const char *const head[] = { "Status", "Value", "What it means" };
	struct tow_status_info row = { .size = sizeof(row) };
	char name[96], value[16];

	if (style == LIST_MARKDOWN) {
		printf("\n## Statuses\n\nWhat calls return: negative is a failure, zero is done, "
		       "positive is an outcome to look at.\n\n");
		print_head(head, 3);
	} else {
		printf("\nSTATUSES\n");
	}
	for (size_t i = 0; tow_status_info(i, &row) == TOW_OK; i++) {
		const char *const cells[] = { name, value, row.text };

		snprintf(name, sizeof(name), "`%s`", row.name);
		snprintf(value, sizeof(value), "%d", row.value);
		if (style == LIST_MARKDOWN)
			print_row(cells, 3);
		else
			printf("  %s (%d)\n      %s\n", row.name, row.value, row.text);
	}
}

void print_counters(enum list_style style)
{
	if (style == LIST_MARKDOWN) {
		printf("# Counters, reasons and statuses\n\n");
		printf(generated, "counters");
	}
	print_counter_rows(style);
	print_reason_rows(style);
	print_status_rows(style);
}

void print_lanes(void)
{
	struct tow_lane_info row = TOW_LANE_INFO_INIT;

	for (size_t i = 0; tow_lane_info(i, &row) == TOW_OK; i++)
		printf("%s (%s)\n    %s\n    here: %s\n", row.name, row.reach, row.help, row.local);
}
