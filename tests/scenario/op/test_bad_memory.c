/*
 * test_bad_memory.c - payload that cannot be read or written: unmapped, protected, beyond the end
 * of its file, bad from its middle on. That message ends with TOW_EFAULT at both sides; the side
 * whose memory it is names address and range; all others come whole, and the connection stands.
 *
 * What the conformance suite (tests/conformance) does on each lane by itself is done here with what
 * a lane may add: stripes, checksums, zero-copy, staging, another process' memory. Batches are
 * posted at once: good, bad, small, bad, good. The bad ones lie in bad memory at their sender, or
 * at their receiver; the other side has pool memory, or its own.
 *
 * TOW_BAD_LANE=NUMBER tests one lane alone.
 */
#include "twt.h"

#include <sys/mman.h>

#include "beside.h"
#include "duo.h"

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/shm/shm.h"

#define LARGE (2112u << 10) /* in two stripes where there are two streams */
#define SMALL 300u
#define BATCH 5u
enum bad { GOOD, GONE, PROTECTED, SHORT_FILE, HALF, BADS };

static const char *const bad_names[] = { "good", "unmapped", "protected", "short file", "half" };

static const struct lane {
	const char *name, *address;
	bool striped, encrypted, sums, staged, zerocopy;
} lanes[] = {
	{ .name = "tcp in stripes", .address = "tcp://127.0.0.1:0", .striped = true },
	{ .name = "tcp encrypted, in stripes, with checksums",
	  .address = "tcp://127.0.0.1:0",
	  .encrypted = true,
	  .striped = true,
	  .sums = true },
	{ .name = "tcp with checksums", .address = "tcp://127.0.0.1:0", .sums = true },
	{ .name = "tcp with zero-copy sends", .address = "tcp://127.0.0.1:0", .zerocopy = true },
	{ .name = "shm between processes", .address = "shm://*" },
	{ .name = "shm with checksums", .address = "shm://*", .sums = true },
	{ .name = "shm by staging", .address = "shm://*", .staged = true },
	{ .name = "ofi over tcp, with checksums", .address = "ofi://tcp;ofi_rxm", .sums = true },
};

#define LANES (sizeof(lanes) / sizeof(lanes[0]))

struct message {
	struct tow_op *op;
	enum bad bad; /* of this side's memory */
	bool theirs;  /* bad is the other side's memory */
	bool pool;
	size_t bytes;
	uint8_t *at;
	uint64_t tag;
};

static const struct lane *lane;

/* Where nobody else maps anything, and each place once: what was unmapped stays so. */
static void *far_away(void)
{
#ifdef TWT_TSAN
	return NULL;
#else
	static uintptr_t next = 0x200000000000;

	next += 2 * LARGE;
	return (void *)next;
#endif
}

