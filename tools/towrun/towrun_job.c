/*
 * towrun_job.c - one loop around poll: output, input, signals, time.
 *
 * The first rank that fails ends the job: the others get TERM, and KILL after a grace. When a rank
 * has ended, its process group is killed before the rank is reaped. Until then no other process can
 * get the number.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/towrun/towrun.h"

#define DRAIN_S 0.5 /* for output of processes that left their rank's group */
#define NEVER   1e18

static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
static sigset_t signals_before;
static struct sigaction pipe_before;
static int signal_fd = -1;

struct job {
	const struct options *options;
	struct rank *ranks;
	struct output outputs[2]; /* stdout and stderr of towrun */
	long running;
	long first; /* the rank that failed first; -1: none */
	long ended; /* ranks that still ran at that time */
	bool timed_out;
	bool ending;     /* TERM has been sent */
	int asked;       /* INT and TERM signals from the user */
	double deadline; /* of the job */
	double kill_at;  /* end of the grace */
	double drain_until;
	int stdin_fd; /* of rank 0; -1: closed */
	char input[CHUNK];
	size_t input_at, input_used;
	bool input_over;
	struct pollfd *polled;
	struct polled_stream {
		struct stream *stream;
		long rank;
	} * polled_streams; /* row i belongs to polled[i] */
};

static double now_seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int block_signals(void)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
		sigaddset(&set, forwarded[i]);
	sigaction(SIGPIPE, &ignore, &pipe_before);
	sigprocmask(SIG_BLOCK, &set, &signals_before);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0)
		fprintf(stderr, "towrun: signalfd: %s\n", strerror(errno));
	return signal_fd < 0;
}

void restore_signals(void)
{
	sigaction(SIGPIPE, &pipe_before, NULL);
	sigprocmask(SIG_SETMASK, &signals_before, NULL);
}

static void signal_all(const struct job *job, int number)
{
	for (long i = 0; i < job->options->ranks; i++) {
		if (job->ranks[i].pid > 0)
			kill(-job->ranks[i].pid, number);
	}
}

static void end_job(struct job *job)
{
	if (job->ending)
		return;
	job->ending = true;
	job->kill_at = now_seconds() + job->options->grace_s;
	signal_all(job, SIGTERM);
	signal_all(job, SIGCONT); /* a stopped rank does not handle TERM */
}

static void rank_ended(struct job *job, long number, int status)
{
	job->running--;
	job->ranks[number].status = status;
	if (job->running == 0)
		job->drain_until = now_seconds() + DRAIN_S;
	if (status == 0 || job->first >= 0)
		return;
	job->first = number;
	if (job->timed_out)
		return;
	job->ended = job->running;
	end_job(job);
}

