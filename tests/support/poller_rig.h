/*
 * poller_rig.h - one ring of a poller without a runtime, and a lane that notes what it is told.
 */
#ifndef TWT_POLLER_RIG_H
#define TWT_POLLER_RIG_H

#include "twt.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "diag/base/clock.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/poller.h"
#include "transport/lanes/lane.h"

#define MS       1000000ull
#define DONE_MAX 64

static struct twi_engine engine;
static struct twi_lane lane;
static struct twi_ring *ring;

/* What the lane was told, in its order. */
static struct {
	uint64_t rest;
	int res;
	uint32_t flags;
	uint8_t first; /* byte of the data */
} done[DONE_MAX];
static unsigned count;

static inline void completed(struct twi_lane *base, uint64_t user_data, int res, uint32_t flags,
			     const void *data)
{
	assert_ptr_equal(base, &lane);
	assert_true(count < DONE_MAX);
	done[count].rest = user_data & 0xffffffffffffffull;
	done[count].res = res;
	done[count].flags = flags;
	done[count++].first = data != NULL && res > 0 ? *(const uint8_t *)data : 0;
}

static const struct twi_lane_ops ops = { .id = TWI_LANE_TCP, .completed = completed };

static inline uint64_t tag(uint64_t rest)
{
	return twi_ring_tag(TWI_LANE_TCP, rest);
}

static inline void open_ring(const struct twi_poller *poller)
{
	memset(&engine, 0, sizeof(engine));
	count = 0;
	assert_int_equal(twi_diag_create(&engine.diag), TOW_OK);
	lane = (struct twi_lane){ .ops = &ops, .engine = &engine };
	engine.lanes[TWI_LANE_TCP] = &lane;
	if (poller->create(&engine, &ring) != TOW_OK) {
		printf("%s is not to be had here: %s\n", poller->name, tow_error_message());
		twi_diag_destroy(engine.diag);
		skip();
	}
	ring->index = 0;
	engine.rings[0] = engine.ring = ring;
	twi_list_init(&engine.callbacks);
	twi_engine_enter(&engine); /* for the whole test: rings are moved by its holder */
}

static inline void close_ring(void)
{
	engine.rings[0] = engine.ring = NULL;
	twi_ring_destroy(ring);
	twi_engine_leave(&engine);
	twi_pollers_fini(&engine);
	twi_diag_destroy(engine.diag);
}

/* Looks until so many completions are there, or for a second. */
static inline void look_for(unsigned wanted)
{
	for (int i = 0; i < 1000 && count < wanted; i++) {
		if (twi_ring_poll(ring) == 0)
			twi_ring_sleep(ring, MS);
	}
	assert_int_equal(count, wanted);
}

/* Nothing is told though the ring looks for a while. */
static inline void look_in_vain(unsigned have)
{
	for (int i = 0; i < 20; i++)
		twi_ring_poll(ring);
	assert_int_equal(count, have);
}

/* Does a sleep of 30 ms end before its time? */
static inline bool sleep_is_cut_short(void)
{
	uint64_t start = twi_now_ns();

	twi_ring_sleep(ring, 30 * MS);
	return twi_now_ns() - start < 25 * MS;
}

static inline void make_pair(int pair[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair),
			 0);
}

static inline void close_fd(int fd)
{
	shutdown(fd, SHUT_RDWR); /* as lanes do: a poll that sleeps elsewhere holds the file */
	twi_ring_forget(&engine, fd);
	close(fd);
}

static inline void put(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

#endif
