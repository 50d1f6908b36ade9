/*
 * test_memory_faults.c - a runtime whose pool grows or goes outside, that registers, deregisters,
 * registers late and sends all of it, while one call of the kernel's or of libc's fails: whichever
 * it is, what arrives is right, what fails says why, nothing is left behind and nothing hangs.
 *
 * What fails while a runtime opens and connects is test_runtime_faults.c's; here the fault is armed
 * after that.
 */
#include "fault_net.h"
#include "pair.h"

#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include <towline/towline.h>

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/sim/loop_nic.h"

#define SECOND 1000000000ull
#define MIB    ((uint64_t)1 << 20)
#define BYTES  (300u << 10)

/* The rest of the calls: of these, only the ones that are named here fail. */
enum own_fault {
	OWN_USERFAULTFD,
	OWN_CLONE_BUFFERS,
	OWN_IOCTL,
	OWN_ALIGNED,
	OWN_REALLOC,
	OWN_NONE
};

static const char *const own_names[] = { "userfaultfd", "io_uring_register", "ioctl of it",
					 "aligned_alloc", "realloc" };

static _Atomic int own_call = OWN_NONE;
static _Atomic int own_left;

static bool own_now(enum own_fault call)
{
	return atomic_load(&own_call) == (int)call && atomic_fetch_sub(&own_left, 1) == 1;
}

static void own_arm(enum own_fault call, int nth)
{
	atomic_store(&own_left, nth);
	atomic_store(&own_call, (int)call);
}

static bool own_off(void)
{
	atomic_store(&own_call, OWN_NONE);
	return atomic_load(&own_left) <= 0;
}

static bool system_call_fails(long number)
{
	if (!(number == SYS_userfaultfd && own_now(OWN_USERFAULTFD)) &&
	    !(number == SYS_io_uring_register && own_now(OWN_CLONE_BUFFERS)))
		return false;
	errno = number == SYS_userfaultfd ? EPERM : ENOMEM;
	return true;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if ((request == UFFDIO_API || request == UFFDIO_REGISTER || request == UFFDIO_ZEROPAGE ||
	     request == UFFDIO_UNREGISTER) &&
	    own_now(OWN_IOCTL)) {
		errno = ENOMEM;
		return -1;
	}
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

#ifndef TWT_SANITIZED
extern void *__libc_memalign(size_t align, size_t bytes);
extern void *__libc_realloc(void *p, size_t bytes);

void *aligned_alloc(size_t align, size_t bytes)
{
	if (own_now(OWN_ALIGNED)) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_memalign(align, bytes);
}

void *realloc(void *p, size_t bytes)
{
	if (own_now(OWN_REALLOC)) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_realloc(p, bytes);
}
#endif

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_peer *from[2], *to[2]; /* tcp, loop as a NIC */
static const char *armed;

/* What failed has said why. */
static int failed(const char *call, int status)
{
	if (status < 0 && tow_error_message()[0] == '\0')
		fail_msg("%s with %s: %s without a message", call, armed, tow_status_name(status));
	return status;
}

/* A wait that fails has not ended the operation: it ends by its deadline, or the peer's. */
static int wait_and_drive(struct tow_op *op, struct tow_result *result)
{
	if (tow_op_wait(op, 20 * SECOND) == TOW_ETIMEDOUT)
		fail_msg("%s: an operation with a deadline does not end", armed);
	return twt_finish_driving(op, result, &runtime, 1);
}

static void join(const char *here, const char *there, int at)
{
	struct tow_endpoint *one, *other;
	struct tow_op *connect, *accept;
	char address[TOW_ADDRESS_MAX];
	struct tow_result result;

	assert_int_equal(tow_endpoint_open(runtime, here, &one), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, there, &other), TOW_OK);
	assert_int_equal(tow_endpoint_address(other, address, sizeof(address)), TOW_OK);
	assert_int_equal(tow_accept_start(other, NULL, &accept), TOW_OK);
	assert_int_equal(tow_connect_start(one, address, NULL, &connect), TOW_OK);
	assert_int_equal(wait_and_drive(connect, &result), TOW_OK);
	from[at] = result.peer;
	assert_int_equal(wait_and_drive(accept, &result), TOW_OK);
	to[at] = result.peer;
}

static void open_all(const char *exhaust)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 4 << 20;
	options.premap_limit_bytes = 32 << 20;
	options.staging_bytes = 512 << 10;
	options.stats = 0;
	options.max_ops = 64;
	options.exhaust = exhaust;
	options.zerocopy = "always";
	options.eager_max_bytes = 1024;
	if (tow_runtime_open(&options, &runtime) != TOW_OK)
		fail_msg("open: %s", tow_error_message());
	engine = twi_runtime_engine(runtime);
	assert_int_equal(twi_loop_nic_attach(engine, NULL, NULL), TOW_OK);
	join("tcp://127.0.0.1:0", "tcp://127.0.0.1:0", 0);
	join("loop://here", "loop://there", 1);
	assert_int_equal(tow_runtime_seal(runtime), TOW_OK);
}

