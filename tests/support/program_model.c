/*
 * program_model.c - the model: an ideal network that knows the rules of the headers alone.
 *
 *	a message goes to the receive that was started first of those that it matches;
 *	a receive takes the message that was sent first of those of one peer that match;
 *	between peers there is no order.
 *
 * What each receive got is compared with these. Let a receive `later` have got message m, and
 * `first` be a receive of the same rank that was started before and matches m, too. Then `first`
 * must have been away when `later` met m: it had ended before, or has got an older message of the
 * same sender, or one of another sender that can have been there then. All else is a message that
 * went past a receive. The exceptions are what the headers say of messages and receives that are
 * taken back: one whose receive, or whose message, was taken back after they had met takes its old
 * place again, which others have passed meanwhile. They count only where somebody can have been
 * engaged so.
 */
#include "program.h"

static bool is_large(const struct twt_program_op *send)
{
	return send->what.bytes > send->program->eager_max && !send->instant;
}

static bool is_send_to(const struct twt_program_op *op, int rank)
{
	return op->what.send && op->what.peer == rank && op->end != TWT_PROGRAM_VOID;
}

static bool is_recv_of(const struct twt_program_op *op, int rank)
{
	return !op->what.send && op->what.rank == rank && op->end != TWT_PROGRAM_VOID;
}

static bool has_taken(const struct twt_program_op *recv)
{
	return recv->end == TWT_PROGRAM_ENDED &&
	       (recv->status >= 0 || recv->status == TOW_ETRUNCATED);
}

/* Does the receive take such a message? */
static bool does_match(const struct twt_program_op *recv, const struct twt_program_op *send)
{
	return recv->what.channel == send->what.channel &&
	       (recv->what.peer == TWT_PROGRAM_ANY || recv->what.peer == send->what.rank) &&
	       ((recv->what.tag ^ send->what.tag) & recv->what.mask) == 0;
}

/* Was the message taken back, by its sender or with its receive, or lost with its connection? */
static bool is_withdrawn(const struct twt_program_op *send)
{
	if (send->end == TWT_PROGRAM_UNKNOWN)
		return send->met == NULL;
	return send->end == TWT_PROGRAM_ENDED && send->status < 0 && send->status != TOW_ETRUNCATED;
}

/* One that nobody got, of a connection or a channel that has failed: a part of it may have come. */
static bool is_stranded(const struct twt_program_op *send)
{
	return send->met == NULL &&
	       twt_program_off(send->program, send->what.rank, send->what.peer, send->what.channel);
}

/* --- who got whose message --- */

static void meet_with(struct twt_program_op *recv, struct twt_program_op *send)
{
	struct twt_program *program = recv->program;

	twt_program_check(program, send->met == NULL, "message %d was received twice: by %d and %d",
			  send->id, send->met->id, recv->id);
	twt_program_check(program,
			  send->what.send && send->what.rank == recv->from &&
				  send->what.peer == recv->what.rank &&
				  send->what.tag == recv->tag &&
				  send->what.channel == recv->what.channel,
			  "op %d got message %d, which is another's", recv->id, send->id);
	twt_program_check(program,
			  send->end != TWT_PROGRAM_ENDED || send->rpc == recv->rpc ||
				  (send->instant && send->rpc == 0) || send->status < 0,
			  "op %d and message %d have different ids", recv->id, send->id);
	if (recv->status == TOW_ETRUNCATED)
		twt_program_check(program, send->what.bytes > recv->what.bytes,
				  "op %d refused message %d, for which it has room", recv->id,
				  send->id);
	else
		twt_program_check(program, send->what.bytes == recv->got + recv->dropped,
				  "op %d got %llu bytes of message %d", recv->id,
				  (unsigned long long)recv->got, send->id);
	/* What is in flight beyond the close of a channel gets nothing of it any more. */
	twt_program_check(
		program,
		recv->status < 0 ||
			!program->shut[recv->what.rank][recv->from][recv->what.channel] ||
			recv->open_at <
				program->shut_at[recv->what.rank][recv->from][recv->what.channel],
		"op %d got message %d of a channel that was closed before", recv->id, send->id);
	send->met = recv;
	recv->met = send;
}

static struct twt_program_op *find_by_rpc(const struct twt_program_op *recv)
{
	struct twt_program *program = recv->program;

	for (int i = 0; i < program->op_count; i++) {
		struct twt_program_op *op = &program->ops[i];

		if (is_send_to(op, recv->what.rank) && op->what.rank == recv->from &&
		    op->end == TWT_PROGRAM_ENDED && op->rpc == recv->rpc && recv->rpc != 0)
			return op;
	}
	return NULL;
}

