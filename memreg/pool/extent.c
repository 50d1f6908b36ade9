/*
 * extent.c - maps, pins and unmaps one extent; extent.h has the picture.
 *
 * A step that can fail harmlessly (huge pages, mlock) stores its reason as text, and the work
 * continues. Any other failure undoes what was done, and names the system call that failed. Huge
 * pages are tried first: the kernel registers and pins fewer pages, in a tenth of the time.
 */
#include "memreg/pool/extent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "memreg/pool/page_step.h"
#include <internal/base.h>

/* Position in a memfd's flags of the logarithm of the huge page size. */
#define HUGE_SHIFT 26

const char *twi_page_kind_name(enum twi_page_kind kind)
{
	switch (kind) {
	case TWI_PAGES_HUGETLB_1G:
		return "hugetlb-1GiB";
	case TWI_PAGES_HUGETLB_2M:
		return "hugetlb-2MiB";
	case TWI_PAGES_THP:
		return "thp";
	case TWI_PAGES_BASE:
		break;
	}
	return "base";
}

/* RLIMIT_FSIZE: a file beyond it would end the process with SIGXFSZ. */
static uint64_t file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

static int check_file_limit(uint64_t bytes)
{
	uint64_t limit = file_limit();

	bytes = twi_align_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE));
	if (bytes <= limit)
		return TOW_OK;
	return twi_error(
		TOW_EPERM,
		"pool: %llu bytes exceed RLIMIT_FSIZE (%llu); raise it: ulimit -f unlimited",
		(unsigned long long)bytes, (unsigned long long)limit);
}

/*
 * Maps extent->fd at extent->base. It first maps the file elsewhere, to find out whether there are
 * enough pages. A failing MAP_FIXED may leave a hole in the reservation, where another thread's
 * mapping could land. The pages of a shared file stay reserved between the two calls. Returns 0 or
 * the errno, with the name of the failing call in *call_out.
 */
static int map_sized(struct twi_extent *extent, const char **call_out)
{
	void *at;

	*call_out = "ftruncate";
	if (ftruncate(extent->fd, (off_t)extent->bytes))
		return errno;
	*call_out = "mmap";
	at = mmap(NULL, extent->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, extent->fd, 0);
	if (at == MAP_FAILED)
		return errno;
	munmap(at, extent->bytes);
	at = mmap(extent->base, extent->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		  extent->fd, 0);
	return at == MAP_FAILED ? errno : 0;
}

