/*
 * extent.c - maps, pins and unmaps one extent; extent.h has the picture.
 *
 * Every step that can be done without (huge pages, mlock) leaves its reason as text and goes on;
 * every other failure undoes what was done and says which system call failed. Huge pages are asked
 * for first because registering and pinning them costs a tenth (docs: one entry for each page).
 */
#include "memreg/extent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "diag/error.h"
#include <internal/base.h>

#define HUGE_DIR     "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define SHMEM_SWITCH "/sys/kernel/mm/transparent_hugepage/shmem_enabled"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

const char *twi_page_kind_name(enum twi_page_kind kind)
{
	switch (kind) {
	case TWI_PAGES_HUGETLB:
		return "hugetlb";
	case TWI_PAGES_THP:
		return "thp";
	case TWI_PAGES_BASE:
		break;
	}
	return "base";
}

/* Reads a small file of the kernel; text is "" when it cannot be read. */
static void read_text(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, room - 1);

	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

static uint64_t read_number(const char *path)
{
	char text[64];

	read_text(path, text, sizeof(text));
	return strtoull(text, NULL, 10);
}

/* May a memfd be put on transparent huge pages when it asks with MADV_HUGEPAGE? */
static bool shmem_allows_thp(void)
{
	char text[128];

	read_text(SHMEM_SWITCH, text, sizeof(text));
	return strstr(text, "[advise]") || strstr(text, "[always]") ||
	       strstr(text, "[within_size]") || strstr(text, "[force]");
}

/* Why hugetlb was not to be had (`err` of `call`), and what mends it. */
static void explain_step_down(struct twi_extent *extent, uint64_t bytes, const char *call, int err)
{
	uint64_t need = twi_align_up(bytes, TWI_HUGE_BYTES) / TWI_HUGE_BYTES;
	uint64_t total = read_number(HUGE_DIR "nr_hugepages");
	uint64_t free_now = read_number(HUGE_DIR "free_hugepages");

	snprintf(extent->reason, sizeof(extent->reason),
		 "hugetlb: %llu pages of 2 MiB needed, %llu of %llu free (%s: %s)",
		 (unsigned long long)need, (unsigned long long)free_now, (unsigned long long)total,
		 call, strerrorname_np(err));
	snprintf(extent->mend, sizeof(extent->mend), "sysctl vm.nr_hugepages=%llu",
		 (unsigned long long)(total - twi_min(free_now, total) + need));
}

/* Adds to the reason why transparent huge pages were not to be had either. */
static void explain_no_thp(struct twi_extent *extent)
{
	size_t n = strlen(extent->reason);
	size_t m = strlen(extent->mend);

	snprintf(extent->reason + n, sizeof(extent->reason) - n, "; THP: %s is off", SHMEM_SWITCH);
	snprintf(extent->mend + m, sizeof(extent->mend) - m, "  # or: echo advise > %s",
		 SHMEM_SWITCH);
}

/*
 * The limit of our control group (version 2), the nearest one only; UINT64_MAX when there is none.
 * Its memory.current is left out: most of it is page cache that the kernel can drop.
 */
static uint64_t cgroup_limit(void)
{
	char text[512], path[640], *own, *end;

	read_text("/proc/self/cgroup", text, sizeof(text));
	own = strstr(text, "0::/");
	if (!own)
		return UINT64_MAX;
	own += strlen("0::");
	end = strchr(own, '\n');
	if (end)
		*end = '\0';
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", own);
	read_text(path, text, sizeof(text));
	return text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : UINT64_MAX;
}

/*
 * Faulting in more than there is does not fail but wakes the OOM killer, so ask first. Hugetlb
 * pages are reserved already when their mmap has succeeded.
 */
static int check_available(uint64_t bytes)
{
	char text[512];
	const char *line;
	unsigned long long kib, limit = cgroup_limit();

	if (bytes > limit)
		return twi_error(TOW_ENOMEM,
				 "pool: premap_memory_bytes asks for %llu bytes, memory.max of the "
				 "control group is %llu",
				 (unsigned long long)bytes, limit);
	read_text("/proc/meminfo", text, sizeof(text));
	line = strstr(text, "MemAvailable:");
	if (!line || sscanf(line, "MemAvailable: %llu kB", &kib) != 1 || bytes / 1024 <= kib)
		return TOW_OK;
	return twi_error(
		TOW_ENOMEM,
		"pool: premap_memory_bytes asks for %llu bytes, the system has %llu available",
		(unsigned long long)bytes, kib * 1024);
}

