/*
 * test_xspace_ops.c - the XLA Ops of an XSpace file, by its bytes: no slice of a line overlaps
 * another, XProf's own sums give the slack that a plain reference sees in the job, and a name
 * stands for one size.
 *
 * Jobs are random: threads of one rank that start collectives alone and in batches, compute, wait
 * in any order or never, and wait for messages. The reference looks at each nanosecond by itself.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "diag/record/coll_kind.h"
#include "diag/trace/export/export.h"
#include "diag/trace/export/ops.h"
#include "traced.h"

#define CASES    300u
#define END      30000u /* ns */
#define THREADS  3u
#define SPANS    400u
#define GAP_NS   2u /* between two ops, docs/traces.md */
#define ROWS_MAX 4000u

static uint64_t seed;

static uint64_t below(uint64_t bound)
{
	return twt_random_below(&seed, bound);
}

/* --- protobuf, as far as it is needed --- */

struct bytes {
	const uint8_t *at, *end;
};

struct field {
	unsigned number;
	uint64_t value;
	struct bytes inner;
};

static uint64_t varint(struct bytes *b)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		assert_true(b->at < b->end && shift < 64);
		value |= (uint64_t)(*b->at & 0x7f) << shift;
		if ((*b->at++ & 0x80) == 0)
			return value;
	}
}

static bool next_field(struct bytes *b, struct field *out)
{
	uint64_t tag, length;

	if (b->at == b->end)
		return false;
	tag = varint(b);
	*out = (struct field){ .number = (unsigned)(tag >> 3) };
	switch (tag & 7) {
	case 0:
		out->value = varint(b);
		return true;
	case 1:
	case 5:
		length = (tag & 7) == 1 ? 8 : 4;
		break;
	default:
		assert_int_equal(tag & 7, 2);
		length = varint(b);
	}
	assert_true(length <= (uint64_t)(b->end - b->at));
	out->inner = (struct bytes){ b->at, b->at + length };
	b->at += length;
	return true;
}

static bool is_text(struct bytes b, const char *text)
{
	return (size_t)(b.end - b.at) == strlen(text) && memcmp(b.at, text, strlen(text)) == 0;
}

/* --- what XProf makes of it: DcnTracker in xspace_to_dcn_slack_analysis.cc --- */

struct name {
	char shown[48], rendezvous[TWI_RENDEZVOUS_BYTES];
};

struct slice {
	uint64_t start_ns, took_ns;
	size_t name;
};

struct row {
	char rendezvous[TWI_RENDEZVOUS_BYTES];
	uint64_t start_ns, end_ns, slack_ns, stall_ns;
};

struct state {
	char rendezvous[TWI_RENDEZVOUS_BYTES];
	uint64_t start_ns, others_ns, stall_ns;
	bool sent;
	unsigned recvs, send_dones; /* since the send: the Megascale Viewer joins one of each */
};

static struct name names[ROWS_MAX];
static struct slice slices[ROWS_MAX];
static struct row rows[ROWS_MAX];
static struct state states[ROWS_MAX];
static size_t slice_count, row_count, state_count;

static void read_name(struct bytes entry)
{
	static const char key[] = "_xla_host_transfer_rendezvous=\"";
	struct field field, part;
	size_t id = 0;

	while (next_field(&entry, &field)) {
		const uint8_t *found;
		size_t length;

		if (field.number == 1)
			id = (size_t)field.value;
		if (field.number != 2)
			continue;
		assert_in_range(id, 1, ROWS_MAX - 1);
		while (next_field(&field.inner, &part)) {
			length = (size_t)(part.inner.end - part.inner.at);
			if (part.number == 4)
				snprintf(names[id].shown, sizeof(names[id].shown), "%.*s",
					 (int)length, (const char *)part.inner.at);
			if (part.number != 2)
				continue;
			found = memmem(part.inner.at, length, key, sizeof(key) - 1);
			if (found == NULL)
				continue;
			found += sizeof(key) - 1;
			snprintf(names[id].rendezvous, sizeof(names[id].rendezvous), "%.*s",
				 (int)((const uint8_t *)memchr(found, '"', 200) - found),
				 (const char *)found);
		}
	}
}

