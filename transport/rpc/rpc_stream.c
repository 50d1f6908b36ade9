/*
 * rpc_stream.c - the pieces of a call, in both directions.
 *
 *	pushes (waiting) -> push[0], push[1] (on their way) ---> chunks (come, in order) <- pulls
 *
 * A small piece stays in the inbox's slot until it is pulled. A large one stays with its writer,
 * and is fetched into the memory of the pull. At most TWI_RPC_CHUNKS pieces may be untaken; WINDOW
 * says how many were taken since the start. Two pieces are on their way at once, so the header of
 * the next one travels while the body of a large one does.
 */
#include <string.h>

#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/op/own_memory.h"
#include "transport/op/path.h"
#include "transport/rpc/rpc.h"
#include "transport/rpc/rpc_records.h"

/* Ends the call, because its stream cannot go on. */
void twi_stream_break_call(struct tow_stream *stream, int status)
{
	twi_assert_held(stream->rpc->engine);
	if (stream->call != NULL)
		twi_call_end(stream->call, status, true);
	else
		twi_serve_break(stream->in, status);
	twi_stream_fail(stream, status); /* in case the call had ended before */
}

void twi_stream_settle_owner(struct tow_stream *stream)
{
	twi_assert_held(stream->rpc->engine);
	if (stream->call != NULL)
		twi_call_settle(stream->call);
	else
		twi_serve_settle(stream->in);
}

static void on_pushed(struct twi_parcel *parcel)
{
	struct twi_push *push = twi_container_of(parcel, struct twi_push, parcel);
	struct tow_stream *stream = parcel->owner;
	struct tow_op *op = push->op;
	int status = parcel->status;

	if (status < 0 && push->over != 0)
		status = push->over;
	push->over = 0;
	push->busy = false;
	push->op = NULL;
	if (op != NULL)
		twi_op_complete(op, status, status < 0 ? 0 : op->bytes);
	/* TOW_ETRUNCATED, TOW_ECANCELED: the reader has dropped the piece. Either it was too long,
	 * which only its pull reports, or the reader ends the call, and says why. */
	if (status < 0 && status != TOW_ETRUNCATED && status != TOW_ECANCELED &&
	    stream->failed == 0 && !stream->closed)
		twi_stream_break_call(stream, status);
	twi_stream_pump_out(stream);
	twi_stream_settle_owner(stream);
}

static void on_window_sent(struct twi_parcel *parcel)
{
	struct tow_stream *stream = parcel->owner;

	twi_stream_pump_in(stream);
	twi_stream_settle_owner(stream);
}

struct tow_stream *twi_stream_acquire(struct twi_rpc_peer *rp, uint64_t id, struct twi_call *call,
				      struct tow_call_in *in)
{
	struct twi_list *entry = twi_list_first(&rp->rpc->streams);
	struct tow_stream *stream;

	twi_assert_held(rp->engine);
	if (entry == NULL)
		return NULL;
	stream = twi_container_of(entry, struct tow_stream, link);
	twi_list_remove(entry);
	stream->rp = rp;
	rp->holds++;
	stream->id = id;
	stream->call = call;
	stream->in = in;
	stream->failed = 0;
	stream->closed = stream->ending = stream->end_sent = stream->ended = false;
	stream->sent = stream->taken_there = stream->taken = stream->reported = 0;
	stream->chunk_head = stream->chunk_count = 0;
	twi_list_init(&stream->pushes);
	twi_list_init(&stream->pulls);
	for (unsigned i = 0; i < TWI_RPC_PARCELS; i++) {
		stream->push[i].op = NULL;
		stream->push[i].busy = false;
		stream->push[i].parcel.done = on_pushed;
		stream->push[i].parcel.owner = stream;
	}
	stream->window.done = on_window_sent;
	stream->window.owner = stream;
	return stream;
}

static uint8_t direction_of(const struct tow_stream *stream)
{
	return stream->call != NULL ? TWI_RPC_TO_SERVER : 0;
}

static struct twi_push *free_push(struct tow_stream *stream)
{
	for (unsigned i = 0; i < TWI_RPC_PARCELS; i++) {
		if (!stream->push[i].busy)
			return &stream->push[i];
	}
	return NULL;
}

