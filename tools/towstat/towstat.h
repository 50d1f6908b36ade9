/*
 * towstat.h - the parts of towstat: choosing runtimes, watching one, asking why, printing lists.
 */
#ifndef TOWSTAT_H
#define TOWSTAT_H

#include <jansson.h>
#include <limits.h>
#include <stddef.h>

#include "tools/common/runtimes.h"

/*
 * Whom a command is about: the runtime of that name (job.rank), or all live ones of the job of that
 * name; for NULL, all live ones, all of one job. JOB@STORE is the job that meets there, of
 * several of one name. Never none, nor of two jobs: prints why and returns -1.
 */
int find_targets(const char *socket_path, const char *name, struct runtime_list *out);

/* The same, for what is about one alone; prints why not. */
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
int run_dpdk(int argc, char **argv);
int run_ras(int argc, char **argv);
int run_explain(int argc, char **argv);
/* Becomes towbpf: returns only when there is none. */
int run_bpf(int argc, char **argv);

/* The folder of this program, where the other tools lie; "" when it cannot be known. */
void own_folder(char out[PATH_MAX]);

/* Sleeps; signals do not shorten it. */
void nap(double seconds);

struct list_options {
	const char *job; /* NULL: of all jobs */
	int all;         /* also what ended processes have left */
	int sweep;       /* takes that away first */
};

/* Who there is; the exit status. */
int list_runtimes(const struct list_options *options);

/*
 * Where the ranks of a job meet, by its /v1/bootstrap: what tells jobs of one name apart. "": it
 * has no group, or nothing is known.
 */
const char *store_of(const json_t *bootstrap);

struct watch_options {
	double seconds;
	long count; /* 0: until the runtime ends */
};

/* Rates of all of them together. */
int watch(const struct runtime_list *targets, const struct watch_options *options);

/* A document, to be given to json_decref; NULL, having said why. */
json_t *fetch_json(const char *socket_path, const char *path);

/*
 * The document of each of them, asked side by side; NULL of those that do not answer within 2 s.
 * The array goes to fetched_free with the number of targets; NULL: no memory.
 */
json_t **fetch_all(const struct runtime_list *targets, const char *path);
void fetched_free(json_t **all, size_t count);

/* Info, counters and latencies in one object; as fetch_json. */
json_t *fetch_snapshot(const char *socket_path);

/* Above what is said of one of several; nothing where there is one alone. */
void print_heading(const struct runtime_list *targets, size_t index);

/* What is said of a runtime in an array of several: name, job, rank, and its user where asked. */
json_t *row_of_runtime(const struct runtime_entry *entry);

/* Of /v1/coll: groups of other libraries, as tables. */
void print_foreign_groups(json_t *document);

/* Collectives, as tables; the exit status. */
int show_collectives(const struct runtime_list *targets);

struct why_options {
	long count; /* places shown of each kind; 0: 10 */
	int json;
};

/* What was copied or registered late, and why; 1 when one of them does not answer. */
int show_why(const struct runtime_list *targets, const struct why_options *options);
/* Of all ranks, whatever their job. */
int show_why_all(const struct why_options *options);
/*
 * The same of one as a document: info, copies, registrations, pool, and, with_waits, what it waits
 * for. NULL: it has not answered, as was printed.
 */
json_t *fetch_why(const char *socket_path, int with_waits);

/*
 * Why the job of these runtimes does not go on, or is slow, as the one says that knows most of it;
 * where each knows itself alone, as each says. The exit status is one of the list.
 */
int show_verdict(const struct runtime_list *targets, int json);
/* What the verdicts on the job were in the last `seconds`; the exit status, as of show_verdict. */
int show_history(const struct runtime_list *targets, double seconds, int json);
/* A finding, with its evidence and what mends it; each line behind `indent`. */
void print_finding(const char *indent, const json_t *finding);

/*
 * X(exit status, name, what it says), the gravest first: where several runtimes speak for
 * themselves, it is the gravest of what they say. `towstat --help` and docs/verdict.md have all.
 */
#define VERDICT_STATUS_MAP(X)                                                                      \
	X(3, FOUND, "something was found, and somebody is named")                                  \
	X(5, PARTIAL, "ranks have not answered, or have not come")                                 \
	X(4, NOBODY, "the job is stuck or slow, and nobody is named")                              \
	X(0, HEALTHY, "all ranks have answered, and nothing was found")
enum verdict_status {
#define VERDICT_STATUS(status, name, says) VERDICT_##name = status,
	VERDICT_STATUS_MAP(VERDICT_STATUS)
#undef VERDICT_STATUS
};
/* What the flight recorders of an ended job have left in `folder`; job NULL: the only one. */
int show_last_words(const char *folder, const char *job, int json);
/* Says where such files of the job are kept by default, if there are any. */
void tell_kept(const char *job);
/* Writes the same into folder `out`, for PyTorch's fr_trace. */
int write_last_words(const char *folder, const char *job, const char *out);
/*
 * The verdict on the job of these runtimes: one document, or, where each knows itself alone, an
 * array of rows with name, job, rank and document. NULL: none of them has answered, as was printed.
 */
json_t *find_verdict(const struct runtime_list *targets);
/* Where the threads of these are, by their stacks where stacks_signal allows it; 0, or 1. */
int show_stacks(const struct runtime_list *targets);
/* Of ranks on this host that the verdict on a job that is stuck names; `of` is one of the job. */
void print_named_stacks(const struct runtime_entry *of, const json_t *root);

/* The status of what find_verdict returns; of rows it is the gravest. */
enum verdict_status verdict_status_of_all(const json_t *found);
/* A verdict, for people; the status of one. */
int print_verdict(const json_t *root);
/* Its first line, without the findings. */
void print_verdict_head(const json_t *root);
enum verdict_status verdict_status_of(const json_t *root);
/* 0, or 1, having said that it cannot be written. */
int dump_json(const json_t *root);
/* The process that listens at a socket, by the number that it has here; 0: not known. */
long pid_of_listener(const char *path);
/* Of ranks that are joined by groups of another library alone, judged here; NULL: they are not. */
json_t *join_verdict(const struct runtime_list *targets);

/* Fetches an allocation log; seconds -1: as the runtime likes. Returns the exit status. */
int fetch_alloclog(const char *socket_path, long seconds, const char *output_path);

enum list_style { LIST_PLAIN, LIST_MARKDOWN, LIST_MAN };
void print_knobs(enum list_style style);
/* Those with `part` in their name or variable, in either case. How many. */
size_t print_knobs_like(const char *part);
void print_counters(enum list_style style);
void print_lanes(void);

#endif
