/*
 * test_huge_pages.c - the pool on the kernel's real huge pages of each kind, and what the kernel
 * says of them.
 *
 * They must be reserved or switched on by root, for the whole machine. So the program is two: the
 * guard reserves, starts the tests as its child, waits, and takes back what it has reserved,
 * however the child ended. It adds to what others have reserved and subtracts the same again. What
 * cannot be had here is skipped with the reason.
 */
#include "twt.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/os/pinned.h"
#include "memreg/os/procfs.h"
#include "memreg/pool/pool.h"

#define HUGE   "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define GIANT  "/sys/kernel/mm/hugepages/hugepages-1048576kB/"
#define SHMEM  "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
#define MIB    (1ull << 20)
#define WANTED 24 /* huge pages */

/* What the guard has taken, and gives back. */
static struct {
	uint64_t huge, giant;
	char shmem[32]; /* the word that stood there; "": not changed */
} taken;

static uint64_t read_number(const char *path)
{
	char text[64];

	twi_proc_read(path, text, sizeof(text));
	return strtoull(text, NULL, 10);
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

static void write_number(const char *path, uint64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	write_text(path, text);
}

/* How many pages more there are then; the kernel may have fewer than wanted. */
static uint64_t take_pages(const char *path, uint64_t wanted)
{
	uint64_t before = read_number(path), after;

	write_number(path, before + wanted);
	after = read_number(path);
	return after > before ? after - before : 0;
}

static void take_thp(void)
{
	char text[128], *word, *end;

	twi_proc_read(SHMEM, text, sizeof(text));
	word = strchr(text, '[');
	end = word != NULL ? strchr(word, ']') : NULL;
	if (end == NULL || strstr(text, "[advise]") != NULL)
		return;
	*end = '\0';
	if (write_text(SHMEM, "advise"))
		snprintf(taken.shmem, sizeof(taken.shmem), "%s", word + 1);
}

static void give_back(void)
{
	if (taken.huge)
		write_number(HUGE "nr_hugepages", read_number(HUGE "nr_hugepages") - taken.huge);
	if (taken.giant)
		write_number(GIANT "nr_hugepages", read_number(GIANT "nr_hugepages") - taken.giant);
	if (taken.shmem[0])
		write_text(SHMEM, taken.shmem);
	taken.huge = taken.giant = 0;
	taken.shmem[0] = '\0';
}

static struct twi_address_range span_of(const struct twi_extent *extent)
{
	return (struct twi_address_range){ (uintptr_t)extent->base,
					   (uintptr_t)extent->base + extent->bytes };
}

/* All of it in memory, says the kernel, and on these pages; the nodes sum up to it. */
static void check_resident(const struct twi_extent *extent, bool hugetlb)
{
	struct twi_address_range span = span_of(extent);
	struct twi_range_view view = { 0 };
	uint64_t sum = 0;

	assert_true(twi_ranges_read_smaps(&span, &view, 1));
	assert_int_equal(view.hugetlb, hugetlb ? extent->bytes : 0);
	assert_int_equal(view.rss, hugetlb ? 0 : extent->bytes);
	assert_int_equal(twi_extent_resident_bytes(extent), extent->bytes);
	if (!twi_ranges_read_nodes(&span, &view, 1))
		return;
	for (unsigned node = 0; node < TWI_NODES_MAX; node++)
		sum += view.node[node];
	assert_int_equal(sum + view.node_beyond, extent->bytes);
}

/* Registering it pins its size, whatever its pages. */
static void check_pinned(const struct twi_extent *extent)
{
	struct iovec iov = { extent->base, extent->bytes };
	struct twi_address_range span = span_of(extent);
	struct twi_pinned before, after;
	struct io_uring ring;
	uint64_t part;

	if (io_uring_queue_init(4, &ring, 0) != 0)
		return;
	twi_pinned_read(&span, 1, 0, &before, NULL);
	assert_int_equal(io_uring_register_buffers(&ring, &iov, 1), 0);
	twi_pinned_read(&span, 1, 0, &after, &part);
	assert_int_equal(after.total, before.total + extent->bytes);
	assert_int_equal(after.by_towline, before.by_towline + extent->bytes);
	assert_int_equal(after.by_others, before.by_others);
	assert_int_equal(part, extent->bytes);
	io_uring_unregister_buffers(&ring);
	io_uring_queue_exit(&ring);
}

static void huge_2m(void **state)
{
	struct twi_extent_options options = { .bytes = 15 * MIB + 1, .best = TWI_PAGES_HUGETLB_1G };
	struct twi_extent extent;

	(void)state;
	if (read_number(HUGE "free_hugepages") < 8) {
		print_message("no 2 MiB pages can be reserved\n");
		skip();
	}
	assert_int_equal(twi_extent_open(&options, &extent), TOW_OK);
	assert_int_equal(extent.kind, TWI_PAGES_HUGETLB_2M);
	assert_int_equal(extent.bytes, 16 * MIB);
	assert_int_equal(extent.huge_bytes, extent.bytes);
	assert_string_equal(extent.step[TWI_PAGES_HUGETLB_2M].reason, "");
	assert_non_null(strstr(extent.step[TWI_PAGES_HUGETLB_1G].reason, "smaller"));
	assert_int_equal(twi_extent_pin(&extent), TOW_OK);
	check_resident(&extent, true);
	check_pinned(&extent);
	memset(extent.base, 0x5a, extent.bytes);
	twi_extent_unmap(&extent);
}

/* One page more than are free: the message says so, and the line in it would have been enough. */
static void too_few_2m(void **state)
{
	uint64_t total = read_number(HUGE "nr_hugepages");
	uint64_t unused = read_number(HUGE "free_hugepages") - read_number(HUGE "resv_hugepages");
	struct twi_extent_options options = { .bytes = (unused + 1) * 2 * MIB,
					      .best = TWI_PAGES_HUGETLB_2M };
	char numbers[96], line[96];
	struct twi_extent extent;

	(void)state;
	if (unused == 0 || unused > 512)
		skip();
	assert_int_equal(twi_extent_open(&options, &extent), TOW_OK);
	if (extent.kind == TWI_PAGES_HUGETLB_2M ||
	    read_number(HUGE "free_hugepages") - read_number(HUGE "resv_hugepages") != unused)
		skip(); /* another process takes or gives back pages just now */
	snprintf(numbers, sizeof(numbers), "%llu pages of 2 MiB needed, %llu of %llu free",
		 (unsigned long long)unused + 1, (unsigned long long)unused,
		 (unsigned long long)total);
	snprintf(line, sizeof(line), "sysctl vm.nr_hugepages=%llu", (unsigned long long)total + 1);
	assert_non_null(strstr(extent.step[TWI_PAGES_HUGETLB_2M].reason, numbers));
	assert_string_equal(extent.step[TWI_PAGES_HUGETLB_2M].mend, line);
	assert_string_equal(extent.step[TWI_PAGES_HUGETLB_1G].reason, ""); /* not wanted */
	twi_extent_unmap(&extent);
}

static void thp(void **state)
{
	struct twi_extent_options options = { .bytes = 16 * MIB, .best = TWI_PAGES_THP };
	struct twi_range_view view = { 0 };
	struct twi_extent extent;
	struct twi_address_range span;
	char text[128];

	(void)state;
	twi_proc_read(SHMEM, text, sizeof(text));
	if (strstr(text, "[advise]") == NULL) {
		print_message("transparent huge pages cannot be had for shared memory\n");
		skip();
	}
	assert_int_equal(twi_extent_open(&options, &extent), TOW_OK);
	span = span_of(&extent);
	assert_true(twi_ranges_read_smaps(&span, &view, 1));
	assert_int_equal(extent.huge_bytes, view.thp);
	if (view.thp == extent.bytes) {
		assert_int_equal(extent.kind, TWI_PAGES_THP);
		assert_string_equal(extent.reason, "");
	} else if (view.thp < extent.bytes / 2) {
		assert_int_equal(extent.kind, TWI_PAGES_BASE);
		assert_non_null(strstr(extent.reason, "THP: the kernel had"));
	}
	print_message("%llu of %llu bytes on transparent huge pages\n",
		      (unsigned long long)view.thp, (unsigned long long)extent.bytes);
	check_resident(&extent, false);
	check_pinned(&extent);
	twi_extent_unmap(&extent);
}

static void giant_1g(void **state)
{
	struct twi_extent_options options = { .bytes = 1000 * MIB, .best = TWI_PAGES_HUGETLB_1G };
	struct twi_extent extent;

	(void)state;
	/* Too small for one: named before any is looked for. */
	assert_int_equal(twi_extent_map(&options, &extent), TOW_OK);
	assert_non_null(strstr(extent.step[TWI_PAGES_HUGETLB_1G].reason, "smaller"));
	twi_extent_unmap(&extent);
	options.bytes = 1536 * MIB;
	assert_int_equal(twi_extent_map(&options, &extent), TOW_OK);
	assert_true(extent.kind != TWI_PAGES_HUGETLB_1G);
	assert_non_null(strstr(extent.step[TWI_PAGES_HUGETLB_1G].reason, "would waste 536870912"));
	assert_string_equal(extent.step[TWI_PAGES_HUGETLB_1G].mend, "premap_memory_bytes=2048MiB");
	twi_extent_unmap(&extent);
	options.bytes = 1024 * MIB;
	if (read_number(GIANT "free_hugepages") == 0) {
		assert_int_equal(twi_extent_map(&options, &extent), TOW_OK);
		assert_non_null(strstr(extent.step[TWI_PAGES_HUGETLB_1G].reason,
				       "1 pages of 1 GiB needed, 0 of"));
		twi_extent_unmap(&extent);
		print_message("no 1 GiB page can be reserved\n");
		skip();
	}
	assert_int_equal(twi_extent_open(&options, &extent), TOW_OK);
	assert_int_equal(extent.kind, TWI_PAGES_HUGETLB_1G);
	assert_int_equal((uintptr_t)extent.base % TWI_GIANT_BYTES, 0);
	assert_int_equal(extent.bytes, TWI_GIANT_BYTES);
	assert_string_equal(extent.reason, "");
	check_resident(&extent, true);
	check_pinned(&extent);
	((volatile char *)extent.base)[extent.bytes - 1] = 1;
	twi_extent_unmap(&extent);
}

/* The pool as a whole: allocations on huge pages, bound to a node, with its sums. */
static void pool_on_huge_pages(void **state)
{
	struct twi_pool_options options = { .bytes = 16 * MIB, .huge_pages = true, .numa = "0" };
	struct twi_pool_stats stats;
	struct twi_pool *pool;
	void *p;

	(void)state;
	if (read_number(HUGE "free_hugepages") < 8)
		skip();
	assert_int_equal(twi_diag_create(&options.diag), TOW_OK);
	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	assert_int_equal(twi_pool_alloc(pool, 8 * MIB, 0, &p), TOW_OK);
	assert_int_equal(twi_pool_find(pool, p, 1)->kind, TWI_PAGES_HUGETLB_2M);
	memset(p, 1, 8 * MIB);
	twi_pool_stats(pool, &stats);
	assert_int_equal(stats.mapped, 16 * MIB);
	twi_pool_destroy(pool);
	twi_diag_destroy(options.diag);
}

static int run_all(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(huge_2m),
		cmocka_unit_test(too_few_2m),
		cmocka_unit_test(thp),
		cmocka_unit_test(giant_1g),
		cmocka_unit_test(pool_on_huge_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

static pid_t child;

static void interrupted(int signal_number)
{
	if (child > 0)
		kill(child, SIGKILL);
	give_back();
	_exit(128 + signal_number);
}

int main(void)
{
	int how = 0;

	if (!write_text(HUGE "nr_hugepages", "") && (errno == EACCES || errno == EROFS)) {
		printf("only root may reserve huge pages, and where /sys can be written\n");
		return 77;
	}
	signal(SIGTERM, interrupted);
	signal(SIGINT, interrupted);
	signal(SIGHUP, interrupted);
	taken.huge = take_pages(HUGE "nr_hugepages", WANTED);
	taken.giant = take_pages(GIANT "nr_hugepages", 1);
	take_thp();
	child = fork();
	if (child == 0) {
		signal(SIGTERM, SIG_DFL);
		signal(SIGINT, SIG_DFL);
		alarm(120);
		exit(run_all());
	}
	while (child > 0 && waitpid(child, &how, 0) < 0 && errno == EINTR)
		;
	give_back();
	if (child < 0 || !WIFEXITED(how)) {
		printf("the tests were ended by signal %d\n", WTERMSIG(how));
		return 1;
	}
	return WEXITSTATUS(how);
}
