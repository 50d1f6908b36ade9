/*
 * towdoctor_tcp.c - checks of the kernel's TCP settings, most of them one number each.
 *
 * The cost of a small buffer is computed: a connection moves at most one window in each round trip.
 * The messages name the bandwidth at a round trip of 1 ms, so that a reader can scale it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/words.h"
#include "tools/towdoctor/towdoctor.h"

#define MIB ((int64_t)1 << 20)

/* 25 Gbit/s at a round trip of 2 ms need 6 MiB of window, which is half of the buffer. */
#define BUFFER_WANTED (16 * MIB)
#define BUFFER_NEEDED (4 * MIB)

/* Formats the rate of a window of so many bytes at a round trip of 1 ms. */
static void say_rate(int64_t window, char out[WORDS_BYTES])
{
	words_bytes((unsigned long long)window * 1000, out);
}

/* Reads three numbers, "min default max". */
static bool read_triple(const struct doctor *doctor, const char *path, int64_t row[3])
{
	char text[128];

	return root_text(doctor, text, sizeof(text), "%s", path) &&
	       sscanf(text, "%ld %ld %ld", &row[0], &row[1], &row[2]) == 3;
}

static void check_buffer(const struct doctor *doctor, struct finding *out, const char *name)
{
	char path[64], found[WORDS_BYTES], rate[WORDS_BYTES];
	int64_t row[3];

	SAY(path, "/proc/sys/net/ipv4/%s", name);
	SAY(out->wanted, "16 MiB or more as the largest size (the third number)");
	if (!read_triple(doctor, path, row)) {
		not_known(out, path);
		return;
	}
	words_bytes((unsigned long long)row[2], found);
	SAY(out->found, "%s (%lld %lld %lld)", found, (long long)row[0], (long long)row[1],
	    (long long)row[2]);
	if (row[2] >= BUFFER_WANTED)
		return;
	/* The kernel uses up to half of the buffer for its own data. */
	say_rate(row[2] / 2, rate);
	raise_to(out, row[2] < BUFFER_NEEDED ? SEVERITY_WARNING : SEVERITY_NOTE);
	SAY(out->effect,
	    "a connection moves at most about %s/s over a round trip of 1 ms, and a tenth of it "
	    "over 10 ms; towdoctor --peer measures whether a path needs more",
	    rate);
	SAY(out->mend, "sysctl -w net.ipv4.%s='%lld %lld %lld'", name, (long long)row[0],
	    (long long)row[1], (long long)BUFFER_WANTED);
}

void check_tcp_rmem(struct doctor *doctor, struct finding *out)
{
	check_buffer(doctor, out, "tcp_rmem");
}

void check_tcp_wmem(struct doctor *doctor, struct finding *out)
{
	check_buffer(doctor, out, "tcp_wmem");
}

void check_socket_buffers(struct doctor *doctor, struct finding *out)
{
	const char *text = getenv("TOW_SOCKET_BUFFER_BYTES");
	char rmem_text[WORDS_BYTES], wmem_text[WORDS_BYTES];
	int64_t rmem = 0, wmem = 0, least;

	SAY(out->wanted, "16 MiB, where the knob socket_buffer_bytes is set");
	if (!root_number(doctor, &rmem, "/proc/sys/net/core/rmem_max") ||
	    !root_number(doctor, &wmem, "/proc/sys/net/core/wmem_max")) {
		SAY(out->found, "not visible in this network namespace");
		return;
	}
	words_bytes((unsigned long long)rmem, rmem_text);
	words_bytes((unsigned long long)wmem, wmem_text);
	least = rmem < wmem ? rmem : wmem;
	SAY(out->found, "receiving %s, sending %s; TOW_SOCKET_BUFFER_BYTES is %s", rmem_text,
	    wmem_text, text != NULL && text[0] != '\0' ? text : "not set: the kernel tunes");
	if (least >= BUFFER_WANTED)
		return;
	SAY(out->effect, "nothing while the knob is 0; set, it gets no more than this");
	SAY(out->mend, "sysctl -w net.core.rmem_max=%lld net.core.wmem_max=%lld",
	    (long long)BUFFER_WANTED, (long long)BUFFER_WANTED);
	if (text == NULL || text[0] == '\0' || strcmp(text, "0") == 0) {
		raise_to(out, SEVERITY_NOTE);
		return;
	}
	raise_to(out, SEVERITY_WARNING);
	SAY(out->effect, "the knob's size is cut to the smaller one, and a size that is set turns "
			 "the kernel's own tuning off");
}

