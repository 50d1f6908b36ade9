/*
 * loop_pipe.c - a pipe of the loop lane: a bounded ring of bytes, each with the time at which it is
 * due. Each write and read takes the chances of the configuration.
 *
 * Due times never decrease within a pipe: a later write with a shorter delay waits for the earlier
 * one, as on a stream.
 */
#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"
#include "transport/lanes/loop/loop.h"
#include "transport/op/lane_host.h"

uint64_t twi_loop_below(struct twi_loop_lane *lane, uint64_t bound)
{
	return bound == 0 ? 0 : twi_hash_random(&lane->random) % bound;
}

bool twi_loop_chance(struct twi_loop_lane *lane, uint32_t permille)
{
	return permille > 0 && twi_hash_random(&lane->random) % 1000 < permille;
}

uint64_t twi_loop_delay(struct twi_loop_lane *lane)
{
	const struct twi_loop_config *config = &lane->config;

	if (config->delay_max_ns <= config->delay_min_ns)
		return config->delay_min_ns;
	return config->delay_min_ns +
	       twi_loop_below(lane, config->delay_max_ns - config->delay_min_ns);
}

int twi_loop_pipe_init(struct twi_loop_pipe *pipe, uint32_t room)
{
	*pipe = (struct twi_loop_pipe){ .room = room };
	pipe->data = malloc(room);
	return pipe->data != NULL ? TOW_OK
				  : twi_error(TOW_ENOMEM, "no memory for a pipe of %u bytes", room);
}

void twi_loop_pipe_fini(struct twi_loop_pipe *pipe)
{
	free(pipe->data);
	pipe->data = NULL;
}

void twi_loop_pipe_clear(struct twi_loop_pipe *pipe)
{
	pipe->head = pipe->fill = 0;
	pipe->first = pipe->count = 0;
}

void twi_loop_pipe_end(struct twi_loop_lane *lane, struct twi_loop_pipe *pipe)
{
	uint64_t due = twi_engine_now(lane->base.engine) + twi_loop_delay(lane);

	if (pipe->ended)
		return;
	pipe->ended = true;
	pipe->last_due_ns = twi_max(due, pipe->last_due_ns);
}

/* Adds `bytes` that have just been written, due after a delay. */
static void stamp_bytes(struct twi_loop_lane *lane, struct twi_loop_pipe *pipe, uint32_t bytes)
{
	uint64_t due = twi_engine_now(lane->base.engine) + twi_loop_delay(lane);
	struct twi_loop_segment *last =
		&pipe->segments[(pipe->first + pipe->count + TWI_LOOP_SEGMENTS - 1) %
				TWI_LOOP_SEGMENTS];

	pipe->last_due_ns = due = twi_max(due, pipe->last_due_ns);
	if (pipe->count > 0 && last->due_ns == due) {
		last->bytes += bytes;
		return;
	}
	/* When the table is full, its last bytes wait for these: late, but in order. */
	if (pipe->count == TWI_LOOP_SEGMENTS) {
		last->bytes += bytes;
		last->due_ns = due;
		return;
	}
	pipe->segments[(pipe->first + pipe->count++) % TWI_LOOP_SEGMENTS] =
		(struct twi_loop_segment){ .bytes = bytes, .due_ns = due };
}

/* Makes the link dark, or cuts it, at the byte that was drawn for that. */
static void strike_link(struct twi_loop_lane *lane, struct twi_loop_link *link)
{
	if (!link->dark && link->written >= link->dark_at) {
		link->dark = true;
		lane->faults++;
	}
	if (!link->cut && link->written >= link->cut_at) {
		bool lossy = twi_loop_chance(lane, lane->config.lossy);

		link->cut = true;
		lane->faults++;
		for (unsigned i = 0; i < 2; i++) {
			for (unsigned j = 0; j < link->streams; j++) {
				link->pipes[i][j].ended = link->pipes[i][j].sunk = true;
				if (lossy)
					twi_loop_pipe_clear(&link->pipes[i][j]);
			}
		}
	}
}

/* How many of `bytes` the pipe takes now. */
static size_t admit_bytes(struct twi_loop_lane *lane, struct twi_loop_link *link,
			  struct twi_loop_pipe *pipe, size_t bytes)
{
	const struct twi_loop_config *config = &lane->config;
	uint64_t now = twi_engine_now(lane->base.engine);
	uint64_t fate = twi_min(link->dark_at, link->cut_at);

