/*
 * buffer.c - buffered sends: a message is copied, and its send ends at once.
 *
 * The size of the program's buffer limits the bytes in flight. The copies are in malloc's memory.
 */
#include "plugins/mpi/twmpi.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct {
	pthread_mutex_t lock;
	void *memory; /* the program's buffer; NULL: none */
	uint64_t room, used;
} buffer = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* A message in flight. */
struct copy {
	uint64_t bytes;
	uint8_t data[];
};

static int take_room(uint64_t bytes)
{
	uint64_t with = bytes + MPI_BSEND_OVERHEAD;
	bool fits;

	pthread_mutex_lock(&buffer.lock);
	fits = buffer.memory != NULL && with <= buffer.room - buffer.used;
	if (fits)
		buffer.used += with;
	pthread_mutex_unlock(&buffer.lock);
	if (fits)
		return MPI_SUCCESS;
	return twmpi_fail(MPI_ERR_BUFFER,
			  "the buffer of MPI_Buffer_attach (%llu bytes) has no room for %llu",
			  (unsigned long long)buffer.room, (unsigned long long)with);
}

static void drop_copy(struct copy *copy, uint64_t bytes)
{
	free(copy);
	pthread_mutex_lock(&buffer.lock);
	buffer.used -= bytes + MPI_BSEND_OVERHEAD;
	pthread_mutex_unlock(&buffer.lock);
}

static void end_copy(struct tow_op *op, const struct tow_result *result)
{
	struct copy *copy = result->user;

	(void)op;
	drop_copy(copy, copy->bytes);
}

int twmpi_buffer_send(struct twmpi_comm *comm, const struct twmpi_message *message)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct copy *copy;
	int code = take_room(message->bytes), status;

	if (code != MPI_SUCCESS)
		return code;
	copy = malloc(sizeof(*copy) + message->bytes);
	if (copy == NULL) {
		drop_copy(NULL, message->bytes);
		return twmpi_fail(MPI_ERR_NO_MEM, "there is no memory for a copy");
	}
	copy->bytes = message->bytes;
	if (message->bytes > 0)
		memcpy(copy->data, message->data, message->bytes);
	options.done = end_copy;
	options.user = copy;
	status = tow_group_send_start(comm->group, (uint32_t)message->rank, copy->data,
				      message->bytes, (uint64_t)message->tag, &options, NULL);
	if (status >= 0)
		return MPI_SUCCESS;
	drop_copy(copy, message->bytes);
	return twmpi_failed(status);
}

TWMPI_PUBLIC int MPIABI_Buffer_attach(void *memory, int size)
{
	int code = MPI_SUCCESS;

	pthread_mutex_lock(&buffer.lock);
	if (memory == NULL || size < 0)
		code = twmpi_fail(MPI_ERR_BUFFER, "the buffer is NULL, or its size %d", size);
	else if (buffer.memory != NULL)
		code = twmpi_fail(MPI_ERR_BUFFER, "a buffer is attached already");
	if (code == MPI_SUCCESS) {
		buffer.memory = memory;
		buffer.room = (uint64_t)size;
	}
	pthread_mutex_unlock(&buffer.lock);
	return twmpi_end(NULL, "MPI_Buffer_attach", code);
}

/* Returns when all buffered messages have been sent. */
TWMPI_PUBLIC int MPIABI_Buffer_detach(void *buffer_addr, int *size)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	const struct twmpi_job *job = twmpi_job();
	bool done = false;

	if (job == NULL)
		return twmpi_end(NULL, "MPI_Buffer_detach",
				 twmpi_fail(MPI_ERR_OTHER, "MPI is not initialised, or finalised"));
	while (!done) {
		tow_progress(job->runtime);
		pthread_mutex_lock(&buffer.lock);
		done = buffer.used == 0;
		if (done) {
			*(void **)buffer_addr = buffer.memory;
			*size = (int)buffer.room;
			buffer.memory = NULL;
			buffer.room = 0;
		}
		pthread_mutex_unlock(&buffer.lock);
		if (!done)
			nanosleep(&pause, NULL);
	}
	return MPI_SUCCESS;
}
