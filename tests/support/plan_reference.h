/*
 * plan_reference.h - what a collective must give, done serially: from the buffers of all ranks as
 * they were, what OUT and IN of each must hold.
 */
#ifndef TWT_PLAN_REFERENCE_H
#define TWT_PLAN_REFERENCE_H

#include "plan_memory.h"

/* The buffers of all ranks as they were before. */
struct twt_plan_image {
	unsigned char *in, *out;
	uint64_t in_bytes, out_bytes;
};

void twt_plan_image_init(struct twt_plan_image *image, const struct twt_plan_memory *memory);

void twt_plan_image_fini(struct twt_plan_image *image);

/* `out` holds what OUT held, and gets what it must hold. */
void twt_plan_expect(const struct twi_plan_case *cases, uint32_t self,
		     const struct twt_plan_image *images, unsigned char *out);

/* Whether IN holds what it held, but where it is OUT. */
bool twt_plan_in_kept(const struct twi_plan_case *what, const struct twt_plan_memory *memory,
		      const struct twt_plan_image *image);

#endif
