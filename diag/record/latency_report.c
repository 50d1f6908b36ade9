/*
 * latency_report.c - writes what latency.h keeps, as JSON and as OpenMetrics.
 *
 * /v1/latency has quantiles for people, and buckets for programs: the quantiles of an interval are
 * those of the difference of two readings. A quantile is the upper edge of its bucket, and a bucket
 * of /metrics counts only readings that are certainly below its edge. So neither looks too good.
 *
 * A row of "rpcs" (lane and size class) is the sum of its own "peers" in the same document. Each
 * histogram is read once, and that reading is both shown and added to the row.
 */
#include "diag/record/latency_report.h"

#include <stdio.h>
#include <string.h>

#include "diag/base/emit.h"
#include "diag/record/diag.h"
#include "diag/record/span.h"

#define EXEMPLAR_MAX 128 /* characters of names and values in the labels of an exemplar */

static void emit_quantiles(struct twi_emit *e, const struct twi_latency_sum *sum)
{
	static const double qs[] = { 0.5, 0.9, 0.99, 0.999, 0.9999 };
	static const char *const names[] = { "p50", "p90", "p99", "p999", "p9999" };
	uint64_t values[twi_array_count(qs)];

	twi_hist_quantiles(sum->counts, qs, twi_array_count(qs), values);
	twi_emit_u64(e, "count", sum->count);
	/* No quantile above the largest reading, which is known exactly. */
	for (unsigned i = 0; i < twi_array_count(qs); i++)
		twi_emit_u64(e, names[i], twi_min(values[i], sum->max_ns));
	twi_emit_u64(e, "max", sum->max_ns);
	twi_emit_f64(e, "mean", sum->count > 0 ? (double)sum->sum_ns / (double)sum->count : 0);
}

void twi_latency_emit(struct twi_emit *e, const struct twi_latency_sum *sum)
{
	emit_quantiles(e, sum);
	twi_emit_array_begin(e, "buckets");
	for (unsigned i = 0; i < TWI_HIST_BUCKETS; i++) {
		if (sum->counts[i] == 0)
			continue;
		twi_emit_array_begin(e, NULL);
		twi_emit_u64(e, NULL, twi_hist_upper(i));
		twi_emit_u64(e, NULL, sum->counts[i]);
		twi_emit_array_end(e);
	}
	twi_emit_array_end(e);
}

/* Emits the parts with readings; with buckets only if they are asked for. */
static void emit_parts(struct twi_emit *e, const struct twi_latency_sum parts[TWI_LATENCY_PARTS],
		       bool buckets)
{
	twi_emit_object_begin(e, "parts");
	for (unsigned part = TWI_LATENCY_TOTAL + 1; part < TWI_LATENCY_PARTS; part++) {
		if (parts[part].count == 0)
			continue;
		twi_emit_object_begin(e, twi_latency_part_name(part));
		if (buckets)
			twi_latency_emit(e, &parts[part]);
		else
			emit_quantiles(e, &parts[part]);
		twi_emit_object_end(e);
	}
	twi_emit_object_end(e);
}

static void emit_exemplar(struct twi_emit *e, const struct twi_exemplar *one, uint64_t start_ns)
{
	twi_emit_object_begin(e, NULL);
	twi_emit_u64(e, "rpc_id", one->id);
	twi_emit_str(e, "peer", one->peer);
	twi_emit_u64(e, "bytes", one->bytes);
	twi_emit_u64(e, "at_ns", one->end_ns - twi_min(one->end_ns, start_ns));
	twi_emit_u64(e, "unix_ns", one->unix_ns);
	for (unsigned part = 0; part < TWI_LATENCY_PARTS; part++) {
		char key[32];

		snprintf(key, sizeof(key), "%s_ns", twi_latency_part_name(part));
		if (one->parts_ns[part] != TWI_LATENCY_UNKNOWN)
			twi_emit_u64(e, key, one->parts_ns[part]);
	}
	twi_emit_object_end(e);
}

/* "worst": since the start. "recent": the worst of the last minute, by bucket of /metrics. */
static void emit_exemplars(struct twi_diag *diag, struct twi_emit *e, enum twi_latency_kind kind,
			   enum twi_lane_id lane, unsigned size_class)
{
	struct twi_exemplars exemplars;

