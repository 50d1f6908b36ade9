/*
 * test_channels.c - message channels in every cell of the conformance suite (conform.h): what
 * matches, what waits for credit and what does not, what ends when a channel or its peer is closed.
 */
#include "cell_bad.h"
#include "conform.h"

#include <towline/channel.h>

#define LARGE    600001
#define CHANNELS 3u /* and the peer itself is number 0 */

/* Of 4 KiB and its frame so many fit into the credit of 2 MiB; these are more. */
#define FLOOD       600u
#define FLOOD_BYTES 4096u

static struct tow_channel *channels[2][CHANNELS]; /* of each end */

static const char *name_of(int status)
{
	return tow_status_name(status);
}

static void open_channel(struct twt_end *end, unsigned number)
{
	twt_ok(end, tow_channel_open(end->peer, number, &channels[end->which][number]));
}

static void begin_on(struct twt_end *end, struct twt_doing *doing, unsigned number,
		     uint64_t timeout_ns)
{
	twt_begin(end, doing, timeout_ns);
	doing->options.channel = channels[end->which][number];
}

static void send_on(struct twt_end *end, struct twt_doing *doing, unsigned number,
		    const uint8_t *data, uint32_t bytes, uint64_t tag)
{
	begin_on(end, doing, number, TOW_FOREVER);
	twt_ok(end, tow_send_start(end->peer, data, bytes, tag, &doing->options, &doing->op));
}

static void recv_on(struct twt_end *end, struct twt_doing *doing, unsigned number, uint8_t *data,
		    uint32_t room, uint64_t tag)
{
	begin_on(end, doing, number, TOW_FOREVER);
	twt_ok(end, tow_recv_start(end->peer, data, room, tag, &doing->options, &doing->op));
}

/* Nothing is sent before the other side has opened the channel. */
static void open_late(struct twt_end *end)
{
	struct tow_result result;
	struct twt_doing doing;
	int status;

	end->timed = "unexpected_messages,unexpected_bytes";
	if (end->which == 0) {
		open_channel(end, 1);
		twt_data_fill(end->out, 8, 5);
		send_on(end, &doing, 1, end->out, 8, 3);
		twt_say(end, "before the other side has opened it: %s",
			name_of(tow_op_test(doing.op)));
	}
	twt_meet(end);
	if (end->which == 1) {
		open_channel(end, 1);
		recv_on(end, &doing, 1, end->in, 8, 3);
	}
	status = twt_await(end, &doing, &result);
	twt_say(end, "and then: %s %s", name_of(status),
		end->which == 0 ? "sent" : twt_data_judge(end->in, 8, 5));
	open_channel(end, 2);
	twt_meet(end);
}

/* The same tag on each channel, small and large, received in another order than sent. */
static void exchange(struct twt_end *end)
{
	static const uint32_t sizes[] = { 0, 8, 4096, 65536, LARGE };
	struct twt_doing doing[CHANNELS];
	struct tow_result result;

	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (unsigned i = 0; i < CHANNELS; i++) {
			unsigned number = end->which == 0 ? i : (i + 2) % CHANNELS;
			size_t at = (size_t)number * (LARGE + 61);

			if (end->which == 0) {
				twt_data_fill(end->out + at, sizes[s], 10 * s + number);
				send_on(end, &doing[number], number, end->out + at, sizes[s], 7);
			} else {
				recv_on(end, &doing[number], number, end->in + at, sizes[s], 7);
			}
		}
		for (unsigned i = 0; i < CHANNELS; i++) {
			int status = twt_await(end, &doing[i], &result);

			twt_say(end, "%u bytes on channel %u: %s %llu %s", sizes[s], i,
				name_of(status), (unsigned long long)result.bytes,
				end->which == 0 ? "sent"
						: twt_data_judge(end->in + (size_t)i * (LARGE + 61),
								 sizes[s], 10 * s + i));
		}
		twt_meet(end);
	}
}

static struct tow_match of_any_peer(unsigned number)
{
	struct tow_match match = TOW_MATCH_INIT;

	match.tag_mask = 0;
	match.channel = number;
	return match;
}

/* Looks for a message of any peer on this channel until there is one. */
static void probe_any(struct twt_end *end, unsigned number)
{
	const struct tow_match match = of_any_peer(number);
	struct tow_result result = TOW_RESULT_INIT;
	uint64_t until = twt_cell_now() + TWT_CELL_NS;
	int status;

	while ((status = tow_probe(end->endpoint, &match, &result)) == TOW_AGAIN &&
	       twt_cell_now() < until)
		twt_idle(end);
	twt_say(end, "probe of any peer on channel %u: %s %llu tag %llu, peer %s", number,
		name_of(status), (unsigned long long)result.bytes, (unsigned long long)result.tag,
		result.peer == end->peer ? "right" : "WRONG");
}

