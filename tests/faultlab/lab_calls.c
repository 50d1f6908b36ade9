/* lab_calls.c - steps of calls: rank 0 serves, the others have some under way at once. */
#include "lab.h"

#include <string.h>

#define CALL_BYTES 1024u
#define TAG_END    999u
#define CONNECT_NS 30000000000u

/* A handler that computes keeps the engine; so what else comes waits behind it. */
static void on_work(struct tow_call_in *call, void *user)
{
	const struct lab *lab = user;
	static const char answer[64] = "";

	while (lab_has(lab, "hang_handler") && !lab_stops(lab))
		lab_sleep(100000);
	lab_compute(lab, lab->serve_us);
	tow_reply_start(call, 0, answer, sizeof(answer), NULL, NULL);
}

static int rpc_open(struct lab *lab)
{
	int status = TOW_OK;

	if (lab->me == 0)
		status = tow_method_register(lab->runtime, "work", on_work, lab, NULL);
	if (status >= 0)
		status = tow_group_barrier(lab->group, CONNECT_NS);
	if (status >= 0 && lab->me != 0)
		status = tow_group_connect(lab->group, 0, CONNECT_NS, &lab->server);
	return status;
}

/* Who serves waits for a word that ends it; here none ever comes. */
static int serve_on(struct lab *lab)
{
	struct tow_op_options options = lab_op_options(lab);
	struct tow_op *op;
	int status;

	status = tow_group_recv_start(lab->group, 1, lab->buffers[0], 64, TAG_END, &options, &op);
	if (status < 0)
		return status;
	do
		status = lab_await(lab, op, 100 * LAB_MS);
	while (status == TOW_ETIMEDOUT && !lab_stops(lab));
	tow_op_cancel(op);
	tow_op_release(op);
	return status == TOW_ETIMEDOUT ? TOW_OK : status;
}

static int rpc_step(struct lab *lab, uint64_t n)
{
	struct tow_call_options options = lab_call_options(lab);
	static char answers[LAB_BUFFERS][64];
	struct tow_op *ops[LAB_BUFFERS];
	int count = 0, status = TOW_OK, ended;

	(void)n;
	if (lab->me == 0)
		return serve_on(lab);
	lab_compute(lab, lab->step_us);
	for (int64_t i = 0; status >= 0 && i < lab->buckets; i++) {
		status = tow_call_start(lab->server, "work", lab->buffers[i], CALL_BYTES,
					answers[i], sizeof(answers[i]), &options, &ops[count]);
		count += status >= 0;
	}
	ended = lab_finish(lab, ops, count);
	return status < 0 ? status : ended;
}

static bool rpc_counts(const struct lab *lab)
{
	return lab->me != 0;
}

const struct lab_shape lab_rpc = {
	.name = "rpc", .open = rpc_open, .step = rpc_step, .counts = rpc_counts
};
