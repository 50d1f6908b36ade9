/*
 * ofi_pull.c - incoming large messages: read, received with a tag, or in pieces. See ofi.h.
 */
#include "transport/lanes/ofi/ofi_calls.h"

#ifdef TWI_HAVE_OFI

#include <stdlib.h>

#include "diag/base/cancel.h"
#include "diag/base/checksum.h"
#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/op/lane_host.h"

struct twi_ofi_pull *twi_ofi_pull_find(struct twi_ofi_peer *peer, uint64_t seq)
{
	struct twi_list *pos, *next;

	twi_list_for_each_safe (pos, next, &peer->pulls) {
		struct twi_ofi_pull *pull = twi_container_of(pos, struct twi_ofi_pull, link);

		if (pull->seq == seq)
			return pull;
	}
	return NULL;
}

void twi_ofi_pull_end(struct twi_ofi_pull *pull)
{
	struct twi_ofi_port *port = pull->peer->port;

	twi_assert(pull->in_flight == 0);
	twi_list_remove(&pull->link);
	twi_list_remove(&pull->retry);
	pull->op = NULL;
	twi_list_push_back(&port->pull_free, &pull->link);
	port->freed = true;
}

/* All payload has come, and the offer still stood. */
static void finish_pull(struct twi_ofi_pull *pull)
{
	struct twi_ofi_peer *peer = pull->peer;
	struct tow_op *op = pull->op;
	uint64_t seq = pull->seq, bytes = pull->whole_bytes;
	bool corrupt = pull->checked && twi_op_checksum(op, 0, 0, bytes) != pull->checksum;

	twi_ofi_pull_end(pull);
	if (twi_unlikely(corrupt)) {
		twi_ofi_say(peer, TWI_OFI_REFUSE, seq, 0, TWI_OFI_REFUSE_CORRUPT);
		twi_inbox_corrupt(&peer->inbox, op, bytes);
		return;
	}
	twi_ofi_say(peer, TWI_OFI_DONE, seq, 0, 0);
	twi_inbox_received(&peer->inbox, op, bytes);
}

/* Ends a pull that has stopped. libfabric has no request of it any more. */
static void end_stopped_pull(struct twi_ofi_pull *pull)
{
	struct twi_ofi_peer *peer = pull->peer;
	struct tow_op *op = pull->op;
	uint64_t seq = pull->seq;
	int ending = pull->ending, failed = pull->failed;
	uint8_t why = pull->why;
	bool answers = pull->withdrawn && why == TWI_OFI_CANCEL_ASKS;

	twi_ofi_pull_end(pull);
	if (ending != 0) {
		if (peer->state == TWI_OFI_UP || answers)
			twi_ofi_say(peer, TWI_OFI_REFUSE, seq, 0, TWI_OFI_REFUSE_CANCELED);
		twi_inbox_end(&peer->inbox, op, ending, 0);
	} else if (failed != 0) {
		twi_error(failed, "message %llu of peer %s could not be fetched",
			  (unsigned long long)seq, peer->base.address);
		twi_inbox_end(&peer->inbox, op, failed, 0);
		twi_ofi_break(peer, failed);
	} else {
		twi_ofi_taken_back(peer, op, why);
	}
}

static struct twi_ofi_req *free_req(struct twi_ofi_pull *pull)
{
	for (unsigned i = 0; i < TWI_OFI_READS; i++) {
		if (!pull->reqs[i].busy)
			return &pull->reqs[i];
	}
	return NULL;
}

static void read_posted(struct twi_ofi_pull *pull, struct twi_ofi_req *req, uint64_t bytes)
{
	req->busy = true;
	req->bytes = bytes;
	pull->in_flight++;
	pull->peer->held++;
	pull->peer->port->in_flight++;
}

/* Returns true when the read is posted; false if not now, or if the pull has failed. */
static bool request_posted(struct twi_ofi_pull *pull, struct twi_ofi_req *req, ssize_t rc,
			   uint64_t bytes)
{
	if (rc == 0) {
		read_posted(pull, req, bytes);
		return true;
	}
	if (rc != -FI_EAGAIN)
		pull->failed = TOW_EPEER;
	else if (twi_list_empty(&pull->retry))
		twi_list_push_back(&pull->peer->port->retry, &pull->retry);
	return false;
}