/* The slices of a line: one after another. */
static void read_line(struct bytes line, bool *are_ops)
{
	struct field field, part;
	uint64_t begin_ns = 0, free_ns = 0;

	*are_ops = false;
	slice_count = 0;
	while (next_field(&line, &field)) {
		struct slice *slice = &slices[slice_count];
		uint64_t end_ns;

		if (field.number == 2)
			*are_ops = is_text(field.inner, "XLA Ops");
		if (field.number == 3)
			begin_ns = field.value;
		if (field.number != 4)
			continue;
		assert_true(++slice_count < ROWS_MAX);
		*slice = (struct slice){ .start_ns = begin_ns };
		while (next_field(&field.inner, &part)) {
			if (part.number == 1)
				slice->name = (size_t)part.value;
			if (part.number == 2)
				slice->start_ns += part.value / 1000;
			if (part.number == 3)
				slice->took_ns = part.value / 1000;
		}
		end_ns = slice->start_ns + slice->took_ns;
		if (slice->start_ns < free_ns)
			fail_msg("a slice of a line begins at %llu, before %llu",
				 (unsigned long long)slice->start_ns, (unsigned long long)free_ns);
		free_ns = end_ns;
	}
}

static struct state *state_of(const char *rendezvous)
{
	for (size_t i = 0; i < state_count; i++)
		if (strcmp(states[i].rendezvous, rendezvous) == 0)
			return &states[i];
	assert_true(state_count < ROWS_MAX);
	states[state_count] = (struct state){ 0 };
	strcpy(states[state_count].rendezvous, rendezvous);
	return &states[state_count++];
}

static void visit(const struct slice *slice)
{
	const struct name *name = &names[slice->name];
	struct state *own = state_of(name->rendezvous);
	uint64_t end_ns = slice->start_ns + slice->took_ns;

	own->stall_ns += slice->took_ns;
	own->recvs += strncmp(name->shown, "recv.", 5) == 0;
	own->send_dones += strncmp(name->shown, "send-done.", 10) == 0;
	if (strncmp(name->shown, "send.", 5) == 0) {
		own->sent = true;
		own->start_ns = slice->start_ns;
		own->others_ns = 0;
		own->stall_ns = slice->took_ns;
		own->recvs = own->send_dones = 0;
	} else if (strncmp(name->shown, "recv-done.", 10) == 0 && own->sent) {
		struct row *row = &rows[row_count++];

		assert_int_equal(own->recvs, 1);
		assert_int_equal(own->send_dones, 1);
		strcpy(row->rendezvous, name->rendezvous);
		row->start_ns = own->start_ns;
		row->end_ns = end_ns;
		row->slack_ns = slice->start_ns - own->start_ns - own->others_ns;
		row->stall_ns = own->stall_ns;
	}
	for (size_t i = 0; i < state_count; i++)
		states[i].others_ns += slice->took_ns;
}

/* Reads the plane of the first device; the lines of all are looked at. */
static void read_space(const char *data, size_t count)
{
	struct bytes space = { (const uint8_t *)data, (const uint8_t *)data + count };
	struct field plane, field;

	row_count = state_count = 0;
	while (next_field(&space, &plane)) {
		struct bytes again = plane.inner;
		bool is_device = false, is_first = false, are_ops;

		if (plane.number != 1)
			continue;
		memset(names, 0, sizeof(names));
		while (next_field(&again, &field)) {
			if (field.number == 2) {
				is_device = memmem(field.inner.at,
						   (size_t)(field.inner.end - field.inner.at),
						   "/device:TPU:", 12) != NULL;
				is_first = is_text(field.inner, "/device:TPU:0");
			}
			if (field.number == 4 && is_first)
				read_name(field.inner);
		}
		while (is_device && next_field(&plane.inner, &field)) {
			if (field.number != 3)
				continue;
			read_line(field.inner, &are_ops);
			for (size_t i = 0; is_first && are_ops && i < slice_count; i++)
				visit(&slices[i]);
		}
	}
}

/* --- random jobs --- */

struct flying {
	uint64_t id;
	bool waited;
};

