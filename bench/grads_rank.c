/*
 * grads_rank.c - one rank of the exchange: its runtime, its buffers, its steps.
 *
 * A step is what a data-parallel job does between backward pass and optimiser, with the arithmetic
 * left out: make a gradient for each tensor, give it to the peer and get the peer's, look at every
 * byte of what came. Both directions run at once with a bounded number of messages in flight.
 *
 * Every message finds its receive posted, so that nothing waits in the library and is copied from
 * there. A rank sends message i when it has received the peer's message i - window, which the peer
 * sent with its receives posted up to two windows ahead of what it had settled. What begins a step
 * is a token from rank 0 and the answer of rank 1; rank 1 posts the receive of the next token
 * before it sends the last that rank 0 waits for.
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

int grads_rank_open(struct grads_rank *rank, char *address_out, size_t address_size)
{
	const struct grads_options *wanted = rank->options;
	struct tow_options options = TOW_OPTIONS_DEFAULT;
	int rc;

	/* The environment decides where --premap does not: a field set here would win over it. */
	if (wanted->premap != 0)
		options.premap_memory_bytes = (int64_t)wanted->premap;
	else if (getenv("TOW_PREMAP_MEMORY_BYTES") == NULL)
		options.premap_memory_bytes = (int64_t)grads_premap(rank->plan);
	options.job = "tow-grads";
	options.rank = rank->rank;
	rc = tow_runtime_open(&options, &rank->runtime);
	if (rc < 0)
		return grads_failed(rank->rank, "opening the runtime", rc);
	rc = tow_endpoint_open(rank->runtime, "tcp://127.0.0.1:0", &rank->endpoint);
	if (rc == TOW_OK)
		rc = tow_endpoint_address(rank->endpoint, address_out, address_size);
	return rc < 0 ? grads_failed(rank->rank, "opening the endpoint", rc) : 0;
}

/* Posts the receive of what begins a step. */
static int expect_token(struct grads_rank *rank, uint64_t step)
{
	int rc = tow_recv_start(rank->peer, &rank->barrier_in, sizeof(rank->barrier_in),
				TAG_BARRIER + step, NULL, &rank->barrier);

	if (rc >= 0)
		return 0;
	rank->barrier = NULL;
	return grads_failed(rank->rank, "barrier", rc);
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
	if (rc < 0)
		return grads_failed(rank->rank, "sealing the runtime", rc);
	rc = grads_buffers_make(rank);
	return rc == 0 && rank->rank == 1 ? expect_token(rank, 0) : rc;
}

static int finish(struct grads_rank *rank, struct tow_op *op)
{
	int rc = tow_op_wait(op, rank->options->timeout_ns);

	tow_op_release(op);
	rank->outcome.copied += rc == TOW_COPIED;
	return rc == TOW_OK || rc == TOW_COPIED ? 0 : grads_failed(rank->rank, "exchange", rc);
}

static int send_token(struct grads_rank *rank, uint64_t step)
{
	struct tow_op *send;
	int rc = tow_send_start(rank->peer, &rank->barrier_out, sizeof(rank->barrier_out),
				TAG_BARRIER + step, NULL, &send);

	return rc < 0 ? grads_failed(rank->rank, "barrier", rc) : finish(rank, send);
}

/*
 * Both ranks have made their gradients and posted their first receives: the clock may start. Rank 0
 * asks, rank 1 answers and then expects the next question.
 */
static int barrier(struct grads_rank *rank, uint64_t step)
{
	struct tow_op *token;
	int rc = rank->rank == 0 ? expect_token(rank, step) : 0;

	if (rc == 0 && rank->rank == 0)
		rc = send_token(rank, step);
	token = rank->barrier;
	rank->barrier = NULL;
	if (rc == 0)
		rc = finish(rank, token);
	else
		tow_op_release(token);
	/* The next question comes when rank 0 has this step's messages, none of which is sent yet.
	 */
	if (rc == 0 && rank->rank == 1 && step < rank->options->steps)
		rc = expect_token(rank, step + 1);
	if (rc == 0 && rank->rank == 1)
		rc = send_token(rank, step);
	return rc;
}

