/*
 * epoll_watch.h - what one ring awaits of each descriptor, and the epoll set that looks for it.
 *
 * The set looks for events level-triggered. An event that has fired stays in the set, as it is
 * mostly armed again before anything else comes. So a stream whose bytes are awaited costs no
 * epoll_ctl from one arrival to the next. A descriptor may be ready while no request awaits that.
 * The first event that shows it takes the descriptor out (twi_epoll_unlist).
 *
 * The number of a descriptor is given to another file as soon as it is closed. Code that closes one
 * calls twi_epoll_unwatch before. An event carries the serial number of the watch that asked for
 * it.
 */
#ifndef TWI_EPOLL_WATCH_H
#define TWI_EPOLL_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum twi_epoll_kind {
	TWI_EPOLL_IN,      /* one completion when it can be read */
	TWI_EPOLL_OUT,     /* one when it can be written */
	TWI_EPOLL_RECEIVE, /* each piece that comes */
	TWI_EPOLL_NOTICES, /* notices of zero-copy sends, which come as errors */
	TWI_EPOLL_KINDS
};

struct twi_epoll_watch {
	uint64_t user_data[TWI_EPOLL_KINDS];
	uint32_t serial; /* of the file that has the number now */
	uint32_t listed; /* events that the set looks for; 0: it is not in the set */
	uint8_t armed;   /* bit k: kind k */
};

struct twi_epoll_watches {
	int epoll_fd;
	uint32_t serials;
	uint32_t count;
	struct twi_epoll_watch *rows; /* by descriptor */
	uint64_t system_calls;        /* since they were last counted */
};

/* Awaits one more kind of the descriptor. Returns 0, or an errno: then no kind of it is awaited. */
int twi_epoll_watch(struct twi_epoll_watches *watches, int fd, enum twi_epoll_kind kind,
		    uint64_t user_data);

/* The watch that an event belongs to; NULL: it has been forgotten since. */
struct twi_epoll_watch *twi_epoll_find(struct twi_epoll_watches *watches, uint64_t key);

/* The watch of a descriptor, NULL when there is none. */
struct twi_epoll_watch *twi_epoll_of_fd(struct twi_epoll_watches *watches, int fd);

static inline int twi_epoll_fd_of(uint64_t key)
{
	return (int)(uint32_t)key;
}

static inline bool twi_epoll_awaits(const struct twi_epoll_watch *watch, enum twi_epoll_kind kind)
{
	return watch != NULL && (watch->armed & 1u << kind) != 0;
}

static inline void twi_epoll_disarm(struct twi_epoll_watch *watch, enum twi_epoll_kind kind)
{
	watch->armed = (uint8_t)(watch->armed & ~(1u << kind));
}

/* No request awaited an event: makes the set look only for what is awaited. */
void twi_epoll_unlist(struct twi_epoll_watches *watches, uint64_t key);

/* The descriptor is about to be closed: forgets it. */
void twi_epoll_unwatch(struct twi_epoll_watches *watches, int fd);

#endif
