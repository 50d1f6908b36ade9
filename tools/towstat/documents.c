/*
 * documents.c - see documents.h.
 *
 * A quantile is judged only when enough readings lie beyond it: the p99 of fifty messages is one
 * message. The maximum is shown and never judged. A difference counts only beyond a floor. Start-up
 * makes a few copies more in one run than in the next, which slows nothing down.
 */
#include "tools/towstat/documents.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/towline.h>

#include "tools/common/words.h"

#define BEYOND_MIN       5 /* readings beyond a quantile, to judge it */
#define LATENCY_NS_FLOOR 50e3

#define MIB   1048576.0
#define MS_NS 1e6

/* The counters of which more is worse. The others say how much was done. */
static const struct judged_counter judged[] = {
	{ "accept_failures",
	  0,
	  "raise the limit of open files (ulimit -n), and see how much memory the host has",
	  { NULL, NULL } },
	{ "alloclog_lost", 0, "raise alloclog_events", { NULL, NULL } },
	{ "announced_refusals", 100, "post receives before the peer sends", { NULL, NULL } },
	{ "auth_refused",
	  0,
	  "start all processes with the same job key; the log names the addresses that were "
	  "refused",
	  { NULL, NULL } },
	{ "checksum_mismatches",
	  0,
	  "find the memory, cable or card that changes bytes on their way",
	  { NULL, NULL } },
	{ "coll_groups_broken",
	  0,
	  "see what failed there first: towstat get /v1/flight, and the rank's log",
	  { NULL, NULL } },
	{ "coll_mismatches",
	  0,
	  "let all ranks call the same collectives in the same order; /v1/flight has the calls",
	  { NULL, NULL } },
	{ "connections_broken",
	  0,
	  "measure the path between the two hosts: towdoctor --peer",
	  { NULL, NULL } },
	{ "credit_stalls", 100, "post receives sooner, or raise credit_bytes", { NULL, NULL } },
	{ "fallback_copies", 100, NULL, { NULL, NULL } },
	{ "fallback_copy_bytes", MIB, NULL, { NULL, NULL } },
	{ "handshakes_evicted",
	  0,
	  "find out what connects and sends nothing, such as a port scanner",
	  { NULL, NULL } },
	{ "handshakes_refused",
	  0,
	  "the log says why; often it is another job, version or lane",
	  { NULL, NULL } },
	{ "handshakes_throttled",
	  0,
	  "start fewer ranks at a time, or find out what else connects to that port",
	  { NULL, NULL } },
	{ "late_cache_evictions",
	  100,
	  "raise late_cache_bytes and late_cache_entries, or allocate with tow_alloc",
	  { NULL, NULL } },
	{ "late_registration_bytes", MIB, NULL, { NULL, NULL } },
	{ "late_registrations", 10, NULL, { NULL, NULL } },
	{ "ops_expired",
	  0,
	  "see what they waited for: towstat get /v1/flight; or give them more time",
	  { NULL, NULL } },
	{ "ops_failed",
	  0,
	  "see their statuses: towstat get /v1/flight",
	  { "ops_canceled", "ops_expired" } },
	{ "ops_forgotten_failed",
	  0,
	  "the log names them; start them with a handle",
	  { NULL, NULL } },
	{ "peer_lease_refusals",
	  0,
	  "raise peer_lease_bytes, or see why that peer does not receive its messages",
	  { NULL, NULL } },
	{ "peers_lost",
	  0,
	  "see how the peer's process ended; if its host was silent for too long, raise "
	  "peer_timeout_ns",
	  { NULL, NULL } },
	{ "pool_exhausted", 0, NULL, { NULL, NULL } },
	{ "pool_grown", 0, NULL, { NULL, NULL } },
	{ "pool_grown_bytes", 0, NULL, { NULL, NULL } },
	{ "pool_overflow_allocs", 0, NULL, { NULL, NULL } },
	{ "pool_overflow_bytes", 0, NULL, { NULL, NULL } },
	{ "pool_wait_ns", MS_NS, NULL, { NULL, NULL } },
	{ "pool_wait_timeouts", 0, NULL, { NULL, NULL } },
	{ "pool_waits", 10, NULL, { NULL, NULL } },
	{ "protocol_errors",
	  0,
	  "find out what else connects to that port; the log says what came",
	  { NULL, NULL } },
	{ "replayed_bulk_bytes",
	  MIB,
	  "measure the path between the two hosts: towdoctor --peer",
	  { NULL, NULL } },
	{ "replayed_control_bytes",
	  MIB,
	  "measure the path between the two hosts: towdoctor --peer",
	  { NULL, NULL } },
	{ "resume_failed",
	  0,
	  "measure the path between the two hosts: towdoctor --peer",
	  { NULL, NULL } },
	{ "telemetry_lost",
	  0,
	  "give the host more memory; until then what diagnostics say is incomplete",
	  { NULL, NULL } },
	{ "unregistered_recv_bytes", MIB, NULL, { NULL, NULL } },
	{ "unregistered_recvs", 100, NULL, { NULL, NULL } },
	{ "unregistered_send_bytes", MIB, NULL, { NULL, NULL } },
	{ "unregistered_sends", 100, NULL, { NULL, NULL } },
	{ "zero_copy_refusals",
	  0,
	  "allocate with tow_alloc what is sent and received",
	  { NULL, NULL } },
	{ "zerocopy_kernel_copies",
	  1000,
	  "the kernel always copies over loopback; elsewhere send through a card with "
	  "scatter-gather, or set zerocopy=never",
	  { NULL, NULL } },
	{ "zerocopy_kernel_copy_bytes",
	  MIB,
	  "the kernel always copies over loopback; elsewhere send through a card with "
	  "scatter-gather, or set zerocopy=never",
	  { NULL, NULL } },
};