void twt_program_meet(struct twt_program *program)
{
	for (int i = 0; i < program->op_count; i++) {
		struct twt_program_op *recv = &program->ops[i], *send;
		uint64_t id;

		if (recv->what.send || recv->end != TWT_PROGRAM_ENDED || !has_taken(recv) ||
		    recv->met != NULL)
			continue;
		memcpy(&id, recv->head, sizeof(id));
		send = recv->status >= 0 && recv->got >= TWT_PROGRAM_HEAD ? &program->ops[id]
									  : find_by_rpc(recv);
		if (send == NULL) {
			/* The id of a send that nobody has heard of yet comes later. */
			twt_program_check(program, !program->judging,
					  "op %d got a message that nobody sent", i);
			continue;
		}
		meet_with(recv, send);
		twt_program_check(
			program,
			recv->status < 0 ||
				twt_program_same(recv->head, twi_min(recv->got, 8), send->id),
			"op %d got other bytes than message %d has", i, send->id);
	}
}

/* --- what both ends say --- */

static void judge_send(struct twt_program *program, const struct twt_program_op *send)
{
	const struct twt_program_op *met = send->met;
	bool got = met != NULL && met->status >= 0;
	bool lost = program->unswept ||
		    twt_program_off(program, send->what.rank, send->what.peer, send->what.channel);

	if (send->end == TWT_PROGRAM_ENDED) {
		twt_program_check(program, send->status < 0 || !is_large(send) || got,
				  "message %d is said to have arrived, and nobody has it",
				  send->id);
		twt_program_check(program,
				  !got || send->status >= 0 || send->status == TOW_EPEER ||
					  send->status == TOW_ECLOSED ||
					  (is_large(send) && send->status == TOW_EDEADLINE),
				  "message %d ended with %s, and op %d has it", send->id,
				  tow_status_name(send->status), met->id);
		twt_program_check(program,
				  send->status != TOW_ETRUNCATED ||
					  (met != NULL && met->status == TOW_ETRUNCATED) || lost,
				  "message %d was refused by nobody", send->id);
	}
	twt_program_check(program,
			  met != NULL || is_withdrawn(send) || lost ||
				  send->status == TOW_ETRUNCATED ||
				  send->end == TWT_PROGRAM_UNKNOWN,
			  "message %d was lost", send->id);
	/* Of a peer that has failed the messages that have come whole can still be received. */
	twt_program_check(
		program,
		!send->came || met != NULL || program->unswept ||
			program->shut[send->what.peer][send->what.rank][send->what.channel] ||
			!program->hears[send->what.peer][send->what.rank],
		"message %d had come whole, and was lost with its connection", send->id);
}

static void judge_promise(struct twt_program *program, const struct twt_program_op *recv)
{
	struct twt_program_op asked = *recv;
	const struct twt_program_op *send;

	if (!recv->promised || (has_taken(recv) && recv->rpc == recv->promised_rpc &&
				recv->from == recv->promised_from))
		return;
	asked.rpc = recv->promised_rpc;
	asked.from = recv->promised_from;
	send = find_by_rpc(&asked);
	twt_program_check(program,
			  (send == NULL && program->with.headless) ||
				  (send != NULL && is_withdrawn(send)) ||
				  twt_program_off(program, recv->promised_from, recv->what.rank,
						  recv->what.channel) ||
				  (recv->end == TWT_PROGRAM_ENDED && recv->status < 0),
			  "op %d did not get message %d (rpc %llx of rank %d), which a probe has "
			  "promised it",
			  recv->id, send == NULL ? -1 : send->id,
			  (unsigned long long)recv->promised_rpc, recv->promised_from);
}

/* --- order --- */

/* When a receive that got nothing can have been away at the earliest. */
static uint64_t gone_at(const struct twt_program_op *recv)
{
	if (recv->end != TWT_PROGRAM_ENDED)
		return TWT_PROGRAM_NEVER;
	return twi_min(recv->cancel_at, recv->open_at);
}

/* Does what had ended so long ago still matter then? By a time of rest all has its place again. */
static bool is_settled(const struct twt_program_op *ended, const struct twt_program_op *a,
		       const struct twt_program_op *b)
{
	return ended->end == TWT_PROGRAM_ENDED &&
	       ended->end_rests < twi_max(a->start_rests, b->start_rests);
}

/* Can a view without room have kept the message until it went itself? */
static bool was_kept(const struct twt_program_op *recv, const struct twt_program_op *send)
{
	return recv->what.view && recv->met == NULL &&
	       (send->met == NULL || send->met->end_at > gone_at(recv));
}

/*
 * Can `recv` have been engaged with a message that came to nothing, when `later` met m? Of m's
 * sender it must be one that was sent before m.
 */
