/*
 * tow_nccl.c - measures a network plugin of NCCL's, called as NCCL calls it, or two plugins side by
 * side:
 *
 *	tow-nccl [options] PLUGIN.so [PLUGIN.so]
 *
 * Each of two processes loads the plugin. With two plugins each measurement is made with one and
 * then the other, round by round, and the medians are compared.
 *
 *	rtt:BYTES             half a round trip, us
 *	ring:COMMS:BYTES      each process sends to the other over COMMS communicators, with 8
 *	                      messages under way on each, the oldest tested: GB/s each way
 *	threads:COMMS:BYTES   the same, a thread for each communicator and direction
 *	many:COMMS            connects so many: us for each; then descriptors, RSS and mapped MiB
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/nccl/nccl_bench.h"

#define ROUNDS_MAX 32

struct figure {
	double value[2][ROUNDS_MAX];
};

static const char *const usual[] = { "rtt:8",         "rtt:4096",        "rtt:65536",
				     "rtt:524288",    "ring:1:524288",   "ring:2:524288",
				     "ring:8:131072", "threads:64:65536" };

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), compare_doubles);
	return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Makes one measurement in two fresh processes. Returns a negative value when it failed. */
static double measure_once(const struct nccl_bench *bench)
{
	double value = -1;
	int pair[2], status;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return -1;
	fflush(NULL);
	for (int side = 0; side < 2; side++) {
		child = fork();
		if (child == 0) {
			close(pair[1 - side]);
			_exit(nccl_bench_side(bench, side, pair[side]));
		}
		if (child < 0)
			return -1;
	}
	close(pair[1]);
	close(pair[0]);
	for (int side = 0; side < 2; side++)
		if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
			value = -2;
	if (value == -1 && *bench->value >= 0)
		value = *bench->value;
	return value;
}

static int parse_what(struct nccl_bench *bench, const char *what)
{
	bench->comms = 1;
	bench->bytes = 0;
	if (sscanf(what, "rtt:%zu", &bench->bytes) == 1)
		bench->kind = NCCL_BENCH_RTT;
	else if (sscanf(what, "ring:%d:%zu", &bench->comms, &bench->bytes) == 2)
		bench->kind = NCCL_BENCH_RING;
	else if (sscanf(what, "threads:%d:%zu", &bench->comms, &bench->bytes) == 2)
		bench->kind = NCCL_BENCH_THREADS;
	else if (sscanf(what, "many:%d", &bench->comms) == 1)
		bench->kind = NCCL_BENCH_MANY;
	else
		bench->comms = 0;
	if (bench->comms < 1 || bench->comms > NCCL_BENCH_COMMS || bench->bytes > 1u << 30) {
		fprintf(stderr, "tow-nccl: %s is not a measurement\n", what);
		return -1;
	}
	return 0;
}

static int run_what(struct nccl_bench *bench, const char *what, char **plugins, int count,
		    int rounds)
{
	static struct figure figure;
	const char *unit;
	double first = 0;

	if (parse_what(bench, what) < 0)
		return 1;
	for (int round = 0; round < rounds; round++)
		for (int i = 0; i < count; i++) {
			bench->plugin = plugins[i];
			*bench->value = -1;
			figure.value[i][round] = measure_once(bench);
			if (figure.value[i][round] < 0) {
				fprintf(stderr, "tow-nccl: %s with %s has failed\n", what,
					plugins[i]);
				return 1;
			}
		}
	unit = bench->kind == NCCL_BENCH_RTT || bench->kind == NCCL_BENCH_MANY ? "us" : "GB/s";
	printf("%-20s", what);
	for (int i = 0; i < count; i++) {
		double value = median_of(figure.value[i], rounds);

		printf(" %10.2f %s", value, unit);
		if (i == 0)
			first = value;
		else
			printf("   first/second %.2f", first / value);
	}
	putchar('\n');
	fflush(stdout);
	return 0;
}

static void print_usage(void)
{
	puts("usage: tow-nccl [--rounds N] [--steps N] [--version 8..12] [--pin] [--run WHAT]...\n"
	     "                PLUGIN.so [PLUGIN.so]\n"
	     "WHAT: rtt:BYTES ring:COMMS:BYTES threads:COMMS:BYTES many:COMMS");
}

int main(int argc, char **argv)
{
	struct nccl_bench bench = { .steps = 2000, .value = nccl_bench_shared() };
	const char *what[64];
	int rounds = 3, count = 0, at = 1, failed = 0;

	for (; at < argc && argv[at][0] == '-'; at++) {
		if (strcmp(argv[at], "--pin") == 0)
			bench.pin = true;
		else if (at + 1 == argc)
			break;
		else if (strcmp(argv[at], "--rounds") == 0)
			rounds = atoi(argv[++at]);
		else if (strcmp(argv[at], "--steps") == 0)
			bench.steps = atoi(argv[++at]);
		else if (strcmp(argv[at], "--version") == 0)
			bench.version = atoi(argv[++at]);
		else if (strcmp(argv[at], "--run") == 0 && count < 64)
			what[count++] = argv[++at];
		else
			break;
	}
	if (at >= argc || argc - at > 2 || argv[at][0] == '-' || rounds < 1 ||
	    rounds > ROUNDS_MAX || bench.steps < 1 || bench.value == NULL) {
		print_usage();
		return 2;
	}
	for (size_t i = 0; count == 0 && i < sizeof(usual) / sizeof(usual[0]); i++)
		failed |= run_what(&bench, usual[i], argv + at, argc - at, rounds);
	for (int i = 0; i < count; i++)
		failed |= run_what(&bench, what[i], argv + at, argc - at, rounds);
	return failed;
}
