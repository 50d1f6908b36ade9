/*
 * towstat_targets.c - finds the runtimes that a command is about: one runtime, or all ranks of a
 * job.
 *
 * The commands of docs/overview.md for a running job must work on jobs of any size, beside other
 * jobs. So a name is that of a runtime or of a job. Without a name, the only job that lives here is
 * meant.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/trust.h"
#include "tools/common/words.h"
#include "tools/towstat/towstat.h"

#define NAMES_SHOWN 8
#define USER_BYTES  64

static int same_job(const struct runtime_entry *a, const struct runtime_entry *b)
{
	struct runtime_name left, right;

	runtime_name_of(a->name, &left);
	runtime_name_of(b->name, &right);
	return a->uid == b->uid && strcmp(left.job, right.job) == 0;
}

static int is_called(const struct runtime_entry *row, const char *name, int as_job)
{
	struct runtime_name parts;

	if (name == NULL)
		return 1;
	if (!as_job)
		return strcmp(row->name, name) == 0;
	runtime_name_of(row->name, &parts);
	return strcmp(parts.job, name) == 0;
}

/* Keeps the rows of that name, and returns how many. Without any the list is unchanged. */
static size_t keep_named(struct runtime_list *list, const char *name, int as_job)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (is_called(&list->rows[i], name, as_job))
			kept++;
	}
	if (kept == 0)
		return 0;
	kept = 0;
	for (size_t i = 0; i < list->count; i++) {
		if (is_called(&list->rows[i], name, as_job))
			list->rows[kept++] = list->rows[i];
	}
	list->count = kept;
	return kept;
}

static void drop_dead(struct runtime_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (list->rows[i].live != 0)
			list->rows[kept++] = list->rows[i];
	}
	list->count = kept;
}

/* Prints the job's name, and with --all-users its user. */
static void print_job(const struct runtime_entry *row)
{
	struct runtime_name parts;
	char user[USER_BYTES];

	runtime_name_of(row->name, &parts);
	fprintf(stderr, "%s", parts.job);
	if (finds_all_users()) {
		trust_name(row->uid, user, sizeof(user));
		fprintf(stderr, " of %s", user);
	}
}

/* Prints the names of several jobs, each once. */
static int several_jobs(const struct runtime_list *list)
{
	size_t shown = 0;

	fprintf(stderr, "towstat: several jobs run here: ");
	for (size_t i = 0; i < list->count && shown < NAMES_SHOWN; i++) {
		size_t before = 0;

		while (before < i && !same_job(&list->rows[before], &list->rows[i]))
			before++;
		if (before < i)
			continue;
		if (shown++ > 0)
			fprintf(stderr, ", ");
		print_job(&list->rows[i]);
	}
	fprintf(stderr, "%s; name one, or one of its ranks, or --socket PATH (`towstat list`)\n",
		shown == NAMES_SHOWN ? " ..." : "");
	return -1;
}

const char *store_of(const json_t *bootstrap)
{
	const char *store = json_string_value(json_object_get(bootstrap, "store"));

	return store != NULL ? store : "";
}

/* Prints several jobs of one name, each once, as JOB@STORE with its ranks. */
static int several_of_name(const struct runtime_list *list, const char *const *stores)
{
	size_t shown = 0;

	fprintf(stderr, "towstat: several jobs have this name:");
	for (size_t i = 0; i < list->count && shown < NAMES_SHOWN; i++) {
		struct runtime_name parts;
		char clean[USER_BYTES * 2];
		size_t before = 0;

		while (before < i && strcmp(stores[before], stores[i]) != 0)
			before++;
		if (before < i || stores[i][0] == '\0')
			continue;
		runtime_name_of(list->rows[i].name, &parts);
		words_clean(clean, sizeof(clean), stores[i]);
		fprintf(stderr, "%s %s@%s, which is", shown++ > 0 ? ";" : "", parts.job, clean);
		for (size_t k = i; k < list->count; k++) {
			if (strcmp(stores[k], stores[i]) == 0)
				fprintf(stderr, " %s", list->rows[k].name);
		}
	}
	fprintf(stderr, "%s; name one like this, or one of the ranks\n",
		shown == NAMES_SHOWN ? " ..." : "");
	return -1;
}

/*
 * Two jobs of one name have two runtimes of one rank. Otherwise the runtimes need not be asked for
 * their store.
 */
static int has_rank_twice(const struct runtime_list *list)
{
	struct runtime_name one, other;

	for (size_t i = 0; i < list->count; i++) {
		runtime_name_of(list->rows[i].name, &one);
		for (size_t k = i + 1; k < list->count; k++) {
			runtime_name_of(list->rows[k].name, &other);
			if (one.rank == other.rank)
				return 1;
		}
	}
	return 0;
}

