/*
 * coll_judge.h - what a case of coll_case.h must give, and whether it has.
 *
 * Integers, what is only moved, and floats whose sum is exact in any order: bit by bit. Other
 * floats: bit by bit the fold from rank 0 on where the plan says that it is canonical, else within
 * what rounding once for each operand can do. That all ranks have the same is for the caller: he
 * compares the hashes.
 */
#ifndef TWT_COLL_JUDGE_H
#define TWT_COLL_JUDGE_H

#include "coll_fill.h"
#include "plan_reference.h"

struct twt_coll_truth {
	const struct twt_coll_case *of;
	struct twt_plan_image *images; /* of IN of all ranks */
	unsigned char **scaled;        /* IN of all ranks as it is reduced; NULL: it only moves */
	unsigned char *sum;            /* of all elements of that */
};

void twt_coll_truth_init(struct twt_coll_truth *truth, const struct twt_coll_case *c);

void twt_coll_truth_fini(struct twt_coll_truth *truth);

/* `must` holds what OUT held before, and gets what it must hold. */
void twt_coll_expect(const struct twt_coll_truth *truth, uint32_t rank, unsigned char *must);

/* NULL: OUT is right. */
const char *twt_coll_judge(const struct twt_coll_truth *truth, uint32_t rank, bool canonical,
			   const unsigned char *is, const unsigned char *must, uint64_t bytes);

uint64_t twt_coll_digest(const unsigned char *at, uint64_t bytes);

void twt_coll_say(const struct twt_coll_case *c, uint32_t rank, const char *plan);

#endif