static bool was_jilted(const struct twt_program_op *recv, const struct twt_program_op *later)
{
	struct twt_program *program = recv->program;
	const struct twt_program_op *m = later->met;

	for (int i = 0; i < program->op_count; i++) {
		const struct twt_program_op *send = &program->ops[i];

		if (!is_send_to(send, recv->what.rank) || !does_match(recv, send) ||
		    send->start_at >= later->end_at ||
		    (send->what.rank == m->what.rank && send->start_at >= m->start_at))
			continue;
		if (is_stranded(send) || was_kept(recv, send) ||
		    (is_large(send) && is_withdrawn(send) && !is_settled(send, m, later)))
			return true;
	}
	return false;
}

/*
 * Can m have been engaged with a receive that let it go again, when `first` met a later message,
 * `other`? It is one that got nothing, started before `before`, and was still there when m came.
 */
static bool was_let_go(const struct twt_program_op *m, const struct twt_program_op *first,
		       uint64_t before)
{
	struct twt_program *program = m->program;

	for (int i = 0; i < program->op_count; i++) {
		const struct twt_program_op *recv = &program->ops[i];

		if (recv != first && is_recv_of(recv, m->what.peer) && does_match(recv, m) &&
		    recv->met == NULL && recv->start_at < before && recv->end_at > m->start_at &&
		    !is_settled(recv, first, first->met))
			return true;
	}
	return false;
}

/*
 * `later` has got message m. `first` was started before and matches m: was it away, or engaged?
 */
static void judge_passed(const struct twt_program_op *first, const struct twt_program_op *later)
{
	const struct twt_program_op *m = later->met, *other = first->met;
	struct twt_program *program = first->program;

	if (first->end == TWT_PROGRAM_ENDED &&
	    (first->end_at <= later->start_at || first->end_at <= m->start_at))
		return;
	if (first->status == TOW_EEXHAUSTED)
		return; /* it had met one that it had no room for, and let it go */
	if (other != NULL && other->what.rank == m->what.rank) {
		twt_program_check(
			program,
			other->start_at < m->start_at || was_let_go(m, first, later->start_at) ||
				was_jilted(first, later),
			"message %d went past op %d to op %d; op %d got the later message %d",
			m->id, first->id, later->id, first->id, other->id);
		return;
	}
	if (other != NULL)
		twt_program_check(program,
				  other->start_at < later->end_at || was_jilted(first, later),
				  "message %d went past op %d to op %d, before message %d was sent",
				  m->id, first->id, later->id, other->id);
	else
		twt_program_check(program,
				  gone_at(first) <= later->end_at || was_jilted(first, later),
				  "message %d went past op %d, which waits, to op %d", m->id,
				  first->id, later->id);
}

/* `recv` has got message m: was an older one of the same sender, withdrawn later, there for it? */
static void judge_overtaken(const struct twt_program_op *recv, const struct twt_program_op *older)
{
	struct twt_program *program = recv->program;

	if (older->met != NULL || older->end != TWT_PROGRAM_ENDED || !is_withdrawn(older) ||
	    twt_program_off(program, older->what.rank, older->what.peer, older->what.channel))
		return;
	if (twi_min(older->cancel_at, older->open_at) <= recv->end_at)
		return; /* it may have been away */
	for (int i = 0; i < program->op_count; i++) {
		const struct twt_program_op *op = &program->ops[i];

		/* The one that it was engaged with went on to another. */
		if (op != recv && is_recv_of(op, recv->what.rank) && does_match(op, older) &&
		    op->start_at < recv->end_at && op->end_at > older->start_at)
			return;
	}
	twt_program_check(program, older->timed || !older->cancelled,
			  "message %d, older and still there, was overtaken by message %d to op %d",
			  older->id, recv->met->id, recv->id);
}

static void judge_receive(struct twt_program *program, const struct twt_program_op *recv)
{
	const struct twt_program_op *m = recv->met;

	for (int i = 0; i < program->op_count; i++) {
		const struct twt_program_op *op = &program->ops[i];

		if (op == recv || op == m)
			continue;
		if (is_recv_of(op, recv->what.rank) && op->start_at < recv->start_at &&
		    does_match(op, m))
			judge_passed(op, recv);
		if (is_send_to(op, recv->what.rank) && op->what.rank == m->what.rank &&
		    op->start_at < m->start_at && does_match(recv, op))
			judge_overtaken(recv, op);
	}
}

void twt_program_judge(struct twt_program *program)
{
	twt_program_meet(program);
	for (int i = 0; i < program->op_count; i++) {
		const struct twt_program_op *op = &program->ops[i];

		if (op->end == TWT_PROGRAM_VOID)
			continue;
		twt_program_check(program, op->end != TWT_PROGRAM_OPEN, "op %d never ended", i);
		if (op->what.send)
			judge_send(program, op);
		else
			judge_promise(program, op);
		if (!op->what.send && op->met != NULL)
			judge_receive(program, op);
	}
}
