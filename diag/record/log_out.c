/*
 * log_out.c - the outbox of a log, and the thread that shows its lines. See log_out.h.
 */
#include "diag/record/log_out.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/base/thread.h"

#define CLOSE_NS  1000000000ull
#define EXIT_NS   200000000ull
#define SLICE_MS  50
#define LINE_ROOM (TWI_LOG_BYTES + 256)

/* Lines in all outboxes of this process; its exit waits for them. */
static _Atomic uint64_t undelivered;
static _Atomic int undelivered_pid; /* a forked child has no thread that would show them */

static uint64_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void twi_log_out_init(struct twi_log_out *out)
{
	pthread_mutex_init(&out->lock, NULL);
	pthread_cond_init(&out->wake, NULL);
	out->fd = -1;
	atomic_init(&out->rank, -1);
}

static int refuse_file(const char *path, int err)
{
	if (err == ELOOP)
		return twi_error(TOW_EINVAL,
				 "log=%.128s is a symbolic link, which is not followed; name "
				 "the file itself",
				 path);
	if (err == ENXIO)
		return twi_error(TOW_EINVAL,
				 "log=%.128s is a pipe or socket that no process "
				 "reads",
				 path);
	return twi_error_errno(TOW_ESYSTEM, err, "log=%.128s cannot be written", path);
}

static int open_file(const char *path, int *fd_out)
{
	/* Non-blocking, because the open of a pipe without a reader would not return. */
	int fd = twi_fd_high(
		open(path,
		     O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
		     0600));

	if (fd < 0)
		return refuse_file(path, errno);
	*fd_out = fd;
	return TOW_OK;
}

int twi_log_out_open(struct twi_log_out *out, const char *where, tow_log_callback callback,
		     void *user)
{
	out->callback = callback;
	out->user = user;
	if (where[0] == '\0')
		/* A program with a callback shows the lines in its own way. */
		out->where = callback == NULL ? TWI_LOG_TERMINAL : TWI_LOG_NOWHERE;
	else if (strcmp(where, "none") == 0)
		out->where = TWI_LOG_NOWHERE;
	else if (strcmp(where, "stderr") == 0)
		out->where = TWI_LOG_STDERR;
	else
		out->where = TWI_LOG_FILE;
	return out->where == TWI_LOG_FILE ? open_file(where, &out->fd) : TOW_OK;
}

static const char *level_name(int level)
{
	return level <= 1 ? "error: " : level == 2 ? "warning: " : "";
}

/* Renders a line. In a file it has time and process, because several ranks may share the file. */
static size_t render_line(const struct twi_log_out *out, uint64_t at_ns, int level,
			  const char *text, char *line)
{
	int64_t rank = atomic_load_explicit(&out->rank, memory_order_relaxed);
	time_t seconds = (time_t)(at_ns / 1000000000u);
	char who[32] = "", when[32];
	struct tm tm;
	int bytes;

	if (rank >= 0)
		snprintf(who, sizeof(who), "rank %lld: ", (long long)rank);
	if (out->where == TWI_LOG_FILE) {
		gmtime_r(&seconds, &tm);
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
		bytes = snprintf(line, LINE_ROOM, "%s.%03uZ towline[%d]: %s%s%s\n", when,
				 (unsigned)(at_ns / 1000000 % 1000), (int)getpid(), who,
				 level_name(level), text);
	} else {
		bytes = snprintf(line, LINE_ROOM, "towline: %s%s%s\n", who, level_name(level),
				 text);
	}
	return (size_t)twi_min(bytes, LINE_ROOM - 1);
}

static bool gives_up(struct twi_log_out *out)
{
	bool over;

	pthread_mutex_lock(&out->lock);
	over = out->closing && twi_now_ns() >= out->close_ns;
	pthread_mutex_unlock(&out->lock);
	return over;
}

/*
 * Writes a line, in one write if the descriptor takes it, so that lines of several processes do not
 * mix. It waits for a stopped terminal or a full pipe: that is the purpose of this thread. A pipe
 * without a reader does not end the program, because this thread blocks the signal.
 */
static void write_out(struct twi_log_out *out, int fd, const char *line, size_t bytes)
{
	while (bytes > 0) {
		struct pollfd ready = { .fd = fd, .events = POLLOUT };
		ssize_t wrote;

		if (poll(&ready, 1, SLICE_MS) == 0) {
			if (gives_up(out))
				return;
			continue;
		}
		wrote = write(fd, line, bytes);
		if (wrote > 0) {
			line += wrote;
			bytes -= (size_t)wrote;
		} else if (wrote == 0 || (errno != EINTR && errno != EAGAIN) || gives_up(out)) {
			return;
		}
	}
}

