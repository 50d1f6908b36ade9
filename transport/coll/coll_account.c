/*
 * coll_account.c - counts what collectives have cost. See coll_account.h.
 *
 * Budget: the histograms of a collective, and five sums in cache lines that no other thread writes.
 */
#include "transport/coll/coll_account.h"

#include <sched.h>
#include <stdlib.h>

#include "transport/coll/coll_report.h"
#include "transport/engine/engine.h"
#include "transport/engine/held_count.h"
#include "transport/job/group.h"
#include "transport/op/endpoint.h"

#define READ_TURNS 100u
#define TELL_TURN  4u                     /* records that one ending collective looks at */
#define TELL_LATER (TWI_COLL_RECORDS / 4) /* so much later, a record without a wait is skipped */

static unsigned lane_of(const struct twi_coll_group *coll, uint32_t rank)
{
	const struct tow_peer *peer = coll->ranks->slots[coll->members[rank]].peer;
	enum twi_lane_id id = peer != NULL ? peer->lane->ops->id : TWI_LANE_COUNT;

	return twi_min((unsigned)id, (unsigned)TWI_LANE_COUNT);
}

/* Bytes of the `count` refs that lie in other ranks' memory, with `bytes` each. */
static uint64_t foreign_bytes(const struct twi_coll_group *coll, const struct twi_plan_ref *refs,
			      uint32_t count, uint64_t bytes)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++)
		sum += refs[i].rank != coll->rank ? bytes : 0;
	return sum;
}

static void add_step(const struct twi_coll_group *coll, const struct twi_plan *plan,
		     const struct twi_plan_step *step, uint64_t times, struct twi_coll_traffic *sum)
{
	const struct twi_plan_ref *refs = twi_plan_refs(plan, step);
	uint64_t bytes = step->bytes * times;

	switch (step->kind) {
	case TWI_PLAN_SEND:
		sum->sends += times;
		sum->sent[lane_of(coll, step->peer)] += bytes;
		break;
	case TWI_PLAN_RECV:
		sum->recvs += times;
		sum->received[lane_of(coll, step->peer)] += bytes;
		break;
	case TWI_PLAN_COPY:
		sum->copied += bytes;
		sum->written += foreign_bytes(coll, refs, 1, bytes);
		sum->read += foreign_bytes(coll, refs + 1, 1, bytes);
		break;
	case TWI_PLAN_REDUCE:
		sum->reduced += bytes * step->sources_n;
		sum->written += foreign_bytes(coll, refs, step->results_n, bytes);
		sum->read += foreign_bytes(coll, refs + step->results_n, step->sources_n, bytes);
		break;
	default:
		break;
	}
}

void twi_coll_add_up(const struct twi_coll_group *coll, const struct twi_plan *plan,
		     struct twi_coll_traffic *sum)
{
	*sum = (struct twi_coll_traffic){ 0 };
	for (uint32_t p = 0; p < plan->program_count; p++) {
		const struct twi_plan_program *program = &plan->programs[p];

		for (uint32_t i = 0; i < program->count; i++)
			add_step(coll, plan, &plan->steps[program->first + i], program->repeats,
				 sum);
	}
}

const char *twi_coll_way_name(unsigned way)
{
	if (way < TWI_LANE_COUNT)
		return twi_lane_name((enum twi_lane_id)way);
	return way == TWI_COLL_WAY_MIXED ? "mixed" : "none";
}

struct twi_coll_account *twi_coll_account_make(void)
{
	return calloc(1, sizeof(struct twi_coll_account));
}

void twi_coll_account_free(struct twi_coll_account *account)
{
	struct twi_coll_times *times, *next;

	if (account == NULL)
		return;
	times = atomic_load_explicit(&account->all, memory_order_relaxed);
	for (; times != NULL; times = next) {
		next = times->next;
		free(times);
	}
	free(account);
}

/* Returns empty times. */
static struct twi_coll_times *take_times(struct twi_coll_account *account, uint32_t key)
{
	struct twi_coll_times *times = account->spare;

	if (times != NULL) {
		account->spare = times->next_own;
		times->is_spare = false;
		atomic_store_explicit(&times->key, key, memory_order_relaxed);
		return times;
	}
	times = calloc(1, sizeof(*times));
	if (times == NULL)
		return NULL;
	atomic_init(&times->key, key);
	times->next = atomic_load_explicit(&account->all, memory_order_relaxed);
	/* release: a reader that finds it reads at least its zeros */
	atomic_store_explicit(&account->all, times, memory_order_release);
	return times;
}

