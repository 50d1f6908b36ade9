/*
 * towstat_find.c - the runtimes of this host: every *.sock in the directories where they can be.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <towline/towline.h>

#include "http_unix.h"
#include "towstat.h"

static int seen(const struct runtime_list *list, const char *path)
{
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->rows[i].path, path) == 0)
			return 1;
	}
	return 0;
}

static void add(struct runtime_list *list, const char *path)
{
	struct runtime_entry *row = &list->rows[list->count];
	char *real = realpath(path, NULL);
	const char *name;
	struct stat st;

	if (real == NULL || lstat(real, &st) != 0 || !S_ISSOCK(st.st_mode) || seen(list, real) ||
	    strlen(real) >= sizeof(row->path)) {
		free(real);
		return;
	}
	if (list->count == RUNTIMES_MAX) {
		list->missed++;
		free(real);
		return;
	}
	name = strrchr(real, '/') + 1;
	snprintf(row->path, sizeof(row->path), "%s", real);
	snprintf(row->name, sizeof(row->name), "%.*s", (int)(strlen(name) - strlen(".sock")), name);
	row->live = http_is_live(real);
	list->count++;
	free(real);
}

static void add_all(struct runtime_list *list, const char *dir)
{
	char pattern[512];
	glob_t found;

	if (snprintf(pattern, sizeof(pattern), "%s/*.sock", dir) >= (int)sizeof(pattern))
		return;
	if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		add(list, found.gl_pathv[i]);
	globfree(&found);
}

static int by_path(const void *a, const void *b)
{
	const struct runtime_entry *left = a, *right = b;

	return strcmp(left->path, right->path);
}

int find_runtimes(struct runtime_list *out)
{
	const char *from_env = getenv("TOW_STATS_DIR");
	char own[256];

	*out = (struct runtime_list){ .rows = calloc(RUNTIMES_MAX, sizeof(*out->rows)) };
	if (out->rows == NULL) {
		fprintf(stderr, "towstat: no memory\n");
		return -1;
	}
	if (from_env != NULL && from_env[0] != '\0')
		add_all(out, from_env);
	if (tow_stats_dir(own, sizeof(own)) == TOW_OK)
		add_all(out, own);
	add_all(out, "/run/towline");
	add_all(out, "/run/user/*/towline");
	add_all(out, "/tmp/towline-*");
	qsort(out->rows, out->count, sizeof(*out->rows), by_path);
	return 0;
}

void runtime_list_fini(struct runtime_list *list)
{
	free(list->rows);
	*list = (struct runtime_list){ 0 };
}

/* NULL when there is none, or more than one; *matches_out says which. */
static const struct runtime_entry *pick(const struct runtime_list *list, const char *name,
					size_t *matches_out)
{
	const struct runtime_entry *found = NULL;

	*matches_out = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct runtime_entry *row = &list->rows[i];

		if (row->live != 0 && (name == NULL || strcmp(row->name, name) == 0)) {
			found = row;
			++*matches_out;
		}
	}
	return *matches_out == 1 ? found : NULL;
}

int find_target(const char *socket_path, const char *name, char *path_out, size_t path_size)
{
	const struct runtime_entry *row;
	struct runtime_list list;
	size_t matches;
	int bytes;

	if (socket_path != NULL) {
		bytes = snprintf(path_out, path_size, "%s", socket_path);
		return bytes > 0 && (size_t)bytes < path_size ? 0 : -1;
	}
	if (find_runtimes(&list) != 0)
		return -1;
	row = pick(&list, name, &matches);
	if (row != NULL)
		snprintf(path_out, path_size, "%s", row->path);
	else if (matches == 0 && name == NULL)
		fprintf(stderr, "towstat: no runtime lives here that you may see; is "
				"TOW_STATS_DIR set as it is for the program?\n");
	else if (matches == 0)
		fprintf(stderr,
			"towstat: no live runtime is called %s; `towstat list` shows "
			"them\n",
			name);
	else
		fprintf(stderr,
			"towstat: %zu runtimes live here; name one, or --socket PATH "
			"(`towstat list`)\n",
			matches);
	runtime_list_fini(&list);
	return row != NULL ? 0 : -1;
}
