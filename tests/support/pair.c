/* pair.c - two processes with a runtime each, as pair.h says. */
#include "pair.h"

#include "diag/base/clock.h"

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

static void __attribute__((noreturn)) twt_hangs(void)
{
	fprintf(stderr, "an operation did not end within a minute\n");
	abort();
}

static int twt_result(struct tow_op *op, int status, struct tow_result *out)
{
	struct tow_result result = { .size = sizeof(result) };

	TWT_OK(tow_op_result(op, &result));
	if (out != NULL)
		*out = result;
	return status;
}

static int twt_given_back(struct tow_op *op, int status)
{
	TWT_OK(tow_op_release(op));
	return status;
}

int twt_wait_for(struct tow_op *op, struct tow_result *out)
{
	int status = tow_op_wait(op, TWT_FINISH_NS);

	if (status == TOW_ETIMEDOUT)
		twt_hangs();
	return twt_result(op, status, out);
}

int twt_finish(struct tow_op *op, struct tow_result *out)
{
	return twt_given_back(op, twt_wait_for(op, out));
}

struct tow_peer *twt_finish_peer(struct tow_op *op)
{
	struct tow_result result;

	TWT_OK(twt_finish(op, &result));
	return result.peer;
}

int twt_wait_driving(struct tow_op *op, struct tow_result *out, struct tow_runtime *const *runtimes,
		     unsigned count)
{
	uint64_t until = twi_now_ns() + TWT_FINISH_NS;
	int status;

	while ((status = tow_op_test(op)) == TOW_AGAIN) {
		for (unsigned i = 0; i < count; i++)
			if (runtimes[i] != NULL)
				(void)tow_progress(runtimes[i]);
		if (twi_now_ns() > until)
			twt_hangs();
	}
	return twt_result(op, status, out);
}

int twt_finish_driving(struct tow_op *op, struct tow_result *out,
		       struct tow_runtime *const *runtimes, unsigned count)
{
	return twt_given_back(op, twt_wait_driving(op, out, runtimes, count));
}

struct tow_peer *twt_accept(struct tow_endpoint *endpoint)
{
	struct tow_op *op;

	TWT_OK(tow_accept_start(endpoint, NULL, &op));
	return twt_finish_peer(op);
}

struct tow_peer *twt_connect(struct tow_endpoint *endpoint, const char *address)
{
	struct tow_op *op;

	TWT_OK(tow_connect_start(endpoint, address, NULL, &op));
	return twt_finish_peer(op);
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
