/*
 * test_shm_messages.c - random traffic over shm against a plain model: what is sent is received
 * once, whole, and in the order of its tag, whatever memory it lies in, however large it is, with
 * receives before and after, views, and operations that are taken back at any moment.
 */
#include "shm_pair.h"

#define TAGS      3
#define OPS       48
#define BYTES_MAX (8u << 20)
#define STEPS     400

/* One operation in flight, and what the model knows of it. */
struct flying {
	struct tow_op *op;
	uint8_t *memory; /* of the send or of the receive; NULL: a view */
	bool pool;
	bool send, canceled;
	uint64_t id, bytes, tag;
	uint64_t serial; /* of its kind and tag */
};

static struct flying flying[2][OPS];
static struct flying done[2][TAGS][2][STEPS * 2]; /* [sender side][tag][receive?] */
static uint64_t done_count[2][TAGS][2];
static bool taken_back[2][TAGS];
static uint64_t serials[2][TAGS][2];
static struct tow_op *views[2][8];
static uint64_t random_state;

static uint64_t below(uint64_t bound)
{
	return twt_random_below(&random_state, bound);
}

static uint64_t some_bytes(void)
{
	switch (below(6)) {
	case 0:
		return below(3);
	case 1:
		return below(64);
	case 2:
		return below(20000);
	case 3:
		return 16380 + below(10);
	case 4:
		return below(300000);
	default:
		return below(8) == 0 ? below(BYTES_MAX) : below(1 << 20);
	}
}

static uint8_t *some_memory(int i, uint64_t bytes, bool *pool_out)
{
	void *memory = NULL;

	*pool_out = below(3) != 0 && tow_alloc(twt_shm.runtime[i], bytes + 1, 0, &memory) == TOW_OK;
	return *pool_out ? memory : malloc(bytes + 1);
}

static void drop_memory(int i, struct flying *f)
{
	if (f->memory != NULL && f->pool)
		TWT_OK(tow_free(twt_shm.runtime[i], f->memory));
	else
		free(f->memory);
	f->memory = NULL;
}

static void start(int i, struct flying *f)
{
	*f = (struct flying){ .send = below(2) != 0, .tag = below(TAGS) };
	f->serial = serials[f->send ? i : 1 - i][f->tag][!f->send]++;
	if (f->send) {
		f->bytes = some_bytes();
		f->id = twt_random(&random_state);
		f->memory = some_memory(i, f->bytes, &f->pool);
		twt_fill(f->memory, f->bytes, f->id);
		TWT_OK(tow_send_start(twt_shm.peer[i], f->memory, f->bytes, f->tag, NULL, &f->op));
	} else if (below(4) == 0) {
		TWT_OK(tow_recv_view_start(twt_shm.peer[i], f->tag, NULL, &f->op));
	} else {
		f->memory = some_memory(i, BYTES_MAX, &f->pool);
		TWT_OK(tow_recv_start(twt_shm.peer[i], f->memory, BYTES_MAX, f->tag, NULL, &f->op));
	}
}

/* A view may stay out for a while: what it shows must not change. */
static void keep_view(int i, struct tow_op *op)
{
	unsigned slot = (unsigned)below(twi_array_count(views[i]));

	if (views[i][slot] != NULL)
		TWT_OK(tow_view_release(views[i][slot]));
	views[i][slot] = op;
}

static void end(int i, struct flying *f)
{
	struct tow_result result = { .size = sizeof(result) };
	int from = f->send ? i : 1 - i;
	bool view = !f->send && f->memory == NULL;

	TWT_OK(tow_op_result(f->op, &result));
	if (result.status == TOW_OK) {
		struct flying *note =
			&done[from][f->tag][!f->send][done_count[from][f->tag][!f->send]++];

		*note = *f;
		note->bytes = result.bytes;
		if (!f->send) {
			/* found by its first bytes: the model has them all */
			note->id = result.rpc_id;
			if (f->memory != NULL)
				assert_ptr_equal(result.data, f->memory);
		} else {
			note->op = NULL;
			note->id = f->id;
			note->serial = f->serial;
			note->memory = NULL;
		}
		if (!f->send) {
			uint8_t *copy = malloc(result.bytes + 1);

			memcpy(copy, result.data, result.bytes);
			note->memory = copy;
		}
	} else {
		if (!f->canceled || result.status != TOW_ECANCELED)
			fail_msg("%s of %llu bytes at side %d ended with %s: %s",
				 f->send ? "send" : "receive", (unsigned long long)f->bytes, i,
				 tow_status_name(result.status), tow_error_message());
	}
	taken_back[from][f->tag] |= f->canceled;
	if (view && result.status == TOW_OK)
		keep_view(i, f->op);
	else
		TWT_OK(tow_op_release(f->op));
	drop_memory(i, f);
	f->op = NULL;
}

static void reap(void)
{
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < OPS; k++) {
			if (flying[i][k].op != NULL && tow_op_test(flying[i][k].op) != TOW_AGAIN)
				end(i, &flying[i][k]);
		}
	}
}

