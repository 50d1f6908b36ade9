/*
 * sharer.h - sharer_one.so and sharer_two.so, plugins that share a runtime (tow_runtime_share).
 */
#ifndef TWT_SHARER_H
#define TWT_SHARER_H

#include <stddef.h>

#include <towline/towline.h>

#define SHARER_WAIT_NS 20000000000ull

/* X(name, what it returns, its parameters): each is a call with the runtime that it has. */
#define TWT_SHARER_MAP(X)                                                                          \
	X(open, int, (const struct tow_options *options, struct tow_runtime **runtime_out))        \
	X(close, int, (void))                                                                      \
	X(message, const char *, (void))                                                           \
	X(alloc, void *, (size_t bytes, int value))                                                \
	X(free, int, (void *memory))                                                               \
	X(listen, int,                                                                             \
	  (const char *address, struct tow_endpoint **endpoint_out,                                \
	   char address_out[TOW_ADDRESS_MAX]))                                                     \
	X(hush, int, (struct tow_endpoint * endpoint))                                             \
	X(accept, int, (struct tow_endpoint * endpoint, struct tow_op * *op_out))                  \
	X(connect, int,                                                                            \
	  (struct tow_endpoint * endpoint, const char *address, struct tow_peer **peer_out))       \
	X(finish, int, (struct tow_op * op, struct tow_peer * *peer_out))                          \
	X(send, int, (struct tow_peer * peer, const void *memory, size_t bytes))                   \
	X(receive_start, int,                                                                      \
	  (struct tow_peer * peer, void *memory, size_t bytes, struct tow_op **op_out))

#define TWT_SHARER_DECLARE(name, type, parameters)                                                 \
	__attribute__((visibility("default"))) type sharer_##name parameters;
TWT_SHARER_MAP(TWT_SHARER_DECLARE)
#undef TWT_SHARER_DECLARE

/* One of the two, as the loader has found it. */
struct twt_sharer {
#define TWT_SHARER_MEMBER(name, type, parameters) type(*name) parameters;
	TWT_SHARER_MAP(TWT_SHARER_MEMBER)
#undef TWT_SHARER_MEMBER
};

#endif
