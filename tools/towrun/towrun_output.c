/*
 * towrun_output.c - prints the output of ranks line by line, with "[3] " before each line, so that
 * lines of two ranks never mix. Memory is bounded: a line, and one read of each stream.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/towrun/towrun.h"

static void put_bytes(struct output *output, const char *bytes, size_t count)
{
	if (output->broken)
		return;
	if (output->room - output->used < count) {
		size_t room = (output->used + count) * 2;
		char *more = realloc(output->bytes, room);

		if (more == NULL) {
			output->broken = true;
			return;
		}
		output->bytes = more;
		output->room = room;
	}
	memcpy(output->bytes + output->used, bytes, count);
	output->used += count;
}

static void put_line(struct stream *stream, long rank, struct output *output)
{
	char prefix[24];
	int length = snprintf(prefix, sizeof(prefix), "[%ld] ", rank);

	put_bytes(output, prefix, (size_t)length);
	put_bytes(output, stream->line, stream->used);
	put_bytes(output, "\n", 1);
	stream->used = 0;
}

int stream_read(struct stream *stream, long rank, struct output *output)
{
	char bytes[CHUNK];
	ssize_t got = read(stream->fd, bytes, sizeof(bytes));

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got <= 0)
		return -1;
	for (ssize_t i = 0; i < got; i++) {
		if (bytes[i] == '\n') {
			put_line(stream, rank, output);
			continue;
		}
		if (stream->used == sizeof(stream->line))
			put_line(stream, rank, output);
		stream->line[stream->used++] = bytes[i];
	}
	return 1;
}

void stream_end(struct stream *stream, long rank, struct output *output)
{
	if (stream->fd < 0)
		return;
	close(stream->fd);
	stream->fd = -1;
	if (stream->used > 0) /* the last line has no newline */
		put_line(stream, rank, output);
}

bool output_empty(const struct output *output)
{
	return output->at == output->used;
}

void output_write(struct output *output)
{
	size_t count = output->used - output->at;
	ssize_t written;

	if (count == 0)
		return;
	if (count > CHUNK)
		count = CHUNK;
	written = write(output->fd, output->bytes + output->at, count);
	if (written < 0 && errno != EAGAIN && errno != EINTR)
		output->broken = true;
	if (written > 0)
		output->at += (size_t)written;
	if (output->broken || output->at == output->used)
		output->at = output->used = 0;
}
