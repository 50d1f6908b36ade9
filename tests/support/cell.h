/*
 * cell.h - one cell of the conformance suite: two ends of one connection, a thread each, over a
 * lane, out of a kind of memory, driven in one way. What an end sees goes into its transcript, and
 * the transcripts of all cells must be equal (conform.h).
 *
 *	twt_begin(end, &doing, timeout_ns)	options for what is to be started
 *	twt_await(end, &doing, &result)		drives in the cell's way until it has ended
 *	twt_meet(end)				until both ends are here; each goes on driving
 *	twt_say(end, "...")			a line of the transcript
 *
 * A cell is a process of its own; whatever is wrong in it ends it with a text.
 */
#ifndef TWT_CELL_H
#define TWT_CELL_H

#include "twt.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jansson.h>
#include <towline/towline.h>

#define TWT_CELL_NS    20000000000ull /* for what should end at once */
#define TWT_CELL_BYTES (2u << 20)     /* of each end's memory, each way */
#define TWT_CELL_TEXT  (32u << 10)
#define TWT_CELL_IDS   256
#define TWT_CREW       40
#define TWT_NOT_HERE   77 /* exit status: this host does not have the lane */

/* A new lane is one row more. */
struct twt_lane {
	const char *name, *address[2]; /* of each end */
	bool encrypted;
	bool one_runtime; /* it joins endpoints of one runtime alone */
};

static const struct twt_lane twt_lanes[] = {
	{ "tcp", { "tcp://127.0.0.1:0", "tcp://127.0.0.1:0" }, false, false },
	{ "tcp-encrypted", { "tcp://127.0.0.1:0", "tcp://127.0.0.1:0" }, true, false },
	{ "shm", { "shm://*", "shm://*" }, false, false },
	{ "ofi-tcp", { "ofi://tcp", "ofi://tcp" }, false, false },
	{ "ofi-shm", { "ofi://shm", "ofi://shm" }, false, false },
	{ "loop", { "loop://left", "loop://right" }, false, true },
	{ "tow", { "tow://127.0.0.1", "tow://127.0.0.1" }, false, false },
};

enum twt_memory { TWT_POOL, TWT_REGISTERED, TWT_PLAIN, TWT_MEMORIES };
static const char *const twt_memories[] = { "pool", "registered", "plain" };

enum twt_driving {
	TWT_WAIT,
	TWT_TEST,
	TWT_PROGRESS,
	TWT_FD,
	TWT_CALLBACK,   /* nobody drives but the library's thread, and a callback tells */
	TWT_OWN_THREAD, /* likewise, and the result is looked at now and then */
	TWT_THREADS,    /* every operation is waited for by the next of 40 threads */
	TWT_DRIVINGS
};
static const char *const twt_drivings[] = { "wait",     "test",       "progress",  "tow_fd",
					    "callback", "own-thread", "40-threads" };

/* What the parent reads when the cell has ended. */
struct twt_cell_shared {
	char transcript[3 * TWT_CELL_TEXT];
	char wrong[512];
};

struct twt_crew_job {
	struct tow_op *op;
	bool due;
	int status;
};

struct twt_crew {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t threads[TWT_CREW];
	struct twt_crew_job jobs[TWT_CREW];
	unsigned next;
	bool over;
};

struct twt_cell;

struct twt_end {
	struct twt_cell *cell;
	int which; /* 0: connects; 1: accepts */
	struct tow_runtime *runtime;
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	uint8_t *out, *in; /* TWT_CELL_BYTES of the cell's kind of memory */
	uint64_t handles[2];
	int fd;
	struct twt_crew crew;
	_Atomic unsigned met;
	char text[TWT_CELL_TEXT];
	size_t bytes;
};

struct twt_cell {
	const struct twt_lane *lane;
	enum twt_memory memory;
	enum twt_driving driving;
	void (*play)(struct twt_end *end);
	struct twt_end ends[2];
	char where[TOW_ADDRESS_MAX];        /* of end 1 */
	_Atomic uint64_t ids[TWT_CELL_IDS]; /* what one end tells the other: ids of messages */
	struct twt_cell_shared *shared;
};

/* One operation under way. */
struct twt_doing {
	struct tow_op *op;
	struct tow_op_options options;
	_Atomic int called;
	struct tow_result told;
};

