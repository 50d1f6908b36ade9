/*
 * program_ops.c - the operations of a program: how each is started, and what must hold of it alone
 * when it ends. What it has to do with others is the model's (program_model.c).
 *
 * A message of 8 bytes or more begins with the number of its send. Memory outside the pool is freed
 * the moment its operation ends, so that ASan sees whoever touches it later.
 */
#include "program.h"

#include "transport/stream/session.h"

struct twt_program_counts twt_program_counts;

#define POISON 0x5a5a5a5a

void twt_program_log(struct twt_program *program, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		program->log = (program->log ^ (value >> 8 * i & 255)) * 0x100000001b3ull;
}

/* --- payload --- */

static uint64_t payload_word(int id, uint64_t index)
{
	return index == 0
		       ? (uint64_t)id
		       : ((uint64_t)id + 1) * 0x9e3779b97f4a7c15ull + index * 0xd6e8feb86659fd93ull;
}

static void payload_fill(uint8_t *data, uint64_t bytes, int id)
{
	for (uint64_t at = 0; at < bytes; at += 8) {
		uint64_t word = payload_word(id, at / 8);

		memcpy(data + at, &word, twi_min(bytes - at, 8));
	}
}

bool twt_program_same(const uint8_t *data, uint64_t bytes, int id)
{
	for (uint64_t at = 0; at < bytes; at += 8) {
		uint64_t word = payload_word(id, at / 8);

		if (memcmp(data + at, &word, twi_min(bytes - at, 8)) != 0)
			return false;
	}
	return true;
}

/* --- memory --- */

static void memory_get(struct twt_program_op *op)
{
	struct twt_program *program = op->program;
	uint64_t bytes = op->what.bytes + TWT_PROGRAM_GUARD;
	void *memory = NULL;

	if (op->what.view)
		return;
	/* A receive may wait until the end: where views want room it does not take theirs. */
	op->pool = (op->what.send || !program->with.views) && !op->what.plain &&
		   twt_program_chance(program, 300) &&
		   tow_alloc(program->runtime[op->what.rank], bytes, 0, &memory) == TOW_OK;
	op->data = op->pool ? memory : malloc(bytes);
	assert_non_null(op->data);
	if (op->what.send)
		payload_fill(op->data, op->what.bytes, op->id);
	else
		memset(op->data, 0xa5, bytes);
}

static void memory_put(struct twt_program_op *op)
{
	if (op->data != NULL && !op->freed) {
		/* A view may show what is lent: it may be freed, and not be written to. */
		if (!op->what.lends)
			memset(op->data, 0xee, twi_min(op->what.bytes, 64));
		if (op->pool)
			assert_int_equal(tow_free(op->program->runtime[op->what.rank], op->data),
					 TOW_OK);
		else
			free(op->data);
	}
	op->data = NULL;
}

/* --- ends --- */

static bool is_above(const struct twt_program_op *op)
{
	return op->what.bytes > op->program->eager_max;
}

/* Was a receive that may have met this message taken back? */
static bool let_go(const struct twt_program_op *send)
{
	const struct twt_program *program = send->program;

	for (int i = 0; i < program->op_count; i++) {
		const struct twt_program_op *op = &program->ops[i];

		if (!op->what.send && op->what.rank == send->what.peer &&
		    op->end != TWT_PROGRAM_VOID && (op->cancelled || op->timed) &&
		    ((send->what.tag ^ op->what.tag) & op->what.mask) == 0)
			return true;
	}
	return false;
}

/* Has anybody given a cause for this status? */
static bool has_cause(const struct twt_program_op *op, int status)
{
	const struct twt_program *program = op->program;
	int rank = op->what.rank, peer = op->from >= 0 ? op->from : op->what.peer;
	bool down = peer >= 0 && twt_program_off(program, rank, peer, op->what.channel);

	switch (status) {
	case TOW_OK:
	case TOW_COPIED:
		return true;
	case TOW_ETRUNCATED:
		return op->what.send ? is_above(op) : !op->what.truncate && !op->what.view;
	case TOW_ECANCELED:
		return op->cancelled || (op->what.send && is_above(op) && (down || let_go(op)));
	case TOW_EDEADLINE:
		return op->timed &&
		       program->stage->now(program) + program->stage->slack_ns >= op->deadline_ns;
	case TOW_ECLOSED:
		return program->closing ||
		       (peer >= 0 && (program->closed[rank][peer] ||
				      program->shut[rank][peer][op->what.channel]));
	case TOW_EPEER:
		return down;
	case TOW_EEXHAUSTED:
		return op->what.view && (down || program->with.huge);
	default:
		return false;
	}
}

