/*
 * tcp_socket.c - socket options from knobs, and TCP_INFO. See tcp_socket.h.
 *
 * linux/tcp.h, not netinet/tcp.h: glibc's struct tcp_info ends before the delivery rate.
 */
#include "transport/lanes/tcp/tcp_socket.h"

#include <errno.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/record/diag.h"
#include "transport/lanes/tcp/tcp_name.h"
#include "transport/op/lane_host.h"

#define MS_NS 1000000u
#define S_NS  1000000000u

#define SHORT_RTT_US       50
#define SHORT_UNSENT_BYTES (128 << 10) /* most unsent bytes in the kernel */

static const char unpaced[] = "cubic";

static const char *const knob_names[] = {
	[TWI_SET_CONGESTION] = "congestion",   [TWI_SET_BUFFER] = "socket_buffer_bytes",
	[TWI_SET_BUSY_POLL] = "busy_poll_ns",  [TWI_SET_HEARTBEAT] = "heartbeat_ns",
	[TWI_SET_TIMEOUT] = "peer_timeout_ns", [TWI_SET_NODELAY] = "TCP_NODELAY",
};

static const char *const reaches[] = {
	[TWI_TCP_REACH_HOST] = "host",
	[TWI_TCP_REACH_SHORT] = "short",
	[TWI_TCP_REACH_LONG] = "long",
};

struct setter {
	struct twi_engine *engine;
	uint32_t *refused;
	int fd;
};

static void set_option(const struct setter *s, enum twi_tcp_setting what, int level, int option,
		       const void *value, socklen_t bytes)
{
	if (setsockopt(s->fd, level, option, value, bytes) == 0 || (*s->refused & 1u << what) != 0)
		return;
	*s->refused |= 1u << what;
	twi_error_errno(TOW_ESYSTEM, errno, "%s: setsockopt was refused; going on without",
			knob_names[what]);
	twi_log(s->engine->diag, 2, "%s", tow_error_message());
}

static void set_int(const struct setter *s, enum twi_tcp_setting what, int level, int option,
		    uint64_t value)
{
	int number = (int)twi_min(value, (uint64_t)INT32_MAX);

	set_option(s, what, level, option, &number, sizeof(number));
}

/* Whole seconds, at least one. */
static uint64_t whole_seconds(uint64_t ns)
{
	return twi_max(ns / S_NS, (uint64_t)1);
}

/*
 * Sets the kernel's own watch over a connection. It finds a host that has vanished even while no
 * thread drives the runtime. The lane's heartbeat is finer: it finds a process that has stopped.
 */
static void set_watch(const struct setter *s, uint64_t heartbeat_ns, uint64_t timeout_ns)
{
	uint64_t third = timeout_ns / 3, probe = whole_seconds(twi_min(heartbeat_ns, third / 3));

	set_int(s, TWI_SET_HEARTBEAT, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_int(s, TWI_SET_HEARTBEAT, IPPROTO_TCP, TCP_KEEPIDLE, whole_seconds(heartbeat_ns));
	set_int(s, TWI_SET_HEARTBEAT, IPPROTO_TCP, TCP_KEEPINTVL, probe);
	set_int(s, TWI_SET_HEARTBEAT, IPPROTO_TCP, TCP_KEEPCNT,
		twi_min(twi_max(third / S_NS / probe, (uint64_t)2), (uint64_t)127));
	set_int(s, TWI_SET_TIMEOUT, IPPROTO_TCP, TCP_USER_TIMEOUT,
		twi_max(third / MS_NS, (uint64_t)1));
}

void twi_tcp_socket_setup(struct twi_engine *engine, uint32_t *refused, int fd)
{
	const struct twi_knobs *knobs = &engine->knobs;
	struct setter s = { .engine = engine, .refused = refused, .fd = fd };

	/* The lane gathers frames itself, when that pays. */
	set_int(&s, TWI_SET_NODELAY, IPPROTO_TCP, TCP_NODELAY, 1);
	set_watch(&s, knobs->heartbeat_ns, knobs->peer_timeout_ns);
	if (knobs->socket_buffer_bytes != 0) {
		set_int(&s, TWI_SET_BUFFER, SOL_SOCKET, SO_SNDBUF, knobs->socket_buffer_bytes);
		set_int(&s, TWI_SET_BUFFER, SOL_SOCKET, SO_RCVBUF, knobs->socket_buffer_bytes);
	}
	if (knobs->busy_poll_ns != 0)
		set_int(&s, TWI_SET_BUSY_POLL, SOL_SOCKET, SO_BUSY_POLL,
			twi_max(knobs->busy_poll_ns / 1000, (uint64_t)1));
	if (knobs->congestion[0] != '\0')
		set_option(&s, TWI_SET_CONGESTION, IPPROTO_TCP, TCP_CONGESTION, knobs->congestion,
			   (socklen_t)strlen(knobs->congestion));
	else /* until the route is known */
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof(unpaced) - 1);
}