	if (!twi_latencies_exemplars(diag->latencies, kind, lane, size_class, &exemplars))
		return;
	twi_emit_array_begin(e, "worst");
	for (unsigned i = 0; i < exemplars.worst_count; i++)
		emit_exemplar(e, &exemplars.worst[i], diag->start_ns);
	twi_emit_array_end(e);
	twi_emit_array_begin(e, "recent");
	for (unsigned i = TWI_LATENCY_EDGES; i-- > 0;) {
		if (exemplars.recent[i].unix_ns != 0)
			emit_exemplar(e, &exemplars.recent[i], diag->start_ns);
	}
	twi_emit_array_end(e);
}

/*
 * Emits the bytes, and how many messages were timed where they arrived. Those are the readings
 * without a queue time: a sender always knows that time, and no other part.
 */
static void emit_sizes(struct twi_emit *e, enum twi_latency_kind kind,
		       const struct twi_latency_sum parts[TWI_LATENCY_PARTS])
{
	uint64_t count = parts[TWI_LATENCY_TOTAL].count;

	twi_emit_u64(e, "bytes", parts[TWI_LATENCY_TOTAL].bytes);
	if (kind != TWI_LATENCY_CALLS)
		twi_emit_u64(e, "received", count - twi_min(count, parts[TWI_LATENCY_QUEUE].count));
}

static void emit_peer(struct twi_diag *diag, struct twi_emit *e, enum twi_latency_kind kind,
		      const char *name, bool there,
		      const struct twi_latency_sum parts[TWI_LATENCY_PARTS])
{
	int64_t rank = name != NULL ? twi_span_peer_rank(diag, name) : -1;

	twi_emit_object_begin(e, NULL);
	twi_emit_str(e, "peer", name != NULL ? name : "(other)");
	if (rank >= 0)
		twi_emit_i64(e, "rank", rank);
	else
		twi_emit_str(e, "rank", NULL);
	twi_emit_bool(e, "connected", there);
	emit_sizes(e, kind, parts);
	twi_latency_emit(e, &parts[TWI_LATENCY_TOTAL]);
	emit_parts(e, parts, false);
	twi_emit_object_end(e);
}

static void add_parts(struct twi_latency_sum into[TWI_LATENCY_PARTS],
		      const struct twi_latency_sum from[TWI_LATENCY_PARTS])
{
	for (unsigned part = 0; part < TWI_LATENCY_PARTS; part++) {
		if (from[part].count > 0)
			twi_latency_sum_add(&into[part], &from[part]);
	}
}

/* Reads the others of a lane: rows that peers had to give up, and records without a peer. */
static bool read_others(struct twi_diag *diag, enum twi_latency_kind kind, enum twi_lane_id lane,
			unsigned size_class, struct twi_latency_sum parts[TWI_LATENCY_PARTS])
{
	struct twi_latency_sum blocks;
	bool any = twi_latencies_read(diag->latencies, TWI_LATENCY_PEERS + lane, kind, lane,
				      size_class, parts);

	if (!any)
		memset(parts, 0, TWI_LATENCY_PARTS * sizeof(parts[0]));
	if (kind == TWI_LATENCY_MESSAGES &&
	    twi_latency_sum_blocks(diag, lane, size_class, &blocks)) {
		twi_latency_sum_add(&parts[TWI_LATENCY_TOTAL], &blocks);
		any = true;
	}
	return any;
}

/* Sums a row of "rpcs", "calls" or "colls". e NULL: emits no peers. */
static bool sum_row(struct twi_diag *diag, struct twi_emit *e, enum twi_latency_kind kind,
		    enum twi_lane_id lane, unsigned size_class,
		    struct twi_latency_sum total[TWI_LATENCY_PARTS])
{
	struct twi_latency_sum parts[TWI_LATENCY_PARTS];

	memset(total, 0, TWI_LATENCY_PARTS * sizeof(total[0]));
	for (unsigned i = 0; i < TWI_LATENCY_PEERS; i++) {
		bool there;
		const char *name;

		if (!twi_latencies_read(diag->latencies, i, kind, lane, size_class, parts))
			continue;
		name = twi_latencies_name(diag->latencies, i, &there);
		add_parts(total, parts);
		if (e != NULL)
			emit_peer(diag, e, kind, name, there, parts);
	}
	if (read_others(diag, kind, lane, size_class, parts)) {
		add_parts(total, parts);
		if (e != NULL)
			emit_peer(diag, e, kind, NULL, false, parts);
	}
	return total[TWI_LATENCY_TOTAL].count > 0;
}

