/*
 * hunt_drive.c - how operations are started, how their ends are learned, and what an end may be.
 */
#include "hunt.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t hunt_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * HUNT_NS + (uint64_t)now.tv_nsec;
}

uint64_t hunt_own(struct hunt_side *side, uint64_t below)
{
	return twt_random_below(&side->own, below);
}

uint64_t hunt_shared(struct hunt_side *side, uint64_t below)
{
	return twt_random_below(&side->shared, below);
}

_Noreturn void hunt_bad(const struct hunt_side *side, const char *format, ...)
{
	char text[700];
	va_list rest;

	va_start(rest, format);
	vsnprintf(text, sizeof(text), format, rest);
	va_end(rest);
	fprintf(stderr, "hunt: rank %u side %u (%s) round %llu, %s: %s\n", side->hunt->rank,
		side->index, side->act, (unsigned long long)side->round,
		side->what != NULL ? side->what : "-", text);
	if (getenv("HUNT_ABORT") != NULL)
		abort();
	_exit(1);
}

/* --- ways --- */

static void take_result(struct hunt_pend *pend, const struct tow_result *result)
{
	pend->result = *result;
	snprintf(pend->message, sizeof(pend->message), "%s",
		 result->message != NULL ? result->message : "");
}

static void called_back(struct tow_op *op, const struct tow_result *result)
{
	struct hunt_pend *pend = result->user;

	take_result(pend, result);
	if (pend->is_call)
		tow_call_result(op, &pend->call);
	atomic_store(&pend->done, 1);
}

void hunt_way(struct hunt_side *side, struct hunt_pend *pend, bool handle)
{
	*pend = (struct hunt_pend){ .result = TOW_RESULT_INIT, .call = TOW_CALL_RESULT_INIT };
	do
		pend->way = (enum hunt_way)hunt_own(side, HUNT_WAYS);
	while (handle && pend->way == BY_CALLBACK_ALONE);
}

tow_op_callback hunt_callback(const struct hunt_pend *pend)
{
	return pend->way == BY_CALLBACK || pend->way == BY_CALLBACK_ALONE ? called_back : NULL;
}

struct tow_queue *hunt_queue(const struct hunt_side *side, const struct hunt_pend *pend)
{
	return pend->way == BY_QUEUE ? side->queue : NULL;
}

struct tow_op **hunt_out(struct hunt_pend *pend)
{
	return pend->way == BY_CALLBACK_ALONE ? NULL : &pend->op;
}

struct tow_op_options hunt_options(const struct hunt_side *side, struct hunt_pend *pend)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	options.done = hunt_callback(pend);
	options.queue = hunt_queue(side, pend);
	options.user = pend;
	if (side->hunt->dying)
		options.timeout_ns = 5 * HUNT_NS;
	return options;
}

struct tow_coll_options hunt_coll_options(const struct hunt_side *side, struct hunt_pend *pend)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;

	options.done = hunt_callback(pend);
	options.queue = hunt_queue(side, pend);
	options.user = pend;
	return options;
}

void hunt_started(struct hunt_pend *pend, int status)
{
	if (status >= TOW_OK && (pend->op != NULL || pend->way == BY_CALLBACK_ALONE))
		return;
	pend->result.status = status;
	snprintf(pend->message, sizeof(pend->message), "at the start: %s",
		 status < 0 ? tow_error_message() : "");
	pend->ended = true;
}

/* --- ends --- */

static void take_queue(struct hunt_side *side)
{
	struct tow_result results[4];
	struct pollfd ready = { .events = POLLIN };
	size_t count;

	for (int i = 0; i < 4; i++)
		results[i] = (struct tow_result)TOW_RESULT_INIT;
	if (tow_queue_take(side->queue, results, 4, &count) != TOW_OK) {
		HUNT_TRUE(side, tow_queue_fd(side->queue, &ready.fd) == TOW_OK);
		poll(&ready, 1, 1);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		struct hunt_pend *pend = results[i].user;

		take_result(pend, &results[i]);
		pend->op = results[i].op;
		if (pend->is_call && pend->op != NULL)
			tow_call_result(pend->op, &pend->call);
		atomic_store(&pend->done, 1);
	}
}

/* One look; true when it has ended. */
static bool look(struct hunt_side *side, struct hunt_pend *pend)
{
	size_t index;
	int status;

	switch (pend->way) {
	case BY_WAIT:
		status = tow_op_wait(pend->op, HUNT_NS / 4);
		return status != TOW_ETIMEDOUT;
	case BY_TEST:
		status = tow_op_test(pend->op);
		return status != TOW_AGAIN;
	case BY_ANY:
		status = tow_wait_any(&pend->op, 1, HUNT_NS / 4, &index);
		return status != TOW_ETIMEDOUT;
	case BY_QUEUE:
		if (atomic_load(&pend->done) == 0)
			take_queue(side);
		return atomic_load(&pend->done) != 0;
	default:
		if (atomic_load(&pend->done) == 0 && tow_progress(side->hunt->runtime) == TOW_AGAIN)
			hunt_nap(side, 20000);
		return atomic_load(&pend->done) != 0;
	}
}

