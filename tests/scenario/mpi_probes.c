/*
 * mpi_probes.c - probes: how one waits, and several threads that take messages by them.
 */
#include "mpi_program.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define TAKERS 4
#define EACH   2000
#define LAST   EACH /* tag of the message that ends a thread */

static MPIABI_Comm comm;
static _Atomic int taken[8][EACH];

static long waits_so_far(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A probe sleeps: it wakes for what comes, and each millisecond at most. */
static void probe_sleeps(void)
{
	int word = 5, last = world_size - 1;
	long waits, began;

	CALL(MPIABI_Barrier(MPI_COMM_WORLD));
	if (world_rank == last) {
		sleep(1);
		CALL(MPIABI_Send(&word, 1, MPI_INT, 0, 31, MPI_COMM_WORLD));
	}
	if (world_rank == 0) {
		waits = waits_so_far();
		began = now_ms();
		CALL(MPIABI_Probe(last, 31, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		waits = waits_so_far() - waits;
		printf("a probe of %ld ms has slept %ld times\n", now_ms() - began, waits);
		expect(waits < now_ms() - began + 200);
		CALL(MPIABI_Recv(&word, 1, MPI_INT, last, 31, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	}
}

static void receive_taken(MPIABI_Message *message, MPIABI_Status *status, int *tag)
{
	int room[64], count;

	CALL(MPIABI_Get_count(status, MPI_INT, &count));
	*tag = status->MPI_TAG;
	CALL(MPIABI_Mrecv(room, count, MPI_INT, message, status));
	expect(*message == MPI_MESSAGE_NULL && status->MPI_TAG == *tag);
	if (*tag == LAST)
		return;
	expect(count == 1 + *tag % 60 && room[0] == *tag && room[count - 1] == *tag);
	taken[status->MPI_SOURCE][*tag]++;
}

/* Each message has a tag of its own: who waits for one that another has taken waits for ever. */
static void *take_messages(void *arg)
{
	bool always_tries = *(bool *)arg;
	int tag = 0;

	for (int turn = 0; tag != LAST; turn++) {
		MPIABI_Message message;
		MPIABI_Status status;
		int flag = 0;

		while (!flag && (always_tries || turn % 2 == 0)) {
			CALL(MPIABI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &message,
					    &status));
			expect(flag || message == MPI_MESSAGE_NULL);
			if (!flag)
				sched_yield();
		}
		if (!flag)
			CALL(MPIABI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, &status));
		receive_taken(&message, &status, &tag);
	}
	return NULL;
}

static void threads_take(void)
{
	static bool tries[TAKERS] = { true, true, true, false };
	pthread_t threads[TAKERS];
	int room[64];

	CALL(MPIABI_Comm_dup(MPI_COMM_WORLD, &comm));
	for (int i = 0; i < TAKERS; i++)
		expect(pthread_create(&threads[i], NULL, take_messages, &tries[i]) == 0);
	for (int tag = 0; tag < EACH; tag++)
		for (int rank = 0; rank < world_size; rank++) {
			for (int i = 0; i < 64; i++)
				room[i] = tag;
			CALL(MPIABI_Send(room, 1 + tag % 60, MPI_INT, rank, tag, comm));
		}
	/* A synchronous send has ended when its message was taken, and so are those before it. */
	for (int rank = 0; rank < world_size; rank++)
		CALL(MPIABI_Ssend(room, 1 + (EACH - 1) % 60, MPI_INT, rank, EACH - 1, comm));
	CALL(MPIABI_Barrier(comm));
	for (int i = 0; i < TAKERS; i++)
		CALL(MPIABI_Send(room, 0, MPI_INT, world_rank, LAST, comm));
	for (int i = 0; i < TAKERS; i++)
		pthread_join(threads[i], NULL);
	for (int rank = 0; rank < world_size; rank++)
		for (int tag = 0; tag < EACH; tag++)
			expect(taken[rank][tag] == 1 + (tag == EACH - 1));
	CALL(MPIABI_Comm_free(&comm));
}

void part_probes(void)
{
	if (world_size > 1)
		probe_sleeps();
	threads_take();
}
