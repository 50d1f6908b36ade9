/*
 * bpf.c - the socket that helpers connect to, and the thread that serves them.
 *
 *	           hello           its end
 *	no helper ---------> helper -------> no helper     a second helper gets TOW_EBUSY
 *	   \--- no hello within a second, or a bad one: disconnected
 *
 * The thread sleeps in poll, except in that second. It does not touch the engine. It enrols sockets
 * from the table that lanes keep (figures.c).
 */
#include "diag/bpf/bpf.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/base/thread.h"
#include "diag/bpf/figures.h"
#include "diag/bpf/hello.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "diag/serve/listen.h"

#define BACKLOG     4
#define HELLO_MS    1000
#define STACK_BYTES (256u << 10)

struct gauge {
	struct twi_bpf *bpf;
	enum twi_bpf_counter counter;
	bool added;
	char name[48];
};

struct twi_bpf {
	struct twi_diag *diag;
	struct twi_bpf_figures figures;
	struct twi_listen listener;
	int stop;   /* eventfd */
	int helper; /* its connection; -1: no helper */
	pthread_t thread;
	struct gauge gauges[TWI_BPF_COUNTERS];
};

static uint64_t gauge_value(void *arg)
{
	const struct gauge *gauge = arg;
	uint64_t value;

	twi_bpf_figure(&gauge->bpf->figures, gauge->counter, &value);
	return value;
}

/* Adds a gauge for each known counter. If the registry is full, /metrics lacks the others. */
static void add_gauges(struct twi_bpf *bpf)
{
	for (unsigned i = 0; i < TWI_BPF_COUNTERS; i++) {
		const struct twi_bpf_counter_info *info = twi_bpf_counter_describe(i);
		struct gauge *gauge = &bpf->gauges[i];
		uint64_t value;

		if (gauge->added || !twi_bpf_figure(&bpf->figures, i, &value))
			continue;
		gauge->bpf = bpf;
		gauge->counter = i;
		snprintf(gauge->name, sizeof(gauge->name), "bpf_%s", info->name);
		gauge->added = twi_registry_gauge(bpf->diag,
						  &(struct twi_gauge){ .name = gauge->name,
								       .unit = info->unit,
								       .help = info->help,
								       .value = gauge_value,
								       .arg = gauge }) == TOW_OK;
	}
}

static void remove_gauges(struct twi_bpf *bpf)
{
	for (unsigned i = 0; i < TWI_BPF_COUNTERS; i++) {
		if (bpf->gauges[i].added)
			twi_registry_gauge_remove(bpf->diag, bpf->gauges[i].name, &bpf->gauges[i]);
		bpf->gauges[i].added = false;
	}
}

