/*
 * tcp_rails.c - which local address to dial from, and which remote one to dial. See tcp_rails.h.
 */
#include "transport/lanes/tcp/tcp_rails.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/base/words.h"

int twi_tcp_interfaces_check(const char *knob)
{
	bool except = knob[0] == '^'; /* an excluded interface need not exist */
	char name[IF_NAMESIZE];

	if (knob[0] == '\0')
		return TOW_OK;
	knob += except;
	for (;;) {
		size_t word = strcspn(knob, ",");

		if (word == 0 || word >= sizeof(name))
			return twi_error(TOW_EINVAL,
					 "interfaces: '%.32s' is not the name of an interface; "
					 "the value is NAME,NAME or ^NAME,NAME",
					 knob);
		snprintf(name, sizeof(name), "%.*s", (int)word, knob);
		if (!except && if_nametoindex(name) == 0)
			return twi_error(TOW_EINVAL, "interfaces: this host has no interface '%s'",
					 name);
		if (knob[word] == '\0')
			return TOW_OK;
		knob += word + 1;
	}
}

static unsigned prefix_of(const struct sockaddr *mask, int family)
{
	const uint8_t *bytes;
	unsigned count, bits = 0;

	if (mask == NULL)
		return family == AF_INET ? 32 : 128;
	if (family == AF_INET) {
		bytes = (const uint8_t *)&((const struct sockaddr_in *)(const void *)mask)
				->sin_addr;
		count = 32;
	} else {
		bytes = (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)mask)
				->sin6_addr;
		count = 128;
	}
	while (bits < count && (bytes[bits / 8] & 0x80u >> bits % 8) != 0)
		bits++;
	return bits;
}

void twi_tcp_interfaces_read(const char *knob, struct twi_tcp_interfaces *out)
{
	struct ifaddrs *all = NULL;

	out->count = 0;
	if (getifaddrs(&all) != 0)
		return;
	for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
		struct twi_tcp_interface *row = &out->rows[out->count];
		int family = at->ifa_addr == NULL ? AF_UNSPEC : at->ifa_addr->sa_family;

		if ((at->ifa_flags & IFF_UP) == 0 || (family != AF_INET && family != AF_INET6) ||
		    !twi_words_allow(knob, at->ifa_name))
			continue;
		if (out->count == TWI_INTERFACES_MAX)
			break;
		*row = (struct twi_tcp_interface){ .prefix = prefix_of(at->ifa_netmask, family) };
		snprintf(row->name, sizeof(row->name), "%s", at->ifa_name);
		if (family == AF_INET) {
			row->address.in = *(const struct sockaddr_in *)(const void *)at->ifa_addr;
			row->address.bytes = sizeof(row->address.in);
		} else {
			row->address.in6 = *(const struct sockaddr_in6 *)(const void *)at->ifa_addr;
			row->address.bytes = sizeof(row->address.in6);
		}
		out->count++;
	}
	freeifaddrs(all);
}

const char *twi_tcp_interface_of(const struct twi_tcp_interfaces *have,
				 const struct twi_tcp_address *at)
{
	for (unsigned i = 0; i < have->count; i++) {
		if (twi_tcp_same_host(&have->rows[i].address, at))
			return have->rows[i].name;
	}
	return "";
}

static bool same_subnet(const struct twi_tcp_interface *row, const struct twi_tcp_address *remote)
{
	const uint8_t *a, *b;

	if (row->address.any.sa_family != remote->any.sa_family)
		return false;
	if (remote->any.sa_family == AF_INET) {
		a = (const uint8_t *)&row->address.in.sin_addr;
		b = (const uint8_t *)&remote->in.sin_addr;
	} else {
		/* A link-local address means nothing without its link. */
		if (row->address.in6.sin6_scope_id != remote->in6.sin6_scope_id)
			return false;
		a = row->address.in6.sin6_addr.s6_addr;
		b = remote->in6.sin6_addr.s6_addr;
	}
	for (unsigned bit = 0; bit < row->prefix; bit++) {
		if (((a[bit / 8] ^ b[bit / 8]) & 0x80u >> bit % 8) != 0)
			return false;
	}
	return true;
}

static void add_rail(struct twi_tcp_rails *out, const struct twi_tcp_interface *row,
		     const struct twi_tcp_address *remote)
{
	struct twi_tcp_rail *rail = &out->rows[out->count];

	if (out->count == TWI_RAILS_MAX)
		return;
	*rail = (struct twi_tcp_rail){ .remote = *remote };
	if (row != NULL) {
		rail->local = row->address;
		twi_tcp_set_port(&rail->local, 0);
		snprintf(rail->name, sizeof(rail->name), "%s", row->name);
	}
	out->count++;
}

