/*
 * protobuf_lazy.c - passes the calls of protoc-c's code on to protobuf-c. See protobuf_lazy.h.
 */
#include "diag/trace/export/protobuf_lazy.h"

#include <protobuf-c/protobuf-c.h>

#include <internal/base.h>

#include "diag/base/lazy.h"

/* The initial value of strings. Readers recognise it by its being empty, not by its address. */
const char protobuf_c_empty_string[] = "";

static struct {
	__typeof__(&protobuf_c_message_free_unpacked) free_unpacked;
	__typeof__(&protobuf_c_message_get_packed_size) get_packed_size;
	__typeof__(&protobuf_c_message_pack) pack;
	__typeof__(&protobuf_c_message_pack_to_buffer) pack_to_buffer;
	__typeof__(&protobuf_c_message_unpack) unpack;
} loaded;

int twi_protobuf_load(void)
{
	static const struct twi_lazy_symbol symbols[] = {
		{ "protobuf_c_message_free_unpacked", &loaded.free_unpacked },
		{ "protobuf_c_message_get_packed_size", &loaded.get_packed_size },
		{ "protobuf_c_message_pack", &loaded.pack },
		{ "protobuf_c_message_pack_to_buffer", &loaded.pack_to_buffer },
		{ "protobuf_c_message_unpack", &loaded.unpack },
	};
	static struct twi_lazy library = {
		.file = TWI_PROTOBUF_FILE,
		.use = "a trace as XSpace or for Perfetto",
		.symbols = symbols,
		.symbol_count = twi_array_count(symbols),
	};

	return twi_lazy_load(&library);
}

void protobuf_c_message_free_unpacked(ProtobufCMessage *message, ProtobufCAllocator *allocator)
{
	loaded.free_unpacked(message, allocator);
}

size_t protobuf_c_message_get_packed_size(const ProtobufCMessage *message)
{
	return loaded.get_packed_size(message);
}

size_t protobuf_c_message_pack(const ProtobufCMessage *message, uint8_t *out)
{
	return loaded.pack(message, out);
}

size_t protobuf_c_message_pack_to_buffer(const ProtobufCMessage *message, ProtobufCBuffer *buffer)
{
	return loaded.pack_to_buffer(message, buffer);
}

ProtobufCMessage *protobuf_c_message_unpack(const ProtobufCMessageDescriptor *descriptor,
					    ProtobufCAllocator *allocator, size_t bytes,
					    const uint8_t *data)
{
	return loaded.unpack(descriptor, allocator, bytes, data);
}
