/* ofi_pair.c - two processes joined by the ofi lane. */
#include "ofi_pair.h"

#include <sys/prctl.h>

#ifdef TWI_HAVE_OFI

struct twt_ofi twt_ofi = {
	.read = true, .tagged = true, .prefers_tagged = -1, .pool_bytes = 8 << 20
};

uint64_t twt_ofi_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * TWT_SECOND + (uint64_t)ts.tv_nsec;
}

void twt_ofi_restrict_ways(struct tow_runtime *runtime)
{
	struct twi_lane *lane = twi_runtime_engine(runtime)->lanes[TWI_LANE_OFI];
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &twi_ofi_lane_of(lane)->ports) {
		struct twi_ofi_port *port = twi_container_of(pos, struct twi_ofi_port, link);

		port->reads = port->reads && twt_ofi.read;
		port->tagged = port->tagged && twt_ofi.tagged;
		if (twt_ofi.prefers_tagged >= 0)
			port->prefers_tagged = twt_ofi.prefers_tagged != 0;
	}
}

void twt_ofi_leave(int status)
{
	if (strcmp(twt_ofi.provider, "net") == 0)
		_exit(status);
	exit(status);
}

void twt_ofi_open_listener(struct twt_side *side)
{
	char address[TOW_ADDRESS_MAX];
	int status;

	snprintf(address, sizeof(address), "ofi://%s", twt_ofi.provider);
	side->runtime = twt_runtime(twt_ofi.pool_bytes);
	status = tow_endpoint_open(side->runtime, address, &side->endpoint);
	if (status == TOW_ENOTSUP) {
		fprintf(stderr, "skipped: %s\n", tow_error_message());
		if (side->child > 0) {
			kill(side->child, SIGKILL);
			waitpid(side->child, NULL, 0);
		}
		_exit(TWT_OFI_MISSING);
	}
	TWT_OK(status);
	twt_ofi_restrict_ways(side->runtime);
}

void twt_ofi_open_pair(struct twt_side *side, int (*child)(struct twt_side *side, void *arg))
{
	char address[TOW_ADDRESS_MAX], where[TOW_ADDRESS_MAX];
	int fds[2];

	snprintf(address, sizeof(address), "ofi://%s", twt_ofi.provider);
	if (pipe(fds) != 0 || (side->child = fork()) < 0)
		abort();
	if (side->child == 0) {
		int status;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[1]);
		if (read(fds[0], where, sizeof(where)) != (ssize_t)sizeof(where))
			_exit(99);
		close(fds[0]);
		side->runtime = twt_runtime(twt_ofi.pool_bytes);
		TWT_OK(tow_endpoint_open(side->runtime, address, &side->endpoint));
		twt_ofi_restrict_ways(side->runtime);
		side->peer = twt_connect(side->endpoint, where);
		status = child(side, NULL);
		TWT_OK(tow_runtime_close(side->runtime));
		twt_ofi_leave(status);
	}
	close(fds[0]);
	twt_ofi_open_listener(side);
	TWT_OK(tow_endpoint_address(side->endpoint, where, sizeof(where)));
	if (write(fds[1], where, sizeof(where)) != (ssize_t)sizeof(where))
		abort();
	close(fds[1]);
	side->peer = twt_accept(side->endpoint);
}

void twt_ofi_close_pair(struct twt_side *side)
{
	int how = twt_pair_end(side);

	assert_true(WIFEXITED(how));
	assert_int_equal(WEXITSTATUS(how), 0);
}

void twt_ofi_send_wait(struct twt_side *side, const void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_op *op;

	TWT_OK(tow_send_start(side->peer, data, bytes, tag, NULL, &op));
	TWT_OK(twt_finish(op, NULL));
}

uint64_t twt_ofi_recv_wait(struct twt_side *side, void *data, uint64_t bytes, uint64_t tag)
{
	struct tow_result result;
	struct tow_op *op;

	TWT_OK(tow_recv_start(side->peer, data, bytes, tag, NULL, &op));
	TWT_OK(twt_finish(op, &result));
	return result.bytes;
}

void twt_ofi_meet(struct twt_side *side)
{
	char word = 0;

	if (side->child != 0) {
		twt_ofi_send_wait(side, &word, 1, 1ull << 60);
		twt_ofi_recv_wait(side, &word, 1, 1ull << 60);
	} else {
		twt_ofi_recv_wait(side, &word, 1, 1ull << 60);
		twt_ofi_send_wait(side, &word, 1, 1ull << 60);
	}
}

#endif
