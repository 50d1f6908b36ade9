/*
 * nccl_recorder.c - a profiler plugin of NCCL's that writes down what it is told, for
 * test_nccl_recorded to play. A shared object of its own; NCCL 2.28 and 2.29 take it (version 5).
 *
 *	NCCL_PROFILER_PLUGIN=.../libnccl_recorder.so TWT_RECORD=FOLDER/NAME python3 train.py
 *
 * writes FOLDER/NAME.<rank> for the first communicator of the process: a line for each call, with
 * the microseconds since the line before, and events by their numbers.
 *
 *	begins <us of CLOCK_MONOTONIC> rank <r> of <n>
 *	C <us> <event> <function> <elements> <type> <channels> <algorithm> <protocol>
 *	P <us> <event> <function> <elements> <type> <channels> <peer>
 *	O <us> <event> <parent> <own> <channel> <peer> <steps> <bytes of a chunk> <sends>
 *	T <us> <event> <parent> <step>
 *	K <us> <event> <parent> <channel>
 *	S <us> <event> <state> <bytes of a step>	a state that it has already is left out
 *	E <us> <event>
 *
 * It ends with what belongs to the first TWT_RECORD_COUNT collectives (24).
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "plugins/nccl/nccl_profiler_abi.h"

#define EVENTS 65536u

static struct {
	pthread_mutex_t lock;
	bool begun;          /* its communicator has come */
	FILE *file;          /* NULL: it could not be opened */
	bool wanted[EVENTS]; /* by number: it is written down */
	int state[EVENTS];
	uint32_t events, collectives, most;
	uint64_t last_us;
} record = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int begin(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks,
		 int rank, nccl_logger logger)
{
	const char *prefix = getenv("TWT_RECORD"), *count = getenv("TWT_RECORD_COUNT");
	char path[512];

	(void)id, (void)name, (void)nodes, (void)logger;
	*context = NULL; /* of another communicator nothing is written */
	*mask = NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_PROXY_OP | NCCL_EVENT_PROXY_STEP |
		NCCL_EVENT_KERNEL;
	pthread_mutex_lock(&record.lock);
	if (!record.begun && prefix != NULL) {
		record.begun = true;
		snprintf(path, sizeof(path), "%s.%d", prefix, rank);
		record.file = fopen(path, "w");
		record.most = count != NULL ? (uint32_t)atoi(count) : 24;
		record.last_us = now_us();
		*context = &record;
	}
	if (*context != NULL && record.file != NULL)
		fprintf(record.file, "begins %llu rank %d of %d\n",
			(unsigned long long)record.last_us, rank, ranks);
	pthread_mutex_unlock(&record.lock);
	return 0;
}

static uint32_t number_of(const void *event)
{
	uintptr_t number = (uintptr_t)event;

	return number < EVENTS ? (uint32_t)number : 0;
}

/* What every line begins with; false: it is not to be written. The lock is held. */
static bool begin_line(char kind, uint32_t event)
{
	uint64_t now = now_us();

	if (record.file == NULL || !record.wanted[event])
		return false;
	fprintf(record.file, "%c %llu %u", kind, (unsigned long long)(now - record.last_us), event);
	record.last_us = now;
	return true;
}

static bool is_wanted(const struct nccl_event_descriptor *what)
{
	if (what->type == NCCL_EVENT_COLL || what->type == NCCL_EVENT_P2P)
		return record.collectives++ < record.most;
	return record.wanted[number_of(what->parent)];
}

static void write_start(uint32_t event, const struct nccl_event_descriptor *what)
{
	uint32_t parent = number_of(what->parent);
	FILE *file = record.file;

	if (what->type == NCCL_EVENT_COLL && begin_line('C', event))
		fprintf(file, " %s %zu %s %u %s %s\n", what->coll.function, what->coll.count,
			what->coll.type, what->coll.channels, what->coll.algorithm,
			what->coll.protocol);
	else if (what->type == NCCL_EVENT_P2P && begin_line('P', event))
		fprintf(file, " %s %zu %s %u %d\n", what->p2p.function, what->p2p.count,
			what->p2p.type, what->p2p.channels, what->p2p.peer);
	else if (what->type == NCCL_EVENT_PROXY_OP && begin_line('O', event))
		fprintf(file, " %u %d %u %d %d %d %d\n", parent, what->op.pid == getpid(),
			what->op.channel, what->op.peer, what->op.steps, what->op.chunk_bytes,
			what->op.sends);
	else if (what->type == NCCL_EVENT_PROXY_STEP && begin_line('T', event))
		fprintf(file, " %u %d\n", parent, what->step.step);
	else if (what->type == NCCL_EVENT_KERNEL && begin_line('K', event))
		fprintf(file, " %u %u\n", parent, what->kernel.channel);
}

static int start(void *context, void **event, struct nccl_event_descriptor *what)
{
	uint32_t number;

	*event = NULL;
	if (context == NULL)
		return 0;
	pthread_mutex_lock(&record.lock);
	number = record.events + 1;
	if (number < EVENTS) {
		record.events = number;
		record.wanted[number] = is_wanted(what);
		write_start(number, what);
		*event = (void *)(uintptr_t)number;
	}
	if (record.file != NULL && record.collectives > record.most)
		fflush(record.file); /* the process may be killed now */
	pthread_mutex_unlock(&record.lock);
	return 0;
}

static int stop(void *event)
{
	pthread_mutex_lock(&record.lock);
	if (begin_line('E', number_of(event)))
		fputc('\n', record.file);
	pthread_mutex_unlock(&record.lock);
	return 0;
}

static int state(void *event, int state, union nccl_state_arguments *arguments)
{
	uint32_t number = number_of(event);
	bool of_step = state <= NCCL_STATE_RECV_GPU_WAIT || state == NCCL_STATE_SEND_PEER_WAIT;

	pthread_mutex_lock(&record.lock);
	if (record.state[number] != state && begin_line('S', number))
		fprintf(record.file, " %d %zu\n", state,
			of_step && arguments != NULL ? arguments->step_bytes : 0);
	record.state[number] = state;
	pthread_mutex_unlock(&record.lock);
	return 0;
}

static int end(void *context)
{
	(void)context;
	pthread_mutex_lock(&record.lock);
	if (record.file != NULL)
		fflush(record.file);
	pthread_mutex_unlock(&record.lock);
	return 0;
}

extern const struct nccl_profiler_v5 ncclProfiler_v5;
__attribute__((visibility("default")))
const struct nccl_profiler_v5 ncclProfiler_v5 = { "recorder", begin, start, stop, state, end };
