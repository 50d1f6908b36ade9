/*
 * towrun.h - the parts of towrun: its options, its ranks, what they print, and who cleans up after
 * towrun itself.
 */
#ifndef TOWRUN_H
#define TOWRUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RANKS_MAX 1024
#define LINE_MAX_ 8192  /* a longer line goes on in the next, with the prefix again */
#define CHUNK     4096u /* PIPE_BUF: so much a pipe that is writable takes without blocking */

struct options {
	long ranks;
	double timeout_s; /* 0: none */
	double grace_s;   /* from TERM to KILL */
	long cores;       /* of each rank; 0: not pinned */
	bool tag;         /* prefix lines with the rank */
	char **program;
};

/* One stream of a rank on its way to ours. */
struct stream {
	int fd; /* -1: at its end */
	char line[LINE_MAX_];
	size_t used;
};

struct rank {
	pid_t pid;  /* its process group's, too; 0: has ended */
	int status; /* of waitpid */
	struct stream streams[2];
};

/* What waits for one of our outputs. While it is not empty nothing more is read from the ranks. */
struct output {
	int fd;
	bool broken;
	char *bytes;
	size_t at, used, room;
};

/* towrun_output.c */
/* Reads what there is: 1 when there was something, 0: not now, -1: the stream is at its end. */
int stream_read(struct stream *stream, long rank, struct output *output);
void stream_end(struct stream *stream, long rank, struct output *output);
/* Writes a part, which does not block where poll says that it can be written. */
void output_write(struct output *output);
bool output_empty(const struct output *output);

/* towrun_start.c */
/* Starts all; the descriptor of rank 0's stdin, or -1. Exit status; 0: they run. */
int start_ranks(const struct options *options, struct rank *ranks, int *stdin_out);

/* towrun_guard.c */
/*
 * A process that lives as long as we do and a moment longer: when we are killed, it kills the
 * process groups of the ranks, with what they have started. Start it before the first rank.
 */
int guard_start(void);
void guard_add(pid_t group);
void guard_remove(pid_t group);

/* towrun_job.c */
/* Runs the job to its end; the exit status. */
int run_job(const struct options *options, struct rank *ranks, int stdin_fd);
/* Signals that are forwarded, and SIGCHLD: blocked, for a signalfd; before the first rank. */
int block_signals(void);
/* In a child: the signals as we found them. */
void restore_signals(void);

#endif
