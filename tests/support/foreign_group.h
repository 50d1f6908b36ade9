/*
 * foreign_group.h - a group of another library, and what may happen in it, in short words.
 */
#ifndef TWT_FOREIGN_GROUP_H
#define TWT_FOREIGN_GROUP_H

#include <towline/towline.h>

#define FG_MS 1000000ull

/* A small runtime, rank 5 of its job; a status. */
int twt_fg_runtime(struct tow_runtime **out);

struct tow_foreign_group *twt_fg_open(struct tow_runtime *runtime, const char *name, uint64_t id,
				      uint32_t rank, uint32_t ranks);

/* A sum of f32 by a ring. */
struct tow_foreign_coll twt_fg_all_reduce(uint64_t bytes, uint64_t start_ns);

/* A message of 1,000 bytes to `peer` that was on its way for so long, until now. */
struct tow_foreign_message twt_fg_sent(uint32_t peer, uint64_t ms);

#endif
