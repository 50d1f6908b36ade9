/*
 * flight.h - the flight recorder: the last operations of this rank, in flight and ended, as JSON
 * with the field names of PyTorch's Flight Recorder, so that tools which read those can read these.
 *
 * What has ended is taken from the records that collectives keep anyway (coll/coll_report.h); what
 * is under way from the groups and the table of operations. Nothing is written for it meanwhile.
 */
#ifndef TWI_FLIGHT_H
#define TWI_FLIGHT_H

#include <stdint.h>

struct twi_emit;
struct twi_engine;
struct twi_inquiry;

/* Members of one JSON object. The engine is not held. */
void twi_flight_emit(struct twi_engine *engine, struct twi_emit *emit);

/* What added to a time of the engine's clock makes UNIX time. */
uint64_t twi_flight_unix_offset(const struct twi_engine *engine);

/* For the registry: arg is the engine. */
void twi_flight_describe(void *arg, struct twi_emit *emit);

/*
 * flight_file.c: a file is due, and has been written, or will not be. due: the engine is held;
 * event_fd is that of the thread which writes it, for twi_inquiry_hurry. done: what failed before
 * begun_ns is in the file; where nothing failed since, nothing names either of them behind it.
 */
void twi_flight_due(struct twi_inquiry *inquiry, int event_fd);
void twi_flight_done(struct twi_inquiry *inquiry, uint64_t begun_ns);

/* Waits until what is due is written, 100 ms at most; not in a callback. */
void twi_flight_settle(struct twi_engine *engine);

/* The stats socket is there, at `path`; NULL: there is none. Files go beside it by default. */
void twi_flight_set_home(struct twi_engine *engine, const char *path);

/* Where files go, as the knob flight_dir says, or by default; NULL: nowhere. */
const char *twi_flight_folder(const struct twi_engine *engine);

/*
 * Writes it, with the newest verdict and all counters, to that folder as
 * flight.<job>.<rank>.<n>.json, n going round flight_files numbers; a file is whole or not there.
 * Of the default folder's files the oldest go. TOW_OK; TOW_EINVAL: there is no folder; TOW_ENOMEM;
 * TOW_EPERM: the folder is another user's; TOW_ESYSTEM.
 */
int twi_flight_dump(struct twi_engine *engine, unsigned *number);

#endif
