/*
 * runtimes.c - finds runtimes by their stats sockets: by the name and the owner of the file.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/towline.h>

#include "tools/common/http_unix.h"
#include "tools/common/runtimes.h"
#include "tools/common/trust.h"

static int all_users;

void find_all_users(void)
{
	all_users = 1;
}

int finds_all_users(void)
{
	return all_users;
}

static int is_seen(const struct runtime_list *list, const char *path)
{
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->rows[i].path, path) == 0)
			return 1;
	}
	return 0;
}

/* True: the library allows this name for a job (listen.c). It has no control characters. */
static int is_job_name(const char *name, size_t bytes)
{
	return bytes > 0 && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") >=
		       bytes;
}

/*
 * True: "job.3" or "job.3-2". Other sockets of the library are in the directory, and must not be
 * called.
 */
static int is_stats_name(const char *name, size_t bytes)
{
	const char *dot = memrchr(name, '.', bytes);
	size_t at = dot != NULL ? (size_t)(dot - name) + 1 : bytes, digits = 0;

	if (dot == NULL || !is_job_name(name, (size_t)(dot - name)))
		return 0;
	if (at <= 1 || at >= bytes)
		return 0;
	for (at += name[at] == '-'; at < bytes; at++) {
		if (name[at] == '-' && digits > 0)
			digits = 0;
		else if (name[at] >= '0' && name[at] <= '9')
			digits++;
		else
			return 0;
	}
	return digits > 0;
}

void runtime_name_of(const char *name, struct runtime_name *out)
{
	const char *dot = strrchr(name, '.');
	char *end = NULL;

	*out = (struct runtime_name){ .rank = -1 };
	snprintf(out->job, sizeof(out->job), "%.*s",
		 (int)(dot != NULL ? (size_t)(dot - name) : strlen(name)), name);
	if (dot != NULL)
		out->rank = strtoll(dot + 1, &end, 10);
	if (end != NULL && *end == '-')
		snprintf(out->runtime, sizeof(out->runtime), "%s", end + 1);
}

/* The tools print a path, so a path with control characters is no path that they know. */
static int is_printable(const char *path)
{
	for (; *path != '\0'; path++) {
		if ((unsigned char)*path < 0x20 || (unsigned char)*path >= 0x7f)
			return 0;
	}
	return 1;
}

static void add_runtime(struct runtime_list *list, const char *path)
{
	struct runtime_entry *row = &list->rows[list->count];
	char *real = realpath(path, NULL);
	const char *name;
	size_t bytes;
	uid_t uid;

	/* Links are resolved first, because the directory of the file itself decides. */
	if (real == NULL || !is_printable(real) || !trust_socket(real, all_users, &uid) ||
	    is_seen(list, real) || strlen(real) >= sizeof(row->path)) {
		free(real);
		return;
	}
	name = strrchr(real, '/') + 1;
	bytes = strlen(name);
	if (bytes <= 5 || strcmp(name + bytes - 5, ".sock") != 0 ||
	    !is_stats_name(name, bytes - 5)) {
		free(real);
		return;
	}
	if (list->count == RUNTIMES_MAX) {
		list->missed++;
		free(real);
		return;
	}
	snprintf(row->path, sizeof(row->path), "%s", real);
	snprintf(row->name, sizeof(row->name), "%.*s", (int)(bytes - 5), name);
	row->live = -1;
	row->uid = uid;
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
		add_runtime(list, found.gl_pathv[i]);
	globfree(&found);
}

static int by_path(const void *a, const void *b)
{
	const struct runtime_entry *left = a, *right = b;

	return strverscmp(left->path, right->path); /* numeric order: rank 10 after rank 9 */
}

int find_sockets(struct runtime_list *out)
{
	const char *from_env = getenv("TOW_STATS_DIR");
	char own[256];

	*out = (struct runtime_list){ .rows = calloc(RUNTIMES_MAX, sizeof(*out->rows)) };
	if (out->rows == NULL) {
		fprintf(stderr, "towstat: no memory\n");
		return -1;
	}
	if (from_env != NULL && from_env[0] != '\0') { /* only the named directory */
		add_all(out, from_env);
	} else {
		if (tow_stats_dir(own, sizeof(own)) == TOW_OK)
			add_all(out, own);
		add_all(out, "/run/towline");
		add_all(out, "/run/user/*/towline");
		add_all(out, "/tmp/towline-*");
		add_all(out, "/dev/shm/towline-*");
	}
	qsort(out->rows, out->count, sizeof(*out->rows), by_path);
	return 0;
}

int find_runtimes(struct runtime_list *out)
{
	if (find_sockets(out) != 0)
		return -1;
	for (size_t i = 0; i < out->count; i++)
		out->rows[i].live = http_is_live(out->rows[i].path);
	return 0;
}

void runtime_list_fini(struct runtime_list *list)
{
	free(list->rows);
	*list = (struct runtime_list){ 0 };
}
