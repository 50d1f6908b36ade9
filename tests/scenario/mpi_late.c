/*
 * mpi_late.c - a rank that comes late, while others ask towstat why they wait.
 *
 * Environment: TWT_TOWSTAT is the program to ask; TWT_ASKED a file that is made when it has
 * answered.
 */
#include "mpi_program.h"

#include <pthread.h>
#include <unistd.h>

static void *ask_towstat(void *arg)
{
	const char *towstat = getenv("TWT_TOWSTAT"), *asked = getenv("TWT_ASKED");
	static const char *const questions[] = { "list", "verdict", "why", "get coll" };
	char line[512];

	(void)arg;
	sleep(4); /* the wait for one message counts from 3 s on */
	for (size_t i = 0; towstat != NULL && i < sizeof(questions) / sizeof(*questions); i++) {
		snprintf(line, sizeof(line), "%s %s 2>&1", towstat, questions[i]);
		printf("%s: status %d\n", questions[i], WEXITSTATUS(system(line)));
	}
	snprintf(line, sizeof(line), "touch %s", asked != NULL ? asked : "/nowhere");
	expect(system(line) == 0);
	return NULL;
}

/* The last rank comes late, when the first has asked towstat why it waits; the second waits for a
 * message of it. */
void part_late(void)
{
	const char *asked = getenv("TWT_ASKED");
	int sum = 0, word = 0, last = world_size - 1;
	MPIABI_Comm comm, named;
	pthread_t thread;

	CALL(MPIABI_Comm_split(MPI_COMM_WORLD, 5, 0, &comm));
	CALL(MPIABI_Comm_dup(comm, &named));
	CALL(MPIABI_Comm_set_name(named, "data\tparallel"));
	CALL(MPIABI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, comm));
	CALL(MPIABI_Barrier(named));
	if (world_rank == 0)
		expect(pthread_create(&thread, NULL, ask_towstat, NULL) == 0);
	for (int i = 0; world_rank == last && i < 600 && access(asked, F_OK) != 0; i++)
		usleep(100000);
	if (world_rank == last)
		CALL(MPIABI_Send(&last, 1, MPI_INT, 1, 17, named));
	if (world_rank == 1)
		CALL(MPIABI_Recv(&word, 1, MPI_INT, last, 17, named, MPI_STATUS_IGNORE));
	CALL(MPIABI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, named));
	expect(sum == last * world_size / 2 && (world_rank != 1 || word == last));
	if (world_rank == 0)
		pthread_join(thread, NULL);
}
