/*
 * page_step.h - why an extent is not on better pages, and whether the system has enough memory.
 *
 * For extent.c and populate.c.
 */
#ifndef TWI_PAGE_STEP_H
#define TWI_PAGE_STEP_H

#include "memreg/pool/extent.h"

/* Bytes of one page of reserved huge pages; 0 for the other kinds. */
uint64_t twi_hugetlb_bytes(enum twi_page_kind kind);

/*
 * Tests whether `bytes` suits reserved pages of this kind. It must fill at least one page, and
 * rounding up to 1 GiB pages may waste at most an eighth. If not, the reason is stored.
 */
bool twi_page_step_suits(struct twi_extent *extent, uint64_t bytes, enum twi_page_kind kind);

/* Stores that `call` failed with `err`, for lack of `bytes` on reserved pages of this kind. */
void twi_page_step_refused(struct twi_extent *extent, uint64_t bytes, enum twi_page_kind kind,
			   const char *call, int err);

/* Stores that transparent huge pages are off for shared memory, or that the advice failed. */
void twi_page_step_no_thp(struct twi_extent *extent, int err);

/* Stores that the kernel gave only extent->huge_bytes of transparent huge pages. */
void twi_page_step_few_thp(struct twi_extent *extent);

/* Fills extent->reason and extent->mend from its steps. */
void twi_page_step_join(struct twi_extent *extent);

/* True when a memfd gets transparent huge pages by MADV_HUGEPAGE. */
bool twi_shmem_allows_thp(void);

/*
 * Tests whether control group, system and nodes have `bytes` of base pages. Faulting in more than
 * they have does not fail: it wakes the OOM killer. TOW_OK or TOW_ENOMEM.
 */
int twi_memory_check(const struct twi_extent *extent, uint64_t bytes);

#endif
