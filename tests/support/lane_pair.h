/*
 * lane_pair.h - two sides in this process, connected over any lane and driven in turns by one
 * thread; so a test of a promise runs over each row of twt_lane_rows.
 *
 * A side is a runtime of its own, but on the loop lane, which reaches no other runtime, and over
 * libfabric's shm provider: in one process it uses the other endpoint's memory itself, and crashes
 * (1.17) when a peer still speaks after that endpoint's domain has gone.
 */
#ifndef TWT_LANE_PAIR_H
#define TWT_LANE_PAIR_H

#include "pair.h"
#include "twt.h"

#include "diag/base/clock.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

struct twt_lane_row {
	const char *name;
	const char *address[2]; /* of each side's endpoint */
	bool one_runtime;
};

/* Of lanes.def the lanes, without their variants. */
enum {
	TWT_LANE_ROWS = 0
#define TWT_LANE(...) +1
#define TWT_VARIANT(...)
#include "lanes.def"
#undef TWT_LANE
#undef TWT_VARIANT
};
#define TWT_LANE_ROW_SHM 1
/* The first rows: tcp and shm, which join processes in every build. */
#define TWT_LANE_ROWS_ALWAYS 2

extern const struct twt_lane_row twt_lane_rows[TWT_LANE_ROWS];

/* Side 0 connects to side 1, which accepts. */
struct twt_lane_pair {
	const struct twt_lane_row *lane;
	struct tow_options options[2];
	struct tow_runtime *runtime[2];
	struct tow_endpoint *endpoint[2];
	struct tow_peer *peer[2];
};

void twt_lane_init(struct twt_lane_pair *pair, const struct twt_lane_row *lane);

/* The cases of a program: the test over each lane, of which its state points to the row. */
void twt_lane_cases(struct CMUnitTest cases[TWT_LANE_ROWS], CMUnitTestFunction test);

/* A program of the test over each lane alone. Returns its exit status. */
int twt_lane_main(CMUnitTestFunction test);

void twt_lane_turn(struct twt_lane_pair *pair);

/* Drives both sides for so long. */
void twt_lane_drive(struct twt_lane_pair *pair, uint64_t ns);

/* Drives both sides until the operation has ended; its result. It is not released. */
struct tow_result twt_lane_wait(struct twt_lane_pair *pair, struct tow_op *op);

/* The same, and gives it back. */
struct tow_result twt_lane_finish(struct twt_lane_pair *pair, struct tow_op *op);

/* Opens the runtime and the endpoint of one side, 0 first. The endpoint's status. */
int twt_lane_open_side(struct twt_lane_pair *pair, int i);

/*
 * Opens runtimes and endpoints. False, having said why: this build or system has not got the lane,
 * and nothing is open.
 */
bool twt_lane_open(struct twt_lane_pair *pair);

void twt_lane_join(struct twt_lane_pair *pair);

void twt_lane_close(struct twt_lane_pair *pair);

/* Bytes of the pools that are allocated, or lent. */
uint64_t twt_lane_in_use(const struct twt_lane_pair *pair);

/* What was lent comes back, at the latest when both sides have heard of it. */
void twt_lane_settle(struct twt_lane_pair *pair, uint64_t bytes, const char *what);

/* Memory of every kind. */
enum twt_memory { TWT_POOL, TWT_REGISTERED, TWT_PLAIN, TWT_MEMORIES };

void *twt_memory_get(struct tow_runtime *runtime, enum twt_memory kind, size_t bytes,
		     uint64_t *handle_out);

void twt_memory_put(struct tow_runtime *runtime, enum twt_memory kind, void *memory,
		    uint64_t handle);

#endif