int hunt_finish(struct hunt_side *side, struct hunt_pend *pend)
{
	uint64_t end = hunt_now() + HUNT_BOUND_S * HUNT_NS;

	atomic_fetch_add(&side->beat, 1);
	if (pend->ended)
		return pend->result.status;
	while (!look(side, pend))
		if (hunt_now() > end)
			hunt_bad(side, "an operation has not ended in %d s (way %d)", HUNT_BOUND_S,
				 pend->way);
	pend->ended = true;
	if (pend->way <= BY_ANY) {
		struct tow_result result = TOW_RESULT_INIT;

		HUNT_TRUE(side, tow_op_result(pend->op, &result) == TOW_OK);
		HUNT_TRUE(side, result.user == pend);
		take_result(pend, &result);
		if (pend->is_call)
			HUNT_TRUE(side, tow_call_result(pend->op, &pend->call) == TOW_OK);
	}
	return pend->result.status;
}

void hunt_drop(struct hunt_pend *pend)
{
	tow_op_release(pend->op);
	pend->op = NULL;
}

static bool may_be_lost(int status)
{
	return status == TOW_EPEER || status == TOW_EREFUSED || status == TOW_EDEADLINE ||
	       status == TOW_ECLOSED || status == TOW_EABORTED || status == TOW_ECANCELED;
}

bool hunt_well(struct hunt_side *side, const struct hunt_pend *pend, int status, const char *what)
{
	if (status == TOW_OK || status == TOW_COPIED)
		return true;
	if (side->hunt->dying && may_be_lost(status)) {
		if (!side->lost)
			printf("hunt: rank %u side %u (%s) is lost in %s: %s: %s: %s\n",
			       side->hunt->rank, side->index, side->act, side->what, what,
			       tow_status_name(status), pend->message);
		side->lost = true;
		return false;
	}
	hunt_bad(side, "%s: %s: %s", what, tow_status_name(status), pend->message);
}

bool hunt_said(struct hunt_side *side, int status, const char *what)
{
	struct hunt_pend pend = { .op = NULL };

	if (status < 0)
		snprintf(pend.message, sizeof(pend.message), "%s", tow_error_message());
	return hunt_well(side, &pend, status, what);
}

/* --- memory --- */

void hunt_take(struct hunt_side *side, struct hunt_memory *memory, uint64_t bytes)
{
	void *data = NULL;
	int status = TOW_EEXHAUSTED;

	*memory = (struct hunt_memory){ .bytes = bytes,
					.kind = (enum hunt_kind)hunt_own(side, HUNT_KINDS) };
	if (memory->kind == HUNT_POOL)
		status = tow_alloc(side->hunt->runtime, bytes, 0, &data);
	else if (memory->kind == HUNT_PLACED)
		status = tow_place(side->hunt->runtime, bytes, 64, &data);
	if (status != TOW_OK) {
		HUNT_TRUE(side, status == TOW_EEXHAUSTED || status == TOW_EBUSY);
		if (memory->kind != HUNT_REGISTERED)
			memory->kind = HUNT_HEAP;
		data = malloc(bytes + 1);
		HUNT_TRUE(side, data != NULL);
	}
	memory->data = data;
	if (memory->kind == HUNT_REGISTERED &&
	    (bytes < 4096 || hunt_own(side, 4) != 0 ||
	     tow_mem_register(side->hunt->runtime, data, bytes, &memory->handle) != TOW_OK))
		memory->kind = HUNT_HEAP;
}

void hunt_give(struct hunt_side *side, struct hunt_memory *memory)
{
	uint64_t end = hunt_now() + HUNT_BOUND_S * HUNT_NS;
	int status = TOW_OK;

	if (memory->data == NULL)
		return;
	if (memory->kind == HUNT_POOL || memory->kind == HUNT_PLACED) {
		status = tow_free(side->hunt->runtime, memory->data);
		HUNT_TRUE(side, status == TOW_OK);
		memory->data = NULL;
		return;
	}
	if (memory->kind == HUNT_REGISTERED)
		while ((status = tow_mem_deregister(side->hunt->runtime, memory->handle)) ==
			       TOW_EBUSY &&
		       hunt_now() < end)
			tow_progress(side->hunt->runtime);
	if (status != TOW_OK)
		hunt_bad(side, "deregister: %s: %s", tow_status_name(status), tow_error_message());
	free(memory->data);
	memory->data = NULL;
}

static uint64_t word_at(uint64_t id, uint64_t i)
{
	return (id + i) * 0x9e3779b97f4a7c15ull ^ id >> 7;
}

void hunt_fill(void *data, uint64_t bytes, uint64_t id)
{
	uint8_t *at = data;
	uint64_t i = 0, word;

	if (bytes == 0)
		return;
	for (; i + 8 <= bytes; i += 8) {
		word = word_at(id, i);
		__builtin_memcpy(at + i, &word, 8);
	}
	word = word_at(id, i);
	__builtin_memcpy(at + i, &word, bytes - i);
}

bool hunt_same(const void *data, uint64_t bytes, uint64_t id)
{
	const uint8_t *at = data;
	uint64_t i = 0, word, found = 0, wrong = 0;

	if (bytes == 0)
		return true;
	for (; i + 8 <= bytes; i += 8) {
		__builtin_memcpy(&found, at + i, 8);
		wrong |= found ^ word_at(id, i);
	}
	word = word_at(id, i);
	return wrong == 0 && (bytes == i || memcmp(at + i, &word, bytes - i) == 0);
}

uint64_t hunt_bytes(struct hunt_side *side)
{
	static const uint64_t most[] = {
		1, 64, 64, 1024, 1024, 8192, 8192, 70000, 300000, 2000000
	};
	uint64_t of = most[hunt_shared(side, sizeof(most) / sizeof(most[0]))];

	return hunt_shared(side, of);
}

void hunt_nap(struct hunt_side *side, uint64_t below_ns)
{
	struct timespec nap = { .tv_nsec = (long)hunt_own(side, below_ns) };

	nanosleep(&nap, NULL);
}
