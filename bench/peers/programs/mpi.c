/*
 * mpi.c - any MPI: messages between ranks 0 and 1, and collectives of all ranks.
 *
 *	mpirun -np RANKS peer-mpi.WHICH [OP...]
 *
 * OP is one of lat, bw, bw_spread, rate, allreduce, allgather, reduce_scatter, alltoall, bcast,
 * reduce, gather, scatter.
 */
#include "bench/peers/programs/mpi.h"

#include <mpi.h>
#include <stdlib.h>

#define TAG_ECHO    1
#define TAG_STREAM  2
#define TAG_ANSWER  3
#define RATE_WINDOW 256u
#define RATE_ROUNDS 1500u
#define ROUNDS_MOST 2000u

struct mpi_place mpi_place;

static void send_bytes(const void *data, uint64_t bytes, int to, int tag)
{
	MPI_Send(data, (int)bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

static void receive_bytes(void *data, uint64_t bytes, int from, int tag)
{
	MPI_Recv(data, (int)bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void time_echoes(uint64_t bytes)
{
	unsigned count = peer_iters(bytes), warm = count / 10;
	double *each = peer_memory(count * sizeof(*each));
	char *memory = peer_memory(bytes);

	MPI_Barrier(MPI_COMM_WORLD);
	for (unsigned i = 0; i < count + warm; i++) {
		double begin_s = peer_now_s();

		if (mpi_place.rank == 0) {
			send_bytes(memory, bytes, 1, TAG_ECHO);
			receive_bytes(memory, bytes, 1, TAG_ECHO);
		} else if (mpi_place.rank == 1) {
			receive_bytes(memory, bytes, 0, TAG_ECHO);
			send_bytes(memory, bytes, 0, TAG_ECHO);
		}
		if (i >= warm)
			each[i - warm] = (peer_now_s() - begin_s) / 2;
	}
	if (mpi_place.rank == 0)
		peer_print_latency(bytes, each, count);
	free(memory);
	free(each);
}

/* The buffers that a stream walks over. */
struct walk {
	char *memory;
	uint64_t bytes;
	unsigned slots, next;
};

static void move_window(struct walk *walk, unsigned window)
{
	MPI_Request requests[RATE_WINDOW];
	char answer = 0;

	if (mpi_place.rank > 1)
		return;
	for (unsigned i = 0; i < window; i++) {
		char *at = walk->memory + walk->bytes * walk->next;

		walk->next = (walk->next + 1) % walk->slots;
		if (mpi_place.rank == 0)
			MPI_Isend(at, (int)walk->bytes, MPI_BYTE, 1, TAG_STREAM, MPI_COMM_WORLD,
				  &requests[i]);
		else
			MPI_Irecv(at, (int)walk->bytes, MPI_BYTE, 0, TAG_STREAM, MPI_COMM_WORLD,
				  &requests[i]);
	}
	MPI_Waitall((int)window, requests, MPI_STATUSES_IGNORE);
	if (mpi_place.rank == 0)
		receive_bytes(&answer, 1, 1, TAG_ANSWER);
	else
		send_bytes(&answer, 1, 0, TAG_ANSWER);
}

/* Measures one way: a window of messages, then an answer of one byte, repeatedly. */
static void time_stream(enum peer_op op, uint64_t bytes)
{
	bool rate = op == PEER_RATE;
	unsigned window = rate ? RATE_WINDOW : peer_window(bytes);
	unsigned rounds = rate ? RATE_ROUNDS : peer_windows(bytes, window, ROUNDS_MOST);
	unsigned warm = rounds / 10 + 1;
	struct walk walk = { .bytes = bytes, .slots = peer_slots(bytes, op == PEER_BW_SPREAD) };
	double begin_s = 0, used_s = 0, all_s = 0;

	walk.memory = peer_memory(bytes * walk.slots);
	MPI_Barrier(MPI_COMM_WORLD);
	for (unsigned round = 0; round < rounds + warm; round++) {
		if (round == warm) {
			begin_s = peer_now_s();
			used_s = peer_cpu_s();
		}
		move_window(&walk, window);
	}
	begin_s = peer_now_s() - begin_s;
	used_s = peer_cpu_s() - used_s;
	MPI_Reduce(&used_s, &all_s, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (mpi_place.rank == 0)
		peer_print_stream(op, bytes, (uint64_t)window * rounds, begin_s, all_s);
	free(walk.memory);
}

static void time_all(void)
{
	const struct peer_settings *settings = &peer_settings;

	for (unsigned i = 0; (settings->ops & PEER_LAT) != 0 && i < settings->lat.count; i++)
		time_echoes(settings->lat.bytes[i]);
	for (enum peer_op op = PEER_BW; op <= PEER_BW_SPREAD; op <<= 1)
		for (unsigned i = 0; (settings->ops & op) != 0 && i < settings->bw.count; i++)
			time_stream(op, settings->bw.bytes[i]);
	if ((settings->ops & PEER_RATE) != 0)
		time_stream(PEER_RATE, PEER_RATE_BYTES);
	for (int coll = 0; coll < PEER_COLLS; coll++) {
		const struct bench_sizes *sizes = &settings->coll[coll];

		for (unsigned i = 0; (settings->colls >> coll & 1) != 0 && i < sizes->count; i++)
			mpi_time_coll(coll, sizes->bytes[i]);
	}
}

int main(int argc, char **argv)
{
	/* Before MPI_Init, so that the library's threads are pinned too. */
	const char *rank = bench_env("OMPI_COMM_WORLD_RANK", bench_env("PMI_RANK", "0"));

	peer_begin(atoi(rank), argc - 1, argv + 1, PEER_COLLS);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &mpi_place.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &mpi_place.ranks);
	if (mpi_place.ranks < 2)
		peer_end(2, "MPI has started one rank; at least two are needed");
	time_all();
	MPI_Finalize();
	return 0;
}