/* Sends a piece, or the end of the stream. */
static void send_push(struct tow_stream *stream, struct twi_push *push, struct tow_op *op)
{
	struct twi_rpc_head head = { .type = TWI_RPC_CHUNK,
				     .flags = direction_of(stream) | (op == NULL ? TWI_RPC_END : 0),
				     .id = stream->id };
	int status;

	push->op = op;
	push->busy = true;
	push->parcel.lent = op != NULL && op->lent;
	status = twi_parcel_send(&push->parcel, stream->rp, &head, op == NULL ? NULL : op->data,
				 op == NULL ? 0 : op->bytes, op == NULL ? TWI_SITE_NONE : op->site);
	if (status == TOW_OK)
		return;
	push->busy = false;
	push->op = NULL;
	if (op != NULL)
		twi_op_complete(op, status, 0);
}

/* A client's pieces follow its request, so they wait until it has been sent. */
static bool may_send(const struct tow_stream *stream)
{
	return stream->failed == 0 && !stream->closed &&
	       (stream->call == NULL || stream->call->state != TWI_CALL_QUEUED);
}

void twi_stream_pump_out(struct tow_stream *stream)
{
	struct twi_push *push;

	twi_assert_held(stream->rpc->engine);
	while (may_send(stream) && (push = free_push(stream)) != NULL) {
		struct twi_list *entry = twi_list_first(&stream->pushes);

		if (entry != NULL) {
			if (stream->sent - stream->taken_there >= TWI_RPC_CHUNKS)
				return;
			twi_list_remove(entry);
			stream->sent++;
			send_push(stream, push, twi_container_of(entry, struct tow_op, link));
		} else if (stream->ending && !stream->end_sent) {
			stream->end_sent = true;
			send_push(stream, push, NULL);
		} else {
			break;
		}
	}
	if (twi_stream_drained(stream) && stream->in != NULL)
		twi_serve_drained(stream->in);
}

bool twi_stream_drained(const struct tow_stream *stream)
{
	twi_assert_held(stream->rpc->engine);
	return twi_list_empty(&stream->pushes);
}

static struct twi_chunk *chunk_at(struct tow_stream *stream, unsigned index)
{
	return &stream->chunks[(stream->chunk_head + index) % TWI_RPC_CHUNKS];
}

static void free_inline(struct twi_chunk *chunk)
{
	if (chunk->slot != NULL)
		twi_rpc_slot_release(chunk->slot);
	if (chunk->memory != NULL)
		twi_own_give(chunk->stream->rp->engine, chunk->memory);
	chunk->slot = NULL;
	chunk->memory = NULL;
}

/* Removes taken pieces from the head of the queue, and sends a WINDOW now and then. */
static void retire_chunks(struct tow_stream *stream)
{
	struct twi_rpc_head head = { .type = TWI_RPC_WINDOW,
				     .flags = direction_of(stream),
				     .id = stream->id };

	while (stream->chunk_count > 0 && chunk_at(stream, 0)->state == TWI_CHUNK_TAKEN) {
		stream->chunk_head = (stream->chunk_head + 1) % TWI_RPC_CHUNKS;
		stream->chunk_count--;
		stream->taken++;
	}
	if (stream->failed == 0 && !stream->ended && !stream->closed &&
	    stream->taken - stream->reported >= TWI_RPC_CHUNKS / 4 &&
	    !twi_parcel_busy(&stream->window)) {
		head.a = stream->reported = stream->taken;
		twi_parcel_send(&stream->window, stream->rp, &head, NULL, 0, TWI_SITE_NONE);
	}
}

static void give_slot_back(struct tow_op *op)
{
	twi_rpc_slot_release(op->view_state);
}

static void give_memory_back(struct tow_op *op)
{
	twi_own_give(op->engine, op->view_state);
}

/* Gives a piece that is here to its pull. */
static void hand_over(struct twi_chunk *chunk, struct tow_op *op)
{
	void *data = chunk->slot != NULL ? chunk->slot->data + TWI_RPC_HEAD_BYTES : chunk->memory;
	int status = TOW_OK;

	if (op->view) {
		op->data = data;
		op->view_state = chunk->slot != NULL ? (void *)chunk->slot : chunk->memory;
		op->view_release = chunk->slot != NULL ? give_slot_back : give_memory_back;
		chunk->slot = NULL;
		chunk->memory = NULL;
	} else if (chunk->bytes <= op->bytes) {
		twi_path_copy_eager(op->engine, op->data, data, chunk->bytes);
	} else {
		status = TOW_ETRUNCATED;
	}
	free_inline(chunk);
	chunk->state = TWI_CHUNK_TAKEN;
	twi_op_complete(op, status, chunk->bytes);
}

