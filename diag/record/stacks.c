/*
 * stacks.c - the handler, its slots, and the asker.
 *
 * A slot's word names its owner: (ticket << 2) | state. Tickets are never used twice, so a handler
 * that runs late finds another word there, and writes nothing.
 *
 *	FREE --asker--> ASKED --handler--> WRITING --handler--> ANSWERED --asker--> FREE
 *	                  '--asker, when time is over--> FREE
 *
 * If a handler is still writing when time is over, it keeps the slot until it has finished.
 */
#include "diag/record/stacks.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <internal/base.h>
#include <towline/status.h>

#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "diag/base/signals.h"

#define NAP_NS 500000
#define SLOTS  (2 * TWI_STACKS_THREADS) /* handlers of earlier asks may still have some */

enum slot_state { SLOT_FREE, SLOT_ASKED, SLOT_WRITING, SLOT_ANSWERED };

struct slot {
	_Atomic uint64_t word;
	const void *at; /* the instruction that was interrupted */
	int depth;
	void *frames[TWI_STACKS_FRAMES + 8]; /* including the frames of the handler */
};

static struct slot slots[SLOTS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows, and of asking */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t last_ticket;
static unsigned users;
static int signal_number;
static struct sigaction before;

/* --- the handler --- */

static uint64_t word_of(uint64_t ticket, enum slot_state state)
{
	return ticket << 2 | (uint64_t)state;
}

static const void *interrupted_at(const void *context)
{
	const ucontext_t *user = context;

#if defined(__x86_64__)
	return (const void *)(uintptr_t)user->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (const void *)(uintptr_t)user->uc_mcontext.pc;
#else
	(void)user;
	return NULL;
#endif
}

/* Does only what is safe in a signal handler; backtrace has been called before. */
static void on_ask(int number, siginfo_t *info, void *context)
{
	int kept = errno;
	uint64_t ticket = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
	struct slot *slot = &slots[ticket % SLOTS];
	uint64_t asked = word_of(ticket, SLOT_ASKED);

	(void)number;
	if (info->si_code == SI_QUEUE && info->si_pid == getpid() &&
	    atomic_compare_exchange_strong(&slot->word, &asked, word_of(ticket, SLOT_WRITING))) {
		slot->at = interrupted_at(context);
		slot->depth = backtrace(slot->frames, (int)twi_array_count(slot->frames));
		atomic_store_explicit(&slot->word, word_of(ticket, SLOT_ANSWERED),
				      memory_order_release);
	}
	errno = kept;
}

/* The lock is held. */
static bool is_ours(void)
{
	struct sigaction now;

	return sigaction(signal_number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
	       now.sa_sigaction == on_ask;
}

static bool is_free(const struct sigaction *action)
{
	return (action->sa_flags & SA_SIGINFO) == 0 &&
	       (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN);
}

/* --- fork: a child cannot be asked, and gets the signal's former action back --- */

static void lock_for_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void forget_in_child(void)
{
	if (users > 0 && is_ours())
		sigaction(signal_number, &before, NULL);
	users = 0;
	signal_number = 0;
	pthread_mutex_unlock(&lock);
}

static void init_once(void)
{
	pthread_atfork(lock_for_fork, unlock_after_fork, forget_in_child);
}

/* --- allowing --- */

/* The lock is held. */
static int install_handler(int number)
{
	struct sigaction action = { .sa_sigaction = on_ask,
				    .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
	void *frame[1];

	sigemptyset(&action.sa_mask);
	if (sigaction(number, NULL, &before) != 0)
		return twi_error_errno(TOW_EINVAL, errno, "stacks_signal = %d", number);
	if (!is_free(&before))
		return twi_error(TOW_EBUSY,
				 "stacks_signal = %d: the program handles that signal itself; "
				 "use a free one, such as %d",
				 number, SIGRTMIN + 6);
	backtrace(frame, 1); /* its first call loads a library, which a handler must not do */
	if (sigaction(number, &action, NULL) != 0)
		return twi_error_errno(TOW_EINVAL, errno, "stacks_signal = %d", number);
	signal_number = number;
	return TOW_OK;
}

int twi_stacks_allow(int number)
{
	int status = number == 0 ? TOW_OK : twi_signal_check("stacks_signal", number);

	if (number == 0 || status < 0)
		return status;
	pthread_once(&once, init_once);
	pthread_mutex_lock(&lock);
	if (users > 0 && number != signal_number)
		status = twi_error(TOW_EINVAL,
				   "stacks_signal = %d: another runtime of this process has %d",
				   number, signal_number);
	else if (users == 0)
		status = install_handler(number);
	if (status == TOW_OK)
		users++;
	pthread_mutex_unlock(&lock);
	return status;
}

/*
 * A thread that began to block the signal after the asker looked may still have it pending. So the
 * signal is ignored once, which discards it; the default action would end the process later.
 */
void twi_stacks_forbid(int number)
{
	const struct sigaction ignored = { .sa_handler = SIG_IGN };

	if (number == 0)
		return;
	pthread_mutex_lock(&lock);
	if (users > 0 && --users == 0) { /* none: this is a forked child */
		if (is_ours()) {
			sigaction(number, &ignored, NULL);
			sigaction(number, &before, NULL);
		}
		signal_number = 0;
	}
	pthread_mutex_unlock(&lock);
}

/* --- what the kernel reports of a thread --- */

/* Reads one of the thread's files as text; "" if there is none. */
static void read_task(pid_t tid, const char *name, char *out, size_t room)
{
	char path[64];
	ssize_t got;
	int fd;

	out[0] = '\0';
	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int)tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	got = read(fd, out, room - 1);
	close(fd);
	out[got > 0 ? got : 0] = '\0';
}

/* The text behind `name`, which is "\nName:\t"; NULL: there is no such line. */
static const char *line_of(const char *text, const char *name)
{
	const char *line = strstr(text, name);

	return line == NULL ? NULL : line + strlen(name);
}

/* Returns true if the thread blocks the signal. */
static bool look_at_thread(struct twi_stacks_thread *thread)
{
	char text[4096];
	const char *state, *blocked;

	read_task(thread->tid, "comm", thread->name, sizeof(thread->name));
	thread->name[strcspn(thread->name, "\n")] = '\0';
	read_task(thread->tid, "wchan", thread->kernel, sizeof(thread->kernel));
	if (!isalpha((unsigned char)thread->kernel[0]) && thread->kernel[0] != '_')
		thread->kernel[0] = '\0'; /* "0": it sleeps in none, or that is hidden */
	read_task(thread->tid, "schedstat", text, sizeof(text));
	thread->cpu_ns = strtoull(text, NULL, 10);
	read_task(thread->tid, "status", text, sizeof(text));
	state = line_of(text, "\nState:\t");
	blocked = line_of(text, "\nSigBlk:\t");
	thread->state = '?';
	if (state != NULL && isalpha((unsigned char)state[0]))
		thread->state = state[0];
	return blocked != NULL && signal_number > 0 &&
	       (strtoull(blocked, NULL, 16) >> (signal_number - 1) & 1) != 0;
}

static int by_number(const void *a, const void *b)
{
	pid_t left = *(const pid_t *)a, right = *(const pid_t *)b;
	bool left_main = left == getpid(), right_main = right == getpid();

	if (left_main != right_main)
		return left_main ? -1 : 1;
	return (left > right) - (left < right);
}

/* Lists the threads, the main thread first. Returns how many, at most `room`. */
static size_t list_threads(pid_t *tids, size_t room, size_t *left_out)
{
	const struct dirent *entry;
	DIR *tasks = opendir("/proc/self/task");
	size_t count = 0;

	*left_out = 0;
	while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (count < room)
			tids[count++] = (pid_t)strtol(entry->d_name, NULL, 10);
		else
			++*left_out;
	}
	if (tasks != NULL)
		closedir(tasks);
	qsort(tids, count, sizeof(*tids), by_number);
	return count;
}

/* --- asking; the lock is held --- */

/* A ticket whose slot no handler writes to any more; 0: there is none. */
static uint64_t take_ticket(void)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		uint64_t ticket = ++last_ticket;
		struct slot *slot = &slots[ticket % SLOTS];
		unsigned state = (unsigned)(atomic_load(&slot->word) & 3);

		if (state != SLOT_FREE && state != SLOT_ANSWERED)
			continue;
		atomic_store(&slot->word, word_of(ticket, SLOT_ASKED));
		return ticket;
	}
	return 0;
}