/* Adds the pairs in one subnet, without the first `skip` of them. */
static void add_direct(struct twi_tcp_rails *out, const struct twi_tcp_interfaces *have,
		       const struct twi_tcp_address *remote, unsigned skip)
{
	for (unsigned i = 0; i < have->count; i++) {
		if (!same_subnet(&have->rows[i], remote))
			continue;
		if (skip > 0)
			skip--;
		else
			add_rail(out, &have->rows[i], remote);
	}
}

/*
 * Adds a rail for each interface of the knob. None of them is in the peer's subnet, so a router has
 * to find the path.
 */
static void add_routed(struct twi_tcp_rails *out, const struct twi_tcp_interfaces *have,
		       const struct twi_tcp_address *remote)
{
	for (unsigned i = 0; i < have->count; i++) {
		const struct twi_tcp_interface *row = &have->rows[i];

		if (row->address.any.sa_family == remote->any.sa_family &&
		    !twi_tcp_loopback(&row->address) && !twi_tcp_link_local(&row->address))
			add_rail(out, row, remote);
	}
}

void twi_tcp_rails_choose(const char *knob, const struct twi_tcp_interfaces *have,
			  const struct twi_tcp_address *dialed,
			  const struct twi_tcp_advertised *advertised, struct twi_tcp_rails *out)
{
	/* Traffic within the host uses no interface that the knob could name. */
	bool free_choice = knob[0] == '\0' || twi_tcp_loopback(dialed);

	out->count = 0;
	if (free_choice)
		add_rail(out, NULL, dialed);
	add_direct(out, have, dialed, free_choice ? 1 : 0);
	if (out->count == 0)
		add_routed(out, have, dialed);
	for (unsigned i = 0; i < advertised->count; i++) {
		if (!twi_tcp_same_host(&advertised->rows[i], dialed))
			add_direct(out, have, &advertised->rows[i], 0);
	}
	if (out->count == 0) /* the knob leaves none: the connect reports the error */
		add_rail(out, NULL, dialed);
}

static bool goes_to(const struct twi_tcp_rails *rails, unsigned count,
		    const struct twi_tcp_address *remote)
{
	for (unsigned i = 0; i < count; i++) {
		if (twi_tcp_same_host(&rails->rows[i].remote, remote))
			return true;
	}
	return false;
}

void twi_tcp_rails_bind(struct twi_tcp_rails *rails, const struct twi_tcp_address *from)
{
	const struct twi_tcp_address *dialed = &rails->rows[0].remote;
	unsigned kept = 0;

	if (twi_tcp_wildcard(from) || from->any.sa_family != dialed->any.sa_family ||
	    twi_tcp_loopback(from) != twi_tcp_loopback(dialed))
		return;
	for (unsigned i = 0; i < rails->count; i++) {
		struct twi_tcp_rail rail = rails->rows[i];

		if (i > 0 && (rail.local.bytes == 0 || !twi_tcp_same_host(&rail.local, from) ||
			      goes_to(rails, kept, &rail.remote)))
			continue;
		rail.local = *from;
		twi_tcp_set_port(&rail.local, 0);
		rails->rows[kept++] = rail;
	}
	rails->count = kept;
}

void twi_tcp_tell(const struct twi_tcp_interfaces *have, const struct twi_tcp_address *listening,
		  const struct twi_tcp_address *local, struct twi_tcp_advertised *out)
{
	uint16_t port = twi_tcp_port(listening);

	out->count = 0;
	if (!twi_tcp_wildcard(listening)) {
		/* An address that is valid only on this host is sent only there. */
		if (twi_tcp_loopback(listening) == twi_tcp_loopback(local) &&
		    !twi_tcp_link_local(listening))
			out->rows[out->count++] = *listening;
		return;
	}
	if (!twi_tcp_link_local(local)) {
		out->rows[0] = *local;
		twi_tcp_set_port(&out->rows[0], port);
		out->count = 1;
	}
	if (twi_tcp_loopback(local))
		return;
	for (unsigned i = 0; i < have->count && out->count < TWI_TCP_ADVERTISED_MAX; i++) {
		const struct twi_tcp_address *at = &have->rows[i].address;

		if (twi_tcp_loopback(at) || twi_tcp_link_local(at) ||
		    twi_tcp_same_host(at, local) ||
		    (listening->any.sa_family == AF_INET && at->any.sa_family != AF_INET))
			continue;
		out->rows[out->count] = *at;
		if (at->any.sa_family == AF_INET6)
			out->rows[out->count].in6.sin6_scope_id = 0;
		twi_tcp_set_port(&out->rows[out->count++], port);
	}
}
