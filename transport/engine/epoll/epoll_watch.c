/* epoll_watch.c - watches by descriptor, and their events in the set. See epoll_watch.h. */
#include "transport/engine/epoll/epoll_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include <internal/base.h>

#define WATCHES_FIRST 64u

static uint32_t wanted_events(const struct twi_epoll_watch *watch)
{
	uint32_t events = 0;

	if (twi_epoll_awaits(watch, TWI_EPOLL_IN) || twi_epoll_awaits(watch, TWI_EPOLL_RECEIVE))
		events |= EPOLLIN;
	if (twi_epoll_awaits(watch, TWI_EPOLL_OUT))
		events |= EPOLLOUT;
	if (twi_epoll_awaits(watch, TWI_EPOLL_NOTICES))
		events |= EPOLLERR;
	return events;
}

/*
 * Makes the set look for `events`. A descriptor without any leaves it: errors would still be
 * reported.
 */
static int list_watch(struct twi_epoll_watches *watches, int fd, struct twi_epoll_watch *watch,
		      uint32_t events)
{
	struct epoll_event event = {
		.events = events,
		.data.u64 = (uint64_t)watch->serial << 32 | (uint32_t)fd,
	};
	int operation = events == 0          ? EPOLL_CTL_DEL
			: watch->listed != 0 ? EPOLL_CTL_MOD
					     : EPOLL_CTL_ADD;

	if (events == watch->listed)
		return 0;
	watches->system_calls++;
	watch->listed = events;
	return epoll_ctl(watches->epoll_fd, operation, fd, &event) == 0 ? 0 : errno;
}

/* Extends the table up to the descriptor. NULL: no memory. */
static struct twi_epoll_watch *row_of(struct twi_epoll_watches *watches, int fd)
{
	uint32_t count = twi_max(watches->count, WATCHES_FIRST);
	struct twi_epoll_watch *rows;

	if ((uint32_t)fd < watches->count)
		return &watches->rows[fd];
	while (count <= (uint32_t)fd)
		count *= 2;
	rows = realloc(watches->rows, count * sizeof(rows[0]));
	if (rows == NULL)
		return NULL;
	for (uint32_t i = watches->count; i < count; i++)
		rows[i] = (struct twi_epoll_watch){ 0 };
	watches->rows = rows;
	watches->count = count;
	return &rows[fd];
}

int twi_epoll_watch(struct twi_epoll_watches *watches, int fd, enum twi_epoll_kind kind,
		    uint64_t user_data)
{
	struct twi_epoll_watch *watch = row_of(watches, fd);
	int err;

	if (watch == NULL)
		return ENOMEM;
	if (watch->listed == 0)
		watch->serial = ++watches->serials;
	watch->armed |= (uint8_t)(1u << kind);
	watch->user_data[kind] = user_data;
	err = list_watch(watches, fd, watch, wanted_events(watch) | watch->listed);
	if (err != 0) {
		(void)epoll_ctl(watches->epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* if it is listed */
		*watch = (struct twi_epoll_watch){ 0 };
	}
	return err;
}

struct twi_epoll_watch *twi_epoll_of_fd(struct twi_epoll_watches *watches, int fd)
{
	return (uint32_t)fd < watches->count ? &watches->rows[fd] : NULL;
}

struct twi_epoll_watch *twi_epoll_find(struct twi_epoll_watches *watches, uint64_t key)
{
	struct twi_epoll_watch *watch = twi_epoll_of_fd(watches, twi_epoll_fd_of(key));

	return watch != NULL && watch->listed != 0 && watch->serial == (uint32_t)(key >> 32) ? watch
											     : NULL;
}

void twi_epoll_unlist(struct twi_epoll_watches *watches, uint64_t key)
{
	struct twi_epoll_watch *watch = twi_epoll_find(watches, key);

	if (watch != NULL)
		list_watch(watches, twi_epoll_fd_of(key), watch, wanted_events(watch));
}

void twi_epoll_unwatch(struct twi_epoll_watches *watches, int fd)
{
	struct twi_epoll_watch *watch = twi_epoll_of_fd(watches, fd);

	if (watch == NULL)
		return;
	/* A child of a fork may have the file, too: the set would keep it after the close. */
	list_watch(watches, fd, watch, 0);
	*watch = (struct twi_epoll_watch){ 0 };
}
