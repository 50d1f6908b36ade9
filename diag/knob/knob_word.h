/*
 * knob_word.h - knobs whose value is one of a few words. Each list makes an enum, in the order in
 * which messages name the words.
 */
#ifndef TWI_KNOB_WORD_H
#define TWI_KNOB_WORD_H

#define TWI_KNOB_ENUM(id, word) id,

/* What a full pool does (memreg/pool/exhaust.c); who waits does so in transport/op/alloc.c. */
#define TWI_EXHAUST_MAP(X)                                                                         \
	X(TWI_EXHAUST_FAIL, "fail")                                                                \
	X(TWI_EXHAUST_GROW, "grow") /* one extent more: a late registration */                     \
	X(TWI_EXHAUST_COPY, "copy") /* memory outside the pool, which may have to be copied */     \
	X(TWI_EXHAUST_WAIT, "wait") /* as FAIL for the pool: whoever allocates asks again */
enum twi_exhaust { TWI_EXHAUST_MAP(TWI_KNOB_ENUM) TWI_EXHAUST_COUNT };

/* Whether large payloads go by zero-copy send. AUTO: where a trial shows that it saves the copy. */
#define TWI_ZEROCOPY_MAP(X)                                                                        \
	X(TWI_ZEROCOPY_AUTO, "auto")                                                               \
	X(TWI_ZEROCOPY_ALWAYS, "always")                                                           \
	X(TWI_ZEROCOPY_NEVER, "never")
enum twi_zerocopy { TWI_ZEROCOPY_MAP(TWI_KNOB_ENUM) TWI_ZEROCOPY_COUNT };

/* What moves connections. AUTO: io_uring where it is to be had. */
#define TWI_POLLER_MAP(X)                                                                          \
	X(TWI_POLLER_AUTO, "auto")                                                                 \
	X(TWI_POLLER_URING, "io_uring")                                                            \
	X(TWI_POLLER_EPOLL, "epoll")
enum twi_poller_choice { TWI_POLLER_MAP(TWI_KNOB_ENUM) TWI_POLLER_COUNT };

#endif
