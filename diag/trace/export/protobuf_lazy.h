/*
 * protobuf_lazy.h - loads protobuf-c when a trace is first written or read as an XSpace, or written
 * for Perfetto (diag/base/lazy.h).
 *
 * The code that protoc-c generates calls the library by name. protobuf_lazy.c has functions of
 * these names, which pass each call on. So the generated code is unchanged, but its callers load
 * the library first.
 */
#ifndef TWI_PROTOBUF_LAZY_H
#define TWI_PROTOBUF_LAZY_H

/* TOW_OK. TOW_ENOTSUP: the library cannot be loaded; the message says why. */
int twi_protobuf_load(void);

#endif