static const uint8_t kinds[] = { TWI_COLL_ALL_REDUCE, TWI_COLL_REDUCE_SCATTER, TWI_COLL_BROADCAST };

static struct twi_span *start_one(struct twt_build *b, size_t t, uint64_t at, uint64_t called,
				  uint64_t id)
{
	static const char *const plain[] = { "bucket0", "bucket1", "a name with spaces" };
	size_t which = below(8);
	struct twi_span *span = twt_build_coll(b, 0, t, kinds[below(2)], id, below(3) * 1536, at,
					       (uint32_t)(called - at), called);

	span->ranks = 4;
	if (which < 3) { /* of one kind and size each */
		span->name = twt_build_name(b, 0, plain[which]);
		span->detail = TWI_COLL_ALL_REDUCE;
		span->bytes = 3072 << which;
	} else if (which == 3) {
		span->name = twt_build_name(b, 0, "mixed");
	} else if (which == 4) {
		span->name = twt_build_name(b, 0, "3 combined");
	}
	return span;
}

/* Starts up to five, together or one by one; returns when that is over. */
static uint64_t start_some(struct twt_build *b, size_t t, uint64_t at, struct flying *flying,
			   size_t *flying_count, uint64_t *next_id)
{
	bool together = below(2) == 0;
	uint64_t begin = at;

	for (uint64_t n = 1 + below(5); n > 0 && *flying_count < 12; n--) {
		uint64_t called = at + below(4) * below(60);
		struct twi_span *span = start_one(b, t, together ? begin : at, called, *next_id);

		/* Some are over at once, others while the program does something else. */
		span->end_ns = below(4) == 0 ? called : called + below(2500);
		if (below(20) == 0)
			span->queue_ns = UINT32_MAX; /* longer than a span can say */
		flying[(*flying_count)++] = (struct flying){ .id = (*next_id)++ };
		at = called + (together ? 0 : below(2) * below(40));
	}
	return at;
}

static uint64_t wait_for(struct twt_build *b, size_t t, uint64_t at, const struct flying *one)
{
	uint64_t first = below(3) == 0 ? below(300) : 0, ends = at + below(3) * below(400);

	for (size_t i = 0; i < b->trace.ranks[0].threads[t].span_count; i++) {
		struct twi_span *span = &b->trace.ranks[0].threads[t].spans[i];

		if (span->kind == TWI_SPAN_COLL && span->id == one->id && span->end_ns > at)
			ends = span->end_ns > ends ? span->end_ns : ends;
	}
	if (first && at + first < ends) { /* in vain, then once more */
		twt_build_wait(b, 0, t, TWI_SPAN_COLL, one->id, at, at + first);
		at += first;
	}
	twt_build_wait(b, 0, t, TWI_SPAN_COLL, one->id, at, ends);
	return ends;
}

static void play_thread(struct twt_build *b, size_t t)
{
	uint64_t at = below(500), next_id = 1 + t * 1000;
	struct flying flying[16];
	size_t count = 0;

	while (at < END - 8000 && b->trace.ranks[0].threads[t].span_count < SPANS - 20) {
		uint64_t begin = at;

		if (t == 0 && below(3) == 0)
			twt_build_span(b, 0, t, TWI_SPAN_STEP, at, at + 40)->id = at;
		at = start_some(b, t, at, flying, &count, &next_id);
		at += below(3) * below(700);
		if (below(4) == 0) {
			twt_build_wait(b, 0, t, below(2) ? TWI_SPAN_SEND : TWI_SPAN_RECV, 77, at,
				       at + 100);
			at += 100;
		}
		while (count > 0 && below(5) != 0) {
			size_t which = below(3) == 0 ? below(count) : 0;

			if (below(6) != 0) /* else it is left alone */
				at = wait_for(b, t, at, &flying[which]);
			memmove(&flying[which], &flying[which + 1],
				(--count - which) * sizeof(*flying));
			at += below(2) * below(200);
		}
		at = at < begin + 40 ? begin + 40 : at;
	}
}

/* --- the reference --- */

struct truth {
	uint64_t start_ns, from_ns, to_ns, stall_ns;
	bool waited;
};

