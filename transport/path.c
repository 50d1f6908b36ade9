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
	uint64_t least = (uint64_t)engine->knobs.zerocopy_min_bytes;

	return route->able && engine->zerocopy != TWI_ZEROCOPY_NEVER && least != 0 &&
	       bytes >= least;
}

bool twi_path_pays(const struct twi_engine *engine, const struct twi_route *route, uint64_t bytes)
{
	return twi_path_eligible(engine, route, bytes) &&
	       (engine->zerocopy == TWI_ZEROCOPY_ALWAYS || route->state == TWI_ROUTE_PAYS);
}

enum twi_path twi_path_choose(struct twi_engine *engine, struct twi_route *route, uint64_t bytes)
{
	if (!twi_path_eligible(engine, route, bytes))
		return TWI_PATH_PLAIN;
	if (twi_path_pays(engine, route, bytes))
		return TWI_PATH_ZEROCOPY;
	if (route->state == TWI_ROUTE_TRYING) /* one at a time: its report is not here yet */
		return TWI_PATH_PLAIN;
	if (route->state == TWI_ROUTE_COPIES && twi_engine_now(engine) < route->retry_ns)
		return TWI_PATH_PLAIN;
	return TWI_PATH_TRIAL;
}

void twi_path_tried(struct twi_engine *engine, struct twi_route *route)
{
	route->state = TWI_ROUTE_TRYING;
	twi_count(engine->diag, TWI_C_zerocopy_probes, 1);
}

bool twi_zerocopy_parse(const char *name, enum twi_zerocopy *out)
{
	static const char *const names[] = {
		[TWI_ZEROCOPY_AUTO] = "auto",
		[TWI_ZEROCOPY_ALWAYS] = "always",
		[TWI_ZEROCOPY_NEVER] = "never",
	};

	for (unsigned i = 0; i < twi_array_count(names); i++) {
		if (strcmp(name, names[i]) == 0) {
			*out = (enum twi_zerocopy)i;
			return true;
		}
	}
	return false;
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
