/*
 * shm_dial.c - names, listening, connecting, and time limits of handshakes.
 *
 * shm://NAME is the socket shm-NAME.sock in the directory of the stats sockets (knob stats_dir). It
 * is a file and not an abstract name, because an abstract name belongs to a network namespace.
 * Containers that share a directory can share memory, but each has its own network namespace. The
 * file has mode 0600. The file of a dead process is replaced; that of a living one is TOW_EBUSY.
 *
 * A stranger can hold at most TWI_SHM_HANDSHAKES_MAX connections, of our user, for
 * connect_timeout_ns.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <towline/stats.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "diag/serve/listen.h"
#include "diag/serve/stats_dir.h"
#include "transport/lanes/shm/shm.h"

#define BACKLOG       64
#define SWEEP_MAX     64
#define LOCK_TRIES    1000u
#define LOCK_PAUSE_US 2000u

static int check_name(const char *name)
{
	size_t bytes = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "-_.");

	if (bytes == 0 || bytes > TWI_SHM_NAME_MAX || name[bytes] != '\0')
		return twi_error(TOW_EINVAL,
				 "address shm://%.100s: a name is 1 to %u letters, digits, - _ .",
				 name, TWI_SHM_NAME_MAX);
	return TOW_OK;
}

static int find_dir(const struct twi_engine *engine, char *out, size_t room)
{
	unsigned index = 0;

	/* All ranks of a user on one host try the same directories, and so meet in the same one. */
	if (engine->knobs.stats_dir[0] == '\0')
		return twi_stats_dir_find(NULL, &index, out, room);
	snprintf(out, room, "%s", engine->knobs.stats_dir);
	return TOW_OK;
}

int twi_shm_path(const struct twi_engine *engine, const char *name, char out[108])
{
	char dir[256];
	int status = check_name(name), n;

	if (status == TOW_OK)
		status = find_dir(engine, dir, sizeof(dir));
	if (status < 0)
		return status;
	n = snprintf(out, 108, "%s/shm-%s.sock", dir, name);
	return n < 108 ? TOW_OK
		       : twi_error(TOW_EINVAL,
				   "address shm://%s: its socket's path in '%s' has %d bytes, the "
				   "system allows 107; set a shorter stats_dir",
				   name, dir, n);
}

static void make_name(char *out, size_t room)
{
	uint64_t id = 0;

	if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != (ssize_t)sizeof(id))
		id = twi_now_ns();
	snprintf(out, room, "%x-%016llx", (unsigned)getpid(), (unsigned long long)id);
}

static void put_address(struct sockaddr_un *out, const char *path)
{
	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(out->sun_path, sizeof(out->sun_path), "%s", path);
}

static int new_socket(int *fd_out)
{
	int fd = twi_fd_high(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	if (fd < 0)
		return twi_fd_error(errno, "an endpoint or a connection");
	*fd_out = fd;
	return TOW_OK;
}

static int bind_at(int fd, const char *path)
{
	struct sockaddr_un address;

	put_address(&address, path);
	/* Before bind, so that the file never has another mode, not even for a moment. */
	fchmod(fd, 0600);
	for (int attempt = 0; attempt < 2; attempt++) {
		if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
			chmod(path, 0600);
			return listen(fd, BACKLOG) == 0
				       ? TOW_OK
				       : twi_error_errno(TOW_ESYSTEM, errno, "listen at %s", path);
		}
		if (errno != EADDRINUSE)
			return twi_error_errno(errno == EACCES || errno == EROFS ? TOW_EPERM
										 : TOW_ESYSTEM,
					       errno, "bind of %s", path);
		if (attempt > 0 || !twi_listen_is_dead(&address) ||
		    (unlink(path) != 0 && errno != ENOENT))
			break;
	}
	return twi_error(TOW_EBUSY, "the address of socket %s is in use by a living process", path);
}

/*
 * Removes files of made-up names whose processes were killed, because no process would reuse them.
 * Removes only a few at each open, so that opening stays quick and the files do not pile up.
 */