static int rank_of(const struct twt_program_op *op, const struct tow_peer *peer)
{
	for (int i = 0; peer != NULL && i < op->program->ranks; i++) {
		if (op->program->peers[op->what.rank][i] == peer)
			return i;
	}
	return -1;
}

static void check_received(struct twt_program_op *op, const struct tow_result *result)
{
	struct twt_program *program = op->program;
	const uint8_t *data = result->data;

	twt_program_check(program, result->bytes <= op->what.bytes || op->what.view,
			  "op %d got more than it has room for", op->id);
	twt_program_check(program,
			  result->dropped_bytes == 0 || (op->what.truncate && !op->what.view &&
							 result->bytes == op->what.bytes),
			  "op %d dropped %llu bytes", op->id,
			  (unsigned long long)result->dropped_bytes);
	twt_program_check(program, op->what.view ? data != NULL || op->got == 0 : data == op->data,
			  "op %d: its message does not lie where the result says", op->id);
	memcpy(op->head, data, twi_min(op->got, TWT_PROGRAM_HEAD));
	if (op->got >= TWT_PROGRAM_HEAD) {
		uint64_t id;

		memcpy(&id, op->head, sizeof(id));
		twt_program_check(program,
				  id < (uint64_t)program->op_count &&
					  twt_program_same(data, op->got, (int)id),
				  "op %d got other bytes than were sent (message %llu)", op->id,
				  (unsigned long long)id);
	}
	twt_program_counts.dropped += op->dropped > 0;
	twt_program_counts.wild += op->what.mask != UINT64_MAX;
	twt_program_counts.any += op->what.peer == TWT_PROGRAM_ANY;
	twt_program_counts.views += op->what.view;
	twt_program_counts.shared += op->what.channel > 0;
	twt_program_counts.shared_any += op->what.channel > 0 && op->what.peer < 0;
	if (op->what.view)
		op->shown = data;
}

static void check_result(struct twt_program_op *op, const struct tow_result *result)
{
	struct twt_program *program = op->program;
	uint64_t mask = op->what.send ? UINT64_MAX : op->what.mask;

	twt_program_check(program, has_cause(op, op->status),
			  "op %d ended with %s without a cause: %s", op->id,
			  tow_status_name(op->status),
			  result->message != NULL ? result->message : "no message");
	twt_program_check(program, ((op->tag ^ op->what.tag) & mask) == 0, "op %d has tag %llu",
			  op->id, (unsigned long long)op->tag);
	twt_program_check(program, result->user == op, "op %d has another's user", op->id);
	twt_program_check(program, (op->status < 0) == (result->message != NULL),
			  "op %d: a message, or none, against its status", op->id);
	twt_program_check(program,
			  op->what.peer == TWT_PROGRAM_ANY ? op->from >= 0 || op->status < 0
							   : op->from == op->what.peer,
			  "op %d is of rank %d", op->id, op->from);
	if (op->what.send && op->status >= 0)
		twt_program_check(program, op->got == op->what.bytes && op->dropped == 0,
				  "op %d sent %llu bytes", op->id, (unsigned long long)op->got);
}

/* A receive writes nothing behind its room, however it ends. */
static void check_guard(const struct twt_program_op *op)
{
	for (uint64_t i = 0; !op->what.send && op->data != NULL && i < TWT_PROGRAM_GUARD; i++)
		twt_program_check(op->program, op->data[op->what.bytes + i] == 0xa5,
				  "op %d: memory behind its room was written", op->id);
}

