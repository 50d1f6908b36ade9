/*
 * inquiry_serve.c - serves requests from the stats socket and, where a knob allows it, from
 * SIGQUIT.
 *
 * A thread of its own writes the flight recorder's files, and looks at the job now and then
 * (inquiry_looks.c). So the progress thread does no file I/O.
 *
 * The signal's handler writes to eventfds and does nothing else. It is installed only if the
 * program has none of its own, and removed at close.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/base/thread.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "transport/engine/engine.h"
#include "transport/inquiry/flight.h"
#include "transport/inquiry/inquiry.h"

#define HANDLER_NS    (1000ull * 1000 * 1000) /* the most that a close waits for a handler */
#define VERDICT_PATH  "/v1/verdict"
#define VERDICTS_PATH "/v1/verdicts"
#define FLIGHT_PATH   "/v1/flight"
#define STATE_PATH    "/v1/state"
#define STATE_HEAD    8     /* the clock at the answer, little-endian; the state follows */
#define SIGQUIT_FDS   4     /* most runtimes that SIGQUIT reaches */
#define DUMP_MS       1000u /* time between two files */

/* The eventfd's counter has these events as parts of a 64-bit number. */
#define EVENT_FAILED 1ull
#define EVENT_LOOKS  (1ull << 20)
#define EVENT_QUIT   (1ull << 40)
#define EVENT_STOP   (1ull << 60)

struct twi_inquiry_thread {
	struct twi_engine *engine;
	pthread_t thread;
	int event_fd;
	struct twi_held_watch watch; /* watches event_fd */
	bool stopping, listens;
	unsigned file;
	uint64_t dumped_ns;
};

static _Atomic int sigquit_fds[SIGQUIT_FDS]; /* event_fd + 1; 0: free */
static _Atomic bool was_ignored;             /* SIGQUIT was ignored before the first of them */
static _Atomic unsigned handlers;            /* calls of on_sigquit under way */

/* --- the stats socket --- */

static int start_inquiry(void *arg, int64_t seconds, void **session_out, uint64_t *wait_ns_out)
{
	struct twi_engine *engine = arg;
	uint64_t due, now;

	(void)seconds;
	twi_engine_enter(engine);
	due = twi_inquiry_begin(engine);
	now = twi_engine_clock(engine);
	twi_engine_leave(engine);
	if (due == 0)
		return twi_error(TOW_ENOMEM, "no memory to ask the ranks of the job");
	*session_out = NULL;
	*wait_ns_out = due > now ? due - now : 0;
	return TOW_OK;
}

static int finish_inquiry(void *arg, void *session, char **bytes_out, size_t *count_out)
{
	(void)session;
	return bytes_out == NULL ? TOW_OK : twi_inquiry_document(arg, bytes_out, count_out);
}

/* Serves this rank's state, for a program that asks all ranks of a host and judges. */
static int start_state(void *arg, int64_t seconds, void **session_out, uint64_t *wait_ns_out)
{
	(void)arg, (void)seconds;
	*session_out = NULL;
	*wait_ns_out = 0;
	return TOW_OK;
}

