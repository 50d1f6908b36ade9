/*
 * towdoctor_net.c - checks of interfaces, routes, names and ports. The library's own rule selects
 * the interfaces (docs/tcp.md, knob interfaces).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/words.h"
#include "tools/towdoctor/towdoctor.h"

#define FLAG_UP       0x1
#define FLAG_LOOPBACK 0x8

/* "eth0,eth1": these; "^eth0": all but these; empty: all. */
static bool knob_allows(const char *knob, const char *name)
{
	const bool except = knob[0] == '^';
	const size_t bytes = strlen(name);

	if (knob[0] == '\0')
		return true;
	for (const char *at = knob + except; at != NULL; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, name, bytes) == 0 && (at[bytes] == ',' || at[bytes] == '\0'))
			return !except;
	}
	return except;
}

static void read_interface(const struct doctor *doctor, const char *name, struct interface *out)
{
	const char *knob = getenv("TOW_INTERFACES");
	char state[32] = "", flags[32] = "0";
	unsigned long bits;

	*out = (struct interface){ .wanted = knob_allows(knob != NULL ? knob : "", name) };
	say(out->name, sizeof(out->name), "%s", name);
	root_text(doctor, flags, sizeof(flags), "/sys/class/net/%s/flags", name);
	bits = strtoul(flags, NULL, 16);
	root_text(doctor, state, sizeof(state), "/sys/class/net/%s/operstate", name);
	out->loopback = (bits & FLAG_LOOPBACK) != 0;
	out->up = (bits & FLAG_UP) != 0 && strcmp(state, "down") != 0;
	out->real = root_exists(doctor, "/sys/class/net/%s/device", name);
	root_number(doctor, &out->mtu, "/sys/class/net/%s/mtu", name);
	if (!root_number(doctor, &out->speed_mbps, "/sys/class/net/%s/speed", name) ||
	    out->speed_mbps < 0 || out->speed_mbps > 10000000)
		out->speed_mbps = 0;
}

void used_interfaces(const struct doctor *doctor, struct interfaces *out)
{
	struct interface row, loopback = { 0 };
	struct names names;

	out->count = 0;
	root_names(doctor, "/sys/class/net", &names);
	for (size_t i = 0; i < names.count; i++) {
		read_interface(doctor, names.rows[i], &row);
		if (!row.up || !row.wanted)
			continue;
		if (row.loopback)
			loopback = row;
		else
			out->rows[out->count++] = row;
	}
	if (out->count == 0 && loopback.up)
		out->rows[out->count++] = loopback;
}

void check_interfaces(struct doctor *doctor, struct finding *out)
{
	struct interfaces used;
	size_t slow = 0;
	int64_t fastest = 0;
	char odd[256] = "";

	SAY(out->wanted, "those that reach the other hosts, of one speed");
	used_interfaces(doctor, &used);
	for (size_t i = 0; i < used.count; i++) {
		const struct interface *row = &used.rows[i];

		SAY_MORE(out->found, "%s%s", i > 0 ? ", " : "", row->name);
		if (row->speed_mbps > 0)
			SAY_MORE(out->found, " (%lld Mbit/s)", (long long)row->speed_mbps);
		fastest = row->speed_mbps > fastest ? row->speed_mbps : fastest;
	}
	if (used.count == 0 || used.rows[0].loopback) {
		raise_to(out, used.count == 0 ? SEVERITY_ERROR : SEVERITY_NOTE);
		SAY(out->found, "%s", used.count == 0 ? "none is up" : "loopback alone");
		SAY(out->effect, "no other host can be reached%s",
		    used.count == 0 ? ", nor can tcp be used within this one" : "");
		SAY(out->mend, "ip link set %s up; or the knob: export TOW_INTERFACES=NAME",
		    used.count == 0 ? "lo" : "NAME");
		return;
	}
	for (size_t i = 0; i < used.count; i++) {
		const struct interface *row = &used.rows[i];
		const bool bridge = root_exists(doctor, "/sys/class/net/%s/bridge", row->name);
		const bool is_slow = row->speed_mbps > 0 && row->speed_mbps * 2 <= fastest;

		slow += is_slow;
		if (bridge || is_slow)
			SAY_MORE(odd, "%s%s", odd[0] != '\0' ? "," : "", row->name);
	}
	if (odd[0] == '\0' || used.count == 1)
		return;
	raise_to(out, slow > 0 ? SEVERITY_WARNING : SEVERITY_NOTE);
	SAY(out->effect, "%s",
	    slow > 0 ? "large messages are spread over interfaces of unequal "
		       "speed, and each waits for the slowest"
		     : "peers are told the address of a bridge that only this "
		       "host reaches; connecting tries it and goes on");
	SAY(out->mend, "export TOW_INTERFACES=^%s", odd);
}

struct route {
	char interface[NAME_BYTES];
	unsigned destination, gateway, flags, mask;
};

