/*
 * test_group_messages.c - messages between the ranks of groups (towline/group_message.h), over each
 * lane: random traffic in several groups at once, to oneself as well, without any connection made
 * before. What ends them is in test_group_message_ends.c.
 */
#include "beside.h"
#include "coll_job.h"

#define AT_ONCE  4
#define GROUPS   5
#define MESSAGES 240
#define TAGS     8
#define LARGE    300000
#define HEAD     32u
#define WAITS    TWT_JOB_WAIT_NS

/* --- random traffic, of which every rank knows the plan by its seed --- */

struct send {
	uint32_t group, from, to; /* ranks of the job */
	uint64_t tag, bytes;
	uint32_t number; /* among those of one group, pair and tag */
};

struct plan {
	uint64_t seed;
	struct send sends[MESSAGES];
};

/* How the receives of a tag are made: all of one tag alike, so that each finds a message. */
enum how { EXACT, ANY_RANK, MASKED, ANY_MASKED, VIEW, PARTS, PROBED, CUT };

struct take {
	struct tow_op *op;
	uint8_t *data;
	uint32_t group;
	uint64_t tag;
	int from; /* rank of the job; -1: any */
	bool view;
};

/* The groups of a rank: NULL where it is no member. */
struct rank {
	struct twt_job *job;
	struct tow_group *groups[GROUPS];
	uint32_t members[GROUPS][TWT_JOB_RANKS], counts[GROUPS];
	uint32_t seen[GROUPS][TWT_JOB_RANKS][TAGS]; /* the next number from each rank */
	struct take takes[MESSAGES];
	struct tow_op *sends[MESSAGES];
	uint8_t *out[MESSAGES];
	unsigned take_count;
};

static bool is_member(const struct rank *rank, uint32_t group, uint32_t which)
{
	for (uint32_t i = 0; i < rank->counts[group]; i++) {
		if (rank->members[group][i] == which)
			return true;
	}
	return false;
}

static uint32_t rank_in(const struct rank *rank, uint32_t group, uint32_t which)
{
	uint32_t i = 0;

	while (rank->members[group][i] != which)
		i++;
	return i;
}

/* The job; all in turned order; the even ones and the odd ones; two of them; oneself. */
static void make_groups(struct rank *rank)
{
	struct twt_job *job = rank->job;
	const uint32_t size = (uint32_t)job->size, mine = (uint32_t)job->rank;

	rank->groups[0] = job->group;
	for (uint32_t i = 0; i < size; i++) {
		rank->members[0][rank->counts[0]++] = i;
		rank->members[1][rank->counts[1]++] = size - 1 - i;
		if (i % 2 == mine % 2)
			rank->members[2][rank->counts[2]++] = i;
	}
	twt_must(tow_group_split(job->group, 1, -(int64_t)mine, WAITS, &rank->groups[1]) == TOW_OK);
	twt_must(tow_group_split(job->group, mine % 2, mine, WAITS, &rank->groups[2]) == TOW_OK);
	for (uint32_t i = 0; i < 2 && i < size; i++)
		rank->members[3][rank->counts[3]++] = i;
	if (mine < 2)
		twt_must(tow_group_create(job->group, rank->members[3], rank->counts[3], "two",
					  WAITS, &rank->groups[3]) == TOW_OK);
	rank->members[4][rank->counts[4]++] = mine;
	twt_must(tow_group_create(job->group, rank->members[4], 1, NULL, WAITS, &rank->groups[4]) ==
		 TOW_OK);
}

/* The same at every rank: of a group that only others have it knows who is in it. */
static bool is_in(uint32_t group, uint32_t size, uint32_t a, uint32_t b)
{
	switch (group) {
	case 2:
		return a % 2 == b % 2;
	case 3:
		return a < 2 && b < 2 && size > 0;
	case 4:
		return a == b;
	default:
		return true;
	}
}

static void make_plan(struct plan *plan, uint32_t size)
{
	uint64_t random = plan->seed;
	uint32_t counts[GROUPS][TWT_JOB_RANKS][TWT_JOB_RANKS][TAGS] = { 0 };

	for (unsigned i = 0; i < MESSAGES; i++) {
		struct send *send = &plan->sends[i];

		do {
			send->group = (uint32_t)twt_random_below(&random, GROUPS);
			send->from = (uint32_t)twt_random_below(&random, size);
			send->to = (uint32_t)twt_random_below(&random, size);
		} while (!is_in(send->group, size, send->from, send->to));
		send->tag = twt_random_below(&random, TAGS);
		send->bytes =
			HEAD + (twt_random_below(&random, 6) == 0 ? twt_random_below(&random, LARGE)
								  : twt_random_below(&random, 200));
		send->number = counts[send->group][send->from][send->to][send->tag]++;
	}
}