static bool has_any(struct twi_diag *diag, enum twi_latency_kind kind, enum twi_lane_id lane,
		    unsigned size_class)
{
	struct twi_latency_sum blocks;

	return twi_latencies_any(diag->latencies, kind, lane, size_class) ||
	       (kind == TWI_LATENCY_MESSAGES &&
		twi_latency_sum_blocks(diag, lane, size_class, &blocks));
}

static void emit_row(struct twi_diag *diag, struct twi_emit *e, enum twi_latency_kind kind,
		     enum twi_lane_id lane, unsigned size_class)
{
	struct twi_latency_sum total[TWI_LATENCY_PARTS];
	uint64_t bytes_max = twi_size_class_max(size_class);

	twi_emit_object_begin(e, NULL);
	twi_emit_str(e, "lane", twi_lane_name(lane));
	twi_emit_u64(e, "bytes_min", twi_size_class_min(size_class));
	if (bytes_max == UINT64_MAX)
		twi_emit_str(e, "bytes_max", NULL);
	else
		twi_emit_u64(e, "bytes_max", bytes_max);
	twi_emit_array_begin(e, "peers");
	sum_row(diag, e, kind, lane, size_class, total);
	twi_emit_array_end(e);
	emit_sizes(e, kind, total);
	twi_latency_emit(e, &total[TWI_LATENCY_TOTAL]);
	emit_parts(e, total, true);
	emit_exemplars(diag, e, kind, lane, size_class);
	twi_emit_object_end(e);
}

void twi_latency_report(struct twi_diag *diag, struct twi_emit *e)
{
	static const char *const kinds[TWI_LATENCY_KINDS] = { "rpcs", "calls", "colls" };

	twi_emit_str(e, "unit", "ns");
	twi_emit_str(e, "resolution", TWI_HIST_RESOLUTION);
	twi_emit_u64(e, "peers_max", TWI_LATENCY_PEERS);
	twi_latencies_begin(diag->latencies);
	for (unsigned kind = 0; kind < TWI_LATENCY_KINDS; kind++) {
		twi_emit_array_begin(e, kinds[kind]);
		for (unsigned i = 0; i < TWI_LANE_COUNT * TWI_SIZE_CLASSES; i++) {
			if (has_any(diag, kind, i / TWI_SIZE_CLASSES, i % TWI_SIZE_CLASSES))
				emit_row(diag, e, kind, i / TWI_SIZE_CLASSES, i % TWI_SIZE_CLASSES);
		}
		twi_emit_array_end(e);
	}
	twi_latencies_end(diag->latencies);
}

/* --- OpenMetrics --- */

/* Upper edges of the buckets, in seconds, as the format writes them. */
static const char *const edges[TWI_LATENCY_EDGES] = {
	"le=\"1e-06\"",     "le=\"4e-06\"",    "le=\"1.6e-05\"",  "le=\"6.4e-05\"",
	"le=\"0.000256\"",  "le=\"0.001024\"", "le=\"0.004096\"", "le=\"0.016384\"",
	"le=\"0.065536\"",  "le=\"0.262144\"", "le=\"1.048576\"", "le=\"4.194304\"",
	"le=\"16.777216\"", "le=\"+Inf\"",
};

/* Edge i is 1 us << i. */
static const char *const fine_edges[] = {
	"le=\"1e-06\"",     "le=\"2e-06\"",     "le=\"4e-06\"",     "le=\"8e-06\"",
	"le=\"1.6e-05\"",   "le=\"3.2e-05\"",   "le=\"6.4e-05\"",   "le=\"0.000128\"",
	"le=\"0.000256\"",  "le=\"0.000512\"",  "le=\"0.001024\"",  "le=\"0.002048\"",
	"le=\"0.004096\"",  "le=\"0.008192\"",  "le=\"0.016384\"",  "le=\"0.032768\"",
	"le=\"0.065536\"",  "le=\"0.131072\"",  "le=\"0.262144\"",  "le=\"0.524288\"",
	"le=\"1.048576\"",  "le=\"2.097152\"",  "le=\"4.194304\"",  "le=\"8.388608\"",
	"le=\"16.777216\"", "le=\"33.554432\"", "le=\"67.108864\"", "le=\"+Inf\"",
};

