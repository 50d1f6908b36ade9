/*
 * towbpf_ranks.c - finds runtimes, passes them the maps of their user, and keeps the connections. A
 * runtime counts while its connection is open.
 *
 * Other users may own the directories of the sockets. So nothing here waits for another process.
 * Connects do not block. A process that does not answer is a row in a table of bounded size.
 */
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#include "tools/common/trust.h"
#include "tools/common/words.h"
#include "tools/towbpf/towbpf.h"

#define RETRY_MS 10000

uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Prints a change of a runtime, once. */
static void print_change(struct rank *rank, const char *what)
{
	char path[sizeof(rank->path)];

	if (strcmp(rank->said, what) == 0)
		return;
	snprintf(rank->said, sizeof(rank->said), "%s", what);
	/* A file name may hold any byte. */
	words_clean(path, sizeof(path), rank->path);
	printf("towbpf: %s: %s\n", path, what);
	fflush(stdout);
}

static void leave_rank(struct ranks *ranks, struct rank *rank)
{
	if (rank->fd < 0)
		return;
	close(rank->fd);
	rank->fd = -1;
	if (rank->slot > 0)
		ranks->users[rank->user]->used[rank->slot] = false;
	rank->slot = 0;
	rank->retry_ms = now_ms() + RETRY_MS;
}

int ranks_user(struct ranks *ranks, uid_t uid)
{
	struct loaded *user;

	for (int i = 0; i < ranks->user_count; i++) {
		if (ranks->users[i]->uid == uid)
			return i;
	}
	user = ranks->user_count < USERS_MAX ? malloc(sizeof(*user)) : NULL;
	if (user == NULL)
		return -1;
	if (load(uid, &ranks->options, user) != 0)
		fprintf(stderr, "towbpf: off: %s\n", user->why);
	else if (user->why[0] != '\0')
		fprintf(stderr, "towbpf: not all of it: %s\n", user->why);
	ranks->users[ranks->user_count] = user;
	return ranks->user_count++;
}

/*
 * Takes slots in turn, so that values left by a dead process are not soon counted for another. 0:
 * no slot is free.
 */
static unsigned take_slot(struct loaded *user)
{
	for (unsigned i = 0; i < TWI_BPF_SLOTS - 1; i++) {
		unsigned slot = 1 + (user->next_slot + i) % (TWI_BPF_SLOTS - 1);

		if (!user->used[slot]) {
			user->used[slot] = true;
			user->next_slot = slot;
			return slot;
		}
	}
	return 0;
}

static int send_hello(int fd, const struct loaded *user, unsigned slot)
{
	struct twi_bpf_hello hello = { .magic = TWI_BPF_MAGIC,
				       .version = TWI_BPF_VERSION,
				       .on = user->skeleton != NULL,
				       .slot = slot,
				       .programs = user->programs };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(TWI_BPF_MAPS * sizeof(int))];
	} control = { 0 };
	struct iovec part = { &hello, sizeof(hello) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	memcpy(hello.why, user->why, sizeof(hello.why));
	memcpy(hello.reasons, user->reasons, sizeof(hello.reasons));
	if (user->skeleton != NULL) {
		message.msg_control = control.room;
		message.msg_controllen = sizeof(control.room);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(TWI_BPF_MAPS * sizeof(int));
		for (int i = 0; i < TWI_BPF_MAPS; i++)
			((int *)(void *)CMSG_DATA(&control.head))[i] =
				loaded_map(user, (enum twi_bpf_map)i);
	}
	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(hello) ? 0
											    : -1;
}

static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

	if (fd < 0)
		return -1;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

/*
 * Sends the maps to their user alone: the programs count for processes of that uid, and for no
 * others. By the kernel's credentials, the process at the other end must run as the owner of the
 * file.
 */
