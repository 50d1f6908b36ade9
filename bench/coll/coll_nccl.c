/*
 * coll_nccl.c - prints results in the columns of NVIDIA's nccl-tests (--format nccl-tests), so that
 * programs that read those can read these. Rank 0 prints.
 *
 * The formulas are those of nccl-tests' doc/PERFORMANCE.md; S is the size, n the number of ranks:
 *
 *	algbw = S / time             S: the vector of an all-reduce, broadcast or reduce; of
 *	                             all-gather and gather the result, of reduce-scatter and
 *	                             scatter the input, of all-to-all what a rank sends in all
 *	busbw = algbw * 2 (n-1) / n  all-reduce
 *	      = algbw * (n-1) / n    all-gather, reduce-scatter, all-to-all, gather, scatter
 *	      = algbw                broadcast, reduce, send-receive
 *
 * GB is 10^9 bytes. The count is that of the call: of all-gather and the like one rank's part.
 * #wrong is the sum over all ranks. The last line is the mean of all busbw above it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/coll/tow_coll.h"

#define CELL_BYTES 16

/* The name of nccl-tests for a type. A type that NCCL does not have keeps its own name. */
static const char *type_name(enum tow_type type)
{
	switch (type) {
	case TOW_F32:
		return "float";
	case TOW_F64:
		return "double";
	case TOW_F16:
		return "half";
	case TOW_BF16:
		return "bfloat16";
	case TOW_S8:
		return "int8";
	case TOW_S32:
		return "int32";
	case TOW_S64:
		return "int64";
	case TOW_U8:
		return "uint8";
	case TOW_U32:
		return "uint32";
	case TOW_U64:
		return "uint64";
	default:
		return tow_type_name(type);
	}
}

static bool has_root(enum coll_kind kind)
{
	return kind == COLL_BROADCAST || kind == COLL_REDUCE || kind == COLL_GATHER ||
	       kind == COLL_SCATTER;
}

/* The size of a case. Parts of the _v kinds differ, so their mean counts. */
static uint64_t size_of(const struct coll_case *what, uint32_t ranks)
{
	if (what->kind == COLL_ALL_GATHER_V || what->kind == COLL_ALL_TO_ALL_V)
		return (uint64_t)coll_payload_bytes(what, ranks);
	return what->in_bytes > what->out_bytes ? what->in_bytes : what->out_bytes;
}

/* The quotient of busbw and algbw. */
static double bus_factor(const struct coll_case *what, uint32_t ranks)
{
	struct coll_case one = *what;

	one.bytes = 1;
	return coll_bus_bytes(&one, ranks) / coll_payload_bytes(&one, ranks);
}

void coll_nccl_head(const struct coll_rank *rank, enum coll_kind kind)
{
	if (rank->rank != 0)
		return;
	printf("# %s %s, %s, %u ranks: %s\n#\n", rank->options->peer, tow_version(),
	       rank->options->path, rank->ranks, coll_kind_names[kind]);
	printf("# %10s  %12s  %8s  %6s  %6s           out-of-place                       "
	       "in-place          \n",
	       "", "", "", "", "");
	printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s %6s  %7s  %6s  %6s %6s\n", "size",
	       "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time",
	       "algbw", "busbw", "#wrong");
	printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s %6s  %7s  %6s  %6s %6s\n", "(B)",
	       "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)",
	       "");
	fflush(stdout);
}

/* Writes three or four digits, as nccl-tests does. */
static void put_time(double us, char out[CELL_BYTES])
{
	snprintf(out, CELL_BYTES, us >= 10000 ? "%.0f" : us >= 100 ? "%.1f" : "%.2f", us);
}

static void print_half(struct coll_rank *rank, const struct coll_case *what,
		       const struct coll_half *half)
{
	double size = (double)size_of(what, rank->ranks), alg, bus;
	char time[CELL_BYTES];

	if (!half->ran) {
		printf("  %7s  %6s  %6s  %5s", "N/A", "N/A", "N/A", "N/A");
		return;
	}
	alg = half->result.time_s > 0 ? size / half->result.time_s / 1e9 : 0;
	bus = alg * bus_factor(what, rank->ranks);
	put_time(half->result.time_s * 1e6, time);
	printf("  %7s  %6.2f  %6.2f  %5" PRIu64, time, alg, bus, half->wrong);
	rank->nccl_bus_sum += bus;
	rank->nccl_rows++;
	rank->nccl_wrong += half->wrong;
}

void coll_nccl_row(struct coll_rank *rank, const struct coll_case *what,
		   const struct coll_half *out_of_place, const struct coll_half *in_place)
{
	char root[CELL_BYTES];

	if (rank->rank != 0 || (!out_of_place->ran && !in_place->ran))
		return;
	snprintf(root, sizeof(root), "%d", has_root(what->kind) ? (int)COLL_ROOT : -1);
	printf("%12" PRIu64 "  %12" PRIu64 "  %8s  %6s  %6s", size_of(what, rank->ranks),
	       what->count, type_name(rank->options->type),
	       coll_kind_reduces(what->kind) ? tow_reduce_name(rank->options->reduce) : "none",
	       root);
	print_half(rank, what, out_of_place);
	print_half(rank, what, in_place);
	putchar('\n');
	fflush(stdout);
}

void coll_nccl_end(struct coll_rank *rank)
{
	if (rank->rank != 0)
		return;
	printf("# Out of bounds values : %" PRIu64 " %s\n", rank->nccl_wrong,
	       rank->nccl_wrong == 0 ? "OK" : "FAILED");
	printf("# Avg bus bandwidth    : %g\n#\n",
	       rank->nccl_rows > 0 ? rank->nccl_bus_sum / rank->nccl_rows : 0);
	fflush(stdout);
	rank->nccl_bus_sum = 0;
	rank->nccl_rows = 0;
	rank->nccl_wrong = 0;
}