/*
 * A peer's name for an exemplar, without characters that need an escape. The reference parser
 * (prometheus_client 0.26) takes an escaped quote in an exemplar for the end of the value.
 */
static void plain_name(char out[TWI_LATENCY_NAME_BYTES], const char *name)
{
	snprintf(out, TWI_LATENCY_NAME_BYTES, "%s", name);
	for (char *at = out; *at != '\0'; at++) {
		if (*at == '"' || *at == '\\' || (unsigned char)*at < 0x20)
			*at = '_';
	}
}

static void emit_bucket(struct twi_emit *e, const char *name, const char *labels, uint64_t count,
			const struct twi_exemplar *one)
{
	char about[EXEMPLAR_MAX + 32], text[40], peer[TWI_LATENCY_NAME_BYTES];

	if (one == NULL || one->unix_ns == 0) {
		twi_emit_sample_u64(e, name, labels, count);
		return;
	}
	about[0] = '\0';
	snprintf(text, sizeof(text), "%llu", (unsigned long long)one->id);
	twi_emit_label(about, sizeof(about), "rpc_id", text);
	/* The names of the labels count as well, so the peer has fewer characters. */
	plain_name(peer, one->peer);
	twi_emit_label(about, EXEMPLAR_MAX - strlen("rpc_idpeer"), "peer", peer);
	twi_emit_puts(e, name);
	twi_emit_puts(e, "{");
	twi_emit_puts(e, labels);
	twi_emit_puts(e, "} ");
	twi_emit_number(e, count);
	twi_emit_puts(e, " # {");
	twi_emit_puts(e, about);
	twi_emit_puts(e, "} ");
	twi_emit_seconds(e, one->parts_ns[TWI_LATENCY_TOTAL]);
	twi_emit_puts(e, " ");
	twi_emit_seconds(e, one->unix_ns / 1000000 * 1000000);
	twi_emit_puts(e, "\n");
}

/* A histogram that is being emitted. `all` has the family's labels, then room for "le". */
struct samples {
	const struct twi_latency_sum *sum;
	char name[96], all[700];
	size_t bytes;    /* of the labels, with their comma */
	unsigned bucket; /* the buckets before this one are in `below` */
	uint64_t below;
};

static void samples_begin(struct samples *samples, const char *family, const char *labels,
			  const struct twi_latency_sum *sum)
{
	*samples = (struct samples){ .sum = sum };
	samples->bytes = twi_min(strlen(labels), sizeof(samples->all) - 32);
	memcpy(samples->all, labels, samples->bytes);
	if (samples->bytes > 0)
		samples->all[samples->bytes++] = ',';
	snprintf(samples->name, sizeof(samples->name), "%s_bucket", family);
}

/* Emits one bucket. le: `le="..."`; edge_ns UINT64_MAX is +Inf. */
static void sample_bucket(struct samples *samples, struct twi_emit *e, const char *le,
			  uint64_t edge_ns, const struct twi_exemplar *exemplar)
{
	/* Count the buckets up to that edge: the next one begins at edge_ns + 1 or below. */
	unsigned end = edge_ns == UINT64_MAX ? TWI_HIST_BUCKETS : twi_hist_index(edge_ns + 1);

	while (samples->bucket < end)
		samples->below += samples->sum->counts[samples->bucket++];
	memcpy(samples->all + samples->bytes, le, strlen(le) + 1);
	emit_bucket(e, samples->name, samples->all, samples->below, exemplar);
}

static void samples_end(struct samples *samples, struct twi_emit *e, const char *family,
			const char *labels)
{
	snprintf(samples->name, sizeof(samples->name), "%s_count", family);
	twi_emit_sample_u64(e, samples->name, labels[0] != '\0' ? labels : NULL,
			    samples->sum->count);
	snprintf(samples->name, sizeof(samples->name), "%s_sum", family);
	twi_emit_sample_seconds(e, samples->name, labels[0] != '\0' ? labels : NULL,
				samples->sum->sum_ns);
}