static uint8_t *own_pages(struct message *m, bool write)
{
	int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint8_t *at;

	if (m->bad == SHORT_FILE) {
		fd = memfd_create("bad", 0);
		flags = MAP_SHARED;
		if (fd < 0 || ftruncate(fd, LARGE / 2) != 0)
			abort();
	}
	at = mmap(far_away(), LARGE, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (at == MAP_FAILED)
		abort();
	if (fd >= 0)
		close(fd);
	else
		twt_fill(at, m->bytes, m->tag);
	if (m->bad == GONE)
		munmap(at, LARGE);
	else if (m->bad == HALF)
		munmap(at + LARGE / 2, LARGE / 2);
	else if (m->bad == PROTECTED)
		mprotect(at, LARGE, write ? PROT_READ : PROT_NONE);
	return at;
}

static void start(struct twt_duo *duo, struct tow_peer *peer, struct message *m, bool sends)
{
	if (m->pool && m->bad == GOOD)
		TWT_OK(tow_alloc(duo->side.runtime, m->bytes, 0, (void **)&m->at));
	else
		m->at = own_pages(m, !sends);
	if (sends && m->bad == GOOD)
		twt_fill(m->at, m->bytes, m->tag);
	TWT_OK(sends ? tow_send_start(peer, m->at, m->bytes, m->tag, NULL, &m->op)
		     : tow_recv_start(peer, m->at, m->bytes, m->tag, NULL, &m->op));
}

static bool names_memory(const struct message *m, bool sends)
{
	const char *text = tow_error_message();
	char from[32], to[32];

	snprintf(from, sizeof(from), "at %p to ", (void *)m->at);
	snprintf(to, sizeof(to), "%p", (void *)(m->at + m->bytes));
	return strstr(text, from) != NULL && strstr(text, to) != NULL &&
	       strstr(text, sends ? "cannot be read" : "cannot be written") != NULL;
}

static int message_end(struct twt_duo *duo, struct message *m, bool sends)
{
	int status = twt_finish(m->op, NULL), wrong = 0;
	bool bad = m->bad != GOOD || m->theirs;

	if (status != (bad ? TOW_EFAULT : TOW_OK))
		wrong = 1;
	else if (m->bad != GOOD)
		wrong = !names_memory(m, sends);
	else if (m->theirs)
		wrong = strstr(tow_error_message(), sends ? "cannot write the memory"
							  : "cannot read the memory") == NULL;
	else if (!sends)
		wrong = twt_check(m->at, m->bytes, m->tag);
	if (wrong)
		fprintf(stderr, "%s: %s of %zu bytes, mine is %s, theirs %s: %s: %s\n", lane->name,
			sends ? "send" : "receive", m->bytes, bad_names[m->bad],
			m->theirs ? "bad" : "good", tow_status_name(status),
			status < 0 ? tow_error_message() : "");
	if (m->pool && m->bad == GOOD)
		TWT_OK(tow_free(duo->side.runtime, m->at));
	else if (m->bad != GONE)
		munmap(m->at, m->bad == HALF ? LARGE / 2 : LARGE);
	return wrong;
}

/* One batch, of one direction; `bad` is what the sender's, or the receiver's, memory is. */
struct batch {
	bool sends, bad_sender, pool;
	enum bad bad;
	uint64_t tag;
	struct message messages[BATCH];
};

static void batch_start(struct twt_duo *duo, struct tow_peer *peer, struct batch *batch)
{
	for (unsigned i = 0; i < BATCH; i++) {
		struct message *m = &batch->messages[i];
		bool bad = i % 2 == 1, mine = bad && batch->sends == batch->bad_sender;

		*m = (struct message){ .bad = mine ? batch->bad : GOOD,
				       .theirs = bad && !mine,
				       .pool = batch->pool,
				       .bytes = i == 2 ? SMALL : LARGE - i,
				       .tag = batch->tag + i };
		start(duo, peer, m, batch->sends);
	}
}

static int batch_end(struct twt_duo *duo, struct batch *batch)
{
	int wrong = 0;

	for (unsigned i = 0; i < BATCH; i++)
		wrong += message_end(duo, &batch->messages[i], batch->sends);
	return wrong;
}

/* Batch number n of all: which side sends, whose memory is bad and how, what the other has. */
static struct batch batch_of(unsigned n, bool parent)
{
	return (struct batch){ .sends = (n & 1) == parent,
			       .bad_sender = (n & 2) != 0,
			       .pool = (n & 4) != 0,
			       .bad = GONE + n / 8,
			       .tag = (uint64_t)n * 100 };
}

#define BATCHES (8u * (BADS - 1))

static uint64_t counter(const struct tow_runtime *runtime, enum twi_counter id)
{
	return twi_counter_sum(twi_runtime_engine((struct tow_runtime *)runtime)->diag, id);
}

/* In half of the batches two messages lie in bad memory of this side. */
static int judge(const struct tow_runtime *runtime, uint64_t faults)
{
	uint64_t told = counter(runtime, TWI_C_memory_faults);
	uint64_t broken = counter(runtime, TWI_C_connections_broken);
	uint64_t lost = counter(runtime, TWI_C_peers_lost);

	if (told == faults && broken == 0 && lost == 0)
		return 0;
	fprintf(stderr, "%s: %llu faults of %llu, %llu breaks, %llu peers lost\n", lane->name,
		(unsigned long long)told, (unsigned long long)faults, (unsigned long long)broken,
		(unsigned long long)lost);
	return 1;
}

static int all_batches(struct twt_duo *duo)
{
	bool parent = duo->side.child != 0;
	uint8_t word = 0;
	struct tow_op *op;
	int wrong = 0;

	if (lane->staged) /* as where process_vm_readv is forbidden */
		((struct twi_shm_peer *)(void *)duo->side.peer)->remote_mine = false;
	for (unsigned n = 0; n < BATCHES; n++) {
		struct batch batch = batch_of(n, parent);

		batch_start(duo, duo->side.peer, &batch);
		wrong += batch_end(duo, &batch);
	}
	wrong += judge(duo->side.runtime, BATCHES);
	/* Nobody closes before the other has looked. */
	TWT_OK(tow_recv_start(duo->side.peer, &word, 1, 1, NULL, &op));
	TWT_OK(tow_send_start(duo->side.peer, &word, 1, 1, NULL, NULL));
	TWT_OK(twt_finish(op, NULL));
	return wrong;
}

static void set_options(struct tow_options *options)
{
	options->premap_memory_bytes = 8 << 20;
	options->bulk_streams = lane->striped ? 2 : 1;
	options->checksum_all = lane->sums;
	options->encrypt = lane->encrypted;
	if (lane->encrypted)
		options->job_key = "a key that is long enough for a test";
	if (lane->zerocopy)
		options->zerocopy = "always";
}

/* Over a provider that is not there: no. */
static bool is_there(const struct twt_duo *duo)
{
	struct tow_endpoint *endpoint;
	struct tow_runtime *runtime;
	int status;

	TWT_OK(tow_runtime_open(&duo->parent, &runtime));
	status = tow_endpoint_open(runtime, lane->address, &endpoint);
	TWT_OK(tow_runtime_close(runtime));
	return status == TOW_OK;
}

static void try_lane(size_t which)
{
	struct twt_duo duo;
	int wrong;

	lane = &lanes[which];
	if (getenv("TOW_BAD_LANE") != NULL && (size_t)atoi(getenv("TOW_BAD_LANE")) != which)
		return;
	twt_duo_init(&duo);
	duo.address = lane->address;
	set_options(&duo.parent);
	set_options(&duo.child);
	if (!is_there(&duo)) {
		printf("%s: not to be had here: %s\n", lane->name, tow_error_message());
		return;
	}
	twt_duo_open(&duo, all_batches);
	wrong = all_batches(&duo);
	assert_int_equal(twt_duo_end(&duo), 0);
	assert_int_equal(wrong, 0);
}

static void test_lanes(void **state)
{
	(void)state;
	twt_beside(LANES, 2, try_lane);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lanes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
