/* lab_input.c - what a step reads before it computes: a file, or what somebody else gives. */
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_STEPS 16 /* of input that a file has, from whose beginning it is then read again */

static size_t input_bytes(const struct lab *lab)
{
	return (size_t)lab->input_kib << 10;
}

/* Gives a step's input through a pipe; slower where this rank has the fault. */
static void *feed(void *arg)
{
	const struct lab *lab = ((void **)arg)[0];
	int fd = (int)(intptr_t)((void **)arg)[1];
	size_t bytes = input_bytes(lab);
	char *block = calloc(1, bytes);

	free(arg);
	while (block != NULL && !lab_stops(lab)) {
		size_t at = 0;

		lab_sleep(lab_has(lab, "feed") ? lab->ms * 1000 : 0);
		while (at < bytes) {
			ssize_t n = write(fd, block + at, bytes - at);

			if (n <= 0)
				break;
			at += (size_t)n;
		}
	}
	free(block);
	return NULL;
}

static int open_pipe(struct lab *lab)
{
	void **arg = malloc(2 * sizeof(*arg));
	pthread_t thread;
	int ends[2];

	if (arg == NULL || pipe2(ends, O_CLOEXEC) != 0) {
		free(arg);
		return TOW_ESYSTEM;
	}
	arg[0] = lab;
	arg[1] = (void *)(intptr_t)ends[1];
	lab->input_fd = ends[0];
	return pthread_create(&thread, NULL, feed, arg) == 0 ? TOW_OK : TOW_ESYSTEM;
}

static int open_file(struct lab *lab)
{
	char path[600];

	snprintf(path, sizeof(path), "%s.input%d", lab->page_path, lab->me);
	lab->input_fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	for (int i = 0; lab->input_fd >= 0 && i < FILE_STEPS; i++) {
		memset(lab->input, i, input_bytes(lab));
		if (write(lab->input_fd, lab->input, input_bytes(lab)) != (ssize_t)input_bytes(lab))
			return TOW_ESYSTEM;
	}
	/* What is dirty stays in the page cache, whatever is asked later. */
	return lab->input_fd >= 0 && fsync(lab->input_fd) == 0 ? TOW_OK : TOW_ESYSTEM;
}

int lab_input_open(struct lab *lab)
{
	lab->input = malloc(input_bytes(lab));
	if (lab->input == NULL)
		return TOW_ENOMEM;
	return lab->pipe != 0 ? open_pipe(lab) : open_file(lab);
}

int lab_input_read(struct lab *lab)
{
	size_t at = 0, bytes = input_bytes(lab);
	ssize_t n = 1;

	if (lab_has(lab, "cold"))
		posix_fadvise(lab->input_fd, 0, 0, POSIX_FADV_DONTNEED);
	while (n > 0 && at < bytes) {
		n = read(lab->input_fd, lab->input + at, bytes - at);
		if (n > 0)
			at += (size_t)n;
		else if (n == 0 && lab->pipe == 0 && lseek(lab->input_fd, 0, SEEK_SET) == 0)
			n = 1;
	}
	return at == bytes ? TOW_OK : TOW_ESYSTEM;
}