static void sweep_dead(int dir_fd, const char *dir)
{
	DIR *list = fdopendir(dup(dir_fd));
	struct dirent *entry;
	int looked = 0;

	while (list != NULL && looked < SWEEP_MAX && (entry = readdir(list)) != NULL) {
		struct sockaddr_un address;
		unsigned long long id;
		unsigned pid;
		char rest[8];

		if (sscanf(entry->d_name, "shm-%x-%16llx.soc%1[k]", &pid, &id, rest) != 3)
			continue;
		put_address(&address, "");
		if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", dir,
			     entry->d_name) >= (int)sizeof(address.sun_path))
			continue;
		looked++;
		if (twi_listen_is_dead(&address))
			unlink(address.sun_path);
	}
	if (list != NULL)
		closedir(list);
}

/*
 * Locks the directory until the descriptor is closed: a process that has bound but does not listen
 * yet looks dead to others. *locked_out is false if its file system has no locks, so that nobody
 * has one. A process that was stopped may hold the lock: it is not waited for without end.
 */
static int lock_dir(int dir_fd, const char *dir, bool *locked_out)
{
	*locked_out = false;
	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		*locked_out = flock(dir_fd, LOCK_EX | LOCK_NB) == 0;
		if (*locked_out || (errno != EWOULDBLOCK && errno != EINTR))
			return TOW_OK;
		usleep(LOCK_PAUSE_US);
	}
	return twi_error(TOW_EBUSY,
			 "another process has held the lock of directory %s for %u ms; its socket "
			 "files cannot be told from those of dead processes",
			 dir, LOCK_TRIES * LOCK_PAUSE_US / 1000);
}

static int bind_new(const char *path, int *fd_out)
{
	int status = new_socket(fd_out);

	if (status == TOW_OK) {
		status = bind_at(*fd_out, path);
		if (status < 0)
			close(*fd_out);
	}
	return status;
}

static int listen_at(const struct twi_engine *engine, const char *path, int *fd_out)
{
	char dir[256];
	int dir_fd, status = find_dir(engine, dir, sizeof(dir));
	bool locked;

	if (status == TOW_OK)
		status = twi_stats_dir_open(dir, &dir_fd);
	if (status < 0)
		return status;
	status = lock_dir(dir_fd, dir, &locked);
	if (locked)
		sweep_dead(dir_fd, dir);
	if (status == TOW_OK)
		status = bind_new(path, fd_out);
	close(dir_fd);
	return status;
}

int twi_shm_endpoint_open(struct twi_lane *base, const char *name, struct tow_endpoint **out)
{
	struct twi_shm_lane *lane = (struct twi_shm_lane *)(void *)base;
	struct twi_shm_endpoint *endpoint;
	char made[64], path[108];
	struct stat st;
	int status, fd = -1;

	if (name[0] == '\0' || strcmp(name, "*") == 0) {
		make_name(made, sizeof(made));
		name = made;
	}
	status = twi_shm_path(base->engine, name, path);
	if (status == TOW_OK)
		status = listen_at(base->engine, path, &fd);
	if (status < 0)
		return status;
	endpoint = twi_endpoint_alloc(sizeof(*endpoint));
	if (endpoint == NULL || lstat(path, &st) != 0 ||
	    twi_shm_watch_open(lane, &endpoint->listener, TWI_SHM_WATCH_LISTENER, fd) < 0) {
		twi_endpoint_free(&endpoint->base);
		close(fd);
		unlink(path);
		return twi_error(TOW_ENOMEM, "no memory for an endpoint");
	}
	endpoint->device = st.st_dev;
	endpoint->inode = st.st_ino;
	snprintf(endpoint->path, sizeof(endpoint->path), "%s", path);
	twi_endpoint_setup(&endpoint->base, base);
	snprintf(endpoint->base.address, sizeof(endpoint->base.address), "shm://%s", name);
	twi_shm_watch_arm(lane, &endpoint->listener);
	*out = &endpoint->base;
	return TOW_OK;
}