void check_congestion(struct doctor *doctor, struct finding *out)
{
	char now[64], all[256] = "";

	SAY(out->wanted, "cubic, dctcp (in data centres that mark), or bbr over long lossy paths");
	if (!root_text(doctor, now, sizeof(now), "/proc/sys/net/ipv4/tcp_congestion_control")) {
		not_known(out, "net.ipv4.tcp_congestion_control");
		return;
	}
	root_text(doctor, all, sizeof(all), "/proc/sys/net/ipv4/tcp_available_congestion_control");
	SAY(out->found, "%s (there are: %s)", now, all[0] != '\0' ? all : now);
	if (strcmp(now, "cubic") == 0 || strcmp(now, "dctcp") == 0)
		return;
	raise_to(out, SEVERITY_NOTE);
	if (strncmp(now, "bbr", 3) == 0)
		SAY(out->effect, "16 to 39 %% of the bandwidth on short paths, by its pacing; "
				 "there the library takes cubic by itself. Long lossy paths gain");
	else
		SAY(out->effect, "not known: the library was measured with cubic and bbr");
	SAY(out->mend, "export TOW_CONGESTION=cubic, or sysctl -w "
		       "net.ipv4.tcp_congestion_control=cubic");
}

/* A setting of 0 or 1 (or more) that should be at least 1. */
struct flag {
	const char *name;
	enum severity severity;
	const char *effect;
};

static void check_flag(const struct doctor *doctor, struct finding *out, const struct flag *flag)
{
	int64_t value;

	SAY(out->wanted, "1");
	if (!root_number(doctor, &value, "/proc/sys/net/ipv4/%s", flag->name)) {
		not_known(out, flag->name);
		return;
	}
	SAY(out->found, "%lld", (long long)value);
	if (value >= 1)
		return;
	raise_to(out, flag->severity);
	SAY(out->effect, "%s", flag->effect);
	SAY(out->mend, "sysctl -w net.ipv4.%s=1", flag->name);
}

void check_window_scaling(struct doctor *doctor, struct finding *out)
{
	check_flag(doctor, out,
		   &(struct flag){ "tcp_window_scaling", SEVERITY_WARNING,
				   "no window is larger than 64 KiB: 62 MiB/s at most over a round "
				   "trip of 1 ms, whatever the buffers are" });
}

void check_timestamps(struct doctor *doctor, struct finding *out)
{
	check_flag(doctor, out,
		   &(struct flag){ "tcp_timestamps", SEVERITY_WARNING,
				   "the round trip is measured once a window, losses are mended "
				   "later, and above 4 GiB within a minute or two old packets can "
				   "be taken for new ones" });
}

void check_sack(struct doctor *doctor, struct finding *out)
{
	check_flag(doctor, out,
		   &(struct flag){ "tcp_sack", SEVERITY_WARNING,
				   "a window with several losses needs a round trip for each, or a "
				   "timeout of 200 ms" });
}

void check_slow_start(struct doctor *doctor, struct finding *out)
{
	int64_t value;

	SAY(out->wanted, "0");
	if (!root_number(doctor, &value, "/proc/sys/net/ipv4/tcp_slow_start_after_idle")) {
		not_known(out, "net.ipv4.tcp_slow_start_after_idle");
		return;
	}
	SAY(out->found, "%lld", (long long)value);
	if (value == 0)
		return;
	raise_to(out, SEVERITY_WARNING);
	SAY(out->effect, "a connection that was silent for a fifth of a second, as between the "
			 "exchanges of two steps, begins with 10 packets again: 1 MiB then takes "
			 "6 round trips more");
	SAY(out->mend, "sysctl -w net.ipv4.tcp_slow_start_after_idle=0");
}