/* A file size beyond RLIMIT_FSIZE would end the process with SIGXFSZ. */
static int check_file_limit(uint64_t bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	    bytes <= limit.rlim_cur)
		return TOW_OK;
	return twi_error(
		TOW_EPERM,
		"pool: %llu bytes exceed RLIMIT_FSIZE (%llu); raise it: ulimit -f unlimited",
		(unsigned long long)bytes, (unsigned long long)limit.rlim_cur);
}

/*
 * Puts a memfd of extent->bytes at extent->base. It is mapped elsewhere first, because a MAP_FIXED
 * that fails for want of pages may leave a hole in the reservation, where another thread's mapping
 * could land; the pages of a shared file stay reserved between the two. Returns 0 or the errno,
 * with the name of the call that failed in *call_out.
 */
static int map_file(struct twi_extent *extent, unsigned flags, const char **call_out)
{
	void *at;
	int err;

	*call_out = "memfd_create";
	extent->fd = memfd_create("towline-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
	if (extent->fd < 0)
		return errno;
	*call_out = "ftruncate";
	if (ftruncate(extent->fd, (off_t)extent->bytes))
		goto failed;
	*call_out = "mmap";
	at = mmap(NULL, extent->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, extent->fd, 0);
	if (at == MAP_FAILED)
		goto failed;
	munmap(at, extent->bytes);
	at = mmap(extent->base, extent->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		  extent->fd, 0);
	if (at == MAP_FAILED)
		goto failed;
	/* A peer that gets the descriptor must not be able to shrink the file under us (SIGBUS). */
	(void)fcntl(extent->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	return 0;
failed:
	err = errno;
	close(extent->fd);
	extent->fd = -1;
	return err;
}

/* Reserves addresses for `bytes` on a 2 MiB boundary, with a guard on both sides. */
static int reserve(struct twi_extent *extent, uint64_t bytes)
{
	uint64_t room;
	void *at;

	if (bytes > (uint64_t)INT64_MAX - 4 * (uint64_t)TWI_HUGE_BYTES)
		return twi_error(TOW_EINVAL, "pool: premap_memory_bytes = %llu is too large",
				 (unsigned long long)bytes);
	room = twi_align_up(bytes, TWI_HUGE_BYTES) + 3 * (uint64_t)TWI_HUGE_BYTES;
	at = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return twi_error_errno(TOW_ENOMEM, errno, "pool: mmap of addresses for %llu bytes",
				       (unsigned long long)bytes);
	extent->reserved = at;
	extent->reserved_bytes = room;
	extent->base =
		(void *)(uintptr_t)twi_align_up((uintptr_t)at + TWI_HUGE_BYTES, TWI_HUGE_BYTES);
	return TOW_OK;
}

/* False: the reason is noted, and nothing else has changed. */
static bool map_hugetlb(struct twi_extent *extent, uint64_t bytes)
{
	const char *call;
	int err;

	extent->page_bytes = TWI_HUGE_BYTES;
	extent->bytes = twi_align_up(bytes, TWI_HUGE_BYTES);
	err = map_file(extent, MFD_HUGETLB | MFD_HUGE_2MB, &call);
	if (err == 0) {
		extent->kind = TWI_PAGES_HUGETLB;
		extent->huge_bytes = extent->bytes;
		return true;
	}
	explain_step_down(extent, bytes, call, err);
	return false;
}

static int map_base(struct twi_extent *extent, uint64_t bytes, bool huge_pages)
{
	const char *call;
	int err, status;

	extent->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	extent->bytes = twi_align_up(bytes, extent->page_bytes);
	extent->kind = TWI_PAGES_BASE;
	status = check_available(extent->bytes);
	if (status == TOW_OK)
		status = check_file_limit(extent->bytes);
	if (status != TOW_OK)
		return status;
	err = map_file(extent, 0, &call);
	if (err)
		return twi_error_errno(err == ENOMEM ? TOW_ENOMEM : TOW_ESYSTEM, err,
				       "pool: %s of %llu bytes", call,
				       (unsigned long long)extent->bytes);
	if (!huge_pages)
		return TOW_OK;
	extent->thp_advised =
		shmem_allows_thp() && madvise(extent->base, extent->bytes, MADV_HUGEPAGE) == 0;
	if (!extent->thp_advised)
		explain_no_thp(extent);
	return TOW_OK;
}

int twi_extent_map(uint64_t bytes, bool huge_pages, struct twi_extent *extent_out)
{
	struct twi_extent *extent = extent_out;
	bool done = false;
	int status;

	*extent = (struct twi_extent){ .fd = -1 };
	if (bytes == 0)
		return twi_error(TOW_EINVAL, "pool: premap_memory_bytes = 0 maps nothing");
	status = reserve(extent, bytes);
	if (status != TOW_OK)
		return status;
	if (huge_pages && bytes < TWI_HUGE_BYTES) {
		snprintf(extent->reason, sizeof(extent->reason),
			 "the pool is smaller than a huge page");
		snprintf(extent->mend, sizeof(extent->mend), "premap_memory_bytes=2MiB");
		huge_pages = false;
	} else if (huge_pages) {
		done = map_hugetlb(extent, bytes);
	}
	if (!done)
		status = map_base(extent, bytes, huge_pages);
	if (status == TOW_OK && madvise(extent->base, extent->bytes, MADV_DONTFORK))
		status = twi_error_errno(TOW_ESYSTEM, errno, "pool: madvise(MADV_DONTFORK)");
	if (status != TOW_OK)
		twi_extent_unmap(extent);
	return status;
}

void twi_memlock_describe(char *reason, size_t reason_bytes, char *mend, size_t mend_bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		snprintf(reason, reason_bytes, "RLIMIT_MEMLOCK is unknown");
	else if (limit.rlim_cur == RLIM_INFINITY)
		snprintf(reason, reason_bytes, "RLIMIT_MEMLOCK is unlimited");
	else
		snprintf(reason, reason_bytes, "RLIMIT_MEMLOCK is %llu KiB",
			 (unsigned long long)limit.rlim_cur / 1024);
	snprintf(mend, mend_bytes,
		 "ulimit -l unlimited  # or LimitMEMLOCK=infinity (systemd), or CAP_IPC_LOCK");
}

int twi_extent_pin(struct twi_extent *extent)
{
	char limit[64];
	int err;

	if (mlock(extent->base, extent->bytes) == 0) {
		extent->mlocked = true;
		return TOW_OK;
	}
	err = errno;
	twi_memlock_describe(limit, sizeof(limit), extent->pin_mend, sizeof(extent->pin_mend));
	snprintf(extent->pin_reason, sizeof(extent->pin_reason), "mlock of %llu KiB: %s, %s",
		 (unsigned long long)extent->bytes / 1024, strerrorname_np(err), limit);
	return twi_error(err == EPERM ? TOW_EPERM : TOW_ENOMEM, "pool: %s; mend it: %s",
			 extent->pin_reason, extent->pin_mend);
}

void twi_extent_unmap(struct twi_extent *extent)
{
	/* One munmap takes the guards and the mapping between them, and with it the lock. */
	if (extent->reserved)
		munmap(extent->reserved, extent->reserved_bytes);
	if (extent->fd >= 0)
		close(extent->fd);
	extent->base = extent->reserved = NULL;
	extent->bytes = extent->reserved_bytes = 0;
	extent->fd = -1;
}

uint64_t twi_extent_resident_bytes(const struct twi_extent *extent)
{
	unsigned char seen[4096];
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t step = page * sizeof(seen);
	uint64_t resident = 0;

	for (uint64_t at = 0; at < extent->bytes; at += step) {
		uint64_t bytes = twi_min(step, extent->bytes - at);

		if (mincore((char *)extent->base + at, bytes, seen))
			break;
		for (uint64_t i = 0; i < bytes / page; i++)
			resident += seen[i] & 1 ? page : 0;
	}
	return resident;
}
