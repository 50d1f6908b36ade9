/* exchange.c - see exchange.h. */
#include "bench/peers/programs/exchange.h"

#include <stdlib.h>

#include "bench/peers/programs/peer.h"

#define ORDER_MAGIC   0x746f7772u
#define LARGEST_BYTES ((uint64_t)1 << 30)
#define STREAM_MOST   100000u
#define RATE_WARM     20000u
#define RATE_S        0.2

enum order_kind { ORDER_QUIT, ORDER_ECHO, ORDER_STREAM };

struct order {
	uint32_t magic, kind;
	uint64_t bytes, count;
	uint32_t slots, unused;
};

static void check_order(const struct order *order)
{
	if (order->magic != ORDER_MAGIC || order->kind > ORDER_STREAM)
		peer_end(1, "the message that came is not an order of this program");
	if (order->kind == ORDER_QUIT)
		return;
	if (order->bytes < 1 || order->bytes > LARGEST_BYTES || order->slots < 1 ||
	    order->slots > PEER_SPAN ||
	    (order->slots > 1 && order->slots > PEER_SPAN / order->bytes))
		peer_end(1, "an order asks for %u times %llu bytes of memory", order->slots,
			 (unsigned long long)order->bytes);
}

static void serve_order(const struct exchange *by, const struct order *order, char *memory)
{
	double before_s = peer_cpu_s(), used_s;

	for (uint64_t i = 0; i < order->count; i++) {
		by->receive(memory + i % order->slots * order->bytes, order->bytes);
		if (order->kind == ORDER_ECHO)
			by->send(memory, order->bytes);
	}
	if (order->kind == ORDER_STREAM) {
		used_s = peer_cpu_s() - before_s;
		by->send(&used_s, sizeof(used_s));
	}
}

void exchange_serve(const struct exchange *by)
{
	uint64_t have_bytes = PEER_SPAN;
	char *memory = peer_memory(have_bytes);
	struct order order = { .kind = ORDER_ECHO };

	while (order.kind != ORDER_QUIT) {
		by->receive(&order, sizeof(order));
		check_order(&order);
		if (order.kind != ORDER_QUIT && order.bytes > have_bytes) {
			free(memory);
			have_bytes = order.bytes;
			memory = peer_memory(have_bytes);
		}
		if (order.kind != ORDER_QUIT)
			serve_order(by, &order, memory);
	}
	free(memory);
}

static void time_echoes(const struct exchange *by, uint64_t bytes, char *memory)
{
	unsigned count = peer_iters(bytes), warm = count / 10;
	double *each = calloc(count, sizeof(*each));
	struct order order = { ORDER_MAGIC, ORDER_ECHO, bytes, (uint64_t)count + warm, 1, 0 };

	if (each == NULL)
		peer_end(1, "there is no memory for %u latencies", count);
	by->send(&order, sizeof(order));
	for (unsigned i = 0; i < count + warm; i++) {
		double begin_s = peer_now_s();

		by->send(memory, bytes);
		by->receive(memory, bytes);
		if (i >= warm)
			each[i - warm] = (peer_now_s() - begin_s) / 2;
	}
	peer_print_latency(bytes, each, count);
	free(each);
}

/*
 * Sends `count` messages. Returns the seconds until the server has received them; *cpu_s is the CPU
 * time of both sides.
 */
static double send_stream(const struct exchange *by, uint64_t bytes, uint64_t count, unsigned slots,
			  char *memory, double *cpu_s)
{
	struct order order = { ORDER_MAGIC, ORDER_STREAM, bytes, count, slots, 0 };
	double begin_s, used_s, theirs_s = 0;

	by->send(&order, sizeof(order));
	begin_s = peer_now_s();
	used_s = peer_cpu_s();
	for (uint64_t i = 0; i < count; i++)
		by->send(memory + i % slots * bytes, bytes);
	by->receive(&theirs_s, sizeof(theirs_s));
	begin_s = peer_now_s() - begin_s;
	*cpu_s = theirs_s + peer_cpu_s() - used_s;
	return begin_s;
}

static void time_stream(const struct exchange *by, enum peer_op op, uint64_t bytes, char *memory)
{
	bool rate = op == PEER_RATE;
	uint64_t count = rate ? RATE_WARM : peer_messages(bytes, STREAM_MOST);
	unsigned slots = peer_slots(bytes, op == PEER_BW_SPREAD);
	double seconds, cpu_s;

	seconds = send_stream(by, bytes, rate ? count : count / 10 + 1, slots, memory, &cpu_s);
	if (rate) /* as many as fit the time of a rate */
		count = (uint64_t)((double)count / seconds * RATE_S) + 1;
	seconds = send_stream(by, bytes, count, slots, memory, &cpu_s);
	peer_print_stream(op, bytes, count, seconds, cpu_s);
}

void exchange_drive(const struct exchange *by)
{
	const struct peer_settings *settings = &peer_settings;
	struct order quit = { .magic = ORDER_MAGIC, .kind = ORDER_QUIT };
	char *memory = peer_walk_memory();

	for (unsigned i = 0; (settings->ops & PEER_LAT) != 0 && i < settings->lat.count; i++)
		time_echoes(by, settings->lat.bytes[i], memory);
	for (enum peer_op op = PEER_BW; op <= PEER_BW_SPREAD; op <<= 1)
		for (unsigned i = 0; (settings->ops & op) != 0 && i < settings->bw.count; i++)
			time_stream(by, op, settings->bw.bytes[i], memory);
	if ((settings->ops & PEER_RATE) != 0)
		time_stream(by, PEER_RATE, PEER_RATE_BYTES, memory);
	by->send(&quit, sizeof(quit));
	free(memory);
}
