/*
 * netlab_messages.h - the messages of a side, and the notices of those that will not come. See
 * netlab_traffic.h.
 */
#ifndef TWT_NETLAB_MESSAGES_H
#define TWT_NETLAB_MESSAGES_H

#include "netlab_traffic.h"

static inline bool nl_send_next(struct nl_traffic *t, struct nl_send *slot)
{
	struct tow_op_options options = nl_options(t);
	const uint64_t number = t->next_send;
	const enum nl_fate fate = nl_fate_of(t->plan, t->side, number);

	slot->number = number;
	slot->bytes = nl_bytes(t->plan, t->side, number);
	nl_fill(slot->data, slot->bytes, nl_key(t->plan, t->side, number));
	slot->cancel_ns =
		fate == NL_CANCELED ? nl_now() + twt_random_below(&t->random, 3 * NL_MS) : 0;
	if (fate == NL_HURRIED)
		options.timeout_ns = twt_random_below(&t->random, 3 * NL_MS);
	t->next_send++;
	return nl_started(
		t, "send", number,
		tow_send_start(t->peer, slot->data, slot->bytes, number, &options, &slot->op));
}

/* May a send of this fate end so? */
static inline bool nl_right(enum nl_fate fate, int status)
{
	return (status == TOW_ECANCELED && (fate == NL_CANCELED || fate == NL_REFUSED)) ||
	       (status == TOW_EDEADLINE && fate == NL_HURRIED);
}

static inline bool nl_step_send(struct nl_traffic *t, struct nl_send *slot)
{
	uint64_t bytes;
	int status;

	if (slot->op == NULL && t->next_send < t->plan->messages && !t->gone)
		return nl_send_next(t, slot);
	if (slot->op != NULL && slot->cancel_ns != 0 && nl_now() >= slot->cancel_ns) {
		slot->cancel_ns = 0;
		tow_op_cancel(slot->op);
	}
	if (!nl_ended(t, &slot->op, &status, &bytes))
		return true;
	if (status == TOW_OK || status == TOW_COPIED) {
		t->count->sent++;
		t->count->sent_bytes += slot->bytes;
	} else if (nl_right(nl_fate_of(t->plan, t->side, slot->number), status)) {
		t->withdrawn[t->withdrawn_count++] = slot->number;
		t->count->withdrawn++;
	} else if (!nl_excused(t, status)) {
		return nl_fail(t, "a send", slot->number, status);
	}
	return true;
}

static inline bool nl_receive_again(struct nl_traffic *t, struct nl_send *slot)
{
	memset(slot->data, 0x5c, slot->bytes < 64 ? slot->bytes : 64);
	return nl_hear(t, slot->data, slot->bytes, slot->number, &slot->op);
}

static inline bool nl_receive_next(struct nl_traffic *t, struct nl_send *slot)
{
	while (t->next_receive < t->plan->messages && t->came[t->next_receive] == NL_WITHDRAWN)
		t->next_receive++;
	if (t->next_receive == t->plan->messages)
		return true;
	slot->number = t->next_receive++;
	slot->bytes = nl_bytes(t->plan, !t->side, slot->number);
	slot->cancel_ns = 0;
	if (nl_fate_of(t->plan, !t->side, slot->number) == NL_REFUSED)
		slot->cancel_ns = nl_now() + twt_random_below(&t->random, 3 * NL_MS);
	t->came[slot->number] = NL_POSTED;
	return nl_receive_again(t, slot);
}

static inline bool nl_hurried(const struct nl_traffic *t, uint64_t number)
{
	return nl_fate_of(t->plan, !t->side, number) == NL_HURRIED;
}

/* Whose words they are where a message is not what it should be: a hint for who seeks a fault. */
static inline bool nl_changed(struct nl_traffic *t, const struct nl_send *slot, uint64_t bytes)
{
	static const char *const fates[] = { "arrives", "canceled", "hurried", "refused" };
	const uint64_t key = nl_key(t->plan, !t->side, slot->number);
	uint64_t at = 0, last = 0, bad = 0, of = 0, word, n;
	char what[160];

	for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
		word = nl_word(key, i);
		if (memcmp(slot->data + i, &word, 8) == 0)
			continue;
		at = bad++ == 0 ? i : at;
		last = i;
	}
	memcpy(&of, slot->data + at, bytes - at < 8 ? bytes - at : 8);
	for (n = 0; n < t->plan->messages; n++) {
		if (nl_word(nl_key(t->plan, !t->side, n), at) == of)
			break;
	}
	snprintf(what, sizeof(what),
		 "a message arrived changed (%s, state %d, %llu of %llu bytes, %llu words wrong in "
		 "%llu..%llu, first %#llx of message %llu)",
		 fates[nl_fate_of(t->plan, !t->side, slot->number)], t->came[slot->number],
		 (unsigned long long)bytes, (unsigned long long)slot->bytes,
		 (unsigned long long)bad, (unsigned long long)at, (unsigned long long)last,
		 (unsigned long long)of, (unsigned long long)n);
	return nl_fail(t, what, slot->number, 0);
}

