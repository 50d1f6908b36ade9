/*
 * Fuzzes the job's store: the frames of several members and of strangers, as bytes that came over
 * their connections, and time that passes. Whatever they say, replies are legal frames, each
 * request has at most one, and memory is within the bounds and given back.
 *
 * Input: commands. A byte: low four bits the connection, high four bits what:
 *   0 to 9   u16 n, then n bytes that it sends
 *   10       it hangs up, and another takes its place
 *   11       it greets well, as the rank of the next byte
 *   12       time passes: u16 times 10 ms
 *   13 to 15 it puts one well-formed request: kind, key and value of the next bytes
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/status.h>

#include "transport/job/store.h"

#define CONNECTIONS 16
#define CLIENTS     12
#define RANKS       5
#define KEPT        4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct connection {
	uint32_t client; /* UINT32_MAX: none */
	size_t used;
	int asked; /* requests without a reply */
	uint8_t bytes[KEPT];
};

static struct connection connections[CONNECTIONS];
static uint32_t of_client[CLIENTS];
static struct twi_store *store;
static uint64_t now;

static void expect_at(int truth, int line)
{
	if (truth)
		return;
	fprintf(stderr, "fuzz_store.c:%d: not so\n", line);
	abort();
}
#define expect(truth) expect_at(truth, __LINE__)

static void on_reply(void *arg, uint32_t client, const struct twi_store_frame *frame)
{
	static uint8_t out[TWI_STORE_FRAME_MAX];
	struct twi_store_frame again;
	size_t used = 0, count;

	(void)arg;
	expect(client < CLIENTS && of_client[client] < CONNECTIONS);
	expect(connections[of_client[client]].asked-- == 1);
	expect((frame->kind & TWI_STORE_REPLY) != 0);
	count = twi_store_encode(frame, out);
	expect(twi_store_decode(out, count, &again, &used) == TOW_OK && used == count);
}

static void leave_store(struct connection *connection)
{
	if (connection->client != UINT32_MAX) {
		twi_store_leave(store, connection->client, now);
		of_client[connection->client] = UINT32_MAX;
	}
	connection->client = UINT32_MAX;
	connection->used = 0;
	connection->asked = 0;
}

static void enter_store(uint32_t index)
{
	struct connection *connection = &connections[index];

	leave_store(connection);
	connection->client = twi_store_enter(store);
	if (connection->client != UINT32_MAX)
		of_client[connection->client] = index;
}

static void ask_store(struct connection *connection, const struct twi_store_frame *frame)
{
	if (connection->client == UINT32_MAX)
		return;
	connection->asked++;
	if (twi_store_request(store, connection->client, frame, now) < 0)
		leave_store(connection);
}

/* Frames out of what has come; as a server does, it hangs up on what is none. */
static void parse_frames(struct connection *connection)
{
	struct twi_store_frame frame;
	size_t at = 0, used;
	int status = TOW_AGAIN;

	while (connection->client != UINT32_MAX) {
		status = twi_store_decode(connection->bytes + at, connection->used - at, &frame,
					  &used);
		if (status != TOW_OK)
			break;
		at += used;
		ask_store(connection, &frame);
	}
	if (connection->client == UINT32_MAX || status < 0 ||
	    (at == 0 && connection->used == KEPT)) {
		leave_store(connection);
		return;
	}
	connection->used -= at;
	memmove(connection->bytes, connection->bytes + at, connection->used);
}

static void greet_store(struct connection *connection, uint32_t rank)
{
	uint8_t hello[TWI_STORE_HELLO];
	const struct twi_store_frame frame = { .kind = TWI_STORE_KIND_HELLO,
					       .number = 1,
					       .a = twi_store_pair(rank, RANKS),
					       .b = rank + 1,
					       .key = "job",
					       .key_bytes = 3,
					       .value = hello,
					       .value_bytes = sizeof(hello) };

	twi_store_hello_put(hello, TWI_STORE_VERSION, 0);
	ask_store(connection, &frame);
}

/* Bytes of the input, zero when there are no more. */
struct input {
	const uint8_t *at, *end;
};

static uint8_t next_byte(struct input *input)
{
	return input->at < input->end ? *input->at++ : 0;
}

static uint32_t next_word(struct input *input)
{
	uint32_t low = next_byte(input);

	return low | (uint32_t)next_byte(input) << 8;
}

static void put_request(struct input *input, struct connection *connection)
{
	char key[3] = { 'k', 0, 0 };
	struct twi_store_frame frame = { .kind = (uint8_t)(next_byte(input) % TWI_STORE_KIND_END) };
	uint8_t shape = next_byte(input);

	key[1] = (char)('a' + shape % 4);
	frame.key = key;
	frame.key_bytes = 2;
	frame.number = next_byte(input);
	frame.wait_ms = shape;
	frame.a = twi_store_pair(shape >> 4, 1 + (shape >> 2 & 3));
	frame.b = twi_store_pair(next_byte(input) % 4, shape >> 7);
	frame.value = input->at;
	frame.value_bytes = next_byte(input);
	if (frame.value_bytes > (size_t)(input->end - frame.value))
		frame.value_bytes = (uint32_t)(input->end - frame.value);
	ask_store(connection, &frame);
}

static void feed_store(struct input *input, struct connection *connection)
{
	size_t count = next_word(input), left = (size_t)(input->end - input->at);

	if (count > left)
		count = left;
	if (count > KEPT - connection->used)
		count = KEPT - connection->used;
	memcpy(connection->bytes + connection->used, input->at, count);
	connection->used += count;
	input->at += count;
	parse_frames(connection);
}

static void input_step(struct input *input)
{
	uint8_t command = next_byte(input);
	struct connection *connection = &connections[command % CONNECTIONS];

	switch (command >> 4) {
	case 10:
		enter_store(command % CONNECTIONS);
		break;
	case 11:
		greet_store(connection, next_byte(input) % RANKS);
		break;
	case 12:
		now += (uint64_t)next_word(input) * 10000000;
		twi_store_expire(store, now);
		break;
	case 13:
	case 14:
	case 15:
		put_request(input, connection);
		break;
	default:
		feed_store(input, connection);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct twi_store_config config = { .world_size = RANKS,
						 .clients_max = CLIENTS,
						 .session = 7,
						 .job = "job",
						 .reply = on_reply };
	struct input input = { data, data + size };
	uint64_t again_ns;

	now = 1;
	expect(twi_store_create(&config, &store) == TOW_OK);
	for (uint32_t i = 0; i < CLIENTS; i++)
		of_client[i] = UINT32_MAX;
	for (uint32_t i = 0; i < CONNECTIONS; i++) {
		connections[i] = (struct connection){ .client = UINT32_MAX };
		enter_store(i);
	}
	while (input.at < input.end)
		input_step(&input);
	expect(twi_store_bytes(store) <= TWI_STORE_TOTAL_MAX + RANKS * TWI_STORE_RANK_BYTES);
	(void)twi_store_is_done(store, UINT64_MAX, &again_ns);
	expect(again_ns == UINT64_MAX); /* by then nobody who has gone is waited for */
	twi_store_destroy(store);
	return 0;
}