#define twt_wrong(cell, ...)                                                                       \
	do {                                                                                       \
		int twt_at = snprintf((cell)->shared->wrong, sizeof((cell)->shared->wrong),        \
				      "%s:%d: ", __FILE__, __LINE__);                              \
		snprintf((cell)->shared->wrong + twt_at,                                           \
			 sizeof((cell)->shared->wrong) - (size_t)twt_at, __VA_ARGS__);             \
		_exit(1);                                                                          \
	} while (0)

/* The end of an end's transcript, for texts: where it was. */
#define twt_last(end) ((end)->text + ((end)->bytes > 120 ? (end)->bytes - 120 : 0))

#define twt_ok(end, call)                                                                          \
	do {                                                                                       \
		int twt_status = (call);                                                           \
		if (twt_status != TOW_OK)                                                          \
			twt_wrong((end)->cell, "%s: %s: %s", #call, tow_status_name(twt_status),   \
				  tow_error_message());                                            \
	} while (0)

__attribute__((format(printf, 2, 3))) static inline void twt_say(struct twt_end *end,
								 const char *format, ...)
{
	size_t room = sizeof(end->text) - end->bytes;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(end->text + end->bytes, room, format, args);
	va_end(args);
	if (n < 0 || (size_t)n + 1 >= room)
		twt_wrong(end->cell, "the transcript is too long");
	end->bytes += (size_t)n;
	end->text[end->bytes++] = '\n';
	end->text[end->bytes] = '\0';
}

static inline uint64_t twt_cell_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Whether the library is left to drive by itself. */
static inline bool twt_by_itself(const struct twt_cell *cell)
{
	return cell->driving == TWT_CALLBACK || cell->driving == TWT_OWN_THREAD;
}

/* A turn of an end that waits for something else than an operation. */
static inline void twt_idle(struct twt_end *end)
{
	if (twt_by_itself(end->cell)) {
		usleep(200);
		return;
	}
	if (end->cell->driving == TWT_FD) {
		struct pollfd wait = { .fd = end->fd, .events = POLLIN };

		poll(&wait, 1, 1);
	} else {
		usleep(20);
	}
	if (tow_progress(end->runtime) < 0)
		twt_wrong(end->cell, "tow_progress: %s", tow_error_message());
}

static inline void twt_meet(struct twt_end *end)
{
	struct twt_end *other = &end->cell->ends[1 - end->which];
	unsigned turn = atomic_fetch_add(&end->met, 1) + 1;
	uint64_t until = twt_cell_now() + 2 * TWT_CELL_NS;

	while (atomic_load(&other->met) < turn) {
		if (twt_cell_now() > until)
			twt_wrong(end->cell, "end %d waits for the other in vain, after: %.120s",
				  end->which, twt_last(end));
		twt_idle(end);
	}
}

/* --- documents --- */

static inline json_t *twt_document(struct twt_end *end, const char *path)
{
	char *text;
	json_t *json;

	twt_ok(end, tow_stats_get(end->runtime, path, &text));
	json = json_loads(text, 0, NULL);
	tow_stats_release(text);
	if (json == NULL)
		twt_wrong(end->cell, "%s is no JSON", path);
	return json;
}

/* Of a document that is an object, or of the object `inner` in it. */
static inline uint64_t twt_number(struct twt_end *end, const char *path, const char *inner,
				  const char *name)
{
	json_t *json = twt_document(end, path);
	const json_t *at = inner != NULL ? json_object_get(json, inner) : json;
	const json_t *value = json_object_get(at, name);
	uint64_t number = (uint64_t)json_integer_value(value);

	if (!json_is_integer(value))
		twt_wrong(end->cell, "%s has no number %s", path, name);
	json_decref(json);
	return number;
}

static inline uint64_t twt_counter(struct twt_end *end, const char *name)
{
	return twt_number(end, "/v1/counters", "counters", name);
}

/* Until a document's number is what it should be. */
static inline void twt_until(struct twt_end *end, const char *path, const char *inner,
			     const char *name, uint64_t wanted)
{
	uint64_t until = twt_cell_now() + TWT_CELL_NS;

	while (twt_number(end, path, inner, name) != wanted) {
		if (twt_cell_now() > until)
			twt_wrong(end->cell, "%s of end %d does not become %llu; it is %llu", name,
				  end->which, (unsigned long long)wanted,
				  (unsigned long long)twt_number(end, path, inner, name));
		twt_idle(end);
	}
}

