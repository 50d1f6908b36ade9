/* test_procfs.c - parsers of /proc text: recorded samples, hostile text, and the real files. */
#include "twt.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memreg/os/procfs.h"

/* Feeds a text line by line. */
static void feed(struct twi_range_reader *spans,
		 void (*line)(struct twi_range_reader *, const char *), const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n") + 1;
		char *copy = strndup(text, n);

		line(spans, copy);
		free(copy);
		text += text[n - 1] ? n : n - 1;
	}
}

/* Linux 6.18: a memfd whose first two pages are locked, between two guards. */
static const char smaps[] =
	"7f0790aaa000-7f0790caa000 ---p 00000000 00:00 0 \n"
	"Size:               2048 kB\n"
	"Rss:                 777 kB\n"
	"Locked:              777 kB\n"
	"7f0790caa000-7f0790cac000 rw-s 00000000 00:01 123393    /memfd:towline-pool (deleted)\n"
	"Size:                  8 kB\n"
	"KernelPageSize:        4 kB\n"
	"Rss:                   8 kB\n"
	"Pss_Dirty:             8 kB\n"
	"Anonymous:             0 kB\n"
	"ShmemPmdMapped:        0 kB\n"
	"Shared_Hugetlb:        0 kB\n"
	"Private_Hugetlb:       0 kB\n"
	"Locked:                8 kB\n"
	"THPeligible:           0\n"
	"VmFlags: rd wr sh mr mw me ms lo \n"
	"7f0790cac000-7f07910aa000 rw-s 00002000 00:01 123393    /memfd:towline-pool (deleted)\n"
	"Rss:                4088 kB\n"
	"ShmemPmdMapped:     2048 kB\n"
	"Shared_Hugetlb:        0 kB\n"
	"Locked:                0 kB\n"
	"7f07910aa000-7f07910ad000 rw-p 00000000 00:00 0 \n"
	"Rss:                  12 kB\n"
	"7f0800000000-7f0840000000 rw-s 00000000 00:01 5    /memfd:towline-pool (deleted)\n"
	"Rss:                   0 kB\n"
	"Shared_Hugetlb:  1048576 kB\n"
	"Private_Hugetlb:    2048 kB\n";

static const struct twi_address_range spans_of_sample[2] = { { 0x7f0790caa000, 0x7f07910aa000 },
							     { 0x7f0800000000, 0x7f0840000000 } };

static void smaps_sample(void **state)
{
	struct twi_range_view view[2] = { 0 };
	struct twi_range_reader spans = { spans_of_sample, view, 2, 2 };

	(void)state;
	feed(&spans, twi_smaps_feed, smaps);
	assert_int_equal(view[0].rss, 4096 << 10);
	assert_int_equal(view[0].locked, 8 << 10);
	assert_int_equal(view[0].thp, 2 << 20);
	assert_int_equal(view[0].hugetlb, 0);
	assert_int_equal(view[1].rss, 0);
	assert_int_equal(view[1].hugetlb, (1048576 + 2048) << 10);
}

static void numa_maps_sample(void **state)
{
	static const char text[] =
		"7f0790aaa000 default\n"
		"7f0790caa000 default file=/memfd:towline-pool\\040(deleted) dirty=2 N0=2 "
		"kernelpagesize_kB=4\n"
		"7f0790cac000 bind:0-1 file=/memfd:towline-pool\\040(deleted) dirty=1022 active=0 "
		"N0=1000 N1=22 kernelpagesize_kB=4\n"
		"7f07910aa000 default anon=3 dirty=3 active=0 N0=3 kernelpagesize_kB=4\n"
		"7f0800000000 interleave:0-1 file=/memfd:x huge dirty=2 N1=1 N200=1 "
		"kernelpagesize_kB=1048576\n";
	struct twi_range_view view[2] = { 0 };
	struct twi_range_reader spans = { spans_of_sample, view, 2, 2 };

	(void)state;
	feed(&spans, twi_numa_maps_feed, text);
	assert_int_equal(view[0].node[0], 1002 * 4096);
	assert_int_equal(view[0].node[1], 22 * 4096);
	assert_int_equal(view[1].node[0], 0);
	assert_int_equal(view[1].node[1], 1 << 30);
	assert_int_equal(view[1].node_beyond, 1 << 30);
}

