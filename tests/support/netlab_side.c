/* netlab_side.c - one side of a run between two namespaces. */
#include "netlab_side.h"

/* Side 0 asks: so many bytes, so filled. The last question has the number of none. */
static uint64_t twt_nl_ping_bytes(const struct twt_nl_traffic *t, uint64_t number)
{
	return 8 + twt_nl_mix(t->plan->seed + 3, 0, number) % (NL_PINGS - 8);
}

static bool twt_nl_messages_over(const struct twt_nl_traffic *t)
{
	return t->all_said && t->all_heard && t->next_receive == t->plan->messages &&
	       twt_nl_idle(t->send) && twt_nl_idle(t->receive);
}

static bool twt_nl_step_asking(struct twt_nl_traffic *t)
{
	const uint64_t last = UINT64_MAX;
	uint8_t *out = t->ping_data, *in = t->ping_data + NL_PINGS;
	uint64_t bytes;
	int status;

	if (twt_nl_ended(t, &t->ping_out, &status, &bytes) && status != TOW_OK &&
	    !twt_nl_excused(t, status))
		return twt_nl_fail(t, "asking", t->ping_number, status);
	if (twt_nl_ended(t, &t->ping_in, &status, &bytes)) {
		if (status != TOW_OK)
			return twt_nl_excused(t, status) ||
			       twt_nl_fail(t, "an answer", t->ping_number, status);
		if (memcmp(in, out, bytes) != 0 || bytes != twt_nl_ping_bytes(t, t->ping_number))
			return twt_nl_fail(t, "an answer is another", t->ping_number, status);
		t->ping_number++;
		t->count->pings++;
	}
	if (t->ping_out != NULL || t->ping_in != NULL || t->pings_over || t->gone)
		return true;
	if (twt_nl_messages_over(t)) {
		t->pings_over = true;
		memcpy(out, &last, 8);
		return twt_nl_say(t, out, 8, NL_PING, &t->ping_out);
	}
	bytes = twt_nl_ping_bytes(t, t->ping_number);
	twt_nl_fill(out, bytes, twt_nl_mix(t->plan->seed + 4, 0, t->ping_number));
	memcpy(out, &t->ping_number, 8);
	return twt_nl_say(t, out, bytes, NL_PING, &t->ping_out) &&
	       twt_nl_hear(t, in, NL_PINGS, NL_PONG, &t->ping_in);
}

static bool twt_nl_step_answering(struct twt_nl_traffic *t)
{
	uint8_t *out = t->ping_data, *in = t->ping_data + NL_PINGS;
	uint64_t bytes, number;
	int status;

	if (twt_nl_ended(t, &t->ping_out, &status, &bytes) && status != TOW_OK &&
	    !twt_nl_excused(t, status))
		return twt_nl_fail(t, "answering", t->ping_number, status);
	if (twt_nl_ended(t, &t->ping_in, &status, &bytes)) {
		if (status != TOW_OK)
			return twt_nl_excused(t, status) ||
			       twt_nl_fail(t, "a question", t->ping_number, status);
		memcpy(&number, in, 8);
		t->pings_over = number == UINT64_MAX;
		if (!t->pings_over && number != t->ping_number++)
			return twt_nl_fail(t, "a question out of turn", number, status);
		memcpy(out, in, bytes);
		t->count->pings++;
		if (!t->pings_over && !twt_nl_say(t, out, bytes, NL_PONG, &t->ping_out))
			return false;
	}
	/* Asked again before the answer is out: the buffer of the answer would change under it. */
	if (t->ping_out != NULL || t->ping_in != NULL || t->pings_over || t->gone)
		return true;
	return twt_nl_hear(t, in, NL_PINGS, NL_PING, &t->ping_in);
}

/* One look at everything; false: something is wrong. */
static bool twt_nl_step(struct twt_nl_traffic *t)
{
	bool good = true;

	for (int i = 0; i < NL_WINDOW && good; i++)
		good = twt_nl_step_send(t, &t->send[i]) && twt_nl_step_receive(t, &t->receive[i]);
	good = good && twt_nl_step_notices_out(t) && twt_nl_step_notices_in(t);
	return good && (t->side == 0 ? twt_nl_step_asking(t) : twt_nl_step_answering(t));
}

static bool twt_nl_over(const struct twt_nl_traffic *t)
{
	const bool none = twt_nl_idle(t->send) && twt_nl_idle(t->receive) && t->ping_out == NULL &&
			  t->ping_in == NULL && t->notice_in == NULL && t->notice_out == NULL;

	return none && (t->gone || (twt_nl_messages_over(t) && t->pings_over));
}

/* Sleeps until something may have happened: on what is likely to come next. */
static void twt_nl_rest(struct twt_nl_traffic *t)
{
	struct tow_op *op = t->ping_in != NULL ? t->ping_in : t->notice_in;

	for (int i = 0; i < NL_WINDOW && op == NULL; i++)
		op = t->receive[i].op != NULL ? t->receive[i].op : t->send[i].op;
	if (op != NULL)
		tow_op_wait(op, NL_MS / 2);
}

/*
 * The last word. Whoever has the other's knows that all of its own has arrived; the other may be
 * gone before it has heard ours, as whoever closes last always may.
 */
static bool twt_nl_farewell(struct twt_nl_traffic *t)
{
	int status;

	if (!twt_nl_say(t, t->ping_data, 8, NL_FAREWELL, &t->farewell_out) ||
	    !twt_nl_hear(t, t->ping_data + NL_PINGS, 8, NL_FAREWELL, &t->farewell_in))
		return false;
	status = tow_op_wait(t->farewell_in, t->plan->deadline_ns + NL_SECOND);
	tow_op_release(t->farewell_in);
	tow_op_release(t->farewell_out);
	return status == TOW_OK || twt_nl_fail(t, "the last word", 0, status);
}

