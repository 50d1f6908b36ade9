/*
 * test_coll_faults.c - the Nth allocation fails while a group of two sets its collectives up, and
 * during its first one of each kind. Each rank gets a status that says so, or the collective works
 * all the same; the other one is not left waiting, nothing leaks, and the next group works.
 */
#include "twt.h"

#include <netinet/in.h>
#include <pthread.h>
#include <string.h>

#include <towline/towline.h>

#include "beside.h"
#include "fault_net.h"
#include "lane_pair.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

#define WAIT_NS   20000000000u
#define COUNT     300u
#define POOL      (4 << 20)
#define KINDS     12
#define NTH_LIMIT 120

struct side {
	struct tow_runtime *runtime;
	struct tow_group *world, *group;
	pthread_t thread;
	const char *address;
	int rank, kind;
	int status;
	char text[512];
	int32_t in[4 * COUNT], out[4 * COUNT];
};

static char store[64];

static void note(struct side *side)
{
	snprintf(side->text, sizeof(side->text), "%s", tow_error_message());
}

static int start(struct side *side, const struct tow_coll_options *options, struct tow_op **op)
{
	static const uint64_t counts[2] = { COUNT, COUNT / 2 };
	static const struct tow_coll_pair pairs[2] = { { 0, 1 }, { 1, 0 } };
	uint64_t send[2] = { side->rank == 0 ? 1 : COUNT, side->rank == 0 ? 2 : 3 };
	uint64_t receive[2] = { side->rank == 0 ? 1 : 2, side->rank == 0 ? COUNT : 3 };
	const struct tow_coll_parts out = { send, NULL }, in = { receive, NULL };
	struct tow_group *group = side->group;
	int32_t *a = side->in, *b = side->out;

	switch (side->kind) {
	case 0:
		return tow_coll_all_reduce_start(group, a, b, COUNT, TOW_S32, TOW_SUM, options, op);
	case 1:
		return tow_coll_reduce_scatter_start(group, a, b, COUNT, TOW_S32, TOW_SUM, options,
						     op);
	case 2:
		return tow_coll_all_gather_start(group, a, b, COUNT, TOW_S32, options, op);
	case 3:
		return tow_coll_all_gather_v_start(group, a, b, counts, NULL, TOW_S32, options, op);
	case 4:
		return tow_coll_broadcast_start(group, b, COUNT, TOW_S32, 1, options, op);
	case 5:
		return tow_coll_reduce_start(group, a, b, COUNT, TOW_S32, TOW_SUM, 1, options, op);
	case 6:
		return tow_coll_gather_start(group, a, b, COUNT, TOW_S32, 0, options, op);
	case 7:
		return tow_coll_scatter_start(group, a, b, COUNT, TOW_S32, 0, options, op);
	case 8:
		return tow_coll_all_to_all_start(group, a, b, COUNT, TOW_S32, options, op);
	case 9:
		return tow_coll_all_to_all_v_start(group, a, &out, b, &in, TOW_S32, options, op);
	case 10:
		return tow_coll_permute_start(group, a, b, COUNT, TOW_S32, pairs, 2, options, op);
	default:
		return tow_coll_barrier_start(group, options, op);
	}
}

/* One rank's part: its first collective, and its end. */
static void *play(void *arg)
{
	struct tow_coll_options options = TOW_COLL_OPTIONS_INIT;
	struct side *side = arg;
	struct tow_op *op;

	options.timeout_ns = 300000000;
	side->status = start(side, &options, &op);
	note(side);
	if (side->status == TOW_OK) {
		side->status = tow_op_wait(op, WAIT_NS);
		note(side);
		tow_op_release(op);
	}
	tow_group_close(side->group);
	return NULL;
}

static void *split(void *arg)
{
	struct side *side = arg;

	side->status = tow_group_split(side->world, 0, side->rank, WAIT_NS, &side->group);
	note(side);
	return NULL;
}

static void *open_side(void *arg)
{
	struct tow_group_options options = TOW_GROUP_OPTIONS_INIT;
	struct side *side = arg;

	options.rank = side->rank;
	options.world_size = 2;
	options.store = store;
	options.address = side->address;
	options.timeout_ns = WAIT_NS;
	side->status = tow_group_open(side->runtime, &options, &side->world);
	note(side);
	return NULL;
}

static void *close_side(void *arg)
{
	struct side *side = arg;

	side->status = tow_group_close(side->world);
	note(side);
	return NULL;
}

static void both(struct side sides[2], void *(*what)(void *side))
{
	assert_int_equal(pthread_create(&sides[1].thread, NULL, what, &sides[1]), 0);
	what(&sides[0]);
	pthread_join(sides[1].thread, NULL);
}

