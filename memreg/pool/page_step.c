/*
 * page_step.c - stores why an extent is not on better pages, and tests for enough memory.
 *
 * Each reason is one line, with the command that mends it.
 */
#include "memreg/pool/page_step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "memreg/os/procfs.h"
#include <internal/base.h>

#define HUGE_DIR     "/sys/kernel/mm/hugepages/hugepages-%llukB/"
#define SHMEM_SWITCH "/sys/kernel/mm/transparent_hugepage/shmem_enabled"

uint64_t twi_hugetlb_bytes(enum twi_page_kind kind)
{
	switch (kind) {
	case TWI_PAGES_HUGETLB_1G:
		return TWI_GIANT_BYTES;
	case TWI_PAGES_HUGETLB_2M:
		return TWI_HUGE_BYTES;
	case TWI_PAGES_THP:
	case TWI_PAGES_BASE:
		break;
	}
	return 0;
}

static const char *page_text(enum twi_page_kind kind)
{
	return kind == TWI_PAGES_HUGETLB_1G ? "1 GiB" : "2 MiB";
}

bool twi_page_step_suits(struct twi_extent *extent, uint64_t bytes, enum twi_page_kind kind)
{
	uint64_t page = twi_hugetlb_bytes(kind);
	uint64_t rounded = twi_align_up(bytes, page);
	struct twi_page_step *step = &extent->step[kind];

	if (bytes >= page && (kind != TWI_PAGES_HUGETLB_1G || rounded - bytes <= bytes / 8))
		return true;
	if (bytes < page)
		snprintf(step->reason, sizeof(step->reason),
			 "hugetlb %s: the pool, of %llu bytes, is smaller than a huge page",
			 page_text(kind), (unsigned long long)bytes);
	else
		snprintf(step->reason, sizeof(step->reason),
			 "hugetlb %s: rounding up would waste %llu of %llu bytes, more than 1/8",
			 page_text(kind), (unsigned long long)(rounded - bytes),
			 (unsigned long long)bytes);
	snprintf(step->mend, sizeof(step->mend), "premap_memory_bytes=%lluMiB",
		 (unsigned long long)rounded >> 20);
	return false;
}

static uint64_t huge_number(uint64_t page, const char *name)
{
	char path[128], text[64];

	snprintf(path, sizeof(path), HUGE_DIR "%s", (unsigned long long)page / 1024, name);
	twi_proc_read(path, text, sizeof(text));
	return strtoull(text, NULL, 10);
}

void twi_page_step_refused(struct twi_extent *extent, uint64_t bytes, enum twi_page_kind kind,
			   const char *call, int err)
{
	struct twi_page_step *step = &extent->step[kind];
	uint64_t page = twi_hugetlb_bytes(kind);
	unsigned long long need = twi_align_up(bytes, page) / page;
	unsigned long long total = huge_number(page, "nr_hugepages");
	uint64_t unused = huge_number(page, "free_hugepages");
	uint64_t promised = huge_number(page, "resv_hugepages");
	unsigned long long free_now = twi_min(unused - twi_min(unused, promised), total);

	snprintf(step->reason, sizeof(step->reason),
		 "hugetlb %s: %llu pages of %s needed, %llu of %llu free (%s: %s)", page_text(kind),
		 need, page_text(kind), free_now, total, call, strerrorname_np(err));
	if (free_now >= need)
		snprintf(step->mend, sizeof(step->mend),
			 "look at hugetlb.*.max of the control group, RLIMIT_AS, and the nodes of "
			 "numa");
	else if (kind == TWI_PAGES_HUGETLB_2M)
		snprintf(step->mend, sizeof(step->mend), "sysctl vm.nr_hugepages=%llu",
			 total - free_now + need);
	else
		snprintf(step->mend, sizeof(step->mend), "echo %llu > " HUGE_DIR "nr_hugepages",
			 total - free_now + need, (unsigned long long)page / 1024);
}

void twi_page_step_no_thp(struct twi_extent *extent, int err)
{
	struct twi_page_step *step = &extent->step[TWI_PAGES_THP];

	if (err) {
		snprintf(step->reason, sizeof(step->reason), "THP: madvise(MADV_HUGEPAGE): %s",
			 strerrorname_np(err));
		snprintf(step->mend, sizeof(step->mend),
			 "a kernel with CONFIG_TRANSPARENT_HUGEPAGE");
		return;
	}
	snprintf(step->reason, sizeof(step->reason), "THP: %s is off", SHMEM_SWITCH);
	snprintf(step->mend, sizeof(step->mend), "echo advise > %s", SHMEM_SWITCH);
}

