/*
 * test_parts.c - messages of random parts over every lane, against a plain reference: what is sent
 * is a row of bytes, cut and scattered over memory of all kinds; what comes must be that row, in
 * parts that are cut otherwise, in one piece, or in a view. Small and large, too long, taken back
 * and too late; every byte of every block is looked at, those between the parts too; and when all
 * is over nothing of the pools is lent.
 */
#include "twt.h"

#include <string.h>

#include <towline/match.h>

#include "lane_pair.h"

#define CUTS_MAX  40u
#define LUMPS     3u
#define GAP_MAX   96u
#define BATCH_MAX 6u
#define BATCHES   14u
#define LONGEST   (3u << 20)
#define BLANK     0xa5

static struct twt_lane_pair pair;
static uint64_t seed;

/* --- memory that a row of bytes is scattered over --- */

struct lump {
	uint8_t *base;
	size_t bytes;
	uint64_t handle;
	enum twt_memory kind;
};

struct sheet {
	struct tow_runtime *runtime;
	struct lump lumps[LUMPS];
	unsigned lump_count;
	uint8_t lump_of[CUTS_MAX];
	struct tow_part parts[CUTS_MAX];
	uint32_t count;
	uint64_t total;
};

static uint64_t below(uint64_t bound)
{
	return twt_random_below(&seed, bound);
}

static void cut_sheet(struct sheet *sheet)
{
	uint64_t left = sheet->total;

	for (uint32_t i = 0; i < sheet->count; i++) {
		uint64_t most = left, n;

		if (i % 2 == 0 && sheet->count > 1)
			most = twi_min(left, 3 * sheet->total / sheet->count + 1);
		n = i + 1 == sheet->count ? left : below(6) == 0 ? 0 : below(most + 1);
		sheet->parts[i].bytes = n;
		left -= n;
	}
}

/* In which order parts lie in memory has nothing to do with their order in the message. */
static void shuffle(uint32_t *order, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	for (uint32_t i = count; below(2) == 0 && i > 1; i--) {
		uint32_t j = (uint32_t)below(i), kept = order[i - 1];

		order[i - 1] = order[j];
		order[j] = kept;
	}
}

static void place_sheet(struct sheet *sheet)
{
	uint32_t order[CUTS_MAX];
	size_t at[CUTS_MAX];

	shuffle(order, sheet->count);
	for (uint32_t i = 0; i < sheet->count; i++) {
		uint32_t part = order[i];
		unsigned which = (unsigned)below(sheet->lump_count);
		struct lump *lump = &sheet->lumps[which];

		sheet->lump_of[part] = (uint8_t)which;
		lump->bytes += below(3) == 0 ? 0 : below(GAP_MAX);
		at[part] = lump->bytes;
		lump->bytes += sheet->parts[part].bytes;
	}
	for (unsigned i = 0; i < sheet->lump_count; i++) {
		struct lump *lump = &sheet->lumps[i];

		lump->bytes += 1 + below(GAP_MAX);
		lump->base = twt_memory_get(sheet->runtime, lump->kind, lump->bytes, &lump->handle);
		memset(lump->base, BLANK, lump->bytes);
	}
	for (uint32_t i = 0; i < sheet->count; i++) {
		struct tow_part *part = &sheet->parts[i];

		part->data = sheet->lumps[sheet->lump_of[i]].base + at[i];
		if (part->bytes == 0 && below(2) == 0)
			part->data = NULL;
	}
}

static void sheet_make(struct sheet *sheet, int side, uint64_t total, bool whole)
{
	*sheet = (struct sheet){ .runtime = pair.runtime[side], .total = total };
	sheet->count = whole ? 1 : 1 + (uint32_t)below(below(2) == 0 ? 4 : CUTS_MAX);
	sheet->lump_count = whole ? 1 : 1 + (unsigned)below(LUMPS);
	for (unsigned i = 0; i < sheet->lump_count; i++)
		sheet->lumps[i].kind = (enum twt_memory)below(TWT_MEMORIES);
	cut_sheet(sheet);
	place_sheet(sheet);
}

/* A zero-copy send may hold a region until the kernel has said that it is over. */
static void let_go(struct lump *lump, struct tow_runtime *runtime)
{
	uint64_t until = twi_now_ns() + 10 * TWT_SECOND;
	int status;

	while ((status = tow_mem_deregister(runtime, lump->handle)) == TOW_EBUSY) {
		assert_true(twi_now_ns() < until);
		twt_lane_turn(&pair);
	}
	TWT_OK(status);
	lump->kind = TWT_PLAIN;
}

