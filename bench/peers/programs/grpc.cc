/*
 * grpc.cc - gRPC in C++: unary calls, or streams, with a payload that gRPC need not encode.
 *
 *	peer-grpc server ADDRESS                         IPV4:PORT or unix:PATH; until it is ended
 *	peer-grpc client ADDRESS unary|stream [OP...]    OP of lat, bw, bw_spread, rate
 *
 * Each message is a grpc::ByteBuffer whose slice lies in the caller's memory. The service and the
 * client are what gRPC's generator would write for such messages: the blocking interface, which
 * most users have. A protobuf message with a field of bytes costs one more copy on each side.
 *
 *	unary   lat: half of a call with as many bytes each way; bw, rate: calls without an answer
 *	stream  lat: half of a message each way; bw, rate: one way, until the final answer
 */
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/sync_stream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/peers/programs/peer.h"

namespace
{

using grpc::ByteBuffer;
using grpc::ServerContext;
using grpc::Status;
using grpc::internal::RpcMethod;

constexpr uint64_t stream_most = 10000, iters_most = 3000;
constexpr uint64_t rate_warm = 1000, rate_count = 10000;
constexpr auto echo_name = "/bench.Raw/Echo", sink_name = "/bench.Raw/Sink",
	       cpu_name = "/bench.Raw/Cpu", chat_name = "/bench.Raw/Chat",
	       pour_name = "/bench.Raw/Pour";

char *memory;

ByteBuffer message_of(const char *data, size_t bytes)
{
	grpc::Slice slice(data, bytes, grpc::Slice::STATIC_SLICE);

	return ByteBuffer(&slice, 1);
}

ByteBuffer number_message(double number)
{
	grpc::Slice slice(&number, sizeof(number));

	return ByteBuffer(&slice, 1);
}

double number_in(const ByteBuffer &message)
{
	grpc::Slice slice;
	double number = 0;

	if (!message.DumpToSingleSlice(&slice).ok() || slice.size() != sizeof(number))
		peer_end(1, "an answer of %zu bytes is no number", message.Length());
	memcpy(&number, slice.begin(), sizeof(number));
	return number;
}

class service : public grpc::Service
{
      public:
	service()
	{
		add_unary(echo_name,
			  [](service *, ServerContext *, const ByteBuffer *in, ByteBuffer *out) {
				  *out = *in;
				  return Status::OK;
			  });
		add_unary(sink_name,
			  [](service *, ServerContext *, const ByteBuffer *, ByteBuffer *out) {
				  *out = message_of(nullptr, 0);
				  return Status::OK;
			  });
		add_unary(cpu_name,
			  [](service *, ServerContext *, const ByteBuffer *, ByteBuffer *out) {
				  *out = number_message(peer_cpu_s());
				  return Status::OK;
			  });
		add_streams();
	}

      private:
	using unary = Status (*)(service *, ServerContext *, const ByteBuffer *, ByteBuffer *);

	void add_unary(const char *name, unary answer)
	{
		using handler = grpc::internal::RpcMethodHandler<service, ByteBuffer, ByteBuffer>;

		AddMethod(new grpc::internal::RpcServiceMethod(name, RpcMethod::NORMAL_RPC,
							       new handler(answer, this)));
	}

	void add_streams()
	{
		using chat = grpc::internal::BidiStreamingHandler<service, ByteBuffer, ByteBuffer>;
		using pour =
			grpc::internal::ClientStreamingHandler<service, ByteBuffer, ByteBuffer>;

		AddMethod(new grpc::internal::RpcServiceMethod(
			chat_name, RpcMethod::BIDI_STREAMING,
			new chat(
				[](service *, ServerContext *,
				   grpc::ServerReaderWriter<ByteBuffer, ByteBuffer> *stream) {
					ByteBuffer message;

					while (stream->Read(&message) && stream->Write(message))
						;
					return Status::OK;
				},
				this)));
		AddMethod(new grpc::internal::RpcServiceMethod(
			pour_name, RpcMethod::CLIENT_STREAMING,
			new pour(
				[](service *, ServerContext *,
				   grpc::ServerReader<ByteBuffer> *reader, ByteBuffer *out) {
					ByteBuffer message;

					while (reader->Read(&message))
						;
					*out = message_of(nullptr, 0);
					return Status::OK;
				},
				this)));
	}
};

void must_succeed(const Status &status)
{
	if (!status.ok())
		peer_end(1, "a call has failed: %s", status.error_message().c_str());
}

class client
{
      public:
	client(const std::shared_ptr<grpc::Channel> &to, bool streams)
	    : channel(to), stream(streams), echo(echo_name, RpcMethod::NORMAL_RPC, to),
	      sink(sink_name, RpcMethod::NORMAL_RPC, to), cpu(cpu_name, RpcMethod::NORMAL_RPC, to),
	      chat(chat_name, RpcMethod::BIDI_STREAMING, to),
	      pour(pour_name, RpcMethod::CLIENT_STREAMING, to)
	{
	}