void check_mtu_probing(struct doctor *doctor, struct finding *out)
{
	int64_t value, mtu = 0;
	struct interfaces interfaces;

	SAY(out->wanted, "1 where packets are larger than 1500 bytes");
	if (!root_number(doctor, &value, "/proc/sys/net/ipv4/tcp_mtu_probing")) {
		not_known(out, "net.ipv4.tcp_mtu_probing");
		return;
	}
	SAY(out->found, "%lld", (long long)value);
	used_interfaces(doctor, &interfaces);
	for (size_t i = 0; i < interfaces.count; i++) {
		if (!interfaces.rows[i].loopback && interfaces.rows[i].mtu > mtu)
			mtu = interfaces.rows[i].mtu;
	}
	if (value >= 1 || mtu <= 1500)
		return;
	raise_to(out, SEVERITY_NOTE);
	SAY(out->effect,
	    "where a switch drops packets of %lld bytes and says nothing, connections "
	    "open and then hang with the first large message",
	    (long long)mtu);
	SAY(out->mend, "sysctl -w net.ipv4.tcp_mtu_probing=1");
}

/* Finds the number of `name` in the pairs of lines of /proc/net/netstat. */
static bool netstat_value(const struct doctor *doctor, const char *name, int64_t *out)
{
	char text[16384], *line, *row, *key, *value, *keys, *values;

	if (!root_text(doctor, text, sizeof(text), "/proc/net/netstat"))
		return false;
	row = text;
	while ((line = strsep(&row, "\n")) != NULL) {
		char *second = strsep(&row, "\n");

		if (second == NULL)
			return false;
		keys = line;
		values = second;
		while ((key = strsep(&keys, " ")) != NULL &&
		       (value = strsep(&values, " ")) != NULL) {
			if (strcmp(key, name) == 0) {
				*out = strtoll(value, NULL, 10);
				return true;
			}
		}
	}
	return false;
}

void check_listen_backlog(struct doctor *doctor, struct finding *out)
{
	int64_t value, overflows = 0;

	SAY(out->wanted, "1024, the backlog that the library asks for");
	if (!root_number(doctor, &value, "/proc/sys/net/core/somaxconn")) {
		not_known(out, "net.core.somaxconn");
		return;
	}
	netstat_value(doctor, "ListenOverflows", &overflows);
	SAY(out->found, "%lld; %lld connections were dropped by a full backlog since boot",
	    (long long)value, (long long)overflows);
	if (value >= 1024)
		return;
	raise_to(out, SEVERITY_WARNING);
	SAY(out->effect,
	    "when more than %lld ranks connect at once the rest wait a second, then "
	    "two, then four, to try again",
	    (long long)value);
	SAY(out->mend, "sysctl -w net.core.somaxconn=4096");
}

/* Packets dropped by full queues of the CPUs: second column, hexadecimal, one line for each CPU. */
static int64_t softnet_dropped(const struct doctor *doctor)
{
	char text[16384];
	int64_t dropped = 0;
	unsigned seen, lost;

	if (!root_text(doctor, text, sizeof(text), "/proc/net/softnet_stat"))
		return 0;
	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "%x %x", &seen, &lost) == 2)
			dropped += lost;
	}
	return dropped;
}

void check_device_backlog(struct doctor *doctor, struct finding *out)
{
	int64_t value, dropped = softnet_dropped(doctor);

	SAY(out->wanted, "no drops; 1000 is enough up to 10 Gbit/s");
	if (!root_number(doctor, &value, "/proc/sys/net/core/netdev_max_backlog")) {
		SAY(out->found, "not visible in this network namespace");
		return;
	}
	SAY(out->found, "%lld; %lld packets were dropped by a full one since boot",
	    (long long)value, (long long)dropped);
	if (dropped == 0 && value >= 1000)
		return;
	raise_to(out, dropped > 0 ? SEVERITY_WARNING : SEVERITY_NOTE);
	SAY(out->effect, dropped > 0
				 ? "each drop is a retransmission, and halves that connection's "
				   "rate for some round trips"
				 : "bursts of more packets than this are cut: retransmissions");
	SAY(out->mend, "sysctl -w net.core.netdev_max_backlog=16384 net.core.netdev_budget=600");
}