static uint8_t network[END];

static uint64_t marked(uint64_t start, uint64_t end)
{
	uint64_t count = 0;

	for (uint64_t at = start; at < end && at < END; at++)
		count += network[at];
	return count;
}

/* Of a call that was too long to be told all is call, up to its first wait. */
static uint64_t called_ns(const struct twi_trace_rank *rank, const struct twi_span *coll)
{
	uint64_t end = coll->end_ns;

	if (coll->queue_ns != UINT32_MAX)
		return coll->start_ns + coll->queue_ns;
	for (size_t t = 0; t < rank->thread_count; t++)
		for (size_t i = 0; i < rank->threads[t].span_count; i++) {
			const struct twi_span *span = &rank->threads[t].spans[i];

			if (span->kind == TWI_SPAN_WAIT && span->detail == TWI_SPAN_COLL &&
			    span->id == coll->id && span->start_ns < end)
				end = span->start_ns;
		}
	return end;
}

static void mark_network(const struct twi_trace_rank *rank)
{
	memset(network, 0, sizeof(network));
	for (size_t t = 0; t < rank->thread_count; t++)
		for (size_t i = 0; i < rank->threads[t].span_count; i++) {
			const struct twi_span *span = &rank->threads[t].spans[i];
			uint64_t end =
				span->kind == TWI_SPAN_COLL ? called_ns(rank, span) : span->end_ns;

			if (span->kind != TWI_SPAN_COLL && span->kind != TWI_SPAN_WAIT)
				continue;
			assert_true(end < END && span->end_ns < END);
			memset(network + span->start_ns, 1, end - span->start_ns);
		}
}

static struct truth truth_of(const struct twi_trace_rank *rank, const struct twi_span *coll)
{
	struct truth truth = { .start_ns = coll->start_ns,
			       .from_ns = coll->end_ns,
			       .to_ns = coll->end_ns,
			       .stall_ns = called_ns(rank, coll) - coll->start_ns };

	for (size_t t = 0; t < rank->thread_count; t++)
		for (size_t i = 0; i < rank->threads[t].span_count; i++) {
			const struct twi_span *span = &rank->threads[t].spans[i];

			if (span->kind != TWI_SPAN_WAIT || span->detail != TWI_SPAN_COLL ||
			    span->id != coll->id)
				continue;
			truth.stall_ns += span->end_ns - span->start_ns;
			if (truth.waited && span->end_ns <= truth.to_ns)
				continue;
			truth.waited = true;
			truth.from_ns = span->start_ns;
			truth.to_ns = span->end_ns;
		}
	return truth;
}

static const struct row *row_of(const char *rendezvous, uint64_t start_ns)
{
	const struct row *found = NULL;

	for (size_t i = 0; i < row_count; i++)
		if (rows[i].start_ns == start_ns && strcmp(rows[i].rendezvous, rendezvous) == 0) {
			assert_null(found);
			found = &rows[i];
		}
	if (found == NULL)
		fail_msg("no row of %s that begins at %llu", rendezvous,
			 (unsigned long long)start_ns);
	return found;
}

/* What the gaps between ops add to a slack, or take from a stall, at most. */
static uint64_t gaps(uint64_t from_ns, uint64_t to_ns, const struct twi_ops_rank *ops)
{
	uint64_t count = 1;

	for (size_t i = 0; i < ops->op_count; i++)
		count += ops->ops[i].start_ns >= from_ns && ops->ops[i].start_ns <= to_ns;
	return count * GAP_NS;
}

