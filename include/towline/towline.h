/*
 * towline.h - the whole API, in the order in which it is best read.
 */
#ifndef TOWLINE_TOWLINE_H
#define TOWLINE_TOWLINE_H

#include <towline/channel.h>
#include <towline/coll.h>
#include <towline/device.h>
#include <towline/endpoint.h>
#include <towline/group.h>
#include <towline/match.h>
#include <towline/pool.h>
#include <towline/queue.h>
#include <towline/remote.h>
#include <towline/rpc.h>
#include <towline/runtime.h>
#include <towline/stats.h>
#include <towline/status.h>
#include <towline/step.h>
#include <towline/trace.h>
#include <towline/version.h>

#endif
