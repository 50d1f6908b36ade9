/*
 * test_verdict_history.c - random looks against a plain list of all of them: rows say what the
 * looks have said, one after the other, however many there were; too much is the oldest.
 *
 * TOW_TEST_SEED replays.
 */
#include "twt.h"

#include <jansson.h>
#include <string.h>

#include <internal/base.h>
#include <towline/status.h>

#include "diag/base/emit.h"
#include "diag/judge/verdict_history.h"

#define LOOKS  400u
#define ROUNDS 60u
#define STEP   1000u   /* ns, from look to look */
#define AHEAD  5000000 /* ns, the calendar */

static uint64_t random_state;
static struct twi_history history;
static struct twi_verdict looks[LOOKS];
static struct twi_emit emit;

static uint32_t below(uint32_t n)
{
	return (uint32_t)twt_random_below(&random_state, n);
}

static void make_finding(struct twi_verdict_finding *out)
{
	*out = (struct twi_verdict_finding){ .cause = (enum twi_cause)below(3),
					     .confidence = 0.5 + 0.1 * below(5) };
	if (below(4) == 0) {
		out->link_count = 1 + below(TWI_FINDING_LINKS);
		for (uint32_t i = 0; i < out->link_count; i++)
			out->links[i] = (struct twi_verdict_link){ below(2), i };
	} else {
		out->rank_count = 1 + below(2) * below(TWI_FINDING_RANKS);
		for (uint32_t i = 0; i < out->rank_count; i++)
			out->ranks[i] = i + below(2);
	}
	out->evidence_count = below(3);
	for (uint32_t i = 0; i < out->evidence_count; i++) {
		memset(out->evidence[i], 'a' + (int)below(26), TWI_FINDING_TEXT - 1);
		out->evidence[i][below(2) ? TWI_FINDING_TEXT - 1 : below(30)] = '\0';
	}
}

static void make_look(struct twi_verdict *out)
{
	*out = (struct twi_verdict){ .stuck = below(4) == 0,
				     .ranks = 8,
				     .answered = 8 - below(2),
				     .unknown = below(8) == 0 };
	out->finding_count = below(3) * below(3);
	for (uint32_t i = 0; i < out->finding_count; i++)
		make_finding(&out->findings[i]);
}

/* Nobody is named by `a` that `b` does not name for the same cause. */
static bool names_no_more(const struct twi_verdict_finding *a, const struct twi_verdict_finding *b)
{
	if (a->cause != b->cause || a->rank_count > b->rank_count || a->link_count > b->link_count)
		return false;
	if (b->rank_count > TWI_HISTORY_NAMED || b->link_count > TWI_HISTORY_NAMED)
		return true;
	for (uint32_t i = 0; i < a->rank_count; i++) {
		uint32_t k = 0;

		while (k < b->rank_count && b->ranks[k] != a->ranks[i])
			k++;
		if (k == b->rank_count)
			return false;
	}
	for (uint32_t i = 0; i < a->link_count; i++) {
		uint32_t k = 0;

		while (k < b->link_count &&
		       memcmp(&b->links[k], &a->links[i], sizeof(a->links[i])) != 0)
			k++;
		if (k == b->link_count)
			return false;
	}
	return true;
}

/* The first finding of a look that is new after another; -1: none is. before NULL: the first. */
static int plain_news(const struct twi_verdict *before, const struct twi_verdict *look)
{
	for (uint32_t i = 0; i < twi_min(look->finding_count, TWI_HISTORY_FINDINGS); i++) {
		bool known = false;

		for (uint32_t k = 0;
		     before != NULL && k < twi_min(before->finding_count, TWI_HISTORY_FINDINGS);
		     k++)
			known |= names_no_more(&look->findings[i], &before->findings[k]);
		if (!known)
			return (int)i;
	}
	return -1;
}

/* A look that makes no row of its own has none. */
static void check_news(uint32_t at, bool other)
{
	const struct twi_history_finding *found = twi_history_news(&history);
	int plain = other ? plain_news(at > 0 ? &looks[at - 1] : NULL, &looks[at]) : -1;

	assert_int_equal(found != NULL, plain >= 0);
	if (found != NULL) {
		assert_int_equal(found->cause, looks[at].findings[plain].cause);
		assert_int_equal(found->rank_count, looks[at].findings[plain].rank_count);
	}
}

