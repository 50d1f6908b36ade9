/*
 * coll_metrics.c - writes the account (coll_account.h) as OpenMetrics and as JSON.
 *
 * The account is read while collectives go on. Each number is right by itself, but a sum may be one
 * collective ahead of its count. Each family has at most one series for each kind and lane (a
 * histogram: one set of buckets).
 */
#include <stdio.h>

#include "diag/base/emit.h"
#include "diag/record/latency_report.h"
#include "transport/coll/coll_account.h"
#include "transport/engine/engine.h"

static void label_way(char *labels, size_t room, unsigned kind, unsigned way)
{
	snprintf(labels, room, "collective=\"%s\",lane=\"%s\"",
		 twi_coll_kind_name((enum twi_coll_kind)kind), twi_coll_way_name(way));
}

/* The histograms of latencies, or of skews, one for each kind and lane. */
static void emit_histograms(const struct twi_coll_account *account, const char *family, bool skews,
			    struct twi_emit *emit)
{
	struct twi_latency_sum latency, skew;
	char labels[96];

	for (unsigned i = 0; i < TWI_COLL_KINDS * TWI_COLL_WAYS; i++) {
		if (!twi_coll_account_read(account, i / TWI_COLL_WAYS, i % TWI_COLL_WAYS, &latency,
					   &skew))
			continue;
		label_way(labels, sizeof(labels), i / TWI_COLL_WAYS, i % TWI_COLL_WAYS);
		twi_report_fine_histogram(emit, family, labels, skews ? &skew : &latency);
	}
}

static uint64_t read_cell(const _Atomic uint64_t *cell)
{
	return atomic_load_explicit(cell, memory_order_relaxed);
}

/* The sums of the `index`-th kind and lane, and their labels. NULL: nothing was waited for. */
static const struct twi_coll_sums *sums_at(const struct twi_coll_account *account, unsigned index,
					   char labels[96])
{
	const struct twi_coll_sums *sums =
		&account->sums[index / TWI_COLL_WAYS][index % TWI_COLL_WAYS];

	label_way(labels, 96, index / TWI_COLL_WAYS, index % TWI_COLL_WAYS);
	return read_cell(&sums->slack_count) > 0 ? sums : NULL;
}

static void emit_slacks(const struct twi_coll_account *account, struct twi_emit *emit)
{
	const struct twi_coll_sums *sums;
	char labels[96];

	for (unsigned i = 0; i < TWI_COLL_KINDS * TWI_COLL_WAYS; i++) {
		if ((sums = sums_at(account, i, labels)) == NULL)
			continue;
		twi_emit_sample_u64(emit, "towline_coll_slack_seconds_count", labels,
				    read_cell(&sums->slack_count));
		twi_emit_sample_seconds(emit, "towline_coll_slack_seconds_sum", labels,
					read_cell(&sums->slack_ns));
	}
}

static void emit_waits(const struct twi_coll_account *account, struct twi_emit *emit)
{
	const struct twi_coll_sums *sums;
	char labels[96];

	for (unsigned i = 0; i < TWI_COLL_KINDS * TWI_COLL_WAYS; i++) {
		if ((sums = sums_at(account, i, labels)) != NULL)
			twi_emit_sample_seconds(emit, "towline_coll_wait_seconds_total", labels,
						read_cell(&sums->wait_ns));
	}
}

/* Bytes on one lane of all collectives of a kind; mixed collectives use several lanes. */
static void emit_kind_bytes(const struct twi_coll_account *account, unsigned kind, unsigned lane,
			    struct twi_emit *emit)
{
	uint64_t sent = 0, received = 0;
	char labels[128];

	for (unsigned way = 0; way < TWI_COLL_WAYS; way++) {
		sent += read_cell(&account->sums[kind][way].sent[lane]);
		received += read_cell(&account->sums[kind][way].received[lane]);
	}
	if (sent + received == 0)
		return;
	for (unsigned i = 0; i < 2; i++) {
		snprintf(labels, sizeof(labels), "collective=\"%s\",lane=\"%s\",direction=\"%s\"",
			 twi_coll_kind_name((enum twi_coll_kind)kind),
			 twi_lane_name((enum twi_lane_id)lane), i == 0 ? "sent" : "received");
		twi_emit_sample_u64(emit, "towline_coll_bytes_total", labels,
				    i == 0 ? sent : received);
	}
}

