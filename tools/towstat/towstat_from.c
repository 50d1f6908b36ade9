/*
 * towstat_from.c - prints what an ended job has left: the newest file of each rank's flight
 * recorder (flight_dir). The files have the verdict as their rank knew it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <towline/stats.h>

#include "tools/common/words.h"
#include "tools/towstat/fr_trace.h"
#include "tools/towstat/towstat.h"
#include "tools/towstat/why_waits.h"

#define RANKS_MAX  4096u
#define FILE_BYTES (64ll << 20)
#define JOB_BYTES  65
#define EARLIER_S  600

/* The newest file of a rank. */
struct last_word {
	long rank;
	struct timespec when;
	char job[JOB_BYTES], name[256];
	json_t *document; /* NULL: the file cannot be read */
};

struct last_words {
	struct last_word *rows;
	size_t count, missed; /* files without room */
};

static long long number_of(const json_t *object, const char *key)
{
	return (long long)json_integer_value(json_object_get(object, key));
}

/* Parses flight.JOB.RANK.N.json, where JOB may have dots. Returns 0, or -1 for another name. */
static int read_name(const char *name, struct last_word *out)
{
	static const char head[] = "flight.", tail[] = ".json";
	size_t bytes = strlen(name), used = sizeof(head) - 1;
	const char *number, *rank, *end = name + bytes - (sizeof(tail) - 1);
	char *stop;

	if (bytes <= used + sizeof(tail) || bytes >= sizeof(out->name) ||
	    strncmp(name, head, used) != 0 || strcmp(end, tail) != 0)
		return -1;
	for (number = end - 1; number > name && *number != '.'; number--)
		continue;
	for (rank = number - 1; rank > name && *rank != '.'; rank--)
		continue;
	if (rank <= name + used || rank - (name + used) >= JOB_BYTES || rank[1] < '0' ||
	    rank[1] > '9')
		return -1;
	errno = 0;
	out->rank = strtol(rank + 1, &stop, 10);
	if (errno != 0 || stop != number || out->rank > INT32_MAX)
		return -1;
	snprintf(out->job, sizeof(out->job), "%.*s", (int)(rank - (name + used)), name + used);
	snprintf(out->name, sizeof(out->name), "%s", name);
	return 0;
}

static int is_newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec >= b->tv_nsec;
}

/* Adds the file of a rank that has none yet, or replaces an older one. */
static void keep_file(struct last_words *words, const struct last_word *word)
{
	for (size_t i = 0; i < words->count; i++) {
		struct last_word *row = &words->rows[i];

		if (row->rank != word->rank || strcmp(row->job, word->job) != 0)
			continue;
		if (is_newer(&word->when, &row->when))
			*row = *word;
		return;
	}
	if (words->count < RANKS_MAX)
		words->rows[words->count++] = *word;
	else
		words->missed++;
}

