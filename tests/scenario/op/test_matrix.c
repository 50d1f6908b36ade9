/*
 * test_matrix.c - every kind of memory, on every lane, under every policy: what was copied, what
 * was registered late and what was refused, against a table, and against somebody who looks on.
 *
 *   loop as a NIC   the tap sees each address that the NIC is given: what does not lie in the
 *                   user's buffer was copied
 *   tcp             each request on its way to the kernel is looked at: payload that goes by
 *                   SENDMSG out of the user's buffer is copied by the kernel, by SEND_ZC it is
 *                   asked not to be
 *
 * A runtime for each (lane, policy, strict, late cache), connected to itself; in it each kind of
 * memory is sent to each kind, large and small. Cells are judged one by one, by differences.
 */
#include "twt.h"

#include <string.h>
#include <sys/mman.h>

#include "onlook.h"
#include "pair.h"

#include <towline/towline.h>

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "memreg/user/watch.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/sim/loop_nic.h"

#define SECOND 1000000000ull
#define POOL   (8u << 20)
#define LARGE  (1500000u)
#define SMALL  3000u
#define PAGE   4096u
#define INSIDE 192u /* where a message begins in its mapping: not at a page's start */
/* Sanitized, half of the worlds: every two of policy, strict and late cache still meet. */
#ifdef TWT_SANITIZED
#define LEFT_OUT(i) ((((i) ^ (i) >> 1 ^ (i) >> 2) & 1) != 0)
#else
#define LEFT_OUT(i) false
#endif

enum lane { TCP_AUTO, TCP_ALWAYS, LOOP, NIC, LANES };
enum memory { IN_POOL, GROWN, OUTSIDE, REGISTERED, UNREGISTERED, MEMORIES };

/* What becomes of a large message's memory on one side. */
enum fate { FINE, COPIED, LATE, REFUSED };

struct rule {
	enum fate fate;
	enum twi_reason reason; /* of COPIED and LATE */
};

static const char *const lane_names[] = { "tcp auto", "tcp always", "loop", "nic" };
static const char *const memory_names[] = { "pool", "grown", "outside", "registered",
					    "unregistered" };
static const char *const policies[] = { "grow", "copy", "wait", "fail" };

#define SEND_COPY                                                                                  \
	{                                                                                          \
		COPIED, TWI_R_unregistered_send                                                    \
	}
#define RECV_COPY                                                                                  \
	{                                                                                          \
		COPIED, TWI_R_unregistered_recv                                                    \
	}
#define OUT_COPY                                                                                   \
	{                                                                                          \
		COPIED, TWI_R_pool_exhausted                                                       \
	}
#define REGISTER                                                                                   \
	{                                                                                          \
		LATE, TWI_R_late_user_memory                                                       \
	}
#define NOT_STRICT                                                                                 \
	{                                                                                          \
		REFUSED, 0                                                                         \
	}
#define NOTHING                                                                                    \
	{                                                                                          \
		FINE, 0                                                                            \
	}

/* [lane][side: send, receive]; all other memory is used as it lies. */
static const struct rule outside_rule[LANES][2] = {
	[TCP_AUTO] = { NOTHING, NOTHING },
	[TCP_ALWAYS] = { OUT_COPY, NOTHING },
	[LOOP] = { NOTHING, NOTHING },
	[NIC] = { OUT_COPY, OUT_COPY },
};

/* [lane][side][late cache: off, on, or strict mode] */
static const struct rule unregistered_rule[LANES][2][3] = {
	[TCP_AUTO] = { { NOTHING, NOTHING, NOT_STRICT }, { NOTHING, NOTHING, NOTHING } },
	[TCP_ALWAYS] = { { SEND_COPY, REGISTER, NOT_STRICT }, { NOTHING, NOTHING, NOTHING } },
	[LOOP] = { { NOTHING, NOTHING, NOTHING }, { NOTHING, NOTHING, NOTHING } },
	[NIC] = { { SEND_COPY, REGISTER, NOT_STRICT }, { RECV_COPY, REGISTER, NOT_STRICT } },
};

struct buffer {
	enum memory memory;
	uint8_t *base, *at; /* of the mapping or allocation; of the message */
	uint64_t bytes;     /* of the mapping */
	uint64_t handle;
};

static struct world {
	enum lane lane;
	unsigned policy;
	bool strict, late;
	struct tow_runtime *runtime;
	struct twi_engine *engine;
	struct tow_endpoint *here, *there;
	struct tow_peer *a, *b;
	struct buffer kept[3][2]; /* pool, grown, outside: send, receive */
	void *filler[64];
	unsigned fillers;
} world;