static void both_well(struct side sides[2], const char *name, void *(*what)(void *side))
{
	both(sides, what);
	if (sides[0].status != TOW_OK || sides[1].status != TOW_OK)
		fail_msg("%s: %s: %s; %s: %s", name, tow_status_name(sides[0].status),
			 sides[0].text, tow_status_name(sides[1].status), sides[1].text);
}

static void open_sides(struct side sides[2], const char *address)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = POOL;
	options.stats = 0;
	memset(sides, 0, 2 * sizeof(sides[0]));
	for (int i = 0; i < 2; i++) {
		sides[i].rank = i;
		sides[i].address = address;
		assert_int_equal(tow_runtime_open(&options, &sides[i].runtime), TOW_OK);
	}
	both_well(sides, "open", open_side);
}

/* What the pool has given away beside the library's own staging: nothing, after a while. */
static uint64_t allocated(const struct side *side)
{
	struct twi_engine *engine = twi_runtime_engine(side->runtime);
	struct twi_pool_stats stats;

	twi_pool_stats(engine->pool, &stats);
	return stats.allocated - engine->staging.bytes;
}

static void expect_no_leak(struct side sides[2])
{
	for (int turn = 0; turn < 2000 && allocated(&sides[0]) + allocated(&sides[1]) > 0; turn++) {
		tow_progress(sides[0].runtime);
		tow_progress(sides[1].runtime);
		usleep(1000);
	}
	assert_int_equal(allocated(&sides[0]) + allocated(&sides[1]), 0);
}

static void close_sides(struct side sides[2])
{
	both_well(sides, "close", close_side);
	for (int i = 0; i < 2; i++)
		assert_int_equal(tow_runtime_close(sides[i].runtime), TOW_OK);
}

static bool is_legal(const struct side *side)
{
	return side->status == TOW_OK ||
	       ((side->status == TOW_ENOMEM || side->status == TOW_EPEER ||
		 side->status == TOW_EDEADLINE) &&
		side->text[0] != '\0');
}

/* One try. False: the fault was not reached. */
static bool try_once(struct side sides[2], int kind, bool of_calloc, int nth)
{
	bool hit;

	sides[0].kind = sides[1].kind = kind;
	both_well(sides, "split", split);
	if (of_calloc)
		twt_fault_arm(TWT_CALLOC, nth);
	else
		twt_net_fault_arm(TWT_MALLOC, nth);
	both(sides, play);
	hit = of_calloc ? twt_fault_off() : twt_net_fault_off();
	for (int i = 0; i < 2; i++) {
		if (!is_legal(&sides[i]))
			fail_msg("kind %d, %s %d: rank %d ends with %s: %s", kind,
				 of_calloc ? "calloc" : "malloc", nth, i,
				 tow_status_name(sides[i].status), sides[i].text);
	}
	return hit;
}

static void reserve_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
	snprintf(store, sizeof(store), "127.0.0.1:%u", ntohs(at.sin_port));
}

/* A connection that failed for want of memory has gone for good: both of the job start anew. */
static void all_kinds(const char *address, bool of_calloc)
{
	struct side sides[2];
	int met = 0;

	open_sides(sides, address);
	for (int kind = 0; kind < KINDS; kind++) {
		int nth = 1;

		for (; nth < NTH_LIMIT && try_once(sides, kind, of_calloc, nth); nth++) {
			met++;
			expect_no_leak(sides);
			if (!try_once(sides, kind, of_calloc, NTH_LIMIT) &&
			    sides[0].status == TOW_OK && sides[1].status == TOW_OK)
				continue;
			close_sides(sides);
			open_sides(sides, address);
		}
		assert_true(nth < NTH_LIMIT);
	}
	print_message("%s: %d faults of %s\n", address, met, of_calloc ? "calloc" : "malloc");
	if (of_calloc)
		assert_true(met > 5 * KINDS);
	close_sides(sides);
}

/* A lane, and which function fails. */
struct row {
	const char *address;
	bool of_calloc;
};

static void faults(void **state)
{
	const struct row *row = *state;

#ifdef TWT_SANITIZED
	print_message("sanitizers keep calloc for themselves\n");
	skip();
#endif
	reserve_port();
	all_kinds(row->address, row->of_calloc);
}

int main(void)
{
	struct row rows[2 * TWT_LANE_ROWS_ALWAYS];
	struct CMUnitTest tests[2 * TWT_LANE_ROWS_ALWAYS];

	for (size_t i = 0; i < 2 * TWT_LANE_ROWS_ALWAYS; i++) {
		rows[i] = (struct row){ twt_lane_rows[i / 2].address[0], i % 2 == 0 };
		tests[i] = (struct CMUnitTest){ "faults", faults, NULL, NULL, &rows[i] };
	}
	/* Each fault costs the other rank its deadline. */
	return twt_beside_tests(tests, 2 * TWT_LANE_ROWS_ALWAYS, 1, 2 * TWT_LANE_ROWS_ALWAYS);
}
