/*
 * site.c - a thread's table of call sites, and the sum over all threads. See site.h.
 */
#include "diag/record/site.h"

#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "diag/record/diag.h"

#define KEY_USED (1ull << 63)

static uint64_t key_of(enum twi_reason reason, uint64_t bytes, uint32_t tag)
{
	return KEY_USED | (uint64_t)tag << 16 | (uint64_t)twi_size_class(bytes) << 8 | reason;
}

static struct twi_site_row *make_rows(struct twi_sites *sites)
{
	size_t bytes = TWI_SITE_ROWS * sizeof(struct twi_site_row);
	struct twi_site_row *rows = aligned_alloc(64, bytes);

	if (rows == NULL)
		return NULL;
	for (unsigned i = 0; i < TWI_SITE_ROWS; i++)
		rows[i] = (struct twi_site_row){ 0 };
	atomic_store_explicit(&sites->rows, rows, memory_order_release);
	return rows;
}

/* The cell of a key, in a new row if needed; the cell of the reason if no slot near it is free. */
static struct twi_site_cell *cell_of(struct twi_sites *sites, uint64_t key, const void *caller,
				     enum twi_reason reason)
{
	struct twi_site_row *rows = atomic_load_explicit(&sites->rows, memory_order_relaxed);
	uint64_t hash = twi_hash_spread(key ^ (uint64_t)(uintptr_t)caller << 12) >> 32;

	if (twi_unlikely(rows == NULL)) {
		rows = make_rows(sites);
		if (rows == NULL)
			return &sites->other[reason];
	}
	for (unsigned i = 0; i < TWI_SITE_PROBES; i++) {
		struct twi_site_row *row = &rows[(hash + i) % TWI_SITE_ROWS];
		uint64_t held = atomic_load_explicit(&row->key, memory_order_relaxed);

		if (twi_likely(held == key && row->caller == caller))
			return &row->cell;
		if (held == 0) {
			row->caller = caller;
			atomic_store_explicit(&row->key, key, memory_order_release);
			return &row->cell;
		}
	}
	return &sites->other[reason];
}

void twi_sites_record(struct twi_sites *sites, enum twi_reason reason, uint64_t bytes, uint64_t ns,
		      struct twi_site site)
{
	uint64_t key = key_of(reason, bytes, site.tag), now = twi_now_ns();
	struct twi_site_cell *cell = cell_of(sites, key, site.caller, reason);

	if (twi_unlikely(atomic_load_explicit(&cell->count, memory_order_relaxed) == 0))
		atomic_store_explicit(&cell->first_ns, now, memory_order_relaxed);
	twi_cell_add(&cell->count, 1);
	twi_cell_add(&cell->bytes, bytes);
	twi_cell_add(&cell->ns, ns);
	if (ns > atomic_load_explicit(&cell->max_ns, memory_order_relaxed))
		atomic_store_explicit(&cell->max_ns, ns, memory_order_relaxed);
	atomic_store_explicit(&cell->last_ns, now, memory_order_relaxed);
}

void twi_sites_fini(struct twi_sites *sites)
{
	free(atomic_load_explicit(&sites->rows, memory_order_relaxed));
	atomic_store_explicit(&sites->rows, NULL, memory_order_relaxed);
}

static void read_cell(const struct twi_site_cell *cell, struct twi_site_sum *out)
{
	out->count = atomic_load_explicit(&cell->count, memory_order_relaxed);
	out->bytes = atomic_load_explicit(&cell->bytes, memory_order_relaxed);
	out->ns = atomic_load_explicit(&cell->ns, memory_order_relaxed);
	out->max_ns = atomic_load_explicit(&cell->max_ns, memory_order_relaxed);
	out->first_ns = atomic_load_explicit(&cell->first_ns, memory_order_relaxed);
	out->last_ns = atomic_load_explicit(&cell->last_ns, memory_order_relaxed);
}

/* Reads one thread's sums; returns the end of the output. A row without events does not count. */
static struct twi_site_sum *read_sites(const struct twi_sites *sites, struct twi_site_sum *out)
{
	const struct twi_site_row *rows = atomic_load_explicit(&sites->rows, memory_order_acquire);

	for (unsigned i = 0; i < TWI_R_COUNT; i++) {
		*out = (struct twi_site_sum){ .reason = i, .other = true };
		read_cell(&sites->other[i], out);
		out += out->count != 0;
	}
	for (unsigned i = 0; rows != NULL && i < TWI_SITE_ROWS; i++) {
		uint64_t key = atomic_load_explicit(&rows[i].key, memory_order_acquire);

		if (key == 0)
			continue;
		*out = (struct twi_site_sum){
			.site = { .caller = rows[i].caller, .tag = (uint32_t)(key >> 16) },
			.reason = key & 0xff,
			.size_class = key >> 8 & 0xff,
		};
		read_cell(&rows[i].cell, out);
		out += out->count != 0;
	}
	return out;
}

#define ORDER(x, y)                                                                                \
	do {                                                                                       \
		if ((x) != (y))                                                                    \
			return (x) < (y) ? -1 : 1;                                                 \
	} while (0)

static int by_key(const void *a, const void *b)
{
	const struct twi_site_sum *left = a, *right = b;

	ORDER(left->reason, right->reason);
	ORDER(left->other, right->other);
	ORDER((uintptr_t)left->site.caller, (uintptr_t)right->site.caller);
	ORDER(left->site.tag, right->site.tag);
	ORDER(left->size_class, right->size_class);
	return 0;
}

/* Joins the rows of one key, which several threads may have. Returns how many rows are left. */
static size_t fold_rows(struct twi_site_sum *rows, size_t count)
{
	size_t kept = 0;

	for (size_t i = 1; i < count; i++) {
		struct twi_site_sum *into = &rows[kept];

		if (by_key(into, &rows[i]) != 0) {
			rows[++kept] = rows[i];
			continue;
		}
		into->count += rows[i].count;
		into->bytes += rows[i].bytes;
		into->ns += rows[i].ns;
		into->max_ns = twi_max(into->max_ns, rows[i].max_ns);
		into->first_ns = twi_min(into->first_ns, rows[i].first_ns);
		into->last_ns = twi_max(into->last_ns, rows[i].last_ns);
	}
	return count > 0 ? kept + 1 : 0;
}

int twi_site_sums(struct twi_diag *diag, struct twi_site_sum **rows_out, size_t *count_out)
{
	const struct twi_diag_block *first =
		atomic_load_explicit(&diag->blocks, memory_order_acquire);
	struct twi_site_sum *rows, *end;
	size_t blocks = 0;

	*rows_out = NULL;
	*count_out = 0;
	for (const struct twi_diag_block *block = first; block != NULL; block = block->next)
		blocks++;
	if (blocks == 0)
		return TOW_OK;
	rows = calloc(blocks * (TWI_SITE_ROWS + TWI_R_COUNT) + 1, sizeof(*rows));
	if (rows == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the sums by place");
	end = rows;
	for (const struct twi_diag_block *block = first; block != NULL; block = block->next)
		end = read_sites(&block->sites, end);
	qsort(rows, (size_t)(end - rows), sizeof(*rows), by_key);
	*count_out = fold_rows(rows, (size_t)(end - rows));
	*rows_out = rows;
	return TOW_OK;
}