static void where(const char *what)
{
	fail_msg("%s, exhaust=%s, require_zero_copy=%d, late cache %s: %s: %s",
		 lane_names[world.lane], policies[world.policy], world.strict,
		 world.late ? "on" : "off", what, tow_error_message());
}

static void ok(int status, const char *what)
{
	if (status != TOW_OK)
		where(what);
}

static void join(void)
{
	const char *address = world.lane < LOOP ? "tcp://127.0.0.1:0" : "loop://there";
	struct tow_op *connect, *accept;
	char to[TOW_ADDRESS_MAX];
	struct tow_result result;

	ok(tow_endpoint_open(world.runtime, world.lane < LOOP ? address : "loop://here",
			     &world.here),
	   "endpoint");
	ok(tow_endpoint_open(world.runtime, address, &world.there), "endpoint");
	ok(tow_endpoint_address(world.there, to, sizeof(to)), "address");
	ok(tow_accept_start(world.there, NULL, &accept), "accept");
	ok(tow_connect_start(world.here, to, NULL, &connect), "connect");
	ok(twt_finish(connect, &result), "connect");
	world.a = result.peer;
	ok(twt_finish(accept, &result), "accept");
	world.b = result.peer;
}

static bool outside(const void *p)
{
	return twi_pool_find(world.engine->pool, p, 1) == NULL;
}

static bool grown(const void *p)
{
	const struct twi_extent *extent = twi_pool_find(world.engine->pool, p, 1);

	return extent != NULL && extent->slot > 0;
}

static uint64_t counter(enum twi_counter id)
{
	return twi_counter_sum(world.engine->diag, id);
}

/* Fills the pool, and sees that what comes then is what the policy says. */
static void fill_pool(void)
{
	uint64_t refused = counter(TWI_C_zero_copy_refusals);
	bool degrades = world.policy < 2 && !world.strict;
	void *memory;
	int status;

	while ((status = tow_alloc(world.runtime, 512u << 10, 0, &memory)) == TOW_OK) {
		world.filler[world.fillers++] = memory;
		assert_true(world.fillers < 64);
		if (outside(memory) || grown(memory))
			break;
	}
	if (status != (degrades ? TOW_OK : TOW_EEXHAUSTED))
		where("a full pool");
	if (degrades && (world.policy == 0 ? !grown(memory) : !outside(memory)))
		where("the memory of a full pool");
	assert_int_equal(counter(TWI_C_zero_copy_refusals) - refused,
			 world.strict && world.policy < 2);
	assert_int_equal(counter(TWI_C_pool_wait_timeouts), world.policy == 2);
	assert_true(counter(TWI_C_pool_exhausted) > 0);
	for (int side = 0; degrades && side < 2; side++) {
		enum memory kind = world.policy == 0 ? GROWN : OUTSIDE;

		ok(tow_alloc(world.runtime, LARGE + INSIDE, 0, &memory), "alloc");
		world.kept[kind][side] = (struct buffer){ .memory = kind, .base = memory };
		world.kept[kind][side].at = world.kept[kind][side].base + INSIDE;
		assert_true(kind == GROWN ? grown(memory) : outside(memory));
	}
}

static void open_world(enum lane lane, unsigned policy, bool strict, bool late)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	world = (struct world){ .lane = lane, .policy = policy, .strict = strict, .late = late };
	options.premap_memory_bytes = POOL;
	options.stats = 0;
	options.max_ops = 64;
	options.staging_bytes = 1 << 20;
	options.exhaust = policies[policy];
	options.exhaust_wait_ns = 1000000;
	options.require_zero_copy = strict;
	options.zerocopy = lane == TCP_ALWAYS ? "always" : "auto";
	options.background = 0;         /* what is seen is written by the thread that drives */
	options.zerocopy_min_bytes = 1; /* so that no rest of a chunk is too small for it */
	options.late_cache_bytes = late ? -1 : 0;
	ok(tow_runtime_open(&options, &world.runtime), "open");
	world.engine = twi_runtime_engine(world.runtime);
	if (lane == NIC)
		ok(twi_loop_nic_attach(world.engine, tap, NULL), "attach");
	ok(tow_runtime_seal(world.runtime), "seal");
	join();
	for (int side = 0; side < 2; side++) {
		void *memory;

		ok(tow_alloc(world.runtime, LARGE + INSIDE, 0, &memory), "alloc");
		world.kept[IN_POOL][side] = (struct buffer){ .memory = IN_POOL, .base = memory };
		world.kept[IN_POOL][side].at = (uint8_t *)memory + INSIDE;
	}
	fill_pool();
}

