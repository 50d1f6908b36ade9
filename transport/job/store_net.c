/*
 * store_net.c - resolves, listens and connects for the store. See store_net.h.
 */
#include "transport/job/store_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "transport/engine/engine_drive.h"
#include "transport/job/bootstrap.h"

#define FIRST_PAUSE_NS (10ull * 1000000)
#define LAST_PAUSE_NS  (1000ull * 1000000)
/* Timeout of one attempt to connect: a host that is down does not answer at all. */
#define ATTEMPT_NS (3000ull * 1000000)
/* How long a port in use is tried: another process may still hold it. */
#define IN_USE_NS (5000ull * 1000000)
/* How often a wait drives the engine; what comes by a ring or in memory does not end a sleep. */
#define DRIVE_MS 1

uint64_t twi_net_now(void)
{
	return twi_clock_gettime_ns();
}

int twi_net_left_ms(uint64_t until_ns)
{
	uint64_t now = twi_net_now();

	if (until_ns <= now)
		return 0;
	/* Rounded up, so that poll does not end just before the time; at most an hour at once. */
	return (int)(twi_min(until_ns - now, 3600ull * 1000000000u) / 1000000u) + 1;
}

/* Drives once if nobody else may. For how long, in milliseconds, the wait may sleep then. */
static int drive_between(struct twi_engine *engine, int left_ms)
{
	unsigned events = 0;

	if (engine == NULL || atomic_load_explicit(&engine->backed, memory_order_relaxed))
		return left_ms;
	if (twi_engine_try_enter(engine)) {
		if (twi_engine_bind_ring(engine) == TOW_OK)
			events = twi_engine_poll(engine);
		twi_engine_leave(engine);
	}
	return events > 0 ? 0 : twi_min(left_ms, DRIVE_MS);
}

int twi_net_wait(int fd, short events, uint64_t until_ns, const struct twi_until *until)
{
	struct pollfd fds[2] = { { .fd = fd, .events = events },
				 { .fd = until->cancel_fd, .events = POLLIN } };

	for (;;) {
		int sleep_ms = drive_between(until->engine, twi_net_left_ms(until_ns));
		int ready = poll(fds, 2, sleep_ms);

		if (ready > 0 && fds[1].revents != 0)
			return twi_error(TOW_ECANCELED, "canceled while waiting for the job's "
							"store");
		if (ready > 0)
			return TOW_OK;
		if (ready == 0 && twi_net_now() >= until_ns)
			return TOW_AGAIN;
		if (ready < 0 && errno != EINTR)
			return twi_error_errno(TOW_ESYSTEM, errno, "poll");
	}
}

int twi_net_pause(const struct twi_until *until, uint64_t pause_ns)
{
	uint64_t now = twi_net_now();
	int status;

	if (now >= until->deadline_ns)
		return TOW_EDEADLINE;
	status = twi_net_wait(-1, 0, twi_min(until->deadline_ns, now + pause_ns), until);
	return status < 0 ? status : TOW_OK;
}

static uint64_t next_pause(uint64_t pause_ns)
{
	return twi_min(pause_ns * 2, LAST_PAUSE_NS);
}

/* Resolves a name once. TOW_EREFUSED: it is not known, or not yet. */
static int resolve_once(const char *host, uint16_t port, bool passive, struct addrinfo **out)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0) };
	char service[8];
	int error;

	snprintf(service, sizeof(service), "%u", port);
	error = getaddrinfo(host, service, &hints, out);
	if (error == 0)
		return TOW_OK;
	if (error == EAI_SYSTEM)
		return twi_error_errno(TOW_EREFUSED, errno, "the name %.128s", host);
	return twi_error(error == EAI_MEMORY ? TOW_ENOMEM : TOW_EREFUSED,
			 "the name %.128s is not known: %s", host, gai_strerror(error));
}

/* Resolves a name, and retries until it is known. */
static int resolve_host(const char *host, uint16_t port, const struct twi_until *until,
			struct addrinfo **out)
{
	uint64_t pause_ns = FIRST_PAUSE_NS;
	int status;

