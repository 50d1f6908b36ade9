/*
 * raw_ring.c - two processes that spin on a ring of slots each way: one copy in, one copy out.
 *
 *	flags of the slots, a cache line each | slots of 32 KiB
 *
 * The sender may write a slot whose flag is 0, and then sets the flag. The receiver may read a slot
 * whose flag is 1, and then clears the flag. Each side has its own index of the next slot.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/peers/programs/exchange.h"
#include "bench/peers/programs/peer.h"
#include "bench/peers/programs/raw.h"

#define SLOT_BYTES ((size_t)32 << 10)
#define SLOTS      16u
#define LOOKS      (1u << 20) /* spins without a message, until the other process is checked */

struct ring {
	struct {
		_Alignas(64) atomic_uint full;
	} flags[SLOTS];
	_Alignas(4096) char slots[SLOTS][SLOT_BYTES];
};

static struct ring *outward, *inward;
static unsigned next_out, next_in;
static pid_t parent; /* in the child: it ends when this process ends */

/* Spins until the flag has the wanted value. The acquire pairs with flip_flag's release. */
static void await_flag(atomic_uint *flag, unsigned wanted)
{
	for (unsigned looks = 0; atomic_load_explicit(flag, memory_order_acquire) != wanted;) {
		if (++looks < LOOKS)
			continue;
		looks = 0;
		if (parent != 0 ? getppid() != parent : waitpid(-1, NULL, WNOHANG) != 0)
			peer_end(1, "the other process has ended");
	}
}

static void flip_flag(atomic_uint *flag, unsigned value)
{
	atomic_store_explicit(flag, value, memory_order_release);
}

static void ring_send(const void *data, size_t bytes)
{
	const char *at = data;

	do {
		size_t piece = bytes < SLOT_BYTES ? bytes : SLOT_BYTES;
		atomic_uint *flag = &outward->flags[next_out].full;

		await_flag(flag, 0);
		memcpy(outward->slots[next_out], at, piece);
		flip_flag(flag, 1);
		next_out = (next_out + 1) % SLOTS;
		at += piece;
		bytes -= piece;
	} while (bytes > 0);
}

static void ring_receive(void *data, size_t bytes)
{
	char *at = data;

	do {
		size_t piece = bytes < SLOT_BYTES ? bytes : SLOT_BYTES;
		atomic_uint *flag = &inward->flags[next_in].full;

		await_flag(flag, 1);
		memcpy(at, inward->slots[next_in], piece);
		flip_flag(flag, 0);
		next_in = (next_in + 1) % SLOTS;
		at += piece;
		bytes -= piece;
	} while (bytes > 0);
}

static const struct exchange raw_ring = { ring_send, ring_receive };

static _Noreturn void serve_ring(struct ring *rings, int count, char *const *ops, pid_t forked_by)
{
	parent = forked_by;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	peer_begin(1, count, ops, 0);
	outward = &rings[1];
	inward = &rings[0];
	exchange_serve(&raw_ring);
	_exit(0);
}

int raw_ring_run(int count, char *const *ops)
{
	struct ring *rings = mmap(NULL, 2 * sizeof(*rings), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t self = getpid(), child;
	int status;

	if (rings == MAP_FAILED)
		peer_end(1, "there is no memory for two rings: %s", strerror(errno));
	memset(rings, 0, 2 * sizeof(*rings)); /* so that its pages are faulted in */
	peer_begin(0, count, ops, 0);
	child = fork();
	if (child < 0)
		peer_end(1, "fork: %s", strerror(errno));
	if (child == 0)
		serve_ring(rings, count, ops, self);
	outward = &rings[0];
	inward = &rings[1];
	exchange_drive(&raw_ring);
	if (waitpid(child, &status, 0) != child || status != 0)
		peer_end(1, "the server has failed");
	return 0;
}