/* Until no message waits for a receive: those that were taken back are gone here, too. */
static inline void twt_until_none_waits(struct twt_end *end)
{
	uint64_t until = twt_cell_now() + TWT_CELL_NS;

	for (;;) {
		json_t *json = twt_document(end, "/v1/peers"), *peer;
		uint64_t waiting = 0;
		size_t i;

		json_array_foreach(json_object_get(json, "peers"), i, peer) waiting +=
			(uint64_t)json_integer_value(json_object_get(peer, "unexpected_messages"));
		json_decref(json);
		if (waiting == 0)
			return;
		if (twt_cell_now() > until)
			twt_wrong(end->cell, "messages wait for ever, after: %.120s",
				  twt_last(end));
		twt_idle(end);
	}
}

/* --- operations --- */

static void twt_on_done(struct tow_op *op, const struct tow_result *result)
{
	struct twt_doing *doing = result->user;

	(void)op;
	doing->told = *result;
	atomic_fetch_add(&doing->called, 1);
}

static inline const struct tow_op_options *twt_begin(struct twt_end *end, struct twt_doing *doing,
						     uint64_t timeout_ns)
{
	doing->op = NULL;
	atomic_store(&doing->called, 0);
	doing->options = (struct tow_op_options){ .size = sizeof(doing->options),
						  .timeout_ns = timeout_ns,
						  .user = doing };
	if (end->cell->driving == TWT_CALLBACK)
		doing->options.done = twt_on_done;
	return &doing->options;
}

static inline bool twt_done(const struct twt_doing *doing, struct tow_result *result)
{
	result->size = sizeof(*result);
	return tow_op_result(doing->op, result) == TOW_OK;
}

static void *twt_crew_run(void *arg)
{
	struct twt_end *end = arg;
	struct twt_crew *crew = &end->crew;
	unsigned mine;

	pthread_mutex_lock(&crew->lock);
	mine = crew->next++;
	pthread_cond_broadcast(&crew->changed);
	while (!crew->over) {
		struct twt_crew_job *job = &crew->jobs[mine];

		if (!job->due) {
			pthread_cond_wait(&crew->changed, &crew->lock);
			continue;
		}
		pthread_mutex_unlock(&crew->lock);
		job->status = tow_op_wait(job->op, TWT_CELL_NS);
		pthread_mutex_lock(&crew->lock);
		job->due = false;
		pthread_cond_broadcast(&crew->changed);
	}
	pthread_mutex_unlock(&crew->lock);
	return NULL;
}

static inline void twt_crew_start(struct twt_end *end)
{
	struct twt_crew *crew = &end->crew;

	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->changed, NULL);
	for (int i = 0; i < TWT_CREW; i++)
		if (pthread_create(&crew->threads[i], NULL, twt_crew_run, end) != 0)
			twt_wrong(end->cell, "no thread %d", i);
	pthread_mutex_lock(&crew->lock);
	while (crew->next < TWT_CREW)
		pthread_cond_wait(&crew->changed, &crew->lock);
	crew->next = 0;
	pthread_mutex_unlock(&crew->lock);
}

static inline void twt_crew_stop(struct twt_end *end)
{
	struct twt_crew *crew = &end->crew;

	pthread_mutex_lock(&crew->lock);
	crew->over = true;
	pthread_cond_broadcast(&crew->changed);
	pthread_mutex_unlock(&crew->lock);
	for (int i = 0; i < TWT_CREW; i++)
		pthread_join(crew->threads[i], NULL);
}

static inline int twt_crew_wait(struct twt_end *end, struct tow_op *op)
{
	struct twt_crew *crew = &end->crew;
	struct twt_crew_job *job = &crew->jobs[crew->next++ % TWT_CREW];
	int status;

	pthread_mutex_lock(&crew->lock);
	job->op = op;
	job->due = true;
	pthread_cond_broadcast(&crew->changed);
	while (job->due)
		pthread_cond_wait(&crew->changed, &crew->lock);
	status = job->status;
	pthread_mutex_unlock(&crew->lock);
	return status;
}

