/*
 * towstat.h - the functions that the commands of towstat share: targets, documents, verdicts,
 * lists.
 */
#ifndef TOWSTAT_H
#define TOWSTAT_H

#include <jansson.h>
#include <limits.h>
#include <stddef.h>

#include "tools/common/runtimes.h"

/*
 * Finds the runtimes that a command is about. `name` is a runtime (job.rank) or a job, whose live
 * ranks are all meant. NULL is the only job that lives here. JOB@STORE is the job that meets at
 * that store, where several jobs have one name. The list is never empty and has ranks of one job
 * only. Otherwise the function prints why and returns -1.
 */
int find_targets(const char *socket_path, const char *name, struct runtime_list *out);

/* Finds the one runtime that a command is about. Prints why it cannot. */
int find_target(const char *socket_path, const char *name, char *path_out, size_t path_size);

#define EXIT_USAGE 2

/* Prints what is wrong with the command line, and returns the exit status for that. */
int misuse(const char *what, const char *which);

/* Read a number of the command line within bounds. Return 0 or -1. */
int read_number(const char *text, long least, long most, long *out);
int read_seconds(const char *text, double least, double most, double *out);

/* Commands with options of their own; argv[0] is the command's name. Return the exit status. */
int run_top(int argc, char **argv);
int run_export(int argc, char **argv);
int run_diff(int argc, char **argv);
int run_get(int argc, char **argv);
int run_dpdk(int argc, char **argv);
int run_ras(int argc, char **argv);
int run_explain(int argc, char **argv);
/* Replaces this process by towbpf. Returns only when there is no towbpf. */
int run_bpf(int argc, char **argv);

/* The folder of this program, which also holds the other tools; "" when it is not known. */
void own_folder(char out[PATH_MAX]);

/* Sleeps for `seconds`, also when signals come. */
void nap(double seconds);

struct list_options {
	const char *job; /* NULL: all jobs */
	int all;         /* also the sockets that ended processes have left */
	int sweep;       /* first removes those sockets */
};

/* Prints the runtimes of this host, and returns the exit status. */
int list_runtimes(const struct list_options *options);

/*
 * The store at which the ranks of a job meet, by its /v1/bootstrap. It distinguishes jobs of one
 * name. "" means that the job has no group, or that nothing is known.
 */
const char *store_of(const json_t *bootstrap);

struct watch_options {
	double seconds;
	long count; /* 0: until the runtime ends */
};

/* Prints the rates of all targets together. */
int watch(const struct runtime_list *targets, const struct watch_options *options);

/* Fetches a document, which the caller gives to json_decref. NULL: the error is printed. */
json_t *fetch_json(const char *socket_path, const char *path);

/*
 * Fetches the document of each target, from all at the same time. An entry is NULL when its target
 * does not answer within 2 s. The caller gives the array and the number of targets to fetched_free.
 * NULL: no memory.
 */
json_t **fetch_all(const struct runtime_list *targets, const char *path);
void fetched_free(json_t **all, size_t count);

/* Fetches info, counters and latencies as one object. Ownership and errors are as in fetch_json. */
json_t *fetch_snapshot(const char *socket_path);

/*
 * Prints the heading above the output of one of several targets. Prints nothing for a single
 * target.
 */
void print_heading(const struct runtime_list *targets, size_t index);

/* The object for a runtime in an array of several: name, job, rank, and user with --all-users. */
json_t *row_of_runtime(const struct runtime_entry *entry);

/* Prints the groups of other libraries in /v1/coll as tables. */
void print_foreign_groups(json_t *document);

/* Prints collectives as tables, and returns the exit status. */
int show_collectives(const struct runtime_list *targets);

struct why_options {
	long count; /* call sites shown of each kind; 0: 10 */
	int json;
};