static void hostile_lines_count_nothing(void **state)
{
	static const char *const lines[] = {
		"",
		"-",
		"7f0790caa000",
		"7f0790caa000-",
		"7f0790caa000-7f0790caa000 rw",
		"7f0790cac000-7f0790caa000 rw",
		"7f0790caa000-ffffffffffffffffffffff rw",
		"ffffffffffffffffffffff-1 rw",
		"7f0790caa000-7f0800000000 rw-s beyond the span",
		"ffffffffffffffff-fffffffffffffffff rw",
		"Rss: 1 kB",
		"Locked: 1 kB",
	};
	static const char *const nodes[] = {
		"",
		"7f0790caa000",
		"7f0790caa000 default",
		"7f0790caa000 default N0=5",
		"7f0790caa000 default N0=5 kernelpagesize_kB=",
		"7f0790caa000 default N0= kernelpagesize_kB=4",
		"7f0790caa000 default N=1 kernelpagesize_kB=4",
		"7f0790caa000 default N0=18446744073709551615 kernelpagesize_kB=4",
		"7f0790caa000 default N0=99999999999999999999 kernelpagesize_kB=4",
		"ffffffffffffffff default N0=1 kernelpagesize_kB=4",
		"1 default N0=1 kernelpagesize_kB=4",
	};
	struct twi_range_view view[2] = { 0 }, nothing = { 0 };
	struct twi_range_reader spans = { spans_of_sample, view, 2, 2 };

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		twi_smaps_feed(&spans, lines[i]);
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		twi_numa_maps_feed(&spans, nodes[i]);
	assert_memory_equal(&view[0], &nothing, sizeof(nothing));
	assert_memory_equal(&view[1], &nothing, sizeof(nothing));
	/* Inside a mapping of ours a number too large is left out, and the rest counts. */
	twi_smaps_feed(&spans, "7f0790caa000-7f0790cac000 rw-s");
	twi_smaps_feed(&spans, "Rss: 18446744073709551615 kB");
	twi_smaps_feed(&spans, "Rss: 99999999999999999999 kB");
	twi_smaps_feed(&spans, "Rss:");
	twi_smaps_feed(&spans, "Rss 4 kB");
	twi_smaps_feed(&spans, "Rss: 4 kB");
	assert_int_equal(view[0].rss, 4096);
}

/* Any bytes: nothing is asked but that it ends and stays in its memory. */
static void random_bytes_do_no_harm(void **state)
{
	static const char alphabet[] = "0123456789abcdefNRs:=-/ \t\nkBx\xff";
	uint64_t seed = twt_seed();

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct twi_range_view view[2] = { 0 };
		struct twi_range_reader spans = { spans_of_sample, view, 2, 2 };
		size_t n = twt_random_below(&seed, 80);
		char *line = malloc(n + 1);
		uint64_t value;

		for (size_t i = 0; i < n; i++)
			line[i] = alphabet[twt_random_below(&seed, sizeof(alphabet) - 1)];
		line[n] = '\0';
		spans.at = 0;
		twi_smaps_feed(&spans, line);
		twi_numa_maps_feed(&spans, line);
		twi_proc_number(line, "Rs", &value);
		free(line);
	}
}

static void numbers(void **state)
{
	static const char status[] =
		"Name:\tVmPin: 7 kB\nVmLck:\t       8 kB\nVmPin:\t    1032 kB\n";
	static const char node[] = "Node 0 MemTotal:       13068500 kB\n"
				   "Node 0 Inactive(file):   169748 kB\n";
	uint64_t value = 0;

	(void)state;
	assert_true(twi_proc_number(status, "VmLck", &value));
	assert_int_equal(value, 8);
	assert_true(twi_proc_number(node, "Inactive(file)", &value));
	assert_int_equal(value, 169748);
	assert_false(twi_proc_number(node, "active(file)", &value));
	assert_false(twi_proc_number(node, "MemFree", &value));
	assert_false(twi_proc_number("VmPin", "VmPin", &value));
	assert_false(twi_proc_number("VmPin:", "VmPin", &value));
	assert_false(twi_proc_number("", "VmPin", &value));
}

/* A memfd of 3 MiB, of which 1 MiB is in memory and a page locked, so that it has two mappings. */
static void real_files(void **state)
{
	size_t bytes = 3 << 20, in = 1 << 20, page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = memfd_create("towline-test", MFD_CLOEXEC);
	struct twi_range_view view = { 0 };
	struct twi_address_range span;
	char *at;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	madvise(at, bytes, MADV_NOHUGEPAGE);
	memset(at, 1, in);
	span = (struct twi_address_range){ (uintptr_t)at, (uintptr_t)at + bytes };
	assert_int_equal(mlock(at, page), 0);
	assert_true(twi_ranges_read_smaps(&span, &view, 1));
	assert_int_equal(view.rss, in);
#ifndef TWT_SANITIZED
	assert_int_equal(view.locked, page);
#endif
	if (twi_ranges_read_nodes(&span, &view, 1)) {
		uint64_t sum = view.node_beyond;

		for (unsigned node = 0; node < TWI_NODES_MAX; node++)
			sum += view.node[node];
		assert_int_equal(sum, in);
	}
	munmap(at, bytes);
	close(fd);
}

static void files_that_cannot_be_read(void **state)
{
	char text[16] = "before";
	char *all;

	(void)state;
	twi_proc_read("/proc/self/no-such-file", text, sizeof(text));
	assert_string_equal(text, "");
	assert_null(twi_proc_read_all("/proc/self/no-such-file", 100));
	twi_proc_read("/proc/self/maps", text, sizeof(text));
	assert_int_equal(strlen(text), sizeof(text) - 1);
	all = twi_proc_read_all("/proc/self/maps", 100);
	assert_int_equal(strlen(all), 100);
	free(all);
	all = twi_proc_read_all("/proc/self/smaps", 1 << 20);
	assert_true(strlen(all) > 4096);
	free(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(smaps_sample),
		cmocka_unit_test(numa_maps_sample),
		cmocka_unit_test(hostile_lines_count_nothing),
		cmocka_unit_test(random_bytes_do_no_harm),
		cmocka_unit_test(numbers),
		cmocka_unit_test(real_files),
		cmocka_unit_test(files_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
