/*
 * towstat.h - the parts of towstat: finding runtimes, watching one, asking why, printing the lists.
 */
#ifndef TOWSTAT_H
#define TOWSTAT_H

#include <jansson.h>
#include <stddef.h>

#define RUNTIMES_MAX 1024

struct runtime_entry {
	char path[256];
	char name[128]; /* the file's name without .sock: job.rank */
	int live;       /* 1, 0: its process has ended, -1: cannot be known */
};

struct runtime_list {
	size_t count, missed; /* missed: there was no room for more */
	struct runtime_entry *rows;
};

/* All stats sockets of this host that can be seen. -1 without memory. */
int find_runtimes(struct runtime_list *out);
void runtime_list_fini(struct runtime_list *list);

/* The socket of the runtime named, or of the only live one for NULL; prints why not. */
int find_target(const char *socket_path, const char *name, char *path_out, size_t path_size);

struct watch_options {
	double seconds;
	long count; /* 0: until the runtime ends */
};

int watch(const char *socket_path, const struct watch_options *options);

/* A document, to be given to json_decref; NULL, having said why. */
json_t *fetch_json(const char *socket_path, const char *path);

/* Collectives, as tables; the exit status. */
int show_collectives(const char *socket_path);

struct why_options {
	long count; /* places shown of each kind; 0: 10 */
	int json;
};

/* What was copied or registered late, and why; the exit status. */
int explain(const char *socket_path, const struct why_options *options);

/* Why the job of this runtime does not go on, or is slow; the exit status: this where it says so.
 */
#define VERDICT_FOUND 3
int show_verdict(const char *socket_path, int json);

/* Fetches an allocation log; seconds -1: as the runtime likes. Returns the exit status. */
int fetch_alloclog(const char *socket_path, long seconds, const char *output_path);

enum list_style { LIST_PLAIN, LIST_MARKDOWN, LIST_MAN };
void print_knobs(enum list_style style);
void print_counters(enum list_style style);

#endif