static bool twt_nl_finish(struct twt_nl_traffic *t, const char *what, struct tow_op *op)
{
	struct tow_result result = { .size = sizeof(result) };
	int status = tow_op_wait(op, t->plan->deadline_ns + NL_SECOND);

	if (status != TOW_OK)
		return twt_nl_fail(t, what, 0, status);
	tow_op_result(op, &result);
	tow_op_release(op);
	t->peer = result.peer;
	t->count->connected_ns = twt_nl_now();
	return true;
}

/* Side 1 listens; side 0 tries until it does. */
static bool twt_nl_connect(struct twt_nl_traffic *t)
{
	struct tow_op_options options = twt_nl_options(t);
	char here[64], there[64];
	struct tow_op *op;
	int status;

	snprintf(here, sizeof(here), "tcp://" NL_ADDRESS ":%d", t->side + 1, NL_PORT);
	snprintf(there, sizeof(there), "tcp://" NL_ADDRESS ":%d", 2, NL_PORT);
	status = tow_endpoint_open(t->runtime, here, &t->endpoint);
	if (status != TOW_OK)
		return twt_nl_fail(t, "tow_endpoint_open", 0, status);
	if (t->side == 1) {
		status = tow_accept_start(t->endpoint, &options, &op);
		return status == TOW_OK ? twt_nl_finish(t, "accept", op)
					: twt_nl_fail(t, "tow_accept_start", 0, status);
	}
	for (int tries = 0; tries < 100; tries++) {
		status = tow_connect_start(t->endpoint, there, &options, &op);
		if (status != TOW_OK)
			return twt_nl_fail(t, "tow_connect_start", 0, status);
		if (tow_op_wait(op, t->plan->deadline_ns + NL_SECOND) != TOW_EREFUSED)
			return twt_nl_finish(t, "connect", op);
		tow_op_release(op);
		usleep(20000);
	}
	return twt_nl_fail(t, "nobody listens", 0, TOW_EREFUSED);
}

static bool twt_nl_room(struct twt_nl_traffic *t)
{
	const struct twt_nl_plan *plan = t->plan;
	int status = TOW_OK;

	for (int i = 0; i < NL_WINDOW && status == TOW_OK; i++) {
		const uint64_t bytes =
			i == 0 && plan->huge > plan->largest ? plan->huge : plan->largest;

		status = tow_alloc(t->runtime, bytes, 0, (void **)&t->send[i].data);
		if (status == TOW_OK)
			status = tow_alloc(t->runtime, bytes, 0, (void **)&t->receive[i].data);
	}
	if (status == TOW_OK)
		status = tow_alloc(t->runtime, 2 * NL_PINGS, 0, (void **)&t->ping_data);
	if (status == TOW_OK)
		status = tow_alloc(t->runtime, 16, 0, (void **)&t->notice_words);
	if (status != TOW_OK)
		return twt_nl_fail(t, "tow_alloc", 0, status);
	memset(t->notice_words, 0, 16);
	t->came = calloc(plan->messages + 1, 1);
	t->withdrawn = calloc(plan->messages + 1, sizeof(*t->withdrawn));
	return t->came != NULL && t->withdrawn != NULL;
}

static void twt_nl_traffic_run(struct twt_nl_traffic *t)
{
	int status = tow_runtime_open(&t->plan->options, &t->runtime);
	bool good = true;

	if (status != TOW_OK) {
		twt_nl_fail(t, "tow_runtime_open", 0, status);
		return;
	}
	if (twt_nl_room(t) && twt_nl_connect(t)) {
		while (good && !twt_nl_over(t)) {
			good = twt_nl_step(t);
			twt_nl_rest(t);
		}
		if (good && !t->gone)
			twt_nl_farewell(t);
		t->count->ended_ns = twt_nl_now();
		status = tow_peer_close(t->peer);
		if (status != TOW_OK)
			twt_nl_fail(t, "tow_peer_close", 0, status);
	}
	tow_runtime_close(t->runtime);
	free(t->came);
	free(t->withdrawn);
}

int twt_nl_run_side(int side, void *arg)
{
	struct twt_nl_job *job = arg;
	struct twt_nl_traffic t = { .job = job,
				    .plan = &job->plan,
				    .count = &job->count[side],
				    .side = side,
				    .random = job->plan.seed * 2 + (uint64_t)side };

	twt_nl_traffic_run(&t);
	return job->count[side].failure[0] != '\0';
}

struct twt_nl_job *twt_nl_job_open(uint64_t seed)
{
	static const struct tow_options unset = TOW_OPTIONS_INIT;
	struct twt_nl_job *job =
		mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (job == MAP_FAILED)
		abort();
	job->plan = (struct twt_nl_plan){ .seed = seed,
					  .messages = 300,
					  .withdrawn_ppt = 150,
					  .largest = 1 << 20,
					  .deadline_ns = 30 * NL_SECOND,
					  .options = unset };
	job->plan.options.premap_memory_bytes = 32 << 20;
	job->plan.options.stats = 0;
	/* Three processes share few processors, and one of them is the cable. */
	job->plan.options.spin_ns = 0;
	return job;
}

void twt_nl_job_close(struct twt_nl_job *job)
{
	munmap(job, sizeof(*job));
}
