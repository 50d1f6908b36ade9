/*
 * latency.c - the rows of latency.h: how a peer gets one and leaves it; how a reading is counted.
 */
#include "diag/record/latency.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "diag/record/diag.h"

struct twi_latency_row {
	char name[TWI_LATENCY_NAME_BYTES];
	enum twi_lane_id lane;
	/* Connections to this peer; 0: it has gone. Written by the writer; a relaxed count. */
	_Atomic unsigned users;
	bool used;
	/* Made by the writer; release, with the readers' acquire. */
	struct twi_latency *_Atomic parts[TWI_LATENCY_KINDS][TWI_SIZE_CLASSES][TWI_LATENCY_PARTS];
};

struct twi_latencies {
	/* Guards which peer a row has: readers hold it while they read, the writer only tries. */
	pthread_mutex_t rows_lock;
	pthread_mutex_t exemplars_lock; /* held for a copy at most; the writer only tries */
	bool crowded; /* peers with connections have all rows: no search for each reading */
	struct twi_latency_row rows[TWI_LATENCY_ROWS]; /* others of the lanes come last */
	struct twi_exemplars *exemplars[TWI_LATENCY_KINDS][TWI_LANE_COUNT][TWI_SIZE_CLASSES];
};

static const char *const part_names[TWI_LATENCY_PARTS] = {
#define PART_NAME(id, name) [TWI_LATENCY_##id] = name,
	TWI_LATENCY_PART_MAP(PART_NAME)
#undef PART_NAME
};

/* Powers of 4 from 1 us, as twi_latency_edge_of computes them. */
#define EDGE_FIRST_NS 1000u
static const uint64_t edges_ns[TWI_LATENCY_EDGES] = {
	1000,     4000,     16000,     64000,      256000,     1024000,     4096000,
	16384000, 65536000, 262144000, 1048576000, 4194304000, 16777216000, UINT64_MAX,
};

const char *twi_latency_part_name(enum twi_latency_part part)
{
	return part_names[part];
}

uint64_t twi_latency_edge_ns(unsigned index)
{
	return edges_ns[index];
}

/* Goes by the upper edge in the histogram, so that the bucket of an exemplar also counts it. */
unsigned twi_latency_edge_of(uint64_t ns)
{
	uint64_t upper = twi_hist_upper(twi_hist_index(ns));
	unsigned doublings;

	if (upper <= EDGE_FIRST_NS)
		return 0;
	doublings = 63u - (unsigned)__builtin_clzll((upper - 1) / EDGE_FIRST_NS);
	return twi_min(doublings / 2 + 1, TWI_LATENCY_EDGES - 1u);
}

static unsigned users_of(const struct twi_latency_row *row)
{
	return atomic_load_explicit(&row->users, memory_order_relaxed);
}

static void users_add(struct twi_latency_row *row, int n)
{
	atomic_store_explicit(&row->users, users_of(row) + (unsigned)n, memory_order_relaxed);
}

struct twi_latencies *twi_latencies_create(void)
{
	struct twi_latencies *latencies = calloc(1, sizeof(*latencies));

	if (latencies == NULL)
		return NULL;
	pthread_mutex_init(&latencies->rows_lock, NULL);
	pthread_mutex_init(&latencies->exemplars_lock, NULL);
	for (unsigned lane = 0; lane < TWI_LANE_COUNT; lane++) {
		latencies->rows[TWI_LATENCY_PEERS + lane].lane = lane;
		latencies->rows[TWI_LATENCY_PEERS + lane].used = true;
	}
	return latencies;
}

static void clear_row(struct twi_latency_row *row)
{
	struct twi_latency *_Atomic *part = &row->parts[0][0][0];

	for (size_t i = 0; i < sizeof(row->parts) / sizeof(*part); i++) {
		free(atomic_load_explicit(&part[i], memory_order_relaxed));
		atomic_store_explicit(&part[i], NULL, memory_order_relaxed);
	}
	row->used = false;
}

