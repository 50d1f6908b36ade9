/*
 * page_step.h - why an extent is not on better pages, and whether the system has the memory at all.
 * For extent.c and populate.c.
 */
#ifndef TWI_PAGE_STEP_H
#define TWI_PAGE_STEP_H

#include "memreg/pool/extent.h"

/* Bytes of one page of reserved huge pages; 0 for the other kinds. */
uint64_t twi_hugetlb_bytes(enum twi_page_kind kind);

/*
 * Does `bytes` suit reserved pages of this kind: at least one page, and of 1 GiB pages no more than
 * an eighth lost by rounding up? If not, the step is noted.
 */
bool twi_page_step_suits(struct twi_extent *extent, uint64_t bytes, enum twi_page_kind kind);

/* `call` has failed with `err` for want of `bytes` on reserved pages of this kind. */
void twi_page_step_refused(struct twi_extent *extent, uint64_t bytes, enum twi_page_kind kind,
			   const char *call, int err);

/* Transparent huge pages are switched off for shared memory, or the advice has failed. */
void twi_page_step_no_thp(struct twi_extent *extent, int err);

/* The kernel was asked for transparent huge pages and had extent->huge_bytes of them. */
void twi_page_step_few_thp(struct twi_extent *extent);

/* Fills extent->reason and extent->mend from its steps. */
void twi_page_step_join(struct twi_extent *extent);

/* May a memfd be put on transparent huge pages when it asks with MADV_HUGEPAGE? */
bool twi_shmem_allows_thp(void);

/*
 * Is there memory for `bytes` of base pages, in the control group and on the nodes? Faulting in
 * more than there is does not fail but wakes the OOM killer. TOW_OK or TOW_ENOMEM.
 */
int twi_memory_check(const struct twi_extent *extent, uint64_t bytes);

#endif
