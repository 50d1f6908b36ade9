/*
 * tcp_rails.h - the ways to a peer: a rail is a local address (or none: the kernel chooses) and an
 * address of the peer.
 *
 *	rail 0:  as the user asked, the kernel choosing the interface (where the knob allows all)
 *	others:  every further pair whose two ends lie in one subnet
 *
 * A pair that needs a router is not guessed at: which of several default routes leads there is the
 * kernel's to know.
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

/* Addresses of this host that may be used: one row each. */
struct twi_tcp_interfaces {
	unsigned count;
	struct twi_tcp_interface rows[TWI_INTERFACES_MAX];
};

struct twi_tcp_rail {
	struct twi_tcp_address local; /* bytes 0: the kernel's choice */
	struct twi_tcp_address remote;
	char name[IF_NAMESIZE]; /* of the interface, "": the kernel's choice */
};

struct twi_tcp_rails {
	unsigned count;
	struct twi_tcp_rail rows[TWI_RAILS_MAX];
};

/* TOW_OK; TOW_EINVAL, naming what is no interface of this host. */
int twi_tcp_interfaces_check(const char *knob);

/* What the host has now. Never fails: with nothing read the kernel's choice is left. */
void twi_tcp_interfaces_read(const char *knob, struct twi_tcp_interfaces *out);

/* The name of the interface that has the address; "": none of these. */
const char *twi_tcp_interface_of(const struct twi_tcp_interfaces *have,
				 const struct twi_tcp_address *at);

/* The rails to a peer that was dialed at `dialed` and has told `told`; at least one. Pure. */
void twi_tcp_rails_choose(const char *knob, const struct twi_tcp_interfaces *have,
			  const struct twi_tcp_address *dialed, const struct twi_tcp_told *told,
			  struct twi_tcp_rails *out);

/*
 * All rails begin at `from`, where the endpoint is bound to one address: those of other interfaces
 * go, the first one stays. An address of another family, or of the host alone where the other is
 * not (or the other way round), is not one to come from: then nothing changes. Pure.
 */
void twi_tcp_rails_bind(struct twi_tcp_rails *rails, const struct twi_tcp_address *from);

/*
 * What the other end of a connection is told of an endpoint: where it listens, and when that is a
 * wildcard address, at which addresses. `local` is this end of the connection. Pure.
 */
void twi_tcp_tell(const struct twi_tcp_interfaces *have, const struct twi_tcp_address *listening,
		  const struct twi_tcp_address *local, struct twi_tcp_told *out);

#endif
