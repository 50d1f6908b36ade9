/*
 * mpi_program.h - a program of MPI for tests: what its files share. It calls the functions of the
 * ABI by their own names, MPIABI_..., and holds them to the standard.
 */
#ifndef MPI_PROGRAM_H
#define MPI_PROGRAM_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/mpi/abi.h"

extern int world_rank, world_size;

void expect_at(bool truth, const char *what, const char *file, int line);
#define expect(truth) expect_at(truth, #truth, __FILE__, __LINE__)
/* A call that has ended well. */
#define CALL(call) expect((call) == MPI_SUCCESS)

/* It has failed with that class, and its text contains the words. */
void expect_error(int code, int wanted, const char *words, int line);
#define FAILS(call, wanted, words) expect_error(call, wanted, words, __LINE__)

/* mpi_random.c: collectives of any kind over random communicators, beside a plain reference. */
void play_collectives(uint64_t seed, unsigned cases);
void play_large(uint64_t seed, unsigned count);

/* mpi_messages.c: point to point, at random beside a model, and each function by itself. */
void play_messages(uint64_t seed, unsigned rounds);
void part_messages(void);

/* mpi_probes.c */
void part_probes(void);

/* mpi_infos.c */
void use_attributes(void);
void use_infos(void);

/* mpi_late.c */
void part_late(void);

#endif