static void close_world(void)
{
	struct twi_pool_stats stats;

	if (world.lane == NIC)
		assert_int_equal(twi_loop_nic_refused(world.engine), 0);
	ok(tow_peer_close(world.a), "close");
	ok(tow_peer_close(world.b), "close");
	for (unsigned i = 0; i < world.fillers; i++)
		ok(tow_free(world.runtime, world.filler[i]), "free");
	for (int i = 0; i < 6; i++)
		ok(tow_free(world.runtime, world.kept[i / 2][i % 2].base), "free");
	for (int i = 0; i < 10000; i++) {
		twi_pool_stats(world.engine->pool, &stats);
		if (stats.leased == 0)
			break;
		tow_progress(world.runtime);
	}
	if (stats.leased != 0 || stats.overflow != 0 || stats.deferred != 0)
		where("memory is left");
	assert_int_equal(stats.allocations, 1); /* the staging */
	ok(tow_runtime_close(world.runtime), "runtime close");
}

static struct buffer take(enum memory memory, int side)
{
	struct buffer buffer = { .memory = memory };
	void *at;

	if (memory < REGISTERED)
		return world.kept[memory][side];
	buffer.bytes = (INSIDE + LARGE + PAGE - 1) / PAGE * PAGE;
	at = mmap(NULL, buffer.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(at != MAP_FAILED);
	buffer.base = at;
	buffer.at = buffer.base + INSIDE;
	if (memory == REGISTERED)
		ok(tow_mem_register(world.runtime, buffer.at, LARGE, &buffer.handle), "register");
	return buffer;
}

/* What was sent zero-copy is in use until its notification. */
static void give(struct buffer *buffer)
{
	int status = TOW_EBUSY;

	if (buffer->memory < REGISTERED)
		return;
	for (int i = 0; buffer->handle != 0 && status == TOW_EBUSY && i < 1000000; i++) {
		status = tow_mem_deregister(world.runtime, buffer->handle);
		if (status == TOW_EBUSY)
			tow_progress(world.runtime);
	}
	if (buffer->handle != 0)
		ok(status, "deregister");
	munmap(buffer->base, buffer->bytes);
}

static struct rule rule_of(enum memory memory, int side)
{
	if (memory == OUTSIDE)
		return outside_rule[world.lane][side];
	if (memory == UNREGISTERED)
		return unregistered_rule[world.lane][side][world.strict ? 2 : world.late];
	return (struct rule){ .fate = FINE };
}

struct sums {
	uint64_t necessary, fallback, late, refusals, unregistered[2], plain_recv;
	struct twi_reason_sum reason[TWI_R_COUNT];
};

static void read_sums(struct sums *sums)
{
	sums->necessary = counter(TWI_C_necessary_copy_bytes);
	sums->fallback = counter(TWI_C_fallback_copy_bytes);
	sums->late = counter(TWI_C_late_registration_bytes);
	sums->refusals = counter(TWI_C_zero_copy_refusals);
	sums->unregistered[0] = counter(TWI_C_unregistered_send_bytes);
	sums->unregistered[1] = counter(TWI_C_unregistered_recv_bytes);
	for (int i = 0; i < TWI_R_COUNT; i++)
		twi_reason_sum(world.engine->diag, i, &sums->reason[i]);
}

static void fill(struct buffer *out, struct buffer *in, uint64_t bytes, uint64_t seed)
{
	twt_fill(out->at, bytes, seed + 1); /* of seed 0 it would begin with zeros */
	memset(in->at, 0, bytes);
}

static void check_payload(const struct buffer *in, uint64_t bytes, uint64_t seed)
{
	if (!twt_same(in->at, bytes, seed + 1))
		where("a payload is wrong");
}

/* The difference of each reason is what the rules of both sides, and `unexpected`, say. */
static void check_reasons(const struct sums *before, const struct sums *after,
			  const struct rule rules[2], uint64_t bytes, uint64_t unexpected,
			  const char *cell)
{
	uint64_t pages = ((uintptr_t)INSIDE + bytes + PAGE - 1) / PAGE * PAGE;

	for (int i = 0; i < TWI_R_COUNT; i++) {
		uint64_t got = after->reason[i].bytes - before->reason[i].bytes, want = 0;

		for (int side = 0; side < 2; side++)
			if (rules[side].fate != FINE && rules[side].fate != REFUSED &&
			    (int)rules[side].reason == i)
				want += rules[side].fate == COPIED ? bytes : pages;
		want += i == TWI_R_unexpected_arrival ? unexpected : 0;
		if (got != want)
			fail_msg("%s: reason %d has %llu bytes, expected %llu", cell, i,
				 (unsigned long long)got, (unsigned long long)want);
	}
}

/* What the onlookers saw is what the counters say. */
static void check_seen(const struct sums *before, const struct sums *after,
		       const struct rule rules[2], uint64_t bytes, uint64_t eager, const char *cell)
{
	uint64_t copied = after->fallback - before->fallback + after->necessary - before->necessary;
	uint64_t independent = eager;

	if (world.lane == NIC)
		independent += seen.staged[0] + seen.staged[1];
	if (world.lane == TCP_ALWAYS && eager == 0) {
		/* all of it in one of the two ways */
		assert_true((seen.plain > 0) != (seen.zerocopy > 0));
		independent += seen.plain > 0 ? bytes : 0;
	}
	if (copied != independent)
		fail_msg("%s: %llu bytes are counted, %llu were seen", cell,
			 (unsigned long long)copied, (unsigned long long)independent);
	for (int side = 0; world.lane == NIC && side < 2; side++)
		assert_int_equal(seen.staged[side], rules[side].fate == COPIED ? bytes : 0);
}

static const char *cell_name(enum memory out, enum memory in, uint64_t bytes)
{
	static char text[200];

	snprintf(text, sizeof(text), "%s, exhaust=%s, strict %d, late %d: %s to %s, %llu bytes",
		 lane_names[world.lane], policies[world.policy], world.strict, world.late,
		 memory_names[out], memory_names[in], (unsigned long long)bytes);
	return text;
}

/* Both sides are asked; a refused receive has no send to wait for. */
static void large_cell(enum memory from, enum memory to)
{
	struct buffer out = take(from, 0), in = take(to, 1);
	const struct rule rules[2] = { rule_of(from, 0), rule_of(to, 1) };
	const char *cell = cell_name(from, to, LARGE);
	struct tow_op *send = NULL, *recv;
	struct sums before, after;
	struct tow_result result;
	uint64_t refusals = 0;

	read_sums(&before);
	fill(&out, &in, LARGE, from * 8 + to);
	seen = (struct seen){ .out = out.at, .bytes = LARGE };
	ok(tow_recv_start(world.b, in.at, LARGE, 1, NULL, &recv), "recv");
	if (rules[1].fate != REFUSED || rules[0].fate == REFUSED) {
		ok(tow_send_start(world.a, out.at, LARGE, 1, NULL, &send), "send");
		refusals = rules[0].fate == REFUSED;
		assert_int_equal(twt_finish(send, NULL), refusals ? TOW_EZEROCOPY : TOW_OK);
	}
	if (refusals != 0 && rules[1].fate != REFUSED)
		ok(tow_op_cancel(recv), "cancel");
	assert_int_equal(twt_finish(recv, &result), rules[1].fate == REFUSED ? TOW_EZEROCOPY
						    : refusals != 0          ? TOW_ECANCELED
									     : TOW_OK);
	refusals += rules[1].fate == REFUSED;
	read_sums(&after);
	assert_int_equal(after.refusals - before.refusals, refusals);
	if (refusals == 0) {
		assert_int_equal(result.bytes, LARGE);
		check_payload(&in, LARGE, from * 8 + to);
		check_reasons(&before, &after, rules, LARGE, 0, cell);
		check_seen(&before, &after, rules, LARGE, 0, cell);
		for (int side = 0; side < 2; side++) {
			bool was = (side ? to : from) == UNREGISTERED && rules[side].fate != LATE;

			assert_int_equal(after.unregistered[side] - before.unregistered[side],
					 was ? LARGE : 0);
		}
	} else {
		assert_int_equal(after.fallback, before.fallback);
	}
	seen.out = NULL;
	give(&out);
	give(&in);
}

/* A small message: two copies by design, whatever the memory; a third when nobody expected it. */
static void small_cell(enum memory from, enum memory to, bool expected)
{
	static const struct rule fine[2] = { NOTHING, NOTHING };
	struct buffer out = take(from, 0), in = take(to, 1);
	const char *cell = cell_name(from, to, SMALL);
	uint64_t copies = expected ? 2 : 3, came = counter(TWI_C_unexpected_messages);
	struct tow_op *send, *recv = NULL;
	struct sums before, after;

	read_sums(&before);
	fill(&out, &in, SMALL, from * 8 + to + 99);
	seen = (struct seen){ .out = out.at, .bytes = SMALL };
	if (expected)
		ok(tow_recv_start(world.b, in.at, SMALL, 2, NULL, &recv), "recv");
	ok(tow_send_start(world.a, out.at, SMALL, 2, NULL, &send), "send");
	ok(twt_finish(send, NULL), "send");
	if (!expected) {
		for (int i = 0; counter(TWI_C_unexpected_messages) == came && i < 1000000; i++)
			tow_progress(world.runtime);
		ok(tow_recv_start(world.b, in.at, SMALL, 2, NULL, &recv), "recv");
	}
	ok(twt_finish(recv, NULL), "recv");
	read_sums(&after);
	check_payload(&in, SMALL, from * 8 + to + 99);
	assert_int_equal(after.necessary - before.necessary, 2 * SMALL);
	assert_int_equal(after.late, before.late);
	check_reasons(&before, &after, fine, SMALL, expected ? 0 : SMALL, cell);
	check_seen(&before, &after, fine, SMALL, copies * SMALL, cell);
	assert_int_equal(seen.plain + seen.zerocopy, 0);
	seen.out = NULL;
	give(&out);
	give(&in);
}

static bool there_is(enum memory memory)
{
	return memory >= REGISTERED || world.kept[memory][0].base != NULL;
}

static unsigned run_cells(void)
{
	unsigned cells = 0;

	for (int from = 0; from < MEMORIES; from++) {
		for (int to = 0; to < MEMORIES; to++) {
			if (!there_is((enum memory)from) || !there_is((enum memory)to))
				continue;
			large_cell((enum memory)from, (enum memory)to);
			small_cell((enum memory)from, (enum memory)to, true);
			small_cell((enum memory)from, (enum memory)to, false);
			cells += 3;
		}
	}
	return cells;
}

static bool can_watch(void)
{
	struct twi_watch watch = { .lock = NULL };
	bool able = twi_watch_start(&watch) == TOW_OK;

	twi_watch_stop(&watch);
	return able;
}

static void run_lane(enum lane lane)
{
	unsigned cells = 0;
	bool watch = can_watch();

	for (unsigned i = 0; i < 4 * 2 * 2; i++) {
		bool late = (i & 1) != 0;

		if ((late && !watch) || LEFT_OUT(i))
			continue;
		open_world(lane, i >> 2, (i >> 1 & 1) != 0, late);
		cells += run_cells();
		close_world();
	}
	printf("%s: %u cells%s\n", lane_names[lane], cells,
	       watch ? "" : ", without a late cache: userfaultfd is refused here");
}

static void test_tcp_auto(void **state)
{
	(void)state;
	run_lane(TCP_AUTO);
}

static void test_tcp_always(void **state)
{
	(void)state;
	run_lane(TCP_ALWAYS);
}

static void test_loop(void **state)
{
	(void)state;
	run_lane(LOOP);
}

static void test_nic(void **state)
{
	(void)state;
	run_lane(NIC);
}

#define HUGE_BYTES (32u << 20)

/* A chunk that is more than the socket takes at once goes in pieces, and each byte counts once. */
static void test_cut_short(void **state)
{
	uint8_t *out = malloc(HUGE_BYTES), *in = malloc(HUGE_BYTES);
	struct tow_op *send, *recv;
	struct twi_reason_sum sum;

	(void)state;
	assert_true(out != NULL && in != NULL);
	setenv("TOW_BULK_CHUNK_BYTES", "8MiB", 1);
	open_world(TCP_ALWAYS, 3, false, false);
	unsetenv("TOW_BULK_CHUNK_BYTES");
	memset(out, 7, HUGE_BYTES);
	ok(tow_recv_start(world.b, in, HUGE_BYTES, 1, NULL, &recv), "recv");
	ok(tow_send_start(world.a, out, HUGE_BYTES, 1, NULL, &send), "send");
	ok(twt_finish(send, NULL), "send");
	ok(twt_finish(recv, NULL), "recv");
	assert_memory_equal(in, out, HUGE_BYTES);
	twi_reason_sum(world.engine->diag, TWI_R_unregistered_send, &sum);
	assert_int_equal(sum.bytes, HUGE_BYTES);
	assert_true(sum.count > HUGE_BYTES / (8u << 20));
	close_world();
	free(out);
	free(in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp_auto),  cmocka_unit_test(test_tcp_always),
		cmocka_unit_test(test_loop),      cmocka_unit_test(test_nic),
		cmocka_unit_test(test_cut_short),
	};

	alarm(200);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
