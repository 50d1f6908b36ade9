/*
 * grads_rank.c - one rank of the exchange: its runtime, its buffers, its steps.
 *
 * A step is what a data-parallel job does between backward pass and optimiser, with the arithmetic
 * left out: make a gradient for each tensor, give it to the peer and get the peer's, look at every
 * byte of what came. Both directions run at once with a bounded number of messages in flight.
 *
 * Buffers come from the pool, where payload moves without a copy. What the pool has no room for
 * comes from the heap, as in a real runtime: it works, costs more, and the report says so.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "grads.h"
#include "pattern.h"

#define TAG_BARRIER UINT64_C(0xffffffff00000000) /* above every step * tensors + index */

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

int grads_failed(int rank, const char *what, int status)
{
	fprintf(stderr, "tow-grads: rank %d: %s: %s (%s)%s%s\n", rank, what,
		tow_status_name(status),
		status == TOW_AGAIN ? "the time limit passed" : tow_status_text(status),
		status < 0 && tow_error_message()[0] != '\0' ? ": " : "",
		status < 0 ? tow_error_message() : "");
	return GRADS_FAILED;
}

/* A tensor's gradient differs from every other tensor's, step's and rank's. */
static struct pattern gradient(const struct grads_rank *rank, uint64_t step, uint64_t tensor,
			       int owner)
{
	return pattern_floats((step * rank->work->count + tensor) * 2 + (uint64_t)owner);
}

static int make_buffer(struct grads_rank *rank, uint64_t bytes, void **memory_out, bool *heap_out)
{
	struct grads_outcome *outcome = &rank->outcome;
	int rc = tow_alloc(rank->runtime, bytes, 0, memory_out);

	if (rc != TOW_EEXHAUSTED)
		return rc < 0 ? grads_failed(rank->rank, "buffer from the pool", rc) : 0;
	if (outcome->heap_buffers++ == 0)
		snprintf(outcome->pool_message, sizeof(outcome->pool_message), "%s",
			 tow_error_message());
	outcome->heap_bytes += bytes;
	*heap_out = true;
	if (posix_memalign(memory_out, 4096, bytes) != 0)
		return grads_failed(rank->rank, "buffer from the heap", TOW_ENOMEM);
	return 0;
}

static int make_buffers(struct grads_rank *rank)
{
	uint64_t count = rank->work->count;
	int rc = 0;

	rank->send = calloc(count, sizeof(*rank->send));
	rank->recv = calloc(count, sizeof(*rank->recv));
	rank->send_heap = calloc(count, sizeof(*rank->send_heap));
	rank->recv_heap = calloc(count, sizeof(*rank->recv_heap));
	if (!rank->send || !rank->recv || !rank->send_heap || !rank->recv_heap)
		return grads_failed(rank->rank, "tables of the buffers", TOW_ENOMEM);
	for (uint64_t i = 0; i < count && rc == 0; i++) {
		uint64_t bytes = rank->work->tensors[i].bytes;

		rc = make_buffer(rank, bytes, &rank->send[i], &rank->send_heap[i]);
		if (rc == 0)
			rc = make_buffer(rank, bytes, &rank->recv[i], &rank->recv_heap[i]);
	}
	return rc;
}

int grads_rank_open(struct grads_rank *rank, char *address_out, size_t address_size)
{
	const struct grads_options *wanted = rank->options;
	struct tow_options options = TOW_OPTIONS_DEFAULT;
	int rc;

	/* The environment decides where --premap does not: a field set here would win over it. */
	if (wanted->premap != 0)
		options.premap_memory_bytes = (int64_t)wanted->premap;
	else if (getenv("TOW_PREMAP_MEMORY_BYTES") == NULL)
		options.premap_memory_bytes = (int64_t)grads_workload_premap(rank->work);
	options.job = "tow-grads";
	options.rank = rank->rank;
	rc = tow_runtime_open(&options, &rank->runtime);
	if (rc < 0)
		return grads_failed(rank->rank, "opening the runtime", rc);
	rc = make_buffers(rank);
	if (rc != 0)
		return rc;
	rc = tow_endpoint_open(rank->runtime, "tcp://127.0.0.1:0", &rank->endpoint);
	if (rc == TOW_OK)
		rc = tow_endpoint_address(rank->endpoint, address_out, address_size);
	return rc < 0 ? grads_failed(rank->rank, "opening the endpoint", rc) : 0;
}