/* Prints what was copied or registered late, and why. Returns 1 when a target does not answer. */
int show_why(const struct runtime_list *targets, const struct why_options *options);
/* Does the same for all ranks of this host, whatever their job. */
int show_why_all(const struct why_options *options);
/*
 * The same of one runtime as a document: info, copies, registrations and pool. With `with_waits` it
 * also has the operations that the runtime waits for. NULL: the runtime does not answer, which is
 * printed.
 */
json_t *fetch_why(const char *socket_path, int with_waits);

/*
 * Prints why the job of these runtimes is stuck or slow, by the rank that knows most of it. Ranks
 * that know only themselves are printed one by one. The exit status is one of the list below.
 */
int show_verdict(const struct runtime_list *targets, int json);
/* Prints the verdicts on the job of the last `seconds`. The exit status is as of show_verdict. */
int show_history(const struct runtime_list *targets, double seconds, int json);
/* Prints a finding with its evidence and its cure; each line begins with `indent`. */
void print_finding(const char *indent, const json_t *finding);

/*
 * X(exit status, name, meaning), the gravest first. Where several runtimes answer for themselves,
 * the status is the gravest of theirs. `towstat --help` and docs/verdict.md list all of them.
 */
#define VERDICT_STATUS_MAP(X)                                                                      \
	X(3, FOUND, "something was found, and a rank or link is named")                            \
	X(5, PARTIAL, "ranks have not answered, or have not come")                                 \
	X(4, NOBODY, "the job is stuck or slow, and no rank is named")                             \
	X(0, HEALTHY, "all ranks have answered, and nothing was found")
enum verdict_status {
#define VERDICT_STATUS(status, name, says) VERDICT_##name = status,
	VERDICT_STATUS_MAP(VERDICT_STATUS)
#undef VERDICT_STATUS
};
/*
 * Prints what the flight recorders of an ended job have left in `folder`. job NULL: the only job.
 */
int show_last_words(const char *folder, const char *job, int json);
/* Prints where such files of the job are by default, if there are any. */
void tell_kept(const char *job);
/* Writes the same files into folder `out`, for PyTorch's fr_trace. */
int write_last_words(const char *folder, const char *job, const char *out);
/*
 * The verdict on the job of these runtimes. It is one document, or an array of rows with name, job,
 * rank and document where each runtime knows only itself. NULL: no runtime has answered, which is
 * printed.
 */
json_t *find_verdict(const struct runtime_list *targets);
/* Prints the threads of the targets, with stacks where stacks_signal allows it. Returns 0 or 1. */
int show_stacks(const struct runtime_list *targets);
/*
 * Prints the stacks of those ranks on this host that the verdict on a stuck job names. `of` is any
 * rank of the job.
 */
void print_named_stacks(const struct runtime_entry *of, const json_t *root);

/* The status of a result of find_verdict; for rows, the gravest. */
enum verdict_status verdict_status_of_all(const json_t *found);
/* Prints one verdict for people, and returns its status. */
int print_verdict(const json_t *root);
/* Prints the first line of a verdict, without the findings. */
void print_verdict_head(const json_t *root);
enum verdict_status verdict_status_of(const json_t *root);
/* Prints `root` as JSON. Returns 0, or 1 after printing that it cannot be written. */
int dump_json(const json_t *root);
/* The number of the process that listens at a socket, as seen from here; 0: not known. */
long pid_of_listener(const char *path);
/*
 * The verdict on ranks that only groups of another library join, judged in this process. NULL: no
 * such group joins them.
 */
json_t *join_verdict(const struct runtime_list *targets);

/* Fetches an allocation log. With seconds = -1 the runtime chooses. Returns the exit status. */
int fetch_alloclog(const char *socket_path, long seconds, const char *output_path);

enum list_style { LIST_PLAIN, LIST_MARKDOWN, LIST_MAN };
void print_knobs(enum list_style style);
/* Prints the knobs with `part` in their name or variable, in either case. Returns how many. */
size_t print_knobs_like(const char *part);
void print_counters(enum list_style style);
void print_lanes(void);

#endif
