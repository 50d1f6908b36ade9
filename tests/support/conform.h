/*
 * conform.h - the conformance suite: cases over all lanes, kinds of memory and ways to drive. Each
 * cell's transcript must be the one that is written down beside the case: NAME.txt, and
 * NAME-unreadable.txt of the cells whose memory cannot be read or written, which are played by a
 * function of their own.
 *
 *	TOW_CONFORM=cover		a selection in which every two values of two dimensions
 *					meet, of all cases together; by TOW_TEST_SEED [default]
 *	TOW_CONFORM=all			the whole product
 *	TOW_CONFORM=shm/pool/callback	one cell; its transcript is printed
 *	TOW_CONFORM=write		writes the transcripts anew, by the cells tcp/pool/wait and
 *					tcp/unreadable/wait
 *
 * With TOW_CONFORM_NO_IO_URING set, a seccomp filter refuses io_uring in all cells, as containers
 * do: each lane is then driven by epoll.
 *
 * A cell that makes no sense says why, and does not count as passed. A fault that is known stands
 * in one list with its reason: it is left out of the selection, and in the whole product it must
 * fail.
 */
#ifndef TWT_CONFORM_H
#define TWT_CONFORM_H

#include "cell_judge.h"

/* --- what came of it --- */

/* The whole of a program of the suite. A case without `play_bad` is in twt_senseless. */
int twt_conform(enum twt_case which, void (*play)(struct twt_end *end),
		void (*play_bad)(struct twt_end *end));

#endif