static void reap_ranks(struct job *job)
{
	for (long i = 0; i < job->options->ranks; i++) {
		struct rank *rank = &job->ranks[i];
		siginfo_t info = { 0 };
		int status;

		if (rank->pid == 0 ||
		    waitid(P_PID, (id_t)rank->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
		    info.si_pid == 0)
			continue;
		kill(-rank->pid, SIGKILL);
		guard_remove(rank->pid);
		waitpid(rank->pid, &status, 0);
		rank->pid = 0;
		rank_ended(job, i, status);
	}
}

static void take_signals(struct job *job)
{
	struct signalfd_siginfo info;

	while (read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
		int number = (int)info.ssi_signo;

		if (number == SIGCHLD)
			continue;
		signal_all(job, number);
		if (number != SIGINT && number != SIGTERM)
			continue;
		/* A second signal ends the job. */
		if (++job->asked == 2)
			end_job(job);
	}
	reap_ranks(job);
}

/* Moves input from towrun's stdin to rank 0's, one part at a time. */
static void move_input(struct job *job, short in, short out)
{
	ssize_t count;

	if (job->input_at == job->input_used && in != 0) {
		count = read(0, job->input, sizeof(job->input));
		if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
			job->input_over = true;
		job->input_at = 0;
		job->input_used = count > 0 ? (size_t)count : 0;
	} else if (job->input_at < job->input_used && out != 0) {
		count = write(job->stdin_fd, job->input + job->input_at,
			      job->input_used - job->input_at);
		if (count < 0 && errno != EAGAIN && errno != EINTR) {
			job->input_over = true; /* rank 0 has closed its stdin */
			job->input_at = job->input_used;
		}
		if (count > 0)
			job->input_at += (size_t)count;
	}
	if (job->input_over && job->input_at == job->input_used) {
		close(job->stdin_fd);
		job->stdin_fd = -1;
	}
}

enum { POLL_SIGNALS, POLL_STDIN, POLL_STDIN_TO, POLL_OUTPUT, POLL_ERROR, POLL_STREAMS };

static nfds_t fill_poll(struct job *job)
{
	bool input = job->stdin_fd >= 0, pending = job->input_at < job->input_used;
	struct pollfd *polled = job->polled;
	nfds_t count = POLL_STREAMS;

	polled[POLL_SIGNALS] = (struct pollfd){ signal_fd, POLLIN, 0 };
	polled[POLL_STDIN] = (struct pollfd){ input && !pending ? 0 : -1, POLLIN, 0 };
	polled[POLL_STDIN_TO] =
		(struct pollfd){ input ? job->stdin_fd : -1, pending ? POLLOUT : 0, 0 };
	for (int i = 0; i < 2; i++)
		polled[POLL_OUTPUT + i] =
			(struct pollfd){ output_empty(&job->outputs[i]) ? -1 : job->outputs[i].fd,
					 POLLOUT, 0 };
	for (long i = 0; i < job->options->ranks; i++) {
		for (int s = 0; s < 2; s++) {
			struct stream *stream = &job->ranks[i].streams[s];

			if (stream->fd < 0 || !output_empty(&job->outputs[s]))
				continue;
			job->polled_streams[count] = (struct polled_stream){ stream, i };
			polled[count++] = (struct pollfd){ stream->fd, POLLIN, 0 };
		}
	}
	return count;
}

static void move_output(struct job *job, nfds_t count)
{
	for (nfds_t i = POLL_STREAMS; i < count; i++) {
		const struct polled_stream *polled = &job->polled_streams[i];
		struct output *output =
			&job->outputs[polled->stream == &job->ranks[polled->rank].streams[1]];

		if (job->polled[i].revents != 0 &&
		    stream_read(polled->stream, polled->rank, output) < 0)
			stream_end(polled->stream, polled->rank, output);
	}
}

static bool streams_open(const struct job *job)
{
	for (long i = 0; i < job->options->ranks; i++) {
		if (job->ranks[i].streams[0].fd >= 0 || job->ranks[i].streams[1].fd >= 0)
			return true;
	}
	return !output_empty(&job->outputs[0]) || !output_empty(&job->outputs[1]);
}

static int poll_ms(const struct job *job, double time)
{
	double until = NEVER, left;

	if (job->running > 0 && !job->timed_out)
		until = job->deadline;
	if (job->running > 0 && job->ending && job->kill_at < until)
		until = job->kill_at;
	if (job->running == 0 && job->drain_until < until)
		until = job->drain_until;
	left = (until - time) * 1000;
	return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left + 1;
}

static void watch_time(struct job *job, double time)
{
	if (job->running > 0 && !job->timed_out && time >= job->deadline) {
		job->timed_out = true;
		job->ended = job->running;
		end_job(job);
	}
	if (job->running > 0 && job->ending && time >= job->kill_at) {
		job->kill_at = NEVER;
		signal_all(job, SIGKILL);
	}
}

static void job_turn(struct job *job)
{
	nfds_t count = fill_poll(job);
	struct pollfd *polled = job->polled;

	if (poll(polled, count, poll_ms(job, now_seconds())) < 0 && errno != EINTR)
		return;
	for (int i = 0; i < 2; i++) {
		if (polled[POLL_OUTPUT + i].revents != 0)
			output_write(&job->outputs[i]);
		if (job->outputs[i].broken && job->first < 0)
			end_job(job); /* the output of the ranks is lost */
	}
	move_output(job, count);
	if (job->stdin_fd >= 0)
		move_input(job, polled[POLL_STDIN].revents, polled[POLL_STDIN_TO].revents);
	take_signals(job);
	watch_time(job, now_seconds());
}

static int exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Prints a line about the end of the job, if it failed. */
static int print_summary(const struct job *job)
{
	const struct rank *first = job->first < 0 ? NULL : &job->ranks[job->first];

	if (job->timed_out) {
		fprintf(stderr, "towrun: %g s are over, and %ld of %ld ranks had not ended\n",
			job->options->timeout_s, job->ended, job->options->ranks);
		return 124;
	}
	if (job->outputs[0].broken || job->outputs[1].broken) {
		fprintf(stderr, "towrun: the ranks' output cannot be written\n");
		return first != NULL ? exit_status(first->status) : 1;
	}
	if (first == NULL)
		return 0;
	if (WIFSIGNALED(first->status))
		fprintf(stderr, "towrun: rank %ld was killed by signal %d (%s)", job->first,
			WTERMSIG(first->status), strsignal(WTERMSIG(first->status)));
	else
		fprintf(stderr, "towrun: rank %ld exited with status %d", job->first,
			WEXITSTATUS(first->status));
	if (job->ended > 0)
		fprintf(stderr, "; the %ld that still ran were ended", job->ended);
	fputc('\n', stderr);
	return exit_status(first->status);
}

int run_job(const struct options *options, struct rank *ranks, int stdin_fd)
{
	size_t room = POLL_STREAMS + 2 * (size_t)options->ranks;
	struct job job = { .options = options,
			   .ranks = ranks,
			   .outputs = { { .fd = 1 }, { .fd = 2 } },
			   .first = -1,
			   .deadline = options->timeout_s > 0 ? now_seconds() + options->timeout_s
							      : NEVER,
			   .kill_at = NEVER,
			   .drain_until = NEVER,
			   .stdin_fd = stdin_fd };
	int status;

	job.polled = calloc(room, sizeof(job.polled[0]));
	job.polled_streams = calloc(room, sizeof(job.polled_streams[0]));
	if (job.polled == NULL || job.polled_streams == NULL) {
		fprintf(stderr, "towrun: no memory\n");
		status = 1;
	} else {
		for (long i = 0; i < options->ranks; i++)
			job.running += ranks[i].pid > 0;
		while (job.running > 0 || (streams_open(&job) && now_seconds() < job.drain_until))
			job_turn(&job);
		for (long i = 0; i < options->ranks; i++) {
			for (int s = 0; s < 2; s++)
				stream_end(&ranks[i].streams[s], i, &job.outputs[s]);
		}
		restore_signals(); /* the reader of the output may be stopped for good */
		while (!output_empty(&job.outputs[0]) || !output_empty(&job.outputs[1])) {
			output_write(&job.outputs[0]);
			output_write(&job.outputs[1]);
		}
		status = print_summary(&job);
	}
	for (int i = 0; i < 2; i++)
		free(job.outputs[i].bytes);
	free(job.polled);
	free(job.polled_streams);
	return status;
}