static void connect_rank(struct ranks *ranks, struct rank *rank)
{
	struct ucred peer = { 0 };
	socklen_t bytes = sizeof(peer);

	rank->retry_ms = now_ms() + RETRY_MS;
	rank->fd = connect_to(rank->path);
	if (rank->fd < 0) {
		print_change(rank, errno == ECONNREFUSED ? "its process is dead" : strerror(errno));
		return;
	}
	if (!trust_peer(rank->fd, rank->path) ||
	    getsockopt(rank->fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
		print_change(rank,
			     "the process that answers there belongs to another user than the "
			     "file");
		leave_rank(ranks, rank);
		return;
	}
	rank->user = ranks_user(ranks, peer.uid);
	if (rank->user >= 0 && ranks->users[rank->user]->skeleton != NULL)
		rank->slot = take_slot(ranks->users[rank->user]);
	if (rank->user < 0 || (ranks->users[rank->user]->skeleton != NULL && rank->slot == 0)) {
		print_change(rank, "too many users or processes are served already");
		leave_rank(ranks, rank);
	} else if (send_hello(rank->fd, ranks->users[rank->user], rank->slot) != 0) {
		print_change(rank, strerror(errno));
		leave_rank(ranks, rank);
	}
}

static void read_reply(struct ranks *ranks, struct rank *rank)
{
	struct twi_bpf_reply reply;
	ssize_t bytes = recv(rank->fd, &reply, sizeof(reply), MSG_DONTWAIT);
	char text[TWI_BPF_TEXT_BYTES], said[200];

	if (bytes < 0 && errno == EAGAIN)
		return;
	if (bytes != (ssize_t)sizeof(reply) || reply.magic != TWI_BPF_MAGIC) {
		print_change(rank, bytes == 0 ? "gone" : "speaks otherwise");
		leave_rank(ranks, rank);
		return;
	}
	reply.text[sizeof(reply.text) - 1] = '\0';
	if (reply.status != TOW_OK) { /* from another process: may be TOW_AGAIN or any number */
		words_clean(said, 200, reply.text); /* untrusted text for a terminal */
		snprintf(text, sizeof(text), "refused: %s", said);
		print_change(rank, text);
		leave_rank(ranks, rank);
		return;
	}
	if (rank->slot == 0) {
		print_change(rank, "knows why it is off");
		return;
	}
	snprintf(text, sizeof(text), "on, %u sockets", reply.sockets);
	print_change(rank, text);
}

static void found_rank(struct ranks *ranks, const char *path)
{
	struct rank *rank = NULL;
	struct stat st;
	uid_t uid;

	if (lstat(path, &st) != 0 || !trust_socket(path, ranks->all_users, &uid) ||
	    strlen(path) >= sizeof(rank->path))
		return;
	for (int i = 0; i < ranks->count; i++) {
		if (ranks->rows[i].device == st.st_dev && ranks->rows[i].inode == st.st_ino &&
		    strcmp(ranks->rows[i].path, path) == 0)
			rank = &ranks->rows[i];
	}
	if (rank == NULL && ranks->count < RANKS_MAX) {
		rank = &ranks->rows[ranks->count++];
		*rank = (struct rank){ .fd = -1, .device = st.st_dev, .inode = st.st_ino };
		snprintf(rank->path, sizeof(rank->path), "%s", path);
	}
	if (rank == NULL)
		return;
	rank->seen = true;
	if (rank->fd < 0 && now_ms() >= rank->retry_ms)
		connect_rank(ranks, rank);
}

void ranks_scan(struct ranks *ranks, char *const *dirs, int dir_count)
{
	for (int i = 0; i < ranks->count; i++)
		ranks->rows[i].seen = false;
	for (int i = 0; i < dir_count; i++) {
		char pattern[512];
		glob_t list;

		if (snprintf(pattern, sizeof(pattern), "%s/*.bpf", dirs[i]) >=
			    (int)sizeof(pattern) ||
		    glob(pattern, GLOB_NOSORT, NULL, &list) != 0)
			continue;
		for (size_t n = 0; n < list.gl_pathc; n++)
			found_rank(ranks, list.gl_pathv[n]);
		globfree(&list);
	}
	/* Removes each runtime whose file and connection are both gone. */
	for (int i = 0; i < ranks->count;) {
		if (ranks->rows[i].seen || ranks->rows[i].fd >= 0)
			i++;
		else
			ranks->rows[i] = ranks->rows[--ranks->count];
	}
}

void ranks_wait(struct ranks *ranks, int ms)
{
	struct pollfd fds[RANKS_MAX];
	int count = ranks->count;

	for (int i = 0; i < count; i++)
		fds[i] = (struct pollfd){ .fd = ranks->rows[i].fd, .events = POLLIN };
	if (poll(fds, (nfds_t)count, ms) <= 0)
		return;
	for (int i = 0; i < count; i++) {
		if (fds[i].revents != 0)
			read_reply(ranks, &ranks->rows[i]);
	}
}

void ranks_fini(struct ranks *ranks)
{
	for (int i = 0; i < ranks->count; i++)
		leave_rank(ranks, &ranks->rows[i]);
	for (int i = 0; i < ranks->user_count; i++) {
		unload(ranks->users[i]);
		free(ranks->users[i]);
	}
}
