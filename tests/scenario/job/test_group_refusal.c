/*
 * test_group_refusal.c - one rank of a job has the knob `require`, and no connection meets it. In
 * each way in which a rank can ask for a connection, every rank is told the reason: the rank that
 * refuses by the property that is missing, and the others by the name of the knob.
 */
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include <towline/coll.h>
#include <towline/group_message.h>

#include "coll_team.h"
#include "twt.h"
#include <internal/base.h>

#define ODD     1u /* the rank */
#define WAIT_NS 20000000000ull

static const char *const lanes[] = { "tcp://127.0.0.1:0", "tow://127.0.0.1" };

/* Ranks that know why: in memory that the ranks share. */
static _Atomic unsigned *told;

static int connect_it(struct twt_rank *rank)
{
	struct tow_peer *peer;

	return tow_group_connect(rank->group, rank->rank == ODD ? 0 : ODD, WAIT_NS, &peer);
}

/* Messages are held until the connection is there. */
static int exchange(struct twt_rank *rank)
{
	struct tow_op *op;
	char bytes[8] = "message";

	if (rank->rank == ODD)
		TWT_OK(tow_group_send_start(rank->group, 0, bytes, sizeof(bytes), 7, NULL, &op));
	else
		TWT_OK(tow_group_recv_start(rank->group, ODD, bytes, sizeof(bytes), 7, NULL, &op));
	return twt_coll_end(op);
}

static int sum_up(struct twt_rank *rank)
{
	struct tow_op *op;
	uint32_t in = 1, out = 0;

	TWT_OK(tow_coll_all_reduce_start(rank->group, &in, &out, 1, TOW_U32, TOW_SUM, NULL, &op));
	return twt_coll_end(op);
}

static int (*const ways[])(struct twt_rank *rank) = { connect_it, exchange, sum_up };

/* Whoever has left before the others were told would be missed, and not refused. */
static void stay(const struct twt_rank *rank)
{
	atomic_fetch_add(told, 1);
	for (unsigned i = 0; i < 3000 && atomic_load(told) % rank->ranks != 0; i++)
		usleep(10000);
}

static void play(struct twt_rank *rank)
{
	int (*const *way)(struct twt_rank *) = rank->arg;
	const char *word = rank->rank == ODD ? "require=iface:ib0: it goes over lo" : "require";
	int status = (*way)(rank);

	if (strstr(tow_error_message(), word) == NULL ||
	    strstr(tow_error_message(), "has gone") != NULL)
		fprintf(stderr, "rank %u: %s: %s\n", rank->rank, tow_status_name(status),
			tow_error_message());
	TWT_TRUE(strstr(tow_error_message(), word) != NULL);
	TWT_TRUE(strstr(tow_error_message(), "has gone") == NULL);
	TWT_TRUE(status == TOW_EREFUSED);
	stay(rank);
}

static void set_options(struct tow_options *options)
{
	if (options->rank == ODD)
		options->require = "iface:ib0";
}

static void test_refusals(void **state)
{
	(void)state;
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(told, MAP_FAILED);
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		for (unsigned k = 0; k < sizeof(lanes) / sizeof(lanes[0]); k++) {
			print_message("way %u over %s\n", i, lanes[k]);
			twt_ranks(&(struct twt_job){ .ranks = 3,
						     .lane = lanes[k],
						     .run = play,
						     .arg = (void *)&ways[i],
						     .options = set_options });
		}
	}
	munmap(told, sizeof(*told));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_refusals) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
