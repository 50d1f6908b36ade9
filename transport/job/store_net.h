/*
 * store_net.h - the sockets of the store: listening, and dialling with a deadline.
 *
 * A host name may not be known yet; these calls retry. They serve the control path only: they
 * block, until a deadline.
 */
#ifndef TWI_STORE_NET_H
#define TWI_STORE_NET_H

#include <stdbool.h>
#include <stdint.h>

#include <towline/endpoint.h>

/*
 * A deadline of CLOCK_MONOTONIC. cancel_fd becomes readable when the wait is to end with
 * TOW_ECANCELED; -1: none. `engine`, if not NULL, is driven meanwhile where the library has no
 * thread of its own (knob background): others may need what this process has left to do, before
 * they come to the store themselves.
 */
struct twi_until {
	uint64_t deadline_ns;
	int cancel_fd;
	struct twi_engine *engine;
};

uint64_t twi_net_now(void);

/* Returns the milliseconds until a time, for poll; at least 0. */
int twi_net_left_ms(uint64_t until_ns);

/* Sleeps. TOW_OK; TOW_EDEADLINE: the deadline had passed before; TOW_ECANCELED. */
int twi_net_pause(const struct twi_until *until, uint64_t pause_ns);

/*
 * Waits until `fd` is ready for `events` (of poll), or until_ns has come, which is not later than
 * the deadline. TOW_OK; TOW_AGAIN: that time came first; TOW_ECANCELED; TOW_ESYSTEM.
 */
int twi_net_wait(int fd, short events, uint64_t until_ns, const struct twi_until *until);

/*
 * Makes a socket that listens at an address:
 *
 *	"HOST:PORT"        as it says
 *	""                 all interfaces, any port
 *	TWI_NET_LOOPBACK   loopback only, any port; IPv6 where there is no IPv4
 *
 * A host name that does not resolve is tried again with back-off, as names come late under
 * Kubernetes. A host of another machine (a service's address) means all interfaces; then *any_out
 * is true. A port in use is tried for some seconds, as its previous owner may be ending. TOW_OK;
 * TOW_EINVAL; TOW_EBUSY; TOW_EDEADLINE: the name did not resolve; TOW_EPERM; TOW_ENOMEM;
 * TOW_ECANCELED; TOW_ESYSTEM.
 */
#define TWI_NET_LOOPBACK "loopback"
int twi_net_listen(const char *address, const struct twi_until *until, int *fd_out, bool *any_out);

/*
 * Connects to the first of "HOST:PORT,HOST:PORT" that answers, and tries each once. TOW_OK;
 * TOW_EREFUSED with the reason as the thread's error: try again; TOW_EINVAL; TOW_EDEADLINE;
 * TOW_ECANCELED; TOW_ESYSTEM.
 */
int twi_net_dial(const char *addresses, const struct twi_until *until, int *fd_out);

/*
 * Returns the numeric host and the port of this side of a socket. False: the system does not say.
 */
bool twi_net_local(int fd, char host_out[TOW_ADDRESS_MAX], uint16_t *port_out);

/*
 * Returns the other side's host and port, for messages. False: the system does not say, and `out`
 * is unchanged.
 */
bool twi_net_remote(int fd, char out[TOW_ADDRESS_MAX]);

/*
 * Writes the addresses by which processes of this machine reach it: loopback of IPv4 and of IPv6,
 * as a machine may have only one of them. False: `bytes` is too little.
 */
bool twi_net_own(uint16_t port, char *out, size_t bytes);

/* Tests whether a numeric host is a loopback address. */
bool twi_net_is_loopback(const char *host);

/*
 * Writes the addresses by which other machines may reach this one, each with the port, separated by
 * commas. They are those of `interfaces` (the knob) that are up, or loopback where there is nothing
 * else. False: there are none.
 */
bool twi_net_addresses(const char *interfaces, uint16_t port, char *out, size_t bytes);

#endif