void twi_latencies_destroy(struct twi_latencies *latencies)
{
	if (latencies == NULL)
		return;
	for (unsigned i = 0; i < TWI_LATENCY_ROWS; i++)
		clear_row(&latencies->rows[i]);
	for (unsigned kind = 0; kind < TWI_LATENCY_KINDS; kind++) {
		for (unsigned i = 0; i < TWI_LANE_COUNT * TWI_SIZE_CLASSES; i++)
			free(latencies
				     ->exemplars[kind][i / TWI_SIZE_CLASSES][i % TWI_SIZE_CLASSES]);
	}
	pthread_mutex_destroy(&latencies->rows_lock);
	pthread_mutex_destroy(&latencies->exemplars_lock);
	free(latencies);
}

const char *twi_latencies_name(const struct twi_latencies *latencies, unsigned index,
			       bool *there_out)
{
	const struct twi_latency_row *row = &latencies->rows[index];

	*there_out = atomic_load_explicit(&row->users, memory_order_relaxed) > 0;
	return index < TWI_LATENCY_PEERS ? row->name : NULL;
}

void twi_latencies_begin(struct twi_latencies *latencies)
{
	if (latencies != NULL)
		pthread_mutex_lock(&latencies->rows_lock);
}

void twi_latencies_end(struct twi_latencies *latencies)
{
	if (latencies != NULL)
		pthread_mutex_unlock(&latencies->rows_lock);
}

bool twi_latencies_read(const struct twi_latencies *latencies, unsigned index,
			enum twi_latency_kind kind, enum twi_lane_id lane, unsigned size_class,
			struct twi_latency_sum *parts_out)
{
	const struct twi_latency_row *row;

	if (latencies == NULL)
		return false;
	row = &latencies->rows[index];
	if (!row->used || row->lane != lane)
		return false;
	for (unsigned part = 0; part < TWI_LATENCY_PARTS; part++) {
		const struct twi_latency *from = atomic_load_explicit(
			&row->parts[kind][size_class][part], memory_order_acquire);

		if (from == NULL)
			parts_out[part].count = 0;
		else
			twi_latency_read(from, &parts_out[part]);
	}
	return parts_out[TWI_LATENCY_TOTAL].count > 0;
}

bool twi_latencies_any(const struct twi_latencies *latencies, enum twi_latency_kind kind,
		       enum twi_lane_id lane, unsigned size_class)
{
	for (unsigned i = 0; latencies != NULL && i < TWI_LATENCY_ROWS; i++) {
		const struct twi_latency_row *row = &latencies->rows[i];

		if (row->used && row->lane == lane &&
		    atomic_load_explicit(&row->parts[kind][size_class][TWI_LATENCY_TOTAL],
					 memory_order_relaxed) != NULL)
			return true;
	}
	return false;
}

bool twi_latencies_lane(const struct twi_latencies *latencies, unsigned index,
			enum twi_lane_id *lane_out)
{
	*lane_out = latencies->rows[index].lane;
	return latencies->rows[index].used;
}

bool twi_latencies_total(const struct twi_latencies *latencies, unsigned index,
			 enum twi_lane_id lane, unsigned size_class, struct twi_latency_sum *out)
{
	const struct twi_latency_row *row;
	const struct twi_latency *from;

	if (latencies == NULL)
		return false;
	row = &latencies->rows[index];
	if (!row->used || row->lane != lane)
		return false;
	from = atomic_load_explicit(
		&row->parts[TWI_LATENCY_MESSAGES][size_class][TWI_LATENCY_TOTAL],
		memory_order_acquire);
	return from != NULL && twi_latency_read(from, out);
}

void twi_latencies_add(struct twi_latencies *latencies, enum twi_lane_id lane, unsigned size_class,
		       struct twi_latency_sum *sum)
{
	struct twi_latency_sum one;

	if (latencies == NULL)
		return;
	twi_latencies_begin(latencies);
	for (unsigned i = 0; i < TWI_LATENCY_ROWS; i++) {
		if (twi_latencies_total(latencies, i, lane, size_class, &one))
			twi_latency_sum_add(sum, &one);
	}
	twi_latencies_end(latencies);
}

bool twi_latencies_exemplars(struct twi_latencies *latencies, enum twi_latency_kind kind,
			     enum twi_lane_id lane, unsigned size_class, struct twi_exemplars *out)
{
	const struct twi_exemplars *from;