void twi_report_histogram(struct twi_emit *e, const char *family, const char *labels,
			  const struct twi_latency_sum *sum, const struct twi_exemplar *exemplars)
{
	struct samples samples;

	samples_begin(&samples, family, labels, sum);
	for (unsigned i = 0; i < TWI_LATENCY_EDGES; i++)
		sample_bucket(&samples, e, edges[i], twi_latency_edge_ns(i),
			      exemplars != NULL ? &exemplars[i] : NULL);
	samples_end(&samples, e, family, labels);
}

void twi_report_fine_histogram(struct twi_emit *e, const char *family, const char *labels,
			       const struct twi_latency_sum *sum)
{
	struct samples samples;

	samples_begin(&samples, family, labels, sum);
	for (unsigned i = 0; i < twi_array_count(fine_edges); i++)
		sample_bucket(&samples, e, fine_edges[i],
			      i + 1 < twi_array_count(fine_edges) ? 1000ull << i : UINT64_MAX,
			      NULL);
	samples_end(&samples, e, family, labels);
}

static void size_labels(char *out, size_t room, enum twi_lane_id lane, unsigned size_class)
{
	uint64_t bytes_max = twi_size_class_max(size_class);
	char size[32];

	if (bytes_max == UINT64_MAX)
		snprintf(size, sizeof(size), "+Inf");
	else
		snprintf(size, sizeof(size), "%llu", (unsigned long long)bytes_max);
	out[0] = '\0';
	twi_emit_label(out, room, "lane", twi_lane_name(lane));
	twi_emit_label(out, room, "size", size);
}

static void metrics_sizes(struct twi_diag *diag, struct twi_emit *e)
{
	struct twi_latency_sum sum;
	struct twi_exemplars exemplars;
	char labels[96];

	twi_emit_metric_head(e, "towline_rpc_latency_seconds", "histogram", "seconds",
			     "time from start to end of an RPC, by lane and largest size in bytes");
	for (unsigned lane = 0; lane < TWI_LANE_COUNT; lane++) {
		for (unsigned i = 0; i < TWI_SIZE_CLASSES; i++) {
			bool any = twi_latencies_exemplars(diag->latencies, TWI_LATENCY_MESSAGES,
							   lane, i, &exemplars);

			if (!twi_latency_sum(diag, lane, i, &sum))
				continue;
			size_labels(labels, sizeof(labels), lane, i);
			twi_report_histogram(e, "towline_rpc_latency_seconds", labels, &sum,
					     any ? exemplars.recent : NULL);
		}
	}
}

static void metrics_parts_of(struct twi_diag *diag, struct twi_emit *e, enum twi_lane_id lane,
			     unsigned size_class)
{
	struct twi_latency_sum total[TWI_LATENCY_PARTS];
	char labels[128];

	if (!twi_latencies_any(diag->latencies, TWI_LATENCY_MESSAGES, lane, size_class) ||
	    !sum_row(diag, NULL, TWI_LATENCY_MESSAGES, lane, size_class, total))
		return;
	for (unsigned part = TWI_LATENCY_TOTAL + 1; part < TWI_LATENCY_PARTS; part++) {
		if (total[part].count == 0)
			continue;
		size_labels(labels, sizeof(labels), lane, size_class);
		twi_emit_label(labels, sizeof(labels), "part", twi_latency_part_name(part));
		twi_report_histogram(e, "towline_rpc_part_seconds", labels, &total[part], NULL);
	}
}

static void metrics_parts(struct twi_diag *diag, struct twi_emit *e)
{
	twi_emit_metric_head(e, "towline_rpc_part_seconds", "histogram", "seconds",
			     "parts of an RPC's time (queue, wire, match), by lane and largest "
			     "size in bytes");
	for (unsigned lane = 0; lane < TWI_LANE_COUNT; lane++) {
		for (unsigned i = 0; i < TWI_SIZE_CLASSES; i++)
			metrics_parts_of(diag, e, lane, i);
	}
}

