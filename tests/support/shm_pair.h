/*
 * shm_pair.h - two runtimes of this process, connected over shm and driven in turns (lane_pair.h);
 * and a way into the lane's own structures, to play a peer that lies.
 */
#ifndef TWT_SHM_PAIR_H
#define TWT_SHM_PAIR_H

#include "twt.h"

#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "lane_pair.h"

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/shm/shm.h"

/* The pair that is open. */
extern struct twt_lane_pair twt_shm;

/* Of each pool; a program may set it before it opens the pair. */
extern int64_t twt_shm_pool_bytes;

/* Set-up and tear-down of a test. */
int twt_shm_open(void **state);

int twt_shm_close(void **state);

/* For what is between: side 0 is the first, then side 1, then both are joined. */
void twt_shm_open_side(int i, int64_t pool_bytes);

void twt_shm_join(void);

void twt_shm_turn(void);

/* 200 turns. */
void twt_shm_settle(void);

/* Drives both until the operation has ended; gives it back, unless it is to be kept and ended well,
 * as views are. */
int twt_shm_finish(struct tow_op *op, struct tow_result *out, bool keep);

struct twi_shm_peer *twt_shm_inside(int i);

uint64_t twt_shm_counted(int i, enum twi_counter counter);

uint64_t twt_shm_reasons(int i, enum twi_reason reason);

/* Side i starts one. */
struct tow_op *twt_shm_send(int i, const void *data, uint64_t bytes, uint64_t tag);
struct tow_op *twt_shm_lend(int i, const void *data, uint64_t bytes, uint64_t tag);

struct tow_op *twt_shm_recv(int i, void *data, uint64_t bytes, uint64_t tag);

struct tow_op *twt_shm_view(int i, uint64_t tag);

/* Memory of its pool. */
void *twt_shm_take(int i, uint64_t bytes);

#endif