static void recv_any(struct twt_end *end, struct twt_doing *doing, unsigned number)
{
	const struct tow_part part = { end->in + (size_t)number * (LARGE + 61), LARGE };
	const struct tow_match match = of_any_peer(number);

	twt_begin(end, doing, TOW_FOREVER);
	twt_ok(end,
	       tow_recv_match_start(end->endpoint, &match, &part, 1, &doing->options, &doing->op));
}

/* Receives of any tag and any peer, each on its channel, posted first or when all has come. */
static void any_peer(struct twt_end *end, uint32_t bytes, bool posted)
{
	struct twt_doing doing[CHANNELS];
	struct tow_result result;

	twt_meet(end);
	for (unsigned i = 0; end->which == 1 && posted && i < CHANNELS; i++)
		recv_any(end, &doing[i], i);
	twt_meet(end);
	for (unsigned i = 0; end->which == 0 && i < CHANNELS; i++) {
		uint8_t *at = end->out + (size_t)i * (LARGE + 61);

		twt_data_fill(at, bytes, 70 + i);
		send_on(end, &doing[i], i, at, bytes, 100 + i);
	}
	for (unsigned i = CHANNELS; end->which == 1 && !posted && i-- > 0;) {
		probe_any(end, i);
		recv_any(end, &doing[i], i);
	}
	for (unsigned i = 0; i < CHANNELS; i++) {
		int status = twt_await(end, &doing[i], &result);

		twt_say(end, "%u bytes of any peer on channel %u: %s tag %llu %s", bytes, i,
			name_of(status), (unsigned long long)result.tag,
			end->which == 0 ? "sent"
					: twt_data_judge(end->in + (size_t)i * (LARGE + 61), bytes,
							 70 + i));
	}
}

/* A message on each of the others, while one channel is full. */
static void pass_beside(struct twt_end *end, unsigned full)
{
	struct tow_result result;
	struct twt_doing doing;

	for (unsigned number = 0; number < CHANNELS; number++) {
		const uint32_t bytes = number == 0 ? 100 : LARGE;
		int status;

		if (number == full)
			continue;
		if (end->which == 0) {
			twt_data_fill(end->out, bytes, 90 + number);
			send_on(end, &doing, number, end->out, bytes, 8);
		} else {
			recv_on(end, &doing, number, end->in, bytes, 8);
		}
		status = twt_await(end, &doing, &result);
		twt_say(end, "on channel %u beside: %s %s", number, name_of(status),
			end->which == 0 ? "sent" : twt_data_judge(end->in, bytes, 90 + number));
	}
}

/* Nobody receives on one channel; then all of it comes, in order. */
static void flood(struct twt_end *end, unsigned full)
{
	static struct twt_doing doings[2][FLOOD];
	struct twt_doing *doing = doings[end->which];
	struct tow_result result;
	unsigned good = 0;

	twt_meet(end);
	for (unsigned i = 0; end->which == 0 && i < FLOOD; i++) {
		uint8_t *at = end->out + LARGE + 61 + (i % 97) * FLOOD_BYTES;

		if (i < 97)
			twt_data_fill(at, FLOOD_BYTES, i);
		send_on(end, &doing[i], full, at, FLOOD_BYTES, 9);
	}
	if (end->which == 0)
		twt_say(end, "channel %u: the last one %s", full,
			name_of(tow_op_test(doing[FLOOD - 1].op)));
	twt_meet(end);
	pass_beside(end, full);
	for (unsigned i = 0; i < FLOOD; i++) {
		if (end->which == 1)
			recv_on(end, &doing[i], full, end->in, FLOOD_BYTES, 9);
		good += twt_await(end, &doing[i], &result) == TOW_OK &&
			(end->which == 0 ||
			 strcmp(twt_data_judge(end->in, FLOOD_BYTES, i % 97), "right") == 0);
	}
	twt_say(end, "channel %u: %u of %u", full, good, FLOOD);
	twt_meet(end);
}

static void give_up(struct twt_end *end)
{
	struct tow_result result;
	struct twt_doing doing;

	if (end->which == 0)
		return;
	recv_on(end, &doing, 2, end->in, 8, 4);
	twt_ok(end, tow_op_cancel(doing.op));
	twt_say(end, "canceled: %s", name_of(twt_await(end, &doing, &result)));
	begin_on(end, &doing, 2, 20000000);
	twt_ok(end, tow_recv_start(end->peer, end->in, 8, 4, &doing.options, &doing.op));
	twt_say(end, "past its deadline: %s", name_of(twt_await(end, &doing, &result)));
}

