/* cell_drive.c - each way to drive the library. */
#include "cell_drive.h"

static json_t *twt_document(struct twt_end *end, const char *path)
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
static uint64_t twt_number(struct twt_end *end, const char *path, const char *inner,
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

uint64_t twt_counter(struct twt_end *end, const char *name)
{
	return twt_number(end, "/v1/counters", "counters", name);
}

void twt_until(struct twt_end *end, const char *path, const char *inner, const char *name,
	       uint64_t wanted)
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

void twt_until_none_waits(struct twt_end *end)
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

static void twt_on_done(struct tow_op *op, const struct tow_result *result)
{
	struct twt_doing *doing = result->user;

	(void)op;
	doing->told = *result;
	atomic_fetch_add(&doing->called, 1);
}

const struct tow_op_options *twt_begin(struct twt_end *end, struct twt_doing *doing,
				       uint64_t timeout_ns)
{
	doing->op = NULL;
	atomic_store(&doing->called, 0);
	doing->options = (struct tow_op_options){ .size = sizeof(doing->options),
						  .timeout_ns = timeout_ns,
						  .user = doing,
						  .queue = end->queue };
	if (end->cell->driving == TWT_CALLBACK)
		doing->options.done = twt_on_done;
	return &doing->options;
}

static bool twt_done(const struct twt_doing *doing, struct tow_result *result)
{
	if (doing->options.queue != NULL) {
		*result = doing->told;
		return atomic_load(&doing->called) > 0;
	}
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
	/* All of them have driven, one after the other while nobody else does, and live on. */
	if (tow_progress(end->runtime) < 0)
		twt_wrong(end->cell, "thread %u of end %d, tow_progress: %s", mine, end->which,
			  tow_error_message());
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

void twt_crew_start(struct twt_end *end)
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

void twt_crew_stop(struct twt_end *end)
{
	struct twt_crew *crew = &end->crew;

	pthread_mutex_lock(&crew->lock);
	crew->over = true;
	pthread_cond_broadcast(&crew->changed);
	pthread_mutex_unlock(&crew->lock);
	for (int i = 0; i < TWT_CREW; i++)
		pthread_join(crew->threads[i], NULL);
}

static int twt_crew_wait(struct twt_end *end, struct tow_op *op)
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

/* Results of whatever has ended; of each the operation is what is left to be given back. */
static int twt_queue_turn(struct twt_end *end)
{
	struct tow_result results[4];
	struct pollfd wait = { .fd = end->fd, .events = POLLIN };
	size_t count;
	int status;

	for (size_t i = 0; i < 4; i++)
		results[i].size = sizeof(results[i]);
	if (poll(&wait, 1, 1000) == 0)
		return TOW_AGAIN;
	status = tow_queue_take(end->queue, results, 4, &count);
	if (status < 0)
		return status;
	for (size_t i = 0; i < count; i++) {
		struct twt_doing *doing = results[i].user;

		doing->told = results[i];
		doing->op = results[i].op;
		if (atomic_fetch_add(&doing->called, 1) != 0)
			twt_wrong(end->cell, "end %d: a result has come twice", end->which);
	}
	return TOW_OK;
}

/* A turn of driving towards the end of an operation, in the cell's way. */
static int twt_drive(struct twt_end *end, struct twt_doing *doing)
{
	struct pollfd wait = { .fd = end->fd, .events = POLLIN };
	int polled, status;

	switch (end->cell->driving) {
	case TWT_WAIT:
		return tow_op_wait(doing->op, TWT_CELL_NS);
	case TWT_TEST:
		return tow_op_test(doing->op);
	case TWT_PROGRESS:
		return tow_progress(end->runtime);
	case TWT_FD:
		polled = poll(&wait, 1, 1000);
		status = tow_progress(end->runtime);
		/* Once or twice it may come between the two. */
		end->silent += polled == 0 && status == TOW_OK;
		if (end->silent > 2)
			twt_wrong(end->cell,
				  "end %d: tow_fd did not tell, %d times for 1 s, that "
				  "there was something to do, after: %.120s",
				  end->which, end->silent, twt_last(end));
		return status;
	case TWT_THREADS:
		return twt_crew_wait(end, doing->op);
	case TWT_QUEUE:
		return twt_queue_turn(end);
	default:
		usleep(100);
		return TOW_OK;
	}
}

int twt_await_kept(struct twt_end *end, struct twt_doing *doing, struct tow_result *result)
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

int twt_await(struct twt_end *end, struct twt_doing *doing, struct tow_result *result)
{
	int status = twt_await_kept(end, doing, result);

	twt_ok(end, tow_op_release(doing->op));
	return status;
}
