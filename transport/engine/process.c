/* process.c - keeps a pidfd of each watched process in one epoll set. See process.h. */
#include "transport/engine/process.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "diag/base/cancel.h"
#include "diag/base/fd.h"
#include "transport/engine/engine.h"
#include "transport/engine/poller.h"
#include "transport/engine/watch.h"

#define LOOK_EVERY_NS 1000000000ull
#define LOOK_AT_ONCE  8u /* processes: each costs some us, and no thread drives meanwhile */

struct twi_watched {
	struct twi_list link; /* on processes->known */
	struct twi_list users;
	struct twi_identity identity;
	int fd;
	bool ended; /* its users are being told: end_process drops it */
};

void twi_processes_init(struct twi_engine *engine)
{
	twi_list_init(&engine->processes.known);
	engine->processes.set = -1;
}

/* Closes the set when the last process has gone. */
static void drop_set(struct twi_engine *engine)
{
	struct twi_processes *processes = &engine->processes;

	if (processes->set < 0 || !twi_list_empty(&processes->known))
		return;
	twi_ring_forget(engine, processes->set);
	close(processes->set);
	processes->set = -1;
	processes->rings = 0;
}

/*
 * The process leaves the set before its descriptor is closed. A poll of the set in another thread's
 * ring may hold the file for a moment longer, and the set would still report it.
 */
static void drop_process(struct twi_engine *engine, struct twi_watched *process)
{
	twi_list_remove(&process->link);
	(void)epoll_ctl(engine->processes.set, EPOLL_CTL_DEL, process->fd, NULL);
	close(process->fd);
	free(process);
}

void twi_processes_fini(struct twi_engine *engine)
{
	twi_assert(twi_list_empty(&engine->processes.known));
	drop_set(engine);
}

static struct twi_watched *find_process(const struct twi_processes *processes,
					const struct twi_identity *identity)
{
	const struct twi_list *pos;

	for (pos = processes->known.next; pos != &processes->known; pos = pos->next) {
		struct twi_watched *process = twi_container_of(pos, struct twi_watched, link);

		if (process->identity.pid == identity->pid &&
		    process->identity.pid_start == identity->pid_start)
			return process;
	}
	return NULL;
}