	if (latencies == NULL)
		return false;
	pthread_mutex_lock(&latencies->exemplars_lock);
	from = latencies->exemplars[kind][lane][size_class];
	if (from != NULL)
		*out = *from;
	pthread_mutex_unlock(&latencies->exemplars_lock);
	return from != NULL;
}

#ifndef TWI_NO_DIAGNOSTICS

static struct twi_latency *part_of(struct twi_latency_row *row, enum twi_latency_kind kind,
				   unsigned size_class, unsigned part)
{
	struct twi_latency *_Atomic *at = &row->parts[kind][size_class][part];
	struct twi_latency *latency = atomic_load_explicit(at, memory_order_relaxed);

	if (twi_likely(latency != NULL))
		return latency;
	latency = calloc(1, sizeof(*latency));
	if (latency != NULL)
		atomic_store_explicit(at, latency, memory_order_release);
	return latency;
}

/* Moves the readings of a row to the others of its lane. */
static void hand_over(struct twi_latencies *latencies, struct twi_latency_row *row)
{
	struct twi_latency_row *others = &latencies->rows[TWI_LATENCY_PEERS + row->lane];
	struct twi_latency *_Atomic *from = &row->parts[0][0][0],
				    *_Atomic *to = &others->parts[0][0][0];

	for (size_t i = 0; i < sizeof(row->parts) / sizeof(*from); i++) {
		struct twi_latency *mine = atomic_load_explicit(&from[i], memory_order_relaxed);
		struct twi_latency *theirs = atomic_load_explicit(&to[i], memory_order_relaxed);

		if (mine == NULL)
			continue;
		atomic_store_explicit(&from[i], NULL, memory_order_relaxed);
		if (theirs == NULL) {
			atomic_store_explicit(&to[i], mine, memory_order_release);
			continue;
		}
		twi_latency_merge(theirs, mine);
		free(mine);
	}
	row->used = false;
}

static struct twi_latency_row *find_row(struct twi_latencies *latencies, enum twi_lane_id lane,
					const char *name)
{
	struct twi_latency_row *gone = NULL;

	for (unsigned i = 0; i < TWI_LATENCY_PEERS; i++) {
		struct twi_latency_row *row = &latencies->rows[i];

		if (row->used && row->lane == lane && strcmp(row->name, name) == 0)
			return row;
		/* a row that was never used is better than one that must be emptied */
		if (!row->used ? gone == NULL || gone->used : gone == NULL && users_of(row) == 0)
			gone = row;
	}
	if (gone == NULL)
		return NULL;
	if (gone->used)
		hand_over(latencies, gone);
	gone->used = true;
	gone->lane = lane;
	snprintf(gone->name, sizeof(gone->name), "%s", name);
	return gone;
}

/* The peer's row; else the others' row, while *row stays NULL and the next reading tries again. */
static struct twi_latency_row *row_for(struct twi_latencies *latencies,
				       struct twi_latency_row **row, enum twi_lane_id lane,
				       const char *name)
{
	struct twi_latency_row *others = &latencies->rows[TWI_LATENCY_PEERS + lane];
	char own[TWI_LATENCY_NAME_BYTES];

	snprintf(own, sizeof(own), "%s", name);
	if (latencies->crowded || pthread_mutex_trylock(&latencies->rows_lock) != 0)
		return others;
	*row = find_row(latencies, lane, own);
	if (*row != NULL)
		users_add(*row, 1);
	else
		latencies->crowded = true;
	pthread_mutex_unlock(&latencies->rows_lock);
	return *row != NULL ? *row : others;
}

static void fill_exemplar(struct twi_exemplar *out, const char *name,
			  const struct twi_latency_reading *reading)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	out->id = reading->id;
	out->bytes = reading->bytes;
	out->end_ns = reading->end_ns;
	out->unix_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	memcpy(out->parts_ns, reading->parts_ns, sizeof(out->parts_ns));
	snprintf(out->peer, sizeof(out->peer), "%s", name);
}