/* It has ended; `result` is what its user gets. */
static void end_op(struct twt_program_op *op, const struct tow_result *result)
{
	struct twt_program *program = op->program;

	twt_program_check(program, op->end == TWT_PROGRAM_OPEN, "op %d ended twice", op->id);
	op->end = TWT_PROGRAM_ENDED;
	op->end_at = ++program->moment;
	op->end_rests = program->rests;
	op->status = result->status;
	op->got = result->bytes;
	op->dropped = result->dropped_bytes;
	op->tag = result->tag;
	op->rpc = result->rpc_id;
	op->from = rank_of(op, result->peer);
	twt_program_counts.ends[op->what.send][op->status < 0 ? -op->status : 0]++;
	twt_program_log(program, (uint64_t)op->id << 32 | (uint32_t)op->status);
	twt_program_log(program, op->got);
	twt_program_note(program, "op %d ends: %s, %llu bytes, tag %llu, rank %d, rpc %llx", op->id,
			 tow_status_name(op->status), (unsigned long long)op->got,
			 (unsigned long long)op->tag, op->from, (unsigned long long)op->rpc);
	check_result(op, result);
	check_guard(op);
	if (!op->what.send && op->status >= 0)
		check_received(op, result);
	memory_put(op);
}

static void on_done(struct tow_op *handle, const struct tow_result *result)
{
	struct twt_program_op *op = result->user;
	struct twt_program *program = op->program;

	twt_program_check(program, op->callback && !op->instant,
			  "op %d has a callback and wanted none", op->id);
	twt_program_check(program, op->op == NULL || op->op == handle,
			  "op %d: a callback for another operation", op->id);
	end_op(op, result);
	if (op->headless && op->shown != NULL) {
		op->shown = NULL; /* its handle, and so its view, is valid within the callback */
	} else if (op->op != NULL && op->shown == NULL && twt_program_chance(program, 400)) {
		twt_program_release(op);
	}
	if (program->with.nested && !program->ending && twt_program_chance(program, 300)) {
		twt_program_counts.nested++;
		twt_program_traffic(program);
	}
}

void twt_program_release(struct twt_program_op *op)
{
	struct tow_op *handle = op->op;
	bool view = op->shown != NULL;

	if (view) {
		uint64_t id;

		memcpy(&id, op->head, sizeof(id));
		twt_program_check(op->program,
				  op->got < TWT_PROGRAM_HEAD ||
					  twt_program_same(op->shown, op->got, (int)id),
				  "op %d: what its view shows has changed", op->id);
	}
	op->op = NULL;
	op->shown = NULL;
	twt_program_check(op->program,
			  (view ? tow_view_release(handle) : tow_op_release(handle)) == TOW_OK,
			  "op %d is not to be released: %s", op->id, tow_error_message());
}

void twt_program_reap(struct twt_program *program)
{
	uint64_t now = ++program->moment;

	for (int i = 0; i < program->op_count; i++) {
		struct twt_program_op *op = &program->ops[i];
		struct tow_result result = TOW_RESULT_INIT;

		if (op->end == TWT_PROGRAM_OPEN && op->callback)
			op->open_at = now;
		if (op->op == NULL || op->shown != NULL)
			continue;
		if (tow_op_result(op->op, &result) == TOW_AGAIN) {
			op->open_at = now;
			continue;
		}
		if (op->end == TWT_PROGRAM_OPEN) {
			twt_program_check(program, !op->callback, "op %d: no callback came", i);
			end_op(op, &result);
		}
		if (op->shown == NULL)
			twt_program_release(op);
	}
}

void twt_program_pass(struct twt_program *program, uint64_t ns)
{
	program->stage->pass(program, ns);
	twt_program_reap(program);
}

/* --- starts --- */

bool twt_program_linked(const struct twt_program *program, int rank, int peer)
{
	return program->peers[rank][peer] != NULL && !program->closed[rank][peer];
}

bool twt_program_down(const struct twt_program *program, int a, int b)
{
	if (program->judging)
		return program->failed[a][b];
	return !twt_program_linked(program, a, b) || !twt_program_linked(program, b, a) ||
	       program->stage->down(program, a, b);
}

bool twt_program_off(const struct twt_program *program, int a, int b, unsigned channel)
{
	return program->shut[a][b][channel] || program->shut[b][a][channel] ||
	       twt_program_down(program, a, b);
}

static int call_start(struct twt_program_op *op, const struct tow_op_options *options,
		      struct tow_op **out)
{
	const struct twt_program_start *what = &op->what;
	struct tow_endpoint *endpoint = op->program->endpoint[what->rank];
	struct tow_peer *peer = what->peer >= 0 ? op->program->peers[what->rank][what->peer] : NULL;
	const struct tow_part part = { op->data, what->bytes };
	struct tow_op_options unnamed = *options;
	struct tow_match match = TOW_MATCH_INIT;

