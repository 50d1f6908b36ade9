/*
 * towline.h - the whole API. The order is the one to read it in: what every program needs, then
 * what a job of several ranks needs, then the rest by what it is for. The last four are declared
 * alone: this library refuses their calls with TOW_ENOTSUP.
 */
#ifndef TOWLINE_TOWLINE_H
#define TOWLINE_TOWLINE_H

/* The formatter would sort these by name. */
/* clang-format off */
#include <towline/status.h>   /* what every call returns */
#include <towline/runtime.h>  /* opening the library, and its knobs */
#include <towline/pool.h>     /* memory that moves without copies */
#include <towline/endpoint.h> /* connections, messages, operations */

#include <towline/group.h> /* the ranks of a job */
#include <towline/coll.h>  /* collectives among them */

#include <towline/rpc.h>       /* calls with an answer */
#include <towline/device.h>    /* memory of accelerators */
#include <towline/interface.h> /* network interfaces of this host */

#include <towline/stats.h> /* counters and what else is known */
#include <towline/step.h>  /* which step the program is in */
#include <towline/trace.h> /* what happened when, for other tools */
#include <towline/foreign.h> /* what another library did, for the same documents */
#include <towline/place.h> /* the pool for a program's own allocator */

#include <towline/version.h>

#include <towline/match.h>   /* receives from any peer, probes */
#include <towline/group_message.h> /* messages between ranks */
#include <towline/queue.h>   /* completions in a queue */
#include <towline/channel.h> /* several streams over one connection */
#include <towline/remote.h>  /* one-sided reads and writes */
/* clang-format on */

#endif
