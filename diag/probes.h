/*
 * probes.h - places where a tracer can look in: USDT probes of the provider "towline".
 *
 *	rpc_done(lane, bytes, latency_ns)	a message has come, or the peer has it
 *	copy(reason, bytes, ns)			a copy that need not be
 *	late_registration(reason, bytes, ns)	a registration after the seal
 *
 * Lanes are numbers of enum twi_lane_id, reasons indices of tow_reason_info. A probe that nobody
 * looks at is one nop, and its arguments are where they are anyway. The header is the stock one:
 * nops of 5 bytes, which newer ones make for speed, become calls that write below the stack
 * pointer, over what the compiler keeps there.
 */
#ifndef TWI_PROBES_H
#define TWI_PROBES_H

#if defined(TWI_HAVE_USDT) && !defined(TWI_NO_DIAGNOSTICS)
#include <sys/sdt.h>
#define TWI_PROBE3(name, a, b, c) DTRACE_PROBE3(towline, name, a, b, c)
#else
#define TWI_PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

#endif