	if (what->send)
		return tow_send_start(peer, op->data, what->bytes, what->tag, options, out);
	if (what->mask == UINT64_MAX && peer != NULL && twt_program_chance(op->program, 700))
		return what->view ? tow_recv_view_start(peer, what->tag, options, out)
				  : tow_recv_start(peer, op->data, what->bytes, what->tag, options,
						   out);
	match.peer = peer;
	match.tag = what->tag;
	match.tag_mask = what->mask;
	/* By its number, by its handle, or by both. */
	if (peer == NULL || twt_program_chance(op->program, 600))
		match.channel = what->channel;
	if (match.channel > 0 && twt_program_chance(op->program, 500)) {
		unnamed.channel = NULL;
		options = &unnamed;
	}
	return tow_recv_match_start(endpoint, &match, what->view ? NULL : &part, !what->view,
				    options, out);
}

/* May nobody hear the id of such a send? Its receive must then tell by the bytes which it was. */
static bool may_be_nameless(const struct twt_program_op *op)
{
	return op->what.send && op->what.bytes >= TWT_PROGRAM_HEAD &&
	       !op->program->with.short_rooms && !op->program->with.huge;
}

static void choose_options(struct twt_program_op *op, struct tow_op_options *options,
			   struct tow_result *result)
{
	struct twt_program *program = op->program;

	options->user = op;
	if (op->what.channel > 0 && op->what.peer >= 0)
		options->channel =
			program->channels[op->what.rank][op->what.peer][op->what.channel];
	op->callback = twt_program_chance(program, 500);
	op->headless = program->with.headless && !op->what.plain &&
		       (op->callback || may_be_nameless(op)) && !op->what.view &&
		       twt_program_chance(program, 200);
	options->done = op->callback ? on_done : NULL;
	options->flags = op->what.truncate ? TOW_OP_TRUNCATE : op->what.lends ? TOW_OP_LEND : 0;
	if (program->with.deadlines && !op->what.plain && (op->callback || !op->headless) &&
	    twt_program_chance(program, 150)) {
		options->timeout_ns = twt_program_below(program, 3000000);
		op->deadline_ns = program->stage->now(program) + options->timeout_ns;
		op->timed = true;
	}
	if (program->with.at_once && !op->what.plain && !op->what.view &&
	    twt_program_chance(program, 500)) {
		options->flags |= TOW_OP_AT_ONCE;
		if (op->headless || !may_be_nameless(op) || twt_program_chance(program, 700))
			options->result = result;
	}
}

/* Such a message may be complete at once: small, or alone on a lane of streams. */
static bool may_be_copied(const struct twt_program_op *op)
{
	return !is_above(op) ||
	       op->what.bytes <= twi_session_lone((uint32_t)op->program->eager_max);
}

/* It was complete in the call, which gave no handle. */
static void end_at_once(struct twt_program_op *op, const struct tow_op_options *options, int status)
{
	struct twt_program *program = op->program;
	struct tow_result said = TOW_RESULT_INIT;

	twt_program_check(program,
			  (options->flags & TOW_OP_AT_ONCE) && op->what.peer >= 0 &&
				  (op->what.send ? may_be_copied(op) : options->result != NULL),
			  "op %d was complete in its start, which did not allow that", op->id);
	op->instant = true;
	twt_program_counts.instant++;
	twt_program_counts.shared_instant += op->what.channel > 0 && !op->what.send;
	said.status = status;
	said.bytes = op->what.bytes;
	said.tag = op->what.tag;
	said.user = op;
	said.peer = program->peers[op->what.rank][op->what.peer];
	if (options->result == NULL)
		end_op(op, &said);
	else
		end_op(op, options->result);
	twt_program_check(program,
			  op->status == status &&
				  (options->result == NULL || options->result->latency_ns == 0),
			  "op %d: the result of its start is another's", op->id);
}

