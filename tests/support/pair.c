/* pair.c - two processes with a runtime each, as pair.h says. */
#include "pair.h"

struct tow_options twt_pair_options(int64_t pool_bytes)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = pool_bytes;
	options.stats = 0;
	options.max_ops = 4096;
	return options;
}

struct tow_runtime *twt_runtime(int64_t pool_bytes)
{
	struct tow_options options = twt_pair_options(pool_bytes);
	struct tow_runtime *runtime;

	TWT_OK(tow_runtime_open(&options, &runtime));
	return runtime;
}

int twt_wait_for(struct tow_op *op, struct tow_result *out)
{
	int status = tow_op_wait(op, 20 * TWT_SECOND);

	if (status == TOW_ETIMEDOUT) {
		fprintf(stderr, "an operation did not end within 20 s\n");
		abort();
	}
	*out = (struct tow_result){ .size = sizeof(*out) };
	TWT_OK(tow_op_result(op, out));
	return status;
}

int twt_finish(struct tow_op *op, struct tow_result *out)
{
	struct tow_result unused;
	int status = twt_wait_for(op, out != NULL ? out : &unused);

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

/* The child's whole life; the address to dial comes through `fd`. */
static void __attribute__((noreturn))
twt_pair_child(struct twt_side *side, struct twt_pair_way *way, int fd)
{
	char where[TOW_ADDRESS_MAX];
	int status;

	alarm(way->limit_s);
	if (read(fd, where, sizeof(where)) != (ssize_t)sizeof(where))
		_exit(99);
	close(fd);
	if (way->prepare != NULL)
		way->prepare(way);
	TWT_OK(tow_runtime_open(&way->child, &side->runtime));
	TWT_OK(tow_endpoint_open(side->runtime, way->address, &side->endpoint));
	side->peer = twt_connect(side->endpoint, where);
	status = way->run(side, way->arg);
	TWT_OK(tow_runtime_close(side->runtime));
	exit(status); /* not _exit: leaks are looked for at exit */
}

void twt_pair_open(struct twt_side *side, const struct twt_pair_way *way)
{
	struct twt_pair_way own = *way;
	char where[TOW_ADDRESS_MAX] = "";
	int fds[2];

	if (pipe(fds) != 0)
		abort();
	fflush(NULL);
	side->child = fork();
	if (side->child < 0)
		abort();
	if (side->child == 0) {
		close(fds[1]);
		twt_pair_child(side, &own, fds[0]);
	}
	close(fds[0]);
	TWT_OK(tow_runtime_open(&way->parent, &side->runtime));
	TWT_OK(tow_endpoint_open(side->runtime, way->address, &side->endpoint));
	TWT_OK(tow_endpoint_address(side->endpoint, where, sizeof(where)));
	if (way->dial != NULL)
		way->dial(where, way->arg);
	if (write(fds[1], where, sizeof(where)) != (ssize_t)sizeof(where))
		abort();
	close(fds[1]);
	side->peer = twt_accept(side->endpoint);
}

void twt_pair(struct twt_side *side, const char *address, int64_t pool_bytes,
	      int (*child)(struct twt_side *side, void *arg), void *arg)
{
	const struct twt_pair_way way = {
		.parent = twt_pair_options(pool_bytes),
		.child = twt_pair_options(pool_bytes),
		.address = address,
		.limit_s = 120,
		.run = child,
		.arg = arg,
	};

	twt_pair_open(side, &way);
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

bool twt_same(const void *data, size_t bytes, uint64_t seed)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++) {
		if (at[i] != (uint8_t)((seed + i) * 0x9e3779b97f4a7c15ull >> 56))
			return false;
	}
	return true;
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