/* A turn of driving towards the end of an operation, in the cell's way. */
static inline int twt_drive(struct twt_end *end, struct twt_doing *doing)
{
	struct pollfd wait = { .fd = end->fd, .events = POLLIN };

	switch (end->cell->driving) {
	case TWT_WAIT:
		return tow_op_wait(doing->op, TWT_CELL_NS);
	case TWT_TEST:
		return tow_op_test(doing->op);
	case TWT_PROGRESS:
		return tow_progress(end->runtime);
	case TWT_FD:
		poll(&wait, 1, 1000);
		return tow_progress(end->runtime);
	case TWT_THREADS:
		return twt_crew_wait(end, doing->op);
	default:
		usleep(100);
		return TOW_OK;
	}
}

/* The operation is not given back: of a view, until it has been looked at. */
static inline int twt_await_kept(struct twt_end *end, struct twt_doing *doing,
				 struct tow_result *result)
{
	uint64_t until = twt_cell_now() + TWT_CELL_NS;

	while (!twt_done(doing, result)) {
		int status = twt_drive(end, doing);

		if (status < 0 && !twt_done(doing, result))
			twt_wrong(end->cell, "end %d, driving by %s: %s: %s, after: %.120s",
				  end->which, twt_drivings[end->cell->driving],
				  tow_status_name(status), tow_error_message(), twt_last(end));
		if (twt_cell_now() > until)
			twt_wrong(end->cell, "end %d: an operation does not end, after: %.120s",
				  end->which, twt_last(end));
	}
	if (end->cell->driving == TWT_CALLBACK &&
	    (atomic_load(&doing->called) != 1 || doing->told.status != result->status ||
	     doing->told.bytes != result->bytes || doing->told.rpc_id != result->rpc_id))
		twt_wrong(end->cell, "end %d: called back %d times, or told something else",
			  end->which, atomic_load(&doing->called));
	if (result->user != doing)
		twt_wrong(end->cell, "end %d: the result has another user", end->which);
	return result->status;
}

static inline int twt_await(struct twt_end *end, struct twt_doing *doing, struct tow_result *result)
{
	int status = twt_await_kept(end, doing, result);

	twt_ok(end, tow_op_release(doing->op));
	return status;
}

/* --- memory --- */

static inline uint8_t *twt_memory_take(struct twt_end *end, uint64_t *handle)
{
	void *at = NULL;

	if (end->cell->memory == TWT_POOL) {
		twt_ok(end, tow_alloc(end->runtime, TWT_CELL_BYTES, 0, &at));
		return at;
	}
	at = mmap(NULL, TWT_CELL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		twt_wrong(end->cell, "no memory");
	memset(at, 0, TWT_CELL_BYTES);
	if (end->cell->memory == TWT_REGISTERED)
		twt_ok(end, tow_mem_register(end->runtime, at, TWT_CELL_BYTES, handle));
	return at;
}

static inline void twt_memory_give(struct twt_end *end, uint8_t *at, uint64_t handle)
{
	if (end->cell->memory == TWT_POOL) {
		twt_ok(end, tow_free(end->runtime, at));
		return;
	}
	if (end->cell->memory == TWT_REGISTERED)
		twt_ok(end, tow_mem_deregister(end->runtime, handle));
	munmap(at, TWT_CELL_BYTES);
}

static inline void twt_data_fill(uint8_t *at, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(((uint64_t)seed * 131 + i) * 0x9e3779b97f4a7c15ull >> 56);
}

static inline const char *twt_data_judge(const uint8_t *at, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i] != (uint8_t)(((uint64_t)seed * 131 + i) * 0x9e3779b97f4a7c15ull >> 56))
			return "WRONG";
	return "right";
}

/* --- a cell from begin to end --- */

static inline void twt_runtime_of(struct twt_end *end)
{
	struct tow_options options = TOW_OPTIONS_DEFAULT;

	options.premap_memory_bytes = 32 << 20;
	options.stats = 0;
	options.max_ops = 1024;
	options.background = twt_by_itself(end->cell);
	if (end->cell->lane->encrypted) {
		options.job_key = "a key of the conformance suite, of 32 bytes and more";
		options.encrypt = 1;
	}
	twt_ok(end, tow_runtime_open(&options, &end->runtime));
}