void twi_shm_endpoint_close(struct tow_endpoint *base)
{
	struct twi_shm_endpoint *endpoint = (struct twi_shm_endpoint *)(void *)base;
	struct twi_shm_lane *lane = twi_shm_lane_of(base->engine);
	struct twi_list *pos, *next;
	struct stat st;

	/* Handshakes that this endpoint accepted have no owner now and end. Its connects go on. */
	twi_list_for_each_safe (pos, next, &lane->handshakes) {
		struct twi_shm_peer *peer = twi_container_of(pos, struct twi_shm_peer, link);

		if (peer->endpoint != endpoint)
			continue;
		if (peer->base.connector)
			peer->endpoint = NULL;
		else
			twi_shm_peer_free(peer);
	}
	/* Removes only our own file: another process may have taken the name. */
	if (lstat(endpoint->path, &st) == 0 && st.st_dev == endpoint->device &&
	    st.st_ino == endpoint->inode)
		unlink(endpoint->path);
	twi_shm_watch_close(lane, &endpoint->listener);
	twi_endpoint_free(&endpoint->base);
}

static struct twi_shm_peer *create_peer(struct twi_shm_endpoint *endpoint, const char *address)
{
	struct twi_engine *engine = endpoint->base.engine;
	struct twi_shm_lane *lane = twi_shm_lane_of(engine);
	struct twi_shm_peer *peer = twi_peer_alloc(sizeof(*peer));

	if (peer == NULL) {
		twi_error(TOW_ENOMEM, "no memory for a peer");
		return NULL;
	}
	twi_peer_setup(&peer->base, &lane->base, address);
	peer->endpoint = endpoint;
	peer->deadline_ns = twi_engine_now(engine) + engine->knobs.connect_timeout_ns;
	twi_shm_traffic_init(peer);
	twi_list_push_back(&lane->handshakes, &peer->link);
	lane->handshake_count++;
	return peer;
}

void twi_shm_handshake_failed(struct twi_shm_peer *peer, int status)
{
	struct twi_engine *engine = peer->base.engine;
	struct tow_op *op = peer->dial;

	if (status == TOW_EPEER) { /* the other side has closed without a reason */
		twi_count(engine->diag, TWI_C_handshakes_abandoned, 1);
		twi_log(engine->diag, 3, "a handshake ended: %s", tow_error_message());
	} else {
		twi_count(engine->diag, TWI_C_handshakes_refused, 1);
		twi_log(engine->diag, 2, "a handshake failed: %s", tow_error_message());
	}
	/* The refused side sees only the end of the connection, not a reason. */
	if (status == TOW_EPEER && peer->base.connector)
		status = twi_error(TOW_EREFUSED,
				   "%s ended the handshake; its log says why (its knob require, "
				   "for instance)",
				   peer->base.address);
	if (op != NULL) {
		peer->dial = NULL;
		op->lane_state = NULL;
		twi_op_complete(op, status, 0);
	}
	twi_shm_peer_free(peer);
}