	while ((status = resolve_once(host, port, true, out)) == TOW_EREFUSED) {
		int paused = twi_net_pause(until, pause_ns);

		if (paused == TOW_EDEADLINE)
			return twi_error(TOW_EDEADLINE,
					 "the name %.128s of the job's store was not known in time",
					 host);
		if (paused < 0)
			return paused;
		pause_ns = next_pause(pause_ns);
	}
	return status;
}

/* TOW_AGAIN: the address is not of this machine. TOW_EBUSY: it is in use. */
static int bind_one(const struct sockaddr *at, socklen_t bytes, int *fd_out)
{
	int one = 1, zero = 0, err;
	int fd = twi_fd_high(socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	if (fd < 0)
		return errno == EAFNOSUPPORT
			       ? TOW_AGAIN
			       : twi_error_errno(TOW_ESYSTEM, errno, "socket for the job's store");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (at->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(fd, at, bytes) == 0 && listen(fd, 1024) == 0) {
		*fd_out = fd;
		return TOW_OK;
	}
	err = errno;
	close(fd);
	if (err == EADDRNOTAVAIL)
		return TOW_AGAIN;
	if (err == EADDRINUSE)
		return TOW_EBUSY;
	return twi_error_errno(err == EACCES ? TOW_EPERM : TOW_ESYSTEM, err,
			       "the job's store cannot listen");
}

static int bind_any(uint16_t port, int *fd_out)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
	int status = bind_one((struct sockaddr *)&six, sizeof(six), fd_out);

	if (status == TOW_AGAIN) /* there is no IPv6 */
		status = bind_one((struct sockaddr *)&four, sizeof(four), fd_out);
	return status == TOW_AGAIN ? twi_error(TOW_ESYSTEM, "no address to listen at") : status;
}

/* Listens on loopback: that of IPv6 where IPv4 is missing even there. */
static int bind_loopback(int *fd_out)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	struct sockaddr_in four = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int status = bind_one((struct sockaddr *)&four, sizeof(four), fd_out);

	if (status == TOW_AGAIN)
		status = bind_one((struct sockaddr *)&six, sizeof(six), fd_out);
	return status == TOW_AGAIN ? twi_error(TOW_ESYSTEM, "loopback has no address") : status;
}

static int bind_found(const struct addrinfo *found, uint16_t port, int *fd_out, bool *any_out)
{
	int status = TOW_AGAIN;

	*any_out = false;
	for (const struct addrinfo *at = found; at != NULL && status == TOW_AGAIN; at = at->ai_next)
		status = bind_one(at->ai_addr, at->ai_addrlen, fd_out);
	if (status != TOW_AGAIN)
		return status;
	*any_out = true;
	return bind_any(port, fd_out);
}

int twi_net_listen(const char *address, const struct twi_until *until, int *fd_out, bool *any_out)
{
	uint64_t pause_ns = FIRST_PAUSE_NS, busy_until = twi_net_now() + IN_USE_NS;
	struct addrinfo *found = NULL;
	char host[256];
	uint16_t port = 0;
	int status = TOW_OK;

	if (strcmp(address, TWI_NET_LOOPBACK) == 0) {
		*any_out = false;
		return bind_loopback(fd_out);
	}
	if (*address != '\0' && !twi_host_port(address, 0, host, sizeof(host), &port))
		return twi_error(TOW_EINVAL, "the store's address '%.128s' is not HOST:PORT",
				 address);
	else if (*address != '\0')
		status = resolve_host(host, port, until, &found);
	if (status < 0)
		return status;
	while ((status = bind_found(found, port, fd_out, any_out)) == TOW_EBUSY &&
	       twi_net_now() < busy_until) {
		int paused = twi_net_pause(until, pause_ns);

		if (paused == TOW_EDEADLINE)
			break;
		if (paused < 0) {
			status = paused;
			break;
		}
		pause_ns = next_pause(pause_ns);
	}
	if (found != NULL)
		freeaddrinfo(found);
	if (status == TOW_EBUSY)
		return twi_error(TOW_EBUSY,
				 "the store's address %.128s is in use: another process is rank 0 "
				 "of this job, or another program has the port; set TOW_STORE",
				 address);
	return status;
}