static void sheet_free(struct sheet *sheet)
{
	for (unsigned i = 0; i < sheet->lump_count; i++) {
		struct lump *lump = &sheet->lumps[i];

		if (lump->kind == TWT_REGISTERED)
			let_go(lump, sheet->runtime);
		if (lump->base != NULL)
			twt_memory_put(sheet->runtime, lump->kind, lump->base, lump->handle);
		lump->base = NULL;
	}
}

/* Memory of the pool may be given back as soon as the send is started. */
static void sheet_free_pool(struct sheet *sheet)
{
	for (unsigned i = 0; i < sheet->lump_count; i++) {
		struct lump *lump = &sheet->lumps[i];

		if (lump->kind == TWT_POOL) {
			TWT_OK(tow_free(sheet->runtime, lump->base));
			lump->base = NULL;
		}
	}
}

static void sheet_put(const struct sheet *sheet, const uint8_t *row)
{
	for (uint32_t i = 0; i < sheet->count; i++) {
		if (sheet->parts[i].bytes > 0)
			memcpy(sheet->parts[i].data, row, sheet->parts[i].bytes);
		row += sheet->parts[i].bytes;
	}
}

/* What each block must hold when the first `got` bytes of the row have come (known), or some. */
static void sheet_judge(const struct sheet *sheet, const uint8_t *row, uint64_t got, bool known)
{
	for (unsigned l = 0; l < sheet->lump_count; l++) {
		const struct lump *lump = &sheet->lumps[l];
		uint8_t *want = malloc(lump->bytes);
		uint64_t from = 0;

		assert_non_null(want);
		memset(want, BLANK, lump->bytes);
		for (uint32_t i = 0; i < sheet->count; from += sheet->parts[i++].bytes) {
			const struct tow_part *part = &sheet->parts[i];
			uint64_t n = from < got ? twi_min(got - from, part->bytes) : 0;

			if (sheet->lump_of[i] != l || part->bytes == 0)
				continue;
			if (known)
				memcpy(want + ((uint8_t *)part->data - lump->base), row + from, n);
			else
				memcpy(want + ((uint8_t *)part->data - lump->base), part->data,
				       part->bytes);
		}
		assert_memory_equal(lump->base, want, lump->bytes);
		free(want);
	}
}

/* --- messages --- */

enum shape { IN_PARTS, IN_ONE, IN_VIEW };

struct message {
	int from; /* which side sends */
	uint64_t tag;
	uint8_t *row;
	uint64_t bytes, room;
	enum shape shape[2]; /* of the send, of the receive */
	struct sheet sheets[2];
	struct tow_op *ops[2]; /* send, receive; NULL: it was over in the call */
	bool truncates, freed, disturbed;
};

static uint64_t some_length(void)
{
	switch (below(6)) {
	case 0:
		return below(65);
	case 1:
		return below(1000);
	case 2:
		return below(5000);
	case 3:
		return below(70000);
	case 4:
		return below(400000);
	default:
		return below(LONGEST);
	}
}

static void message_make(struct message *m, uint64_t tag)
{
	*m = (struct message){ .from = (int)below(2), .tag = tag, .bytes = some_length() };
	m->room = m->bytes;
	m->shape[0] = below(5) == 0 ? IN_ONE : IN_PARTS;
	m->shape[1] = below(3) > 0 ? IN_PARTS : below(2) == 0 ? IN_ONE : IN_VIEW;
	m->truncates = below(4) == 0;
	if (m->shape[1] != IN_VIEW && below(4) == 0)
		m->room = below(2) == 0 ? m->bytes + below(2000) : below(m->bytes + 1);
	m->row = malloc(m->bytes + 1);
	assert_non_null(m->row);
	for (uint64_t i = 0; i < m->bytes; i++)
		m->row[i] = (uint8_t)(twt_random(&seed) >> 20);
	sheet_make(&m->sheets[0], m->from, m->bytes, m->shape[0] == IN_ONE);
	sheet_put(&m->sheets[0], m->row);
	if (m->shape[1] != IN_VIEW)
		sheet_make(&m->sheets[1], !m->from, m->room, m->shape[1] == IN_ONE);
}

