/*
 * towrun.h - the parts of towrun: its options, its ranks, their output, and the guard that cleans
 * up when towrun is killed.
 */
#ifndef TOWRUN_H
#define TOWRUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RANKS_MAX 1024
#define LINE_MAX_ 8192  /* a longer line continues in the next, with the prefix again */
#define CHUNK     4096u /* PIPE_BUF: a writable pipe takes this much without blocking */

struct options {
	long ranks;
	double timeout_s; /* 0: none */
	double grace_s;   /* from TERM to KILL */
	long cores;       /* for each rank; 0: not pinned */
	bool tag;         /* prefix lines with the rank */
	char **program;
};

/* An output stream of a rank, which towrun copies to its own. */
struct stream {
	int fd; /* -1: it has ended */
	char line[LINE_MAX_];
	size_t used;
};

struct rank {
	pid_t pid;  /* also the process group's; 0: ended */
	int status; /* of waitpid */
	struct stream streams[2];
};

/* Data for an output of towrun. While it is not empty, no more is read from the ranks. */
struct output {
	int fd;
	bool broken;
	char *bytes;
	size_t at, used, room;
};

/* towrun_output.c */
/* Reads available data. Returns 1: there was data; 0: none now; -1: the stream has ended. */
int stream_read(struct stream *stream, long rank, struct output *output);
void stream_end(struct stream *stream, long rank, struct output *output);
/* Writes one part, which does not block if poll says that the output is writable. */
void output_write(struct output *output);
bool output_empty(const struct output *output);

/* towrun_start.c */
/*
 * Starts all ranks. *stdin_out: descriptor of rank 0's stdin, or -1. Returns 0, or an exit status.
 */
int start_ranks(const struct options *options, struct rank *ranks, int *stdin_out);

/* towrun_guard.c */
/*
 * Starts a process that outlives towrun by a moment. When towrun is killed, it kills the process
 * groups of the ranks, with all that they have started. Call it before the first rank starts.
 */
int guard_start(void);
void guard_add(pid_t group);
void guard_remove(pid_t group);

/* towrun_job.c */
/* Runs the job to its end, and returns the exit status. */
int run_job(const struct options *options, struct rank *ranks, int stdin_fd);
/*
 * Blocks SIGCHLD and the forwarded signals, for a signalfd. Call it before the first rank starts.
 */
int block_signals(void);
/* Restores the signals in a child. */
void restore_signals(void);

#endif
