/*
 * towdoctor_judge.c - judges what limits a path. It is a function of the measurement alone, so that
 * a stored one (--judge) gives the same text.
 *
 * The most certain rules come first. The kernel counts losses. A window or a send buffer is the
 * limit if the kernel waited for it, and the bytes of a round trip about fill it. A link is the
 * limit if its queue makes the round trip long, or if its speed is reached.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/words.h"
#include "tools/towdoctor/towdoctor.h"

#define LOSS_PPM        1000 /* retransmitted bytes in a million; more are reported */
#define LIMITED_PERCENT 25
#define WINDOW_RTT_US   200 /* on shorter paths, a full window means a busy reader */
#define QUEUE_US        1000
#define QUEUE_PACKETS   16 /* fewer are packets of a small window that came late, and no queue */
#define FULL_PERCENT    80 /* of the interface's speed */
#define BUSY_PERCENT    90

struct direction {
	const char *name, *sender, *receiver;
	double rate;
	json_int_t sent, lost, busy_us, rwnd_us, sndbuf_us;
	json_int_t rtt_us, min_rtt_us, mss, path_mtu, mtu, sndbuf, rcvbuf, speed_mbps;
	json_int_t cpu_percent; /* of the busier end */
	const char *busier, *interface, *congestion;
};

static json_int_t number_of(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);
	json_int_t found = json_integer_value(value);

	return found > 0 ? found : 0;
}

static json_int_t grown_by(json_t *before, json_t *after, const char *key)
{
	json_int_t from = number_of(before, key), to = number_of(after, key);

	return to > from ? to - from : 0;
}

static const char *text_at(json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value != NULL ? value : "?";
}

static json_int_t cpu_percent(json_t *end)
{
	json_t *before = json_object_get(end, "before"), *after = json_object_get(end, "after");
	json_int_t wall = grown_by(before, after, "at_us");

	return wall > 0 ? grown_by(before, after, "cpu_us") * 100 / wall : 0;
}

/* Finds the earlier row of a connection. NULL: the connection is new. */
static json_t *before_of(json_t *rows, json_t *row)
{
	json_t *found;
	size_t i;

	json_array_foreach(rows, i, found)
	{
		if (number_of(found, "connection") == number_of(row, "connection"))
			return found;
	}
	return NULL;
}

/* Finds the connection whose `key` grew most. all_out: the growth of all connections. */
static json_t *busiest_connection(json_t *end, const char *key, json_t **before_out,
				  json_int_t *all_out)
{
	json_t *before = json_object_get(json_object_get(end, "before"), "tcp");
	json_t *after = json_object_get(json_object_get(end, "after"), "tcp");
	json_t *row, *found = NULL;
	json_int_t most = 0;
	size_t i;

	*all_out = 0;
	json_array_foreach(after, i, row)
	{
		json_t *was = before_of(before, row);
		json_int_t more = grown_by(was, row, key);

		*all_out += more;
		if (more <= most)
			continue;
		most = more;
		found = row;
		*before_out = was;
	}
	return found;
}

/*
 * Bytes that were sent again and had not arrived before. The receiver reports segments that arrive
 * twice (RFC 2883). These come from a timer that was too short, as after a pause of a host, and are
 * no loss.
 */
static json_int_t lost_bytes(json_t *sender, json_int_t mss)
{
	json_int_t again, twice;
	json_t *before;

	busiest_connection(sender, "retransmitted_bytes", &before, &again);
	busiest_connection(sender, "duplicate_segments", &before, &twice);
	return twice < again / mss ? again - twice * mss : 0;
}

