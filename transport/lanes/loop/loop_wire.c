/*
 * loop_wire.c - breaks: a stream of a link loses its connection and gets another.
 *
 *	side 0   sends its record -----.  .------ side 1  sends its record
 *	         reads side 1's    <----\/----->          reads side 0's
 *	         is up                                    is up
 *
 * Each step has its own time, so that the other streams move on between a record and its reading.
 * What lay in the pipes is lost, except for a part that a reader may have read before it noticed.
 */
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/loop/loop.h"

void twi_loop_wire_draw(struct twi_loop_lane *lane, struct twi_loop_wire *wire)
{
	uint64_t bytes = lane->config.break_bytes;

	wire->break_at = bytes == 0 || wire->breaks >= TWI_LOOP_BREAKS_MAX
				 ? UINT64_MAX
				 : wire->written + 1 + twi_loop_below(lane, bytes);
}

static bool both_open(const struct twi_loop_link *link)
{
	return link->sides[0] != NULL && link->sides[1] != NULL && !link->sides[0]->base.closed &&
	       !link->sides[1]->base.closed;
}

/* A side that has gone or closes opens nothing again, so its link does not break. */
void twi_loop_wire_strike(struct twi_loop_lane *lane, struct twi_loop_link *link, unsigned stream,
			  size_t bytes)
{
	struct twi_loop_wire *wire = &link->wires[stream];

	wire->written += bytes;
	if (wire->written < wire->break_at || wire->broken || link->cut || link->dark ||
	    !both_open(link))
		return;
	wire->struck = true;
	twi_loop_activate(lane, link);
}

bool twi_loop_wire_up(const struct twi_loop_link *link, unsigned stream, unsigned side)
{
	const struct twi_loop_wire *wire = &link->wires[stream];

	return !wire->broken || wire->ends[side].up;
}

static uint64_t later_ns(struct twi_loop_lane *lane)
{
	return twi_engine_now(lane->base.engine) + twi_loop_below(lane, lane->config.reopen_ns);
}

static int break_side(struct twi_loop_lane *lane, struct twi_loop_link *link, unsigned stream,
		      unsigned side)
{
	struct twi_session *session = &link->sides[side]->session;
	unsigned events = 0;
	int status = TOW_OK;

	if (twi_loop_chance(lane, 500))
		status = twi_loop_read(lane, link->sides[side], stream, &events);
	/* A connection that has gone reports no late write any more. */
	link->sides[side]->late[stream].pending = false;
	if (stream == TWI_LOOP_CONTROL)
		twi_session_control_broken(session);
	else
		twi_session_bulk_broken(session, stream - TWI_LOOP_BULK);
	return status;
}

static void notice_break(struct twi_loop_lane *lane, struct twi_loop_link *link, unsigned stream)
{
	struct twi_loop_wire *wire = &link->wires[stream];

	wire->struck = false;
	if (!both_open(link))
		return;
	lane->breaks++;
	wire->breaks++;
	for (unsigned side = 0; side < 2 && link->sides[side] != NULL; side++) {
		int status = break_side(lane, link, stream, side);

		if (status < 0)
			twi_loop_protocol_error(lane, link->sides[side], status);
	}
	wire->broken = true;
	for (unsigned side = 0; side < 2; side++) {
		twi_loop_pipe_clear(&link->pipes[side][stream]);
		wire->ends[side].said = wire->ends[side].up = false;
		wire->ends[side].due_ns = later_ns(lane);
		if (link->sides[side] != NULL)
			link->sides[side]->blocked[stream] = false;
	}
}

static void put_record(struct twi_loop_link *link, unsigned stream, unsigned side)
{
	struct twi_session *session = &link->sides[side]->session;
	struct twi_loop_end *end = &link->wires[stream].ends[side];

	end->said = true;
	end->bytes =
		stream == TWI_LOOP_CONTROL
			? twi_session_control_resume_put(session, end->record)
			: twi_session_bulk_resume_put(session, stream - TWI_LOOP_BULK, end->record);
}

/* Reads the other side's record in two pieces, as a record may be cut anywhere. */
static int read_record(struct twi_loop_lane *lane, struct twi_loop_link *link, unsigned stream,
		       unsigned side)
{
	struct twi_session *session = &link->sides[side]->session;
	const struct twi_loop_end *from = &link->wires[stream].ends[1 - side];
	size_t piece = twi_loop_below(lane, from->bytes), used = 0;
	unsigned c = stream - TWI_LOOP_BULK;
	int status = stream == TWI_LOOP_CONTROL
			     ? twi_session_control_resume(session, from->record, piece, &used)
			     : twi_session_bulk_resume(session, c, from->record, piece, &used);

	if (status == TOW_AGAIN)
		status = stream == TWI_LOOP_CONTROL
				 ? twi_session_control_resume(session, from->record, from->bytes,
							      &used)
				 : twi_session_bulk_resume(session, c, from->record, from->bytes,
							   &used);
	twi_assert(status != TOW_OK || used == from->bytes);
	return status;
}

static unsigned step_side(struct twi_loop_lane *lane, struct twi_loop_link *link, unsigned stream,
			  unsigned side)
{
	struct twi_loop_wire *wire = &link->wires[stream];
	struct twi_loop_end *end = &wire->ends[side];
	int status;

	if (link->sides[side] == NULL || end->up || end->due_ns > twi_engine_now(lane->base.engine))
		return 0;
	if (!end->said) {
		put_record(link, stream, side);
		end->due_ns = later_ns(lane);
		return 1;
	}
	if (!wire->ends[1 - side].said)
		return 0;
	status = read_record(lane, link, stream, side);
	if (status < 0) {
		twi_loop_protocol_error(lane, link->sides[side], status);
		return 1;
	}
	end->up = true;
	if (wire->ends[1 - side].up) {
		wire->broken = false;
		twi_loop_wire_draw(lane, wire);
	}
	return 1;
}

unsigned twi_loop_wires_move(struct twi_loop_lane *lane, struct twi_loop_link *link)
{
	unsigned events = 0;

	for (unsigned i = 0; i < link->streams; i++) {
		if (twi_unlikely(link->wires[i].struck)) {
			notice_break(lane, link, i);
			events++;
		}
		for (unsigned side = 0; side < 2 && link->wires[i].broken && !link->dark; side++)
			events += step_side(lane, link, i, side);
	}
	return events;
}

uint64_t twi_loop_wire_due(const struct twi_loop_link *link, unsigned stream, unsigned side)
{
	const struct twi_loop_wire *wire = &link->wires[stream];
	const struct twi_loop_end *end = &wire->ends[side];

	if (wire->struck)
		return 0;
	if (!wire->broken || end->up || link->dark || (end->said && !wire->ends[1 - side].said))
		return UINT64_MAX;
	return end->due_ns;
}
