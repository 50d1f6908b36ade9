/*
 * device_bench.c - measures the cost of host memory that is not mapped for a device.
 *
 *	device_bench [--device SPEC] [--json] [--quick]
 *
 * There are three tables. The first has rates of copies each way, by size. One side is memory of
 * the pool (mapped, where the device maps at all) or other memory (through the staging part, where
 * the device needs it). The second has the same with eight copies in flight. The third has the cost
 * of mapping host memory late, by size, for memory that is faulted in and memory that is not.
 * Figures are medians of several rounds. With the fake device they are the cost of Towline itself,
 * and say nothing about any accelerator.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <towline/towline.h>

#include "diag/base/clock.h"
#include "transport/device/device_copy.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

#define MIB    ((uint64_t)1 << 20)
#define ROUNDS 31
#define BATCH  8

struct bench {
	const char *spec;
	bool json, quick, comma;
	int rounds;
	uint64_t largest;
	struct tow_runtime *runtime;
	struct tow_device *device;
	struct tow_device_memory *memory;
};

static int complain_of(const char *what, int status)
{
	fprintf(stderr, "device_bench: %s: %s: %s\n", what, tow_status_name(status),
		tow_error_message());
	return status;
}

static int compare_values(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of(double *value, int count)
{
	qsort(value, (size_t)count, sizeof(*value), compare_values);
	return value[count / 2];
}

static void print_row(struct bench *bench, const char *table, const char *what, uint64_t bytes,
		      double ns)
{
	double gigabytes = (double)bytes / ns;

	if (bench->json) {
		printf("%s\n    {\"table\": \"%s\", \"what\": \"%s\", \"bytes\": %llu, "
		       "\"median_ns\": %.1f, \"bytes_per_second\": %.0f}",
		       bench->comma ? "," : "", table, what, (unsigned long long)bytes, ns,
		       gigabytes * 1e9);
		bench->comma = true;
	} else {
		printf("  %-30s %8llu KiB  %12.2f us", what, (unsigned long long)bytes >> 10,
		       ns / 1e3);
		if (strcmp(table, "mapping") != 0)
			printf("  %8.2f GB/s", gigabytes);
		putchar('\n');
	}
}

static void print_title(const struct bench *bench, const char *text)
{
	if (!bench->json)
		printf("%s\n", text);
}

/*
 * Starts `count` copies at once, each of `bytes` in its own place. *ns_out is the time until all
 * have ended.
 */
static int one_round(struct bench *bench, enum tow_direction direction, uint8_t *host,
		     uint64_t bytes, unsigned count, double *ns_out)
{
	struct tow_op *op[BATCH];
	uint64_t start = twi_now_ns();
	unsigned started = 0;
	int status = TOW_OK;

	while (started < count && status >= 0) {
		status = tow_device_copy_start(bench->device, direction, bench->memory,
					       started * bytes, host + started * bytes, bytes, NULL,
					       &op[started]);
		started += status == TOW_OK;
	}
	for (unsigned i = 0; i < started; i++) {
		int ended = tow_op_wait(op[i], TOW_FOREVER);

		status = ended < 0 ? ended : status;
		tow_op_release(op[i]);
	}
	*ns_out = (double)(twi_now_ns() - start);
	return status < 0 ? complain_of("copy", status) : TOW_OK;
}

static int measure_rate(struct bench *bench, const char *table, const char *what,
			enum tow_direction direction, uint8_t *host, uint64_t bytes, unsigned count)
{
	double ns[ROUNDS];

	for (int i = -1; i < bench->rounds; i++) { /* the first is a warm-up */
		int status = one_round(bench, direction, host, bytes, count, &ns[i < 0 ? 0 : i]);

		if (status < 0)
			return status;
	}
	print_row(bench, table, what, bytes * count, median_of(ns, bench->rounds));
	return TOW_OK;
}

static int measure_rates(struct bench *bench, const char *table, unsigned count, uint8_t *pool,
			 uint8_t *heap)
{
	static const struct {
		const char *what;
		enum tow_direction direction;
		bool mapped;
	} rows[] = {
		{ "to device, pool", TOW_TO_DEVICE, true },
		{ "to device, other memory", TOW_TO_DEVICE, false },
		{ "from device, pool", TOW_FROM_DEVICE, true },
		{ "from device, other memory", TOW_FROM_DEVICE, false },
	};

	for (unsigned i = 0; i < twi_array_count(rows); i++) {
		for (uint64_t bytes = 4096; bytes <= bench->largest / count; bytes *= 8) {
			int status = measure_rate(bench, table, rows[i].what, rows[i].direction,
						  rows[i].mapped ? pool : heap, bytes, count);

			if (status < 0)
				return status;
		}
	}
	return TOW_OK;
}