static int finish_state(void *arg, void *session, char **bytes_out, size_t *count_out)
{
	struct twi_engine *engine = arg;
	size_t bytes = 0;
	uint8_t *out;

	(void)session;
	if (bytes_out == NULL)
		return TOW_OK;
	out = malloc(STATE_HEAD + TWI_STATE_NAMED);
	if (out == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a state");
	twi_engine_enter(engine);
	if (twi_inquiry_self(engine->inquiry) != NULL)
		bytes = twi_rank_state_encode(engine->inquiry->own, TWI_STATE_FORM_NAMED,
					      out + STATE_HEAD, TWI_STATE_NAMED);
	twi_put_le(out, twi_engine_clock(engine), STATE_HEAD);
	twi_engine_leave(engine);
	*bytes_out = (char *)out;
	*count_out = STATE_HEAD + bytes;
	return TOW_OK;
}

int twi_inquiry_sources_add(struct twi_engine *engine)
{
	const struct twi_capture state = {
		.path = STATE_PATH,
		.help = "state of this rank, in binary: for towstat verdict, where no group "
			"joins the ranks",
		.content_type = "application/octet-stream",
		.seconds_max = 0,
		.start = start_state,
		.finish = finish_state,
		.arg = engine,
	};
	const struct twi_capture capture = {
		.path = VERDICT_PATH,
		.help = "why the job does not go on, or is slow: causes, culprits, evidence; takes "
			"a second",
		.content_type = "application/json",
		.seconds_max = 0,
		.start = start_inquiry,
		.finish = finish_inquiry,
		.arg = engine,
	};
	const struct twi_source flight = {
		FLIGHT_PATH, "the last operations, in PyTorch Flight Recorder's field names",
		twi_flight_describe, engine
	};
	const struct twi_source verdicts = { VERDICTS_PATH,
					     "history of the verdicts on the job, at the rank "
					     "that looks",
					     twi_inquiry_looks_describe, engine };
	const struct twi_source metrics = { TWI_METRICS_PATH, "", twi_inquiry_looks_metrics,
					    engine };
	int status = twi_registry_capture(engine->diag, &capture);

	if (status == TOW_OK)
		status = twi_registry_capture(engine->diag, &state);
	if (status == TOW_OK)
		status = twi_registry_add(engine->diag, &verdicts);
	if (status == TOW_OK)
		status = twi_registry_add(engine->diag, &metrics);
	return status == TOW_OK ? twi_registry_add(engine->diag, &flight) : status;
}

void twi_inquiry_sources_remove(struct twi_engine *engine)
{
	twi_registry_capture_remove(engine->diag, VERDICT_PATH, engine);
	twi_registry_capture_remove(engine->diag, STATE_PATH, engine);
	twi_registry_remove(engine->diag, FLIGHT_PATH, engine);
	twi_registry_remove(engine->diag, VERDICTS_PATH, engine);
	twi_registry_remove(engine->diag, TWI_METRICS_PATH, engine);
}

/* --- the thread --- */

static void on_sigquit(int number)
{
	int err = errno;

	(void)number;
	atomic_fetch_add(&handlers, 1); /* before the descriptors are read */
	for (unsigned i = 0; i < SIGQUIT_FDS; i++) {
		int fd = atomic_load(&sigquit_fds[i]) - 1;
		uint64_t event = EVENT_QUIT;

		if (fd >= 0 && write(fd, &event, sizeof(event)) < 0)
			continue; /* the counter is full, so the thread is awake */
	}
	atomic_fetch_sub(&handlers, 1);
	errno = err;
}

/* Records that the process was held for `ns`, until now. */
static void note_held(struct twi_engine *engine, uint64_t ns)
{
	uint64_t now;

	twi_engine_enter(engine);
	now = twi_engine_clock(engine);
	twi_held_note(&engine->inquiry->held, now - twi_min(now, ns), now);
	twi_engine_leave(engine);
}

/* Waits for events, at most timeout_ms; -1: for ever. */
static uint64_t wait_events(struct twi_inquiry_thread *thread, int timeout_ms)
{
	uint64_t events = 0;
	struct twi_held_time held;
	bool ready = twi_held_wait(&thread->watch, timeout_ms, &held);

	if (held.to_ns != 0)
		note_held(thread->engine, held.to_ns - held.from_ns);
	if (!ready || read(thread->event_fd, &events, sizeof(events)) != sizeof(events))
		return 0;
	thread->stopping |= events >= EVENT_STOP;
	return events;
}

static void dump_flight(struct twi_inquiry_thread *thread)
{
	uint64_t begun = twi_now_ns();

	if (twi_flight_folder(thread->engine) != NULL)
		twi_flight_dump(thread->engine, &thread->file);
	thread->dumped_ns = twi_now_ns();
	twi_flight_done(thread->engine->inquiry, begun);
}

/* True when a file is due, and the last one was written a second ago or more. */
static bool is_due(const struct twi_inquiry_thread *thread)
{
	return atomic_load(&thread->engine->inquiry->flight_due) &&
	       twi_now_ns() - thread->dumped_ns >= DUMP_MS * 1000000ull;
}

static int wait_ms(uint64_t ns)
{
	return (int)twi_min(ns / 1000000 + 1, 3600000u);
}

/*
 * Waits until `due` of the engine's clock, or the end. Returns the events meanwhile, except
 * failures whose file it has written: a thread that waits for a file must not wait for a look.
 */
static uint64_t wait_until(struct twi_inquiry_thread *thread, uint64_t due)
{
	uint64_t events = 0, now;

	while (!thread->stopping && due > (now = twi_engine_clock(thread->engine))) {
		events |= wait_events(thread, wait_ms(due - now));
		if (is_due(thread)) {
			dump_flight(thread);
			events &= ~(EVENT_LOOKS - 1); /* failures are the bits below */
		}
	}
	return events;
}

/* The user has asked for the verdict by a signal. This is all that the library ever prints. */
static void tell_verdict(struct twi_inquiry_thread *thread)
{
	struct twi_engine *engine = thread->engine;
	struct twi_verdict *verdict = malloc(sizeof(*verdict));
	struct twi_emit emit;
	uint64_t due;

	twi_engine_enter(engine);
	due = twi_inquiry_begin(engine);
	twi_engine_leave(engine);
	wait_until(thread, due);
	twi_emit_init(&emit);
	if (!thread->stopping && verdict != NULL && twi_inquiry_judge(engine, verdict))
		twi_verdict_text(verdict, &emit);
	if (emit.text != NULL && write(STDERR_FILENO, emit.text, emit.bytes) < 0)
		twi_log(engine->diag, 2, "the verdict could not be written to stderr");
	twi_emit_fini(&emit);
	free(verdict);
}

/* Waits for an event, or until a look is due. Meanwhile that look may be put off. */
static uint64_t wait_for_work(struct twi_inquiry_thread *thread)
{
	uint64_t events = 0;

	while (events == 0 && !thread->stopping) {
		uint64_t due = twi_inquiry_look_due(thread->engine->inquiry);
		uint64_t now = twi_engine_clock(thread->engine);

		if (due <= now)
			break;
		events = wait_events(thread, due == UINT64_MAX ? -1 : wait_ms(due - now));
	}
	return events;
}

/* Looks at the job, and returns the events meanwhile. */
static uint64_t look_at_job(struct twi_inquiry_thread *thread)
{
	struct twi_inquiry *inquiry = thread->engine->inquiry;
	uint64_t due, events;

	if (!twi_inquiry_look_begin(inquiry, &due))
		return 0;
	events = wait_until(thread, due);
	if (!thread->stopping)
		twi_inquiry_look_end(inquiry);
	return events;
}

static void *inquiry_run(void *arg)
{
	struct twi_inquiry_thread *thread = arg;
	uint64_t events = 0;

	while (!thread->stopping) {
		events = events != 0 ? events : wait_for_work(thread);
		if (thread->stopping)
			break;
		if (events == 0) {
			events = look_at_job(thread);
			continue;
		}
		if (events >= EVENT_QUIT)
			tell_verdict(thread);
		if (twi_now_ns() - thread->dumped_ns < DUMP_MS * 1000000ull)
			wait_events(thread, (int)DUMP_MS); /* several failures share one file */
		if (events != EVENT_LOOKS && !thread->stopping)
			dump_flight(thread);
		events = 0;
	}
	if (atomic_load(&thread->engine->inquiry->flight_due))
		dump_flight(thread);
	return NULL;
}

static void wake_thread(int event_fd, uint64_t event)
{
	ssize_t wrote = write(event_fd, &event, sizeof(event));

	(void)wrote; /* the counter is full, so the thread is awake */
}

void twi_inquiry_failed(struct twi_engine *engine)
{
	twi_assert_held(engine);
	if (engine->inquiry == NULL || engine->inquiry->thread == NULL)
		return;
	if (twi_flight_folder(engine) != NULL)
		twi_flight_due(engine->inquiry, engine->inquiry->thread->event_fd);
	wake_thread(engine->inquiry->thread->event_fd, EVENT_FAILED);
}

void twi_inquiry_hurry(int event_fd)
{
	wake_thread(event_fd, EVENT_FAILED);
}

/*
 * True when the program has not set the signal's action: it is the default, or ignore, which a
 * shell passes on to what it starts in the background.
 */
static bool is_free(const struct sigaction *action)
{
	return (action->sa_flags & SA_SIGINFO) == 0 &&
	       (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN);
}

static void install_sigquit(struct twi_inquiry_thread *thread)
{
	struct sigaction now = { .sa_handler = on_sigquit, .sa_flags = SA_RESTART },
			 old = { .sa_handler = SIG_DFL };

	for (unsigned i = 0; i < SIGQUIT_FDS && !thread->listens; i++) {
		int none = 0;

		thread->listens = atomic_compare_exchange_strong(&sigquit_fds[i], &none,
								 thread->event_fd + 1);
	}
	if (sigaction(SIGQUIT, NULL, &old) == 0 && is_free(&old)) {
		atomic_store(&was_ignored, old.sa_handler == SIG_IGN);
		sigaction(SIGQUIT, &now, NULL);
	} else if ((old.sa_flags & SA_SIGINFO) != 0 || old.sa_handler != on_sigquit) {
		twi_log(thread->engine->diag, 2,
			"verdict_on_sigquit: the program handles SIGQUIT itself");
	}
}

/*
 * No later signal writes to the thread's descriptor. Returns whether it may be closed: false if a
 * handler on another thread has read it before, and has been held for HANDLER_NS since.
 */
static bool remove_sigquit(struct twi_inquiry_thread *thread)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	struct sigaction old, none = { .sa_handler = SIG_DFL };
	bool any = false;

	for (unsigned i = 0; i < SIGQUIT_FDS; i++) {
		int mine = thread->event_fd + 1;

		atomic_compare_exchange_strong(&sigquit_fds[i], &mine, 0);
		any |= atomic_load(&sigquit_fds[i]) != 0;
	}
	if (!any && sigaction(SIGQUIT, NULL, &old) == 0 && (old.sa_flags & SA_SIGINFO) == 0 &&
	    old.sa_handler == on_sigquit) {
		none.sa_handler = atomic_load(&was_ignored) ? SIG_IGN : SIG_DFL;
		sigaction(SIGQUIT, &none, NULL);
	}
	for (uint64_t until_ns = twi_now_ns() + HANDLER_NS;
	     atomic_load(&handlers) > 0 && twi_now_ns() < until_ns;)
		nanosleep(&pause, NULL);
	return atomic_load(&handlers) == 0;
}

