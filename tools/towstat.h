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

/* All stats sockets of this host that can be seen; nobody is asked, so live is -1. -1: no memory.
 */
int find_sockets(struct runtime_list *out);
/* The same, and who lives. */
int find_runtimes(struct runtime_list *out);
void runtime_list_fini(struct runtime_list *list);

/* What a name says: job.rank, or job.rank-2 for the second runtime that has this rank. */
struct runtime_name {
	char job[128], runtime[16]; /* runtime: "" for the first */
	long long rank;
};
void runtime_name_of(const char *name, struct runtime_name *out);

/* The socket of the runtime named, or of the only live one for NULL; prints why not. */
int find_target(const char *socket_path, const char *name, char *path_out, size_t path_size);

#define EXIT_USAGE 2

/* Says what is wrong with the command line; the exit status for that. */
int misuse(const char *what, const char *which);

/* Numbers of the command line within bounds: 0, or -1. */
int read_number(const char *text, long least, long most, long *out);
int read_seconds(const char *text, double least, double most, double *out);

/* Commands with options of their own, argv[0] being their name; the exit status. */
int run_top(int argc, char **argv);
int run_export(int argc, char **argv);
int run_diff(int argc, char **argv);
int run_get(int argc, char **argv);
/* Becomes towbpf: returns only when there is none. */
int run_bpf(int argc, char **argv);

/* Sleeps; signals do not shorten it. */
void nap(double seconds);

struct watch_options {
	double seconds;
	long count; /* 0: until the runtime ends */
};

int watch(const char *socket_path, const struct watch_options *options);

/* A document, to be given to json_decref; NULL, having said why. */
json_t *fetch_json(const char *socket_path, const char *path);

/* Info, counters and latencies in one object; as fetch_json. */
json_t *fetch_snapshot(const char *socket_path);

/* Collectives, as tables; the exit status. */
int show_collectives(const char *socket_path);

struct why_options {
	long count; /* places shown of each kind; 0: 10 */
	int json;
};

/* What was copied or registered late, and why; the exit status. */
int explain(const char *socket_path, const struct why_options *options);
/* Of all ranks; 1 when one of them does not answer. */
int explain_all(const struct why_options *options);

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