static int find_files(const char *folder, const char *job, struct last_words *words)
{
	const struct dirent *entry;
	DIR *dir = opendir(folder);

	if (dir == NULL) {
		fprintf(stderr, "towstat: %s: %s\n", folder, strerror(errno));
		return -1;
	}
	while ((entry = readdir(dir)) != NULL) {
		struct last_word word = { .rank = -1 };
		struct stat about;

		if (read_name(entry->d_name, &word) != 0 ||
		    (job != NULL && strcmp(job, word.job) != 0) ||
		    fstatat(dirfd(dir), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISREG(about.st_mode))
			continue;
		word.when = about.st_mtim;
		keep_file(words, &word);
	}
	closedir(dir);
	return 0;
}

/*
 * Drops files of an earlier run of the job. A rank that left no file this time may have an older
 * one there. Files that are EARLIER_S older than the newest are taken for such files.
 */
static void drop_earlier(const char *folder, struct last_words *words)
{
	size_t kept = 0, count = words->count;
	time_t newest = 0;

	for (size_t i = 0; i < count; i++)
		if (words->rows[i].when.tv_sec > newest)
			newest = words->rows[i].when.tv_sec;
	for (size_t i = 0; i < count; i++)
		if (words->rows[i].when.tv_sec > newest - EARLIER_S)
			words->rows[kept++] = words->rows[i];
	words->count = kept;
	if (kept < count)
		fprintf(stderr,
			"towstat: %zu files of %s are older than the newest by %d minutes, and "
			"left "
			"out: they are of an earlier run\n",
			count - kept, folder, EARLIER_S / 60);
}

/* Reads a file, or prints why it cannot. */
static void read_file(const char *folder, struct last_word *word)
{
	int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = dir >= 0 ? openat(dir, word->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
	json_error_t error = { .text = "" };
	struct stat about;

	if (fd < 0 || fstat(fd, &about) != 0)
		snprintf(error.text, sizeof(error.text), "%s", strerror(errno));
	else if (about.st_size > FILE_BYTES)
		snprintf(error.text, sizeof(error.text), "it is larger than 64 MiB");
	else
		word->document = json_loadfd(fd, JSON_REJECT_DUPLICATES, &error);
	if (word->document != NULL && !json_is_object(word->document)) {
		json_decref(word->document);
		word->document = NULL;
		snprintf(error.text, sizeof(error.text), "it is no object");
	}
	if (word->document == NULL) {
		char name[256], why[256];

		words_clean(name, sizeof(name), word->name);
		words_clean(why, sizeof(why), error.text);
		fprintf(stderr, "towstat: %s: %s\n", name, why);
	}
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
}

static int compare_words(const void *a, const void *b)
{
	const struct last_word *one = a, *other = b;
	int order = strcmp(one->job, other->job);

	return order != 0 ? order : one->rank < other->rank ? -1 : one->rank > other->rank;
}

/* Reads the files of one job, in the order of their ranks, or prints why it cannot. */
static int read_words(const char *folder, const char *job, struct last_words *words)
{
	char one[JOB_BYTES], other[JOB_BYTES];

	if (find_files(folder, job, words) != 0)
		return -1;
	if (words->count == 0) {
		fprintf(stderr, "towstat: %s has no file of a flight recorder%s%s\n", folder,
			job != NULL ? " of job " : "", job != NULL ? job : "");
		return -1;
	}
	qsort(words->rows, words->count, sizeof(words->rows[0]), compare_words);
	if (strcmp(words->rows[0].job, words->rows[words->count - 1].job) != 0) {
		words_clean(one, sizeof(one), words->rows[0].job);
		words_clean(other, sizeof(other), words->rows[words->count - 1].job);
		fprintf(stderr, "towstat: %s has files of several jobs: name one (%s, %s)\n",
			folder, one, other);
		return -1;
	}
	drop_earlier(folder, words);
	for (size_t i = 0; i < words->count; i++)
		read_file(folder, &words->rows[i]);
	return 0;
}

/* --- all files together --- */

static const struct last_word *word_of(const struct last_words *words, long rank)
{
	for (size_t i = 0; i < words->count; i++)
		if (words->rows[i].rank == rank && words->rows[i].document != NULL)
			return &words->rows[i];
	return NULL;
}

/* The verdict with the most ranks that answered; NULL: no rank had asked for one. */
static const json_t *best_verdict(const struct last_words *words)
{
	const json_t *best = NULL;

	for (size_t i = 0; i < words->count; i++) {
		const json_t *verdict = json_object_get(words->rows[i].document, "towline_verdict");

		if (json_is_object(verdict) &&
		    (best == NULL ||
		     number_of(verdict, "ranks_answered") > number_of(best, "ranks_answered")))
			best = verdict;
	}
	return best;
}

/* The number of collectives of a group that a rank has begun; -1: its file does not say. */
static long long begun_of(const struct last_word *word, const char *group)
{
	const json_t *status = json_object_get(json_object_get(word->document, "pg_status"), group);

	return json_is_object(status) ? number_of(status, "last_enqueued_collective") : -1;
}

/* Prints the ranks of the job without a file, by the members of its groups. Returns how many. */
static size_t print_missing(const struct last_words *words)
{
	json_t *group = NULL, *ranks;
	size_t missing = 0;

	for (size_t i = 0; i < words->count && group == NULL; i++)
		group = json_object_get(json_object_get(words->rows[i].document, "pg_config"), "0");
	ranks = json_loads(json_is_string(json_object_get(group, "ranks"))
				   ? json_string_value(json_object_get(group, "ranks"))
				   : "[]",
			   0, NULL);
	for (size_t i = 0; i < json_array_size(ranks); i++) {
		long rank = (long)json_integer_value(json_array_get(ranks, i));

		if (word_of(words, rank) != NULL)
			continue;
		if (missing++ < 16)
			printf("%s%ld", missing == 1 ? "no file of rank " : ", ", rank);
	}
	if (missing > 16)
		printf(" and %zu more", missing - 16);
	if (missing > 0)
		printf("\n");
	json_decref(ranks);
	return missing;
}

/* Prints what failed there last, or was under way. */
static void print_word(const struct last_word *word)
{
	const json_t *entries = json_object_get(word->document, "entries"), *entry, *shown = NULL;
	const char *status = NULL, *group;
	size_t i;

	json_array_foreach(entries, i, entry)
	{
		const char *text = json_string_value(json_object_get(entry, "status"));

		if (text != NULL && strcmp(text, "TOW_OK") == 0)
			continue;
		shown = entry;
		status = text;
	}
	group = group_of_entry(shown);
	printf("rank %ld: ", word->rank);
	if (shown == NULL) {
		printf("no operation has failed there, and none was in flight\n");
		return;
	}
	print_clean(json_string_value(json_object_get(shown, "profiling_name")));
	printf(" %lld of ", number_of(shown, json_is_true(json_object_get(shown, "is_p2p"))
						     ? "p2p_seq_id"
						     : "collective_seq_id"));
	print_clean(group != NULL ? group : "no group");
	printf(": ");
	print_clean(status != NULL ? status : "under way");
	printf("\n");
}

/* Prints ranks that have begun fewer collectives of a group than others. Returns how many rows. */
static size_t print_behind(const struct last_words *words)
{
	const json_t *groups = json_object_get(words->rows[0].document, "pg_status");
	const char *name;
	json_t *status;
	size_t found = 0;

	json_object_foreach((json_t *)groups, name, status)
	{
		long long most = -1, begun;

		for (size_t i = 0; i < words->count; i++) {
			begun = begun_of(&words->rows[i], name);
			most = begun > most ? begun : most;
		}
		for (size_t i = 0; i < words->count; i++) {
			begun = begun_of(&words->rows[i], name);
			if (begun < 0 || begun == most)
				continue;
			printf("rank %ld has begun %lld operations of group ", words->rows[i].rank,
			       begun);
			print_clean(name);
			printf(", others %lld\n", most);
			found++;
		}
	}
	return found;
}

static int print_words(const struct last_words *words)
{
	const json_t *verdict = best_verdict(words);
	size_t missing, behind;

	print_clean(words->rows[0].job);
	printf(": files of %zu rank%s\n", words->count, words->count == 1 ? "" : "s");
	if (words->missed > 0)
		printf("%zu more are not read\n", words->missed);
	missing = print_missing(words);
	for (size_t i = 0; i < words->count; i++)
		if (words->rows[i].document != NULL)
			print_word(&words->rows[i]);
	behind = print_behind(words);
	if (verdict != NULL) {
		printf("the newest verdict: ");
		return print_verdict(verdict);
	}
	return behind > 0 ? VERDICT_FOUND : missing > 0 ? VERDICT_PARTIAL : VERDICT_NOBODY;
}

/* Prints all files unchanged, in one array. */
static int dump_words(const struct last_words *words)
{
	const json_t *verdict = best_verdict(words);
	json_t *list = json_array();

	for (size_t i = 0; i < words->count; i++)
		if (words->rows[i].document != NULL)
			json_array_append(list, words->rows[i].document);
	if (dump_json(list) != 0) {
		json_decref(list);
		return 1;
	}
	json_decref(list);
	return verdict != NULL ? (int)verdict_status_of(verdict) : VERDICT_NOBODY;
}

/* Writes a file of each rank for PyTorch's analyzer. */
static int write_words(const struct last_words *words, const char *out)
{
	size_t written = 0, left_out = 0;

	for (size_t i = 0; i < words->count; i++) {
		const struct last_word *word = &words->rows[i];

		if (word->document == NULL)
			continue;
		if (fr_trace_write(out, word->rank, word->document, &left_out) != 0)
			return 1;
		written++;
	}
	printf("%zu of %zu ranks: python -m torch.distributed.flight_recorder.fr_trace %s\n",
	       written, words->count, out);
	if (left_out > 0)
		printf("%zu entries are left out, which do not name both ranks or a group that is "
		       "known\n",
		       left_out);
	return written > 0 ? 0 : 1;
}

/* Prints the files, or writes them into folder `out` when it is not NULL. */
static int show_or_write_files(const char *folder, const char *job, int json, const char *out)
{
	struct last_words words = { .rows = calloc(RANKS_MAX, sizeof(struct last_word)) };
	int status = 1;

	if (words.rows == NULL)
		fprintf(stderr, "towstat: no memory\n");
	else if (read_words(folder, job, &words) == 0)
		status = out != NULL ? write_words(&words, out)
			 : json      ? dump_words(&words)
				     : print_words(&words);
	for (size_t i = 0; i < words.count; i++)
		json_decref(words.rows[i].document);
	free(words.rows);
	return status;
}

int show_last_words(const char *folder, const char *job, int json)
{
	return show_or_write_files(folder, job, json, NULL);
}

int write_last_words(const char *folder, const char *job, const char *out)
{
	return show_or_write_files(folder, job, 0, out);
}

void tell_kept(const char *job)
{
	struct last_words words = { .rows = calloc(RANKS_MAX, sizeof(struct last_word)) };
	const char *named = getenv("TOW_STATS_DIR");
	char dir[256], folder[264];

	if (named != NULL && named[0] != '\0')
		snprintf(dir, sizeof(dir), "%s", named);
	else if (tow_stats_dir(dir, sizeof(dir)) < 0)
		dir[0] = '\0';
	snprintf(folder, sizeof(folder), "%s/flight", dir);
	if (words.rows != NULL && dir[0] != '\0' && access(folder, R_OK) == 0 &&
	    find_files(folder, job, &words) == 0 && words.count > 0)
		fprintf(stderr,
			"the last state of its ranks is in files there: towstat verdict --from "
			"%s %s\n",
			folder, job);
	free(words.rows);
}
