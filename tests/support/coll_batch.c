/* coll_batch.c - fused collectives of a random case. */
#include "coll_batch.h"

uint64_t twt_batch_below(struct twt_coll_batch *batch, uint64_t bound)
{
	return twt_random_below(&batch->order, bound);
}

static void twt_batch_shuffle(struct twt_coll_batch *batch, struct twt_coll_token *tokens,
			      uint64_t n)
{
	for (uint64_t i = n; i > 1; i--) {
		uint64_t k = twt_batch_below(batch, i);
		struct twt_coll_token was = tokens[k];

		tokens[k] = tokens[i - 1];
		tokens[i - 1] = was;
	}
}

/* A member here of every list, case by case. */
static struct twt_coll_token *twt_batch_tokens(struct twt_coll_batch *batch, uint64_t *n_out)
{
	struct twt_coll_token *tokens;
	uint64_t n = 0;

	for (uint32_t l = 0; l < batch->lists_n; l++)
		n += (uint64_t)batch->lists[l].cases_n * batch->lists[l].here;
	tokens = twt_coll_array(n, sizeof(*tokens));
	n = 0;
	for (uint32_t l = 0; l < batch->lists_n; l++)
		for (uint32_t k = 0; k < batch->lists[l].cases_n; k++)
			for (uint32_t m = 0; m < batch->lists[l].here; m++)
				tokens[n++] = (struct twt_coll_token){ l, m, k };
	*n_out = n;
	return tokens;
}

static void twt_list_open(struct twt_coll_batch *batch, struct twt_coll_list *list, uint32_t cases)
{
	list->cases_n = cases;
	list->started = twt_coll_array(list->here, sizeof(*list->started));
	for (uint32_t k = 0; k < cases; k++) {
		struct twt_coll_case *c = &list->cases[k];

		twt_coll_case_init(c, twt_coll_hash(list->seed, batch->window * 100 + k),
				   &list->world);
		list->calls[k] = twt_coll_array(list->here, sizeof(*list->calls[k]));
		for (uint32_t m = 0; m < list->here; m++)
			twt_coll_call_init(&list->calls[k][m], c, list->members[m], list->groups[m],
					   twt_coll_hash(c->seed, 7 + list->members[m]));
	}
}

static void twt_list_judge(struct twt_coll_batch *batch, struct twt_coll_list *list)
{
	for (uint32_t k = 0; k < list->cases_n; k++) {
		struct twt_coll_truth truth;

		twt_coll_truth_init(&truth, &list->cases[k]);
		for (uint32_t m = 0; m < list->here; m++) {
			struct twt_coll_call *call = &list->calls[k][m];
			uint64_t digest = twt_coll_call_end(call, &truth, &batch->wrong);

			batch->result(batch, &list->cases[k], call->rank, digest);
		}
		twt_coll_truth_fini(&truth);
	}
}

static void twt_list_close(struct twt_coll_list *list)
{
	for (uint32_t k = 0; k < list->cases_n; k++) {
		for (uint32_t m = 0; m < list->here; m++)
			twt_coll_call_fini(&list->calls[k][m]);
		free(list->calls[k]);
		twt_coll_case_fini(&list->cases[k]);
	}
	free(list->started);
}

static void twt_batch_failed(struct twt_coll_batch *batch, const struct twt_coll_call *call,
			     const char *what, int status)
{
	twt_coll_say(call->of, call->rank, call->of->forced != NULL ? call->of->forced->name : "?");
	fprintf(stderr, "%s: %s: %s\n", what, tow_status_name(status), tow_error_message());
	batch->wrong = true;
}

static void twt_batch_start(struct twt_coll_batch *batch)
{
	uint64_t n;
	struct twt_coll_token *tokens = twt_batch_tokens(batch, &n);

	twt_batch_shuffle(batch, tokens, n);
	for (uint64_t i = 0; i < n && !batch->wrong; i++) {
		struct twt_coll_list *list = &batch->lists[tokens[i].list];
		uint32_t next = list->started[tokens[i].member]++;
		struct twt_coll_call *call = &list->calls[next][tokens[i].member];
		int status = twt_coll_call_start(call);

		if (status < 0)
			twt_batch_failed(batch, call, "start", status);
		if (twt_batch_below(batch, 8) == 0)
			tow_progress(batch->runtime);
	}
	free(tokens);
}

/* Of a simulation TOW_ETIMEDOUT says that nothing will ever happen any more. */
static void twt_batch_wait(struct twt_coll_batch *batch, uint64_t timeout_ns)
{
	uint64_t n;
	struct twt_coll_token *tokens = twt_batch_tokens(batch, &n);

	twt_batch_shuffle(batch, tokens, n);
	for (uint64_t i = 0; i < n && !batch->wrong; i++) {
		struct twt_coll_list *list = &batch->lists[tokens[i].list];
		struct twt_coll_call *call = &list->calls[tokens[i].index][tokens[i].member];
		int status;

		while (twt_batch_below(batch, 3) == 0 && tow_op_test(call->op) == TOW_AGAIN)
			;
		status = tow_op_wait(call->op, timeout_ns);
		if (status != TOW_OK)
			twt_batch_failed(batch, call, "wait", status);
		else
			tow_op_release(call->op);
	}
	free(tokens);
}

bool twt_batch_window(struct twt_coll_batch *batch, uint32_t cases, uint64_t timeout_ns)
{
	for (uint32_t l = 0; l < batch->lists_n; l++)
		twt_list_open(batch, &batch->lists[l], cases);
	twt_batch_start(batch);
	if (!batch->wrong)
		twt_batch_wait(batch, timeout_ns);
	for (uint32_t l = 0; l < batch->lists_n && !batch->wrong; l++)
		twt_list_judge(batch, &batch->lists[l]);
	if (batch->wrong)
		return false;
	for (uint32_t l = 0; l < batch->lists_n; l++) {
		batch->done += cases;
		twt_list_close(&batch->lists[l]);
	}
	batch->window++;
	return true;
}
