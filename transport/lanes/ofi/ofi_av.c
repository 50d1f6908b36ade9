/*
 * ofi_av.c - the addresses of peers in libfabric's address vector. Peers at one address share its
 * entry, as some providers have one for both. See ofi.h.
 *
 * libfabric's shm forgets what is on its way when an address is removed. The next connection to
 * that address then loses packets, and hangs (1.17: of 100 connections in a ring of three ranks,
 * each closed in order, one hung in five runs of six). So the entry of a peer that was closed in
 * order stays for one that comes back. The oldest entries make room for new ones.
 */
#include "transport/lanes/ofi/ofi_calls.h"

#ifdef TWI_HAVE_OFI

#include <string.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"

static bool same_name(const struct twi_ofi_name *a, const struct twi_ofi_name *b)
{
	return a->count == b->count && memcmp(a->bytes, b->bytes, a->count) == 0;
}

static const struct twi_ofi_peer *find_same_address(const struct twi_ofi_peer *peer)
{
	const struct twi_ofi_port *port = peer->port;

	for (uint32_t i = 0; i < port->peer_room; i++) {
		const struct twi_ofi_peer *other = port->peers[i];

		if (other != NULL && other != peer && same_name(&other->name, &peer->name))
			return other;
	}
	return NULL;
}

/* Takes entry i out of those that are kept. */
static fi_addr_t take_kept(struct twi_ofi_port *port, uint32_t i)
{
	fi_addr_t address = port->kept[i].address;

	for (port->kept_count--; i < port->kept_count; i++)
		port->kept[i] = port->kept[i + 1];
	return address;
}

static bool find_kept(struct twi_ofi_peer *peer)
{
	struct twi_ofi_port *port = peer->port;

	for (uint32_t i = 0; i < port->kept_count; i++) {
		if (same_name(&port->kept[i].name, &peer->name)) {
			peer->address = take_kept(port, i);
			return true;
		}
	}
	return false;
}

static void drop_oldest(struct twi_ofi_port *port)
{
	fi_addr_t address = take_kept(port, 0);

	fi_av_remove(port->av, &address, 1, 0);
}

int twi_ofi_av_add(struct twi_ofi_peer *peer)
{
	TWI_UNCANCELED;
	struct twi_ofi_port *port = peer->port;
	const struct twi_ofi_peer *other = find_same_address(peer);

	if (other != NULL) {
		peer->address = other->address;
		return TOW_OK;
	}
	if (find_kept(peer))
		return TOW_OK;
	for (;;) {
		int rc = fi_av_insert(port->av, peer->name.bytes, 1, &peer->address, 0, NULL);

		if (rc == 1 && peer->address != FI_ADDR_NOTAVAIL)
			return TOW_OK;
		if (port->kept_count == 0)
			return twi_error(TOW_EREFUSED,
					 "libfabric: %s does not take the address of %s",
					 port->provider, peer->base.address);
		drop_oldest(port); /* shm has room for 256 */
	}
}

void twi_ofi_av_remove(struct twi_ofi_peer *peer, bool in_order)
{
	TWI_UNCANCELED;
	struct twi_ofi_port *port = peer->port;

	if (port->dead || find_same_address(peer) != NULL)
		return;
	if (!in_order || !twi_ofi_keeps_addresses(port->provider)) {
		fi_av_remove(port->av, &peer->address, 1, 0);
		return;
	}
	if (port->kept_count == TWI_OFI_KEPT)
		drop_oldest(port);
	port->kept[port->kept_count++] =
		(struct twi_ofi_kept){ .name = peer->name, .address = peer->address };
}

#endif