static void carry_out(struct twi_log_out *out, uint64_t at_ns, int level, const char *text)
{
	int fd = out->where == TWI_LOG_FILE ? out->fd : STDERR_FILENO;
	char line[LINE_ROOM];

	/* The program may have replaced its terminal since the line was put in. */
	if (out->where == TWI_LOG_STDERR || out->where == TWI_LOG_FILE ||
	    (out->where == TWI_LOG_TERMINAL && isatty(fd)))
		write_out(out, fd, line, render_line(out, at_ns, level, text, line));
	if (out->callback != NULL)
		out->callback(out->user, level, text);
}

static void *run_log(void *arg)
{
	struct twi_log_out *out = arg;

	pthread_mutex_lock(&out->lock);
	for (;;) {
		unsigned at = (unsigned)(out->first % TWI_LOG_OUTBOX);
		char text[sizeof(out->lines[0].text)];
		uint64_t at_ns = out->lines[at].wall_ns;
		int level = out->lines[at].level;

		if (out->first == out->count && out->closing)
			break;
		if (out->first == out->count) {
			pthread_cond_wait(&out->wake, &out->lock);
			continue;
		}
		snprintf(text, sizeof(text), "%s", out->lines[at].text);
		pthread_mutex_unlock(&out->lock);
		carry_out(out, at_ns, level, text);
		pthread_mutex_lock(&out->lock);
		out->first++;
		atomic_fetch_sub_explicit(&undelivered, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&out->lock);
	return NULL;
}

static bool is_shown(const struct twi_log_out *out)
{
	return out->callback != NULL || out->where == TWI_LOG_STDERR ||
	       out->where == TWI_LOG_FILE ||
	       (out->where == TWI_LOG_TERMINAL && isatty(STDERR_FILENO));
}

/* There is room in the outbox, and the lock is held. */
static void queue_line(struct twi_log_out *out, int level, const char *text, uint32_t left_out)
{
	unsigned at = (unsigned)(out->count++ % TWI_LOG_OUTBOX);
	char more[64] = "";

	if (left_out > 0) {
		snprintf(more, sizeof(more), " (%u more like it were left out)", left_out);
	} else if (out->lost > 0) {
		snprintf(more, sizeof(more), " (%llu lines before it were lost)",
			 (unsigned long long)out->lost);
		out->lost = 0;
	}
	out->lines[at].wall_ns = wall_ns();
	out->lines[at].level = level;
	snprintf(out->lines[at].text, sizeof(out->lines[at].text), "%s%s", text, more);
	atomic_store_explicit(&undelivered_pid, (int)getpid(), memory_order_relaxed);
	atomic_fetch_add_explicit(&undelivered, 1, memory_order_relaxed);
}

void twi_log_out_put(struct twi_log_out *out, int level, const char *text, uint64_t now_ns)
{
	uint32_t left_out;

	if (!is_shown(out))
		return;
	pthread_mutex_lock(&out->lock);
	if (out->closing || !twi_log_rate_pass(&out->rate, text, now_ns, &left_out)) {
		pthread_mutex_unlock(&out->lock);
		return;
	}
	if (!out->running)
		out->running = twi_thread_start(&out->thread, "tow-log", 0, run_log, out) == 0;
	if (out->running && out->count - out->first < TWI_LOG_OUTBOX)
		queue_line(out, level, text, left_out);
	else
		out->lost++;
	pthread_cond_signal(&out->wake);
	pthread_mutex_unlock(&out->lock);
}

void twi_log_out_fini(struct twi_log_out *out)
{
	pthread_mutex_lock(&out->lock);
	out->closing = true;
	out->close_ns = twi_now_ns() + CLOSE_NS;
	pthread_cond_signal(&out->wake);
	pthread_mutex_unlock(&out->lock);
	if (out->running)
		pthread_join(out->thread, NULL);
	if (out->fd >= 0)
		close(out->fd);
	pthread_cond_destroy(&out->wake);
	pthread_mutex_destroy(&out->lock);
}

/* A program that exits without closing its runtime needs its last lines most. */
__attribute__((destructor)) static void wait_at_exit(void)
{
	const struct timespec nap = { .tv_nsec = 1000000 };

	for (uint64_t i = 0; i < EXIT_NS / 1000000; i++) {
		if (atomic_load_explicit(&undelivered, memory_order_relaxed) == 0 ||
		    atomic_load_explicit(&undelivered_pid, memory_order_relaxed) != getpid())
			return;
		nanosleep(&nap, NULL);
	}
}
