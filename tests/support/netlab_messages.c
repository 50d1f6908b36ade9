/* netlab_messages.c - messages of a run between two namespaces. */
#include "netlab_messages.h"

static bool twt_nl_send_next(struct twt_nl_traffic *t, struct twt_nl_send *slot)
{
	struct tow_op_options options = twt_nl_options(t);
	const uint64_t number = t->next_send;
	const enum twt_nl_fate fate = twt_nl_fate_of(t->plan, t->side, number);

	slot->number = number;
	slot->bytes = twt_nl_bytes(t->plan, t->side, number);
	twt_nl_fill(slot->data, slot->bytes, twt_nl_key(t->plan, t->side, number));
	slot->cancel_ns =
		fate == NL_CANCELED ? twt_nl_now() + twt_random_below(&t->random, 3 * NL_MS) : 0;
	if (fate == NL_HURRIED)
		options.timeout_ns = twt_random_below(&t->random, 3 * NL_MS);
	t->next_send++;
	return twt_nl_started(
		t, "send", number,
		tow_send_start(t->peer, slot->data, slot->bytes, number, &options, &slot->op));
}

/* May a send of this fate end so? */
static bool twt_nl_right(enum twt_nl_fate fate, int status)
{
	return (status == TOW_ECANCELED && (fate == NL_CANCELED || fate == NL_REFUSED)) ||
	       (status == TOW_EDEADLINE && fate == NL_HURRIED);
}

bool twt_nl_step_send(struct twt_nl_traffic *t, struct twt_nl_send *slot)
{
	uint64_t bytes;
	int status;

	if (slot->op == NULL && t->next_send < t->plan->messages && !t->gone)
		return twt_nl_send_next(t, slot);
	if (slot->op != NULL && slot->cancel_ns != 0 && twt_nl_now() >= slot->cancel_ns) {
		slot->cancel_ns = 0;
		tow_op_cancel(slot->op);
	}
	if (!twt_nl_ended(t, &slot->op, &status, &bytes))
		return true;
	if (status == TOW_OK || status == TOW_COPIED) {
		t->count->sent++;
		t->count->sent_bytes += slot->bytes;
	} else if (twt_nl_right(twt_nl_fate_of(t->plan, t->side, slot->number), status)) {
		t->withdrawn[t->withdrawn_count++] = slot->number;
		t->count->withdrawn++;
	} else if (!twt_nl_excused(t, status)) {
		return twt_nl_fail(t, "a send", slot->number, status);
	}
	return true;
}

static bool twt_nl_receive_again(struct twt_nl_traffic *t, struct twt_nl_send *slot)
{
	memset(slot->data, 0x5c, slot->bytes < 64 ? slot->bytes : 64);
	return twt_nl_hear(t, slot->data, slot->bytes, slot->number, &slot->op);
}

static bool twt_nl_receive_next(struct twt_nl_traffic *t, struct twt_nl_send *slot)
{
	while (t->next_receive < t->plan->messages && t->came[t->next_receive] == NL_WITHDRAWN)
		t->next_receive++;
	if (t->next_receive == t->plan->messages)
		return true;
	slot->number = t->next_receive++;
	slot->bytes = twt_nl_bytes(t->plan, !t->side, slot->number);
	slot->cancel_ns = 0;
	if (twt_nl_fate_of(t->plan, !t->side, slot->number) == NL_REFUSED)
		slot->cancel_ns = twt_nl_now() + twt_random_below(&t->random, 3 * NL_MS);
	t->came[slot->number] = NL_POSTED;
	return twt_nl_receive_again(t, slot);
}

static bool twt_nl_hurried(const struct twt_nl_traffic *t, uint64_t number)
{
	return twt_nl_fate_of(t->plan, !t->side, number) == NL_HURRIED;
}

/* Whose words they are where a message is not what it should be: a hint for who seeks a fault. */
static bool twt_nl_changed(struct twt_nl_traffic *t, const struct twt_nl_send *slot, uint64_t bytes)
{
	static const char *const fates[] = { "arrives", "canceled", "hurried", "refused" };
	const uint64_t key = twt_nl_key(t->plan, !t->side, slot->number);
	uint64_t at = 0, last = 0, bad = 0, of = 0, word, n;
	char what[160];

	for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
		word = twt_nl_word(key, i);
		if (memcmp(slot->data + i, &word, 8) == 0)
			continue;
		at = bad++ == 0 ? i : at;
		last = i;
	}
	memcpy(&of, slot->data + at, bytes - at < 8 ? bytes - at : 8);
	for (n = 0; n < t->plan->messages; n++) {
		if (twt_nl_word(twt_nl_key(t->plan, !t->side, n), at) == of)
			break;
	}
	snprintf(what, sizeof(what),
		 "a message arrived changed (%s, state %d, %llu of %llu bytes, %llu words wrong in "
		 "%llu..%llu, first %#llx of message %llu)",
		 fates[twt_nl_fate_of(t->plan, !t->side, slot->number)], t->came[slot->number],
		 (unsigned long long)bytes, (unsigned long long)slot->bytes,
		 (unsigned long long)bad, (unsigned long long)at, (unsigned long long)last,
		 (unsigned long long)of, (unsigned long long)n);
	return twt_nl_fail(t, what, slot->number, 0);
}