/* Maps fresh memory once. It is faulted in before, or by the mapping itself. */
static int map_round(struct bench *bench, uint64_t bytes, bool touched, double *ns_out)
{
	struct twi_device *backend = bench->device->backend;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | (touched ? MAP_POPULATE : 0), -1, 0);
	uint64_t start;
	int status;

	if (memory == MAP_FAILED) {
		fprintf(stderr, "device_bench: mmap of %llu bytes: %s\n", (unsigned long long)bytes,
			strerror(errno));
		return TOW_ENOMEM;
	}
	start = twi_now_ns();
	status = backend->ops->map(backend, memory, bytes);
	*ns_out = (double)(twi_now_ns() - start);
	if (status == TOW_OK)
		backend->ops->unmap(backend, memory, bytes);
	munmap(memory, bytes);
	return status;
}

static void measure_mappings(struct bench *bench, bool touched)
{
	const char *what = touched ? "late mapping, faulted in" : "late mapping, never touched";
	double ns[ROUNDS];

	for (uint64_t bytes = 4096; bytes <= bench->largest; bytes *= 8) {
		for (int i = 0; i < bench->rounds; i++) {
			if (map_round(bench, bytes, touched, &ns[i]) < 0) {
				if (!bench->json)
					printf("  %-30s not measured: %s\n", what,
					       tow_error_message());
				return;
			}
		}
		print_row(bench, "mapping", what, bytes, median_of(ns, bench->rounds));
	}
}

static int run_bench(struct bench *bench)
{
	struct tow_device_info info = { .size = sizeof(info) };
	uint8_t *heap = NULL;
	void *pool;
	int status = tow_device_alloc(bench->device, bench->largest, &bench->memory);

	if (status == TOW_OK)
		status = tow_alloc(bench->runtime, bench->largest, 4096, &pool);
	if (status < 0)
		return complain_of("memory", status);
	heap = malloc(bench->largest);
	if (heap == NULL)
		return complain_of("memory", TOW_ENOMEM);
	memset(heap, 1, bench->largest);
	memset(pool, 1, bench->largest);
	tow_device_info(bench->device, &info);
	if (!bench->json)
		printf("device %s %s, pool %s%s\n", info.kind, info.name,
		       info.mapped_bytes > 0 ? "mapped" : "not mapped: ", info.unmapped_because);
	/* Some devices cannot read memory that was never written. */
	status = measure_rate(bench, "first", "to device, all of it", TOW_TO_DEVICE, pool,
			      bench->largest, 1);
	print_title(bench, "one copy at a time");
	if (status == TOW_OK)
		status = measure_rates(bench, "single", 1, pool, heap);
	print_title(bench, "eight copies in flight");
	if (status == TOW_OK)
		status = measure_rates(bench, "batch", BATCH, pool, heap);
	print_title(bench, "mapping host memory late");
	if (status == TOW_OK) {
		measure_mappings(bench, true);
		measure_mappings(bench, false);
	}
	free(heap);
	return status;
}

static int read_options(struct bench *bench, int argc, char **argv)
{
	static const struct option longs[] = { { "device", required_argument, NULL, 'd' },
					       { "json", no_argument, NULL, 'j' },
					       { "quick", no_argument, NULL, 'q' },
					       { NULL, 0, NULL, 0 } };
	int option;

	while ((option = getopt_long(argc, argv, "d:jq", longs, NULL)) >= 0) {
		switch (option) {
		case 'd':
			bench->spec = optarg;
			break;
		case 'j':
			bench->json = true;
			break;
		case 'q':
			bench->quick = true;
			break;
		default:
			return -1;
		}
	}
	return optind == argc ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct tow_options knobs = TOW_OPTIONS_INIT;
	struct bench bench = { .spec = "fake", .rounds = 15 };
	int status;

	if (read_options(&bench, argc, argv) < 0) {
		fprintf(stderr, "usage: device_bench [--device SPEC] [--json] [--quick]\n");
		return 2;
	}
	bench.rounds = bench.quick ? 3 : bench.rounds;
	bench.largest = bench.quick ? 2 * MIB : 64 * MIB;
	knobs.stats = 0;
	knobs.premap_memory_bytes = (int64_t)(bench.largest + 32 * MIB);
	status = tow_runtime_open(&knobs, &bench.runtime);
	if (status < 0) {
		complain_of("runtime", status);
		return 1;
	}
	status = tow_device_open(bench.runtime, bench.spec, &bench.device);
	if (bench.json)
		printf("{\"device\": \"%s\", \"results\": [", bench.spec);
	if (status < 0)
		complain_of(bench.spec, status);
	else
		status = run_bench(&bench);
	if (bench.json)
		printf("\n]}\n");
	tow_runtime_close(bench.runtime);
	if (status == TOW_ENOTSUP)
		return 77;
	return status < 0 ? 1 : 0;
}
