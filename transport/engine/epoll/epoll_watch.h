/*
 * epoll_watch.h - what one ring awaits of which descriptor, and the epoll set that looks for it.
 *
 * What is armed is looked for level-triggered and stays in the set when it has fired, for it is
 * mostly armed again before anything else comes: a stream whose bytes are awaited costs no
 * epoll_ctl from one arrival to the next. A descriptor that is ready while nobody wants that is
 * taken out by the first event that shows it (twi_epoll_unlist).
 *
 * A descriptor's number is given to another file as soon as it is closed. Code that closes one
 * calls twi_epoll_unwatch before, and an event carries the serial number of the watch that it was
 * asked for by.
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
	TWI_EPOLL_NOTICES, /* of zero-copy sends: they come as errors */
	TWI_EPOLL_KINDS
};

struct twi_epoll_watch {
	uint64_t user_data[TWI_EPOLL_KINDS];
	uint32_t serial; /* of the file that has the number now */
	uint32_t listed; /* events that the set has it with; 0: it is not in the set */
	uint8_t armed;   /* bit k: kind k */
};

struct twi_epoll_watches {
	int epoll_fd;
	uint32_t serials;
	uint32_t count;
	struct twi_epoll_watch *rows; /* by descriptor */
	uint64_t system_calls;        /* since somebody has counted them */
};

/* Awaits one kind more of the descriptor. Returns 0 or an errno: nothing of it is awaited then. */
int twi_epoll_watch(struct twi_epoll_watches *watches, int fd, enum twi_epoll_kind kind,
		    uint64_t user_data);

/* The watch that an event is of; NULL: it has been forgotten since. */
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

/* The set looks for what is awaited and for nothing else: the event was nobody's. */
void twi_epoll_unlist(struct twi_epoll_watches *watches, uint64_t key);

/* The descriptor is about to be closed. */
void twi_epoll_unwatch(struct twi_epoll_watches *watches, int fd);

#endif