struct window {
	struct tow_op *send[GRADS_WINDOW_MAX], *recv[2 * GRADS_WINDOW_MAX];
};

/* Message i of a step. */
static const struct strategy_event *message(const struct grads_rank *rank, uint64_t i)
{
	return &rank->plan->events[rank->plan->step_begin + i];
}

static struct tow_op **receive_of(const struct grads_rank *rank, struct window *window, uint64_t i)
{
	return &window->recv[i % (2 * rank->options->window)];
}

static int start_receive(struct grads_rank *rank, struct window *window, uint64_t step, uint64_t i)
{
	const struct strategy_event *event = message(rank, i);
	int rc = tow_recv_start(rank->peer, rank->buffer[event->to], event->bytes,
				step * rank->work->count + i, NULL, receive_of(rank, window, i));

	return rc < 0 ? grads_failed(rank->rank, rank->work->tensors[event->tensor].name, rc) : 0;
}

static int start_send(struct grads_rank *rank, struct window *window, uint64_t step, uint64_t i)
{
	const struct strategy_event *event = message(rank, i);
	int rc = tow_send_start(rank->peer, rank->buffer[event->buffer], event->bytes,
				step * rank->work->count + i, NULL,
				&window->send[i % rank->options->window]);

	return rc < 0 ? grads_failed(rank->rank, rank->work->tensors[event->tensor].name, rc) : 0;
}

/* Waits for message i in both directions. */
static int settle(struct grads_rank *rank, struct window *window, uint64_t i)
{
	struct tow_op **recv = receive_of(rank, window, i);
	uint64_t slot = i % rank->options->window;
	int rc = finish(rank, window->send[slot]);

	window->send[slot] = NULL;
	if (rc == 0) {
		rc = finish(rank, *recv);
		*recv = NULL;
	}
	return rc;
}

/* The timed part of a step; receives run two windows ahead (see the top). */
static int exchange(struct grads_rank *rank, uint64_t step, double *took_out)
{
	uint64_t count = rank->work->count, ahead = rank->options->window;
	struct window window = { { NULL }, { NULL } };
	double begin;
	int rc = 0;

	for (uint64_t i = 0; i < count && i < 2 * ahead && rc == 0; i++)
		rc = start_receive(rank, &window, step, i);
	if (rc == 0)
		rc = barrier(rank, step);
	begin = now();
	for (uint64_t i = 0; i < count + ahead && rc == 0; i++) {
		if (i >= ahead && i - ahead < count)
			rc = settle(rank, &window, i - ahead);
		if (rc == 0 && i >= ahead && i + ahead < count)
			rc = start_receive(rank, &window, step, i + ahead);
		if (rc == 0 && i < count)
			rc = start_send(rank, &window, step, i);
	}
	*took_out = now() - begin;
	for (uint64_t slot = 0; slot < ahead; slot++)
		tow_op_release(window.send[slot]);
	for (uint64_t slot = 0; slot < 2 * ahead; slot++)
		tow_op_release(window.recv[slot]);
	return rc;
}

static int verify(struct grads_rank *rank, uint64_t step)
{
	for (uint64_t i = 0; i < rank->work->count; i++) {
		const struct workload_tensor *tensor = &rank->work->tensors[i];
		struct pattern want = gradient(rank, step, i, 1 - rank->rank);
		uint64_t at =
			pattern_check(rank->buffer[message(rank, i)->to], tensor->bytes, want);

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
		pattern_fill(rank->buffer[message(rank, i)->buffer], rank->work->tensors[i].bytes,
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
	rank->outcome.late_registrations = grads_report_counter(rank, "late_registrations");
	rank->outcome.fallback_copies = grads_report_counter(rank, "fallback_copies");
	return rc;
}

/* Heap buffers are freed after the runtime has let go of them; the pool's end with it. */
void grads_rank_close(struct grads_rank *rank)
{
	if (rank->runtime != NULL)
		tow_op_release(rank->barrier);
	if (rank->peer != NULL)
		tow_peer_close(rank->peer);
	if (rank->endpoint != NULL)
		tow_endpoint_close(rank->endpoint);
	if (rank->runtime != NULL)
		tow_runtime_close(rank->runtime);
	grads_buffers_drop(rank);
}