/* End 1 closes channel 1; what it has sent before is there, and the others go on. */
static void close_one(struct twt_end *end)
{
	struct tow_result result;
	struct twt_doing doing[4];
	struct tow_channel *again;
	int status;

	twt_meet(end);
	if (end->which == 1) {
		twt_data_fill(end->out, LARGE, 31);
		send_on(end, &doing[0], 1, end->out, 100, 21);
		twt_say(end, "sent before the end: %s",
			name_of(twt_await(end, &doing[0], &result)));
		send_on(end, &doing[1], 1, end->out, LARGE, 22);
		recv_on(end, &doing[2], 1, end->in, LARGE, 23);
	} else {
		twt_data_fill(end->out, LARGE, 32);
		send_on(end, &doing[0], 1, end->out, LARGE, 24);
		recv_on(end, &doing[1], 1, end->in, LARGE, 25);
	}
	twt_meet(end);
	if (end->which == 1)
		twt_ok(end, tow_channel_close(channels[1][1]));
	for (unsigned i = end->which; i < 2 + (unsigned)end->which; i++)
		twt_say(end, "operation %u: %s", i, name_of(twt_await(end, &doing[i], &result)));
	if (end->which == 0) {
		recv_on(end, &doing[0], 1, end->in, 100, 21);
		status = twt_await(end, &doing[0], &result);
		twt_say(end, "what had come: %s %s", name_of(status),
			twt_data_judge(end->in, 100, 31));
		send_on(end, &doing[0], 1, end->out, 8, 3);
		twt_say(end, "a send then: %s", name_of(twt_await(end, &doing[0], &result)));
		recv_on(end, &doing[0], 1, end->in, 8, 3);
		twt_say(end, "a receive then: %s", name_of(twt_await(end, &doing[0], &result)));
	} else {
		twt_say(end, "a close again: %s", name_of(tow_channel_close(channels[1][1])));
		twt_say(end, "an open: %s", name_of(tow_channel_open(end->peer, 1, &again)));
	}
	pass_beside(end, 1);
	twt_meet(end);
}

/* Both have closed it: the number is a new channel, with all its credit. */
static void open_again(struct twt_end *end)
{
	uint64_t until = twt_cell_now() + TWT_CELL_NS;
	int status;

	if (end->which == 0)
		twt_ok(end, tow_channel_close(channels[0][1]));
	twt_meet(end);
	while ((status = tow_channel_open(end->peer, 1, &channels[end->which][1])) == TOW_EBUSY &&
	       twt_cell_now() < until)
		twt_idle(end);
	twt_say(end, "opened again: %s", name_of(status));
	twt_meet(end);
	flood(end, 1);
}

static void part(struct twt_end *end)
{
	struct tow_result result;
	struct twt_doing doing;

	recv_on(end, &doing, 2, end->in, 8, 3);
	twt_meet(end);
	if (end->which == 0) {
		twt_ok(end, tow_peer_close(end->peer));
		end->peer = NULL;
	}
	twt_say(end, "a receive when the peer ends: %s", name_of(twt_await(end, &doing, &result)));
	twt_say(end, "a close then: %s", name_of(tow_channel_close(channels[end->which][2])));
	if (end->which == 1)
		twt_ok(end, tow_peer_close(end->peer));
	end->peer = NULL;
}

static void play(struct twt_end *end)
{
	open_late(end);
	exchange(end);
	for (unsigned posted = 0; posted < 2; posted++) {
		any_peer(end, 40, posted);
		any_peer(end, LARGE, posted);
	}
	for (unsigned full = 0; full < CHANNELS; full++)
		flood(end, full);
	give_up(end);
	close_one(end);
	open_again(end);
	part(end);
}

/* --- memory that cannot be read or written --- */

static void bad_on_channel(struct twt_end *end, enum twt_bad bad, bool receives)
{
	bool mine = receives == (end->which == 1);
	uint8_t *at = mine ? twt_bad_take(end, bad, end->which == 1)
			   : twt_bad_take(end, TWT_GOOD, end->which == 1);
	struct tow_result result;
	struct twt_doing doing;

	twt_meet(end);
	if (end->which == 1) {
		recv_on(end, &doing, 1, at, TWT_BAD_BYTES - 8, 7);
		twt_meet(end);
	} else {
		twt_meet(end);
		send_on(end, &doing, 1, at, TWT_BAD_BYTES - 8, 7);
	}
	twt_await_kept(end, &doing, &result);
	twt_say(end, "%s at who %s: %s", twt_bad_names[bad], receives ? "receives" : "sends",
		name_of(result.status));
	twt_ok(end, tow_op_release(doing.op));
	twt_bad_give(at, mine ? bad : TWT_GOOD);
}

static void play_bad(struct twt_end *end)
{
	open_late(end);
	twt_bad_each(end, bad_on_channel);
}

int main(void)
{
	return twt_conform(TWT_CHANNELS, play, play_bad);
}