	if (now < pipe->stall_end_ns)
		return 0;
	bytes = twi_min(bytes, (size_t)(pipe->room - pipe->fill));
	if (bytes == 0)
		return 0;
	if (twi_loop_chance(lane, config->stall)) {
		pipe->stall_end_ns = now + 1 + twi_loop_below(lane, config->stall_ns);
		return 0;
	}
	if (twi_loop_chance(lane, config->short_write))
		bytes = 1 + twi_loop_below(lane, bytes);
	if (link->written < fate)
		bytes = twi_min(bytes, fate - link->written);
	return bytes;
}

/* Copies to the end of the ring, in two pieces where it wraps. */
static void append_bytes(struct twi_loop_pipe *pipe, const uint8_t *from, size_t bytes)
{
	while (bytes > 0) {
		uint32_t tail = (pipe->head + pipe->fill) % pipe->room;
		size_t n = twi_min(bytes, (size_t)(pipe->room - tail));

		twi_path_wire(pipe->data + tail, from, n);
		pipe->fill += (uint32_t)n;
		from += n;
		bytes -= n;
	}
}

/* May change a byte of parts[payload_part] in what was just written. */
static void corrupt_payload(struct twi_loop_lane *lane, struct twi_loop_pipe *pipe,
			    const struct iovec *parts, int payload_part, size_t bytes)
{
	size_t before = 0, at;

	for (int i = 0; i < payload_part; i++)
		before += parts[i].iov_len;
	if (payload_part < 0 || bytes <= before || !twi_loop_chance(lane, lane->config.corrupt))
		return;
	at = before + twi_loop_below(lane, twi_min(bytes - before, parts[payload_part].iov_len));
	pipe->data[(pipe->head + pipe->fill - bytes + at) % pipe->room] ^=
		(uint8_t)(1u << twi_loop_below(lane, 8));
	lane->corrupted++;
}

size_t twi_loop_write(struct twi_loop_lane *lane, struct twi_loop_link *link, unsigned side,
		      unsigned stream, const struct iovec *parts, int count, int payload_part)
{
	struct twi_loop_pipe *pipe = &link->pipes[side][stream];
	size_t bytes = 0, left;

	for (int i = 0; i < count; i++)
		bytes += parts[i].iov_len;
	if (link->dark || pipe->sunk)
		return bytes;
	bytes = left = admit_bytes(lane, link, pipe, bytes);
	for (int i = 0; left > 0; i++) {
		size_t n = twi_min(left, parts[i].iov_len);

		append_bytes(pipe, parts[i].iov_base, n);
		left -= n;
	}
	if (bytes > 0) {
		stamp_bytes(lane, pipe, (uint32_t)bytes);
		corrupt_payload(lane, pipe, parts, payload_part, bytes);
	}
	link->written += bytes;
	strike_link(lane, link);
	twi_loop_wire_strike(lane, link, stream, bytes);
	return bytes;
}

size_t twi_loop_readable(struct twi_loop_lane *lane, struct twi_loop_pipe *pipe,
			 const uint8_t **at_out)
{
	uint64_t now = twi_engine_now(lane->base.engine);
	size_t due = 0;

	for (uint32_t i = 0; i < pipe->count; i++) {
		const struct twi_loop_segment *segment =
			&pipe->segments[(pipe->first + i) % TWI_LOOP_SEGMENTS];

		if (segment->due_ns > now)
			break;
		due += segment->bytes;
	}
	due = twi_min(due, (size_t)(pipe->room - pipe->head));
	if (due > 0 && twi_loop_chance(lane, lane->config.short_read))
		due = 1 + twi_loop_below(lane, due);
	*at_out = pipe->data + pipe->head;
	return due;
}

void twi_loop_taken(struct twi_loop_pipe *pipe, size_t bytes)
{
	pipe->head = (pipe->head + (uint32_t)bytes) % pipe->room;
	pipe->fill -= (uint32_t)bytes;
	while (bytes > 0) {
		struct twi_loop_segment *segment = &pipe->segments[pipe->first];
		uint32_t n = (uint32_t)twi_min(bytes, (size_t)segment->bytes);

		segment->bytes -= n;
		bytes -= n;
		if (segment->bytes > 0)
			return;
		pipe->first = (pipe->first + 1) % TWI_LOOP_SEGMENTS;
		pipe->count--;
	}
}

bool twi_loop_pipe_over(const struct twi_loop_pipe *pipe, uint64_t now_ns)
{
	return pipe->ended && pipe->count == 0 && now_ns >= pipe->last_due_ns;
}

uint64_t twi_loop_pipe_due(const struct twi_loop_pipe *pipe)
{
	if (pipe->count > 0)
		return pipe->segments[pipe->first].due_ns;
	return pipe->ended ? pipe->last_due_ns : UINT64_MAX;
}
