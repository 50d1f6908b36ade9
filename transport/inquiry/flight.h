/*
 * flight.h - the flight recorder: the last operations of this rank, in flight and ended, as JSON.
 *
 * The field names are those of PyTorch's Flight Recorder, so tools for those files can read these.
 *
 * Operations that have ended come from records that are kept anyway: of collectives
 * (coll/coll_report.h), of barriers, and the spans of messages. Those in flight come from the
 * groups and the table of operations. Nothing else is recorded for it.
 */
#ifndef TWI_FLIGHT_H
#define TWI_FLIGHT_H

#include <stdint.h>

struct twi_emit;
struct twi_engine;
struct twi_inquiry;

/* Emits the members of one JSON object. The engine is not held. */
void twi_flight_emit(struct twi_engine *engine, struct twi_emit *emit);

/* Returns the offset from the engine's clock to UNIX time. */
uint64_t twi_flight_unix_offset(const struct twi_engine *engine);

/* The source for the registry: arg is the engine. */
void twi_flight_describe(void *arg, struct twi_emit *emit);

/*
 * flight_file.c. due: a file is due. The engine is held; event_fd belongs to the thread that writes
 * the file, for twi_inquiry_hurry. done: an attempt to write it has ended, for all failures before
 * begun_ns. If there was none since, nothing refers to `inquiry` and its event_fd any more.
 */
void twi_flight_due(struct twi_inquiry *inquiry, int event_fd);
void twi_flight_done(struct twi_inquiry *inquiry, uint64_t begun_ns);

/* Waits at most 100 ms until the file that is due is written; does nothing with the engine held. */
void twi_flight_settle(struct twi_engine *engine);

/* Sets the path of the stats socket; NULL: there is none. By default files go beside it. */
void twi_flight_set_home(struct twi_engine *engine, const char *path);

/* Returns the folder for files, by the knob flight_dir or by default; NULL: none. */
const char *twi_flight_folder(const struct twi_engine *engine);

/*
 * Writes the recorder, with the newest verdict and all counters, to that folder as
 * flight.<job>.<rank>.<n>.json. n cycles through flight_files numbers. A file is complete or not
 * there. In the default folder the oldest files are deleted. TOW_OK; TOW_EINVAL: there is no
 * folder; TOW_ENOMEM; TOW_EPERM: the folder is another user's; TOW_ESYSTEM.
 */
int twi_flight_dump(struct twi_engine *engine, unsigned *number);

#endif