/* Maps a new memfd of extent->bytes at extent->base. Returns the same as map_sized. */
static int map_file(struct twi_extent *extent, unsigned flags, const char **call_out)
{
	int err;

	/* Rounding up may exceed the limit, and the signal would end the process. */
	*call_out = "RLIMIT_FSIZE";
	if (extent->bytes > file_limit())
		return EFBIG;
	*call_out = "memfd_create";
	extent->fd =
		twi_fd_high(memfd_create("towline-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
	if (extent->fd < 0)
		return errno;
	err = map_sized(extent, call_out);
	if (err != 0) {
		close(extent->fd);
		extent->fd = -1;
		return err;
	}
	/* A peer that gets the descriptor must not shrink the file under this process (SIGBUS). */
	(void)fcntl(extent->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	return 0;
}

/* Reserves addresses for `bytes` at a multiple of `align`, with a guard on both sides. */
static int reserve_addresses(struct twi_extent *extent, uint64_t bytes, uint64_t align)
{
	uint64_t room = twi_align_up(bytes, align) + align + 2 * (uint64_t)TWI_HUGE_BYTES;
	void *at = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return twi_error_errno(TOW_ENOMEM, errno, "pool: mmap of addresses for %llu bytes",
				       (unsigned long long)bytes);
	extent->reserved = at;
	extent->reserved_bytes = room;
	extent->base = (void *)(uintptr_t)twi_align_up((uintptr_t)at + TWI_HUGE_BYTES, align);
	return TOW_OK;
}

static void unreserve_addresses(struct twi_extent *extent)
{
	if (extent->reserved != NULL)
		munmap(extent->reserved, extent->reserved_bytes);
	extent->base = extent->reserved = NULL;
	extent->reserved_bytes = 0;
}

/* Returns false with the reason stored, and nothing else changed. */
static bool map_hugetlb(struct twi_extent *extent, uint64_t bytes, enum twi_page_kind kind)
{
	uint64_t page = twi_hugetlb_bytes(kind);
	unsigned log2 = (unsigned)__builtin_ctzll(page);
	const char *call = "mmap";
	int err = 0;

	if (!twi_page_step_suits(extent, bytes, kind))
		return false;
	if (reserve_addresses(extent, bytes, page) < 0)
		err = ENOMEM;
	extent->page_bytes = page;
	extent->bytes = twi_align_up(bytes, page);
	if (err == 0)
		err = map_file(extent, MFD_HUGETLB | log2 << HUGE_SHIFT, &call);
	if (err == 0) {
		extent->kind = kind;
		extent->huge_bytes = extent->bytes;
		return true;
	}
	unreserve_addresses(extent);
	twi_page_step_refused(extent, bytes, kind, call, err);
	return false;
}

/* Asks for transparent huge pages. The kernel gives them while populating, if it does. */
static void advise_thp(struct twi_extent *extent)
{
	int err = 0;

	if (!twi_shmem_allows_thp())
		twi_page_step_no_thp(extent, 0);
	else if (madvise(extent->base, extent->bytes, MADV_HUGEPAGE) == 0)
		extent->thp_advised = true;
	else
		err = errno;
	if (err)
		twi_page_step_no_thp(extent, err);
}

static int map_base(struct twi_extent *extent, uint64_t bytes, bool thp)
{
	const char *call;
	int err, status;

	extent->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	extent->bytes = twi_align_up(bytes, extent->page_bytes);
	extent->kind = TWI_PAGES_BASE;
	status = reserve_addresses(extent, bytes, TWI_HUGE_BYTES);
	if (status == TOW_OK)
		status = twi_memory_check(extent, extent->bytes);
	if (status < 0)
		return status;
	err = map_file(extent, 0, &call);
	if (err)
		return twi_error_errno(err == ENOMEM ? TOW_ENOMEM : TOW_ESYSTEM, err,
				       "pool: %s of %llu bytes", call,
				       (unsigned long long)extent->bytes);
	if (thp && bytes >= TWI_HUGE_BYTES)
		advise_thp(extent);
	return TOW_OK;
}

/* Tries each kind, the best first. */
static int map_best(struct twi_extent *extent, uint64_t bytes, enum twi_page_kind best)
{
	for (enum twi_page_kind kind = best; kind > TWI_PAGES_THP; kind--)
		if (map_hugetlb(extent, bytes, kind))
			return TOW_OK;
	return map_base(extent, bytes, best > TWI_PAGES_BASE);
}

int twi_extent_map(const struct twi_extent_options *options, struct twi_extent *extent_out)
{
	struct twi_extent *extent = extent_out;
	uint64_t bytes = options->bytes;
	int status;

	*extent = (struct twi_extent){ .fd = -1,
				       .progress = options->progress,
				       .progress_user = options->progress_user,
				       .diag = options->diag };
	if (bytes == 0)
		return twi_error(TOW_EINVAL, "pool: premap_memory_bytes = 0 maps nothing");
	if (bytes > (uint64_t)INT64_MAX - 4 * TWI_GIANT_BYTES)
		return twi_error(TOW_EINVAL, "pool: premap_memory_bytes = %llu is too large",
				 (unsigned long long)bytes);
	status = twi_numa_resolve(options->numa, &extent->numa);
	if (status == TOW_OK)
		status = check_file_limit(bytes);
	if (status < 0)
		return status;
	status = map_best(extent, bytes, options->best);
	if (status == TOW_OK && madvise(extent->base, extent->bytes, MADV_DONTFORK))
		status = twi_error_errno(TOW_ESYSTEM, errno, "pool: madvise(MADV_DONTFORK)");
	if (status < 0) {
		twi_extent_unmap(extent);
		return status;
	}
	(void)twi_numa_bind(extent->base, extent->bytes, &extent->numa, extent->numa_reason,
			    sizeof(extent->numa_reason), extent->numa_mend,
			    sizeof(extent->numa_mend));
	twi_page_step_join(extent);
	return TOW_OK;
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

/* Kernels before 4.4 have no mlock2. Their mlock also faults the pages in, on one CPU. */
static int lock_on_fault(void *base, uint64_t bytes)
{
	int rc = mlock2(base, bytes, MLOCK_ONFAULT);

	return rc != 0 && (errno == ENOSYS || errno == EINVAL) ? mlock(base, bytes) : rc;
}

int twi_extent_pin(struct twi_extent *extent)
{
	char limit[64];
	int err;

	if (lock_on_fault(extent->base, extent->bytes) == 0) {
		extent->mlocked = true;
		return TOW_OK;
	}
	err = errno;
	twi_memlock_describe(limit, sizeof(limit), extent->pin_mend, sizeof(extent->pin_mend));
	snprintf(extent->pin_reason, sizeof(extent->pin_reason), "mlock of %llu KiB: %s, %s",
		 (unsigned long long)extent->bytes / 1024, strerrorname_np(err), limit);
	extent->pin_status = err == EPERM ? TOW_EPERM : TOW_ENOMEM;
	return extent->pin_status;
}

void twi_extent_release(struct twi_extent *extent)
{
	if (extent->mlocked)
		munlock(extent->base, extent->bytes);
	extent->mlocked = false;
	if (extent->fd >= 0)
		close(extent->fd);
	extent->fd = -1;
}

void twi_extent_unmap(struct twi_extent *extent)
{
	/* This unmaps the guards and the mapping between them, which also ends the lock. */
	unreserve_addresses(extent);
	if (extent->fd >= 0)
		close(extent->fd);
	extent->bytes = 0;
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