/* What of a finding makes it another one: its cause, and the culprits of whom there is room. */
static bool names_same(const struct twi_verdict_finding *a, const struct twi_verdict_finding *b)
{
	bool same = a->cause == b->cause && a->rank_count == b->rank_count &&
		    a->link_count == b->link_count;

	for (uint32_t i = 0; i < TWI_HISTORY_NAMED; i++)
		same = same && (i >= a->rank_count || a->ranks[i] == b->ranks[i]) &&
		       (i >= a->link_count ||
			(a->links[i].from == b->links[i].from && a->links[i].to == b->links[i].to));
	return same;
}

static bool says_same(const struct twi_verdict *a, const struct twi_verdict *b)
{
	uint32_t count =
		a->finding_count < TWI_HISTORY_FINDINGS ? a->finding_count : TWI_HISTORY_FINDINGS;
	uint32_t other =
		b->finding_count < TWI_HISTORY_FINDINGS ? b->finding_count : TWI_HISTORY_FINDINGS;

	if (a->stuck != b->stuck || a->unknown != b->unknown || count != other)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		bool found = false;

		for (uint32_t k = 0; k < other; k++)
			found |= names_same(&a->findings[i], &b->findings[k]);
		if (!found)
			return false;
	}
	return true;
}

static const char *state_of(const struct twi_verdict *look)
{
	return look->stuck ? "stuck" : look->finding_count > 0 ? "slow" : "healthy";
}

static void check_finding(const json_t *told, const struct twi_verdict_finding *finding)
{
	json_t *ranks = json_object_get(told, "ranks"), *rank;
	const char *evidence =
		json_string_value(json_array_get(json_object_get(told, "evidence"), 0));
	size_t i;

	assert_string_equal(json_string_value(json_object_get(told, "cause")),
			    twi_cause_name(finding->cause));
	assert_int_equal(json_integer_value(json_object_get(told, "culprits")),
			 finding->rank_count + finding->link_count);
	json_array_foreach(ranks, i, rank)
		assert_int_equal(json_integer_value(rank), finding->ranks[i]);
	if (finding->evidence_count == 0 || finding->evidence[0][0] == '\0')
		assert_null(evidence);
	else
		assert_int_equal(strncmp(evidence, finding->evidence[0], strlen(evidence)), 0);
}

/* looks[first] to looks[last] are one row; its findings are those of the last. */
static void check_row(const json_t *row, uint32_t first, uint32_t last)
{
	const struct twi_verdict *look = &looks[last];
	json_t *findings = json_object_get(row, "findings"), *finding;
	size_t i;

	assert_int_equal(json_integer_value(json_object_get(row, "from_unix_ns")),
			 (first + 1) * STEP + AHEAD);
	assert_int_equal(json_integer_value(json_object_get(row, "to_unix_ns")),
			 (last + 1) * STEP + AHEAD);
	assert_int_equal(json_integer_value(json_object_get(row, "looks")), last - first + 1);
	assert_string_equal(json_string_value(json_object_get(row, "state")), state_of(look));
	assert_int_equal(json_integer_value(json_object_get(row, "ranks_answered")),
			 look->answered);
	assert_int_equal(json_array_size(findings), look->finding_count < TWI_HISTORY_FINDINGS
							    ? look->finding_count
							    : TWI_HISTORY_FINDINGS);
	json_array_foreach(findings, i, finding) check_finding(finding, &look->findings[i]);
}

static json_t *document_of(uint64_t now)
{
	json_t *document;
	char *text;

	twi_emit_init(&emit);
	twi_emit_object_begin(&emit, NULL);
	twi_history_emit(&history, now, AHEAD, &emit);
	twi_emit_object_end(&emit);
	assert_int_equal(twi_emit_take(&emit, &text), TOW_OK);
	document = json_loads(text, 0, NULL);
	assert_non_null(document);
	free(text);
	return document;
}

static void check_history(uint32_t count)
{
	json_t *document = document_of(count * STEP), *rows = json_object_get(document, "rows");
	size_t left = json_array_size(rows);
	uint32_t last = count;

	assert_int_equal(json_integer_value(json_object_get(document, "looks")), count);
	assert_int_equal(json_integer_value(json_object_get(document, "now_unix_ns")),
			 count * STEP + AHEAD);
	while (left > 0) {
		uint32_t first = last - 1;

		while (first > 0 && says_same(&looks[first - 1], &looks[first]))
			first--;
		check_row(json_array_get(rows, --left), first, last - 1);
		last = first;
	}
	if (last > 0)
		assert_int_equal(json_array_size(rows), TWI_HISTORY_ROWS);
	json_decref(document);
}

