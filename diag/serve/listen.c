/*
 * listen.c - binds a socket, and decides what to do when its name is taken. See socket.h for names.
 *
 * The kernel knows which sockets live: it refuses a connect once no process has the socket open,
 * however the process ended. A PID would be a weaker sign, as another process may have it by now. A
 * lock on a file (flock) would show no more. Only a fork could deceive: a child shares its parent's
 * sockets, answers nothing, and may live on. So children close these sockets at once.
 *
 * A file takes a name. If a connect to it is refused, its process is dead, and the file is removed.
 * Between bind and listen a living socket looks dead. Two processes that find the same dead socket
 * could each remove the other's new file. So all of this is under a lock on the directory. If the
 * lock is not free within a second, the work is done without it. That risk is small, and to wait
 * for a stopped process would be worse.
 */
#include "diag/serve/listen.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/serve/stats_dir.h"
#include "diag/serve/sweep.h"

#define NAMES_MAX     64
#define KEPT_MAX      64 /* sockets that children close; any beyond stay open there */
#define BACKLOG       64
#define LOCK_TRIES    100
#define LOCK_PAUSE_NS (10 * 1000 * 1000)

/* Descriptors plus one; 0: free. No lock guards them, as a fork may happen at any moment. */
static _Atomic int kept[KEPT_MAX];

static void close_in_child(void)
{
	for (size_t i = 0; i < KEPT_MAX; i++) {
		int fd = atomic_exchange_explicit(&kept[i], 0, memory_order_relaxed) - 1;

		if (fd >= 0)
			close(fd);
	}
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, close_in_child);
}

static void keep_from_children(int fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	for (size_t i = 0; i < KEPT_MAX; i++) {
		int expected = 0;

		if (atomic_compare_exchange_strong_explicit(&kept[i], &expected, fd + 1,
							    memory_order_relaxed,
							    memory_order_relaxed))
			return;
	}
}

/* Call it before `fd` is closed: later another file may have its number. */
static void leave_to_children(int fd)
{
	for (size_t i = 0; i < KEPT_MAX; i++) {
		int expected = fd + 1;

		atomic_compare_exchange_strong_explicit(&kept[i], &expected, 0,
							memory_order_relaxed, memory_order_relaxed);
	}
}

static bool good_job(const char *job)
{
	size_t bytes = strspn(job, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "-_.");

	return bytes > 0 && bytes <= 64 && job[bytes] == '\0' && job[0] != '.';
}

static bool lock_dir(int dir_fd)
{
	const struct timespec pause = { 0, LOCK_PAUSE_NS };

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(dir_fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		if (errno != EWOULDBLOCK)
			return false;
		nanosleep(&pause, NULL);
	}
	return false;
}

static int name_path(const struct twi_listen_name *name, unsigned number, struct sockaddr_un *out)
{
	char suffix[16] = "";
	int bytes;

	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (number > 1)
		snprintf(suffix, sizeof(suffix), "-%u", number);
	bytes = snprintf(out->sun_path, sizeof(out->sun_path), "%s/%s%s%s", name->dir, name->stem,
			 suffix, name->end);
	if (bytes < 0 || (size_t)bytes >= sizeof(out->sun_path))
		return twi_error(TOW_EINVAL,
				 "the stats socket's path in '%s' has %d bytes, the system allows "
				 "%zu; set a shorter stats_dir or job",
				 name->dir, bytes, sizeof(out->sun_path) - 1);
	return TOW_OK;
}

/*
 * unix(7): a connect first looks for the socket of the file, and fails with ECONNREFUSED without
 * one. Then it compares the types, and fails with EPROTOTYPE. So a datagram socket never enters a
 * listener's queue.
 */
bool twi_listen_is_dead(const struct sockaddr_un *address)
{
	struct stat st;
	int fd, err = 0;

	if (lstat(address->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return false;
	fd = twi_fd_high(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return false;
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0)
		err = errno;
	close(fd);
	return err == ECONNREFUSED;
}

/* TOW_AGAIN: a living socket has the name. */
static int bind_name(int fd, const struct sockaddr_un *address)
{
	for (int attempt = 0; attempt < 2; attempt++) {
		if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
			return TOW_OK;
		if (errno != EADDRINUSE)
			return twi_error_errno(
				errno == EACCES || errno == EROFS ? TOW_EPERM : TOW_ESYSTEM, errno,
				"bind of the stats socket '%s'", address->sun_path);
		if (attempt > 0 || !twi_listen_is_dead(address) ||
		    (unlink(address->sun_path) != 0 && errno != ENOENT))
			return TOW_AGAIN;
	}
	return TOW_AGAIN;
}

static int bind_any(int fd, const struct twi_listen_name *name, struct twi_listen *out)
{
	struct sockaddr_un address;
	int status = TOW_AGAIN;

	for (unsigned number = 1; number <= NAMES_MAX && status == TOW_AGAIN; number++) {
		status = name_path(name, number, &address);
		if (status == TOW_OK)
			status = bind_name(fd, &address);
	}
	if (status == TOW_AGAIN)
		return twi_error(TOW_EBUSY,
				 "%d live runtimes have the stats sockets %s/%s*%s; give each "
				 "runtime its own rank",
				 NAMES_MAX, name->dir, name->stem, name->end);
	if (status == TOW_OK)
		snprintf(out->path, sizeof(out->path), "%s", address.sun_path);
	return status;
}

static int listen_at(const struct twi_listen_name *name, struct twi_listen *out)
{
	struct stat st;
	int status;

	out->fd = twi_fd_high(socket(AF_UNIX, name->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (out->fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "socket for the stats socket");
	/* Before bind, so that the file never has another mode. */
	fchmod(out->fd, 0600);
	status = bind_any(out->fd, name, out);
	if (status == TOW_OK && (chmod(out->path, 0600) != 0 || lstat(out->path, &st) != 0 ||
				 listen(out->fd, BACKLOG) != 0)) {
		status = twi_error_errno(TOW_ESYSTEM, errno, "listen on '%s'", out->path);
		unlink(out->path);
	}
	if (status < 0) {
		close(out->fd);
		return status;
	}
	out->device = st.st_dev;
	out->inode = st.st_ino;
	keep_from_children(out->fd);
	return TOW_OK;
}

int twi_listen_stem(const char *job, int64_t rank, char out[TWI_LISTEN_STEM_BYTES])
{
	if (!good_job(job))
		return twi_error(TOW_EINVAL,
				 "job '%.80s' cannot name a stats socket: 1 to 64 letters, digits, "
				 "- _ . and no . in front",
				 job);
	snprintf(out, TWI_LISTEN_STEM_BYTES, "%s.%lld", job, (long long)rank);
	return TOW_OK;
}

int twi_listen_open(const struct twi_listen_name *name, struct twi_listen *out)
{
	int dir_fd, status = twi_stats_dir_open(name->dir, &dir_fd);

	if (status < 0)
		return status;
	/* Without the lock, a socket between bind and listen would look dead. */
	if (lock_dir(dir_fd) && name->sweep)
		twi_sweep(dir_fd, name->dir);
	status = listen_at(name, out);
	close(dir_fd); /* releases the lock, too */
	return status;
}

void twi_listen_unlink(const struct twi_listen *listener)
{
	struct stat st;

	leave_to_children(listener->fd);
	if (lstat(listener->path, &st) == 0 && st.st_dev == listener->device &&
	    st.st_ino == listener->inode)
		unlink(listener->path);
}