	void time_echoes(uint64_t bytes)
	{
		unsigned count = (unsigned)std::min<uint64_t>(peer_iters(bytes), iters_most);
		unsigned warm = count / 10;
		std::vector<double> each(count);
		grpc::ClientContext context;
		std::unique_ptr<grpc::ClientReaderWriter<ByteBuffer, ByteBuffer>> talk;

		context.set_wait_for_ready(true);
		if (stream)
			talk.reset(grpc::internal::ClientReaderWriterFactory<
				   ByteBuffer, ByteBuffer>::Create(channel.get(), chat, &context));
		for (unsigned i = 0; i < count + warm; i++) {
			double begin_s = peer_now_s();
			ByteBuffer in = message_of(memory, bytes), out;

			if (!stream)
				call_once(echo, in, &out);
			else if (!talk->Write(in) || !talk->Read(&out))
				break;
			if (i >= warm)
				each[i - warm] = (peer_now_s() - begin_s) / 2;
		}
		if (stream) {
			talk->WritesDone();
			must_succeed(talk->Finish());
		}
		peer_print_latency(bytes, each.data(), count);
	}

	void time_stream(enum peer_op op, uint64_t bytes)
	{
		bool rate = op == PEER_RATE;
		uint64_t count = rate ? rate_count : peer_messages(bytes, stream_most);
		unsigned slots = peer_slots(bytes, op == PEER_BW_SPREAD);
		double begin_s, used_s;

		send_messages(bytes, rate ? rate_warm : count / 10 + 1, slots);
		used_s = peer_cpu_s() + server_cpu_s();
		begin_s = peer_now_s();
		send_messages(bytes, count, slots);
		begin_s = peer_now_s() - begin_s;
		used_s = peer_cpu_s() + server_cpu_s() - used_s;
		peer_print_stream(op, bytes, count, begin_s, used_s);
	}

      private:
	std::shared_ptr<grpc::Channel> channel;
	bool stream;
	RpcMethod echo, sink, cpu, chat, pour;

	void call_once(const RpcMethod &method, const ByteBuffer &in, ByteBuffer *out)
	{
		grpc::ClientContext context;

		context.set_wait_for_ready(true);
		must_succeed(grpc::internal::BlockingUnaryCall<ByteBuffer, ByteBuffer>(
			channel.get(), method, &context, in, out));
	}

	double server_cpu_s()
	{
		ByteBuffer out;

		call_once(cpu, message_of(nullptr, 0), &out);
		return number_in(out);
	}

	void send_messages(uint64_t bytes, uint64_t count, unsigned slots)
	{
		ByteBuffer out;
		grpc::ClientContext context;
		std::unique_ptr<grpc::ClientWriter<ByteBuffer>> writer;

		context.set_wait_for_ready(true);
		if (stream)
			writer.reset(grpc::internal::ClientWriterFactory<ByteBuffer>::Create(
				channel.get(), pour, &context, &out));
		for (uint64_t i = 0; i < count; i++) {
			ByteBuffer in = message_of(memory + i % slots * bytes, bytes);

			if (!stream)
				call_once(sink, in, &out);
			else if (!writer->Write(in))
				break;
		}
		if (stream) {
			writer->WritesDone();
			must_succeed(writer->Finish());
		}
	}
};

int serve_calls(const char *address)
{
	service answers;
	grpc::ServerBuilder builder;

	builder.AddListeningPort(address, grpc::InsecureServerCredentials());
	builder.SetMaxReceiveMessageSize(-1);
	builder.SetMaxSendMessageSize(-1);
	builder.RegisterService(&answers);
	std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
	if (server == nullptr)
		peer_end(1, "gRPC cannot listen at '%s'", address);
	server->Wait();
	return 0;
}

int make_calls(const char *address, bool stream)
{
	const struct peer_settings *settings = &peer_settings;
	grpc::ChannelArguments arguments;

	arguments.SetMaxReceiveMessageSize(-1);
	arguments.SetMaxSendMessageSize(-1);
	client calls(
		grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments),
		stream);
	for (unsigned i = 0; (settings->ops & PEER_LAT) != 0 && i < settings->lat.count; i++)
		calls.time_echoes(settings->lat.bytes[i]);
	for (enum peer_op op : { PEER_BW, PEER_BW_SPREAD })
		for (unsigned i = 0; (settings->ops & op) != 0 && i < settings->bw.count; i++)
			calls.time_stream(op, settings->bw.bytes[i]);
	if ((settings->ops & PEER_RATE) != 0)
		calls.time_stream(PEER_RATE, PEER_RATE_BYTES);
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	bool server = argc == 3 && strcmp(argv[1], "server") == 0;
	bool stream = argc >= 4 && strcmp(argv[3], "stream") == 0;

	if (!server && (argc < 4 || strcmp(argv[1], "client") != 0 ||
			(!stream && strcmp(argv[3], "unary") != 0))) {
		fprintf(stderr, "usage: peer-grpc server ADDRESS | client ADDRESS unary|stream "
				"[OP...]\n");
		return 2;
	}
	peer_begin(server ? 1 : 0, server ? 0 : argc - 4, argv + 4, 0);
	if (server)
		return serve_calls(argv[2]);
	memory = static_cast<char *>(peer_walk_memory());
	return make_calls(argv[2], stream);
}