static bool twt_nl_arrived(struct twt_nl_traffic *t, const struct twt_nl_send *slot, uint64_t bytes)
{
	const bool late = t->came[slot->number] == NL_WITHDRAWN;

	if (late && !twt_nl_hurried(t, slot->number))
		return twt_nl_fail(t, "a message arrived that was taken back", slot->number, 0);
	if (bytes != slot->bytes ||
	    !twt_nl_is(slot->data, bytes, twt_nl_key(t->plan, !t->side, slot->number)))
		return twt_nl_changed(t, slot, bytes);
	if (late) {
		t->count->late++;
		return true;
	}
	t->came[slot->number] = NL_RECEIVED;
	t->count->received++;
	t->count->received_bytes += bytes;
	return true;
}

/*
 * A cancel that finds payload on its way is not carried out; when the sender takes the message back
 * after all, the receive waits again. So a receive that nothing is to come for is canceled again.
 */
static void twt_nl_cancel_due(const struct twt_nl_traffic *t, struct twt_nl_send *slot)
{
	if (slot->op == NULL || slot->cancel_ns == 0 || twt_nl_now() < slot->cancel_ns)
		return;
	slot->cancel_ns = t->came[slot->number] == NL_WITHDRAWN ? twt_nl_now() + NL_MS : 0;
	tow_op_cancel(slot->op);
}

bool twt_nl_step_receive(struct twt_nl_traffic *t, struct twt_nl_send *slot)
{
	uint64_t bytes;
	int status;

	if (slot->op == NULL && t->next_receive < t->plan->messages && !t->gone)
		return twt_nl_receive_next(t, slot);
	twt_nl_cancel_due(t, slot);
	if (!twt_nl_ended(t, &slot->op, &status, &bytes))
		return true;
	if (status == TOW_OK || status == TOW_COPIED)
		return twt_nl_arrived(t, slot, bytes);
	if (status == TOW_ECANCELED && t->came[slot->number] == NL_WITHDRAWN)
		return true;
	/* Refused once: it still comes, or its sender says that it does not. */
	if (status == TOW_ECANCELED &&
	    twt_nl_fate_of(t->plan, !t->side, slot->number) == NL_REFUSED) {
		t->count->refused++;
		return twt_nl_receive_again(t, slot);
	}
	return twt_nl_excused(t, status) || twt_nl_fail(t, "a receive", slot->number, status);
}

bool twt_nl_idle(const struct twt_nl_send *slots)
{
	for (int i = 0; i < NL_WINDOW; i++) {
		if (slots[i].op != NULL)
			return false;
	}
	return true;
}

bool twt_nl_step_notices_out(struct twt_nl_traffic *t)
{
	const bool sent = t->next_send == t->plan->messages && twt_nl_idle(t->send);
	uint64_t bytes;
	int status;

	if (twt_nl_ended(t, &t->notice_out, &status, &bytes)) {
		if (status != TOW_OK && !twt_nl_excused(t, status))
			return twt_nl_fail(t, "a notice", t->notice_words[0], status);
		t->all_said |= t->notice_words[0] == t->plan->messages;
	}
	if (t->notice_out != NULL || t->all_said || t->gone)
		return true;
	if (t->withdrawn_said < t->withdrawn_count)
		t->notice_words[0] = t->withdrawn[t->withdrawn_said++];
	else if (sent)
		t->notice_words[0] = t->plan->messages;
	else
		return true;
	return twt_nl_say(t, t->notice_words, 8, NL_NOTICE, &t->notice_out);
}

/* "Message `number` will not come." This side may not have posted for it yet. */
static bool twt_nl_take_notice(struct twt_nl_traffic *t, uint64_t number)
{
	if (number >= t->plan->messages || t->came[number] == NL_WITHDRAWN)
		return twt_nl_fail(t, "a message was taken back twice", number, 0);
	if (t->came[number] == NL_RECEIVED) {
		if (!twt_nl_hurried(t, number))
			return twt_nl_fail(t, "a message was taken back that had come", number, 0);
		t->count->received--;
		t->count->received_bytes -= twt_nl_bytes(t->plan, !t->side, number);
		t->count->late++;
	}
	t->came[number] = NL_WITHDRAWN;
	for (int i = 0; i < NL_WINDOW; i++) {
		if (t->receive[i].op != NULL && t->receive[i].number == number)
			t->receive[i].cancel_ns = 1;
	}
	return true;
}

bool twt_nl_step_notices_in(struct twt_nl_traffic *t)
{
	uint64_t bytes;
	int status;

	if (twt_nl_ended(t, &t->notice_in, &status, &bytes)) {
		if (status != TOW_OK)
			return twt_nl_excused(t, status) ||
			       twt_nl_fail(t, "hearing a notice", 0, status);
		t->all_heard = t->notice_words[1] == t->plan->messages;
		if (!t->all_heard && !twt_nl_take_notice(t, t->notice_words[1]))
			return false;
	}
	if (t->notice_in != NULL || t->all_heard || t->gone)
		return true;
	return twt_nl_hear(t, &t->notice_words[1], 8, NL_NOTICE, &t->notice_in);
}
