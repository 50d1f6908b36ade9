/*
 * tcp_rails.h - the paths to a peer. A rail is a local address (or none: the kernel chooses) and an
 * address of the peer.
 *
 *	rail 0:  as the user asked, the kernel choosing the interface (where the knob allows all)
 *	others:  every further pair whose two ends lie in one subnet
 *
 * Pairs that need a router are not guessed: only the kernel knows which of several default routes
 * leads there.
 */
#ifndef TWI_TCP_RAILS_H
#define TWI_TCP_RAILS_H

#include <net/if.h>

#include "transport/lanes/tcp/tcp_name.h"

#define TWI_RAILS_MAX      8u
#define TWI_INTERFACES_MAX 32u

struct twi_tcp_interface {
	char name[IF_NAMESIZE];
	struct twi_tcp_address address;
	unsigned prefix; /* bits of its subnet */
};

/* Addresses of this host that may be used, one row each. */
struct twi_tcp_interfaces {
	unsigned count;
	struct twi_tcp_interface rows[TWI_INTERFACES_MAX];
};

struct twi_tcp_rail {
	struct twi_tcp_address local; /* bytes 0: the kernel's choice */
	struct twi_tcp_address remote;
	char name[IF_NAMESIZE]; /* of the interface; "": the kernel's choice */
};

struct twi_tcp_rails {
	unsigned count;
	struct twi_tcp_rail rows[TWI_RAILS_MAX];
};

/* TOW_OK; TOW_EINVAL, naming the word that is no interface of this host. */
int twi_tcp_interfaces_check(const char *knob);

/* The addresses of this host now. Never fails: without rows, only the kernel's choice is left. */
void twi_tcp_interfaces_read(const char *knob, struct twi_tcp_interfaces *out);

/* The name of the interface that has the address; "": none of these. */
const char *twi_tcp_interface_of(const struct twi_tcp_interfaces *have,
				 const struct twi_tcp_address *at);

/* The rails to a peer that was dialed at `dialed` and has sent `advertised`; at least one. Pure. */
void twi_tcp_rails_choose(const char *knob, const struct twi_tcp_interfaces *have,
			  const struct twi_tcp_address *dialed,
			  const struct twi_tcp_advertised *advertised, struct twi_tcp_rails *out);

/*
 * The endpoint is bound to one address, so all rails begin at `from`. Rails of other interfaces are
 * dropped; the first one stays. Nothing changes if `from` is a wildcard or of another family, or if
 * only one of `from` and the peer is a loopback address. Pure.
 */
void twi_tcp_rails_bind(struct twi_tcp_rails *rails, const struct twi_tcp_address *from);

/*
 * The addresses of an endpoint for the other end of a connection: where it listens, or, for a
 * wildcard address, the addresses that this stands for. `local` is this end of the connection.
 * Pure.
 */
void twi_tcp_tell(const struct twi_tcp_interfaces *have, const struct twi_tcp_address *listening,
		  const struct twi_tcp_address *local, struct twi_tcp_advertised *out);

#endif