/* One message on each lane, small and large; what is said to have come has come. */
static int messages(uint8_t *out, uint8_t *in, int seed)
{
	struct tow_op_options soon = TOW_OP_OPTIONS_INIT;
	int first = TOW_OK;

	soon.timeout_ns = SECOND / 2;
	for (int i = 0; i < 4; i++) {
		uint64_t bytes = i < 2 ? BYTES : 700;
		struct tow_op *send, *recv = NULL;
		struct tow_result result;
		int status, other;

		memset(out, seed + i, bytes);
		memset(in, 0, bytes);
		if (i < 2) /* the small ones come unexpected */
			assert_int_equal(tow_recv_start(to[i % 2], in, bytes, 1, &soon, &recv),
					 TOW_OK);
		assert_int_equal(tow_send_start(from[i % 2], out, bytes, 1, &soon, &send), TOW_OK);
		for (int j = 0; i >= 2 && j < 50; j++)
			tow_progress(runtime);
		if (i >= 2)
			assert_int_equal(tow_recv_start(to[i % 2], in, bytes, 1, &soon, &recv),
					 TOW_OK);
		status = wait_and_drive(send, &result);
		other = wait_and_drive(recv, &result);
		if (other == TOW_OK)
			assert_memory_equal(in, out, bytes);
		if (failed("message", status < 0 ? status : other) < 0)
			first = status < 0 ? status : other;
	}
	return first;
}