static void write_head(uint8_t *data, const struct send *send)
{
	const uint64_t head[4] = { send->group, send->from, send->tag, send->number };

	memcpy(data, head, sizeof(head));
	for (uint64_t i = HEAD; i < send->bytes; i++)
		data[i] = (uint8_t)(i * 7 + send->number + send->from);
}

static void start_send(struct rank *rank, unsigned which, const struct send *send)
{
	const struct twt_job *job = rank->job;
	struct tow_group *group = rank->groups[send->group];

	void *memory = NULL;
	bool pool = which % 3 == 0 && tow_alloc(job->runtime, send->bytes, 64, &memory) == TOW_OK;

	rank->out[which] = pool ? memory : malloc(send->bytes);
	twt_must(rank->out[which] != NULL);
	write_head(rank->out[which], send);
	twt_must(tow_group_send_start(group, rank_in(rank, send->group, send->to), rank->out[which],
				      send->bytes, send->tag, NULL, &rank->sends[which]) == TOW_OK);
	/* Memory of the pool may go at once. */
	if (pool) {
		twt_must(tow_free(job->runtime, memory) == TOW_OK);
		rank->out[which] = NULL;
	}
}

static struct take *take_for(struct rank *rank, const struct send *send)
{
	struct take *take = &rank->takes[rank->take_count++];

	*take = (struct take){ .group = send->group, .tag = send->tag, .from = (int)send->from };
	return take;
}

/* Other tags than this one's kind of receive are never in a mask. */
static void start_take(struct rank *rank, const struct send *send)
{
	const struct twt_job *job = rank->job;
	struct tow_group *group = rank->groups[send->group];
	uint32_t from = rank_in(rank, send->group, send->from);
	struct take *take = take_for(rank, send);
	struct tow_group_match match = TOW_GROUP_MATCH_INIT;
	struct tow_part parts[3];

	take->data = calloc(1, LARGE + HEAD);
	twt_must(take->data != NULL);
	match.rank = from;
	match.tag = send->tag;
	parts[0] = (struct tow_part){ take->data, LARGE + HEAD };
	switch ((enum how)send->tag) {
	case EXACT:
	case CUT:
	case PROBED:
		twt_must(tow_group_recv_start(group, from, take->data, LARGE + HEAD, send->tag,
					      NULL, &take->op) == TOW_OK);
		return;
	case ANY_MASKED:
		match.tag |= 0xabull << 32;
		match.tag_mask = 0xff;
		match.rank = TOW_RANK_ANY;
		take->from = -1;
		break;
	case ANY_RANK:
		match.rank = TOW_RANK_ANY;
		take->from = -1;
		break;
	case MASKED:
		match.tag_mask = 0x7;
		break;
	case VIEW:
		take->view = true;
		twt_must(tow_group_recv_match_start(group, &match, NULL, 0, NULL, &take->op) ==
			 TOW_OK);
		return;
	case PARTS:
		parts[0].bytes = 5;
		parts[1] = (struct tow_part){ take->data + 5, 1000 };
		parts[2] = (struct tow_part){ take->data + 1005, LARGE + HEAD - 1005 };
		twt_must(tow_group_recv_match_start(group, &match, parts, 3, NULL, &take->op) ==
			 TOW_OK);
		return;
	}
	twt_must(tow_group_recv_match_start(group, &match, parts, 1, NULL, &take->op) == TOW_OK);
}

/* What came is the next of its sender in its group and tag, and whole. */
static void judge(struct rank *rank, const struct take *take, const struct tow_result *result)
{
	const struct twt_job *job = rank->job;
	const uint8_t *data = take->view ? result->data : take->data;
	uint64_t head[4];
	uint32_t from;

	twt_must(result->bytes >= HEAD);
	memcpy(head, data, sizeof(head));
	twt_must(head[0] == take->group && head[2] == take->tag && result->tag == take->tag);
	from = (uint32_t)head[1];
	twt_must(is_member(rank, take->group, from) &&
		 (take->from < 0 || from == (uint32_t)take->from));
	twt_must(tow_group_peer_rank(rank->groups[take->group], result->peer) ==
		 rank_in(rank, take->group, from));
	twt_must(head[3] == rank->seen[take->group][from][take->tag]++);
	for (uint64_t i = HEAD; i < result->bytes; i++)
		twt_must(data[i] == (uint8_t)(i * 7 + head[3] + from));
}

