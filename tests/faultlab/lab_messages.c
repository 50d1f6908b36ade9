/* lab_messages.c - steps of messages: neighbours of a ring, stages of a pipeline, a flow to one. */
#include "lab.h"

#define TAG_TOKEN 900u
#define TAG_CROSS 901u
#define TAG_WRONG 1000u

static void *buffer_of(struct lab *lab, uint64_t i)
{
	return lab->buffers[i % (uint64_t)lab->buckets];
}

static int start_receives(struct lab *lab, uint32_t from, struct tow_op **ops, int *count)
{
	struct tow_op_options options = lab_op_options(lab);
	int status = TOW_OK;

	for (int i = 0; status >= 0 && i < lab->messages; i++) {
		/* Nobody looks at what comes, so all of it may go to one place. */
		status = tow_group_recv_start(lab->group, from, lab->buffers[0],
					      (uint64_t)lab->bytes, (uint64_t)i, &options,
					      &ops[*count]);
		*count += status >= 0;
	}
	return status;
}

static int start_sends(struct lab *lab, uint32_t to, struct tow_op **ops, int *count)
{
	uint64_t wrong = lab_has(lab, "tag") ? TAG_WRONG : 0;
	struct tow_op_options options = lab_op_options(lab);
	int status = TOW_OK;

	for (int i = 0; status >= 0 && i < lab->messages; i++) {
		status = tow_group_send_start(lab->group, to, buffer_of(lab, 1),
					      (uint64_t)lab->bytes, (uint64_t)i + wrong, &options,
					      &ops[*count]);
		*count += status >= 0;
	}
	return status;
}

/* Two ranks that each receive before they send. */
static int cross_waits(struct lab *lab, int right)
{
	bool mine = lab->me == lab->rank % lab->size,
	     other = right != lab->me && lab->me == (lab->rank + 1) % lab->size;
	int with = mine ? right : (int)lab->rank;
	int status;

	if (!mine && !other)
		return TOW_OK;
	status = lab_recv(lab, (uint32_t)with, lab->buffers[0], 64, TAG_CROSS);
	return status < 0 ? status : lab_send(lab, (uint32_t)with, lab->buffers[0], 64, TAG_CROSS);
}

static bool is_fault(const struct lab *lab, const char *name)
{
	struct lab other = *lab;

	other.me = (int)lab->rank;
	return lab_has(&other, name);
}

static int ring_step(struct lab *lab, uint64_t n)
{
	uint32_t right = (uint32_t)((lab->me + 1) % lab->size),
		 left = (uint32_t)((lab->me + lab->size - 1) % lab->size);
	struct tow_op *ops[2 * LAB_MESSAGES];
	bool late = lab_has(lab, "late_recv");
	int count = 0, status = TOW_OK, ended;

	(void)n;
	lab_compute(lab, lab->step_us);
	if (is_fault(lab, "cross"))
		status = cross_waits(lab, (int)right);
	if (status >= 0 && !late)
		status = start_receives(lab, left, ops, &count);
	if (status >= 0)
		status = start_sends(lab, right, ops, &count);
	if (status >= 0 && late) {
		lab_sleep(lab->ms * 1000);
		status = start_receives(lab, left, ops, &count);
	}
	ended = lab_finish(lab, ops, count);
	return status < 0 ? status : ended;
}

/* What the last stage has made is told to the first, which so is a step ahead at most. */
static int hand_token(struct lab *lab)
{
	if (lab->size < 2)
		return TOW_OK;
	if (lab->me == lab->size - 1)
		return lab_send(lab, 0, lab->buffers[0], 64, TAG_TOKEN);
	return lab->me != 0
		       ? TOW_OK
		       : lab_recv(lab, (uint32_t)lab->size - 1, lab->buffers[0], 64, TAG_TOKEN);
}

static int pipe_step(struct lab *lab, uint64_t n)
{
	uint32_t before = (uint32_t)lab->me - 1, after = (uint32_t)lab->me + 1;
	int status = TOW_OK;

	(void)n;
	for (int64_t i = 0; status >= 0 && i < lab->messages; i++) {
		if (lab->me > 0)
			status = lab_recv(lab, before, lab->buffers[0], (uint64_t)lab->bytes,
					  (uint64_t)i);
		lab_compute(lab, lab->step_us / lab->messages);
		if (status >= 0 && lab->me < lab->size - 1)
			status = lab_send(lab, after, lab->buffers[0], (uint64_t)lab->bytes,
					  (uint64_t)i);
	}
	return status < 0 ? status : hand_token(lab);
}

/* Rank 0 takes what the others send, one by one; where it has the fault each costs it time. */
static int flow_take(struct lab *lab)
{
	int status = TOW_OK;

	for (int64_t i = 0; status >= 0 && i < lab->messages; i++) {
		for (uint32_t from = 1; status >= 0 && from < (uint32_t)lab->size; from++) {
			status = lab_recv(lab, from, lab->buffers[0], (uint64_t)lab->bytes,
					  (uint64_t)i);
			if (lab_has(lab, "credit") || lab_phase_now(lab) == LAB_MENDED)
				lab_sleep(lab->serve_us);
		}
	}
	return status;
}

static int flow_step(struct lab *lab, uint64_t n)
{
	struct tow_op *ops[LAB_MESSAGES];
	int count = 0, status, ended;

	(void)n;
	if (lab->me == 0)
		return flow_take(lab);
	lab_compute(lab, lab->step_us);
	status = start_sends(lab, 0, ops, &count);
	ended = lab_finish(lab, ops, count);
	return status < 0 ? status : ended;
}

static bool flow_counts(const struct lab *lab)
{
	return lab->me != 0;
}

const struct lab_shape lab_ring = { .name = "ring", .step = ring_step };
const struct lab_shape lab_pipe = { .name = "pipe", .step = pipe_step };
const struct lab_shape lab_flow = { .name = "flow", .step = flow_step, .counts = flow_counts };