const struct judged_counter *documents_judged(size_t index)
{
	return index < sizeof(judged) / sizeof(judged[0]) ? &judged[index] : NULL;
}

const struct judged_counter *documents_judge(const char *counter)
{
	for (size_t i = 0; i < sizeof(judged) / sizeof(judged[0]); i++) {
		if (strcmp(judged[i].name, counter) == 0)
			return &judged[i];
	}
	return NULL;
}

/* The state of one comparison. */
struct work {
	const json_t *a, *b;
	double per_a, per_b;
	double tolerance;
	bool exact; /* without floors */
	struct comparison *out;
};

#define NOT_JUDGED (-1.0)

static double number_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_number(value) ? json_number_value(value) : 0;
}

/*
 * Adds a row. A difference up to `floor` does not count; with NOT_JUDGED no difference counts.
 * `per_b` is the divisor of both values in B, so that the floor is an amount as counted in B.
 */
static struct compared *add_compared(struct work *work, enum compared_unit unit, double a, double b,
				     double floor, double per_b)
{
	struct compared *row = &work->out->rows[work->out->count];

	if (work->out->count == COMPARED_MAX) {
		work->out->missed++;
		return NULL;
	}
	work->out->count++;
	*row = (struct compared){ .unit = unit, .a = a, .b = b, .judged = floor >= 0 };
	if (a == b)
		row->change = 0;
	else
		row->change = a != 0 ? (b - a) / fabs(a) : b > 0 ? INFINITY : -INFINITY;
	row->worse = row->judged && row->change > work->tolerance &&
		     (work->exact || (b - a) * per_b > floor);
	work->out->worse += row->worse;
	return row;
}

static enum compared_unit unit_of(const char *counter)
{
	struct tow_counter_info row = { .size = sizeof(row) };

	for (size_t i = 0; tow_counter_info(i, &row) == TOW_OK; i++) {
		if (strcmp(row.name, counter) != 0)
			continue;
		return strcmp(row.unit, "bytes") == 0 ? UNIT_BYTES
		       : strcmp(row.unit, "ns") == 0  ? UNIT_NS
						      : UNIT_COUNT;
	}
	return UNIT_COUNT;
}

