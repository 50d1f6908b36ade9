/*
 * memreg_bench.c - what memory costs before and after the first step, on this machine.
 *
 * Five tables: premapping a pool by page kind and threads; registering all of it with io_uring;
 * registering one buffer late, by size, warm and cold; allocating from the pool; leases. Each
 * figure is the median of several rounds. What cannot be measured here (no huge pages, no right to
 * pin) is listed with the reason.
 */
#include <errno.h>
#include <getopt.h>
#include <liburing.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "diag/clock.h"
#include "diag/diag.h"
#include "memreg/extent.h"
#include "memreg/pool.h"
#include <internal/base.h>
#include <towline/status.h>

#define MIB           ((uint64_t)1 << 20)
#define SIZES_MAX     16
#define ROUNDS_MAX    31
#define IOV_MAX_BYTES ((uint64_t)1 << 30) /* the most that one registered buffer may span */

struct bench {
	bool json, quick;
	int rounds;
	uint64_t size[SIZES_MAX];
	int sizes;
	struct twi_diag *diag;
	bool comma;
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *value, int count)
{
	qsort(value, (size_t)count, sizeof(*value), compare);
	return value[count / 2];
}

/* 4096 -> "4KiB" */
static const char *bytes_text(uint64_t bytes, char *text, size_t room)
{
	static const char *unit[] = { "B", "KiB", "MiB", "GiB" };
	unsigned u = 0;

	while (u < 3 && bytes >= 1024 && bytes % 1024 == 0) {
		bytes /= 1024;
		u++;
	}
	snprintf(text, room, "%llu%s", (unsigned long long)bytes, unit[u]);
	return text;
}

/* One figure. `why` not NULL: there is none, and why. Texts are ours, so that JSON needs no
 * escapes. */
static void put(struct bench *b, const char *table, const char *what, uint64_t bytes, int threads,
		double ns, const char *why)
{
	char size[32];

	bytes_text(bytes, size, sizeof(size));
	if (b->json) {
		printf("%s\n    {\"table\": \"%s\", \"what\": \"%s\", \"bytes\": %llu, "
		       "\"threads\": %d, ",
		       b->comma ? "," : "", table, what, (unsigned long long)bytes, threads);
		if (why)
			printf("\"median_ns\": null, \"reason\": \"%s\"}", why);
		else
			printf("\"median_ns\": %.1f}", ns);
		b->comma = true;
	} else if (why) {
		printf("  %-28s %8s  %d thr   not measured: %s\n", what, size, threads, why);
	} else {
		printf("  %-28s %8s  %d thr  %14.1f ns", what, size, threads, ns);
		if (ns >= 10000)
			printf("  (%.3f ms)", ns / 1e6);
		putchar('\n');
	}
}

static void title(const struct bench *b, const char *text)
{
	if (!b->json)
		printf("%s\n", text);
}

/* Maps and faults in once. What came of it stays in *extent, unmapped again. */
static int premap_round(bool huge, uint64_t bytes, unsigned threads, struct twi_extent *extent,
			double *ns_out)
{
	struct twi_extent_options options = { .bytes = bytes,
					      .best = huge ? TWI_PAGES_HUGETLB_1G
							   : TWI_PAGES_BASE };
	uint64_t start = twi_now_ns();
	int status = twi_extent_map(&options, extent);

	if (status == TOW_OK)
		status = twi_extent_populate(extent, threads);
	*ns_out = (double)(twi_now_ns() - start);
	twi_extent_unmap(extent);
	return status;
}

static void premap_one(struct bench *b, bool huge, uint64_t bytes, unsigned threads)
{
	struct twi_extent extent = { .fd = -1 };
	double ns[ROUNDS_MAX] = { 0 };
	int status = TOW_OK;
	char what[64];

	for (int i = 0; status == TOW_OK && i < b->rounds; i++)
		status = premap_round(huge, bytes, threads, &extent, &ns[i]);
	threads = twi_max(extent.populate_threads, 1u);
	if (status == TOW_OK && huge && extent.kind == TWI_PAGES_BASE) {
		put(b, "premap", "huge pages", bytes, (int)threads, 0, extent.reason);
		return;
	}
	snprintf(what, sizeof(what), "map+populate %s", twi_page_kind_name(extent.kind));
	put(b, "premap", what, bytes, (int)threads, median(ns, b->rounds),
	    status == TOW_OK ? NULL : tow_error_message());
}