static void set_alive(int fd)
{
	int one = 1, idle = 10, interval = 5, count = 3;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

static int await_connect(int fd, const struct twi_until *until)
{
	uint64_t limit = twi_min(until->deadline_ns, twi_net_now() + ATTEMPT_NS);
	int status = twi_net_wait(fd, POLLOUT, limit, until), err = 0;
	socklen_t bytes = sizeof(err);

	if (status < 0)
		return status;
	if (status == TOW_AGAIN)
		return twi_error(TOW_EREFUSED, "no answer in time");
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &bytes) < 0)
		err = errno;
	return err == 0 ? TOW_OK : twi_error_errno(TOW_EREFUSED, err, "connect");
}

static int dial_one(const struct addrinfo *at, const struct twi_until *until, int *fd_out)
{
	int fd = twi_fd_high(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
	    status;

	if (fd < 0)
		return twi_error_errno(errno == EAFNOSUPPORT ? TOW_EREFUSED : TOW_ESYSTEM, errno,
				       "socket for the job's store");
	if (connect(fd, at->ai_addr, at->ai_addrlen) == 0)
		status = TOW_OK;
	else if (errno == EINPROGRESS)
		status = await_connect(fd, until);
	else
		status = twi_error_errno(TOW_EREFUSED, errno, "connect");
	if (status < 0) {
		close(fd);
		return status;
	}
	set_alive(fd);
	*fd_out = fd;
	return TOW_OK;
}

static int dial_host(const char *address, const struct twi_until *until, int *fd_out)
{
	struct addrinfo *found = NULL;
	char host[256];
	uint16_t port;
	int status;

	if (!twi_host_port(address, 0, host, sizeof(host), &port))
		return twi_error(TOW_EINVAL, "the store's address '%.128s' is not HOST:PORT",
				 address);
	status = resolve_once(host, port, false, &found);
	if (status < 0)
		return status;
	for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
		status = dial_one(at, until, fd_out);
		if (status != TOW_EREFUSED)
			break;
	}
	freeaddrinfo(found);
	return status;
}

int twi_net_dial(const char *addresses, const struct twi_until *until, int *fd_out)
{
	int status = twi_error(TOW_EINVAL, "the store has no address");

	for (const char *at = addresses; *at != '\0'; at += *at == ',') {
		char one[300];
		size_t length = strcspn(at, ",");

		if (length >= sizeof(one))
			return twi_error(TOW_EINVAL, "the store's address '%.128s' is too long",
					 addresses);
		snprintf(one, sizeof(one), "%.*s", (int)length, at);
		at += length;
		status = dial_host(one, until, fd_out);
		if (status != TOW_EREFUSED)
			return status;
		if (twi_net_now() >= until->deadline_ns)
			break;
	}
	return status;
}

static bool numeric_host(const struct sockaddr *at, socklen_t bytes, char host_out[TOW_ADDRESS_MAX])
{
	return getnameinfo(at, bytes, host_out, TOW_ADDRESS_MAX, NULL, 0, NI_NUMERICHOST) == 0;
}

typedef int (*name_call)(int fd, struct sockaddr *at, socklen_t *bytes);