static void check_row(const struct twi_trace_rank *rank, const struct twi_ops *ops,
		      const struct twi_op_coll *coll, uint64_t shift_ns)
{
	struct truth truth = truth_of(rank, coll->span);
	const struct row *row =
		row_of(ops->rendezvous[coll->rendezvous].name, truth.start_ns - shift_ns);
	uint64_t end_ns = row->end_ns + shift_ns;
	uint64_t slack = truth.from_ns - truth.start_ns - marked(truth.start_ns, truth.from_ns);
	uint64_t more = gaps(truth.start_ns, end_ns, &ops->ranks[0]);

	if (row->slack_ns < slack || row->slack_ns > slack + more)
		fail_msg("slack of %s at %llu is %llu, %llu in the job (and up to %llu of gaps)",
			 row->rendezvous, (unsigned long long)truth.start_ns,
			 (unsigned long long)row->slack_ns, (unsigned long long)slack,
			 (unsigned long long)more);
	assert_true(row->stall_ns <= truth.stall_ns);
	if (truth.waited) {
		assert_in_range(end_ns, truth.to_ns - GAP_NS, truth.to_ns);
		return;
	}
	/* At its end, or where the rank's threads no longer wait for another. */
	assert_in_range(end_ns, truth.to_ns, END);
	assert_int_equal(marked(truth.to_ns, end_ns), end_ns - truth.to_ns);
}

/* --- names --- */

struct known {
	char base[TWI_RENDEZVOUS_BYTES];
	unsigned kind;
	uint64_t bytes;
};

static void check_name(const struct twi_trace_rank *rank, const struct twi_ops *ops,
		       const struct twi_op_coll *coll, struct known *known, size_t *count)
{
	const char *name = ops->rendezvous[coll->rendezvous].name, *user;
	const char *number = strrchr(name, '_');
	struct known now = { .kind = coll->span->detail, .bytes = coll->span->bytes };

	assert_non_null(number);
	assert_int_equal(strspn(number + 1, "0123456789"), strlen(number + 1));
	snprintf(now.base, sizeof(now.base), "%.*s", (int)(number - name), name);
	user = coll->span->name ? rank->names[coll->span->name - 1] : "";
	if (user[0] == 'b')
		assert_string_equal(now.base, user);
	for (size_t i = 0; i < *count; i++) {
		if (strcmp(known[i].base, now.base) != 0)
			continue;
		if (known[i].bytes != now.bytes || known[i].kind != now.kind)
			fail_msg("%s has %llu bytes, and %llu", now.base,
				 (unsigned long long)now.bytes, (unsigned long long)known[i].bytes);
		return;
	}
	known[(*count)++] = now;
}

/* --- a job --- */

static void play(unsigned threads)
{
	static struct known known[ROWS_MAX];
	struct twt_build b;
	struct twi_ops ops;
	const struct twi_trace_rank *rank;
	size_t count, known_count = 0;
	uint64_t took = 0;
	char *bytes;

	twt_build_init(&b, 1, threads, SPANS, 0, END);
	for (size_t t = 0; t < threads; t++)
		play_thread(&b, t);
	rank = &b.trace.ranks[0];
	mark_network(rank);
	assert_int_equal(twi_export_xspace(&b.trace, &bytes, &count), TOW_OK);
	read_space(bytes, count);
	free(bytes);
	assert_int_equal(twi_ops_make(&b.trace, &ops), TOW_OK);
	assert_int_equal(row_count, ops.ranks[0].coll_count);
	for (size_t i = 0; i < ops.ranks[0].coll_count; i++) {
		check_row(rank, &ops, &ops.ranks[0].colls[i], 0);
		check_name(rank, &ops, &ops.ranks[0].colls[i], known, &known_count);
	}
	/* All of them together: what the network took of the rank, none of it twice. */
	for (size_t i = 0; i < ops.ranks[0].op_count; i++)
		took += ops.ranks[0].ops[i].end_ns - ops.ranks[0].ops[i].start_ns;
	assert_in_range(took, marked(0, END) - GAP_NS * ops.ranks[0].op_count, marked(0, END));
	twi_ops_fini(&ops);
	twt_build_fini(&b);
}

static void jobs_agree_with_the_reference(void **state)
{
	uint64_t first = twt_seed();
	const char *text = getenv("TOW_XSPACE_CASES");
	unsigned cases = text != NULL ? (unsigned)strtoul(text, NULL, 0) : CASES;

	(void)state;
	if (twi_xspace_ready() < 0) {
		printf("skipped: %s\n", tow_error_message());
		skip();
	}
	for (unsigned i = 0; i < cases; i++) {
		seed = first + i;
		play(1 + (unsigned)below(THREADS));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs_agree_with_the_reference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