/* Reads the IPv4 routes; the numbers are those of /proc/net/route. */
static size_t read_routes(const struct doctor *doctor, struct route *out, size_t most)
{
	char text[16384], *row = text, *line;
	size_t count = 0;

	if (!root_text(doctor, text, sizeof(text), "/proc/net/route"))
		return 0;
	strsep(&row, "\n");
	while (count < most && (line = strsep(&row, "\n")) != NULL) {
		struct route *route = &out[count];

		count += sscanf(line, "%63s %x %x %x %*d %*d %*d %x", route->interface,
				&route->destination, &route->gateway, &route->flags,
				&route->mask) == 5;
	}
	return count;
}

static bool is_used(const struct interfaces *used, const char *name)
{
	for (size_t i = 0; i < used->count; i++) {
		if (strcmp(used->rows[i].name, name) == 0)
			return true;
	}
	return false;
}

/* Finds two used interfaces with an address in one subnet. False: there are none. */
static bool shared_subnet(const struct route *routes, size_t count, const struct interfaces *used,
			  const struct route **first_out, const struct route **second_out)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t j = i + 1; j < count; j++) {
			if (routes[i].gateway != 0 || routes[j].gateway != 0 ||
			    routes[i].mask == 0 || routes[i].destination != routes[j].destination ||
			    routes[i].mask != routes[j].mask ||
			    strcmp(routes[i].interface, routes[j].interface) == 0 ||
			    !is_used(used, routes[i].interface) ||
			    !is_used(used, routes[j].interface))
				continue;
			*first_out = &routes[i];
			*second_out = &routes[j];
			return true;
		}
	}
	return false;
}

void check_routes(struct doctor *doctor, struct finding *out)
{
	const struct route *first, *second;
	struct route routes[64];
	struct interfaces used;
	size_t count = read_routes(doctor, routes, 64), onto = 0;
	const char *by_default = NULL;
	int64_t filter = 0;

	SAY(out->wanted, "each used interface in a subnet of its own");
	used_interfaces(doctor, &used);
	for (size_t i = 0; i < count; i++) {
		onto += is_used(&used, routes[i].interface);
		if (routes[i].destination == 0 && routes[i].mask == 0)
			by_default = routes[i].interface;
	}
	SAY(out->found, "%zu IPv4 routes; by default %s", count,
	    by_default != NULL ? by_default : "none");
	if (shared_subnet(routes, count, &used, &first, &second)) {
		root_number(doctor, &filter, "/proc/sys/net/ipv4/conf/all/rp_filter");
		raise_to(out, SEVERITY_WARNING);
		SAY_MORE(out->found, "; %s and %s are in one subnet%s", first->interface,
			 second->interface, filter == 1 ? ", and rp_filter is 1" : "");
		SAY(out->effect,
		    "what is bound to %s's address leaves by %s all the same%s: the "
		    "second interface carries nothing",
		    second->interface, first->interface,
		    filter == 1 ? ", or is dropped on arrival" : "");
		SAY(out->mend,
		    "ip rule add from ADDRESS_OF_%s table 101; ip route add SUBNET dev "
		    "%s table 101; sysctl -w net.ipv4.conf.all.rp_filter=2",
		    second->interface, second->interface);
		return;
	}
	if (by_default != NULL && !is_used(&used, by_default)) {
		raise_to(out, SEVERITY_NOTE);
		SAY(out->effect, "hosts outside our subnets are reached by an interface that the "
				 "knob interfaces excludes; bulk streams do not use it");
		SAY(out->mend, "ip route replace default dev NAME, or mend TOW_INTERFACES");
		return;
	}
	if (onto == 0 && used.count > 0 && !used.rows[0].loopback) {
		raise_to(out, SEVERITY_NOTE);
		SAY(out->effect, "no IPv4 subnet on the used interfaces: only IPv6 peers are "
				 "reached");
	}
}

void check_mtu(struct doctor *doctor, struct finding *out)
{
	struct interfaces used;
	const struct interface *small = NULL;

	SAY(out->wanted, "9000 from 10 Gbit/s up, the same on every host and switch");
	used_interfaces(doctor, &used);
	for (size_t i = 0; i < used.count; i++) {
		const struct interface *row = &used.rows[i];

		SAY_MORE(out->found, "%s%s %lld", i > 0 ? ", " : "", row->name,
			 (long long)row->mtu);
		if (!row->loopback && row->mtu < 8000 &&
		    (small == NULL || row->speed_mbps > small->speed_mbps))
			small = row;
	}
	if (used.count == 0)
		SAY(out->found, "no interface is up");
	if (small == NULL)
		return;
	if (small->mtu < 1500) {
		raise_to(out, SEVERITY_NOTE);
		SAY(out->effect,
		    "%s carries packets of %lld bytes, less than Ethernet's 1500: a "
		    "tunnel lies below it, and its ends pay for each packet",
		    small->name, (long long)small->mtu);
		SAY(out->mend,
		    "give the link below room for the tunnel's headers: ip link set "
		    "DEV mtu 1600 or more, then ip link set %s mtu 1500",
		    small->name);
	} else if (small->real && small->speed_mbps >= 10000) {
		raise_to(out, SEVERITY_WARNING);
		SAY(out->effect, "six times as many packets as with 9000: about a third more CPU "
				 "for each byte received, and one core carries 10 to 20 Gbit/s "
				 "instead of 30 and more");
		SAY(out->mend, "ip link set %s mtu 9000, on every host and switch of the network",
		    small->name);
	}
}