/* A peer this near is in the same host, in another namespace, or behind one switch. */
static bool is_short(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	/* The shortest of the handshake, as the first may include a neighbour lookup. */
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
	       size >= offsetof(struct tcp_info, tcpi_min_rtt) + sizeof(info.tcpi_min_rtt) &&
	       info.tcpi_min_rtt <= SHORT_RTT_US;
}

/*
 * For a far peer, the host's own choice of congestion control is used. A socket without options
 * shows it.
 */
static void take_hosts_choice(int fd)
{
	int untouched = twi_fd_high(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	char name[16] = "";
	socklen_t size = sizeof(name) - 1;

	if (untouched < 0)
		return;
	if (getsockopt(untouched, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0 &&
	    strcmp(name, unpaced) != 0)
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
	close(untouched);
}

/*
 * Avoids two things that cost much on short routes and help nothing there (docs/performance.md).
 *
 * The first is pacing, as bbr does it. There is no queue to save there, and its timers take half of
 * the bandwidth. They go on when a socket leaves bbr later, so every socket begins without pacing.
 *
 * The second is megabytes of unsent bytes in the kernel, which have left the cache by the time they
 * are sent. Bytes in flight have no bound of the lane: a fixed send buffer slowed a route down
 * whose round trip grew under load.
 *
 * Refused options are not reported, because the connection works without them.
 */
enum twi_tcp_reach twi_tcp_route_setup(const struct twi_engine *engine, int fd)
{
	const int bytes = SHORT_UNSENT_BYTES;
	struct twi_tcp_address here, there;

	if (twi_tcp_local(fd, &here) && twi_tcp_remote(fd, &there) &&
	    (twi_tcp_same_host(&here, &there) ||
	     (twi_tcp_loopback(&here) && twi_tcp_loopback(&there))))
		return TWI_TCP_REACH_HOST;
	if (is_short(fd)) {
		if (engine->knobs.socket_buffer_bytes == 0)
			setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
		return TWI_TCP_REACH_SHORT;
	}
	if (engine->knobs.congestion[0] == '\0')
		take_hosts_choice(fd);
	return TWI_TCP_REACH_LONG;
}

static void take_sample(struct twi_tcp_sample *sample, int fd)
{
	struct tcp_info info = { 0 };
	socklen_t bytes = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
	    bytes < offsetof(struct tcp_info, tcpi_total_retrans) + sizeof(uint32_t))
		return;
	sample->taken = true;
	sample->rtt_us = info.tcpi_rtt;
	sample->rttvar_us = info.tcpi_rttvar;
	sample->cwnd = info.tcpi_snd_cwnd;
	sample->mss = info.tcpi_snd_mss;
	sample->retransmits = info.tcpi_total_retrans;
	sample->delivery_bytes_per_s = info.tcpi_delivery_rate; /* an older kernel leaves it 0 */
	bytes = sizeof(sample->congestion) - 1;
	memset(sample->congestion, 0, sizeof(sample->congestion));
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, sample->congestion, &bytes) != 0)
		sample->congestion[0] = '\0';
}

void twi_tcp_sample_describe(struct twi_tcp_sample *sample, int fd, uint64_t now_ns,
			     struct twi_emit *emit)
{
	if (!sample->taken || now_ns - sample->at_ns >= TWI_SAMPLE_NS) {
		sample->at_ns = now_ns;
		take_sample(sample, fd);
	}
	if (!sample->taken)
		return;
	twi_emit_str(emit, "route", reaches[sample->reach]);
	twi_emit_str(emit, "congestion", sample->congestion);
	twi_emit_u64(emit, "rtt_us", sample->rtt_us);
	twi_emit_u64(emit, "rttvar_us", sample->rttvar_us);
	twi_emit_u64(emit, "cwnd_segments", sample->cwnd);
	twi_emit_u64(emit, "segment_bytes", sample->mss);
	twi_emit_u64(emit, "retransmits", sample->retransmits);
	twi_emit_u64(emit, "delivery_bytes_per_s", sample->delivery_bytes_per_s);
}