static void premap(struct bench *b)
{
	title(b, "premapping a pool");
	for (int i = 0; i < b->sizes; i++)
		for (int huge = 0; huge < 2; huge++) {
			premap_one(b, huge, b->size[i], 1);
			premap_one(b, huge, b->size[i], 0);
		}
}

/* Registers [base, base + bytes) in slots of at most 1 GiB; 0 or the errno. */
static int ring_register(struct io_uring *ring, char *base, uint64_t bytes)
{
	struct iovec iov[64];
	unsigned count = 0;
	int err;

	for (uint64_t at = 0; at < bytes; at += IOV_MAX_BYTES) {
		if (count == twi_array_count(iov))
			return E2BIG;
		iov[count++] = (struct iovec){ base + at, twi_min(IOV_MAX_BYTES, bytes - at) };
	}
	err = io_uring_register_buffers(ring, iov, count);
	return err < 0 ? -err : 0;
}

static void whole_pool(struct bench *b)
{
	title(b, "registering all of it with io_uring");
	for (int i = 0; i < b->sizes; i++) {
		struct twi_extent_options options = { .bytes = b->size[i],
						      .best = TWI_PAGES_HUGETLB_1G };
		double ns[ROUNDS_MAX];
		struct twi_extent extent;
		struct io_uring ring;
		int err;

		if (twi_extent_map(&options, &extent) != TOW_OK) {
			put(b, "register", "whole pool", b->size[i], 1, 0, tow_error_message());
			continue;
		}
		err = -io_uring_queue_init(4, &ring, 0);
		if (err == 0) {
			if (twi_extent_populate(&extent, 0) != TOW_OK)
				err = ENOMEM;
			for (int k = 0; !err && k < b->rounds; k++) {
				uint64_t start = twi_now_ns();

				err = ring_register(&ring, extent.base, extent.bytes);
				ns[k] = (double)(twi_now_ns() - start);
				if (!err)
					io_uring_unregister_buffers(&ring);
			}
			io_uring_queue_exit(&ring);
		}
		put(b, "register", twi_page_kind_name(extent.kind), b->size[i], 1,
		    err ? 0 : median(ns, b->rounds), err ? strerror(err) : NULL);
		twi_extent_unmap(&extent);
	}
}

/* Puts one buffer into slot 0 of the ring's sparse table, as a late registration does. */
static int ring_update(struct io_uring *ring, void *base, uint64_t bytes)
{
	struct iovec iov = { base, bytes };
	__u64 tag = 0;
	int err = io_uring_register_buffers_update_tag(ring, 0, &iov, &tag, 1);

	return err < 0 ? -err : 0;
}

static int late_round(struct io_uring *ring, uint64_t bytes, bool cold, double *ns_out)
{
	char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start;
	int err;

	if (base == MAP_FAILED)
		return errno;
	if (!cold)
		memset(base, 1, bytes);
	start = twi_now_ns();
	err = ring_update(ring, base, bytes);
	*ns_out = (double)(twi_now_ns() - start);
	if (!err)
		err = ring_update(ring, NULL, 0);
	munmap(base, bytes);
	return err;
}