static void keep_worst(struct twi_exemplars *exemplars, const struct twi_exemplar *one)
{
	unsigned at = exemplars->worst_count;

	if (at < TWI_LATENCY_WORST)
		exemplars->worst_count++;
	else
		at--;
	for (; at > 0 && exemplars->worst[at - 1].parts_ns[TWI_LATENCY_TOTAL] <
				 one->parts_ns[TWI_LATENCY_TOTAL];
	     at--)
		exemplars->worst[at] = exemplars->worst[at - 1];
	exemplars->worst[at] = *one;
}

/* Rare: only for a reading that is slower than most, or the first in a minute. */
static void keep_exemplar(struct twi_latencies *latencies, struct twi_exemplars **at, bool worst,
			  unsigned edge, bool recent, const char *name,
			  const struct twi_latency_reading *reading)
{
	struct twi_exemplar one;

	if (pthread_mutex_trylock(&latencies->exemplars_lock) != 0)
		return;
	if (*at == NULL)
		*at = calloc(1, sizeof(**at));
	if (*at != NULL) {
		fill_exemplar(&one, name, reading);
		if (worst)
			keep_worst(*at, &one);
		if (recent)
			(*at)->recent[edge] = one;
	}
	pthread_mutex_unlock(&latencies->exemplars_lock);
}

static void judge_reading(struct twi_latencies *latencies, const char *name, unsigned size_class,
			  const struct twi_latency_reading *reading)
{
	struct twi_exemplars **at = &latencies->exemplars[reading->kind][reading->lane][size_class];
	const struct twi_exemplars *have = *at;
	uint64_t ns = reading->parts_ns[TWI_LATENCY_TOTAL];
	unsigned edge = twi_latency_edge_of(ns);
	bool worst = true, recent = true;

	if (twi_likely(have != NULL)) {
		const struct twi_exemplar *best = &have->recent[edge];

		worst = have->worst_count < TWI_LATENCY_WORST ||
			ns > have->worst[TWI_LATENCY_WORST - 1].parts_ns[TWI_LATENCY_TOTAL];
		recent = ns > best->parts_ns[TWI_LATENCY_TOTAL] || best->unix_ns == 0 ||
			 reading->end_ns - best->end_ns > TWI_LATENCY_RECENT_NS;
	}
	if (twi_unlikely(worst || recent))
		keep_exemplar(latencies, at, worst, edge, recent, name, reading);
}

void twi_latency_note(struct twi_diag *diag, struct twi_latency_row **row, const char *name,
		      const struct twi_latency_reading *reading)
{
	struct twi_latencies *latencies = diag->latencies;
	unsigned size_class = twi_size_class(reading->bytes);
	struct twi_latency_row *into;

	if (reading->kind >= TWI_LATENCY_KINDS)
		return;
	if (twi_unlikely(latencies == NULL)) {
		atomic_fetch_add_explicit(&diag->lost, 1, memory_order_relaxed);
		return;
	}
	into = twi_likely(*row != NULL) ? *row : row_for(latencies, row, reading->lane, name);
	for (unsigned part = 0; part < TWI_LATENCY_PARTS; part++) {
		struct twi_latency *latency;

		if (reading->parts_ns[part] == TWI_LATENCY_UNKNOWN)
			continue;
		latency = part_of(into, reading->kind, size_class, part);
		if (twi_unlikely(latency == NULL)) {
			atomic_fetch_add_explicit(&diag->lost, 1, memory_order_relaxed);
			continue;
		}
		twi_latency_add(latency, reading->parts_ns[part]);
		if (part == TWI_LATENCY_TOTAL)
			twi_cell_add(&latency->bytes, reading->bytes);
	}
	judge_reading(latencies, name, size_class, reading);
}

#else

void twi_latency_note(struct twi_diag *diag, struct twi_latency_row **row, const char *name,
		      const struct twi_latency_reading *reading)
{
	(void)diag, (void)row, (void)name, (void)reading;
}

#endif

/* No lock is needed: a reader that sees the change late shows the peer as connected. */
void twi_latency_leave(struct twi_diag *diag, struct twi_latency_row **row)
{
	if (*row == NULL)
		return;
	users_add(*row, -1);
	diag->latencies->crowded = false;
	*row = NULL;
}
