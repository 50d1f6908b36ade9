/*
 * ofi_pair.h - two processes joined by the ofi lane, for each provider of libfabric's that there
 * is. Builds upon pair.h; ofi_run.h runs scenarios of them.
 */
#ifndef TWT_OFI_PAIR_H
#define TWT_OFI_PAIR_H

#include "pair.h"

#include <signal.h>
#include <sys/prctl.h>

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/ofi/ofi.h"

#ifdef TWI_HAVE_OFI

#define POOL    (64 << 20)
#define MISSING 77

static uint64_t seed;

static const char *provider;
static bool slow; /* sockets and udp: the same with less of it */

/* Which ways the scenario leaves. */
static struct {
	bool read, tagged;
	int prefers_tagged; /* -1: as it is */
} ways = { true, true, -1 };

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TWT_SECOND + (uint64_t)ts.tv_nsec;
}

static inline void restrict_ways(struct tow_runtime *runtime)
{
	struct twi_lane *lane = twi_runtime_engine(runtime)->lanes[TWI_LANE_OFI];
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &twi_ofi_lane_of(lane)->ports) {
		struct twi_ofi_port *port = twi_container_of(pos, struct twi_ofi_port, link);

		port->reads = port->reads && ways.read;
		port->tagged = port->tagged && ways.tagged;
		if (ways.prefers_tagged >= 0)
			port->prefers_tagged = ways.prefers_tagged != 0;
	}
}

/* Ends a process where leaks are looked for, but not those of libfabric's net provider: it loses an
 * fi_info for each endpoint, and for each connection that it tries in vain. */
static inline void leave(int status)
{
	if (strcmp(provider, "net") == 0)
		_exit(status);
	exit(status);
}

/* The parent's runtime and endpoint; a provider that is not there ends the process. */
static inline void open_listener(struct twt_side *side)
{
	char address[TOW_ADDRESS_MAX];
	int status;

	snprintf(address, sizeof(address), "ofi://%s", provider);
	side->runtime = twt_runtime(POOL);
	status = tow_endpoint_open(side->runtime, address, &side->endpoint);
	if (status == TOW_ENOTSUP) {
		fprintf(stderr, "skipped: %s\n", tow_error_message());
		if (side->child > 0) {
			kill(side->child, SIGKILL);
			waitpid(side->child, NULL, 0);
		}
		_exit(MISSING);
	}
	TWT_OK(status);
	restrict_ways(side->runtime);
}

/* As twt_pair, with the provider's address and the scenario's ways. */
static inline void open_pair(struct twt_side *side, int (*child)(struct twt_side *side, void *arg))
{
	char address[TOW_ADDRESS_MAX], where[TOW_ADDRESS_MAX];
	int fds[2];

	snprintf(address, sizeof(address), "ofi://%s", provider);
	if (pipe(fds) != 0 || (side->child = fork()) < 0)
		abort();
	if (side->child == 0) {
		int status;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[1]);
		if (read(fds[0], where, sizeof(where)) != (ssize_t)sizeof(where))
			_exit(99);
		close(fds[0]);
		side->runtime = twt_runtime(POOL);
		TWT_OK(tow_endpoint_open(side->runtime, address, &side->endpoint));
		restrict_ways(side->runtime);
		side->peer = twt_connect(side->endpoint, where);
		status = child(side, NULL);
		TWT_OK(tow_runtime_close(side->runtime));
		leave(status);
	}
	close(fds[0]);
	open_listener(side);
	TWT_OK(tow_endpoint_address(side->endpoint, where, sizeof(where)));
	if (write(fds[1], where, sizeof(where)) != (ssize_t)sizeof(where))
		abort();
	close(fds[1]);
	side->peer = twt_accept(side->endpoint);
}

static inline void close_pair(struct twt_side *side)
{
	int how = twt_pair_end(side);

	assert_true(WIFEXITED(how));
	assert_int_equal(WEXITSTATUS(how), 0);
}

static inline int await(struct tow_op *op, struct tow_result *out)
{
	return twt_finish(op, out);
}

static inline void send_wait(struct twt_side *side, const void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op *op;

	TWT_OK(tow_send_start(side->peer, data, bytes, tag, NULL, &op));
	TWT_OK(await(op, NULL));
}

static inline uint64_t recv_wait(struct twt_side *side, void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_result result;
	struct tow_op *op;

	TWT_OK(tow_recv_start(side->peer, data, bytes, tag, NULL, &op));
	TWT_OK(await(op, &result));
	return result.bytes;
}

/* Both sides go on when both are here. */
static inline void meet(struct twt_side *side)
{
	char word = 0;

	if (side->child != 0) {
		send_wait(side, &word, 1, 1ull << 60);
		recv_wait(side, &word, 1, 1ull << 60);
	} else {
		recv_wait(side, &word, 1, 1ull << 60);
		send_wait(side, &word, 1, 1ull << 60);
	}
}

#endif
#endif