/*
 * Reads the last piece and the cell in one request. The provider must carry out the parts in order,
 * as those over shared memory or a stream do.
 */
static ssize_t read_last(struct twi_ofi_pull *pull, struct twi_ofi_req *req, uint64_t bytes,
			 void *desc)
{
	struct twi_ofi_port *port = pull->peer->port;
	struct iovec here[2] = { { (uint8_t *)pull->op->data + pull->issued, bytes },
				 { pull->cell, sizeof(*pull->cell) } };
	void *descs[2] = { desc, port->memory_desc };
	struct fi_rma_iov there[2] = {
		{ pull->where.address + pull->issued, bytes, pull->where.key },
		{ pull->where.cell_address, sizeof(*pull->cell), pull->where.cell_key },
	};
	struct fi_msg_rma msg = {
		.msg_iov = here,
		.desc = descs,
		.iov_count = 2,
		.addr = pull->peer->address,
		.rma_iov = there,
		.rma_iov_count = 2,
		.context = &req->ctx,
	};

	return fi_readmsg(port->ep, &msg, FI_COMPLETION);
}

static bool read_payload(struct twi_ofi_pull *pull, struct twi_ofi_req *req)
{
	TWI_UNCANCELED;
	struct twi_ofi_port *port = pull->peer->port;
	uint64_t bytes = twi_min(pull->bytes - pull->issued, (uint64_t)TWI_OFI_READ_BYTES);
	bool last;
	void *desc;
	ssize_t rc;

	bytes = twi_min(bytes, port->message_bytes_max - sizeof(*pull->cell));
	last = port->reads_two && pull->issued + bytes == pull->bytes;
	if (!twi_ofi_local(port, &pull->op->claim, &desc)) {
		pull->failed = TOW_EPEER;
		return false;
	}
	if (last)
		rc = read_last(pull, req, bytes, desc);
	else
		rc = fi_read(port->ep, (uint8_t *)pull->op->data + pull->issued, bytes, desc,
			     pull->peer->address, pull->where.address + pull->issued,
			     pull->where.key, &req->ctx);
	if (!request_posted(pull, req, rc, bytes))
		return false;
	pull->issued += bytes;
	pull->cell_asked = last;
	return true;
}

/* Reads the cell, which tells whether the offer still stood when its last byte was read. */
static bool read_cell(struct twi_ofi_pull *pull, struct twi_ofi_req *req)
{
	TWI_UNCANCELED;
	struct twi_ofi_port *port = pull->peer->port;
	ssize_t rc = fi_read(port->ep, pull->cell, sizeof(*pull->cell), port->memory_desc,
			     pull->peer->address, pull->where.cell_address, pull->where.cell_key,
			     &req->ctx);

	if (!request_posted(pull, req, rc, 0))
		return false;
	pull->cell_asked = true;
	return true;
}

static bool pull_stopped(const struct twi_ofi_pull *pull)
{
	return pull->failed != 0 || pull->withdrawn || pull->ending != 0;
}

static void go_read(struct twi_ofi_pull *pull)
{
	struct twi_ofi_req *req;
	bool more = true;

	while (more && !pull_stopped(pull) && (req = free_req(pull)) != NULL) {
		if (pull->issued < pull->bytes)
			more = read_payload(pull, req);
		else if (!pull->cell_asked &&
			 (pull->peer->port->reads_in_order || pull->landed == pull->bytes))
			more = read_cell(pull, req);
		else
			more = false;
	}
}

/* The receive is posted before the CTS goes out, so that the message never waits in libfabric. */
static void go_tagged(struct twi_ofi_pull *pull)
{
	struct twi_ofi_port *port = pull->peer->port;
	void *desc;
	ssize_t rc;

	if (!twi_ofi_local(port, &pull->op->claim, &desc)) {
		pull->failed = TOW_EPEER;
		return;
	}
	rc = fi_trecv(port->ep, pull->op->data, pull->bytes, desc, FI_ADDR_UNSPEC, pull->tag, 0,
		      &pull->reqs[0].ctx);
	if (!request_posted(pull, &pull->reqs[0], rc, pull->bytes))
		return;
	pull->issued = pull->bytes;
	twi_ofi_say(pull->peer, TWI_OFI_CTS, pull->seq, pull->tag, TWI_OFI_TAGGED);
}