/* False: the lane was not TCP. */
static bool read_direction(json_t *measured, bool there, struct direction *out)
{
	const char *name = there ? "there" : "back";
	json_t *ends = json_object_get(json_object_get(measured, "ends"), name);
	json_t *sender = json_object_get(ends, there ? "here" : "there");
	json_t *receiver = json_object_get(ends, there ? "there" : "here");
	json_t *before = NULL, *taker_before = NULL;
	json_int_t sent = 0, received = 0;
	json_t *after = busiest_connection(sender, "sent_bytes", &before, &sent);
	json_t *taker = busiest_connection(receiver, "received_bytes", &taker_before, &received);
	const json_int_t sender_cpu = cpu_percent(sender), receiver_cpu = cpu_percent(receiver);

	*out = (struct direction){ .name = name,
				   .sender = there ? "this host" : "the peer",
				   .receiver = there ? "the peer" : "this host" };
	out->rate = json_number_value(
		json_object_get(json_object_get(measured, "bandwidth_bytes_per_s"), name));
	out->cpu_percent = sender_cpu > receiver_cpu ? sender_cpu : receiver_cpu;
	out->busier = sender_cpu > receiver_cpu ? out->sender : out->receiver;
	if (after == NULL)
		return false;
	out->sent = sent;
	out->busy_us = grown_by(before, after, "busy_us");
	out->rwnd_us = grown_by(before, after, "rwnd_limited_us");
	out->sndbuf_us = grown_by(before, after, "sndbuf_limited_us");
	out->rtt_us = number_of(after, "rtt_us");
	out->min_rtt_us = number_of(after, "min_rtt_us");
	out->mss = number_of(after, "mss_bytes");
	out->lost = lost_bytes(sender, out->mss > 0 ? out->mss : 1);
	out->path_mtu = number_of(after, "path_mtu_bytes");
	out->mtu = number_of(after, "mtu_bytes");
	out->sndbuf = number_of(after, "sndbuf_bytes");
	out->rcvbuf = number_of(taker, "rcvbuf_bytes");
	out->speed_mbps = number_of(after, "speed_mbps");
	out->interface = text_at(after, "interface");
	out->congestion = text_at(after, "congestion");
	return true;
}

static json_int_t percent_of(json_int_t part, json_int_t whole)
{
	return whole > 0 ? part * 100 / whole : 0;
}

/* At the kernel's defaults, at most half of a buffer is in the window. */
static bool fills_window(const struct direction *d, json_int_t buffer)
{
	double in_flight = d->rate * (double)d->rtt_us / 1e6;

	return d->min_rtt_us >= WINDOW_RTT_US && buffer > 0 && in_flight >= (double)buffer / 4;
}

static bool builds_queue(const struct direction *d)
{
	const double waiting = d->rate * (double)(d->rtt_us - d->min_rtt_us) / 1e6;

	return d->min_rtt_us > 0 && d->rtt_us >= 2 * d->min_rtt_us + QUEUE_US &&
	       waiting >= (double)(QUEUE_PACKETS * d->mss);
}

/* Returns the buffer size for ten times the rate, or 16 MiB if that is more. */
static long long buffer_wanted(const struct direction *d)
{
	double wanted = 20 * d->rate * (double)d->min_rtt_us / 1e6;

	return wanted > 16777216.0 ? (long long)wanted : 16777216;
}

static bool judge_loss(const struct direction *d, struct finding *out)
{
	char bound[WORDS_BYTES];
	double share = d->sent > 0 ? (double)d->lost / (double)d->sent : 0;

	if (share * 1e6 < LOSS_PPM)
		return false;
	if (builds_queue(d)) {
		raise_to(out, SEVERITY_NOTE);
		SAY(out->effect,
		    "the slowest link of the way is full and drops what its queue does not take: "
		    "%.2f %% of the bytes are sent again",
		    share * 100);
		SAY(out->mend, "a faster link; or less at once: the knob congestion=bbr, ECN "
			       "(sysctl -w net.ipv4.tcp_ecn=1) where the switches mark");
		return true;
	}
	raise_to(out, SEVERITY_WARNING);
	/* Mathis: at a loss rate of p, a window has 1.22 / sqrt(p) segments. */
	words_bytes((unsigned long long)(1.22 * (double)d->mss / sqrt(share) * 1e6 /
					 (double)(d->min_rtt_us > 0 ? d->min_rtt_us : 1)),
		    bound);
	SAY(out->effect,
	    "the path loses packets without being full: %.2f %% of the bytes are sent again, and "
	    "%s goes no faster than about %s/s at this round trip",
	    share * 100, d->congestion, bound);
	SAY(out->mend,
	    "find the bad cable, port or duplex: ethtool -S %s | grep -i -e err -e drop; "
	    "until then: export TOW_CONGESTION=bbr TOW_BULK_STREAMS=4",
	    d->interface);
	return true;
}