static void compare_counter(struct work *work, const char *name)
{
	double a = number_of(json_object_get(work->a, "counters"), name) / work->per_a;
	double b = number_of(json_object_get(work->b, "counters"), name) / work->per_b;
	const struct judged_counter *is_judged = documents_judge(name);
	struct compared *row;

	if (work->out->per != NULL && strcmp(work->out->per, name) == 0)
		return; /* it would be 1 */
	row = add_compared(work, unit_of(name), a, b,
			   is_judged != NULL ? is_judged->floor : NOT_JUDGED, work->per_b);
	if (row != NULL)
		words_clean(row->name, sizeof(row->name), name);
}

static void compare_counters(struct work *work)
{
	json_t *a = json_object_get(work->a, "counters"), *value;
	json_t *b = json_object_get(work->b, "counters");
	const char *name;

	json_object_foreach(a, name, value) compare_counter(work, name);
	json_object_foreach(b, name, value)
	{
		if (json_object_get(a, name) == NULL)
			compare_counter(work, name);
	}
}

/* --- rows of arrays --- */

static bool same_value(const json_t *a, const json_t *b, const char *key)
{
	const json_t *left = json_object_get(a, key), *right = json_object_get(b, key);

	return left == right || json_equal(left, right) == 1;
}

static json_t *find_like(const json_t *array, const json_t *row, const char *const *keys)
{
	json_t *found;
	size_t i;

	json_array_foreach(array, i, found)
	{
		size_t key = 0;

		while (keys[key] != NULL && same_value(found, row, keys[key]))
			key++;
		if (keys[key] == NULL)
			return found;
	}
	return NULL;
}

/* Visits each row of both arrays with its like in the other array, or with NULL. */
static void each_pair(struct work *work, const char *array, const char *const *keys,
		      void (*visit)(struct work *work, const json_t *a, const json_t *b))
{
	json_t *a = json_object_get(work->a, array), *b = json_object_get(work->b, array), *row;
	size_t i;

	json_array_foreach(a, i, row)
	{
		if (i < COMPARED_MAX)
			visit(work, row, find_like(b, row, keys));
	}
	json_array_foreach(b, i, row)
	{
		if (i < COMPARED_MAX && find_like(a, row, keys) == NULL)
			visit(work, NULL, row);
	}
}

static void compare_reason(struct work *work, const json_t *a, const json_t *b)
{
	static const struct {
		const char *key;
		enum compared_unit unit;
		double floor;
	} parts[] = { { "count", UNIT_COUNT, REASON_COUNT_FLOOR },
		      { "bytes", UNIT_BYTES, REASON_BYTES_FLOOR },
		      { "ns", UNIT_NS, REASON_NS_FLOOR } };
	const char *name = json_string_value(json_object_get(a != NULL ? a : b, "name"));

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && name != NULL; i++) {
		struct compared *row = add_compared(
			work, parts[i].unit, number_of(a, parts[i].key) / work->per_a,
			number_of(b, parts[i].key) / work->per_b, parts[i].floor, work->per_b);
		char text[COMPARED_NAME];

		snprintf(text, sizeof(text), "reason %.90s %s", name, parts[i].key);
		if (row != NULL)
			words_clean(row->name, sizeof(row->name), text);
	}
}

/* "tcp 4097-32768", "tcp 1048577-", "tcp 0-64 peer 3". */
static void latency_name(const json_t *row, char *out, size_t size)
{
	const char *lane = json_string_value(json_object_get(row, "lane"));
	const json_t *most = json_object_get(row, "bytes_max"),
		     *peer = json_object_get(row, "peer");
	char end[32] = "", whom[64] = "";

	if (json_is_integer(most))
		snprintf(end, sizeof(end), "%lld", (long long)json_integer_value(most));
	if (json_is_integer(peer))
		snprintf(whom, sizeof(whom), " peer %lld", (long long)json_integer_value(peer));
	else if (json_is_string(peer))
		snprintf(whom, sizeof(whom), " peer %.50s", json_string_value(peer));
	snprintf(out, size, "%.24s %.0f-%s%s", lane != NULL ? lane : "?",
		 number_of(row, "bytes_min"), end, whom);
}