void twi_page_step_few_thp(struct twi_extent *extent)
{
	struct twi_page_step *step = &extent->step[TWI_PAGES_THP];

	snprintf(step->reason, sizeof(step->reason), "THP: the kernel had %llu bytes of them",
		 (unsigned long long)extent->huge_bytes);
	snprintf(step->mend, sizeof(step->mend), "echo 1 > /proc/sys/vm/compact_memory");
}

void twi_page_step_join(struct twi_extent *extent)
{
	size_t n = 0;

	extent->reason[0] = extent->mend[0] = '\0';
	for (int kind = TWI_PAGES_KINDS - 1; kind > TWI_PAGES_BASE; kind--) {
		const char *reason = extent->step[kind].reason;

		if (reason[0] && n < sizeof(extent->reason))
			n += (size_t)snprintf(extent->reason + n, sizeof(extent->reason) - n,
					      "%s%s", n ? "; " : "", reason);
	}
	n = 0;
	for (int kind = TWI_PAGES_THP; kind < TWI_PAGES_KINDS; kind++) {
		const char *mend = extent->step[kind].mend;

		if (mend[0] && n < sizeof(extent->mend))
			n += (size_t)snprintf(extent->mend + n, sizeof(extent->mend) - n, "%s%s",
					      n ? "  # or: " : "", mend);
	}
}

bool twi_shmem_allows_thp(void)
{
	char text[128];

	twi_proc_read(SHMEM_SWITCH, text, sizeof(text));
	return strstr(text, "[advise]") != NULL || strstr(text, "[always]") != NULL ||
	       strstr(text, "[within_size]") != NULL || strstr(text, "[force]") != NULL;
}

/*
 * The memory limit of the process's own control group (version 2), without its parents; UINT64_MAX
 * without a limit. memory.current is ignored: most of it is page cache that the kernel can drop.
 */
static uint64_t cgroup_limit(void)
{
	char text[512], path[640], *own, *end;

	twi_proc_read("/proc/self/cgroup", text, sizeof(text));
	own = strstr(text, "0::/");
	if (own == NULL)
		return UINT64_MAX;
	own += strlen("0::");
	end = strchr(own, '\n');
	if (end != NULL)
		*end = '\0';
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", own);
	twi_proc_read(path, text, sizeof(text));
	return text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : UINT64_MAX;
}

/*
 * Memory that the nodes of a strict binding can give: free memory, and page cache that the kernel
 * can drop. UINT64_MAX when a node reports nothing. An interleaved pool is not strict: it may use
 * other nodes when one is full.
 */
static uint64_t nodes_available_kib(const struct twi_numa *numa)
{
	static const char *const keys[] = { "MemFree", "Active(file)", "Inactive(file)",
					    "SReclaimable" };
	char path[96], text[4096];
	uint64_t sum = 0, kib;

	for (unsigned node = 0; node < TWI_NODES_MAX; node++) {
		if (!twi_nodes_has(&numa->nodes, node))
			continue;
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo", node);
		twi_proc_read(path, text, sizeof(text));
		if (!text[0])
			return UINT64_MAX;
		for (unsigned i = 0; i < twi_array_count(keys); i++)
			sum += twi_proc_number(text, keys[i], &kib) ? kib : 0;
	}
	return sum;
}

static int check_nodes(const struct twi_extent *extent, uint64_t bytes)
{
	uint64_t kib;

	if (extent->numa.mode != TWI_NUMA_NODE && extent->numa.mode != TWI_NUMA_LOCAL)
		return TOW_OK;
	kib = nodes_available_kib(&extent->numa);
	if (bytes / 1024 <= kib)
		return TOW_OK;
	return twi_error(TOW_ENOMEM,
			 "pool: premap_memory_bytes asks for %llu bytes, the node that numa binds "
			 "it to has %llu available",
			 (unsigned long long)bytes, (unsigned long long)kib * 1024);
}

int twi_memory_check(const struct twi_extent *extent, uint64_t bytes)
{
	uint64_t limit = cgroup_limit(), kib;
	char text[4096];

	if (bytes > limit)
		return twi_error(TOW_ENOMEM,
				 "pool: premap_memory_bytes asks for %llu bytes, memory.max of the "
				 "control group is %llu",
				 (unsigned long long)bytes, (unsigned long long)limit);
	twi_proc_read("/proc/meminfo", text, sizeof(text));
	if (twi_proc_number(text, "MemAvailable", &kib) && bytes / 1024 > kib)
		return twi_error(TOW_ENOMEM,
				 "pool: premap_memory_bytes asks for %llu bytes, the system has "
				 "%llu available",
				 (unsigned long long)bytes, (unsigned long long)kib * 1024);
	return check_nodes(extent, bytes);
}