/* The group's times of a key. NULL: no memory; the next collective tries again. */
static struct twi_coll_times *times_of(struct twi_coll_account *account,
				       struct twi_coll_group *coll, uint32_t key)
{
	struct twi_coll_times *times = coll->times;

	while (times != NULL && atomic_load_explicit(&times->key, memory_order_relaxed) != key)
		times = times->next_own;
	if (times != NULL || account == NULL)
		return times;
	times = take_times(account, key);
	if (times == NULL)
		return NULL;
	times->owned = true;
	times->next_own = coll->times;
	coll->times = times;
	return times;
}

static void clear_latency(struct twi_latency *latency)
{
	atomic_store_explicit(&latency->sum_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&latency->max_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&latency->bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&latency->steps, 0, memory_order_relaxed);
	for (unsigned i = 0; i < TWI_HIST_BUCKETS; i++)
		atomic_store_explicit(&latency->counts[i], 0, memory_order_relaxed);
}

static struct twi_coll_times *nobodys_times(struct twi_coll_account *account, uint32_t key)
{
	struct twi_coll_times *times = atomic_load_explicit(&account->all, memory_order_relaxed);

	for (; times != NULL; times = times->next) {
		if (!times->owned && !times->is_spare &&
		    atomic_load_explicit(&times->key, memory_order_relaxed) == key)
			return times;
	}
	return NULL;
}

/* Makes the times ownerless, or adds them to the ownerless ones of their key. */
static void leave_times(struct twi_coll_account *account, struct twi_coll_times *times)
{
	struct twi_coll_times *into =
		nobodys_times(account, atomic_load_explicit(&times->key, memory_order_relaxed));
	uint64_t version = atomic_load_explicit(&account->version, memory_order_relaxed);

	times->owned = false;
	if (into == NULL)
		return;
	atomic_store_explicit(&account->version, version + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release); /* the odd version comes before the changes */
	twi_latency_merge(&into->latency, &times->latency);
	twi_latency_merge(&into->skew, &times->skew);
	clear_latency(&times->latency);
	clear_latency(&times->skew);
	times->is_spare = true;
	times->next_own = account->spare;
	account->spare = times;
	/* release: all changes come before */
	atomic_store_explicit(&account->version, version + 2, memory_order_release);
}

void twi_coll_account_leave(struct twi_coll_group *coll)
{
	struct twi_coll_account *account =
		atomic_load_explicit(&coll->engine->coll_account, memory_order_relaxed);
	struct twi_coll_times *next;

	twi_assert_held(coll->engine);
	for (struct twi_coll_times *times = coll->times; times != NULL; times = next) {
		next = times->next_own;
		leave_times(account, times);
	}
	coll->times = NULL;
}

static void read_once(const struct twi_coll_account *account, uint32_t key,
		      struct twi_latency_sum *latency_out, struct twi_latency_sum *skew_out)
{
	struct twi_latency_sum one;
	/* acquire: pairs with the release of its maker */
	const struct twi_coll_times *times =
		atomic_load_explicit(&account->all, memory_order_acquire);

	*latency_out = *skew_out = (struct twi_latency_sum){ 0 };
	for (; times != NULL; times = times->next) {
		if (atomic_load_explicit(&times->key, memory_order_relaxed) != key)
			continue;
		if (twi_latency_read(&times->latency, &one))
			twi_latency_sum_add(latency_out, &one);
		if (twi_latency_read(&times->skew, &one))
			twi_latency_sum_add(skew_out, &one);
	}
}

bool twi_coll_account_read(const struct twi_coll_account *account, unsigned kind, unsigned way,
			   struct twi_latency_sum *latency_out, struct twi_latency_sum *skew_out)
{
	uint64_t before, after;

	/* Groups end rarely, so the turns suffice. */
	for (unsigned turn = 0; turn < READ_TURNS; turn++) {
		before = atomic_load_explicit(&account->version, memory_order_acquire);
		read_once(account, kind * TWI_COLL_WAYS + way, latency_out, skew_out);
		atomic_thread_fence(memory_order_acquire); /* all reads come before */
		after = atomic_load_explicit(&account->version, memory_order_relaxed);
		if (before == after && before % 2 == 0)
			break;
		sched_yield();
	}
	return latency_out->count > 0;
}

