/*
 * gloo.cc - Gloo over its tcp transport, a process for each rank:
 *
 *	peer-gloo RANK RANKS EMPTY-FOLDER INTERFACE [OP...]
 *
 * OP is one of lat, bw, bw_spread, rate (these with two ranks only), allreduce, allgather,
 * reduce_scatter, alltoall, bcast. Sizes have the meaning of mpi_coll.c. The ranks meet by files in
 * the folder.
 */
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/peers/programs/peer.h"

namespace
{

constexpr unsigned tag_echo = 100, tag_answer = 199, tag_stream = 200;
constexpr unsigned tag_barrier = 9000, tag_most = 9001, tag_sum = 9002;
constexpr unsigned rate_window = 256, rate_rounds = 150, rounds_most = 1000;

int this_rank, ranks;
std::shared_ptr<gloo::rendezvous::Context> context;

/* Memory of floats that are 1. */
class floats
{
      public:
	explicit floats(uint64_t bytes)
	    : count(bytes / sizeof(float)), first(static_cast<float *>(peer_memory(bytes)))
	{
		std::fill(first, first + count, 1.0f);
	}
	~floats()
	{
		free(first);
	}
	floats(const floats &) = delete;
	floats &operator=(const floats &) = delete;

	const size_t count;
	float *const first;
};

void wait_for_all()
{
	gloo::BarrierOptions options(context);

	options.setTag(tag_barrier);
	gloo::barrier(options);
}

using reduction = void (*)(void *, const void *, const void *, size_t);

void greater_of(void *out, const void *a, const void *b, size_t count)
{
	auto *x = static_cast<const double *>(a), *y = static_cast<const double *>(b);

	for (size_t i = 0; i < count; i++)
		static_cast<double *>(out)[i] = std::max(x[i], y[i]);
}

void sum_of(void *out, const void *a, const void *b, size_t count)
{
	gloo::sum<double>(out, a, b, count);
}

/* Reduces one number of each rank. */
double reduce_number(double mine, unsigned tag, reduction by)
{
	gloo::AllreduceOptions options(context);
	double out = 0;

	options.setTag(tag);
	options.setInput(&mine, 1);
	options.setOutput(&out, 1);
	options.setReduceFunction(by);
	gloo::allreduce(options);
	return out;
}

void send_one(gloo::transport::UnboundBuffer &buffer, unsigned tag)
{
	buffer.send(1 - this_rank, tag);
	buffer.waitSend();
}

void receive_one(gloo::transport::UnboundBuffer &buffer, unsigned tag)
{
	buffer.recv(1 - this_rank, tag);
	buffer.waitRecv();
}

void time_echoes(uint64_t bytes)
{
	unsigned count = peer_iters(bytes), warm = count / 10;
	std::vector<double> each(count);
	floats memory(bytes);
	auto buffer = context->createUnboundBuffer(memory.first, bytes);

	wait_for_all();
	for (unsigned i = 0; i < count + warm; i++) {
		double begin_s = peer_now_s();

		if (this_rank == 0) {
			send_one(*buffer, tag_echo);
			receive_one(*buffer, tag_echo);
		} else {
			receive_one(*buffer, tag_echo);
			send_one(*buffer, tag_echo);
		}
		if (i >= warm)
			each[i - warm] = (peer_now_s() - begin_s) / 2;
	}
	if (this_rank == 0)
		peer_print_latency(bytes, each.data(), count);
}

using buffers = std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>>;

/* Moves a window of messages in flight, then an answer of one byte. */
void move_window(buffers &walk, size_t first, unsigned window,
		 gloo::transport::UnboundBuffer &answer)
{
	for (unsigned i = 0; i < window; i++) {
		auto &buffer = walk[(first + i) % walk.size()];

		if (this_rank == 0)
			buffer->send(1, tag_stream + i);
		else
			buffer->recv(0, tag_stream + i);
	}
	for (unsigned i = 0; i < window; i++) {
		auto &buffer = walk[(first + i) % walk.size()];

		if (this_rank == 0)
			buffer->waitSend();
		else
			buffer->waitRecv();
	}
	if (this_rank == 0)
		receive_one(answer, tag_answer);
	else
		send_one(answer, tag_answer);
}

void time_stream(enum peer_op op, uint64_t bytes)
{
	bool rate = op == PEER_RATE;
	unsigned window = rate ? rate_window : peer_window(bytes);
	unsigned rounds = rate ? rate_rounds : peer_windows(bytes, window, rounds_most);
	unsigned warm = rounds / 10 + 1, slots = peer_slots(bytes, op == PEER_BW_SPREAD);
	double begin_s = 0, used_s = 0;
	floats memory(bytes * slots), word(sizeof(float));
	auto answer = context->createUnboundBuffer(word.first, 1);
	buffers walk; /* Gloo's buffers, at least one for each message in flight */

	for (unsigned i = 0; i < std::max(slots, rate_window); i++)
		walk.push_back(context->createUnboundBuffer(
			reinterpret_cast<char *>(memory.first) + bytes * (i % slots), bytes));
	wait_for_all();
	for (unsigned round = 0; round < rounds + warm; round++) {
		if (round == warm) {
			begin_s = peer_now_s();
			used_s = peer_cpu_s();
		}
		move_window(walk, (size_t)round * window, window, *answer);
	}
	begin_s = peer_now_s() - begin_s;
	used_s = reduce_number(peer_cpu_s() - used_s, tag_sum, sum_of);
	if (this_rank == 0)
		peer_print_stream(op, bytes, (uint64_t)window * rounds, begin_s, used_s);
}

double time_calls(const std::function<void()> &call_once, unsigned calls)
{
	double begin_s;

	wait_for_all();
	begin_s = peer_now_s();
	for (unsigned i = 0; i < calls; i++)
		call_once();
	return (peer_now_s() - begin_s) / calls;
}

void time_coll(enum peer_coll coll, uint64_t bytes, const std::function<void()> &call_once)
{
	double each_s, used_s;
	unsigned calls;

	call_once();
	each_s = reduce_number(time_calls(call_once, 3), tag_most, greater_of);
	calls = peer_calls(each_s); /* the same at all ranks */
	used_s = peer_cpu_s();
	each_s = time_calls(call_once, calls);
	used_s = reduce_number(peer_cpu_s() - used_s, tag_sum, sum_of);
	each_s = reduce_number(each_s, tag_most, greater_of);
	if (this_rank == 0)
		peer_print_coll(coll, ranks, bytes, calls, each_s, used_s);
}

/* Every element was 1, so each sum is the number of ranks. */
void check_sum(const floats &out)
{
	for (size_t i = 0; i < out.count; i++)
		if (out.first[i] < (float)ranks || out.first[i] > (float)ranks)
			peer_end(1, "allreduce: element %zu is %g, not %d", i, (double)out.first[i],
				 ranks);
}

void run_allreduce(uint64_t bytes)
{
	floats in(bytes), out(bytes);

	time_coll(PEER_ALLREDUCE, bytes, [&] {
		gloo::AllreduceOptions options(context);

		options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
		options.setInput(in.first, in.count);
		options.setOutput(out.first, out.count);
		options.setReduceFunction(static_cast<reduction>(
			[](void *to, const void *a, const void *b, size_t count) {
				gloo::sum<float>(to, a, b, count);
			}));
		gloo::allreduce(options);
	});
	check_sum(out);
}

void run_allgather(uint64_t bytes)
{
	floats in(bytes), out(bytes * ranks);

	time_coll(PEER_ALLGATHER, bytes, [&] {
		gloo::AllgatherOptions options(context);

		options.setInput(in.first, in.count);
		options.setOutput(out.first, out.count);
		gloo::allgather(options);
	});
}

/* Gloo has only an older form of this one, which reduces in place. */
void run_reduce_scatter(uint64_t bytes)
{
	floats memory(bytes * ranks);
	std::vector<int> each(ranks, static_cast<int>(bytes / sizeof(float)));
	gloo::ReduceScatterHalvingDoubling<float> algorithm(context, { memory.first },
							    static_cast<int>(memory.count), each);

	time_coll(PEER_REDUCE_SCATTER, bytes, [&] { algorithm.run(); });
}

void run_alltoall(uint64_t bytes)
{
	floats in(bytes), out(bytes);

	time_coll(PEER_ALLTOALL, bytes, [&] {
		gloo::AlltoallOptions options(context);

		options.setInput(in.first, in.count / ranks * ranks);
		options.setOutput(out.first, out.count / ranks * ranks);
		gloo::alltoall(options);
	});
}

void run_bcast(uint64_t bytes)
{
	floats memory(bytes);

	time_coll(PEER_BCAST, bytes, [&] {
		gloo::BroadcastOptions options(context);

		options.setOutput(memory.first, memory.count);
		options.setRoot(0);
		gloo::broadcast(options);
	});
}

void run_all()
{
	static void (*const runs[PEER_UNROOTED])(uint64_t) = { run_allreduce, run_allgather,
							       run_reduce_scatter, run_alltoall,
							       run_bcast };
	const struct peer_settings *settings = &peer_settings;
	unsigned ops = ranks == 2 ? settings->ops : 0;

	for (unsigned i = 0; (ops & PEER_LAT) != 0 && i < settings->lat.count; i++)
		time_echoes(settings->lat.bytes[i]);
	for (enum peer_op op : { PEER_BW, PEER_BW_SPREAD })
		for (unsigned i = 0; (ops & op) != 0 && i < settings->bw.count; i++)
			time_stream(op, settings->bw.bytes[i]);
	if ((ops & PEER_RATE) != 0)
		time_stream(PEER_RATE, PEER_RATE_BYTES);
	for (int coll = 0; coll < PEER_UNROOTED; coll++) {
		const struct bench_sizes *sizes = &settings->coll[coll];

		for (unsigned i = 0; (settings->colls >> coll & 1) != 0 && i < sizes->count; i++)
			runs[coll](sizes->bytes[i]);
	}
}

void meet_all(const char *folder, const char *interface)
{
	gloo::transport::tcp::attr attributes;
	gloo::rendezvous::FileStore store(folder);

	attributes.iface = interface;
	attributes.ai_family = AF_INET;
	auto device = gloo::transport::tcp::CreateDevice(attributes);
	context = std::make_shared<gloo::rendezvous::Context>(this_rank, ranks);
	context->connectFullMesh(store, device);
}

/* Reads a small number with nothing behind it; -1: it is none. */
int parse_rank(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	return end == text || *end != '\0' || value < 0 || value > 1024 ? -1
									: static_cast<int>(value);
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 5) {
		fprintf(stderr, "usage: peer-gloo RANK RANKS EMPTY-FOLDER INTERFACE [OP...]\n");
		return 2;
	}
	this_rank = parse_rank(argv[1]);
	ranks = parse_rank(argv[2]);
	if (ranks < 2 || this_rank < 0 || this_rank >= ranks)
		peer_end(2, "'%s' of '%s' is no rank of two or more", argv[1], argv[2]);
	peer_begin(this_rank, argc - 5, argv + 5, PEER_UNROOTED);
	try {
		meet_all(argv[3], argv[4]);
		run_all();
		wait_for_all();
	} catch (const std::exception &wrong) {
		peer_end(1, "%s", wrong.what());
	}
	return 0;
}
