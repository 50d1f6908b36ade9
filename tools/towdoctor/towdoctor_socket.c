/*
 * towdoctor_socket.c - the kernel's view of this end of a path: TCP_INFO of this process's own
 * connections, their interface, and the CPU time of the process.
 *
 * It includes linux/tcp.h, because glibc's tcp_info lacks the limits (busy, rwnd, sndbuf).
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/towdoctor/towdoctor.h"

#define ESTABLISHED     1
#define CONNECTIONS_MAX 16

/* Formats an address. An IPv4 address in an IPv6 socket becomes the IPv4 address. */
static void plain_address(const struct sockaddr_storage *address, char out[INET6_ADDRSTRLEN])
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *four = (const struct sockaddr_in *)address;

	out[0] = '\0';
	if (address->ss_family == AF_INET)
		inet_ntop(AF_INET, &four->sin_addr, out, INET6_ADDRSTRLEN);
	else if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
		inet_ntop(AF_INET, &six->sin6_addr.s6_addr[12], out, INET6_ADDRSTRLEN);
	else if (address->ss_family == AF_INET6)
		inet_ntop(AF_INET6, &six->sin6_addr, out, INET6_ADDRSTRLEN);
}

static void find_interface(int fd, char out[IF_NAMESIZE])
{
	struct sockaddr_storage mine = { 0 }, row = { 0 };
	char wanted[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN];
	struct ifaddrs *all = NULL;
	socklen_t size = sizeof(mine);

	out[0] = '\0';
	if (getsockname(fd, (struct sockaddr *)&mine, &size) != 0 || getifaddrs(&all) != 0)
		return;
	plain_address(&mine, wanted);
	for (struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
		if (at->ifa_addr == NULL ||
		    (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
			continue;
		memcpy(&row, at->ifa_addr,
		       at->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
							  : sizeof(struct sockaddr_in6));
		plain_address(&row, text);
		if (strcmp(text, wanted) == 0)
			say(out, IF_NAMESIZE, "%s", at->ifa_name);
	}
	freeifaddrs(all);
}

/* NULL: the descriptor is no established connection. */
static json_t *describe_tcp(int fd)
{
	char congestion[16] = "", interface[IF_NAMESIZE];
	const struct doctor here = { .root = "" };
	struct tcp_info info = { 0 };
	int64_t mtu = 0, speed = 0;
	int sndbuf = 0, rcvbuf = 0;
	socklen_t size = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
	    info.tcpi_state != ESTABLISHED)
		return NULL;
	size = sizeof(congestion) - 1;
	getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, &size);
	size = sizeof(sndbuf);
	getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, &size);
	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, &size);
	find_interface(fd, interface);
	root_number(&here, &mtu, "/sys/class/net/%s/mtu", interface);
	if (!root_number(&here, &speed, "/sys/class/net/%s/speed", interface) || speed < 0)
		speed = 0;
	return json_pack(
		"{s:i,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:i,s:i,s:s,s:s,s:I,s:I}",
		"connection", fd, "sent_bytes", (json_int_t)info.tcpi_bytes_sent,
		"retransmitted_bytes", (json_int_t)info.tcpi_bytes_retrans, "duplicate_segments",
		(json_int_t)info.tcpi_dsack_dups, "received_bytes",
		(json_int_t)info.tcpi_bytes_received, "busy_us", (json_int_t)info.tcpi_busy_time,
		"rwnd_limited_us", (json_int_t)info.tcpi_rwnd_limited, "sndbuf_limited_us",
		(json_int_t)info.tcpi_sndbuf_limited, "rtt_us", (json_int_t)info.tcpi_rtt,
		"min_rtt_us", (json_int_t)info.tcpi_min_rtt, "cwnd_segments",
		(json_int_t)info.tcpi_snd_cwnd, "mss_bytes", (json_int_t)info.tcpi_snd_mss,
		"path_mtu_bytes", (json_int_t)info.tcpi_pmtu, "sndbuf_bytes", sndbuf,
		"rcvbuf_bytes", rcvbuf, "congestion", congestion, "interface", interface,
		"mtu_bytes", (json_int_t)mtu, "speed_mbps", (json_int_t)speed);
}

static json_t *describe_connections(void)
{
	DIR *dir = opendir("/proc/self/fd");
	json_t *rows = json_array(), *row;
	struct dirent *entry;

	while (dir != NULL && json_array_size(rows) < CONNECTIONS_MAX &&
	       (entry = readdir(dir)) != NULL) {
		row = entry->d_name[0] != '.' ? describe_tcp(atoi(entry->d_name)) : NULL;
		if (row != NULL)
			json_array_append_new(rows, row);
	}
	if (dir != NULL)
		closedir(dir);
	return rows;
}

json_t *describe_end(void)
{
	const struct doctor here = { .root = "" };
	struct rusage usage;
	struct timespec now;
	char host[256] = "?";
	json_int_t cpu_us;

	getrusage(RUSAGE_SELF, &usage);
	clock_gettime(CLOCK_MONOTONIC, &now);
	root_text(&here, host, sizeof(host), "/proc/sys/kernel/hostname");
	cpu_us = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * (json_int_t)1000000 +
		 usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
	return json_pack("{s:s,s:I,s:I,s:o}", "host", host, "at_us",
			 now.tv_sec * (json_int_t)1000000 + now.tv_nsec / 1000, "cpu_us", cpu_us,
			 "tcp", describe_connections());
}