static inline void twt_end_open(struct twt_end *end)
{
	struct twt_cell *cell = end->cell;
	int status;

	if (end->which == 1 && cell->lane->one_runtime)
		end->runtime = cell->ends[0].runtime;
	else
		twt_runtime_of(end);
	status = tow_endpoint_open(end->runtime, cell->lane->address[end->which], &end->endpoint);
	if (status == TOW_ENOTSUP || status == TOW_EPERM) {
		snprintf(cell->shared->wrong, sizeof(cell->shared->wrong), "%s",
			 tow_error_message());
		_exit(TWT_NOT_HERE);
	}
	twt_ok(end, status);
	if (end->which == 1)
		twt_ok(end, tow_endpoint_address(end->endpoint, cell->where, sizeof(cell->where)));
}

static inline void twt_end_join(struct twt_end *end)
{
	struct tow_result result;
	struct twt_doing doing;

	if (end->which == 0)
		twt_ok(end, tow_connect_start(end->endpoint, end->cell->where,
					      twt_begin(end, &doing, TOW_FOREVER), &doing.op));
	else
		twt_ok(end, tow_accept_start(end->endpoint, twt_begin(end, &doing, TOW_FOREVER),
					     &doing.op));
	twt_say(end, "join: %s", tow_status_name(twt_await(end, &doing, &result)));
	end->peer = result.peer;
	if (end->peer == NULL)
		twt_wrong(end->cell, "end %d has no peer: %s", end->which, tow_error_message());
}

static void *twt_end_run(void *arg)
{
	struct twt_end *end = arg;

	if (end->cell->driving == TWT_FD)
		twt_ok(end, tow_fd(end->runtime, &end->fd));
	if (end->cell->driving == TWT_THREADS)
		twt_crew_start(end);
	end->out = twt_memory_take(end, &end->handles[0]);
	end->in = twt_memory_take(end, &end->handles[1]);
	twt_end_join(end);
	twt_meet(end);
	end->cell->play(end);
	twt_meet(end);
	twt_until(end, "/v1/pool", NULL, "leased_bytes", 0);
	twt_say(end, "leased: 0");
	twt_meet(end);
	twt_memory_give(end, end->out, end->handles[0]);
	twt_memory_give(end, end->in, end->handles[1]);
	if (end->cell->driving == TWT_THREADS)
		twt_crew_stop(end);
	return NULL;
}

/* What the kind of memory itself makes of it, on any lane. */
static inline bool twt_of_memory(const char *name)
{
	return strcmp(name, "mem_registers") == 0 || strcmp(name, "mem_deregisters") == 0;
}

/* Of all runtimes together, for one lane has but one: those that the list says are the same. */
static inline void twt_cell_counters(struct twt_cell *cell, char *out, size_t room)
{
	struct tow_counter_row row = { .size = sizeof(row) };
	size_t at = 0;

	for (size_t i = 0; tow_counter_info(i, &row) == TOW_OK; i++) {
		uint64_t sum;

		if (row.lanes != NULL || twt_of_memory(row.name))
			continue;
		sum = twt_counter(&cell->ends[0], row.name);
		if (!cell->lane->one_runtime)
			sum += twt_counter(&cell->ends[1], row.name);
		if (sum != 0)
			at += (size_t)snprintf(out + at, room - at, "%s %llu\n", row.name,
					       (unsigned long long)sum);
		if (at >= room)
			twt_wrong(cell, "too many counters");
	}
}

/* In the cell's process; returns its exit status. */
static inline int twt_cell_run(struct twt_cell *cell)
{
	pthread_t threads[2];
	size_t at;

	for (int i = 0; i < 2; i++) {
		cell->ends[i].cell = cell;
		cell->ends[i].which = i;
		cell->ends[i].fd = -1;
		twt_end_open(&cell->ends[i]);
	}
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, twt_end_run, &cell->ends[i]) != 0)
			twt_wrong(cell, "no thread");
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	at = (size_t)snprintf(cell->shared->transcript, sizeof(cell->shared->transcript),
			      "--- who connects\n%s--- who accepts\n%s--- counters of both\n",
			      cell->ends[0].text, cell->ends[1].text);
	twt_cell_counters(cell, cell->shared->transcript + at,
			  sizeof(cell->shared->transcript) - at);
	twt_ok(&cell->ends[0], tow_runtime_close(cell->ends[0].runtime));
	if (!cell->lane->one_runtime)
		twt_ok(&cell->ends[1], tow_runtime_close(cell->ends[1].runtime));
	return 0;
}

#endif