/* Opens a descriptor of the process, and adds it to the set. -1: there is none to be had. */
static int open_process(struct twi_processes *processes, const struct twi_identity *identity,
			struct twi_watched *process)
{
	struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = process } };
	int fd;

	if (processes->set < 0)
		processes->set = twi_fd_high(epoll_create1(EPOLL_CLOEXEC));
	if (processes->set < 0)
		return -1;
	fd = twi_fd_high((int)syscall(SYS_pidfd_open, (pid_t)identity->pid, 0));
	if (fd >= 0 && epoll_ctl(processes->set, EPOLL_CTL_ADD, fd, &event) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static struct twi_watched *add_process(struct twi_engine *engine,
				       const struct twi_identity *identity)
{
	struct twi_processes *processes = &engine->processes;
	struct twi_watched *process = calloc(1, sizeof(*process));

	if (process == NULL)
		return NULL;
	twi_list_init(&process->users);
	process->identity = *identity;
	process->fd = open_process(processes, identity, process);
	if (process->fd < 0) {
		free(process);
		drop_set(engine);
		return NULL;
	}
	if (twi_list_empty(&processes->known))
		processes->due_ns = twi_engine_clock(engine) + LOOK_EVERY_NS;
	twi_list_push_back(&processes->known, &process->link);
	twi_processes_arm(engine);
	return process;
}

/*
 * Does the process still run? Its descriptor says so. /proc tells only of the first thread, which
 * is not enough, unless it shows that another process has the number now.
 */
static enum twi_process process_state(const struct twi_engine *engine,
				      const struct twi_identity *identity,
				      const struct twi_watched *process)
{
	TWI_UNCANCELED;
	char state;
	enum twi_process how = twi_identity_look(&engine->self, identity, &state);
	struct pollfd end = { .fd = process != NULL ? process->fd : -1, .events = POLLIN };

	if (process == NULL) /* no later end would be seen */
		return how == TWI_PROCESS_GONE && state == 0 ? how : TWI_PROCESS_UNKNOWN;
	if (how == TWI_PROCESS_GONE && state != 'Z')
		return how;
	return poll(&end, 1, 0) == 1 ? TWI_PROCESS_GONE : TWI_PROCESS_RUNS;
}

enum twi_process twi_process_watch(struct twi_engine *engine, const struct twi_identity *identity,
				   struct twi_process_user *user)
{
	struct twi_watched *process;
	enum twi_process how;

	twi_assert_held(engine);
	twi_assert(user->process == NULL);
	if (engine->virtual_clock || !twi_identity_is_near(&engine->self, identity) ||
	    identity->pid == engine->self.pid || identity->pid > INT32_MAX)
		return TWI_PROCESS_UNKNOWN;
	process = find_process(&engine->processes, identity);
	if (process == NULL)
		process = add_process(engine, identity);
	how = process_state(engine, identity, process);
	if (how == TWI_PROCESS_RUNS) {
		twi_list_push_back(&process->users, &user->link);
		user->process = process;
	} else if (process != NULL && twi_list_empty(&process->users)) {
		drop_process(engine, process);
		drop_set(engine);
	}
	return how;
}

void twi_process_unwatch(struct twi_engine *engine, struct twi_process_user *user)
{
	struct twi_watched *process = user->process;

	twi_assert_held(engine);
	if (process == NULL)
		return;
	twi_list_remove(&user->link);
	user->process = NULL;
	if (!process->ended && twi_list_empty(&process->users)) {
		drop_process(engine, process);
		drop_set(engine);
	}
}

void twi_processes_arm(struct twi_engine *engine)
{
	struct twi_processes *processes = &engine->processes;

	twi_assert_held(engine);
	if (processes->set < 0)
		return;
	engine->armed_since_enter = true;
	/* If this thread is not the driver, the driver must arm the poll, too. */
	if (engine->ring != engine->armed_ring)
		engine->armed_ring = NULL;
	twi_watch_as(engine, TWI_RING_PROCESSES, 0, processes->set, &processes->rings);
}

/* Tells the users. Each of them may make others leave, of this process and of others. */
static void end_process(struct twi_engine *engine, struct twi_watched *process)
{
	struct twi_list *entry;

	process->ended = true;
	twi_list_remove(&process->link); /* no call finds it any more */
	while ((entry = twi_list_first(&process->users)) != NULL) {
		struct twi_process_user *user =
			twi_container_of(entry, struct twi_process_user, link);

		twi_list_remove(entry);
		user->process = NULL;
		user->ended(user);
	}
	drop_process(engine, process);
}

void twi_processes_completed(struct twi_engine *engine, uint64_t user_data)
{
	struct twi_processes *processes = &engine->processes;
	struct epoll_event event;

	if (processes->set < 0)
		return; /* the set has gone: the poll's ring is being taken down, perhaps */
	processes->rings &= ~(1u << twi_watch_ring(user_data));
	while (processes->set >= 0 && epoll_wait(processes->set, &event, 1, 0) == 1)
		end_process(engine, event.data.ptr);
	drop_set(engine);
	twi_processes_arm(engine);
}

static unsigned count_to_look_at(const struct twi_processes *processes)
{
	const struct twi_list *pos;
	unsigned count = 0;

	for (pos = processes->known.next; pos != &processes->known && count < LOOK_AT_ONCE;
	     pos = pos->next)
		count++;
	return count;
}

/*
 * Looks at the first processes of the list, each once, and moves them to its end. The list may
 * change while users are told, so each turn begins at its head.
 */
void twi_processes_look(struct twi_engine *engine)
{
	struct twi_processes *processes = &engine->processes;
	uint64_t now = twi_engine_clock(engine);
	struct twi_watched *process;
	struct twi_list *entry;

	twi_assert_held(engine);
	if (now < processes->due_ns)
		return;
	processes->due_ns = now + LOOK_EVERY_NS;
	for (unsigned left = count_to_look_at(processes); left > 0; left--) {
		entry = twi_list_first(&processes->known);
		if (entry == NULL)
			break;
		process = twi_container_of(entry, struct twi_watched, link);
		if (twi_identity_was_killed(&engine->self, &process->identity)) {
			end_process(engine, process);
			continue;
		}
		twi_list_remove(&process->link);
		twi_list_push_back(&processes->known, &process->link);
	}
	drop_set(engine);
}

void twi_processes_ring_gone(struct twi_engine *engine, unsigned index)
{
	engine->processes.rings &= ~(1u << index);
}
