/*
 * watch.c - the userfaultfd and the thread that reads it; watch.h has the argument.
 *
 * The monitor calls nothing that could unmap watched memory, allocate, or sleep on a lock. It would
 * then wait for itself.
 */
#include "memreg/user/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/base/thread.h"
#include "diag/record/diag.h"
#include "memreg/os/maps.h"
#include <internal/base.h>

#define BATCH         16
#define BACKLOG       64
#define TICK_MS       250
#define SETTLED_TICKS 8
#define STOP_TRIES    1000
#define FORK_CELLS    64
#define LOCK_TRIES    50
#define LOCK_PAUSE_NS 20000
#define STACK_BYTES   (256u << 10)
#define NS_PER_MS     1000000ull

/* Descriptors that the child of a fork closes: number + 1; 0: the slot is free. */
static _Atomic int fork_cells[FORK_CELLS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void close_in_child(void)
{
	for (int i = 0; i < FORK_CELLS; i++) {
		int fd = atomic_exchange_explicit(&fork_cells[i], 0, memory_order_relaxed) - 1;

		if (fd >= 0)
			close(fd);
	}
}

static void init_once(void)
{
	pthread_atfork(NULL, NULL, close_in_child);
}

/* Without a free slot the child keeps the descriptor. That is harmless: stop removes all ranges. */
static void note_descriptor(int fd)
{
	int none = 0;

	for (int i = 0; i < FORK_CELLS; i++, none = 0) {
		if (atomic_compare_exchange_strong(&fork_cells[i], &none, fd + 1))
			return;
	}
}

static void close_descriptor(int *fd)
{
	for (int i = 0; i < FORK_CELLS && *fd >= 0; i++) {
		int noted = *fd + 1;

		if (atomic_compare_exchange_strong(&fork_cells[i], &noted, 0))
			break;
	}
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Events that the monitor has read but not yet reported. It lies on the monitor's stack. */
struct backlog {
	struct twi_watch_range gone[BACKLOG];
	bool discarded[BACKLOG];
	uint32_t count;
	bool lost; /* too many events: everything has changed */
	struct twi_watch_ranges moved;
};

static bool ranges_add(struct twi_watch_ranges *ranges, uint64_t start, uint64_t end,
		       uint32_t ticks)
{
	if (ranges->count == TWI_WATCH_RANGES)
		return false;
	ranges->range[ranges->count++] = (struct twi_watch_range){ start, end, ticks };
	return true;
}

static void note_gone(struct backlog *log, uint64_t start, uint64_t end, bool discarded)
{
	if (log->count == BACKLOG) {
		log->lost = true;
		return;
	}
	log->discarded[log->count] = discarded;
	log->gone[log->count++] = (struct twi_watch_range){ start, end, 0 };
}

static void note_event(struct backlog *log, const struct uffd_msg *msg)
{
	switch (msg->event) {
	case UFFD_EVENT_UNMAP:
		note_gone(log, msg->arg.remove.start, msg->arg.remove.end, false);
		break;
	case UFFD_EVENT_REMOVE:
		note_gone(log, msg->arg.remove.start, msg->arg.remove.end, true);
		break;
	case UFFD_EVENT_REMAP:
		note_gone(log, msg->arg.remap.from, msg->arg.remap.from + msg->arg.remap.len,
			  false);
		/* A surplus range stays watched at its new address: useless events, no harm. */
		ranges_add(&log->moved, msg->arg.remap.to, msg->arg.remap.to + msg->arg.remap.len,
			   0);
		break;
	default:
		log->lost = true;
	}
}

/* Reads all pending events. Sets busy first, so that no check succeeds until they are reported. */
static void read_events(struct twi_watch *watch, struct backlog *log)
{
	struct uffd_msg msg[BATCH];
	ssize_t bytes;

	/* Seq_cst: precedes the read that lets the unmapping thread continue. */
	atomic_store_explicit(&watch->busy, true, memory_order_seq_cst);
	do {
		bytes = read(watch->fd, msg, sizeof(msg));
		for (size_t i = 0; bytes > 0 && i < (size_t)bytes / sizeof(msg[0]); i++)
			note_event(log, &msg[i]);
	} while (bytes > 0 || (bytes < 0 && errno == EINTR));
	if (bytes == 0 || errno != EAGAIN)
		atomic_store_explicit(&watch->broken, true, memory_order_seq_cst);
}

/* Reports all changes that were read. The lock is held. */
static void tell_changes(struct twi_watch *watch, struct backlog *log)
{
	for (uint32_t i = 0; i < log->count; i++) {
		const struct twi_watch_range *gone = &log->gone[i];

		watch->changed(watch->arg, gone->start, gone->end);
		if (log->discarded[i] &&
		    !ranges_add(&watch->discarded, gone->start, gone->end, SETTLED_TICKS))
			watch->all_ticks = SETTLED_TICKS;
	}
	if (log->lost) {
		watch->changed(watch->arg, 0, UINT64_MAX);
		watch->all_ticks = SETTLED_TICKS;
	}
	for (uint32_t i = 0; i < log->moved.count; i++)
		ranges_add(&watch->moved, log->moved.range[i].start, log->moved.range[i].end, 0);
	log->count = log->moved.count = 0;
	log->lost = false;
	/* Release: a thread that sees busy clear sees what changed() did (anyway by the lock). */
	atomic_store_explicit(&watch->busy, false, memory_order_release);
}

/* Counts the wake-ups of this thread, because time does not pass for a stopped process. */
static void watch_tick(struct twi_watch *watch)
{
	struct twi_watch_ranges *discarded = &watch->discarded;
	uint32_t kept = 0;

	watch->all_ticks -= watch->all_ticks > 0;
	for (uint32_t i = 0; i < discarded->count; i++) {
		discarded->range[kept] = discarded->range[i];
		kept += --discarded->range[kept].ticks > 0;
	}
	discarded->count = kept;
}

static int timeout_ms(const struct twi_watch *watch, bool waiting)
{
	if (waiting)
		return 1;
	/* Only this thread changes these fields. */
	return watch->discarded.count > 0 || watch->all_ticks > 0 ? TICK_MS : -1;
}

/*
 * Tries the lock for a moment only: the monitor must read events even while a thread holds the lock
 * for long. It does not wait for the mutex, because thread sanitizers do not know such a wait by
 * the monotonic clock.
 */
static bool lock_for_a_moment(struct twi_watch *watch)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (pthread_mutex_trylock(watch->lock) == 0)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static void *watch_thread(void *arg)
{
	struct twi_watch *watch = arg;
	struct pollfd fds[2] = { { .fd = watch->fd, .events = POLLIN },
				 { .fd = watch->stop_fd, .events = POLLIN } };
	struct backlog log = { .count = 0 };
	uint64_t ticked_ns = twi_now_ns();
	bool waiting = false;

	while (!atomic_load_explicit(&watch->broken, memory_order_relaxed)) {
		bool due;

		if (poll(fds, 2, timeout_ms(watch, waiting)) < 0 && errno != EINTR)
			atomic_store_explicit(&watch->broken, true, memory_order_seq_cst);
		if (fds[1].revents != 0)
			break;
		if (fds[0].revents != 0) {
			read_events(watch, &log);
			waiting = true;
		}
		due = twi_now_ns() - ticked_ns >= TICK_MS * NS_PER_MS;
		if ((!waiting && !due) || !lock_for_a_moment(watch))
			continue;
		if (waiting)
			tell_changes(watch, &log);
		if (due)
			watch_tick(watch);
		pthread_mutex_unlock(watch->lock);
		waiting = false;
		if (due)
			ticked_ns = twi_now_ns();
	}
	return NULL;
}

static int refuse_watch(struct twi_watch *watch, const char *call, int err, const char *mend)
{
	snprintf(watch->reason, sizeof(watch->reason), "%s: %s (%s)", call, strerrorname_np(err),
		 strerrordesc_np(err));
	snprintf(watch->mend, sizeof(watch->mend), "%s", mend);
	twi_watch_stop(watch);
	return TOW_ENOTSUP;
}

static int open_userfaultfd(struct twi_watch *watch)
{
	struct uffdio_api api = { .api = UFFD_API,
				  .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP |
					      UFFD_FEATURE_EVENT_REMOVE |
					      UFFD_FEATURE_PAGEFAULT_FLAG_WP };

	watch->fd = twi_fd_high(
		(int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
	if (watch->fd < 0)
		return refuse_watch(
			watch, "userfaultfd", errno,
			"allow userfaultfd in the seccomp profile (docker: --security-opt "
			"seccomp=FILE); it needs Linux 5.11");
	note_descriptor(watch->fd);
	if (ioctl(watch->fd, UFFDIO_API, &api))
		return refuse_watch(watch, "ioctl(UFFDIO_API)", errno,
				    "a Linux 5.11 or later with CONFIG_HAVE_ARCH_USERFAULTFD_WP");
	return TOW_OK;
}

int twi_watch_start(struct twi_watch *watch)
{
	struct twi_map map;
	int err;

	pthread_once(&once, init_once);
	watch->fd = watch->maps_fd = watch->stop_fd = -1;
	watch->reason[0] = watch->mend[0] = '\0';
	watch->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	if (open_userfaultfd(watch) < 0)
		return TOW_ENOTSUP;
	watch->maps_fd = twi_maps_open();
	if (watch->maps_fd < 0)
		return refuse_watch(watch, "open of /proc/self/maps", errno,
				    "mount -t proc proc /proc");
	watch->walks = twi_maps_query(watch->maps_fd, 0, &map) == 0;
	watch->stop_fd = twi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (watch->stop_fd < 0)
		return refuse_watch(watch, "eventfd", errno,
				    "raise RLIMIT_NOFILE: ulimit -n 65536");
	err = twi_thread_start(&watch->thread, NULL, STACK_BYTES, watch_thread, watch);
	if (err != 0)
		return refuse_watch(watch, "pthread_create", err, "raise RLIMIT_NPROC or pids.max");
	watch->running = true;
	return TOW_OK;
}

/* True while a mapping is being changed. The kernel tests that first, so no range is needed. */
static bool is_changing(const struct twi_watch *watch)
{
	struct uffdio_zeropage none = { .mode = 0 };

	return ioctl(watch->fd, UFFDIO_ZEROPAGE, &none) != 0 && errno == EAGAIN;
}

/*
 * A thread that began to unmap before the last range was removed still waits until its event is
 * read. It would wait for ever if a child of ours has the descriptor open. So this waits for such
 * threads first.
 */
static void await_last_events(struct twi_watch *watch)
{
	const struct timespec millisecond = { .tv_nsec = 1000000 };

	for (int i = 0; i < STOP_TRIES && is_changing(watch); i++)
		nanosleep(&millisecond, NULL);
}

void twi_watch_stop(struct twi_watch *watch)
{
	uint64_t one = 1;

	if (watch->running) {
		await_last_events(watch);
		(void)!write(watch->stop_fd, &one, sizeof(one));
		pthread_join(watch->thread, NULL);
	}
	watch->running = false;
	close_descriptor(&watch->fd);
	if (watch->maps_fd >= 0)
		close(watch->maps_fd);
	if (watch->stop_fd >= 0)
		close(watch->stop_fd);
	watch->maps_fd = watch->stop_fd = -1;
}

static int map_at(const struct twi_watch *watch, uint64_t address, struct twi_map *out)
{
	return watch->walks ? twi_maps_query(watch->maps_fd, address, out)
			    : twi_maps_scan(watch->maps_fd, address, out);
}

/* TOW_OK when all of the range is mapped, private and anonymous. */
static int check_kind(const struct twi_watch *watch, uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end;) {
		struct twi_map map;
		int err = map_at(watch, at, &map);

		if (err != 0 || map.start > at)
			return twi_error(TOW_ENOTSUP, "late cache: nothing is mapped at 0x%llx",
					 (unsigned long long)at);
		if (map.shared || map.file)
			return twi_error(TOW_ENOTSUP,
					 "late cache: the memory at 0x%llx is shared or a file's, "
					 "whose pages can change without notice; register it once "
					 "with tow_mem_register",
					 (unsigned long long)at);
		at = map.end;
	}
	return TOW_OK;
}

int twi_watch_add(struct twi_watch *watch, uint64_t start, uint64_t end)
{
	struct uffdio_register range = { .range = { start, end - start },
					 .mode = UFFDIO_REGISTER_MODE_WP };
	int status;

	if (atomic_load_explicit(&watch->broken, memory_order_relaxed))
		return twi_error(TOW_ENOTSUP, "late cache: the userfaultfd was closed by others");
	if (ioctl(watch->fd, UFFDIO_REGISTER, &range))
		return twi_error_errno(errno == ENOMEM ? TOW_ENOMEM : TOW_ENOTSUP, errno,
				       "late cache: %llu bytes at 0x%llx cannot be watched; "
				       "register them once with tow_mem_register",
				       (unsigned long long)(end - start),
				       (unsigned long long)start);
	/* Checked afterwards: from now on a change of the mapping causes an event. */
	status = check_kind(watch, start, end);
	if (status < 0)
		twi_watch_remove(watch, start, end);
	return status;
}

static bool unregister_range(const struct twi_watch *watch, uint64_t start, uint64_t end)
{
	struct uffdio_range range = { start, end - start };

	return ioctl(watch->fd, UFFDIO_UNREGISTER, &range) == 0;
}

void twi_watch_remove(struct twi_watch *watch, uint64_t start, uint64_t end)
{
	struct twi_map map;

	if (unregister_range(watch, start, end))
		return;
	/* The kernel refuses the whole range if a part of it has been mapped anew. */
	for (uint64_t at = start; at < end && map_at(watch, at, &map) == 0 && map.start < end;) {
		at = twi_max(at, map.start);
		(void)unregister_range(watch, at, twi_min(end, map.end));
		at = map.end;
	}
}

/* TOW_OK: the page is present and watched. */
static int probe_page(const struct twi_watch *watch, uint64_t page)
{
	struct uffdio_zeropage zero = { .range = { page, watch->page_bytes },
					.mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE };

	if (ioctl(watch->fd, UFFDIO_ZEROPAGE, &zero) == 0)
		return TOW_EFREED;
	return errno == EEXIST ? TOW_OK : errno == EAGAIN ? TOW_AGAIN : TOW_EFREED;
}

int twi_watch_check(struct twi_watch *watch, uint64_t start, uint64_t end)
{
	int status;

	if (twi_unlikely(watch->blind))
		return TOW_OK;
	status = probe_page(watch, start & ~(watch->page_bytes - 1));
	for (uint64_t at = start; status == TOW_OK && watch->walks && at < end;) {
		struct twi_map map;

		if (twi_maps_query(watch->maps_fd, at, &map) != 0 || map.start > at || map.shared ||
		    map.file)
			return TOW_EFREED;
		if (at > start)
			status = probe_page(watch, at);
		at = map.end;
	}
	if (atomic_load_explicit(&watch->broken, memory_order_seq_cst))
		return TOW_EFREED;
	/* Last: see the argument in watch.h. */
	if (status == TOW_OK && atomic_load_explicit(&watch->busy, memory_order_seq_cst))
		return TOW_AGAIN;
	return status;
}

bool twi_watch_unsettled(const struct twi_watch *watch, uint64_t start, uint64_t end)
{
	if (watch->all_ticks > 0)
		return !watch->blind;
	for (uint32_t i = 0; i < watch->discarded.count; i++) {
		const struct twi_watch_range *range = &watch->discarded.range[i];

		if (range->start < end && start < range->end)
			return !watch->blind;
	}
	return false;
}

bool twi_watch_moved(struct twi_watch *watch, uint64_t *start_out, uint64_t *end_out)
{
	struct twi_watch_ranges *moved = &watch->moved;

	if (moved->count == 0)
		return false;
	moved->count--;
	*start_out = moved->range[moved->count].start;
	*end_out = moved->range[moved->count].end;
	return true;
}