static uint8_t *map(void)
{
	/* not by mmap(), which is what may fail */
	void *at = (void *)syscall(SYS_mmap, NULL, BYTES + 4096, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

static int registered(uint8_t *pool)
{
	uint8_t *own = map();
	uint64_t handle;
	int status = failed("register", tow_mem_register(runtime, own, BYTES, &handle)), other;

	if (status < 0)
		assert_int_equal(handle, 0);
	other = messages(own, pool, 10);
	for (int i = 0; handle != 0 && i < 10000; i++) {
		status = tow_mem_deregister(runtime, handle);
		if (status != TOW_EBUSY)
			break;
		tow_progress(runtime); /* notifications */
		usleep(100);
	}
	if (handle != 0)
		assert_int_equal(status, TOW_OK);
	munmap(own, BYTES + 4096);
	return status < 0 ? status : other;
}

/* Unregistered both ways: registered late, or copied. */
static int late(void)
{
	uint8_t *out = map(), *in = map();
	int status = messages(out, in, 20);

	munmap(out, BYTES + 4096);
	munmap(in, BYTES + 4096);
	return status;
}

static int full(void)
{
	void *filler[16] = { NULL }, *out = NULL, *in = NULL;
	int status = TOW_OK, other = TOW_OK;

	for (int i = 0; i < 16 && status == TOW_OK; i++)
		status = failed("alloc", tow_alloc(runtime, 600u << 10, 0, &filler[i]));
	if (tow_alloc(runtime, BYTES, 0, &out) == TOW_OK &&
	    tow_alloc(runtime, BYTES, 0, &in) == TOW_OK)
		other = messages(out, in, 30);
	assert_int_equal(tow_free(runtime, out), TOW_OK);
	assert_int_equal(tow_free(runtime, in), TOW_OK);
	for (int i = 0; i < 16; i++)
		assert_int_equal(tow_free(runtime, filler[i]), TOW_OK);
	return status < 0 ? status : other;
}

static void *drive(void *arg)
{
	(void)arg;
	tow_progress(runtime);
	return NULL;
}

/* All of it, with the fault on; then the peers and the pool are as they were. */
static bool live(const char *exhaust, void (*arm)(int call, int nth), bool (*off)(void), int call,
		 int nth)
{
	struct twi_pool_stats stats;
	pthread_t thread;
	int bad = 0;
	void *pool;
	bool hit;

	open_all(exhaust);
	assert_int_equal(tow_alloc(runtime, BYTES, 0, &pool), TOW_OK);
	arm(call, nth);
	bad += registered(pool) < 0;
	bad += full() < 0;
	if (pthread_create(&thread, NULL, drive, NULL) == 0) /* one ring more, which clones */
		pthread_join(thread, NULL);
	bad += late() < 0;
	hit = off();
	if (!hit)
		assert_int_equal(bad, 0);
	assert_int_equal(tow_free(runtime, pool), TOW_OK);
	for (int i = 0; i < 1000; i++) {
		twi_pool_stats(engine->pool, &stats);
		if (stats.leased == 0)
			break;
		tow_progress(runtime);
		usleep(1000);
	}
	if (stats.leased != 0 || stats.overflow != 0 || stats.allocations != 1)
		fail_msg("%s %d: left: %llu leased, %llu outside, %llu allocations", armed, nth,
			 (unsigned long long)stats.leased, (unsigned long long)stats.overflow,
			 (unsigned long long)stats.allocations);
	assert_int_equal(twi_loop_nic_refused(engine), 0);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
	return hit;
}

static int all_of(const char *name, void (*arm)(int call, int nth), bool (*off)(void), int call)
{
	static const char *const policies[] = { "grow", "copy" };
	int fds = twt_fd_count(), maps = twt_map_count("memfd:");
	int calls = 0;

	armed = name;
	for (int i = 0; i < 2; i++) {
		int nth = 1;

		for (; nth < 300 && live(policies[i], arm, off, call, nth); nth++, calls++) {
			if (twt_fd_count() != fds || twt_map_count("memfd:") != maps ||
			    twt_map_count("io_uring") != 0)
				fail_msg("%s %d: left behind: %d descriptors, %d pool maps, %d "
					 "ring maps",
					 name, nth, twt_fd_count() - fds,
					 twt_map_count("memfd:") - maps, twt_map_count("io_uring"));
		}
		assert_true(nth < 300);
	}
	printf("%s: failed at %d places\n", name, calls);
	return calls;
}

/* Calls that must be met; sanitizers keep some for themselves, and then they never fail. */
static void must_meet(int calls, bool own_of_sanitizers)
{
#ifdef TWT_SANITIZED
	assert_true(calls > 0 || own_of_sanitizers);
#else
	(void)own_of_sanitizers;
	assert_true(calls > 0);
#endif
}

static void arm_fault(int call, int nth)
{
	twt_fault_arm((enum twt_fault)call, nth);
}

static void arm_net(int call, int nth)
{
	twt_net_fault_arm((enum twt_net_fault)call, nth);
}

static void arm_own(int call, int nth)
{
	own_arm((enum own_fault)call, nth);
}

static void test_mappings(void **state)
{
	(void)state;
	must_meet(all_of("mmap", arm_fault, twt_fault_off, TWT_MMAP), false);
	must_meet(all_of("memfd_create", arm_fault, twt_fault_off, TWT_MEMFD_CREATE), false);
	must_meet(all_of("ftruncate", arm_fault, twt_fault_off, TWT_FTRUNCATE), false);
	all_of("madvise", arm_fault, twt_fault_off, TWT_MADVISE);
	must_meet(all_of("mlock", arm_fault, twt_fault_off, TWT_MLOCK), false);
	must_meet(all_of("pthread_create", arm_fault, twt_fault_off, TWT_PTHREAD_CREATE), true);
}

static void test_rings(void **state)
{
	(void)state;
	must_meet(all_of("io_uring_register_buffers_update", arm_net, twt_net_fault_off,
			 TWT_URING_BUFFERS),
		  false);
	all_of("io_uring_register_buffers_sparse", arm_net, twt_net_fault_off, TWT_URING_SPARSE);
	must_meet(all_of("io_uring_queue_init", arm_net, twt_net_fault_off, TWT_URING_INIT), false);
	all_of(own_names[OWN_CLONE_BUFFERS], arm_own, own_off, OWN_CLONE_BUFFERS);
}

static void test_watching(void **state)
{
	(void)state;
	all_of(own_names[OWN_USERFAULTFD], arm_own, own_off, OWN_USERFAULTFD);
	all_of(own_names[OWN_IOCTL], arm_own, own_off, OWN_IOCTL);
	all_of("eventfd", arm_net, twt_net_fault_off, TWT_EVENTFD);
}

static void test_allocations(void **state)
{
	(void)state;
	must_meet(all_of("calloc", arm_fault, twt_fault_off, TWT_CALLOC), true);
	must_meet(all_of("malloc", arm_net, twt_net_fault_off, TWT_MALLOC), true);
	must_meet(all_of(own_names[OWN_ALIGNED], arm_own, own_off, OWN_ALIGNED), true);
	all_of(own_names[OWN_REALLOC], arm_own, own_off, OWN_REALLOC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mappings),
		cmocka_unit_test(test_rings),
		cmocka_unit_test(test_watching),
		cmocka_unit_test(test_allocations),
	};

	alarm(200);
	twt_fault_syscall = system_call_fails;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