/* The ticket that was sent; 0: none was. */
static uint64_t ask_thread(pid_t tid)
{
	uint64_t ticket = take_ticket();
	siginfo_t info;

	if (ticket == 0)
		return 0;
	memset(&info, 0, sizeof(info));
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_ptr = (void *)(uintptr_t)ticket;
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, signal_number, &info) == 0)
		return ticket;
	atomic_store(&slots[ticket % SLOTS].word, 0); /* the thread has ended */
	return 0;
}

static bool has_answered(uint64_t ticket)
{
	return atomic_load_explicit(&slots[ticket % SLOTS].word, memory_order_acquire) ==
	       word_of(ticket, SLOT_ANSWERED);
}

static bool all_answered(const uint64_t *tickets, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (tickets[i] != 0 && !has_answered(tickets[i]))
			return false;
	}
	return true;
}

/* Copies the frames from where the thread was. Those before are the handler and its entry. */
static void copy_frames(const struct slot *slot, struct twi_stacks_thread *out)
{
	int first = 0;

	while (first < slot->depth && slot->frames[first] != slot->at)
		first++;
	if (first == slot->depth)
		first = 0;
	for (int i = first; i < slot->depth && out->depth < TWI_STACKS_FRAMES; i++)
		out->frames[out->depth++] = slot->frames[i];
	/* Lookups subtract one, as from a return address, which this address is not. */
	if (out->depth > 0 && out->frames[0] == slot->at)
		out->frames[0] = (const char *)slot->at + 1;
}

