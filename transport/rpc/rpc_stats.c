/*
 * rpc_stats.c - latencies of calls by method and peer, for /v1/rpc and /metrics.
 *
 * There are TWI_RPC_ROWS rows, each for one (method, peer, side), found by this key. One more row
 * is for all keys that found none. When the table is full, the rows of a peer that has gone are
 * added to that row, and used for others. So a server with changing clients keeps the sums right,
 * and still distinguishes the clients that are connected.
 *
 * The thread that counts holds the engine. /metrics takes rows_lock instead. Counting takes this
 * lock only to give a row away, so reading often costs the engine nothing.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/latency_report.h"
#include "diag/record/span.h"
#include "transport/engine/engine.h"
#include "transport/rpc/rpc.h"

struct twi_rpc_row {
	bool used, client;
	bool searched; /* of the last row: no other can be had until a peer has gone */
	uint64_t hash, peer_id;
	char name[TOW_METHOD_NAME_MAX];
	char address[TOW_ADDRESS_MAX];
	uint64_t calls, failed;
	int64_t rank_plus_1; /* of the peer; 0: not asked for, or not known (rows_lock) */
	struct twi_latency parts[TWI_RPC_PARTS];
};

static const char *part_name(unsigned part)
{
	return part == TWI_RPC_THERE  ? "request_one_way"
	       : part == TWI_RPC_BACK ? "response_one_way"
				      : twi_latency_part_name((enum twi_latency_part)part);
}

int twi_rpc_stats_init(struct twi_rpc *rpc)
{
	/* Rows are touched only when they are used. */
	rpc->rows = calloc(TWI_RPC_ROWS + 1, sizeof(rpc->rows[0]));
	pthread_mutex_init(&rpc->rows_lock, NULL);
	return rpc->rows == NULL ? TOW_ENOMEM : TOW_OK;
}

void twi_rpc_stats_fini(struct twi_rpc *rpc)
{
	free(rpc->rows);
	pthread_mutex_destroy(&rpc->rows_lock);
}

static bool peer_is_there(const struct twi_rpc *rpc, uint64_t peer_id)
{
	for (const struct twi_list *pos = rpc->peers.next; pos != &rpc->peers; pos = pos->next) {
		const struct twi_rpc_peer *rp = twi_container_of(pos, struct twi_rpc_peer, link);

		if (rp->peer_id == peer_id)
			return rp->dead >= 0;
	}
	return false;
}

/* Empties the rows of peers that have gone, and returns one. NULL: there are none. */
static struct twi_rpc_row *reclaim_row(struct twi_rpc *rpc)
{
	struct twi_rpc_row *other = &rpc->rows[TWI_RPC_ROWS], *found = NULL;

	for (unsigned i = 0; i < TWI_RPC_ROWS; i++) {
		struct twi_rpc_row *row = &rpc->rows[i];

		if (peer_is_there(rpc, row->peer_id))
			continue;
		other->used = true;
		other->calls += row->calls;
		other->failed += row->failed;
		for (unsigned part = 0; part < TWI_RPC_PARTS; part++)
			twi_latency_merge(&other->parts[part], &row->parts[part]);
		*row = (struct twi_rpc_row){ 0 };
		found = row;
	}
	return found;
}

/* Gives a row to a key that has none. */
static struct twi_rpc_row *assign_row(struct twi_rpc_peer *rp, struct twi_rpc_row *row,
				      uint64_t hash, const char *name, bool client)
{
	struct twi_rpc_row *other = &rp->rpc->rows[TWI_RPC_ROWS];

	pthread_mutex_lock(&rp->rpc->rows_lock);
	if (row == NULL && !other->searched) {
		row = reclaim_row(rp->rpc);
		other->searched = row == NULL; /* no row was found: do not search each time */
	}
	if (row == NULL) {
		row = other;
	} else {
		row->client = client;
		row->hash = hash;
		row->peer_id = rp->peer_id;
		snprintf(row->name, sizeof(row->name), "%s", name);
		snprintf(row->address, sizeof(row->address), "%s", rp->address);
	}
	row->used = true;
	pthread_mutex_unlock(&rp->rpc->rows_lock);
	return row;
}