static struct tow_op_options some_options(struct message *m, bool recv)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	if (recv && m->truncates)
		options.flags |= TOW_OP_TRUNCATE;
	if (!recv && below(3) == 0)
		options.flags |= TOW_OP_AT_ONCE;
	if (below(20) == 0) {
		options.timeout_ns = below(400000);
		m->disturbed = true;
	}
	return options;
}

static void start_send(struct message *m)
{
	struct tow_op_options options = some_options(m, false);
	struct sheet *sheet = &m->sheets[0];
	struct tow_peer *peer = pair.peer[m->from];

	if (m->shape[0] == IN_ONE)
		TWT_OK(tow_send_start(peer, sheet->parts[0].data, m->bytes, m->tag, &options,
				      &m->ops[0]));
	else
		TWT_OK(tow_send_parts_start(peer, sheet->parts, sheet->count, m->tag, &options,
					    &m->ops[0]));
	m->freed = below(3) == 0;
	if (m->freed)
		sheet_free_pool(sheet);
}

static void start_recv(struct message *m)
{
	struct tow_op_options options = some_options(m, true);
	struct sheet *sheet = &m->sheets[1];
	struct tow_match match = TOW_MATCH_INIT;
	int side = !m->from;

	match.tag = m->tag;
	if (below(3) == 0) { /* the tags of a batch differ above these bits */
		match.tag_mask = ~3ull;
		match.tag |= below(4);
	}
	/* Of any peer: on one runtime that of the other end is a peer of another endpoint. */
	match.peer = below(3) == 0 ? NULL : pair.peer[side];
	TWT_OK(tow_recv_match_start(pair.endpoint[side], &match, sheet->parts, sheet->count,
				    &options, &m->ops[1]));
}

static void disturb(struct message *m)
{
	struct tow_op *op = m->ops[below(2)];

	if (op == NULL)
		return;
	TWT_OK(tow_op_cancel(op));
	m->disturbed = true;
}

static bool is_early(int status)
{
	return status == TOW_ECANCELED || status == TOW_EDEADLINE;
}

static void judge_recv(struct message *m, const struct tow_result *result)
{
	const bool cut = m->shape[1] != IN_VIEW && m->room < m->bytes;
	const uint64_t fits = cut ? m->room : m->bytes;

	if (result->status == TOW_OK) {
		assert_true(!cut || m->truncates);
		assert_int_equal(result->bytes, fits);
		assert_int_equal(result->dropped_bytes, m->bytes - fits);
		assert_int_equal(result->tag, m->tag);
		assert_ptr_equal(result->peer, pair.peer[!m->from]);
	} else if (result->status == TOW_ETRUNCATED) {
		assert_true(cut && !m->truncates);
	} else {
		assert_true(m->disturbed && is_early(result->status));
	}
	if (m->shape[1] != IN_VIEW)
		sheet_judge(&m->sheets[1], m->row, fits, result->status == TOW_OK);
	else if (result->status == TOW_OK && m->bytes > 0)
		assert_memory_equal(result->data, m->row, m->bytes);
}

/* The receive of a message that was taken back takes the next one, as it would have that. */
static void send_again(struct message *m)
{
	struct tow_op *op;

	TWT_OK(tow_send_start(pair.peer[m->from], m->row, m->bytes, m->tag, NULL, &op));
	twt_lane_wait(&pair, m->ops[1]);
	TWT_OK(tow_op_cancel(op)); /* where the receive had ended before */
	twt_lane_finish(&pair, op);
}

/* Both ends are over; a send that was taken back leaves its receive waiting. */
static void message_end(struct message *m)
{
	struct tow_result sent = { .status = TOW_OK }, got;

	if (m->ops[0] != NULL)
		sent = twt_lane_finish(&pair, m->ops[0]);
	m->disturbed |= is_early(sent.status);
	if (is_early(sent.status) && below(2) == 0)
		TWT_OK(tow_op_cancel(m->ops[1]));
	else if (is_early(sent.status))
		send_again(m);
	got = twt_lane_wait(&pair, m->ops[1]);
	if (sent.status == TOW_OK)
		assert_int_equal(m->ops[0] == NULL ? m->bytes : sent.bytes, m->bytes);
	else if (sent.status == TOW_ETRUNCATED)
		assert_int_equal(got.status, TOW_ETRUNCATED);
	else
		assert_true(m->disturbed && is_early(sent.status));
	judge_recv(m, &got);
	TWT_OK(tow_op_release(m->ops[1]));
}