void check_offloads(struct doctor *doctor, struct finding *out)
{
	static const char *const kinds[] = { "tso", "gso", "gro" };
	char key[128], name[NAME_BYTES] = "", off[64] = "";
	struct interfaces used;
	size_t asked = 0;

	SAY(out->wanted, "tso, gso and gro on");
	used_interfaces(doctor, &used);
	for (size_t i = 0; i < used.count; i++) {
		char missing[64] = "";

		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			int64_t on;

			SAY(key, "ethtool.%s.%s", used.rows[i].name, kinds[k]);
			if (!ask_number(doctor, key, &on))
				continue;
			asked++;
			if (on == 0)
				SAY_MORE(missing, "%s%s off", missing[0] != '\0' ? " " : "",
					 kinds[k]);
		}
		SAY_MORE(out->found, "%s%s: %s", i > 0 ? ", " : "", used.rows[i].name,
			 missing[0] != '\0' ? missing : "on");
		if (missing[0] != '\0' && !used.rows[i].loopback && off[0] == '\0') {
			SAY(off, "%s", missing);
			SAY(name, "%s", used.rows[i].name);
		}
	}
	if (asked == 0) {
		not_known(out, "the offloads (SIOCETHTOOL)");
		return;
	}
	if (off[0] == '\0')
		return;
	/* Without gso, packets are not cut late. Without tso, gso cuts them, which is cheap. */
	raise_to(out, strstr(off, "gso") != NULL || strstr(off, "gro") != NULL ? SEVERITY_WARNING
									       : SEVERITY_NOTE);
	SAY(out->effect,
	    "%s: packets go one by one through the kernel; sending costs 1.2 to 3 "
	    "times the CPU without tso or gso, receiving likewise without gro",
	    name);
	SAY(out->mend, "ethtool -K %s tso on gso on gro on", name);
}

/* Finds the first address that /etc/hosts gives a name. False: the name is not in it. */
static bool hosts_address(const char *text, const char *name, char *out, size_t size)
{
	char copy[16384], *rows = copy, *line;

	SAY(copy, "%s", text);
	while ((line = strsep(&rows, "\n")) != NULL) {
		char *words = line, *word, *address = NULL;

		line[strcspn(line, "#")] = '\0';
		while ((word = strsep(&words, " \t")) != NULL) {
			if (word[0] == '\0')
				continue;
			if (address == NULL) {
				address = word;
			} else if (strcmp(word, name) == 0) {
				say(out, size, "%s", address);
				return true;
			}
		}
	}
	return false;
}

void check_hosts(struct doctor *doctor, struct finding *out)
{
	char name[256], text[16384] = "", address[64];

	SAY(out->wanted, "an address of the network, or none");
	if (!root_text(doctor, name, sizeof(name), "/proc/sys/kernel/hostname")) {
		not_known(out, "the host's name");
		return;
	}
	root_text(doctor, text, sizeof(text), "/etc/hosts");
	if (!hosts_address(text, name, address, sizeof(address))) {
		SAY(out->found, "%s is not in /etc/hosts", name);
		return;
	}
	SAY(out->found, "%s is %s in /etc/hosts", name, address);
	if (strncmp(address, "127.", 4) != 0 && strcmp(address, "::1") != 0)
		return;
	raise_to(out, SEVERITY_WARNING);
	SAY(out->effect,
	    "a rank that is told to listen at its host's name (TOW_STORE, "
	    "tcp://%s:PORT) listens on loopback, and no other host reaches it",
	    name);
	SAY(out->mend,
	    "write in /etc/hosts: ADDRESS_IN_THE_NETWORK %s  (instead of %s), or name "
	    "addresses by number",
	    name, address);
}

void check_ports(struct doctor *doctor, struct finding *out)
{
	int64_t waiting = 0;
	char text[256];
	const char *at;
	long first, last;

	SAY(out->wanted, "16384 or more: up to 5 for each peer, and those that have just closed");
	if (!root_text(doctor, text, sizeof(text), "/proc/sys/net/ipv4/ip_local_port_range") ||
	    sscanf(text, "%ld %ld", &first, &last) != 2) {
		not_known(out, "net.ipv4.ip_local_port_range");
		return;
	}
	if (root_text(doctor, text, sizeof(text), "/proc/net/sockstat") &&
	    (at = strstr(text, " tw ")) != NULL)
		waiting = strtoll(at + 4, NULL, 10);
	SAY(out->found, "%ld (%ld to %ld), %lld of them just closed", last - first + 1, first, last,
	    (long long)waiting);
	if (last - first + 1 - waiting >= 8192)
		return;
	raise_to(out, last - first + 1 - waiting < 1024 ? SEVERITY_WARNING : SEVERITY_NOTE);
	SAY(out->effect, "connecting fails with EADDRNOTAVAIL when many ranks of this host "
			 "connect to one address");
	SAY(out->mend, "sysctl -w net.ipv4.ip_local_port_range='16384 65000'");
}