static bool name_of(int fd, name_call call, char host_out[TOW_ADDRESS_MAX], uint16_t *port_out)
{
	union {
		struct sockaddr any;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
		struct sockaddr_storage room;
	} at = { .room = { 0 } };
	socklen_t bytes = sizeof(at);

	if (call(fd, &at.any, &bytes) < 0 || !numeric_host(&at.any, bytes, host_out))
		return false;
	/* An IPv4 address of a socket for both families: other programs need it in IPv4 form. */
	if (strncmp(host_out, "::ffff:", 7) == 0 && strchr(host_out, '.') != NULL) {
		char four[TOW_ADDRESS_MAX];

		snprintf(four, sizeof(four), "%s", host_out + 7);
		snprintf(host_out, TOW_ADDRESS_MAX, "%s", four);
	}
	*port_out = ntohs(at.any.sa_family == AF_INET6 ? at.six.sin6_port : at.four.sin_port);
	return true;
}

static int own_name(int fd, struct sockaddr *at, socklen_t *bytes)
{
	return getsockname(fd, at, bytes);
}

static int other_name(int fd, struct sockaddr *at, socklen_t *bytes)
{
	return getpeername(fd, at, bytes);
}

bool twi_net_local(int fd, char host_out[TOW_ADDRESS_MAX], uint16_t *port_out)
{
	return name_of(fd, own_name, host_out, port_out);
}

bool twi_net_remote(int fd, char out[TOW_ADDRESS_MAX])
{
	char host[TOW_ADDRESS_MAX];
	uint16_t port;

	return name_of(fd, other_name, host, &port) &&
	       twi_host_port_put(host, port, out, TOW_ADDRESS_MAX);
}

/*
 * Tests whether the knob `interfaces` allows an interface. "a,b": only these; "^a,b": all but
 * these; empty: all. Only a name in the list allows loopback.
 */
static bool is_allowed(const char *interfaces, const char *name, bool loopback, bool *named_out)
{
	bool except = *interfaces == '^';
	const char *at = interfaces + except;
	bool listed = false;

	for (; *at != '\0'; at += *at == ',') {
		size_t length = strcspn(at, ",");

		listed |= length == strlen(name) && strncmp(at, name, length) == 0;
		at += length;
	}
	*named_out = listed && !except;
	if (*interfaces == '\0')
		return !loopback;
	return except ? !listed && !loopback : listed;
}

static bool add_address(const struct ifaddrs *at, uint16_t port, char *out, size_t bytes)
{
	socklen_t length = at->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
							      : sizeof(struct sockaddr_in6);
	char host[TOW_ADDRESS_MAX], one[TOW_ADDRESS_MAX + 10];
	size_t used = strlen(out);

	if (!numeric_host(at->ifa_addr, length, host) || strchr(host, '%') != NULL ||
	    !twi_host_port_put(host, port, one, sizeof(one)) || used + strlen(one) + 2 > bytes)
		return false;
	snprintf(out + used, bytes - used, "%s%s", used == 0 ? "" : ",", one);
	return true;
}

bool twi_net_own(uint16_t port, char *out, size_t bytes)
{
	int length = snprintf(out, bytes, "127.0.0.1:%u,[::1]:%u", port, port);

	return length > 0 && (size_t)length < bytes;
}

bool twi_net_is_loopback(const char *host)
{
	return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

bool twi_net_addresses(const char *interfaces, uint16_t port, char *out, size_t bytes)
{
	static const int families[] = { AF_INET, AF_INET6 };
	struct ifaddrs *all = NULL;
	unsigned count = 0;
	bool named;

	*out = '\0';
	if (getifaddrs(&all) < 0)
		return false;
	/* IPv4 comes first, as IPv6 often exists without a route; at most four in all. */
	for (unsigned i = 0; i < 2; i++) {
		for (const struct ifaddrs *at = all; at != NULL && count < 4; at = at->ifa_next) {
			if (at->ifa_addr == NULL || at->ifa_addr->sa_family != families[i] ||
			    (at->ifa_flags & IFF_UP) == 0 ||
			    !is_allowed(interfaces, at->ifa_name,
					(at->ifa_flags & IFF_LOOPBACK) != 0, &named))
				continue;
			count += add_address(at, port, out, bytes);
		}
	}
	freeifaddrs(all);
	if (count > 0)
		return true;
	return *interfaces == '\0' && twi_net_own(port, out, bytes);
}