void twi_ofi_pull_go(struct twi_ofi_pull *pull)
{
	if (pull->way == TWI_OFI_READ)
		go_read(pull);
	else if (pull->way == TWI_OFI_TAGGED && pull->issued == 0)
		go_tagged(pull);
	if (pull_stopped(pull) && pull->in_flight == 0)
		end_stopped_pull(pull);
}

/* Chooses the path. With `cut` a part of the message is dropped; a message with a tag must fit. */
static uint8_t choose_path(const struct twi_ofi_peer *peer, const struct tow_op *op,
			   const struct twi_ofi_where *where, bool cut)
{
	const struct twi_ofi_port *port = peer->port;
	bool read = where->read && port->reads;
	void *desc;

	if (op->claim.staged || !twi_ofi_local(port, &op->claim, &desc))
		return TWI_OFI_FRAGS;
	if (read && (cut || !port->prefers_tagged || !where->tagged || !port->tagged))
		return TWI_OFI_READ;
	return where->tagged && port->tagged && !cut ? TWI_OFI_TAGGED : TWI_OFI_FRAGS;
}

/* All pulls are in use: the receive waits with the offer that it has met. */
static void wait_for_pull(struct twi_ofi_peer *peer, struct tow_op *op,
			  const struct twi_ofi_arrival *offer)
{
	op->lane_state = twi_ofi_arrival_keep(offer);
	if (op->lane_state == NULL) {
		twi_ofi_say(peer, TWI_OFI_REFUSE, op->seq, 0, TWI_OFI_REFUSE_CANCELED);
		twi_inbox_end(&peer->inbox, op, TOW_ENOMEM, offer->arrival.bytes);
		return;
	}
	op->stage = TWI_STAGE_QUEUED;
	twi_list_push_back(&peer->matched, &op->link);
}

void twi_ofi_pull_matched(struct twi_ofi_peer *peer)
{
	struct twi_list *entry;

	while (!twi_list_empty(&peer->port->pull_free) &&
	       (entry = twi_list_first(&peer->matched)) != NULL) {
		struct tow_op *op = twi_container_of(entry, struct tow_op, link);
		struct twi_ofi_arrival *offer = op->lane_state;

		op->lane_state = NULL;
		twi_list_remove(&op->link);
		twi_ofi_pull_start(peer, op, offer);
		free(offer);
	}
}

/*
 * Returns whether the receive's memory can be written. Bad memory would end the connection if
 * libfabric writes it, and the process if this code does. The first and the last page stand for all
 * (reach.h).
 */
static bool can_write(struct twi_ofi_peer *peer, struct tow_op *op, uint64_t bytes)
{
	uint64_t good;

	if (op->view == TWI_VIEW_WHOLE || op->claim.kind == TWI_CLAIM_POOL)
		return true;
	good = twi_op_reach_ends(op, bytes, true);
	if (twi_likely(good == bytes))
		return true;
	twi_ofi_say(peer, TWI_OFI_REFUSE, op->seq, 0, TWI_OFI_REFUSE_FAULT);
	twi_inbox_end(&peer->inbox, op, twi_op_fault(op, twi_ofi_rpc_id(peer, op), bytes, good), 0);
	return false;
}