static void end_take(struct rank *rank, struct take *take)
{
	const struct twt_job *job = rank->job;
	struct tow_result result = TOW_RESULT_INIT;

	twt_must(tow_op_wait(take->op, WAITS) >= TOW_OK);
	twt_must(tow_op_result(take->op, &result) == TOW_OK);
	judge(rank, take, &result);
	twt_must((take->view ? tow_view_release(take->op) : tow_op_release(take->op)) == TOW_OK);
	free(take->data);
}

/* One that is looked for until it has come, and received then. */
static void take_probed(struct rank *rank, const struct send *send)
{
	const struct twt_job *job = rank->job;
	struct tow_group *group = rank->groups[send->group];
	struct tow_group_match match = TOW_GROUP_MATCH_INIT;
	struct tow_result found = TOW_RESULT_INIT;
	struct take take = { .group = send->group, .tag = send->tag, .from = -1 };
	uint64_t until = twt_job_now() + WAITS;
	int status;

	match.tag = send->tag;
	do
		status = tow_group_probe(group, &match, &found);
	while (status == TOW_AGAIN && twt_job_now() < until);
	twt_must(status == TOW_OK && found.tag == send->tag && found.bytes >= HEAD);
	take.data = calloc(1, found.bytes);
	twt_must(take.data != NULL);
	twt_must(tow_group_recv_start(group, tow_group_peer_rank(group, found.peer), take.data,
				      found.bytes, send->tag, NULL, &take.op) == TOW_OK);
	end_take(rank, &take);
}

/* Starts all, sends and receives in an order of this rank's own. */
static void start_all(struct rank *rank, const struct plan *plan)
{
	const uint32_t mine = (uint32_t)rank->job->rank;
	uint64_t random = plan->seed + mine;
	unsigned sent = 0, taken = 0;

	while (sent < MESSAGES || taken < MESSAGES) {
		bool sends =
			taken == MESSAGES || (sent < MESSAGES && twt_random_below(&random, 2) == 0);
		const struct send *next = &plan->sends[sends ? sent : taken];

		if (sends && next->from == mine)
			start_send(rank, sent, next);
		if (!sends && next->to == mine && next->tag != PROBED)
			start_take(rank, next);
		sent += sends;
		taken += !sends;
	}
}

static void play_traffic(struct twt_job *job, const void *arg)
{
	struct rank *rank = calloc(1, sizeof(*rank));
	struct plan *plan = calloc(1, sizeof(*plan));

	twt_must(rank != NULL && plan != NULL);
	plan->seed = *(const uint64_t *)arg;
	rank->job = job;
	make_plan(plan, (uint32_t)job->size);
	make_groups(rank);
	start_all(rank, plan);
	for (unsigned i = 0; i < MESSAGES; i++) {
		if (plan->sends[i].to == (uint32_t)job->rank && plan->sends[i].tag == PROBED)
			take_probed(rank, &plan->sends[i]);
	}
	for (unsigned i = 0; i < rank->take_count; i++)
		end_take(rank, &rank->takes[i]);
	for (unsigned i = 0; i < MESSAGES; i++) {
		if (rank->sends[i] == NULL)
			continue;
		twt_must(tow_op_wait(rank->sends[i], WAITS) >= TOW_OK);
		twt_must(tow_op_release(rank->sends[i]) == TOW_OK);
		free(rank->out[i]);
	}
	twt_must(tow_group_barrier(job->group, WAITS) == TOW_OK);
	for (unsigned i = 1; i < GROUPS; i++)
		twt_must(tow_group_close(rank->groups[i]) == TOW_OK);
	free(rank);
	free(plan);
}

static const int sizes[] = { 3, 4, 1 };
static uint64_t seed;

static void run(size_t which)
{
	const char *address = twt_job_addresses[which % TWT_JOB_ADDRESSES];
	uint64_t own = seed + which;

	if (address != NULL)
		twt_job_run(address, sizes[which / TWT_JOB_ADDRESSES], 0, play_traffic, &own, NULL);
}

static void all_lanes(void **state)
{
	(void)state;
	seed = twt_seed();
	twt_beside(TWT_JOB_ADDRESSES * sizeof(sizes) / sizeof(sizes[0]), AT_ONCE, run);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_lanes) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