static int start_thread(struct twi_inquiry_thread *thread)
{
	int err = twi_thread_start(&thread->thread, NULL, 0, inquiry_run, thread);

	if (err != 0)
		twi_held_close(&thread->watch);
	return err;
}

static int make_thread(struct twi_engine *engine)
{
	struct twi_inquiry_thread *thread = calloc(1, sizeof(*thread));
	int err;

	if (thread == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a runtime");
	thread->engine = engine;
	thread->event_fd = twi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	err = thread->event_fd < 0 ? errno : twi_held_open(&thread->watch, thread->event_fd);
	if (err == 0)
		err = start_thread(thread);
	if (err != 0) {
		if (thread->event_fd >= 0)
			close(thread->event_fd);
		free(thread);
		return twi_error_errno(TOW_ESYSTEM, err,
				       "a thread for the flight recorder and verdicts");
	}
	engine->inquiry->thread = thread;
	return TOW_OK;
}

int twi_inquiry_thread_start(struct twi_engine *engine)
{
	int status;

	if (engine->inquiry == NULL || /* a simulated job */
	    (!engine->knobs.verdict_on_sigquit && twi_flight_folder(engine) == NULL))
		return TOW_OK;
	status = make_thread(engine);
	if (status == TOW_OK && engine->knobs.verdict_on_sigquit)
		install_sigquit(engine->inquiry->thread);
	return status;
}

void twi_inquiry_thread_want(struct twi_engine *engine)
{
	struct twi_inquiry *inquiry = engine->inquiry;

	twi_assert_held(engine);
	if (inquiry == NULL || inquiry->over || !twi_inquiry_looks_start(inquiry))
		return;
	if (inquiry->thread != NULL)
		wake_thread(inquiry->thread->event_fd, EVENT_LOOKS);
	else if (make_thread(engine) < 0)
		twi_log(engine->diag, 2, "there will be no history of verdicts: %s",
			tow_error_message());
}

void twi_inquiry_thread_stop(struct twi_engine *engine)
{
	struct twi_inquiry_thread *thread;
	bool unused = true;

	if (engine->inquiry == NULL)
		return;
	twi_engine_enter(engine); /* twi_inquiry_failed runs with the engine held */
	thread = engine->inquiry->thread;
	engine->inquiry->thread = NULL;
	engine->inquiry->over = true;
	twi_engine_leave(engine);
	if (thread == NULL)
		return;
	if (thread->listens)
		unused = remove_sigquit(thread);
	wake_thread(thread->event_fd, EVENT_STOP);
	pthread_join(thread->thread, NULL);
	twi_held_close(&thread->watch);
	if (unused) /* else it stays open: its number must not become another file's */
		close(thread->event_fd);
	free(thread);
}
