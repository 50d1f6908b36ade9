/*
 * test_read_only.c - payload that a program cannot write, as weights in a mapped file: it can be
 * sent, and be the input of every collective and the data of a broadcast's root, over every lane
 * that joins processes. No byte of it is written: that would end the process.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towline/group_message.h>

#include "bytes.h"
#include "coll_team.h"
#include "twt.h"
#include <internal/base.h>

#define RANKS 3u
#define ROOT  1u
#define MOST  ((300u << 10) + 3) /* bytes of a rank's part: it goes piece by piece */

struct payload {
	struct twt_rank *rank;
	const uint8_t *in; /* RANKS parts that nobody can write */
	uint8_t *out;
	uint8_t *most;  /* the greatest of what the ranks have at each place of their input */
	uint64_t bytes; /* of a part */
};

static uint64_t seed_of(uint32_t rank, uint32_t part)
{
	return 1 + rank * RANKS + part;
}

/* A file's mapping, private or shared. Part p of rank r has the bytes of seed_of(r, p). */
static const uint8_t *map_file(uint32_t rank, uint64_t bytes, int flags)
{
	uint8_t *part = malloc(bytes);
	int fd = memfd_create("weights", MFD_CLOEXEC);
	void *at;

	TWT_TRUE(fd >= 0 && part != NULL);
	for (uint32_t i = 0; i < RANKS; i++) {
		twt_fill(part, bytes, seed_of(rank, i));
		TWT_TRUE(write(fd, part, bytes) == (ssize_t)bytes);
	}
	free(part);
	at = mmap(NULL, RANKS * bytes, PROT_READ, flags, fd, 0);
	TWT_TRUE(at != MAP_FAILED);
	close(fd);
	return at;
}

/* The parts of `out` are, in turn, those of `seeds`. */
static void must_have(const struct payload *p, const uint64_t *seeds, uint32_t parts)
{
	for (uint32_t i = 0; i < parts; i++)
		TWT_TRUE(twt_same(p->out + i * p->bytes, p->bytes, seeds[i]));
}

static uint8_t *most_of(uint64_t bytes)
{
	uint8_t *most = calloc(RANKS, bytes);

	TWT_TRUE(most != NULL);
	for (uint32_t r = 0; r < RANKS; r++) {
		const uint8_t *in = map_file(r, bytes, MAP_PRIVATE);

		for (uint64_t i = 0; i < RANKS * bytes; i++)
			most[i] = twi_max(most[i], in[i]);
		munmap((void *)(uintptr_t)in, RANKS * bytes);
	}
	return most;
}

static void end_well(int status, struct tow_op *op)
{
	TWT_TRUE(status == TOW_OK);
	TWT_TRUE(twt_coll_end(op) >= 0);
}

static void send_round(const struct payload *p)
{
	struct tow_group *group = p->rank->group;
	uint32_t own = p->rank->rank, before = (own + RANKS - 1) % RANKS;
	struct tow_op *send, *receive;

	TWT_OK(tow_group_recv_start(group, before, p->out, p->bytes, 1, NULL, &receive));
	TWT_OK(tow_group_send_start(group, (own + 1) % RANKS, p->in, p->bytes, 1, NULL, &send));
	TWT_TRUE(twt_coll_end(send) >= 0 && twt_coll_end(receive) >= 0);
	must_have(p, (uint64_t[]){ seed_of(before, 0) }, 1);
}

static void broadcast(const struct payload *p)
{
	bool is_root = p->rank->rank == ROOT;
	struct tow_op *op = NULL;
	int status = tow_coll_broadcast_start(p->rank->group,
					      is_root ? (void *)(uintptr_t)p->in : p->out, p->bytes,
					      TOW_U8, ROOT, NULL, &op);

	end_well(status, op);
	if (!is_root)
		must_have(p, (uint64_t[]){ seed_of(ROOT, 0) }, 1);
}

static void gather(const struct payload *p)
{
	const uint64_t firsts[] = { seed_of(0, 0), seed_of(1, 0), seed_of(2, 0) };
	struct tow_group *group = p->rank->group;
	struct tow_op *op = NULL;
	int status = tow_coll_all_gather_start(group, p->in, p->out, p->bytes, TOW_U8, NULL, &op);

	end_well(status, op);
	must_have(p, firsts, RANKS);
	status = tow_coll_gather_start(group, p->in, p->out, p->bytes, TOW_U8, ROOT, NULL, &op);
	end_well(status, op);
	if (p->rank->rank == ROOT)
		must_have(p, firsts, RANKS);
}

static void scatter(const struct payload *p)
{
	uint32_t own = p->rank->rank;
	struct tow_group *group = p->rank->group;
	struct tow_op *op = NULL;
	int status =
		tow_coll_scatter_start(group, p->in, p->out, p->bytes, TOW_U8, ROOT, NULL, &op);

	end_well(status, op);
	must_have(p, (uint64_t[]){ seed_of(ROOT, own) }, 1);
	status = tow_coll_all_to_all_start(group, p->in, p->out, p->bytes, TOW_U8, NULL, &op);
	end_well(status, op);
	must_have(p, (uint64_t[]){ seed_of(0, own), seed_of(1, own), seed_of(2, own) }, RANKS);
}

static void reduce(const struct payload *p)
{
	struct tow_group *group = p->rank->group;
	uint64_t all = RANKS * p->bytes;
	struct tow_op *op = NULL;
	int status =
		tow_coll_all_reduce_start(group, p->in, p->out, all, TOW_U8, TOW_MAX, NULL, &op);

	end_well(status, op);
	TWT_TRUE(memcmp(p->out, p->most, all) == 0);
	status = tow_coll_reduce_start(group, p->in, p->out, all, TOW_U8, TOW_MAX, ROOT, NULL, &op);
	end_well(status, op);
	if (p->rank->rank == ROOT)
		TWT_TRUE(memcmp(p->out, p->most, all) == 0);
	status = tow_coll_reduce_scatter_start(group, p->in, p->out, p->bytes, TOW_U8, TOW_MAX,
					       NULL, &op);
	end_well(status, op);
	TWT_TRUE(memcmp(p->out, p->most + p->rank->rank * p->bytes, p->bytes) == 0);
}

static void play_with(struct twt_rank *rank, uint64_t bytes, int flags, bool pooled)
{
	struct payload p = { rank, map_file(rank->rank, bytes, flags), NULL, most_of(bytes),
			     bytes };
	void *out = NULL;

	if (pooled)
		TWT_OK(tow_alloc(rank->runtime, RANKS * bytes, 0, &out));
	else
		out = calloc(RANKS, bytes);
	TWT_TRUE(out != NULL);
	p.out = out;
	send_round(&p);
	broadcast(&p);
	gather(&p);
	scatter(&p);
	reduce(&p);
	if (pooled)
		TWT_OK(tow_free(rank->runtime, out));
	else
		free(out);
	free(p.most);
	munmap((void *)(uintptr_t)p.in, RANKS * bytes);
}

static void play(struct twt_rank *rank)
{
	static const uint64_t sizes[] = { 8, 5000, 70001, MOST };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		play_with(rank, sizes[i], MAP_PRIVATE, i % 2 == 0);
		play_with(rank, sizes[i], MAP_SHARED, i % 2 != 0);
	}
}

static void test_read_only(void **state)
{
	(void)state;
	twt_ranks_by_lane(&(struct twt_job){ .ranks = RANKS, .run = play, .pool_bytes = 32 << 20 });
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_read_only) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