static void take_answer(uint64_t ticket, struct twi_stacks_thread *out)
{
	struct slot *slot = &slots[ticket % SLOTS];
	uint64_t asked = word_of(ticket, SLOT_ASKED);

	out->answer = TWI_STACKS_SILENT;
	if (ticket == 0 || atomic_compare_exchange_strong(&slot->word, &asked, 0) ||
	    !has_answered(ticket))
		return;
	copy_frames(slot, out);
	out->answer = TWI_STACKS_ANSWERED;
	atomic_store(&slot->word, 0);
}

static void ask_threads(struct twi_stacks *stacks)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	uint64_t tickets[TWI_STACKS_THREADS] = { 0 }, until = twi_now_ns() + TWI_STACKS_WAIT_NS;

	for (size_t i = 0; i < stacks->count; i++) {
		struct twi_stacks_thread *row = &stacks->rows[i];
		bool blocked = look_at_thread(row);

		if (stacks->signal == 0 || stacks->taken)
			row->answer = TWI_STACKS_OFF;
		else if (blocked)
			row->answer = TWI_STACKS_BLOCKED;
		else
			row->answer = TWI_STACKS_ANSWERED;
	}
	for (size_t i = 0; i < stacks->count; i++) {
		if (stacks->rows[i].answer == TWI_STACKS_ANSWERED)
			tickets[i] = ask_thread(stacks->rows[i].tid);
	}
	while (!all_answered(tickets, stacks->count) && twi_now_ns() < until)
		nanosleep(&nap, NULL);
	for (size_t i = 0; i < stacks->count; i++) {
		if (stacks->rows[i].answer == TWI_STACKS_ANSWERED)
			take_answer(tickets[i], &stacks->rows[i]);
	}
}

int twi_stacks_ask(struct twi_stacks *out)
{
	pid_t tids[TWI_STACKS_THREADS];

	*out = (struct twi_stacks){ .rows = calloc(TWI_STACKS_THREADS, sizeof(*out->rows)) };
	if (out->rows == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the stacks of threads");
	out->count = list_threads(tids, TWI_STACKS_THREADS, &out->left_out);
	if (out->count == 0) {
		twi_stacks_free(out);
		return twi_error(TOW_ESYSTEM, "/proc/self/task cannot be read");
	}
	for (size_t i = 0; i < out->count; i++)
		out->rows[i].tid = tids[i];
	pthread_mutex_lock(&lock);
	out->signal = signal_number;
	out->taken = signal_number != 0 && !is_ours();
	ask_threads(out);
	pthread_mutex_unlock(&lock);
	return TOW_OK;
}

void twi_stacks_free(struct twi_stacks *stacks)
{
	free(stacks->rows);
	*stacks = (struct twi_stacks){ 0 };
}