/* Sums the messages of all sizes of one row; false: there are none. */
static bool sum_peer(struct twi_diag *diag, enum twi_lane_id lane, unsigned index,
		     struct twi_latency_sum *sum)
{
	bool others = index >= TWI_LATENCY_PEERS; /* they include records without a peer */
	struct twi_latency_sum one;

	*sum = (struct twi_latency_sum){ 0 };
	for (unsigned i = 0; i < TWI_SIZE_CLASSES; i++) {
		if (twi_latencies_total(diag->latencies, index, lane, i, &one))
			twi_latency_sum_add(sum, &one);
		if (others && twi_latency_sum_blocks(diag, lane, i, &one))
			twi_latency_sum_add(sum, &one);
	}
	return sum->count > 0;
}

/* Lane of each row, and rank of its peer. Rank -1: not known; lane -1: the row is not used. */
struct peer_rows {
	int lanes[TWI_LATENCY_ROWS];
	int64_t ranks[TWI_LATENCY_ROWS];
};

static void find_ranks(struct twi_diag *diag, struct peer_rows *rows)
{
	for (unsigned i = 0; i < TWI_LATENCY_ROWS; i++) {
		enum twi_lane_id lane;
		const char *name;
		bool there;

		rows->lanes[i] = -1;
		rows->ranks[i] = -1;
		if (!twi_latencies_lane(diag->latencies, i, &lane))
			continue;
		rows->lanes[i] = (int)lane;
		name = twi_latencies_name(diag->latencies, i, &there);
		if (name != NULL)
			rows->ranks[i] = twi_span_peer_rank(diag, name);
	}
}

/*
 * A rank keeps its series if it connects again from another address: the rows of its peers have one
 * sum, at the first of them. False: there is nothing, or an earlier row has the sum.
 */
static bool sum_rank(struct twi_diag *diag, const struct peer_rows *rows, unsigned index,
		     struct twi_latency_sum *sum)
{
	struct twi_latency_sum one;
	bool any = false;

	*sum = (struct twi_latency_sum){ 0 };
	for (unsigned i = 0; i < TWI_LATENCY_ROWS; i++) {
		if (rows->lanes[i] != rows->lanes[index] || rows->ranks[i] != rows->ranks[index])
			continue;
		if (i < index)
			return false;
		if (!sum_peer(diag, (enum twi_lane_id)rows->lanes[i], i, &one))
			continue;
		twi_latency_sum_add(sum, &one);
		any = true;
	}
	return any;
}

static void metrics_peers(struct twi_diag *diag, struct twi_emit *e)
{
	struct twi_latency_sum sum;
	struct peer_rows rows;
	char labels[320], rank[24];
	bool there;

	twi_emit_metric_head(e, "towline_peer_latency_seconds", "histogram", "seconds",
			     "time from start to end of an RPC, by lane and the peer's rank in the "
			     "job, or its address where that is not known; over shared memory one "
			     "small message in 100 us is timed");
	if (diag->latencies == NULL)
		return;
	find_ranks(diag, &rows);
	for (unsigned i = 0; i < TWI_LATENCY_ROWS; i++) {
		const char *name;

		if (rows.lanes[i] < 0)
			continue;
		if (rows.ranks[i] >= 0 ? !sum_rank(diag, &rows, i, &sum)
				       : !sum_peer(diag, (enum twi_lane_id)rows.lanes[i], i, &sum))
			continue;
		name = twi_latencies_name(diag->latencies, i, &there);
		snprintf(rank, sizeof(rank), "%lld", (long long)rows.ranks[i]);
		labels[0] = '\0';
		twi_emit_label(labels, sizeof(labels), "lane",
			       twi_lane_name((enum twi_lane_id)rows.lanes[i]));
		if (rows.ranks[i] >= 0)
			twi_emit_label(labels, sizeof(labels), "peer_rank", rank);
		else
			twi_emit_label(labels, sizeof(labels), "peer",
				       name != NULL ? name : "(other)");
		twi_report_histogram(e, "towline_peer_latency_seconds", labels, &sum, NULL);
	}
}

void twi_latency_metrics(struct twi_diag *diag, struct twi_emit *e)
{
	metrics_sizes(diag, e);
	twi_latencies_begin(diag->latencies);
	metrics_parts(diag, e);
	metrics_peers(diag, e);
	twi_latencies_end(diag->latencies);
}
