/*
 * protobuf_lazy.h - protobuf-c, which is loaded when a trace is first written or read as an XSpace
 * or for Perfetto (diag/base/lazy.h).
 *
 * The code that protoc-c makes calls it by name. protobuf_lazy.c has functions of these names that
 * pass each call on. So that code stays as it is made, and who enters it loads the library first.
 */
#ifndef TWI_PROTOBUF_LAZY_H
#define TWI_PROTOBUF_LAZY_H

/* TOW_OK; TOW_ENOTSUP: it is not there, and why. */
int twi_protobuf_load(void);

#endif
