/*
 * auto_host.h - which host this is, and its addresses in the network: what a tow:// address says of
 * it.
 */
#ifndef TWI_AUTO_HOST_H
#define TWI_AUTO_HOST_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include <towline/endpoint.h>

#define TWI_AUTO_HOSTS_MAX 8

/*
 * One number for all processes of one kernel, from its boot id. Namespaces are not part of it. Two
 * containers may share the directory through which shm meets. If they do not, its connect is
 * refused at once, and the next lane has its turn. On a host that hides its boot id the number is a
 * random one.
 */
uint64_t twi_auto_host_id(void);

struct twi_auto_hosts {
	unsigned count4, count6;
	struct in_addr in4[TWI_AUTO_HOSTS_MAX];
	struct in6_addr in6[TWI_AUTO_HOSTS_MAX];
};

/*
 * The addresses of the interfaces that are up and that the knob `interfaces` allows. Loopback
 * addresses count only when there is no other. Link-local addresses do not count: they mean
 * something else on each host.
 */
void twi_auto_hosts_read(const char *knob, struct twi_auto_hosts *out);

/* Does the knob allow the interface? */
bool twi_auto_interface_allowed(const char *knob, const char *name);

/*
 * Turns the name of a host into its number; "", 0.0.0.0 and :: become "". TOW_OK, TOW_EINVAL,
 * TOW_ENOMEM, TOW_ESYSTEM.
 */
int twi_auto_resolve_host(const char *host, char out[TOW_ADDRESS_MAX]);

#endif