void twi_coll_metrics(void *arg, struct twi_emit *emit)
{
	const struct twi_engine *engine = arg;
	/* acquire: pairs with the release of its maker */
	const struct twi_coll_account *account =
		atomic_load_explicit(&engine->coll_account, memory_order_acquire);

	if (account == NULL)
		return;
	twi_emit_metric_head(emit, "towline_coll_seconds", "histogram", "seconds",
			     "time from the start call of a collective to its end at this rank, by "
			     "kind and lane");
	emit_histograms(account, "towline_coll_seconds", false, emit);
	twi_emit_metric_head(emit, "towline_coll_skew_seconds", "histogram", "seconds",
			     "time from this rank's arrival at a collective to that of the "
			     "last other rank");
	emit_histograms(account, "towline_coll_skew_seconds", true, emit);
	twi_emit_metric_head(emit, "towline_coll_slack_seconds", "summary", "seconds",
			     "time from the start call of a collective to the first wait for it, "
			     "without other waits in between");
	emit_slacks(account, emit);
	twi_emit_metric_head(emit, "towline_coll_wait_seconds", "counter", "seconds",
			     "time from the first wait for a collective to its end");
	emit_waits(account, emit);
	twi_emit_metric_head(emit, "towline_coll_bytes", "counter", "bytes",
			     "bytes that collectives have moved, by lane; in shared memory the "
			     "rank counts them that reads (received) or writes (sent) another "
			     "rank's memory");
	for (unsigned i = 0; i < TWI_COLL_KINDS * TWI_LANE_COUNT; i++)
		emit_kind_bytes(account, i / TWI_LANE_COUNT, i % TWI_LANE_COUNT, emit);
}

/* --- /v1/coll --- */

static void emit_sum(struct twi_emit *emit, const char *key, const struct twi_latency_sum *sum)
{
	if (sum->count == 0)
		return;
	twi_emit_object_begin(emit, key);
	twi_latency_emit(emit, sum);
	twi_emit_object_end(emit);
}

static void emit_sums(struct twi_emit *emit, const struct twi_coll_sums *sums)
{
	uint64_t count = read_cell(&sums->slack_count), slack = read_cell(&sums->slack_ns);

	if (count > 0)
		twi_emit_u64(emit, "slack_mean_ns", slack / count);
	else
		twi_emit_str(emit, "slack_mean_ns", NULL);
	twi_emit_u64(emit, "waited_for", count);
	twi_emit_u64(emit, "wait_ns", read_cell(&sums->wait_ns));
	twi_emit_array_begin(emit, "lanes");
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		uint64_t sent = read_cell(&sums->sent[i]), received = read_cell(&sums->received[i]);

		if (sent + received == 0)
			continue;
		twi_emit_object_begin(emit, NULL);
		twi_emit_str(emit, "lane", twi_lane_name((enum twi_lane_id)i));
		twi_emit_u64(emit, "sent_bytes", sent);
		twi_emit_u64(emit, "received_bytes", received);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}

void twi_coll_account_emit(const struct twi_coll_account *account, struct twi_emit *emit)
{
	struct twi_latency_sum latency, skew;

	twi_emit_array_begin(emit, "totals");
	for (unsigned i = 0; account != NULL && i < TWI_COLL_KINDS * TWI_COLL_WAYS; i++) {
		unsigned kind = i / TWI_COLL_WAYS, way = i % TWI_COLL_WAYS;

		if (!twi_coll_account_read(account, kind, way, &latency, &skew))
			continue;
		twi_emit_object_begin(emit, NULL);
		twi_emit_str(emit, "kind", twi_coll_kind_name((enum twi_coll_kind)kind));
		twi_emit_str(emit, "lane", twi_coll_way_name(way));
		emit_sum(emit, "latency_ns", &latency);
		emit_sum(emit, "skew_ns", &skew);
		emit_sums(emit, &account->sums[kind][way]);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}