static inline bool nl_arrived(struct nl_traffic *t, const struct nl_send *slot, uint64_t bytes)
{
	const bool late = t->came[slot->number] == NL_WITHDRAWN;

	if (late && !nl_hurried(t, slot->number))
		return nl_fail(t, "a message arrived that was taken back", slot->number, 0);
	if (bytes != slot->bytes ||
	    !nl_is(slot->data, bytes, nl_key(t->plan, !t->side, slot->number)))
		return nl_changed(t, slot, bytes);
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
static inline void nl_cancel_due(const struct nl_traffic *t, struct nl_send *slot)
{
	if (slot->op == NULL || slot->cancel_ns == 0 || nl_now() < slot->cancel_ns)
		return;
	slot->cancel_ns = t->came[slot->number] == NL_WITHDRAWN ? nl_now() + NL_MS : 0;
	tow_op_cancel(slot->op);
}

static inline bool nl_step_receive(struct nl_traffic *t, struct nl_send *slot)
{
	uint64_t bytes;
	int status;

	if (slot->op == NULL && t->next_receive < t->plan->messages && !t->gone)
		return nl_receive_next(t, slot);
	nl_cancel_due(t, slot);
	if (!nl_ended(t, &slot->op, &status, &bytes))
		return true;
	if (status == TOW_OK || status == TOW_COPIED)
		return nl_arrived(t, slot, bytes);
	if (status == TOW_ECANCELED && t->came[slot->number] == NL_WITHDRAWN)
		return true;
	/* Refused once: it still comes, or its sender says that it does not. */
	if (status == TOW_ECANCELED && nl_fate_of(t->plan, !t->side, slot->number) == NL_REFUSED) {
		t->count->refused++;
		return nl_receive_again(t, slot);
	}
	return nl_excused(t, status) || nl_fail(t, "a receive", slot->number, status);
}

static inline bool nl_idle(const struct nl_send *slots)
{
	for (int i = 0; i < NL_WINDOW; i++) {
		if (slots[i].op != NULL)
			return false;
	}
	return true;
}

static inline bool nl_step_notices_out(struct nl_traffic *t)
{
	const bool sent = t->next_send == t->plan->messages && nl_idle(t->send);
	uint64_t bytes;
	int status;

	if (nl_ended(t, &t->notice_out, &status, &bytes)) {
		if (status != TOW_OK && !nl_excused(t, status))
			return nl_fail(t, "a notice", t->notice_words[0], status);
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
	return nl_say(t, t->notice_words, 8, NL_NOTICE, &t->notice_out);
}

/* "Message `number` will not come." This side may not have posted for it yet. */
static inline bool nl_take_notice(struct nl_traffic *t, uint64_t number)
{
	if (number >= t->plan->messages || t->came[number] == NL_WITHDRAWN)
		return nl_fail(t, "a message was taken back twice", number, 0);
	if (t->came[number] == NL_RECEIVED) {
		if (!nl_hurried(t, number))
			return nl_fail(t, "a message was taken back that had come", number, 0);
		t->count->received--;
		t->count->received_bytes -= nl_bytes(t->plan, !t->side, number);
		t->count->late++;
	}
	t->came[number] = NL_WITHDRAWN;
	for (int i = 0; i < NL_WINDOW; i++) {
		if (t->receive[i].op != NULL && t->receive[i].number == number)
			t->receive[i].cancel_ns = 1;
	}
	return true;
}

static inline bool nl_step_notices_in(struct nl_traffic *t)
{
	uint64_t bytes;
	int status;

	if (nl_ended(t, &t->notice_in, &status, &bytes)) {
		if (status != TOW_OK)
			return nl_excused(t, status) || nl_fail(t, "hearing a notice", 0, status);
		t->all_heard = t->notice_words[1] == t->plan->messages;
		if (!t->all_heard && !nl_take_notice(t, t->notice_words[1]))
			return false;
	}
	if (t->notice_in != NULL || t->all_heard || t->gone)
		return true;
	return nl_hear(t, &t->notice_words[1], 8, NL_NOTICE, &t->notice_in);
}

#endif