/* A message whose receive was taken back waits for another, which drops it. */
static void drain_left(const struct message *m)
{
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_match match = TOW_MATCH_INIT;
	struct tow_op *op;

	match.peer = pair.peer[!m->from];
	match.tag = m->tag;
	while (tow_probe(pair.endpoint[!m->from], &match, &result) == TOW_OK) {
		struct tow_op_options options = TOW_OP_OPTIONS_INIT;

		options.flags = TOW_OP_TRUNCATE;
		TWT_OK(tow_recv_start(match.peer, NULL, 0, m->tag, &options, &op));
		for (unsigned i = 0; i < 100 && tow_op_test(op) == TOW_AGAIN; i++)
			twt_lane_turn(&pair);
		TWT_OK(tow_op_cancel(op)); /* what was probed may have been taken back */
		twt_lane_finish(&pair, op);
	}
}

static void play_batch(uint64_t tag)
{
	struct message messages[BATCH_MAX];
	unsigned count = 1 + (unsigned)below(BATCH_MAX);
	bool posted = below(2) == 0;

	for (unsigned i = 0; i < count; i++)
		message_make(&messages[i], (tag + i) << 2);
	for (unsigned i = 0; i < count && posted; i++)
		start_recv(&messages[i]);
	for (unsigned i = 0; i < count; i++)
		start_send(&messages[i]);
	for (uint64_t i = below(30); i > 0; i--)
		twt_lane_turn(&pair);
	for (unsigned i = 0; i < count && !posted; i++)
		start_recv(&messages[i]);
	for (unsigned i = 0; i < count; i++) {
		if (below(12) == 0)
			disturb(&messages[i]);
		for (uint64_t n = below(4); n > 0; n--)
			twt_lane_turn(&pair);
	}
	for (unsigned i = 0; i < count; i++) {
		/* A send may wait for the receive that has ended already: it is drained below. */
		if (messages[i].ops[0] != NULL && messages[i].disturbed)
			TWT_OK(tow_op_cancel(messages[i].ops[0]));
		message_end(&messages[i]);
	}
	for (unsigned i = 0; i < count; i++) {
		if (messages[i].disturbed)
			drain_left(&messages[i]);
		sheet_free(&messages[i].sheets[0]);
		sheet_free(&messages[i].sheets[1]);
		free(messages[i].row);
	}
}

/* --- lanes --- */

static void play_lane(const struct twt_lane_row *lane, const char *poller, const char *key)
{
	const bool summed = below(2) == 0;
	uint64_t at_rest;

	twt_lane_init(&pair, lane);
	for (int i = 0; i < 2; i++) {
		pair.options[i].checksum_all = summed;
		pair.options[i].premap_memory_bytes = 64 << 20;
		pair.options[i].poller = poller;
		pair.options[i].encrypt = key != NULL;
		pair.options[i].job_key = key;
	}
	if (!twt_lane_open(&pair))
		return;
	twt_lane_join(&pair);
	at_rest = twt_lane_in_use(&pair);
	for (unsigned i = 0; i < BATCHES; i++) {
		play_batch((uint64_t)(i + 1) * BATCH_MAX);
		twt_lane_settle(&pair, at_rest, "after a batch");
	}
	twt_lane_close(&pair);
	printf("%s%s%s: well\n", lane->name, poller != NULL ? ", " : "",
	       poller != NULL ? poller
	       : key != NULL  ? ", encrypted"
			      : "");
}

static void every_lane(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TWT_LANE_ROWS; i++)
		play_lane(&twt_lane_rows[i], NULL, NULL);
	play_lane(&twt_lane_rows[0], "epoll", NULL);
}

static void encrypted(void **state)
{
	(void)state;
	play_lane(&twt_lane_rows[0], NULL, "a key of the test of parts, of 32 bytes and more");
}

/*
 * In five runs of six a receive of any peer is past its deadline just as its sender has taken the
 * message back: the lane hears of that within the abort, and the receive ended twice.
 */
static void taken_back(void **state)
{
	(void)state;
	seed = 16898159935695117224u;
	play_lane(&twt_lane_rows[0], NULL, "a key of the test of parts, of 32 bytes and more");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_lane),
					    cmocka_unit_test(encrypted),
					    cmocka_unit_test(taken_back) };

	seed = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
