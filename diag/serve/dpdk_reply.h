/*
 * dpdk_reply.h - what a request of DPDK's telemetry deserves: a function of its bytes.
 *
 *	on connecting        {"version":"towline 0.1.0","pid":N,"max_output_len":16384}
 *	/                    {"/":["/","/help","/info","/towline/counters",...]}
 *	/help,/cmd           {"/help":{"/cmd":"what it is"}}
 *	/info                {"/info":{...}}, as the greeting
 *	/towline/NAME        {"/towline/NAME":{"key":value,...}}  the document /v1/NAME
 *	/towline/NAME,N      page N of it, from 0; a page that is not the last has "next_page"
 *	another              {"/another":null}
 *
 * These clients want flat dictionaries: a value's key is its way through the document, with dots:
 * "rpcs.0.p50". The name of the document itself is left out in front ("counters.sends" is "sends"),
 * and so are histograms' buckets. Each page is one reply of at most max_output_len bytes, and is
 * made of the document of its moment.
 */
#ifndef TWI_DPDK_REPLY_H
#define TWI_DPDK_REPLY_H

#include <stddef.h>

struct twi_diag;

#define TWI_DPDK_OUTPUT_MAX  16384
#define TWI_DPDK_REQUEST_MAX 1024
#define TWI_DPDK_COMMAND_MAX 56 /* a command has fewer characters */
#define TWI_DPDK_PREFIX      "/towline/"

/* Bytes written to out, which has room for TWI_DPDK_OUTPUT_MAX. */
size_t twi_dpdk_greet(char *out);
size_t twi_dpdk_reply(struct twi_diag *diag, const char *request, size_t bytes, char *out);

/*
 * The pure part: page `page` of a JSON document as `"key":value,...`; -1: there is no such page, or
 * it is no JSON. *more_out: another follows. `own`: a first key that is left out.
 */
long twi_dpdk_page(const char *json, const char *own, unsigned page, size_t room, char *out,
		   int *more_out);

#endif