static void late(struct bench *b)
{
	struct io_uring ring;
	int err = -io_uring_queue_init(4, &ring, 0);

	title(b, "one late registration with io_uring (base pages)");
	if (err == 0) {
		err = -io_uring_register_buffers_sparse(&ring, 1);
		if (err)
			io_uring_queue_exit(&ring);
	}
	if (err) {
		put(b, "late", "warm", 4096, 1, 0, strerror(err));
		return;
	}
	for (uint64_t bytes = 4096; bytes <= 16 * MIB; bytes *= 4)
		for (int cold = 0; cold < 2; cold++) {
			double ns[ROUNDS_MAX];

			for (int k = 0; !err && k < b->rounds; k++)
				err = late_round(&ring, bytes, cold, &ns[k]);
			put(b, "late", cold ? "cold pages" : "warm pages", bytes, 1,
			    err ? 0 : median(ns, b->rounds), err ? strerror(err) : NULL);
			err = 0;
		}
	io_uring_queue_exit(&ring);
}

struct loop {
	struct twi_pool *pool;
	uint64_t bytes;
	int pairs;
	double ns; /* of one pair */
	int status;
};

static void *alloc_loop(void *arg)
{
	struct loop *loop = arg;
	uint64_t start = twi_now_ns();

	for (int i = 0; i < loop->pairs && loop->status == TOW_OK; i++) {
		void *p;

		loop->status = twi_pool_alloc(loop->pool, loop->bytes, 0, &p);
		if (loop->status == TOW_OK)
			loop->status = twi_pool_free(loop->pool, p);
	}
	loop->ns = (double)(twi_now_ns() - start) / loop->pairs;
	return NULL;
}

/* What a transport pays for each buffer it holds: one lease and its release. */
static void lease(struct bench *b, struct twi_pool *pool, uint64_t bytes)
{
	int pairs = b->quick ? 1000 : 100000;
	double ns[ROUNDS_MAX];
	void *p;

	if (twi_pool_alloc(pool, bytes, 0, &p) != TOW_OK) {
		put(b, "lease", "lease+release", bytes, 1, 0, tow_error_message());
		return;
	}
	for (int k = 0; k < b->rounds; k++) {
		uint64_t start = twi_now_ns();

		for (int i = 0; i < pairs; i++)
			if (twi_pool_lease(pool, (char *)p + bytes - 1) == TOW_OK)
				twi_pool_release(pool, (char *)p + bytes - 1);
		ns[k] = (double)(twi_now_ns() - start) / pairs;
	}
	twi_pool_free(pool, p);
	put(b, "lease", "lease+release", bytes, 1, median(ns, b->rounds), NULL);
}

static double alloc_round(const struct loop *model, int threads, int *status_out)
{
	struct loop loop[2] = { *model, *model };
	pthread_t other;

	if (threads == 2 && pthread_create(&other, NULL, alloc_loop, &loop[1])) {
		*status_out = TOW_ESYSTEM;
		return 0;
	}
	alloc_loop(&loop[0]);
	if (threads == 2)
		pthread_join(other, NULL);
	*status_out = loop[0].status ? loop[0].status : loop[1].status;
	return threads == 2 ? (loop[0].ns + loop[1].ns) / 2 : loop[0].ns;
}

/* A pool in use: blocks of many sizes with holes between them, so that lists are not trivial. */
static void litter(struct twi_pool *pool)
{
	void *kept[256];

	for (int i = 0; i < 256; i++)
		if (twi_pool_alloc(pool, (size_t)64 << i % 10, 0, &kept[i]) != TOW_OK)
			kept[i] = NULL;
	for (int i = 0; i < 256; i += 2)
		twi_pool_free(pool, kept[i]);
}

static void alloc(struct bench *b)
{
	struct twi_pool_options options = { .bytes = 64 * MIB, .diag = b->diag };
	struct twi_pool *pool;

	title(b, "allocating from the pool: one alloc+free");
	if (twi_pool_create(&options, &pool) != TOW_OK) {
		put(b, "alloc", "pool", options.bytes, 1, 0, tow_error_message());
		return;
	}
	litter(pool);
	for (uint64_t bytes = 64; bytes <= 16 * MIB; bytes *= 4)
		for (int threads = 1; threads <= 2; threads++) {
			struct loop model = { pool, bytes, b->quick ? 1000 : 100000, 0, TOW_OK };
			double ns[ROUNDS_MAX];
			int status = TOW_OK;

			for (int k = 0; status == TOW_OK && k < b->rounds; k++)
				ns[k] = alloc_round(&model, threads, &status);
			put(b, "alloc", "alloc+free", bytes, threads,
			    status ? 0 : median(ns, b->rounds),
			    status ? tow_status_name(status) : NULL);
		}
	lease(b, pool, 64);
	lease(b, pool, MIB);
	lease(b, pool, 16 * MIB);
	twi_pool_destroy(pool);
}