/* A helper that has gone, or reads nothing, does not get the reply. */
static void reply_helper(int fd, int status, uint32_t sockets)
{
	struct twi_bpf_reply out = { .magic = TWI_BPF_MAGIC, .status = status, .sockets = sockets };

	if (status < 0)
		snprintf(out.text, sizeof(out.text), "%s", tow_error_message());
	send(fd, &out, sizeof(out), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Waits for the packet. False: it does not come, or the thread must stop. */
static bool wait_hello(const struct twi_bpf *bpf, int fd)
{
	struct pollfd fds[] = { { .fd = fd, .events = POLLIN },
				{ .fd = bpf->stop, .events = POLLIN } };

	return poll(fds, 2, HELLO_MS) > 0 && fds[1].revents == 0;
}

static void hear_helper(struct twi_bpf *bpf, int fd, pid_t pid)
{
	struct twi_bpf_hello hello;
	uint32_t enrolled = 0;
	int fds[TWI_BPF_MAPS], status;

	status = twi_bpf_hello_receive(fd, &hello, fds);
	if (status == TOW_OK)
		status = twi_bpf_figures_start(&bpf->figures, &hello, fds, pid, &enrolled);
	if (status < 0)
		twi_log(bpf->diag, 2, "bpf: process %d: %s", (int)pid, tow_error_message());
	reply_helper(fd, status, enrolled);
	if (status < 0 || hello.on == 0) {
		close(fd);
		return;
	}
	bpf->helper = fd;
	add_gauges(bpf);
	twi_log(bpf->diag, 3, "bpf: the towbpf of process %d counts for this runtime now",
		(int)pid);
}

static void take_one(struct twi_bpf *bpf)
{
	struct ucred peer = { 0 };
	socklen_t bytes = sizeof(peer);
	int fd = twi_fd_high(accept4(bpf->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
	    (peer.uid != 0 && peer.uid != geteuid())) {
		twi_count(bpf->diag, TWI_C_stats_refused, 1);
		close(fd);
	} else if (bpf->helper >= 0) {
		reply_helper(fd, twi_error(TOW_EBUSY, "another towbpf serves this process already"),
			     0);
		close(fd);
	} else if (wait_hello(bpf, fd)) {
		hear_helper(bpf, fd, peer.pid);
	} else {
		close(fd);
	}
}

/* Ends the helper. It has nothing more to send, so any packet ends it, too. */
static void drop_helper(struct twi_bpf *bpf, const char *why)
{
	if (bpf->helper < 0)
		return;
	close(bpf->helper);
	bpf->helper = -1;
	remove_gauges(bpf);
	twi_bpf_figures_stop(&bpf->figures, why);
}

static void *serve_helpers(void *arg)
{
	struct twi_bpf *bpf = arg;

	for (;;) {
		struct pollfd fds[] = {
			{ .fd = bpf->stop, .events = POLLIN },
			{ .fd = bpf->listener.fd, .events = POLLIN },
			{ .fd = bpf->helper, .events = POLLIN }, /* poll ignores -1 */
		};

		if (poll(fds, 3, -1) < 0 && errno != EINTR)
			break;
		if (fds[0].revents != 0)
			break;
		if (fds[2].revents != 0)
			drop_helper(bpf, "the helper has gone");
		if ((fds[1].revents & POLLIN) != 0)
			take_one(bpf);
		else if (fds[1].revents != 0)
			break;
	}
	drop_helper(bpf, "the runtime closes");
	return NULL;
}

/* The name beside our stats socket is ours alone. So a socket file there is from a dead process. */
static int listen_beside(const char *stats_path, struct twi_listen *out)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t bytes = strlen(stats_path);
	struct stat st;
	int fd;

	if (bytes <= 5 || bytes >= sizeof(address.sun_path) ||
	    strcmp(stats_path + bytes - 5, ".sock") != 0)
		return twi_error(TOW_EINVAL, "'%s' is not the path of a stats socket", stats_path);
	snprintf(address.sun_path, sizeof(address.sun_path), "%.*s.bpf", (int)(bytes - 5),
		 stats_path);
	fd = twi_fd_high(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "socket for the eBPF helper");
	fchmod(fd, 0600); /* before bind, so that the file never has another mode */
	if (lstat(address.sun_path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(address.sun_path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    chmod(address.sun_path, 0600) != 0 || lstat(address.sun_path, &st) != 0 ||
	    listen(fd, BACKLOG) != 0) {
		int err = errno;

		close(fd);
		return twi_error_errno(TOW_ESYSTEM, err, "listen on '%s'", address.sun_path);
	}
	*out = (struct twi_listen){ .fd = fd, .device = st.st_dev, .inode = st.st_ino };
	snprintf(out->path, sizeof(out->path), "%s", address.sun_path);
	return TOW_OK;
}

static int start_thread(struct twi_bpf *bpf)
{
	int err = twi_thread_start(&bpf->thread, "tow-bpf", STACK_BYTES, serve_helpers, bpf);

	return err == 0 ? TOW_OK
			: twi_error_errno(TOW_ESYSTEM, err, "no thread for the eBPF helper");
}

static const char bpf_help[] =
	"What the kernel counts for this process: copies, retransmits, drops, registrations";

static int add_sources(struct twi_bpf *bpf)
{
	const struct twi_source document = { "/v1/bpf", bpf_help, twi_bpf_figures_report,
					     &bpf->figures };
	const struct twi_source info = { "/v1/info", bpf_help, twi_bpf_figures_info,
					 &bpf->figures };
	int status = twi_registry_add(bpf->diag, &document);

	return status == TOW_OK ? twi_registry_add(bpf->diag, &info) : status;
}

int twi_bpf_open(struct twi_diag *diag, const char *stats_path, struct twi_bpf **out)
{
	struct twi_bpf *bpf = calloc(1, sizeof(*bpf));
	int status;

	*out = NULL;
	if (bpf == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the eBPF figures");
	bpf->diag = diag;
	bpf->helper = -1;
	bpf->listener.fd = -1;
	twi_bpf_figures_init(&bpf->figures, diag);
	bpf->stop = twi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	status = bpf->stop < 0 ? twi_error_errno(TOW_ESYSTEM, errno, "eventfd")
			       : listen_beside(stats_path, &bpf->listener);
	if (status == TOW_OK)
		status = add_sources(bpf);
	if (status == TOW_OK)
		status = start_thread(bpf);
	if (status < 0)
		bpf->thread = 0;
	*out = bpf;
	if (status < 0) {
		twi_bpf_close(bpf);
		*out = NULL;
	}
	return status;
}

void twi_bpf_close(struct twi_bpf *bpf)
{
	const uint64_t one = 1;

	if (bpf == NULL)
		return;
	if (bpf->listener.fd >= 0)
		twi_listen_unlink(&bpf->listener);
	if (bpf->thread != 0) {
		while (write(bpf->stop, &one, sizeof(one)) < 0 && errno == EINTR)
			;
		pthread_join(bpf->thread, NULL);
	}
	twi_registry_remove(bpf->diag, "/v1/bpf", &bpf->figures);
	twi_registry_remove(bpf->diag, "/v1/info", &bpf->figures);
	if (bpf->listener.fd >= 0)
		close(bpf->listener.fd);
	if (bpf->stop >= 0)
		close(bpf->stop);
	twi_bpf_figures_fini(&bpf->figures);
	free(bpf);
}

void twi_bpf_socket_add(struct twi_bpf *bpf, int fd)
{
	if (bpf != NULL)
		twi_bpf_figures_socket(&bpf->figures, fd, true);
}

void twi_bpf_socket_remove(struct twi_bpf *bpf, int fd)
{
	if (bpf != NULL)
		twi_bpf_figures_socket(&bpf->figures, fd, false);
}
