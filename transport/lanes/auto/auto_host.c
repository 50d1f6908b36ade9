/* auto_host.c - reads the boot id and the interfaces, and resolves hosts. See auto_host.h. */
#include "transport/lanes/auto/auto_host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "diag/base/hash.h"

uint64_t twi_auto_host_id(void)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[64];
	ssize_t n = -1;
	uint64_t id;

	if (fd >= 0) {
		n = read(fd, text, sizeof(text));
		close(fd);
	}
	if (n > 0)
		return twi_hash_bytes(text, (size_t)n);
	if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != (ssize_t)sizeof(id))
		id = twi_now_ns();
	return id;
}

bool twi_auto_interface_allowed(const char *knob, const char *name)
{
	bool except = knob[0] == '^', listed = false;
	size_t bytes = strlen(name);

	if (knob[0] == '\0')
		return true;
	for (const char *at = knob + except; *at != '\0';) {
		size_t word = strcspn(at, ",");

		listed |= word == bytes && strncmp(at, name, bytes) == 0;
		at += word + (at[word] == ',');
	}
	return listed != except;
}

static void add_address(struct twi_auto_hosts *out, const struct sockaddr *address)
{
	if (address->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)address;
		uint32_t value = ntohl(in->sin_addr.s_addr);

		if (value >> 16 != 0xa9fe && out->count4 < TWI_AUTO_HOSTS_MAX) /* 169.254/16 */
			out->in4[out->count4++] = in->sin_addr;
	} else if (address->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)address;

		if (!IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) && out->count6 < TWI_AUTO_HOSTS_MAX)
			out->in6[out->count6++] = in6->sin6_addr;
	}
}

/* Adds the addresses of the loopback interfaces, or of all others. */
static void read_some(const struct ifaddrs *all, const char *knob, bool loopback,
		      struct twi_auto_hosts *out)
{
	for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
		if (at->ifa_addr != NULL && (at->ifa_flags & IFF_UP) != 0 &&
		    ((at->ifa_flags & IFF_LOOPBACK) != 0) == loopback &&
		    twi_auto_interface_allowed(knob, at->ifa_name))
			add_address(out, at->ifa_addr);
	}
}

void twi_auto_hosts_read(const char *knob, struct twi_auto_hosts *out)
{
	struct ifaddrs *all = NULL;

	*out = (struct twi_auto_hosts){ 0 };
	if (getifaddrs(&all) != 0)
		return;
	read_some(all, knob, false, out);
	if (out->count4 + out->count6 == 0)
		read_some(all, knob, true, out);
	freeifaddrs(all);
}

int twi_auto_resolve_host(const char *host, char out[TOW_ADDRESS_MAX])
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	char name[TOW_ADDRESS_MAX];
	size_t bytes = strlen(host);
	int err;

	if (bytes >= sizeof(name))
		return twi_error(TOW_EINVAL, "address tow://%.40s...: it has over %d bytes", host,
				 TOW_ADDRESS_MAX - 1);
	out[0] = '\0';
	if (bytes == 0)
		return TOW_OK;
	if (host[0] == '[' && host[bytes - 1] == ']')
		snprintf(name, sizeof(name), "%.*s", (int)bytes - 2, host + 1);
	else
		snprintf(name, sizeof(name), "%s", host);
	err = getaddrinfo(name, NULL, &hints, &found);
	if (err != 0)
		return twi_error(err == EAI_MEMORY   ? TOW_ENOMEM
				 : err == EAI_SYSTEM ? TOW_ESYSTEM
						     : TOW_EINVAL,
				 "address tow://%s: %s; an endpoint opens at tow:// or "
				 "tow://HOST, without a port",
				 host, gai_strerror(err));
	err = getnameinfo(found->ai_addr, found->ai_addrlen, out, TOW_ADDRESS_MAX, NULL, 0,
			  NI_NUMERICHOST);
	freeaddrinfo(found);
	if (err == 0 && (strcmp(out, "0.0.0.0") == 0 || strcmp(out, "::") == 0))
		out[0] = '\0'; /* all of this host's addresses: as if none had been named */
	return err == 0 ? TOW_OK
			: twi_error(TOW_ESYSTEM, "address tow://%s: %s", host, gai_strerror(err));
}