static void random_looks(void **state)
{
	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint32_t count = 1 + below(LOOKS), stays = 1 + below(12);

		memset(&history, 0, sizeof(history));
		for (uint32_t i = 0; i < count; i++) {
			bool other;

			if (i > 0 && below(stays) != 0)
				looks[i] = looks[i - 1];
			else
				make_look(&looks[i]);
			other = twi_history_add(&history, &looks[i], (i + 1) * STEP);
			assert_int_equal(other, i == 0 || !says_same(&looks[i - 1], &looks[i]));
			check_news(i, other);
			if (below(20) == 0)
				check_history(i + 1);
		}
		check_history(count);
	}
}

/* The surest first, or not: they say the same. */
static void order_of_findings(void **state)
{
	struct twi_verdict *a = &looks[0], *b = &looks[1];

	(void)state;
	memset(&history, 0, sizeof(history));
	make_look(a);
	a->finding_count = 2;
	make_finding(&a->findings[0]);
	a->findings[1] = a->findings[0];
	a->findings[1].cause = TWI_CAUSE_LATE;
	*b = *a;
	b->findings[0] = a->findings[1];
	b->findings[1] = a->findings[0];
	assert_true(twi_history_add(&history, a, 1));
	assert_false(twi_history_add(&history, b, 2));
	b->findings[1].cause = TWI_CAUSE_LATE;
	assert_true(twi_history_add(&history, b, 3));
}

static struct twi_verdict late_ranks(uint32_t count, uint32_t first, uint32_t second)
{
	struct twi_verdict look = { .ranks = 8, .answered = 8, .finding_count = count > 0 };

	look.findings[0] = (struct twi_verdict_finding){ .cause = TWI_CAUSE_LATE,
							 .confidence = 0.9,
							 .rank_count = count,
							 .ranks = { first, second } };
	return look;
}

/* What gets worse is news, what gets better or stays is none. */
static void news(void **state)
{
	static const struct {
		uint32_t count, first, second;
		bool news;
	} turns[] = {
		{ 0, 0, 0, false }, { 1, 3, 0, true },  { 1, 3, 0, false }, { 2, 3, 5, true },
		{ 1, 5, 0, false }, { 0, 0, 0, false }, { 1, 5, 0, true },  { 1, 4, 0, true }
	};

	(void)state;
	memset(&history, 0, sizeof(history));
	assert_null(twi_history_news(&history));
	for (uint32_t i = 0; i < twi_array_count(turns); i++) {
		struct twi_verdict look =
			late_ranks(turns[i].count, turns[i].first, turns[i].second);

		twi_history_add(&history, &look, i + 1);
		assert_int_equal(twi_history_news(&history) != NULL, turns[i].news);
	}
}

static char *metrics(bool fresh)
{
	char *text;

	twi_emit_init(&emit);
	twi_emit_puts(&emit, "");
	twi_history_metrics(&history, fresh, &emit);
	assert_int_equal(twi_emit_take(&emit, &text), TOW_OK);
	return text;
}

static void told_to_prometheus(void **state)
{
	struct twi_verdict *look = &looks[0];
	char *text;

	(void)state;
	memset(&history, 0, sizeof(history));
	text = metrics(true);
	assert_null(strstr(text, "towline_verdict"));
	free(text);
	*look = (struct twi_verdict){ .stuck = true, .ranks = 4, .finding_count = 2 };
	look->findings[0] = (struct twi_verdict_finding){
		.cause = TWI_CAUSE_LATE, .confidence = 0.9, .rank_count = 2, .ranks = { 3, 1 }
	};
	look->findings[1] = (struct twi_verdict_finding){
		.cause = TWI_CAUSE_LINK, .confidence = 0.7, .link_count = 1, .links = { { 2, 0 } }
	};
	twi_history_add(&history, look, 1);
	text = metrics(true);
	assert_non_null(strstr(text, "\ntowline_verdict_looks_total 1\n"));
	assert_non_null(strstr(text, "\ntowline_verdict_state{state=\"stuck\"} 1\n"));
	assert_non_null(strstr(text, "\ntowline_verdict{cause=\"late\",culprit_rank=\"3\"} 0.9"));
	assert_non_null(strstr(text, "\ntowline_verdict{cause=\"late\",culprit_rank=\"1\"} 0.9"));
	assert_non_null(strstr(text, "\ntowline_verdict{cause=\"link\",culprit_rank=\"2\","
				     "peer_rank=\"0\"} 0.7"));
	free(text);
	text = metrics(false);
	assert_non_null(strstr(text, "\ntowline_verdict_looks_total 1\n"));
	assert_null(strstr(text, "cause"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_looks),
		cmocka_unit_test(order_of_findings),
		cmocka_unit_test(news),
		cmocka_unit_test(told_to_prometheus),
	};

	random_state = twt_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