/* TOW_OK: connected; TOW_AGAIN: try later. */
static int dial_peer(struct twi_shm_peer *peer)
{
	TWI_UNCANCELED;
	struct sockaddr_un address;
	int err;

	put_address(&address, peer->path);
	if (connect(peer->socket.fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return TOW_OK;
	err = errno;
	if (err == EAGAIN || err == EINTR) { /* the listener's queue is full */
		peer->retry_ns = twi_engine_now(peer->base.engine) + TWI_SHM_RETRY_NS;
		return TOW_AGAIN;
	}
	if (err == ENOENT)
		return twi_error_errno(
			TOW_EREFUSED, err,
			"connect to %s: there is no %s: the process has gone, or has "
			"another stats_dir, user or mount namespace",
			peer->base.address, peer->path);
	return twi_error_errno(TOW_EREFUSED, err, "connect to %s (%s)", peer->base.address,
			       peer->path);
}

int twi_shm_connect(struct tow_endpoint *base, const char *name, struct tow_op *op)
{
	struct twi_shm_lane *lane = twi_shm_lane_of(base->engine);
	char address[TOW_ADDRESS_MAX], path[108];
	int status = twi_shm_path(base->engine, name, path), fd = -1;
	struct twi_shm_peer *peer;

	if (status < 0)
		return status;
	snprintf(address, sizeof(address), "shm://%s", name);
	status = new_socket(&fd);
	if (status < 0)
		return status;
	peer = create_peer((struct twi_shm_endpoint *)(void *)base, address);
	if (peer == NULL) {
		close(fd);
		return TOW_ENOMEM;
	}
	peer->base.connector = true;
	snprintf(peer->path, sizeof(peer->path), "%s", path);
	status = twi_shm_watch_open(lane, &peer->socket, TWI_SHM_WATCH_SOCKET, fd);
	if (status < 0) {
		close(fd);
		twi_shm_peer_free(peer);
		return status;
	}
	status = dial_peer(peer);
	peer->dial = op;
	op->lane_state = peer;
	if (status == TOW_OK)
		status = twi_shm_greet_begin(peer);
	if (status < 0) {
		twi_shm_handshake_failed(peer, status);
		return TOW_OK; /* the failure came at once: the operation has it */
	}
	if (peer->stage != TWI_SHM_CONNECTING)
		twi_shm_watch_arm(lane, &peer->socket);
	base->engine->armed_since_enter = true;
	return TOW_OK;
}

void twi_shm_connect_abort(struct tow_op *op, int status)
{
	struct twi_shm_peer *peer = op->lane_state;

	op->lane_state = NULL;
	if (peer != NULL) {
		peer->dial = NULL;
		twi_shm_peer_free(peer);
	}
	twi_op_complete(op, status, 0);
}

static void peer_accepted(struct twi_shm_lane *lane, struct twi_shm_endpoint *endpoint, int fd)
{
	struct twi_shm_peer *peer = NULL;
	int status;

	if (lane->handshake_count < TWI_SHM_HANDSHAKES_MAX)
		peer = create_peer(endpoint, "shm://?");
	if (peer == NULL || twi_shm_watch_open(lane, &peer->socket, TWI_SHM_WATCH_SOCKET, fd) < 0) {
		twi_count(lane->base.engine->diag, TWI_C_handshakes_refused, 1);
		close(fd);
		if (peer != NULL)
			twi_shm_peer_free(peer);
		return;
	}
	status = twi_shm_greet_begin(peer);
	if (status < 0)
		twi_shm_handshake_failed(peer, status);
	else
		twi_shm_watch_arm(lane, &peer->socket);
}

void twi_shm_accept_event(struct twi_shm_lane *lane, struct twi_shm_endpoint *endpoint)
{
	int fd;

	while ((fd = twi_fd_high(accept4(endpoint->listener.fd, NULL, NULL,
					 SOCK_CLOEXEC | SOCK_NONBLOCK))) >= 0)
		peer_accepted(lane, endpoint, fd);
	twi_shm_watch_arm(lane, &endpoint->listener);
}

/* Everything is mapped on both sides: hands the peer to the user. */
void twi_shm_peer_up(struct twi_shm_peer *peer)
{
	struct twi_engine *engine = peer->base.engine;
	struct twi_shm_lane *lane = twi_shm_lane_of(engine);
	struct tow_op *op = peer->dial;

	peer->stage = TWI_SHM_UP;
	twi_list_remove(&peer->link);
	lane->handshake_count--;
	twi_list_push_back(&lane->up, &peer->link);
	lane->up_count++;
	peer->moved = true;
	twi_count(engine->diag, TWI_C_peers_connected, 1);
	twi_log(engine->diag, 3, "peer %s is up; its other memory is %s", peer->base.address,
		peer->remote_theirs ? "read by process_vm_readv" : "staged");
	if (op != NULL) {
		peer->dial = NULL;
		op->lane_state = NULL;
		op->peer = &peer->base;
		peer->base.shown = true;
		twi_op_complete(op, TOW_OK, 0);
		return;
	}
	twi_endpoint_ready(&peer->endpoint->base, &peer->base);
}

void twi_shm_handshake_expire(struct twi_shm_lane *lane, uint64_t now_ns)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &lane->handshakes) {
		struct twi_shm_peer *peer = twi_container_of(pos, struct twi_shm_peer, link);
		int status = TOW_AGAIN;

		if (peer->deadline_ns <= now_ns) {
			twi_error(TOW_EDEADLINE, "a handshake took longer than connect_timeout_ns");
			status = TOW_EDEADLINE;
		} else if (peer->stage == TWI_SHM_CONNECTING && peer->retry_ns <= now_ns) {
			status = dial_peer(peer);
			if (status == TOW_OK)
				status = twi_shm_greet_begin(peer);
			if (status == TOW_OK)
				twi_shm_watch_arm(lane, &peer->socket);
		}
		if (status < 0)
			twi_shm_handshake_failed(peer, status);
	}
}