static struct twi_rpc_row *row_of(struct twi_rpc_peer *rp, uint64_t hash, const char *name,
				  bool client)
{
	struct twi_rpc_row *rows = rp->rpc->rows, *row = NULL;

	for (unsigned i = 0; i < TWI_RPC_ROWS; i++) {
		if (!rows[i].used) {
			row = &rows[i];
			break;
		}
		if (rows[i].hash == hash && rows[i].peer_id == rp->peer_id &&
		    rows[i].client == client)
			return &rows[i];
	}
	if (row == NULL && rows[TWI_RPC_ROWS].searched && rows[TWI_RPC_ROWS].used)
		return &rows[TWI_RPC_ROWS];
	return assign_row(rp, row, hash, name, client);
}

void twi_rpc_stats_record(struct twi_rpc_peer *rp, uint64_t hash, const char *name, bool client,
			  bool failed, const uint64_t parts[TWI_RPC_PARTS])
{
	struct twi_rpc_row *row = row_of(rp, hash, name, client);

	twi_assert_held(rp->engine);
	row->calls++;
	row->failed += failed;
	for (unsigned i = 0; i < TWI_RPC_PARTS; i++) {
		if (parts[i] != UINT64_MAX)
			twi_latency_add(&row->parts[i], parts[i]);
	}
}

void twi_rpc_stats_peer_gone(struct twi_rpc *rpc)
{
	twi_assert_held(rpc->engine);
	rpc->rows[TWI_RPC_ROWS].searched = false; /* there may be rows to reclaim now */
}

static void emit_row(const struct twi_rpc *rpc, const struct twi_rpc_row *row,
		     struct twi_emit *emit)
{
	bool other = row == &rpc->rows[TWI_RPC_ROWS];

	twi_emit_object_begin(emit, NULL);
	twi_emit_str(emit, "method", other ? "(other)" : row->name);
	twi_emit_str(emit, "side", other ? "both" : row->client ? "client" : "server");
	if (!other) {
		twi_emit_u64(emit, "peer", row->peer_id);
		twi_emit_str(emit, "address", row->address);
		twi_emit_bool(emit, "peer_is_there", peer_is_there(rpc, row->peer_id));
	}
	twi_emit_u64(emit, "calls", row->calls);
	twi_emit_u64(emit, "failed", row->failed);
	for (unsigned i = 0; i < TWI_RPC_PARTS; i++) {
		struct twi_latency_sum sum;

		if (!twi_latency_read(&row->parts[i], &sum))
			continue;
		twi_emit_object_begin(emit, part_name(i));
		twi_latency_emit(emit, &sum);
		twi_emit_object_end(emit);
	}
	twi_emit_object_end(emit);
}

