/*
 * coll_fill.h - what each rank has in its buffers in a case of coll_case.h: by seed and rank alone.
 */
#ifndef TWT_COLL_FILL_H
#define TWT_COLL_FILL_H

#include "coll_case.h"

/* What rank `rank` has in IN. */
void twt_coll_fill(const struct twt_coll_case *c, uint32_t rank, unsigned char *in, uint64_t bytes);

#endif
