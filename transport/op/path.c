/*
 * path.c - makes the copies, and chooses how a route sends. See path.h.
 */
#include "transport/op/path.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/held_count.h"
#include "transport/op/match_entry.h"
#include "transport/op/parts.h"

/* Messages from this size up are copied around the caches, if the cache size is not known. */
#define AROUND_MIN (16ull << 20)

/*
 * Reading a piece that another core has just written, in ps a KiB: some 0.05 to 0.15 ns a byte
 * where cores share a cache, 0.5 where they do not. Then memory passes it on in 0.13.
 */
#define FAR_COST      256000u
#define PIECES_JUDGED 32u   /* between two looks at the cost */
#define PIECES_AROUND 4096u /* written around the caches until the next look */

#define PAUSE_FIRST_NS (1000ull * 1000 * 1000)
#define PAUSE_MAX_NS   (60 * PAUSE_FIRST_NS)

void twi_path_copy_small(const struct twi_engine *engine, uint8_t space, void *to, const void *from,
			 size_t bytes)
{
	size_t counted = twi_space_counts(space); /* no branch: a small message pays nothing */

	if (bytes == 0)
		return;
	memcpy(to, from, bytes);
	twi_held_count_two(engine, TWI_C_necessary_copies, counted, TWI_C_necessary_copy_bytes,
			   bytes & -counted);
}

void twi_path_copy_eager(const struct twi_engine *engine, void *to, const void *from, size_t bytes)
{
	if (bytes == 0)
		return;
	memcpy(to, from, bytes);
	twi_held_count_two(engine, TWI_C_necessary_copies, 1, TWI_C_necessary_copy_bytes, bytes);
}

#if defined(__x86_64__)
/* Copies with stores that do not fetch the cache line first, and do not stay in the cache. */
__attribute__((target("avx2"))) static void copy_around(uint8_t *to, const uint8_t *from,
							size_t bytes)
{
	size_t head = -(uintptr_t)to & 63;

	head = twi_min(head, bytes);
	memcpy(to, from, head);
	to += head;
	from += head;
	bytes -= head;
	for (; bytes >= 128; to += 128, from += 128, bytes -= 128) {
		const __m256i *in = (const __m256i *)(const void *)from;
		__m256i *out = (__m256i *)(void *)to;
		__m256i a = _mm256_loadu_si256(in), b = _mm256_loadu_si256(in + 1);
		__m256i c = _mm256_loadu_si256(in + 2), d = _mm256_loadu_si256(in + 3);

		_mm256_stream_si256(out, a);
		_mm256_stream_si256(out + 1, b);
		_mm256_stream_si256(out + 2, c);
		_mm256_stream_si256(out + 3, d);
	}
	memcpy(to, from, bytes);
	_mm_sfence(); /* before any store that announces the bytes */
}

/*
 * A message that would fill half of the last-level cache is evicted before it is read, so it need
 * not go through the cache. A smaller message is better off in the cache: its reader finds it
 * there. That holds even where stores around the cache are faster (measured: by a tenth, at any
 * size that is not cached).
 */
