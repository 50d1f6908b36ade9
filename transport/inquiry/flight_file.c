/*
 * flight_file.c - writes the flight recorder's file when a group fails.
 *
 * The file is on disk before the thread with the failed operation gets its status, and before the
 * process exits; both wait for 100 ms at most.
 *
 *	a group fails          the thread              a thread that waits, or tests
 *	  twi_flight_due  -->  twi_flight_dump  <----  twi_flight_settle, with the failed status
 *	                                        <----  exit()
 *
 * Files that are due are in one table of the process, where exit() finds them. The table is used
 * only when something fails. A forked child does not have these threads, and waits for none.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/inquiry/flight.h"
#include "transport/inquiry/flight_home.h"
#include "transport/inquiry/inquiry.h"

#define DUE_MAX   16u
#define SETTLE_NS 100000000ull

/*
 * The runtimes of this process whose files are due, and the eventfds of the threads that write
 * them.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t due_changed = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
	struct twi_inquiry *inquiry;
	int event_fd;
} due[DUE_MAX];
static _Atomic unsigned due_count;

/* --- what is due --- */

static void lock_for_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* The child writes no files of its parent. */
static void forget_in_child(void)
{
	due_count = 0;
	pthread_mutex_unlock(&lock);
}

static void init_once(void)
{
	pthread_atfork(lock_for_fork, unlock_after_fork, forget_in_child);
}

void twi_flight_due(struct twi_inquiry *inquiry, int event_fd)
{
	twi_assert_held(inquiry->engine);
	pthread_once(&once, init_once);
	pthread_mutex_lock(&lock);
	atomic_store(&inquiry->flight_failed_ns, twi_now_ns());
	if (due_count < DUE_MAX && !atomic_load(&inquiry->flight_due)) {
		due[due_count].inquiry = inquiry;
		due[due_count].event_fd = event_fd;
		due_count++;
		atomic_store(&inquiry->flight_due, true);
	}
	pthread_mutex_unlock(&lock);
}

void twi_flight_done(struct twi_inquiry *inquiry, uint64_t begun_ns)
{
	bool all;

	pthread_mutex_lock(&lock);
	all = atomic_load(&inquiry->flight_failed_ns) <= begun_ns;
	for (unsigned i = 0; all && i < due_count; i++) {
		if (due[i].inquiry != inquiry)
			continue;
		due[i] = due[--due_count];
		break;
	}
	if (all)
		atomic_store(&inquiry->flight_due, false);
	pthread_cond_broadcast(&due_changed);
	pthread_mutex_unlock(&lock);
}

/*
 * Waits until fewer files are due, or until_ns of twi_now_ns. The lock is held. False: time is up.
 */
static bool wait_for_change(uint64_t until_ns)
{
	const struct timespec at = { (time_t)(until_ns / 1000000000u),
				     (long)(until_ns % 1000000000u) };

	return pthread_cond_clockwait(&due_changed, &lock, CLOCK_MONOTONIC, &at) == 0;
}

void twi_flight_settle(struct twi_engine *engine)
{
	struct twi_inquiry *inquiry = engine->inquiry;
	uint64_t until;

	if (inquiry == NULL || !atomic_load(&inquiry->flight_due) || twi_engine_held(engine))
		return;
	until = atomic_load(&inquiry->flight_failed_ns) + SETTLE_NS;
	pthread_mutex_lock(&lock);
	while (atomic_load(&inquiry->flight_due) && wait_for_change(until))
		continue;
	pthread_mutex_unlock(&lock);
}

/* exit(): other threads still run until it ends. */
__attribute__((destructor)) static void settle_at_exit(void)
{
	uint64_t until = twi_now_ns() + SETTLE_NS;

	if (due_count == 0)
		return;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < due_count; i++)
		twi_inquiry_hurry(due[i].event_fd);
	while (due_count > 0 && wait_for_change(until))
		continue;
	pthread_mutex_unlock(&lock);
}

/* --- the file --- */

static int write_all(const char *path, const char *text, size_t bytes)
{
	int fd = twi_fd_high(
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
	int err = 0;

	if (fd < 0)
		return errno;
	while (bytes > 0 && err == 0) {
		ssize_t n = write(fd, text, bytes);

		if (n > 0) {
			text += n;
			bytes -= (size_t)n;
		} else if (errno != EINTR) {
			err = errno;
		}
	}
	return close(fd) != 0 && err == 0 ? errno : err;
}

static int write_file(struct twi_engine *engine, const char *folder, unsigned number,
		      const char *text, size_t bytes)
{
	const struct twi_knobs *knobs = &engine->knobs;
	char path[512], part[520];
	int err;

	snprintf(path, sizeof(path), "%s/flight.%s.%u.%u.json", folder, knobs->job, knobs->rank,
		 number);
	snprintf(part, sizeof(part), "%s.part", path);
	err = write_all(part, text, bytes);
	if (err == 0 && rename(part, path) != 0)
		err = errno;
	if (err == 0)
		return TOW_OK;
	unlink(part);
	return twi_error_errno(TOW_ESYSTEM, err, "the flight recorder's file %s", path);
}

/* Emits the last verdict, if the ranks were asked in the last half minute. */
static void emit_verdict(struct twi_engine *engine, struct twi_emit *emit)
{
	char *bytes;
	size_t count;

	if (twi_inquiry_is_fresh(engine) &&
	    twi_inquiry_document(engine, &bytes, &count) == TOW_OK) {
		twi_emit_json(emit, "towline_verdict", bytes);
		free(bytes);
	}
}

static void emit_counters(struct twi_engine *engine, struct twi_emit *emit)
{
	twi_emit_object_begin(emit, "towline_counters");
	for (unsigned i = 0; i < TWI_C_COUNT; i++)
		twi_emit_u64(emit, twi_counter_describe(i)->name, twi_counter_sum(engine->diag, i));
	twi_emit_object_end(emit);
}

/* Writes all that the rank has to report in one document. */
static int write_document(struct twi_engine *engine, const char *folder, unsigned number)
{
	struct twi_emit emit;
	int status;

	twi_emit_init(&emit);
	twi_emit_object_begin(&emit, NULL);
	twi_flight_emit(engine, &emit);
	emit_verdict(engine, &emit);
	emit_counters(engine, &emit);
	twi_emit_object_end(&emit);
	status = emit.status < 0 || emit.text == NULL
			 ? twi_error(TOW_ENOMEM, "no memory for the flight recorder's file")
			 : write_file(engine, folder, number, emit.text, emit.bytes);
	twi_emit_fini(&emit);
	return status;
}

int twi_flight_dump(struct twi_engine *engine, unsigned *number)
{
	const char *folder = twi_flight_folder(engine);
	int status;

	if (folder == NULL)
		return twi_error(TOW_EINVAL, "no flight_dir is given");
	status = engine->knobs.flight_dir[0] == '\0' ? twi_flight_home_open(folder) : TOW_OK;
	if (status == TOW_OK)
		status = write_document(engine, folder, *number);
	*number = (*number + 1) % engine->knobs.flight_files;
	twi_count(engine->diag, status == TOW_OK ? TWI_C_flight_dumps : TWI_C_flight_dumps_failed,
		  1);
	if (status < 0)
		twi_log(engine->diag, 1, "%s", tow_error_message());
	return status;
}
