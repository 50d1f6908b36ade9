/*
 * status.h - every status that a Towline call can return, in one list.
 *
 * Negative: failure, forwarded unchanged, with a message of the calling thread (tow_error_message)
 * that says what, where and what to do. Zero: done. Positive: an outcome that the caller must look
 * at. TOW_STATUS_MAP is the only list; code, help text and docs are made from it.
 */
#ifndef TOWLINE_STATUS_H
#define TOWLINE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, what it means) */
#define TOW_STATUS_MAP(X)                                                                          \
	X(TOW_OK, 0, "done")                                                                       \
	X(TOW_AGAIN, 1, "not finished yet; ask again")                                             \
	X(TOW_COPIED, 2, "done, but the payload was copied where the lane's design needs no copy") \
	X(TOW_EINVAL, -1, "an argument, option or environment variable is not valid")              \
	X(TOW_ENOMEM, -2, "the system has no memory left for the request")                         \
	X(TOW_EEXHAUSTED, -3, "the premapped pool has no room of that size")                       \
	X(TOW_EFOREIGN, -4, "the pointer does not belong to this runtime's pool")                  \
	X(TOW_EFREED, -5, "the memory is not allocated, or was freed before")                      \
	X(TOW_ENOTSUP, -6, "this system or build does not support the request")                    \
	X(TOW_EPERM, -7, "the system does not permit the request")                                 \
	X(TOW_ESYSTEM, -8, "a system call failed")                                                 \
	X(TOW_EBUSY, -9, "a bounded resource is in use; end or release something first")           \
	X(TOW_EREFUSED, -10, "nothing listens at that address, or the peer refused")               \
	X(TOW_EPEER, -11, "the peer has gone or the connection broke")                             \
	X(TOW_EPROTOCOL, -12, "the peer sent bytes that break the protocol")                       \
	X(TOW_EDEADLINE, -13, "the deadline passed first")                                         \
	X(TOW_ECANCELED, -14, "canceled by tow_op_cancel")                                         \
	X(TOW_ECLOSED, -15, "closed on this side, before the call or during the operation")        \
	X(TOW_ETRUNCATED, -16, "the message is longer than the posted buffer")                     \
	X(TOW_EFORKED, -17, "called in a forked child, which owns no runtime")                     \
	X(TOW_EZEROCOPY, -18, "require_zero_copy: memory would be copied or registered late")      \
	X(TOW_EDEVICE, -19, "the device has failed, or refused the request")                       \
	X(TOW_EAUTH, -20, "the other side has another job key, or none where one is needed")       \
	X(TOW_ECORRUPT, -21, "the payload's checksum is not the one that its sender computed")     \
	X(TOW_EMISMATCH, -22, "ranks of one job disagree")                                         \
	X(TOW_EREMOTE, -23, "the handler on the other side failed")                                \
	X(TOW_ETIMEDOUT, -24, "the wait's time is over; the operation goes on")                    \
	X(TOW_EFAULT, -25, "memory of the payload, here or at the peer, cannot be accessed")       \
	X(TOW_EABORTED, -26, "the group was aborted, here or at another rank")

/* What a call returns. */
enum tow_status {
#define TOW_STATUS_ENUM(name, value, text) name = value,
	TOW_STATUS_MAP(TOW_STATUS_ENUM)
#undef TOW_STATUS_ENUM
		TOW_STATUS_END = 3 /* one past the largest; never returned */
};

/*
 * The name of a status, "TOW_EINVAL"; "TOW_UNKNOWN" for a number that is none.
 * Ownership: the string is static.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
const char *tow_status_name(int status);

/*
 * What a status means in general, one line. tow_error_message says what happened in particular.
 * Ownership: the string is static.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 */
const char *tow_status_text(int status);

/*
 * The message of the last failure in the calling thread: what failed, with which value, and the
 * line that mends it. Empty when nothing has failed yet; a call that succeeds neither clears nor
 * changes it, whatever has failed meanwhile that it could do without, or that is for others to
 * hear. The failure of an operation becomes the thread's when tow_op_wait or tow_op_test returns
 * it, and for the callback of the operation, whichever thread drove; struct tow_result has it too.
 * Ownership: the library's; valid until the next failing call of this thread.
 * Copies: none.
 * Blocks: never.
 * Threads: any; each has its own.
 */
const char *tow_error_message(void);

#ifdef __cplusplus
}
#endif
#endif
