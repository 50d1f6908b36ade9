/*
 * mpi.h - the program for Open MPI and MPICH: one source, two builds.
 */
#ifndef PEER_MPI_H
#define PEER_MPI_H

#include "bench/peers/programs/peer.h"

/* The rank of this process, and the number of ranks. */
struct mpi_place {
	int rank, ranks;
};

extern struct mpi_place mpi_place;

/* Times one collective of that size and prints it at rank 0. */
void mpi_time_coll(enum peer_coll coll, uint64_t bytes);

#endif