static void emit_peers(const struct twi_rpc *rpc, struct twi_emit *emit)
{
	twi_emit_array_begin(emit, "peers");
	for (const struct twi_list *pos = rpc->peers.next; pos != &rpc->peers; pos = pos->next) {
		const struct twi_rpc_peer *rp = twi_container_of(pos, struct twi_rpc_peer, link);
		unsigned waiting = 0;

		for (const struct twi_list *at = rp->queued.next; at != &rp->queued; at = at->next)
			waiting++;
		twi_emit_object_begin(emit, NULL);
		twi_emit_u64(emit, "peer", rp->peer_id);
		twi_emit_str(emit, "address", rp->address);
		twi_emit_str(emit, "state",
			     rp->dead < 0 ? tow_status_name(rp->dead)
			     : rp->ready  ? "up"
					  : "opening");
		twi_emit_u64(emit, "inline_max_bytes", rp->inline_max);
		twi_emit_u64(emit, "window", rp->window);
		twi_emit_u64(emit, "calls_on_their_way", rp->in_flight);
		twi_emit_u64(emit, "calls_waiting", waiting);
		twi_emit_u64(emit, "calls_in_service", rp->serving);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}

static void emit_methods(const struct twi_rpc *rpc, struct twi_emit *emit)
{
	twi_emit_array_begin(emit, "methods");
	for (unsigned i = 0; i < TOW_METHODS_MAX; i++) {
		const struct twi_rpc_method *method = &rpc->methods[i];

		if (method->hash == 0)
			continue;
		twi_emit_object_begin(emit, NULL);
		twi_emit_str(emit, "method", method->name);
		twi_emit_u64(emit, "in_service", method->in_service);
		twi_emit_u64(emit, "held_bytes", method->held_bytes);
		twi_emit_object_end(emit);
	}
	twi_emit_array_end(emit);
}

void twi_rpc_describe(void *arg, struct twi_emit *emit)
{
	struct twi_engine *engine = arg;
	const struct twi_rpc *rpc;

	twi_engine_enter(engine);
	rpc = engine->rpc;
	twi_emit_str(emit, "unit", "ns");
	twi_emit_str(emit, "resolution", TWI_HIST_RESOLUTION);
	twi_emit_bool(emit, "used", rpc != NULL);
	if (rpc != NULL) {
		twi_emit_u64(emit, "calls_refused", rpc->refused);
		twi_emit_u64(emit, "answers_dropped", rpc->dropped);
		emit_methods(rpc, emit);
		emit_peers(rpc, emit);
		twi_emit_array_begin(emit, "calls");
		for (unsigned i = 0; i <= TWI_RPC_ROWS; i++) {
			if (rpc->rows[i].used)
				emit_row(rpc, &rpc->rows[i], emit);
		}
		twi_emit_array_end(emit);
	}
	twi_engine_leave(engine);
}

/* The rank of the row's peer. -1: it is not known, or there are several. With rows_lock. */
static int64_t rank_of(const struct twi_rpc *rpc, struct twi_rpc_row *row)
{
	if (row->rank_plus_1 == 0 && row != &rpc->rows[TWI_RPC_ROWS])
		row->rank_plus_1 = twi_span_peer_rank(rpc->engine->diag, row->address) + 1;
	return row->rank_plus_1 - 1;
}

/* Whether two rows are of one series: the same method, rank and side. A rank that connects again
 * has another row, but the same series. */
static bool same_series(const struct twi_rpc *rpc, const struct twi_rpc_row *a,
			struct twi_rpc_row *b, int64_t rank)
{
	return a == b || (rank >= 0 && b->used && a->hash == b->hash && a->client == b->client &&
			  rank_of(rpc, b) == rank);
}

static void label_row(const struct twi_rpc *rpc, const struct twi_rpc_row *row, int64_t rank,
		      const char *part, char *labels, size_t room)
{
	bool other = row == &rpc->rows[TWI_RPC_ROWS];
	char number[24];

	labels[0] = '\0';
	twi_emit_label(labels, room, "method", other ? "(other)" : row->name);
	if (rank >= 0) {
		snprintf(number, sizeof(number), "%lld", (long long)rank);
		twi_emit_label(labels, room, "peer_rank", number);
	} else {
		snprintf(number, sizeof(number), "%llu", (unsigned long long)row->peer_id);
		twi_emit_label(labels, room, "peer", other ? "(other)" : row->address);
		twi_emit_label(labels, room, "peer_id", number);
	}
	twi_emit_label(labels, room, "side", other ? "both" : row->client ? "client" : "server");
	twi_emit_label(labels, room, "part", part);
}

/* Writes the series that begins with row `index`, unless an earlier row has begun it. */
static void emit_samples(const struct twi_rpc *rpc, unsigned index, struct twi_emit *emit)
{
	struct twi_rpc_row *row = &rpc->rows[index];
	int64_t rank = rank_of(rpc, row);
	char labels[640];

	for (unsigned i = 0; i < index; i++) {
		if (same_series(rpc, row, &rpc->rows[i], rank))
			return;
	}
	for (unsigned part = 0; part < TWI_RPC_PARTS; part++) {
		struct twi_latency_sum sum = { 0 }, one;

		for (unsigned i = index; i <= TWI_RPC_ROWS; i++) {
			if (same_series(rpc, row, &rpc->rows[i], rank) &&
			    twi_latency_read(&rpc->rows[i].parts[part], &one))
				twi_latency_sum_add(&sum, &one);
		}
		if (sum.count == 0)
			continue;
		label_row(rpc, row, rank, part_name(part), labels, sizeof(labels));
		twi_report_histogram(emit, "towline_call_seconds", labels, &sum, NULL);
	}
}

void twi_rpc_metrics(void *arg, struct twi_emit *emit)
{
	const struct twi_engine *engine = arg;
	struct twi_rpc *rpc = atomic_load_explicit(&engine->rpc, memory_order_acquire);

	if (rpc == NULL)
		return;
	twi_emit_metric_head(emit, "towline_call_seconds", "histogram", "seconds",
			     "time of calls, by method, the peer's rank in the job or its address, "
			     "side and part");
	for (unsigned i = 0; i <= TWI_RPC_ROWS; i++) {
		/* Locked for each row, so a thread that needs a row waits for one only. */
		pthread_mutex_lock(&rpc->rows_lock);
		if (rpc->rows[i].used)
			emit_samples(rpc, i, emit);
		pthread_mutex_unlock(&rpc->rows_lock);
	}
}