/* Computes what a call moves. If a lane is not known yet, the next collective tries again. */
static void find_moves(const struct twi_coll_group *coll, struct twi_coll_entry *entry)
{
	struct twi_coll_moves *moves = &entry->moves;
	struct twi_coll_traffic sum;
	unsigned way = TWI_COLL_WAY_NONE;

	twi_coll_add_up(coll, entry->plan, &sum);
	sum.sent[TWI_LANE_SHM] += sum.written;
	sum.received[TWI_LANE_SHM] += sum.read;
	moves->count = 0;
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		if (sum.sent[i] + sum.received[i] == 0)
			continue;
		moves->rows[moves->count++] = (struct twi_coll_move){ .lane = (uint8_t)i,
								      .sent = sum.sent[i],
								      .received = sum.received[i] };
		way = way == TWI_COLL_WAY_NONE ? i : TWI_COLL_WAY_MIXED;
	}
	/* A barrier in memory moves no bytes. */
	if (way == TWI_COLL_WAY_NONE && entry->plan->syncs > 0 && coll->locals_n > 1)
		way = TWI_LANE_SHM;
	moves->way = (uint8_t)way;
	moves->in_place_bytes = sum.read + sum.written;
	moves->known = sum.sent[TWI_LANE_COUNT] + sum.received[TWI_LANE_COUNT] == 0;
}

void twi_coll_account_run(struct twi_coll_run *run, uint64_t latency_ns, uint64_t skew_ns,
			  bool skew_known)
{
	struct twi_engine *engine = run->coll->engine;
	struct twi_coll_account *account =
		atomic_load_explicit(&engine->coll_account, memory_order_relaxed);
	struct twi_coll_moves *moves = &run->entry->moves;
	unsigned kind = run->entry->call.kind;
	struct twi_coll_sums *sums;

	twi_assert_held(engine);
	if (twi_unlikely(account == NULL))
		return;
	if (twi_unlikely(!moves->known || moves->times == NULL)) {
		find_moves(run->coll, run->entry);
		moves->times = times_of(account, run->coll, kind * TWI_COLL_WAYS + moves->way);
	}
	if (twi_likely(moves->times != NULL)) {
		twi_latency_add(&moves->times->latency, latency_ns);
		if (skew_known)
			twi_latency_add(&moves->times->skew, skew_ns);
	}
	sums = &account->sums[kind][moves->way];
	for (unsigned i = 0; i < moves->count; i++) {
		const struct twi_coll_move *move = &moves->rows[i];

		twi_cell_add(&sums->sent[move->lane], move->sent);
		twi_cell_add(&sums->received[move->lane], move->received);
	}
	if (moves->in_place_bytes > 0)
		twi_held_count(engine, TWI_C_coll_in_place_bytes, moves->in_place_bytes);
}

static void add_wait(struct twi_coll_account *account, const struct twi_coll_record *record,
		     uint64_t waited_ns, uint64_t slack_ns)
{
	struct twi_coll_sums *sums = &account->sums[record->kind][record->way];
	uint64_t took_ns = record->done_ns - twi_min(record->start_ns, record->done_ns);

	twi_cell_add(&sums->slack_count, 1);
	twi_cell_add(&sums->slack_ns, slack_ns);
	twi_cell_add(&sums->wait_ns, took_ns - twi_min(took_ns, waited_ns));
}

/* False: the collective is not over, or may still be waited for. */
static bool tell_record(struct twi_coll_account *account, const struct twi_coll_record *record,
			bool late)
{
	uint64_t waited_ns, slack_ns;

	if (!record->ended || !twi_coll_record_waited(record, &waited_ns, &slack_ns))
		return late;
	if (record->status >= 0 && record->way < TWI_COLL_WAYS)
		add_wait(account, record, waited_ns, slack_ns);
	return true;
}

void twi_coll_account_tell(struct twi_engine *engine)
{
	struct twi_coll_account *account =
		atomic_load_explicit(&engine->coll_account, memory_order_relaxed);
	const struct twi_coll_log *log = engine->coll_log;

	twi_assert_held(engine);
	if (account == NULL || log == NULL)
		return;
	if (twi_unlikely(log->last - account->told > TWI_COLL_RECORDS - 1))
		account->told = log->last - (TWI_COLL_RECORDS - 1);
	for (unsigned turn = 0; turn < TELL_TURN && account->told < log->last; turn++) {
		uint64_t id = account->told + 1;
		const struct twi_coll_record *record = &log->rows[id % TWI_COLL_RECORDS];

		if (twi_likely(record->id == id) &&
		    !tell_record(account, record, log->last - id >= TELL_LATER))
			return;
		account->told = id;
	}
}