/* Keeps the ranks that meet at `store`. With store = NULL all ranks must be of one job. */
static int keep_store(struct runtime_list *list, const char *store)
{
	json_t **documents = fetch_all(list, "/v1/bootstrap");
	const char **stores = calloc(list->count + 1, sizeof(*stores)), *first = "";
	size_t kept = 0, count = list->count;
	int status = 0;

	for (size_t i = 0; documents != NULL && stores != NULL && i < count; i++) {
		stores[i] = store_of(documents[i]);
		if (first[0] == '\0')
			first = stores[i];
		else if (stores[i][0] != '\0' && strcmp(stores[i], first) != 0)
			status = -1;
	}
	if (documents == NULL || stores == NULL) {
		fprintf(stderr, "towstat: no memory\n");
		status = -1;
	} else if (store == NULL && status != 0) {
		several_of_name(list, stores);
	} else if (store != NULL) {
		for (size_t i = 0; i < count; i++) {
			if (strcmp(stores[i], store) == 0)
				list->rows[kept++] = list->rows[i];
		}
		list->count = kept;
		status = 0;
	}
	fetched_free(documents, count);
	free(stores);
	return status;
}

static int none_called(const char *name)
{
	if (name == NULL)
		fprintf(stderr,
			"towstat: there is no live runtime here that you may see; is "
			"TOW_STATS_DIR set as it is for the program?%s\n",
			finds_all_users() ? "" : " Of other users: --all-users");
	else
		fprintf(stderr,
			"towstat: no live runtime or job is called %s; `towstat list` shows them\n",
			name);
	if (name != NULL)
		tell_kept(name);
	return -1;
}

/* Takes a path as the runtime; nothing is looked up. */
static int from_path(const char *socket_path, struct runtime_list *out)
{
	struct runtime_entry *row;
	const char *slash = strrchr(socket_path, '/');
	const char *name = slash != NULL ? slash + 1 : socket_path;
	size_t bytes = strlen(name);

	*out = (struct runtime_list){ .rows = calloc(1, sizeof(*out->rows)), .count = 1 };
	if (out->rows == NULL || strlen(socket_path) >= sizeof(row->path)) {
		fprintf(stderr,
			"towstat: that is not the path of a socket, or there is no memory\n");
		runtime_list_fini(out);
		return -1;
	}
	row = &out->rows[0];
	row->live = 1;
	snprintf(row->path, sizeof(row->path), "%s", socket_path);
	if (bytes > 5 && strcmp(name + bytes - 5, ".sock") == 0)
		bytes -= 5;
	snprintf(row->name, sizeof(row->name), "%.*s", (int)(bytes < 127 ? bytes : 127), name);
	return 0;
}

/* A job may be called "a.0". A runtime of that name then comes first. */
static int keep_called(struct runtime_list *list, const char *name)
{
	char job[sizeof(list->rows->name)];
	const char *store = name != NULL ? strchr(name, '@') : NULL;

	if (store != NULL && (size_t)(store - name) < sizeof(job)) {
		snprintf(job, sizeof(job), "%.*s", (int)(store - name), name);
		if (keep_named(list, job, 1) == 0 || keep_store(list, store + 1) != 0 ||
		    list->count == 0)
			return none_called(name);
		return 0;
	}
	if (list->count == 0 || (keep_named(list, name, 0) == 0 && keep_named(list, name, 1) == 0))
		return none_called(name);
	return 0;
}

int find_targets(const char *socket_path, const char *name, struct runtime_list *out)
{
	int status;

	if (socket_path != NULL)
		return from_path(socket_path, out);
	if (find_runtimes(out) != 0)
		return -1;
	drop_dead(out);
	status = keep_called(out, name);
	for (size_t i = 1; status == 0 && i < out->count; i++) {
		if (!same_job(&out->rows[0], &out->rows[i]))
			status = several_jobs(out);
	}
	if (status == 0 && has_rank_twice(out))
		status = keep_store(out, NULL);
	if (status != 0)
		runtime_list_fini(out);
	return status;
}

int find_target(const char *socket_path, const char *name, char *path_out, size_t path_size)
{
	struct runtime_list list;
	int status = find_targets(socket_path, name, &list);

	if (status != 0)
		return -1;
	if (list.count > 1) {
		fprintf(stderr, "towstat: this is about one runtime; name one of");
		for (size_t i = 0; i < list.count && i < NAMES_SHOWN; i++)
			fprintf(stderr, " %s", list.rows[i].name);
		fprintf(stderr, "%s\n", list.count > NAMES_SHOWN ? " ..." : "");
		status = -1;
	}
	if (status == 0 && strlen(list.rows[0].path) >= path_size)
		status = -1;
	if (status == 0)
		snprintf(path_out, path_size, "%s", list.rows[0].path);
	runtime_list_fini(&list);
	return status;
}

void own_folder(char out[PATH_MAX])
{
	ssize_t bytes = readlink("/proc/self/exe", out, PATH_MAX - 1);
	char *slash;

	out[bytes > 0 ? bytes : 0] = '\0';
	slash = strrchr(out, '/');
	if (slash != NULL)
		*slash = '\0';
}

void print_heading(const struct runtime_list *targets, size_t index)
{
	if (targets->count > 1)
		printf("%s# %s\n", index > 0 ? "\n" : "", targets->rows[index].name);
}

json_t *row_of_runtime(const struct runtime_entry *entry)
{
	struct runtime_name parts;
	char user[USER_BYTES];
	json_t *row = json_object();

	runtime_name_of(entry->name, &parts);
	json_object_set_new(row, "name", json_string(entry->name));
	json_object_set_new(row, "job", json_string(parts.job));
	json_object_set_new(row, "rank", json_integer(parts.rank));
	if (finds_all_users()) {
		trust_name(entry->uid, user, sizeof(user));
		json_object_set_new(row, "user", json_string(user));
	}
	return row;
}
