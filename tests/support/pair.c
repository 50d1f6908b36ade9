/* pair.c - two processes with a runtime each, as pair.h says. */
#include "pair.h"

struct tow_runtime *twt_runtime(int64_t pool_bytes)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;

	options.premap_memory_bytes = pool_bytes;
	options.stats = 0;
	options.max_ops = 4096;
	TWT_OK(tow_runtime_open(&options, &runtime));
	return runtime;
}

int twt_finish(struct tow_op *op, struct tow_result *out)
{
	int status = tow_op_wait(op, 20 * TWT_SECOND);

	if (status == TOW_ETIMEDOUT) {
		fprintf(stderr, "an operation did not end within 20 s\n");
		abort();
	}
	if (out != NULL) {
		out->size = sizeof(*out);
		TWT_OK(tow_op_result(op, out));
	}
	TWT_OK(tow_op_release(op));
	return status;
}

struct tow_peer *twt_accept(struct tow_endpoint *endpoint)
{
	struct tow_result result;
	struct tow_op *op;

	TWT_OK(tow_accept_start(endpoint, NULL, &op));
	TWT_OK(twt_finish(op, &result));
	return result.peer;
}

struct tow_peer *twt_connect(struct tow_endpoint *endpoint, const char *address)
{
	struct tow_result result;
	struct tow_op *op;

	TWT_OK(tow_connect_start(endpoint, address, NULL, &op));
	TWT_OK(twt_finish(op, &result));
	return result.peer;
}

void twt_pair(struct twt_side *side, const char *address, int64_t pool_bytes,
	      int (*child)(struct twt_side *side, void *arg), void *arg)
{
	char where[TOW_ADDRESS_MAX];
	int fds[2];

	if (pipe(fds) != 0)
		abort();
	fflush(NULL);
	side->child = fork();
	if (side->child < 0)
		abort();
	if (side->child == 0) {
		int status;

		close(fds[1]);
		alarm(120);
		if (read(fds[0], where, sizeof(where)) != (ssize_t)sizeof(where))
			_exit(99);
		close(fds[0]);
		side->runtime = twt_runtime(pool_bytes);
		TWT_OK(tow_endpoint_open(side->runtime, address, &side->endpoint));
		side->peer = twt_connect(side->endpoint, where);
		status = child(side, arg);
		TWT_OK(tow_runtime_close(side->runtime));
		exit(status); /* not _exit: leaks are looked for at exit */
	}
	close(fds[0]);
	side->runtime = twt_runtime(pool_bytes);
	TWT_OK(tow_endpoint_open(side->runtime, address, &side->endpoint));
	TWT_OK(tow_endpoint_address(side->endpoint, where, sizeof(where)));
	if (write(fds[1], where, sizeof(where)) != (ssize_t)sizeof(where))
		abort();
	close(fds[1]);
	side->peer = twt_accept(side->endpoint);
}

int twt_pair_end(struct twt_side *side)
{
	int how = -1;

	TWT_OK(tow_runtime_close(side->runtime));
	for (int i = 0; i < 2000; i++) {
		if (waitpid(side->child, &how, WNOHANG) == side->child)
			return how;
		usleep(10000);
	}
	kill(side->child, SIGKILL);
	waitpid(side->child, &how, 0);
	return -1;
}

void twt_fill(void *data, size_t bytes, uint64_t seed)
{
	uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)((seed + i) * 0x9e3779b97f4a7c15ull >> 56);
}

int twt_check(const void *data, size_t bytes, uint64_t seed)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++) {
		if (at[i] != (uint8_t)((seed + i) * 0x9e3779b97f4a7c15ull >> 56)) {
			fprintf(stderr, "byte %zu of %zu of message %llu is wrong\n", i, bytes,
				(unsigned long long)seed);
			return -1;
		}
	}
	return 0;
}