static void step(void)
{
	int i = (int)below(2);
	struct flying *f = &flying[i][below(OPS)];

	if (f->op == NULL) {
		start(i, f);
	} else if (below(4) == 0) {
		f->canceled = true;
		TWT_OK(tow_op_cancel(f->op));
	}
	if (below(3) == 0)
		twt_shm_turn();
	else if (below(2) == 0)
		(void)tow_progress(twt_shm.runtime[below(2)]);
	reap();
}

/* What is still in flight: each side receives until both have nothing any more. */
static void drain(void)
{
	uint64_t until = twi_now_ns() + 60 * TWT_SECOND;

	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < OPS; k++) {
			if (flying[i][k].op != NULL && !flying[i][k].send) {
				flying[i][k].canceled = true;
				TWT_OK(tow_op_cancel(flying[i][k].op));
			}
		}
	}
	for (;;) {
		int left = 0;

		for (int k = 0; k < 50; k++)
			twt_shm_turn();
		reap();
		for (int i = 0; i < 2; i++) {
			for (int k = 0; k < OPS; k++)
				left += flying[i][k].op != NULL && flying[i][k].send;
		}
		for (int i = 0; i < 2; i++) {
			for (uint64_t tag = 0; tag < TAGS; tag++) {
				struct flying f = { .tag = tag };

				f.memory = some_memory(i, BYTES_MAX, &f.pool);
				TWT_OK(tow_recv_start(twt_shm.peer[i], f.memory, BYTES_MAX, tag,
						      NULL, &f.op));
				for (int k = 0; k < 60; k++)
					twt_shm_turn();
				if (tow_op_test(f.op) == TOW_AGAIN) {
					f.canceled = true;
					TWT_OK(tow_op_cancel(f.op));
				}
				while (tow_op_test(f.op) == TOW_AGAIN)
					twt_shm_turn();
				if (!f.canceled)
					left++;
				end(i, &f);
			}
		}
		if (left == 0)
			return;
		assert_true(twi_now_ns() < until);
	}
}

/* Each message that was sent was received once, and nothing else was. */
static void compare(int from, uint64_t tag)
{
	struct flying *sent = done[from][tag][0], *got = done[from][tag][1];
	uint64_t count = done_count[from][tag][0];

	assert_int_equal(count, done_count[from][tag][1]);
	for (uint64_t r = 0; r < count; r++) {
		uint64_t s = 0;

		while (s < count && (sent[s].op == (void *)1 || sent[s].bytes != got[r].bytes ||
				     !twt_same(got[r].memory, got[r].bytes, sent[s].id)))
			s++;
		assert_true(s < count);
		if (!taken_back[from][tag] && sent[s].bytes > 8) /* receive n has message n */
			assert_int_equal(sent[s].serial, got[r].serial);
		sent[s].op = (void *)1;
	}
	for (uint64_t r = 0; r < count; r++)
		free(got[r].memory);
}

static void one_run(bool remote)
{
	memset(done_count, 0, sizeof(done_count));
	memset(taken_back, 0, sizeof(taken_back));
	memset(serials, 0, sizeof(serials));
	if (!remote)
		twt_shm_inside(0)->remote_mine = twt_shm_inside(1)->remote_mine = false;
	for (int i = 0; i < STEPS; i++)
		step();
	drain();
	for (int i = 0; i < 2; i++) {
		for (uint64_t tag = 0; tag < TAGS; tag++)
			compare(i, tag);
		for (size_t k = 0; k < twi_array_count(views[i]); k++) {
			if (views[i][k] != NULL)
				TWT_OK(tow_view_release(views[i][k]));
			views[i][k] = NULL;
		}
	}
	for (int i = 0; i < 200; i++)
		twt_shm_turn();
	for (int i = 0; i < 2; i++) {
		struct twi_engine *engine = twi_runtime_engine(twt_shm.runtime[i]);
		struct twi_pool_stats stats;

		twi_pool_stats(engine->pool, &stats);
		assert_int_equal(stats.leased, 0);
		assert_int_equal(twt_shm_inside(i)->offer_count, 0);
		assert_int_equal(twt_shm_inside(i)->expecting, 0);
		assert_int_equal(twt_shm_inside(i)->inbox.kept_bytes, 0);
		assert_int_equal(engine->staging.free_count, engine->staging.chunks);
	}
}

static void test_random(void **state)
{
	const char *text = getenv("TOW_SHM_RUNS");
	int runs = text != NULL ? atoi(text) : 6;
	uint64_t seed = twt_seed();

	for (int i = 0; i < runs; i++) {
		random_state = seed + (uint64_t)i;
		one_run(i % 2 == 0);
		twt_shm_close(state);
		twt_shm_open(state);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(
		test_random, twt_shm_open, twt_shm_close) };

	twt_shm_pool_bytes = 48 << 20; /* it grows to what views are out */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
