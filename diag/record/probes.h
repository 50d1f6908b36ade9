/*
 * probes.h - USDT probes of the provider "towline", for tracers.
 *
 *	rpc_done(lane, bytes, latency_ns)	an RPC has ended
 *	copy(reason, bytes, ns)			a fallback copy
 *	late_registration(reason, bytes, ns)	a registration after the seal
 *
 * Lanes are numbers of enum twi_lane_id, reasons are indices of tow_reason_info. A probe without a
 * tracer is one nop, and its arguments stay where the code has them anyway. The header is the stock
 * one. Newer headers use nops of 5 bytes for speed. Those become calls, which write below the stack
 * pointer, over data that the compiler keeps there.
 */
#ifndef TWI_PROBES_H
#define TWI_PROBES_H

#include <stdint.h>

#if defined(TWI_HAVE_USDT) && !defined(TWI_NO_DIAGNOSTICS)
#include <sys/sdt.h>
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments" /* in that header */
#endif
#define TWI_PROBE(name, a, b, c) DTRACE_PROBE3(towline, name, a, b, c)
#else
#define TWI_PROBE(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

static inline void twi_probe_rpc_done(int lane, uint64_t bytes, uint64_t latency_ns)
{
	TWI_PROBE(rpc_done, lane, bytes, latency_ns);
}

static inline void twi_probe_copy(int reason, uint64_t bytes, uint64_t ns)
{
	TWI_PROBE(copy, reason, bytes, ns);
}

static inline void twi_probe_late_registration(int reason, uint64_t bytes, uint64_t ns)
{
	TWI_PROBE(late_registration, reason, bytes, ns);
}

#undef TWI_PROBE
#if defined(TWI_HAVE_USDT) && !defined(TWI_NO_DIAGNOSTICS) && defined(__clang__)
#pragma clang diagnostic pop
#endif

#endif