static void on_fetched(struct tow_op *io_op, const struct tow_result *result)
{
	struct twi_chunk *chunk = io_op->user;
	struct tow_stream *stream = chunk->stream;
	struct tow_op *op = chunk->op;
	bool wrong = result->status >= 0 && result->bytes != chunk->bytes;
	int status = wrong ? TOW_EPROTOCOL : result->status;

	if (status < 0 && stream->failed != 0)
		status = stream->failed;
	chunk->io.busy = false;
	chunk->op = NULL;
	chunk->state = TWI_CHUNK_TAKEN;
	if (op != NULL && op->view && result->status >= 0)
		twi_view_pass(op, io_op);
	twi_view_drop(io_op);
	if (op != NULL)
		twi_op_complete(op, status, result->bytes);
	if (stream->failed == 0 &&
	    (wrong || (status < 0 && op != NULL && status != TOW_ETRUNCATED)))
		twi_stream_break_call(stream, status);
	twi_stream_pump_in(stream);
	twi_stream_settle_owner(stream);
}

static void fetch_chunk(struct twi_chunk *chunk, struct tow_op *op)
{
	struct tow_stream *stream = chunk->stream;
	const struct twi_message message = { .kind = TWI_OP_RECV,
					     .view = op->view,
					     .space = TWI_SPACE_RPC,
					     .data = op->data,
					     .bytes = op->view ? chunk->bytes : op->bytes,
					     .tag = chunk->tag,
					     .site = op->site };
	int status;

	chunk->state = TWI_CHUNK_MOVING;
	chunk->op = op;
	status = twi_rpc_io_start(&chunk->io, stream->rp->peer, &message, on_fetched, chunk);
	if (status == TOW_OK)
		return;
	chunk->op = NULL;
	chunk->state = TWI_CHUNK_TAKEN;
	twi_op_complete(op, status, 0);
}

/* Pairs the pieces that have come with the pulls that wait. */
void twi_stream_pump_in(struct tow_stream *stream)
{
	unsigned index = 0;

	twi_assert_held(stream->rpc->engine);
	retire_chunks(stream);
	while (index < stream->chunk_count && !twi_list_empty(&stream->pulls)) {
		struct twi_chunk *chunk = chunk_at(stream, index++);
		struct twi_list *entry = twi_list_first(&stream->pulls);

		if (chunk->state != TWI_CHUNK_READY && chunk->state != TWI_CHUNK_OFFERED)
			continue;
		twi_list_remove(entry);
		if (chunk->state == TWI_CHUNK_READY)
			hand_over(chunk, twi_container_of(entry, struct tow_op, link));
		else
			fetch_chunk(chunk, twi_container_of(entry, struct tow_op, link));
	}
	retire_chunks(stream);
	for (index = 0; index < stream->chunk_count; index++) {
		if (chunk_at(stream, index)->state < TWI_CHUNK_MOVING)
			return;
	}
	while (stream->ended && !twi_list_empty(&stream->pulls)) {
		struct twi_list *entry = twi_list_first(&stream->pulls);

		twi_list_remove(entry);
		twi_op_complete(twi_container_of(entry, struct tow_op, link), TOW_OK, 0);
	}
}

static struct tow_stream *find_stream(struct twi_rpc_peer *rp, const struct twi_rpc_head *head)
{
	struct tow_call_in *in;
	struct twi_call *call;

	if ((head->flags & TWI_RPC_TO_SERVER) != 0) {
		in = twi_serve_find(rp, head->id);
		return in == NULL ? NULL : in->stream;
	}
	call = twi_call_find(rp, head->id);
	return call == NULL ? NULL : call->stream;
}

bool twi_stream_chunk(struct twi_rpc_peer *rp, struct twi_rpc_slot *slot,
		      const struct twi_rpc_head *head)
{
	struct tow_stream *stream = find_stream(rp, head);
	const uint8_t *data = slot->data + TWI_RPC_HEAD_BYTES;
	struct twi_chunk *chunk;
	bool keep = false;

	twi_assert_held(rp->engine);
	if (stream == NULL || stream->failed != 0 || stream->ended) {
		rp->rpc->dropped++; /* its writer takes a body back when it learns of the end */
		return false;
	}
	if ((head->flags & TWI_RPC_END) != 0) {
		stream->ended = true;
		twi_stream_pump_in(stream);
		return false;
	}
	if (stream->chunk_count == TWI_RPC_CHUNKS) {
		twi_rpc_broken(rp, "a stream has more pieces in flight than its window allows");
		twi_stream_break_call(stream, TOW_EPROTOCOL);
		return false;
	}
	chunk = chunk_at(stream, stream->chunk_count);
	chunk->stream = stream;
	chunk->bytes = head->bytes;
	chunk->tag = head->tag;
	chunk->op = NULL;
	chunk->slot = NULL;
	chunk->memory = NULL;
	chunk->state = head->tag != 0 ? TWI_CHUNK_OFFERED : TWI_CHUNK_READY;
	if (head->tag == 0 && twi_rpc_may_keep(rp)) {
		chunk->slot = slot;
		keep = true;
	} else if (head->tag == 0) {
		chunk->memory = twi_rpc_keep_copy(rp, data, head->bytes);
		if (chunk->memory == NULL) {
			twi_stream_break_call(stream, TOW_EEXHAUSTED);
			return false;
		}
	}
	stream->chunk_count++;
	twi_stream_pump_in(stream);
	return keep;
}