int grads_rank_join(struct grads_rank *rank, const char *address)
{
	struct tow_op_options options = TOW_OP_OPTIONS_DEFAULT;
	struct tow_result result = { .size = sizeof(result) };
	struct tow_op *op = NULL;
	int rc;

	options.timeout_ns = rank->options->timeout_ns;
	rc = address != NULL ? tow_connect_start(rank->endpoint, address, &options, &op)
			     : tow_accept_start(rank->endpoint, &options, &op);
	if (rc == TOW_OK)
		rc = tow_op_wait(op, rank->options->timeout_ns);
	if (rc == TOW_OK)
		rc = tow_op_result(op, &result);
	tow_op_release(op);
	if (rc != TOW_OK)
		return grads_failed(rank->rank, "joining the other rank", rc);
	rank->peer = result.peer;
	/* From here on a registration is late: steps must not pay for start-up. */
	rc = tow_runtime_seal(rank->runtime);
	return rc < 0 ? grads_failed(rank->rank, "sealing the runtime", rc) : 0;
}

static int finish(struct grads_rank *rank, struct tow_op *op)
{
	int rc = tow_op_wait(op, rank->options->timeout_ns);

	tow_op_release(op);
	rank->outcome.copied += rc == TOW_COPIED;
	return rc == TOW_OK || rc == TOW_COPIED ? 0 : grads_failed(rank->rank, "exchange", rc);
}

/* Both ranks have made their gradients and posted their first receives: the clock may start. */
static int barrier(struct grads_rank *rank, uint64_t step)
{
	uint64_t tag = TAG_BARRIER + step;
	struct tow_op *send, *recv;
	int rc = tow_recv_start(rank->peer, &rank->barrier_in, sizeof(rank->barrier_in), tag, NULL,
				&recv);

	if (rc < 0)
		return grads_failed(rank->rank, "barrier", rc);
	rc = tow_send_start(rank->peer, &rank->barrier_out, sizeof(rank->barrier_out), tag, NULL,
			    &send);
	if (rc < 0) {
		tow_op_release(recv);
		return grads_failed(rank->rank, "barrier", rc);
	}
	rc = finish(rank, send);
	if (rc != 0)
		tow_op_release(recv);
	return rc == 0 ? finish(rank, recv) : rc;
}

struct window {
	struct tow_op *send[GRADS_WINDOW_MAX], *recv[GRADS_WINDOW_MAX];
};

static int start(struct grads_rank *rank, struct window *window, uint64_t step, uint64_t i,
		 bool sends)
{
	uint64_t bytes = rank->work->tensors[i].bytes, slot = i % rank->options->window;
	uint64_t tag = step * rank->work->count + i;
	int rc = sends ? tow_send_start(rank->peer, rank->send[i], bytes, tag, NULL,
					&window->send[slot])
		       : tow_recv_start(rank->peer, rank->recv[i], bytes, tag, NULL,
					&window->recv[slot]);

	return rc < 0 ? grads_failed(rank->rank, rank->work->tensors[i].name, rc) : 0;
}

/* Waits for message i in both directions. */
static int settle(struct grads_rank *rank, struct window *window, uint64_t i)
{
	uint64_t slot = i % rank->options->window;
	int rc = finish(rank, window->send[slot]);

	window->send[slot] = NULL;
	if (rc == 0) {
		rc = finish(rank, window->recv[slot]);
		window->recv[slot] = NULL;
	}
	return rc;
}