static void compare_latencies(struct work *work, const char *what, const json_t *a, const json_t *b)
{
	static const struct {
		const char *key;
		double beyond; /* share of the readings beyond it; 0: not judged */
	} parts[] = { { "p50", 0.5 },    { "p90", 0.1 }, { "p99", 0.01 },
		      { "p999", 0.001 }, { "mean", 1 },  { "max", 0 } };
	double least = fmin(number_of(a, "count"), number_of(b, "count"));
	char name[COMPARED_NAME - 32];

	if (a == NULL || b == NULL)
		return; /* there is nothing to compare with */
	latency_name(a, name, sizeof(name));
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		bool enough = least * parts[i].beyond >= BEYOND_MIN;
		struct compared *row = add_compared(work, UNIT_NS, number_of(a, parts[i].key),
						    number_of(b, parts[i].key),
						    enough ? LATENCY_NS_FLOOR : NOT_JUDGED, 1);
		char text[COMPARED_NAME];

		snprintf(text, sizeof(text), "%s %s %s", what, name, parts[i].key);
		if (row != NULL)
			words_clean(row->name, sizeof(row->name), text);
	}
}

static void compare_latency(struct work *work, const json_t *a, const json_t *b)
{
	compare_latencies(work, "latency", a, b);
}

static void compare_call_latency(struct work *work, const json_t *a, const json_t *b)
{
	compare_latencies(work, "calls' latency", a, b);
}

static void compare_coll_latency(struct work *work, const json_t *a, const json_t *b)
{
	compare_latencies(work, "collectives' latency", a, b);
}

/* --- the whole --- */

static int divide_values(struct work *work, const char *per, char *error_out, size_t error_size)
{
	work->per_a = work->per_b = 1;
	if (per == NULL)
		return 0;
	if (strcmp(per, "second") == 0) {
		work->per_a = number_of(work->a, "uptime_ns") / 1e9;
		work->per_b = number_of(work->b, "uptime_ns") / 1e9;
	} else {
		work->per_a = number_of(json_object_get(work->a, "counters"), per);
		work->per_b = number_of(json_object_get(work->b, "counters"), per);
	}
	if (work->per_a > 0 && work->per_b > 0)
		return 0;
	snprintf(error_out, error_size, "nothing to divide by: %.60s is not in both, or 0", per);
	return -1;
}

static int by_change(const void *a, const void *b)
{
	const struct compared *left = a, *right = b;
	double x = fabs(left->change), y = fabs(right->change);

	if (left->worse != right->worse)
		return left->worse ? -1 : 1;
	if (x != y)
		return x < y ? 1 : -1;
	return strcmp(left->name, right->name);
}

int documents_compare(const json_t *a, const json_t *b, const struct compare_options *options,
		      struct comparison *out, char *error_out, size_t error_size)
{
	static const char *const reason_keys[] = { "name", "kind", NULL };
	static const char *const latency_keys[] = { "lane", "bytes_min", "bytes_max", "peer",
						    NULL };
	struct work work = {
		.a = a, .b = b, .tolerance = options->tolerance, .exact = options->exact, .out = out
	};

	out->count = out->worse = out->missed = 0;
	out->per = options->per;
	if (divide_values(&work, options->per, error_out, error_size) != 0)
		return -1;
	compare_counters(&work);
	each_pair(&work, "reasons", reason_keys, compare_reason);
	each_pair(&work, "rpcs", latency_keys, compare_latency);
	each_pair(&work, "calls", latency_keys, compare_call_latency);
	each_pair(&work, "colls", latency_keys, compare_coll_latency);
	qsort(out->rows, out->count, sizeof(out->rows[0]), by_change);
	return 0;
}