static void settle_start(struct twt_program_op *op, const struct tow_op_options *options,
			 int status, uint64_t poison)
{
	struct twt_program *program = op->program;
	bool none = !op->headless && op->op == NULL;
	bool done = op->end == TWT_PROGRAM_ENDED; /* its callback was here, and may have released */

	if (!done && (none || (op->headless && options->result != NULL &&
			       options->result->latency_ns != poison))) {
		end_at_once(op, options, status);
		return;
	}
	twt_program_check(program, options->result == NULL || options->result->latency_ns == poison,
			  "op %d: a result was written beside an operation", op->id);
	if (op->headless && !op->callback) {
		op->end = TWT_PROGRAM_UNKNOWN;
		return;
	}
	if (program->with.early_free && op->pool && op->what.send && op->data != NULL &&
	    twt_program_chance(program, 400)) {
		op->freed = true;
		assert_int_equal(tow_free(program->runtime[op->what.rank], op->data), TOW_OK);
	}
	if (!op->what.plain && op->op != NULL && op->shown == NULL && !op->what.view &&
	    twt_program_chance(program, 80) &&
	    (op->callback || (may_be_nameless(op) && op->end == TWT_PROGRAM_OPEN && !op->timed))) {
		if (!op->callback)
			op->end = TWT_PROGRAM_UNKNOWN;
		twt_program_release(op);
	}
}

struct twt_program_op *twt_program_begin(struct twt_program *program,
					 const struct twt_program_start *what)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_result result = TOW_RESULT_INIT;
	struct twt_program_op *op = &program->ops[program->op_count];
	struct tow_op *handle = NULL;
	int status;

	if (program->op_count == TWT_PROGRAM_OPS)
		return NULL;
	*op = (struct twt_program_op){ .program = program, .what = *what, .from = -1 };
	op->id = program->op_count++;
	op->cancel_at = TWT_PROGRAM_NEVER;
	op->start_at = op->open_at = ++program->moment;
	op->start_rests = program->rests;
	result.latency_ns = POISON;
	memory_get(op);
	choose_options(op, &options, &result);
	twt_program_note(
		program, "op %d: rank %d %s %d, channel %u, tag %llu/%llx, %llu bytes%s%s%s%s%s",
		op->id, what->rank, what->send ? "sends to" : "receives of", what->peer,
		what->channel, (unsigned long long)what->tag, (unsigned long long)what->mask,
		(unsigned long long)what->bytes, what->view ? ", a view" : "",
		what->truncate ? ", cut"
		: what->lends  ? ", lent"
			       : "",
		op->callback ? ", callback" : "", op->timed ? ", a deadline" : "",
		options.flags & TOW_OP_AT_ONCE ? ", at once" : "");
	status = call_start(op, &options, op->headless ? NULL : &handle);
	op->op = handle;
	if (status == TOW_EBUSY && op->end == TWT_PROGRAM_OPEN) {
		op->end = TWT_PROGRAM_VOID;
		memory_put(op);
		return NULL;
	}
	twt_program_check(program, status >= 0, "op %d does not start: %s", op->id,
			  tow_error_message());
	settle_start(op, &options, status, POISON);
	return op;
}

void twt_program_cancel(struct twt_program_op *op)
{
	op->cancelled = true;
	op->cancel_at = ++op->program->moment;
	twt_program_note(op->program, "op %d is cancelled", op->id);
	twt_program_check(op->program, tow_op_cancel(op->op) == TOW_OK, "cancel: %s",
			  tow_error_message());
}

void twt_program_close_peer(struct twt_program *program, int rank, int peer)
{
	if (!twt_program_linked(program, rank, peer))
		return;
	program->closed[rank][peer] = true;
	twt_program_note(program, "rank %d closes peer %d", rank, peer);
	twt_program_check(program, tow_peer_close(program->peers[rank][peer]) == TOW_OK,
			  "close: %s", tow_error_message());
}

void twt_program_close_channel(struct twt_program *program, int rank, int peer, unsigned channel)
{
	struct tow_channel *handle = program->channels[rank][peer][channel];

	program->channels[rank][peer][channel] = NULL;
	program->shut[rank][peer][channel] = true;
	program->shut_at[rank][peer][channel] = ++program->moment;
	twt_program_note(program, "rank %d closes channel %u of %d", rank, channel, peer);
	twt_program_check(program, tow_channel_close(handle) == TOW_OK, "close: %s",
			  tow_error_message());
}

struct twt_program_op *twt_program_random_open(struct twt_program *program)
{
	for (int i = 0; i < 12 && program->op_count > 0; i++) {
		struct twt_program_op *op =
			&program->ops[twt_program_below(program, (uint64_t)program->op_count)];

		if (op->op != NULL && op->end == TWT_PROGRAM_OPEN)
			return op;
	}
	return NULL;
}