void twi_stream_window(struct twi_rpc_peer *rp, const struct twi_rpc_head *head)
{
	struct tow_stream *stream = find_stream(rp, head);

	twi_assert_held(rp->engine);
	if (stream == NULL || stream->failed != 0)
		return;
	if (head->a > stream->sent || head->a < stream->taken_there) {
		twi_rpc_broken(rp, "it acknowledged pieces of a stream that were not sent");
		return;
	}
	stream->taken_there = head->a;
	twi_stream_pump_out(stream);
}

static void end_list(struct twi_list *list, int status)
{
	struct twi_list *entry;

	while ((entry = twi_list_first(list)) != NULL)
		twi_op_complete(twi_container_of(entry, struct tow_op, link), status, 0);
}

static void end_now(struct tow_op **op_io, int status)
{
	struct tow_op *op = *op_io;

	*op_io = NULL;
	if (op != NULL)
		twi_op_complete(op, status, 0);
}

static void end_pushes(struct tow_stream *stream, int status)
{
	end_list(&stream->pushes, status);
	for (unsigned i = 0; i < TWI_RPC_PARCELS; i++) {
		struct twi_push *push = &stream->push[i];
		struct tow_op *op = push->op;

		if (twi_parcel_abort(&push->parcel) && op != NULL) {
			push->over = status;
			twi_op_unwatch(op);
			continue;
		}
		end_now(&push->op, status);
	}
}

void twi_stream_fail(struct tow_stream *stream, int status)
{
	twi_assert_held(stream->rpc->engine);
	if (stream->failed != 0)
		return;
	stream->failed = status;
	end_pushes(stream, status);
	end_list(&stream->pulls, status);
	for (unsigned i = 0; i < stream->chunk_count; i++) {
		struct twi_chunk *chunk = chunk_at(stream, i);
		struct tow_op *op = chunk->op;

		if (twi_rpc_io_abort(&chunk->io) && op != NULL) {
			twi_op_unwatch(op);
			continue; /* it ends with the stream's status */
		}
		end_now(&chunk->op, status);
		if (chunk->state == TWI_CHUNK_READY)
			free_inline(chunk);
		if (chunk->state != TWI_CHUNK_MOVING)
			chunk->state = TWI_CHUNK_TAKEN;
	}
}

void twi_streams_let_go(struct twi_rpc_peer *rp)
{
	twi_assert_held(rp->engine);
	for (unsigned i = 0; i < TWI_RPC_STREAMS; i++) {
		struct tow_stream *stream = &rp->rpc->stream_rows[i];

		if (stream->rp != rp)
			continue;
		twi_stream_fail(stream, TOW_ECLOSED); /* that of a call which was answered */
		for (unsigned k = 0; k < TWI_RPC_PARCELS; k++)
			end_now(&stream->push[k].op, stream->failed);
		for (unsigned k = 0; k < TWI_RPC_CHUNKS; k++)
			end_now(&stream->chunks[k].op, stream->failed);
	}
}

void twi_stream_close(struct tow_stream *stream)
{
	twi_assert_held(stream->rpc->engine);
	if (stream->failed != 0)
		return;
	stream->closed = true;
	stream->ended = true; /* the answer came behind the last piece */
	end_pushes(stream, TOW_ECLOSED);
	twi_stream_pump_in(stream);
}

bool twi_stream_release(struct tow_stream *stream)
{
	struct twi_rpc_peer *rp = stream->rp;

	twi_assert_held(stream->rpc->engine);
	twi_stream_fail(stream, TOW_ECLOSED);
	if (twi_parcel_busy(&stream->window))
		return false;
	for (unsigned i = 0; i < TWI_RPC_PARCELS; i++) {
		if (stream->push[i].busy)
			return false;
	}
	for (unsigned i = 0; i < TWI_RPC_CHUNKS; i++) {
		if (stream->chunks[i].io.busy)
			return false;
	}
	twi_list_push_front(&rp->rpc->streams, &stream->link);
	stream->rp = NULL;
	rp->holds--;
	return true;
}
