/*
 * path.c - the copies, and the choice of a route's send. See path.h.
 */
#include "transport/path.h"

#include <string.h>

#include "diag/diag.h"
#include "transport/engine.h"

#define PAUSE_FIRST_NS (1000ull * 1000 * 1000)
#define PAUSE_MAX_NS   (60 * PAUSE_FIRST_NS)

void twi_path_copy_eager(struct twi_diag *diag, void *to, const void *from, size_t bytes)
{
	if (bytes == 0)
		return;
	memcpy(to, from, bytes);
	twi_count(diag, TWI_C_necessary_copies, 1);
	twi_count(diag, TWI_C_necessary_copy_bytes, bytes);
}

void twi_path_copy_fallback(struct twi_engine *engine, enum twi_reason reason, void *to,
			    const void *from, size_t bytes, struct twi_site site)
{
	uint64_t start_ns = twi_engine_now(engine);

	if (bytes > 0)
		memcpy(to, from, bytes);
	twi_copy_record(engine->diag, reason, bytes, twi_engine_now(engine) - start_ns, site);
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

enum twi_path twi_path_choose(struct twi_engine *engine, struct twi_route *route, uint64_t bytes,
			      bool in_pool)
{
	uint64_t least = (uint64_t)engine->knobs.zerocopy_min_bytes;

	/* Unregistered pages are pinned for each send, which costs what the copy would. */
	if (!route->able || !in_pool || least == 0 || bytes < least)
		return TWI_PATH_PLAIN;
	switch (route->state) {
	case TWI_ROUTE_PAYS:
		return TWI_PATH_ZEROCOPY;
	case TWI_ROUTE_COPIES:
		if (twi_engine_now(engine) < route->retry_ns)
			return TWI_PATH_PLAIN;
		/* the pause is over: try once more */
		__attribute__((fallthrough));
	case TWI_ROUTE_TRY:
		route->state = TWI_ROUTE_TRYING;
		twi_count(engine->diag, TWI_C_zerocopy_probes, 1);
		return TWI_PATH_ZEROCOPY;
	default:
		return TWI_PATH_PLAIN; /* one trial at a time: its report is not here yet */
	}
}

void twi_path_report(struct twi_engine *engine, struct twi_route *route, uint64_t bytes,
		     bool copied)
{
	route->sends++;
	if (!copied) {
		route->state = TWI_ROUTE_PAYS;
		route->pause_ns = PAUSE_FIRST_NS;
		return;
	}
	route->copied++;
	twi_count(engine->diag, TWI_C_zerocopy_kernel_copies, 1);
	twi_count(engine->diag, TWI_C_zerocopy_kernel_copy_bytes, bytes);
	if (route->state == TWI_ROUTE_COPIES)
		return;
	route->state = TWI_ROUTE_COPIES;
	route->retry_ns = twi_engine_now(engine) + route->pause_ns;
	route->pause_ns = twi_min(route->pause_ns * 2, PAUSE_MAX_NS);
}

void twi_route_describe(const struct twi_route *route, struct twi_emit *emit)
{
	static const char *const why[] = {
		[TWI_ROUTE_TRY] = "not tried yet",
		[TWI_ROUTE_TRYING] = "being tried",
		[TWI_ROUTE_PAYS] = "used: the kernel does not copy",
		[TWI_ROUTE_COPIES] = "not used: the kernel copied when it was tried",
	};

	twi_emit_str(emit, "zerocopy",
		     route->able ? why[route->state] : "not used: the kernel has no SEND_ZC");
	twi_emit_u64(emit, "zerocopy_sends", route->sends);
	twi_emit_u64(emit, "zerocopy_kernel_copies", route->copied);
}