static bool parse_bytes(const char *text, uint64_t *bytes_out)
{
	static const struct {
		const char *name;
		unsigned shift;
	} unit[] = { { "", 0 }, { "KiB", 10 }, { "MiB", 20 }, { "GiB", 30 } };
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	for (size_t i = 0; i < twi_array_count(unit); i++)
		if (end != text && *text != '-' && !errno && strcmp(end, unit[i].name) == 0 &&
		    value && value <= (UINT64_MAX >> 2) >> unit[i].shift) {
			*bytes_out = (uint64_t)value << unit[i].shift;
			return true;
		}
	return false;
}

static bool parse_sizes(struct bench *b, char *list)
{
	char *rest = list;

	b->sizes = 0;
	for (char *item = strsep(&rest, ","); item; item = strsep(&rest, ",")) {
		if (b->sizes == SIZES_MAX) {
			fprintf(stderr, "memreg-bench: --sizes: at most %d sizes\n", SIZES_MAX);
			return false;
		}
		if (!parse_bytes(item, &b->size[b->sizes])) {
			fprintf(stderr, "memreg-bench: --sizes: '%s' is not a size such as 64MiB\n",
				item);
			return false;
		}
		b->sizes++;
	}
	return true;
}

static void usage(FILE *out)
{
	fputs("usage: memreg-bench [--sizes 64MiB,256MiB,1GiB] [--rounds N] [--quick] [--json]\n"
	      "What memory costs on this machine: premapping a pool, registering it with "
	      "io_uring,\n"
	      "registering one buffer late, allocating. Medians, in nanoseconds.\n"
	      "  --sizes LIST  pool sizes\n"
	      "  --rounds N    measure each N times, 1..31 (5)\n"
	      "  --quick       small and short, to see that it works: 8MiB, one round\n"
	      "  --json        one JSON document\n",
	      out);
}

/* 0: go on; else the exit status plus one. */
static int parse(struct bench *b, int argc, char **argv)
{
	static const struct option options[] = {
		{ "sizes", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "quick", no_argument, NULL, 'q' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			if (!parse_sizes(b, optarg))
				return 3;
			break;
		case 'r':
			b->rounds = atoi(optarg);
			if (b->rounds >= 1 && b->rounds <= ROUNDS_MAX)
				break;
			fprintf(stderr, "memreg-bench: --rounds: '%s' is not in 1..31\n", optarg);
			return 3;
		case 'q':
			b->quick = true;
			b->rounds = 1;
			b->size[0] = 8 * MIB;
			b->sizes = 1;
			break;
		case 'j':
			b->json = true;
			break;
		case 'h':
			usage(stdout);
			return 1;
		default:
			usage(stderr);
			return 3;
		}
	}
	if (optind == argc)
		return 0;
	fprintf(stderr, "memreg-bench: unexpected argument '%s'\n", argv[optind]);
	return 3;
}

int main(int argc, char **argv)
{
	struct bench b = { .rounds = 5, .size = { 64 * MIB, 256 * MIB, 1024 * MIB }, .sizes = 3 };
	int end = parse(&b, argc, argv);

	if (end)
		return end - 1;
	if (twi_diag_create(&b.diag) != TOW_OK) {
		fprintf(stderr, "memreg-bench: %s\n", tow_error_message());
		return 1;
	}
	if (b.json)
		printf("{\n  \"rounds\": %d,\n  \"results\": [", b.rounds);
	premap(&b);
	whole_pool(&b);
	late(&b);
	alloc(&b);
	if (b.json)
		printf("\n  ]\n}\n");
	twi_diag_destroy(b.diag);
	return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