void twi_ofi_pull_start(struct twi_ofi_peer *peer, struct tow_op *op,
			const struct twi_ofi_arrival *offer)
{
	struct twi_ofi_port *port = peer->port;
	struct twi_list *entry = twi_list_first(&port->pull_free);
	const uint64_t bytes = offer->arrival.bytes, fits = twi_min(bytes, op->bytes);
	struct twi_ofi_pull *pull;

	if (entry == NULL) {
		wait_for_pull(peer, op, offer);
		return;
	}
	if (!can_write(peer, op, fits))
		return;
	pull = twi_container_of(entry, struct twi_ofi_pull, link);
	twi_list_remove(&pull->link);
	twi_list_push_back(&peer->pulls, &pull->link);
	pull->peer = peer;
	pull->op = op;
	pull->where = offer->where;
	pull->seq = offer->arrival.seq;
	pull->whole_bytes = bytes;
	pull->issued = pull->landed = 0;
	pull->checksum = offer->checksum;
	pull->checked = offer->checked && fits == bytes;
	pull->cell_asked = pull->withdrawn = false;
	pull->why = TWI_OFI_CANCEL_WISHED;
	pull->failed = pull->ending = 0;
	pull->way = choose_path(peer, op, &offer->where, fits < bytes);
	/* All pieces come, and surplus ones are dropped here. A read never asks for the surplus. */
	pull->bytes = pull->way == TWI_OFI_FRAGS ? bytes : fits;
	pull->tag = port->next_tag++ & port->tag_mask;
	op->stage = TWI_STAGE_GRANTED;
	twi_op_begun(op);
	twi_claim_count(op, pull->bytes);
	if (pull->way == TWI_OFI_FRAGS)
		twi_ofi_say(peer, TWI_OFI_CTS, pull->seq, 0, TWI_OFI_FRAGS);
	else
		twi_ofi_pull_go(pull);
}

void twi_ofi_pull_done(struct twi_ofi_req *req, int err, uint64_t bytes)
{
	struct twi_ofi_pull *pull = req->owner;
	struct twi_ofi_peer *peer = pull->peer;

	req->busy = false;
	pull->in_flight--;
	peer->held--;
	peer->heard_ns = twi_engine_now(peer->base.engine);
	if (err != 0 || (pull->way == TWI_OFI_TAGGED && bytes != pull->bytes))
		pull->failed = err != 0 ? TOW_EPEER : TOW_EPROTOCOL;
	else
		pull->landed += req->bytes; /* 0 for the cell alone */
	if (pull->withdrawn)
		pull->failed = 0; /* the receive was canceled */
	if (pull_stopped(pull)) {
		if (pull->in_flight == 0)
			end_stopped_pull(pull);
	} else if (pull->landed < pull->bytes || pull->in_flight > 0 ||
		   (pull->way == TWI_OFI_READ && !pull->cell_asked)) {
		twi_ofi_pull_go(pull);
	} else if (pull->way == TWI_OFI_READ && *pull->cell != pull->where.cell) {
		pull->withdrawn = true;
		end_stopped_pull(pull);
	} else {
		finish_pull(pull);
	}
	twi_ofi_peer_let_go(peer);
}

/* Handles a piece of a large message. */
int twi_ofi_frag(struct twi_ofi_peer *peer, const struct twi_ofi_packet *p, const uint8_t *payload)
{
	struct twi_ofi_pull *pull = twi_ofi_pull_find(peer, p->seq);
	uint64_t fits;

	if (pull == NULL && p->seq <= peer->inbox.seq_received)
		return TOW_OK; /* it was refused meanwhile */
	if (pull == NULL || pull->way != TWI_OFI_FRAGS || p->value != pull->landed ||
	    p->payload_bytes > pull->bytes - pull->landed)
		return twi_ofi_fault(peer, TWI_RULE_DATA_UNASKED,
				     "sent a piece of message %llu that was not asked for",
				     (unsigned long long)p->seq);
	fits = pull->op->bytes - twi_min(pull->op->bytes, pull->landed);
	fits = twi_min(fits, (uint64_t)p->payload_bytes);
	if (fits > 0)
		twi_op_copy_in(pull->op, pull->landed, payload, fits);
	pull->landed += p->payload_bytes;
	if (pull->landed == pull->bytes)
		finish_pull(pull);
	return TOW_OK;
}

unsigned twi_ofi_pull_retry(struct twi_ofi_port *port)
{
	struct twi_list work, *entry;
	unsigned count = 0;

	twi_list_init(&work);
	while ((entry = twi_list_first(&port->retry)) != NULL) {
		twi_list_remove(entry);
		twi_list_push_back(&work, entry);
	}
	while ((entry = twi_list_first(&work)) != NULL) {
		struct twi_ofi_pull *pull = twi_container_of(entry, struct twi_ofi_pull, retry);
		uint32_t before = pull->in_flight;

		twi_list_remove(entry);
		twi_ofi_pull_go(pull);
		count += pull->in_flight > before;
	}
	return count;
}

#endif
