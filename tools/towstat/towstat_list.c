/*
 * towstat_list.c - lists the living runtimes of this host, and with --all the sockets that ended
 * runtimes have left.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/sweep.h"
#include "tools/common/trust.h"
#include "tools/common/words.h"
#include "tools/towstat/towstat.h"

#define STORE_WIDTH 21 /* of an IPv4 address and a port */

static void print_age(json_int_t ns)
{
	long long s = ns / 1000000000;

	if (s < 120)
		printf("%8llds", s);
	else if (s < 7200)
		printf("%8lldm", s / 60);
	else
		printf("%8lldh", s / 3600);
}

static void print_name(const struct runtime_entry *row)
{
	char user[32];

	printf("%-24s ", row->name);
	if (!finds_all_users())
		return;
	trust_name(row->uid, user, sizeof(user));
	printf("%-12s ", user);
}

static void print_text(const char *text, int width)
{
	char clean[64];

	words_clean(clean, sizeof(clean), text != NULL && *text != '\0' ? text : "-");
	printf("%-*.*s ", width, width, clean);
}

static void print_runtime(const struct runtime_entry *row, const json_t *info,
			  const json_t *bootstrap)
{
	const char *store = store_of(bootstrap);

	print_name(row);
	if (info == NULL) {
		printf("%-7s %8s %-8s %9s  %-*s %-20s %s\n",
		       row->live == 0  ? "stale"
		       : row->live < 0 ? "denied"
				       : "silent",
		       "-", "-", "-", STORE_WIDTH, "-", "-", row->path);
		return;
	}
	printf("%-7s %8lld ", "live", (long long)json_integer_value(json_object_get(info, "pid")));
	print_text(json_string_value(json_object_get(info, "version")), 8);
	print_age(json_integer_value(json_object_get(info, "uptime_ns")));
	printf("  ");
	print_text(store, (int)(strlen(store) > STORE_WIDTH ? strlen(store) : STORE_WIDTH));
	print_text(json_string_value(json_object_get(info, "program")), 20);
	printf("%s\n", row->path);
}

static void print_head(void)
{
	printf("%-24s ", "NAME");
	if (finds_all_users())
		printf("%-12s ", "USER");
	printf("%-7s %8s %-8s %9s  %-*s %-20s %s\n", "STATE", "PID", "VERSION", "AGE", STORE_WIDTH,
	       "STORE", "PROGRAM", "SOCKET");
}

/* Keeps the rows to show. Returns how many ended runtimes are hidden. */
static size_t leave_wanted(struct runtime_list *list, const struct list_options *options)
{
	size_t kept = 0, hidden = 0;

	for (size_t i = 0; i < list->count; i++) {
		struct runtime_name name;

		runtime_name_of(list->rows[i].name, &name);
		if (options->job != NULL && strcmp(name.job, options->job) != 0)
			continue;
		if (list->rows[i].live == 0 && !options->all)
			hidden++;
		else
			list->rows[kept++] = list->rows[i];
	}
	list->count = kept;
	return hidden;
}

static void print_list(const struct runtime_list *list)
{
	json_t **infos = fetch_all(list, "/v1/info"),
	       **bootstraps = fetch_all(list, "/v1/bootstrap");

	if (list->count > 0)
		print_head();
	for (size_t i = 0; i < list->count; i++)
		print_runtime(&list->rows[i], infos != NULL ? infos[i] : NULL,
			      bootstraps != NULL ? bootstraps[i] : NULL);
	fetched_free(infos, list->count);
	fetched_free(bootstraps, list->count);
}

int list_runtimes(const struct list_options *options)
{
	struct runtime_list list;
	size_t hidden;

	if (options->sweep)
		fprintf(stderr, "towstat: %zu sockets of ended processes are taken away\n",
			sweep_sockets(options->job, 0));
	if (find_runtimes(&list) != 0)
		return 1;
	hidden = leave_wanted(&list, options);
	print_list(&list);
	if (list.count == 0)
		fprintf(stderr, "towstat: no runtimes found\n");
	if (hidden > 0)
		fprintf(stderr,
			"towstat: %zu sockets of ended processes are not shown; --all shows them, "
			"--sweep takes away those of ended jobs\n",
			hidden);
	if (list.missed > 0)
		fprintf(stderr, "towstat: %zu more are not shown\n", list.missed);
	runtime_list_fini(&list);
	return 0;
}
