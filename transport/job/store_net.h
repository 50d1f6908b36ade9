/*
 * store_net.h - the sockets under the store: names that may not be there yet, listening, dialling
 * with a deadline. For the control path: these calls block, until a deadline.
 */
#ifndef TWI_STORE_NET_H
#define TWI_STORE_NET_H

#include <stdbool.h>
#include <stdint.h>

#include <towline/endpoint.h>

/*
 * Times are of CLOCK_MONOTONIC. cancel_fd: readable when the wait is to end with TOW_ECANCELED; -1:
 * none.
 */
struct twi_until {
	uint64_t deadline_ns;
	int cancel_fd;
};

uint64_t twi_net_now(void);

/* Milliseconds for poll until a time, at least 0. */
int twi_net_left_ms(uint64_t until_ns);

/* Sleeps. TOW_OK; TOW_EDEADLINE: not a moment is left; TOW_ECANCELED. */
int twi_net_pause(const struct twi_until *until, uint64_t pause_ns);

/*
 * Waits until `fd` is ready for `events` (of poll), or until_ns has come. TOW_OK; TOW_AGAIN: that
 * time came first; TOW_ECANCELED.
 */
int twi_net_wait(int fd, short events, uint64_t until_ns, int cancel_fd);

/*
 * A socket that listens at "HOST:PORT"; "": on all interfaces, any port; TWI_NET_LOOPBACK: on
 * loopback alone, that of IPv6 where there is no other, any port. A host that does not
 * resolve is asked again with back-off, as under Kubernetes names come late; one that is not this
 * machine's (a service's address) means all interfaces, then *any_out is true. A port in use is
 * tried for some seconds, while who had it before may be ending. TOW_OK; TOW_EINVAL; TOW_EBUSY;
 * TOW_EDEADLINE: the name did not resolve; TOW_ECANCELED; TOW_ESYSTEM.
 */
#define TWI_NET_LOOPBACK "loopback"
int twi_net_listen(const char *address, const struct twi_until *until, int *fd_out, bool *any_out);

/*
 * A connection to the first of "HOST:PORT,HOST:PORT" that answers; once. TOW_OK; TOW_EREFUSED with
 * why as the thread's error: try again; TOW_EINVAL; TOW_EDEADLINE; TOW_ECANCELED; TOW_ESYSTEM.
 */
int twi_net_dial(const char *addresses, const struct twi_until *until, int *fd_out);

/* The numeric host of this side of a socket, and its port. False: the system does not say. */
bool twi_net_local(int fd, char host_out[TOW_ADDRESS_MAX], uint16_t *port_out);

/* The other side's host and port, for messages; left as it is when the system does not say. */
bool twi_net_remote(int fd, char out[TOW_ADDRESS_MAX]);

/*
 * This machine's own addresses for whoever is on it: loopback of IPv4, and of IPv6, as a machine
 * may have only one of them. False: `bytes` is too little.
 */
bool twi_net_own(uint16_t port, char *out, size_t bytes);

/* Is a numeric host one of loopback's? */
bool twi_net_is_loopback(const char *host);

/*
 * Addresses under which others may reach this machine, with the port, and commas between them:
 * those of `interfaces` (the knob) that are up; loopback where there is nothing else. False: none.
 */
bool twi_net_addresses(const char *interfaces, uint16_t port, char *out, size_t bytes);

#endif