static bool judge_windows(const struct direction *d, struct finding *out)
{
	const json_int_t window = percent_of(d->rwnd_us, d->busy_us);
	const json_int_t buffer = percent_of(d->sndbuf_us, d->busy_us);
	const bool by_window = window >= LIMITED_PERCENT && fills_window(d, d->rcvbuf);
	const bool by_buffer = buffer >= LIMITED_PERCENT && fills_window(d, d->sndbuf);
	char size[WORDS_BYTES];

	if (!by_window && !by_buffer)
		return false;
	raise_to(out, SEVERITY_WARNING);
	if (by_window && (!by_buffer || window >= buffer)) {
		words_bytes((unsigned long long)d->rcvbuf, size);
		SAY(out->effect,
		    "the window is too small for bandwidth x delay: for %lld %% of the time the "
		    "sender waited for the receive buffer of %s (%s)",
		    (long long)window, d->receiver, size);
		SAY(out->mend,
		    "on %s: sysctl -w net.ipv4.tcp_rmem='4096 131072 %lld', and no "
		    "TOW_SOCKET_BUFFER_BYTES",
		    d->receiver, buffer_wanted(d));
	} else {
		words_bytes((unsigned long long)d->sndbuf, size);
		SAY(out->effect,
		    "the send buffer is too small for bandwidth x delay: for %lld %% of the time "
		    "the connection waited for that of %s (%s)",
		    (long long)buffer, d->sender, size);
		SAY(out->mend,
		    "on %s: sysctl -w net.ipv4.tcp_wmem='4096 65536 %lld', and no "
		    "TOW_SOCKET_BUFFER_BYTES",
		    d->sender, buffer_wanted(d));
	}
	return true;
}

static bool judge_link(const struct direction *d, struct finding *out)
{
	char rate[WORDS_BYTES], queue[WORDS_BYTES];
	double share = d->speed_mbps > 0 ? d->rate * 8 / 1e4 / (double)d->speed_mbps : 0;

	if (d->speed_mbps > 0 && share >= FULL_PERCENT) {
		SAY(out->effect, "nothing: %.0f %% of what %s carries (%lld Mbit/s)", share,
		    d->interface, (long long)d->speed_mbps);
		return true;
	}
	if (!builds_queue(d))
		return false;
	words_bytes((unsigned long long)d->rate, rate);
	words_ns((unsigned long long)(d->rtt_us - d->min_rtt_us) * 1000, queue);
	raise_to(out, SEVERITY_NOTE);
	SAY(out->effect,
	    "the slowest link of the way carries %s/s, and its queue makes each round trip %s "
	    "longer under load",
	    rate, queue);
	SAY(out->mend,
	    "a faster link, or TOW_INTERFACES for another one; for latency beside bulk: "
	    "tc qdisc replace dev %s root fq",
	    d->interface);
	return true;
}

static bool judge_packets(const struct direction *d, struct finding *out)
{
	if (d->path_mtu == 0 || d->path_mtu >= d->mtu || d->mtu > 65000)
		return false;
	raise_to(out, SEVERITY_WARNING);
	SAY(out->effect,
	    "packets of %lld bytes, though %s has room for %lld: a hop on the way is "
	    "narrower, and each packet costs both ends CPU time",
	    (long long)d->path_mtu, d->interface, (long long)d->mtu);
	SAY(out->mend, "tracepath PEER shows the hop; one mtu on all of the way");
	return true;
}

static void judge_direction(const struct direction *d, struct finding *out)
{
	if (judge_loss(d, out) || judge_windows(d, out) || judge_link(d, out) ||
	    judge_packets(d, out))
		return;
	if (d->cpu_percent >= BUSY_PERCENT) {
		SAY(out->effect, "the CPU: the process on %s was busy for %lld %% of the time",
		    d->busier, (long long)d->cpu_percent);
		SAY(out->mend, "larger packets (mtu 9000), offloads, or TOW_BULK_STREAMS=2");
		return;
	}
	SAY(out->effect, "nothing was found that limits it");
}

void judge_path(json_t *measured, struct finding out[DIRECTIONS])
{
	char rate[WORDS_BYTES], rtt[WORDS_BYTES], loaded[WORDS_BYTES];

	for (int i = 0; i < DIRECTIONS; i++) {
		struct direction d;
		bool tcp = read_direction(measured, i == 0, &d);

		out[i] = (struct finding){ .severity = SEVERITY_OK };
		words_bytes((unsigned long long)d.rate, rate);
		SAY(out[i].wanted, "the speed of the slowest link of the way");
		if (!tcp) {
			SAY(out[i].found, "%s/s, not by TCP", rate);
			continue;
		}
		words_ns((unsigned long long)d.min_rtt_us * 1000, rtt);
		words_ns((unsigned long long)d.rtt_us * 1000, loaded);
		SAY(out[i].found,
		    "%s/s from %s by %s (%s); round trip %s, under load %s; packets of %lld bytes; "
		    "%.2f %% lost and sent again",
		    rate, d.sender, d.interface, d.congestion, rtt, loaded, (long long)d.path_mtu,
		    d.sent > 0 ? (double)d.lost * 100 / (double)d.sent : 0.0);
		judge_direction(&d, &out[i]);
	}
}
