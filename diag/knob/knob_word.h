/*
 * knob_word.h - lists the words of knobs that take one of a few words. Each list makes an enum, in
 * the order in which messages name the words.
 */
#ifndef TWI_KNOB_WORD_H
#define TWI_KNOB_WORD_H

#define TWI_KNOB_ENUM(id, word) id,

/* What a full pool does (memreg/pool/exhaust.c). Waiting itself is in transport/op/alloc.c. */
#define TWI_EXHAUST_MAP(X)                                                                         \
	X(TWI_EXHAUST_FAIL, "fail")                                                                \
	X(TWI_EXHAUST_GROW, "grow") /* one extent more: a late registration */                     \
	X(TWI_EXHAUST_COPY, "copy") /* memory outside the pool, which may have to be copied */     \
	X(TWI_EXHAUST_WAIT, "wait") /* for the pool as FAIL; the caller asks again */
enum twi_exhaust { TWI_EXHAUST_MAP(TWI_KNOB_ENUM) TWI_EXHAUST_COUNT };

/* Are large payloads sent with zero-copy? AUTO: where a trial shows that this saves the copy. */
#define TWI_ZEROCOPY_MAP(X)                                                                        \
	X(TWI_ZEROCOPY_AUTO, "auto")                                                               \
	X(TWI_ZEROCOPY_ALWAYS, "always")                                                           \
	X(TWI_ZEROCOPY_NEVER, "never")
enum twi_zerocopy { TWI_ZEROCOPY_MAP(TWI_KNOB_ENUM) TWI_ZEROCOPY_COUNT };

/* Which interface moves bytes of connections. AUTO: io_uring where the kernel has it. */
#define TWI_POLLER_MAP(X)                                                                          \
	X(TWI_POLLER_AUTO, "auto")                                                                 \
	X(TWI_POLLER_URING, "io_uring")                                                            \
	X(TWI_POLLER_EPOLL, "epoll")
enum twi_poller_choice { TWI_POLLER_MAP(TWI_KNOB_ENUM) TWI_POLLER_COUNT };

#endif