/* The timed part of a step. Receives run a window ahead, so that the peer's sends find them. */
static int exchange(struct grads_rank *rank, uint64_t step, double *took_out)
{
	uint64_t count = rank->work->count, ahead = rank->options->window;
	struct window window = { { NULL }, { NULL } };
	double begin;
	int rc = 0;

	for (uint64_t i = 0; i < count && i < ahead && rc == 0; i++)
		rc = start(rank, &window, step, i, false);
	if (rc == 0)
		rc = barrier(rank, step);
	begin = now();
	for (uint64_t i = 0; i < count + ahead && rc == 0; i++) {
		if (i >= ahead && i - ahead < count)
			rc = settle(rank, &window, i - ahead);
		if (rc == 0 && i >= ahead && i < count)
			rc = start(rank, &window, step, i, false);
		if (rc == 0 && i < count)
			rc = start(rank, &window, step, i, true);
	}
	*took_out = now() - begin;
	for (uint64_t slot = 0; slot < ahead; slot++) {
		tow_op_release(window.send[slot]);
		tow_op_release(window.recv[slot]);
	}
	return rc;
}

static int verify(struct grads_rank *rank, uint64_t step)
{
	for (uint64_t i = 0; i < rank->work->count; i++) {
		const struct grads_tensor *tensor = &rank->work->tensors[i];
		struct pattern want = gradient(rank, step, i, 1 - rank->rank);
		uint64_t at = pattern_check(rank->recv[i], tensor->bytes, want);

		if (at != PATTERN_SAME) {
			fprintf(stderr,
				"tow-grads: WRONG PAYLOAD at rank %d: step %" PRIu64
				", %s, first at byte %" PRIu64 " of %" PRIu64 "\n",
				rank->rank, step, tensor->name, at, tensor->bytes);
			return GRADS_MISMATCH;
		}
		rank->outcome.verified_bytes += tensor->bytes;
	}
	return 0;
}

static int run_step(struct grads_rank *rank, uint64_t step)
{
	struct grads_outcome *outcome = &rank->outcome;
	double begin = now(), took = 0;
	int rc;

	for (uint64_t i = 0; i < rank->work->count; i++)
		pattern_fill(rank->send[i], rank->work->tensors[i].bytes,
			     gradient(rank, step, i, rank->rank));
	outcome->generate_s += now() - begin;
	rc = exchange(rank, step, &took);
	if (rc != 0)
		return rc;
	outcome->exchange_s += took;
	if (step == 0 || took < outcome->fastest_s)
		outcome->fastest_s = took;
	if (took > outcome->slowest_s)
		outcome->slowest_s = took;
	begin = now();
	rc = verify(rank, step);
	outcome->verify_s += now() - begin;
	outcome->steps = step + 1;
	return rc;
}

int grads_rank_run(struct grads_rank *rank)
{
	int rc = 0;

	for (uint64_t step = 0; step < rank->options->steps && rc == 0; step++)
		rc = run_step(rank, step);
	/* The peer may still be reading its last messages: leave together. */
	if (rc == 0)
		rc = barrier(rank, rank->options->steps);
	return rc;
}

static void drop_buffers(struct grads_rank *rank)
{
	for (uint64_t i = 0; rank->recv_heap != NULL && i < rank->work->count; i++) {
		if (rank->send_heap[i])
			free(rank->send[i]);
		if (rank->recv_heap[i])
			free(rank->recv[i]);
	}
	free(rank->send);
	free(rank->recv);
	free(rank->send_heap);
	free(rank->recv_heap);
}

/* Heap buffers are freed after the runtime has let go of them; the pool's end with it. */
void grads_rank_close(struct grads_rank *rank)
{
	if (rank->peer != NULL)
		tow_peer_close(rank->peer);
	if (rank->endpoint != NULL)
		tow_endpoint_close(rank->endpoint);
	if (rank->runtime != NULL)
		tow_runtime_close(rank->runtime);
	drop_buffers(rank);
}