static uint64_t around_min(void)
{
	static _Atomic uint64_t known;
	uint64_t least = atomic_load_explicit(&known, memory_order_relaxed);
	long cache;

	if (twi_likely(least != 0))
		return least;
	cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
	least = cache > 0 ? twi_max((uint64_t)cache / 2, (uint64_t)4 << 20) : AROUND_MIN;
	if (!__builtin_cpu_supports("avx2"))
		least = UINT64_MAX;
	atomic_store_explicit(&known, least, memory_order_relaxed);
	return least;
}
#else
static void copy_around(uint8_t *to, const uint8_t *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

static uint64_t around_min(void)
{
	return UINT64_MAX;
}
#endif

void twi_path_copy_large(struct twi_diag *diag, void *to, const void *from, size_t bytes,
			 uint64_t whole, bool first)
{
	if (whole >= around_min())
		copy_around(to, from, bytes);
	else
		memcpy(to, from, bytes);
	twi_count_two(diag, TWI_C_necessary_copies, first, TWI_C_necessary_copy_bytes, bytes);
}

ssize_t twi_path_copy_remote(struct twi_engine *engine, pid_t from_pid, void *to, uint64_t from,
			     size_t bytes, struct twi_site site)
{
	struct iovec local = { to, bytes }, remote = { (void *)(uintptr_t)from, bytes };
	uint64_t start_ns = twi_engine_clock(engine);
	ssize_t n = process_vm_readv(from_pid, &local, 1, &remote, 1, 0);

	if (n > 0)
		twi_copy_record(engine->diag, TWI_R_remote_memory, (uint64_t)n,
				twi_engine_clock(engine) - start_ns, site);
	return n;
}

void twi_path_copy_fallback(struct twi_engine *engine, enum twi_reason reason, void *to,
			    const void *from, size_t bytes, struct twi_site site)
{
	uint64_t start_ns;

	if (bytes == 0)
		return;
	start_ns = twi_engine_clock(engine);
	memcpy(to, from, bytes);
	twi_copy_record(engine->diag, reason, bytes, twi_engine_clock(engine) - start_ns, site);
}

void twi_path_learn(uint32_t *cost, uint64_t ns, uint64_t bytes)
{
	const uint64_t least = 16, most = UINT32_MAX / 2;
	uint64_t sample = twi_min(ns, (uint64_t)PAUSE_FIRST_NS) * 1024000 / bytes;

	if (*cost == 0)
		*cost = (uint32_t)twi_max(twi_min(sample, most), least);
	else if (sample > *cost && *cost < most)
		*cost += *cost / 16;
	else if (sample<*cost && * cost> least)
		*cost -= *cost / 16;
}

void twi_path_piece_read(struct twi_engine *engine, uint64_t ns, uint64_t bytes)
{
	if (engine->pieces_around > 0)
		return; /* it says nothing of lines that are passed from core to core */
	twi_path_learn(&engine->piece_cost, ns, bytes);
	if (++engine->pieces_read < PIECES_JUDGED)
		return;
	engine->pieces_read = 0;
	if (engine->piece_cost < FAR_COST)
		return;
	engine->pieces_around = PIECES_AROUND;
	engine->piece_cost = 0; /* the threads may run on other cores then */
}

void twi_path_copy_piece(struct twi_engine *engine, bool outside, void *to, const void *from,
			 size_t bytes, struct twi_site site)
{
	uint64_t start_ns = outside ? twi_engine_clock(engine) : 0;

	if (engine->pieces_around > 0 && around_min() != UINT64_MAX) {
		engine->pieces_around--;
		copy_around(to, from, bytes);
	} else {
		memcpy(to, from, bytes);
	}
	if (outside)
		twi_copy_record(engine->diag, TWI_R_unregistered_send, bytes,
				twi_engine_clock(engine) - start_ns, site);
	else
		twi_count_two(engine->diag, TWI_C_necessary_copies, true,
			      TWI_C_necessary_copy_bytes, bytes);
}

static void gather_runs(uint8_t *to, struct twi_parts *parts, uint64_t at, uint64_t bytes)
{
	while (bytes > 0) {
		uint64_t run = bytes;
		const void *from = twi_parts_at(parts, at, &run);

		memcpy(to, from, run);
		to += run;
		at += run;
		bytes -= run;
	}
}

static void scatter_runs(struct twi_parts *parts, uint64_t at, const uint8_t *from, uint64_t bytes)
{
	while (bytes > 0) {
		uint64_t run = bytes;
		void *to = twi_parts_at(parts, at, &run);

		memcpy(to, from, run);
		from += run;
		at += run;
		bytes -= run;
	}
}

void twi_path_gather(struct twi_engine *engine, enum twi_reason reason, void *to,
		     struct twi_parts *parts, uint64_t at, uint64_t bytes, struct twi_site site)
{
	uint64_t start_ns;

	if (bytes == 0)
		return;
	start_ns = twi_engine_clock(engine);
	gather_runs(to, parts, at, bytes);
	twi_copy_record(engine->diag, reason, bytes, twi_engine_clock(engine) - start_ns, site);
}

void twi_path_scatter(struct twi_engine *engine, enum twi_reason reason, struct twi_parts *parts,
		      uint64_t at, const void *from, uint64_t bytes, struct twi_site site)
{
	uint64_t start_ns;

	if (bytes == 0)
		return;
	start_ns = twi_engine_clock(engine);
	scatter_runs(parts, at, from, bytes);
	twi_copy_record(engine->diag, reason, bytes, twi_engine_clock(engine) - start_ns, site);
}

void twi_path_scatter_small(const struct twi_engine *engine, struct twi_parts *parts, uint64_t at,
			    const void *from, uint64_t bytes)
{
	if (bytes == 0)
		return;
	scatter_runs(parts, at, from, bytes);
	twi_held_count_two(engine, TWI_C_necessary_copies, 1, TWI_C_necessary_copy_bytes, bytes);
}

void twi_path_copy_opened(struct twi_diag *diag, void *to, const void *from, size_t bytes)
{
	if (bytes == 0)
		return;
	memcpy(to, from, bytes);
	twi_count_two(diag, TWI_C_necessary_copies, 1, TWI_C_necessary_copy_bytes, bytes);
}

void twi_path_copy_own(void *to, const void *from, size_t bytes)
{
	if (bytes > 0)
		memcpy(to, from, bytes);
}

void twi_path_wire(void *to, const void *from, size_t bytes)
{
	if (bytes > 0)
		memcpy(to, from, bytes);
}

void twi_route_init(struct twi_route *route, bool able)
{
	*route = (struct twi_route){ .able = able, .pause_ns = PAUSE_FIRST_NS };
}

bool twi_path_eligible(const struct twi_engine *engine, const struct twi_route *route,
		       uint64_t bytes)
{
	uint64_t least = engine->knobs.zerocopy_min_bytes;

	return route->able && !route->sealed && engine->knobs.zerocopy != TWI_ZEROCOPY_NEVER &&
	       least != 0 && bytes >= least;
}

bool twi_path_pays(const struct twi_engine *engine, const struct twi_route *route, uint64_t bytes)
{
	return twi_path_eligible(engine, route, bytes) &&
	       (engine->knobs.zerocopy == TWI_ZEROCOPY_ALWAYS || route->state == TWI_ROUTE_PAYS);
}

enum twi_path twi_path_choose(struct twi_engine *engine, struct twi_route *route, uint64_t bytes)
{
	if (!twi_path_eligible(engine, route, bytes))
		return TWI_PATH_PLAIN;
	if (twi_path_pays(engine, route, bytes))
		return TWI_PATH_ZEROCOPY;
	if (route->state == TWI_ROUTE_TRYING) /* one trial at a time: its report has not come */
		return TWI_PATH_PLAIN;
	if (route->state == TWI_ROUTE_COPIES && twi_engine_now(engine) < route->retry_ns)
		return TWI_PATH_PLAIN;
	return TWI_PATH_TRIAL;
}

void twi_path_tried(struct twi_engine *engine, struct twi_route *route)
{
	route->state = TWI_ROUTE_TRYING;
	route->trials++;
	twi_count(engine->diag, TWI_C_zerocopy_probes, 1);
}

void twi_path_report(struct twi_engine *engine, struct twi_route *route, uint64_t bytes,
		     bool copied)
{
	route->sends++;
	if (bytes == 0) {
		if (route->state == TWI_ROUTE_TRYING)
			route->state = TWI_ROUTE_TRY;
		return;
	}
	if (!copied) {
		route->state = TWI_ROUTE_PAYS;
		if (route->least_bytes == 0 || bytes < route->least_bytes)
			route->least_bytes = bytes;
		route->pause_ns = PAUSE_FIRST_NS;
		return;
	}
	route->copied++;
	twi_count_two(engine->diag, TWI_C_zerocopy_kernel_copies, 1,
		      TWI_C_zerocopy_kernel_copy_bytes, bytes);
	if (route->state == TWI_ROUTE_COPIES)
		return;
	route->state = TWI_ROUTE_COPIES;
	route->retry_ns = twi_engine_now(engine) + route->pause_ns;
	route->pause_ns = twi_min(route->pause_ns * 2, PAUSE_MAX_NS);
}

void twi_route_describe(const struct twi_engine *engine, const struct twi_route *route,
			struct twi_emit *emit)
{
	static const char *const why[] = {
		[TWI_ROUTE_TRY] = "not tried yet",
		[TWI_ROUTE_TRYING] = "being tried",
		[TWI_ROUTE_PAYS] = "used: the kernel does not copy",
		[TWI_ROUTE_COPIES] = "not used: the kernel copied when it was tried",
	};
	uint64_t now = twi_engine_now(engine);

	twi_emit_str(emit, "zerocopy",
		     route->sealed ? "not used: the connection is encrypted"
		     : route->able ? why[route->state]
				   : "not used: the kernel has no zero-copy send");
	twi_emit_u64(emit, "zerocopy_sends", route->sends);
	twi_emit_u64(emit, "zerocopy_kernel_copies", route->copied);
	twi_emit_u64(emit, "zerocopy_trials", route->trials);
	/* 0: zero-copy sends were not seen to pay at any size */
	twi_emit_u64(emit, "zerocopy_pays_from_bytes", route->least_bytes);
	twi_emit_u64(emit, "zerocopy_retry_in_ns",
		     route->state == TWI_ROUTE_COPIES && route->retry_ns > now
			     ? route->retry_ns - now
			     : 0);
}
